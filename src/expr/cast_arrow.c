/* arrow_cast(x, 'type', safe): casts as pyarrow.compute has them, for expressions of Python. A safe one is cast's, but
 * that floats become text in Arrow's form ('1', '1e+10'); one that is not safe cuts off what does not fit:
 *
 *     integers             wrap around
 *     floats to integers   the fraction goes; outside of the type: any value
 *     decimals             digits past the scale go
 *     times                cut towards zero, wrap around
 *
 * Lists, structs and maps are cast element by element, fields by name; a field that is not there is null.
 *
 *     plan        list ─▶ child plan ─▶ …      made while binding: leaves are nodes over a column that stands for the elements
 *     running     the rows that count are taken, elements cast in vectors of their own, lists built again around them
 */
#include "base/number.h"
#include "arrow/decimal.h"
#include "expr/functions_nested.h"

#include <math.h>
#include <string.h>

static int bind_leaf(struct weir_program *program, struct weir_node *node, const struct weir_type *type, bool is_safe,
		     struct weir_error *err);

/* ---- single values ---- */

/* What a C++ compiler for this machine makes of it. */
static int64_t whole_of(double value, uint32_t width)
{
	int64_t whole;

	if (!(value > -0x1p63 && value < 0x1p63))
		return width < 4 ? 0 : width == 4 ? INT32_MIN : INT64_MIN;
	whole = (int64_t)value;
	if (width < 8 && width != 0 && whole != (int32_t)whole)
		return width == 4 ? INT32_MIN : whole;
	return whole;
}

static int kernel_float_to_integer(struct weir_call *call, struct weir_error *err)
{
	const struct weir_type *type = call->node->type;
	bool is_signed = weir_type_is_signed(type);

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		double value = ((const double *)call->arguments[0].values)[row];
		int64_t whole = whole_of(value, is_signed ? type->byte_width : 8);

		if (type->id == WEIR_UINT64 && value >= 0x1p63 && value < 0x1p64)
			whole = (int64_t)(uint64_t)value;
		switch (type->byte_width) {
		case 1:
			((int8_t *)call->values)[row] = (int8_t)whole;
			break;
		case 2:
			((int16_t *)call->values)[row] = (int16_t)whole;
			break;
		case 4:
			((int32_t *)call->values)[row] = (int32_t)whole;
			break;
		default:
			((int64_t *)call->values)[row] = whole;
		}
	}
	return WEIR_OK;
}

/* The shortest digits, as a decimal from 1e-6 to 1e10, with an exponent otherwise. */
static size_t format_float(const struct weir_type *type, const void *value, char *out)
{
	char text[WEIR_VALUE_TEXT_MAX], digits[40];
	size_t size = weir_value_format(type, value, text), count = 0, at = 0, n = 0;
	int exponent = 0, point = -1;

	text[size] = 0;
	if (strpbrk(text, "ni")) { /* nan, inf */
		memcpy(out, text, size);
		return size;
	}
	if (text[at] == '-')
		out[n++] = text[at++];
	for (; at < size && text[at] != 'e'; at++) {
		if (text[at] == '.')
			point = (int)count;
		else
			digits[count++] = text[at];
	}
	if (at < size) {
		int64_t given = 0;
		bool is_negative = text[at + 1] == '-';

		for (at++; at < size; at++)
			given = text[at] >= '0' && text[at] <= '9' ? given * 10 + (text[at] - '0') : given;
		exponent = (int)(is_negative ? -given : given);
	}
	point = point < 0 ? (int)count : point;
	/* digits × 10^…: without zeros at either end */
	for (at = 0; at + 1 < count && digits[at] == '0'; at++)
		point--;
	memmove(digits, digits + at, count - at);
	count -= at;
	while (count > 1 && digits[count - 1] == '0')
		count--;
	if (digits[0] == '0') {
		out[n++] = '0';
		return n;
	}
	exponent += point - 1;
	if (exponent < -6 || exponent > 9) {
		out[n++] = digits[0];
		if (count > 1) {
			out[n++] = '.';
			memcpy(out + n, digits + 1, count - 1);
			n += count - 1;
		}
		out[n++] = 'e';
		out[n++] = exponent < 0 ? '-' : '+';
		return n + weir_format_u64((uint64_t)(exponent < 0 ? -exponent : exponent), out + n);
	}
	if (exponent < 0) {
		out[n++] = '0';
		out[n++] = '.';
		for (int i = -1; i > exponent; i--)
			out[n++] = '0';
		memcpy(out + n, digits, count);
		return n + count;
	}
	for (int i = 0; i <= exponent || i < (int)count; i++) {
		if (i == exponent + 1)
			out[n++] = '.';
		out[n++] = i < (int)count ? digits[i] : '0';
	}
	return n;
}

