/* The worker's side of worker_link.h.
 *
 * The driver's death is this process's: the lifeline is a pipe whose other end only the driver holds, and the kernel sends
 * the signal chosen with F_SETSIG when it hangs up. So a worker dies even inside a long call, without a thread that
 * watches; PR_SET_PDEATHSIG would do so too, but fires when the thread that spawned the worker ends, not the process.
 */
#include "backend/local/worker_side.h"
#include "base/checked.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

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

static int die_with_driver(struct weir_error *err)
{
	struct pollfd hung_up = {.fd = WORKER_LIFELINE};
	int flags = fcntl(WORKER_LIFELINE, F_GETFL);

	if (flags < 0 || fcntl(WORKER_LIFELINE, F_SETOWN, getpid()) || fcntl(WORKER_LIFELINE, F_SETSIG, SIGKILL) ||
	    fcntl(WORKER_LIFELINE, F_SETFL, flags | O_ASYNC))
		return weir_error_set_errno(err, errno, "cannot watch the driver");
	/* Gone before that was set: */
	if (poll(&hung_up, 1, 0) > 0)
		return weir_error_set(err, WEIR_E_WORKER, "the driver is gone");
	return WEIR_OK;
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

int weir_worker_side_open(struct weir_worker_side *side, struct weir_account *account, struct weir_error *err)
{
	struct worker_hello hello = {0};
	int fds[4] = {-1, -1, -1, -1}, count;
	void *rings, *setup;
	int code;

	*side = (struct weir_worker_side){.account = account};
	code = die_with_driver(err);
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
	side->worker = hello.worker;
	side->generation = hello.generation;
	rings = worker_map(fds[0], sizeof(*side->rings), PROT_READ | PROT_WRITE, MAP_SHARED);
	if (rings == MAP_FAILED) {
		code = weir_error_set_errno(err, errno, "cannot map the driver's messages");
		goto out;
	}
	side->rings = rings;
	if (hello.setup_size) {
		setup = worker_map(fds[3], hello.setup_size, PROT_READ, MAP_PRIVATE);
		if (setup == MAP_FAILED) {
			code = weir_error_set_errno(err, errno, "cannot map the setup");
			goto out;
		}
		side->setup = setup;
		side->setup_size = hello.setup_size;
	}
	code = answer(side, &hello, err);
out:
	close(fds[0]);
	close(fds[3]);
	return code;
}

void weir_worker_side_release(struct weir_worker_side *side)
{
	if (side->rings)
		munmap(side->rings, sizeof(*side->rings));
	if (side->setup)
		munmap((void *)side->setup, side->setup_size);
	if (side->own)
		munmap(side->own, side->own_size);
	for (size_t i = 0; i < side->mapped.count; i++)
		munmap(side->mapped.items[i].bytes, side->mapped.items[i].size);
	if (side->account)
		weir_list_release(&side->mapped, side->account);
	if (side->is_open) {
		close(side->bell);
		close(side->bell_driver);
	}
	*side = (struct weir_worker_side){0};
}

/* --- answers --- */

static void put(struct weir_worker_side *side, struct worker_message message)
{
	const uint64_t one = 1;

	message.worker = side->worker;
	message.generation = side->generation;
	/* The driver gives fewer tasks than the ring has places, and each has one answer. */
	while (!worker_ring_put(&side->rings->to_driver, &message))
		worker_pause();
	if (worker_ring_sleeps(&side->rings->to_driver))
		(void)!write(side->bell_driver, &one, sizeof(one));
}

void weir_worker_side_done(struct weir_worker_side *side, const struct worker_message *task, uint64_t size,
			   uint64_t row_count)
{
	put(side, (struct worker_message){.kind = WORKER_DONE,
					  .task = task->task,
					  .attempt = task->attempt,
					  .offset = task->room_offset,
					  .size = size,
					  .row_count = row_count});
}

void weir_worker_side_more(struct weir_worker_side *side, const struct worker_message *task, uint64_t size)
{
	put(side,
	    (struct worker_message){.kind = WORKER_MORE, .task = task->task, .attempt = task->attempt, .size = size});
}

void weir_worker_side_failed(struct weir_worker_side *side, const struct worker_message *task, int code,
			     const char *text)
{
	struct worker_message message = {
		.kind = WORKER_FAILED, .task = task->task, .attempt = task->attempt, .code = (uint32_t)code};

	snprintf(message.text, sizeof(message.text), "%s", text);
	put(side, message);
}

/* --- tasks --- */

/* Spins for a while, then sleeps until the bell or the driver's end. False: the end. */
static bool wait_for_message(struct weir_worker_side *side)
{
	struct worker_ring *ring = &side->rings->to_worker;
	uint64_t begun = weir_clock_ns(), drained;
	struct pollfd polls[] = {{.fd = side->bell, .events = POLLIN}, {.fd = WORKER_LIFELINE}};

	for (;;) {
		if (worker_ring_count(ring, side->taken))
			return true;
		while (worker_ring_is_elsewhere(ring) && weir_clock_ns() - begun < WORKER_SPIN_NS) {
			if (worker_ring_count(ring, side->taken))
				return true;
			for (int i = 0; i < 16; i++)
				worker_pause();
		}
		worker_ring_say_waiting(ring, true);
		if (!worker_ring_count(ring, side->taken)) {
			poll(polls, 2, -1);
			(void)!read(side->bell, &drained, sizeof(drained));
		}
		worker_ring_say_waiting(ring, false);
		if (worker_ring_count(ring, side->taken))
			return true;
		if (polls[1].revents)
			return false;
		worker_ring_say_cpu(&side->rings->to_driver);
		begun = weir_clock_ns();
	}
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

		for (size_t i = 0; i < side->mapped.count; i++)
			if (side->mapped.items[i].region == region)
				return &side->mapped.items[i];
		if (receive_with_fds(&note, sizeof(note), fds, &count) != sizeof(note) || count != 1) {
			weir_error_set(err, WEIR_E_WORKER, "the driver sent no descriptor for region %u", region);
			return NULL;
		}
		size = lseek(fds[0], 0, SEEK_END);
		/* Writable and private: code that scribbles gets its own page, and neither crashes nor changes the chunk. */
		bytes = MAP_FAILED;
		if (size > 0)
			bytes = worker_map(fds[0], (uint64_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE);
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

int weir_worker_side_next(struct weir_worker_side *side, struct worker_message *task, const uint8_t **bytes,
			  uint8_t **room, bool *quit, struct weir_error *err)
{
	struct worker_mapped *mapped;

	*quit = !wait_for_message(side);
	if (*quit)
		return WEIR_OK;
	worker_ring_take(&side->rings->to_worker, &side->taken, task);
	worker_ring_say_cpu(&side->rings->to_driver);
	*quit = task->kind == WORKER_QUIT;
	if (*quit)
		return WEIR_OK;
	/* Rather an end that the driver sees than a batch that it waits for in vain. */
	if (task->kind != WORKER_TASK)
		return weir_error_set(err, WEIR_E_WORKER, "message %u is not known", task->kind);
	mapped = map_region(side, task->region, err);
	if (!mapped)
		return err->code;
	if (weir_range_outside(task->offset, task->size, mapped->size) ||
	    weir_range_outside(task->room_offset, task->room_size, side->own_size))
		return weir_error_set(err, WEIR_E_WORKER, "a task outside its region");
	*bytes = mapped->bytes + task->offset;
	*room = side->own + task->room_offset;
	return WEIR_OK;
}
