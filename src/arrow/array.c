/* Buffers, arrays and batches: who keeps what alive.
 *
 *     batch ──▶ array ──▶ type
 *                 ├─────▶ children, dictionary
 *                 └─────▶ buffer: pointer, size ──▶ owner: memory of an account | chunk | page | foreign array
 *
 * An array or batch and the table of its children are one allocation.
 */
#include "arrow/array.h"

#include "base/checked.h"
#include "arrow/arrow_impl.h"

const uint8_t array_zeros[64] __attribute__((aligned(64))) = {0};

/* The owner of memory from an account. Small buffers lie right behind it, on the next 64 bytes; large ones are apart,
 * so that they fit the frames' sizes. */
struct memory_owner {
	struct weir_owner owner;
	struct weir_account *account;
	void *memory; /* NULL: behind this struct */
	size_t size;
};

enum { OWNER_SIZE = 64, TOGETHER_MAX = 4096 };
_Static_assert(sizeof(struct memory_owner) <= OWNER_SIZE, "the owner must fit in front of its bytes");

static void memory_owner_release(struct weir_owner *owner)
{
	struct memory_owner *mine = (struct memory_owner *)owner;

	if (mine->memory) {
		weir_free(mine->account, mine->memory, mine->size);
		weir_free(mine->account, mine, sizeof(*mine));
	} else {
		weir_free(mine->account, mine, OWNER_SIZE + mine->size);
	}
}

static void memory_owner_init(struct memory_owner *owner, struct weir_account *account, void *memory, size_t size)
{
	atomic_init(&owner->owner.refs, 1);
	owner->owner.release = memory_owner_release;
	owner->account = account;
	owner->memory = memory;
	owner->size = size;
}

int weir_buffer_adopt(struct weir_account *account, void *memory, size_t capacity, uint64_t size,
		      struct weir_buffer *out, struct weir_error *err)
{
	struct memory_owner *owner = weir_alloc(account, sizeof(*owner), err);

	WEIR_ASSERT(capacity >= 64 && capacity % 64 == 0 && size <= capacity);
	*out = (struct weir_buffer){0};
	if (!owner) {
		weir_free(account, memory, capacity);
		return err->code;
	}
	memory_owner_init(owner, account, memory, capacity);
	memset((uint8_t *)memory + size, 0, weir_round_up(size, 64) - size);
	*out = (struct weir_buffer){.data = memory, .size = size, .owner = &owner->owner};
	return WEIR_OK;
}

int weir_buffer_new(struct weir_account *account, uint64_t size, struct weir_buffer *out, uint8_t **writable,
		    struct weir_error *err)
{
	struct memory_owner *owner;
	size_t capacity;
	uint8_t *data;

	*out = (struct weir_buffer){0};
	*writable = NULL;
	if (size > (uint64_t)PTRDIFF_MAX - 2 * OWNER_SIZE)
		return weir_error_set(err, WEIR_E_MEMORY, "a buffer of %llu bytes cannot exist",
				      (unsigned long long)size);
	capacity = size ? weir_round_up(size, 64) : 64;
	if (capacity > TOGETHER_MAX) {
		data = weir_alloc(account, capacity, err);
		if (!data || weir_buffer_adopt(account, data, capacity, size, out, err))
			return err->code;
		*writable = data;
		return WEIR_OK;
	}
	owner = weir_alloc(account, OWNER_SIZE + capacity, err);
	if (!owner)
		return err->code;
	memory_owner_init(owner, account, NULL, capacity);
	data = (uint8_t *)owner + OWNER_SIZE;
	memset(data + size, 0, capacity - size);
	*out = (struct weir_buffer){.data = data, .size = size, .owner = &owner->owner};
	*writable = data;
	return WEIR_OK;
}

void weir_buffer_release(struct weir_buffer *buffer)
{
	weir_owner_unref(buffer->owner);
	*buffer = (struct weir_buffer){0};
}

