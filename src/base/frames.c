/* frames: regions of 16 KiB and more, mapped from the kernel, kept warm for reuse.
 *
 * A fresh page costs more than decoding into it. So a frame that is freed stays mapped, on the list of its size class,
 * and the next request of that class gets the frame that was freed last, whose pages are most likely still in the
 * cache. There are 4 classes per doubling up to 4 MiB and 16 above, so at most a fifth (a sixteenth) of a frame is more
 * than was asked for. That part is charged too, since an earlier user may have touched it:
 *
 *     16K 20K 24K 28K │ 32K 40K 48K 56K │ 64K 80K 96K 112K │ … │ 4M 4.25M 4.5M … 7.75M │ 8M 8.5M …
 *
 *     total = frames in use + warm frames + what was counted besides       kept at or below the limit, by giving warm
 *             └────────── mapped ─────────┘                                frames back, as long as there are any;
 *                                                                          what was measured beside it (`beside`) too
 *
 * If the exact class has no warm frame, a larger one of at most twice the size is cut and its tail unmapped; if there
 * is none either, a fresh one is mapped. Growing copies into a warm frame if there is one; otherwise it moves the pages
 * with mremap, which copies nothing. What is mapped never exceeds the most that was in use at once by more than
 * WEIR_WARM_MAX, or by a sixty-fourth of the limit if that is more. This keeps changing sizes from piling up warm
 * frames of every class. When warm frames must go, those of the class that was asked for longest ago go first.
 *
 * Memory that was handed to the program is counted, but weir cannot limit it. So a frame is never refused because of
 * it, and the part of it above half of the limit does not make warm frames go.
 *
 * Frames below 64 KiB are pieces: 64 of them are mapped together. Their pages go back to the kernel, while the places
 * stay, on the class's list of cold ones. Unmapped one by one, they would leave more holes than the kernel allows a
 * process mappings. From malloc they would be cheap to get and expensive to keep: where hundreds of columns come and go
 * in pieces of some 40 KiB, as in runs of a wide table at a small limit, free gaps between them added up to a quarter
 * or a third of what was in use (small.c serves sizes below 16 KiB, for the same reason).
 *
 * Huge pages are neither asked for nor refused, except for pieces. A frame's pages never exceed what it is charged, so
 * the kernel's choice does no harm; asking for them would touch 2 MiB where 16 KiB are used. Tried and dropped: frames
 * cut from regions of huge pages, and MADV_HUGEPAGE for frames of 2 MiB and more. Where the host backs the guest's
 * memory on demand, clearing a fresh huge page costs three times as much as recycling as many small ones (1.2 s instead
 * of 0.4 for 600 MB).
 *
 * Threads: everything may be called from any thread. Frames are unmapped under the lock, at most UNMAP_STEP bytes at a
 * time, so that `mapped` is exact when the limit is compared with it; fresh ones are mapped outside.
 */
#include "base/base_impl.h"
#include "base/checked.h"
#include "base/fault.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define UNMAP_STEP ((int64_t)8 << 20)
#define PIECE_END ((size_t)64 << 10) /* smaller frames are pieces */
#define PIECES_MAPPED 64             /* together */
#define WARM_SHARE 64                /* so much of the limit may be mapped beyond the most that was in use at once */

/* Lies in the first bytes of a warm frame. */
struct weir_frame_link {
	struct weir_frame_link *next;
};

/* Up to 4 MiB two bits below the leading one choose the class, above it four. */
static unsigned class_bits(size_t size)
{
	return size > (size_t)4 << 20 ? 4 : 2;
}

size_t weir_frame_size(size_t size)
{
	unsigned log2 = 63 - (unsigned)__builtin_clzll(size);

	WEIR_DCHECK(size >= WEIR_FRAME_MIN);
	return weir_round_up(size, (size_t)1 << (log2 - class_bits(size)));
}

