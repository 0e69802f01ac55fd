/* One leaf column while a row group is open: an open page, a dictionary as long as it pays, and a stream of finished,
 * compressed pages.
 *
 *     data    ┌──────────┬───────────────────────────┐   PLAIN: the levels are written into the headroom when the
 *             │ headroom │ values, or uint32_t codes │   page closes, so that levels and values are compressed as
 *             └──────────┴───────────────────────────┘   one piece without being copied
 *
 * A page is closed at PAGE_ROWS_MAX rows, so that the page index can skip, or at shared->page_bytes_max; always at the
 * end of a row. Each chunk begins with a dictionary and gives it up when it does not pay: the first page is then turned
 * into a plain one, so that a column of distinct values carries no trace of the attempt; later on the finished pages
 * stay as they are and plain ones follow.
 */
#include "format/parquet/write_impl.h"

#include <string.h>

enum {
	PAGE_ROWS_MAX = 20000,
	/* The levels of a flat page: a bit a row, for PAGE_ROWS_MAX and a vector more. Strings have their lengths there
	 * too, of up to 12 bits each; what does not fit is a copy of the page more. */
	HEADROOM = 4096,
	HEADROOM_STRINGS = 40 << 10,
	HEADROOM_SMALL = 512,
	/* A dictionary is given up when so many values are to be expected in it, by how few of the first ones came
	 * twice; later when half of those seen are distinct. */
	DISTINCT_MAX = 9000,
	TRIAL_FIRST = 512,
	TRIAL_EARLY = 4096,
	TRIAL_LATE = 16384,
	HINT_VALUES = 16 * PAGE_ROWS_MAX, /* after so many, dictionary, encoding and codec are tried anew */
};
_Static_assert((PAGE_ROWS_MAX + WEIR_VECTOR_ROWS) / 8 + 64 < HEADROOM, "flat levels fit the headroom");

static void segments_free(struct parquet_leaf_writer *leaf)
{
	while (leaf->first) {
		struct parquet_segment *next = leaf->first->next;

		weir_free(&leaf->shared->account, leaf->first, sizeof(*leaf->first) + leaf->first->capacity);
		leaf->first = next;
	}
	leaf->last = NULL;
}

static bool may_code(const struct parquet_leaf_writer *leaf)
{
	const struct weir_writer_options *options = &leaf->shared->options;

	return options->dictionary && !options->encoding && leaf->leaf->convert != PARQUET_CONVERT_BITS &&
	       leaf->leaf->convert != PARQUET_CONVERT_NULL;
}

void parquet_leaf_writer_init(struct parquet_leaf_writer *leaf, const struct parquet_leaf *schema,
			      struct parquet_shared *shared)
{
	*leaf = (struct parquet_leaf_writer){.leaf = schema, .shared = shared};
	parquet_leaf_begin(leaf, true);
}

void parquet_leaf_shrink(struct parquet_leaf_writer *leaf)
{
	struct weir_account *account = &leaf->shared->account;

	parquet_buffer_release(&leaf->definition, account);
	parquet_buffer_release(&leaf->repetition, account);
	parquet_buffer_release(&leaf->data, account);
	parquet_buffer_release(&leaf->lengths, account);
	parquet_buffer_release(&leaf->map, account);
	parquet_buffer_release(&leaf->bounds, account);
	parquet_dictionary_release(&leaf->dictionary, account);
	weir_list_release(&leaf->pages, account);
	leaf->map_valid = false;
}

void parquet_leaf_writer_release(struct parquet_leaf_writer *leaf)
{
	if (!leaf->shared)
		return;
	segments_free(leaf);
	parquet_leaf_shrink(leaf);
	*leaf = (struct parquet_leaf_writer){0};
}

