/* Text: length, case, strip, slices, searching, replacing, joining. Positions count characters (code points), as
 * Python's do; plain ASCII takes the short way. Case follows Unicode's simple mappings (utf8proc), as Arrow's do. */
#include "expr/functions_text.h"

#include "base/utf8.h"
#include "expr/text_writer.h"

#include <stddef.h>
#include <string.h>
#include <utf8proc.h>

enum { OP_LOWER, OP_UPPER };
enum { OP_STRIP, OP_LSTRIP, OP_RSTRIP };
enum { OP_CONTAINS, OP_STARTSWITH, OP_ENDSWITH };

static bool is_ascii(const uint8_t *bytes, size_t size)
{
	uint64_t seen = 0;
	size_t i = 0;

	for (; i + 8 <= size; i += 8) {
		uint64_t word;

		memcpy(&word, bytes + i, 8);
		seen |= word;
	}
	for (; i < size; i++)
		seen |= bytes[i];
	return !(seen & 0x8080808080808080u);
}

static inline int64_t integer_of(const struct weir_call *call, uint32_t argument, uint32_t row)
{
	return ((const int64_t *)call->arguments[argument].values)[row & weir_call_mask(call, argument)];
}

static int refuse(struct weir_program *program, const struct weir_node *node, uint32_t argument, struct weir_error *err)
{
	char name[96];

	return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s is not defined for %s (%s)", node->function->name,
			      weir_type_name(node->arguments[argument]->type, name, sizeof(name)),
			      node->arguments[argument]->text);
}

/* All arguments from `first` are text (binary too when the first is). *is_null: one is None, the node is done. */
static int need_text(struct weir_program *program, struct weir_node *node, uint32_t count, const struct weir_type *type,
		     bool *is_null, struct weir_error *err)
{
	*is_null = false;
	for (uint32_t i = 0; i < count && i < node->count; i++) {
		if (weir_node_is_none(node->arguments[i])) {
			*is_null = true;
			return weir_bind_constant(program, node, type ? type : node->arguments[0]->type, NULL, err);
		}
	}
	for (uint32_t i = 0; i < count && i < node->count; i++) {
		if (!weir_type_is_bytes(node->arguments[i]->type))
			return refuse(program, node, i, err);
	}
	return WEIR_OK;
}

/* A kernel over rows, the first `count` arguments text; `type` of the result, NULL: the first argument's. */
static int bind_text(struct weir_program *program, struct weir_node *node, uint32_t count, const struct weir_type *type,
		     weir_node_kernel *kernel, struct weir_error *err)
{
	bool is_null;
	int code = need_text(program, node, count, type, &is_null, err);

	if (code || is_null)
		return code;
	weir_bind_kernel(node, type ? type : node->arguments[0]->type, kernel);
	node->needs_rows = true;
	return WEIR_OK;
}

static int need_integer(struct weir_program *program, struct weir_node *node, uint32_t argument, struct weir_error *err)
{
	if (!weir_type_is_integer(node->arguments[argument]->type))
		return refuse(program, node, argument, err);
	return weir_bind_cast(program, &node->arguments[argument], weir_type_of(WEIR_INT64), true, err);
}

static int kernel_length(struct weir_call *call, struct weir_error *err)
{
	bool is_text = weir_type_is_text(call->arguments[0].type);
	int64_t *out = call->values;

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *view = weir_call_view(call, 0, row);

		out[row] = is_text ? (int64_t)weir_utf8_length(weir_view_bytes(view), view->size) : view->size;
	}
	return WEIR_OK;
}

int weir_text_bind_length(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	return bind_text(program, node, 1, weir_type_of(WEIR_INT64), kernel_length, err);
}

static size_t map_case(const uint8_t *in, size_t size, bool is_upper, uint8_t *out)
{
	size_t written = 0;

	for (size_t at = 0; at < size;) {
		utf8proc_int32_t point;
		utf8proc_ssize_t took = utf8proc_iterate(in + at, (utf8proc_ssize_t)(size - at), &point);

		/* Text is valid UTF-8; should it not be, its bytes pass as they are. */
		if (took <= 0) {
			out[written++] = in[at++];
			continue;
		}
		at += (size_t)took;
		point = is_upper ? utf8proc_toupper(point) : utf8proc_tolower(point);
		written += (size_t)utf8proc_encode_char(point, out + written);
	}
	return written;
}

