#include "arrow/print.h"

#include "base/utf8.h"
#include "arrow/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- bytes ---- */

/* With its quotes. Bytes that are not UTF-8 are written as \ufffd. */
static int print_json_string(const void *bytes, size_t size, struct weir_text *out, struct weir_error *err)
{
	/* Nothing may lie nowhere. */
	const uint8_t *p = size ? bytes : (const uint8_t *)"", *end = p + size, *run = p;
	int code = weir_text_puts(out, "\"", err);

	while (!code && p < end) {
		char escape[8] = "";

		if (*p == '"' || *p == '\\') {
			snprintf(escape, sizeof(escape), "\\%c", *p);
		} else if (*p < 0x20 || *p == 0x7f) {
			static const char letters[] = "btn.fr"; /* for 8 … 13; 11 has none */

			if (*p >= 8 && *p <= 13 && *p != 11)
				snprintf(escape, sizeof(escape), "\\%c", letters[*p - 8]);
			else
				snprintf(escape, sizeof(escape), "\\u%04x", *p);
		} else if (*p >= 0x80) {
			size_t length = *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : 2;

			if ((size_t)(end - p) >= length && weir_utf8_valid(p, length)) {
				p += length;
				continue;
			}
			snprintf(escape, sizeof(escape), "\\ufffd");
		} else {
			p++;
			continue;
		}
		code = weir_text_append(out, run, (size_t)(p - run), err);
		if (!code)
			code = weir_text_puts(out, escape, err);
		p++;
		run = p;
	}
	if (!code)
		code = weir_text_append(out, run, (size_t)(end - run), err);
	return code ? code : weir_text_puts(out, "\"", err);
}

/* Printable ASCII as it is, everything else as \xNN. */
static int print_binary(const uint8_t *bytes, size_t size, struct weir_text *out, struct weir_error *err)
{
	int code = WEIR_OK;

	for (size_t i = 0; !code && i < size; i++) {
		if (bytes[i] >= 0x20 && bytes[i] < 0x7f && bytes[i] != '\\')
			code = weir_text_append(out, bytes + i, 1, err);
		else
			code = weir_text_printf(out, err, "\\x%02X", bytes[i]);
	}
	return code;
}

/* For a terminal: nothing in a value may move the cursor. */
static int print_visible(const uint8_t *bytes, size_t size, struct weir_text *out, struct weir_error *err)
{
	int code = WEIR_OK;

	for (size_t i = 0; !code && i < size; i++) {
		if (bytes[i] == '\n')
			code = weir_text_puts(out, "\\n", err);
		else if (bytes[i] == '\t')
			code = weir_text_puts(out, "\\t", err);
		else if (bytes[i] < 0x20 || bytes[i] == 0x7f)
			code = weir_text_printf(out, err, "\\x%02x", bytes[i]);
		else
			code = weir_text_append(out, bytes + i, 1, err);
	}
	return code;
}

static int print_bytes(const struct weir_type *type, const uint8_t *bytes, size_t size, enum weir_print_style style,
		       struct weir_text *out, struct weir_error *err)
{
	struct weir_text escaped;
	int code;

	if (weir_type_is_text(type)) {
		if (style == WEIR_PRINT_JSON)
			return print_json_string(bytes, size, out, err);
		return style == WEIR_PRINT_TABLE ? print_visible(bytes, size, out, err)
						 : weir_text_append(out, bytes, size, err);
	}
	if (style != WEIR_PRINT_JSON)
		return print_binary(bytes, size, out, err);
	weir_text_init(&escaped, out->account);
	code = print_binary(bytes, size, &escaped, err);
	if (!code)
		code = print_json_string(escaped.data, escaped.size, out, err);
	weir_text_release(&escaped);
	return code;
}

/* ---- any value ---- */

static int64_t offset_at(const struct weir_array *array, int64_t row, bool is_large)
{
	return is_large ? ((const int64_t *)array->buffers[1].data)[row]
			: ((const int32_t *)array->buffers[1].data)[row];
}

/* Text that stands between quotes in JSON. */
static int quoted(int (*print)(const struct weir_array *, int64_t, struct weir_text *, struct weir_error *),
		  const struct weir_array *array, int64_t place, enum weir_print_style style, struct weir_text *out,
		  struct weir_error *err)
{
	bool quotes = style == WEIR_PRINT_JSON;
	int code = quotes ? weir_text_puts(out, "\"", err) : WEIR_OK;

	if (!code)
		code = print(array, place, out, err);
	return code || !quotes ? code : weir_text_puts(out, "\"", err);
}

/* Numbers, decimals and times: the text that casts give. */
static int print_plain(const struct weir_array *array, int64_t place, struct weir_text *out, struct weir_error *err)
{
	char text[WEIR_VALUE_TEXT_MAX];
	size_t size = weir_value_format(array->type, array->buffers[1].data + (size_t)place * array->type->byte_width,
					text);

	return weir_text_append(out, text, size, err);
}

