/* The running half of read: files become splits, splits become vectors.
 *
 * A split is a list of pieces, a piece is a row range of one file. Large files are opened and cut when their turn
 * comes; small ones are packed together unopened, by their size on disk, and opened by the lane. What a split is
 * depends on the files and the options alone:
 *
 *     listing ─▶ a.parquet (large) ─ ranges ─▶ [a 0–9] [a 10–19] …
 *             ─▶ b, c, d … (small)  ────────▶ [b, c, d …]
 *
 * The aim is SPLITS_WANTED splits, of at least SPLIT_BYTES_MIN and at most SPLIT_BYTES_MAX decoded bytes. Where files
 * count their rows the last ones are smaller, down to a quarter, so that lanes are done at about the same time.
 */
#include "base/log.h"
#include "arrow/tensor.h"
#include "format/cuts.h"
#include "ops/read_impl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
	SPLITS_WANTED = 16,
	SPLIT_BYTES_MIN = 8 << 20,
	SPLIT_BYTES_MAX = 128 << 20,
	SPLITS_LAST = 8,                   /* a split has at most this part of what is left */
	SPLIT_BYTES_MAX_LIMITED = 8 << 20, /* a limit follows: small steps, to stop soon */
	FILE_COST_BYTES = 256 << 10,       /* opening a file costs about as much as decoding this */
	SPLIT_PIECES_MAX = 4096,
};

struct piece {
	char *path;                          /* owned */
	struct weir_partition_value *values; /* owned copies, partition_count of them */
	struct weir_format_file *file;       /* NULL: to be opened by the lane, whole */
	bool is_skipped;                     /* it could not be opened, and that has been told */
	struct weir_range range;
	uint64_t bytes_est;
};

struct pieces WEIR_LIST(struct piece);

struct split {
	struct pieces pieces;
};

struct read_source {
	struct weir_account *account;
	const struct read_config *config;      /* the plan's */
	const struct weir_schema *schema;      /* of the scanned columns; the plan's */
	struct weir_program *partition_filter; /* the predicate, for what folder names already decide; NULL: none */
	struct read_files files;
	bool files_done;
	struct pieces cut; /* pieces waiting to be put into splits */
	size_t cut_next;
	uint64_t target, split_count;
	uint64_t fine; /* what the last splits have, where files count their rows */
	/* decoded, about: of all files, 0 where that is not known; in splits so far */
	uint64_t bytes_total, bytes_given;
	double bytes_per_byte; /* decoded bytes of the scanned columns per byte on disk */
	/* The match of the first file's schema, shared by all files that have it. Made before lanes start. */
	struct read_match *first_match;
	struct weir_format_file *first; /* opened for that; the first file is cut from it */
	_Atomic uint64_t rows_pruned;   /* relaxed: a figure for stats */
	_Atomic bool warned_extra;
	pthread_mutex_t lock; /* guards what follows; rank: nothing is called under it */
	uint64_t skipped_count;
	char skipped_first[512]; /* the first that was left out, and why */
};

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
	struct split *split; /* borrowed */
	size_t piece_next;
	struct piece *piece;
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

/* A file that is left out (--missing skip). One warning at the end tells of all. */
static void note_skipped(void *state, const struct weir_error *why)
{
	struct read_source *source = state;

	pthread_mutex_lock(&source->lock);
	if (source->skipped_count++ == 0)
		weir_error_format(why, source->skipped_first, sizeof(source->skipped_first));
	pthread_mutex_unlock(&source->lock);
}

/* ---- pieces ---- */

static void piece_release(const struct read_source *source, struct piece *piece)
{
	uint32_t count = source->config->partition_count;

	for (uint32_t i = 0; piece->values && i < count; i++)
		weir_strfree(source->account, (char *)piece->values[i].value);
	weir_free(source->account, piece->values, count * sizeof(*piece->values));
	weir_strfree(source->account, piece->path);
	weir_format_file_unref(piece->file);
	*piece = (struct piece){0};
}

static int piece_init(const struct read_source *source, const struct weir_listed *listed, struct piece *piece,
		      struct weir_error *err)
{
	const struct read_config *config = source->config;

