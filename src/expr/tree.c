/* Trees: making, copying, walking. The builders of expr.h copy their operands into one arena, which costs at most depth
 * times size, and depth is bounded. */
#include "expr/tree.h"

#include <math.h>
#include <string.h>

int weir_expr_owner_new(struct weir_account *account, struct weir_expr_owner **out, struct weir_error *err)
{
	struct weir_expr_owner *owner = weir_alloc_zero(account, sizeof(*owner), err);

	*out = owner;
	if (!owner)
		return err->code;
	owner->account = account;
	weir_arena_init(&owner->arena, account);
	return WEIR_OK;
}

void weir_expr_owner_free(struct weir_expr_owner *owner)
{
	struct weir_account *account;

	if (!owner)
		return;
	account = owner->account;
	for (size_t i = 0; i < owner->types.count; i++)
		weir_type_unref(owner->types.items[i]);
	weir_list_release(&owner->types, account);
	weir_arena_release(&owner->arena);
	weir_free(account, owner, sizeof(*owner));
}

static struct weir_expr *node_new(struct weir_expr_owner *owner, enum weir_expr_kind kind, struct weir_error *err)
{
	struct weir_expr *expr = weir_arena_alloc_zero(&owner->arena, sizeof(*expr), err);

	if (expr) {
		expr->kind = kind;
		expr->depth = 1;
	}
	return expr;
}

struct weir_expr *weir_tree_column(struct weir_expr_owner *owner, const char *name, size_t size, struct weir_error *err)
{
	struct weir_expr *expr = node_new(owner, WEIR_EXPR_COLUMN, err);

	if (expr && !(expr->name = weir_arena_strndup(&owner->arena, name, size, err)))
		return NULL;
	return expr;
}

struct weir_expr *weir_tree_literal(struct weir_expr_owner *owner, const struct weir_scalar *value,
				    struct weir_error *err)
{
	struct weir_expr *expr = node_new(owner, WEIR_EXPR_LITERAL, err);

	if (!expr)
		return NULL;
	expr->value = *value;
	if (!value->type->is_static) {
		if (weir_list_reserve(&owner->types, owner->account, err, owner->types.count + 1))
			return NULL;
		owner->types.items[owner->types.count++] = weir_type_ref(value->type);
	}
	if (!value->is_null && (value->type->layout == WEIR_LAYOUT_BYTES || value->type->id == WEIR_FIXED_BINARY)) {
		uint32_t size = value->bytes.size;

		if (size > WEIR_VIEW_INLINE) {
			char *bytes = weir_arena_alloc(&owner->arena, size, err);

			if (!bytes)
				return NULL;
			memcpy(bytes, value->bytes.data, size);
			expr->value.bytes = weir_view_make(bytes, size);
		}
	}
	return expr;
}

/* −(5) is the number −5, so that what is printed for a negative number is read back as one. */
static bool negate_literal(struct weir_scalar *value)
{
	if (value->is_null)
		return false;
	if (value->type->id == WEIR_INT64 && value->integer > 0) {
		value->integer = -value->integer;
		return true;
	}
	if (value->type->id == WEIR_UINT64 && value->unsigned_ == (uint64_t)INT64_MAX + 1) {
		*value = (struct weir_scalar){.type = weir_type_of(WEIR_INT64), .integer = INT64_MIN};
		return true;
	}
	if (value->type->id == WEIR_DOUBLE && !signbit(value->real) && isfinite(value->real)) {
		value->real = -value->real;
		return true;
	}
	return false;
}

struct weir_expr *weir_tree_call(struct weir_expr_owner *owner, const char *name, size_t size,
				 struct weir_expr *const *arguments, uint32_t count, struct weir_error *err)
{
	struct weir_expr *expr;

	if (count == 1 && size == 6 && !memcmp(name, "negate", 6) && arguments[0]->kind == WEIR_EXPR_LITERAL) {
		struct weir_scalar value = arguments[0]->value;

		if (negate_literal(&value))
			return weir_tree_literal(owner, &value, err);
	}
	expr = node_new(owner, WEIR_EXPR_CALL, err);
	if (!expr || !(expr->name = weir_arena_strndup(&owner->arena, name, size, err)))
		return NULL;
	expr->count = count;
	expr->arguments = weir_arena_alloc(&owner->arena, (count + 1) * sizeof(*expr->arguments), err);
	if (!expr->arguments)
		return NULL;
	for (uint32_t i = 0; i < count; i++) {
		expr->arguments[i] = arguments[i];
		if (arguments[i]->depth >= expr->depth)
			expr->depth = arguments[i]->depth + 1;
	}
	if (expr->depth > WEIR_EXPR_DEPTH_MAX) {
		weir_error_set(err, WEIR_E_SYNTAX, "the expression is nested more than %u levels deep",
			       WEIR_EXPR_DEPTH_MAX);
		return NULL;
	}
	return expr;
}

static struct weir_expr *copy_replacing(struct weir_expr_owner *owner, const struct weir_expr *expr,
					const struct weir_expr *(*lookup)(void *, const char *), void *context,
					struct weir_error *err)
{
	if (expr->kind == WEIR_EXPR_COLUMN) {
		const struct weir_expr *instead = lookup ? lookup(context, expr->name) : NULL;

		if (instead)
			return copy_replacing(owner, instead, NULL, NULL, err);
		return weir_tree_column(owner, expr->name, strlen(expr->name), err);
	}
	if (expr->kind == WEIR_EXPR_LITERAL)
		return weir_tree_literal(owner, &expr->value, err);

