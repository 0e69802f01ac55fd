/* A Pratt parser for Python's expressions: one function reads an operand, then takes operators as long as they bind
 * tighter than what stands to the left.
 *
 *     a < b < c          and(lt(a, b), lt(b, c))
 *     a and b and c      and(a, b, c)                  one call, however long
 *     x.lower()          lower(x)
 *     x.y, x["y"]        field(x, "y")
 *     x[1], x[1:]        element(x, 1), slice(x, 1, None)
 *     x in (1, 2)        in(x, 1, 2)                   parentheses, brackets or braces: a list of values
 *     x in y             contains(y, x)
 *     a if c else b      if_else(c, a, b)
 *     -5                 the number −5
 *     literal("1.50", "decimal128(5, 2)")              a literal of that type
 */
#include "base/utf8.h"
#include "expr/lex.h"
#include "expr/scalar.h"
#include "expr/tree.h"

#include <stdio.h>
#include <string.h>

struct parser {
	struct weir_lexer lexer;
	struct weir_token token; /* the next one, not taken yet */
	struct weir_expr_owner *owner;
	struct weir_error *err;
	uint32_t depth;
	bool failed; /* err is set: everything unwinds */
};

/* Parentheses make no node: a tree that may be printed needs up to two levels here for each of its own. */
enum { PARSE_DEPTH_MAX = 2 * WEIR_EXPR_DEPTH_MAX + 50 };

struct arguments WEIR_LIST(struct weir_expr *);

static struct weir_expr *parse(struct parser *parser, enum weir_binding binding);

static struct weir_expr *fail(struct parser *parser, const char *at, const char *what)
{
	if (!parser->failed)
		weir_lex_fail(&parser->lexer, at, parser->err, "%s", what);
	parser->failed = true;
	return NULL;
}

static struct weir_expr *check(struct parser *parser, struct weir_expr *expr)
{
	if (!expr)
		parser->failed = true;
	return expr;
}

static void advance(struct parser *parser)
{
	if (!parser->failed && weir_lex_next(&parser->lexer, &parser->token, parser->err))
		parser->failed = true;
}

static bool accept(struct parser *parser, const char *symbol)
{
	if (parser->failed || !weir_token_is(&parser->token, symbol))
		return false;
	advance(parser);
	return !parser->failed;
}

static bool expect(struct parser *parser, const char *symbol)
{
	const struct weir_token *token = &parser->token;

	if (accept(parser, symbol))
		return true;
	if (!parser->failed) {
		if (token->kind == WEIR_TOKEN_END)
			weir_lex_fail(&parser->lexer, token->begin, parser->err,
				      "expected '%s' but the expression ends here", symbol);
		else
			weir_lex_fail(&parser->lexer, token->begin, parser->err, "expected '%s' but found '%.*s'",
				      symbol, (int)(token->size > 40 ? 40 : token->size), token->begin);
		parser->failed = true;
	}
	return false;
}

static struct weir_expr *literal(struct parser *parser, const struct weir_scalar *value)
{
	return check(parser, weir_tree_literal(parser->owner, value, parser->err));
}

static struct weir_expr *text_literal(struct parser *parser, const char *bytes, size_t size, enum weir_type_id type)
{
	struct weir_scalar value = {.type = weir_type_of(type), .bytes = weir_view_make(bytes, (uint32_t)size)};

	if (size > UINT32_MAX / 2)
		return fail(parser, parser->token.begin, "the string is too long");
	return literal(parser, &value);
}

static struct weir_expr *call(struct parser *parser, const char *name, uint32_t count, struct weir_expr *a,
			      struct weir_expr *b, struct weir_expr *c)
{
	struct weir_expr *arguments[3] = {a, b, c};

	for (uint32_t i = 0; i < count; i++) {
		if (!arguments[i])
			return NULL;
	}
	return check(parser, weir_tree_call(parser->owner, name, strlen(name), arguments, count, parser->err));
}

/* Expressions with commas up to `close`, which is taken; false when failed. */
static bool parse_list(struct parser *parser, const char *close, struct arguments *out)
{
	while (!accept(parser, close)) {
		struct weir_expr *one = parse(parser, WEIR_BIND_NONE);

		if (!one)
			return false;
		if (weir_list_push(out, parser->owner->account, parser->err, one)) {
			parser->failed = true;
			return false;
		}
		if (!weir_token_is(&parser->token, close) && !expect(parser, ","))
			return false;
	}
	return !parser->failed;
}

