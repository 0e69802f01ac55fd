/* abs, sign, round, floor, ceil, trunc, sqrt, exp, logarithms, is_nan.
 *
 * Rounding keeps the type, as in Arrow; round goes half to even, as Arrow and Python do. Roots and logarithms are
 * computed in float64 and follow IEEE: sqrt(-1) is NaN, log(0) is -inf.
 */
#include "arrow/decimal.h"
#include "expr/program.h"

#include <math.h>
#include <stdlib.h>

enum { OP_ABS, OP_SIGN, OP_ROUND, OP_FLOOR, OP_CEIL, OP_TRUNC };
enum { OP_SQRT, OP_EXP, OP_LOG, OP_LOG10, OP_LOG2, OP_LOG1P, OP_SIN, OP_COS, OP_TAN, OP_ASIN, OP_ACOS, OP_ATAN };

/* One line a function, so that the loop is inside and the choice outside. */
#define UNARY_LOOP(EXPRESSION)                                                                                         \
	for (uint32_t k = 0; k < call->rows.count; k++) {                                                              \
		uint32_t row = weir_call_row(call, k);                                                                 \
		double x = in[row];                                                                                    \
                                                                                                                       \
		out[row] = (EXPRESSION);                                                                               \
	}                                                                                                              \
	break

static int kernel_real(struct weir_call *call, struct weir_error *err)
{
	const double *in = call->arguments[0].values;
	double *out = call->values;

	(void)err;
	switch (call->node->op) {
	case OP_SQRT:
		UNARY_LOOP(sqrt(x));
	case OP_EXP:
		UNARY_LOOP(exp(x));
	case OP_LOG:
		UNARY_LOOP(log(x));
	case OP_LOG10:
		UNARY_LOOP(log10(x));
	case OP_LOG2:
		UNARY_LOOP(log2(x));
	case OP_LOG1P:
		UNARY_LOOP(log1p(x));
	case OP_SIN:
		UNARY_LOOP(sin(x));
	case OP_COS:
		UNARY_LOOP(cos(x));
	case OP_TAN:
		UNARY_LOOP(tan(x));
	case OP_ASIN:
		UNARY_LOOP(asin(x));
	case OP_ACOS:
		UNARY_LOOP(acos(x));
	default:
		UNARY_LOOP(atan(x));
	}
	return WEIR_OK;
}

static int refuse(struct weir_program *program, const struct weir_node *node, struct weir_error *err)
{
	char name[96];

	return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s is not defined for %s (%s)", node->function->name,
			      weir_type_name(node->arguments[0]->type, name, sizeof(name)), node->arguments[0]->text);
}

static bool is_number(const struct weir_type *type)
{
	return weir_type_is_integer(type) || weir_type_is_float(type) || weir_type_is_decimal(type);
}

static int bind_real(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	int code;

	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, weir_type_of(WEIR_DOUBLE), NULL, err);
	if (!is_number(node->arguments[0]->type))
		return refuse(program, node, err);
	code = weir_bind_cast(program, &node->arguments[0], weir_type_of(WEIR_DOUBLE), false, err);
	weir_bind_kernel(node, weir_type_of(WEIR_DOUBLE), kernel_real);
	return code;
}

/* Half to even at `digits` after the point, by scaling, as Arrow does. */
static inline double round_at(double x, double scale, bool is_up)
{
	double scaled = is_up ? x * scale : x / scale, rounded = nearbyint(scaled);

	if (!isfinite(scaled) || rounded == scaled)
		return x;
	rounded = is_up ? rounded / scale : rounded * scale;
	return isfinite(rounded) ? rounded : x;
}

struct rounding {
	int32_t digits;
	double scale;
};

#define ROUND_REALS(name, type)                                                                                        \
	static int kernel_round_##name(struct weir_call *call, struct weir_error *err)                                 \
	{                                                                                                              \
		const struct rounding *rounding = call->node->data;                                                    \
		const type *in = call->arguments[0].values;                                                            \
		type *out = call->values;                                                                              \
                                                                                                                       \
		(void)err;                                                                                             \
		for (uint32_t k = 0; k < call->rows.count; k++) {                                                      \
			uint32_t row = weir_call_row(call, k);                                                         \
			type x = in[row];                                                                              \
                                                                                                                       \
			switch (call->node->op) {                                                                      \
			case OP_ABS:                                                                                   \
				x = (type)fabs(x);                                                                     \
				break;                                                                                 \
			case OP_SIGN:                                                                                  \
				x = x > 0 ? 1 : x < 0 ? -1 : x;                                                        \
				break;                                                                                 \
			case OP_FLOOR:                                                                                 \
				x = (type)floor(x);                                                                    \
				break;                                                                                 \
			case OP_CEIL:                                                                                  \
				x = (type)ceil(x);                                                                     \
				break;                                                                                 \
			case OP_TRUNC:                                                                                 \
				x = (type)trunc(x);                                                                    \
				break;                                                                                 \
			default:                                                                                       \
				x = rounding->digits ? (type)round_at(x, rounding->scale, rounding->digits > 0)        \
						     : (type)nearbyint(x);                                             \
			}                                                                                              \
			out[row] = x;                                                                                  \
		}                                                                                                      \
		return WEIR_OK;                                                                                        \
	}

