/* Shared: a batch's bytes for another process, and batches over such bytes.
 *
 *     driver    share(session, batch) ─▶ Shared: a chunk of the session's store, pinned ─ fileno, offset, size ─▶ a socket
 *     consumer  batch_open(fd, offset, size, held) ─▶ Batch over a private map of these pages
 *
 * The rows are copied once, into the store, where they are counted until close(); nothing goes through the socket but
 * the descriptor. `held` is a descriptor that is closed when the last view of the batch has died: the writing end of a
 * pipe, whose reader learns so that the bytes are no longer looked at, whatever becomes of the consumer. */
#include "base/mem.h"
#include "arrow/block.h"
#include "store/store.h"
#include "backend/backend.h"
#include "pyext/pyext_impl.h"
#include "pyext/values.h"

#include <sys/mman.h>
#include <unistd.h>

struct shared_object {
	PyObject_HEAD
	PyObject *session;
	struct weir_chunk *chunk; /* sealed and pinned by this; NULL: closed */
	int64_t pid;
};

/* ---- sharing ---- */

static int chunk_of_batch(struct weir_session *session, const struct weir_batch *batch, struct weir_chunk **out,
			  struct weir_error *err)
{
	struct weir_store *store;
	const uint8_t *pinned;
	int code = weir_session_store(session, &store, err);

	*out = NULL;
	if (!code)
		code = weir_chunk_of_batch(store, NULL, batch, out, err);
	if (code)
		return code;
	code = weir_chunk_pin(*out, &pinned, err);
	if (code) {
		weir_chunk_unref(*out);
		*out = NULL;
	}
	return code;
}

static PyObject *share_batch(PyObject *module, PyObject *args)
{
	struct pyext_state *state = pyext_state_of(module);
	PyObject *session, *given;
	struct shared_object *self;
	struct weir_error err = {0};
	struct weir_batch *batch;
	struct weir_chunk *chunk;
	int code;

	if (!PyArg_ParseTuple(args, "O!O:batch_share", state->session_type, &session, &given))
		return NULL;
	batch = pyext_batch_get(module, given);
	if (!batch || pyext_need_here(((struct session_object *)session)->pid, "Session"))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	code = chunk_of_batch(((struct session_object *)session)->session, batch, &chunk, &err);
	Py_END_ALLOW_THREADS;
	if (code)
		return pyext_raise(module, &err);
	self = PyObject_New(struct shared_object, state->shared_type);
	if (!self) {
		weir_chunk_unpin(chunk);
		weir_chunk_unref(chunk);
		return NULL;
	}
	self->session = Py_NewRef(session);
	self->chunk = chunk;
	self->pid = (int64_t)getpid();
	return (PyObject *)self;
}

static PyObject *shared_close(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct shared_object *self = (struct shared_object *)object;
	struct weir_chunk *chunk = self->chunk;

	self->chunk = NULL;
	if (chunk && pyext_here(self->pid)) {
		Py_BEGIN_ALLOW_THREADS;
		weir_chunk_unpin(chunk);
		weir_chunk_unref(chunk);
		Py_END_ALLOW_THREADS;
	}
	Py_RETURN_NONE;
}

static void shared_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	Py_XDECREF(shared_close(object, NULL));
	Py_DECREF(((struct shared_object *)object)->session);
	PyObject_Free(object);
	Py_DECREF(type);
}

static PyObject *shared_place(PyObject *object, PyObject *Py_UNUSED(unused))
{
	struct shared_object *self = (struct shared_object *)object;
	uint64_t offset;
	uint32_t region;
	int memfd;

	if (pyext_need_here(self->pid, "Shared"))
		return NULL;
	if (!self->chunk) {
		PyErr_SetString(PyExc_ValueError, "it is closed");
		return NULL;
	}
	weir_chunk_place(self->chunk, &region, &memfd, &offset);
	return Py_BuildValue("(IiKK)", (unsigned int)region, memfd, (unsigned long long)offset,
			     (unsigned long long)weir_chunk_size(self->chunk));
}

static PyMethodDef shared_methods[] = {
	{"place", shared_place, METH_NOARGS,
	 "place($self)\n--\n\nWhere it lies: number of the region, its descriptor (the session's own), offset and size."},
	{"close", shared_close, METH_NOARGS, "close($self)\n--\n\nNobody looks at it any more."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot shared_slots[] = {
	{Py_tp_doc, "Rows in shared memory, for another process; counted until close()."},
	{Py_tp_dealloc, shared_dealloc},
	{Py_tp_methods, shared_methods},
	{0, NULL},
};

static PyType_Spec shared_spec = {
	.name = "weir._weir.Shared",
	.basicsize = sizeof(struct shared_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = shared_slots,
};

/* ---- opening ---- */

struct opened {
	void *bytes;
	size_t size;
	int held; /* −1: none */
};

static void opened_free(void *arg)
{
	struct opened *opened = arg;

	if (opened->bytes)
		munmap(opened->bytes, opened->size);
	if (opened->held >= 0)
		close(opened->held);
	weir_plain_free(opened);
}

static PyObject *open_batch(PyObject *module, PyObject *args)
{
	struct weir_block_cache cache = {0};
	struct weir_error err = {0};
	struct weir_batch *batch = NULL;
	struct weir_owner *owner;
	struct opened *opened;
	unsigned long long offset, size;
	int fd, held = -1, code;
	void *bytes;

	if (!PyArg_ParseTuple(args, "iKK|i:batch_open", &fd, &offset, &size, &held))
		return NULL;
	opened = weir_plain_alloc(sizeof(*opened));
	if (!opened)
		return PyErr_NoMemory();
	*opened = (struct opened){.size = (size_t)size, .held = -1};
	owner = pyext_owner_new(module, opened_free, opened);
	if (!owner) {
		weir_plain_free(opened);
		return NULL;
	}
	bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, /* tidy-allow: the driver counts it */
		     (off_t)offset);
	if (bytes == MAP_FAILED) {
		PyErr_SetFromErrno(PyExc_OSError);
		weir_owner_unref(owner);
		return NULL;
	}
	opened->bytes = bytes;
	opened->held = held; /* taken over, from here on */
	Py_BEGIN_ALLOW_THREADS;
	/* What the driver wrote is trusted: its socket let this process in by a secret. */
	code = weir_block_open(pyext_values_account(module), &cache, bytes, size, owner, false, &batch, &err);
	weir_block_cache_release(&cache);
	weir_owner_unref(owner);
	Py_END_ALLOW_THREADS;
	return code ? pyext_raise(module, &err) : pyext_batch_new(module, batch, NULL);
}

static PyMethodDef functions[] = {
	{"batch_share", share_batch, METH_VARARGS,
	 "batch_share($module, session, batch, /)\n--\n\nA copy of the batch in the session's shared memory."},
	{"batch_open", open_batch, METH_VARARGS,
	 "batch_open($module, fd, offset, size, held=-1, /)\n--\n\nThe Batch that lies there. `held` is taken over, and closed when "
	 "the last view of it has died."},
	{NULL, NULL, 0, NULL},
};

int pyext_add_share(PyObject *module)
{
	if (pyext_add_type(module, &shared_spec, &pyext_state_of(module)->shared_type))
		return -1;
	return PyModule_AddFunctions(module, functions);
}
