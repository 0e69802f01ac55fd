/* Pairs of partitions: rows with one key are in one partition of each side, so that a pair can be joined by itself.
 *
 *     build, part p:  ┌ chunk ┬ chunk ┐┌ chunk ┬ chunk ┐     a piece: as many chunks as a lane may hold, with a table
 *                     └ piece 0 ──────┘└ piece 1 ──────┘
 *     probe, part p:  chunk, chunk, chunk …                  read from its beginning for each piece
 *
 * Mostly there is one piece. One key may have any number of rows, though, and an estimate may have been wrong. Which
 * rows have had a partner is kept as a bit each, where that is asked: of the build side for a piece, of the probe side
 * over all pieces. */
#include "ops/exchange/join_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- which chunks are a partition's ---- */

static int compare_chunks(const void *a_object, const void *b_object)
{
	const struct weir_join_chunk *a = a_object, *b = b_object;

	return (a->part > b->part) - (a->part < b->part);
}

void weir_join_side_sort(struct weir_join_side *side)
{
	if (side->chunks.count)
		qsort(side->chunks.items, side->chunks.count, sizeof(*side->chunks.items), compare_chunks);
}

/* The first chunk of a partition, or where it would be. */
static const struct weir_join_chunk *chunk_of(const struct weir_join_side *side, uint32_t part)
{
	size_t low = 0, high = side->chunks.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (side->chunks.items[middle].part < part)
			low = middle + 1;
		else
			high = middle;
	}
	return side->chunks.items + low;
}

void weir_join_part_figures(const struct weir_join_side *side, uint32_t part, uint64_t *bytes, uint64_t *rows)
{
	const struct weir_join_chunk *end = chunk_of(side, part + 1);

	for (const struct weir_join_chunk *chunk = chunk_of(side, part); chunk < end; chunk++) {
		*bytes += weir_chunk_footprint(chunk->chunk);
		*rows += (uint64_t)chunk->rows;
	}
}

/* ---- one after another ---- */

/* A partition in work. */
struct pair {
	bool is_open;
	uint32_t part, part_end;
	const struct weir_join_chunk *build, *build_end, *probe_begin, *probe, *probe_end; /* chunks that come next */
	bool has_piece, is_last;
	struct weir_join_image image;
	struct weir_join_table table;
	bool has_table;
	uint64_t *build_seen, *probe_seen;
	size_t build_seen_size, probe_seen_size; /* bytes */
	struct weir_join_open open;
	int64_t row;         /* the next of the open one */
	uint64_t row_number; /* in the partition's probe side */
	bool is_at_rest;     /* rows of the build side without a partner are next */
	uint64_t rest;
};

struct weir_join_pairs {
	struct weir_account *account;
	struct weir_join_state *state;
	struct weir_join_probe *probe;
	struct weir_arena arena;
	struct weir_join_keys keys; /* of the build side, while a table is made */
	struct pair pair;
};

int weir_join_pairs_new(struct weir_account *account, struct weir_join_state *state, struct weir_join_probe *probe,
			struct weir_join_pairs **out, struct weir_error *err)
{
	struct weir_join_pairs *pairs = weir_alloc_zero(account, sizeof(*pairs), err);

	if (!pairs)
		return err->code;
	pairs->account = account;
	pairs->state = state;
	pairs->probe = probe;
	weir_arena_init(&pairs->arena, account);
	weir_join_keys_init(&pairs->keys, account, &state->build.key_columns);
	*out = pairs;
	return WEIR_OK;
}

void weir_join_pairs_begin(struct weir_join_pairs *pairs, uint32_t part, uint32_t part_end)
{
	pairs->pair = (struct pair){.part = part, .part_end = part_end};
}

static void piece_close(struct weir_join_pairs *pairs)
{
	struct pair *pair = &pairs->pair;
	struct weir_account *account = pairs->account;

	weir_join_close(&pair->open, account);
	weir_arena_clear(&pairs->arena);
	if (pair->has_table)
		weir_join_table_release(&pair->table);
	pair->has_table = false;
	weir_join_image_release(&pair->image);
	weir_free(account, pair->build_seen, pair->build_seen_size);
	pair->build_seen = NULL;
	pair->build_seen_size = 0;
	pair->has_piece = pair->is_at_rest = false;
}

