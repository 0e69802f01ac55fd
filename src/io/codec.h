/* codec: compression behind one table; contexts are reused, one struct weir_codecs a lane (not shared by threads). */
#ifndef WEIR_IO_CODEC_H
#define WEIR_IO_CODEC_H

#include "base/mem.h"

enum weir_codec {
	WEIR_CODEC_NONE,
	WEIR_CODEC_SNAPPY,
	WEIR_CODEC_GZIP,
	WEIR_CODEC_BROTLI,
	WEIR_CODEC_ZSTD,
	WEIR_CODEC_LZ4_RAW,
	WEIR_CODEC_LZ4_HADOOP, /* big-endian block lengths before raw blocks; raw and frame format accepted on read */
	WEIR_CODEC_LZ4_FRAME,
	WEIR_CODEC_COUNT
};

struct weir_codecs;

int weir_codecs_new(struct weir_account *account, struct weir_codecs **out, struct weir_error *err);
void weir_codecs_free(struct weir_codecs *codecs);
const char *weir_codec_name(enum weir_codec codec);
int weir_codec_parse(const char *name, enum weir_codec *out, struct weir_error *err);

/* Exactly `size_out` bytes come out, or it is WEIR_E_DATA. Never writes past size_out. */
int weir_codec_decompress(struct weir_codecs *codecs, enum weir_codec codec, const void *in, size_t size_in, void *out,
			  size_t size_out, struct weir_error *err);
size_t weir_codec_bound(enum weir_codec codec, size_t size_in);
/* `level` 0: the default, the fast end of what the codec offers. `capacity` is at least weir_codec_bound. */
int weir_codec_compress(struct weir_codecs *codecs, enum weir_codec codec, int level, const void *in, size_t size_in,
			void *out, size_t capacity, size_t *size_out, struct weir_error *err);

#endif
