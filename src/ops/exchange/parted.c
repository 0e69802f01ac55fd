#include "ops/exchange/parted.h"

#include "ops/exchange/rows.h"

#include <string.h>

/* ---- the number ---- */

struct parted_step {
	struct weir_account *account;
	struct weir_row_layout layout;
	uint32_t count, field_count;
	uint32_t *columns;
	uint64_t part_count;
};

struct parted_lane {
	struct weir_account *account;
	const struct parted_step *step;
	struct weir_row_input input;
	struct weir_column *columns; /* the vector's, and the number */
	uint64_t numbers[WEIR_VECTOR_ROWS];
};

static void step_free(void *state)
{
	struct parted_step *step = state;

	weir_row_layout_release(&step->layout);
	weir_free(step->account, step->columns, (step->count + 1) * sizeof(*step->columns));
	weir_free(step->account, step, sizeof(*step));
}

static void lane_free(void *state)
{
	struct parted_lane *lane = state;

	weir_row_input_release(&lane->input);
	weir_free(lane->account, lane->columns, (lane->step->field_count + 1) * sizeof(*lane->columns));
	weir_free(lane->account, lane, sizeof(*lane));
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	const struct parted_step *step = state;
	struct parted_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);
	int code;

	if (!lane)
		return err->code;
	lane->account = context->account;
	lane->step = step;
	lane->columns = weir_alloc_zero(lane->account, (step->field_count + 1) * sizeof(*lane->columns), err);
	code = lane->columns ? weir_row_input_init(&lane->input, lane->account, &step->layout, err) : err->code;
	if (code)
		lane_free(lane);
	else
		*out = lane;
	return code;
}

static int push(void *state, struct weir_vector *vector, enum weir_progress *progress, struct weir_error *err)
{
	struct parted_lane *lane = state;
	const struct parted_step *step = lane->step;
	int code = weir_row_input_take(&lane->input, vector, step->columns, true, err);

	if (code)
		return code;
	for (uint32_t i = 0; i < lane->input.count; i++)
		lane->numbers[weir_row_input_row(&lane->input, i)] =
			(uint64_t)((unsigned __int128)lane->input.hashes[i] * step->part_count >> 64);
	memcpy(lane->columns, vector->columns, step->field_count * sizeof(*lane->columns));
	lane->columns[step->field_count] = (struct weir_column){.type = weir_type_of(WEIR_UINT64),
								.values = lane->numbers};
	vector->columns = lane->columns;
	vector->column_count = step->field_count + 1;
	*progress = WEIR_HAVE_OUTPUT;
	return WEIR_OK;
}

static const struct weir_step_ops step_ops = {
	.name = "part", .lane_new = lane_new, .push = push, .lane_free = lane_free, .free = step_free};

int weir_parted_step(struct weir_op_env *env, struct weir_fragment *fragment, const struct weir_schema *schema,
		     const uint32_t *columns, uint32_t count, uint64_t part_count, struct weir_error *err)
{
	const struct weir_type **types = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*types), err);
	struct parted_step *step = types ? weir_alloc_zero(env->account, sizeof(*step), err) : NULL;
	int code;

	if (!step)
		return err->code;
	*step = (struct parted_step){
		.account = env->account, .count = count, .field_count = schema->field_count, .part_count = part_count};
	for (uint32_t i = 0; i < count; i++)
		types[i] = schema->fields[columns[i]].type;
	step->columns = weir_alloc_zero(env->account, (count + 1) * sizeof(*step->columns), err);
	code = step->columns ? weir_row_layout_init(&step->layout, env->account, types, count, count, 0, 0, err)
			     : err->code;
	if (code) {
		step_free(step);
		return code;
	}
	memcpy(step->columns, columns, count * sizeof(*columns));
	return weir_fragment_step(fragment, &step_ops, step, err);
}

/* ---- hiding it ---- */

struct hide_lane {
	struct weir_account *account;
};

static int hide_lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct hide_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);

	(void)state;
	if (!lane)
		return err->code;
	lane->account = context->account;
	*out = lane;
	return WEIR_OK;
}

static int hide_push(void *state, struct weir_vector *vector, enum weir_progress *progress, struct weir_error *err)
{
	(void)state;
	(void)err;
	vector->column_count--;
	*progress = WEIR_HAVE_OUTPUT;
	return WEIR_OK;
}

static void hide_lane_free(void *state)
{
	struct hide_lane *lane = state;

	weir_free(lane->account, lane, sizeof(*lane));
}

static void hide_free(void *state)
{
	struct hide_lane *step = state;

	weir_free(step->account, step, sizeof(*step));
}

static const struct weir_step_ops hide_ops = {
	.name = "hide", .lane_new = hide_lane_new, .push = hide_push, .lane_free = hide_lane_free, .free = hide_free};

int weir_parted_hide(struct weir_op_env *env, struct weir_fragment *fragment, struct weir_error *err)
{
	struct hide_lane *step = weir_alloc_zero(env->account, sizeof(*step), err);

	if (!step)
		return err->code;
	step->account = env->account;
	return weir_fragment_step(fragment, &hide_ops, step, err);
}