static int kernel_case(struct weir_call *call, struct weir_error *err)
{
	struct weir_text_writer writer = {.arena = call->arena};
	bool is_upper = call->node->op == OP_UPPER;
	uint8_t first = is_upper ? 'a' : 'A';

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *view = weir_call_view(call, 0, row);
		const uint8_t *bytes = weir_view_bytes(view);
		bool plain = is_ascii(bytes, view->size);
		/* A letter's other case may be longer by one byte, never more. */
		uint8_t *out = weir_text_room(&writer, plain ? view->size : (size_t)view->size * 2 + 4, err);
		size_t size = view->size;

		if (!out)
			return err->code;
		if (plain) {
			for (size_t i = 0; i < size; i++)
				out[i] = bytes[i] ^ (uint8_t)(((uint8_t)(bytes[i] - first) < 26) << 5);
		} else {
			size = map_case(bytes, size, is_upper, out);
		}
		((struct weir_view *)call->values)[row] = weir_text_done(&writer, size);
	}
	return WEIR_OK;
}

static int bind_case(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	int code = bind_text(program, node, 1, NULL, kernel_case, err);

	return code || node->kind != WEIR_NODE_CALL || weir_type_is_text(node->arguments[0]->type)
		       ? code
		       : refuse(program, node, 0, err);
}

/* What Python's str.isspace says yes to. */
static bool is_space(utf8proc_int32_t c)
{
	return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
	       (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* One character at the front or the back; its size, 0 at the end. */
static size_t take_front(const uint8_t *bytes, size_t size, utf8proc_int32_t *point)
{
	utf8proc_ssize_t took = size ? utf8proc_iterate(bytes, (utf8proc_ssize_t)size, point) : 0;

	return took > 0 ? (size_t)took : 0;
}

static size_t take_back(const uint8_t *bytes, size_t size, utf8proc_int32_t *point)
{
	size_t begin = size;

	while (begin && (bytes[begin - 1] & 0xc0) == 0x80 && size - begin < 3)
		begin--;
	return begin ? take_front(bytes + begin - 1, size - begin + 1, point) : 0;
}

static bool is_among(utf8proc_int32_t wanted, const struct weir_view *set)
{
	const uint8_t *bytes;
	size_t took;

	if (!set)
		return is_space(wanted);
	bytes = weir_view_bytes(set);
	for (size_t at = 0; at < set->size; at += took) {
		utf8proc_int32_t point;

		took = take_front(bytes + at, set->size - at, &point);
		if (!took)
			return false;
		if (point == wanted)
			return true;
	}
	return false;
}

static int kernel_strip(struct weir_call *call, struct weir_error *err)
{
	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *view = weir_call_view(call, 0, row),
				       *set = call->node->count > 1 ? weir_call_view(call, 1, row) : NULL;
		const uint8_t *bytes = weir_view_bytes(view);
		size_t begin = 0, end = view->size, took;
		utf8proc_int32_t point;

		while (call->node->op != OP_RSTRIP && begin < end &&
		       (took = take_front(bytes + begin, end - begin, &point)) && is_among(point, set))
			begin += took;
		while (call->node->op != OP_LSTRIP && begin < end &&
		       (took = take_back(bytes + begin, end - begin, &point)) && is_among(point, set))
			end -= took;
		/* Long results point into what they were cut from. */
		((struct weir_view *)call->values)[row] = weir_view_make(bytes + begin, (uint32_t)(end - begin));
	}
	return WEIR_OK;
}

static int bind_strip(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	return bind_text(program, node, 2, NULL, kernel_strip, err);
}

/* Byte offset of character `count` from the front, at most `size`. */
static size_t skip_characters(const uint8_t *bytes, size_t size, int64_t count)
{
	size_t at = 0;

	for (; count > 0 && at < size; count--) {
		at++;
		while (at < size && (bytes[at] & 0xc0) == 0x80)
			at++;
	}
	return at;
}

enum { OPEN = 1, ENDLESS = 2 }; /* node->op: no begin; no end */

static int kernel_slice(struct weir_call *call, struct weir_error *err)
{
	bool is_text = weir_type_is_text(call->arguments[0].type);
	uint32_t op = call->node->op;

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *view = weir_call_view(call, 0, row);
		const uint8_t *bytes = weir_view_bytes(view);
		bool plain = !is_text || is_ascii(bytes, view->size);
		int64_t length = plain ? view->size : (int64_t)weir_utf8_length(bytes, view->size);
		int64_t begin = op & OPEN ? 0 : integer_of(call, 1, row),
			end = op & ENDLESS ? length : integer_of(call, 2, row);

		begin = begin < 0 ? (begin + length < 0 ? 0 : begin + length) : begin;
		end = end < 0 ? end + length : end;
		end = end > length ? length : end;
		if (begin >= end)
			begin = end = 0;
		if (!plain) {
			end = (int64_t)skip_characters(bytes, view->size, end);
			begin = (int64_t)skip_characters(bytes, view->size, begin);
		}
		((struct weir_view *)call->values)[row] = weir_view_make(bytes + begin, (uint32_t)(end - begin));
	}
	return WEIR_OK;
}

