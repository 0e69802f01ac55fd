/* The verb chain: read … then filter … then write …, as words or as one text. */
#include "plan/plan_impl.h"

#include <ctype.h>
#include <string.h>

int weir_plan_split_text(struct weir_plan *plan, const char *text, const char *const **out, uint32_t *count,
			 struct weir_error *err)
{
	size_t length = strlen(text);
	/* Words and their NULs never need more than the text and one byte. */
	char *bytes = weir_arena_alloc(&plan->arena, length + 1, err);
	const char **words = bytes ? weir_arena_alloc(&plan->arena, (length / 2 + 1) * sizeof(*words), err) : NULL;
	uint32_t n = 0;
	const char *p = text;

	if (!words)
		return err->code;
	for (;;) {
		char quote = 0;

		while (isspace((unsigned char)*p))
			p++;
		if (!*p)
			break;
		words[n++] = bytes;
		for (; *p && (quote || !isspace((unsigned char)*p)); p++) {
			if (quote == '\'' ? *p == quote : quote && *p == quote)
				quote = 0;
			else if (!quote && (*p == '\'' || *p == '"'))
				quote = *p;
			else if (*p == '\\' && quote != '\'' && p[1] && (!quote || strchr("\"\\$`", p[1])))
				*bytes++ = *++p;
			else
				*bytes++ = *p;
		}
		if (quote)
			return weir_error_set(err, WEIR_E_SYNTAX, "a quote (%c) is not closed in: %s", quote, text);
		*bytes++ = 0;
	}
	*out = words;
	*count = n;
	return WEIR_OK;
}

unsigned weir_verb_distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned row[64];

	if (la >= 64 || lb >= 64)
		return 64;
	for (size_t j = 0; j <= lb; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned above = row[j], best = diagonal + (a[i - 1] != b[j - 1]);

			if (above + 1 < best)
				best = above + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = above;
			row[j] = best;
		}
	}
	return row[lb];
}

int weir_plan_unknown_verb(const char *word, struct weir_error *err)
{
	uint32_t count;
	const struct weir_op *const *ops = weir_op_list(&count);
	const struct weir_op *nearest = NULL;
	unsigned best = 3;

	for (uint32_t i = 0; i < count; i++) {
		if (weir_verb_distance(word, ops[i]->verb) < best) {
			best = weir_verb_distance(word, ops[i]->verb);
			nearest = ops[i];
		}
	}
	if (nearest)
		return weir_error_set(err, WEIR_E_INVALID, "there is no verb '%s'; did you mean '%s'?", word,
				      nearest->verb);
	return weir_error_set(err, WEIR_E_INVALID, "there is no verb '%s' (weir --help lists them)", word);
}

/* Plain words and options apart: --name=value, --name value, --flag. Which options take a value the operator says. */
static int verb_words(struct weir_plan *plan, const struct weir_op *op, const char *const *words, uint32_t count,
		      struct weir_words *out, struct weir_error *err)
{
	const char **plain = weir_arena_alloc(&plan->arena, (count + 1) * sizeof(*plain), err);
	struct weir_setting *options = plain ? weir_arena_alloc_zero(&plan->arena, (count + 1) * sizeof(*options), err)
					     : NULL;

	if (!options)
		return err->code;
	*out = (struct weir_words){.words = plain, .options = options};
	for (uint32_t i = 0; i < count; i++) {
		const char *word = words[i], *equal;
		struct weir_setting *option;

		if (strncmp(word, "--", 2) != 0 || !word[2]) {
			plain[out->count++] = word;
			continue;
		}
		option = &options[out->option_count++];
		equal = strchr(word, '=');
		option->name = equal ? weir_arena_strndup(&plan->arena, word + 2, (size_t)(equal - word - 2), err)
				     : word + 2;
		if (!option->name)
			return err->code;
		if (equal)
			option->value = equal + 1;
		else if (weir_op_option_takes_value(op, option->name) && i + 1 < count)
			option->value = words[++i];
	}
	return WEIR_OK;
}

int weir_plan_chain(struct weir_plan *plan, const char *const *words, uint32_t count, struct weir_node *input,
		    struct weir_node **out, struct weir_error *err)
{
	uint32_t begin = 0;

	if (count == 0)
		return weir_error_set(err, WEIR_E_INVALID, "the chain is empty; it begins with read");
	while (begin < count) {
		const struct weir_op *op = weir_op_find(words[begin]);
		struct weir_words arguments;
		uint32_t end = begin;
		int code;

		while (end < count && strcmp(words[end], "then") != 0)
			end++;
		if (end == begin)
			return weir_error_set(err, WEIR_E_SYNTAX, "a verb is missing %s 'then'",
					      begin ? "after" : "before the first");
		if (!op)
			return weir_plan_unknown_verb(words[begin], err);
		input = weir_plan_node(plan, op, input, err);
		if (!input)
			return err->code;
		code = verb_words(plan, op, words + begin + 1, end - begin - 1, &arguments, err);
		if (!code)
			code = op->parse(&plan->env, input, &arguments, err);
		if (code) {
			weir_error_at_operator(err, op->verb);
			return code;
		}
		begin = end + 1;
		if (end < count && begin == count)
			return weir_error_set(err, WEIR_E_SYNTAX, "a verb is missing after the last 'then'");
	}
	*out = input;
	return WEIR_OK;
}

int weir_plan_parse_words(struct weir_plan *plan, const char *const *words, uint32_t count, struct weir_error *err)
{
	plan->bound = plan->optimised = false;
	return weir_plan_chain(plan, words, count, plan->root, &plan->root, err);
}

int weir_plan_parse_text(struct weir_plan *plan, const char *text, struct weir_error *err)
{
	const char *const *words;
	uint32_t count;
	int code = weir_plan_split_text(plan, text, &words, &count, err);

	return code ? code : weir_plan_parse_words(plan, words, count, err);
}
