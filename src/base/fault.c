/* Each kind has a counter and, when armed, the number at which it fails. The environment is read before the first call
 * is counted; a test that arms afterwards replaces what it said. */
#include "base/fault.h"

#ifdef WEIR_FAULTS

#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[WEIR_FAULT_KIND_COUNT] = {
	[WEIR_FAULT_ALLOC] = "alloc",   [WEIR_FAULT_MAP] = "map",     [WEIR_FAULT_OPEN] = "open",
	[WEIR_FAULT_READ] = "read",     [WEIR_FAULT_WRITE] = "write", [WEIR_FAULT_SYNC] = "sync",
	[WEIR_FAULT_RENAME] = "rename", [WEIR_FAULT_SPAWN] = "spawn",
};

static const struct {
	const char *name;
	int value;
} errno_names[] = {
	{"ENOMEM", ENOMEM}, {"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EINTR", EINTR},
	{"EAGAIN", EAGAIN}, {"EACCES", EACCES}, {"EPERM", EPERM},   {"ENOENT", ENOENT}, {"EMFILE", EMFILE},
	{"EROFS", EROFS},   {"EEXIST", EEXIST}, {"EXDEV", EXDEV},   {"EPIPE", EPIPE},   {"ENOSYS", ENOSYS},
};

/* Relaxed: which call is the n-th is decided by the counter alone; arming happens before the calls that it is for. */
static struct {
	_Atomic uint64_t count, nth; /* nth 0: not armed */
	_Atomic int errno_value;
	_Atomic bool always;
} kinds[WEIR_FAULT_KIND_COUNT];

static pthread_once_t environment_once = PTHREAD_ONCE_INIT;

static void arm(enum weir_fault_kind kind, uint64_t nth, int errno_value, bool always)
{
	atomic_store(&kinds[kind].errno_value, errno_value);
	atomic_store(&kinds[kind].always, always);
	atomic_store(&kinds[kind].nth, nth);
}

static int errno_of_name(const char *name)
{
	for (size_t i = 0; i < sizeof(errno_names) / sizeof(errno_names[0]); i++)
		if (strcmp(name, errno_names[i].name) == 0)
			return errno_names[i].value;
	return 0;
}

/* kind:n:errno or kind:n:errno:always */
static void read_environment(void)
{
	const char *wanted = getenv("WEIR_FAULT");
	char copy[64], *rest = copy, *kind, *nth, *error, *end;
	unsigned long long n;

	if (!wanted)
		return;
	strncpy(copy, wanted, sizeof(copy) - 1);
	copy[sizeof(copy) - 1] = '\0';
	kind = strsep(&rest, ":");
	nth = strsep(&rest, ":");
	error = strsep(&rest, ":");
	n = nth ? strtoull(nth, &end, 10) : 0;
	for (int k = 0; n > 0 && *end == '\0' && error && k < WEIR_FAULT_KIND_COUNT; k++) {
		if (strcmp(kind, kind_names[k]) != 0 || !errno_of_name(error) || (rest && strcmp(rest, "always") != 0))
			continue;
		arm((enum weir_fault_kind)k, n, errno_of_name(error), rest != NULL);
		return;
	}
	weir_log(WEIR_LOG_ERROR, "WEIR_FAULT=%s is not understood; nothing will fail", wanted);
}

bool weir_fault(enum weir_fault_kind kind)
{
	uint64_t number, nth;

	pthread_once(&environment_once, read_environment);
	number = atomic_fetch_add(&kinds[kind].count, 1) + 1;
	nth = atomic_load(&kinds[kind].nth);
	if (nth == 0 || number < nth || (number > nth && !atomic_load(&kinds[kind].always)))
		return false;
	errno = atomic_load(&kinds[kind].errno_value);
	return true;
}

static void reset_counts(void)
{
	for (int k = 0; k < WEIR_FAULT_KIND_COUNT; k++)
		atomic_store(&kinds[k].count, 0);
}

void weir_fault_arm(enum weir_fault_kind kind, uint64_t nth, int errno_value, bool always)
{
	pthread_once(&environment_once, read_environment);
	reset_counts();
	arm(kind, nth, errno_value, always);
}

void weir_fault_disarm(void)
{
	pthread_once(&environment_once, read_environment);
	for (int k = 0; k < WEIR_FAULT_KIND_COUNT; k++)
		atomic_store(&kinds[k].nth, 0);
	reset_counts();
}

uint64_t weir_fault_count(enum weir_fault_kind kind)
{
	return atomic_load(&kinds[kind].count);
}

#endif
