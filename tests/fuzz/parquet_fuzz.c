/* Bytes as a Parquet file: an error or valid arrays, within an account of 64 MiB, and every byte given back. */
#include "../c/format/format_feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct feed feed;

	feed_begin(&feed, &weir_parquet_format);
	feed_run(&feed, bytes, size, 1);
	feed_run(&feed, bytes, size, 3);
	feed_run(&feed, bytes, size, FEED_SMALL);
	feed_end(&feed);
	return 0;
}
