/* Record batches and dictionary batches into memory of the caller.
 *
 * One walk over the arrays serves both steps. Without memory it counts field nodes, buffers and bytes; with memory it
 * fills the nodes and buffers of the message and copies each buffer to its place: the only copy that is made. A slice
 * is written as if it had been cut out: offsets start at 0, bits at the first bit, bytes and children outside it stay
 * away.
 */
#include "base/checked.h"
#include "arrow/arrow_impl.h"
#include "arrow/ipc_impl.h"

static const struct flat_layout layout_message = {4, {2, 1, 4, 8}};
static const struct flat_layout layout_record = {3, {8, 4, 4}};
static const struct flat_layout layout_dictionary = {3, {8, 4, 1}};

static void put_node(struct ipc_walk *walk, int64_t length, int64_t null_count)
{
	struct ipc_pair node = {length, null_count};

	if (walk->body && walk->is_packed)
		walk->nodes[walk->node_count] = null_count != 0;
	else if (walk->body)
		memcpy(walk->nodes + walk->node_count * sizeof(node), &node, sizeof(node));
	walk->node_count++;
}

/* Takes the next `size` bytes of the body; gives their place, with zeros behind them up to the next, or NULL. */
static uint8_t *put_buffer(struct ipc_walk *walk, uint64_t size)
{
	struct ipc_pair buffer = {(int64_t)walk->body_size, (int64_t)size};
	uint64_t whole = weir_round_up(size, walk->is_packed ? IPC_ALIGN_PACKED : IPC_ALIGN);
	uint8_t *to = NULL;

	if (walk->body) {
		if (!walk->is_packed)
			memcpy(walk->buffers + walk->buffer_count * sizeof(buffer), &buffer, sizeof(buffer));
		to = walk->body + walk->body_size;
		memset(to + size, 0, whole - size);
	}
	walk->buffer_count++;
	walk->body_size += whole;
	return to;
}

/* The bytes may lie in their place already, or, where fewer rows came than there was room for, behind it (block.h). */
static void put_bytes(struct ipc_walk *walk, const uint8_t *from, uint64_t size)
{
	if (walk->body && size && from != walk->body + walk->body_size)
		memmove(walk->body + walk->body_size, from, size);
	if (size > walk->large.size)
		walk->large = (struct weir_large_buffer){.bytes = from, .size = size, .offset = walk->body_size};
	put_buffer(walk, size);
}

static void put_bits(struct ipc_walk *walk, const uint8_t *from, int64_t start, int64_t length)
{
	uint8_t *to = put_buffer(walk, weir_bits_size(length));

	if (!to || length == 0)
		return;
	to[weir_bits_size(length) - 1] = 0; /* the bits past the end are zero */
	weir_bits_copy(to, 0, from, start, length);
}

/* Offsets of the rows, from 0 on; gives the range that they cover in what they point into. */
static void put_offsets(struct ipc_walk *walk, const struct weir_array *array, int64_t start, int64_t length,
			int64_t *first, int64_t *last)
{
	unsigned width = type_offset_width(array->type);
	uint8_t *to = put_buffer(walk, ((uint64_t)length + 1) * width);
	const uint8_t *from = array->buffers[1].data;

	*first = *last = 0;
	if (length == 0) {
		if (to)
			memset(to, 0, width);
		return;
	}
	*first = offset_at(array, start);
	*last = offset_at(array, start + length);
	if (!to)
		return;
	from += (uint64_t)start * width;
	if (*first == 0) {
		if (to != from) /* they may lie there, as values may */
			memcpy(to, from, ((uint64_t)length + 1) * width);
	} else if (width == 4) {
		for (int64_t i = 0; i <= length; i++)
			((int32_t *)to)[i] = ((const int32_t *)from)[i] - (int32_t)*first;
	} else {
		for (int64_t i = 0; i <= length; i++)
			((int64_t *)to)[i] = ((const int64_t *)from)[i] - *first;
	}
}

static int64_t count_nulls(const struct weir_array *array, int64_t start, int64_t length)
{
	if (!array->buffers[0].data || array->null_count == 0)
		return 0;
	if (start == array->offset && length == array->length)
		return weir_array_null_count(array);
	return length - weir_bits_count(array->buffers[0].data, start, length);
}

/* Behind codes that are packed: how many values there are, and these. Messages of their own have them elsewhere. */
static void put_values(struct ipc_walk *walk, const struct weir_array *values)
{
	uint8_t *to = put_buffer(walk, sizeof(values->length));

	if (to)
		memcpy(to, &values->length, sizeof(values->length));
	ipc_walk_array(walk, values, values->offset, values->length);
}

