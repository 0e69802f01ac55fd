/* A lane of read: it opens the pieces of a split one after another, and hands out vectors in the dataset's columns and
 * types.
 *
 *     split ─▶ piece ─▶ file, or one range of it ─▶ format's reader ─▶ dress() ─▶ vector
 *
 * Nothing is decoded here. Columns of another type, and nested ones, are converted when a step asks for them
 * (decode_cast); a column that the file lacks is a constant null, a folder's value a constant.
 *
 * A text format may have to guess where the first record of a range begins. confirm() says whether the guess of the
 * split's first range was right, when all earlier splits have ended.
 */
#include "format/cuts.h"
#include "ops/read_source_impl.h"

#include <stdlib.h>
#include <string.h>

struct cast_pending {
	struct weir_pending pending;
	struct read_lane *lane;
	uint32_t column;
};

struct read_lane {
	struct weir_account account;
	struct weir_lane_context *context;
	struct read_source *source;
	struct weir_format_reader *reader;
	struct read_split *split; /* borrowed */
	size_t piece_next;
	struct read_piece *piece;
	struct weir_format_file *file;              /* the open one; a reference */
	struct read_match *match;                   /* a reference */
	struct WEIR_LIST(struct weir_range) ranges; /* of a file that the lane opened itself */
	size_t range_next;
	bool range_open;
	bool has_begun;                           /* a range of the split has been opened */
	uint64_t rows_pruned, rows_pruned_before; /* in the open split; by the reader before it */
	uint32_t range_number;                    /* of the open range */
	/* The split's first range, if it began at a guess: which one, and where. A reference; NULL: nothing was
	 * guessed. */
	struct weir_format_file *guessed;
	uint32_t guessed_range;
	uint64_t guessed_start;
	/* Per scanned column, for the match in use. */
	struct weir_evaluator **evaluators;
	struct cast_pending *casts;
	struct weir_column *columns;
	struct weir_array **nulls;    /* MISSING nested: 4,096 nulls */
	struct weir_array **promoted; /* CAST nested: of the current vector */
	struct weir_view *partition_views;
	int64_t *partition_integers;
	struct weir_vector inner; /* as the format gave it */
};

static const uint64_t no_bits[1] = {0};
static const uint64_t no_value[4] = {0};

static void match_release(struct read_lane *lane)
{
	uint32_t count = lane->source->config->column_count;

	for (uint32_t i = 0; i < count; i++) {
		weir_evaluator_free(lane->evaluators[i]);
		lane->evaluators[i] = NULL;
		weir_array_unref(lane->nulls[i]);
		lane->nulls[i] = NULL;
		weir_array_unref(lane->promoted[i]);
		lane->promoted[i] = NULL;
	}
	weir_read_match_unref(lane->match);
	lane->match = NULL;
}

static void piece_close(struct read_lane *lane)
{
	weir_format_file_unref(lane->file);
	lane->file = NULL;
	lane->piece = NULL;
	lane->range_open = false;
	lane->ranges.count = lane->range_next = 0;
}

static void forget_guess(struct read_lane *lane)
{
	weir_format_file_unref(lane->guessed);
	lane->guessed = NULL;
}

void weir_read_lane_free(void *state)
{
	struct read_lane *lane = state;
	const struct read_config *config = lane->source->config;
	size_t count = config->column_count;

	if (lane->reader)
		config->format->reader_free(lane->reader);
	if (lane->evaluators && lane->nulls && lane->promoted)
		match_release(lane);
	piece_close(lane);
	forget_guess(lane);
	weir_list_release(&lane->ranges, &lane->account);
	weir_free(&lane->account, lane->evaluators, count * sizeof(*lane->evaluators));
	weir_free(&lane->account, lane->casts, count * sizeof(*lane->casts));
	weir_free(&lane->account, lane->columns, count * sizeof(*lane->columns));
	weir_free(&lane->account, lane->nulls, count * sizeof(*lane->nulls));
	weir_free(&lane->account, lane->promoted, count * sizeof(*lane->promoted));
	weir_free(&lane->account, lane->partition_views, config->partition_count * sizeof(*lane->partition_views));
	weir_free(&lane->account, lane->partition_integers,
		  config->partition_count * sizeof(*lane->partition_integers));
	weir_op_lane_free(lane, sizeof(*lane));
}

