/* Nested columns to levels and leaf values: Dremel's shredding, a level of the type at a time instead of a row at a
 * time.
 *
 * At each node there are slots: what its leaves will have as levels if nothing below is repeated. A slot has a position
 * in the node's array, or none when something above is null or empty and its levels are final:
 *
 *     rows   [[1, 2], null, [], [3]]          list slots   pos 0  -1   2   3     after expanding  pos 0  1  -1 -1  2
 *                                             definition       1   0   1   1     definition           2  2   0  1  2
 *                                                                                repetition           0  1   0  0  0
 *
 * A struct hands its slots to each child; a list expands each slot by its items; a leaf gives levels and the values at
 * the positions that are left to its writer. Rows are taken ROWS_AT_ONCE at a time, so slots stay few whatever a vector
 * holds.
 */
#include "arrow/bitmap.h"
#include "format/parquet/write_impl.h"

#include <string.h>

enum { ROWS_AT_ONCE = 512 };

struct slots {
	size_t count;
	uint8_t *definition, *repetition;
	int64_t *position; /* −1: none */
};

struct shred {
	const struct parquet_node *nodes;
	struct parquet_leaf_writer *leaves;
	struct parquet_shared *shared;
	const struct weir_selection *selection;
	size_t row_first, row_count; /* of the selection */
	bool ascending;              /* positions ascend: equal distances mean neighbours */
	struct weir_error *err;
};

static void *scratch(struct shred *shred, size_t size)
{
	return weir_arena_alloc(&shred->shared->arena, size ? size : 1, shred->err);
}

static int slots_alloc(struct shred *shred, size_t count, struct slots *out)
{
	out->count = count;
	out->definition = scratch(shred, count);
	out->repetition = out->definition ? scratch(shred, count) : NULL;
	out->position = out->repetition ? scratch(shred, count * sizeof(*out->position)) : NULL;
	return out->position ? WEIR_OK : shred->err->code;
}

/* Codes of a dictionary array to positions in its values. */
static void follow_dictionary(struct slots *slots, const struct weir_array *array)
{
	const uint8_t *valid = array->buffers[0].data;

	for (size_t i = 0; i < slots->count; i++) {
		int64_t at = slots->position[i];

		if (at >= 0)
			slots->position[i] = valid && !weir_bit_get(valid, array->offset + at)
						     ? -1
						     : weir_array_code(array, array->offset + at);
	}
}

/* Slots whose value is null lose their position; the others get this node's definition level. */
static void mark_present(const struct parquet_node *node, const struct weir_array *array, struct slots *slots)
{
	const uint8_t *valid = array->buffers[0].data;
	bool all_null = array->type->id == WEIR_NULL;

	if (!valid && !all_null) {
		for (size_t i = 0; i < slots->count; i++)
			slots->definition[i] = slots->position[i] >= 0 ? node->definition : slots->definition[i];
		return;
	}
	for (size_t i = 0; i < slots->count; i++) {
		int64_t at = slots->position[i];

		if (at < 0)
			continue;
		if (all_null || (valid && !weir_bit_get(valid, array->offset + at)))
			slots->position[i] = -1;
		else
			slots->definition[i] = node->definition;
	}
}

static size_t present_count(const struct slots *slots)
{
	size_t count = 0;

	for (size_t i = 0; i < slots->count; i++)
		count += slots->position[i] >= 0;
	return count;
}