struct weir_array *weir_array_new(struct weir_account *account, const struct weir_type *type, struct weir_error *err)
{
	size_t size = sizeof(struct weir_array) + type->field_count * sizeof(struct weir_array *);
	struct weir_array *array = weir_alloc_zero(account, size, err);

	if (!array)
		return NULL;
	array->type = weir_type_ref(type);
	array->child_count = type->field_count;
	array->children = (struct weir_array **)(array + 1);
	array->account = account;
	atomic_init(&array->refs, 1);
	return array;
}

struct weir_array *weir_array_ref(const struct weir_array *array)
{
	struct weir_array *mine = (struct weir_array *)array;

	if (mine)
		/* relaxed: whoever refers to it has it from someone who still holds it. */
		atomic_fetch_add_explicit(&mine->refs, 1, memory_order_relaxed);
	return mine;
}

void weir_array_unref(const struct weir_array *array)
{
	struct weir_array *mine = (struct weir_array *)array;

	/* acq_rel: the last one must see what the others read and wrote before they let go. */
	if (!mine || atomic_fetch_sub_explicit(&mine->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (int i = 0; i < 3; i++)
		weir_buffer_release(&mine->buffers[i]);
	for (uint32_t i = 0; i < mine->child_count; i++)
		weir_array_unref(mine->children[i]);
	weir_array_unref(mine->dictionary);
	weir_type_unref(mine->type);
	weir_free(mine->account, mine, sizeof(*mine) + mine->child_count * sizeof(struct weir_array *));
}

int64_t weir_array_null_count(const struct weir_array *array)
{
	if (array->type->layout == WEIR_LAYOUT_NULL)
		return array->length;
	if (!array->buffers[0].data)
		return 0;
	if (array->null_count >= 0)
		return array->null_count;
	return array->length - weir_bits_count(array->buffers[0].data, array->offset, array->length);
}

bool weir_array_is_valid(const struct weir_array *array, int64_t row)
{
	WEIR_ASSERT(row >= 0 && row < array->length);
	if (array->type->layout == WEIR_LAYOUT_NULL)
		return false;
	return !array->buffers[0].data || weir_bit_get(array->buffers[0].data, array->offset + row);
}

struct weir_batch *weir_batch_new(struct weir_account *account, const struct weir_schema *schema, int64_t row_count,
				  struct weir_array *const *columns, struct weir_error *err)
{
	struct weir_batch *batch;

	for (uint32_t i = 0; i < schema->field_count; i++)
		WEIR_ASSERT(columns[i]->length == row_count);
	batch = weir_alloc_zero(account, sizeof(*batch) + schema->field_count * sizeof(struct weir_array *), err);
	if (!batch)
		return NULL;
	batch->schema = weir_schema_ref(schema);
	batch->row_count = row_count;
	batch->column_count = schema->field_count;
	batch->columns = (struct weir_array **)(batch + 1);
	batch->account = account;
	atomic_init(&batch->refs, 1);
	for (uint32_t i = 0; i < batch->column_count; i++)
		batch->columns[i] = weir_array_ref(columns[i]);
	return batch;
}

struct weir_batch *weir_batch_ref(const struct weir_batch *batch)
{
	struct weir_batch *mine = (struct weir_batch *)batch;

	if (mine)
		atomic_fetch_add_explicit(&mine->refs, 1, memory_order_relaxed);
	return mine;
}

void weir_batch_unref(const struct weir_batch *batch)
{
	struct weir_batch *mine = (struct weir_batch *)batch;

	/* acq_rel: as for arrays. */
	if (!mine || atomic_fetch_sub_explicit(&mine->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (uint32_t i = 0; i < mine->column_count; i++)
		weir_array_unref(mine->columns[i]);
	weir_schema_unref(mine->schema);
	weir_free(mine->account, mine, sizeof(*mine) + mine->column_count * sizeof(struct weir_array *));
}
