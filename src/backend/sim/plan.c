/* What a seed decides beforehand. Sizes and scripts are functions of the seed and the path alone, so a task that runs
 * again does the same again, and the expected result can be found without running anything. */
#include "backend/sim/sim_impl.h"

#include <string.h>

enum { UNIT_MIN = 1 << 16 };

static bool chance(struct random *random, uint32_t percent)
{
	return random_below(random, 100) < percent;
}

/* Mostly small, at times large. */
static uint32_t skewed(struct random *random, uint32_t max)
{
	uint32_t bits = 0;

	while (bits < 31 && (max >> bits) > 0)
		bits++;
	return (uint32_t)random_below(random, ((uint64_t)1 << (1 + random_below(random, bits)))) % (max + 1);
}

/* Each seed has some of the faults, at rates of its own: what only some faults together bring about is met that way. */
static uint32_t some(struct random *random, uint32_t max)
{
	return chance(random, 50) ? (uint32_t)random_below(random, max + 1) : 0;
}

/* What stages of user code ask for. */
static void plan_stage(struct random *random, struct config *config, struct weir_stage_spec *spec)
{
	static const uint32_t shares[] = {0, 250, 500, 1000, 2000};

	if (chance(random, 35)) {
		spec->rows_min = 1 + skewed(random, 60);
		spec->by_split = chance(random, 30);
		spec->from_first = chance(random, 30);
		spec->in_order = spec->from_first && spec->rows_min % 2;
		if (chance(random, 40))
			spec->rows_max_bytes = config->unit * (int64_t)(1 + random_below(random, 8));
	}
	if (config->options.milli_cpus)
		spec->milli_cpus = shares[random_below(random, 5)];
	if (config->options.milli_gpus)
		spec->milli_gpus = shares[random_below(random, 5)];
	if (spec->kind != WEIR_STAGE_WORKERS)
		return;
	if (chance(random, 40))
		spec->slots_first = (uint32_t)random_below(random, spec->slots + 1);
	if (chance(random, 40))
		spec->slots_min = (uint32_t)random_below(random, spec->slots + 1);
	if (chance(random, 50))
		spec->errored_max = chance(random, 30) ? -1 : (int64_t)random_below(random, 6);
	if (chance(random, 50))
		spec->user_retries = (uint32_t)random_below(random, 4);
	if (chance(random, 20))
		spec->attempts_max = (uint32_t)random_below(random, 5);
}

