/* Strings, bytes and nested values. A string is copied sixteen bytes at a time and looked at on the way; the first byte
 * that cannot stand as it is starts the slow way, from the beginning in CSV (quotes go around all of it), from there in
 * JSON. */
#include "base/utf8.h"
#include "arrow/value.h"
#include "format/text/scan_impl.h"

#include <math.h>

/* ---- CSV ---- */

bool text_is_special(const struct text_style *style, const uint8_t *bytes, size_t size)
{
	size_t i = 0;

	if (!size)
		return false;
	for (; i + 16 <= size; i += 16) {
		if (any(csv_specials(style, load16(bytes + i))))
			return true;
	}
	if (i == size)
		return false;
	return any(csv_specials(style, size >= 16 ? load16(bytes + size - 16) : load_short(bytes, size)));
}

/* At most TEXT_PIECE bytes, between quotes that others write. */
static char *csv_escape(const struct text_style *style, const uint8_t *bytes, size_t size, char *p)
{
	for (size_t i = 0; i < size; i++) {
		char c = (char)bytes[i];

		if (c == style->quote || c == style->escape)
			*p++ = style->escape;
		*p++ = c;
	}
	return p;
}

int text_put_csv(struct text_out *out, const struct text_style *style, const uint8_t *bytes, size_t size, bool quoted,
		 bool *needs_quotes, struct weir_error *err)
{
	int code = WEIR_OK;

	if (style->quoting == WEIR_QUOTING_NONE) {
		*needs_quotes = text_is_special(style, bytes, size);
		if (*needs_quotes)
			return WEIR_OK;
	} else {
		quoted = quoted || (size == 0 && style->quotes_empty) ||
			 (size == style->null_size && memcmp(bytes, style->null_text, size) == 0) ||
			 text_is_special(style, bytes, size);
	}
	if (quoted)
		*out->p++ = style->quote;
	for (size_t i = 0; !code && i < size; i += TEXT_PIECE) {
		size_t piece = size - i < TEXT_PIECE ? size - i : TEXT_PIECE;

		out->p = quoted ? csv_escape(style, bytes + i, piece, out->p) : text_copy(out->p, bytes + i, piece);
		code = text_out_room(out, err);
	}
	if (quoted)
		*out->p++ = style->quote;
	return code;
}

/* ---- JSON ---- */

static char *json_escape(uint8_t c, char *p)
{
	static const char letters[] = "btn.fr"; /* for 8 … 13; 11 has none */
	static const char hex[] = "0123456789abcdef";

	*p++ = '\\';
	if (c == '"' || c == '\\') {
		*p++ = (char)c;
	} else if (c >= 8 && c <= 13 && c != 11) {
		*p++ = letters[c - 8];
	} else {
		memcpy(p, "u00", 3);
		p[3] = hex[c >> 4];
		p[4] = hex[c & 15];
		p += 5;
	}
	return p;
}

/* Valid UTF-8 of at most TEXT_PIECE bytes. */
static char *json_piece(const uint8_t *bytes, size_t size, char *p)
{
	size_t i = 0;

	while (i + 16 <= size) {
		bytes16 v = load16(bytes + i);

		memcpy(p, &v, 16);
		if (any(json_specials(v))) {
			for (size_t end = i + 16; i < end; i++) {
				if (bytes[i] < 0x20 || bytes[i] == '"' || bytes[i] == '\\')
					p = json_escape(bytes[i], p);
				else
					*p++ = (char)bytes[i];
			}
			continue;
		}
		i += 16;
		p += 16;
	}
	for (; i < size; i++) {
		if (bytes[i] < 0x20 || bytes[i] == '"' || bytes[i] == '\\')
			p = json_escape(bytes[i], p);
		else
			*p++ = (char)bytes[i];
	}
	return p;
}

int text_put_json(struct text_out *out, const uint8_t *bytes, size_t size, struct weir_error *err)
{
	int code = WEIR_OK;

	*out->p++ = '"';
	while (!code && size) {
		/* What is not UTF-8 becomes U+FFFD, a byte at a time. */
		size_t valid = weir_utf8_valid_prefix(bytes, size);

		for (size_t i = 0; !code && i < valid; i += TEXT_PIECE) {
			out->p = json_piece(bytes + i, valid - i < TEXT_PIECE ? valid - i : TEXT_PIECE, out->p);
			code = text_out_room(out, err);
		}
		bytes += valid;
		size -= valid;
		if (!code && size) {
			out->p = text_copy(out->p, "\\ufffd", 6);
			bytes++;
			size--;
			code = text_out_room(out, err);
		}
	}
	*out->p++ = '"';
	return code;
}