void weir_join_pairs_close(struct weir_join_pairs *pairs)
{
	struct pair *pair = &pairs->pair;

	piece_close(pairs);
	weir_free(pairs->account, pair->probe_seen, pair->probe_seen_size);
	*pair = (struct pair){0};
}

static void pair_begin(struct weir_join_pairs *pairs)
{
	struct pair *pair = &pairs->pair;
	const struct weir_join_state *state = pairs->state;

	pair->is_open = true;
	pair->build = chunk_of(&state->build, pair->part);
	pair->build_end = chunk_of(&state->build, pair->part + 1);
	pair->probe_begin = chunk_of(&state->probe, pair->part);
	pair->probe_end = chunk_of(&state->probe, pair->part + 1);
}

/* As many of the build side's chunks as may be held, one at least. */
static int piece_open(struct weir_join_pairs *pairs, struct weir_error *err)
{
	struct pair *pair = &pairs->pair;
	struct weir_join_state *state = pairs->state;
	struct weir_account *account = pairs->account;
	uint64_t rows = 0;
	int code = WEIR_OK;

	weir_join_image_init(&pair->image, account, state->build.stored);
	while (pair->build < pair->build_end && !code && pair->image.chunks.count < WEIR_JOIN_CHUNK_ROWS) {
		rows += (uint64_t)pair->build->rows;
		if (pair->image.chunks.count && pair->image.bytes + weir_chunk_footprint(pair->build->chunk) +
								weir_join_table_bytes(&state->build.key_columns, rows) >
							(uint64_t)state->piece_bytes)
			break;
		code = weir_join_image_add(&pair->image, &state->space, pair->build->chunk, err);
		pair->build++;
	}
	if (!code)
		code = weir_join_image_finish(&pair->image, err);
	if (!code && pair->image.chunks.count) {
		code = weir_join_image_index(&pair->image, &pairs->keys, &pairs->arena,
					     &(struct weir_join_part){.rows = rows}, account, &pair->table, err);
		pair->has_table = !code;
	}
	pair->is_last = pair->build == pair->build_end;
	return code;
}

static int seen_new(struct weir_join_pairs *pairs, struct weir_error *err)
{
	struct pair *pair = &pairs->pair;
	struct weir_join_state *state = pairs->state;
	struct weir_account *account = pairs->account;
	uint64_t rows = 0;

	if (state->build.keeps_all && pair->image.chunks.count) {
		pair->build_seen_size = pair->image.chunks.count * WEIR_JOIN_CHUNK_ROWS / 8;
		pair->build_seen = weir_alloc_zero(account, pair->build_seen_size, err);
		if (!pair->build_seen) {
			pair->build_seen_size = 0;
			return err->code;
		}
	}
	if (pair->is_last || pair->probe_seen || (!state->probe.keeps_all && state->gives == WEIR_JOIN_PAIRS))
		return WEIR_OK;
	for (const struct weir_join_chunk *chunk = pair->probe_begin; chunk < pair->probe_end; chunk++)
		rows += (uint64_t)chunk->rows;
	pair->probe_seen_size = (rows / 64 + 1) * 8;
	pair->probe_seen = weir_alloc_zero(account, pair->probe_seen_size, err);
	if (!pair->probe_seen) {
		pair->probe_seen_size = 0;
		return err->code;
	}
	return WEIR_OK;
}

