#include "ops/write_text.h"

#include "io/stream.h"
#include "ops/ops_impl.h"

#include <string.h>
#include <strings.h>

static const char *const quotings[] = {"minimal", "all", "nonnumeric", "none", "strings"};

/* One byte, or \t. */
static int parse_byte(const char *name, const char *value, char *out, struct weir_error *err)
{
	if (strcmp(value, "\\t") == 0 || strcmp(value, "tab") == 0) {
		*out = '\t';
		return WEIR_OK;
	}
	if (strlen(value) != 1)
		return weir_error_set(err, WEIR_E_INVALID, "--%s is one byte or \\t, not '%.40s'", name, value);
	*out = *value;
	return WEIR_OK;
}

static int parse_quoting(const char *value, enum weir_quoting *out, struct weir_error *err)
{
	for (uint32_t i = 0; i < sizeof(quotings) / sizeof(*quotings); i++) {
		if (strcmp(value, quotings[i]) == 0) {
			*out = (enum weir_quoting)i;
			return WEIR_OK;
		}
	}
	return weir_error_set(err, WEIR_E_INVALID,
			      "--quoting is minimal, all, nonnumeric, strings or none, not '%.40s'", value);
}

int weir_write_text_parse(struct weir_arena *arena, const struct weir_words *words, struct weir_write_text *out,
			  struct weir_error *err)
{
	static const char *const bytes[] = {"delimiter", "quote", "escape"};
	char *places[] = {&out->options.delimiter, &out->options.quote, &out->options.escape};
	const char *value;
	int code = WEIR_OK;

	for (uint32_t i = 0; !code && i < 3; i++) {
		if ((value = weir_words_option(words, bytes[i]))) {
			out->csv_given = bytes[i];
			code = parse_byte(bytes[i], value, places[i], err);
		}
	}
	if (!code && (value = weir_words_option(words, "quoting"))) {
		out->csv_given = "quoting";
		code = parse_quoting(value, &out->options.quoting, err);
	}
	if (!code && (value = weir_words_option(words, "floats"))) {
		out->csv_given = "floats";
		out->options.bare_floats = strcmp(value, "bare") == 0;
		if (!out->options.bare_floats && strcmp(value, "point"))
			code = weir_error_set(err, WEIR_E_INVALID, "--floats is point or bare, not '%.40s'", value);
	}
	if (!code && (value = weir_words_option(words, "null"))) {
		out->csv_given = "null";
		out->options.null_text = weir_arena_strdup(arena, value, err);
		code = out->options.null_text ? WEIR_OK : err->code;
	}
	if (!code && (value = weir_words_option(words, "line-terminator"))) {
		out->csv_given = "line-terminator";
		out->options.crlf = strcmp(value, "crlf") == 0 || strcmp(value, "\r\n") == 0 ||
				    strcmp(value, "\\r\\n") == 0;
		if (!out->options.crlf && strcmp(value, "lf") && strcmp(value, "\n") && strcmp(value, "\\n"))
			code = weir_error_set(err, WEIR_E_INVALID, "--line-terminator is lf or crlf, not '%.40s'",
					      value);
	}
	if (weir_words_option(words, "no-header")) {
		out->csv_given = "no-header";
		out->options.no_header = true;
	}
	if (!code && (value = weir_words_option(words, "non-finite"))) {
		out->json_given = "non-finite";
		out->options.names_non_finite = strcmp(value, "nan") == 0;
		if (!out->options.names_non_finite && strcmp(value, "null"))
			code = weir_error_set(err, WEIR_E_INVALID, "--non-finite is null or nan, not '%.40s'", value);
	}
	return code;
}

int weir_write_text_save(const struct weir_write_text *text, struct weir_save *save, struct weir_error *err)
{
	const struct weir_text_options *options = &text->options;
	const int64_t numbers[] = {options->delimiter, options->quote, options->escape,           options->quoting,
				   options->no_header, options->crlf,  options->names_non_finite, options->bare_floats};
	int code = weir_save_string(save, options->null_text, err);

	if (!code)
		code = weir_save_string(save, text->csv_given, err);
	if (!code)
		code = weir_save_string(save, text->json_given, err);
	for (size_t i = 0; !code && i < sizeof(numbers) / sizeof(*numbers); i++)
		code = weir_save_i64(save, numbers[i], err);
	return code;
}

