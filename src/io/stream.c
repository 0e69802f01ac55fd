/* Bytes come from one of three places and go through at most two changes on the way to the caller's buffer:
 *
 *     plain file ───────────────────────────────────────────────▶ caller      read into the caller's buffer, no copy
 *     file ─▶ input[2] ─▶ inflate ─▶ text (if it is recoded) ───▶ caller
 *     pipe ─▶ input[0] ─┘   or straight on
 *
 * A plain read asks the page cache; what is not there is waited for, and from then on the kernel is told what comes
 * next. Of a compressed file one input buffer is read (by an I/O thread, if the cache lacks it) while the other is
 * inflated. The stash holds the few bytes that are less than one read: a character that did not fit the caller's
 * buffer, the first three bytes that turned out to be no byte order mark.
 */
#include "io/stream.h"

#include "io/inflate.h"
#include "io/recode.h"

#include <string.h>
#include <strings.h>

enum {
	INPUT_BYTES = 128 << 10,
	TEXT_BYTES = 64 << 10,
	AHEAD_BYTES = 8 << 20, /* what the kernel is told to read before it is asked for */
	MARK_BYTES = 3,
};

struct weir_stream {
	struct weir_account *account;
	struct weir_io *io;
	struct weir_file *file; /* a reference */
	bool is_pipe, is_plain;
	uint64_t next;     /* byte of the file or pipe that is read next */
	uint64_t consumed; /* bytes of it that have been used */
	/* plain */
	bool is_cold;
	uint64_t advised;
	/* compressed */
	struct weir_inflate *inflate;
	char *input[2];
	size_t input_capacity;
	const char *in; /* what is left of the buffer in use */
	size_t in_size;
	unsigned in_use;
	bool in_ended, is_ahead; /* is_ahead: `read` is filling the other buffer */
	struct weir_read read;
	/* recoded, or with a byte order mark to look for */
	struct weir_recode recode;
	bool is_recoded, is_begun, text_ended;
	char *text;
	size_t text_at, text_size;
	uint64_t text_offset; /* of text[text_at] */
	char stash[2 * WEIR_RECODE_MAX];
	uint32_t stash_at, stash_size;
};

/* ---- names ---- */

static const struct {
	const char *name, *extension;
	enum weir_compression compression;
} compressions[] = {
	{"gzip", ".gz", WEIR_COMPRESSION_GZIP}, {"zstd", ".zst", WEIR_COMPRESSION_ZSTD},
	{"bz2", ".bz2", WEIR_COMPRESSION_BZ2},  {"xz", ".xz", WEIR_COMPRESSION_XZ},
	{"lz4", ".lz4", WEIR_COMPRESSION_LZ4},  {"snappy", ".snappy", WEIR_COMPRESSION_SNAPPY},
	{"none", NULL, WEIR_COMPRESSION_NONE},  {"auto", NULL, WEIR_COMPRESSION_BY_NAME},
};
enum { COMPRESSION_COUNT = sizeof(compressions) / sizeof(compressions[0]) };

static const struct {
	const char *name;
	enum weir_encoding encoding;
} encodings[] = {
	{"utf-8", WEIR_ENCODING_UTF8},        {"latin-1", WEIR_ENCODING_LATIN1},    {"utf-16", WEIR_ENCODING_UTF16},
	{"utf-16le", WEIR_ENCODING_UTF16LE},  {"utf-16be", WEIR_ENCODING_UTF16BE},  {"utf8", WEIR_ENCODING_UTF8},
	{"utf-8-sig", WEIR_ENCODING_UTF8},    {"ascii", WEIR_ENCODING_UTF8},        {"latin1", WEIR_ENCODING_LATIN1},
	{"iso-8859-1", WEIR_ENCODING_LATIN1}, {"iso8859-1", WEIR_ENCODING_LATIN1},  {"utf16", WEIR_ENCODING_UTF16},
	{"utf-16-le", WEIR_ENCODING_UTF16LE}, {"utf-16-be", WEIR_ENCODING_UTF16BE}, {"utf16le", WEIR_ENCODING_UTF16LE},
	{"utf16be", WEIR_ENCODING_UTF16BE},
};
enum { ENCODING_COUNT = sizeof(encodings) / sizeof(encodings[0]) };

