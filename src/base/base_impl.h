/* base_impl: what the files of this folder share and the tests look into. Nobody else includes it. */
#ifndef WEIR_BASE_IMPL_H
#define WEIR_BASE_IMPL_H

#include "base/mem.h"

#include <pthread.h>

/* Under AddressSanitizer, memory that is ours but nobody's at the moment is poisoned, and frames are searched for
 * pointers as the heap is. */
#if defined(__SANITIZE_ADDRESS__)
#define WEIR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR_ASAN 1
#endif
#endif
#ifdef WEIR_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#define weir_poison(memory, size) __asan_poison_memory_region((memory), (size))
#define weir_unpoison(memory, size) __asan_unpoison_memory_region((memory), (size))
#define weir_roots_add(memory, size) __lsan_register_root_region((memory), (size))
#define weir_roots_remove(memory, size) __lsan_unregister_root_region((memory), (size))
#else
#define weir_poison(memory, size) ((void)(memory), (void)(size))
#define weir_unpoison(memory, size) ((void)(memory), (void)(size))
#define weir_roots_add(memory, size) ((void)(memory), (void)(size))
#define weir_roots_remove(memory, size) ((void)(memory), (void)(size))
#endif

/* frames.c: see there. Classes reach from 16 KiB to 2^47 bytes, the whole of user space. */
#define WEIR_FRAME_CLASS_COUNT (8 * 4 + 25 * 16)
#define WEIR_PIECE_CLASS_COUNT (2 * 4) /* of them: pieces of regions */

struct weir_frame_class {
	struct weir_frame_link *warm; /* last in, first out */
	uint64_t used_at;             /* `tick` when last asked for a frame */
};

/* Pieces of one size that have no pages: mapped, to be used again. There is room in the list for all that were ever
 * made. */
struct weir_frame_pieces {
	void **cold;
	size_t cold_count, made;
};

struct weir_frame_region {
	void *memory;
	size_t size;
};

struct weir_frames {
	int64_t limit;                 /* 0: none */
	_Atomic int64_t beside;        /* memory that nobody counted, as measured: warm frames leave room for it */
	const _Atomic int64_t *handed; /* of what is counted: the program's by now; NULL: none */
	/* Bytes that are weir's: frames, in use or warm, and what weir_frames_count was told. Relaxed: figures to be
	 * compared with a limit, they order nothing. */
	_Atomic int64_t total, total_peak;
	_Atomic int64_t warm, mapped; /* written under `lock` */
	pthread_mutex_t lock;         /* guards what follows; rank: innermost */
	int64_t in_use_peak;
	uint64_t tick;
	struct weir_frame_class classes[WEIR_FRAME_CLASS_COUNT];
	struct weir_frame_pieces pieces[WEIR_PIECE_CLASS_COUNT];
	struct weir_frame_region *regions;
	size_t region_count;
};

/* `handed`: NULL, or how much of what is counted is the program's by now. */
void weir_frames_init(struct weir_frames *frames, int64_t limit, const _Atomic int64_t *handed);
void weir_frames_release(struct weir_frames *frames); /* every frame has been given back */
/* The bytes of the frame that serves `size`; `size` ≥ WEIR_FRAME_MIN. */
size_t weir_frame_size(size_t size);
/* NULL with `err` set when the system or the limit refuses. *zeroed says that the frame is fresh. */
void *weir_frame_take(struct weir_frames *frames, size_t size, bool *zeroed, struct weir_error *err);
void weir_frame_give(struct weir_frames *frames, void *frame, size_t size);
/* Keeps the contents. On failure the old frame is as it was. */
void *weir_frame_resize(struct weir_frames *frames, void *frame, size_t size_old, size_t size_new,
			struct weir_error *err);
void weir_frames_trim(struct weir_frames *frames, size_t keep);
/* What the program was handed beyond half of the limit. */
int64_t weir_frames_apart(const struct weir_frames *frames);
/* What warm frames leave room for, beside what is counted. */
void weir_frames_beside(struct weir_frames *frames, int64_t bytes);
/* Memory that came from elsewhere, so that warm frames make room for it. May be negative. */
void weir_frames_count(struct weir_frames *frames, int64_t bytes);

/* small.c: see there. */
#define WEIR_SMALL_CLASS_COUNT (8 + 5 * 4) /* 64 bytes … 16 KiB */

struct weir_small_class {
	pthread_mutex_t lock;          /* guards the slabs; rank: outside that of `weir_small` */
	struct weir_small_slab *slabs; /* those with room */
};

struct weir_small {
	struct weir_small_class classes[WEIR_SMALL_CLASS_COUNT];
	pthread_mutex_t lock;                /* guards what follows; rank: innermost */
	struct weir_small_slab *warm, *cold; /* slabs that no class has: with pages, and without */
	uint32_t warm_count, warm_max;
	char **regions;
	size_t region_count;
};

void weir_small_init(struct weir_small *small, int64_t limit); /* 0: none, of which little is kept warm, too */
void weir_small_release(struct weir_small *small);             /* whatever is in use goes, too */
/* `size`: at least WEIR_ALIGN, below WEIR_FRAME_MIN. NULL: the system refuses. */
void *weir_small_take(struct weir_small *small, size_t size);
void weir_small_give(struct weir_small *small, void *piece, size_t size);
void weir_small_trim(struct weir_small *small); /* pages of slabs that no class has go back to the kernel */
/* The class of a size up to WEIR_FRAME_MIN, and how large its pieces are. */
unsigned weir_small_class(size_t size);
size_t weir_small_class_size(unsigned class);

struct weir_mem {
	struct weir_account root, handed;
	struct weir_frames frames;
	struct weir_small small;
};

/* machine.c, with a folder to be put before every path: what /proc and /sys say below it. INT64_MAX: no limit. */
int64_t weir_cgroup_limit(const char *prefix);
int64_t weir_machine_memory(const char *prefix);

/* hash.c: without the processor's instruction. */
uint32_t weir_crc32c_plain(uint32_t crc, const void *bytes, size_t size);

/* error.c: the largest n ≤ size such that text[0 … n) does not end inside a UTF-8 character. */
size_t weir_text_cut(const char *text, size_t size);

#endif
