/* regex: compiled patterns, and matching one row's text with a bound on what that may cost.
 *
 * Two dialects: PCRE2's own, with Unicode classes, for the command's texts; and RE2's, for expressions of Python, which
 * expect what pyarrow.compute does: no look-around and no back references, \d \w \s \b of ASCII alone, $ at the very
 * end.
 *
 * Threads: a regex is immutable once compiled and may be shared; a matcher belongs to one call.
 */
#ifndef WEIR_EXPR_REGEX_H
#define WEIR_EXPR_REGEX_H

#include "expr/program.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct weir_regex {
	pcre2_code *code;
	pcre2_match_context *context;
	uint32_t group_count; /* without the whole match */
};

/* Compiles with PCRE2's `options`; what it needs belongs to the program. */
int weir_regex_compile(struct weir_program *program, const struct weir_node *node, const uint8_t *pattern, size_t size,
		       uint32_t options, struct weir_regex *out, struct weir_error *err);

/* The groups of a pattern, by their place; a name is NULL or in the program's arena. */
enum { WEIR_REGEX_GROUPS_MAX = 99 };
struct weir_regex_names {
	uint32_t count;
	const char *names[WEIR_REGEX_GROUPS_MAX];
};
/* A pattern of RE2, rewritten for PCRE2 into the program's arena. WEIR_E_SYNTAX for what RE2 does not take. */
int weir_regex_translate(struct weir_program *program, const struct weir_node *node, const struct weir_view *pattern,
			 const uint8_t **out, size_t *size, struct weir_regex_names *names, struct weir_error *err);

struct weir_matcher {
	const struct weir_regex *regex;
	pcre2_match_data *data;
	const size_t *places; /* of the last match: begin and end of each group */
};
int weir_matcher_init(struct weir_matcher *matcher, const struct weir_regex *regex, struct weir_error *err);
void weir_matcher_release(struct weir_matcher *matcher);
/* > 0: matched; 0: not; < 0: err is set. */
int weir_matcher_match(struct weir_matcher *matcher, const struct weir_call *call, uint32_t row, const uint8_t *bytes,
		       size_t size, size_t from, struct weir_error *err);

#endif
