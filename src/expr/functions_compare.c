/* == != < <= > >= and between.
 *
 * A constant stands on the right after binding, in the column's own type where that is possible (adapt.h). Numbers are
 * compared by kernels, over all rows to bits, or over few rows to a list; strings by the sixteen bytes of their views
 * first, which settles most rows without following a pointer.
 */
#include "arrow/decimal.h"
#include "expr/adapt.h"

#include <string.h>

static const char *const symbols[] = {"==", "!=", "<", "<=", ">", ">="};

static enum weir_comparison mirrored(enum weir_comparison op)
{
	static const enum weir_comparison other[] = {WEIR_EQ, WEIR_NE, WEIR_GT, WEIR_GE, WEIR_LT, WEIR_LE};

	return other[op];
}

static inline bool holds(int order, enum weir_comparison op)
{
	switch (op) {
	case WEIR_EQ:
		return order == 0;
	case WEIR_NE:
		return order != 0;
	case WEIR_LT:
		return order < 0;
	case WEIR_LE:
		return order <= 0;
	case WEIR_GT:
		return order > 0;
	default:
		return order >= 0;
	}
}

static int kernel_numbers(struct weir_call *call, struct weir_error *err)
{
	const struct weir_vector_kernels *kernels = weir_vector_kernels();
	enum weir_number number = weir_type_number(call->arguments[0].type);
	uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1);
	const void *a = call->arguments[0].values, *b = call->arguments[1].values;

	(void)err;
	if (mask_a && !mask_b)
		kernels->compare_constant[number][call->node->op](a, b, call->row_count, call->values);
	else if (mask_b && !mask_a)
		kernels->compare_constant[number][mirrored(call->node->op)](b, a, call->row_count, call->values);
	else
		kernels->compare_columns[number][call->node->op](a, b, call->row_count, call->values);
	return WEIR_OK;
}

/* A column against a constant, straight to rows. */
static int filter_numbers(const struct weir_eval *eval, const struct weir_node *node, uint16_t *rows_out,
			  uint32_t *count, struct weir_error *err)
{
	const struct weir_vector_kernels *kernels = weir_vector_kernels();
	struct weir_selection selection = eval->selection;
	enum weir_number number = weir_type_number(node->arguments[1]->type);
	const void *constant = node->arguments[1]->values;
	struct weir_column column;
	uint64_t bits[WEIR_VECTOR_ROWS / 64];
	int code = weir_node_evaluate_flat(eval, node->arguments[0], &column, err);

	if (code)
		return code;
	if (column.form == WEIR_CONSTANT) {
		*count = 0;
		if (!weir_column_valid(&column, 0))
			return WEIR_OK;
		kernels->compare_constant[number][node->op](column.values, constant, 1, bits);
		memset(bits, bits[0] & 1 ? 0xff : 0, WEIR_BIT_WORDS(eval->row_count) * 8);
		*count = weir_select_bits(&selection, bits, NULL, rows_out);
		return WEIR_OK;
	}
	if (!selection.rows || selection.count * 4 >= eval->row_count) {
		kernels->compare_constant[number][node->op](column.values, constant, eval->row_count, bits);
		*count = weir_select_bits(&selection, bits, column.validity, rows_out);
		return WEIR_OK;
	}
	if (column.validity) {
		selection.count = kernels->select_rows(selection.rows, selection.count, column.validity, NULL,
						       rows_out);
		selection.rows = rows_out;
	}
	*count = kernels->compare_rows[number][node->op](column.values, constant, selection.rows, selection.count,
							 rows_out);
	return WEIR_OK;
}

/* Equality with a constant: all views by their first bytes, then the few candidates that are longer. */
static void views_equal_constant(struct weir_call *call, const struct weir_view *views, const struct weir_view *view)
{
	bool is_short = view->size <= WEIR_VIEW_INLINE;
	uint64_t *bits = call->values;
	uint32_t words = WEIR_BIT_WORDS(call->row_count);

	weir_expr_kernels()->view_heads(views, view, is_short ? 16 : 8, call->row_count, bits);
	if (!is_short) {
		uint64_t *equal = bits;

		for (uint32_t k = 0; k < call->rows.count; k++) {
			uint32_t row = weir_call_row(call, k);

			if (weir_bit_at(equal, row) && (!call->valid || weir_bit_at(call->valid, row)) &&
			    memcmp(views[row].data, view->data, view->size))
				weir_bit_clear(equal, row);
		}
	}
	if (call->node->op == WEIR_NE)
		weir_vector_kernels()->bits_not(bits, bits, words);
}

