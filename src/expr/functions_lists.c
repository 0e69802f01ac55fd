/* Lists and maps as pyarrow.compute and Ray Data compute them: sorted lists, lists of lists flattened, slices with a
 * step, the keys and values of maps, arrays of one size as lists.
 *
 * Results are built from the elements of the rows that count: elements of other rows are never looked at.
 */
#include "expr/functions_nested.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int refuse_list(struct weir_program *program, const struct weir_node *node, const char *what,
		       struct weir_error *err)
{
	char name[96];

	return weir_bind_fail(program, node, err, WEIR_E_TYPE, "%s is for %s, not for %s (%s)", node->function->name,
			      what, weir_type_name(node->arguments[0]->type, name, sizeof(name)),
			      node->arguments[0]->text);
}

static bool is_list(const struct weir_type *type)
{
	return weir_nested_is_list(type) && type->id != WEIR_MAP;
}

/* list or large_list of a type, like another list. */
static const struct weir_type *list_like(struct weir_program *program, const struct weir_type *list,
					 const struct weir_type *type, struct weir_error *err)
{
	struct weir_field item = {.name = "item", .type = type, .nullable = true};

	return weir_program_keep(program,
				 weir_type_list(program->account,
						list->id == WEIR_LARGE_LIST ? WEIR_LARGE_LIST : WEIR_LIST_TYPE, &item,
						0, false, err),
				 err);
}

static bool is_present(const struct weir_array *array, int64_t row)
{
	const uint8_t *bits = array->buffers[0].data;
	int64_t at = array->offset + row;

	return array->type->layout != WEIR_LAYOUT_NULL && (!bits || bits[at >> 3] >> (at & 7) & 1);
}

/* ---- sort ---- */

enum { DESCENDING = 1, NULLS_FIRST = 2 };

struct order {
	const struct weir_array *items;
	bool is_descending, nulls_first;
};

static int64_t offset_in(const struct weir_array *array, int64_t place)
{
	const uint8_t *offsets = array->buffers[1].data;
	bool is_large = array->type->id == WEIR_LARGE_STRING || array->type->id == WEIR_LARGE_BINARY;

	return is_large ? ((const int64_t *)offsets)[place] : ((const int32_t *)offsets)[place];
}

static int compare_bytes(const struct weir_array *items, int64_t x, int64_t y)
{
	int64_t from_x = offset_in(items, x), size_x = offset_in(items, x + 1) - from_x;
	int64_t from_y = offset_in(items, y), size_y = offset_in(items, y + 1) - from_y;
	int64_t shorter = size_x < size_y ? size_x : size_y;
	const uint8_t *bytes = items->buffers[2].data;
	int result = shorter ? memcmp(bytes + from_x, bytes + from_y, (size_t)shorter) : 0;

	return result ? result : (size_x > size_y) - (size_x < size_y);
}

static int compare_exact(const struct weir_type *type, const uint8_t *data, int64_t x, int64_t y)
{
	__int128 v, w;

#define ORDER(ctype)                                                                                                   \
	(((const ctype *)data)[x] > ((const ctype *)data)[y]) - (((const ctype *)data)[x] < ((const ctype *)data)[y])
	switch (weir_type_number(type)) {
	case WEIR_I8:
		return ORDER(int8_t);
	case WEIR_I16:
		return ORDER(int16_t);
	case WEIR_I32:
		return ORDER(int32_t);
	case WEIR_I64:
		return ORDER(int64_t);
	case WEIR_U8:
		return ORDER(uint8_t);
	case WEIR_U16:
		return ORDER(uint16_t);
	case WEIR_U32:
		return ORDER(uint32_t);
	case WEIR_U64:
		return ORDER(uint64_t);
	default: /* decimal128 */
		memcpy(&v, data + x * 16, 16);
		memcpy(&w, data + y * 16, 16);
		return (v > w) - (v < w);
	}
#undef ORDER
}

static double float_at(const struct weir_array *items, int64_t place)
{
	const uint8_t *data = items->buffers[1].data;

	return items->type->id == WEIR_DOUBLE ? ((const double *)data)[place] : (double)((const float *)data)[place];
}

