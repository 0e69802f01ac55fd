/* From the schema elements of a footer to Arrow types, and to the shapes that nested columns are built by.
 *
 * Lists are found in all their historic spellings (the rules are the format's, for backward compatibility):
 *
 *     optional group x (LIST) { repeated group list { optional T element } }     three levels, the normal one
 *     optional group x (LIST) { repeated T element }                             two levels: elements are not null
 *     optional group x (LIST) { repeated group array { T a } }                   two levels: elements are structs
 *     optional group x (LIST) { repeated group array (LIST) { repeated T a } }   two levels: elements are lists
 *     repeated T x                                                               a list of its own, never null
 *
 * Levels are counted on the way down: an optional or repeated element adds one to the definition level, a repeated one
 * adds one to the repetition level too. A shape notes at which definition level it is there.
 */
#include "arrow/ipc.h"
#include "arrow/tensor.h"
#include "format/parquet/schema_impl.h"

#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 2 * PARQUET_NESTING_MAX + 8 }; /* of elements: a list takes two */

/* Where in the tree an element stands. */
struct place {
	uint16_t def, rep; /* of the parent */
	uint32_t depth;
	const struct weir_type *hint; /* what ARROW:schema says the element's type was; NULL: nothing */
	bool is_entries;              /* of a map: names are positions */
};

static const struct parquet_element *element_at(const struct parquet_schema_build *build, uint32_t index)
{
	return index < build->file->metadata.element_count ? &build->file->metadata.elements[index] : NULL;
}

int parquet_schema_refuse(struct parquet_schema_build *build, int code, const char *what)
{
	weir_error_set(build->err, code, "%s", what);
	weir_error_at_column(build->err, build->path);
	return code;
}

static struct parquet_shape *shape_new(struct parquet_schema_build *build, enum parquet_shape_kind kind,
				       uint32_t child_count)
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

/* Consumes the element. Of a repeated one, this is what one entry is: the caller makes the list. */
static struct parquet_shape *leaf_shape(struct parquet_schema_build *build, struct place place)
{
	const struct parquet_element *element = element_at(build, build->next++);
	struct parquet_leaf_info *info = &build->file->leaves[build->leaf];
	struct parquet_shape *shape = shape_new(build, PARQUET_SHAPE_LEAF, 0);
	size_t length = strlen(build->path);

	if (!shape)
		return NULL;
	info->rep_max = (uint16_t)(place.rep + (element->repetition == PARQUET_REPEATED));
	shape->nullable = element->repetition == PARQUET_OPTIONAL;
	shape->def_present = (uint16_t)(place.def + (element->repetition != PARQUET_REQUIRED));
	shape->leaf_begin = build->leaf++;
	shape->leaf_end = build->leaf;
	shape->type = parquet_leaf_type(build, element, place.hint);
	if (!shape->type)
		return NULL;
	info->element = element;
	info->type = weir_type_values(shape->type);
	info->def_max = shape->def_present;
	info->path = weir_arena_strndup(&build->file->arena, build->path, length, build->err);
	if (!info->path || parquet_leaf_convert(build, element, info))
		goto fail;
	if (shape->type->id == WEIR_NULL && !shape->nullable && place.def == 0 &&
	    element->repetition == PARQUET_REQUIRED) {
		parquet_schema_refuse(build, WEIR_E_DATA, "a column of nulls that may hold none");
		goto fail;
	}
	return shape;
fail:
	parquet_shape_release(shape);
	return NULL;
}

/* ── groups ── */

static struct parquet_shape *shape_build(struct parquet_schema_build *build, struct place place);

/* The type of a group, from those of its children. Of the hint it takes names, metadata and the kind of list; what a
 * list's elements are called the file says, as for other readers of it. */
static int shape_type_nested(struct parquet_schema_build *build, struct parquet_shape *shape, enum weir_type_id id,
			     const char *const *names, const struct weir_type *hint)
{
	struct weir_account *account = build->file->account;
	bool is_list = id != WEIR_STRUCT && id != WEIR_MAP;
	struct weir_field *fields;

	fields = weir_arena_alloc_zero(&build->file->arena, (shape->child_count + 1) * sizeof(*fields), build->err);
	if (!fields)
		return build->err->code;
	for (uint32_t i = 0; i < shape->child_count; i++) {
		fields[i].name = hint && (!is_list || build->keeps_names) ? hint->fields[i].name : names[i];
		fields[i].type = shape->children[i]->type;
		fields[i].nullable = shape->children[i]->nullable;
		if (hint)
			fields[i].metadata = hint->fields[i].metadata;
	}
	if (id == WEIR_STRUCT)
		shape->type = weir_type_struct(account, fields, shape->child_count, build->err);
	else
		shape->type = weir_type_list(account, id, fields, hint ? hint->list_size : 0, hint && hint->ordered,
					     build->err);
	return shape->type ? WEIR_OK : build->err->code;
}

