/* x in (…): few numbers are compared one after the other, by kernels; anything else is looked up in a hash set made
 * while binding. Three-valued: not found, but a null in the list, is null. Members that are no constants become x == a
 * or … index_in(x, a, b, …): the place of the member that x equals, from 0; null for none. */
#include "expr/functions_in.h"

#include "base/hash.h"
#include "expr/adapt.h"

#include <string.h>

enum { COMPARED_MAX = 6 }; /* numbers; past it the set is faster */
#define NOWHERE UINT32_MAX

struct set {
	struct weir_members members; /* first: prune.c reads it */
	uint32_t slot_mask;
	const uint64_t *keys;          /* numbers by their bits; slot order */
	const struct weir_view *views; /* bytes */
	const uint8_t *used;           /* a byte a slot */
	const uint32_t *places;        /* of the members, as they were written; slot order */
	uint32_t place_true, place_false;
	bool has_true, has_false;
};

const struct weir_members *weir_node_members(const struct weir_node *node)
{
	return node->kind == WEIR_NODE_CALL && node->function && !strcmp(node->function->name, "in") && node->data
		       ? node->data
		       : NULL;
}

static inline uint64_t view_hash(const struct weir_view *view)
{
	uint64_t halves[2];

	if (view->size > WEIR_VIEW_INLINE)
		return weir_hash_bytes(view->data, view->size, 0);
	memcpy(halves, view, 16);
	return weir_hash_u64(halves[0] ^ weir_hash_u64(halves[1]));
}

/* The slot, or NOWHERE. */
static inline uint32_t slot_of_key(const struct set *set, uint64_t key)
{
	uint32_t slot = (uint32_t)weir_hash_u64(key) & set->slot_mask;

	for (; set->used[slot]; slot = (slot + 1) & set->slot_mask) {
		if (set->keys[slot] == key)
			return slot;
	}
	return NOWHERE;
}

static inline uint32_t slot_of_view(const struct set *set, const struct weir_view *view)
{
	uint32_t slot = (uint32_t)view_hash(view) & set->slot_mask;

	for (; set->used[slot]; slot = (slot + 1) & set->slot_mask) {
		if (weir_view_equal(&set->views[slot], view))
			return slot;
	}
	return NOWHERE;
}

static inline bool find_key(const struct set *set, uint64_t key)
{
	return slot_of_key(set, key) != NOWHERE;
}

static inline bool find_view(const struct set *set, const struct weir_view *view)
{
	return slot_of_view(set, view) != NOWHERE;
}

/* Rows that were not found are null when the list has a null. */
static void not_found_is_null(struct weir_call *call)
{
	const struct set *set = call->node->data;

	if (set->members.has_null)
		weir_vector_kernels()->bits_and(call->validity, call->validity, call->values,
						WEIR_BIT_WORDS(call->row_count));
}

static int kernel_compared(struct weir_call *call, struct weir_error *err)
{
	const struct weir_vector_kernels *kernels = weir_vector_kernels();
	const struct set *set = call->node->data;
	enum weir_number number = weir_type_number(set->members.type);
	uint32_t words = WEIR_BIT_WORDS(call->row_count);
	uint64_t bits[WEIR_VECTOR_ROWS / 64];

	(void)err;
	for (uint32_t i = 0; i < set->members.count; i++) {
		_Alignas(16) uint8_t stored[WEIR_SCALAR_STORE_MAX];

		weir_scalar_store(&set->members.values[i], stored);
		kernels->compare_constant[number][WEIR_EQ](call->arguments[0].values, stored, call->row_count, bits);
		kernels->bits_or(call->values, call->values, bits, words);
	}
	not_found_is_null(call);
	return WEIR_OK;
}