static int kernel_views(struct weir_call *call, struct weir_error *err)
{
	const struct weir_view *a = call->arguments[0].values, *b = call->arguments[1].values;
	uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1);
	enum weir_comparison op = call->node->op;

	(void)err;
	if ((op == WEIR_EQ || op == WEIR_NE) && mask_a && !mask_b) {
		views_equal_constant(call, a, b);
		return WEIR_OK;
	}
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		bool is;

		if (call->valid && !weir_bit_at(call->valid, row))
			continue;
		if (op == WEIR_EQ || op == WEIR_NE)
			is = weir_view_equal(&a[row & mask_a], &b[row & mask_b]) == (op == WEIR_EQ);
		else
			is = holds(weir_view_compare(&a[row & mask_a], &b[row & mask_b]), op);
		((uint64_t *)call->values)[row >> 6] |= (uint64_t)is << (row & 63);
	}
	return WEIR_OK;
}

#define COMPARE_ROWS(name, type, ORDER)                                                                                \
	static int kernel_##name(struct weir_call *call, struct weir_error *err)                                       \
	{                                                                                                              \
		const type *a = call->arguments[0].values, *b = call->arguments[1].values;                             \
		uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1);                           \
		enum weir_comparison op = call->node->op;                                                              \
                                                                                                                       \
		(void)err;                                                                                             \
		for (uint32_t k = 0; k < call->rows.count; k++) {                                                      \
			uint32_t row = weir_call_row(call, k);                                                         \
			const type *x = &a[row & mask_a], *y = &b[row & mask_b];                                       \
                                                                                                                       \
			((uint64_t *)call->values)[row >> 6] |= (uint64_t)holds(ORDER, op) << (row & 63);              \
		}                                                                                                      \
		return WEIR_OK;                                                                                        \
	}

COMPARE_ROWS(int128, __int128, (*x > *y) - (*x < *y))
COMPARE_ROWS(int256, struct weir_int256, weir_int256_compare(x, y))

static int kernel_bits(struct weir_call *call, struct weir_error *err)
{
	const uint64_t *a = call->arguments[0].values, *b = call->arguments[1].values;
	uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1);

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int order = weir_bit_at(a, row & mask_a) - weir_bit_at(b, row & mask_b);

		((uint64_t *)call->values)[row >> 6] |= (uint64_t)holds(order, call->node->op) << (row & 63);
	}
	return WEIR_OK;
}

static int kernel_fixed(struct weir_call *call, struct weir_error *err)
{
	const uint8_t *a = call->arguments[0].values, *b = call->arguments[1].values;
	uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1);
	size_t width = call->arguments[0].type->byte_width;

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int order = memcmp(a + (row & mask_a) * width, b + (row & mask_b) * width, width);

		((uint64_t *)call->values)[row >> 6] |= (uint64_t)holds(order, call->node->op) << (row & 63);
	}
	return WEIR_OK;
}

static int refuse(struct weir_program *program, const struct weir_node *node, struct weir_error *err)
{
	char a[96], b[96];

	return weir_bind_fail(program, node, err, WEIR_E_TYPE, "'%s' cannot compare %s (%s) with %s (%s)",
			      symbols[node->op], weir_type_name(node->arguments[0]->type, a, sizeof(a)),
			      node->arguments[0]->text, weir_type_name(node->arguments[1]->type, b, sizeof(b)),
			      node->arguments[1]->text);
}