int weir_compression_parse(const char *name, enum weir_compression *out, struct weir_error *err)
{
	for (int i = 0; i < COMPRESSION_COUNT; i++) {
		if (strcasecmp(name, compressions[i].name) == 0) {
			*out = compressions[i].compression;
			return WEIR_OK;
		}
	}
	return weir_error_set(
		err, WEIR_E_VALUE,
		"there is no compression '%s'; there are gzip, zstd, bz2, xz, lz4, snappy, none, and auto, which goes by "
		"the file's name",
		name);
}

int weir_encoding_parse(const char *name, enum weir_encoding *out, struct weir_error *err)
{
	for (int i = 0; i < ENCODING_COUNT; i++) {
		if (strcasecmp(name, encodings[i].name) == 0) {
			*out = encodings[i].encoding;
			return WEIR_OK;
		}
	}
	return weir_error_set(err, WEIR_E_VALUE,
			      "there is no encoding '%s'; there are utf-8, latin-1, utf-16, utf-16le and utf-16be",
			      name);
}

static enum weir_compression by_name(const char *path, size_t *stem)
{
	size_t size = strlen(path);

	*stem = size;
	for (int i = 0; i < COMPRESSION_COUNT && compressions[i].extension; i++) {
		size_t length = strlen(compressions[i].extension);

		if (size > length && strcasecmp(path + size - length, compressions[i].extension) == 0) {
			*stem = size - length;
			return compressions[i].compression;
		}
	}
	return WEIR_COMPRESSION_NONE;
}

size_t weir_compression_stem(const char *path)
{
	size_t stem;

	by_name(path, &stem);
	return stem;
}

static enum weir_compression compression_of(const struct weir_file *file, const struct weir_stream_options *options)
{
	size_t stem;

	return options->compression == WEIR_COMPRESSION_BY_NAME ? by_name(weir_file_path(file), &stem)
								: options->compression;
}

bool weir_stream_is_plain(const struct weir_file *file, const struct weir_stream_options *options)
{
	return !weir_file_is_pipe(file) &&
	       (options->encoding == WEIR_ENCODING_UTF8 || options->encoding == WEIR_ENCODING_BYTES) &&
	       compression_of(file, options) == WEIR_COMPRESSION_NONE;
}

/* ---- open and close ---- */

/* The buffers of a small file are small: ten thousand of them are opened one after another. */
static int input_new(struct weir_stream *stream, struct weir_error *err)
{
	uint64_t size = weir_file_size(stream->file);

	stream->input_capacity = stream->is_pipe || size > INPUT_BYTES ? INPUT_BYTES : (size_t)size + 1;
	stream->input[0] = weir_alloc(stream->account, stream->input_capacity, err);
	if (!stream->input[0])
		return err->code;
	if (stream->is_pipe || size <= stream->input_capacity)
		return WEIR_OK;
	stream->input[1] = weir_alloc(stream->account, stream->input_capacity, err);
	return stream->input[1] ? WEIR_OK : err->code;
}

int weir_stream_open(struct weir_account *account, struct weir_io *io, struct weir_file *file, uint64_t offset,
		     const struct weir_stream_options *options, struct weir_stream **out, struct weir_error *err)
{
	enum weir_compression compression = compression_of(file, options);
	struct weir_stream *stream = weir_alloc_zero(account, sizeof(*stream), err);
	int code = WEIR_OK;

	*out = NULL;
	if (!stream)
		return err->code;
	stream->account = account;
	stream->io = io;
	stream->file = weir_file_ref(file);
	stream->is_pipe = weir_file_is_pipe(file);
	stream->is_plain = weir_stream_is_plain(file, options);
	stream->is_recoded = options->encoding != WEIR_ENCODING_UTF8 && options->encoding != WEIR_ENCODING_BYTES;
	stream->recode.encoding = options->encoding;
	WEIR_ASSERT(offset == 0 || stream->is_plain);
	stream->next = offset;
	stream->is_begun = stream->is_plain || options->encoding == WEIR_ENCODING_BYTES;
	if (compression != WEIR_COMPRESSION_NONE)
		code = weir_inflate_new(account, compression, &stream->inflate, err);
	if (!code && stream->inflate)
		code = input_new(stream, err);
	if (!code && stream->is_recoded) {
		stream->text = weir_alloc(account, TEXT_BYTES, err);
		code = stream->text ? WEIR_OK : err->code;
	}
	if (code) {
		weir_error_at_source(err, weir_file_path(file));
		weir_stream_close(stream);
		return code;
	}
	*out = stream;
	return WEIR_OK;
}

