/* What a predicate can still be, given bounds of its columns: a set of {true, false, null}, computed bottom-up.
 *
 * Bounds may be wider than the values (truncated strings), never narrower. Floats may hold NaN that the bounds do not
 * show: then every comparison is false, != is true. A node that is not understood can be anything.
 */
#include "expr/functions_in.h"
#include "expr/program.h"

#include <string.h>

enum { CAN_TRUE = 1, CAN_FALSE = 2, CAN_NULL = 4, CAN_ANYTHING = 7 };

static bool is_function(const struct weir_node *node, const char *name)
{
	return node->kind == WEIR_NODE_CALL && node->function && !strcmp(node->function->name, name);
}

/* Whether bounds speak of the constant's type; readers give them in the column's. */
static bool usable(const struct weir_scalar *bound, const struct weir_scalar *value)
{
	return !bound->is_null && !value->is_null &&
	       (weir_type_equal(bound->type, value->type, false) ||
		(weir_type_is_bytes(bound->type) && weir_type_is_bytes(value->type)));
}

static unsigned null_part(const struct weir_bounds *bounds)
{
	return bounds->has_null_count && bounds->null_count == 0 ? 0 : CAN_NULL;
}

static bool all_null(const struct weir_bounds *bounds)
{
	return bounds->has_null_count && bounds->row_count > 0 && bounds->null_count == bounds->row_count;
}

static unsigned compare_bounds(const struct weir_bounds *bounds, const struct weir_scalar *value,
			       enum weir_comparison op)
{
	bool has_min = bounds->has_min && usable(&bounds->min, value);
	bool has_max = bounds->has_max && usable(&bounds->max, value);
	/* Unknown sides and NaN leave everything open. */
	int low = has_min ? weir_scalar_compare(&bounds->min, value) : 2;
	int high = has_max ? weir_scalar_compare(&bounds->max, value) : 2;
	bool low_known = has_min && low != 2, high_known = has_max && high != 2;
	bool is_float = weir_type_is_float(value->type);
	bool can = true, cannot = true;

	switch (op) {
	case WEIR_EQ:
		can = !(low_known && low > 0) && !(high_known && high < 0);
		cannot = !(low_known && high_known && low == 0 && high == 0);
		break;
	case WEIR_NE:
		can = !(low_known && high_known && low == 0 && high == 0);
		cannot = !(low_known && low > 0) && !(high_known && high < 0);
		break;
	case WEIR_LT:
		can = !(low_known && low >= 0);
		cannot = !(high_known && high < 0);
		break;
	case WEIR_LE:
		can = !(low_known && low > 0);
		cannot = !(high_known && high <= 0);
		break;
	case WEIR_GT:
		can = !(high_known && high <= 0);
		cannot = !(low_known && low > 0);
		break;
	default:
		can = !(high_known && high < 0);
		cannot = !(low_known && low >= 0);
	}
	/* NaN, in the column or as the constant. */
	if (is_float) {
		cannot = true;
		can |= op == WEIR_NE;
	}
	return (can ? CAN_TRUE : 0) | (cannot ? CAN_FALSE : 0);
}

static unsigned can_be(const struct weir_node *node, const struct weir_bounds *bounds);

static unsigned prefix_bounds(const struct weir_bounds *bounds, const struct weir_view *prefix)
{
	unsigned can = CAN_TRUE | CAN_FALSE;

	if (bounds->has_max && !bounds->max.is_null && weir_type_is_bytes(bounds->max.type) &&
	    weir_view_compare(&bounds->max.bytes, prefix) < 0)
		can = CAN_FALSE;
	if (bounds->has_min && !bounds->min.is_null && weir_type_is_bytes(bounds->min.type)) {
		uint32_t size = bounds->min.bytes.size < prefix->size ? bounds->min.bytes.size : prefix->size;

		/* Everything is past all that begins with it. */
		if (memcmp(weir_view_bytes(&bounds->min.bytes), weir_view_bytes(prefix), size) > 0)
			can = CAN_FALSE;
	}
	return can;
}

