/* stream: the bytes of an input in order, whatever it is: part of a file, a compressed file, a pipe; text in another
 * encoding becomes UTF-8. What text formats read from.
 *
 *     file or pipe ─▶ decompress (gzip, zstd, bz2, xz, lz4, snappy; members and frames one after another) ─▶ UTF-8 ─▶ caller's buffer
 *
 * A pipe (standard input) can be read once. Until the run begins it keeps what is read of it: streams that look for
 * types (infer) all begin at its first byte, and so does the one that reads it in the end (io/file.h:
 * weir_file_begin_pipe). A second stream after that is an error.
 *
 * Threads: a stream belongs to one lane.
 */
#ifndef WEIR_IO_STREAM_H
#define WEIR_IO_STREAM_H

#include "io/file.h"

enum weir_compression {
	WEIR_COMPRESSION_BY_NAME, /* .gz .zst .bz2 .xz .lz4 .snappy, in any case; else none */
	WEIR_COMPRESSION_NONE,
	WEIR_COMPRESSION_GZIP,
	WEIR_COMPRESSION_ZSTD,
	WEIR_COMPRESSION_BZ2,
	WEIR_COMPRESSION_XZ,
	WEIR_COMPRESSION_LZ4,
	WEIR_COMPRESSION_SNAPPY,
};

enum weir_encoding {
	/* Passed on as it is: whoever cares for validity checks it. A byte order mark is dropped, except in plain
	 * streams, whose bytes are the file's own: there the reader of byte 0 steps over it (WEIR_BYTE_ORDER_MARK). */
	WEIR_ENCODING_UTF8,
	WEIR_ENCODING_LATIN1,
	WEIR_ENCODING_UTF16, /* the byte order mark decides, little endian without one */
	WEIR_ENCODING_UTF16LE,
	WEIR_ENCODING_UTF16BE,
	WEIR_ENCODING_BYTES, /* no text: nothing is looked for, nothing dropped */
};

#define WEIR_BYTE_ORDER_MARK "\xef\xbb\xbf" /* in UTF-8 */

struct weir_stream_options {
	enum weir_compression compression;
	enum weir_encoding encoding;
};

struct weir_stream;

int weir_compression_parse(const char *name, enum weir_compression *out, struct weir_error *err);
int weir_encoding_parse(const char *name, enum weir_encoding *out, struct weir_error *err);
/* The length of `path` without the extension of a compression: "a.csv.gz" → 5. */
size_t weir_compression_stem(const char *path);

/* Whether byte n of the stream is byte n of the file: then it may be cut into ranges and opened in the middle. */
bool weir_stream_is_plain(const struct weir_file *file, const struct weir_stream_options *options);

/* `options` are copied, the file is referenced. `offset`: where to begin, in plain streams only; else 0. */
int weir_stream_open(struct weir_account *account, struct weir_io *io, struct weir_file *file, uint64_t offset,
		     const struct weir_stream_options *options, struct weir_stream **out, struct weir_error *err);
/* Between 1 and `size` bytes; 0 at the end only. Bytes that are behind in a plain file are read ahead meanwhile.
 * Damaged compressed data, and data that ends in the middle, is WEIR_E_DATA with the file's byte. */
int weir_stream_read(struct weir_stream *stream, void *buffer, size_t size, size_t *got, struct weir_error *err);
/* Bytes of the file or pipe that were consumed, for progress. */
uint64_t weir_stream_consumed(const struct weir_stream *stream);
void weir_stream_close(struct weir_stream *stream);

#endif
