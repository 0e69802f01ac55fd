/* Entry points for tests that hold what weir reads of JSON against other libraries, and its ranges against each
 * other. */
#include "weir/weir.h"
#include "base/list.h"
#include "arrow/cdata.h"
#include "format/cuts.h"
#include "format/json/json_impl.h"

#include <string.h>

/* What to read. Plain data, filled by the test. */
struct weir_probe_json {
	const char *path;
	const char *const *settings; /* name, value, name, value, …; NULL at the end */
	const uint32_t *columns;     /* NULL: all */
	uint32_t column_count;
	uint32_t every;        /* one row in so many is selected; 0 and 1: all */
	uint64_t bytes_target; /* of a range; 0: not cut */
	uint64_t cut;          /* into two ranges, here; 0: not */
	/* Ranges are read from the last to the first, so that all begin at guesses; then they are confirmed in order,
	 * and those that began elsewhere are read again. */
	uint32_t backwards;
	uint32_t portable; /* kernels */
	int64_t grant;     /* of the reader's account; 0: no end */
	/* Out. */
	uint32_t range_count, wrong_count;
	char misfit_column[64], misfit_type[256];
};

WEIR_API int weir_probe_json_read(struct weir_mem *mem, struct weir_probe_json *what, struct ArrowArrayStream *out,
				  struct weir_error *err);
/* Entries of a text by the portable kernel and by this machine's: 0 when both agree. */
WEIR_API int weir_probe_json_index(const uint8_t *text, size_t size, int lines);

struct batch_list WEIR_LIST(struct weir_batch *);

struct probe {
	struct weir_account *account;
	struct weir_account lane;
	struct weir_arena arena;
	struct weir_probe_json *what;
	struct weir_io *io;
	struct weir_read_setup setup;
	struct weir_schema *inferred, *schema;
	struct weir_format_file *file;
	struct weir_format_reader *reader;
	struct weir_scan scan;
	uint32_t *columns;
	struct WEIR_LIST(struct weir_range) ranges;
	struct batch_list *batches; /* of each range */
	size_t next_range, next_batch;
};

static void misfit_note(void *context, const char *column, const struct weir_type *wider)
{
	struct weir_probe_json *what = context;

	strncpy(what->misfit_column, column, sizeof(what->misfit_column) - 1);
	weir_type_name(wider, what->misfit_type, sizeof(what->misfit_type));
}

static int ask_in_vain(void *asked, struct weir_account *account, int64_t more, struct weir_error *err)
{
	(void)asked;
	return weir_error_set(err, WEIR_E_LIMIT, "%lld bytes more than the %lld granted", (long long)more,
			      (long long)atomic_load(&account->grant));
}

static void batches_clear(struct probe *probe, struct batch_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		weir_batch_unref(list->items[i]);
	weir_list_release(list, probe->account);
}

static void probe_free(void *state)
{
	struct probe *probe = state;
	struct weir_account *account = probe->account;

	for (size_t i = 0; probe->batches && i < probe->ranges.count; i++)
		batches_clear(probe, &probe->batches[i]);
	weir_free(account, probe->batches, probe->ranges.count * sizeof(*probe->batches));
	weir_list_release(&probe->ranges, account);
	if (probe->reader)
		weir_json_format.reader_free(probe->reader);
	weir_format_file_unref(probe->file);
	weir_schema_unref(probe->inferred);
	weir_schema_unref(probe->schema);
	weir_io_free(probe->io);
	weir_free(account, probe->columns, probe->scan.column_count * sizeof(uint32_t));
	weir_arena_release(&probe->arena);
	weir_account_release(&probe->lane);
	weir_free(account, probe, sizeof(*probe));
}

static int range_add(void *context, const struct weir_range *range)
{
	struct probe *probe = context;
	struct weir_error err;

	return weir_list_push(&probe->ranges, probe->account, &err, *range);
}

