/* Foreign schemas: format strings, names, flags and metadata become types and fields.
 *
 * Metadata lies in one block of native integers, whose end is known only by reading it:
 *
 *     int32 count │ int32 key size │ key │ int32 value size │ value │ int32 key size │ …
 *
 * What is read from the struct is copied into an arena and from there into the type, which packs it.
 */
#include "base/arena.h"
#include "base/checked.h"
#include "arrow/cdata_impl.h"

#include <stdlib.h>

struct reader {
	struct weir_account *account;
	struct weir_arena arena;
	int depth;
	struct weir_error *err;
};

static const struct {
	const char *format;
	enum weir_type_id id;
	int unit; /* -1: a type without parameters */
} formats[] = {
	{"n", WEIR_NULL, -1},
	{"b", WEIR_BOOL, -1},
	{"c", WEIR_INT8, -1},
	{"C", WEIR_UINT8, -1},
	{"s", WEIR_INT16, -1},
	{"S", WEIR_UINT16, -1},
	{"i", WEIR_INT32, -1},
	{"I", WEIR_UINT32, -1},
	{"l", WEIR_INT64, -1},
	{"L", WEIR_UINT64, -1},
	{"e", WEIR_HALF, -1},
	{"f", WEIR_FLOAT, -1},
	{"g", WEIR_DOUBLE, -1},
	{"z", WEIR_BINARY, -1},
	{"Z", WEIR_LARGE_BINARY, -1},
	{"u", WEIR_STRING, -1},
	{"U", WEIR_LARGE_STRING, -1},
	{"vz", WEIR_BINARY, -1},
	{"vu", WEIR_STRING, -1},
	{"tdD", WEIR_DATE32, -1},
	{"tdm", WEIR_DATE64, -1},
	{"tts", WEIR_TIME32, WEIR_SECOND},
	{"ttm", WEIR_TIME32, WEIR_MILLI},
	{"ttu", WEIR_TIME64, WEIR_MICRO},
	{"ttn", WEIR_TIME64, WEIR_NANO},
	{"tDs", WEIR_DURATION, WEIR_SECOND},
	{"tDm", WEIR_DURATION, WEIR_MILLI},
	{"tDu", WEIR_DURATION, WEIR_MICRO},
	{"tDn", WEIR_DURATION, WEIR_NANO},
	{"tiM", WEIR_INTERVAL_MONTHS, -1},
	{"tiD", WEIR_INTERVAL_DAY_TIME, -1},
	{"tin", WEIR_INTERVAL_MONTH_DAY_NANO, -1},
};

enum cdata_form cdata_form_of(const struct ArrowSchema *schema)
{
	const char *format = schema ? schema->format : "";

	if (!strcmp(format, "vu") || !strcmp(format, "vz"))
		return CDATA_VIEW;
	if (!strcmp(format, "+vl"))
		return CDATA_LIST_VIEW;
	if (!strcmp(format, "+vL"))
		return CDATA_LARGE_LIST_VIEW;
	if (!strcmp(format, "+r"))
		return CDATA_RUN_END;
	if (!strncmp(format, "d:", 2)) {
		const char *comma = strchr(format, ',');
		const char *width = comma ? strchr(comma + 1, ',') : NULL;

		if (width && !strcmp(width, ",32"))
			return CDATA_DECIMAL32;
		if (width && !strcmp(width, ",64"))
			return CDATA_DECIMAL64;
	}
	return CDATA_PLAIN;
}

static int refuse_format(struct reader *reader, const struct ArrowSchema *schema)
{
	if (!strncmp(schema->format, "+u", 2))
		return weir_error_set(reader->err, WEIR_E_UNSUPPORTED, "union types are not supported (format '%s')",
				      schema->format);
	return weir_error_set(reader->err, WEIR_E_INVALID, "'%s' is not an Arrow format", schema->format);
}

static int32_t metadata_int(const char **at)
{
	int32_t value;

	memcpy(&value, *at, sizeof(value));
	*at += sizeof(value);
	return value;
}

static const char *metadata_text(struct reader *reader, const char **at, int32_t *size)
{
	const char *text;

	*size = metadata_int(at);
	if (*size < 0) {
		weir_error_set(reader->err, WEIR_E_DATA, "a metadata text of %d bytes", *size);
		return NULL;
	}
	text = weir_arena_strndup(&reader->arena, *at, (size_t)*size, reader->err);
	*at += *size;
	return text;
}

