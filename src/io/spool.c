/* A pipe put down in a file without a name, for formats that are not read from front to back (Parquet's footer is its
 * end). The file is in TMPDIR, else /var/tmp, and goes with its descriptor, whatever happens to the process. */
#include "base/fault.h"
#include "base/nameless.h"
#include "io/file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { PIECE = 256 << 10 };

static int put(int fd, const char *folder, const uint8_t *bytes, size_t size, uint64_t offset, struct weir_error *err)
{
	while (size > 0) {
		ssize_t n = weir_fault(WEIR_FAULT_WRITE) ? -1 : pwrite(fd, bytes, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return weir_error_set_errno(err, n < 0 ? errno : EIO,
						    "standard input does not fit %s (TMPDIR names another place)",
						    folder);
		bytes += n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return WEIR_OK;
}

int weir_file_spool(struct weir_account *account, struct weir_file *pipe, const _Atomic bool *cancelled,
		    struct weir_file **out, struct weir_error *err)
{
	const char *folder = getenv("TMPDIR") && *getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
	uint8_t *piece = weir_alloc(account, PIECE, err);
	uint64_t size = 0;
	size_t got = 1;
	int fd = piece ? weir_open_nameless(folder) : -1;
	int code = piece ? WEIR_OK : err->code;

	if (!code && fd < 0)
		code = weir_error_set_errno(err, errno, "cannot make a temporary file in %s to put standard input down",
					    folder);
	if (!code)
		code = weir_file_begin_pipe(pipe, cancelled, err);
	while (!code && got > 0) {
		code = weir_file_read_pipe(pipe, size, piece, PIECE, &got, err);
		if (!code)
			code = put(fd, folder, piece, got, size, err);
		size += got;
	}
	/* Nobody has moved its position: it is taken as an ordinary file. */
	if (!code)
		code = weir_file_open_pipe(account, fd, weir_file_path(pipe), out, err);
	if (fd >= 0)
		close(fd);
	weir_free(account, piece, PIECE);
	return code;
}
