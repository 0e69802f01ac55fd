/* kernels: where the structure of JSON text lies, found 64 bytes at a time; built once per CPU level (base/cpu.h).
 *
 * An entry is the place of a byte that matters to who walks the text:
 *
 *     {"a": "x\"y", "b": [1, null]}
 *     ▲▲ ▲▲ ▲    ▲▲ ▲ ▲▲ ▲▲▲ ▲   ▲▲
 *
 * both quotes of a string, { } [ ] : , outside strings, and the first byte of each number or word, which includes
 * anything that does not belong there. So between two entries lies only what the first one begins: the inside of a
 * string, the rest of a number, or blanks. Control characters inside strings, which JSON forbids, are entries too, as
 * are line ends outside strings when lines are records. Bytes that cannot follow are seen as entries of an unexpected
 * kind; no byte needs a second look.
 */
#ifndef WEIR_FORMAT_JSON_KERNELS_IMPL_H
#define WEIR_FORMAT_JSON_KERNELS_IMPL_H

#include "base/cpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	JSON_BLOCK = 64,       /* text is readable, and blank, up to the end of its last block */
	JSON_ENTRY_SLACK = 16, /* entries that may be written past the last one */
};

/* What one block hands to the next. All-zero at the beginning of a record. */
struct json_scan {
	uint64_t is_escaped; /* 1: the next byte stands behind a backslash */
	uint64_t in_string;  /* all ones: the next byte stands inside a string */
	uint64_t in_scalar;  /* 1: the last byte belonged to a number or word */
	uint64_t newlines;   /* counted, wherever they stand */
	uint64_t escapes;    /* not zero: there was a backslash */
	uint64_t high;       /* not zero: there was a byte that is not ASCII */
};

struct json_kernels {
	/* The entries of text[begin, end), `begin` a multiple of JSON_BLOCK; there is room for end − begin of them and
	 * the slack. Returns how many. */
	size_t (*index)(const uint8_t *text, uint32_t begin, uint32_t end, bool lines, struct json_scan *scan,
			uint32_t *entries);
	/* The first quote, backslash or control character; `size` when there is none. Reads up to 63 bytes more. */
	size_t (*find_special)(const uint8_t *text, size_t size);
	/* How many bytes are '\n'. */
	size_t (*count_newlines)(const uint8_t *text, size_t size);
};

/* The table for this machine, and the one that uses no instructions of its own: the measure of the others. */
const struct json_kernels *json_kernels_choose(void);
const struct json_kernels *json_kernels_portable(void);

#endif
