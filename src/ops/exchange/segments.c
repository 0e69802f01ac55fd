#include "ops/exchange/segments.h"

#include "ops/exchange/hashed.h"
#include "ops/exchange/held.h"
#include "ops/exchange/ordered.h"
#include "ops/exchange/rows.h"
#include "ops/exchange/segment.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
	HELD_BYTES = 4 << 20, /* of complete groups */
	OUT_ROWS = 4096,
	OUT_BYTES = 1 << 20,
	LARGE_ROWS = 100000, /* a group that may be to blame when memory is short */
	QUEUE_MAX = 1 << 18, /* values that a quantile keeps before it is told how many there will be */
};

struct segments_step {
	struct weir_account *account;
	const struct weir_schema *input, *output;
	const struct weir_aggregates *aggregates;
	struct weir_key *keys; /* of groups, and behind them that of the column that is in order */
	struct weir_key_columns group_columns, value_columns;
	uint32_t *item_columns; /* by item; of count() 0 */
	bool is_ordered;        /* values of the one column come in order */
	bool is_counted;        /* and each once, with how often it came in the last column */
	struct weir_ordered *ordered;
	uint32_t held_count; /* else: columns that are held */
	uint32_t *held_columns;
};

/* Of an item that summaries tell nothing about: */
struct tally {
	uint64_t zeros, nans;
};

struct segments_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	const struct segments_step *step;
	struct weir_segmenter groups, values;
	struct weir_summaries summaries; /* of the group at hand */
	struct tally *tallies;           /* by item */
	struct weir_ranked *ranked;      /* by item; those that are not holistic have only their results there */
	struct weir_held held;
	struct weir_held_item *held_items;
	uint32_t held_item_count;
	struct weir_schema *key_schema;
	struct weir_gather *keys; /* of groups that have begun and are not put out yet */
	struct weir_column *key_parts;
	bool is_open;       /* a group has begun */
	int64_t finished;   /* groups */
	char text[64];      /* of a large group, until the next one begins */
	uint64_t text_rows; /* of that group, when it has ended */
	/* What is put out. */
	struct weir_batch *batch;
	int64_t batch_row, batch_step;
	struct weir_arena arena;
	bool is_draining;
	uint16_t rows[WEIR_VECTOR_ROWS];
};

static bool is_ranked(const struct weir_aggregate_item *item)
{
	return weir_aggregate_is_holistic(item->function);
}

/* ---- a lane ---- */

static void items_release(struct segments_lane *lane)
{
	uint32_t count = lane->step->aggregates->item_count;

	for (uint32_t i = 0; lane->ranked && i < count; i++)
		weir_ranked_release(&lane->ranked[i]);
	weir_free(&lane->account, lane->ranked, lane->ranked ? (count + 1) * sizeof(*lane->ranked) : 0);
	weir_free(&lane->account, lane->tallies, lane->tallies ? (count + 1) * sizeof(*lane->tallies) : 0);
	weir_free(&lane->account, lane->held_items, lane->held_items ? (count + 1) * sizeof(*lane->held_items) : 0);
	lane->ranked = NULL;
	lane->tallies = NULL;
	lane->held_items = NULL;
	lane->held_item_count = 0;
}

static void lane_free(void *object)
{
	struct segments_lane *lane = object;
	struct weir_account *account = lane->context->account;
	uint32_t keys = lane->step->group_columns.count;

	weir_batch_unref(lane->batch);
	weir_segmenter_release(&lane->groups);
	weir_segmenter_release(&lane->values);
	weir_summaries_release(&lane->summaries);
	items_release(lane);
	weir_free(&lane->account, lane->key_parts, lane->key_parts ? (keys + 1) * sizeof(*lane->key_parts) : 0);
	weir_held_release(&lane->held);
	weir_gather_free(lane->keys);
	weir_schema_unref(lane->key_schema);
	weir_arena_release(&lane->arena);
	weir_account_release(&lane->account);
	weir_free(account, lane, sizeof(*lane));
}

