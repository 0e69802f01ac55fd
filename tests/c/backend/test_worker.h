/* The test worker: where it is and what it is told (test_worker.c). Include cmocka first. */
#ifndef WEIR_TESTS_BACKEND_TEST_WORKER_H
#define WEIR_TESTS_BACKEND_TEST_WORKER_H

#include "backend/local/launcher.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Beside this program. */
static inline const char *beside(const char *name)
{
	static char path[PATH_MAX + 64];
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	assert_true(length > 0);
	self[length] = 0;
	snprintf(path, sizeof(path), "%s/backend/%s", dirname(self), name);
	return path;
}

/* Starts the test worker; lives as long as the program. */
static inline const struct weir_launcher *test_launcher(void)
{
	static const char *argv[2];
	static struct weir_spawner spawner;

	if (!argv[0]) {
		argv[0] = strdup(beside("test_worker"));
		weir_spawner_init(&spawner, argv);
	}
	return &spawner.launcher;
}

/* What the test worker is to do. */
static inline int setup_of(const char *text)
{
	int fd = memfd_create("setup", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

#endif