void weir_stream_close(struct weir_stream *stream)
{
	struct weir_error ignored = {0};

	if (!stream)
		return;
	if (stream->is_ahead) /* its buffer must stay until it is done; what it read no longer matters */
		(void)weir_read_wait(stream->io, &stream->read, &ignored);
	weir_inflate_free(stream->inflate);
	for (int i = 0; i < 2; i++)
		weir_free(stream->account, stream->input[i], stream->input_capacity);
	weir_free(stream->account, stream->text, TEXT_BYTES);
	weir_file_unref(stream->file);
	weir_free(stream->account, stream, sizeof(*stream));
}

uint64_t weir_stream_consumed(const struct weir_stream *stream)
{
	return stream->consumed;
}

/* ---- bytes as they are ---- */

static uint64_t left(const struct weir_stream *stream)
{
	uint64_t size = weir_file_size(stream->file);

	return size > stream->next ? size - stream->next : 0;
}

/* Straight into `buffer`. */
static int read_raw(struct weir_stream *stream, void *buffer, size_t size, size_t *got, struct weir_error *err)
{
	int code;

	if (stream->is_pipe) {
		code = weir_file_read_pipe(stream->file, stream->next, buffer, size, got, err);
	} else {
		*got = left(stream) < size ? (size_t)left(stream) : size;
		if (*got == 0)
			return WEIR_OK;
		stream->read = (struct weir_read){
			.file = stream->file, .offset = stream->next, .size = *got, .buffer = buffer};
		if (stream->is_cold && stream->advised < stream->next + *got + AHEAD_BYTES / 2) {
			stream->advised = stream->next + *got + AHEAD_BYTES;
			weir_file_advise(stream->file, stream->next + *got, AHEAD_BYTES);
		}
		weir_read_submit(stream->io, &stream->read);
		stream->is_cold |= !weir_read_done(&stream->read);
		code = weir_read_wait(stream->io, &stream->read, err);
	}
	if (code) {
		*got = 0;
		return code;
	}
	stream->next += *got;
	if (!stream->inflate) /* else it is once it has been decompressed */
		stream->consumed += *got;
	return WEIR_OK;
}

/* ---- compressed ---- */

static void submit_ahead(struct weir_stream *stream)
{
	size_t size = left(stream) < stream->input_capacity ? (size_t)left(stream) : stream->input_capacity;

	stream->is_ahead = size > 0;
	if (!size)
		return;
	stream->read = (struct weir_read){.file = stream->file,
					  .offset = stream->next,
					  .size = size,
					  .buffer = stream->input[stream->in_use ^ 1]};
	stream->next += size;
	weir_read_submit(stream->io, &stream->read);
}

/* The next piece of input, and the one behind it is on its way. */
static int fill(struct weir_stream *stream, struct weir_error *err)
{
	size_t got;
	int code;

	if (!stream->input[1]) { /* a pipe, or a file that one buffer holds */
		code = read_raw(stream, stream->input[0], stream->input_capacity, &got, err);
		stream->in = stream->input[0];
		stream->in_size = got;
		stream->in_ended = got == 0;
		return code;
	}
	if (!stream->is_ahead)
		submit_ahead(stream);
	if (!stream->is_ahead) {
		stream->in_ended = true;
		return WEIR_OK;
	}
	code = weir_read_wait(stream->io, &stream->read, err);
	stream->is_ahead = false;
	if (code)
		return code;
	stream->in_use ^= 1;
	stream->in = stream->input[stream->in_use];
	stream->in_size = (size_t)stream->read.size;
	submit_ahead(stream);
	return WEIR_OK;
}

static int fail_place(const struct weir_stream *stream, struct weir_error *err)
{
	weir_error_at_source(err, weir_file_path(stream->file));
	weir_error_at_offset(err, stream->consumed);
	return err->code;
}

static int inflate_some(struct weir_stream *stream, char *buffer, size_t size, size_t *got, struct weir_error *err)
{
	unsigned stuck = 0;
	size_t used;
	int code;

	*got = 0;
	for (;;) {
		if (stream->in_size == 0 && !stream->in_ended) {
			code = fill(stream, err);
			if (code)
				return code;
		}
		code = weir_inflate_run(stream->inflate, stream->in, stream->in_size, &used, buffer, size, got, err);
		stream->in += used;
		stream->in_size -= used;
		stream->consumed += used;
		if (code)
			return fail_place(stream, err);
		if (*got)
			return WEIR_OK;
		if (stream->in_ended) {
			if (weir_inflate_is_between(stream->inflate))
				return WEIR_OK;
			weir_error_set(err, WEIR_E_DATA, "the %s data ends in the middle: the file was cut short",
				       weir_inflate_name(stream->inflate));
			return fail_place(stream, err);
		}
		stuck = used ? 0 : stuck + 1;
		if (stuck > 1) {
			weir_error_set(err, WEIR_E_DATA, "the %s data is damaged", weir_inflate_name(stream->inflate));
			return fail_place(stream, err);
		}
	}
}

