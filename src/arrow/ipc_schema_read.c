/* Schemas from messages. Types are made from the leaves up, so each field is read with its children before its own type
 * exists; names and metadata stay in the message, and the lists of fields in an arena, until the type constructors copy
 * them.
 */
#include "base/arena.h"
#include "base/utf8.h"
#include "arrow/arrow_impl.h"
#include "arrow/ipc_impl.h"

struct parser {
	struct weir_account *account;
	struct flat *flat;
	struct weir_arena arena;
	struct ipc_schema *out;
};

/* What stands in a field's tables, before it is judged. */
struct type_words {
	uint8_t number; /* enum ipc_type */
	struct flat_table table;
	struct weir_field *children;
	uint32_t child_count;
};

static int read_text(struct parser *p, const struct flat_table *table, uint32_t field, const char *what,
		     const char **out, uint32_t *size, struct weir_error *err)
{
	int code;

	flat_string(table, field, out, size);
	code = flat_check(p->flat, "schema message", err);
	if (code)
		return code;
	/* What is refused must not be shown: it goes into no message. */
	if (memchr(*out, 0, *size))
		code = weir_error_set(err, WEIR_E_UNSUPPORTED, "the %s in the schema message contains a NUL byte",
				      what);
	else if (!weir_utf8_valid(*out, *size))
		code = weir_error_set(err, WEIR_E_DATA, "the %s in the schema message is not UTF-8", what);
	if (code)
		*out = "";
	return code;
}

static int read_metadata(struct parser *p, const struct flat_table *table, uint32_t field, struct weir_metadata *out,
			 struct weir_error *err)
{
	struct flat_vector vector = flat_tables(table, field);
	struct flat_table entry;
	uint32_t key_size;
	int code;

	*out = (struct weir_metadata){0};
	if (vector.count == 0)
		return flat_check(p->flat, "schema message", err);
	out->entries = weir_arena_alloc(&p->arena, sizeof(*out->entries) * vector.count, err);
	if (!out->entries)
		return err->code;
	for (; out->count < vector.count; out->count++) {
		struct weir_metadata_entry *to = &out->entries[out->count];

		flat_item_table(&vector, out->count, &entry);
		code = read_text(p, &entry, ENTRY_KEY, "key of metadata", &to->key, &key_size, err);
		if (code)
			return code;
		flat_string(&entry, ENTRY_VALUE, &to->value, &to->value_size);
	}
	return flat_check(p->flat, "schema message", err);
}

static const struct weir_type *int_type(int32_t bits, bool is_signed)
{
	switch (bits) {
	case 8:
		return weir_type_of(is_signed ? WEIR_INT8 : WEIR_UINT8);
	case 16:
		return weir_type_of(is_signed ? WEIR_INT16 : WEIR_UINT16);
	case 32:
		return weir_type_of(is_signed ? WEIR_INT32 : WEIR_UINT32);
	case 64:
		return weir_type_of(is_signed ? WEIR_INT64 : WEIR_UINT64);
	default:
		return NULL;
	}
}

/* The `unit`-th of three types in a row. */
static const struct weir_type *type_by_unit(enum weir_type_id first, int16_t unit, int16_t unit_count)
{
	return unit >= 0 && unit < unit_count ? weir_type_of(first + (enum weir_type_id)unit) : NULL;
}

static const struct weir_type *temporal_type(struct parser *p, enum weir_type_id id, int16_t unit, const char *timezone,
					     struct weir_error *err)
{
	if (unit < 0 || unit > WEIR_NANO)
		return NULL;
	return weir_type_temporal(p->account, id, (enum weir_time_unit)unit, timezone, err);
}