int weir_read_lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct read_source *source = state;
	const struct read_config *config = source->config;
	size_t count = config->column_count;
	struct read_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "read", err);
	int code = WEIR_OK;

	if (!lane)
		return err->code;
	lane->context = context;
	lane->source = source;
	lane->evaluators = weir_alloc_zero(&lane->account, count * sizeof(*lane->evaluators), err);
	lane->casts = weir_alloc_zero(&lane->account, count * sizeof(*lane->casts), err);
	lane->columns = weir_alloc_zero(&lane->account, count * sizeof(*lane->columns), err);
	lane->nulls = weir_alloc_zero(&lane->account, count * sizeof(*lane->nulls), err);
	lane->promoted = weir_alloc_zero(&lane->account, count * sizeof(*lane->promoted), err);
	lane->partition_views = weir_alloc_zero(&lane->account,
						config->partition_count * sizeof(*lane->partition_views), err);
	lane->partition_integers = weir_alloc_zero(&lane->account,
						   config->partition_count * sizeof(*lane->partition_integers), err);
	if (!lane->evaluators || !lane->casts || !lane->columns || !lane->nulls || !lane->promoted ||
	    !lane->partition_views || !lane->partition_integers)
		code = err->code;
	if (!code)
		code = config->format->reader_new(&lane->account, context->io, &lane->reader, err);
	if (code) {
		weir_read_lane_free(lane);
		return code;
	}
	*out = lane;
	return WEIR_OK;
}

static uint64_t reader_pruned(const struct read_lane *lane)
{
	struct weir_format_stats stats = {0};

	if (lane->reader->ops->reader_stats)
		lane->reader->ops->reader_stats(lane->reader, &stats);
	return stats.rows_pruned;
}

/* The split is at its end: what was left out of it counts. */
static void pruned_add(struct read_lane *lane)
{
	uint64_t pruned = reader_pruned(lane);

	atomic_fetch_add_explicit(&lane->source->rows_pruned, lane->rows_pruned + pruned - lane->rows_pruned_before,
				  memory_order_relaxed);
	lane->rows_pruned = 0;
	lane->rows_pruned_before = pruned;
}

int weir_read_lane_open(void *state, void *split, struct weir_error *err)
{
	struct read_lane *lane = state;

	(void)err;
	piece_close(lane);
	forget_guess(lane);
	lane->has_begun = false;
	lane->split = split;
	lane->piece_next = 0;
	lane->rows_pruned = 0;
	lane->rows_pruned_before = reader_pruned(lane);
	return WEIR_OK;
}

void weir_read_lane_abort(void *state)
{
	struct read_lane *lane = state;

	piece_close(lane);
	lane->split = NULL;
}

/* Only a split's first range can begin at a guess: a file's first range begins at its beginning, and those behind
 * another one begin where that has ended. */
static void note_guess(struct read_lane *lane, const struct weir_range *range)
{
	if (!lane->file->cuts || lane->guessed || lane->has_begun || range->number == 0) {
		lane->has_begun = true;
		return;
	}
	lane->has_begun = true;
	lane->guessed = weir_format_file_ref(lane->file);
	lane->guessed_range = range->number;
	lane->guessed_start = lane->source->config->format->reader_start(lane->reader);
}

bool weir_read_lane_needs_confirm(void *state)
{
	const struct read_lane *lane = state;

	/* If an open range fails, its line is to be counted from the file's beginning, and misfits are to be settled:
	 * values are looked at when somebody asks for them, far from here. */
	return lane->guessed || (lane->file && (lane->file->cuts || lane->source->config->misfits));
}

int weir_read_lane_confirm(void *state, struct weir_error *failure, struct weir_error *err)
{
	const struct read_lane *lane = state;

	if (lane->guessed && !weir_cuts_confirm(lane->guessed->cuts, lane->guessed_range, lane->guessed_start)) {
		weir_read_misfits_settle(lane->source->config->misfits, false);
		return weir_error_set(err, WEIR_E_AGAIN, "range %u does not begin at byte %llu", lane->guessed_range,
				      (unsigned long long)lane->guessed_start);
	}
	if (failure)
		weir_read_misfits_settle(lane->source->config->misfits, true);
	if (failure && failure->line_in_range && lane->file && lane->file->cuts) {
		uint64_t line = weir_cuts_line(lane->file->cuts, lane->range_number);

		failure->has_line = line > 0;
		failure->line += (int64_t)line - 1;
		failure->line_in_range = 0;
	}
	return WEIR_OK;
}

