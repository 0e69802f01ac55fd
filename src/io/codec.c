/* One table row a codec; each row decompresses a whole buffer into a whole buffer.
 *
 * Contexts (zstd, LZ4 frame, deflate) are made at first use and kept. zstd and the brotli decoder allocate through the
 * account (foreign.h), and when it refuses, its error is what the caller gets. The others use malloc, and what they
 * take is charged beforehand, from figures measured here: libdeflate and LZ4 frames take no allocator, and the brotli
 * encoder (1.0.9) ends the process when it is refused memory. Snappy's working memory is less than 200 KiB and lives no
 * longer than the call.
 *
 * What Parquet files in the wild call by one name is not always one format, so reading is wider than writing:
 *   GZIP        gzip, also of several members; zlib; bare deflate
 *   LZ4_HADOOP  [be32 bytes out][be32 bytes in][raw block]… as Hadoop writes it; a frame; one raw block
 */
#include "io/codec.h"

#include "io/foreign.h"
#include "io/snappy.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <brotli/decode.h>
#include <brotli/encode.h>
#include <libdeflate.h>
#include <lz4.h>
#include <lz4frame.h>
#include <lz4hc.h>
#include <snappy-c.h>
#include <zstd.h>
#include <zstd_errors.h>

enum {
	GZIP_LEVEL_DEFAULT = 6,
	GZIP_LEVEL_MAX = 12,
	BROTLI_LEVEL_DEFAULT = 6,
	BROTLI_WINDOW_BITS_MIN = 16,
	ZSTD_LEVEL_DEFAULT = 1,
	LZ4_HC_LEVEL_MIN = 3, /* below: the fast compressor, whose negative levels are accelerations */
	LZ4_ACCELERATION_MAX = 65537,
	INFLATE_CONTEXT = 16 << 10, /* what libdeflate 1.14 takes, rounded up */
	LZ4F_CONTEXT = 1 << 10,
	LZ4F_KEEP_MAX = 1 << 20, /* a frame with larger blocks gives its buffers back at once */
	HADOOP_HEADER = 8,
};

struct weir_codecs {
	struct weir_account *account;
	struct weir_foreign foreign; /* what zstd and brotli take */
	ZSTD_DCtx *zstd_in;
	ZSTD_CCtx *zstd_out;
	struct libdeflate_decompressor *inflate;
	struct libdeflate_compressor *deflate;
	int deflate_level;
	int64_t deflate_charged;
	LZ4F_dctx *lz4f_in;
	int64_t lz4f_charged;
};

static int fail(struct weir_error *err, const char *name, const char *what)
{
	return weir_error_set(err, WEIR_E_DATA, "cannot decompress %s data: %s", name, what);
}

static int fail_size(struct weir_error *err, const char *name, size_t size_expected, unsigned long long size)
{
	return weir_error_set(err, WEIR_E_DATA, "%s data decompresses to %llu bytes where %zu were announced", name,
			      size, size_expected);
}

static int fail_memory(struct weir_codecs *codecs, const char *name, struct weir_error *err)
{
	return weir_foreign_fail(&codecs->foreign, err, "no memory for a %s context", name);
}

/* ---- none, snappy ---- */

static int none_decompress(struct weir_codecs *codecs, const char *in, size_t size_in, char *out, size_t size_out,
			   struct weir_error *err)
{
	(void)codecs;
	if (size_in != size_out)
		return fail_size(err, "uncompressed", size_out, size_in);
	memcpy(out, in, size_in);
	return WEIR_OK;
}

static int none_compress(struct weir_codecs *codecs, int level, const char *in, size_t size_in, char *out,
			 size_t capacity, size_t *size_out, struct weir_error *err)
{
	(void)codecs, (void)level, (void)capacity, (void)err;
	if (size_in)
		memcpy(out, in, size_in);
	*size_out = size_in;
	return WEIR_OK;
}

static size_t none_bound(size_t size_in)
{
	return size_in;
}

