/* NumPy's headers are not used, as anywhere here: its functions are found in the table that it gives to other
 * extensions, at places that stay what they are within one version of its ABI, and the two structs below are part of
 * that. */
#include "pyext/made_in_place.h"
#include "base/pagemap.h"
#include "pyext/values.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SLOT_MIN ((uint64_t)128 << 10) /* below this a copy costs less than the bookkeeping */
/* arrays that outlived their task before it is given up, and that live on at once */
#define KEPT_MAX 4u

enum { SEEN_MAX = 32 }; /* arrays of one size in a task, of which one is the result */

enum { NUMPY_FEATURE_VERSION = 211, NUMPY_SET_HANDLER = 304, NUMPY_GET_HANDLER = 305, NUMPY_1_22 = 0xf };

struct numpy_allocator {
	void *ctx;
	void *(*malloc)(void *ctx, size_t size);
	void *(*calloc)(void *ctx, size_t count, size_t size);
	void *(*realloc)(void *ctx, void *bytes, size_t size);
	void (*free)(void *ctx, void *bytes, size_t size);
};

struct numpy_handler {
	char name[127];
	uint8_t version;
	struct numpy_allocator allocator;
};

struct kept {
	uint8_t *bytes; /* NULL: it is gone */
	uint64_t size;
};

/* Of the process, as NumPy's handler is. */
static struct {
	bool is_installed, is_given_up;
	pthread_t thread;
	struct numpy_allocator usual;
	struct weir_worker_side *side;
	uint64_t rows;         /* of the task that runs */
	uint64_t row_size;     /* of the last output's largest buffer, for a row of its task; 0: there was none */
	uint64_t size, offset; /* of the slot */
	uint8_t *place;        /* of the slot of the task that runs; NULL: there is none */
	bool is_open;          /* no output has come yet */
	uint32_t turn;         /* which array of that size gets it, from 0: what was the result last time */
	uint32_t seen;         /* of that size in this task */
	const void *made[SEEN_MAX];
	bool is_used; /* by an array that lives */
	struct kept kept[KEPT_MAX];
	uint32_t kept_count; /* places in use, of arrays that live or are gone */
	uint32_t outlived;   /* arrays that were none of what their task gave, and lived on */
} slots;

/* ---- memory for arrays ---- */

static bool may_be_result(size_t size)
{
	return slots.is_open && size == slots.size && slots.seen < SEEN_MAX &&
	       pthread_equal(pthread_self(), slots.thread);
}

static void *slot_malloc(void *ctx, size_t size)
{
	void *bytes;

	(void)ctx;
	if (!may_be_result(size))
		return slots.usual.malloc(slots.usual.ctx, size);
	if (slots.seen == slots.turn && !slots.is_used) {
		slots.is_used = true;
		bytes = slots.place;
	} else {
		bytes = slots.usual.malloc(slots.usual.ctx, size);
	}
	slots.made[slots.seen++] = bytes;
	return bytes;
}

static void *slot_calloc(void *ctx, size_t count, size_t size)
{
	void *bytes;

	if (size && count == slots.size / size && may_be_result(count * size)) {
		bytes = slot_malloc(ctx, count * size);
		return bytes ? memset(bytes, 0, count * size) : NULL;
	}
	return slots.usual.calloc(slots.usual.ctx, count, size);
}

/* The pages of an array that outlived its task; false: it is another one. */
static bool free_kept(const uint8_t *bytes)
{
	for (uint32_t i = 0; i < slots.kept_count; i++) {
		struct kept *kept = &slots.kept[i];
		uint64_t before = (uintptr_t)bytes % WEIR_PAGE;

		if (kept->bytes != bytes)
			continue;
		munmap(kept->bytes - before, kept->size + before);
		kept->bytes = NULL;
		return true;
	}
	return false;
}

static void slot_free(void *ctx, void *bytes, size_t size)
{
	(void)ctx;
	if (bytes && bytes == slots.place && slots.is_used)
		slots.is_used = false;
	else if (!slots.kept_count || !free_kept(bytes))
		slots.usual.free(slots.usual.ctx, bytes, size);
}

static uint64_t size_in_slots(const uint8_t *bytes)
{
	if (bytes && bytes == slots.place && slots.is_used)
		return slots.size;
	for (uint32_t i = 0; i < slots.kept_count; i++)
		if (bytes && slots.kept[i].bytes == bytes)
			return slots.kept[i].size;
	return 0;
}

static void *slot_realloc(void *ctx, void *bytes, size_t size)
{
	uint64_t had = size_in_slots(bytes);
	void *moved;

	if (!had)
		return slots.usual.realloc(slots.usual.ctx, bytes, size);
	moved = slots.usual.malloc(slots.usual.ctx, size);
	if (!moved)
		return NULL;
	memcpy(moved, bytes, had < size ? had : size);
	slot_free(ctx, bytes, had);
	return moved;
}

/* ---- arrays that live on ---- */

/* Where the next array that lives on is noted; KEPT_MAX: all places are taken. */
static uint32_t place_for_kept(void)
{
	uint32_t i = 0;

	while (i < slots.kept_count && slots.kept[i].bytes)
		i++;
	return i;
}

