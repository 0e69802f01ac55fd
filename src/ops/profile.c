/* profile: one pass over the rows that tells of each column how many nulls it has, its least and greatest value, and
 * about how many different ones.
 *
 * Different values are estimated by HyperLogLog: 2^b registers hold the longest run of leading zeros among the hashes
 * that fall to them. Registers of lanes are merged by their maximum, so the estimate depends on the values alone.
 * Values of a dictionary are looked at once per split, whatever the number of rows that have them.
 *
 *     vector ─▶ rows with values ─▶ places of the least and the greatest ─▶ compared with those so far
 *                               └▶ hashes ─▶ registers
 */
#include "base/hash.h"
#include "base/text.h"
#include "arrow/print.h"
#include "expr/scalar.h"
#include "ops/collect.h"
#include "ops/extremes.h"
#include "ops/ops_impl.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum {
	REGISTER_BITS = 14, /* standard error 0.8 % */
	REGISTER_BITS_WIDE = 12,
	COLUMNS_WIDE = 128, /* from here on the smaller number */
};

struct column_profile {
	uint64_t nulls;
	struct weir_bound least, greatest;
	uint8_t *registers; /* NULL: nested, not estimated */
	/* The dictionary whose values were looked at last, and which of them. */
	uint64_t dictionary_id;
	uint64_t *seen;
	size_t seen_words;
};

struct profile {
	struct weir_account *account;
	uint32_t column_count, register_bits;
	uint64_t rows;
	struct column_profile *columns;
};

struct profile_config {
	struct weir_consumer consumer;
	bool quick;
	struct weir_bounds *bounds; /* of the input's columns, from footers; NULL: the rows are looked at */
};

struct profile_sink {
	struct weir_account *account;
	struct weir_schema *input;
	const struct weir_schema *output; /* the plan's */
	const struct profile_config *config;
	pthread_mutex_t lock; /* guards the total; rank: alone */
	struct profile total;
};

struct profile_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	struct profile_sink *sink;
	struct profile profile; /* of this split */
	uint32_t rows[WEIR_VECTOR_ROWS];
};

void weir_profile_set(struct weir_node *node, const struct weir_consumer *consumer)
{
	WEIR_ASSERT(node->op == &weir_op_profile);
	((struct profile_config *)node->config)->consumer = *consumer;
}

/* ---- the plan's half ---- */

static const char *const option_names[] = {"quick", NULL};

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct profile_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);

	if (!config)
		return err->code;
	node->config = config;
	config->quick = weir_words_option(words, "quick") != NULL;
	return weir_words_expect(words, node->op->usage, 0, 0, option_names, err);
}

static int save(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	return weir_save_u32(save, ((const struct profile_config *)node->config)->quick, err);
}

static int load(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err)
{
	struct profile_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	uint32_t quick = 0;
	int code = config ? weir_load_u32(load, &quick, err) : err->code;

	if (!code)
		config->quick = quick != 0;
	node->config = config;
	return code;
}

/* Where footers answer, the read need not begin: the sink says at once that it has enough. */
static int ask_footers(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	struct profile_config *config = node->config;
	struct weir_node *input = node->inputs[0];
	struct weir_bounds *bounds = weir_arena_alloc_zero(env->arena,
							   (input->schema->field_count + 1) * sizeof(*bounds), err);
	bool known = false;
	int code = bounds ? weir_read_bounds(env, input, bounds, &known, err) : err->code;

	if (code || !known)
		return code;
	config->bounds = bounds;
	return input->op->rules.absorb_limit(env, input, 0, err);
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	const struct weir_field fields[] = {
		{.name = "column", .type = weir_type_of(WEIR_STRING)},
		{.name = "type", .type = weir_type_of(WEIR_STRING)},
		{.name = "rows", .type = weir_type_of(WEIR_INT64)},
		{.name = "nulls", .type = weir_type_of(WEIR_INT64), .nullable = true},
		{.name = "min", .type = weir_type_of(WEIR_STRING), .nullable = true},
		{.name = "max", .type = weir_type_of(WEIR_STRING), .nullable = true},
		{.name = "distinct", .type = weir_type_of(WEIR_INT64), .nullable = true},
	};
	struct weir_schema *schema = weir_schema_new(env->account, fields, sizeof(fields) / sizeof(*fields),
						     &(struct weir_metadata){0}, err);
	struct profile_config *config = node->config;
	int code;

	if (!schema)
		return err->code;
	node->schema = schema;
	node->rows_est = node->inputs[0]->schema->field_count;
	node->bytes_est = -1;
	code = weir_op_keep_schema(env, schema, err);
	config->bounds = NULL;
	return code || !config->quick ? code : ask_footers(env, node, err);
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct profile_config *config = node->config;

	return weir_text_puts(out, config->bounds ? "profile, from footers" : "profile", err);
}