	struct weir_expr **arguments = weir_arena_alloc(&owner->arena, (expr->count + 1) * sizeof(struct weir_expr *),
							err);
	if (!arguments)
		return NULL;
	for (uint32_t i = 0; i < expr->count; i++) {
		arguments[i] = copy_replacing(owner, expr->arguments[i], lookup, context, err);
		if (!arguments[i])
			return NULL;
	}
	return weir_tree_call(owner, expr->name, strlen(expr->name), arguments, expr->count, err);
}

struct weir_expr *weir_tree_copy(struct weir_expr_owner *owner, const struct weir_expr *expr, struct weir_error *err)
{
	return copy_replacing(owner, expr, NULL, NULL, err);
}

void weir_expr_free(struct weir_expr *expr)
{
	if (!expr)
		return;
	WEIR_ASSERT(expr->owner);
	weir_expr_owner_free(expr->owner);
}

int weir_expr_clone(const struct weir_expr *expr, struct weir_account *account, struct weir_expr **out,
		    struct weir_error *err)
{
	return weir_expr_substitute(expr, NULL, NULL, account, out, err);
}

int weir_expr_substitute(const struct weir_expr *expr, const struct weir_expr *(*lookup)(void *, const char *),
			 void *context, struct weir_account *account, struct weir_expr **out, struct weir_error *err)
{
	struct weir_expr_owner *owner;
	int code = weir_expr_owner_new(account, &owner, err);

	*out = NULL;
	if (code)
		return code;
	*out = copy_replacing(owner, expr, lookup, context, err);
	if (!*out) {
		code = err->code;
		weir_expr_owner_free(owner);
		return code;
	}
	(*out)->owner = owner;
	return WEIR_OK;
}

struct seen {
	const struct weir_expr *root;
	int (*visit)(void *context, const char *name);
	void *context;
};

/* Whether `name` occurs before `until` in the walk; sets *reached there. Small trees: the square of a few. */
static bool occurs_before(const struct weir_expr *expr, const struct weir_expr *until, bool *reached)
{
	if (expr == until) {
		*reached = true;
		return false;
	}
	if (expr->kind == WEIR_EXPR_COLUMN)
		return !strcmp(expr->name, until->name);
	for (uint32_t i = 0; expr->kind == WEIR_EXPR_CALL && i < expr->count; i++) {
		if (occurs_before(expr->arguments[i], until, reached))
			return true;
		if (*reached)
			return false;
	}
	return false;
}

static int visit_columns(const struct seen *seen, const struct weir_expr *expr)
{
	if (expr->kind == WEIR_EXPR_COLUMN) {
		bool reached = false;

		return occurs_before(seen->root, expr, &reached) ? 0 : seen->visit(seen->context, expr->name);
	}
	for (uint32_t i = 0; expr->kind == WEIR_EXPR_CALL && i < expr->count; i++) {
		int stop = visit_columns(seen, expr->arguments[i]);

		if (stop)
			return stop;
	}
	return 0;
}

int weir_expr_columns(const struct weir_expr *expr, int (*visit)(void *context, const char *name), void *context)
{
	struct seen seen = {.root = expr, .visit = visit, .context = context};

	return visit_columns(&seen, expr);
}

int weir_expr_conjuncts(const struct weir_expr *expr, int (*visit)(void *, const struct weir_expr *), void *context)
{
	if (!weir_expr_is_call(expr, "and"))
		return visit(context, expr);
	for (uint32_t i = 0; i < expr->count; i++) {
		int stop = weir_expr_conjuncts(expr->arguments[i], visit, context);

		if (stop)
			return stop;
	}
	return 0;
}

const char *weir_expr_column_name(const struct weir_expr *expr)
{
	return expr->kind == WEIR_EXPR_COLUMN ? expr->name : NULL;
}

uint32_t weir_expr_depth(const struct weir_expr *expr)
{
	return expr->depth;
}

struct weir_expr *weir_expr_column(struct weir_account *account, const char *name, struct weir_error *err)
{
	struct weir_expr_owner *owner;
	struct weir_expr *expr;

	if (weir_expr_owner_new(account, &owner, err))
		return NULL;
	expr = weir_tree_column(owner, name, strlen(name), err);
	if (expr)
		expr->owner = owner;
	else
		weir_expr_owner_free(owner);
	return expr;
}

struct weir_expr *weir_expr_literal(struct weir_account *account, const struct weir_scalar *value,
				    struct weir_error *err)
{
	struct weir_expr_owner *owner;
	struct weir_expr *expr;

	if (weir_expr_owner_new(account, &owner, err))
		return NULL;
	expr = weir_tree_literal(owner, value, err);
	if (expr)
		expr->owner = owner;
	else
		weir_expr_owner_free(owner);
	return expr;
}

struct weir_expr *weir_expr_call(struct weir_account *account, const char *function, struct weir_expr **arguments,
				 uint32_t count, struct weir_error *err)
{
	struct weir_expr_owner *owner = NULL;
	struct weir_expr **copies = NULL, *expr = NULL;

	for (uint32_t i = 0; i < count; i++) {
		/* An operand that failed to be built: its error stands. */
		if (!arguments[i])
			goto out;
	}
	if (weir_expr_owner_new(account, &owner, err))
		goto out;
	copies = weir_arena_alloc(&owner->arena, (count + 1) * sizeof(struct weir_expr *), err);
	if (!copies)
		goto out;
	for (uint32_t i = 0; i < count; i++) {
		copies[i] = weir_tree_copy(owner, arguments[i], err);
		if (!copies[i])
			goto out;
	}
	expr = weir_tree_call(owner, function, strlen(function), copies, count, err);
out:
	for (uint32_t i = 0; i < count; i++)
		weir_expr_free(arguments[i]);
	if (expr)
		expr->owner = owner;
	else
		weir_expr_owner_free(owner);
	return expr;
}