/* The array in the slot becomes one like any other. */
static void keep(void)
{
	struct weir_error err = {0};
	uint32_t i = place_for_kept();

	if (!slots.is_used)
		return;
	WEIR_ASSERT(i < KEPT_MAX);
	if (weir_worker_side_keep(slots.side, slots.place, slots.size, &err)) {
		fprintf(stderr, "weir: %s\n", err.message);
		abort(); /* what somebody holds would change under him; the batch runs again elsewhere */
	}
	slots.kept[i] = (struct kept){slots.place, slots.size};
	slots.kept_count = i < slots.kept_count ? slots.kept_count : i + 1;
	slots.is_open = slots.is_used = false;
	slots.place = NULL;
}

static void keep_outlived(void)
{
	slots.outlived += slots.is_used;
	slots.is_given_up = slots.is_given_up || slots.outlived == KEPT_MAX;
	keep();
}

/* A child writes to its own copy of what it finds, which pages of the room would not be. Another thread's child has no
 * business with what this one is making. */
static void keep_before_fork(void)
{
	if (pthread_equal(pthread_self(), slots.thread))
		keep();
}

/* The room is the parent's. */
static void leave_in_child(void)
{
	slots.is_open = false;
	slots.is_given_up = true;
}

/* ---- NumPy ---- */

static struct numpy_handler handler = {
	.name = "weir",
	.version = 1,
	.allocator = {.malloc = slot_malloc, .calloc = slot_calloc, .realloc = slot_realloc, .free = slot_free},
};

static void **numpy_table(void)
{
	static const char *const modules[] = {"numpy._core._multiarray_umath", "numpy.core._multiarray_umath"};
	PyObject *loaded = PyImport_GetModuleDict(), *capsule = NULL;
	void **table = NULL;

	for (int i = 0; loaded && !capsule && i < 2; i++) {
		PyObject *module = PyDict_GetItemString(loaded, modules[i]);

		capsule = module ? PyObject_GetAttrString(module, "_ARRAY_API") : NULL;
	}
	if (capsule)
		table = PyCapsule_GetPointer(capsule, NULL);
	Py_XDECREF(capsule); /* the module has its own reference */
	return table;
}

/* From here on NumPy asks here first. A NumPy that cannot be asked is left as it is. */
static void install(void)
{
	void **table = numpy_table();
	const struct numpy_handler *usual = NULL;
	PyObject *capsule, *before;

	slots.is_installed = true;
	slots.is_given_up = true;
	if (table && ((unsigned (*)(void))table[NUMPY_FEATURE_VERSION])() >= NUMPY_1_22) {
		before = ((PyObject * (*)(void)) table[NUMPY_GET_HANDLER])();
		usual = before ? PyCapsule_GetPointer(before, "mem_handler") : NULL;
		Py_XDECREF(before);
	}
	if (usual && !pthread_atfork(keep_before_fork, NULL, leave_in_child)) {
		slots.usual = usual->allocator;
		slots.thread = pthread_self();
		capsule = PyCapsule_New(&handler, "mem_handler", NULL);
		before = capsule ? ((PyObject * (*)(PyObject *)) table[NUMPY_SET_HANDLER])(capsule) : NULL;
		slots.is_given_up = before == NULL;
		Py_XDECREF(capsule);
		Py_XDECREF(before);
	}
	PyErr_Clear();
}

/* ---- results ---- */

static const struct weir_buffer *buffer_at(const struct weir_array *array, const uint8_t *bytes)
{
	const struct weir_buffer *found = NULL;

	for (int i = 0; i < 3; i++)
		if (array->buffers[i].data == bytes)
			return &array->buffers[i];
	for (uint32_t i = 0; !found && i < array->child_count; i++)
		found = buffer_at(array->children[i], bytes);
	return found;
}

static bool is_the_batchs_alone(const struct weir_batch *batch, const uint8_t *bytes)
{
	const struct weir_buffer *found = NULL;

	for (uint32_t i = 0; !found && i < batch->column_count; i++)
		found = buffer_at(batch->columns[i], bytes);
	return found && found->owner && pyext_owner_is_alone(found->owner);
}

void made_in_place_begin(struct weir_worker_side *side, const struct weir_side_task *task)
{
	uint8_t *room;

	slots.side = side;
	slots.rows = 0;
	for (uint32_t i = 0; i < task->part_count; i++)
		slots.rows += task->parts[i]->row_count;
	slots.size = slots.rows * slots.row_size;
	if (!slots.is_installed || slots.is_given_up || slots.size < SLOT_MIN || place_for_kept() == KEPT_MAX ||
	    weir_worker_side_left(task, &room) < slots.offset + slots.size)
		return;
	slots.place = room + slots.offset;
	slots.is_open = true;
	slots.seen = 0;
}

void made_in_place_leave(void)
{
	keep();
	slots.is_open = false;
}

bool made_in_place_output(const struct weir_batch *batch, const struct weir_block_plan *plan, const uint8_t *room)
{
	bool moved = slots.is_used && !(plan->large.bytes == slots.place && room + plan->large.offset == slots.place &&
					is_the_batchs_alone(batch, slots.place));

	if (moved)
		keep_outlived();
	slots.is_open = false; /* the next output lies elsewhere */
	for (uint32_t i = slots.seen; i-- > 0;)
		if (slots.made[i] == plan->large.bytes) {
			slots.turn = i;
			break;
		}
	slots.row_size = slots.rows && plan->large.size % slots.rows == 0 ? plan->large.size / slots.rows : 0;
	slots.offset = plan->large.offset;
	if (!slots.is_installed && slots.row_size && plan->large.size >= SLOT_MIN)
		install();
	return moved;
}

void made_in_place_end(PyObject *module)
{
	pyext_values_drain(module);
	keep_outlived();
	slots.is_open = false;
	slots.place = NULL;
}
