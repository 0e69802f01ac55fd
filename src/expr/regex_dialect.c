/* RE2's patterns for PCRE2. Most of a pattern means the same in both and passes as it is; this walks over it and
 *
 *   refuses   what RE2 has not: (?= (?! (?<= (?> (?P= (?R (*VERB), \1 \k \K \R \X \h \Z …, a++, a**, more than 1000
 *             times
 *   rewrites  \w, \W (letters fold), \s, \S (no vertical tab), \v (that one character), \123, \p{Script}, \Q…\E, {…}
 *             that is no count, names of groups
 *
 * so that the same texts are errors and the same ones match. Named groups become plain ones: their names are kept here,
 * since PCRE2's may neither be long nor begin with a digit.
 */
#include "expr/regex.h"

#include <stdio.h>
#include <string.h>

enum { REPEATS_MAX = 1000 };

struct walk {
	struct weir_program *program;
	const struct weir_node *node;
	const uint8_t *at, *end;
	uint8_t *out; /* room for GROWTH bytes a byte of the pattern */
	struct weir_regex_names *names;
	struct weir_error *err;
};
enum { GROWTH = 16 };

static void put(struct walk *walk, const char *text)
{
	size_t size = strlen(text);

	memcpy(walk->out, text, size);
	walk->out += size;
}

static int refuse(struct walk *walk, const char *what, const uint8_t *from)
{
	const uint8_t *to = walk->at < walk->end ? walk->at + 1 : walk->end;

	return weir_bind_fail(walk->program, walk->node, walk->err, WEIR_E_SYNTAX, "the pattern is wrong: %s: %.*s",
			      what, (int)(to - from > 40 ? 40 : to - from), (const char *)from);
}

static bool is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

static bool is_octal(uint8_t c)
{
	return c >= '0' && c <= '7';
}

static bool is_letter(uint8_t c)
{
	return (c | 32) >= 'a' && (c | 32) <= 'z';
}

/* One character that stands for itself. */
static void put_literal(struct walk *walk, uint8_t c)
{
	if (c < 0x80 && !is_letter(c) && !is_digit(c) && c > ' ')
		*walk->out++ = '\\';
	*walk->out++ = c;
}

/* \pN, \p{Name}, \p{^Name}: one or two letters are a category, longer names are scripts. */
static int walk_property(struct walk *walk, const uint8_t *begin)
{
	const uint8_t *name = walk->at + 1, *close;
	bool negated = *walk->at == 'P';
	char text[80];

	if (name == walk->end)
		return refuse(walk, "invalid character class range", begin);
	if (*name != '{') {
		snprintf(text, sizeof(text), "\\%c%c", *walk->at, *name);
		walk->at = name + 1;
		put(walk, text);
		return WEIR_OK;
	}
	close = memchr(name, '}', (size_t)(walk->end - name));
	if (!close || close - name > 40)
		return refuse(walk, "invalid character class range", begin);
	name++;
	if (*name == '^') {
		negated = !negated;
		name++;
	}
	snprintf(text, sizeof(text), "\\%c{%s%.*s}", negated ? 'P' : 'p',
		 close - name > 2 && memcmp(name, "Any", 3) ? "sc:" : "", (int)(close - name), (const char *)name);
	put(walk, text);
	walk->at = close + 1;
	return WEIR_OK;
}

