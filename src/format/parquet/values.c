/* The encodings that most files have: plain values and codes of a dictionary. Which decoder reads a page is decided
 * here, by its encoding and the column's physical type. */
#include "base/utf8.h"
#include "format/parquet/read_impl.h"

#include <string.h>

static int short_of_values(struct parquet_leaf *leaf, uint32_t count, struct weir_error *err)
{
	return parquet_leaf_damaged(leaf, err, "The page ends before its values (%u more of %s encoding are wanted).",
				    count, leaf->values.decoder->name);
}

static int nothing_to_open(struct parquet_leaf *leaf, struct weir_error *err)
{
	(void)leaf;
	(void)err;
	return WEIR_OK;
}

/* ── plain, fixed width ── */

static int plain_fixed_skip(struct parquet_leaf *leaf, uint32_t count, struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;

	if ((size_t)(values->end - values->at) / leaf->info->width < count)
		return short_of_values(leaf, count, err);
	values->at += (size_t)count * leaf->info->width;
	return WEIR_OK;
}

static int plain_fixed_read(struct parquet_leaf *leaf, uint32_t count, void *out, struct weir_error *err)
{
	const uint8_t *at = leaf->values.at;

	if (plain_fixed_skip(leaf, count, err))
		return err->code;
	memcpy(out, at, (size_t)count * leaf->info->width);
	return WEIR_OK;
}

const struct parquet_decoder parquet_plain_fixed = {
	.name = "plain", .open = nothing_to_open, .read = plain_fixed_read, .skip = plain_fixed_skip};

/* ── plain booleans: bits ── */

static int plain_bits_skip(struct parquet_leaf *leaf, uint32_t count, struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;

	if ((uint64_t)(values->end - values->at) * 8 - values->bit < count)
		return short_of_values(leaf, count, err);
	values->bit += count;
	return WEIR_OK;
}

static int plain_bits_read(struct parquet_leaf *leaf, uint32_t count, void *out, struct weir_error *err)
{
	uint64_t bit = leaf->values.bit;

	if (plain_bits_skip(leaf, count, err))
		return err->code;
	leaf->reader->kernels->copy_bits(leaf->values.at, bit, count, out, 0);
	return WEIR_OK;
}

const struct parquet_decoder parquet_plain_bits = {
	.name = "plain", .open = nothing_to_open, .read = plain_bits_read, .skip = plain_bits_skip};

/* ── plain texts: each after its length ── */

/* Is all of the page UTF-8, and with it each of its texts? Lengths below 128 are ASCII, so no character can reach over
 * one into the next text, and one look at the whole page spares one at each text. A page with longer texts passes if
 * all of it is ASCII; else its texts are looked at one by one. */
static bool is_text_page(const struct parquet_kernels *kernels, const uint8_t *at, const uint8_t *end)
{
	return kernels->is_ascii(at, (size_t)(end - at)) ||
	       (kernels->lengths_max(at, end) < 128 && weir_utf8_valid(at, (size_t)(end - at)));
}

static int plain_bytes_open(struct parquet_leaf *leaf, struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;

	(void)err;
	if (leaf->info->is_text)
		values->is_checked = is_text_page(leaf->reader->kernels, values->at, values->end);
	return WEIR_OK;
}

static int plain_bytes_skip(struct parquet_leaf *leaf, uint32_t count, struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;
	const uint8_t *at = leaf->reader->kernels->views_skip(values->at, values->end, count);

	if (!at)
		return short_of_values(leaf, count, err);
	values->at = at;
	return WEIR_OK;
}

static int plain_bytes_read(struct parquet_leaf *leaf, uint32_t count, void *out, struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;
	const uint8_t *at = leaf->reader->kernels->views(values->at, values->end, count, out);

	if (!at)
		return short_of_values(leaf, count, err);
	values->at = at;
	parquet_page_hand(leaf);
	return WEIR_OK;
}

const struct parquet_decoder parquet_plain_bytes = {
	.name = "plain", .open = plain_bytes_open, .read = plain_bytes_read, .skip = plain_bytes_skip};

/* ── codes of a dictionary: a byte with their width, then runs ── */

static int codes_open(struct parquet_leaf *leaf, struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;

	if (parquet_dictionary_load(leaf, err))
		return err->code;
	values->is_codes = true;
	if (values->at == values->end) { /* a page of nulls alone */
		parquet_rle_init(&values->rle, values->at, values->end, 1);
		return WEIR_OK;
	}
	if (*values->at > 32)
		return parquet_leaf_damaged(leaf, err, "Codes of %d bits.", *values->at);
	parquet_rle_init(&values->rle, values->at + 1, values->end, *values->at);
	return WEIR_OK;
}

static int codes_skip(struct parquet_leaf *leaf, uint32_t count, struct weir_error *err)
{
	return parquet_rle_skip(&leaf->values.rle, count) == count ? WEIR_OK : short_of_values(leaf, count, err);
}

static int codes_read(struct parquet_leaf *leaf, uint32_t count, void *out, struct weir_error *err)
{
	const struct parquet_kernels *kernels = leaf->reader->kernels;
	uint32_t max;

	if (parquet_rle_read(&leaf->values.rle, kernels, count, out) != count)
		return short_of_values(leaf, count, err);
	max = kernels->max32(out, count);
	if (count > 0 && max >= leaf->dictionary->values.count)
		return parquet_leaf_damaged(leaf, err, "The code %u, in a dictionary of %u values.", max,
					    leaf->dictionary->values.count);
	return WEIR_OK;
}

