/* A tree as text that parses to the same tree: operators where they have a symbol, parentheses where binding asks. */
#include "base/number.h"
#include "expr/lex.h"
#include "expr/scalar.h"
#include "expr/tree.h"

#include <math.h>
#include <string.h>

struct printer {
	struct weir_text *out;
	struct weir_error *err;
};

static const struct {
	const char *name, *symbol;
	enum weir_binding binding;
} binaries[] = {
	{"eq", " == ", WEIR_BIND_COMPARE},
	{"ne", " != ", WEIR_BIND_COMPARE},
	{"lt", " < ", WEIR_BIND_COMPARE},
	{"le", " <= ", WEIR_BIND_COMPARE},
	{"gt", " > ", WEIR_BIND_COMPARE},
	{"ge", " >= ", WEIR_BIND_COMPARE},
	{"add", " + ", WEIR_BIND_SUM},
	{"subtract", " - ", WEIR_BIND_SUM},
	{"multiply", " * ", WEIR_BIND_PRODUCT},
	{"divide", " / ", WEIR_BIND_PRODUCT},
	{"floor_divide", " // ", WEIR_BIND_PRODUCT},
	{"mod", " % ", WEIR_BIND_PRODUCT},
	{"power", " ** ", WEIR_BIND_POWER},
};

static int print(struct printer *printer, const struct weir_expr *expr, enum weir_binding binding);

static int puts_(struct printer *printer, const char *text)
{
	return weir_text_puts(printer->out, text, printer->err);
}

static int print_quoted(struct printer *printer, const uint8_t *bytes, size_t size, bool is_bytes)
{
	int code = puts_(printer, is_bytes ? "b'" : "'");

	for (size_t i = 0; !code && i < size; i++) {
		uint8_t c = bytes[i];

		if (c == '\'' || c == '\\')
			code = weir_text_printf(printer->out, printer->err, "\\%c", c);
		else if (c == '\n')
			code = puts_(printer, "\\n");
		else if (c == '\t')
			code = puts_(printer, "\\t");
		else if (c < 0x20 || c == 0x7f || (is_bytes && c >= 0x80))
			code = weir_text_printf(printer->out, printer->err, "\\x%02x", c);
		else
			code = weir_text_append(printer->out, &c, 1, printer->err);
	}
	return code ? code : puts_(printer, "'");
}

static int print_real(struct printer *printer, double value)
{
	char buffer[WEIR_NUMBER_TEXT_MAX];

	return weir_text_append(printer->out, buffer, weir_format_double(value, buffer), printer->err);
}

static int print_literal(struct printer *printer, const struct weir_scalar *value, enum weir_binding binding)
{
	bool negative = false;
	int code;

	if (value->is_null && value->type->id == WEIR_NULL)
		return puts_(printer, "None");
	if (!value->is_null) {
		switch (value->type->id) {
		case WEIR_BOOL:
			return puts_(printer, value->boolean ? "True" : "False");
		case WEIR_STRING:
			return print_quoted(printer, weir_view_bytes(&value->bytes), value->bytes.size, false);
		case WEIR_BINARY:
			return print_quoted(printer, weir_view_bytes(&value->bytes), value->bytes.size, true);
		case WEIR_UINT64:
			if (value->unsigned_ > INT64_MAX)
				return weir_text_printf(printer->out, printer->err, "%llu",
							(unsigned long long)value->unsigned_);
			break;
		case WEIR_INT64:
		case WEIR_DOUBLE:
			if (value->type->id == WEIR_DOUBLE && !isfinite(value->real))
				break;
			negative = value->type->id == WEIR_INT64 ? value->integer < 0 : signbit(value->real);
			/* −2 ** 2 would be −(2 ** 2). */
			if (negative && binding > WEIR_BIND_UNARY && (code = puts_(printer, "(")))
				return code;
			code = value->type->id == WEIR_INT64
				       ? weir_text_printf(printer->out, printer->err, "%lld", (long long)value->integer)
				       : print_real(printer, value->real);
			return !code && negative && binding > WEIR_BIND_UNARY ? puts_(printer, ")") : code;
		default:
			break;
		}
	}

	struct weir_text text;
	weir_text_init(&text, printer->out->account);
	if (value->is_null) {
		code = puts_(printer, "cast(None, ");
	} else {
		code = weir_scalar_print(value, &text, printer->err);
		if (!code)
			code = puts_(printer, "literal(");
		if (!code)
			code = print_quoted(printer, (const uint8_t *)text.data, text.size, false);
		if (!code)
			code = puts_(printer, ", ");
	}
	weir_text_clear(&text);
	if (!code)
		code = weir_type_print(value->type, &text, printer->err);
	if (!code)
		code = print_quoted(printer, (const uint8_t *)text.data, text.size, false);
	weir_text_release(&text);
	return code ? code : puts_(printer, ")");
}

