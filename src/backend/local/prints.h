/* prints: what worker processes write to stdout and stderr, line by line, until somebody takes it.
 *
 * Bounded: what does not fit is dropped and counted, and the next line that fits says how much. A line is what a
 * terminal would show of it: text before a carriage return is overwritten.
 *
 *     init ─▶ put … (pool) ─▶ take … (whoever shows them) ─▶ release
 *
 * Threads: any (one lock, rank: prints, below a pool's).
 */
#ifndef WEIR_BACKEND_LOCAL_PRINTS_H
#define WEIR_BACKEND_LOCAL_PRINTS_H

#include "base/list.h"

#include <pthread.h>

#define WEIR_PRINT_LINE_MAX 16384       /* a longer line is cut into several */
#define WEIR_PRINTS_BYTES_MAX (1 << 20) /* lines that wait to be taken */

struct weir_print {
	uint32_t stage, slot;
	int64_t pid;
	bool is_stderr;
	uint64_t dropped; /* lines lost before this one */
	char *text;       /* without the line's end; zero-terminated */
	size_t size;
};
struct weir_print_list WEIR_LIST(struct weir_print);

/* All-zero is the empty value. */
struct weir_prints {
	struct weir_account *account;
	pthread_mutex_t lock; /* guards all below */
	struct weir_print_list lines;
	int64_t bytes;
	uint64_t dropped;
	bool is_open;
	int doorbell; /* an eventfd that is rung when lines come; −1: none. Borrowed */
};

int weir_prints_init(struct weir_prints *prints, struct weir_account *account, int doorbell, struct weir_error *err);
void weir_prints_release(struct weir_prints *prints);
void weir_prints_put(struct weir_prints *prints, const struct weir_print *line); /* copies the text */
/* Moves all that wait to `out`, which was empty; weir_print_list_release frees them with the same account. Returns how
 * many were lost after the last of them. */
uint64_t weir_prints_take(struct weir_prints *prints, struct weir_print_list *out);
void weir_print_list_release(struct weir_print_list *list, struct weir_account *account);

#endif
