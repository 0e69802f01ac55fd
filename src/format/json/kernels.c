/* Which build of the kernels this machine runs, and the portable one, which tests compare with. */
#include "format/json/kernels_impl.h"

struct json_masks {
	uint64_t quote, backslash, op, blank, control, newline, high;
};

#include "format/json/classify_template.h"

static inline uint32_t *put_entries(uint64_t mask, uint32_t base, uint32_t *out)
{
	for (; mask; mask &= mask - 1)
		*out++ = base + (uint32_t)__builtin_ctzll(mask);
	return out;
}

#include "format/json/kernels_template.h"

static size_t count_newlines(const uint8_t *text, size_t size)
{
	size_t count = 0;

	for (size_t i = 0; i < size; i++)
		count += text[i] == '\n';
	return count;
}

WEIR_KERNEL_DECLARE(struct json_kernels, json_kernels);

const struct json_kernels *json_kernels_choose(void)
{
	return WEIR_KERNEL_CHOOSE(json_kernels);
}

const struct json_kernels *json_kernels_portable(void)
{
	static const struct json_kernels portable = {
		.index = index_text,
		.find_special = find_special,
		.count_newlines = count_newlines,
	};

	return &portable;
}
