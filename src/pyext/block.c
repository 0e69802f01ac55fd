/* Block: rows that are kept, in the session's store, where they may be spilled, or in the program's memory. Any number
 * of flows read them. */
#include "base/mem.h"
#include "ops/blocks.h"
#include "pyext/pyext_impl.h"
#include "pyext/values.h"

#include <unistd.h>

struct block_object {
	PyObject_HEAD
	PyObject *session;
	struct weir_block *block;
	int64_t pid;
};

/* ---- keeping ---- */

/* Keeps a block, and with it the session, for arrays that lie in its chunk. */
struct block_keeper {
	struct api_keeper keeper; /* first */
	struct weir_block *block;
};

static void block_keeper_free(struct api_keeper *keeper)
{
	weir_block_unref(((struct block_keeper *)keeper)->block);
	weir_plain_free(keeper);
}

/* The reverse: what a block of a batch holds besides what the engine gave it to hold, the memory of its arrays. */
struct kept_rows {
	void (*release)(void *holder);
	void *holder;
	struct api_keeper *keeper;
};

static void kept_rows_release(void *holder)
{
	struct kept_rows *kept = holder;

	if (kept->release)
		kept->release(kept->holder);
	api_keeper_unref(kept->keeper);
	weir_plain_free(kept);
}

static int block_of_batch(PyObject *module, struct weir_session *session, PyObject *object, struct weir_block **out)
{
	struct weir_batch *batch = pyext_batch_get(module, object);
	struct kept_rows *kept = batch ? weir_plain_alloc(sizeof(*kept)) : NULL;
	struct weir_error err = {0};

	if (!kept) {
		if (batch)
			PyErr_NoMemory();
		return -1;
	}
	if (api_block_from_batch(session, batch, out, &err)) {
		weir_plain_free(kept);
		pyext_raise(module, &err);
		return -1;
	}
	*kept = (struct kept_rows){(*out)->release, (*out)->holder, pyext_batch_keeper(object)};
	api_keeper_ref(kept->keeper);
	(*out)->release = kept_rows_release;
	(*out)->holder = kept;
	return 0;
}

/* ---- reading blocks ---- */

/* A reference to the block of a Block or Batch; −1 with an exception. */
static int block_of(PyObject *module, struct flow_object *flow, PyObject *object, struct weir_block **out)
{
	if (Py_TYPE(object) != pyext_state_of(module)->block_type)
		return block_of_batch(module, ((struct session_object *)flow->session)->session, object, out);
	if (pyext_need_here(((struct block_object *)object)->pid, "Block"))
		return -1;
	*out = weir_block_ref(((struct block_object *)object)->block);
	return 0;
}

PyObject *pyext_flow_read_blocks(PyObject *object, PyObject *sequence)
{
	struct flow_object *self = (struct flow_object *)object;
	PyObject *module = pyext_module_of(object), *list, *done = NULL;
	struct weir_block **blocks;
	Py_ssize_t count, made = 0;

	if (pyext_flow_may_change(self))
		return NULL;
	list = PySequence_List(sequence);
	if (!list)
		return NULL;
	count = PyList_Size(list);
	blocks = PyMem_Calloc((size_t)count + 1, sizeof(*blocks));
	if (!blocks)
		PyErr_NoMemory();
	while (blocks && made < count && block_of(module, self, PyList_GetItem(list, made), &blocks[made]) == 0)
		made++;
	if (blocks && made == count)
		done = pyext_flow_stepped(self, api_flow_read_blocks(self->flow, blocks, (size_t)count));
	while (made > 0)
		weir_block_unref(blocks[--made]);
	PyMem_Free(blocks);
	Py_DECREF(list);
	return done;
}

/* ---- life ---- */

PyObject *pyext_block_new(PyObject *module, PyObject *session, struct weir_block *block)
{
	struct block_object *self = PyObject_New(struct block_object, pyext_state_of(module)->block_type);

	if (!self)
		return NULL;
	self->session = Py_NewRef(session);
	self->block = weir_block_ref(block);
	self->pid = (int64_t)getpid();
	return (PyObject *)self;
}

static void block_dealloc(PyObject *object)
{
	struct block_object *self = (struct block_object *)object;
	PyTypeObject *type = Py_TYPE(object);

	if (pyext_here(self->pid)) {
		Py_BEGIN_ALLOW_THREADS;
		weir_block_unref(self->block);
		Py_END_ALLOW_THREADS;
	}
	Py_DECREF(self->session);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* ---- looking ---- */

static PyObject *block_batch(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct block_object *self = (struct block_object *)object;
	PyObject *module = pyext_module_of(object), *made;
	struct weir_session *session = ((struct session_object *)self->session)->session;
	struct block_keeper *keeper;
	struct weir_error err = {0};
	struct weir_batch *batch = NULL;
	int code;

	if (pyext_need_here(self->pid, "Block"))
		return NULL;
	keeper = weir_plain_alloc(sizeof(*keeper));
	if (!keeper)
		return PyErr_NoMemory();
	atomic_init(&keeper->keeper.refs, 1);
	keeper->keeper.free = block_keeper_free;
	keeper->block = weir_block_ref(self->block);
	Py_BEGIN_ALLOW_THREADS; /* it may have to come back from disk */
	code = api_block_batch(session, self->block, &batch, &err);
	Py_END_ALLOW_THREADS;
	made = code ? pyext_raise(module, &err) : pyext_batch_new(module, batch, &keeper->keeper);
	api_keeper_unref(&keeper->keeper);
	return made;
}

static PyObject *block_schema(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct block_object *self = (struct block_object *)object;
	PyObject *empty, *schema;

	if (pyext_need_here(self->pid, "Block"))
		return NULL;
	empty = pyext_batch_of_schema(pyext_module_of(object), self->block->schema);
	schema = empty ? PyObject_CallMethod(empty, "schema", NULL) : NULL;
	Py_XDECREF(empty);
	return schema;
}

static PyObject *block_get_num_rows(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromLongLong(((struct block_object *)self)->block->row_count);
}

static PyObject *block_get_nbytes(PyObject *self, void *Py_UNUSED(closure))
{
	return PyLong_FromUnsignedLongLong(((struct block_object *)self)->block->bytes);
}

static PyObject *block_get_place(PyObject *self, void *Py_UNUSED(closure))
{
	const struct weir_block *block = ((struct block_object *)self)->block;

	return Py_BuildValue("(II)", (unsigned)block->split, (unsigned)block->split_chunk);
}

static PyMethodDef block_methods[] = {
	{"batch", block_batch, METH_NOARGS,
	 "batch($self)\n--\n\nIts rows; they stay in memory as long as the Batch lives."},
	{"schema", block_schema, METH_NOARGS, "schema($self)\n--\n\nAs Batch.schema."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef block_properties[] = {
	{"num_rows", block_get_num_rows, NULL, "Rows.", NULL},
	{"nbytes", block_get_nbytes, NULL, "Bytes, in memory or on disk.", NULL},
	{"place", block_get_place, NULL,
	 "Of which split of the run its rows were made, and of which of the split's chunks.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot block_slots[] = {
	{Py_tp_doc, "Rows that are kept by the engine, made by Task.blocks; readable any number of times."},
	{Py_tp_dealloc, block_dealloc},
	{Py_tp_methods, block_methods},
	{Py_tp_getset, block_properties},
	{0, NULL},
};

static PyType_Spec block_spec = {
	.name = "weir._weir.Block",
	.basicsize = sizeof(struct block_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = block_slots,
};

int pyext_add_block(PyObject *module)
{
	return pyext_add_type(module, &block_spec, &pyext_state_of(module)->block_type);
}
