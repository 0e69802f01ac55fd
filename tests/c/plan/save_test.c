/* Plans as bytes: random chains saved and loaded explain alike and give the same output; bytes that were cut or flipped
 * are refused, or are another plan that can be bound, explained and saved without a crash. The seed is printed;
 * WEIR_SEED sets it. */
#include "weir/weir.h"
#include "base/text.h"
#include "api/job.h"
#include "remove_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { CHAINS = 60, CHAINS_HOSTILE = 6, CHAIN_SIZE = 4096 };

static char folder[256];
static uint64_t state_random;

static uint32_t draw(uint32_t below)
{
	state_random ^= state_random << 13;
	state_random ^= state_random >> 7;
	state_random ^= state_random << 17;
	return (uint32_t)((state_random >> 20) % below);
}

/* Steps over id, s and x that leave them where they are. */
static void random_chain(char *out, size_t size)
{
	static const char *const steps[] = {
		"filter 'id %% 7 != 3 and x > -1.5'",
		"filter 's in (\"row 1\", \"row 22\", \"\\u00e9\") or id < 5000'",
		"filter 'x is not None and not (s == \"row 9\")'",
		"with 'y = x * 2 + 1, z = length(s)'",
		"with 'c = \"a\" if id > 10 else None'",
		"with 'd = literal(\"1.50\", \"decimal128(5, 2)\"), t = date(\"2024-02-29\")'",
		"select 'id, s, x, w = coalesce(x, 0.5)'",
		"rename s=r then rename r=s",
		"with 'q = id' then drop q",
		"limit 3000",
		"limit 17",
		"union 'read \"%s/in\" then filter \"id > 2990\" then limit 40'",
	};
	static const char *const options[] = {"", "", " --unify-schemas", " --path-column p --missing skip",
					      " --include-paths"};
	size_t at = (size_t)snprintf(out, size, "read '%s/in'%s", folder, options[draw(5)]);

	for (uint32_t n = draw(6); n; n--) {
		at += (size_t)snprintf(out + at, size - at, " then ");
		at += (size_t)snprintf(out + at, size - at, steps[draw(sizeof(steps) / sizeof(steps[0]))], folder);
	}
	assert_true(at + 100 < size);
}

static void job_open(struct weir_job *job)
{
	struct weir_session_options options = {.memory_limit = 128 << 20, .threads = 2};
	struct weir_error err = {0};

	if (weir_job_init(job, &options, &err))
		fail_msg("%s", err.message);
}

static void save(struct weir_job *job, struct weir_text *out)
{
	struct weir_error err = {0};

	weir_text_init(out, weir_session_account(job->session));
	if (weir_plan_save(job->plan, out, &err))
		fail_msg("%s", err.message);
}

static void prepare_and_explain(struct weir_job *job, struct weir_text *out, const char *chain)
{
	struct weir_error err = {0};

	weir_text_init(out, weir_session_account(job->session));
	if (weir_job_prepare(job, &err) || weir_plan_explain(job->plan, out, &err))
		fail_msg("%s: %s", chain, err.message);
}

static char *contents(const char *name, size_t *size)
{
	char path[512], *bytes;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "rb");
	assert_non_null(file);
	fseek(file, 0, SEEK_END);
	*size = (size_t)ftell(file);
	rewind(file);
	bytes = malloc(*size + 1);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, *size, file), *size);
	fclose(file);
	return bytes;
}

