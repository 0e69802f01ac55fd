/* Entry points for tests that load libweir and hold what it reads against other libraries. Only in builds with
 * -Dfaults=true; the released library has none of them. */
#include "weir/weir.h"
#include "base/list.h"
#include "arrow/cdata.h"
#include "format/format.h"

#include <string.h>

/* What to read. Plain data, filled by the test. */
struct weir_probe_read {
	const char *path;
	const uint32_t *columns; /* NULL: all */
	uint32_t column_count;
	uint32_t every;              /* one row in so many is selected; 0 and 1: all */
	uint32_t phase;              /* the first of them */
	uint32_t vectors;            /* columns of one vector in so many are decoded at all; 0 and 1: of each */
	uint64_t bytes_target;       /* of a range */
	uint64_t row_begin, row_end; /* row_end 0: all; else one range */
	const char *predicate;       /* for pruning; NULL: none */
	int64_t grant;               /* of the reader's account; 0: no end */
	int64_t *peak;               /* of that account, when the stream is released; NULL: not asked */
	uint32_t part;               /* a vector is gathered in parts of so many rows; 0: at once */
	uint32_t mix;                /* of one vector in so many, every other row is left out; 0: of none */
};

WEIR_API int weir_probe_parquet_read(struct weir_mem *mem, const struct weir_probe_read *what,
				     struct ArrowArrayStream *out, struct weir_format_stats *stats,
				     struct weir_error *err);

struct probe {
	struct weir_account *account;
	struct weir_probe_read what;
	struct weir_io *io;
	struct weir_format_file *file;
	struct weir_format_reader *reader;
	struct weir_schema *schema; /* of the scanned columns */
	struct weir_program *program;
	struct weir_scan scan;
	uint32_t *columns;
	struct ranges WEIR_LIST(struct weir_range) ranges;
	size_t range;
	bool is_open;
	uint64_t vector_number;
	uint16_t rows[WEIR_VECTOR_ROWS];
	struct weir_format_stats *stats;
	struct weir_account lane; /* the reader's */
};

static int ask_in_vain(void *asked, struct weir_account *account, int64_t more, struct weir_error *err)
{
	(void)asked;
	return weir_error_set(err, WEIR_E_LIMIT, "%lld bytes more than the %lld granted", (long long)more,
			      (long long)atomic_load(&account->grant));
}

static void probe_free(void *state)
{
	struct probe *probe = state;
	struct weir_account *account = probe->account;

	if (probe->reader) {
		if (probe->stats)
			probe->reader->ops->reader_stats(probe->reader, probe->stats);
		probe->reader->ops->reader_free(probe->reader);
	}
	if (probe->what.peak)
		*probe->what.peak = atomic_load(&probe->lane.peak);
	weir_account_release(&probe->lane);
	if (probe->program)
		weir_program_free(probe->program);
	weir_format_file_unref(probe->file);
	if (probe->schema)
		weir_schema_unref(probe->schema);
	weir_io_free(probe->io);
	weir_list_release(&probe->ranges, account);
	weir_free(account, probe->columns, probe->scan.column_count * sizeof(uint32_t));
	weir_free(account, probe, sizeof(*probe));
}

static int range_add(void *context, const struct weir_range *range)
{
	struct probe *probe = context;
	struct weir_error err;

	return weir_list_push(&probe->ranges, probe->account, &err, *range);
}

static int in_parts(struct probe *probe, struct weir_vector *vector, struct weir_batch **out, struct weir_error *err)
{
	struct weir_gather *gather = NULL;
	uint32_t count = vector->selection.count;
	int code = weir_gather_new(probe->account, probe->schema, &gather, err);

	for (uint32_t at = 0; !code && at < count; at += probe->what.part)
		code = weir_gather_push_part(gather, vector, at,
					     count - at < probe->what.part ? count - at : probe->what.part, err);
	if (!code)
		code = weir_gather_finish(gather, out, err);
	weir_gather_free(gather);
	return code;
}

