#include "ops/exchange/held.h"

#include "ops/exchange/order.h"

#include <string.h>

int weir_held_init(struct weir_held *held, struct weir_account *account, const struct weir_schema *schema,
		   const uint32_t *columns, uint32_t count, struct weir_error *err)
{
	struct weir_field *fields;

	*held = (struct weir_held){.account = account};
	fields = weir_alloc_zero(account, (count + 1) * sizeof(*fields), err);
	if (!fields)
		return err->code;
	/* Values alone: dictionaries would have to be united, only to be looked up again. */
	for (uint32_t i = 0; i < count; i++)
		fields[i] = (struct weir_field){.name = schema->fields[columns[i]].name,
						.type = weir_type_values(schema->fields[columns[i]].type),
						.nullable = true};
	held->schema = weir_schema_new(account, fields, count, NULL, err);
	weir_free(account, fields, (count + 1) * sizeof(*fields));
	if (!held->schema)
		return err->code;
	held->columns = weir_alloc(account, (count + 1) * sizeof(*held->columns), err);
	held->parts = held->columns ? weir_alloc_zero(account, (count + 1) * sizeof(*held->parts), err) : NULL;
	if (!held->parts)
		return err->code;
	memcpy(held->columns, columns, count * sizeof(*columns));
	return WEIR_OK;
}

void weir_held_release(struct weir_held *held)
{
	uint32_t count;

	if (!held->account || !held->schema)
		return;
	count = held->schema->field_count;
	weir_gather_free(held->gather);
	weir_list_release(&held->ends, held->account);
	weir_free(held->account, held->columns, held->columns ? (count + 1) * sizeof(*held->columns) : 0);
	weir_free(held->account, held->parts, held->parts ? (count + 1) * sizeof(*held->parts) : 0);
	weir_schema_unref(held->schema);
	*held = (struct weir_held){0};
}

int weir_held_clear(struct weir_held *held, struct weir_error *err)
{
	if (held->gather && weir_gather_rows(held->gather)) {
		weir_gather_free(held->gather);
		held->gather = NULL;
	}
	held->ends.count = 0;
	return held->gather ? WEIR_OK : weir_gather_new(held->account, held->schema, &held->gather, err);
}

int weir_held_push(struct weir_held *held, const struct weir_vector *vector, uint32_t begin, uint32_t count,
		   struct weir_error *err)
{
	struct weir_vector part = *vector;

	part.column_count = held->schema->field_count;
	part.columns = held->parts;
	for (uint32_t i = 0; i < part.column_count; i++) {
		held->parts[i] = vector->columns[held->columns[i]];
		held->parts[i].type = held->schema->fields[i].type;
	}
	return weir_gather_push_part(held->gather, &part, begin, count, err);
}

int weir_held_end(struct weir_held *held, struct weir_error *err)
{
	return weir_list_push(&held->ends, held->account, err, weir_gather_rows(held->gather));
}

/* ---- in order ---- */

/* A column's rows, group by group, each in order. */
struct sorting {
	struct weir_account *account;
	const struct weir_array *array;
	struct weir_key key;
	struct weir_key_columns columns;
	struct weir_key_list keys;
	uint32_t *rows, *dealt;
	int64_t *next; /* by group: where its next row goes */
	struct weir_arena arena;
};

static void sorting_release(struct sorting *sorting, size_t rows, size_t groups)
{
	weir_free(sorting->account, sorting->rows, sorting->rows ? rows * sizeof(*sorting->rows) : 0);
	weir_free(sorting->account, sorting->dealt, sorting->dealt ? rows * sizeof(*sorting->dealt) : 0);
	weir_free(sorting->account, sorting->next, sorting->next ? groups * sizeof(*sorting->next) : 0);
	weir_key_list_release(&sorting->keys);
	weir_arena_release(&sorting->arena);
}

