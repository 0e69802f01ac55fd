/* A read's way:
 *
 *     submit ── in the page cache? ──▶ DONE, on the lane, no other thread involved
 *        │ no (EAGAIN), or only its front
 *        ▼
 *     queue (QUEUE_MAX, intrusive) ──▶ an I/O thread preads the rest ──▶ DONE, wakes the waiter
 *        │ full, or no thread can be started
 *        ▼
 *     the lane reads it itself
 *
 * Threads are started one at a time, when a read is queued and all that run are busy. They take no signals: those
 * belong to the user's threads.
 *
 * A read's state is a futex word, so a read costs no lock to complete and needs no object of its own to wait on:
 * PENDING → (WAITED →) DONE. The exchange to DONE releases the buffer's bytes and the error; the load of DONE acquires
 * them. After it the struct may be gone: the wake that follows only uses its address.
 */
#include "io/file.h"

#include "base/fault.h"
#include "io/pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum {
	READ_ATTEMPTS = 4,
	READ_PAUSE_MS = 10,       /* doubled after each attempt */
	READ_PIECE_MAX = 1 << 30, /* the kernel moves no more than 2 GiB − 4 KiB a call */
	IO_THREADS_DEFAULT = 4,
	IO_THREADS_MAX = 64,
	IO_STACK = 256 << 10,
	QUEUE_MAX = 1024,
	WAIT_SPINS = 200,
};

enum { STATE_PENDING = 1, STATE_WAITED, STATE_DONE }; /* 0: never submitted */

struct weir_file {
	struct weir_account *account;
	char *path; /* owned */
	uint64_t size;
	int fd;                 /* −1 where there is a pipe */
	struct weir_pipe *pipe; /* NULL: a regular file */
	/* Relaxed: an answer of the file system, the same whoever asks and however often. */
	_Atomic int cache_answer;
	_Atomic uint32_t references;
};

enum { CACHE_ASKABLE, CACHE_ALWAYS, CACHE_NEVER };

struct weir_io {
	struct weir_account *account;
	pthread_mutex_t lock; /* guards all below; rank: nothing is taken or called while it is held */
	pthread_cond_t work;  /* the queue is not empty, or stopping */
	struct weir_read *first, **last;
	uint32_t queued, idle, stopping;
	uint32_t thread_count, thread_max;
	pthread_t threads[IO_THREADS_MAX];
};

/* ---- files ---- */

static int file_new(struct weir_account *account, const char *path, struct weir_file **out, struct weir_error *err)
{
	struct weir_file *file = weir_alloc_zero(account, sizeof(*file), err);

	if (!file)
		return err->code;
	file->path = weir_strdup(account, path, err);
	if (!file->path) {
		weir_free(account, file, sizeof(*file));
		return err->code;
	}
	file->account = account;
	file->fd = -1;
	atomic_init(&file->references, 1);
	*out = file;
	return WEIR_OK;
}

int weir_file_open(struct weir_account *account, const char *path, struct weir_file **out, struct weir_error *err)
{
	struct stat stat;
	int fd, code;

	*out = NULL;
	do /* O_NONBLOCK: opening a FIFO must not wait for its writer */
		fd = weir_fault(WEIR_FAULT_OPEN) ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	while (fd < 0 && errno == EINTR);
	if (fd < 0) {
		code = weir_error_set_errno(err, errno, "cannot open it");
		goto fail;
	}
	if (fstat(fd, &stat) < 0) {
		code = weir_error_set_errno(err, errno, "cannot look at it");
		goto fail;
	}
	if (!S_ISREG(stat.st_mode)) {
		code = weir_error_set(err, WEIR_E_INVALID, "it is %s, not a file",
				      S_ISDIR(stat.st_mode)    ? "a directory"
				      : S_ISFIFO(stat.st_mode) ? "a named pipe"
							       : "a device or socket");
		goto fail;
	}
	code = file_new(account, path, out, err);
	if (code)
		goto fail;
	(*out)->fd = fd;
	(*out)->size = (uint64_t)stat.st_size;
	return WEIR_OK;
fail:
	if (fd >= 0)
		close(fd);
	weir_error_at_source(err, path);
	return code;
}

int weir_file_open_pipe(struct weir_account *account, int fd, const char *name, struct weir_file **out,
			struct weir_error *err)
{
	struct stat stat;
	int own = weir_fault(WEIR_FAULT_OPEN) ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	int code;