static void headroom_choose(struct parquet_leaf_writer *leaf)
{
	uint64_t page = leaf->shared->page_bytes_max;

	/* In files of many columns pages are small, and what does not fit is copied. */
	leaf->headroom = page >= 16 * HEADROOM ? HEADROOM : HEADROOM_SMALL;
	if (leaf->leaf->convert == PARQUET_CONVERT_VIEWS && page >= 4 * (uint64_t)HEADROOM_STRINGS)
		leaf->headroom = HEADROOM_STRINGS;
	/* A page's buffer that has grown in an earlier row group begins no later than it ends. */
	if (leaf->data.data && leaf->data.capacity < leaf->headroom + PARQUET_BUFFER_SLACK)
		leaf->headroom = HEADROOM_SMALL;
}

static void hint_take(struct parquet_leaf_writer *leaf)
{
	const struct parquet_hint *hint = &leaf->hint;

	if (!hint->is_valid)
		return;
	leaf->coded &= !hint->is_plain;
	if (hint->encoding_chosen) {
		leaf->encoding_chosen = true;
		leaf->plain_encoding = hint->encoding;
	}
	if (hint->codec_chosen) {
		leaf->codec_chosen = true;
		leaf->codec = hint->codec;
	}
}

static void hint_give(struct parquet_leaf_writer *leaf)
{
	struct parquet_hint *hint = &leaf->hint;
	/* Pages of both kinds: the codec was chosen for the first. */
	bool mixed = leaf->pages_coded > 0 && leaf->pages_plain > 0;

	hint->values += leaf->values_total;
	if (leaf->values_total == 0)
		return;
	if (hint->values >= HINT_VALUES) {
		*hint = (struct parquet_hint){0};
		return;
	}
	hint->is_valid = true;
	hint->is_plain = !leaf->coded;
	hint->encoding_chosen = leaf->encoding_chosen;
	hint->encoding = leaf->plain_encoding;
	hint->codec_chosen = leaf->codec_chosen && !mixed;
	hint->codec = leaf->codec;
}

void parquet_leaf_begin(struct parquet_leaf_writer *leaf, bool is_first)
{
	segments_free(leaf);
	if (is_first)
		leaf->hint = (struct parquet_hint){0};
	leaf->coded = may_code(leaf);
	leaf->codec_chosen = false;
	leaf->codec = leaf->shared->options.codec;
	parquet_encoding_begin(leaf);
	hint_take(leaf);
	parquet_dictionary_clear(&leaf->dictionary);
	leaf->map_valid = false;
	leaf->bytes_finished = leaf->bytes_uncompressed = 0;
	leaf->values_total = leaf->levels_total = leaf->nulls_total = 0;
	leaf->pages_coded = leaf->pages_plain = leaf->encodings = 0;
	leaf->range = (struct parquet_range){0};
	leaf->unbounded = false;
	leaf->pages.count = 0;
	leaf->bounds.size = 0;
	headroom_choose(leaf);
	parquet_page_begin(leaf);
}

/* ── levels ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

int parquet_refuse_null(uint32_t row, struct weir_error *err)
{
	weir_error_set(err, WEIR_E_VALUE, "a null in a column that is declared not null");
	weir_error_at_row(err, row);
	return err->code;
}

/* Of the selected rows; the first of them when none is looked at. */
static uint32_t first_null(const uint64_t *valid, const uint16_t *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t row = rows ? rows[i] : (uint32_t)i;

		if (!(valid[row >> 6] >> (row & 63) & 1))
			return row;
	}
	return rows ? rows[0] : 0;
}