static int probe_next(void *state, struct weir_batch **out, struct weir_error *err)
{
	struct probe *probe = state;
	const struct weir_format_ops *ops = probe->reader->ops;
	struct weir_vector vector;

	*out = NULL;
	for (;;) {
		if (!probe->is_open) {
			if (probe->range == probe->ranges.count)
				return WEIR_OK;
			if (ops->reader_open(probe->reader, probe->file, &probe->scan,
					     &probe->ranges.items[probe->range++], err))
				return err->code;
			probe->is_open = true;
		}
		if (ops->reader_next(probe->reader, &vector, err))
			return err->code;
		if (vector.row_count == 0) {
			probe->is_open = false;
			continue;
		}
		if (probe->what.vectors > 1 && probe->vector_number++ % probe->what.vectors)
			continue;
		if (probe->what.every > 1) {
			uint32_t count = 0;

			for (uint32_t row = 0; row < vector.row_count; row++)
				if ((uint64_t)(vector.source_row + row) % probe->what.every == probe->what.phase)
					probe->rows[count++] = (uint16_t)row;
			vector.selection = (struct weir_selection){.count = count, .rows = probe->rows};
			if (count == 0)
				continue;
		}
		if (probe->what.mix && probe->vector_number++ % probe->what.mix == 0) {
			for (uint32_t i = 0; i < vector.selection.count; i += 2)
				probe->rows[i / 2] = vector.selection.rows ? vector.selection.rows[i] : (uint16_t)i;
			vector.selection.count = (vector.selection.count + 1) / 2;
			vector.selection.rows = probe->rows;
		}
		if (probe->what.part)
			return in_parts(probe, &vector, out, err);
		return weir_vector_to_batch(&vector, probe->schema, probe->account, out, err);
	}
}

static int scan_begin(struct probe *probe, struct weir_error *err)
{
	uint32_t count = probe->what.columns ? probe->what.column_count : probe->file->schema->field_count;
	struct weir_field *fields;

	probe->columns = weir_alloc(probe->account, count * sizeof(uint32_t), err);
	if (!probe->columns)
		return err->code;
	probe->scan = (struct weir_scan){.columns = probe->columns, .column_count = count};
	fields = weir_alloc(probe->account, count * sizeof(*fields), err);
	if (!fields)
		return err->code;
	for (uint32_t i = 0; i < count; i++) {
		probe->columns[i] = probe->what.columns ? probe->what.columns[i] : i;
		fields[i] = probe->file->schema->fields[probe->columns[i]];
	}
	probe->schema = weir_schema_new(probe->account, fields, count, &probe->file->schema->metadata, err);
	weir_free(probe->account, fields, count * sizeof(*fields));
	return probe->schema ? WEIR_OK : err->code;
}

static int predicate_bind(struct probe *probe, struct weir_error *err)
{
	struct weir_expr *expr;
	int code;

	if (!probe->what.predicate)
		return WEIR_OK;
	if (weir_expr_parse(probe->account, probe->what.predicate, &expr, err))
		return err->code;
	code = weir_program_new(probe->account, expr, probe->schema, &probe->program, err);
	weir_expr_free(expr);
	probe->scan.predicate = probe->program;
	return code;
}

int weir_probe_parquet_read(struct weir_mem *mem, const struct weir_probe_read *what, struct ArrowArrayStream *out,
			    struct weir_format_stats *stats, struct weir_error *err)
{
	struct weir_account *account = weir_mem_root(mem);
	struct probe *probe = weir_alloc_zero(account, sizeof(*probe), err);
	struct weir_file *file = NULL;

	if (!probe)
		return err->code;
	probe->account = account;
	probe->what = *what;
	probe->stats = stats;
	weir_account_init(&probe->lane, account, "lane");
	if (what->grant) {
		atomic_store(&probe->lane.grant, what->grant);
		probe->lane.ask = ask_in_vain;
	}
	if (weir_io_new(account, 1, &probe->io, err) || weir_file_open(account, what->path, &file, err) ||
	    weir_parquet_format.open(account, NULL, file, &probe->file, err) || scan_begin(probe, err) ||
	    predicate_bind(probe, err) || weir_parquet_format.reader_new(&probe->lane, probe->io, &probe->reader, err))
		goto fail;
	if (what->row_end) {
		struct weir_range range = {.begin = what->row_begin, .end = what->row_end};

		if (weir_list_push(&probe->ranges, account, err, range))
			goto fail;
	} else if (weir_parquet_format.ranges(probe->file, &probe->scan, what->bytes_target, range_add, probe, err)) {
		goto fail;
	}
	weir_file_unref(file);
	return weir_cdata_export_stream(
		account, probe->schema,
		(struct weir_batch_source){.next = probe_next, .release = probe_free, .state = probe}, out, err);
fail:
	if (file)
		weir_file_unref(file);
	probe_free(probe);
	return err->code;
}
