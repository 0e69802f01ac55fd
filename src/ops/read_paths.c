/* Columns that the folders of a path make, as Ray Data has them: of the whole path, not only of what lies below the
 * path that was given, so that a list of files has them too.
 *
 *     /data/in/year=2024/city=Z%C3%BCrich/a.csv   hive                                  year = "2024", city = "Zürich"
 *     /data/in/2024/05/a.csv                      dir, base /data/in, names year,month  year = "2024", month = "05"
 */
#include "ops/read_impl.h"

#include <string.h>

#define HIVE_NULL "__HIVE_DEFAULT_PARTITION__"

static int parse_list(struct weir_op_env *env, const struct weir_words *words, const char *name,
		      const char *const **out, uint32_t *count, struct weir_error *err)
{
	const char *value = weir_words_option(words, name);
	const char **cleaned;
	int code;

	if (!value)
		return WEIR_OK;
	code = weir_words_split(env, value, out, count, err);
	if (code)
		return code;
	cleaned = weir_arena_alloc_zero(env->arena, (*count + 1) * sizeof(*cleaned), err);
	if (!cleaned)
		return err->code;
	for (uint32_t i = 0; i < *count; i++) {
		const char *text = (*out)[i];
		size_t length = strlen(text);
		bool is_quoted = length >= 2 && (*text == '"' || *text == '\'') && text[length - 1] == *text;

		cleaned[i] = weir_arena_strndup(env->arena, text + is_quoted, length - 2 * (size_t)is_quoted, err);
		if (!cleaned[i])
			return err->code;
	}
	*out = cleaned;
	return WEIR_OK;
}

int weir_read_paths_parse(struct weir_op_env *env, struct read_config *config, const struct weir_words *words,
			  struct weir_error *err)
{
	const char *style = weir_words_option(words, "partition-style");
	const char *base = weir_words_option(words, "partition-base");
	int code = parse_list(env, words, "partition-names", &config->paths_names, &config->paths_name_count, err);

	if (!code)
		code = parse_list(env, words, "partition-integers", &config->paths_integers,
				  &config->paths_integer_count, err);
	if (!code && base && !(config->paths_base = weir_arena_strdup(env->arena, base, err)))
		code = err->code;
	if (code)
		return code;
	if (!style) {
		if (base || config->paths_names || config->paths_integers)
			return weir_error_set(
				err, WEIR_E_INVALID,
				"--partition-base, --partition-names and --partition-integers need --partition-style");
		return WEIR_OK;
	}
	if (strcmp(style, "hive") == 0)
		config->paths_style = READ_PATHS_HIVE;
	else if (strcmp(style, "dir") == 0)
		config->paths_style = READ_PATHS_DIR;
	else
		return weir_error_set(err, WEIR_E_INVALID, "--partition-style is hive or dir, not '%s'", style);
	if (config->paths_style == READ_PATHS_DIR && !config->paths_name_count)
		return weir_error_set(err, WEIR_E_INVALID, "--partition-style dir needs --partition-names");
	return WEIR_OK;
}

static int save_strings(struct weir_save *save, const char *const *strings, uint32_t count, struct weir_error *err)
{
	int code = weir_save_u32(save, count, err);

	for (uint32_t i = 0; !code && i < count; i++)
		code = weir_save_string(save, strings[i], err);
	return code;
}

int weir_read_paths_save(const struct read_config *config, struct weir_save *save, struct weir_error *err)
{
	int code = weir_save_u32(save, (uint32_t)config->paths_style, err);

	if (!code)
		code = weir_save_string(save, config->paths_base, err);
	if (!code)
		code = save_strings(save, config->paths_names, config->paths_name_count, err);
	return code ? code : save_strings(save, config->paths_integers, config->paths_integer_count, err);
}

int weir_read_paths_load(struct weir_op_env *env, struct read_config *config, struct weir_load *load,
			 struct weir_error *err)
{
	uint32_t style = 0;
	int code = weir_load_u32(load, &style, err);

