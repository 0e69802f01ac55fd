/* From the schema elements of a footer to Arrow types, and to the shapes that nested columns are built by.
 *
 * Lists are found in all their historic spellings (the rules are the format's, for backward compatibility):
 *
 *     optional group x (LIST) { repeated group list { optional T element } }     three levels, the normal one
 *     optional group x (LIST) { repeated T element }                             two levels: elements are not null
 *     optional group x (LIST) { repeated group array { T a } }                   two levels: elements are structs
 *     repeated T x                                                               a list of its own, never null
 *
 * Levels are counted on the way down: an optional or repeated element adds one to the definition level, a repeated one
 * adds one to the repetition level too. A shape notes at which definition level it is there.
 */
#include "format/parquet/read_impl.h"

#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 2 * PARQUET_NESTING_MAX + 8 }; /* of elements: a list takes two */

struct build {
	struct parquet_file *file;
	struct weir_error *err;
	uint32_t next; /* element */
	uint32_t leaf;
	char path[1024]; /* of the element being built, cut when longer */
};

/* Where in the tree an element stands. */
struct place {
	uint16_t def, rep; /* of the parent */
	uint32_t depth;
};

static const struct parquet_element *element_at(const struct build *build, uint32_t index)
{
	return index < build->file->metadata.element_count ? &build->file->metadata.elements[index] : NULL;
}

static int refuse(struct build *build, int code, const char *what)
{
	weir_error_set(build->err, code, "%s", what);
	weir_error_at_column(build->err, build->path);
	return code;
}

static struct parquet_shape *shape_new(struct build *build, enum parquet_shape_kind kind, uint32_t child_count)
{
	struct weir_arena *arena = &build->file->arena;
	struct parquet_shape *shape = weir_arena_alloc_zero(arena, sizeof(*shape), build->err);

	if (!shape)
		return NULL;
	shape->kind = kind;
	shape->child_count = child_count;
	if (child_count) {
		shape->children = weir_arena_alloc_zero(arena, child_count * sizeof(*shape->children), build->err);
		if (!shape->children)
			return NULL;
	}
	return shape;
}

void parquet_shape_release(struct parquet_shape *shape)
{
	if (!shape)
		return;
	for (uint32_t i = 0; i < shape->child_count; i++)
		parquet_shape_release(shape->children[i]);
	weir_type_unref(shape->type);
	shape->type = NULL;
}

/* ── leaves ── */

static const struct weir_type *decimal_type(struct build *build, int32_t precision, int32_t scale)
{
	if (precision <= 0 || precision > 76 || scale > precision) {
		refuse(build, WEIR_E_DATA, "a decimal whose precision or scale makes no sense");
		return NULL;
	}
	return weir_type_decimal(build->file->account, precision <= 38 ? WEIR_DECIMAL128 : WEIR_DECIMAL256, precision,
				 scale, build->err);
}

static const struct weir_type *temporal(struct build *build, enum weir_type_id id, enum weir_time_unit unit, bool utc)
{
	return weir_type_temporal(build->file->account, id, unit, utc && id == WEIR_TIMESTAMP ? "UTC" : NULL,
				  build->err);
}

static const struct weir_type *integer_type(uint8_t bits, bool is_signed)
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

/* What the annotations of old writers mean, in the words of the new ones. */
static struct parquet_logical logical_of(const struct parquet_element *element)
{
	struct parquet_logical logical = element->logical;

	if (logical.kind != PARQUET_LOGICAL_NONE)
		return logical;
	switch (element->converted) {
	case PARQUET_UTF8:
		logical.kind = PARQUET_LOGICAL_STRING;
		break;
	case PARQUET_ENUM:
		logical.kind = PARQUET_LOGICAL_ENUM;
		break;
	case PARQUET_JSON:
		logical.kind = PARQUET_LOGICAL_JSON;
		break;
	case PARQUET_BSON:
		logical.kind = PARQUET_LOGICAL_BSON;
		break;
	case PARQUET_DECIMAL:
		logical.kind = PARQUET_LOGICAL_DECIMAL;
		logical.precision = element->precision;
		logical.scale = element->scale;
		break;
	case PARQUET_DATE:
		logical.kind = PARQUET_LOGICAL_DATE;
		break;
	case PARQUET_TIME_MILLIS:
	case PARQUET_TIME_MICROS:
		logical.kind = PARQUET_LOGICAL_TIME;
		logical.unit = element->converted == PARQUET_TIME_MILLIS ? WEIR_MILLI : WEIR_MICRO;
		logical.utc = true;
		break;
	case PARQUET_TIMESTAMP_MILLIS:
	case PARQUET_TIMESTAMP_MICROS:
		logical.kind = PARQUET_LOGICAL_TIMESTAMP;
		logical.unit = element->converted == PARQUET_TIMESTAMP_MILLIS ? WEIR_MILLI : WEIR_MICRO;
		logical.utc = true;
		break;
	case PARQUET_UINT_8:
	case PARQUET_UINT_16:
	case PARQUET_UINT_32:
	case PARQUET_UINT_64:
		logical.kind = PARQUET_LOGICAL_INTEGER;
		logical.bit_width = (uint8_t)(8 << (element->converted - PARQUET_UINT_8));
		break;
	case PARQUET_INT_8:
	case PARQUET_INT_16:
	case PARQUET_INT_32:
	case PARQUET_INT_64:
		logical.kind = PARQUET_LOGICAL_INTEGER;
		logical.bit_width = (uint8_t)(8 << (element->converted - PARQUET_INT_8));
		logical.is_signed = true;
		break;
	default:
		break;
	}
	return logical;
}

