/* small: memory of 64 bytes to 16 KiB, aligned to 64.
 *
 * Each size class, four to a doubling, has slabs of its own, of 32 KiB, so that pieces of some KiB that come and go by
 * the thousand (the columns of a wide table) never share a page with what stays. From malloc such pieces are dear to
 * keep: for the alignment it splits each off a larger one, what is left between is of no use to anybody but others of
 * that size, and there is an arena a thread: a merge of 400 columns with 27 MiB in use had as much again between.
 *
 *     region: 1 MiB, aligned to that     ┌ heads ┬ slab 1 ┬ slab 2 ┬ … ┬ slab 31 ┐
 *     slab:   pieces of one class        │ used │ free │ used │ used │ never used │ … │
 *
 * A piece's slab, and the head of that, follow from its address, and its class from the size that is given with it; so
 * there are no headers, and heads lie together, where they do not push each other out of the cache. A slab without a
 * piece in use goes to whichever class wants one next; beyond warm_max of them its pages go back to the kernel (cold),
 * and the place stays.
 *
 * Under AddressSanitizer small memory is malloc's, which has red zones around each piece (mem.c).
 *
 * Threads: everything from any thread. A lock for each class, held for a few instructions; inside it, for slabs, one
 * for all. */
#include "base/base_impl.h"
#include "base/checked.h"
#include "base/fault.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { REGION_BYTES = 1 << 20, SLAB_BYTES = 32 << 10, REGION_SLABS = REGION_BYTES / SLAB_BYTES };
enum { WARM_SHARE = 256, WARM_MIN = 1 << 20 }; /* of the limit, what slabs without a class may keep */

/* Lies in the first bytes of a free piece. */
struct weir_small_link {
	struct weir_small_link *next;
};

struct weir_small_slab {
	struct weir_small_link *free;
	struct weir_small_slab *next, *before; /* of its class, with room; next: or of those that no class has */
	uint32_t used, untouched;              /* pieces in use; the first that never was */
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct weir_small_slab) * REGION_SLABS <= SLAB_BYTES, "heads fit into the place of one slab");

static size_t slab_number(const struct weir_small_slab *slab)
{
	return (size_t)(slab - (const struct weir_small_slab *)((uintptr_t)slab & ~(uintptr_t)(REGION_BYTES - 1)));
}

static char *slab_bytes(struct weir_small_slab *slab)
{
	return (char *)((uintptr_t)slab & ~(uintptr_t)(REGION_BYTES - 1)) + slab_number(slab) * SLAB_BYTES;
}

static struct weir_small_slab *slab_of(void *piece)
{
	uintptr_t region = (uintptr_t)piece & ~(uintptr_t)(REGION_BYTES - 1);

	return (struct weir_small_slab *)region + ((uintptr_t)piece - region) / SLAB_BYTES;
}

unsigned weir_small_class(size_t size)
{
	unsigned log2;

	WEIR_DCHECK(size > 0 && size <= WEIR_FRAME_MIN);
	size = weir_spare_size(size);
	if (size <= 512)
		return (unsigned)(size / WEIR_ALIGN) - 1;
	log2 = 63 - (unsigned)__builtin_clzll(size);
	return (log2 - 9) * 4 + (unsigned)(size >> (log2 - 2) & 3) + 7;
}

size_t weir_small_class_size(unsigned class)
{
	return class < 8 ? (size_t)(class + 1) * WEIR_ALIGN
			 : (size_t)(4 + (class - 7) % 4) << (9 - 2 + (class - 7) / 4);
}

/* ---- slabs that no class has; under `lock` ---- */

static void push(struct weir_small_slab **list, struct weir_small_slab *slab)
{
	slab->next = *list;
	*list = slab;
}

static bool region_map(struct weir_small *small)
{
	char **regions = realloc(small->regions, (small->region_count + 1) * sizeof(*regions)), *mapped, *region;
	size_t before;

	if (!regions)
		return false;
	small->regions = regions;
	if (weir_fault(WEIR_FAULT_MAP))
		return false;
	mapped = mmap(NULL, 2 * (size_t)REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mapped == MAP_FAILED)
		return false;
	region = (char *)weir_round_up((size_t)mapped, REGION_BYTES);
	before = (size_t)(region - mapped);
	if (before)
		munmap(mapped, before);
	munmap(region + REGION_BYTES, REGION_BYTES - before);
	/* A huge page would give pages to slabs that nobody uses. */
	(void)madvise(region, REGION_BYTES, MADV_NOHUGEPAGE);
	regions[small->region_count++] = region;
	for (size_t i = REGION_SLABS - 1; i > 0; i--)
		push(&small->cold, (struct weir_small_slab *)region + i);
	return true;
}

