/* Vectors of the probe side against tables of the build side.
 *
 * Where each row has one partner at most, the vector stays what it is: its selection shrinks, or does not, and columns
 * of the build side are added, with values at the rows' own places. Columns that nobody has decoded yet stay so. Else
 * the rows of a vector, with one partner after another, are written out anew, a vector at a time; so they are where
 * partners are so wide that a vector of them would have far more bytes than vectors have. */
#include "ops/exchange/join_impl.h"

#include <string.h>

struct weir_join_probe {
	struct weir_account account;
	struct weir_account *parent;
	struct weir_join_state *state;
	struct weir_join_against against;
	struct weir_arena arena; /* of the vector that was handed out */
	struct weir_column *columns;
	struct weir_array **nested; /* of it */
	/* The vector that is being written out, by its selected rows: which is next, and which of its partners. */
	struct weir_vector input;
	uint32_t next, partner;
	bool is_filtered; /* few rows have partners: filters are asked first */
	struct weir_join_keys keys;
	struct weir_join_found by_key[WEIR_VECTOR_ROWS];
	uint64_t values[WEIR_VECTOR_ROWS];              /* by key, of cells */
	struct weir_join_found found[WEIR_VECTOR_ROWS]; /* by place in the vector */
	struct weir_join_pick picks[WEIR_VECTOR_ROWS], own_picks[WEIR_VECTOR_ROWS];
	const uint32_t *rows_of[WEIR_VECTOR_ROWS]; /* by place, of those with several partners */
	uint16_t rows[WEIR_VECTOR_ROWS];
	uint16_t input_rows[WEIR_VECTOR_ROWS];
};

int weir_join_probe_new(struct weir_account *account, struct weir_join_state *state, struct weir_join_probe **out,
			struct weir_error *err)
{
	struct weir_join_probe *probe = weir_alloc_zero(account, sizeof(*probe), err);
	size_t count = state->schema->field_count + 1;

	if (!probe)
		return err->code;
	probe->parent = account;
	weir_account_init(&probe->account, account, "probe");
	probe->state = state;
	weir_arena_init(&probe->arena, &probe->account);
	weir_join_keys_init(&probe->keys, &probe->account, &state->probe.key_columns);
	probe->columns = weir_alloc_zero(&probe->account, count * sizeof(*probe->columns), err);
	probe->nested = probe->columns ? weir_alloc_zero(&probe->account, count * sizeof(*probe->nested), err) : NULL;
	if (!probe->nested) {
		weir_join_probe_free(probe);
		return err->code;
	}
	*out = probe;
	return WEIR_OK;
}

/* What the last vector needed. */
static void forget(struct weir_join_probe *probe)
{
	for (uint32_t i = 0; i < probe->state->schema->field_count; i++) {
		weir_array_unref(probe->nested[i]);
		probe->nested[i] = NULL;
	}
	weir_arena_clear(&probe->arena);
}

void weir_join_probe_free(struct weir_join_probe *probe)
{
	struct weir_account *account;
	size_t count;

	if (!probe)
		return;
	account = probe->parent;
	count = probe->state->schema->field_count + 1;
	if (probe->nested)
		forget(probe);
	weir_free(&probe->account, probe->nested, probe->nested ? count * sizeof(*probe->nested) : 0);
	weir_free(&probe->account, probe->columns, probe->columns ? count * sizeof(*probe->columns) : 0);
	weir_join_keys_release(&probe->keys);
	weir_arena_release(&probe->arena);
	weir_account_release(&probe->account);
	weir_free(account, probe, sizeof(*probe));
}

void weir_join_probe_set(struct weir_join_probe *probe, const struct weir_join_against *against)
{
	probe->against = *against;
	forget(probe);
}

static inline struct weir_join_pick pick_of(uint32_t row)
{
	return (struct weir_join_pick){.source = row / WEIR_JOIN_CHUNK_ROWS, .row = row % WEIR_JOIN_CHUNK_ROWS};
}

/* The n-th of the tables' rows that were found. */
static inline uint32_t row_found(const struct weir_join_probe *probe, const struct weir_join_found *found, uint32_t n,
				 uint64_t hash)
{
	const struct weir_join_against *against = &probe->against;

	if (found->count == 1)
		return found->first;
	return against->tables[against->table_bits ? hash >> (64 - against->table_bits) : 0].rows[found->first + n];
}

static inline uint32_t row_at(const struct weir_selection *selection, uint32_t i)
{
	return selection->rows ? selection->rows[i] : i;
}

