/* Rows as a table for people: columns as wide as their values, at most CELL_MAX; numbers to the right; columns that do
 * not fit the terminal are left out and counted. */
#include "base/log.h"
#include "arrow/print.h"
#include "cli/cli_impl.h"

#include <string.h>
#include <utf8proc.h>

enum { CELL_MAX = 40, GAP = 2 };

struct cell {
	size_t begin, size; /* in the text of all cells */
	uint32_t width;     /* in columns of the terminal */
};

/* The terminal's columns that valid UTF-8 takes; *size is cut so that at most `max` are taken. */
static uint32_t width_of(const char *text, size_t *size, uint32_t max)
{
	uint32_t width = 0;
	size_t at = 0;

	while (at < *size) {
		utf8proc_int32_t character;
		utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text + at,
						      (utf8proc_ssize_t)(*size - at), &character);
		int wide = n > 0 ? utf8proc_charwidth(character) : 1;

		if (width + (uint32_t)wide > max) {
			*size = at;
			break;
		}
		width += (uint32_t)wide;
		at += n > 0 ? (size_t)n : 1;
	}
	return width;
}

static int cell_end(struct weir_text *cells, struct cell *cell, struct weir_error *err)
{
	size_t size = cells->size - cell->begin, whole = size;

	cell->size = size;
	cell->width = width_of(cells->data + cell->begin, &whole, UINT32_MAX);
	if (cell->width <= CELL_MAX)
		return WEIR_OK;
	cell->width = width_of(cells->data + cell->begin, &size, CELL_MAX - 1) + 1;
	cells->size = cell->begin + size;
	cell->size = size + strlen("…");
	return weir_text_puts(cells, "…", err);
}

static bool is_number(const struct weir_type *type)
{
	type = weir_type_values(type);
	return weir_type_is_integer(type) || weir_type_is_float(type) || weir_type_is_decimal(type);
}

static int pad(struct weir_text *out, uint32_t count, struct weir_error *err)
{
	static const char blanks[] = "                                                                ";
	int code = WEIR_OK;

	while (!code && count > 0) {
		uint32_t n = count < sizeof(blanks) - 1 ? count : (uint32_t)sizeof(blanks) - 1;

		code = weir_text_append(out, blanks, n, err);
		count -= n;
	}
	return code;
}

static int put_cell(struct weir_text *out, const char *text, const struct cell *cell, uint32_t width, bool right,
		    bool last, struct weir_error *err)
{
	int code = right ? pad(out, width - cell->width, err) : WEIR_OK;

	if (!code)
		code = weir_text_append(out, text + cell->begin, cell->size, err);
	if (!code && !right && !last)
		code = pad(out, width - cell->width, err);
	return code || last ? code : pad(out, GAP, err);
}

/* Names may hold anything; values come escaped already. What is past the cut is not shown anyway. */
static int put_name(struct weir_text *text, const char *name, struct weir_error *err)
{
	enum { NAME_MAX_BYTES = 8 * CELL_MAX };
	char safe[4 * NAME_MAX_BYTES];
	size_t size = strnlen(name, NAME_MAX_BYTES);

	return weir_text_append(text, safe, weir_log_escape(safe, 0, name, size), err);
}

/* Names, types, then values, row by row. */
static int make_cells(const struct weir_schema *schema, struct weir_batch *const *batches, size_t batch_count,
		      int64_t rows, struct weir_text *text, struct cell *cells, struct weir_error *err)
{
	uint32_t columns = schema->field_count;
	size_t n = 0;
	int64_t left = rows;
	int code = WEIR_OK;

	for (uint32_t c = 0; !code && c < columns; c++) {
		cells[n].begin = text->size;
		code = put_name(text, schema->fields[c].name, err);
		if (!code)
			code = cell_end(text, &cells[n++], err);
	}
	for (uint32_t c = 0; !code && c < columns; c++) {
		char type[64];

		cells[n].begin = text->size;
		code = weir_text_puts(text, weir_type_name(schema->fields[c].type, type, sizeof(type)), err);
		if (!code)
			code = cell_end(text, &cells[n++], err);
	}
	for (size_t b = 0; !code && b < batch_count; b++) {
		for (int64_t row = 0; !code && row < batches[b]->row_count && left > 0; row++, left--) {
			for (uint32_t c = 0; !code && c < columns; c++) {
				cells[n].begin = text->size;
				code = weir_print_value(batches[b]->columns[c], row, WEIR_PRINT_TABLE, text, err);
				if (!code)
					code = cell_end(text, &cells[n++], err);
			}
		}
	}
	return code;
}

int cli_table_print(const struct weir_schema *schema, struct weir_batch *const *batches, size_t batch_count,
		    int64_t rows_max, uint32_t terminal, struct weir_text *out, struct weir_error *err)
{
	uint32_t columns = schema->field_count, shown = 0;
	int64_t rows = 0;
	uint64_t width = 0;
	size_t cell_count;
	struct cell *cells = NULL;
	uint32_t *widths = NULL;
	struct weir_text text;
	bool more;
	int code;

	for (size_t b = 0; b < batch_count; b++)
		rows += batches[b]->row_count;
	more = rows > rows_max;
	rows = more ? rows_max : rows;
	weir_text_init(&text, out->account);
	cell_count = (size_t)(rows + 2) * columns;
	cells = weir_alloc_zero(out->account, cell_count * sizeof(*cells), err);
	widths = weir_alloc_zero(out->account, columns * sizeof(*widths), err);
	code = cells && widths ? make_cells(schema, batches, batch_count, rows, &text, cells, err) : err->code;
	if (code)
		goto out;
	for (size_t i = 0; i < cell_count; i++) {
		if (cells[i].width > widths[i % columns])
			widths[i % columns] = cells[i].width;
	}
	for (; shown < columns && (shown == 0 || width + GAP + widths[shown] <= terminal); shown++)
		width += widths[shown] + (shown ? GAP : 0);
	for (int64_t line = 0; !code && line < rows + 2; line++) {
		for (uint32_t c = 0; !code && c < shown; c++)
			code = put_cell(out, text.data, &cells[(size_t)line * columns + c], widths[c],
					is_number(schema->fields[c].type), c + 1 == shown, err);
		if (!code)
			code = weir_text_puts(out, "\n", err);
	}
	if (!code && shown < columns)
		code = weir_text_printf(out, err, "… and %u more column%s\n", columns - shown,
					columns - shown == 1 ? "" : "s");
	if (!code && more)
		code = weir_text_puts(out, "… and more rows\n", err);
	else if (!code)
		code = weir_text_printf(out, err, "%lld row%s\n", (long long)rows, rows == 1 ? "" : "s");
out:
	weir_free(out->account, widths, columns * sizeof(*widths));
	weir_free(out->account, cells, cell_count * sizeof(*cells));
	weir_text_release(&text);
	return code;
}
