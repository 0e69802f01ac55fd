/* Running a program over vectors. Results lie in the evaluator's arena, which each call clears, so that a lane works in
 * the same few cache lines vector after vector. */
#include "expr/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const uint64_t zeros[4];

struct weir_column weir_column_null(const struct weir_type *type)
{
	return (struct weir_column){.type = type, .form = WEIR_CONSTANT, .validity = zeros, .values = zeros};
}

void weir_evaluator_init(struct weir_evaluator *evaluator, struct weir_account *account)
{
	*evaluator = (struct weir_evaluator){.account = account};
	weir_arena_init(&evaluator->arena, account);
	weir_arena_init(&evaluator->block_arena, account);
}

static void drop_held(struct weir_evaluator *evaluator)
{
	for (size_t i = 0; i < evaluator->held.count; i++)
		weir_array_unref(evaluator->held.items[i]);
	evaluator->held.count = 0;
}

void weir_evaluator_begin(struct weir_evaluator *evaluator, const struct weir_vector *vector)
{
	weir_arena_clear(&evaluator->arena);
	drop_held(evaluator);
	evaluator->row_begin = evaluator->row_next;
	evaluator->row_next += vector->selection.count;
	evaluator->arrived = vector->selection;
	evaluator->numbers = NULL;
	evaluator->vector_number++;
}

void weir_evaluator_release(struct weir_evaluator *evaluator)
{
	drop_held(evaluator);
	weir_list_release(&evaluator->held, evaluator->account);
	weir_arena_release(&evaluator->arena);
	weir_arena_release(&evaluator->block_arena);
}

int weir_evaluator_hold(struct weir_evaluator *evaluator, struct weir_array *array, struct weir_error *err)
{
	int code = weir_list_push(&evaluator->held, evaluator->account, err, array);

	if (code)
		weir_array_unref(array);
	return code;
}

int weir_evaluator_new(struct weir_account *account, const struct weir_program *program, struct weir_evaluator **out,
		       struct weir_error *err)
{
	struct weir_evaluator *evaluator = weir_alloc(account, sizeof(*evaluator), err);

	*out = NULL;
	if (!evaluator)
		return err->code;
	weir_evaluator_init(evaluator, account);
	evaluator->program = program;
	evaluator->caches = weir_alloc_zero(account, program->node_count * sizeof(*evaluator->caches), err);
	if (evaluator->caches)
		evaluator->conjuncts = weir_alloc_zero(account,
						       program->conjuncts.count * sizeof(*evaluator->conjuncts), err);
	for (size_t i = 0; evaluator->conjuncts && !evaluator->kept && i < program->bound.count; i++) {
		if (program->bound.items[i].node->is_shared) {
			evaluator->kept = weir_alloc_zero(account, program->node_count * sizeof(*evaluator->kept), err);
			if (!evaluator->kept) {
				weir_evaluator_free(evaluator);
				return err->code;
			}
		}
	}
	if (!evaluator->conjuncts) {
		weir_evaluator_free(evaluator);
		return err->code;
	}
	for (uint32_t i = 0; i < program->conjuncts.count; i++)
		evaluator->conjuncts[i] = (struct weir_conjunct){.node = program->conjuncts.items[i], .position = i};
	*out = evaluator;
	return WEIR_OK;
}

void weir_evaluator_free(struct weir_evaluator *evaluator)
{
	struct weir_account *account;

	if (!evaluator)
		return;
	account = evaluator->account;
	for (uint32_t i = 0; evaluator->caches && i < evaluator->program->node_count; i++)
		weir_node_cache_free(evaluator->caches[i]);
	if (evaluator->caches)
		weir_free(account, evaluator->caches, evaluator->program->node_count * sizeof(*evaluator->caches));
	if (evaluator->conjuncts)
		weir_free(account, evaluator->conjuncts,
			  evaluator->program->conjuncts.count * sizeof(*evaluator->conjuncts));
	if (evaluator->kept)
		weir_free(account, evaluator->kept, evaluator->program->node_count * sizeof(*evaluator->kept));
	weir_evaluator_release(evaluator);
	weir_free(account, evaluator, sizeof(*evaluator));
}

int weir_call_fail(const struct weir_call *call, uint32_t row, struct weir_error *err, int code, const char *format,
		   ...)
{
	const struct weir_vector *vector = call->eval->vector;
	char message[700];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	if (call->is_constant)
		row = call->eval->selection.rows ? call->eval->selection.rows[0] : 0;
	weir_error_set(err, code, "%s: %s", call->node->text, message);
	if (vector->source)
		weir_error_at_source(err, vector->source);
	if (vector->source_row >= 0)
		weir_error_at_row(err, vector->source_row + row);
	return code;
}

