/* Pieces of text as pyarrow.compute cuts them: split from either end, at a separator or at blanks; slices with a step;
 * a slice of bytes replaced. */
#include "base/utf8.h"
#include "expr/functions_nested.h"
#include "expr/text_writer.h"

#include <string.h>
#include <utf8proc.h>

enum { OP_SPLIT, OP_SPLIT_BLANKS };

struct pieces {
	int64_t most; /* −1: all */
	bool is_reverse;
	struct weir_view separator;
};

static bool is_blank(utf8proc_int32_t point)
{
	const utf8proc_property_t *property;

	if (point < 0)
		return false;
	property = utf8proc_get_property(point);
	return property->category == UTF8PROC_CATEGORY_ZS || property->bidi_class == UTF8PROC_BIDI_CLASS_WS ||
	       property->bidi_class == UTF8PROC_BIDI_CLASS_B || property->bidi_class == UTF8PROC_BIDI_CLASS_S;
}

/* The size of the blank that begins at `at`; 0: none does. */
static size_t blank_at(const uint8_t *bytes, size_t at, size_t end)
{
	utf8proc_int32_t point = bytes[at];
	utf8proc_ssize_t took = 1;

	if (point >= 0x80)
		took = utf8proc_iterate(bytes + at, (utf8proc_ssize_t)(end - at), &point);
	return took > 0 && is_blank(point) ? (size_t)took : 0;
}

static size_t blank_before(const uint8_t *bytes, size_t end)
{
	size_t begin = end - 1;

	while (begin && (bytes[begin] & 0xc0) == 0x80 && end - begin < 4)
		begin--;
	return blank_at(bytes, begin, end) == end - begin ? end - begin : 0;
}

/* The next separator in [begin, end). Blanks in a row are one, but the last of those that end the text is one of its
 * own (from the other end: the first of those that begin it). */
static bool next_separator(uint32_t op, const struct pieces *it, const uint8_t *bytes, size_t begin, size_t end,
			   size_t *from, size_t *to)
{
	if (op == OP_SPLIT) {
		const uint8_t *found = begin < end ? memmem(bytes + begin, end - begin, weir_view_bytes(&it->separator),
							    it->separator.size)
						   : NULL;

		if (!found)
			return false;
		*from = (size_t)(found - bytes);
		*to = *from + it->separator.size;
		return true;
	}
	for (size_t at = begin; at < end; at++) {
		size_t size = blank_at(bytes, at, end);

		if (!size)
			continue;
		*from = at;
		*to = at + size;
		while (*to < end && (size = blank_at(bytes, *to, end))) {
			if (*to + size == end)
				return true;
			*to += size;
		}
		return true;
	}
	return false;
}

static bool last_separator(uint32_t op, const struct pieces *it, const uint8_t *bytes, size_t end, size_t *from,
			   size_t *to)
{
	if (op == OP_SPLIT) {
		size_t size = it->separator.size;

		for (size_t at = end; at >= size; at--) {
			if (memcmp(bytes + at - size, weir_view_bytes(&it->separator), size))
				continue;
			*from = at - size;
			*to = at;
			return true;
		}
		return false;
	}
	for (size_t at = end; at > 0; at--) {
		size_t size = blank_before(bytes, at);

		if (!size)
			continue;
		*to = at;
		*from = at - size;
		while (*from && (size = blank_before(bytes, *from))) {
			if (*from == size)
				return true;
			*from -= size;
		}
		return true;
	}
	return false;
}

static int split_row(struct weir_builder *items, uint32_t op, const struct pieces *it, const struct weir_view *text,
		     struct weir_arena *arena, struct weir_error *err)
{
	const uint8_t *bytes = weir_view_bytes(text);
	size_t begin = 0, end = text->size, from, to;
	int64_t left = it->most;
	int code = WEIR_OK;

	if (!it->is_reverse) {
		for (; !code && left != 0 && next_separator(op, it, bytes, begin, end, &from, &to); left--) {
			code = weir_builder_bytes(items, bytes + begin, from - begin, err);
			begin = to;
		}
		return code ? code : weir_builder_bytes(items, bytes + begin, end - begin, err);
	}
	/* From the end: the pieces come last one first. */
	{
		struct weir_view *found = weir_arena_alloc(arena, ((size_t)text->size + 1) * sizeof(*found), err);
		size_t count = 0;

		if (!found)
			return err->code;
		for (; left != 0 && last_separator(op, it, bytes, end, &from, &to); left--) {
			found[count++] = weir_view_make(bytes + to, (uint32_t)(end - to));
			end = from;
		}
		code = weir_builder_bytes(items, bytes, end, err);
		while (!code && count--)
			code = weir_builder_bytes(items, weir_view_bytes(&found[count]), found[count].size, err);
	}
	return code;
}

