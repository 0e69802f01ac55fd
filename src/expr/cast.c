/* Casts: checked, naming the value and the row that does not fit; or, where the engine promotes ints to floats itself,
 * as C converts.
 *
 *     number ↔ number, bool     nothing may be lost; floats among themselves are rounded
 *     anything ↔ string         as Python and ISO 8601 write it (value.h)
 *     decimal ↔ number          digits past the scale are an error, except from floats, which are rounded
 *     date, time, timestamp     units finer or coarser, whole only; a timestamp's date is the day it lies in
 *     int ↔ temporal            the number itself
 *     list, struct, map         to a wider one of the same kind
 */
#include "base/utf8.h"
#include "arrow/decimal.h"
#include "expr/program.h"

#include <math.h>
#include <string.h>

static int fail_value(const struct weir_call *call, uint32_t row, struct weir_error *err)
{
	const struct weir_column *column = &call->arguments[0];
	uint32_t from = row & weir_call_mask(call, 0);
	char text[WEIR_VALUE_TEXT_MAX], name[96];

	if (column->type->layout == WEIR_LAYOUT_BYTES) {
		const struct weir_view *view = (const struct weir_view *)column->values + from;

		weir_call_fail(call, row, err, WEIR_E_CAST, "'%.*s' cannot be cast to %s",
			       (int)(view->size > 80 ? 80 : view->size), (const char *)weir_view_bytes(view),
			       weir_type_name(call->node->type, name, sizeof(name)));
		weir_error_at_value(err, (const char *)weir_view_bytes(view), view->size);
		return err->code;
	}
	weir_value_format(column->type, (const uint8_t *)column->values + from * column->type->byte_width, text);
	weir_call_fail(call, row, err, WEIR_E_CAST, "%s cannot be cast to %s", text,
		       weir_type_name(call->node->type, name, sizeof(name)));
	weir_error_at_value(err, text, strlen(text));
	return err->code;
}

/* op: checked. */
static int kernel_numbers(struct weir_call *call, struct weir_error *err)
{
	enum weir_number from = weir_type_number(call->arguments[0].type), to = weir_type_number(call->node->type);
	const void *in = call->arguments[0].values;
	struct weir_selection rows = call->rows;
	int32_t failed;

	if (!call->rows.rows || call->rows.count * 4 >= call->row_count) {
		if (!weir_expr_kernels()->convert[from][to](in, call->row_count, call->values) || !call->node->op)
			return WEIR_OK;
	}
	if (call->valid && call->node->op) {
		uint16_t *list = weir_arena_alloc(call->arena, WEIR_VECTOR_ROWS * sizeof(*list), err);

		if (!list)
			return err->code;
		rows.count = weir_select_bits(&call->rows, call->valid, NULL, list);
		rows.rows = list;
	}
	failed = weir_convert_rows_table[from][to](in, rows.rows, rows.count, call->values);
	return failed < 0 || !call->node->op ? WEIR_OK : fail_value(call, (uint32_t)failed, err);
}

static int kernel_half_to_float(struct weir_call *call, struct weir_error *err)
{
	(void)err;
	for (uint32_t i = 0; i < call->row_count; i++)
		((float *)call->values)[i] = weir_half_to_float(((const uint16_t *)call->arguments[0].values)[i]);
	return WEIR_OK;
}

static int kernel_float_to_half(struct weir_call *call, struct weir_error *err)
{
	(void)err;
	for (uint32_t i = 0; i < call->row_count; i++)
		((uint16_t *)call->values)[i] = weir_float_to_half(((const float *)call->arguments[0].values)[i]);
	return WEIR_OK;
}

static int kernel_from_bool(struct weir_call *call, struct weir_error *err)
{
	const uint64_t *bits = call->arguments[0].values;

	(void)err;
	for (uint32_t i = 0; i < call->row_count; i++)
		((uint8_t *)call->values)[i] = weir_bit_at(bits, i);
	return WEIR_OK;
}

static int kernel_to_bool(struct weir_call *call, struct weir_error *err)
{
	static const uint64_t zero;

	(void)err;
	weir_vector_kernels()->compare_constant[weir_type_number(call->arguments[0].type)][WEIR_NE](
		call->arguments[0].values, &zero, call->row_count, call->values);
	return WEIR_OK;
}