/* A column read by the program, decoded, by its value type. */
static int column_of(const struct weir_eval *eval, uint32_t number, struct weir_column *out, struct weir_error *err)
{
	int code;

	if (eval->instead) {
		*out = *eval->instead;
		return WEIR_OK;
	}
	code = weir_column_decode(eval->vector, number, err);
	if (code)
		return code;
	*out = eval->vector->columns[number];
	out->type = weir_type_values(out->type);
	return WEIR_OK;
}

/* Kept when it was computed for all rows that came: then it serves any of them. */
static int evaluate_shared(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
			   struct weir_error *err)
{
	struct weir_evaluator *evaluator = eval->evaluator;
	struct weir_kept *kept = &evaluator->kept[node->number];
	int code;

	if (kept->vector == evaluator->vector_number) {
		*out = kept->column;
		return WEIR_OK;
	}
	code = node->eval(eval, node, out, err);
	if (!code && eval->selection.rows == evaluator->arrived.rows &&
	    eval->selection.count == evaluator->arrived.count)
		*kept = (struct weir_kept){.vector = evaluator->vector_number, .column = *out};
	return code;
}

int weir_node_evaluate(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
		       struct weir_error *err)
{
	switch (node->kind) {
	case WEIR_NODE_COLUMN:
		return column_of(eval, node->column, out, err);
	case WEIR_NODE_CONSTANT:
		*out = (struct weir_column){.type = node->type,
					    .form = WEIR_CONSTANT,
					    .values = node->values,
					    .validity = node->value.is_null ? zeros : NULL};
		return WEIR_OK;
	case WEIR_NODE_CALL:
		break;
	}
	/* Nobody asks: no error may be raised. */
	if (!eval->selection.count) {
		*out = weir_column_null(node->type);
		return WEIR_OK;
	}
	if (node->only_column >= 0 && !eval->instead) {
		struct weir_column column;
		bool done = false;
		int code = column_of(eval, (uint32_t)node->only_column, &column, err);

		if (!code && column.form == WEIR_DICTIONARY)
			code = weir_dictionary_evaluate(eval, node, &column, out, &done, err);
		if (code || done)
			return code;
	}
	if (node->is_shared && eval->evaluator->kept && !eval->instead)
		return evaluate_shared(eval, node, out, err);
	return node->eval(eval, node, out, err);
}

int weir_node_evaluate_flat(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
			    struct weir_error *err)
{
	int code = weir_node_evaluate(eval, node, out, err);

	if (code || out->form != WEIR_DICTIONARY)
		return code;
	if (out->type->layout == WEIR_LAYOUT_NESTED) {
		/* Counted arrays cannot lie in an arena: taken row by row, and held. */
		int64_t *rows = weir_arena_alloc(eval->arena, eval->row_count * sizeof(*rows), err);
		const uint32_t *codes = out->values;
		struct weir_array *array;

		if (!rows)
			return err->code;
		for (uint32_t i = 0; i < eval->row_count; i++)
			rows[i] = -1;
		for (uint32_t k = 0; k < eval->selection.count; k++) {
			uint32_t row = eval->selection.rows ? eval->selection.rows[k] : k;

			if (weir_column_valid(out, row))
				rows[row] = codes[row];
		}
		array = weir_array_take(eval->evaluator->account, out->dictionary->nested, rows, eval->row_count, err);
		if (!array)
			return err->code;
		*out = (struct weir_column){
			.type = out->type, .form = WEIR_FLAT, .validity = out->validity, .nested = array};
		return weir_evaluator_hold(eval->evaluator, array, err);
	}
	return weir_column_flatten(out, &eval->selection, eval->row_count, eval->arena, err);
}

static void *values_new(const struct weir_type *type, uint32_t row_count, struct weir_arena *arena,
			struct weir_error *err)
{
	switch (type->layout) {
	case WEIR_LAYOUT_BITS:
		return weir_arena_alloc_zero(arena, (WEIR_BIT_WORDS(row_count) + 1) * 8, err);
	case WEIR_LAYOUT_BYTES:
		return weir_arena_alloc_aligned(arena, ((size_t)row_count + 1) * sizeof(struct weir_view), err);
	case WEIR_LAYOUT_FIXED:
		return weir_arena_alloc_aligned(arena, ((size_t)row_count + 1) * type->byte_width, err);
	default:
		return weir_arena_alloc(arena, 8, err);
	}
}

/* The bits of all columns, joined by and; *out NULL when all are present. */
static int join_validity(const struct weir_eval *eval, const struct weir_column *columns, uint32_t count,
			 const uint64_t **out, struct weir_error *err)
{
	uint64_t *joined = NULL;
	uint32_t words = WEIR_BIT_WORDS(eval->row_count);

	*out = NULL;
	for (uint32_t i = 0; i < count; i++) {
		if (columns[i].form == WEIR_CONSTANT || !columns[i].validity)
			continue;
		if (!*out) {
			*out = columns[i].validity;
			continue;
		}
		if (!joined) {
			joined = weir_arena_alloc_aligned(eval->arena, words * 8 + 8, err);
			if (!joined)
				return err->code;
		}
		weir_vector_kernels()->bits_and(joined, *out, columns[i].validity, words);
		*out = joined;
	}
	return WEIR_OK;
}

