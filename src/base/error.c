/* Texts are built aside and copied in whole, so that a message may quote the error it replaces. */
#include "base/error.h"
#include "base/base_impl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *text, *python;
} codes[] = {
#define X(name, text, python) {"WEIR_" #name, text, python},
	WEIR_ERROR_LIST(X)
#undef X
};

#define X(name, text, python)                                                                                          \
	_Static_assert((int)WEIR_PLACE_##name == (int)WEIR_##name, "WEIR_" #name " has this number in weir/base.h");
WEIR_ERROR_LIST(X)
#undef X

size_t weir_text_cut(const char *text, size_t size)
{
	size_t start = size;
	unsigned char first;
	size_t need;

	while (start > 0 && size - start < 3 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
		start--;
	if (start == 0)
		return size;
	first = (unsigned char)text[start - 1];
	need = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
	return size - (start - 1) < need ? start - 1 : size;
}

static void copy_cut(char *to, size_t to_size, const char *from, size_t from_size)
{
	if (from_size >= to_size)
		from_size = weir_text_cut(from, to_size - 1);
	memcpy(to, from, from_size);
	to[from_size] = '\0';
}

static void set(struct weir_error *err, int code, int errno_value, const char *format, va_list args)
{
	char message[sizeof(err->message) + 1], *reason;
	int size = vsnprintf(message, sizeof(message), format, args);
	size_t used = size < 0 ? 0 : (size_t)size < sizeof(message) ? (size_t)size : sizeof(message) - 1;

	if (errno_value != 0) {
		char space[128];

		/* The reason is worth more than the end of a long message. */
		reason = strerror_r(errno_value, space, sizeof(space));
		if (used + 2 + strlen(reason) >= sizeof(err->message))
			used = weir_text_cut(message, sizeof(err->message) - 3 - strlen(reason));
		used += (size_t)snprintf(message + used, sizeof(message) - used, ": %s", reason);
	}
	*err = (struct weir_error){.code = code, .errno_value = errno_value};
	copy_cut(err->message, sizeof(err->message), message, used);
}

int weir_error_set(struct weir_error *err, int code, const char *format, ...)
{
	int errno_before = errno;
	va_list args;

	va_start(args, format);
	set(err, code, 0, format, args);
	va_end(args);
	errno = errno_before;
	return code;
}

static int code_of_errno(int errno_value)
{
	switch (errno_value) {
	case ENOENT:
		return WEIR_E_NOT_FOUND;
	case ENOSPC:
	case EDQUOT:
		return WEIR_E_NO_SPACE;
	case ENOMEM:
		return WEIR_E_MEMORY;
	case EEXIST:
		return WEIR_E_EXISTS;
	default:
		return WEIR_E_IO;
	}
}

int weir_error_set_errno(struct weir_error *err, int errno_value, const char *format, ...)
{
	int errno_before = errno, code = code_of_errno(errno_value);
	va_list args;

	va_start(args, format);
	set(err, code, errno_value, format, args);
	va_end(args);
	errno = errno_before;
	return code;
}

static void add_context(const struct weir_error *err, char *field, size_t size, const char *text)
{
	if (err->code != WEIR_OK && field[0] == '\0' && text)
		copy_cut(field, size, text, strlen(text));
}

void weir_error_at_source(struct weir_error *err, const char *source)
{
	add_context(err, err->source, sizeof(err->source), source);
}

void weir_error_at_column(struct weir_error *err, const char *column)
{
	add_context(err, err->column, sizeof(err->column), column);
}

void weir_error_at_operator(struct weir_error *err, const char *operator_name)
{
	add_context(err, err->operator_name, sizeof(err->operator_name), operator_name);
}

void weir_error_at_offset(struct weir_error *err, uint64_t offset)
{
	if (err->code == WEIR_OK || err->has_offset || offset == WEIR_NO_OFFSET)
		return;
	err->offset = offset;
	err->has_offset = 1;
}

void weir_error_at_row(struct weir_error *err, int64_t row)
{
	if (err->code == WEIR_OK || err->has_row || row == WEIR_NO_ROW)
		return;
	err->row = row;
	err->has_row = 1;
}

void weir_error_at_line(struct weir_error *err, int64_t line)
{
	if (err->code == WEIR_OK || err->has_line)
		return;
	err->line = line;
	err->has_line = 1;
}

void weir_error_at_rows(struct weir_error *err, int64_t row, int64_t row_count)
{
	if (err->code == WEIR_OK || err->has_row || row == WEIR_NO_ROW)
		return;
	weir_error_at_row(err, row);
	err->row_count = row_count > 1 ? row_count : 0;
}

void weir_error_at_value(struct weir_error *err, const char *value, size_t size)
{
	if (err->code != WEIR_OK && !err->value[0] && value)
		copy_cut(err->value, sizeof(err->value), value, size);
}

void weir_error_clear(struct weir_error *err)
{
	*err = (struct weir_error){0};
}

/* One more piece of the line; past the end of the buffer only `used` grows. */
static void put(char *buffer, size_t size, size_t *used, const char *format, ...) __attribute__((format(printf, 4, 5)));

static void put(char *buffer, size_t size, size_t *used, const char *format, ...)
{
	size_t at = *used < size ? *used : size;
	va_list args;
	int more;

	va_start(args, format);
	more = vsnprintf(size > at ? buffer + at : NULL, size - at, format, args);
	va_end(args);
	if (more > 0)
		*used += (size_t)more;
}

const char *weir_error_format(const struct weir_error *err, char *buffer, size_t size)
{
	const char *comma = "";
	size_t used = 0;

	if (size == 0)
		return buffer;
	buffer[0] = '\0';
	if (err->source[0])
		put(buffer, size, &used, "%s: ", err->source);
	if (err->operator_name[0]) {
		put(buffer, size, &used, "operator %s", err->operator_name);
		comma = ", ";
	}
	if (err->column[0]) {
		put(buffer, size, &used, "%scolumn %s", comma, err->column);
		comma = ", ";
	}
	if (err->has_row && err->row_count > 1) {
		put(buffer, size, &used, "%srows %lld to %lld", comma, (long long)err->row,
		    (long long)(err->row + err->row_count - 1));
		comma = ", ";
	} else if (err->has_row) {
		put(buffer, size, &used, "%srow %lld", comma, (long long)err->row);
		comma = ", ";
	}
	if (err->has_line) {
		put(buffer, size, &used, "%sline %lld", comma, (long long)err->line);
		comma = ", ";
	}
	if (err->has_offset) {
		put(buffer, size, &used, "%sbyte %llu", comma, (unsigned long long)err->offset);
		comma = ", ";
	}
	put(buffer, size, &used, "%s%s", comma[0] ? ": " : "",
	    err->message[0] ? err->message : weir_code_text(err->code));
	if (used >= size)
		buffer[weir_text_cut(buffer, size - 1)] = '\0';
	return buffer;
}

static int known(int code)
{
	return code >= 0 && code < WEIR_CODE_COUNT;
}

const char *weir_code_name(int code)
{
	return known(code) ? codes[code].name : "unknown code";
}

const char *weir_code_text(int code)
{
	return known(code) ? codes[code].text : "unknown error";
}

const char *weir_code_python(int code)
{
	return known(code) ? codes[code].python : "RuntimeError";
}

void weir_assert_failed(const char *condition, const char *file, int line)
{
	fprintf(stderr, "weir: broken invariant at %s:%d: %s\n", file, line, condition);
	abort();
}
