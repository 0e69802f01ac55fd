/* Lists, structs and maps into Arrow arrays, by way of builders.
 *
 * What recurses here recurses over the type, whose depth is bounded; what lies deeper in the text than the type goes
 * does not fit it.
 */
#include "base/checked.h"
#include "format/json/json_impl.h"

#include <math.h>
#include <string.h>

enum {
	RESERVE_MAX = 2 << 20,
	LONG_ENTRIES = 4 << 20, /* in what is left of the window: only a long record makes it so large */
};

struct nest {
	struct json_reader *reader;
	struct json_column *column;
	const struct json_window *window;
	const struct json_options *options;
	uint32_t top; /* the entry of the column's value */
	struct weir_error *err;
};

static int put_value(struct nest *nest, struct json_shape *shape, struct weir_builder *builder, uint32_t *entry);

static inline uint8_t byte_at(const struct nest *nest, uint32_t entry)
{
	return nest->window->text[nest->window->entries[entry]];
}

/* Behind an item: 1 when another one follows, 0 at the end, −1 on error. *entry moves behind it. */
static int go_on(struct nest *nest, uint32_t *entry, uint8_t close)
{
	uint8_t byte = byte_at(nest, *entry);

	if (byte == ',' || byte == close) {
		++*entry;
		return byte == ',';
	}
	json_unexpected_at(nest->window, *entry, close == ']' ? "',' or ']'" : "',' or '}'", nest->err);
	return -1;
}

/* Room for exactly the items of a long list of numbers, which begins at `entry`: growing by half would take half as
 * much again of a memory that the text and its entries nearly fill. */
static int reserve_items(struct nest *nest, struct weir_builder *builder, uint32_t entry)
{
	size_t width = builder->type->byte_width, count = 1, size;
	uint8_t *values;

	for (; byte_at(nest, entry) != ']' && entry < nest->window->entry_count; entry++)
		count += byte_at(nest, entry) == ',';
	size = weir_round_up(((size_t)builder->length + count) * width, 64);
	if (size <= builder->values_capacity)
		return WEIR_OK;
	values = weir_realloc(builder->account, builder->values, builder->values_capacity, size, nest->err);
	if (!values)
		return nest->err->code;
	builder->values = values;
	builder->values_capacity = size;
	return WEIR_OK;
}

static int put_items(struct nest *nest, struct json_shape *shape, struct weir_builder *builder, uint32_t *entry)
{
	int more = 1;

	++*entry;
	if (byte_at(nest, *entry) == ']') {
		++*entry;
		more = 0;
	} else if (nest->window->entry_count - nest->top > LONG_ENTRIES && builder->type->layout == WEIR_LAYOUT_FIXED &&
		   reserve_items(nest, builder, *entry)) {
		return nest->err->code;
	}
	while (more > 0) {
		if (put_value(nest, shape, builder, entry))
			return nest->err->code;
		more = go_on(nest, entry, ']');
	}
	return more < 0 ? nest->err->code : WEIR_OK;
}

/* A field's name at *entry, which moves to its value. */
static int take_name(struct nest *nest, uint32_t *entry)
{
	if (byte_at(nest, *entry) != '"')
		return json_unexpected_at(nest->window, *entry, "a field's name", nest->err);
	if (byte_at(nest, *entry + 1) != '"')
		return json_unexpected_at(nest->window, *entry + 1, "the end of the string", nest->err);
	if (byte_at(nest, *entry + 2) != ':')
		return json_unexpected_at(nest->window, *entry + 2, "':'", nest->err);
	*entry += 3;
	return WEIR_OK;
}

static int find_field(struct nest *nest, struct json_keys *keys, uint32_t *link, uint32_t name, uint32_t *out)
{
	const struct json_window *window = nest->window;
	uint32_t begin = window->entries[name] + 1;
	const uint8_t *bytes;
	size_t size;

	if (*link < keys->count && json_key_is(&keys->keys[*link], window->text + begin)) {
		*out = *link;
		return WEIR_OK;
	}
	if (json_string_read(window, nest->options, begin, window->entries[name + 1], &nest->reader->arena, &bytes,
			     &size, nest->err))
		return nest->err->code;
	*out = json_keys_find(keys, bytes, size);
	if (*out != JSON_NO_FIELD)
		*link = *out;
	return WEIR_OK;
}

