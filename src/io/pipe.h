/* pipe: what stands behind a struct weir_file that is no file: bytes that come once, in order (standard input).
 *
 *     kept while looked at            gone once read
 *     ├──── head ────┤┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▶
 *     0              head_size      next: where the one stream stands
 *
 * Before weir_pipe_begin everything that is read is kept (at most WEIR_PIPE_HEAD_MAX bytes), so that any number of
 * streams may look at the front, each from byte 0. After it one stream reads the head and then the pipe, and the head
 * is freed when it is through.
 *
 * Threads: one at a time.
 */
#ifndef WEIR_IO_PIPE_H
#define WEIR_IO_PIPE_H

#include "base/mem.h"

#define WEIR_PIPE_HEAD_MAX ((size_t)16 << 20)

struct weir_pipe;

/* `fd` is consumed, on failure too. */
int weir_pipe_new(struct weir_account *account, int fd, struct weir_pipe **out, struct weir_error *err);
void weir_pipe_free(struct weir_pipe *pipe);
int weir_pipe_head(struct weir_pipe *pipe, size_t want, const void **bytes, size_t *got, struct weir_error *err);
void weir_pipe_watch(struct weir_pipe *pipe, const _Atomic bool *cancelled);
int weir_pipe_begin(struct weir_pipe *pipe, const _Atomic bool *cancelled, struct weir_error *err);
int weir_pipe_read(struct weir_pipe *pipe, uint64_t position, void *buffer, size_t size, size_t *got,
		   struct weir_error *err);

#endif
