/* core_impl: the executor's state, shared by the files of this folder.
 *
 * Anything that passes through a run is an item: a split (stage 0), a chunk that will be a batch of stage s, or a chunk
 * for the consumer (stage = stage_count). An item's path is its place in the input's order:
 *
 *     split 7                            7
 *     the third chunk made of it         7 2
 *     the first chunk made of that       7 2 0
 *
 * Its position is the path, followed by how many outputs it has made so far. Positions are compared number by number,
 * left to right; the item with the smallest one is the front. Two rules keep a run from stalling: no policy holds the
 * front back, and whatever holds memory behind the front can be made to give it up. So the front always moves, and
 * everything becomes the front in its turn.
 *
 * Items lie in one array and are named by index. Outside, a chunk's number is its index and a generation, so that a
 * message about a chunk that is gone can be recognised. A step allocates at its very beginning only.
 *
 * README.md says which file does what. */
#ifndef WEIR_EXEC_CORE_IMPL_H
#define WEIR_EXEC_CORE_IMPL_H

#include "exec/exec.h"

/* The test of the tests: each number plants one mistake, and the simulation must find it
 * (tests/c/exec/mutants_test.c). */
#ifndef WEIR_MUTANT
#define WEIR_MUTANT 0
#endif
#define MUTANT(n) (WEIR_MUTANT == (n))

#define NO_ITEM UINT32_MAX
#define GRANT_STEP ((int64_t)1 << 20) /* grants are rounded up to this while there is room, to be asked less often */
#define DELIVER_AHEAD 2               /* chunks on their way to the consumer, not yet taken */
#define ALONE_FROM 2                  /* kills after which a batch is given to a fresh worker, alone */

#define HELD_BYTES_MAX ((int64_t)64 << 20)
#define HELD_SHARE 16      /* of the budget, where that is less */
#define IDLE_MEASURES 200  /* measurements in a row that find a worker idle, after which it is let go */
#define TIMES_FOLLOW 8     /* a task's time counts so little against those before it */
#define ASSUMED_MAX 0x1p60 /* of what nobody has measured: more than any machine has */
#define ESTIMATE_FALLS 256 /* a measurement below the estimate takes this part of the difference off */

enum item_state {
	ITEM_FREE,
	ITEM_QUEUED,
	ITEM_OPEN, /* its bundle may still grow: in no queue */
	ITEM_PART, /* of a bundle, behind its first chunk, which stands for all */
	ITEM_RUNNING,
	ITEM_HELD, /* output of a batch not yet accepted */
	ITEM_DELIVERED
};

/* Where an item's chunk is. LOST: it came back corrupt, its maker runs again. */
enum item_place { PLACE_NONE, PLACE_RESIDENT, PLACE_SPILLING, PLACE_SPILLED, PLACE_RESTORING, PLACE_LOST };

struct item {
	uint32_t generation;
	uint32_t stage, slot;
	uint32_t attempt;
	uint32_t number; /* among its stage's tasks that were ever started, from 1; 0: it was not */
	uint32_t own_deaths, kills, rebuilds, user_failures;
	uint32_t outputs; /* made in this attempt */
	uint32_t next;    /* free list, or the next output held with this one */
	uint32_t held_first, held_last;
	uint32_t resident_before, resident_after; /* the list of chunks in memory, in no order that matters */
	uint32_t before, after;                   /* the list of all that is not done (order.c) */
	uint32_t head;                            /* towards the first of its bundle, itself if it is that */
	uint32_t part_first, part_last, part_next;
	uint32_t spill_at;        /* in the heap of what could be spilled; UINT32_MAX: not there */
	uint32_t absent, spilled; /* chunks of the bundle that are not in memory; of these, spilled ones */
	uint8_t state, place;
	bool listed;
	bool giving_up, stopping; /* told so; the answer is awaited */
	bool alone;               /* wants a fresh worker for itself */
	bool exclusive;           /* and no other worker busy meanwhile: it had too little memory */
	bool doomed;              /* not wanted any more: freed when its I/O has ended */
	bool unspillable;         /* spilling it failed once */
	int64_t bytes;            /* of the chunk; of a split: what it needs at least */
	int64_t rows;
	int64_t task_bytes, task_rows; /* of the whole bundle */
	int64_t held_bytes;            /* of the outputs held with it */
	int64_t rows_kept;             /* of those accepted by number before its end */
	int64_t grant;
	int64_t need;          /* after giving up: what must be free before it is started again */
	uint64_t kills_before; /* of the whole stage, when its own were first counted */
	uint64_t rebuild;      /* the chunk for which this split runs again, or WEIR_NO_CHUNK */
	/* of such, which have their bundle's path: in the order in which they were lost, all before it */
	uint32_t precedence;
	uint64_t split;  /* then: its number; the path is that of the bundle which waits for the chunk */
	uint64_t path[]; /* stage_count + 2: the path, outputs accepted, zeros */
};