/* `size` is a frame's, so already rounded. */
static unsigned class_of(size_t size)
{
	unsigned log2 = 63 - (unsigned)__builtin_clzll(size);

	if (log2 < 22)
		return (log2 - 14) * 4 + (unsigned)(size >> (log2 - 2) & 3);
	return 8 * 4 + (log2 - 22) * 16 + (unsigned)(size >> (log2 - 4) & 15);
}

static size_t size_of_class(unsigned index)
{
	if (index < 8 * 4)
		return (size_t)(4 + index % 4) << (14 - 2 + index / 4);
	index -= 8 * 4;
	return (size_t)(16 + index % 16) << (22 - 4 + index / 16);
}

static int64_t load(const _Atomic int64_t *figure)
{
	return atomic_load_explicit(figure, memory_order_relaxed);
}

static void add(_Atomic int64_t *figure, int64_t bytes)
{
	atomic_fetch_add_explicit(figure, bytes, memory_order_relaxed);
}

static void total_add(struct weir_frames *frames, int64_t bytes)
{
	int64_t now = atomic_fetch_add_explicit(&frames->total, bytes, memory_order_relaxed) + bytes;
	int64_t peak = load(&frames->total_peak);

	while (now > peak && !atomic_compare_exchange_weak_explicit(&frames->total_peak, &peak, now,
								    memory_order_relaxed, memory_order_relaxed))
		;
}

static void *map(size_t size)
{
	void *frame;

	if (weir_fault(WEIR_FAULT_MAP))
		return NULL;
	frame = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (frame == MAP_FAILED)
		return NULL;
	weir_roots_add(frame, size);
	return frame;
}

/* More cold pieces. Under the lock. */
static bool pieces_map(struct weir_frames *frames, unsigned index)
{
	struct weir_frame_pieces *pieces = &frames->pieces[index];
	size_t size = size_of_class(index), made = pieces->made + PIECES_MAPPED;
	struct weir_frame_region *regions = realloc(frames->regions, (frames->region_count + 1) * sizeof(*regions));
	void **cold;
	char *memory;

	if (!regions)
		return false;
	frames->regions = regions;
	cold = realloc(pieces->cold, made * sizeof(*cold));
	if (!cold)
		return false;
	pieces->cold = cold;
	memory = map(size * PIECES_MAPPED);
	if (!memory)
		return false;
	/* A huge page would give pages to its neighbours, too, which nobody is charged for. */
	(void)madvise(memory, size * PIECES_MAPPED, MADV_NOHUGEPAGE);
	regions[frames->region_count++] = (struct weir_frame_region){.memory = memory, .size = size * PIECES_MAPPED};
	pieces->made = made;
	/* The first is taken first. */
	for (size_t i = PIECES_MAPPED; i > 0; i--)
		cold[pieces->cold_count++] = memory + (i - 1) * size;
	return true;
}

/* A piece without pages, or NULL. */
static void *piece_take(struct weir_frames *frames, size_t size)
{
	unsigned index = class_of(size);
	struct weir_frame_pieces *pieces = &frames->pieces[index];
	void *piece = NULL;

	pthread_mutex_lock(&frames->lock);
	if (pieces->cold_count > 0 || pieces_map(frames, index))
		piece = pieces->cold[--pieces->cold_count];
	pthread_mutex_unlock(&frames->lock);
	return piece;
}

/* Its pages go, its place stays. False where the kernel refuses (memory that the program has locked). */
static bool piece_cool(struct weir_frames *frames, void *piece, size_t size)
{
	struct weir_frame_pieces *pieces = &frames->pieces[class_of(size)];

	if (madvise(piece, size, MADV_DONTNEED) != 0)
		return false;
	pieces->cold[pieces->cold_count++] = piece;
	return true;
}

/* False where the kernel refuses to split a mapping (there is a bound on their number). */
static bool unmap(void *frame, size_t size)
{
	weir_unpoison(frame, size);
	return munmap(frame, size) == 0;
}

static void push(struct weir_frames *frames, unsigned index, void *frame)
{
	struct weir_frame_class *class = &frames->classes[index];
	struct weir_frame_link *link = frame;
	size_t size = size_of_class(index);

	weir_unpoison(frame, sizeof(*link));
	link->next = class->warm;
	class->warm = link;
	weir_poison(frame, size);
	add(&frames->warm, (int64_t)size);
}

