/* The CSV reader for tests: options, files and cuts as the test says, results as an Arrow stream.
 *
 * Ranges are read from the last to the first, so that each begins at a guess (which may be forced), and are then
 * confirmed from the first to the last and read again where the guess was wrong: what lanes do, in the worst order. */
#include "weir/weir.h"
#include "base/list.h"
#include "arrow/cdata.h"
#include "format/csv/csv_impl.h"
#include "format/cuts.h"

#include <string.h>

struct weir_probe_csv {
	const char *const *paths;
	uint32_t path_count; /* types come from all, rows from the first */
	const struct weir_setting *settings;
	uint32_t setting_count;
	const uint64_t *cuts; /* offsets in the file at which ranges begin, behind the first one */
	uint32_t cut_count;
	int32_t guess;           /* −1 outside quotes, 1 inside, 0 guessed */
	const uint32_t *columns; /* NULL: all */
	uint32_t column_count;
	uint32_t every, phase; /* one row in so many is selected; 0 and 1: all */
	int64_t grant;         /* of the reader's account; 0: no end */
	/* out */
	uint32_t rereads;
	char misfit_column[128], misfit_type[64];
};

WEIR_API int weir_probe_csv_read(struct weir_mem *mem, struct weir_probe_csv *what, struct ArrowArrayStream *out,
				 struct weir_error *err);

struct batches WEIR_LIST(struct weir_batch *);

struct probe {
	struct weir_account *account, lane;
	struct weir_probe_csv *what;
	struct weir_arena arena;
	struct weir_io *io;
	struct WEIR_LIST(struct weir_file *) files;
	struct weir_read_setup setup;
	struct weir_schema *inferred, *schema;
	struct weir_format_file *file;
	struct weir_format_reader *reader;
	struct weir_scan scan;
	uint32_t *columns;
	struct WEIR_LIST(struct weir_range) ranges;
	struct batches *read; /* by range */
	uint64_t *starts;
	struct weir_error *failures;
	uint16_t rows[WEIR_VECTOR_ROWS];
	size_t range, batch;
};

static int ask_in_vain(void *asked, struct weir_account *account, int64_t more, struct weir_error *err)
{
	(void)asked;
	return weir_error_set(err, WEIR_E_LIMIT, "%lld bytes more than the %lld granted", (long long)more,
			      (long long)atomic_load(&account->grant));
}

static void misfit(void *context, const char *column, const struct weir_type *wider)
{
	struct probe *probe = context;

	strncpy(probe->what->misfit_column, column, sizeof(probe->what->misfit_column) - 1);
	weir_type_name(wider, probe->what->misfit_type, sizeof(probe->what->misfit_type));
}

static void range_forget(struct probe *probe, size_t range)
{
	for (size_t i = 0; i < probe->read[range].count; i++)
		weir_batch_unref(probe->read[range].items[i]);
	probe->read[range].count = 0;
}

static void probe_free(void *state)
{
	struct probe *probe = state;
	struct weir_account *account = probe->account;

	if (probe->reader)
		csv_reader_free(probe->reader);
	for (size_t i = 0; probe->read && i < probe->ranges.count; i++) {
		range_forget(probe, i);
		weir_list_release(&probe->read[i], account);
	}
	weir_free(account, probe->read, probe->ranges.count * sizeof(*probe->read));
	weir_free(account, probe->starts, probe->ranges.count * sizeof(*probe->starts));
	weir_free(account, probe->failures, probe->ranges.count * sizeof(*probe->failures));
	weir_account_release(&probe->lane);
	weir_format_file_unref(probe->file);
	if (probe->schema)
		weir_schema_unref(probe->schema);
	if (probe->inferred)
		weir_schema_unref(probe->inferred);
	for (size_t i = 0; i < probe->files.count; i++)
		weir_file_unref(probe->files.items[i]);
	weir_list_release(&probe->files, account);
	weir_io_free(probe->io);
	weir_list_release(&probe->ranges, account);
	weir_free(account, probe->columns, probe->scan.column_count * sizeof(uint32_t));
	weir_arena_release(&probe->arena);
	weir_free(account, probe, sizeof(*probe));
}

static int range_read(struct probe *probe, size_t number, struct weir_error *err)
{
	struct weir_vector vector;

	range_forget(probe, number);
	if (csv_reader_open(probe->reader, probe->file, &probe->scan, &probe->ranges.items[number], err))
		return err->code;
	probe->starts[number] = csv_reader_start(probe->reader);
	for (;;) {
		struct weir_batch *batch = NULL;

		if (csv_reader_next(probe->reader, &vector, err))
			return err->code;
		if (vector.row_count == 0)
			return WEIR_OK;
		if (probe->what->every > 1) {
			uint32_t count = 0;

			for (uint32_t row = 0; row < vector.row_count; row++)
				if ((uint64_t)(vector.source_row + row) % probe->what->every == probe->what->phase)
					probe->rows[count++] = (uint16_t)row;
			vector.selection = (struct weir_selection){.count = count, .rows = probe->rows};
			if (count == 0)
				continue;
		}
		if (weir_vector_to_batch(&vector, probe->schema, probe->account, &batch, err) ||
		    weir_list_push(&probe->read[number], probe->account, err, batch))
			return err->code;
	}
}

