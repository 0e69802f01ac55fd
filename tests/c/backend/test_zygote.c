/* A zygote for tests: forks, and in the child becomes the test worker. Arguments: its path, and how it misbehaves:
 *
 *     test_zygote WORKER [nofork|exit|mute]
 *
 * nofork: it cannot; exit: it ends instead of answering; mute: it neither forks nor answers.
 */
#include "backend/local/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONTROL = 3, MAGIC = 0x67797a77, FORK = 1, FORKED = 2, ENDED = 3 };

static bool receive(uint32_t word[3], int fds[4])
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 4)];
	} control = {0};
	struct iovec vector = {.iov_base = word, .iov_len = 12};
	struct msghdr message = {.msg_iov = &vector,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	ssize_t size = recvmsg(CONTROL, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *header = size > 0 ? CMSG_FIRSTHDR(&message) : NULL;

	if (size != 12 || !header || header->cmsg_len != CMSG_LEN(sizeof(int) * 4))
		return false;
	memcpy(fds, CMSG_DATA(header), sizeof(int) * 4);
	return word[0] == MAGIC && word[1] == FORK;
}

static void say(uint32_t kind, uint32_t a, uint32_t b)
{
	uint32_t word[4] = {MAGIC, kind, a, b};

	send(CONTROL, word, sizeof(word), MSG_NOSIGNAL);
}

static void become_worker(char *path, const int fds[4], const sigset_t *mask)
{
	static const int numbers[4] = {3, 4, 1, 2};
	int high[4];

	for (int i = 0; i < 4; i++)
		high[i] = fcntl(fds[i], F_DUPFD, 10);
	for (int i = 0; i < 4; i++)
		dup2(high[i], numbers[i]);
	for (int i = 0; i < 4; i++)
		close(high[i]);
	sigprocmask(SIG_UNBLOCK, mask, NULL);
	execv(path, (char *[]){path, NULL});
	_exit(127);
}

/* Said before it is reaped: until then its number is its own. */
static void reap(void)
{
	siginfo_t info = {0};

	while (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid) {
		int status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;

		say(ENDED, (uint32_t)info.si_pid, (uint32_t)status);
		waitpid(info.si_pid, NULL, 0);
		info.si_pid = 0;
	}
}

int main(int argc, char **argv)
{
	const char *manner = argc > 2 ? argv[2] : "";
	struct pollfd polls[2];
	sigset_t mask;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	polls[0] = (struct pollfd){.fd = CONTROL, .events = POLLIN};
	polls[1] = (struct pollfd){.fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN};
	for (;;) {
		struct signalfd_siginfo drained;
		uint32_t word[3];
		int fds[4];
		pid_t pid = 0;

		poll(polls, 2, -1);
		while (read(polls[1].fd, &drained, sizeof(drained)) > 0)
			;
		reap();
		if (!polls[0].revents)
			continue;
		if (!strcmp(manner, "mute") && !(polls[0].revents & POLLHUP)) {
			for (;;)
				pause();
		}
		if (!receive(word, fds))
			return 0; /* the driver is gone */
		if (!strcmp(manner, "exit"))
			return 9;
		if (strcmp(manner, "nofork") != 0)
			pid = fork();
		if (pid == 0 && strcmp(manner, "nofork") != 0)
			become_worker(argv[1], fds, &mask);
		for (int i = 0; i < 4; i++)
			close(fds[i]);
		say(FORKED, word[2], pid > 0 ? (uint32_t)pid : 0);
	}
}