/* ---- profiles ---- */

static void profile_release(struct profile *profile)
{
	struct weir_account *account = profile->account;

	for (uint32_t i = 0; profile->columns && i < profile->column_count; i++) {
		struct column_profile *column = &profile->columns[i];

		weir_bound_release(&column->least, account);
		weir_bound_release(&column->greatest, account);
		weir_free(account, column->registers, (size_t)1 << profile->register_bits);
		weir_free(account, column->seen, column->seen_words * sizeof(*column->seen));
	}
	weir_free(account, profile->columns, profile->column_count * sizeof(*profile->columns));
	profile->columns = NULL;
}

static int profile_init(struct profile *profile, struct weir_account *account, const struct weir_schema *schema,
			struct weir_error *err)
{
	*profile = (struct profile){.account = account, .column_count = schema->field_count};
	profile->register_bits = schema->field_count >= COLUMNS_WIDE ? REGISTER_BITS_WIDE : REGISTER_BITS;
	profile->columns = weir_alloc_zero(account, profile->column_count * sizeof(*profile->columns), err);
	for (uint32_t i = 0; profile->columns && i < schema->field_count; i++) {
		if (weir_type_is_nested(weir_type_values(schema->fields[i].type)))
			continue;
		profile->columns[i].registers = weir_alloc_zero(account, (size_t)1 << profile->register_bits, err);
		if (!profile->columns[i].registers)
			goto failed;
	}
	if (profile->columns)
		return WEIR_OK;
failed:
	profile_release(profile);
	return err->code;
}

static void profile_reset(struct profile *profile)
{
	profile->rows = 0;
	for (uint32_t i = 0; i < profile->column_count; i++) {
		struct column_profile *column = &profile->columns[i];

		column->nulls = 0;
		column->least.known = column->greatest.known = false;
		column->dictionary_id = 0; /* what was seen counted for a split that may have been dropped */
		if (column->registers)
			memset(column->registers, 0, (size_t)1 << profile->register_bits);
	}
}

static int bounds_take(struct column_profile *column, const struct weir_scalar *least,
		       const struct weir_scalar *greatest, struct weir_account *account, struct weir_error *err)
{
	int code = WEIR_OK;

	if (!column->least.known || weir_scalar_compare(least, &column->least.value) < 0)
		code = weir_bound_set(&column->least, least, account, err);
	if (!code && (!column->greatest.known || weir_scalar_compare(greatest, &column->greatest.value) > 0))
		code = weir_bound_set(&column->greatest, greatest, account, err);
	return code;
}

static int profile_merge(struct profile *total, const struct profile *part, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t i = 0; !code && i < total->column_count; i++) {
		struct column_profile *to = &total->columns[i];
		const struct column_profile *from = &part->columns[i];

		to->nulls += from->nulls;
		if (from->least.known)
			code = bounds_take(to, &from->least.value, &from->greatest.value, total->account, err);
		for (size_t r = 0; to->registers && r < (size_t)1 << total->register_bits; r++) {
			if (from->registers[r] > to->registers[r])
				to->registers[r] = from->registers[r];
		}
	}
	total->rows += part->rows;
	return code;
}

static double distinct_estimate(const uint8_t *registers, uint32_t bits)
{
	double count = (double)(1u << bits), sum = 0, zeros = 0, estimate;

	for (size_t i = 0; i < (size_t)1 << bits; i++) {
		sum += ldexp(1, -registers[i]);
		zeros += registers[i] == 0;
	}
	estimate = 0.7213 / (1 + 1.079 / count) * count * count / sum;
	/* Few values: the share of registers that none fell to says more. */
	return estimate <= 2.5 * count && zeros > 0 ? count * log(count / zeros) : estimate;
}

/* ---- values ---- */

static void count_hash(uint8_t *registers, uint32_t bits, uint64_t hash)
{
	uint64_t rest = hash << bits | (uint64_t)1 << (bits - 1);
	uint8_t rank = (uint8_t)(__builtin_clzll(rest) + 1);
	uint8_t *cell = &registers[hash >> (64 - bits)];

	if (rank > *cell)
		*cell = rank;
}