/* walk->at is behind the backslash. */
static int walk_escape(struct walk *walk, bool in_class)
{
	const uint8_t *begin = walk->at - 1;
	uint8_t c;
	char text[24];

	if (walk->at == walk->end)
		return refuse(walk, "trailing backslash", begin);
	c = *walk->at;
	if (is_digit(c)) {
		uint32_t value = 0, digits = 0, most = c == '0' ? 3 : 3;

		/* \1 alone would be a reference to a group. */
		if (c != '0' && (!is_octal(c) || walk->end - walk->at < 2 || !is_octal(walk->at[1])))
			return refuse(walk, "invalid escape sequence", begin);
		while (digits < most && walk->at < walk->end && is_octal(*walk->at)) {
			value = value * 8 + (*walk->at++ - '0');
			digits++;
		}
		snprintf(text, sizeof(text), "\\x{%x}", value);
		put(walk, text);
		return WEIR_OK;
	}
	if (!is_letter(c)) {
		if (c >= 0x80)
			return refuse(walk, "invalid escape sequence", begin);
		put_literal(walk, c);
		walk->at++;
		return WEIR_OK;
	}
	switch (c) {
	case 's':
		put(walk, in_class ? "\\t\\n\\f\\r " : "[\\t\\n\\f\\r ]");
		break;
	case 'S':
		put(walk, in_class ? "\\S\\x0b" : "[^\\t\\n\\f\\r ]");
		break;
	case 'v':
		put(walk, "\\x0b");
		break;
	case 'w': /* without regard to case, the long s and the sign of the kelvin are letters, too */
		put(walk, in_class ? "0-9A-Za-z_" : "[0-9A-Za-z_]");
		break;
	case 'W':
		put(walk, in_class ? "\\W" : "[^0-9A-Za-z_]");
		break;
	case 'p':
	case 'P':
		return walk_property(walk, begin);
	case 'x':
		*walk->out++ = '\\';
		*walk->out++ = 'x';
		walk->at++;
		if (walk->at < walk->end && *walk->at == '{') {
			while (walk->at < walk->end && *walk->at != '}')
				*walk->out++ = *walk->at++;
			if (walk->at == walk->end)
				return refuse(walk, "invalid escape sequence", begin);
			*walk->out++ = *walk->at++;
			return WEIR_OK;
		}
		for (uint32_t i = 0; i < 2; i++) {
			if (walk->at == walk->end ||
			    !(is_digit(*walk->at) || ((*walk->at | 32) >= 'a' && (*walk->at | 32) <= 'f')))
				return refuse(walk, "invalid escape sequence", begin);
			*walk->out++ = *walk->at++;
		}
		return WEIR_OK;
	case 'A':
	case 'z':
	case 'b':
	case 'B':
	case 'C':
		if (in_class)
			return refuse(walk, "invalid escape sequence", begin);
		/* fall through */
	case 'd':
	case 'D':
	case 'a':
	case 'f':
	case 'n':
	case 'r':
	case 't':
		*walk->out++ = '\\';
		*walk->out++ = c;
		break;
	default:
		return refuse(walk, "invalid escape sequence", begin);
	}
	walk->at++;
	return WEIR_OK;
}

/* […], from behind the bracket. */
static int walk_class(struct walk *walk)
{
	const uint8_t *begin = walk->at - 1;
	bool first = true;

	*walk->out++ = '[';
	if (walk->at < walk->end && *walk->at == '^')
		*walk->out++ = *walk->at++;
	while (walk->at < walk->end && (first || *walk->at != ']')) {
		first = false;
		if (*walk->at == '\\') {
			walk->at++;
			if (walk_escape(walk, true))
				return walk->err->code;
			continue;
		}
		if (*walk->at == '[') {
			const uint8_t *close = NULL;

			/* [:alpha:], else a bracket that stands for itself */
			if (walk->at + 1 < walk->end && walk->at[1] == ':')
				close = memmem(walk->at + 2, (size_t)(walk->end - walk->at - 2), ":]", 2);
			if (close && close - walk->at < 20) {
				memcpy(walk->out, walk->at, (size_t)(close + 2 - walk->at));
				walk->out += close + 2 - walk->at;
				walk->at = close + 2;
				continue;
			}
			*walk->out++ = '\\';
		}
		*walk->out++ = *walk->at++;
	}
	if (walk->at == walk->end)
		return refuse(walk, "missing ]", begin);
	*walk->out++ = *walk->at++;
	return WEIR_OK;
}

/* What follows "(?", names and flags. */
static int walk_group(struct walk *walk)
{
	const uint8_t *begin = walk->at - 1, *name, *p;

	if (walk->at == walk->end || *walk->at != '?') {
		*walk->out++ = '(';
		if (walk->names->count == WEIR_REGEX_GROUPS_MAX)
			return refuse(walk, "too many groups", begin);
		walk->names->names[walk->names->count++] = NULL;
		return WEIR_OK;
	}
	p = walk->at + 1;
	if (walk->end - p >= 2 && ((p[0] == 'P' && p[1] == '<') || (p[0] == '<' && p[1] != '=' && p[1] != '!'))) {
		name = p + (p[0] == 'P' ? 2 : 1);
		for (p = name; p < walk->end && *p != '>'; p++) {
			if (!is_letter(*p) && !is_digit(*p) && *p != '_' && *p < 0x80)
				return refuse(walk, "invalid named capture group", begin);
		}
		if (p == walk->end || p == name)
			return refuse(walk, "invalid named capture group", begin);
		if (walk->names->count == WEIR_REGEX_GROUPS_MAX)
			return refuse(walk, "too many groups", begin);
		walk->names->names[walk->names->count] = weir_arena_strndup(&walk->program->arena, (const char *)name,
									    (size_t)(p - name), walk->err);
		if (!walk->names->names[walk->names->count++])
			return walk->err->code;
		*walk->out++ = '(';
		walk->at = p + 1;
		return WEIR_OK;
	}
	while (p < walk->end && strchr("imsU-", *p) && *p)
		p++;
	if (p == walk->end || (*p != ':' && *p != ')') || (p == walk->at + 1 && *p == ')')) {
		walk->at = p;
		return refuse(walk, "invalid perl operator", begin);
	}
	*walk->out++ = '(';
	memcpy(walk->out, walk->at, (size_t)(p + 1 - walk->at));
	walk->out += p + 1 - walk->at;
	walk->at = p + 1;
	return WEIR_OK;
}