static int put_fields(struct nest *nest, struct json_shape *shape, struct weir_builder *builder, uint32_t *entry)
{
	struct json_keys *keys = &shape->keys;
	uint32_t *link = &keys->first;
	int64_t row = builder->length;
	int more = 1;

	++*entry;
	if (byte_at(nest, *entry) == '}') {
		++*entry;
		more = 0;
	}
	while (more > 0) {
		uint32_t name = *entry, field = JSON_NO_FIELD;

		if (take_name(nest, entry) || find_field(nest, keys, link, name, &field))
			return nest->err->code;
		if (field == JSON_NO_FIELD) {
			uint32_t value = *entry;

			*entry = json_value_check(nest->window, nest->options, value, &nest->reader->arena, nest->err);
			if (!*entry || json_field_new(nest->reader, nest->column, nest->top, name, value, nest->err))
				return nest->err->code;
		} else {
			if (builder->children[field].length > row)
				return json_window_fail(nest->window, nest->window->entries[name], nest->err,
							WEIR_E_DATA, "the object has the field '%.100s' twice",
							keys->keys[field].name);
			if (put_value(nest, &shape->children[field], &builder->children[field], entry))
				return nest->err->code;
			link = &keys->keys[field].next;
		}
		more = go_on(nest, entry, '}');
	}
	if (more < 0)
		return nest->err->code;
	for (uint32_t i = 0; i < builder->child_count; i++)
		if (builder->children[i].length == row && weir_builder_null(&builder->children[i], 1, nest->err))
			return nest->err->code;
	return weir_builder_struct_end(builder, nest->err);
}

/* The usual value, where the builder has room and no nulls yet; false leaves it to the careful way. */
static inline bool put_word_quickly(struct nest *nest, const struct json_shape *shape, struct weir_builder *builder,
				    uint32_t entry)
{
	const uint32_t *entries = nest->window->entries;
	const char *text = (const char *)nest->window->text + entries[entry];
	size_t size = entries[entry + 1] - entries[entry];
	bool negative = *text == '-';

	if (builder->validity || (size_t)(builder->length + 1) * 8 > builder->values_capacity)
		return false;
	if (shape->type->id == WEIR_INT64) {
		int64_t *out = (int64_t *)builder->values + builder->length;

		if (!weir_parse_i64_short(text, size, out) || (text[negative] == '0' && size > (size_t)1 + negative))
			return false;
	} else {
		double *out = (double *)builder->values + builder->length;

		if (weir_parse_double(text, size, WEIR_NUMBER_JSON, out) != size || !isfinite(*out))
			return false;
	}
	builder->length++;
	return true;
}

static inline bool put_string_quickly(struct nest *nest, const struct json_shape *shape, struct weir_builder *builder,
				      uint32_t entry)
{
	const uint32_t *entries = nest->window->entries;
	const uint8_t *text = nest->window->text + entries[entry] + 1;
	size_t size = entries[entry + 1] - entries[entry] - 1;
	int32_t *offsets = (int32_t *)builder->values;

	if (builder->validity || shape->type->id != WEIR_STRING || size > 64 ||
	    (size_t)(builder->length + 2) * 4 > builder->values_capacity || !builder->length ||
	    builder->bytes_size + 64 > builder->bytes_capacity || builder->bytes_size > INT32_MAX - 64 ||
	    !json_is_plain(text, size))
		return false;
	memcpy(builder->bytes + builder->bytes_size, text, 64); /* both can be read and written that far */
	builder->bytes_size += size;
	offsets[++builder->length] = (int32_t)builder->bytes_size;
	return true;
}

static int put_text(struct nest *nest, struct weir_builder *builder, uint32_t *entry)
{
	const uint8_t *bytes;
	size_t size;

	if (json_text_read(nest->window, nest->options, *entry, &nest->reader->arena, &bytes, &size, nest->err) ||
	    weir_builder_bytes(builder, bytes, size, nest->err))
		return nest->err->code;
	*entry = json_skip_value(nest->window, *entry, nest->options->depth_max, nest->err);
	return *entry ? WEIR_OK : nest->err->code;
}

/* A map's object: each name is a key. The builder is that of the entries. */
static int put_pairs(struct nest *nest, struct json_shape *pair, struct weir_builder *builder, uint32_t *entry)
{
	int more = 1;

	++*entry;
	if (byte_at(nest, *entry) == '}') {
		++*entry;
		more = 0;
	}
	while (more > 0) {
		uint32_t name = *entry, key = name;

		if (take_name(nest, entry) || put_text(nest, &builder->children[0], &key) ||
		    put_value(nest, &pair->children[1], &builder->children[1], entry) ||
		    weir_builder_struct_end(builder, nest->err))
			return nest->err->code;
		more = go_on(nest, entry, '}');
	}
	return more < 0 ? nest->err->code : WEIR_OK;
}

