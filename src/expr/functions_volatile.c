/* Functions whose value depends on the row's place, not on its values: random numbers, identifiers, row numbers.
 *
 *     random(), random(seed)               0 ≤ x < 1, float64
 *     uuid(), uuid(seed)                   a random UUID (version 4) as text
 *     monotonically_increasing_id()        the split's number in the upper 31 bits, the row's number in it below
 *
 * A row's place is its split and its number among the rows of that split that came to the evaluator. So the values
 * depend on the input and the seed alone, not on lanes or timing, and a split that is redone has the same ones again.
 * Without a seed one is drawn while binding. Such nodes are never folded, shared or evaluated by a dictionary's values,
 * and filters do not move past them (plan/rules.c).
 */
#include "base/hash.h"
#include "expr/program.h"
#include "expr/text_writer.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum { OP_RANDOM, OP_UUID, OP_ROW_ID };
enum { ROW_BITS = 33, ROW_BITS_BEHIND = 22, SPLIT_BITS_BEHIND = 41 };

struct draw {
	uint64_t seed;
};

/* The number among all rows that came to the evaluator of each row of the vector; NULL with err set. */
static const uint64_t *numbers_of(const struct weir_eval *eval, struct weir_error *err)
{
	struct weir_evaluator *evaluator = eval->evaluator;
	const struct weir_selection *all = &evaluator->arrived;
	uint64_t *numbers;

	if (evaluator->numbers)
		return evaluator->numbers;
	numbers = weir_arena_alloc(eval->arena, ((size_t)eval->row_count + 1) * sizeof(*numbers), err);
	for (uint32_t k = 0; numbers && k < all->count; k++)
		numbers[all->rows ? all->rows[k] : k] = evaluator->row_begin + k;
	return evaluator->numbers = numbers;
}

static uint64_t hash_at(uint64_t seed, uint64_t split, uint64_t number)
{
	uint64_t key[3] = {seed, split, number};

	return weir_hash_bytes(key, sizeof(key), seed);
}

static void put_uuid(uint8_t *out, uint64_t high, uint64_t low)
{
	static const char digits[] = "0123456789abcdef";
	uint32_t at = 0;

	high = (high & ~(uint64_t)0xf000) | 0x4000;             /* version 4 */
	low = (low & ~((uint64_t)3 << 62)) | (uint64_t)2 << 62; /* variant 1 */
	for (uint32_t i = 0; i < 32; i++) {
		uint64_t half = i < 16 ? high : low;

		if (i == 8 || i == 12 || i == 16 || i == 20)
			out[at++] = '-';
		out[at++] = (uint8_t)digits[half >> (60 - 4 * (i & 15)) & 15];
	}
}

static int eval_volatile(const struct weir_eval *eval, const struct weir_node *node, struct weir_column *out,
			 struct weir_error *err)
{
	const struct draw *draw = node->data;
	const struct weir_evaluator *evaluator = eval->evaluator;
	const uint64_t *numbers = numbers_of(eval, err);
	struct weir_text_writer writer = {.arena = eval->arena};
	size_t width = node->op == OP_UUID ? sizeof(struct weir_view) : 8;
	void *values = weir_arena_alloc_aligned(eval->arena, ((size_t)eval->row_count + 1) * width, err);

	if (!numbers || !values)
		return err->code;
	for (uint32_t k = 0; k < eval->selection.count; k++) {
		uint32_t row = eval->selection.rows ? eval->selection.rows[k] : k;
		uint64_t number = numbers[row], split = evaluator->split_key;
		uint8_t *text;

		switch (node->op) {
		case OP_RANDOM:
			((double *)values)[row] = (double)(hash_at(draw->seed, split, number) >> 11) * 0x1p-53;
			break;
		case OP_UUID:
			text = weir_text_room(&writer, 36, err);
			if (!text)
				return err->code;
			put_uuid(text, hash_at(draw->seed, split, number),
				 hash_at(draw->seed ^ 0x9e3779b97f4a7c15u, split, number));
			((struct weir_view *)values)[row] = weir_text_done(&writer, 36);
			break;
		default:
			((int64_t *)values)[row] = (int64_t)(evaluator->split_id + number);
		}
	}
	*out = (struct weir_column){.type = node->type, .form = WEIR_FLAT, .values = values};
	return WEIR_OK;
}

void weir_evaluator_split(struct weir_evaluator *evaluator, uint64_t number, const char *place)
{
	evaluator->row_next = 0;
	evaluator->split_key = place ? weir_hash_bytes(place, strlen(place), 0) : number;
	/* Behind a function a split's number has more bits, and a split fewer rows. */
	if (place)
		evaluator->split_id =
			(number >> SPLIT_BITS_BEHIND ? evaluator->split_key >> (64 - SPLIT_BITS_BEHIND) : number)
			<< ROW_BITS_BEHIND;
	else
		evaluator->split_id = number << ROW_BITS;
}

static int bind_volatile(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	static const enum weir_type_id types[] = {WEIR_DOUBLE, WEIR_STRING, WEIR_INT64};
	struct draw *draw = weir_arena_alloc_zero(&program->arena, sizeof(*draw), err);

	if (!draw)
		return err->code;
	for (uint32_t i = 0; i < node->count; i++) {
		const struct weir_node *seed = node->arguments[i];

		if (!weir_node_is_constant(seed) || !weir_type_is_integer(seed->type) || seed->value.is_null)
			return weir_bind_fail(program, node, err, WEIR_E_TYPE, "the seed is an integer literal");
		draw->seed = weir_hash_u64(draw->seed + (uint64_t)seed->value.integer) + i + 1;
	}
	if (!node->count && getrandom(&draw->seed, sizeof(draw->seed), 0) != (ssize_t)sizeof(draw->seed))
		return weir_error_set_errno(err, errno, "no random number for a seed");
	node->count = 0;
	node->data = draw;
	node->type = weir_type_of(types[node->op]);
	node->eval = eval_volatile;
	node->is_volatile = true;
	return WEIR_OK;
}

const struct weir_function weir_functions_volatile[] = {
	{"random", 0, 2, bind_volatile, OP_RANDOM},
	{"uuid", 0, 2, bind_volatile, OP_UUID},
	{"monotonically_increasing_id", 0, 0, bind_volatile, OP_ROW_ID},
	{0},
};

bool weir_expr_is_volatile(const struct weir_expr *expr)
{
	if (expr->kind != WEIR_EXPR_CALL)
		return false;
	for (const struct weir_function *f = weir_functions_volatile; f->name; f++) {
		if (!strcmp(f->name, expr->name))
			return true;
	}
	for (uint32_t i = 0; i < expr->count; i++) {
		if (weir_expr_is_volatile(expr->arguments[i]))
			return true;
	}
	return false;
}
