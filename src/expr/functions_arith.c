/* + - * / // % ** and unary minus, for numbers, decimals, times and (+) text.
 *
 * Both operands are first cast to one type (promote.c); kernels then run over whole vectors. Integers that overflow and
 * divisions by zero are errors of the row, when it is selected and not null; floats follow IEEE.
 */
#include "arrow/decimal.h"
#include "expr/program.h"

#include <math.h>
#include <string.h>

enum { OP_ADD, OP_SUBTRACT, OP_MULTIPLY, OP_DIVIDE, OP_FLOOR_DIVIDE, OP_MOD, OP_POWER };

static const char *const symbols[] = {"+", "-", "*", "/", "//", "%", "**"};

/* The selection is dense enough for all rows to be computed. */
static bool is_dense(const struct weir_call *call)
{
	return !call->rows.rows || call->rows.count * 4 >= call->row_count;
}

/* "9223372036854775807 * 2 does not fit int64" */
static int fail_at(const struct weir_call *call, uint32_t row, int code, const char *what, struct weir_error *err)
{
	const struct weir_type *type = call->arguments[0].type;
	char a[WEIR_VALUE_TEXT_MAX], b[WEIR_VALUE_TEXT_MAX], name[64];
	uint32_t row_a = row & weir_call_mask(call, 0), row_b = row & weir_call_mask(call, 1);

	weir_value_format(type, (const uint8_t *)call->arguments[0].values + row_a * type->byte_width, a);
	weir_value_format(call->arguments[1].type,
			  (const uint8_t *)call->arguments[1].values + row_b * call->arguments[1].type->byte_width, b);
	return weir_call_fail(call, row, err, code, "%s %s %s %s%s", a, symbols[call->node->op], b, what,
			      code == WEIR_E_OVERFLOW ? weir_type_name(call->node->type, name, sizeof(name)) : "");
}

static int narrow_rows(const struct weir_call *call, struct weir_selection *out, struct weir_error *err)
{
	uint16_t *rows;

	*out = call->rows;
	if (!call->valid)
		return WEIR_OK;
	rows = weir_arena_alloc(call->arena, WEIR_VECTOR_ROWS * sizeof(*rows), err);
	if (!rows)
		return err->code;
	out->count = weir_select_bits(&call->rows, call->valid, NULL, rows);
	out->rows = rows;
	return WEIR_OK;
}

static int kernel_numbers(struct weir_call *call, struct weir_error *err)
{
	enum weir_number number = weir_type_number(call->arguments[0].type);
	const void *a = call->arguments[0].values, *b = call->arguments[1].values;
	uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1), op = call->node->op;
	struct weir_selection rows;
	int32_t failed;
	int code;

	if (is_dense(call)) {
		enum weir_operands operands = !mask_b && mask_a   ? WEIR_COLUMN_CONSTANT
					      : !mask_a && mask_b ? WEIR_CONSTANT_COLUMN
								  : WEIR_COLUMN_COLUMN;

		if (!weir_expr_kernels()->arith[number][op][operands](a, b, call->row_count, call->values))
			return WEIR_OK;
	}
	/* Sparse, or some row does not fit, perhaps one that does not count. */
	code = narrow_rows(call, &rows, err);
	if (code)
		return code;
	failed = weir_arith_rows_table[number][op](a, mask_a, b, mask_b, rows.rows, rows.count, call->values);
	return failed < 0 ? WEIR_OK : fail_at(call, (uint32_t)failed, WEIR_E_OVERFLOW, "does not fit ", err);
}

