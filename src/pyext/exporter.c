/* Memory that Python holds, both ways.
 *
 *     Arrow for Python                                     Python for Arrow
 *
 *     ndarray ─▶ Buffer ─▶ array ─▶ owner                  array ─▶ python_owner ─▶ Py_buffer ─▶ bytes, ndarray, …
 *                   └────▶ keeper                                        └────────▶ struct pyext_values
 *
 * A Buffer is read-only and keeps one array alive, and with it the owner of the chunk; when the last of them goes, the
 * owner's release runs, whatever else was accepted or freed meanwhile.
 *
 * A python_owner may lose its last reference on any thread, also while that thread holds locks for which a thread with
 * the GIL waits. So it never takes the GIL: it puts itself on a stack, and whoever next comes by with the GIL (every
 * end of a Batch, else a pending call of the interpreter) releases what is there.
 */
#include "pyext/values_impl.h"

#include <unistd.h>

struct buffer_object {
	PyObject_HEAD
	struct weir_array *array;
	struct api_keeper *keeper;
	const void *data;
	Py_ssize_t size;
	int64_t pid; /* values_pid */
};

int64_t values_pid(const struct pyext_values *v, const struct api_keeper *keeper)
{
	return keeper == &v->keeper ? 0 : (int64_t)getpid();
}

bool values_may_free(int64_t pid)
{
	return !pid || pyext_here(pid);
}

PyObject *exporter_new(struct pyext_values *v, const struct weir_array *array, struct api_keeper *keeper,
		       const void *data, Py_ssize_t size)
{
	struct buffer_object *self = PyObject_New(struct buffer_object, (PyTypeObject *)v->buffer_type);

	if (!self)
		return NULL;
	self->array = weir_array_ref(array);
	self->keeper = keeper;
	api_keeper_ref(keeper);
	self->data = data;
	self->size = size;
	self->pid = values_pid(v, keeper);
	return (PyObject *)self;
}

static void buffer_dealloc(PyObject *object)
{
	struct buffer_object *self = (struct buffer_object *)object;
	PyTypeObject *type = Py_TYPE(object);
	struct pyext_values *v = values_of_object(object);

	if (values_may_free(self->pid)) {
		weir_array_unref(self->array);
		api_keeper_unref(self->keeper);
	}
	PyObject_Free(self);
	if (v)
		values_drain(v);
	Py_DECREF(type);
}

static int buffer_get(PyObject *object, Py_buffer *view, int flags)
{
	struct buffer_object *self = (struct buffer_object *)object;

	return PyBuffer_FillInfo(view, object, (void *)self->data, self->size, 1, flags);
}

static Py_ssize_t buffer_length(PyObject *object)
{
	return ((struct buffer_object *)object)->size;
}

PyDoc_STRVAR(buffer_doc, "Read-only memory of one column; it lives as long as any array or memoryview over it.");

static PyType_Slot buffer_slots[] = {
	{Py_tp_dealloc, buffer_dealloc},
	{Py_bf_getbuffer, buffer_get},
	{Py_sq_length, buffer_length},
	{Py_tp_doc, (void *)buffer_doc},
	{0, NULL},
};

PyType_Spec buffer_spec = {
	.name = "weir._weir.Buffer",
	.basicsize = sizeof(struct buffer_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = buffer_slots,
};

/* ---- Python's memory under arrays ---- */

struct python_owner {
	struct weir_owner owner;
	struct python_owner *next;
	struct pyext_values *values;
	Py_buffer view;
};

void values_drain(struct pyext_values *v)
{
	struct python_owner *owner;

	/* relaxed: only to leave early. */
	if (!atomic_load_explicit(&v->dropped, memory_order_relaxed))
		return;
	/* acquire: what the releasing threads read of the memory happened before. */
	owner = atomic_exchange_explicit(&v->dropped, NULL, memory_order_acquire);
	while (owner) {
		struct python_owner *next = owner->next;

		PyBuffer_Release(&owner->view);
		weir_free(v->account, owner, sizeof(*owner));
		/* The struct goes with its last keeper, so this comes last. */
		api_keeper_unref(&v->keeper);
		owner = next;
	}
}

static int drain_later(void *arg)
{
	struct pyext_values *v = arg;

	values_drain(v);
	api_keeper_unref(&v->keeper);
	return 0;
}

static void python_owner_release(struct weir_owner *owner)
{
	struct python_owner *mine = (struct python_owner *)owner;
	struct pyext_values *v = mine->values;
	struct python_owner *head = atomic_load_explicit(&v->dropped, memory_order_relaxed);

	/* From here on another thread may drain the stack, and `mine` with it. */
	api_keeper_ref(&v->keeper);
	do
		mine->next = head;
	while (!atomic_compare_exchange_weak_explicit(&v->dropped, &head, mine, memory_order_release,
						      memory_order_relaxed));
	/* Where the queue of pending calls is full, or Python is gone, the next one with the GIL does it, or nobody
	 * needs to. */
	if (head || !Py_IsInitialized() || Py_AddPendingCall(drain_later, v))
		api_keeper_unref(&v->keeper);
}

/* A view refers to the array that it is of, and so on to the one that has the memory. */
bool pyext_owner_is_alone(const struct weir_owner *owner)
{
	PyObject *array, *base;
	Py_ssize_t refs = 1;

	if (owner->release != python_owner_release || atomic_load_explicit(&owner->refs, memory_order_acquire) != 1)
		return false;
	array = Py_XNewRef(((const struct python_owner *)owner)->view.obj);
	while (array && array != Py_None) {
		base = Py_REFCNT(array) == refs + 1 ? PyObject_GetAttrString(array, "base") : NULL;
		Py_DECREF(array);
		array = base;
	}
	PyErr_Clear(); /* what has no base is no array */
	Py_XDECREF(array);
	return array == Py_None;
}

void pyext_values_drain(PyObject *module)
{
	values_drain(values_of_module(module));
}

struct weir_owner *python_owner_buffer(struct pyext_values *v, Py_buffer *view)
{
	struct weir_error err = {0};
	struct python_owner *owner = weir_alloc(v->account, sizeof(*owner), &err);

	if (!owner) {
		PyBuffer_Release(view);
		values_raise(v, &err);
		return NULL;
	}
	atomic_init(&owner->owner.refs, 1);
	owner->owner.release = python_owner_release;
	owner->next = NULL;
	owner->values = v;
	owner->view = *view;
	api_keeper_ref(&v->keeper);
	return &owner->owner;
}

/* ---- owners that tell ---- */

struct telling_owner {
	struct weir_owner owner;
	struct pyext_values *values;
	void (*released)(void *arg);
	void *arg;
};

static void telling_owner_release(struct weir_owner *owner)
{
	struct telling_owner *mine = (struct telling_owner *)owner;
	struct pyext_values *v = mine->values;

	mine->released(mine->arg);
	weir_free(v->account, mine, sizeof(*mine));
	api_keeper_unref(&v->keeper);
}

struct weir_owner *pyext_owner_new(PyObject *module, void (*released)(void *arg), void *arg)
{
	struct pyext_values *v = values_of_module(module);
	struct weir_error err = {0};
	struct telling_owner *owner = weir_alloc(v->account, sizeof(*owner), &err);

	if (!owner) {
		values_raise(v, &err);
		return NULL;
	}
	atomic_init(&owner->owner.refs, 1);
	owner->owner.release = telling_owner_release;
	owner->values = v;
	owner->released = released;
	owner->arg = arg;
	api_keeper_ref(&v->keeper);
	return &owner->owner;
}
