/* Braces are multiplied out first, so that what remains is a plain list of components. A name is matched by trying the
 * newest '*' one character further on each mismatch; older ones never need to move, so the time is at most the product
 * of both lengths. */
#include "io/glob.h"

#include <string.h>

enum { PATTERN_SIZE_MAX = 8 << 10 };

/* ---- characters and sets ---- */

/* One character of UTF-8, or one byte outside of Unicode's range: it equals itself and nothing else. */
static uint32_t character(const char **text)
{
	const unsigned char *t = (const unsigned char *)*text;
	unsigned length = t[0] < 0xc2 ? 1 : t[0] < 0xe0 ? 2 : t[0] < 0xf0 ? 3 : t[0] < 0xf5 ? 4 : 1;
	uint32_t value = t[0] & (0x7fu >> length);

	if (t[0] < 0x80) {
		*text += 1;
		return t[0];
	}
	for (unsigned i = 1; i < length; i++) {
		if ((t[i] & 0xc0) != 0x80) {
			length = 1;
			break;
		}
		value = value << 6 | (t[i] & 0x3f);
	}
	*text += length;
	return length > 1 ? value : 0x110000u + t[0];
}

/* The first byte after the set that begins at `text` ('['), or NULL when nothing closes it: then it is a plain '['. */
static const char *set_end(const char *text)
{
	const char *at = text + 1;

	at += *at == '!' || *at == '^';
	at += *at == ']'; /* as the first it is a member */
	for (; *at && *at != ']'; at++)
		at += *at == '\\' && at[1];
	return *at ? at + 1 : NULL;
}

static uint32_t set_character(const char **at)
{
	*at += **at == '\\' && (*at)[1];
	return character(at);
}

static bool set_matches(const char *text, const char *end, uint32_t value)
{
	const char *at = text + 1;
	bool negated = *at == '!' || *at == '^', found = false;

	at += negated;
	while (at < end - 1) {
		uint32_t low = set_character(&at), high = low;

		if (*at == '-' && at + 1 < end - 1) {
			at++;
			high = set_character(&at);
		}
		found |= value >= low && value <= high;
	}
	return found != negated;
}

/* Matches one character of the name with what stands at *pattern, which is no '*'. Moves both on success. */
static bool match_one(const char **pattern, const char **name)
{
	const char *p = *pattern, *n = *name, *end;
	uint32_t value = character(&n);
	bool matches;

	if (*p == '?') {
		p++;
		matches = true;
	} else if (*p == '[' && (end = set_end(p))) {
		matches = set_matches(p, end, value);
		p = end;
	} else {
		p += *p == '\\' && p[1];
		matches = *p && character(&p) == value;
	}
	if (matches) {
		*pattern = p;
		*name = n;
	}
	return matches;
}