/* The hint, if it is of the same kind; else NULL. */
static const struct weir_type *struct_hint(const struct weir_type *hint, uint32_t count)
{
	return hint && hint->id == WEIR_STRUCT && hint->field_count == count ? hint : NULL;
}

static const struct weir_type *list_hint(const struct weir_type *hint)
{
	return hint && (hint->id == WEIR_LIST_TYPE || hint->id == WEIR_LARGE_LIST ||
			(hint->id == WEIR_FIXED_LIST && hint->list_size > 0))
		       ? hint
		       : NULL;
}

/* The `count` elements that follow are the struct's fields. */
static struct parquet_shape *struct_shape(struct parquet_schema_build *build, struct place place, uint32_t count,
					  bool nullable, uint16_t def)
{
	size_t length = strlen(build->path);
	struct parquet_shape *shape;
	const struct weir_type *hint = struct_hint(place.hint, count);
	const char **names;

	if (count > build->file->metadata.element_count) {
		parquet_schema_refuse(build, WEIR_E_DATA, "a group with more children than there are elements");
		return NULL;
	}
	/* Every shape has a leaf, which knows how many rows there are. */
	if (count == 0) {
		parquet_schema_refuse(build, WEIR_E_UNSUPPORTED, "a group without columns in it");
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
			parquet_schema_refuse(build, WEIR_E_DATA, "the schema ends inside a group");
			goto fail;
		}
		names[i] = child->name;
		if (hint && !place.is_entries && strcmp(hint->fields[i].name, child->name) != 0)
			hint = NULL; /* of another file: the children so far keep what it said of them */
		shape->children[i] = shape_build(build, (struct place){.def = def,
								       .rep = place.rep,
								       .depth = place.depth + 1,
								       .hint = hint ? hint->fields[i].type : NULL});
		build->path[length] = '\0';
		if (!shape->children[i])
			goto fail;
	}
	shape->leaf_end = build->leaf;
	if (shape_type_nested(build, shape, WEIR_STRUCT, names, hint))
		goto fail;
	return shape;
fail:
	parquet_shape_release(shape);
	return NULL;
}

/* A list around an element shape, which it takes over. */
static struct parquet_shape *list_shape(struct parquet_schema_build *build, struct parquet_shape *item,
					const char *item_name, bool nullable, uint16_t def_present,
					uint16_t def_element, uint16_t rep, const struct weir_type *hint)
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
	if (shape_type_nested(build, shape, hint ? hint->id : WEIR_LIST_TYPE, &item_name, hint)) {
		parquet_shape_release(shape);
		return NULL;
	}
	return shape;
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

static struct parquet_shape *annotated_list(struct parquet_schema_build *build, struct place place,
					    const struct parquet_element *list);

/* The element of a repeated element, without its repetition: what one entry of the list is. */
static struct parquet_shape *repeated_item(struct parquet_schema_build *build, struct place place)
{
	const struct parquet_element *element = element_at(build, build->next), *child;

