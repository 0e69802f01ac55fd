/* A session: memory with its limit, I/O threads, the store (made when first wanted), and how many lanes a run has. Also
 * how much memory this process uses beyond what it had when the session began, and what the program holds of rows.
 *
 * Threads: any. session->lock guards the store's making and the lists of runs and kept chunks, share_lock the figures
 * of runs that share the limit (share.c) and the program's memory; the rest is set once or atomic. */
#include "backend/local/local_impl.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { IO_THREADS = 4 };
/* All of the limit. */
enum { WARM_SHARE = 16 };       /* what the store keeps warm */
enum { HELD_WARM_SHARE = 32 };  /* warm frames beside what loops hold, and in the program's memory */
enum { EXPECTED_SHARE = 4 };    /* the most that is taken off budgets for batches that loops have not made yet */
enum { UNEXPLAINED_SHARE = 2 }; /* what no account explains beyond that is the program's own */

/* CPUs this process may use: its affinity, cut by a cgroup quota. */
static uint32_t cpu_count(void)
{
	cpu_set_t set;
	long count = sysconf(_SC_NPROCESSORS_ONLN);
	double quota, period;
	char text[64];
	FILE *file;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		count = CPU_COUNT(&set);
	file = fopen("/sys/fs/cgroup/cpu.max", "re");
	if (file) {
		if (fgets(text, sizeof(text), file) && sscanf(text, "%lf %lf", &quota, &period) == 2 && period > 0 &&
		    quota / period < (double)count)
			count = (long)(quota / period + 0.999);
		fclose(file);
	}
	return count < 1 ? 1 : (uint32_t)count;
}

int weir_session_new(const struct weir_session_options *options, struct weir_session **out, struct weir_error *err)
{
	int64_t limit = options->memory_limit ? options->memory_limit : weir_memory_limit_default();
	struct weir_session *session;
	struct weir_mem *mem = NULL;
	char given[32], least[32];
	int64_t anon, shmem;
	int code;

	if (limit < SESSION_LIMIT_MIN)
		return weir_error_set(err, WEIR_E_LIMIT, "a memory limit of %s is too small: the least is %s",
				      weir_format_bytes(limit, given, sizeof(given)),
				      weir_format_bytes(SESSION_LIMIT_MIN, least, sizeof(least)));
	code = weir_mem_new(limit, &mem, err);
	if (code)
		return code;
	session = weir_alloc_zero(weir_mem_root(mem), sizeof(*session), err);
	if (!session) {
		weir_mem_free(mem);
		return err->code;
	}
	atomic_init(&session->refs, 1);
	pthread_mutex_init(&session->lock, NULL);
	pthread_mutex_init(&session->share_lock, NULL);
	session->mem = mem;
	weir_mem_beside(mem, SESSION_RESERVE);
	session->log = options->log;
	session->memory_limit = limit;
	session->threads = options->threads ? options->threads : cpu_count();
	if (options->spill_dirs && options->spill_dirs[0]) {
		session->spill_dir = weir_strdup(weir_mem_root(mem), options->spill_dirs[0], err);
		if (!session->spill_dir) {
			weir_session_free(session);
			return err->code;
		}
	}
	/* What the process had before us (a Python interpreter, say) is not ours. */
	if (weir_process_rss(&anon, &shmem, err) == WEIR_OK)
		session->rss_start = anon;
	weir_error_clear(err);
	code = weir_io_new(weir_mem_root(mem), IO_THREADS, &session->io, err);
	if (code) {
		weir_session_free(session);
		return code;
	}
	*out = session;
	return WEIR_OK;
}

struct weir_session *weir_session_ref(struct weir_session *session)
{
	atomic_fetch_add_explicit(&session->refs, 1, memory_order_relaxed);
	return session;
}

const struct weir_log_sink *weir_session_log(const struct weir_session *session)
{
	return session->log.write ? &session->log : NULL;
}

void weir_session_free(struct weir_session *session)
{
	struct weir_mem *mem;

	/* acq_rel: the last one frees what the others used. */
	if (!session || atomic_fetch_sub_explicit(&session->refs, 1, memory_order_acq_rel) != 1)
		return;
	mem = session->mem;
	weir_io_free(session->io);
	weir_store_free(session->store);
	weir_list_release(&session->runs, weir_mem_root(mem));
	weir_list_release(&session->kept, weir_mem_root(mem));
	weir_list_release(&session->sharing, weir_mem_root(mem));
	weir_strfree(weir_mem_root(mem), session->spill_dir);
	pthread_mutex_destroy(&session->lock);
	pthread_mutex_destroy(&session->share_lock);
	weir_free(weir_mem_root(mem), session, sizeof(*session));
	weir_mem_free(mem);
}

struct weir_account *weir_session_account(struct weir_session *session)
{
	return weir_mem_root(session->mem);
}

struct weir_io *weir_session_io(struct weir_session *session)
{
	return session->io;
}

int64_t weir_session_memory_limit(const struct weir_session *session)
{
	return session->memory_limit;
}

uint32_t weir_session_threads(const struct weir_session *session)
{
	return session->threads;
}

