/* The encodings built on deltas: numbers, texts with their lengths in front (DELTA_LENGTH_BYTE_ARRAY), and texts that
 * share the beginning of the one before (DELTA_BYTE_ARRAY):
 *
 *     lengths │ bytes of all texts                      prefix lengths │ suffix lengths │ bytes of all suffixes
 */
#include "format/parquet/read_impl.h"

#include <string.h>

enum { SOME = 256 }; /* lengths decoded at a time */

static int broken(struct parquet_leaf *leaf, struct weir_error *err)
{
	return parquet_leaf_damaged(leaf, err, "The page's %s values make no sense.", leaf->values.decoder->name);
}

/* ── numbers ── */

static int numbers_open(struct parquet_leaf *leaf, struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;

	if (values->at == values->end) /* nulls alone */
		return WEIR_OK;
	return parquet_delta_init(&values->delta, values->at, values->end) ? WEIR_OK : broken(leaf, err);
}

static int numbers_read(struct parquet_leaf *leaf, uint32_t count, void *out, struct weir_error *err)
{
	struct parquet_delta *delta = &leaf->values.delta;
	const struct parquet_kernels *kernels = leaf->reader->kernels;
	uint32_t *small = out;

	if (leaf->info->width == 8)
		return parquet_delta_read(delta, kernels, count, out) == count ? WEIR_OK : broken(leaf, err);
	while (count > 0) {
		uint64_t wide[SOME];
		uint32_t some = count < SOME ? count : SOME;

		if (parquet_delta_read(delta, kernels, some, wide) != some)
			return broken(leaf, err);
		for (uint32_t i = 0; i < some; i++)
			small[i] = (uint32_t)wide[i];
		small += some;
		count -= some;
	}
	return WEIR_OK;
}

static int numbers_skip(struct parquet_leaf *leaf, uint32_t count, struct weir_error *err)
{
	while (count > 0) {
		uint64_t wide[SOME];
		uint32_t some = count < SOME ? count : SOME;

		if (parquet_delta_read(&leaf->values.delta, leaf->reader->kernels, some, wide) != some)
			return broken(leaf, err);
		count -= some;
	}
	return WEIR_OK;
}

const struct parquet_decoder parquet_delta_numbers = {
	.name = "delta", .open = numbers_open, .read = numbers_read, .skip = numbers_skip};

/* ── lengths, then bytes ── */

static int lengths_open(struct parquet_leaf *leaf, struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;

	if (values->at == values->end)
		return WEIR_OK;
	if (!parquet_delta_init(&values->delta, values->at, values->end))
		return broken(leaf, err);
	values->at = parquet_delta_end(&values->delta);
	if (!values->at)
		return broken(leaf, err);
	if (leaf->info->is_text)
		values->is_checked = leaf->reader->kernels->is_ascii(values->at, (size_t)(values->end - values->at));
	return WEIR_OK;
}

/* The next `count` ≤ SOME lengths, and whether their bytes are there. */
static int lengths_next(struct parquet_leaf *leaf, uint32_t count, uint64_t *lengths, struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;
	uint64_t there = (uint64_t)(values->end - values->at), total = 0;

	if (parquet_delta_read(&values->delta, leaf->reader->kernels, count, lengths) != count)
		return broken(leaf, err);
	for (uint32_t i = 0; i < count; i++) {
		if (lengths[i] > there - total)
			return broken(leaf, err);
		total += lengths[i];
	}
	return WEIR_OK;
}

static int lengths_read(struct parquet_leaf *leaf, uint32_t count, void *out, struct weir_error *err)
{
	struct weir_view *views = out;

	while (count > 0) {
		uint64_t lengths[SOME];
		uint32_t some = count < SOME ? count : SOME;

		if (lengths_next(leaf, some, lengths, err))
			return err->code;
		for (uint32_t i = 0; i < some; i++) {
			views[i] = weir_view_make(leaf->values.at, (uint32_t)lengths[i]);
			leaf->values.at += lengths[i];
		}
		views += some;
		count -= some;
	}
	parquet_page_hand(leaf);
	return WEIR_OK;
}

static int lengths_skip(struct parquet_leaf *leaf, uint32_t count, struct weir_error *err)
{
	while (count > 0) {
		uint64_t lengths[SOME];
		uint32_t some = count < SOME ? count : SOME;

		if (lengths_next(leaf, some, lengths, err))
			return err->code;
		for (uint32_t i = 0; i < some; i++)
			leaf->values.at += lengths[i];
		count -= some;
	}
	return WEIR_OK;
}

const struct parquet_decoder parquet_delta_lengths = {
	.name = "delta length", .open = lengths_open, .read = lengths_read, .skip = lengths_skip};

/* ── prefixes and suffixes ── */

static int bytes_open(struct parquet_leaf *leaf, struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;
	const uint8_t *suffixes;

	values->is_checked = false; /* texts are cut into pieces: each is looked at when it is whole */
	leaf->previous_size = 0;
	if (values->at == values->end)
		return WEIR_OK;
	if (!parquet_delta_init(&values->delta, values->at, values->end))
		return broken(leaf, err);
	suffixes = parquet_delta_end(&values->delta);
	if (!suffixes || !parquet_delta_init(&values->delta_suffix, suffixes, values->end) ||
	    values->delta_suffix.value_count != values->delta.value_count)
		return broken(leaf, err);
	values->at = parquet_delta_end(&values->delta_suffix);
	return values->at ? WEIR_OK : broken(leaf, err);
}