/* ── leaves ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void make_views(const struct weir_array *array, const int64_t *positions, size_t count, struct weir_view *out)
{
	bool wide = array->type->id == WEIR_LARGE_STRING || array->type->id == WEIR_LARGE_BINARY;
	const uint8_t *bytes = array->buffers[2].data;

	for (size_t i = 0; i < count; i++) {
		int64_t at = array->offset + positions[i], begin, end;

		if (wide) {
			begin = ((const int64_t *)array->buffers[1].data)[at];
			end = ((const int64_t *)array->buffers[1].data)[at + 1];
		} else {
			begin = ((const int32_t *)array->buffers[1].data)[at];
			end = ((const int32_t *)array->buffers[1].data)[at + 1];
		}
		out[i] = end > begin ? weir_view_make(bytes + begin, (uint32_t)(end - begin)) : (struct weir_view){0};
	}
}

static int leaf_block(struct shred *shred, struct parquet_leaf_writer *leaf, const struct weir_array *array,
		      const int64_t *positions, size_t count)
{
	struct parquet_shared *shared = shred->shared;
	struct parquet_values values = {.form = WEIR_FLAT, .count = count};
	const uint8_t *data = array->buffers[1].data;
	uint32_t width = leaf->leaf->type->byte_width;
	int code;

	if (leaf->leaf->convert == PARQUET_CONVERT_VIEWS) {
		make_views(array, positions, count, shared->nested_views);
		values.values = shared->nested_views;
	} else if (leaf->leaf->convert == PARQUET_CONVERT_BITS) {
		memset(shared->nested_bits, 0, sizeof(shared->nested_bits));
		for (size_t i = 0; i < count; i++)
			shared->nested_bits[i / 64] |= (uint64_t)weir_bit_get(data, array->offset + positions[i])
						       << i % 64;
		values.values = shared->nested_bits;
	} else if (shred->ascending && positions[count - 1] - positions[0] == (int64_t)count - 1) {
		values.values = data + (array->offset + positions[0]) * (int64_t)width;
	} else {
		shared->nested_values.size = 0;
		code = parquet_buffer_reserve(&shared->nested_values, count * width, &shared->account, shred->err);
		if (code)
			return code;
		for (size_t i = 0; i < count; i++)
			memcpy(shared->nested_values.data + i * width,
			       data + (array->offset + positions[i]) * (int64_t)width, width);
		values.values = shared->nested_values.data;
	}
	return parquet_leaf_values(leaf, &values, shred->err);
}

static int shred_leaf(struct shred *shred, const struct parquet_node *node, const struct weir_array *array,
		      struct slots *slots)
{
	struct parquet_leaf_writer *leaf = &shred->leaves[node->leaf];
	size_t present = 0;
	int code;

	/* Positions that are left, moved together. */
	for (size_t i = 0; i < slots->count; i++) {
		slots->position[present] = slots->position[i];
		present += slots->position[i] >= 0;
	}
	code = parquet_leaf_levels(leaf, slots->definition, slots->repetition, slots->count, shred->err);
	for (size_t i = 0; i < present && !code; i += WEIR_VECTOR_ROWS)
		code = leaf_block(shred, leaf, array, slots->position + i,
				  present - i < WEIR_VECTOR_ROWS ? present - i : WEIR_VECTOR_ROWS);
	return code ? code : parquet_leaf_rows_end(leaf, shred->row_count, shred->err);
}

/* ── the tree ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static int shred_node(struct shred *shred, const struct parquet_node *node, const struct weir_array *array,
		      struct slots *slots);

static int shred_struct(struct shred *shred, const struct parquet_node *node, const struct weir_array *array,
			struct slots *slots)
{
	uint32_t child = node->child;
	int code = WEIR_OK;

	for (uint32_t i = 0; i < node->type->field_count && !code; i++, child = shred->nodes[child].next) {
		struct slots copy = {.count = slots->count, .repetition = slots->repetition};

		copy.definition = scratch(shred, slots->count);
		copy.position = copy.definition ? scratch(shred, slots->count * sizeof(*copy.position)) : NULL;
		if (!copy.position)
			return shred->err->code;
		memcpy(copy.definition, slots->definition, slots->count);
		for (size_t k = 0; k < slots->count; k++)
			copy.position[k] = slots->position[k] < 0 ? -1 : slots->position[k] + array->offset;
		code = shred_node(shred, &shred->nodes[child], array->children[i], &copy);
	}
	return code;
}

static void list_bounds(const struct weir_array *array, int64_t row, int64_t *begin, int64_t *end)
{
	const uint8_t *offsets = array->buffers[1].data;

	row += array->offset;
	switch (array->type->id) {
	case WEIR_FIXED_LIST:
		*begin = row * array->type->list_size;
		*end = *begin + array->type->list_size;
		break;
	case WEIR_LARGE_LIST:
		*begin = ((const int64_t *)offsets)[row];
		*end = ((const int64_t *)offsets)[row + 1];
		break;
	default:
		*begin = ((const int32_t *)offsets)[row];
		*end = ((const int32_t *)offsets)[row + 1];
	}
}

static int shred_list(struct shred *shred, const struct parquet_node *node, const struct weir_array *array,
		      struct slots *slots)
{
	struct slots items;
	size_t count = 0, at = 0;
	int64_t begin, end;
	int code;

	for (size_t i = 0; i < slots->count; i++) {
		if (slots->position[i] < 0) {
			count++;
			continue;
		}
		list_bounds(array, slots->position[i], &begin, &end);
		count += end > begin ? (size_t)(end - begin) : 1;
	}
	code = slots_alloc(shred, count, &items);
	if (code)
		return code;
	for (size_t i = 0; i < slots->count; i++) {
		size_t n;

		begin = end = 0;
		if (slots->position[i] >= 0)
			list_bounds(array, slots->position[i], &begin, &end);
		items.repetition[at] = slots->repetition[i];
		if (end <= begin) {
			items.definition[at] = slots->definition[i];
			items.position[at++] = -1;
			continue;
		}
		n = (size_t)(end - begin);
		memset(items.definition + at, node->definition + 1, n);
		memset(items.repetition + at + 1, node->repetition, n - 1);
		for (size_t k = 0; k < n; k++)
			items.position[at + k] = begin + (int64_t)k;
		at += n;
	}
	return shred_node(shred, &shred->nodes[node->child], array->children[0], &items);
}

/* The first slot that its parent has and the required node has not, and the row it is in. */
static int refuse_null(const struct shred *shred, const struct parquet_node *node, const struct slots *slots)
{
	const struct weir_selection *selection = shred->selection;
	size_t row = 0;

	for (size_t i = 0; i < slots->count; i++) {
		row += i && slots->repetition[i] == 0;
		if (slots->position[i] < 0 && slots->definition[i] >= node->definition)
			break;
	}
	row += shred->row_first;
	return parquet_refuse_null(selection->rows ? selection->rows[row] : (uint32_t)row, shred->err);
}

