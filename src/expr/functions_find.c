/* Values looked for in lists and maps: x in list, key in map, map[key].
 *
 * What is looked for and the elements first get one type: a literal takes the elements', else the two meet as in a
 * comparison, and elements that are of another type (or dictionary-coded) are converted, those of the vector's rows
 * alone. Then each row's elements are compared one after the other: rows are short, and nothing is known about their
 * order.
 *
 *     x in list    true when found; else null when an element is null (it might be x), else false
 *     key in map   true or false: keys are never null
 *     map[key]     the value of the last such key, as in Python's dict(pairs); null when there is none
 */
#include "expr/adapt.h"
#include "expr/functions_nested.h"

#include <string.h>

enum { NEVER = 1 }; /* node->op: the literal is none of the type's values */

/* The elements of all rows; element i of the list's child is `array`'s row i − first. */
struct elements {
	const struct weir_array *array;
	int64_t first;
	bool is_large; /* BYTES: 64-bit offsets */
};

static bool is_found_at(const struct elements *elements, int64_t at, const struct weir_column *wanted, uint32_t row)
{
	const struct weir_type *type = elements->array->type;
	const uint8_t *data = elements->array->buffers[1].data;

	switch (type->layout) {
	case WEIR_LAYOUT_BITS:
		return (data[at >> 3] >> (at & 7) & 1) == weir_bit_at(wanted->values, row);
	case WEIR_LAYOUT_BYTES: {
		const struct weir_view *view = (const struct weir_view *)wanted->values + row;
		int64_t begin = elements->is_large ? ((const int64_t *)data)[at] : ((const int32_t *)data)[at];
		int64_t end = elements->is_large ? ((const int64_t *)data)[at + 1] : ((const int32_t *)data)[at + 1];

		return end - begin == view->size && (!view->size || !memcmp(elements->array->buffers[2].data + begin,
									    weir_view_bytes(view), view->size));
	}
	default:
		/* NaN equals nothing, the zeros equal each other. */
		if (type->id == WEIR_DOUBLE)
			return ((const double *)data)[at] == ((const double *)wanted->values)[row];
		if (type->id == WEIR_FLOAT)
			return ((const float *)data)[at] == ((const float *)wanted->values)[row];
		return !memcmp(data + at * type->byte_width,
			       (const uint8_t *)wanted->values + (size_t)row * type->byte_width, type->byte_width);
	}
}

/* The last element that is wanted, or −1. */
static int64_t find_last(const struct elements *elements, int64_t begin, int64_t length,
			 const struct weir_column *wanted, uint32_t row, bool *has_null)
{
	const uint8_t *validity = elements->array->buffers[0].data;
	int64_t at = elements->array->offset + begin - elements->first;

	*has_null = false;
	for (int64_t i = length - 1; i >= 0; i--) {
		if (elements->array->type->layout == WEIR_LAYOUT_NULL ||
		    (validity && !(validity[(at + i) >> 3] >> ((at + i) & 7) & 1)))
			*has_null = true;
		else if (is_found_at(elements, at + i, wanted, row))
			return begin + i;
	}
	return -1;
}

/* The list's child, or the keys of a map's; rows are those of the list's child. */
static int elements_of(const struct weir_eval *eval, const struct weir_column *list, const struct weir_type *type,
		       struct elements *out, struct weir_error *err)
{
	const struct weir_array *child = list->nested->children[0];
	int64_t rows = list->form == WEIR_CONSTANT ? 1 : eval->row_count, begin, end, length;
	struct weir_array *part, *same;
	bool is_map = list->nested->type->id == WEIR_MAP;

