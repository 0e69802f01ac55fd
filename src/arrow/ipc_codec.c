/* Compressed bodies. Each buffer stands alone: an i64 with the length of what comes out (−1: it is stored plain), then
 * one LZ4 or zstd frame. The length is a claim of the sender: before memory is asked for, it must lie within what that
 * many compressed bytes can become, and agree with the frame where the frame says.
 */
#include "base/checked.h"
#include "arrow/ipc_impl.h"

#include <lz4frame.h>
#include <string.h>
#include <zstd.h>

enum {
	LENGTH_SIZE = 8,
	LZ4_RATIO_MAX = 255,              /* a byte of a match's length stands for at most 255 */
	ZSTD_BLOCK_BYTES_MAX = 128 << 10, /* out of a block of at least */
	ZSTD_BLOCK_BYTES_MIN = 4,
	/* What the libraries allocate by themselves, as charged to the account. */
	ZSTD_CONTEXT_BYTES = 192 << 10,
	LZ4_CONTEXT_BYTES = 1 << 10,
	LZ4_WINDOW_BYTES = 128 << 10,
};

static int damaged(const char *codec, const char *why, struct weir_error *err)
{
	return weir_error_set(err, WEIR_E_DATA, "a buffer compressed with %s is damaged: %s", codec, why);
}

static int zstd_check(const uint8_t *bytes, uint64_t size, uint64_t size_raw, struct weir_error *err)
{
	unsigned long long stated = ZSTD_getFrameContentSize(bytes, size);

	if (stated == ZSTD_CONTENTSIZE_ERROR)
		return damaged("zstd", "it does not begin with a frame", err);
	if (stated != ZSTD_CONTENTSIZE_UNKNOWN && stated > size_raw)
		return damaged("zstd", "the frame holds more than the message says", err);
	if (size_raw > (size / ZSTD_BLOCK_BYTES_MIN + 1) * ZSTD_BLOCK_BYTES_MAX)
		return damaged("zstd", "it cannot hold as much as the message says", err);
	return WEIR_OK;
}

static int zstd_inflate(struct ipc_codec *codec, const uint8_t *bytes, uint64_t size, uint8_t *to, uint64_t size_raw,
			struct weir_error *err)
{
	size_t got;

	if (!codec->zstd) {
		if (weir_account_charge(codec->account, ZSTD_CONTEXT_BYTES, err))
			return err->code;
		codec->zstd = ZSTD_createDCtx();
		if (!codec->zstd) {
			weir_account_discharge(codec->account, ZSTD_CONTEXT_BYTES);
			return weir_error_set(err, WEIR_E_MEMORY, "no memory for a zstd context");
		}
	}
	got = ZSTD_decompressDCtx(codec->zstd, to, size_raw, bytes, size);
	if (ZSTD_isError(got))
		return damaged("zstd", ZSTD_getErrorName(got), err);
	if (got != size_raw)
		return damaged("zstd", "it holds less than the message says", err);
	return WEIR_OK;
}

static uint64_t lz4_block_bytes(LZ4F_blockSizeID_t id)
{
	switch (id) {
	case LZ4F_max256KB:
		return 256 << 10;
	case LZ4F_max1MB:
		return 1 << 20;
	case LZ4F_max4MB:
		return 4 << 20;
	default:
		return 64 << 10;
	}
}

static int lz4_inflate(struct ipc_codec *codec, const uint8_t *bytes, uint64_t size, uint8_t *to, uint64_t size_raw,
		       struct weir_error *err)
{
	LZ4F_frameInfo_t info = LZ4F_INIT_FRAMEINFO;
	uint64_t done = 0, used, window;
	size_t taken = size, left;
	int code = WEIR_OK;

