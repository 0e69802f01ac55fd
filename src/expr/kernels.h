/* kernels: the arithmetic and conversion loops of expressions, compiled once per CPU level.
 *
 * Dense kernels run over all rows, selected or not: what lies at other rows may be anything, so "does not fit" from
 * them only means that the rows that count must be looked at one by one, which the row kernels do (arith_rows.c).
 */
#ifndef WEIR_EXPR_KERNELS_H
#define WEIR_EXPR_KERNELS_H

#include "vector/kernels.h"

enum weir_arith { WEIR_ADD, WEIR_SUBTRACT, WEIR_MULTIPLY, WEIR_DIVIDE, WEIR_ARITH_COUNT }; /* DIVIDE: floats only */
enum weir_operands { WEIR_COLUMN_COLUMN, WEIR_COLUMN_CONSTANT, WEIR_CONSTANT_COLUMN, WEIR_OPERANDS_COUNT };

/* True: some row does not fit. */
typedef bool weir_arith_kernel(const void *a, const void *b, uint32_t count, void *out);
typedef bool weir_convert_kernel(const void *in, uint32_t count, void *out);

struct weir_expr_kernels {
	weir_arith_kernel *arith[WEIR_NUMBER_COUNT][WEIR_ARITH_COUNT][WEIR_OPERANDS_COUNT];
	/* C's conversion, and whether a value changed: a fraction cut, out of range, or past the integers that the
	 * float counts exactly. Floats among themselves never report. */
	weir_convert_kernel *convert[WEIR_NUMBER_COUNT][WEIR_NUMBER_COUNT];
	/* Bit i: the first `size` (≤ 16) bytes of view i are those of `view`: equality, when the view is whole. */
	void (*view_heads)(const struct weir_view *views, const struct weir_view *view, uint32_t size, uint32_t count,
			   uint64_t *bits);
};

const struct weir_expr_kernels *weir_expr_kernels(void);

/* First row of `rows` (NULL: 0 … count − 1) where the result does not fit, −1 when all do. Masks: 0 for a constant
 * operand, ~0 for a column. Writes all other rows. */
typedef int32_t weir_arith_rows(const void *a, uint32_t mask_a, const void *b, uint32_t mask_b, const uint16_t *rows,
				uint32_t count, void *out);
extern weir_arith_rows *const weir_arith_rows_table[WEIR_NUMBER_COUNT][WEIR_ARITH_COUNT];
typedef int32_t weir_convert_rows(const void *in, const uint16_t *rows, uint32_t count, void *out);
extern weir_convert_rows *const weir_convert_rows_table[WEIR_NUMBER_COUNT][WEIR_NUMBER_COUNT];

/* Not by < 0, which is a warning for unsigned types. */
#define WEIR_NEGATIVE(v) (!((v) >= 1 || (v) == 0))

/* A conversion of one value, shared by the dense and the row loops; `to` must be initialised. Each sets *lost when the
 * value is not the same after it. */
#define WEIR_CONVERT_INT_INT(from, to, v, lost)                                                                        \
	({                                                                                                             \
		to converted_ = (to)(v);                                                                               \
		(lost) |= ((from)converted_ != (v)) | (WEIR_NEGATIVE(converted_) != WEIR_NEGATIVE(v));                 \
		converted_;                                                                                            \
	})
#define WEIR_CONVERT_INT_FLOAT(from, to, v, lost)                                                                      \
	({                                                                                                             \
		const int64_t limit_ = sizeof(to) == 8 ? (int64_t)1 << 53 : (int64_t)1 << 24;                          \
		(lost) |= sizeof(from) >= sizeof(to) / 2 && (((v) > 0 && (uint64_t)(v) > (uint64_t)limit_) ||          \
							     (WEIR_NEGATIVE(v) && (int64_t)(v) < -limit_));            \
		(to)(v);                                                                                               \
	})
