/* Random trees and patterns against a plain model: the model knows every path that was made, matches each with libc's
 * fnmatch, component by component, and sorts what is left. */
#include "io_test.h"

#include "base/fault.h"
#include "io/glob.h"
#include "io/list.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATHS_MAX = 600, PATH_SIZE = 200 };

struct paths {
	size_t count;
	char items[PATHS_MAX][PATH_SIZE];
};

static char start[PATH_SIZE], scratch[64];

/* Each test runs inside an empty folder of its own. */
static int tree_setup(void **state)
{
	assert_non_null(getcwd(start, sizeof(start)));
	snprintf(scratch, sizeof(scratch), "/tmp/weir-list-XXXXXX");
	assert_non_null(mkdtemp(scratch));
	assert_int_equal(chdir(scratch), 0);
	return fixture_setup(state);
}

static int tree_teardown(void **state)
{
#ifdef WEIR_FAULTS
	weir_fault_disarm();
#endif
	assert_int_equal(chdir(start), 0);
	remove_all(scratch);
	return fixture_teardown(state);
}

static void make_file(const char *path, size_t size)
{
	char copy[PATH_SIZE];
	int fd;

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(copy, sizeof(copy), "%.*s", (int)(slash - path), path);
		mkdir(copy, 0700);
	}
	fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	close(fd);
}

static int list_all(struct fixture *f, const char *const *paths, uint32_t count,
		    const struct weir_list_options *options, struct paths *out)
{
	struct weir_listing *listing;
	struct weir_listed listed;
	bool done = false;
	int code;

	out->count = 0;
	assert_ok(f, weir_listing_new(f->account, paths, count, options, &listing, &f->error));
	while (!(code = weir_listing_next(listing, &listed, &done, &f->error)) && !done) {
		struct stat stat_buffer;

		assert_true(out->count < PATHS_MAX);
		assert_int_equal(stat(listed.path, &stat_buffer), 0);
		assert_int_equal(listed.size, stat_buffer.st_size);
		snprintf(out->items[out->count++], PATH_SIZE, "%s", listed.path);
	}
	weir_listing_free(listing);
	return code;
}

static int list_one(struct fixture *f, const char *path, const struct weir_list_options *options, struct paths *out)
{
	return list_all(f, &path, 1, options, out);
}

static int path_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* To a text with room for PATH_SIZE bytes. */
static void append(char *text, const char *more)
{
	size_t size = strlen(text);

	assert_true(size + strlen(more) < PATH_SIZE);
	memcpy(text + size, more, strlen(more) + 1);
}

/* ---- the model ---- */

struct tree {
	struct paths files, directories;
};

static bool model_hidden(const char *name, size_t size, bool directory)
{
	return name[0] == '.' || (name[0] == '_' && !(directory && memchr(name, '=', size)));
}

/* Every component of a path below a directory may be walked. */
static bool model_walkable(const char *below)
{
	for (;;) {
		size_t size = strcspn(below, "/");

		if (model_hidden(below, size, below[size] == '/'))
			return false;
		if (!below[size])
			return true;
		below += size + 1;
	}
}

static bool model_match(const char *pattern, const char *path, bool directory)
{
	size_t p = strcspn(pattern, "/"), n = strcspn(path, "/");
	char pattern_part[PATH_SIZE], name[PATH_SIZE];
	bool is_last = !path[n];

	snprintf(pattern_part, sizeof(pattern_part), "%.*s", (int)p, pattern);
	snprintf(name, sizeof(name), "%.*s", (int)n, path);
	if (!strcmp(pattern_part, "**")) {
		/* No directory at all, or one more. */
		if (pattern[p] && model_match(pattern + p + 1, path, directory))
			return true;
		if (is_last)
			return !pattern[p] && !directory && !model_hidden(name, n, false);
		return !model_hidden(name, n, true) && model_match(pattern, path + n + 1, directory);
	}
	if (fnmatch(pattern_part, name, FNM_PERIOD | FNM_PATHNAME))
		return false;
	if (is_last || !pattern[p])
		return is_last && !pattern[p];
	return model_match(pattern + p + 1, path + n + 1, directory);
}

