/* Entry points of libweir_probe for tests that hold expressions against another library: text and a batch in, values or
 * kept rows out, through vectors in whatever form and selection the test asks for. */
#include "weir/weir.h"
#include "arrow/cdata.h"
#include "expr/program.h"
#include "expr/timezone.h"

#include <string.h>

enum {
	WITH_SELECTION = 1,  /* random rows, by the seed */
	WITH_DICTIONARY = 2, /* columns as codes of distinct values */
	WITH_PENDING = 4,    /* columns not decoded yet */
	WITH_CONSTANTS = 8,  /* one row a vector, columns constant */
	WITH_SMALL = 16,     /* vectors of a few rows */
	WITH_FILTER = 32,    /* filter, not eval */
};

WEIR_API int weir_probe_expr(struct weir_mem *mem, const char *text, struct ArrowSchema *schema,
			     struct ArrowArray *batch, uint32_t flags, uint64_t seed, struct ArrowSchema *out_schema,
			     struct ArrowArray *out, int64_t *rows, int64_t *row_count, struct weir_error *err);
WEIR_API int weir_probe_expr_print(struct weir_mem *mem, const char *text, char *buffer, size_t size,
				   struct weir_error *err);
WEIR_API int weir_probe_timezone(struct weir_mem *mem, const char *name, const int64_t *seconds, size_t count,
				 int64_t *offsets, struct weir_error *err);

struct probe {
	struct weir_arena arena;
	struct weir_expr *expr;
	struct weir_program *program;
	struct weir_evaluator *evaluator;
	struct weir_schema *schema, *out_schema;
	struct weir_batch *batch, *result;
	struct weir_gather *gather;
	uint64_t seed;
	uint32_t flags;
};

static uint64_t next_random(struct probe *probe)
{
	probe->seed ^= probe->seed << 13;
	probe->seed ^= probe->seed >> 7;
	probe->seed ^= probe->seed << 17;
	return probe->seed >> 11;
}

static bool same_value(const struct weir_type *type, const void *values, uint32_t a, uint32_t b)
{
	if (type->layout == WEIR_LAYOUT_BYTES)
		return weir_view_equal((const struct weir_view *)values + a, (const struct weir_view *)values + b);
	return !memcmp((const uint8_t *)values + (size_t)a * type->byte_width,
		       (const uint8_t *)values + (size_t)b * type->byte_width, type->byte_width);
}

/* Quadratic, for few rows. */
static int encode(struct probe *probe, struct weir_column *column, uint32_t rows, struct weir_error *err)
{
	const struct weir_type *type = weir_type_values(column->type);
	size_t width = type->layout == WEIR_LAYOUT_BYTES ? sizeof(struct weir_view) : type->byte_width;
	struct weir_dictionary *dictionary = weir_arena_alloc_zero(&probe->arena, sizeof(*dictionary), err);
	uint32_t *codes = weir_arena_alloc_zero(&probe->arena, (rows + 1) * sizeof(*codes), err);
	uint8_t *values = weir_arena_alloc_aligned(&probe->arena, (rows + 1) * width, err);

	if (column->form != WEIR_FLAT || (type->layout != WEIR_LAYOUT_FIXED && type->layout != WEIR_LAYOUT_BYTES))
		return WEIR_OK;
	if (!dictionary || !codes || !values)
		return err->code;
	for (uint32_t i = 0; i < rows; i++) {
		uint32_t j = 0;

		if (!weir_column_valid(column, i))
			continue;
		while (j < i && (!weir_column_valid(column, j) || !same_value(type, column->values, i, j)))
			j++;
		if (j < i) {
			codes[i] = codes[j];
			continue;
		}
		codes[i] = dictionary->count;
		memcpy(values + dictionary->count++ * width, (const uint8_t *)column->values + i * width, width);
	}
	dictionary->id = weir_dictionary_id_new();
	dictionary->values = values;
	column->form = WEIR_DICTIONARY;
	column->values = codes;
	column->dictionary = dictionary;
	return WEIR_OK;
}

