/* sample: so many rows of the input, each set of that many equally likely.
 *
 * Every row has a key, a hash of the seed, its split and its place in the split; the rows with the smallest keys are
 * the sample. So it depends on the input and the seed alone, not on lanes or timing, and a split that is redone draws
 * the same rows again. A lane keeps what is below the largest key still in the running, and hands it over when its
 * split has ended:
 *
 *     lane    keys < bound ─▶ gathered, 2 × rows at most ─ split_end ─▶ all lanes' ─ commit ─▶ input order ─▶ the program
 */
#include "base/hash.h"
#include "base/list.h"
#include "ops/collect.h"
#include "ops/ops_impl.h"

#include <pthread.h>
#include <stdlib.h>

enum { COMPACT_ROWS_MIN = 4096 };

struct drawn {
	uint64_t key, split, position;
	int64_t row; /* in the batch that holds it */
};

struct sample_config {
	int64_t rows;
	uint64_t seed;
	struct weir_consumer consumer;
};

/* Rows with their keys. */
struct draws {
	struct WEIR_LIST(struct drawn) rows;
	struct weir_batch *batch; /* NULL: none */
};

struct sample_sink {
	struct weir_account *account;
	struct weir_schema *schema;
	const struct sample_config *config;
	pthread_mutex_t lock; /* guards the draws; rank: alone */
	struct draws draws;
	_Atomic uint64_t bound; /* keys above it are out, whatever comes */
};

struct sample_lane {
	struct weir_lane_context *context;
	struct sample_sink *sink;
	struct weir_gather *gather;
	struct WEIR_LIST(struct drawn) gathered; /* row r of the gatherer is gathered[r] */
	struct draws draws;                      /* of this split, beside what is in the gatherer */
	uint64_t split, position, bound;
	uint16_t rows[WEIR_VECTOR_ROWS];
};

static const char *const option_names[] = {"seed=", NULL};

void weir_sample_set(struct weir_node *node, const struct weir_consumer *consumer)
{
	WEIR_ASSERT(node->op == &weir_op_sample);
	((struct sample_config *)node->config)->consumer = *consumer;
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct sample_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int code = config ? weir_words_expect(words, node->op->usage, 1, 1, option_names, err) : err->code;

	if (!code)
		code = weir_parse_count(words->words[0], &config->rows, err);
	if (!code)
		code = weir_words_seed(words, &config->seed, err);
	node->config = config;
	return code;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct sample_config *config = node->config;
	const struct weir_node *input = node->inputs[0];

	(void)env;
	(void)err;
	node->schema = input->schema;
	node->rows_est = input->rows_est >= 0 && input->rows_est < config->rows ? input->rows_est : config->rows;
	node->bytes_est = -1;
	return WEIR_OK;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct sample_config *config = node->config;

	return weir_text_printf(out, err, "sample %lld (seed %llu)", (long long)config->rows,
				(unsigned long long)config->seed);
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct sample_config *config = node->config;
	int code = weir_save_i64(save, config->rows, err);

	return code ? code : weir_save_i64(save, (int64_t)config->seed, err);
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct sample_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int64_t seed = 0;
	int code = config ? weir_load_i64(load, &config->rows, err) : err->code;

	if (!code)
		code = weir_load_i64(load, &seed, err);
	if (!code && config->rows < 0)
		code = weir_error_set(err, WEIR_E_DATA, "the saved plan samples fewer rows than none");
	if (!code) {
		config->seed = (uint64_t)seed;
		node->config = config;
	}
	return code;
}

/* ---- draws ---- */

static void draws_release(struct draws *draws, struct weir_account *account)
{
	weir_list_release(&draws->rows, account);
	weir_batch_unref(draws->batch);
	draws->batch = NULL;
}

static int by_key(const void *a, const void *b)
{
	const struct drawn *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->split != y->split)
		return x->split < y->split ? -1 : 1;
	return x->position < y->position ? -1 : x->position > y->position;
}

static int by_place(const void *a, const void *b)
{
	const struct drawn *x = a, *y = b;

	if (x->split != y->split)
		return x->split < y->split ? -1 : 1;
	return x->position < y->position ? -1 : x->position > y->position;
}

/* A batch of columns that are made one by one: make(context, column) gives a new array. */
static int batch_of(struct sample_sink *sink, int64_t row_count,
		    struct weir_array *(*make)(struct sample_sink *, const void *, uint32_t, struct weir_error *),
		    const void *context, struct weir_batch **out, struct weir_error *err)
{
	uint32_t count = sink->schema->field_count, made = 0;
	struct weir_array **columns = weir_alloc_zero(sink->account, count * sizeof(*columns), err);
	int code = columns ? WEIR_OK : err->code;

	for (; !code && made < count; made++) {
		columns[made] = make(sink, context, made, err);
		if (!columns[made])
			code = err->code;
	}
	if (!code) {
		*out = weir_batch_new(sink->account, sink->schema, row_count, columns, err);
		code = *out ? WEIR_OK : err->code;
	}
	for (uint32_t c = 0; c < made; c++)
		weir_array_unref(columns[c]);
	weir_free(sink->account, columns, count * sizeof(*columns));
	return code;
}