static int snappy_decompress(struct weir_codecs *codecs, const char *in, size_t size_in, char *out, size_t size_out,
			     struct weir_error *err)
{
	uint64_t size;

	(void)codecs;
	if (!weir_snappy_size((const uint8_t *)in, size_in, &size))
		return fail(err, "Snappy", "it has no valid length");
	if (size != size_out)
		return fail_size(err, "Snappy", size_out, size);
	if (!weir_snappy_inflate((const uint8_t *)in, size_in, (uint8_t *)out, size_out))
		return fail(err, "Snappy", "it is damaged");
	return WEIR_OK;
}

static int snappy_compress_whole(struct weir_codecs *codecs, int level, const char *in, size_t size_in, char *out,
				 size_t capacity, size_t *size_out, struct weir_error *err)
{
	(void)codecs, (void)level;
	if (size_in > UINT32_MAX)
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "Snappy cannot hold %zu bytes at once", size_in);
	*size_out = capacity;
	if (snappy_compress(in, size_in, out, size_out) != SNAPPY_OK)
		return weir_error_set(err, WEIR_E_INTERNAL, "Snappy refused to compress %zu bytes", size_in);
	return WEIR_OK;
}

/* ---- gzip, zlib, deflate ---- */

static int inflate_context(struct weir_codecs *codecs, struct weir_error *err)
{
	int code;

	if (codecs->inflate)
		return WEIR_OK;
	code = weir_account_charge(codecs->account, INFLATE_CONTEXT, err);
	if (code)
		return code;
	codecs->inflate = libdeflate_alloc_decompressor();
	if (codecs->inflate)
		return WEIR_OK;
	weir_account_discharge(codecs->account, INFLATE_CONTEXT);
	return fail_memory(codecs, "deflate", err);
}

static bool all_zero(const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i])
			return false;
	return true;
}

static int gzip_decompress_members(struct weir_codecs *codecs, const char *in, size_t size_in, char *out,
				   size_t size_out, struct weir_error *err)
{
	size_t at = 0, done = 0;

	do {
		size_t used, made;
		enum libdeflate_result result = libdeflate_gzip_decompress_ex(
			codecs->inflate, in + at, size_in - at, out + done, size_out - done, &used, &made);

		if (result == LIBDEFLATE_INSUFFICIENT_SPACE)
			return weir_error_set(err, WEIR_E_DATA,
					      "gzip data decompresses to more than the %zu bytes announced", size_out);
		if (result != LIBDEFLATE_SUCCESS)
			return fail(err, "gzip", "it is damaged or cut short");
		at += used;
		done += made;
		/* Tape-sized writers pad with zeros, which gzip itself ignores. */
	} while (at < size_in && !all_zero(in + at, size_in - at));
	return done == size_out ? WEIR_OK : fail_size(err, "gzip", size_out, done);
}

static int gzip_decompress(struct weir_codecs *codecs, const char *in, size_t size_in, char *out, size_t size_out,
			   struct weir_error *err)
{
	const unsigned char *head = (const unsigned char *)in;
	enum libdeflate_result result = LIBDEFLATE_BAD_DATA;
	size_t used = 0, made = 0;
	int code = inflate_context(codecs, err);

	if (code)
		return code;
	/* 1f is no valid first byte of bare deflate, 1f 8b none of zlib: the magic decides. */
	if (size_in >= 2 && head[0] == 0x1f && head[1] == 0x8b)
		return gzip_decompress_members(codecs, in, size_in, out, size_out, err);
	if (size_in >= 2 && (head[0] & 15) == 8 && (head[0] << 8 | head[1]) % 31 == 0)
		result = libdeflate_zlib_decompress_ex(codecs->inflate, in, size_in, out, size_out, &used, &made);
	if (result == LIBDEFLATE_BAD_DATA)
		result = libdeflate_deflate_decompress_ex(codecs->inflate, in, size_in, out, size_out, &used, &made);
	if (result == LIBDEFLATE_INSUFFICIENT_SPACE)
		return weir_error_set(err, WEIR_E_DATA,
				      "deflate data decompresses to more than the %zu bytes announced", size_out);
	if (result != LIBDEFLATE_SUCCESS)
		return fail(err, "gzip", "it is neither gzip nor zlib nor deflate, or damaged");
	if (made != size_out)
		return fail_size(err, "deflate", size_out, made);
	if (used != size_in && !all_zero(in + used, size_in - used))
		return fail(err, "deflate", "other bytes follow it");
	return WEIR_OK;
}

