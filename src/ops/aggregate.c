/* aggregate FUNCTION(COLUMN) …: one row about all rows.
 *
 * Each lane sums its split up by itself (summary.h); at the end of the split that is merged into the total. The result
 * depends on the values alone, not on lanes or splits. Nulls are left out, unless --with-nulls says that one makes the
 * result null.
 *
 *     vector ─▶ summary of each column, of this split ─▶ total, under a lock ─▶ one row
 */
#include "ops/aggregate.h"
#include "ops/collect.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

struct aggregate_config {
	struct weir_consumer consumer;
	struct weir_aggregates aggregates;
	bool with_nulls;
};

struct aggregate_sink {
	struct weir_account *account;
	struct weir_schema *input;
	const struct weir_schema *output; /* the plan's */
	const struct aggregate_config *config;
	pthread_mutex_t lock; /* guards the total; rank: alone */
	struct weir_summaries total;
};

struct aggregate_lane {
	struct weir_account account;
	struct aggregate_sink *sink;
	struct weir_summaries summaries; /* of this split */
};

void weir_aggregate_set(struct weir_node *node, const struct weir_consumer *consumer)
{
	WEIR_ASSERT(node->op == &weir_op_aggregate);
	((struct aggregate_config *)node->config)->consumer = *consumer;
}

/* ---- the plan's half ---- */

static const char *const option_names[] = {"with-nulls", NULL};

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct aggregate_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int code = config ? weir_words_expect(words, node->op->usage, 1, UINT32_MAX, option_names, err) : err->code;

	if (code)
		return code;
	node->config = config;
	config->with_nulls = weir_words_option(words, "with-nulls") != NULL;
	return weir_aggregates_parse(env, words, &config->aggregates, err);
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct aggregate_config *config = node->config;
	int code = weir_save_u32(save, config->with_nulls, err);

	return code ? code : weir_aggregates_save(&config->aggregates, save, err);
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct aggregate_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	uint32_t with_nulls = 0;
	int code = config ? weir_load_u32(load, &with_nulls, err) : err->code;

	if (code)
		return code;
	node->config = config;
	config->with_nulls = with_nulls != 0;
	return weir_aggregates_load(env, load, &config->aggregates, err);
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct aggregate_config *config = node->config;
	const struct weir_schema *input = node->inputs[0]->schema;
	uint32_t count = config->aggregates.item_count;
	struct weir_field *fields = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*fields), err);
	int code = fields ? weir_aggregates_check_summaries(&config->aggregates, err) : err->code;

	if (!code)
		code = weir_aggregates_fields(&config->aggregates, input, env->account, fields, err);
	if (!code) {
		node->schema = weir_schema_new(env->account, fields, count, &(struct weir_metadata){0}, err);
		code = node->schema ? weir_op_keep_schema(env, node->schema, err) : err->code;
	}
	for (uint32_t i = 0; fields && i < count; i++)
		weir_type_unref(fields[i].type);
	node->rows_est = 1;
	node->bytes_est = -1;
	return code;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct aggregate_config *config = node->config;
	int code = weir_text_puts(out, config->with_nulls ? "aggregate, with nulls:" : "aggregate", err);

	return code ? code : weir_aggregates_describe(&config->aggregates, out, err);
}

static int needs(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		 const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err)
{
	const struct aggregate_config *config = node->config;

	(void)env;
	(void)input;
	(void)wanted;
	return weir_aggregates_needs(&config->aggregates, node->inputs[0]->schema, needed, err);
}

/* ---- running ---- */

static void lane_free(void *state)
{
	struct aggregate_lane *lane = state;

	weir_summaries_release(&lane->summaries);
	weir_op_lane_free(lane, sizeof(*lane));
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct aggregate_sink *sink = state;
	struct aggregate_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "aggregate", err);

	if (!lane)
		return err->code;
	lane->sink = sink;
	if (weir_summaries_init(&lane->summaries, &sink->config->aggregates, sink->input, &lane->account, err)) {
		lane_free(lane);
		return err->code;
	}
	*out = lane;
	return WEIR_OK;
}

static int split_begin(void *state, const struct weir_split_info *split, struct weir_error *err)
{
	struct aggregate_lane *lane = state;

	(void)split;
	(void)err;
	weir_summaries_reset(&lane->summaries);
	return WEIR_OK;
}

static int push(void *state, struct weir_vector *vector, struct weir_error *err)
{
	struct aggregate_lane *lane = state;

	return weir_summaries_push(&lane->summaries, vector, err);
}

