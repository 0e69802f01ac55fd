/* Batches on their way through a worker: what it was given, what it answers, what it holds on to.
 *
 * An answer is accepted if it concerns a batch in flight and its chunks lie in the room given for that batch. A batch's
 * inputs are unpinned when it is over; those that the worker says are still in use, one by one as it releases them. */
#include "base/clock.h"
#include "backend/local/worker_impl.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { KNOWN_MAX = 64 }; /* regions that a worker has mapped; those not in use are unmapped first */

static void ring(int doorbell)
{
	const uint64_t one = 1;

	/* Fails only where the counter is full, and then it rings already. */
	(void)!write(doorbell, &one, sizeof(one));
}

/* At most a task and an answer to a request for room are under way for each batch in flight, and a few more words: the
 * ring holds more, and is full only where the worker has written into it or does not listen. */
static void put(struct weir_worker *worker, struct worker_message message)
{
	message.worker = worker->number;
	message.generation = worker->generation;
	if (!worker_ring_put(&worker->rings->to_worker, &message))
		weir_worker_distrust(worker);
	else if (worker_ring_sleeps(&worker->rings->to_worker))
		ring(worker->bell);
}

void weir_worker_stop(struct weir_worker *worker)
{
	if (worker->is_dead || worker->is_stopping)
		return;
	worker->is_stopping = true;
	worker->stopping_ns = weir_clock_ns();
	put(worker, (struct worker_message){.kind = WORKER_QUIT});
}

uint32_t weir_worker_in_flight(const struct weir_worker *worker)
{
	return atomic_load_explicit(&worker->flight_count, memory_order_relaxed);
}

/* --- regions --- */

static struct known *find_known(struct weir_worker *worker, uint32_t number)
{
	for (size_t i = worker->known.count; i-- > 0;)
		if (worker->known.items[i].number == number)
			return &worker->known.items[i];
	return NULL;
}

static void forget_unused(struct weir_worker *worker)
{
	for (size_t i = 0; i < worker->known.count; i++) {
		if (worker->known.items[i].uses)
			continue;
		put(worker, (struct worker_message){.kind = WORKER_FORGET, .region = worker->known.items[i].number});
		memmove(&worker->known.items[i], &worker->known.items[i + 1],
			(worker->known.count - i - 1) * sizeof(*worker->known.items));
		worker->known.count--;
		return;
	}
}

/* The descriptor is there before the message that needs it. */
static int tell_region(struct weir_worker *worker, uint32_t number, int memfd, struct weir_error *err)
{
	struct worker_region_note note = {.region = number};
	struct known *known = find_known(worker, number);
	off_t size;

	if (known) {
		known->uses++;
		return WEIR_OK;
	}
	if (worker->known.count >= KNOWN_MAX)
		forget_unused(worker);
	size = lseek(memfd, 0, SEEK_END);
	if (size < 0)
		return weir_error_set_errno(err, errno, "cannot tell the size of a region");
	if (weir_list_push(&worker->known, worker->account, err,
			   (struct known){.number = number, .uses = 1, .size = (uint64_t)size}))
		return err->code;
	worker->regions_mapped += size;
	if (worker->bound) /* before it maps it */
		weir_worker_apply_bound(worker);
	if (!weir_send_with_fds(worker->socket, &note, sizeof(note), &memfd, 1) || errno == EPIPE ||
	    errno == ECONNRESET)
		return WEIR_OK;
	if (errno == EAGAIN) { /* it has not listened for hundreds of them */
		weir_worker_distrust(worker);
		return WEIR_OK;
	}
	worker->known.count--;
	worker->regions_mapped -= size;
	return weir_error_set_errno(err, errno, "cannot send a worker a descriptor");
}

/* --- inputs --- */

static int given_begin(struct weir_worker *worker, struct weir_chunk *chunk, struct given *out, uint64_t *offset,
		       struct weir_error *err)
{
	const uint8_t *bytes;
	int memfd;

