/*
 * What the machine could do at best with a file: decompress the same pages, write the same number of bytes.
 *
 *	limits INDEX THREADS OUT_BYTES FOLDER
 *
 * INDEX is written by pages.py. The files are mapped and touched before the clock starts; then THREADS threads take
 * the pages in order and decompress each into a buffer of their own (an uncompressed page is copied). After that they
 * write OUT_BYTES in all into files in FOLDER, which are removed again. Prints one JSON object.
 *
 * No decoding, no filter, no encoding, no compression of the output: nothing that reads all pages can be faster.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <snappy-c.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

enum codec { CODEC_NONE, CODEC_SNAPPY, CODEC_ZSTD };

enum { MAX_THREADS = 64, PAGES_A_TURN = 8, WRITE_SIZE = 1 << 20 };

struct page {
	const char *bytes;
	size_t compressed;
	size_t uncompressed;
};

struct replay {
	enum codec codec;
	struct page *pages;
	size_t page_count;
	size_t largest;
	size_t decoded;
	atomic_size_t next;
	size_t write_bytes; /* of each thread */
	const char *folder;
};

struct lane {
	struct replay *replay;
	int number;
	char *buffer;
	pthread_t thread;
};

static void die(const char *what, const char *name)
{
	fprintf(stderr, "limits: %s: %s\n", name, what);
	exit(1);
}

static void die_errno(const char *name)
{
	die(strerror(errno), name);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static const char *file_map(const char *path, size_t *size)
{
	struct stat st;
	char *bytes;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		die_errno(path);
	*size = (size_t)st.st_size;
	bytes = mmap(NULL, *size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (bytes == MAP_FAILED)
		die_errno(path);
	close(fd);
	return bytes;
}

static void page_add(struct replay *r, size_t *room, struct page page)
{
	if (r->page_count == *room) {
		*room = *room ? *room * 2 : 1024;
		r->pages = realloc(r->pages, *room * sizeof(*r->pages));
		if (!r->pages)
			die_errno("pages");
	}
	r->pages[r->page_count++] = page;
	r->decoded += page.uncompressed;
	if (page.uncompressed > r->largest)
		r->largest = page.uncompressed;
}

static void index_read(struct replay *r, const char *path)
{
	const char *file = NULL;
	size_t file_size = 0, room = 0, offset, compressed, uncompressed;
	char *line = NULL, name[16];
	size_t line_size = 0;
	ssize_t length;
	FILE *f;

	f = fopen(path, "re");
	if (!f)
		die_errno(path);
	while ((length = getline(&line, &line_size, f)) > 0) {
		line[length - 1] = '\0';
		if (sscanf(line, "codec %15s", name) == 1) {
			r->codec = !strcmp(name, "snappy") ? CODEC_SNAPPY
				   : !strcmp(name, "zstd") ? CODEC_ZSTD
							   : CODEC_NONE;
		} else if (!strncmp(line, "f ", 2)) {
			file = file_map(line + 2, &file_size);
		} else if (sscanf(line, "p %zu %zu %zu", &offset, &compressed, &uncompressed) == 3) {
			if (offset > file_size || compressed > file_size - offset)
				die("page outside of the file", path);
			page_add(r, &room, (struct page){file + offset, compressed, uncompressed});
		} else {
			die(line, path);
		}
	}
	free(line);
	fclose(f);
}

static void *lane_decompress(void *arg)
{
	struct lane *lane = arg;
	struct replay *r = lane->replay;
	ZSTD_DCtx *zstd = ZSTD_createDCtx();
	size_t from, i, got;

	while ((from = atomic_fetch_add(&r->next, PAGES_A_TURN)) < r->page_count) {
		for (i = from; i < from + PAGES_A_TURN && i < r->page_count; i++) {
			const struct page *p = &r->pages[i];

			got = p->uncompressed;
			if (r->codec == CODEC_SNAPPY) {
				if (snappy_uncompress(p->bytes, p->compressed, lane->buffer, &got) != SNAPPY_OK)
					die("snappy", "page");
			} else if (r->codec == CODEC_ZSTD) {
				got = ZSTD_decompressDCtx(zstd, lane->buffer, p->uncompressed, p->bytes, p->compressed);
			} else {
				memcpy(lane->buffer, p->bytes, p->uncompressed);
			}
			if (got != p->uncompressed)
				die("size of a decompressed page", "page");
		}
	}
	ZSTD_freeDCtx(zstd);
	return NULL;
}

static void *lane_write(void *arg)
{
	struct lane *lane = arg;
	size_t left = lane->replay->write_bytes, some;
	char path[4096];
	ssize_t done;
	int fd;

	snprintf(path, sizeof(path), "%s/limits-%d.tmp", lane->replay->folder, lane->number);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		die_errno(path);
	while (left) {
		some = left < WRITE_SIZE ? left : WRITE_SIZE;
		done = write(fd, lane->buffer, some);
		if (done <= 0)
			die_errno(path);
		left -= (size_t)done;
	}
	close(fd);
	return NULL;
}

static double lanes_run(struct lane *lanes, int count, void *(*work)(void *))
{
	double start = now();
	int i;

	for (i = 0; i < count; i++)
		if (pthread_create(&lanes[i].thread, NULL, work, &lanes[i]))
			die("thread", "lane");
	for (i = 0; i < count; i++)
		pthread_join(lanes[i].thread, NULL);
	return now() - start;
}

int main(int argc, char **argv)
{
	struct lane lanes[MAX_THREADS] = {0};
	struct replay r = {0};
	double decompress, write_pass;
	char path[4096];
	int threads, i;

	if (argc != 5) {
		fprintf(stderr, "usage: limits INDEX THREADS OUT_BYTES FOLDER\n");
		return 2;
	}
	index_read(&r, argv[1]);
	threads = (int)strtol(argv[2], NULL, 10);
	if (threads < 1 || threads > MAX_THREADS)
		die("1 to 64 threads", argv[2]);
	r.write_bytes = (size_t)strtoull(argv[3], NULL, 10) / (size_t)threads;
	r.folder = argv[4];
	for (i = 0; i < threads; i++) {
		size_t size = r.largest > WRITE_SIZE ? r.largest : WRITE_SIZE;

		lanes[i].replay = &r;
		lanes[i].number = i;
		lanes[i].buffer = malloc(size);
		if (!lanes[i].buffer)
			die_errno("buffer");
		memset(lanes[i].buffer, 1, size);
	}
	decompress = lanes_run(lanes, threads, lane_decompress);
	write_pass = lanes_run(lanes, threads, lane_write);
	for (i = 0; i < threads; i++) {
		snprintf(path, sizeof(path), "%s/limits-%d.tmp", r.folder, i);
		unlink(path);
		free(lanes[i].buffer);
	}
	printf("{\"decompress_s\": %.6f, \"write_s\": %.6f, \"pages\": %zu, \"decoded_bytes\": %zu}\n", decompress,
	       write_pass, r.page_count, r.decoded);
	free(r.pages);
	return 0;
}