/* Partners of the vector's selected rows, by key; and the most that one of them has. */
static int look_up(struct weir_join_probe *probe, struct weir_vector *vector, uint32_t *most, struct weir_error *err)
{
	struct weir_join_keys *keys = &probe->keys;
	int code = weir_join_keys_take(keys, vector, err);

	*most = 0;
	if (code)
		return code;
	if (probe->against.image->chunks.count) {
		const struct weir_join_against *against = &probe->against;
		uint32_t hits = against->cells ? weir_join_cells_find(against->cells, against->table_bits, keys,
								      probe->is_filtered, probe->by_key, probe->values)
					       : weir_join_table_find(against->tables, against->table_bits, keys,
								      probe->is_filtered, probe->by_key);

		/* As with the last vector, so with the next. */
		probe->is_filtered = hits < keys->count / 2;
	} else {
		memset(probe->by_key, 0, keys->count * sizeof(*probe->by_key));
		memset(probe->values, 0, keys->count * sizeof(*probe->values));
	}
	for (uint32_t i = 0; i < keys->count; i++)
		*most = probe->by_key[i].count > *most ? probe->by_key[i].count : *most;
	return WEIR_OK;
}

/* What was found by place in the vector; nothing for keys that are null. */
static void spread(struct weir_join_probe *probe, const struct weir_vector *vector)
{
	const struct weir_join_keys *keys = &probe->keys;

	if (keys->count < vector->selection.count)
		for (uint32_t i = 0; i < vector->selection.count; i++)
			probe->found[row_at(&vector->selection, i)] = (struct weir_join_found){0};
	for (uint32_t i = 0; i < keys->count; i++)
		probe->found[keys->rows[i]] = probe->by_key[i];
}

static void set_bit(uint64_t *bits, uint64_t at)
{
	bits[at >> 6] |= (uint64_t)1 << (at & 63);
}

static bool has_bit(const uint64_t *bits, uint64_t at)
{
	return bits && bits[at >> 6] >> (at & 63) & 1;
}

static void mark(struct weir_join_probe *probe)
{
	for (uint32_t i = 0; i < probe->keys.count; i++)
		for (uint32_t n = 0; n < probe->by_key[i].count; n++)
			set_bit(probe->against.build_seen,
				row_found(probe, &probe->by_key[i], n, probe->keys.hashes[i]));
}

/* What a row of the build side brings to the result beyond a width that all have. */
static uint64_t pick_bytes(const struct weir_join_probe *probe, struct weir_join_pick pick)
{
	const struct weir_join_state *state = probe->state;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < state->schema->field_count; i++)
		if (state->outputs[i].build != WEIR_JOIN_NONE)
			bytes += weir_column_value_bytes(
				probe->against.image->sources[state->outputs[i].build][pick.source], pick.row);
	return bytes;
}

/* Whether so many rows of the build side may be too much for a vector: then each one's bytes are counted. What is in
 * cells is narrow. */
static bool may_be_wide(const struct weir_join_probe *probe, uint64_t count)
{
	return !probe->against.cells && count * probe->against.image->value_bytes_max > WEIR_VECTOR_BYTES;
}

/* Whether the only partners of the vector's rows are. */
static bool are_wide(const struct weir_join_probe *probe)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; may_be_wide(probe, probe->keys.count) && i < probe->keys.count; i++)
		if (probe->by_key[i].count)
			bytes += pick_bytes(probe, pick_of(probe->by_key[i].first));
	return bytes > WEIR_VECTOR_BYTES;
}

/* ---- one partner at most ---- */

/* Columns of the build side at the places of `count` picks; `wanted`: at some of them, what is at the others is
 * nobody's concern. */
static int add_build(struct weir_join_probe *probe, uint32_t output, uint32_t count, bool may_lack,
		     const struct weir_selection *wanted, struct weir_error *err)
{
	const struct weir_join_image *image = probe->against.image;
	uint32_t column = probe->state->outputs[output].build;
	/* Without the last source, which is all null, where no selected row picks it. */
	uint32_t sources = (uint32_t)image->chunks.count + may_lack;

	int code = weir_join_pick_column(image->sources[column], sources, probe->picks, count, wanted, &probe->account,
					 &probe->arena, &probe->columns[output], &probe->nested[output], err);

	probe->columns[output].type = probe->state->schema->fields[output].type;
	return code;
}

/* The same out of cells, for all places of the vector. */
static int add_cells(struct weir_join_probe *probe, uint32_t output, uint32_t count, bool may_lack,
		     struct weir_error *err)
{
	const struct weir_join_cell_layout *layout = &probe->state->layout;
	struct weir_column *out = &probe->columns[output];
	const struct weir_join_keys *keys = &probe->keys;
	uint64_t *words;
	uint32_t at = 0;

