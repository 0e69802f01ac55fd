/* Tasks of several chunks. What a task makes is what each of its chunks would have made by itself, one after another,
 * so the expected result does not depend on what was bundled with what; only the places under which the core knows the
 * outputs do.
 *
 * A bundle must be neighbours, in order, and have its rows, but where nothing more could be put behind it. When that
 * was so is noted chunk by chunk as the world goes on, from the world's own records. */
#include "backend/sim/sim_impl.h"

#include <stdlib.h>
#include <string.h>

enum { LOOKED_AT_MAX = 96 }; /* where more is alive, short bundles are let pass: looking would take too long */

bool sim_bundles(const struct world *world, uint32_t stage)
{
	return stage > 0 && stage < world->config.options.stage_count && world->config.stages[stage].rows_min > 0;
}

struct chunk *sim_part(struct world *world, struct chunk *head, uint32_t part)
{
	if (part == 0)
		return head;
	for (size_t i = 0; head->bundle && i < world->chunks.count; i++)
		if (world->chunks.items[i].bundle == head->bundle && world->chunks.items[i].part == part)
			return &world->chunks.items[i];
	return NULL;
}

void sim_task_script(struct world *world, struct chunk *head, struct script *out)
{
	struct script one;
	struct chunk *chunk;

	sim_script(&world->config, &head->origin, out);
	for (uint32_t part = 1; (chunk = sim_part(world, head, part)) != NULL; part++) {
		sim_script(&world->config, &chunk->origin, &one);
		out->output_count += one.output_count;
		out->enough |= one.enough;
		out->fails |= one.fails;
		out->poison |= one.poison;
		out->user_fails = one.user_fails > out->user_fails ? one.user_fails : out->user_fails;
	}
}

bool sim_task_output(struct world *world, struct chunk *head, uint32_t output, struct place *of, uint32_t *number)
{
	struct script one;
	struct chunk *chunk;

	for (uint32_t part = 0; (chunk = sim_part(world, head, part)) != NULL; part++) {
		sim_script(&world->config, &chunk->origin, &one);
		if (output < one.output_count) {
			*of = chunk->origin;
			*number = output;
			return true;
		}
		output -= one.output_count;
	}
	return false;
}

static void note_left_out(struct world *world, struct place place)
{
	if (weir_list_push(&world->left_out, world->account, &world->err, place))
		sim_broken(world, "no memory", __LINE__);
}

/* The task failed for good in user code. What was accepted of it before stays. */
void sim_leave_out(struct world *world, struct chunk *head)
{
	struct script script;
	struct chunk *chunk;
	struct place place;
	uint32_t number;

	world->result->seen |= WEIR_SIM_LEFT_OUT;
	if (head->place.length == world->config.options.stage_count && !world->config.options.consumer) {
		for (uint32_t part = 0; (chunk = sim_part(world, head, part)) != NULL; part++)
			note_left_out(world, chunk->origin);
		return;
	}
	sim_task_script(world, head, &script);
	for (uint32_t i = head->kept; i < script.output_count; i++)
		if (sim_task_output(world, head, i, &place, &number)) {
			place.at[place.length++] = number;
			note_left_out(world, place);
		}
}

/* --- neighbours --- */

struct alive {
	struct place at;
	uint32_t stage;
	struct chunk *fresh; /* waits and was never started */
};

static int compare_alive(const void *a, const void *b)
{
	return sim_place_compare(&((const struct alive *)a)->at, &((const struct alive *)b)->at);
}

/* All that is not done, in order. Returns LOOKED_AT_MAX + 1 when it is too much. */
static uint32_t alive(struct world *world, struct alive *out)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < world->splits_cut; i++) {
		struct place at = {.length = 1, .at = {i, world->splits[i].kept}};

		if (world->splits[i].done || sim_behind_enough(world, &at))
			continue;
		if (count == LOOKED_AT_MAX)
			return LOOKED_AT_MAX + 1;
		out[count++] = (struct alive){.at = at};
	}
	for (size_t i = 0; i < world->chunks.count; i++) {
		struct chunk *chunk = &world->chunks.items[i];
		struct place at = sim_position(&chunk->place, chunk->kept);

		if (chunk->done || chunk->doomed || chunk->held || sim_behind_enough(world, &at))
			continue;
		if (count == LOOKED_AT_MAX)
			return LOOKED_AT_MAX + 1;
		out[count] = (struct alive){.at = at, .stage = chunk->place.length - 1};
		if (!chunk->bundle && !chunk->running && !chunk->delivered && sim_bundles(world, out[count].stage))
			out[count].fresh = chunk;
		count++;
	}
	qsort(out, count, sizeof(*out), compare_alive);
	return count;
}