static struct weir_expr *call_list(struct parser *parser, const char *name, size_t size, const struct arguments *list)
{
	return check(parser,
		     weir_tree_call(parser->owner, name, size, list->items, (uint32_t)list->count, parser->err));
}

static bool is_text(const struct weir_expr *expr)
{
	return expr->kind == WEIR_EXPR_LITERAL && expr->value.type->id == WEIR_STRING && !expr->value.is_null;
}

/* col("any name") and literal("text", "type") are not calls. */
static struct weir_expr *special_call(struct parser *parser, const struct weir_token *name,
				      const struct arguments *list, bool *is_special)
{
	*is_special = true;
	if (weir_token_is(name, "col") && list->count == 1 && is_text(list->items[0])) {
		const struct weir_view *view = &list->items[0]->value.bytes;

		if (memchr(weir_view_bytes(view), 0, view->size))
			return fail(parser, name->begin, "a column's name holds no zero byte");
		return check(parser, weir_tree_column(parser->owner, (const char *)weir_view_bytes(view), view->size,
						      parser->err));
	}
	if (weir_token_is(name, "literal") && list->count == 2 && is_text(list->items[0]) && is_text(list->items[1])) {
		const struct weir_view *text = &list->items[0]->value.bytes, *type = &list->items[1]->value.bytes;
		char *type_text = weir_arena_strndup(&parser->owner->arena, (const char *)weir_view_bytes(type),
						     type->size, parser->err);
		const struct weir_type *parsed = type_text ? weir_type_parse(parser->owner->account, type_text,
									     parser->err)
							   : NULL;
		struct weir_scalar value = {0};
		struct weir_expr *expr = NULL;

		if (parsed &&
		    !weir_scalar_parse(parsed, (const char *)weir_view_bytes(text), text->size, &value, parser->err))
			expr = weir_tree_literal(parser->owner, &value, parser->err);
		weir_type_unref(parsed);
		return check(parser, expr);
	}
	*is_special = false;
	return NULL;
}

static struct weir_expr *parse_call(struct parser *parser, const struct weir_token *name, struct weir_expr *self)
{
	struct arguments list = {0};
	struct weir_expr *expr = NULL;
	bool is_special = false;

	if (self && weir_list_push(&list, parser->owner->account, parser->err, self)) {
		parser->failed = true;
		goto out;
	}
	if (!parse_list(parser, ")", &list))
		goto out;
	if (!self)
		expr = special_call(parser, name, &list, &is_special);
	if (!is_special)
		expr = call_list(parser, name->begin, name->size, &list);
out:
	weir_list_release(&list, parser->owner->account);
	return expr;
}

static struct weir_expr *parse_name(struct parser *parser)
{
	struct weir_token name = parser->token;
	static const struct {
		const char *word;
		int value;
	} words[] = {{"True", 1}, {"true", 1}, {"False", 0}, {"false", 0}, {"None", 2}, {"null", 2}};
	static const char *const reserved[] = {"and", "or", "in", "is", "if", "else", "lambda", "for", "await"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (weir_token_is(&name, words[i].word)) {
			struct weir_scalar value = {.type = weir_type_of(words[i].value == 2 ? WEIR_NULL : WEIR_BOOL),
						    .is_null = words[i].value == 2,
						    .boolean = words[i].value == 1};

			advance(parser);
			return parser->failed ? NULL : literal(parser, &value);
		}
	}
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
		if (weir_token_is(&name, reserved[i])) {
			char what[80];

			snprintf(what, sizeof(what), "'%s' cannot stand here", reserved[i]);
			return fail(parser, name.begin, what);
		}
	}
	advance(parser);
	if (accept(parser, "("))
		return parse_call(parser, &name, NULL);
	return parser->failed ? NULL
			      : check(parser, weir_tree_column(parser->owner, name.begin, name.size, parser->err));
}

static struct weir_expr *parse_operand(struct parser *parser)
{
	struct weir_token token = parser->token;
	struct weir_scalar value = {0};
	struct weir_expr *inner;