static int read_metadata(struct reader *reader, const char *at, struct weir_metadata *out)
{
	int32_t count, size;

	*out = (struct weir_metadata){0};
	if (!at)
		return WEIR_OK;
	count = metadata_int(&at);
	if (count < 0)
		return weir_error_set(reader->err, WEIR_E_DATA, "%d metadata entries", count);
	if (!count)
		return WEIR_OK;
	out->entries = weir_arena_alloc(&reader->arena, (size_t)count * sizeof(*out->entries), reader->err);
	if (!out->entries)
		return reader->err->code;
	for (int32_t i = 0; i < count; i++) {
		out->entries[i].key = metadata_text(reader, &at, &size);
		if (!out->entries[i].key)
			return reader->err->code;
		out->entries[i].value = metadata_text(reader, &at, &size);
		if (!out->entries[i].value)
			return reader->err->code;
		out->entries[i].value_size = (uint32_t)size;
	}
	out->count = (uint32_t)count;
	return WEIR_OK;
}

static const struct weir_type *read_type(struct reader *reader, const struct ArrowSchema *schema);

static bool field_nullable(const struct ArrowSchema *schema)
{
	/* A run-end-encoded array has no nulls of its own; its values may. */
	while (cdata_form_of(schema) == CDATA_RUN_END && !(schema->flags & ARROW_FLAG_NULLABLE))
		schema = schema->children[1];
	return schema->flags & ARROW_FLAG_NULLABLE;
}

static int read_field(struct reader *reader, const struct ArrowSchema *schema, struct weir_field *out)
{
	out->type = read_type(reader, schema);
	if (!out->type)
		return reader->err->code;
	out->name = schema->name ? schema->name : "";
	out->nullable = field_nullable(schema);
	return read_metadata(reader, schema->metadata, &out->metadata);
}

static void drop_fields(struct weir_field *fields, int64_t count)
{
	for (int64_t i = 0; fields && i < count; i++)
		weir_type_unref(fields[i].type);
}

/* NULL on failure. The types are the caller's to drop. */
static struct weir_field *read_fields(struct reader *reader, const struct ArrowSchema *schema)
{
	struct weir_field *fields;
	size_t size;

	if (weir_mul_overflows((size_t)schema->n_children, sizeof(*fields), &size) || schema->n_children > INT32_MAX) {
		weir_error_set(reader->err, WEIR_E_DATA, "a schema with %lld children", (long long)schema->n_children);
		return NULL;
	}
	fields = weir_arena_alloc_zero(&reader->arena, size, reader->err);
	for (int64_t i = 0; fields && i < schema->n_children; i++)
		if (read_field(reader, schema->children[i], &fields[i])) {
			drop_fields(fields, i + 1);
			return NULL;
		}
	return fields;
}

static int expect_children(struct reader *reader, const struct ArrowSchema *schema, int64_t count)
{
	if (schema->n_children != count || (count && !schema->children))
		return weir_error_set(reader->err, WEIR_E_DATA, "the format '%s' needs %lld children, not %lld",
				      schema->format, (long long)count, (long long)schema->n_children);
	for (int64_t i = 0; i < count; i++)
		if (!schema->children[i])
			return weir_error_set(reader->err, WEIR_E_DATA, "a schema without its child %lld",
					      (long long)i);
	return WEIR_OK;
}

static bool read_number(const char **at, char end, int32_t *out)
{
	char *after;
	long value = strtol(*at, &after, 10);

	if (after == *at || *after != end || value < INT32_MIN || value > INT32_MAX)
		return false;
	*out = (int32_t)value;
	*at = end ? after + 1 : after;
	return true;
}

static const struct weir_type *read_decimal(struct reader *reader, const struct ArrowSchema *schema)
{
	const char *at = schema->format + 2;
	int32_t precision, scale, width = 128;

	if (!read_number(&at, ',', &precision) ||
	    (strchr(at, ',') ? !read_number(&at, ',', &scale) || !read_number(&at, 0, &width)
			     : !read_number(&at, 0, &scale)) ||
	    (width != 32 && width != 64 && width != 128 && width != 256)) {
		refuse_format(reader, schema);
		return NULL;
	}
	return weir_type_decimal(reader->account, width == 256 ? WEIR_DECIMAL256 : WEIR_DECIMAL128, precision, scale,
				 reader->err);
}

static const struct weir_type *read_timestamp(struct reader *reader, const struct ArrowSchema *schema)
{
	static const char units[] = "smun";
	const char *unit = schema->format[2] ? strchr(units, schema->format[2]) : NULL;

	if (!unit || schema->format[3] != ':') {
		refuse_format(reader, schema);
		return NULL;
	}
	return weir_type_temporal(reader->account, WEIR_TIMESTAMP, (enum weir_time_unit)(unit - units),
				  schema->format + 4, reader->err);
}