	*piece = (struct piece){.range = {.begin = 0, .end = UINT64_MAX}};
	piece->path = weir_strdup(source->account, listed->path, err);
	piece->values = weir_alloc_zero(source->account, config->partition_count * sizeof(*piece->values), err);
	if (!piece->path || !piece->values)
		goto failed;
	for (uint32_t k = 0; k < config->partition_count; k++) {
		if (config->partitions[k].is_path) {
			piece->values[k].value = weir_strdup(source->account, listed->path, err);
			if (!piece->values[k].value)
				goto failed;
			continue;
		}
		for (uint32_t i = 0; i < listed->partition_count; i++) {
			if (strcmp(listed->partitions[i].key, config->partitions[k].name) != 0 ||
			    !listed->partitions[i].value)
				continue;
			weir_strfree(source->account, (char *)piece->values[k].value);
			piece->values[k].value = weir_strdup(source->account, listed->partitions[i].value, err);
			if (!piece->values[k].value)
				goto failed;
		}
	}
	return WEIR_OK;
failed:
	piece_release(source, piece);
	return err->code;
}

/* False when the folder names alone show that no row can match. */
static bool partitions_may_match(const struct read_source *source, const struct piece *piece,
				 struct weir_bounds *bounds)
{
	const struct read_config *config = source->config;

	if (!source->partition_filter || !bounds)
		return true;
	for (uint32_t i = 0; i < config->column_count; i++) {
		bounds[i] = (struct weir_bounds){0};
		for (uint32_t k = 0; k < config->partition_count; k++) {
			const char *value = piece->values[k].value;
			struct weir_scalar scalar = {.type = source->schema->fields[i].type, .is_null = !value};

			if (strcmp(config->partitions[k].name, source->schema->fields[i].name) != 0)
				continue;
			bounds[i].has_null_count = true;
			bounds[i].row_count = 1;
			bounds[i].null_count = !value;
			if (!value)
				continue;
			if (config->partitions[k].is_integer)
				scalar.integer = strtoll(value, NULL, 10);
			else
				scalar.bytes = weir_view_make(value, (uint32_t)strlen(value));
			bounds[i].has_min = bounds[i].has_max = true;
			bounds[i].min = bounds[i].max = scalar;
		}
	}
	return weir_program_may_match(source->partition_filter, bounds);
}

/* ---- matching ---- */

static int match_for(struct read_source *source, const struct weir_format_file *file, const char *path,
		     struct read_match **out, struct weir_error *err)
{
	struct read_match *first = source->first_match;
	int code;

	if (first && weir_schema_same(first->file_schema, file->schema)) {
		atomic_fetch_add_explicit(&first->refs, 1, memory_order_relaxed);
		*out = first;
		return WEIR_OK;
	}
	code = weir_read_match_new(source->account, source->config, file->schema, path, out, err);
	if (code)
		return code;
	for (uint32_t i = 0; i < file->schema->field_count; i++) {
		const char *name = file->schema->fields[i].name;
		bool known = false;

		for (uint32_t k = 0; k < source->config->schema->field_count && !known; k++)
			known = strcmp(source->config->schema->fields[k].name, name) == 0;
		/* relaxed: it only keeps the warning from being repeated */
		if (!known && !atomic_exchange_explicit(&source->warned_extra, true, memory_order_relaxed))
			weir_log(WEIR_LOG_WARN,
				 "%s has a column '%s' that %s does not have; such columns are left out "
				 "(--unify-schemas keeps them)",
				 path, name, source->config->first_path);
	}
	return WEIR_OK;
}

/* ---- splits ---- */

struct cutting {
	struct read_source *source;
	const struct weir_listed *listed;
	struct weir_format_file *file;
	uint64_t rows; /* in ranges */
	struct weir_error *err;
};

/* Narrows a range to the part of the file that is read; false: nothing is left. Where a part begins depends on the
 * file's number of rows alone, so that several programs that read a part each read every row once, whatever else they
 * do. */
static bool in_part(const struct read_config *config, const struct weir_format_file *file, struct weir_range *range)
{
	uint64_t begin, end, rows = range->end - range->begin;

	if (!config->part_count)
		return true;
	begin = (uint64_t)((__int128)file->row_count * config->part / config->part_count);
	end = (uint64_t)((__int128)file->row_count * (config->part + 1) / config->part_count);
	if (range->begin < begin)
		range->begin = begin;
	if (range->end > end)
		range->end = end;
	if (range->begin >= range->end)
		return false;
	range->bytes_decoded_est = (uint64_t)((double)range->bytes_decoded_est * (double)(range->end - range->begin) /
					      (double)rows);
	return true;
}

