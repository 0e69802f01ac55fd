/* The kernels of kernels.h. Additions and subtractions of integers find overflow by sign bits, which vectorises; the
 * compiler's checked multiplication does not for 64 bits, and is still faster than what follows it. */
#include "base/cpu.h"
#include "expr/kernels.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* One operation in its three operand shapes. */
#define DENSE(name, type, op, STEP)                                                                                    \
	static bool name##_##op##_column_column(const void *a_values, const void *b_values, uint32_t count,            \
						void *out_values)                                                      \
	{                                                                                                              \
		const type *a = a_values, *b = b_values;                                                               \
		type *out = out_values;                                                                                \
		bool lost = false;                                                                                     \
                                                                                                                       \
		for (uint32_t i = 0; i < count; i++)                                                                   \
			STEP(type, a[i], b[i], out[i], lost);                                                          \
		return lost;                                                                                           \
	}                                                                                                              \
                                                                                                                       \
	static bool name##_##op##_column_constant(const void *a_values, const void *b_value, uint32_t count,           \
						  void *out_values)                                                    \
	{                                                                                                              \
		const type *a = a_values, b = *(const type *)b_value;                                                  \
		type *out = out_values;                                                                                \
		bool lost = false;                                                                                     \
                                                                                                                       \
		for (uint32_t i = 0; i < count; i++)                                                                   \
			STEP(type, a[i], b, out[i], lost);                                                             \
		return lost;                                                                                           \
	}                                                                                                              \
                                                                                                                       \
	static bool name##_##op##_constant_column(const void *a_value, const void *b_values, uint32_t count,           \
						  void *out_values)                                                    \
	{                                                                                                              \
		const type a = *(const type *)a_value, *b = b_values;                                                  \
		type *out = out_values;                                                                                \
		bool lost = false;                                                                                     \
                                                                                                                       \
		for (uint32_t i = 0; i < count; i++)                                                                   \
			STEP(type, a, b[i], out[i], lost);                                                             \
		return lost;                                                                                           \
	}

#define STEP_ADD_INT(type, a, b, out, lost) ((lost) |= __builtin_add_overflow(a, b, &(out)))
#define STEP_SUBTRACT_INT(type, a, b, out, lost) ((lost) |= __builtin_sub_overflow(a, b, &(out)))
#define STEP_MULTIPLY_INT(type, a, b, out, lost) ((lost) |= __builtin_mul_overflow(a, b, &(out)))

/* Signed 64 bits: the result's sign differs from both operands' (or, for a difference, from a's while b's differs). */
#define STEP_ADD_I64(type, a, b, out, lost)                                                                            \
	({                                                                                                             \
		uint64_t a_ = (uint64_t)(a), b_ = (uint64_t)(b), sum_ = a_ + b_;                                       \
		(lost) |= ((a_ ^ sum_) & (b_ ^ sum_)) >> 63;                                                           \
		(out) = (int64_t)sum_;                                                                                 \
	})
#define STEP_SUBTRACT_I64(type, a, b, out, lost)                                                                       \
	({                                                                                                             \
		uint64_t a_ = (uint64_t)(a), b_ = (uint64_t)(b), difference_ = a_ - b_;                                \
		(lost) |= ((a_ ^ b_) & (a_ ^ difference_)) >> 63;                                                      \
		(out) = (int64_t)difference_;                                                                          \
	})

/* Narrow integers: compute in 64 bits and see whether it comes back. */
#define STEP_ADD_NARROW(type, a, b, out, lost)                                                                         \
	({                                                                                                             \
		int64_t wide_ = (int64_t)(a) + (int64_t)(b);                                                           \
		(out) = (type)wide_;                                                                                   \
		(lost) |= (int64_t)(out) != wide_;                                                                     \
	})
#define STEP_SUBTRACT_NARROW(type, a, b, out, lost)                                                                    \
	({                                                                                                             \
		int64_t wide_ = (int64_t)(a) - (int64_t)(b);                                                           \
		(out) = (type)wide_;                                                                                   \
		(lost) |= (int64_t)(out) != wide_;                                                                     \
	})

#define STEP_ADD_FLOAT(type, a, b, out, lost) ((out) = (a) + (b))
#define STEP_SUBTRACT_FLOAT(type, a, b, out, lost) ((out) = (a) - (b))
#define STEP_MULTIPLY_FLOAT(type, a, b, out, lost) ((out) = (a) * (b))
#define STEP_DIVIDE_FLOAT(type, a, b, out, lost) ((out) = (a) / (b))

