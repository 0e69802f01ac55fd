/* What the system says about worker processes: that one greets, prints or has died, and how much memory it has.
 *
 * Memory. /proc/PID/statm has the resident pages, and how many of them belong to files and shared memory; the
 * difference is RssAnon, for a sixth of what /proc/PID/status costs. The kernel's bound, RLIMIT_DATA, is on private
 * writable memory whether it is used or not. So it is set higher than the bound on memory in use: by what the worker
 * had mapped without using it when it greeted, and again when it was ready, and by the maps of regions that it was sent
 * since.
 *
 * What was mapped since then and is not in use yet probably will be: an array that is being filled, which takes a while
 * on a busy machine. So it counts from the start, and less with each look as long as it stays unused. */
#include "base/clock.h"
#include "backend/local/prints.h"
#include "backend/local/worker_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WATCHED_MAX = 1024, WATCHED_FDS = 3, PRINT_BYTES_MAX = 256 << 10 };
#define STATE_NS ((uint64_t)1000000000)
enum { STOPPED_LOOKS = 5 };
/* what else is mapped and not used for some time is taken to stay so: of it, as large a part as the time since the last
 * look is of this, and at most so much with one look, since nobody knows when it was mapped */
#define UNUSED_NS 400000000.0
#define UNUSED_MOST 0.5

/* --- waiting --- */

static bool is_watched(const struct weir_worker *worker)
{
	return worker && !worker->is_dead;
}

static bool any_message(struct weir_worker *const *workers, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (is_watched(workers[i]) && worker_ring_count(&workers[i]->rings->to_driver, workers[i]->taken) &&
		    workers[i]->region)
			return true;
	return false;
}

/* One of them works, and not on the core where it would be waited for. */
static bool any_runs(struct weir_worker *const *workers, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (is_watched(workers[i]) && weir_worker_in_flight(workers[i]) > 0 &&
		    worker_ring_is_elsewhere(&workers[i]->rings->to_driver))
			return true;
	return false;
}

static void say_waiting(struct weir_worker *const *workers, uint32_t count, bool waiting)
{
	for (uint32_t i = 0; i < count; i++)
		if (is_watched(workers[i]))
			worker_ring_say_waiting(&workers[i]->rings->to_driver, waiting);
}

/* Until it has greeted its socket says whether there is a process; then the pidfd does. */
static uint32_t watched(struct weir_worker *const *workers, uint32_t count, struct pollfd *polls)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct weir_worker *worker = workers[i];

		if (!is_watched(worker))
			continue;
		if (worker->pidfd >= 0)
			polls[n++] = (struct pollfd){.fd = worker->pidfd, .events = POLLIN};
		else
			polls[n++] = (struct pollfd){.fd = worker->socket, .events = worker->region ? 0 : POLLIN};
		for (int p = 0; p < 2; p++)
			polls[n++] = (struct pollfd){.fd = worker->prints[p].fd, .events = POLLIN};
	}
	return n;
}

static void note_seen(struct weir_worker *const *workers, uint32_t count, const struct pollfd *polls)
{
	for (uint32_t i = 0, n = 0; i < count; i++) {
		struct weir_worker *worker = workers[i];

		if (!is_watched(worker))
			continue;
		if (worker->pidfd >= 0) {
			worker->seen |= polls[n].revents ? SEEN_PROCESS : 0;
		} else {
			worker->seen |= polls[n].revents & POLLIN ? SEEN_SOCKET : 0;
			worker->seen |= polls[n].revents & (POLLHUP | POLLERR) ? SEEN_PROCESS : 0;
		}
		worker->seen |= (polls[n + 1].revents ? SEEN_STDOUT : 0) | (polls[n + 2].revents ? SEEN_STDERR : 0);
		n += WATCHED_FDS;
	}
}

void weir_workers_look(struct weir_worker *const *workers, uint32_t count)
{
	struct pollfd polls[WATCHED_FDS * WATCHED_MAX];
	uint32_t n;

	WEIR_ASSERT(count <= WATCHED_MAX);
	n = watched(workers, count, polls);
	if (n && poll(polls, n, 0) > 0)
		note_seen(workers, count, polls);
}

void weir_workers_wait(struct weir_worker *const *workers, uint32_t count, int doorbell, int64_t timeout_ns,
		       bool *spins)
{
	struct pollfd polls[1 + WATCHED_FDS * WATCHED_MAX];
	uint64_t begun = weir_clock_ns(), drained;

	WEIR_ASSERT(count <= WATCHED_MAX);
	if (any_message(workers, count))
		return;
	/* Not for long: whoever it waits for may not be running after all. */
	while (*spins && timeout_ns != 0 && any_runs(workers, count) && weir_clock_ns() - begun < WORKER_SPIN_NS) {
		for (int i = 0; i < 16; i++)
			worker_pause();
		if (any_message(workers, count))
			return;
	}
	say_waiting(workers, count, true);
	if (!any_message(workers, count)) {
		struct timespec limit = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
		uint32_t n = 1 + watched(workers, count, polls + 1);

		polls[0] = (struct pollfd){.fd = doorbell, .events = POLLIN};
		if (ppoll(polls, n, timeout_ns < 0 ? NULL : &limit, NULL) > 0) {
			note_seen(workers, count, polls + 1);
			if (polls[0].revents)
				(void)!read(doorbell, &drained, sizeof(drained));
		}
	}
	say_waiting(workers, count, false);
	*spins = weir_clock_ns() - begun < 2 * WORKER_SPIN_NS;
}

