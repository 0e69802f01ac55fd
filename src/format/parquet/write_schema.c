/* From an Arrow schema to Parquet's: elements depth first, and a tree of nodes that the shredder walks.
 *
 *     list<item: T>     optional group name (LIST) { repeated group list      { optional T element; } }
 *     map<K, V>         optional group name (MAP)  { repeated group key_value { required K key; optional V value; } }
 *     struct<…>         optional group name { … }
 *
 * A field that is not nullable is required. Definition levels count what is optional or repeated on the way, repetition
 * levels what is repeated. Decimals of up to 18 digits are integers in the file (smaller, and every reader takes them),
 * longer ones fixed-length bytes of the fewest that hold the precision.
 */
#include "format/parquet/write_impl.h"

#include <stdlib.h>
#include <string.h>

enum { LEVEL_MAX = 255 };

/* Path of names from the root, while walking down. */
struct walk {
	struct parquet_write_schema *out;
	struct weir_error *err;
	const char *path[PARQUET_NESTING_MAX * 2];
	uint32_t path_count;
	uint32_t field;
	uint32_t element_capacity, leaf_capacity, node_capacity;
	uint32_t nesting;
};

static int grow(struct walk *walk, void **items, uint32_t count, uint32_t *capacity, size_t item_size)
{
	uint32_t more = *capacity ? *capacity * 2 : 32;
	void *bigger;

	if (count < *capacity)
		return WEIR_OK;
	bigger = weir_arena_alloc_zero(&walk->out->arena, more * item_size, walk->err);
	if (!bigger)
		return walk->err->code;
	if (count)
		memcpy(bigger, *items, count * item_size);
	*items = bigger;
	*capacity = more;
	return WEIR_OK;
}

static struct parquet_element *add_element(struct walk *walk, const char *name, enum parquet_repetition repetition)
{
	struct parquet_write_schema *out = walk->out;
	struct parquet_element *element;

	if (grow(walk, (void **)&out->elements, out->element_count, &walk->element_capacity, sizeof(*out->elements)))
		return NULL;
	element = &out->elements[out->element_count++];
	*element = (struct parquet_element){
		.name = name,
		.physical = PARQUET_GROUP,
		.repetition = repetition,
		.converted = PARQUET_CONVERTED_NONE,
		.field_id = INT32_MIN,
	};
	return element;
}

static int add_node(struct walk *walk, struct parquet_node node, uint32_t *out_index)
{
	struct parquet_write_schema *out = walk->out;

	if (grow(walk, (void **)&out->nodes, out->node_count, &walk->node_capacity, sizeof(*out->nodes)))
		return walk->err->code;
	*out_index = out->node_count;
	out->nodes[out->node_count++] = node;
	return WEIR_OK;
}

static int refuse(struct walk *walk, const struct weir_type *type, const char *why)
{
	char name[128];

	weir_error_set(walk->err, WEIR_E_UNSUPPORTED, "type %s cannot be written to Parquet: %s",
		       weir_type_name(type, name, sizeof(name)), why);
	weir_error_at_column(walk->err, walk->path[0]);
	return walk->err->code;
}

/* The fewest bytes whose two's complement holds every number of `precision` digits. */
static uint32_t decimal_bytes(int32_t precision)
{
	/* digits that n bytes hold: floor(log10(2^(8n − 1) − 1)) */
	for (uint32_t n = 1; n <= 32; n++)
		if ((int32_t)((double)(8 * n - 1) * 0.30102999566398119521) >= precision)
			return n;
	return 32;
}

static void integer(struct parquet_element *element, uint8_t bits, bool is_signed, enum parquet_converted converted)
{
	element->converted = converted;
	element->logical.kind = PARQUET_LOGICAL_INTEGER;
	element->logical.bit_width = bits;
	element->logical.is_signed = is_signed;
}

