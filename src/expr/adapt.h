/* adapt: a literal beside a column takes the column's type, so that the column need not be cast to the literal's.
 *
 * x > 2.5 over integers becomes x > 2; x < 300 over int8 becomes x <= 127, always true where not null; text beside a
 * date is read as a date. Exactly the same rows compare true.
 */
#ifndef WEIR_EXPR_ADAPT_H
#define WEIR_EXPR_ADAPT_H

#include "expr/program.h"

enum weir_adapted {
	WEIR_ADAPTED,      /* *value is of the type, *op may have changed */
	WEIR_NOT_ADAPTED,  /* the two must meet in a third type */
	WEIR_ADAPT_FAILED, /* text that is no such value: err is set */
};

enum weir_adapted weir_adapt(const struct weir_type *type, struct weir_scalar *value, enum weir_comparison *op,
			     struct weir_error *err);

#endif
