/* The worker's side of worker_link.h.
 *
 * The driver's death is this process's (worker_end.h).
 *
 * Private copies. A page of a private map that somebody wrote to is a copy from then on, and would hide the next chunk
 * that comes to lie there; so it is dropped when the part is released. To drop all of a part's pages, copies or not,
 * and to have them mapped again one by one, costs as much as copying the chunk. So it is asked first whether there is a
 * copy: none, if the process had no page fault meanwhile; else the page map says which pages are not the file's.
 */
#include "backend/local/worker_side.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/pagemap.h"
#include "backend/local/worker_end.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PAGE WEIR_PAGE
#define BOUND_LEAST ((int64_t)8 << 20) /* more than it has to begin with */

/* A forked child has the rings and all the rest too, but they are not its own. */
static bool is_here(const struct weir_worker_side *side)
{
	return side->here && *side->here;
}

/* --- beginning and end --- */

/* −1: an error or the end. */
static ssize_t receive_with_fds(void *bytes, size_t size, int *fds, int *count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 4)];
	} control = {0};
	struct iovec vector = {.iov_base = bytes, .iov_len = size};
	struct msghdr message = {.msg_iov = &vector,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *header;
	ssize_t got;

	do {
		got = recvmsg(WORKER_SOCKET, &message, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	*count = 0;
	header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
		*count = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(header), (size_t)*count * sizeof(int));
	}
	return got > 0 ? got : -1;
}

static int answer(struct weir_worker_side *side, const struct worker_hello *hello, struct weir_error *err)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec vector = {.iov_base = (void *)hello, .iov_len = sizeof(*hello)};
	struct msghdr message = {.msg_iov = &vector,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int memfd = memfd_create("weir-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING), code = WEIR_OK;
	void *own = MAP_FAILED;

	/* Its pages are made by the driver, which counts them, before it says that they may be written. */
	if (memfd >= 0 && !ftruncate(memfd, (off_t)hello->region_size) &&
	    !fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		own = worker_map(memfd, hello->region_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE);
	if (own == MAP_FAILED) {
		code = weir_error_set_errno(err, errno, "no shared memory for a worker's outputs");
		goto out;
	}
	side->own = own;
	side->own_size = hello->region_size;
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &memfd, sizeof(int));
	if (sendmsg(WORKER_SOCKET, &message, MSG_NOSIGNAL) < 0)
		code = weir_error_set_errno(err, errno, "cannot answer the driver");
out:
	if (memfd >= 0)
		close(memfd);
	return code;
}

/* A page that the kernel empties in a child: asked at every message, and cheaper than a process's number. */
static int mark_here(struct weir_worker_side *side, struct weir_error *err)
{
	char *page = worker_map(-1, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);

	if (page == MAP_FAILED || madvise(page, PAGE, MADV_WIPEONFORK)) {
		weir_error_set_errno(err, errno, "no memory for a worker");
		if (page != MAP_FAILED)
			munmap(page, PAGE);
		return err->code;
	}
	*page = 1;
	side->here = page;
	return WEIR_OK;
}

/* Before user code: the driver hears of the process only when it has greeted, and may not be running then. As
 * worker_watch.c does it. */
static void bound_itself(int64_t bytes)
{
	long long size, resident, shared, text, lib, data;
	int64_t page = sysconf(_SC_PAGESIZE), anon;
	FILE *file = fopen("/proc/self/statm", "re");
	struct rlimit limit;
	int count = 0;

	if (file) {
		count = fscanf(file, "%lld %lld %lld %lld %lld %lld", &size, &resident, &shared, &text, &lib, &data);
		fclose(file);
	}
	if (count != 6 || getrlimit(RLIMIT_DATA, &limit))
		return;
	anon = (resident > shared ? resident - shared : 0) * page;
	bytes = bytes > anon + BOUND_LEAST ? bytes - anon : BOUND_LEAST;
	if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < (rlim_t)(data * page + bytes))
		return;
	limit.rlim_cur = (rlim_t)(data * page + bytes);
	setrlimit(RLIMIT_DATA, &limit);
}

