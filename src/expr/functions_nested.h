/* What the files about lists, structs and maps share. */
#ifndef WEIR_EXPR_FUNCTIONS_NESTED_H
#define WEIR_EXPR_FUNCTIONS_NESTED_H

#include "expr/program.h"

/* List, large list, fixed-size list, map. */
bool weir_nested_is_list(const struct weir_type *type);
/* "length is not defined for int64 (x)" */
int weir_nested_refuse(struct weir_program *program, const struct weir_node *node, struct weir_error *err);
/* Where the items of a row lie in the child. */
void weir_nested_range(const struct weir_array *array, int64_t row, int64_t *begin, int64_t *length);
/* Nulls may stand in the array alone. */
bool weir_nested_row_valid(const struct weir_column *column, uint32_t row);
/* A column of the node's type: for each row of the vector the array's row `rows[row]`, −1 for null. */
int weir_nested_take(const struct weir_eval *eval, const struct weir_node *node, const struct weir_array *array,
		     const int64_t *rows, struct weir_column *out, struct weir_error *err);
/* The same number for every row of the vector: −1. NULL with err set. */
int64_t *weir_nested_rows(const struct weir_eval *eval, struct weir_error *err);

/* Nested values that a kernel builds row by row: nulls up to `row`, which is next. */
int weir_lists_skip(struct weir_builder *builder, uint32_t row, struct weir_error *err);
/* Nulls for the rows that are left, the array for the call; the builder is released, also after an error. */
int weir_lists_end(struct weir_call *call, struct weir_builder *builder, int code, struct weir_error *err);
/* list<item: type>, kept by the program. */
const struct weir_type *weir_list_of(struct weir_program *program, const struct weir_type *type,
				     struct weir_error *err);

/* functions_find.c: argument 1 among the elements of a list or the keys of a map; the value of a map's key. */
int weir_find_bind_contains(struct weir_program *program, struct weir_node *node, struct weir_error *err);
int weir_find_bind_lookup(struct weir_program *program, struct weir_node *node, struct weir_error *err);

#endif