/* Quotient and remainder of integers, rounded as Python does. Looks only at rows that count. */
#define DIVISION(name, type)                                                                                           \
	static int name##_division(struct weir_call *call, struct weir_error *err)                                     \
	{                                                                                                              \
		const type *a = call->arguments[0].values, *b = call->arguments[1].values;                             \
		uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1);                           \
		bool wants_mod = call->node->op == OP_MOD;                                                             \
		type *out = call->values;                                                                              \
                                                                                                                       \
		for (uint32_t k = 0; k < call->rows.count; k++) {                                                      \
			uint32_t row = weir_call_row(call, k);                                                         \
			type x = a[row & mask_a], y = b[row & mask_b], quotient, rest;                                 \
                                                                                                                       \
			if (!y)                                                                                        \
				return fail_at(call, row, WEIR_E_ZERO_DIVISION, "divides by zero", err);               \
			/* The one quotient that does not fit; its remainder is 0. */                                  \
			if (WEIR_NEGATIVE((type)-1) && y == (type)-1) {                                                \
				if (!wants_mod && __builtin_sub_overflow((type)0, x, &quotient))                       \
					return fail_at(call, row, WEIR_E_OVERFLOW, "does not fit ", err);              \
				out[row] = wants_mod ? 0 : quotient;                                                   \
				continue;                                                                              \
			}                                                                                              \
			quotient = x / y;                                                                              \
			rest = x % y;                                                                                  \
			if (rest && WEIR_NEGATIVE(rest) != WEIR_NEGATIVE(y)) {                                         \
				quotient--;                                                                            \
				rest += y;                                                                             \
			}                                                                                              \
			out[row] = wants_mod ? rest : quotient;                                                        \
		}                                                                                                      \
		return WEIR_OK;                                                                                        \
	}

/* As Python's float // and %, but division by zero gives what IEEE says. */
#define FLOAT_DIVISION(name, type, FMOD, FLOOR, COPYSIGN)                                                              \
	static int name##_division(struct weir_call *call, struct weir_error *err)                                     \
	{                                                                                                              \
		const type *a = call->arguments[0].values, *b = call->arguments[1].values;                             \
		uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1);                           \
		bool wants_mod = call->node->op == OP_MOD;                                                             \
		type *out = call->values;                                                                              \
                                                                                                                       \
		(void)err;                                                                                             \
		for (uint32_t k = 0; k < call->rows.count; k++) {                                                      \
			uint32_t row = weir_call_row(call, k);                                                         \
			type x = a[row & mask_a], y = b[row & mask_b], rest, quotient, whole;                          \
                                                                                                                       \
			if (y == 0) {                                                                                  \
				out[row] = wants_mod ? (type)NAN : x / y;                                              \
				continue;                                                                              \
			}                                                                                              \
			rest = FMOD(x, y);                                                                             \
			quotient = (x - rest) / y;                                                                     \
			if (rest == 0) {                                                                               \
				rest = COPYSIGN((type)0, y);                                                           \
			} else if ((rest < 0) != (y < 0)) {                                                            \
				rest += y;                                                                             \
				quotient -= 1;                                                                         \
			}                                                                                              \
			whole = quotient == 0 ? COPYSIGN((type)0, x / y) : FLOOR(quotient);                            \
			/* The difference was rounded up to the next whole number but for one bit. */                  \
			if (quotient != 0 && quotient - whole > (type)0.5)                                             \
				whole += 1;                                                                            \
			out[row] = wants_mod ? rest : whole;                                                           \
		}                                                                                                      \
		return WEIR_OK;                                                                                        \
	}

DIVISION(i8, int8_t)
DIVISION(i16, int16_t)
DIVISION(i32, int32_t)
DIVISION(i64, int64_t)
DIVISION(u8, uint8_t)
DIVISION(u16, uint16_t)
DIVISION(u32, uint32_t)
DIVISION(u64, uint64_t)
FLOAT_DIVISION(f32, float, fmodf, floorf, copysignf)
FLOAT_DIVISION(f64, double, fmod, floor, copysign)

static weir_node_kernel *const divisions[WEIR_NUMBER_COUNT] = {
	i8_division,  i16_division, i32_division, i64_division, u8_division,
	u16_division, u32_division, u64_division, f32_division, f64_division,
};