/* Where a value stands beside the others: numbers, NaN, null; or null first. */
static int compare_items(const struct order *order, int64_t a, int64_t b)
{
	const struct weir_array *items = order->items;
	bool has_a = is_present(items, a), has_b = is_present(items, b);
	const uint8_t *data = items->buffers[1].data;
	int64_t x = items->offset + a, y = items->offset + b;
	int last = order->nulls_first ? -1 : 1, result;

	if (!has_a || !has_b)
		return has_a == has_b ? 0 : has_a ? -last : last;
	if (items->type->layout == WEIR_LAYOUT_BITS) {
		result = (data[x >> 3] >> (x & 7) & 1) - (data[y >> 3] >> (y & 7) & 1);
	} else if (items->type->layout == WEIR_LAYOUT_BYTES) {
		result = compare_bytes(items, x, y);
	} else if (items->type->id == WEIR_DOUBLE || items->type->id == WEIR_FLOAT) {
		double v = float_at(items, x), w = float_at(items, y);

		/* NaN stands beside the nulls, in either order. */
		if (isnan(v) || isnan(w))
			return isnan(v) && isnan(w) ? 0 : isnan(v) ? last : -last;
		result = (v > w) - (v < w);
	} else {
		result = compare_exact(items->type, data, x, y);
	}
	return order->is_descending ? -result : result;
}

/* Stable: what is equal stays as it was. */
static void sort_places(const struct order *order, int64_t *places, int64_t *spare, int64_t count)
{
	int64_t half = count / 2, i = 0, j = half, k = 0;

	if (count <= 12) {
		for (i = 1; i < count; i++) {
			int64_t it = places[i];

			for (j = i; j > 0 && compare_items(order, places[j - 1], it) > 0; j--)
				places[j] = places[j - 1];
			places[j] = it;
		}
		return;
	}
	sort_places(order, places, spare, half);
	sort_places(order, places + half, spare, count - half);
	if (compare_items(order, places[half - 1], places[half]) <= 0)
		return;
	memcpy(spare, places, (size_t)half * sizeof(*spare));
	while (i < half)
		places[k++] = j < count && compare_items(order, spare[i], places[j]) > 0 ? places[j++] : spare[i++];
}

static int kernel_sort(struct weir_call *call, struct weir_error *err)
{
	const struct weir_column *list = &call->arguments[0];
	const struct weir_array *items = list->nested->children[0];
	struct order order = {.items = items,
			      .is_descending = call->node->op & DESCENDING,
			      .nulls_first = call->node->op & NULLS_FIRST};
	struct weir_builder builder;
	int code = weir_builder_init(&builder, call->node->type, call->eval->evaluator->account, err);

	for (uint32_t k = 0; !code && k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int64_t begin, length, *places;

		code = weir_lists_skip(&builder, row, err);
		weir_nested_range(list->nested, list->nested_offset + (row & weir_call_mask(call, 0)), &begin, &length);
		if (code || !length) {
			code = code ? code : weir_builder_list_end(&builder, err);
			continue;
		}
		places = weir_arena_alloc(call->arena, (size_t)length * 2 * sizeof(*places), err);
		if (!places) {
			code = err->code;
			break;
		}
		for (int64_t i = 0; i < length; i++)
			places[i] = begin + i;
		sort_places(&order, places, places + length, length);
		for (int64_t i = 0; !code && i < length;) { /* runs that lie together are appended together */
			int64_t run = 1;

			while (i + run < length && places[i + run] == places[i] + run)
				run++;
			code = weir_builder_array(&builder.children[0], items, places[i], run, err);
			i += run;
		}
		if (!code)
			code = weir_builder_list_end(&builder, err);
	}
	return weir_lists_end(call, &builder, code, err);
}

/* Literal number `argument`, one of two texts: 0 or 1. */
static int choice_at(struct weir_program *program, const struct weir_node *node, uint32_t argument, const char *first,
		     const char *second, bool *out, struct weir_error *err)
{
	const struct weir_node *given = argument < node->count ? node->arguments[argument] : NULL;
	const struct weir_view *text;

	*out = false;
	if (!given)
		return WEIR_OK;
	if (weir_node_is_constant(given) && weir_type_is_text(given->type) && !given->value.is_null) {
		text = &given->value.bytes;
		*out = text->size == strlen(second) && !memcmp(weir_view_bytes(text), second, text->size);
		if (*out || (text->size == strlen(first) && !memcmp(weir_view_bytes(text), first, text->size)))
			return WEIR_OK;
	}
	return weir_bind_fail(program, node, err, WEIR_E_VALUE, "argument %u is '%s' or '%s'", argument, first, second);
}

