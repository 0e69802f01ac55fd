/* The reverse of type_print.c: a descent over the text, one function for each bracketed form. */
#include "arrow/arrow_impl.h"

#include <stdio.h>
#include <stdlib.h>

struct parser {
	struct weir_account *account;
	const char *text, *at;
	int depth;
	struct weir_error *err;
};

static const struct {
	const char *word;
	enum weir_type_id id;
} other_words[] = {
	{"boolean", WEIR_BOOL},  {"int", WEIR_INT64},      {"half", WEIR_HALF},     {"float16", WEIR_HALF},
	{"float32", WEIR_FLOAT}, {"float64", WEIR_DOUBLE}, {"date32", WEIR_DATE32}, {"date", WEIR_DATE32},
	{"date64", WEIR_DATE64}, {"utf8", WEIR_STRING},    {"str", WEIR_STRING},    {"large_utf8", WEIR_LARGE_STRING},
	{"bytes", WEIR_BINARY},
};

static const struct weir_type *parse_type(struct parser *parser);

static void *refuse(struct parser *parser, const char *what)
{
	/* The place first found wrong is the one to show. */
	weir_error_set(parser->err, WEIR_E_SYNTAX, "'%s' is not a type: %s at character %d", parser->text, what,
		       (int)(parser->at - parser->text) + 1);
	return NULL;
}

static void skip_spaces(struct parser *parser)
{
	while (*parser->at == ' ' || *parser->at == '\t')
		parser->at++;
}

static bool accept(struct parser *parser, const char *token)
{
	size_t size = strlen(token);

	skip_spaces(parser);
	if (strncmp(parser->at, token, size))
		return false;
	parser->at += size;
	return true;
}

static bool expect(struct parser *parser, const char *token)
{
	char what[64];

	if (accept(parser, token))
		return true;
	snprintf(what, sizeof(what), "expected '%s'", token);
	refuse(parser, what);
	return false;
}

static bool parse_number(struct parser *parser, int32_t *out)
{
	char *end;
	long value;

	skip_spaces(parser);
	value = strtol(parser->at, &end, 10);
	if (end == parser->at || value < INT32_MIN || value > INT32_MAX) {
		refuse(parser, "expected a number");
		return false;
	}
	parser->at = end;
	*out = (int32_t)value;
	return true;
}

static bool parse_unit(struct parser *parser, enum weir_time_unit *out)
{
	skip_spaces(parser);
	for (int unit = WEIR_SECOND; unit <= WEIR_NANO; unit++)
		if (accept(parser, type_units[unit])) {
			*out = unit;
			return true;
		}
	refuse(parser, "expected s, ms, us or ns");
	return false;
}

static const struct weir_type *parse_decimal(struct parser *parser, enum weir_type_id id)
{
	int32_t precision, scale = 0;

	if (!expect(parser, "(") || !parse_number(parser, &precision))
		return NULL;
	if (accept(parser, ",") && !parse_number(parser, &scale))
		return NULL;
	return expect(parser, ")") ? weir_type_decimal(parser->account, id, precision, scale, parser->err) : NULL;
}

static const struct weir_type *parse_temporal(struct parser *parser, enum weir_type_id id)
{
	enum weir_time_unit unit = id == WEIR_TIME32 ? WEIR_MILLI : WEIR_MICRO;
	const char *zone, *end;
	const struct weir_type *type;
	char *copy;

	/* "timestamp" alone is what people write for microseconds. */
	if (!accept(parser, "["))
		return weir_type_temporal(parser->account, id, unit, NULL, parser->err);
	if (!parse_unit(parser, &unit))
		return NULL;
	if (id != WEIR_TIMESTAMP || !accept(parser, ","))
		return expect(parser, "]") ? weir_type_temporal(parser->account, id, unit, NULL, parser->err) : NULL;
	if (!expect(parser, "tz="))
		return NULL;
	zone = parser->at;
	end = strchr(zone, ']');
	if (!end)
		return refuse(parser, "expected ']'");
	parser->at = end + 1;
	copy = weir_alloc(parser->account, (size_t)(end - zone) + 1, parser->err);
	if (!copy)
		return NULL;
	memcpy(copy, zone, (size_t)(end - zone));
	copy[end - zone] = 0;
	type = weir_type_temporal(parser->account, id, unit, copy, parser->err);
	weir_free(parser->account, copy, (size_t)(end - zone) + 1);
	return type;
}