int weir_text_bind_slice(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	struct weir_scalar zero = {.type = weir_type_of(WEIR_INT64)};
	struct weir_node *nothing = weir_bind_new(program, err);
	int code;

	if (!nothing)
		return err->code;
	code = weir_bind_constant(program, nothing, zero.type, &zero, err);
	node->op = 0;
	for (uint32_t i = 1; !code && i < 3; i++) {
		/* None, in Python's sense: from the beginning, to the end. */
		if (weir_node_is_none(node->arguments[i])) {
			node->op |= i == 1 ? OPEN : ENDLESS;
			node->arguments[i] = nothing;
		} else {
			code = need_integer(program, node, i, err);
		}
	}
	weir_bind_kernel(node, node->arguments[0]->type, kernel_slice);
	node->needs_rows = true;
	return code;
}

/* x[i] of text: one character. */
static int kernel_character(struct weir_call *call, struct weir_error *err)
{
	bool is_text = weir_type_is_text(call->arguments[0].type);

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *view = weir_call_view(call, 0, row);
		const uint8_t *bytes = weir_view_bytes(view);
		bool plain = !is_text || is_ascii(bytes, view->size);
		int64_t length = plain ? view->size : (int64_t)weir_utf8_length(bytes, view->size);
		int64_t wanted = integer_of(call, 1, row), at = wanted < 0 ? wanted + length : wanted, size = 1;

		if (at < 0 || at >= length)
			return weir_call_fail(call, row, err, WEIR_E_VALUE,
					      "there is no character %lld in a text of %lld", (long long)wanted,
					      (long long)length);
		if (!plain) {
			at = (int64_t)skip_characters(bytes, view->size, at);
			size = (int64_t)skip_characters(bytes + at, view->size - (size_t)at, 1);
		}
		((struct weir_view *)call->values)[row] = weir_view_make(bytes + at, (uint32_t)size);
	}
	return WEIR_OK;
}

int weir_text_bind_element(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	int code = need_integer(program, node, 1, err);

	weir_bind_kernel(node, node->arguments[0]->type, kernel_character);
	node->needs_rows = true;
	node->may_fail = true;
	return code;
}

static inline bool holds(const struct weir_view *text, const struct weir_view *part, uint32_t op)
{
	const uint8_t *bytes, *wanted;

	if (part->size > text->size)
		return false;
	/* The prefix in the view decides most rows. */
	if (op == OP_STARTSWITH && memcmp(text->prefix, part->prefix, part->size < 4 ? part->size : 4))
		return false;
	bytes = weir_view_bytes(text);
	wanted = weir_view_bytes(part);
	if (op == OP_STARTSWITH)
		return !memcmp(bytes, wanted, part->size);
	if (op == OP_ENDSWITH)
		return !memcmp(bytes + text->size - part->size, wanted, part->size);
	return !part->size || memmem(bytes, text->size, wanted, part->size);
}

/* Beginning with a short constant: twelve bytes can be loaded from every view or from what it points to. */
static void begins_with(struct weir_call *call, const struct weir_view *part)
{
	const struct weir_view *views = call->arguments[0].values;
	uint8_t mask_bytes[12] = {0};
	uint64_t mask_low, wanted_low, *bits = call->values;
	uint32_t mask_high, wanted_high, size = part->size;

	memset(mask_bytes, 0xff, size);
	memcpy(&mask_low, mask_bytes, 8);
	memcpy(&mask_high, mask_bytes + 8, 4);
	/* Short text lies in the view, from the prefix on. */
	memcpy(&wanted_low, weir_view_bytes(part), 8);
	memcpy(&wanted_high, (const uint8_t *)part + offsetof(struct weir_view, tail) + 4, 4);
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const uint8_t *bytes = weir_view_bytes(&views[row]);
		uint64_t low;
		uint32_t high;

		memcpy(&low, bytes, 8);
		memcpy(&high, bytes + 8, 4);
		bits[row >> 6] |= (uint64_t)((views[row].size >= size) & ((low & mask_low) == wanted_low) &
					     ((high & mask_high) == wanted_high))
				  << (row & 63);
	}
}

