/* Patterns as pyarrow.compute has them, for expressions of Python: regular expressions in RE2's dialect, SQL's LIKE,
 * and parts of text looked for without regard to case. Places are counted in bytes.
 *
 * A text is matched piece by piece, as there: what is left of it after a match is a text of its own, at whose beginning
 * ^ holds.
 */
#include "base/utf8.h"
#include "expr/functions_nested.h"
#include "expr/regex.h"
#include "expr/text_writer.h"

#include <string.h>

enum {
	OP_MATCH_REGEX,
	OP_FIND_REGEX,
	OP_COUNT_REGEX,
	OP_LIKE,
	OP_STARTS,
	OP_ENDS,
	OP_CONTAINS,
	OP_FIND,
	OP_COUNT,
};

struct search {
	struct weir_regex regex;
	bool is_text, is_large; /* large: counts of 64 bits */
	/* replace: the parts of the replacement; group −1: bytes */
	uint32_t part_count;
	struct part {
		int32_t group;
		struct weir_view bytes;
	} * parts;
};

static size_t step(const struct search *search, const uint8_t *bytes, size_t left)
{
	size_t size = 1;

	while (search->is_text && size < left && (bytes[size] & 0xc0) == 0x80)
		size++;
	return size;
}

static int kernel_match(struct weir_call *call, struct weir_error *err)
{
	const struct search *search = call->node->data;
	struct weir_matcher matcher;
	uint64_t *bits = call->values;
	int found = 0, code = weir_matcher_init(&matcher, &search->regex, err);

	for (uint32_t k = 0; !code && k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *text = weir_call_view(call, 0, row);

		found = weir_matcher_match(&matcher, call, row, weir_view_bytes(text), text->size, 0, err);
		if (found < 0)
			code = err->code;
		else
			bits[row >> 6] |= (uint64_t)found << (row & 63);
	}
	weir_matcher_release(&matcher);
	return code;
}

/* How often it is found: an empty match takes one byte. */
static int count_row(struct weir_matcher *matcher, const struct weir_call *call, uint32_t row, int64_t *out,
		     struct weir_error *err)
{
	const struct search *search = call->node->data;
	const struct weir_view *text = weir_call_view(call, 0, row);
	const uint8_t *bytes = weir_view_bytes(text);
	size_t at = 0;

	*out = 0;
	while (at <= text->size) {
		int found = weir_matcher_match(matcher, call, row, bytes + at, text->size - at, 0, err);
		size_t size;

		if (found < 0)
			return err->code;
		if (!found)
			break;
		size = matcher->places[1];
		/* Inside of a character nothing but the empty match is possible. */
		if (!size && at < text->size)
			size = step(search, bytes + at, text->size - at);
		*out += matcher->places[1] || at == text->size ? 1 : (int64_t)size;
		at += size ? size : 1;
	}
	return WEIR_OK;
}

static int kernel_number(struct weir_call *call, struct weir_error *err)
{
	const struct search *search = call->node->data;
	bool counts = call->node->op == OP_COUNT_REGEX || call->node->op == OP_COUNT;
	struct weir_matcher matcher;
	int code = weir_matcher_init(&matcher, &search->regex, err);

	for (uint32_t k = 0; !code && k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *text = weir_call_view(call, 0, row);
		int64_t number = -1;

		if (counts) {
			code = count_row(&matcher, call, row, &number, err);
		} else {
			int found = weir_matcher_match(&matcher, call, row, weir_view_bytes(text), text->size, 0, err);

			if (found < 0)
				code = err->code;
			else if (found)
				number = (int64_t)matcher.places[0];
		}
		if (search->is_large)
			((int64_t *)call->values)[row] = number;
		else
			((int32_t *)call->values)[row] = (int32_t)number;
	}
	weir_matcher_release(&matcher);
	return code;
}

/* ---- patterns ---- */

static bool is_literal(uint32_t op)
{
	return op >= OP_STARTS;
}

/* LIKE for PCRE2: % any text, _ any character, a backslash takes what follows as it is. */
static const uint8_t *like_pattern(struct weir_program *program, const struct weir_view *pattern, size_t *size,
				   struct weir_error *err)
{
	const uint8_t *bytes = weir_view_bytes(pattern);
	uint8_t *out = weir_arena_alloc(&program->arena, (size_t)pattern->size * 2 + 8, err), *to = out;

