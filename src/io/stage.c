/* Who makes a stage and who cleans up may meet between mkdir and flock. Then the cleaner has the lock: the maker sees
 * that it is taken, or that what he locked has lost its name, and makes another. */
#include "io/stage.h"

#include "base/fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	STAGE_ATTEMPTS = 16,
	STAGE_DIGITS = 16,
	TARGET_PART_MAX = 200, /* of the target's name, so that a stage's is no longer than names may be */
	DIRECTORY_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};

#define OWN_PREFIX ".weir-"

/* ---- system calls ---- */

int weir_sync(int fd)
{
	return weir_fault(WEIR_FAULT_SYNC) ? -1 : fsync(fd);
}

int weir_rename(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
	if (weir_fault(WEIR_FAULT_RENAME))
		return -1;
	return renameat2(from_fd, from, to_fd, to, flags);
}

int weir_unlink(int at_fd, const char *name, int flags)
{
	return weir_fault(WEIR_FAULT_RENAME) ? -1 : unlinkat(at_fd, name, flags);
}

static int make_directory(int at_fd, const char *name)
{
	return weir_fault(WEIR_FAULT_OPEN) ? -1 : mkdirat(at_fd, name, 0777);
}

ssize_t weir_write_all(int fd, const void *bytes, size_t size)
{
	size_t done = 0;

	errno = 0;
	while (done < size) {
		ssize_t n = weir_fault(WEIR_FAULT_WRITE) ? -1 : write(fd, (const char *)bytes + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : EIO;
			break;
		}
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* ---- names ---- */

static bool is_own(const char *name)
{
	return !strncmp(name, OWN_PREFIX, sizeof(OWN_PREFIX) - 1);
}

int weir_name_check(const char *name, struct weir_error *err)
{
	const char *at = name;

	if (strlen(name) >= PATH_MAX)
		return weir_error_set(err, WEIR_E_INVALID, "the name of an output file is longer than %d bytes",
				      PATH_MAX);
	for (;;) {
		size_t size = strcspn(at, "/");

		if (!size || size > NAME_MAX || (size <= 2 && !strncmp(at, "..", size)) || is_own(at))
			return weir_error_set(err, WEIR_E_INVALID, "\"%s\" cannot be the name of an output file", name);
		if (!at[size])
			return WEIR_OK;
		at += size + 1;
	}
}

static void stage_prefix(const char *target_name, char *out, size_t size)
{
	if (target_name)
		snprintf(out, size, ".%.*s" OWN_PREFIX, TARGET_PART_MAX, target_name);
	else
		snprintf(out, size, OWN_PREFIX);
}

bool weir_stage_name_is(const char *name, const char *target_name)
{
	char prefix[NAME_MAX + 1];
	size_t size;

	stage_prefix(target_name, prefix, sizeof(prefix));
	size = strlen(prefix);
	return !strncmp(name, prefix, size) && strlen(name + size) == STAGE_DIGITS &&
	       strspn(name + size, "0123456789abcdef") == STAGE_DIGITS;
}

/* ---- stages ---- */

static bool has_name(const struct weir_stage *stage)
{
	struct stat by_fd, by_name;

	return !fstat(stage->fd, &by_fd) && !fstatat(stage->home_fd, stage->name, &by_name, AT_SYMLINK_NOFOLLOW) &&
	       by_fd.st_dev == by_name.st_dev && by_fd.st_ino == by_name.st_ino;
}

int weir_stage_new(struct weir_stage *stage, int home_fd, const char *home_path, const char *target_name,
		   struct weir_error *err)
{
	*stage = (struct weir_stage){.home_fd = home_fd, .fd = -1};
	for (int attempt = 0; attempt < STAGE_ATTEMPTS; attempt++) {
		uint64_t number;
		size_t size;

		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return weir_error_set_errno(err, errno, "the system gives no random number");
		stage_prefix(target_name, stage->name, sizeof(stage->name));
		size = strlen(stage->name);
		snprintf(stage->name + size, sizeof(stage->name) - size, "%016llx", (unsigned long long)number);
		if (make_directory(home_fd, stage->name) < 0) {
			if (errno == EEXIST)
				continue;
			return weir_error_set_errno(err, errno, "cannot make a directory in %s", home_path);
		}
		stage->fd = weir_fault(WEIR_FAULT_OPEN) ? -1 : openat(home_fd, stage->name, DIRECTORY_FLAGS);
		if (stage->fd < 0) {
			int code;

			if (errno == ENOENT)
				continue;
			code = weir_error_set_errno(err, errno, "cannot open %s in %s", stage->name, home_path);
			unlinkat(home_fd, stage->name, AT_REMOVEDIR);
			return code;
		}
		if ((!flock(stage->fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) && has_name(stage))
			return WEIR_OK;
		close(stage->fd);
		stage->fd = -1;
	}
	return weir_error_set(err, WEIR_E_IO, "cannot keep a directory of my own in %s", home_path);
}

int weir_stage_take(struct weir_stage *stage, int home_fd, const char *name, bool *out_taken, struct weir_error *err)
{
	struct stat stat;

	*out_taken = false;
	*stage = (struct weir_stage){.home_fd = home_fd, .fd = -1};
	snprintf(stage->name, sizeof(stage->name), "%s", name);
	stage->fd = openat(home_fd, name, DIRECTORY_FLAGS);
	if (stage->fd < 0) {
		/* Gone meanwhile, no directory, or someone else's. */
		if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES)
			return WEIR_OK;
		return weir_error_set_errno(err, errno, "cannot open %s", name);
	}
	/* Another user could have put it there for us to act upon. */
	if (fstat(stage->fd, &stat) < 0 || stat.st_uid != geteuid() || flock(stage->fd, LOCK_EX | LOCK_NB) < 0 ||
	    !has_name(stage)) {
		weir_stage_release(stage);
		return WEIR_OK;
	}
	*out_taken = true;
	return WEIR_OK;
}

void weir_stage_release(struct weir_stage *stage)
{
	if (stage->fd >= 0)
		close(stage->fd);
	stage->fd = -1;
}

int weir_stage_remove(struct weir_stage *stage, struct weir_error *err)
{
	int code;

	if (stage->fd < 0)
		return WEIR_OK;
	code = weir_tree_remove(stage->home_fd, stage->name, err);
	weir_stage_release(stage);
	return code;
}

/* ---- directories ---- */

int weir_open_beneath(int fd, const char *name, bool create, int *out_fd, const char **out_base, struct weir_error *err)
{
	const char *slash;
	int at_fd = dup(fd);

	*out_fd = -1;
	if (at_fd < 0)
		return weir_error_set_errno(err, errno, "no descriptor for a directory");
	for (; (slash = strchr(name, '/')); name = slash + 1) {
		char part[NAME_MAX + 1];
		int next_fd;

		snprintf(part, sizeof(part), "%.*s", (int)(slash - name), name);
		if (create && make_directory(at_fd, part) < 0 && errno != EEXIST) {
			int code = weir_error_set_errno(err, errno, "cannot make directory %s", part);

			close(at_fd);
			return code;
		}
		next_fd = openat(at_fd, part, DIRECTORY_FLAGS);
		close(at_fd);
		if (next_fd < 0)
			return weir_error_set_errno(err, errno, "cannot open directory %s", part);
		at_fd = next_fd;
	}
	*out_fd = at_fd;
	*out_base = name;
	return WEIR_OK;
}

static DIR *open_list(int at_fd, const char *name)
{
	int fd = openat(at_fd, name, DIRECTORY_FLAGS);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !list)
		close(fd);
	return list;
}

static struct dirent *next_name(DIR *list)
{
	struct dirent *dirent;

	errno = 0;
	do
		dirent = readdir(list);
	while (dirent && (!strcmp(dirent->d_name, ".") || !strcmp(dirent->d_name, "..")));
	return dirent;
}

static bool is_directory(int at_fd, const struct dirent *dirent)
{
	struct stat stat;

	if (dirent->d_type != DT_UNKNOWN)
		return dirent->d_type == DT_DIR;
	return !fstatat(at_fd, dirent->d_name, &stat, AT_SYMLINK_NOFOLLOW) && S_ISDIR(stat.st_mode);
}

void weir_names_release(struct weir_names *names, struct weir_account *account)
{
	for (size_t i = 0; i < names->count; i++)
		weir_strfree(account, names->items[i]);
	weir_list_release(names, account);
}

static int add_name(struct weir_account *account, const char *prefix, const char *name, struct weir_names *out,
		    struct weir_error *err)
{
	char path[PATH_MAX];
	char *copy;
	int code;

	if ((size_t)snprintf(path, sizeof(path), "%s%s", prefix, name) >= sizeof(path))
		return weir_error_set(err, WEIR_E_IO, "the path of %s is too long", name);
	copy = weir_strdup(account, path, err);
	if (!copy)
		return err->code;
	code = weir_list_push(out, account, err, copy);
	if (code)
		weir_strfree(account, copy);
	return code;
}

static int collect(struct weir_account *account, int at_fd, const char *name, const char *prefix, bool recursive,
		   struct weir_names *out, struct weir_error *err)
{
	DIR *list = open_list(at_fd, name);
	struct dirent *dirent;
	int code = WEIR_OK;

	if (!list)
		return weir_error_set_errno(err, errno, "cannot list directory %s", prefix);
	while (!code && (dirent = next_name(list))) {
		char below[PATH_MAX];

		if (!*prefix && is_own(dirent->d_name))
			continue;
		if (!recursive || !is_directory(dirfd(list), dirent))
			code = add_name(account, prefix, dirent->d_name, out, err);
		else if ((size_t)snprintf(below, sizeof(below), "%s%s/", prefix, dirent->d_name) >= sizeof(below))
			code = weir_error_set(err, WEIR_E_IO, "the path of %s is too long", dirent->d_name);
		else
			code = collect(account, dirfd(list), dirent->d_name, below, true, out, err);
	}
	if (!code && errno)
		code = weir_error_set_errno(err, errno, "cannot list directory %s", prefix);
	closedir(list);
	return code;
}

int weir_tree_files(struct weir_account *account, int fd, struct weir_names *out, struct weir_error *err)
{
	return collect(account, fd, ".", "", true, out, err);
}

int weir_directory_names(struct weir_account *account, int fd, struct weir_names *out, struct weir_error *err)
{
	return collect(account, fd, ".", "", false, out, err);
}

int weir_directory_is_empty(int fd, bool *out, struct weir_error *err)
{
	DIR *list = open_list(fd, ".");
	struct dirent *dirent;
	int code = WEIR_OK;

	if (!list)
		return weir_error_set_errno(err, errno, "cannot list the directory");
	do
		dirent = next_name(list);
	while (dirent && weir_stage_name_is(dirent->d_name, NULL));
	if (!dirent && errno)
		code = weir_error_set_errno(err, errno, "cannot list the directory");
	*out = !dirent;
	closedir(list);
	return code;
}

/* Another may be removing the same: what is gone is as wanted. */
int weir_tree_remove(int at_fd, const char *name, struct weir_error *err)
{
	DIR *list = open_list(at_fd, name);
	struct dirent *dirent;
	int code = WEIR_OK;

	if (!list && errno != ENOENT)
		return weir_error_set_errno(err, errno, "cannot remove directory %s", name);
	if (!list)
		return WEIR_OK;
	while (!code && (dirent = next_name(list))) {
		if (is_directory(dirfd(list), dirent))
			code = weir_tree_remove(dirfd(list), dirent->d_name, err);
		else if (weir_unlink(dirfd(list), dirent->d_name, 0) < 0 && errno != ENOENT)
			code = weir_error_set_errno(err, errno, "cannot remove %s", dirent->d_name);
	}
	if (!code && errno && errno != ENOENT)
		code = weir_error_set_errno(err, errno, "cannot list directory %s", name);
	closedir(list);
	if (!code && weir_unlink(at_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		code = weir_error_set_errno(err, errno, "cannot remove directory %s", name);
	return code;
}

static int sync_tree(int at_fd, const char *name, struct weir_error *err)
{
	DIR *list = open_list(at_fd, name);
	struct dirent *dirent;
	int code = WEIR_OK;

	if (!list)
		return weir_error_set_errno(err, errno, "cannot sync directory %s", name);
	while (!code && (dirent = next_name(list)))
		if (is_directory(dirfd(list), dirent))
			code = sync_tree(dirfd(list), dirent->d_name, err);
	if (!code && errno)
		code = weir_error_set_errno(err, errno, "cannot list directory %s", name);
	if (!code && weir_sync(dirfd(list)) < 0)
		code = weir_error_set_errno(err, errno, "cannot sync directory %s", name);
	closedir(list);
	return code;
}

int weir_tree_sync(int fd, struct weir_error *err)
{
	return sync_tree(fd, ".", err);
}