static int kernel_float_to_text(struct weir_call *call, struct weir_error *err)
{
	const struct weir_type *type = call->arguments[0].type;
	struct weir_view *out = call->values;
	char *bytes = weir_arena_alloc(call->arena, (size_t)call->rows.count * WEIR_VALUE_TEXT_MAX, err);

	if (!bytes)
		return err->code;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		size_t size = format_float(
			type, (const uint8_t *)call->arguments[0].values + (size_t)row * type->byte_width, bytes);

		out[row] = weir_view_make(bytes, (uint32_t)size);
		if (size > WEIR_VIEW_INLINE)
			bytes += size;
	}
	return WEIR_OK;
}

/* Decimals to decimals and integers: digits past the scale go. */
static int kernel_decimal(struct weir_call *call, struct weir_error *err)
{
	const struct weir_type *from = call->arguments[0].type, *to = call->node->type;
	bool is_decimal = weir_type_is_decimal(to);

	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		const uint8_t *in = (const uint8_t *)call->arguments[0].values + (size_t)row * from->byte_width;
		uint8_t *out = (uint8_t *)call->values + (size_t)row * to->byte_width, wide[32];
		struct weir_int256 value = weir_int256_load(in, from->byte_width);
		int32_t scale = is_decimal ? to->scale : 0;

		if (scale < from->scale) {
			/* To a whole number of the coarser unit, towards zero. */
			value = weir_decimal_to_whole(&value, from->scale - scale,
						      weir_int256_negative(&value) ? 1 : -1);
		} else if (scale > from->scale && !weir_decimal_rescale(&value, from->scale, scale, false, &value)) {
			return weir_call_fail(call, row, err, WEIR_E_CAST, "the digits are too many for the type");
		}
		weir_int256_store(&value, wide, 32);
		memcpy(out, wide, to->byte_width);
	}
	return WEIR_OK;
}

/* Times: value × multiplier / divisor, cut towards zero, wrapping around. */
struct scaling {
	int64_t multiplier, divisor;
};

static int kernel_scaled(struct weir_call *call, struct weir_error *err)
{
	const struct scaling *scaling = call->node->data;
	bool narrow_in = call->arguments[0].type->byte_width == 4, narrow_out = call->node->type->byte_width == 4;

	(void)err;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int64_t value = narrow_in ? ((const int32_t *)call->arguments[0].values)[row]
					  : ((const int64_t *)call->arguments[0].values)[row];

		(void)__builtin_mul_overflow(value, scaling->multiplier, &value);
		value /= scaling->divisor;
		if (narrow_out)
			((int32_t *)call->values)[row] = (int32_t)value;
		else
			((int64_t *)call->values)[row] = value;
	}
	return WEIR_OK;
}

static int bind_scaled(struct weir_program *program, struct weir_node *node, const struct weir_type *type,
		       struct weir_error *err)
{
	struct scaling *scaling = weir_arena_alloc(&program->arena, sizeof(*scaling), err);
	int64_t from = weir_unit_per_second(node->arguments[0]->type->unit), to = weir_unit_per_second(type->unit);

	if (!scaling)
		return err->code;
	*scaling = (struct scaling){.multiplier = to > from ? to / from : 1, .divisor = to < from ? from / to : 1};
	node->data = scaling;
	node->needs_rows = true;
	node->may_fail = false;
	weir_bind_kernel(node, type, kernel_scaled);
	return WEIR_OK;
}

/* ---- lists, structs, maps ---- */

struct plan {
	const struct weir_type *from, *to;
	const struct weir_node *leaf; /* NULL: nested, or nothing to do */
	bool is_same;
	struct plan *children; /* of a list: one; of a struct: one for each of `to` */
	int32_t *sources;      /* of a struct: the field of `from`; −1: null */
};

