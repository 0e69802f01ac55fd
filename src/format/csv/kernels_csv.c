/* The index over CSV text, compiled once per CPU level: blocks of 64 bytes become bit masks of delimiters, line ends
 * and quotes, and masks become positions.
 *
 *     text     a , " b , c " , d \n
 *     quotes   0 0 1 0 0 0 1 0 0 0
 *     inside   0 0 1 1 1 1 0 0 0 0      xor of all quotes before and at it
 *     ends     0 1 0 0 0 0 0 1 0 1      delimiters and line ends outside
 *
 * Counting quotes alone would be wrong: a quote in the middle of an unquoted field is a letter. So each quote that
 * opens by count must stand behind a delimiter, a line end or a quote that closed just before ("" inside quotes). A
 * block where one does not is read byte by byte (`walk`), and so are blocks with escapes or comments. The walk's rules
 * are the definition; masks only reproduce it faster.
 */
#include "base/cpu.h"
#include "format/text_masks.h"
#include "format/csv/csv_impl.h"

#if defined(CSV_PORTABLE)
#define CSV_BYTE_BY_BYTE
#elif defined(__AVX512BW__)
#include <immintrin.h>

struct block {
	__m512i bytes;
};
static inline struct block load(const uint8_t *text)
{
	return (struct block){_mm512_loadu_si512(text)};
}
static inline uint64_t equal(struct block block, uint8_t byte)
{
	return _mm512_cmpeq_epi8_mask(block.bytes, _mm512_set1_epi8((char)byte));
}
static inline uint64_t high(struct block block)
{
	return _mm512_movepi8_mask(block.bytes);
}
#elif defined(__AVX2__)
#include <immintrin.h>

struct block {
	__m256i bytes[2];
};
static inline struct block load(const uint8_t *text)
{
	return (struct block){{_mm256_loadu_si256((const void *)text), _mm256_loadu_si256((const void *)(text + 32))}};
}
static inline uint64_t mask_of(__m256i low, __m256i top)
{
	return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(top) << 32;
}
static inline uint64_t equal(struct block block, uint8_t byte)
{
	__m256i all = _mm256_set1_epi8((char)byte);

	return mask_of(_mm256_cmpeq_epi8(block.bytes[0], all), _mm256_cmpeq_epi8(block.bytes[1], all));
}
static inline uint64_t high(struct block block)
{
	return mask_of(block.bytes[0], block.bytes[1]);
}
#elif defined(__SSE2__)
#include <emmintrin.h>

struct block {
	__m128i bytes[4];
};
static inline struct block load(const uint8_t *text)
{
	struct block block;

	for (int i = 0; i < 4; i++)
		block.bytes[i] = _mm_loadu_si128((const void *)(text + 16 * i));
	return block;
}
static inline uint64_t equal(struct block block, uint8_t byte)
{
	__m128i all = _mm_set1_epi8((char)byte);
	uint64_t mask = 0;

	for (int i = 0; i < 4; i++)
		mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(block.bytes[i], all)) << 16 * i;
	return mask;
}
static inline uint64_t high(struct block block)
{
	uint64_t mask = 0;

	for (int i = 0; i < 4; i++)
		mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(block.bytes[i]) << 16 * i;
	return mask;
}
#else
#define CSV_BYTE_BY_BYTE
#endif

#if defined(CSV_BYTE_BY_BYTE)
struct block {
	const uint8_t *bytes;
};
static inline struct block load(const uint8_t *text)
{
	return (struct block){text};
}
static inline uint64_t equal(struct block block, uint8_t byte)
{
	uint64_t mask = 0;

	for (int i = 0; i < 64; i++)
		mask |= (uint64_t)(block.bytes[i] == byte) << i;
	return mask;
}
static inline uint64_t high(struct block block)
{
	uint64_t mask = 0;

	for (int i = 0; i < 64; i++)
		mask |= (uint64_t)(block.bytes[i] >> 7) << i;
	return mask;
}
#endif

/* Places of the set bits, from `base` on. Writes up to 64 places whatever the count. */
static inline void put_places(uint32_t *out, uint32_t base, uint64_t mask)
{
#if defined(__AVX512F__) && !defined(CSV_PORTABLE)
	const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

	for (uint32_t i = 0; i < 64; i += 16) {
		__mmask16 part = (__mmask16)(mask >> i);
		__m512i places = _mm512_add_epi32(steps, _mm512_set1_epi32((int)(base + i)));

		_mm512_storeu_si512(out, _mm512_maskz_compress_epi32(part, places));
		out += __builtin_popcount(part);
	}
#else
	uint32_t count = (uint32_t)__builtin_popcountll(mask), i = 0;

	/* Groups of four without a branch: what is written past the count is overwritten later. */
	while (i < count) {
		for (uint32_t k = 0; k < 4; k++) {
			out[i + k] = base + (uint32_t)__builtin_ctzll(mask | (uint64_t)1 << 63);
			mask &= mask - 1;
		}
		i += 4;
	}
#endif
}

static inline void put_line(struct csv_index *index, uint32_t end)
{
	index->lines[index->line_count++] = end;
}