static int kernel_search(struct weir_call *call, struct weir_error *err)
{
	uint32_t op = call->node->op;
	uint64_t *bits = call->values;

	(void)err;
	if (op == OP_STARTSWITH && !weir_call_mask(call, 1) && weir_call_mask(call, 0) &&
	    weir_call_view(call, 1, 0)->size <= WEIR_VIEW_INLINE) {
		begins_with(call, weir_call_view(call, 1, 0));
		return WEIR_OK;
	}
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);

		bits[row >> 6] |= (uint64_t)holds(weir_call_view(call, 0, row), weir_call_view(call, 1, row), op)
				  << (row & 63);
	}
	return WEIR_OK;
}

static int bind_search(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	return bind_text(program, node, 2, weir_type_of(WEIR_BOOL), kernel_search, err);
}

int weir_text_bind_contains(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	node->op = OP_CONTAINS;
	return bind_search(program, node, err);
}

static int kernel_find(struct weir_call *call, struct weir_error *err)
{
	int64_t *out = call->values;

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *text = weir_call_view(call, 0, row), *part = weir_call_view(call, 1, row);
		const uint8_t *bytes = weir_view_bytes(text), *found;

		found = part->size ? memmem(bytes, text->size, weir_view_bytes(part), part->size) : bytes;
		if (!found)
			out[row] = -1;
		else if (weir_type_is_text(call->arguments[0].type))
			out[row] = (int64_t)weir_utf8_length(bytes, (size_t)(found - bytes));
		else
			out[row] = found - bytes;
	}
	return WEIR_OK;
}

static int bind_find(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	return bind_text(program, node, 2, weir_type_of(WEIR_INT64), kernel_find, err);
}

/* Each place where `from` begins; an empty one stands before every character and at the end, as in Python. */
static const uint8_t *next_place(const uint8_t *at, const uint8_t *end, const struct weir_view *from)
{
	if (from->size)
		return at > end ? NULL : memmem(at, (size_t)(end - at), weir_view_bytes(from), from->size);
	return at > end ? NULL : at;
}

static int kernel_replace(struct weir_call *call, struct weir_error *err)
{
	struct weir_text_writer writer = {.arena = call->arena};

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *text = weir_call_view(call, 0, row), *from = weir_call_view(call, 1, row),
				       *to = weir_call_view(call, 2, row);
		const uint8_t *bytes = weir_view_bytes(text), *end = bytes + text->size, *at = bytes, *place;
		int64_t most = call->node->count > 3 ? integer_of(call, 3, row) : -1, count = 0;
		size_t size, written = 0;
		uint8_t *out;

		for (; count != most && (place = next_place(at, end, from)); count++)
			at = from->size ? place + from->size
					: place + (place < end ? skip_characters(place, (size_t)(end - place), 1) : 1);
		if (!count) {
			((struct weir_view *)call->values)[row] = *text;
			continue;
		}
		if (__builtin_mul_overflow((size_t)count, (size_t)to->size, &size) ||
		    (size += text->size - (size_t)count * from->size) > INT32_MAX)
			return weir_call_fail(call, row, err, WEIR_E_OVERFLOW, "the result is too long");
		out = weir_text_room(&writer, size, err);
		if (!out)
			return err->code;
		at = bytes;
		for (int64_t i = 0; i < count; i++) {
			size_t step;

			place = next_place(at, end, from);
			memcpy(out + written, at, (size_t)(place - at));
			written += (size_t)(place - at);
			memcpy(out + written, weir_view_bytes(to), to->size);
			written += to->size;
			at = place + from->size;
			if (!from->size && place < end) {
				step = skip_characters(place, (size_t)(end - place), 1);
				memcpy(out + written, place, step);
				written += step;
				at = place + step;
			} else if (!from->size) {
				at = end + 1;
			}
		}
		if (at < end) {
			memcpy(out + written, at, (size_t)(end - at));
			written += (size_t)(end - at);
		}
		((struct weir_view *)call->values)[row] = weir_text_done(&writer, written);
	}
	return WEIR_OK;
}

