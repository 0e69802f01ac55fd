#include "arrow/bitmap.h"

void weir_bits_store(uint8_t *bits, int64_t offset, int64_t count, uint64_t word)
{
	uint8_t *to = bits + (offset >> 3);
	unsigned shift = offset & 7, size = (unsigned)(shift + (uint64_t)count + 7) >> 3;
	uint64_t mask = weir_bits_mask(count), old = 0;

	word &= mask;
	memcpy(&old, to, size < 8 ? size : 8);
	old = (old & ~(mask << shift)) | word << shift;
	memcpy(to, &old, size < 8 ? size : 8);
	if (size == 9)
		to[8] = (uint8_t)((to[8] & ~(mask >> (64 - shift))) | word >> (64 - shift));
}

void weir_bits_copy(uint8_t *to, int64_t to_offset, const uint8_t *from, int64_t from_offset, int64_t count)
{
	int64_t head;

	if (count <= 0)
		return;
	head = -to_offset & 7;
	head = head < count ? head : count;
	if (head) {
		weir_bits_store(to, to_offset, head, weir_bits_load(from, from_offset, head));
		to_offset += head;
		from_offset += head;
		count -= head;
	}
	to += to_offset >> 3;
	if (!(from_offset & 7)) {
		memcpy(to, from + (from_offset >> 3), (size_t)(count >> 3));
		to += count >> 3;
		from_offset += count & ~7;
		count &= 7;
	}
	for (; count >= 64; count -= 64, from_offset += 64, to += 8) {
		uint64_t word = weir_bits_load(from, from_offset, 64);

		memcpy(to, &word, 8);
	}
	if (count)
		weir_bits_store(to, 0, count, weir_bits_load(from, from_offset, count));
}

void weir_bits_fill(uint8_t *bits, int64_t offset, int64_t count, bool value)
{
	uint64_t word = value ? ~UINT64_C(0) : 0;
	int64_t head = -offset & 7;

	if (count <= 0)
		return;
	head = head < count ? head : count;
	if (head)
		weir_bits_store(bits, offset, head, word);
	offset += head;
	count -= head;
	memset(bits + (offset >> 3), value ? 0xff : 0, (size_t)(count >> 3));
	offset += count & ~7;
	if (count & 7)
		weir_bits_store(bits, offset, count & 7, word);
}

int64_t weir_bits_count(const uint8_t *bits, int64_t offset, int64_t count)
{
	int64_t total = 0, head;

	if (count <= 0)
		return 0;
	head = -offset & 7;
	head = head < count ? head : count;
	if (head)
		total += __builtin_popcountll(weir_bits_load(bits, offset, head));
	offset += head;
	count -= head;
	bits += offset >> 3;
	for (; count >= 64; count -= 64, bits += 8) {
		uint64_t word;

		memcpy(&word, bits, 8);
		total += __builtin_popcountll(word);
	}
	if (count)
		total += __builtin_popcountll(weir_bits_load(bits, 0, count));
	return total;
}

bool weir_bits_equal(const uint8_t *a, int64_t a_offset, const uint8_t *b, int64_t b_offset, int64_t count)
{
	while (count > 0) {
		int64_t step = count < 64 ? count : 64;

		if (weir_bits_load(a, a_offset, step) != weir_bits_load(b, b_offset, step))
			return false;
		a_offset += step;
		b_offset += step;
		count -= step;
	}
	return true;
}

int64_t weir_bits_run(const uint8_t *bits, int64_t offset, int64_t *at, int64_t end)
{
	int64_t start = *at, stop;

	if (!bits) {
		*at = start < end ? start : end;
		return end - *at;
	}
	while (start < end) {
		int64_t step = end - start < 64 ? end - start : 64;
		uint64_t word = weir_bits_load(bits, offset + start, step);

		if (word) {
			start += __builtin_ctzll(word);
			break;
		}
		start += step;
	}
	*at = start;
	for (stop = start; stop < end;) {
		int64_t step = end - stop < 64 ? end - stop : 64;
		uint64_t gap = ~weir_bits_load(bits, offset + stop, step) & weir_bits_mask(step);

		if (gap)
			return stop + __builtin_ctzll(gap) - start;
		stop += step;
	}
	return stop - start;
}
