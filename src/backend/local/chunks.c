/* Chunks between stages, by the number that the executor gave them; the threads that take them to disk and back; and,
 * for the session, chunks that outlive their run (blocks).
 *
 * A chunk's number has the index of a place in its low half, which the executor uses again, and in its high half a
 * generation that says which use is meant. The table has one reference to each chunk until FREE.
 *
 * Threads. The table and the queue of disk jobs are under the run's lock; a disk thread gives it up while it writes or
 * reads. Blocks are under the session's lock, which is not held during a write either. */
#include "backend/local/local_impl.h"

#include <stdio.h>
#include <string.h>

struct local_chunk *weir_local_chunk(struct weir_local_run *run, uint64_t number)
{
	size_t at = (uint32_t)number;

	if (at >= run->chunks.count || !run->chunks.items[at].chunk || run->chunks.items[at].number != number)
		return NULL;
	return &run->chunks.items[at];
}

/* The split that made the chunk, as long as that may be made again of it; NULL: it is not a split's own, or the run is
 * over. */
static struct local_task *maker_of(struct weir_local_run *run, const struct local_chunk *chunk)
{
	uint64_t at = chunk->path[0] - run->first_task;

	return chunk->path_count == 2 && chunk->path[0] >= run->first_task && at < run->tasks.count
		       ? &run->tasks.items[at]
		       : NULL;
}

/* What was accepted of a task, for its second attempt. */
static void count_kept(struct weir_local_run *run, const struct weir_action *action, uint64_t ordinal, int64_t rows)
{
	struct local_chunk *input;
	struct local_task *task;

	if (action->run.attempt >= WEIR_REBUILD_ATTEMPT || run->stages[action->stage].kind != WEIR_STAGE_LANES)
		return;
	if (action->stage == 0) {
		task = &run->tasks.items[action->run.task - run->first_task];
		task->outputs_kept = (uint32_t)ordinal + 1;
		task->rows_kept += rows;
	} else if ((input = weir_local_chunk(run, action->run.task))) {
		input->outputs_kept = (uint32_t)ordinal + 1;
		input->rows_kept += rows;
	}
}

/* Of what a task made: all that it was given, since which row became which is not known. */
static struct weir_origin *made_of(struct weir_local_run *run, const struct local_event *made)
{
	const struct stage *stage = &run->stages[made->event.stage];
	struct weir_error ignored = {0};
	struct weir_origin all, *shared;
	int code = WEIR_OK;

	if (stage->kind == WEIR_STAGE_WORKERS) {
		const struct local_given *given = weir_local_given(stage, made->event.slot, &made->event.run);

		return given ? weir_origin_untraced(run->account, given->origin) : NULL;
	}
	const struct local_chunks *inputs = &stage->lanes[made->event.slot].inputs;

	if (inputs->count == 1)
		return weir_origin_untraced(run->account, inputs->items[0].origin);
	weir_origin_init(&all, run->account);
	all.is_traced = false;
	for (size_t i = 0; i < inputs->count && !code; i++)
		if (inputs->items[i].origin)
			code = weir_origin_append(&all, inputs->items[i].origin, &ignored);
	shared = code ? NULL : weir_origin_share(run->account, &all);
	weir_origin_release(&all);
	return shared;
}

int weir_local_chunk_keep(struct weir_local_run *run, const struct weir_action *action, struct local_event *made,
			  struct weir_error *err)
{
	size_t at = (uint32_t)action->chunk;
	struct local_chunk *input = action->stage ? weir_local_chunk(run, action->run.task) : NULL;
	struct local_chunk chunk = {.number = action->chunk, .rows = made->event.rows};
	struct weir_origin *origin;
	struct local_task *maker;

