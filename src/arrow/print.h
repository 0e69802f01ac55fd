/* print: single values as text, for tables and messages. Locale-free. Not for loops over millions of rows in the
 * engine: for what people and pipes read. */
#ifndef WEIR_ARROW_PRINT_H
#define WEIR_ARROW_PRINT_H

#include "arrow/array.h"

enum weir_print_style {
	WEIR_PRINT_TABLE, /* null as "null"; control characters escaped */
	WEIR_PRINT_CSV,   /* null as nothing; nested values as JSON; no quoting (the CSV writer's business) */
	WEIR_PRINT_JSON,  /* a JSON value */
};

int weir_print_value(const struct weir_array *array, int64_t row, enum weir_print_style style, struct weir_text *out,
		     struct weir_error *err);

#endif
