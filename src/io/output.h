/* output: files that appear all at once, complete, or not at all.
 *
 *     begin ─▶ file_new, write, seek-free append, file_close (any thread, many at once) ─▶ commit | abort ─▶ free
 *
 * A target ending in '/' or an existing directory is a folder; anything else is one file. A new or empty folder is
 * written beside its place (in a stage, io/stage.h) and renamed whole; overwrite exchanges folders (RENAME_EXCHANGE)
 * and removes the old one last; append to a folder with files, mount points, the working directory and file systems
 * without rename-exchange rename file by file from a journal (io/journal.h) that the next begin on that folder, or
 * weir_output_recover, finishes or undoes. One file is written beside its place and renamed. Zero files committed
 * create nothing; with overwrite they leave nothing where there was something, but an empty folder where that cannot be
 * moved. Nothing but data files is left in the folder. Leftovers of killed runs (their lock is free) are removed by the
 * next begin beside them. `durable`: fsync files and directories before and after the renames.
 *
 * Threads: file_new, write and close from any, one thread to a file; the rest from one, while no file is open. The
 * account is one that several threads may use.
 */
#ifndef WEIR_IO_OUTPUT_H
#define WEIR_IO_OUTPUT_H

#include "base/mem.h"

enum weir_write_mode { WEIR_MODE_APPEND, WEIR_MODE_OVERWRITE, WEIR_MODE_ERROR, WEIR_MODE_IGNORE };

struct weir_output;
struct weir_output_file;

struct weir_output_options {
	enum weir_write_mode mode; /* see weir_output_begin */
	bool durable;
	bool single_file; /* the target is one file whatever its name looks like */
};

/* mode ERROR: WEIR_E_EXISTS when the folder holds anything or the file exists. IGNORE: then *ignored is true, *out is
 * NULL and nothing is to be written. APPEND to an existing single file is WEIR_E_EXISTS with advice (overwrite, or give
 * a folder). Parent directories are made; abort removes them again. */
int weir_output_begin(struct weir_account *account, const char *target, const struct weir_output_options *options,
		      struct weir_output **out, bool *ignored, struct weir_error *err);
/* A name inside the folder ("part-000012.parquet"; "a=1/part-0.parquet" makes directories), checked against escape. For
 * a single file `name` is ignored and only one may be kept. When it is kept it replaces an earlier file of that name of
 * this output (a split that is redone). */
int weir_output_file_new(struct weir_output *output, const char *name, struct weir_output_file **out,
			 struct weir_error *err);
/* Appends. Buffered by the caller's choice: each call is one write. */
int weir_output_file_write(struct weir_output_file *file, const void *bytes, uint64_t size, struct weir_error *err);
uint64_t weir_output_file_size(const struct weir_output_file *file);
/* Ends it: keep for the commit, or drop. Frees the struct. A file that a write failed on is dropped in any case. */
int weir_output_file_close(struct weir_output_file *file, bool keep, struct weir_error *err);
/* After an error nothing has changed, except that a failed sync of `durable` may come after the renames (the message
 * says so) and that a failed undo leaves its journal to be finished by the next begin (the message says so too). */
int weir_output_commit(struct weir_output *output, struct weir_error *err);
void weir_output_free(struct weir_output *output); /* aborts unless committed; removes every temporary */

/* "" for a fresh folder, else a short random text that new names must carry so that they meet none of the old ones. */
const char *weir_output_name_prefix(const struct weir_output *output);

/* For files that others make: the path of the folder in which they wait for the commit, and how many of them count.
 * What lies there at the commit goes with it, directories too, under the names that it has there. Not for a single
 * file. */
int weir_output_stage_path(const struct weir_output *output, char *out, size_t size, struct weir_error *err);
void weir_output_adopt(struct weir_output *output, uint32_t count);

/* Finishes or undoes what a killed run left beside `target`. */
int weir_output_recover(struct weir_account *account, const char *target, struct weir_error *err);

#endif
