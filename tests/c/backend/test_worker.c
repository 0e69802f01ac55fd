/* A worker process for tests. Its setup is a text: what it does with each batch, and when it misbehaves.
 *
 *     FUNCTION [NUMBER] [value=V] [once=PATH]
 *
 *     identity           the batch as it came, each part an output (what the others below do afterwards, too)
 *     join               all parts of a task as one output
 *     add N              N added to the first column, int64
 *     split N            outputs of at most N rows
 *     repeat N           N times the batch
 *     widen N            a second column, "more", where the first row's number is N or greater
 *     none               no output
 *     sleep MS
 *     print N            N lines on stdout and one on stderr
 *     hold N             keeps the inputs of the last N tasks and compares them with what they were; 0: of all
 *     fork               has a child that says all it could say, and must not be heard
 *     scribble           writes over its input, which only it may see
 *     grow BYTES         more memory with each batch, kept; MemoryError when there is none
 *     map BYTES          the same, of which nothing is used
 *     fail [BYTES]       WEIR_E_USER, with a payload of so many bytes or a short one
 *     exit CODE          and segfault, abort, hang, kill: what happens to processes
 *     broken [BYTES]     the setup fails, with such a payload; broken_exit: it ends right after saying so
 *     die STEP           ends by SIGKILL: 0 before it greets, 1 after, 2 ready, 3 with a task, 4 in the room, 5 after
 *                        an output, 6 after a request for room
 *     lie WHAT           0 a chunk outside its room, 1 another's task, 2 an output twice, 3 a wrong count, 4 a message
 *                        that is none, 5 a release of what it does not hold, 6 too large a chunk, 7 a second READY
 *     chaos SEED         says anything, some of it almost right, and ends
 *     deaf               does not quit
 *
 * With value=V only batches whose first column has V misbehave, with once=PATH only the first that makes this file.
 */
#include "arrow/block.h"
#include "base/text.h"
#include "backend/local/worker_side.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
/* To look for leaks, ASan stops the process from a child of it. Whoever ends a worker's children kills that one, too,
 * now and then while the worker is stopped, which then stays so for ever, with the pipe open that the tests' output
 * comes through. And what it holds back of freed memory, 256 MB if it may, counts as the worker's. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0:quarantine_size_mb=8";
}
#endif

enum { COLUMNS_MAX = 64, HELD_MAX = 100000 };

struct held {
	struct weir_side_part *part;
	uint64_t hash;
};

struct worker {
	struct weir_worker_side side;
	struct weir_account *account;
	struct weir_block_cache cache;
	char function[32];
	long long number;
	bool has_value;
	long long value;
	char once[256];
	struct held held[HELD_MAX]; /* a ring */
	size_t held_first, held_count;
	struct weir_error err;
};

static void parse_setup(struct worker *w)
{
	char text[512];
	size_t size = w->side.setup_size < sizeof(text) - 1 ? w->side.setup_size : sizeof(text) - 1;
	const char *value, *once;

	memcpy(text, w->side.setup, size);
	text[size] = 0;
	sscanf(text, "%31s %lld", w->function, &w->number);
	value = strstr(text, "value=");
	once = strstr(text, "once=");
	w->has_value = value && sscanf(value, "value=%lld", &w->value) == 1;
	if (once)
		sscanf(once, "once=%255s", w->once);
}

static bool is(const struct worker *w, const char *function)
{
	return !strcmp(w->function, function);
}

static bool is_step(const struct worker *w, long long step)
{
	return is(w, "die") && w->number == step;
}

