/* The tables of formats, by name, by extension and by first bytes. A new format is one line in each. */
#include "format/format.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const struct {
	const struct weir_format_ops *ops;
	const char *magic; /* NULL: none */
} formats[] = {
	{&weir_parquet_format, "PAR1"},
	{&weir_arrow_format, "ARROW1"},
	{&weir_arrow_format, "FEA1"},             /* Feather's first version: refused with a word about it */
	{&weir_arrow_format, "\xff\xff\xff\xff"}, /* a stream */
	{&weir_csv_format, NULL},
	{&weir_json_format, NULL},
};
enum { FORMAT_COUNT = sizeof(formats) / sizeof(formats[0]), MAGIC_MAX = 8 };

static const struct weir_writer_ops *const writers[] = {
	&weir_parquet_writer,
	&weir_csv_writer,
	&weir_jsonl_writer,
	&weir_arrow_writer,
	&weir_arrows_writer,
};
enum { WRITER_COUNT = sizeof(writers) / sizeof(writers[0]) };

/* Other names for the same. */
static const struct {
	const char *name, *format, *writer;
} aliases[] = {
	{"feather", "arrow", "arrow"},
	{"ipc", "arrow", "arrow"},
	{"arrows", "arrow", "arrows"},
	{"jsonl", "json", "jsonl"}, /* one reader for all layouts */
	{"ndjson", "json", "jsonl"},
};
enum { ALIAS_COUNT = sizeof(aliases) / sizeof(aliases[0]) };

static bool ends_with(const char *path, const char *end)
{
	size_t path_size = strlen(path), size = strlen(end);

	return path_size >= size && strcasecmp(path + path_size - size, end) == 0;
}

/* The extension decides; a file without one that is known is opened, and its first bytes do. A file that cannot be
 * opened has no format: whoever opens it to read will say why. */
const struct weir_format_ops *weir_format_for_path(const char *path)
{
	char first[MAGIC_MAX] = {0};
	ssize_t size;
	int fd;

	for (uint32_t i = 0; i < FORMAT_COUNT; i++)
		for (const char *const *extension = formats[i].ops->extensions; *extension; extension++)
			if (ends_with(path, *extension))
				return formats[i].ops;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return NULL;
	size = pread(fd, first, sizeof(first), 0);
	close(fd);
	for (uint32_t i = 0; i < FORMAT_COUNT && size > 0; i++)
		if (formats[i].magic && (size_t)size >= strlen(formats[i].magic) &&
		    memcmp(first, formats[i].magic, strlen(formats[i].magic)) == 0)
			return formats[i].ops;
	return NULL;
}

const struct weir_format_ops *weir_format_by_name(const char *name)
{
	for (uint32_t i = 0; i < ALIAS_COUNT; i++)
		if (strcmp(name, aliases[i].name) == 0)
			name = aliases[i].format;
	for (uint32_t i = 0; i < FORMAT_COUNT; i++)
		if (strcmp(name, formats[i].ops->name) == 0)
			return formats[i].ops;
	return NULL;
}

const struct weir_writer_ops *weir_writer_by_name(const char *name)
{
	for (uint32_t i = 0; i < ALIAS_COUNT; i++)
		if (strcmp(name, aliases[i].name) == 0)
			name = aliases[i].writer;
	for (uint32_t i = 0; i < WRITER_COUNT; i++)
		if (strcmp(name, writers[i]->name) == 0)
			return writers[i];
	return NULL;
}

const struct weir_writer_ops *weir_writer_for_extension(const char *extension)
{
	for (uint32_t i = 0; i < WRITER_COUNT; i++)
		if (strcasecmp(extension, writers[i]->extension) == 0)
			return writers[i];
	for (uint32_t i = 0; i < ALIAS_COUNT; i++)
		if (extension[0] == '.' && strcasecmp(extension + 1, aliases[i].name) == 0)
			return weir_writer_by_name(aliases[i].writer);
	return NULL;
}

const char *weir_writer_names(void)
{
	return "parquet, csv, jsonl, arrow, arrows";
}