int parquet_leaf_levels_flat(struct parquet_leaf_writer *leaf, const uint64_t *valid, const uint16_t *rows,
			     size_t count, size_t present, struct weir_error *err)
{
	struct parquet_shared *shared = leaf->shared;
	uint64_t before = leaf->page_levels, nulls_before = before - leaf->page_values;
	int code = WEIR_OK;

	WEIR_ASSERT(parquet_leaf_is_flat(leaf->leaf) && count <= WEIR_VECTOR_ROWS);
	leaf->page_levels += count;
	if (leaf->leaf->max_definition == 0) {
		return present == count ? WEIR_OK
					: parquet_refuse_null(first_null(valid, rows, present ? count : 0), err);
	}
	/* No bits are kept until the first null. */
	if (present == count && nulls_before == 0)
		return WEIR_OK;
	if (nulls_before == 0)
		code = parquet_buffer_bits_fill(&leaf->definition, 0, true, before, &shared->account, err);
	if (code)
		return code;
	if (present == count || present == 0)
		return parquet_buffer_bits_fill(&leaf->definition, before, present != 0, count, &shared->account, err);
	if (rows) {
		shared->kernels->select_bits(valid, rows, count, shared->bits);
		valid = shared->bits;
	}
	return parquet_buffer_bits(&leaf->definition, before, valid, count, &shared->account, err);
}

int parquet_leaf_levels(struct parquet_leaf_writer *leaf, const uint8_t *definition, const uint8_t *repetition,
			size_t count, struct weir_error *err)
{
	struct weir_account *account = &leaf->shared->account;
	int code = WEIR_OK;

	leaf->page_levels += count;
	if (leaf->leaf->max_definition > 0) {
		code = parquet_buffer_reserve(&leaf->definition, count, account, err);
		if (code)
			return code;
		memcpy(leaf->definition.data + leaf->definition.size, definition, count);
		leaf->definition.size += count;
	}
	if (leaf->leaf->max_repetition > 0) {
		code = parquet_buffer_reserve(&leaf->repetition, count, account, err);
		if (code)
			return code;
		memcpy(leaf->repetition.data + leaf->repetition.size, repetition, count);
		leaf->repetition.size += count;
	}
	return code;
}

/* ── values ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The code of each value of a source dictionary is looked up once, when a row first has it. */
static int map_prepare(struct parquet_leaf_writer *leaf, const struct weir_dictionary *source, struct weir_error *err)
{
	size_t size = (size_t)source->count * sizeof(uint32_t);
	int code;

	if (leaf->map_valid && leaf->map_id == source->id)
		return WEIR_OK;
	leaf->map.size = 0;
	leaf->map_valid = false;
	code = parquet_buffer_reserve(&leaf->map, size, &leaf->shared->account, err);
	if (code)
		return code;
	memset(leaf->map.data, 0xff, size);
	leaf->map_id = source->id;
	leaf->map_valid = true;
	return WEIR_OK;
}

static int code_values(struct parquet_leaf_writer *leaf, const struct parquet_values *values, uint32_t *codes,
		       struct weir_error *err)
{
	struct parquet_shared *shared = leaf->shared;
	int code;

	if (leaf->leaf->convert == PARQUET_CONVERT_VIEWS)
		return parquet_dictionary_views(&leaf->dictionary, values->values, values->rows, values->count, codes,
						&shared->account, err);
	shared->scratch_values.size = 0;
	code = parquet_plain_append(leaf->leaf, values, shared, &shared->scratch_values, NULL, err);
	return code ? code
		    : parquet_dictionary_fixed(&leaf->dictionary, leaf->leaf->plain_width, shared->scratch_values.data,
					       values->count, codes, &shared->account, err);
}

/* Values that are new to the map are looked up together: few calls also where a source dictionary is as large as the
 * rows that are kept of it. */
static int code_missing(struct parquet_leaf_writer *leaf, const struct parquet_values *values, uint32_t *codes,
			struct weir_error *err)
{
	struct parquet_shared *shared = leaf->shared;
	const uint32_t *source_codes = values->values;
	const uint8_t *source = values->dictionary->values;
	uint32_t *map = (uint32_t *)leaf->map.data;
	bool strings = leaf->leaf->convert == PARQUET_CONVERT_VIEWS;
	size_t width = strings ? sizeof(struct weir_view) : leaf->leaf->type->byte_width, missing = 0;
	struct parquet_values fresh = {.form = WEIR_FLAT};
	uint8_t *dense;
	int code;

