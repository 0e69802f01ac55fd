/* Values into columns, a column at a time, for the rows that are asked for.
 *
 * A value is what lies between its entry and the next one: a string without its quotes, or a number with blanks behind
 * it. Loops handle what most values are; anything else (null, more digits, blanks, nonsense) is left to one careful
 * function.
 */
#include "base/timetext.h"
#include "arrow/bitmap.h"
#include "arrow/value.h"
#include "vector/kernels.h"
#include "format/json/json_impl.h"

#include <math.h>
#include <string.h>

static bool integer_fits(enum weir_type_id id, int64_t value)
{
	switch (id) {
	case WEIR_INT8:
		return value == (int8_t)value;
	case WEIR_INT16:
		return value == (int16_t)value;
	case WEIR_INT32:
		return value == (int32_t)value;
	case WEIR_UINT8:
		return value == (uint8_t)value;
	case WEIR_UINT16:
		return value == (uint16_t)value;
	case WEIR_UINT32:
		return value == (uint32_t)value;
	default:
		return true;
	}
}

static bool integer_read(const struct weir_type *type, const struct weir_numeral *number, void *out)
{
	int64_t value;
	uint64_t large;

	if (type->id == WEIR_UINT64) {
		if (!weir_numeral_u64(number, &large))
			return false;
		memcpy(out, &large, 8);
		return true;
	}
	if (!weir_numeral_i64(number, &value) || !integer_fits(type->id, value))
		return false;
	memcpy(out, &value, type->byte_width); /* little endian */
	return true;
}

static bool real_read(const struct weir_type *type, const struct weir_numeral *number, void *out)
{
	double value;
	float single;
	uint16_t half;

	if (type->id == WEIR_DOUBLE) {
		value = weir_numeral_double(number);
		memcpy(out, &value, 8);
		return number->name || isfinite(value);
	}
	single = weir_numeral_float(number);
	if (!number->name && !isfinite(single))
		return false;
	if (type->id == WEIR_FLOAT) {
		memcpy(out, &single, 4);
		return true;
	}
	half = weir_float_to_half(single);
	memcpy(out, &half, 2);
	return number->name || isfinite(weir_half_to_float(half));
}

static bool timestamp_read(const struct weir_type *type, const char *text, size_t size, void *out)
{
	static const uint8_t digits[] = {[WEIR_SECOND] = 0, [WEIR_MILLI] = 3, [WEIR_MICRO] = 6, [WEIR_NANO] = 9};
	struct weir_timestamp_text scanned;
	int64_t value;

	if (!weir_scan_timestamp(text, size, &scanned) || scanned.fraction_digits > digits[type->unit] ||
	    !weir_timestamp_units(&scanned, digits[type->unit], &value))
		return false;
	memcpy(out, &value, 8);
	return true;
}

bool json_scalar_read(const struct json_window *window, const struct json_options *options,
		      const struct json_shape *shape, uint32_t entry, struct weir_arena *arena, void *out)
{
	size_t begin = window->entries[entry], end = json_value_end(window, entry);
	const uint8_t *text = window->text + begin;
	size_t size = end - begin;
	bool is_string = *text == '"';
	struct weir_numeral number;
	struct weir_error ignored = {0};

	if (is_string &&
	    json_string_read(window, options, begin + 1, window->entries[entry + 1], arena, &text, &size, &ignored))
		return false;
	if (shape->type->id == WEIR_DOUBLE && !is_string &&
	    weir_parse_double((const char *)text, size, WEIR_NUMBER_JSON, (double *)out) == size)
		return isfinite(*(double *)out);
	switch (shape->kind) {
	case JSON_BOOL:
		if (is_string || json_word_kind(options, text, size) != JSON_WORD_BOOL)
			return false;
		*(uint8_t *)out = *text == 't';
		return true;
	case JSON_INTEGER:
		return !is_string && weir_numeral_scan((const char *)text, size, WEIR_NUMBER_JSON, &number) == size &&
		       integer_read(shape->type, &number, out);
	case JSON_REAL:
		return !is_string &&
		       weir_numeral_scan((const char *)text, size, json_grammar(options), &number) == size &&
		       real_read(shape->type, &number, out);
	case JSON_TIMESTAMP:
		return is_string && timestamp_read(shape->type, (const char *)text, size, out);
	case JSON_FIXED:
		/* Numbers as decimals and durations; the rest is spelled as a string. */
		if (!is_string && (weir_type_is_decimal(shape->type) || shape->type->id == WEIR_DURATION)) {
			enum json_word kind = json_word_kind(options, text, size);

			if (kind != JSON_WORD_INTEGER && kind != JSON_WORD_REAL)
				return false;
		} else if (!is_string) {
			return false;
		}
		return weir_value_parse(shape->type, (const char *)text, size, out);
	default:
		return false;
	}
}