static int bind_sort(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type, *item;
	bool is_descending, nulls_first;
	int code = choice_at(program, node, 1, "ascending", "descending", &is_descending, err);

	if (!code)
		code = choice_at(program, node, 2, "at_end", "at_start", &nulls_first, err);
	if (code)
		return code;
	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	if (!is_list(type))
		return refuse_list(program, node, "lists", err);
	item = type->fields[0].type;
	if (!(item->layout == WEIR_LAYOUT_BITS || item->layout == WEIR_LAYOUT_BYTES ||
	      item->layout == WEIR_LAYOUT_NULL || item->id == WEIR_DECIMAL128 || item->id == WEIR_FLOAT ||
	      item->id == WEIR_DOUBLE ||
	      (item->layout == WEIR_LAYOUT_FIXED && weir_type_number(item) < WEIR_NUMBER_COUNT)))
		return refuse_list(program, node, "lists of values that have an order", err);
	/* A list that was sorted is named item inside, as pyarrow's is; one of a fixed size keeps its type. */
	if (type->id != WEIR_FIXED_LIST)
		type = list_like(program, type, item, err);
	if (!type)
		return err->code;
	node->op = (is_descending ? DESCENDING : 0) | (nulls_first ? NULLS_FIRST : 0);
	node->count = 1;
	weir_bind_kernel(node, type, kernel_sort);
	node->needs_rows = true;
	return WEIR_OK;
}

/* ---- flatten ---- */

static int kernel_flatten(struct weir_call *call, struct weir_error *err)
{
	const struct weir_column *list = &call->arguments[0];
	const struct weir_array *inner = list->nested->children[0];
	struct weir_builder builder;
	int code = weir_builder_init(&builder, call->node->type, call->eval->evaluator->account, err);

	for (uint32_t k = 0; !code && k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int64_t begin, length;

		code = weir_lists_skip(&builder, row, err);
		weir_nested_range(list->nested, list->nested_offset + (row & weir_call_mask(call, 0)), &begin, &length);
		for (int64_t i = 0; !code && i < length; i++) {
			int64_t from, count;

			if (!is_present(inner, begin + i))
				continue;
			weir_nested_range(inner, begin + i, &from, &count);
			if (count)
				code = weir_builder_array(&builder.children[0], inner->children[0], from, count, err);
		}
		if (!code)
			code = weir_builder_list_end(&builder, err);
	}
	return weir_lists_end(call, &builder, code, err);
}

static int bind_flatten(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;

	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	if (!is_list(type) || !is_list(type->fields[0].type))
		return refuse_list(program, node, "lists of lists", err);
	type = list_like(program, type, type->fields[0].type->fields[0].type, err);
	if (!type)
		return err->code;
	weir_bind_kernel(node, type, kernel_flatten);
	node->needs_rows = true;
	return WEIR_OK;
}

/* ---- slices ---- */

struct slice {
	int64_t begin, end, step; /* end −1: none */
	int64_t fixed;            /* a list of a fixed size has so many; −1: not fixed */
};

static int kernel_slice(struct weir_call *call, struct weir_error *err)
{
	const struct slice *slice = call->node->data;
	const struct weir_column *list = &call->arguments[0];
	struct weir_builder builder;
	int code = weir_builder_init(&builder, call->node->type, call->eval->evaluator->account, err);

	for (uint32_t k = 0; !code && k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int64_t begin, length, end, count = 0;

		code = weir_lists_skip(&builder, row, err);
		weir_nested_range(list->nested, list->nested_offset + (row & weir_call_mask(call, 0)), &begin, &length);
		end = slice->end < 0 || slice->end > length ? length : slice->end;
		if (!code && slice->step == 1 && slice->begin < end) {
			count = end - slice->begin;
			code = weir_builder_array(&builder.children[0], list->nested->children[0], begin + slice->begin,
						  count, err);
		}
		for (int64_t at = slice->begin; !code && slice->step > 1 && at < end; at += slice->step, count++)
			code = weir_builder_array(&builder.children[0], list->nested->children[0], begin + at, 1, err);
		if (!code && slice->fixed > count) /* past the end there is null */
			code = weir_builder_null(&builder.children[0], slice->fixed - count, err);
		if (!code)
			code = weir_builder_list_end(&builder, err);
	}
	return weir_lists_end(call, &builder, code, err);
}