static bool first_time(const struct worker *w)
{
	int fd = w->once[0] ? open(w->once, O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;

	if (fd >= 0)
		close(fd);
	return !w->once[0] || fd >= 0;
}

static _Noreturn void killed(void)
{
	for (;;)
		raise(SIGKILL);
}

/* --- batches --- */

static struct weir_batch *slice(struct worker *w, const struct weir_batch *batch, int64_t first, int64_t count)
{
	struct weir_array *columns[COLUMNS_MAX] = {0};
	struct weir_batch *out = NULL;
	uint32_t i;

	for (i = 0; i < batch->column_count && i < COLUMNS_MAX; i++) {
		columns[i] = weir_array_slice(batch->columns[i], first, count, &w->err);
		if (!columns[i])
			break;
	}
	if (i == batch->column_count)
		out = weir_batch_new(w->account, batch->schema, count, columns, &w->err);
	while (i-- > 0)
		weir_array_unref(columns[i]);
	return out;
}

static struct weir_batch *open_part(struct worker *w, const struct weir_side_part *part)
{
	struct weir_batch *whole = NULL, *rows;

	if (weir_block_open(w->account, &w->cache, part->bytes, part->size, NULL, false, &whole, &w->err))
		return NULL;
	if (part->row_first == 0 && part->row_count == (uint64_t)whole->row_count)
		return whole;
	rows = slice(w, whole, (int64_t)part->row_first, (int64_t)part->row_count);
	weir_batch_unref(whole);
	return rows;
}

static const int64_t *numbers(const struct weir_batch *batch)
{
	if (batch->column_count == 0 || batch->columns[0]->type->id != WEIR_INT64)
		return NULL;
	return (const int64_t *)batch->columns[0]->buffers[1].data + batch->columns[0]->offset;
}

static bool has_value(const struct worker *w, const struct weir_batch *batch)
{
	const int64_t *values = numbers(batch);

	for (int64_t i = 0; values && i < batch->row_count; i++)
		if (values[i] == w->value)
			return true;
	return false;
}

static int put_batch(struct worker *w, struct weir_side_task *task, const struct weir_batch *batch)
{
	struct weir_block_plan plan;
	uint8_t *room;

	/* an earlier attempt has given these: it died after an output, and outputs are always the same */
	if (task->rows_kept) {
		if (task->rows_kept < (uint64_t)batch->row_count)
			return weir_error_set(&w->err, WEIR_E_INTERNAL, "a part of an output was kept");
		task->rows_kept -= (uint64_t)batch->row_count;
		return WEIR_OK;
	}
	if (weir_block_measure(batch, &plan, &w->err) ||
	    weir_worker_side_room(&w->side, task, plan.size, &room, &w->err) ||
	    weir_block_write(batch, &plan, room, &w->err))
		return w->err.code;
	if (is_step(w, 4))
		killed();
	weir_worker_side_output(&w->side, task, plan.size, (uint64_t)batch->row_count);
	if (is_step(w, 5))
		killed();
	return WEIR_OK;
}

static int put_slices(struct worker *w, struct weir_side_task *task, const struct weir_batch *batch, int64_t rows)
{
	int code = WEIR_OK;

	for (int64_t first = 0; !code && first < batch->row_count; first += rows) {
		int64_t left = batch->row_count - first;
		struct weir_batch *part = slice(w, batch, first, left < rows ? left : rows);

		code = part ? put_batch(w, task, part) : w->err.code;
		weir_batch_unref(part);
	}
	return code;
}

static int put_sums(struct worker *w, struct weir_side_task *task, const struct weir_batch *batch)
{
	int64_t *values = (int64_t *)numbers(batch); /* in the private map */

	for (int64_t i = 0; values && i < batch->row_count; i++)
		values[i] += w->number;
	return put_batch(w, task, batch);
}

/* Other columns than before, from some row on. */
static int put_wider(struct worker *w, struct weir_side_task *task, const struct weir_batch *batch)
{
	const int64_t *values = numbers(batch);
	struct weir_field fields[2];
	struct weir_schema *schema;
	struct weir_batch *wide = NULL;

	if (!values || batch->row_count == 0 || values[0] < w->number)
		return put_batch(w, task, batch);
	fields[0] = fields[1] = batch->schema->fields[0];
	fields[1].name = "more";
	schema = weir_schema_new(w->account, fields, 2, NULL, &w->err);
	if (schema)
		wide = weir_batch_new(w->account, schema, batch->row_count,
				      (struct weir_array *[]){batch->columns[0], batch->columns[0]}, &w->err);
	weir_schema_unref(schema);
	if (wide)
		put_batch(w, task, wide);
	weir_batch_unref(wide);
	return w->err.code;
}

static int put_joined(struct worker *w, struct weir_side_task *task, struct weir_batch *const *parts)
{
	struct weir_array *columns[COLUMNS_MAX] = {0}, **pieces = calloc(task->part_count, sizeof(*pieces));
	struct weir_batch *joined = NULL;
	uint32_t c = 0;
	int64_t rows = 0;

	for (uint32_t i = 0; i < task->part_count; i++)
		rows += parts[i]->row_count;
	for (; c < parts[0]->column_count && c < COLUMNS_MAX; c++) {
		for (uint32_t i = 0; i < task->part_count; i++)
			pieces[i] = parts[i]->columns[c];
		columns[c] = weir_array_concat(w->account, pieces, task->part_count, &w->err);
		if (!columns[c])
			break;
	}
	if (c == parts[0]->column_count)
		joined = weir_batch_new(w->account, parts[0]->schema, rows, columns, &w->err);
	while (c-- > 0)
		weir_array_unref(columns[c]);
	free(pieces);
	if (!joined)
		return w->err.code;
	put_batch(w, task, joined);
	weir_batch_unref(joined);
	return w->err.code;
}

/* --- what it holds on to --- */

static uint64_t hash_of(const struct weir_side_part *part)
{
	uint64_t hash = 1469598103934665603u;

	for (uint64_t i = 0; i < part->size; i++)
		hash = (hash ^ part->bytes[i]) * 1099511628211u;
	return hash;
}

static bool drop_held(struct worker *w)
{
	struct held *held = &w->held[w->held_first];
	bool same = held->hash == hash_of(held->part);

	weir_side_part_release(&w->side, held->part);
	w->held_first = (w->held_first + 1) % HELD_MAX;
	w->held_count--;
	return same;
}

/* False: what was held has changed. */
static bool hold(struct worker *w, struct weir_side_task *task)
{
	bool same = true;

	for (uint32_t i = 0; i < task->part_count; i++) {
		size_t at = (w->held_first + w->held_count++) % HELD_MAX;

		w->held[at] = (struct held){task->parts[i], hash_of(task->parts[i])};
	}
	while (w->number > 0 && w->held_count > (size_t)w->number)
		same &= drop_held(w);
	for (size_t i = 0; i < w->held_count; i++)
		same &= w->held[(w->held_first + i) % HELD_MAX].hash ==
			hash_of(w->held[(w->held_first + i) % HELD_MAX].part);
	return same;
}

/* --- misbehaviour --- */

static void fail(struct worker *w, struct weir_side_task *task, int code, const char *text)
{
	size_t size = w->number > 0 ? (size_t)w->number : strlen(text);
	char *payload = malloc(size);

	for (size_t i = 0; i < size; i++)
		payload[i] = w->number > 0 ? (char)('a' + i % 26) : text[i];
	for (uint32_t i = 0; task && i < task->part_count; i++)
		weir_side_part_release(&w->side, task->parts[i]);
	if (task)
		weir_worker_side_failed(&w->side, task, code, text, payload, size);
	else
		weir_worker_side_broken(&w->side, code, text, payload, size);
	free(payload);
}

/* Writes into the ring what no function would. */
static void say(struct worker *w, struct worker_message message)
{
	const uint64_t one = 1;

	message.worker = w->side.worker;
	message.generation = w->side.generation;
	worker_ring_put(&w->side.rings->to_driver, &message);
	(void)!write(w->side.bell_driver, &one, sizeof(one));
}

static void lie(struct worker *w, struct weir_side_task *task)
{
	struct worker_message m = {.kind = WORKER_OUTPUT,
				   .task = task->task,
				   .attempt = task->attempt,
				   .offset = (uint64_t)(task->room - w->side.own),
				   .size = 100,
				   .row_count = 1};

	switch (w->number) {
	case 0:
		m.offset += (task->room_size + 4095) / 4096 * 4096;
		break;
	case 1: /* is ignored; then it says nothing more */
		m.task += 1000;
		break;
	case 2:
		say(w, m);
		break;
	case 3:
		m.kind = WORKER_DONE;
		m.count = 7;
		break;
	case 4:
		m.kind = 99;
		break;
	case 5:
		m.kind = WORKER_RELEASE;
		m.part = 12345;
		break;
	case 6:
		m.size = task->room_size * 2 + 8192;
		break;
	default:
		m.kind = WORKER_READY;
	}
	say(w, m);
	for (;;)
		pause();
}

static uint64_t chaos_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Right, nearly right, or anything. */
static uint64_t chaos_figure(uint64_t *state, uint64_t right)
{
	switch (chaos_next(state) % 60) {
	case 0:
		return chaos_next(state);
	case 1:
		return UINT64_MAX - chaos_next(state) % 3;
	case 2:
		return right + chaos_next(state) % 3 - 1;
	case 3:
		return right + 4096 * (chaos_next(state) % 5);
	case 4:
		return chaos_next(state) % 3;
	default:
		return right;
	}
}

static _Noreturn void chaos(struct worker *w, struct weir_side_task *task)
{
	uint64_t state = (uint64_t)w->number, room = (uint64_t)(task->room - w->side.own);
	struct worker_message m = {0};
	uint32_t outputs = 0;

	for (int i = 0; i < 200; i++) {
		m.kind = WORKER_OUTPUT;
		if (chaos_next(&state) % 8 == 0)
			m.kind = chaos_next(&state) % 2 ? WORKER_DONE : WORKER_FAILED;
		else if (chaos_next(&state) % 16 == 0)
			m.kind = (uint32_t)(chaos_next(&state) % 14);
		m.task = chaos_next(&state) % 20 ? task->task : chaos_figure(&state, task->task);
		m.attempt = (uint32_t)(chaos_next(&state) % 20 ? task->attempt : chaos_figure(&state, task->attempt));
		m.part = chaos_figure(&state, task->parts[0]->number);
		m.region = (uint32_t)chaos_figure(&state, 0);
		m.code = (uint32_t)chaos_figure(&state, 1);
		m.count = (uint32_t)(chaos_next(&state) % 10 ? outputs : chaos_figure(&state, outputs));
		m.offset = chaos_figure(&state, room);
		m.size = chaos_figure(&state, 100);
		m.row_first = chaos_next(&state);
		m.row_count = chaos_figure(&state, 1);
		memset(m.text, (int)chaos_next(&state), sizeof(m.text));
		if (m.kind == WORKER_OUTPUT) {
			outputs++;
			room += 4096;
		}
		say(w, m);
		if (chaos_next(&state) % 200 == 0) /* a count that cannot be */
			atomic_fetch_add(&w->side.rings->to_driver.written, (uint32_t)chaos_next(&state));
		if (chaos_next(&state) % 50 == 0)
			atomic_store(&w->side.rings->to_worker.taken, (uint32_t)chaos_next(&state));
	}
	_exit(0);
}

/* MemoryError, as far as the kernel gives it. */
static bool grow(struct worker *w)
{
	void *more = mmap(NULL, (size_t)w->number, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (more == MAP_FAILED)
		return false;
	if (is(w, "grow"))
		memset(more, 1, (size_t)w->number);
	return true;
}

/* True: the task is over. */
static bool misbehave(struct worker *w, struct weir_side_task *task)
{
	if (is(w, "segfault")) {
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
	} else if (is(w, "abort")) {
		abort();
	} else if (is(w, "exit")) {
		_exit((int)w->number);
	} else if (is(w, "kill") || is_step(w, 3)) {
		killed();
	} else if (is(w, "hang")) {
		for (;;)
			pause();
	} else if (is(w, "lie")) {
		lie(w, task);
	} else if (is(w, "chaos")) {
		chaos(w, task);
	} else if (is_step(w, 6)) {
		say(w, (struct worker_message){
			       .kind = WORKER_MORE, .task = task->task, .attempt = task->attempt, .size = 1 << 20});
		killed();
	} else if (is(w, "fail")) {
		fail(w, task, WEIR_E_USER, "as it was told");
		return true;
	} else if ((is(w, "grow") || is(w, "map")) && !grow(w)) {
		w->number = 0;
		fail(w, task, WEIR_E_MEMORY, "no memory");
		return true;
	} else if (is(w, "sleep")) {
		nanosleep(&(struct timespec){w->number / 1000, w->number % 1000 * 1000000}, NULL);
	} else if (is(w, "fork")) {
		pid_t child = fork();

		if (child == 0) {
			weir_side_part_release(&w->side, task->parts[0]);
			weir_worker_side_output(&w->side, task, 100, 1);
			weir_worker_side_ready(&w->side, false);
			weir_worker_side_done(&w->side, task, 0);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	} else if (is(w, "print")) {
		for (long long i = 0; i < w->number; i++)
			printf("line %lld of task %llu\n", i, (unsigned long long)task->task);
		fflush(stdout);
		fprintf(stderr, "10%%\r50%%\rdone\r\n");
	}
	return false;
}

/* --- tasks --- */

static int put_outputs(struct worker *w, struct weir_side_task *task, struct weir_batch *const *parts)
{
	int code = WEIR_OK;

	if (is(w, "join"))
		return put_joined(w, task, parts);
	for (uint32_t i = 0; !code && i < task->part_count; i++) {
		if (is(w, "none"))
			continue;
		if (is(w, "split"))
			code = put_slices(w, task, parts[i], w->number);
		else if (is(w, "widen"))
			code = put_wider(w, task, parts[i]);
		else if (is(w, "add"))
			code = put_sums(w, task, parts[i]);
		else
			code = put_batch(w, task, parts[i]);
		for (long long n = 1; !code && is(w, "repeat") && n < w->number; n++)
			code = put_batch(w, task, parts[i]);
	}
	return code;
}

static void run(struct worker *w, struct weir_side_task *task)
{
	struct weir_batch **parts = calloc(task->part_count, sizeof(*parts));
	uint32_t count = task->part_count;
	bool holds = is(w, "hold"), hit = !w->has_value, same = true, over;

	weir_error_clear(&w->err);
	for (uint32_t i = 0; !w->err.code && i < count; i++) {
		parts[i] = open_part(w, task->parts[i]);
		hit |= parts[i] && w->has_value && has_value(w, parts[i]);
	}
	over = !w->err.code && hit && first_time(w) && misbehave(w, task);
	if (!over && !w->err.code)
		put_outputs(w, task, parts);
	for (uint32_t i = 0; i < count; i++)
		weir_batch_unref(parts[i]);
	free(parts);
	if (over)
		return;
	if (holds)
		same = hold(w, task);
	for (uint32_t i = 0; i < count; i++) {
		if (is(w, "scribble"))
			memset((void *)task->parts[i]->bytes, 0xee, task->parts[i]->size);
		if (!holds)
			weir_side_part_release(&w->side, task->parts[i]);
	}
	if (!same)
		weir_worker_side_failed(&w->side, task, WEIR_E_DATA, "what it holds has changed", NULL, 0);
	else if (w->err.code)
		weir_worker_side_failed(&w->side, task, w->err.code, w->err.message, w->err.message,
					strlen(w->err.message));
	else
		weir_worker_side_done(&w->side, task, 0);
}

static int work(struct worker *w)
{
	for (;;) {
		struct weir_side_task *task;
		bool quit;

		if (weir_worker_side_next(&w->side, -1, &task, &quit, &w->err))
			return w->err.code;
		while (quit && is(w, "deaf"))
			pause();
		if (quit)
			return WEIR_OK;
		run(w, task);
	}
}

int main(int argc, char **argv)
{
	static struct worker worker;
	struct worker *w = &worker;
	struct weir_mem *mem;
	int code;

	if (argc > 1 && !strcmp(argv[1], "exit"))
		return 3;
	if (argc > 1 && !strcmp(argv[1], "hang"))
		for (;;)
			pause();
	if (weir_mem_new(0, &mem, &w->err))
		return 1;
	w->account = weir_mem_root(mem);
	code = weir_worker_side_open(&w->side, w->account, &w->err);
	if (!code) {
		parse_setup(w);
		if (is_step(w, 1))
			killed();
		if (is(w, "broken") || is(w, "broken_exit")) {
			fail(w, NULL, WEIR_E_USER, "cannot begin");
			if (is(w, "broken_exit"))
				_exit(0);
		} else {
			weir_worker_side_ready(&w->side, false);
		}
		if (is_step(w, 2))
			killed();
		code = work(w);
	}
	if (code)
		fprintf(stderr, "test_worker: %s\n", w->err.message);
	while (w->held_count)
		if (!drop_held(w))
			code = 1;
	weir_block_cache_release(&w->cache);
	weir_worker_side_release(&w->side);
	weir_mem_free(mem);
	return code != 0;
}