static void *pop(struct weir_frames *frames, unsigned index)
{
	struct weir_frame_class *class = &frames->classes[index];
	struct weir_frame_link *link = class->warm;

	if (!link)
		return NULL;
	weir_unpoison(link, size_of_class(index));
	class->warm = link->next;
	add(&frames->warm, -(int64_t)size_of_class(index));
	return link;
}

/* Unmaps warm frames, the longest unused class first, until `bytes` are gone or none is left. Under the lock. */
static int64_t unmap_warm(struct weir_frames *frames, int64_t bytes)
{
	int64_t gone = 0;

	while (gone < bytes && load(&frames->warm) > 0) {
		unsigned oldest = WEIR_FRAME_CLASS_COUNT;
		size_t size;
		void *frame;

		for (unsigned c = 0; c < WEIR_FRAME_CLASS_COUNT; c++)
			if (frames->classes[c].warm && (oldest == WEIR_FRAME_CLASS_COUNT ||
							frames->classes[c].used_at < frames->classes[oldest].used_at))
				oldest = c;
		WEIR_ASSERT(oldest < WEIR_FRAME_CLASS_COUNT);
		size = size_of_class(oldest);
		while (gone < bytes && (frame = pop(frames, oldest))) {
			if (!(size < PIECE_END ? piece_cool(frames, frame, size) : unmap(frame, size))) {
				push(frames, oldest, frame);
				return gone;
			}
			if (size >= PIECE_END)
				weir_roots_remove(frame, size);
			add(&frames->mapped, -(int64_t)size);
			add(&frames->total, -(int64_t)size);
			gone += (int64_t)size;
		}
	}
	return gone;
}

static int64_t handed(const struct weir_frames *frames)
{
	return frames->handed ? load(frames->handed) : 0;
}

int64_t weir_frames_apart(const struct weir_frames *frames)
{
	int64_t beyond = handed(frames) - frames->limit / 2;

	return beyond > 0 ? beyond : 0;
}

/* For `more` bytes about to come, as far as warm frames can make it. */
static void make_room(struct weir_frames *frames, int64_t more)
{
	int64_t excess;

	while (frames->limit > 0 &&
	       (excess = load(&frames->total) - weir_frames_apart(frames) + load(&frames->beside) + more -
			 frames->limit) > 0 &&
	       load(&frames->warm) > 0) {
		int64_t gone;

		pthread_mutex_lock(&frames->lock);
		gone = unmap_warm(frames, excess < UNMAP_STEP ? excess : UNMAP_STEP);
		pthread_mutex_unlock(&frames->lock);
		if (gone == 0)
			return;
	}
}

/* Counts `size` more bytes of frames, before they are mapped; `unreserve` takes it back. */
static int reserve(struct weir_frames *frames, size_t size, struct weir_error *err)
{
	int64_t in_use, mapped_max;
	bool fits;

	make_room(frames, (int64_t)size);
	pthread_mutex_lock(&frames->lock);
	in_use = load(&frames->mapped) - load(&frames->warm);
	if (frames->in_use_peak < in_use + (int64_t)size)
		frames->in_use_peak = in_use + (int64_t)size;
	mapped_max = frames->in_use_peak + (frames->limit / WARM_SHARE > (int64_t)WEIR_WARM_MAX
						    ? frames->limit / WARM_SHARE
						    : (int64_t)WEIR_WARM_MAX);
	if (frames->limit > 0 && mapped_max > frames->limit + weir_frames_apart(frames))
		mapped_max = frames->limit + weir_frames_apart(frames);
	unmap_warm(frames, load(&frames->mapped) + (int64_t)size - mapped_max);
	/* What is handed out cannot be had back by refusing others. It may be small memory, too, so that this errs on
	 * the late side. */
	fits = frames->limit == 0 || load(&frames->mapped) + (int64_t)size - handed(frames) <= frames->limit;
	if (fits)
		add(&frames->mapped, (int64_t)size);
	pthread_mutex_unlock(&frames->lock);
	if (!fits) {
		char more[16], limit[16], used[16], enough[16];
		int64_t ours = in_use - handed(frames);

		return weir_error_set(err, WEIR_E_LIMIT,
				      "%s more do not fit the memory limit of %s: %s are in use: give at least %s",
				      weir_format_bytes((int64_t)size, more, sizeof(more)),
				      weir_format_bytes(frames->limit, limit, sizeof(limit)),
				      weir_format_bytes(ours, used, sizeof(used)),
				      weir_format_bytes((ours + (int64_t)size) / 4 * 5, enough, sizeof(enough)));
	}
	total_add(frames, (int64_t)size);
	return WEIR_OK;
}