/* A new reference, or NULL with err set. An annotation that does not fit the physical type is as good as none: the values
 * are still what the physical type says. */
static const struct weir_type *leaf_type(struct build *build, const struct parquet_element *element)
{
	struct parquet_logical logical = logical_of(element);
	const struct weir_type *type = NULL;

	if (logical.kind == PARQUET_LOGICAL_UNKNOWN)
		return weir_type_ref(weir_type_of(WEIR_NULL));
	switch ((enum parquet_physical)element->physical) {
	case PARQUET_BOOLEAN:
		return weir_type_ref(weir_type_of(WEIR_BOOL));
	case PARQUET_INT32:
		if (logical.kind == PARQUET_LOGICAL_INTEGER && logical.bit_width <= 32)
			type = integer_type(logical.bit_width, logical.is_signed);
		else if (logical.kind == PARQUET_LOGICAL_DATE)
			type = weir_type_of(WEIR_DATE32);
		else if (logical.kind == PARQUET_LOGICAL_TIME && logical.unit == WEIR_MILLI)
			return temporal(build, WEIR_TIME32, WEIR_MILLI, false);
		else if (logical.kind == PARQUET_LOGICAL_DECIMAL)
			return decimal_type(build, logical.precision, logical.scale);
		return weir_type_ref(type ? type : weir_type_of(WEIR_INT32));
	case PARQUET_INT64:
		if (logical.kind == PARQUET_LOGICAL_INTEGER && logical.bit_width == 64)
			type = integer_type(64, logical.is_signed);
		else if (logical.kind == PARQUET_LOGICAL_TIME && logical.unit != WEIR_MILLI)
			return temporal(build, WEIR_TIME64, logical.unit, false);
		else if (logical.kind == PARQUET_LOGICAL_TIMESTAMP)
			return temporal(build, WEIR_TIMESTAMP, logical.unit, logical.utc);
		else if (logical.kind == PARQUET_LOGICAL_DECIMAL)
			return decimal_type(build, logical.precision, logical.scale);
		return weir_type_ref(type ? type : weir_type_of(WEIR_INT64));
	case PARQUET_INT96:
		return temporal(build, WEIR_TIMESTAMP, WEIR_NANO, false);
	case PARQUET_FLOAT:
		return weir_type_ref(weir_type_of(WEIR_FLOAT));
	case PARQUET_DOUBLE:
		return weir_type_ref(weir_type_of(WEIR_DOUBLE));
	case PARQUET_BYTE_ARRAY:
		if (logical.kind == PARQUET_LOGICAL_DECIMAL)
			return decimal_type(build, logical.precision, logical.scale);
		if (logical.kind == PARQUET_LOGICAL_STRING || logical.kind == PARQUET_LOGICAL_JSON ||
		    logical.kind == PARQUET_LOGICAL_ENUM)
			return weir_type_ref(weir_type_of(WEIR_STRING));
		return weir_type_ref(weir_type_of(WEIR_BINARY));
	case PARQUET_FIXED:
		if (logical.kind == PARQUET_LOGICAL_DECIMAL)
			return decimal_type(build, logical.precision, logical.scale);
		if (logical.kind == PARQUET_LOGICAL_FLOAT16 && element->type_length == 2)
			return weir_type_ref(weir_type_of(WEIR_HALF));
		if (element->converted == PARQUET_INTERVAL && element->type_length == 12)
			return weir_type_ref(weir_type_of(WEIR_INTERVAL_MONTH_DAY_NANO));
		return weir_type_fixed_binary(build->file->account, (uint32_t)element->type_length, build->err);
	default:
		refuse(build, WEIR_E_DATA, "a column without a type");
		return NULL;
	}
}

