/* The kernels of kernels_impl.h over a way to classify 64 bytes. Whoever includes this has defined
 *
 *     static inline struct json_masks classify(const uint8_t *text)         bit i is byte i
 *     static inline uint32_t *put_entries(uint64_t mask, uint32_t base, uint32_t *out)
 */
#include "format/json/kernels_impl.h"
#include "format/text_masks.h"

/* The bytes that stand behind a backslash which is not itself behind one. Backslashes are rare enough to be taken one
 * by one. */
static inline uint64_t escaped_bytes(uint64_t backslash, uint64_t *carry)
{
	uint64_t escaped = *carry;

	backslash &= ~escaped;
	*carry = 0;
	while (backslash) {
		uint64_t bit = backslash & -backslash;

		escaped |= bit << 1;
		*carry = bit >> 63;
		backslash &= ~(bit | bit << 1);
	}
	return escaped;
}

static size_t index_text(const uint8_t *text, uint32_t begin, uint32_t end, bool lines, struct json_scan *scan,
			 uint32_t *entries)
{
	const uint64_t newline_entries = lines ? ~UINT64_C(0) : 0;
	uint64_t is_escaped = scan->is_escaped, in_string_before = scan->in_string, in_scalar = scan->in_scalar;
	uint64_t newlines = 0, escapes = 0, high = 0;
	uint32_t *out = entries;

	for (uint32_t at = begin; at < end; at += JSON_BLOCK) {
		struct json_masks masks = classify(text + at);
		uint64_t quote = masks.quote & ~escaped_bytes(masks.backslash, &is_escaped);
		uint64_t in_string = weir_prefix_xor(quote) ^ in_string_before;
		uint64_t scalar = ~(masks.op | masks.blank | quote | in_string);

		in_string_before = (uint64_t)((int64_t)in_string >> 63);
		newlines += (uint64_t)__builtin_popcountll(masks.newline);
		escapes |= masks.backslash;
		high |= masks.high;
		out = put_entries(quote | (masks.op & ~in_string) | (scalar & ~(scalar << 1 | in_scalar)) |
					  (masks.control & in_string) | (masks.newline & newline_entries),
				  at, out);
		in_scalar = scalar >> 63;
	}
	scan->is_escaped = is_escaped;
	scan->in_string = in_string_before;
	scan->in_scalar = in_scalar;
	scan->newlines += newlines;
	scan->escapes |= escapes;
	scan->high |= high;
	return (size_t)(out - entries);
}

static size_t find_special(const uint8_t *text, size_t size)
{
	for (size_t at = 0; at < size; at += JSON_BLOCK) {
		struct json_masks masks = classify(text + at);
		uint64_t special = masks.quote | masks.backslash | masks.control;

		if (special) {
			size_t found = at + (size_t)__builtin_ctzll(special);

			return found < size ? found : size;
		}
	}
	return size;
}
