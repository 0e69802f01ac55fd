/* The driver's side of a worker process: its beginning and its end. worker_link.h draws the bytes between the two.
 *
 * Which process it is becomes known when it greets: the kernel adds the sender's number to the message. Until then
 * there is only its socket, and when that hangs up there is no process, or none that will ever greet. Its death is seen
 * on a pidfd, in the same poll() that waits for messages. Before DIED is reported the ring is read to its end, since
 * what a worker said before it died counts like any other message. */
#include "backend/local/worker.h"
#include "base/clock.h"
#include "base/fault.h"
#include "backend/local/worker_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REGION_SIZE ((uint64_t)1 << 30)
#define REGION_ALIGN ((uint64_t)4096)
#define KILL_MS 5000 /* for the kernel to end one */

/* --- spawning --- */

int weir_send_with_fds(int socket, const void *bytes, size_t size, const int *fds, size_t count)
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
		sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
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

static void close_all(int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

static int above_all(int *fds, size_t count)
{
	int failed = 0;

	for (size_t i = 0; i < count; i++) {
		fds[i] = weir_fd_above(fds[i]);
		failed |= fds[i] < 0;
	}
	return failed;
}

/* ends: of the process. */
static int make_ends(struct weir_worker *worker, bool has_prints, int ends[WEIR_LAUNCH_FDS], struct weir_error *err)
{
	int pairs[WEIR_LAUNCH_FDS][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
	const int on = 1;
	bool ok;

	ok = !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pairs[WEIR_LAUNCH_SOCKET]) &&
	     !setsockopt(pairs[WEIR_LAUNCH_SOCKET][0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) &&
	     !pipe2(pairs[WEIR_LAUNCH_LIFELINE], O_CLOEXEC) &&
	     (!has_prints ||
	      (!pipe2(pairs[WEIR_LAUNCH_STDOUT], O_CLOEXEC) && !pipe2(pairs[WEIR_LAUNCH_STDERR], O_CLOEXEC) &&
	       !fcntl(pairs[WEIR_LAUNCH_STDOUT][0], F_SETFL, O_NONBLOCK) &&
	       !fcntl(pairs[WEIR_LAUNCH_STDERR][0], F_SETFL, O_NONBLOCK))) &&
	     (worker->bell = weir_fd_above(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) >= 0 &&
	     !above_all(pairs[0], has_prints ? 8 : 4);
	if (!ok) {
		weir_error_set_errno(err, errno, "no descriptors for a worker process");
		close_all(pairs[0], 8);
		return err->code;
	}
	worker->socket = pairs[WEIR_LAUNCH_SOCKET][0];
	worker->lifeline = pairs[WEIR_LAUNCH_LIFELINE][1];
	worker->prints[0].fd = pairs[WEIR_LAUNCH_STDOUT][0];
	worker->prints[1].fd = pairs[WEIR_LAUNCH_STDERR][0];
	ends[WEIR_LAUNCH_SOCKET] = pairs[WEIR_LAUNCH_SOCKET][1];
	ends[WEIR_LAUNCH_LIFELINE] = pairs[WEIR_LAUNCH_LIFELINE][0];
	ends[WEIR_LAUNCH_STDOUT] = pairs[WEIR_LAUNCH_STDOUT][1];
	ends[WEIR_LAUNCH_STDERR] = pairs[WEIR_LAUNCH_STDERR][1];
	return WEIR_OK;
}

int weir_worker_spawn(struct weir_account *account, const struct weir_worker_options *options, struct weir_worker **out,
		      struct weir_error *err)
{
	struct weir_worker *worker = weir_alloc_zero(account, sizeof(*worker), err);
	int ends[WEIR_LAUNCH_FDS] = {-1, -1, -1, -1}, rings = -1, code;
	struct worker_hello hello;

	*out = NULL;
	if (!worker)
		return err->code;
	weir_descriptors_note_worker(1);
	worker->account = account;
	worker->store = options->store;
	worker->launcher = options->launcher;
	worker->number = options->number;
	worker->generation = options->generation;
	worker->region_size = options->region_size ? options->region_size : REGION_SIZE;
	worker->region_size = (worker->region_size + REGION_ALIGN - 1) / REGION_ALIGN * REGION_ALIGN;
	worker->setup_size = options->setup_size;
	worker->bound = options->bound;
	worker->rooms_wait = options->rooms_wait;
	worker->pidfd = worker->socket = worker->lifeline = worker->bell = worker->statm = -1;
	worker->prints[0].fd = worker->prints[1].fd = -1;
	hello = (struct worker_hello){.magic = WORKER_MAGIC,
				      .version = WORKER_VERSION,
				      .worker = options->number,
				      .generation = options->generation,
				      .region_size = worker->region_size,
				      .setup_size = options->setup_size,
				      .bound = options->bound};
	code = make_ends(worker, options->has_prints, ends, err);
	if (!code)
		code = make_rings(worker, &rings, err);
	/* Greeted before it exists: the words wait for it. Without a setup any descriptor fills the place. */
	if (!code &&
	    weir_send_with_fds(
		    worker->socket, &hello, sizeof(hello),
		    (int[]){rings, worker->bell, options->doorbell, options->setup_size ? options->setup : rings}, 4))
		code = weir_error_set_errno(err, errno, "cannot greet a worker process");
	if (!code)
		code = worker->launcher->launch(worker->launcher->self, ends, &worker->ticket, err);
	worker->has_ticket = !code;
	close_all(ends, WEIR_LAUNCH_FDS);
	if (rings >= 0)
		close(rings);
	if (code)
		weir_worker_free(worker);
	else
		*out = worker;
	return code;
}

/* --- greeting --- */

/* The descriptor and the sender's number that came with a message; what is too much is closed. */
static int take_control(struct msghdr *message, int *fd, int64_t *pid)
{
	int count = 0;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET)
			continue;
		if (header->cmsg_type == SCM_CREDENTIALS) {
			struct ucred who;

			memcpy(&who, CMSG_DATA(header), sizeof(who));
			*pid = who.pid;
		} else if (header->cmsg_type == SCM_RIGHTS) {
			size_t received = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

			for (size_t i = 0; i < received; i++, count++) {
				int one;

				memcpy(&one, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
				if (count == 0)
					*fd = one;
				else
					close(one);
			}
		}
	}
	return count;
}

/* It may have died since it greeted and its number be another's: then its socket has hung up. Without a pidfd it is
 * watched by its socket, as before. */
static void watch_process(struct weir_worker *worker, int64_t pid)
{
	struct pollfd hung_up = {.fd = worker->socket};
	int pidfd = pid > 0 ? weir_fd_above(pidfd_open((pid_t)pid, 0)) : -1;

	if (pidfd < 0)
		return;
	if (poll(&hung_up, 1, 0) > 0 && hung_up.revents & (POLLHUP | POLLERR)) {
		close(pidfd);
		return;
	}
	worker->pidfd = pidfd;
	worker->pid = pid;
}

/* Its greeting, if it is there: version and region. */
static int take_greeting(struct weir_worker *worker, struct weir_error *err)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 4) + CMSG_SPACE(sizeof(struct ucred))];
	} control = {0};
	struct worker_hello hello = {0};
	struct iovec vector = {.iov_base = &hello, .iov_len = sizeof(hello)};
	struct msghdr message = {.msg_iov = &vector,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	ssize_t size = recvmsg(worker->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int fd = -1, count;
	int64_t pid = 0;

	if (size <= 0)
		return WEIR_OK;
	count = take_control(&message, &fd, &pid);
	if (count == 0 && message.msg_flags & MSG_CTRUNC) /* it came, and there was no place for it */
		return weir_error_set_errno(err, EMFILE, "no descriptor for a worker's memory");
	if (size != sizeof(hello) || count != 1 || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
	    hello.magic != WORKER_MAGIC || hello.version != WORKER_VERSION || hello.worker != worker->number ||
	    hello.generation != worker->generation || hello.region_size != worker->region_size) {
		if (fd >= 0)
			close(fd);
		return weir_error_set(err, WEIR_E_WORKER,
				      "a worker process greets with version %u and %d descriptors, not as version %u",
				      hello.version, count, WORKER_VERSION);
	}
	fd = weir_fd_above(fd);
	if (fd < 0)
		return weir_error_set_errno(err, errno, "no descriptor for a worker's memory");
	watch_process(worker, pid);
	weir_worker_watch_begin(worker); /* what a constructor takes is bounded as what a batch does */
	return weir_region_adopt(worker->store, fd, worker->region_size, &worker->region, err);
}

/* --- the end --- */

static void bury(struct weir_worker *worker)
{
	weir_worker_flights_end(worker);
	weir_chunk_unref(worker->broken_room);
	worker->broken_room = NULL;
	weir_region_release(worker->store, worker->region);
	worker->region = NULL;
	worker->is_dead = true;
}

static void cut_lifeline(struct weir_worker *worker)
{
	if (worker->lifeline >= 0)
		close(worker->lifeline);
	worker->lifeline = -1;
}

void weir_worker_kill(struct weir_worker *worker)
{
	if (worker->is_dead)
		return;
	cut_lifeline(worker);
	if (worker->pidfd >= 0)
		pidfd_send_signal(worker->pidfd, SIGKILL, NULL, 0);
	atomic_store_explicit(&worker->is_doomed, true, memory_order_relaxed);
}

void weir_worker_distrust(struct weir_worker *worker)
{
	worker->is_distrusted = true;
	weir_worker_kill(worker);
}

/* W, without the lock: what poll has seen of a process. */
void weir_worker_attend(struct weir_worker *worker)
{
	bool is_doomed = atomic_load_explicit(&worker->is_doomed, memory_order_relaxed);

	if (worker->has_ended || worker->is_dead)
		return;
	/* Without a pidfd it was not killed yet; and one that has hung up will never greet. */
	if (worker->pidfd < 0 && (is_doomed || worker->seen & SEEN_PROCESS))
		worker->launcher->kill(worker->launcher->self, worker->ticket);
	if (!(worker->seen & SEEN_PROCESS))
		return;
	worker->status = worker->launcher->status(worker->launcher->self, worker->ticket, true);
	worker->has_ticket = false;
	worker->has_ended = true;
}

void weir_worker_free(struct weir_worker *worker)
{
	if (!worker)
		return;
	if (!worker->has_ended && worker->has_ticket) {
		struct pollfd gone = {.fd = worker->pidfd, .events = POLLIN};
		uint64_t since = worker->is_stopping ? (weir_clock_ns() - worker->stopping_ns) / 1000000
						     : WORKER_STOP_MS;
		int left = since < WORKER_STOP_MS ? (int)(WORKER_STOP_MS - since) : 0;

		if (worker->pidfd < 0 || poll(&gone, 1, left) <= 0) {
			weir_worker_kill(worker);
			worker->launcher->kill(worker->launcher->self, worker->ticket);
			if (worker->pidfd >= 0)
				poll(&gone, 1, KILL_MS);
		}
		/* One that has not greeted may not exist yet: without socket and lifeline it will not be for long. */
		close(worker->socket);
		worker->socket = -1;
		worker->launcher->status(worker->launcher->self, worker->ticket, false);
	}
	if (!worker->is_dead)
		bury(worker);
	if (worker->rings)
		munmap(worker->rings, sizeof(*worker->rings));
	weir_worker_watch_release(worker);
	close_all((int[]){worker->pidfd, worker->socket, worker->lifeline, worker->bell}, 4);
	weir_list_release(&worker->known, worker->account);
	weir_list_release(&worker->held, worker->account);
	weir_descriptors_note_worker(-1);
	weir_free(worker->account, worker, sizeof(*worker));
}

int weir_worker_pid(const struct weir_worker *worker)
{
	return worker->is_dead ? 0 : (int)worker->pid;
}

/* --- what it says --- */

static enum weir_death death_of(const struct weir_worker *worker)
{
	if (worker->is_distrusted)
		return WEIR_DEATH_OWN;
	if (worker->status < 0)
		return WEIR_DEATH_OUTSIDE;
	return WIFSIGNALED(worker->status) &&
			       (WTERMSIG(worker->status) == SIGKILL || WTERMSIG(worker->status) == SIGTERM)
		       ? WEIR_DEATH_OUTSIDE
		       : WEIR_DEATH_OWN;
}

int weir_worker_receive(struct weir_worker *worker, bool look, struct weir_worker_event *out, struct weir_error *err)
{
	*out = (struct weir_worker_event){.kind = WEIR_WORKER_NONE};
	if (worker->is_dead)
		return WEIR_OK;
	if (look) {
		weir_workers_look(&worker, 1);
		weir_worker_attend(worker);
	}
	if (!worker->region && worker->seen & SEEN_SOCKET) {
		if (take_greeting(worker, err))
			return err->code;
		worker->seen &= ~(uint32_t)SEEN_SOCKET;
	}
	if (worker->region && !worker->is_distrusted) {
		int code = weir_worker_take_messages(worker, out, err);

		if (code || out->kind)
			return code;
	}
	if (worker->has_ended) {
		bury(worker);
		out->kind = WEIR_WORKER_DIED;
		out->death = death_of(worker);
		out->status = worker->status;
	}
	return WEIR_OK;
}