static int items_init(struct segments_lane *lane, struct weir_error *err)
{
	const struct segments_step *step = lane->step;
	uint32_t count = step->aggregates->item_count;
	int code = WEIR_OK;

	lane->tallies = weir_alloc_zero(&lane->account, (count + 1) * sizeof(*lane->tallies), err);
	lane->ranked = lane->tallies ? weir_alloc_zero(&lane->account, (count + 1) * sizeof(*lane->ranked), err) : NULL;
	lane->held_items = lane->ranked ? weir_alloc_zero(&lane->account, (count + 1) * sizeof(*lane->held_items), err)
					: NULL;
	if (!lane->held_items)
		return err->code;
	for (uint32_t i = 0; i < count && !code; i++) {
		const struct weir_aggregate_item *item = &step->aggregates->items[i];
		uint32_t at = 0;

		code = weir_ranked_init(&lane->ranked[i], &lane->account, item,
					item->column ? step->input->fields[step->item_columns[i]].type
						     : weir_type_of(WEIR_INT64),
					step->output->fields[step->group_columns.count + i].type, err);
		if (code || !is_ranked(item) || step->is_ordered)
			continue;
		while (step->held_columns[at] != step->item_columns[i])
			at++;
		lane->held_items[lane->held_item_count++] = (struct weir_held_item){.column = at,
										    .ranked = &lane->ranked[i]};
	}
	return code;
}

static int keys_init(struct segments_lane *lane, struct weir_error *err)
{
	const struct segments_step *step = lane->step;
	uint32_t count = step->group_columns.count;

	lane->key_parts = weir_alloc_zero(&lane->account, (count + 1) * sizeof(*lane->key_parts), err);
	if (!lane->key_parts)
		return err->code;
	lane->key_schema = weir_schema_new(&lane->account, step->output->fields, count, NULL, err);
	return lane->key_schema ? WEIR_OK : err->code;
}

static int lane_new(void *object, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	const struct segments_step *step = object;
	struct segments_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);
	int code;

	if (!lane)
		return err->code;
	weir_account_init(&lane->account, context->account, "segments");
	lane->context = context;
	lane->step = step;
	weir_arena_init(&lane->arena, &lane->account);
	weir_segmenter_init(&lane->groups, &lane->account, &step->group_columns);
	weir_segmenter_init(&lane->values, &lane->account, &step->value_columns);
	code = weir_summaries_init(&lane->summaries, step->aggregates, step->input, &lane->account, err);
	if (!code)
		code = items_init(lane, err);
	if (!code)
		code = keys_init(lane, err);
	if (!code && step->held_count)
		code = weir_held_init(&lane->held, &lane->account, step->input, step->held_columns, step->held_count,
				      err);
	if (code) {
		lane_free(lane);
		return code;
	}
	*out = lane;
	return WEIR_OK;
}

static int split_begin(void *object, const struct weir_split_info *split, struct weir_error *err)
{
	struct segments_lane *lane = object;
	const struct segments_step *step = lane->step;
	int code = WEIR_OK;

	(void)split;
	weir_batch_unref(lane->batch);
	lane->batch = NULL;
	weir_segmenter_reset(&lane->groups);
	weir_segmenter_reset(&lane->values);
	weir_summaries_reset(&lane->summaries);
	/* The last split may have ended early, when no more rows were wanted. */
	if (lane->is_open || lane->finished)
		items_release(lane);
	if (!lane->ranked)
		code = items_init(lane, err);
	weir_gather_free(lane->keys);
	lane->keys = NULL;
	lane->is_open = lane->is_draining = false;
	lane->finished = 0;
	lane->text[0] = 0;
	if (!code)
		code = weir_gather_new(&lane->account, lane->key_schema, &lane->keys, err);
	return code || !step->held_count ? code : weir_held_clear(&lane->held, err);
}

/* ---- the results of a group ---- */

/* An error about a sum says which group it is of. The keys are not needed any more. */
static int name_group(struct segments_lane *lane, int code, struct weir_error *err)
{
	const struct segments_step *step = lane->step;
	struct weir_error ignored = {0}, old = *err;
	struct weir_batch *keys = NULL;
	struct weir_vector group, input = {0};
	char text[200];

	if (code != WEIR_E_OVERFLOW || !step->group_columns.count)
		return code;
	weir_arena_clear(&lane->arena);
	input.columns = weir_arena_alloc_zero(&lane->arena, step->input->field_count * sizeof(*input.columns),
					      &ignored);
	if (input.columns && !weir_gather_finish(lane->keys, &keys, &ignored) &&
	    !weir_vector_from_batch(keys, lane->finished, 1, &lane->arena, &group, &ignored)) {
		for (uint32_t i = 0; i < step->group_columns.count; i++)
			input.columns[step->keys[i].column] = group.columns[i];
		input.selection.count = 1;
		weir_segment_text(step->input, &step->group_columns, &input, 0, text, sizeof(text));
		weir_error_set(err, code, "%.700s (where %s)", old.message, text);
		weir_error_at_column(err, old.column);
	}
	weir_batch_unref(keys);
	return code;
}

