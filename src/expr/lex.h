/* lex: the tokens of an expression, one at a time. */
#ifndef WEIR_EXPR_LEX_H
#define WEIR_EXPR_LEX_H

#include "base/arena.h"

enum weir_token_kind {
	WEIR_TOKEN_END,
	WEIR_TOKEN_NAME,   /* begin, size */
	WEIR_TOKEN_INT,    /* integer */
	WEIR_TOKEN_REAL,   /* real */
	WEIR_TOKEN_TEXT,   /* bytes, bytes_size: unescaped */
	WEIR_TOKEN_BYTES,  /* the same, b'…' */
	WEIR_TOKEN_SYMBOL, /* begin, size: one of + - * / // % ** == != < <= > >= ( ) [ ] { } , : . & | ~ */
};

struct weir_token {
	enum weir_token_kind kind;
	const char *begin;
	size_t size;
	uint64_t integer;
	double real;
	const char *bytes;
	size_t bytes_size;
};

struct weir_lexer {
	const char *text, *next;
	struct weir_arena *arena; /* for unescaped strings */
};

/* An error carries the byte offset in the text. */
int weir_lex_next(struct weir_lexer *lexer, struct weir_token *out, struct weir_error *err);
bool weir_token_is(const struct weir_token *token, const char *symbol_or_word);
int weir_lex_fail(const struct weir_lexer *lexer, const char *at, struct weir_error *err, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Whether a column's name may be written bare. */
bool weir_name_is_plain(const char *name);

#endif
