/* One lane's reader: gathers members into samples, each a row.
 *
 *     new ─▶ (open ─▶ next … until no rows)… ─▶ free
 *
 * Members that a wanted column has are read into the reader's arena, which lives until the next call; the others are
 * passed over. A vector ends after 4,096 samples or a megabyte, always with a whole sample. A range begins at a
 * sample's number: the reader goes to the nearest mark before it and passes over samples.
 *
 * Threads: a reader belongs to one lane; the file is shared and never written to.
 */
#include "format/webdataset/webdataset_impl.h"

#include <string.h>

enum { ROWS_FIRST = 16 }; /* of the first vector when a limit follows */

struct web_column {
	struct weir_view *views; /* WEIR_VECTOR_ROWS */
	uint64_t *validity;
};

struct web_reader {
	struct weir_format_reader base;
	struct weir_account *account;
	struct weir_io *io;
	struct web_file *file; /* a reference */
	struct tar_input input;
	struct weir_range range;
	struct weir_name_scan scan;
	uint64_t *seen;             /* by field of the schema: the sample that had it last */
	uint64_t sample;            /* counted from 1, over all files */
	struct web_column *columns; /* of the scan, as the next */
	struct weir_column *vector_columns;
	struct weir_arena arena;
	struct web_keys keys; /* of files that are not plain */
	struct WEIR_LIST(char) key;
	struct web_member member; /* the next one */
	bool has_member, is_done;
	uint64_t row; /* of the next sample */
	uint64_t bytes;
	uint32_t rows_max;
	struct weir_format_stats stats;
};

static void columns_free(struct web_reader *self)
{
	struct weir_account *account = self->account;
	uint32_t count = self->scan.column_count;

	for (uint32_t i = 0; self->columns && i < count; i++) {
		weir_free(account, self->columns[i].views, WEIR_VECTOR_ROWS * sizeof(struct weir_view));
		weir_free(account, self->columns[i].validity, WEIR_VECTOR_ROWS / 8);
	}
	weir_free(account, self->columns, count * sizeof(*self->columns));
	weir_free(account, self->vector_columns, count * sizeof(*self->vector_columns));
	if (self->scan.schema)
		weir_free(account, self->seen, self->scan.schema->field_count * sizeof(*self->seen));
	self->columns = NULL;
	self->vector_columns = NULL;
	self->seen = NULL;
	weir_name_scan_clear(&self->scan);
}

static int columns_new(struct web_reader *self, struct weir_schema *schema, const struct weir_scan *scan,
		       struct weir_error *err)
{
	struct weir_account *account = self->account;
	uint32_t count = scan->column_count;

	columns_free(self);
	if (weir_name_scan_set(&self->scan, schema, scan, err))
		return err->code;
	self->columns = weir_alloc_zero(account, count * sizeof(*self->columns), err);
	if (self->columns)
		self->vector_columns = weir_alloc_zero(account, count * sizeof(*self->vector_columns), err);
	if (self->vector_columns)
		self->seen = weir_alloc_zero(account, schema->field_count * sizeof(*self->seen), err);
	if (!self->seen)
		return err->code;
	for (uint32_t i = 0; i < count; i++) {
		self->columns[i].views = weir_alloc(account, WEIR_VECTOR_ROWS * sizeof(struct weir_view), err);
		if (self->columns[i].views)
			self->columns[i].validity = weir_alloc(account, WEIR_VECTOR_ROWS / 8, err);
		if (!self->columns[i].validity)
			return err->code;
	}
	return WEIR_OK;
}

static void reader_close(struct web_reader *self)
{
	tar_input_close(&self->input);
	web_keys_release(&self->keys);
	if (self->file)
		weir_format_file_unref(&self->file->base);
	self->file = NULL;
	self->has_member = false;
	self->is_done = true;
}

