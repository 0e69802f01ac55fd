/* Values of a vector's column, gathered through the selection into PLAIN form: one loop from where the reader decoded
 * them to where the page will be compressed. Strings are copied here, and nowhere else on their way. */
#include "format/parquet/write_impl.h"

#include <string.h>

int parquet_buffer_grow(struct parquet_buffer *buffer, size_t more, struct weir_account *account,
			struct weir_error *err)
{
	size_t wanted, doubled = buffer->capacity * 2;
	uint8_t *data;

	if (__builtin_add_overflow(buffer->size, more, &wanted) ||
	    __builtin_add_overflow(wanted, (size_t)PARQUET_BUFFER_SLACK, &wanted))
		return weir_error_set(err, WEIR_E_MEMORY, "a buffer of a Parquet page cannot grow by %zu bytes", more);
	wanted = wanted > doubled ? wanted : doubled;
	/* Sizes that are kept as spares. */
	wanted = wanted < WEIR_FRAME_MIN ? weir_spare_size(wanted) : weir_alloc_size(wanted);
	data = weir_realloc(account, buffer->data, buffer->capacity, wanted, err);
	if (!data)
		return err->code;
	buffer->data = data;
	buffer->capacity = wanted;
	return WEIR_OK;
}

void parquet_buffer_release(struct parquet_buffer *buffer, struct weir_account *account)
{
	weir_free(account, buffer->data, buffer->capacity);
	*buffer = (struct parquet_buffer){0};
}

/* Bits past the last one are kept zero, so that a new word is or-ed in. */
static int bits_room(struct parquet_buffer *buffer, size_t bits_before, size_t count, struct weir_account *account,
		     struct weir_error *err)
{
	size_t bytes = (bits_before + count + 7) / 8;
	int code = parquet_buffer_reserve(buffer, bytes - buffer->size + 16, account, err);

	if (code)
		return code;
	memset(buffer->data + buffer->size, 0, bytes - buffer->size + 16);
	buffer->size = bytes;
	return WEIR_OK;
}

int parquet_buffer_bits(struct parquet_buffer *buffer, size_t bits_before, const uint64_t *bits, size_t count,
			struct weir_account *account, struct weir_error *err)
{
	int code = bits_room(buffer, bits_before, count, account, err);
	unsigned shift = bits_before % 8;
	uint8_t *at;

	if (code)
		return code;
	at = buffer->data + bits_before / 8;
	for (size_t i = 0; i < count; i += 64, at += 8) {
		uint64_t word = bits[i / 64], there;

		if (count - i < 64)
			word &= ((uint64_t)1 << (count - i)) - 1;
		memcpy(&there, at, 8);
		there |= word << shift;
		memcpy(at, &there, 8);
		if (shift)
			at[8] = (uint8_t)(word >> (64 - shift));
	}
	return WEIR_OK;
}

int parquet_buffer_bits_fill(struct parquet_buffer *buffer, size_t bits_before, bool value, size_t count,
			     struct weir_account *account, struct weir_error *err)
{
	size_t end = bits_before + count, first = bits_before / 8;
	int code = bits_room(buffer, bits_before, count, account, err);

	if (code || !value || !count)
		return code;
	if (first == end / 8) {
		buffer->data[first] |= (uint8_t)(((1u << count) - 1) << bits_before % 8);
		return WEIR_OK;
	}
	buffer->data[first] |= (uint8_t)(0xff << bits_before % 8);
	memset(buffer->data + first + 1, 0xff, end / 8 - first - 1);
	if (end % 8)
		buffer->data[end / 8] |= (uint8_t)((1u << end % 8) - 1);
	return WEIR_OK;
}

/* A view's bytes to `to`, which has slack behind it. */
static inline uint8_t *copy_view(const struct weir_view *view, uint8_t *to)
{
	uint32_t size = view->size;

	if (size <= WEIR_VIEW_INLINE) {
		memcpy(to, view->prefix, WEIR_VIEW_INLINE);
	} else {
		const uint8_t *from = view->data;

		/* Sizes up to 64 without a call: copies that overlap. */
		if (size <= 16) {
			memcpy(to, from, 8);
			memcpy(to + size - 8, from + size - 8, 8);
		} else if (size <= 32) {
			memcpy(to, from, 16);
			memcpy(to + size - 16, from + size - 16, 16);
		} else if (size <= 64) {
			memcpy(to, from, 32);
			memcpy(to + size - 32, from + size - 32, 32);
		} else {
			memcpy(to, from, size);
		}
	}
	return to + size;
}

