/* Regular expressions (PCRE2, with its compiler): regex_match searches anywhere in the text, regex_extract gives a
 * group of the first match or null, regex_replace replaces every match, with \1 … \9 standing for groups.
 *
 * Patterns are literals, compiled while binding and shared by lanes; what a match may cost is bounded, and a row that
 * passes the bound is an error.
 */
#include "expr/regex.h"
#include "expr/text_writer.h"

#include <stdio.h>
#include <string.h>

enum {
	MATCH_LIMIT = 1000000, /* steps of backtracking a row */
	HEAP_LIMIT_KIB = 16 << 10,
	DEPTH_LIMIT = 10000,
};

enum { OP_MATCH, OP_EXTRACT, OP_REPLACE, OP_FULL_MATCH };

struct regex {
	struct weir_regex base;
	uint32_t group; /* extract */
};

static void release_code(void *code)
{
	pcre2_code_free(code);
}

static void release_context(void *context)
{
	pcre2_match_context_free(context);
}

int weir_matcher_init(struct weir_matcher *matcher, const struct weir_regex *regex, struct weir_error *err)
{
	*matcher = (struct weir_matcher){.regex = regex};
	matcher->data = pcre2_match_data_create_from_pattern(regex->code, NULL);
	if (!matcher->data)
		return weir_error_set(err, WEIR_E_MEMORY, "no memory for a match");
	matcher->places = pcre2_get_ovector_pointer(matcher->data);
	return WEIR_OK;
}

void weir_matcher_release(struct weir_matcher *matcher)
{
	pcre2_match_data_free(matcher->data);
	matcher->data = NULL;
}

int weir_matcher_match(struct weir_matcher *matcher, const struct weir_call *call, uint32_t row, const uint8_t *bytes,
		       size_t size, size_t from, struct weir_error *err)
{
	int result = pcre2_match(matcher->regex->code, bytes, size, from, PCRE2_NO_UTF_CHECK, matcher->data,
				 matcher->regex->context);
	PCRE2_UCHAR message[128];

	if (result == PCRE2_ERROR_NOMATCH)
		return 0;
	if (result > 0)
		return 1;
	pcre2_get_error_message(result, message, sizeof(message));
	weir_call_fail(call, row, err, WEIR_E_VALUE, "the pattern gave up: %s", (const char *)message);
	return -1;
}

static int kernel_match(struct weir_call *call, struct weir_error *err)
{
	const struct regex *regex = call->node->data;
	struct weir_matcher matcher;
	uint64_t *bits = call->values;
	int code = weir_matcher_init(&matcher, &regex->base, err);

	if (code)
		return code;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *text = weir_call_view(call, 0, row);
		int found = weir_matcher_match(&matcher, call, row, weir_view_bytes(text), text->size, 0, err);

		if (found < 0) {
			code = err->code;
			break;
		}
		bits[row >> 6] |= (uint64_t)found << (row & 63);
	}
	weir_matcher_release(&matcher);
	return code;
}

static int kernel_extract(struct weir_call *call, struct weir_error *err)
{
	const struct regex *regex = call->node->data;
	struct weir_matcher matcher;
	struct weir_view *out = call->values;
	int code = weir_matcher_init(&matcher, &regex->base, err);

	if (code)
		return code;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k), group = regex->group;
		const struct weir_view *text = weir_call_view(call, 0, row);
		int found = weir_matcher_match(&matcher, call, row, weir_view_bytes(text), text->size, 0, err);
		const size_t *places = matcher.places;

		if (found < 0) {
			code = err->code;
			break;
		}
		/* No match, or a group that took no part in it. */
		if (!found || places[group * 2] == PCRE2_UNSET) {
			weir_bit_clear(call->validity, row);
			out[row] = (struct weir_view){0};
			continue;
		}
		out[row] = weir_view_make(weir_view_bytes(text) + places[group * 2],
					  (uint32_t)(places[group * 2 + 1] - places[group * 2]));
	}
	weir_matcher_release(&matcher);
	return code;
}

