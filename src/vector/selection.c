/* From bits to the rows that live. */
#include "vector/kernels.h"

uint32_t weir_select_bits(const struct weir_selection *selection, const uint64_t *keep, const uint64_t *valid,
			  uint16_t *rows_out)
{
	const struct weir_vector_kernels *kernels = weir_vector_kernels();

	if (!selection->rows)
		return kernels->select_all(keep, valid, selection->count, rows_out);
	return kernels->select_rows(selection->rows, selection->count, keep, valid, rows_out);
}
