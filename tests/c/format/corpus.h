/* The files of a fuzz target's corpus, in memory, for tests that change their bytes. Those that are wrong on purpose
 * are named bad_…
 *
 *     corpus_load("tfrecord") ─▶ corpus_files[0 … corpus_count) ─▶ corpus_unload()
 */
#ifndef WEIR_TESTS_CORPUS_H
#define WEIR_TESTS_CORPUS_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CORPUS_FILES_MAX = 64, CORPUS_FILE_MAX = 64 << 10, CORPUS_FILES_MIN = 8 };

static struct {
	char name[64];
	uint8_t *bytes;
	size_t size;
} corpus_files[CORPUS_FILES_MAX];
static uint32_t corpus_count;

static inline int corpus_load(const char *target)
{
	struct dirent *entry;
	char path[512];
	DIR *dir;

	snprintf(path, sizeof(path), "tests/fuzz/corpus/%s", target);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)) && corpus_count < CORPUS_FILES_MAX) {
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "tests/fuzz/corpus/%s/%s", target, entry->d_name);
		file = fopen(path, "rb");
		assert_non_null(file);
		snprintf(corpus_files[corpus_count].name, sizeof(corpus_files[0].name), "%.60s", entry->d_name);
		corpus_files[corpus_count].bytes = malloc(CORPUS_FILE_MAX);
		corpus_files[corpus_count].size = fread(corpus_files[corpus_count].bytes, 1, CORPUS_FILE_MAX, file);
		corpus_count++;
		fclose(file);
	}
	closedir(dir);
	assert_true(corpus_count >= CORPUS_FILES_MIN);
	return 0;
}

static inline int corpus_unload(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < corpus_count; i++)
		free(corpus_files[i].bytes);
	corpus_count = 0;
	return 0;
}

static inline bool corpus_is_good(uint32_t i)
{
	return strncmp(corpus_files[i].name, "bad_", 4) != 0;
}

#endif
