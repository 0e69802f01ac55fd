/* Charging goes from an account up to the root, in two passes. The first asks all accounts that have a grant, from the
 * bottom up; only when all agree does the second add anything. So a refusal leaves all figures unchanged.
 *
 * An allocation of `size` bytes is charged `size` below 16 KiB, and from there on the whole frame that serves it
 * (frames.c; weir_alloc_size tells how much that is). The root's `used` is the sum of all charges; `total` in frames.c
 * is that plus what is warm.
 */
#include "base/mem.h"
#include "base/base_impl.h"
#include "base/checked.h"
#include "base/fault.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PIDFD_SELF
#define PIDFD_SELF (-10001) /* Linux 6.14: of the whole process */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define SIZE_MAX_ASKED ((size_t)1 << 46)
#define FORESEEN_MIN ((size_t)64 << 10) /* for fewer pages a call is not worth it */

/* What an allocation of no bytes points to. */
static const char nothing[WEIR_ALIGN] __attribute__((aligned(WEIR_ALIGN)));

static int64_t load(const _Atomic int64_t *figure)
{
	return atomic_load_explicit(figure, memory_order_relaxed);
}

/* --- small memory, counted by the size asked for --- */

/* Of few bytes malloc's: there are not many. So is all of it under AddressSanitizer (small.c). */
static bool is_malloced(size_t size)
{
#ifdef WEIR_ASAN
	return size < WEIR_FRAME_MIN;
#else
	return size < WEIR_ALIGN;
#endif
}

static void *small_take(struct weir_mem *mem, size_t size)
{
	void *memory = NULL;

	if (size < WEIR_ALIGN)
		return malloc(size);
	if (!is_malloced(size))
		return weir_small_take(&mem->small, size);
	return posix_memalign(&memory, WEIR_ALIGN, size) == 0 ? memory : NULL;
}

static void small_give(struct weir_mem *mem, void *memory, size_t size)
{
	if (is_malloced(size))
		free(memory);
	else
		weir_small_give(&mem->small, memory, size);
}

static void *small_new(struct weir_mem *mem, size_t size, bool zero)
{
	void *memory = small_take(mem, size);

	if (memory && zero)
		memset(memory, 0, size);
	if (memory)
		weir_frames_count(&mem->frames, (int64_t)size);
	return memory;
}

static void small_free(struct weir_mem *mem, void *memory, size_t size)
{
	small_give(mem, memory, size);
	weir_frames_count(&mem->frames, -(int64_t)size);
}

/* --- spares ---
 *
 * Memory of some KiB comes and goes by the thousand (the leaves of a wide table), in all lanes at once. So a lane keeps
 * what it frees, on a list per size, without a lock. Only sizes of a grid are kept, those of small.c, which is what
 * buffers that grow ask for:
 *
 *     64 128 192 256 320 384 448 512 │ 640 768 896 1024 │ … │ 10K 12K 14K
 *
 * Spares stay charged to the account that keeps them and to those above it, and are no part of what it lacks: before it
 * asks for more it frees them.
 */

enum { SPARES_MAX = 32 << 20, SPARES_SHARE = 8 /* of the grant */ };

struct weir_spare {
	struct weir_spare *next;
};

struct weir_spares {
	struct weir_account *keeper;
	int64_t bytes;
	struct weir_spare *classes[WEIR_SMALL_CLASS_COUNT];
};

/* −1: not a size that is kept. */
static int spare_class(size_t size)
{
	if (size < WEIR_ALIGN || size >= WEIR_FRAME_MIN || weir_spare_size(size) != size)
		return -1;
	return (int)weir_small_class(size);
}

size_t weir_spare_size(size_t size)
{
	size_t step = size <= 512 ? WEIR_ALIGN : (size_t)1 << (63 - __builtin_clzll(size) - 2);

	return weir_round_up(size ? size : 1, step);
}

/* --- accounts --- */

void weir_account_init(struct weir_account *account, struct weir_account *parent, const char *name)
{
	memset(account, 0, sizeof(*account));
	account->mem = parent->mem;
	account->parent = parent;
	account->name = name;
	account->spares = parent->spares;
	atomic_init(&account->grant, INT64_MAX);
}