static int cut_range(void *context, const struct weir_range *range)
{
	struct cutting *cutting = context;
	struct read_source *source = cutting->source;
	struct weir_range mine = *range;
	struct piece piece;
	int code;

	cutting->rows += range->end - range->begin;
	if (!in_part(source->config, cutting->file, &mine))
		return WEIR_OK;
	code = piece_init(source, cutting->listed, &piece, cutting->err);
	if (code)
		return code;
	piece.file = weir_format_file_ref(cutting->file);
	piece.range = mine;
	piece.bytes_est = mine.bytes_decoded_est > FILE_COST_BYTES ? mine.bytes_decoded_est : FILE_COST_BYTES;
	code = weir_list_push(&source->cut, source->account, cutting->err, piece);
	if (code)
		piece_release(source, &piece);
	return code;
}

/* Of a file's rows, those that no range has. Formats that do not count them leave none out. */
static uint64_t rows_left_out(const struct weir_format_file *file, uint64_t rows)
{
	return file->row_count > 0 && (uint64_t)file->row_count > rows ? (uint64_t)file->row_count - rows : 0;
}

static bool counts_rows(const struct weir_format_file *file)
{
	return file && file->row_count >= 0 && !file->cuts;
}

/* Opens a large file and cuts it into pieces. */
static int cut_file(struct read_source *source, const struct weir_listed *listed, struct weir_error *err)
{
	struct cutting cutting = {.source = source, .listed = listed, .err = err};
	struct read_match *match = NULL;
	bool unreadable = false;
	int code = WEIR_OK;

	if (source->first && strcmp(listed->path, source->config->first_path) == 0) {
		cutting.file = source->first;
		source->first = NULL;
	} else {
		code = weir_read_open(source->account, source->config, listed->path, &cutting.file, &unreadable, err);
	}
	if (!code && unreadable) {
		note_skipped(source, err);
		return WEIR_OK;
	}
	if (!code && source->config->part_count && (cutting.file->row_count < 0 || cutting.file->cuts))
		code = weir_error_set(err, WEIR_E_UNSUPPORTED, "--part wants files that know their number of rows");
	if (!code)
		code = match_for(source, cutting.file, listed->path, &match, err);
	if (!code)
		code = source->config->format->ranges(cutting.file, &match->scan,
						      counts_rows(cutting.file) ? source->fine : source->target,
						      cut_range, &cutting, err);
	if (!code)
		atomic_fetch_add_explicit(&source->rows_pruned, rows_left_out(cutting.file, cutting.rows),
					  memory_order_relaxed);
	weir_error_at_source(err, listed->path);
	weir_read_match_unref(match);
	weir_format_file_unref(cutting.file);
	return code;
}

/* The next file becomes one or more pieces in source->cut, or none when it is pruned. */
static int take_file(struct read_source *source, struct weir_error *err)
{
	const struct read_config *config = source->config;
	struct weir_bounds *bounds = NULL;
	struct weir_listed listed;
	struct piece piece = {0};
	int code = weir_read_files_next(&source->files, &listed, &source->files_done, err);

	if (code || source->files_done)
		return code;
	code = piece_init(source, &listed, &piece, err);
	if (!code && source->partition_filter) {
		bounds = weir_alloc_zero(source->account, config->column_count * sizeof(*bounds), err);
		code = bounds ? WEIR_OK : err->code;
	}
	if (!code && !partitions_may_match(source, &piece, bounds)) {
		piece_release(source, &piece);
	} else if (!code &&
		   (config->part_count || (double)listed.size * source->bytes_per_byte > (double)source->target / 2)) {
		piece_release(source, &piece);
		code = cut_file(source, &listed, err);
	} else if (!code) {
		piece.bytes_est = (uint64_t)((double)listed.size * source->bytes_per_byte);
		if (piece.bytes_est < FILE_COST_BYTES)
			piece.bytes_est = FILE_COST_BYTES;
		code = weir_list_push(&source->cut, source->account, err, piece);
		if (code)
			piece_release(source, &piece);
	} else {
		piece_release(source, &piece);
	}
	weir_free(source->account, bounds, config->column_count * sizeof(*bounds));
	return code;
}

static void split_free(void *state, void *split_state)
{
	struct read_source *source = state;
	struct split *split = split_state;

	if (!split)
		return;
	for (size_t i = 0; i < split->pieces.count; i++)
		piece_release(source, &split->pieces.items[i]);
	weir_list_release(&split->pieces, source->account);
	weir_free(source->account, split, sizeof(*split));
}