	shared->missing_values.size = 0;
	code = parquet_buffer_reserve(&shared->missing_values, values->count * width, &shared->account, err);
	if (code)
		return code;
	dense = shared->missing_values.data;
	for (size_t i = 0; i < values->count; i++) {
		uint32_t from = source_codes[values->rows ? values->rows[i] : i];

		if (map[from] != PARQUET_CODE_NONE)
			continue;
		map[from] = 0; /* once */
		shared->missing[missing] = from;
		memcpy(dense + missing++ * width, source + from * width, width);
	}
	fresh.values = dense;
	fresh.count = missing;
	code = code_values(leaf, &fresh, shared->missing_codes, err);
	if (code) {
		leaf->map_valid = false;
		return code;
	}
	for (size_t i = 0; i < missing; i++)
		map[shared->missing[i]] = shared->missing_codes[i];
	leaf->shared->kernels->map_codes(source_codes, values->rows, values->count, map, codes);
	return WEIR_OK;
}

static int values_coded(struct parquet_leaf_writer *leaf, const struct parquet_values *values, struct weir_error *err)
{
	uint32_t *codes;
	int code = parquet_buffer_reserve(&leaf->data, values->count * sizeof(*codes), &leaf->shared->account, err);

	if (code)
		return code;
	codes = (uint32_t *)(leaf->data.data + leaf->data.size);
	switch (values->form) {
	case WEIR_DICTIONARY:
		code = map_prepare(leaf, values->dictionary, err);
		if (!code && leaf->shared->kernels->map_codes(values->values, values->rows, values->count,
							      (const uint32_t *)leaf->map.data, codes))
			code = code_missing(leaf, values, codes, err);
		break;
	case WEIR_CONSTANT:
		code = code_values(leaf,
				   &(struct parquet_values){.form = WEIR_FLAT, .values = values->values, .count = 1},
				   codes, err);
		for (size_t i = 1; i < values->count; i++)
			codes[i] = codes[0];
		break;
	default:
		code = code_values(leaf, values, codes, err);
	}
	leaf->data.size += code ? 0 : values->count * sizeof(*codes);
	return code;
}

static int values_bits(struct parquet_leaf_writer *leaf, const struct parquet_values *values, struct weir_error *err)
{
	struct parquet_shared *shared = leaf->shared;
	size_t before = leaf->headroom * 8 + leaf->page_values, count = values->count;
	const uint64_t *bits = values->values;

	if (values->form == WEIR_CONSTANT) {
		leaf->running.true_count += bits[0] & 1 ? count : 0;
		return parquet_buffer_bits_fill(&leaf->data, before, bits[0] & 1, count, &shared->account, err);
	}
	if (values->form == WEIR_DICTIONARY) {
		const uint32_t *codes = values->values;
		const uint64_t *source = values->dictionary->values;

		memset(shared->bits, 0, sizeof(shared->bits));
		for (size_t i = 0; i < count; i++) {
			uint32_t at = codes[values->rows ? values->rows[i] : i];

			shared->bits[i / 64] |= (source[at / 64] >> at % 64 & 1) << i % 64;
		}
		bits = shared->bits;
	} else if (values->rows) {
		shared->kernels->select_bits(bits, values->rows, count, shared->bits);
		bits = shared->bits;
	}
	for (size_t i = 0; i < count; i += 64) {
		uint64_t word = count - i < 64 ? bits[i / 64] & (((uint64_t)1 << (count - i)) - 1) : bits[i / 64];

		leaf->running.true_count += (uint64_t)__builtin_popcountll(word);
	}
	return parquet_buffer_bits(&leaf->data, before, bits, count, &shared->account, err);
}

static int values_plain(struct parquet_leaf_writer *leaf, const struct parquet_values *values, struct weir_error *err)
{
	struct parquet_shared *shared = leaf->shared;
	bool apart = leaf->plain_encoding == PARQUET_DELTA_LENGTH_BYTE_ARRAY;
	size_t from = leaf->data.size, from_length = leaf->lengths.size;
	int code = parquet_plain_append(leaf->leaf, values, shared, &leaf->data, apart ? &leaf->lengths : NULL, err);

	if (!code && shared->options.statistics)
		parquet_running_add(&leaf->running, leaf->leaf, shared->kernels, leaf->data.data, from,
				    apart ? (const uint32_t *)(leaf->lengths.data + from_length) : NULL, values->count);
	return code;
}

