/* The options of CSV, as they are given on the command line, and their defaults: pyarrow's, where it has them. */
#include "format/csv/csv_impl.h"

#include <stdio.h>
#include <string.h>

const char *const csv_option_names[] = {
	"delimiter=",
	"quote=",
	"escape=",
	"no-doubled-quotes",
	"header",
	"no-header",
	"names=",
	"comment=",
	"skip-lines=",
	"null=",
	"strings-null=",
	"no-quoted-null",
	"decimal-point=",
	"encoding=",
	"compression=",
	"types=",
	"infer=",
	"ragged=",
	NULL,
};

#define TEXT(literal)                                                                                                  \
	{                                                                                                              \
		literal, sizeof(literal) - 1                                                                           \
	}
static const struct csv_text default_nulls[] = {
	TEXT(""),     TEXT("#N/A"), TEXT("#N/A N/A"), TEXT("#NA"),     TEXT("-1.#IND"), TEXT("-1.#QNAN"),
	TEXT("-NaN"), TEXT("-nan"), TEXT("1.#IND"),   TEXT("1.#QNAN"), TEXT("N/A"),     TEXT("NA"),
	TEXT("NULL"), TEXT("NaN"),  TEXT("n/a"),      TEXT("nan"),     TEXT("null"),
};

const struct csv_options csv_options_default = {
	.dialect = {.delimiter = ',',
		    .quote = '"',
		    .escape = ',',
		    .comment = ',',
		    .point = '.',
		    .has_quote = true,
		    .doubled = true},
	.has_header = true,
	.quoted_null = true,
	.nulls = default_nulls,
	.null_count = sizeof(default_nulls) / sizeof(default_nulls[0]),
};

struct csv_dialect csv_dialect_for(const struct csv_options *options, const char *path)
{
	struct csv_dialect dialect = options->dialect;
	size_t size = weir_compression_stem(path);

	if (!options->delimiter_given && size >= 4 && strncasecmp(path + size - 4, ".tsv", 4) == 0)
		dialect.delimiter = '\t';
	if (!dialect.has_quote)
		dialect.quote = dialect.delimiter;
	if (!dialect.has_escape)
		dialect.escape = dialect.delimiter;
	if (!dialect.has_comment)
		dialect.comment = dialect.delimiter;
	return dialect;
}

/* One ASCII character, or "tab" or "\t"; "" and "none" where there may be none. */
static int parse_character(const struct weir_setting *setting, bool may_be_none, uint8_t *out, bool *has,
			   struct weir_error *err)
{
	const char *value = setting->value;

	if (may_be_none && (value[0] == 0 || strcmp(value, "none") == 0)) {
		*has = false;
		return WEIR_OK;
	}
	if (strcmp(value, "tab") == 0 || strcmp(value, "\\t") == 0)
		value = "\t";
	if (strlen(value) != 1 || (uint8_t)value[0] >= 0x80 || value[0] == '\n' || value[0] == '\r')
		return weir_error_set(err, WEIR_E_INVALID, "--%s is one ASCII character%s, not '%s'", setting->name,
				      may_be_none ? " or none" : "", setting->value);
	*out = (uint8_t)value[0];
	*has = true;
	return WEIR_OK;
}

/* The next item of a list with commas: "a b" in quotes keeps its commas, brackets keep theirs. `*list` moves behind it
 * and its comma, to NULL at the end. */
static int next_item(struct weir_arena *arena, const char **list, struct csv_text *out, struct weir_error *err)
{
	const char *at = *list;
	char *item = weir_arena_alloc(arena, strlen(at) + 1, err);
	uint32_t size = 0, depth = 0;
	bool quoted = false;

	if (!item)
		return err->code;
	for (; *at && (quoted || depth || *at != ','); at++) {
		if (*at == '"') {
			if (quoted && at[1] == '"')
				item[size++] = *++at;
			else
				quoted = !quoted;
			continue;
		}
		if (!quoted && strchr("([<", *at))
			depth++;
		else if (!quoted && depth && strchr(")]>", *at))
			depth--;
		item[size++] = *at;
	}
	item[size] = 0;
	*out = (struct csv_text){item, size};
	*list = *at ? at + 1 : NULL;
	return WEIR_OK;
}

static uint32_t item_bound(const char *list)
{
	uint32_t count = 1;

	for (; *list; list++)
		count += *list == ',';
	return count;
}