ROUND_REALS(f32, float)
ROUND_REALS(f64, double)

static int overflow(const struct weir_call *call, uint32_t row, struct weir_error *err)
{
	const struct weir_type *type = call->arguments[0].type;
	char text[WEIR_VALUE_TEXT_MAX], name[96];

	weir_value_format(type, (const uint8_t *)call->arguments[0].values + (size_t)row * type->byte_width, text);
	return weir_call_fail(call, row, err, WEIR_E_OVERFLOW, "the result for %s does not fit %s", text,
			      weir_type_name(call->node->type, name, sizeof(name)));
}

/* Integers as int64 or uint64 in `value`: abs, sign, and rounding to tens. */
static bool round_integer(int64_t x, int64_t step, int64_t *out)
{
	int64_t rest = weir_floor_mod(x, step), low = x - rest, high;

	if (rest > step - rest || (rest == step - rest && (low / step) % 2)) {
		if (__builtin_add_overflow(low, step, &high))
			return false;
		low = high;
	}
	*out = low;
	return true;
}

#define INTEGERS(name, type)                                                                                           \
	static int kernel_integer_##name(struct weir_call *call, struct weir_error *err)                               \
	{                                                                                                              \
		const struct rounding *rounding = call->node->data;                                                    \
		const type *in = call->arguments[0].values;                                                            \
		type *out = call->values;                                                                              \
                                                                                                                       \
		for (uint32_t k = 0; k < call->rows.count; k++) {                                                      \
			uint32_t row = weir_call_row(call, k);                                                         \
			type x = in[row];                                                                              \
			int64_t rounded;                                                                               \
                                                                                                                       \
			if (call->node->op == OP_ABS) {                                                                \
				if (WEIR_NEGATIVE(x) && __builtin_sub_overflow((type)0, x, &x))                        \
					return overflow(call, row, err);                                               \
			} else if (call->node->op == OP_SIGN) {                                                        \
				x = WEIR_NEGATIVE(x) ? (type)-1 : x > 0;                                               \
			} else {                                                                                       \
				if (!round_integer((int64_t)x, (int64_t)rounding->scale, &rounded))                    \
					return overflow(call, row, err);                                               \
				x = (type)rounded;                                                                     \
				if ((int64_t)x != rounded)                                                             \
					return overflow(call, row, err);                                               \
			}                                                                                              \
			out[row] = x;                                                                                  \
		}                                                                                                      \
		return WEIR_OK;                                                                                        \
	}

INTEGERS(i8, int8_t)
INTEGERS(i16, int16_t)
INTEGERS(i32, int32_t)
INTEGERS(i64, int64_t)
INTEGERS(u8, uint8_t)
INTEGERS(u16, uint16_t)
INTEGERS(u32, uint32_t)
INTEGERS(u64, uint64_t)

static weir_node_kernel *const integers[] = {
	kernel_integer_i8, kernel_integer_i16, kernel_integer_i32, kernel_integer_i64,
	kernel_integer_u8, kernel_integer_u16, kernel_integer_u32, kernel_integer_u64,
};

/* The decimal rounded at `digits`, at its own scale. */
static struct weir_int256 round_decimal(const struct weir_int256 *x, int32_t scale, int32_t digits, uint32_t op)
{
	struct weir_int256 down, up, step = weir_int256_from(1), twice, rest;
	int32_t drop = scale - digits;
	int order;

	if (drop <= 0)
		return *x;
	down = weir_decimal_to_whole(x, drop, -1);
	up = weir_decimal_to_whole(x, drop, 1);
	if (op == OP_FLOOR || (op == OP_TRUNC && !weir_int256_negative(x))) {
		up = down;
	} else if (op == OP_ROUND) {
		weir_decimal_rescale(&step, 0, drop, false, &step);
		weir_decimal_rescale(&down, 0, drop, false, &twice);
		weir_int256_sub(x, &twice, &rest);
		weir_int256_add(&rest, &rest, &rest);
		order = weir_int256_compare(&rest, &step);
		if (order < 0 || (order == 0 && !(down.words[0] & 1)))
			up = down;
	}
	weir_decimal_rescale(&up, 0, drop, false, &up);
	return up;
}

