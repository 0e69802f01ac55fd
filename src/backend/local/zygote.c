/* The driver's half of the zygote.
 *
 * A launch is a message with descriptors, and an entry in a list: ASKED, then FORKED with a process's number, then
 * ENDED. The zygote's messages are read whenever somebody launches or asks how a process ended; in between they wait in
 * the socket.
 *
 * A process's number is used only while the zygote has not said that the process ended, and it says so before it reaps
 * the process. So whoever opens a pidfd and then finds no such message has the right process. */
#include "backend/local/zygote.h"
#include "base/clock.h"
#include "backend/local/worker_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ZYGOTE_MAGIC 0x67797a77u /* "wzyg" */

enum { ZYGOTE_FORK = 1, ZYGOTE_FORKED = 2, ZYGOTE_ENDED = 3 };

enum {
	STATUS_MS = 500, /* between the end of a process and the zygote's word of it */
	SEND_MS = 2000,  /* for a zygote that takes no requests: it may be importing */
	GONE_MS = 200,   /* between the end of its socket and its own */
	FREE_MS = 1000,  /* for it to end its children and itself */
};

enum ticket_state { TICKET_ASKED, TICKET_FORKED, TICKET_ENDED };

struct ticket {
	uint32_t request;
	enum ticket_state state;
	uint32_t pid;
	int status;
};

struct weir_zygote {
	struct weir_launcher launcher;
	char **argv, **envp;          /* one piece of memory each; envp NULL: this process's */
	int owner;                    /* the process that made it: a forked child leaves it alone */
	pthread_mutex_t lock;         /* guards all below; rank: zygote */
	int control, lifeline, pidfd; /* −1: it does not run */
	int pid;
	uint64_t restarts;
	uint32_t request_next;
	struct ticket *tickets;
	size_t ticket_count, ticket_capacity;
};

/* --- tickets; under the lock, as all below that does not take it --- */

static struct ticket *find_ticket(struct weir_zygote *zygote, uint32_t request)
{
	for (size_t i = 0; i < zygote->ticket_count; i++)
		if (zygote->tickets[i].request == request)
			return &zygote->tickets[i];
	return NULL;
}

static int reserve_ticket(struct weir_zygote *zygote, struct weir_error *err)
{
	size_t capacity = zygote->ticket_capacity ? zygote->ticket_capacity * 2 : 16;
	struct ticket *tickets;

	if (zygote->ticket_count < zygote->ticket_capacity)
		return WEIR_OK;
	tickets = weir_plain_alloc(capacity * sizeof(*tickets));
	if (!tickets)
		return weir_error_set(err, WEIR_E_MEMORY, "no memory for one more worker process");
	if (zygote->ticket_count)
		memcpy(tickets, zygote->tickets, zygote->ticket_count * sizeof(*tickets));
	weir_plain_free(zygote->tickets);
	zygote->tickets = tickets;
	zygote->ticket_capacity = capacity;
	return WEIR_OK;
}

static void drop_ticket(struct weir_zygote *zygote, struct ticket *ticket)
{
	*ticket = zygote->tickets[--zygote->ticket_count];
}

/* --- the zygote's own life --- */

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int start(struct weir_zygote *zygote, struct weir_error *err)
{
	int control[2] = {-1, -1}, lifeline[2] = {-1, -1}, code;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) || pipe2(lifeline, O_CLOEXEC) ||
	    (control[0] = weir_fd_above(control[0])) < 0 || (lifeline[1] = weir_fd_above(lifeline[1])) < 0)
		code = weir_error_set_errno(err, errno, "no descriptors for the zygote");
	else
		code = weir_spawn((const char *const *)zygote->argv, (const char *const *)zygote->envp,
				  (const int[]){control[1], lifeline[0], -1, -1}, &zygote->pid, &zygote->pidfd, err);
	close_fd(&control[1]);
	close_fd(&lifeline[0]);
	if (code) {
		close_fd(&control[0]);
		close_fd(&lifeline[1]);
		return code;
	}
	zygote->control = control[0];
	zygote->lifeline = lifeline[1];
	return WEIR_OK;
}

/* Its status, when it has gone or is made to. */
static int end(struct weir_zygote *zygote, int wait_ms)
{
	struct pollfd gone = {.fd = zygote->pidfd, .events = POLLIN};
	int status;

	close_fd(&zygote->control);
	close_fd(&zygote->lifeline); /* which may end it at once, while it listens to nobody */
	if (poll(&gone, 1, wait_ms) <= 0)
		pidfd_send_signal(zygote->pidfd, SIGKILL, NULL, 0);
	status = weir_wait_status(zygote->pidfd);
	close_fd(&zygote->pidfd);
	zygote->pid = 0;
	return status;
}

/* It has hung up. What it had not made is asked for again if it was killed; one that ended by itself would do so
 * again. */
