/* plan: what is to be done, as a tree of logical operators; rules that improve it; the way to a fragment; bytes and
 * back.
 *
 *     parse | load | add ─▶ bind ─▶ optimise ─▶ build ─▶ run by a backend
 *
 * One thread at a time. A plan is immutable after optimise; it must outlive the fragments built from it.
 */
#ifndef WEIR_PLAN_PLAN_H
#define WEIR_PLAN_PLAN_H

#include "ops/fragment.h"
#include "ops/node.h"

struct weir_plan;

int weir_plan_new(struct weir_account *account, struct weir_io *io, struct weir_plan **out, struct weir_error *err);
void weir_plan_free(struct weir_plan *plan);

/* The verb chain of the command: words "read", "a.parquet", "then", "filter", "x > 1", …; options (--name [value]) that
 * a verb does not know are WEIR_E_INVALID. */
int weir_plan_parse_words(struct weir_plan *plan, const char *const *words, uint32_t count, struct weir_error *err);
/* The same in one text, split as a shell would (quotes, backslashes). */
int weir_plan_parse_text(struct weir_plan *plan, const char *text, struct weir_error *err);
/* How many letters are to be changed, added or left out to make one verb of another: for "did you mean". */
unsigned weir_verb_distance(const char *a, const char *b);
/* Puts one operator on top (what the words do, for programs). */
int weir_plan_add(struct weir_plan *plan, const char *verb, const struct weir_words *words, struct weir_error *err);
/* Takes the nodes off, to put others beside them (union); and puts them back. The plan keeps owning them. */
struct weir_node *weir_plan_take_root(struct weir_plan *plan);
void weir_plan_set_root(struct weir_plan *plan, struct weir_node *root);
struct weir_node *weir_plan_root(const struct weir_plan *plan);
struct weir_op_env *weir_plan_env(struct weir_plan *plan);

/* Types every node; reads what schemas need (first footers). */
int weir_plan_bind(struct weir_plan *plan, struct weir_error *err);
/* Pushes filters, projections and limits down (rules.c). Needs bind. */
int weir_plan_optimise(struct weir_plan *plan, struct weir_error *err);
int weir_plan_build(struct weir_plan *plan, struct weir_fragment *out, struct weir_error *err);

/* As it stands: a tree with a line per operator, estimates, what was pushed where. */
int weir_plan_explain(const struct weir_plan *plan, struct weir_text *out, struct weir_error *err);

/* Bytes and back: versioned, little endian; unbound. A loaded plan is bound afresh. Hostile bytes are WEIR_E_DATA. */
int weir_plan_save(const struct weir_plan *plan, struct weir_text *out, struct weir_error *err);
int weir_plan_load(struct weir_plan *plan, const void *bytes, size_t size, struct weir_error *err);

#endif