void ipc_walk_array(struct ipc_walk *walk, const struct weir_array *array, int64_t start, int64_t length)
{
	const struct weir_type *type = array->type;
	const uint8_t *values = array->buffers[1].data;
	int64_t null_count, first, last;

	if (type->id == WEIR_NULL) {
		put_node(walk, length, length);
		return;
	}
	null_count = count_nulls(array, start, length);
	put_node(walk, length, null_count);
	put_bits(walk, array->buffers[0].data, start, null_count ? length : 0);
	switch (type->layout) {
	case WEIR_LAYOUT_NULL:
		break;
	case WEIR_LAYOUT_BITS:
		put_bits(walk, values, start, length);
		break;
	case WEIR_LAYOUT_FIXED:
		put_bytes(walk, length ? values + (uint64_t)start * type->byte_width : NULL,
			  (uint64_t)length * type->byte_width);
		if (walk->is_packed && type->id == WEIR_DICTIONARY_TYPE)
			put_values(walk, array->dictionary);
		break;
	case WEIR_LAYOUT_BYTES:
		put_offsets(walk, array, start, length, &first, &last);
		put_bytes(walk, last > first ? array->buffers[2].data + first : NULL, (uint64_t)(last - first));
		break;
	case WEIR_LAYOUT_NESTED:
		if (type->id == WEIR_STRUCT) {
			for (uint32_t i = 0; i < array->child_count; i++)
				ipc_walk_array(walk, array->children[i], array->children[i]->offset + start, length);
			break;
		}
		if (type->id == WEIR_FIXED_LIST) {
			first = start * type->list_size;
			last = first + length * type->list_size;
		} else {
			put_offsets(walk, array, start, length, &first, &last);
		}
		ipc_walk_array(walk, array->children[0], array->children[0]->offset + first, last - first);
		break;
	}
}

struct content {
	const struct weir_batch *batch;  /* or */
	const struct weir_array *values; /* of a dictionary */
	int64_t dictionary_id;
	bool is_delta;
};

static int64_t content_length(const struct content *content)
{
	return content->batch ? content->batch->row_count : content->values->length;
}

static void put_columns(struct ipc_walk *walk, const struct content *content)
{
	if (content->values) {
		ipc_walk_array(walk, content->values, content->values->offset, content->values->length);
		return;
	}
	for (uint32_t i = 0; i < content->batch->column_count; i++) {
		const struct weir_array *column = content->batch->columns[i];

		ipc_walk_array(walk, column, column->offset, column->length);
	}
}

/* Leaves room for nodes and buffers; gives their places. */
static void put_message(struct flat_builder *b, const struct content *content, const struct ipc_walk *measured,
			uint64_t *nodes, uint64_t *buffers)
{
	uint64_t message = flat_add_table(b, &layout_message, 15), parent = message, record;
	uint32_t link = MESSAGE_HEADER;

	flat_set(b, message, &layout_message, MESSAGE_VERSION, IPC_VERSION_5);
	flat_set(b, message, &layout_message, MESSAGE_HEADER_TYPE,
		 content->values ? HEADER_DICTIONARY : HEADER_RECORD_BATCH);
	flat_set(b, message, &layout_message, MESSAGE_BODY_LENGTH, (int64_t)measured->body_size);
	if (content->values) {
		parent = flat_add_table(b, &layout_dictionary, 7);
		flat_link(b, message, MESSAGE_HEADER, parent);
		flat_set(b, parent, &layout_dictionary, DICTIONARY_ID, content->dictionary_id);
		flat_set(b, parent, &layout_dictionary, DICTIONARY_IS_DELTA, content->is_delta);
		link = DICTIONARY_DATA;
	}
	record = flat_add_table(b, &layout_record, 7);
	flat_link(b, parent, link, record);
	flat_set(b, record, &layout_record, RECORD_LENGTH, content_length(content));
	*nodes = flat_add_vector(b, measured->node_count, sizeof(struct ipc_pair), 8);
	flat_link(b, record, RECORD_NODES, *nodes);
	*buffers = flat_add_vector(b, measured->buffer_count, sizeof(struct ipc_pair), 8);
	flat_link(b, record, RECORD_BUFFERS, *buffers);
}