static int plan_make(struct weir_program *program, const struct weir_node *node, const struct weir_type *from,
		     const struct weir_type *to, bool is_safe, struct plan *out, struct weir_error *err)
{
	char a[96], b[96];
	uint32_t count = to->id == WEIR_STRUCT ? to->field_count : 1;
	int code = WEIR_OK;

	*out = (struct plan){.from = from, .to = to, .is_same = weir_type_equal(from, to, false)};
	if (out->is_same)
		return WEIR_OK;
	if (to->layout != WEIR_LAYOUT_NESTED || from->layout != WEIR_LAYOUT_NESTED) {
		struct weir_node *leaf = weir_bind_new(program, err), *column = weir_bind_new(program, err);

		if (!leaf || !column)
			return err->code;
		leaf->arguments = weir_arena_alloc(&program->arena, sizeof(*leaf->arguments), err);
		if (!leaf->arguments)
			return err->code;
		column->kind = WEIR_NODE_COLUMN; /* never read: something stands for it */
		column->type = from;
		column->text = leaf->text = node->text;
		leaf->kind = WEIR_NODE_CALL;
		leaf->count = 1;
		leaf->arguments[0] = column;
		out->leaf = leaf;
		return bind_leaf(program, leaf, to, is_safe, err);
	}
	if ((from->id == WEIR_STRUCT) != (to->id == WEIR_STRUCT) || (to->id == WEIR_MAP) != (from->id == WEIR_MAP))
		return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s cannot be cast to %s",
				      weir_type_name(from, a, sizeof(a)), weir_type_name(to, b, sizeof(b)));
	out->children = weir_arena_alloc_zero(&program->arena, (count + 1) * sizeof(*out->children), err);
	out->sources = weir_arena_alloc_zero(&program->arena, (count + 1) * sizeof(*out->sources), err);
	if (!out->children || !out->sources)
		return err->code;
	for (uint32_t i = 0; !code && i < count; i++) {
		if (to->id == WEIR_STRUCT) {
			out->sources[i] = -1;
			for (uint32_t j = 0; j < from->field_count && out->sources[i] < 0; j++) {
				/* A map's key and value go by their place. */
				if (!strcmp(from->fields[j].name, to->fields[i].name))
					out->sources[i] = (int32_t)j;
			}
		}
		if (out->sources[i] >= 0)
			code = plan_make(program, node, weir_type_values(from->fields[out->sources[i]].type),
					 to->fields[i].type, is_safe, &out->children[i], err);
	}
	return code;
}

static struct weir_array *plan_run(const struct weir_call *call, const struct plan *plan,
				   const struct weir_array *array, struct weir_error *err);

/* Values that are not nested, in vectors. */
static struct weir_array *run_leaf(const struct weir_call *call, const struct plan *plan,
				   const struct weir_array *array, struct weir_error *err)
{
	struct weir_account *account = call->eval->evaluator->account;
	struct weir_field field = {.name = "x", .type = plan->to, .nullable = true};
	struct weir_schema *schema = weir_schema_new(account, &field, 1, NULL, err);
	struct weir_gather *gather = NULL;
	struct weir_batch *batch = NULL;
	struct weir_array *out = NULL;
	int code = schema ? weir_gather_new(account, schema, &gather, err) : err->code;

	for (int64_t at = 0; !code && at < array->length; at += WEIR_VECTOR_ROWS) {
		uint32_t count = (uint32_t)(array->length - at < WEIR_VECTOR_ROWS ? array->length - at
										  : WEIR_VECTOR_ROWS);
		struct weir_column in, made;
		struct weir_vector vector = {
			.row_count = count, .selection = {.count = count}, .column_count = 1, .columns = &made};
		struct weir_eval eval = *call->eval;

		code = weir_column_from_array(array, at, count, eval.arena, &in, err);
		if (code)
			break;
		in.type = weir_type_values(in.type);
		eval.instead = &in;
		eval.row_count = count;
		eval.selection = (struct weir_selection){.count = count};
		code = plan->leaf->eval(&eval, plan->leaf, &made, err);
		if (!code) {
			made.type = plan->to;
			code = weir_gather_push(gather, &vector, err);
		}
	}
	if (!code)
		code = weir_gather_finish(gather, &batch, err);
	if (!code)
		out = weir_array_ref(batch->columns[0]);
	weir_batch_unref(batch);
	weir_gather_free(gather);
	weir_schema_unref(schema);
	return out;
}

