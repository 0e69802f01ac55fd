/* The two halves of read: what the plan knows (read.c) and what lanes do (read_source.c, read_match.c). */
#ifndef WEIR_OPS_READ_IMPL_H
#define WEIR_OPS_READ_IMPL_H

#include "io/list.h"
#include "ops/ops_impl.h"

/* Files looked at before the first row when nothing needs all of them. */
#define READ_SURVEY_FILES_MAX 1000

struct read_partition {
	const char *name;
	bool is_integer;
};

struct read_config {
	const char *const *paths;
	uint32_t path_count;
	const char *const *column_names; /* --columns */
	uint32_t column_name_count;
	const char *format_name;
	bool unify, hive;
	/* by bind */
	const struct weir_format_ops *format;
	const char *first_path;
	struct read_partition *partitions;
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
	struct weir_read_setup setup;
};

int weir_read_listing(struct weir_account *account, const struct read_config *config, struct weir_listing **out,
		      struct weir_error *err);
int weir_read_open(struct weir_account *account, const struct read_config *config, const char *path,
		   struct weir_format_file **out, struct weir_error *err);
int weir_read_build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		    struct weir_error *err);

/* How one file's columns become the scanned columns. Made once per file; files with the first one's schema share one. */
enum read_how { READ_SAME, READ_CAST, READ_MISSING, READ_PARTITION };

struct read_match {
	_Atomic uint32_t refs;
	struct weir_account *account;
	struct weir_schema *file_schema; /* for which it was made */
	uint32_t column_count;           /* of the vectors that leave the source */
	struct read_match_column {
		enum read_how how;
		uint32_t from;                    /* SAME, CAST: number in the scan; PARTITION: number of the key */
		const struct weir_type *type;     /* borrowed from the plan's schema */
		struct weir_program *cast;        /* CAST of plain types: over the scan's columns */
	} *columns;
	uint32_t *scan_columns; /* in the file's schema */
	struct weir_scan scan;
	struct weir_program *predicate; /* owned; bound to the scan's columns; NULL when some column differs */
};

int weir_read_match_new(struct weir_account *account, const struct read_config *config,
			const struct weir_schema *file_schema, const char *path, struct read_match **out,
			struct weir_error *err);
void weir_read_match_unref(struct read_match *match);

#endif
