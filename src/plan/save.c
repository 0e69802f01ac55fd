/* A plan as bytes:
 *
 *     "WEIRPLAN" │ u32 version │ node
 *     node:  string verb │ u32 bytes of what follows for the verb │ the operator's own │ u32 inputs │ node …
 *
 * What rules did is not saved: a plan is saved before optimise, and bound and optimised afresh where it is loaded.
 */
#include "ops/save.h"

#include "plan/plan_impl.h"

#include <string.h>

#define MAGIC "WEIRPLAN"
enum { VERSION = 1, DEPTH_MAX = 1000 };

static int save_node(const struct weir_node *node, struct weir_save *save, struct weir_error *err)
{
	size_t at;
	uint32_t inputs = 0, size;
	int code = weir_save_string(save, node->op->verb, err);

	at = save->out->size;
	if (!code)
		code = weir_save_u32(save, 0, err);
	if (!code)
		code = node->op->save(node, save, err);
	if (code)
		return code;
	size = (uint32_t)(save->out->size - at - 4);
	for (int i = 0; i < 4; i++)
		save->out->data[at + (size_t)i] = (char)(size >> 8 * i);
	/* A second input that was written as text is made again from it. */
	for (uint32_t i = 0; i < 2; i++)
		inputs += node->inputs[i] && !(i == 1 && weir_node_second_text(node));
	code = weir_save_u32(save, inputs, err);
	for (uint32_t i = 0; !code && i < inputs; i++)
		code = save_node(node->inputs[i], save, err);
	return code;
}

int weir_plan_save(const struct weir_plan *plan, struct weir_text *out, struct weir_error *err)
{
	struct weir_save save = {.out = out};
	int code;

	if (!plan->root)
		return weir_error_set(err, WEIR_E_INVALID, "the plan is empty");
	if (plan->optimised)
		return weir_error_set(err, WEIR_E_INVALID, "a plan is saved before it is optimised");
	code = weir_text_append(out, MAGIC, 8, err);
	if (!code)
		code = weir_save_u32(&save, VERSION, err);
	return code ? code : save_node(plan->root, &save, err);
}

static int load_node(struct weir_plan *plan, struct weir_load *load, uint32_t depth, struct weir_node **out,
		     struct weir_error *err)
{
	struct weir_load own = *load;
	const struct weir_op *op;
	const char *verb;
	uint32_t size, inputs;
	struct weir_node *node, *below[2] = {NULL, NULL};
	int code = weir_load_string(load, &verb, err);

	if (depth > DEPTH_MAX)
		return weir_error_set(err, WEIR_E_DATA, "the saved plan is more than %d operators deep", DEPTH_MAX);
	if (!code)
		code = weir_load_count(load, 1, &size, err);
	if (code)
		return code;
	op = verb ? weir_op_find(verb) : NULL;
	if (!op)
		return weir_error_set(err, WEIR_E_DATA,
				      "the saved plan has a verb '%s' that this version does not know",
				      verb ? verb : "");
	own = (struct weir_load){.next = load->next, .end = load->next + size, .arena = load->arena};
	load->next += size;
	code = weir_load_u32(load, &inputs, err);
	if (!code && (inputs > 2 || inputs > op->inputs_max || (op->inputs_min > 0 && inputs == 0)))
		code = weir_error_set(err, WEIR_E_DATA, "the saved plan gives '%s' %u inputs", verb, inputs);
	for (uint32_t i = 0; !code && i < inputs; i++)
		code = load_node(plan, load, depth + 1, &below[i], err);
	if (code)
		return code;
	node = weir_plan_node(plan, op, below[0], err);
	if (!node)
		return err->code;
	node->inputs[1] = below[1];
	code = op->load(&plan->env, node, &own, err);
	if (!code && own.next != own.end)
		code = weir_error_set(err, WEIR_E_DATA, "the saved plan has %zu bytes too many for '%s'",
				      (size_t)(own.end - own.next), verb);
	*out = node;
	return code;
}

int weir_plan_load(struct weir_plan *plan, const void *bytes, size_t size, struct weir_error *err)
{
	struct weir_load load = {.next = bytes, .end = (const uint8_t *)bytes + size, .arena = &plan->arena};
	uint32_t version;
	int code;

	if (size < 8 || memcmp(bytes, MAGIC, 8) != 0)
		return weir_error_set(err, WEIR_E_DATA, "these bytes are not a saved plan");
	load.next += 8;
	code = weir_load_u32(&load, &version, err);
	if (!code && version != VERSION)
		code = weir_error_set(err, WEIR_E_DATA, "the saved plan has version %u, this is version %d", version,
				      VERSION);
	if (!code)
		code = load_node(plan, &load, 0, &plan->root, err);
	if (!code && load.next != load.end)
		code = weir_error_set(err, WEIR_E_DATA, "the saved plan has bytes behind its end");
	plan->bound = plan->optimised = false;
	return code;
}
