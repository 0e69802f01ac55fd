/* and, or, not in three-valued logic; null tests; if_else, coalesce.
 *
 * and / or evaluate an argument only for rows that the ones before it left open: where that saves enough, and always
 * where the argument may raise an error, so that a condition in front of it guards it. */
#include "expr/adapt.h"
#include "expr/functions_nested.h"

#include <string.h>

enum { OP_AND, OP_OR };

/* Selected rows whose bit in `decided` is not set yet. */
static int open_rows(const struct weir_eval *eval, const uint64_t *decided, struct weir_selection *out,
		     struct weir_error *err)
{
	uint64_t open[WEIR_VECTOR_ROWS / 64];
	uint16_t *rows = weir_arena_alloc(eval->arena, WEIR_VECTOR_ROWS * sizeof(*rows), err);

	if (!rows)
		return err->code;
	weir_vector_kernels()->bits_not(open, decided, WEIR_BIT_WORDS(eval->row_count));
	out->count = weir_select_bits(&eval->selection, open, NULL, rows);
	out->rows = rows;
	return WEIR_OK;
}

/* For `and`, decided are rows with a false; sure are those where all so far are true. `or` is the mirror. */
static int eval_logic(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
		      struct weir_error *err)
{
	const struct weir_vector_kernels *kernels = weir_vector_kernels();
	bool is_or = node->op == OP_OR, has_nulls = false;
	uint32_t words = WEIR_BIT_WORDS(eval->row_count);
	uint64_t *decided = weir_arena_alloc_zero(eval->arena, words * 8 + 8, err);
	uint64_t *sure = weir_arena_alloc_aligned(eval->arena, words * 8 + 8, err);
	struct weir_eval inner = *eval;
	int code;

	if (!decided || !sure)
		return err->code;
	memset(sure, 0xff, words * 8);
	for (uint32_t i = 0; i < node->count && inner.selection.count; i++) {
		uint64_t decides[WEIR_VECTOR_ROWS / 64], passes[WEIR_VECTOR_ROWS / 64];
		struct weir_column column;
		uint32_t left = 0;

		code = weir_node_evaluate_flat(&inner, node->arguments[i], &column, err);
		if (code)
			return code;
		if (column.form == WEIR_CONSTANT) {
			bool valid = weir_column_valid(&column, 0), bit = valid && *(const uint64_t *)column.values & 1;

			has_nulls |= !valid;
			memset(decides, valid && bit == is_or ? 0xff : 0, words * 8);
			memset(passes, valid && bit != is_or ? 0xff : 0, words * 8);
		} else {
			const uint64_t *bits = column.values;

			if (is_or) {
				memcpy(decides, bits, words * 8);
				kernels->bits_not(passes, bits, words);
			} else {
				memcpy(passes, bits, words * 8);
				kernels->bits_not(decides, bits, words);
			}
			if (column.validity) {
				has_nulls = true;
				kernels->bits_and(decides, decides, column.validity, words);
				kernels->bits_and(passes, passes, column.validity, words);
			}
		}
		/* Rows that were decided before may hold anything in this argument: they stay decided. */
		kernels->bits_and(sure, sure, passes, words);
		kernels->bits_or(decided, decided, decides, words);
		if (i + 1 == node->count)
			break;
		for (uint32_t w = 0; w < words; w++)
			left += (uint32_t)__builtin_popcountll(~decided[w]);
		if (node->arguments[i + 1]->may_fail || left * 2 < eval->row_count) {
			code = open_rows(eval, decided, &inner.selection, err);
			if (code)
				return code;
		}
	}
	*out = (struct weir_column){.type = node->type, .form = WEIR_FLAT};
	if (has_nulls) {
		uint64_t *validity = weir_arena_alloc_aligned(eval->arena, words * 8 + 8, err);

		if (!validity)
			return err->code;
		kernels->bits_or(validity, sure, decided, words);
		out->validity = validity;
	}
	/* Where not null, a row that no argument decided has passed all. */
	if (!is_or)
		kernels->bits_not(decided, decided, words);
	out->values = decided;
	return WEIR_OK;
}

static int refuse_bool(struct weir_program *program, const struct weir_node *node, const struct weir_node *argument,
		       struct weir_error *err)
{
	char name[96];

	return weir_bind_fail(program, node, err, WEIR_E_TYPE, "'%s' needs booleans, but %s is %s",
			      node->function->name, argument->text, weir_type_name(argument->type, name, sizeof(name)));
}

