/* What read does while it runs, up to the splits: files are cut into pieces, and pieces are put into splits. Lanes
 * read them in read_lane.c.
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
#include "ops/read_source_impl.h"

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

void weir_read_skipped(void *state, const struct weir_error *why)
{
	struct read_source *source = state;

	pthread_mutex_lock(&source->lock);
	if (source->skipped_count++ == 0)
		weir_error_format(why, source->skipped_first, sizeof(source->skipped_first));
	pthread_mutex_unlock(&source->lock);
}

/* ---- pieces ---- */

static void piece_release(const struct read_source *source, struct read_piece *piece)
{
	uint32_t count = source->config->partition_count;

	for (uint32_t i = 0; piece->values && i < count; i++)
		weir_strfree(source->account, (char *)piece->values[i].value);
	weir_free(source->account, piece->values, count * sizeof(*piece->values));
	weir_strfree(source->account, piece->path);
	weir_format_file_unref(piece->file);
	*piece = (struct read_piece){0};
}

static int piece_init(const struct read_source *source, const struct weir_listed *listed, struct read_piece *piece,
		      struct weir_error *err)
{
	const struct read_config *config = source->config;

	*piece = (struct read_piece){.range = {.begin = 0, .end = UINT64_MAX}};
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
static bool partitions_may_match(const struct read_source *source, const struct read_piece *piece,
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

int weir_read_match_for(struct read_source *source, const struct weir_format_file *file, const char *path,
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
	struct read_piece piece;
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

uint64_t weir_read_rows_left_out(const struct weir_format_file *file, uint64_t rows)
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
		weir_read_skipped(source, err);
		return WEIR_OK;
	}
	if (!code && source->config->part_count && (cutting.file->row_count < 0 || cutting.file->cuts))
		code = weir_error_set(err, WEIR_E_UNSUPPORTED, "--part wants files that know their number of rows");
	if (!code)
		code = weir_read_match_for(source, cutting.file, listed->path, &match, err);
	if (!code)
		code = source->config->format->ranges(cutting.file, &match->scan,
						      counts_rows(cutting.file) ? source->fine : source->target,
						      cut_range, &cutting, err);
	if (!code)
		atomic_fetch_add_explicit(&source->rows_pruned, weir_read_rows_left_out(cutting.file, cutting.rows),
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
	struct read_piece piece = {0};
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
	struct read_split *split = split_state;

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
static int split_push(struct read_source *source, struct read_split *split, struct read_piece *piece,
		      struct weir_error *err)
{
	struct read_piece *last = split->pieces.count ? &split->pieces.items[split->pieces.count - 1] : NULL;
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
		*piece = (struct read_piece){0};
	return code;
}

static int split_next(void *state, struct weir_split_info *out, void **split_out, bool *done, struct weir_error *err)
{
	struct read_source *source = state;
	struct read_split *split = weir_alloc_zero(source->account, sizeof(*split), err);
	const struct weir_format_file *file = NULL;
	uint64_t bytes = 0, aim = split_aim(source);
	int64_t rows = 0;
	int code = split ? WEIR_OK : err->code;

	while (!code && split->pieces.count < SPLIT_PIECES_MAX) {
		struct read_piece *piece;

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

static uint64_t rows_pruned(const void *state)
{
	const struct read_source *source = state;

	return atomic_load_explicit(&source->rows_pruned, memory_order_relaxed);
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
	.lane_new = weir_read_lane_new,
	.split_open = weir_read_lane_open,
	.next = weir_read_lane_next,
	.confirm = weir_read_lane_confirm,
	.needs_confirm = weir_read_lane_needs_confirm,
	.split_abort = weir_read_lane_abort,
	.lane_free = weir_read_lane_free,
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
	code = weir_read_files_init(&source->files, env->account, config, NULL, weir_read_skipped, source, err);
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