static int kernel_parse(struct weir_call *call, struct weir_error *err)
{
	const struct weir_view *in = call->arguments[0].values;
	const struct weir_type *type = call->node->type;

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const char *text = (const char *)weir_view_bytes(&in[row]);
		uint8_t bit = 0;
		bool is_bit = type->layout == WEIR_LAYOUT_BITS;

		if (!weir_value_parse(type, text, in[row].size,
				      is_bit ? &bit : (uint8_t *)call->values + (size_t)row * type->byte_width))
			return fail_value(call, row, err);
		if (bit)
			weir_bit_set(call->values, row);
	}
	return WEIR_OK;
}

static int kernel_format(struct weir_call *call, struct weir_error *err)
{
	const struct weir_type *type = call->arguments[0].type;
	struct weir_view *out = call->values;
	uint8_t *bytes = weir_arena_alloc(call->arena, (size_t)call->rows.count * WEIR_VALUE_TEXT_MAX, err);

	if (!bytes)
		return err->code;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const uint8_t *value = (const uint8_t *)call->arguments[0].values + (size_t)row * type->byte_width;
		char text[WEIR_VALUE_TEXT_MAX];
		uint8_t bit;
		size_t size;

		if (type->layout == WEIR_LAYOUT_BITS) {
			bit = weir_bit_at(call->arguments[0].values, row);
			value = &bit;
		}
		size = weir_value_format(type, value, text);
		memcpy(bytes, text, size);
		out[row] = weir_view_make(bytes, (uint32_t)size);
		if (size > WEIR_VIEW_INLINE)
			bytes += size;
	}
	return WEIR_OK;
}

/* Bytes among themselves; to text they must be UTF-8. */
static int kernel_bytes(struct weir_call *call, struct weir_error *err)
{
	const struct weir_type *from = call->arguments[0].type;
	bool checks = weir_type_is_text(call->node->type) && !weir_type_is_text(from);
	struct weir_view *out = call->values;

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);

		if (from->id == WEIR_FIXED_BINARY)
			out[row] = weir_view_make((const uint8_t *)call->arguments[0].values +
							  (size_t)row * from->byte_width,
						  from->byte_width);
		else
			out[row] = ((const struct weir_view *)call->arguments[0].values)[row];
		if (checks && !weir_utf8_valid(weir_view_bytes(&out[row]), out[row].size))
			return weir_call_fail(call, row, err, WEIR_E_CAST, "the bytes are not valid UTF-8");
	}
	return WEIR_OK;
}

static int kernel_to_fixed_binary(struct weir_call *call, struct weir_error *err)
{
	uint32_t width = call->node->type->byte_width;

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const struct weir_view *view = (const struct weir_view *)call->arguments[0].values + row;

		if (view->size != width)
			return weir_call_fail(call, row, err, WEIR_E_CAST, "%u bytes where %u are needed", view->size,
					      width);
		memcpy((uint8_t *)call->values + (size_t)row * width, weir_view_bytes(view), width);
	}
	return WEIR_OK;
}

