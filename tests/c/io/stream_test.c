/* The same bytes come out of a stream whatever it goes through and however it is read; damage is an error that says
 * where, and what any library takes is given back. */
#include "io_test.h"
#include "stream_python.h"

#include "base/fault.h"
#include "io/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <bzlib.h>
#include <lz4frame.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

enum { TEXT_SIZE = 3 << 20, OUT_MAX = 8 << 20 };

struct stream_fixture {
	struct fixture base;
	struct weir_io *io;
	char directory[64], path[96];
	char *text; /* compressible, TEXT_SIZE bytes */
	char *out;
};

static const struct {
	enum weir_compression compression;
	const unsigned char *bytes;
	size_t size;
	bool checked; /* a changed bit in its data cannot pass */
} python[] = {
	{WEIR_COMPRESSION_GZIP, python_gzip, sizeof(python_gzip), true},
	{WEIR_COMPRESSION_ZSTD, python_zstd, sizeof(python_zstd), false},
	{WEIR_COMPRESSION_BZ2, python_bz2, sizeof(python_bz2), true},
	{WEIR_COMPRESSION_XZ, python_xz, sizeof(python_xz), true},
	{WEIR_COMPRESSION_LZ4, python_lz4, sizeof(python_lz4), false},
};
enum { CODECS = sizeof(python) / sizeof(python[0]) };

