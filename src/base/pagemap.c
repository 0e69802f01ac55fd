#include "base/pagemap.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define PAGEMAP_FILE ((uint64_t)1 << 61)
#define PAGEMAP_THERE ((uint64_t)3 << 62) /* in memory or swapped out */

int64_t weir_page_fault_count(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_SELF, &usage) ? -1 : usage.ru_minflt;
}

int weir_pagemap_open(void)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), above = fd;

	if (fd >= 0 && fd <= STDERR_FILENO) { /* a program may have closed those, and somebody will write there */
		above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		close(fd);
	}
	return above;
}

bool weir_pagemap_has_copies(int pagemap, const void *bytes, uint64_t size)
{
	uint64_t entries[512], page = (uintptr_t)bytes / WEIR_PAGE, pages = (size + WEIR_PAGE - 1) / WEIR_PAGE;

	if (pagemap < 0)
		return true;
	while (pages > 0) {
		uint64_t n = pages < 512 ? pages : 512;

		if (pread(pagemap, entries, n * sizeof(*entries), (off_t)(page * sizeof(*entries))) !=
		    (ssize_t)(n * sizeof(*entries)))
			return true;
		for (uint64_t i = 0; i < n; i++)
			if (entries[i] & PAGEMAP_THERE && !(entries[i] & PAGEMAP_FILE))
				return true;
		page += n;
		pages -= n;
	}
	return false;
}
