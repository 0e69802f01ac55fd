/* Values into columns, a column at a time, for the rows that are asked for. Bytes are views of the window. */
#include "format/tfrecord/tfrecord_impl.h"

#include <string.h>

enum { AT_ONCE = 256 };

static const char *kind_name(enum tf_kind kind)
{
	return kind == TF_BYTES ? "bytes" : kind == TF_FLOAT ? "float" : kind == TF_INT ? "int" : "none";
}

/* The row is of the vector that is out. */
static int place(struct tf_column *column, uint32_t row, struct weir_error *err)
{
	struct tf_reader *self = column->reader;

	weir_error_at_column(err, column->field->name);
	return tf_reader_place(self, self->input.offset + self->offsets[row], self->records - self->vector_rows + row,
			       err);
}

static int broken(struct tf_column *column, uint32_t row, const char *what, struct weir_error *err)
{
	weir_error_set(err, WEIR_E_DATA, "the feature is no tf.train.Feature: it has %s", what);
	return place(column, row, err);
}

static int misfit(struct tf_column *column, uint32_t row, const struct tf_values *values, struct weir_error *err)
{
	struct tf_reader *self = column->reader;
	char type[64];

	weir_type_name(column->field->type, type, sizeof(type));
	if (tf_options_given(self->file->options, column->field->name)) {
		weir_error_set(
			err, WEIR_E_VALUE,
			"Schema field type mismatch during read: specified type is %s, but underlying type is %s with %llu values",
			type, kind_name(values->kind), (unsigned long long)values->count);
		return place(column, row, err);
	}
	if (tf_misfits_note(self, self->offsets[row], err))
		return err->code;
	weir_error_set(
		err, WEIR_E_MISFIT,
		"the feature has %llu values of kind %s, which the type %s that others of it have does not hold; "
		"--infer all looks at all records first, --types says the type",
		(unsigned long long)values->count, kind_name(values->kind), type);
	return place(column, row, err);
}

static bool fits(const struct tf_column *column, const struct tf_values *values)
{
	struct tf_shape shape;

	if (values->count == 0)
		return true;
	tf_shape_of(column->field->type, &shape);
	return (shape.kinds & values->kind) && (column->is_list || values->count == 1);
}

/* ---- a value a row ---- */

static int value_read(struct tf_column *column, struct tf_values *values, uint32_t row, struct weir_error *err)
{
	struct tf_field piece = {0};
	const uint8_t *at;
	uint64_t number;
	float single;

	/* Pieces may be empty. */
	while (tf_values_next(values, &piece) && values->kind != TF_BYTES && piece.wire == 2 && piece.size == 0)
		;
	if (values->kind == TF_BYTES) {
		((struct weir_view *)column->decoded)[row] = weir_view_make(piece.bytes, (uint32_t)piece.size);
		return WEIR_OK;
	}
	if (values->kind == TF_FLOAT) {
		memcpy(&single, piece.bytes, 4);
		if (column->item->id == WEIR_FLOAT)
			((float *)column->decoded)[row] = single;
		else
			((double *)column->decoded)[row] = (double)single;
		return WEIR_OK;
	}
	number = piece.value;
	at = piece.bytes;
	if (piece.wire == 2 && !tf_varint(&at, piece.bytes + piece.size, &number))
		return broken(column, row, "a number without an end", err);
	if (column->item->id == WEIR_INT64)
		column->decoded[row] = number;
	else
		((double *)column->decoded)[row] = (double)(int64_t)number;
	return WEIR_OK;
}

static void value_null(struct tf_column *column, uint32_t row)
{
	column->validity[row >> 6] &= ~(UINT64_C(1) << (row & 63));
	if (column->item->id == WEIR_BINARY)
		((struct weir_view *)column->decoded)[row] = (struct weir_view){0};
	else if (column->item->id == WEIR_FLOAT)
		((float *)column->decoded)[row] = 0;
	else
		column->decoded[row] = 0;
}

static int decode_values(struct tf_column *column, const struct weir_selection *selection, struct weir_column *out,
			 struct weir_error *err)
{
	const uint8_t *text = column->reader->input.text;
	bool has_nulls = false;

	memset(column->validity, 0xff, WEIR_VECTOR_ROWS / 8);
	for (uint32_t k = 0; k < selection->count; k++) {
		uint32_t row = selection->rows ? selection->rows[k] : k;
		struct tf_span span = column->spans[row];
		struct tf_values values = {0};

		if (span.begin != WEIR_NO_NAME && !tf_values_begin(text + span.begin, span.size, &values))
			return broken(column, row, values.broken, err);
		if (!fits(column, &values))
			return misfit(column, row, &values, err);
		if (values.count == 0) {
			has_nulls = true;
			value_null(column, row);
		} else if (value_read(column, &values, row, err)) {
			return err->code;
		}
	}
	out->form = WEIR_FLAT;
	out->values = column->decoded;
	out->validity = has_nulls ? column->validity : NULL;
	return WEIR_OK;
}