int weir_worker_side_open(struct weir_worker_side *side, struct weir_account *account, struct weir_error *err)
{
	struct worker_hello hello = {0};
	int fds[4] = {-1, -1, -1, -1}, count;
	void *rings, *setup;
	int code;

	*side = (struct weir_worker_side){.account = account};
	code = weir_worker_end_with(WORKER_LIFELINE, err);
	if (code)
		return code;
	fcntl(WORKER_SOCKET, F_SETFD, FD_CLOEXEC);
	fcntl(WORKER_LIFELINE, F_SETFD, FD_CLOEXEC);
	if (receive_with_fds(&hello, sizeof(hello), fds, &count) != sizeof(hello) || count != 4 ||
	    hello.magic != WORKER_MAGIC || hello.version != WORKER_VERSION)
		return weir_error_set(err, WEIR_E_WORKER,
				      "the driver speaks version %u of the worker's language, not %u", hello.version,
				      WORKER_VERSION);
	side->is_open = true;
	side->bell = fds[1];
	side->bell_driver = fds[2];
	side->pagemap = weir_pagemap_open();
	pthread_mutex_init(&side->lock, NULL);
	side->worker = hello.worker;
	side->generation = hello.generation;
	side->setup_task.task = WORKER_NO_TASK;
	side->faults = -1;
	code = mark_here(side, err);
	if (code)
		goto out;
	rings = worker_map(fds[0], sizeof(*side->rings), PROT_READ | PROT_WRITE, MAP_SHARED);
	if (rings == MAP_FAILED) {
		code = weir_error_set_errno(err, errno, "cannot map the driver's messages");
		goto out;
	}
	side->rings = rings;
	if (hello.setup_size) {
		setup = worker_map(fds[3], hello.setup_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE);
		if (setup == MAP_FAILED) {
			code = weir_error_set_errno(err, errno, "cannot map the setup");
			goto out;
		}
		side->setup = setup;
		side->setup_size = hello.setup_size;
	}
	if (hello.bound > 0)
		bound_itself(hello.bound);
	code = answer(side, &hello, err);
out:
	close(fds[0]);
	close(fds[3]);
	return code;
}

static void part_free(struct weir_worker_side *side, struct weir_side_part *part)
{
	weir_free(side->account, part, sizeof(*part));
}

static void task_free(struct weir_worker_side *side, struct weir_side_task *task)
{
	struct weir_side_task **at = &side->tasks;

	while (*at != task)
		at = &(*at)->next;
	*at = task->next;
	weir_free(side->account, task->parts, sizeof(*task->parts) * task->part_count);
	weir_free(side->account, task, sizeof(*task));
}

void weir_worker_side_release(struct weir_worker_side *side)
{
	while (side->tasks)
		task_free(side, side->tasks);
	while (side->parts) {
		struct weir_side_part *part = side->parts;

		side->parts = part->next;
		part_free(side, part);
	}
	if (side->here)
		munmap((void *)side->here, PAGE);
	if (side->rings)
		munmap(side->rings, sizeof(*side->rings));
	if (side->setup)
		munmap(side->setup, side->setup_size);
	if (side->own)
		munmap(side->own, side->own_size);
	for (size_t i = 0; i < side->mapped.count; i++)
		munmap(side->mapped.items[i].bytes, side->mapped.items[i].size);
	if (side->account) {
		weir_list_release(&side->mapped, side->account);
		weir_list_release(&side->waiting, side->account);
	}
	if (side->is_open) {
		pthread_mutex_destroy(&side->lock);
		close(side->bell);
		close(side->bell_driver);
		if (side->pagemap >= 0)
			close(side->pagemap);
	}
	*side = (struct weir_worker_side){0};
}

/* --- to the driver --- */

static void ring_driver(struct weir_worker_side *side)
{
	const uint64_t one = 1;

	if (worker_ring_sleeps(&side->rings->to_driver))
		(void)!write(side->bell_driver, &one, sizeof(one));
}

/* Under the lock. `quiet`: another message follows soon, and wakes the driver for both. */
static void put_locked(struct weir_worker_side *side, struct worker_message *message, bool quiet)
{
	const struct timespec moment = {.tv_nsec = 50000};

	message->worker = side->worker;
	message->generation = side->generation;
	/* Full: the driver has not listened for a while. It ends this process if it never will. */
	for (int spins = 0; !worker_ring_put(&side->rings->to_driver, message); spins++) {
		ring_driver(side);
		if (spins < 100)
			worker_pause();
		else
			nanosleep(&moment, NULL);
	}
	if (!quiet)
		ring_driver(side);
}

