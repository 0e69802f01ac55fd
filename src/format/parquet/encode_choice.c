/* How the values of pages without codes are encoded. Decided once a chunk, by its first page that has values:
 *
 *     strings    DELTA_LENGTH_BYTE_ARRAY: lengths apart from bytes compress better and faster than between them
 *     integers   DELTA_BINARY_PACKED when it halves them, or comes near what the codec would make of them
 *     floats     BYTE_STREAM_SPLIT when, compressed, it is smaller than plain, or little larger with a codec that was
 *                chosen for its speed: codecs pass over split mantissas ten times faster than over whole numbers
 *
 * The figures are in docs/decisions/0012-parquet-writing.md.
 */
#include "format/parquet/write_impl.h"

#include <string.h>

enum { SAMPLE_VALUES = 4096 };

void parquet_encoding_begin(struct parquet_leaf_writer *leaf)
{
	const char *forced = leaf->shared->options.encoding;

	leaf->encoding_chosen = false;
	leaf->plain_encoding = PARQUET_PLAIN;
	/* Strings lie otherwise in the open page, so theirs is chosen beforehand. Where ARROW:schema says dictionary,
	 * pyarrow reads plain and coded pages only. */
	if (leaf->leaf->convert == PARQUET_CONVERT_VIEWS) {
		leaf->encoding_chosen = true;
		if (!leaf->leaf->is_dictionary && (!forced || strcmp(forced, "delta") == 0))
			leaf->plain_encoding = PARQUET_DELTA_LENGTH_BYTE_ARRAY;
	}
}

static bool is_integer(const struct parquet_leaf_writer *leaf)
{
	return leaf->leaf->physical == PARQUET_INT32 || leaf->leaf->physical == PARQUET_INT64;
}

static bool is_float(const struct parquet_leaf_writer *leaf)
{
	return leaf->leaf->physical == PARQUET_FLOAT || leaf->leaf->physical == PARQUET_DOUBLE;
}

static int put_delta(struct parquet_leaf_writer *leaf, struct parquet_buffer *out, struct weir_error *err)
{
	const struct parquet_encode_kernels *kernels = leaf->shared->kernels;
	const uint8_t *values = leaf->data.data + leaf->headroom;
	uint32_t width = leaf->leaf->plain_width;
	size_t count = leaf->page_values;
	int code = parquet_buffer_reserve(out, parquet_delta_bound(count, width), &leaf->shared->account, err);

	if (code)
		return code;
	out->size += (width == 8 ? kernels->delta8 : kernels->delta4)(values, count, out->data + out->size);
	return WEIR_OK;
}

static int put_lengths(struct parquet_leaf_writer *leaf, struct parquet_buffer *out, struct weir_error *err)
{
	size_t count = leaf->page_values;
	int code = parquet_buffer_reserve(out, parquet_delta_bound(count, 4), &leaf->shared->account, err);

	if (code)
		return code;
	out->size += leaf->shared->kernels->delta4(leaf->lengths.data, count, out->data + out->size);
	return WEIR_OK;
}

static int put_split(struct parquet_leaf_writer *leaf, struct parquet_buffer *out, struct weir_error *err)
{
	const struct parquet_encode_kernels *kernels = leaf->shared->kernels;
	const uint8_t *values = leaf->data.data + leaf->headroom;
	uint32_t width = leaf->leaf->plain_width;
	size_t count = leaf->page_values;
	int code = parquet_buffer_reserve(out, count * width, &leaf->shared->account, err);

	if (code)
		return code;
	(width == 8 ? kernels->split_streams8 : kernels->split_streams4)(values, count, out->data + out->size);
	out->size += count * width;
	return WEIR_OK;
}

static int compressed_size(struct parquet_leaf_writer *leaf, const uint8_t *bytes, size_t size, size_t *out,
			   struct weir_error *err)
{
	struct parquet_shared *shared = leaf->shared;
	enum weir_codec codec = shared->options.codec;
	int code;