	if (weir_chunk_pin(chunk, &bytes, err))
		return err->code;
	weir_chunk_place(chunk, &out->region, &memfd, offset);
	if (tell_region(worker, out->region, memfd, err)) {
		weir_chunk_unpin(chunk);
		return err->code;
	}
	out->chunk = weir_chunk_ref(chunk);
	out->number = worker->part_next++;
	return WEIR_OK;
}

static void given_end(struct weir_worker *worker, struct given *given)
{
	struct known *known;

	if (!given->chunk)
		return;
	known = find_known(worker, given->region);
	if (known)
		known->uses--;
	weir_chunk_unpin(given->chunk);
	weir_chunk_unref(given->chunk);
	given->chunk = NULL;
}

static void parts_free(struct weir_worker *worker, struct flight *flight)
{
	for (uint32_t i = 0; flight->parts && i < flight->part_count; i++)
		given_end(worker, &flight->parts[i]);
	if (flight->parts != &flight->one)
		weir_free(worker->account, flight->parts, sizeof(*flight->parts) * flight->part_count);
	flight->parts = NULL;
}

static void flight_end(struct weir_worker *worker, struct flight *flight)
{
	weir_chunk_unref(flight->room);
	given_end(worker, &flight->list);
	parts_free(worker, flight);
	*flight = (struct flight){0};
	atomic_fetch_sub_explicit(&worker->flight_count, 1, memory_order_relaxed);
}

/* The worker still reads its inputs: they stay pinned, by number. */
static int hold_parts(struct weir_worker *worker, struct flight *flight, struct weir_error *err)
{
	if (weir_list_reserve(&worker->held, worker->account, err, worker->held.count + flight->part_count))
		return err->code;
	for (uint32_t i = 0; i < flight->part_count; i++) {
		size_t at = worker->held.count++;

		/* Batches end out of order now and then. */
		for (; at > 0 && worker->held.items[at - 1].number > flight->parts[i].number; at--)
			worker->held.items[at] = worker->held.items[at - 1];
		worker->held.items[at] = flight->parts[i];
		worker->held_bytes += (int64_t)weir_chunk_footprint(flight->parts[i].chunk);
		flight->parts[i].chunk = NULL;
	}
	return WEIR_OK;
}

