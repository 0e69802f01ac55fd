/* One table row a compression: begin a member, go on with it, release.
 *
 * zlib, zstd, libbz2 and liblzma allocate through the account (foreign.h), and when it refuses, its error is what the
 * caller gets. liblz4 1.9 allows no such thing; what it takes for a frame is known from the sixth byte of the frame's
 * header and is charged before it has seen the seventh, which is where it allocates.
 *
 *     between ─▶ begin ─▶ run … run ─▶ ended: between      zeros between gzip members, and xz streams, are padding
 */
#include "io/inflate.h"

#include "io/foreign.h"
#include "io/snappy_frames.h"

#include <limits.h>
#include <string.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <bzlib.h>
#include <lz4frame.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum {
	PIECE_MAX = 1 << 30,   /* zlib and libbz2 count in 32 bits */
	GZIP_WINDOW = 15 + 16, /* any window, gzip only */
	LZ4_HEAD = 6,          /* bytes of a frame's header up to its block size */
	LZ4_CONTEXT = 1 << 10,
};

struct inflate_ops;

struct weir_inflate {
	const struct inflate_ops *ops;
	struct weir_account *account;
	struct weir_foreign foreign; /* what zlib, zstd, libbz2 and liblzma take */
	bool open;                   /* a member is begun and not ended */
	bool any;                    /* a member has ended */
	z_stream zlib;
	bool zlib_made;
	bz_stream bz2;
	bool bz2_made;
	lzma_stream lzma;
	lzma_allocator lzma_allocator;
	ZSTD_DCtx *zstd;
	LZ4F_dctx *lz4;
	int64_t lz4_charged;
	unsigned char lz4_head[LZ4_HEAD];
	uint32_t lz4_head_size;
	struct weir_snappy_frames *snappy;
};

/* What one call may take and give. */
struct span {
	const char *in;
	size_t size_in, used;
	char *out;
	size_t size_out, made;
};

struct inflate_ops {
	const char *name;
	bool padded; /* zeros may follow a member */
	int (*begin)(struct weir_inflate *state, struct weir_error *err);
	int (*run)(struct weir_inflate *state, struct span *span, bool *ended, struct weir_error *err);
	void (*release)(struct weir_inflate *state);
};

/* ---- memory and failures ---- */

static int fail_memory(struct weir_inflate *state, struct weir_error *err)
{
	return weir_foreign_fail(&state->foreign, err, "no memory to decompress %s data", weir_inflate_name(state));
}

static int fail(const struct weir_inflate *state, const char *what, struct weir_error *err)
{
	return weir_error_set(err, WEIR_E_DATA, "cannot decompress %s data: %s", weir_inflate_name(state), what);
}

static unsigned piece(size_t size)
{
	return size < PIECE_MAX ? (unsigned)size : PIECE_MAX;
}

/* ---- gzip ---- */

static void *zlib_alloc(void *opaque, unsigned count, unsigned size)
{
	return weir_foreign_alloc(opaque, (size_t)count * size);
}

static int gzip_begin(struct weir_inflate *state, struct weir_error *err)
{
	z_stream *zlib = &state->zlib;

	if (state->zlib_made)
		return inflateReset(zlib) == Z_OK ? WEIR_OK : fail(state, "the decoder cannot be used again", err);
	*zlib = (z_stream){.zalloc = zlib_alloc, .zfree = weir_foreign_free, .opaque = &state->foreign};
	if (inflateInit2(zlib, GZIP_WINDOW) != Z_OK)
		return fail_memory(state, err);
	state->zlib_made = true;
	return WEIR_OK;
}

static int gzip_run(struct weir_inflate *state, struct span *span, bool *ended, struct weir_error *err)
{
	z_stream *zlib = &state->zlib;
	unsigned size_in = piece(span->size_in), size_out = piece(span->size_out);
	int result;

	zlib->next_in = (unsigned char *)span->in;
	zlib->avail_in = size_in;
	zlib->next_out = (unsigned char *)span->out;
	zlib->avail_out = size_out;
	result = inflate(zlib, Z_NO_FLUSH);
	span->used = size_in - zlib->avail_in;
	span->made = size_out - zlib->avail_out;
	*ended = result == Z_STREAM_END;
	if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR)
		return WEIR_OK;
	return result == Z_MEM_ERROR ? fail_memory(state, err)
				     : fail(state, zlib->msg ? zlib->msg : "it is damaged", err);
}

static void gzip_release(struct weir_inflate *state)
{
	if (state->zlib_made)
		inflateEnd(&state->zlib);
}

/* ---- zstd ---- */

static int zstd_begin(struct weir_inflate *state, struct weir_error *err)
{
	if (state->zstd)
		return WEIR_OK; /* the context begins frames by itself */
	state->zstd = ZSTD_createDCtx_advanced(
		(ZSTD_customMem){weir_foreign_alloc, weir_foreign_free, &state->foreign});
	/* Windows of any size: what they take is charged, and the account says what is too much. */
	if (!state->zstd || ZSTD_isError(ZSTD_DCtx_setParameter(state->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOWLOG_MAX)))
		return fail_memory(state, err);
	return WEIR_OK;
}