void weir_session_memory(struct weir_session *session, struct weir_mem_stats *out)
{
	struct weir_store_stats store = {0};

	weir_mem_stats(session->mem, out);
	pthread_mutex_lock(&session->lock);
	if (session->store)
		weir_store_stats(session->store, &store);
	pthread_mutex_unlock(&session->lock);
	out->used += store.spilled_memory - store.warm; /* a tmpfs is memory */
	out->warm += store.warm;
}

void weir_session_spilled(struct weir_session *session, uint64_t *written, uint64_t *read)
{
	struct weir_store_stats store = {0};

	pthread_mutex_lock(&session->lock);
	if (session->store)
		weir_store_stats(session->store, &store);
	pthread_mutex_unlock(&session->lock);
	*written = store.spill_bytes_written;
	*read = store.spill_bytes_read;
}

void weir_session_trim(struct weir_session *session)
{
	struct weir_store *idle = NULL;

	pthread_mutex_lock(&session->lock);
	if (session->runs.count == 0)
		idle = session->store;
	pthread_mutex_unlock(&session->lock);
	/* A run that begins now loses a few pages to it, no more. */
	if (idle)
		weir_store_trim(idle, WEIR_WARM_MAX);
}

int weir_session_store(struct weir_session *session, struct weir_store **out, struct weir_error *err)
{
	const char *dirs[] = {session->spill_dir, NULL};
	/* Half of the limit is the least that a run works with, whatever is in use beside it (exec, excess). */
	struct weir_store_options options = {.warm_max = session->memory_limit / WARM_SHARE,
					     .spill_dirs = session->spill_dir ? dirs : NULL,
					     .spill_memory_max = session->memory_limit / 2};
	int code = WEIR_OK;

	pthread_mutex_lock(&session->lock);
	if (!session->store)
		code = weir_store_new(weir_mem_root(session->mem), &options, &session->store, err);
	*out = session->store;
	pthread_mutex_unlock(&session->lock);
	return code;
}

struct weir_store *weir_session_store_made(struct weir_session *session)
{
	struct weir_store *store;

	pthread_mutex_lock(&session->lock);
	store = session->store;
	pthread_mutex_unlock(&session->lock);
	return store;
}

int64_t weir_session_accounted(const struct weir_session *session, const struct weir_store_stats *store)
{
	struct weir_mem_stats stats;

	weir_mem_stats(session->mem, &stats);
	return stats.used - stats.apart + stats.warm - store->resident - store->warm;
}

bool weir_session_anon(const struct weir_session *session, const struct weir_store_stats *store, int64_t *out)
{
	int64_t most = weir_session_accounted(session, store) + session->memory_limit / UNEXPLAINED_SHARE +
		       atomic_load_explicit(&session->held_for_loops, memory_order_relaxed),
		anon, shmem;
	struct weir_mem_stats stats;
	struct weir_error ignored = {0};

	*out = 0;
	if (weir_process_rss(&anon, &shmem, &ignored))
		return false;
	weir_mem_stats(session->mem, &stats);
	anon -= session->rss_start + stats.apart;
	/* What the program had at the session's start and has let go of is not the session's to use. */
	if (anon < 0)
		anon = 0;
	*out = anon < most ? anon : most;
	return true;
}

void weir_session_program(struct weir_session *session, struct weir_mem *mem)
{
	pthread_mutex_lock(&session->share_lock);
	session->program = mem;
	pthread_mutex_unlock(&session->share_lock);
}

int64_t weir_session_program_bytes(struct weir_session *session)
{
	int64_t warm_max = session->memory_limit / HELD_WARM_SHARE;
	struct weir_mem_stats stats = {0};

	pthread_mutex_lock(&session->share_lock);
	if (session->program)
		weir_mem_stats(session->program, &stats);
	/* What its batches leave warm would be there beside all that runs have. */
	if (stats.warm > warm_max)
		weir_mem_trim(session->program, (size_t)warm_max);
	pthread_mutex_unlock(&session->share_lock);
	return stats.used;
}

int64_t weir_local_program_bytes(struct weir_local_run *run)
{
	int64_t expected = atomic_load_explicit(&run->session->expected, memory_order_relaxed),
		most = run->session->memory_limit / EXPECTED_SHARE;
	/* What is held for loops lies there, too, for the most part. */
	int64_t bytes = weir_session_program_bytes(run->session) - run->program_before -
			atomic_load_explicit(&run->session->held_for_loops, memory_order_relaxed);

	expected = expected < most ? expected : most;
	return bytes > expected ? bytes : expected;
}

void weir_session_expect(struct weir_session *session, int64_t bytes)
{
	atomic_fetch_add_explicit(&session->expected, bytes, memory_order_relaxed);
}

void weir_session_hold(struct weir_session *session, int64_t bytes)
{
	atomic_fetch_add_explicit(&session->held_for_loops, bytes, memory_order_relaxed);
	/* It comes and goes in pieces, which lanes have no use for. Each batch of a loop does: malloc's pages are
	 * looked at where much is in no account (weir_local_return_free). */
	weir_mem_trim_frames(session->mem, (size_t)(session->memory_limit / HELD_WARM_SHARE));
	if (bytes < SHARE_STEP && bytes > -SHARE_STEP)
		return; /* within a tenth of a second, then */
	pthread_mutex_lock(&session->lock);
	for (size_t i = 0; i < session->runs.count; i++)
		pthread_cond_broadcast(&session->runs.items[i]->over);
	pthread_mutex_unlock(&session->lock);
}
