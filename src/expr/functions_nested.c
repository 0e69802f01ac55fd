/* Lists and structs: length, element, slice, field; split, which makes lists; and the forms that text shares with them.
 *
 * Nested columns are Arrow arrays. An element or a field becomes a column of its own: fields point into the struct's
 * child, elements are taken from the list's child at the places that the offsets and the index give.
 */
#include "expr/functions_nested.h"
#include "expr/functions_text.h"

#include <stdio.h>
#include <string.h>

bool weir_nested_is_list(const struct weir_type *type)
{
	return type->id == WEIR_LIST_TYPE || type->id == WEIR_LARGE_LIST || type->id == WEIR_FIXED_LIST ||
	       type->id == WEIR_MAP;
}

int weir_nested_refuse(struct weir_program *program, const struct weir_node *node, struct weir_error *err)
{
	char name[96];

	return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s is not defined for %s (%s)", node->function->name,
			      weir_type_name(node->arguments[0]->type, name, sizeof(name)), node->arguments[0]->text);
}

void weir_nested_range(const struct weir_array *array, int64_t row, int64_t *begin, int64_t *length)
{
	int64_t at = array->offset + row;

	if (array->type->id == WEIR_FIXED_LIST) {
		*begin = at * array->type->list_size;
		*length = array->type->list_size;
	} else if (array->type->id == WEIR_LARGE_LIST) {
		const int64_t *offsets = (const int64_t *)array->buffers[1].data;

		*begin = offsets[at];
		*length = offsets[at + 1] - offsets[at];
	} else {
		const int32_t *offsets = (const int32_t *)array->buffers[1].data;

		*begin = offsets[at];
		*length = offsets[at + 1] - offsets[at];
	}
}

static int kernel_length(struct weir_call *call, struct weir_error *err)
{
	const struct weir_column *column = &call->arguments[0];

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int64_t begin;

		weir_nested_range(column->nested, column->nested_offset + (row & weir_call_mask(call, 0)), &begin,
				  (int64_t *)call->values + row);
	}
	return WEIR_OK;
}

static int bind_length(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	if (!weir_nested_is_list(node->arguments[0]->type))
		return weir_text_bind_length(program, node, err);
	weir_bind_kernel(node, weir_type_of(WEIR_INT64), kernel_length);
	node->needs_rows = true;
	return WEIR_OK;
}

bool weir_nested_row_valid(const struct weir_column *column, uint32_t row)
{
	uint32_t at = column->form == WEIR_CONSTANT ? 0 : row;

	return weir_column_valid(column, row) && weir_array_is_valid(column->nested, column->nested_offset + at);
}

int64_t *weir_nested_rows(const struct weir_eval *eval, struct weir_error *err)
{
	int64_t *rows = weir_arena_alloc(eval->arena, ((size_t)eval->row_count + 1) * sizeof(*rows), err);

	for (uint32_t i = 0; rows && i < eval->row_count; i++)
		rows[i] = -1;
	return rows;
}

int weir_nested_take(const struct weir_eval *eval, const struct weir_node *node, const struct weir_array *array,
		     const int64_t *rows, struct weir_column *out, struct weir_error *err)
{
	struct weir_array *taken = weir_array_take(eval->evaluator->account, array, rows, eval->row_count, err);
	int code;

	if (!taken)
		return err->code;
	code = weir_evaluator_hold(eval->evaluator, taken, err);
	if (!code)
		code = weir_column_from_array(taken, 0, eval->row_count, eval->arena, out, err);
	out->type = node->type;
	return code;
}

static int eval_element(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
			struct weir_error *err)
{
	struct weir_call call = {.eval = eval, .node = node, .row_count = eval->row_count};
	struct weir_column list, index;
	int64_t *rows;
	int code = weir_node_evaluate_flat(eval, node->arguments[0], &list, err);

	if (!code)
		code = weir_node_evaluate_flat(eval, node->arguments[1], &index, err);
	if (code)
		return code;
	if ((list.form == WEIR_CONSTANT && !weir_column_valid(&list, 0)) || !list.nested) {
		*out = weir_column_null(node->type);
		return WEIR_OK;
	}
	rows = weir_nested_rows(eval, err);
	if (!rows)
		return err->code;
	for (uint32_t k = 0; k < eval->selection.count; k++) {
		uint32_t row = eval->selection.rows ? eval->selection.rows[k] : k;
		uint32_t from = list.form == WEIR_CONSTANT ? 0 : row;
		int64_t begin, length, wanted, at;

		if (!weir_nested_row_valid(&list, row) || !weir_column_valid(&index, row))
			continue;
		weir_nested_range(list.nested, list.nested_offset + from, &begin, &length);
		wanted = ((const int64_t *)index.values)[index.form == WEIR_CONSTANT ? 0 : row];
		at = wanted < 0 ? wanted + length : wanted;
		if (at < 0 || at >= length)
			return weir_call_fail(&call, row, err, WEIR_E_VALUE,
					      "there is no element %lld in a list of %lld", (long long)wanted,
					      (long long)length);
		rows[row] = begin + at;
	}
	return weir_nested_take(eval, node, list.nested->children[0], rows, out, err);
}