static bool dictionary_failed(const struct parquet_leaf_writer *leaf);
static int decode_page(struct parquet_leaf_writer *leaf, struct weir_error *err);

static int values_put(struct parquet_leaf_writer *leaf, const struct parquet_values *values, struct weir_error *err)
{
	int code = parquet_page_data(leaf, err);

	if (code)
		return code;
	if (leaf->coded)
		code = values_coded(leaf, values, err);
	else if (leaf->leaf->convert == PARQUET_CONVERT_BITS)
		code = values_bits(leaf, values, err);
	else
		code = values_plain(leaf, values, err);
	leaf->page_values += values->count;
	return code;
}

int parquet_leaf_values(struct parquet_leaf_writer *leaf, const struct parquet_values *values, struct weir_error *err)
{
	struct parquet_values head = *values, rest = *values;
	size_t width = leaf->leaf->convert == PARQUET_CONVERT_VIEWS ? sizeof(struct weir_view)
								    : leaf->leaf->type->byte_width;
	int code;

	WEIR_ASSERT(values->count <= WEIR_VECTOR_ROWS);
	if (values->count == 0)
		return WEIR_OK;
	/* The first few of a chunk by themselves: where all are distinct no more of them should be hashed. */
	if (!leaf->coded || leaf->values_total + leaf->page_values > 0 || values->count <= TRIAL_FIRST ||
	    values->form == WEIR_CONSTANT)
		return values_put(leaf, values, err);
	head.count = TRIAL_FIRST;
	rest.count -= TRIAL_FIRST;
	if (rest.rows)
		rest.rows += TRIAL_FIRST;
	else
		rest.values = (const uint8_t *)rest.values +
			      TRIAL_FIRST * (values->form == WEIR_DICTIONARY ? sizeof(uint32_t) : width);
	code = values_put(leaf, &head, err);
	if (!code && dictionary_failed(leaf))
		code = decode_page(leaf, err);
	return code ? code : values_put(leaf, &rest, err);
}

/* ── giving a dictionary up ─────────────────────────────────────────────────────────────────────────────────────── */

static bool dictionary_failed(const struct parquet_leaf_writer *leaf)
{
	uint64_t seen = leaf->values_total + leaf->page_values, distinct = leaf->dictionary.count;

	if (leaf->dictionary.body.size > leaf->shared->dictionary_bytes_max)
		return true;
	/* Among n of N equally likely values about n² / 2N come again. */
	if (seen >= TRIAL_FIRST && seen <= TRIAL_EARLY)
		return (seen - distinct) * 2 * DISTINCT_MAX < seen * seen;
	return seen >= TRIAL_LATE && distinct * 2 > seen;
}

