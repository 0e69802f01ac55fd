/* From tree to program: names become column numbers, calls find their function, types are checked, constants folded. */
#include "base/hash.h"
#include "expr/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct weir_type *weir_program_keep(struct weir_program *program, const struct weir_type *type,
					  struct weir_error *err)
{
	if (!type || type->is_static)
		return type;
	if (weir_list_push(&program->types, program->account, err, type)) {
		weir_type_unref(type);
		return NULL;
	}
	return type;
}

int weir_program_own(struct weir_program *program, void (*release)(void *), void *it, struct weir_error *err)
{
	struct weir_resource resource = {.release = release, .it = it};
	int code = weir_list_push(&program->resources, program->account, err, resource);

	if (code)
		release(it);
	return code;
}

bool weir_node_is_constant(const struct weir_node *node)
{
	return node->kind == WEIR_NODE_CONSTANT;
}

bool weir_node_is_none(const struct weir_node *node)
{
	return node->type->id == WEIR_NULL || (node->kind == WEIR_NODE_CONSTANT && node->value.is_null);
}

/* The first column below a node, for messages. */
static const char *column_name(const struct weir_program *program, const struct weir_node *node)
{
	if (node->kind == WEIR_NODE_COLUMN)
		return program->schema->fields[node->column].name;
	for (uint32_t i = 0; i < node->count; i++) {
		const char *name = column_name(program, node->arguments[i]);

		if (name)
			return name;
	}
	return NULL;
}

int weir_bind_fail(struct weir_program *program, const struct weir_node *node, struct weir_error *err, int code,
		   const char *format, ...)
{
	const char *column = column_name(program, node);
	char message[700];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	weir_error_set(err, code, "%s: %s", node->text, message);
	weir_error_at_source(err, "expression");
	if (column)
		weir_error_at_column(err, column);
	return code;
}

struct weir_node *weir_bind_new(struct weir_program *program, struct weir_error *err)
{
	struct weir_node *node = weir_arena_alloc_zero(&program->arena, sizeof(*node), err);

	if (node) {
		node->number = program->node_count++;
		node->only_column = WEIR_NO_COLUMN;
		node->text = "";
	}
	return node;
}

int weir_bind_constant(struct weir_program *program, struct weir_node *node, const struct weir_type *type,
		       const struct weir_scalar *value, struct weir_error *err)
{
	struct weir_scalar null = {.type = type, .is_null = true};

	node->kind = WEIR_NODE_CONSTANT;
	node->type = type;
	node->value = value ? *value : null;
	node->value.type = type;
	node->count = 0;
	node->only_column = WEIR_NO_COLUMN;
	node->may_fail = false;
	node->values = node->stored;
	memset(node->stored, 0, sizeof(node->stored));
	if (node->value.is_null)
		return WEIR_OK;
	if ((type->layout == WEIR_LAYOUT_BYTES || type->id == WEIR_FIXED_BINARY) &&
	    value->bytes.size > WEIR_VIEW_INLINE) {
		uint8_t *bytes = weir_arena_alloc(&program->arena, value->bytes.size, err);

		if (!bytes)
			return err->code;
		memcpy(bytes, value->bytes.data, value->bytes.size);
		node->value.bytes = weir_view_make(bytes, value->bytes.size);
	}
	if (type->id == WEIR_FIXED_BINARY && type->byte_width > WEIR_SCALAR_STORE_MAX)
		node->values = weir_view_bytes(&node->value.bytes);
	else
		weir_scalar_store(&node->value, node->stored);
	return WEIR_OK;
}

/* Evaluates a node whose arguments are constants; when that fails it stays a call. */
static int fold(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	struct weir_evaluator evaluator;
	struct weir_vector vector = {.row_count = 1, .selection = {.count = 1}};
	struct weir_eval eval = {.vector = &vector, .selection = {.count = 1}, .row_count = 1};
	struct weir_column out;
	struct weir_scalar value;
	struct weir_error ignored = {0};
	int code;

	for (uint32_t i = 0; i < node->count; i++) {
		if (node->arguments[i]->kind != WEIR_NODE_CONSTANT)
			return WEIR_OK;
	}
	if (node->type->layout == WEIR_LAYOUT_NESTED || node->is_volatile)
		return WEIR_OK;
	weir_evaluator_init(&evaluator, program->account);
	eval.evaluator = &evaluator;
	eval.arena = &evaluator.arena;
	code = node->eval(&eval, node, &out, &ignored);
	if (!code) {
		weir_scalar_load(&out, 0, &value);
		code = weir_bind_constant(program, node, node->type, &value, err);
	} else if (weir_code_is_memory(code)) {
		*err = ignored;
	} else {
		code = WEIR_OK;
	}
	weir_evaluator_release(&evaluator);
	return code;
}

