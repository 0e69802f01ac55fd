/* Vectors: numbers of several columns as one list of a fixed length, and lists of how often things occur.
 *
 *     vector('float', a, b, c)        a tensor: fixed_size_list<float>[3], a null being NaN; of whole numbers, null
 *     counts_in(list, 'x', 'y')       how often each of the members is among the elements
 *     hashed_counts(list, n)          how many elements have each of n places: that of a text is its SHA-256, as one
 *                                     number, mod n
 */
#include "base/hash.h"
#include "base/sha256.h"
#include "expr/functions_nested.h"

#include <math.h>
#include <string.h>

enum { PLACES_MAX = 1 << 20 };

/* ---- vector ---- */

/* The values of a column go to every n-th place from `to` on. */
#define SPREAD(name, from_type, to_type, null)                                                                         \
	static void spread_##name(const struct weir_column *column, uint32_t rows, void *to_bytes, size_t n)           \
	{                                                                                                              \
		const from_type *from = column->values;                                                                \
		to_type *to = to_bytes;                                                                                \
		uint32_t mask = column->form == WEIR_CONSTANT ? 0 : ~0u;                                               \
                                                                                                                       \
		if (!column->validity)                                                                                 \
			for (uint32_t row = 0; row < rows; row++)                                                      \
				to[row * n] = (to_type)from[row & mask];                                               \
		else                                                                                                   \
			for (uint32_t row = 0; row < rows; row++)                                                      \
				to[row * n] = weir_bit_at(column->validity, row & mask) ? (to_type)from[row & mask]    \
											: (to_type)(null);             \
	}
SPREAD(doubles, double, double, NAN)
SPREAD(floats, double, float, NAN)
SPREAD(8, uint8_t, uint8_t, 0)
SPREAD(16, uint16_t, uint16_t, 0)
SPREAD(32, uint32_t, uint32_t, 0)
SPREAD(64, uint64_t, uint64_t, 0)

static void spread(const struct weir_type *type, const struct weir_column *column, uint32_t rows, uint8_t *to, size_t n)
{
	if (type->id == WEIR_DOUBLE)
		spread_doubles(column, rows, to, n);
	else if (type->id == WEIR_FLOAT)
		spread_floats(column, rows, to, n);
	else if (type->byte_width == 8)
		spread_64(column, rows, to, n);
	else if (type->byte_width == 4)
		spread_32(column, rows, to, n);
	else if (type->byte_width == 2)
		spread_16(column, rows, to, n);
	else
		spread_8(column, rows, to, n);
}

/* Bits of the elements of which there are none. */
static int note_nulls(const struct weir_eval *eval, const struct weir_column *column, struct weir_array *items,
		      size_t at, size_t n, struct weir_error *err)
{
	uint64_t size = (uint64_t)items->length / 8 + 1;
	uint8_t *bits;

	if (!column->validity)
		return WEIR_OK;
	if (!items->buffers[0].data) {
		if (weir_buffer_new(items->account, size, &items->buffers[0], &bits, err))
			return err->code;
		memset(bits, 0xff, size);
	}
	bits = (uint8_t *)(uintptr_t)items->buffers[0].data;
	for (uint32_t row = 0; row < eval->row_count; row++) {
		size_t place = row * n + at;

		if (!weir_column_valid(column, row))
			bits[place >> 3] &= (uint8_t) ~(1u << (place & 7));
	}
	items->null_count = -1;
	return WEIR_OK;
}

static int eval_vector(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
		       struct weir_error *err)
{
	struct weir_account *account = eval->evaluator->account;
	const struct weir_type *type = node->type->fields[0].type;
	size_t n = node->count, size = (size_t)eval->row_count * n;
	struct weir_array *list = weir_array_new(account, node->type, err);
	struct weir_array *items = list ? weir_array_new(account, type, err) : NULL;
	uint8_t *bytes = NULL;
	int code = items ? WEIR_OK : err->code;