static uint64_t split_aim(const struct read_source *source)
{
	uint64_t left = source->bytes_total > source->bytes_given ? source->bytes_total - source->bytes_given : 0;
	uint64_t aim = left / SPLITS_LAST;

	if (!source->bytes_total || aim > source->target)
		return source->target;
	return aim < source->fine ? source->fine : aim;
}

/* The piece, which is taken over, behind those of the split: neighbours in a file are one. */
static int split_push(struct read_source *source, struct split *split, struct piece *piece, struct weir_error *err)
{
	struct piece *last = split->pieces.count ? &split->pieces.items[split->pieces.count - 1] : NULL;
	int code;

	if (last && last->file == piece->file && counts_rows(piece->file) && last->range.end == piece->range.begin) {
		last->range.end = piece->range.end;
		last->range.bytes_decoded_est += piece->range.bytes_decoded_est;
		last->bytes_est += piece->bytes_est;
		piece_release(source, piece);
		return WEIR_OK;
	}
	code = weir_list_push(&split->pieces, source->account, err, *piece);
	if (!code)
		*piece = (struct piece){0};
	return code;
}

static int split_next(void *state, struct weir_split_info *out, void **split_out, bool *done, struct weir_error *err)
{
	struct read_source *source = state;
	struct split *split = weir_alloc_zero(source->account, sizeof(*split), err);
	const struct weir_format_file *file = NULL;
	uint64_t bytes = 0, aim = split_aim(source);
	int64_t rows = 0;
	int code = split ? WEIR_OK : err->code;

	while (!code && split->pieces.count < SPLIT_PIECES_MAX) {
		struct piece *piece;

		if (source->cut_next == source->cut.count) {
			source->cut.count = source->cut_next = 0;
			if (source->files_done)
				break;
			code = take_file(source, err);
			continue;
		}
		piece = &source->cut.items[source->cut_next];
		/* Pieces of a file that was cut stay apart from the next file's, unless they are few. */
		if (bytes > 0 &&
		    (bytes + piece->bytes_est > aim + aim / 2 || (file && piece->file != file && bytes > aim / 2)))
			break;
		file = piece->file;
		bytes += piece->bytes_est;
		/* Where a range is one of rows. */
		rows = rows < 0 || !piece->file || piece->file->row_count < 0
			       ? -1
			       : rows + (int64_t)(piece->range.end - piece->range.begin);
		code = split_push(source, split, piece, err);
		if (code)
			break;
		source->cut_next++;
		if (bytes >= aim)
			break;
	}
	source->bytes_given += bytes;
	*done = !code && split->pieces.count == 0;
	if (code || *done) {
		split_free(source, split);
		return code;
	}
	*out = (struct weir_split_info){.number = source->split_count++, .bytes_est = bytes, .rows_est = rows};
	*split_out = split;
	return WEIR_OK;
}

/* ---- lanes ---- */

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