static int shred_node(struct shred *shred, const struct parquet_node *node, const struct weir_array *array,
		      struct slots *slots)
{
	bool ascending = shred->ascending;
	size_t before = node->optional ? 0 : present_count(slots);
	int code;

	if (array->dictionary) {
		follow_dictionary(slots, array);
		array = array->dictionary;
		shred->ascending = false;
	}
	mark_present(node, array, slots);
	if (!node->optional && present_count(slots) != before)
		return refuse_null(shred, node, slots);
	switch (node->kind) {
	case PARQUET_NODE_STRUCT:
		code = shred_struct(shred, node, array, slots);
		break;
	case PARQUET_NODE_LIST:
		code = shred_list(shred, node, array, slots);
		break;
	default:
		code = shred_leaf(shred, node, array, slots);
	}
	shred->ascending = ascending;
	return code;
}

/* The slots of rows [from, from + count) of the selection. */
static int rows_to_slots(const struct weir_column *column, const struct weir_selection *selection, size_t from,
			 size_t count, bool optional, struct slots *slots, struct weir_error *err)
{
	const uint32_t *codes = column->values;

	memset(slots->definition, 0, count);
	memset(slots->repetition, 0, count);
	for (size_t i = 0; i < count; i++) {
		uint32_t row = selection->rows ? selection->rows[from + i] : (uint32_t)(from + i);

		if (!weir_column_valid(column, row)) {
			if (!optional)
				return parquet_refuse_null(row, err);
			slots->position[i] = -1;
		} else if (column->form == WEIR_DICTIONARY) {
			slots->position[i] = codes[row];
		} else {
			slots->position[i] = column->nested_offset + (column->form == WEIR_CONSTANT ? 0 : row);
		}
	}
	return WEIR_OK;
}

int parquet_write_nested(const struct parquet_node *nodes, const struct parquet_node *node,
			 struct parquet_leaf_writer *leaves, const struct weir_column *column,
			 const struct weir_selection *selection, struct parquet_shared *shared, struct weir_error *err)
{
	const struct weir_array *array = column->form == WEIR_DICTIONARY ? column->dictionary->nested : column->nested;
	struct shred shred = {
		.nodes = nodes,
		.leaves = leaves,
		.shared = shared,
		.ascending = column->form == WEIR_FLAT,
		.selection = selection,
		.err = err,
	};
	int code = WEIR_OK;

	for (size_t from = 0; from < selection->count && !code; from += ROWS_AT_ONCE) {
		struct slots slots;

		shred.row_first = from;
		shred.row_count = selection->count - from < ROWS_AT_ONCE ? selection->count - from : ROWS_AT_ONCE;
		weir_arena_clear(&shared->arena);
		code = slots_alloc(&shred, shred.row_count, &slots);
		if (!code)
			code = rows_to_slots(column, selection, from, shred.row_count, node->optional, &slots, err);
		if (!code)
			code = shred_node(&shred, node, array, &slots);
	}
	return code;
}
