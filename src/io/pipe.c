#include "io/pipe.h"

#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
	WATCH_MS = 100, /* how long a cancelled run waits for a silent pipe */
	HEAD_STEP = 64 << 10,
	KERNEL_BUFFER = 1 << 20, /* asked for; the system may give less */
};

struct weir_pipe {
	struct weir_account *account;
	int fd;
	char *head;
	size_t head_size, head_capacity;
	bool ended, begun;
	uint64_t next;
	const _Atomic bool *cancelled;
};

int weir_pipe_new(struct weir_account *account, int fd, struct weir_pipe **out, struct weir_error *err)
{
	struct weir_pipe *pipe = weir_alloc_zero(account, sizeof(*pipe), err);

	*out = pipe;
	if (!pipe) {
		close(fd);
		return err->code;
	}
	pipe->account = account;
	pipe->fd = fd;
	(void)fcntl(fd, F_SETPIPE_SZ, KERNEL_BUFFER); /* fewer switches between writer and reader, if it may be had */
	return WEIR_OK;
}

static void drop_head(struct weir_pipe *pipe)
{
	weir_free(pipe->account, pipe->head, pipe->head_capacity);
	pipe->head = NULL;
	pipe->head_capacity = 0;
}

void weir_pipe_free(struct weir_pipe *pipe)
{
	if (!pipe)
		return;
	drop_head(pipe);
	close(pipe->fd);
	weir_free(pipe->account, pipe, sizeof(*pipe));
}

/* 1 to `size` bytes from the system; 0 at the end. */
static int pull(struct weir_pipe *pipe, void *buffer, size_t size, size_t *got, struct weir_error *err)
{
	*got = 0;
	while (!pipe->ended) {
		struct pollfd ready = {.fd = pipe->fd, .events = POLLIN};
		ssize_t n;

		/* relaxed: nothing but the flag itself is passed on */
		if (pipe->cancelled && atomic_load_explicit(pipe->cancelled, memory_order_relaxed))
			return weir_error_set(err, WEIR_E_CANCELLED, "the run was cancelled");
		n = poll(&ready, 1, pipe->cancelled ? WATCH_MS : -1);
		if (n == 0 || (n < 0 && errno == EINTR))
			continue;
		n = weir_fault(WEIR_FAULT_READ) ? -1 : read(pipe->fd, buffer, size);
		if (n > 0) {
			*got = (size_t)n;
			return WEIR_OK;
		}
		if (n == 0)
			pipe->ended = true;
		else if (errno != EINTR && errno != EAGAIN)
			return weir_error_set_errno(err, errno, "cannot read it");
	}
	return WEIR_OK;
}

/* One more piece behind the head. */
static int keep(struct weir_pipe *pipe, struct weir_error *err)
{
	size_t got;
	int code;

	if (pipe->head_size == pipe->head_capacity) {
		size_t capacity = pipe->head_capacity ? pipe->head_capacity * 2 : HEAD_STEP;
		char *head;

		if (pipe->head_size >= WEIR_PIPE_HEAD_MAX)
			return weir_error_set(err, WEIR_E_UNSUPPORTED,
					      "types cannot be found from more than the first %zu MiB of a pipe: give "
					      "them (--types), or read from a file",
					      WEIR_PIPE_HEAD_MAX >> 20);
		head = weir_realloc(pipe->account, pipe->head, pipe->head_capacity, capacity, err);
		if (!head)
			return err->code;
		pipe->head = head;
		pipe->head_capacity = capacity;
	}
	code = pull(pipe, pipe->head + pipe->head_size, pipe->head_capacity - pipe->head_size, &got, err);
	pipe->head_size += got;
	return code;
}

static int fail_twice(struct weir_error *err)
{
	return weir_error_set(err, WEIR_E_UNSUPPORTED, "a pipe can be read only once");
}

int weir_pipe_head(struct weir_pipe *pipe, size_t want, const void **bytes, size_t *got, struct weir_error *err)
{
	int code = WEIR_OK;

	*got = 0;
	if (pipe->begun)
		return fail_twice(err);
	while (!code && pipe->head_size < want && !pipe->ended)
		code = keep(pipe, err);
	*bytes = pipe->head;
	*got = pipe->head_size < want ? pipe->head_size : want;
	return code;
}

void weir_pipe_watch(struct weir_pipe *pipe, const _Atomic bool *cancelled)
{
	pipe->cancelled = cancelled;
}

int weir_pipe_begin(struct weir_pipe *pipe, const _Atomic bool *cancelled, struct weir_error *err)
{
	if (pipe->next)
		return fail_twice(err);
	pipe->begun = true;
	pipe->cancelled = cancelled;
	return WEIR_OK;
}

int weir_pipe_read(struct weir_pipe *pipe, uint64_t position, void *buffer, size_t size, size_t *got,
		   struct weir_error *err)
{
	int code = WEIR_OK;

	*got = 0;
	if (pipe->begun ? position != pipe->next : position > pipe->head_size)
		return fail_twice(err);
	if (!pipe->begun && position == pipe->head_size)
		code = keep(pipe, err);
	if (position < pipe->head_size) {
		*got = pipe->head_size - (size_t)position;
		*got = *got < size ? *got : size;
		memcpy(buffer, pipe->head + position, *got);
	} else if (pipe->begun) {
		drop_head(pipe);
		code = pull(pipe, buffer, size, got, err);
	}
	if (pipe->begun)
		pipe->next += *got;
	return code;
}