static void bury(struct weir_zygote *zygote)
{
	int status = end(zygote, GONE_MS);
	bool was_killed = status < 0 ||
			  (WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM));

	for (size_t i = 0; i < zygote->ticket_count; i++) {
		struct ticket *ticket = &zygote->tickets[i];

		if (ticket->state == TICKET_ASKED)
			ticket->status = was_killed ? WEIR_STATUS_LOST : status;
		else if (ticket->state == TICKET_FORKED)
			ticket->status = WEIR_STATUS_UNKNOWN; /* it may live on */
		ticket->state = TICKET_ENDED;
	}
}

/* --- its words --- */

static void take_word(struct weir_zygote *zygote, const uint32_t word[4])
{
	struct ticket *ticket;

	if (word[1] == ZYGOTE_FORKED) {
		ticket = find_ticket(zygote, word[2]);
		if (!ticket || ticket->state != TICKET_ASKED)
			return;
		ticket->pid = word[3];
		ticket->state = word[3] ? TICKET_FORKED : TICKET_ENDED;
		ticket->status = WEIR_STATUS_UNKNOWN;
	} else if (word[1] == ZYGOTE_ENDED) {
		for (size_t i = 0; i < zygote->ticket_count; i++) {
			ticket = &zygote->tickets[i];
			if (ticket->state == TICKET_FORKED && ticket->pid == word[2]) {
				ticket->state = TICKET_ENDED;
				ticket->status = (int)word[3];
			}
		}
	}
}

static void listen_to(struct weir_zygote *zygote)
{
	while (zygote->control >= 0) {
		uint32_t word[4];
		ssize_t size = recv(zygote->control, word, sizeof(word), MSG_DONTWAIT);

		/* A hang-up with words that it has not read is said once, before the words that it has left. */
		if (size < 0 && (errno == EINTR || errno == ECONNRESET))
			continue;
		if (size < 0 && errno == EAGAIN)
			return;
		if (size != sizeof(word) || word[0] != ZYGOTE_MAGIC) {
			bury(zygote); /* gone, or nothing that could be talked with */
			return;
		}
		take_word(zygote, word);
	}
}

/* --- the launcher --- */

/* False: it has hung up meanwhile. */
static bool send_request(struct weir_zygote *zygote, uint32_t request, const int fds[WEIR_LAUNCH_FDS],
			 struct weir_error *err)
{
	const uint32_t word[3] = {ZYGOTE_MAGIC, ZYGOTE_FORK, request};
	uint64_t begun = weir_clock_ns();

	while (weir_send_with_fds(zygote->control, word, sizeof(word), fds, WEIR_LAUNCH_FDS)) {
		struct pollfd writable = {.fd = zygote->control, .events = POLLOUT};

		if (errno == EPIPE || errno == ECONNRESET) {
			bury(zygote);
			return false;
		}
		if (errno != EAGAIN || weir_clock_ns() - begun > SEND_MS * 1000000ull) {
			weir_error_set_errno(err, errno, "cannot ask for a worker process");
			return false;
		}
		poll(&writable, 1, 10);
		listen_to(zygote); /* or both would wait for the other to listen */
		if (zygote->control < 0)
			return false;
	}
	return true;
}

static int ask(struct weir_zygote *zygote, const int fds[WEIR_LAUNCH_FDS], uint64_t *ticket, struct weir_error *err)
{
	uint32_t request = zygote->request_next++;

	if (reserve_ticket(zygote, err))
		return err->code;
	for (int attempt = 0; attempt < 3; attempt++) {
		listen_to(zygote);
		if (zygote->control < 0) {
			zygote->restarts++;
			if (start(zygote, err))
				return err->code;
		}
		weir_error_clear(err);
		if (send_request(zygote, request, fds, err)) {
			zygote->tickets[zygote->ticket_count++] = (struct ticket){.request = request};
			*ticket = request;
			return WEIR_OK;
		}
		if (err->code)
			return err->code;
	}
	return weir_error_set(err, WEIR_E_WORKER, "%s ends as soon as it is started", zygote->argv[0]);
}

static int launch(void *self, const int fds[WEIR_LAUNCH_FDS], uint64_t *ticket, struct weir_error *err)
{
	struct weir_zygote *zygote = self;
	int given[WEIR_LAUNCH_FDS], nowhere = -1, code = WEIR_OK;

	if (zygote->owner != getpid())
		return weir_error_set(err, WEIR_E_WORKER, "a forked child has no worker processes");
	memcpy(given, fds, sizeof(given));
	for (int i = WEIR_LAUNCH_STDOUT; i <= WEIR_LAUNCH_STDERR; i++) {
		int own = i == WEIR_LAUNCH_STDOUT ? STDOUT_FILENO : STDERR_FILENO;

		if (given[i] >= 0)
			continue;
		if (fcntl(own, F_GETFD) < 0 && nowhere < 0) {
			nowhere = weir_fd_above(open("/dev/null", O_RDWR | O_CLOEXEC));
			if (nowhere < 0)
				code = weir_error_set_errno(err, errno, "no descriptors for a worker process");
		}
		given[i] = fcntl(own, F_GETFD) < 0 ? nowhere : own;
	}
	if (!code) {
		pthread_mutex_lock(&zygote->lock);
		code = ask(zygote, given, ticket, err);
		pthread_mutex_unlock(&zygote->lock);
	}
	close_fd(&nowhere);
	return code;
}