static int read_all(struct probe *probe, struct weir_error *err)
{
	size_t count = probe->ranges.count;

	for (size_t i = count; i-- > 0;)
		if (range_read(probe, i, &probe->failures[i]) == WEIR_OK)
			probe->failures[i].code = WEIR_OK;
	for (size_t i = 0; i < count; i++) {
		if (probe->file->cuts && !weir_cuts_confirm(probe->file->cuts, (uint32_t)i, probe->starts[i])) {
			probe->what->rereads++;
			if (range_read(probe, i, &probe->failures[i]) == WEIR_OK)
				probe->failures[i].code = WEIR_OK;
		}
		if (probe->failures[i].code) {
			*err = probe->failures[i];
			if (err->line_in_range) {
				err->line += (int64_t)weir_cuts_line(probe->file->cuts, (uint32_t)i) - 1;
				err->line_in_range = 0;
			}
			return err->code;
		}
	}
	return WEIR_OK;
}

static int probe_next(void *state, struct weir_batch **out, struct weir_error *err)
{
	struct probe *probe = state;

	(void)err;
	*out = NULL;
	while (probe->range < probe->ranges.count && probe->batch == probe->read[probe->range].count) {
		probe->range++;
		probe->batch = 0;
	}
	if (probe->range < probe->ranges.count)
		*out = weir_batch_ref(probe->read[probe->range].items[probe->batch++]);
	return WEIR_OK;
}

static int range_add(void *context, const struct weir_range *range)
{
	struct probe *probe = context;
	struct weir_error err;

	return weir_list_push(&probe->ranges, probe->account, &err, *range);
}

static int ranges_make(struct probe *probe, struct weir_error *err)
{
	const struct weir_probe_csv *what = probe->what;
	struct csv_file *file = (struct csv_file *)probe->file;

	if (what->cut_count == 0)
		return csv_file_ranges(probe->file, &probe->scan, 0, range_add, probe, err);
	file->guess_forced = what->guess;
	if (weir_cuts_new(probe->account, &probe->file->cuts, err))
		return err->code;
	for (uint32_t i = 0; i <= what->cut_count; i++) {
		struct weir_range range = {.number = i,
					   .begin = i ? what->cuts[i - 1] : file->data_offset,
					   .end = i < what->cut_count ? what->cuts[i]
								      : weir_file_size(probe->files.items[0])};

		if (weir_list_push(&probe->ranges, probe->account, err, range))
			return err->code;
	}
	return WEIR_OK;
}

static int scan_make(struct probe *probe, struct weir_error *err)
{
	uint32_t count = probe->what->columns ? probe->what->column_count : probe->file->schema->field_count;
	struct weir_field *fields = weir_arena_alloc(&probe->arena, count * sizeof(*fields), err);

	probe->columns = weir_alloc(probe->account, count * sizeof(uint32_t), err);
	if (!probe->columns || !fields)
		return err->code;
	probe->scan = (struct weir_scan){.columns = probe->columns, .column_count = count};
	for (uint32_t i = 0; i < count; i++) {
		probe->columns[i] = probe->what->columns ? probe->what->columns[i] : i;
		fields[i] = probe->file->schema->fields[probe->columns[i]];
	}
	probe->schema = weir_schema_new(probe->account, fields, count, NULL, err);
	return probe->schema ? WEIR_OK : err->code;
}

static int probe_open(struct probe *probe, struct weir_error *err)
{
	struct weir_probe_csv *what = probe->what;

	if (weir_io_new(probe->account, 1, &probe->io, err) ||
	    csv_options_parse(&probe->arena, what->settings, what->setting_count, &probe->setup.options, err))
		return err->code;
	probe->setup.io = probe->io;
	for (uint32_t i = 0; i < what->path_count; i++) {
		struct weir_file *file;

		if (weir_file_open(probe->account, what->paths[i], &file, err) ||
		    weir_list_push(&probe->files, probe->account, err, file))
			return err->code;
	}
	if (csv_infer(probe->account, &probe->setup, probe->files.items, (uint32_t)probe->files.count, &probe->inferred,
		      err))
		return err->code;
	probe->setup.schema = probe->inferred;
	probe->setup.misfit = misfit;
	probe->setup.misfit_context = probe;
	if (csv_file_open(probe->account, &probe->setup, probe->files.items[0], &probe->file, err) ||
	    scan_make(probe, err) || ranges_make(probe, err) ||
	    csv_reader_new(&probe->lane, probe->io, &probe->reader, err))
		return err->code;
	probe->read = weir_alloc_zero(probe->account, probe->ranges.count * sizeof(*probe->read), err);
	probe->starts = weir_alloc_zero(probe->account, probe->ranges.count * sizeof(*probe->starts), err);
	probe->failures = weir_alloc_zero(probe->account, probe->ranges.count * sizeof(*probe->failures), err);
	if (!probe->read || !probe->starts || !probe->failures)
		return err->code;
	return read_all(probe, err);
}

int weir_probe_csv_read(struct weir_mem *mem, struct weir_probe_csv *what, struct ArrowArrayStream *out,
			struct weir_error *err)
{
	struct weir_account *account = weir_mem_root(mem);
	struct probe *probe = weir_alloc_zero(account, sizeof(*probe), err);

	if (!probe)
		return err->code;
	probe->account = account;
	probe->what = what;
	weir_arena_init(&probe->arena, account);
	weir_account_init(&probe->lane, account, "lane");
	if (what->grant) {
		atomic_store(&probe->lane.grant, what->grant);
		probe->lane.ask = ask_in_vain;
	}
	if (probe_open(probe, err)) {
		probe_free(probe);
		return err->code;
	}
	return weir_cdata_export_stream(
		account, probe->schema,
		(struct weir_batch_source){.next = probe_next, .release = probe_free, .state = probe}, out, err);
}
