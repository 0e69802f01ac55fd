/* The driver's side of a worker process. The bytes between the two are drawn in worker_link.h.
 *
 * A process is made by posix_spawn, never by a bare fork: this process has threads. Its death is seen on a pidfd, in the
 * same poll() that waits for messages; before DIED is reported the ring is read to its end, since what was said before a
 * death is as good as any other message.
 */
#include "backend/local/worker.h"
#include "base/clock.h"
#include "base/fault.h"
#include "backend/local/worker_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REGION_SIZE ((uint64_t)1 << 30)
#define STOP_MS 500      /* for a worker that was asked to exit */
#define WATCHED_MAX 1024 /* workers in one wait */

extern char **environ;

struct flight {
	bool used;
	struct weir_run run;
	struct weir_batch_range batch; /* a reference and a pin */
	struct weir_chunk *room;
};

struct weir_worker {
	struct weir_account *account;
	struct weir_store *store;
	uint32_t number, generation;
	pid_t pid; /* 0: reaped, or never started */
	int pidfd, socket, lifeline, bell;
	struct worker_rings *rings;
	uint32_t taken; /* from to_driver */
	uint64_t region_size;
	struct weir_region *region; /* NULL until it has greeted */
	bool is_dead, is_stopping;
	enum weir_death death;
	struct flight flights[WEIR_WORKER_FLIGHT_MAX];
	uint32_t flight_count;
	struct WEIR_LIST(uint32_t) known; /* regions that it was sent */
};

/* --- spawning --- */

