/* Batches made value by value. The memory belongs to a pool of the appender's own, which lives as long as the last
 * batch. */
#include "arrow/value.h"
#include "api/api_impl.h"

#include <string.h>

struct weir_appender {
	struct api_keeper keeper; /* first */
	struct weir_mem *mem;
	struct weir_schema *schema;
	struct weir_builder *builders;
	struct weir_error error; /* of the first value that could not be appended since the last batch */
};

static void appender_free(struct api_keeper *keeper)
{
	struct weir_appender *appender = (struct weir_appender *)keeper;
	struct weir_account *account = weir_mem_root(appender->mem);

	for (uint32_t i = 0; appender->builders && i < appender->schema->field_count; i++)
		weir_builder_release(&appender->builders[i]);
	if (appender->builders)
		weir_free(account, appender->builders, appender->schema->field_count * sizeof(*appender->builders));
	weir_schema_unref(appender->schema);
	weir_mem_free(appender->mem);
	weir_plain_free(appender);
}

void weir_appender_free(struct weir_appender *appender)
{
	if (appender)
		api_keeper_unref(&appender->keeper);
}

static int begin(struct weir_appender *appender, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t i = 0; !code && i < appender->schema->field_count; i++) {
		weir_builder_release(&appender->builders[i]);
		code = weir_builder_init(&appender->builders[i], appender->schema->fields[i].type,
					 weir_mem_root(appender->mem), err);
	}
	return code;
}

int weir_appender_new(const char *columns, struct weir_appender **out, struct weir_error **error)
{
	struct weir_appender *appender;
	struct weir_account *account;
	struct weir_error err = {0};
	int code = api_need(out, "`out` of weir_appender_new", error);

	if (!code) {
		*out = NULL;
		code = api_need(columns, "`columns` of weir_appender_new", error);
	}
	if (code)
		return code;
	appender = weir_plain_alloc(sizeof(*appender));
	if (!appender || weir_mem_new(0, &appender->mem, &err)) {
		weir_plain_free(appender);
		weir_error_set(&err, WEIR_E_MEMORY, "no memory for an appender");
		return api_report(&err, error);
	}
	atomic_init(&appender->keeper.refs, 1);
	appender->keeper.free = appender_free;
	account = weir_mem_root(appender->mem);
	code = weir_function_schema(account, columns, &appender->schema, &err);
	if (!code) {
		appender->builders = weir_alloc_zero(account,
						     appender->schema->field_count * sizeof(*appender->builders), &err);
		code = appender->builders ? begin(appender, &err) : err.code;
	}
	if (code) {
		weir_appender_free(appender);
		return api_report(&err, error);
	}
	*out = appender;
	return WEIR_OK;
}

/* The column's builder; NULL when there is none, or an earlier value failed. */
static struct weir_builder *column_of(struct weir_appender *appender, uint32_t column)
{
	if (!appender || appender->error.code)
		return NULL;
	if (column >= appender->schema->field_count) {
		weir_error_set(&appender->error, WEIR_E_INVALID,
			       "there is no column %u: the appender has %u, numbered from 0", column,
			       appender->schema->field_count);
		return NULL;
	}
	return &appender->builders[column];
}

static void place(struct weir_appender *appender, uint32_t column)
{
	weir_error_at_column(&appender->error, appender->schema->fields[column].name);
	weir_error_at_row(&appender->error, appender->builders[column].length);
}

static void refuse(struct weir_appender *appender, uint32_t column, const char *what)
{
	char type[96];

	weir_error_set(&appender->error, WEIR_E_TYPE, "%s cannot be appended to type %s", what,
		       weir_type_name(appender->schema->fields[column].type, type, sizeof(type)));
	place(appender, column);
}

/* Whether the value fits an integer of so many bytes. */
static bool fits(const struct weir_type *type, int64_t value)
{
	uint32_t bits = type->byte_width * 8;

	if (!weir_type_is_signed(type) && weir_type_is_integer(type))
		return value >= 0 && (bits == 64 || value < (int64_t)1 << bits);
	return bits == 64 || (value >= -((int64_t)1 << (bits - 1)) && value < (int64_t)1 << (bits - 1));
}

static bool takes_integers(const struct weir_type *type)
{
	return weir_type_is_integer(type) ||
	       (weir_type_is_temporal(type) && type->byte_width <= 8 && type->id != WEIR_INTERVAL_DAY_TIME);
}

void weir_append_int64(struct weir_appender *appender, uint32_t column, int64_t value)
{
	struct weir_builder *builder = column_of(appender, column);
	const struct weir_type *type = builder ? builder->type : NULL;
	uint8_t bit = value != 0;

	if (!builder)
		return;
	if (weir_type_is_float(type)) {
		weir_append_double(appender, column, (double)value);
	} else if (type->id == WEIR_BOOL) {
		if (weir_builder_fixed(builder, &bit, 1, &appender->error))
			place(appender, column);
	} else if (!takes_integers(type)) {
		refuse(appender, column, "an integer");
	} else if (!fits(type, value)) {
		char name[96];

		weir_error_set(&appender->error, WEIR_E_OVERFLOW, "%lld does not fit type %s", (long long)value,
			       weir_type_name(type, name, sizeof(name)));
		place(appender, column);
	} else if (weir_builder_fixed(builder, &value, 1, &appender->error)) { /* little endian: its first bytes */
		place(appender, column);
	}
}