/* Fixed binaries beside bytes literals: the literal must have the width, or never is equal. */
static int choose_kernel(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	weir_node_kernel *kernel = NULL;

	if (weir_type_number(type) != WEIR_NUMBER_COUNT && type->id != WEIR_INTERVAL_MONTHS)
		kernel = kernel_numbers;
	else if (type->layout == WEIR_LAYOUT_BYTES)
		kernel = kernel_views;
	else if (type->layout == WEIR_LAYOUT_BITS)
		kernel = kernel_bits;
	else if (type->id == WEIR_DECIMAL128)
		kernel = kernel_int128;
	else if (type->id == WEIR_DECIMAL256)
		kernel = kernel_int256;
	else if (type->id == WEIR_FIXED_BINARY)
		kernel = kernel_fixed;
	if (!kernel)
		return refuse(program, node, err);
	weir_bind_kernel(node, weir_type_of(WEIR_BOOL), kernel);
	if (kernel == kernel_numbers && weir_node_is_constant(node->arguments[1]) &&
	    !weir_node_is_constant(node->arguments[0]))
		node->filter = filter_numbers;
	return WEIR_OK;
}

static int bind_compare(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	struct weir_node **arguments = node->arguments;
	const struct weir_type *type;
	int code;

	weir_error_clear(err);
	if (weir_node_is_none(arguments[0]) || weir_node_is_none(arguments[1]))
		return weir_bind_constant(program, node, weir_type_of(WEIR_BOOL), NULL, err);
	if (weir_node_is_constant(arguments[0]) && !weir_node_is_constant(arguments[1])) {
		struct weir_node *swapped = arguments[0];

		arguments[0] = arguments[1];
		arguments[1] = swapped;
		node->op = mirrored(node->op);
	}
	if (arguments[0]->type->id == WEIR_HALF) {
		code = weir_bind_cast(program, &arguments[0], weir_type_of(WEIR_FLOAT), false, err);
		if (code)
			return code;
	}
	if (weir_node_is_constant(arguments[1])) {
		struct weir_scalar value = arguments[1]->value;
		enum weir_comparison op = node->op;
		struct weir_node *constant;

		switch (weir_adapt(arguments[0]->type, &value, &op, err)) {
		case WEIR_ADAPTED:
			constant = weir_bind_new(program, err);
			if (!constant)
				return err->code;
			constant->text = arguments[1]->text;
			code = weir_bind_constant(program, constant, arguments[0]->type, &value, err);
			if (code)
				return code;
			arguments[1] = constant;
			node->op = op;
			return choose_kernel(program, node, err);
		case WEIR_ADAPT_FAILED:
			return weir_bind_fail(program, node, err, WEIR_E_CAST, "%.300s", err->message);
		case WEIR_NOT_ADAPTED:
			break;
		}
	}
	type = weir_promote(program, arguments[0]->type, arguments[1]->type, err);
	if (!type)
		return err->code ? err->code : refuse(program, node, err);
	if (type->id == WEIR_HALF)
		type = weir_type_of(WEIR_FLOAT);
	code = weir_bind_cast(program, &arguments[0], type, !weir_type_is_float(type), err);
	if (!code)
		code = weir_bind_cast(program, &arguments[1], type, !weir_type_is_float(type), err);
	return code ? code : choose_kernel(program, node, err);
}

/* between(x, low, high) is low <= x <= high. */
static int bind_between(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	struct weir_node *low[] = {node->arguments[0], node->arguments[1]};
	struct weir_node *high[] = {node->arguments[0], node->arguments[2]};
	struct weir_node *both[2];

	both[0] = weir_bind_call(program, "ge", low, 2, node->text, err);
	both[1] = both[0] ? weir_bind_call(program, "le", high, 2, node->text, err) : NULL;
	if (!both[1])
		return err->code;
	node->count = 2;
	node->arguments[0] = both[0];
	node->arguments[1] = both[1];
	node->function = weir_function_find("and");
	node->op = node->function->op;
	return node->function->bind(program, node, err);
}

const struct weir_function weir_functions_compare[] = {
	{"eq", 2, 2, bind_compare, WEIR_EQ}, {"ne", 2, 2, bind_compare, WEIR_NE},
	{"lt", 2, 2, bind_compare, WEIR_LT}, {"le", 2, 2, bind_compare, WEIR_LE},
	{"gt", 2, 2, bind_compare, WEIR_GT}, {"ge", 2, 2, bind_compare, WEIR_GE},
	{"between", 3, 3, bind_between, 0},  {0},
};
