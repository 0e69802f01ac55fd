/* Parquet files that lie. */
#include "format_hostile.h"

static const struct hostile hostile = {
	.format = &weir_parquet_format, .name = "parquet hostile files", .folder = "tests/fuzz/corpus/parquet"};

int main(void)
{
	return hostile_run();
}
