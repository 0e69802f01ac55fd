/* A pipe or a terminal is opened once more for ourselves, not blocking (the opening we got is shared with others);
 * anything else takes PIPE_BUF bytes at a time after poll, a file all of them. */
#include "ops/write_stdout.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_MS = 100 }; /* how soon a cancellation is seen */

void weir_stdout_open(struct weir_stdout *out)
{
	struct stat status = {0};
	int fd = -1;

	*out = (struct weir_stdout){.fd = STDOUT_FILENO, .bytes_max = PIPE_BUF};
	if (fstat(STDOUT_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || isatty(STDOUT_FILENO)))
		fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0)
		*out = (struct weir_stdout){.is_own = true, .fd = fd};
	if (fd >= 0 || S_ISREG(status.st_mode))
		out->bytes_max = SSIZE_MAX;
}

void weir_stdout_close(struct weir_stdout *out)
{
	if (out->is_own)
		close(out->fd);
	out->is_own = false;
}

static int wait_for_room(const struct weir_stdout *out, const _Atomic bool *cancelled, struct weir_error *err)
{
	struct pollfd ready = {.fd = out->fd, .events = POLLOUT};

	while (poll(&ready, 1, LOOK_MS) <= 0) {
		/* relaxed: it only has to be seen some time soon */
		if (cancelled && atomic_load_explicit(cancelled, memory_order_relaxed))
			return weir_error_set(err, WEIR_E_CANCELLED, "cancelled while writing to standard output");
	}
	return WEIR_OK;
}

int weir_stdout_write(const struct weir_stdout *out, const void *bytes, uint64_t size, const _Atomic bool *cancelled,
		      struct weir_error *err)
{
	const char *p = bytes;

	while (size > 0) {
		int code = wait_for_room(out, cancelled, err);
		ssize_t n = code ? -1 : write(out->fd, p, size < out->bytes_max ? size : out->bytes_max);

		if (code)
			return code;
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return weir_error_set_errno(err, errno, "cannot write to standard output");
		p += n;
		size -= (uint64_t)n;
	}
	return WEIR_OK;
}