enum { MEMBERS_MIN = 3 };

/* x == 1 or x == 2 or x == 3 … is x in (1, 2, 3 …), which looks each row up once. */
static bool is_membership(const struct weir_node *node)
{
	const struct weir_node *first = node->arguments[0];

	if (node->op != OP_OR || node->count < MEMBERS_MIN)
		return false;
	for (uint32_t i = 0; i < node->count; i++) {
		const struct weir_node *it = node->arguments[i];

		if (it->kind != WEIR_NODE_CALL || !it->function || strcmp(it->function->name, "eq") ||
		    it->op != WEIR_EQ || it->arguments[0]->kind != WEIR_NODE_COLUMN ||
		    it->arguments[1]->kind != WEIR_NODE_CONSTANT ||
		    it->arguments[0]->column != first->arguments[0]->column)
			return false;
	}
	return true;
}

static int bind_membership(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	struct weir_node **arguments = weir_arena_alloc(&program->arena, (node->count + 1) * sizeof(struct weir_node *),
							err);

	if (!arguments)
		return err->code;
	arguments[0] = node->arguments[0]->arguments[0];
	for (uint32_t i = 0; i < node->count; i++)
		arguments[i + 1] = node->arguments[i]->arguments[1];
	node->arguments = arguments;
	node->count++;
	node->function = weir_function_find("in");
	return node->function->bind(program, node, err);
}

static int bind_logic(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < node->count; i++) {
		struct weir_node *argument = node->arguments[i];

		if (argument->type->id == WEIR_NULL) {
			int code = weir_bind_cast(program, &node->arguments[i], weir_type_of(WEIR_BOOL), true, err);

			if (code)
				return code;
			argument = node->arguments[i];
		} else if (argument->type->id != WEIR_BOOL) {
			return refuse_bool(program, node, argument, err);
		}
		if (weir_node_is_constant(argument) && !argument->value.is_null) {
			/* false and x: false; true and x: x. What stood before a false may still raise its errors. */
			if (argument->value.boolean == (node->op == OP_OR) && kept == 0)
				return weir_bind_constant(program, node, weir_type_of(WEIR_BOOL), &argument->value,
							  err);
			if (argument->value.boolean != (node->op == OP_OR))
				continue;
		}
		node->arguments[kept++] = argument;
	}
	if (!kept) {
		struct weir_scalar value = {.type = weir_type_of(WEIR_BOOL), .boolean = node->op == OP_AND};

		return weir_bind_constant(program, node, weir_type_of(WEIR_BOOL), &value, err);
	}
	node->count = kept;
	if (kept == 1) {
		const char *text = node->text;
		uint32_t number = node->number;

		*node = *node->arguments[0];
		node->text = text;
		node->number = number;
		return WEIR_OK;
	}
	if (is_membership(node))
		return bind_membership(program, node, err);
	node->type = weir_type_of(WEIR_BOOL);
	node->eval = eval_logic;
	return WEIR_OK;
}

static int kernel_not(struct weir_call *call, struct weir_error *err)
{
	(void)err;
	weir_vector_kernels()->bits_not(call->values, call->arguments[0].values, WEIR_BIT_WORDS(call->row_count));
	return WEIR_OK;
}

static int bind_not(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, weir_type_of(WEIR_BOOL), NULL, err);
	if (node->arguments[0]->type->id != WEIR_BOOL)
		return refuse_bool(program, node, node->arguments[0], err);
	weir_bind_kernel(node, weir_type_of(WEIR_BOOL), kernel_not);
	return WEIR_OK;
}

/* op 1: is_valid; 0: is_null. */
static int eval_null_test(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
			  struct weir_error *err)
{
	uint32_t words = WEIR_BIT_WORDS(eval->row_count);
	struct weir_column column;
	uint64_t *bits;
	int code = weir_node_evaluate(eval, node->arguments[0], &column, err);

	if (code)
		return code;
	bits = weir_arena_alloc_aligned(eval->arena, words * 8 + 8, err);
	if (!bits)
		return err->code;
	*out = (struct weir_column){.type = node->type, .form = WEIR_FLAT, .values = bits};
	if (column.form == WEIR_CONSTANT) {
		*bits = weir_column_valid(&column, 0) == node->op;
		out->form = WEIR_CONSTANT;
		return WEIR_OK;
	}
	if (column.validity)
		memcpy(bits, column.validity, words * 8);
	else
		memset(bits, 0xff, words * 8);
	if (column.type->layout == WEIR_LAYOUT_NESTED && column.form == WEIR_FLAT &&
	    weir_array_null_count(column.nested)) {
		for (uint32_t k = 0; k < eval->selection.count; k++) {
			uint32_t row = eval->selection.rows ? eval->selection.rows[k] : k;

			if (!weir_array_is_valid(column.nested, column.nested_offset + row))
				weir_bit_clear(bits, row);
		}
	}
	if (!node->op)
		weir_vector_kernels()->bits_not(bits, bits, words);
	return WEIR_OK;
}