static uint32_t physical_width(const struct parquet_element *element)
{
	switch ((enum parquet_physical)element->physical) {
	case PARQUET_INT32:
	case PARQUET_FLOAT:
		return 4;
	case PARQUET_INT64:
	case PARQUET_DOUBLE:
		return 8;
	case PARQUET_INT96:
		return 12;
	case PARQUET_FIXED:
		return (uint32_t)element->type_length;
	default:
		return 0;
	}
}

static int leaf_convert(struct build *build, const struct parquet_element *element, struct parquet_leaf_info *info)
{
	const struct weir_type *type = info->type;

	info->width = physical_width(element);
	info->width_arrow = type->layout == WEIR_LAYOUT_FIXED ? type->byte_width : 0;
	info->is_text = weir_type_is_text(type);
	info->convert = PARQUET_KEEP;
	if (type->id == WEIR_NULL)
		info->convert = PARQUET_ALL_NULL;
	else if (weir_type_is_decimal(type))
		info->convert = element->physical == PARQUET_BYTE_ARRAY ? PARQUET_DECIMAL_BYTES
				: element->physical == PARQUET_FIXED    ? PARQUET_DECIMAL_FIXED
									: PARQUET_DECIMAL_INT;
	else if (element->physical == PARQUET_INT96)
		info->convert = PARQUET_FROM_INT96;
	else if (type->id == WEIR_INTERVAL_MONTH_DAY_NANO)
		info->convert = PARQUET_FROM_INTERVAL;
	else if (info->width == 4 && info->width_arrow < 4)
		info->convert = PARQUET_NARROW;
	WEIR_ASSERT(info->convert != PARQUET_KEEP || info->width == info->width_arrow);
	if (element->physical == PARQUET_FIXED && element->type_length > (1 << 24))
		return refuse(build, WEIR_E_UNSUPPORTED, "values of a fixed length of more than 16 MiB");
	return WEIR_OK;
}

/* Consumes the element. Of a repeated one, this is what one entry is: the caller makes the list. */
static struct parquet_shape *leaf_shape(struct build *build, struct place place)
{
	const struct parquet_element *element = element_at(build, build->next++);
	struct parquet_leaf_info *info = &build->file->leaves[build->leaf];
	struct parquet_shape *shape = shape_new(build, PARQUET_SHAPE_LEAF, 0);
	size_t length = strlen(build->path);

	if (!shape)
		return NULL;
	shape->nullable = element->repetition == PARQUET_OPTIONAL;
	shape->def_present = (uint16_t)(place.def + (element->repetition != PARQUET_REQUIRED));
	shape->leaf_begin = build->leaf++;
	shape->leaf_end = build->leaf;
	shape->type = leaf_type(build, element);
	if (!shape->type)
		return NULL;
	info->element = element;
	info->type = shape->type;
	info->def_max = shape->def_present;
	info->rep_max = (uint16_t)(place.rep + (element->repetition == PARQUET_REPEATED));
	info->path = weir_arena_strndup(&build->file->arena, build->path, length, build->err);
	if (!info->path || leaf_convert(build, element, info))
		goto fail;
	if (shape->type->id == WEIR_NULL && !shape->nullable && place.def == 0 &&
	    element->repetition == PARQUET_REQUIRED) {
		refuse(build, WEIR_E_DATA, "a column of nulls that may hold none");
		goto fail;
	}
	return shape;
fail:
	parquet_shape_release(shape);
	return NULL;
}

/* ── groups ── */

static struct parquet_shape *shape_build(struct build *build, struct place place);

static int shape_type_nested(struct build *build, struct parquet_shape *shape, enum weir_type_id id,
			     const char *const *names)
{
	struct weir_account *account = build->file->account;
	struct weir_field *fields;

	fields = weir_arena_alloc_zero(&build->file->arena, (shape->child_count + 1) * sizeof(*fields), build->err);
	if (!fields)
		return build->err->code;
	for (uint32_t i = 0; i < shape->child_count; i++) {
		fields[i].name = names[i];
		fields[i].type = shape->children[i]->type;
		fields[i].nullable = shape->children[i]->nullable;
	}
	if (id == WEIR_STRUCT)
		shape->type = weir_type_struct(account, fields, shape->child_count, build->err);
	else
		shape->type = weir_type_list(account, id, fields, 0, false, build->err);
	return shape->type ? WEIR_OK : build->err->code;
}