static void join_arguments(struct weir_node *node)
{
	for (uint32_t i = 0; i < node->count; i++) {
		const struct weir_node *argument = node->arguments[i];

		node->may_fail |= argument->may_fail;
		node->is_volatile |= argument->is_volatile;
		if (argument->only_column == WEIR_NO_COLUMN)
			continue;
		if (node->only_column == WEIR_NO_COLUMN)
			node->only_column = argument->only_column;
		else if (node->only_column != argument->only_column)
			node->only_column = WEIR_MANY_COLUMNS;
	}
}

static int finish_call(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_function *function = node->function;
	int code;

	if (node->count < function->count_min || (function->count_max != 255 && node->count > function->count_max)) {
		if (function->count_min == function->count_max)
			return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s takes %u argument%s, not %u",
					      function->name, function->count_min, function->count_min == 1 ? "" : "s",
					      node->count);
		return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s takes %u to %u arguments, not %u",
				      function->name, function->count_min, function->count_max, node->count);
	}
	node->op = function->op;
	code = function->bind(program, node, err);
	if (code || node->kind != WEIR_NODE_CALL)
		return code;
	WEIR_ASSERT(node->type && node->eval);
	join_arguments(node);
	/* Not once for each of a dictionary's values. */
	if (node->is_volatile)
		node->only_column = WEIR_MANY_COLUMNS;
	return fold(program, node, err);
}

struct weir_node *weir_bind_call(struct weir_program *program, const char *function, struct weir_node *const *arguments,
				 uint32_t count, const char *text, struct weir_error *err)
{
	struct weir_node *node = weir_bind_new(program, err);

	if (!node)
		return NULL;
	node->kind = WEIR_NODE_CALL;
	node->function = weir_function_find(function);
	WEIR_ASSERT(node->function);
	node->text = text;
	node->count = count;
	node->arguments = weir_arena_alloc(&program->arena, (count + 1) * sizeof(struct weir_node *), err);
	if (!node->arguments)
		return NULL;
	for (uint32_t i = 0; i < count; i++)
		node->arguments[i] = arguments[i];
	return finish_call(program, node, err) ? NULL : node;
}

int weir_bind_cast(struct weir_program *program, struct weir_node **argument, const struct weir_type *type,
		   bool checked, struct weir_error *err)
{
	struct weir_node *node, *inner = *argument;
	int code;

	if (weir_type_equal(inner->type, type, false) ||
	    (inner->type->layout == WEIR_LAYOUT_BYTES && type->layout == WEIR_LAYOUT_BYTES &&
	     weir_type_is_text(inner->type) == weir_type_is_text(type)))
		return WEIR_OK;
	node = weir_bind_new(program, err);
	if (!node)
		return err->code;
	if (weir_node_is_none(inner)) {
		*argument = node;
		return weir_bind_constant(program, node, type, NULL, err);
	}
	node->kind = WEIR_NODE_CALL;
	node->text = inner->text;
	node->count = 1;
	node->arguments = weir_arena_alloc(&program->arena, sizeof(struct weir_node *), err);
	if (!node->arguments)
		return err->code;
	node->arguments[0] = inner;
	code = weir_cast_bind(program, node, type, checked, err);
	if (code)
		return code;
	join_arguments(node);
	*argument = node;
	return fold(program, node, err);
}

/* The text of a node, cut when it is long. */
static const char *text_of(struct weir_program *program, const struct weir_expr *expr, struct weir_error *err)
{
	enum { TEXT_MAX = 120 };
	struct weir_text text;
	const char *out = NULL;

	weir_text_init(&text, program->account);
	if (!weir_expr_print(expr, &text, err)) {
		size_t size = text.size;

		while (size > TEXT_MAX || (size < text.size && (text.data[size] & 0xc0) == 0x80))
			size = size > TEXT_MAX ? TEXT_MAX : size - 1;
		out = size == text.size ? weir_arena_strndup(&program->arena, text.data, size, err)
					: weir_arena_printf(&program->arena, err, "%.*s…", (int)size, text.data);
	}
	weir_text_release(&text);
	return out;
}