#define LOOKUP(name, type, KEY)                                                                                        \
	static int kernel_##name(struct weir_call *call, struct weir_error *err)                                       \
	{                                                                                                              \
		const struct set *set = call->node->data;                                                              \
		const type *values = call->arguments[0].values;                                                        \
		uint64_t *bits = call->values;                                                                         \
                                                                                                                       \
		(void)err;                                                                                             \
		for (uint32_t k = 0; k < call->rows.count; k++) {                                                      \
			uint32_t row = weir_call_row(call, k);                                                         \
			type value = values[row];                                                                      \
                                                                                                                       \
			bits[row >> 6] |= (uint64_t)find_key(set, KEY(value)) << (row & 63);                           \
		}                                                                                                      \
		not_found_is_null(call);                                                                               \
		return WEIR_OK;                                                                                        \
	}

#define KEY_SELF(value) (value)
/* −0.0 equals 0.0. */
#define KEY_FLOAT(value) float_key(value)
#define KEY_DOUBLE(value) double_key(value)

static inline uint64_t float_key(float value)
{
	uint32_t bits;

	value += 0.0f;
	memcpy(&bits, &value, 4);
	return bits;
}

static inline uint64_t double_key(double value)
{
	uint64_t bits;

	value += 0.0;
	memcpy(&bits, &value, 8);
	return bits;
}

LOOKUP(u8, uint8_t, KEY_SELF)
LOOKUP(u16, uint16_t, KEY_SELF)
LOOKUP(u32, uint32_t, KEY_SELF)
LOOKUP(u64, uint64_t, KEY_SELF)
LOOKUP(f32, float, KEY_FLOAT)
LOOKUP(f64, double, KEY_DOUBLE)

static int kernel_views(struct weir_call *call, struct weir_error *err)
{
	const struct set *set = call->node->data;
	const struct weir_view *values = call->arguments[0].values;
	uint64_t *bits = call->values;

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);

		bits[row >> 6] |= (uint64_t)find_view(set, &values[row]) << (row & 63);
	}
	not_found_is_null(call);
	return WEIR_OK;
}

/* Decimals and fixed binaries, by their bytes. */
static int kernel_fixed(struct weir_call *call, struct weir_error *err)
{
	const struct set *set = call->node->data;
	uint32_t width = set->members.type->byte_width;
	const uint8_t *values = call->arguments[0].values;
	uint64_t *bits = call->values;

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		struct weir_view view = weir_view_make(values + (size_t)row * width, width);

		bits[row >> 6] |= (uint64_t)find_view(set, &view) << (row & 63);
	}
	not_found_is_null(call);
	return WEIR_OK;
}

static int kernel_bools(struct weir_call *call, struct weir_error *err)
{
	const struct set *set = call->node->data;
	const uint64_t *values = call->arguments[0].values;

	(void)err;
	for (uint32_t i = 0; i < WEIR_BIT_WORDS(call->row_count); i++)
		((uint64_t *)call->values)[i] = (set->has_true ? values[i] : 0) | (set->has_false ? ~values[i] : 0);
	not_found_is_null(call);
	return WEIR_OK;
}

/* ---- index_in ---- */

static inline void put_place(struct weir_call *call, uint32_t row, uint32_t place)
{
	if (place == NOWHERE)
		weir_bit_clear(call->validity, row);
	else
		((int64_t *)call->values)[row] = place;
}

static inline uint32_t place_at(const struct set *set, uint32_t slot)
{
	return slot == NOWHERE ? NOWHERE : set->places[slot];
}

#define INDEX(name, type, KEY)                                                                                         \
	static int index_##name(struct weir_call *call, struct weir_error *err)                                        \
	{                                                                                                              \
		const struct set *set = call->node->data;                                                              \
		const type *values = call->arguments[0].values;                                                        \
                                                                                                                       \
		(void)err;                                                                                             \
		for (uint32_t k = 0; k < call->rows.count; k++) {                                                      \
			uint32_t row = weir_call_row(call, k);                                                         \
                                                                                                                       \
			put_place(call, row, place_at(set, slot_of_key(set, KEY(values[row]))));                       \
		}                                                                                                      \
		return WEIR_OK;                                                                                        \
	}