static void unreserve(struct weir_frames *frames, size_t size)
{
	pthread_mutex_lock(&frames->lock);
	add(&frames->mapped, -(int64_t)size);
	pthread_mutex_unlock(&frames->lock);
	add(&frames->total, -(int64_t)size);
}

static void *refused(size_t size, struct weir_error *err)
{
	char text[16];

	weir_error_set(err, WEIR_E_MEMORY, "the system has no %s to map: %s",
		       weir_format_bytes((int64_t)size, text, sizeof(text)), strerror(errno));
	err->errno_value = errno;
	return NULL;
}

/* A warm frame of exactly this size, or NULL. */
static void *take_warm(struct weir_frames *frames, size_t size)
{
	unsigned index = class_of(size);
	void *frame;

	pthread_mutex_lock(&frames->lock);
	frames->classes[index].used_at = ++frames->tick;
	frame = pop(frames, index);
	pthread_mutex_unlock(&frames->lock);
	return frame;
}

/* The head of a larger warm frame, or NULL. Of one more than twice the size most would be given back. */
static void *take_cut(struct weir_frames *frames, size_t size)
{
	void *frame = NULL;

	if (load(&frames->warm) <= (int64_t)size || size < PIECE_END)
		return NULL;
	pthread_mutex_lock(&frames->lock);
	for (unsigned c = class_of(size) + 1; !frame && c < WEIR_FRAME_CLASS_COUNT && size_of_class(c) <= 2 * size;
	     c++) {
		size_t tail = size_of_class(c) - size;

		frame = pop(frames, c);
		if (frame && !unmap((char *)frame + size, tail)) {
			push(frames, c, frame);
			frame = NULL;
			break;
		}
		if (frame) {
			weir_roots_remove(frame, size + tail);
			weir_roots_add(frame, size);
			add(&frames->mapped, -(int64_t)tail);
			add(&frames->total, -(int64_t)tail);
		}
	}
	pthread_mutex_unlock(&frames->lock);
	return frame;
}

void *weir_frame_take(struct weir_frames *frames, size_t size, bool *zeroed, struct weir_error *err)
{
	size_t frame_size = weir_frame_size(size);
	void *frame = take_warm(frames, frame_size);

	*zeroed = false;
	if (!frame)
		frame = take_cut(frames, frame_size);
	if (!frame) {
		if (reserve(frames, frame_size, err))
			return NULL;
		frame = frame_size < PIECE_END ? piece_take(frames, frame_size) : map(frame_size);
		if (!frame) {
			unreserve(frames, frame_size);
			return refused(frame_size, err);
		}
		*zeroed = true;
	}
	weir_poison((char *)frame + size, frame_size - size);
	return frame;
}

void weir_frame_give(struct weir_frames *frames, void *frame, size_t size)
{
	pthread_mutex_lock(&frames->lock);
	push(frames, class_of(weir_frame_size(size)), frame);
	pthread_mutex_unlock(&frames->lock);
}