static void count_values(const struct weir_column *column, const uint32_t *rows, uint32_t count, uint8_t *registers,
			 uint32_t bits)
{
	const struct weir_type *type = weir_type_values(column->type);
	const uint8_t *bytes = column->values;

	if (type->layout == WEIR_LAYOUT_BYTES) {
		const struct weir_view *views = column->values;

		for (uint32_t i = 0; i < count; i++)
			count_hash(registers, bits,
				   weir_hash_bytes(weir_view_bytes(&views[rows[i]]), views[rows[i]].size, 0));
	} else if (type->layout == WEIR_LAYOUT_BITS) {
		for (uint32_t i = 0; i < count; i++)
			count_hash(registers, bits, weir_hash_u64((bytes[rows[i] >> 3] >> (rows[i] & 7) & 1) + 1));
	} else if (type->id == WEIR_DOUBLE || type->id == WEIR_FLOAT) {
		for (uint32_t i = 0; i < count; i++) {
			double value = type->id == WEIR_DOUBLE ? ((const double *)column->values)[rows[i]]
							       : (double)((const float *)column->values)[rows[i]];
			uint64_t pattern;

			value = value != value ? (double)NAN : value + 0.0; /* one NaN, one zero */
			memcpy(&pattern, &value, sizeof(pattern));
			count_hash(registers, bits, weir_hash_bytes(&pattern, sizeof(pattern), 0));
		}
	} else {
		for (uint32_t i = 0; i < count; i++)
			count_hash(registers, bits,
				   weir_hash_bytes(bytes + (size_t)rows[i] * type->byte_width, type->byte_width, 0));
	}
}

static int take_values(struct profile *profile, struct column_profile *column, const struct weir_column *values,
		       const uint32_t *rows, uint32_t count, struct weir_error *err)
{
	struct weir_scalar low, high;
	uint32_t least = 0, greatest = 0;

	if (count == 0)
		return WEIR_OK;
	count_values(values, rows, count, column->registers, profile->register_bits);
	if (!weir_extremes(values, rows, count, &least, &greatest))
		return WEIR_OK;
	weir_scalar_load(values, least, &low);
	weir_scalar_load(values, greatest, &high);
	return bounds_take(column, &low, &high, profile->account, err);
}

/* Which of the codes have not been seen yet; their number, and they in `rows`. */
static int unseen(struct profile *profile, struct column_profile *column, const struct weir_column *coded,
		  uint32_t *rows, uint32_t *count, struct weir_error *err)
{
	const uint32_t *codes = coded->values;
	size_t words = (coded->dictionary->count + 63) / 64;
	uint32_t n = 0;

	if (words > column->seen_words) {
		uint64_t *seen = weir_realloc(profile->account, column->seen, column->seen_words * sizeof(*seen),
					      words * sizeof(*seen), err);

		if (!seen)
			return err->code;
		column->seen = seen;
		column->seen_words = words;
		column->dictionary_id = 0;
	}
	if (column->dictionary_id != coded->dictionary->id) {
		memset(column->seen, 0, words * sizeof(*column->seen));
		column->dictionary_id = coded->dictionary->id;
	}
	for (uint32_t i = 0; i < *count; i++) {
		uint32_t code = codes[rows[i]];

		if (column->seen[code >> 6] >> (code & 63) & 1)
			continue;
		column->seen[code >> 6] |= (uint64_t)1 << (code & 63);
		rows[n++] = code;
	}
	*count = n;
	return WEIR_OK;
}

static int take_column(struct profile_lane *lane, const struct weir_vector *vector, uint32_t number,
		       struct weir_error *err)
{
	const struct weir_column *column = &vector->columns[number];
	const struct weir_selection *selection = &vector->selection;
	struct column_profile *profile = &lane->profile.columns[number];
	struct weir_column values = *column;
	uint32_t count = 0;
	int code = WEIR_OK;