static int setup(void **state)
{
	struct stream_fixture *f = calloc(1, sizeof(*f));
	uint64_t random = 7;
	void *base;

	fixture_setup(&base);
	f->base = *(struct fixture *)base;
	free(base);
	snprintf(f->directory, sizeof(f->directory), "%s/weir-stream-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	assert_non_null(mkdtemp(f->directory));
	snprintf(f->path, sizeof(f->path), "%s/data", f->directory);
	f->text = malloc(TEXT_SIZE);
	f->out = malloc(OUT_MAX);
	for (size_t i = 0; i < TEXT_SIZE; i++)
		f->text[i] = (char)('a' + random_next(&random) % 5);
	assert_ok(&f->base, weir_io_new(f->base.account, 0, &f->io, &f->base.error));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct stream_fixture *f = *state;

#ifdef WEIR_FAULTS
	weir_fault_disarm();
#endif
	weir_io_free(f->io);
	remove_all(f->directory);
	assert_int_equal(f->base.account->used, 0);
	weir_mem_free(f->base.mem);
	free(f->text);
	free(f->out);
	free(f);
	return 0;
}

static void put_file(const struct stream_fixture *f, const void *bytes, size_t size)
{
	int fd;

	unlink(f->path); /* a file that is cut and written again is flushed by some file systems, a new one is not */
	fd = open(f->path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
}

static size_t python_text(char *out)
{
	size_t size = 0;

	for (int i = 0; i < 40; i++)
		size += (size_t)snprintf(out + size, 32, "%d,row %d,\xc3\xbc\n", i, i * 7);
	return size;
}

/* Everything a stream over `file` gives, in reads of `step` bytes (0: of random size). */
static int read_all(struct stream_fixture *f, struct weir_file *file, uint64_t offset,
		    const struct weir_stream_options *options, size_t step, size_t *size)
{
	struct weir_stream *stream = NULL;
	uint64_t random = step + 1, consumed = 0;
	int code = weir_stream_open(f->base.account, f->io, file, offset, options, &stream, &f->base.error);

	*size = 0;
	while (!code) {
		size_t want = step ? step : 1 + random_next(&random) % 100000, got = 0;

		assert_true(*size + want <= OUT_MAX);
		code = weir_stream_read(stream, f->out + *size, want, &got, &f->base.error);
		assert_true(got <= want);
		assert_true(code == WEIR_OK || got == 0);
		assert_true(weir_stream_consumed(stream) >= consumed);
		consumed = weir_stream_consumed(stream);
		*size += got;
		if (code || got == 0)
			break;
	}
	if (!code && !weir_file_is_pipe(file))
		assert_int_equal(consumed, weir_file_size(file) - offset);
	weir_stream_close(stream);
	return code;
}

static int read_file(struct stream_fixture *f, const struct weir_stream_options *options, size_t step, size_t *size)
{
	struct weir_file *file = NULL;
	int code = weir_file_open(f->base.account, f->path, &file, &f->base.error);

	if (!code)
		code = read_all(f, file, 0, options, step, size);
	weir_file_unref(file);
	return code;
}

static void assert_reads(struct stream_fixture *f, const struct weir_stream_options *options, size_t step,
			 const char *text, size_t text_size)
{
	size_t size;

	assert_ok(&f->base, read_file(f, options, step, &size));
	assert_int_equal(size, text_size);
	assert_memory_equal(f->out, text, size);
}

static size_t pack(enum weir_compression compression, const void *text, size_t size, unsigned char *out,
		   size_t capacity)
{
	size_t made = 0;
	unsigned made_32 = (unsigned)capacity;
	z_stream zlib = {0};
	LZ4F_preferences_t preferences = {.frameInfo.blockSizeID = LZ4F_max64KB};

	switch (compression) {
	case WEIR_COMPRESSION_GZIP:
		assert_int_equal(deflateInit2(&zlib, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
		zlib.next_in = (unsigned char *)text;
		zlib.avail_in = (unsigned)size;
		zlib.next_out = out;
		zlib.avail_out = (unsigned)capacity;
		assert_int_equal(deflate(&zlib, Z_FINISH), Z_STREAM_END);
		made = capacity - zlib.avail_out;
		deflateEnd(&zlib);
		return made;
	case WEIR_COMPRESSION_ZSTD:
		made = ZSTD_compress(out, capacity, text, size, 3);
		assert_false(ZSTD_isError(made));
		return made;
	case WEIR_COMPRESSION_BZ2:
		assert_int_equal(BZ2_bzBuffToBuffCompress((char *)out, &made_32, (char *)text, (unsigned)size, 9, 0, 0),
				 BZ_OK);
		return made_32;
	case WEIR_COMPRESSION_XZ:
		assert_int_equal(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, NULL, text, size, out, &made, capacity),
				 LZMA_OK);
		return made;
	case WEIR_COMPRESSION_LZ4:
		made = LZ4F_compressFrame(out, capacity, text, size, &preferences);
		assert_false(LZ4F_isError(made));
		return made;
	default:
		fail();
		return 0;
	}
}

/* ---- compressed files ---- */

static void reads_what_python_wrote(void **state)
{
	struct stream_fixture *f = *state;
	char text[2048];
	size_t text_size = python_text(text);

	for (int c = 0; c < CODECS; c++) {
		put_file(f, python[c].bytes, python[c].size);
		for (size_t step = 1; step < 40; step++)
			assert_reads(f, &(struct weir_stream_options){.compression = python[c].compression}, step, text,
				     text_size);
		assert_reads(f, &(struct weir_stream_options){.compression = python[c].compression}, 100000, text,
			     text_size);
	}
}

static void reads_large_files(void **state)
{
	struct stream_fixture *f = *state;
	unsigned char *packed = malloc(OUT_MAX);

	for (int c = 0; c < CODECS; c++) {
		struct weir_stream_options options = {.compression = python[c].compression};
		size_t size = pack(python[c].compression, f->text, TEXT_SIZE, packed, OUT_MAX);

		put_file(f, packed, size);
		assert_reads(f, &options, 0, f->text, TEXT_SIZE);
		assert_reads(f, &options, OUT_MAX / 2, f->text, TEXT_SIZE);
	}
	free(packed);
}

static void members_follow_each_other(void **state)
{
	struct stream_fixture *f = *state;
	unsigned char *packed = malloc(OUT_MAX);

	for (int c = 0; c < CODECS; c++) {
		struct weir_stream_options options = {.compression = python[c].compression};
		size_t at = 0, done = 0;

		/* An empty one among them, and ends everywhere in the input buffer. */
		for (size_t piece = 0; done < 500000; piece += 977) {
			at += pack(python[c].compression, f->text + done, piece, packed + at, OUT_MAX - at);
			done += piece;
		}
		put_file(f, packed, at);
		assert_reads(f, &options, 0, f->text, done);
		memset(packed + at, 0, 512);
		put_file(f, packed, at + 512);
		if (options.compression == WEIR_COMPRESSION_GZIP || options.compression == WEIR_COMPRESSION_XZ) {
			assert_reads(f, &options, 0, f->text, done);
		} else {
			assert_int_equal(read_file(f, &options, 0, &done), WEIR_E_DATA);
			assert_true(f->base.error.has_offset && f->base.error.offset >= at);
		}
		memcpy(packed + at, "and something else that nobody can decompress", 45);
		put_file(f, packed, at + 45);
		assert_int_equal(read_file(f, &options, 0, &done), WEIR_E_DATA);
		assert_string_equal(f->base.error.source, f->path);
		put_file(f, packed, 0);
		assert_reads(f, &options, 0, "", 0);
	}
	free(packed);
}

static void cut_files_are_errors(void **state)
{
	struct stream_fixture *f = *state;
	size_t size;

	for (int c = 0; c < CODECS; c++) {
		struct weir_stream_options options = {.compression = python[c].compression};

		for (size_t cut = 1; cut < python[c].size; cut++) {
			put_file(f, python[c].bytes, cut);
			assert_int_equal(read_file(f, &options, 64, &size), WEIR_E_DATA);
			assert_string_equal(f->base.error.source, f->path);
			assert_true(f->base.error.has_offset);
			assert_true(f->base.error.offset <= cut);
			assert_non_null(strstr(f->base.error.message, "ends in the middle"));
		}
	}
}

static void changed_bits_are_survived(void **state)
{
	struct stream_fixture *f = *state;
	unsigned char bytes[1024];
	char text[2048];
	size_t size, text_size = python_text(text);

	for (int c = 0; c < CODECS; c++) {
		struct weir_stream_options options = {.compression = python[c].compression};

		for (size_t bit = 0; bit < python[c].size * 8; bit++) {
			memcpy(bytes, python[c].bytes, python[c].size);
			bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
			put_file(f, bytes, python[c].size);
			if (read_file(f, &options, 100, &size)) {
				assert_true(f->base.error.code == WEIR_E_DATA || f->base.error.code == WEIR_E_MEMORY);
				assert_string_equal(f->base.error.source, f->path);
			} else if (python[c].checked) {
				assert_int_equal(size, text_size);
				assert_memory_equal(f->out, text, size);
			}
		}
	}
}

static int refuse(void *asked, struct weir_account *account, int64_t more, struct weir_error *err)
{
	(void)asked, (void)account, (void)more;
	return weir_error_set(err, WEIR_E_LIMIT, "no more");
}

/* Whatever the account allows, its refusal is what the caller gets. */
static void refused_memory_is_said(void **state)
{
	struct stream_fixture *f = *state;
	unsigned char *packed = malloc(OUT_MAX);

	for (int c = 0; c < CODECS; c++) {
		struct weir_stream_options options = {.compression = python[c].compression,
						      .encoding = WEIR_ENCODING_LATIN1};
		size_t size = pack(python[c].compression, f->text, TEXT_SIZE, packed, OUT_MAX), got;
		int64_t grant = 0;
		int code;

		put_file(f, packed, size);
		do {
			struct weir_account account, *real = f->base.account;

			weir_account_init(&account, real, "small");
			account.ask = refuse;
			atomic_store(&account.grant, grant);
			f->base.account = &account;
			code = read_file(f, &options, 65536, &got);
			f->base.account = real;
			weir_account_release(&account);
			assert_true(code == WEIR_OK || code == WEIR_E_LIMIT);
			grant = grant * 2 + 512;
		} while (code);
		assert_int_equal(got, TEXT_SIZE);
		assert_memory_equal(f->out, f->text, got);
	}
	free(packed);
}

#ifdef WEIR_FAULTS
static void faults_are_errors(void **state)
{
	struct stream_fixture *f = *state;
	unsigned char *packed = malloc(OUT_MAX);
	static const enum weir_fault_kind kinds[] = {WEIR_FAULT_ALLOC, WEIR_FAULT_MAP, WEIR_FAULT_READ};

	for (int c = 0; c < CODECS; c++) {
		struct weir_stream_options options = {.compression = python[c].compression,
						      .encoding = WEIR_ENCODING_LATIN1};
		size_t size = pack(python[c].compression, f->text, TEXT_SIZE, packed, OUT_MAX), got;

		put_file(f, packed, size);
		for (int k = 0; k < 3; k++) {
			uint64_t nth = 1, calls;

			do {
				int code;

				weir_mem_trim(f->base.mem, 0);
				weir_fault_arm(kinds[k], nth, kinds[k] == WEIR_FAULT_READ ? EINVAL : ENOMEM, true);
				code = read_file(f, &options, 300000, &got);
				calls = weir_fault_count(kinds[k]);
				weir_fault_disarm();
				if (!code) {
					assert_int_equal(got, TEXT_SIZE);
					assert_memory_equal(f->out, f->text, got);
				}
				assert_true(code != WEIR_OK || calls < nth);
				nth += nth < 40 ? 1 : 17;
			} while (calls + 17 >= nth && nth < 4000);
			assert_true(nth > 2);
		}
	}
	free(packed);
}
#endif

static void names_tell_the_compression(void **state)
{
	struct stream_fixture *f = *state;
	static const char *const names[] = {"x.csv.gz", "x.ZST", "x.bz2", "x.xz", "x.csv.Lz4"};
	enum weir_compression compression;
	enum weir_encoding encoding;
	char text[2048];
	size_t text_size = python_text(text);

	assert_int_equal(weir_compression_stem("a.csv.gz"), 5);
	assert_int_equal(weir_compression_stem("a.csv"), 5);
	assert_int_equal(weir_compression_stem(".gz"), 3);
	for (int c = 0; c < CODECS; c++) {
		snprintf(f->path, sizeof(f->path), "%s/%s", f->directory, names[c]);
		put_file(f, python[c].bytes, python[c].size);
		assert_reads(f, &(struct weir_stream_options){0}, 10, text, text_size);
		assert_reads(f, &(struct weir_stream_options){.compression = WEIR_COMPRESSION_NONE}, 10,
			     (const char *)python[c].bytes, python[c].size);
	}
	assert_ok(&f->base, weir_compression_parse("Zstd", &compression, &f->base.error));
	assert_int_equal(compression, WEIR_COMPRESSION_ZSTD);
	assert_int_equal(weir_compression_parse("zip", &compression, &f->base.error), WEIR_E_VALUE);
	assert_ok(&f->base, weir_encoding_parse("UTF-16LE", &encoding, &f->base.error));
	assert_int_equal(encoding, WEIR_ENCODING_UTF16LE);
	assert_int_equal(weir_encoding_parse("ebcdic", &encoding, &f->base.error), WEIR_E_VALUE);
}

/* ---- plain ---- */

static void plain_files_are_read_from_anywhere(void **state)
{
	struct stream_fixture *f = *state;
	struct weir_stream_options options = {0};
	struct weir_file *file = NULL;
	size_t size;

	memcpy(f->text, WEIR_BYTE_ORDER_MARK, 3); /* stays: byte n of the stream is byte n of the file */
	put_file(f, f->text, TEXT_SIZE);
	assert_reads(f, &options, 0, f->text, TEXT_SIZE);
	assert_reads(f, &options, TEXT_SIZE + 1, f->text, TEXT_SIZE);
	assert_ok(&f->base, weir_file_open(f->base.account, f->path, &file, &f->base.error));
	assert_true(weir_stream_is_plain(file, &options));
	assert_false(weir_stream_is_plain(file, &(struct weir_stream_options){.encoding = WEIR_ENCODING_LATIN1}));
	assert_false(weir_stream_is_plain(file, &(struct weir_stream_options){.compression = WEIR_COMPRESSION_XZ}));
	for (size_t offset = TEXT_SIZE - 20; offset <= TEXT_SIZE; offset++) {
		assert_ok(&f->base, read_all(f, file, offset, &options, 3, &size));
		assert_int_equal(size, TEXT_SIZE - offset);
		assert_memory_equal(f->out, f->text + offset, size);
	}
	weir_file_unref(file);
}

/* ---- encodings ---- */

static void other_encodings_become_utf8(void **state)
{
	struct stream_fixture *f = *state;
	static const char utf16le[] = "a\0\xfc\0\xac\x20\x3d\xd8\x00\xdez\0";
	static const char utf16be[] = "\0a\0\xfc\x20\xac\xd8\x3d\xde\x00\0z";
	static const char text[] = "a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80z";
	char marked[16], latin1[256 * 40], utf8[512 * 40];
	size_t size = 0;

	for (size_t step = 1; step < 12; step++) {
		put_file(f, utf16le, 12);
		assert_reads(f, &(struct weir_stream_options){.encoding = WEIR_ENCODING_UTF16LE}, step, text,
			     sizeof(text) - 1);
		assert_reads(f, &(struct weir_stream_options){.encoding = WEIR_ENCODING_UTF16}, step, text,
			     sizeof(text) - 1);
		put_file(f, utf16be, 12);
		assert_reads(f, &(struct weir_stream_options){.encoding = WEIR_ENCODING_UTF16BE}, step, text,
			     sizeof(text) - 1);
		memcpy(marked, "\xff\xfe", 2);
		memcpy(marked + 2, utf16le, 12);
		put_file(f, marked, 14);
		assert_reads(f, &(struct weir_stream_options){.encoding = WEIR_ENCODING_UTF16LE}, step, text,
			     sizeof(text) - 1);
		assert_reads(f, &(struct weir_stream_options){.encoding = WEIR_ENCODING_UTF16}, step, text,
			     sizeof(text) - 1);
		memcpy(marked, "\xfe\xff", 2);
		memcpy(marked + 2, utf16be, 12);
		put_file(f, marked, 14);
		assert_reads(f, &(struct weir_stream_options){.encoding = WEIR_ENCODING_UTF16}, step, text,
			     sizeof(text) - 1);
	}
	for (int i = 0; i < 256 * 40; i++) {
		unsigned char c = (unsigned char)(i % 3 ? i * 7 : 'x');

		latin1[i] = (char)c;
		if (c >= 128)
			utf8[size++] = (char)(0xc0 | c >> 6);
		utf8[size++] = (char)(c < 128 ? c : 0x80 | (c & 63));
	}
	put_file(f, latin1, sizeof(latin1));
	for (size_t step = 1; step < 12; step++)
		assert_reads(f, &(struct weir_stream_options){.encoding = WEIR_ENCODING_LATIN1}, step, utf8, size);
	assert_reads(f, &(struct weir_stream_options){.encoding = WEIR_ENCODING_LATIN1}, 0, utf8, size);
	put_file(f, "", 0);
	assert_reads(f, &(struct weir_stream_options){.encoding = WEIR_ENCODING_UTF16}, 9, "", 0);
}

/* A text that is larger than any buffer, pairs over every border of them. */
static void pairs_over_borders(void **state)
{
	struct stream_fixture *f = *state;

	for (size_t before = 0; before < 2; before++) {
		size_t units = 400000, n = 0, size = 0;
		char *wide = malloc(units * 4 + 8), *narrow = malloc(units * 4 + 8);

		for (size_t i = 0; i < before; i++) {
			memcpy(wide + size, "q\0", 2);
			size += 2;
			narrow[n++] = 'q';
		}
		for (size_t i = 0; i < units; i++) {
			memcpy(wide + size, "\x3d\xd8\x00\xde", 4);
			size += 4;
			memcpy(narrow + n, "\xf0\x9f\x98\x80", 4);
			n += 4;
		}
		put_file(f, wide, size);
		assert_reads(f, &(struct weir_stream_options){.encoding = WEIR_ENCODING_UTF16}, 0, narrow, n);
		free(wide);
		free(narrow);
	}
}

static void broken_utf16_is_an_error(void **state)
{
	struct stream_fixture *f = *state;
	static const struct {
		const char *bytes;
		size_t size, offset;
	} cases[] = {
		{"a\0\x3d\xd8", 4, 2},    /* ends inside a pair */
		{"a\0b\0c", 5, 4},        /* ends inside a unit */
		{"a\0\x3d\xd8z\0", 6, 2}, /* a first half alone */
		{"a\0\x00\xdez\0", 6, 2}, /* a second half alone */
		{"\x3d\xd8\x3d\xd8\0\xde", 6, 0},
		{"\xff", 1, 0},
	};
	size_t size;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t step = 1; step < 9; step++) {
			put_file(f, cases[i].bytes, cases[i].size);
			assert_int_equal(read_file(f, &(struct weir_stream_options){.encoding = WEIR_ENCODING_UTF16},
						   step, &size),
					 WEIR_E_DATA);
			assert_string_equal(f->base.error.source, f->path);
			assert_int_equal(f->base.error.offset, cases[i].offset);
		}
	}
}

/* ---- pipes ---- */

struct feeder {
	int fd;
	const char *bytes;
	size_t size;
};

static void *feed(void *argument)
{
	struct feeder *feeder = argument;

	for (size_t done = 0; done < feeder->size;) {
		ssize_t n = write(feeder->fd, feeder->bytes + done, feeder->size - done);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	close(feeder->fd);
	return NULL;
}

static struct weir_file *open_pipe(struct stream_fixture *f, struct feeder *feeder, pthread_t *thread,
				   const void *bytes, size_t size)
{
	struct weir_file *file = NULL;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	*feeder = (struct feeder){fds[1], bytes, size};
	assert_ok(&f->base, weir_file_open_pipe(f->base.account, fds[0], "standard input", &file, &f->base.error));
	close(fds[0]);
	assert_int_equal(pthread_create(thread, NULL, feed, feeder), 0);
	return file;
}

static void pipes_are_read_once(void **state)
{
	struct stream_fixture *f = *state;
	struct weir_stream_options options = {0};
	struct feeder feeder;
	pthread_t thread;
	const void *head;
	size_t size;
	struct weir_file *file = open_pipe(f, &feeder, &thread, f->text, TEXT_SIZE);

	assert_true(weir_file_is_pipe(file));
	assert_false(weir_stream_is_plain(file, &options));
	assert_ok(&f->base, weir_file_head(file, 100000, &head, &size, &f->base.error));
	assert_int_equal(size, 100000);
	assert_memory_equal(head, f->text, size);
	assert_ok(&f->base, weir_file_begin_pipe(file, NULL, &f->base.error));
	assert_ok(&f->base, read_all(f, file, 0, &options, 0, &size));
	assert_int_equal(size, TEXT_SIZE);
	assert_memory_equal(f->out, f->text, size);
	assert_int_equal(read_all(f, file, 0, &options, 0, &size), WEIR_E_UNSUPPORTED);
	assert_string_equal(f->base.error.source, "standard input");
	assert_int_equal(weir_file_begin_pipe(file, NULL, &f->base.error), WEIR_E_UNSUPPORTED);
	pthread_join(thread, NULL);
	weir_file_unref(file);
}

static void pipes_may_be_looked_at(void **state)
{
	struct stream_fixture *f = *state;
	unsigned char *packed = malloc(OUT_MAX);

	for (int c = 0; c < CODECS; c++) {
		struct weir_stream_options options = {.compression = python[c].compression};
		struct weir_stream *stream;
		struct feeder feeder;
		pthread_t thread;
		size_t size = pack(python[c].compression, f->text, TEXT_SIZE, packed, OUT_MAX), got;
		struct weir_file *file = open_pipe(f, &feeder, &thread, packed, size);

		for (int look = 0; look < 3; look++) {
			assert_ok(&f->base,
				  weir_stream_open(f->base.account, f->io, file, 0, &options, &stream, &f->base.error));
			for (size_t done = 0; done < 5000u * (unsigned)look; done += got) {
				assert_ok(&f->base, weir_stream_read(stream, f->out, 5000, &got, &f->base.error));
				assert_memory_equal(f->out, f->text + done, got);
			}
			weir_stream_close(stream);
		}
		assert_ok(&f->base, weir_file_begin_pipe(file, NULL, &f->base.error));
		assert_ok(&f->base, read_all(f, file, 0, &options, 0, &got));
		assert_int_equal(got, TEXT_SIZE);
		assert_memory_equal(f->out, f->text, got);
		pthread_join(thread, NULL);
		weir_file_unref(file);
	}
	free(packed);
}

static void marks_are_dropped(void **state)
{
	struct stream_fixture *f = *state;
	static const char *const texts[] = {"",
					    "a",
					    "\xef\xbb",
					    "\xef\xbb\xbf",
					    "\xef\xbb\xbfxyz",
					    "\xef\xbb\xbc"
					    "a",
					    "longer"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		for (size_t step = 1; step < 8; step++) {
			struct feeder feeder;
			pthread_t thread;
			size_t size, skip = strncmp(texts[i], WEIR_BYTE_ORDER_MARK, 3) == 0 ? 3 : 0;
			struct weir_file *file = open_pipe(f, &feeder, &thread, texts[i], strlen(texts[i]));

			assert_ok(&f->base, read_all(f, file, 0, &(struct weir_stream_options){0}, step, &size));
			assert_int_equal(size, strlen(texts[i]) - skip);
			assert_memory_equal(f->out, texts[i] + skip, size);
			pthread_join(thread, NULL);
			weir_file_unref(file);
		}
	}
}

static void silent_pipes_can_be_left(void **state)
{
	struct stream_fixture *f = *state;
	_Atomic bool cancelled = false;
	struct weir_file *file = NULL;
	struct weir_stream *stream = NULL;
	char buffer[16];
	size_t got;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_ok(&f->base, weir_file_open_pipe(f->base.account, fds[0], "-", &file, &f->base.error));
	assert_ok(&f->base, weir_file_begin_pipe(file, &cancelled, &f->base.error));
	assert_ok(&f->base, weir_stream_open(f->base.account, f->io, file, 0,
					     &(struct weir_stream_options){.encoding = WEIR_ENCODING_LATIN1}, &stream,
					     &f->base.error));
	assert_int_equal(write(fds[1], "ab", 2), 2);
	assert_ok(&f->base, weir_stream_read(stream, buffer, sizeof(buffer), &got, &f->base.error));
	assert_int_equal(got, 2);
	atomic_store(&cancelled, true);
	assert_int_equal(weir_stream_read(stream, buffer, sizeof(buffer), &got, &f->base.error), WEIR_E_CANCELLED);
	weir_stream_close(stream);
	weir_file_unref(file);
	close(fds[0]);
	close(fds[1]);
}

static void redirected_files_are_files(void **state)
{
	struct stream_fixture *f = *state;
	struct weir_file *file = NULL;
	char byte;
	size_t size;
	int fd;

	put_file(f, f->text, 5000);
	fd = open(f->path, O_RDONLY);
	assert_ok(&f->base, weir_file_open_pipe(f->base.account, fd, "-", &file, &f->base.error));
	assert_false(weir_file_is_pipe(file));
	assert_int_equal(weir_file_size(file), 5000);
	assert_ok(&f->base, weir_file_read(file, 4999, &byte, 1, &f->base.error));
	weir_file_unref(file);
	/* Somebody has read a byte of it: the rest is what is meant. */
	assert_int_equal(read(fd, &byte, 1), 1);
	assert_ok(&f->base, weir_file_open_pipe(f->base.account, fd, "-", &file, &f->base.error));
	assert_true(weir_file_is_pipe(file));
	assert_ok(&f->base, read_all(f, file, 0, &(struct weir_stream_options){0}, 0, &size));
	assert_int_equal(size, 4999);
	assert_memory_equal(f->out, f->text + 1, size);
	weir_file_unref(file);
	close(fd);
	assert_int_equal(weir_file_open_pipe(f->base.account, fd, "-", &file, &f->base.error), WEIR_E_IO);
	assert_null(file);
	fd = open(f->directory, O_RDONLY);
	assert_int_equal(weir_file_open_pipe(f->base.account, fd, "-", &file, &f->base.error), WEIR_E_INVALID);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(reads_what_python_wrote, setup, teardown),
		cmocka_unit_test_setup_teardown(reads_large_files, setup, teardown),
		cmocka_unit_test_setup_teardown(members_follow_each_other, setup, teardown),
		cmocka_unit_test_setup_teardown(cut_files_are_errors, setup, teardown),
		cmocka_unit_test_setup_teardown(changed_bits_are_survived, setup, teardown),
		cmocka_unit_test_setup_teardown(refused_memory_is_said, setup, teardown),
#ifdef WEIR_FAULTS
		cmocka_unit_test_setup_teardown(faults_are_errors, setup, teardown),
#endif
		cmocka_unit_test_setup_teardown(names_tell_the_compression, setup, teardown),
		cmocka_unit_test_setup_teardown(plain_files_are_read_from_anywhere, setup, teardown),
		cmocka_unit_test_setup_teardown(other_encodings_become_utf8, setup, teardown),
		cmocka_unit_test_setup_teardown(pairs_over_borders, setup, teardown),
		cmocka_unit_test_setup_teardown(broken_utf16_is_an_error, setup, teardown),
		cmocka_unit_test_setup_teardown(pipes_are_read_once, setup, teardown),
		cmocka_unit_test_setup_teardown(pipes_may_be_looked_at, setup, teardown),
		cmocka_unit_test_setup_teardown(marks_are_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(silent_pipes_can_be_left, setup, teardown),
		cmocka_unit_test_setup_teardown(redirected_files_are_files, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
