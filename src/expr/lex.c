/* Python's tokens, as far as expressions over columns need them: names, numbers (with underscores and bases), strings
 * (plain, raw, bytes) and operators. */
#include "expr/lex.h"

#include "base/number.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int weir_lex_fail(const struct weir_lexer *lexer, const char *at, struct weir_error *err, const char *format, ...)
{
	char message[512];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	weir_error_set(err, WEIR_E_SYNTAX, "%s", message);
	weir_error_at_source(err, "expression");
	weir_error_at_offset(err, (uint64_t)(at - lexer->text));
	return WEIR_E_SYNTAX;
}

bool weir_token_is(const struct weir_token *token, const char *symbol_or_word)
{
	return (token->kind == WEIR_TOKEN_NAME || token->kind == WEIR_TOKEN_SYMBOL) &&
	       token->size == strlen(symbol_or_word) && !memcmp(token->begin, symbol_or_word, token->size);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_name_part(char c)
{
	return is_name_start(c) || is_digit(c);
}

bool weir_name_is_plain(const char *name)
{
	static const char *const words[] = {"and",   "or",   "not",  "in",    "is",   "if",     "else", "True",
					    "False", "None", "true", "false", "null", "lambda", "for",  "await"};

	if (!is_name_start(*name))
		return false;
	for (const char *c = name; *c; c++) {
		if (!is_name_part(*c))
			return false;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strcmp(name, words[i]))
			return false;
	}
	return true;
}

static int digit_value(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 99;
}

static int lex_integer(struct weir_lexer *lexer, struct weir_token *out, const char *digits, int base,
		       struct weir_error *err)
{
	const char *c = digits;
	uint64_t value = 0;
	bool after_digit = base != 10;

	for (;; c++) {
		if (*c == '_' && after_digit) {
			after_digit = false;
			continue;
		}
		if (digit_value(*c) >= base)
			break;
		if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit_value(*c), &value))
			return weir_lex_fail(lexer, out->begin, err, "the number does not fit 64 bits");
		after_digit = true;
	}
	if (!after_digit || c == digits || is_name_part(*c))
		return weir_lex_fail(lexer, out->begin, err, "not a number");
	out->kind = WEIR_TOKEN_INT;
	out->integer = value;
	lexer->next = c;
	return WEIR_OK;
}

enum { NUMBER_SIZE_MAX = 400 };

static int lex_number(struct weir_lexer *lexer, struct weir_token *out, struct weir_error *err)
{
	const char *c = out->begin;
	char buffer[NUMBER_SIZE_MAX];
	size_t size = 0;
	bool is_real = false;

	if (*c == '0' && (c[1] == 'x' || c[1] == 'X'))
		return lex_integer(lexer, out, c + 2, 16, err);
	if (*c == '0' && (c[1] == 'o' || c[1] == 'O'))
		return lex_integer(lexer, out, c + 2, 8, err);
	if (*c == '0' && (c[1] == 'b' || c[1] == 'B'))
		return lex_integer(lexer, out, c + 2, 2, err);
	for (;; c++) {
		if (*c == '_' && c > out->begin && is_digit(c[-1]) && is_digit(c[1]))
			continue;
		if (*c == '.' || *c == 'e' || *c == 'E')
			is_real = true;
		else if (!is_digit(*c) && !((*c == '+' || *c == '-') && (c[-1] == 'e' || c[-1] == 'E') && is_real))
			break;
		if (size == NUMBER_SIZE_MAX)
			return weir_lex_fail(lexer, out->begin, err, "the number is too long");
		buffer[size++] = *c;
	}
	if (!is_real)
		return lex_integer(lexer, out, out->begin, 10, err);
	if (weir_parse_double(buffer, size, WEIR_NUMBER_PYTHON, &out->real) != size || is_name_part(*c))
		return weir_lex_fail(lexer, out->begin, err, "not a number");
	out->kind = WEIR_TOKEN_REAL;
	lexer->next = c;
	return WEIR_OK;
}