static int parse_names(struct weir_arena *arena, struct csv_options *options, const char *list, struct weir_error *err)
{
	const char **names = weir_arena_alloc(arena, item_bound(list) * sizeof(*names), err);

	if (!names)
		return err->code;
	options->name_count = 0;
	while (list) {
		struct csv_text item;

		if (next_item(arena, &list, &item, err))
			return err->code;
		names[options->name_count++] = item.data;
	}
	options->names = names;
	return WEIR_OK;
}

/* Given twice, it adds; given once, the defaults are gone. */
static int parse_nulls(struct weir_arena *arena, struct csv_options *options, const char *list, struct weir_error *err)
{
	uint32_t count = options->nulls == default_nulls ? 0 : options->null_count;
	struct csv_text *nulls = weir_arena_alloc(arena, (count + item_bound(list)) * sizeof(*nulls), err);

	if (!nulls)
		return err->code;
	if (count)
		memcpy(nulls, options->nulls, count * sizeof(*nulls));
	while (list)
		if (next_item(arena, &list, &nulls[count++], err))
			return err->code;
	options->nulls = nulls;
	options->null_count = count;
	return WEIR_OK;
}

/* The '=' between a name and its type: the first one outside brackets. */
static const char *type_of_item(struct weir_arena *arena, const char *list, const char **name, const char **end,
				struct weir_error *err)
{
	char *buffer = weir_arena_alloc(arena, strlen(list) + 1, err);
	size_t size = 0;
	bool quoted = false;

	if (!buffer)
		return NULL;
	for (; *list && (quoted || *list != '='); list++) {
		if (*list != '"')
			buffer[size++] = *list;
		else if (quoted && list[1] == '"')
			buffer[size++] = *++list;
		else
			quoted = !quoted;
	}
	buffer[size] = 0;
	*name = buffer;
	if (*list != '=') {
		weir_error_set(err, WEIR_E_SYNTAX, "--types wants name=type, not '%s'", buffer);
		return NULL;
	}
	*end = list + 1;
	return buffer;
}

static int check_type(struct weir_arena *arena, const char *name, const char *spelling, struct weir_error *err)
{
	const struct weir_type *type = weir_type_parse(arena->account, spelling, err);
	int code;

	if (!type) {
		code = err->code;
		weir_error_at_column(err, name);
		return code;
	}
	code = csv_type_check(type, err);
	weir_error_at_column(err, name);
	weir_type_unref(type);
	return code;
}

static int parse_types(struct weir_arena *arena, struct csv_options *options, const char *list, struct weir_error *err)
{
	uint32_t count = options->type_count;
	struct csv_given_type *types = weir_arena_alloc(arena, (count + item_bound(list)) * sizeof(*types), err);

	if (!types)
		return err->code;
	if (count)
		memcpy(types, options->types, count * sizeof(*types));
	while (list && *list) {
		struct csv_given_type *given = &types[count];
		struct csv_text spelling;
		const char *rest;

		if (!type_of_item(arena, list, &given->name, &rest, err) || next_item(arena, &rest, &spelling, err))
			return err->code;
		given->spelling = spelling.data;
		if (check_type(arena, given->name, given->spelling, err))
			return err->code;
		list = rest;
		count++;
	}
	options->types = types;
	options->type_count = count;
	return WEIR_OK;
}

static int parse_choice(const struct weir_setting *setting, const char *const *choices, int *out,
			struct weir_error *err)
{
	char all[128];
	size_t size = 0;

	for (int i = 0; choices[i]; i++) {
		if (strcmp(setting->value, choices[i]) == 0) {
			*out = i;
			return WEIR_OK;
		}
		size += (size_t)snprintf(all + size, sizeof(all) - size, "%s%s", i ? ", " : "", choices[i]);
	}
	return weir_error_set(err, WEIR_E_INVALID, "--%s is one of %s, not '%s'", setting->name, all, setting->value);
}

static int parse_count(const struct weir_setting *setting, uint64_t *out, struct weir_error *err)
{
	int64_t value;

	if (!weir_parse_i64(setting->value, strlen(setting->value), &value) || value < 0)
		return weir_error_set(err, WEIR_E_INVALID, "--%s is a number of lines, not '%s'", setting->name,
				      setting->value);
	*out = (uint64_t)value;
	return WEIR_OK;
}