void weir_append_double(struct weir_appender *appender, uint32_t column, double value)
{
	struct weir_builder *builder = column_of(appender, column);
	float single = (float)value;
	uint16_t half;
	const void *bytes;

	if (!builder)
		return;
	switch (builder->type->id) {
	case WEIR_DOUBLE:
		bytes = &value;
		break;
	case WEIR_FLOAT:
		bytes = &single;
		break;
	case WEIR_HALF:
		half = weir_float_to_half(single);
		bytes = &half;
		break;
	default:
		refuse(appender, column, "a float");
		return;
	}
	if (weir_builder_fixed(builder, bytes, 1, &appender->error))
		place(appender, column);
}

void weir_append_null(struct weir_appender *appender, uint32_t column)
{
	struct weir_builder *builder = column_of(appender, column);

	if (!builder)
		return;
	if (!appender->schema->fields[column].nullable) {
		weir_error_set(&appender->error, WEIR_E_DATA, "a null was appended to a column that is not null");
		place(appender, column);
	} else if (weir_builder_null(builder, 1, &appender->error)) {
		place(appender, column);
	}
}

void weir_append_bytes(struct weir_appender *appender, uint32_t column, const void *value, size_t size)
{
	struct weir_builder *builder = column_of(appender, column);
	int code;

	if (!builder)
		return;
	if (!value && size) {
		weir_append_null(appender, column);
		return;
	}
	if (builder->type->layout == WEIR_LAYOUT_BYTES) {
		code = weir_builder_bytes(builder, value ? value : "", size, &appender->error);
	} else if (builder->type->id == WEIR_FIXED_BINARY && builder->type->byte_width == size) {
		code = weir_builder_fixed(builder, value, 1, &appender->error);
	} else {
		refuse(appender, column, "a string");
		return;
	}
	if (code)
		place(appender, column);
}

void weir_append_string(struct weir_appender *appender, uint32_t column, const char *value)
{
	if (value)
		weir_append_bytes(appender, column, value, strlen(value));
	else
		weir_append_null(appender, column);
}

void weir_append_text(struct weir_appender *appender, uint32_t column, const char *text)
{
	struct weir_builder *builder = column_of(appender, column);
	_Alignas(16) uint8_t value[32] = {0};

	if (!builder)
		return;
	if (!text) {
		weir_append_null(appender, column);
	} else if (builder->type->layout == WEIR_LAYOUT_BYTES || builder->type->id == WEIR_FIXED_BINARY) {
		weir_append_bytes(appender, column, text, strlen(text));
	} else if (builder->type->layout != WEIR_LAYOUT_FIXED && builder->type->layout != WEIR_LAYOUT_BITS) {
		refuse(appender, column, "text");
	} else if (!weir_value_parse(builder->type, text, strlen(text), value)) {
		char name[96];

		weir_error_set(&appender->error, WEIR_E_CAST, "'%s' is not a value of type %s", text,
			       weir_type_name(builder->type, name, sizeof(name)));
		weir_error_at_value(&appender->error, text, strlen(text));
		place(appender, column);
	} else if (weir_builder_fixed(builder, value, 1, &appender->error)) {
		place(appender, column);
	}
}

int64_t weir_appender_row_count(const struct weir_appender *appender)
{
	int64_t rows = 0;

	for (uint32_t i = 0; appender && i < appender->schema->field_count; i++) {
		if (appender->builders[i].length > rows)
			rows = appender->builders[i].length;
	}
	return rows;
}

/* All columns finished, as a batch. */
static int finish(struct weir_appender *appender, struct weir_batch **out, struct weir_error *err)
{
	struct weir_account *account = weir_mem_root(appender->mem);
	uint32_t count = appender->schema->field_count;
	struct weir_array **columns = weir_alloc_zero(account, count * sizeof(*columns), err);
	int64_t rows = weir_appender_row_count(appender);
	int code = columns ? WEIR_OK : err->code;

	for (uint32_t i = 0; !code && i < count; i++) {
		if (appender->builders[i].length != rows) {
			code = weir_error_set(err, WEIR_E_DATA, "it has %lld rows, and another column has %lld",
					      (long long)appender->builders[i].length, (long long)rows);
			weir_error_at_column(err, appender->schema->fields[i].name);
			break;
		}
		columns[i] = weir_builder_finish(&appender->builders[i], err);
		code = columns[i] ? weir_array_validate(columns[i], true, err) : err->code;
		weir_error_at_column(err, appender->schema->fields[i].name);
	}
	if (!code) {
		*out = weir_batch_new(account, appender->schema, rows, columns, err);
		code = *out ? WEIR_OK : err->code;
	}
	for (uint32_t i = 0; columns && i < count; i++)
		weir_array_unref(columns[i]);
	weir_free(account, columns, count * sizeof(*columns));
	return code;
}

int weir_appender_finish(struct weir_appender *appender, struct ArrowSchema *schema, struct ArrowArray *out,
			 struct weir_error **error)
{
	struct weir_batch *batch = NULL;
	struct weir_error err = {0}, again = {0};
	int code = api_need(appender, "the appender", error);

	if (!code)
		code = api_need(out, "`out` of weir_appender_finish", error);
	if (code)
		return code;
	memset(out, 0, sizeof(*out));
	err = appender->error;
	code = err.code;
	weir_error_clear(&appender->error);
	if (!code)
		code = finish(appender, &batch, &err);
	if (!code && schema)
		code = api_export_schema(appender->schema, schema, &err);
	if (!code) {
		code = api_export_batch(&appender->keeper, batch, out, &err);
		if (code && schema)
			schema->release(schema);
	}
	weir_batch_unref(batch);
	/* What is left of columns that were not finished. */
	if (begin(appender, &again))
		appender->error = again;
	return code ? api_report(&err, error) : WEIR_OK;
}
