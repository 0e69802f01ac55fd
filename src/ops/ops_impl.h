/* What the operators share among themselves. */
#ifndef WEIR_OPS_OPS_IMPL_H
#define WEIR_OPS_OPS_IMPL_H

#include "ops/fragment.h"
#include "ops/node.h"
#include "ops/save.h"

extern const struct weir_op weir_op_read, weir_op_range, weir_op_filter, weir_op_select, weir_op_with, weir_op_rename,
	weir_op_drop, weir_op_limit, weir_op_union, weir_op_count, weir_op_write, weir_op_collect, weir_op_batches,
	weir_op_sample, weir_op_profile, weir_op_check, weir_op_transform, weir_op_source, weir_op_blocks,
	weir_op_chunks, weir_op_keep, weir_op_aggregate, weir_op_summarise, weir_op_sort, weir_op_group, weir_op_unique,
	weir_op_shuffle, weir_op_groups, weir_op_join, weir_op_repartition, weir_op_top;

/* words.c */
/* Checks the number of arguments and that every option is in the NULL-terminated list `options` ("mode=" takes a value,
 * "fsync" is bare); `usage` goes into the message. */
int weir_words_expect(const struct weir_words *words, const char *usage, uint32_t count_min, uint32_t count_max,
		      const char *const *options, struct weir_error *err);
/* The value of an option, or NULL when it is absent ("" for a bare one). */
const char *weir_words_option(const struct weir_words *words, const char *name);
/* The option --seed, a whole number of 64 bits; absent, `out` stays. */
int weir_words_seed(const struct weir_words *words, uint64_t *out, struct weir_error *err);
/* "1000", "1_000_000", "10k", "5M" (decimal): a count of rows. */
int weir_parse_count(const char *text, int64_t *out, struct weir_error *err);
/* Splits "a, b,c" at commas outside quotes and brackets; each part trimmed and in the arena. */
int weir_words_split(struct weir_op_env *env, const char *text, const char *const **out, uint32_t *count,
		     struct weir_error *err);

/* A column's name as it is written: trims blanks and one pair of quotes around the whole, in which a backslash stands
 * before a quote or a backslash. In the arena; NULL with err set. */
char *weir_words_name(struct weir_op_env *env, const char *begin, const char *end, struct weir_error *err);

/* op_lane.c: memory of one lane of an operator, all zero but for its first member: an account of its own below
 * `parent`. lane_free takes care of everything else in it before weir_op_lane_free. */
void *weir_op_lane_new(struct weir_account *parent, size_t size, const char *name, struct weir_error *err);
void weir_op_lane_free(void *lane, size_t size);

/* For operators that have nothing to save. */
int weir_op_save_nothing(const struct weir_node *node, struct weir_save *save, struct weir_error *err);
int weir_op_load_nothing(struct weir_op_env *env, struct weir_node *node, struct weir_load *load,
			 struct weir_error *err);
/* For operators that have rows or functions of this program: saving is an error, and so is loading. */
int weir_op_save_never(const struct weir_node *node, struct weir_save *save, struct weir_error *err);
int weir_op_load_never(struct weir_op_env *env, struct weir_node *node, struct weir_load *load, struct weir_error *err);

/* words.c: whether a column holds pickled Python objects. Files give none, and get their bytes where that is asked
 * for. */
bool weir_op_is_object(const struct weir_field *field);

/* The error of a sink that hands its result to the program, when nobody takes it. */
int weir_op_no_consumer(const struct weir_node *node, struct weir_error *err);

/* columns.c: expressions that the plan keeps. */
int weir_op_keep_expr(struct weir_op_env *env, struct weir_expr *expr,
		      struct weir_error *err); /* frees it on failure */
int weir_op_keep_schema(struct weir_op_env *env, struct weir_schema *schema, struct weir_error *err);
int weir_op_parse_expr(struct weir_op_env *env, const char *text, struct weir_expr **out, struct weir_error *err);
int weir_op_save_expr(struct weir_save *save, const struct weir_expr *expr, struct weir_error *err);
/* Sets wanted[i] for each column that the expression reads. */
int weir_op_mark_columns(const struct weir_expr *expr, const struct weir_schema *schema, struct weir_columns *columns,
			 struct weir_error *err);

/* cast(column `from`, type) over a schema's columns. */
int weir_op_cast_program(struct weir_account *account, const struct weir_schema *schema, uint32_t from,
			 const struct weir_type *type, struct weir_program **out, struct weir_error *err);

/* As many nulls as a vector has rows at most: a nested column that is missing. */
int weir_op_null_array(struct weir_account *account, const struct weir_type *type, struct weir_array **out,
		       struct weir_error *err);

/* read_bounds.c: of the columns of a bound read, as many as its schema has, what all footers together say; bytes are in
 * the plan's arena. Not known: some column's nulls or bounds would have to be looked for in the data (nested ones do
 * not count). A column without values has no bounds. */
int weir_read_bounds(struct weir_op_env *env, const struct weir_node *node, struct weir_bounds *bounds, bool *known,
		     struct weir_error *err);

/* rules.c: for operators whose columns are those of their input. needs_same: they may add some behind. */
int weir_op_needs_same(struct weir_op_env *env, const struct weir_node *node, uint32_t input,
		       const struct weir_columns *wanted, struct weir_columns *needed, struct weir_error *err);
int weir_op_narrow_same(struct weir_op_env *env, struct weir_node *node, const struct weir_narrowing *narrowing,
			struct weir_columns *kept, struct weir_error *err);
/* For operators whose columns stay all there, whichever are wanted. */
int weir_op_narrow_nothing(struct weir_op_env *env, struct weir_node *node, const struct weir_narrowing *narrowing,
			   struct weir_columns *kept, struct weir_error *err);
/* The columns with these names are needed. */
int weir_op_needs_names(const struct weir_schema *schema, const char *const *names, uint32_t count,
			struct weir_columns *needed, struct weir_error *err);
/* They are there, and of types that fit; the error ends in `why_not`. */
int weir_op_check_types(const struct weir_schema *schema, const char *const *names, uint32_t count,
			bool (*fits)(const struct weir_type *type), const char *why_not, struct weir_error *err);
/* None of them, which are there, holds Python objects: their bytes are pickles, which tell nothing but equality. */
int weir_op_check_no_objects(const struct weir_schema *schema, const char *const *names, uint32_t count,
			     const char *why_not, struct weir_error *err);

#endif