struct taking {
	const struct weir_batch *batch;
	const int64_t *rows;
	int64_t count;
};

static struct weir_array *take_column(struct sample_sink *sink, const void *context, uint32_t column,
				      struct weir_error *err)
{
	const struct taking *taking = context;

	return weir_array_take(sink->account, taking->batch->columns[column], taking->rows, taking->count, err);
}

static struct weir_array *join_column(struct sample_sink *sink, const void *context, uint32_t column,
				      struct weir_error *err)
{
	struct weir_batch *const *both = context;
	struct weir_array *parts[2] = {both[0]->columns[column], both[1]->columns[column]};

	return weir_array_concat(sink->account, parts, 2, err);
}

/* The rows of a batch that `rows` names, in that order. */
static int take(struct sample_sink *sink, const struct weir_batch *batch, struct drawn *rows, size_t count,
		struct weir_batch **out, struct weir_error *err)
{
	int64_t *numbers = weir_alloc(sink->account, count * sizeof(*numbers), err);
	struct taking taking = {batch, numbers, (int64_t)count};
	int code = numbers ? WEIR_OK : err->code;

	for (size_t i = 0; !code && i < count; i++)
		numbers[i] = rows[i].row;
	if (!code)
		code = batch_of(sink, (int64_t)count, take_column, &taking, out, err);
	for (size_t i = 0; !code && i < count; i++)
		rows[i].row = (int64_t)i;
	weir_free(sink->account, numbers, count * sizeof(*numbers));
	return code;
}

/* Appends a batch (taken over, on failure too) and its rows. */
static int draws_add(struct sample_sink *sink, struct draws *draws, struct weir_batch *batch, const struct drawn *rows,
		     size_t count, struct weir_error *err)
{
	struct weir_batch *both = NULL;
	int64_t before = draws->batch ? draws->batch->row_count : 0;
	int code = weir_list_reserve(&draws->rows, sink->account, err, draws->rows.count + count);

	if (!code && draws->batch)
		code = batch_of(sink, before + batch->row_count, join_column,
				(struct weir_batch *[]){draws->batch, batch}, &both, err);
	if (code) {
		weir_batch_unref(batch);
		return code;
	}
	for (size_t i = 0; i < count; i++) {
		draws->rows.items[draws->rows.count] = rows[i];
		draws->rows.items[draws->rows.count++].row = before + rows[i].row;
	}
	weir_batch_unref(draws->batch);
	if (both)
		weir_batch_unref(batch);
	draws->batch = both ? both : batch;
	return WEIR_OK;
}

/* Drops all but the sample's number of rows; *bound is then the largest key that is left. */
static int draws_compact(struct sample_sink *sink, struct draws *draws, uint64_t *bound, struct weir_error *err)
{
	size_t wanted = (size_t)sink->config->rows;
	struct weir_batch *kept = NULL;
	int code;

	if (draws->rows.count <= wanted)
		return WEIR_OK;
	qsort(draws->rows.items, draws->rows.count, sizeof(*draws->rows.items), by_key);
	code = take(sink, draws->batch, draws->rows.items, wanted, &kept, err);
	if (code)
		return code;
	draws->rows.count = wanted;
	*bound = wanted ? draws->rows.items[wanted - 1].key : 0;
	weir_batch_unref(draws->batch);
	draws->batch = kept;
	return WEIR_OK;
}

/* ---- lanes ---- */

static void lane_free(void *state)
{
	struct sample_lane *lane = state;

	weir_gather_free(lane->gather);
	weir_list_release(&lane->gathered, lane->sink->account);
	draws_release(&lane->draws, lane->sink->account);
	weir_free(lane->context->account, lane, sizeof(*lane));
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct sample_sink *sink = state;
	struct sample_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);

	if (!lane)
		return err->code;
	lane->context = context;
	lane->sink = sink;
	/* What is drawn outlives the lane, so the session pays for it. */
	if (weir_gather_new(sink->account, sink->schema, &lane->gather, err)) {
		weir_free(context->account, lane, sizeof(*lane));
		return err->code;
	}
	*out = lane;
	return WEIR_OK;
}

static void split_abort(void *state)
{
	struct sample_lane *lane = state;
	struct weir_error ignored = {0};
	struct weir_batch *batch = NULL;

	if (weir_gather_rows(lane->gather) > 0 && !weir_gather_finish(lane->gather, &batch, &ignored))
		weir_batch_unref(batch);
	lane->gathered.count = 0;
	draws_release(&lane->draws, lane->sink->account);
}

static int split_begin(void *state, const struct weir_split_info *split, struct weir_error *err)
{
	struct sample_lane *lane = state;

	(void)err;
	split_abort(lane);
	lane->split = split->number;
	lane->position = 0;
	/* relaxed: a bound that is too large lets more rows in, nothing else */
	lane->bound = atomic_load_explicit(&lane->sink->bound, memory_order_relaxed);
	return WEIR_OK;
}