/* A new reference; NULL with err set, or NULL alone when the table has a value that Arrow does not know. */
static const struct weir_type *make_type(struct parser *p, const struct type_words *words, struct weir_error *err)
{
	const struct flat_table *table = &words->table;
	const char *timezone;
	uint32_t size;
	int32_t bits;

	switch (words->number) {
	case TYPE_NULL:
		return weir_type_of(WEIR_NULL);
	case TYPE_BOOL:
		return weir_type_of(WEIR_BOOL);
	case TYPE_INT:
		return int_type(flat_i32(table, INT_BIT_WIDTH, 0), flat_u8(table, INT_IS_SIGNED, 0));
	case TYPE_FLOATING_POINT:
		return type_by_unit(WEIR_HALF, flat_i16(table, 0, 0), 3);
	case TYPE_DATE:
		return type_by_unit(WEIR_DATE32, flat_i16(table, 0, 1), 2);
	case TYPE_INTERVAL:
		return type_by_unit(WEIR_INTERVAL_MONTHS, flat_i16(table, 0, 0), 3);
	case TYPE_BINARY:
		return weir_type_of(WEIR_BINARY);
	case TYPE_LARGE_BINARY:
		return weir_type_of(WEIR_LARGE_BINARY);
	case TYPE_UTF8:
		return weir_type_of(WEIR_STRING);
	case TYPE_LARGE_UTF8:
		return weir_type_of(WEIR_LARGE_STRING);
	case TYPE_DECIMAL:
		bits = flat_i32(table, DECIMAL_BIT_WIDTH, 128);
		if (bits != 32 && bits != 64 && bits != 128 && bits != 256)
			return NULL;
		return weir_type_decimal(p->account, bits == 256 ? WEIR_DECIMAL256 : WEIR_DECIMAL128,
					 flat_i32(table, DECIMAL_PRECISION, 0), flat_i32(table, DECIMAL_SCALE, 0), err);
	case TYPE_TIME:
		bits = flat_i32(table, TIME_BIT_WIDTH, 32);
		if (bits != 32 && bits != 64)
			return NULL;
		return temporal_type(p, bits == 32 ? WEIR_TIME32 : WEIR_TIME64, flat_i16(table, TIME_UNIT, WEIR_MILLI),
				     NULL, err);
	case TYPE_TIMESTAMP:
		if (read_text(p, table, TIMESTAMP_TIMEZONE, "time zone", &timezone, &size, err))
			return NULL;
		return temporal_type(p, WEIR_TIMESTAMP, flat_i16(table, TIMESTAMP_UNIT, WEIR_SECOND),
				     size ? timezone : NULL, err);
	case TYPE_DURATION:
		return temporal_type(p, WEIR_DURATION, flat_i16(table, 0, WEIR_MILLI), NULL, err);
	case TYPE_FIXED_BINARY:
		return weir_type_fixed_binary(p->account, (uint32_t)flat_i32(table, 0, 0), err);
	case TYPE_LIST:
	case TYPE_LIST_VIEW:
		return weir_type_list(p->account, WEIR_LIST_TYPE, words->children, 0, false, err);
	case TYPE_LARGE_LIST:
	case TYPE_LARGE_LIST_VIEW:
		return weir_type_list(p->account, WEIR_LARGE_LIST, words->children, 0, false, err);
	case TYPE_FIXED_LIST:
		return weir_type_list(p->account, WEIR_FIXED_LIST, words->children, flat_i32(table, 0, 0), false, err);
	case TYPE_MAP:
		return weir_type_list(p->account, WEIR_MAP, words->children, 0, flat_u8(table, 0, 0), err);
	case TYPE_STRUCT:
		return weir_type_struct(p->account, words->children, words->child_count, err);
	case TYPE_BINARY_VIEW:
		return weir_type_of(WEIR_BINARY);
	case TYPE_UTF8_VIEW:
		return weir_type_of(WEIR_STRING);
	case TYPE_RUN_END_ENCODED:
		return weir_type_ref(words->children[1].type);
	case TYPE_UNION:
		weir_error_set(err, WEIR_E_UNSUPPORTED, "union types are not supported");
		return NULL;
	default:
		weir_error_set(err, WEIR_E_UNSUPPORTED, "type number %u is not known", words->number);
		return NULL;
	}
}

/* How many children a type must have; UINT32_MAX: any number. */
static uint32_t children_expected(uint8_t number)
{
	switch (number) {
	case TYPE_LIST:
	case TYPE_LARGE_LIST:
	case TYPE_LIST_VIEW:
	case TYPE_LARGE_LIST_VIEW:
	case TYPE_FIXED_LIST:
	case TYPE_MAP:
		return 1;
	case TYPE_RUN_END_ENCODED:
		return 2;
	case TYPE_STRUCT:
	case TYPE_UNION:
		return UINT32_MAX;
	default:
		return 0;
	}
}

static enum ipc_wire wire_of(const struct type_words *words)
{
	int32_t bits;

