#include "ops/fragment.h"
#include "ops/node.h"

void weir_fragment_init(struct weir_fragment *fragment, struct weir_account *account)
{
	*fragment = (struct weir_fragment){.account = account};
}

int weir_fragment_source(struct weir_fragment *fragment, const struct weir_source_ops *ops, void *state)
{
	WEIR_ASSERT(!fragment->source_ops);
	fragment->source_ops = ops;
	fragment->source = state;
	return WEIR_OK;
}

int weir_fragment_step(struct weir_fragment *fragment, const struct weir_step_ops *ops, void *state,
		       struct weir_error *err)
{
	int code = weir_list_push(&fragment->steps, fragment->account, err,
				  (struct weir_fragment_step){.ops = ops, .state = state});

	if (code)
		ops->free(state);
	return code;
}

int weir_fragment_sink(struct weir_fragment *fragment, const struct weir_sink_ops *ops, void *state)
{
	WEIR_ASSERT(!fragment->sink_ops);
	fragment->sink_ops = ops;
	fragment->sink = state;
	return WEIR_OK;
}

void weir_fragment_limit_lanes(struct weir_fragment *fragment, uint32_t lanes_max)
{
	if (!fragment->lanes_max || lanes_max < fragment->lanes_max)
		fragment->lanes_max = lanes_max;
	fragment->lanes_strict = true;
}

int weir_fragment_cut(struct weir_fragment *fragment, const struct weir_schema *schema,
		      const struct weir_sink_ops *sink_ops, void *sink, const struct weir_source_ops *source_ops,
		      void *source, struct weir_error *err)
{
	struct weir_account *account = fragment->account;
	struct weir_fragment *before = weir_alloc(account, sizeof(*before), err);

	if (!before) {
		sink_ops->free(sink);
		source_ops->free(source);
		return err->code;
	}
	if (fragment->source_ops && fragment->source_ops->splits_join)
		fragment->source_ops->splits_join(fragment->source);
	*before = *fragment;
	before->schema = weir_schema_ref(schema);
	weir_fragment_sink(before, sink_ops, sink);
	weir_fragment_init(fragment, account);
	fragment->before = before;
	return weir_fragment_source(fragment, source_ops, source);
}

int weir_fragment_before(struct weir_fragment *fragment, const struct weir_schema *schema, struct weir_fragment *before,
			 struct weir_fragment **out, struct weir_error *err)
{
	struct weir_fragment **end = &fragment->before, *made = weir_alloc(fragment->account, sizeof(*made), err);

	if (!made) {
		weir_fragment_release(before);
		return err->code;
	}
	while (*end)
		end = &(*end)->next;
	*made = *before;
	made->next = NULL;
	made->schema = weir_schema_ref(schema);
	*end = *out = made;
	return WEIR_OK;
}

void weir_fragment_after(struct weir_fragment *fragment, struct weir_fragment *from)
{
	struct weir_fragment **end = &fragment->before;

	while (*end)
		end = &(*end)->next;
	*end = from->before;
	from->before = NULL;
}

void weir_fragment_end(struct weir_fragment *fragment)
{
	while (fragment->before) {
		struct weir_fragment *before = fragment->before;

		fragment->before = before->next;
		weir_fragment_release(before);
		weir_free(fragment->account, before, sizeof(*before));
	}
	for (size_t i = 0; i < fragment->steps.count; i++)
		fragment->steps.items[i].ops->free(fragment->steps.items[i].state);
	weir_list_release(&fragment->steps, fragment->account);
	if (fragment->source_ops)
		fragment->source_ops->free(fragment->source);
	fragment->source_ops = NULL;
	fragment->source = NULL;
}

void weir_fragment_release(struct weir_fragment *fragment)
{
	if (!fragment->account)
		return;
	if (fragment->sink_ops)
		fragment->sink_ops->free(fragment->sink);
	weir_fragment_end(fragment);
	weir_schema_unref(fragment->schema);
	*fragment = (struct weir_fragment){0};
}

void weir_shared_release(struct weir_shared *shared)
{
	if (shared->sink_ops)
		shared->sink_ops->free(shared->sink);
	*shared = (struct weir_shared){0};
}