static int piece_begin(struct weir_join_pairs *pairs, struct weir_error *err)
{
	struct pair *pair = &pairs->pair;
	struct weir_join_state *state = pairs->state;
	int code = piece_open(pairs, err);

	pair->has_piece = true;
	if (!code)
		code = seen_new(pairs, err);
	if (code)
		return code;
	pair->probe = pair->probe_begin;
	pair->row = 0;
	pair->row_number = 0;
	pair->rest = 0;
	if (!pair->is_last)
		atomic_fetch_or_explicit(&state->depth, 1, memory_order_relaxed);
	weir_join_probe_set(pairs->probe, &(struct weir_join_against){.image = &pair->image,
								      .tables = &pair->table,
								      .build_seen = pair->build_seen,
								      .probe_seen = pair->probe_seen,
								      .is_last = pair->is_last});
	return WEIR_OK;
}

/* The next vector of the partition's probe side; row_count 0 behind the last. */
static int probe_vector(struct weir_join_pairs *pairs, struct weir_vector *out, uint64_t *first, struct weir_error *err)
{
	struct pair *pair = &pairs->pair;
	uint32_t here;
	int code;

	*out = (struct weir_vector){0};
	while (!pair->open.batch || pair->row == pair->open.batch->row_count) {
		weir_join_close(&pair->open, pairs->account);
		if (pair->probe == pair->probe_end)
			return WEIR_OK;
		code = weir_join_open(&pair->open, pairs->account, &pairs->state->space, pairs->state->probe.stored,
				      pair->probe->chunk, err);
		if (code)
			return code;
		pair->probe++;
		pair->row = 0;
	}
	here = (uint32_t)(pair->open.batch->row_count - pair->row);
	here = here > WEIR_VECTOR_ROWS ? WEIR_VECTOR_ROWS : here;
	weir_arena_clear(&pairs->arena);
	code = weir_vector_from_batch(pair->open.batch, pair->row, here, &pairs->arena, out, err);
	*first = pair->row_number;
	pair->row += here;
	pair->row_number += here;
	return code;
}

/* Whether nothing can come of a partition. */
static bool is_void(const struct weir_join_pairs *pairs)
{
	const struct pair *pair = &pairs->pair;
	const struct weir_join_state *state = pairs->state;
	bool has_build = pair->build < pair->build_end, has_probe = pair->probe_begin < pair->probe_end;

	return (!has_build && !(has_probe && state->probe.keeps_all)) ||
	       (!has_probe && !(has_build && state->build.keeps_all));
}

int weir_join_pairs_next(struct weir_join_pairs *pairs, struct weir_vector *out, enum weir_progress *progress,
			 struct weir_error *err)
{
	struct pair *pair = &pairs->pair;
	uint64_t first = 0;
	int code;

	*progress = WEIR_NEED_INPUT;
	for (;;) {
		*out = (struct weir_vector){0};
		if (!pair->is_open) {
			if (pair->part == pair->part_end) {
				weir_join_pairs_close(pairs);
				return WEIR_OK;
			}
			pair_begin(pairs);
			if (is_void(pairs)) {
				pair->is_open = false;
				pair->part++;
				continue;
			}
		}
		if (!pair->has_piece) {
			code = piece_begin(pairs, err);
			if (code)
				return code;
		}
		if (pair->is_at_rest) {
			code = weir_join_probe_rest(pairs->probe, &pair->rest, out, err);
			if (code || out->row_count)
				return code;
			piece_close(pairs);
			if (pair->build < pair->build_end)
				continue;
			weir_free(pairs->account, pair->probe_seen, pair->probe_seen_size);
			*pair = (struct pair){.part = pair->part + 1, .part_end = pair->part_end};
			continue;
		}
		code = probe_vector(pairs, out, &first, err);
		if (code)
			return code;
		if (!out->row_count) {
			pair->is_at_rest = true;
			if (!pair->build_seen)
				pair->rest = UINT32_MAX;
			continue;
		}
		code = weir_join_probe_push(pairs->probe, out, first, progress, err);
		if (code || *progress != WEIR_NEED_INPUT)
			return code;
	}
}

void weir_join_pairs_free(struct weir_join_pairs *pairs)
{
	if (!pairs)
		return;
	weir_join_pairs_close(pairs);
	weir_join_keys_release(&pairs->keys);
	weir_arena_release(&pairs->arena);
	weir_free(pairs->account, pairs, sizeof(*pairs));
}