static int put_value(struct nest *nest, struct json_shape *shape, struct weir_builder *builder, uint32_t *entry)
{
	uint8_t byte = byte_at(nest, *entry);
	uint64_t value[4];

	if (byte == 'n' && json_is_null(nest->window, *entry)) {
		++*entry;
		return weir_builder_null(builder, 1, nest->err);
	}
	switch (shape->kind) {
	case JSON_INTEGER:
	case JSON_REAL:
		if ((shape->type->id == WEIR_INT64 || shape->type->id == WEIR_DOUBLE) &&
		    put_word_quickly(nest, shape, builder, *entry)) {
			++*entry;
			return WEIR_OK;
		}
		goto careful;
	case JSON_LIST:
		if (byte != '[')
			break;
		if (put_items(nest, &shape->children[0], &builder->children[0], entry))
			return nest->err->code;
		return weir_builder_list_end(builder, nest->err);
	case JSON_STRUCT:
		return byte == '{' ? put_fields(nest, shape, builder, entry)
				   : json_value_misfit(nest->reader, nest->column, nest->top, *entry, nest->err);
	case JSON_MAP:
		if (byte != '{' && byte != '[')
			break;
		if (byte == '{' ? put_pairs(nest, &shape->children[0], &builder->children[0], entry)
				: put_items(nest, &shape->children[0], &builder->children[0], entry))
			return nest->err->code;
		return weir_builder_list_end(builder, nest->err);
	case JSON_STRING:
	case JSON_BINARY:
		if (byte == '"' && put_string_quickly(nest, shape, builder, *entry)) {
			*entry += 2;
			return WEIR_OK;
		}
		if (byte != '"' && shape->kind == JSON_STRING &&
		    json_text_check(nest->reader, nest->column, *entry, nest->err))
			return nest->err->code;
		if (byte == '"' || shape->kind == JSON_STRING)
			return put_text(nest, builder, entry);
		break;
	case JSON_NULL:
		break;
	default:
careful:
		if (!json_scalar_read(nest->window, nest->options, shape, *entry, &nest->reader->arena, value))
			break;
		*entry += byte == '"' ? 2 : 1;
		return weir_builder_fixed(builder, value, 1, nest->err);
	}
	return json_value_misfit(nest->reader, nest->column, nest->top, *entry, nest->err);
}

/* As much as the last vector took: arrays then grow without being copied. */
static int reserve(struct json_shape *shape, struct weir_builder *builder, struct weir_error *err)
{
	const struct weir_type *type = shape->type;
	size_t width = type->layout == WEIR_LAYOUT_FIXED                       ? type->byte_width
		       : type->id == WEIR_STRING || type->id == WEIR_LIST_TYPE ? 4
									       : 0;
	size_t values = weir_round_up(shape->length_last * width + 64, 64),
	       bytes = weir_round_up(shape->bytes_last + 128, 64);

	/* One long record is no measure for those that follow. */
	if (values + bytes > RESERVE_MAX)
		values = bytes = 0;
	if (width && shape->length_last && values) {
		builder->values = weir_alloc(builder->account, values, err);
		if (!builder->values)
			return err->code;
		builder->values_capacity = values;
	}
	if (type->layout == WEIR_LAYOUT_BYTES && shape->bytes_last && bytes) {
		builder->bytes = weir_alloc(builder->account, bytes, err);
		if (!builder->bytes)
			return err->code;
		builder->bytes_capacity = bytes;
	}
	for (uint32_t i = 0; i < shape->child_count; i++)
		if (reserve(&shape->children[i], &builder->children[i], err))
			return err->code;
	return WEIR_OK;
}

static void remember(struct json_shape *shape, const struct weir_builder *builder)
{
	shape->length_last = (size_t)builder->length + (size_t)builder->length / 8;
	shape->bytes_last = builder->bytes_size + builder->bytes_size / 8;
	for (uint32_t i = 0; i < shape->child_count; i++)
		remember(&shape->children[i], &builder->children[i]);
}

int json_nested_decode(struct json_column *column, const struct weir_selection *selection, uint32_t row_count,
		       struct weir_error *err)
{
	struct json_reader *reader = column->reader;
	struct nest nest = {
		.reader = reader,
		.column = column,
		.window = &reader->cursor.window,
		.options = reader->file->options,
		.err = err,
	};
	struct weir_builder builder = {0};
	uint32_t row = 0;
	int code = weir_builder_init(&builder, column->shape.type, reader->account, err);

	if (!code)
		code = reserve(&column->shape, &builder, err);
	for (uint32_t k = 0; !code && k < selection->count; k++, row++) {
		uint32_t selected = selection->rows ? selection->rows[k] : k;

		/* Rows that nobody asked for keep the others in their places. */
		if (selected > row)
			code = weir_builder_null(&builder, selected - row, err);
		row = selected;
		nest.top = column->values[row];
		if (!code && !nest.top) {
			code = weir_builder_null(&builder, 1, err);
		} else if (!code) {
			uint32_t entry = nest.top;

			code = put_value(&nest, &column->shape, &builder, &entry);
		}
	}
	if (!code && row < row_count)
		code = weir_builder_null(&builder, row_count - row, err);
	if (!code) {
		remember(&column->shape, &builder);
		weir_array_unref(column->nested);
		column->nested = weir_builder_finish(&builder, err);
		code = column->nested ? WEIR_OK : err->code;
	}
	weir_builder_release(&builder);
	return code;
}