static int zstd_run(struct weir_inflate *state, struct span *span, bool *ended, struct weir_error *err)
{
	ZSTD_inBuffer in = {span->in, span->size_in, 0};
	ZSTD_outBuffer out = {span->out, span->size_out, 0};
	size_t result = ZSTD_decompressStream(state->zstd, &out, &in);

	span->used = in.pos;
	span->made = out.pos;
	*ended = result == 0;
	if (!ZSTD_isError(result))
		return WEIR_OK;
	if (state->foreign.refusal.code || ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation)
		return fail_memory(state, err);
	return fail(state, ZSTD_getErrorName(result), err);
}

static void zstd_release(struct weir_inflate *state)
{
	ZSTD_freeDCtx(state->zstd);
}

/* ---- bz2 ---- */

static void *bz2_alloc(void *opaque, int count, int size)
{
	return weir_foreign_alloc(opaque, (size_t)count * (size_t)size);
}

static void bz2_release(struct weir_inflate *state)
{
	if (state->bz2_made)
		BZ2_bzDecompressEnd(&state->bz2);
	state->bz2_made = false;
}

static int bz2_begin(struct weir_inflate *state, struct weir_error *err)
{
	bz2_release(state);
	state->bz2 = (bz_stream){.bzalloc = bz2_alloc, .bzfree = weir_foreign_free, .opaque = &state->foreign};
	if (BZ2_bzDecompressInit(&state->bz2, 0, 0) != BZ_OK)
		return fail_memory(state, err);
	state->bz2_made = true;
	return WEIR_OK;
}

static int bz2_run(struct weir_inflate *state, struct span *span, bool *ended, struct weir_error *err)
{
	bz_stream *bz2 = &state->bz2;
	unsigned size_in = piece(span->size_in), size_out = piece(span->size_out);
	int result;

	bz2->next_in = (char *)span->in;
	bz2->avail_in = size_in;
	bz2->next_out = span->out;
	bz2->avail_out = size_out;
	result = BZ2_bzDecompress(bz2);
	span->used = size_in - bz2->avail_in;
	span->made = size_out - bz2->avail_out;
	*ended = result == BZ_STREAM_END;
	switch (result) {
	case BZ_OK:
	case BZ_STREAM_END:
		return WEIR_OK;
	case BZ_MEM_ERROR:
		return fail_memory(state, err);
	case BZ_DATA_ERROR_MAGIC:
		return fail(state, "it does not begin with BZh", err);
	default:
		return fail(state, "it is damaged", err);
	}
}

/* ---- xz ---- */

static void *lzma_take(void *opaque, size_t count, size_t size)
{
	size_t total;

	return __builtin_mul_overflow(count, size, &total) ? NULL : weir_foreign_alloc(opaque, total);
}

static int xz_begin(struct weir_inflate *state, struct weir_error *err)
{
	state->lzma_allocator = (lzma_allocator){
		.alloc = lzma_take, .free = weir_foreign_free, .opaque = &state->foreign};
	state->lzma.allocator = &state->lzma_allocator;
	if (lzma_stream_decoder(&state->lzma, UINT64_MAX, 0) != LZMA_OK)
		return fail_memory(state, err);
	return WEIR_OK;
}

static int xz_run(struct weir_inflate *state, struct span *span, bool *ended, struct weir_error *err)
{
	lzma_stream *lzma = &state->lzma;
	lzma_ret result;

	lzma->next_in = (const uint8_t *)span->in;
	lzma->avail_in = span->size_in;
	lzma->next_out = (uint8_t *)span->out;
	lzma->avail_out = span->size_out;
	result = lzma_code(lzma, LZMA_RUN);
	span->used = span->size_in - lzma->avail_in;
	span->made = span->size_out - lzma->avail_out;
	*ended = result == LZMA_STREAM_END;
	switch (result) {
	case LZMA_OK:
	case LZMA_STREAM_END:
	case LZMA_BUF_ERROR: /* no progress: there was nothing to progress with */
		return WEIR_OK;
	case LZMA_MEM_ERROR:
		return fail_memory(state, err);
	case LZMA_FORMAT_ERROR:
		return fail(state, "it does not begin as an xz stream does", err);
	case LZMA_OPTIONS_ERROR:
		return fail(state, "it needs a filter that liblzma does not have, or is damaged", err);
	default:
		return fail(state, "it is damaged", err);
	}
}

static void xz_release(struct weir_inflate *state)
{
	lzma_end(&state->lzma);
}

/* ---- LZ4 ---- */

static int lz4_begin(struct weir_inflate *state, struct weir_error *err)
{
	state->lz4_head_size = 0;
	if (state->lz4)
		return WEIR_OK;
	if (weir_account_charge(state->account, LZ4_CONTEXT, err))
		return err->code;
	state->lz4_charged = LZ4_CONTEXT;
	if (LZ4F_isError(LZ4F_createDecompressionContext(&state->lz4, LZ4F_VERSION))) {
		state->lz4 = NULL;
		return fail_memory(state, err);
	}
	return WEIR_OK;
}

