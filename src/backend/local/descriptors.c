/* How many worker processes the limit on open files (RLIMIT_NOFILE) leaves room for. A run learns it before it starts:
 * it has fewer workers then, rather than one that cannot be started in the middle.
 *
 * What a run may come to need is promised to it until its end. Of what is open now, workers' descriptors were promised
 * to their runs: so the room is the limit without what else is open, and without all promises. Files of lanes are not
 * known beforehand: some room is left for them. The limit itself is the user's, who may have programs below that cannot
 * do with a larger one (select). */
#include "base/log.h"
#include "backend/local/local_impl.h"
#include "backend/local/worker_impl.h"

#include <dirent.h>
#include <stdatomic.h>
#include <sys/resource.h>

enum {
	OF_WORKER = 8, /* socket, lifeline, bell, pidfd, statm, memory, two outputs */
	/* its own ends of them as well, until it has them, and the zygote's when that is started again */
	OF_STARTING = 12,
	OF_LANE = 2, /* a file that it reads, one that it writes */
};

/* Relaxed: figures that are right soon enough; nothing else is read by them. */
static _Atomic int64_t workers_up, workers_promised;

void weir_descriptors_note_worker(int change)
{
	atomic_fetch_add_explicit(&workers_up, change, memory_order_relaxed);
}

/* −1: nobody knows. */
static int64_t open_now(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int64_t count = -3; /* ".", "..", and the folder's own */

	if (!folder)
		return -1;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static int64_t workers_of(const struct weir_stage_spec *specs, uint32_t count)
{
	int64_t workers = 0;

	for (uint32_t s = 0; s < count; s++)
		workers += specs[s].kind == WEIR_STAGE_WORKERS ? specs[s].slots : 0;
	return workers;
}

static void cap(struct weir_stage_spec *spec, int64_t most)
{
	uint32_t slots = most < 1 ? 1 : (uint32_t)most;

	if (spec->slots <= slots)
		return;
	spec->slots = slots;
	if (spec->slots_min > slots)
		spec->slots_min = slots;
	if (spec->slots_first > slots)
		spec->slots_first = slots;
}

int weir_descriptors_fit(struct weir_local_run *run, struct weir_stage_spec *specs, uint32_t count,
			 struct weir_error *err)
{
	int64_t wanted = workers_of(specs, count), stages = 0, lanes = 0, open, room, left, limit;
	static atomic_bool has_warned;
	struct rlimit files;

	if (wanted == 0 || getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur == RLIM_INFINITY)
		return WEIR_OK;
	limit = (int64_t)files.rlim_cur;
	weir_descriptors_return(run);
	for (uint32_t s = 0; s < count; s++) {
		stages += specs[s].kind == WEIR_STAGE_WORKERS;
		lanes += specs[s].kind == WEIR_STAGE_LANES ? specs[s].slots : 0;
	}
	/* Far from the limit nobody has to count. */
	if ((wanted + atomic_load_explicit(&workers_promised, memory_order_relaxed)) * OF_WORKER + lanes * OF_LANE <
		    limit / 2 ||
	    (open = open_now()) < 0)
		goto promise;
	left = limit - open;
	if (left < stages * OF_WORKER + OF_STARTING)
		return weir_error_set(
			err, WEIR_E_IO,
			"%lld of %lld open files are in use, and %lld function%s in worker processes need%s %lld more: raise "
			"the limit (ulimit -n %lld), or close some",
			(long long)open, (long long)limit, (long long)stages, stages == 1 ? "" : "s",
			stages == 1 ? "s" : "", (long long)(stages * OF_WORKER + OF_STARTING),
			(long long)(open + wanted * OF_WORKER + OF_STARTING + lanes * OF_LANE));
	room = left + (atomic_load_explicit(&workers_up, memory_order_relaxed) -
		       atomic_load_explicit(&workers_promised, memory_order_relaxed)) *
			      OF_WORKER;
	room = room < left ? room : left;
	room -= OF_STARTING + (lanes * OF_LANE < left / 3 ? lanes * OF_LANE : left / 3);
	if (room / OF_WORKER >= wanted)
		goto promise;
	for (uint32_t s = 0; s < count; s++)
		if (specs[s].kind == WEIR_STAGE_WORKERS)
			cap(&specs[s], room / OF_WORKER / stages);
	if (!atomic_exchange_explicit(&has_warned, true, memory_order_relaxed))
		weir_log(
			WEIR_LOG_WARN,
			"%lld worker process%s instead of %lld, since the limit on open files is %lld, of which %lld are in use: ulimit -n %lld "
			"is enough for all",
			(long long)workers_of(specs, count), workers_of(specs, count) == 1 ? "" : "es",
			(long long)wanted, (long long)limit, (long long)open,
			(long long)(open + wanted * OF_WORKER + OF_STARTING + lanes * OF_LANE));
promise:
	run->workers_promised = workers_of(specs, count);
	atomic_fetch_add_explicit(&workers_promised, run->workers_promised, memory_order_relaxed);
	return WEIR_OK;
}

void weir_descriptors_return(struct weir_local_run *run)
{
	atomic_fetch_sub_explicit(&workers_promised, run->workers_promised, memory_order_relaxed);
	run->workers_promised = 0;
}