static void temporal(struct parquet_element *element, const struct weir_type *type, enum parquet_logical_kind kind)
{
	bool millis = type->unit <= WEIR_MILLI;

	element->logical.kind = kind;
	element->logical.unit = millis ? WEIR_MILLI : type->unit;
	if (kind == PARQUET_LOGICAL_TIME) {
		/* Arrow's times of day have no zone. Readers take both; the old annotation is defined for UTC only, so
		 * it is left out. */
		element->logical.utc = false;
		return;
	}
	element->logical.utc = type->timezone != NULL;
	if (element->logical.utc && type->unit != WEIR_NANO)
		element->converted = millis ? PARQUET_TIMESTAMP_MILLIS : PARQUET_TIMESTAMP_MICROS;
}

static int fill_leaf(struct walk *walk, const struct weir_type *type, struct parquet_element *element,
		     struct parquet_leaf *leaf)
{
#define LEAF(physical_, width_, order_, convert_)                                                                      \
	do {                                                                                                           \
		element->physical = (physical_);                                                                       \
		leaf->plain_width = (width_);                                                                          \
		leaf->order = (order_);                                                                                \
		leaf->convert = (convert_);                                                                            \
	} while (0)

	switch (type->id) {
	case WEIR_NULL:
		LEAF(PARQUET_INT32, 0, PARQUET_ORDER_NONE, PARQUET_CONVERT_NULL);
		element->logical.kind = PARQUET_LOGICAL_UNKNOWN;
		break;
	case WEIR_BOOL:
		LEAF(PARQUET_BOOLEAN, 0, PARQUET_ORDER_BOOL, PARQUET_CONVERT_BITS);
		break;
	case WEIR_INT8:
		LEAF(PARQUET_INT32, 4, PARQUET_ORDER_I32, PARQUET_CONVERT_I8);
		integer(element, 8, true, PARQUET_INT_8);
		break;
	case WEIR_INT16:
		LEAF(PARQUET_INT32, 4, PARQUET_ORDER_I32, PARQUET_CONVERT_I16);
		integer(element, 16, true, PARQUET_INT_16);
		break;
	case WEIR_INT32:
		LEAF(PARQUET_INT32, 4, PARQUET_ORDER_I32, PARQUET_CONVERT_COPY);
		break;
	case WEIR_INT64:
	case WEIR_DURATION:
		LEAF(PARQUET_INT64, 8, PARQUET_ORDER_I64, PARQUET_CONVERT_COPY);
		break;
	case WEIR_UINT8:
		LEAF(PARQUET_INT32, 4, PARQUET_ORDER_U32, PARQUET_CONVERT_U8);
		integer(element, 8, false, PARQUET_UINT_8);
		break;
	case WEIR_UINT16:
		LEAF(PARQUET_INT32, 4, PARQUET_ORDER_U32, PARQUET_CONVERT_U16);
		integer(element, 16, false, PARQUET_UINT_16);
		break;
	case WEIR_UINT32:
		LEAF(PARQUET_INT32, 4, PARQUET_ORDER_U32, PARQUET_CONVERT_COPY);
		integer(element, 32, false, PARQUET_UINT_32);
		break;
	case WEIR_UINT64:
		LEAF(PARQUET_INT64, 8, PARQUET_ORDER_U64, PARQUET_CONVERT_COPY);
		integer(element, 64, false, PARQUET_UINT_64);
		break;
	case WEIR_HALF:
		LEAF(PARQUET_FIXED, 2, PARQUET_ORDER_HALF, PARQUET_CONVERT_COPY);
		element->type_length = 2;
		element->logical.kind = PARQUET_LOGICAL_FLOAT16;
		break;
	case WEIR_FLOAT:
		LEAF(PARQUET_FLOAT, 4, PARQUET_ORDER_F32, PARQUET_CONVERT_COPY);
		break;
	case WEIR_DOUBLE:
		LEAF(PARQUET_DOUBLE, 8, PARQUET_ORDER_F64, PARQUET_CONVERT_COPY);
		break;
	case WEIR_DECIMAL128:
	case WEIR_DECIMAL256:
		if (type->scale < 0 || type->scale > type->precision)
			return refuse(walk, type, "the scale must lie between 0 and the precision");
		element->converted = PARQUET_DECIMAL;
		element->logical.kind = PARQUET_LOGICAL_DECIMAL;
		element->precision = element->logical.precision = type->precision;
		element->scale = element->logical.scale = type->scale;
		if (type->precision <= 9) {
			LEAF(PARQUET_INT32, 4, PARQUET_ORDER_I32, PARQUET_CONVERT_DECIMAL_I32);
		} else if (type->precision <= 18) {
			LEAF(PARQUET_INT64, 8, PARQUET_ORDER_I64, PARQUET_CONVERT_DECIMAL_I64);
		} else {
			element->type_length = (int32_t)decimal_bytes(type->precision);
			LEAF(PARQUET_FIXED, (uint32_t)element->type_length, PARQUET_ORDER_DECIMAL,
			     PARQUET_CONVERT_DECIMAL_FIXED);
		}
		break;
	case WEIR_DATE32:
		LEAF(PARQUET_INT32, 4, PARQUET_ORDER_I32, PARQUET_CONVERT_COPY);
		element->converted = PARQUET_DATE;
		element->logical.kind = PARQUET_LOGICAL_DATE;
		break;
	case WEIR_DATE64:
		LEAF(PARQUET_INT32, 4, PARQUET_ORDER_I32, PARQUET_CONVERT_DAYS);
		element->converted = PARQUET_DATE;
		element->logical.kind = PARQUET_LOGICAL_DATE;
		break;
	case WEIR_TIME32:
		LEAF(PARQUET_INT32, 4, PARQUET_ORDER_I32,
		     type->unit == WEIR_SECOND ? PARQUET_CONVERT_MILLIS_I32 : PARQUET_CONVERT_COPY);
		temporal(element, type, PARQUET_LOGICAL_TIME);
		break;
	case WEIR_TIME64:
		LEAF(PARQUET_INT64, 8, PARQUET_ORDER_I64, PARQUET_CONVERT_COPY);
		temporal(element, type, PARQUET_LOGICAL_TIME);
		break;
	case WEIR_TIMESTAMP:
		LEAF(PARQUET_INT64, 8, PARQUET_ORDER_I64,
		     type->unit == WEIR_SECOND ? PARQUET_CONVERT_MILLIS_I64 : PARQUET_CONVERT_COPY);
		temporal(element, type, PARQUET_LOGICAL_TIMESTAMP);
		break;
	case WEIR_STRING:
	case WEIR_LARGE_STRING:
		LEAF(PARQUET_BYTE_ARRAY, 0, PARQUET_ORDER_BYTES, PARQUET_CONVERT_VIEWS);
		element->converted = PARQUET_UTF8;
		element->logical.kind = PARQUET_LOGICAL_STRING;
		leaf->is_text = true;
		break;
	case WEIR_BINARY:
	case WEIR_LARGE_BINARY:
		LEAF(PARQUET_BYTE_ARRAY, 0, PARQUET_ORDER_BYTES, PARQUET_CONVERT_VIEWS);
		break;
	case WEIR_FIXED_BINARY:
		if (type->byte_width == 0)
			return refuse(walk, type, "values must have at least one byte");
		LEAF(PARQUET_FIXED, type->byte_width,
		     type->byte_width <= PARQUET_BOUND_MAX ? PARQUET_ORDER_BYTES : PARQUET_ORDER_NONE,
		     PARQUET_CONVERT_COPY);
		element->type_length = (int32_t)type->byte_width;
		break;
	case WEIR_INTERVAL_MONTHS:
	case WEIR_INTERVAL_DAY_TIME:
	case WEIR_INTERVAL_MONTH_DAY_NANO:
		return refuse(walk, type, "Parquet has no interval that holds it; use a duration");
	default:
		return refuse(walk, type, "unknown type");
	}
#undef LEAF
	leaf->physical = element->physical;
	return WEIR_OK;
}