bool weir_glob_match(const char *pattern, const char *name)
{
	const char *star = NULL, *star_name = NULL;

	if (*name == '.' && (*pattern == '*' || *pattern == '?' || *pattern == '['))
		return false;
	while (*name) {
		if (*pattern == '*') {
			star = ++pattern;
			star_name = name;
		} else if (!match_one(&pattern, &name)) {
			if (!star)
				return false;
			character(&star_name);
			name = star_name;
			pattern = star;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

bool weir_glob_is_special(const char *path)
{
	return strpbrk(path, "*?[{\\") != NULL;
}

/* ---- components ---- */

static bool has_wildcard(const char *text)
{
	for (; *text; text++) {
		if (*text == '*' || *text == '?' || (*text == '[' && set_end(text)))
			return true;
		text += *text == '\\' && text[1];
	}
	return false;
}

static void unescape(char *text)
{
	char *out = text;

	for (; *text; text++) {
		text += *text == '\\' && text[1];
		*out++ = *text;
	}
	*out = '\0';
}

static int component_init(struct weir_arena *arena, const char *text, size_t size, struct weir_glob_component *out,
			  struct weir_error *err)
{
	char *literal = NULL;

	out->text = weir_arena_strndup(arena, text, size, err);
	if (!out->text)
		return err->code;
	out->any_depth = !strcmp(out->text, "**");
	if (!has_wildcard(out->text)) {
		literal = weir_arena_strndup(arena, text, size, err);
		if (!literal)
			return err->code;
		unescape(literal);
	}
	out->literal = literal;
	return WEIR_OK;
}

/* Leading plain components become the root: those directories need not be searched. The last component stays one, even
 * when it is plain. */
static int take_root(struct weir_arena *arena, bool absolute, struct weir_glob *glob, struct weir_error *err)
{
	uint32_t plain = 0;
	size_t size = absolute;
	char *root, *at;

	while (plain + 1 < glob->component_count && glob->components[plain].literal)
		size += strlen(glob->components[plain++].literal) + 1;
	root = at = weir_arena_alloc(arena, size + 1, err);
	if (!root)
		return err->code;
	if (absolute)
		*at++ = '/';
	for (uint32_t c = 0; c < plain; c++) {
		at = stpcpy(at, glob->components[c].literal);
		*at++ = '/';
	}
	*at = '\0';
	glob->root = root;
	glob->components += plain;
	glob->component_count -= plain;
	return WEIR_OK;
}

static int add_plain(struct weir_arena *arena, const char *pattern, struct weir_globs *out, struct weir_error *err)
{
	struct weir_glob glob = {0};
	uint32_t count = 0;
	int code;

	for (const char *at = pattern; *at; at++)
		count += *at != '/' && (at == pattern || at[-1] == '/');
	if (!count)
		return WEIR_OK; /* an empty alternative names nothing */
	if (count > WEIR_GLOB_COMPONENTS_MAX)
		return weir_error_set(err, WEIR_E_INVALID, "a pattern with more than %d components",
				      WEIR_GLOB_COMPONENTS_MAX);
	glob.components = weir_arena_alloc_zero(arena, count * sizeof(*glob.components), err);
	if (!glob.components)
		return err->code;
	for (const char *at = pattern; *at;) {
		size_t size = strcspn(at, "/");

		if (size) {
			struct weir_glob_component *component = &glob.components[glob.component_count];

			code = component_init(arena, at, size, component, err);
			if (code)
				return code;
			/* Two ** after each other say no more than one. */
			if (!component->any_depth || !glob.component_count || !component[-1].any_depth)
				glob.component_count++;
		}
		at += size;
		glob.directories_only = *at == '/';
		at += *at == '/';
	}
	code = take_root(arena, *pattern == '/', &glob, err);
	if (code)
		return code;
	if (out->count == WEIR_GLOB_ALTERNATIVES_MAX)
		return weir_error_set(err, WEIR_E_INVALID, "a pattern that stands for more than %d others",
				      WEIR_GLOB_ALTERNATIVES_MAX);
	return weir_list_push(out, arena->account, err, glob);
}

/* ---- braces ---- */

/* The first pair of braces with a comma between them: where they are. Others are plain characters. */
static bool find_braces(const char *pattern, const char **open, const char **close)
{
	for (const char *at = pattern; *at; at++) {
		int depth = 0;
		bool comma = false;

		if (*at == '\\' && at[1]) {
			at++;
			continue;
		}
		if (*at != '{')
			continue;
		for (const char *in = at; *in; in++) {
			if (*in == '\\' && in[1]) {
				in++;
				continue;
			}
			comma |= *in == ',' && depth == 1;
			depth += (*in == '{') - (*in == '}');
			if (!depth) {
				*open = at;
				*close = in;
				if (comma)
					return true;
				break;
			}
		}
	}
	return false;
}

static int expand(struct weir_arena *arena, const char *pattern, struct weir_globs *out, struct weir_error *err)
{
	const char *open, *close, *from;
	int depth = 0, code;

	if (!find_braces(pattern, &open, &close))
		return add_plain(arena, pattern, out, err);
	from = open + 1;
	for (const char *at = from; at <= close; at++) {
		char *one, *end;

		if (*at == '\\' && at[1] && at < close) {
			at++;
			continue;
		}
		if (at < close && (*at != ',' || depth)) {
			depth += (*at == '{') - (*at == '}');
			continue;
		}
		one = weir_arena_alloc(arena, strlen(pattern) + 1, err);
		if (!one)
			return err->code;
		end = mempcpy(one, pattern, (size_t)(open - pattern));
		end = mempcpy(end, from, (size_t)(at - from));
		memcpy(end, close + 1, strlen(close + 1) + 1);
		code = expand(arena, one, out, err);
		if (code)
			return code;
		from = at + 1;
	}
	return WEIR_OK;
}

int weir_glob_parse(struct weir_arena *arena, const char *pattern, struct weir_globs *out, struct weir_error *err)
{
	if (strlen(pattern) > PATTERN_SIZE_MAX)
		return weir_error_set(err, WEIR_E_INVALID, "a pattern of more than %d bytes", PATTERN_SIZE_MAX);
	return expand(arena, pattern, out, err);
}