void weir_account_release(struct weir_account *account)
{
	if (account->spares && account->spares->keeper == account) {
		weir_account_spares_free(account);
		free(account->spares);
	}
	account->spares = NULL;
	WEIR_ASSERT(load(&account->used) == 0);
	account->mem = NULL;
	account->parent = NULL;
	account->ask = NULL;
}

/* Who asked, and what it and everyone above it has. */
static void log_refused(const struct weir_account *account, int64_t bytes, int code)
{
	if (weir_log_level() < WEIR_LOG_DEBUG)
		return;
	weir_log(WEIR_LOG_DEBUG, "%s asked for %lld bytes: %s", account->name ? account->name : "?", (long long)bytes,
		 weir_code_text(code));
	for (; account; account = account->parent)
		weir_log(WEIR_LOG_DEBUG, "  %s: %lld bytes used, peak %lld", account->name ? account->name : "?",
			 (long long)load(&account->used), (long long)load(&account->peak));
}

static int64_t spares_of(const struct weir_account *account)
{
	return account->spares && account->spares->keeper == account ? account->spares->bytes : 0;
}

/* An answer of WEIR_OK says that the grant was raised, but the governor may have lowered it again since. */
static int ask(struct weir_account *account, int64_t bytes, struct weir_error *err)
{
	const struct weir_account *asker = account;

	for (; account; account = account->parent) {
		while (account->ask && bytes > load(&account->grant) - load(&account->used)) {
			int code;

			if (spares_of(account) > 0) {
				weir_account_spares_free(account);
				continue;
			}
			code = account->ask(account->asked, account, bytes, err);
			if (code) {
				log_refused(asker, bytes, code);
				return code;
			}
		}
	}
	return WEIR_OK;
}

/* Relaxed throughout: the figures are compared with limits, they order no other memory. */
static void add_below(struct weir_account *account, const struct weir_account *end, int64_t bytes)
{
	for (; account != end; account = account->parent) {
		int64_t used = atomic_fetch_add_explicit(&account->used, bytes, memory_order_relaxed) + bytes;
		int64_t peak = load(&account->peak);

		WEIR_ASSERT(used >= 0);
		while (used > peak && !atomic_compare_exchange_weak_explicit(
					      &account->peak, &peak, used, memory_order_relaxed, memory_order_relaxed))
			;
	}
}

static void add(struct weir_account *account, int64_t bytes)
{
	add_below(account, NULL, bytes);
}

int weir_account_charge(struct weir_account *account, int64_t bytes, struct weir_error *err)
{
	int code;

	WEIR_ASSERT(bytes >= 0);
	code = ask(account, bytes, err);
	if (code)
		return code;
	add(account, bytes);
	weir_frames_count(&account->mem->frames, bytes);
	return WEIR_OK;
}

void weir_account_discharge(struct weir_account *account, int64_t bytes)
{
	WEIR_ASSERT(bytes >= 0);
	add(account, -bytes);
	weir_frames_count(&account->mem->frames, -bytes);
}

/* Up to whoever is asked for it; without one, up to the root. */
static void add_claim(struct weir_account *account, int64_t bytes)
{
	struct weir_account *asks = account;

	while (asks && !asks->ask)
		asks = asks->parent;
	if (asks)
		atomic_fetch_add_explicit(&asks->claimed, bytes, memory_order_relaxed);
	add_below(account, asks ? asks->parent : &account->mem->root, bytes);
}

int weir_account_claim(struct weir_account *account, int64_t bytes, struct weir_error *err)
{
	int code;

	WEIR_ASSERT(bytes >= 0);
	code = ask(account, bytes, err);
	if (!code)
		add_claim(account, bytes);
	return code;
}

void weir_account_unclaim(struct weir_account *account, int64_t bytes)
{
	WEIR_ASSERT(bytes >= 0);
	add_claim(account, -bytes);
}