/* Appends the replacement for one match, or with `out` NULL only measures it. */
static size_t expand(const struct weir_view *template, const struct weir_view *text, const size_t *places,
		     uint32_t group_count, uint8_t *out)
{
	const uint8_t *bytes = weir_view_bytes(template), *from = weir_view_bytes(text);
	size_t written = 0;

	for (uint32_t i = 0; i < template->size; i++) {
		if (bytes[i] == '\\' && i + 1 < template->size) {
			uint8_t next = bytes[++i];

			if (next >= '0' && next <= '9') {
				uint32_t group = next - '0';
				size_t begin, size;

				if (group >= group_count || places[group * 2] == PCRE2_UNSET)
					continue;
				begin = places[group * 2];
				size = places[group * 2 + 1] - begin;
				if (out)
					memcpy(out + written, from + begin, size);
				written += size;
				continue;
			}
			if (out)
				out[written] = next;
			written++;
			continue;
		}
		if (out)
			out[written] = bytes[i];
		written++;
	}
	return written;
}

static size_t character_size(const uint8_t *bytes, size_t left)
{
	size_t size = 1;

	while (size < left && (bytes[size] & 0xc0) == 0x80)
		size++;
	return size;
}

static int replace_row(struct weir_matcher *matcher, struct weir_call *call, uint32_t row,
		       struct weir_text_writer *writer, struct weir_error *err)
{
	const struct weir_view *text = weir_call_view(call, 0, row), *template = weir_call_view(call, 1, row);
	const uint8_t *bytes = weir_view_bytes(text);
	const size_t *places = matcher->places;
	uint32_t group_count = matcher->regex->group_count + 1;
	size_t from = 0, copied = 0, written = 0, room = (size_t)text->size * 2 + 64;
	uint8_t *out = weir_text_room(writer, room, err);
	int found;

	if (!out)
		return err->code;
	while (from <= text->size && (found = weir_matcher_match(matcher, call, row, bytes, text->size, from, err))) {
		size_t need;

		if (found < 0)
			return err->code;
		need = written + (places[0] - copied) + expand(template, text, places, group_count, NULL) +
		       (text->size - places[1]);
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
		written += expand(template, text, places, group_count, out + written);
		copied = places[1];
		from = places[1];
		/* After an empty match one character is passed over, and kept. */
		if (places[0] == places[1]) {
			if (from == text->size)
				break;
			from += character_size(bytes + from, text->size - from);
		}
	}
	memcpy(out + written, bytes + copied, text->size - copied);
	written += text->size - copied;
	((struct weir_view *)call->values)[row] = weir_text_done(writer, written);
	return WEIR_OK;
}

static int kernel_replace(struct weir_call *call, struct weir_error *err)
{
	const struct regex *regex = call->node->data;
	struct weir_matcher matcher;
	struct weir_text_writer writer = {.arena = call->arena};
	int code = weir_matcher_init(&matcher, &regex->base, err);

	if (code)
		return code;
	for (uint32_t k = 0; !code && k < call->rows.count; k++)
		code = replace_row(&matcher, call, weir_call_row(call, k), &writer, err);
	weir_matcher_release(&matcher);
	return code;
}

int weir_regex_compile(struct weir_program *program, const struct weir_node *node, const uint8_t *pattern, size_t size,
		       uint32_t options, struct weir_regex *out, struct weir_error *err)
{
	size_t offset = 0;
	int number = 0, code;

	out->code = pcre2_compile(pattern, size, options, &number, &offset, NULL);
	if (!out->code) {
		PCRE2_UCHAR message[200];

		pcre2_get_error_message(number, message, sizeof(message));
		return weir_bind_fail(program, node, err, WEIR_E_SYNTAX, "the pattern is wrong at byte %zu: %s", offset,
				      (const char *)message);
	}
	code = weir_program_own(program, release_code, out->code, err);
	if (code)
		return code;
	/* Where there is no compiler for this machine, matching interprets. */
	(void)pcre2_jit_compile(out->code, PCRE2_JIT_COMPLETE);
	out->context = pcre2_match_context_create(NULL);
	if (!out->context)
		return weir_error_set(err, WEIR_E_MEMORY, "no memory for a pattern");
	code = weir_program_own(program, release_context, out->context, err);
	if (code)
		return code;
	pcre2_set_match_limit(out->context, MATCH_LIMIT);
	pcre2_set_heap_limit(out->context, HEAP_LIMIT_KIB);
	pcre2_set_depth_limit(out->context, DEPTH_LIMIT);
	pcre2_pattern_info(out->code, PCRE2_INFO_CAPTURECOUNT, &out->group_count);
	if (out->group_count > WEIR_REGEX_GROUPS_MAX)
		return weir_bind_fail(program, node, err, WEIR_E_VALUE, "more than %d groups", WEIR_REGEX_GROUPS_MAX);
	return WEIR_OK;
}

