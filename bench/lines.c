/* lines THREADS LIST: counts the newlines of the files named in LIST, one a line: what reading text cannot be faster
 * than. Prints the time in the form of limits.c. Pieces of a file are taken by whichever thread is free. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 8 << 20, READ = 256 << 10, MAX_THREADS = 64 };

struct piece {
	const char *path;
	off_t begin, end;
};

static struct piece *pieces;
static size_t piece_count, piece_room;
static _Atomic size_t next_piece;
static _Atomic unsigned long long lines;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void add_file(const char *path)
{
	struct stat info;

	if (stat(path, &info))
		die(path);
	for (off_t begin = 0; begin < info.st_size; begin += PIECE) {
		off_t end = begin + PIECE < info.st_size ? begin + PIECE : info.st_size;

		if (piece_count == piece_room) {
			piece_room = piece_room ? piece_room * 2 : 1024;
			pieces = realloc(pieces, piece_room * sizeof(*pieces));
			if (!pieces)
				die("memory");
		}
		pieces[piece_count++] = (struct piece){strdup(path), begin, end};
	}
}

static void *count(void *unused)
{
	char *buffer = malloc(READ);
	unsigned long long found = 0;
	size_t i;

	(void)unused;
	while ((i = atomic_fetch_add(&next_piece, 1)) < piece_count) {
		int fd = open(pieces[i].path, O_RDONLY | O_CLOEXEC);

		if (fd < 0 || !buffer)
			die(pieces[i].path);
		for (off_t at = pieces[i].begin; at < pieces[i].end;) {
			size_t want = (size_t)(pieces[i].end - at < READ ? pieces[i].end - at : READ);
			ssize_t got = pread(fd, buffer, want, at);

			if (got <= 0)
				die(pieces[i].path);
			for (char *p = buffer; (p = memchr(p, '\n', (size_t)(buffer + got - p))); p++)
				found++;
			at += got;
		}
		close(fd);
	}
	atomic_fetch_add(&lines, found);
	free(buffer);
	return NULL;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	unsigned long long bytes = 0;
	char path[4096];
	double start;
	FILE *list;
	int n;

	if (argc != 3 || (n = (int)strtol(argv[1], NULL, 10)) < 1 || n > MAX_THREADS || !(list = fopen(argv[2], "r"))) {
		fprintf(stderr, "usage: lines THREADS LIST\n");
		return 2;
	}
	while (fgets(path, sizeof(path), list)) {
		path[strcspn(path, "\n")] = 0;
		add_file(path);
	}
	fclose(list);
	for (size_t i = 0; i < piece_count; i++)
		bytes += (unsigned long long)(pieces[i].end - pieces[i].begin);
	start = now();
	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, count, NULL))
			die("thread");
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("{\"decompress_s\": %.6f, \"write_s\": 0, \"lines\": %llu, \"decoded_bytes\": %llu}\n", now() - start,
	       (unsigned long long)lines, bytes);
	return 0;
}
