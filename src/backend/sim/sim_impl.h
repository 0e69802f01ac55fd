/* sim_impl: the world of one seed, shared by the files of this folder.
 *
 *     plan.c    what the seed decides before the run: stages, sizes, faults, each task's script
 *     world.c   what happens in time: the future, the core's actions, disk and consumer
 *     slots.c   lanes and workers
 *     model.c   the books, and what the core's actions are held against
 *     tasks.c   what a task does when it has several chunks; which chunks may become one
 */
#ifndef WEIR_BACKEND_SIM_SIM_IMPL_H
#define WEIR_BACKEND_SIM_SIM_IMPL_H

#include "exec/exec.h"
#include "backend/sim/sim.h"

enum {
	SIM_STAGES_MAX = 4,
	SIM_LANES_MAX = 64,
	SIM_WORKERS_MAX = 32,
	SIM_FLIGHT_MAX = 3,
	SIM_SPLITS_MAX = 2000,
	SIM_DEPTH = SIM_STAGES_MAX + 2,
	SIM_STEPS_MAX = 400000, /* a run that is not over by then never will be */
};

struct random {
	uint64_t state;
};

/* splitmix64: small, and the same on every machine. */
static inline uint64_t sim_mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline uint64_t random_next(struct random *random)
{
	return sim_mix(random->state += 0x9e3779b97f4a7c15u);
}

static inline uint64_t random_below(struct random *random, uint64_t n)
{
	return n ? random_next(random) % n : 0;
}

struct place { /* a path, and at `length` the outputs made; zeros behind */
	uint64_t at[SIM_DEPTH];
	uint32_t length;
};

/* What one task does, by its path alone: the same in every attempt. */
struct script {
	uint32_t ask_count, output_count;
	bool turn, enough, fails, poison;
	uint32_t user_fails; /* attempts in which user code raises; UINT32_MAX: always */
};

struct config {
	uint64_t seed;
	struct weir_core_options options;
	struct weir_stage_spec stages[SIM_STAGES_MAX];
	uint32_t split_count;
	uint32_t outputs_max;
	uint32_t giant_permille; /* tasks that ask for more than is there */
	uint32_t fail_permille, poison_permille, enough_permille;
	uint32_t death_percent, own_percent, memory_percent, late_percent, repeat_percent;
	uint32_t spill_fail_percent, corrupt_percent, allocation_permille, measure_percent, worker_grows_percent;
	uint32_t splits_known_percent; /* splits that say what they need */
	uint32_t late_cut_percent;     /* splits that are there some time after they were asked for */
	uint32_t rows_max;             /* of one chunk */
	uint32_t user_permille, budget_percent, runaway_percent;
	uint64_t cancel_at;    /* UINT64_MAX: never */
	uint64_t faults_until; /* steps */
	uint64_t pause_max;    /* of the consumer */
	uint64_t straggler_permille;
	bool ordered_sink;
	bool rooms;    /* workers ask before they make more than they were allowed */
	bool lockstep; /* everything takes equally long: all lanes ask at once */
	int64_t unit;  /* sizes are around this */
};

enum lane_wait { LANE_RUNS, LANE_ASKS, LANE_TURN, LANE_RESUME };

struct lane {
	bool up, stopped, busy, stop;
	bool give_up, unwinding; /* told to; it waited, so it does so now, not at its next wait */
	enum lane_wait wait;
	uint32_t token; /* of the continuation that counts */
	uint32_t asks_done, outputs_done;
	bool turn_done, enough_done;
	struct weir_run run;
	struct place place;
	uint64_t chunk;
	struct script script;
	int64_t grant, asked, kept;
};

struct batch { /* one in a worker's hands */
	struct weir_run run;
	uint64_t chunk;
	int64_t allowance, held, held_rows;
	int64_t asked; /* room for an output that it waits for; 0: none */
	uint32_t asks; /* in vain, one after another */
	uint32_t outputs_done;
	bool stop, paused;
};

struct worker {
	enum { WORKER_NONE, WORKER_STARTING, WORKER_UP, WORKER_DEAD } state;
	bool counted, stopped, alone, killed, retiring, over;
	int64_t swing;
	bool is_short; /* it came up with too little memory for what it runs */
	uint32_t generation, given, count;
	int64_t memory;
	struct batch batches[SIM_FLIGHT_MAX];
};

struct split {
	bool done, dropped;
	uint32_t running; /* by an ordinary attempt */
	uint32_t kept;    /* outputs that the core has */
	uint32_t lost;    /* of these, how many came back corrupt and are being made again */
};