/* What liblz4 will keep for a frame with this header: one block in, one block and a window out. */
static int lz4_charge(struct weir_inflate *state, struct weir_error *err)
{
	unsigned id = state->lz4_head[5] >> 4 & 7;
	int64_t need = LZ4_CONTEXT;
	int code = WEIR_OK;

	if (memcmp(state->lz4_head, "\x04\x22\x4d\x18", 4) == 0 && id >= 4)
		need += 2 * ((int64_t)64 << 10 << 2 * (id - 4)) + (128 << 10);
	if (need > state->lz4_charged)
		code = weir_account_charge(state->account, need - state->lz4_charged, err);
	if (!code && need > state->lz4_charged)
		state->lz4_charged = need;
	return code;
}

static int lz4_run(struct weir_inflate *state, struct span *span, bool *ended, struct weir_error *err)
{
	size_t used = span->size_in, made = span->size_out, result;
	int code = WEIR_OK;

	if (state->lz4_head_size < LZ4_HEAD) {
		uint32_t missing = LZ4_HEAD - state->lz4_head_size;

		used = used < missing ? used : missing;
		memcpy(state->lz4_head + state->lz4_head_size, span->in, used);
		state->lz4_head_size += (uint32_t)used;
		if (state->lz4_head_size == LZ4_HEAD)
			code = lz4_charge(state, err);
	}
	if (code)
		return code;
	result = LZ4F_decompress(state->lz4, span->out, &made, span->in, &used, NULL);
	if (LZ4F_isError(result))
		return fail(state, LZ4F_getErrorName(result), err);
	span->used = used;
	span->made = made;
	*ended = result == 0;
	return WEIR_OK;
}

static void lz4_release(struct weir_inflate *state)
{
	LZ4F_freeDecompressionContext(state->lz4);
	weir_account_discharge(state->account, state->lz4_charged);
}

/* ---- Snappy: a chunk is a member ---- */

static int snappy_begin(struct weir_inflate *state, struct weir_error *err)
{
	return state->snappy ? WEIR_OK : weir_snappy_frames_new(state->account, &state->snappy, err);
}

static int snappy_run(struct weir_inflate *state, struct span *span, bool *ended, struct weir_error *err)
{
	const char *wrong = weir_snappy_frames_run(state->snappy, (const uint8_t *)span->in, span->size_in, &span->used,
						   (uint8_t *)span->out, span->size_out, &span->made, ended);

	return wrong ? fail(state, wrong, err) : WEIR_OK;
}

static void snappy_release(struct weir_inflate *state)
{
	weir_snappy_frames_free(state->snappy);
}

/* ---- all ---- */

static const struct inflate_ops table[] = {
	[WEIR_COMPRESSION_GZIP] = {"gzip", true, gzip_begin, gzip_run, gzip_release},
	[WEIR_COMPRESSION_ZSTD] = {"zstd", false, zstd_begin, zstd_run, zstd_release},
	[WEIR_COMPRESSION_BZ2] = {"bz2", false, bz2_begin, bz2_run, bz2_release},
	[WEIR_COMPRESSION_XZ] = {"xz", true, xz_begin, xz_run, xz_release},
	[WEIR_COMPRESSION_LZ4] = {"LZ4", false, lz4_begin, lz4_run, lz4_release},
	[WEIR_COMPRESSION_SNAPPY] = {"Snappy", false, snappy_begin, snappy_run, snappy_release},
};

int weir_inflate_new(struct weir_account *account, enum weir_compression compression, struct weir_inflate **out,
		     struct weir_error *err)
{
	struct weir_inflate *state = weir_alloc_zero(account, sizeof(*state), err);

	*out = state;
	if (!state)
		return err->code;
	WEIR_ASSERT(compression >= WEIR_COMPRESSION_GZIP && compression <= WEIR_COMPRESSION_SNAPPY);
	state->account = state->foreign.account = account;
	state->ops = &table[compression];
	return WEIR_OK;
}

void weir_inflate_free(struct weir_inflate *state)
{
	if (!state)
		return;
	state->ops->release(state);
	weir_free(state->account, state, sizeof(*state));
}

bool weir_inflate_is_between(const struct weir_inflate *state)
{
	return !state->open;
}

const char *weir_inflate_name(const struct weir_inflate *state)
{
	return state->ops->name;
}

int weir_inflate_run(struct weir_inflate *state, const void *in, size_t size_in, size_t *used, void *out,
		     size_t size_out, size_t *made, struct weir_error *err)
{
	struct span span = {.in = in, .size_in = size_in, .out = out, .size_out = size_out};
	size_t padding = 0;
	bool ended = false;
	int code = WEIR_OK;

	*used = *made = 0;
	if (!state->open) {
		while (state->any && state->ops->padded && padding < size_in && span.in[padding] == 0)
			padding++;
		*used = padding;
		span.in += padding;
		span.size_in -= padding;
		if (span.size_in == 0)
			return WEIR_OK;
		code = state->ops->begin(state, err);
		state->open = !code;
	}
	if (!code)
		code = state->ops->run(state, &span, &ended, err);
	*used += span.used;
	*made = span.made;
	if (!code && ended) {
		state->open = false;
		state->any = true;
	}
	return code;
}
