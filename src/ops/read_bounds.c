/* What the footers of a read's files say of its columns, all files together. */
#include "expr/scalar.h"
#include "ops/read_impl.h"

#include <string.h>

/* Adds a file's bounds of one column to those so far. `type` outlives the file. */
static int add_bounds(struct weir_op_env *env, const struct weir_type *type, struct weir_bounds *total,
		      const struct weir_bounds *file, struct weir_error *err)
{
	bool first = !total->min.type;

	total->row_count += file->row_count;
	total->has_null_count &= file->has_null_count;
	total->null_count += file->null_count;
	if (file->has_null_count && file->null_count == file->row_count)
		return WEIR_OK; /* no values: nothing to know of them */
	total->has_min &= file->has_min;
	total->has_max &= file->has_max;
	for (int side = 0; side < 2; side++) {
		struct weir_scalar *to = side ? &total->max : &total->min;
		const struct weir_scalar *from = side ? &file->max : &file->min;
		int order;

		if (side ? !total->has_max : !total->has_min)
			continue;
		order = first ? 0 : weir_scalar_compare(from, to);
		if (!first && (side ? order <= 0 : order >= 0))
			continue;
		*to = *from;
		to->type = type;
		if (weir_type_is_float(type))
			to->real += 0.0; /* a bound of -0.0 stands for both zeros */
		if (from->type->layout == WEIR_LAYOUT_BYTES || from->type->id == WEIR_FIXED_BINARY) {
			uint8_t *bytes = weir_arena_alloc(env->arena, from->bytes.size + 1u, err);

			if (!bytes)
				return err->code;
			memcpy(bytes, weir_view_bytes(&from->bytes), from->bytes.size);
			to->bytes = weir_view_make(bytes, from->bytes.size);
		}
	}
	return WEIR_OK;
}

int weir_read_bounds(struct weir_op_env *env, const struct weir_node *node, struct weir_bounds *bounds, bool *known,
		     struct weir_error *err)
{
	const struct read_config *config = node->config;
	const struct weir_schema *schema = node->schema;
	struct read_files files = {0};
	struct weir_listed listed;
	bool done = false, unreadable;
	int code;

	*known = false;
	if (node->op != &weir_op_read || !config->format->column_bounds)
		return WEIR_OK;
	for (uint32_t i = 0; i < schema->field_count; i++)
		bounds[i] = (struct weir_bounds){.has_null_count = true, .has_min = true, .has_max = true};
	code = weir_read_files_init(&files, env->account, config, NULL, weir_read_missing_untold, NULL, err);
	*known = true;
	while (!code && *known) {
		struct weir_format_file *file = NULL;

		code = weir_read_files_next(&files, &listed, &done, err);
		if (code || done)
			break;
		code = weir_read_open(env->account, config, listed.path, &file, &unreadable, err);
		if (!code && unreadable)
			continue;
		for (uint32_t i = 0; !code && *known && i < schema->field_count; i++) {
			const struct weir_field *field = &schema->fields[i];
			struct weir_bounds one;
			uint32_t column = 0;

			while (column < file->schema->field_count &&
			       strcmp(file->schema->fields[column].name, field->name) != 0)
				column++;
			/* Partitions, missing columns and casts: the rows have to be looked at. */
			if (column == file->schema->field_count ||
			    !weir_type_equal(file->schema->fields[column].type, field->type, false)) {
				*known = false;
				break;
			}
			config->format->column_bounds(file, column, &one);
			code = add_bounds(env, weir_type_values(field->type), &bounds[i], &one, err);
			if (weir_type_is_nested(weir_type_values(field->type)))
				continue;
			*known &= bounds[i].has_null_count &&
				  ((bounds[i].has_min && bounds[i].has_max) || field->type->id == WEIR_NULL);
		}
		weir_format_file_unref(file);
	}
	weir_read_files_release(&files);
	return code;
}