static int send_with_fds(int socket, const void *bytes, size_t size, const int *fds, size_t count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 4)];
	} control = {0};
	struct iovec vector = {.iov_base = (void *)bytes, .iov_len = size};
	struct msghdr message = {.msg_iov = &vector,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	ssize_t sent;

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int) * count);
	memcpy(CMSG_DATA(header), fds, sizeof(int) * count);
	do {
		sent = sendmsg(socket, &message, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -1 : 0;
}

static int make_rings(struct weir_worker *worker, int *fd, struct weir_error *err)
{
	void *rings = MAP_FAILED;

	*fd = weir_fault(WEIR_FAULT_MAP) ? -1 : memfd_create("weir-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	/* Backed before it is touched, and never cut: no worker can make the driver fault here. */
	if (*fd >= 0 && !ftruncate(*fd, sizeof(*worker->rings)) && !fallocate(*fd, 0, 0, sizeof(*worker->rings)) &&
	    !fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		rings = worker_map(*fd, sizeof(*worker->rings), PROT_READ | PROT_WRITE, MAP_SHARED);
	if (rings == MAP_FAILED)
		return weir_error_set_errno(err, errno, "no shared memory for a worker's messages");
	worker->rings = rings;
	return WEIR_OK;
}

static int make_setup(const struct weir_worker_options *options, int *fd, struct weir_error *err)
{
	uint64_t done = 0;

	*fd = memfd_create("weir-setup", MFD_CLOEXEC);
	while (*fd >= 0 && done < options->setup_size) {
		ssize_t n = write(*fd, (const char *)options->setup + done, options->setup_size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return weir_error_set_errno(err, errno, "no shared memory for a worker's setup of %llu bytes",
						    (unsigned long long)options->setup_size);
		done += (uint64_t)n;
	}
	return *fd < 0 ? weir_error_set_errno(err, errno, "no shared memory for a worker's setup") : WEIR_OK;
}

static int start_process(struct weir_worker *worker, const char *const *argv, int socket, int lifeline,
			 struct weir_error *err)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int failed;

	/* Descriptors at the places of others are moved out of the way by taking them above both first. */
	int high_socket = fcntl(socket, F_DUPFD_CLOEXEC, 10), high_lifeline = fcntl(lifeline, F_DUPFD_CLOEXEC, 10);

	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	failed = high_socket < 0 || high_lifeline < 0 || weir_fault(WEIR_FAULT_SPAWN) ? errno : 0;
	if (!failed)
		failed = posix_spawn_file_actions_adddup2(&actions, high_socket, WORKER_SOCKET);
	if (!failed)
		failed = posix_spawn_file_actions_adddup2(&actions, high_lifeline, WORKER_LIFELINE);
	if (!failed)
		failed = posix_spawn(&worker->pid, argv[0], &actions, &attributes, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	if (high_socket >= 0)
		close(high_socket);
	if (high_lifeline >= 0)
		close(high_lifeline);
	if (failed) {
		worker->pid = 0;
		return weir_error_set_errno(err, failed, "cannot start a worker process, %s", argv[0]);
	}
	/* Not reaped by anybody else, so the number is still its own. */
	worker->pidfd = pidfd_open(worker->pid, 0);
	if (worker->pidfd < 0)
		return weir_error_set_errno(err, errno, "cannot watch a worker process");
	return WEIR_OK;
}

int weir_worker_spawn(struct weir_account *account, const struct weir_worker_options *options, struct weir_worker **out,
		      struct weir_error *err)
{
	struct weir_worker *worker = weir_alloc_zero(account, sizeof(*worker), err);
	int sockets[2] = {-1, -1}, lifeline[2] = {-1, -1}, rings = -1, setup = -1;
	struct worker_hello hello;
	int code;

	*out = NULL;
	if (!worker)
		return err->code;
	worker->account = account;
	worker->store = options->store;
	worker->number = options->number;
	worker->generation = options->generation;
	worker->region_size = options->region_size ? options->region_size : REGION_SIZE;
	worker->pidfd = worker->socket = worker->lifeline = worker->bell = -1;
	hello = (struct worker_hello){.magic = WORKER_MAGIC,
				      .version = WORKER_VERSION,
				      .worker = options->number,
				      .generation = options->generation,
				      .region_size = worker->region_size,
				      .setup_size = options->setup_size};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) || pipe2(lifeline, O_CLOEXEC) ||
	    (worker->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
		code = weir_error_set_errno(err, errno, "no descriptors for a worker process");
		goto out;
	}
	code = make_rings(worker, &rings, err);
	if (!code)
		code = make_setup(options, &setup, err);
	if (!code)
		code = start_process(worker, options->argv, sockets[1], lifeline[0], err);
	if (code)
		goto out;
	worker->socket = sockets[0];
	worker->lifeline = lifeline[1];
	sockets[0] = lifeline[1] = -1;
	/* A worker that is dead already will be found dead. */
	if (send_with_fds(worker->socket, &hello, sizeof(hello), (int[]){rings, worker->bell, options->doorbell, setup},
			  4) &&
	    errno != EPIPE && errno != ECONNRESET)
		code = weir_error_set_errno(err, errno, "cannot greet a worker process");
out:
	for (int i = 0; i < 2; i++) {
		if (sockets[i] >= 0)
			close(sockets[i]);
		if (lifeline[i] >= 0)
			close(lifeline[i]);
	}
	if (rings >= 0)
		close(rings);
	if (setup >= 0)
		close(setup);
	if (code)
		weir_worker_free(worker);
	else
		*out = worker;
	return code;
}

/* --- the end --- */

static void flight_end(struct weir_worker *worker, struct flight *flight)
{
	weir_chunk_unref(flight->room);
	weir_chunk_unpin(flight->batch.chunk);
	weir_chunk_unref(flight->batch.chunk);
	*flight = (struct flight){0};
	worker->flight_count--;
}

static void bury(struct weir_worker *worker)
{
	for (int i = 0; i < WEIR_WORKER_FLIGHT_MAX; i++)
		if (worker->flights[i].used)
			flight_end(worker, &worker->flights[i]);
	weir_region_release(worker->store, worker->region);
	worker->region = NULL;
	worker->is_dead = true;
}

/* Waits for a process that has died or is about to. */
static void reap(struct weir_worker *worker)
{
	siginfo_t info = {0};
	int failed;

	if (!worker->pid)
		return;
	do {
		failed = waitid(P_PID, (id_t)worker->pid, &info, WEXITED);
	} while (failed && errno == EINTR);
	worker->death = info.si_code == CLD_KILLED && (info.si_status == SIGKILL || info.si_status == SIGTERM)
				? WEIR_DEATH_OUTSIDE
				: WEIR_DEATH_OWN;
	worker->pid = 0;
}

void weir_worker_kill(struct weir_worker *worker)
{
	/* It is not reaped yet, so the number is nobody else's. */
	if (worker->pid)
		kill(worker->pid, SIGKILL);
}

void weir_worker_free(struct weir_worker *worker)
{
	if (!worker)
		return;
	if (worker->pid) {
		struct pollfd gone = {.fd = worker->pidfd, .events = POLLIN};

		if (!worker->is_stopping || worker->pidfd < 0 || poll(&gone, 1, STOP_MS) <= 0)
			weir_worker_kill(worker);
		reap(worker);
	}
	if (!worker->is_dead)
		bury(worker);
	if (worker->rings)
		munmap(worker->rings, sizeof(*worker->rings));
	if (worker->pidfd >= 0)
		close(worker->pidfd);
	if (worker->socket >= 0)
		close(worker->socket);
	if (worker->lifeline >= 0)
		close(worker->lifeline);
	if (worker->bell >= 0)
		close(worker->bell);
	weir_list_release(&worker->known, worker->account);
	weir_free(worker->account, worker, sizeof(*worker));
}

int weir_worker_pid(const struct weir_worker *worker)
{
	return worker->pid;
}

uint32_t weir_worker_in_flight(const struct weir_worker *worker)
{
	return worker->flight_count;
}

/* --- to the worker --- */

static void ring(int doorbell)
{
	const uint64_t one = 1;

	/* Fails only where the counter is full, and then it rings already. */
	(void)!write(doorbell, &one, sizeof(one));
}

/* The ring holds more than can be in flight, so it is full only where the worker has written into it. */
static void put(struct weir_worker *worker, struct worker_message message)
{
	message.worker = worker->number;
	message.generation = worker->generation;
	if (!worker_ring_put(&worker->rings->to_worker, &message))
		weir_worker_kill(worker);
	else if (worker_ring_sleeps(&worker->rings->to_worker))
		ring(worker->bell);
}

void weir_worker_stop(struct weir_worker *worker)
{
	if (worker->is_dead || worker->is_stopping)
		return;
	worker->is_stopping = true;
	put(worker, (struct worker_message){.kind = WORKER_QUIT});
}

static int tell_region(struct weir_worker *worker, uint32_t number, int memfd, struct weir_error *err)
{
	struct worker_region_note note = {.region = number};

	for (size_t i = 0; i < worker->known.count; i++)
		if (worker->known.items[i] == number)
			return WEIR_OK;
	if (weir_list_push(&worker->known, worker->account, err, number))
		return err->code;
	if (send_with_fds(worker->socket, &note, sizeof(note), &memfd, 1) && errno != EPIPE && errno != ECONNRESET)
		return weir_error_set_errno(err, errno, "cannot send a worker a descriptor");
	return WEIR_OK;
}

static void send_task(struct weir_worker *worker, const struct flight *flight)
{
	struct worker_message message = {.kind = WORKER_TASK,
					 .task = flight->run.task,
					 .attempt = flight->run.attempt,
					 .stage = flight->run.stage,
					 .size = weir_chunk_size(flight->batch.chunk),
					 .row_first = flight->batch.row_first,
					 .row_count = flight->batch.row_count,
					 .room_size = weir_chunk_size(flight->room)};
	uint32_t own;
	int memfd;

	weir_chunk_place(flight->batch.chunk, &message.region, &memfd, &message.offset);
	weir_chunk_place(flight->room, &own, &memfd, &message.room_offset);
	put(worker, message);
}

int weir_worker_give(struct weir_worker *worker, struct weir_run run, struct weir_batch_range batch, uint64_t room,
		     struct weir_error *err)
{
	struct flight *flight = worker->flights;
	const uint8_t *bytes;
	uint64_t offset;
	uint32_t region;
	int memfd;

	if (worker->is_dead || !worker->region)
		return WEIR_OK;
	WEIR_ASSERT(worker->flight_count < WEIR_WORKER_FLIGHT_MAX);
	while (flight->used)
		flight++;
	if (weir_chunk_pin(batch.chunk, &bytes, err))
		return err->code;
	weir_chunk_place(batch.chunk, &region, &memfd, &offset);
	if (tell_region(worker, region, memfd, err) ||
	    weir_region_reserve(worker->region, room ? room : 1, &flight->room, err)) {
		weir_chunk_unpin(batch.chunk);
		return err->code;
	}
	flight->used = true;
	flight->run = run;
	flight->batch = batch;
	weir_chunk_ref(batch.chunk);
	worker->flight_count++;
	send_task(worker, flight);
	return WEIR_OK;
}

/* --- from the worker --- */

/* A worker that says what cannot be is ended; the batch that made it do so is counted as its own death. */
static void distrust(struct weir_worker *worker)
{
	if (worker->pid) {
		weir_worker_kill(worker);
		reap(worker);
	}
	worker->death = WEIR_DEATH_OWN;
}

/* Its greeting: version and region. Nothing yet: false. */
static bool take_greeting(struct weir_worker *worker, struct weir_error *err)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 4)];
	} control = {0};
	struct worker_hello hello = {0};
	struct iovec vector = {.iov_base = &hello, .iov_len = sizeof(hello)};
	struct msghdr message = {.msg_iov = &vector,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	ssize_t size = recvmsg(worker->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *header = size > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	int fds[4], count = 0;

	if (size <= 0)
		return false;
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
		count = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(header), (size_t)count * sizeof(int));
	}
	if (size != sizeof(hello) || count != 1 || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
	    hello.magic != WORKER_MAGIC || hello.version != WORKER_VERSION || hello.worker != worker->number ||
	    hello.generation != worker->generation || hello.region_size != worker->region_size) {
		for (int i = 0; i < count; i++)
			close(fds[i]);
		weir_error_set(err, WEIR_E_WORKER,
			       "a worker process greets with version %u and %d descriptors, not as version %u",
			       hello.version, count, WORKER_VERSION);
		return false;
	}
	return !weir_region_adopt(worker->store, fds[0], worker->region_size, &worker->region, err);
}

