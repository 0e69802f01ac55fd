/* Expressions over one dictionary-coded column are evaluated once per value, not once per row.
 *
 *     codes    2 0 2 1 …                     rows of the vector
 *     values   "A" "N" "R"      ─ node ─▶    true  false  true          kept as long as the dictionary's id
 *     result   table[2] table[0] table[2] …
 *
 * A large dictionary is not evaluated for the sake of a few rows: until the rows seen with it come near its size, rows
 * are evaluated as they are, so the work is at most half as much again as the better of the two. An error while
 * evaluating values says nothing about the rows: the dictionary is then marked, and its vectors take the plain way.
 */
#include "expr/program.h"

#include <string.h>

enum cache_state { CACHE_EMPTY, CACHE_READY, CACHE_REFUSED };

struct weir_node_cache {
	struct weir_account *account;
	uint64_t id;
	enum cache_state state;
	uint64_t rows_seen;
	struct weir_arena arena;
	uint8_t *table;   /* a byte a value: bit 0 true, bit 1 not null; for booleans */
	uint8_t *present; /* others: a byte a value, NULL when none became null */
	struct weir_dictionary result;
	bool null_true, null_valid; /* what the node makes of null */
	bool has_nulls;             /* some value became null */
};

void weir_node_cache_free(struct weir_node_cache *cache)
{
	if (!cache)
		return;
	weir_arena_release(&cache->arena);
	weir_free(cache->account, cache, sizeof(*cache));
}

static struct weir_node_cache *cache_of(struct weir_evaluator *evaluator, const struct weir_node *node,
					struct weir_error *err)
{
	struct weir_node_cache **cache = &evaluator->caches[node->number];

	if (!*cache) {
		*cache = weir_alloc_zero(evaluator->account, sizeof(**cache), err);
		if (*cache) {
			(*cache)->account = evaluator->account;
			weir_arena_init(&(*cache)->arena, evaluator->account);
		}
	}
	return *cache;
}

/* Copies one block's results behind those of the blocks before. */
static int block_keep(struct weir_node_cache *cache, const struct weir_node *node, const struct weir_column *column,
		      uint32_t at, uint32_t count, struct weir_error *err)
{
	const struct weir_type *type = node->type;
	size_t width = type->layout == WEIR_LAYOUT_BYTES ? sizeof(struct weir_view) : type->byte_width;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t from = column->form == WEIR_CONSTANT ? 0 : i;
		bool valid = weir_column_valid(column, from);

		cache->has_nulls |= !valid;
		if (type->layout == WEIR_LAYOUT_BITS) {
			cache->table[at + i] = (uint8_t)((valid && weir_bit_at(column->values, from)) | (uint32_t)valid
														<< 1);
			continue;
		}
		cache->present[at + i] = valid;
		uint8_t *to = (uint8_t *)cache->result.values + (at + i) * width;
		if (!valid) {
			memset(to, 0, width);
		} else if (type->layout == WEIR_LAYOUT_BYTES) {
			struct weir_view view = ((const struct weir_view *)column->values)[from];

			if (view.size > WEIR_VIEW_INLINE) {
				uint8_t *bytes = weir_arena_alloc(&cache->arena, view.size, err);

				if (!bytes)
					return err->code;
				memcpy(bytes, view.data, view.size);
				view.data = bytes;
			}
			memcpy(to, &view, sizeof(view));
		} else {
			memcpy(to, (const uint8_t *)column->values + from * width, width);
		}
	}
	return WEIR_OK;
}

static int build(const struct weir_eval *eval, struct weir_node_cache *cache, const struct weir_node *node,
		 const struct weir_column *column, struct weir_error *err)
{
	const struct weir_dictionary *dictionary = column->dictionary;
	const struct weir_type *type = column->type;
	size_t width = type->layout == WEIR_LAYOUT_BYTES ? sizeof(struct weir_view) : type->byte_width;
	struct weir_column instead = weir_column_null(type), out;
	struct weir_eval inner = {.evaluator = eval->evaluator,
				  .vector = eval->vector,
				  .selection = {.count = 1},
				  .row_count = 1,
				  .instead = &instead,
				  .arena = &eval->evaluator->block_arena};
	int code;

	cache->has_nulls = false;
	if (node->type->layout == WEIR_LAYOUT_BITS) {
		cache->table = weir_arena_alloc_zero(&cache->arena, dictionary->count + 1, err);
		if (!cache->table)
			return err->code;
	} else {
		size_t out_width = node->type->layout == WEIR_LAYOUT_BYTES ? sizeof(struct weir_view)
									   : node->type->byte_width;

		cache->present = weir_arena_alloc_zero(&cache->arena, dictionary->count + 1, err);
		cache->result = (struct weir_dictionary){.id = weir_dictionary_id_new(), .count = dictionary->count};
		cache->result.values = weir_arena_alloc_aligned(&cache->arena, (dictionary->count + 1) * out_width,
								err);
		if (!cache->present || !cache->result.values)
			return err->code;
	}
	weir_arena_clear(inner.arena);
	code = node->eval(&inner, node, &out, err);
	if (code)
		return code;
	cache->null_valid = weir_column_valid(&out, 0);
	cache->null_true = cache->null_valid && node->type->layout == WEIR_LAYOUT_BITS && weir_bit_at(out.values, 0);
	instead = (struct weir_column){.type = type, .form = WEIR_FLAT};
	for (uint32_t at = 0; at < dictionary->count; at += inner.row_count) {
		uint32_t left = dictionary->count - at;

		inner.row_count = left < WEIR_VECTOR_ROWS ? left : WEIR_VECTOR_ROWS;
		inner.selection.count = inner.row_count;
		/* A block of bits begins at a whole word: 4,096 is a multiple of 64. */
		instead.values = type->layout == WEIR_LAYOUT_BITS ? (const uint8_t *)dictionary->values + at / 8
								  : (const uint8_t *)dictionary->values + at * width;
		weir_arena_clear(inner.arena);
		code = node->eval(&inner, node, &out, err);
		if (!code)
			code = block_keep(cache, node, &out, at, inner.row_count, err);
		if (code)
			return code;
	}
	return WEIR_OK;
}