	*out = NULL;
	if (own < 0 || fstat(own, &stat) < 0) {
		code = weir_error_set_errno(err, errno, "cannot read from it");
		goto fail;
	}
	if (S_ISDIR(stat.st_mode)) {
		code = weir_error_set(err, WEIR_E_INVALID, "it is a directory, not a file");
		goto fail;
	}
	code = file_new(account, name, out, err);
	if (code)
		goto fail;
	/* One that somebody has read the front of goes on from there, which is what a pipe does. */
	if (S_ISREG(stat.st_mode) && lseek(own, 0, SEEK_CUR) == 0) {
		(*out)->fd = own;
		(*out)->size = (uint64_t)stat.st_size;
		return WEIR_OK;
	}
	code = weir_pipe_new(account, own, &(*out)->pipe, err);
	if (!code)
		return WEIR_OK;
	own = -1;
	weir_file_unref(*out);
	*out = NULL;
fail:
	if (own >= 0)
		close(own);
	weir_error_at_source(err, name);
	return code;
}

struct weir_file *weir_file_ref(struct weir_file *file)
{
	atomic_fetch_add_explicit(&file->references, 1, memory_order_relaxed);
	return file;
}

void weir_file_unref(struct weir_file *file)
{
	/* Release: what this thread did with the file comes before the close of whoever is last; acquire: for the
	 * last. */
	if (!file || atomic_fetch_sub_explicit(&file->references, 1, memory_order_acq_rel) != 1)
		return;
	if (file->fd >= 0)
		close(file->fd);
	weir_pipe_free(file->pipe);
	weir_strfree(file->account, file->path);
	weir_free(file->account, file, sizeof(*file));
}

const char *weir_file_path(const struct weir_file *file)
{
	return file->path;
}

uint64_t weir_file_size(const struct weir_file *file)
{
	return file->size;
}

bool weir_file_is_pipe(const struct weir_file *file)
{
	return file->pipe != NULL;
}

int weir_file_head(struct weir_file *file, size_t want, const void **bytes, size_t *got, struct weir_error *err)
{
	int code = weir_pipe_head(file->pipe, want, bytes, got, err);

	if (code)
		weir_error_at_source(err, file->path);
	return code;
}

void weir_file_watch_pipe(struct weir_file *file, const _Atomic bool *cancelled)
{
	weir_pipe_watch(file->pipe, cancelled);
}

int weir_file_begin_pipe(struct weir_file *file, const _Atomic bool *cancelled, struct weir_error *err)
{
	int code = weir_pipe_begin(file->pipe, cancelled, err);

	if (code)
		weir_error_at_source(err, file->path);
	return code;
}

int weir_file_read_pipe(struct weir_file *file, uint64_t position, void *buffer, size_t size, size_t *got,
			struct weir_error *err)
{
	int code = weir_pipe_read(file->pipe, position, buffer, size, got, err);

	if (code) {
		weir_error_at_source(err, file->path);
		weir_error_at_offset(err, position);
	}
	return code;
}

/* Three places tell; a guess will do, and asking costs a fiftieth of the walk over all pages that the advice is. */
static bool seems_cached(const struct weir_file *file, uint64_t offset, uint64_t size)
{
	const uint64_t places[] = {offset, offset + size / 2, offset + size - 1};

	for (int i = 0; i < 3; i++) {
		char byte;
		struct iovec to = {.iov_base = &byte, .iov_len = 1};

		if (preadv2(file->fd, &to, 1, (off_t)places[i], RWF_NOWAIT) != 1)
			return false;
	}
	return true;
}

void weir_file_advise(struct weir_file *file, uint64_t offset, uint64_t size)
{
	if (offset >= file->size)
		return;
	size = size < file->size - offset ? size : file->size - offset;
	if (size && !seems_cached(file, offset, size))
		(void)posix_fadvise(file->fd, (off_t)offset, (off_t)size, POSIX_FADV_WILLNEED);
}

/* ---- reading ---- */

static int fail_at(const struct weir_file *file, uint64_t offset, struct weir_error *err)
{
	weir_error_at_source(err, file->path);
	weir_error_at_offset(err, offset);
	return err->code;
}

static int check_range(const struct weir_file *file, uint64_t offset, uint64_t size, struct weir_error *err)
{
	if (offset <= file->size && size <= file->size - offset)
		return WEIR_OK;
	weir_error_set(err, WEIR_E_DATA, "%llu bytes are wanted here, but the file has only %llu bytes",
		       (unsigned long long)size, (unsigned long long)file->size);
	return fail_at(file, offset, err);
}