static int gathered_to_draws(struct sample_lane *lane, struct weir_error *err)
{
	struct weir_batch *batch = NULL;
	int code = weir_gather_finish(lane->gather, &batch, err);

	if (!code)
		code = draws_add(lane->sink, &lane->draws, batch, lane->gathered.items, lane->gathered.count, err);
	lane->gathered.count = 0;
	return code ? code : draws_compact(lane->sink, &lane->draws, &lane->bound, err);
}

static int push(void *state, struct weir_vector *vector, struct weir_error *err)
{
	struct sample_lane *lane = state;
	struct sample_sink *sink = lane->sink;
	struct weir_selection *selection = &vector->selection;
	uint64_t salt = weir_hash_u64(sink->config->seed ^ weir_hash_u64(lane->split + 1));
	int64_t compact_at = sink->config->rows > COMPACT_ROWS_MIN ? sink->config->rows : COMPACT_ROWS_MIN;
	uint32_t count = 0;
	int code = weir_list_reserve(&lane->gathered, sink->account, err, lane->gathered.count + selection->count);

	for (uint32_t i = 0; !code && i < selection->count; i++) {
		uint64_t key = weir_hash_u64(salt + lane->position);

		if (key <= lane->bound) {
			lane->rows[count++] = selection->rows ? selection->rows[i] : (uint16_t)i;
			lane->gathered.items[lane->gathered.count] = (struct drawn){key, lane->split, lane->position,
										    (int64_t)lane->gathered.count};
			lane->gathered.count++;
		}
		lane->position++;
	}
	if (code || count == 0)
		return code;
	vector->selection = (struct weir_selection){count, lane->rows};
	code = weir_gather_push(lane->gather, vector, err);
	if (!code && weir_gather_rows(lane->gather) >= compact_at)
		code = gathered_to_draws(lane, err);
	return code;
}

static int split_end(void *state, struct weir_error *err)
{
	struct sample_lane *lane = state;
	struct sample_sink *sink = lane->sink;
	uint64_t bound = UINT64_MAX;
	int code = weir_gather_rows(lane->gather) > 0 ? gathered_to_draws(lane, err) : WEIR_OK;

	if (code || !lane->draws.batch)
		return code;
	pthread_mutex_lock(&sink->lock);
	code = draws_add(sink, &sink->draws, weir_batch_ref(lane->draws.batch), lane->draws.rows.items,
			 lane->draws.rows.count, err);
	if (!code && sink->draws.rows.count / 2 > (size_t)sink->config->rows)
		code = draws_compact(sink, &sink->draws, &bound, err);
	if (!code && bound < atomic_load_explicit(&sink->bound, memory_order_relaxed))
		atomic_store_explicit(&sink->bound, bound, memory_order_relaxed);
	pthread_mutex_unlock(&sink->lock);
	draws_release(&lane->draws, sink->account);
	return code;
}

static int commit(void *state, struct weir_error *err)
{
	struct sample_sink *sink = state;
	struct weir_batch *batch = NULL;
	uint64_t bound;
	int code;

	if (!sink->draws.batch)
		return WEIR_OK;
	code = draws_compact(sink, &sink->draws, &bound, err);
	if (code)
		return code;
	qsort(sink->draws.rows.items, sink->draws.rows.count, sizeof(*sink->draws.rows.items), by_place);
	code = take(sink, sink->draws.batch, sink->draws.rows.items, sink->draws.rows.count, &batch, err);
	return code ? code : sink->config->consumer.deliver(sink->config->consumer.state, batch, err);
}

static void sink_free(void *state)
{
	struct sample_sink *sink = state;

	draws_release(&sink->draws, sink->account);
	weir_schema_unref(sink->schema);
	pthread_mutex_destroy(&sink->lock);
	weir_free(sink->account, sink, sizeof(*sink));
}

static const struct weir_sink_ops sink_ops = {
	.name = "sample",
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
	const struct sample_config *config = node->config;
	struct sample_sink *sink;

	if (!config->consumer.deliver)
		return weir_op_no_consumer(node, err);
	sink = weir_alloc_zero(env->account, sizeof(*sink), err);
	if (!sink)
		return err->code;
	sink->account = env->account;
	sink->schema = weir_schema_ref(node->schema);
	sink->config = config;
	pthread_mutex_init(&sink->lock, NULL);
	atomic_init(&sink->bound, UINT64_MAX);
	fragment->held = true;
	return weir_fragment_sink(fragment, &sink_ops, sink);
}

const struct weir_op weir_op_sample = {
	.verb = "sample",
	.usage = "sample ROWS [--seed N]",
	.help = "Shows ROWS rows drawn at random, in input order; every choice of rows is equally likely. The same seed over\n"
		"the same files gives the same rows, on any number of threads.\n"
		"\n"
		"  weir read data/ then filter 'price > 100' then sample 20\n",
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
	.rules = {.needs = weir_op_needs_same},
};
