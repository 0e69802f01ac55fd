/* The tree for people: the last operator on top, each input below it, estimates at the end of the line. */
#include "plan/plan_impl.h"

static int print_est(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	char bytes[32];
	int code = WEIR_OK;

	if (node->rows_est >= 0)
		code = weir_text_printf(out, err, "   ~%lld rows", (long long)node->rows_est);
	if (!code && node->bytes_est >= 0)
		code = weir_text_printf(out, err, "%s%s", node->rows_est >= 0 ? ", " : "   ~",
					weir_format_bytes(node->bytes_est, bytes, sizeof(bytes)));
	return code;
}

static int print_node(const struct weir_node *node, unsigned depth, struct weir_text *out, struct weir_error *err)
{
	int code = WEIR_OK;

	for (unsigned i = 0; !code && i < depth; i++)
		code = weir_text_puts(out, i + 1 == depth ? "└─ " : "   ", err);
	if (!code)
		code = node->op->describe(node, out, err);
	if (!code && node->schema)
		code = print_est(node, out, err);
	if (!code)
		code = weir_text_puts(out, "\n", err);
	for (uint32_t i = 0; !code && i < 2; i++) {
		if (node->inputs[i])
			code = print_node(node->inputs[i], depth + 1, out, err);
	}
	return code;
}

int weir_plan_explain(const struct weir_plan *plan, struct weir_text *out, struct weir_error *err)
{
	if (!plan->root)
		return weir_text_puts(out, "(empty)\n", err);
	return print_node(plan->root, 0, out, err);
}