int text_put_binary(struct text_out *scratch, const uint8_t *bytes, size_t size, struct weir_error *err)
{
	static const char hex[] = "0123456789ABCDEF";
	int code = WEIR_OK;

	scratch->p = scratch->data;
	for (size_t i = 0; !code && i < size; i++) {
		if (bytes[i] >= 0x20 && bytes[i] < 0x7f && bytes[i] != '\\') {
			*scratch->p++ = (char)bytes[i];
		} else {
			memcpy(scratch->p, "\\x", 2);
			scratch->p[2] = hex[bytes[i] >> 4];
			scratch->p[3] = hex[bytes[i] & 15];
			scratch->p += 4;
		}
		code = text_out_room(scratch, err);
	}
	return code;
}

size_t text_format_interval(const struct weir_type *type, const void *value, char *out)
{
	const uint8_t *at = value;
	int32_t a = 0, b = 0;
	int64_t c = 0;
	size_t size;

	memcpy(&a, at, 4);
	size = weir_format_i64(a, out);
	if (type->id == WEIR_INTERVAL_MONTHS) {
		memcpy(out + size, "mo", 2);
		return size + 2;
	}
	memcpy(&b, at + 4, 4);
	if (type->id == WEIR_INTERVAL_DAY_TIME) {
		out[size++] = 'd';
		size += weir_format_i64(b, out + size);
		memcpy(out + size, "ms", 2);
		return size + 2;
	}
	memcpy(&c, at + 8, 8);
	memcpy(out + size, "mo", 2);
	size += 2 + weir_format_i64(b, out + size + 2);
	out[size++] = 'd';
	size += weir_format_i64(c, out + size);
	memcpy(out + size, "ns", 2);
	return size + 2;
}

/* ---- nested values, as JSON ---- */

static bool is_valid(const struct weir_array *array, int64_t place)
{
	const uint8_t *bits = array->buffers[0].data;

	return array->type->id != WEIR_NULL && (!bits || bits[place >> 3] >> (place & 7) & 1);
}

static int64_t offset_at(const struct weir_array *array, int64_t place, bool is_large)
{
	return is_large ? ((const int64_t *)array->buffers[1].data)[place]
			: ((const int32_t *)array->buffers[1].data)[place];
}

static int put_row(struct text_out *out, struct text_out *scratch, const struct text_style *style,
		   const struct weir_array *array, int64_t place, struct weir_error *err)
{
	int code = text_out_room(out, err);

	if (code)
		return code;
	if (!is_valid(array, place)) {
		out->p = text_copy(out->p, "null", 4);
		return WEIR_OK;
	}
	return text_put_nested(out, scratch, style, array, place, err);
}

static int put_list(struct text_out *out, struct text_out *scratch, const struct text_style *style,
		    const struct weir_array *items, int64_t begin, int64_t end, struct weir_error *err)
{
	int code = WEIR_OK;

	*out->p++ = '[';
	for (int64_t i = begin; !code && i < end; i++) {
		if (i > begin)
			*out->p++ = ',';
		code = put_row(out, scratch, style, items, items->offset + i, err);
	}
	*out->p++ = ']';
	return code;
}

static int put_struct(struct text_out *out, struct text_out *scratch, const struct text_style *style,
		      const struct weir_array *array, int64_t place, struct weir_error *err)
{
	int code = WEIR_OK;

	*out->p++ = '{';
	for (uint32_t i = 0; !code && i < array->child_count; i++) {
		const char *name = array->type->fields[i].name;

		if (i)
			*out->p++ = ',';
		code = text_put_json(out, (const uint8_t *)name, strlen(name), err);
		*out->p++ = ':';
		if (!code)
			code = put_row(out, scratch, style, array->children[i], array->children[i]->offset + place,
				       err);
	}
	*out->p++ = '}';
	return code;
}

static int put_plain(struct text_out *out, const struct text_style *style, const struct weir_type *type,
		     const uint8_t *value)
{
	double real = 0;
	float narrow = 0;
	uint16_t half;
	bool is_text = weir_type_is_temporal(type) && type->id != WEIR_DURATION;

	if (type->id == WEIR_DOUBLE) {
		memcpy(&real, value, 8);
	} else if (type->id == WEIR_FLOAT) {
		memcpy(&narrow, value, 4);
		real = narrow;
	} else if (type->id == WEIR_HALF) {
		memcpy(&half, value, 2);
		real = weir_half_to_float(half);
	}
	if (!isfinite(real)) {
		const char *name = !style->names_non_finite ? "null"
				   : isnan(real)            ? "NaN"
				   : real < 0               ? "-Infinity"
							    : "Infinity";

		out->p = text_copy(out->p, name, strlen(name));
		return WEIR_OK;
	}
	if (is_text)
		*out->p++ = '"';
	out->p += type->id >= WEIR_INTERVAL_MONTHS && type->id <= WEIR_INTERVAL_MONTH_DAY_NANO
			  ? text_format_interval(type, value, out->p)
			  : weir_value_format(type, value, out->p);
	if (is_text)
		*out->p++ = '"';
	return WEIR_OK;
}

