/* Types and schemas as text, in pyarrow's words, so that people read one language everywhere. */
#include "arrow/arrow_impl.h"

#include <stdarg.h>
#include <stdio.h>

const char *const type_words[WEIR_TYPE_ID_COUNT] = {
	[WEIR_NULL] = "null",
	[WEIR_BOOL] = "bool",
	[WEIR_INT8] = "int8",
	[WEIR_INT16] = "int16",
	[WEIR_INT32] = "int32",
	[WEIR_INT64] = "int64",
	[WEIR_UINT8] = "uint8",
	[WEIR_UINT16] = "uint16",
	[WEIR_UINT32] = "uint32",
	[WEIR_UINT64] = "uint64",
	[WEIR_HALF] = "halffloat",
	[WEIR_FLOAT] = "float",
	[WEIR_DOUBLE] = "double",
	[WEIR_DECIMAL128] = "decimal128",
	[WEIR_DECIMAL256] = "decimal256",
	[WEIR_DATE32] = "date32[day]",
	[WEIR_DATE64] = "date64[ms]",
	[WEIR_TIME32] = "time32",
	[WEIR_TIME64] = "time64",
	[WEIR_TIMESTAMP] = "timestamp",
	[WEIR_DURATION] = "duration",
	[WEIR_INTERVAL_MONTHS] = "month_interval",
	[WEIR_INTERVAL_DAY_TIME] = "day_time_interval",
	[WEIR_INTERVAL_MONTH_DAY_NANO] = "month_day_nano_interval",
	[WEIR_BINARY] = "binary",
	[WEIR_LARGE_BINARY] = "large_binary",
	[WEIR_STRING] = "string",
	[WEIR_LARGE_STRING] = "large_string",
	[WEIR_FIXED_BINARY] = "fixed_size_binary",
	[WEIR_LIST_TYPE] = "list",
	[WEIR_LARGE_LIST] = "large_list",
	[WEIR_FIXED_LIST] = "fixed_size_list",
	[WEIR_STRUCT] = "struct",
	[WEIR_MAP] = "map",
	[WEIR_DICTIONARY_TYPE] = "dictionary",
};

const char *const type_units[] = {"s", "ms", "us", "ns"};

/* Either into a text, which may fail, or into a buffer, which may be full. */
struct printer {
	struct weir_text *text;
	struct weir_error *err;
	int code;
	char *buffer;
	size_t size, used;
};

static void put(struct printer *printer, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put_string(struct printer *printer, const char *string)
{
	size_t size = strlen(string), room;

	if (printer->text) {
		if (!printer->code)
			printer->code = weir_text_append(printer->text, string, size, printer->err);
		return;
	}
	room = printer->size - printer->used;
	memcpy(printer->buffer + printer->used, string, size < room ? size : room);
	printer->used += size < room ? size : room;
	if (size > room)
		printer->code = WEIR_E_OVERFLOW;
}

static void put(struct printer *printer, const char *format, ...)
{
	char piece[64];
	va_list args;

	va_start(args, format);
	vsnprintf(piece, sizeof(piece), format, args);
	va_end(args);
	put_string(printer, piece);
}

static void put_type(struct printer *printer, const struct weir_type *type);

static void put_field(struct printer *printer, const struct weir_field *field)
{
	put_string(printer, field->name);
	put_string(printer, ": ");
	put_type(printer, field->type);
	if (!field->nullable)
		put_string(printer, " not null");
}

static void put_unusual_name(struct printer *printer, const struct weir_field *field, const char *usual)
{
	if (!strcmp(field->name, usual))
		return;
	put_string(printer, " ('");
	put_string(printer, field->name);
	put_string(printer, "')");
}

static void put_map(struct printer *printer, const struct weir_type *type)
{
	const struct weir_field *entries = &type->fields[0];
	const struct weir_field *key = &entries->type->fields[0], *value = &entries->type->fields[1];

	put_string(printer, "<");
	put_type(printer, key->type);
	put_unusual_name(printer, key, "key");
	put_string(printer, ", ");
	put_type(printer, value->type);
	put_unusual_name(printer, value, "value");
	if (type->ordered)
		put_string(printer, ", keys_sorted");
	put_unusual_name(printer, entries, "entries");
	put_string(printer, ">");
}

static void put_type(struct printer *printer, const struct weir_type *type)
{
	if (printer->code)
		return;
	put_string(printer, type_words[type->id]);
	switch (type->id) {
	case WEIR_DECIMAL128:
	case WEIR_DECIMAL256:
		put(printer, "(%d, %d)", type->precision, type->scale);
		break;
	case WEIR_TIME32:
	case WEIR_TIME64:
	case WEIR_DURATION:
		put(printer, "[%s]", type_units[type->unit]);
		break;
	case WEIR_TIMESTAMP:
		put(printer, "[%s", type_units[type->unit]);
		if (type->timezone) {
			put_string(printer, ", tz=");
			put_string(printer, type->timezone);
		}
		put_string(printer, "]");
		break;
	case WEIR_FIXED_BINARY:
		put(printer, "[%u]", type->byte_width);
		break;
	case WEIR_LIST_TYPE:
	case WEIR_LARGE_LIST:
	case WEIR_FIXED_LIST:
	case WEIR_STRUCT:
		put_string(printer, "<");
		for (uint32_t i = 0; i < type->field_count && !printer->code; i++) {
			if (i)
				put_string(printer, ", ");
			put_field(printer, &type->fields[i]);
		}
		put_string(printer, ">");
		if (type->id == WEIR_FIXED_LIST)
			put(printer, "[%d]", type->list_size);
		break;
	case WEIR_MAP:
		put_map(printer, type);
		break;
	case WEIR_DICTIONARY_TYPE:
		put_string(printer, "<values=");
		put_type(printer, type->dictionary_value);
		put_string(printer, ", indices=");
		put_type(printer, type->dictionary_index);
		put(printer, ", ordered=%d>", type->ordered);
		break;
	default:
		break;
	}
}

int weir_type_print(const struct weir_type *type, struct weir_text *out, struct weir_error *err)
{
	struct printer printer = {.text = out, .err = err};

	put_type(&printer, type);
	return printer.code;
}

int weir_field_print(const struct weir_field *field, struct weir_text *out, struct weir_error *err)
{
	struct printer printer = {.text = out, .err = err};

	put_field(&printer, field);
	return printer.code;
}

int weir_schema_print(const struct weir_schema *schema, struct weir_text *out, struct weir_error *err)
{
	struct printer printer = {.text = out, .err = err};

	for (uint32_t i = 0; i < schema->field_count; i++) {
		if (i)
			put_string(&printer, "\n");
		put_field(&printer, &schema->fields[i]);
	}
	return printer.code;
}

const char *weir_type_name(const struct weir_type *type, char *buffer, size_t size)
{
	static const char cut[] = "…";
	struct printer printer = {.buffer = buffer, .size = size - 1};

	WEIR_ASSERT(size >= sizeof(cut));
	put_type(&printer, type);
	if (printer.code) {
		/* The mark must fit, and must not follow half a character. */
		printer.used = size - sizeof(cut);
		while (printer.used > 0 && (buffer[printer.used] & 0xc0) == 0x80)
			printer.used--;
		memcpy(buffer + printer.used, cut, sizeof(cut) - 1);
		printer.used += sizeof(cut) - 1;
	}
	buffer[printer.used] = 0;
	return buffer;
}