#define POWER(name, type)                                                                                              \
	static int name##_power(struct weir_call *call, struct weir_error *err)                                        \
	{                                                                                                              \
		const type *a = call->arguments[0].values, *b = call->arguments[1].values;                             \
		uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1);                           \
		type *out = call->values;                                                                              \
                                                                                                                       \
		for (uint32_t k = 0; k < call->rows.count; k++) {                                                      \
			uint32_t row = weir_call_row(call, k);                                                         \
			type base = a[row & mask_a], exponent = b[row & mask_b], power = 1;                            \
			bool lost = false;                                                                             \
                                                                                                                       \
			if (WEIR_NEGATIVE(exponent))                                                                   \
				return fail_at(call, row, WEIR_E_VALUE, "is no integer; write float(…) ** …", err);    \
			for (; exponent; exponent /= 2) {                                                              \
				if (exponent & 1)                                                                      \
					lost |= __builtin_mul_overflow(power, base, &power);                           \
				if (exponent > 1)                                                                      \
					lost |= __builtin_mul_overflow(base, base, &base);                             \
			}                                                                                              \
			if (lost)                                                                                      \
				return fail_at(call, row, WEIR_E_OVERFLOW, "does not fit ", err);                      \
			out[row] = power;                                                                              \
		}                                                                                                      \
		return WEIR_OK;                                                                                        \
	}

POWER(i64, int64_t)
POWER(u64, uint64_t)

static int f64_power(struct weir_call *call, struct weir_error *err)
{
	const double *a = call->arguments[0].values, *b = call->arguments[1].values;
	uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1);
	double *out = call->values;

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);

		out[row] = pow(a[row & mask_a], b[row & mask_b]);
	}
	return WEIR_OK;
}

/* Decimals: of one scale for + and −, of any for ×. The result's precision leaves room, except at the widest type. */
static int kernel_decimal128(struct weir_call *call, struct weir_error *err)
{
	const __int128 *a = call->arguments[0].values, *b = call->arguments[1].values;
	uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1), op = call->node->op;
	__int128 *out = call->values;

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		__int128 x = a[row & mask_a], y = b[row & mask_b];
		bool lost = op == OP_ADD        ? __builtin_add_overflow(x, y, &out[row])
			    : op == OP_SUBTRACT ? __builtin_sub_overflow(x, y, &out[row])
						: __builtin_mul_overflow(x, y, &out[row]);

		if (lost)
			return fail_at(call, row, WEIR_E_OVERFLOW, "does not fit ", err);
	}
	return WEIR_OK;
}

static int kernel_decimal256(struct weir_call *call, struct weir_error *err)
{
	uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1), op = call->node->op;
	uint32_t width_a = call->arguments[0].type->byte_width, width_b = call->arguments[1].type->byte_width;
	const uint8_t *a = call->arguments[0].values, *b = call->arguments[1].values;
	struct weir_int256 *out = call->values;

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		struct weir_int256 x = weir_int256_load(a + (row & mask_a) * width_a, width_a);
		struct weir_int256 y = weir_int256_load(b + (row & mask_b) * width_b, width_b);
		bool lost = op == OP_ADD        ? weir_int256_add(&x, &y, &out[row])
			    : op == OP_SUBTRACT ? weir_int256_sub(&x, &y, &out[row])
						: weir_int256_mul(&x, &y, &out[row]);

		if (lost || !weir_int256_fits(&out[row], call->node->type->precision))
			return fail_at(call, row, WEIR_E_OVERFLOW, "does not fit ", err);
	}
	return WEIR_OK;
}

/* Decimals of one scale: the quotient is a whole number, the rest has their scale. Rounded down, as everywhere. */
static int kernel_decimal_division(struct weir_call *call, struct weir_error *err)
{
	uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1);
	uint32_t width = call->arguments[0].type->byte_width, width_out = call->node->type->byte_width;
	const uint8_t *a = call->arguments[0].values, *b = call->arguments[1].values;
	bool wants_mod = call->node->op == OP_MOD;

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		struct weir_int256 x = weir_int256_load(a + (size_t)(row & mask_a) * width, width);
		struct weir_int256 y = weir_int256_load(b + (size_t)(row & mask_b) * width, width), quotient, rest;
		const struct weir_int256 *out = wants_mod ? &rest : &quotient;
		static const struct weir_int256 zero;

		if (!weir_int256_compare(&y, &zero))
			return fail_at(call, row, WEIR_E_ZERO_DIVISION, "divides by zero", err);
		if (weir_int256_divide(&x, &y, &quotient, &rest) ||
		    !weir_int256_fits(out, call->node->type->precision) ||
		    !weir_int256_store(out, (uint8_t *)call->values + (size_t)row * width_out, width_out))
			return fail_at(call, row, WEIR_E_OVERFLOW, "does not fit ", err);
	}
	return WEIR_OK;
}