static int bind_null_test(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	(void)program;
	(void)err;
	node->type = weir_type_of(WEIR_BOOL);
	node->eval = eval_null_test;
	return WEIR_OK;
}

/* Copies the selected rows of `from` to their places. */
static void copy_rows(const struct weir_type *type, const struct weir_column *from,
		      const struct weir_selection *selection, void *values, uint64_t *validity)
{
	uint32_t mask = from->form == WEIR_CONSTANT ? 0 : ~0u;
	size_t width = type->layout == WEIR_LAYOUT_BYTES ? sizeof(struct weir_view) : type->byte_width;

	for (uint32_t k = 0; k < selection->count; k++) {
		uint32_t row = selection->rows ? selection->rows[k] : k;

		if (!weir_column_valid(from, row)) {
			weir_bit_clear(validity, row);
			continue;
		}
		weir_bit_set(validity, row);
		if (type->layout == WEIR_LAYOUT_BITS) {
			weir_bit_clear(values, row);
			((uint64_t *)values)[row >> 6] |= (uint64_t)weir_bit_at(from->values, row & mask) << (row & 63);
		} else if (width == 8) {
			((uint64_t *)values)[row] = ((const uint64_t *)from->values)[row & mask];
		} else if (width == 4) {
			((uint32_t *)values)[row] = ((const uint32_t *)from->values)[row & mask];
		} else {
			memcpy((uint8_t *)values + row * width, (const uint8_t *)from->values + (row & mask) * width,
			       width);
		}
	}
}

static int merged_new(const struct weir_eval *eval, const struct weir_node *node, void **values, uint64_t **validity,
		      struct weir_column *out, struct weir_error *err)
{
	size_t width = node->type->layout == WEIR_LAYOUT_BYTES ? sizeof(struct weir_view) : node->type->byte_width;
	size_t words = WEIR_BIT_WORDS(eval->row_count);

	*validity = weir_arena_alloc_zero(eval->arena, words * 8 + 8, err);
	*values = node->type->layout == WEIR_LAYOUT_BITS
			  ? weir_arena_alloc_zero(eval->arena, words * 8 + 8, err)
			  : weir_arena_alloc_aligned(eval->arena, (eval->row_count + 1) * width, err);
	if (!*validity || !*values)
		return err->code;
	*out = (struct weir_column){.type = node->type, .form = WEIR_FLAT, .values = *values, .validity = *validity};
	return WEIR_OK;
}

/* Nested results: which argument each row comes from, UINT32_MAX for null, and the arguments' columns. */
struct chosen {
	struct weir_column *columns;
	uint32_t *from;
};

static int chosen_new(const struct weir_eval *eval, const struct weir_node *node, struct chosen *out,
		      struct weir_error *err)
{
	out->columns = weir_arena_alloc_zero(eval->arena, node->count * sizeof(*out->columns), err);
	out->from = weir_arena_alloc(eval->arena, (eval->row_count + 1) * sizeof(*out->from), err);
	if (!out->columns || !out->from)
		return err->code;
	memset(out->from, 0xff, eval->row_count * sizeof(*out->from));
	return WEIR_OK;
}

/* Argument `number` of the node for these rows. */
static int choose(const struct weir_eval *eval, const struct weir_node *node, uint32_t number, struct chosen *chosen,
		  struct weir_error *err)
{
	struct weir_column *column = &chosen->columns[number];
	int code = weir_node_evaluate_flat(eval, node->arguments[number], column, err);

	for (uint32_t k = 0; !code && k < eval->selection.count; k++) {
		uint32_t row = eval->selection.rows ? eval->selection.rows[k] : k;

		if (weir_nested_row_valid(column, row))
			chosen->from[row] = number;
	}
	return code;
}

static int merge(const struct weir_eval *eval, const struct weir_node *node, const struct chosen *chosen,
		 struct weir_column *out, struct weir_error *err)
{
	struct weir_array *array = NULL;
	struct weir_builder builder;
	int code = weir_builder_init(&builder, node->type, eval->evaluator->account, err);

