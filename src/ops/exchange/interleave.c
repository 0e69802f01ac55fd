/* Picks are known for a whole vector before anything is moved, so each column is one loop whose reads do not wait for
 * each other. What they read is fetched some rows ahead: rows come from many places by turns, so that the processor
 * does not see which lines of each will be next. Where a source has many rows one after the other, as each has of a key
 * that is there very often, these are copied as one piece. Dictionaries have a loop of their own that looks the code up
 * first; what comes out is flat.
 *
 * Of a hundred runs each value would come from another page than the one before. Columns of runs are alike, so that
 * those pages are equally far into large pieces of memory, and share the few places that the processor has for where
 * such pages are: it would look nearly each of them up again (160 runs of eight columns: 5.7 ns a value, 1.6 of 40).
 * Each run's rows of a piece are neighbours, though, so they are copied run by run first, and put in order in the cache
 * (1.6 ns of any number). */
#include "ops/exchange/interleave.h"

#include "arrow/bitmap.h"

#include <string.h>

enum {
	AHEAD = 256, /* memory answers after some two hundred times what a value takes that is at hand */
	TEXT_AHEAD = 64,
	STRETCH = 32, /* neighbours that are worth a copy of their own */
	SPANS_MIN = 32,
	SPANS_AHEAD = 4,
	LINE = 64,
};

static bool may_have_nulls(const struct weir_array *array)
{
	return array->buffers[0].data && array->null_count != 0;
}

void weir_cells_init(struct weir_cells *cells, const struct weir_array *array)
{
	const struct weir_type *type = array->type;
	size_t width = type->byte_width;

	*cells = (struct weir_cells){.array = array};
	if (may_have_nulls(array))
		cells->validity = array->buffers[0].data;
	if (type->id == WEIR_DICTIONARY_TYPE)
		return;
	if (type->layout == WEIR_LAYOUT_BYTES)
		width = type->id == WEIR_LARGE_STRING || type->id == WEIR_LARGE_BINARY ? 8 : 4;
	if ((type->layout == WEIR_LAYOUT_FIXED || type->layout == WEIR_LAYOUT_BYTES) && array->buffers[1].data)
		cells->values = array->buffers[1].data + (size_t)array->offset * width;
	if (type->layout == WEIR_LAYOUT_BYTES) {
		cells->bytes = array->buffers[2].data ? array->buffers[2].data : (const uint8_t *)"";
		cells->bytes_end = cells->bytes + array->buffers[2].size;
	}
}

bool weir_cells_have_nulls(const struct weir_cells *cells)
{
	return cells->validity || (cells->array->dictionary && may_have_nulls(cells->array->dictionary));
}

static inline bool is_valid(const struct weir_cells *cells, uint32_t row)
{
	return !cells->validity || weir_bit_get(cells->validity, cells->array->offset + row);
}

/* The values of a dictionary, and which of them a row has; false: the row is null. */
static bool value_of(const struct weir_cells *cells, uint32_t row, struct weir_cells *values, uint32_t *place)
{
	if (!is_valid(cells, row))
		return false;
	weir_cells_init(values, cells->array->dictionary);
	*place = (uint32_t)weir_array_code(cells->array, cells->array->offset + row);
	return is_valid(values, *place);
}

/* ---- spans ---- */

int weir_spans_new(struct weir_account *account, size_t source_count, struct weir_spans **out, struct weir_error *err)
{
	*out = NULL;
	if (source_count < SPANS_MIN)
		return WEIR_OK;
	*out = weir_alloc(account, sizeof(**out) + source_count * sizeof((*out)->of[0]), err);
	if (!*out)
		return err->code;
	(*out)->source_count = (uint32_t)source_count;
	(*out)->hold = false;
	return WEIR_OK;
}

void weir_spans_free(struct weir_account *account, struct weir_spans *spans)
{
	weir_free(account, spans, spans ? sizeof(*spans) + spans->source_count * sizeof(spans->of[0]) : 0);
}

/* The number of sources that have rows; spans are empty, but where they begin is known. */
static uint32_t lay_spans(struct weir_spans *spans, const struct weir_pick *picks, uint32_t count)
{
	uint32_t rows = 0, used = 0;

	memset(spans->of, 0, spans->source_count * sizeof(spans->of[0]));
	for (uint32_t i = 0; i < count; i++)
		spans->of[picks[i].source].end++;
	for (uint32_t i = 0; i < spans->source_count; i++) {
		uint32_t here = spans->of[i].end;

		spans->of[i].begin = spans->of[i].end = rows;
		rows += here;
		used += here > 0;
	}
	return used;
}