/* --- lines --- */

struct line_out {
	void (*line)(void *self, bool is_stderr, const char *text, size_t size);
	void *self;
};

/* As a terminal shows it: what stands before a carriage return is overwritten. */
static void line_end(struct pipe_end *end, bool is_stderr, struct line_out out)
{
	size_t size = end->size, begin = size;

	while (size > 0 && end->line[size - 1] == '\r')
		size--;
	for (begin = size; begin > 0 && end->line[begin - 1] != '\r'; begin--)
		;
	out.line(out.self, is_stderr, end->line + begin, size - begin);
	end->size = 0;
}

static void lines_of(struct pipe_end *end, bool is_stderr, const char *bytes, size_t size, struct line_out out)
{
	while (size > 0) {
		const char *newline = memchr(bytes, '\n', size);
		size_t take = newline ? (size_t)(newline - bytes) : size;

		if (take > WEIR_PRINT_LINE_MAX - end->size)
			take = WEIR_PRINT_LINE_MAX - end->size;
		memcpy(end->line + end->size, bytes, take);
		end->size += take;
		bytes += take;
		size -= take;
		if (size > 0 && *bytes == '\n') {
			line_end(end, is_stderr, out);
			bytes++;
			size--;
		} else if (end->size == WEIR_PRINT_LINE_MAX) {
			/* A progress bar that never ends its line: only the last state is of interest. */
			const char *last = memrchr(end->line, '\r', end->size - 1);

			if (last) {
				end->size -= (size_t)(last - end->line);
				memmove(end->line, last, end->size);
			} else {
				line_end(end, is_stderr, out);
			}
		}
	}
}

static void read_pipe(struct weir_worker *worker, int which, struct line_out out)
{
	struct pipe_end *end = &worker->prints[which];
	char bytes[16384];
	size_t sum = 0;

	if (end->fd < 0)
		return;
	if (!end->line) {
		struct weir_error err;

		end->line = weir_alloc(worker->account, WEIR_PRINT_LINE_MAX, &err);
		if (!end->line) /* later, or never; its writer waits meanwhile */
			return;
	}
	while (sum < PRINT_BYTES_MAX) {
		ssize_t n = read(end->fd, bytes, sizeof(bytes));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			close(end->fd);
			end->fd = -1;
			break;
		}
		lines_of(end, which == 1, bytes, (size_t)n, out);
		sum += (size_t)n;
	}
	if (end->size && (end->fd < 0 || worker->has_ended))
		line_end(end, which == 1, out);
}

void weir_worker_read_prints(struct weir_worker *worker,
			     void (*line)(void *self, bool is_stderr, const char *text, size_t size), void *self)
{
	struct line_out out = {line, self};

	for (int i = 0; i < 2; i++) {
		if (worker->seen & (uint32_t)(SEEN_STDOUT << i) || worker->has_ended)
			read_pipe(worker, i, out);
		worker->seen &= ~(uint32_t)(SEEN_STDOUT << i);
	}
}

void weir_worker_read_rest(struct weir_worker *worker,
			   void (*line)(void *self, bool is_stderr, const char *text, size_t size), void *self)
{
	struct line_out out = {line, self};
	bool gone = worker->pidfd < 0;

	while (!gone) {
		struct pollfd polls[WATCHED_FDS] = {{.fd = worker->pidfd, .events = POLLIN},
						    {.fd = worker->prints[0].fd, .events = POLLIN},
						    {.fd = worker->prints[1].fd, .events = POLLIN}};
		uint64_t since_ms = (weir_clock_ns() - worker->stopping_ns) / 1000000;

		if (since_ms >= WORKER_STOP_MS ||
		    (poll(polls, WATCHED_FDS, (int)(WORKER_STOP_MS - since_ms)) < 0 && errno != EINTR))
			break;
		gone = polls[0].revents != 0;
		for (int i = 0; i < 2; i++)
			read_pipe(worker, i, out);
	}
	for (int i = 0; i < 2; i++) { /* also of one whose time was over before its turn came */
		read_pipe(worker, i, out);
		if (worker->prints[i].size)
			line_end(&worker->prints[i], i == 1, out);
	}
}

/* --- memory --- */

/* As long as its pidfd says nothing its number is its own. */
static bool is_alive(const struct weir_worker *worker)
{
	struct pollfd gone = {.fd = worker->pidfd, .events = POLLIN};

	return worker->pidfd >= 0 && poll(&gone, 1, 0) == 0;
}