static int bind_element(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	char name[96];
	int code;

	if (weir_type_is_bytes(type) && !weir_node_is_none(node->arguments[0]))
		return weir_text_bind_element(program, node, err);
	if (type->id == WEIR_MAP)
		return weir_find_bind_lookup(program, node, err);
	if (!weir_nested_is_list(type))
		return weir_nested_refuse(program, node, err);
	if (!weir_type_is_integer(node->arguments[1]->type))
		return weir_bind_fail(program, node, err, WEIR_E_TYPE, "the index is %s, not an integer",
				      weir_type_name(node->arguments[1]->type, name, sizeof(name)));
	code = weir_bind_cast(program, &node->arguments[1], weir_type_of(WEIR_INT64), true, err);
	node->type = weir_type_values(type->fields[0].type);
	node->eval = eval_element;
	node->may_fail = true;
	return code;
}

static int eval_field(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
		      struct weir_error *err)
{
	const struct weir_array *array, *child;
	struct weir_column column;
	uint64_t *validity;
	uint32_t count;
	int code = weir_node_evaluate_flat(eval, node->arguments[0], &column, err);

	if (code)
		return code;
	if ((column.form == WEIR_CONSTANT && !weir_column_valid(&column, 0)) || !column.nested) {
		*out = weir_column_null(node->type);
		return WEIR_OK;
	}
	count = column.form == WEIR_CONSTANT ? 1 : eval->row_count;
	array = column.nested;
	child = array->children[node->op];
	code = weir_column_from_array(child, array->offset + column.nested_offset, count, eval->arena, out, err);
	out->type = node->type;
	if (code || out->form == WEIR_CONSTANT)
		return code;
	if (column.form == WEIR_CONSTANT)
		out->form = WEIR_CONSTANT;
	/* A field of a null struct is null. */
	if (!column.validity && !weir_array_null_count(array))
		return WEIR_OK;
	validity = weir_arena_alloc_zero(eval->arena, WEIR_BIT_WORDS(count) * 8 + 8, err);
	if (!validity)
		return err->code;
	for (uint32_t row = 0; row < count; row++) {
		bool present = !out->validity || weir_bit_at(out->validity, row);

		if (present && weir_nested_row_valid(&column, row))
			weir_bit_set(validity, row);
	}
	out->validity = validity;
	return WEIR_OK;
}

static int bind_field(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	const struct weir_node *name = node->arguments[1];
	const struct weir_function *function;
	char wanted[128];

	if (type->id == WEIR_MAP)
		return weir_find_bind_lookup(program, node, err);
	if (type->id == WEIR_STRUCT && weir_node_is_constant(name) && weir_type_is_integer(name->type) &&
	    !name->value.is_null) { /* by its number */
		if (name->value.integer < 0 || name->value.integer >= type->field_count)
			return weir_bind_fail(program, node, err, WEIR_E_NAME, "%s has no field %lld, it has %u",
					      node->arguments[0]->text, (long long)name->value.integer,
					      type->field_count);
		node->op = (uint32_t)name->value.integer;
		node->count = 1;
		node->type = weir_type_values(type->fields[node->op].type);
		node->eval = eval_field;
		return WEIR_OK;
	}
	if (!weir_node_is_constant(name) || !weir_type_is_text(name->type) || name->value.is_null)
		return weir_bind_fail(program, node, err, WEIR_E_TYPE, "a field is named by a text literal");
	snprintf(wanted, sizeof(wanted), "%.*s", (int)(name->value.bytes.size < 127 ? name->value.bytes.size : 127),
		 (const char *)weir_view_bytes(&name->value.bytes));
	if (type->id == WEIR_STRUCT) {
		for (uint32_t i = 0; i < type->field_count; i++) {
			if (strcmp(type->fields[i].name, wanted))
				continue;
			node->op = i;
			node->count = 1;
			node->type = weir_type_values(type->fields[i].type);
			node->eval = eval_field;
			return WEIR_OK;
		}
		return weir_bind_fail(program, node, err, WEIR_E_NAME, "%s has no field '%s'", node->arguments[0]->text,
				      wanted);
	}
	/* ts.year: a property is a function of one argument. */
	function = weir_function_find(wanted);
	if (function && function->count_min == 1 && type->id != WEIR_NULL) {
		node->function = function;
		node->count = 1;
		node->op = function->op;
		return function->bind(program, node, err);
	}
	return weir_nested_refuse(program, node, err);
}