static struct weir_small_slab *slab_take(struct weir_small *small)
{
	struct weir_small_slab **list, *slab = NULL;

	pthread_mutex_lock(&small->lock);
	if (small->warm || small->cold || region_map(small)) {
		list = small->warm ? &small->warm : &small->cold;
		small->warm_count -= list == &small->warm;
		slab = *list;
		*list = slab->next;
		*slab = (struct weir_small_slab){0};
	}
	pthread_mutex_unlock(&small->lock);
	return slab;
}

/* Where the kernel will not take its pages (memory that the program has locked) it keeps them. */
static void slab_cool(struct weir_small *small, struct weir_small_slab *slab)
{
	(void)madvise(slab_bytes(slab), SLAB_BYTES, MADV_DONTNEED);
	push(&small->cold, slab);
}

static void slab_give(struct weir_small *small, struct weir_small_slab *slab)
{
	pthread_mutex_lock(&small->lock);
	if (small->warm_count < small->warm_max) {
		small->warm_count++;
		push(&small->warm, slab);
	} else {
		slab_cool(small, slab);
	}
	pthread_mutex_unlock(&small->lock);
}

/* ---- pieces ---- */

static void list_add(struct weir_small_class *class, struct weir_small_slab *slab)
{
	slab->before = NULL;
	slab->next = class->slabs;
	if (slab->next)
		slab->next->before = slab;
	class->slabs = slab;
}

static void list_remove(struct weir_small_class *class, struct weir_small_slab *slab)
{
	if (slab->before)
		slab->before->next = slab->next;
	else
		class->slabs = slab->next;
	if (slab->next)
		slab->next->before = slab->before;
}

void *weir_small_take(struct weir_small *small, size_t size)
{
	unsigned number = weir_small_class(size);
	struct weir_small_class *class = &small->classes[number];
	size_t piece_size = weir_small_class_size(number);
	uint32_t most = (uint32_t)(SLAB_BYTES / piece_size);
	struct weir_small_slab *slab;
	void *piece;

	pthread_mutex_lock(&class->lock);
	slab = class->slabs;
	if (!slab) {
		slab = slab_take(small);
		if (!slab) {
			pthread_mutex_unlock(&class->lock);
			return NULL;
		}
		list_add(class, slab);
	}
	piece = slab->free;
	if (piece)
		slab->free = slab->free->next;
	else
		piece = slab_bytes(slab) + slab->untouched++ * piece_size;
	if (++slab->used == most)
		list_remove(class, slab);
	pthread_mutex_unlock(&class->lock);
	return piece;
}

void weir_small_give(struct weir_small *small, void *piece, size_t size)
{
	unsigned number = weir_small_class(size);
	struct weir_small_class *class = &small->classes[number];
	uint32_t most = (uint32_t)(SLAB_BYTES / weir_small_class_size(number));
	struct weir_small_slab *slab = slab_of(piece);
	struct weir_small_link *link = piece;

	pthread_mutex_lock(&class->lock);
	WEIR_ASSERT(slab->used > 0);
	link->next = slab->free;
	slab->free = link;
	if (slab->used-- == most)
		list_add(class, slab);
	if (slab->used == 0) {
		list_remove(class, slab);
		slab_give(small, slab);
	}
	pthread_mutex_unlock(&class->lock);
}

void weir_small_trim(struct weir_small *small)
{
	struct weir_small_slab *slab;

	pthread_mutex_lock(&small->lock);
	while ((slab = small->warm)) {
		small->warm = slab->next;
		slab_cool(small, slab);
	}
	small->warm_count = 0;
	pthread_mutex_unlock(&small->lock);
}

void weir_small_init(struct weir_small *small, int64_t limit)
{
	int64_t warm = limit / WARM_SHARE;

	memset(small, 0, sizeof(*small));
	warm = warm < WARM_MIN ? WARM_MIN : warm > (int64_t)WEIR_WARM_MAX ? (int64_t)WEIR_WARM_MAX : warm;
	small->warm_max = (uint32_t)(warm / SLAB_BYTES);
	pthread_mutex_init(&small->lock, NULL);
	for (unsigned c = 0; c < WEIR_SMALL_CLASS_COUNT; c++)
		pthread_mutex_init(&small->classes[c].lock, NULL);
}

void weir_small_release(struct weir_small *small)
{
	for (size_t i = 0; i < small->region_count; i++)
		munmap(small->regions[i], REGION_BYTES);
	free(small->regions);
	for (unsigned c = 0; c < WEIR_SMALL_CLASS_COUNT; c++)
		pthread_mutex_destroy(&small->classes[c].lock);
	pthread_mutex_destroy(&small->lock);
}