int64_t weir_account_room(const struct weir_account *account)
{
	for (; account; account = account->parent) {
		int64_t room = load(&account->grant) - load(&account->used) + spares_of(account);

		if (account->ask)
			return room > 0 ? room : 0;
	}
	return INT64_MAX;
}

int64_t weir_account_used(const struct weir_account *account)
{
	return load(&account->used) - spares_of(account);
}

void weir_account_spares_keep(struct weir_account *account)
{
	WEIR_ASSERT(!account->spares && account->ask);
	/* Without them everything works as well, only slower. */
	account->spares = weir_fault(WEIR_FAULT_ALLOC) ? NULL : calloc(1, sizeof(*account->spares));
	if (account->spares)
		account->spares->keeper = account;
}

void weir_account_spares_free(struct weir_account *account)
{
	struct weir_spares *spares = account->spares;

	if (!spares || spares->keeper != account)
		return;
	for (int c = 0; c < WEIR_SMALL_CLASS_COUNT; c++) {
		struct weir_spare *spare;

		while ((spare = spares->classes[c])) {
			size_t size = weir_small_class_size((unsigned)c);

			weir_unpoison(spare, size);
			spares->classes[c] = spare->next;
			small_give(account->mem, spare, size);
		}
	}
	add(account, -spares->bytes);
	weir_frames_count(&account->mem->frames, -spares->bytes);
	spares->bytes = 0;
}

/* True: kept. The keeper's charge for it is the caller's part. */
static bool spare_put(struct weir_account *account, void *memory, size_t size)
{
	struct weir_spares *spares = account->spares;
	struct weir_spare *spare = memory;
	int64_t share;
	int class;

	if (!spares || (class = spare_class(size)) < 0)
		return false;
	share = load(&spares->keeper->grant) / SPARES_SHARE;
	if (spares->bytes + (int64_t)size > (share < SPARES_MAX ? share : SPARES_MAX))
		return false;
	spare->next = spares->classes[class];
	spares->classes[class] = spare;
	spares->bytes += (int64_t)size;
	weir_poison(memory, size);
	return true;
}

static void *spare_take(struct weir_account *account, size_t size)
{
	struct weir_spares *spares = account->spares;
	struct weir_spare *spare;
	int class;

	if (!spares || (class = spare_class(size)) < 0 || !(spare = spares->classes[class]))
		return NULL;
	weir_unpoison(spare, size);
	spares->classes[class] = spare->next;
	spares->bytes -= (int64_t)size;
	add_below(account, spares->keeper, (int64_t)size);
	return spare;
}

/* --- the session's memory --- */

int weir_mem_new(int64_t limit, struct weir_mem **out, struct weir_error *err)
{
	struct weir_mem *mem = NULL;

	*out = NULL;
	if (limit < 0)
		return weir_error_set(err, WEIR_E_INVALID, "a memory limit of %lld bytes", (long long)limit);
	if (!weir_fault(WEIR_FAULT_ALLOC))
		mem = calloc(1, sizeof(*mem));
	if (!mem)
		return weir_error_set(err, WEIR_E_MEMORY, "no memory to begin with");
	weir_frames_init(&mem->frames, limit, &mem->handed.used);
	weir_small_init(&mem->small, limit);
	mem->root.mem = mem;
	mem->root.name = "session";
	atomic_init(&mem->root.grant, INT64_MAX);
	weir_account_init(&mem->handed, &mem->root, "handed to the program");
	*out = mem;
	return WEIR_OK;
}

void weir_mem_free(struct weir_mem *mem)
{
	if (!mem)
		return;
	weir_account_release(&mem->handed);
	weir_account_release(&mem->root);
	weir_frames_release(&mem->frames);
	weir_small_release(&mem->small);
	WEIR_ASSERT(load(&mem->frames.total) == 0);
	free(mem);
}

struct weir_account *weir_mem_root(struct weir_mem *mem)
{
	return &mem->root;
}

struct weir_account *weir_mem_handed(struct weir_mem *mem)
{
	return &mem->handed;
}

void weir_mem_stats(const struct weir_mem *mem, struct weir_mem_stats *out)
{
	out->used = load(&mem->root.used);
	out->apart = weir_frames_apart(&mem->frames);
	out->warm = load(&mem->frames.warm);
	out->mapped = load(&mem->frames.mapped);
	out->peak = load(&mem->frames.total_peak);
}