static void test_saved_and_loaded(void **unused)
{
	(void)unused;
	for (int i = 0; i < CHAINS; i++) {
		char chain[CHAIN_SIZE];
		struct weir_job jobs[2];
		struct weir_text bytes[2], explained[2];
		struct weir_error err = {0};
		char *results[2];
		size_t sizes[2];

		random_chain(chain, sizeof(chain));
		snprintf(chain + strlen(chain), sizeof(chain) - strlen(chain),
			 " then write '%s/out.csv' --mode overwrite", folder);
		job_open(&jobs[0]);
		job_open(&jobs[1]);
		if (weir_plan_parse_text(jobs[0].plan, chain, &err))
			fail_msg("%s: %s", chain, err.message);
		save(&jobs[0], &bytes[0]);
		if (weir_plan_load(jobs[1].plan, bytes[0].data, bytes[0].size, &err))
			fail_msg("%s: %s", chain, err.message);
		save(&jobs[1], &bytes[1]);
		if (bytes[0].size != bytes[1].size || memcmp(bytes[0].data, bytes[1].data, bytes[0].size) != 0)
			fail_msg("%s: saved, loaded and saved again it is another", chain);
		for (int k = 0; k < 2; k++) {
			prepare_and_explain(&jobs[k], &explained[k], chain);
			if (weir_job_run(&jobs[k], &err))
				fail_msg("%s: %s", chain, err.message);
			results[k] = contents("out.csv", &sizes[k]);
		}
		assert_string_equal(explained[0].data, explained[1].data);
		if (sizes[0] != sizes[1] || memcmp(results[0], results[1], sizes[0]) != 0)
			fail_msg("%s: the loaded plan gives something else", chain);
		for (int k = 0; k < 2; k++) {
			free(results[k]);
			weir_text_release(&bytes[k]);
			weir_text_release(&explained[k]);
			weir_job_release(&jobs[k]);
		}
	}
}

/* What was loaded is a plan like any other. */
static void try_bytes(const void *bytes, size_t size)
{
	struct weir_job job;
	struct weir_text text;
	struct weir_error err = {0};
	int code;

	job_open(&job);
	code = weir_plan_load(job.plan, bytes, size, &err);
	if (code) {
		assert_true(err.message[0] != '\0');
	} else {
		weir_text_init(&text, weir_session_account(job.session));
		assert_int_equal(weir_plan_save(job.plan, &text, &err), 0);
		weir_text_clear(&text);
		code = weir_plan_bind(job.plan, &err);
		if (!code)
			code = weir_plan_optimise(job.plan, &err);
		if (!code)
			code = weir_plan_explain(job.plan, &text, &err);
		assert_int_equal(code, err.code);
		weir_text_release(&text);
	}
	weir_job_release(&job);
}

static void test_hostile_bytes(void **unused)
{
	(void)unused;
	for (int i = 0; i < CHAINS_HOSTILE; i++) {
		char chain[CHAIN_SIZE];
		struct weir_job job;
		struct weir_text saved;
		struct weir_error err = {0};
		char *copy;

		random_chain(chain, sizeof(chain));
		job_open(&job);
		assert_int_equal(weir_plan_parse_text(job.plan, chain, &err), 0);
		save(&job, &saved);
		for (size_t cut = 0; cut < saved.size; cut++) {
			/* A copy of its own size, so that reading past it is found out. */
			copy = malloc(cut ? cut : 1);
			memcpy(copy, saved.data, cut);
			try_bytes(copy, cut);
			free(copy);
		}
		for (size_t at = 0; at < saved.size; at++) {
			copy = malloc(saved.size);
			memcpy(copy, saved.data, saved.size);
			copy[at] = draw(2) ? (char)(copy[at] ^ (1 << draw(8))) : (char)(draw(3) ? 0xff : draw(256));
			try_bytes(copy, saved.size);
			free(copy);
		}
		weir_text_release(&saved);
		weir_job_release(&job);
	}
}

static int set_up(void **unused)
{
	const char *seed = getenv("WEIR_SEED");
	char chain[1024], message[1024] = "";

	(void)unused;
	state_random = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL) * 2654435761u + 1;
	printf("WEIR_SEED=%llu\n", (unsigned long long)state_random);
	snprintf(folder, sizeof(folder), "%s/weir-save-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(folder))
		return -1;
	snprintf(
		chain, sizeof(chain),
		"range 3000 then with 's = concat(\"row \", str(id)), x = id / 3' then write '%s/in' --row-group-rows 700",
		folder);
	if (weir_run_chain(chain, NULL, NULL, NULL, message, sizeof(message))) {
		printf("%s\n", message);
		return -1;
	}
	return 0;
}

static int tear_down(void **unused)
{
	(void)unused;
	return remove_tree(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_saved_and_loaded),
		cmocka_unit_test(test_hostile_bytes),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