/* The open page, the first of its chunk, from codes to values; nothing is left of the dictionary. */
static int decode_page(struct parquet_leaf_writer *leaf, struct weir_error *err)
{
	struct parquet_shared *shared = leaf->shared;
	struct parquet_dictionary *dictionary = &leaf->dictionary;
	const uint8_t *body = dictionary->body.data;
	struct parquet_buffer coded = leaf->data;
	const uint32_t *codes = (const uint32_t *)(coded.data + leaf->headroom);
	size_t count = leaf->page_values, done;
	uint32_t width = leaf->leaf->plain_width;
	int code = WEIR_OK;

	leaf->coded = false;
	if (count > 0) {
		leaf->data = (struct parquet_buffer){0};
		code = parquet_page_data(leaf, err);
	}
	/* A block at a time, by the way that values come in. */
	for (size_t i = 0; i < count && !code; i += done) {
		struct parquet_values values = {.form = WEIR_FLAT};

		done = count - i < WEIR_VECTOR_ROWS ? count - i : WEIR_VECTOR_ROWS;
		values.count = done;
		if (width) {
			size_t from = leaf->data.size;

			code = parquet_buffer_reserve(&leaf->data, done * width, &shared->account, err);
			if (code)
				break;
			if (width == 8)
				shared->kernels->gather_codes8(body, codes + i, NULL, done, leaf->data.data + from);
			else if (width == 4)
				shared->kernels->gather_codes4(body, codes + i, NULL, done, leaf->data.data + from);
			else
				for (size_t k = 0; k < done; k++)
					memcpy(leaf->data.data + from + k * width, body + (size_t)codes[i + k] * width,
					       width);
			leaf->data.size += done * width;
			if (shared->options.statistics)
				parquet_running_add(&leaf->running, leaf->leaf, shared->kernels, leaf->data.data, from,
						    NULL, done);
			continue;
		}
		for (size_t k = 0; k < done; k++) {
			const uint8_t *value = body + dictionary->entries[codes[i + k]].offset;
			uint32_t size;

			memcpy(&size, value, 4);
			shared->views[k] = weir_view_make(value + 4, size);
		}
		values.values = shared->views;
		code = values_plain(leaf, &values, err);
	}
	if (count > 0)
		parquet_buffer_release(&coded, &shared->account);
	parquet_dictionary_release(dictionary, &shared->account);
	parquet_buffer_release(&leaf->map, &shared->account);
	leaf->map_valid = false;
	return code;
}

/* Whether the dictionary and the codes of the first page are smaller than its values. */
static bool first_page_pays(const struct parquet_leaf_writer *leaf)
{
	const struct parquet_dictionary *dictionary = &leaf->dictionary;
	const uint32_t *codes = (const uint32_t *)(leaf->data.data + leaf->headroom);
	uint64_t coded = dictionary->body.size + leaf->page_values * (parquet_bit_width(dictionary->count) + 1) / 8;
	uint64_t plain = leaf->page_values * leaf->leaf->plain_width;

	if (!leaf->leaf->plain_width)
		for (uint64_t i = 0; i < leaf->page_values && plain <= coded; i++) {
			uint32_t size;

			memcpy(&size, dictionary->body.data + dictionary->entries[codes[i]].offset, 4);
			plain += 4 + (uint64_t)size;
		}
	return coded < plain;
}

static int page_close(struct parquet_leaf_writer *leaf, struct weir_error *err)
{
	if (leaf->coded && leaf->pages_coded == 0 && leaf->page_values > 0 && !first_page_pays(leaf)) {
		int code = decode_page(leaf, err);

		if (code)
			return code;
	}
	return parquet_page_end(leaf, err);
}

int parquet_leaf_rows_end(struct parquet_leaf_writer *leaf, size_t row_count, struct weir_error *err)
{
	int code = WEIR_OK;

	leaf->page_rows += row_count;
	if (leaf->coded && dictionary_failed(leaf)) {
		if (leaf->pages_coded == 0) {
			code = decode_page(leaf, err);
		} else {
			code = parquet_page_end(leaf, err);
			leaf->coded = leaf->map_valid = false;
			parquet_dictionary_seal(&leaf->dictionary, &leaf->shared->account);
			parquet_buffer_release(&leaf->map, &leaf->shared->account);
		}
	}
	if (!code &&
	    (leaf->page_rows >= PAGE_ROWS_MAX || leaf->data.size + leaf->definition.size + leaf->repetition.size >=
							 HEADROOM + leaf->shared->page_bytes_max))
		code = page_close(leaf, err);
	return code;
}

int parquet_leaf_end(struct parquet_leaf_writer *leaf, struct weir_error *err)
{
	int code = page_close(leaf, err);

	/* A chunk of nulls only. */
	if (!code && leaf->pages_coded == 0)
		parquet_dictionary_clear(&leaf->dictionary);
	if (!code)
		hint_give(leaf);
	return code;
}
