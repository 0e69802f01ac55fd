/* What a read that runs consists of: the source, which cuts files into splits (read_source.c), and lanes, which read
 * them (read_lane.c). */
#ifndef WEIR_OPS_READ_SOURCE_IMPL_H
#define WEIR_OPS_READ_SOURCE_IMPL_H

#include "ops/read_impl.h"

#include <pthread.h>

struct read_piece {
	char *path;                          /* owned */
	struct weir_partition_value *values; /* owned copies, partition_count of them */
	struct weir_format_file *file;       /* NULL: to be opened by the lane, whole */
	bool is_skipped;                     /* it could not be opened, and that has been told */
	struct weir_range range;
	uint64_t bytes_est;
};

struct read_pieces WEIR_LIST(struct read_piece);

struct read_split {
	struct read_pieces pieces;
};

struct read_source {
	struct weir_account *account;
	const struct read_config *config;      /* the plan's */
	const struct weir_schema *schema;      /* of the scanned columns; the plan's */
	struct weir_program *partition_filter; /* the predicate, for what folder names already decide; NULL: none */
	struct read_files files;
	bool files_done;
	struct read_pieces cut; /* pieces waiting to be put into splits */
	size_t cut_next;
	uint64_t target, split_count;
	uint64_t fine; /* what the last splits have, where files count their rows */
	/* decoded, about: of all files, 0 where that is not known; in splits so far */
	uint64_t bytes_total, bytes_given;
	double bytes_per_byte; /* decoded bytes of the scanned columns per byte on disk */
	/* The match of the first file's schema, shared by all files that have it. Made before lanes start. */
	struct read_match *first_match;
	struct weir_format_file *first; /* opened for that; the first file is cut from it */
	_Atomic uint64_t rows_pruned;   /* relaxed: a figure for stats */
	_Atomic bool warned_extra;
	pthread_mutex_t lock; /* guards what follows; rank: nothing is called under it */
	uint64_t skipped_count;
	char skipped_first[512]; /* the first that was left out, and why */
};

/* read_source.c */

/* How the file's columns become the scanned ones: *out is a reference. Called by the source and by lanes. */
int weir_read_match_for(struct read_source *source, const struct weir_format_file *file, const char *path,
			struct read_match **out, struct weir_error *err);
/* A file was left out (--missing skip). One warning at the end tells of all. `source` is a struct read_source. */
void weir_read_skipped(void *source, const struct weir_error *why);
/* How many of a file's rows are in no range, of which there are `rows` in all. 0 if the format does not count rows. */
uint64_t weir_read_rows_left_out(const struct weir_format_file *file, uint64_t rows);

/* read_lane.c: the lane's part of struct weir_source_ops. */

int weir_read_lane_new(void *source, struct weir_lane_context *context, void **out, struct weir_error *err);
void weir_read_lane_free(void *lane);
int weir_read_lane_open(void *lane, void *split, struct weir_error *err);
void weir_read_lane_abort(void *lane);
int weir_read_lane_next(void *lane, struct weir_vector *out, struct weir_error *err);
bool weir_read_lane_needs_confirm(void *lane);
int weir_read_lane_confirm(void *lane, struct weir_error *failure, struct weir_error *err);

#endif