/* The `count` elements that follow are the struct's fields. */
static struct parquet_shape *struct_shape(struct build *build, struct place place, uint32_t count, bool nullable,
					  uint16_t def)
{
	size_t length = strlen(build->path);
	struct parquet_shape *shape;
	const char **names;

	if (count > build->file->metadata.element_count) {
		refuse(build, WEIR_E_DATA, "a group with more children than there are elements");
		return NULL;
	}
	shape = shape_new(build, PARQUET_SHAPE_STRUCT, count);
	if (!shape)
		return NULL;
	names = weir_arena_alloc(&build->file->arena, (count + 1) * sizeof(*names), build->err);
	if (!names)
		return NULL;
	shape->nullable = nullable;
	shape->def_present = def;
	shape->leaf_begin = build->leaf;
	for (uint32_t i = 0; i < count; i++) {
		const struct parquet_element *child = element_at(build, build->next);

		if (!child) {
			refuse(build, WEIR_E_DATA, "the schema ends inside a group");
			goto fail;
		}
		names[i] = child->name;
		shape->children[i] = shape_build(build, (struct place){def, place.rep, place.depth + 1});
		build->path[length] = '\0';
		if (!shape->children[i])
			goto fail;
	}
	shape->leaf_end = build->leaf;
	if (shape_type_nested(build, shape, WEIR_STRUCT, names))
		goto fail;
	return shape;
fail:
	parquet_shape_release(shape);
	return NULL;
}

/* A list around an element shape, which it takes over. */
static struct parquet_shape *list_shape(struct build *build, struct parquet_shape *item, const char *item_name,
					bool nullable, uint16_t def_present, uint16_t def_element, uint16_t rep)
{
	struct parquet_shape *shape;

	if (!item)
		return NULL;
	shape = shape_new(build, PARQUET_SHAPE_LIST, 1);
	if (!shape) {
		parquet_shape_release(item);
		return NULL;
	}
	shape->children[0] = item;
	shape->nullable = nullable;
	shape->def_present = def_present;
	shape->def_element = def_element;
	shape->rep_element = rep;
	shape->leaf_begin = item->leaf_begin;
	shape->leaf_end = item->leaf_end;
	if (shape_type_nested(build, shape, WEIR_LIST_TYPE, &item_name)) {
		parquet_shape_release(shape);
		return NULL;
	}
	return shape;
}

/* The element of a repeated element, without its repetition: what one entry of the list is. */
static struct parquet_shape *repeated_item(struct build *build, struct place place)
{
	const struct parquet_element *element = element_at(build, build->next);
	uint16_t def = (uint16_t)(place.def + 1), rep = (uint16_t)(place.rep + 1);

	if (element->physical != PARQUET_GROUP)
		return leaf_shape(build, place);
	build->next++;
	return struct_shape(build, (struct place){place.def, rep, place.depth}, (uint32_t)element->child_count, false,
			    def);
}

static bool is_list_annotated(const struct parquet_element *element)
{
	return element->logical.kind == PARQUET_LOGICAL_LIST || element->converted == PARQUET_LIST;
}

static bool is_map_annotated(const struct parquet_element *element)
{
	return element->logical.kind == PARQUET_LOGICAL_MAP || element->converted == PARQUET_MAP ||
	       element->converted == PARQUET_MAP_KEY_VALUE;
}

static bool is_three_level(const struct parquet_element *list, const struct parquet_element *repeated,
			   const struct parquet_element *item)
{
	size_t length = strlen(list->name);

	if (repeated->physical != PARQUET_GROUP || repeated->child_count != 1 || !item ||
	    item->repetition == PARQUET_REPEATED)
		return false;
	return strcmp(repeated->name, "array") != 0 &&
	       !(strncmp(repeated->name, list->name, length) == 0 && strcmp(repeated->name + length, "_tuple") == 0);
}

static struct parquet_shape *annotated_list(struct build *build, struct place place, const struct parquet_element *list)
{
	const struct parquet_element *repeated = element_at(build, build->next);
	const struct parquet_element *item = element_at(build, build->next + 1);
	uint16_t def = (uint16_t)(place.def + (list->repetition == PARQUET_OPTIONAL));
	struct place inner = {def, place.rep, place.depth + 1};
	struct parquet_shape *shape;

	if (is_three_level(list, repeated, item)) {
		build->next++;
		inner.def++;
		inner.rep++;
		inner.depth++;
		shape = shape_build(build, inner);
		return list_shape(build, shape, item->name, list->repetition == PARQUET_OPTIONAL, def,
				  (uint16_t)(def + 1), (uint16_t)(place.rep + 1));
	}
	shape = repeated_item(build, inner);
	return list_shape(build, shape, repeated->name, list->repetition == PARQUET_OPTIONAL, def, (uint16_t)(def + 1),
			  (uint16_t)(place.rep + 1));
}

