/* Limits of cgroups of both versions, at any level and however mounted, from /proc and /sys trees made up for it. */
#include "base/base_impl.h"
#include "support.h"

#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[] = "/tmp/weir-machine-XXXXXX";

static int setup(void **state)
{
	(void)state;
	memcpy(root + sizeof(root) - 7, "XXXXXX", 6);
	return mkdtemp(root) == NULL;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	(void)stat;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *path, const char *text)
{
	char full[PATH_MAX];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(full, 0755);
		*slash = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void version_2(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "0::/user.slice/session 1\n");
	put("/proc/self/mountinfo", "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
				    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
	assert_true(weir_cgroup_limit(root) == INT64_MAX);
	put("/sys/fs/cgroup/user.slice/session 1/memory.max", "max\n");
	assert_true(weir_cgroup_limit(root) == INT64_MAX);
	put("/sys/fs/cgroup/user.slice/memory.max", "1073741824\n");
	assert_int_equal(weir_cgroup_limit(root), 1 << 30);
	put("/sys/fs/cgroup/user.slice/session 1/memory.max", "2147483648\n");
	assert_int_equal(weir_cgroup_limit(root), 1 << 30);
	put("/sys/fs/cgroup/user.slice/session 1/memory.max", "536870912\n");
	assert_int_equal(weir_cgroup_limit(root), 1 << 29);
	/* A container's own view: its group is the top. */
	put("/proc/self/cgroup", "0::/\n");
	put("/sys/fs/cgroup/memory.max", "268435456\n");
	assert_int_equal(weir_cgroup_limit(root), 1 << 28);
}

static void version_1(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "9:name=systemd:/\n5:memory,hugetlb:/a/b\n3:cpu:/x\n0::/\n");
	put("/proc/self/mountinfo", "30 22 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
				    "31 22 0:27 / /sys/fs/cgroup/me\\040m rw - cgroup cgroup rw,hugetlb,memory\n"
				    "32 22 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
	put("/sys/fs/cgroup/me m/memory.limit_in_bytes", "9223372036854771712\n");
	put("/sys/fs/cgroup/me m/a/memory.limit_in_bytes", "9223372036854771712\n");
	put("/sys/fs/cgroup/me m/a/b/memory.limit_in_bytes", "9223372036854771712\n");
	assert_true(weir_cgroup_limit(root) == INT64_MAX);
	put("/sys/fs/cgroup/me m/a/memory.limit_in_bytes", "3000000\n");
	assert_int_equal(weir_cgroup_limit(root), 3000000);
	put("/sys/fs/cgroup/me m/a/b/memory.limit_in_bytes", "2000000\n");
	assert_int_equal(weir_cgroup_limit(root), 2000000);
	put("/sys/fs/cgroup/me m/memory.limit_in_bytes", "1000000\n");
	assert_int_equal(weir_cgroup_limit(root), 1000000);
}

static void a_container_sees_part_of_the_tree(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "4:memory:/docker/abc/inner\n");
	put("/proc/self/mountinfo", "31 22 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000000\n");
	assert_int_equal(weir_cgroup_limit(root), 5000000);
	put("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "4000000\n");
	assert_int_equal(weir_cgroup_limit(root), 4000000);
	/* A place that is not below what is mounted, though its name begins alike. */
	put("/proc/self/cgroup", "4:memory:/docker/abcd/inner\n");
	assert_int_equal(weir_cgroup_limit(root), 5000000);
}

static void damaged_files_are_no_limit(void **state)
{
	(void)state;
	assert_true(weir_cgroup_limit(root) == INT64_MAX);
	put("/proc/self/cgroup", "\n:\n::\n0::/\nx");
	assert_true(weir_cgroup_limit(root) == INT64_MAX);
	put("/proc/self/mountinfo", "\n - \n1 2 - cgroup2\n1 2 3 / - cgroup2 x\n1 2 3 / /m x - cgroup2");
	put("/m/memory.max", "");
	assert_true(weir_cgroup_limit(root) == INT64_MAX);
	put("/m/memory.max", "-5");
	assert_true(weir_cgroup_limit(root) == INT64_MAX);
	put("/m/memory.max", "4096");
	assert_int_equal(weir_cgroup_limit(root), 4096);
}

static void the_machine_has_memory(void **state)
{
	int64_t machine = sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);

	(void)state;
	put("/proc/meminfo", "MemFree:  1 kB\nMemTotal:       16384 kB\n");
	assert_int_equal(weir_machine_memory(root), 16 << 20);
	assert_true(weir_machine_memory("") > 0);
	assert_true(weir_memory_limit_default() > 0 && weir_memory_limit_default() <= machine * 6 / 10);
}

static void this_process_has_memory(void **state)
{
	int64_t before, after, shmem;
	struct weir_error err;
	size_t size = 32 << 20;
	char *memory;

	(void)state;
	assert_int_equal(weir_process_rss(&before, &shmem, &err), WEIR_OK);
	assert_true(before > 0 && shmem >= 0);
	memory = malloc(size);
	for (size_t i = 0; i < size; i += 4096)
		((volatile char *)memory)[i] = 1;
	assert_int_equal(weir_process_rss(&after, &shmem, &err), WEIR_OK);
	assert_true(after - before >= 31 << 20);
	free(memory);
}

static void a_child_has_pages_in_common(void **state)
{
	int64_t before, alone, shared, anon;
	size_t size = 32 << 20;
	char *memory = malloc(size), said;
	int ends[2];
	pid_t child;

	(void)state;
	memset(memory, 1, size);
	assert_true(weir_process_alone(getpid(), &before, &alone));
	assert_true(before >= 31 << 20 && alone >= 31 << 20);
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		close(ends[1]);
		_exit((int)read(ends[0], &said, 1)); /* as long as its parent holds the other end */
	}
	assert_true(weir_process_alone(getpid(), &anon, &shared));
	assert_true(anon >= 31 << 20);
	assert_true(shared < alone - (31 << 20));
	close(ends[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(ends[0]);
	assert_false(weir_process_alone(child, &anon, &shared));
	free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(version_2, setup, teardown),
		cmocka_unit_test_setup_teardown(version_1, setup, teardown),
		cmocka_unit_test_setup_teardown(a_container_sees_part_of_the_tree, setup, teardown),
		cmocka_unit_test_setup_teardown(damaged_files_are_no_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(the_machine_has_memory, setup, teardown),
		cmocka_unit_test(this_process_has_memory),
		cmocka_unit_test(a_child_has_pages_in_common),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
