/* ipc_probe: what tests call by ctypes to exchange tables and IPC bytes with other libraries. In libweir_probe only. */
#include "weir/weir.h"
#include "base/list.h"
#include "arrow/cdata.h"
#include "arrow/ipc.h"

#include <string.h>

/* The bytes of the stream's batches; consumes it. `out` is the caller's, until weir_probe_ipc_free. */
WEIR_API int weir_probe_ipc_write(struct weir_mem *mem, struct ArrowArrayStream *stream, int is_file,
				  struct weir_text *out, struct weir_error *err);
WEIR_API void weir_probe_ipc_free(struct weir_text *bytes);
/* The bytes are copied first, `shift` bytes off the boundary, so that the arrays may outlive the caller's. */
WEIR_API int weir_probe_ipc_read(struct weir_mem *mem, const uint8_t *bytes, uint64_t size, uint64_t shift,
				 struct ArrowArrayStream *out, struct weir_error *err);

struct writer {
	struct weir_account *account;
	struct weir_schema *schema;
	struct weir_text *out;
	struct weir_array **last, **now; /* dictionaries: as written, of the batch at hand */
	uint32_t dictionary_count;
	struct blocks WEIR_LIST(struct weir_ipc_block) blocks;
};

/* Measured, then written straight into the text. */
static int put_message(struct writer *w, const struct weir_batch *batch, uint32_t number,
		       const struct weir_array *values, struct weir_error *err)
{
	struct weir_chunk_plan plan;
	struct weir_buffer buffer;
	uint8_t *bytes;
	int code = values ? weir_dictionary_measure(values, &plan, err) : weir_chunk_measure(batch, &plan, err);

	if (!code)
		code = weir_list_push(&w->blocks, w->account, err,
				      (struct weir_ipc_block){.offset = w->out->size,
							      .metadata_size = plan.metadata_size,
							      .body_size = plan.body_size,
							      .is_dictionary = values});
	if (!code)
		code = weir_buffer_new(w->account, plan.size, &buffer, &bytes, err);
	if (code)
		return code;
	code = values ? weir_dictionary_write(number, false, values, &plan, bytes, err)
		      : weir_chunk_write(batch, &plan, bytes, err);
	if (!code)
		code = weir_text_append(w->out, bytes, plan.size, err);
	weir_buffer_release(&buffer);
	return code;
}

static int put_batch(struct writer *w, const struct weir_batch *batch, struct weir_error *err)
{
	weir_batch_dictionaries(batch, w->now);
	/* The inner ones have the higher numbers and go first. */
	for (uint32_t i = w->dictionary_count; i-- > 0;) {
		if (w->last[i] && weir_array_equal(w->last[i], w->now[i], true))
			continue;
		if (put_message(w, NULL, i, w->now[i], err))
			return err->code;
		weir_array_unref(w->last[i]);
		w->last[i] = weir_array_ref(w->now[i]);
	}
	return put_message(w, batch, 0, NULL, err);
}

static int put_stream(struct writer *w, const struct weir_batch_source *source, bool is_file, struct weir_error *err)
{
	struct weir_batch *batch;
	int code = WEIR_OK;

	w->dictionary_count = weir_schema_dictionary_count(w->schema);
	w->last = weir_alloc_zero(w->account, sizeof(*w->last) * w->dictionary_count, err);
	w->now = weir_alloc_zero(w->account, sizeof(*w->now) * w->dictionary_count, err);
	if (!w->last || !w->now)
		return err->code;
	if (is_file)
		code = weir_text_append(w->out, WEIR_IPC_MAGIC, 8, err);
	if (!code)
		code = weir_ipc_write_schema(w->schema, w->out, err);
	while (!code) {
		code = source->next(source->state, &batch, err);
		if (code || !batch)
			break;
		code = put_batch(w, batch, err);
		weir_batch_unref(batch);
	}
	if (!code)
		code = weir_text_append(w->out, WEIR_IPC_EOS, WEIR_IPC_EOS_SIZE, err);
	if (!code && is_file)
		code = weir_ipc_write_footer(w->schema, w->blocks.items, (uint32_t)w->blocks.count, w->out, err);
	return code;
}

int weir_probe_ipc_write(struct weir_mem *mem, struct ArrowArrayStream *stream, int is_file, struct weir_text *out,
			 struct weir_error *err)
{
	struct writer w = {.account = weir_mem_root(mem), .out = out};
	struct weir_batch_source source;
	int code;

	weir_text_init(out, w.account);
	code = weir_cdata_import_stream(w.account, stream, &w.schema, &source, err);
	if (!code) {
		code = put_stream(&w, &source, is_file, err);
		source.release(source.state);
	}
	if (code)
		weir_text_release(out);
	for (uint32_t i = 0; w.last && i < w.dictionary_count; i++)
		weir_array_unref(w.last[i]);
	weir_free(w.account, w.last, sizeof(*w.last) * w.dictionary_count);
	weir_free(w.account, w.now, sizeof(*w.now) * w.dictionary_count);
	weir_list_release(&w.blocks, w.account);
	weir_schema_unref(w.schema);
	return code;
}

void weir_probe_ipc_free(struct weir_text *bytes)
{
	weir_text_release(bytes);
}

static int source_next(void *state, struct weir_batch **out, struct weir_error *err)
{
	return weir_ipc_reader_next(state, out, err);
}

static void source_release(void *state)
{
	weir_ipc_reader_free(state);
}

int weir_probe_ipc_read(struct weir_mem *mem, const uint8_t *bytes, uint64_t size, uint64_t shift,
			struct ArrowArrayStream *out, struct weir_error *err)
{
	struct weir_account *account = weir_mem_root(mem);
	struct weir_batch_source source = {.next = source_next, .release = source_release};
	struct weir_ipc_reader *reader;
	struct weir_buffer buffer;
	uint8_t *copy;
	int code = weir_buffer_new(account, size + shift, &buffer, &copy, err);

	if (code)
		return code;
	memcpy(copy + shift, bytes, size);
	code = weir_ipc_reader_new(account, copy + shift, size, buffer.owner, &reader, err);
	weir_buffer_release(&buffer);
	if (code)
		return code;
	source.state = reader;
	return weir_cdata_export_stream(account, weir_ipc_reader_schema(reader), source, out, err);
}
