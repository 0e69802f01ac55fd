/* Rows one by one, for simple loops: a cursor in the batches of a task. A question that makes no sense ends the rows
 * with an error, so that a loop without checks stops instead of going on with zeros. */
#include "arrow/bitmap.h"
#include "arrow/print.h"
#include "arrow/value.h"
#include "api/api_impl.h"

#include <string.h>

struct rows_column {
	char *type;
	struct weir_text text; /* of the current row */
};

struct weir_rows {
	struct weir_task *task; /* claimed */
	struct weir_account *account;
	const struct weir_schema *schema; /* the task's */
	struct rows_column *columns;
	struct weir_batch *batch;
	int64_t row; /* in the batch */
	bool ended;
	struct weir_error *error;
};

static void fail(struct weir_rows *rows, const struct weir_error *err)
{
	if (!rows->error)
		api_report(err, &rows->error);
	rows->ended = true;
}

static int name_types(struct weir_rows *rows, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t i = 0; !code && i < rows->schema->field_count; i++) {
		struct weir_text text;

		weir_text_init(&rows->columns[i].text, rows->account);
		weir_text_init(&text, rows->account);
		code = weir_type_print(rows->schema->fields[i].type, &text, err);
		if (!code && !(rows->columns[i].type = weir_strdup(rows->account, text.data, err)))
			code = err->code;
		weir_text_release(&text);
	}
	return code;
}

/* Takes over a claim, also on failure. */
static int rows_new(struct weir_task *task, struct weir_rows **out, struct weir_error *err)
{
	struct weir_rows *rows = weir_plain_alloc(sizeof(*rows));
	int code;

	if (!rows) {
		api_task_unclaim(task);
		return weir_error_set(err, WEIR_E_MEMORY, "no memory for rows");
	}
	rows->task = task;
	rows->account = api_task_account(task);
	rows->schema = api_task_schema(task);
	rows->columns = weir_alloc_zero(rows->account, rows->schema->field_count * sizeof(*rows->columns), err);
	code = rows->columns ? name_types(rows, err) : err->code;
	if (code) {
		weir_rows_free(rows);
		return code;
	}
	*out = rows;
	return WEIR_OK;
}

int weir_task_rows(struct weir_task *task, struct weir_rows **out, struct weir_error **error)
{
	struct weir_error err = {0};
	int code = api_need(task, "the task", error);

	if (!code)
		code = api_need(out, "`out` of weir_task_rows", error);
	if (code)
		return code;
	*out = NULL;
	code = api_task_claim(task, &err);
	if (!code)
		code = rows_new(task, out, &err);
	return code ? api_report(&err, error) : WEIR_OK;
}

int weir_flow_rows(const struct weir_flow *flow, struct weir_rows **out, struct weir_error **error)
{
	struct weir_error err = {0};
	struct weir_task *task = NULL;
	int code = api_need(out, "`out` of weir_flow_rows", error);

	if (code)
		return code;
	*out = NULL;
	code = api_flow_claim(flow, &task, &err);
	if (!code)
		code = rows_new(task, out, &err);
	return code ? api_report(&err, error) : WEIR_OK;
}

void weir_rows_free(struct weir_rows *rows)
{
	if (!rows)
		return;
	weir_batch_unref(rows->batch);
	for (uint32_t i = 0; rows->columns && i < rows->schema->field_count; i++) {
		weir_strfree(rows->account, rows->columns[i].type);
		if (rows->columns[i].text.account)
			weir_text_release(&rows->columns[i].text);
	}
	weir_free(rows->account, rows->columns, rows->schema->field_count * sizeof(*rows->columns));
	weir_error_free(rows->error);
	api_task_unclaim(rows->task);
	weir_plain_free(rows);
}

int weir_rows_next(struct weir_rows *rows)
{
	struct weir_error err = {0};

	if (!rows || rows->ended)
		return 0;
	rows->row++;
	while (!rows->batch || rows->row >= rows->batch->row_count) {
		weir_batch_unref(rows->batch);
		rows->batch = NULL;
		rows->row = 0;
		if (api_task_next(rows->task, &rows->batch, &err)) {
			fail(rows, &err);
			return 0;
		}
		if (!rows->batch) {
			rows->ended = true;
			return 0;
		}
	}
	return 1;
}