	*out = (struct elements){.array = is_map ? child->children[0] : child, .first = is_map ? -child->offset : 0};
	out->is_large = out->array->type->id == WEIR_LARGE_STRING || out->array->type->id == WEIR_LARGE_BINARY;
	if (weir_type_equal(out->array->type, type, false) ||
	    (out->array->type->layout == WEIR_LAYOUT_BYTES && type->layout == WEIR_LAYOUT_BYTES))
		return WEIR_OK;
	weir_nested_range(list->nested, list->nested_offset, &begin, &length);
	weir_nested_range(list->nested, list->nested_offset + rows - 1, &end, &length);
	end += length;
	part = weir_array_slice(out->array, begin - out->first, end - begin, err);
	if (!part)
		return err->code;
	same = weir_array_promote(eval->evaluator->account, part, type, err);
	weir_array_unref(part);
	if (!same)
		return err->code;
	out->array = same;
	out->first = begin;
	out->is_large = type->id == WEIR_LARGE_STRING || type->id == WEIR_LARGE_BINARY;
	return weir_evaluator_hold(eval->evaluator, same, err);
}

/* Both arguments; *is_null: the result is, for every row. */
static int evaluate_both(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *list,
			 struct weir_column *wanted, struct elements *elements, bool *is_null, struct weir_error *err)
{
	int code = weir_node_evaluate_flat(eval, node->arguments[0], list, err);

	if (!code)
		code = weir_node_evaluate_flat(eval, node->arguments[1], wanted, err);
	if (code)
		return code;
	*is_null = (list->form == WEIR_CONSTANT && !weir_column_valid(list, 0)) || !list->nested ||
		   (wanted->form == WEIR_CONSTANT && !weir_column_valid(wanted, 0));
	return *is_null ? WEIR_OK : elements_of(eval, list, node->arguments[1]->type, elements, err);
}

static int64_t find_in_row(const struct weir_node *node, const struct weir_column *list,
			   const struct weir_column *wanted, const struct elements *elements, uint32_t row,
			   bool *has_null)
{
	int64_t begin, length, found;

	weir_nested_range(list->nested, list->nested_offset + (list->form == WEIR_CONSTANT ? 0 : row), &begin, &length);
	found = find_last(elements, begin, length, wanted, wanted->form == WEIR_CONSTANT ? 0 : row, has_null);
	return node->op == NEVER ? -1 : found;
}

static int eval_contains(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
			 struct weir_error *err)
{
	uint32_t words = WEIR_BIT_WORDS(eval->row_count);
	struct weir_column list, wanted;
	struct elements elements;
	uint64_t *bits, *validity;
	bool is_null;
	int code = evaluate_both(eval, node, &list, &wanted, &elements, &is_null, err);

	if (code)
		return code;
	if (is_null) {
		*out = weir_column_null(node->type);
		return WEIR_OK;
	}
	bits = weir_arena_alloc_zero(eval->arena, words * 8 + 8, err);
	validity = weir_arena_alloc_zero(eval->arena, words * 8 + 8, err);
	if (!bits || !validity)
		return err->code;
	for (uint32_t k = 0; k < eval->selection.count; k++) {
		uint32_t row = eval->selection.rows ? eval->selection.rows[k] : k;
		bool has_null;

		if (!weir_nested_row_valid(&list, row) || !weir_column_valid(&wanted, row))
			continue;
		if (find_in_row(node, &list, &wanted, &elements, row, &has_null) >= 0) {
			weir_bit_set(bits, row);
			weir_bit_set(validity, row);
		} else if (!has_null) {
			weir_bit_set(validity, row);
		}
	}
	*out = (struct weir_column){.type = node->type, .form = WEIR_FLAT, .values = bits, .validity = validity};
	return WEIR_OK;
}

static int eval_lookup(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
		       struct weir_error *err)
{
	struct weir_column map, wanted;
	const struct weir_array *entries;
	struct elements keys;
	int64_t *rows;
	bool is_null;
	int code = evaluate_both(eval, node, &map, &wanted, &keys, &is_null, err);