static struct flight *find_flight(struct weir_worker *worker, const struct worker_message *message)
{
	if (message->worker != worker->number || message->generation != worker->generation)
		return NULL;
	for (int i = 0; i < WEIR_WORKER_FLIGHT_MAX; i++) {
		struct flight *flight = &worker->flights[i];

		if (flight->used && flight->run.task == message->task && flight->run.attempt == message->attempt)
			return flight;
	}
	return NULL;
}

/* The same batch again, with as much room as the worker has asked for. */
static int more_room(struct weir_worker *worker, struct flight *flight, uint64_t size, struct weir_error *err)
{
	struct weir_chunk *room;

	if (size <= weir_chunk_size(flight->room)) {
		distrust(worker);
		return WEIR_OK;
	}
	if (weir_region_reserve(worker->region, size, &room, err))
		return err->code;
	weir_chunk_unref(flight->room);
	flight->room = room;
	send_task(worker, flight);
	return WEIR_OK;
}

static int take_message(struct weir_worker *worker, const struct worker_message *message, struct weir_worker_event *out,
			struct weir_error *err)
{
	struct flight *flight = find_flight(worker, message);

	if (!flight)
		return WEIR_OK;
	out->run = flight->run;
	switch (message->kind) {
	case WORKER_DONE:
		if (weir_chunk_adopt(flight->room, message->offset, message->size, &out->chunk, err)) {
			if (err->code != WEIR_E_INVALID)
				return err->code;
			weir_error_clear(err);
			distrust(worker);
			return WEIR_OK;
		}
		out->kind = WEIR_WORKER_DONE;
		out->row_count = message->row_count;
		flight_end(worker, flight);
		return WEIR_OK;
	case WORKER_FAILED:
		out->kind = WEIR_WORKER_FAILED;
		out->code = message->code > WEIR_OK && message->code < WEIR_CODE_COUNT ? (int)message->code
										       : WEIR_E_INTERNAL;
		memcpy(out->text, message->text, sizeof(out->text));
		out->text[sizeof(out->text) - 1] = 0;
		flight_end(worker, flight);
		return WEIR_OK;
	case WORKER_MORE:
		return more_room(worker, flight, message->size, err);
	default:
		distrust(worker);
		return WEIR_OK;
	}
}