INDEX(u8, uint8_t, KEY_SELF)
INDEX(u16, uint16_t, KEY_SELF)
INDEX(u32, uint32_t, KEY_SELF)
INDEX(u64, uint64_t, KEY_SELF)
INDEX(f32, float, KEY_FLOAT)
INDEX(f64, double, KEY_DOUBLE)

static int index_views(struct weir_call *call, struct weir_error *err)
{
	const struct set *set = call->node->data;
	const struct weir_view *values = call->arguments[0].values;

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);

		put_place(call, row, place_at(set, slot_of_view(set, &values[row])));
	}
	return WEIR_OK;
}

static int index_fixed(struct weir_call *call, struct weir_error *err)
{
	const struct set *set = call->node->data;
	uint32_t width = set->members.type->byte_width;
	const uint8_t *values = call->arguments[0].values;

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		struct weir_view view = weir_view_make(values + (size_t)row * width, width);

		put_place(call, row, place_at(set, slot_of_view(set, &view)));
	}
	return WEIR_OK;
}

static int index_bools(struct weir_call *call, struct weir_error *err)
{
	const struct set *set = call->node->data;

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		bool is_true = weir_bit_at(call->arguments[0].values, row);

		put_place(call, row, is_true ? set->place_true : set->place_false);
	}
	return WEIR_OK;
}

static weir_node_kernel *index_kernel_for(const struct weir_type *type)
{
	if (type->layout == WEIR_LAYOUT_BITS)
		return index_bools;
	if (type->layout == WEIR_LAYOUT_BYTES)
		return index_views;
	if (weir_type_number(type) == WEIR_NUMBER_COUNT)
		return weir_type_is_decimal(type) || type->id == WEIR_FIXED_BINARY ? index_fixed : NULL;
	if (type->id == WEIR_FLOAT)
		return index_f32;
	if (type->id == WEIR_DOUBLE)
		return index_f64;
	return type->byte_width == 1   ? index_u8
	       : type->byte_width == 2 ? index_u16
	       : type->byte_width == 4 ? index_u32
				       : index_u64;
}

/* ---- binding ---- */

/* `places`: of each member, its place in the text. */
static int set_fill(struct weir_program *program, struct set *set, const uint32_t *places, struct weir_error *err)
{
	const struct weir_type *type = set->members.type;
	bool is_number = weir_type_number(type) != WEIR_NUMBER_COUNT;
	uint32_t slots = 8;
	uint64_t *keys;
	struct weir_view *views;
	uint8_t *used;
	uint32_t *slot_places;

	while (slots < set->members.count * 2)
		slots *= 2;
	set->slot_mask = slots - 1;
	used = weir_arena_alloc_zero(&program->arena, slots, err);
	keys = weir_arena_alloc_zero(&program->arena, is_number ? slots * sizeof(*keys) : 8, err);
	views = weir_arena_alloc_zero(&program->arena, is_number ? 16 : slots * sizeof(*views), err);
	slot_places = weir_arena_alloc_zero(&program->arena, slots * sizeof(*slot_places), err);
	if (!used || !keys || !views || !slot_places)
		return err->code;
	set->places = slot_places;
	set->place_true = set->place_false = NOWHERE;
	set->used = used;
	set->keys = keys;
	set->views = views;
	for (uint32_t i = 0; i < set->members.count; i++) {
		const struct weir_scalar *value = &set->members.values[i];
		uint64_t key = 0;
		struct weir_view view = value->bytes;
		uint32_t slot;

		if (type->layout == WEIR_LAYOUT_BITS) {
			*(value->boolean ? &set->has_true : &set->has_false) = true;
			if (*(value->boolean ? &set->place_true : &set->place_false) == NOWHERE)
				*(value->boolean ? &set->place_true : &set->place_false) = places[i];
			continue;
		}
		if (type->id == WEIR_FLOAT)
			key = float_key((float)value->real);
		else if (type->id == WEIR_DOUBLE)
			key = double_key(value->real);
		else if (is_number)
			weir_scalar_store(value, &key);
		else if (weir_type_is_decimal(type)) {
			uint8_t *bytes = weir_arena_alloc(&program->arena, 32, err);

			if (!bytes)
				return err->code;
			weir_scalar_store(value, bytes);
			view = weir_view_make(bytes, type->byte_width);
		}
		if (is_number ? find_key(set, key) : find_view(set, &view))
			continue;
		slot = (uint32_t)(is_number ? weir_hash_u64(key) : view_hash(&view)) & set->slot_mask;
		while (used[slot])
			slot = (slot + 1) & set->slot_mask;
		used[slot] = 1;
		slot_places[slot] = places[i];
		if (is_number)
			keys[slot] = key;
		else
			views[slot] = view;
	}
	return WEIR_OK;
}