static struct parquet_shape *annotated_map(struct build *build, struct place place, const struct parquet_element *map)
{
	uint16_t def = (uint16_t)(place.def + (map->repetition == PARQUET_OPTIONAL));
	struct parquet_shape *entries = repeated_item(build, (struct place){def, place.rep, place.depth + 1});
	const char *name = "entries";
	struct parquet_shape *shape;

	if (!entries)
		return NULL;
	shape = list_shape(build, entries, name, map->repetition == PARQUET_OPTIONAL, def, (uint16_t)(def + 1),
			   (uint16_t)(place.rep + 1));
	if (!shape)
		return NULL;
	/* Arrow's keys are never null. A file that says they may be stays a list of pairs. */
	if (entries->children[0]->nullable)
		return shape;
	weir_type_unref(shape->type);
	shape->type = NULL;
	if (shape_type_nested(build, shape, WEIR_MAP, &name)) {
		parquet_shape_release(shape);
		return NULL;
	}
	return shape;
}

/* Consumes the element and everything under it. */
static struct parquet_shape *shape_build(struct build *build, struct place place)
{
	const struct parquet_element *element = element_at(build, build->next), *child;
	size_t length = strlen(build->path);
	struct parquet_shape *shape;
	uint16_t def;

	if (!element) {
		refuse(build, WEIR_E_DATA, "the schema ends inside a group");
		return NULL;
	}
	snprintf(build->path + length, sizeof(build->path) - length, "%s%s", length ? "." : "", element->name);
	if (place.depth > DEPTH_MAX) {
		refuse(build, WEIR_E_UNSUPPORTED, "types nested more than 128 levels deep");
		return NULL;
	}
	if (element->repetition == PARQUET_REPEATED) {
		shape = repeated_item(build, place);
		return list_shape(build, shape, element->name, false, place.def, (uint16_t)(place.def + 1),
				  (uint16_t)(place.rep + 1));
	}
	if (element->physical != PARQUET_GROUP)
		return leaf_shape(build, place);
	if (element->child_count == 0) {
		refuse(build, WEIR_E_UNSUPPORTED, "a group without columns in it");
		return NULL;
	}
	build->next++;
	child = element_at(build, build->next);
	if (is_list_annotated(element) && element->child_count == 1 && child && child->repetition == PARQUET_REPEATED)
		return annotated_list(build, place, element);
	if (is_map_annotated(element) && element->child_count == 1 && child && child->repetition == PARQUET_REPEATED &&
	    child->physical == PARQUET_GROUP && child->child_count == 2)
		return annotated_map(build, place, element);
	def = (uint16_t)(place.def + (element->repetition == PARQUET_OPTIONAL));
	return struct_shape(build, place, (uint32_t)element->child_count, element->repetition == PARQUET_OPTIONAL, def);
}

int parquet_schema_build(struct parquet_file *file, struct weir_error *err)
{
	const struct parquet_metadata *metadata = &file->metadata;
	struct build build = {.file = file, .err = err, .next = 1};
	uint32_t count = (uint32_t)metadata->elements[0].child_count;
	struct weir_field *fields;

	if (metadata->elements[0].physical != PARQUET_GROUP)
		return refuse(&build, WEIR_E_DATA, "The schema's root is not a group.");
	if (count >= metadata->element_count)
		return refuse(&build, WEIR_E_DATA, "The schema's root has more children than there are elements.");
	file->leaves = weir_arena_alloc_zero(&file->arena, (metadata->leaf_count + 1) * sizeof(*file->leaves), err);
	file->columns = weir_arena_alloc_zero(&file->arena, (count + 1) * sizeof(struct parquet_shape *), err);
	fields = weir_arena_alloc_zero(&file->arena, (count + 1) * sizeof(*fields), err);
	if (!file->leaves || !file->columns || !fields)
		return err->code;
	for (uint32_t i = 0; i < count; i++) {
		const struct parquet_element *element = element_at(&build, build.next);

		build.path[0] = '\0';
		file->columns[i] = shape_build(&build, (struct place){0});
		if (!file->columns[i])
			return err->code;
		file->column_count = i + 1;
		fields[i].name = element->name;
		fields[i].type = file->columns[i]->type;
		fields[i].nullable = file->columns[i]->nullable;
	}
	if (build.next != metadata->element_count || build.leaf != metadata->leaf_count)
		return refuse(&build, WEIR_E_DATA, "The schema has elements that belong to no column.");
	file->base.schema = weir_schema_new(file->account, fields, count, NULL, err);
	return file->base.schema ? WEIR_OK : err->code;
}
