/* mem: all of weir's memory, counted.
 *
 * A session has one struct weir_mem. Every user of memory has an account in it. Accounts form a tree (operator → lane →
 * session), and every byte is charged to each account up to the root. The size is given on free as on allocation, so
 * there are no headers. Requests of 16 KiB and more are served by frames: regions that weir maps itself, keeps warm for
 * reuse in size classes, and gives back to the kernel. Smaller ones are pieces of slabs, counted in the same way.
 *
 * A lane's account works from a grant. An allocation that would exceed it calls the account's `ask`. That may block
 * until the governor grants more, or return WEIR_E_GIVE_UP (unwind and release everything; the split is redone later),
 * WEIR_E_LIMIT (it does not fit even alone) or WEIR_E_CANCELLED. Allocation functions then return NULL with `err` set.
 *
 * Threads: an account with a grant is used by one thread at a time; the root's totals are atomic. Warm frames are
 * shared under one lock (rank: innermost; nothing is called while it is held).
 */
#ifndef WEIR_BASE_MEM_H
#define WEIR_BASE_MEM_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/uio.h>

#define WEIR_FRAME_MIN ((size_t)16 << 10)
#define WEIR_WARM_MAX ((size_t)32 << 20) /* kept warm after a run */
#define WEIR_ALIGN 64                    /* every allocation ≥ 64 bytes is aligned to this */

struct weir_mem;
struct weir_spares;

struct weir_account {
	struct weir_mem *mem;
	struct weir_account *parent;
	struct weir_spares *spares; /* the account's own, or those of one above it; NULL: none are kept */
	const char *name;           /* borrowed, shown in stats */
	_Atomic int64_t used, peak;
	_Atomic int64_t claimed; /* of used: also charged to another account; only in accounts that ask */
	/* Only in a lane's account: bytes it may use before asking, and whom to ask. INT64_MAX: never asks. */
	_Atomic int64_t grant;
	int (*ask)(void *asked, struct weir_account *account, int64_t more, struct weir_error *err);
	void *asked;
};

struct weir_mem_stats {
	int64_t used;   /* charged to accounts */
	int64_t apart;  /* of used: what was handed to the program, beyond half of the limit */
	int64_t warm;   /* mapped, free, ready for reuse: counts as ours */
	int64_t mapped; /* frames in use + warm */
	int64_t peak;   /* of used + warm */
};

/* `limit` is a backstop: frames are never mapped beyond it (warm ones are given back first). 0: none. */
int weir_mem_new(int64_t limit, struct weir_mem **out, struct weir_error *err);
void weir_mem_free(struct weir_mem *mem); /* asserts that nothing is in use */
struct weir_account *weir_mem_root(struct weir_mem *mem);
/* The account for memory that is handed to the program, which may keep it as long as it likes. It is counted, also at
 * the root, but `limit` applies only to everything else. */
struct weir_account *weir_mem_handed(struct weir_mem *mem);
void weir_mem_stats(const struct weir_mem *mem, struct weir_mem_stats *out);
/* Gives warm frames back to the kernel until at most `keep` bytes are warm. If `keep` is no more than is kept after a
 * run, also gives back free slabs. malloc is left alone: it is the program's. */
void weir_mem_trim(struct weir_mem *mem, size_t keep);
void weir_mem_trim_frames(struct weir_mem *mem, size_t keep); /* warm frames alone */

/* Tells how much memory was measured outside of all accounts (gaps between small pieces, libraries' malloc, other
 * processes of the session). Only warm frames make room for it below the limit. */
void weir_mem_beside(struct weir_mem *mem, int64_t bytes);

void weir_account_init(struct weir_account *account, struct weir_account *parent, const char *name);
void weir_account_release(struct weir_account *account); /* asserts used == 0 */

/* Charges without allocating (memory that others map: store chunks, zstd contexts). May ask, as an allocation does. */
int weir_account_charge(struct weir_account *account, int64_t bytes, struct weir_error *err);
void weir_account_discharge(struct weir_account *account, int64_t bytes);
/* The same for memory that another account is charged (a chunk that a lane makes in the store): it counts against the
 * nearest grant, but is not charged a second time above that. */
