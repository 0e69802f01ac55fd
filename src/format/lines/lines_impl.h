/* What the files of format/lines share. */
#ifndef WEIR_FORMAT_LINES_LINES_IMPL_H
#define WEIR_FORMAT_LINES_LINES_IMPL_H

#include "base/arena.h"
#include "format/format.h"
#include "format/text_input.h"

enum lines_errors { LINES_STRICT, LINES_REPLACE, LINES_IGNORE };

struct lines_options {
	struct weir_stream_options stream;
	enum lines_errors errors; /* what becomes of bytes that are not UTF-8 */
	bool keep_empty;
};

struct lines_file {
	struct weir_format_file base;
	struct weir_account *account;
	const struct lines_options *options;
	bool is_plain; /* byte n of the text is byte n of the file */
};

/* text.c */
/* Nothing but white space, as Python's str.isspace() has it; an empty line is empty. The text is valid UTF-8 up to
 * where it decides, or the line is not empty. */
bool lines_is_empty(const uint8_t *text, size_t size);
/* The text with what is not UTF-8 replaced by U+FFFD, one for each longest beginning of a character, or left out: as
 * Python's decode() with errors="replace" and "ignore". Into `out` of LINES_REPAIR_MAX × size bytes; returns their
 * number. */
#define LINES_REPAIR_MAX 3u
size_t lines_repair(const uint8_t *text, size_t size, enum lines_errors errors, uint8_t *out);

/* reader.c */
int lines_reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		     struct weir_error *err);
int lines_reader_open(struct weir_format_reader *base, struct weir_format_file *file, const struct weir_scan *scan,
		      const struct weir_range *range, struct weir_error *err);
int lines_reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err);
void lines_reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out);
void lines_reader_free(struct weir_format_reader *base);

#endif