	if (element->physical != PARQUET_GROUP)
		return leaf_shape(build, place);
	build->next++;
	child = element_at(build, build->next);
	place.rep = (uint16_t)(place.rep + 1);
	if (is_list_annotated(element) && element->child_count == 1 && child && child->repetition == PARQUET_REPEATED) {
		place.def = (uint16_t)(place.def + 1);
		return annotated_list(build, place, element);
	}
	return struct_shape(build, place, (uint32_t)element->child_count, false, (uint16_t)(place.def + 1));
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

static struct parquet_shape *annotated_list(struct parquet_schema_build *build, struct place place,
					    const struct parquet_element *list)
{
	const struct parquet_element *repeated = element_at(build, build->next);
	const struct parquet_element *item = element_at(build, build->next + 1);
	uint16_t def = (uint16_t)(place.def + (list->repetition == PARQUET_OPTIONAL));
	const struct weir_type *hint = list_hint(place.hint);
	struct place inner = {
		.def = def, .rep = place.rep, .depth = place.depth + 1, .hint = hint ? hint->fields[0].type : NULL};
	struct parquet_shape *shape;

	if (is_three_level(list, repeated, item)) {
		build->next++;
		inner.def++;
		inner.rep++;
		inner.depth++;
		shape = shape_build(build, inner);
		return list_shape(build, shape, item->name, list->repetition == PARQUET_OPTIONAL, def,
				  (uint16_t)(def + 1), (uint16_t)(place.rep + 1), hint);
	}
	shape = repeated_item(build, inner);
	return list_shape(build, shape, repeated->name, list->repetition == PARQUET_OPTIONAL, def, (uint16_t)(def + 1),
			  (uint16_t)(place.rep + 1), hint);
}

static struct parquet_shape *annotated_map(struct parquet_schema_build *build, struct place place,
					   const struct parquet_element *map)
{
	uint16_t def = (uint16_t)(place.def + (map->repetition == PARQUET_OPTIONAL));
	const struct weir_type *hint = place.hint && place.hint->id == WEIR_MAP ? place.hint : NULL;
	struct parquet_shape *entries = repeated_item(build, (struct place){.def = def,
									    .rep = place.rep,
									    .depth = place.depth + 1,
									    .hint = hint ? hint->fields[0].type : NULL,
									    .is_entries = true});
	const char *name = "entries";
	struct parquet_shape *shape;

	if (!entries)
		return NULL;
	shape = list_shape(build, entries, name, map->repetition == PARQUET_OPTIONAL, def, (uint16_t)(def + 1),
			   (uint16_t)(place.rep + 1), NULL);
	if (!shape)
		return NULL;
	/* Arrow's keys are never null. A file that says they may be stays a list of pairs. */
	if (entries->children[0]->nullable)
		return shape;
	weir_type_unref(shape->type);
	shape->type = NULL;
	if (shape_type_nested(build, shape, WEIR_MAP, &name, hint)) {
		parquet_shape_release(shape);
		return NULL;
	}
	return shape;
}

/* Consumes the element and everything under it. */
static struct parquet_shape *shape_build(struct parquet_schema_build *build, struct place place)
{
	const struct parquet_element *element = element_at(build, build->next), *child;
	size_t length = strlen(build->path);
	struct parquet_shape *shape;
	uint16_t def;

