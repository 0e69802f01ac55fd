/* file: bytes of input files, read by position, and the few threads that wait for disks.
 *
 * A struct weir_file is open and immutable: any thread may read. A submitted read asks the page cache first
 * (RWF_NOWAIT, on the calling lane); what is not there goes to the I/O threads as submit/complete. Short reads and
 * EINTR are handled, EIO and ESTALE tried READ_ATTEMPTS times with a pause; a file that shrank is WEIR_E_DATA naming
 * it.
 *
 * Threads: a file is freed by whoever drops the last reference, so its account is one that several threads may use. A
 * struct weir_read belongs to one thread, which submits it and waits for it.
 */
#ifndef WEIR_IO_FILE_H
#define WEIR_IO_FILE_H

#include "base/mem.h"

struct weir_io; /* a session's I/O threads, started at first need */
struct weir_file;

/* `thread_count` 0: the default. No thread runs before the first read that the page cache cannot answer. */
int weir_io_new(struct weir_account *account, uint32_t thread_count, struct weir_io **out, struct weir_error *err);
void weir_io_free(struct weir_io *io);                      /* every submitted read has been waited for */
uint32_t weir_io_threads_started(const struct weir_io *io); /* for stats and tests */

/* Regular files only (no FIFO can block us, no directory). O_RDONLY | O_CLOEXEC. */
int weir_file_open(struct weir_account *account, const char *path, struct weir_file **out, struct weir_error *err);
struct weir_file *weir_file_ref(struct weir_file *file);
void weir_file_unref(struct weir_file *file);
const char *weir_file_path(const struct weir_file *file);
uint64_t weir_file_size(const struct weir_file *file);
/* Exactly `size` bytes, or an error with path and offset. */
int weir_file_read(struct weir_file *file, uint64_t offset, void *buffer, uint64_t size, struct weir_error *err);
/* A pipe as a file: read once, from the front, by one stream (io/stream.h). `fd` is duplicated; `name` is its path in
 * messages. A regular file that stands at its first byte (weir < data.csv) becomes an ordinary file instead. */
int weir_file_open_pipe(struct weir_account *account, int fd, const char *name, struct weir_file **out,
			struct weir_error *err);
bool weir_file_is_pipe(const struct weir_file *file); /* then its size is 0 and it cannot be read by position */
/* The first `want` bytes of a pipe, fewer only if it ends before; waits for them. They are kept (io/pipe.h) until
 * the pipe is read. *bytes is valid until the next call. */
int weir_file_head(struct weir_file *file, size_t want, const void **bytes, size_t *got, struct weir_error *err);
/* A wait for a pipe's bytes ends with WEIR_E_CANCELLED soon after *cancelled, which is borrowed; NULL: never. */
void weir_file_watch_pipe(struct weir_file *file, const _Atomic bool *cancelled);
/* From here on nothing more is kept: the next stream reads the pipe, what was kept first. Watches, too. */
int weir_file_begin_pipe(struct weir_file *file, const _Atomic bool *cancelled, struct weir_error *err);
/* What a stream does with a pipe: byte `position` and those behind it, 1 to `size` of them; 0 at the end only. */
int weir_file_read_pipe(struct weir_file *file, uint64_t position, void *buffer, size_t size, size_t *got,
			struct weir_error *err);
/* The whole pipe as an ordinary file, copied to one without a name (io/spool.c). */
int weir_file_spool(struct weir_account *account, struct weir_file *pipe, const _Atomic bool *cancelled,
		    struct weir_file **out, struct weir_error *err);

/* The kernel may read this range ahead. Never fails. */
void weir_file_advise(struct weir_file *file, uint64_t offset, uint64_t size);

/* One read in flight. The struct and the buffer are the caller's and must stay until wait has returned. */
struct weir_read {
	struct weir_file *file;
	uint64_t offset, size;
	void *buffer;
	int code; /* filled by wait */
	struct weir_error error;
	uint64_t done;          /* private: bytes that are there already */
	_Atomic uint32_t state; /* private */
	struct weir_read *next; /* private */
};
void weir_read_submit(struct weir_io *io, struct weir_read *read); /* completes at once when the bytes are cached */
bool weir_read_done(const struct weir_read *read);
int weir_read_wait(struct weir_io *io, struct weir_read *read, struct weir_error *err);

#endif
