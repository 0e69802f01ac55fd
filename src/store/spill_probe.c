/* spill_probe: for tests that open spilled bytes with other libraries. In libweir_probe only. */
#include "weir/weir.h"
#include "base/list.h"
#include "arrow/cdata.h"
#include "arrow/ipc.h"
#include "store/store_impl.h"

struct weir_probe_spill {
	struct weir_store *store;
	struct weir_text schema;
	struct WEIR_LIST(struct weir_chunk *) chunks;
	struct weir_account *account;
};

/* Spills each batch of the stream as a chunk; consumes the stream. */
WEIR_API struct weir_probe_spill *weir_probe_spill_new(struct weir_mem *mem, struct ArrowArrayStream *stream,
						       const char *directory, struct weir_error *err);
WEIR_API void weir_probe_spill_free(struct weir_probe_spill *probe);
WEIR_API const char *weir_probe_spill_schema(const struct weir_probe_spill *probe, size_t *size);
/* Where chunk `index` lies: a descriptor of this process, an offset, a size. −1: there is no such chunk. */
WEIR_API int weir_probe_spill_place(const struct weir_probe_spill *probe, size_t index, uint64_t *offset,
				    uint64_t *size);

static int put_batch(struct weir_probe_spill *probe, const struct weir_batch *batch, struct weir_error *err)
{
	struct weir_chunk_plan plan;
	struct weir_chunk *chunk;
	uint8_t *bytes;

	if (weir_chunk_measure(batch, &plan, err) || weir_chunk_reserve(probe->store, plan.size, &chunk, &bytes, err))
		return err->code;
	if (weir_list_push(&probe->chunks, probe->account, err, chunk) || weir_chunk_write(batch, &plan, bytes, err))
		return err->code;
	weir_chunk_seal(chunk, plan.size);
	return weir_chunk_spill(chunk, err);
}

struct weir_probe_spill *weir_probe_spill_new(struct weir_mem *mem, struct ArrowArrayStream *stream,
					      const char *directory, struct weir_error *err)
{
	struct weir_account *account = weir_mem_root(mem);
	const struct weir_store_options options = {.spill_dirs = (const char *const[]){directory, NULL}};
	struct weir_probe_spill *probe = weir_alloc_zero(account, sizeof(*probe), err);
	struct weir_batch_source source;
	struct weir_schema *schema;
	struct weir_batch *batch;
	int code;

	if (!probe)
		return NULL;
	probe->account = account;
	weir_text_init(&probe->schema, account);
	code = weir_store_new(account, &options, &probe->store, err);
	if (!code)
		code = weir_cdata_import_stream(account, stream, &schema, &source, err);
	if (code)
		goto out;
	code = weir_ipc_write_schema(schema, &probe->schema, err);
	while (!code) {
		code = source.next(source.state, &batch, err);
		if (code || !batch)
			break;
		code = put_batch(probe, batch, err);
		weir_batch_unref(batch);
	}
	source.release(source.state);
	weir_schema_unref(schema);
out:
	if (!code)
		return probe;
	weir_probe_spill_free(probe);
	return NULL;
}

void weir_probe_spill_free(struct weir_probe_spill *probe)
{
	struct weir_account *account = probe->account;

	for (size_t i = 0; i < probe->chunks.count; i++)
		weir_chunk_unref(probe->chunks.items[i]);
	weir_list_release(&probe->chunks, account);
	weir_text_release(&probe->schema);
	weir_store_free(probe->store);
	weir_free(account, probe, sizeof(*probe));
}

const char *weir_probe_spill_schema(const struct weir_probe_spill *probe, size_t *size)
{
	*size = probe->schema.size;
	return probe->schema.data;
}

int weir_probe_spill_place(const struct weir_probe_spill *probe, size_t index, uint64_t *offset, uint64_t *size)
{
	const struct weir_chunk *chunk;
	const struct weir_spill_file *file;

	if (index >= probe->chunks.count)
		return -1;
	chunk = probe->chunks.items[index];
	file = chunk->extent.range->home;
	*offset = chunk->extent.range->offset;
	*size = chunk->size;
	return file->fd;
}
