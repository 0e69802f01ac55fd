/* DELTA_BINARY_PACKED for one width. Included by kernels_encode.c with NUMBER (uint32_t or uint64_t), SIGNED and
 * DELTA_NAME set.
 *
 *     header   128 values a block, 4 miniblocks of 32, how many values, the first one
 *     block    least delta │ 4 widths │ miniblocks of 32 × width bits, of what the deltas are above the least one
 *
 * All arithmetic wraps, as the format asks. The loops over a block have no branches, so they become vectors; only the
 * packing knows the width.
 */
static size_t DELTA_NAME(const uint8_t *values, size_t count, uint8_t *out)
{
	enum { BLOCK = 128, MINI = 32, MINIS = BLOCK / MINI };
	uint8_t *at = out;
	NUMBER before = 0;

	if (count)
		memcpy(&before, values, sizeof(before));
	at = put_varint(at, BLOCK);
	at = put_varint(at, MINIS);
	at = put_varint(at, count);
	at = put_varint(at, zigzag((int64_t)(SIGNED)before));
	for (size_t i = 1; i < count; i += BLOCK) {
		size_t n = count - i < BLOCK ? count - i : BLOCK;
		NUMBER now[BLOCK + 1], delta[BLOCK], least;
		SIGNED min;
		uint8_t *widths;

		memcpy(now, values + (i - 1) * sizeof(NUMBER), (n + 1) * sizeof(NUMBER));
		for (size_t k = 0; k < n; k++)
			delta[k] = now[k + 1] - now[k];
		min = (SIGNED)delta[0];
		for (size_t k = 1; k < n; k++)
			min = (SIGNED)delta[k] < min ? (SIGNED)delta[k] : min;
		least = (NUMBER)min;
		for (size_t k = n; k < BLOCK; k++)
			delta[k] = least;
		for (size_t k = 0; k < BLOCK; k++)
			delta[k] -= least;
		at = put_varint(at, zigzag((int64_t)min));
		widths = at;
		at += MINIS;
		for (unsigned m = 0; m < MINIS; m++) {
			const NUMBER *mini = delta + m * MINI;
			NUMBER all = 0;
			unsigned width;

			if (m * MINI >= n) {
				widths[m] = 0;
				continue;
			}
			for (unsigned k = 0; k < MINI; k++)
				all |= mini[k];
			width = all ? 64 - (unsigned)__builtin_clzll((uint64_t)all) : 0;
			widths[m] = (uint8_t)width;
			if (width == 0)
				continue;
			if (width <= 32) {
				uint32_t narrow[MINI];

				for (unsigned k = 0; k < MINI; k++)
					narrow[k] = (uint32_t)mini[k];
				pack_u32(narrow, MINI, width, at);
			} else {
				uint64_t wide[MINI];

				for (unsigned k = 0; k < MINI; k++)
					wide[k] = mini[k];
				pack_wide(wide, MINI, width, at);
			}
			at += MINI / 8 * width;
		}
	}
	return (size_t)(at - out);
}

#undef NUMBER
#undef SIGNED
#undef DELTA_NAME
