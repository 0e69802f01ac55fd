/* worker_end: a worker's death with its driver, and of what it has started. */
#ifndef WEIR_BACKEND_LOCAL_WORKER_END_H
#define WEIR_BACKEND_LOCAL_WORKER_END_H

#include "base/error.h"

/* The other end of the pipe `lifeline` is the driver's alone. When it hangs up, now or later, this process is killed,
 * and so is what it has started, even inside a long call. */
int weir_worker_end_with(int lifeline, struct weir_error *err);

#endif
