/* Errors for programs: the engine's own struct, copied, with its line of text. */
#include "api/api_impl.h"

#include <string.h>

struct reported {
	struct weir_error error; /* first: programs hold a pointer to it */
	char text[1900];
};

/* When there is no memory for an error there is still this one. */
static const struct reported no_memory = {
	.error = {.code = WEIR_E_MEMORY, .message = "no memory, not even to say for what"},
	.text = "no memory, not even to say for what",
};

int api_report(const struct weir_error *err, struct weir_error **out)
{
	struct reported *reported;

	if (!out)
		return err->code;
	reported = weir_plain_alloc(sizeof(*reported));
	if (!reported) {
		*out = (struct weir_error *)&no_memory.error;
		return err->code;
	}
	reported->error = *err;
	weir_error_format(err, reported->text, sizeof(reported->text));
	*out = &reported->error;
	return err->code;
}

int api_need(const void *given, const char *what, struct weir_error **out)
{
	struct weir_error err = {0};

	if (given)
		return WEIR_OK;
	weir_error_set(&err, WEIR_E_INVALID, "%s is NULL", what);
	return api_report(&err, out);
}

int api_check_size(const char *what, size_t struct_size, struct weir_error *err)
{
	if (struct_size >= sizeof(size_t) && struct_size <= 1 << 16)
		return WEIR_OK;
	return weir_error_set(err, WEIR_E_INVALID, "struct_size of struct %s is %zu; set it to sizeof(struct %s)", what,
			      struct_size, what);
}

const char *weir_error_text(const struct weir_error *error)
{
	return error ? ((const struct reported *)error)->text : "no error";
}

enum weir_code weir_error_code(const struct weir_error *error)
{
	return error ? (enum weir_code)error->code : WEIR_OK;
}

static const char *known(const char *text)
{
	return text[0] ? text : NULL;
}

const char *weir_error_message(const struct weir_error *error)
{
	return error ? known(error->message) : NULL;
}

const char *weir_error_operator(const struct weir_error *error)
{
	return error ? known(error->operator_name) : NULL;
}

const char *weir_error_file(const struct weir_error *error)
{
	return error ? known(error->source) : NULL;
}

const char *weir_error_column(const struct weir_error *error)
{
	return error ? known(error->column) : NULL;
}

const char *weir_error_value(const struct weir_error *error)
{
	return error ? known(error->value) : NULL;
}

int64_t weir_error_row(const struct weir_error *error)
{
	return error && error->has_row ? error->row : -1;
}

int64_t weir_error_row_count(const struct weir_error *error)
{
	return !error || !error->has_row ? -1 : error->row_count > 1 ? error->row_count : 1;
}

int64_t weir_error_line(const struct weir_error *error)
{
	return error && error->has_line ? error->line : -1;
}

int64_t weir_error_offset(const struct weir_error *error)
{
	return error && error->has_offset ? (int64_t)error->offset : -1;
}

int weir_error_errno(const struct weir_error *error)
{
	return error ? error->errno_value : 0;
}

void weir_error_free(struct weir_error *error)
{
	if (error != &no_memory.error)
		weir_plain_free(error);
}

const char *weir_error_code_name(int code)
{
	return weir_code_name(code);
}
