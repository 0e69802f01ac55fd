/* Arithmetic and conversions for a list of rows: what sparse selections run, and what finds the row of an overflow. */
#include "base/cpu.h"
#include "expr/kernels.h"

WEIR_KERNEL_DECLARE(struct weir_expr_kernels, weir_expr_kernels);

const struct weir_expr_kernels *weir_expr_kernels(void)
{
	return WEIR_KERNEL_CHOOSE(weir_expr_kernels);
}

#define ROWS(name, type, op, EXPRESSION)                                                                               \
	static int32_t name##_##op##_rows(const void *a_values, uint32_t mask_a, const void *b_values,                 \
					  uint32_t mask_b, const uint16_t *rows, uint32_t count, void *out_values)     \
	{                                                                                                              \
		const type *a = a_values, *b = b_values;                                                               \
		type *out = out_values;                                                                                \
		int32_t first = -1;                                                                                    \
                                                                                                                       \
		for (uint32_t k = count; k-- > 0;) {                                                                   \
			uint32_t row = rows ? rows[k] : k;                                                             \
                                                                                                                       \
			if (EXPRESSION(a[row & mask_a], b[row & mask_b], &out[row]))                                   \
				first = (int32_t)row;                                                                  \
		}                                                                                                      \
		return first;                                                                                          \
	}

#define ADD_FLOAT(a, b, out) (*(out) = (a) + (b), false)
#define SUBTRACT_FLOAT(a, b, out) (*(out) = (a) - (b), false)
#define MULTIPLY_FLOAT(a, b, out) (*(out) = (a) * (b), false)
#define DIVIDE_FLOAT(a, b, out) (*(out) = (a) / (b), false)

#define INT_ROWS(name, type)                                                                                           \
	ROWS(name, type, add, __builtin_add_overflow)                                                                  \
	ROWS(name, type, subtract, __builtin_sub_overflow)                                                             \
	ROWS(name, type, multiply, __builtin_mul_overflow)
#define FLOAT_ROWS(name, type)                                                                                         \
	ROWS(name, type, add, ADD_FLOAT)                                                                               \
	ROWS(name, type, subtract, SUBTRACT_FLOAT)                                                                     \
	ROWS(name, type, multiply, MULTIPLY_FLOAT)                                                                     \
	ROWS(name, type, divide, DIVIDE_FLOAT)

INT_ROWS(i8, int8_t)
INT_ROWS(i16, int16_t)
INT_ROWS(i32, int32_t)
INT_ROWS(i64, int64_t)
INT_ROWS(u8, uint8_t)
INT_ROWS(u16, uint16_t)
INT_ROWS(u32, uint32_t)
INT_ROWS(u64, uint64_t)
FLOAT_ROWS(f32, float)
FLOAT_ROWS(f64, double)

#define INT_OPS(name)                                                                                                  \
	{                                                                                                              \
		name##_add_rows, name##_subtract_rows, name##_multiply_rows, NULL                                      \
	}
#define FLOAT_OPS(name)                                                                                                \
	{                                                                                                              \
		name##_add_rows, name##_subtract_rows, name##_multiply_rows, name##_divide_rows                        \
	}

weir_arith_rows *const weir_arith_rows_table[WEIR_NUMBER_COUNT][WEIR_ARITH_COUNT] = WEIR_BY_NUMBER(INT_OPS, FLOAT_OPS);

#define CONVERT(from_name, from, to_name, to, CLASS)                                                                   \
	static int32_t convert_##from_name##_##to_name(const void *in_values, const uint16_t *rows, uint32_t count,    \
						       void *out_values)                                               \
	{                                                                                                              \
		const from *in = in_values;                                                                            \
		to *out = out_values;                                                                                  \
		int32_t first = -1;                                                                                    \
                                                                                                                       \
		for (uint32_t k = count; k-- > 0;) {                                                                   \
			uint32_t row = rows ? rows[k] : k;                                                             \
			bool lost = false;                                                                             \
                                                                                                                       \
			out[row] = WEIR_CONVERT_##CLASS(from, to, in[row], lost);                                      \
			if (lost)                                                                                      \
				first = (int32_t)row;                                                                  \
		}                                                                                                      \
		return first;                                                                                          \
	}

WEIR_CONVERT_ALL(CONVERT)

weir_convert_rows *const weir_convert_rows_table[WEIR_NUMBER_COUNT][WEIR_NUMBER_COUNT] = WEIR_BY_NUMBER(
	WEIR_CONVERT_ROW, WEIR_CONVERT_ROW);
