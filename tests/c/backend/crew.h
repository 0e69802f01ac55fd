/* A pool of test workers and what it says, for tests that need no executor. */
#ifndef WEIR_TESTS_BACKEND_CREW_H
#define WEIR_TESTS_BACKEND_CREW_H

#include "backend/support.h"
#include "base/clock.h"
#include "backend/local/pool.h"

enum { CREW_STAGE = 2, CREW_SLOTS = 4 };

struct crew {
	struct fixture *f;
	struct source source;
	struct weir_pool *pool;
	int setup;
	struct weir_pool_events said;
	size_t heard;
	uint32_t generations[CREW_SLOTS];
};

static inline void crew_begin_with(struct crew *crew, struct fixture *f, const char *setup,
				   struct weir_pool_options options)
{
	*crew = (struct crew){.f = f};
	fixture_store(f, (struct weir_store_options){0});
	source_init(&crew->source, f->account, &f->err);
	crew->setup = setup_of(setup);
	options.store = f->store;
	options.stage = CREW_STAGE;
	options.slots = CREW_SLOTS;
	options.setup = crew->setup;
	options.setup_size = strlen(setup);
	options.region_size = 64000001; /* any number */
	assert_int_equal(weir_pool_new(f->account, &options, &crew->pool, &f->err), 0);
}

static inline void crew_begin(struct crew *crew, struct fixture *f, const char *setup,
			      const struct weir_launcher *launcher, struct weir_prints *prints)
{
	crew_begin_with(crew, f, setup, (struct weir_pool_options){.launcher = launcher, .prints = prints});
}

static inline void crew_end(struct crew *crew)
{
	for (; crew->heard < crew->said.count; crew->heard++)
		weir_chunk_unref(crew->said.items[crew->heard].chunk);
	weir_pool_free(crew->pool);
	weir_list_release(&crew->said, crew->f->account);
	source_release(&crew->source);
	close(crew->setup);
	assert_int_equal(crew->f->store->pinned, 0);
	assert_int_equal(crew->f->store->resident, 0);
	weir_store_free(crew->f->store);
	crew->f->store = NULL;
}

static inline int crew_try(struct crew *crew, enum weir_action_kind kind, uint32_t slot)
{
	struct weir_action action = {.kind = kind, .stage = CREW_STAGE, .slot = slot};

	action.generation = kind == WEIR_DO_START_WORKER ? ++crew->generations[slot] : crew->generations[slot];
	return weir_pool_perform(crew->pool, &action, NULL, 0, &crew->f->err);
}

static inline void crew_do(struct crew *crew, enum weir_action_kind kind, uint32_t slot)
{
	if (crew_try(crew, kind, slot)) {
		print_error("%s\n", crew->f->err.message);
		fail();
	}
}

/* The next event; kind WEIR_EV_START, which no pool says, when none comes in `timeout_ms`. */
static inline struct weir_pool_event crew_hear_for(struct crew *crew, int64_t timeout_ms)
{
	uint64_t begun = weir_clock_ns();

	while (crew->heard == crew->said.count) {
		crew->heard = crew->said.count = 0;
		if (weir_pool_wait(crew->pool, 100000000, &crew->said, &crew->f->err)) {
			print_error("%s\n", crew->f->err.message);
			fail();
		}
		if (crew->said.count == 0 && weir_clock_ns() - begun > (uint64_t)timeout_ms * 1000000)
			return (struct weir_pool_event){.event = {.kind = WEIR_EV_START}};
	}
	return crew->said.items[crew->heard++];
}

static inline struct weir_pool_event crew_hear(struct crew *crew)
{
	return crew_hear_for(crew, 30000);
}

static inline struct weir_pool_event crew_expect(struct crew *crew, enum weir_event_kind kind, uint32_t slot)
{
	struct weir_pool_event said = crew_hear(crew);

	if (said.event.kind != kind || said.event.slot != slot)
		print_error("event %d of slot %u, not %d of %u\n", (int)said.event.kind, said.event.slot, (int)kind,
			    slot);
	assert_int_equal(said.event.kind, kind);
	assert_int_equal(said.event.slot, slot);
	assert_int_equal(said.event.generation, crew->generations[slot]);
	assert_int_equal(said.event.stage, CREW_STAGE);
	return said;
}

static inline void crew_start(struct crew *crew, uint32_t slot)
{
	crew_do(crew, WEIR_DO_START_WORKER, slot);
	crew_expect(crew, WEIR_EV_SLOT_READY, slot);
}

static inline void crew_give(struct crew *crew, uint32_t slot, uint64_t task, int64_t rows)
{
	struct weir_batch *batch = batch_of(&crew->source, task, rows, &crew->f->err);
	struct weir_chunk *chunk = chunk_of_batch(crew->f->store, batch, &crew->f->err);
	struct weir_action action = {.kind = WEIR_DO_START_TASK,
				     .stage = CREW_STAGE,
				     .slot = slot,
				     .run = {.stage = CREW_STAGE, .task = task, .attempt = 1}};

	assert_int_equal(weir_pool_perform(crew->pool, &action, &(struct weir_batch_range){chunk, 0, (uint64_t)rows}, 1,
					   &crew->f->err),
			 0);
	weir_chunk_unref(chunk);
	weir_batch_unref(batch);
}

/* A batch goes there and comes back. */
static inline void crew_trip(struct crew *crew, uint32_t slot, uint64_t task)
{
	struct weir_pool_event said;

	crew_give(crew, slot, task, 300);
	said = crew_expect(crew, WEIR_EV_OUTPUT, slot);
	assert_int_equal(said.event.run.task, task);
	assert_true(chunk_is(&crew->source, said.chunk, task, 300, 0, 300, &crew->f->err));
	weir_chunk_unref(said.chunk);
	assert_int_equal(crew_expect(crew, WEIR_EV_TASK_DONE, slot).event.rows, 300);
}

#endif