static const struct weir_type *parse_fixed_binary(struct parser *parser)
{
	int32_t width;

	if (!expect(parser, "[") || !parse_number(parser, &width) || !expect(parser, "]"))
		return NULL;
	if (width < 0)
		return refuse(parser, "a negative width");
	return weir_type_fixed_binary(parser->account, (uint32_t)width, parser->err);
}

/* "name: type not null". Where names may be left out, a type without one gets `usual`. */
static bool parse_field(struct parser *parser, const char *usual, struct weir_field *out, char **name_out,
			size_t *name_size)
{
	const char *start, *end;

	skip_spaces(parser);
	start = end = parser->at;
	*name_out = NULL;
	while (*end && *end != ':' && (!usual || !strchr("<>[](),", *end)))
		end++;
	if (*end == ':') {
		*name_size = (size_t)(end - start) + 1;
		*name_out = weir_alloc(parser->account, *name_size, parser->err);
		if (!*name_out)
			return false;
		memcpy(*name_out, start, *name_size - 1);
		(*name_out)[*name_size - 1] = 0;
		parser->at = end + 1;
	} else if (!usual) {
		refuse(parser, "expected a name and ':'");
		return false;
	}
	*out = (struct weir_field){.name = *name_out ? *name_out : usual, .nullable = true};
	out->type = parse_type(parser);
	if (out->type && accept(parser, "not null"))
		out->nullable = false;
	return out->type;
}

static const struct weir_type *parse_list(struct parser *parser, enum weir_type_id id)
{
	const struct weir_type *type = NULL;
	struct weir_field item = {0};
	char *name = NULL;
	size_t name_size = 0;
	int32_t list_size = 0;

	if (!expect(parser, "<") || !parse_field(parser, "item", &item, &name, &name_size) || !expect(parser, ">"))
		goto out;
	if (id == WEIR_FIXED_LIST &&
	    (!expect(parser, "[") || !parse_number(parser, &list_size) || !expect(parser, "]")))
		goto out;
	type = weir_type_list(parser->account, id, &item, list_size, false, parser->err);
out:
	weir_type_unref(item.type);
	weir_free(parser->account, name, name_size);
	return type;
}

static const struct weir_type *parse_struct(struct parser *parser)
{
	const struct weir_type *type = NULL;
	struct weir_field *fields = NULL;
	char **names = NULL;
	size_t *sizes = NULL, capacity = 0;
	uint32_t count = 0;

	if (!expect(parser, "<"))
		return NULL;
	/* A field takes at least one ',' or '>', so their number bounds that of the fields. */
	for (const char *at = parser->at; *at; at++)
		capacity += *at == ',' || *at == '>';
	fields = weir_alloc_zero(parser->account, capacity * sizeof(*fields), parser->err);
	names = fields ? weir_alloc_zero(parser->account, capacity * sizeof(*names), parser->err) : NULL;
	sizes = names ? weir_alloc_zero(parser->account, capacity * sizeof(*sizes), parser->err) : NULL;
	if (!sizes)
		goto out;
	if (!accept(parser, ">")) {
		do {
			if (count == capacity) {
				refuse(parser, "expected '>'");
				goto out;
			}
			count++;
			if (!parse_field(parser, NULL, &fields[count - 1], &names[count - 1], &sizes[count - 1]))
				goto out;
		} while (accept(parser, ","));
		if (!expect(parser, ">"))
			goto out;
	}
	type = weir_type_struct(parser->account, fields, count, parser->err);
out:
	for (uint32_t i = 0; i < count; i++) {
		weir_type_unref(fields[i].type);
		weir_free(parser->account, names[i], sizes[i]);
	}
	weir_free(parser->account, sizes, capacity * sizeof(*sizes));
	weir_free(parser->account, names, capacity * sizeof(*names));
	weir_free(parser->account, fields, capacity * sizeof(*fields));
	return type;
}

