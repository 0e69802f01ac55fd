/* Bytes of a record batch's buffers: fetched from the body, inflated if need be, on the boundary that their values
 * need.
 *
 * Of a plain buffer only what is asked for is fetched. A compressed one is inflated whole when first needed and kept in
 * the layout. Lengths that the message claims are compared with what is there before anything is allocated for them.
 */
#include "base/checked.h"
#include "arrow/arrow_impl.h"
#include "arrow/ipc_impl.h"

static int inflate(struct ipc_rows *rows, uint32_t number, struct weir_error *err)
{
	struct weir_ipc_layout *layout = rows->layout;
	struct ipc_pair at = layout->buffers.items[number];
	struct weir_buffer bytes;
	int code;

	if (layout->inflated.items[number].data || at.second == 0)
		return WEIR_OK;
	code = rows->body->fetch(rows->body->state, (uint64_t)at.first, (uint64_t)at.second, &bytes, err);
	if (code)
		return code;
	code = ipc_decompress(&layout->codec, layout->codec_kind, &bytes, &layout->inflated.items[number], err);
	weir_buffer_release(&bytes);
	return code;
}

/* How long a buffer is, once inflated. */
int ipc_buffer_size(struct ipc_rows *rows, uint32_t number, uint64_t *out, struct weir_error *err)
{
	if (rows->layout->codec_kind == CODEC_NONE) {
		*out = (uint64_t)rows->layout->buffers.items[number].second;
		return WEIR_OK;
	}
	if (inflate(rows, number, err))
		return err->code;
	*out = rows->layout->inflated.items[number].size;
	return WEIR_OK;
}

/* `size` bytes of a buffer from `from` on, which must be there, on a multiple of `align`; data NULL when size is 0. */
int ipc_take(struct ipc_rows *rows, uint32_t number, uint64_t from, uint64_t size, uint32_t align,
	     struct weir_buffer *out, struct weir_error *err)
{
	struct weir_ipc_layout *layout = rows->layout;
	struct weir_buffer found;
	uint64_t there = 0;
	uint8_t *copy;
	int code = ipc_buffer_size(rows, number, &there, err);

	*out = (struct weir_buffer){0};
	if (code)
		return code;
	if (weir_range_outside(from, size, there))
		return weir_error_set(err, WEIR_E_DATA,
				      "buffer %u has %llu bytes, but %llu bytes from byte %llu on are needed", number,
				      (unsigned long long)there, (unsigned long long)size, (unsigned long long)from);
	if (size == 0)
		return WEIR_OK;
	if (layout->codec_kind == CODEC_NONE) {
		code = rows->body->fetch(rows->body->state, (uint64_t)layout->buffers.items[number].first + from, size,
					 out, err);
		if (code)
			return code;
	} else {
		*out = weir_buffer_ref(&layout->inflated.items[number]);
		out->data += from;
		out->size = size;
	}
	if ((uintptr_t)out->data % align == 0)
		return WEIR_OK;
	found = *out;
	code = weir_buffer_new(layout->account, size, out, &copy, err);
	if (!code)
		memcpy(copy, found.data, size);
	weir_buffer_release(&found);
	return code;
}

int ipc_take_all(struct ipc_rows *rows, uint32_t number, uint32_t align, struct weir_buffer *out,
		 struct weir_error *err)
{
	uint64_t size = 0;

	if (ipc_buffer_size(rows, number, &size, err)) {
		*out = (struct weir_buffer){0};
		return err->code;
	}
	return ipc_take(rows, number, 0, size, align, out, err);
}

/* `width` bytes for each row; `more` rows than the span has. */
int ipc_take_fixed(struct ipc_rows *rows, const struct ipc_span *span, uint32_t number, uint32_t width, uint32_t align,
		   int64_t more, struct weir_buffer *out, struct weir_error *err)
{
	uint64_t from, size;

	*out = (struct weir_buffer){0};
	if (ipc_span_is_whole(span))
		return ipc_take_all(rows, number, align, out, err);
	if (weir_mul_overflows((uint64_t)span->begin, width, &from) ||
	    weir_mul_overflows((uint64_t)(span->end - span->begin + more), width, &size))
		return weir_error_set(err, WEIR_E_DATA, "%lld rows are too many", (long long)span->end);
	return ipc_take(rows, number, from, size, align, out, err);
}

int ipc_take_bits(struct ipc_rows *rows, const struct ipc_span *span, uint32_t number, struct weir_buffer *out,
		  struct weir_error *err)
{
	int64_t count = span->end - span->begin, shift = span->begin & 7;
	struct weir_buffer found;
	uint8_t *to;
	int code;

	if (ipc_span_is_whole(span))
		return ipc_take_all(rows, number, 1, out, err);
	code = ipc_take(rows, number, (uint64_t)span->begin >> 3, weir_bits_size(shift + count), 1, out, err);
	if (code || shift == 0 || count == 0)
		return code;
	found = *out;
	code = weir_buffer_new(rows->layout->account, weir_bits_size(count), out, &to, err);
	if (!code) {
		to[weir_bits_size(count) - 1] = 0;
		weir_bits_copy(to, 0, found.data, shift, count);
	}
	weir_buffer_release(&found);
	return code;
}

/* Validity of the rows, long enough, and how many are null. Absent when none is. */
int ipc_take_validity(struct ipc_rows *rows, const struct ipc_span *span, struct weir_buffer *out, int64_t *null_count,
		      struct weir_error *err)
{
	const struct ipc_node *node = span->node;
	int64_t count = span->end - span->begin;
	uint64_t there = 0;
	int code = ipc_buffer_size(rows, node->buffer, &there, err);

	*null_count = 0;
	*out = (struct weir_buffer){0};
	if (code)
		return code;
	if (there == 0 || node->null_count == 0) {
		if (node->null_count > 0)
			return weir_error_set(err, WEIR_E_DATA,
					      "%lld nulls are claimed, but there is no validity bitmap",
					      (long long)node->null_count);
		return WEIR_OK;
	}
	if (there < weir_bits_size(node->length))
		return weir_error_set(err, WEIR_E_DATA, "a validity bitmap of %llu bytes is too short for %lld rows",
				      (unsigned long long)there, (long long)node->length);
	code = ipc_take_bits(rows, span, node->buffer, out, err);
	if (code)
		return code;
	/* A claim about all rows stands until the array is validated; before that nobody looks at more than whether it
	 * is 0. */
	*null_count = ipc_span_is_whole(span) && node->null_count >= 0
			      ? node->null_count
			      : (count ? count - weir_bits_count(out->data, 0, count) : 0);
	if (*null_count == 0)
		weir_buffer_release(out);
	return WEIR_OK;
}

static int fetch_memory(void *state, uint64_t offset, uint64_t size, struct weir_buffer *out, struct weir_error *err)
{
	const struct ipc_memory *memory = state;

	(void)err;
	*out = (struct weir_buffer){
		.data = memory->bytes + offset, .size = size, .owner = weir_owner_ref(memory->owner)};
	return WEIR_OK;
}

struct weir_ipc_body ipc_memory_body(struct ipc_memory *memory)
{
	return (struct weir_ipc_body){.fetch = fetch_memory, .state = memory};
}
