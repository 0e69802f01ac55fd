/* What functions that also take lists leave to text. */
#ifndef WEIR_EXPR_FUNCTIONS_TEXT_H
#define WEIR_EXPR_FUNCTIONS_TEXT_H

#include "expr/program.h"

int weir_text_bind_length(struct weir_program *program, struct weir_node *node, struct weir_error *err);
int weir_text_bind_slice(struct weir_program *program, struct weir_node *node, struct weir_error *err);
int weir_text_bind_contains(struct weir_program *program, struct weir_node *node, struct weir_error *err);
int weir_text_bind_element(struct weir_program *program, struct weir_node *node, struct weir_error *err);

#endif