static int put_share(struct weir_builder *out, uint64_t some, uint64_t all, struct weir_error *err)
{
	double percent = all ? (double)some / (double)all * 100.0 : 0;

	return all ? weir_builder_fixed(out, &percent, 1, err) : weir_builder_null(out, 1, err);
}

static int put_plain(struct segments_lane *lane, uint32_t i, struct weir_error *err)
{
	const struct weir_aggregate_item *item = &lane->step->aggregates->items[i];
	const struct weir_summary *summary = item->column ? &lane->summaries.items[item->summary] : NULL;
	struct weir_builder *out = &lane->ranked[i].out;

	switch (item->function) {
	case WEIR_MISSING_PERCENT:
		return put_share(out, summary->nulls + lane->tallies[i].nans, summary->rows, err);
	case WEIR_ZERO_PERCENT:
		return put_share(out, lane->tallies[i].zeros,
				 item->with_nulls ? summary->rows : weir_summary_count(summary), err);
	default:
		return weir_aggregate_put(item, &lane->summaries, item->with_nulls, out->type, out, err);
	}
}

static int group_end(struct segments_lane *lane, struct weir_error *err)
{
	const struct weir_aggregates *aggregates = lane->step->aggregates;
	int code = WEIR_OK;

	for (uint32_t i = 0; i < aggregates->item_count && !code; i++) {
		if (!is_ranked(&aggregates->items[i]))
			code = put_plain(lane, i, err);
		else if (lane->step->is_ordered)
			code = weir_ranked_end(&lane->ranked[i], err);
		lane->tallies[i] = (struct tally){0};
	}
	if (code)
		return name_group(lane, code, err);
	if (lane->step->held_count)
		code = weir_held_end(&lane->held, err);
	lane->text_rows = lane->summaries.rows;
	weir_summaries_reset(&lane->summaries);
	lane->is_open = false;
	lane->finished++;
	return code;
}

/* ---- the rows of a group ---- */

static void count_tally(struct tally *tally, const struct weir_column *column, const struct weir_selection *selection)
{
	const struct weir_type *type = weir_type_values(column->type);
	enum weir_summary_kind kind = weir_summary_kind(type);
	struct weir_int256 decimal;

	for (uint32_t i = 0; i < selection->count; i++) {
		uint32_t row = selection->rows ? selection->rows[i] : i;
		struct weir_scalar value;

		if (!weir_column_valid(column, row))
			continue;
		weir_scalar_load(column, row, &value);
		if (kind == WEIR_SUMMARY_REAL) {
			tally->nans += isnan(value.real);
			tally->zeros += value.real == 0;
		} else if (kind == WEIR_SUMMARY_DECIMAL) {
			decimal = weir_int256_load(value.decimal, 32);
			tally->zeros += !(decimal.words[0] | decimal.words[1] | decimal.words[2] | decimal.words[3]);
		} else {
			tally->zeros += type->id == WEIR_BOOL ? !value.boolean : !value.integer;
		}
	}
}

/* How many rows of the input selected rows [begin, end) stand for. */
static uint64_t weight_of(const struct segments_lane *lane, const struct weir_vector *vector, uint32_t begin,
			  uint32_t end)
{
	const int64_t *counts = vector->columns[vector->column_count - 1].values;
	uint64_t weight = 0;

	if (!lane->step->is_counted)
		return end - begin;
	for (; begin < end; begin++)
		weight += (uint64_t)counts[lane->rows[begin]];
	return weight;
}

/* Runs of equal values among selected rows [begin, end), by where the values' segmenter saw them begin. */
static int push_runs(struct segments_lane *lane, const struct weir_vector *vector, uint32_t begin, uint32_t end,
		     uint32_t *run, struct weir_error *err)
{
	const struct weir_segmenter *values = &lane->values;
	const struct weir_aggregates *aggregates = lane->step->aggregates;
	int code = WEIR_OK;

	while (begin < end && !code) {
		bool is_new = *run < values->count && values->starts[*run] == begin;
		uint32_t next, row = lane->rows[begin];
		uint64_t weight;

		*run += is_new;
		next = *run < values->count && values->starts[*run] < end ? values->starts[*run] : end;
		weight = weight_of(lane, vector, begin, next);
		for (uint32_t i = 0; i < aggregates->item_count && !code; i++)
			if (is_ranked(&aggregates->items[i]))
				code = weir_ranked_push(&lane->ranked[i], &vector->columns[lane->step->item_columns[i]],
							row, weight, is_new, err);
		begin = next;
	}
	return code;
}