/* The column decoded long ago, handed out late; rows not asked for are overwritten with rubbish that must not
 * matter. */
struct late {
	struct weir_pending pending;
	struct weir_column column;
	uint32_t rows;
	struct weir_arena *arena;
};

static int decode_late(struct weir_pending *pending, const struct weir_selection *selection, struct weir_column *column,
		       struct weir_error *err)
{
	struct late *late = (struct late *)pending;
	struct weir_column it = late->column;
	const struct weir_type *type = weir_type_values(it.type);
	size_t width = type->layout == WEIR_LAYOUT_BYTES ? sizeof(struct weir_view) : type->byte_width;

	if (selection->rows && it.form == WEIR_FLAT &&
	    (type->layout == WEIR_LAYOUT_FIXED || type->layout == WEIR_LAYOUT_BYTES)) {
		uint8_t *values = weir_arena_alloc_aligned(late->arena, (late->rows + 1) * width, err);

		if (!values)
			return err->code;
		memset(values, 0xa5, late->rows * width);
		for (uint32_t k = 0; k < selection->count; k++)
			memcpy(values + selection->rows[k] * width,
			       (const uint8_t *)it.values + selection->rows[k] * width, width);
		it.values = values;
	}
	*column = it;
	column->pending = pending;
	return WEIR_OK;
}

static int disguise(struct probe *probe, struct weir_vector *vector, uint16_t *selected, struct weir_error *err)
{
	int code = WEIR_OK;

	for (uint32_t i = 0; !code && i < vector->column_count; i++) {
		struct weir_column *column = &vector->columns[i];

		if (probe->flags & WITH_DICTIONARY)
			code = encode(probe, column, vector->row_count, err);
		if (probe->flags & WITH_CONSTANTS && column->form == WEIR_FLAT &&
		    weir_type_values(column->type)->layout != WEIR_LAYOUT_NESTED)
			column->form = WEIR_CONSTANT;
		if (!code && probe->flags & WITH_PENDING) {
			struct late *late = weir_arena_alloc_zero(&probe->arena, sizeof(*late), err);

			if (!late)
				return err->code;
			*late = (struct late){.pending = {.decode = decode_late},
					      .column = *column,
					      .rows = vector->row_count,
					      .arena = &probe->arena};
			*column = (struct weir_column){
				.type = column->type, .form = WEIR_UNDECODED, .pending = &late->pending};
		}
	}
	if (probe->flags & WITH_SELECTION) {
		uint32_t count = 0, sparse = (uint32_t)(next_random(probe) % 3);

		for (uint32_t i = 0; i < vector->row_count; i++) {
			if (next_random(probe) % 10 < (sparse == 0 ? 2 : sparse == 1 ? 5 : 9))
				selected[count++] = (uint16_t)i;
		}
		vector->selection = (struct weir_selection){.count = count, .rows = selected};
	}
	return code;
}

static int one_vector(struct probe *probe, int64_t at, uint32_t size, int64_t *rows, int64_t *row_count,
		      struct weir_error *err)
{
	uint16_t selected[WEIR_VECTOR_ROWS];
	struct weir_vector vector, result;
	struct weir_column column;
	int code;

	weir_arena_clear(&probe->arena);
	code = weir_vector_from_batch(probe->batch, at, size, &probe->arena, &vector, err);
	if (!code)
		code = disguise(probe, &vector, selected, err);
	if (code)
		return code;
	vector.source = "probe";
	vector.source_row = at;
	if (probe->flags & WITH_FILTER) {
		code = weir_evaluator_filter(probe->evaluator, &vector, err);
	} else {
		code = weir_evaluator_eval(probe->evaluator, &vector, &column, err);
		result = vector;
		result.column_count = 1;
		result.columns = &column;
		if (!code)
			code = weir_gather_push(probe->gather, &result, err);
	}
	for (uint32_t k = 0; !code && k < vector.selection.count; k++)
		rows[(*row_count)++] = at + (vector.selection.rows ? vector.selection.rows[k] : k);
	return code;
}