	if (!element) {
		parquet_schema_refuse(build, WEIR_E_DATA, "the schema ends inside a group");
		return NULL;
	}
	snprintf(build->path + length, sizeof(build->path) - length, "%s%s", length ? "." : "", element->name);
	if (place.depth > DEPTH_MAX) {
		parquet_schema_refuse(build, WEIR_E_UNSUPPORTED, "types nested more than 128 levels deep");
		return NULL;
	}
	if (element->repetition == PARQUET_REPEATED) {
		const struct weir_type *hint = list_hint(place.hint);
		struct place item = place;

		item.hint = hint ? hint->fields[0].type : NULL;
		shape = repeated_item(build, item);
		return list_shape(build, shape, element->name, false, place.def, (uint16_t)(place.def + 1),
				  (uint16_t)(place.rep + 1), hint);
	}
	if (element->physical != PARQUET_GROUP)
		return leaf_shape(build, place);
	if (element->child_count == 0) {
		parquet_schema_refuse(build, WEIR_E_UNSUPPORTED, "a group without columns in it");
		return NULL;
	}
	build->next++;
	child = element_at(build, build->next);
	if (is_list_annotated(element) && element->child_count == 1 && child && child->repetition == PARQUET_REPEATED)
		return annotated_list(build, place, element);
	if (is_map_annotated(element) && element->child_count == 1 && child && child->repetition == PARQUET_REPEATED &&
	    child->physical == PARQUET_GROUP && child->child_count == 2)
		return annotated_map(build, place, element);
	/* A map without values is the list of its keys. */
	if (is_map_annotated(element) && element->child_count == 1 && child && child->repetition == PARQUET_REPEATED &&
	    child->physical == PARQUET_GROUP && child->child_count == 1)
		return annotated_list(build, place, element);
	def = (uint16_t)(place.def + (element->repetition == PARQUET_OPTIONAL));
	return struct_shape(build, place, (uint32_t)element->child_count, element->repetition == PARQUET_OPTIONAL, def);
}

/* ── ARROW:schema ── */

static int base64_value(uint8_t byte)
{
	if (byte >= 'A' && byte <= 'Z')
		return byte - 'A';
	if (byte >= 'a' && byte <= 'z')
		return byte - 'a' + 26;
	if (byte >= '0' && byte <= '9')
		return byte - '0' + 52;
	return byte == '+' ? 62 : byte == '/' ? 63 : -1;
}

/* Into `out` of 3/4 of the size; the number of bytes. Stops at the first that is none of base64's. */
static size_t base64_decode(const uint8_t *text, size_t size, uint8_t *out)
{
	uint32_t bits = 0, count = 0;
	size_t at = 0;

	for (size_t i = 0; i < size && base64_value(text[i]) >= 0; i++) {
		bits = bits << 6 | (uint32_t)base64_value(text[i]);
		if (++count % 4 == 0)
			for (int shift = 16; shift >= 0; shift -= 8)
				out[at++] = (uint8_t)(bits >> shift);
	}
	if (count % 4 >= 2)
		out[at++] = (uint8_t)(bits >> (count % 4 == 2 ? 4 : 10));
	if (count % 4 == 3)
		out[at++] = (uint8_t)(bits >> 2);
	return at;
}

/* The schema that an Arrow writer left in the key values, or NULL: without it, or with a damaged one, the file's own
 * types are good enough. Only a lack of memory is an error. */
static int hint_read(struct parquet_file *file, struct weir_schema **out, struct weir_error *err)
{
	const struct parquet_metadata *metadata = &file->metadata;
	struct weir_error ignored = {0};

	*out = NULL;
	for (uint32_t i = 0; i < metadata->key_value_count; i++) {
		const struct parquet_key_value *pair = &metadata->key_values[i];
		uint8_t *bytes;
		size_t size;
		int code;

		if (pair->key.size != strlen("ARROW:schema") ||
		    memcmp(pair->key.data, "ARROW:schema", pair->key.size) || !pair->value.size)
			continue;
		bytes = weir_alloc(file->account, pair->value.size + 64, err);
		if (!bytes)
			return err->code;
		size = base64_decode(pair->value.data, pair->value.size, bytes);
		code = weir_ipc_read_schema(file->account, bytes, size, out, &ignored);
		weir_free(file->account, bytes, pair->value.size + 64);
		if (code == WEIR_E_MEMORY || code == WEIR_E_LIMIT || code == WEIR_E_GIVE_UP ||
		    code == WEIR_E_CANCELLED) {
			*err = ignored;
			return code;
		}
		if (code)
			*out = NULL;
		return WEIR_OK;
	}
	return WEIR_OK;
}

static int columns_build(struct parquet_file *file, const struct weir_schema *hint, struct weir_error *err)
{
	const struct parquet_metadata *metadata = &file->metadata;
	struct parquet_schema_build build = {.file = file, .err = err, .next = 1};
	uint32_t count = (uint32_t)metadata->elements[0].child_count, size;
	struct weir_field *fields;

	if (metadata->elements[0].physical != PARQUET_GROUP)
		return parquet_schema_refuse(&build, WEIR_E_DATA, "The schema's root is not a group.");
	if (count >= metadata->element_count)
		return parquet_schema_refuse(&build, WEIR_E_DATA,
					     "The schema's root has more children than there are elements.");
	file->leaves = weir_arena_alloc_zero(&file->arena, (metadata->leaf_count + 1) * sizeof(*file->leaves), err);
	file->columns = weir_arena_alloc_zero(&file->arena, (count + 1) * sizeof(struct parquet_shape *), err);
	fields = weir_arena_alloc_zero(&file->arena, (count + 1) * sizeof(*fields), err);
	if (!file->leaves || !file->columns || !fields)
		return err->code;
	for (uint32_t i = 0; i < count; i++) {
		const struct parquet_element *element = element_at(&build, build.next);

		const struct weir_field *known = hint && hint->field_count == count ? &hint->fields[i] : NULL;

		if (known && (!element || strcmp(known->name, element->name) != 0))
			known = NULL;
		build.path[0] = '\0';
		build.keeps_names = known && weir_metadata_get(&known->metadata, WEIR_EXTENSION_NAME, &size);
		file->columns[i] = shape_build(&build, (struct place){.hint = known ? known->type : NULL});
		if (!file->columns[i])
			return err->code;
		file->column_count = i + 1;
		fields[i].name = element->name;
		fields[i].type = file->columns[i]->type;
		fields[i].nullable = file->columns[i]->nullable;
		if (known)
			fields[i].metadata = known->metadata;
	}
	if (build.next != metadata->element_count || build.leaf != metadata->leaf_count)
		return parquet_schema_refuse(&build, WEIR_E_DATA, "The schema has elements that belong to no column.");
	file->base.schema = weir_schema_new(file->account, fields, count, hint ? &hint->metadata : NULL, err);
	return file->base.schema ? WEIR_OK : err->code;
}

int parquet_schema_build(struct parquet_file *file, struct weir_error *err)
{
	struct weir_schema *hint;
	int code = hint_read(file, &hint, err);

	if (!code)
		code = columns_build(file, hint, err);
	if (hint)
		weir_schema_unref(hint);
	return code;
}