static int append_views(const struct weir_view *views, const uint16_t *rows, size_t count, size_t step,
			struct weir_account *account, struct parquet_buffer *out, struct parquet_buffer *lengths,
			struct weir_error *err)
{
	uint64_t bytes = 0;
	uint32_t *length;
	uint8_t *to;
	int code;

	if (rows)
		for (size_t i = 0; i < count; i++)
			bytes += views[rows[i]].size;
	else
		for (size_t i = 0; i < count; i++)
			bytes += views[i * step].size;
	code = parquet_buffer_reserve(out, bytes + 4 * (uint64_t)count, account, err);
	if (!code && lengths)
		code = parquet_buffer_reserve(lengths, 4 * (uint64_t)count, account, err);
	if (code)
		return code;
	to = out->data + out->size;
	if (!lengths) {
		for (size_t i = 0; i < count; i++) {
			const struct weir_view *view = &views[rows ? rows[i] : i * step];

			memcpy(to, &view->size, 4);
			to = copy_view(view, to + 4);
		}
		out->size += bytes + 4 * (uint64_t)count;
		return WEIR_OK;
	}
	length = (uint32_t *)(lengths->data + lengths->size);
	for (size_t i = 0; i < count; i++) {
		const struct weir_view *view = &views[rows ? rows[i] : i * step];

		length[i] = view->size;
		to = copy_view(view, to);
	}
	lengths->size += 4 * count;
	out->size += bytes;
	return WEIR_OK;
}

/* One of each conversion; `at` is the row. FAIL leaves with the value that does not fit. */
#define CONVERT_LOOP(in_type, out_type, ...)                                                                           \
	for (size_t i = 0; i < count; i++) {                                                                           \
		size_t at = rows ? rows[i] : i * step;                                                                 \
		in_type value;                                                                                         \
		out_type result;                                                                                       \
		memcpy(&value, from + at * sizeof(in_type), sizeof(in_type));                                          \
		__VA_ARGS__;                                                                                           \
		memcpy(to + i * sizeof(out_type), &result, sizeof(out_type));                                          \
	}