/* An integer among decimals: a literal needs only its own digits. */
static int decimal_argument(struct weir_program *program, struct weir_node **argument, struct weir_error *err)
{
	static const int32_t digits[] = {[1] = 3, [2] = 5, [4] = 10, [8] = 19};
	const struct weir_node *node = *argument;
	const struct weir_type *type;
	int32_t precision;

	if (weir_type_is_decimal(node->type))
		return WEIR_OK;
	precision = node->type->id == WEIR_UINT64 ? 20 : digits[node->type->byte_width];
	if (weir_node_is_constant(node) && weir_type_is_signed(node->type)) {
		int64_t value = node->value.integer;

		for (precision = 1; value / 10; value /= 10)
			precision++;
	}
	type = weir_program_keep(program, weir_type_decimal(program->account, WEIR_DECIMAL128, precision, 0, err), err);
	return type ? weir_bind_cast(program, argument, type, true, err) : err->code;
}

static int cast_both(struct weir_program *program, struct weir_node *node, const struct weir_type *a,
		     const struct weir_type *b, struct weir_error *err)
{
	int code = weir_bind_cast(program, &node->arguments[0], a, true, err);

	return code ? code : weir_bind_cast(program, &node->arguments[1], b, true, err);
}

static int decimal_arguments(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	int code = decimal_argument(program, &node->arguments[0], err);

	return code ? code : decimal_argument(program, &node->arguments[1], err);
}

/* x // y is at most x's largest value by y's smallest step, one more when it is rounded down. */
static int bind_decimal_division(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *a, *b, *both, *type;
	int32_t precision;
	int code = decimal_arguments(program, node, err);

	if (code)
		return code;
	a = node->arguments[0]->type;
	b = node->arguments[1]->type;
	type = both = weir_promote(program, a, b, err);
	if (both && node->op == OP_FLOOR_DIVIDE) {
		precision = a->precision - a->scale + b->scale + 1;
		if (precision < 1)
			precision = 1;
		if (precision > WEIR_DECIMAL256_PRECISION_MAX)
			precision = WEIR_DECIMAL256_PRECISION_MAX;
		type = weir_program_keep(
			program,
			weir_type_decimal(program->account,
					  precision > WEIR_DECIMAL128_PRECISION_MAX ? WEIR_DECIMAL256 : WEIR_DECIMAL128,
					  precision, 0, err),
			err);
	}
	if (!both || !type)
		return err->code;
	code = cast_both(program, node, both, both, err);
	weir_bind_kernel(node, type, kernel_decimal_division);
	node->needs_rows = true;
	node->may_fail = true;
	return code;
}

static int bind_decimals(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *a, *b, *type;
	int32_t precision, scale, whole;
	enum weir_type_id id;
	int code = decimal_arguments(program, node, err);

	if (code)
		return code;
	a = node->arguments[0]->type;
	b = node->arguments[1]->type;
	if (node->op == OP_MULTIPLY) {
		scale = a->scale + b->scale;
		precision = a->precision + b->precision + 1;
	} else {
		scale = a->scale > b->scale ? a->scale : b->scale;
		whole = a->precision - a->scale > b->precision - b->scale ? a->precision - a->scale
									  : b->precision - b->scale;
		precision = whole + scale + 1;
	}
	id = precision > WEIR_DECIMAL128_PRECISION_MAX || a->id == WEIR_DECIMAL256 || b->id == WEIR_DECIMAL256
		     ? WEIR_DECIMAL256
		     : WEIR_DECIMAL128;
	if (precision > WEIR_DECIMAL256_PRECISION_MAX)
		precision = WEIR_DECIMAL256_PRECISION_MAX;
	type = weir_program_keep(program, weir_type_decimal(program->account, id, precision, scale, err), err);
	if (!type)
		return err->code;
	if (node->op != OP_MULTIPLY) {
		code = cast_both(program, node, type, type, err);
		if (code)
			return code;
	}
	weir_bind_kernel(node, type, id == WEIR_DECIMAL128 ? kernel_decimal128 : kernel_decimal256);
	node->needs_rows = true;
	node->may_fail = precision >= WEIR_DECIMAL256_PRECISION_MAX;
	return WEIR_OK;
}

