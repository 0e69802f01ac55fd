/* join_image: rows of one side of a join in memory: chunks, opened, whose rows are picked in any order.
 *
 * A row's number is that of its chunk and its place in it: chunk × 65,536 + place. */
#ifndef WEIR_OPS_EXCHANGE_JOIN_IMAGE_H
#define WEIR_OPS_EXCHANGE_JOIN_IMAGE_H

#include "arrow/packed.h"
#include "ops/exchange/join_cells.h"
#include "ops/exchange/join_pick.h"
#include "ops/exchange/join_table.h"
#include "ops/exchange/run.h"

#define WEIR_JOIN_CHUNK_ROWS 65536u

/* One that is open. All-zero is none. */
struct weir_join_open {
	struct weir_chunk *pinned;
	uint8_t *copy; /* of one that is on disk */
	size_t copy_size;
	struct weir_batch *batch;
};

/* A chunk of rows of `schema`. */
int weir_join_open(struct weir_join_open *open, struct weir_account *account, struct weir_run_space *space,
		   const struct weir_schema *schema, struct weir_chunk *chunk, struct weir_error *err);
void weir_join_close(struct weir_join_open *open, struct weir_account *account); /* twice is fine */

struct weir_join_image {
	struct weir_account *account;
	const struct weir_schema *schema;
	struct weir_arena arena;
	struct WEIR_LIST(struct weir_join_open) chunks;
	/* By column, then by chunk; behind the last chunk's a column without values: where a row has no partner. */
	const struct weir_column ***sources;
	uint64_t bytes;
	uint64_t value_bytes_max; /* no row has more in texts and nested columns */
};

void weir_join_image_init(struct weir_join_image *image, struct weir_account *account,
			  const struct weir_schema *schema);
int weir_join_image_add(struct weir_join_image *image, struct weir_run_space *space, struct weir_chunk *chunk,
			struct weir_error *err);
int weir_join_image_finish(struct weir_join_image *image, struct weir_error *err); /* after the last was added */
void weir_join_image_release(struct weir_join_image *image);

/* Those rows whose hash begins with the `bits` bits `part`: about so many. */
struct weir_join_part {
	uint32_t bits;
	uint64_t part, rows;
	uint64_t least, span; /* span 0: no slots */
};
/* The least and the greatest of the rows' keys, which are words and whole numbers; *out false: they are not, or too far
 * apart for slots. What is needed meanwhile is in the arena, which is cleared. */
int weir_join_image_range(const struct weir_join_image *image, struct weir_join_keys *keys, struct weir_arena *arena,
			  uint64_t span_max, struct weir_join_part *part, struct weir_error *err);
/* The table of the image's rows. What is needed meanwhile is in the arena, which is cleared. */
int weir_join_image_index(const struct weir_join_image *image, struct weir_join_keys *keys, struct weir_arena *arena,
			  const struct weir_join_part *part, struct weir_account *account, struct weir_join_table *out,
			  struct weir_error *err);
/* The cells of the image's rows; *is_made false: a key is there twice, and there are none. */
int weir_join_image_cells(const struct weir_join_image *image, struct weir_join_keys *keys, struct weir_arena *arena,
			  const struct weir_join_part *part, const struct weir_join_cell_layout *layout,
			  struct weir_account *account, struct weir_join_cells *out, bool *is_made,
			  struct weir_error *err);

#endif
