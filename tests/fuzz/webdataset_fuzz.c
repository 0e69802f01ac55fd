/* Bytes as a WebDataset shard: an error with its place, or rows; read in two ranges, the same rows. Checksums of
 * headers are made to agree first; the last byte says whether. */
#include "../c/format/inferred_feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void mend(uint8_t *bytes, size_t size)
{
	for (size_t at = 0; at + 512 <= size; at += 512) {
		unsigned sum = 8 * ' ';

		/* Any block with the magic could be a header. */
		if (memcmp(bytes + at + 257, "ustar", 5))
			continue;
		for (size_t i = 0; i < 512; i++)
			sum += i >= 148 && i < 156 ? 0 : bytes[at + i];
		snprintf((char *)bytes + at + 148, 8, "%06o", sum);
		bytes[at + 155] = ' ';
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
	if (copy[size - 1] % 8 != 1)
		mend(copy, size);
	inferred_feed_begin(&feed, &weir_webdataset_format, NULL, 0);
	if (inferred_feed_run(&feed, copy, size, 0) == WEIR_OK && feed.row_count > 1) {
		int64_t rows = feed.row_count;
		char *text = strndup(feed.rows.data, feed.rows.size);
		uint64_t cut = 1 + (uint64_t)copy[0] % (uint64_t)(rows - 1);

		if (inferred_feed_run(&feed, copy, size, cut) || feed.row_count != rows ||
		    strcmp(feed.rows.data, text) != 0)
			abort();
		free(text);
	}
	inferred_feed_end(&feed);
	free(copy);
	return 0;
}