static int refuse(struct weir_program *program, const struct weir_node *node, struct weir_error *err)
{
	char a[96], b[96];

	return weir_bind_fail(program, node, err, WEIR_E_TYPE, "'%s' is not defined for %s (%s) and %s (%s)",
			      symbols[node->op], weir_type_name(node->arguments[0]->type, a, sizeof(a)),
			      node->arguments[0]->text, weir_type_name(node->arguments[1]->type, b, sizeof(b)),
			      node->arguments[1]->text);
}

static const struct weir_type *temporal(struct weir_program *program, enum weir_type_id id, enum weir_time_unit unit,
					const char *timezone, struct weir_error *err)
{
	return weir_program_keep(program, weir_type_temporal(program->account, id, unit, timezone, err), err);
}

static bool is_instant(const struct weir_type *type)
{
	return type->id == WEIR_DATE32 || type->id == WEIR_DATE64 || type->id == WEIR_TIMESTAMP;
}

static enum weir_time_unit unit_of(const struct weir_type *type)
{
	return type->id == WEIR_DATE32 ? WEIR_SECOND : type->id == WEIR_DATE64 ? WEIR_MILLI : type->unit;
}

/* instant − instant, instant ± duration, duration ± duration, duration × int, duration // int: all in 64 bits. */
static int bind_temporals(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *a = node->arguments[0]->type, *b = node->arguments[1]->type, *left, *right, *type;
	enum weir_time_unit unit;
	uint32_t op = node->op;
	int code;

	weir_error_clear(err);
	if (is_instant(a) && is_instant(b) && op == OP_SUBTRACT) {
		if (a->id == WEIR_TIMESTAMP && b->id == WEIR_TIMESTAMP && !a->timezone != !b->timezone)
			return refuse(program, node, err);
		unit = unit_of(a) > unit_of(b) ? unit_of(a) : unit_of(b);
		left = temporal(program, WEIR_TIMESTAMP, unit, a->id == WEIR_TIMESTAMP ? a->timezone : NULL, err);
		right = temporal(program, WEIR_TIMESTAMP, unit, b->id == WEIR_TIMESTAMP ? b->timezone : NULL, err);
		type = temporal(program, WEIR_DURATION, unit, NULL, err);
	} else if (is_instant(a) && b->id == WEIR_DURATION && (op == OP_ADD || op == OP_SUBTRACT)) {
		unit = unit_of(a) > b->unit ? unit_of(a) : b->unit;
		left = type = temporal(program, WEIR_TIMESTAMP, unit, a->id == WEIR_TIMESTAMP ? a->timezone : NULL,
				       err);
		right = temporal(program, WEIR_DURATION, unit, NULL, err);
	} else if (a->id == WEIR_DURATION && is_instant(b) && op == OP_ADD) {
		struct weir_node *swapped = node->arguments[0];

		node->arguments[0] = node->arguments[1];
		node->arguments[1] = swapped;
		return bind_temporals(program, node, err);
	} else if (a->id == WEIR_DURATION && b->id == WEIR_DURATION &&
		   (op == OP_ADD || op == OP_SUBTRACT || op == OP_MOD)) {
		left = right = type = a->unit > b->unit ? a : b;
	} else if (a->id == WEIR_DURATION && b->id == WEIR_DURATION && (op == OP_DIVIDE || op == OP_FLOOR_DIVIDE)) {
		left = right = a->unit > b->unit ? a : b;
		code = cast_both(program, node, left, right, err);
		if (code)
			return code;
		if (op == OP_DIVIDE) {
			code = cast_both(program, node, weir_type_of(WEIR_INT64), weir_type_of(WEIR_INT64), err);
			if (!code)
				code = weir_bind_cast(program, &node->arguments[0], weir_type_of(WEIR_DOUBLE), false,
						      err);
			if (!code)
				code = weir_bind_cast(program, &node->arguments[1], weir_type_of(WEIR_DOUBLE), false,
						      err);
			weir_bind_kernel(node, weir_type_of(WEIR_DOUBLE), kernel_numbers);
			return code;
		}
		type = weir_type_of(WEIR_INT64);
	} else if (a->id == WEIR_DURATION && weir_type_is_integer(b) && (op == OP_MULTIPLY || op == OP_FLOOR_DIVIDE)) {
		left = type = a;
		right = weir_type_of(WEIR_INT64);
	} else if (weir_type_is_integer(a) && b->id == WEIR_DURATION && op == OP_MULTIPLY) {
		left = weir_type_of(WEIR_INT64);
		right = type = b;
	} else {
		return refuse(program, node, err);
	}
	if (!left || !right || !type)
		return err->code;
	code = cast_both(program, node, left, right, err);
	if (code)
		return code;
	weir_bind_kernel(node, type, op == OP_FLOOR_DIVIDE || op == OP_MOD ? i64_division : kernel_numbers);
	node->needs_rows = op == OP_FLOOR_DIVIDE || op == OP_MOD;
	node->may_fail = true;
	return WEIR_OK;
}