static int kernel_decimals(struct weir_call *call, struct weir_error *err)
{
	const struct weir_type *type = call->node->type;
	const struct rounding *rounding = call->node->data;

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		size_t at = (size_t)row * type->byte_width;
		struct weir_int256 x = weir_int256_load((const uint8_t *)call->arguments[0].values + at,
							type->byte_width);

		if (call->node->op == OP_ABS)
			x = weir_int256_negative(&x) ? weir_int256_negate(&x) : x;
		else
			x = round_decimal(&x, type->scale, rounding->digits, call->node->op);
		if (!weir_int256_fits(&x, type->precision))
			return overflow(call, row, err);
		weir_int256_store(&x, (uint8_t *)call->values + at, type->byte_width);
	}
	return WEIR_OK;
}

static int bind_round(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	struct rounding *rounding = weir_arena_alloc_zero(&program->arena, sizeof(*rounding), err);
	int code;

	if (!rounding)
		return err->code;
	if (node->count == 2) {
		const struct weir_node *digits = node->arguments[1];

		if (!weir_node_is_constant(digits) || !weir_type_is_integer(digits->type) || digits->value.is_null ||
		    digits->value.integer > 300 || digits->value.integer < -300)
			return weir_bind_fail(program, node, err, WEIR_E_TYPE,
					      "the number of digits must be a small literal");
		rounding->digits = (int32_t)digits->value.integer;
	}
	rounding->scale = pow(10, abs(rounding->digits));
	node->data = rounding;
	node->count = 1;
	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	if (type->id == WEIR_HALF) {
		code = weir_bind_cast(program, &node->arguments[0], weir_type_of(WEIR_FLOAT), false, err);
		if (code)
			return code;
		type = weir_type_of(WEIR_FLOAT);
	}
	if (weir_type_is_float(type)) {
		weir_bind_kernel(node, type, type->id == WEIR_FLOAT ? kernel_round_f32 : kernel_round_f64);
		return WEIR_OK;
	}
	node->needs_rows = true;
	if (weir_type_is_decimal(type) && node->op != OP_SIGN) {
		weir_bind_kernel(node, type, kernel_decimals);
		node->may_fail = node->op != OP_ABS;
		return WEIR_OK;
	}
	if (!weir_type_is_integer(type) && !(type->id == WEIR_DURATION && (node->op == OP_ABS || node->op == OP_SIGN)))
		return refuse(program, node, err);
	/* Whole numbers are round already. */
	if (node->op == OP_FLOOR || node->op == OP_CEIL || node->op == OP_TRUNC ||
	    (node->op == OP_ROUND && rounding->digits >= 0)) {
		const char *text = node->text;
		uint32_t number = node->number;

		*node = *node->arguments[0];
		node->text = text;
		node->number = number;
		return WEIR_OK;
	}
	if (rounding->digits < -18)
		return weir_bind_fail(program, node, err, WEIR_E_TYPE, "no integer has so many digits");
	weir_bind_kernel(node, type, integers[weir_type_number(type)]);
	node->may_fail = true;
	return WEIR_OK;
}

static int kernel_is_nan(struct weir_call *call, struct weir_error *err)
{
	const double *in = call->arguments[0].values;

	(void)err;
	weir_vector_kernels()->compare_columns[WEIR_F64][WEIR_NE](in, in, call->row_count, call->values);
	return WEIR_OK;
}

static int bind_is_nan(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	int code;

	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, weir_type_of(WEIR_BOOL), NULL, err);
	if (!is_number(node->arguments[0]->type))
		return refuse(program, node, err);
	code = weir_bind_cast(program, &node->arguments[0], weir_type_of(WEIR_DOUBLE), false, err);
	weir_bind_kernel(node, weir_type_of(WEIR_BOOL), kernel_is_nan);
	return code;
}

const struct weir_function weir_functions_math[] = {
	{"abs", 1, 1, bind_round, OP_ABS},
	{"sign", 1, 1, bind_round, OP_SIGN},
	{"round", 1, 2, bind_round, OP_ROUND},
	{"floor", 1, 1, bind_round, OP_FLOOR},
	{"ceil", 1, 1, bind_round, OP_CEIL},
	{"trunc", 1, 1, bind_round, OP_TRUNC},
	{"sqrt", 1, 1, bind_real, OP_SQRT},
	{"exp", 1, 1, bind_real, OP_EXP},
	{"log", 1, 1, bind_real, OP_LOG},
	{"ln", 1, 1, bind_real, OP_LOG},
	{"log10", 1, 1, bind_real, OP_LOG10},
	{"log2", 1, 1, bind_real, OP_LOG2},
	{"log1p", 1, 1, bind_real, OP_LOG1P},
	{"sin", 1, 1, bind_real, OP_SIN},
	{"cos", 1, 1, bind_real, OP_COS},
	{"tan", 1, 1, bind_real, OP_TAN},
	{"asin", 1, 1, bind_real, OP_ASIN},
	{"acos", 1, 1, bind_real, OP_ACOS},
	{"atan", 1, 1, bind_real, OP_ATAN},
	{"is_nan", 1, 1, bind_is_nan, 0},
	{0},
};