	for (uint32_t i = 0; i < selection->count; i++) {
		uint32_t row = selection->rows ? selection->rows[i] : i;
		bool valid = weir_column_valid(column, row);

		if (valid && column->nested)
			valid = weir_array_is_valid(column->nested, column->nested_offset + row);
		if (valid)
			lane->rows[count++] = row;
	}
	profile->nulls += selection->count - count;
	if (column->type->id == WEIR_NULL)
		profile->nulls += count;
	if (!profile->registers || column->type->id == WEIR_NULL || count == 0)
		return WEIR_OK;
	values.validity = NULL;
	if (column->form == WEIR_CONSTANT) {
		values.form = WEIR_FLAT;
		lane->rows[0] = 0;
		count = 1;
	} else if (column->form == WEIR_DICTIONARY) {
		code = unseen(&lane->profile, profile, column, lane->rows, &count, err);
		values.form = WEIR_FLAT;
		values.values = column->dictionary->values;
	}
	return code ? code : take_values(&lane->profile, profile, &values, lane->rows, count, err);
}

/* ---- the sink ---- */

static void lane_free(void *state)
{
	struct profile_lane *lane = state;

	profile_release(&lane->profile);
	weir_op_lane_free(lane, sizeof(*lane));
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct profile_sink *sink = state;
	struct profile_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "profile", err);

	if (!lane)
		return err->code;
	lane->context = context;
	lane->sink = sink;
	if (profile_init(&lane->profile, &lane->account, sink->input, err)) {
		lane_free(lane);
		return err->code;
	}
	*out = lane;
	return WEIR_OK;
}

static int split_begin(void *state, const struct weir_split_info *split, struct weir_error *err)
{
	struct profile_lane *lane = state;

	(void)split;
	(void)err;
	profile_reset(&lane->profile);
	if (lane->sink->config->bounds)
		lane->context->enough(lane->context);
	return WEIR_OK;
}

static int push(void *state, struct weir_vector *vector, struct weir_error *err)
{
	struct profile_lane *lane = state;
	int code = WEIR_OK;

	if (lane->sink->config->bounds)
		return WEIR_OK;
	for (uint32_t i = 0; !code && i < vector->column_count; i++) {
		code = weir_column_decode(vector, i, err);
		if (!code)
			code = take_column(lane, vector, i, err);
	}
	lane->profile.rows += vector->selection.count;
	return code;
}

static int split_end(void *state, struct weir_error *err)
{
	struct profile_lane *lane = state;
	int code;

	if (lane->sink->config->bounds)
		return WEIR_OK;
	pthread_mutex_lock(&lane->sink->lock);
	code = profile_merge(&lane->sink->total, &lane->profile, err);
	pthread_mutex_unlock(&lane->sink->lock);
	return code;
}

static void split_abort(void *state)
{
	(void)state; /* the next split_begin forgets it */
}

/* A bound as text, through an array of one value, so that it reads as it would in a table. */
static int put_bound(struct weir_builder *out, const struct weir_bound *bound, struct weir_account *account,
		     struct weir_error *err)
{
	struct weir_builder one = {0};
	struct weir_array *array = NULL;
	struct weir_text text;
	uint8_t stored[WEIR_SCALAR_STORE_MAX];
	int code;

	if (!bound->known)
		return weir_builder_null(out, 1, err);
	weir_text_init(&text, account);
	code = weir_builder_init(&one, weir_type_values(bound->value.type), account, err);
	if (!code && weir_bound_has_bytes(bound->value.type)) {
		code = bound->value.type->id == WEIR_FIXED_BINARY
			       ? weir_builder_fixed(&one, weir_view_bytes(&bound->value.bytes), 1, err)
			       : weir_builder_bytes(&one, weir_view_bytes(&bound->value.bytes), bound->value.bytes.size,
						    err);
	} else if (!code) {
		weir_scalar_store(&bound->value, stored);
		code = weir_builder_fixed(&one, stored, 1, err);
	}
	if (!code) {
		array = weir_builder_finish(&one, err);
		code = array ? weir_print_value(array, 0, WEIR_PRINT_CSV, &text, err) : err->code;
	}
	if (!code)
		code = weir_builder_bytes(out, text.data ? text.data : "", text.size, err);
	weir_array_unref(array);
	weir_builder_release(&one);
	weir_text_release(&text);
	return code;
}

enum { OUT_COLUMN, OUT_TYPE, OUT_ROWS, OUT_NULLS, OUT_MIN, OUT_MAX, OUT_DISTINCT, OUT_COUNT };