static int split_end(void *state, struct weir_error *err)
{
	struct aggregate_lane *lane = state;
	struct weir_summaries *total = &lane->sink->total;
	int code = WEIR_OK;

	pthread_mutex_lock(&lane->sink->lock);
	total->rows += lane->summaries.rows;
	for (uint32_t i = 0; !code && i < total->count; i++)
		code = weir_summary_merge(&total->items[i], &lane->summaries.items[i], err);
	pthread_mutex_unlock(&lane->sink->lock);
	return code;
}

static void split_abort(void *state)
{
	(void)state; /* the next split_begin forgets it */
}

static int overflow(const struct weir_aggregate_item *item, struct weir_error *err)
{
	weir_error_set(err, WEIR_E_OVERFLOW, "%s does not fit its type; cast the column to float64 or a decimal",
		       item->name);
	weir_error_at_column(err, item->column);
	return err->code;
}

static int put_sum(const struct weir_aggregate_item *item, const struct weir_summary *summary,
		   const struct weir_type *type, struct weir_builder *out, struct weir_error *err)
{
	uint8_t stored[32];
	double real;
	uint64_t whole = (uint64_t)summary->sum;

	switch (weir_summary_kind(summary->type)) {
	case WEIR_SUMMARY_REAL:
		real = weir_exact_value(&summary->real_sum);
		return weir_builder_fixed(out, &real, 1, err);
	case WEIR_SUMMARY_DECIMAL:
		if (!weir_int256_fits(&summary->decimal_sum, type->precision) ||
		    !weir_int256_store(&summary->decimal_sum, stored, type->byte_width))
			return overflow(item, err);
		return weir_builder_fixed(out, stored, 1, err);
	default:
		if (type->id == WEIR_UINT64 ? summary->sum != (__int128)whole
					    : summary->sum != (__int128)(int64_t)whole)
			return overflow(item, err);
		return weir_builder_fixed(out, &whole, 1, err);
	}
}

/* As it lies in a column: one bit is the lowest of a byte. */
static int put_scalar(const struct weir_scalar *value, struct weir_builder *out, struct weir_error *err)
{
	uint8_t stored[WEIR_SCALAR_STORE_MAX];

	if (weir_bound_has_bytes(value->type))
		return value->type->id == WEIR_FIXED_BINARY
			       ? weir_builder_fixed(out, weir_view_bytes(&value->bytes), 1, err)
			       : weir_builder_bytes(out, weir_view_bytes(&value->bytes), value->bytes.size, err);
	weir_scalar_store(value, stored);
	return weir_builder_fixed(out, stored, 1, err);
}

bool weir_aggregate_absmax(enum weir_summary_kind kind, const struct weir_type *type, struct weir_scalar *least,
			   struct weir_scalar *greatest, const struct weir_scalar **out)
{
	struct weir_scalar *bounds[] = {least, greatest};
	struct weir_int256 wide;

	for (int i = 0; i < 2; i++) {
		struct weir_scalar *bound = bounds[i];

		switch (kind) {
		case WEIR_SUMMARY_REAL:
			bound->real = fabs(bound->real);
			break;
		case WEIR_SUMMARY_DECIMAL:
			wide = weir_int256_load(bound->decimal, 32);
			wide = weir_int256_negative(&wide) ? weir_int256_negate(&wide) : wide;
			memcpy(bound->decimal, &wide, sizeof(wide));
			break;
		default:
			if (type->id == WEIR_BOOL || type->id == WEIR_UINT64)
				break;
			if (bound->integer == INT64_MIN)
				return false;
			bound->integer = bound->integer < 0 ? -bound->integer : bound->integer;
			bound->type = type;
		}
	}
	*out = weir_scalar_compare(least, greatest) > 0 ? least : greatest;
	return true;
}

static int put_absmax(const struct weir_aggregate_item *item, const struct weir_summary *summary,
		      const struct weir_type *type, struct weir_builder *out, struct weir_error *err)
{
	struct weir_scalar least = summary->least.value, greatest = summary->greatest.value;
	const struct weir_scalar *result;

	if (!weir_aggregate_absmax(weir_summary_kind(summary->type), type, &least, &greatest, &result))
		return overflow(item, err);
	return put_scalar(result, out, err);
}

