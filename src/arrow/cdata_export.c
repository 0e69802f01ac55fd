/* Export: each node of the foreign struct holds its own reference, because a consumer may move a child out and release
 * the rest. A node and the structs of its children are one allocation:
 *
 *     ┌──────┬─────────┬──────────────────────┬────────────────────┬──────────────────────────┐
 *     │ node │ buffers │ pointers to children │ children's structs │ schemas: format, name, … │
 *     └──────┴─────────┴──────────────────────┴────────────────────┴──────────────────────────┘
 *
 * A child that was moved out has no release callback here any more; its own node lives on with its new holder.
 */
#include "base/checked.h"
#include "arrow/cdata_impl.h"

#include <errno.h>
#include <stdio.h>

struct array_node {
	struct weir_account *account;
	size_t size;
	struct weir_array *array; /* NULL for a batch */
	const void *buffers[3];
	struct ArrowArray dictionary;
	struct ArrowArray *pointers[]; /* followed by as many structs */
};

static void array_release(struct ArrowArray *out)
{
	struct array_node *node = out->private_data;

	for (int64_t i = 0; i < out->n_children; i++)
		if (out->children[i]->release)
			out->children[i]->release(out->children[i]);
	if (out->dictionary && out->dictionary->release)
		out->dictionary->release(out->dictionary);
	weir_array_unref(node->array);
	out->release = NULL;
	weir_free(node->account, node, node->size);
}

static struct array_node *array_node_new(struct weir_account *account, uint32_t child_count, struct ArrowArray *out,
					 struct weir_error *err)
{
	size_t each = sizeof(struct ArrowArray *) + sizeof(struct ArrowArray);
	size_t size = sizeof(struct array_node) + child_count * each;
	struct array_node *node = weir_alloc_zero(account, size, err);
	struct ArrowArray *structs;

	*out = (struct ArrowArray){0};
	if (!node)
		return NULL;
	node->account = account;
	node->size = size;
	structs = (struct ArrowArray *)(node->pointers + child_count);
	for (uint32_t i = 0; i < child_count; i++)
		node->pointers[i] = &structs[i];
	out->buffers = node->buffers;
	out->children = child_count ? node->pointers : NULL;
	out->n_children = child_count;
	out->release = array_release;
	out->private_data = node;
	return node;
}

static int buffer_count(const struct weir_type *type)
{
	switch (type->layout) {
	case WEIR_LAYOUT_NULL:
		return 0;
	case WEIR_LAYOUT_BYTES:
		return 3;
	case WEIR_LAYOUT_NESTED:
		return type_offset_width(type) ? 2 : 1;
	default:
		return 2;
	}
}

int weir_cdata_export_array(const struct weir_array *array, struct ArrowArray *out, struct weir_error *err)
{
	struct array_node *node = array_node_new(array->account, array->child_count, out, err);

	if (!node)
		return err->code;
	node->array = weir_array_ref(array);
	out->length = array->length;
	out->offset = array->offset;
	out->null_count = array->type->layout == WEIR_LAYOUT_NULL ? array->length
			  : array->buffers[0].data                ? array->null_count
								  : 0;
	out->n_buffers = buffer_count(array->type);
	for (int64_t i = 0; i < out->n_buffers; i++)
		node->buffers[i] = array->buffers[i].data;
	for (uint32_t i = 0; i < array->child_count; i++)
		if (weir_cdata_export_array(array->children[i], out->children[i], err))
			goto fail;
	if (array->dictionary) {
		out->dictionary = &node->dictionary;
		if (weir_cdata_export_array(array->dictionary, out->dictionary, err))
			goto fail;
	}
	return WEIR_OK;
fail:
	out->release(out);
	return err->code;
}