enum slot_state { SLOT_ABSENT, SLOT_STARTING, SLOT_UP, SLOT_DYING, SLOT_DEAD, SLOT_STOPPED };
enum slot_wait { WAITS_NOT, WAITS_MEMORY, WAITS_TURN, WAITS_RESUME };

struct slot {
	uint8_t state, wait;
	bool counted;  /* workers: its memory is in the books, from its first start on */
	bool alone;    /* runs a batch that wants it for itself */
	bool retiring; /* killed for its memory */
	bool was_up;   /* since it was last started */
	bool over;     /* killed at work, for more memory than there is */
	uint32_t idle; /* measurements in a row that found it idle */
	uint32_t generation;
	uint32_t flight_count; /* items in it, oldest first; a lane has at most one */
	uint32_t given;        /* batches since it came up */
	int64_t asked;
	bool room_asked; /* workers: room_for waits for room for an output, so much more than it has, and asks again */
	uint32_t room_for;
	int64_t room_more;
	int64_t kept;     /* lanes: memory kept between tasks */
	int64_t memory;   /* workers: private memory as booked */
	int64_t measured; /* the last that was measured of this process; 0: nothing yet */
	int64_t leaving;  /* of it, what is expected back when it is dead */
	int64_t swing;    /* beyond it, what it had a moment ago */
	uint64_t wait_since, busy_since;
};

struct heap WEIR_LIST(uint32_t);

struct stage {
	struct weir_stage_spec spec;
	struct slot *slots;
	uint32_t *flight; /* slots × flight_max item indices */
	uint32_t flight_max;
	uint32_t depth;   /* tasks that a slot may have in its hands now: in_flight_max, or more where they are short */
	uint64_t task_ns; /* what a task takes, of late; 0: not known */
	struct heap queue;
	uint32_t numbered;      /* tasks that were ever started */
	uint32_t flying;        /* items in its slots */
	uint32_t up;            /* slots that have come up and not died since */
	uint64_t up_since;      /* when the first one did */
	uint32_t spawns_failed; /* WEIR_SPAWN_…, of all since the last that came up */
	uint32_t busy;          /* slots with something in them */
	uint32_t live;          /* items on their way to it, in it, or held in front of it */
	bool shrunk;            /* workers were let go for their memory */
	bool cramped;           /* one had too little to begin with, beside others: they start one by one */
	bool closed;            /* nothing will come any more, its workers were sent home */
	uint8_t held_by;        /* what the oldest of its queue waits for since held_since: a wait + 1; 0: nothing */
	uint64_t held_since;
	int64_t estimate; /* workers: what the next one is taken to need */
	bool assumes;     /* by the size of its chunks, until one is measured that has done something */
	uint64_t kills;   /* batches lost to kills from outside */
	struct weir_stage_stats stats;
	int64_t first_grant;
};

