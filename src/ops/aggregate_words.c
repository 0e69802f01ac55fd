/* What aggregate and summarise share: the words, and a lane's summaries. */
#include "ops/aggregate.h"

#include "ops/ops_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What a function takes behind the column: so many numbers, the last of them again and again where `repeats`. */
static const struct {
	const char *name;
	uint32_t wants;
	uint32_t numbers_max;
	bool repeats;
	double defaults[2];
} functions[] = {
	[WEIR_COUNT] = {"count", 0, 0, false, {0}},
	[WEIR_SUM] = {"sum", WEIR_WANTS_SUM, 0, false, {0}},
	[WEIR_MIN] = {"min", WEIR_WANTS_BOUNDS, 0, false, {0}},
	[WEIR_MAX] = {"max", WEIR_WANTS_BOUNDS, 0, false, {0}},
	[WEIR_ABSMAX] = {"absmax", WEIR_WANTS_BOUNDS, 0, false, {0}},
	[WEIR_MEAN] = {"mean", WEIR_WANTS_SUM, 0, false, {0}},
	[WEIR_STD] = {"std", WEIR_WANTS_SUM | WEIR_WANTS_SQUARES, 1, false, {1}},
	[WEIR_MISSING_PERCENT] = {"missing_percent", 0, 0, false, {0}},
	[WEIR_ZERO_PERCENT] = {"zero_percent", 0, 0, false, {0}},
	[WEIR_QUANTILE] = {"quantile", 0, 1, false, {0.5}},
	[WEIR_UNIQUE_VALUES] = {"unique", 0, 0, false, {0}},
	[WEIR_COUNT_DISTINCT] = {"count_distinct", 0, 0, false, {0}},
	[WEIR_LIST_VALUES] = {"list", 0, 0, false, {0}},
	[WEIR_VALUE_COUNTS] = {"value_counts", 0, 0, false, {0}},
	[WEIR_APPROX_QUANTILE] = {"approx_quantile", 0, 2, true, {800, 0.5}},
	[WEIR_APPROX_TOP_K] = {"approx_top_k", 0, 2, false, {10, 15}},
};
enum { LOG_CAPACITY_MAX = 24 };
static const uint32_t function_count = sizeof(functions) / sizeof(*functions);

static const char *skip_blanks(const char *p)
{
	while (isspace((unsigned char)*p))
		p++;
	return p;
}

static int refuse(const char *text, const char *what, struct weir_error *err)
{
	return weir_error_set(
		err, WEIR_E_SYNTAX,
		"'%s': %s (examples: sum(price), total = sum(price), std(price, 0), count(); functions: count, "
		"sum, min, max, absmax, mean, std, missing_percent, zero_percent, quantile, unique, "
		"count_distinct, list, value_counts, approx_quantile, approx_top_k)",
		text, what);
}

/* What others call functions that are there. */
static const struct {
	const char *theirs, *ours;
} other_words[] = {
	{"avg", "mean(…)"},
	{"average", "mean(…)"},
	{"median", "quantile(…, 0.5)"},
	{"stddev", "std(…)"},
	{"stdev", "std(…)"},
	{"nunique", "count_distinct(…)"},
	{"n_unique", "count_distinct(…)"},
	{"distinct", "unique(…)"},
	{"cnt", "count()"},
	{"len", "count()"},
	{"size", "count()"},
	{"total", "sum(…)"},
	{"maximum", "max(…)"},
	{"minimum", "min(…)"},
	{"collect", "list(…)"},
	{"array_agg", "list(…)"},
	{"percentile", "quantile(…, 0.9)"},
};

static int refuse_function(const char *text, const char *begin, const char *end, struct weir_error *err)
{
	size_t size = (size_t)(end - begin);
	char what[96] = "there is no such function";

	while (size > 0 && isspace((unsigned char)begin[size - 1]))
		size--;
	for (uint32_t i = 0; i < function_count; i++) {
		if (strlen(functions[i].name) == size && !strncasecmp(begin, functions[i].name, size))
			snprintf(what, sizeof(what), "there is no such function; did you mean %s(…)?",
				 functions[i].name);
	}
	for (size_t i = 0; i < sizeof(other_words) / sizeof(other_words[0]); i++) {
		if (strlen(other_words[i].theirs) == size && !strncasecmp(begin, other_words[i].theirs, size))
			snprintf(what, sizeof(what), "there is no such function; did you mean %s?",
				 other_words[i].ours);
	}
	return refuse(text, what, err);
}