const struct parquet_decoder parquet_codes = {
	.name = "dictionary", .open = codes_open, .read = codes_read, .skip = codes_skip};

/* ── booleans in runs (data pages v2) ── */

static int rle_bits_open(struct parquet_leaf *leaf, struct weir_error *err)
{
	struct parquet_values *values = &leaf->values;
	uint32_t size;

	if (values->at == values->end) {
		parquet_rle_init(&values->rle, values->at, values->end, 1);
		return WEIR_OK;
	}
	if (values->end - values->at < 4)
		return parquet_leaf_damaged(leaf, err, "The page ends inside its values.");
	memcpy(&size, values->at, 4);
	values->at += 4;
	if (size > (uint64_t)(values->end - values->at))
		return parquet_leaf_damaged(leaf, err, "Booleans of %u bytes, longer than their page.", size);
	parquet_rle_init(&values->rle, values->at, values->at + size, 1);
	return WEIR_OK;
}

static int rle_bits_read(struct parquet_leaf *leaf, uint32_t count, void *out, struct weir_error *err)
{
	uint32_t ones;

	if (parquet_rle_read_bits(&leaf->values.rle, leaf->reader->kernels, count, out, &ones) != count)
		return short_of_values(leaf, count, err);
	return WEIR_OK;
}

const struct parquet_decoder parquet_rle_bits = {
	.name = "run-length", .open = rle_bits_open, .read = rle_bits_read, .skip = codes_skip};

/* ── all of them ── */

static const struct parquet_decoder *decoder_for(const struct parquet_leaf *leaf)
{
	bool is_bytes = leaf->info->element->physical == PARQUET_BYTE_ARRAY;
	bool is_bits = leaf->info->element->physical == PARQUET_BOOLEAN;
	bool is_integer = leaf->info->element->physical == PARQUET_INT32 ||
			  leaf->info->element->physical == PARQUET_INT64;

	switch (leaf->page.header.encoding) {
	case PARQUET_PLAIN:
		return is_bytes ? &parquet_plain_bytes : is_bits ? &parquet_plain_bits : &parquet_plain_fixed;
	case PARQUET_PLAIN_DICTIONARY:
	case PARQUET_RLE_DICTIONARY:
		return is_bits ? NULL : &parquet_codes;
	case PARQUET_RLE:
		return is_bits ? &parquet_rle_bits : NULL;
	case PARQUET_DELTA_BINARY_PACKED:
		return is_integer ? &parquet_delta_numbers : NULL;
	case PARQUET_DELTA_LENGTH_BYTE_ARRAY:
		return is_bytes ? &parquet_delta_lengths : NULL;
	case PARQUET_DELTA_BYTE_ARRAY:
		return is_bytes || leaf->info->element->physical == PARQUET_FIXED ? &parquet_delta_bytes : NULL;
	case PARQUET_BYTE_STREAM_SPLIT:
		return is_bytes || is_bits ? NULL : &parquet_streams;
	default:
		return NULL;
	}
}

int parquet_values_open(struct parquet_leaf *leaf, struct weir_error *err)
{
	const struct parquet_decoder *decoder = decoder_for(leaf);

	if (!decoder)
		return parquet_leaf_damaged(leaf, err, "A page in an encoding (%d) that its type cannot have.",
					    leaf->page.header.encoding);
	leaf->values = (struct parquet_values){
		.decoder = decoder, .at = leaf->page.values, .end = leaf->page.values_end, .is_checked = true};
	return leaf->info->convert == PARQUET_ALL_NULL ? WEIR_OK : decoder->open(leaf, err);
}

int parquet_values_read(struct parquet_leaf *leaf, uint32_t count, void *out, struct weir_error *err)
{
	return leaf->values.decoder->read(leaf, count, out, err);
}

int parquet_values_skip(struct parquet_leaf *leaf, uint32_t count, struct weir_error *err)
{
	return count ? leaf->values.decoder->skip(leaf, count, err) : WEIR_OK;
}

size_t parquet_values_size(const struct parquet_leaf *leaf, uint32_t count)
{
	if (leaf->values.is_codes)
		return (size_t)count * sizeof(uint32_t);
	if (leaf->info->element->physical == PARQUET_BYTE_ARRAY)
		return (size_t)count * sizeof(struct weir_view);
	if (leaf->info->element->physical == PARQUET_BOOLEAN)
		return ((size_t)count + 63) / 64 * 8;
	return (size_t)count * leaf->info->width;
}

int parquet_views_check(const struct parquet_leaf *leaf, const struct weir_view *views, uint32_t count,
			int64_t row_first, struct weir_error *err)
{
	const struct parquet_reader *reader = leaf->reader;

	for (uint32_t i = 0; i < count; i++) {
		if (weir_utf8_valid(weir_view_bytes(&views[i]), views[i].size))
			continue;
		parquet_leaf_damaged(leaf, err, "A text that is not valid UTF-8.");
		if (row_first != WEIR_NO_ROW)
			weir_error_at_row(err, reader->file->metadata.row_groups[reader->row_group].row_begin +
						       row_first + i);
		return WEIR_E_DATA;
	}
	return WEIR_OK;
}
