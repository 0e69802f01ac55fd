/* What operators share about expressions and columns: expressions kept by the plan, saved as their text, asked for
 * their columns; casts; nulls. */
#include "ops/ops_impl.h"

static void expr_release(void *object)
{
	weir_expr_free(object);
}

static void schema_release(void *object)
{
	weir_schema_unref(object);
}

int weir_op_keep_expr(struct weir_op_env *env, struct weir_expr *expr, struct weir_error *err)
{
	return env->keep(env, expr, expr_release, err);
}

int weir_op_keep_schema(struct weir_op_env *env, struct weir_schema *schema, struct weir_error *err)
{
	return env->keep(env, schema, schema_release, err);
}

int weir_op_parse_expr(struct weir_op_env *env, const char *text, struct weir_expr **out, struct weir_error *err)
{
	int code = weir_expr_parse(env->account, text, out, err);

	return code ? code : weir_op_keep_expr(env, *out, err);
}

int weir_op_save_expr(struct weir_save *save, const struct weir_expr *expr, struct weir_error *err)
{
	struct weir_text text;
	int code;

	weir_text_init(&text, save->out->account);
	code = weir_expr_print(expr, &text, err);
	if (!code)
		code = weir_save_string(save, text.data ? text.data : "", err);
	weir_text_release(&text);
	return code;
}

struct mark {
	const struct weir_schema *schema;
	struct weir_columns *columns;
	struct weir_error *err;
};

static int mark_column(void *context, const char *name)
{
	struct mark *mark = context;
	uint32_t column;
	int code = weir_schema_find(mark->schema, name, &column, mark->err);

	if (!code)
		mark->columns->wanted[column] = true;
	return code;
}

int weir_op_mark_columns(const struct weir_expr *expr, const struct weir_schema *schema, struct weir_columns *columns,
			 struct weir_error *err)
{
	struct mark mark = {.schema = schema, .columns = columns, .err = err};

	return weir_expr_columns(expr, mark_column, &mark);
}

int weir_op_cast_program(struct weir_account *account, const struct weir_schema *schema, uint32_t from,
			 const struct weir_type *type, struct weir_program **out, struct weir_error *err)
{
	struct weir_text name;
	struct weir_scalar scalar = {.type = weir_type_of(WEIR_STRING)};
	struct weir_expr *operands[2] = {NULL, NULL}, *cast;
	int code;

	weir_text_init(&name, account);
	code = weir_type_print(type, &name, err);
	if (!code) {
		scalar.bytes = weir_view_make(name.data, (uint32_t)name.size);
		operands[0] = weir_expr_column(account, schema->fields[from].name, err);
		operands[1] = operands[0] ? weir_expr_literal(account, &scalar, err) : NULL;
		if (!operands[1]) {
			code = err->code;
			weir_expr_free(operands[0]);
		}
	}
	if (!code) {
		cast = weir_expr_call(account, "cast", operands, 2, err);
		code = cast ? weir_program_new(account, cast, schema, out, err) : err->code;
		weir_expr_free(cast);
	}
	weir_text_release(&name);
	return code;
}

int weir_op_null_array(struct weir_account *account, const struct weir_type *type, struct weir_array **out,
		       struct weir_error *err)
{
	struct weir_builder builder = {0};
	int code = weir_builder_init(&builder, type, account, err);

	if (!code)
		code = weir_builder_null(&builder, WEIR_VECTOR_ROWS, err);
	if (!code) {
		*out = weir_builder_finish(&builder, err);
		code = *out ? WEIR_OK : err->code;
	}
	weir_builder_release(&builder);
	return code;
}
