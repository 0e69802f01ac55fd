#include "ops/exchange/regroup.h"

#include <string.h>

/* ---- rows that are not groups yet ---- */

int weir_plain_init(struct weir_plain *plain, struct weir_account *account,
		    const struct weir_accumulators *accumulators, const struct weir_schema *input,
		    struct weir_error *err)
{
	uint32_t keys = accumulators->layout.key_count, count = keys;
	const struct weir_type **types;
	int code;

	*plain = (struct weir_plain){0};
	for (uint32_t i = 0; i < accumulators->count; i++) {
		if (accumulators->items[i].type->layout == WEIR_LAYOUT_NESTED)
			return WEIR_OK;
	}
	plain->account = account;
	plain->capacity = keys + accumulators->count + 1;
	plain->columns = weir_alloc_zero(account, plain->capacity * sizeof(uint32_t), err);
	types = plain->columns ? weir_alloc_zero(account, plain->capacity * sizeof(*types), err) : NULL;
	if (!types) {
		weir_plain_release(plain);
		return err->code;
	}
	memcpy(plain->columns, accumulators->numbers, keys * sizeof(uint32_t));
	for (uint32_t i = 0; i < accumulators->count; i++) {
		uint32_t c = 0;

		while (c < keys && plain->columns[c] != accumulators->items[i].column)
			c++;
		if (c == keys)
			plain->columns[count++] = accumulators->items[i].column;
	}
	for (uint32_t c = 0; c < count; c++)
		types[c] = input->fields[plain->columns[c]].type;
	plain->count = count;
	code = weir_row_layout_init(&plain->layout, account, types, count, keys, 0, 0, err);
	weir_free(account, types, plain->capacity * sizeof(*types));
	if (code)
		weir_plain_release(plain);
	return code;
}

void weir_plain_release(struct weir_plain *plain)
{
	if (!plain->account)
		return;
	weir_row_layout_release(&plain->layout);
	weir_free(plain->account, plain->columns, plain->columns ? plain->capacity * sizeof(uint32_t) : 0);
	*plain = (struct weir_plain){0};
}

/* ---- the table ---- */

int weir_regroup_init(struct weir_regroup *regroup, struct weir_account *account,
		      const struct weir_accumulators *accumulators, const struct weir_schema *input,
		      const struct weir_plain *plain, struct weir_error *err)
{
	int code;

	*regroup = (struct weir_regroup){
		.account = account, .accumulators = accumulators, .input = input, .plain = plain};
	weir_arena_init(&regroup->take_arena, account);
	weir_arena_init(&regroup->push_arena, account);
	weir_row_heap_init(&regroup->heap, account, &accumulators->layout);
	code = weir_table_init(&regroup->table, account, &accumulators->layout, err);
	if (!code && plain->account) {
		code = weir_row_input_init(&regroup->rows, account, &accumulators->layout, err);
		regroup->columns = code ? NULL
					: weir_alloc_zero(account, (input->field_count + 1) * sizeof(*regroup->columns),
							  err);
		regroup->nested = regroup->columns
					  ? weir_alloc_zero(account, plain->capacity * sizeof(*regroup->nested), err)
					  : NULL;
		regroup->is_taken = regroup->nested ? weir_alloc_zero(account, plain->capacity, err) : NULL;
		code = regroup->is_taken ? WEIR_OK : err->code;
	}
	/* Other cells than keys are made of a row's own values. */
	regroup->by_rows = accumulators->layout.cell_count == accumulators->layout.key_count &&
			   accumulators->layout.key_count > 0 && accumulators->layout.key_count <= 8;
	for (uint32_t c = 0; c < plain->count && !code; c++) {
		regroup->is_taken[c] = !regroup->by_rows;
		for (uint32_t i = 0; i < accumulators->count; i++)
			regroup->is_taken[c] |= accumulators->items[i].column == plain->columns[c];
	}
	if (code)
		weir_regroup_release(regroup);
	return code;
}

