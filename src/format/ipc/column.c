/* One column of the open batch: rows of it are brought into memory a window at a time, vectors are given out of the
 * window.
 *
 *     batch    ├────────────────────────────────────────────────────────┤
 *     window            ├───────────────────────┤      as many rows as WINDOW bytes hold
 *     vectors           ├────┤├────┤├────┤ …
 *
 * A column that nobody asks for has no window. Plain values and views are used where they lie; other texts get a view
 * each, dictionaries are turned into a vector's once, when they change, and their codes widened.
 */
#include "arrow/bitmap.h"
#include "format/ipc/read_impl.h"

#include <stddef.h>
#include <string.h>

enum {
	WEIGHT_MAX = 4 << 20,  /* bytes of one column in a window; in a vector, unless one row is larger */
	VALUES_MAX = 64 << 10, /* larger dictionaries are given out as values */
	WINDOW_ROWS_MAX = 1 << 20,
};

static void window_drop(struct ipc_column *column)
{
	weir_array_unref(column->window);
	column->window = NULL;
	weir_ipc_texts_release(&column->texts);
	column->window_begin = column->window_end = 0;
}

void ipc_column_batch(struct ipc_column *column)
{
	window_drop(column);
	column->weighed_end = 0;
}

void ipc_column_release(struct ipc_column *column)
{
	window_drop(column);
	weir_array_unref(column->values_array);
	column->values_array = NULL;
	weir_arena_release(&column->values_arena);
}

int ipc_column_weigh(struct ipc_column *column, int64_t begin, uint32_t *rows, struct weir_error *err)
{
	struct ipc_reader *reader = column->reader;
	struct weir_ipc_body body = ipc_source_body(&reader->source);
	int64_t count = WEIR_VECTOR_ROWS;
	uint64_t bytes = 0;

	while (begin >= column->weighed_end) {
		int64_t end = begin + count < reader->batch_rows ? begin + count : reader->batch_rows;

		if (weir_ipc_column_weigh(reader->layout, column->number, begin, end, &body, &bytes, err))
			return err->code;
		if (bytes <= WEIGHT_MAX || end - begin == 1)
			column->weighed_end = end;
		count = (end - begin + 1) / 2;
	}
	if (column->weighed_end - begin < *rows)
		*rows = (uint32_t)(column->weighed_end - begin);
	return WEIR_OK;
}

/* Rows from the vector's first on, at least all of the vector's. */
static int window_read(struct ipc_column *column, struct weir_error *err)
{
	struct ipc_reader *reader = column->reader;
	struct weir_ipc_body body = ipc_source_body(&reader->source);
	int64_t begin = reader->vector_begin, end = begin + reader->vector_rows, last = reader->batch_rows;
	double rows = (double)reader->window_bytes / (column->row_bytes > 0.125 ? column->row_bytes : 0.125);

	/* Not past the range: other lanes read on there. */
	if (reader->row_end - reader->batch_begin < last)
		last = reader->row_end - reader->batch_begin;
	if (column->is_heavy && column->weighed_end < last)
		last = column->weighed_end;
	rows = rows < WINDOW_ROWS_MAX ? rows : WINDOW_ROWS_MAX;
	if (begin + (int64_t)rows > end)
		end = begin + ((int64_t)rows & ~(int64_t)63);
	if (end < begin + reader->vector_rows || end > last)
		end = last > begin + reader->vector_rows ? last : begin + reader->vector_rows;
	window_drop(column);
	if (weir_ipc_column_is_views(reader->layout, column->number)
		    ? weir_ipc_column_texts(reader->layout, column->number, begin, end, &body, &column->texts, err)
		    : weir_ipc_column_rows(reader->layout, column->number, begin, end, &body, reader->dictionaries,
					   &column->window, err)) {
		weir_error_at_source(err, weir_file_path(reader->file->base.file));
		weir_error_at_offset(err, reader->source.offset);
		/* Rows are counted in the window by whoever found the fault; of children they stay theirs. */
		if (err->has_row && !weir_type_is_nested(weir_type_values(column->type)))
			err->row += begin + reader->batch_begin;
		return err->code;
	}
	column->window_begin = begin;
	column->window_end = end;
	return WEIR_OK;
}

/* The values as vectors have them, made again when others have come. */
static int values_make(struct ipc_column *column, const struct weir_array *values, struct weir_error *err)
{
	struct weir_column flat = {.type = values->type};

	if (column->values_array == values)
		return WEIR_OK;
	if (values->length > (int64_t)UINT32_MAX)
		return weir_error_set(err, WEIR_E_LIMIT, "a dictionary of %lld values", (long long)values->length);
	weir_array_unref(column->values_array);
	column->values_array = NULL;
	weir_arena_clear(&column->values_arena);
	if (weir_column_from_array(values, 0, (uint32_t)values->length, &column->values_arena, &flat, err))
		return err->code;
	column->values = (struct weir_dictionary){.id = weir_dictionary_id_new(),
						  .count = (uint32_t)values->length,
						  .values = flat.values,
						  .nested = flat.nested};
	column->values_array = weir_array_ref(values);
	return WEIR_OK;
}

