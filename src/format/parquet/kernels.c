/* Which build of the kernels this machine runs. */
#include "format/parquet/kernels_impl.h"

WEIR_KERNEL_DECLARE(struct parquet_kernels, parquet_kernels);

const struct parquet_kernels *parquet_kernels_choose(void)
{
	return WEIR_KERNEL_CHOOSE(parquet_kernels);
}
