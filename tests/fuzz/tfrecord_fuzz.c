/* Bytes as a TFRecord file: an error with its place, or rows; cut in two, the same rows. Checksums are made to agree
 * first, or no change would ever be seen behind them; the last byte says whether. */
#include "base/hash.h"
#include "../c/format/inferred_feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void sum(const uint8_t *bytes, size_t size, uint8_t *out)
{
	uint32_t crc = weir_crc32c(0, bytes, size);

	crc = (crc >> 15 | crc << 17) + 0xa282ead8u;
	memcpy(out, &crc, 4);
}

static void mend(uint8_t *bytes, size_t size)
{
	for (size_t at = 0; at + 16 <= size;) {
		uint64_t length;

		sum(bytes + at, 8, bytes + at + 8);
		memcpy(&length, bytes + at, 8);
		if (length > size - at - 16)
			return;
		sum(bytes + at + 12, (size_t)length, bytes + at + 12 + length);
		at += 16 + length;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct inferred_feed feed;
	uint8_t *copy;

	if (size > 64 << 10 || size < 2)
		return 0;
	copy = malloc(size);
	memcpy(copy, bytes, size);
	if (copy[size - 1] % 8)
		mend(copy, size);
	inferred_feed_begin(&feed, &weir_tfrecord_format, NULL, 0);
	if (inferred_feed_run(&feed, copy, size, 0) == WEIR_OK) {
		int64_t rows = feed.row_count;
		char *text = strndup(feed.rows.size ? feed.rows.data : "", feed.rows.size);

		/* Two cuts that the bytes choose. */
		for (size_t i = 0; i < 2; i++) {
			uint64_t cut = 1 + (uint64_t)copy[i * (size - 1)] * 131 % (size - 1);

			if (inferred_feed_run(&feed, copy, size, cut) || feed.row_count != rows ||
			    strcmp(feed.rows.size ? feed.rows.data : "", text) != 0)
				abort();
		}
		free(text);
	}
	inferred_feed_end(&feed);
	free(copy);
	return 0;
}
