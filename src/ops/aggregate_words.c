/* What aggregate and summarise share: the words, and a lane's summaries. */
#include "ops/aggregate.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	uint32_t wants;
} functions[] = {
	[WEIR_COUNT] = {"count", 0},
	[WEIR_SUM] = {"sum", WEIR_WANTS_SUM},
	[WEIR_MIN] = {"min", WEIR_WANTS_BOUNDS},
	[WEIR_MAX] = {"max", WEIR_WANTS_BOUNDS},
	[WEIR_ABSMAX] = {"absmax", WEIR_WANTS_BOUNDS},
	[WEIR_MEAN] = {"mean", WEIR_WANTS_SUM},
	[WEIR_STD] = {"std", WEIR_WANTS_SUM | WEIR_WANTS_SQUARES},
};
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
		"sum, min, max, absmax, mean, std)",
		text, what);
}

/* NAME = FUNCTION(COLUMN, DDOF); NAME, COLUMN of count and DDOF of std may be absent. */
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
		return refuse(item->text, "there is no such function", err);
	item->function = (enum weir_aggregate_function)which;
	inside = weir_arena_strndup(env->arena, open + 1, (size_t)(end - 1 - (open + 1)), err);
	if (!inside)
		return err->code;
	if (*skip_blanks(inside)) {
		code = weir_words_split(env, inside, &parts, &count, err);
		if (code)
			return code;
	}
	if (count > (item->function == WEIR_STD ? 2u : 1u) || (!count && item->function != WEIR_COUNT))
		return refuse(item->text, "it takes one column", err);
	item->ddof = 1;
	if (count == 2) {
		char *rest;

		item->ddof = strtoll(parts[1], &rest, 10);
		if (*rest || item->ddof < 0)
			return refuse(item->text, "the second argument is a whole number of at least 0", err);
	}
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
		item->summary = at;
	}
	return WEIR_OK;
}

int weir_aggregates_parse(struct weir_op_env *env, const struct weir_words *words, struct weir_aggregates *out,
			  struct weir_error *err)
{
	uint32_t count = 0;
	const char **texts = NULL;

	for (uint32_t pass = 0; pass < 2; pass++) { /* count, then fill */
		uint32_t n = 0;

		for (uint32_t w = 0; w < words->count; w++) {
			const char *const *parts;
			uint32_t found;
			int code = weir_words_split(env, words->words[w], &parts, &found, err);

			if (code)
				return code;
			for (uint32_t i = 0; pass && i < found; i++)
				texts[n + i] = parts[i];
			n += found;
		}
		count = n;
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

int weir_aggregates_check(const struct weir_aggregates *aggregates, const struct weir_schema *schema,
			  struct weir_error *err)
{
	for (uint32_t i = 0; i < aggregates->item_count; i++) {
		const struct weir_aggregate_item *item = &aggregates->items[i];
		const struct weir_type *type;
		uint32_t column, wants = functions[item->function].wants;
		bool defined;
		char name[96];
		int code = item->column ? weir_schema_find(schema, item->column, &column, err) : WEIR_OK;

		if (code)
			return code;
		if (!item->column)
			continue;
		type = weir_type_values(schema->fields[column].type);
		defined = type->id == WEIR_NULL ||
			  ((!(wants & WEIR_WANTS_SUM) || weir_summary_kind(type) != WEIR_SUMMARY_NONE) &&
			   (!(wants & WEIR_WANTS_BOUNDS) || weir_summary_has_order(type)) &&
			   (item->function != WEIR_ABSMAX || weir_summary_kind(type) != WEIR_SUMMARY_NONE) &&
			   (item->function != WEIR_STD || type->id != WEIR_DURATION));
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