static int bind_slice(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	struct slice *slice = weir_arena_alloc_zero(&program->arena, sizeof(*slice), err);
	int64_t numbers[3] = {0, -1, 1};

	if (!slice)
		return err->code;
	for (uint32_t i = 1; i < node->count; i++) {
		const struct weir_node *given = node->arguments[i];

		if (weir_node_is_none(given))
			continue;
		if (!weir_node_is_constant(given) || !weir_type_is_integer(given->type))
			return weir_bind_fail(program, node, err, WEIR_E_TYPE, "argument %u is an integer literal", i);
		numbers[i - 1] = given->value.integer;
		if (numbers[i - 1] < (i == 3))
			return weir_bind_fail(program, node, err, WEIR_E_VALUE,
					      "a slice of lists begins and ends at 0 or later, and steps forward");
	}
	*slice = (struct slice){.begin = numbers[0], .end = numbers[1], .step = numbers[2], .fixed = -1};
	if (slice->end >= 0 && slice->end < slice->begin)
		return weir_bind_fail(program, node, err, WEIR_E_VALUE,
				      "a slice of lists does not end before it begins");
	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	if (!is_list(type))
		return refuse_list(program, node, "lists", err);
	if (type->id == WEIR_FIXED_LIST) {
		int64_t end = slice->end < 0 ? type->list_size : slice->end;

		slice->fixed = end > slice->begin ? (end - slice->begin + slice->step - 1) / slice->step : 0;
		if (slice->fixed > INT32_MAX)
			return weir_bind_fail(program, node, err, WEIR_E_VALUE,
					      "a list of fixed size is not that long");
		type = weir_program_keep(program,
					 weir_type_list(program->account, WEIR_FIXED_LIST, &type->fields[0],
							(int32_t)slice->fixed, false, err),
					 err);
		if (!type)
			return err->code;
	}
	node->data = slice;
	node->count = 1;
	weir_bind_kernel(node, type, kernel_slice);
	node->needs_rows = true;
	return WEIR_OK;
}

/* ---- maps ---- */

enum { KEYS, VALUES };

static int kernel_part(struct weir_call *call, struct weir_error *err)
{
	const struct weir_column *map = &call->arguments[0];
	const struct weir_array *entries = map->nested->children[0], *part = entries->children[call->node->op];
	struct weir_builder builder;
	int code = weir_builder_init(&builder, call->node->type, call->eval->evaluator->account, err);

	for (uint32_t k = 0; !code && k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int64_t begin, length;

		code = weir_lists_skip(&builder, row, err);
		weir_nested_range(map->nested, map->nested_offset + (row & weir_call_mask(call, 0)), &begin, &length);
		if (!code && length)
			code = weir_builder_array(&builder.children[0], part, entries->offset + begin, length, err);
		if (!code)
			code = weir_builder_list_end(&builder, err);
	}
	return weir_lists_end(call, &builder, code, err);
}

/* Maps, and lists of structs of two fields, as which maps may come too. */
static int bind_part(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type, *entry;

	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	if (type->id != WEIR_MAP && type->id != WEIR_LIST_TYPE && type->id != WEIR_LARGE_LIST)
		return refuse_list(program, node, "maps", err);
	entry = type->fields[0].type;
	if (entry->id != WEIR_STRUCT || entry->field_count < 2)
		return refuse_list(program, node, "maps", err);
	type = list_like(program, type, entry->fields[node->op].type, err);
	if (!type)
		return err->code;
	weir_bind_kernel(node, type, kernel_part);
	node->needs_rows = true;
	return WEIR_OK;
}

/* ---- arrays ---- */