/* Sizes of libdeflate 1.14's compressors, rounded up. */
static int64_t deflate_context_size(int level)
{
	return level <= 1 ? 512 << 10 : level <= 9 ? 1 << 20 : 10 << 20;
}

static void deflate_release(struct weir_codecs *codecs)
{
	libdeflate_free_compressor(codecs->deflate);
	codecs->deflate = NULL;
	weir_account_discharge(codecs->account, codecs->deflate_charged);
	codecs->deflate_charged = 0;
}

static int gzip_compress(struct weir_codecs *codecs, int level, const char *in, size_t size_in, char *out,
			 size_t capacity, size_t *size_out, struct weir_error *err)
{
	int code;

	level = level ? level : GZIP_LEVEL_DEFAULT;
	if (level < 0 || level > GZIP_LEVEL_MAX)
		return weir_error_set(err, WEIR_E_VALUE, "gzip has levels 1 to %d, not %d", GZIP_LEVEL_MAX, level);
	if (!codecs->deflate || codecs->deflate_level != level) {
		deflate_release(codecs);
		code = weir_account_charge(codecs->account, deflate_context_size(level), err);
		if (code)
			return code;
		codecs->deflate_charged = deflate_context_size(level);
		codecs->deflate_level = level;
		codecs->deflate = libdeflate_alloc_compressor(level);
		if (!codecs->deflate) {
			deflate_release(codecs);
			return fail_memory(codecs, "deflate", err);
		}
	}
	*size_out = libdeflate_gzip_compress(codecs->deflate, in, size_in, out, capacity);
	if (!*size_out)
		return weir_error_set(err, WEIR_E_INTERNAL, "libdeflate refused to compress %zu bytes", size_in);
	return WEIR_OK;
}

static size_t gzip_bound(size_t size_in)
{
	return libdeflate_gzip_compress_bound(NULL, size_in);
}

/* ---- brotli ---- */

static int brotli_decompress(struct weir_codecs *codecs, const char *in, size_t size_in, char *out, size_t size_out,
			     struct weir_error *err)
{
	BrotliDecoderState *state = BrotliDecoderCreateInstance(weir_foreign_alloc, weir_foreign_free,
								&codecs->foreign);
	const uint8_t *next_in = (const uint8_t *)in;
	uint8_t *next_out = (uint8_t *)out;
	size_t left_in = size_in, left_out = size_out;
	BrotliDecoderResult result;
	int code = WEIR_OK;

	if (!state)
		return fail_memory(codecs, "brotli", err);
	result = BrotliDecoderDecompressStream(state, &left_in, &next_in, &left_out, &next_out, NULL);
	if (codecs->foreign.refusal.code)
		code = fail_memory(codecs, "brotli", err);
	else if (result == BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT)
		code = fail(err, "brotli", "it is cut short");
	else if (result == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT)
		code = weir_error_set(err, WEIR_E_DATA, "brotli data decompresses to more than the %zu bytes announced",
				      size_out);
	else if (result != BROTLI_DECODER_RESULT_SUCCESS)
		code = fail(err, "brotli", BrotliDecoderErrorString(BrotliDecoderGetErrorCode(state)));
	else if (left_out)
		code = fail_size(err, "brotli", size_out, size_out - left_out);
	else if (left_in)
		code = fail(err, "brotli", "other bytes follow it");
	BrotliDecoderDestroyInstance(state);
	return code;
}