static bool nothing_can_follow(struct world *world, const struct alive *all, uint32_t count, uint32_t at)
{
	if (at + 1 == count)
		return world->cut_end || world->enough_seen;
	if (world->config.stages[all[at].stage].by_split && all[at + 1].at.at[0] != all[at].at.at[0])
		return true;
	return all[at + 1].stage > all[at].stage || (all[at + 1].stage == all[at].stage && !all[at + 1].fresh);
}

/* The front, and what waits directly behind it, when nothing moves that could bring more. */
static void note_front(struct world *world, const struct alive *all, uint32_t count)
{
	if (count == 0 || !all[0].fresh || sim_upstream_moves(world, all[0].stage))
		return;
	for (uint32_t i = 0; i < count && all[i].fresh && all[i].stage == all[0].stage; i++)
		all[i].fresh->may_be_short = true;
}

void sim_note_bundles(struct world *world)
{
	struct alive all[LOOKED_AT_MAX];
	bool any = false;
	uint32_t count;

	for (uint32_t s = 0; s < world->config.options.stage_count; s++)
		any |= sim_bundles(world, s);
	if (!any)
		return;
	count = alive(world, all);
	if (count > LOOKED_AT_MAX) {
		for (size_t i = 0; i < world->chunks.count; i++)
			world->chunks.items[i].may_be_short = true;
		return;
	}
	note_front(world, all, count);
	for (uint32_t i = 0; i < count; i++)
		if (all[i].fresh && nothing_can_follow(world, all, count, i))
			all[i].fresh->may_be_short = true;
}

/* A bundle with too few rows: something at its end must have been the reason. */
static void check_short(struct world *world, struct chunk *head, struct chunk *last, int64_t bytes)
{
	const struct weir_stage_spec *spec = &world->config.stages[head->place.length - 1];
	int64_t max = spec->rows_max_bytes ? spec->rows_max_bytes : world->budget_min / 2, rows = 0;
	struct alive all[LOOKED_AT_MAX];
	uint32_t count = alive(world, all), at = 0;

	if (count > LOOKED_AT_MAX)
		return;
	note_front(world, all, count);
	while (at < count && all[at].fresh != last)
		at++;
	if (at + 1 < count && all[at + 1].stage < all[at].stage && last->may_be_short)
		world->result->seen |= WEIR_SIM_SHORT;
	if (at == count || nothing_can_follow(world, all, count, at) || last->may_be_short || head->may_be_short)
		return;
	for (at++; at < count && all[at].fresh && all[at].stage + 1 == head->place.length; at++) {
		if (all[at].fresh->may_be_short || (spec->by_split && all[at].fresh->place.at[0] != head->place.at[0]))
			return;
		rows += all[at].fresh->rows;
		bytes += all[at].fresh->bytes;
	}
	PROMISE(world, rows >= spec->rows_min || bytes > max, "a task with too few rows, though more can come");
}

/* Whether a chunk that waits, with those that wait before it, may be in a bundle that begins in another split: what
 * comes of it will be there. */
static bool may_be_elsewhere(const struct world *world, const struct alive *all, uint32_t at, uint64_t split)
{
	if (!all[at].fresh || world->config.stages[all[at].stage].by_split)
		return false;
	while (at > 0 && all[at - 1].fresh && all[at - 1].stage == all[at].stage)
		at--;
	return all[at].at.at[0] != split;
}

/* Where bundles do not depend on who is ready first, one starts when nothing is to come before that could have it join;
 * where splits stay apart, nothing of its own. */