static int print_list(struct printer *printer, struct weir_expr *const *items, uint32_t count)
{
	int code = puts_(printer, "(");

	for (uint32_t i = 0; !code && i < count; i++) {
		if (i)
			code = puts_(printer, ", ");
		if (!code)
			code = print(printer, items[i], WEIR_BIND_NONE);
	}
	return code ? code : puts_(printer, ")");
}

/* Operand, text, operand …, in parentheses when what stands around binds tighter. */
static int print_open(struct printer *printer, enum weir_binding own, enum weir_binding binding)
{
	return own < binding ? puts_(printer, "(") : WEIR_OK;
}

static int print_close(struct printer *printer, enum weir_binding own, enum weir_binding binding)
{
	return own < binding ? puts_(printer, ")") : WEIR_OK;
}

static int print_parts(struct printer *printer, const struct weir_expr *expr, const char *between,
		       enum weir_binding own, enum weir_binding first, enum weir_binding others,
		       enum weir_binding binding)
{
	int code = print_open(printer, own, binding);

	for (uint32_t i = 0; !code && i < expr->count; i++) {
		if (i)
			code = puts_(printer, between);
		if (!code)
			code = print(printer, expr->arguments[i], i ? others : first);
	}
	return code ? code : print_close(printer, own, binding);
}

static int print_suffix(struct printer *printer, const struct weir_expr *expr, const char *prefix, const char *suffix,
			enum weir_binding own, enum weir_binding inner, enum weir_binding binding)
{
	int code = print_open(printer, own, binding);

	if (!code)
		code = puts_(printer, prefix);
	if (!code)
		code = print(printer, expr->arguments[0], inner);
	if (!code)
		code = puts_(printer, suffix);
	return code ? code : print_close(printer, own, binding);
}

static bool is_none(const struct weir_expr *expr)
{
	return expr->kind == WEIR_EXPR_LITERAL && expr->value.is_null && expr->value.type->id == WEIR_NULL;
}

static int print_slice(struct printer *printer, const struct weir_expr *expr)
{
	int code = print(printer, expr->arguments[0], WEIR_BIND_POSTFIX);

	if (!code)
		code = puts_(printer, "[");
	if (!code && !is_none(expr->arguments[1]))
		code = print(printer, expr->arguments[1], WEIR_BIND_NONE);
	if (!code)
		code = puts_(printer, ":");
	if (!code && !is_none(expr->arguments[2]))
		code = print(printer, expr->arguments[2], WEIR_BIND_NONE);
	return code ? code : puts_(printer, "]");
}

static int print_if(struct printer *printer, const struct weir_expr *expr, enum weir_binding binding)
{
	int code = print_open(printer, WEIR_BIND_IF, binding);

	if (!code)
		code = print(printer, expr->arguments[1], WEIR_BIND_OR);
	if (!code)
		code = puts_(printer, " if ");
	if (!code)
		code = print(printer, expr->arguments[0], WEIR_BIND_OR);
	if (!code)
		code = puts_(printer, " else ");
	if (!code)
		code = print(printer, expr->arguments[2], WEIR_BIND_IF);
	return code ? code : print_close(printer, WEIR_BIND_IF, binding);
}

static int print_in(struct printer *printer, const struct weir_expr *expr, const char *word, enum weir_binding binding)
{
	int code = print_open(printer, WEIR_BIND_COMPARE, binding);

	if (!code)
		code = print(printer, expr->arguments[0], WEIR_BIND_COMPARE + 1);
	if (!code)
		code = puts_(printer, word);
	if (!code)
		code = print_list(printer, expr->arguments + 1, expr->count - 1);
	return code ? code : print_close(printer, WEIR_BIND_COMPARE, binding);
}

