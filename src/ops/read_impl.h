/* The two halves of read: what the plan knows (read.c) and what runs (read_source.c, read_lane.c,
 * read_match.c). */
#ifndef WEIR_OPS_READ_IMPL_H
#define WEIR_OPS_READ_IMPL_H

#include "io/list.h"
#include "ops/ops_impl.h"

/* Paths looked at before the first row when nothing needs all of them; of files that say their schema, some of these
 * are opened. */
#define READ_SURVEY_FILES_MAX 1000
#define READ_SURVEY_FOOTERS_MAX 16384

struct read_partition {
	const char *name;
	bool is_integer;
	bool reads_integer; /* every value is the text of one */
	bool is_path;       /* not of a folder: the file's own path (--path-column) */
};

struct read_misfits;

/* What columns folders make: those of the listing (key=value below the given path, integers where all are), or those
 * that the whole path has, all text unless said otherwise. */
enum read_paths { READ_PATHS_LISTED, READ_PATHS_HIVE, READ_PATHS_DIR };

struct read_config {
	const char *const *paths;
	uint32_t path_count;
	const char *const *column_names; /* --columns */
	uint32_t column_name_count;
	const char *format_name;
	const char *path_column;
	const struct weir_setting *settings; /* options of formats, as they were given */
	uint32_t setting_count;
	bool unify, hive, skip_missing;
	bool bare;                      /* --no-metadata: of the files' schemas; that of columns stays */
	enum read_paths paths_style;    /* --partition-style */
	const char *paths_base;         /* --partition-base: only what is below counts; NULL: everything */
	const char *const *paths_names; /* --partition-names: of a dir style, or what hive must have */
	uint32_t paths_name_count;
	const char *const *paths_integers; /* --partition-integers */
	uint32_t paths_integer_count;
	/* by bind */
	const struct weir_format_ops *format;
	struct read_misfits *misfits; /* of inferred types; kept with the plan */
	bool widened;                 /* some have been taken into account */
	struct weir_file *input;      /* standard input, for the path "-"; kept with the plan */
	const char *first_path;
	struct read_partition *partitions; /* those of folders, then the path */
	uint32_t partition_count;
	uint64_t files_seen, bytes_seen;
	bool more_files; /* the survey did not see all */
	double decoded_per_byte;
	struct weir_schema *schema; /* of all columns: the files', then partitions */
	/* by bind and rules */
	uint32_t *columns; /* numbers in schema */
	uint32_t column_count;
	bool narrowed;
	struct weir_expr *predicate; /* for pruning; in names */
	int64_t limit;
	int64_t blocks;           /* splits that are wanted at least, if there are rows for them; 0: any number */
	int64_t part, part_count; /* only this part of each file's rows, of so many; part_count 0: all */
	struct weir_read_setup setup;
};

/* read_files.c */

/* The files, one after another: those of the listing, or standard input. All-zero is empty. */
struct read_files {
	const struct read_config *config;
	struct weir_listing *listing;
	bool input_given;
	struct weir_arena arena; /* partitions of the current path, where they are not the listing's */
};
/* `missing` is told of what is left out, when the user wants it left out (--missing skip). Before the format is chosen,
 * `extensions` says what counts in folders (in the arena of whoever calls); NULL: the format's. */
int weir_read_files_init(struct read_files *files, struct weir_account *account, const struct read_config *config,
			 const char *const *extensions, void (*missing)(void *context, const struct weir_error *why),
			 void *context, struct weir_error *err);
/* For those who look at files before the run: it will be told then. */
void weir_read_missing_untold(void *context, const struct weir_error *why);
int weir_read_files_next(struct read_files *files, struct weir_listed *out, bool *done, struct weir_error *err);
void weir_read_files_release(struct read_files *files);

/* True when this failure to open a file only means that the file is left out. */
bool weir_read_may_skip(const struct read_config *config, const struct weir_error *err);
int weir_read_open_file(struct weir_account *account, const struct read_config *config, const char *path,
			struct weir_file **out, struct weir_error *err);
/* The file and its metadata. `unreadable`, when not NULL, tells that the file is to be left out: then *out is NULL and
 * *err says why, without being an error. */
int weir_read_open(struct weir_account *account, const struct read_config *config, const char *path,
		   struct weir_format_file **out, bool *unreadable, struct weir_error *err);
int weir_read_choose_format(struct weir_op_env *env, struct read_config *config, struct weir_error *err);

/* read_paths.c */
int weir_read_paths_parse(struct weir_op_env *env, struct read_config *config, const struct weir_words *words,
			  struct weir_error *err);
int weir_read_paths_save(const struct read_config *config, struct weir_save *save, struct weir_error *err);
int weir_read_paths_load(struct weir_op_env *env, struct read_config *config, struct weir_load *load,
			 struct weir_error *err);
/* Puts the partitions of listed->path into *listed; they live in the arena. */
int weir_read_paths_split(const struct read_config *config, struct weir_arena *arena, struct weir_listed *listed,
			  struct weir_error *err);
bool weir_read_paths_is_integer(const struct read_config *config, const char *name);

/* read.c */
int weir_read_load_strings(struct weir_op_env *env, struct weir_load *load, const char *const **out, uint32_t *count,
			   struct weir_error *err);

/* read_bind.c */
int weir_read_bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err);
/* The scanned columns as a schema of their own, in config->columns order. */
int weir_read_set_schema(struct weir_op_env *env, struct weir_node *node, struct weir_error *err);

/* read_widen.c */

/* The columns of both, each with a type that holds what both hold. */
int weir_read_widen_schema(const struct weir_format_ops *format, struct weir_account *account,
			   const struct weir_schema *a, const struct weir_schema *b, struct weir_schema **out,
			   struct weir_error *err);
int weir_read_misfits_new(struct weir_account *account, struct read_misfits **out, struct weir_error *err);
void weir_read_misfits_free(void *misfits);
void weir_read_misfit(void *misfits, const char *column, const struct weir_type *wider);
/* What the calling thread has noted counts from now on, or is forgotten. */
void weir_read_misfits_settle(struct read_misfits *misfits, bool stand);
/* *schema is replaced by one that is wide enough. */
int weir_read_misfits_apply(struct read_config *config, struct weir_account *account, struct weir_schema **schema,
			    struct weir_error *err);

/* read_source.c */
int weir_read_build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		    struct weir_error *err);

/* How one file's columns become the scanned columns. Made once per file; files with the first one's schema share
 * one. */
enum read_how { READ_SAME, READ_CAST, READ_MISSING, READ_PARTITION };

struct read_match {
	_Atomic uint32_t refs;
	struct weir_account *account;
	struct weir_schema *file_schema; /* for which it was made */
	uint32_t column_count;           /* of the vectors that leave the source */
	struct read_match_column {
		enum read_how how;
		uint32_t from;                  /* SAME, CAST: number in the scan; PARTITION: number of the key */
		const struct weir_type *type;   /* borrowed from the plan's schema */
		const struct weir_field *field; /* the same */
		struct weir_program *cast;      /* CAST of plain types: over the scan's columns */
	} * columns;
	uint32_t *scan_columns; /* in the file's schema */
	struct weir_scan scan;
	struct weir_program *predicate; /* owned; bound to the scan's columns; NULL when some column differs */
};

int weir_read_match_new(struct weir_account *account, const struct read_config *config,
			const struct weir_schema *file_schema, const char *path, struct read_match **out,
			struct weir_error *err);
void weir_read_match_unref(struct read_match *match);

#endif