const struct weir_type *weir_list_of(struct weir_program *program, const struct weir_type *type, struct weir_error *err)
{
	struct weir_field item = {.name = "item", .type = type, .nullable = true};

	return weir_program_keep(program, weir_type_list(program->account, WEIR_LIST_TYPE, &item, 0, false, err), err);
}

int weir_lists_skip(struct weir_builder *builder, uint32_t row, struct weir_error *err)
{
	return weir_builder_null(builder, (int64_t)row - builder->length, err);
}

int weir_lists_end(struct weir_call *call, struct weir_builder *builder, int code, struct weir_error *err)
{
	if (!code)
		code = weir_lists_skip(builder, call->row_count, err);
	if (!code) {
		call->nested = weir_builder_finish(builder, err);
		code = call->nested ? WEIR_OK : err->code;
	}
	weir_builder_release(builder);
	return code;
}

/* slice(x, begin, end) of lists; OPEN, ENDLESS: None stood there. */
enum { OPEN = 1, ENDLESS = 2 };

/* Python's place in a list of `length`: from the end when negative, never outside. */
static int64_t place(int64_t at, int64_t length)
{
	at = at < 0 ? at + length : at;
	return at < 0 ? 0 : at > length ? length : at;
}

static int kernel_slice(struct weir_call *call, struct weir_error *err)
{
	const struct weir_column *list = &call->arguments[0];
	const int64_t *froms = call->arguments[1].values, *tos = call->arguments[2].values;
	struct weir_builder builder;
	int code = weir_builder_init(&builder, call->node->type, call->eval->evaluator->account, err);

	for (uint32_t k = 0; !code && k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int64_t begin, length, from, to;

		code = weir_lists_skip(&builder, row, err);
		if (code)
			break;
		weir_nested_range(list->nested, list->nested_offset + (row & weir_call_mask(call, 0)), &begin, &length);
		from = call->node->op & OPEN ? 0 : place(froms[row & weir_call_mask(call, 1)], length);
		to = call->node->op & ENDLESS ? length : place(tos[row & weir_call_mask(call, 2)], length);
		if (to > from)
			code = weir_builder_array(&builder.children[0], list->nested->children[0], begin + from,
						  to - from, err);
		if (!code)
			code = weir_builder_list_end(&builder, err);
	}
	return weir_lists_end(call, &builder, code, err);
}

/* Both bounds are there, or zero and a bit of `op`. */
static int bind_bounds(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	struct weir_scalar zero = {.type = weir_type_of(WEIR_INT64)};
	struct weir_node **arguments = weir_arena_alloc(&program->arena, 3 * sizeof(*arguments), err);
	char name[96];

	if (!arguments)
		return err->code;
	memcpy(arguments, node->arguments, node->count * sizeof(*arguments));
	node->op = 0;
	for (uint32_t i = 1; i < 3; i++) {
		if (i < node->count && !weir_node_is_none(arguments[i])) {
			if (!weir_type_is_integer(arguments[i]->type))
				return weir_bind_fail(program, node, err, WEIR_E_TYPE, "a bound is %s, not an integer",
						      weir_type_name(arguments[i]->type, name, sizeof(name)));
			if (weir_bind_cast(program, &arguments[i], zero.type, true, err))
				return err->code;
			continue;
		}
		node->op |= i == 1 ? OPEN : ENDLESS;
		arguments[i] = weir_bind_new(program, err);
		if (!arguments[i] || weir_bind_constant(program, arguments[i], zero.type, &zero, err))
			return err->code;
	}
	node->arguments = arguments;
	node->count = 3;
	return WEIR_OK;
}

static int bind_slice(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;

	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	if (weir_type_is_bytes(type)) {
		if (node->count == 2) { /* without an end */
			struct weir_node **arguments = weir_arena_alloc(&program->arena, 3 * sizeof(*arguments), err);
			struct weir_node *end = weir_bind_new(program, err);

			if (!arguments || !end || weir_bind_constant(program, end, weir_type_of(WEIR_NULL), NULL, err))
				return err->code;
			memcpy(arguments, node->arguments, 2 * sizeof(*arguments));
			arguments[2] = end;
			node->arguments = arguments;
			node->count = 3;
		}
		return weir_text_bind_slice(program, node, err);
	}
	if (!weir_nested_is_list(type) || type->id == WEIR_MAP)
		return weir_nested_refuse(program, node, err);
	/* A part of a list of fixed size has any size. */
	if (type->id == WEIR_FIXED_LIST)
		type = weir_program_keep(
			program, weir_type_list(program->account, WEIR_LIST_TYPE, &type->fields[0], 0, false, err),
			err);
	if (!type || bind_bounds(program, node, err))
		return err->code;
	weir_bind_kernel(node, type, kernel_slice);
	node->needs_rows = true;
	return WEIR_OK;
}