int weir_write_text_load(struct weir_load *load, struct weir_write_text *out, struct weir_error *err)
{
	struct weir_text_options *options = &out->options;
	int64_t numbers[8];
	int code = weir_load_string(load, &options->null_text, err);

	if (!code)
		code = weir_load_string(load, &out->csv_given, err);
	if (!code)
		code = weir_load_string(load, &out->json_given, err);
	for (size_t i = 0; !code && i < sizeof(numbers) / sizeof(*numbers); i++)
		code = weir_load_i64(load, &numbers[i], err);
	if (code)
		return code;
	if (numbers[3] < 0 || numbers[3] > WEIR_QUOTING_STRINGS)
		return weir_error_set(err, WEIR_E_DATA, "the saved plan has a write that makes no sense");
	options->delimiter = (char)numbers[0];
	options->quote = (char)numbers[1];
	options->escape = (char)numbers[2];
	options->quoting = (enum weir_quoting)numbers[3];
	options->no_header = numbers[4];
	options->crlf = numbers[5];
	options->names_non_finite = numbers[6];
	options->bare_floats = numbers[7];
	return WEIR_OK;
}

int weir_write_text_check(const struct weir_write_text *text, const struct weir_writer_ops *writer,
			  struct weir_error *err)
{
	bool is_csv = writer == &weir_csv_writer;

	if (text->csv_given && !is_csv)
		return weir_error_set(err, WEIR_E_INVALID, "--%s is for CSV, and this is written as %s",
				      text->csv_given, writer->name);
	if (text->json_given && writer != &weir_jsonl_writer && writer != &weir_json_writer)
		return weir_error_set(err, WEIR_E_INVALID, "--%s is for JSON, and this is written as %s",
				      text->json_given, writer->name);
	return WEIR_OK;
}

const char *weir_write_text_extension(enum weir_codec codec)
{
	return codec == WEIR_CODEC_GZIP        ? ".gz"
	       : codec == WEIR_CODEC_ZSTD      ? ".zst"
	       : codec == WEIR_CODEC_LZ4_FRAME ? ".lz4"
					       : "";
}

int weir_write_text_codec(const struct weir_writer_ops *writer, const char *target, bool codec_given,
			  enum weir_codec given, enum weir_codec *out, struct weir_error *err)
{
	static const enum weir_codec codecs[] = {WEIR_CODEC_GZIP, WEIR_CODEC_ZSTD, WEIR_CODEC_LZ4_FRAME};
	const char *extension = target + weir_compression_stem(target);

	*out = WEIR_CODEC_NONE;
	if (!writer->is_text) {
		if (*extension)
			return weir_error_set(
				err, WEIR_E_INVALID,
				"%s is compressed inside, with --compression: the name '%s' would be misleading",
				writer->name, target);
		return WEIR_OK;
	}
	if (codec_given) {
		/* "lz4" is a block in Parquet, a frame in files. */
		*out = given == WEIR_CODEC_LZ4_RAW ? WEIR_CODEC_LZ4_FRAME : given;
		if (*out != WEIR_CODEC_NONE && !*weir_write_text_extension(*out))
			return weir_error_set(err, WEIR_E_INVALID,
					      "%s is compressed with gzip, zstd, lz4 or not at all, not with %s",
					      writer->name, weir_codec_name(given));
		return WEIR_OK;
	}
	for (uint32_t i = 0; i < sizeof(codecs) / sizeof(*codecs); i++) {
		if (strcasecmp(extension, weir_write_text_extension(codecs[i])) == 0)
			*out = codecs[i];
	}
	if (*extension && *out == WEIR_CODEC_NONE)
		return weir_error_set(err, WEIR_E_INVALID, "'%s': weir writes .gz, .zst and .lz4, and only reads %s",
				      target, extension);
	return WEIR_OK;
}
