/* write_stdout: standard output as the target of a write. Whoever reads it may be slow, or stopped: a write must not
 * block past a cancellation. */
#ifndef WEIR_OPS_WRITE_STDOUT_H
#define WEIR_OPS_WRITE_STDOUT_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir_stdout {
	bool is_own; /* fd is our own opening of it */
	int fd;
	size_t bytes_max; /* a write */
};

void weir_stdout_open(struct weir_stdout *out);
void weir_stdout_close(struct weir_stdout *out); /* one that was never opened, too */
int weir_stdout_write(const struct weir_stdout *out, const void *bytes, uint64_t size, const _Atomic bool *cancelled,
		      struct weir_error *err);

#endif