/* Bytes of private memory in use, and of what counts towards RLIMIT_DATA. */
static bool read_statm(struct weir_worker *worker, int64_t *anon, int64_t *data)
{
	long long size, resident, shared, text, lib, data_pages;
	char path[40], buffer[160];
	ssize_t n;

	if (worker->pidfd < 0)
		return false;
	if (worker->statm < 0) {
		snprintf(path, sizeof(path), "/proc/%lld/statm", (long long)worker->pid);
		worker->statm = weir_fd_above(open(path, O_RDONLY | O_CLOEXEC));
		if (!is_alive(worker))
			return false;
	}
	n = worker->statm < 0 ? -1 : pread(worker->statm, buffer, sizeof(buffer) - 1, 0);
	if (n <= 0)
		return false;
	buffer[n] = 0;
	if (sscanf(buffer, "%lld %lld %lld %lld %lld %lld", &size, &resident, &shared, &text, &lib, &data_pages) != 6)
		return false;
	*anon = (resident > shared ? resident - shared : 0) * sysconf(_SC_PAGESIZE);
	*data = data_pages * sysconf(_SC_PAGESIZE);
	return true;
}

static int64_t about_to_be_used(struct weir_worker *worker, int64_t anon, int64_t data)
{
	int64_t unused = data - worker->regions_mapped - anon, coming = unused - worker->unused_virtual;
	uint64_t now = weir_clock_ns();
	double part = worker->measured_ns ? (double)(now - worker->measured_ns) / UNUSED_NS : 0;

	worker->measured_ns = now;
	if (unused >= 0) /* else it is mapping a region that it was told of, or has let go of one */
		worker->unused_virtual += (int64_t)((double)coming * (part < UNUSED_MOST ? part : UNUSED_MOST));
	return coming > 0 ? coming : 0;
}

int64_t weir_worker_measure(struct weir_worker *worker)
{
	int64_t anon, data;

	if (worker->is_dead || !read_statm(worker, &anon, &data))
		return 0;
	anon += about_to_be_used(worker, anon, data);
	anon += worker->held_bytes;
	if (anon > worker->memory_peak)
		worker->memory_peak = anon;
	return anon;
}

/* 'T' in /proc/PID/stat, behind the name; a debugger's is 't'. */
static bool read_stopped(const struct weir_worker *worker)
{
	char path[40], buffer[160], *name_end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)worker->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buffer, sizeof(buffer) - 1);
	close(fd);
	buffer[n > 0 ? n : 0] = 0;
	name_end = strrchr(buffer, ')');
	return name_end && !strncmp(name_end, ") T", 3) && is_alive(worker);
}

bool weir_worker_is_stopped(struct weir_worker *worker, uint64_t now_ns)
{
	if (now_ns - worker->state_ns < STATE_NS)
		return false;
	/* Who did not look in time was stopped, too: with Ctrl-Z all are, and go on together. */
	if (now_ns - worker->state_ns > 3 * STATE_NS)
		worker->stopped_count = 0;
	worker->state_ns = now_ns;
	worker->stopped_count = read_stopped(worker) ? worker->stopped_count + 1 : 0;
	return worker->stopped_count > STOPPED_LOOKS;
}

struct weir_worker_rows weir_worker_at(const struct weir_worker *worker)
{
	if (!worker->rings)
		return (struct weir_worker_rows){0};
	return (struct weir_worker_rows){
		.first = atomic_load_explicit(&worker->rings->at_first, memory_order_relaxed),
		.count = atomic_load_explicit(&worker->rings->at_count, memory_order_relaxed),
	};
}

int64_t weir_worker_memory_peak(const struct weir_worker *worker)
{
	return worker->memory_peak;
}

void weir_worker_apply_bound(struct weir_worker *worker)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

	if (worker->is_dead || !is_alive(worker))
		return;
	if (prlimit((pid_t)worker->pid, RLIMIT_DATA, NULL, &limit))
		return;
	limit.rlim_cur = worker->bound ? (rlim_t)(worker->bound + worker->unused_virtual + worker->regions_mapped)
				       : limit.rlim_max;
	if (limit.rlim_cur > limit.rlim_max)
		limit.rlim_cur = limit.rlim_max;
	prlimit((pid_t)worker->pid, RLIMIT_DATA, &limit, NULL);
}

void weir_worker_bound(struct weir_worker *worker, int64_t bytes)
{
	if (worker->bound == bytes)
		return;
	worker->bound = bytes;
	weir_worker_apply_bound(worker);
}

void weir_worker_watch_begin(struct weir_worker *worker)
{
	int64_t anon, data;

	if (read_statm(worker, &anon, &data))
		worker->unused_virtual = data > anon ? data - anon : 0;
	if (worker->bound)
		weir_worker_apply_bound(worker);
}

void weir_worker_watch_release(struct weir_worker *worker)
{
	for (int i = 0; i < 2; i++) {
		if (worker->prints[i].fd >= 0)
			close(worker->prints[i].fd);
		weir_free(worker->account, worker->prints[i].line, worker->prints[i].line ? WEIR_PRINT_LINE_MAX : 0);
	}
	if (worker->statm >= 0)
		close(worker->statm);
}