static int print_call(struct printer *printer, const struct weir_expr *expr, enum weir_binding binding)
{
	const struct weir_expr *first = expr->count ? expr->arguments[0] : NULL;
	int code;

	for (size_t i = 0; expr->count == 2 && i < sizeof(binaries) / sizeof(binaries[0]); i++) {
		enum weir_binding own = binaries[i].binding;

		if (strcmp(expr->name, binaries[i].name))
			continue;
		if (own == WEIR_BIND_POWER)
			return print_parts(printer, expr, binaries[i].symbol, own, WEIR_BIND_POSTFIX, WEIR_BIND_UNARY,
					   binding);
		return print_parts(printer, expr, binaries[i].symbol, own, own == WEIR_BIND_COMPARE ? own + 1 : own,
				   own + 1, binding);
	}
	if (expr->count >= 2 && !strcmp(expr->name, "and"))
		return print_parts(printer, expr, " and ", WEIR_BIND_AND, WEIR_BIND_AND + 1, WEIR_BIND_AND + 1,
				   binding);
	if (expr->count >= 2 && !strcmp(expr->name, "or"))
		return print_parts(printer, expr, " or ", WEIR_BIND_OR, WEIR_BIND_OR + 1, WEIR_BIND_OR + 1, binding);
	if (expr->count == 1 && !strcmp(expr->name, "not")) {
		if (weir_expr_is_call(first, "in") && first->count >= 1)
			return print_in(printer, first, " not in ", binding);
		return print_suffix(printer, expr, "not ", "", WEIR_BIND_NOT, WEIR_BIND_NOT, binding);
	}
	if (expr->count == 1 && !strcmp(expr->name, "negate"))
		return print_suffix(printer, expr, "-", "", WEIR_BIND_UNARY, WEIR_BIND_UNARY, binding);
	if (expr->count == 1 && !strcmp(expr->name, "is_null"))
		return print_suffix(printer, expr, "", " is None", WEIR_BIND_COMPARE, WEIR_BIND_COMPARE + 1, binding);
	if (expr->count == 1 && !strcmp(expr->name, "is_valid"))
		return print_suffix(printer, expr, "", " is not None", WEIR_BIND_COMPARE, WEIR_BIND_COMPARE + 1,
				    binding);
	if (expr->count >= 1 && !strcmp(expr->name, "in"))
		return print_in(printer, expr, " in ", binding);
	if (expr->count == 3 && !strcmp(expr->name, "if_else"))
		return print_if(printer, expr, binding);
	if (expr->count == 3 && !strcmp(expr->name, "slice"))
		return print_slice(printer, expr);
	/* x["name"] and x[0] are told apart by what stands inside. */
	if (expr->count == 2 && (!strcmp(expr->name, "field") || !strcmp(expr->name, "element"))) {
		const struct weir_expr *second = expr->arguments[1];
		bool is_text = second->kind == WEIR_EXPR_LITERAL && second->value.type->id == WEIR_STRING;

		if (is_text == !strcmp(expr->name, "field")) {
			code = print(printer, first, WEIR_BIND_POSTFIX);
			if (!code)
				code = puts_(printer, "[");
			if (!code)
				code = print(printer, second, WEIR_BIND_NONE);
			return code ? code : puts_(printer, "]");
		}
	}
	code = puts_(printer, expr->name);
	return code ? code : print_list(printer, expr->arguments, expr->count);
}

static int print(struct printer *printer, const struct weir_expr *expr, enum weir_binding binding)
{
	int code;

	switch (expr->kind) {
	case WEIR_EXPR_COLUMN:
		if (weir_name_is_plain(expr->name))
			return puts_(printer, expr->name);
		code = puts_(printer, "col(");
		if (!code)
			code = print_quoted(printer, (const uint8_t *)expr->name, strlen(expr->name), false);
		return code ? code : puts_(printer, ")");
	case WEIR_EXPR_LITERAL:
		return print_literal(printer, &expr->value, binding);
	case WEIR_EXPR_CALL:
		return print_call(printer, expr, binding);
	}
	return WEIR_OK;
}

int weir_expr_print(const struct weir_expr *expr, struct weir_text *out, struct weir_error *err)
{
	struct printer printer = {.out = out, .err = err};

	return print(&printer, expr, WEIR_BIND_NONE);
}