	if (!out)
		return NULL;
	for (uint32_t i = 0; i < pattern->size; i++) {
		uint8_t c = bytes[i];
		bool is_escaped = c == '\\' && i + 1 < pattern->size;

		if (is_escaped)
			c = bytes[++i];
		if (!is_escaped && c == '%') {
			*to++ = '.';
			*to++ = '*';
		} else if (!is_escaped && c == '_') {
			*to++ = '.';
		} else {
			/* A backslash before a letter or a digit would mean something. */
			if (c < 0x80 && !((c | 32) >= 'a' && (c | 32) <= 'z') && !(c >= '0' && c <= '9'))
				*to++ = '\\';
			*to++ = c;
		}
	}
	*size = (size_t)(to - out);
	return out;
}

static int refuse(struct weir_program *program, const struct weir_node *node, struct weir_error *err)
{
	char name[96];

	return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s is not defined for %s (%s)", node->function->name,
			      weir_type_name(node->arguments[0]->type, name, sizeof(name)), node->arguments[0]->text);
}

static const struct weir_scalar *literal_at(const struct weir_node *node, uint32_t argument)
{
	return weir_node_is_constant(node->arguments[argument]) ? &node->arguments[argument]->value : NULL;
}

/* The text, the pattern, and whether case counts; the node has one argument after that. */
static int search_new(struct weir_program *program, struct weir_node *node, bool ignores_case,
		      struct weir_regex_names *names, struct search **out, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	const struct weir_scalar *pattern = literal_at(node, 1);
	struct search *search = weir_arena_alloc_zero(&program->arena, sizeof(*search), err);
	uint32_t options = ignores_case ? PCRE2_CASELESS : 0;
	const uint8_t *bytes;
	size_t size;
	int code = WEIR_OK;

	if (!search)
		return err->code;
	if (!weir_type_is_bytes(type))
		return refuse(program, node, err);
	if (!pattern || pattern->is_null || !weir_type_is_bytes(pattern->type))
		return weir_bind_fail(program, node, err, WEIR_E_TYPE, "the pattern is a text literal");
	search->is_text = weir_type_is_text(type);
	search->is_large = type->id == WEIR_LARGE_STRING || type->id == WEIR_LARGE_BINARY;
	options |= search->is_text ? PCRE2_UTF : 0;
	bytes = weir_view_bytes(&pattern->bytes);
	size = pattern->bytes.size;
	if (node->op == OP_LIKE) {
		bytes = like_pattern(program, &pattern->bytes, &size, err);
		code = bytes ? WEIR_OK : err->code;
		options |= PCRE2_DOTALL | PCRE2_ANCHORED | PCRE2_ENDANCHORED;
	} else if (is_literal(node->op)) {
		options |= PCRE2_LITERAL | (node->op == OP_STARTS ? PCRE2_ANCHORED : 0) |
			   (node->op == OP_ENDS ? PCRE2_ENDANCHORED : 0);
	} else {
		code = weir_regex_translate(program, node, &pattern->bytes, &bytes, &size, names, err);
		options |= PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_CIRCUMFLEX;
	}
	if (!code)
		code = weir_regex_compile(program, node, bytes, size, options, &search->regex, err);
	node->count = 1;
	node->data = search;
	node->needs_rows = true;
	node->may_fail = true;
	*out = search;
	return code;
}

static bool one_is_none(const struct weir_node *node)
{
	for (uint32_t i = 0; i < node->count; i++) {
		if (weir_node_is_none(node->arguments[i]))
			return true;
	}
	return false;
}

static int bind_search(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	bool is_number = node->op == OP_FIND_REGEX || node->op == OP_COUNT_REGEX || node->op == OP_FIND ||
			 node->op == OP_COUNT;
	const struct weir_scalar *ignores = node->count > 2 ? literal_at(node, 2) : NULL;
	struct weir_regex_names names;
	struct search *search;
	int code;

	if (one_is_none(node))
		return weir_bind_constant(program, node, weir_type_of(is_number ? WEIR_INT32 : WEIR_BOOL), NULL, err);
	if (node->count > 2 && (!ignores || ignores->type->id != WEIR_BOOL))
		return weir_bind_fail(program, node, err, WEIR_E_TYPE, "whether case is ignored is True or False");
	code = search_new(program, node, ignores && ignores->boolean, &names, &search, err);
	if (code)
		return code;
	if (is_number)
		weir_bind_kernel(node, weir_type_of(search->is_large ? WEIR_INT64 : WEIR_INT32), kernel_number);
	else
		weir_bind_kernel(node, weir_type_of(WEIR_BOOL), kernel_match);
	return WEIR_OK;
}