static int kernel_to_list(struct weir_call *call, struct weir_error *err)
{
	const struct weir_column *list = &call->arguments[0];
	struct weir_builder builder;
	int code = weir_builder_init(&builder, call->node->type, call->eval->evaluator->account, err);

	for (uint32_t k = 0; !code && k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int64_t begin, length;

		code = weir_lists_skip(&builder, row, err);
		weir_nested_range(list->nested, list->nested_offset + (row & weir_call_mask(call, 0)), &begin, &length);
		if (!code && length)
			code = weir_builder_array(&builder.children[0], list->nested->children[0], begin, length, err);
		if (!code)
			code = weir_builder_list_end(&builder, err);
	}
	return weir_lists_end(call, &builder, code, err);
}

static int bind_to_list(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_type *type = node->arguments[0]->type;
	char name[96];

	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	if (!is_list(type))
		return weir_bind_fail(program, node, err, WEIR_E_TYPE,
				      "to_list() can only be called on list-like columns, not on %s (%s)",
				      weir_type_name(type, name, sizeof(name)), node->arguments[0]->text);
	if (type->id != WEIR_FIXED_LIST) { /* it is one */
		const char *text = node->text;
		uint32_t number = node->number;

		*node = *node->arguments[0];
		node->text = text;
		node->number = number;
		return WEIR_OK;
	}
	type = weir_list_of(program, type->fields[0].type, err);
	if (!type)
		return err->code;
	weir_bind_kernel(node, type, kernel_to_list);
	node->needs_rows = true;
	return WEIR_OK;
}

/* one_hot(place, count): a list of `count` numbers, 1 at the place and 0 elsewhere; 0 everywhere for a place that is
 * none. */
static int kernel_one_hot(struct weir_call *call, struct weir_error *err)
{
	struct weir_account *account = call->eval->evaluator->account;
	const int64_t *places = call->arguments[0].values;
	uint32_t count = (uint32_t)call->node->type->list_size, mask = weir_call_mask(call, 0);
	struct weir_array *list = weir_array_new(account, call->node->type, err);
	struct weir_array *items = list ? weir_array_new(account, call->node->type->fields[0].type, err) : NULL;
	size_t size = (size_t)call->row_count * count;
	uint8_t *bytes;

	if (items)
		list->children[0] = items;
	if (!items || weir_buffer_new(account, size, &items->buffers[1], &bytes, err)) {
		weir_array_unref(list);
		return err->code;
	}
	memset(bytes, 0, size);
	for (uint32_t k = 0; k < call->rows.count; k++) {
		uint32_t row = weir_call_row(call, k);
		int64_t place = places[row & mask];

		if (place >= 0 && place < (int64_t)count)
			bytes[(size_t)row * count + (size_t)place] = 1;
	}
	items->length = (int64_t)size;
	list->length = call->row_count;
	call->nested = list;
	return WEIR_OK;
}

static int bind_one_hot(struct weir_program *program, struct weir_node *node, struct weir_error *err)
{
	const struct weir_node *count = node->arguments[1];
	struct weir_field item = {.name = "item", .type = weir_type_of(WEIR_UINT8), .nullable = true};
	const struct weir_type *type;
	int code;

	if (!weir_node_is_constant(count) || !weir_type_is_integer(count->type) || count->value.is_null ||
	    count->value.integer < 0 || count->value.integer > INT32_MAX)
		return weir_bind_fail(program, node, err, WEIR_E_TYPE,
				      "one_hot(place, count): the count is a whole number");
	type = weir_program_keep(
		program,
		weir_type_list(program->account, WEIR_FIXED_LIST, &item, (int32_t)count->value.integer, false, err),
		err);
	if (!type)
		return err->code;
	if (weir_node_is_none(node->arguments[0]))
		return weir_bind_constant(program, node, type, NULL, err);
	code = weir_bind_cast(program, &node->arguments[0], weir_type_of(WEIR_INT64), true, err);
	if (code)
		return code;
	node->count = 1;
	weir_bind_kernel(node, type, kernel_one_hot);
	node->needs_rows = true;
	return WEIR_OK;
}

const struct weir_function weir_functions_lists[] = {
	{"list_sort", 1, 3, bind_sort, 0},         {"list_flatten", 1, 1, bind_flatten, 0},
	{"arrow_list_slice", 4, 4, bind_slice, 0}, {"map_keys", 1, 1, bind_part, KEYS},
	{"map_values", 1, 1, bind_part, VALUES},   {"to_list", 1, 1, bind_to_list, 0},
	{"one_hot", 2, 2, bind_one_hot, 0},        {0},
};