/* The numbers behind the column, checked; the absent ones are the defaults. */
static int numbers_parse(struct weir_op_env *env, const char *const *parts, uint32_t count,
			 struct weir_aggregate_item *item, struct weir_error *err)
{
	uint32_t max = functions[item->function].numbers_max, all = count > max ? count : max;
	double *numbers = weir_arena_alloc_zero(env->arena, (all + 1) * sizeof(*numbers), err);

	if (!numbers)
		return err->code;
	if (count > max && !functions[item->function].repeats)
		return refuse(item->text, "it has too many arguments", err);
	for (uint32_t i = 0; i < all; i++) {
		bool is_share = item->function == WEIR_QUANTILE || (item->function == WEIR_APPROX_QUANTILE && i > 0);
		char *rest = "";

		numbers[i] = i < count ? strtod(parts[i], &rest) : functions[item->function].defaults[i];
		if (*rest || (i < count && rest == parts[i]))
			return refuse(item->text, "an argument is not a number", err);
		if (is_share && !(numbers[i] >= 0 && numbers[i] <= 1))
			return refuse(item->text, "a quantile is a number from 0 to 1", err);
		if (item->function == WEIR_APPROX_TOP_K && i == 1 && numbers[i] > LOG_CAPACITY_MAX)
			return refuse(item->text, "the third argument is a whole number from 1 to 24", err);
		if (!is_share && !(numbers[i] >= (item->function == WEIR_STD ? 0 : 1) && numbers[i] <= 1e9 &&
				   numbers[i] == (double)(int64_t)numbers[i]))
			return refuse(item->text,
				      item->function == WEIR_STD
					      ? "the second argument is a whole number of at least 0"
					      : "the second argument is a whole number of at least 1",
				      err);
	}
	item->numbers = numbers;
	item->number_count = all;
	item->ddof = item->function == WEIR_STD ? (int64_t)numbers[0] : 0;
	return WEIR_OK;
}

/* NAME = FUNCTION(COLUMN, NUMBER …, nulls); NAME, COLUMN of count, numbers and "nulls" may be absent. */
static int item_parse(struct weir_op_env *env, const char *text, struct weir_aggregate_item *item,
		      struct weir_error *err)
{
	const char *open, *end = text + strlen(text), *begin, *const *parts = NULL;
	uint32_t count = 0, which;
	char *inside;
	int code;

	item->text = text;
	while (end > text && isspace((unsigned char)end[-1]))
		end--;
	if (end == text || end[-1] != ')')
		return refuse(text, "it does not end in a bracket", err);
	/* The function's word is the last one before a bracket that no quote holds; a name may hold anything. */
	open = NULL;
	for (const char *p = text, *quote = NULL; p < end; p++) {
		if (quote) {
			if (*p == '\\' && p + 1 < end)
				p++;
			else if (*p == *quote)
				quote = NULL;
		} else if (*p == '"' || *p == '\'') {
			quote = p;
		} else if (*p == '(' && !open) {
			open = p;
		} else if (*p == '=' && !open) {
			item->name = weir_words_name(env, text, p, err);
			if (!item->name)
				return err->code;
			text = p + 1;
		}
	}
	if (!open)
		return refuse(item->text, "there is no function", err);
	begin = skip_blanks(text);
	for (which = 0; which < function_count; which++) {
		size_t size = strlen(functions[which].name);

		if (strncmp(begin, functions[which].name, size) == 0 && skip_blanks(begin + size) == open)
			break;
	}
	if (which == function_count)
		return refuse_function(item->text, begin, open, err);
	item->function = (enum weir_aggregate_function)which;
	inside = weir_arena_strndup(env->arena, open + 1, (size_t)(end - 1 - (open + 1)), err);
	if (!inside)
		return err->code;
	if (*skip_blanks(inside)) {
		code = weir_words_split(env, inside, &parts, &count, err);
		if (code)
			return code;
	}
	if (!count && item->function != WEIR_COUNT)
		return refuse(item->text, "it takes one column", err);
	item->with_nulls = count > 1 && strcmp(parts[count - 1], "nulls") == 0;
	code = numbers_parse(env, parts + 1, count ? count - 1 - item->with_nulls : 0, item, err);
	if (code)
		return code;
	if (count)
		item->column = weir_words_name(env, parts[0], parts[0] + strlen(parts[0]), err);
	if (count && !item->column)
		return err->code;
	if (!item->name)
		item->name = weir_arena_printf(env->arena, err, "%s(%s)", functions[item->function].name,
					       item->column ? item->column : "");
	return item->name ? WEIR_OK : err->code;
}