	if (!code && style > READ_PATHS_DIR)
		code = weir_error_set(err, WEIR_E_DATA, "the saved plan has partitions of an unknown style");
	config->paths_style = (enum read_paths)style;
	if (!code)
		code = weir_load_string(load, &config->paths_base, err);
	if (!code)
		code = weir_read_load_strings(env, load, &config->paths_names, &config->paths_name_count, err);
	return code ? code
		    : weir_read_load_strings(env, load, &config->paths_integers, &config->paths_integer_count, err);
}

bool weir_read_paths_is_integer(const struct read_config *config, const char *name)
{
	for (uint32_t i = 0; i < config->paths_integer_count; i++) {
		if (strcmp(config->paths_integers[i], name) == 0)
			return true;
	}
	return false;
}

/* ---- a path ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* %41 is A; a % that begins no such thing is itself, and so is %00. */
static char *decode(struct weir_arena *arena, const char *text, size_t length, struct weir_error *err)
{
	char *out = weir_arena_strndup(arena, text, length, err);
	size_t n = 0;

	for (size_t i = 0; out && i < length; i++) {
		int high = i + 2 < length && text[i] == '%' ? hex_digit(text[i + 1]) : -1;
		int low = high >= 0 ? hex_digit(text[i + 2]) : -1;

		if (low < 0 || high * 16 + low == 0) {
			out[n++] = text[i];
		} else {
			out[n++] = (char)(high * 16 + low);
			i += 2;
		}
	}
	if (out)
		out[n] = 0;
	return out;
}

static const char *below_base(const char *path, const char *base)
{
	size_t length = base ? strlen(base) : 0;

	while (length > 0 && base[length - 1] == '/')
		length--;
	return length && strncmp(path, base, length) == 0 && path[length] == '/' ? path + length + 1 : path;
}

static int fail_count(const struct read_config *config, const char *path, uint32_t found, struct weir_error *err)
{
	weir_error_set(err, WEIR_E_INVALID, "the file lies in %u folders%s%s, and there are %u names for them", found,
		       config->paths_base ? " below " : "", config->paths_base ? config->paths_base : "",
		       config->paths_name_count);
	weir_error_at_source(err, path);
	return err->code;
}

int weir_read_paths_split(const struct read_config *config, struct weir_arena *arena, struct weir_listed *listed,
			  struct weir_error *err)
{
	const char *at = below_base(listed->path, config->paths_base), *end;
	struct weir_partition_value *values;
	uint32_t capacity = 0, count = 0, found = 0;

	for (const char *p = at; *p; p++)
		capacity += *p == '/';
	weir_arena_clear(arena);
	values = weir_arena_alloc_zero(arena, (capacity + 1) * sizeof(*values), err);
	if (!values)
		return err->code;
	for (; (end = strchr(at, '/')); at = end + 1) {
		const char *equals = memchr(at, '=', (size_t)(end - at));
		struct weir_partition_value *value = &values[count];

		if (end == at || (end == at + 1 && *at == '.'))
			continue;
		if (config->paths_style == READ_PATHS_DIR) {
			if (found < config->paths_name_count) {
				value->key = config->paths_names[found];
				value->value = weir_arena_strndup(arena, at, (size_t)(end - at), err);
				count++;
			}
			found++;
		} else if (equals && equals > at) {
			value->key = decode(arena, at, (size_t)(equals - at), err);
			value->value = decode(arena, equals + 1, (size_t)(end - equals - 1), err);
			if (value->value && strcmp(value->value, HIVE_NULL) == 0)
				value->value = NULL;
			count++;
		}
		if (err->code)
			return err->code;
	}
	if (config->paths_style == READ_PATHS_DIR && found && found != config->paths_name_count)
		return fail_count(config, listed->path, found, err);
	listed->partitions = values;
	listed->partition_count = count;
	return WEIR_OK;
}
