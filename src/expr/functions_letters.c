/* Text by its letters: capitalize, title, swapcase; whether all characters are of a kind; padding to a width; places
 * and counts in bytes. Kinds follow Unicode's general categories (utf8proc), as Arrow's functions do.
 *
 * Text is valid UTF-8; should it not be, a byte that begins no character stands for itself and is of no kind. */
#include "base/utf8.h"
#include "expr/program.h"
#include "expr/text_writer.h"

#include <string.h>
#include <utf8proc.h>

/* The next character and how many bytes it has; −1 for a byte that is none. */
static size_t next_point(const uint8_t *bytes, size_t size, utf8proc_int32_t *point)
{
	utf8proc_ssize_t took;

	if (bytes[0] < 0x80) {
		*point = bytes[0];
		return 1;
	}
	took = utf8proc_iterate(bytes, (utf8proc_ssize_t)size, point);
	if (took > 0)
		return (size_t)took;
	*point = -1;
	return 1;
}

static uint32_t category_bit(utf8proc_int32_t point)
{
	return point < 0 ? 0 : 1u << utf8proc_get_property(point)->category;
}

#define BIT(name) (1u << UTF8PROC_CATEGORY_##name)
enum {
	LETTERS = BIT(LU) | BIT(LL) | BIT(LT) | BIT(LM) | BIT(LO),
	NUMBERS = BIT(ND) | BIT(NL) | BIT(NO),
	UNPRINTED = BIT(CC) | BIT(CF) | BIT(CS) | BIT(CO) | BIT(CN) | BIT(ZS) | BIT(ZL) | BIT(ZP),
};

static bool is_space(utf8proc_int32_t point)
{
	uint32_t bidi;

	if (point < 0)
		return false;
	bidi = utf8proc_get_property(point)->bidi_class;
	return (category_bit(point) & BIT(ZS)) || bidi == UTF8PROC_BIDI_CLASS_WS || bidi == UTF8PROC_BIDI_CLASS_B ||
	       bidi == UTF8PROC_BIDI_CLASS_S;
}

/* A letter that has another case, or is of one. */
static bool is_lower(utf8proc_int32_t point)
{
	return point >= 0 && !(category_bit(point) & (BIT(LU) | BIT(LT))) &&
	       (utf8proc_toupper(point) != point || (category_bit(point) & BIT(LL)));
}

static bool is_upper(utf8proc_int32_t point)
{
	return point >= 0 && !(category_bit(point) & (BIT(LL) | BIT(LT))) &&
	       (utf8proc_tolower(point) != point || (category_bit(point) & BIT(LU)));
}

static bool is_cased(utf8proc_int32_t point)
{
	return is_lower(point) || is_upper(point) || (category_bit(point) & BIT(LT));
}

enum {
	IS_ALPHA,
	IS_ALNUM,
	IS_DIGIT,
	IS_DECIMAL,
	IS_NUMERIC,
	IS_SPACE,
	IS_PRINTABLE,
	IS_LOWER,
	IS_UPPER,
	IS_TITLE,
	IS_ASCII
};

static bool is_of(uint32_t op, utf8proc_int32_t point)
{
	switch (op) {
	case IS_ALPHA:
		return category_bit(point) & LETTERS;
	case IS_ALNUM:
		return category_bit(point) & (LETTERS | NUMBERS);
	case IS_DECIMAL:
		return category_bit(point) & BIT(ND);
	case IS_DIGIT:
		return category_bit(point) & (BIT(ND) | BIT(NO));
	case IS_NUMERIC:
		return category_bit(point) & NUMBERS;
	case IS_SPACE:
		return is_space(point);
	case IS_PRINTABLE:
		return point == ' ' || (point >= 0 && !(category_bit(point) & UNPRINTED));
	default:
		return point >= 0 && point < 0x80;
	}
}

/* Every character is of the kind, and there is one; only nothing at all is printable and ASCII. */
static bool all_of(uint32_t op, const uint8_t *bytes, size_t size)
{
	utf8proc_int32_t point;

	if (!size)
		return op == IS_PRINTABLE || op == IS_ASCII;
	for (size_t at = 0; at < size; at += next_point(bytes + at, size - at, &point)) {
		next_point(bytes + at, size - at, &point);
		if (!is_of(op, point))
			return false;
	}
	return true;
}

/* No character of the other case, and one of this. */
static bool all_case(uint32_t op, const uint8_t *bytes, size_t size)
{
	bool found = false;

	for (size_t at = 0; at < size;) {
		utf8proc_int32_t point;

		at += next_point(bytes + at, size - at, &point);
		if (op == IS_LOWER ? is_lower(point) : is_upper(point))
			found = true;
		else if (is_cased(point))
			return false;
	}
	return found;
}