/* Without ignoring case the plain functions are faster. */
static int bind_part(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_scalar *ignores = literal_at(node, 2);
	static const char *const plain[] = {"starts_with", "ends_with", "contains", "arrow_find", "arrow_count"};
	const struct weir_scalar *part = literal_at(node, 1);

	/* The plain one is for lists, too. */
	if (node->op == OP_CONTAINS && weir_nested_is_list(node->arguments[0]->type))
		return weir_nested_refuse(program, node, err);
	/* Nothing is counted before every byte, which the plain function does before every character. */
	if (one_is_none(node) || !ignores || ignores->type->id != WEIR_BOOL || ignores->boolean ||
	    (node->op == OP_COUNT && part && weir_type_is_bytes(part->type) && !part->bytes.size))
		return bind_search(program, node, err);
	node->function = weir_function_find(plain[node->op - OP_STARTS]);
	node->op = node->function->op;
	node->count = 2;
	return node->function->bind(program, node, err);
}

/* ---- split ---- */

static int kernel_split(struct weir_call *call, struct weir_error *err)
{
	const struct search *search = call->node->data;
	struct weir_matcher matcher;
	struct weir_builder builder;
	int code = weir_builder_init(&builder, call->node->type, call->eval->evaluator->account, err);
	int no_matcher = weir_matcher_init(&matcher, &search->regex, err);

	code = code ? code : no_matcher;
	for (uint32_t k = 0; !code && k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *text = weir_call_view(call, 0, row);
		const uint8_t *bytes = weir_view_bytes(text);
		int64_t left = ((const int64_t *)call->arguments[1].values)[row & weir_call_mask(call, 1)];
		size_t begin = 0, from = 0;

		code = weir_lists_skip(&builder, row, err);
		while (!code && left != 0 && from < text->size) {
			const uint8_t *rest = bytes + begin;
			int found = weir_matcher_match(&matcher, call, row, rest, text->size - begin, from - begin,
						       err);

			if (found < 0)
				code = err->code;
			if (found <= 0)
				break;
			/* Nothing is no separator. */
			if (matcher.places[0] == matcher.places[1]) {
				from = begin + matcher.places[1];
				from += from < text->size ? step(search, bytes + from, text->size - from) : 1;
				continue;
			}
			code = weir_builder_bytes(&builder.children[0], rest, matcher.places[0], err);
			begin += matcher.places[1];
			from = begin;
			left--;
		}
		if (!code)
			code = weir_builder_bytes(&builder.children[0], bytes + begin, text->size - begin, err);
		if (!code)
			code = weir_builder_list_end(&builder, err);
	}
	weir_matcher_release(&matcher);
	return weir_lists_end(call, &builder, code, err);
}

/* An argument that is a number of times; −1 when it is not there: without end. */
static int bind_most(struct weir_program *program, struct weir_node *node, uint32_t argument, struct weir_node **out,
		     struct weir_error *err)
{
	struct weir_scalar endless = {.type = weir_type_of(WEIR_INT64), .integer = -1};

	if (argument < node->count) {
		if (!weir_type_is_integer(node->arguments[argument]->type))
			return weir_bind_fail(program, node, err, WEIR_E_TYPE, "how often is an integer");
		*out = node->arguments[argument];
		return weir_bind_cast(program, out, endless.type, true, err);
	}
	*out = weir_bind_new(program, err);
	return *out ? weir_bind_constant(program, *out, endless.type, &endless, err) : err->code;
}

static int bind_split(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *item = node->arguments[0]->type, *type;
	struct weir_regex_names names;
	struct weir_node *most;
	struct search *search;
	int code;

	type = weir_list_of(program, weir_type_is_bytes(item) ? item : weir_type_of(WEIR_STRING), err);
	if (!type)
		return err->code;
	if (one_is_none(node))
		return weir_bind_constant(program, node, type, NULL, err);
	code = bind_most(program, node, 2, &most, err);
	if (!code)
		code = search_new(program, node, false, &names, &search, err);
	if (code)
		return code;
	node->arguments[1] = most;
	node->count = 2;
	weir_bind_kernel(node, type, kernel_split);
	return WEIR_OK;
}

/* ---- replace ---- */

static int replace_row(struct weir_matcher *matcher, struct weir_call *call, uint32_t row,
		       struct weir_text_writer *writer, struct weir_error *err)
{
	const struct search *search = call->node->data;
	const struct weir_view *text = weir_call_view(call, 0, row);
	const uint8_t *bytes = weir_view_bytes(text);
	const size_t *places = matcher->places;
	size_t from = 0, copied = 0, written = 0, room = (size_t)text->size * 2 + 64, last = SIZE_MAX;
	int64_t left = ((const int64_t *)call->arguments[1].values)[row & weir_call_mask(call, 1)];
	uint8_t *out = weir_text_room(writer, room, err);
	int found;

