/* arrow_…: functions as pyarrow.compute has them, for expressions that come from Python, where Ray Data's users expect
 * those rules. The language's own operators keep Python's rules; both live side by side in one tree.
 *
 *     arrow_add, _subtract, _multiply, _power   integers wrap around
 *     arrow_divide                              integers are cut towards zero, by zero is an error; floats keep
 *                                               their type
 *     arrow_floor_divide, arrow_mod             float64 for integers, rounded down; floats: floor(x / y),
 *                                               x - floor(x / y) * y
 *     arrow_floor, _ceil, _trunc                float64 for integers
 *     arrow_sign                                int8 for integers
 *     arrow_exp, _ln, _sin …                    float32 of float32
 *     arrow_length, arrow_find                  int32; a place found is counted in bytes
 *     arrow_text_length, arrow_list_length,     for text alone, or lists alone: the plain function takes both, and a
 *     arrow_text_slice, arrow_element,          wrong column would go unnoticed; arrow_field is for structs alone
 *     arrow_field
 *
 * What is not named here is the plain function's: text, times and decimals behave as without the prefix.
 */
#include "expr/functions_nested.h"
#include "expr/program.h"

#include <math.h>
#include <string.h>

enum { OP_ADD, OP_SUBTRACT, OP_MULTIPLY, OP_DIVIDE, OP_FLOOR_DIVIDE, OP_MOD, OP_POWER };

static const struct {
	const char *function, *symbol;
} operators[] = {
	{"add", "+"},           {"subtract", "-"}, {"multiply", "*"}, {"divide", "/"},
	{"floor_divide", "//"}, {"mod", "%"},      {"power", "**"},
};

static int fail_at(const struct weir_call *call, uint32_t row, int code, const char *what, struct weir_error *err)
{
	char texts[2][WEIR_VALUE_TEXT_MAX];

	for (uint32_t i = 0; i < 2; i++) {
		const struct weir_column *column = &call->arguments[i];

		weir_value_format(column->type,
				  (const uint8_t *)column->values +
					  (size_t)(row & weir_call_mask(call, i)) * column->type->byte_width,
				  texts[i]);
	}
	return weir_call_fail(call, row, err, code, "%s %s %s %s", texts[0], operators[call->node->op].symbol, texts[1],
			      what);
}

/* The dense kernels write what is left of a result that does not fit; that they say so is of no interest here. */
static int kernel_dense(struct weir_call *call, struct weir_error *err)
{
	enum weir_number number = weir_type_number(call->arguments[0].type);
	uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1);
	enum weir_operands operands = !mask_b && mask_a   ? WEIR_COLUMN_CONSTANT
				      : !mask_a && mask_b ? WEIR_CONSTANT_COLUMN
							  : WEIR_COLUMN_COLUMN;

	(void)err;
	weir_expr_kernels()->arith[number][call->node->op][operands](
		call->arguments[0].values, call->arguments[1].values, call->row_count, call->values);
	return WEIR_OK;
}

/* The loop over rows that count: x and y are the operands, out[row] the result. */
#define ROWS(type, type_out, ...)                                                                                      \
	const type *a = call->arguments[0].values, *b = call->arguments[1].values;                                     \
	uint32_t mask_a = weir_call_mask(call, 0), mask_b = weir_call_mask(call, 1);                                   \
	type_out *out = call->values;                                                                                  \
                                                                                                                       \
	(void)err;                                                                                                     \
	for (uint32_t k = 0; k < call->rows.count; k++) {                                                              \
		uint32_t row = weir_call_row(call, k);                                                                 \
		type x = a[row & mask_a], y = b[row & mask_b];                                                         \
                                                                                                                       \
		__VA_ARGS__                                                                                            \
	}                                                                                                              \
	return WEIR_OK;