/* a + b of text. */
static int kernel_concat(struct weir_call *call, struct weir_error *err)
{
	const struct weir_view *a = call->arguments[0].values, *b = call->arguments[1].values;
	uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1);
	struct weir_view *out = call->values;
	uint64_t total = 0;
	uint8_t *bytes;

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		uint64_t size = (uint64_t)a[row & mask_a].size + b[row & mask_b].size;

		if (size > INT32_MAX)
			return weir_call_fail(call, row, err, WEIR_E_OVERFLOW, "a text of %llu bytes is too long",
					      (unsigned long long)size);
		total += size > WEIR_VIEW_INLINE ? size : 0;
	}
	bytes = weir_arena_alloc(call->arena, total, err);
	if (!bytes)
		return err->code;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *x = &a[row & mask_a], *y = &b[row & mask_b];
		uint8_t small[WEIR_VIEW_INLINE], *to;
		uint32_t size = x->size + y->size;

		to = size > WEIR_VIEW_INLINE ? bytes : small;
		memcpy(to, weir_view_bytes(x), x->size);
		memcpy(to + x->size, weir_view_bytes(y), y->size);
		out[row] = weir_view_make(to, size);
		if (size > WEIR_VIEW_INLINE)
			bytes += size;
	}
	return WEIR_OK;
}

static int bind_arith(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *a = node->arguments[0]->type, *b = node->arguments[1]->type, *type;
	uint32_t op = node->op;
	bool is_number;
	int code;

	weir_error_clear(err);
	if (weir_node_is_none(node->arguments[0]) || weir_node_is_none(node->arguments[1])) {
		type = op == OP_DIVIDE ? weir_type_of(WEIR_DOUBLE) : a->id == WEIR_NULL ? b : a;
		return weir_bind_constant(program, node, type, NULL, err);
	}
	if (weir_type_is_bytes(a) && weir_type_is_bytes(b) && op == OP_ADD &&
	    weir_type_is_text(a) == weir_type_is_text(b)) {
		weir_bind_kernel(node, weir_promote(program, a, b, err), kernel_concat);
		node->needs_rows = true;
		return WEIR_OK;
	}
	if (is_instant(a) || is_instant(b) || a->id == WEIR_DURATION || b->id == WEIR_DURATION)
		return bind_temporals(program, node, err);
	is_number = (weir_type_is_integer(a) || weir_type_is_float(a) || weir_type_is_decimal(a)) &&
		    (weir_type_is_integer(b) || weir_type_is_float(b) || weir_type_is_decimal(b));
	if (!is_number)
		return refuse(program, node, err);
	type = weir_promote(program, a, b, err);
	if (!type)
		return err->code ? err->code : refuse(program, node, err);
	if (weir_type_is_decimal(type) && op <= OP_MULTIPLY)
		return bind_decimals(program, node, err);
	if (weir_type_is_decimal(type) && (op == OP_FLOOR_DIVIDE || op == OP_MOD))
		return bind_decimal_division(program, node, err);
	if (op == OP_DIVIDE || weir_type_is_decimal(type) || (op == OP_POWER && weir_type_is_float(type)))
		type = weir_type_of(WEIR_DOUBLE);
	else if (op == OP_POWER)
		type = weir_type_of(weir_type_is_signed(type) ? WEIR_INT64 : WEIR_UINT64);
	else if (type->id == WEIR_HALF)
		type = weir_type_of(WEIR_FLOAT);
	code = weir_bind_cast(program, &node->arguments[0], type, !weir_type_is_float(type), err);
	if (!code)
		code = weir_bind_cast(program, &node->arguments[1], type, !weir_type_is_float(type), err);
	if (code)
		return code;
	if (op == OP_POWER) {
		weir_bind_kernel(node, type,
				 type->id == WEIR_INT64    ? i64_power
				 : type->id == WEIR_UINT64 ? u64_power
							   : f64_power);
		node->needs_rows = true;
	} else if (op == OP_FLOOR_DIVIDE || op == OP_MOD) {
		weir_bind_kernel(node, type, divisions[weir_type_number(type)]);
		node->needs_rows = true;
	} else {
		weir_bind_kernel(node, type, kernel_numbers);
	}
	node->may_fail = !weir_type_is_float(type);
	return WEIR_OK;
}

