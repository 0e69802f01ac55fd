/* tree: the untyped tree of an expression. Everything is a column, a literal or a call; operators are calls of
 * functions with fixed names ("add", "lt", "and" …), so that text and builders meet in one form.
 *
 * A tree is immutable. Its root owns the arena in which all nodes lie; other nodes have owner NULL.
 */
#ifndef WEIR_EXPR_TREE_H
#define WEIR_EXPR_TREE_H

#include "base/list.h"
#include "expr/expr.h"

/* Deeper trees are refused, by the parser and the builders, so that everything else may recurse. */
#define WEIR_EXPR_DEPTH_MAX 200u

enum weir_expr_kind { WEIR_EXPR_COLUMN, WEIR_EXPR_LITERAL, WEIR_EXPR_CALL };

struct weir_expr_owner {
	struct weir_account *account;
	struct weir_arena arena;
	struct weir_expr_types WEIR_LIST(const struct weir_type *) types; /* references of literals */
};

struct weir_expr {
	enum weir_expr_kind kind;
	uint32_t depth;
	const char *name; /* COLUMN: the column's; CALL: the function's */
	struct weir_scalar value;
	uint32_t count;
	struct weir_expr **arguments;
	struct weir_expr_owner *owner;
};

int weir_expr_owner_new(struct weir_account *account, struct weir_expr_owner **out, struct weir_error *err);
void weir_expr_owner_free(struct weir_expr_owner *owner);

/* Nodes in an owner's arena; NULL with err set. `name` is copied, the bytes of a literal too. */
struct weir_expr *weir_tree_column(struct weir_expr_owner *owner, const char *name, size_t size,
				   struct weir_error *err);
struct weir_expr *weir_tree_literal(struct weir_expr_owner *owner, const struct weir_scalar *value,
				    struct weir_error *err);
/* Keeps `arguments` as they are. A minus before a number becomes part of the number. */
struct weir_expr *weir_tree_call(struct weir_expr_owner *owner, const char *name, size_t size,
				 struct weir_expr *const *arguments, uint32_t count, struct weir_error *err);
struct weir_expr *weir_tree_copy(struct weir_expr_owner *owner, const struct weir_expr *expr, struct weir_error *err);

static inline bool weir_expr_is_call(const struct weir_expr *expr, const char *name)
{
	return expr->kind == WEIR_EXPR_CALL && !__builtin_strcmp(expr->name, name);
}

/* Operators with a symbol, loosest first; as Python binds them. */
enum weir_binding {
	WEIR_BIND_NONE,
	WEIR_BIND_IF,
	WEIR_BIND_OR,
	WEIR_BIND_AND,
	WEIR_BIND_NOT,
	WEIR_BIND_COMPARE,
	WEIR_BIND_BAR,
	WEIR_BIND_AMPERSAND,
	WEIR_BIND_SUM,
	WEIR_BIND_PRODUCT,
	WEIR_BIND_UNARY,
	WEIR_BIND_POWER,
	WEIR_BIND_POSTFIX,
};

#endif
