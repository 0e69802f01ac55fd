/* The words behind a verb, checked and taken apart. */
#include "ops/ops_impl.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool option_known(const char *const *options, const struct weir_setting *option, bool *takes_value)
{
	for (; options && *options; options++) {
		size_t length = strcspn(*options, "=");

		if (strlen(option->name) == length && memcmp(option->name, *options, length) == 0) {
			*takes_value = (*options)[length] == '=';
			return true;
		}
	}
	return false;
}

int weir_words_expect(const struct weir_words *words, const char *usage, uint32_t count_min, uint32_t count_max,
		      const char *const *options, struct weir_error *err)
{
	for (uint32_t i = 0; i < words->option_count; i++) {
		const struct weir_setting *option = &words->options[i];
		bool takes_value = false;

		if (!option_known(options, option, &takes_value))
			return weir_error_set(err, WEIR_E_INVALID, "unknown option --%s (usage: %s)", option->name,
					      usage);
		if (takes_value && !option->value)
			return weir_error_set(err, WEIR_E_INVALID, "option --%s wants a value (usage: %s)",
					      option->name, usage);
		if (!takes_value && option->value)
			return weir_error_set(err, WEIR_E_INVALID, "option --%s takes no value (usage: %s)",
					      option->name, usage);
	}
	if (words->count < count_min)
		return weir_error_set(err, WEIR_E_INVALID, "too few arguments (usage: %s)", usage);
	if (words->count > count_max)
		return weir_error_set(err, WEIR_E_INVALID, "'%s' is one argument too many (usage: %s)",
				      words->words[count_max], usage);
	return WEIR_OK;
}

const char *weir_words_option(const struct weir_words *words, const char *name)
{
	for (uint32_t i = words->option_count; i-- > 0;) { /* the last one counts */
		if (strcmp(words->options[i].name, name) == 0)
			return words->options[i].value ? words->options[i].value : "";
	}
	return NULL;
}

int weir_words_seed(const struct weir_words *words, uint64_t *out, struct weir_error *err)
{
	const char *text = weir_words_option(words, "seed"), *p = text;
	bool is_negative = text && *text == '-';
	uint64_t value = 0;

	if (!text)
		return WEIR_OK;
	for (p += is_negative; isdigit((unsigned char)*p); p++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return weir_error_set(err, WEIR_E_INVALID, "--seed wants a number of 64 bits, not '%s'", text);
	}
	if (*p || p == text + is_negative)
		return weir_error_set(err, WEIR_E_INVALID, "--seed wants a whole number, not '%s'", text);
	*out = is_negative ? -value : value;
	return WEIR_OK;
}

int weir_parse_count(const char *text, int64_t *out, struct weir_error *err)
{
	int64_t value = 0, factor = 1;
	const char *p = text;

	for (; isdigit((unsigned char)*p) || (*p == '_' && p > text); p++) {
		if (*p == '_')
			continue;
		if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *p - '0', &value))
			return weir_error_set(err, WEIR_E_VALUE, "'%s' is too large a count", text);
	}
	if (p > text && (*p == 'k' || *p == 'K'))
		factor = 1000, p++;
	else if (p > text && *p == 'M')
		factor = 1000000, p++;
	if (p == text || *p)
		return weir_error_set(err, WEIR_E_INVALID, "'%s' is not a count (examples: 1000, 1_000_000, 10k, 5M)",
				      text);
	if (__builtin_mul_overflow(value, factor, out))
		return weir_error_set(err, WEIR_E_VALUE, "'%s' is too large a count", text);
	return WEIR_OK;
}

/* The end of the part that starts at p: a comma outside quotes and brackets, or the end of the text. */
static const char *part_end(const char *p)
{
	int depth = 0;
	char quote = 0;

	for (; *p; p++) {
		if (quote) {
			if (*p == '\\' && p[1])
				p++;
			else if (*p == quote)
				quote = 0;
		} else if (*p == '"' || *p == '\'') {
			quote = *p;
		} else if (strchr("([{", *p)) {
			depth++;
		} else if (strchr(")]}", *p)) {
			depth--;
		} else if (*p == ',' && depth <= 0) {
			break;
		}
	}
	return p;
}

int weir_words_split(struct weir_op_env *env, const char *text, const char *const **out, uint32_t *count,
		     struct weir_error *err)
{
	uint32_t n = 0, capacity = 1;
	const char **parts;

	for (const char *p = text; *(p = part_end(p)); p++)
		capacity++;
	parts = weir_arena_alloc(env->arena, capacity * sizeof(*parts), err);
	if (!parts)
		return err->code;
	for (const char *p = text;; p++) {
		const char *end = part_end(p), *last = end;

		while (p < last && isspace((unsigned char)*p))
			p++;
		while (last > p && isspace((unsigned char)last[-1]))
			last--;
		if (p == last)
			return weir_error_set(err, WEIR_E_SYNTAX, "an empty item in the list '%s'", text);
		parts[n] = weir_arena_strndup(env->arena, p, (size_t)(last - p), err);
		if (!parts[n++])
			return err->code;
		p = end;
		if (!*p)
			break;
	}
	*out = parts;
	*count = n;
	return WEIR_OK;
}

char *weir_words_name(struct weir_op_env *env, const char *begin, const char *end, struct weir_error *err)
{
	char *name, *to, quote = 0;

	while (begin < end && isspace((unsigned char)*begin))
		begin++;
	while (end > begin && isspace((unsigned char)end[-1]))
		end--;
	if (end - begin >= 2 && (*begin == '"' || *begin == '\'' || *begin == '`') && end[-1] == *begin) {
		quote = *begin++;
		end--;
	}
	if (begin == end && !quote) {
		weir_error_set(err, WEIR_E_SYNTAX, "a column name is empty (\"\" is the column without a name)");
		return NULL;
	}
	name = to = weir_arena_strndup(env->arena, begin, (size_t)(end - begin), err);
	for (const char *p = name; name && quote && quote != '`' && *p; p++) {
		if (*p == '\\' && (p[1] == '\\' || p[1] == quote))
			p++;
		*to++ = *p;
	}
	if (name && quote && quote != '`')
		*to = '\0';
	return name;
}

bool weir_op_is_object(const struct weir_field *field)
{
	static const char object[] = "weir.python_object";
	uint32_t size = 0;
	const char *name = weir_metadata_get(&field->metadata, "ARROW:extension:name", &size);

	return name && size == sizeof(object) - 1 && memcmp(name, object, size) == 0;
}