static int convert(const struct parquet_leaf *leaf, const uint8_t *from, const uint16_t *rows, size_t step,
		   size_t count, const struct parquet_encode_kernels *kernels, uint8_t *to, struct weir_error *err)
{
	uint32_t in_width = leaf->type->byte_width, width = leaf->plain_width;

	switch (leaf->convert) {
	case PARQUET_CONVERT_COPY:
		if (!rows && step)
			memcpy(to, from, count * width);
		else if (rows && width == 8)
			kernels->gather8(from, rows, count, to);
		else if (rows && width == 4)
			kernels->gather4(from, rows, count, to);
		else
			for (size_t i = 0; i < count; i++)
				memcpy(to + i * width, from + (rows ? rows[i] : 0) * (size_t)width, width);
		return WEIR_OK;
	case PARQUET_CONVERT_I8:
		CONVERT_LOOP(int8_t, int32_t, result = value);
		return WEIR_OK;
	case PARQUET_CONVERT_I16:
		CONVERT_LOOP(int16_t, int32_t, result = value);
		return WEIR_OK;
	case PARQUET_CONVERT_U8:
		CONVERT_LOOP(uint8_t, uint32_t, result = value);
		return WEIR_OK;
	case PARQUET_CONVERT_U16:
		CONVERT_LOOP(uint16_t, uint32_t, result = value);
		return WEIR_OK;
	case PARQUET_CONVERT_DAYS:
		CONVERT_LOOP(int64_t, int32_t, {
			int64_t days = value / 86400000 - (value % 86400000 < 0);

			if (days != (int32_t)days)
				return weir_error_set(err, WEIR_E_VALUE, "date %lld ms does not fit a Parquet date",
						      (long long)value);
			result = (int32_t)days;
		});
		return WEIR_OK;
	case PARQUET_CONVERT_MILLIS_I32:
		CONVERT_LOOP(int32_t, int32_t, {
			if (__builtin_mul_overflow(value, 1000, &result))
				return weir_error_set(err, WEIR_E_VALUE, "time %d s does not fit milliseconds", value);
		});
		return WEIR_OK;
	case PARQUET_CONVERT_MILLIS_I64:
		CONVERT_LOOP(int64_t, int64_t, {
			if (__builtin_mul_overflow(value, (int64_t)1000, &result))
				return weir_error_set(err, WEIR_E_VALUE, "timestamp %lld s does not fit milliseconds",
						      (long long)value);
		});
		return WEIR_OK;
	case PARQUET_CONVERT_DECIMAL_I32:
	case PARQUET_CONVERT_DECIMAL_I64:
		for (size_t i = 0; i < count; i++)
			memcpy(to + i * width, from + (rows ? rows[i] : i * step) * in_width, width);
		return WEIR_OK;
	case PARQUET_CONVERT_DECIMAL_FIXED:
		for (size_t i = 0; i < count; i++) {
			const uint8_t *value = from + (rows ? rows[i] : i * step) * in_width;

			for (uint32_t b = 0; b < width; b++)
				to[i * width + b] = value[width - 1 - b];
		}
		return WEIR_OK;
	case PARQUET_CONVERT_NULL:
	case PARQUET_CONVERT_BITS:
	case PARQUET_CONVERT_VIEWS:
		break;
	}
	return weir_error_set(err, WEIR_E_INTERNAL, "a Parquet leaf without a conversion");
}

int parquet_plain_append(const struct parquet_leaf *leaf, const struct parquet_values *values,
			 struct parquet_shared *shared, struct parquet_buffer *out, struct parquet_buffer *lengths,
			 struct weir_error *err)
{
	const void *from = values->values;
	const uint16_t *rows = values->rows;
	size_t count = values->count, step = 1;
	int code;

	if (values->form == WEIR_CONSTANT) {
		rows = NULL;
		step = 0;
	}
	if (values->form == WEIR_DICTIONARY) {
		const uint32_t *codes = values->values;
		const struct weir_dictionary *dictionary = values->dictionary;
		uint32_t width = leaf->type->byte_width;

		if (leaf->convert == PARQUET_CONVERT_VIEWS) {
			const struct weir_view *views = dictionary->values;

			for (size_t i = 0; i < count; i++)
				shared->views[i] = views[codes[rows ? rows[i] : i]];
			from = shared->views;
		} else {
			bool straight = leaf->convert == PARQUET_CONVERT_COPY && (width == 4 || width == 8);
			struct parquet_buffer *to = straight ? out : &shared->scratch_values;
			uint8_t *dense;

			if (!straight)
				to->size = 0;
			code = parquet_buffer_reserve(to, count * width, &shared->account, err);
			if (code)
				return code;
			dense = to->data + to->size;
			if (width == 8)
				shared->kernels->gather_codes8(dictionary->values, codes, rows, count, dense);
			else if (width == 4)
				shared->kernels->gather_codes4(dictionary->values, codes, rows, count, dense);
			else
				for (size_t i = 0; i < count; i++)
					memcpy(dense + i * width,
					       (const uint8_t *)dictionary->values +
						       (size_t)codes[rows ? rows[i] : i] * width,
					       width);
			if (straight) {
				out->size += count * width;
				return WEIR_OK;
			}
			from = dense;
		}
		rows = NULL;
	}
	if (leaf->convert == PARQUET_CONVERT_VIEWS)
		return append_views(from, rows, count, step, &shared->account, out, lengths, err);
	code = parquet_buffer_reserve(out, count * leaf->plain_width, &shared->account, err);
	if (!code)
		code = convert(leaf, from, rows, step, count, shared->kernels, out->data + out->size, err);
	if (!code)
		out->size += count * leaf->plain_width;
	return code;
}