/* Upper case begins a word, lower case goes on with it. */
static bool is_title(const uint8_t *bytes, size_t size)
{
	bool in_word = false, found = false;

	for (size_t at = 0; at < size;) {
		utf8proc_int32_t point;

		at += next_point(bytes + at, size - at, &point);
		if (!is_cased(point)) {
			in_word = false;
			continue;
		}
		if (is_lower(point) ? !in_word : in_word)
			return false;
		in_word = found = true;
	}
	return found;
}

static int kernel_kind(struct weir_call *call, struct weir_error *err)
{
	uint32_t op = call->node->op;
	uint64_t *bits = call->values;

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *view = weir_call_view(call, 0, row);
		const uint8_t *bytes = weir_view_bytes(view);
		bool is = op == IS_TITLE                     ? is_title(bytes, view->size)
			  : op == IS_LOWER || op == IS_UPPER ? all_case(op, bytes, view->size)
							     : all_of(op, bytes, view->size);

		bits[row >> 6] |= (uint64_t)is << (row & 63);
	}
	return WEIR_OK;
}

/* ---- case ---- */

enum { CAPITALIZE, TITLE, SWAPCASE };

static utf8proc_int32_t mapped(uint32_t op, utf8proc_int32_t point, bool *in_word)
{
	bool first = !*in_word;

	switch (op) {
	case CAPITALIZE:
		*in_word = true;
		return first ? utf8proc_toupper(point) : utf8proc_tolower(point);
	case TITLE:
		*in_word = is_cased(point);
		return first ? utf8proc_toupper(point) : utf8proc_tolower(point);
	default:
		if (is_lower(point))
			return utf8proc_toupper(point);
		return is_upper(point) ? utf8proc_tolower(point) : point;
	}
}

static int kernel_case(struct weir_call *call, struct weir_error *err)
{
	struct weir_text_writer writer = {.arena = call->arena};

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *view = weir_call_view(call, 0, row);
		const uint8_t *bytes = weir_view_bytes(view);
		/* A letter's other case may be longer by one byte, never more; the encoder writes four. */
		uint8_t *out = weir_text_room(&writer, (size_t)view->size * 2 + 4, err);
		size_t written = 0;
		bool in_word = false;

		if (!out)
			return err->code;
		for (size_t at = 0; at < view->size;) {
			utf8proc_int32_t point;
			size_t took = next_point(bytes + at, view->size - at, &point);

			if (point < 0)
				out[written++] = bytes[at];
			else
				written += (size_t)utf8proc_encode_char(mapped(call->node->op, point, &in_word),
									out + written);
			at += took;
		}
		((struct weir_view *)call->values)[row] = weir_text_done(&writer, written);
	}
	return WEIR_OK;
}

/* ---- padding ---- */

enum { PAD_LEFT, PAD_RIGHT, PAD_BOTH };

static uint8_t *pad(uint8_t *out, const struct weir_view *with, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		memcpy(out, weir_view_bytes(with), with->size);
		out += with->size;
	}
	return out;
}

static int kernel_pad(struct weir_call *call, struct weir_error *err)
{
	struct weir_text_writer writer = {.arena = call->arena};
	uint32_t op = call->node->op;

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *view = weir_call_view(call, 0, row), *with = weir_call_view(call, 2, row);
		int64_t width = ((const int64_t *)call->arguments[1].values)[row & weir_call_mask(call, 1)];
		int64_t missing = width - (int64_t)weir_utf8_length(weir_view_bytes(view), view->size), left, size;
		uint8_t *out, *to;

		if (weir_utf8_length(weir_view_bytes(with), with->size) != 1)
			return weir_call_fail(call, row, err, WEIR_E_VALUE, "padding is one character");
		if (missing <= 0) {
			((struct weir_view *)call->values)[row] = *view;
			continue;
		}
		if (__builtin_mul_overflow(missing, (int64_t)with->size, &size) || (size += view->size) > INT32_MAX)
			return weir_call_fail(call, row, err, WEIR_E_OVERFLOW, "the result is too long");
		out = weir_text_room(&writer, (size_t)size, err);
		if (!out)
			return err->code;
		left = op == PAD_LEFT ? missing : op == PAD_RIGHT ? 0 : missing / 2;
		to = pad(out, with, left);
		if (view->size)
			memcpy(to, weir_view_bytes(view), view->size);
		pad(to + view->size, with, missing - left);
		((struct weir_view *)call->values)[row] = weir_text_done(&writer, (size_t)size);
	}
	return WEIR_OK;
}

/* ---- bytes ---- */

enum { BYTE_LENGTH, BYTE_FIND, COUNT };

static int kernel_bytes(struct weir_call *call, struct weir_error *err)
{
	int64_t *out = call->values;

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *view = weir_call_view(call, 0, row),
				       *part = call->node->count > 1 ? weir_call_view(call, 1, row) : NULL;
		const uint8_t *bytes = weir_view_bytes(view), *end = bytes + view->size, *at = bytes, *found;

		switch (call->node->op) {
		case BYTE_LENGTH:
			out[row] = view->size;
			break;
		case BYTE_FIND:
			found = part->size ? memmem(bytes, view->size, weir_view_bytes(part), part->size) : bytes;
			out[row] = found ? found - bytes : -1;
			break;
		default:
			/* Nothing is found before every character and at the end, as Python counts. */
			out[row] = part->size ? 0 : (int64_t)weir_utf8_length(bytes, view->size) + 1;
			while (part->size &&
			       (found = memmem(at, (size_t)(end - at), weir_view_bytes(part), part->size))) {
				out[row]++;
				at = found + part->size;
			}
		}
	}
	return WEIR_OK;
}