/* ── columns ── */

struct decode {
	struct json_reader *reader;
	struct json_column *column;
	const struct weir_selection *selection;
	uint32_t row_count;
	uint64_t *validity;
	bool has_nulls;
};

static int decoded_reserve(struct json_column *column, size_t size, struct weir_error *err)
{
	struct weir_account *account = column->reader->account;
	uint8_t *memory;

	if (size <= column->decoded_capacity)
		return WEIR_OK;
	memory = weir_alloc(account, size, err);
	if (!memory)
		return err->code;
	weir_free(account, column->decoded, column->decoded_capacity);
	column->decoded = memory;
	column->decoded_capacity = size;
	return WEIR_OK;
}

static inline void set_null(struct decode *decode, uint32_t row)
{
	decode->has_nulls = true;
	decode->validity[row >> 6] &= ~(UINT64_C(1) << (row & 63));
}

/* What the loops below leave over. */
static int decode_slowly(struct decode *decode, uint32_t row, uint32_t entry, void *out, struct weir_error *err)
{
	struct json_reader *self = decode->reader;

	if (!entry || json_is_null(&self->cursor.window, entry)) {
		memset(out, 0, decode->column->shape.type->byte_width);
		set_null(decode, row);
		return WEIR_OK;
	}
	if (json_scalar_read(&self->cursor.window, self->file->options, &decode->column->shape, entry, &self->arena,
			     out))
		return WEIR_OK;
	return json_value_misfit(self, decode->column, entry, entry, err);
}

#define FOR_ROWS(decode)                                                                                               \
	for (uint32_t k_ = 0, row; k_ < (decode)->selection->count &&                                                  \
				   (row = (decode)->selection->rows ? (decode)->selection->rows[k_] : k_, true);       \
	     k_++)

static int decode_i64(struct decode *decode, struct weir_error *err)
{
	const struct json_window *window = &decode->reader->cursor.window;
	const uint8_t *text = window->text;
	const uint32_t *entries = window->entries, *values = decode->column->values;
	int64_t *out = (int64_t *)decode->column->decoded;

	FOR_ROWS(decode)
	{
		uint32_t entry = values[row], begin = entries[entry];
		size_t size = entries[entry + 1] - begin;
		bool negative = text[begin] == '-';

		/* A zero in front is JSON only when it is the number. */
		if (entry &&
		    (weir_parse_i64_short((const char *)text + begin, size, &out[row]) ||
		     weir_parse_i64((const char *)text + begin, size, &out[row])) &&
		    (text[begin + negative] != '0' || size == (size_t)1 + negative))
			continue;
		if (decode_slowly(decode, row, entry, &out[row], err))
			return err->code;
	}
	return WEIR_OK;
}

static int decode_double(struct decode *decode, struct weir_error *err)
{
	const struct json_window *window = &decode->reader->cursor.window;
	const uint8_t *text = window->text;
	const uint32_t *entries = window->entries, *values = decode->column->values;
	double *out = (double *)decode->column->decoded;
	struct weir_number_grammar grammar = WEIR_NUMBER_JSON;

	FOR_ROWS(decode)
	{
		uint32_t entry = values[row], begin = entries[entry];
		size_t size = entries[entry + 1] - begin;

		if (entry && weir_parse_double((const char *)text + begin, size, grammar, &out[row]) == size &&
		    isfinite(out[row]))
			continue;
		if (decode_slowly(decode, row, entry, &out[row], err))
			return err->code;
	}
	return WEIR_OK;
}