	if (code)
		return code;
	if (is_null) {
		*out = weir_column_null(node->type);
		return WEIR_OK;
	}
	rows = weir_nested_rows(eval, err);
	if (!rows)
		return err->code;
	entries = map.nested->children[0];
	for (uint32_t k = 0; k < eval->selection.count; k++) {
		uint32_t row = eval->selection.rows ? eval->selection.rows[k] : k;
		bool has_null;
		int64_t found;

		if (!weir_nested_row_valid(&map, row) || !weir_column_valid(&wanted, row))
			continue;
		found = find_in_row(node, &map, &wanted, &keys, row, &has_null);
		if (found >= 0)
			rows[row] = entries->offset + found;
	}
	return weir_nested_take(eval, node, entries->children[1], rows, out, err);
}

static int refuse_pair(struct weir_program *program, const struct weir_node *node, const struct weir_type *element,
		       struct weir_error *err)
{
	char a[96], b[96];

	return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s (%s) can never be among elements of type %s (%s)",
			      weir_type_name(node->arguments[1]->type, a, sizeof(a)), node->arguments[1]->text,
			      weir_type_name(element, b, sizeof(b)), node->arguments[0]->text);
}

/* Whether elements of the one type can be made into the other. */
static bool converts(struct weir_program *program, const struct weir_type *from, const struct weir_type *to,
		     struct weir_error *err)
{
	const struct weir_type *both = weir_type_unify(program->account, from, to, err);
	bool same = both && weir_type_equal(both, to, false);

	weir_type_unref(both);
	return same;
}

/* Gives argument 1 the type in which elements are compared. */
static int bind_wanted(struct weir_program *program, struct weir_node *node, const struct weir_type *element,
		       struct weir_error *err)
{
	const struct weir_type *values = weir_type_values(element), *type;
	struct weir_node *wanted = node->arguments[1];
	enum weir_comparison op = WEIR_EQ;
	struct weir_scalar value = wanted->value;

	weir_error_clear(err);
	node->op = 0;
	if (values->layout == WEIR_LAYOUT_NESTED || wanted->type->layout == WEIR_LAYOUT_NESTED)
		return refuse_pair(program, node, element, err);
	if (weir_node_is_constant(wanted) && values->id != WEIR_HALF && values->id != WEIR_NULL) {
		switch (weir_adapt(values, &value, &op, err)) {
		case WEIR_ADAPTED:
			node->op = op == WEIR_EQ ? 0 : NEVER;
			node->arguments[1] = weir_bind_new(program, err);
			if (!node->arguments[1])
				return err->code;
			node->arguments[1]->text = wanted->text;
			return weir_bind_constant(program, node->arguments[1], values, &value, err);
		case WEIR_ADAPT_FAILED:
			return weir_bind_fail(program, node, err, WEIR_E_CAST, "%.300s", err->message);
		case WEIR_NOT_ADAPTED:
			break;
		}
	}
	weir_error_clear(err);
	type = weir_promote(program, values, wanted->type, err);
	if (!type)
		return err->code ? err->code : refuse_pair(program, node, element, err);
	if (type->id == WEIR_HALF)
		type = weir_type_of(WEIR_FLOAT);
	if (!converts(program, element, type, err))
		return weir_code_is_memory(err->code) ? err->code : refuse_pair(program, node, element, err);
	return weir_bind_cast(program, &node->arguments[1], type, !weir_type_is_float(type), err);
}

static const struct weir_type *element_type(const struct weir_type *type)
{
	return type->id == WEIR_MAP ? type->fields[0].type->fields[0].type : type->fields[0].type;
}

int weir_find_bind_contains(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	int code;

	if (weir_node_is_none(node->arguments[1]))
		return weir_bind_constant(program, node, weir_type_of(WEIR_BOOL), NULL, err);
	code = bind_wanted(program, node, element_type(node->arguments[0]->type), err);
	node->type = weir_type_of(WEIR_BOOL);
	node->eval = eval_contains;
	return code;
}

int weir_find_bind_lookup(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	int code;

	node->type = weir_type_values(type->fields[0].type->fields[1].type);
	if (weir_node_is_none(node->arguments[1]))
		return weir_bind_constant(program, node, node->type, NULL, err);
	code = bind_wanted(program, node, element_type(type), err);
	node->eval = eval_lookup;
	return code;
}