static int push_path(struct walk *walk, const char *name)
{
	if (walk->path_count == sizeof(walk->path) / sizeof(walk->path[0]))
		return weir_error_set(walk->err, WEIR_E_UNSUPPORTED, "column %s is nested too deeply for Parquet",
				      walk->path[0]);
	walk->path[walk->path_count++] = name;
	return WEIR_OK;
}

static int32_t field_id(const struct weir_field *field)
{
	uint32_t size;
	const char *text = weir_metadata_get(&field->metadata, "PARQUET:field_id", &size);
	char *end;
	long id;

	if (!text || !*text)
		return INT32_MIN;
	id = strtol(text, &end, 10);
	return *end || id <= INT32_MIN || id > INT32_MAX ? INT32_MIN : (int32_t)id;
}

static int visit(struct walk *walk, const struct weir_field *field, const char *name, bool required,
		 uint32_t definition, uint32_t repetition, uint32_t *out_node);

static int visit_list(struct walk *walk, const struct weir_type *type, struct parquet_element *element, uint32_t node,
		      uint32_t definition, uint32_t repetition)
{
	struct parquet_write_schema *out = walk->out;
	bool is_map = type->id == WEIR_MAP;
	const struct weir_field *item = &type->fields[0];
	uint32_t child;
	int code;

	element->child_count = 1;
	element->converted = is_map ? PARQUET_MAP : PARQUET_LIST;
	element->logical.kind = is_map ? PARQUET_LOGICAL_MAP : PARQUET_LOGICAL_LIST;
	element = add_element(walk, is_map ? "key_value" : "list", PARQUET_REPEATED);
	if (!element)
		return walk->err->code;
	code = push_path(walk, element->name);
	if (code)
		return code;
	out->nodes[node].repetition = (uint8_t)(repetition + 1);
	if (is_map) {
		const struct weir_type *entries = item->type;
		uint32_t struct_node = 0, previous = 0;

		element->child_count = 2;
		code = add_node(walk,
				(struct parquet_node){
					.kind = PARQUET_NODE_STRUCT,
					.type = entries,
					.definition = (uint8_t)(definition + 1),
					.repetition = (uint8_t)(repetition + 1),
				},
				&struct_node);
		for (uint32_t i = 0; !code && i < 2; i++) {
			code = visit(walk, &entries->fields[i], i ? "value" : "key", i == 0, definition + 1,
				     repetition + 1, &child);
			if (!code && i == 0)
				out->nodes[struct_node].child = child;
			if (!code && i > 0)
				out->nodes[previous].next = child;
			previous = child;
		}
		out->nodes[node].child = struct_node;
	} else {
		element->child_count = 1;
		code = visit(walk, item, "element", false, definition + 1, repetition + 1, &child);
		out->nodes[node].child = code ? 0 : child;
	}
	walk->path_count--;
	return code;
}

