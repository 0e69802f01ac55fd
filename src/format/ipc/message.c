/* Messages in a file and the bytes of their bodies.
 *
 * A body is never read as a whole, except when all that is wanted of it lies close together: then one read brings it, and
 * the columns share it. Otherwise each buffer, or the rows of it that are asked for, is read into memory of its own.
 */
#include "base/checked.h"
#include "format/ipc/read_impl.h"

enum {
	METADATA_GUESS = 4 << 10, /* read at once in the hope that it is enough */
	SPAN_MAX = 1 << 20,
	ADVISE_MIN = 64 << 10,
};

int ipc_memory_reserve(struct weir_account *account, struct ipc_memory *memory, uint64_t size, struct weir_error *err)
{
	if (size <= memory->capacity)
		return WEIR_OK;
	ipc_memory_release(account, memory);
	memory->bytes = weir_alloc(account, weir_alloc_size(size), err);
	if (!memory->bytes)
		return err->code;
	memory->capacity = weir_alloc_size(size);
	return WEIR_OK;
}

void ipc_memory_release(struct weir_account *account, struct ipc_memory *memory)
{
	weir_free(account, memory->bytes, memory->capacity);
	*memory = (struct ipc_memory){0};
}

static int cut_short(uint64_t need, uint64_t left, struct weir_error *err)
{
	return weir_error_set(err, WEIR_E_DATA, "the file is cut short: a message of %llu bytes, but %llu are left",
			      (unsigned long long)need, (unsigned long long)left);
}

static int read_metadata(struct ipc_source *source, uint64_t offset, uint64_t left, struct weir_error *err)
{
	uint64_t size = left < METADATA_GUESS ? left : METADATA_GUESS, need;
	/* Readers before Arrow 0.15 know a mark of four bytes only; it may be the file's last. */
	uint8_t prefix[WEIR_IPC_PREFIX_SIZE] = {0};

	if (left < 4)
		return weir_error_set(err, WEIR_E_DATA, "the file is cut short: it ends inside a message's length");
	if (ipc_memory_reserve(source->account, &source->metadata, METADATA_GUESS, err) ||
	    weir_file_read(source->file, offset, source->metadata.bytes, size, err))
		return err->code;
	source->bytes_read += size;
	__builtin_memcpy(prefix, source->metadata.bytes, size < sizeof(prefix) ? size : sizeof(prefix));
	if (weir_ipc_metadata_size(prefix, &need, err))
		return err->code;
	if (need > left)
		return cut_short(need, left, err);
	if (need > size) {
		if (ipc_memory_reserve(source->account, &source->metadata, need, err) ||
		    weir_file_read(source->file, offset, source->metadata.bytes, need, err))
			return err->code;
		source->bytes_read += need;
		size = need;
	}
	if (weir_ipc_head_read(source->metadata.bytes, size, &source->head, err))
		return err->code;
	if (source->head.body_size > left - source->head.metadata_size)
		return cut_short(source->head.metadata_size + source->head.body_size, left, err);
	return WEIR_OK;
}

int ipc_source_message(struct ipc_source *source, uint64_t offset, uint64_t limit, struct weir_error *err)
{
	int code;

	weir_buffer_release(&source->span);
	source->span_wanted = false;
	source->head = (struct weir_ipc_head){0};
	source->offset = offset;
	code = read_metadata(source, offset, limit - offset, err);
	if (code)
		weir_error_at_offset(err, offset);
	return code;
}

void ipc_source_span(struct ipc_source *source, uint64_t begin, uint64_t end)
{
	source->span_begin = begin & ~(uint64_t)63; /* so that what is aligned in the body is so in memory */
	source->span_end = end;
	source->span_wanted = end > begin && end - begin <= SPAN_MAX;
}

static int read_bytes(struct ipc_source *source, uint64_t offset, uint64_t size, struct weir_buffer *out,
		      struct weir_error *err)
{
	uint64_t at = source->offset + source->head.metadata_size + offset;
	uint8_t *bytes;

	if (weir_buffer_new(source->account, size, out, &bytes, err))
		return err->code;
	if (weir_file_read(source->file, at, bytes, size, err)) {
		weir_buffer_release(out);
		return err->code;
	}
	source->bytes_read += size;
	return WEIR_OK;
}

static int fetch(void *state, uint64_t offset, uint64_t size, struct weir_buffer *out, struct weir_error *err)
{
	struct ipc_source *source = state;
	uint64_t behind;

	*out = (struct weir_buffer){0};
	if (source->span_wanted && offset >= source->span_begin && offset + size <= source->span_end) {
		if (!source->span.data && read_bytes(source, source->span_begin, source->span_end - source->span_begin,
						     &source->span, err))
			return err->code;
		*out = weir_buffer_ref(&source->span);
		out->data += offset - source->span_begin;
		out->size = size;
		return WEIR_OK;
	}
	if (read_bytes(source, offset, size, out, err))
		return err->code;
	/* As much again will be asked for next, unless this was the buffer's end: then nothing is lost. */
	behind = source->head.body_size - offset - size;
	if (size >= ADVISE_MIN && behind)
		weir_file_advise(source->file, source->offset + source->head.metadata_size + offset + size,
				 behind < size ? behind : size);
	return WEIR_OK;
}

struct weir_ipc_body ipc_source_body(struct ipc_source *source)
{
	return (struct weir_ipc_body){.fetch = fetch, .state = source};
}

void ipc_source_release(struct ipc_source *source)
{
	weir_buffer_release(&source->span);
	if (source->account)
		ipc_memory_release(source->account, &source->metadata);
}