/* A nested column all of whose rows are null. */
static void show_nulls(const struct read_lane *lane, uint32_t number, struct weir_column *column)
{
	column->form = WEIR_FLAT;
	column->validity = NULL; /* the array has its own */
	column->values = NULL;
	column->nested = lane->nulls[number];
	column->nested_offset = 0;
}

/* A column of another type, when somebody asks for it. */
static int decode_cast(struct weir_pending *pending, const struct weir_selection *selection, struct weir_column *column,
		       struct weir_error *err)
{
	struct cast_pending *cast = (struct cast_pending *)pending;
	struct read_lane *lane = cast->lane;
	const struct read_match_column *how = &lane->match->columns[cast->column];
	const struct weir_type *type = column->type;
	struct weir_vector inner = lane->inner;
	struct weir_array *slice;
	int code;

	inner.selection = *selection;
	if (how->cast) {
		code = weir_evaluator_eval(lane->evaluators[cast->column], &inner, column, err);
		column->type = type;
		return code;
	}
	code = weir_column_decode(&inner, how->from, err);
	if (code)
		return code;
	if (lane->nulls[cast->column]) {
		show_nulls(lane, cast->column, column);
		return WEIR_OK;
	}
	slice = weir_array_slice(inner.columns[how->from].nested, inner.columns[how->from].nested_offset,
				 inner.row_count, err);
	if (!slice)
		return err->code;
	weir_array_unref(lane->promoted[cast->column]);
	lane->promoted[cast->column] = weir_array_promote_field(
		&lane->account, slice, &lane->match->file_schema->fields[lane->match->scan_columns[how->from]],
		how->field, err);
	weir_array_unref(slice);
	if (!lane->promoted[cast->column])
		return err->code;
	column->form = WEIR_FLAT;
	column->validity = NULL; /* the array has its own */
	column->values = NULL;
	column->nested = lane->promoted[cast->column];
	column->nested_offset = 0;
	return WEIR_OK;
}

/* Whether a file has nothing for a column: it is not there, or was written when no row had a value, without a type. */
static bool is_null_here(const struct read_match *match, const struct read_match_column *how)
{
	return how->how == READ_MISSING ||
	       (how->how == READ_CAST &&
		match->file_schema->fields[match->scan_columns[how->from]].type->id == WEIR_NULL);
}

/* Prepares what the new file's match needs in this lane. */
static int use_match(struct read_lane *lane, struct weir_error *err)
{
	struct read_match *match = NULL;
	int code = weir_read_match_for(lane->source, lane->file, lane->piece->path, &match, err);

	if (code)
		return code;
	if (match == lane->match) {
		weir_read_match_unref(match);
		return WEIR_OK;
	}
	match_release(lane);
	lane->match = match;
	for (uint32_t i = 0; !code && i < match->column_count; i++) {
		const struct read_match_column *how = &match->columns[i];

		if (how->cast)
			code = weir_evaluator_new(&lane->account, how->cast, &lane->evaluators[i], err);
		if (!code && is_null_here(match, how) && weir_type_is_nested(weir_type_values(how->type)))
			code = weir_op_null_array(&lane->account, how->type, &lane->nulls[i], err);
		lane->casts[i] = (struct cast_pending){.pending = {decode_cast}, .lane = lane, .column = i};
	}
	return code;
}

static void set_partitions(struct read_lane *lane)
{
	const struct read_config *config = lane->source->config;

	for (uint32_t k = 0; k < config->partition_count; k++) {
		const char *value = lane->piece->values[k].value;

		if (!value)
			continue;
		if (config->partitions[k].is_integer)
			lane->partition_integers[k] = strtoll(value, NULL, 10);
		else
			lane->partition_views[k] = weir_view_make(value, (uint32_t)strlen(value));
	}
}

struct range_list {
	struct read_lane *lane;
	struct weir_error *err;
};

static int keep_range(void *context, const struct weir_range *range)
{
	struct range_list *list = context;

	return weir_list_push(&list->lane->ranges, &list->lane->account, list->err, *range);
}