/* At least what encoders were measured to take: tables by level, and about the window several times. */
static int64_t brotli_encoder_size(int level, int window_bits)
{
	int64_t tables = level <= 6 ? 4 << 20 : level == 7 ? 12 << 20 : level == 8 ? 20 << 20 : 40 << 20;

	return tables + 12 * ((int64_t)1 << window_bits);
}

static int brotli_compress(struct weir_codecs *codecs, int level, const char *in, size_t size_in, char *out,
			   size_t capacity, size_t *size_out, struct weir_error *err)
{
	BrotliEncoderState *state;
	const uint8_t *next_in = (const uint8_t *)in;
	uint8_t *next_out = (uint8_t *)out;
	size_t left_in = size_in, left_out = capacity;
	int window_bits = BROTLI_WINDOW_BITS_MIN, code;
	int64_t charge;

	level = level ? level : BROTLI_LEVEL_DEFAULT;
	if (level < 0 || level > BROTLI_MAX_QUALITY)
		return weir_error_set(err, WEIR_E_VALUE, "brotli has levels 1 to %d, not %d", BROTLI_MAX_QUALITY,
				      level);
	while (window_bits < BROTLI_DEFAULT_WINDOW && (size_t)1 << window_bits < size_in)
		window_bits++;
	charge = brotli_encoder_size(level, window_bits);
	code = weir_account_charge(codecs->account, charge, err);
	if (code)
		return code;
	state = BrotliEncoderCreateInstance(NULL, NULL, NULL);
	if (!state) {
		code = fail_memory(codecs, "brotli", err);
		goto out;
	}
	BrotliEncoderSetParameter(state, BROTLI_PARAM_QUALITY, (uint32_t)level);
	BrotliEncoderSetParameter(state, BROTLI_PARAM_LGWIN, (uint32_t)window_bits);
	BrotliEncoderSetParameter(state, BROTLI_PARAM_SIZE_HINT, size_in > UINT32_MAX ? UINT32_MAX : (uint32_t)size_in);
	if (!BrotliEncoderCompressStream(state, BROTLI_OPERATION_FINISH, &left_in, &next_in, &left_out, &next_out,
					 NULL) ||
	    !BrotliEncoderIsFinished(state))
		code = weir_error_set(err, WEIR_E_INTERNAL, "brotli refused to compress %zu bytes", size_in);
	*size_out = capacity - left_out;
out:
	BrotliEncoderDestroyInstance(state);
	weir_account_discharge(codecs->account, charge);
	return code;
}

static size_t brotli_bound(size_t size_in)
{
	/* The encoder's own bound holds for its one-shot call, which stores what does not shrink; a stream costs a
	 * little more for each of its blocks. */
	return size_in + (size_in >> 12) + 1024;
}

/* ---- zstd ---- */

static int fail_zstd(struct weir_codecs *codecs, size_t result, const char *verb, struct weir_error *err)
{
	ZSTD_ErrorCode why = ZSTD_getErrorCode(result);

	if (codecs->foreign.refusal.code || why == ZSTD_error_memory_allocation)
		return fail_memory(codecs, "zstd", err);
	return weir_error_set(err, WEIR_E_DATA, "cannot %s zstd data: %s", verb, ZSTD_getErrorName(result));
}

static int zstd_decompress(struct weir_codecs *codecs, const char *in, size_t size_in, char *out, size_t size_out,
			   struct weir_error *err)
{
	size_t size;

	if (!codecs->zstd_in)
		codecs->zstd_in = ZSTD_createDCtx_advanced(
			(ZSTD_customMem){weir_foreign_alloc, weir_foreign_free, &codecs->foreign});
	if (!codecs->zstd_in)
		return fail_memory(codecs, "zstd", err);
	size = ZSTD_decompressDCtx(codecs->zstd_in, out, size_out, in, size_in);
	if (ZSTD_isError(size))
		return fail_zstd(codecs, size, "decompress", err);
	return size == size_out ? WEIR_OK : fail_size(err, "zstd", size_out, size);
}