/* A nested argument's nulls may stand in its array alone. */
static int nested_validity(const struct weir_eval *eval, struct weir_column *column, struct weir_error *err)
{
	uint64_t *bits;

	if (column->form != WEIR_FLAT || column->validity || weir_array_null_count(column->nested) == 0)
		return WEIR_OK;
	bits = weir_arena_alloc_zero(eval->arena, WEIR_BIT_WORDS(eval->row_count) * 8 + 8, err);
	if (!bits)
		return err->code;
	for (uint32_t k = 0; k < eval->selection.count; k++) {
		uint32_t row = eval->selection.rows ? eval->selection.rows[k] : k;

		if (weir_array_is_valid(column->nested, column->nested_offset + row))
			weir_bit_set(bits, row);
	}
	column->validity = bits;
	return WEIR_OK;
}

int weir_eval_strict(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
		     struct weir_error *err)
{
	struct weir_column arguments[WEIR_ARGUMENTS_MAX];
	struct weir_eval once = *eval;
	struct weir_call call = {.eval = eval, .node = node, .arguments = arguments, .arena = eval->arena};
	bool is_constant = true;
	int code;

	WEIR_ASSERT(node->count <= WEIR_ARGUMENTS_MAX);
	if (!eval->selection.count) {
		*out = weir_column_null(node->type);
		return WEIR_OK;
	}
	for (uint32_t i = 0; i < node->count; i++) {
		code = weir_node_evaluate_flat(eval, node->arguments[i], &arguments[i], err);
		if (!code && arguments[i].type->layout == WEIR_LAYOUT_NESTED)
			code = nested_validity(eval, &arguments[i], err);
		if (code)
			return code;
		if (arguments[i].form == WEIR_CONSTANT && !weir_column_valid(&arguments[i], 0)) {
			*out = weir_column_null(node->type);
			return WEIR_OK;
		}
		is_constant &= arguments[i].form == WEIR_CONSTANT;
	}
	if (is_constant) {
		once.row_count = 1;
		once.selection = (struct weir_selection){.count = 1};
	}
	call.is_constant = is_constant;
	call.row_count = once.row_count;
	call.rows = once.selection;
	code = join_validity(&once, arguments, node->count, &call.valid, err);
	if (code)
		return code;
	if (node->needs_rows && call.valid) {
		uint16_t *rows = weir_arena_alloc(eval->arena, WEIR_VECTOR_ROWS * sizeof(*rows), err);

		if (!rows)
			return err->code;
		call.rows.count = weir_select_bits(&once.selection, call.valid, NULL, rows);
		call.rows.rows = rows;
	}
	if (node->makes_nulls) {
		size_t size = WEIR_BIT_WORDS(call.row_count) * 8;

		call.validity = weir_arena_alloc_aligned(eval->arena, size + 8, err);
		if (!call.validity)
			return err->code;
		if (call.valid)
			memcpy(call.validity, call.valid, size);
		else
			memset(call.validity, 0xff, size);
	}
	call.values = values_new(node->type, call.row_count, eval->arena, err);
	if (!call.values)
		return err->code;
	*out = (struct weir_column){.type = node->type, .form = is_constant ? WEIR_CONSTANT : WEIR_FLAT};
	code = node->kernel(&call, err);
	out->values = call.values;
	out->validity = call.validity ? call.validity : call.valid;
	out->nested = call.nested;
	if (call.nested) {
		if (code)
			weir_array_unref(call.nested);
		else
			code = weir_evaluator_hold(eval->evaluator, call.nested, err);
	}
	return code;
}

int weir_evaluator_eval(struct weir_evaluator *evaluator, struct weir_vector *vector, struct weir_column *out,
			struct weir_error *err)
{
	weir_evaluator_begin(evaluator, vector);
	return weir_evaluator_root(evaluator, vector, 0, out, err);
}

int weir_evaluator_root(struct weir_evaluator *evaluator, struct weir_vector *vector, uint32_t number,
			struct weir_column *out, struct weir_error *err)
{
	const struct weir_node *root = evaluator->program->roots.items[number];
	struct weir_eval eval = {.evaluator = evaluator,
				 .vector = vector,
				 .selection = vector->selection,
				 .row_count = vector->row_count,
				 .arena = &evaluator->arena};
	int code;

	if (root->kind == WEIR_NODE_COLUMN) {
		code = weir_column_decode(vector, root->column, err);
		if (!code)
			*out = vector->columns[root->column];
		return code;
	}
	return weir_node_evaluate(&eval, root, out, err);
}