static weir_node_kernel *kernel_for(const struct weir_type *type, uint32_t count)
{
	if (type->layout == WEIR_LAYOUT_BITS)
		return kernel_bools;
	if (type->layout == WEIR_LAYOUT_BYTES)
		return kernel_views;
	if (weir_type_number(type) == WEIR_NUMBER_COUNT)
		return weir_type_is_decimal(type) || type->id == WEIR_FIXED_BINARY ? kernel_fixed : NULL;
	if (count <= COMPARED_MAX)
		return kernel_compared;
	if (type->id == WEIR_FLOAT)
		return kernel_f32;
	if (type->id == WEIR_DOUBLE)
		return kernel_f64;
	return type->byte_width == 1   ? kernel_u8
	       : type->byte_width == 2 ? kernel_u16
	       : type->byte_width == 4 ? kernel_u32
				       : kernel_u64;
}

/* x == a or x == b … */
static int expand(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	for (uint32_t i = 1; i < node->count; i++) {
		struct weir_node *pair[] = {node->arguments[0], node->arguments[i]};

		node->arguments[i] = weir_bind_call(program, "eq", pair, 2, node->text, err);
		if (!node->arguments[i])
			return err->code;
	}
	node->arguments++;
	node->count--;
	node->function = weir_function_find("or");
	node->op = node->function->op;
	return node->function->bind(program, node, err);
}

/* The members, converted to what the argument and they have in common; the argument, too. */
static int bind_members(struct weir_program *program, struct weir_node *node, struct set **out, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	struct set *set = weir_arena_alloc_zero(&program->arena, sizeof(*set), err);
	struct weir_scalar *values = weir_arena_alloc(&program->arena, (node->count + 1) * sizeof(*values), err);
	uint32_t *places = weir_arena_alloc(&program->arena, (node->count + 1) * sizeof(*places), err);
	char a[96], b[96];
	int code;

	weir_error_clear(err);
	if (!set || !values || !places)
		return err->code;
	if (type->id == WEIR_HALF)
		type = weir_type_of(WEIR_FLOAT);
again:
	set->members = (struct weir_members){.type = type, .values = values};
	for (uint32_t i = 1; i < node->count; i++) {
		struct weir_scalar value = node->arguments[i]->value;
		enum weir_comparison op = WEIR_EQ;
		const struct weir_type *both;

		if (value.is_null) {
			set->members.has_null = true;
			continue;
		}
		switch (weir_adapt(type, &value, &op, err)) {
		case WEIR_ADAPTED:
			/* Out of the type's range, or not a number: equal to nothing. */
			if (op == WEIR_EQ && !(weir_type_is_float(type) && value.real != value.real)) {
				places[set->members.count] = i - 1;
				values[set->members.count++] = value;
			}
			continue;
		case WEIR_ADAPT_FAILED:
			return weir_bind_fail(program, node, err, WEIR_E_CAST, "%.300s", err->message);
		case WEIR_NOT_ADAPTED:
			break;
		}
		both = weir_promote(program, type, value.type, err);
		if (!both && err->code)
			return err->code;
		if (!both || weir_type_equal(both, type, false))
			return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s (%s) can never be %s (%s)",
					      weir_type_name(type, a, sizeof(a)), node->arguments[0]->text,
					      weir_type_name(value.type, b, sizeof(b)), node->arguments[i]->text);
		type = both;
		goto again;
	}
	code = weir_bind_cast(program, &node->arguments[0], type, !weir_type_is_float(type), err);
	if (!code)
		code = set_fill(program, set, places, err);
	if (code)
		return code;
	*out = set;
	node->data = set;
	node->count = 1;
	return WEIR_OK;
}