int weir_cdata_export_batch(const struct weir_batch *batch, struct ArrowArray *out, struct weir_error *err)
{
	if (!array_node_new(batch->account, batch->column_count, out, err))
		return err->code;
	out->length = batch->row_count;
	out->n_buffers = 1;
	for (uint32_t i = 0; i < batch->column_count; i++)
		if (weir_cdata_export_array(batch->columns[i], out->children[i], err)) {
			out->release(out);
			return err->code;
		}
	return WEIR_OK;
}

struct schema_node {
	struct weir_account *account;
	size_t size;
	struct ArrowSchema dictionary;
	struct ArrowSchema *pointers[];
};

static void schema_release(struct ArrowSchema *out)
{
	struct schema_node *node = out->private_data;

	for (int64_t i = 0; i < out->n_children; i++)
		if (out->children[i]->release)
			out->children[i]->release(out->children[i]);
	if (out->dictionary && out->dictionary->release)
		out->dictionary->release(out->dictionary);
	out->release = NULL;
	weir_free(node->account, node, node->size);
}

static const char *const plain_formats[WEIR_TYPE_ID_COUNT] = {
	[WEIR_NULL] = "n",
	[WEIR_BOOL] = "b",
	[WEIR_INT8] = "c",
	[WEIR_INT16] = "s",
	[WEIR_INT32] = "i",
	[WEIR_INT64] = "l",
	[WEIR_UINT8] = "C",
	[WEIR_UINT16] = "S",
	[WEIR_UINT32] = "I",
	[WEIR_UINT64] = "L",
	[WEIR_HALF] = "e",
	[WEIR_FLOAT] = "f",
	[WEIR_DOUBLE] = "g",
	[WEIR_DATE32] = "tdD",
	[WEIR_DATE64] = "tdm",
	[WEIR_INTERVAL_MONTHS] = "tiM",
	[WEIR_INTERVAL_DAY_TIME] = "tiD",
	[WEIR_INTERVAL_MONTH_DAY_NANO] = "tin",
	[WEIR_BINARY] = "z",
	[WEIR_LARGE_BINARY] = "Z",
	[WEIR_STRING] = "u",
	[WEIR_LARGE_STRING] = "U",
	[WEIR_LIST_TYPE] = "+l",
	[WEIR_LARGE_LIST] = "+L",
	[WEIR_STRUCT] = "+s",
	[WEIR_MAP] = "+m",
};

/* The length, or what it would be; a zone may be long. */
static size_t write_format(const struct weir_type *type, char *to, size_t size)
{
	char unit = "smun"[type->unit];
	int length;

	switch (type->id) {
	case WEIR_DICTIONARY_TYPE:
		return write_format(type->dictionary_index, to, size);
	case WEIR_DECIMAL128:
		length = snprintf(to, size, "d:%d,%d", type->precision, type->scale);
		break;
	case WEIR_DECIMAL256:
		length = snprintf(to, size, "d:%d,%d,256", type->precision, type->scale);
		break;
	case WEIR_TIME32:
	case WEIR_TIME64:
		length = snprintf(to, size, "tt%c", unit);
		break;
	case WEIR_TIMESTAMP:
		length = snprintf(to, size, "ts%c:%s", unit, type->timezone ? type->timezone : "");
		break;
	case WEIR_DURATION:
		length = snprintf(to, size, "tD%c", unit);
		break;
	case WEIR_FIXED_BINARY:
		length = snprintf(to, size, "w:%u", type->byte_width);
		break;
	case WEIR_FIXED_LIST:
		length = snprintf(to, size, "+w:%d", type->list_size);
		break;
	default:
		length = snprintf(to, size, "%s", plain_formats[type->id]);
		break;
	}
	return (size_t)length;
}

static size_t metadata_size(const struct weir_metadata *metadata)
{
	size_t size = metadata->count ? 4 : 0;

	for (uint32_t i = 0; i < metadata->count; i++)
		size += 8 + strlen(metadata->entries[i].key) + metadata->entries[i].value_size;
	return size;
}