	switch (token.kind) {
	case WEIR_TOKEN_NAME:
		return parse_name(parser);
	case WEIR_TOKEN_INT:
		advance(parser);
		if (token.integer > INT64_MAX)
			value = (struct weir_scalar){.type = weir_type_of(WEIR_UINT64), .unsigned_ = token.integer};
		else
			value = (struct weir_scalar){.type = weir_type_of(WEIR_INT64),
						     .integer = (int64_t)token.integer};
		return parser->failed ? NULL : literal(parser, &value);
	case WEIR_TOKEN_REAL:
		advance(parser);
		value = (struct weir_scalar){.type = weir_type_of(WEIR_DOUBLE), .real = token.real};
		return parser->failed ? NULL : literal(parser, &value);
	case WEIR_TOKEN_TEXT:
	case WEIR_TOKEN_BYTES:
		advance(parser);
		return parser->failed ? NULL
				      : text_literal(parser, token.bytes, token.bytes_size,
						     token.kind == WEIR_TOKEN_TEXT ? WEIR_STRING : WEIR_BINARY);
	case WEIR_TOKEN_END:
		return fail(parser, token.begin, "the expression ends where a value is expected");
	case WEIR_TOKEN_SYMBOL:
		break;
	}
	if (accept(parser, "(")) {
		inner = parse(parser, WEIR_BIND_NONE);
		if (inner && weir_token_is(&parser->token, ","))
			return fail(parser, parser->token.begin, "a list of values can only stand after 'in'");
		return inner && expect(parser, ")") ? inner : NULL;
	}
	if (parser->failed)
		return NULL;
	if (weir_token_is(&token, "[") || weir_token_is(&token, "{"))
		return fail(parser, token.begin, "a list of values can only stand after 'in'");
	return fail(parser, token.begin, "expected a value here");
}

static struct weir_expr *parse_subscript(struct parser *parser, struct weir_expr *base)
{
	struct weir_scalar none = {.type = weir_type_of(WEIR_NULL), .is_null = true};
	struct weir_expr *from, *to;

	if (weir_token_is(&parser->token, ":"))
		from = literal(parser, &none);
	else
		from = parse(parser, WEIR_BIND_NONE);
	if (!from)
		return NULL;
	if (accept(parser, ":")) {
		to = weir_token_is(&parser->token, "]") ? literal(parser, &none) : parse(parser, WEIR_BIND_NONE);
		if (to && weir_token_is(&parser->token, ":"))
			return fail(parser, parser->token.begin, "slices have no step");
		return to && expect(parser, "]") ? call(parser, "slice", 3, base, from, to) : NULL;
	}
	if (!expect(parser, "]"))
		return NULL;
	return call(parser, is_text(from) ? "field" : "element", 2, base, from, NULL);
}

/* Words of the language, and the two calls that are none, would not be read back as they are printed. */
static bool may_be_method(const struct weir_token *name)
{
	char word[16];

	if (name->size >= sizeof(word))
		return true;
	memcpy(word, name->begin, name->size);
	word[name->size] = 0;
	return weir_name_is_plain(word) && strcmp(word, "col") && strcmp(word, "literal");
}

static struct weir_expr *parse_postfix(struct parser *parser, struct weir_expr *base)
{
	while (base && !parser->failed) {
		if (accept(parser, ".")) {
			struct weir_token name = parser->token;

			if (name.kind != WEIR_TOKEN_NAME)
				return fail(parser, name.begin, "expected a name after '.'");
			advance(parser);
			if (accept(parser, "("))
				base = may_be_method(&name) ? parse_call(parser, &name, base)
							    : fail(parser, name.begin, "no method can have this name");
			else if (!parser->failed)
				base = call(parser, "field", 2, base,
					    text_literal(parser, name.begin, name.size, WEIR_STRING), NULL);
		} else if (accept(parser, "[")) {
			base = parse_subscript(parser, base);
		} else {
			break;
		}
	}
	return parser->failed ? NULL : base;
}

/* After `in`: a list in any brackets, or one value that contains. */
static struct weir_expr *parse_in(struct parser *parser, struct weir_expr *left)
{
	const char *close = weir_token_is(&parser->token, "(")   ? ")"
			    : weir_token_is(&parser->token, "[") ? "]"
			    : weir_token_is(&parser->token, "{") ? "}"
								 : NULL;
	struct arguments list = {0};
	struct weir_expr *expr = NULL;