static int bind_replace(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	int code = bind_text(program, node, 3, NULL, kernel_replace, err);

	if (code || node->kind != WEIR_NODE_CALL)
		return code;
	node->may_fail = true;
	return node->count > 3 ? need_integer(program, node, 3, err) : WEIR_OK;
}

/* Like Python's repeat: 'ab' * 3 is written repeat('ab', 3). */
static int kernel_repeat(struct weir_call *call, struct weir_error *err)
{
	struct weir_text_writer writer = {.arena = call->arena};

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *text = weir_call_view(call, 0, row);
		int64_t times = integer_of(call, 1, row), size;
		uint8_t *out;

		times = times < 0 ? 0 : times;
		if (__builtin_mul_overflow(times, (int64_t)text->size, &size) || size > INT32_MAX)
			return weir_call_fail(call, row, err, WEIR_E_OVERFLOW, "the result is too long");
		out = weir_text_room(&writer, (size_t)size, err);
		if (!out)
			return err->code;
		for (int64_t at = 0; at < size; at += text->size)
			memcpy(out + at, weir_view_bytes(text), text->size);
		((struct weir_view *)call->values)[row] = weir_text_done(&writer, (size_t)size);
	}
	return WEIR_OK;
}

static int bind_repeat(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	int code = bind_text(program, node, 1, NULL, kernel_repeat, err);

	if (code || node->kind != WEIR_NODE_CALL)
		return code;
	node->may_fail = true;
	return need_integer(program, node, 1, err);
}

static int kernel_reverse(struct weir_call *call, struct weir_error *err)
{
	struct weir_text_writer writer = {.arena = call->arena};

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *text = weir_call_view(call, 0, row);
		const uint8_t *bytes = weir_view_bytes(text);
		uint8_t *out = weir_text_room(&writer, text->size, err);

		if (!out)
			return err->code;
		for (size_t at = 0; at < text->size;) {
			size_t step = skip_characters(bytes + at, text->size - at, 1);

			memcpy(out + text->size - at - step, bytes + at, step);
			at += step;
		}
		((struct weir_view *)call->values)[row] = weir_text_done(&writer, text->size);
	}
	return WEIR_OK;
}

static int bind_reverse(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	int code = bind_case(program, node, err);

	if (!code && node->kind == WEIR_NODE_CALL)
		node->kernel = kernel_reverse;
	return code;
}

/* concat(a, b, c) is a + b + c. */
static int bind_concat(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	struct weir_node *joined = node->arguments[0];

	for (uint32_t i = 1; i + 1 < node->count; i++) {
		struct weir_node *pair[] = {joined, node->arguments[i]};

		joined = weir_bind_call(program, "add", pair, 2, node->text, err);
		if (!joined)
			return err->code;
	}
	for (uint32_t i = 0; i < node->count; i++) {
		if (!weir_type_is_bytes(node->arguments[i]->type) && !weir_node_is_none(node->arguments[i]))
			return refuse(program, node, i, err);
	}
	node->arguments[1] = node->arguments[node->count - 1];
	node->arguments[0] = joined;
	node->count = 2;
	node->function = weir_function_find("add");
	node->op = node->function->op;
	return node->function->bind(program, node, err);
}

const struct weir_function weir_functions_text[] = {
	{"lower", 1, 1, bind_case, OP_LOWER},
	{"upper", 1, 1, bind_case, OP_UPPER},
	{"strip", 1, 2, bind_strip, OP_STRIP},
	{"lstrip", 1, 2, bind_strip, OP_LSTRIP},
	{"rstrip", 1, 2, bind_strip, OP_RSTRIP},
	{"startswith", 2, 2, bind_search, OP_STARTSWITH},
	{"starts_with", 2, 2, bind_search, OP_STARTSWITH},
	{"endswith", 2, 2, bind_search, OP_ENDSWITH},
	{"ends_with", 2, 2, bind_search, OP_ENDSWITH},
	{"find", 2, 2, bind_find, 0},
	{"replace", 3, 4, bind_replace, 0},
	{"repeat", 2, 2, bind_repeat, 0},
	{"reverse", 1, 1, bind_reverse, 0},
	{"concat", 2, 255, bind_concat, 0},
	{0},
};