/* Selected rows [begin, end) are of the group at hand. */
static int push_part(struct segments_lane *lane, struct weir_vector *vector, uint32_t begin, uint32_t end,
		     uint32_t *run, struct weir_error *err)
{
	const struct weir_aggregates *aggregates = lane->step->aggregates;
	struct weir_vector part = *vector;
	int code;

	/* All of the vector: in the form in which nothing needs to be picked. */
	if (end - begin < vector->selection.count || vector->selection.rows)
		part.selection = (struct weir_selection){.count = end - begin, .rows = lane->rows + begin};
	code = weir_summaries_push(&lane->summaries, &part, err);
	lane->summaries.rows += weight_of(lane, vector, begin, end) - (end - begin);
	for (uint32_t i = 0; i < aggregates->item_count && !code; i++)
		if (aggregates->items[i].function == WEIR_MISSING_PERCENT ||
		    aggregates->items[i].function == WEIR_ZERO_PERCENT) {
			const struct weir_column *column = &vector->columns[lane->step->item_columns[i]];

			if (weir_summary_kind(weir_type_values(column->type)) != WEIR_SUMMARY_NONE)
				count_tally(&lane->tallies[i], column, &part.selection);
		}
	if (!code && lane->step->held_count)
		code = weir_held_push(&lane->held, vector, begin, end - begin, err);
	else if (!code && lane->step->is_ordered)
		code = push_runs(lane, vector, begin, end, run, err);
	return code;
}

/* The keys of the groups that begin in the vector. */
static int push_keys(struct segments_lane *lane, const struct weir_vector *vector, struct weir_error *err)
{
	const struct weir_segmenter *groups = &lane->groups;
	struct weir_vector starts = *vector;
	uint16_t rows[WEIR_VECTOR_ROWS];

	if (!groups->count)
		return WEIR_OK;
	for (uint32_t i = 0; i < groups->count; i++)
		rows[i] = lane->rows[groups->starts[i]];
	for (uint32_t i = 0; i < lane->step->group_columns.count; i++)
		lane->key_parts[i] = vector->columns[lane->step->keys[i].column];
	starts.columns = lane->key_parts;
	starts.column_count = lane->step->group_columns.count;
	starts.selection = (struct weir_selection){.count = groups->count, .rows = rows};
	return weir_gather_push(lane->keys, &starts, err);
}

static int push_rows(struct segments_lane *lane, struct weir_vector *vector, struct weir_error *err)
{
	const struct weir_segmenter *groups = &lane->groups;
	uint32_t count = vector->selection.count, at = 0, run = 0, start = 0;
	int code = WEIR_OK;

	while (at < count && !code) {
		uint32_t end;

		if (start < groups->count && groups->starts[start] == at) {
			if (lane->is_open)
				code = group_end(lane, err);
			start++;
		}
		end = start < groups->count ? groups->starts[start] : count;
		if (!lane->is_open)
			lane->text[0] = 0;
		lane->is_open = true;
		if (!code)
			code = name_group(lane, push_part(lane, vector, at, end, &run, err), err);
		at = end;
	}
	return code;
}

/* ---- rows of results ---- */

/* Of the keys that have been gathered, that of the open group stays. */
static int take_keys(struct segments_lane *lane, struct weir_batch **out, struct weir_error *err)
{
	struct weir_vector open;
	int code = weir_gather_finish(lane->keys, out, err);

	if (code || !lane->is_open)
		return code;
	weir_arena_clear(&lane->arena);
	code = weir_vector_from_batch(*out, (*out)->row_count - 1, 1, &lane->arena, &open, err);
	return code ? code : weir_gather_push(lane->keys, &open, err);
}