static int zstd_compress(struct weir_codecs *codecs, int level, const char *in, size_t size_in, char *out,
			 size_t capacity, size_t *size_out, struct weir_error *err)
{
	level = level ? level : ZSTD_LEVEL_DEFAULT;
	if (level < ZSTD_minCLevel() || level > ZSTD_maxCLevel())
		return weir_error_set(err, WEIR_E_VALUE, "zstd has levels up to %d, not %d", ZSTD_maxCLevel(), level);
	if (!codecs->zstd_out)
		codecs->zstd_out = ZSTD_createCCtx_advanced(
			(ZSTD_customMem){weir_foreign_alloc, weir_foreign_free, &codecs->foreign});
	if (!codecs->zstd_out)
		return fail_memory(codecs, "zstd", err);
	*size_out = ZSTD_compressCCtx(codecs->zstd_out, out, capacity, in, size_in, level);
	return ZSTD_isError(*size_out) ? fail_zstd(codecs, *size_out, "compress", err) : WEIR_OK;
}

/* ---- LZ4: raw block ---- */

static int lz4_raw_decompress(struct weir_codecs *codecs, const char *in, size_t size_in, char *out, size_t size_out,
			      struct weir_error *err)
{
	int size;

	(void)codecs;
	if (size_in > INT_MAX || size_out > INT_MAX)
		return weir_error_set(err, WEIR_E_DATA, "an LZ4 block of %zu bytes is larger than LZ4 allows",
				      size_out);
	size = LZ4_decompress_safe(in, out, (int)size_in, (int)size_out);
	if (size < 0)
		return fail(err, "LZ4", "it is damaged, or larger than announced");
	return (size_t)size == size_out ? WEIR_OK : fail_size(err, "LZ4", size_out, (unsigned)size);
}

static int lz4_raw_compress(struct weir_codecs *codecs, int level, const char *in, size_t size_in, char *out,
			    size_t capacity, size_t *size_out, struct weir_error *err)
{
	bool high = level >= LZ4_HC_LEVEL_MIN;
	size_t state_size = (size_t)(high ? LZ4_sizeofStateHC() : LZ4_sizeofState());
	int room = capacity > INT_MAX ? INT_MAX : (int)capacity;
	void *state;
	int size;

	if (size_in > LZ4_MAX_INPUT_SIZE)
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "LZ4 cannot hold %zu bytes at once", size_in);
	if (level > LZ4HC_CLEVEL_MAX || level < -LZ4_ACCELERATION_MAX)
		return weir_error_set(err, WEIR_E_VALUE, "LZ4 has levels up to %d, not %d", LZ4HC_CLEVEL_MAX, level);
	state = weir_alloc(codecs->account, state_size, err);
	if (!state)
		return err->code;
	size = high ? LZ4_compress_HC_extStateHC(state, in, out, (int)size_in, room, level)
		    : LZ4_compress_fast_extState(state, in, out, (int)size_in, room, level < 0 ? -level : 1);
	weir_free(codecs->account, state, state_size);
	if (size <= 0)
		return weir_error_set(err, WEIR_E_INTERNAL, "LZ4 refused to compress %zu bytes", size_in);
	*size_out = (size_t)size;
	return WEIR_OK;
}

static size_t lz4_raw_bound(size_t size_in)
{
	return size_in + size_in / 255 + 16;
}

/* ---- LZ4: frame ---- */

static bool lz4_frame_magic(const char *in, size_t size_in)
{
	return size_in >= 4 && !memcmp(in, "\x04\x22\x4d\x18", 4);
}

