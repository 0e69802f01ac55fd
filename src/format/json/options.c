/* The options of JSON, as they are given to the verb that reads it. */
#include "format/json/json_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const json_option_names[] = {
	"types=", "infer=", "layout=", "unexpected=", "surrogates=",  "non-finite=",
	"mixed=", "dates=", "depth=",  "encoding=",   "compression=", NULL,
};

const struct json_options json_options_default = {.depth_max = JSON_DEPTH_DEFAULT};

struct choice {
	const char *word;
	int value;
};

static const struct choice infer_choices[] = {{"sample", 0}, {"all", 1}, {NULL, 0}};
static const struct choice layout_choices[] = {
	{"auto", JSON_LAYOUT_AUTO},
	{"lines", JSON_LAYOUT_LINES},
	{"array", JSON_LAYOUT_ARRAY},
	{"objects", JSON_LAYOUT_OBJECTS},
	{NULL, 0},
};
static const struct choice unexpected_choices[] = {
	{"infer", JSON_UNEXPECTED_INFER},
	{"ignore", JSON_UNEXPECTED_IGNORE},
	{"error", JSON_UNEXPECTED_ERROR},
	{NULL, 0},
};
static const struct choice surrogates_choices[] = {
	{"error", JSON_SURROGATES_ERROR},
	{"replace", JSON_SURROGATES_REPLACE},
	{NULL, 0},
};
static const struct choice nonfinite_choices[] = {
	{"allow", JSON_NONFINITE_ALLOW},
	{"error", JSON_NONFINITE_ERROR},
	{NULL, 0},
};

static const struct choice dates_choices[] = {
	{"infer", JSON_DATES_INFER},
	{"named", JSON_DATES_NAMED},
	{"text", JSON_DATES_TEXT},
	{NULL, 0},
};
static const struct choice mixed_choices[] = {{"text", 0}, {"error", 1}, {NULL, 0}};

static int choose(const struct weir_setting *setting, const struct choice *choices, int *out, struct weir_error *err)
{
	char words[128] = "";
	size_t size = 0;

	for (const struct choice *choice = choices; choice->word; choice++) {
		if (strcmp(choice->word, setting->value) == 0) {
			*out = choice->value;
			return WEIR_OK;
		}
		size += (size_t)snprintf(words + size, sizeof(words) - size, "%s%s", size ? ", " : "", choice->word);
	}
	return weir_error_set(err, WEIR_E_INVALID, "--%s is one of %s, not '%s'", setting->name, words, setting->value);
}

static int parse_depth(const char *value, uint32_t *out, struct weir_error *err)
{
	char *end;
	unsigned long depth = strtoul(value, &end, 10);

	if (*end || end == value || *value == '-' || depth < 2 || depth > 1000000)
		return weir_error_set(err, WEIR_E_INVALID, "--depth is a number from 2 to 1000000, not '%s'", value);
	*out = (uint32_t)depth;
	return WEIR_OK;
}

/* "a=int64,b.c=list<item: string>,d=decimal128(10, 2)": commas inside brackets belong to the type. */
static int parse_types(struct weir_arena *arena, const char *text, struct json_options *options, struct weir_error *err)
{
	const size_t size = strlen(text);
	struct json_given *given = weir_arena_alloc(arena, (size / 2 + 1) * sizeof(*given), err);
	struct weir_error wrong = {0};
	const struct weir_type *type;
	int depth = 0;

	if (!given)
		return err->code;
	for (const char *begin = text, *at = text;; at++) {
		const char *equals;

		depth += (*at == '<' || *at == '(' || *at == '[') - (*at == '>' || *at == ')' || *at == ']');
		if (*at && (*at != ',' || depth > 0))
			continue;
		equals = memchr(begin, '=', (size_t)(at - begin));
		if (!equals || equals == begin || equals + 1 == at)
			return weir_error_set(err, WEIR_E_SYNTAX,
					      "--types is a list like 'a=int64,b.c=string'; this is not one: '%.*s'",
					      (int)(at - begin), begin);
		given[options->given_count] = (struct json_given){
			.path = weir_arena_strndup(arena, begin, (size_t)(equals - begin), err),
			.type_text = weir_arena_strndup(arena, equals + 1, (size_t)(at - equals - 1), err),
		};
		if (!given[options->given_count].path || !given[options->given_count].type_text)
			return err->code;
		type = weir_type_parse(arena->account, given[options->given_count].type_text, &wrong);
		if (!type)
			return weir_error_set(err, WEIR_E_SYNTAX, "--types, of '%s': %s",
					      given[options->given_count].path, wrong.message);
		weir_type_unref(type);
		options->given_count++;
		begin = at + 1;
		if (!*at)
			break;
	}
	options->given = given;
	return WEIR_OK;
}

static int parse_setting(struct weir_arena *arena, const struct weir_setting *setting, struct json_options *options,
			 struct weir_error *err)
{
	int value = 0, code;

	if (!setting->value)
		return weir_error_set(err, WEIR_E_INVALID, "--%s wants a value", setting->name);
	if (strcmp(setting->name, "types") == 0)
		return parse_types(arena, setting->value, options, err);
	if (strcmp(setting->name, "depth") == 0)
		return parse_depth(setting->value, &options->depth_max, err);
	if (strcmp(setting->name, "compression") == 0)
		return weir_compression_parse(setting->value, &options->stream.compression, err);
	if (strcmp(setting->name, "encoding") == 0)
		return weir_encoding_parse(setting->value, &options->stream.encoding, err);
	if (strcmp(setting->name, "infer") == 0) {
		code = choose(setting, infer_choices, &value, err);
		options->infer_all = value;
	} else if (strcmp(setting->name, "layout") == 0) {
		code = choose(setting, layout_choices, &value, err);
		options->layout = (enum json_layout)value;
	} else if (strcmp(setting->name, "unexpected") == 0) {
		code = choose(setting, unexpected_choices, &value, err);
		options->unexpected = (enum json_unexpected)value;
	} else if (strcmp(setting->name, "surrogates") == 0) {
		code = choose(setting, surrogates_choices, &value, err);
		options->surrogates = (enum json_surrogates)value;
	} else if (strcmp(setting->name, "non-finite") == 0) {
		code = choose(setting, nonfinite_choices, &value, err);
		options->nonfinite = (enum json_nonfinite)value;
	} else if (strcmp(setting->name, "dates") == 0) {
		code = choose(setting, dates_choices, &value, err);
		options->dates = (enum json_dates)value;
	} else if (strcmp(setting->name, "mixed") == 0) {
		code = choose(setting, mixed_choices, &value, err);
		options->mixed_refused = value;
	} else {
		code = weir_error_set(err, WEIR_E_INVALID, "JSON has no option --%s", setting->name);
	}
	return code;
}

int json_options_parse(struct weir_arena *arena, const struct weir_setting *settings, uint32_t count, const void **out,
		       struct weir_error *err)
{
	struct json_options *options = weir_arena_alloc(arena, sizeof(*options), err);

	if (!options)
		return err->code;
	*options = json_options_default;
	for (uint32_t i = 0; i < count; i++)
		if (parse_setting(arena, &settings[i], options, err))
			return err->code;
	*out = options;
	return WEIR_OK;
}

bool json_options_given(const struct json_options *options, const char *column)
{
	for (uint32_t i = 0; i < options->given_count; i++)
		if (strcmp(options->given[i].path, column) == 0)
			return true;
	return false;
}