static int parse_setting(struct weir_arena *arena, struct csv_options *options, const struct weir_setting *setting,
			 bool *header_given, struct weir_error *err)
{
	static const char *const ragged[] = {"error", "skip", "fill", NULL};
	static const char *const strings_null[] = {"never", "unquoted", "always", NULL};
	static const char *const infer[] = {"sample", "all", "none", NULL};
	struct csv_dialect *dialect = &options->dialect;
	const char *name = setting->name;
	int choice = 0, code;
	bool has;

	if (strcmp(name, "delimiter") == 0) {
		options->delimiter_given = true;
		return parse_character(setting, false, &dialect->delimiter, &has, err);
	}
	if (strcmp(name, "quote") == 0)
		return parse_character(setting, true, &dialect->quote, &dialect->has_quote, err);
	if (strcmp(name, "escape") == 0)
		return parse_character(setting, true, &dialect->escape, &dialect->has_escape, err);
	if (strcmp(name, "comment") == 0)
		return parse_character(setting, true, &dialect->comment, &dialect->has_comment, err);
	if (strcmp(name, "decimal-point") == 0)
		return parse_character(setting, false, &dialect->point, &has, err);
	if (strcmp(name, "names") == 0)
		return parse_names(arena, options, setting->value, err);
	if (strcmp(name, "null") == 0)
		return parse_nulls(arena, options, setting->value, err);
	if (strcmp(name, "types") == 0)
		return parse_types(arena, options, setting->value, err);
	if (strcmp(name, "skip-lines") == 0)
		return parse_count(setting, &options->skip_lines, err);
	if (strcmp(name, "encoding") == 0)
		return weir_encoding_parse(setting->value, &options->stream.encoding, err);
	if (strcmp(name, "compression") == 0)
		return weir_compression_parse(setting->value, &options->stream.compression, err);
	if (strcmp(name, "ragged") == 0) {
		code = parse_choice(setting, ragged, &choice, err);
		options->ragged = (enum csv_ragged)choice;
		return code;
	}
	if (strcmp(name, "strings-null") == 0) {
		code = parse_choice(setting, strings_null, &choice, err);
		options->strings_null = (enum csv_strings_null)choice;
		return code;
	}
	if (strcmp(name, "infer") == 0) {
		code = parse_choice(setting, infer, &choice, err);
		options->infer_all = choice == 1;
		options->text_only = choice == 2;
		return code;
	}
	if (strcmp(name, "no-doubled-quotes") == 0)
		dialect->doubled = false;
	else if (strcmp(name, "no-quoted-null") == 0)
		options->quoted_null = false;
	else if (strcmp(name, "header") == 0 || strcmp(name, "no-header") == 0) {
		*header_given = true;
		options->has_header = name[0] == 'h';
	} else {
		return weir_error_set(err, WEIR_E_INVALID, "CSV has no option '%s'", name);
	}
	return WEIR_OK;
}

static int check_characters(const struct csv_dialect *dialect, struct weir_error *err)
{
	struct {
		const char *name;
		uint8_t byte;
		bool has;
	} all[] = {
		{"delimiter", dialect->delimiter, true},
		{"quote", dialect->quote, dialect->has_quote},
		{"escape", dialect->escape, dialect->has_escape},
		{"comment", dialect->comment, dialect->has_comment},
	};

	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t k = 0; k < i; k++)
			if (all[i].has && all[k].has && all[i].byte == all[k].byte)
				return weir_error_set(err, WEIR_E_INVALID, "--%s and --%s are both '%c'", all[k].name,
						      all[i].name, all[i].byte);
	return WEIR_OK;
}

int csv_options_parse(struct weir_arena *arena, const struct weir_setting *settings, uint32_t count, const void **out,
		      struct weir_error *err)
{
	struct csv_options *options = weir_arena_alloc_zero(arena, sizeof(*options), err);
	bool header_given = false;
	int code = WEIR_OK;

	if (!options)
		return err->code;
	*options = csv_options_default;
	options->skipping_told = weir_arena_alloc_zero(arena, sizeof(*options->skipping_told), err);
	if (!options->skipping_told)
		return err->code;
	for (uint32_t i = 0; !code && i < count; i++)
		code = parse_setting(arena, options, &settings[i], &header_given, err);
	/* Backslashes are doubled by themselves; an escape character that is the quote is what `doubled` means. */
	if (!code && options->dialect.has_escape && options->dialect.has_quote &&
	    options->dialect.escape == options->dialect.quote) {
		options->dialect.has_escape = false;
		options->dialect.doubled = true;
	}
	if (!code)
		code = check_characters(&options->dialect, err);
	if (options->names && !header_given)
		options->has_header = false;
	*out = options;
	return code;
}