/* The last text of a call is the next call's first prefix. */
static int previous_keep(struct parquet_leaf *leaf, const uint8_t *bytes, size_t size, struct weir_error *err)
{
	if (parquet_memory_reserve(leaf->reader->account, &leaf->previous, size, err))
		return err->code;
	memcpy(leaf->previous.data, bytes, size);
	leaf->previous_size = size;
	return WEIR_OK;
}

/* `count` ≤ SOME whole texts, one after the other in new memory that lives as long as the vector; sizes[i] of each. */
static int texts_build(struct parquet_leaf *leaf, uint32_t count, uint64_t *sizes, const uint8_t **out,
		       struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;
	struct parquet_reader *reader = leaf->reader;
	struct parquet_memory memory = {0};
	uint64_t prefixes[SOME], suffixes[SOME], total = 0, size_before = leaf->previous_size;
	const uint8_t *before = leaf->previous.data;
	uint8_t *to;

	if (parquet_delta_read(&values->delta, reader->kernels, count, prefixes) != count ||
	    parquet_delta_read(&values->delta_suffix, reader->kernels, count, suffixes) != count)
		return broken(leaf, err);
	for (uint32_t i = 0; i < count; i++) {
		if (prefixes[i] > size_before || suffixes[i] > (uint64_t)(values->end - values->at))
			return broken(leaf, err);
		sizes[i] = size_before = prefixes[i] + suffixes[i];
		if (sizes[i] > INT32_MAX)
			return broken(leaf, err);
		total += sizes[i];
	}
	if (parquet_memory_reserve(reader->account, &memory, total, err))
		return err->code;
	if (weir_list_push(&reader->retired, reader->account, err, memory)) {
		parquet_memory_release(reader->account, &memory);
		return err->code;
	}
	*out = to = memory.data;
	for (uint32_t i = 0; i < count; i++) {
		if (suffixes[i] > (uint64_t)(values->end - values->at))
			return broken(leaf, err);
		if (prefixes[i])
			memcpy(to, before, prefixes[i]);
		memcpy(to + prefixes[i], values->at, suffixes[i]);
		values->at += suffixes[i];
		before = to;
		to += sizes[i];
	}
	return count ? previous_keep(leaf, before, sizes[count - 1], err) : WEIR_OK;
}

static int bytes_read(struct parquet_leaf *leaf, uint32_t count, void *out, struct weir_error *err)
{
	bool is_fixed = leaf->info->element->physical == PARQUET_FIXED;
	uint8_t *fixed = out;
	struct weir_view *views = out;

	while (count > 0) {
		uint64_t sizes[SOME];
		uint32_t some = count < SOME ? count : SOME;
		const uint8_t *bytes = NULL;

		if (texts_build(leaf, some, sizes, &bytes, err))
			return err->code;
		for (uint32_t i = 0; i < some; i++) {
			if (!is_fixed) {
				*views++ = weir_view_make(bytes, (uint32_t)sizes[i]);
			} else {
				if (sizes[i] != leaf->info->width)
					return broken(leaf, err);
				memcpy(fixed, bytes, leaf->info->width);
				fixed += leaf->info->width;
			}
			bytes += sizes[i];
		}
		count -= some;
	}
	return WEIR_OK;
}

/* What is passed over must be built all the same, but not kept. */
static int bytes_skip(struct parquet_leaf *leaf, uint32_t count, struct weir_error *err)
{
	struct parquet_reader *reader = leaf->reader;

	while (count > 0) {
		uint64_t sizes[SOME];
		uint32_t some = count < SOME ? count : SOME;
		const uint8_t *bytes;

		if (texts_build(leaf, some, sizes, &bytes, err))
			return err->code;
		parquet_memory_release(reader->account, &reader->retired.items[--reader->retired.count]);
		count -= some;
	}
	return WEIR_OK;
}

const struct parquet_decoder parquet_delta_bytes = {
	.name = "delta byte array", .open = bytes_open, .read = bytes_read, .skip = bytes_skip};

/* ── one stream per byte of the values ── */

static int streams_open(struct parquet_leaf *leaf, struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;
	size_t size = (size_t)(values->end - values->at);

	if (size % leaf->info->width)
		return broken(leaf, err);
	values->stride = size / leaf->info->width;
	values->stride_at = 0;
	return WEIR_OK;
}

static int streams_skip(struct parquet_leaf *leaf, uint32_t count, struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;

	if (count > values->stride - values->stride_at)
		return broken(leaf, err);
	values->stride_at += count;
	return WEIR_OK;
}

static int streams_read(struct parquet_leaf *leaf, uint32_t count, void *out, struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;
	size_t at = values->stride_at;

	if (streams_skip(leaf, count, err))
		return err->code;
	leaf->reader->kernels->join_streams(values->at + at, values->stride, leaf->info->width, count, out);
	return WEIR_OK;
}

const struct parquet_decoder parquet_streams = {
	.name = "byte stream split", .open = streams_open, .read = streams_read, .skip = streams_skip};