static int range_read(struct probe *probe, size_t number, uint64_t *start, struct weir_error *err)
{
	const struct weir_format_ops *ops = &weir_json_format;
	struct batch_list *list = &probe->batches[number];
	uint16_t rows[WEIR_VECTOR_ROWS];
	struct weir_vector vector;

	batches_clear(probe, list);
	if (ops->reader_open(probe->reader, probe->file, &probe->scan, &probe->ranges.items[number], err))
		return err->code;
	*start = ops->reader_start(probe->reader);
	for (;;) {
		struct weir_batch *batch;

		if (ops->reader_next(probe->reader, &vector, err))
			return err->code;
		if (vector.row_count == 0)
			return WEIR_OK;
		if (probe->what->every > 1) {
			uint32_t count = 0;

			for (uint32_t row = 0; row < vector.row_count; row++)
				if ((uint64_t)(vector.source_row + row) % probe->what->every == 0)
					rows[count++] = (uint16_t)row;
			vector.selection = (struct weir_selection){.count = count, .rows = rows};
			if (count == 0)
				continue;
		}
		if (weir_vector_to_batch(&vector, probe->schema, probe->account, &batch, err))
			return err->code;
		if (weir_list_push(list, probe->account, err, batch)) {
			weir_batch_unref(batch);
			return err->code;
		}
	}
}

static int ranges_read(struct probe *probe, struct weir_error *err)
{
	size_t count = probe->ranges.count;
	uint64_t start = 0;

	if (!probe->what->backwards) {
		for (size_t i = 0; i < count; i++)
			if (range_read(probe, i, &start, err))
				return err->code;
		return WEIR_OK;
	}
	for (size_t k = 0; k < count; k++) {
		/* What a wrong guess leads to may be anything. */
		struct weir_error first = {0};
		int code = range_read(probe, count - 1 - k, &start, &first);

		if (code && (k + 1 == count || !probe->file->cuts)) {
			*err = first;
			return code;
		}
		/* The one before has not been read: nothing is certain but the first. */
		probe->ranges.items[count - 1 - k].bytes_decoded_est = code ? UINT64_MAX : start;
	}
	for (size_t i = 1; i < count && probe->file->cuts; i++) {
		uint64_t said = probe->ranges.items[i].bytes_decoded_est;

		if (said != UINT64_MAX && weir_cuts_confirm(probe->file->cuts, (uint32_t)i, said))
			continue;
		probe->what->wrong_count++;
		if (range_read(probe, i, &start, err))
			return err->code;
		if (!weir_cuts_confirm(probe->file->cuts, (uint32_t)i, start))
			return weir_error_set(err, WEIR_E_INTERNAL, "range %zu, read again, begins at a guess", i);
	}
	return WEIR_OK;
}

static int probe_next(void *state, struct weir_batch **out, struct weir_error *err)
{
	struct probe *probe = state;

	(void)err;
	*out = NULL;
	while (probe->next_range < probe->ranges.count) {
		struct batch_list *list = &probe->batches[probe->next_range];

		if (probe->next_batch < list->count) {
			*out = weir_batch_ref(list->items[probe->next_batch++]);
			return WEIR_OK;
		}
		probe->next_range++;
		probe->next_batch = 0;
	}
	return WEIR_OK;
}

static int scan_begin(struct probe *probe, struct weir_error *err)
{
	uint32_t count = probe->what->columns ? probe->what->column_count : probe->file->schema->field_count;
	struct weir_field *fields;

	probe->columns = weir_alloc(probe->account, count * sizeof(uint32_t), err);
	if (!probe->columns)
		return err->code;
	probe->scan = (struct weir_scan){.columns = probe->columns, .column_count = count};
	fields = weir_arena_alloc(&probe->arena, count * sizeof(*fields) + 1, err);
	if (!fields)
		return err->code;
	for (uint32_t i = 0; i < count; i++) {
		probe->columns[i] = probe->what->columns ? probe->what->columns[i] : i;
		fields[i] = probe->file->schema->fields[probe->columns[i]];
	}
	probe->schema = weir_schema_new(probe->account, fields, count, NULL, err);
	return probe->schema ? WEIR_OK : err->code;
}

static int settings_parse(struct probe *probe, struct weir_error *err)
{
	struct weir_setting settings[16];
	uint32_t count = 0;

	for (const char *const *word = probe->what->settings; word && word[0] && count < 16; word += 2)
		settings[count++] = (struct weir_setting){word[0], word[1]};
	return json_options_parse(&probe->arena, settings, count, &probe->setup.options, err);
}