const struct weir_error *weir_rows_error(const struct weir_rows *rows)
{
	return rows ? rows->error : NULL;
}

uint32_t weir_rows_column_count(const struct weir_rows *rows)
{
	return rows ? rows->schema->field_count : 0;
}

const char *weir_rows_column_name(const struct weir_rows *rows, uint32_t column)
{
	return rows && column < rows->schema->field_count ? rows->schema->fields[column].name : NULL;
}

const char *weir_rows_column_type(const struct weir_rows *rows, uint32_t column)
{
	return rows && column < rows->schema->field_count ? rows->columns[column].type : NULL;
}

int weir_rows_find(const struct weir_rows *rows, const char *name)
{
	return rows && name ? (int)weir_schema_index(rows->schema, name) : -1;
}

/* The value of the current row: in which array, which row of it. False: there is none, or it is null. */
struct value {
	const struct weir_array *array;
	int64_t row;
	const void *fixed; /* where it lies, in FIXED layouts */
};

static bool find(struct weir_rows *rows, uint32_t column, struct value *out)
{
	struct weir_error err = {0};
	const struct weir_type *type;

	if (!rows || (!rows->error && rows->ended))
		return false;
	if (rows->error)
		return false;
	if (column >= rows->schema->field_count) {
		weir_error_set(&err, WEIR_E_INVALID, "there is no column %u: the rows have %u, numbered from 0", column,
			       rows->schema->field_count);
		fail(rows, &err);
		return false;
	}
	if (!rows->batch) {
		weir_error_set(&err, WEIR_E_INVALID, "there is no row yet: call weir_rows_next first");
		fail(rows, &err);
		return false;
	}
	out->array = rows->batch->columns[column];
	out->row = rows->row;
	if (!weir_array_is_valid(out->array, out->row))
		return false;
	type = out->array->type;
	if (type->id == WEIR_DICTIONARY_TYPE) {
		out->row = weir_array_code(out->array, out->array->offset + out->row);
		out->array = out->array->dictionary;
		type = out->array->type;
		if (!weir_array_is_valid(out->array, out->row))
			return false;
	}
	out->fixed = type->layout == WEIR_LAYOUT_FIXED
			     ? out->array->buffers[1].data + (size_t)(out->array->offset + out->row) * type->byte_width
			     : NULL;
	return true;
}

static void wrong_type(struct weir_rows *rows, uint32_t column, const char *wanted, const char *instead)
{
	struct weir_error err = {0};

	weir_error_set(&err, WEIR_E_TYPE, "it has type %s, not %s: use %s", rows->columns[column].type, wanted,
		       instead);
	weir_error_at_column(&err, rows->schema->fields[column].name);
	fail(rows, &err);
}

int weir_rows_is_null(struct weir_rows *rows, uint32_t column)
{
	struct value value;

	return !find(rows, column, &value);
}

/* Whether it is an integer of some kind; *is_large: one beyond int64. */
static bool read_integer(const struct value *value, int64_t *out, bool *is_large)
{
	const struct weir_type *type = value->array->type;
	int64_t at = value->array->offset + value->row;

	*is_large = false;
	switch (type->id) {
	case WEIR_BOOL:
		*out = value->array->buffers[1].data[at >> 3] >> (at & 7) & 1;
		return true;
#define READ(id, c_type)                                                                                               \
	case id: {                                                                                                     \
		c_type number;                                                                                         \
		memcpy(&number, value->fixed, sizeof(number));                                                         \
		*out = (int64_t)number;                                                                                \
		return true;                                                                                           \
	}
		READ(WEIR_INT8, int8_t)
		READ(WEIR_UINT8, uint8_t)
		READ(WEIR_INT16, int16_t)
		READ(WEIR_UINT16, uint16_t)
		READ(WEIR_INT32, int32_t)
		READ(WEIR_DATE32, int32_t)
		READ(WEIR_TIME32, int32_t)
		READ(WEIR_INTERVAL_MONTHS, int32_t)
		READ(WEIR_UINT32, uint32_t)
		READ(WEIR_INT64, int64_t)
		READ(WEIR_DATE64, int64_t)
		READ(WEIR_TIME64, int64_t)
		READ(WEIR_TIMESTAMP, int64_t)
		READ(WEIR_DURATION, int64_t)
#undef READ
	case WEIR_UINT64:
		memcpy(out, value->fixed, sizeof(*out));
		*is_large = *out < 0;
		return true;
	default:
		return false;
	}
}