static int read_keys(struct sorting *sorting, struct weir_error *err)
{
	int code = WEIR_OK;

	for (int64_t first = 0; first < sorting->array->length && !code; first += WEIR_VECTOR_ROWS) {
		int64_t left = sorting->array->length - first;
		struct weir_column column;
		struct weir_vector rows = {.row_count = left < WEIR_VECTOR_ROWS ? (uint32_t)left : WEIR_VECTOR_ROWS,
					   .column_count = 1,
					   .columns = &column,
					   .source_row = -1};

		rows.selection.count = rows.row_count;
		weir_arena_clear(&sorting->arena);
		code = weir_column_from_array(sorting->array, first, rows.row_count, &sorting->arena, &column, err);
		if (!code)
			code = weir_key_list_push(&sorting->keys, &sorting->columns, &rows, err);
	}
	return code;
}

/* Rows in the order of the whole column go to their groups one after another, and so are in order there too. */
static void deal(struct sorting *sorting, const int64_t *ends, size_t groups, uint32_t *group_of)
{
	int64_t first = 0;

	for (size_t g = 0; g < groups; g++) {
		sorting->next[g] = first;
		for (; first < ends[g]; first++)
			group_of[first] = (uint32_t)g;
	}
	for (int64_t i = 0; i < sorting->array->length; i++)
		sorting->dealt[sorting->next[group_of[sorting->rows[i]]]++] = sorting->rows[i];
}

static int sort_column(struct sorting *sorting, const int64_t *ends, size_t groups, struct weir_error *err)
{
	size_t rows = (size_t)sorting->array->length;
	uint32_t *group_of;
	int code;

	weir_arena_init(&sorting->arena, sorting->account);
	weir_key_list_init(&sorting->keys, sorting->account, sorting->columns.width);
	sorting->rows = weir_alloc(sorting->account, rows * sizeof(*sorting->rows), err);
	sorting->dealt = sorting->rows ? weir_alloc(sorting->account, rows * sizeof(*sorting->dealt), err) : NULL;
	sorting->next = sorting->dealt ? weir_alloc(sorting->account, groups * sizeof(*sorting->next), err) : NULL;
	group_of = sorting->next ? weir_alloc(sorting->account, rows * sizeof(*group_of), err) : NULL;
	if (!group_of)
		return err->code;
	code = read_keys(sorting, err);
	if (!code && rows)
		code = weir_key_order(&sorting->keys, sorting->account, sorting->rows, err);
	if (!code)
		deal(sorting, ends, groups, group_of);
	weir_free(sorting->account, group_of, rows * sizeof(*group_of));
	return code;
}

static bool is_equal(const struct weir_key_list *keys, uint32_t a, uint32_t b)
{
	uint32_t a_size, b_size;
	const uint8_t *a_key = weir_key_at(keys, a, &a_size), *b_key = weir_key_at(keys, b, &b_size);

	return a_size == b_size && !memcmp(a_key, b_key, a_size);
}

/* Runs of equal values of one group, to all items of the column. */
static int tell_group(const struct sorting *sorting, const struct weir_column *whole, int64_t begin, int64_t end,
		      uint32_t column, const struct weir_held_item *items, uint32_t count, struct weir_error *err)
{
	int code = WEIR_OK;

	for (int64_t i = begin, next; i < end && !code; i = next) {
		next = i + 1;
		while (next < end && is_equal(&sorting->keys, sorting->dealt[i], sorting->dealt[next]))
			next++;
		for (uint32_t k = 0; k < count && !code; k++)
			if (items[k].column == column && items[k].ranked->item->function != WEIR_LIST_VALUES)
				code = weir_ranked_push(items[k].ranked, whole, sorting->dealt[i], (uint64_t)(next - i),
							true, err);
	}
	for (uint32_t k = 0; k < count && !code; k++)
		if (items[k].column == column && items[k].ranked->item->function != WEIR_LIST_VALUES)
			code = weir_ranked_end(items[k].ranked, err);
	return code;
}