static int add_items(struct weir_op_env *env, const char *const *texts, uint32_t count, struct weir_aggregates *out,
		     struct weir_error *err)
{
	out->item_count = count;
	out->items = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*out->items), err);
	out->columns = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*out->columns), err);
	out->wants = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*out->wants), err);
	if (!out->items || !out->columns || !out->wants)
		return err->code;
	for (uint32_t i = 0; i < count; i++) {
		struct weir_aggregate_item *item = &out->items[i];
		uint32_t at = 0;
		int code = item_parse(env, texts[i], item, err);

		if (code)
			return code;
		for (uint32_t j = 0; j < i; j++) {
			if (strcmp(out->items[j].name, item->name) == 0)
				return weir_error_set(err, WEIR_E_INVALID, "two results would be named '%s'",
						      item->name);
		}
		item->summary = UINT32_MAX;
		if (!item->column)
			continue;
		while (at < out->column_count && strcmp(out->columns[at], item->column) != 0)
			at++;
		if (at == out->column_count)
			out->columns[out->column_count++] = item->column;
		out->wants[at] |= functions[item->function].wants;
		out->is_holistic |= weir_aggregate_is_holistic(item->function);
		item->summary = at;
	}
	return WEIR_OK;
}

/* Items may stand behind one another without a comma: "n=count() s=sum(x)". Cuts `text` behind its first item and
 * returns the rest; NULL: there is none. */
static char *cut_item(char *text)
{
	char quote = 0;
	int depth = 0;

	for (char *p = text; *p; p++) {
		if (quote) {
			if (*p == '\\' && p[1])
				p++;
			else if (*p == quote)
				quote = 0;
		} else if (*p == '"' || *p == '\'') {
			quote = *p;
		} else if (*p == '(') {
			depth++;
		} else if (*p == ')' && --depth == 0 && isspace((unsigned char)p[1]) && *skip_blanks(p + 1)) {
			p[1] = '\0';
			for (p += 2; isspace((unsigned char)*p); p++)
				;
			return p;
		}
	}
	return NULL;
}

/* The items of one word, behind those there are. */
static int split_word(struct weir_op_env *env, const char *word, const char **texts, uint32_t *count,
		      struct weir_error *err)
{
	const char *const *parts;
	uint32_t found;
	int code = weir_words_split(env, word, &parts, &found, err);

	for (uint32_t i = 0; !code && i < found; i++) {
		char *rest = weir_arena_strdup(env->arena, parts[i], err);

		if (!rest)
			return err->code;
		while (rest) {
			char *item = rest;

			rest = cut_item(item);
			if (texts)
				texts[*count] = item;
			(*count)++;
		}
	}
	return code;
}

int weir_aggregates_parse(struct weir_op_env *env, const struct weir_words *words, struct weir_aggregates *out,
			  struct weir_error *err)
{
	uint32_t count = 0;
	const char **texts = NULL;

	for (uint32_t pass = 0; pass < 2; pass++) { /* count, then fill */
		count = 0;
		for (uint32_t w = 0; w < words->count; w++) {
			int code = split_word(env, words->words[w], texts, &count, err);

			if (code)
				return code;
		}
		if (!pass && !(texts = weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*texts), err)))
			return err->code;
	}
	return add_items(env, texts, count, out, err);
}