	if (items)
		list->children[0] = items;
	if (!code)
		code = weir_buffer_new(account, size * type->byte_width, &items->buffers[1], &bytes, err);
	if (!code) {
		items->length = (int64_t)size;
		list->length = eval->row_count;
	}
	for (uint32_t i = 0; i < n && !code; i++) {
		struct weir_column column;

		code = weir_node_evaluate_flat(eval, node->arguments[i], &column, err);
		if (code)
			break;
		spread(type, &column, eval->row_count, bytes + (size_t)i * type->byte_width, n);
		if (!weir_type_is_float(type))
			code = note_nulls(eval, &column, items, i, n, err);
	}
	if (code) {
		weir_array_unref(list);
		return code;
	}
	*out = (struct weir_column){.type = node->type, .form = WEIR_FLAT, .nested = list};
	return weir_evaluator_hold(eval->evaluator, list, err);
}

static const struct weir_type *number_named(const struct weir_scalar *name)
{
	static const enum weir_type_id ids[] = {WEIR_INT8,   WEIR_INT16,  WEIR_INT32,  WEIR_INT64, WEIR_UINT8,
						WEIR_UINT16, WEIR_UINT32, WEIR_UINT64, WEIR_FLOAT, WEIR_DOUBLE};
	char text[96];

	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		weir_type_name(weir_type_of(ids[i]), text, sizeof(text));
		if (strlen(text) == name->bytes.size && !memcmp(text, weir_view_bytes(&name->bytes), name->bytes.size))
			return weir_type_of(ids[i]);
	}
	return NULL;
}

static int bind_vector(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_node *kind = node->arguments[0];
	struct weir_field item = {.name = "item", .nullable = true};
	bool has_name = weir_node_is_constant(kind) && weir_type_is_text(kind->type) && !kind->value.is_null;
	int code = WEIR_OK;

	item.type = has_name ? number_named(&kind->value) : NULL;
	if (!item.type)
		return weir_bind_fail(program, node, err, WEIR_E_TYPE,
				      "vector('float', x, …): the first argument is the name of a type of numbers");
	node->arguments++;
	node->count--;
	for (uint32_t i = 0; i < node->count && !code; i++)
		code = weir_bind_cast(program, &node->arguments[i],
				      weir_type_is_float(item.type) ? weir_type_of(WEIR_DOUBLE) : item.type,
				      !weir_type_is_float(item.type), err);
	if (code)
		return code;
	node->type = weir_program_keep(
		program, weir_type_list(program->account, WEIR_FIXED_LIST, &item, (int32_t)node->count, false, err),
		err);
	node->eval = eval_vector;
	return node->type ? WEIR_OK : err->code;
}

bool weir_program_is_vector(const struct weir_program *program)
{
	return program->root && program->root->kind == WEIR_NODE_CALL && program->root->eval == eval_vector;
}

/* ---- counts ---- */

/* A list of `count` zeros for each row of the call. */
static int64_t *counts_new(struct weir_call *call, uint32_t count, struct weir_error *err)
{
	struct weir_account *account = call->eval->evaluator->account;
	struct weir_array *list = weir_array_new(account, call->node->type, err);
	struct weir_array *items = list ? weir_array_new(account, weir_type_of(WEIR_INT64), err) : NULL;
	size_t size = (size_t)call->row_count * count;
	uint8_t *offsets, *values = NULL;

	if (items)
		list->children[0] = items;
	if (!items || weir_buffer_new(account, ((size_t)call->row_count + 1) * 4, &list->buffers[1], &offsets, err) ||
	    weir_buffer_new(account, size * 8, &items->buffers[1], &values, err)) {
		weir_array_unref(list);
		return NULL;
	}
	memset(values, 0, size * 8);
	for (uint32_t row = 0; row <= call->row_count; row++)
		((int32_t *)offsets)[row] = (int32_t)(row * count);
	items->length = (int64_t)size;
	list->length = call->row_count;
	call->nested = list;
	return (int64_t *)values;
}

static bool item_valid(const struct weir_array *items, int64_t i)
{
	const uint8_t *bits = items->buffers[0].data;
	int64_t at = items->offset + i;

	return !bits || bits[at >> 3] >> (at & 7) & 1;
}