static void release_part(struct weir_worker *worker, uint64_t number)
{
	size_t low = 0, high = worker->held.count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (worker->held.items[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == worker->held.count || worker->held.items[low].number != number) {
		weir_worker_distrust(worker);
		return;
	}
	worker->held_bytes -= (int64_t)weir_chunk_footprint(worker->held.items[low].chunk);
	given_end(worker, &worker->held.items[low]);
	worker->held.count--;
	memmove(&worker->held.items[low], &worker->held.items[low + 1],
		(worker->held.count - low) * sizeof(*worker->held.items));
}

void weir_worker_flights_end(struct weir_worker *worker)
{
	for (int i = 0; i < WEIR_WORKER_FLIGHT_MAX; i++)
		if (worker->flights[i].used)
			flight_end(worker, &worker->flights[i]);
	while (worker->held.count)
		given_end(worker, &worker->held.items[--worker->held.count]);
	worker->held_bytes = 0;
}

/* --- giving --- */

/* Several parts stand in a list of their own, in the store as they are. */
static int write_list(struct weir_worker *worker, struct flight *flight, const struct weir_batch_range *ranges,
		      const uint64_t *offsets, struct worker_message *message, struct weir_error *err)
{
	uint64_t size = sizeof(struct worker_part) * flight->part_count;
	struct weir_chunk *chunk;
	struct worker_part *parts;
	uint8_t *bytes;
	int code;

	if (weir_chunk_reserve(worker->store, size, &chunk, &bytes, err))
		return err->code;
	parts = (struct worker_part *)bytes;
	for (uint32_t i = 0; i < flight->part_count; i++)
		parts[i] = (struct worker_part){.offset = offsets[i],
						.size = weir_chunk_size(ranges[i].chunk),
						.row_first = ranges[i].row_first,
						.row_count = ranges[i].row_count,
						.region = flight->parts[i].region};
	weir_chunk_seal(chunk, size);
	code = given_begin(worker, chunk, &flight->list, &message->offset, err);
	weir_chunk_unref(chunk);
	message->region = flight->list.region;
	message->size = size;
	return code;
}

static int give_parts(struct weir_worker *worker, struct flight *flight, const struct weir_batch_range *ranges,
		      struct worker_message *message, struct weir_error *err)
{
	uint64_t one_offset = 0, *offsets = &one_offset;
	uint32_t count = flight->part_count;
	int code = WEIR_OK;

	if (count > 1) {
		offsets = weir_alloc(worker->account, sizeof(*offsets) * count, err);
		if (!offsets)
			return err->code;
	}
	message->part = worker->part_next;
	for (uint32_t i = 0; !code && i < count; i++)
		code = given_begin(worker, ranges[i].chunk, &flight->parts[i], &offsets[i], err);
	if (!code && count == 1) {
		message->region = flight->parts[0].region;
		message->offset = one_offset;
		message->size = weir_chunk_size(ranges[0].chunk);
		message->row_first = ranges[0].row_first;
		message->row_count = ranges[0].row_count;
	} else if (!code) {
		code = write_list(worker, flight, ranges, offsets, message, err);
	}
	if (count > 1)
		weir_free(worker->account, offsets, sizeof(*offsets) * count);
	return code;
}

int weir_worker_give(struct weir_worker *worker, struct weir_run run, const struct weir_batch_range *ranges,
		     uint32_t part_count, uint64_t room, struct weir_batch_kept kept, struct weir_error *err)
{
	struct worker_message message = {
		.kind = WORKER_TASK, .task = run.task, .attempt = run.attempt, .code = run.number, .count = part_count};
	struct flight *flight = worker->flights;
	uint32_t own;
	int memfd, code = WEIR_OK;

	WEIR_ASSERT(part_count > 0);
	if (worker->is_dead || !worker->is_ready || worker->is_distrusted)
		return WEIR_OK;
	WEIR_ASSERT(weir_worker_in_flight(worker) < WEIR_WORKER_FLIGHT_MAX);
	while (flight->used)
		flight++;
	*flight = (struct flight){
		.used = true, .run = run, .parts = &flight->one, .part_count = part_count, .kept = kept.outputs};
	atomic_fetch_add_explicit(&worker->flight_count, 1, memory_order_relaxed);
	if (part_count > 1) {
		flight->parts = weir_alloc_zero(worker->account, sizeof(*flight->parts) * part_count, err);
		code = flight->parts ? WEIR_OK : err->code;
	}
	if (!code)
		code = give_parts(worker, flight, ranges, &message, err);
	if (!code)
		code = weir_region_reserve(worker->region, room ? room : 1, &flight->room, err);
	if (code) {
		flight_end(worker, flight);
		return code;
	}
	weir_chunk_place(flight->room, &own, &memfd, &message.room_offset);
	message.room_size = weir_chunk_size(flight->room);
	message.rows_kept[0] = (uint32_t)(uint64_t)kept.rows;
	message.rows_kept[1] = (uint32_t)((uint64_t)kept.rows >> 32);
	put(worker, message);
	return WEIR_OK;
}

/* --- answers --- */

static struct flight *find_flight(struct weir_worker *worker, const struct worker_message *message)
{
	for (int i = 0; i < WEIR_WORKER_FLIGHT_MAX; i++) {
		struct flight *flight = &worker->flights[i];

		if (flight->used && flight->run.task == message->task && flight->run.attempt == message->attempt)
			return flight;
	}
	return NULL;
}

/* Another room instead of the old one, whose rest is given back. Where there is none the worker is told so, if that is
 * wanted: it is the batch's failure, not the run's. */
static bool more_room(struct weir_worker *worker, uint64_t task, uint32_t attempt, uint64_t size, bool refuse,
		      struct weir_chunk **room)
{
	struct worker_message answer = {.kind = WORKER_ROOM, .task = task, .attempt = attempt};
	struct weir_error err = {0};
	uint32_t own;
	int memfd;

	weir_chunk_unref(*room);
	*room = NULL;
	if (weir_region_reserve(worker->region, size ? size : 1, room, &err)) {
		if (!refuse)
			return false;
		answer.code = (uint32_t)err.code;
	} else {
		weir_chunk_place(*room, &own, &memfd, &answer.room_offset);
		answer.room_size = weir_chunk_size(*room);
	}
	put(worker, answer);
	return true;
}

/* Of several batches in its hands it runs one. */
static struct flight *find_waiting(const struct weir_worker *worker)
{
	for (int i = 0; i < WEIR_WORKER_FLIGHT_MAX; i++)
		if (worker->flights[i].used && worker->flights[i].more && !worker->flights[i].paused)
			return (struct flight *)&worker->flights[i];
	return NULL;
}

void weir_worker_pause(struct weir_worker *worker, struct weir_run run, bool pause)
{
	for (int i = 0; i < WEIR_WORKER_FLIGHT_MAX; i++) {
		struct flight *flight = &worker->flights[i];

		if (!flight->used || flight->run.task != run.task || flight->run.attempt != run.attempt)
			continue;
		flight->paused = pause;
		flight->more_ns = weir_clock_ns(); /* patience begins anew */
	}
}

uint64_t weir_worker_wants_room(const struct weir_worker *worker, struct weir_run *run, uint64_t *since_ns)
{
	const struct flight *flight = worker->is_dead || worker->is_distrusted ? NULL : find_waiting(worker);

	if (!flight)
		return 0;
	*run = flight->run;
	*since_ns = flight->more_ns;
	return flight->more;
}

bool weir_worker_give_room(struct weir_worker *worker, bool refuse)
{
	struct flight *flight = find_waiting(worker);
	bool given = more_room(worker, flight->run.task, flight->run.attempt, flight->more, refuse, &flight->room);

	if (given)
		flight->more = 0;
	return given;
}

static void take_more(struct weir_worker *worker, struct flight *flight, uint64_t size)
{
	/* It is given back before it is asked whether there may be more. */
	weir_chunk_unref(flight->room);
	flight->room = NULL;
	if (worker->rooms_wait && size <= worker->region_size) {
		flight->more = size ? size : 1;
		flight->more_ns = weir_clock_ns();
	} else {
		more_room(worker, flight->run.task, flight->run.attempt, size, true, &flight->room);
	}
}

/* A chunk that the worker says it has written. False: it cannot be, or there is an error. */
static bool adopt(struct weir_worker *worker, struct weir_chunk *room, const struct worker_message *message,
		  struct weir_chunk **out, struct weir_error *err)
{
	int code = room ? weir_chunk_adopt(room, message->offset, message->size, out, err) : WEIR_E_INVALID;

	if (code == WEIR_E_INVALID) {
		weir_error_clear(err);
		weir_worker_distrust(worker);
	}
	return !code;
}

static int take_failure(struct weir_worker *worker, struct weir_chunk *room, const struct worker_message *message,
			enum weir_worker_event_kind kind, struct weir_worker_event *out, struct weir_error *err)
{
	if (message->size && !adopt(worker, room, message, &out->chunk, err))
		return err->code;
	out->kind = kind;
	out->code = message->code > WEIR_OK && message->code < WEIR_CODE_COUNT ? (int)message->code : WEIR_E_INTERNAL;
	memcpy(out->text, message->text, sizeof(out->text));
	out->text[sizeof(out->text) - 1] = 0;
	return WEIR_OK;
}

static int take_answer(struct weir_worker *worker, struct flight *flight, const struct worker_message *message,
		       struct weir_worker_event *out, struct weir_error *err)
{
	bool holds = message->kind == WORKER_DONE ? message->code : message->count;

	out->run = flight->run;
	switch (message->kind) {
	case WORKER_OUTPUT:
		if (message->count != flight->outputs) {
			weir_worker_distrust(worker);
			return WEIR_OK;
		}
		if (!adopt(worker, flight->room, message, &out->chunk, err))
			return err->code;
		out->kind = WEIR_WORKER_OUTPUT;
		out->number = flight->kept + flight->outputs++;
		out->row_count = message->row_count;
		flight->rows += message->row_count;
		return WEIR_OK;
	case WORKER_MORE:
		if (flight->more) /* it was not answered yet */
			weir_worker_distrust(worker);
		else
			take_more(worker, flight, message->size);
		return WEIR_OK;
	case WORKER_DONE:
		if (message->count != flight->outputs) {
			weir_worker_distrust(worker);
			return WEIR_OK;
		}
		if (holds && hold_parts(worker, flight, err))
			return err->code;
		out->kind = WEIR_WORKER_DONE;
		out->row_count = flight->rows;
		out->times = (struct weir_task_times){
			.wall_ns = message->offset, .cpu_ns = message->size, .call_ns = message->row_count};
		flight_end(worker, flight);
		return WEIR_OK;
	case WORKER_FAILED:
		if (take_failure(worker, flight->room, message, WEIR_WORKER_FAILED, out, err))
			return err->code;
		if (out->kind == WEIR_WORKER_NONE)
			return WEIR_OK;
		if (holds && hold_parts(worker, flight, err)) {
			weir_chunk_unref(out->chunk);
			return err->code;
		}
		flight_end(worker, flight);
		return WEIR_OK;
	default:
		weir_worker_distrust(worker);
		return WEIR_OK;
	}
}

static int take_message(struct weir_worker *worker, const struct worker_message *message, struct weir_worker_event *out,
			struct weir_error *err)
{
	struct flight *flight;

	if (message->worker != worker->number || message->generation != worker->generation)
		return WEIR_OK;
	switch (message->kind) {
	case WORKER_READY:
		if (worker->is_ready) {
			weir_worker_distrust(worker);
			return WEIR_OK;
		}
		worker->is_ready = true;
		weir_worker_watch_begin(worker);
		out->kind = WEIR_WORKER_READY;
		out->code = message->code == WEIR_E_MEMORY ? WEIR_E_MEMORY : WEIR_OK;
		return WEIR_OK;
	case WORKER_BROKEN:
		return take_failure(worker, worker->broken_room, message, WEIR_WORKER_BROKEN, out, err);
	case WORKER_RELEASE:
		release_part(worker, message->part);
		return WEIR_OK;
	case WORKER_FORGOTTEN:
		/* Its word is good enough: it can only make its own bound tighter. */
		if (message->size <= (uint64_t)worker->regions_mapped)
			worker->regions_mapped -= (int64_t)message->size;
		if (worker->bound)
			weir_worker_apply_bound(worker);
		return WEIR_OK;
	case WORKER_MORE:
		if (message->task == WORKER_NO_TASK) {
			more_room(worker, message->task, message->attempt, message->size, true, &worker->broken_room);
			return WEIR_OK;
		}
		break;
	default:
		break;
	}
	flight = find_flight(worker, message);
	return flight ? take_answer(worker, flight, message, out, err) : WEIR_OK;
}

/* Messages until one is worth reporting. */
int weir_worker_take_messages(struct weir_worker *worker, struct weir_worker_event *out, struct weir_error *err)
{
	struct worker_ring *ring = &worker->rings->to_driver;
	struct worker_message message;

	while (out->kind == WEIR_WORKER_NONE && !worker->is_distrusted) {
		uint32_t count = worker_ring_count(ring, worker->taken);
		int code;

		if (count == 0)
			return WEIR_OK;
		if (count > WORKER_RING_SIZE) {
			weir_worker_distrust(worker);
			return WEIR_OK;
		}
		worker_ring_take(ring, &worker->taken, &message);
		code = take_message(worker, &message, out, err);
		if (code)
			return code;
	}
	return WEIR_OK;
}