static int tell_ordered(struct weir_held *held, const struct weir_array *array, uint32_t column,
			const struct weir_held_item *items, uint32_t count, struct weir_error *err)
{
	struct sorting sorting = {.account = held->account, .array = array};
	struct weir_arena arena = {0};
	struct weir_column whole = {0};
	int code;

	sorting.key = (struct weir_key){.type = array->type, .tells_zeros_apart = true};
	sorting.columns = (struct weir_key_columns){.count = 1, .keys = &sorting.key};
	sorting.columns.width = weir_key_columns_width(&sorting.key, 1);
	weir_arena_init(&arena, held->account);
	code = sort_column(&sorting, held->ends.items, held->ends.count, err);
	if (!code)
		code = weir_column_from_array(array, 0, (uint32_t)array->length, &arena, &whole, err);
	for (size_t g = 0; g < held->ends.count && !code; g++)
		code = tell_group(&sorting, &whole, g ? held->ends.items[g - 1] : 0, held->ends.items[g], column, items,
				  count, err);
	sorting_release(&sorting, (size_t)array->length, held->ends.count);
	weir_arena_release(&arena);
	return code;
}

/* ---- as they came ---- */

static int tell_lists(struct weir_held *held, const struct weir_array *array, struct weir_ranked *ranked,
		      struct weir_error *err)
{
	struct weir_builder *values = &ranked->out.children[0];
	bool has_nulls = weir_array_null_count(array) != 0;
	int64_t begin = 0;
	int code = WEIR_OK;

	for (size_t g = 0; g < held->ends.count && !code; g++) {
		int64_t end = held->ends.items[g];

		while (begin < end && !code) {
			int64_t to = end;

			if (has_nulls && !ranked->item->with_nulls) {
				while (begin < end && !weir_array_is_valid(array, begin))
					begin++;
				for (to = begin; to < end && weir_array_is_valid(array, to);)
					to++;
			}
			if (to > begin)
				code = weir_builder_array(values, array, begin, to - begin, err);
			begin = to;
		}
		if (!code)
			code = weir_builder_list_end(&ranked->out, err);
	}
	return code ? code : weir_builder_settle(values, err);
}

/* Rows of the group at hand go back, behind those that are complete. */
static int keep_rest(struct weir_held *held, const struct weir_batch *batch, int64_t first, struct weir_error *err)
{
	struct weir_arena arena = {0};
	int code = WEIR_OK;

	weir_arena_init(&arena, held->account);
	for (; first < batch->row_count && !code; first += WEIR_VECTOR_ROWS) {
		int64_t left = batch->row_count - first;
		struct weir_vector rows;

		weir_arena_clear(&arena);
		code = weir_vector_from_batch(batch, first, left < WEIR_VECTOR_ROWS ? (uint32_t)left : WEIR_VECTOR_ROWS,
					      &arena, &rows, err);
		if (!code)
			code = weir_gather_push(held->gather, &rows, err);
	}
	weir_arena_release(&arena);
	return code;
}

static int tell_column(struct weir_held *held, const struct weir_array *array, uint32_t column,
		       const struct weir_held_item *items, uint32_t count, struct weir_error *err)
{
	bool is_ordered = false;
	int code = WEIR_OK;

	for (uint32_t k = 0; k < count && !code; k++) {
		if (items[k].column != column)
			continue;
		if (items[k].ranked->item->function == WEIR_LIST_VALUES)
			code = tell_lists(held, array, items[k].ranked, err);
		else
			is_ordered = true;
	}
	return code || !is_ordered ? code : tell_ordered(held, array, column, items, count, err);
}

int weir_held_settle(struct weir_held *held, const struct weir_held_item *items, uint32_t count, struct weir_error *err)
{
	int64_t complete = held->ends.count ? held->ends.items[held->ends.count - 1] : 0;
	struct weir_batch *batch = NULL;
	int code;

	if (!held->ends.count)
		return WEIR_OK;
	if (complete > UINT32_MAX / 2)
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "a group of more than 2^31 rows cannot be held");
	code = weir_gather_finish(held->gather, &batch, err);
	for (uint32_t c = 0; c < held->schema->field_count && !code; c++) {
		struct weir_array *array = weir_array_slice(batch->columns[c], 0, complete, err);

		code = array ? tell_column(held, array, c, items, count, err) : err->code;
		weir_array_unref(array);
	}
	if (!code)
		code = keep_rest(held, batch, complete, err);
	weir_batch_unref(batch);
	held->ends.count = 0;
	return code;
}