static void *move_pages(void *frame, size_t size_old, size_t size_new)
{
#ifdef __SANITIZE_THREAD__
	/* TSan does not follow mremap: it would take what another thread once wrote at the new place for a race. */
	void *moved = mmap(NULL, size_new, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (moved != MAP_FAILED) {
		memcpy(moved, frame, size_old < size_new ? size_old : size_new);
		munmap(frame, size_old);
	}
	return moved;
#else
	return mremap(frame, size_old, size_new, MREMAP_MAYMOVE);
#endif
}

/* Moves the pages; nothing is copied. */
static void *remap(struct weir_frames *frames, void *frame, size_t size_old, size_t size_new, struct weir_error *err)
{
	void *moved;

	if (size_new > size_old && reserve(frames, size_new - size_old, err))
		return NULL;
	moved = weir_fault(WEIR_FAULT_MAP) ? MAP_FAILED : move_pages(frame, size_old, size_new);
	if (moved == MAP_FAILED) {
		if (size_new > size_old)
			unreserve(frames, size_new - size_old);
		return refused(size_new, err);
	}
	weir_unpoison(moved, size_new);
	weir_roots_remove(frame, size_old);
	weir_roots_add(moved, size_new);
	if (size_new < size_old)
		unreserve(frames, size_old - size_new);
	return moved;
}

void *weir_frame_resize(struct weir_frames *frames, void *frame, size_t size_old, size_t size_new,
			struct weir_error *err)
{
	size_t frame_old = weir_frame_size(size_old), frame_new = weir_frame_size(size_new);
	void *moved;

	weir_unpoison(frame, frame_old);
	if (frame_new == frame_old) {
		moved = frame;
	} else if ((moved = take_warm(frames, frame_new))) {
		memcpy(moved, frame, size_old < size_new ? size_old : size_new);
		weir_frame_give(frames, frame, size_old);
	} else if (frame_old < PIECE_END || frame_new < PIECE_END) {
		bool zeroed;

		moved = weir_frame_take(frames, frame_new, &zeroed, err);
		if (moved) {
			memcpy(moved, frame, size_old < size_new ? size_old : size_new);
			weir_frame_give(frames, frame, size_old);
		}
	} else {
		moved = remap(frames, frame, frame_old, frame_new, err);
	}
	if (!moved) {
		weir_poison((char *)frame + size_old, frame_old - size_old);
		return NULL;
	}
	weir_poison((char *)moved + size_new, frame_new - size_new);
	return moved;
}

void weir_frames_trim(struct weir_frames *frames, size_t keep)
{
	int64_t excess;

	while ((excess = load(&frames->warm) - (int64_t)keep) > 0) {
		int64_t gone;

		pthread_mutex_lock(&frames->lock);
		gone = unmap_warm(frames, excess < UNMAP_STEP ? excess : UNMAP_STEP);
		pthread_mutex_unlock(&frames->lock);
		if (gone == 0)
			return;
	}
}

void weir_frames_count(struct weir_frames *frames, int64_t bytes)
{
	if (bytes > 0)
		make_room(frames, bytes);
	total_add(frames, bytes);
}

void weir_frames_beside(struct weir_frames *frames, int64_t bytes)
{
	atomic_store_explicit(&frames->beside, bytes, memory_order_relaxed);
	make_room(frames, 0);
}

void weir_frames_init(struct weir_frames *frames, int64_t limit, const _Atomic int64_t *handed)
{
	memset(frames, 0, sizeof(*frames));
	frames->limit = limit;
	frames->handed = handed;
	pthread_mutex_init(&frames->lock, NULL);
}

void weir_frames_release(struct weir_frames *frames)
{
	weir_frames_trim(frames, 0);
	for (unsigned c = 0; c < WEIR_PIECE_CLASS_COUNT; c++) {
		int64_t size = (int64_t)size_of_class(c);

		/* What the kernel would not take page by page. */
		while (pop(frames, c)) {
			add(&frames->mapped, -size);
			add(&frames->total, -size);
		}
		free(frames->pieces[c].cold);
	}
	WEIR_ASSERT(load(&frames->mapped) == 0);
	for (size_t i = 0; i < frames->region_count; i++) {
		unmap(frames->regions[i].memory, frames->regions[i].size);
		weir_roots_remove(frames->regions[i].memory, frames->regions[i].size);
	}
	free(frames->regions);
	pthread_mutex_destroy(&frames->lock);
}
