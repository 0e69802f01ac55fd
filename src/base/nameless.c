#include "base/nameless.h"

#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int weir_open_nameless(const char *folder)
{
	char name[4096];
	int fd;

	if (weir_fault(WEIR_FAULT_OPEN))
		return -1;
	fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd;
	/* Some network and overlay file systems have no O_TMPFILE. */
	if ((size_t)snprintf(name, sizeof(name), "%s/weir-XXXXXX", folder) >= sizeof(name)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(name, O_CLOEXEC);
	if (fd >= 0)
		unlink(name);
	return fd;
}
