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

weir_arith_rows *const weir_arith_rows_table[WEIR_NUMBER_COUNT][WEIR_ARITH_COUNT] = {
	[WEIR_I8] = INT_OPS(i8),     [WEIR_I16] = INT_OPS(i16),   [WEIR_I32] = INT_OPS(i32), [WEIR_I64] = INT_OPS(i64),
	[WEIR_U8] = INT_OPS(u8),     [WEIR_U16] = INT_OPS(u16),   [WEIR_U32] = INT_OPS(u32), [WEIR_U64] = INT_OPS(u64),
	[WEIR_F32] = FLOAT_OPS(f32), [WEIR_F64] = FLOAT_OPS(f64),
};

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

#define CONVERT_FROM_INT(name, type)                                                                                   \
	CONVERT(name, type, i8, int8_t, INT_INT)                                                                       \
	CONVERT(name, type, i16, int16_t, INT_INT)                                                                     \
	CONVERT(name, type, i32, int32_t, INT_INT)                                                                     \
	CONVERT(name, type, i64, int64_t, INT_INT)                                                                     \
	CONVERT(name, type, u8, uint8_t, INT_INT)                                                                      \
	CONVERT(name, type, u16, uint16_t, INT_INT)                                                                    \
	CONVERT(name, type, u32, uint32_t, INT_INT)                                                                    \
	CONVERT(name, type, u64, uint64_t, INT_INT)                                                                    \
	CONVERT(name, type, f32, float, INT_FLOAT)                                                                     \
	CONVERT(name, type, f64, double, INT_FLOAT)
#define CONVERT_FROM_FLOAT(name, type)                                                                                 \
	CONVERT(name, type, i8, int8_t, FLOAT_INT)                                                                     \
	CONVERT(name, type, i16, int16_t, FLOAT_INT)                                                                   \
	CONVERT(name, type, i32, int32_t, FLOAT_INT)                                                                   \
	CONVERT(name, type, i64, int64_t, FLOAT_INT)                                                                   \
	CONVERT(name, type, u8, uint8_t, FLOAT_INT)                                                                    \
	CONVERT(name, type, u16, uint16_t, FLOAT_INT)                                                                  \
	CONVERT(name, type, u32, uint32_t, FLOAT_INT)                                                                  \
	CONVERT(name, type, u64, uint64_t, FLOAT_INT)                                                                  \
	CONVERT(name, type, f32, float, FLOAT_FLOAT)                                                                   \
	CONVERT(name, type, f64, double, FLOAT_FLOAT)

CONVERT_FROM_INT(i8, int8_t)
CONVERT_FROM_INT(i16, int16_t)
CONVERT_FROM_INT(i32, int32_t)
CONVERT_FROM_INT(i64, int64_t)
CONVERT_FROM_INT(u8, uint8_t)
CONVERT_FROM_INT(u16, uint16_t)
CONVERT_FROM_INT(u32, uint32_t)
CONVERT_FROM_INT(u64, uint64_t)
CONVERT_FROM_FLOAT(f32, float)
CONVERT_FROM_FLOAT(f64, double)

#define CONVERT_ROW(name)                                                                                              \
	{                                                                                                              \
		convert_##name##_i8, convert_##name##_i16, convert_##name##_i32, convert_##name##_i64,                 \
			convert_##name##_u8, convert_##name##_u16, convert_##name##_u32, convert_##name##_u64,         \
			convert_##name##_f32, convert_##name##_f64                                                     \
	}

weir_convert_rows *const weir_convert_rows_table[WEIR_NUMBER_COUNT][WEIR_NUMBER_COUNT] = {
	[WEIR_I8] = CONVERT_ROW(i8),   [WEIR_I16] = CONVERT_ROW(i16), [WEIR_I32] = CONVERT_ROW(i32),
	[WEIR_I64] = CONVERT_ROW(i64), [WEIR_U8] = CONVERT_ROW(u8),   [WEIR_U16] = CONVERT_ROW(u16),
	[WEIR_U32] = CONVERT_ROW(u32), [WEIR_U64] = CONVERT_ROW(u64), [WEIR_F32] = CONVERT_ROW(f32),
	[WEIR_F64] = CONVERT_ROW(f64),
};