void weir_spans_find(struct weir_spans *spans, const struct weir_pick *picks, uint32_t count)
{
	if (!spans)
		return;
	spans->hold = count <= WEIR_SPANS_ROWS && lay_spans(spans, picks, count) >= SPANS_MIN;
	for (uint32_t i = 0; i < count && spans->hold; i++) {
		struct weir_span *span = &spans->of[picks[i].source];

		if (span->end == span->begin)
			span->row = picks[i].row;
		spans->hold = picks[i].row - span->row == span->end - span->begin;
		spans->places[i] = (uint16_t)span->end++;
	}
}

/* ---- columns ---- */

static int put_validity(const struct weir_cells *sources, const struct weir_pick *picks, uint32_t count,
			bool is_dictionary, struct weir_arena *arena, struct weir_column *out, struct weir_error *err)
{
	uint64_t *words = weir_arena_alloc_zero(arena, (size_t)(count / 64 + 1) * sizeof(*words), err);
	struct weir_cells values;
	uint32_t place;

	if (!words)
		return err->code;
	for (uint32_t i = 0; i < count; i++) {
		const struct weir_cells *source = &sources[picks[i].source];
		bool valid = is_dictionary ? value_of(source, picks[i].row, &values, &place)
					   : is_valid(source, picks[i].row);

		words[i >> 6] |= (uint64_t)valid << (i & 63);
	}
	out->validity = words;
	return WEIR_OK;
}

static inline __attribute__((always_inline)) void put_width(const struct weir_cells *sources,
							    const struct weir_pick *picks, uint32_t count, uint8_t *to,
							    size_t width)
{
	uint32_t i = 0;

	for (; i + AHEAD < count; i++) {
		const struct weir_pick *later = &picks[i + AHEAD];

		__builtin_prefetch(sources[later->source].values + (size_t)later->row * width);
		memcpy(to + i * width, sources[picks[i].source].values + (size_t)picks[i].row * width, width);
	}
	for (; i < count; i++)
		memcpy(to + i * width, sources[picks[i].source].values + (size_t)picks[i].row * width, width);
}

static bool are_neighbours(const struct weir_pick *pick, uint32_t apart)
{
	return pick[apart].source == pick->source && pick[apart].row == pick->row + apart;
}

/* Where many neighbours begin, from `at` on, and end; `count` if there are none. Places that are looked at are half as
 * far apart as a stretch is long, so that none is missed. */
static uint32_t find_stretch(const struct weir_pick *picks, uint32_t at, uint32_t count, uint32_t *end)
{
	for (uint32_t i = at; i + STRETCH / 2 < count; i += STRETCH / 2) {
		uint32_t begin = i;

		if (!are_neighbours(picks + i, STRETCH / 2))
			continue;
		while (begin > at && are_neighbours(picks + begin - 1, 1))
			begin--;
		for (*end = i + 1; *end < count && are_neighbours(picks + *end - 1, 1);)
			++*end;
		if (*end - begin >= STRETCH)
			return begin;
	}
	*end = count;
	return count;
}

static void put_values(const struct weir_cells *sources, const struct weir_pick *picks, uint32_t count, size_t width,
		       uint8_t *to)
{
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
}

static inline __attribute__((always_inline)) void put_places(const uint8_t *from, const uint16_t *places,
							     uint32_t count, uint8_t *to, size_t width)
{
	for (uint32_t i = 0; i < count; i++)
		memcpy(to + i * width, from + places[i] * width, width);
}

static void fetch_span(const struct weir_cells *cells, const struct weir_span *span, size_t width)
{
	for (size_t at = 0; at < (span->end - span->begin) * width; at += LINE)
		__builtin_prefetch(cells->values + span->row * width + at);
}

static void put_spans(const struct weir_cells *sources, struct weir_spans *spans, uint32_t count, size_t width,
		      uint8_t *to)
{
	uint8_t *between = spans->between;
	const uint16_t *places = spans->places;

	for (uint32_t i = 0; i < spans->source_count; i++) {
		const struct weir_span *span = &spans->of[i];

		if (i + SPANS_AHEAD < spans->source_count)
			fetch_span(&sources[i + SPANS_AHEAD], span + SPANS_AHEAD, width);
		if (span->end > span->begin)
			memcpy(between + span->begin * width, sources[i].values + span->row * width,
			       (span->end - span->begin) * width);
	}
	switch (width) {
	case 1:
		put_places(between, places, count, to, 1);
		break;
	case 2:
		put_places(between, places, count, to, 2);
		break;
	case 4:
		put_places(between, places, count, to, 4);
		break;
	case 8:
		put_places(between, places, count, to, 8);
		break;
	case 16:
		put_places(between, places, count, to, 16);
		break;
	default:
		put_places(between, places, count, to, width);
	}
}