void weir_mem_trim(struct weir_mem *mem, size_t keep)
{
	weir_frames_trim(&mem->frames, keep);
	/* So little is kept only after a run; then free slabs go back too. malloc is the program's, and left alone. */
	if (keep <= WEIR_WARM_MAX)
		weir_small_trim(&mem->small);
}

void weir_mem_trim_frames(struct weir_mem *mem, size_t keep)
{
	weir_frames_trim(&mem->frames, keep);
}

void weir_mem_beside(struct weir_mem *mem, int64_t bytes)
{
	WEIR_ASSERT(bytes >= 0);
	weir_frames_beside(&mem->frames, bytes);
}

/* --- allocation --- */

size_t weir_alloc_size(size_t size)
{
	return size < WEIR_FRAME_MIN ? size : weir_frame_size(size);
}

static int no_memory(const struct weir_account *account, size_t size, struct weir_error *err)
{
	char text[16];

	return weir_error_set(err, WEIR_E_MEMORY, "no memory for %s of %s",
			      weir_format_bytes(size > INT64_MAX ? INT64_MAX : (int64_t)size, text, sizeof(text)),
			      account->name ? account->name : "an unnamed account");
}

/* Not charged; that is the callers' part. */
static void *obtain(struct weir_account *account, size_t size, bool zero, struct weir_error *err)
{
	bool zeroed = false;
	void *memory;

	if (size < WEIR_FRAME_MIN) {
		memory = small_new(account->mem, size, zero);
		if (!memory)
			no_memory(account, size, err);
		return memory;
	}
	memory = weir_frame_take(&account->mem->frames, size, &zeroed, err);
	if (memory && zero && !zeroed)
		memset(memory, 0, size);
	return memory;
}

static void give_up(struct weir_account *account, void *memory, size_t size)
{
	if (size < WEIR_FRAME_MIN)
		small_free(account->mem, memory, size);
	else
		weir_frame_give(&account->mem->frames, memory, size);
}

static void *allocate(struct weir_account *account, size_t size, bool zero, struct weir_error *err)
{
	void *memory;
	int64_t bytes;

	if (size == 0)
		return (void *)nothing;
	if (size > SIZE_MAX_ASKED || weir_fault(WEIR_FAULT_ALLOC)) {
		no_memory(account, size, err);
		return NULL;
	}
	memory = spare_take(account, size);
	if (memory)
		return zero ? memset(memory, 0, size) : memory;
	bytes = (int64_t)weir_alloc_size(size);
	if (ask(account, bytes, err))
		return NULL;
	add(account, bytes);
	memory = obtain(account, size, zero, err);
	if (!memory)
		add(account, -bytes);
	return memory;
}

void *weir_alloc(struct weir_account *account, size_t size, struct weir_error *err)
{
	return allocate(account, size, false, err);
}

void *weir_alloc_zero(struct weir_account *account, size_t size, struct weir_error *err)
{
	return allocate(account, size, true, err);
}

/* Not charged. The old memory becomes a spare only where that needs no asking. */
static void *move(struct weir_account *account, void *memory, size_t size_old, size_t size_new, struct weir_error *err)
{
	void *moved = obtain(account, size_new, false, err);

	if (!moved)
		return NULL;
	memcpy(moved, memory, size_old < size_new ? size_old : size_new);
	if (account->spares &&
	    weir_account_room(account->spares->keeper) > account->spares->bytes + (int64_t)size_old &&
	    spare_put(account, memory, size_old))
		add(account->spares->keeper, (int64_t)size_old);
	else
		give_up(account, memory, size_old);
	return moved;
}

static void *resize(struct weir_account *account, void *memory, size_t size_old, size_t size_new,
		    struct weir_error *err)
{
	void *moved;