int weir_aggregates_save(const struct weir_aggregates *aggregates, struct weir_save *save, struct weir_error *err)
{
	int code = weir_save_u32(save, aggregates->item_count, err);

	for (uint32_t i = 0; !code && i < aggregates->item_count; i++)
		code = weir_save_string(save, aggregates->items[i].text, err);
	return code;
}

int weir_aggregates_load(struct weir_op_env *env, struct weir_load *load, struct weir_aggregates *out,
			 struct weir_error *err)
{
	enum { ITEMS_MAX = 1 << 20 };
	uint32_t count = 0;
	const char **texts;
	int code = weir_load_u32(load, &count, err);

	if (!code && count > ITEMS_MAX)
		code = weir_error_set(err, WEIR_E_DATA, "the saved plan has %u aggregates", count);
	texts = code ? NULL : weir_arena_alloc_zero(env->arena, (count + 1) * sizeof(*texts), err);
	if (!texts)
		return err->code;
	for (uint32_t i = 0; !code && i < count; i++) {
		code = weir_load_string(load, &texts[i], err);
		if (!code && !texts[i])
			code = weir_error_set(err, WEIR_E_DATA, "the saved plan has an aggregate without a text");
	}
	return code ? code : add_items(env, texts, count, out, err);
}

int weir_aggregates_describe(const struct weir_aggregates *aggregates, struct weir_text *out, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t i = 0; !code && i < aggregates->item_count; i++)
		code = weir_text_printf(out, err, "%s%s", i ? ", " : " ", aggregates->items[i].text);
	return code;
}

static bool is_defined(enum weir_aggregate_function function, const struct weir_type *type)
{
	uint32_t wants = functions[function].wants;
	enum weir_summary_kind kind = weir_summary_kind(type);

	if (type->id == WEIR_NULL)
		return true;
	switch (function) {
	case WEIR_STD:
		return kind != WEIR_SUMMARY_NONE && type->id != WEIR_DURATION;
	case WEIR_ABSMAX:
		return kind != WEIR_SUMMARY_NONE;
	case WEIR_ZERO_PERCENT:
	case WEIR_QUANTILE:
	case WEIR_APPROX_QUANTILE:
		return kind != WEIR_SUMMARY_NONE;
	case WEIR_UNIQUE_VALUES:
	case WEIR_COUNT_DISTINCT:
	case WEIR_VALUE_COUNTS:
	case WEIR_APPROX_TOP_K:
		return type->id != WEIR_MAP;
	default:
		return (!(wants & WEIR_WANTS_SUM) || kind != WEIR_SUMMARY_NONE) &&
		       (!(wants & WEIR_WANTS_BOUNDS) || weir_summary_has_order(type));
	}
}

/* What it gives holds no values of its column. */
static bool only_counts(enum weir_aggregate_function function)
{
	return function == WEIR_COUNT || function == WEIR_COUNT_DISTINCT || function == WEIR_MISSING_PERCENT;
}

int weir_aggregates_check(const struct weir_aggregates *aggregates, const struct weir_schema *schema,
			  struct weir_error *err)
{
	for (uint32_t i = 0; i < aggregates->item_count; i++) {
		const struct weir_aggregate_item *item = &aggregates->items[i];
		const struct weir_type *type;
		uint32_t column;
		bool defined;
		char name[96];
		int code = item->column ? weir_schema_find(schema, item->column, &column, err) : WEIR_OK;

		if (code)
			return code;
		if (!item->column)
			continue;
		if (!only_counts(item->function) &&
		    weir_op_check_no_objects(schema, &item->column, 1, "can only be counted", err))
			return err->code;
		type = weir_type_values(schema->fields[column].type);
		defined = is_defined(item->function, type);
		if (!defined) {
			weir_error_set(err, WEIR_E_TYPE, "%s is not defined for %s (%s)",
				       functions[item->function].name, weir_type_name(type, name, sizeof(name)),
				       item->column);
			weir_error_at_column(err, item->column);
			return err->code;
		}
	}
	return WEIR_OK;
}