void weir_interleave_values(const struct weir_cells *sources, struct weir_spans *spans, const struct weir_pick *picks,
			    uint32_t count, size_t width, uint8_t *to)
{
	if (spans && spans->hold && count * width <= WEIR_SPANS_BYTES) {
		put_spans(sources, spans, count, width, to);
		return;
	}
	for (uint32_t at = 0, begin, end; at < count; at = end) {
		begin = find_stretch(picks, at, count, &end);
		put_values(sources, picks + at, begin - at, width, to + at * width);
		if (end > begin)
			memcpy(to + begin * width,
			       sources[picks[begin].source].values + (size_t)picks[begin].row * width,
			       (end - begin) * width);
	}
}

/* As weir_view_make, without a copy of unknown length where twelve bytes can be read. */
static inline struct weir_view view_of(const struct weir_cells *cells, int64_t begin, int64_t end)
{
	const uint8_t *from = cells->bytes + begin;
	uint32_t size = (uint32_t)(end - begin);
	struct weir_view view = {.size = size};
	uint64_t low;
	uint32_t high;

	WEIR_DCHECK(end >= begin && end - begin <= (int64_t)UINT32_MAX);
	if (size > WEIR_VIEW_INLINE || cells->bytes_end - from < (ptrdiff_t)WEIR_VIEW_INLINE)
		return weir_view_make(from, size);
	memcpy(&low, from, 8);
	memcpy(&high, from + 8, 4);
	if (size < 8)
		low &= ((uint64_t)1 << (8 * size)) - 1;
	high = size <= 8 ? 0 : size < WEIR_VIEW_INLINE ? high & (((uint32_t)1 << (8 * (size - 8))) - 1) : high;
	memcpy(view.prefix, &low, 8);
	memcpy(view.prefix + 8, &high, 4);
	return view;
}

static inline struct weir_view view_at(const struct weir_cells *cells, uint32_t row, bool is_large)
{
	if (is_large)
		return view_of(cells, ((const int64_t *)cells->values)[row], ((const int64_t *)cells->values)[row + 1]);
	return view_of(cells, ((const int32_t *)cells->values)[row], ((const int32_t *)cells->values)[row + 1]);
}

/* Where a value begins that will be looked at later, and, nearer, its bytes. A source of nulls alone may have neither.
 * In a function that is called, which gives nothing and changes nothing, the compiler sees nothing to do: it has to be
 * inlined. */
static inline __attribute__((always_inline)) void fetch_view(const struct weir_cells *sources,
							     const struct weir_pick *picks, uint32_t at, uint32_t count,
							     bool is_large)
{
	size_t width = is_large ? sizeof(int64_t) : sizeof(int32_t);
	const struct weir_cells *cells;
	const uint8_t *text;
	uint32_t row;

	if (at + 2 * TEXT_AHEAD < count && sources[picks[at + 2 * TEXT_AHEAD].source].values)
		__builtin_prefetch(sources[picks[at + 2 * TEXT_AHEAD].source].values +
				   picks[at + 2 * TEXT_AHEAD].row * width);
	if (at + TEXT_AHEAD >= count)
		return;
	cells = &sources[picks[at + TEXT_AHEAD].source];
	row = picks[at + TEXT_AHEAD].row;
	if (!cells->values)
		return;
	text = cells->bytes +
	       (is_large ? ((const int64_t *)cells->values)[row] : ((const int32_t *)cells->values)[row]);
	/* Every fourth or so ends in another line than it begins in. */
	__builtin_prefetch(text);
	__builtin_prefetch(text + 15);
}

static void put_views(const struct weir_cells *sources, const struct weir_pick *picks, uint32_t count, bool is_large,
		      const uint64_t *valid, struct weir_view *to)
{
	for (uint32_t i = 0; i < count; i++) {
		fetch_view(sources, picks, i, count, is_large);
		if (!valid || valid[i >> 6] >> (i & 63) & 1)
			to[i] = view_at(&sources[picks[i].source], picks[i].row, is_large);
		else
			to[i] = (struct weir_view){0};
	}
}

void weir_interleave_bits(const struct weir_cells *sources, const struct weir_pick *picks, uint32_t count, uint64_t *to)
{
	memset(to, 0, (size_t)(count / 64 + 1) * sizeof(*to));
	for (uint32_t i = 0; i < count; i++) {
		const struct weir_array *array = sources[picks[i].source].array;

		to[i >> 6] |= (uint64_t)weir_bit_get(array->buffers[1].data, array->offset + picks[i].row) << (i & 63);
	}
}

