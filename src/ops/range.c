/* range N: rows with a column id, 0 … N − 1, or from --first on. For trying things out, for demonstrations and tests.
 * Cut into splits of SPLIT_ROWS, or into as many of one size, within a row, as were asked for. */
#include "ops/ops_impl.h"

enum { SPLIT_ROWS = 1 << 20 };

struct range_config {
	int64_t rows, blocks; /* blocks 0: as the source likes */
	int64_t first;        /* the first row's id */
};

struct range_source {
	struct weir_account *account;
	int64_t rows, blocks, first, next;
	uint64_t splits;
	bool wants_id;
};

struct range_split {
	int64_t begin, end;
};

struct range_lane {
	struct weir_lane_context *context;
	const struct range_source *source;
	struct range_split split;
	struct weir_column column;
	int64_t values[WEIR_VECTOR_ROWS];
};

static const char *const option_names[] = {"blocks=", "first=", NULL};

static int set_rows(struct weir_op_env *env, struct weir_node *node, int64_t rows, int64_t blocks, int64_t first,
		    struct weir_error *err)
{
	struct range_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);

	if (!config)
		return err->code;
	if (first > INT64_MAX - rows)
		return weir_error_set(err, WEIR_E_INVALID, "range ends behind the largest number");
	config->rows = rows;
	config->first = first;
	config->blocks = blocks < rows ? blocks : rows;
	node->config = config;
	return WEIR_OK;
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	const char *asked = weir_words_option(words, "blocks"), *from = weir_words_option(words, "first");
	int64_t rows = 0, blocks = 0, first = 0;
	int code = weir_words_expect(words, node->op->usage, 1, 1, option_names, err);

	if (!code)
		code = weir_parse_count(words->words[0], &rows, err);
	if (!code && asked)
		code = weir_parse_count(asked, &blocks, err);
	if (!code && from)
		code = weir_parse_count(from, &first, err);
	return code ? code : set_rows(env, node, rows, blocks, first, err);
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	const struct range_config *config = node->config;
	int code = weir_save_i64(save, config->rows, err);

	if (!code)
		code = weir_save_i64(save, config->blocks, err);
	return code ? code : weir_save_i64(save, config->first, err);
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	int64_t rows = 0, blocks = 0, first = 0;
	int code = weir_load_i64(load, &rows, err);

	if (!code)
		code = weir_load_i64(load, &blocks, err);
	if (!code)
		code = weir_load_i64(load, &first, err);
	if (!code && (rows < 0 || blocks < 0 || first < 0))
		code = weir_error_set(err, WEIR_E_DATA, "the saved plan has a negative range");
	return code ? code : set_rows(env, node, rows, blocks, first, err);
}

static int set_schema(struct weir_op_env *env, struct weir_node *node, bool with_id, struct weir_error *err)
{
	struct weir_field field = {.name = "id", .type = weir_type_of(WEIR_INT64), .nullable = true};

	node->schema = weir_schema_new(env->account, &field, with_id, NULL, err);
	return node->schema ? weir_op_keep_schema(env, node->schema, err) : err->code;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	node->rows_est = ((const struct range_config *)node->config)->rows;
	node->bytes_est = node->rows_est * 8;
	return set_schema(env, node, true, err);
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	return weir_text_printf(out, err, "range %lld", (long long)((const struct range_config *)node->config)->rows);
}

static int narrow(struct weir_op_env *env, struct weir_node *node, const struct weir_narrowing *narrowing,
		  struct weir_columns *kept, struct weir_error *err)
{
	(void)narrowing;
	return set_schema(env, node, kept->count && kept->wanted[0], err);
}

/* ---- running ---- */

static int split_next(void *state, struct weir_split_info *out, void **split_out, bool *done, struct weir_error *err)
{
	struct range_source *source = state;
	struct range_split *split;

	*done = source->next >= source->rows;
	if (*done)
		return WEIR_OK;
	split = weir_alloc_zero(source->account, sizeof(*split), err);
	if (!split)
		return err->code;
	split->begin = source->next;
	if (source->blocks)
		split->end = (int64_t)((__int128)source->rows * ((int64_t)source->splits + 1) / source->blocks);
	else
		split->end = source->rows - source->next > SPLIT_ROWS ? source->next + SPLIT_ROWS : source->rows;
	source->next = split->end;
	*out = (struct weir_split_info){.number = source->splits++,
					.rows_est = split->end - split->begin,
					.bytes_est = (uint64_t)(split->end - split->begin) * 8};
	*split_out = split;
	return WEIR_OK;
}

static void split_free(void *state, void *split)
{
	weir_free(((struct range_source *)state)->account, split, sizeof(struct range_split));
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct range_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);

	if (!lane)
		return err->code;
	lane->context = context;
	lane->source = state;
	lane->column = (struct weir_column){
		.type = weir_type_of(WEIR_INT64), .form = WEIR_FLAT, .values = lane->values};
	*out = lane;
	return WEIR_OK;
}

static int split_open(void *state, void *split, struct weir_error *err)
{
	(void)err;
	((struct range_lane *)state)->split = *(struct range_split *)split;
	return WEIR_OK;
}

static int next(void *state, struct weir_vector *out, struct weir_error *err)
{
	struct range_lane *lane = state;
	int64_t count = lane->split.end - lane->split.begin;

	(void)err;
	if (count > WEIR_VECTOR_ROWS)
		count = WEIR_VECTOR_ROWS;
	for (int64_t i = 0; i < count; i++)
		lane->values[i] = lane->source->first + lane->split.begin + i;
	*out = (struct weir_vector){.row_count = (uint32_t)count,
				    .selection = {.count = (uint32_t)count},
				    .column_count = lane->source->wants_id,
				    .columns = &lane->column,
				    .source = "range",
				    .source_row = lane->split.begin};
	/* What an operator did to the column of the vector before is none of this one's business. */
	lane->column = (struct weir_column){
		.type = weir_type_of(WEIR_INT64), .form = WEIR_FLAT, .values = lane->values};
	lane->split.begin += count;
	return WEIR_OK;
}

static void split_abort(void *state)
{
	(void)state;
}

static void lane_free(void *state)
{
	struct range_lane *lane = state;

	weir_free(lane->context->account, lane, sizeof(*lane));
}

static void source_free(void *state)
{
	struct range_source *source = state;

	weir_free(source->account, source, sizeof(*source));
}

static const struct weir_source_ops source_ops = {
	.name = "range",
	.split_next = split_next,
	.split_free = split_free,
	.lane_new = lane_new,
	.split_open = split_open,
	.next = next,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.free = source_free,
};

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	struct range_source *source = weir_alloc_zero(env->account, sizeof(*source), err);

	if (!source)
		return err->code;
	source->account = env->account;
	source->rows = ((const struct range_config *)node->config)->rows;
	source->blocks = ((const struct range_config *)node->config)->blocks;
	source->first = ((const struct range_config *)node->config)->first;
	source->wants_id = node->schema->field_count > 0;
	return weir_fragment_source(fragment, &source_ops, source);
}

const struct weir_op weir_op_range = {
	.verb = "range",
	.usage = "range ROWS [--blocks N] [--first N]",
	.help = "Makes rows with a column id that counts from 0.\n"
		"\n"
		"  --blocks N   cut into exactly so many pieces, at most one a row\n"
		"  --first N    count from N instead of 0\n"
		"\n"
		"  weir range 1M then with 'x = id * 2' then write numbers/\n",
	.options = option_names,
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = save,
	.load = load,
	.build = build,
	.rules = {.narrow = narrow},
};