int weir_aggregates_check_summaries(const struct weir_aggregates *aggregates, struct weir_error *err)
{
	for (uint32_t i = 0; i < aggregates->item_count; i++) {
		const struct weir_aggregate_item *item = &aggregates->items[i];

		if (item->function > WEIR_STD)
			return weir_error_set(err, WEIR_E_UNSUPPORTED, "%s is a function of group: group '' '%s'",
					      functions[item->function].name, item->text);
	}
	return WEIR_OK;
}

/* ---- types of results ---- */

static const struct weir_type *list_of(struct weir_account *account, const struct weir_type *type,
				       struct weir_error *err)
{
	return weir_type_list(account, WEIR_LIST_TYPE,
			      &(struct weir_field){.name = "item", .type = type, .nullable = true}, 0, false, err);
}

/* struct<values: list<T>, counts: list<int64>> */
static const struct weir_type *counts_of(struct weir_account *account, const struct weir_type *type,
					 struct weir_error *err)
{
	struct weir_field fields[2] = {{.name = "values", .nullable = true}, {.name = "counts", .nullable = true}};
	const struct weir_type *result = NULL;

	fields[0].type = list_of(account, type, err);
	fields[1].type = fields[0].type ? list_of(account, weir_type_of(WEIR_INT64), err) : NULL;
	if (fields[1].type)
		result = weir_type_struct(account, fields, 2, err);
	weir_type_unref(fields[0].type);
	weir_type_unref(fields[1].type);
	return result;
}

/* list<struct<COLUMN: T, count: int64>> */
static const struct weir_type *top_of(struct weir_account *account, const struct weir_aggregate_item *item,
				      const struct weir_type *type, struct weir_error *err)
{
	struct weir_field fields[2] = {{.name = item->column, .type = type, .nullable = true},
				       {.name = "count", .type = weir_type_of(WEIR_INT64), .nullable = true}};
	const struct weir_type *entry = weir_type_struct(account, fields, 2, err), *result;

	result = entry ? list_of(account, entry, err) : NULL;
	weir_type_unref(entry);
	return result;
}

static const struct weir_type *type_of_sum(struct weir_account *account, const struct weir_type *type,
					   struct weir_error *err)
{
	if (weir_type_is_decimal(type))
		return weir_type_decimal(account, type->id,
					 type->id == WEIR_DECIMAL128 ? WEIR_DECIMAL128_PRECISION_MAX
								     : WEIR_DECIMAL256_PRECISION_MAX,
					 type->scale, err);
	if (weir_type_is_float(type))
		return weir_type_of(WEIR_DOUBLE);
	return weir_type_of(weir_type_is_integer(type) && !weir_type_is_signed(type) ? WEIR_UINT64 : WEIR_INT64);
}

const struct weir_type *weir_aggregate_type(struct weir_account *account, const struct weir_aggregate_item *item,
					    const struct weir_type *type, struct weir_error *err)
{
	switch (item->function) {
	case WEIR_COUNT:
	case WEIR_COUNT_DISTINCT:
		return weir_type_of(WEIR_INT64);
	case WEIR_MISSING_PERCENT:
	case WEIR_ZERO_PERCENT:
	case WEIR_QUANTILE:
		return weir_type_of(WEIR_DOUBLE);
	case WEIR_UNIQUE_VALUES:
	case WEIR_LIST_VALUES:
		return list_of(account, type, err);
	case WEIR_VALUE_COUNTS:
		return counts_of(account, type, err);
	case WEIR_APPROX_QUANTILE:
		return list_of(account, weir_type_of(WEIR_DOUBLE), err);
	case WEIR_APPROX_TOP_K:
		return top_of(account, item, type, err);
	default:
		break;
	}
	if (type->id == WEIR_NULL ||
	    ((item->function == WEIR_MEAN || item->function == WEIR_STD) && type->id != WEIR_DURATION))
		return weir_type_of(WEIR_DOUBLE);
	if (item->function == WEIR_MEAN)
		return weir_type_temporal(account, WEIR_DURATION, weir_mean_unit(type->unit), NULL, err);
	/* The magnitude of the least int8 is 128, which an int8 cannot hold. */
	if (item->function == WEIR_ABSMAX && weir_type_is_integer(type) && weir_type_is_signed(type))
		return weir_type_of(WEIR_INT64);
	if (item->function != WEIR_SUM || type->id == WEIR_DURATION)
		return weir_type_ref(type);
	return type_of_sum(account, type, err);
}

