/* Bytes as a CSV file, whole and cut up. */
#include "../c/format/csv_feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	csv_feed(bytes, size, false);
	return 0;
}