static bool model_contains(const struct paths *paths, const char *path)
{
	for (size_t i = 0; i < paths->count; i++)
		if (!strcmp(paths->items[i], path))
			return true;
	return false;
}

static void model_add(struct paths *out, const char *path)
{
	if (!model_contains(out, path))
		snprintf(out->items[out->count++], PATH_SIZE, "%s", path);
}

static void model_walk(const struct tree *tree, const char *directory, struct paths *out)
{
	size_t size = strlen(directory);

	for (size_t i = 0; i < tree->files.count; i++) {
		const char *file = tree->files.items[i];

		if (!strncmp(file, directory, size) && file[size] == '/' && model_walkable(file + size + 1))
			model_add(out, file);
	}
}

static bool has_component(const char *pattern, const char *component)
{
	char padded[PATH_SIZE + 2], wanted[8];

	snprintf(padded, sizeof(padded), "/%s/", pattern);
	snprintf(wanted, sizeof(wanted), "/%s/", component);
	return strstr(padded, wanted) != NULL;
}

/* `alternatives`: the pattern with its braces already multiplied out, by whoever made it up. */
static void model_list(const struct tree *tree, const char *pattern, const struct paths *alternatives,
		       struct paths *out)
{
	out->count = 0;
	if (model_contains(&tree->files, pattern)) {
		model_add(out, pattern);
	} else if (model_contains(&tree->directories, pattern)) {
		model_walk(tree, pattern, out);
	} else {
		for (size_t a = 0; a < alternatives->count; a++) {
			const char *alternative = alternatives->items[a];

			for (size_t i = 0; i < tree->files.count; i++)
				if (model_match(alternative, tree->files.items[i], false))
					model_add(out, tree->files.items[i]);
			for (size_t i = 0; i < tree->directories.count; i++)
				if (!has_component(alternative, "**") &&
				    model_match(alternative, tree->directories.items[i], true))
					model_walk(tree, tree->directories.items[i], out);
		}
	}
	qsort(out->items, out->count, PATH_SIZE, path_compare);
}

/* ---- random trees ---- */

static const char *const names[] = {"a",   "b",    "ab",  "a.p", "b.p", ".a",   "_b",     "_x=1",
				    "a=1", "a*b",  "[a]", "a?",  "{a}", "a-b",  "a b",    "a\nb",
				    "A",   "a.pq", "b=",  "!a",  "]b",  "a\\b", "a{b,c}", "^a"};

static const char *random_name(uint64_t *random)
{
	return names[random_next(random) % (sizeof(names) / sizeof(names[0]))];
}

static void tree_fill(struct tree *tree, const char *directory, int depth, uint64_t *random)
{
	unsigned count = (unsigned)(random_next(random) % 7);

	for (unsigned i = 0; i < count && tree->files.count < 150; i++) {
		char path[PATH_SIZE];

		snprintf(path, sizeof(path), "%s%s%s", directory, *directory ? "/" : "", random_name(random));
		if (model_contains(&tree->files, path) || model_contains(&tree->directories, path))
			continue;
		if (depth < 4 && random_next(random) % 2) {
			assert_int_equal(mkdir(path, 0700), 0);
			model_add(&tree->directories, path);
			tree_fill(tree, path, depth + 1, random);
		} else {
			make_file(path, random_next(random) % 100);
			model_add(&tree->files, path);
		}
	}
}

static void multiply(struct paths *alternatives, char pieces[][16], unsigned count)
{
	size_t before = alternatives->count;

	if (before * count > PATHS_MAX)
		count = 1;
	for (unsigned p = count; p-- > 0;)
		for (size_t a = 0; a < before; a++) {
			char *to = alternatives->items[p * before + a];

			if (p)
				memcpy(to, alternatives->items[a], PATH_SIZE);
			append(to, pieces[p]);
		}
	alternatives->count = before * count;
}

