/* values: Arrow batches as Python objects, and Python values as Arrow batches. What the rest of pyext needs of it.
 *
 * All functions want the GIL. Those that return an object or a batch return NULL with a Python exception set.
 */
#ifndef WEIR_PYEXT_VALUES_H
#define WEIR_PYEXT_VALUES_H

#include "arrow/array.h"
#include "pyext/pyext_impl.h"

/* Adds Batch, Buffer, batch_from_rows and the like to the module. Called once, before anything else here; 0 or −1. */
int pyext_add_values(PyObject *module);
/* For m_traverse and m_clear/m_free of the module. */
int pyext_values_visit(struct pyext_values *values, visitproc visit, void *arg);
void pyext_values_free(struct pyext_values *values);

/* A Batch over `batch`, whose reference is taken over, also on failure. `keeper` is referenced by the Batch and by
 * every view of its memory: whoever owns the account that pays for it (api_task_keeper); NULL: it is
 * pyext_values_account. */
PyObject *pyext_batch_new(PyObject *module, struct weir_batch *batch, struct api_keeper *keeper);
/* The batch inside a Batch, borrowed; TypeError for any other object. */
struct weir_batch *pyext_batch_get(PyObject *module, PyObject *object);
/* Who keeps the memory that the batch of a Batch lies in; borrowed. */
struct api_keeper *pyext_batch_keeper(PyObject *batch);
/* What pays for batches made of Python values. It may be used by any thread and never asks. */
struct weir_account *pyext_values_account(PyObject *module);

/* An owner for buffers that tells when the last view of them died: released(arg) runs once, on whichever thread let go,
 * without the GIL being needed. NULL with a Python exception. */
struct weir_owner *pyext_owner_new(PyObject *module, void (*released)(void *arg), void *arg);

/* Whether the owner is that of a NumPy array's memory, and the only one who refers to the array. */
bool pyext_owner_is_alone(const struct weir_owner *owner);
/* Gives back now what of Python's memory nobody refers to any more, and not some time soon. */
void pyext_values_drain(PyObject *module);

/* Python values as a batch: a list of mappings, a mapping of columns, anything with an Arrow interface (a list of
 * batches is appended to). */
struct weir_batch *pyext_batch_from_rows(PyObject *module, PyObject *rows);
struct weir_batch *pyext_batch_from_columns(PyObject *module, PyObject *columns);

#endif