/* *out: the cache when the values are evaluated, else NULL. */
static int cache_ready(const struct weir_eval *eval, const struct weir_node *node, const struct weir_column *column,
		       struct weir_node_cache **out, struct weir_error *err)
{
	struct weir_node_cache *cache;
	struct weir_error ignored = {0};
	int code;

	*out = NULL;
	if (node->type->layout == WEIR_LAYOUT_NESTED || node->type->layout == WEIR_LAYOUT_NULL ||
	    column->type->layout == WEIR_LAYOUT_NESTED)
		return WEIR_OK;
	cache = cache_of(eval->evaluator, node, err);
	if (!cache)
		return err->code;
	if (cache->id != column->dictionary->id) {
		weir_arena_clear(&cache->arena);
		cache->id = column->dictionary->id;
		cache->state = CACHE_EMPTY;
		cache->rows_seen = 0;
	}
	if (cache->state == CACHE_EMPTY) {
		cache->rows_seen += eval->selection.count;
		if (cache->rows_seen * 2 < column->dictionary->count)
			return WEIR_OK;
		code = build(eval, cache, node, column, &ignored);
		if (weir_code_is_memory(code)) {
			*err = ignored;
			return code;
		}
		/* A column of values has no place for what null becomes. */
		cache->state = code || (cache->null_valid && node->type->layout != WEIR_LAYOUT_BITS) ? CACHE_REFUSED
												     : CACHE_READY;
	}
	if (cache->state == CACHE_READY)
		*out = cache;
	return WEIR_OK;
}

int weir_dictionary_evaluate(const struct weir_eval *eval, const struct weir_node *node,
			     const struct weir_column *column, struct weir_column *out, bool *done,
			     struct weir_error *err)
{
	uint32_t words = WEIR_BIT_WORDS(eval->row_count);
	const struct weir_selection *selection = &eval->selection;
	const uint32_t *codes = column->values;
	struct weir_node_cache *cache;
	uint64_t *bits = NULL, *valid = NULL;
	int code = cache_ready(eval, node, column, &cache, err);

	*done = false;
	if (code || !cache)
		return code;
	*done = true;
	*out = (struct weir_column){.type = node->type, .form = WEIR_FLAT, .validity = column->validity};
	if (cache->has_nulls || (column->validity && cache->null_valid)) {
		valid = weir_arena_alloc_zero(eval->arena, words * 8 + 8, err);
		if (!valid)
			return err->code;
		out->validity = valid;
	}
	if (node->type->layout != WEIR_LAYOUT_BITS) {
		for (uint32_t k = 0; valid && k < selection->count; k++) {
			uint32_t row = selection->rows ? selection->rows[k] : k;

			if (weir_column_valid(column, row) && cache->present[codes[row]])
				weir_bit_set(valid, row);
		}
		out->form = WEIR_DICTIONARY;
		out->values = codes;
		out->dictionary = &cache->result;
		return WEIR_OK;
	}
	bits = weir_arena_alloc_zero(eval->arena, words * 8 + 8, err);
	if (!bits)
		return err->code;
	out->values = bits;
	if (!selection->rows && !valid) {
		weir_vector_kernels()->lookup_bits(bits, cache->table, column->dictionary->count + 1, codes,
						   eval->row_count);
		return WEIR_OK;
	}
	for (uint32_t k = 0; k < selection->count; k++) {
		uint32_t row = selection->rows ? selection->rows[k] : k;
		uint32_t entry = cache->table[codes[row]];

		if (column->validity && !weir_column_valid(column, row))
			entry = (uint32_t)cache->null_true | (uint32_t)cache->null_valid << 1;
		bits[row >> 6] |= (uint64_t)(entry & 1) << (row & 63);
		if (valid)
			valid[row >> 6] |= (uint64_t)(entry >> 1) << (row & 63);
	}
	return WEIR_OK;
}

int weir_dictionary_select(const struct weir_eval *eval, const struct weir_node *node, const struct weir_column *column,
			   uint16_t *rows_out, uint32_t *count, bool *done, struct weir_error *err)
{
	const struct weir_vector_kernels *kernels = weir_vector_kernels();
	struct weir_selection selection = eval->selection;
	struct weir_node_cache *cache;
	int code = cache_ready(eval, node, column, &cache, err);

	*done = false;
	/* Rows that are null and kept: the bits know them. */
	if (code || !cache || (cache->null_true && column->validity))
		return code;
	*done = true;
	if (!selection.rows) {
		uint64_t bits[WEIR_VECTOR_ROWS / 64];

		kernels->lookup_bits(bits, cache->table, column->dictionary->count + 1, column->values,
				     selection.count);
		*count = kernels->select_all(bits, column->validity, selection.count, rows_out);
		return WEIR_OK;
	}
	if (column->validity) {
		selection.count = kernels->select_rows(selection.rows, selection.count, column->validity, NULL,
						       rows_out);
		selection.rows = rows_out;
	}
	*count = kernels->lookup_rows(cache->table, column->values, selection.rows, selection.count, rows_out);
	return WEIR_OK;
}