static struct weir_array *run_list(const struct weir_call *call, const struct plan *plan,
				   const struct weir_array *array, struct weir_error *err)
{
	struct weir_account *account = call->eval->evaluator->account;
	struct weir_array *child = plan_run(call, &plan->children[0], array->children[0], err), *out = NULL;
	struct weir_builder builder;
	int code = child ? weir_builder_init(&builder, plan->to, account, err) : err->code;

	if (!child)
		return NULL;
	for (int64_t row = 0; !code && row < array->length; row++) {
		int64_t begin, length;

		if (!weir_array_is_valid(array, row)) {
			code = weir_builder_null(&builder, 1, err);
			continue;
		}
		weir_nested_range(array, row, &begin, &length);
		if (plan->to->id == WEIR_FIXED_LIST && length != plan->to->list_size) {
			code = weir_error_set(err, WEIR_E_CAST, "%s: a list of %lld cannot be one of %d",
					      call->node->text, (long long)length, plan->to->list_size);
			break;
		}
		if (length)
			code = weir_builder_array(&builder.children[0], child, begin, length, err);
		if (!code)
			code = weir_builder_list_end(&builder, err);
	}
	if (!code)
		out = weir_builder_finish(&builder, err);
	weir_builder_release(&builder);
	weir_array_unref(child);
	return out;
}

static struct weir_array *run_struct(const struct weir_call *call, const struct plan *plan,
				     const struct weir_array *array, struct weir_error *err)
{
	struct weir_account *account = call->eval->evaluator->account;
	struct weir_array *out = weir_array_new(account, plan->to, err);
	int code = WEIR_OK;

	if (!out)
		return NULL;
	for (uint32_t i = 0; !code && i < plan->to->field_count; i++) {
		struct weir_builder nulls;

		if (plan->sources[i] >= 0) {
			struct weir_array *part = weir_array_slice(array->children[plan->sources[i]], array->offset,
								   array->length, err);

			out->children[i] = part ? plan_run(call, &plan->children[i], part, err) : NULL;
			weir_array_unref(part);
		} else if (!weir_builder_init(&nulls, plan->to->fields[i].type, account, err)) {
			if (!weir_builder_null(&nulls, array->length, err))
				out->children[i] = weir_builder_finish(&nulls, err);
			weir_builder_release(&nulls);
		}
		code = out->children[i] ? WEIR_OK : err->code;
	}
	out->length = array->length;
	out->null_count = -1;
	if (!code && array->buffers[0].data) {
		uint8_t *writable;

		code = weir_buffer_new(account, (uint64_t)(array->length + 7) / 8, &out->buffers[0], &writable, err);
		for (int64_t row = 0; !code && row < array->length; row++) {
			if (weir_array_is_valid(array, row))
				writable[row >> 3] |= (uint8_t)(1 << (row & 7));
			else
				writable[row >> 3] &= (uint8_t) ~(1 << (row & 7));
		}
	}
	if (code) {
		weir_array_unref(out);
		return NULL;
	}
	return out;
}

static struct weir_array *plan_run(const struct weir_call *call, const struct plan *plan,
				   const struct weir_array *array, struct weir_error *err)
{
	if (plan->is_same)
		return weir_array_ref(array);
	if (plan->leaf)
		return run_leaf(call, plan, array, err);
	return plan->to->id == WEIR_STRUCT ? run_struct(call, plan, array, err) : run_list(call, plan, array, err);
}

static int kernel_nested(struct weir_call *call, struct weir_error *err)
{
	const struct weir_column *column = &call->arguments[0];
	struct weir_account *account = call->eval->evaluator->account;
	int64_t *rows = weir_arena_alloc(call->arena, ((size_t)call->row_count + 1) * sizeof(*rows), err);
	struct weir_array *taken;

	if (!rows)
		return err->code;
	for (uint32_t i = 0; i < call->row_count; i++)
		rows[i] = -1;
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);

		rows[row] = column->nested_offset + (row & weir_call_mask(call, 0));
	}
	taken = weir_array_take(account, column->nested, rows, call->row_count, err);
	call->nested = taken ? plan_run(call, call->node->data, taken, err) : NULL;
	weir_array_unref(taken);
	return call->nested ? WEIR_OK : err->code;
}

