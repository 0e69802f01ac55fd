#include "arrow/packed.h"

#include "base/checked.h"
#include "arrow/arrow_impl.h"
#include "arrow/ipc_impl.h"

struct head {
	int64_t row_count;
	uint32_t node_count, unused;
};

/* ---- writing ---- */

static void put_batch(struct ipc_walk *walk, const struct weir_batch *batch)
{
	for (uint32_t i = 0; i < batch->column_count; i++)
		ipc_walk_array(walk, batch->columns[i], batch->columns[i]->offset, batch->columns[i]->length);
}

void weir_packed_measure(const struct weir_batch *batch, struct weir_packed_plan *out)
{
	struct ipc_walk walk = {.is_packed = true};

	put_batch(&walk, batch);
	*out = (struct weir_packed_plan){.body = weir_round_up(sizeof(struct head) + walk.node_count, IPC_ALIGN_PACKED),
					 .node_count = walk.node_count};
	out->size = out->body + walk.body_size;
}

void weir_packed_write(const struct weir_batch *batch, const struct weir_packed_plan *plan, uint8_t *out)
{
	struct head head = {.row_count = batch->row_count, .node_count = plan->node_count};
	struct ipc_walk walk = {.is_packed = true, .nodes = out + sizeof(head), .body = out + plan->body};

	memcpy(out, &head, sizeof(head));
	memset(out + sizeof(head), 0, plan->body - sizeof(head));
	put_batch(&walk, batch);
	WEIR_ASSERT(plan->body + walk.body_size == plan->size);
}

/* ---- reading ---- */

struct reading {
	struct weir_account *account;
	const uint8_t *bytes;
	uint64_t size, at;
	uint32_t node, node_count;
};

static int refuse(const struct reading *reading, struct weir_error *err)
{
	return weir_error_set(err, WEIR_E_DATA, "packed rows of %llu bytes end inside a column",
			      (unsigned long long)reading->size);
}

/* The next `count` values of so many bytes. */
static int take(struct reading *reading, int64_t count, uint64_t width, struct weir_buffer *out, struct weir_error *err)
{
	uint64_t size;

	if (count < 0 || weir_mul_overflows((uint64_t)count, width, &size) ||
	    weir_range_outside(reading->at, size, reading->size))
		return refuse(reading, err);
	*out = (struct weir_buffer){.data = reading->bytes + reading->at, .size = size};
	reading->at += weir_round_up(size, IPC_ALIGN_PACKED);
	return WEIR_OK;
}

static int read_array(struct reading *reading, const struct weir_type *type, int64_t length, struct weir_array **out,
		      struct weir_error *err);

/* Offsets of `array`, which begin with 0; how far the last goes. */
static int read_offsets(struct reading *reading, struct weir_array *array, int64_t *end, struct weir_error *err)
{
	int code = take(reading, array->length + 1, type_offset_width(array->type), &array->buffers[1], err);

	*end = code ? 0 : offset_at(array, array->length);
	return code;
}

static int read_children(struct reading *reading, struct weir_array *array, struct weir_error *err)
{
	const struct weir_type *type = array->type;
	int64_t length = array->length;
	int code = WEIR_OK;

	if (type->id == WEIR_FIXED_LIST && weir_mul_overflows(length, (int64_t)type->list_size, &length))
		return refuse(reading, err);
	if (type_offset_width(type))
		code = read_offsets(reading, array, &length, err);
	for (uint32_t i = 0; i < type->field_count && !code; i++)
		code = read_array(reading, type->fields[i].type, length, &array->children[i], err);
	return code;
}

static int read_dictionary(struct reading *reading, struct weir_array *array, struct weir_error *err)
{
	struct weir_buffer buffer = {0};
	int64_t length;
	int code = take(reading, 1, sizeof(length), &buffer, err);

	if (code)
		return code;
	memcpy(&length, buffer.data, sizeof(length));
	return read_array(reading, array->type->dictionary_value, length, &array->dictionary, err);
}

static int read_buffers(struct reading *reading, struct weir_array *array, bool has_nulls, struct weir_error *err)
{
	const struct weir_type *type = array->type;
	int64_t length = array->length, end;
	int code = WEIR_OK;

	if (has_nulls && type->layout != WEIR_LAYOUT_NULL) {
		code = take(reading, (int64_t)weir_bits_size(length), 1, &array->buffers[0], err);
		array->null_count = code ? 0 : length - weir_bits_count(array->buffers[0].data, 0, length);
	}
	if (code)
		return code;
	switch (type->layout) {
	case WEIR_LAYOUT_NULL:
		array->null_count = length;
		break;
	case WEIR_LAYOUT_BITS:
		return take(reading, (int64_t)weir_bits_size(length), 1, &array->buffers[1], err);
	case WEIR_LAYOUT_FIXED:
		code = take(reading, length, type->byte_width, &array->buffers[1], err);
		return code || type->id != WEIR_DICTIONARY_TYPE ? code : read_dictionary(reading, array, err);
	case WEIR_LAYOUT_BYTES:
		code = read_offsets(reading, array, &end, err);
		return code ? code : take(reading, end, 1, &array->buffers[2], err);
	case WEIR_LAYOUT_NESTED:
		return read_children(reading, array, err);
	}
	return WEIR_OK;
}

static int read_array(struct reading *reading, const struct weir_type *type, int64_t length, struct weir_array **out,
		      struct weir_error *err)
{
	struct weir_array *array;
	int code;

	if (length < 0 || reading->node == reading->node_count)
		return refuse(reading, err);
	array = weir_array_new(reading->account, type, err);
	if (!array)
		return err->code;
	array->length = length;
	code = read_buffers(reading, array, reading->bytes[sizeof(struct head) + reading->node++], err);
	if (code)
		weir_array_unref(array);
	else
		*out = array;
	return code;
}

int weir_packed_open(struct weir_account *account, const struct weir_schema *schema, const uint8_t *bytes,
		     uint64_t size, struct weir_batch **out, struct weir_error *err)
{
	struct reading reading = {.account = account, .bytes = bytes, .size = size};
	size_t columns_size = (schema->field_count + 1) * sizeof(struct weir_array *);
	struct weir_array **columns;
	struct head head;
	uint32_t done = 0;
	int code = WEIR_OK;

	*out = NULL;
	if (size < sizeof(head))
		return refuse(&reading, err);
	memcpy(&head, bytes, sizeof(head));
	reading.node_count = head.node_count;
	reading.at = weir_round_up(sizeof(head) + (uint64_t)head.node_count, IPC_ALIGN_PACKED);
	if (reading.at > size || head.row_count < 0)
		return refuse(&reading, err);
	columns = weir_alloc(account, columns_size, err);
	if (!columns)
		return err->code;
	for (; done < schema->field_count && !code; done += !code)
		code = read_array(&reading, schema->fields[done].type, head.row_count, &columns[done], err);
	if (!code) {
		*out = weir_batch_new(account, schema, head.row_count, columns, err);
		code = *out ? WEIR_OK : err->code;
	}
	while (done > 0)
		weir_array_unref(columns[--done]);
	weir_free(account, columns, columns_size);
	return code;
}