static int bind_regex(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->op == OP_MATCH || node->op == OP_FULL_MATCH ? weir_type_of(WEIR_BOOL)
											 : node->arguments[0]->type;
	const struct weir_node *pattern = node->arguments[1];
	struct regex *regex = weir_arena_alloc_zero(&program->arena, sizeof(*regex), err);
	uint32_t groups, options = PCRE2_UTF | PCRE2_UCP;
	char name[96];
	int code;

	if (!regex)
		return err->code;
	for (uint32_t i = 0; i < node->count; i++) {
		if (weir_node_is_none(node->arguments[i]))
			return weir_bind_constant(program, node, type, NULL, err);
	}
	if (!weir_type_is_text(node->arguments[0]->type))
		return weir_bind_fail(
			program, node, err, WEIR_E_TYPE, "%s is not defined for %s (%s)", node->function->name,
			weir_type_name(node->arguments[0]->type, name, sizeof(name)), node->arguments[0]->text);
	if (!weir_node_is_constant(pattern) || !weir_type_is_text(pattern->type))
		return weir_bind_fail(program, node, err, WEIR_E_TYPE,
				      "the pattern is a text literal: regex_match(x, r'\\d+')");
	if (node->op == OP_FULL_MATCH)
		options |= PCRE2_ANCHORED | PCRE2_ENDANCHORED;
	code = weir_regex_compile(program, node, weir_view_bytes(&pattern->value.bytes), pattern->value.bytes.size,
				  options, &regex->base, err);
	if (code)
		return code;
	groups = regex->base.group_count;
	node->data = regex;
	node->needs_rows = true;
	node->may_fail = true;
	if (node->op == OP_REPLACE) {
		if (!weir_type_is_text(node->arguments[2]->type))
			return weir_bind_fail(program, node, err, WEIR_E_TYPE, "the replacement is %s, not text",
					      weir_type_name(node->arguments[2]->type, name, sizeof(name)));
		node->arguments[1] = node->arguments[2];
		node->count = 2;
		weir_bind_kernel(node, type, kernel_replace);
		return WEIR_OK;
	}
	if (node->op == OP_EXTRACT) {
		/* The whole match when the pattern has no group. */
		regex->group = groups ? 1 : 0;
		if (node->count > 2) {
			const struct weir_node *group = node->arguments[2];

			if (!weir_node_is_constant(group) || !weir_type_is_integer(group->type) ||
			    group->value.integer < 0 || group->value.integer > groups)
				return weir_bind_fail(program, node, err, WEIR_E_VALUE,
						      "the pattern has groups 0 to %u", groups);
			regex->group = (uint32_t)group->value.integer;
		}
		node->makes_nulls = true;
	}
	node->count = 1;
	weir_bind_kernel(node, type, node->op == OP_EXTRACT ? kernel_extract : kernel_match);
	return WEIR_OK;
}

const struct weir_function weir_functions_regex[] = {
	{"regex_match", 2, 2, bind_regex, OP_MATCH},
	{"regex_fullmatch", 2, 2, bind_regex, OP_FULL_MATCH},
	{"regex_extract", 2, 3, bind_regex, OP_EXTRACT},
	{"regex_replace", 3, 3, bind_regex, OP_REPLACE},
	{0},
};