int weir_aggregates_fields(const struct weir_aggregates *aggregates, const struct weir_schema *schema,
			   struct weir_account *account, struct weir_field *fields, struct weir_error *err)
{
	int code = weir_aggregates_check(aggregates, schema, err);

	for (uint32_t i = 0; !code && i < aggregates->item_count; i++) {
		const struct weir_aggregate_item *item = &aggregates->items[i];
		uint32_t column = 0;

		code = item->column ? weir_schema_find(schema, item->column, &column, err) : WEIR_OK;
		if (code)
			break;
		fields[i] = (struct weir_field){.name = item->name, .nullable = true};
		fields[i].type = weir_aggregate_type(
			account, item, item->column ? weir_type_values(schema->fields[column].type) : NULL, err);
		code = fields[i].type ? WEIR_OK : err->code;
	}
	return code;
}

int weir_aggregates_needs(const struct weir_aggregates *aggregates, const struct weir_schema *schema,
			  struct weir_columns *needed, struct weir_error *err)
{
	for (uint32_t i = 0; i < aggregates->column_count; i++) {
		uint32_t column;
		int code = weir_schema_find(schema, aggregates->columns[i], &column, err);

		if (code)
			return code;
		needed->wanted[column] = true;
	}
	return WEIR_OK;
}

/* ---- summaries ---- */

int weir_summaries_init(struct weir_summaries *summaries, const struct weir_aggregates *aggregates,
			const struct weir_schema *schema, struct weir_account *account, struct weir_error *err)
{
	int code = WEIR_OK;

	*summaries = (struct weir_summaries){.account = account, .count = aggregates->column_count};
	weir_arena_init(&summaries->arena, account);
	summaries->items = weir_alloc_zero(account, (summaries->count + 1) * sizeof(*summaries->items), err);
	summaries->numbers = weir_alloc_zero(account, (summaries->count + 1) * sizeof(*summaries->numbers), err);
	if (!summaries->items || !summaries->numbers)
		code = err->code;
	for (uint32_t i = 0; !code && i < summaries->count; i++) {
		code = weir_schema_find(schema, aggregates->columns[i], &summaries->numbers[i], err);
		if (!code)
			weir_summary_init(&summaries->items[i], account, schema->fields[summaries->numbers[i]].type,
					  aggregates->wants[i]);
	}
	if (code)
		weir_summaries_release(summaries);
	return code;
}

void weir_summaries_reset(struct weir_summaries *summaries)
{
	summaries->rows = 0;
	for (uint32_t i = 0; i < summaries->count; i++)
		weir_summary_reset(&summaries->items[i]);
}

void weir_summaries_release(struct weir_summaries *summaries)
{
	if (!summaries->account)
		return;
	for (uint32_t i = 0; summaries->items && i < summaries->count; i++) {
		if (summaries->items[i].account)
			weir_summary_release(&summaries->items[i]);
	}
	weir_free(summaries->account, summaries->items, (summaries->count + 1) * sizeof(*summaries->items));
	weir_free(summaries->account, summaries->numbers, (summaries->count + 1) * sizeof(*summaries->numbers));
	weir_arena_release(&summaries->arena);
	summaries->account = NULL;
}

int weir_summaries_push(struct weir_summaries *summaries, struct weir_vector *vector, struct weir_error *err)
{
	int code = WEIR_OK;

	summaries->rows += vector->selection.count;
	for (uint32_t i = 0; !code && i < summaries->count; i++) {
		code = weir_column_decode(vector, summaries->numbers[i], err);
		if (!code)
			code = weir_summary_push(&summaries->items[i], vector, summaries->numbers[i],
						 summaries->rows_place, &summaries->arena, err);
		weir_arena_clear(&summaries->arena);
	}
	return code;
}
