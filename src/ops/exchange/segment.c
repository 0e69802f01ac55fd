#include "ops/exchange/segment.h"

#include "base/text.h"
#include "arrow/print.h"
#include "expr/scalar.h"

#include <stdio.h>
#include <string.h>

void weir_segmenter_init(struct weir_segmenter *segmenter, struct weir_account *account,
			 const struct weir_key_columns *columns)
{
	segmenter->account = account;
	segmenter->columns = *columns;
	segmenter->last = NULL;
	segmenter->last_size = segmenter->last_capacity = segmenter->count = 0;
	segmenter->has_last = false;
	weir_key_list_init(&segmenter->keys, account, columns->width);
}

void weir_segmenter_reset(struct weir_segmenter *segmenter)
{
	segmenter->has_last = false;
	weir_key_list_clear(&segmenter->keys);
}

void weir_segmenter_release(struct weir_segmenter *segmenter)
{
	if (!segmenter->account)
		return;
	weir_key_list_release(&segmenter->keys);
	weir_free(segmenter->account, segmenter->last, segmenter->last_capacity);
	segmenter->last = NULL;
	segmenter->account = NULL;
}

static int keep_last(struct weir_segmenter *segmenter, const uint8_t *key, uint32_t size, struct weir_error *err)
{
	if (size > segmenter->last_capacity) {
		uint8_t *last = weir_realloc(segmenter->account, segmenter->last, segmenter->last_capacity, size, err);

		if (!last)
			return err->code;
		segmenter->last = last;
		segmenter->last_capacity = size;
	}
	if (size)
		memcpy(segmenter->last, key, size);
	segmenter->last_size = size;
	segmenter->has_last = true;
	return WEIR_OK;
}

int weir_segmenter_push(struct weir_segmenter *segmenter, struct weir_vector *vector, struct weir_error *err)
{
	const uint8_t *before = segmenter->last, *key;
	uint32_t before_size = segmenter->last_size, size, count = vector->selection.count;
	bool has_before = segmenter->has_last;
	int code;

	segmenter->count = 0;
	if (!count)
		return WEIR_OK;
	/* Without keys all rows are one group. */
	if (!segmenter->columns.count) {
		segmenter->starts[0] = 0;
		segmenter->count = !has_before;
		segmenter->has_last = true;
		return WEIR_OK;
	}
	weir_key_list_clear(&segmenter->keys);
	code = weir_key_list_push(&segmenter->keys, &segmenter->columns, vector, err);
	if (code)
		return code;
	for (uint32_t i = 0; i < count; i++) {
		key = weir_key_at(&segmenter->keys, i, &size);
		if (!has_before || weir_key_compare(before, before_size, key, size))
			segmenter->starts[segmenter->count++] = (uint16_t)i;
		before = key;
		before_size = size;
		has_before = true;
	}
	return keep_last(segmenter, before, before_size, err);
}

/* ---- messages ---- */

static int print_value(const struct weir_column *column, uint32_t row, struct weir_text *out, struct weir_error *err)
{
	struct weir_scalar value;
	uint32_t place = row;

	if (!weir_column_valid(column, row))
		return weir_text_puts(out, "null", err);
	if (weir_type_values(column->type)->layout != WEIR_LAYOUT_NESTED) {
		weir_scalar_load(column, row, &value);
		return weir_scalar_print(&value, out, err);
	}
	if (column->form == WEIR_DICTIONARY) {
		place = ((const uint32_t *)column->values)[row];
		return weir_print_value(column->dictionary->nested, place, WEIR_PRINT_TABLE, out, err);
	}
	place = column->form == WEIR_CONSTANT ? 0 : row;
	return weir_print_value(column->nested, column->nested_offset + place, WEIR_PRINT_TABLE, out, err);
}

/* At a whole character. */
static void cut_text(const char *from, size_t from_size, char *text, size_t size)
{
	static const char dots[] = "…";
	size_t kept = size - sizeof(dots);

	if (from_size < size) {
		snprintf(text, size, "%s", from);
		return;
	}
	while (kept && ((uint8_t)from[kept] & 0xc0) == 0x80)
		kept--;
	memcpy(text, from, kept);
	memcpy(text + kept, dots, sizeof(dots));
}

void weir_segment_text(const struct weir_schema *schema, const struct weir_key_columns *columns,
		       const struct weir_vector *vector, uint32_t selected, char *text, size_t size)
{
	uint32_t row = vector->selection.rows ? vector->selection.rows[selected] : selected;
	struct weir_text out = {0};
	struct weir_error ignored = {0};
	int code = WEIR_OK;

	weir_text_init(&out, schema->account);
	for (uint32_t k = 0; k < columns->count && !code; k++) {
		uint32_t column = columns->keys[k].column;

		code = weir_text_printf(&out, &ignored, "%s%s = ", k ? ", " : "", schema->fields[column].name);
		if (!code)
			code = print_value(&vector->columns[column], row, &out, &ignored);
	}
	if (code || !columns->count)
		snprintf(text, size, "%s", columns->count ? "?" : "all rows");
	else
		cut_text(out.data, out.size, text, size);
	weir_text_release(&out);
}
