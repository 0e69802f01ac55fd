/* Lists, structs and maps into Arrow arrays, by way of builders.
 *
 * What recurses here recurses over the type, whose depth is bounded; what lies deeper in the text than the type goes does not
 * fit it.
 */
#include "format/json/json_impl.h"

#include <string.h>

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

static int put_items(struct nest *nest, struct json_shape *shape, struct weir_builder *builder, uint32_t *entry)
{
	int more = 1;

	++*entry;
	if (byte_at(nest, *entry) == ']') {
		++*entry;
		more = 0;
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
	if (json_string_read(window, nest->options, begin, window->entries[name + 1], &nest->reader->arena, &bytes, &size,
			     nest->err))
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
				return json_window_fail(nest->window, nest->window->entries[name], nest->err, WEIR_E_DATA,
							"the object has the field '%.100s' twice", keys->keys[field].name);
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
		if (byte == '"' || shape->kind == JSON_STRING)
			return put_text(nest, builder, entry);
		break;
	case JSON_NULL:
		break;
	default:
		if (!json_scalar_read(nest->window, nest->options, shape, *entry, &nest->reader->arena, value))
			break;
		*entry += byte == '"' ? 2 : 1;
		return weir_builder_fixed(builder, value, 1, nest->err);
	}
	return json_value_misfit(nest->reader, nest->column, nest->top, *entry, nest->err);
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
		weir_array_unref(column->nested);
		column->nested = weir_builder_finish(&builder, err);
		code = column->nested ? WEIR_OK : err->code;
	}
	weir_builder_release(&builder);
	return code;
}
