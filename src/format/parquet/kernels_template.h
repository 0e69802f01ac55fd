/* Kernels for one value type: VALUE is the type, NAME(x) gives the function's name. Included once per type. */

static void NAME(spread)(const uint64_t *valid, uint32_t count, const void *packed, void *out)
{
	const uint8_t *from = packed; /* of any alignment: it lies in a page */
	VALUE *to = out;

	for (uint32_t base = 0; base < count; base += 64) {
		uint32_t left = count - base < 64 ? count - base : 64;
		uint64_t word = valid[base >> 6];

		if (left < 64)
			word &= ((uint64_t)1 << left) - 1;
		if (word == UINT64_MAX) {
			memcpy(to + base, from, 64 * sizeof(VALUE));
			from += 64 * sizeof(VALUE);
			continue;
		}
		if (word == 0)
			continue;
#ifdef EXPAND
		for (uint32_t i = 0; i < left; i += EXPAND_LANES, word >>= EXPAND_LANES) {
			EXPAND(to + base + i, from, word);
			from += (size_t)__builtin_popcountll(word & ((UINT64_C(1) << EXPAND_LANES) - 1)) *
				sizeof(VALUE);
		}
#else
		/* Without a branch: a row without a value gets the next row's, which it may. */
		for (uint32_t i = 0; i < left; i++) {
			memcpy(to + base + i, from, sizeof(VALUE));
			from += (word >> i & 1) * sizeof(VALUE);
		}
#endif
	}
}

static void NAME(gather)(const void *values, const uint32_t *codes, uint32_t count, void *out)
{
	const VALUE *from = values;
	VALUE *to = out;

	for (uint32_t i = 0; i < count; i++)
		to[i] = from[codes[i]];
}

#undef VALUE
#undef NAME
#undef EXPAND
#undef EXPAND_LANES
