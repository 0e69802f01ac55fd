/* launcher: how a worker process is made, as a table; and the plain one, which starts a program.
 *
 * Nobody waits for a process to exist: a launch is a request. That the process is up is seen when it greets on its
 * socket, that there is none when the socket hangs up, because nobody else holds the other end.
 *
 * Threads: any, for every function of a table.
 */
#ifndef WEIR_BACKEND_LOCAL_LAUNCHER_H
#define WEIR_BACKEND_LOCAL_LAUNCHER_H

#include "base/mem.h"

/* The descriptors of a launch, in this order, and the numbers that they have in the process. Each is dup'ed: the caller
 * closes its own. −1 for an output: where this process writes, or nowhere when that is closed. */
enum weir_launch_fd {
	WEIR_LAUNCH_SOCKET /* 3 */,
	WEIR_LAUNCH_LIFELINE /* 4 */,
	WEIR_LAUNCH_STDOUT,
	WEIR_LAUNCH_STDERR,
	WEIR_LAUNCH_FDS
};

#define WEIR_STATUS_UNKNOWN (-1) /* nobody knows: counts as killed from outside */
#define WEIR_STATUS_LOST (-2)    /* it was never made, because its maker died: launch it again */

struct weir_launcher {
	void *self;
	const char *name; /* of what is started, for messages */
	/* *ticket names the process in the other two. */
	int (*launch)(void *self, const int fds[WEIR_LAUNCH_FDS], uint64_t *ticket, struct weir_error *err);
	/* SIGKILL, as far as it can be reached; the caller has closed its lifeline, which reaches the others. */
	void (*kill)(void *self, uint64_t ticket);
	/* It is dead, or as good as: how it ended, as a wait status. The ticket is used up. `wait`: it is worth a
	 * moment. */
	int (*status)(void *self, uint64_t ticket, bool wait);
	/* Private memory of the process that it makes others of, and what none of these has in common with it; NULL:
	 * there is no such process. */
	void (*memory)(void *self, int64_t *all, int64_t *alone);
};

/* Starts a program by posix_spawn. Embedded; argv is borrowed and NULL-terminated, argv[0] is the program's path. */
struct weir_spawner {
	const char *const *argv;
	struct weir_launcher launcher;
};
void weir_spawner_init(struct weir_spawner *spawner, const char *const *argv);

/* What a launcher of programs is made of: a process with these descriptors, stdin from nowhere, and its pidfd for the
 * caller; waiting for it and what became of it. */
int weir_spawn(const char *const *argv, const char *const *envp, const int fds[WEIR_LAUNCH_FDS], int *pid, int *pidfd,
	       struct weir_error *err);
int weir_wait_status(int pidfd);

/* The same descriptor at 5 or above, close-on-exec, the old one closed: out of the way of those numbers that a new
 * process gets, and of 0–2, into which others may print when the program runs with them closed. −1 stays −1 and
 * errno. */
int weir_fd_above(int fd);

#endif