struct weir_core {
	struct weir_account *account;
	int64_t budget, limit, overdraft;
	int64_t overdraft_most; /* where others have nothing of it */
	int64_t lent;           /* of the overdraft: comes back by itself, and is waited for */
	bool parked;            /* another run has its turn */
	bool preserve_order, has_consumer;
	bool started, ordered, ended;
	bool held_back; /* some stage has something to wait for */
	bool quiet;     /* bundles are not looked at: the list is being cut */
	bool cutting, cut_all;
	uint32_t stage_count, slot_count; /* slots: tasks that can be in hands at once */
	uint32_t lane_slots;              /* of all stages of lanes */
	struct stage *stages;             /* stage_count */
	struct heap deliveries;           /* chunks that wait for the consumer */
	struct heap spillable;            /* spill.c; kept from the first spill on */
	bool spills;
	uint32_t delivered[DELIVER_AHEAD];
	uint32_t delivered_count;

	char *items;
	size_t item_size, item_capacity, reserved; /* so many items have place in every list */
	uint32_t item_count, free_head, resident_head, live;
	uint32_t first, last; /* of the list of all that is not done */
	uint32_t opens, parts, exclusives;
	bool exclusive_runs;

	uint64_t split_next;
	uint64_t *enough; /* a path: what lies behind it is not wanted; NULL: none */
	uint64_t *enough_path;

	/* The books. Σ grant + kept = granted; Σ bytes of chunks in memory = resident. */
	int64_t granted, resident, workers, spilled, excess;
	int64_t swings;  /* what workers had more a moment ago, and will have again */
	int64_t freeing; /* of these, what spills and revoked grants under way will free */
	uint64_t milli_cpus, milli_gpus, cpus_taken, gpus_taken;
	int64_t held_bytes_max;
	uint32_t asking, turning, pausing, rooms_asked, io_pending, lanes_running, workers_dying;
	uint32_t asker; /* the oldest that waits for memory; NO_ITEM: not known. Who waits does not move */
	uint32_t rebuild_count, lost_count;
	bool trimmed;

	int ending; /* WEIR_OK while it goes well */
	char reason[320];
	struct weir_run culprit; /* attempt 0: none */
	uint64_t culprit_split;
	struct weir_core_stats stats;

	/* Of the current step. */
	uint64_t now;
	struct weir_actions *out;
};

static inline struct item *item_at(const struct weir_core *core, uint32_t index)
{
	return (struct item *)(void *)(core->items + (size_t)index * core->item_size);
}

static inline uint64_t item_chunk(const struct weir_core *core, uint32_t index)
{
	return (uint64_t)item_at(core, index)->generation << 32 | index;
}

static inline struct weir_run item_run(const struct weir_core *core, uint32_t index)
{
	const struct item *item = item_at(core, index);

	return (struct weir_run){.stage = item->stage,
				 .task = item->stage                      ? item_chunk(core, index)
					 : item->rebuild == WEIR_NO_CHUNK ? item->path[0]
									  : item->split,
				 .attempt = item->attempt,
				 .number = item->number - (item->number > 0)};
}

static inline bool is_lanes(const struct stage *stage)
{
	return stage->spec.kind == WEIR_STAGE_LANES;
}

static inline uint32_t *slot_flight(const struct stage *stage, uint32_t slot)
{
	return stage->flight + (size_t)slot * stage->flight_max;
}

static inline void emit(struct weir_core *core, struct weir_action action)
{
	WEIR_ASSERT(core->out->count < core->out->capacity);
	core->out->items[core->out->count++] = action;
}

/* items.c */
int weir_exec_items_reserve(struct weir_core *core, struct weir_error *err);
uint32_t weir_exec_item_new(struct weir_core *core, uint32_t stage);
void weir_exec_item_free(struct weir_core *core, uint32_t index); /* the record alone */
void weir_exec_item_place(struct weir_core *core, uint32_t index, enum item_place place);
uint32_t weir_exec_item_find(const struct weir_core *core, uint64_t chunk); /* NO_ITEM: gone */
int weir_exec_position_compare(const struct weir_core *core, const uint64_t *a, const uint64_t *b);
bool weir_exec_item_before(const struct weir_core *core, uint32_t a, uint32_t b);
void weir_exec_heap_push(struct weir_core *core, struct heap *heap, uint32_t index);
uint32_t weir_exec_heap_pop(struct weir_core *core, struct heap *heap);
void weir_exec_heap_filter(struct weir_core *core, struct heap *heap, bool (*keep)(struct weir_core *, uint32_t));

