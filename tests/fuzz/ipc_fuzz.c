/* Bytes as an Arrow stream or file, and as a schema: an error or valid arrays, and every byte given back.
 * What was read is written again and must come back equal, so that the writer meets odd but valid arrays. */
#include "arrow/ipc.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Writes the batch as a chunk and opens it again. */
static void rewrite(struct weir_account *account, const struct weir_batch *batch)
{
	uint32_t count = weir_schema_dictionary_count(batch->schema);
	struct weir_array **dictionaries;
	struct weir_chunk_plan plan;
	struct weir_buffer buffer;
	struct weir_error err = {0};
	struct weir_batch *back;
	uint8_t *out;

	if (weir_chunk_measure(batch, &plan, &err))
		return;
	dictionaries = weir_alloc(account, sizeof(*dictionaries) * count, &err);
	if (!dictionaries)
		return;
	weir_batch_dictionaries(batch, dictionaries);
	if (!weir_buffer_new(account, plan.size, &buffer, &out, &err)) {
		if (weir_chunk_write(batch, &plan, out, &err))
			abort();
		if (!weir_chunk_open(account, batch->schema, out, plan.size, buffer.owner, dictionaries, true, &back,
				     &err)) {
			for (uint32_t i = 0; i < batch->column_count; i++)
				if (!weir_array_equal(batch->columns[i], back->columns[i], true))
					abort();
			weir_batch_unref(back);
		} else if (err.code != WEIR_E_LIMIT && err.code != WEIR_E_MEMORY) {
			abort();
		}
		weir_buffer_release(&buffer);
	}
	weir_free(account, dictionaries, sizeof(*dictionaries) * count);
}

static void read_all(struct weir_account *account, const uint8_t *bytes, size_t size)
{
	struct weir_ipc_reader *reader;
	struct weir_error err = {0};
	struct weir_batch *batch;

	if (weir_ipc_reader_new(account, bytes, size, NULL, &reader, &err))
		return;
	while (!weir_ipc_reader_next(reader, &batch, &err) && batch) {
		rewrite(account, batch);
		weir_batch_unref(batch);
	}
	weir_ipc_reader_free(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct weir_error err = {0};
	struct weir_schema *schema;
	struct weir_mem *mem;

	/* Lengths that lie must be refused by the limit, not by the machine. */
	if (weir_mem_new((int64_t)64 << 20, &mem, &err))
		abort();
	read_all(weir_mem_root(mem), bytes, size);
	if (!weir_ipc_read_schema(weir_mem_root(mem), bytes, size, &schema, &err))
		weir_schema_unref(schema);
	weir_mem_free(mem); /* asserts that nothing is left */
	return 0;
}