	switch (words->number) {
	case TYPE_DECIMAL:
		bits = flat_i32(&words->table, DECIMAL_BIT_WIDTH, 128);
		return bits == 32 ? WIRE_DECIMAL_32 : bits == 64 ? WIRE_DECIMAL_64 : WIRE_PLAIN;
	case TYPE_BINARY_VIEW:
	case TYPE_UTF8_VIEW:
		return WIRE_VIEW;
	case TYPE_LIST_VIEW:
		return WIRE_LIST_VIEW;
	case TYPE_LARGE_LIST_VIEW:
		return WIRE_LARGE_LIST_VIEW;
	case TYPE_RUN_END_ENCODED:
		switch (words->children[0].type->id) {
		case WEIR_INT16:
			return WIRE_RUN_END_16;
		case WEIR_INT32:
			return WIRE_RUN_END_32;
		default:
			return WIRE_RUN_END_64;
		}
	default:
		return WIRE_PLAIN;
	}
}

static void fields_release(struct weir_field *fields, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		weir_type_unref(fields[i].type);
}

static int read_fields(struct parser *p, const struct flat_vector *vector, uint32_t depth, struct weir_field **out,
		       uint32_t *count, struct weir_error *err);

/* Puts a dictionary type in the place of its value type. */
static int dictionary_type(struct parser *p, const struct flat_table *encoding, const struct weir_type **type,
			   struct weir_error *err)
{
	const struct weir_type *value = *type, *index;
	bool is_ordered = flat_u8(encoding, ENCODING_ORDERED, 0);
	struct flat_table words;

	index = flat_child(encoding, ENCODING_INDEX, &words)
			? int_type(flat_i32(&words, INT_BIT_WIDTH, 0), flat_u8(&words, INT_IS_SIGNED, 0))
			: weir_type_of(WEIR_INT32);
	if (flat_check(p->flat, "schema message", err))
		return err->code;
	if (!index)
		return weir_error_set(err, WEIR_E_DATA, "the codes of a dictionary are integers of an unknown width");
	*type = weir_type_dictionary(p->account, index, value, is_ordered, err);
	weir_type_unref(value);
	return *type ? WEIR_OK : err->code;
}

/* out->type is the caller's, also on failure. */
static int read_field(struct parser *p, const struct flat_table *table, uint32_t depth, struct weir_field *out,
		      struct weir_error *err)
{
	struct flat_vector children = flat_tables(table, FIELD_CHILDREN);
	struct type_words words = {.number = flat_u8(table, FIELD_TYPE_TYPE, TYPE_NONE)};
	size_t dictionary = p->out->dictionaries.count, wire = p->out->wires.count;
	struct flat_table encoding;
	bool is_dictionary;
	uint32_t size, expected = children_expected(words.number);
	int code;

	if (depth > WEIR_DEPTH_MAX)
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "types nest more than %d levels deep", WEIR_DEPTH_MAX);
	flat_child(table, FIELD_TYPE, &words.table);
	is_dictionary = flat_child(table, FIELD_DICTIONARY, &encoding);
	out->nullable = flat_u8(table, FIELD_NULLABLE, 0);
	code = read_text(p, table, FIELD_NAME, "name of a column", &out->name, &size, err);
	if (!code)
		code = read_metadata(p, table, FIELD_METADATA, &out->metadata, err);
	/* The places are taken before the children take theirs. */
	if (!code)
		code = weir_list_push(&p->out->wires, p->account, err, WIRE_PLAIN);
	if (!code && is_dictionary)
		code = weir_list_push(
			&p->out->dictionaries, p->account, err,
			(struct ipc_dictionary){.id = flat_i64(&encoding, ENCODING_ID, 0), .wire = (uint32_t)wire});
	if (!code && expected != UINT32_MAX && children.count != expected)
		code = weir_error_set(err, WEIR_E_DATA, "type number %u has %u children instead of %u", words.number,
				      children.count, expected);
	if (!code)
		code = read_fields(p, &children, depth + 1, &words.children, &words.child_count, err);
	if (code)
		goto out;
	if (words.number == TYPE_RUN_END_ENCODED) {
		enum weir_type_id ends = words.children[0].type->id;

		if (is_dictionary) {
			code = weir_error_set(err, WEIR_E_UNSUPPORTED,
					      "dictionaries of run-end-encoded values are not supported");
			goto out;
		}
		if (ends != WEIR_INT16 && ends != WEIR_INT32 && ends != WEIR_INT64) {
			code = weir_error_set(err, WEIR_E_DATA, "the ends of runs are not signed integers");
			goto out;
		}
		out->nullable |= words.children[1].nullable;
	}
	weir_error_clear(err);
	out->type = make_type(p, &words, err);
	code = flat_check(p->flat, "schema message", err);
	/* What is wrong with a type that somebody asks for is wrong with the data when a file asks for it. */
	if (!code && !out->type &&
	    (err->code == WEIR_E_INVALID || err->code == WEIR_E_TYPE || err->code == WEIR_E_VALUE))
		err->code = WEIR_E_DATA;
	if (!code && !out->type)
		code = err->code ? err->code
				 : weir_error_set(err, WEIR_E_DATA, "type number %u has an unknown width or unit",
						  words.number);
	if (!code && is_dictionary)
		code = dictionary_type(p, &encoding, &out->type, err);
	if (code)
		goto out;
	p->out->wires.items[wire] = (uint8_t)wire_of(&words);
	if (is_dictionary)
		p->out->dictionaries.items[dictionary].value = out->type->dictionary_value;