static void lane_free(void *state)
{
	struct read_lane *lane = state;
	struct weir_account *account = lane->context->account;
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
	weir_account_release(&lane->account);
	weir_free(account, lane, sizeof(*lane));
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct read_source *source = state;
	const struct read_config *config = source->config;
	size_t count = config->column_count;
	struct read_lane *lane = weir_alloc_zero(context->account, sizeof(*lane), err);
	int code = WEIR_OK;

	if (!lane)
		return err->code;
	weir_account_init(&lane->account, context->account, "read");
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
		lane_free(lane);
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

static uint64_t rows_pruned(const void *state)
{
	const struct read_source *source = state;

	return atomic_load_explicit(&source->rows_pruned, memory_order_relaxed);
}

static int split_open(void *state, void *split, struct weir_error *err)
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

static void split_abort(void *state)
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

static bool needs_confirm(void *state)
{
	const struct read_lane *lane = state;

	/* If an open range fails, its line is to be counted from the file's beginning, and misfits are to be settled:
	 * values are looked at when somebody asks for them, far from here. */
	return lane->guessed || (lane->file && (lane->file->cuts || lane->source->config->misfits));
}

static int confirm(void *state, struct weir_error *failure, struct weir_error *err)
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
	int code = match_for(lane->source, lane->file, lane->piece->path, &match, err);

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
			note_skipped(lane->source, err);
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
	lane->rows_pruned += code ? 0 : rows_left_out(lane->file, rows);
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

static int next(void *state, struct weir_vector *out, struct weir_error *err)
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

static void source_free(void *state)
{
	struct read_source *source = state;

	for (size_t i = source->cut_next; i < source->cut.count; i++)
		piece_release(source, &source->cut.items[i]);
	weir_list_release(&source->cut, source->account);
	weir_read_files_release(&source->files);
	weir_read_match_unref(source->first_match);
	weir_format_file_unref(source->first);
	weir_program_free(source->partition_filter);
	if (source->skipped_count)
		weir_log(WEIR_LOG_WARN, "%llu %s left out that could not be read; the first: %s",
			 (unsigned long long)source->skipped_count,
			 source->skipped_count == 1 ? "path was" : "paths were", source->skipped_first);
	pthread_mutex_destroy(&source->lock);
	weir_free(source->account, source, sizeof(*source));
}

static const struct weir_source_ops source_ops = {
	.name = "read",
	.split_next = split_next,
	.split_free = split_free,
	.lane_new = lane_new,
	.split_open = split_open,
	.next = next,
	.confirm = confirm,
	.needs_confirm = needs_confirm,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.rows_pruned = rows_pruned,
	.free = source_free,
};

static uint64_t split_target(const struct read_config *config, double bytes_per_byte)
{
	double target = config->more_files ? SPLIT_BYTES_MAX
					   : (double)config->bytes_seen * bytes_per_byte / SPLITS_WANTED;
	double cost = (double)config->files_seen * FILE_COST_BYTES / SPLITS_WANTED;
	double max = config->limit >= 0 ? SPLIT_BYTES_MAX_LIMITED : SPLIT_BYTES_MAX;

	if (config->blocks && !config->more_files) {
		target = (double)config->bytes_seen * bytes_per_byte / (double)config->blocks;
		return (uint64_t)(target < 1 ? 1 : target > SPLIT_BYTES_MAX ? SPLIT_BYTES_MAX : target);
	}
	if (target < cost)
		target = cost;
	if (target < SPLIT_BYTES_MIN)
		target = SPLIT_BYTES_MIN;
	return (uint64_t)(target > max ? max : target);
}

int weir_read_build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		    struct weir_error *err)
{
	const struct read_config *config = node->config;
	struct read_source *source = weir_alloc_zero(env->account, sizeof(*source), err);
	struct weir_format_file *first = NULL;
	double decoded;
	int code;

	if (!source)
		return err->code;
	pthread_mutex_init(&source->lock, NULL);
	source->account = env->account;
	source->config = config;
	source->schema = node->schema;
	source->bytes_per_byte = config->decoded_per_byte;
	if (config->schema->field_count)
		source->bytes_per_byte *= (double)config->column_count / config->schema->field_count;
	source->target = source->fine = split_target(config, source->bytes_per_byte);
	decoded = (double)config->bytes_seen * source->bytes_per_byte;
	/* Who asked for so many blocks gets blocks that are alike; and many small files are what opening them costs. */
	if (!config->more_files && !config->blocks && config->limit < 0 && source->target / 4 >= SPLIT_BYTES_MIN &&
	    decoded > (double)config->files_seen * FILE_COST_BYTES) {
		source->fine = source->target / 4;
		source->bytes_total = (uint64_t)decoded;
	}
	code = weir_read_files_init(&source->files, env->account, config, NULL, note_skipped, source, err);
	if (!code)
		code = weir_read_open(env->account, config, config->first_path, &first, NULL, err);
	if (!code)
		code = weir_read_match_new(env->account, config, first->schema, config->first_path,
					   &source->first_match, err);
	if (!code && config->predicate && config->partition_count)
		code = weir_program_new(env->account, config->predicate, node->schema, &source->partition_filter, err);
	/* Only a file that will be cut (take_file) is wanted again before lanes run. */
	if (!code && !config->input &&
	    (double)weir_file_size(first->file) * source->bytes_per_byte > (double)source->target / 2)
		source->first = first;
	else
		weir_format_file_unref(first);
	if (code) {
		source_free(source);
		return code;
	}
	/* The first rows of the first file: a second lane would only decode for nothing. */
	if (config->limit >= 0 && config->limit <= WEIR_VECTOR_ROWS)
		fragment->lanes_max = 1;
	return weir_fragment_source(fragment, &source_ops, source);
}
