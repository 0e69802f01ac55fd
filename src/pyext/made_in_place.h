/* made_in_place: results of user functions that are made where they have to lie.
 *
 *     room of a task   ┌────────┬──────────────────────────┬─────┐
 *                      │ header │ largest buffer: the slot │  …  │       laid out as the last output was
 *                      └────────┴──────────────────────────┴─────┘
 *
 * NumPy asks a handler for the memory of its arrays. While a task runs, one array gets the slot of the room: of those
 * that have just the size of the last output's largest buffer, row for row, the one that was the result then, by their
 * order. All others get what they always do. If that array is the result, and nobody else refers to it, it lies in its
 * place and is not copied. If it is anything else that still lives when something has to be written to the room, at the
 * end of the task or before a fork, its pages become this process's own, at the same address (weir_worker_side_keep):
 * user code never sees the difference. A function that does so a few times is not helped any more. The same happens
 * where the room turns out too small, and is given back for a larger one.
 *
 * One worker a process; under the GIL, in the thread that takes tasks. */
#ifndef WEIR_PYEXT_MADE_IN_PLACE_H
#define WEIR_PYEXT_MADE_IN_PLACE_H

#include "arrow/block.h"
#include "backend/local/worker_side.h"
#include "pyext/pyext_impl.h"

/* A task begins: the slot lies in its room, if it has one that is large enough. */
void made_in_place_begin(struct weir_worker_side *side, const struct weir_side_task *task);
/* The room is too small for the output, and is about to be given back for another: the array that lies in it leaves it
 * first. */
void made_in_place_leave(void);
/* An output that was measured is about to be written at `room`. Whatever of it is in the way is saved; true: rooms have
 * moved. The layout is kept for the next. */
bool made_in_place_output(const struct weir_batch *batch, const struct weir_block_plan *plan, const uint8_t *room);
/* The task is over: no array of it lies in its room any more. */
void made_in_place_end(PyObject *module);

#endif