#define WEIR_CONVERT_FLOAT_INT(from, to, v, lost)                                                                      \
	({                                                                                                             \
		/* Powers of two on both ends: exact in every float. */                                                \
		const from low_ = WEIR_NEGATIVE((to)-1) ? -(from)((uint64_t)1 << (sizeof(to) * 8 - 1)) : (from)0;      \
		const from high_ = (from)((uint64_t)1 << (sizeof(to) * 8 - 1)) * (WEIR_NEGATIVE((to)-1) ? 1 : 2);      \
		bool inside_ = (v) >= low_ && (v) < high_;                                                             \
		to converted_ = (to)(inside_ ? (v) : 0);                                                               \
		(lost) |= !inside_ | ((from)converted_ != (v));                                                        \
		converted_;                                                                                            \
	})
#define WEIR_CONVERT_FLOAT_FLOAT(from, to, v, lost) ((void)(lost), (to)(v))

/* CONVERT(from_name, from, to_name, to, CLASS) for every pair of numbers, and the table of the functions it makes,
 * which are convert_FROM_TO. */
#define WEIR_CONVERT_TO_ALL(CONVERT, name, type, KIND)                                                                 \
	CONVERT(name, type, i8, int8_t, KIND##_INT)                                                                    \
	CONVERT(name, type, i16, int16_t, KIND##_INT)                                                                  \
	CONVERT(name, type, i32, int32_t, KIND##_INT)                                                                  \
	CONVERT(name, type, i64, int64_t, KIND##_INT)                                                                  \
	CONVERT(name, type, u8, uint8_t, KIND##_INT)                                                                   \
	CONVERT(name, type, u16, uint16_t, KIND##_INT)                                                                 \
	CONVERT(name, type, u32, uint32_t, KIND##_INT)                                                                 \
	CONVERT(name, type, u64, uint64_t, KIND##_INT)                                                                 \
	CONVERT(name, type, f32, float, KIND##_FLOAT)                                                                  \
	CONVERT(name, type, f64, double, KIND##_FLOAT)
#define WEIR_CONVERT_ALL(CONVERT)                                                                                      \
	WEIR_CONVERT_TO_ALL(CONVERT, i8, int8_t, INT)                                                                  \
	WEIR_CONVERT_TO_ALL(CONVERT, i16, int16_t, INT)                                                                \
	WEIR_CONVERT_TO_ALL(CONVERT, i32, int32_t, INT)                                                                \
	WEIR_CONVERT_TO_ALL(CONVERT, i64, int64_t, INT)                                                                \
	WEIR_CONVERT_TO_ALL(CONVERT, u8, uint8_t, INT)                                                                 \
	WEIR_CONVERT_TO_ALL(CONVERT, u16, uint16_t, INT)                                                               \
	WEIR_CONVERT_TO_ALL(CONVERT, u32, uint32_t, INT)                                                               \
	WEIR_CONVERT_TO_ALL(CONVERT, u64, uint64_t, INT)                                                               \
	WEIR_CONVERT_TO_ALL(CONVERT, f32, float, FLOAT)                                                                \
	WEIR_CONVERT_TO_ALL(CONVERT, f64, double, FLOAT)
#define WEIR_CONVERT_ROW(name)                                                                                         \
	{                                                                                                              \
		convert_##name##_i8, convert_##name##_i16, convert_##name##_i32, convert_##name##_i64,                 \
			convert_##name##_u8, convert_##name##_u16, convert_##name##_u32, convert_##name##_u64,         \
			convert_##name##_f32, convert_##name##_f64                                                     \
	}
/* By number: what integers have, then what floats have. */
#define WEIR_BY_NUMBER(INT, FLOAT)                                                                                     \
	{                                                                                                              \
		[WEIR_I8] = INT(i8), [WEIR_I16] = INT(i16), [WEIR_I32] = INT(i32), [WEIR_I64] = INT(i64),              \
		[WEIR_U8] = INT(u8), [WEIR_U16] = INT(u16), [WEIR_U32] = INT(u32), [WEIR_U64] = INT(u64),              \
		[WEIR_F32] = FLOAT(f32), [WEIR_F64] = FLOAT(f64),                                                      \
	}

#endif