void sim_plan(struct config *config, uint64_t seed)
{
	struct random random = {.state = seed * 0x9e3779b97f4a7c15u + 1};
	struct random of_sizes = {.state = seed * 0xd1342543de82ef95u + 1};
	struct weir_core_options *options = &config->options;
	int64_t workers = 0;
	static const char *const names[] = {"read", "second", "third", "fourth"};

	memset(config, 0, sizeof(*config));
	config->seed = seed;
	options->stage_count = chance(&random, 45) ? 1 : 1 + (uint32_t)random_below(&random, SIM_STAGES_MAX);
	options->stages = config->stages;
	options->consumer = chance(&random, 50);
	options->preserve_order = options->consumer && chance(&random, 50);
	config->unit = UNIT_MIN << random_below(&random, 6);
	for (uint32_t s = 0; s < options->stage_count; s++) {
		struct weir_stage_spec *spec = &config->stages[s];

		spec->name = names[s];
		if (s > 0 && chance(&random, 60)) {
			spec->kind = WEIR_STAGE_WORKERS;
			spec->slots = 1 + skewed(&random, SIM_WORKERS_MAX - 1);
			spec->in_flight_max = 1 + (uint32_t)random_below(&random, SIM_FLIGHT_MAX);
			spec->in_flight_short = chance(&random, 40) ? SIM_FLIGHT_MAX : 0;
			spec->slot_memory = config->unit * (int64_t)random_below(&random, 8);
			spec->slot_times = chance(&of_sizes, 50) ? 1 + (uint32_t)random_below(&of_sizes, 4) : 0;
			spec->slot_start = config->unit * (int64_t)random_below(&of_sizes, 2);
			workers += spec->slot_memory;
		} else {
			spec->kind = WEIR_STAGE_LANES;
			spec->slots = 1 + skewed(&random, SIM_LANES_MAX - 1);
			spec->slot_memory = config->unit * (int64_t)random_below(&random, 6);
		}
	}
	config->split_count = skewed(&random, chance(&random, 4) ? SIM_SPLITS_MAX : 200);
	config->outputs_max = 1 + skewed(&random, options->stage_count > 2 ? 3 : 11);
	if (chance(&random, 15)) {
		options->budget = options->limit = INT64_MAX;
	} else {
		options->budget = workers + config->unit * (int64_t)(2 + skewed(&random, 200));
		options->limit = options->budget + (int64_t)random_below(&random, (uint64_t)options->budget / 2 + 1);
		if (chance(&random, 60))
			options->limit = options->budget * 8;
	}
	config->ordered_sink = !options->consumer && chance(&random, 50);
	config->giant_permille = chance(&random, 30) ? (uint32_t)random_below(&random, 60) : 0;
	config->fail_permille = chance(&random, 10) ? 1 + skewed(&random, 50) : 0;
	config->poison_permille = chance(&random, 10) ? 1 + skewed(&random, 50) : 0;
	config->enough_permille = chance(&random, 25) ? 1 + skewed(&random, 300) : 0;
	config->death_percent = chance(&random, 50) ? skewed(&random, 40) : 0;
	config->own_percent = chance(&random, 20) ? (uint32_t)random_below(&random, 10) : 0;
	config->memory_percent = chance(&random, 20) ? (uint32_t)random_below(&random, 5) : 0;
	config->lockstep = chance(&random, 10);
	config->late_percent = some(&random, 60);
	config->repeat_percent = some(&random, 40);
	config->spill_fail_percent = some(&random, 30);
	config->corrupt_percent = chance(&random, 40) ? skewed(&random, 30) : 0;
	config->allocation_permille = some(&random, 20);
	config->measure_percent = some(&random, 10);
	config->worker_grows_percent = some(&random, 30);
	config->splits_known_percent = some(&random, 100);
	/* nothing else changes with it */
	config->late_cut_percent = sim_mix(seed ^ 0xc075u) % 4 ? 0 : (uint32_t)(sim_mix(seed ^ 0x1a7eu) % 101);
	config->straggler_permille = some(&random, 30);
	config->cancel_at = chance(&random, 10) ? random_below(&random, 600) : UINT64_MAX;
	config->faults_until = 200 + random_below(&random, 6000);
	config->pause_max = (uint64_t)1 << random_below(&random, 12);
	config->rows_max = 1 + skewed(&random, 30);
	config->user_permille = chance(&random, 20) ? 1 + skewed(&random, 200) : 0;
	config->budget_percent = chance(&random, 20) ? 1 + skewed(&random, 4) : 0;
	config->rooms = chance(&random, 50);
	config->runaway_percent = chance(&random, 15) ? 1 + skewed(&random, 5) : 0;
	if (chance(&random, 25))
		options->milli_cpus = 1000 * (1 + random_below(&random, 6));
	if (chance(&random, 10))
		options->milli_gpus = 1000 * (1 + random_below(&random, 2));
	if (chance(&random, 50))
		options->held_bytes_max = config->unit * (int64_t)(1 + random_below(&random, 4));
	for (uint32_t s = 1; s < options->stage_count; s++)
		plan_stage(&random, config, &config->stages[s]);
}

uint64_t sim_place_hash(const struct place *place)
{
	uint64_t hash = place->length;

	for (uint32_t i = 0; i < place->length; i++)
		hash = sim_mix(hash ^ (place->at[i] + 0x9e3779b97f4a7c15u));
	return hash;
}

int sim_place_compare(const struct place *a, const struct place *b)
{
	for (uint32_t i = 0; i < SIM_DEPTH; i++)
		if (a->at[i] != b->at[i])
			return a->at[i] < b->at[i] ? -1 : 1;
	return 0;
}