uint32_t weir_interleave_validity(const struct weir_cells *sources, const struct weir_pick *picks, uint32_t count,
				  uint64_t *to)
{
	uint32_t valid_count = 0;

	memset(to, 0, (size_t)(count / 64 + 1) * sizeof(*to));
	for (uint32_t i = 0; i < count; i++) {
		bool valid = is_valid(&sources[picks[i].source], picks[i].row);

		to[i >> 6] |= (uint64_t)valid << (i & 63);
		valid_count += valid;
	}
	return valid_count;
}

static bool has_large_offsets(const struct weir_cells *cells)
{
	return cells->array->type->id == WEIR_LARGE_STRING || cells->array->type->id == WEIR_LARGE_BINARY;
}

#define PUT_ENDS(TYPE)                                                                                                 \
	for (uint32_t i = 0; i < count; i++) {                                                                         \
		const struct weir_cells *cells = &sources[picks[i].source];                                            \
		const TYPE *offsets = (const TYPE *)cells->values + picks[i].row;                                      \
		if (i + AHEAD < count)                                                                                 \
			__builtin_prefetch((const TYPE *)sources[picks[i + AHEAD].source].values +                     \
					   picks[i + AHEAD].row);                                                      \
		/* A null has no bytes, whatever its offsets say. */                                                   \
		if (is_valid(cells, picks[i].row))                                                                     \
			begin += (uint64_t)(offsets[1] - offsets[0]);                                                  \
		((TYPE *)ends)[i] = (TYPE)begin;                                                                       \
	}

uint64_t weir_interleave_ends(const struct weir_cells *sources, const struct weir_pick *picks, uint32_t count,
			      uint64_t begin, uint8_t *ends)
{
	if (has_large_offsets(&sources[picks[0].source]))
		PUT_ENDS(int64_t)
	else
		PUT_ENDS(int32_t)
	return begin;
}

/* Short ones as sixteen bytes at once, where both sides have them: what is too much is the next one's, which comes
 * later. Of a stretch there may be bytes of nulls between; if not, it is one piece. */
#define PUT_BYTES(TYPE)                                                                                                \
	do {                                                                                                           \
		const TYPE *ends = (const TYPE *)offsets;                                                              \
		for (uint32_t at = 0, first, last; at < count; at = last) {                                            \
			first = find_stretch(picks, at, count, &last);                                                 \
			for (uint32_t i = at; i < first; i++)                                                          \
				PUT_TEXT(TYPE, i);                                                                     \
			if (first == last)                                                                             \
				break;                                                                                 \
			const struct weir_cells *cells = &sources[picks[first].source];                                \
			const TYPE *begins = (const TYPE *)cells->values + picks[first].row;                           \
			uint64_t length = (uint64_t)(ends[last] - ends[first]);                                        \
			if (length == (uint64_t)(begins[last - first] - begins[0])) {                                  \
				if (length)                                                                            \
					memcpy(to + (ends[first] - ends[0]), cells->bytes + begins[0], length);        \
				continue;                                                                              \
			}                                                                                              \
			for (uint32_t i = first; i < last; i++)                                                        \
				PUT_TEXT(TYPE, i);                                                                     \
		}                                                                                                      \
	} while (0)

#define PUT_TEXT(TYPE, i)                                                                                              \
	do {                                                                                                           \
		const struct weir_cells *its = &sources[picks[i].source];                                              \
		uint64_t begin = (uint64_t)(ends[i] - ends[0]), size_here = (uint64_t)(ends[(i) + 1] - ends[i]);       \
		fetch_view(sources, picks, i, count, sizeof(TYPE) == 8);                                               \
		if (size_here)                                                                                         \
			put_text(its, its->bytes + ((const TYPE *)its->values)[picks[i].row], size_here, to + begin,   \
				 size - begin);                                                                        \
	} while (0)

static inline __attribute__((always_inline)) void put_text(const struct weir_cells *cells, const uint8_t *from,
							   uint64_t length, uint8_t *to, uint64_t room)
{
	if (length <= 16 && room >= 16 && cells->bytes_end - from >= 16)
		memcpy(to, from, 16);
	else
		memcpy(to, from, length);
}

void weir_interleave_bytes(const struct weir_cells *sources, const struct weir_pick *picks, uint32_t count,
			   const uint8_t *offsets, uint8_t *to, uint64_t size)
{
	if (has_large_offsets(&sources[picks[0].source]))
		PUT_BYTES(int64_t);
	else
		PUT_BYTES(int32_t);
}