	if (!codec->lz4) {
		LZ4F_dctx *context;

		if (weir_account_charge(codec->account, LZ4_CONTEXT_BYTES, err))
			return err->code;
		if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION))) {
			weir_account_discharge(codec->account, LZ4_CONTEXT_BYTES);
			return weir_error_set(err, WEIR_E_MEMORY, "no memory for an LZ4 context");
		}
		codec->lz4 = context;
	}
	LZ4F_resetDecompressionContext(codec->lz4);
	left = LZ4F_getFrameInfo(codec->lz4, &info, bytes, &taken);
	if (LZ4F_isError(left))
		return damaged("LZ4", LZ4F_getErrorName(left), err);
	if (info.contentSize && info.contentSize != size_raw)
		return damaged("LZ4", "the frame holds another length than the message says", err);
	/* The library keeps a block in and a block out; they live on in the context and grow with the largest frame. */
	window = 2 * lz4_block_bytes(info.blockSizeID) + LZ4_WINDOW_BYTES;
	if (window > codec->lz4_window) {
		if (weir_account_charge(codec->account, (int64_t)(window - codec->lz4_window), err))
			return err->code;
		codec->lz4_window = window;
	}
	used = taken;
	while (left != 0 && !code) {
		size_t room = size_raw - done, step = size - used;

		left = LZ4F_decompress(codec->lz4, to + done, &room, bytes + used, &step, NULL);
		if (LZ4F_isError(left))
			code = damaged("LZ4", LZ4F_getErrorName(left), err);
		else if (left != 0 && room == 0 && step == 0)
			code = damaged("LZ4", used == size ? "it ends early" : "it holds more than the message says",
				       err);
		done += room;
		used += step;
	}
	if (!code && done != size_raw)
		code = damaged("LZ4", "it holds less than the message says", err);
	return code;
}

int ipc_decompress(struct ipc_codec *codec, int kind, const struct weir_buffer *bytes, struct weir_buffer *out,
		   struct weir_error *err)
{
	const uint8_t *frame;
	uint64_t size;
	uint8_t *to;
	int64_t length;
	int code;

	*out = (struct weir_buffer){0};
	if (bytes->size == 0)
		return WEIR_OK;
	if (bytes->size < LENGTH_SIZE)
		return weir_error_set(err, WEIR_E_DATA, "a compressed buffer of %llu bytes has no room for its length",
				      (unsigned long long)bytes->size);
	memcpy(&length, bytes->data, sizeof(length));
	frame = bytes->data + LENGTH_SIZE;
	size = bytes->size - LENGTH_SIZE;
	if (length == -1) {
		*out = (struct weir_buffer){.data = frame, .size = size, .owner = weir_owner_ref(bytes->owner)};
		return WEIR_OK;
	}
	if (length < 0)
		return weir_error_set(err, WEIR_E_DATA, "a compressed buffer claims %lld bytes", (long long)length);
	if (length == 0)
		return WEIR_OK;
	if (kind == CODEC_ZSTD)
		code = zstd_check(frame, size, (uint64_t)length, err);
	else
		code = (uint64_t)length / LZ4_RATIO_MAX > size
			       ? damaged("LZ4", "it cannot hold as much as the message says", err)
			       : WEIR_OK;
	if (code)
		return code;
	code = weir_buffer_new(codec->account, (uint64_t)length, out, &to, err);
	if (code)
		return code;
	code = kind == CODEC_ZSTD ? zstd_inflate(codec, frame, size, to, (uint64_t)length, err)
				  : lz4_inflate(codec, frame, size, to, (uint64_t)length, err);
	if (code)
		weir_buffer_release(out);
	return code;
}

void ipc_codec_release(struct ipc_codec *codec)
{
	if (codec->zstd) {
		ZSTD_freeDCtx(codec->zstd);
		weir_account_discharge(codec->account, ZSTD_CONTEXT_BYTES);
	}
	if (codec->lz4) {
		LZ4F_freeDecompressionContext(codec->lz4);
		weir_account_discharge(codec->account, (int64_t)(LZ4_CONTEXT_BYTES + codec->lz4_window));
	}
	codec->zstd = codec->lz4 = NULL;
	codec->lz4_window = 0;
}