static int make_batch(struct segments_lane *lane, struct weir_error *err)
{
	const struct segments_step *step = lane->step;
	uint32_t keys = step->group_columns.count, items = step->aggregates->item_count, n = 0;
	struct weir_array **columns = weir_alloc_zero(&lane->account, (keys + items + 1) * sizeof(*columns), err);
	struct weir_batch *key_batch = NULL;
	int code = columns ? take_keys(lane, &key_batch, err) : err->code;

	for (; n < keys && !code; n++) {
		columns[n] = weir_array_slice(key_batch->columns[n], 0, lane->finished, err);
		code = columns[n] ? WEIR_OK : err->code;
	}
	for (; n < keys + items && !code; n++) {
		code = weir_ranked_finish(&lane->ranked[n - keys], &columns[n], err);
	}
	if (!code) {
		lane->batch = weir_batch_new(&lane->account, step->output, lane->finished, columns, err);
		code = lane->batch ? WEIR_OK : err->code;
	}
	for (uint32_t i = 0; columns && i < keys + items; i++)
		weir_array_unref(columns[i]);
	weir_free(&lane->account, columns, columns ? (keys + items + 1) * sizeof(*columns) : 0);
	weir_batch_unref(key_batch);
	lane->batch_row = 0;
	lane->finished = 0;
	return code;
}

static uint64_t array_bytes(const struct weir_array *array)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < 3; i++)
		bytes += array->buffers[i].size;
	for (uint32_t i = 0; i < array->child_count; i++)
		bytes += array_bytes(array->children[i]);
	return bytes;
}

/* The groups that have ended, as rows. */
static int flush(struct segments_lane *lane, struct weir_error *err)
{
	int64_t rows = lane->finished;
	uint64_t bytes = 0;
	int code = WEIR_OK;

	if (lane->step->held_count)
		code = weir_held_settle(&lane->held, lane->held_items, lane->held_item_count, err);
	if (!code)
		code = make_batch(lane, err);
	for (uint32_t i = 0; i < lane->step->output->field_count && !code; i++)
		bytes += array_bytes(lane->batch->columns[i]);
	lane->batch_step = bytes > (uint64_t)rows ? (int64_t)(WEIR_VECTOR_BYTES / (bytes / (uint64_t)rows))
						  : WEIR_VECTOR_ROWS;
	lane->batch_step = lane->batch_step < 1                  ? 1
			   : lane->batch_step > WEIR_VECTOR_ROWS ? WEIR_VECTOR_ROWS
								 : lane->batch_step;
	return code;
}

static int put_out(struct segments_lane *lane, struct weir_vector *out, enum weir_progress *progress,
		   struct weir_error *err)
{
	int64_t left = lane->batch ? lane->batch->row_count - lane->batch_row : 0;
	uint32_t count = (uint32_t)(left < lane->batch_step ? left : lane->batch_step);
	int code;

	weir_arena_clear(&lane->arena);
	if (!left) {
		weir_batch_unref(lane->batch);
		lane->batch = NULL;
		*progress = WEIR_NEED_INPUT;
		return WEIR_OK;
	}
	code = weir_vector_from_batch(lane->batch, lane->batch_row, count, &lane->arena, out, err);
	out->source_row = -1;
	lane->batch_row += count;
	*progress = WEIR_HAVE_MORE;
	return code;
}

/* ---- large groups ---- */

/* How many values the open group has that are neither NaN nor null. */
static int count_values_of_group(struct segments_lane *lane, uint64_t *out, struct weir_error *err)
{
	const struct weir_segmenter *groups = &lane->groups;
	uint32_t size = lane->step->group_columns.count ? groups->last_size : 0;
	uint8_t *key = weir_alloc(&lane->account, size + 1, err);
	int64_t begin = 0, end = 0;
	int code;

	if (!key)
		return err->code;
	if (size)
		memcpy(key, groups->last, size);
	key[size] = WEIR_KEY_NAN;
	code = weir_ordered_rank(lane->step->ordered, &lane->account, key, size, &begin, err);
	if (!code)
		code = weir_ordered_rank(lane->step->ordered, &lane->account, key, size + 1, &end, err);
	weir_free(&lane->account, key, size + 1);
	*out = (uint64_t)(end - begin);
	return code;
}

static int bound_queues(struct segments_lane *lane, struct weir_error *err)
{
	uint64_t count = 0;
	int code = WEIR_OK;

	for (uint32_t i = 0; i < lane->step->aggregates->item_count && !code; i++) {
		struct weir_ranked *ranked = &lane->ranked[i];

		if (ranked->item->function != WEIR_QUANTILE || ranked->expected ||
		    ranked->values.count - ranked->head < QUEUE_MAX)
			continue;
		if (!count)
			code = count_values_of_group(lane, &count, err);
		ranked->expected = count;
	}
	return code;
}

/* ---- the step ---- */

/* Where there was no memory for a large group, the message says which. `before`: what the lane had then; a step that
 * fails may have freed it. */