/* ---- binding ---- */

static int bind_nested(struct weir_program *program, struct weir_node *node, const struct weir_type *type, bool is_safe,
		       struct weir_error *err)
{
	struct plan *plan = weir_arena_alloc_zero(&program->arena, sizeof(*plan), err);
	int code = plan ? plan_make(program, node, node->arguments[0]->type, type, is_safe, plan, err) : err->code;

	if (code)
		return code;
	node->data = plan;
	node->needs_rows = true;
	node->may_fail = true;
	weir_bind_kernel(node, type, kernel_nested);
	return WEIR_OK;
}

static int bind_leaf(struct weir_program *program, struct weir_node *node, const struct weir_type *type, bool is_safe,
		     struct weir_error *err)
{
	const struct weir_type *from = node->arguments[0]->type;
	bool both_times = (from->id == WEIR_TIMESTAMP && type->id == WEIR_TIMESTAMP) ||
			  (from->id == WEIR_DURATION && type->id == WEIR_DURATION) ||
			  ((from->id == WEIR_TIME32 || from->id == WEIR_TIME64) &&
			   (type->id == WEIR_TIME32 || type->id == WEIR_TIME64));
	int code;

	if (weir_type_is_float(from) && from->id != WEIR_HALF && weir_type_is_text(type)) {
		node->needs_rows = true;
		weir_bind_kernel(node, type, kernel_float_to_text);
		return WEIR_OK;
	}
	if (is_safe)
		return weir_cast_bind(program, node, type, true, err);
	if (weir_type_is_float(from) && weir_type_is_integer(type)) {
		code = weir_bind_cast(program, &node->arguments[0], weir_type_of(WEIR_DOUBLE), false, err);
		node->needs_rows = true;
		weir_bind_kernel(node, type, kernel_float_to_integer);
		return code;
	}
	if (weir_type_is_decimal(from) && (weir_type_is_decimal(type) || weir_type_is_integer(type))) {
		node->needs_rows = true;
		node->may_fail = true;
		weir_bind_kernel(node, type, kernel_decimal);
		return WEIR_OK;
	}
	if (both_times)
		return bind_scaled(program, node, type, err);
	if ((weir_type_is_integer(from) || from->id == WEIR_BOOL) &&
	    (weir_type_is_integer(type) || weir_type_is_float(type)))
		return weir_cast_bind(program, node, type, false, err);
	return weir_cast_bind(program, node, type, true, err);
}

static int bind_cast(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_node *name = node->arguments[1], *safe = node->arguments[2];
	const struct weir_type *type;
	char *text;

	if (!weir_node_is_constant(name) || !weir_type_is_text(name->type) || name->value.is_null ||
	    !weir_node_is_constant(safe) || safe->type->id != WEIR_BOOL || safe->value.is_null)
		return weir_bind_fail(program, node, err, WEIR_E_TYPE,
				      "the type is written as text: arrow_cast(x, 'int32', False)");
	text = weir_arena_strndup(&program->arena, (const char *)weir_view_bytes(&name->value.bytes),
				  name->value.bytes.size, err);
	type = text ? weir_program_keep(program, weir_type_parse(program->account, text, err), err) : NULL;
	if (!type)
		return err->code;
	type = weir_type_values(type);
	node->count = 1;
	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	if (weir_type_equal(node->arguments[0]->type, type, false)) {
		const char *kept = node->text;
		uint32_t number = node->number;

		*node = *node->arguments[0];
		node->text = kept;
		node->number = number;
		return WEIR_OK;
	}
	if (type->layout == WEIR_LAYOUT_NESTED && node->arguments[0]->type->layout == WEIR_LAYOUT_NESTED)
		return bind_nested(program, node, type, safe->value.boolean, err);
	return bind_leaf(program, node, type, safe->value.boolean, err);
}

const struct weir_function weir_functions_cast_arrow[] = {
	{"arrow_cast", 3, 3, bind_cast, 0},
	{0},
};