static const struct weir_type *parse_map(struct parser *parser)
{
	struct weir_field entries = {.name = "entries"};
	struct weir_field fields[2] = {{.name = "key"}, {.name = "value", .nullable = true}};
	const struct weir_type *type = NULL;
	bool ordered = false;

	if (!expect(parser, "<") || !(fields[0].type = parse_type(parser)) || !expect(parser, ",") ||
	    !(fields[1].type = parse_type(parser)))
		goto out;
	if (accept(parser, ",")) {
		if (!expect(parser, "keys_sorted"))
			goto out;
		ordered = true;
	}
	if (!expect(parser, ">"))
		goto out;
	entries.type = weir_type_struct(parser->account, fields, 2, parser->err);
	if (entries.type)
		type = weir_type_list(parser->account, WEIR_MAP, &entries, 0, ordered, parser->err);
out:
	weir_type_unref(entries.type);
	weir_type_unref(fields[0].type);
	weir_type_unref(fields[1].type);
	return type;
}

static const struct weir_type *parse_dictionary(struct parser *parser)
{
	const struct weir_type *value = NULL, *index = NULL, *type = NULL;
	int32_t ordered = 0;

	if (!expect(parser, "<") || !expect(parser, "values=") || !(value = parse_type(parser)))
		goto out;
	if (!expect(parser, ",") || !expect(parser, "indices=") || !(index = parse_type(parser)))
		goto out;
	if (accept(parser, ",") && (!expect(parser, "ordered=") || !parse_number(parser, &ordered)))
		goto out;
	if (expect(parser, ">"))
		type = weir_type_dictionary(parser->account, index, value, ordered != 0, parser->err);
out:
	weir_type_unref(value);
	weir_type_unref(index);
	return type;
}

static bool word_is(const char *word, const char *at, size_t size)
{
	return strlen(word) == size && !memcmp(word, at, size);
}

static const struct weir_type *parse_by_id(struct parser *parser, enum weir_type_id id)
{
	switch (id) {
	case WEIR_DECIMAL128:
	case WEIR_DECIMAL256:
		return parse_decimal(parser, id);
	case WEIR_TIME32:
	case WEIR_TIME64:
	case WEIR_TIMESTAMP:
	case WEIR_DURATION:
		return parse_temporal(parser, id);
	case WEIR_FIXED_BINARY:
		return parse_fixed_binary(parser);
	case WEIR_LIST_TYPE:
	case WEIR_LARGE_LIST:
	case WEIR_FIXED_LIST:
		return parse_list(parser, id);
	case WEIR_STRUCT:
		return parse_struct(parser);
	case WEIR_MAP:
		return parse_map(parser);
	case WEIR_DICTIONARY_TYPE:
		return parse_dictionary(parser);
	default:
		return weir_type_of(id);
	}
}

static const struct weir_type *parse_type(struct parser *parser)
{
	const struct weir_type *type = NULL;
	size_t size = 0;

	skip_spaces(parser);
	if (++parser->depth > WEIR_DEPTH_MAX + 1)
		return refuse(parser, "nested too deep");
	while ((parser->at[size] >= 'a' && parser->at[size] <= 'z') || parser->at[size] == '_' ||
	       (parser->at[size] >= '0' && parser->at[size] <= '9'))
		size++;
	for (int id = 0; id < WEIR_TYPE_ID_COUNT && !type; id++) {
		const char *word = type_words[id], *end = strchr(word, '[');

		/* "date32[day]" has its bracket in the word. */
		if (end && strncmp(parser->at, word, strlen(word)) == 0) {
			parser->at += strlen(word);
			type = weir_type_of(id);
		} else if (!end && word_is(word, parser->at, size)) {
			parser->at += size;
			type = parse_by_id(parser, id);
			if (!type)
				return NULL;
		}
	}
	for (size_t i = 0; i < sizeof(other_words) / sizeof(other_words[0]) && !type; i++)
		if (word_is(other_words[i].word, parser->at, size)) {
			parser->at += size;
			type = weir_type_of(other_words[i].id);
		}
	if (!type && word_is("decimal", parser->at, size)) {
		parser->at += size;
		type = parse_decimal(parser, WEIR_DECIMAL128);
		if (!type)
			return NULL;
	}
	if (!type)
		return refuse(parser, "unknown word");
	parser->depth--;
	return type;
}

const struct weir_type *weir_type_parse(struct weir_account *account, const char *text, struct weir_error *err)
{
	struct parser parser = {.account = account, .text = text, .at = text, .err = err};
	const struct weir_type *type = parse_type(&parser);

	skip_spaces(&parser);
	if (type && *parser.at) {
		weir_type_unref(type);
		return refuse(&parser, "unexpected text");
	}
	return type;
}