	if (size_old >= WEIR_FRAME_MIN && size_new >= WEIR_FRAME_MIN)
		return weir_frame_resize(&account->mem->frames, memory, size_old, size_new, err);
	if (size_old >= WEIR_ALIGN || size_new >= WEIR_ALIGN)
		return move(account, memory, size_old, size_new, err);
	moved = realloc(memory, size_new);
	if (!moved)
		no_memory(account, size_new, err);
	else
		weir_frames_count(&account->mem->frames, (int64_t)size_new - (int64_t)size_old);
	return moved;
}

void *weir_realloc(struct weir_account *account, void *memory, size_t size_old, size_t size_new, struct weir_error *err)
{
	int64_t more;
	void *moved;

	if (size_old == 0 || !memory) {
		WEIR_ASSERT(size_old == 0);
		return weir_alloc(account, size_new, err);
	}
	if (size_new == 0) {
		weir_free(account, memory, size_old);
		return (void *)nothing;
	}
	if (size_new > SIZE_MAX_ASKED || weir_fault(WEIR_FAULT_ALLOC)) {
		no_memory(account, size_new, err);
		return NULL;
	}
	moved = spare_take(account, size_new);
	if (moved) {
		memcpy(moved, memory, size_old < size_new ? size_old : size_new);
		weir_free(account, memory, size_old);
		return moved;
	}
	more = (int64_t)weir_alloc_size(size_new) - (int64_t)weir_alloc_size(size_old);
	if (more > 0) {
		if (ask(account, more, err))
			return NULL;
		add(account, more);
	}
	moved = resize(account, memory, size_old, size_new, err);
	if (moved ? more < 0 : more > 0)
		add(account, moved ? more : -more);
	return moved;
}

void weir_forget_add(struct weir_forgotten *forgotten, void *memory, size_t size)
{
	uintptr_t page = 4096, begin = ((uintptr_t)memory + page - 1) & ~(page - 1),
		  end = ((uintptr_t)memory + size) & ~(page - 1);

	if (begin >= end)
		return;
	if (forgotten->count == WEIR_FORGOTTEN_MAX)
		weir_forget_flush(forgotten);
	forgotten->parts[forgotten->count++] = (struct iovec){.iov_base = (void *)begin, .iov_len = end - begin};
}

void weir_forget_flush(struct weir_forgotten *forgotten)
{
	size_t size = 0;
	long done = -1;

	for (size_t i = 0; i < forgotten->count; i++)
		size += forgotten->parts[i].iov_len;
	if (forgotten->count > 1)
		done = syscall(SYS_process_madvise, PIDFD_SELF, forgotten->parts, forgotten->count, MADV_DONTNEED, 0);
	/* A kernel that does not know this is told one by one. Where it will not, memory stays as it is. */
	for (size_t i = 0; i < forgotten->count && done != (long)size; i++)
		(void)madvise(forgotten->parts[i].iov_base, forgotten->parts[i].iov_len, MADV_DONTNEED);
	forgotten->count = 0;
}

void weir_foresee(void *memory, size_t size)
{
	uintptr_t page = 4096, begin = (uintptr_t)memory & ~(page - 1),
		  end = ((uintptr_t)memory + size + page - 1) & ~(page - 1);

	/* Where the kernel does not know this, pages come as they are met. */
	if (size >= FORESEEN_MIN)
		(void)madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
}

void weir_free(struct weir_account *account, void *memory, size_t size)
{
	if (!memory || size == 0)
		return;
	if (spare_put(account, memory, size)) {
		add_below(account, account->spares->keeper, -(int64_t)size);
		return;
	}
	give_up(account, memory, size);
	add(account, -(int64_t)weir_alloc_size(size));
}

char *weir_strdup(struct weir_account *account, const char *text, struct weir_error *err)
{
	size_t size = strlen(text) + 1;
	char *copy = weir_alloc(account, size, err);

	return copy ? memcpy(copy, text, size) : NULL;
}

void weir_strfree(struct weir_account *account, char *text)
{
	if (text)
		weir_free(account, text, strlen(text) + 1);
}

void *weir_plain_alloc(size_t size)
{
	return weir_fault(WEIR_FAULT_ALLOC) ? NULL : calloc(1, size);
}

void weir_plain_free(void *memory)
{
	free(memory);
}