/* A tree's hash, with its arguments' already in their nodes' place. */
static uint64_t hash_of(const struct weir_expr *expr)
{
	uint64_t hash = weir_hash_bytes(expr->name ? expr->name : "", expr->name ? strlen(expr->name) : 0, expr->kind);

	if (expr->kind == WEIR_EXPR_LITERAL)
		return hash + expr->value.unsigned_;
	for (uint32_t i = 0; i < expr->count; i++)
		hash = weir_hash_u64(hash ^ hash_of(expr->arguments[i])) + i;
	return hash;
}

static bool is_same(const struct weir_expr *a, const struct weir_expr *b)
{
	if (a->kind != b->kind || a->count != b->count || !a->name != !b->name || (a->name && strcmp(a->name, b->name)))
		return false;
	if (a->kind == WEIR_EXPR_LITERAL) {
		if (!weir_type_equal(a->value.type, b->value.type, false) || a->value.is_null != b->value.is_null)
			return false;
		if (a->value.is_null)
			return true;
		if (a->value.type->layout == WEIR_LAYOUT_BYTES || a->value.type->id == WEIR_FIXED_BINARY)
			return weir_view_equal(&a->value.bytes, &b->value.bytes);
		/* Not by ==: the zeros differ, and NaN is NaN. */
		return !memcmp(a->value.decimal, b->value.decimal,
			       weir_type_is_decimal(a->value.type) ? 32
			       : a->value.type->id == WEIR_BOOL    ? 1
								   : 8);
	}
	for (uint32_t i = 0; i < a->count; i++) {
		if (!is_same(a->arguments[i], b->arguments[i]))
			return false;
	}
	return true;
}

/* Deeper ones are never looked for: hashing is by walks over the tree. */
enum { SHARED_DEPTH_MAX = 12 };

static int bind_new(struct weir_program *program, const struct weir_expr *expr, struct weir_node **out,
		    struct weir_error *err);

static int bind(struct weir_program *program, const struct weir_expr *expr, struct weir_node **out,
		struct weir_error *err)
{
	struct weir_bound bound = {.expr = expr};
	uint32_t *bucket;
	int code;

	if (expr->kind != WEIR_EXPR_CALL || expr->depth > SHARED_DEPTH_MAX)
		return bind_new(program, expr, out, err);
	bound.hash = hash_of(expr);
	bucket = &program->buckets[bound.hash % WEIR_BOUND_BUCKETS];
	for (uint32_t at = *bucket; at; at = program->bound.items[at - 1].next) {
		const struct weir_bound *other = &program->bound.items[at - 1];

		if (other->hash == bound.hash && is_same(other->expr, expr)) {
			other->node->is_shared = true;
			*out = other->node;
			return WEIR_OK;
		}
	}
	code = bind_new(program, expr, out, err);
	/* Constants are converted where they stand, and a random number is a new one each time. */
	if (code || (*out)->kind != WEIR_NODE_CALL || (*out)->is_volatile)
		return code;
	bound.node = *out;
	bound.next = *bucket;
	code = weir_list_push(&program->bound, program->account, err, bound);
	if (!code)
		*bucket = (uint32_t)program->bound.count;
	return code;
}

static int bind_new(struct weir_program *program, const struct weir_expr *expr, struct weir_node **out,
		    struct weir_error *err)
{
	struct weir_node *node = weir_bind_new(program, err);
	int code;

