/* function: what the operators share that call C functions of the program: transform.c and source.c.
 *
 * A definition is the program's struct, completed (struct_size is this library's) with copies of its texts; counted,
 * since flows, their copies and running plans share it. The last one to let go calls the program's release. */
#ifndef WEIR_OPS_FUNCTION_H
#define WEIR_OPS_FUNCTION_H

#include "weir/weir.h"
#include "arrow/cdata.h"
#include "ops/node.h"

/* What a function of the program gets with each call. */
struct weir_context {
	const char *name;
	const _Atomic bool *cancelled; /* NULL: nobody can tell */
	uint32_t thread;
	char text[1024]; /* what weir_context_fail was given; empty: it was not called */
};

/* The error for a call that did not return 0. */
int weir_context_failed(const struct weir_context *context, const char *what, int returned, struct weir_error *err);

struct weir_transform_function {
	struct weir_transform def;
	_Atomic uint32_t refs;
};
struct weir_source_function {
	struct weir_source def;
	_Atomic uint32_t refs;
};

/* Copies `given` as far as its struct_size goes; checks it. Plain memory: it may outlive a session. */
int weir_transform_function_new(const struct weir_transform *given, struct weir_transform_function **out,
				struct weir_error *err);
void weir_transform_function_unref(struct weir_transform_function *function);
int weir_source_function_new(const struct weir_source *given, struct weir_source_function **out,
			     struct weir_error *err);
void weir_source_function_unref(struct weir_source_function *function);

/* On a node of the verb "transform" or "source", before bind; takes a reference of its own. */
int weir_transform_set(struct weir_op_env *env, struct weir_node *node, struct weir_transform_function *function,
		       struct weir_error *err);
int weir_source_set(struct weir_op_env *env, struct weir_node *node, struct weir_source_function *function,
		    struct weir_error *err);

/* "id: int64 not null, name: string" as a schema. `what` and `name` go into the message. */
int weir_function_schema(struct weir_account *account, const char *columns, struct weir_schema **out,
			 struct weir_error *err);
/* What a function gave (taken over, also on failure), as a batch of `schema`. `given` is the schema that came with it
 * (taken over), or all-zero when there was none. Says what is wrong with it in the words of whoever wrote the
 * function. */
int weir_function_import(struct weir_account *account, const struct weir_schema *schema, struct ArrowSchema *given,
			 struct ArrowArray *array, struct weir_batch **out, struct weir_error *err);

#endif