static void put(struct weir_worker_side *side, struct worker_message message, bool quiet)
{
	if (!is_here(side))
		return;
	pthread_mutex_lock(&side->lock);
	put_locked(side, &message, quiet);
	pthread_mutex_unlock(&side->lock);
}

void weir_worker_side_ready(struct weir_worker_side *side, bool is_short)
{
	put(side, (struct worker_message){.kind = WORKER_READY, .code = is_short ? WEIR_E_MEMORY : WEIR_OK}, false);
}

/* --- from the driver --- */

/* Spins for a while, then sleeps until the bell, the driver's end or the time is over. False: the end. */
static bool wait_for_message(struct weir_worker_side *side, int64_t timeout_ns)
{
	struct worker_ring *ring = &side->rings->to_worker;
	uint64_t begun = weir_clock_ns(), spun = begun, drained;
	struct pollfd polls[] = {{.fd = side->bell, .events = POLLIN}, {.fd = WORKER_LIFELINE}};

	for (;;) {
		int64_t left = timeout_ns < 0 ? -1 : timeout_ns - (int64_t)(weir_clock_ns() - begun);

		if (worker_ring_count(ring, side->taken) || (timeout_ns >= 0 && left <= 0))
			return true;
		while (side->spins && worker_ring_is_elsewhere(ring) && weir_clock_ns() - spun < WORKER_SPIN_NS) {
			if (worker_ring_count(ring, side->taken))
				return true;
			for (int i = 0; i < 16; i++)
				worker_pause();
		}
		worker_ring_say_waiting(ring, true);
		if (!worker_ring_count(ring, side->taken)) {
			struct timespec limit = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};

			polls[0].revents = polls[1].revents = 0;
			if (ppoll(polls, 2, left < 0 ? NULL : &limit, NULL) > 0 && polls[0].revents)
				(void)!read(side->bell, &drained, sizeof(drained));
		}
		worker_ring_say_waiting(ring, false);
		side->spins = weir_clock_ns() - begun < 2 * WORKER_SPIN_NS;
		if (worker_ring_count(ring, side->taken))
			return true;
		if (polls[1].revents)
			return false;
		worker_ring_say_cpu(&side->rings->to_driver);
		spun = weir_clock_ns();
	}
}

static void take(struct weir_worker_side *side, struct worker_message *message)
{
	worker_ring_take(&side->rings->to_worker, &side->taken, message);
	worker_ring_say_cpu(&side->rings->to_driver);
}

/* Writable and private maps count towards RLIMIT_DATA, which is the bound on what user code holds, and no bound on what
 * it is given to look at: a worker that has used up the one still gets the other. */
