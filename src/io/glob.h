/* glob: patterns of path names, without touching a file system.
 *
 *     *  any bytes of one name      ?  one character       [a-z] [!a-z]  one of, none of
 *     {a,b}  either, also across '/'     \x  x itself      **  any directories, also none (a whole component)
 *
 * A character is one of UTF-8 where the bytes are valid, else a byte. As in a shell, what can stand for anything does
 * not stand for a '.' at the beginning of a name.
 */
#ifndef WEIR_IO_GLOB_H
#define WEIR_IO_GLOB_H

#include "base/arena.h"
#include "base/list.h"

enum { WEIR_GLOB_COMPONENTS_MAX = 63, WEIR_GLOB_ALTERNATIVES_MAX = 4096 };

struct weir_glob_component {
	const char *text;    /* as written */
	const char *literal; /* without escapes, when nothing in it is special; else NULL */
	bool any_depth;      /* ** */
};

/* One alternative of a pattern: a directory that is named plainly, then components. */
struct weir_glob {
	const char *root; /* "" for the working directory; else ends in '/' */
	struct weir_glob_component *components;
	uint32_t component_count;
	bool directories_only; /* the pattern ends in '/' */
};

struct weir_globs WEIR_LIST(struct weir_glob);

/* Anything in it that would make it a pattern, escapes included. */
bool weir_glob_is_special(const char *path);
/* Braces multiplied out; texts and components live in the arena, the list in its account. */
int weir_glob_parse(struct weir_arena *arena, const char *pattern, struct weir_globs *out, struct weir_error *err);
/* `pattern` is one component other than **. */
bool weir_glob_match(const char *pattern, const char *name);

#endif