/* Byte by byte up to `stop`, or to a CR of which only the next byte would tell what it is. */
static void walk(struct csv_index *index, const struct csv_dialect *dialect, uint32_t stop)
{
	const uint8_t *text = index->text;
	enum csv_state state = index->state;
	uint32_t at = index->at;

	for (; at < stop; at++) {
		uint8_t byte = text[at];
		bool line_end = byte == '\n';

		index->has_high |= byte >> 7;
		if (byte == '\r') {
			index->has_cr = true;
			if (at + 1 == index->size && !index->is_last)
				break;
			line_end = at + 1 == index->size || text[at + 1] != '\n';
		}
		index->has_inner_lines |= line_end && state >= CSV_IN_QUOTES && state != CSV_QUOTE_ENDED;
		switch (state) {
		case CSV_ESCAPED_IN_FIELD:
			state = CSV_IN_FIELD;
			continue;
		case CSV_ESCAPED_IN_QUOTES:
			state = CSV_IN_QUOTES;
			continue;
		case CSV_IN_QUOTES:
			if (dialect->has_escape && byte == dialect->escape)
				state = CSV_ESCAPED_IN_QUOTES;
			else if (byte == dialect->quote)
				state = CSV_QUOTE_ENDED;
			continue;
		case CSV_QUOTE_ENDED:
			index->has_inner_quotes |= byte == dialect->quote;
			if (byte == dialect->quote && dialect->doubled) {
				state = CSV_IN_QUOTES;
				continue;
			}
			break;
		case CSV_LINE_START:
			if (dialect->has_comment && byte == dialect->comment) {
				state = CSV_IN_COMMENT;
				continue;
			}
			/* fall through */
		case CSV_FIELD_START:
			if (dialect->has_quote && byte == dialect->quote) {
				state = CSV_IN_QUOTES;
				continue;
			}
			break;
		case CSV_IN_FIELD:
			index->has_inner_quotes |= dialect->has_quote && byte == dialect->quote;
			break;
		case CSV_IN_COMMENT:
			break;
		}
		if (line_end) {
			put_line(index, index->end_count);
			index->ends[index->end_count++] = at;
			state = CSV_LINE_START;
		} else if (state == CSV_IN_COMMENT) {
			continue;
		} else if (byte == dialect->delimiter) {
			index->ends[index->end_count++] = at;
			state = CSV_FIELD_START;
		} else if (dialect->has_escape && byte == dialect->escape) {
			state = CSV_ESCAPED_IN_FIELD;
		} else {
			state = CSV_IN_FIELD;
		}
	}
	index->at = at;
	index->state = state;
}

/* One block by masks; false when it has to be walked. */
static inline bool leap(struct csv_index *index, const struct csv_dialect *dialect)
{
	uint32_t at = index->at;
	struct block block = load(index->text + at);
	uint64_t delimiters = equal(block, dialect->delimiter), lines = equal(block, '\n');
	uint64_t returns = equal(block, '\r'), quotes = equal(block, dialect->quote), ends, inside = 0;
	enum csv_state state = index->state;

	if (dialect->has_escape && equal(block, dialect->escape))
		return false;
	if (!dialect->has_quote)
		quotes = 0;
	index->has_high |= high(block) != 0;
	if (returns) {
		index->has_cr = true;
		lines |= returns & ~(lines >> 1 | (uint64_t)(index->text[at + 64] == '\n') << 63);
	}
	ends = delimiters | lines;
	if (quotes | (uint64_t)(state == CSV_IN_QUOTES)) {
		uint64_t closing, behind, opening;

		inside = weir_prefix_xor(quotes) ^ (state == CSV_IN_QUOTES ? ~(uint64_t)0 : 0);
		closing = quotes & ~inside;
		index->has_inner_lines |= (lines & inside) != 0;
		ends &= ~inside;
		lines &= ~inside;
		opening = quotes & inside & ~(ends << 1 | (uint64_t)(state <= CSV_FIELD_START));
		behind = closing << 1 | (uint64_t)(state == CSV_QUOTE_ENDED);
		if (opening && (!dialect->doubled || opening & ~behind))
			return false;
		index->has_inner_quotes |= opening != 0;
	}
	if (dialect->has_comment &&
	    (equal(block, dialect->comment) & ~inside & (lines << 1 | (uint64_t)(state == CSV_LINE_START))))
		return false;
	put_places(index->ends + index->end_count, at, ends);
	for (uint64_t left = lines; left; left &= left - 1)
		put_line(index, index->end_count + (uint32_t)__builtin_popcountll(ends & ((left & -left) - 1)));
	index->end_count += (uint32_t)__builtin_popcountll(ends);
	if (inside >> 63)
		index->state = CSV_IN_QUOTES;
	else if (lines >> 63)
		index->state = CSV_LINE_START;
	else if (ends >> 63)
		index->state = CSV_FIELD_START;
	else
		index->state = quotes >> 63 ? CSV_QUOTE_ENDED : CSV_IN_FIELD;
	index->at = at + CSV_BLOCK;
	return true;
}

static void index_text(struct csv_index *index, const struct csv_dialect *dialect)
{
	while (index->at < index->size && index->end_capacity - index->end_count >= CSV_BLOCK &&
	       index->line_capacity - index->line_count >= CSV_BLOCK) {
		uint32_t left = index->size - index->at;

		if (left > CSV_BLOCK && index->state <= CSV_QUOTE_ENDED && leap(index, dialect))
			continue;
		walk(index, dialect, index->at + (left < CSV_BLOCK ? left : CSV_BLOCK));
		if (left <= CSV_BLOCK)
			return;
	}
}

const struct csv_kernels WEIR_KERNEL(csv_kernels) = {
	.index = index_text,
};
