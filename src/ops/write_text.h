/* write_text: the options of write that only CSV and JSON have, as they were given, and what text is compressed
 * with. */
#ifndef WEIR_OPS_WRITE_TEXT_H
#define WEIR_OPS_WRITE_TEXT_H

#include "format/format.h"
#include "ops/node.h"
#include "ops/save.h"

struct weir_write_text {
	struct weir_text_options options;
	const char *csv_given, *json_given; /* the name of one that was; NULL: none */
};

#define WEIR_WRITE_TEXT_OPTIONS                                                                                        \
	"delimiter=", "quote=", "escape=", "quoting=", "floats=", "null=", "line-terminator=", "no-header",            \
		"non-finite="

int weir_write_text_parse(struct weir_arena *arena, const struct weir_words *words, struct weir_write_text *out,
			  struct weir_error *err);
int weir_write_text_save(const struct weir_write_text *text, struct weir_save *save, struct weir_error *err);
int weir_write_text_load(struct weir_load *load, struct weir_write_text *out, struct weir_error *err);
/* Whether they mean something to this writer. */
int weir_write_text_check(const struct weir_write_text *text, const struct weir_writer_ops *writer,
			  struct weir_error *err);

/* What the whole of a text file is compressed with: what was asked for, else by the target's name. Writers of other
 * formats compress inside: WEIR_CODEC_NONE. */
int weir_write_text_codec(const struct weir_writer_ops *writer, const char *target, bool codec_given,
			  enum weir_codec given, enum weir_codec *out, struct weir_error *err);
const char *weir_write_text_extension(enum weir_codec codec); /* ".gz"; "" for none */

#endif