static int kernel_split(struct weir_call *call, struct weir_error *err)
{
	const struct pieces *it = call->node->data;
	struct weir_builder builder;
	int code = weir_builder_init(&builder, call->node->type, call->eval->evaluator->account, err);

	for (uint32_t k = 0; !code && k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);

		code = weir_lists_skip(&builder, row, err);
		if (!code)
			code = split_row(&builder.children[0], call->node->op, it, weir_call_view(call, 0, row),
					 call->arena, err);
		if (!code)
			code = weir_builder_list_end(&builder, err);
	}
	return weir_lists_end(call, &builder, code, err);
}

static int refuse(struct weir_program *program, const struct weir_node *node, struct weir_error *err)
{
	char name[96];

	return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s is not defined for %s (%s)", node->function->name,
			      weir_type_name(node->arguments[0]->type, name, sizeof(name)), node->arguments[0]->text);
}

/* An integer literal, or what stands for None. */
static int integer_at(struct weir_program *program, const struct weir_node *node, uint32_t argument, int64_t none,
		      int64_t *out, struct weir_error *err)
{
	const struct weir_node *given = argument < node->count ? node->arguments[argument] : NULL;

	*out = none;
	if (!given || weir_node_is_none(given))
		return WEIR_OK;
	if (!weir_node_is_constant(given) || !weir_type_is_integer(given->type))
		return weir_bind_fail(program, node, err, WEIR_E_TYPE, "argument %u is an integer literal", argument);
	*out = given->value.integer;
	return WEIR_OK;
}

static int bind_split(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *item = node->arguments[0]->type, *type;
	struct pieces *it = weir_arena_alloc_zero(&program->arena, sizeof(*it), err);
	uint32_t most = node->op == OP_SPLIT ? 2 : 1;
	int code;

	type = it ? weir_list_of(program, weir_type_is_bytes(item) ? item : weir_type_of(WEIR_STRING), err) : NULL;
	if (!type)
		return err->code;
	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	if (!weir_type_is_bytes(item) || (node->op == OP_SPLIT_BLANKS && !weir_type_is_text(item)))
		return refuse(program, node, err);
	if (node->op == OP_SPLIT) {
		const struct weir_node *separator = node->arguments[1];

		if (!weir_node_is_constant(separator) || !weir_type_is_bytes(separator->type) ||
		    separator->value.is_null || !separator->value.bytes.size)
			return weir_bind_fail(program, node, err, WEIR_E_VALUE,
					      "the separator is a text literal that is not empty");
		it->separator = separator->value.bytes;
	}
	code = integer_at(program, node, most, -1, &it->most, err);
	if (code)
		return code;
	if (node->count > most + 1)
		it->is_reverse = weir_node_is_constant(node->arguments[most + 1]) &&
				 node->arguments[most + 1]->value.boolean;
	node->count = 1;
	node->data = it;
	weir_bind_kernel(node, type, kernel_split);
	node->needs_rows = true;
	return WEIR_OK;
}

/* ---- slices ---- */

struct slice {
	int64_t begin, end, step;
	bool has_end;
	struct weir_view replacement;
};

/* Python's slice(begin, end, step).indices(length). */
static void slice_of(const struct slice *slice, int64_t length, int64_t *begin, int64_t *end)
{
	bool down = slice->step < 0;
	int64_t low = down ? -1 : 0, high = down ? length - 1 : length;

	*begin = slice->begin < 0 ? slice->begin + length : slice->begin;
	*begin = *begin < low ? low : *begin > high ? high : *begin;
	if (!slice->has_end) {
		*end = down ? -1 : length;
		return;
	}
	*end = slice->end < 0 ? slice->end + length : slice->end;
	*end = *end < low ? low : *end > high ? high : *end;
}