static char *write_piece(char *to, const void *bytes, uint32_t size)
{
	memcpy(to, &size, 4);
	memcpy(to + 4, bytes, size);
	return to + 4 + size;
}

static void write_metadata(const struct weir_metadata *metadata, char *to)
{
	memcpy(to, &metadata->count, 4);
	to += 4;
	for (uint32_t i = 0; i < metadata->count; i++) {
		to = write_piece(to, metadata->entries[i].key, (uint32_t)strlen(metadata->entries[i].key));
		to = write_piece(to, metadata->entries[i].value, metadata->entries[i].value_size);
	}
}

/* A node for a field; `type` NULL: for a schema, whose children are `fields`. */
static int export_node(struct weir_account *account, const struct weir_type *type, const char *name, int64_t flags,
		       const struct weir_metadata *metadata, const struct weir_field *fields, uint32_t count,
		       struct ArrowSchema *out, struct weir_error *err)
{
	size_t format_size = (type ? write_format(type, NULL, 0) : 2) + 1, name_size = strlen(name) + 1;
	size_t head = sizeof(struct schema_node) + count * (sizeof(struct ArrowSchema *) + sizeof(struct ArrowSchema));
	size_t size = head + metadata_size(metadata) + format_size + name_size;
	struct schema_node *node = weir_alloc_zero(account, size, err);
	struct ArrowSchema *structs;
	char *text;

	*out = (struct ArrowSchema){0};
	if (!node)
		return err->code;
	node->account = account;
	node->size = size;
	structs = (struct ArrowSchema *)(node->pointers + count);
	text = (char *)node + head;
	if (metadata->count) {
		write_metadata(metadata, text);
		out->metadata = text;
		text += metadata_size(metadata);
	}
	if (type)
		write_format(type, text, format_size);
	else
		memcpy(text, "+s", 3);
	out->format = text;
	out->name = memcpy(text + format_size, name, name_size);
	out->flags = flags;
	out->n_children = count;
	out->children = count ? node->pointers : NULL;
	out->release = schema_release;
	out->private_data = node;
	for (uint32_t i = 0; i < count; i++)
		node->pointers[i] = &structs[i];
	for (uint32_t i = 0; i < count; i++) {
		const struct weir_field *field = &fields[i];
		const struct weir_type *child = field->type;

		if (export_node(account, child, field->name,
				(field->nullable ? ARROW_FLAG_NULLABLE : 0) |
					(child->id == WEIR_MAP && child->ordered ? ARROW_FLAG_MAP_KEYS_SORTED : 0) |
					(child->id == WEIR_DICTIONARY_TYPE && child->ordered
						 ? ARROW_FLAG_DICTIONARY_ORDERED
						 : 0),
				&field->metadata, child->fields, child->field_count, out->children[i], err))
			goto fail;
	}
	if (type && type->id == WEIR_DICTIONARY_TYPE) {
		out->dictionary = &node->dictionary;
		if (weir_cdata_export_type(account, type->dictionary_value, "", out->dictionary, err))
			goto fail;
	}
	return WEIR_OK;
fail:
	out->release(out);
	return err->code;
}

int weir_cdata_export_type(struct weir_account *account, const struct weir_type *type, const char *name,
			   struct ArrowSchema *out, struct weir_error *err)
{
	int64_t flags = ARROW_FLAG_NULLABLE;

	if (type->ordered)
		flags |= type->id == WEIR_MAP ? ARROW_FLAG_MAP_KEYS_SORTED : ARROW_FLAG_DICTIONARY_ORDERED;
	return export_node(account, type, name, flags, &(struct weir_metadata){0}, type->fields, type->field_count, out,
			   err);
}

int weir_cdata_export_schema(const struct weir_schema *schema, struct ArrowSchema *out, struct weir_error *err)
{
	return export_node(schema->account, NULL, "", 0, &schema->metadata, schema->fields, schema->field_count, out,
			   err);
}