static int ranges_make(struct probe *probe, struct weir_error *err)
{
	uint64_t size = weir_file_size(probe->file->file);
	int code;

	if (probe->what->cut) {
		struct weir_range first = {.begin = 0, .end = probe->what->cut};
		struct weir_range second = {.number = 1, .begin = probe->what->cut, .end = size};

		code = weir_list_push(&probe->ranges, probe->account, err, first);
		if (!code)
			code = weir_list_push(&probe->ranges, probe->account, err, second);
	} else {
		code = weir_json_format.ranges(probe->file, &probe->scan, probe->what->bytes_target, range_add, probe,
					       err);
	}
	if (code)
		return code;
	probe->what->range_count = (uint32_t)probe->ranges.count;
	probe->batches = weir_alloc_zero(probe->account, probe->ranges.count * sizeof(*probe->batches), err);
	return probe->batches ? WEIR_OK : err->code;
}

int weir_probe_json_read(struct weir_mem *mem, struct weir_probe_json *what, struct ArrowArrayStream *out,
			 struct weir_error *err)
{
	struct weir_account *account = weir_mem_root(mem);
	struct probe *probe = weir_alloc_zero(account, sizeof(*probe), err);
	struct weir_file *file = NULL;
	int code;

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
	code = weir_io_new(account, 1, &probe->io, err);
	probe->setup = (struct weir_read_setup){.io = probe->io, .misfit = misfit_note, .misfit_context = what};
	if (!code)
		code = settings_parse(probe, err);
	if (!code)
		code = weir_file_open(account, what->path, &file, err);
	if (!code)
		code = weir_json_format.infer(account, &probe->setup, &file, 1, &probe->inferred, err);
	probe->setup.schema = probe->inferred;
	if (!code)
		code = weir_json_format.open(account, &probe->setup, file, &probe->file, err);
	weir_file_unref(file);
	if (!code)
		code = scan_begin(probe, err);
	if (!code)
		code = ranges_make(probe, err);
	if (!code)
		code = weir_json_format.reader_new(&probe->lane, probe->io, &probe->reader, err);
	if (!code && what->portable)
		((struct json_reader *)probe->reader)->cursor.window.kernels = json_kernels_portable();
	if (!code)
		code = ranges_read(probe, err);
	if (code) {
		probe_free(probe);
		return code;
	}
	return weir_cdata_export_stream(
		account, probe->schema,
		(struct weir_batch_source){.next = probe_next, .release = probe_free, .state = probe}, out, err);
}

int weir_probe_json_index(const uint8_t *text, size_t size, int lines)
{
	struct weir_mem *mem = NULL;
	struct weir_error err = {0};
	struct weir_account *account;
	const struct json_kernels *kernels[2] = {json_kernels_portable(), json_kernels_choose()};
	uint32_t *entries[2];
	struct json_scan scans[2] = {0};
	size_t counts[2];
	uint8_t *copy;
	int differs;

	if (weir_mem_new(0, &mem, &err))
		return -1;
	account = weir_mem_root(mem);
	copy = weir_alloc(account, size + 2 * JSON_BLOCK, &err);
	memcpy(copy, text, size);
	memset(copy + size, ' ', 2 * JSON_BLOCK);
	for (int i = 0; i < 2; i++) {
		entries[i] = weir_alloc(account, (size + JSON_BLOCK + JSON_ENTRY_SLACK) * sizeof(uint32_t), &err);
		counts[i] = kernels[i]->index(copy, 0, (uint32_t)size, lines, &scans[i], entries[i]);
	}
	differs = counts[0] != counts[1] || memcmp(entries[0], entries[1], counts[0] * sizeof(uint32_t)) != 0 ||
		  memcmp(&scans[0].newlines, &scans[1].newlines, sizeof(scans[0].newlines)) != 0 ||
		  !scans[0].escapes != !scans[1].escapes || !scans[0].high != !scans[1].high ||
		  scans[0].in_string != scans[1].in_string;
	for (int i = 0; i < 2; i++)
		weir_free(account, entries[i], (size + JSON_BLOCK + JSON_ENTRY_SLACK) * sizeof(uint32_t));
	weir_free(account, copy, size + 2 * JSON_BLOCK);
	weir_mem_free(mem);
	return differs;
}