static int kernel_slice(struct weir_call *call, struct weir_error *err)
{
	const struct slice *slice = call->node->data;
	bool is_text = weir_type_is_text(call->arguments[0].type);
	struct weir_text_writer writer = {.arena = call->arena};

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *text = weir_call_view(call, 0, row);
		const uint8_t *bytes = weir_view_bytes(text);
		int64_t length = is_text ? (int64_t)weir_utf8_length(bytes, text->size) : text->size, begin, end;
		uint32_t *places = NULL;
		uint8_t *out = weir_text_room(&writer, text->size, err);
		size_t written = 0;

		if (!out)
			return err->code;
		slice_of(slice, length, &begin, &end);
		if (length != text->size) { /* where each character begins */
			int64_t n = 0;

			places = weir_arena_alloc(call->arena, ((size_t)length + 1) * sizeof(*places), err);
			if (!places)
				return err->code;
			for (uint32_t at = 0; at < text->size; at++) {
				if ((bytes[at] & 0xc0) != 0x80 && n < length)
					places[n++] = at;
			}
			places[n] = text->size;
		}
		for (int64_t at = begin; slice->step > 0 ? at < end : at > end; at += slice->step) {
			size_t from = places ? places[at] : (size_t)at, size = places ? places[at + 1] - from : 1;

			memcpy(out + written, bytes + from, size);
			written += size;
			/* A step may pass the end of all numbers. */
			if (slice->step > 0 ? at > end - slice->step : at < end - slice->step)
				break;
		}
		((struct weir_view *)call->values)[row] = weir_text_done(&writer, written);
	}
	return WEIR_OK;
}

/* Bytes [begin, end) replaced; where end comes before begin nothing is taken away. */
static int kernel_replace(struct weir_call *call, struct weir_error *err)
{
	const struct slice *slice = call->node->data;
	struct weir_text_writer writer = {.arena = call->arena};

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *text = weir_call_view(call, 0, row);
		const uint8_t *bytes = weir_view_bytes(text);
		int64_t size = text->size, begin, end, total;
		uint8_t *out;

		begin = slice->begin < 0 ? slice->begin + size : slice->begin;
		begin = begin < 0 ? 0 : begin > size ? size : begin;
		end = slice->end < 0 ? slice->end + size : slice->end;
		end = end < begin ? begin : end > size ? size : end;
		total = size - (end - begin) + slice->replacement.size;
		out = weir_text_room(&writer, (size_t)total, err);
		if (!out)
			return err->code;
		memcpy(out, bytes, (size_t)begin);
		memcpy(out + begin, weir_view_bytes(&slice->replacement), slice->replacement.size);
		memcpy(out + begin + slice->replacement.size, bytes + end, (size_t)(size - end));
		if (weir_type_is_text(call->node->type) && !weir_utf8_valid(out, (size_t)total))
			return weir_call_fail(call, row, err, WEIR_E_VALUE,
					      "bytes %lld to %lld are not whole characters", (long long)begin,
					      (long long)end);
		((struct weir_view *)call->values)[row] = weir_text_done(&writer, (size_t)total);
	}
	return WEIR_OK;
}

enum { OP_SLICE, OP_REPLACE };

static int bind_slice(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	struct slice *slice = weir_arena_alloc_zero(&program->arena, sizeof(*slice), err);
	int code = slice ? WEIR_OK : err->code;

	if (!code)
		code = integer_at(program, node, 1, 0, &slice->begin, err);
	if (!code)
		code = integer_at(program, node, 2, 0, &slice->end, err);
	if (code)
		return code;
	slice->has_end = !weir_node_is_none(node->arguments[2]);
	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	if (!weir_type_is_bytes(type))
		return refuse(program, node, err);
	if (node->op == OP_REPLACE) {
		const struct weir_node *with = node->arguments[3];

		if (!weir_node_is_constant(with) || !weir_type_is_bytes(with->type) || with->value.is_null)
			return weir_bind_fail(program, node, err, WEIR_E_TYPE, "the replacement is a text literal");
		slice->replacement = with->value.bytes;
	} else {
		code = integer_at(program, node, 3, 1, &slice->step, err);
		if (code)
			return code;
		if (!slice->step)
			return weir_bind_fail(program, node, err, WEIR_E_VALUE, "a slice's step cannot be zero");
	}
	weir_bind_kernel(node, type, node->op == OP_REPLACE ? kernel_replace : kernel_slice);
	node->may_fail = node->op == OP_REPLACE;
	node->count = 1;
	node->data = slice;
	node->needs_rows = true;
	return WEIR_OK;
}

const struct weir_function weir_functions_pieces[] = {
	{"arrow_split", 2, 4, bind_split, OP_SPLIT},
	{"arrow_split_whitespace", 1, 3, bind_split, OP_SPLIT_BLANKS},
	{"arrow_slice", 4, 4, bind_slice, OP_SLICE},
	{"arrow_replace_slice", 4, 4, bind_slice, OP_REPLACE},
	{0},
};