/* What the footers said, as if the rows had been looked at. */
static int take_footers(struct profile_sink *sink, uint32_t number, struct weir_error *err)
{
	const struct weir_bounds *bounds = &sink->config->bounds[number];
	struct column_profile *column = &sink->total.columns[number];

	sink->total.rows = (uint64_t)bounds->row_count;
	column->nulls = (uint64_t)bounds->null_count;
	return bounds->has_min && bounds->min.type
		       ? bounds_take(column, &bounds->min, &bounds->max, sink->total.account, err)
		       : WEIR_OK;
}

static int put_row(struct profile_sink *sink, uint32_t number, struct weir_builder *out, struct weir_error *err)
{
	const struct weir_field *field = &sink->input->fields[number];
	const struct column_profile *column = &sink->total.columns[number];
	int64_t rows = (int64_t)sink->total.rows, nulls = (int64_t)column->nulls, distinct;
	bool quick = sink->config->bounds, nulls_known = !quick || sink->config->bounds[number].has_null_count;
	struct weir_text type;
	int code;

	weir_text_init(&type, sink->account);
	code = weir_type_print(field->type, &type, err);
	if (!code)
		code = weir_builder_bytes(&out[OUT_COLUMN], field->name, strlen(field->name), err);
	if (!code)
		code = weir_builder_bytes(&out[OUT_TYPE], type.data, type.size, err);
	if (!code)
		code = weir_builder_fixed(&out[OUT_ROWS], &rows, 1, err);
	if (!code)
		code = nulls_known ? weir_builder_fixed(&out[OUT_NULLS], &nulls, 1, err)
				   : weir_builder_null(&out[OUT_NULLS], 1, err);
	if (!code)
		code = put_bound(&out[OUT_MIN], &column->least, sink->account, err);
	if (!code)
		code = put_bound(&out[OUT_MAX], &column->greatest, sink->account, err);
	if (!code && column->registers && !quick) {
		distinct = llround(distinct_estimate(column->registers, sink->total.register_bits));
		if (distinct > rows - nulls)
			distinct = rows - nulls;
		code = weir_builder_fixed(&out[OUT_DISTINCT], &distinct, 1, err);
	} else if (!code) {
		code = weir_builder_null(&out[OUT_DISTINCT], 1, err);
	}
	weir_text_release(&type);
	return code;
}

static int commit(void *state, struct weir_error *err)
{
	struct profile_sink *sink = state;
	struct weir_builder out[OUT_COUNT] = {0};
	struct weir_array *columns[OUT_COUNT] = {0};
	struct weir_batch *batch = NULL;
	int code = WEIR_OK;

	for (uint32_t i = 0; !code && i < OUT_COUNT; i++)
		code = weir_builder_init(&out[i], sink->output->fields[i].type, sink->account, err);
	for (uint32_t i = 0; !code && i < sink->input->field_count; i++) {
		if (sink->config->bounds)
			code = take_footers(sink, i, err);
		if (!code)
			code = put_row(sink, i, out, err);
	}
	for (uint32_t i = 0; !code && i < OUT_COUNT; i++) {
		columns[i] = weir_builder_finish(&out[i], err);
		code = columns[i] ? WEIR_OK : err->code;
	}
	if (!code) {
		batch = weir_batch_new(sink->account, sink->output, sink->input->field_count, columns, err);
		code = batch ? sink->config->consumer.deliver(sink->config->consumer.state, batch, err) : err->code;
	}
	for (uint32_t i = 0; i < OUT_COUNT; i++) {
		weir_array_unref(columns[i]);
		weir_builder_release(&out[i]);
	}
	return code;
}

static void sink_free(void *state)
{
	struct profile_sink *sink = state;

	profile_release(&sink->total);
	weir_schema_unref(sink->input);
	pthread_mutex_destroy(&sink->lock);
	weir_free(sink->account, sink, sizeof(*sink));
}

static const struct weir_sink_ops sink_ops = {
	.name = "profile",
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
	const struct profile_config *config = node->config;
	struct profile_sink *sink;

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
	if (profile_init(&sink->total, env->account, sink->input, err)) {
		sink_free(sink);
		return err->code;
	}
	fragment->held = true;
	return weir_fragment_sink(fragment, &sink_ops, sink);
}

const struct weir_op weir_op_profile = {
	.verb = "profile",
	.usage = "profile [--quick]",
	.help = "Shows for each column its rows, nulls, minimum and maximum, and roughly how many distinct values there are.\n"
		"\n"
		"  --quick   read only footers where these have everything, and leave out the number of distinct values\n"
		"\n"
		"  weir read data/ then filter 'price > 100' then profile\n",
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
};