static int piece_open(struct read_lane *lane, struct weir_error *err)
{
	const struct read_config *config = lane->source->config;
	bool unreadable = false;
	uint64_t rows = 0;
	int code = WEIR_OK;

	lane->piece = &lane->split->pieces.items[lane->piece_next++];
	if (lane->piece->file)
		lane->file = weir_format_file_ref(lane->piece->file);
	else
		code = weir_read_open(&lane->account, config, lane->piece->path, &lane->file, &unreadable, err);
	if (unreadable) { /* a split that is run again tells it once */
		if (!lane->piece->is_skipped)
			weir_read_skipped(lane->source, err);
		lane->piece->is_skipped = true;
		weir_error_clear(err);
		return WEIR_OK;
	}
	/* A pipe cannot be read again: it is read when its split can no longer be given up. */
	if (!code && config->input && weir_file_is_pipe(config->input)) {
		code = lane->context->wait_turn(lane->context, err);
		if (!code)
			code = weir_file_begin_pipe(config->input, lane->context->cancelled, err);
	}
	if (!code)
		code = use_match(lane, err);
	if (code)
		return code;
	set_partitions(lane);
	lane->ranges.count = lane->range_next = 0;
	if (lane->piece->file)
		return weir_list_push(&lane->ranges, &lane->account, err, lane->piece->range);
	code = config->format->ranges(lane->file, &lane->match->scan, 0, keep_range, &(struct range_list){lane, err},
				      err);
	for (size_t i = 0; i < lane->ranges.count; i++)
		rows += lane->ranges.items[i].end - lane->ranges.items[i].begin;
	lane->rows_pruned += code ? 0 : weir_read_rows_left_out(lane->file, rows);
	return code;
}

/* The format's columns in the dataset's order and types. */
static void dress(struct read_lane *lane, struct weir_vector *out)
{
	const struct read_match *match = lane->match;

	lane->inner = *out;
	for (uint32_t i = 0; i < match->column_count; i++) {
		const struct read_match_column *how = &match->columns[i];
		struct weir_column *column = &lane->columns[i];

		*column = (struct weir_column){
			.type = how->type, .form = WEIR_CONSTANT, .validity = no_bits, .values = no_value};
		switch (how->how) {
		case READ_SAME:
			*column = out->columns[how->from];
			column->type = how->type;
			break;
		case READ_CAST:
			column->form = WEIR_UNDECODED;
			column->pending = &lane->casts[i].pending;
			break;
		case READ_MISSING:
			if (lane->nulls[i])
				show_nulls(lane, i, column);
			break;
		case READ_PARTITION:
			if (!lane->piece->values[how->from].value)
				break;
			column->validity = NULL;
			column->values = lane->source->config->partitions[how->from].is_integer
						 ? (const void *)&lane->partition_integers[how->from]
						 : &lane->partition_views[how->from];
			break;
		}
	}
	out->columns = lane->columns;
	out->column_count = match->column_count;
	out->source = lane->piece->path;
}

int weir_read_lane_next(void *state, struct weir_vector *out, struct weir_error *err)
{
	struct read_lane *lane = state;
	const struct weir_format_ops *format = lane->source->config->format;
	const struct weir_range *range;
	int code;

	for (;;) {
		if (!lane->piece) {
			if (lane->piece_next == lane->split->pieces.count) {
				*out = (struct weir_vector){0};
				pruned_add(lane);
				return WEIR_OK;
			}
			code = piece_open(lane, err);
			if (code)
				break;
		}
		if (!lane->range_open) {
			if (lane->range_next == lane->ranges.count) {
				piece_close(lane);
				continue;
			}
			range = &lane->ranges.items[lane->range_next++];
			lane->range_number = range->number;
			code = format->reader_open(lane->reader, lane->file, &lane->match->scan, range, err);
			if (code)
				break;
			lane->range_open = true;
			note_guess(lane, range);
		}
		code = format->reader_next(lane->reader, out, err);
		if (code)
			break;
		if (out->row_count > 0) {
			dress(lane, out);
			return WEIR_OK;
		}
		lane->range_open = false;
	}
	if (lane->piece)
		weir_error_at_source(err, lane->piece->path);
	return code;
}
