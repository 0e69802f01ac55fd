/* Expressions built by calls. An expression is the text of one, so that both ways meet in the parser; whatever stands
 * inside another is in parentheses. Names and strings are quoted here, numbers written so that they read back
 * exactly. */
#include "base/number.h"
#include "expr/expr.h"
#include "api/api_impl.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct weir_expression {
	struct weir_error *error; /* it cannot be; the text is empty */
	char text[];
};

static struct weir_expression *make(size_t size)
{
	return weir_plain_alloc(sizeof(struct weir_expression) + size + 1);
}

static struct weir_expression *write_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

static struct weir_expression *write_text(const char *format, ...)
{
	struct weir_expression *expression;
	va_list args;
	int size;

	va_start(args, format);
	size = vsnprintf(NULL, 0, format, args);
	va_end(args);
	expression = size < 0 ? NULL : make((size_t)size);
	if (!expression)
		return NULL;
	va_start(args, format);
	vsnprintf(expression->text, (size_t)size + 1, format, args);
	va_end(args);
	return expression;
}

static struct weir_expression *carry(const struct weir_error *err)
{
	struct weir_expression *expression = make(0);

	if (expression)
		api_report(err, &expression->error);
	return expression;
}

static struct weir_expression *refuse(const char *what)
{
	struct weir_error err = {0};

	weir_error_set(&err, WEIR_E_INVALID, "%s", what);
	return carry(&err);
}

void weir_expression_free(struct weir_expression *expression)
{
	if (expression)
		weir_error_free(expression->error);
	weir_plain_free(expression);
}

int api_expression_text(const struct weir_expression *expression, const char **out, struct weir_error *err)
{
	if (!expression)
		return weir_error_set(err, WEIR_E_INVALID, "the expression is NULL (there was no memory for it)");
	if (expression->error) {
		*err = *expression->error;
		return err->code;
	}
	*out = expression->text;
	return WEIR_OK;
}

/* Reads it once to find mistakes where they are made, with their places in the program's own text. */
struct weir_expression *weir_parse(const char *text)
{
	struct weir_error err = {0};
	struct weir_mem *mem = NULL;
	struct weir_expr *expr = NULL;
	int code;

	if (!text)
		return refuse("the text of weir_parse is NULL");
	code = weir_mem_new(0, &mem, &err);
	if (!code) {
		code = weir_expr_parse(weir_mem_root(mem), text, &expr, &err);
		weir_expr_free(expr);
		weir_mem_free(mem);
	}
	return code ? carry(&err) : write_text("(%s)", text);
}

/* Appends bytes in quotes; `to` NULL: only counts. Returns the size. */
static size_t quote(char *to, const void *bytes, size_t size, bool is_bytes)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *from = bytes;
	size_t n = 0;

#define PUT(c) (to ? (void)(to[n] = (char)(c)) : (void)0, n++)
	PUT('\'');
	for (size_t i = 0; i < size; i++) {
		if (from[i] == '\'' || from[i] == '\\') {
			PUT('\\');
			PUT(from[i]);
		} else if (from[i] < 0x20 || from[i] == 0x7f || (is_bytes && from[i] >= 0x80)) {
			PUT('\\');
			PUT('x');
			PUT(digits[from[i] >> 4]);
			PUT(digits[from[i] & 15]);
		} else {
			PUT(from[i]);
		}
	}
	PUT('\'');
#undef PUT
	return n;
}

static struct weir_expression *quoted(const char *before, const void *bytes, size_t size, bool is_bytes,
				      const char *after)
{
	size_t before_size = strlen(before), inner = quote(NULL, bytes, size, is_bytes);
	struct weir_expression *expression = make(before_size + inner + strlen(after));

	if (!expression)
		return NULL;
	memcpy(expression->text, before, before_size);
	quote(expression->text + before_size, bytes, size, is_bytes);
	memcpy(expression->text + before_size + inner, after, strlen(after));
	return expression;
}

struct weir_expression *weir_column(const char *name)
{
	return name ? quoted("col(", name, strlen(name), false, ")") : refuse("the name of weir_column is NULL");
}

struct weir_expression *weir_int(int64_t value)
{
	return write_text(value < 0 ? "(%lld)" : "%lld", (long long)value);
}

struct weir_expression *weir_double(double value)
{
	char text[WEIR_NUMBER_TEXT_MAX + 1];