static int bind_in(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	struct set *set;
	char name[96];
	int code;

	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, weir_type_of(WEIR_BOOL), NULL, err);
	for (uint32_t i = 1; i < node->count; i++) {
		if (!weir_node_is_constant(node->arguments[i]))
			return expand(program, node, err);
	}
	code = bind_members(program, node, &set, err);
	if (code)
		return code;
	weir_bind_kernel(node, weir_type_of(WEIR_BOOL), kernel_for(set->members.type, set->members.count));
	if (!node->kernel)
		return weir_bind_fail(program, node, err, WEIR_E_TYPE, "'in' is not defined for %s",
				      weir_type_name(set->members.type, name, sizeof(name)));
	node->needs_rows = node->kernel != kernel_compared && node->kernel != kernel_bools;
	node->makes_nulls = set->members.has_null;
	return WEIR_OK;
}

static int bind_index_in(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	struct set *set;
	char name[96];
	int code;

	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, weir_type_of(WEIR_INT64), NULL, err);
	for (uint32_t i = 1; i < node->count; i++) {
		if (!weir_node_is_constant(node->arguments[i]))
			return weir_bind_fail(program, node, err, WEIR_E_TYPE, "members of 'index_in' are literals");
	}
	code = bind_members(program, node, &set, err);
	if (code)
		return code;
	weir_bind_kernel(node, weir_type_of(WEIR_INT64), index_kernel_for(set->members.type));
	if (!node->kernel)
		return weir_bind_fail(program, node, err, WEIR_E_TYPE, "'index_in' is not defined for %s",
				      weir_type_name(set->members.type, name, sizeof(name)));
	node->needs_rows = node->makes_nulls = true;
	return WEIR_OK;
}

/* ---- fail ---- */

static int kernel_fail(struct weir_call *call, struct weir_error *err)
{
	const struct weir_scalar *text = call->node->data;

	if (!call->rows.count)
		return WEIR_OK;
	return weir_call_fail(call, weir_call_row(call, 0), err, WEIR_E_VALUE, "%.*s", (int)text->bytes.size,
			      (const char *)weir_view_bytes(&text->bytes));
}

/* fail('why', x): no value, but an error, for each row of which it is asked: y if y > 0 else fail('y is too small',
 * y). */
static int bind_fail(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	struct weir_node *why = node->arguments[0];

	if (!weir_node_is_constant(why) || !weir_type_is_text(why->type) || why->value.is_null)
		return weir_bind_fail(program, node, err, WEIR_E_TYPE, "fail('why', x): the reason is a text");
	node->data = &why->value;
	node->arguments++;
	node->count--;
	node->text = node->arguments[0]->text;
	weir_bind_kernel(node, weir_type_of(WEIR_INT64), kernel_fail);
	node->may_fail = true;
	return WEIR_OK;
}

const struct weir_function weir_functions_in[] = {
	{"in", 1, 255, bind_in, 0},
	{"index_in", 1, 255, bind_index_in, 0},
	{"fail", 2, 2, bind_fail, 0},
	{0},
};