int web_reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		   struct weir_error *err)
{
	struct web_reader *self = weir_alloc_zero(account, sizeof(*self), err);

	if (!self)
		return err->code;
	self->base.ops = &weir_webdataset_format;
	self->account = account;
	self->io = io;
	self->is_done = true;
	self->keys.account = account;
	tar_input_init(&self->input, account);
	weir_name_scan_init(&self->scan, account);
	weir_arena_init(&self->arena, account);
	*out = &self->base;
	return WEIR_OK;
}

void web_reader_free(struct weir_format_reader *base)
{
	struct web_reader *self = (struct web_reader *)base;

	if (!self)
		return;
	reader_close(self);
	columns_free(self);
	tar_input_release(&self->input);
	weir_list_release(&self->key, self->account);
	weir_arena_release(&self->arena);
	weir_free(self->account, self, sizeof(*self));
}

int web_reader_open(struct weir_format_reader *base, struct weir_format_file *opened, const struct weir_scan *scan,
		    const struct weir_range *range, struct weir_error *err)
{
	struct web_reader *self = (struct web_reader *)base;
	struct web_file *file = (struct web_file *)opened;
	struct web_mark mark = {0};

	weir_format_file_ref(opened);
	reader_close(self);
	self->file = file;
	self->range = *range;
	self->rows_max = scan->vectors_small ? ROWS_FIRST : WEIR_VECTOR_ROWS;
	if (!weir_name_scan_is(&self->scan, opened->schema, scan) && columns_new(self, opened->schema, scan, err)) {
		columns_free(self);
		goto fail;
	}
	for (size_t i = 0; i < file->marks.count && file->marks.items[i].row <= range->begin; i++)
		mark = file->marks.items[i];
	self->row = mark.row;
	if (range->begin >= range->end)
		return WEIR_OK;
	if (tar_input_open(&self->input, self->io, opened->file, mark.offset, &file->options->stream, err) ||
	    web_next(&self->input, &self->member, &self->has_member, err))
		goto fail;
	self->is_done = false;
	return WEIR_OK;
fail:
	weir_error_at_source(err, weir_file_path(opened->file));
	reader_close(self);
	return err->code;
}

/* An ending that none of the members looked at has. */
static int column_new(struct web_reader *self, struct weir_error *err)
{
	const struct weir_read_setup *setup = self->file->setup;
	char *name;

	if (!self->scan.wants_all)
		return WEIR_OK;
	name = weir_arena_strndup(&self->arena, self->member.suffix, self->member.suffix_size, err);
	if (!name)
		return err->code;
	if (setup->misfit)
		setup->misfit(setup->misfit_context, name, weir_type_of(WEIR_BINARY));
	weir_error_set(err, WEIR_E_MISFIT, "the member '%.200s' has an ending that none of the members looked at has",
		       self->member.entry.name);
	return err->code;
}

static int member_take(struct web_reader *self, uint32_t row, bool is_wanted, struct weir_error *err)
{
	uint32_t field = weir_name_index_find(&self->scan.names, self->member.suffix, self->member.suffix_size), slot;
	const uint8_t *bytes;
	uint64_t size;

	if (field == WEIR_NO_NAME)
		return is_wanted ? column_new(self, err) : WEIR_OK;
	/* The key and the file's own name are columns, too. */
	if (self->seen[field] == self->sample || field == 0 || field + 1 == self->scan.schema->field_count)
		return weir_error_set(err, WEIR_E_VALUE, "%.200s: duplicate file name in tar file",
				      self->member.entry.name);
	self->seen[field] = self->sample;
	slot = self->scan.slots[field];
	if (!is_wanted || slot == WEIR_NO_NAME)
		return WEIR_OK;
	if (tar_read(&self->input, &self->arena, &bytes, &size, err))
		return err->code;
	self->columns[slot].views[row] = weir_view_make(bytes, (uint32_t)size);
	self->columns[slot].validity[row >> 6] |= UINT64_C(1) << (row & 63);
	self->bytes += size;
	self->stats.bytes_read += size;
	return WEIR_OK;
}

static bool is_same_key(const struct web_reader *self)
{
	return self->member.key_size == self->key.count &&
	       memcmp(self->member.entry.name, self->key.items, self->key.count) == 0;
}

