#include "format/cuts.h"
#include "base/list.h"
#include "format/format.h"

#include <pthread.h>

struct cut {
	bool ended;
	uint64_t start, end, lines;
};

struct weir_cuts {
	struct weir_account *account;
	pthread_mutex_t lock; /* guards what follows; rank: alone */
	struct WEIR_LIST(struct cut) ranges;
	uint32_t certain; /* ranges before this one have ended, each where the next one begins */
	bool begun;
	uint64_t first_start, first_line;
};

int weir_byte_ranges(uint64_t begin, uint64_t end, uint64_t bytes_target, uint64_t bytes_min, double share,
		     int (*visit)(void *context, const struct weir_range *range), void *context)
{
	uint64_t size = end - begin, count = 1;
	int code = WEIR_OK;

	if (bytes_target > 0) {
		uint64_t bytes = bytes_target > bytes_min ? bytes_target : bytes_min;

		count = size / bytes + (size % bytes > bytes / 2);
	}
	count = count > UINT32_MAX ? UINT32_MAX : count ? count : 1;
	for (uint64_t i = 0; !code && i < count; i++) {
		struct weir_range range = {.number = (uint32_t)i,
					   .begin = begin + (uint64_t)((unsigned __int128)size * i / count),
					   .end = begin + (uint64_t)((unsigned __int128)size * (i + 1) / count)};

		range.bytes_decoded_est = (uint64_t)((double)(range.end - range.begin) * share);
		code = visit(context, &range);
	}
	return code;
}

int weir_cuts_new(struct weir_account *account, struct weir_cuts **out, struct weir_error *err)
{
	struct weir_cuts *cuts = weir_alloc_zero(account, sizeof(*cuts), err);

	if (!cuts)
		return err->code;
	cuts->account = account;
	pthread_mutex_init(&cuts->lock, NULL);
	*out = cuts;
	return WEIR_OK;
}

void weir_cuts_free(struct weir_cuts *cuts)
{
	if (!cuts)
		return;
	weir_list_release(&cuts->ranges, cuts->account);
	pthread_mutex_destroy(&cuts->lock);
	weir_free(cuts->account, cuts, sizeof(*cuts));
}

/* Where range `number` begins, when everything before it stands. */
static bool start_of(const struct weir_cuts *cuts, uint32_t number, uint64_t *start)
{
	if (!cuts->begun || number > cuts->certain)
		return false;
	*start = number == 0 ? cuts->first_start : cuts->ranges.items[number - 1].end;
	return true;
}

/* An end counts only if its range began where the one before it ended: a wrong guess ended somewhere too. */
static void advance(struct weir_cuts *cuts)
{
	uint64_t start;

	while (cuts->certain < cuts->ranges.count && cuts->ranges.items[cuts->certain].ended &&
	       start_of(cuts, cuts->certain, &start) && start == cuts->ranges.items[cuts->certain].start)
		cuts->certain++;
}

/* Of a range that itself began at a guess the end is taken too: a lane that reads several ranges on end has but its
 * first one confirmed, and the others must hang together with it. */
bool weir_cuts_start(struct weir_cuts *cuts, uint32_t number, uint64_t *start)
{
	bool known;

	pthread_mutex_lock(&cuts->lock);
	known = start_of(cuts, number, start);
	if (!known && number > 0 && number <= cuts->ranges.count && cuts->ranges.items[number - 1].ended) {
		*start = cuts->ranges.items[number - 1].end;
		known = true;
	}
	pthread_mutex_unlock(&cuts->lock);
	return known;
}

void weir_cuts_begin(struct weir_cuts *cuts, uint64_t start, uint64_t line)
{
	pthread_mutex_lock(&cuts->lock);
	cuts->begun = true;
	cuts->first_start = start;
	cuts->first_line = line;
	advance(cuts);
	pthread_mutex_unlock(&cuts->lock);
}

int weir_cuts_end(struct weir_cuts *cuts, uint32_t number, uint64_t start, uint64_t end, uint64_t lines,
		  struct weir_error *err)
{
	int code = WEIR_OK;

	pthread_mutex_lock(&cuts->lock);
	while (!code && cuts->ranges.count <= number)
		code = weir_list_push(&cuts->ranges, cuts->account, err, (struct cut){0});
	if (!code && number >= cuts->certain) {
		cuts->ranges.items[number] = (struct cut){.ended = true, .start = start, .end = end, .lines = lines};
		advance(cuts);
	}
	pthread_mutex_unlock(&cuts->lock);
	return code;
}

bool weir_cuts_confirm(struct weir_cuts *cuts, uint32_t number, uint64_t start)
{
	uint64_t real;
	bool stands;

	pthread_mutex_lock(&cuts->lock);
	stands = !start_of(cuts, number, &real) || real == start;
	pthread_mutex_unlock(&cuts->lock);
	return stands;
}

uint64_t weir_cuts_line(struct weir_cuts *cuts, uint32_t number)
{
	uint64_t line = 0;

	pthread_mutex_lock(&cuts->lock);
	if (cuts->begun && number <= cuts->certain) {
		line = cuts->first_line;
		for (uint32_t i = 0; i < number; i++)
			line += cuts->ranges.items[i].lines;
	}
	pthread_mutex_unlock(&cuts->lock);
	return line;
}