	if (!out)
		return err->code;
	while (left != 0 && from <= text->size &&
	       (found = weir_matcher_match(matcher, call, row, bytes, text->size, from, err))) {
		size_t need;

		if (found < 0)
			return err->code;
		/* Nothing right behind a match is none of its own. */
		if (places[0] == places[1] && places[0] == last) {
			if (from >= text->size)
				break;
			from += step(search, bytes + from, text->size - from);
			last = SIZE_MAX;
			continue;
		}
		need = written + (places[0] - copied) + (text->size - places[1]);
		for (uint32_t i = 0; i < search->part_count; i++) {
			const struct part *part = &search->parts[i];
			const size_t *group = part->group < 0 ? NULL : places + part->group * 2;

			need += !group ? part->bytes.size : group[0] == PCRE2_UNSET ? 0 : group[1] - group[0];
		}
		if (need > INT32_MAX)
			return weir_call_fail(call, row, err, WEIR_E_OVERFLOW, "the result is too long");
		if (need > room) {
			room = need * 2;
			out = weir_text_grow(writer, room, written, err);
			if (!out)
				return err->code;
		}
		memcpy(out + written, bytes + copied, places[0] - copied);
		written += places[0] - copied;
		for (uint32_t i = 0; i < search->part_count; i++) {
			const struct part *part = &search->parts[i];
			const uint8_t *it = weir_view_bytes(&part->bytes);
			size_t size = part->bytes.size;

			if (part->group >= 0) {
				const size_t *group = places + part->group * 2;

				if (group[0] == PCRE2_UNSET)
					continue;
				it = bytes + group[0];
				size = group[1] - group[0];
			}
			memcpy(out + written, it, size);
			written += size;
		}
		copied = from = last = places[1];
		if (places[0] == places[1]) {
			if (from >= text->size)
				break;
			from += step(search, bytes + from, text->size - from);
			last = SIZE_MAX;
		}
		left--;
	}
	memcpy(out + written, bytes + copied, text->size - copied);
	written += text->size - copied;
	((struct weir_view *)call->values)[row] = weir_text_done(writer, written);
	return WEIR_OK;
}

static int kernel_replace(struct weir_call *call, struct weir_error *err)
{
	const struct search *search = call->node->data;
	struct weir_text_writer writer = {.arena = call->arena};
	struct weir_matcher matcher;
	int code = weir_matcher_init(&matcher, &search->regex, err);

	for (uint32_t k = 0; !code && k < call->rows.count; k++)
		code = replace_row(&matcher, call, weir_call_row(call, k), &writer, err);
	weir_matcher_release(&matcher);
	return code;
}

/* \0 … \9 are groups, \\ a backslash, and nothing else is written with one. */
static int parse_replacement(struct weir_program *program, const struct weir_node *node, const struct weir_view *text,
			     struct search *search, struct weir_error *err)
{
	uint8_t *bytes = weir_arena_alloc(&program->arena, text->size + 1, err);

	search->parts = weir_arena_alloc_zero(&program->arena, (text->size + 1) * sizeof(*search->parts), err);
	if (!search->parts || !bytes)
		return err->code;
	memcpy(bytes, weir_view_bytes(text), text->size);
	for (uint32_t i = 0; i < text->size;) {
		struct part *part = &search->parts[search->part_count++];
		uint32_t begin = i;

		if (bytes[i] != '\\') {
			while (i < text->size && bytes[i] != '\\')
				i++;
			*part = (struct part){.group = -1, .bytes = weir_view_make(bytes + begin, i - begin)};
			continue;
		}
		if (i + 1 == text->size)
			return weir_bind_fail(program, node, err, WEIR_E_VALUE,
					      "the replacement ends in a backslash: write two for one");
		if (bytes[i + 1] == '\\') {
			*part = (struct part){.group = -1, .bytes = weir_view_make(bytes + i, 1)};
		} else if (bytes[i + 1] >= '0' && bytes[i + 1] <= '9') {
			part->group = bytes[i + 1] - '0';
			if ((uint32_t)part->group > search->regex.group_count)
				return weir_bind_fail(program, node, err, WEIR_E_VALUE,
						      "the replacement asks for group %d, but the pattern has %u",
						      part->group, search->regex.group_count);
		} else {
			return weir_bind_fail(program, node, err, WEIR_E_VALUE,
					      "in the replacement a backslash stands before a digit or another one");
		}
		i += 2;
	}
	return WEIR_OK;
}