/* Values out of dictionaries: of the layouts above, where each row is looked up. `to` is zero for nulls. */
static void put_looked_up(const struct weir_cells *sources, const struct weir_pick *picks, uint32_t count,
			  const struct weir_type *type, uint8_t *to)
{
	bool is_large = type->id == WEIR_LARGE_STRING || type->id == WEIR_LARGE_BINARY;
	struct weir_cells values;
	uint32_t place;

	for (uint32_t i = 0; i < count; i++) {
		if (!value_of(&sources[picks[i].source], picks[i].row, &values, &place))
			continue;
		if (type->layout == WEIR_LAYOUT_BYTES)
			((struct weir_view *)to)[i] = view_at(&values, place, is_large);
		else if (type->layout == WEIR_LAYOUT_FIXED)
			memcpy(to + (size_t)i * type->byte_width, values.values + (size_t)place * type->byte_width,
			       type->byte_width);
		else
			((uint64_t *)to)[i >> 6] |=
				(uint64_t)weir_bit_get(values.array->buffers[1].data, values.array->offset + place)
				<< (i & 63);
	}
}

/* Neighbours go together. */
static int put_nested(const struct weir_cells *sources, const struct weir_pick *picks, uint32_t count,
		      bool is_dictionary, struct weir_account *account, struct weir_column *out,
		      struct weir_array **nested, struct weir_error *err)
{
	struct weir_builder builder;
	int code = weir_builder_init(&builder, weir_type_values(out->type), account, err);

	for (uint32_t i = 0, end; i < count && !code; i = end) {
		const struct weir_cells *source = &sources[picks[i].source];
		struct weir_cells values;
		uint32_t place;

		end = i + 1;
		if (is_dictionary) {
			if (value_of(source, picks[i].row, &values, &place))
				code = weir_builder_array(&builder, values.array, place, 1, err);
			else
				code = weir_builder_null(&builder, 1, err);
		} else if (!is_valid(source, picks[i].row)) {
			code = weir_builder_null(&builder, 1, err);
		} else {
			while (end < count && picks[end].source == picks[i].source &&
			       picks[end].row == picks[i].row + (end - i) && is_valid(source, picks[end].row))
				end++;
			code = weir_builder_array(&builder, source->array, picks[i].row, end - i, err);
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

int weir_interleave(const struct weir_cells *sources, bool has_nulls, struct weir_spans *spans,
		    const struct weir_pick *picks, uint32_t count, struct weir_account *account,
		    struct weir_arena *arena, struct weir_column *out, struct weir_array **nested,
		    struct weir_error *err)
{
	static const uint64_t nothing[1];
	const struct weir_type *type = sources[picks[0].source].array->type, *values = weir_type_values(type);
	bool is_dictionary = type->id == WEIR_DICTIONARY_TYPE;
	size_t size;
	uint8_t *to;
	int code = WEIR_OK;

	*out = (struct weir_column){.type = type, .form = WEIR_FLAT};
	if (values->layout == WEIR_LAYOUT_NULL) {
		out->form = WEIR_CONSTANT;
		out->validity = nothing;
		return WEIR_OK;
	}
	if (has_nulls)
		code = put_validity(sources, picks, count, is_dictionary, arena, out, err);
	if (code)
		return code;
	if (values->layout == WEIR_LAYOUT_NESTED)
		return put_nested(sources, picks, count, is_dictionary, account, out, nested, err);
	size = values->layout == WEIR_LAYOUT_BITS    ? (size_t)(count / 64 + 1) * 8
	       : values->layout == WEIR_LAYOUT_BYTES ? (size_t)count * sizeof(struct weir_view)
						     : (size_t)count * values->byte_width + 8;
	to = weir_arena_alloc_aligned(arena, size, err);
	if (!to)
		return err->code;
	out->values = to;
	if (is_dictionary)
		memset(to, 0, size);
	if (is_dictionary)
		put_looked_up(sources, picks, count, values, to);
	else if (values->layout == WEIR_LAYOUT_BITS)
		weir_interleave_bits(sources, picks, count, (uint64_t *)to);
	else if (values->layout == WEIR_LAYOUT_BYTES)
		put_views(sources, picks, count, values->id == WEIR_LARGE_STRING || values->id == WEIR_LARGE_BINARY,
			  out->validity, (struct weir_view *)to);
	else
		weir_interleave_values(sources, spans, picks, count, values->byte_width, to);
	return WEIR_OK;
}