static int blame(const struct segments_lane *lane, uint64_t before, int code, struct weir_error *err)
{
	uint64_t now = weir_account_used(&lane->account);
	char text[128], bytes[24];

	if (code)
		weir_error_at_operator(err, "group"); /* the verb that it is a part of */
	if (!lane->text[0] || (code != WEIR_E_CANCELLED && code != WEIR_E_LIMIT && code != WEIR_E_MEMORY))
		return code;
	snprintf(text, sizeof(text), "the group %s has %llu rows or more, which take %s", lane->text,
		 (unsigned long long)(lane->is_open ? lane->summaries.rows : lane->text_rows),
		 weir_format_bytes(now > before ? now : before, bytes, sizeof(bytes)));
	weir_error_at_value(err, text, strlen(text));
	return code;
}

static bool is_full(const struct segments_lane *lane)
{
	uint64_t bytes = 0;

	if (!lane->finished)
		return false;
	if (lane->finished >= OUT_ROWS)
		return true;
	for (uint32_t i = 0; i < lane->step->aggregates->item_count; i++)
		bytes += weir_builder_memory(&lane->ranked[i].out);
	return bytes > OUT_BYTES;
}

static int push(void *object, struct weir_vector *vector, enum weir_progress *progress, struct weir_error *err)
{
	struct segments_lane *lane = object;
	uint64_t before = weir_account_used(&lane->account);
	int code = weir_segmenter_push(&lane->groups, vector, err);

	for (uint32_t i = 0; i < vector->selection.count; i++)
		lane->rows[i] = vector->selection.rows ? vector->selection.rows[i] : (uint16_t)i;
	if (!code && lane->step->is_ordered)
		code = weir_segmenter_push(&lane->values, vector, err);
	if (!code)
		code = push_keys(lane, vector, err);
	if (!code)
		code = push_rows(lane, vector, err);
	if (!code && lane->is_open && !lane->text[0] && lane->summaries.rows > LARGE_ROWS)
		weir_segment_text(lane->step->input, &lane->step->group_columns, vector, vector->selection.count - 1,
				  lane->text, sizeof(lane->text));
	if (!code && lane->is_open && lane->step->is_ordered)
		code = bound_queues(lane, err);
	*progress = WEIR_NEED_INPUT;
	if (!code && lane->step->held_count && weir_held_bytes(&lane->held) >= HELD_BYTES)
		code = weir_held_settle(&lane->held, lane->held_items, lane->held_item_count, err);
	if (!code && is_full(lane)) {
		code = flush(lane, err);
		if (!code)
			code = put_out(lane, vector, progress, err);
		lane->is_draining = true;
	}
	return blame(lane, before, code, err);
}

static int drain(void *object, struct weir_vector *out, enum weir_progress *progress, struct weir_error *err)
{
	struct segments_lane *lane = object;
	uint64_t before = weir_account_used(&lane->account);
	int code = WEIR_OK;

	/* At the end of the split the last group ends; without keys there is one in any case. */
	if (!lane->is_draining && (lane->is_open || (!lane->step->group_columns.count && !lane->groups.has_last))) {
		lane->groups.has_last = true;
		code = group_end(lane, err);
	}
	if (!code && !lane->batch && lane->finished && !lane->is_draining)
		code = flush(lane, err);
	if (!code)
		code = put_out(lane, out, progress, err);
	if (!code && *progress == WEIR_NEED_INPUT)
		lane->is_draining = false;
	return blame(lane, before, code, err);
}

static void step_free(void *object)
{
	struct segments_step *step = object;
	uint32_t items = step->aggregates->item_count;

	if (step->ordered)
		weir_ordered_unref(step->ordered);
	weir_free(step->account, step->keys, step->keys ? (step->group_columns.count + 2) * sizeof(*step->keys) : 0);
	weir_free(step->account, step->item_columns,
		  step->item_columns ? (items + 1) * sizeof(*step->item_columns) : 0);
	weir_free(step->account, step->held_columns,
		  step->held_columns ? (items + 1) * sizeof(*step->held_columns) : 0);
	weir_free(step->account, step, sizeof(*step));
}

static const struct weir_step_ops step_ops = {
	.name = "segments",
	.lane_new = lane_new,
	.split_begin = split_begin,
	.push = push,
	.drain = drain,
	.lane_free = lane_free,
	.free = step_free,
};

/* ---- how ---- */