/* Messages until one is worth reporting. */
static int take_messages(struct weir_worker *worker, struct weir_worker_event *out, struct weir_error *err)
{
	struct worker_ring *ring = &worker->rings->to_driver;
	struct worker_message message;

	while (out->kind == WEIR_WORKER_NONE) {
		uint32_t count = worker_ring_count(ring, worker->taken);
		int code;

		if (count == 0)
			return WEIR_OK;
		if (count > WORKER_RING_SIZE || !worker->region) {
			distrust(worker);
			return WEIR_OK;
		}
		worker_ring_take(ring, &worker->taken, &message);
		code = take_message(worker, &message, out, err);
		if (code)
			return code;
	}
	return WEIR_OK;
}

static bool has_died(struct weir_worker *worker)
{
	struct pollfd gone = {.fd = worker->pidfd, .events = POLLIN};

	return !worker->pid || (poll(&gone, 1, 0) > 0 && gone.revents);
}

int weir_worker_receive(struct weir_worker *worker, bool look, struct weir_worker_event *out, struct weir_error *err)
{
	bool died;
	int code;

	*out = (struct weir_worker_event){.kind = WEIR_WORKER_NONE};
	if (worker->is_dead)
		return WEIR_OK;
	/* Asked first: what it said before it died is then there to be read. */
	died = (look || !worker->pid) && has_died(worker);
	if (!worker->region && (look || died)) {
		weir_error_clear(err);
		if (take_greeting(worker, err))
			out->kind = WEIR_WORKER_READY;
		else if (err->code)
			return err->code;
		if (out->kind)
			return WEIR_OK;
	}
	if (worker->region) {
		code = take_messages(worker, out, err);
		if (code || out->kind)
			return code;
	}
	if (died || !worker->pid) {
		reap(worker);
		bury(worker);
		out->kind = WEIR_WORKER_DIED;
		out->death = worker->death;
	}
	return WEIR_OK;
}