static int content_measure(const struct content *content, struct ipc_walk *walk, struct weir_chunk_plan *out,
			   struct weir_error *err)
{
	struct flat_builder builder;
	uint64_t nodes, buffers, metadata_size;

	*walk = (struct ipc_walk){0};
	put_columns(walk, content);
	flat_begin(&builder, NULL, 0);
	put_message(&builder, content, walk, &nodes, &buffers);
	metadata_size = weir_round_up(IPC_PREFIX_SIZE + builder.size, IPC_ALIGN);
	if (metadata_size > INT32_MAX)
		return weir_error_set(err, WEIR_E_UNSUPPORTED,
				      "%u columns with their children do not fit into one Arrow message",
				      walk->node_count);
	*out = (struct weir_chunk_plan){.size = metadata_size + walk->body_size,
					.metadata_size = (uint32_t)metadata_size,
					.body_size = walk->body_size,
					.large = walk->large};
	out->large.offset += metadata_size;
	return WEIR_OK;
}

static int content_write(const struct content *content, const struct weir_chunk_plan *plan, uint8_t *out,
			 struct weir_error *err)
{
	uint32_t prefix[2] = {UINT32_MAX, plan->metadata_size - IPC_PREFIX_SIZE};
	struct weir_chunk_plan again;
	struct flat_builder builder;
	uint64_t nodes, buffers;
	struct ipc_walk measured, walk = {0};
	int code = content_measure(content, &measured, &again, err);

	if (code)
		return code;
	WEIR_ASSERT(again.size == plan->size && again.metadata_size == plan->metadata_size);
	memcpy(out, prefix, sizeof(prefix));
	flat_begin(&builder, out + IPC_PREFIX_SIZE, plan->metadata_size - IPC_PREFIX_SIZE);
	put_message(&builder, content, &measured, &nodes, &buffers);
	memset(out + IPC_PREFIX_SIZE + builder.size, 0, plan->metadata_size - IPC_PREFIX_SIZE - builder.size);
	walk.nodes = out + IPC_PREFIX_SIZE + nodes + 4;
	walk.buffers = out + IPC_PREFIX_SIZE + buffers + 4;
	walk.body = out + plan->metadata_size;
	put_columns(&walk, content);
	WEIR_ASSERT(walk.body_size == plan->body_size);
	return WEIR_OK;
}

int weir_chunk_measure(const struct weir_batch *batch, struct weir_chunk_plan *out, struct weir_error *err)
{
	struct content content = {.batch = batch};
	struct ipc_walk walk;

	return content_measure(&content, &walk, out, err);
}

int weir_chunk_write(const struct weir_batch *batch, const struct weir_chunk_plan *plan, uint8_t *out,
		     struct weir_error *err)
{
	struct content content = {.batch = batch};

	return content_write(&content, plan, out, err);
}

int weir_dictionary_measure(const struct weir_array *values, struct weir_chunk_plan *out, struct weir_error *err)
{
	struct content content = {.values = values};
	struct ipc_walk walk;

	return content_measure(&content, &walk, out, err);
}

int weir_dictionary_write(int64_t dictionary_id, bool is_delta, const struct weir_array *values,
			  const struct weir_chunk_plan *plan, uint8_t *out, struct weir_error *err)
{
	struct content content = {.values = values, .dictionary_id = dictionary_id, .is_delta = is_delta};

	return content_write(&content, plan, out, err);
}

uint32_t ipc_type_dictionaries(const struct weir_type *type)
{
	uint32_t count = 0;

	if (type->id == WEIR_DICTIONARY_TYPE)
		return 1 + ipc_type_dictionaries(type->dictionary_value);
	for (uint32_t i = 0; i < type->field_count; i++)
		count += ipc_type_dictionaries(type->fields[i].type);
	return count;
}

uint32_t weir_schema_dictionary_count(const struct weir_schema *schema)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < schema->field_count; i++)
		count += ipc_type_dictionaries(schema->fields[i].type);
	return count;
}

static struct weir_array **collect(const struct weir_array *array, struct weir_array **out)
{
	if (array->type->id == WEIR_DICTIONARY_TYPE) {
		*out++ = array->dictionary;
		return collect(array->dictionary, out);
	}
	for (uint32_t i = 0; i < array->child_count; i++)
		out = collect(array->children[i], out);
	return out;
}

void weir_batch_dictionaries(const struct weir_batch *batch, struct weir_array **out)
{
	for (uint32_t i = 0; i < batch->column_count; i++)
		out = collect(batch->columns[i], out);
}
