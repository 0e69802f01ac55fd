/* The launcher of a program. A process is made by posix_spawn, never by a bare fork: this process has threads. */
#include "backend/local/launcher.h"
#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { FD_MIN = 5 }; /* past those that have a meaning in a worker */

int weir_fd_above(int fd)
{
	int above, saved;

	if (fd < 0 || fd >= FD_MIN)
		return fd;
	above = fcntl(fd, F_DUPFD_CLOEXEC, FD_MIN);
	saved = errno == EINVAL ? EMFILE : errno; /* the limit is below it */
	close(fd);
	errno = saved;
	return above;
}

/* A descriptor at its place in the new process. Where there is none, this process's own stays, or nothing at all. */
static int place(posix_spawn_file_actions_t *actions, int fd, int number)
{
	if (fd >= 0)
		return posix_spawn_file_actions_adddup2(actions, fd, number);
	return fcntl(number, F_GETFD) >= 0 ? 0
					   : posix_spawn_file_actions_addopen(actions, number, "/dev/null", O_RDWR, 0);
}

int weir_spawn(const char *const *argv, const char *const *envp, const int fds[WEIR_LAUNCH_FDS], int *pid, int *pidfd,
	       struct weir_error *err)
{
	static const int numbers[WEIR_LAUNCH_FDS] = {3, 4, STDOUT_FILENO, STDERR_FILENO};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int high[WEIR_LAUNCH_FDS], failed = 0;
	sigset_t none, usual;
	pid_t made = 0;

	*pidfd = -1;
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	sigemptyset(&none);
	sigemptyset(&usual);
	/* Ignored signals stay ignored over an exec: then its children could not be waited for, its pipes not end
	 * it. */
	sigaddset(&usual, SIGCHLD);
	sigaddset(&usual, SIGPIPE);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &usual);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	/* Descriptors at the places of others are moved out of the way by taking them above all places first. */
	for (int i = 0; i < WEIR_LAUNCH_FDS; i++) {
		high[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, FD_MIN);
		if (fds[i] >= 0 && high[i] < 0)
			failed = errno;
	}
	if (!failed && weir_fault(WEIR_FAULT_SPAWN))
		failed = errno;
	if (!failed)
		failed = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	for (int i = 0; !failed && i < WEIR_LAUNCH_FDS; i++)
		failed = place(&actions, high[i], numbers[i]);
	if (!failed)
		failed = posix_spawn(&made, argv[0], &actions, &attributes, (char *const *)argv,
				     envp ? (char *const *)envp : environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	for (int i = 0; i < WEIR_LAUNCH_FDS; i++)
		if (high[i] >= 0)
			close(high[i]);
	if (failed)
		return weir_error_set_errno(err, failed, "cannot start a worker process, %s", argv[0]);
	*pid = made;
	*pidfd = weir_fd_above(pidfd_open(made, 0));
	if (*pidfd >= 0)
		return WEIR_OK;
	weir_error_set_errno(err, errno, "cannot watch a worker process");
	/* Not reaped by anybody else, so the number is still its own. */
	kill(made, SIGKILL);
	while (waitpid(made, NULL, 0) < 0 && errno == EINTR)
		;
	return err->code;
}

int weir_wait_status(int pidfd)
{
	siginfo_t info = {0};
	int failed;

	do {
		failed = waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED);
	} while (failed && errno == EINTR);
	if (failed) /* the program waits for all children itself, or ignores them */
		return WEIR_STATUS_UNKNOWN;
	return info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : W_EXITCODE(0, info.si_status);
}

/* --- the table --- */

static int launch(void *self, const int fds[WEIR_LAUNCH_FDS], uint64_t *ticket, struct weir_error *err)
{
	struct weir_spawner *spawner = self;
	int pid, pidfd;

	if (weir_spawn(spawner->argv, NULL, fds, &pid, &pidfd, err))
		return err->code;
	*ticket = (uint64_t)pidfd;
	return WEIR_OK;
}

static void launched_kill(void *self, uint64_t ticket)
{
	(void)self;
	pidfd_send_signal((int)ticket, SIGKILL, NULL, 0);
}

static int launched_status(void *self, uint64_t ticket, bool wait)
{
	int status;

	(void)self, (void)wait; /* this process's child is waited for in any case */
	status = weir_wait_status((int)ticket);
	close((int)ticket);
	return status;
}

void weir_spawner_init(struct weir_spawner *spawner, const char *const *argv)
{
	*spawner = (struct weir_spawner){.argv = argv,
					 .launcher = {.self = spawner,
						      .name = argv[0],
						      .launch = launch,
						      .kill = launched_kill,
						      .status = launched_status}};
}