out:
	if (code && out->name && *out->name)
		weir_error_at_column(err, out->name);
	fields_release(words.children, words.child_count);
	return code;
}

/* On success the fields' types are the caller's, on failure nothing is. */
static int read_fields(struct parser *p, const struct flat_vector *vector, uint32_t depth, struct weir_field **out,
		       uint32_t *count, struct weir_error *err)
{
	struct flat_table table;
	int code = WEIR_OK;

	*out = NULL;
	*count = 0;
	if (vector->count == 0)
		return WEIR_OK;
	*out = weir_arena_alloc_zero(&p->arena, sizeof(**out) * vector->count, err);
	if (!*out)
		return err->code;
	while (!code && *count < vector->count) {
		flat_item_table(vector, *count, &table);
		code = read_field(p, &table, depth, &(*out)[*count], err);
		(*count)++;
	}
	if (code) {
		fields_release(*out, *count);
		*count = 0;
	}
	return code;
}

int ipc_schema_parse(struct weir_account *account, struct flat *flat, const struct flat_table *table,
		     struct ipc_schema *out, struct weir_error *err)
{
	struct parser parser = {.account = account, .flat = flat, .out = out};
	struct flat_vector vector = flat_tables(table, SCHEMA_FIELDS);
	struct weir_field *fields = NULL;
	struct weir_metadata metadata;
	uint32_t count = 0;
	int code;

	*out = (struct ipc_schema){.account = account};
	weir_arena_init(&parser.arena, account);
	if (flat_i16(table, SCHEMA_ENDIANNESS, 0) != 0) {
		code = weir_error_set(err, WEIR_E_UNSUPPORTED, "big-endian Arrow data is not supported");
		goto out;
	}
	code = read_metadata(&parser, table, SCHEMA_METADATA, &metadata, err);
	if (!code)
		code = read_fields(&parser, &vector, 0, &fields, &count, err);
	if (code)
		goto out;
	out->schema = weir_schema_new(account, fields, count, &metadata, err);
	if (!out->schema)
		code = err->code;
out:
	fields_release(fields, count);
	weir_arena_release(&parser.arena);
	if (code)
		ipc_schema_release(out);
	return code;
}

void ipc_schema_release(struct ipc_schema *schema)
{
	weir_schema_unref(schema->schema);
	if (schema->account) {
		weir_list_release(&schema->dictionaries, schema->account);
		weir_list_release(&schema->wires, schema->account);
	}
	*schema = (struct ipc_schema){0};
}

int weir_ipc_read_schema(struct weir_account *account, const uint8_t *bytes, uint64_t size, struct weir_schema **out,
			 struct weir_error *err)
{
	struct ipc_message message;
	struct ipc_schema schema;
	int code = ipc_message_open(bytes, size, &message, err);

	*out = NULL;
	if (code)
		return code;
	if (message.metadata_size == 0 || message.header_type != HEADER_SCHEMA)
		return weir_error_set(err, WEIR_E_DATA, "the Arrow message is not a schema");
	code = ipc_schema_parse(account, &message.flat, &message.header, &schema, err);
	if (!code)
		*out = weir_schema_ref(schema.schema);
	ipc_schema_release(&schema);
	return code;
}
