/* worker_side: what runs in a worker process: greet, take tasks, answer. One thread.
 *
 *     open ─▶ next ─▶ done | failed | more ─▶ next … ─▶ release
 */
#ifndef WEIR_BACKEND_LOCAL_WORKER_SIDE_H
#define WEIR_BACKEND_LOCAL_WORKER_SIDE_H

#include "base/list.h"
#include "backend/local/worker_link.h"

struct worker_mapped {
	uint32_t region;
	uint64_t size;
	uint8_t *bytes;
};

/* All-zero is the empty value. */
struct weir_worker_side {
	struct weir_account *account;
	bool is_open;
	int bell, bell_driver; /* valid while is_open */
	struct worker_rings *rings;
	uint32_t taken;
	uint32_t worker, generation;
	const uint8_t *setup; /* what the driver gave it to begin with */
	uint64_t setup_size;
	uint8_t *own; /* its own region, writable */
	uint64_t own_size;
	struct WEIR_LIST(struct worker_mapped) mapped;
};

/* Receives the driver's greeting on WORKER_SOCKET and answers it. From here on the process dies with its driver. */
int weir_worker_side_open(struct weir_worker_side *side, struct weir_account *account, struct weir_error *err);
/* Waits for a task. *bytes: the chunk, in a private map: what is written there stays here. *room: where the answer goes.
 * *quit: there will be none. */
int weir_worker_side_next(struct weir_worker_side *side, struct worker_message *task, const uint8_t **bytes,
			  uint8_t **room, bool *quit, struct weir_error *err);
/* The output lies at the beginning of the room. */
void weir_worker_side_done(struct weir_worker_side *side, const struct worker_message *task, uint64_t size,
			   uint64_t row_count);
void weir_worker_side_more(struct weir_worker_side *side, const struct worker_message *task, uint64_t size);
void weir_worker_side_failed(struct weir_worker_side *side, const struct worker_message *task, int code,
			     const char *text);
void weir_worker_side_release(struct weir_worker_side *side);

#endif