DENSE(i8, int8_t, add, STEP_ADD_NARROW)
DENSE(i8, int8_t, subtract, STEP_SUBTRACT_NARROW)
DENSE(i8, int8_t, multiply, STEP_MULTIPLY_INT)
DENSE(i16, int16_t, add, STEP_ADD_NARROW)
DENSE(i16, int16_t, subtract, STEP_SUBTRACT_NARROW)
DENSE(i16, int16_t, multiply, STEP_MULTIPLY_INT)
DENSE(i32, int32_t, add, STEP_ADD_NARROW)
DENSE(i32, int32_t, subtract, STEP_SUBTRACT_NARROW)
DENSE(i32, int32_t, multiply, STEP_MULTIPLY_INT)
DENSE(i64, int64_t, add, STEP_ADD_I64)
DENSE(i64, int64_t, subtract, STEP_SUBTRACT_I64)
DENSE(i64, int64_t, multiply, STEP_MULTIPLY_INT)
DENSE(u8, uint8_t, add, STEP_ADD_NARROW)
DENSE(u8, uint8_t, subtract, STEP_SUBTRACT_NARROW)
DENSE(u8, uint8_t, multiply, STEP_MULTIPLY_INT)
DENSE(u16, uint16_t, add, STEP_ADD_NARROW)
DENSE(u16, uint16_t, subtract, STEP_SUBTRACT_NARROW)
DENSE(u16, uint16_t, multiply, STEP_MULTIPLY_INT)
DENSE(u32, uint32_t, add, STEP_ADD_NARROW)
DENSE(u32, uint32_t, subtract, STEP_SUBTRACT_NARROW)
DENSE(u32, uint32_t, multiply, STEP_MULTIPLY_INT)
DENSE(u64, uint64_t, add, STEP_ADD_INT)
DENSE(u64, uint64_t, subtract, STEP_SUBTRACT_INT)
DENSE(u64, uint64_t, multiply, STEP_MULTIPLY_INT)
DENSE(f32, float, add, STEP_ADD_FLOAT)
DENSE(f32, float, subtract, STEP_SUBTRACT_FLOAT)
DENSE(f32, float, multiply, STEP_MULTIPLY_FLOAT)
DENSE(f32, float, divide, STEP_DIVIDE_FLOAT)
DENSE(f64, double, add, STEP_ADD_FLOAT)
DENSE(f64, double, subtract, STEP_SUBTRACT_FLOAT)
DENSE(f64, double, multiply, STEP_MULTIPLY_FLOAT)
DENSE(f64, double, divide, STEP_DIVIDE_FLOAT)

#define CONVERT(from_name, from, to_name, to, CLASS)                                                                   \
	static bool convert_##from_name##_##to_name(const void *in_values, uint32_t count, void *out_values)           \
	{                                                                                                              \
		const from *in = in_values;                                                                            \
		to *out = out_values;                                                                                  \
		bool lost = false;                                                                                     \
                                                                                                                       \
		for (uint32_t i = 0; i < count; i++)                                                                   \
			out[i] = WEIR_CONVERT_##CLASS(from, to, in[i], lost);                                          \
		return lost;                                                                                           \
	}

WEIR_CONVERT_ALL(CONVERT)

static void view_heads(const struct weir_view *views, const struct weir_view *view, uint32_t size, uint32_t count,
		       uint64_t *bits)
{
	uint8_t mask_bytes[16] = {0};
	uint64_t mask[2], wanted[2];

	memset(mask_bytes, 0xff, size);
	memcpy(mask, mask_bytes, 16);
	memcpy(wanted, view, 16);
	wanted[0] &= mask[0];
	wanted[1] &= mask[1];
	uint32_t i = 0;

#if defined(__AVX512BW__)
	const __m512i masks = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)mask));
	const __m512i wants = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)wanted));

	for (; i + 64 <= count; i += 64) {
		uint64_t word = 0;

		/* Four views a register; each gives two bits, both must be set. */
		for (uint32_t j = 0; j < 64; j += 8) {
			uint32_t low = _mm512_cmpeq_epi64_mask(
				_mm512_and_si512(_mm512_loadu_si512(views + i + j), masks), wants);
			uint32_t high = _mm512_cmpeq_epi64_mask(
				_mm512_and_si512(_mm512_loadu_si512(views + i + j + 4), masks), wants);
			uint32_t both = low | high << 8;

			word |= (uint64_t)_pext_u32(both & both >> 1, 0x5555) << j;
		}
		bits[i / 64] = word;
	}
#endif
	for (; i < count; i += 64) {
		uint32_t end = count - i < 64 ? count - i : 64;
		uint64_t word = 0;

		for (uint32_t j = 0; j < end; j++) {
			uint64_t halves[2];

			memcpy(halves, &views[i + j], 16);
			word |= (uint64_t)(((halves[0] & mask[0]) == wanted[0]) & ((halves[1] & mask[1]) == wanted[1]))
				<< j;
		}
		bits[i / 64] = word;
	}
}

#define THREE(name, op)                                                                                                \
	{                                                                                                              \
		name##_##op##_column_column, name##_##op##_column_constant, name##_##op##_constant_column              \
	}
#define INT_OPS(name)                                                                                                  \
	{                                                                                                              \
		THREE(name, add), THREE(name, subtract), THREE(name, multiply),                                        \
		{                                                                                                      \
			NULL                                                                                           \
		}                                                                                                      \
	}
#define FLOAT_OPS(name)                                                                                                \
	{                                                                                                              \
		THREE(name, add), THREE(name, subtract), THREE(name, multiply), THREE(name, divide)                    \
	}

extern const struct weir_expr_kernels WEIR_KERNEL(weir_expr_kernels);
const struct weir_expr_kernels WEIR_KERNEL(weir_expr_kernels) = {
	.arith = WEIR_BY_NUMBER(INT_OPS, FLOAT_OPS),
	.convert = WEIR_BY_NUMBER(WEIR_CONVERT_ROW, WEIR_CONVERT_ROW),
	.view_heads = view_heads,
};