#define INTEGERS(name, type)                                                                                           \
	static int name##_divide(struct weir_call *call, struct weir_error *err)                                       \
	{                                                                                                              \
		ROWS(type, type, {                                                                                     \
			if (!y)                                                                                        \
				return fail_at(call, row, WEIR_E_ZERO_DIVISION, "divides by zero", err);               \
			/* The one quotient that does not fit is 0, as there. */                                       \
			if (WEIR_NEGATIVE((type)-1) && y == (type)-1)                                                  \
				out[row] = __builtin_sub_overflow((type)0, x, &x) ? 0 : x;                             \
			else                                                                                           \
				out[row] = (type)(x / y);                                                              \
		})                                                                                                     \
	}                                                                                                              \
                                                                                                                       \
	static int name##_power(struct weir_call *call, struct weir_error *err)                                        \
	{                                                                                                              \
		ROWS(type, type, {                                                                                     \
			type power = 1;                                                                                \
                                                                                                                       \
			if (WEIR_NEGATIVE(y))                                                                          \
				return fail_at(call, row, WEIR_E_VALUE, "is no integer; cast one to float64", err);    \
			for (; y; y = (type)(y / 2)) {                                                                 \
				if (y & 1)                                                                             \
					(void)__builtin_mul_overflow(power, x, &power);                                \
				(void)__builtin_mul_overflow(x, x, &x);                                                \
			}                                                                                              \
			out[row] = power;                                                                              \
		})                                                                                                     \
	}

INTEGERS(i8, int8_t)
INTEGERS(i16, int16_t)
INTEGERS(i32, int32_t)
INTEGERS(i64, int64_t)
INTEGERS(u8, uint8_t)
INTEGERS(u16, uint16_t)
INTEGERS(u32, uint32_t)
INTEGERS(u64, uint64_t)

/* Quotient and rest of integers, rounded down, then as float64: exact as far as a float64 is. */
#define FLOOR_INTEGERS(name, type)                                                                                     \
	static int name##_floor(struct weir_call *call, struct weir_error *err)                                        \
	{                                                                                                              \
		bool wants_rest = call->node->op == OP_MOD;                                                            \
                                                                                                                       \
		ROWS(type, double, {                                                                                   \
			type quotient, rest;                                                                           \
                                                                                                                       \
			if (!y)                                                                                        \
				return fail_at(call, row, WEIR_E_ZERO_DIVISION, "divides by zero", err);               \
			if (WEIR_NEGATIVE((type)-1) && y == (type)-1) {                                                \
				out[row] = wants_rest ? 0.0 : x ? -(double)x : 0.0;                                    \
				continue;                                                                              \
			}                                                                                              \
			quotient = x / y;                                                                              \
			rest = x % y;                                                                                  \
			if (rest && WEIR_NEGATIVE(rest) != WEIR_NEGATIVE(y)) {                                         \
				quotient--;                                                                            \
				rest += y;                                                                             \
			}                                                                                              \
			out[row] = (double)(wants_rest ? rest : quotient);                                             \
		})                                                                                                     \
	}

FLOOR_INTEGERS(i64, int64_t)
FLOOR_INTEGERS(u64, uint64_t)

#define FLOATS(name, type, FLOOR, POW)                                                                                 \
	static int name##_floor(struct weir_call *call, struct weir_error *err)                                        \
	{                                                                                                              \
		bool wants_rest = call->node->op == OP_MOD;                                                            \
                                                                                                                       \
		ROWS(type, type, {                                                                                     \
			type whole = FLOOR(x / y), product = whole * y;                                                \
                                                                                                                       \
			out[row] = wants_rest ? x - product : whole;                                                   \
		})                                                                                                     \
	}                                                                                                              \
                                                                                                                       \
	static int name##_power(struct weir_call *call, struct weir_error *err)                                        \
	{                                                                                                              \
		ROWS(type, type, { out[row] = POW(x, y); })                                                            \
	}

FLOATS(f32, float, floorf, powf)
FLOATS(f64, double, floor, pow)

static weir_node_kernel *const divides[] = {i8_divide, i16_divide, i32_divide, i64_divide,
					    u8_divide, u16_divide, u32_divide, u64_divide};
static weir_node_kernel *const powers[] = {i8_power,  i16_power, i32_power, i64_power, u8_power,
					   u16_power, u32_power, u64_power, f32_power, f64_power};