static struct weir_view text_item(const struct weir_array *items, int64_t i)
{
	const uint8_t *data = items->buffers[1].data;
	int64_t at = items->offset + i;
	bool is_large = items->type->id == WEIR_LARGE_STRING;
	int64_t begin = is_large ? ((const int64_t *)data)[at] : ((const int32_t *)data)[at];
	int64_t end = is_large ? ((const int64_t *)data)[at + 1] : ((const int32_t *)data)[at + 1];

	return weir_view_make(items->buffers[2].data + begin, (uint32_t)(end - begin));
}

static struct weir_view whole_item(const struct weir_array *items, int64_t i)
{
	struct weir_column column = {.type = items->type, .form = WEIR_FLAT, .values = items->buffers[1].data};
	struct weir_scalar value;

	weir_scalar_load(&column, (uint32_t)(items->offset + i), &value);
	return weir_view_make(&value.integer, sizeof(value.integer));
}

static inline uint64_t view_hash(const struct weir_view *view)
{
	uint64_t halves[2];

	if (view->size > WEIR_VIEW_INLINE)
		return weir_hash_bytes(view->data, view->size, 0);
	memcpy(halves, view, 16);
	return weir_hash_u64(halves[0] ^ weir_hash_u64(halves[1]));
}

static bool is_countable(const struct weir_type *type)
{
	if (!weir_nested_is_list(type) || type->id == WEIR_MAP)
		return false;
	type = type->fields[0].type;
	return type->id == WEIR_STRING || type->id == WEIR_LARGE_STRING ||
	       (weir_type_is_integer(type) && type->id != WEIR_UINT64);
}

/* Members and their places, by hash. Whole numbers as the bytes of an int64. */
struct places {
	uint32_t count, mask;
	const struct weir_view *views;
	const uint32_t *numbers; /* by slot: place + 1; 0: free */
};

/* Where a member is, or the free slot where it would be. */
static inline uint32_t slot_of(const struct places *places, const struct weir_view *view)
{
	uint32_t slot = (uint32_t)view_hash(view) & places->mask;

	while (places->numbers[slot] && !weir_view_equal(&places->views[slot], view))
		slot = (slot + 1) & places->mask;
	return slot;
}

/* Each list's elements, counted by their places: place_of gives one more than it, 0 for an element that has none. */
typedef uint32_t place_function(const void *object, const struct weir_view *view);

static inline __attribute__((always_inline)) int count_items(struct weir_call *call, uint32_t count,
							     place_function *place_of, const void *object,
							     struct weir_error *err)
{
	const struct weir_column *list = &call->arguments[0];
	const struct weir_array *items = list->nested->children[0];
	bool is_text = items->type->layout == WEIR_LAYOUT_BYTES;
	int64_t *counts = counts_new(call, count, err);

	if (!counts)
		return err->code;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int64_t begin, length;

		weir_nested_range(list->nested, list->nested_offset + (row & weir_call_mask(call, 0)), &begin, &length);
		for (int64_t i = begin; i < begin + length; i++) {
			struct weir_view view;
			uint32_t place;

			if (!item_valid(items, i))
				continue;
			view = is_text ? text_item(items, i) : whole_item(items, i);
			place = place_of(object, &view);
			if (place)
				counts[(size_t)row * count + place - 1]++;
		}
	}
	return WEIR_OK;
}

static inline uint32_t member_place(const void *object, const struct weir_view *view)
{
	const struct places *places = object;

	return places->numbers[slot_of(places, view)];
}

static int kernel_counts_in(struct weir_call *call, struct weir_error *err)
{
	const struct places *places = call->node->data;

	return count_items(call, places->count, member_place, places, err);
}