static void take_release(struct weir_regroup *regroup)
{
	for (uint32_t c = 0; regroup->nested && c < regroup->plain->count; c++) {
		weir_array_unref(regroup->nested[c]);
		regroup->nested[c] = NULL;
	}
	weir_arena_clear(&regroup->take_arena);
}

void weir_regroup_release(struct weir_regroup *regroup)
{
	struct weir_account *account = regroup->account;

	if (!account)
		return;
	take_release(regroup);
	weir_row_input_release(&regroup->rows);
	weir_arena_release(&regroup->take_arena);
	weir_arena_release(&regroup->push_arena);
	weir_free(account, regroup->columns,
		  regroup->columns ? (regroup->input->field_count + 1) * sizeof(*regroup->columns) : 0);
	weir_free(account, regroup->nested, regroup->nested ? regroup->plain->capacity * sizeof(*regroup->nested) : 0);
	weir_free(account, regroup->is_taken, regroup->is_taken ? regroup->plain->capacity : 0);
	weir_row_heap_release(&regroup->heap);
	weir_table_release(&regroup->table);
	regroup->columns = NULL;
	regroup->nested = NULL;
	regroup->is_taken = NULL;
	regroup->account = NULL;
}

void weir_regroup_clear(struct weir_regroup *regroup)
{
	if (!regroup->account)
		return;
	take_release(regroup);
	weir_table_clear(&regroup->table);
	weir_row_heap_clear(&regroup->heap);
}

int weir_regroup_shrink(struct weir_regroup *regroup, struct weir_error *err)
{
	weir_regroup_clear(regroup);
	weir_table_release(&regroup->table);
	return weir_table_init(&regroup->table, regroup->account, &regroup->accumulators->layout, err);
}

int weir_regroup_add_groups(struct weir_regroup *regroup, const uint8_t *const *rows, uint32_t count,
			    struct weir_error *err)
{
	int code = weir_table_copy_rows(&regroup->table, rows, count, &regroup->heap.maker, regroup->found,
					regroup->is_new, err);

	for (uint32_t i = 0; i < count && !code; i++) {
		if (regroup->is_new[i])
			code = weir_accumulators_adopt(regroup->accumulators, regroup->found[i], rows[i],
						       &regroup->heap, err);
		else
			code = weir_accumulators_merge(regroup->accumulators, regroup->found[i], rows[i],
						       &regroup->heap, &regroup->push_arena, err);
	}
	return code;
}

/* The groups of rows as a vector. */
static int find_vector(struct weir_regroup *regroup, struct weir_vector *vector, const uint8_t *const *rows,
		       struct weir_error *err)
{
	uint32_t made;
	int code = weir_row_input_take(&regroup->rows, vector, regroup->accumulators->numbers, false, err);

	if (code)
		return code;
	for (uint32_t i = 0; i < vector->row_count; i++)
		regroup->hashes[i] = weir_row_hash(rows[i]);
	regroup->rows.hashes = regroup->hashes;
	return weir_table_find_or_make(&regroup->table, &regroup->rows, &regroup->heap.maker, regroup->found, &made,
				       err);
}

int weir_regroup_add_rows(struct weir_regroup *regroup, const uint8_t *const *rows, uint32_t count,
			  struct weir_error *err)
{
	const struct weir_plain *plain = regroup->plain;
	struct weir_vector vector = {.row_count = count,
				     .selection = {.count = count},
				     .column_count = regroup->input->field_count,
				     .columns = regroup->columns,
				     .source_row = -1};
	int code = WEIR_OK;

	take_release(regroup);
	for (uint32_t c = 0; c < plain->count && !code; c++) {
		uint32_t column = plain->columns[c];

		if (regroup->is_taken[c])
			code = weir_rows_take(&plain->layout, c, regroup->input->fields[column].type, rows, count,
					      regroup->account, &regroup->take_arena, &regroup->columns[column],
					      &regroup->nested[c], err);
	}
	if (!code && regroup->by_rows)
		code = weir_table_find_rows(&regroup->table, &plain->layout, rows, count, &regroup->heap.maker,
					    regroup->found, err);
	else if (!code)
		code = find_vector(regroup, &vector, rows, err);
	return code ? code
		    : weir_accumulators_push(regroup->accumulators, &vector, regroup->found, &regroup->heap,
					     &regroup->push_arena, err);
}

