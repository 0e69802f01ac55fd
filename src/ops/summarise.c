/* summarise FUNCTION(COLUMN) …: a row for each split about its rows, from which the functions' results can be computed
 * by who has the rows of all splits, of whatever types (python/weir/_aggregate.py). Programs use it where rows come in
 * several schemas, or in several runs; aggregate is for everybody else.
 *
 *     rows │ for column n: n:nulls │ n:nans │ n:least, n:greatest: its type │ n:sums: bytes, as summary.h has them
 *
 * Least and greatest are there when min, max or absmax is asked of the column, sums when sum, mean or std is. A split
 * without rows gives none. */
#include "ops/aggregate.h"

#include <string.h>

struct summarise_config {
	struct weir_aggregates aggregates;
};

struct summarise_step {
	struct weir_account *account;
	struct weir_schema *input;
	struct weir_schema *output;
	const struct summarise_config *config;
};

/* What a column of the row points to. */
struct cell {
	uint64_t valid;
	_Alignas(16) uint8_t stored[WEIR_SCALAR_STORE_MAX];
};

struct summarise_lane {
	struct weir_account account;
	const struct summarise_step *step;
	struct weir_summaries summaries;
	bool given;
	struct cell *cells;                      /* by output column */
	struct weir_column *columns;             /* the same */
	uint8_t (*sums)[WEIR_SUMMARY_BYTES_MAX]; /* by summary */
};

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct summarise_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int code = config ? weir_words_expect(words, node->op->usage, 1, UINT32_MAX, NULL, err) : err->code;

	node->config = config;
	return code ? code : weir_aggregates_parse(env, words, &config->aggregates, err);
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	return weir_aggregates_save(&((const struct summarise_config *)node->config)->aggregates, save, err);
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct summarise_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);

	node->config = config;
	return config ? weir_aggregates_load(env, load, &config->aggregates, err) : err->code;
}

static const struct weir_type *type_of_bound(const struct weir_type *type)
{
	return weir_summary_has_order(type) ? weir_type_values(type) : weir_type_of(WEIR_NULL);
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct weir_aggregates *aggregates = &((const struct summarise_config *)node->config)->aggregates;
	const struct weir_schema *input = node->inputs[0]->schema;
	struct weir_field *fields = weir_arena_alloc_zero(env->arena,
							  (aggregates->column_count * 5 + 1) * sizeof(*fields), err);
	uint32_t n = 0, column;
	int code = fields ? weir_aggregates_check_summaries(aggregates, err) : err->code;

	if (!code)
		code = weir_aggregates_check(aggregates, input, err);
	if (code)
		return code;
	fields[n++] = (struct weir_field){.name = "rows", .type = weir_type_of(WEIR_INT64), .nullable = true};
	for (uint32_t i = 0; !code && i < aggregates->column_count; i++) {
		static const struct {
			const char *name;
			uint32_t wants; /* 0: always */
		} parts[] = {{"nulls", 0},
			     {"nans", 0},
			     {"least", WEIR_WANTS_BOUNDS},
			     {"greatest", WEIR_WANTS_BOUNDS},
			     {"sums", WEIR_WANTS_SUM}};

		code = weir_schema_find(input, aggregates->columns[i], &column, err);
		for (uint32_t p = 0; !code && p < sizeof(parts) / sizeof(*parts); p++) {
			struct weir_field *field = &fields[n];

			if (parts[p].wants && !(aggregates->wants[i] & parts[p].wants))
				continue;
			field->name = weir_arena_printf(env->arena, err, "%u:%s", i, parts[p].name);
			field->type = parts[p].wants == WEIR_WANTS_BOUNDS ? type_of_bound(input->fields[column].type)
				      : parts[p].wants                    ? weir_type_of(WEIR_BINARY)
									  : weir_type_of(WEIR_INT64);
			field->nullable = true;
			code = field->name ? WEIR_OK : err->code;
			n++;
		}
	}
	if (code)
		return code;
	node->schema = weir_schema_new(env->account, fields, n, &(struct weir_metadata){0}, err);
	node->rows_est = node->bytes_est = -1;
	return node->schema ? weir_op_keep_schema(env, node->schema, err) : err->code;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	int code = weir_text_puts(out, "summarise", err);

	return code ? code
		    : weir_aggregates_describe(&((const struct summarise_config *)node->config)->aggregates, out, err);
}

static int needs(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		 const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err)
{
	(void)env;
	(void)input;
	(void)wanted;
	return weir_aggregates_needs(&((const struct summarise_config *)node->config)->aggregates,
				     node->inputs[0]->schema, needed, err);
}

/* ---- running ---- */

static void step_free(void *state)
{
	struct summarise_step *step = state;

	weir_schema_unref(step->input);
	weir_schema_unref(step->output);
	weir_free(step->account, step, sizeof(*step));
}