struct chunk {
	uint64_t id;
	/* as the core counts: below the first chunk of its maker. Stage of its task = place.length − 1 */
	struct place place;
	struct place origin; /* below the chunk that it was really made of: equal in every run of the seed */
	int64_t bytes, rows;
	uint64_t bundle;   /* those with one number are one task, from their first start on; 0: not yet */
	uint32_t part;     /* its place in there */
	bool may_be_short; /* at some moment nothing could be put behind it any more */
	enum { CHUNK_RESIDENT, CHUNK_SPILLING, CHUNK_SPILLED, CHUNK_RESTORING, CHUNK_LOST } where;
	bool held;   /* its maker's batch is not done */
	bool doomed; /* its maker died, or it lies behind enough */
	bool running, done, delivered, unspillable;
	bool alone;     /* must have a fresh worker to itself */
	bool exclusive; /* and no other worker may be busy */
	uint32_t own_deaths, kills, forgiven, others, losses, kept, user_failures;
	int64_t rows_kept; /* of workers: of those kept by number */
	struct weir_run maker;
};

struct moment {
	uint64_t at, order;
	enum { LANE_GOES, WORKER_GOES, WORKER_DIES, MESSAGE, DISK_DONE, CONSUMER_TAKES, LENT_BACK, SPLIT_COMES } kind;
	uint32_t stage, slot, generation, token;
	uint64_t chunk;
	struct weir_event event;
	bool repeat;
};

struct moments WEIR_LIST(struct moment);
struct chunks WEIR_LIST(struct chunk);
struct places WEIR_LIST(struct place);
struct numbers WEIR_LIST(uint64_t);

struct world {
	struct config config;
	struct weir_account *account;
	struct weir_account core_account;
	struct weir_error err;
	struct weir_core *core;
	struct random random;
	FILE *trace;
	struct weir_sim_result *result;
	uint64_t now, order;
	struct moments future;
	struct lane lanes[SIM_STAGES_MAX][SIM_LANES_MAX];
	struct worker workers[SIM_STAGES_MAX][SIM_WORKERS_MAX];
	struct split *splits;
	uint32_t splits_cut;
	bool cut_end, cutting;
	struct chunks chunks;
	struct places accepted; /* what reached the sink or the consumer */
	struct places left_out; /* what user code's errors cost */
	struct numbers parts;   /* named by TASK_PART for the next start */
	uint64_t bundles;
	bool faults;

	/* The books. */
	int64_t budget, budget_min, excess;
	int64_t swings; /* what workers had and will have again */
	int64_t granted, resident, workers_memory;
	int64_t arriving; /* of the output that the core is told of now */
	int64_t estimate[SIM_STAGES_MAX], peak[SIM_STAGES_MAX];
	bool assumes[SIM_STAGES_MAX];        /* the estimate is by the size of a chunk */
	uint64_t tasks_done[SIM_STAGES_MAX]; /* by workers */
	uint64_t task_ns[SIM_STAGES_MAX];    /* of late; 0: not known */
	uint32_t depth[SIM_STAGES_MAX];      /* tasks that a worker may have in its hands */
	uint64_t errored[SIM_STAGES_MAX];
	struct place enough, enough_origin; /* what lies at or behind it is not wanted */
	bool enough_seen, turn_seen;
	bool cramped[SIM_STAGES_MAX]; /* a worker had too little memory to begin with, beside others */
	int cause;                    /* the first thing that must end the run; 0: nothing yet */
	bool winding_down;            /* the core has begun to stop everything */
	bool ended;
	struct weir_event told; /* the last BUDGET: what is apart and lent */
	uint32_t consumer_holds, deaths_before_up[SIM_STAGES_MAX];
	struct place delivered_last, delivered_origin;
	bool delivered_any;
	uint64_t stage_kills[SIM_STAGES_MAX];
};

/* room.c */
void sim_check_room(struct world *world, const struct weir_action *action); /* given to a worker */
void sim_check_refused(struct world *world, const struct worker *worker);
void sim_check_nobody_waits(struct world *world, const struct chunk *restored);
void sim_check_cleared(struct world *world, const struct chunk *restored);
void sim_check_lanes_have_none(struct world *world);
void sim_check_beside_all(struct world *world, const struct lane *lane);

