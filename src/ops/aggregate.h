/* aggregate: what "total = sum(price)" says, for the operators that compute it. */
#ifndef WEIR_OPS_AGGREGATE_H
#define WEIR_OPS_AGGREGATE_H

#include "ops/ops_impl.h"
#include "ops/summary.h"

enum weir_aggregate_function {
	WEIR_COUNT,
	WEIR_SUM,
	WEIR_MIN,
	WEIR_MAX,
	WEIR_ABSMAX,
	WEIR_MEAN,
	WEIR_STD,
	WEIR_MISSING_PERCENT,
	WEIR_ZERO_PERCENT,
	/* From here on the values themselves are needed, not only what some numbers say of them; of the last two, a
	 * sketch of them. */
	WEIR_QUANTILE,
	WEIR_UNIQUE_VALUES,
	WEIR_COUNT_DISTINCT,
	WEIR_LIST_VALUES,
	WEIR_VALUE_COUNTS,
	WEIR_APPROX_QUANTILE,
	WEIR_APPROX_TOP_K,
};

static inline bool weir_aggregate_is_holistic(enum weir_aggregate_function function)
{
	return function >= WEIR_QUANTILE;
}

struct weir_aggregate_item {
	const char *text; /* as written, for saving */
	const char *name; /* of the result */
	enum weir_aggregate_function function;
	const char *column; /* NULL: count() */
	int64_t ddof;       /* std's */
	bool with_nulls;    /* "nulls" was said: one null makes the result null, and count counts nulls too */
	/* quantile: q; approx_quantile: precision, then each q; approx_top_k: k, then the
	 * logarithm of how many values are counted. Defaults are filled in. */
	uint32_t number_count;
	const double *numbers;
	uint32_t summary; /* which of the summaries; UINT32_MAX: none */
};

/* Items of a verb, and the columns whose summaries they need, each once. */
struct weir_aggregates {
	uint32_t item_count, column_count;
	struct weir_aggregate_item *items;
	const char **columns;
	uint32_t *wants;  /* by column: weir_summary_wants */
	bool is_holistic; /* one of the items at least is */
};

int weir_aggregates_parse(struct weir_op_env *env, const struct weir_words *words, struct weir_aggregates *out,
			  struct weir_error *err);
int weir_aggregates_save(const struct weir_aggregates *aggregates, struct weir_save *save, struct weir_error *err);
int weir_aggregates_load(struct weir_op_env *env, struct weir_load *load, struct weir_aggregates *out,
			 struct weir_error *err);
int weir_aggregates_describe(const struct weir_aggregates *aggregates, struct weir_text *out, struct weir_error *err);
/* The columns are there, and of types for which the functions are defined. */
int weir_aggregates_check(const struct weir_aggregates *aggregates, const struct weir_schema *schema,
			  struct weir_error *err);
/* Only count, sum, min, max, absmax, mean and std: what summaries tell. The error names the verb that has the
 * others. */
int weir_aggregates_check_summaries(const struct weir_aggregates *aggregates, struct weir_error *err);
/* The type of an item's result; `type` is that of its column's values (NULL: count()). A new reference. */
const struct weir_type *weir_aggregate_type(struct weir_account *account, const struct weir_aggregate_item *item,
					    const struct weir_type *type, struct weir_error *err);
/* Fields of the results, one an item, whose types are new references; on failure some may be. The schema is checked. */
int weir_aggregates_fields(const struct weir_aggregates *aggregates, const struct weir_schema *schema,
			   struct weir_account *account, struct weir_field *fields, struct weir_error *err);
/* Rules of both operators: only the columns are needed, and what comes out stays. */
int weir_aggregates_needs(const struct weir_aggregates *aggregates, const struct weir_schema *schema,
			  struct weir_columns *needed, struct weir_error *err);

/* A lane's summaries, one a column; rows are pushed into all of them. */
struct weir_summaries {
	struct weir_account *account;
	struct weir_arena arena; /* of one vector */
	uint32_t count;
	struct weir_summary *items;
	uint32_t *numbers; /* of their columns in vectors */
	uint64_t rows;
	uint32_t rows_place[WEIR_VECTOR_ROWS];
};

int weir_summaries_init(struct weir_summaries *summaries, const struct weir_aggregates *aggregates,
			const struct weir_schema *schema, struct weir_account *account, struct weir_error *err);
void weir_summaries_reset(struct weir_summaries *summaries);
void weir_summaries_release(struct weir_summaries *summaries);
int weir_summaries_push(struct weir_summaries *summaries, struct weir_vector *vector, struct weir_error *err);
/* aggregate.c: the result of an item that summaries tell (count … std), behind the rows of a builder of its type. */
int weir_aggregate_put(const struct weir_aggregate_item *item, const struct weir_summaries *summaries, bool with_nulls,
		       const struct weir_type *type, struct weir_builder *out, struct weir_error *err);
/* The greater magnitude of two bounds, which are changed, as a value of the result's type. False: that of the least
 * int64 has no place. */
bool weir_aggregate_absmax(enum weir_summary_kind kind, const struct weir_type *type, struct weir_scalar *least,
			   struct weir_scalar *greatest, const struct weir_scalar **out);

#endif