static int visit(struct walk *walk, const struct weir_field *field, const char *name, bool required,
		 uint32_t definition, uint32_t repetition, uint32_t *out_node)
{
	struct parquet_write_schema *out = walk->out;
	const struct weir_type *type = weir_type_values(field->type);
	bool optional = (field->nullable || type->id == WEIR_NULL) && !required;
	struct parquet_element *element = add_element(walk, name, optional ? PARQUET_OPTIONAL : PARQUET_REQUIRED);
	uint32_t node = 0, element_index = out->element_count - 1;
	int code;

	if (!element)
		return walk->err->code;
	element->field_id = field_id(field);
	code = push_path(walk, name);
	if (code)
		return code;
	definition += optional;
	if (definition >= LEVEL_MAX || repetition >= LEVEL_MAX || ++walk->nesting > PARQUET_NESTING_MAX)
		return weir_error_set(walk->err, WEIR_E_UNSUPPORTED, "column %s is nested too deeply for Parquet",
				      walk->path[0]);
	code = add_node(walk,
			(struct parquet_node){
				.type = type,
				.optional = optional,
				.definition = (uint8_t)definition,
				.repetition = (uint8_t)repetition,
			},
			&node);
	if (code)
		return code;
	*out_node = node;
	switch (type->id) {
	case WEIR_STRUCT: {
		uint32_t previous = 0;

		if (type->field_count == 0)
			return refuse(walk, type, "a struct needs at least one field");
		out->nodes[node].kind = PARQUET_NODE_STRUCT;
		element->child_count = (int32_t)type->field_count;
		for (uint32_t i = 0; i < type->field_count; i++) {
			uint32_t child;

			code = visit(walk, &type->fields[i], type->fields[i].name, false, definition, repetition,
				     &child);
			if (code)
				return code;
			if (i == 0)
				out->nodes[node].child = child;
			else
				out->nodes[previous].next = child;
			previous = child;
		}
		break;
	}
	case WEIR_LIST_TYPE:
	case WEIR_LARGE_LIST:
	case WEIR_FIXED_LIST:
	case WEIR_MAP:
		out->nodes[node].kind = PARQUET_NODE_LIST;
		code = visit_list(walk, type, element, node, definition, repetition);
		if (code)
			return code;
		break;
	default: {
		struct parquet_leaf *leaf;

		if (grow(walk, (void **)&out->leaves, out->leaf_count, &walk->leaf_capacity, sizeof(*out->leaves)))
			return walk->err->code;
		out->nodes[node].kind = PARQUET_NODE_LEAF;
		out->nodes[node].leaf = out->leaf_count;
		leaf = &out->leaves[out->leaf_count++];
		*leaf = (struct parquet_leaf){
			.type = type,
			.element = element_index,
			.field = walk->field,
			.max_definition = (uint8_t)definition,
			.max_repetition = (uint8_t)repetition,
			.is_dictionary = field->type->id == WEIR_DICTIONARY_TYPE,
			.path_count = walk->path_count,
		};
		code = fill_leaf(walk, type, element, leaf);
		if (code)
			return code;
		leaf->path = weir_arena_alloc(&out->arena, walk->path_count * sizeof(*leaf->path), walk->err);
		if (!leaf->path)
			return walk->err->code;
		memcpy(leaf->path, walk->path, walk->path_count * sizeof(*leaf->path));
		break;
	}
	}
	walk->nesting--;
	walk->path_count--;
	return WEIR_OK;
}