static size_t put_utf8(char *out, uint32_t point)
{
	if (point < 0x80) {
		out[0] = (char)point;
		return 1;
	}
	if (point < 0x800) {
		out[0] = (char)(0xc0 | point >> 6);
		out[1] = (char)(0x80 | (point & 0x3f));
		return 2;
	}
	if (point < 0x10000) {
		out[0] = (char)(0xe0 | point >> 12);
		out[1] = (char)(0x80 | (point >> 6 & 0x3f));
		out[2] = (char)(0x80 | (point & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | point >> 18);
	out[1] = (char)(0x80 | (point >> 12 & 0x3f));
	out[2] = (char)(0x80 | (point >> 6 & 0x3f));
	out[3] = (char)(0x80 | (point & 0x3f));
	return 4;
}

/* One escape after its backslash, at *c; moves *c past it and returns the bytes written, or 0 with err set. */
static size_t lex_escape(struct weir_lexer *lexer, const char **c, bool is_bytes, char *out, struct weir_error *err)
{
	static const char simple[] = "\\\\''\"\"n\nt\tr\ra\ab\bf\fv\v";
	const char *at = *c - 1;
	int digits;
	uint32_t point = 0;

	for (size_t i = 0; i + 1 < sizeof(simple); i += 2) {
		if (**c == simple[i]) {
			*out = simple[i + 1];
			++*c;
			return 1;
		}
	}
	if (**c >= '0' && **c <= '7') {
		for (int i = 0; i < 3 && **c >= '0' && **c <= '7'; i++)
			point = point * 8 + (uint32_t)(*(*c)++ - '0');
	} else {
		digits = **c == 'x' ? 2 : **c == 'u' && !is_bytes ? 4 : **c == 'U' && !is_bytes ? 8 : 0;
		if (!digits) {
			weir_lex_fail(lexer, at, err, "unknown escape \\%.1s (r'…' takes backslashes as they are)", *c);
			return 0;
		}
		++*c;
		for (int i = 0; i < digits; i++, ++*c) {
			if (digit_value(**c) > 15) {
				weir_lex_fail(lexer, at, err, "the escape needs %d hexadecimal digits", digits);
				return 0;
			}
			point = point << 4 | (uint32_t)digit_value(**c);
		}
	}
	if (is_bytes && point <= 0xff) {
		*out = (char)point;
		return 1;
	}
	if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
		weir_lex_fail(lexer, at, err, "the escape is not a character");
		return 0;
	}
	return put_utf8(out, point);
}

static int lex_string(struct weir_lexer *lexer, struct weir_token *out, const char *quote, bool is_raw, bool is_bytes,
		      struct weir_error *err)
{
	const char *c = quote + 1, *end = c;
	char *bytes;
	size_t size = 0;

	while (*end && *end != *quote)
		end += *end == '\\' && end[1] ? 2 : 1;
	if (!*end)
		return weir_lex_fail(lexer, quote, err, "the string does not end");
	/* No escape is shorter than what it stands for. */
	bytes = weir_arena_alloc(lexer->arena, (size_t)(end - c) + 4, err);
	if (!bytes)
		return err->code;
	while (c < end) {
		if (*c == '\\' && !is_raw) {
			size_t more;

			c++;
			more = lex_escape(lexer, &c, is_bytes, bytes + size, err);
			if (!more)
				return err->code;
			size += more;
		} else {
			bytes[size++] = *c++;
		}
	}
	if (c != end)
		return weir_lex_fail(lexer, quote, err, "the string ends inside an escape");
	bytes[size] = 0;
	out->kind = is_bytes ? WEIR_TOKEN_BYTES : WEIR_TOKEN_TEXT;
	out->bytes = bytes;
	out->bytes_size = size;
	lexer->next = end + 1;
	return WEIR_OK;
}

int weir_lex_next(struct weir_lexer *lexer, struct weir_token *out, struct weir_error *err)
{
	static const char *const pairs[] = {"//", "**", "==", "!=", "<=", ">="};
	const char *c = lexer->next;
	int code = WEIR_OK;

	while (*c == ' ' || *c == '\t' || *c == '\n' || *c == '\r')
		c++;
	*out = (struct weir_token){.begin = c};
	if (!*c) {
		out->kind = WEIR_TOKEN_END;
		lexer->next = c;
	} else if (is_digit(*c) || (*c == '.' && is_digit(c[1]))) {
		code = lex_number(lexer, out, err);
	} else if (*c == '\'' || *c == '"') {
		code = lex_string(lexer, out, c, false, false, err);
	} else if (is_name_start(*c)) {
		const char *end = c;
		bool is_raw = false, is_bytes = false;

		while (is_name_part(*end))
			end++;
		for (const char *p = c; p < end && end - c <= 2; p++) {
			is_raw |= *p == 'r' || *p == 'R';
			is_bytes |= *p == 'b' || *p == 'B';
		}
		if ((*end == '\'' || *end == '"') && is_raw + is_bytes == end - c)
			code = lex_string(lexer, out, end, is_raw, is_bytes, err);
		else if (*end == '\'' || *end == '"')
			code = weir_lex_fail(lexer, c, err, "strings may begin with r or b, not with %.*s",
					     (int)(end - c), c);
		else
			lexer->next = end;
		if (!code && out->kind == WEIR_TOKEN_END)
			out->kind = WEIR_TOKEN_NAME;
	} else {
		out->kind = WEIR_TOKEN_SYMBOL;
		out->size = 0;
		for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
			if (!strncmp(c, pairs[i], 2))
				out->size = 2;
		}
		if (!out->size && strchr("+-*/%<>()[]{},:.&|~=", *c))
			out->size = 1;
		if (!out->size)
			code = weir_lex_fail(lexer, c, err, "unexpected character '%c'", *c);
		lexer->next = c + out->size;
	}
	out->size = (size_t)(lexer->next - c);
	return code;
}
