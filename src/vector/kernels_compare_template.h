/* One number type's comparisons. Wants TYPE, NAME(x) and, at the level that has masks, LANES, LOAD(p), SPLAT(v) and
 * MASK_EQ(a, b) … MASK_GE(a, b). */

#define COMPARE(op, OPERATOR, MASK)                                                                                    \
	static void NAME(constant_##op)(const void *a_values, const void *b_value, uint32_t count, uint64_t *bits)     \
	{                                                                                                              \
		const TYPE *a = a_values, b = *(const TYPE *)b_value;                                                  \
		uint32_t i = 0;                                                                                        \
                                                                                                                       \
		for (; i + 64 <= count; i += 64)                                                                       \
			bits[i / 64] = WORD_CONSTANT(a + i, b, OPERATOR, MASK);                                        \
		if (i < count) {                                                                                       \
			uint64_t word = 0;                                                                             \
                                                                                                                       \
			for (uint32_t j = 0; i + j < count; j++)                                                       \
				word |= (uint64_t)(a[i + j] OPERATOR b) << j;                                          \
			bits[i / 64] = word;                                                                           \
		}                                                                                                      \
	}                                                                                                              \
                                                                                                                       \
	static void NAME(columns_##op)(const void *a_values, const void *b_values, uint32_t count, uint64_t *bits)     \
	{                                                                                                              \
		const TYPE *a = a_values, *b = b_values;                                                               \
		uint32_t i = 0;                                                                                        \
                                                                                                                       \
		for (; i + 64 <= count; i += 64)                                                                       \
			bits[i / 64] = WORD_COLUMNS(a + i, b + i, OPERATOR, MASK);                                     \
		if (i < count) {                                                                                       \
			uint64_t word = 0;                                                                             \
                                                                                                                       \
			for (uint32_t j = 0; i + j < count; j++)                                                       \
				word |= (uint64_t)(a[i + j] OPERATOR b[i + j]) << j;                                   \
			bits[i / 64] = word;                                                                           \
		}                                                                                                      \
	}                                                                                                              \
                                                                                                                       \
	static uint32_t NAME(rows_##op)(const void *a_values, const void *b_value, const uint16_t *rows,               \
					uint32_t count, uint16_t *rows_out)                                            \
	{                                                                                                              \
		const TYPE *a = a_values, b = *(const TYPE *)b_value;                                                  \
		uint32_t kept = 0;                                                                                     \
                                                                                                                       \
		for (uint32_t k = 0; k < count; k++) {                                                                 \
			uint16_t row = rows[k];                                                                        \
                                                                                                                       \
			rows_out[kept] = row;                                                                          \
			kept += a[row] OPERATOR b;                                                                     \
		}                                                                                                      \
		return kept;                                                                                           \
	}

#ifdef LANES
#define WORD_CONSTANT(a, b, OPERATOR, MASK)                                                                            \
	({                                                                                                             \
		__typeof__(LOAD(a)) splat = SPLAT(b);                                                                  \
		uint64_t word = 0;                                                                                     \
		for (uint32_t j = 0; j < 64; j += LANES)                                                               \
			word |= (uint64_t)MASK(LOAD((a) + j), splat) << j;                                             \
		word;                                                                                                  \
	})
#define WORD_COLUMNS(a, b, OPERATOR, MASK)                                                                             \
	({                                                                                                             \
		uint64_t word = 0;                                                                                     \
		for (uint32_t j = 0; j < 64; j += LANES)                                                               \
			word |= (uint64_t)MASK(LOAD((a) + j), LOAD((b) + j)) << j;                                     \
		word;                                                                                                  \
	})
#else
#define WORD_CONSTANT(a, b, OPERATOR, MASK)                                                                            \
	({                                                                                                             \
		uint8_t bytes[64];                                                                                     \
		for (uint32_t j = 0; j < 64; j++)                                                                      \
			bytes[j] = (uint8_t) - ((a)[j] OPERATOR(b));                                                   \
		bytes_to_word(bytes);                                                                                  \
	})
#define WORD_COLUMNS(a, b, OPERATOR, MASK)                                                                             \
	({                                                                                                             \
		uint8_t bytes[64];                                                                                     \
		for (uint32_t j = 0; j < 64; j++)                                                                      \
			bytes[j] = (uint8_t) - ((a)[j] OPERATOR(b)[j]);                                                \
		bytes_to_word(bytes);                                                                                  \
	})
#endif

COMPARE(eq, ==, MASK_EQ)
COMPARE(ne, !=, MASK_NE)
COMPARE(lt, <, MASK_LT)
COMPARE(le, <=, MASK_LE)
COMPARE(gt, >, MASK_GT)
COMPARE(ge, >=, MASK_GE)

#undef COMPARE
#undef WORD_CONSTANT
#undef WORD_COLUMNS
#undef TYPE
#undef NAME
#undef LANES
#undef LOAD
#undef SPLAT
#undef MASK_EQ
#undef MASK_NE
#undef MASK_LT
#undef MASK_LE
#undef MASK_GT
#undef MASK_GE