static void lane_free(void *state)
{
	struct summarise_lane *lane = state;
	uint32_t count = lane->step->output->field_count;

	weir_summaries_release(&lane->summaries);
	weir_free(&lane->account, lane->cells, count * sizeof(*lane->cells));
	weir_free(&lane->account, lane->columns, count * sizeof(*lane->columns));
	weir_free(&lane->account, lane->sums, lane->step->config->aggregates.column_count * sizeof(*lane->sums));
	weir_op_lane_free(lane, sizeof(*lane));
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	const struct summarise_step *step = state;
	struct summarise_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "summarise", err);
	uint32_t count = step->output->field_count;

	if (!lane)
		return err->code;
	lane->step = step;
	lane->cells = weir_alloc_zero(&lane->account, count * sizeof(*lane->cells), err);
	lane->columns = weir_alloc_zero(&lane->account, count * sizeof(*lane->columns), err);
	lane->sums = weir_alloc_zero(&lane->account, step->config->aggregates.column_count * sizeof(*lane->sums), err);
	if (!lane->cells || !lane->columns || (!lane->sums && step->config->aggregates.column_count) ||
	    weir_summaries_init(&lane->summaries, &step->config->aggregates, step->input, &lane->account, err)) {
		lane_free(lane);
		return err->code;
	}
	*out = lane;
	return WEIR_OK;
}

static int split_begin(void *state, const struct weir_split_info *split, struct weir_error *err)
{
	struct summarise_lane *lane = state;

	(void)split;
	(void)err;
	weir_summaries_reset(&lane->summaries);
	lane->given = false;
	return WEIR_OK;
}

static int push(void *state, struct weir_vector *vector, enum weir_progress *progress, struct weir_error *err)
{
	struct summarise_lane *lane = state;

	*progress = WEIR_NEED_INPUT;
	return weir_summaries_push(&lane->summaries, vector, err);
}

static void set_number(struct cell *cell, uint64_t number)
{
	cell->valid = 1;
	memcpy(cell->stored, &number, sizeof(number));
}

static void set_bytes(struct cell *cell, const void *bytes, size_t size)
{
	struct weir_view view = weir_view_make(bytes, (uint32_t)size);

	cell->valid = 1;
	memcpy(cell->stored, &view, sizeof(view));
}

/* Returns where the values are: of wide binaries they stay where they were. */
static const void *set_bound(struct cell *cell, const struct weir_bound *bound)
{
	cell->valid = bound->known;
	if (!bound->known)
		return cell->stored;
	if (bound->value.type->id == WEIR_FIXED_BINARY)
		return bound->bytes;
	if (weir_bound_has_bytes(bound->value.type))
		set_bytes(cell, bound->bytes ? bound->bytes : (const uint8_t *)"", bound->value.bytes.size);
	else
		weir_scalar_store(&bound->value, cell->stored);
	return cell->stored;
}

static int drain(void *state, struct weir_vector *out, enum weir_progress *progress, struct weir_error *err)
{
	struct summarise_lane *lane = state;
	const struct weir_aggregates *aggregates = &lane->step->config->aggregates;
	uint32_t n = 0;

	(void)err;
	*progress = WEIR_NEED_INPUT;
	if (lane->given || !lane->summaries.rows)
		return WEIR_OK;
	lane->given = true;
	for (uint32_t i = 0; i < lane->step->output->field_count; i++)
		lane->columns[i] = (struct weir_column){.type = lane->step->output->fields[i].type,
							.form = WEIR_FLAT,
							.validity = &lane->cells[i].valid,
							.values = lane->cells[i].stored};
	set_number(&lane->cells[n++], lane->summaries.rows);
	for (uint32_t i = 0; i < aggregates->column_count; i++) {
		const struct weir_summary *summary = &lane->summaries.items[i];

		set_number(&lane->cells[n++], summary->nulls);
		set_number(&lane->cells[n++], summary->nans);
		if (aggregates->wants[i] & WEIR_WANTS_BOUNDS) {
			lane->columns[n].values = set_bound(&lane->cells[n], &summary->least);
			lane->columns[n + 1].values = set_bound(&lane->cells[n + 1], &summary->greatest);
			n += 2;
		}
		if (aggregates->wants[i] & WEIR_WANTS_SUM) {
			set_bytes(&lane->cells[n++], lane->sums[i], weir_summary_store(summary, lane->sums[i]));
		}
	}
	*out = (struct weir_vector){.row_count = 1,
				    .selection = {.count = 1},
				    .column_count = n,
				    .columns = lane->columns,
				    .source_row = -1};
	*progress = WEIR_HAVE_OUTPUT;
	return WEIR_OK;
}

static const struct weir_step_ops step_ops = {
	.name = "summarise",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.drain = drain,
	.lane_free = lane_free,
	.free = step_free,
};

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	struct summarise_step *step = weir_alloc_zero(env->account, sizeof(*step), err);

	if (!step)
		return err->code;
	step->account = env->account;
	step->input = weir_schema_ref(node->inputs[0]->schema);
	step->output = weir_schema_ref(node->schema);
	step->config = node->config;
	return weir_fragment_step(fragment, &step_ops, step, err);
}

const struct weir_op weir_op_summarise = {
	.verb = "summarise",
	.usage = "summarise FUNCTION(COLUMN), …",
	.help = "For programs: what is known of each part of the input, from which the program computes aggregates of all of it.\n",
	.inputs_min = 1,
	.inputs_max = 1,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = build,
	.rules = {.needs = needs, .narrow = weir_op_narrow_nothing},
};