/* Decimals, ints (as int64 or uint64) and doubles among each other. */
static int kernel_decimal(struct weir_call *call, struct weir_error *err)
{
	const struct weir_type *from = call->arguments[0].type, *to = call->node->type;
	uint32_t width = from->byte_width;

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const uint8_t *in = (const uint8_t *)call->arguments[0].values + (size_t)row * width;
		uint8_t *out = (uint8_t *)call->values + (size_t)row * to->byte_width;
		struct weir_int256 value;
		__int128 narrow;
		bool fits = true;

		if (weir_type_is_decimal(from))
			value = weir_int256_load(in, width);
		else if (from->id == WEIR_INT64)
			value = weir_int256_from(*(const int64_t *)in);
		else if (from->id == WEIR_UINT64)
			value = weir_int256_from(*(const uint64_t *)in);
		else
			fits = weir_decimal_from_double(*(const double *)in, to->precision, to->scale, &value);
		if (weir_type_is_decimal(to)) {
			if (fits && from->id != WEIR_DOUBLE)
				fits = weir_decimal_rescale(&value, weir_type_is_decimal(from) ? from->scale : 0,
							    to->scale, false, &value) &&
				       weir_int256_fits(&value, to->precision);
			fits = fits && weir_int256_store(&value, out, to->byte_width);
		} else if (to->id == WEIR_DOUBLE) {
			*(double *)out = weir_decimal_to_double(&value, from->scale);
		} else {
			fits = weir_decimal_rescale(&value, from->scale, 0, false, &value) &&
			       weir_int256_to_int128(&value, &narrow);
			if (fits && to->id == WEIR_INT64) {
				*(int64_t *)out = (int64_t)narrow;
				fits = narrow >= INT64_MIN && narrow <= INT64_MAX;
			} else if (fits) {
				*(uint64_t *)out = (uint64_t)narrow;
				fits = narrow >= 0 && narrow <= (__int128)UINT64_MAX;
			}
		}
		if (!fits)
			return fail_value(call, row, err);
	}
	return WEIR_OK;
}

/* decimal128 to a decimal128 of a larger scale: what arithmetic does all the time. */
static int kernel_decimal128_up(struct weir_call *call, struct weir_error *err)
{
	const struct weir_type *from = call->arguments[0].type, *to = call->node->type;
	__int128 factor = weir_int128_pow10(to->scale - from->scale), limit = weir_int128_pow10(to->precision);
	const __int128 *in = call->arguments[0].values;
	__int128 *out = call->values;

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);

		if (__builtin_mul_overflow(in[row], factor, &out[row]) || out[row] >= limit || out[row] <= -limit)
			return fail_value(call, row, err);
	}
	return WEIR_OK;
}

/* Temporal units: value × multiplier, or value / divisor, rounded down or exact. */
struct scaling {
	int64_t multiplier, divisor;
	bool is_floor;
	int64_t modulus; /* first taken modulo this, rounded down: a timestamp's time of day; 0: not */
	int64_t step;    /* then rounded down to a multiple of it; 0: not */
};

static int kernel_scaled(struct weir_call *call, struct weir_error *err)
{
	const struct scaling *scaling = call->node->data;
	bool narrow_in = call->arguments[0].type->byte_width == 4, narrow_out = call->node->type->byte_width == 4;

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int64_t value = narrow_in ? ((const int32_t *)call->arguments[0].values)[row]
					  : ((const int64_t *)call->arguments[0].values)[row];
		bool lost = false;

		if (scaling->modulus)
			value = weir_floor_mod(value, scaling->modulus);
		if (scaling->step)
			lost = __builtin_mul_overflow(weir_floor_div(value, scaling->step), scaling->step, &value);
		if (scaling->divisor > 1) {
			lost |= !scaling->is_floor && value % scaling->divisor;
			value = weir_floor_div(value, scaling->divisor);
		}
		lost |= __builtin_mul_overflow(value, scaling->multiplier, &value);
		lost |= narrow_out && value != (int32_t)value;
		if (lost)
			return fail_value(call, row, err);
		if (narrow_out)
			((int32_t *)call->values)[row] = (int32_t)value;
		else
			((int64_t *)call->values)[row] = value;
	}
	return WEIR_OK;
}

static bool is_date(const struct weir_type *type)
{
	return type->id == WEIR_DATE32 || type->id == WEIR_DATE64;
}

static bool is_time(const struct weir_type *type)
{
	return type->id == WEIR_TIME32 || type->id == WEIR_TIME64;
}

/* How many of its units make a day. */
static int64_t units_per_day(const struct weir_type *type)
{
	return type->id == WEIR_DATE32   ? 1
	       : type->id == WEIR_DATE64 ? 86400000
					 : 86400 * weir_unit_per_second(type->unit);
}