/* What liblz4 will keep for a frame with this header: one block in, one block and a window out. */
static int64_t lz4_frame_need(const char *in, size_t size_in)
{
	unsigned id = lz4_frame_magic(in, size_in) && size_in > 5 ? (unsigned char)in[5] >> 4 & 7 : 0;

	return LZ4F_CONTEXT + (id < 4 ? 0 : 2 * ((int64_t)64 << 10 << 2 * (id - 4)) + (128 << 10));
}

static void lz4_frame_release(struct weir_codecs *codecs)
{
	LZ4F_freeDecompressionContext(codecs->lz4f_in);
	codecs->lz4f_in = NULL;
	weir_account_discharge(codecs->account, codecs->lz4f_charged);
	codecs->lz4f_charged = 0;
}

static int lz4_frame_charge(struct weir_codecs *codecs, int64_t need, struct weir_error *err)
{
	int code;

	if (need <= codecs->lz4f_charged)
		return WEIR_OK;
	code = weir_account_charge(codecs->account, need - codecs->lz4f_charged, err);
	if (!code)
		codecs->lz4f_charged = need;
	return code;
}

static int lz4_frame_decompress(struct weir_codecs *codecs, const char *in, size_t size_in, char *out, size_t size_out,
				struct weir_error *err)
{
	size_t at = 0, done = 0, hint = 0;
	int code = WEIR_OK;

	if (!size_in)
		return size_out ? fail(err, "LZ4", "it is empty") : WEIR_OK;
	while (at < size_in) {
		size_t used = size_in - at, made = size_out - done;

		if (!hint) { /* a frame begins here */
			code = lz4_frame_charge(codecs, lz4_frame_need(in + at, size_in - at), err);
			if (code)
				goto out;
		}
		if (!codecs->lz4f_in && LZ4F_isError(LZ4F_createDecompressionContext(&codecs->lz4f_in, LZ4F_VERSION))) {
			codecs->lz4f_in = NULL;
			code = fail_memory(codecs, "LZ4", err);
			goto out;
		}
		hint = LZ4F_decompress(codecs->lz4f_in, out + done, &made, in + at, &used,
				       &(LZ4F_decompressOptions_t){.stableDst = 1});
		if (LZ4F_isError(hint)) {
			code = fail(err, "LZ4", LZ4F_getErrorName(hint));
			goto out;
		}
		at += used;
		done += made;
		if (!used && !made) {
			code = weir_error_set(err, WEIR_E_DATA,
					      "LZ4 data decompresses to more than the %zu bytes announced", size_out);
			goto out;
		}
	}
	if (hint)
		code = done == size_out ? fail(err, "LZ4", "its end is missing, or it is longer than announced")
					: fail(err, "LZ4", "it is cut short");
	else if (done != size_out)
		code = fail_size(err, "LZ4", size_out, done);
out:
	if (code && codecs->lz4f_in)
		LZ4F_resetDecompressionContext(codecs->lz4f_in);
	if (codecs->lz4f_charged > LZ4F_KEEP_MAX)
		lz4_frame_release(codecs);
	return code;
}

static int lz4_frame_compress(struct weir_codecs *codecs, int level, const char *in, size_t size_in, char *out,
			      size_t capacity, size_t *size_out, struct weir_error *err)
{
	LZ4F_preferences_t preferences = {.compressionLevel = level};

	(void)codecs;
	*size_out = LZ4F_compressFrame(out, capacity, in, size_in, &preferences);
	if (LZ4F_isError(*size_out))
		return weir_error_set(err, WEIR_E_INTERNAL, "LZ4 refused to compress %zu bytes: %s", size_in,
				      LZ4F_getErrorName(*size_out));
	return WEIR_OK;
}

static size_t lz4_frame_bound(size_t size_in)
{
	return LZ4F_compressFrameBound(size_in, NULL);
}

/* ---- LZ4: as Hadoop frames it ---- */