int64_t weir_rows_int64(struct weir_rows *rows, uint32_t column)
{
	struct value value;
	int64_t number = 0;
	bool is_large;

	if (!find(rows, column, &value))
		return 0;
	if (!read_integer(&value, &number, &is_large)) {
		wrong_type(rows, column, "an integer",
			   weir_type_is_float(value.array->type)   ? "weir_rows_double"
			   : weir_type_is_bytes(value.array->type) ? "weir_rows_bytes or weir_rows_text"
								   : "weir_rows_text");
		return 0;
	}
	if (is_large) {
		struct weir_error err = {0};

		weir_error_set(&err, WEIR_E_OVERFLOW, "%llu does not fit an int64: use weir_rows_text",
			       (unsigned long long)number);
		weir_error_at_column(&err, rows->schema->fields[column].name);
		fail(rows, &err);
		return 0;
	}
	return number;
}

double weir_rows_double(struct weir_rows *rows, uint32_t column)
{
	struct value value;
	int64_t number = 0;
	bool is_large;
	uint16_t half;
	float single;
	double real;

	if (!find(rows, column, &value))
		return 0;
	switch (value.array->type->id) {
	case WEIR_DOUBLE:
		memcpy(&real, value.fixed, sizeof(real));
		return real;
	case WEIR_FLOAT:
		memcpy(&single, value.fixed, sizeof(single));
		return single;
	case WEIR_HALF:
		memcpy(&half, value.fixed, sizeof(half));
		return weir_half_to_float(half);
	default:
		if (read_integer(&value, &number, &is_large))
			return is_large ? (double)(uint64_t)number : (double)number;
		wrong_type(rows, column, "a number",
			   weir_type_is_bytes(value.array->type) ? "weir_rows_bytes or weir_rows_text"
								 : "weir_rows_text");
		return 0;
	}
}

const char *weir_rows_bytes(struct weir_rows *rows, uint32_t column, size_t *size)
{
	const struct weir_type *type;
	struct value value;
	int64_t begin, end, at;

	if (size)
		*size = 0;
	if (!find(rows, column, &value))
		return NULL;
	type = value.array->type;
	at = value.array->offset + value.row;
	switch (type->id) {
	case WEIR_STRING:
	case WEIR_BINARY:
		begin = ((const int32_t *)value.array->buffers[1].data)[at];
		end = ((const int32_t *)value.array->buffers[1].data)[at + 1];
		break;
	case WEIR_LARGE_STRING:
	case WEIR_LARGE_BINARY:
		begin = ((const int64_t *)value.array->buffers[1].data)[at];
		end = ((const int64_t *)value.array->buffers[1].data)[at + 1];
		break;
	case WEIR_FIXED_BINARY:
		if (size)
			*size = type->byte_width;
		return value.fixed;
	default:
		wrong_type(rows, column, "a string or binary", "weir_rows_text");
		return NULL;
	}
	if (size)
		*size = (size_t)(end - begin);
	return end > begin ? (const char *)value.array->buffers[2].data + begin : "";
}

const char *weir_rows_text(struct weir_rows *rows, uint32_t column)
{
	struct weir_error err = {0};
	struct weir_text *text;
	struct value value;

	if (!find(rows, column, &value))
		return "";
	text = &rows->columns[column].text;
	weir_text_clear(text);
	if (weir_print_value(value.array, value.row, WEIR_PRINT_CSV, text, &err)) {
		fail(rows, &err);
		return "";
	}
	return text->size ? text->data : "";
}