static int run(struct probe *probe, int64_t *rows, int64_t *row_count, struct weir_error *err)
{
	int64_t total = probe->batch->row_count;
	int code = WEIR_OK;

	for (int64_t at = 0; !code && at < total;) {
		int64_t size = probe->flags & WITH_CONSTANTS ? 1
			       : probe->flags & WITH_SMALL   ? (int64_t)(1 + next_random(probe) % 70)
							     : WEIR_VECTOR_ROWS;

		size = size < total - at ? size : total - at;
		code = one_vector(probe, at, (uint32_t)size, rows, row_count, err);
		at += size;
	}
	return code;
}

int weir_probe_expr(struct weir_mem *mem, const char *text, struct ArrowSchema *schema, struct ArrowArray *batch,
		    uint32_t flags, uint64_t seed, struct ArrowSchema *out_schema, struct ArrowArray *out,
		    int64_t *rows, int64_t *row_count, struct weir_error *err)
{
	struct weir_account *account = weir_mem_root(mem);
	struct probe probe = {.flags = flags, .seed = seed * 2 + 1};
	struct weir_field field = {.name = "result", .nullable = true};

	weir_error_clear(err);
	*row_count = 0;
	weir_arena_init(&probe.arena, account);
	if (weir_cdata_import_schema(account, schema, &probe.schema, err) ||
	    weir_cdata_import_batch(account, probe.schema, batch, &probe.batch, err) ||
	    weir_expr_parse(account, text, &probe.expr, err) ||
	    weir_program_new(account, probe.expr, probe.schema, &probe.program, err) ||
	    weir_evaluator_new(account, probe.program, &probe.evaluator, err))
		goto out;
	if (flags & WITH_FILTER && weir_program_type(probe.program)->id != WEIR_BOOL) {
		weir_error_set(err, WEIR_E_TYPE, "not a predicate");
		goto out;
	}
	field.type = weir_program_type(probe.program);
	probe.out_schema = weir_schema_new(account, &field, 1, NULL, err);
	if (!probe.out_schema || weir_gather_new(account, probe.out_schema, &probe.gather, err) ||
	    run(&probe, rows, row_count, err) || weir_gather_finish(probe.gather, &probe.result, err) ||
	    weir_array_validate(probe.result->columns[0], true, err) ||
	    weir_cdata_export_type(account, field.type, "", out_schema, err))
		goto out;
	if (weir_cdata_export_array(probe.result->columns[0], out, err))
		out_schema->release(out_schema);
out:
	if (probe.result)
		weir_batch_unref(probe.result);
	weir_gather_free(probe.gather);
	weir_evaluator_free(probe.evaluator);
	weir_program_free(probe.program);
	weir_expr_free(probe.expr);
	if (probe.batch)
		weir_batch_unref(probe.batch);
	if (probe.out_schema)
		weir_schema_unref(probe.out_schema);
	if (probe.schema)
		weir_schema_unref(probe.schema);
	weir_arena_release(&probe.arena);
	return err->code;
}

int weir_probe_expr_print(struct weir_mem *mem, const char *text, char *buffer, size_t size, struct weir_error *err)
{
	struct weir_account *account = weir_mem_root(mem);
	struct weir_expr *expr = NULL;
	struct weir_text printed;

	weir_error_clear(err);
	weir_text_init(&printed, account);
	if (!weir_expr_parse(account, text, &expr, err) && !weir_expr_print(expr, &printed, err) && printed.size < size)
		memcpy(buffer, printed.data, printed.size + 1);
	weir_text_release(&printed);
	weir_expr_free(expr);
	return err->code;
}

/* The offset of each instant. */
int weir_probe_timezone(struct weir_mem *mem, const char *name, const int64_t *seconds, size_t count, int64_t *offsets,
			struct weir_error *err)
{
	struct weir_timezone *zone = NULL;

	weir_error_clear(err);
	if (weir_timezone_new(weir_mem_root(mem), name, &zone, err))
		return err->code;
	for (size_t i = 0; i < count; i++)
		offsets[i] = weir_timezone_offset(zone, seconds[i]);
	weir_timezone_free(zone);
	return WEIR_OK;
}