/* ---- lists ---- */

/* Floats and integers as they are, or as doubles. */
static int put_numbers(struct weir_builder *items, enum tf_kind kind, const uint64_t *numbers, const float *floats,
		       uint32_t count, struct weir_error *err)
{
	double doubles[AT_ONCE];

	if (items->type->id != WEIR_DOUBLE)
		return weir_builder_fixed(items, kind == TF_FLOAT ? (const void *)floats : numbers, count, err);
	for (uint32_t i = 0; i < count; i++)
		doubles[i] = kind == TF_FLOAT ? (double)floats[i] : (double)(int64_t)numbers[i];
	return weir_builder_fixed(items, doubles, count, err);
}

static int put_packed(struct tf_column *column, struct weir_builder *items, enum tf_kind kind,
		      const struct tf_field *piece, uint32_t row, struct weir_error *err)
{
	const uint8_t *at = piece->bytes, *end = at + piece->size;
	uint64_t numbers[AT_ONCE];
	float floats[AT_ONCE];

	if (kind == TF_FLOAT && items->type->id == WEIR_FLOAT)
		return weir_builder_fixed(items, at, (int64_t)(piece->size / 4), err);
	while (at < end) {
		uint32_t count = 0;

		for (; at < end && count < AT_ONCE; count++) {
			if (kind == TF_FLOAT) {
				memcpy(&floats[count], at, 4);
				at += 4;
			} else if (!tf_varint(&at, end, &numbers[count])) {
				return broken(column, row, "a number without an end", err);
			}
		}
		if (put_numbers(items, kind, numbers, floats, count, err))
			return err->code;
	}
	return WEIR_OK;
}

static int put_list(struct tf_column *column, struct weir_builder *builder, struct tf_values *values, uint32_t row,
		    struct weir_error *err)
{
	struct weir_builder *items = &builder->children[0];
	struct tf_field piece;
	int code = WEIR_OK;

	while (!code && tf_values_next(values, &piece)) {
		float single = 0;

		if (values->kind == TF_BYTES) {
			code = weir_builder_bytes(items, piece.bytes, piece.size, err);
		} else if (piece.wire == 2) {
			code = piece.size ? put_packed(column, items, values->kind, &piece, row, err) : WEIR_OK;
		} else {
			if (piece.wire == 5)
				memcpy(&single, piece.bytes, 4);
			code = put_numbers(items, values->kind, &piece.value, &single, 1, err);
		}
	}
	return code ? code : weir_builder_list_end(builder, err);
}

static int decode_lists(struct tf_column *column, const struct weir_selection *selection, struct weir_column *out,
			struct weir_error *err)
{
	const uint8_t *text = column->reader->input.text;
	uint32_t row = 0, row_count = column->reader->vector_rows;
	struct weir_builder builder = {0};
	int code = weir_builder_init(&builder, column->field->type, column->reader->account, err);

	for (uint32_t k = 0; !code && k < selection->count; k++, row++) {
		uint32_t selected = selection->rows ? selection->rows[k] : k;
		struct tf_span span = column->spans[selected];
		struct tf_values values;

		/* Rows that nobody asked for keep the others in their places. */
		if (selected > row)
			code = weir_builder_null(&builder, selected - row, err);
		row = selected;
		if (code)
			break;
		if (span.begin == WEIR_NO_NAME)
			code = weir_builder_null(&builder, 1, err);
		else if (!tf_values_begin(text + span.begin, span.size, &values))
			code = broken(column, row, values.broken, err);
		else if (!fits(column, &values))
			code = misfit(column, row, &values, err);
		else
			code = put_list(column, &builder, &values, row, err);
	}
	if (!code && row < row_count)
		code = weir_builder_null(&builder, row_count - row, err);
	if (!code) {
		weir_array_unref(column->nested);
		column->nested = weir_builder_finish(&builder, err);
		code = column->nested ? WEIR_OK : err->code;
	}
	weir_builder_release(&builder);
	out->form = WEIR_FLAT;
	out->validity = NULL; /* the array has its own */
	out->values = NULL;
	out->nested = column->nested;
	out->nested_offset = 0;
	return code;
}

int tf_column_decode(struct weir_pending *pending, const struct weir_selection *selection, struct weir_column *out,
		     struct weir_error *err)
{
	struct tf_column *column = (struct tf_column *)pending;
	int code = column->is_list ? decode_lists(column, selection, out, err)
				   : decode_values(column, selection, out, err);

	if (code) {
		weir_error_at_column(err, column->field->name);
		weir_error_at_source(err, weir_file_path(column->reader->file->base.file));
	}
	return code;
}