	for (uint32_t row = 0, run; !code && row < eval->row_count; row += run) {
		uint32_t from = chosen->from[row];
		const struct weir_column *column = &chosen->columns[from == UINT32_MAX ? 0 : from];

		for (run = 1; row + run < eval->row_count && chosen->from[row + run] == from;)
			run++;
		if (from == UINT32_MAX) {
			code = weir_builder_null(&builder, run, err);
		} else if (column->form == WEIR_CONSTANT) {
			run = 1;
			code = weir_builder_array(&builder, column->nested, column->nested_offset, 1, err);
		} else {
			code = weir_builder_array(&builder, column->nested, column->nested_offset + row, run, err);
		}
	}
	if (!code) {
		array = weir_builder_finish(&builder, err);
		code = array ? WEIR_OK : err->code;
	}
	weir_builder_release(&builder);
	if (code)
		return code;
	*out = (struct weir_column){.type = node->type,
				    .form = WEIR_FLAT,
				    .nested = array,
				    .validity = (const uint64_t *)array->buffers[0].data};
	return weir_evaluator_hold(eval->evaluator, array, err);
}

static int eval_if(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
		   struct weir_error *err)
{
	const struct weir_vector_kernels *kernels = weir_vector_kernels();
	uint32_t words = WEIR_BIT_WORDS(eval->row_count);
	struct weir_column condition, column;
	struct weir_eval inner = *eval;
	uint64_t bits[WEIR_VECTOR_ROWS / 64];
	bool is_nested = node->type->layout == WEIR_LAYOUT_NESTED;
	struct chosen chosen;
	uint64_t *validity = NULL;
	uint16_t *rows;
	void *values = NULL;
	int code = weir_node_evaluate_flat(eval, node->arguments[0], &condition, err);

	if (code)
		return code;
	if (condition.form == WEIR_CONSTANT) {
		if (!weir_column_valid(&condition, 0)) {
			*out = weir_column_null(node->type);
			return WEIR_OK;
		}
		code = weir_node_evaluate(eval, node->arguments[*(const uint64_t *)condition.values & 1 ? 1 : 2], out,
					  err);
		out->type = node->type;
		return code;
	}
	code = is_nested ? chosen_new(eval, node, &chosen, err) : merged_new(eval, node, &values, &validity, out, err);
	if (code)
		return code;
	rows = weir_arena_alloc(eval->arena, WEIR_VECTOR_ROWS * sizeof(*rows), err);
	if (!rows)
		return err->code;
	for (uint32_t side = 0; side < 2; side++) {
		if (side)
			kernels->bits_not(bits, condition.values, words);
		else
			memcpy(bits, condition.values, words * 8);
		inner.selection.count = weir_select_bits(&eval->selection, bits, condition.validity, rows);
		inner.selection.rows = rows;
		if (!inner.selection.count)
			continue;
		code = is_nested ? choose(&inner, node, 1 + side, &chosen, err)
				 : weir_node_evaluate_flat(&inner, node->arguments[1 + side], &column, err);
		if (code)
			return code;
		if (!is_nested)
			copy_rows(node->type, &column, &inner.selection, values, validity);
	}
	return is_nested ? merge(eval, node, &chosen, out, err) : WEIR_OK;
}

static int refuse_pair(struct weir_program *program, const struct weir_node *node, const struct weir_node *a,
		       const struct weir_node *b, struct weir_error *err)
{
	char name_a[96], name_b[96];

	return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s (%s) and %s (%s) have no common type",
			      weir_type_name(a->type, name_a, sizeof(name_a)), a->text,
			      weir_type_name(b->type, name_b, sizeof(name_b)), b->text);
}

/* Lists, structs and maps meet field by field, as they do between files; NULL with *err untouched when they do not. */
static const struct weir_type *meet(struct weir_program *program, const struct weir_type *a, const struct weir_type *b,
				    struct weir_error *err)
{
	const struct weir_type *both;

	if (a->layout != WEIR_LAYOUT_NESTED || b->layout != WEIR_LAYOUT_NESTED)
		return weir_promote(program, a, b, err);
	both = weir_type_unify(program->account, a, b, err);
	if (!both && !weir_code_is_memory(err->code))
		weir_error_clear(err);
	return weir_program_keep(program, both, err);
}