/* Adds a piece of one name to the pattern and to each of its alternatives. */
static void pattern_piece(char *pattern, struct paths *alternatives, uint64_t *random)
{
	static const char *const pieces[] = {"*",   "?", "a", "b",    ".p",    "[ab]",   "[!a]", "[a-c]", "=1",
					     "\\*", "_", ".", "[]b]", "[^b]*", "A",      "[",    "]",     "\\\\",
					     "!",   "-", "{", "}",    "[[]",   "[a\\]]", "??",   "**a",   "*p"};
	char chosen[2][16];
	unsigned count = 1;

	snprintf(chosen[0], 16, "%s", pieces[random_next(random) % (sizeof(pieces) / sizeof(pieces[0]))]);
	if (random_next(random) % 6 == 0 && !strpbrk(chosen[0], "{}") && alternatives->count < 16) {
		snprintf(chosen[1], 16, "%s", random_next(random) % 2 ? "b" : "*/a");
		append(pattern, "{"), append(pattern, chosen[0]), append(pattern, ","), append(pattern, chosen[1]),
			append(pattern, "}");
		count = 2;
	} else {
		append(pattern, chosen[0]);
	}
	multiply(alternatives, chosen, count);
}

static void random_pattern(const struct tree *tree, char *pattern, struct paths *alternatives, uint64_t *random)
{
	unsigned components = 1 + (unsigned)(random_next(random) % 4);

	pattern[0] = '\0';
	alternatives->count = 1;
	alternatives->items[0][0] = '\0';
	for (unsigned c = 0; c < components; c++) {
		char slash[1][16] = {"/"}, any[1][16] = {"**"};

		if (c) {
			append(pattern, "/");
			multiply(alternatives, slash, 1);
		}
		if (random_next(random) % 4 == 0) {
			append(pattern, "**");
			multiply(alternatives, any, 1);
			continue;
		}
		if (random_next(random) % 3 == 0 && tree->directories.count) {
			char name[1][16] = {""};

			do
				snprintf(name[0], 16, "%s", random_name(random));
			while (strpbrk(name[0], "{}\\")); /* they would pair with others, or escape the next */
			append(pattern, name[0]);
			multiply(alternatives, name, 1);
			continue;
		}
		for (unsigned p = (unsigned)(random_next(random) % 3) + 1; p > 0; p--)
			pattern_piece(pattern, alternatives, random);
	}
}

/* The model's alternatives are the truth only if loose braces did not pair up around a comma. */
static bool braces_paired_by_chance(const char *pattern)
{
	for (; *pattern; pattern++)
		if ((*pattern == '{' && !strchr("{*?ab.=[\\_A]!-", pattern[1])) || !strncmp(pattern, "{}", 2))
			return true;
	return false;
}

/* "." and ".." name directories that the model does not list. */
static bool has_dots(const struct paths *alternatives)
{
	for (size_t a = 0; a < alternatives->count; a++)
		if (has_component(alternatives->items[a], ".") || has_component(alternatives->items[a], ".."))
			return true;
	return false;
}

static int count_loose(const char *pattern)
{
	int loose = 0;

	for (; *pattern; pattern++)
		loose += *pattern == '{' || *pattern == '}';
	return loose;
}