/* plan.c */
void sim_plan(struct config *config, uint64_t seed);
void sim_script(const struct config *config, const struct place *place, struct script *out);
int64_t sim_output_bytes(const struct config *config, const struct place *place, uint32_t output);
int64_t sim_output_rows(const struct config *config, const struct place *place, uint32_t output);
int64_t sim_ask_bytes(const struct config *config, const struct place *place, uint32_t ask);
int64_t sim_split_need(const struct config *config, uint64_t split);
/* Counts and sums, over all that should reach the end, whatever lies before `end` (NULL: everything). */
void sim_expected(const struct config *config, const struct place *end, uint64_t *count, uint64_t *sum);
void sim_expected_of(const struct config *config, const struct place *place, const struct place *end, uint64_t *count,
		     uint64_t *sum); /* adds what becomes of one thing */
uint64_t sim_place_hash(const struct place *place);
int sim_place_compare(const struct place *a, const struct place *b);

/* model.c */
#define PROMISE(world, condition, text)                                                                                \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			sim_broken((world), (text), __LINE__);                                                         \
	} while (0)
void sim_broken(struct world *world, const char *text, int line);
struct chunk *sim_chunk(struct world *world, uint64_t id); /* NULL: gone */
struct chunk *sim_chunk_new(struct world *world);
void sim_chunk_gone(struct world *world, struct chunk *chunk);
int64_t sim_used(const struct world *world);
int64_t sim_overdraft(const struct world *world); /* how far the oldest may go */
struct place sim_position(const struct place *place, uint32_t kept);
bool sim_oldest(const struct world *world, uint32_t stage_last, struct place *out);
bool sim_is_front(const struct world *world, const struct place *place);
bool sim_upstream_moves(const struct world *world, uint32_t stage);
struct place sim_lane_position(const struct world *world, const struct lane *lane);
bool sim_behind_enough(const struct world *world, const struct place *place);
bool sim_chunk_unwanted(const struct world *world, const struct chunk *chunk);
void sim_check_start(struct world *world, const struct weir_action *action);
void sim_check_grant(struct world *world, const struct weir_action *action);
void sim_check_cut(struct world *world);
void sim_check_resume(struct world *world, const struct weir_action *action);
void sim_check_worker_start(struct world *world, const struct weir_action *action);
void sim_check_limit(struct world *world);
void sim_check_begin(struct world *world);
void sim_check_retire(struct world *world, const struct weir_action *action);
void sim_check_parked(struct world *world);
void sim_check_busy(struct world *world);
void sim_check_turn(struct world *world, const struct weir_action *action);
void sim_check_output(struct world *world, const struct weir_action *action, const struct weir_event *event);
void sim_check_restore(struct world *world, const struct weir_action *action);
void sim_check_pause(struct world *world, const struct weir_action *action);
void sim_check_spill(struct world *world, const struct weir_action *action);
void sim_check_free(struct world *world, const struct weir_action *action);
void sim_check_deliver(struct world *world, const struct weir_action *action);
void sim_check_end(struct world *world, const struct weir_action *action);
void sim_wound_down(struct world *world);

/* tasks.c */
struct chunk *sim_part(struct world *world, struct chunk *head, uint32_t part); /* NULL: it has no more */
void sim_task_script(struct world *world, struct chunk *head, struct script *out);
/* The thing that output number `output` of the task is, by origin, with the place it is made of. */
bool sim_task_output(struct world *world, struct chunk *head, uint32_t output, struct place *of, uint32_t *number);
bool sim_bundles(const struct world *world, uint32_t stage);
void sim_check_bundle(struct world *world, const struct weir_action *action, struct chunk *head);
void sim_note_bundles(struct world *world);
void sim_leave_out(struct world *world, struct chunk *head);

/* world.c */
bool sim_chance(struct world *world, uint32_t percent);
bool sim_fault(struct world *world, uint32_t percent); /* never in the second phase */
uint64_t sim_soon(struct world *world);
void sim_will_happen(struct world *world, uint64_t after, struct moment moment);
void sim_tell(struct world *world, struct weir_event event, bool stale);
void sim_swing(struct world *world, struct worker *worker, int64_t bytes); /* what it had more and will have again */
void sim_say(struct world *world, struct weir_event event);                /* and again later, at times */

/* slots.c */
void sim_lane_goes_on(struct world *world, uint32_t stage, uint32_t slot);
void sim_lane_goes(struct world *world, uint32_t stage, uint32_t slot);
void sim_worker_goes_on(struct world *world, uint32_t stage, uint32_t slot);
void sim_worker_goes(struct world *world, uint32_t stage, uint32_t slot);
void sim_worker_dies(struct world *world, uint32_t stage, uint32_t slot, enum weir_death death);

static inline bool sim_is_lanes(const struct world *world, uint32_t stage)
{
	return world->config.stages[stage].kind == WEIR_STAGE_LANES;
}

#endif
