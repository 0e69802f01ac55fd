/* 64 bytes by a table, for machines without kernels of their own, and the measure of those that have some. */
#include "format/json/kernels_impl.h"

enum { QUOTE = 1, BACKSLASH = 2, OP = 4, BLANK = 8, CONTROL = 16, NEWLINE = 32 };

static const uint8_t byte_class[128] = {
	[0 ... 8] = CONTROL,
	['\t'] = CONTROL | BLANK,
	['\n'] = CONTROL | BLANK | NEWLINE,
	[11] = CONTROL,
	[12] = CONTROL | OP, /* as the others see it */
	['\r'] = CONTROL | BLANK,
	[14 ... 25] = CONTROL,
	[26] = CONTROL | OP,
	[27 ... 31] = CONTROL,
	[' '] = BLANK,
	['"'] = QUOTE,
	['\\'] = BACKSLASH,
	['{'] = OP,
	['}'] = OP,
	['['] = OP,
	[']'] = OP,
	[':'] = OP,
	[','] = OP,
};

static inline struct json_masks classify(const uint8_t *text)
{
	struct json_masks masks = {0};

	for (uint32_t i = 0; i < JSON_BLOCK; i++) {
		uint64_t class = text[i] < 128 ? byte_class[text[i]] : 0;

		masks.quote |= (class & 1) << i;
		masks.backslash |= (class >> 1 & 1) << i;
		masks.op |= (class >> 2 & 1) << i;
		masks.blank |= (class >> 3 & 1) << i;
		masks.control |= (class >> 4 & 1) << i;
		masks.newline |= (class >> 5 & 1) << i;
		masks.high |= (uint64_t)(text[i] >> 7) << i;
	}
	return masks;
}