	if (!close)
		return call(parser, "contains", 2, parse(parser, WEIR_BIND_COMPARE + 1), left, NULL);
	advance(parser);
	if (parser->failed)
		return NULL;
	if (weir_list_push(&list, parser->owner->account, parser->err, left))
		parser->failed = true;
	else if (parse_list(parser, close, &list))
		expr = call_list(parser, "in", 2, &list);
	weir_list_release(&list, parser->owner->account);
	return expr;
}

static const char *comparison_name(const struct weir_token *token)
{
	static const char *const table[][2] = {{"==", "eq"}, {"!=", "ne"}, {"<", "lt"},
					       {"<=", "le"}, {">", "gt"},  {">=", "ge"}};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (weir_token_is(token, table[i][0]))
			return table[i][1];
	}
	return NULL;
}

/* All comparisons in a row, Python's way: a < b < c means a < b and b < c. */
static struct weir_expr *parse_comparisons(struct parser *parser, struct weir_expr *left)
{
	struct arguments parts = {0};
	struct weir_expr *expr = NULL;

	while (!parser->failed) {
		struct weir_token at = parser->token;
		const char *name = comparison_name(&at);
		struct weir_expr *one, *right = NULL;

		if (weir_token_is(&at, "="))
			fail(parser, at.begin, "'=' compares nothing; equality is '=='");
		if (name) {
			advance(parser);
			right = parser->failed ? NULL : parse(parser, WEIR_BIND_COMPARE + 1);
			one = right ? call(parser, name, 2, left, right, NULL) : NULL;
		} else if (accept(parser, "in")) {
			one = parse_in(parser, left);
		} else if (accept(parser, "not")) {
			one = expect(parser, "in") ? call(parser, "not", 1, parse_in(parser, left), NULL, NULL) : NULL;
		} else if (accept(parser, "is")) {
			bool negated = accept(parser, "not");

			if (!accept(parser, "None") && !accept(parser, "null")) {
				one = fail(parser, parser->token.begin,
					   "'is' can only be followed by None or not None");
			} else {
				one = call(parser, negated ? "is_valid" : "is_null", 1, left, NULL, NULL);
			}
		} else {
			break;
		}
		if (!one)
			break;
		if (weir_list_push(&parts, parser->owner->account, parser->err, one)) {
			parser->failed = true;
			break;
		}
		if (!right)
			break; /* what follows `in` and `is` has no value to go on with */
		left = right;
	}
	if (!parser->failed && parts.count)
		expr = parts.count == 1 ? parts.items[0] : call_list(parser, "and", 3, &parts);
	weir_list_release(&parts, parser->owner->account);
	return expr;
}

/* a and b and c …: one call of all. */
static struct weir_expr *parse_logic(struct parser *parser, struct weir_expr *left, const char *symbol,
				     const char *name, enum weir_binding binding)
{
	struct arguments parts = {0};
	struct weir_expr *expr = NULL, *one = left;

	do {
		if (!one || weir_list_push(&parts, parser->owner->account, parser->err, one)) {
			parser->failed = true;
			break;
		}
		if (!accept(parser, symbol))
			break;
		one = parse(parser, binding + 1);
	} while (true);
	if (!parser->failed)
		expr = call_list(parser, name, strlen(name), &parts);
	weir_list_release(&parts, parser->owner->account);
	return expr;
}

static struct weir_expr *parse_prefix(struct parser *parser)
{
	struct weir_expr *operand;

	if (accept(parser, "not"))
		return call(parser, "not", 1, parse(parser, WEIR_BIND_NOT), NULL, NULL);
	if (accept(parser, "~"))
		return call(parser, "not", 1, parse(parser, WEIR_BIND_UNARY), NULL, NULL);
	if (accept(parser, "-"))
		return call(parser, "negate", 1, parse(parser, WEIR_BIND_UNARY), NULL, NULL);
	if (accept(parser, "+"))
		return parse(parser, WEIR_BIND_UNARY);
	operand = parser->failed ? NULL : parse_operand(parser);
	return operand ? parse_postfix(parser, operand) : NULL;
}

struct infix {
	const char *symbol, *name;
	enum weir_binding binding;
};

