/* What the kernel says of this process and this machine: resident memory, the machine's size, the cgroup's limit.
 *
 * /proc/self/cgroup gives this process's place in each hierarchy ("0::/a/b" in v2, "4:memory:/a/b" in v1),
 * /proc/self/mountinfo where that hierarchy is mounted and which part of it. A limit set at any level up to the mount
 * binds:
 *
 *     mount at /sys/fs/cgroup, its root /a, place /a/b/c  →  read /sys/fs/cgroup/b/c, /sys/fs/cgroup/b, /sys/fs/cgroup
 *
 * In a container the place may lie outside of what is mounted; then the mount's own top is all there is to see.
 */
#include "base/base_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads at most size − 1 bytes, which is all of any of these files that matters; −1 with errno. */
static ssize_t read_whole(const char *path, char *buffer, size_t size)
{
	size_t used = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while (used < size - 1) {
		ssize_t n = read(fd, buffer + used, size - 1 - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int errno_read = errno;

			close(fd);
			errno = errno_read;
			return -1;
		}
		if (n == 0)
			break;
		used += (size_t)n;
	}
	close(fd);
	buffer[used] = '\0';
	return (ssize_t)used;
}

/* "Name:   123 kB" → bytes; −1 when there is no such line. */
static int64_t kilobytes(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, length) == 0 && line[length] == ':')
			return (int64_t)strtoll(line + length + 1, NULL, 10) * 1024;
	}
	return -1;
}

int weir_process_rss(int64_t *anon, int64_t *shmem, struct weir_error *err)
{
	static const char path[] = "/proc/self/status";
	char text[8192];

	if (read_whole(path, text, sizeof(text)) < 0)
		return weir_error_set_errno(err, errno, "cannot read %s", path);
	*anon = kilobytes(text, "RssAnon");
	*shmem = kilobytes(text, "RssShmem");
	if (*anon < 0 || *shmem < 0)
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "%s has no RssAnon or no RssShmem", path);
	return WEIR_OK;
}

bool weir_process_alone(int pid, int64_t *anon, int64_t *alone)
{
	char path[48], text[2048];

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	if (read_whole(path, text, sizeof(text)) < 0)
		return false;
	*anon = kilobytes(text, "Anonymous");
	*alone = kilobytes(text, "Private_Dirty");
	return *anon >= 0 && *alone >= 0;
}

int64_t weir_machine_memory(const char *prefix)
{
	char path[PATH_MAX], text[8192];
	int64_t bytes = -1;

	snprintf(path, sizeof(path), "%s/proc/meminfo", prefix);
	if (read_whole(path, text, sizeof(text)) >= 0)
		bytes = kilobytes(text, "MemTotal");
	if (bytes < 0)
		bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
	return bytes;
}

/* One of the two kinds of hierarchy. */
struct hierarchy {
	const char *type;       /* of file system */
	const char *controller; /* in the list of a v1 hierarchy; NULL in v2 */
	const char *file;
};

static const struct hierarchy hierarchies[] = {
	{"cgroup2", NULL, "memory.max"},
	{"cgroup", "memory", "memory.limit_in_bytes"},
};

static bool list_has(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
			return true;
	}
	return false;
}

/* This process's place, into `place`. Lines are "id:controllers:place". */
static bool find_place(const char *prefix, const struct hierarchy *hierarchy, char *place, size_t size)
{
	char path[PATH_MAX], text[16384], *rest = text, *line;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", prefix);
	if (read_whole(path, text, sizeof(text)) < 0)
		return false;
	while ((line = strsep(&rest, "\n"))) {
		char *id = strsep(&line, ":"), *controllers = strsep(&line, ":");

		if (!line || !controllers)
			continue;
		if (hierarchy->controller ? list_has(controllers, hierarchy->controller)
					  : strcmp(id, "0") == 0 && !*controllers) {
			snprintf(place, size, "%s", line);
			return true;
		}
	}
	return false;
}

/* mountinfo writes blanks and backslashes as \040. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; to++) {
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] && text[3]) {
			*to = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0'));
			text += 4;
		} else {
			*to = *text++;
		}
	}
	*to = '\0';
}

/* Where the hierarchy is mounted and which part of it. Lines are
 * "36 35 98:0 root point options optional… - type source superoptions". */
static bool find_mount(const char *prefix, const struct hierarchy *hierarchy, char *root, char *point, size_t size)
{
	char path[PATH_MAX], *line = NULL;
	size_t capacity = 0;
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/self/mountinfo", prefix);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && getline(&line, &capacity, file) > 0) {
		char *rest = line, *fields[5], *tail = strstr(line, " - "), *type, *super;

		line[strcspn(line, "\n")] = '\0';
		if (!tail)
			continue;
		*tail = '\0';
		for (int i = 0; i < 5; i++)
			fields[i] = strsep(&rest, " ");
		tail += 3;
		type = strsep(&tail, " ");
		strsep(&tail, " ");
		super = tail;
		if (!fields[4] || strcmp(type, hierarchy->type) != 0 ||
		    (hierarchy->controller && !(super && list_has(super, hierarchy->controller))))
			continue;
		unescape(fields[3]);
		unescape(fields[4]);
		snprintf(root, size, "%s", fields[3]);
		snprintf(point, size, "%s", fields[4]);
		found = true;
	}
	free(line);
	fclose(file);
	return found;
}

/* "max", an absent file and v1's near-2^63 all mean none. */
static int64_t read_limit(const char *prefix, const char *point, const char *below, const char *name)
{
	char path[3 * PATH_MAX], text[64], *end;
	long long bytes;

	snprintf(path, sizeof(path), "%s%s%s/%s", prefix, point, below, name);
	if (read_whole(path, text, sizeof(text)) <= 0)
		return INT64_MAX;
	errno = 0;
	bytes = strtoll(text, &end, 10);
	if (end == text || errno || bytes < 0 || bytes >= INT64_MAX - (1 << 20))
		return INT64_MAX;
	return bytes;
}

static int64_t hierarchy_limit(const char *prefix, const struct hierarchy *hierarchy)
{
	char place[PATH_MAX], root[PATH_MAX], point[PATH_MAX], *below = place;
	int64_t least = INT64_MAX;
	size_t length;

	if (!find_place(prefix, hierarchy, place, sizeof(place)) ||
	    !find_mount(prefix, hierarchy, root, point, sizeof(root)))
		return INT64_MAX;
	length = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (strncmp(place, root, length) == 0 && (place[length] == '/' || place[length] == '\0'))
		below = place + length;
	else
		place[0] = '\0';
	for (;;) {
		int64_t limit;
		char *slash;

		if (strcmp(below, "/") == 0)
			below[0] = '\0';
		limit = read_limit(prefix, point, below, hierarchy->file);
		least = limit < least ? limit : least;
		slash = strrchr(below, '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

int64_t weir_cgroup_limit(const char *prefix)
{
	int64_t least = INT64_MAX;

	for (size_t i = 0; i < sizeof(hierarchies) / sizeof(hierarchies[0]); i++) {
		int64_t limit = hierarchy_limit(prefix, &hierarchies[i]);

		least = limit < least ? limit : least;
	}
	return least;
}

int64_t weir_memory_limit_default(void)
{
	int64_t machine = weir_machine_memory(""), cgroup = weir_cgroup_limit("");
	int64_t least = machine < cgroup ? machine : cgroup;

	return least / 10 * 6;
}