static bool is_plain(const struct weir_type *type)
{
	return weir_type_is_integer(type) || weir_type_is_float(type);
}

/* The node becomes one of another function, with the arguments it has. */
static int bind_as(struct weir_program *program, struct weir_node *node, const char *name, struct weir_error *err)
{
	node->function = weir_function_find(name);
	node->op = node->function->op;
	return node->function->bind(program, node, err);
}

static int bind_operator(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *a = node->arguments[0]->type, *b = node->arguments[1]->type, *type, *operand;
	uint32_t op = node->op;
	int code;

	if (!is_plain(a) || !is_plain(b) || weir_node_is_none(node->arguments[0]) ||
	    weir_node_is_none(node->arguments[1]))
		return bind_as(program, node, operators[op].function, err);
	weir_error_clear(err);
	type = operand = weir_promote(program, a, b, err);
	if (!type)
		return err->code ? err->code : bind_as(program, node, operators[op].function, err);
	if (type->id == WEIR_HALF)
		type = operand = weir_type_of(WEIR_FLOAT);
	if (weir_type_is_integer(type) && (op == OP_FLOOR_DIVIDE || op == OP_MOD)) {
		operand = weir_type_of(weir_type_is_signed(type) ? WEIR_INT64 : WEIR_UINT64);
		type = weir_type_of(WEIR_DOUBLE);
	}
	for (uint32_t i = 0; i < 2; i++) {
		code = weir_bind_cast(program, &node->arguments[i], operand, !weir_type_is_float(operand), err);
		if (code)
			return code;
	}
	if (op == OP_POWER)
		weir_bind_kernel(node, type, powers[weir_type_number(type)]);
	else if (op == OP_FLOOR_DIVIDE || op == OP_MOD)
		weir_bind_kernel(node, type,
				 operand->id == WEIR_INT64    ? i64_floor
				 : operand->id == WEIR_UINT64 ? u64_floor
				 : operand->id == WEIR_FLOAT  ? f32_floor
							      : f64_floor);
	else if (op == OP_DIVIDE && weir_type_is_integer(type))
		weir_bind_kernel(node, type, divides[weir_type_number(type)]);
	else
		weir_bind_kernel(node, type, kernel_dense);
	node->needs_rows = node->kernel != kernel_dense;
	node->may_fail = node->needs_rows && weir_type_is_integer(operand);
	return WEIR_OK;
}

/* ---- a plain function, and what becomes of its type ---- */

enum turn {
	KEEP_FLOAT,      /* float32 of float32 */
	WHOLE_TO_DOUBLE, /* float64 of integers */
	WHOLE_TO_INT8,   /* int8 of integers */
	TO_INT32,
};

static const struct {
	const char *function;
	enum turn turn;
} turned[] = {
	{"exp", KEEP_FLOAT},        {"ln", KEEP_FLOAT},        {"log10", KEEP_FLOAT},      {"log2", KEEP_FLOAT},
	{"log1p", KEEP_FLOAT},      {"sqrt", KEEP_FLOAT},      {"sin", KEEP_FLOAT},        {"cos", KEEP_FLOAT},
	{"tan", KEEP_FLOAT},        {"asin", KEEP_FLOAT},      {"acos", KEEP_FLOAT},       {"atan", KEEP_FLOAT},
	{"floor", WHOLE_TO_DOUBLE}, {"ceil", WHOLE_TO_DOUBLE}, {"trunc", WHOLE_TO_DOUBLE}, {"sign", WHOLE_TO_INT8},
	{"length", TO_INT32},       {"byte_length", TO_INT32}, {"byte_find", TO_INT32},    {"count", TO_INT32},
};