static const struct infix infixes[] = {
	{"+", "add", WEIR_BIND_SUM},
	{"-", "subtract", WEIR_BIND_SUM},
	{"*", "multiply", WEIR_BIND_PRODUCT},
	{"/", "divide", WEIR_BIND_PRODUCT},
	{"//", "floor_divide", WEIR_BIND_PRODUCT},
	{"%", "mod", WEIR_BIND_PRODUCT},
};

static struct weir_expr *parse_infix(struct parser *parser, struct weir_expr *left, enum weir_binding binding,
				     bool *took)
{
	const struct weir_token *token = &parser->token;

	*took = true;
	for (size_t i = 0; i < sizeof(infixes) / sizeof(infixes[0]); i++) {
		if (infixes[i].binding >= binding && accept(parser, infixes[i].symbol))
			return call(parser, infixes[i].name, 2, left, parse(parser, infixes[i].binding + 1), NULL);
	}
	if (binding <= WEIR_BIND_POWER && accept(parser, "**"))
		/* To the right, and −2 may stand there: 2 ** -1. */
		return call(parser, "power", 2, left, parse(parser, WEIR_BIND_UNARY), NULL);
	if (binding <= WEIR_BIND_AMPERSAND && weir_token_is(token, "&"))
		return parse_logic(parser, left, "&", "and", WEIR_BIND_AMPERSAND);
	if (binding <= WEIR_BIND_BAR && weir_token_is(token, "|"))
		return parse_logic(parser, left, "|", "or", WEIR_BIND_BAR);
	if (binding <= WEIR_BIND_COMPARE &&
	    (comparison_name(token) || weir_token_is(token, "in") || weir_token_is(token, "not") ||
	     weir_token_is(token, "is") || weir_token_is(token, "=")))
		return parse_comparisons(parser, left);
	if (binding <= WEIR_BIND_AND && weir_token_is(token, "and"))
		return parse_logic(parser, left, "and", "and", WEIR_BIND_AND);
	if (binding <= WEIR_BIND_OR && weir_token_is(token, "or"))
		return parse_logic(parser, left, "or", "or", WEIR_BIND_OR);
	if (binding <= WEIR_BIND_IF && accept(parser, "if")) {
		struct weir_expr *condition = parse(parser, WEIR_BIND_OR), *other;

		if (!condition || !expect(parser, "else"))
			return NULL;
		other = parse(parser, WEIR_BIND_IF);
		return call(parser, "if_else", 3, condition, left, other);
	}
	*took = false;
	return left;
}

static struct weir_expr *parse(struct parser *parser, enum weir_binding binding)
{
	struct weir_expr *left;
	bool took = true;

	if (parser->failed)
		return NULL;
	if (++parser->depth > PARSE_DEPTH_MAX) {
		char what[80];

		snprintf(what, sizeof(what), "the expression is nested more than %u levels deep", WEIR_EXPR_DEPTH_MAX);
		return fail(parser, parser->token.begin, what);
	}
	left = parse_prefix(parser);
	while (left && took && !parser->failed)
		left = parse_infix(parser, left, binding, &took);
	parser->depth--;
	return parser->failed ? NULL : left;
}

int weir_expr_parse(struct weir_account *account, const char *text, struct weir_expr **out, struct weir_error *err)
{
	struct parser parser = {.lexer = {.text = text, .next = text}, .err = err};
	size_t size = strlen(text), valid = weir_utf8_valid_prefix(text, size);
	struct weir_expr *expr;
	int code;

	*out = NULL;
	if (valid != size)
		return weir_lex_fail(&parser.lexer, text + valid, err, "the expression is not valid UTF-8");
	code = weir_expr_owner_new(account, &parser.owner, err);
	if (code)
		return code;
	parser.lexer.arena = &parser.owner->arena;
	advance(&parser);
	expr = parse(&parser, WEIR_BIND_NONE);
	if (expr && parser.token.kind != WEIR_TOKEN_END) {
		char what[80];

		snprintf(what, sizeof(what), "did not expect '%.*s' here",
			 (int)(parser.token.size > 40 ? 40 : parser.token.size), parser.token.begin);
		expr = fail(&parser, parser.token.begin, what);
	}
	if (!expr) {
		code = err->code;
		weir_expr_owner_free(parser.owner);
		return code;
	}
	expr->owner = parser.owner;
	*out = expr;
	return WEIR_OK;
}
