/* Which build of the kernels this machine runs. */
#include "base/cpu.h"
#include "format/csv/csv_impl.h"

WEIR_KERNEL_DECLARE(struct csv_kernels, csv_kernels);

const struct csv_kernels *csv_kernels_choose(void)
{
	return WEIR_KERNEL_CHOOSE(csv_kernels);
}