int weir_account_claim(struct weir_account *account, int64_t bytes, struct weir_error *err);
void weir_account_unclaim(struct weir_account *account, int64_t bytes);
/* What is left of the nearest grant at or above this account, without asking; INT64_MAX if there is no grant. */
int64_t weir_account_room(const struct weir_account *account);

/* What is charged, without spares. */
int64_t weir_account_used(const struct weir_account *account);
/* A lane's account, and those made below it afterwards, keep some of the small memory that is freed, for the next
 * request of the same size: at most an eighth of the grant. It is freed before the account asks for more, and by
 * weir_account_spares_free. */
void weir_account_spares_keep(struct weir_account *account);
void weir_account_spares_free(struct weir_account *account);
/* The smallest size of spares that is at least `size`, up to 16 KiB. */
size_t weir_spare_size(size_t size);

/* What an allocation of `size` bytes is charged: `size` below 16 KiB, then the whole frame (16K, 20K, 24K, 28K, 32K …).
 * All of it may be used, if this is then the size given on free. */
size_t weir_alloc_size(size_t size);

/* Contents are unspecified (frames are recycled). size 0 gives a non-NULL pointer that may be freed with size 0. */
void *weir_alloc(struct weir_account *account, size_t size, struct weir_error *err);
void *weir_alloc_zero(struct weir_account *account, size_t size, struct weir_error *err);
/* Keeps min(old, new) bytes. On failure the old memory is unchanged. */
void *weir_realloc(struct weir_account *account, void *memory, size_t size_old, size_t size_new,
		   struct weir_error *err);
void weir_free(struct weir_account *account, void *memory, size_t size); /* NULL is fine */
/* Says that the contents of some bytes, each time within one allocation, are not needed any more. Once that is flushed,
 * the kernel may give their whole pages to others. They stay charged, and may be written again; what is read before
 * that is unspecified. The kernel is told of many pieces together, since each call interrupts the other threads.
 * All-zero is empty. */
enum { WEIR_FORGOTTEN_MAX = 256 };
struct weir_forgotten {
	size_t count;
	struct iovec parts[WEIR_FORGOTTEN_MAX];
};
void weir_forget_add(struct weir_forgotten *forgotten, void *memory, size_t size);
void weir_forget_flush(struct weir_forgotten *forgotten);
/* Says that all of these bytes are about to be written. If they have many pages, these are made in one call. That costs
 * less than a fault for each page, and far less where the writes come between reads from all over memory, which every
 * fault disturbs. */
void weir_foresee(void *memory, size_t size);
char *weir_strdup(struct weir_account *account, const char *text, struct weir_error *err); /* weir_strfree */
void weir_strfree(struct weir_account *account, char *text);

/* Not counted: for the few bytes that belong to no session or outlive theirs, such as the keeper of what is handed to a
 * program. Zeroed; NULL when there is no memory. */
void *weir_plain_alloc(size_t size);
void weir_plain_free(void *memory);

/* 60 % of the machine's memory or of its cgroup's limit (v1 or v2, any level up), whichever is less. */
int64_t weir_memory_limit_default(void);
/* "256M", "1.5GiB", "64KiB", "1000000", "2GB": M and MiB are 2^20, MB is 10^6. */
int weir_parse_bytes(const char *text, int64_t *out, struct weir_error *err);
/* 1536 → "1.5 KiB". Returns `buffer` (≥ 16 bytes). */
const char *weir_format_bytes(int64_t bytes, char *buffer, size_t size);
/* RssAnon and RssShmem of this process, from /proc/self/status. */
int weir_process_rss(int64_t *anon, int64_t *shmem, struct weir_error *err);
/* The anonymous memory of another process, and the part of it that it does not share with others, such as its forks.
 * False: the system does not tell. */
bool weir_process_alone(int pid, int64_t *anon, int64_t *alone);

#endif