int parquet_write_schema_init(struct parquet_write_schema *out, const struct weir_schema *schema,
			      struct weir_account *account, struct weir_error *err)
{
	struct walk walk = {.out = out, .err = err};
	struct parquet_element *root;
	int code;

	*out = (struct parquet_write_schema){.field_count = schema->field_count};
	weir_arena_init(&out->arena, account);
	root = add_element(&walk, "schema", PARQUET_REQUIRED);
	if (!root)
		goto failed;
	root->child_count = (int32_t)schema->field_count;
	out->field_nodes = weir_arena_alloc(&out->arena, (schema->field_count + 1) * sizeof(*out->field_nodes), err);
	if (!out->field_nodes)
		goto failed;
	for (uint32_t i = 0; i < schema->field_count; i++) {
		walk.field = i;
		walk.path_count = walk.nesting = 0;
		if (visit(&walk, &schema->fields[i], schema->fields[i].name, false, 0, 0, &out->field_nodes[i]))
			goto failed;
	}
	return WEIR_OK;
failed:
	code = err->code;
	parquet_write_schema_release(out);
	return code;
}

void parquet_write_schema_release(struct parquet_write_schema *schema)
{
	if (schema->arena.account)
		weir_arena_release(&schema->arena);
	*schema = (struct parquet_write_schema){0};
}