static void check_first(struct world *world, const struct weir_stage_spec *spec, const struct chunk *head)
{
	struct alive all[LOOKED_AT_MAX];
	uint32_t count = alive(world, all), at = 0;
	/* one in between was started, or what comes of the other will be elsewhere, since it is a part */
	bool apart = false;

	while (count <= LOOKED_AT_MAX && at < count && all[at].fresh != head)
		at++;
	/* What was made before it may have gone by itself meanwhile, and kept them apart. */
	if (count > LOOKED_AT_MAX || at == 0 || at == count || head->place.at[head->place.length - 1] > 0 ||
	    all[at - 1].at.at[0] + 1 < head->place.at[0])
		return;
	for (size_t i = 0; i < world->chunks.count; i++) {
		const struct chunk *other = &world->chunks.items[i];

		apart |= other->place.length >= head->place.length &&
			 sim_place_compare(&all[at - 1].at, &other->place) < 0 &&
			 sim_place_compare(&other->place, &head->place) < 0;
		/* Such a bundle stays what it is when it is tried again. */
		apart |= other->part > 0 && sim_place_compare(&other->place, &all[at - 1].at) <= 0 &&
			 other->place.length == all[at - 1].stage + 1 && !other->done;
	}
	apart |= spec->by_split && may_be_elsewhere(world, all, at - 1, head->place.at[0]);
	PROMISE(world,
		apart || (spec->by_split && all[at - 1].at.at[0] != head->place.at[0]) ||
			all[at - 1].stage >= all[at].stage,
		"a bundle that something to come before may have joined");
}

static void check_neighbours(struct world *world, const struct chunk *a, const struct chunk *b)
{
	PROMISE(world, sim_place_compare(&a->place, &b->place) < 0, "a bundle out of order");
	for (uint32_t i = 0; i < world->splits_cut; i++) {
		struct place at = {.length = 1, .at = {i, world->splits[i].kept}};

		PROMISE(world,
			world->splits[i].done || sim_behind_enough(world, &at) ||
				sim_place_compare(&at, &a->place) < 0 || sim_place_compare(&at, &b->place) > 0,
			"a bundle between whose chunks others will come");
	}
	for (size_t i = 0; i < world->chunks.count; i++) {
		const struct chunk *other = &world->chunks.items[i];
		struct place at = sim_position(&other->place, other->kept);

		PROMISE(world,
			other == a || other == b || other->done || other->doomed || other->held ||
				sim_behind_enough(world, &at) || sim_place_compare(&at, &a->place) < 0 ||
				sim_place_compare(&at, &b->place) > 0,
			"a bundle between whose chunks others lie");
	}
}

void sim_check_bundle(struct world *world, const struct weir_action *action, struct chunk *head)
{
	const struct weir_stage_spec *spec = &world->config.stages[action->stage];
	int64_t rows = head->rows, bytes = head->bytes;
	struct chunk *last = head;

	PROMISE(world, world->parts.count == 0 || spec->rows_min > 0, "a bundle where none is wanted");
	if (head->bundle) {
		PROMISE(world, !sim_part(world, head, (uint32_t)world->parts.count + 1), "a bundle that lost a chunk");
		for (uint32_t i = 0; i < world->parts.count; i++) {
			struct chunk *chunk = sim_part(world, head, i + 1);

			PROMISE(world, chunk && chunk->id == world->parts.items[i], "a bundle that has changed");
		}
		return;
	}
	for (uint32_t i = 0; i < world->parts.count; i++) {
		struct chunk *chunk = sim_chunk(world, world->parts.items[i]);

		if (!chunk) {
			sim_broken(world, "a part that is gone", __LINE__);
			return;
		}
		PROMISE(world, !chunk->bundle, "a chunk in two bundles");
		PROMISE(world, !spec->by_split || chunk->place.at[0] == head->place.at[0],
			"a bundle of several splits");
		check_neighbours(world, last, chunk);
		rows += chunk->rows;
		bytes += chunk->bytes;
		last = chunk;
	}
	if (spec->rows_min > 0) {
		if (world->parts.count > 0)
			world->result->seen |= WEIR_SIM_BUNDLE;
		if (world->parts.count > 0 && spec->rows_max_bytes > 0)
			PROMISE(world, bytes <= spec->rows_max_bytes, "a bundle that is too large");
		if (rows < spec->rows_min)
			check_short(world, head, last, bytes);
		if (spec->in_order ||
		    ((spec->by_split || spec->from_first) && (rows < spec->rows_min || world->parts.count > 0) &&
		     head->rows < spec->rows_min))
			check_first(world, spec, head);
	}
	head->bundle = ++world->bundles;
	for (uint32_t i = 0; i < world->parts.count; i++) {
		struct chunk *chunk = sim_chunk(world, world->parts.items[i]);

		chunk->bundle = world->bundles;
		chunk->part = i + 1;
	}
}
