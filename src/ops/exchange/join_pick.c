#include "ops/exchange/join_pick.h"

#include "arrow/bitmap.h"

#include <string.h>

static inline uint32_t place_in(const struct weir_column *column, uint32_t row)
{
	if (column->form == WEIR_DICTIONARY)
		return ((const uint32_t *)column->values)[row];
	return column->form == WEIR_CONSTANT ? 0 : row;
}

static inline const void *values_in(const struct weir_column *column)
{
	return column->form == WEIR_DICTIONARY ? column->dictionary->values : column->values;
}

static int put_validity(const struct weir_column *const *sources, uint32_t source_count,
			const struct weir_join_pick *picks, uint32_t count, struct weir_arena *arena,
			struct weir_column *out, struct weir_error *err)
{
	bool has_nulls = false;
	uint64_t *words;

	for (uint32_t s = 0; s < source_count; s++)
		has_nulls = has_nulls || (sources[s] && sources[s]->validity);
	if (!has_nulls)
		return WEIR_OK;
	words = weir_arena_alloc_zero(arena, (size_t)(count / 64 + 1) * sizeof(*words), err);
	if (!words)
		return err->code;
	for (uint32_t i = 0; i < count; i++)
		words[i >> 6] |= (uint64_t)weir_column_valid(sources[picks[i].source], picks[i].row) << (i & 63);
	out->validity = words;
	return WEIR_OK;
}

/* Whether most places can be left alone. */
static inline bool is_sparse(const struct weir_selection *wanted, uint32_t count)
{
	return wanted && wanted->rows && wanted->count < count / 2;
}

static inline __attribute__((always_inline)) void put_some(const struct weir_column *const *sources,
							   const struct weir_join_pick *picks,
							   const struct weir_selection *wanted, uint8_t *to,
							   size_t width)
{
	for (uint32_t k = 0; k < wanted->count; k++) {
		uint32_t i = wanted->rows[k];
		const struct weir_column *source = sources[picks[i].source];
		const uint8_t *from = values_in(source);

		memcpy(to + i * width, from + place_in(source, picks[i].row) * width, width);
	}
}

static inline __attribute__((always_inline)) void put_width(const struct weir_column *const *sources,
							    const struct weir_join_pick *picks, uint32_t count,
							    uint8_t *to, size_t width)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct weir_column *source = sources[picks[i].source];
		const uint8_t *from = values_in(source);

		memcpy(to + i * width, from + place_in(source, picks[i].row) * width, width);
	}
}

static int put_fixed(const struct weir_column *const *sources, const struct weir_join_pick *picks, uint32_t count,
		     const struct weir_selection *wanted, size_t width, struct weir_arena *arena,
		     struct weir_column *out, struct weir_error *err)
{
	uint8_t *to = weir_arena_alloc_aligned(arena, (size_t)count * width + 8, err);

	if (!to)
		return err->code;
	out->values = to;
	if (is_sparse(wanted, count)) {
		memset(to, 0, (size_t)count * width);
		if (width == 8)
			put_some(sources, picks, wanted, to, 8);
		else if (width == 4)
			put_some(sources, picks, wanted, to, 4);
		else
			put_some(sources, picks, wanted, to, width);
		return WEIR_OK;
	}
	switch (width) {
	case 1:
		put_width(sources, picks, count, to, 1);
		break;
	case 2:
		put_width(sources, picks, count, to, 2);
		break;
	case 4:
		put_width(sources, picks, count, to, 4);
		break;
	case 8:
		put_width(sources, picks, count, to, 8);
		break;
	case 16:
		put_width(sources, picks, count, to, 16);
		break;
	default:
		put_width(sources, picks, count, to, width);
	}
	return WEIR_OK;
}

static int put_bits(const struct weir_column *const *sources, const struct weir_join_pick *picks, uint32_t count,
		    struct weir_arena *arena, struct weir_column *out, struct weir_error *err)
{
	uint64_t *words = weir_arena_alloc_zero(arena, (size_t)(count / 64 + 1) * sizeof(*words), err);

	if (!words)
		return err->code;
	for (uint32_t i = 0; i < count; i++) {
		const struct weir_column *source = sources[picks[i].source];
		uint32_t place = place_in(source, picks[i].row);
		const uint64_t *bits = values_in(source);

		words[i >> 6] |= (bits[place >> 6] >> (place & 63) & 1) << (i & 63);
	}
	out->values = words;
	return WEIR_OK;
}

/* Neighbours go together. */
static int put_nested(const struct weir_column *const *sources, const struct weir_join_pick *picks, uint32_t count,
		      struct weir_account *account, struct weir_column *out, struct weir_array **nested,
		      struct weir_error *err)
{
	struct weir_builder builder;
	int code = weir_builder_init(&builder, weir_type_values(out->type), account, err);

	for (uint32_t i = 0, end; i < count && !code; i = end) {
		const struct weir_column *source = sources[picks[i].source];

		end = i + 1;
		if (!weir_column_valid(source, picks[i].row)) {
			code = weir_builder_null(&builder, 1, err);
		} else if (source->form == WEIR_DICTIONARY) {
			code = weir_builder_array(&builder, source->dictionary->nested, place_in(source, picks[i].row),
						  1, err);
		} else {
			while (end < count && picks[end].source == picks[i].source &&
			       picks[end].row == picks[i].row + (end - i) && weir_column_valid(source, picks[end].row))
				end++;
			code = weir_builder_array(&builder, source->nested, source->nested_offset + picks[i].row,
						  end - i, err);
		}
	}
	if (!code)
		code = weir_builder_settle(&builder, err);
	if (!code)
		*nested = weir_builder_finish(&builder, err);
	weir_builder_release(&builder);
	if (!code && !*nested)
		code = err->code;
	out->nested = code ? NULL : *nested;
	return code;
}

int weir_join_pick_column(const struct weir_column *const *sources, uint32_t source_count,
			  const struct weir_join_pick *picks, uint32_t count, const struct weir_selection *wanted,
			  struct weir_account *account, struct weir_arena *arena, struct weir_column *out,
			  struct weir_array **nested, struct weir_error *err)
{
	static const uint64_t nothing[1];
	const struct weir_type *type = sources[picks[0].source]->type, *values = weir_type_values(type);
	int code;

	*out = (struct weir_column){.type = type, .form = WEIR_FLAT};
	if (values->layout == WEIR_LAYOUT_NULL) {
		out->form = WEIR_CONSTANT;
		out->validity = nothing;
		return WEIR_OK;
	}
	code = put_validity(sources, source_count, picks, count, arena, out, err);
	if (code)
		return code;
	switch (values->layout) {
	case WEIR_LAYOUT_BITS:
		return put_bits(sources, picks, count, arena, out, err);
	case WEIR_LAYOUT_FIXED:
		return put_fixed(sources, picks, count, wanted, values->byte_width, arena, out, err);
	case WEIR_LAYOUT_BYTES:
		return put_fixed(sources, picks, count, wanted, sizeof(struct weir_view), arena, out, err);
	default:
		return put_nested(sources, picks, count, account, out, nested, err);
	}
}