static bool scaling_between(const struct weir_type *from, const struct weir_type *to, struct scaling *out)
{
	bool instants = (is_date(from) || from->id == WEIR_TIMESTAMP) && (is_date(to) || to->id == WEIR_TIMESTAMP);
	int64_t a, b;

	*out = (struct scaling){.multiplier = 1, .divisor = 1};
	if (from->id == WEIR_TIMESTAMP && is_time(to) && !from->timezone)
		out->modulus = units_per_day(from);
	else if (!instants && !(is_time(from) && is_time(to)) &&
		 !(from->id == WEIR_DURATION && to->id == WEIR_DURATION))
		return false;
	/* The wall clock of another zone is not known here. */
	if (from->id == WEIR_TIMESTAMP && from->timezone && is_date(to) && !weir_timezone_is_utc(from->timezone))
		return false;
	if (from->id == WEIR_TIMESTAMP && to->id == WEIR_TIMESTAMP && !from->timezone != !to->timezone &&
	    !weir_timezone_is_utc(from->timezone ? from->timezone : to->timezone))
		return false;
	a = units_per_day(from);
	b = units_per_day(to);
	if (b >= a)
		out->multiplier = b / a;
	else
		out->divisor = a / b;
	if (from->id == WEIR_TIMESTAMP && is_date(to)) {
		out->is_floor = true;
		/* A date64 counts milliseconds, but whole days of them. */
		out->step = units_per_day(from);
	}
	return true;
}

static int refuse(struct weir_program *program, const struct weir_node *node, const struct weir_type *type,
		  struct weir_error *err)
{
	char a[96], b[96];

	return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s (%s) cannot be cast to %s",
			      weir_type_name(node->arguments[0]->type, a, sizeof(a)), node->arguments[0]->text,
			      weir_type_name(type, b, sizeof(b)));
}

/* The argument first becomes `step`. */
static int through(struct weir_program *program, struct weir_node *node, enum weir_type_id step,
		   const struct weir_type *type, bool checked, struct weir_error *err)
{
	int code = weir_bind_cast(program, &node->arguments[0], weir_type_of(step), checked, err);

	return code ? code : weir_cast_bind(program, node, type, checked, err);
}

static bool is_plain_number(const struct weir_type *type)
{
	return weir_type_is_integer(type) || type->id == WEIR_FLOAT || type->id == WEIR_DOUBLE;
}

static int bind_decimal(struct weir_program *program, struct weir_node *node, const struct weir_type *type,
			bool checked, struct weir_error *err)
{
	const struct weir_type *from = node->arguments[0]->type;

	if (weir_type_is_integer(from) && from->byte_width < 8)
		return through(program, node, WEIR_INT64, type, checked, err);
	if (from->id == WEIR_FLOAT)
		return through(program, node, WEIR_DOUBLE, type, checked, err);
	if (weir_type_is_integer(type) && type->byte_width < 8)
		return through(program, node, WEIR_INT64, type, checked, err);
	if (type->id == WEIR_FLOAT)
		return through(program, node, WEIR_DOUBLE, type, checked, err);
	if (!(weir_type_is_decimal(from) || from->id == WEIR_INT64 || from->id == WEIR_UINT64 ||
	      from->id == WEIR_DOUBLE) ||
	    !(weir_type_is_decimal(type) || type->id == WEIR_INT64 || type->id == WEIR_UINT64 ||
	      type->id == WEIR_DOUBLE))
		return refuse(program, node, type, err);
	weir_bind_kernel(node, type,
			 from->id == WEIR_DECIMAL128 && type->id == WEIR_DECIMAL128 && type->scale >= from->scale &&
					 type->scale - from->scale <= WEIR_DECIMAL128_PRECISION_MAX
				 ? kernel_decimal128_up
				 : kernel_decimal);
	node->needs_rows = true;
	/* To more digits on both sides of the point nothing can be lost. */
	node->may_fail = !(weir_type_is_decimal(from) && weir_type_is_decimal(type) && type->scale >= from->scale &&
			   type->precision - type->scale >= from->precision - from->scale) &&
			 type->id != WEIR_DOUBLE;
	return WEIR_OK;
}

