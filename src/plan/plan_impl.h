#ifndef WEIR_PLAN_PLAN_IMPL_H
#define WEIR_PLAN_PLAN_IMPL_H

#include "base/list.h"
#include "plan/plan.h"

struct weir_plan {
	struct weir_account *account;
	struct weir_arena arena;
	struct weir_op_env env;
	struct weir_node *root;
	struct WEIR_LIST(struct kept {
		void *object;
		void (*release)(void *object);
	}) kept;
	bool bound, optimised;
};

/* words.c: splits a text as a shell would; words in the arena. */
int weir_plan_split_text(struct weir_plan *plan, const char *text, const char *const **out, uint32_t *count,
			 struct weir_error *err);
/* A chain below `input` (NULL: begins with a source); *out is its last node. */
int weir_plan_chain(struct weir_plan *plan, const char *const *words, uint32_t count, struct weir_node *input,
		    struct weir_node **out, struct weir_error *err);
/* text.c: there is none; perhaps one like it. */
int weir_plan_unknown_verb(const char *word, struct weir_error *err);
struct weir_node *weir_plan_node(struct weir_plan *plan, const struct weir_op *op, struct weir_node *input,
				 struct weir_error *err);

#endif
