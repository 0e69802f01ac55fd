/* A CSV file before its rows: header, names, where data begins, and how it is cut into ranges.
 *
 * Names: a header's own, or those given, or f0, f1 …. A second empty name becomes f and its number; a name that was
 * there before gets _1, _2 … until it is new.
 */
#include "base/log.h"
#include "base/utf8.h"
#include "format/csv/csv_impl.h"
#include "format/cuts.h"

#include <string.h>

enum {
	HEAD_BYTES = 16 << 10,
	RANGE_BYTES_MIN = 1 << 20,
};

static const struct csv_options *options_of(const struct weir_read_setup *setup)
{
	return setup->options ? setup->options : &csv_options_default;
}

/* ---- the head ---- */

struct head_scan {
	struct weir_text_input input;
	struct csv_index index;
	size_t ends_size;
	uint32_t lines[2 * CSV_BLOCK];
};

/* A plain file's byte order mark is passed over here, so that places in the stream are places in the file. */
static int data_begin(struct weir_file *file, bool is_plain, uint64_t *begin, struct weir_error *err)
{
	uint8_t first[3];

	*begin = 0;
	if (!is_plain || weir_file_size(file) < sizeof(first))
		return WEIR_OK;
	if (weir_file_read(file, 0, first, sizeof(first), err))
		return err->code;
	if (first[0] == 0xef && first[1] == 0xbb && first[2] == 0xbf)
		*begin = sizeof(first);
	return WEIR_OK;
}

static int more_text(struct head_scan *scan, struct weir_error *err)
{
	size_t unread = scan->input.end - scan->input.begin;

	return weir_text_input_fill(&scan->input, unread * 2 > HEAD_BYTES ? unread * 2 : HEAD_BYTES, err);
}

/* Line ends count whatever quotes there are: these lines are not CSV. */
static int skip_lines(struct head_scan *scan, uint64_t count, uint64_t *line, struct weir_error *err)
{
	struct weir_text_input *input = &scan->input;

	while (count > 0) {
		if (input->end - input->begin < 2 && !input->at_end && more_text(scan, err))
			return err->code;
		if (input->begin == input->end)
			return WEIR_OK;
		for (; count > 0 && input->begin < input->end; input->begin++) {
			uint8_t byte = input->text[input->begin];

			if (byte == '\r' && input->begin + 1 == input->end && !input->at_end)
				break;
			if (byte == '\n' || (byte == '\r' && (input->begin + 1 == input->end ||
							      input->text[input->begin + 1] != '\n'))) {
				count--;
				++*line;
			}
		}
	}
	return WEIR_OK;
}

/* Indexes until a whole line is there, or the text ends: then what is left is a line. */
static int scan_line(struct head_scan *scan, const struct csv_dialect *dialect, struct weir_account *account,
		     struct weir_error *err)
{
	const struct csv_kernels *kernels = csv_kernels_choose();
	struct weir_text_input *input = &scan->input;
	struct csv_index *index = &scan->index;

	for (;;) {
		uint32_t *ends;

		if (input->end > UINT32_MAX - CSV_BLOCK)
			return weir_error_set(err, WEIR_E_LIMIT, "the header is longer than 4 GiB");
		*index = (struct csv_index){.text = input->text,
					    .size = (uint32_t)input->end,
					    .is_last = input->at_end,
					    .at = (uint32_t)input->begin,
					    .ends = index->ends,
					    .end_capacity = index->end_capacity,
					    .lines = scan->lines,
					    .line_capacity = CSV_BLOCK + 1};
		kernels->index(index, dialect);
		if (index->line_count > 0)
			return WEIR_OK;
		if (index->at < index->size && index->end_capacity - index->end_count < CSV_BLOCK) {
			size_t size = weir_alloc_size(scan->ends_size ? scan->ends_size * 4 : 16384);

			ends = weir_alloc(account, size, err);
			if (!ends)
				return err->code;
			weir_free(account, index->ends, scan->ends_size);
			index->ends = ends;
			index->end_capacity = (uint32_t)(size / sizeof(*ends));
			scan->ends_size = size;
			continue;
		}
		if (!input->at_end) {
			if (more_text(scan, err))
				return err->code;
			continue;
		}
		if (input->begin == input->end)
			return WEIR_OK;
		if (index->state == CSV_IN_QUOTES || index->state == CSV_ESCAPED_IN_QUOTES)
			return weir_error_set(err, WEIR_E_DATA, "a quoted field is not closed before the file ends");
		index->lines[index->line_count++] = index->end_count;
		index->ends[index->end_count++] = index->size;
		return WEIR_OK;
	}
}

