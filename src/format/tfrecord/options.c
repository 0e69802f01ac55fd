/* The options of TFRecord files, as they are given to the verb that reads them. */
#include "format/tfrecord/tfrecord_impl.h"

#include <string.h>

const char *const tf_option_names[] = {"types=", "infer=", "unexpected=", "compression=", NULL};

static const struct tf_options options_default = {.stream = {.encoding = WEIR_ENCODING_BYTES}};

const struct tf_options *tf_options_of(const struct weir_read_setup *setup)
{
	return setup && setup->options ? setup->options : &options_default;
}

bool tf_options_given(const struct tf_options *options, const char *column)
{
	for (uint32_t i = 0; i < options->given_count; i++)
		if (strcmp(options->given[i].name, column) == 0)
			return true;
	return false;
}

static int check_type(struct weir_arena *arena, const struct tf_given *given, struct weir_error *err)
{
	struct weir_error wrong = {0};
	struct tf_shape shape;
	const struct weir_type *type = weir_type_parse(arena->account, given->type_text, &wrong);

	if (!type)
		weir_error_set(err, WEIR_E_SYNTAX, "--types, of '%s': %s", given->name, wrong.message);
	else if (!tf_shape_of(type, &shape))
		weir_error_set(
			err, WEIR_E_INVALID,
			"--types: the feature '%s' is int64, float, double, binary or a list of one of them, not %s",
			given->name, given->type_text);
	weir_type_unref(type);
	return err->code;
}

/* A name may stand between double quotes, doubled inside. Returns what is behind it. */
static const char *parse_name(struct weir_arena *arena, const char *text, const char **out, struct weir_error *err)
{
	char *name = weir_arena_alloc(arena, strlen(text) + 1, err);
	size_t size = 0;
	bool quoted = *text == '"';

	if (!name)
		return NULL;
	text += quoted;
	while (*text && (quoted || *text != '=')) {
		if (quoted && *text == '"' && *++text != '"')
			break;
		name[size++] = *text++;
	}
	name[size] = 0;
	*out = name;
	return text;
}

/* "a=int64,\"b c\"=list<item: float>": commas inside brackets belong to the type. */
static int parse_types(struct weir_arena *arena, const char *text, struct tf_options *options, struct weir_error *err)
{
	struct tf_given *given = weir_arena_alloc(arena, (strlen(text) / 2 + 1) * sizeof(*given), err);

	if (!given)
		return err->code;
	options->given = given;
	while (*text) {
		struct tf_given *one = &given[options->given_count];
		const char *begin = text, *end;
		int depth = 0;

		text = parse_name(arena, text, &one->name, err);
		if (!text)
			return err->code;
		if (*text != '=')
			return weir_error_set(
				err, WEIR_E_SYNTAX,
				"--types is a list like 'a=int64,b=list<float>'; this is not one: '%.100s'", begin);
		for (end = ++text; *end && (*end != ',' || depth > 0); end++)
			depth += (*end == '<' || *end == '(') - (*end == '>' || *end == ')');
		one->type_text = weir_arena_strndup(arena, text, (size_t)(end - text), err);
		if (!one->type_text || check_type(arena, one, err))
			return err->code;
		options->given_count++;
		text = *end ? end + 1 : end;
	}
	return WEIR_OK;
}

static int parse_unexpected(const char *value, enum tf_unexpected *out, struct weir_error *err)
{
	static const char *const words[] = {"infer", "ignore", "error"};

	for (uint32_t i = 0; i < 3; i++) {
		if (strcmp(value, words[i]) == 0) {
			*out = (enum tf_unexpected)i;
			return WEIR_OK;
		}
	}
	return weir_error_set(err, WEIR_E_INVALID, "--unexpected is one of infer, ignore, error, not '%s'", value);
}

static int parse_setting(struct weir_arena *arena, const struct weir_setting *setting, struct tf_options *options,
			 struct weir_error *err)
{
	if (!setting->value)
		return weir_error_set(err, WEIR_E_INVALID, "--%s wants a value", setting->name);
	if (strcmp(setting->name, "types") == 0)
		return parse_types(arena, setting->value, options, err);
	if (strcmp(setting->name, "compression") == 0)
		return weir_compression_parse(setting->value, &options->stream.compression, err);
	if (strcmp(setting->name, "unexpected") == 0)
		return parse_unexpected(setting->value, &options->unexpected, err);
	options->infer_all = strcmp(setting->value, "all") == 0;
	if (!options->infer_all && strcmp(setting->value, "sample"))
		return weir_error_set(err, WEIR_E_INVALID, "--infer is one of sample, all, not '%s'", setting->value);
	return WEIR_OK;
}

int tf_options_parse(struct weir_arena *arena, const struct weir_setting *settings, uint32_t count, const void **out,
		     struct weir_error *err)
{
	struct tf_options *options = weir_arena_alloc(arena, sizeof(*options), err);

	if (!options)
		return err->code;
	*options = options_default;
	for (uint32_t i = 0; i < count; i++)
		if (parse_setting(arena, &settings[i], options, err))
			return err->code;
	if (options->unexpected == TF_UNEXPECTED_IGNORE && !options->given_count)
		return weir_error_set(err, WEIR_E_INVALID,
				      "--unexpected ignore wants --types: without them nothing is expected");
	*out = options;
	return WEIR_OK;
}