	while (layout->columns[at].column != probe->state->outputs[output].build)
		at++;
	*out = (struct weir_column){.type = probe->state->schema->fields[output].type};
	if (may_lack) {
		words = weir_arena_alloc_zero(&probe->arena, (size_t)(count / 64 + 1) * sizeof(*words), err);
		if (!words)
			return err->code;
		for (uint32_t i = 0; i < keys->count; i++)
			words[keys->rows[i] >> 6] |= (uint64_t)(probe->by_key[i].count != 0) << (keys->rows[i] & 63);
		out->validity = words;
	}
	return weir_join_cells_column(&layout->columns[at], keys, probe->values, count, &probe->arena, out, err);
}

static void narrow(struct weir_join_probe *probe, struct weir_vector *vector, uint64_t first)
{
	bool is_anti = probe->state->gives == WEIR_JOIN_ANTI;
	uint64_t *seen = probe->against.probe_seen;
	uint32_t count = 0;

	for (uint32_t i = 0; i < vector->selection.count; i++) {
		uint32_t row = row_at(&vector->selection, i);
		bool has_partner = probe->found[row].count > 0, before = has_bit(seen, first + row), wanted;

		wanted = is_anti ? probe->against.is_last && !has_partner && !before : has_partner && !before;
		if (seen && has_partner)
			set_bit(seen, first + row);
		probe->rows[count] = (uint16_t)row;
		count += wanted;
	}
	vector->selection = (struct weir_selection){.count = count, .rows = probe->rows};
}

/* Picks of rows that have a partner, and these rows, where nobody asks about others. */
static uint32_t pick_found(struct weir_join_probe *probe, const struct weir_vector *vector)
{
	const struct weir_join_keys *keys = &probe->keys;
	uint32_t nobody = (uint32_t)probe->against.image->chunks.count, count = 0;

	for (uint32_t i = 0; i < keys->count; i++) {
		uint32_t row = keys->rows[i];

		probe->picks[row] = pick_of(probe->by_key[i].first);
		probe->rows[count] = (uint16_t)row;
		count += probe->by_key[i].count != 0;
	}
	/* All places are picked at unless few are wanted (join_pick.h); those of others need something to pick. */
	if (count < vector->row_count) {
		uint32_t next = 0;

		for (uint32_t row = 0; row < vector->row_count; row++) {
			bool is_found = next < count && probe->rows[next] == row;

			next += is_found;
			if (!is_found)
				probe->picks[row] = (struct weir_join_pick){.source = nobody};
		}
	}
	return count;
}

/* The rows alone. */
static uint32_t choose_found(struct weir_join_probe *probe)
{
	const struct weir_join_keys *keys = &probe->keys;
	uint32_t count = 0;

	for (uint32_t i = 0; i < keys->count; i++) {
		probe->rows[count] = keys->rows[i];
		count += probe->by_key[i].count != 0;
	}
	return count;
}

/* The same where rows without a partner are wanted too, or are remembered. */
static uint32_t pick_all(struct weir_join_probe *probe, const struct weir_vector *vector, uint64_t first,
			 bool *may_lack)
{
	bool keeps_all = probe->state->probe.keeps_all;
	uint32_t nobody = (uint32_t)probe->against.image->chunks.count, count = 0;
	uint64_t *seen = probe->against.probe_seen;

	spread(probe, vector);
	if (vector->selection.rows)
		for (uint32_t i = 0; i < vector->row_count; i++)
			probe->picks[i] = (struct weir_join_pick){.source = nobody};
	for (uint32_t i = 0; i < vector->selection.count; i++) {
		uint32_t row = row_at(&vector->selection, i);
		bool has_partner = probe->found[row].count > 0;
		bool lacks = keeps_all && !has_partner && probe->against.is_last && !has_bit(seen, first + row);

		probe->picks[row] = has_partner ? pick_of(probe->found[row].first)
						: (struct weir_join_pick){.source = nobody};
		if (seen && has_partner)
			set_bit(seen, first + row);
		*may_lack |= lacks;
		probe->rows[count] = (uint16_t)row;
		count += has_partner || lacks;
	}
	return count;
}

static int push_single(struct weir_join_probe *probe, struct weir_vector *vector, uint64_t first,
		       struct weir_error *err)
{
	const struct weir_join_state *state = probe->state;
	bool may_lack = false;
	uint32_t count;
	int code = WEIR_OK;