static int key_set(struct web_reader *self, uint32_t row, bool is_wanted, struct weir_error *err)
{
	uint32_t slot = self->scan.slots[0];
	size_t size = self->member.key_size;
	char *copy;

	if (weir_list_reserve(&self->key, self->account, err, size + 1))
		return err->code;
	memcpy(self->key.items, self->member.entry.name, size);
	self->key.count = size;
	if (!self->file->is_plain && web_keys_add(&self->keys, self->key.items, size, err))
		return err->code;
	if (!is_wanted || slot == WEIR_NO_NAME)
		return WEIR_OK;
	copy = weir_arena_strndup(&self->arena, self->key.items, size, err);
	if (!copy)
		return err->code;
	self->columns[slot].views[row] = weir_view_make(copy, (uint32_t)size);
	self->columns[slot].validity[row >> 6] |= UINT64_C(1) << (row & 63);
	return WEIR_OK;
}

/* The sample that begins with the member at hand, as this row. */
static int sample_take(struct web_reader *self, uint32_t row, bool is_wanted, struct weir_error *err)
{
	uint64_t offset = self->member.entry.offset;
	int code;

	self->sample++;
	code = key_set(self, row, is_wanted, err);
	while (!code && self->has_member && is_same_key(self)) {
		offset = self->member.entry.offset;
		code = member_take(self, row, is_wanted, err);
		if (!code)
			code = web_next(&self->input, &self->member, &self->has_member, err);
	}
	if (code) {
		weir_error_at_source(err, weir_file_path(self->file->base.file));
		weir_error_at_offset(err, offset);
		weir_error_at_row(err, (int64_t)self->row);
	}
	return code;
}

static void vector_make(struct web_reader *self, uint32_t rows, uint64_t first, struct weir_vector *out)
{
	const char *path = weir_file_path(self->file->base.file);

	for (uint32_t i = 0; i < self->scan.column_count; i++) {
		uint32_t field = self->scan.fields[i];
		struct weir_column *column = &self->vector_columns[i];

		*column = (struct weir_column){.type = self->scan.schema->fields[field].type,
					       .form = WEIR_FLAT,
					       .values = self->columns[i].views};
		if (field + 1 == self->scan.schema->field_count) {
			column->form = WEIR_CONSTANT;
			self->columns[i].views[0] = weir_view_make(path, (uint32_t)strlen(path));
		} else if (field) {
			column->validity = self->columns[i].validity;
		}
	}
	*out = (struct weir_vector){
		.row_count = rows,
		.selection = {.count = rows},
		.column_count = self->scan.column_count,
		.columns = self->vector_columns,
		.source = path,
		.source_row = (int64_t)first,
	};
}

int web_reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err)
{
	struct web_reader *self = (struct web_reader *)base;
	uint64_t first = 0;
	uint32_t rows = 0;

	*out = (struct weir_vector){0};
	weir_arena_clear(&self->arena);
	self->bytes = 0;
	for (uint32_t i = 0; i < self->scan.column_count; i++) {
		memset(self->columns[i].validity, 0, WEIR_VECTOR_ROWS / 8);
		memset(self->columns[i].views, 0, self->rows_max * sizeof(struct weir_view));
	}
	while (!self->is_done && rows < self->rows_max && self->bytes < WEIR_VECTOR_BYTES) {
		bool is_wanted = self->row >= self->range.begin;

		if (!self->has_member || self->row >= self->range.end) {
			self->is_done = true;
			break;
		}
		if (is_wanted && rows == 0)
			first = self->row;
		if (sample_take(self, rows, is_wanted, err)) {
			self->is_done = true;
			return err->code;
		}
		self->row++;
		rows += is_wanted;
	}
	if (rows)
		vector_make(self, rows, first, out);
	self->rows_max = self->rows_max < WEIR_VECTOR_ROWS / 4 ? self->rows_max * 4 : WEIR_VECTOR_ROWS;
	return WEIR_OK;
}

void web_reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out)
{
	*out = ((const struct web_reader *)base)->stats;
}
