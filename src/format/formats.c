/* The tables of formats, by name, by extension and by first bytes. A new format is one line in each. */
#include "io/stream.h"
#include "format/format.h"

#include <fcntl.h>
#include <stdio.h>
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
	{&weir_lines_format, NULL},
	{&weir_tfrecord_format, NULL},
	{&weir_webdataset_format, NULL},
	{&weir_binary_format, NULL},
};
enum { FORMAT_COUNT = sizeof(formats) / sizeof(formats[0]) };

static const struct weir_writer_ops *const writers[] = {
	&weir_parquet_writer, &weir_csv_writer,    &weir_jsonl_writer,    &weir_json_writer,
	&weir_arrow_writer,   &weir_arrows_writer, &weir_tfrecord_writer,
};
enum { WRITER_COUNT = sizeof(writers) / sizeof(writers[0]) };

/* Other names for the same. */
static const struct {
	const char *name, *format, *writer;
} aliases[] = {
	{"feather", "arrow", "arrow"}, {"ipc", "arrow", "arrow"},
	{"arrows", "arrow", "arrows"}, {"jsonl", "json", "jsonl"}, /* one reader for all layouts */
	{"ndjson", "json", "jsonl"},   {"tfrecords", "tfrecord", "tfrecord"},
};
enum { ALIAS_COUNT = sizeof(aliases) / sizeof(aliases[0]) };

static bool has_option(const struct weir_format_ops *format, const char *name)
{
	size_t length = strlen(name);

	for (const char *const *option = format->option_names; option && *option; option++)
		if (strncmp(*option, name, length) == 0 && ((*option)[length] == '=' || (*option)[length] == 0))
			return true;
	return false;
}

bool weir_format_is_streamed(const struct weir_format_ops *format)
{
	return format->streamed || format->infer || has_option(format, "compression");
}

/* A format with several magics has several lines, one after another. */
static bool is_first(uint32_t i)
{
	return i == 0 || formats[i].ops != formats[i - 1].ops;
}

const struct weir_format_ops *weir_format_at(uint32_t n)
{
	for (uint32_t i = 0; i < FORMAT_COUNT; i++)
		if (is_first(i) && n-- == 0)
			return formats[i].ops;
	return NULL;
}

const char *weir_format_names(const char *option, char *buffer, size_t size)
{
	size_t used = 0;

	buffer[0] = 0;
	for (uint32_t i = 0; i < FORMAT_COUNT && used < size; i++)
		if (is_first(i) && (!option || has_option(formats[i].ops, option)))
			used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? ", " : "",
						 formats[i].ops->name);
	return buffer;
}

static bool ends_with(const char *path, size_t size, const char *end)
{
	size_t end_size = strlen(end);

	return size >= end_size && strncasecmp(path + size - end_size, end, end_size) == 0;
}

const struct weir_format_ops *weir_format_for_bytes(const void *bytes, size_t size)
{
	for (uint32_t i = 0; i < FORMAT_COUNT; i++)
		if (formats[i].magic && size >= strlen(formats[i].magic) &&
		    memcmp(bytes, formats[i].magic, strlen(formats[i].magic)) == 0)
			return formats[i].ops;
	return NULL;
}

/* The extension decides, in front of that of a compression if there is one; a file without one that is known is opened,
 * and its first bytes do. A file that cannot be opened has no format: whoever opens it to read will say why. */
const struct weir_format_ops *weir_format_for_path(const char *path)
{
	size_t size = strlen(path), stem = weir_compression_stem(path);
	char first[WEIR_MAGIC_MAX] = {0};
	ssize_t got;
	int fd;

	for (uint32_t i = 0; i < FORMAT_COUNT; i++) {
		const struct weir_format_ops *format = formats[i].ops;

		for (const char *const *extension = format->extensions; extension && *extension; extension++)
			if (ends_with(path, size, *extension) ||
			    (weir_format_is_streamed(format) && ends_with(path, stem, *extension)))
				return format;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return NULL;
	got = pread(fd, first, sizeof(first), 0);
	close(fd);
	return got > 0 ? weir_format_for_bytes(first, (size_t)got) : NULL;
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
	return "parquet, csv, jsonl, json, arrow, arrows, tfrecord";
}