/* Gives arguments [from, count) one type; literals take the type of what stands beside them where they fit. */
static int unify(struct weir_program *program, struct weir_node *node, uint32_t from, struct weir_error *err)
{
	const struct weir_type *type = NULL;
	int code;

	weir_error_clear(err);
	for (uint32_t pass = 0; pass < 2; pass++) {
		for (uint32_t i = from; i < node->count; i++) {
			struct weir_node *argument = node->arguments[i];
			struct weir_scalar value = argument->value;
			enum weir_comparison op = WEIR_EQ;
			const struct weir_type *both;

			if (weir_node_is_constant(argument) != (pass == 1))
				continue;
			if (!type) {
				type = argument->type;
				continue;
			}
			if (weir_node_is_none(argument))
				continue;
			if (pass == 1 && weir_adapt(type, &value, &op, err) == WEIR_ADAPTED && op == WEIR_EQ)
				continue;
			weir_error_clear(err);
			both = meet(program, type, argument->type, err);
			if (!both)
				return err->code ? err->code
						 : refuse_pair(program, node, node->arguments[from], argument, err);
			type = both;
		}
	}
	if (type->id == WEIR_HALF)
		type = weir_type_of(WEIR_FLOAT);
	for (uint32_t i = from; i < node->count; i++) {
		if (type->id == WEIR_NULL)
			break;
		code = weir_bind_cast(program, &node->arguments[i], type, !weir_type_is_float(type), err);
		if (code)
			return code;
	}
	node->type = type;
	return WEIR_OK;
}

static int bind_if(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	int code;

	if (weir_node_is_none(node->arguments[0]))
		code = weir_bind_cast(program, &node->arguments[0], weir_type_of(WEIR_BOOL), true, err);
	else
		code = node->arguments[0]->type->id == WEIR_BOOL ? WEIR_OK
								 : refuse_bool(program, node, node->arguments[0], err);
	if (!code)
		code = unify(program, node, 1, err);
	if (!code && node->type->id == WEIR_NULL)
		return weir_bind_constant(program, node, node->type, NULL, err);
	node->eval = eval_if;
	return code;
}

static int eval_coalesce(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
			 struct weir_error *err)
{
	struct weir_eval inner = *eval;
	uint64_t *validity;
	void *values;
	int code = merged_new(eval, node, &values, &validity, out, err);

	for (uint32_t i = 0; !code && i < node->count && inner.selection.count; i++) {
		struct weir_column column;

		code = weir_node_evaluate_flat(&inner, node->arguments[i], &column, err);
		if (code)
			return code;
		copy_rows(node->type, &column, &inner.selection, values, validity);
		if (i + 1 < node->count)
			code = open_rows(&inner, validity, &inner.selection, err);
	}
	return code;
}

/* Rows that the arguments so far left null go on to the next. */
static int eval_coalesce_nested(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
				struct weir_error *err)
{
	struct weir_eval inner = *eval;
	struct chosen chosen;
	uint64_t *found = weir_arena_alloc_zero(eval->arena, WEIR_BIT_WORDS(eval->row_count) * 8 + 8, err);
	int code = found ? chosen_new(eval, node, &chosen, err) : err->code;

	for (uint32_t i = 0; !code && i < node->count && inner.selection.count; i++) {
		code = choose(&inner, node, i, &chosen, err);
		for (uint32_t row = 0; !code && row < eval->row_count; row++)
			if (chosen.from[row] != UINT32_MAX)
				weir_bit_set(found, row);
		if (!code && i + 1 < node->count)
			code = open_rows(&inner, found, &inner.selection, err);
	}
	return code ? code : merge(eval, node, &chosen, out, err);
}

static int bind_coalesce(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	int code = unify(program, node, 0, err);

	if (!code && node->type->id == WEIR_NULL)
		return weir_bind_constant(program, node, node->type, NULL, err);
	node->eval = !code && node->type->layout == WEIR_LAYOUT_NESTED ? eval_coalesce_nested : eval_coalesce;
	return code;
}

const struct weir_function weir_functions_logic[] = {
	{"and", 2, 255, bind_logic, OP_AND},
	{"or", 2, 255, bind_logic, OP_OR},
	{"not", 1, 1, bind_not, 0},
	{"is_null", 1, 1, bind_null_test, 0},
	{"is_valid", 1, 1, bind_null_test, 1},
	{"is_not_null", 1, 1, bind_null_test, 1},
	{"if_else", 3, 3, bind_if, 0},
	{"coalesce", 1, 255, bind_coalesce, 0},
	{0},
};