	if (state->probe.keeps_all || probe->against.probe_seen)
		count = pick_all(probe, vector, first, &may_lack);
	else
		count = probe->against.cells ? choose_found(probe) : pick_found(probe, vector);
	if (count < vector->row_count)
		vector->selection = (struct weir_selection){.count = count, .rows = probe->rows};
	for (uint32_t i = 0; i < state->schema->field_count && !code && count; i++) {
		if (state->outputs[i].probe != WEIR_JOIN_NONE) {
			probe->columns[i] = vector->columns[state->outputs[i].probe];
			probe->columns[i].type = state->schema->fields[i].type;
		} else if (probe->against.cells) {
			code = add_cells(probe, i, vector->row_count, may_lack, err);
		} else {
			code = add_build(probe, i, vector->row_count, may_lack, &vector->selection, err);
		}
	}
	vector->columns = probe->columns;
	vector->column_count = state->schema->field_count;
	return code;
}

/* ---- several ---- */

static int write_out(struct weir_join_probe *probe, struct weir_vector *out, enum weir_progress *progress,
		     struct weir_error *err)
{
	const struct weir_join_state *state = probe->state;
	const struct weir_vector *input = &probe->input;
	uint32_t nobody = (uint32_t)probe->against.image->chunks.count, count = 0;
	bool may_lack = false, counts_bytes = may_be_wide(probe, WEIR_VECTOR_ROWS);
	uint64_t bytes = 0, own_bytes = 0;
	int code = WEIR_OK;

	forget(probe);
	while (probe->next < input->selection.count && count < WEIR_VECTOR_ROWS && bytes < WEIR_VECTOR_BYTES) {
		uint32_t row = row_at(&input->selection, probe->next);
		const struct weir_join_found *found = &probe->found[row];

		/* A vector of the probe side is no wider than others; only what it has several times may be. */
		if (found->count > 1 && (probe->partner == 0 || count == 0))
			own_bytes = weir_vector_value_bytes(input, row);
		bytes += found->count > 1 ? own_bytes : 0;
		probe->own_picks[count] = (struct weir_join_pick){.row = row};
		if (found->count) {
			probe->picks[count] = pick_of(found->count == 1 ? found->first
									: probe->rows_of[row][probe->partner]);
			bytes += counts_bytes ? pick_bytes(probe, probe->picks[count]) : 0;
		} else {
			probe->picks[count] = (struct weir_join_pick){.source = nobody};
			may_lack = true;
		}
		count++;
		if (++probe->partner >= found->count) {
			probe->next++;
			probe->partner = 0;
		}
	}
	for (uint32_t i = 0; i < state->schema->field_count && !code; i++) {
		const struct weir_column *own;

		if (state->outputs[i].probe == WEIR_JOIN_NONE) {
			code = add_build(probe, i, count, may_lack, NULL, err);
			continue;
		}
		own = &input->columns[state->outputs[i].probe];
		code = weir_join_pick_column(&own, 1, probe->own_picks, count, NULL, &probe->account, &probe->arena,
					     &probe->columns[i], &probe->nested[i], err);
		probe->columns[i].type = state->schema->fields[i].type;
	}
	*out = (struct weir_vector){.row_count = count,
				    .selection = {.count = count},
				    .column_count = state->schema->field_count,
				    .columns = probe->columns,
				    .source = input->source,
				    .source_row = -1};
	*progress = probe->next < input->selection.count ? WEIR_HAVE_MORE : WEIR_HAVE_OUTPUT;
	return code;
}

static int push_several(struct weir_join_probe *probe, struct weir_vector *vector, uint64_t first,
			enum weir_progress *progress, struct weir_error *err)
{
	bool keeps_all = probe->state->probe.keeps_all;
	uint64_t *seen = probe->against.probe_seen;
	uint32_t count = 0;
	int code;

	for (uint32_t i = 0; i < probe->keys.count; i++) {
		const struct weir_join_against *against = &probe->against;
		uint64_t hash = probe->keys.hashes[i];

		if (probe->by_key[i].count > 1)
			probe->rows_of[probe->keys.rows[i]] =
				against->tables[against->table_bits ? hash >> (64 - against->table_bits) : 0].rows +
				probe->by_key[i].first;
	}
	for (uint32_t i = 0; i < vector->selection.count; i++) {
		uint32_t row = row_at(&vector->selection, i);
		bool has_partner = probe->found[row].count > 0;

		probe->input_rows[count] = (uint16_t)row;
		count += has_partner || (keeps_all && probe->against.is_last && !has_bit(seen, first + row));
		if (seen && has_partner)
			set_bit(seen, first + row);
	}
	vector->selection = (struct weir_selection){.count = count, .rows = probe->input_rows};
	code = weir_vector_decode_all(vector, err);
	if (code)
		return code;
	probe->input = *vector;
	probe->next = probe->partner = 0;
	return write_out(probe, vector, progress, err);
}