/* Which columns have to be held, and whether they are one that can be sorted by instead. */
static int choose(struct segments_step *step, struct weir_error *err)
{
	uint32_t count = step->aggregates->item_count;
	bool has_list = false;
	int code = WEIR_OK;

	step->item_columns = weir_alloc_zero(step->account, (count + 1) * sizeof(*step->item_columns), err);
	step->held_columns = step->item_columns
				     ? weir_alloc_zero(step->account, (count + 1) * sizeof(*step->held_columns), err)
				     : NULL;
	if (!step->held_columns)
		return err->code;
	for (uint32_t i = 0; i < count && !code; i++) {
		const struct weir_aggregate_item *item = &step->aggregates->items[i];
		uint32_t at = 0;

		if (item->column)
			code = weir_schema_find(step->input, item->column, &step->item_columns[i], err);
		if (code || !is_ranked(item))
			continue;
		has_list |= item->function == WEIR_LIST_VALUES;
		while (at < step->held_count && step->held_columns[at] != step->item_columns[i])
			at++;
		if (at == step->held_count)
			step->held_columns[step->held_count++] = step->item_columns[i];
	}
	step->is_ordered = step->held_count == 1 && !has_list;
	return code;
}

/* Whether it is enough to know each value of the one column once, and how often it came. */
static bool takes_counts(const struct segments_step *step, const uint32_t *keys, uint32_t key_count)
{
	for (uint32_t i = 0; i < step->aggregates->item_count; i++) {
		enum weir_aggregate_function function = step->aggregates->items[i].function;

		/* Values of quantiles seldom come twice: counting them would be work for nothing. */
		if (function == WEIR_QUANTILE || function == WEIR_APPROX_QUANTILE ||
		    (!is_ranked(&step->aggregates->items[i]) &&
		     (function != WEIR_COUNT || step->aggregates->items[i].column)))
			return false;
	}
	for (uint32_t i = 0; i < key_count; i++)
		if (keys[i] == step->held_columns[0])
			return false;
	return step->is_ordered && weir_row_type_is_key(step->input->fields[step->held_columns[0]].type);
}

static int step_new(struct weir_op_env *env, const struct weir_schema *schema, const uint32_t *keys, uint32_t key_count,
		    const struct weir_aggregates *aggregates, const struct weir_schema *output,
		    struct segments_step **out, struct weir_error *err)
{
	struct segments_step *step = weir_alloc_zero(env->account, sizeof(*step), err);
	int code;

	if (!step)
		return err->code;
	step->account = env->account;
	step->input = schema;
	step->output = output;
	step->aggregates = aggregates;
	step->group_columns.count = key_count;
	step->keys = weir_alloc_zero(env->account, (key_count + 2) * sizeof(*step->keys), err);
	code = step->keys ? choose(step, err) : err->code;
	if (code) {
		step_free(step);
		return code;
	}
	for (uint32_t i = 0; i < key_count; i++)
		step->keys[i].column = keys[i];
	if (step->is_ordered) {
		step->keys[key_count].column = step->held_columns[0];
		step->held_count = 0;
	}
	for (uint32_t i = 0; i < key_count + step->is_ordered; i++) {
		step->keys[i].type = weir_type_values(schema->fields[step->keys[i].column].type);
		step->keys[i].tells_zeros_apart = true; /* as hashing does (rows.h) */
	}
	step->group_columns.keys = step->value_columns.keys = step->keys;
	step->group_columns.width = weir_key_columns_width(step->keys, key_count);
	step->value_columns.count = key_count + step->is_ordered;
	step->value_columns.width = weir_key_columns_width(step->keys, step->value_columns.count);
	*out = step;
	return WEIR_OK;
}

/* Whether nothing is asked but how many different values there are. */
static bool counts_distinct(const struct weir_aggregates *aggregates)
{
	for (uint32_t i = 0; i < aggregates->item_count; i++)
		if (aggregates->items[i].function != WEIR_COUNT_DISTINCT)
			return false;
	return true;
}

static struct weir_aggregates *aggregates_new(struct weir_op_env *env, uint32_t count, struct weir_error *err)
{
	struct weir_aggregates *made = weir_arena_alloc_zero(env->arena, sizeof(*made), err);

	if (!made)
		return NULL;
	made->item_count = count;
	made->items = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*made->items), err);
	made->columns = made->items ? weir_arena_alloc_zero(env->arena, sizeof(*made->columns), err) : NULL;
	made->wants = made->columns ? weir_arena_alloc_zero(env->arena, sizeof(*made->wants), err) : NULL;
	return made->wants ? made : NULL;
}