	if (!isfinite(value))
		return write_text("literal('%s', 'double')", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
	text[weir_format_double(value, text)] = '\0';
	return write_text(signbit(value) ? "(%s)" : "%s", text);
}

struct weir_expression *weir_bool(int value)
{
	return write_text("%s", value ? "True" : "False");
}

struct weir_expression *weir_string(const char *value)
{
	return value ? quoted("", value, strlen(value), false, "") : weir_null();
}

struct weir_expression *weir_bytes(const void *value, size_t size)
{
	return value || !size ? quoted("b", value, size, true, "") : refuse("the value of weir_bytes is NULL");
}

struct weir_expression *weir_null(void)
{
	return write_text("None");
}

struct weir_expression *weir_literal(const char *value, const char *type)
{
	struct weir_expression *left, *right, *both = NULL;

	if (!value || !type)
		return refuse(value ? "the type of weir_literal is NULL" : "the value of weir_literal is NULL");
	left = weir_string(value);
	right = weir_string(type);
	if (left && right)
		both = write_text("literal(%s, %s)", left->text, right->text);
	weir_expression_free(left);
	weir_expression_free(right);
	return both;
}

static bool is_name(const char *text)
{
	bool good = isalpha((unsigned char)*text) || *text == '_';

	for (; *text; text++)
		good &= isalnum((unsigned char)*text) || *text == '_';
	return good;
}

static const char *const symbols[] = {
	"+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "and", "or"};

static bool is_symbol(const char *text)
{
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
		if (strcmp(symbols[i], text) == 0)
			return true;
	}
	return false;
}

/* `to` has room; returns the new end. */
static char *append(char *to, const char *text)
{
	size_t size = strlen(text);

	memcpy(to, text, size + 1);
	return to + size;
}

struct weir_expression *weir_call(const char *function, struct weir_expression *const *arguments, size_t count)
{
	struct weir_expression *call = NULL;
	struct weir_error err = {0};
	bool is_in = function && strcmp(function, "in") == 0 && count > 0; /* (x in (1, 2)) */
	size_t size = 8;
	char *to;

	if (!function || (count && !arguments)) {
		call = refuse(function ? "the arguments of weir_call are NULL" : "the function of weir_call is NULL");
		goto out;
	}
	if (!is_name(function) || is_symbol(function) || strcmp(function, "not") == 0) {
		weir_error_set(&err, WEIR_E_NAME, "'%s' is no name of a function (operators: weir_unary, weir_binary)",
			       function);
		call = carry(&err);
		goto out;
	}
	for (size_t i = 0; i < count; i++) {
		const char *text = NULL;

		if (api_expression_text(arguments[i], &text, &err)) {
			call = carry(&err);
			goto out;
		}
		size += strlen(text) + 2;
	}
	call = make(strlen(function) + size);
	if (!call)
		goto out;
	to = append(append(call->text, is_in ? "" : function), "(");
	for (size_t i = 0; i < count; i++)
		to = append(append(to, i == 0 ? "" : is_in && i == 1 ? " in (" : ", "), arguments[i]->text);
	append(to, is_in && count > 1 ? "))" : is_in ? " in ())" : ")");
out:
	for (size_t i = 0; arguments && i < count; i++)
		weir_expression_free(arguments[i]);
	return call;
}

struct weir_expression *weir_unary(const char *operation, struct weir_expression *operand)
{
	static const struct {
		const char *name, *before, *after;
	} forms[] = {
		{"not", "(not ", ")"},         {"-", "(-", ")"},
		{"is None", "(", " is None)"}, {"is not None", "(", " is not None)"},
		{"is null", "(", " is None)"}, {"is not null", "(", " is not None)"},
	};
	struct weir_expression *result;
	struct weir_error err = {0};
	const char *text = NULL;

	for (size_t i = 0; operation && i < sizeof(forms) / sizeof(*forms); i++) {
		if (strcmp(forms[i].name, operation) != 0)
			continue;
		result = api_expression_text(operand, &text, &err)
				 ? carry(&err)
				 : write_text("%s%s%s", forms[i].before, text, forms[i].after);
		weir_expression_free(operand);
		return result;
	}
	return weir_call(operation, &operand, 1);
}

struct weir_expression *weir_binary(const char *operation, struct weir_expression *left, struct weir_expression *right)
{
	struct weir_expression *operands[2] = {left, right}, *result;
	struct weir_error err = {0};
	const char *texts[2] = {NULL, NULL};

	if (!operation || !is_symbol(operation))
		return weir_call(operation, operands, 2);
	result = api_expression_text(left, &texts[0], &err) || api_expression_text(right, &texts[1], &err)
			 ? carry(&err)
			 : write_text("(%s %s %s)", texts[0], operation, texts[1]);
	weir_expression_free(left);
	weir_expression_free(right);
	return result;
}