static void test_random_trees(void **state)
{
	struct fixture *f = *state;
	struct tree *tree = malloc(sizeof(*tree));
	struct paths *alternatives = malloc(sizeof(*alternatives)), *want = malloc(sizeof(*want)),
		     *got = malloc(sizeof(*got));
	uint64_t seed = test_seed(31), random = seed, compared = 0, found = 0;

	for (int round = 0; round < 40; round++) {
		char directory[32];

		memset(tree, 0, sizeof(*tree));
		snprintf(directory, sizeof(directory), "t%d", round);
		assert_int_equal(mkdir(directory, 0700), 0);
		assert_int_equal(chdir(directory), 0);
		tree_fill(tree, "", 0, &random);
		for (int p = 0; p < 200; p++) {
			char pattern[PATH_SIZE];
			int code;

			random_pattern(tree, pattern, alternatives, &random);
			/* A loose brace is plain text only while it is alone. */
			if (count_loose(pattern) > (strchr(pattern, ',') ? 2 : 1) || braces_paired_by_chance(pattern))
				continue;
			if ((strchr(pattern, ',') && count_loose(pattern) % 2) || has_dots(alternatives))
				continue;
			model_list(tree, pattern, alternatives, want);
			code = list_one(f, pattern, NULL, got);
			if (code != (want->count ? WEIR_OK : WEIR_E_NOT_FOUND) || got->count != want->count)
				fail_msg("pattern \"%s\" of round %d: %zu files where the model has %zu (%s)", pattern,
					 round, got->count, want->count, code ? f->error.message : "");
			for (size_t i = 0; i < got->count; i++)
				if (strcmp(got->items[i], want->items[i]))
					fail_msg("pattern \"%s\" of round %d: %s where the model has %s", pattern,
						 round, got->items[i], want->items[i]);
			compared++;
			found += got->count > 0;
		}
		for (size_t d = 0; d < tree->directories.count; d++) {
			want->count = 0;
			model_walk(tree, tree->directories.items[d], want);
			qsort(want->items, want->count, PATH_SIZE, path_compare);
			assert_int_equal(list_one(f, tree->directories.items[d], NULL, got),
					 want->count ? WEIR_OK : WEIR_E_NOT_FOUND);
			assert_int_equal(got->count, want->count);
			for (size_t i = 0; i < got->count; i++)
				assert_string_equal(got->items[i], want->items[i]);
		}
		assert_int_equal(chdir(".."), 0);
	}
	printf("%llu patterns, %llu with files\n", (unsigned long long)compared, (unsigned long long)found);
	assert_true(compared > 4000 && found > 400);
	free(tree);
	free(alternatives);
	free(want);
	free(got);
}

/* ---- cases ---- */

static void check(struct fixture *f, const char *path, const struct weir_list_options *options, const char *const *want)
{
	struct paths *got = malloc(sizeof(*got));
	size_t count = 0;

	while (want[count])
		count++;
	if (list_one(f, path, options, got) && count)
		fail_msg("%s: %s", path, f->error.message);
	if (got->count != count)
		fail_msg("%s: %zu files, not %zu", path, got->count, count);
	for (size_t i = 0; i < count; i++)
		assert_string_equal(got->items[i], want[i]);
	free(got);
}

#define CHECK(f, path, options, ...) check(f, path, options, (const char *const[]){__VA_ARGS__, NULL})

static void test_order_is_that_of_paths(void **state)
{
	struct fixture *f = *state;

	make_file("d/a.p", 1);
	make_file("d/a/x", 2);
	make_file("d/a/b/x", 3);
	make_file("d/a-b", 4);
	make_file("d/a0", 5);
	CHECK(f, "d", NULL, "d/a-b", "d/a.p", "d/a/b/x", "d/a/x", "d/a0");
	CHECK(f, "d///", NULL, "d/a-b", "d/a.p", "d/a/b/x", "d/a/x", "d/a0");
	CHECK(f, "./d/*", NULL, "./d/a-b", "./d/a.p", "./d/a/b/x", "./d/a/x", "./d/a0");
	CHECK(f, "d/{a0,a.p,a*,*}", NULL, "d/a-b", "d/a.p", "d/a/b/x", "d/a/x", "d/a0");
	CHECK(f, "d/*/", NULL, "d/a/b/x", "d/a/x");
	CHECK(f, "{d/a/**,d/a0}", NULL, "d/a/b/x", "d/a/x", "d/a0");
	CHECK(f, "file://d/a0", NULL, "d/a0");
}