	WEIR_ASSERT(made->event.kind == WEIR_EV_OUTPUT && made->chunk);
	/* One that is made again after it was lost has the number that it had. */
	if (at < run->chunks.count && run->chunks.items[at].chunk) {
		struct local_chunk *lost = &run->chunks.items[at];

		WEIR_ASSERT(lost->number == action->chunk);
		if (lost->rows != made->event.rows)
			return weir_error_set(
				err, WEIR_E_SPILL_CORRUPT,
				"a chunk came back changed from disk, and its split did not make it again");
		weir_chunk_unref(lost->chunk);
		lost->chunk = made->chunk;
		made->chunk = NULL;
		return WEIR_OK;
	}
	if (input) {
		memcpy(chunk.path, input->path, input->path_count * sizeof(*chunk.path));
		chunk.path_count = input->path_count;
	} else {
		chunk.path[chunk.path_count++] = (uint32_t)action->run.task;
	}
	chunk.path[chunk.path_count++] = (uint32_t)made->event.chunk;
	origin = input ? made_of(run, made) : weir_origin_ref(made->origin);
	if (at >= run->chunks.count) {
		if (weir_list_reserve(&run->chunks, run->account, err, at + 1)) {
			weir_origin_unref(origin);
			return err->code;
		}
		memset(run->chunks.items + run->chunks.count, 0, (at + 1 - run->chunks.count) * sizeof(chunk));
		run->chunks.count = at + 1;
	}
	chunk.chunk = made->chunk;
	made->chunk = NULL;
	chunk.origin = origin;
	run->chunks.items[at] = chunk;
	maker = maker_of(run, &chunk);
	if (maker)
		maker->chunks++;
	count_kept(run, action, made->event.chunk, made->event.rows);
	return WEIR_OK;
}

void weir_local_chunk_drop(struct weir_local_run *run, uint64_t number)
{
	struct local_chunk *chunk = weir_local_chunk(run, number);
	struct local_task *maker;

	if (!chunk)
		return;
	maker = maker_of(run, chunk);
	weir_chunk_unref(chunk->chunk);
	weir_origin_unref(chunk->origin);
	*chunk = (struct local_chunk){0};
	if (maker) {
		WEIR_ASSERT(maker->chunks > 0);
		maker->chunks--;
		weir_local_task_over(run, maker);
	}
}

void weir_local_chunks_free(struct weir_local_run *run)
{
	for (size_t i = 0; i < run->chunks.count; i++)
		if (run->chunks.items[i].chunk) {
			weir_chunk_unref(run->chunks.items[i].chunk);
			weir_origin_unref(run->chunks.items[i].origin);
		}
	run->chunks.count = 0;
	for (size_t i = 0; i < run->disk_queue.count; i++)
		weir_chunk_unref(run->disk_queue.items[i].chunk);
	run->disk_queue.count = 0;
}

/* ---- disks ---- */

int weir_local_disk_queue(struct weir_local_run *run, uint64_t number, bool restore, struct weir_error *err)
{
	struct local_chunk *chunk = weir_local_chunk(run, number);
	struct disk_job job = {.number = number, .restore = restore};

	WEIR_ASSERT(chunk);
	job.chunk = chunk->chunk;
	if (weir_list_push(&run->disk_queue, run->account, err, job))
		return err->code;
	weir_chunk_ref(chunk->chunk);
	pthread_cond_signal(&run->disk_wake);
	return WEIR_OK;
}

/* Before the executor hears of it, and frees it to have it made again. */
static void note_lost(struct weir_local_run *run, uint64_t number)
{
	const struct local_chunk *chunk = weir_local_chunk(run, number);
	struct local_task *maker = chunk ? maker_of(run, chunk) : NULL;

	if (maker)
		maker->stays = true;
}

/* With the lock held; gives it up meanwhile. Restores first: somebody waits for them. */
static void run_job(struct weir_local_run *run)
{
	struct weir_event event = {.kind = WEIR_EV_SPILLED};
	struct weir_error err = {0};
	struct disk_job job;
	size_t at = 0;

	while (at + 1 < run->disk_queue.count && !run->disk_queue.items[at].restore)
		at++;
	if (!run->disk_queue.items[at].restore)
		at = 0;
	job = run->disk_queue.items[at];
	memmove(run->disk_queue.items + at, run->disk_queue.items + at + 1,
		(run->disk_queue.count - at - 1) * sizeof(job));
	run->disk_queue.count--;
	pthread_mutex_unlock(&run->lock);
	event.code = job.restore ? weir_chunk_restore(job.chunk, &err) : weir_chunk_spill(job.chunk, &err);
	weir_chunk_unref(job.chunk);
	pthread_mutex_lock(&run->lock);
	event.kind = job.restore ? WEIR_EV_RESTORED : WEIR_EV_SPILLED;
	event.chunk = job.number;
	if (event.code && job.restore)
		note_lost(run, job.number);
	/* Full disks and the like: if the run ends over it, that is why. */
	if (event.code && event.code != WEIR_E_CANCELLED && event.code != WEIR_E_SPILL_CORRUPT && !run->refused.code)
		run->refused = err;
	weir_local_post(run, event);
}

