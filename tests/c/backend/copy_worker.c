/* A worker process for tests: copies each batch, rows first … first + count of a chunk, into its own region. Its setup is
 * the schema message. Arguments make it misbehave:
 *
 *     copy_worker [lie|crash|hang|fail|old]
 */
#include "arrow/ipc.h"
#include "backend/local/worker_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct weir_batch *slice(struct weir_account *account, const struct weir_batch *batch, int64_t first,
				int64_t count, struct weir_error *err)
{
	struct weir_array *columns[64] = {0};
	struct weir_batch *out = NULL;
	uint32_t i;

	for (i = 0; i < batch->column_count && i < 64; i++) {
		columns[i] = weir_array_slice(batch->columns[i], first, count, err);
		if (!columns[i])
			break;
	}
	if (i == batch->column_count)
		out = weir_batch_new(account, batch->schema, count, columns, err);
	while (i-- > 0)
		weir_array_unref(columns[i]);
	return out;
}

static int copy(struct weir_worker_side *side, const struct weir_schema *schema, const struct worker_message *task,
		const uint8_t *bytes, uint8_t *room, struct weir_error *err)
{
	struct weir_batch *batch = NULL, *rows = NULL;
	struct weir_chunk_plan plan;
	int code = weir_chunk_open(side->account, schema, bytes, task->size, NULL, NULL, false, &batch, err);

	if (code)
		return code;
	if (task->row_first == 0 && task->row_count == (uint64_t)batch->row_count)
		rows = weir_batch_ref(batch);
	else
		rows = slice(side->account, batch, (int64_t)task->row_first, (int64_t)task->row_count, err);
	code = rows ? weir_chunk_measure(rows, &plan, err) : err->code;
	if (code)
		goto out;
	if (plan.size > task->room_size) {
		weir_worker_side_more(side, task, plan.size);
	} else {
		code = weir_chunk_write(rows, &plan, room, err);
		if (!code)
			weir_worker_side_done(side, task, plan.size, task->row_count);
	}
out:
	weir_batch_unref(rows);
	weir_batch_unref(batch);
	return code;
}

/* Claims to have written where it was not told to. */
static void lie(struct weir_worker_side *side, const struct worker_message *task)
{
	struct worker_message far = *task;

	far.room_offset += task->room_size;
	weir_worker_side_done(side, &far, 4096, 1);
}

int main(int argc, char **argv)
{
	const char *manner = argc > 1 ? argv[1] : "";
	struct weir_worker_side side = {0};
	struct weir_schema *schema = NULL;
	struct weir_error err = {0};
	struct weir_mem *mem;
	int code;

	if (!strcmp(manner, "old"))
		return 3;
	code = weir_mem_new(0, &mem, &err);
	if (code)
		return 1;
	code = weir_worker_side_open(&side, weir_mem_root(mem), &err);
	if (!code)
		code = weir_ipc_read_schema(side.account, side.setup, side.setup_size, &schema, &err);
	while (!code) {
		struct worker_message task;
		const uint8_t *bytes;
		uint8_t *room;
		bool quit;

		code = weir_worker_side_next(&side, &task, &bytes, &room, &quit, &err);
		if (code || quit)
			break;
		if (!strcmp(manner, "crash"))
			abort();
		else if (!strcmp(manner, "hang"))
			for (;;)
				pause();
		else if (!strcmp(manner, "lie"))
			lie(&side, &task);
		else if (!strcmp(manner, "fail"))
			weir_worker_side_failed(&side, &task, WEIR_E_VALUE, "as it was told");
		else if (copy(&side, schema, &task, bytes, room, &err))
			weir_worker_side_failed(&side, &task, err.code, err.message);
	}
	if (code)
		fprintf(stderr, "copy_worker: %s\n", err.message);
	weir_schema_unref(schema);
	weir_worker_side_release(&side);
	weir_mem_free(mem);
	return code != 0;
}