/* Lists, structs and maps: child by child, as between files (arrow/unify.c); the rows of the vector alone. */
static int kernel_nested(struct weir_call *call, struct weir_error *err)
{
	const struct weir_column *column = &call->arguments[0];
	struct weir_array *rows = weir_array_slice(column->nested, column->nested_offset, call->row_count, err);

	if (!rows)
		return err->code;
	call->nested = weir_array_promote(call->eval->evaluator->account, rows, call->node->type, err);
	weir_array_unref(rows);
	return call->nested ? WEIR_OK : err->code;
}

static int bind_nested(struct weir_program *program, struct weir_node *node, const struct weir_type *type,
		       struct weir_error *err)
{
	const struct weir_type *both = weir_type_unify(program->account, node->arguments[0]->type, type, err);
	bool leads_there = both && weir_type_equal(both, type, false);

	weir_type_unref(both);
	if (!leads_there)
		return weir_code_is_memory(err->code) ? err->code : refuse(program, node, type, err);
	weir_bind_kernel(node, type, kernel_nested);
	return WEIR_OK;
}

int weir_cast_bind(struct weir_program *program, struct weir_node *node, const struct weir_type *type, bool checked,
		   struct weir_error *err)
{
	const struct weir_type *from = node->arguments[0]->type;
	bool from_bytes = from->layout == WEIR_LAYOUT_BYTES, to_bytes = type->layout == WEIR_LAYOUT_BYTES;
	struct scaling scaling, *kept;

	node->needs_rows = true;
	node->may_fail = true;
	if (from->layout == WEIR_LAYOUT_NESTED && type->layout == WEIR_LAYOUT_NESTED)
		return bind_nested(program, node, type, err);
	if (weir_type_is_text(from) && !to_bytes && type->layout != WEIR_LAYOUT_NESTED &&
	    type->id != WEIR_FIXED_BINARY) {
		weir_bind_kernel(node, type, kernel_parse);
		return type->layout == WEIR_LAYOUT_NULL || type->id == WEIR_INTERVAL_DAY_TIME ||
				       type->id == WEIR_INTERVAL_MONTH_DAY_NANO || type->id == WEIR_INTERVAL_MONTHS
			       ? refuse(program, node, type, err)
			       : WEIR_OK;
	}
	if (to_bytes && (from_bytes || from->id == WEIR_FIXED_BINARY)) {
		weir_bind_kernel(node, type, kernel_bytes);
		node->may_fail = weir_type_is_text(type) && !weir_type_is_text(from);
		return WEIR_OK;
	}
	if (from_bytes && type->id == WEIR_FIXED_BINARY) {
		weir_bind_kernel(node, type, kernel_to_fixed_binary);
		return WEIR_OK;
	}
	if (weir_type_is_text(type) && (from->layout == WEIR_LAYOUT_FIXED || from->layout == WEIR_LAYOUT_BITS) &&
	    from->id != WEIR_INTERVAL_MONTHS && from->id != WEIR_INTERVAL_DAY_TIME &&
	    from->id != WEIR_INTERVAL_MONTH_DAY_NANO) {
		weir_bind_kernel(node, type, kernel_format);
		node->may_fail = false;
		return WEIR_OK;
	}
	if (weir_type_is_decimal(from) || weir_type_is_decimal(type))
		return bind_decimal(program, node, type, checked, err);
	if (is_plain_number(from) && is_plain_number(type)) {
		weir_bind_kernel(node, type, kernel_numbers);
		node->op = checked;
		node->needs_rows = false;
		node->may_fail = checked && !(weir_type_is_float(from) && weir_type_is_float(type));
		return WEIR_OK;
	}
	node->needs_rows = false;
	node->may_fail = false;
	if (from->id == WEIR_HALF && type->id == WEIR_FLOAT) {
		weir_bind_kernel(node, type, kernel_half_to_float);
		return WEIR_OK;
	}
	if (from->id == WEIR_FLOAT && type->id == WEIR_HALF) {
		weir_bind_kernel(node, type, kernel_float_to_half);
		return WEIR_OK;
	}
	if (from->id == WEIR_HALF || type->id == WEIR_HALF)
		return through(program, node, WEIR_FLOAT, type, checked, err);
	if (from->id == WEIR_BOOL && type->id == WEIR_UINT8) {
		weir_bind_kernel(node, type, kernel_from_bool);
		return WEIR_OK;
	}
	if (from->id == WEIR_BOOL && is_plain_number(type))
		return through(program, node, WEIR_UINT8, type, checked, err);
	if (type->id == WEIR_BOOL && is_plain_number(from)) {
		weir_bind_kernel(node, type, kernel_to_bool);
		return WEIR_OK;
	}
	node->needs_rows = true;
	node->may_fail = true;
	if (weir_type_is_temporal(from) && weir_type_is_temporal(type)) {
		if (!scaling_between(from, type, &scaling))
			return refuse(program, node, type, err);
	} else if ((weir_type_is_temporal(from) && weir_type_is_integer(type)) ||
		   (weir_type_is_integer(from) && weir_type_is_temporal(type))) {
		const struct weir_type *time = weir_type_is_temporal(from) ? from : type;

		if (weir_type_number(time) == WEIR_NUMBER_COUNT || time->id == WEIR_INTERVAL_MONTHS)
			return refuse(program, node, type, err);
		if (weir_type_is_integer(from) && from->id != WEIR_INT32 && from->id != WEIR_INT64)
			return through(program, node, WEIR_INT64, type, checked, err);
		if (weir_type_is_integer(type) && type->id != WEIR_INT32 && type->id != WEIR_INT64)
			return through(program, node, WEIR_INT64, type, checked, err);
		scaling = (struct scaling){.multiplier = 1, .divisor = 1};
	} else {
		return refuse(program, node, type, err);
	}
	kept = weir_arena_alloc(&program->arena, sizeof(*kept), err);
	if (!kept)
		return err->code;
	*kept = scaling;
	node->data = kept;
	weir_bind_kernel(node, type, kernel_scaled);
	return WEIR_OK;
}