static int put_bytes(struct text_out *out, struct text_out *scratch, const struct weir_type *type, const uint8_t *bytes,
		     size_t size, struct weir_error *err)
{
	int code;

	if (weir_type_is_text(type))
		return text_put_json(out, bytes, size, err);
	code = text_put_binary(scratch, bytes, size, err);
	return code ? code
		    : text_put_json(out, (const uint8_t *)scratch->data, (size_t)(scratch->p - scratch->data), err);
}

int text_put_nested(struct text_out *out, struct text_out *scratch, const struct text_style *style,
		    const struct weir_array *array, int64_t place, struct weir_error *err)
{
	const struct weir_type *type = array->type;
	const uint8_t *values = array->buffers[1].data;
	bool is_large = type->id == WEIR_LARGE_LIST || type->id == WEIR_LARGE_BINARY || type->id == WEIR_LARGE_STRING;
	int64_t begin, end;

	if (type->id == WEIR_DICTIONARY_TYPE)
		return put_row(out, scratch, style, array->dictionary,
			       array->dictionary->offset + weir_array_code(array, place), err);
	switch (type->layout) {
	case WEIR_LAYOUT_BITS:
		out->p = values[place >> 3] >> (place & 7) & 1 ? text_copy(out->p, "true", 4)
							       : text_copy(out->p, "false", 5);
		return WEIR_OK;
	case WEIR_LAYOUT_BYTES:
		begin = offset_at(array, place, is_large);
		end = offset_at(array, place + 1, is_large);
		return put_bytes(out, scratch, type, array->buffers[2].data + begin, (size_t)(end - begin), err);
	case WEIR_LAYOUT_FIXED:
		if (type->id == WEIR_FIXED_BINARY)
			return put_bytes(out, scratch, type, values + (size_t)place * type->byte_width,
					 type->byte_width, err);
		return put_plain(out, style, type, values + (size_t)place * type->byte_width);
	default:
		break;
	}
	if (type->id == WEIR_STRUCT)
		return put_struct(out, scratch, style, array, place, err);
	if (type->id == WEIR_FIXED_LIST)
		return put_list(out, scratch, style, array->children[0], place * type->list_size,
				(place + 1) * type->list_size, err);
	begin = offset_at(array, place, is_large);
	end = offset_at(array, place + 1, is_large);
	return put_list(out, scratch, style, array->children[0], begin, end, err);
}

/* Values from `*at` on as lists within lists, one for each dimension from this one. */
static int put_dimension(struct text_out *out, struct text_out *scratch, const struct text_style *style,
			 const struct weir_array *items, const struct weir_tensor_shape *shape, uint32_t dimension,
			 int64_t *at, struct weir_error *err)
{
	int64_t size = shape->sizes[dimension];
	int code = WEIR_OK;

	if (dimension + 1 == shape->count) {
		*at += size;
		return put_list(out, scratch, style, items, *at - size, *at, err);
	}
	*out->p++ = '[';
	for (int64_t i = 0; !code && i < size; i++) {
		code = text_out_room(out, err);
		if (code)
			break;
		if (i)
			*out->p++ = ',';
		code = put_dimension(out, scratch, style, items, shape, dimension + 1, at, err);
	}
	*out->p++ = ']';
	return code;
}

int text_put_tensor(struct text_out *out, struct text_out *scratch, const struct text_style *style,
		    const struct weir_array *array, int64_t place, const struct weir_tensor_shape *shape,
		    struct weir_error *err)
{
	const struct weir_type *type = array->type;
	bool is_fixed = type->id == WEIR_FIXED_LIST, is_large = type->id == WEIR_LARGE_LIST;
	int64_t begin = is_fixed ? place * type->list_size : offset_at(array, place, is_large);
	int64_t end = is_fixed ? begin + type->list_size : offset_at(array, place + 1, is_large);
	int64_t count = 1;

	for (uint32_t i = 0; i < shape->count; i++)
		count *= shape->sizes[i]; /* weir_tensor_fixed has seen that it does not overflow */
	/* A list may have any length, whatever the column says; and of nothing there may be any number of lists. */
	if (!count || count != end - begin)
		return put_list(out, scratch, style, array->children[0], begin, end, err);
	return put_dimension(out, scratch, style, array->children[0], shape, 0, &begin, err);
}