static uint32_t be32(const char *bytes)
{
	const unsigned char *b = (const unsigned char *)bytes;

	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void be32_put(char *out, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		out[i] = (char)(value >> (24 - 8 * i));
}

/* A section says how much comes out of it in all, and then has one or more blocks, each with its length before it. */
static bool lz4_hadoop_sections(const char *in, size_t size_in, char *out, size_t size_out)
{
	size_t at = 0, done = 0;

	while (at < size_in) {
		size_t section, section_done = 0;

		if (size_in - at < HADOOP_HEADER)
			return false;
		section = be32(in + at);
		at += 4;
		if (section > size_out - done || section > INT_MAX)
			return false;
		do {
			size_t block;
			int made;

			if (size_in - at < 4)
				return false;
			block = be32(in + at);
			at += 4;
			if (block > size_in - at || block > INT_MAX)
				return false;
			made = LZ4_decompress_safe(in + at, out + done, (int)block, (int)(section - section_done));
			if (made < 0 || (made == 0 && section))
				return false;
			at += block;
			done += (size_t)made;
			section_done += (size_t)made;
		} while (section_done < section);
	}
	return done == size_out;
}

static int lz4_hadoop_decompress(struct weir_codecs *codecs, const char *in, size_t size_in, char *out, size_t size_out,
				 struct weir_error *err)
{
	if (lz4_frame_magic(in, size_in) && !lz4_frame_decompress(codecs, in, size_in, out, size_out, err))
		return WEIR_OK;
	if (lz4_hadoop_sections(in, size_in, out, size_out))
		return WEIR_OK;
	if (!lz4_raw_decompress(codecs, in, size_in, out, size_out, err))
		return WEIR_OK;
	return weir_error_set(
		err, WEIR_E_DATA,
		"cannot decompress LZ4 data: neither as Hadoop's blocks nor as a frame nor as one block do "
		"%zu bytes come out of it",
		size_out);
}

static int lz4_hadoop_compress(struct weir_codecs *codecs, int level, const char *in, size_t size_in, char *out,
			       size_t capacity, size_t *size_out, struct weir_error *err)
{
	int code = lz4_raw_compress(codecs, level, in, size_in, out + HADOOP_HEADER, capacity - HADOOP_HEADER, size_out,
				    err);

	if (code)
		return code;
	be32_put(out, (uint32_t)size_in);
	be32_put(out + 4, (uint32_t)*size_out);
	*size_out += HADOOP_HEADER;
	return WEIR_OK;
}

static size_t lz4_hadoop_bound(size_t size_in)
{
	return lz4_raw_bound(size_in) + HADOOP_HEADER;
}

/* ---- the table ---- */

static const struct {
	const char *name;
	int (*decompress)(struct weir_codecs *, const char *, size_t, char *, size_t, struct weir_error *);
	int (*compress)(struct weir_codecs *, int, const char *, size_t, char *, size_t, size_t *, struct weir_error *);
	size_t (*bound)(size_t);
} codec_table[WEIR_CODEC_COUNT] = {
	[WEIR_CODEC_NONE] = {"none", none_decompress, none_compress, none_bound},
	[WEIR_CODEC_SNAPPY] = {"snappy", snappy_decompress, snappy_compress_whole, snappy_max_compressed_length},
	[WEIR_CODEC_GZIP] = {"gzip", gzip_decompress, gzip_compress, gzip_bound},
	[WEIR_CODEC_BROTLI] = {"brotli", brotli_decompress, brotli_compress, brotli_bound},
	[WEIR_CODEC_ZSTD] = {"zstd", zstd_decompress, zstd_compress, ZSTD_compressBound},
	[WEIR_CODEC_LZ4_RAW] = {"lz4", lz4_raw_decompress, lz4_raw_compress, lz4_raw_bound},
	[WEIR_CODEC_LZ4_HADOOP] = {"lz4_hadoop", lz4_hadoop_decompress, lz4_hadoop_compress, lz4_hadoop_bound},
	[WEIR_CODEC_LZ4_FRAME] = {"lz4_frame", lz4_frame_decompress, lz4_frame_compress, lz4_frame_bound},
};

/* Other names for the same, as Parquet, Arrow and users write them. */
static const struct {
	const char *name;
	enum weir_codec codec;
} codec_alias[] = {
	{"uncompressed", WEIR_CODEC_NONE}, {"lz4_raw", WEIR_CODEC_LZ4_RAW}, {"zstandard", WEIR_CODEC_ZSTD},
	{"gz", WEIR_CODEC_GZIP},           {"br", WEIR_CODEC_BROTLI},       {"zst", WEIR_CODEC_ZSTD},
};

int weir_codecs_new(struct weir_account *account, struct weir_codecs **out, struct weir_error *err)
{
	*out = weir_alloc_zero(account, sizeof(**out), err);
	if (!*out)
		return err->code;
	(*out)->account = (*out)->foreign.account = account;
	return WEIR_OK;
}

void weir_codecs_free(struct weir_codecs *codecs)
{
	if (!codecs)
		return;
	ZSTD_freeDCtx(codecs->zstd_in);
	ZSTD_freeCCtx(codecs->zstd_out);
	if (codecs->inflate) {
		libdeflate_free_decompressor(codecs->inflate);
		weir_account_discharge(codecs->account, INFLATE_CONTEXT);
	}
	deflate_release(codecs);
	lz4_frame_release(codecs);
	weir_free(codecs->account, codecs, sizeof(*codecs));
}

const char *weir_codec_name(enum weir_codec codec)
{
	WEIR_ASSERT((unsigned)codec < WEIR_CODEC_COUNT);
	return codec_table[codec].name;
}

int weir_codec_parse(const char *name, enum weir_codec *out, struct weir_error *err)
{
	for (unsigned codec = 0; codec < WEIR_CODEC_COUNT; codec++) {
		if (!strcasecmp(name, codec_table[codec].name)) {
			*out = (enum weir_codec)codec;
			return WEIR_OK;
		}
	}
	for (size_t i = 0; i < sizeof(codec_alias) / sizeof(codec_alias[0]); i++) {
		if (!strcasecmp(name, codec_alias[i].name)) {
			*out = codec_alias[i].codec;
			return WEIR_OK;
		}
	}
	return weir_error_set(
		err, WEIR_E_VALUE,
		"there is no codec \"%s\"; there are none, snappy, gzip, brotli, zstd, lz4, lz4_hadoop and "
		"lz4_frame",
		name);
}

int weir_codec_decompress(struct weir_codecs *codecs, enum weir_codec codec, const void *in, size_t size_in, void *out,
			  size_t size_out, struct weir_error *err)
{
	char nothing[1] = {0};

	WEIR_ASSERT((unsigned)codec < WEIR_CODEC_COUNT);
	/* Writers leave a page without values empty instead of compressing nothing. */
	if (!size_in && !size_out)
		return WEIR_OK;
	if (!size_in)
		return weir_error_set(err, WEIR_E_DATA, "there is no %s data where %zu bytes were announced",
				      codec_table[codec].name, size_out);
	/* Libraries differ in what they do with a null pointer to nothing. */
	return codec_table[codec].decompress(codecs, in, size_in, size_out ? out : nothing, size_out, err);
}

size_t weir_codec_bound(enum weir_codec codec, size_t size_in)
{
	WEIR_ASSERT((unsigned)codec < WEIR_CODEC_COUNT);
	return codec_table[codec].bound(size_in);
}

int weir_codec_compress(struct weir_codecs *codecs, enum weir_codec codec, int level, const void *in, size_t size_in,
			void *out, size_t capacity, size_t *size_out, struct weir_error *err)
{
	char nothing[1] = {0};

	WEIR_ASSERT((unsigned)codec < WEIR_CODEC_COUNT);
	WEIR_ASSERT(capacity >= codec_table[codec].bound(size_in));
	*size_out = 0;
	return codec_table[codec].compress(codecs, level, size_in ? in : nothing, size_in, out, capacity, size_out,
					   err);
}