static void *map_private(int fd, uint64_t size)
{
	int flags = MAP_PRIVATE | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
	struct rlimit bound, open;
	void *bytes = worker_map(fd, size, PROT_READ | PROT_WRITE, flags);

	if (bytes != MAP_FAILED || errno != ENOMEM || getrlimit(RLIMIT_DATA, &bound) ||
	    bound.rlim_cur == bound.rlim_max)
		return bytes;
	open = (struct rlimit){.rlim_cur = bound.rlim_max, .rlim_max = bound.rlim_max};
	if (setrlimit(RLIMIT_DATA, &open)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	bytes = worker_map(fd, size, PROT_READ | PROT_WRITE, flags);
	setrlimit(RLIMIT_DATA, &bound);
	errno = ENOMEM;
	return bytes;
}

/* The descriptor was sent before the task that needs it. */
static struct worker_mapped *map_region(struct weir_worker_side *side, uint32_t region, struct weir_error *err)
{
	for (;;) {
		struct worker_region_note note;
		struct worker_mapped mapped;
		int fds[4], count;
		off_t size;
		void *bytes;

		for (size_t i = side->mapped.count; i-- > 0;)
			if (side->mapped.items[i].region == region)
				return &side->mapped.items[i];
		if (receive_with_fds(&note, sizeof(note), fds, &count) != sizeof(note) || count != 1) {
			weir_error_set(err, WEIR_E_WORKER, "the driver sent no descriptor for region %u", region);
			return NULL;
		}
		size = lseek(fds[0], 0, SEEK_END);
		/* Writable: code that scribbles gets its own page, and neither crashes nor changes the chunk. */
		bytes = MAP_FAILED;
		if (size > 0)
			bytes = map_private(fds[0], (uint64_t)size);
		close(fds[0]);
		if (bytes == MAP_FAILED) {
			weir_error_set_errno(err, errno, "cannot map a region");
			return NULL;
		}
		mapped = (struct worker_mapped){.region = note.region, .size = (uint64_t)size, .bytes = bytes};
		if (weir_list_push(&side->mapped, side->account, err, mapped)) {
			munmap(bytes, (size_t)size);
			return NULL;
		}
	}
}

/* No part in it is open, or the driver would not say so. */
static void forget_region(struct weir_worker_side *side, uint32_t region)
{
	for (size_t i = 0; i < side->mapped.count; i++) {
		struct worker_mapped mapped = side->mapped.items[i];

		if (mapped.region != region)
			continue;
		munmap(mapped.bytes, mapped.size);
		side->mapped.items[i] = side->mapped.items[--side->mapped.count];
		put(side, (struct worker_message){.kind = WORKER_FORGOTTEN, .region = region, .size = mapped.size},
		    true);
		return;
	}
}

/* --- parts --- */

/* Under the lock: another part of the same chunk may still show what was written there. */
static void drop_copies(struct weir_worker_side *side, const struct weir_side_part *part)
{
	uint64_t pages = (part->size + PAGE - 1) / PAGE;

	for (struct weir_side_part *other = side->parts; other; other = other->next)
		if (other != part && !other->is_released && other->bytes == part->bytes)
			return;
	side->faults = weir_page_fault_count();
	if (part->faults == side->faults && part->faults >= 0)
		return;
	if (weir_pagemap_has_copies(side->pagemap, part->bytes, part->size))
		madvise((void *)part->bytes, pages * PAGE, MADV_DONTNEED);
}

static void part_unlink(struct weir_worker_side *side, struct weir_side_part *part)
{
	if (part->before)
		part->before->next = part->next;
	else
		side->parts = part->next;
	if (part->next)
		part->next->before = part->before;
}

void weir_side_part_release(struct weir_worker_side *side, struct weir_side_part *part)
{
	if (!is_here(side))
		return;
	pthread_mutex_lock(&side->lock);
	drop_copies(side, part);
	part->is_released = true;
	if (part->is_held) {
		struct worker_message message = {.kind = WORKER_RELEASE, .part = part->number};

		put_locked(side, &message, false);
		part_unlink(side, part);
		part_free(side, part);
	}
	pthread_mutex_unlock(&side->lock);
}

/* The task is over: parts that were released are forgotten; whether any was not. */
static bool parts_end(struct weir_worker_side *side, struct weir_side_task *task)
{
	bool holds = false;

	for (uint32_t i = 0; i < task->part_count; i++)
		holds |= !task->parts[i]->is_released;
	for (uint32_t i = 0; i < task->part_count; i++) {
		struct weir_side_part *part = task->parts[i];

		part->is_held = true;
		if (!part->is_released)
			continue;
		part_unlink(side, part);
		if (!holds)
			part_free(side, part);
	}
	return holds;
}

/* Says how a task has ended, and then which of its parts are free after all. */
static void end_task(struct weir_worker_side *side, struct weir_side_task *task, struct worker_message *message)
{
	bool holds;

	message->task = task->task;
	message->attempt = task->attempt;
	pthread_mutex_lock(&side->lock);
	holds = parts_end(side, task);
	if (message->kind == WORKER_DONE)
		message->code = holds;
	else
		message->count = holds;
	put_locked(side, message, false);
	for (uint32_t i = 0; holds && i < task->part_count; i++) {
		struct weir_side_part *part = task->parts[i];
		struct worker_message release = {.kind = WORKER_RELEASE, .part = part->number};

		if (!part->is_released)
			continue;
		put_locked(side, &release, true);
		part_free(side, part);
	}
	pthread_mutex_unlock(&side->lock);
	task_free(side, task);
}

/* --- tasks --- */

static int add_part(struct weir_worker_side *side, struct weir_side_task *task, uint32_t index, uint64_t number,
		    const struct worker_part *from, struct weir_error *err)
{
	struct worker_mapped *mapped = map_region(side, from->region, err);
	struct weir_side_part *part;

	if (!mapped)
		return err->code;
	if (weir_range_outside(from->offset, from->size, mapped->size) || from->offset % PAGE)
		return weir_error_set(err, WEIR_E_WORKER, "a part outside its region");
	part = weir_alloc_zero(side->account, sizeof(*part), err);
	if (!part)
		return err->code;
	*part = (struct weir_side_part){.number = number,
					.bytes = mapped->bytes + from->offset,
					.size = from->size,
					.row_first = from->row_first,
					.row_count = from->row_count};
	pthread_mutex_lock(&side->lock);
	/* An older count will do: what came since then only makes it look twice. So it has to be that of a part that
	 * shows the same bytes, who may have been written to. */
	part->faults = side->faults;
	for (const struct weir_side_part *other = side->parts; other; other = other->next)
		if (other->bytes == part->bytes && other->faults < part->faults)
			part->faults = other->faults;
	part->next = side->parts;
	if (part->next)
		part->next->before = part;
	side->parts = part;
	pthread_mutex_unlock(&side->lock);
	task->parts[index] = part;
	return WEIR_OK;
}

static int add_parts(struct weir_worker_side *side, struct weir_side_task *task, const struct worker_message *message,
		     struct weir_error *err)
{
	struct worker_part one = {.offset = message->offset,
				  .size = message->size,
				  .row_first = message->row_first,
				  .row_count = message->row_count,
				  .region = message->region};
	const struct worker_part *list = &one;
	int code = WEIR_OK;

	if (task->part_count > 1) {
		struct worker_mapped *mapped = map_region(side, message->region, err);

		if (!mapped)
			return err->code;
		if (weir_range_outside(message->offset, message->size, mapped->size) ||
		    message->size != sizeof(one) * task->part_count)
			return weir_error_set(err, WEIR_E_WORKER, "a list of parts outside its region");
		list = (const struct worker_part *)(mapped->bytes + message->offset);
	}
	for (uint32_t i = 0; !code && i < task->part_count; i++) {
		one = list[i]; /* maps may move in the list of maps, never in memory */
		code = add_part(side, task, i, message->part + i, &one, err);
	}
	return code;
}

static int give_room(struct weir_worker_side *side, struct weir_side_task *task, const struct worker_message *message,
		     struct weir_error *err)
{
	if (weir_range_outside(message->room_offset, message->room_size, side->own_size))
		return weir_error_set(err, WEIR_E_WORKER, "a room outside its region");
	task->room = side->own + message->room_offset;
	task->room_size = message->room_size;
	return WEIR_OK;
}

static uint64_t work_ns(void)
{
	struct timespec time = {0};

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int begin_task(struct weir_worker_side *side, const struct worker_message *message, struct weir_side_task **out,
		      struct weir_error *err)
{
	struct weir_side_task *task = weir_alloc_zero(side->account, sizeof(*task), err);
	int code;

	if (!task)
		return err->code;
	task->task = message->task;
	task->attempt = message->attempt;
	task->number = message->code;
	task->rows_kept = (uint64_t)message->rows_kept[1] << 32 | message->rows_kept[0];
	task->begun_ns = weir_clock_ns();
	task->begun_work_ns = work_ns();
	task->part_count = message->count;
	task->next = side->tasks;
	side->tasks = task;
	task->parts = weir_alloc_zero(side->account, sizeof(*task->parts) * task->part_count, err);
	if (!task->parts) {
		task->part_count = 0;
		return err->code;
	}
	code = give_room(side, task, message, err);
	if (!code)
		code = add_parts(side, task, message, err);
	if (!code)
		*out = task;
	return code; /* an error is this process's end: what it has is let go with it */
}

/* One message from the ring. *out: a task; *room: it was the room that `task` waits for. */
static int take_one(struct weir_worker_side *side, struct weir_side_task *waiter, bool *answered, bool *quit,
		    struct worker_message *message, struct weir_error *err)
{
	take(side, message);
	switch (message->kind) {
	case WORKER_TASK:
		return WEIR_OK;
	case WORKER_ROOM:
		if (!waiter || message->task != waiter->task ||
		    (message->task != WORKER_NO_TASK && message->attempt != waiter->attempt))
			break;
		*answered = true;
		return WEIR_OK;
	case WORKER_FORGET:
		forget_region(side, message->region);
		return WEIR_OK;
	case WORKER_QUIT:
		*quit = true;
		return WEIR_OK;
	default:
		break;
	}
	/* Rather an end that the driver sees than a batch that it waits for in vain. */
	return weir_error_set(err, WEIR_E_WORKER, "message %u is not expected", message->kind);
}

void weir_worker_side_at(struct weir_worker_side *side, uint64_t first, uint64_t count)
{
	atomic_store_explicit(&side->rings->at_first, first, memory_order_relaxed);
	atomic_store_explicit(&side->rings->at_count, count, memory_order_relaxed);
}

int weir_worker_side_next(struct weir_worker_side *side, int64_t timeout_ns, struct weir_side_task **out, bool *quit,
			  struct weir_error *err)
{
	struct worker_message message;
	bool answered = false;

	*out = NULL;
	*quit = side->is_quitting;
	weir_worker_side_at(side, 0, 0);
	if (*quit)
		return WEIR_OK;
	if (side->waiting.count) {
		message = side->waiting.items[0];
		memmove(side->waiting.items, side->waiting.items + 1,
			--side->waiting.count * sizeof(*side->waiting.items));
		return begin_task(side, &message, out, err);
	}
	do {
		if (!wait_for_message(side, timeout_ns)) {
			*quit = side->is_quitting = true;
			return WEIR_OK;
		}
		if (!worker_ring_count(&side->rings->to_worker, side->taken))
			return WEIR_OK; /* the time is over */
		if (take_one(side, NULL, &answered, &side->is_quitting, &message, err))
			return err->code;
		if (message.kind == WORKER_TASK)
			return begin_task(side, &message, out, err);
	} while (!side->is_quitting);
	*quit = true;
	return WEIR_OK;
}

static int ask_for_room(struct weir_worker_side *side, struct weir_side_task *task, uint64_t size,
			struct weir_error *err)
{
	struct worker_message message = {
		.kind = WORKER_MORE, .task = task->task, .attempt = task->attempt, .size = size};
	bool answered = false;

	task->room = NULL;
	task->room_size = 0;
	if (side->is_quitting)
		return weir_error_set(err, WEIR_E_CANCELLED, "the driver wants no more");
	put(side, message, false);
	while (!answered) {
		if (!wait_for_message(side, -1))
			return weir_error_set(err, WEIR_E_WORKER, "the driver is gone");
		if (take_one(side, task, &answered, &side->is_quitting, &message, err))
			return err->code;
		/* Tasks that were given meanwhile wait; so does a wish that it quits, which comes after an answer. */
		if (message.kind == WORKER_TASK && weir_list_push(&side->waiting, side->account, err, message))
			return err->code;
	}
	if (message.code)
		return weir_error_set(err, message.code < WEIR_CODE_COUNT ? (int)message.code : WEIR_E_INTERNAL,
				      "no room for a result of %llu bytes: %s", (unsigned long long)size,
				      weir_code_text((int)message.code));
	return give_room(side, task, &message, err);
}

int weir_worker_side_room(struct weir_worker_side *side, struct weir_side_task *task, uint64_t size, uint8_t **bytes,
			  struct weir_error *err)
{
	WEIR_ASSERT(size > 0);
	if (!is_here(side))
		return weir_error_set(err, WEIR_E_WORKER, "a forked child of a worker has no results");
	if (size > task->room_size && ask_for_room(side, task, size, err))
		return err->code;
	*bytes = task->room;
	return WEIR_OK;
}

uint64_t weir_worker_side_left(const struct weir_side_task *task, uint8_t **bytes)
{
	*bytes = task->room;
	return task->room ? task->room_size : 0;
}

static void move_room(struct weir_side_task *task, const uint8_t *from, uint8_t *to)
{
	if (task->room)
		task->room = to + (task->room - from);
}

/* `from` again at another place, where `size` is 0, or its pages moved to `to`. */
static void *remap(void *from, uint64_t size, uint64_t new_size, void *to)
{
	int flags = MREMAP_MAYMOVE | (to ? MREMAP_FIXED : 0);

	return mremap(from, size, new_size, flags, to); /* tidy-allow: shared with another process, as worker_map's */
}

int weir_worker_side_keep(struct weir_worker_side *side, uint8_t *bytes, uint64_t size, struct weir_error *err)
{
	uint8_t *old = side->own, *end = old + side->own_size;
	uint8_t *first = old + (uint64_t)(bytes - old) / PAGE * PAGE;
	uint64_t kept_size = weir_round_up((uint64_t)(bytes - first) + size, PAGE);
	uint8_t *kept = map_private(-1, kept_size), *own = MAP_FAILED;

	if (kept != MAP_FAILED) {
		memcpy(kept, first, kept_size);
		own = remap(old, 0, side->own_size, NULL);
	}
	if (own == MAP_FAILED || remap(kept, kept_size, kept_size, first) == MAP_FAILED) {
		if (own != MAP_FAILED)
			munmap(own, side->own_size);
		if (kept != MAP_FAILED)
			munmap(kept, kept_size);
		return weir_error_set(err, WEIR_E_MEMORY, "no memory for an array that the function keeps");
	}
	if (first > old)
		munmap(old, (size_t)(first - old));
	if (first + kept_size < end)
		munmap(first + kept_size, (size_t)(end - first) - kept_size);
	for (struct weir_side_task *task = side->tasks; task; task = task->next)
		move_room(task, old, own);
	move_room(&side->setup_task, old, own);
	side->own = own;
	return WEIR_OK;
}

/* What was written at the beginning of the room; the next begins on a page of its own. */
static void use_room(struct weir_worker_side *side, struct weir_side_task *task, uint64_t size,
		     struct worker_message *message)
{
	uint64_t pages = (size + PAGE - 1) / PAGE * PAGE;

	WEIR_ASSERT(size > 0 && size <= task->room_size);
	message->task = task->task;
	message->attempt = task->attempt;
	message->offset = (uint64_t)(task->room - side->own);
	message->size = size;
	task->room += pages;
	task->room_size = pages < task->room_size ? task->room_size - pages : 0;
}

void weir_worker_side_output(struct weir_worker_side *side, struct weir_side_task *task, uint64_t size,
			     uint64_t row_count)
{
	struct worker_message message = {.kind = WORKER_OUTPUT, .row_count = row_count, .count = task->outputs++};

	use_room(side, task, size, &message);
	put(side, message, true);
}

void weir_worker_side_done(struct weir_worker_side *side, struct weir_side_task *task, uint64_t call_ns)
{
	struct worker_message message = {.kind = WORKER_DONE,
					 .count = task->outputs,
					 .offset = weir_clock_ns() - task->begun_ns,
					 .size = work_ns() - task->begun_work_ns,
					 .row_count = call_ns};

	if (is_here(side))
		end_task(side, task, &message);
}

/* Code, text, and the payload where there is room for it. */
static void fill_failure(struct weir_worker_side *side, struct weir_side_task *task, int code, const char *text,
			 const void *payload, uint64_t size, struct worker_message *message)
{
	struct weir_error err = {0};
	uint8_t *room = NULL;

	message->code = (uint32_t)code;
	snprintf(message->text, sizeof(message->text), "%s", text);
	if (size == 0 || weir_worker_side_room(side, task, size, &room, &err))
		return;
	memcpy(room, payload, size);
	use_room(side, task, size, message);
}

void weir_worker_side_failed(struct weir_worker_side *side, struct weir_side_task *task, int code, const char *text,
			     const void *payload, uint64_t size)
{
	struct worker_message message = {.kind = WORKER_FAILED};

	if (!is_here(side))
		return;
	fill_failure(side, task, code, text, payload, size, &message);
	end_task(side, task, &message);
}

void weir_worker_side_broken(struct weir_worker_side *side, int code, const char *text, const void *payload,
			     uint64_t size)
{
	struct worker_message message = {.kind = WORKER_BROKEN};

	if (!is_here(side))
		return;
	fill_failure(side, &side->setup_task, code, text, payload, size, &message);
	put(side, message, false);
}
