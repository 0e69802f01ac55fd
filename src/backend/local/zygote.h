/* zygote: makes worker processes by fork from one that has imported what they need. The driver's half.
 *
 *     new (starts it, does not wait) ─▶ launches … ─▶ free (it is gone)
 *
 * The zygote is exec'd, so it has one thread whatever this process has. It is started again when it was killed; workers
 * that it had made live on. It sees the end of this process as the end of its control socket, descriptor 3.
 *
 * On the control socket (SOCK_SEQPACKET), one message each, all numbers u32 little endian:
 *
 *     to the zygote   ┌──────┬────────┬────────┐
 *                     │"wzyg"│1 fork  │request │   with 4 descriptors: the process's 3 (socket), 4 (lifeline), 1, 2
 *                     └──────┴────────┴────────┘
 *     from it         ┌──────┬────────┬────────┬───────┐
 *                     │"wzyg"│2 forked│request │pid    │   pid 0: it could not
 *                     ├──────┼────────┼────────┼───────┤
 *                     │"wzyg"│3 ended │pid     │status │   said before the process is reaped: until then the number is its own
 *                     └──────┴────────┴────────┴───────┘
 *
 * Threads: any (one lock, rank: zygote, below a pool's; held over the starting of a process and for a moment's poll).
 */
#ifndef WEIR_BACKEND_LOCAL_ZYGOTE_H
#define WEIR_BACKEND_LOCAL_ZYGOTE_H

#include "backend/local/launcher.h"

struct weir_zygote;

/* Both lists are NULL-terminated and copied; argv[0] is a path; envp NULL: this process's environment. */
int weir_zygote_new(const char *const *argv, const char *const *envp, struct weir_zygote **out, struct weir_error *err);
/* In a child that was forked from this process it only closes the child's copies. */
void weir_zygote_free(struct weir_zygote *zygote);
const struct weir_launcher *weir_zygote_launcher(struct weir_zygote *zygote); /* lives as long as the zygote */
int weir_zygote_pid(struct weir_zygote *zygote);                              /* for tests */
uint64_t weir_zygote_restarts(struct weir_zygote *zygote);

#endif