/* ---- binding ---- */

static int refuse(struct weir_program *program, const struct weir_node *node, uint32_t argument, struct weir_error *err)
{
	char name[96];

	return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s is not defined for %s (%s)", node->function->name,
			      weir_type_name(node->arguments[argument]->type, name, sizeof(name)),
			      node->arguments[argument]->text);
}

/* Arguments are text but for number `integer`, or bytes where `takes_bytes`; `type` NULL: the first argument's. */
static int bind_letters(struct weir_program *program, struct weir_node *node, uint32_t integer, bool takes_bytes,
			const struct weir_type *type, weir_node_kernel *kernel, struct weir_error *err)
{
	for (uint32_t i = 0; i < node->count; i++) {
		if (weir_node_is_none(node->arguments[i])) {
			if (!type)
				type = weir_type_is_text(node->arguments[0]->type) ? node->arguments[0]->type
										   : weir_type_of(WEIR_STRING);
			return weir_bind_constant(program, node, type, NULL, err);
		}
	}
	for (uint32_t i = 0; i < node->count; i++) {
		const struct weir_type *given = node->arguments[i]->type;

		if (i == integer ? !weir_type_is_integer(given)
				 : !(takes_bytes ? weir_type_is_bytes(given) : weir_type_is_text(given)))
			return refuse(program, node, i, err);
	}
	if (integer < node->count &&
	    weir_bind_cast(program, &node->arguments[integer], weir_type_of(WEIR_INT64), true, err))
		return err->code;
	weir_bind_kernel(node, type ? type : node->arguments[0]->type, kernel);
	node->needs_rows = true;
	return WEIR_OK;
}

static int bind_kind(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	return bind_letters(program, node, UINT32_MAX, false, weir_type_of(WEIR_BOOL), kernel_kind, err);
}

static int bind_case(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	return bind_letters(program, node, UINT32_MAX, false, NULL, kernel_case, err);
}

static int bind_bytes(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	return bind_letters(program, node, UINT32_MAX, true, weir_type_of(WEIR_INT64), kernel_bytes, err);
}

static int bind_pad(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	struct weir_node **arguments = node->arguments;
	struct weir_scalar blank = {.type = weir_type_of(WEIR_STRING),
				    .bytes = weir_view_make((const uint8_t *)" ", 1)};
	int code;

	if (node->count == 2) {
		arguments = weir_arena_alloc(&program->arena, 3 * sizeof(*arguments), err);
		if (!arguments)
			return err->code;
		memcpy(arguments, node->arguments, 2 * sizeof(*arguments));
		arguments[2] = weir_bind_new(program, err);
		if (!arguments[2] || weir_bind_constant(program, arguments[2], blank.type, &blank, err))
			return err->code;
		node->arguments = arguments;
		node->count = 3;
	}
	code = bind_letters(program, node, 1, false, NULL, kernel_pad, err);
	if (!code && node->kind == WEIR_NODE_CALL)
		node->may_fail = true;
	return code;
}

const struct weir_function weir_functions_letters[] = {
	{"is_alpha", 1, 1, bind_kind, IS_ALPHA},
	{"is_alnum", 1, 1, bind_kind, IS_ALNUM},
	{"is_digit", 1, 1, bind_kind, IS_DIGIT},
	{"is_decimal", 1, 1, bind_kind, IS_DECIMAL},
	{"is_numeric", 1, 1, bind_kind, IS_NUMERIC},
	{"is_space", 1, 1, bind_kind, IS_SPACE},
	{"is_printable", 1, 1, bind_kind, IS_PRINTABLE},
	{"is_lower", 1, 1, bind_kind, IS_LOWER},
	{"is_upper", 1, 1, bind_kind, IS_UPPER},
	{"is_title", 1, 1, bind_kind, IS_TITLE},
	{"is_ascii", 1, 1, bind_kind, IS_ASCII},
	{"capitalize", 1, 1, bind_case, CAPITALIZE},
	{"title", 1, 1, bind_case, TITLE},
	{"swapcase", 1, 1, bind_case, SWAPCASE},
	{"lpad", 2, 3, bind_pad, PAD_LEFT},
	{"rpad", 2, 3, bind_pad, PAD_RIGHT},
	{"center", 2, 3, bind_pad, PAD_BOTH},
	{"byte_length", 1, 1, bind_bytes, BYTE_LENGTH},
	{"byte_find", 2, 2, bind_bytes, BYTE_FIND},
	{"count", 2, 2, bind_bytes, COUNT},
	{0},
};