/* --- waiting --- */

static bool any_message(struct weir_worker *const *workers, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (workers[i] && !workers[i]->is_dead &&
		    (!workers[i]->pid || worker_ring_count(&workers[i]->rings->to_driver, workers[i]->taken)))
			return true;
	return false;
}

/* One of them works, and not on the core where it would be waited for. */
static bool any_runs(struct weir_worker *const *workers, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (workers[i] && !workers[i]->is_dead && workers[i]->flight_count > 0 &&
		    worker_ring_is_elsewhere(&workers[i]->rings->to_driver))
			return true;
	return false;
}

static void say_waiting(struct weir_worker *const *workers, uint32_t count, bool waiting)
{
	for (uint32_t i = 0; i < count; i++)
		if (workers[i] && !workers[i]->is_dead)
			worker_ring_say_waiting(&workers[i]->rings->to_driver, waiting);
}

static uint32_t watched(struct weir_worker *const *workers, uint32_t count, int doorbell, struct pollfd *polls)
{
	uint32_t n = 0;

	polls[n++] = (struct pollfd){.fd = doorbell, .events = POLLIN};
	for (uint32_t i = 0; i < count; i++) {
		if (!workers[i] || workers[i]->is_dead)
			continue;
		polls[n++] = (struct pollfd){.fd = workers[i]->pidfd, .events = POLLIN};
		if (!workers[i]->region)
			polls[n++] = (struct pollfd){.fd = workers[i]->socket, .events = POLLIN};
	}
	return n;
}

void weir_workers_wait(struct weir_worker *const *workers, uint32_t count, int doorbell, int64_t timeout_ns)
{
	struct pollfd polls[1 + 2 * WATCHED_MAX];
	uint64_t begun = weir_clock_ns(), drained;

	WEIR_ASSERT(count <= WATCHED_MAX);
	if (any_message(workers, count))
		return;
	/* Not for long: whoever it waits for may not be running after all. */
	while (timeout_ns != 0 && any_runs(workers, count) && weir_clock_ns() - begun < WORKER_SPIN_NS) {
		for (int i = 0; i < 16; i++)
			worker_pause();
		if (any_message(workers, count))
			return;
	}
	say_waiting(workers, count, true);
	if (!any_message(workers, count)) {
		struct timespec limit = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};

		ppoll(polls, watched(workers, count, doorbell, polls), timeout_ns < 0 ? NULL : &limit, NULL);
		(void)!read(doorbell, &drained, sizeof(drained));
	}
	say_waiting(workers, count, false);
}