static void codes_widen(const struct weir_array *array, int64_t from, uint32_t count, uint32_t *out)
{
	const void *codes = array->buffers[1].data;

	switch (array->type->dictionary_index->byte_width) {
	case 1:
		for (uint32_t i = 0; i < count; i++)
			out[i] = ((const uint8_t *)codes)[from + i];
		break;
	case 2:
		for (uint32_t i = 0; i < count; i++)
			out[i] = ((const uint16_t *)codes)[from + i];
		break;
	case 4:
		memcpy(out, (const uint32_t *)codes + from, count * sizeof(*out));
		break;
	default:
		for (uint32_t i = 0; i < count; i++)
			out[i] = (uint32_t)((const uint64_t *)codes)[from + i];
		break;
	}
}

/* Codes of null rows may be anything in Arrow but lie inside the dictionary in vectors; and a value that is null makes
 * its rows null. */
static void codes_settle(const struct weir_array *values, uint32_t count, uint32_t *codes, uint64_t *validity)
{
	bool has_nulls = weir_array_null_count(values) > 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t bit = (uint64_t)1 << (i & 63);

		if (!(validity[i >> 6] & bit))
			codes[i] = 0;
		else if (has_nulls && !weir_array_is_valid(values, codes[i]))
			validity[i >> 6] &= ~bit;
	}
}

static int decode_dictionary(struct ipc_column *column, int64_t from, const struct weir_selection *selection,
			     struct weir_column *out, struct weir_error *err)
{
	const struct weir_array *window = column->window, *values = window->dictionary;
	struct weir_arena *arena = &column->reader->arena;
	uint32_t count = column->reader->vector_rows, words = (count + 63) / 64;
	uint32_t *codes = weir_arena_alloc_aligned(arena, ((size_t)count + 1) * sizeof(*codes), err);
	uint64_t *validity = NULL;

	if (!codes || values_make(column, values, err))
		return err->code;
	codes_widen(window, from, count, codes);
	if (window->buffers[0].data || weir_array_null_count(values) > 0) {
		validity = weir_arena_alloc_aligned(arena, (words + 1) * sizeof(*validity), err);
		if (!validity)
			return err->code;
		memset(validity, 0xff, (words + 1) * sizeof(*validity));
		if (window->buffers[0].data)
			weir_bits_copy((uint8_t *)validity, 0, window->buffers[0].data, from, count);
		codes_settle(values, count, codes, validity);
	}
	out->form = WEIR_DICTIONARY;
	out->values = codes;
	out->validity = validity;
	out->dictionary = &column->values;
	out->nested = NULL;
	if (column->values.count > VALUES_MAX && weir_type_values(column->type)->layout != WEIR_LAYOUT_NESTED)
		return weir_column_flatten(out, selection, count, arena, err);
	return WEIR_OK;
}

/* A text of a message's view is a vector's view already. */
_Static_assert(sizeof(struct weir_ipc_text) == sizeof(struct weir_view) &&
		       offsetof(struct weir_ipc_text, size) == offsetof(struct weir_view, size) &&
		       offsetof(struct weir_ipc_text, prefix) == offsetof(struct weir_view, prefix) &&
		       offsetof(struct weir_ipc_text, data) == offsetof(struct weir_view, data),
	       "texts are views");

static int decode_texts(struct ipc_column *column, int64_t from, struct weir_column *out, struct weir_error *err)
{
	uint32_t count = column->reader->vector_rows, words = (count + 63) / 64;
	uint64_t *validity = NULL;

	if (column->texts.validity.data) {
		validity = weir_arena_alloc_zero(&column->reader->arena, (words + 1) * sizeof(*validity), err);
		if (!validity)
			return err->code;
		weir_bits_copy((uint8_t *)validity, 0, column->texts.validity.data, from, count);
	}
	out->form = WEIR_FLAT;
	out->validity = validity;
	out->values = (const struct weir_ipc_text *)column->texts.texts.data + from;
	out->dictionary = NULL;
	out->nested = NULL;
	return WEIR_OK;
}

int ipc_column_decode(struct weir_pending *pending, const struct weir_selection *selection, struct weir_column *out,
		      struct weir_error *err)
{
	struct ipc_column *column = (struct ipc_column *)pending;
	struct ipc_reader *reader = column->reader;
	struct weir_column flat;
	int64_t from;

	if (reader->vector_begin < column->window_begin ||
	    reader->vector_begin + reader->vector_rows > column->window_end)
		if (window_read(column, err))
			return err->code;
	from = reader->vector_begin - column->window_begin;
	if (column->texts.account)
		return decode_texts(column, from, out, err);
	if (column->type->id == WEIR_DICTIONARY_TYPE)
		return decode_dictionary(column, from, selection, out, err);
	if (weir_column_from_array(column->window, from, reader->vector_rows, &reader->arena, &flat, err)) {
		weir_error_at_column(err, reader->file->base.schema->fields[column->number].name);
		return err->code;
	}
	out->form = flat.form;
	out->validity = flat.validity;
	out->values = flat.values;
	out->dictionary = NULL;
	out->nested = flat.nested;
	out->nested_offset = flat.nested_offset;
	return WEIR_OK;
}