/* cast(x, "type"); op is the type id for int64(x), str(x) … */
static int bind_cast(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_node *name = node->count > 1 ? node->arguments[1] : NULL;
	const struct weir_type *type;

	if (name) {
		char *text;

		if (!weir_node_is_constant(name) || !weir_type_is_text(name->type) || name->value.is_null)
			return weir_bind_fail(program, node, err, WEIR_E_TYPE,
					      "the type is written as text: cast(x, 'int32')");
		text = weir_arena_strndup(&program->arena, (const char *)weir_view_bytes(&name->value.bytes),
					  name->value.bytes.size, err);
		type = text ? weir_program_keep(program, weir_type_parse(program->account, text, err), err) : NULL;
	} else if (node->op == WEIR_TIMESTAMP) {
		type = weir_program_keep(
			program, weir_type_temporal(program->account, WEIR_TIMESTAMP, WEIR_MICRO, NULL, err), err);
	} else {
		type = weir_type_of(node->op);
	}
	if (!type)
		return err->code;
	if (type->id == WEIR_DICTIONARY_TYPE)
		type = weir_type_values(type);
	node->count = 1;
	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	/* int(2.7) is 2, as in Python; cast(2.7, "int64") is an error. */
	if (!name && type->id == WEIR_INT64 &&
	    (weir_type_is_float(node->arguments[0]->type) || weir_type_is_decimal(node->arguments[0]->type))) {
		node->arguments[0] = weir_bind_call(program, "trunc", node->arguments, 1, node->text, err);
		if (!node->arguments[0])
			return err->code;
	}
	if (weir_type_equal(node->arguments[0]->type, type, false)) {
		const char *text = node->text;
		uint32_t number = node->number;

		*node = *node->arguments[0];
		node->text = text;
		node->number = number;
		return WEIR_OK;
	}
	return weir_cast_bind(program, node, type, true, err);
}

const struct weir_function weir_functions_cast[] = {
	{"cast", 2, 2, bind_cast, 0},
	{"float", 1, 1, bind_cast, WEIR_DOUBLE},
	{"str", 1, 1, bind_cast, WEIR_STRING},
	{"bool", 1, 1, bind_cast, WEIR_BOOL},
	{"int", 1, 1, bind_cast, WEIR_INT64},
	{"date", 1, 1, bind_cast, WEIR_DATE32},
	{"timestamp", 1, 1, bind_cast, WEIR_TIMESTAMP},
	{0},
};