static const struct weir_aggregate_item count_item = {
	.text = "count()", .name = "", .function = WEIR_COUNT, .summary = UINT32_MAX};

/* Each value of the column once in its group, by hashing, and with `counted` how often it came. */
static int take_distinct(struct weir_op_env *env, struct weir_fragment *fragment, const struct weir_schema *schema,
			 const uint32_t *keys, uint32_t key_count, uint32_t column, bool counted,
			 struct weir_schema **out, struct weir_error *err)
{
	struct weir_aggregates *counts = aggregates_new(env, counted, err);
	struct weir_field *fields = counts ? weir_arena_alloc_zero(env->arena, (key_count + 2) * sizeof(*fields), err)
					   : NULL;
	uint32_t *columns = fields ? weir_arena_alloc_zero(env->arena, (key_count + 1) * sizeof(*columns), err) : NULL;
	int code;

	if (!columns)
		return err->code;
	counts->items[0] = count_item;
	for (uint32_t i = 0; i <= key_count; i++) {
		columns[i] = i < key_count ? keys[i] : column;
		fields[i] = schema->fields[columns[i]];
	}
	fields[key_count + 1] = (struct weir_field){.name = "", .type = weir_type_of(WEIR_INT64)};
	*out = weir_schema_new(env->account, fields, key_count + 1 + counted, NULL, err);
	code = *out ? weir_op_keep_schema(env, *out, err) : err->code;
	return code ? code
		    : weir_hashed_cut(env, fragment, schema,
				      &(struct weir_grouping){.name = "group",
							      .keys = columns,
							      .key_count = key_count + 1,
							      .aggregates = counts,
							      .output = *out},
				      err);
}

/* Behind that: the values of each group are counted, by hashing too. */
static int count_distinct(struct weir_op_env *env, struct weir_fragment *fragment, const struct weir_schema *schema,
			  const uint32_t *keys, uint32_t key_count, const struct weir_aggregates *aggregates,
			  const struct weir_schema *output, struct weir_error *err)
{
	struct weir_aggregates *counts = aggregates_new(env, aggregates->item_count, err);

	if (!counts)
		return err->code;
	counts->column_count = 1;
	counts->columns[0] = schema->fields[key_count].name;
	for (uint32_t i = 0; i < counts->item_count; i++) {
		counts->items[i] = aggregates->items[i];
		counts->items[i].function = WEIR_COUNT;
		counts->items[i].summary = 0;
	}
	return weir_hashed_cut(
		env, fragment, schema,
		&(struct weir_grouping){
			.name = "group", .keys = keys, .key_count = key_count, .aggregates = counts, .output = output},
		err);
}

int weir_segments_cut(struct weir_op_env *env, struct weir_fragment *fragment, const struct weir_schema *schema,
		      const uint32_t *keys, uint32_t key_count, const struct weir_aggregates *aggregates,
		      const struct weir_schema *output, struct weir_error *err)
{
	struct segments_step *step = NULL;
	struct weir_schema *counted = NULL;
	uint32_t *first = NULL;
	int code = step_new(env, schema, keys, key_count, aggregates, output, &step, err);

	if (code)
		return code;
	if (takes_counts(step, keys, key_count)) {
		bool only_distinct = counts_distinct(aggregates);

		code = take_distinct(env, fragment, schema, keys, key_count, step->held_columns[0], !only_distinct,
				     &counted, err);
		step_free(step);
		first = code ? NULL : weir_arena_alloc_zero(env->arena, (key_count + 1) * sizeof(*first), err);
		if (!first)
			return err->code;
		for (uint32_t i = 0; i < key_count; i++)
			first[i] = i;
		schema = counted;
		if (only_distinct)
			return count_distinct(env, fragment, schema, first, key_count, aggregates, output, err);
		code = step_new(env, schema, first, key_count, aggregates, output, &step, err);
		if (code)
			return code;
		step->is_counted = true;
	}
	code = weir_ordered_cut(env, fragment, schema,
				&(struct weir_ordering){.name = "group",
							.keys = step->keys,
							.key_count = step->value_columns.count,
							.limit = -1,
							.keeps_groups = true,
							.group_key_count = key_count,
							.ordered = &step->ordered},
				err);
	if (code) {
		step_free(step);
		return code;
	}
	return weir_fragment_step(fragment, &step_ops, step, err);
}
