/* The driver's death is this process's. A thread waits for the lifeline to hang up: so a worker dies even inside a long
 * call, also one that holds the GIL, and one that blocks every signal, since a mask is its thread's own.
 * PR_SET_PDEATHSIG fires when the thread that spawned the worker ends, not the process; a signal of the kernel's for
 * the pipe (F_SETSIG) is one that can be blocked, or SIGKILL, which takes nobody along.
 *
 * What the worker has started ends with it: the zygote, whose children orphans become, kills them. When that was killed
 * together with the driver nobody else is there to do it; so the worker kills first
 *
 *     its children, theirs, and so on, whatever session they are in;
 *     who has its number in WEIR_WORKER, as all programs have that were started here: also those whose parent is gone.
 *
 * Out of reach is a child that cut both ties: forked twice, without another program. And a worker that was stopped
 * (SIGSTOP), when the zygote, whose SIGKILL reaches those as well, is killed together with the driver.
 *
 * Functions may fork at any moment: the thread takes no lock and no memory but its stack. */
#include "backend/local/worker_end.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KILLED_MAX 1024 /* in one look at all processes; then it looks again */
#define LOOKS_MAX 100   /* who starts processes faster than they are found goes on */

enum { STACK_BYTES = 512 << 10 }; /* with what libraries keep for each thread; touched are a few pages */

struct entry { /* of getdents64 */
	uint64_t inode;
	int64_t offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

struct victims {
	pid_t own, pids[KILLED_MAX];
	uint32_t count;
};

static char *put_number(char *to, pid_t number)
{
	char digits[16];
	int count = 0;

	do
		digits[count++] = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	while (count > 0)
		*to++ = digits[--count];
	*to = 0;
	return to;
}

static int open_of(pid_t pid, const char *name)
{
	char path[64] = "/proc/";

	memcpy(put_number(path + strlen(path), pid), name, strlen(name) + 1);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static bool is_among(const struct victims *victims, pid_t pid)
{
	bool found = pid == victims->own;

	for (uint32_t i = 0; i < victims->count && !found; i++)
		found = victims->pids[i] == pid;
	return found;
}

/* Its parent, from "PID (any name) S PARENT …"; 0: it is gone, or dead already. */
static pid_t parent_of(pid_t pid)
{
	char text[512];
	int fd = open_of(pid, "/stat");
	ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *at;
	pid_t parent = 0;

	if (fd >= 0)
		close(fd);
	if (size <= 0)
		return 0;
	text[size] = 0;
	at = strrchr(text, ')');
	if (!at || strlen(at) < 5 || at[2] == 'Z' || at[2] == 'X')
		return 0;
	for (at += 4; *at >= '0' && *at <= '9'; at++)
		parent = parent * 10 + (*at - '0');
	return parent;
}

/* Whether its environment has WEIR_WORKER with the number of this process. */
static bool is_marked(pid_t pid, const char *mark, size_t mark_size)
{
	char text[4096];
	int fd = open_of(pid, "/environ");
	size_t matched = 0; /* bytes of the mark; it begins an entry */
	bool at_entry = true, found = false;
	ssize_t size;

	while (fd >= 0 && !found && (size = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < size && !found; i++) {
			matched = (at_entry || matched) && text[i] == mark[matched] ? matched + 1 : 0;
			found = matched == mark_size;
			at_entry = text[i] == 0;
		}
	if (fd >= 0)
		close(fd);
	return found;
}

/* Whoever belongs to those that are known. A child may come before its parent: so it is looked again until nobody is
 * found. */
static bool find_more(struct victims *victims, const char *mark, size_t mark_size)
{
	union {
		struct entry align;
		char bytes[4096];
	} entries;
	int folder = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint32_t before = victims->count;
	long size;

	while (folder >= 0 && (size = syscall(SYS_getdents64, folder, entries.bytes, sizeof(entries.bytes))) > 0)
		for (long at = 0; at < size;) {
			const struct entry *entry = (const struct entry *)(entries.bytes + at);
			pid_t pid = 0, parent;

			at += entry->size;
			for (const char *digit = entry->name; *digit >= '0' && *digit <= '9'; digit++)
				pid = pid * 10 + (*digit - '0');
			if (!pid || is_among(victims, pid) || victims->count == KILLED_MAX)
				continue;
			parent = parent_of(pid);
			if (parent && (is_among(victims, parent) || is_marked(pid, mark, mark_size)))
				victims->pids[victims->count++] = pid;
		}
	if (folder >= 0)
		close(folder);
	return victims->count > before;
}

static void *end(void *watched)
{
	struct pollfd hung_up = {.fd = (int)(intptr_t)watched};
	struct victims victims = {.own = getpid()};
	char mark[32] = "WEIR_WORKER=";
	size_t mark_size = (size_t)(put_number(mark + strlen(mark), victims.own) - mark) + 1; /* with its NUL */

	/* It stays the same pipe if the function closes all descriptors meanwhile. */
	while (poll(&hung_up, 1, -1) <= 0)
		;
	/* They are stopped as they are found, so that none starts another meanwhile; killed when all are known. */
	for (int look = 0; look < LOOKS_MAX; look++) {
		uint32_t before = victims.count;

		if (!find_more(&victims, mark, mark_size))
			break;
		for (uint32_t i = before; i < victims.count; i++)
			kill(victims.pids[i], SIGSTOP);
	}
	for (uint32_t i = 0; i < victims.count; i++)
		kill(victims.pids[i], SIGKILL);
	kill(victims.own, SIGKILL);
	return NULL;
}

int weir_worker_end_with(int lifeline, struct weir_error *err)
{
	struct pollfd hung_up = {.fd = lifeline};
	sigset_t all, before;
	pthread_attr_t attributes;
	pthread_t thread;
	int failed;

	/* Gone already, or in no need of this worker any more: there is nothing yet to be taken along. */
	if (poll(&hung_up, 1, 0) > 0)
		raise(SIGKILL);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	/* The function's signals come to its own thread, and interrupt its calls. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, &attributes, end, (void *)(intptr_t)lifeline);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (failed)
		return weir_error_set_errno(err, failed, "cannot watch the driver");
	return WEIR_OK;
}
