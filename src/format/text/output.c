/* The buffer that writers of text fill. Behind its limit there is slack, so that a value's pieces need no check each. A
 * full one is written to the sink; where there is none it grows. */
#include "format/text/text_impl.h"

int text_out_init(struct text_out *out, struct weir_account *account, struct weir_error *err)
{
	*out = (struct text_out){.account = account, .capacity = TEXT_FLUSH_BYTES + TEXT_SLACK};
	out->data = weir_alloc(account, out->capacity, err);
	if (!out->data)
		return err->code;
	out->p = out->data;
	out->limit = out->data + TEXT_FLUSH_BYTES;
	return WEIR_OK;
}

void text_out_release(struct text_out *out)
{
	if (out->data)
		weir_free(out->account, out->data, out->capacity);
	*out = (struct text_out){.account = out->account};
}

void text_out_trim(struct text_out *out)
{
	struct weir_error ignored = {0};
	char *smaller;

	if (!out->data || out->capacity <= TEXT_KEEP_BYTES)
		return;
	smaller = weir_realloc(out->account, out->data, out->capacity, TEXT_FLUSH_BYTES + TEXT_SLACK, &ignored);
	if (!smaller)
		return;
	out->data = out->p = smaller;
	out->capacity = TEXT_FLUSH_BYTES + TEXT_SLACK;
	out->limit = smaller + TEXT_FLUSH_BYTES;
}

int text_out_flush(struct text_out *out, struct weir_error *err)
{
	size_t size = (size_t)(out->p - out->data);

	out->p = out->data;
	out->flushed_bytes += size;
	return size ? out->sink.write(out->sink.state, out->data, size, err) : WEIR_OK;
}

int text_out_full(struct text_out *out, struct weir_error *err)
{
	size_t size = (size_t)(out->p - out->data), capacity = weir_alloc_size(out->capacity * 2);
	char *grown;

	if (out->sink.write)
		return text_out_flush(out, err);
	grown = weir_realloc(out->account, out->data, out->capacity, capacity, err);
	if (!grown)
		return err->code;
	out->data = grown;
	out->capacity = capacity;
	out->p = grown + size;
	out->limit = grown + capacity - TEXT_SLACK;
	return WEIR_OK;
}