	*out = size;
	if (codec == WEIR_CODEC_NONE)
		return WEIR_OK;
	shared->scratch.size = 0;
	code = parquet_buffer_reserve(&shared->scratch, weir_codec_bound(codec, size), &shared->account, err);
	return code ? code
		    : weir_codec_compress(shared->codecs, codec, shared->options.codec_level, bytes, size,
					  shared->scratch.data, shared->scratch.capacity, out, err);
}

/* `out` holds levels only; what is tried behind them is taken back. */
static int choose_delta(struct parquet_leaf_writer *leaf, struct parquet_buffer *out, struct weir_error *err)
{
	size_t plain_size = leaf->data.size - leaf->headroom, before = out->size, delta, plain;
	int code = put_delta(leaf, out, err);

	delta = out->size - before;
	out->size = before;
	if (code || delta * 20 > plain_size * 19)
		return code;
	if (delta * 2 > plain_size) {
		code = compressed_size(leaf, leaf->data.data + leaf->headroom, plain_size, &plain, err);
		if (code || delta * 100 > plain * 115)
			return code;
	}
	leaf->plain_encoding = PARQUET_DELTA_BINARY_PACKED;
	return WEIR_OK;
}

static int choose_split(struct parquet_leaf_writer *leaf, struct parquet_buffer *out, struct weir_error *err)
{
	enum weir_codec codec = leaf->shared->options.codec;
	bool is_fast = codec == WEIR_CODEC_SNAPPY || codec == WEIR_CODEC_LZ4_RAW || codec == WEIR_CODEC_LZ4_HADOOP;
	uint64_t values = leaf->page_values;
	size_t plain_size, plain, split, before = out->size;
	int code;

	if (codec == WEIR_CODEC_NONE)
		return WEIR_OK;
	/* Columns of few rows, perhaps a thousand of them: a trial would cost as much as they do. */
	if (is_fast && values <= SAMPLE_VALUES) {
		leaf->plain_encoding = PARQUET_BYTE_STREAM_SPLIT;
		return WEIR_OK;
	}
	leaf->page_values = is_fast ? SAMPLE_VALUES : values;
	plain_size = leaf->page_values * leaf->leaf->plain_width;
	code = put_split(leaf, out, err);
	leaf->page_values = values;
	if (!code)
		code = compressed_size(leaf, out->data + before, plain_size, &split, err);
	out->size = before;
	if (!code)
		code = compressed_size(leaf, leaf->data.data + leaf->headroom, plain_size, &plain, err);
	if (!code && split * 100 < plain_size * 97 && split * 100 <= plain * (is_fast ? 140 : 100))
		leaf->plain_encoding = PARQUET_BYTE_STREAM_SPLIT;
	return code;
}

static int choose(struct parquet_leaf_writer *leaf, struct parquet_buffer *out, struct weir_error *err)
{
	return is_integer(leaf) ? choose_delta(leaf, out, err)
	       : is_float(leaf) ? choose_split(leaf, out, err)
				: WEIR_OK;
}

int parquet_encoding_values(struct parquet_leaf_writer *leaf, struct parquet_buffer *out, bool *whole,
			    struct weir_error *err)
{
	const char *forced = leaf->shared->options.encoding;
	int code = WEIR_OK;

	*whole = false;
	if (!leaf->encoding_chosen && leaf->page_values > 0) {
		leaf->encoding_chosen = true;
		if (!forced)
			code = choose(leaf, out, err);
		else if (strcmp(forced, "delta") == 0 && is_integer(leaf))
			leaf->plain_encoding = PARQUET_DELTA_BINARY_PACKED;
		else if (strcmp(forced, "byte_stream_split") == 0 && is_float(leaf))
			leaf->plain_encoding = PARQUET_BYTE_STREAM_SPLIT;
	}
	if (code)
		return code;
	switch (leaf->plain_encoding) {
	case PARQUET_DELTA_BINARY_PACKED:
		*whole = true;
		return put_delta(leaf, out, err);
	case PARQUET_BYTE_STREAM_SPLIT:
		*whole = true;
		return put_split(leaf, out, err);
	case PARQUET_DELTA_LENGTH_BYTE_ARRAY:
		return put_lengths(leaf, out, err);
	default:
		return WEIR_OK;
	}
}