static void test_names_are_bytes(void **state)
{
	struct fixture *f = *state;

	make_file("n/new\nline", 1);
	make_file("n/\xff\xfe", 1);
	make_file("n/Z\xc3\xbcrich", 1);
	make_file("n/*.p", 1);
	make_file("n/a.p", 1);
	CHECK(f, "n/*.p", NULL, "n/*.p"); /* what exists is no pattern */
	CHECK(f, "n/\\*.p", NULL, "n/*.p");
	CHECK(f, "n/?.p", NULL, "n/*.p", "n/a.p");
	CHECK(f, "n/Z?rich", NULL, "n/Z\xc3\xbcrich");
	CHECK(f, "n/Z[\xc3\xa4-\xc3\xbf]rich", NULL, "n/Z\xc3\xbcrich");
	CHECK(f, "n/Z[!\xc3\xbc]rich", NULL, NULL);
	CHECK(f, "n/??", NULL, "n/\xff\xfe");
	CHECK(f, "n/new?line", NULL, "n/new\nline");
}

static void test_extensions(void **state)
{
	struct fixture *f = *state;
	struct weir_list_options options = {.extensions = (const char *const[]){".parquet", ".parq", NULL}};

	make_file("e/a.parquet", 1);
	make_file("e/b.PARQUET", 1);
	make_file("e/c.txt", 1);
	make_file("e/d/e.parq", 1);
	make_file("e/d/_f.parq", 1);
	make_file("e/x.parquet/part", 1);
	make_file("e/x.parquet/part.parquet", 1);
	make_file("only/c.txt", 1);
	CHECK(f, "e", &options, "e/a.parquet", "e/b.PARQUET", "e/d/e.parq", "e/x.parquet/part.parquet");
	CHECK(f, "e/c.txt", &options, "e/c.txt"); /* asked for by name */
	CHECK(f, "e/*.txt", &options, "e/c.txt");
	CHECK(f, "e/d*", &options, "e/d/e.parq");
	CHECK(f, "only", &options, NULL);
	make_file("z/a.parquet.gz", 0);
	make_file("z/b.PARQ.zst", 0);
	make_file("z/c.gz", 0);
	make_file("z/d.parquet", 0);
	CHECK(f, "z", &options, "z/d.parquet");
	options.compressed = true;
	CHECK(f, "z", &options, "z/a.parquet.gz", "z/b.PARQ.zst", "z/d.parquet");
	assert_int_equal(f->error.code, WEIR_E_NOT_FOUND);
	assert_non_null(strstr(f->error.message, ".parquet"));
	assert_string_equal(f->error.source, "only");
}

static void test_hive_partitions(void **state)
{
	struct fixture *f = *state;
	const char *paths[] = {"h", "h/year=202?/**/*.p", "h/year=2024/city=Z%C3%BCrich/a.p"};
	struct weir_list_options options = {.hive = true};
	struct weir_listing *listing;
	struct weir_listed listed;
	bool done;

	make_file("h/year=2024/city=Z%C3%BCrich/a.p", 1);
	make_file("h/year=2024/city=__HIVE_DEFAULT_PARTITION__/_x=/b%3Dc=%2F%zz%00/=no/a.p", 1);
	assert_ok(f, weir_listing_new(f->account, paths, 3, &options, &listing, &f->error));
	for (int i = 0; i < 4; i++) {
		assert_ok(f, weir_listing_next(listing, &listed, &done, &f->error));
		assert_false(done);
		assert_string_equal(listed.partitions[0].key, "year");
		assert_string_equal(listed.partitions[0].value, "2024");
		assert_string_equal(listed.partitions[1].key, "city");
		if (i % 2 == 0) {
			assert_int_equal(listed.partition_count, 2);
			assert_string_equal(listed.partitions[1].value, "Z\xc3\xbcrich");
			continue;
		}
		assert_int_equal(listed.partition_count, 4);
		assert_null(listed.partitions[1].value);
		assert_string_equal(listed.partitions[2].key, "_x");
		assert_string_equal(listed.partitions[2].value, "");
		assert_string_equal(listed.partitions[3].key, "b=c");
		assert_string_equal(listed.partitions[3].value, "/%zz%00");
	}
	assert_ok(f, weir_listing_next(listing, &listed, &done, &f->error));
	assert_int_equal(listed.partition_count, 0); /* nothing lies below a file */
	assert_ok(f, weir_listing_next(listing, &listed, &done, &f->error));
	assert_true(done);
	weir_listing_free(listing);
}