static void *disk_main(void *argument)
{
	struct weir_local_run *run = argument;

	weir_log_use(weir_session_log(run->session));
	pthread_mutex_lock(&run->lock);
	while (!run->ended) {
		if (run->disk_queue.count)
			run_job(run);
		else
			pthread_cond_wait(&run->disk_wake, &run->lock);
	}
	run->threads_running--;
	pthread_cond_broadcast(&run->over);
	pthread_mutex_unlock(&run->lock);
	return NULL;
}

int weir_local_disks_start(struct weir_local_run *run, struct weir_error *err)
{
	for (run->disk_count = 0; run->disk_count < 2; run->disk_count++) {
		int failed = pthread_create(&run->disk_threads[run->disk_count], NULL, disk_main, run);

		if (failed && run->disk_count == 0)
			return weir_error_set_errno(err, failed, "cannot start a thread");
		if (failed)
			break;
		run->threads_running++;
	}
	return WEIR_OK;
}

void weir_local_disks_join(struct weir_local_run *run)
{
	for (uint32_t i = 0; i < run->disk_count; i++)
		pthread_join(run->disk_threads[i], NULL);
	run->disk_count = 0;
}

/* ---- chunks that outlive their run ---- */

int weir_session_keep(struct weir_session *session, struct weir_chunk *chunk, struct weir_error *err)
{
	int code;

	pthread_mutex_lock(&session->lock);
	code = weir_list_push(&session->kept, weir_mem_root(session->mem), err, chunk);
	pthread_mutex_unlock(&session->lock);
	return code;
}

void weir_session_forget(struct weir_session *session, struct weir_chunk *chunk)
{
	pthread_mutex_lock(&session->lock);
	for (size_t i = 0; i < session->kept.count; i++) {
		if (session->kept.items[i] != chunk)
			continue;
		memmove(session->kept.items + i, session->kept.items + i + 1,
			(session->kept.count - i - 1) * sizeof(*session->kept.items));
		session->kept.count--;
		break;
	}
	pthread_mutex_unlock(&session->lock);
}

static int64_t kept_resident(const struct weir_session *session)
{
	int64_t resident = 0;

	for (size_t i = 0; i < session->kept.count; i++)
		if (weir_chunk_is_resident(session->kept.items[i]))
			resident += (int64_t)weir_chunk_footprint(session->kept.items[i]);
	return resident;
}

/* The oldest that is in memory while all together take more than that; a reference. */
static struct weir_chunk *spill_next(struct weir_session *session, int64_t resident_max, size_t *from)
{
	struct weir_chunk *found = NULL;
	int64_t resident;

	pthread_mutex_lock(&session->lock);
	resident = kept_resident(session);
	for (size_t i = *from; resident > resident_max && !found && i < session->kept.count; i++) {
		if (weir_chunk_is_resident(session->kept.items[i]))
			found = weir_chunk_ref(session->kept.items[i]);
		*from = i + 1;
	}
	pthread_mutex_unlock(&session->lock);
	return found;
}

int64_t weir_session_kept(struct weir_session *session)
{
	int64_t resident;

	pthread_mutex_lock(&session->lock);
	resident = kept_resident(session);
	pthread_mutex_unlock(&session->lock);
	return resident;
}

void weir_session_spill_some(struct weir_session *session, int64_t bytes)
{
	struct weir_error ignored = {0}; /* what does not go stays */
	int64_t resident = weir_session_kept(session);

	if (resident)
		weir_session_spill(session, resident > bytes ? resident - bytes : 0, &ignored);
}

int weir_session_spill(struct weir_session *session, int64_t resident_max, struct weir_error *err)
{
	struct weir_chunk *chunk;
	int64_t resident;
	size_t from = 0;
	int refused = WEIR_OK;

	while (!refused && (chunk = spill_next(session, resident_max, &from))) {
		struct weir_error why = {0};
		int code = weir_chunk_spill(chunk, &why);

		/* the disk is full, or gone; one that is being read stays, that is all */
		if (code && code != WEIR_E_CANCELLED) {
			refused = code;
			*err = why;
		}
		weir_chunk_unref(chunk);
	}
	if (!refused)
		return WEIR_OK;
	pthread_mutex_lock(&session->lock);
	resident = kept_resident(session);
	pthread_mutex_unlock(&session->lock);
	if (resident > 2 * resident_max)
		return refused;
	weir_error_clear(err);
	return WEIR_OK;
}