static int bind_turned(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *from = node->arguments[0]->type, *to = NULL;
	enum turn turn = turned[node->op].turn;
	struct weir_node *inner;
	const char *text = node->text;
	uint32_t number = node->number;
	int code = WEIR_OK;

	inner = weir_bind_call(program, turned[node->op].function, node->arguments, node->count, text, err);
	if (!inner)
		return err->code;
	if (turn == KEEP_FLOAT && (from->id == WEIR_FLOAT || from->id == WEIR_HALF))
		to = weir_type_of(WEIR_FLOAT);
	else if (turn == WHOLE_TO_DOUBLE && weir_type_is_integer(from))
		to = weir_type_of(WEIR_DOUBLE);
	else if (turn == WHOLE_TO_INT8 && weir_type_is_integer(from))
		to = weir_type_of(WEIR_INT8);
	else if (turn == TO_INT32) /* lengths of what may be longer are longer */
		to = weir_type_of(from->id == WEIR_LARGE_STRING || from->id == WEIR_LARGE_BINARY ||
						  from->id == WEIR_LARGE_LIST
					  ? WEIR_INT64
					  : WEIR_INT32);
	if (to)
		code = weir_bind_cast(program, &inner, to, false, err);
	if (code)
		return code;
	*node = *inner;
	node->text = text;
	node->number = number;
	return WEIR_OK;
}

/* ---- a plain function of several kinds of values, for one of them ---- */

static bool is_list(const struct weir_type *type)
{
	return weir_nested_is_list(type) && type->id != WEIR_MAP;
}

static bool is_struct(const struct weir_type *type)
{
	return type->id == WEIR_STRUCT;
}

static const struct {
	const char *function;
	bool (*takes)(const struct weir_type *type);
} limited[] = {
	{"arrow_length", weir_type_is_text},
	{"arrow_length", is_list},
	{"slice", weir_type_is_text},
	{"element", is_list},
	{"field", is_struct},
};

static int bind_limited(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_node *first = node->arguments[0];

	if (!weir_node_is_none(first) && !limited[node->op].takes(first->type))
		return weir_nested_refuse(program, node, err);
	return bind_as(program, node, limited[node->op].function, err);
}

const struct weir_function weir_functions_arrow[] = {
	{"arrow_add", 2, 2, bind_operator, OP_ADD},
	{"arrow_subtract", 2, 2, bind_operator, OP_SUBTRACT},
	{"arrow_multiply", 2, 2, bind_operator, OP_MULTIPLY},
	{"arrow_divide", 2, 2, bind_operator, OP_DIVIDE},
	{"arrow_floor_divide", 2, 2, bind_operator, OP_FLOOR_DIVIDE},
	{"arrow_mod", 2, 2, bind_operator, OP_MOD},
	{"arrow_power", 2, 2, bind_operator, OP_POWER},
	{"arrow_exp", 1, 1, bind_turned, 0},
	{"arrow_ln", 1, 1, bind_turned, 1},
	{"arrow_log10", 1, 1, bind_turned, 2},
	{"arrow_log2", 1, 1, bind_turned, 3},
	{"arrow_log1p", 1, 1, bind_turned, 4},
	{"arrow_sqrt", 1, 1, bind_turned, 5},
	{"arrow_sin", 1, 1, bind_turned, 6},
	{"arrow_cos", 1, 1, bind_turned, 7},
	{"arrow_tan", 1, 1, bind_turned, 8},
	{"arrow_asin", 1, 1, bind_turned, 9},
	{"arrow_acos", 1, 1, bind_turned, 10},
	{"arrow_atan", 1, 1, bind_turned, 11},
	{"arrow_floor", 1, 1, bind_turned, 12},
	{"arrow_ceil", 1, 1, bind_turned, 13},
	{"arrow_trunc", 1, 1, bind_turned, 14},
	{"arrow_sign", 1, 1, bind_turned, 15},
	{"arrow_length", 1, 1, bind_turned, 16},
	{"arrow_byte_length", 1, 1, bind_turned, 17},
	{"arrow_find", 2, 2, bind_turned, 18},
	{"arrow_count", 2, 2, bind_turned, 19},
	{"arrow_text_length", 1, 1, bind_limited, 0},
	{"arrow_list_length", 1, 1, bind_limited, 1},
	{"arrow_text_slice", 2, 3, bind_limited, 2},
	{"arrow_element", 2, 2, bind_limited, 3},
	{"arrow_field", 2, 2, bind_limited, 4},
	{0},
};