static int decode_timestamps(struct decode *decode, struct weir_error *err)
{
	const struct json_window *window = &decode->reader->cursor.window;
	const uint8_t *text = window->text;
	const uint32_t *entries = window->entries, *values = decode->column->values;
	int64_t *out = (int64_t *)decode->column->decoded;

	FOR_ROWS(decode)
	{
		uint32_t entry = values[row], begin = entries[entry];

		/* With escapes it would not be taken. */
		if (entry && text[begin] == '"' &&
		    timestamp_read(decode->column->shape.type, (const char *)text + begin + 1,
				   entries[entry + 1] - begin - 1, &out[row]))
			continue;
		if (decode_slowly(decode, row, entry, &out[row], err))
			return err->code;
	}
	return WEIR_OK;
}

static int decode_fixed(struct decode *decode, struct weir_error *err)
{
	uint32_t width = decode->column->shape.type->byte_width;

	FOR_ROWS(decode)
	{
		if (decode_slowly(decode, row, decode->column->values[row],
				  decode->column->decoded + (size_t)row * width, err))
			return err->code;
	}
	return WEIR_OK;
}

static int decode_bool(struct decode *decode, struct weir_error *err)
{
	const struct json_window *window = &decode->reader->cursor.window;
	uint64_t *bits = (uint64_t *)decode->column->decoded;

	memset(bits, 0, WEIR_BIT_WORDS(decode->row_count) * sizeof(*bits));
	FOR_ROWS(decode)
	{
		uint32_t entry = decode->column->values[row];
		const uint8_t *text = window->text + window->entries[entry];
		uint8_t value[32];

		if (entry && window->entries[entry + 1] - window->entries[entry] == 4 && memcmp(text, "true", 4) == 0) {
			bits[row >> 6] |= UINT64_C(1) << (row & 63);
			continue;
		}
		if (entry && window->entries[entry + 1] - window->entries[entry] == 5 && memcmp(text, "false", 5) == 0)
			continue;
		if (decode_slowly(decode, row, entry, value, err))
			return err->code;
		bits[row >> 6] |= (uint64_t)(entry && value[0]) << (row & 63);
	}
	return WEIR_OK;
}

/* Strings as they are; of anything else, in a column of strings, its text. */
static int string_slowly(struct decode *decode, uint32_t row, uint32_t entry, struct weir_view *out,
			 struct weir_error *err)
{
	struct json_reader *self = decode->reader;
	const struct json_window *window = &self->cursor.window;
	const uint8_t *bytes;
	size_t size;

	if (!entry || json_is_null(window, entry)) {
		*out = (struct weir_view){0};
		set_null(decode, row);
		return WEIR_OK;
	}
	if (window->text[window->entries[entry]] != '"' && decode->column->shape.kind == JSON_BINARY)
		return json_value_misfit(self, decode->column, entry, entry, err);
	if (json_text_check(self, decode->column, entry, err))
		return err->code;
	if (json_text_read(window, self->file->options, entry, &self->arena, &bytes, &size, err))
		return err->code;
	*out = weir_view_make(bytes, (uint32_t)size);
	return WEIR_OK;
}

static int decode_strings(struct decode *decode, struct weir_error *err)
{
	const struct json_window *window = &decode->reader->cursor.window;
	const uint8_t *text = window->text;
	const uint32_t *entries = window->entries, *values = decode->column->values;
	struct weir_view *out = (struct weir_view *)decode->column->decoded;
	const bool is_plain = window->is_ascii && !window->has_escapes;

	FOR_ROWS(decode)
	{
		uint32_t entry = values[row], begin = entries[entry];

		if (entry && text[begin] == '"') {
			size_t size = entries[entry + 1] - begin - 1;

			if (is_plain || (size <= 64 && json_is_plain(text + begin + 1, size))) {
				out[row] = weir_view_make(text + begin + 1, (uint32_t)size);
				continue;
			}
		}
		if (string_slowly(decode, row, entry, &out[row], err))
			return err->code;
	}
	return WEIR_OK;
}