static unsigned call_can_be(const struct weir_node *node, const struct weir_bounds *bounds)
{
	const struct weir_node *first = node->count ? node->arguments[0] : NULL;
	const struct weir_members *members = weir_node_members(node);
	const struct weir_bounds *known;
	unsigned can;

	if (is_function(node, "and")) {
		unsigned all = CAN_TRUE, any = 0;

		for (uint32_t i = 0; i < node->count; i++) {
			can = can_be(node->arguments[i], bounds);
			any |= can;
			if (!(can & CAN_TRUE))
				all &= ~(unsigned)CAN_TRUE;
		}
		return all | (any & (CAN_FALSE | CAN_NULL));
	}
	if (is_function(node, "or")) {
		unsigned all = CAN_FALSE, any = 0;

		for (uint32_t i = 0; i < node->count; i++) {
			can = can_be(node->arguments[i], bounds);
			any |= can;
			if (!(can & CAN_FALSE))
				all &= ~(unsigned)CAN_FALSE;
		}
		return all | (any & (CAN_TRUE | CAN_NULL));
	}
	if (is_function(node, "not")) {
		can = can_be(first, bounds);
		return (can & CAN_NULL) | (can & CAN_TRUE ? CAN_FALSE : 0) | (can & CAN_FALSE ? CAN_TRUE : 0);
	}
	if (!first || first->kind != WEIR_NODE_COLUMN)
		return CAN_ANYTHING;
	known = &bounds[first->column];
	if (is_function(node, "is_null") || is_function(node, "is_valid") || is_function(node, "is_not_null")) {
		bool is_null = is_function(node, "is_null");

		can = (null_part(known) ? (is_null ? CAN_TRUE : CAN_FALSE) : 0) |
		      (all_null(known) ? 0 : (is_null ? CAN_FALSE : CAN_TRUE));
		return can;
	}
	/* What follows is null for null alone. */
	if (members) {
		if (all_null(known))
			return CAN_NULL;
		can = CAN_FALSE | (members->has_null ? CAN_NULL : 0);
		for (uint32_t i = 0; i < members->count; i++)
			can |= compare_bounds(known, &members->values[i], WEIR_EQ) & CAN_TRUE;
		return can | null_part(known);
	}
	if (node->count == 2 && node->arguments[1]->kind == WEIR_NODE_CONSTANT && !node->arguments[1]->value.is_null) {
		const struct weir_scalar *value = &node->arguments[1]->value;

		if (is_function(node, "eq") || is_function(node, "ne") || is_function(node, "lt") ||
		    is_function(node, "le") || is_function(node, "gt") || is_function(node, "ge")) {
			if (all_null(known))
				return CAN_NULL;
			return compare_bounds(known, value, node->op) | null_part(known);
		}
		if ((is_function(node, "startswith") || is_function(node, "starts_with")) &&
		    weir_type_is_bytes(value->type)) {
			if (all_null(known))
				return CAN_NULL;
			return prefix_bounds(known, &value->bytes) | null_part(known);
		}
	}
	return CAN_ANYTHING;
}

/* A column of booleans that is itself the condition. */
static unsigned column_can_be(const struct weir_node *node, const struct weir_bounds *bounds)
{
	struct weir_scalar yes = {.type = weir_type_of(WEIR_BOOL), .boolean = true};

	if (node->type->id != WEIR_BOOL)
		return CAN_ANYTHING;
	return all_null(bounds) ? CAN_NULL : compare_bounds(bounds, &yes, WEIR_EQ) | null_part(bounds);
}

static unsigned can_be(const struct weir_node *node, const struct weir_bounds *bounds)
{
	switch (node->kind) {
	case WEIR_NODE_CONSTANT:
		return node->value.is_null ? CAN_NULL : node->value.boolean ? CAN_TRUE : CAN_FALSE;
	case WEIR_NODE_COLUMN:
		return column_can_be(node, &bounds[node->column]);
	case WEIR_NODE_CALL:
		break;
	}
	return call_can_be(node, bounds);
}

bool weir_program_may_match(const struct weir_program *predicate, const struct weir_bounds *bounds)
{
	return can_be(predicate->root, bounds) & CAN_TRUE;
}

/* How many values the column must have one of for the node to be true, 0: nothing is known; into `out` unless NULL. */
static uint32_t equalities(const struct weir_node *node, uint32_t column, struct weir_scalar *out)
{
	const struct weir_members *members = weir_node_members(node);

	if (is_function(node, "and")) {
		const struct weir_node *best = NULL;
		uint32_t fewest = 0;

		for (uint32_t i = 0; i < node->count; i++) {
			uint32_t count = equalities(node->arguments[i], column, NULL);

			if (count && (!best || count < fewest)) {
				best = node->arguments[i];
				fewest = count;
			}
		}
		return best ? equalities(best, column, out) : 0;
	}
	if (is_function(node, "or")) {
		uint32_t total = 0;

		for (uint32_t i = 0; i < node->count; i++) {
			uint32_t count = equalities(node->arguments[i], column, out ? out + total : NULL);

			if (!count)
				return 0;
			total += count;
		}
		return total;
	}
	if (node->kind != WEIR_NODE_CALL || !node->count || node->arguments[0]->kind != WEIR_NODE_COLUMN ||
	    node->arguments[0]->column != column)
		return 0;
	if (members) {
		if (out && members->count)
			memcpy(out, members->values, members->count * sizeof(*out));
		return members->count;
	}
	if (is_function(node, "eq") && node->op == WEIR_EQ && node->arguments[1]->kind == WEIR_NODE_CONSTANT &&
	    !node->arguments[1]->value.is_null) {
		if (out)
			*out = node->arguments[1]->value;
		return 1;
	}
	return 0;
}

/* Once, while binding: programs are immutable after that. */
int weir_program_list_equalities(struct weir_program *program, struct weir_error *err)
{
	for (uint32_t i = 0; i < program->schema->field_count; i++) {
		struct weir_equalities found = {.column = i, .count = equalities(program->root, i, NULL)};
		struct weir_scalar *values;

		if (!found.count)
			continue;
		values = weir_arena_alloc(&program->arena, found.count * sizeof(*values), err);
		if (!values)
			return err->code;
		equalities(program->root, i, values);
		found.values = values;
		if (weir_list_push(&program->equalities, program->account, err, found))
			return err->code;
	}
	return WEIR_OK;
}

int weir_program_equalities(const struct weir_program *predicate, uint32_t column, const struct weir_scalar **out,
			    uint32_t *count, struct weir_error *err)
{
	(void)err;
	*out = NULL;
	*count = 0;
	for (size_t i = 0; i < predicate->equalities.count; i++) {
		if (predicate->equalities.items[i].column == column) {
			*out = predicate->equalities.items[i].values;
			*count = predicate->equalities.items[i].count;
		}
	}
	return WEIR_OK;
}
