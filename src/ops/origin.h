/* origin: where the rows of a chunk were read, for messages about them.
 *
 *     parts   rows 64–99 of a.parquet │ rows 0–27 of b.parquet │ …        in the order of the chunk's rows
 *
 * A part that has more rows in its source than in the chunk has lost some on the way (a filter): which ones, nobody
 * notes. So of any row of the chunk it is known which file it is of, and of most which row there. What a function made
 * has the origin of what it was given, and is not traced: nobody knows which row became which. */
#ifndef WEIR_OPS_ORIGIN_H
#define WEIR_OPS_ORIGIN_H

#include "base/list.h"
#include "base/text.h"

#define WEIR_ORIGIN_PARTS 256 /* of more, the first ones and the last are kept */

struct weir_origin_part {
	size_t name;                 /* where its source's name begins in `names`; an empty one: nobody knows */
	int64_t rows;                /* of the chunk */
	int64_t row_first, row_last; /* in the source; −1: nobody knows */
};

struct weir_origin {
	_Atomic uint32_t refs;
	bool is_traced;
	int64_t rows_between; /* in front of the last part, of parts that were too many */
	struct WEIR_LIST(struct weir_origin_part) parts;
	struct weir_text names;
};

/* An embedded one: traced, and without rows. */
void weir_origin_init(struct weir_origin *origin, struct weir_account *account);
void weir_origin_release(struct weir_origin *origin);
void weir_origin_clear(struct weir_origin *origin);
/* More rows, behind those that are there. `source` NULL or empty: nobody knows. */
int weir_origin_add(struct weir_origin *origin, const char *source, int64_t row_first, int64_t row_last, int64_t rows,
		    struct weir_error *err);
/* All of another one's. */
int weir_origin_append(struct weir_origin *origin, const struct weir_origin *more, struct weir_error *err);
/* A part that lost no rows. */
bool weir_origin_is_whole(const struct weir_origin_part *part);
const char *weir_origin_source(const struct weir_origin *origin, const struct weir_origin_part *part);

/* Shared ones are not changed any more. NULL: nothing is known, also for want of memory. */
struct weir_origin *weir_origin_share(struct weir_account *account, const struct weir_origin *from);
struct weir_origin *weir_origin_ref(struct weir_origin *origin);
void weir_origin_unref(struct weir_origin *origin);
/* The origin of what a function made of such rows. */
struct weir_origin *weir_origin_untraced(struct weir_account *account, struct weir_origin *from);
/* That of rows [first, first + count) of a traced one. */
struct weir_origin *weir_origin_cut(struct weir_account *account, const struct weir_origin *from, int64_t first,
				    int64_t count);

#endif