/* Of text: a part; of a list or a map: an element or a key. */
static int bind_contains(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	return weir_nested_is_list(node->arguments[0]->type) ? weir_find_bind_contains(program, node, err)
							     : weir_text_bind_contains(program, node, err);
}

/* Blanks as Python's split() without a separator sees them, but ASCII ones only. */
static bool is_blank(uint8_t c)
{
	return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
}

static int split_blanks(struct weir_builder *items, const uint8_t *bytes, size_t size, struct weir_error *err)
{
	size_t at = 0;
	int code = WEIR_OK;

	while (!code) {
		size_t begin;

		while (at < size && is_blank(bytes[at]))
			at++;
		if (at == size)
			break;
		for (begin = at; at < size && !is_blank(bytes[at]);)
			at++;
		code = weir_builder_bytes(items, bytes + begin, at - begin, err);
	}
	return code;
}

static int split_at(struct weir_builder *items, const uint8_t *bytes, size_t size, const struct weir_view *separator,
		    int64_t most, struct weir_error *err)
{
	const uint8_t *end = bytes + size, *place;
	int code = WEIR_OK;

	most = most < 0 ? INT64_MAX : most;
	while (!code && most-- > 0 &&
	       (place = memmem(bytes, (size_t)(end - bytes), weir_view_bytes(separator), separator->size))) {
		code = weir_builder_bytes(items, bytes, (size_t)(place - bytes), err);
		bytes = place + separator->size;
	}
	return code ? code : weir_builder_bytes(items, bytes, (size_t)(end - bytes), err);
}

static int kernel_split(struct weir_call *call, struct weir_error *err)
{
	const struct weir_view *texts = call->arguments[0].values;
	struct weir_builder builder;
	int code = weir_builder_init(&builder, call->node->type, call->eval->evaluator->account, err);

	for (uint32_t k = 0; !code && k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *text = &texts[row & weir_call_mask(call, 0)];

		code = weir_lists_skip(&builder, row, err);
		if (code)
			break;
		if (call->node->count == 1) {
			code = split_blanks(&builder.children[0], weir_view_bytes(text), text->size, err);
		} else {
			const struct weir_view *separator = (const struct weir_view *)call->arguments[1].values +
							    (row & weir_call_mask(call, 1));
			int64_t most =
				call->node->count > 2
					? ((const int64_t *)call->arguments[2].values)[row & weir_call_mask(call, 2)]
					: -1;

			if (!separator->size) {
				code = weir_call_fail(call, row, err, WEIR_E_VALUE, "the separator is empty");
				break;
			}
			code = split_at(&builder.children[0], weir_view_bytes(text), text->size, separator, most, err);
		}
		if (!code)
			code = weir_builder_list_end(&builder, err);
	}
	return weir_lists_end(call, &builder, code, err);
}

static int bind_split(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *text = node->arguments[0]->type,
			       *type = weir_list_of(program, weir_type_is_text(text) ? text : weir_type_of(WEIR_STRING),
						    err);
	int code;

	if (!type)
		return err->code;
	for (uint32_t i = 0; i < node->count; i++) {
		if (weir_node_is_none(node->arguments[i]))
			return weir_bind_constant(program, node, type, NULL, err);
	}
	if (!weir_type_is_text(node->arguments[0]->type) ||
	    (node->count > 1 && !weir_type_is_text(node->arguments[1]->type)))
		return weir_nested_refuse(program, node, err);
	if (node->count > 2) {
		if (!weir_type_is_integer(node->arguments[2]->type))
			return weir_nested_refuse(program, node, err);
		code = weir_bind_cast(program, &node->arguments[2], weir_type_of(WEIR_INT64), true, err);
		if (code)
			return code;
	}
	weir_bind_kernel(node, type, kernel_split);
	node->needs_rows = true;
	node->may_fail = true;
	return WEIR_OK;
}

const struct weir_function weir_functions_nested[] = {
	{"length", 1, 1, bind_length, 0},   {"len", 1, 1, bind_length, 0},
	{"element", 2, 2, bind_element, 0}, {"field", 2, 2, bind_field, 0},
	{"slice", 2, 3, bind_slice, 0},     {"contains", 2, 2, bind_contains, 0},
	{"split", 1, 3, bind_split, 0},     {0},
};