static int decode_nulls(struct decode *decode, struct weir_error *err)
{
	struct json_reader *self = decode->reader;

	FOR_ROWS(decode)
	{
		uint32_t entry = decode->column->values[row];

		if (entry && !json_is_null(&self->cursor.window, entry))
			return json_value_misfit(self, decode->column, entry, entry, err);
	}
	return WEIR_OK;
}

static int decode_into(struct decode *decode, struct weir_column *out, struct weir_error *err)
{
	static const uint64_t no_bits[1] = {0};
	static const uint64_t no_value[4] = {0};
	struct json_column *column = decode->column;
	const struct weir_type *type = column->shape.type;
	size_t width = type->layout == WEIR_LAYOUT_BYTES ? sizeof(struct weir_view) : type->byte_width;
	int code;

	out->form = WEIR_FLAT;
	switch (column->shape.kind) {
	case JSON_NULL:
		out->form = WEIR_CONSTANT;
		out->validity = no_bits;
		out->values = no_value;
		return decode_nulls(decode, err);
	case JSON_LIST:
	case JSON_STRUCT:
	case JSON_MAP:
		out->validity = NULL;
		out->values = NULL;
		out->nested_offset = 0;
		if (json_nested_decode(column, decode->selection, decode->row_count, err))
			return err->code;
		out->nested = column->nested;
		return WEIR_OK;
	default:
		break;
	}
	/* Whole words of bits, and room for them where values are bits. */
	if (decoded_reserve(column, (size_t)WEIR_BIT_WORDS(column->reader->rows_cap) * 64 * (width ? width : 1), err))
		return err->code;
	decode->validity = column->validity;
	memset(decode->validity, 0xff, WEIR_BIT_WORDS(decode->row_count) * sizeof(*decode->validity));
	switch (column->shape.kind) {
	case JSON_STRING:
	case JSON_BINARY:
		code = decode_strings(decode, err);
		break;
	case JSON_BOOL:
		code = decode_bool(decode, err);
		break;
	case JSON_TIMESTAMP:
		code = decode_timestamps(decode, err);
		break;
	default:
		code = type->id == WEIR_INT64    ? decode_i64(decode, err)
		       : type->id == WEIR_DOUBLE ? decode_double(decode, err)
						 : decode_fixed(decode, err);
	}
	out->values = column->decoded;
	out->validity = decode->has_nulls ? decode->validity : NULL;
	return code;
}

int json_column_decode(struct weir_pending *pending, const struct weir_selection *selection, struct weir_column *column,
		       struct weir_error *err)
{
	struct json_column *self = (struct json_column *)pending;
	struct decode decode = {
		.reader = self->reader,
		.column = self,
		.selection = selection,
		.row_count = self->reader->vector_rows,
	};

	if (decode_into(&decode, column, err)) {
		weir_error_at_column(err, self->field->name);
		return json_reader_place(self->reader, err);
	}
	return WEIR_OK;
}

/* ── values that do not fit ── */

/* The value as it is spelled, for the message; of nested ones the beginning would say little. */
static void add_value(const struct json_window *window, uint32_t entry, struct weir_error *err)
{
	size_t begin = window->entries[entry], end = json_value_end(window, entry);
	uint8_t byte = window->text[begin];

	if (byte == '"')
		weir_error_at_value(err, (const char *)window->text + begin + 1, end - begin - 1);
	else if (byte != '{' && byte != '[')
		weir_error_at_value(err, (const char *)window->text + begin, end - begin);
}

int json_text_check(struct json_reader *self, const struct json_column *column, uint32_t entry, struct weir_error *err)
{
	const struct json_window *window = &self->cursor.window;
	const struct json_options *options = self->file->options;
	const char *name = column->field->name;
	size_t at = window->entries[entry], size = strlen(name);

	if (!options->mixed_refused || window->text[at] == '"')
		return WEIR_OK;
	for (uint32_t i = 0; i < options->given_count; i++) /* of the column, or of something inside it */
		if (strncmp(options->given[i].path, name, size) == 0 &&
		    (!options->given[i].path[size] || options->given[i].path[size] == '.'))
			return WEIR_OK;
	json_window_fail(
		window, at, err, WEIR_E_DATA,
		"no type holds this value and the others of the column; say --types '%.64s=string' to read all of them as "
		"text",
		name);
	add_value(window, entry, err);
	return err->code;
}