static uint64_t draw(const struct config *config, const struct place *place, uint64_t what)
{
	return sim_mix(sim_place_hash(place) ^ sim_mix(config->seed ^ sim_mix(what)));
}

static bool makes_chunks(const struct config *config, uint32_t stage)
{
	return stage + 1 < config->options.stage_count || config->options.consumer;
}

void sim_script(const struct config *config, const struct place *place, struct script *out)
{
	uint32_t stage = place->length - 1;
	bool last = stage + 1 == config->options.stage_count;
	bool lanes = config->stages[stage].kind == WEIR_STAGE_LANES;

	memset(out, 0, sizeof(*out));
	out->ask_count = (uint32_t)(draw(config, place, 1) % 4);
	if (makes_chunks(config, stage))
		out->output_count = (uint32_t)(draw(config, place, 2) % (config->outputs_max + 1));
	out->turn = lanes && last && config->ordered_sink;
	out->enough = lanes && last && draw(config, place, 3) % 1000 < config->enough_permille;
	out->fails = draw(config, place, 4) % 1000 < config->fail_permille;
	out->poison = !lanes && draw(config, place, 5) % 1000 < config->poison_permille;
	if (!lanes && draw(config, place, 7) % 1000 < config->user_permille)
		out->user_fails = draw(config, place, 8) % 2 ? UINT32_MAX : 1 + (uint32_t)(draw(config, place, 9) % 3);
}

static int64_t size(const struct config *config, uint64_t drawn)
{
	int64_t bytes = (int64_t)(drawn >> 8) % (config->unit * 2);

	switch (drawn % 16) {
	case 0:
		return 0;
	case 1:
		return bytes * 4;
	default:
		return bytes;
	}
}

int64_t sim_output_bytes(const struct config *config, const struct place *place, uint32_t output)
{
	return size(config, draw(config, place, 100 + output));
}

int64_t sim_output_rows(const struct config *config, const struct place *place, uint32_t output)
{
	return (int64_t)(draw(config, place, 400000 + output) % (config->rows_max + 1));
}

int64_t sim_ask_bytes(const struct config *config, const struct place *place, uint32_t ask)
{
	uint64_t drawn = draw(config, place, 200000 + ask);

	if (sim_mix(drawn) % 1000 < config->giant_permille && config->options.budget < INT64_MAX)
		return config->options.budget / 2 + (int64_t)(drawn % (uint64_t)config->options.budget);
	return size(config, drawn);
}

int64_t sim_split_need(const struct config *config, uint64_t split)
{
	struct place place = {.length = 1, .at = {split}};
	uint64_t drawn = draw(config, &place, 6);

	return drawn % 100 < config->splits_known_percent ? size(config, sim_mix(drawn)) : 0;
}

static void expect(const struct config *config, const struct place *place, const struct place *end, uint64_t *count,
		   uint64_t *sum)
{
	struct script script;
	struct place child;

	if (end && sim_place_compare(place, end) >= 0)
		return;
	if (place->length > config->options.stage_count ||
	    (place->length == config->options.stage_count && !config->options.consumer)) {
		++*count;
		*sum += sim_place_hash(place);
		return;
	}
	sim_script(config, place, &script);
	child = *place;
	child.length++;
	for (uint32_t i = 0; i < script.output_count; i++) {
		child.at[place->length] = i;
		expect(config, &child, end, count, sum);
	}
}

void sim_expected_of(const struct config *config, const struct place *place, const struct place *end, uint64_t *count,
		     uint64_t *sum)
{
	expect(config, place, end, count, sum);
}

void sim_expected(const struct config *config, const struct place *end, uint64_t *count, uint64_t *sum)
{
	*count = *sum = 0;
	for (uint64_t split = 0; split < config->split_count; split++) {
		struct place place = {.length = 1, .at = {split}};

		expect(config, &place, end, count, sum);
	}
}