/* −x is 0 − x, but for −0.0. */
static int kernel_negate(struct weir_call *call, struct weir_error *err)
{
	uint32_t mask = weir_call_mask(call, 0);

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k), from = row & mask;

		if (call->node->type->id == WEIR_FLOAT)
			((float *)call->values)[row] = -((const float *)call->arguments[0].values)[from];
		else
			((double *)call->values)[row] = -((const double *)call->arguments[0].values)[from];
	}
	return WEIR_OK;
}

static int bind_negate(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	struct weir_node **arguments, *zero;
	char name[96];
	int code;

	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	if (weir_type_is_float(type)) {
		if (type->id == WEIR_HALF)
			type = weir_type_of(WEIR_FLOAT);
		code = weir_bind_cast(program, &node->arguments[0], type, false, err);
		weir_bind_kernel(node, type, kernel_negate);
		return code;
	}
	if (!weir_type_is_integer(type) && !weir_type_is_decimal(type) && type->id != WEIR_DURATION)
		return weir_bind_fail(program, node, err, WEIR_E_TYPE, "'-' is not defined for %s",
				      weir_type_name(type, name, sizeof(name)));
	/* 0 − x, in the next wider signed type when unsigned. */
	zero = weir_bind_new(program, err);
	arguments = weir_arena_alloc(&program->arena, 2 * sizeof(struct weir_node *), err);
	if (!zero || !arguments)
		return err->code;
	if (weir_type_is_integer(type) && !weir_type_is_signed(type)) {
		type = weir_promote(program, type, weir_type_of(WEIR_INT8), err);
		code = weir_bind_cast(program, &node->arguments[0], type, true, err);
		if (code)
			return code;
	}
	struct weir_scalar nothing = {.type = type};
	code = weir_bind_constant(program, zero, type, &nothing, err);
	if (code)
		return code;
	arguments[0] = zero;
	arguments[1] = node->arguments[0];
	node->arguments = arguments;
	node->count = 2;
	node->op = OP_SUBTRACT;
	weir_bind_kernel(node, type,
			 type->id == WEIR_DECIMAL128   ? kernel_decimal128
			 : type->id == WEIR_DECIMAL256 ? kernel_decimal256
						       : kernel_numbers);
	node->needs_rows = weir_type_is_decimal(type);
	node->may_fail = true;
	return WEIR_OK;
}

const struct weir_function weir_functions_arith[] = {
	{"add", 2, 2, bind_arith, OP_ADD},
	{"subtract", 2, 2, bind_arith, OP_SUBTRACT},
	{"multiply", 2, 2, bind_arith, OP_MULTIPLY},
	{"divide", 2, 2, bind_arith, OP_DIVIDE},
	{"floor_divide", 2, 2, bind_arith, OP_FLOOR_DIVIDE},
	{"mod", 2, 2, bind_arith, OP_MOD},
	{"power", 2, 2, bind_arith, OP_POWER},
	{"pow", 2, 2, bind_arith, OP_POWER},
	{"negate", 1, 1, bind_negate, 0},
	{0},
};