static void test_links(void **state)
{
	struct fixture *f = *state;
	struct weir_list_options options = {.extensions = (const char *const[]){".p", NULL}};
	struct paths *got = malloc(sizeof(*got));

	make_file("real/a.p", 3);
	make_file("l/b.p", 1);
	assert_int_equal(symlink("../real", "l/dir"), 0);
	assert_int_equal(symlink("../real/a.p", "l/c.p"), 0);
	assert_int_equal(symlink("nowhere", "l/dangling"), 0);
	assert_int_equal(mkfifo("l/fifo.p", 0600), 0);
	CHECK(f, "l", &options, "l/b.p", "l/c.p", "l/dir/a.p");
	CHECK(f, "l/*.p", &options, "l/b.p", "l/c.p");
	assert_int_equal(list_one(f, "l", NULL, got), WEIR_E_NOT_FOUND); /* the dangling one is wanted now */
	assert_non_null(strstr(f->error.source, "dangling"));
	assert_int_equal(list_one(f, "l/fifo.p", NULL, got), WEIR_E_INVALID);

	make_file("loop/a/x.p", 1);
	assert_int_equal(symlink("../..", "loop/a/z"), 0);
	assert_int_equal(list_one(f, "loop", &options, got), WEIR_E_INVALID);
	assert_string_equal(f->error.source, "loop/a/z/loop/");
	assert_int_equal(list_one(f, "loop/**/*.p", &options, got), WEIR_E_INVALID);
	CHECK(f, "loop/*/z/loop/a/x.p", &options, "loop/a/z/loop/a/x.p"); /* but so far it may be said */
	assert_int_equal(symlink("self", "loop/self"), 0);
	assert_int_equal(list_one(f, "loop/self", &options, got), WEIR_E_IO);
	free(got);
}

static void test_what_is_not_there(void **state)
{
	struct fixture *f = *state;
	struct paths *got = malloc(sizeof(*got));
	const char *several[] = {"w/a", "w/none", "w/a"}, *twice[] = {"w/a", "w", "w/a"};
	struct weir_listing *listing;
	char braces[PATH_SIZE] = "";

	make_file("w/a", 1);
	mkdir("empty", 0700);
	assert_int_equal(list_one(f, "none", NULL, got), WEIR_E_NOT_FOUND);
	assert_string_equal(f->error.source, "none");
	assert_int_equal(list_one(f, "w/a/b", NULL, got), WEIR_E_NOT_FOUND);
	assert_int_equal(list_one(f, "none/*", NULL, got), WEIR_E_NOT_FOUND);
	assert_int_equal(list_one(f, "empty", NULL, got), WEIR_E_NOT_FOUND);
	assert_int_equal(list_one(f, "w/{}", NULL, got), WEIR_E_NOT_FOUND);
	assert_int_equal(list_one(f, "{,}", NULL, got), WEIR_E_NOT_FOUND);
	assert_int_equal(list_one(f, "s3://bucket/*.p", NULL, got), WEIR_E_UNSUPPORTED);
	assert_int_equal(list_all(f, several, 3, NULL, got), WEIR_E_NOT_FOUND);
	assert_int_equal(got->count, 1); /* lazily: the first was given */
	assert_int_equal(list_all(f, twice, 3, NULL, got), WEIR_OK);
	assert_int_equal(got->count, 3);
	assert_int_equal(list_all(f, NULL, 0, NULL, got), WEIR_OK);
	assert_int_equal(weir_listing_new(f->account, (const char *const[]){""}, 1, NULL, &listing, &f->error),
			 WEIR_E_INVALID);
	for (int i = 0; i < 20; i++)
		append(braces, "{a,b}");
	assert_int_equal(list_one(f, braces, NULL, got), WEIR_E_INVALID);
	memset(braces, 0, sizeof(braces));
	for (int i = 0; i < 70; i++)
		append(braces, "*/");
	assert_int_equal(list_one(f, braces, NULL, got), WEIR_E_INVALID);
	free(got);
}

