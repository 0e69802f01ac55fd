/* Messages and the bytes of their bodies.
 *
 * In a file that can be read anywhere, a body is never read as a whole, except when all that is wanted of it lies close
 * together: then one read brings it, and the columns share it. Otherwise each buffer, or the rows of it that are asked
 * for, is read into memory of its own.
 *
 * A pipe or a compressed file is read from front to back. What lies from the first wanted buffer to the last is taken
 * into memory when the first byte of it is asked for; the rest is read and forgotten.
 */
#include "base/checked.h"
#include "format/ipc/read_impl.h"

#include <string.h>

enum {
	METADATA_GUESS = 4 << 10, /* read at once in the hope that it is enough */
	SPAN_MAX = 1 << 20,
	ADVISE_MIN = 64 << 10,
	SKIP_BYTES = 32 << 10,
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

/* ---- from front to back ---- */

/* Up to `size` bytes; fewer only at the end. */
static int stream_read(struct ipc_source *source, uint8_t *to, uint64_t size, uint64_t *out, struct weir_error *err)
{
	*out = 0;
	while (*out < size) {
		size_t got = 0;

		if (weir_stream_read(source->stream, to + *out, size - *out, &got, err))
			return err->code;
		if (got == 0)
			break;
		*out += got;
	}
	source->position += *out;
	source->bytes_read += *out;
	return WEIR_OK;
}

static int stream_read_all(struct ipc_source *source, uint8_t *to, uint64_t size, struct weir_error *err)
{
	uint64_t got;

	if (stream_read(source, to, size, &got, err))
		return err->code;
	return got < size ? cut_short(size, got, err) : WEIR_OK;
}

static int stream_skip(struct ipc_source *source, uint64_t to, struct weir_error *err)
{
	uint8_t bytes[SKIP_BYTES];

	while (source->position < to) {
		uint64_t left = to - source->position;

		if (stream_read_all(source, bytes, left < sizeof(bytes) ? left : sizeof(bytes), err))
			return err->code;
	}
	return WEIR_OK;
}

/* The mark of a message's beginning may be missing: then its length is all there is. */
static int stream_metadata(struct ipc_source *source, struct weir_error *err)
{
	static const uint8_t mark[4] = {0xff, 0xff, 0xff, 0xff};
	uint64_t got, have, need;

	if (stream_skip(source, source->offset, err) ||
	    ipc_memory_reserve(source->account, &source->metadata, METADATA_GUESS, err))
		return err->code;
	memset(source->metadata.bytes, 0, WEIR_IPC_PREFIX_SIZE);
	if (stream_read(source, source->metadata.bytes, sizeof(mark), &got, err))
		return err->code;
	if (got == 0)
		return WEIR_OK; /* streams may also just end, between messages */
	have = sizeof(mark);
	if (got == sizeof(mark) && memcmp(source->metadata.bytes, mark, sizeof(mark)) == 0) {
		if (stream_read(source, source->metadata.bytes + have, sizeof(mark), &got, err))
			return err->code;
		have += sizeof(mark);
	}
	if (got < sizeof(mark))
		return weir_error_set(err, WEIR_E_DATA, "the input is cut short: it ends inside a message's length");
	if (weir_ipc_metadata_size(source->metadata.bytes, &need, err))
		return err->code;
	if (need == 0)
		return WEIR_OK;
	if (need > source->metadata.capacity) {
		uint8_t prefix[WEIR_IPC_PREFIX_SIZE];

		memcpy(prefix, source->metadata.bytes, sizeof(prefix));
		if (ipc_memory_reserve(source->account, &source->metadata, need, err))
			return err->code;
		memcpy(source->metadata.bytes, prefix, sizeof(prefix));
	}
	if (stream_read_all(source, source->metadata.bytes + have, need - have, err) ||
	    weir_ipc_head_read(source->metadata.bytes, need, &source->head, err))
		return err->code;
	if (weir_add_overflows(source->offset + source->head.metadata_size, source->head.body_size, &need))
		return weir_error_set(err, WEIR_E_DATA, "a message claims a body of %llu bytes",
				      (unsigned long long)source->head.body_size);
	/* Unless somebody knows better. */
	source->span_begin = 0;
	source->span_end = source->head.body_size;
	return WEIR_OK;
}

int ipc_source_rewind(struct ipc_source *source, struct weir_io *io, uint64_t offset, struct weir_error *err)
{
	static const struct weir_stream_options options = {.encoding = WEIR_ENCODING_BYTES};

	weir_buffer_release(&source->span);
	source->head = (struct weir_ipc_head){0};
	source->next = offset;
	if (!source->is_sequential)
		return WEIR_OK;
	weir_stream_close(source->stream);
	source->stream = NULL;
	source->position = 0;
	return weir_stream_open(source->account, io, source->file, 0, &options, &source->stream, err);
}

int ipc_source_head(struct ipc_source *source, void *bytes, uint64_t size, uint64_t *got, struct weir_error *err)
{
	return stream_read(source, bytes, size, got, err);
}

/* ---- anywhere ---- */

static int file_metadata(struct ipc_source *source, uint64_t offset, uint64_t left, struct weir_error *err)
{
	uint64_t size = left < METADATA_GUESS ? left : METADATA_GUESS, need;
	/* Before Arrow 0.15 the end mark had four bytes only; it may be the file's last. */
	uint8_t prefix[WEIR_IPC_PREFIX_SIZE] = {0};

	if (left == 0)
		return WEIR_OK; /* streams may also just end, between messages */
	if (left < 4)
		return weir_error_set(err, WEIR_E_DATA, "the file is cut short: it ends inside a message's length");
	if (ipc_memory_reserve(source->account, &source->metadata, METADATA_GUESS, err) ||
	    weir_file_read(source->file, offset, source->metadata.bytes, size, err))
		return err->code;
	source->bytes_read += size;
	memcpy(prefix, source->metadata.bytes, size < sizeof(prefix) ? size : sizeof(prefix));
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
	source->span_begin = source->span_end = 0;
	source->head = (struct weir_ipc_head){0};
	source->offset = offset;
	code = source->is_sequential ? stream_metadata(source, err)
				     : file_metadata(source, offset, limit - offset, err);
	source->next = offset + source->head.metadata_size + source->head.body_size;
	if (code)
		weir_error_at_offset(err, offset);
	return code;
}

int ipc_source_next(struct ipc_source *source, struct weir_error *err)
{
	return ipc_source_message(source, source->next, source->is_sequential ? 0 : weir_file_size(source->file), err);
}

/* ---- bodies ---- */

void ipc_source_span(struct ipc_source *source, uint64_t begin, uint64_t end)
{
	source->span_begin = begin & ~(uint64_t)63; /* so that what is aligned in the body is so in memory */
	source->span_end = end;
	if (!source->is_sequential && end - source->span_begin > SPAN_MAX)
		source->span_end = source->span_begin;
}

static int read_bytes(struct ipc_source *source, uint64_t offset, uint64_t size, struct weir_buffer *out,
		      struct weir_error *err)
{
	uint64_t at = source->offset + source->head.metadata_size + offset;
	uint8_t *bytes;
	int code;

	if (weir_buffer_new(source->account, size, out, &bytes, err))
		return err->code;
	if (source->is_sequential) {
		code = stream_skip(source, at, err);
		if (!code)
			code = stream_read_all(source, bytes, size, err);
	} else {
		code = weir_file_read(source->file, at, bytes, size, err);
		source->bytes_read += size;
	}
	if (code)
		weir_buffer_release(out);
	return code;
}

static int fetch(void *state, uint64_t offset, uint64_t size, struct weir_buffer *out, struct weir_error *err)
{
	struct ipc_source *source = state;
	uint64_t behind;

	*out = (struct weir_buffer){0};
	if (offset >= source->span_begin && offset + size <= source->span_end) {
		if (!source->span.data &&
		    read_bytes(source, source->span_begin, source->span_end - source->span_begin, &source->span, err))
			return err->code;
		*out = weir_buffer_ref(&source->span);
		out->data += offset - source->span_begin;
		out->size = size;
		return WEIR_OK;
	}
	WEIR_ASSERT(!source->is_sequential);
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
	weir_stream_close(source->stream);
	source->stream = NULL;
	if (source->account)
		ipc_memory_release(source->account, &source->metadata);
}