static int fail_shrunk(const struct weir_file *file, uint64_t offset, struct weir_error *err)
{
	weir_error_set(err, WEIR_E_DATA,
		       "the file ends here; it had %llu bytes when it was opened: it was cut while "
		       "being read",
		       (unsigned long long)file->size);
	return fail_at(file, offset, err);
}

/* Worth another attempt: a network file system or a disk may have recovered. */
static bool is_passing(int errno_value)
{
	return errno_value == EIO || errno_value == ESTALE || errno_value == ETIMEDOUT || errno_value == EAGAIN;
}

static void pause_ms(int ms)
{
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	while (nanosleep(&time, &time) < 0 && errno == EINTR)
		;
}

static size_t piece(uint64_t size)
{
	return size > READ_PIECE_MAX ? READ_PIECE_MAX : (size_t)size;
}

/* Reads on from *done until `size` bytes are there. */
static int read_rest(const struct weir_file *file, uint64_t offset, void *buffer, uint64_t size, uint64_t *done,
		     struct weir_error *err)
{
	int attempt = 1, wait_ms = READ_PAUSE_MS;

	while (*done < size) {
		ssize_t n = weir_fault(WEIR_FAULT_READ) ? -1
							: pread(file->fd, (char *)buffer + *done, piece(size - *done),
								(off_t)(offset + *done));

		if (n > 0) {
			*done += (uint64_t)n;
			attempt = 1;
			wait_ms = READ_PAUSE_MS;
		} else if (n == 0) {
			return fail_shrunk(file, offset + *done, err);
		} else if (errno == EINTR) {
			continue;
		} else if (is_passing(errno) && attempt < READ_ATTEMPTS) {
			attempt++;
			pause_ms(wait_ms);
			wait_ms *= 2;
		} else {
			weir_error_set_errno(err, errno, "cannot read %llu bytes", (unsigned long long)(size - *done));
			return fail_at(file, offset + *done, err);
		}
	}
	return WEIR_OK;
}

int weir_file_read(struct weir_file *file, uint64_t offset, void *buffer, uint64_t size, struct weir_error *err)
{
	uint64_t done = 0;
	int code = check_range(file, offset, size, err);

	return code ? code : read_rest(file, offset, buffer, size, &done, err);
}

/* Takes what the page cache has, from the front. True when the rest has to wait for a disk. */
static bool cache_misses(struct weir_file *file, struct weir_read *read)
{
	struct statfs statfs;

	if (atomic_load_explicit(&file->cache_answer, memory_order_relaxed) == CACHE_ALWAYS)
		return false;
	if (atomic_load_explicit(&file->cache_answer, memory_order_relaxed) == CACHE_NEVER)
		return true;
	while (read->done < read->size) {
		struct iovec vector = {.iov_base = (char *)read->buffer + read->done,
				       .iov_len = piece(read->size - read->done)};
		ssize_t n = weir_fault(WEIR_FAULT_READ)
				    ? -1
				    : preadv2(file->fd, &vector, 1, (off_t)(read->offset + read->done), RWF_NOWAIT);

		if (n > 0) {
			read->done += (uint64_t)n;
		} else if (n == 0) { /* it shrank: the plain read says so */
			return false;
		} else if (errno == EOPNOTSUPP || errno == ENOSYS) {
			/* What cannot be asked waits elsewhere, except where all there is is memory. */
			bool memory = !fstatfs(file->fd, &statfs) &&
				      (statfs.f_type == TMPFS_MAGIC || statfs.f_type == RAMFS_MAGIC);

			atomic_store_explicit(&file->cache_answer, memory ? CACHE_ALWAYS : CACHE_NEVER,
					      memory_order_relaxed);
			return !memory;
		} else if (errno != EINTR) {
			return true; /* not cached, or an error that the thread may try again */
		}
	}
	return false;
}

/* ---- the I/O threads ---- */