/* A thousand stars take no longer than one: only the newest moves. */
static void test_hostile_pattern(void **state)
{
	char pattern[400], name[1001];

	(void)state;
	memset(name, 'a', 1000);
	name[1000] = '\0';
	for (int i = 0; i < 100; i++)
		memcpy(pattern + 2 * i, "*a", 2);
	memcpy(pattern + 200, "b", 2);
	assert_false(weir_glob_match(pattern, name));
	pattern[200] = '\0';
	assert_true(weir_glob_match(pattern, name));
}

#ifdef WEIR_FAULTS
static void test_no_memory(void **state)
{
	struct fixture *f = *state;
	const char *paths[] = {"m", "m/**/{a,b}*", "m/x=1/a"};
	struct weir_list_options options = {.hive = true};
	int code = WEIR_E_MEMORY;

	make_file("m/x=1/a", 1);
	make_file("m/x=1/y=2/b", 1);
	for (uint64_t nth = 1; code; nth++) {
		struct weir_listing *listing = NULL;
		struct weir_listed listed;
		bool done = false;

		assert_true(nth < 200);
		weir_fault_arm(WEIR_FAULT_ALLOC, nth, ENOMEM, false);
		code = weir_listing_new(f->account, paths, 3, &options, &listing, &f->error);
		while (!code && !done)
			code = weir_listing_next(listing, &listed, &done, &f->error);
		assert_true(code == WEIR_OK || code == WEIR_E_MEMORY);
		weir_listing_free(listing);
		assert_int_equal(f->account->used, 0);
	}
}
#endif

static void count_missing(void *context, const struct weir_error *why)
{
	assert_true(why->code == WEIR_E_NOT_FOUND || why->code == WEIR_E_IO);
	assert_true(why->source[0]);
	++*(int *)context;
}

static void missing_paths_are_told(void **state)
{
	struct fixture *f = *state;
	static const char *const paths[] = {"a", "gone", "*.nothing", "empty", "b/dead", "a/x.p", "b", "loop"};
	int missing = 0;
	struct weir_list_options options = {
		.extensions = (const char *const[]){".p", NULL}, .missing = count_missing, .missing_context = &missing};
	struct paths *got = calloc(1, sizeof(*got));

	make_file("a/x.p", 1);
	make_file("b/y.p", 1);
	assert_int_equal(mkdir("empty", 0700), 0);
	assert_int_equal(symlink("nowhere", "b/dead.p"), 0);
	assert_int_equal(symlink("nowhere", "b/dead"), 0);
	assert_int_equal(list_all(f, paths, 7, &options, got), WEIR_OK);
	assert_int_equal(got->count, 3);
	assert_string_equal(got->items[0], "a/x.p");
	assert_string_equal(got->items[1], "a/x.p");
	assert_string_equal(got->items[2], "b/y.p");
	assert_int_equal(missing, 5); /* gone, the pattern, the empty folder, b/dead, b/dead.p */
	/* What is wrong with more than one path is still an error. */
	assert_int_equal(mkdir("loop", 0700), 0);
	assert_int_equal(symlink("..", "loop/up"), 0);
	assert_int_equal(list_all(f, paths, 8, &options, got), WEIR_E_INVALID);
	free(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_random_trees, tree_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(test_order_is_that_of_paths, tree_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(test_names_are_bytes, tree_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(test_extensions, tree_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(test_hive_partitions, tree_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(test_links, tree_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(test_what_is_not_there, tree_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(missing_paths_are_told, tree_setup, tree_teardown),
		cmocka_unit_test(test_hostile_pattern),
#ifdef WEIR_FAULTS
		cmocka_unit_test_setup_teardown(test_no_memory, tree_setup, tree_teardown),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