/* {n}, {n,}, {n,m} at walk->at; 0: it is none, -1: refused. */
static int walk_count(struct walk *walk)
{
	const uint8_t *p = walk->at + 1;
	uint32_t low = 0, high = 0;
	bool has_high = false;

	if (p == walk->end || !is_digit(*p))
		return 0;
	for (; p < walk->end && is_digit(*p); p++)
		low = low > REPEATS_MAX ? low : low * 10 + (*p - '0');
	if (p < walk->end && *p == ',') {
		p++;
		for (; p < walk->end && is_digit(*p); p++) {
			has_high = true;
			high = high > REPEATS_MAX ? high : high * 10 + (*p - '0');
		}
	}
	if (p == walk->end || *p != '}')
		return 0;
	if (low > REPEATS_MAX || high > REPEATS_MAX || (has_high && high < low))
		return refuse(walk, "invalid repetition size", walk->at), -1;
	memcpy(walk->out, walk->at, (size_t)(p + 1 - walk->at));
	walk->out += p + 1 - walk->at;
	walk->at = p + 1;
	return 1;
}

static int walk_all(struct walk *walk)
{
	bool after_atom = false, after_repeat = false;

	while (walk->at < walk->end) {
		uint8_t c = *walk->at;
		int counted = 0;

		if (c == '{' && (counted = walk_count(walk)) < 0)
			return walk->err->code;
		if (c == '*' || c == '+' || c == '?' || counted) {
			if (after_repeat)
				return refuse(walk, "bad repetition operator", walk->at);
			if (!after_atom)
				return refuse(walk, "no argument for repetition operator", walk->at);
			if (!counted)
				*walk->out++ = *walk->at++;
			if (walk->at < walk->end && *walk->at == '?')
				*walk->out++ = *walk->at++;
			after_repeat = true;
			continue;
		}
		after_repeat = false;
		after_atom = true;
		walk->at++;
		switch (c) {
		case '\\':
			if (walk->at < walk->end && *walk->at == 'Q') {
				for (walk->at++; walk->at < walk->end; walk->at++) {
					if (*walk->at == '\\' && walk->at + 1 < walk->end && walk->at[1] == 'E') {
						walk->at += 2;
						break;
					}
					put_literal(walk, *walk->at);
				}
				break;
			}
			if (walk->at < walk->end && *walk->at == 'E') { /* without a beginning it means nothing */
				walk->at++;
				break;
			}
			if (walk_escape(walk, false))
				return walk->err->code;
			break;
		case '[':
			if (walk_class(walk))
				return walk->err->code;
			break;
		case '(':
			if (walk_group(walk))
				return walk->err->code;
			after_atom = walk->out[-1] == ')';
			break;
		case '|':
			*walk->out++ = c;
			after_atom = false;
			break;
		case '{':
		case '}':
			put_literal(walk, c);
			break;
		default:
			*walk->out++ = c;
		}
	}
	return WEIR_OK;
}

int weir_regex_translate(struct weir_program *program, const struct weir_node *node, const struct weir_view *pattern,
			 const uint8_t **out, size_t *size, struct weir_regex_names *names, struct weir_error *err)
{
	const uint8_t *bytes = weir_view_bytes(pattern);
	uint8_t *room = weir_arena_alloc(&program->arena, (size_t)pattern->size * GROWTH + 64, err);
	struct walk walk = {.program = program,
			    .node = node,
			    .at = bytes,
			    .end = bytes + pattern->size,
			    .out = room,
			    .names = names,
			    .err = err};
	int code;

	*names = (struct weir_regex_names){0};
	if (!room)
		return err->code;
	code = walk_all(&walk);
	*out = room;
	*size = (size_t)(walk.out - room);
	return code;
}