static void launched_kill(void *self, uint64_t number)
{
	struct weir_zygote *zygote = self;
	struct ticket *ticket;
	int pidfd = -1;

	if (zygote->owner != getpid())
		return;
	pthread_mutex_lock(&zygote->lock);
	listen_to(zygote);
	ticket = find_ticket(zygote, (uint32_t)number);
	if (ticket && ticket->state == TICKET_FORKED)
		pidfd = pidfd_open((pid_t)ticket->pid, 0);
	listen_to(zygote);
	ticket = find_ticket(zygote, (uint32_t)number);
	if (pidfd >= 0 && ticket && ticket->state == TICKET_FORKED)
		pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	pthread_mutex_unlock(&zygote->lock);
	close_fd(&pidfd);
}

static int launched_status(void *self, uint64_t number, bool wait)
{
	struct weir_zygote *zygote = self;
	uint64_t begun = weir_clock_ns();

	if (zygote->owner != getpid())
		return WEIR_STATUS_UNKNOWN;
	for (;;) {
		struct pollfd words = {.events = POLLIN};
		int status = WEIR_STATUS_UNKNOWN;
		struct ticket *ticket;
		bool is_over;

		pthread_mutex_lock(&zygote->lock);
		listen_to(zygote);
		ticket = find_ticket(zygote, (uint32_t)number);
		is_over = !ticket || ticket->state == TICKET_ENDED || !wait ||
			  weir_clock_ns() - begun > STATUS_MS * 1000000ull;
		if (ticket && ticket->state == TICKET_ENDED)
			status = ticket->status;
		if (ticket && is_over)
			drop_ticket(zygote, ticket);
		words.fd = zygote->control;
		pthread_mutex_unlock(&zygote->lock);
		if (is_over)
			return status;
		/* Without the lock. If it is closed meanwhile this only lasts its time. */
		poll(&words, 1, 20);
	}
}

/* --- beginning and end --- */

/* A NULL-terminated list of texts in one piece of memory. */
static char **copy_texts(const char *const *texts)
{
	size_t count = 0, size = 0;
	char **out, *at;

	for (; texts[count]; count++)
		size += strlen(texts[count]) + 1;
	out = weir_plain_alloc((count + 1) * sizeof(*out) + size);
	if (!out)
		return NULL;
	at = (char *)(out + count + 1);
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(texts[i]) + 1;

		out[i] = memcpy(at, texts[i], length);
		at += length;
	}
	return out;
}

static void memory(void *self, int64_t *all, int64_t *alone)
{
	if (!weir_process_alone(weir_zygote_pid(self), all, alone))
		*all = *alone = 0;
}

int weir_zygote_new(const char *const *argv, const char *const *envp, struct weir_zygote **out, struct weir_error *err)
{
	struct weir_zygote *zygote = weir_plain_alloc(sizeof(*zygote));

	*out = NULL;
	if (!zygote)
		return weir_error_set(err, WEIR_E_MEMORY, "no memory for the zygote");
	zygote->owner = getpid();
	zygote->control = zygote->lifeline = zygote->pidfd = -1;
	pthread_mutex_init(&zygote->lock, NULL);
	zygote->argv = copy_texts(argv);
	zygote->envp = envp ? copy_texts(envp) : NULL;
	if (!zygote->argv || (envp && !zygote->envp)) {
		weir_error_set(err, WEIR_E_MEMORY, "no memory for the zygote's arguments");
		goto fail;
	}
	zygote->launcher = (struct weir_launcher){.self = zygote,
						  .name = zygote->argv[0],
						  .launch = launch,
						  .kill = launched_kill,
						  .status = launched_status,
						  .memory = memory};
	if (start(zygote, err))
		goto fail;
	*out = zygote;
	return WEIR_OK;
fail:
	weir_zygote_free(zygote);
	return err->code;
}

void weir_zygote_free(struct weir_zygote *zygote)
{
	if (!zygote)
		return;
	if (zygote->owner == getpid()) {
		if (zygote->pidfd >= 0) /* one that was never asked has no children to end */
			end(zygote, zygote->request_next ? FREE_MS : 0);
		pthread_mutex_destroy(&zygote->lock);
	}
	close_fd(&zygote->control);
	close_fd(&zygote->lifeline);
	close_fd(&zygote->pidfd);
	weir_plain_free(zygote->tickets);
	weir_plain_free(zygote->argv);
	weir_plain_free(zygote->envp);
	weir_plain_free(zygote);
}

const struct weir_launcher *weir_zygote_launcher(struct weir_zygote *zygote)
{
	return &zygote->launcher;
}

int weir_zygote_pid(struct weir_zygote *zygote)
{
	int pid;

	pthread_mutex_lock(&zygote->lock);
	pid = zygote->pid;
	pthread_mutex_unlock(&zygote->lock);
	return pid;
}

uint64_t weir_zygote_restarts(struct weir_zygote *zygote)
{
	uint64_t restarts;

	pthread_mutex_lock(&zygote->lock);
	restarts = zygote->restarts;
	pthread_mutex_unlock(&zygote->lock);
	return restarts;
}
