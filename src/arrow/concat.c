/* Concatenation and filtering by runs: rows are measured first, memory is taken once, runs are copied whole. */
#include "arrow/arrow_impl.h"

static int concat_into(struct weir_builder *builder, struct weir_array *const *arrays, uint32_t count,
		       struct weir_error *err)
{
	for (uint32_t i = 0; i < count; i++)
		builder_measure(builder, arrays[i], 0, arrays[i]->length);
	if (builder_reserve(builder, err))
		return err->code;
	for (uint32_t i = 0; i < count; i++)
		if (weir_builder_array(builder, arrays[i], 0, arrays[i]->length, err))
			return err->code;
	return WEIR_OK;
}

struct weir_array *weir_array_concat(struct weir_account *account, struct weir_array *const *arrays, uint32_t count,
				     struct weir_error *err)
{
	struct weir_builder builder = {0};
	struct weir_array *result = NULL;

	WEIR_ASSERT(count > 0);
	for (uint32_t i = 1; i < count; i++)
		if (!weir_type_equal(arrays[0]->type, arrays[i]->type, false)) {
			char a[128], b[128];

			weir_error_set(err, WEIR_E_TYPE, "arrays of %s and %s cannot be concatenated",
				       weir_type_name(arrays[0]->type, a, sizeof(a)),
				       weir_type_name(arrays[i]->type, b, sizeof(b)));
			return NULL;
		}
	if (count == 1)
		return weir_array_ref(arrays[0]);
	if (!weir_builder_init(&builder, arrays[0]->type, account, err) && !concat_into(&builder, arrays, count, err))
		result = weir_builder_finish(&builder, err);
	weir_builder_release(&builder);
	return result;
}

static int filter_runs(struct weir_builder *builder, const struct weir_array *array, const uint8_t *keep,
		       struct weir_error *err)
{
	int64_t run;

	for (int64_t at = 0; (run = weir_bits_run(keep, 0, &at, array->length)) > 0; at += run)
		builder_measure(builder, array, at, run);
	if (builder_reserve(builder, err))
		return err->code;
	for (int64_t at = 0; (run = weir_bits_run(keep, 0, &at, array->length)) > 0; at += run)
		if (weir_builder_array(builder, array, at, run, err))
			return err->code;
	return WEIR_OK;
}

static struct weir_array *filter_rows(struct weir_account *account, const struct weir_array *array, const uint8_t *keep,
				      int64_t kept, struct weir_error *err)
{
	size_t size = (size_t)kept * sizeof(int64_t);
	int64_t *rows = weir_alloc(account, size, err), used = 0;
	struct weir_array *result;

	if (!rows)
		return NULL;
	for (int64_t at = 0; at < array->length; at += 64) {
		int64_t step = array->length - at < 64 ? array->length - at : 64;

		for (uint64_t word = weir_bits_load(keep, at, step); word; word &= word - 1)
			rows[used++] = at + __builtin_ctzll(word);
	}
	result = weir_array_take(account, array, rows, kept, err);
	weir_free(account, rows, size);
	return result;
}

/* Kept rows, and runs of them: a run begins at each set bit whose lower neighbour is clear. */
static int64_t count_runs(const uint8_t *keep, int64_t count, int64_t *kept)
{
	int64_t runs = 0;
	uint64_t last = 0;

	*kept = 0;
	for (int64_t at = 0; at < count; at += 64) {
		uint64_t word = weir_bits_load(keep, at, count - at < 64 ? count - at : 64);

		*kept += __builtin_popcountll(word);
		runs += __builtin_popcountll(word & ~(word << 1 | last));
		last = word >> 63;
	}
	return runs;
}

struct weir_array *weir_array_filter(struct weir_account *account, const struct weir_array *array,
				     const uint64_t *keep_bits, struct weir_error *err)
{
	enum { RUN_MIN = 8 }; /* shorter ones cost more to begin than to gather row by row */
	const uint8_t *keep = (const uint8_t *)keep_bits;
	struct weir_builder builder = {0};
	struct weir_array *result = NULL;
	int64_t kept, runs = count_runs(keep, array->length, &kept);

	if (kept == array->length)
		return weir_array_ref(array);
	if (kept < runs * RUN_MIN)
		return filter_rows(account, array, keep, kept, err);
	if (!weir_builder_init(&builder, array->type, account, err) && !filter_runs(&builder, array, keep, err))
		result = weir_builder_finish(&builder, err);
	weir_builder_release(&builder);
	return result;
}