static bool name_is_taken(const char *const *names, uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* Looking at all names before is quadratic, so a very wide header is looked at only as far as this. */
static int name_make_new(struct csv_head *head, uint32_t i, bool is_given, struct weir_error *err)
{
	const char *name = head->names[i];

	/* One column may go without a name, as the index of a data frame does. */
	if (*name == 0 && (!is_given || name_is_taken(head->names, i, name)))
		name = weir_arena_printf(&head->arena, err, "f%u", i);
	for (uint32_t n = 1; name && name_is_taken(head->names, i, name); n++)
		name = weir_arena_printf(&head->arena, err, "%s_%u", *head->names[i] ? head->names[i] : "f", n);
	head->names[i] = name;
	return name ? WEIR_OK : err->code;
}

/* Files of other formats come into a folder of CSV, and whoever reads it wants to hear of that, not of encodings. */
static int no_name(const void *bytes, size_t size, uint32_t column, struct weir_error *err)
{
	const struct weir_format_ops *other = weir_format_for_bytes(bytes, size);

	if (other)
		return weir_error_set(err, WEIR_E_DATA, "this is a %s file, not one of CSV", other->name);
	return weir_error_set(err, WEIR_E_DATA,
			      "the name of column %u in the header is not UTF-8 text (see --encoding)", column);
}

static int take_names(struct csv_head *head, const struct csv_options *options, const struct csv_dialect *dialect,
		      const struct head_scan *scan, struct weir_error *err)
{
	const struct csv_index *index = &scan->index;
	uint32_t begin = (uint32_t)scan->input.begin;

	head->names = weir_arena_alloc(&head->arena, head->width * sizeof(*head->names), err);
	if (!head->names)
		return err->code;
	for (uint32_t i = 0; i < head->width; i++) {
		char *name = NULL;
		size_t size = 0;

		if (options->names) {
			head->names[i] = options->names[i];
		} else if (!options->has_header || head->is_empty) {
			head->names[i] = "";
		} else {
			uint32_t end = index->ends[i];

			if (i + 1 == head->width && end > begin && index->text[end - 1] == '\r' &&
			    index->text[end] == '\n')
				end--;
			name = weir_arena_alloc(&head->arena, end - begin + 1, err);
			if (!name)
				return err->code;
			size = csv_unquote(dialect, (const char *)index->text + begin, end - begin, name);
			name[size] = 0;
			if (!weir_utf8_valid(name, size) || strlen(name) != size)
				return no_name(index->text + scan->input.begin, end - (uint32_t)scan->input.begin,
					       i + 1, err);
			head->names[i] = name;
			begin = index->ends[i] + 1;
		}
		if (name_make_new(head, i, options->names || (options->has_header && !head->is_empty), err))
			return err->code;
	}
	return WEIR_OK;
}

static int read_head(struct head_scan *scan, struct weir_account *account, struct weir_io *io, struct weir_file *file,
		     const struct csv_options *options, struct csv_head *head, struct weir_error *err)
{
	struct csv_dialect dialect = csv_dialect_for(options, weir_file_path(file));
	struct weir_text_input *input = &scan->input;
	struct csv_index *index = &scan->index;
	uint64_t begin, line = 1;
	uint32_t fields = 0;

	head->is_plain = weir_stream_is_plain(file, &options->stream);
	if (data_begin(file, head->is_plain, &begin, err) ||
	    weir_text_input_open(input, io, file, begin, &options->stream, err) || more_text(scan, err) ||
	    skip_lines(scan, options->skip_lines, &line, err))
		return err->code;
	for (;;) {
		uint32_t end;
		bool is_row;

		if (scan_line(scan, &dialect, account, err))
			return err->code;
		head->is_empty = index->line_count == 0;
		fields = head->is_empty ? 0 : index->lines[0] + 1;
		if (head->is_empty)
			break;
		end = index->ends[index->lines[0]];
		is_row = !(fields == 1 &&
			   (end == input->begin || (end == input->begin + 1 && index->text[end - 1] == '\r')));
		if (dialect.has_comment && end > input->begin && index->text[input->begin] == dialect.comment)
			is_row = false;
		if (is_row)
			break;
		line += weir_text_line_ends(index->text + input->begin, end < index->size ? end + 1 - input->begin : 0);
		input->begin = end < index->size ? end + 1 : end;
	}
	head->width = options->names ? options->name_count : fields;
	if (options->names && fields && fields != options->name_count)
		return weir_error_set(err, WEIR_E_DATA, "--names has %u names, but the first line has %u field%s",
				      options->name_count, fields, fields == 1 ? "" : "s");
	if (take_names(head, options, &dialect, scan, err))
		return err->code;
	if (options->has_header && !head->is_empty) {
		uint32_t end = index->ends[index->lines[0]];

		line += weir_text_line_ends(index->text + input->begin,
					    (end < index->size ? end + 1 : end) - input->begin);
		input->begin = end < index->size ? end + 1 : end;
	}
	head->data_offset = weir_text_input_offset(input);
	head->data_line = line;
	return WEIR_OK;
}

int csv_head_read(struct weir_account *account, struct weir_io *io, struct weir_file *file,
		  const struct csv_options *options, struct csv_head *head, struct weir_error *err)
{
	struct head_scan scan = {0};
	int code;

	*head = (struct csv_head){0};
	weir_arena_init(&head->arena, account);
	weir_text_input_init(&scan.input, account);
	code = read_head(&scan, account, io, file, options, head, err);
	weir_free(account, scan.index.ends, scan.ends_size);
	weir_text_input_release(&scan.input);
	weir_error_at_source(err, weir_file_path(file));
	return code;
}

/* ---- the file ---- */

static int make_schema(struct csv_file *self, const struct csv_head *head, struct weir_error *err)
{
	const struct weir_schema *known = self->setup->schema;
	struct weir_field *fields = weir_alloc_zero(self->account, head->width * sizeof(*fields), err);

	if (!fields)
		return err->code;
	for (uint32_t i = 0; i < head->width; i++) {
		uint32_t at = i;

		fields[i] = (struct weir_field){
			.name = head->names[i], .type = weir_type_of(WEIR_STRING), .nullable = true};
		if (!known)
			continue;
		/* Nearly always the columns are in the schema's order. */
		if (at >= known->field_count || strcmp(known->fields[at].name, head->names[i]) != 0)
			for (at = 0; at < known->field_count; at++)
				if (strcmp(known->fields[at].name, head->names[i]) == 0)
					break;
		if (at < known->field_count)
			fields[i].type = known->fields[at].type;
	}
	self->base.schema = weir_schema_new(self->account, fields, head->width, NULL, err);
	weir_free(self->account, fields, head->width * sizeof(*fields));
	return self->base.schema ? WEIR_OK : err->code;
}

int csv_file_open(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *file,
		  struct weir_format_file **out, struct weir_error *err)
{
	struct csv_file *self = weir_alloc_zero(account, sizeof(*self), err);
	struct csv_head head;
	int code;

	if (!self)
		return err->code;
	self->account = account;
	self->setup = setup;
	self->options = options_of(setup);
	self->dialect = csv_dialect_for(self->options, weir_file_path(file));
	self->base.ops = &weir_csv_format;
	atomic_init(&self->base.refs, 1);
	self->base.file = weir_file_ref(file);
	self->base.row_count = -1;
	self->base.bytes_decoded_est = weir_file_size(file);
	code = csv_head_read(account, setup->io, file, self->options, &head, err);
	if (!code) {
		self->is_plain = head.is_plain;
		self->width = head.width;
		self->data_offset = head.data_offset;
		self->data_line = head.data_line;
		code = make_schema(self, &head, err);
	}
	weir_arena_release(&head.arena);
	if (code) {
		csv_file_close(&self->base);
		return code;
	}
	*out = &self->base;
	return WEIR_OK;
}

void csv_file_close(struct weir_format_file *base)
{
	struct csv_file *self = (struct csv_file *)base;
	uint64_t skipped = atomic_load_explicit(&self->skipped, memory_order_relaxed);

	/* Once, however many files there are; nobody is told while types are inferred. */
	if (skipped && self->setup->schema && self->options->skipping_told &&
	    !atomic_exchange_explicit(self->options->skipping_told, true, memory_order_relaxed))
		weir_log(WEIR_LOG_WARN,
			 "%s: %llu row%s without %u fields left out, as asked (--ragged skip); other files are not "
			 "reported",
			 weir_file_path(base->file), (unsigned long long)skipped, skipped == 1 ? "" : "s", self->width);
	weir_cuts_free(base->cuts);
	weir_schema_unref(base->schema);
	weir_file_unref(base->file);
	weir_free(self->account, self, sizeof(*self));
}

/* Text is what takes time, whatever columns are wanted of it: a range is as many bytes of it as were asked for. */
int csv_file_ranges(struct weir_format_file *base, const struct weir_scan *scan, uint64_t bytes_target,
		    int (*visit)(void *context, const struct weir_range *range), void *context, struct weir_error *err)
{
	struct csv_file *self = (struct csv_file *)base;
	uint64_t size = weir_file_size(base->file);

	(void)scan;
	if (self->width == 0)
		return WEIR_OK;
	if (!self->is_plain)
		return visit(
			context,
			&(struct weir_range){.begin = self->data_offset, .end = UINT64_MAX, .bytes_decoded_est = size});
	/* One range begins where it must; only more than one need to agree. */
	if (bytes_target && size > RANGE_BYTES_MIN && !base->cuts && weir_cuts_new(self->account, &base->cuts, err))
		return err->code;
	return weir_byte_ranges(self->data_offset, size, bytes_target, RANGE_BYTES_MIN, 1, visit, context);
}