static int read_bytes(struct weir_stream *stream, char *buffer, size_t size, size_t *got, struct weir_error *err)
{
	return stream->inflate ? inflate_some(stream, buffer, size, got, err)
			       : read_raw(stream, buffer, size, got, err);
}

/* ---- text ---- */

static size_t take_stash(struct weir_stream *stream, void *buffer, size_t size)
{
	size_t n = stream->stash_size - stream->stash_at;

	n = n < size ? n : size;
	memcpy(buffer, stream->stash + stream->stash_at, n);
	stream->stash_at += (uint32_t)n;
	return n;
}

/* The first three bytes, unless they are a byte order mark, go into the stash. */
static int look_for_mark(struct weir_stream *stream, struct weir_error *err)
{
	while (stream->stash_size < MARK_BYTES) {
		size_t got;
		int code = read_bytes(stream, stream->stash + stream->stash_size, MARK_BYTES - stream->stash_size, &got,
				      err);

		if (code)
			return code;
		if (got == 0)
			break;
		stream->stash_size += (uint32_t)got;
	}
	if (stream->stash_size == MARK_BYTES && memcmp(stream->stash, WEIR_BYTE_ORDER_MARK, MARK_BYTES) == 0)
		stream->stash_size = 0;
	stream->is_begun = true;
	return WEIR_OK;
}

/* More text behind what is left of it; the beginning of a character may be. */
static int fill_text(struct weir_stream *stream, struct weir_error *err)
{
	size_t got;
	int code;

	memmove(stream->text, stream->text + stream->text_at, stream->text_size);
	stream->text_at = 0;
	code = read_bytes(stream, stream->text + stream->text_size, TEXT_BYTES - stream->text_size, &got, err);
	if (code)
		return code;
	stream->text_size += got;
	stream->text_ended = got == 0;
	return WEIR_OK;
}

/* Into a buffer of at least WEIR_RECODE_MAX bytes. */
static int recode_some(struct weir_stream *stream, char *buffer, size_t size, size_t *got, struct weir_error *err)
{
	size_t used;
	int code;

	for (;;) {
		code = weir_recode_run(&stream->recode, stream->text + stream->text_at, stream->text_size, &used,
				       buffer, size, got, err);
		stream->text_at += used;
		stream->text_size -= used;
		stream->text_offset += used;
		if (!code && *got)
			return WEIR_OK;
		if (!code && stream->text_ended && stream->text_size)
			code = weir_error_set(err, WEIR_E_DATA, "the text ends in the middle of a UTF-16 character");
		if (code) {
			weir_error_at_source(err, weir_file_path(stream->file));
			weir_error_at_offset(err, stream->inflate ? stream->consumed : stream->text_offset);
			return code;
		}
		if (stream->text_ended)
			return WEIR_OK;
		code = fill_text(stream, err);
		if (code)
			return code;
	}
}

static int read_text(struct weir_stream *stream, void *buffer, size_t size, size_t *got, struct weir_error *err)
{
	size_t made;
	int code;

	if (!stream->is_recoded && !stream->is_begun) {
		code = look_for_mark(stream, err);
		if (code)
			return code;
	}
	*got = take_stash(stream, buffer, size);
	if (*got)
		return WEIR_OK;
	if (!stream->is_recoded)
		return read_bytes(stream, buffer, size, got, err);
	if (size >= WEIR_RECODE_MAX)
		return recode_some(stream, buffer, size, got, err);
	code = recode_some(stream, stream->stash, sizeof(stream->stash), &made, err);
	if (code)
		return code;
	stream->stash_at = 0;
	stream->stash_size = (uint32_t)made;
	*got = take_stash(stream, buffer, size);
	return WEIR_OK;
}

int weir_stream_read(struct weir_stream *stream, void *buffer, size_t size, size_t *got, struct weir_error *err)
{
	int code;

	WEIR_ASSERT(size > 0);
	*got = 0;
	code = read_text(stream, buffer, size, got, err);
	if (code)
		*got = 0;
	return code;
}