	*out = node;
	if (!node || !(node->text = text_of(program, expr, err)))
		return err->code;
	switch (expr->kind) {
	case WEIR_EXPR_COLUMN:
		node->kind = WEIR_NODE_COLUMN;
		code = weir_schema_find(program->schema, expr->name, &node->column, err);
		if (code)
			return code;
		node->type = weir_type_values(program->schema->fields[node->column].type);
		node->only_column = (int32_t)node->column;
		return WEIR_OK;
	case WEIR_EXPR_LITERAL:
		/* The tree may die before the program. */
		node->type = weir_program_keep(program, weir_type_ref(expr->value.type), err);
		if (!node->type)
			return err->code;
		return weir_bind_constant(program, node, node->type, &expr->value, err);
	case WEIR_EXPR_CALL:
		break;
	}
	node->kind = WEIR_NODE_CALL;
	node->function = weir_function_find(expr->name);
	if (!node->function) {
		const char *nearest = weir_function_nearest(expr->name);

		weir_error_set(err, WEIR_E_NAME, "no function '%s'%s%s%s", expr->name,
			       nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
		weir_error_at_source(err, "expression");
		return WEIR_E_NAME;
	}
	node->count = expr->count;
	node->arguments = weir_arena_alloc_zero(&program->arena, (expr->count + 1) * sizeof(struct weir_node *), err);
	if (!node->arguments)
		return err->code;
	for (uint32_t i = 0; i < expr->count; i++) {
		code = bind(program, expr->arguments[i], &node->arguments[i], err);
		if (code)
			return code;
	}
	return finish_call(program, node, err);
}

static int list_conjuncts(struct weir_program *program, const struct weir_node *node, struct weir_error *err)
{
	int code = WEIR_OK;

	if (node->kind != WEIR_NODE_CALL || !node->function || strcmp(node->function->name, "and"))
		return weir_list_push(&program->conjuncts, program->account, err, node);
	for (uint32_t i = 0; !code && i < node->count; i++)
		code = list_conjuncts(program, node->arguments[i], err);
	return code;
}

/* Binds a copy of the tree, which lives as long as others may be compared with it. */
static int bind_root(struct weir_program *program, const struct weir_expr *expr, struct weir_node **root,
		     struct weir_error *err)
{
	struct weir_expr *kept = NULL;
	int code = weir_expr_clone(expr, program->account, &kept, err);

	if (!code) {
		code = weir_list_push(&program->trees, program->account, err, kept);
		if (code)
			weir_expr_free(kept);
	}
	if (!code)
		code = bind(program, kept, root, err);
	return code ? code : weir_list_push(&program->roots, program->account, err, *root);
}

int weir_program_extend(struct weir_program *program, const struct weir_expr *expr, uint32_t *root,
			struct weir_error *err)
{
	struct weir_node *node;
	int code = bind_root(program, expr, &node, err);

	*root = (uint32_t)program->roots.count - 1;
	if (code)
		weir_error_at_source(err, "expression");
	return code;
}

int weir_program_new(struct weir_account *account, const struct weir_expr *expr, const struct weir_schema *schema,
		     struct weir_program **out, struct weir_error *err)
{
	struct weir_program *program = weir_alloc_zero(account, sizeof(*program), err);
	int code;

	*out = NULL;
	if (!program)
		return err->code;
	program->account = account;
	weir_arena_init(&program->arena, account);
	program->schema = weir_schema_ref(schema);
	code = bind_root(program, expr, &program->root, err);
	if (!code) {
		program->type = program->root->kind == WEIR_NODE_COLUMN ? schema->fields[program->root->column].type
									: program->root->type;
		code = list_conjuncts(program, program->root, err);
	}
	if (!code && program->root->type->id == WEIR_BOOL)
		code = weir_program_list_equalities(program, err);
	if (code) {
		weir_error_at_source(err, "expression");
		weir_program_free(program);
		return code;
	}
	*out = program;
	return WEIR_OK;
}

void weir_program_free(struct weir_program *program)
{
	struct weir_account *account;

	if (!program)
		return;
	account = program->account;
	for (size_t i = 0; i < program->resources.count; i++)
		program->resources.items[i].release(program->resources.items[i].it);
	weir_list_release(&program->resources, account);
	for (size_t i = 0; i < program->types.count; i++)
		weir_type_unref(program->types.items[i]);
	weir_list_release(&program->types, account);
	weir_list_release(&program->conjuncts, account);
	weir_list_release(&program->equalities, account);
	for (size_t i = 0; i < program->trees.count; i++)
		weir_expr_free(program->trees.items[i]);
	weir_list_release(&program->trees, account);
	weir_list_release(&program->roots, account);
	weir_list_release(&program->bound, account);
	weir_schema_unref(program->schema);
	weir_arena_release(&program->arena);
	weir_free(account, program, sizeof(*program));
}

const struct weir_type *weir_program_type(const struct weir_program *program)
{
	return program->type;
}

static bool reads_column(const struct weir_node *node, uint32_t column)
{
	if (node->kind == WEIR_NODE_COLUMN)
		return node->column == column;
	for (uint32_t i = 0; i < node->count; i++) {
		if (reads_column(node->arguments[i], column))
			return true;
	}
	return false;
}

void weir_program_columns(const struct weir_program *program, void (*visit)(void *, uint32_t), void *context)
{
	for (uint32_t i = 0; i < program->schema->field_count; i++) {
		if (reads_column(program->root, i))
			visit(context, i);
	}
}