/* order.c */
void weir_exec_list(struct weir_core *core, uint32_t index, uint32_t at); /* before `at`; NO_ITEM: at the end */
void weir_exec_unlist(struct weir_core *core, uint32_t index); /* if it is listed; its neighbours may now meet */
void weir_exec_unlink(struct weir_core *core, uint32_t index);
/* The oldest that is not done in stages 0 … `stage_last`; NO_ITEM: nothing. */
uint32_t weir_exec_oldest(const struct weir_core *core, uint32_t stage_last);
uint32_t weir_exec_front(const struct weir_core *core); /* the oldest of all, deliveries included */

/* bundle.c */
bool weir_exec_bundles(const struct weir_core *core, uint32_t stage);
uint32_t weir_exec_bundle_head(const struct weir_core *core, uint32_t index);
void weir_exec_bundle_open(struct weir_core *core, uint32_t index); /* a chunk accepted for the first time */
void weir_exec_bundle_look(struct weir_core *core, uint32_t index); /* NO_ITEM: nothing. Something changed behind it */
bool weir_exec_bundle_force(struct weir_core *core);                /* the front goes with what there is */
/* All of a bundle, its first and its parts: for (i = head; i != NO_ITEM; i = weir_exec_bundle_next(core, head, i)) */
uint32_t weir_exec_bundle_next(const struct weir_core *core, uint32_t head, uint32_t index);

/* spill.c */
void weir_exec_spill_track(struct weir_core *core, uint32_t index); /* its state or its place has changed */
/* The chunk behind `behind` that will be needed last; NO_ITEM: there is none. */
uint32_t weir_exec_spill_candidate(struct weir_core *core, uint32_t behind);

/* memory.c */
int64_t weir_exec_room(const struct weir_core *core); /* bytes that may still be given out; negative under pressure */
void weir_exec_books_changed(struct weir_core *core);
void weir_exec_grant_returned(struct weir_core *core, struct slot *slot, struct item *item, int64_t bytes);
void weir_exec_grant_end(struct weir_core *core, struct slot *slot, struct item *item, int64_t kept);
void weir_exec_chunk_free(struct weir_core *core, uint32_t index); /* memory or file, and the record; later under I/O */
bool weir_exec_serve_asks(struct weir_core *core);
bool weir_exec_older_waits(const struct weir_core *core, uint32_t index); /* for memory; NO_ITEM is younger than all */
bool weir_exec_restore(struct weir_core *core, uint32_t index);           /* when there is room */
/* Whether the front, which waits for a worker, is to wait for what is lent before it begins. */
bool weir_exec_start_waits(const struct weir_core *core, uint32_t index);
void weir_exec_help_front(struct weir_core *core);
void weir_exec_room_asked(struct weir_core *core, const struct weir_event *event); /* by a worker, for outputs */
void weir_exec_room_answered(struct weir_core *core, struct slot *slot);           /* or not wanted any more */
void weir_exec_relieve(struct weir_core *core);
/* Has everything go that can, for a batch that is to have all memory. False: some of it is still on its way. */
bool weir_exec_clear_for(struct weir_core *core, uint32_t front);
bool weir_exec_memory_is_taken(const struct weir_core *core); /* such a batch runs, or is the front */
void weir_exec_spilled(struct weir_core *core, const struct weir_event *event);
void weir_exec_restored(struct weir_core *core, const struct weir_event *event);
void weir_exec_measured(struct weir_core *core, const struct weir_event *event);
void weir_exec_swing(struct weir_core *core, struct slot *slot, int64_t bytes); /* beyond what is booked of it */
void weir_exec_assume(struct stage *stage, int64_t bytes, int64_t rows);        /* such a chunk came for it */