int json_value_misfit(struct json_reader *self, const struct json_column *column, uint32_t top, uint32_t entry,
		      struct weir_error *err)
{
	const struct json_window *window = &self->cursor.window;
	const struct json_options *options = self->file->options;
	const struct weir_read_setup *setup = self->file->setup;
	const struct weir_type *type = NULL, *wider = NULL;
	char have[64], want[64];
	size_t at = window->entries[entry];
	const char *name = column->field->name;

	/* What is no JSON fits no type. */
	if (!json_value_check(window, options, top, &self->arena, err))
		return err->code;
	weir_type_name(column->shape.type, have, sizeof(have));
	if (json_options_given(options, name)) {
		json_window_fail(window, at, err, WEIR_E_CAST, "a value does not fit the type %s that was given", have);
		add_value(window, entry, err);
		return WEIR_E_CAST;
	}
	type = json_infer_value(self->account, options, window, top, err);
	if (!type)
		return err->code;
	wider = json_infer_unify(self->account, column->shape.type, type, err);
	weir_type_unref(type);
	if (!wider)
		return err->code;
	if (weir_type_equal(wider, column->shape.type, false)) {
		weir_type_unref(wider);
		return json_window_fail(window, at, err, WEIR_E_DATA, "the number is too large for %s", have);
	}
	weir_type_name(wider, want, sizeof(want));
	if (setup->misfit)
		setup->misfit(setup->misfit_context, name, wider);
	weir_type_unref(wider);
	if (json_misfits_note(self, err))
		return err->code;
	json_window_fail(
		window, at, err, WEIR_E_MISFIT,
		"a value does not fit the type %s, which a sample of the data suggested; say --types '%.64s=%s', or "
		"--infer all to look at everything first",
		have, name, want);
	add_value(window, entry, err);
	return WEIR_E_MISFIT;
}

int json_field_new(struct json_reader *self, const struct json_column *column, uint32_t top, uint32_t name,
		   uint32_t value, struct weir_error *err)
{
	const struct json_window *window = &self->cursor.window;
	const struct json_options *options = self->file->options;
	const struct weir_read_setup *setup = self->file->setup;
	const struct weir_type *type, *wider;
	const uint8_t *bytes;
	size_t size;
	char *field;

	if (options->unexpected == JSON_UNEXPECTED_IGNORE || (!column && !self->wants_all))
		return WEIR_OK;
	if (json_string_read(window, options, window->entries[name] + 1, window->entries[name + 1], &self->arena,
			     &bytes, &size, err))
		return err->code;
	field = weir_arena_strndup(&self->arena, (const char *)bytes, size, err);
	if (!field)
		return err->code;
	if (options->unexpected == JSON_UNEXPECTED_ERROR)
		return json_window_fail(window, window->entries[name], err, WEIR_E_DATA,
					"no field '%.100s' is expected (--unexpected error)", field);
	/* A type that was given is given whole. */
	if (column && json_options_given(options, column->field->name))
		return WEIR_OK;
	type = json_infer_value(self->account, options, window, column ? top : value, err);
	if (!type)
		return err->code;
	wider = column ? json_infer_unify(self->account, column->shape.type, type, err) : weir_type_ref(type);
	weir_type_unref(type);
	if (!wider)
		return err->code;
	if (setup->misfit)
		setup->misfit(setup->misfit_context, column ? column->field->name : field, wider);
	weir_type_unref(wider);
	if (json_misfits_note(self, err))
		return err->code;
	json_window_fail(
		window, window->entries[name], err, WEIR_E_MISFIT,
		"a field '%.64s' that the sample of the data did not have; --infer all looks at everything first, "
		"--unexpected ignore leaves such fields out",
		field);
	weir_error_at_column(err, column ? column->field->name : field);
	add_value(window, value, err);
	return WEIR_E_MISFIT;
}