static bool is_finite(const struct weir_array *array, int64_t place)
{
	const void *values = array->buffers[1].data;

	switch (array->type->id) {
	case WEIR_HALF:
		return isfinite(weir_half_to_float(((const uint16_t *)values)[place]));
	case WEIR_FLOAT:
		return isfinite(((const float *)values)[place]);
	case WEIR_DOUBLE:
		return isfinite(((const double *)values)[place]);
	default:
		return true;
	}
}

static int print_interval(const struct weir_array *array, int64_t place, struct weir_text *out, struct weir_error *err)
{
	const uint8_t *at = array->buffers[1].data + (size_t)place * array->type->byte_width;
	int32_t a = 0, b = 0;
	int64_t c = 0;

	memcpy(&a, at, 4);
	if (array->type->id == WEIR_INTERVAL_MONTHS)
		return weir_text_printf(out, err, "%" PRId32 "mo", a);
	memcpy(&b, at + 4, 4);
	if (array->type->id == WEIR_INTERVAL_DAY_TIME)
		return weir_text_printf(out, err, "%" PRId32 "d%" PRId32 "ms", a, b);
	memcpy(&c, at + 8, 8);
	return weir_text_printf(out, err, "%" PRId32 "mo%" PRId32 "d%" PRId64 "ns", a, b, c);
}

static int print_list(const struct weir_array *items, int64_t begin, int64_t end, struct weir_text *out,
		      struct weir_error *err)
{
	int code = weir_text_puts(out, "[", err);

	for (int64_t i = begin; !code && i < end; i++) {
		if (i > begin)
			code = weir_text_puts(out, ", ", err);
		if (!code)
			code = weir_print_value(items, i, WEIR_PRINT_JSON, out, err);
	}
	return code ? code : weir_text_puts(out, "]", err);
}

static int print_struct(const struct weir_array *array, int64_t place, struct weir_text *out, struct weir_error *err)
{
	int code = weir_text_puts(out, "{", err);

	for (uint32_t i = 0; !code && i < array->child_count; i++) {
		const char *name = array->type->fields[i].name;

		if (i)
			code = weir_text_puts(out, ", ", err);
		if (!code)
			code = print_json_string(name, strlen(name), out, err);
		if (!code)
			code = weir_text_puts(out, ": ", err);
		if (!code)
			code = weir_print_value(array->children[i], place, WEIR_PRINT_JSON, out, err);
	}
	return code ? code : weir_text_puts(out, "}", err);
}

static int print_nested(const struct weir_array *array, int64_t place, struct weir_text *out, struct weir_error *err)
{
	bool is_large = array->type->id == WEIR_LARGE_LIST;

	switch (array->type->id) {
	case WEIR_STRUCT:
		return print_struct(array, place, out, err);
	case WEIR_FIXED_LIST:
		return print_list(array->children[0], place * array->type->list_size,
				  (place + 1) * array->type->list_size, out, err);
	default:
		return print_list(array->children[0], offset_at(array, place, is_large),
				  offset_at(array, place + 1, is_large), out, err);
	}
}

int weir_print_value(const struct weir_array *array, int64_t row, enum weir_print_style style, struct weir_text *out,
		     struct weir_error *err)
{
	const struct weir_type *type = array->type;
	int64_t place = array->offset + row;
	const uint8_t *values = array->buffers[1].data;

	if (!weir_array_is_valid(array, row))
		return style == WEIR_PRINT_CSV ? WEIR_OK : weir_text_puts(out, "null", err);
	if (type->id == WEIR_DICTIONARY_TYPE)
		return weir_print_value(array->dictionary, weir_array_code(array, place), style, out, err);
	if (type->layout == WEIR_LAYOUT_BITS) {
		bool bit = values[place >> 3] >> (place & 7) & 1;

		return weir_text_puts(out, bit ? "true" : "false", err);
	}
	if (type->layout == WEIR_LAYOUT_NESTED)
		return print_nested(array, place, out, err);
	if (type->layout == WEIR_LAYOUT_BYTES) {
		bool is_large = type->id == WEIR_LARGE_BINARY || type->id == WEIR_LARGE_STRING;
		int64_t begin = offset_at(array, place, is_large), end = offset_at(array, place + 1, is_large);

		return print_bytes(type, array->buffers[2].data + begin, (size_t)(end - begin), style, out, err);
	}
	if (type->id == WEIR_FIXED_BINARY)
		return print_bytes(type, values + (size_t)place * type->byte_width, type->byte_width, style, out, err);
	if (type->id >= WEIR_INTERVAL_MONTHS && type->id <= WEIR_INTERVAL_MONTH_DAY_NANO)
		return quoted(print_interval, array, place, style, out, err);
	if (weir_type_is_temporal(type) && type->id != WEIR_DURATION)
		return quoted(print_plain, array, place, style, out, err);
	if (style == WEIR_PRINT_JSON && !is_finite(array, place)) /* JSON has no such numbers */
		return weir_text_puts(out, "null", err);
	return print_plain(array, place, out, err);
}