static int bind_replace(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	const struct weir_scalar *replacement = literal_at(node, 2);
	struct weir_regex_names names;
	struct weir_node *most;
	struct search *search;
	int code;

	if (one_is_none(node))
		return weir_bind_constant(program, node, weir_type_is_bytes(type) ? type : weir_type_of(WEIR_STRING),
					  NULL, err);
	if (!replacement || !weir_type_is_bytes(replacement->type))
		return weir_bind_fail(program, node, err, WEIR_E_TYPE, "the replacement is a text literal");
	code = bind_most(program, node, 3, &most, err);
	if (!code)
		code = search_new(program, node, false, &names, &search, err);
	if (!code)
		code = parse_replacement(program, node, &replacement->bytes, search, err);
	if (code)
		return code;
	node->arguments[1] = most;
	node->count = 2;
	weir_bind_kernel(node, type, kernel_replace);
	return WEIR_OK;
}

/* ---- extract ---- */

static int kernel_extract(struct weir_call *call, struct weir_error *err)
{
	const struct search *search = call->node->data;
	struct weir_matcher matcher;
	struct weir_builder builder;
	int code = weir_builder_init(&builder, call->node->type, call->eval->evaluator->account, err);
	int no_matcher = weir_matcher_init(&matcher, &search->regex, err);

	code = code ? code : no_matcher;
	for (uint32_t k = 0; !code && k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *text = weir_call_view(call, 0, row);
		const uint8_t *bytes = weir_view_bytes(text);
		int found = weir_matcher_match(&matcher, call, row, bytes, text->size, 0, err);

		code = found < 0 ? err->code : weir_lists_skip(&builder, row, err);
		if (code || !found) {
			weir_bit_clear(call->validity, row);
			continue;
		}
		/* A group that took no part is empty. */
		for (uint32_t i = 0; !code && i < search->regex.group_count; i++) {
			size_t begin = matcher.places[i * 2 + 2], end = matcher.places[i * 2 + 3];

			code = weir_builder_bytes(&builder.children[i], begin == PCRE2_UNSET ? bytes : bytes + begin,
						  begin == PCRE2_UNSET ? 0 : end - begin, err);
		}
		if (!code)
			code = weir_builder_struct_end(&builder, err);
	}
	weir_matcher_release(&matcher);
	return weir_lists_end(call, &builder, code, err);
}

static int bind_extract(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	struct weir_field *fields;
	struct weir_regex_names names;
	struct search *search;
	int code;

	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, weir_type_of(WEIR_NULL), NULL, err);
	code = search_new(program, node, false, &names, &search, err);
	if (code)
		return code;
	fields = weir_arena_alloc_zero(&program->arena, (names.count + 1) * sizeof(*fields), err);
	if (!fields)
		return err->code;
	for (uint32_t i = 0; i < names.count; i++) {
		if (!names.names[i])
			return weir_bind_fail(program, node, err, WEIR_E_VALUE,
					      "the pattern has a group without a name: write (?P<name>…), or (?:…)");
		fields[i] = (struct weir_field){.name = names.names[i], .type = type, .nullable = true};
	}
	type = weir_program_keep(program, weir_type_struct(program->account, fields, names.count, err), err);
	if (!type)
		return err->code;
	weir_bind_kernel(node, type, kernel_extract);
	node->makes_nulls = true;
	return WEIR_OK;
}

const struct weir_function weir_functions_search[] = {
	{"arrow_match_regex", 2, 3, bind_search, OP_MATCH_REGEX},
	{"arrow_find_regex", 2, 3, bind_search, OP_FIND_REGEX},
	{"arrow_count_regex", 2, 3, bind_search, OP_COUNT_REGEX},
	{"arrow_like", 2, 3, bind_search, OP_LIKE},
	{"arrow_starts_with", 3, 3, bind_part, OP_STARTS},
	{"arrow_ends_with", 3, 3, bind_part, OP_ENDS},
	{"arrow_contains", 3, 3, bind_part, OP_CONTAINS},
	{"arrow_find_part", 3, 3, bind_part, OP_FIND},
	{"arrow_count_part", 3, 3, bind_part, OP_COUNT},
	{"arrow_split_regex", 2, 3, bind_split, 0},
	{"arrow_replace_regex", 3, 4, bind_replace, 0},
	{"arrow_extract_regex", 2, 2, bind_extract, 0},
	{0},
};
