/* The list of operators: the one place that names them all. */
#include "ops/ops_impl.h"

#include <string.h>

static const struct weir_op *const ops[] = {
	&weir_op_read,   &weir_op_range,     &weir_op_filter,    &weir_op_select, &weir_op_with,
	&weir_op_rename, &weir_op_drop,      &weir_op_limit,     &weir_op_union,  &weir_op_count,
	&weir_op_write,  &weir_op_collect,   &weir_op_batches,   &weir_op_sample, &weir_op_profile,
	&weir_op_check,  &weir_op_transform, &weir_op_source,    &weir_op_blocks, &weir_op_chunks,
	&weir_op_keep,   &weir_op_aggregate, &weir_op_summarise, &weir_op_group,  &weir_op_unique,
	&weir_op_sort,   &weir_op_shuffle,   &weir_op_groups,    &weir_op_join,   &weir_op_repartition,
	&weir_op_top,
};

const struct weir_op *weir_op_find(const char *verb)
{
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		if (strcmp(ops[i]->verb, verb) == 0)
			return ops[i];
	}
	return NULL;
}

static bool takes_value(const char *const *options, const char *name)
{
	size_t length = strlen(name);

	for (; options && *options; options++) {
		if (strncmp(*options, name, length) == 0 && (*options)[length] == '=')
			return true;
	}
	return false;
}

bool weir_op_option_takes_value(const struct weir_op *op, const char *name)
{
	const char *const *more;

	if (takes_value(op->options, name))
		return true;
	for (uint32_t n = 0; op->options_more && (more = op->options_more(n)); n++) {
		if (takes_value(more, name))
			return true;
	}
	return false;
}

const struct weir_op *const *weir_op_list(uint32_t *count)
{
	*count = sizeof(ops) / sizeof(*ops);
	return ops;
}

int weir_node_build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		    struct weir_error *err)
{
	/* An operator with two inputs builds them itself, each into a fragment of its own. */
	if (node->inputs[0] && !node->inputs[1]) {
		int code = weir_node_build(env, node->inputs[0], fragment, err);

		if (code)
			return code;
	}
	return node->op->build(env, node, fragment, err);
}