static int bind_counts_in(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *list = node->arguments[0]->type,
			       *type = weir_list_of(program, weir_type_of(WEIR_INT64), err);
	struct places *places = weir_arena_alloc_zero(&program->arena, sizeof(*places), err);
	uint32_t slots = 8;
	struct weir_view *views;
	uint32_t *numbers;
	bool is_text;

	if (!type || !places)
		return err->code;
	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	if (!is_countable(list))
		return weir_nested_refuse(program, node, err);
	is_text = list->fields[0].type->layout == WEIR_LAYOUT_BYTES;
	places->count = node->count - 1;
	while (slots < places->count * 2)
		slots *= 2;
	places->mask = slots - 1;
	places->views = views = weir_arena_alloc_zero(&program->arena, slots * sizeof(*views), err);
	places->numbers = numbers = views ? weir_arena_alloc_zero(&program->arena, slots * sizeof(*numbers), err)
					  : NULL;
	if (!numbers)
		return err->code;
	for (uint32_t i = 1; i < node->count; i++) {
		const struct weir_node *member = node->arguments[i];
		struct weir_view view;
		uint32_t slot;

		if (!weir_node_is_constant(member) || member->value.is_null ||
		    (is_text ? !weir_type_is_text(member->type) : !weir_type_is_integer(member->type)))
			return weir_bind_fail(program, node, err, WEIR_E_TYPE,
					      "members of 'counts_in' are literals like the elements");
		view = is_text ? member->value.bytes
			       : weir_view_make(&member->value.integer, sizeof(member->value.integer));
		slot = slot_of(places, &view);
		if (numbers[slot])
			return weir_bind_fail(program, node, err, WEIR_E_INVALID,
					      "a member of 'counts_in' is there twice");
		views[slot] = view;
		numbers[slot] = i;
	}
	node->count = 1;
	node->data = places;
	weir_bind_kernel(node, type, kernel_counts_in);
	node->needs_rows = true;
	return WEIR_OK;
}

/* ---- places by hash ---- */

enum { KNOWN = 4096 };

/* Texts whose place has been computed in this call. */
struct known {
	struct weir_view view;
	uint32_t place; /* + 1; 0: none */
};

static uint32_t hashed_place(const struct weir_view *view, uint32_t count)
{
	uint64_t rest = 0;
	uint32_t digest[8];

	weir_sha256(weir_view_bytes(view), view->size, digest);
	for (uint32_t i = 0; i < 8; i++)
		rest = (rest << 32 | digest[i]) % count;
	return (uint32_t)rest;
}

/* How many places there are, and what has been computed. */
struct hashing {
	uint32_t count;
	struct known *known;
};

static inline uint32_t known_place(const void *object, const struct weir_view *view)
{
	const struct hashing *hashing = object;
	struct known *here = &hashing->known[view_hash(view) % KNOWN];

	if (!here->place || !weir_view_equal(&here->view, view))
		*here = (struct known){.view = *view, .place = hashed_place(view, hashing->count) + 1};
	return here->place;
}

static int kernel_hashed_counts(struct weir_call *call, struct weir_error *err)
{
	struct hashing hashing = {.count = call->node->op,
				  .known = weir_arena_alloc_zero(call->arena, KNOWN * sizeof(*hashing.known), err)};

	return hashing.known ? count_items(call, hashing.count, known_place, &hashing, err) : err->code;
}

static int bind_hashed_counts(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *list = node->arguments[0]->type,
			       *type = weir_list_of(program, weir_type_of(WEIR_INT64), err);
	const struct weir_node *count = node->arguments[1];

	if (!type)
		return err->code;
	if (!weir_node_is_constant(count) || !weir_type_is_integer(count->type) || count->value.is_null ||
	    count->value.integer < 1 || count->value.integer > PLACES_MAX)
		return weir_bind_fail(program, node, err, WEIR_E_TYPE,
				      "hashed_counts(list, n): n is a whole number from 1 to %d", PLACES_MAX);
	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	if (!is_countable(list) || list->fields[0].type->layout != WEIR_LAYOUT_BYTES)
		return weir_nested_refuse(program, node, err);
	node->op = (uint32_t)count->value.integer;
	node->count = 1;
	weir_bind_kernel(node, type, kernel_hashed_counts);
	node->needs_rows = true;
	return WEIR_OK;
}

const struct weir_function weir_functions_vectors[] = {
	{"vector", 2, 255, bind_vector, 0},
	{"counts_in", 1, 255, bind_counts_in, 0},
	{"hashed_counts", 2, 2, bind_hashed_counts, 0},
	{0},
};