/* ---- a lane's own part ---- */

/* All that the lane has of it in memory goes into the table; *bytes grows by what it takes. */
static int add_part(struct weir_regroup *regroup, struct weir_parts_lane *lane, uint32_t part, bool is_groups,
		    uint64_t *bytes, struct weir_error *err)
{
	const uint8_t *rows[WEIR_REGROUP_STEP];
	struct weir_row_page page;
	uint32_t row_bytes = lane->parts->layout->row_bytes;
	int code = WEIR_OK;

	for (size_t at = 0; !code && weir_parts_lane_page(lane, part, &at, &page);) {
		*bytes += page.size;
		for (uint32_t first = 0, n; first < page.row_count && !code; first += n) {
			n = page.row_count - first < WEIR_REGROUP_STEP ? page.row_count - first : WEIR_REGROUP_STEP;
			for (uint32_t i = 0; i < n; i++)
				rows[i] = page.memory + (size_t)(first + i) * row_bytes;
			code = is_groups ? weir_regroup_add_groups(regroup, rows, n, err)
					 : weir_regroup_add_rows(regroup, rows, n, err);
		}
	}
	return code;
}

static uint64_t used_bytes(const struct weir_row_heap *heap)
{
	uint64_t bytes = heap->bytes_set;

	for (size_t p = 0; p < heap->pages.count; p++)
		bytes += heap->pages.items[p].rows_end + heap->pages.items[p].size - heap->pages.items[p].bytes_begin;
	return bytes;
}

static int put_groups(const struct weir_regroup *regroup, struct weir_parts_lane *groups, struct weir_error *err)
{
	uint32_t row_bytes = regroup->accumulators->layout.row_bytes;
	int code = WEIR_OK;

	for (size_t p = 0; p < regroup->heap.pages.count && !code; p++) {
		const struct weir_row_page *page = &regroup->heap.pages.items[p];

		for (uint32_t i = 0; i < page->row_count && !code; i++) {
			weir_accumulators_pack(regroup->accumulators, page->memory + (size_t)i * row_bytes);
			code = weir_parts_lane_put_row(groups, page->memory + (size_t)i * row_bytes, err);
		}
	}
	return code;
}

int weir_regroup_part(struct weir_regroup *regroup, struct weir_parts_lane *groups, struct weir_parts_lane *rows,
		      uint32_t part, bool *shrank, struct weir_error *err)
{
	struct weir_parts_list old_groups = {0}, old_rows = {0};
	uint64_t before = 0;
	int code = weir_parts_lane_settle(groups, err);

	*shrank = false;
	if (!code && rows)
		code = weir_parts_lane_settle(rows, err);
	if (!code)
		code = add_part(regroup, groups, part, true, &before, err);
	if (!code && rows)
		code = add_part(regroup, rows, part, false, &before, err);
	if (!code && used_bytes(&regroup->heap) <= before / 8 * 5) {
		code = weir_parts_lane_detach(groups, part, &old_groups, err);
		if (!code && rows) {
			code = weir_parts_lane_detach(rows, part, &old_rows, err);
			if (code)
				weir_parts_lane_attach(groups, part, &old_groups);
		}
		*shrank = !code;
	}
	if (*shrank)
		code = put_groups(regroup, groups, err);
	if (*shrank && code) {
		weir_parts_lane_attach(groups, part, &old_groups);
		if (rows)
			weir_parts_lane_attach(rows, part, &old_rows);
	} else if (*shrank) {
		weir_parts_lane_drop(groups, &old_groups);
		if (rows)
			weir_parts_lane_drop(rows, &old_rows);
	}
	weir_regroup_clear(regroup);
	return code;
}