static void futex(const _Atomic uint32_t *word, int operation, uint32_t value)
{
	(void)syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void finish(struct weir_read *read)
{
	read->code = read_rest(read->file, read->offset, read->buffer, read->size, &read->done, &read->error);
	if (atomic_exchange_explicit(&read->state, STATE_DONE, memory_order_acq_rel) == STATE_WAITED)
		futex(&read->state, FUTEX_WAKE, 1);
}

static void *serve(void *arg)
{
	struct weir_io *io = arg;

	pthread_mutex_lock(&io->lock);
	for (;;) {
		struct weir_read *read;

		while (!io->first && !io->stopping) {
			io->idle++;
			pthread_cond_wait(&io->work, &io->lock);
			io->idle--;
		}
		read = io->first;
		if (!read)
			break;
		io->first = read->next;
		if (!io->first)
			io->last = &io->first;
		io->queued--;
		pthread_mutex_unlock(&io->lock);
		finish(read);
		pthread_mutex_lock(&io->lock);
	}
	pthread_mutex_unlock(&io->lock);
	return NULL;
}

/* With the lock held. A thread that cannot be had is no error while another runs, or the lane reads for itself. */
static void start_thread(struct weir_io *io)
{
	sigset_t all, before;
	pthread_attr_t attributes;

	if (weir_fault(WEIR_FAULT_SPAWN) || pthread_attr_init(&attributes))
		return;
	pthread_attr_setstacksize(&attributes, IO_STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	if (!pthread_create(&io->threads[io->thread_count], &attributes, serve, io))
		io->thread_count++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
}

static bool enqueue(struct weir_io *io, struct weir_read *read)
{
	bool queued = false;

	pthread_mutex_lock(&io->lock);
	if (io->queued >= io->idle && io->thread_count < io->thread_max)
		start_thread(io);
	if (io->thread_count && io->queued < QUEUE_MAX) {
		*io->last = read;
		io->last = &read->next;
		io->queued++;
		queued = true;
		pthread_cond_signal(&io->work);
	}
	pthread_mutex_unlock(&io->lock);
	return queued;
}

void weir_read_submit(struct weir_io *io, struct weir_read *read)
{
	read->done = 0;
	read->next = NULL;
	weir_error_clear(&read->error);
	atomic_store_explicit(&read->state, STATE_PENDING, memory_order_relaxed);
	read->code = check_range(read->file, read->offset, read->size, &read->error);
	if (read->code) {
		atomic_store_explicit(&read->state, STATE_DONE, memory_order_relaxed);
		return;
	}
	if (!cache_misses(read->file, read) || !enqueue(io, read))
		finish(read);
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

bool weir_read_done(const struct weir_read *read)
{
	return atomic_load_explicit(&read->state, memory_order_acquire) == STATE_DONE;
}

int weir_read_wait(struct weir_io *io, struct weir_read *read, struct weir_error *err)
{
	uint32_t state;

	(void)io;
	/* A read from a fast disk ends sooner than a sleep and a wake would. */
	for (int spin = 0; spin < WAIT_SPINS && !weir_read_done(read); spin++)
		relax();
	while ((state = atomic_load_explicit(&read->state, memory_order_acquire)) != STATE_DONE) {
		WEIR_ASSERT(state == STATE_PENDING || state == STATE_WAITED);
		if (state == STATE_WAITED ||
		    atomic_compare_exchange_strong_explicit(&read->state, &state, STATE_WAITED, memory_order_relaxed,
							    memory_order_relaxed))
			futex(&read->state, FUTEX_WAIT, STATE_WAITED);
	}
	if (read->code)
		*err = read->error;
	return read->code;
}

int weir_io_new(struct weir_account *account, uint32_t thread_count, struct weir_io **out, struct weir_error *err)
{
	struct weir_io *io = weir_alloc_zero(account, sizeof(*io), err);

	*out = io;
	if (!io)
		return err->code;
	io->account = account;
	io->thread_max = !thread_count                   ? IO_THREADS_DEFAULT
			 : thread_count > IO_THREADS_MAX ? IO_THREADS_MAX
							 : thread_count;
	io->last = &io->first;
	pthread_mutex_init(&io->lock, NULL);
	pthread_cond_init(&io->work, NULL);
	return WEIR_OK;
}

uint32_t weir_io_threads_started(const struct weir_io *io)
{
	uint32_t count;

	pthread_mutex_lock((pthread_mutex_t *)&io->lock);
	count = io->thread_count;
	pthread_mutex_unlock((pthread_mutex_t *)&io->lock);
	return count;
}

void weir_io_free(struct weir_io *io)
{
	if (!io)
		return;
	pthread_mutex_lock(&io->lock);
	io->stopping = 1;
	pthread_cond_broadcast(&io->work);
	pthread_mutex_unlock(&io->lock);
	for (uint32_t t = 0; t < io->thread_count; t++)
		pthread_join(io->threads[t], NULL);
	WEIR_ASSERT(!io->first);
	pthread_mutex_destroy(&io->lock);
	pthread_cond_destroy(&io->work);
	weir_free(io->account, io, sizeof(*io));
}