/* lanes.c */
void weir_exec_wait_begin(struct weir_core *core, struct slot *slot, enum slot_wait wait);
void weir_exec_wait_end(struct weir_core *core, struct stage *stage, struct slot *slot);
void weir_exec_give_up(struct weir_core *core, uint32_t index);
void weir_exec_stop_task(struct weir_core *core, uint32_t index);
void weir_exec_ask(struct weir_core *core, const struct weir_event *event);
void weir_exec_return(struct weir_core *core, const struct weir_event *event);
void weir_exec_wait_turn(struct weir_core *core, const struct weir_event *event);
void weir_exec_output(struct weir_core *core, const struct weir_event *event);
void weir_exec_task_done(struct weir_core *core, const struct weir_event *event);
void weir_exec_task_failed(struct weir_core *core, const struct weir_event *event);
void weir_exec_enough(struct weir_core *core, const struct weir_event *event);
/* The item that runs in the slot with this run; NO_ITEM: the message is stale. */
uint32_t weir_exec_running(const struct weir_core *core, const struct weir_event *event);
void weir_exec_task_lost(struct weir_core *core, uint32_t index); /* its worker died: it waits again */
void weir_exec_worker_resume(struct weir_core *core, uint32_t stage, uint32_t slot); /* if it was paused */
void weir_exec_flight_remove(struct weir_core *core, uint32_t index);

/* pool.c */
void weir_exec_worker_start(struct weir_core *core, uint32_t stage, uint32_t slot);
void weir_exec_slot_ready(struct weir_core *core, const struct weir_event *event);
void weir_exec_slot_died(struct weir_core *core, const struct weir_event *event);
uint32_t weir_exec_worker_for(struct weir_core *core, uint32_t stage, uint32_t index); /* WEIR_NO_SLOT: none now */
bool weir_exec_pool_grow(struct weir_core *core, uint32_t stage);
bool weir_exec_pool_shrink(struct weir_core *core); /* false: no worker can be let go */
void weir_exec_pool_idle(struct weir_core *core, uint32_t stage,
			 uint32_t slot); /* measured, and it had nothing to do */
void weir_exec_repeat_alone(struct weir_core *core, uint32_t index);
bool weir_exec_pool_over(struct weir_core *core); /* stops a worker that grew; false: none can be */
bool weir_exec_pool_yield(
	struct weir_core *core); /* ends one that waits for memory or for work; false: there is none */
void weir_exec_pool_begin(struct weir_core *core, uint32_t stage);

/* flow.c */
uint32_t weir_exec_capacity(const struct weir_core *core, uint32_t stage); /* of the queue in front of a stage */
uint32_t weir_exec_waiting(const struct weir_core *core, uint32_t stage);  /* what counts against it */
/* Whether it stands before all that wait there: then it is not they who hold it back, but it them. */
bool weir_exec_passes(const struct weir_core *core, uint32_t stage, uint32_t index);
void weir_exec_accept(struct weir_core *core, uint32_t index); /* into the queue of its stage */
void weir_exec_settle(struct weir_core *core);
bool weir_exec_front_moves(const struct weir_core *core); /* something will be heard of it without anybody's doing */
void weir_exec_slot_taken(struct weir_core *core, struct stage *stage, struct slot *slot);
void weir_exec_slot_left(struct weir_core *core, struct stage *stage, struct slot *slot); /* it has nothing any more */

/* policy.c */
/* index NO_ITEM: a new split. What does not agree is kept as the stage's reason to wait. */
bool weir_exec_policies_agree(struct weir_core *core, uint32_t stage, uint32_t index);
void weir_exec_held_back(struct weir_core *core, uint32_t stage, enum weir_wait by);
uint64_t weir_exec_waited(const struct weir_core *core, uint32_t stage, uint64_t since); /* for that stage */
bool weir_exec_resources_left(const struct weir_core *core, uint32_t stage);             /* for one more busy slot */
int64_t weir_exec_start_need(const struct weir_core *core, uint32_t stage, uint32_t index);

/* core.c */
/* `index`: the task that is to blame, or NO_ITEM. */
void weir_exec_fail(struct weir_core *core, uint32_t index, int code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