int weir_aggregate_put(const struct weir_aggregate_item *item, const struct weir_summaries *summaries, bool with_nulls,
		       const struct weir_type *type, struct weir_builder *out, struct weir_error *err)
{
	const struct weir_summary *summary = item->column ? &summaries->items[item->summary] : NULL;
	uint64_t count = summary ? weir_summary_count(summary) : summaries->rows;
	struct weir_scalar nan = {.real = (double)NAN};
	double real;
	int64_t whole;

	if (item->function == WEIR_COUNT) {
		whole = (int64_t)(with_nulls && summary ? summary->rows : count);
		return weir_builder_fixed(out, &whole, 1, err);
	}
	if (!count || (with_nulls && summary->nulls))
		return weir_builder_null(out, 1, err);
	switch (item->function) {
	case WEIR_SUM:
		return put_sum(item, summary, type, out, err);
	case WEIR_MEAN:
		if (summary->type->id == WEIR_DURATION) {
			if (!weir_duration_mean(summary->sum, count, summary->type->unit, &whole))
				return overflow(item, err);
			return weir_builder_fixed(out, &whole, 1, err);
		}
		real = weir_summary_mean(summary);
		return weir_builder_fixed(out, &real, 1, err);
	case WEIR_STD:
		real = weir_summary_std(summary, item->ddof);
		return weir_builder_fixed(out, &real, 1, err);
	default:
		/* There are values, but all are NaN. */
		if (!summary->least.known) {
			nan.type = summary->type;
			return put_scalar(&nan, out, err);
		}
		if (item->function == WEIR_ABSMAX)
			return put_absmax(item, summary, type, out, err);
		return put_scalar(item->function == WEIR_MIN ? &summary->least.value : &summary->greatest.value, out,
				  err);
	}
}

static int commit(void *state, struct weir_error *err)
{
	struct aggregate_sink *sink = state;
	const struct weir_aggregates *aggregates = &sink->config->aggregates;
	struct weir_array **columns = weir_alloc_zero(sink->account,
						      (aggregates->item_count + 1) * sizeof(struct weir_array *), err);
	struct weir_batch *batch;
	int code = columns ? WEIR_OK : err->code;

	for (uint32_t i = 0; !code && i < aggregates->item_count; i++) {
		const struct weir_type *type = sink->output->fields[i].type;
		struct weir_builder builder = {0};

		code = weir_builder_init(&builder, type, sink->account, err);
		if (!code)
			code = weir_aggregate_put(&aggregates->items[i], &sink->total,
						  sink->config->with_nulls || aggregates->items[i].with_nulls, type,
						  &builder, err);
		if (!code) {
			columns[i] = weir_builder_finish(&builder, err);
			code = columns[i] ? WEIR_OK : err->code;
		}
		weir_builder_release(&builder);
	}
	if (!code) {
		batch = weir_batch_new(sink->account, sink->output, 1, columns, err);
		code = batch ? sink->config->consumer.deliver(sink->config->consumer.state, batch, err) : err->code;
	}
	for (uint32_t i = 0; columns && i < aggregates->item_count; i++)
		weir_array_unref(columns[i]);
	weir_free(sink->account, columns, (aggregates->item_count + 1) * sizeof(*columns));
	return code;
}

static void sink_free(void *state)
{
	struct aggregate_sink *sink = state;

	weir_summaries_release(&sink->total);
	weir_schema_unref(sink->input);
	pthread_mutex_destroy(&sink->lock);
	weir_free(sink->account, sink, sizeof(*sink));
}

static const struct weir_sink_ops sink_ops = {
	.name = "aggregate",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.split_end = split_end,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.commit = commit,
	.free = sink_free,
};

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	const struct aggregate_config *config = node->config;
	struct aggregate_sink *sink;

	if (!config->consumer.deliver)
		return weir_op_no_consumer(node, err);
	sink = weir_alloc_zero(env->account, sizeof(*sink), err);
	if (!sink)
		return err->code;
	sink->account = env->account;
	sink->input = weir_schema_ref(node->inputs[0]->schema);
	sink->output = node->schema;
	sink->config = config;
	pthread_mutex_init(&sink->lock, NULL);
	if (weir_summaries_init(&sink->total, &config->aggregates, sink->input, env->account, err)) {
		sink_free(sink);
		return err->code;
	}
	fragment->held = true;
	return weir_fragment_sink(fragment, &sink_ops, sink);
}

const struct weir_op weir_op_aggregate = {
	.verb = "aggregate",
	.usage = "aggregate [NAME=]FUNCTION(COLUMN), …",
	.help = "Gives one row about all rows: count, sum, min, max, absmax, mean and std of columns. Nulls are ignored; with\n"
		"--with-nulls a null makes the result null. NaN is neither minimum nor maximum. std(COLUMN, 0) divides by the number\n"
		"of values, std(COLUMN) by one less. Sums do not depend on the order of rows, and never wrap around.\n"
		"\n"
		"  weir read data/ then aggregate 'sum(price)' 'most = max(price)' 'count()'\n"
		"  weir read data/ then filter 'flag == \"A\"' then aggregate 'mean(price), std(price, 0)'\n",
	.options = option_names,
	.inputs_min = 1,
	.inputs_max = 1,
	.ends = true,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = build,
	.rules = {.needs = needs, .narrow = weir_op_narrow_nothing},
};