static const struct weir_type *read_nested(struct reader *reader, const struct ArrowSchema *schema)
{
	const char *format = schema->format, *at = format + 3;
	bool is_struct = !strcmp(format, "+s");
	const struct weir_type *type = NULL;
	enum weir_type_id id = WEIR_LIST_TYPE;
	struct weir_field *fields;
	int32_t list_size = 0;

	if (!strcmp(format, "+r")) {
		if (expect_children(reader, schema, 2))
			return NULL;
		return read_type(reader, schema->children[1]);
	}
	if (!strcmp(format, "+L") || !strcmp(format, "+vL"))
		id = WEIR_LARGE_LIST;
	else if (!strcmp(format, "+m"))
		id = WEIR_MAP;
	else if (!strncmp(format, "+w:", 3) && read_number(&at, 0, &list_size))
		id = WEIR_FIXED_LIST;
	else if (strcmp(format, "+l") && strcmp(format, "+vl") && !is_struct) {
		refuse_format(reader, schema);
		return NULL;
	}
	if (expect_children(reader, schema, is_struct && schema->n_children >= 0 ? schema->n_children : 1))
		return NULL;
	fields = read_fields(reader, schema);
	if (!fields)
		return NULL;
	if (is_struct)
		type = weir_type_struct(reader->account, fields, (uint32_t)schema->n_children, reader->err);
	else
		type = weir_type_list(reader->account, id, fields, list_size,
				      schema->flags & ARROW_FLAG_MAP_KEYS_SORTED, reader->err);
	drop_fields(fields, schema->n_children);
	return type;
}

static const struct weir_type *read_plain(struct reader *reader, const struct ArrowSchema *schema)
{
	const char *format = schema->format;

	if (format[0] == '+')
		return read_nested(reader, schema);
	if (!strncmp(format, "ts", 2))
		return read_timestamp(reader, schema);
	if (!strncmp(format, "d:", 2))
		return read_decimal(reader, schema);
	if (!strncmp(format, "w:", 2)) {
		const char *at = format + 2;
		int32_t width;

		if (read_number(&at, 0, &width) && width >= 0)
			return weir_type_fixed_binary(reader->account, (uint32_t)width, reader->err);
	}
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (strcmp(formats[i].format, format))
			continue;
		if (formats[i].unit < 0)
			return weir_type_of(formats[i].id);
		return weir_type_temporal(reader->account, formats[i].id, (enum weir_time_unit)formats[i].unit, NULL,
					  reader->err);
	}
	refuse_format(reader, schema);
	return NULL;
}

static const struct weir_type *read_type(struct reader *reader, const struct ArrowSchema *schema)
{
	const struct weir_type *type, *value;

	/* Run-end encoding adds levels here that the type does not have. */
	if (++reader->depth > 2 * WEIR_DEPTH_MAX) {
		weir_error_set(reader->err, WEIR_E_UNSUPPORTED, "types nest more than %d levels deep", WEIR_DEPTH_MAX);
		return NULL;
	}
	if (!schema->format) {
		weir_error_set(reader->err, WEIR_E_DATA, "a schema without a format");
		return NULL;
	}
	type = read_plain(reader, schema);
	if (type && schema->dictionary) {
		const struct weir_type *index = type;

		value = read_type(reader, schema->dictionary);
		type = value ? weir_type_dictionary(reader->account, index, value,
						    schema->flags & ARROW_FLAG_DICTIONARY_ORDERED, reader->err)
			     : NULL;
		weir_type_unref(index);
		weir_type_unref(value);
	}
	reader->depth--;
	return type;
}

const struct weir_type *cdata_import_type(struct weir_account *account, const struct ArrowSchema *schema,
					  struct weir_error *err)
{
	struct reader reader = {.account = account, .err = err};
	const struct weir_type *type;

	weir_arena_init(&reader.arena, account);
	type = read_type(&reader, schema);
	weir_arena_release(&reader.arena);
	return type;
}

int weir_cdata_import_schema(struct weir_account *account, struct ArrowSchema *schema, struct weir_schema **out,
			     struct weir_error *err)
{
	struct reader reader = {.account = account, .err = err};
	struct weir_field *fields = NULL;
	struct weir_metadata metadata;

	*out = NULL;
	if (!schema->release)
		return weir_error_set(err, WEIR_E_INVALID, "the Arrow schema was released before");
	weir_arena_init(&reader.arena, account);
	if (!schema->format || strcmp(schema->format, "+s") || schema->dictionary) {
		weir_error_set(err, WEIR_E_TYPE, "a table's schema must be a struct, not '%s'",
			       schema->format ? schema->format : "");
		goto out;
	}
	if (expect_children(&reader, schema, schema->n_children < 0 ? 0 : schema->n_children) ||
	    read_metadata(&reader, schema->metadata, &metadata))
		goto out;
	fields = read_fields(&reader, schema);
	if (fields)
		*out = weir_schema_new(account, fields, (uint32_t)schema->n_children, &metadata, err);
out:
	drop_fields(fields, schema->n_children);
	weir_arena_release(&reader.arena);
	schema->release(schema);
	return *out ? WEIR_OK : err->code;
}