int weir_join_probe_push(struct weir_join_probe *probe, struct weir_vector *vector, uint64_t first,
			 enum weir_progress *progress, struct weir_error *err)
{
	bool is_single;
	uint32_t most;
	int code = look_up(probe, vector, &most, err);

	forget(probe);
	probe->input = (struct weir_vector){0};
	probe->next = 0;
	*progress = WEIR_HAVE_OUTPUT;
	if (code)
		return code;
	if (probe->against.build_seen)
		mark(probe);
	is_single = most <= 1 && (probe->state->gives != WEIR_JOIN_PAIRS || !are_wide(probe));
	if (probe->state->gives != WEIR_JOIN_PAIRS || !is_single)
		spread(probe, vector);
	if (probe->state->gives != WEIR_JOIN_PAIRS) {
		narrow(probe, vector, first);
		for (uint32_t i = 0; i < probe->state->schema->field_count; i++)
			probe->columns[i] = vector->columns[probe->state->outputs[i].probe];
		vector->columns = probe->columns;
		vector->column_count = probe->state->schema->field_count;
	} else if (!is_single) {
		code = push_several(probe, vector, first, progress, err);
	} else {
		code = push_single(probe, vector, first, err);
	}
	if (!vector->selection.count)
		*progress = WEIR_NEED_INPUT;
	return code;
}

int weir_join_probe_drain(struct weir_join_probe *probe, struct weir_vector *out, enum weir_progress *progress,
			  struct weir_error *err)
{
	if (probe->next >= probe->input.selection.count) {
		*progress = WEIR_NEED_INPUT;
		return WEIR_OK;
	}
	return write_out(probe, out, progress, err);
}

/* ---- rows of the build side without a partner ---- */

/* Of the side that has no row: interleaved out of nothing but a null. */
static int add_nulls(struct weir_join_probe *probe, uint32_t output, uint32_t count, struct weir_error *err)
{
	static const uint64_t no_bits[1];
	const struct weir_type *type = probe->state->schema->fields[output].type, *values = weir_type_values(type);
	size_t width = values->layout == WEIR_LAYOUT_FIXED && values->byte_width > 16 ? values->byte_width : 16;
	struct weir_column lacking = {.type = type, .form = WEIR_CONSTANT, .validity = no_bits};
	const struct weir_column *source = &lacking;

	lacking.values = weir_arena_alloc_zero(&probe->arena, width, err);
	if (!lacking.values)
		return err->code;
	memset(probe->own_picks, 0, count * sizeof(*probe->own_picks));
	return weir_join_pick_column(&source, 1, probe->own_picks, count, NULL, &probe->account, &probe->arena,
				     &probe->columns[output], &probe->nested[output], err);
}

int weir_join_probe_rest(struct weir_join_probe *probe, uint64_t *row, struct weir_vector *out, struct weir_error *err)
{
	const struct weir_join_state *state = probe->state;
	const struct weir_join_image *image = probe->against.image;
	bool counts_bytes = may_be_wide(probe, WEIR_VECTOR_ROWS);
	uint64_t bytes = 0;
	uint32_t count = 0;
	int code = WEIR_OK;

	forget(probe);
	while (count < WEIR_VECTOR_ROWS && bytes < WEIR_VECTOR_BYTES &&
	       *row / WEIR_JOIN_CHUNK_ROWS < image->chunks.count) {
		struct weir_join_pick pick = pick_of((uint32_t)*row);

		if ((int64_t)pick.row >= image->chunks.items[pick.source].batch->row_count) {
			*row = ((uint64_t)pick.source + 1) * WEIR_JOIN_CHUNK_ROWS;
			continue;
		}
		if (has_bit(probe->against.build_seen, (*row)++))
			continue;
		probe->picks[count++] = pick;
		bytes += counts_bytes ? pick_bytes(probe, pick) : 0;
	}
	*out = (struct weir_vector){.row_count = count,
				    .selection = {.count = count},
				    .column_count = state->schema->field_count,
				    .columns = probe->columns,
				    .source_row = -1};
	for (uint32_t i = 0; i < state->schema->field_count && !code && count; i++) {
		if (state->outputs[i].build != WEIR_JOIN_NONE)
			code = add_build(probe, i, count, false, NULL, err);
		else
			code = add_nulls(probe, i, count, err);
	}
	return code;
}
