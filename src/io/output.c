/* What commit does depends on what it finds in the target's place, at that moment:
 *
 *     nothing                     rename the stage there, unless something came first (then look again)
 *     an empty folder             rename the stage over it
 *     a folder, overwrite         exchange it with the stage, remove the old
 *     a folder, append            journal, then file by file
 *     a folder that cannot be renamed (a mount point, the working directory, exchange unknown)
 *                                 journal, then file by file; for overwrite the old entries go first
 *     (single file)               rename, unless something is there or overwrite allows to replace it
 *
 * Each has one step that decides: before it the stage is rubbish, after it the output is there or will be finished.
 * Files are written to .weir-open-<n> in the stage and get their names when they are kept, so an attempt that was given
 * up, or that goes on writing although it was, never meets the one that counts.
 */
#include "io/output.h"

#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "io/journal.h"
#include "io/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SINGLE_NAME "data"

enum { COMMIT_ATTEMPTS = 8, PREFIX_SIZE = 16 };

/* A target with links resolved: the directory that it is or will be an entry of, and its name there. */
struct place {
	char parent[PATH_MAX], name[NAME_MAX + 1];
	char path[PATH_MAX];   /* as the user gave it, for messages */
	int parent_fd;         /* −1: may not be read; then the target exists */
	uint32_t parents_made; /* of `parent`, counted from its end */
};

struct weir_output {
	struct weir_account *account;
	struct weir_output_options options;
	struct place place;
	int target_fd; /* the folder when it existed at begin, else −1 */
	bool inside;   /* the stage lies in the target */
	bool single, committed;
	struct weir_stage stage;
	char prefix[PREFIX_SIZE];
	pthread_mutex_t lock; /* guards the counts below; nothing is called while it is held */
	uint64_t open_next;
	uint32_t open_count, kept_count;
	bool strays; /* a file that was given up could not be removed */
};

struct weir_output_file {
	struct weir_output *output;
	char *name; /* owned */
	char open_name[32];
	int fd;
	int failed_errno; /* of the first write that failed */
	uint64_t size;
};

/* ---- places ---- */

static void strip_last(char *path)
{
	char *slash = strrchr(path, '/');

	*(slash ? slash : path) = '\0';
}

/* Takes away the parents that were made for this, as far as nobody else uses them. */
static void remove_parents(char *path, uint32_t *made)
{
	for (; *made && !rmdir(path); --*made)
		strip_last(path);
	*made = 0;
}

static int make_parents(const char *path, uint32_t *made, struct weir_error *err)
{
	char part[PATH_MAX];
	struct stat stat_buffer;
	int code;

	*made = 0;
	for (const char *at = path; *at;) {
		at += strspn(at, "/");
		at += strcspn(at, "/");
		snprintf(part, sizeof(part), "%.*s", (int)(at - path), path);
		if (!stat(part, &stat_buffer)) {
			*made = 0;
			continue;
		}
		if (errno == ENOENT && !weir_fault(WEIR_FAULT_OPEN) && (!mkdir(part, 0777) || errno == EEXIST)) {
			++*made;
			continue;
		}
		code = weir_error_set_errno(err, errno, "cannot make directory %s", part);
		strip_last(part);
		remove_parents(part, made);
		return code;
	}
	return WEIR_OK;
}

static void place_release(struct place *place)
{
	if (place->parent_fd >= 0)
		close(place->parent_fd);
	place->parent_fd = -1;
}

/* Finds where a target that does not exist would be. */
static int resolve_new(struct place *place, const char *trimmed, bool create, char *real, struct weir_error *err)
{
	const char *slash = strrchr(trimmed, '/'), *base = slash ? slash + 1 : trimmed;
	char parent[PATH_MAX];
	size_t size;
	int code;

	if (!strcmp(base, ".") || !strcmp(base, ".."))
		return weir_error_set(err, WEIR_E_NOT_FOUND, "there is no such directory");
	snprintf(parent, sizeof(parent), "%.*s", !slash || slash == trimmed ? 1 : (int)(slash - trimmed),
		 slash ? trimmed : ".");
	if (create) {
		code = make_parents(parent, &place->parents_made, err);
		if (code)
			return code;
		/* So that what was made can be taken away, whatever happens next. */
		snprintf(place->parent, sizeof(place->parent), "%s", parent);
	}
	if (!realpath(parent, real))
		return weir_error_set_errno(err, errno, "cannot resolve the path");
	size = strlen(real);
	if (size + 1 + strlen(base) >= PATH_MAX)
		return weir_error_set(err, WEIR_E_INVALID, "the path is too long");
	if (real[1])
		real[size++] = '/';
	memcpy(real + size, base, strlen(base) + 1);
	return WEIR_OK;
}

/* *is_folder: what the path looks like, or what is there. */
static int place_resolve(struct place *place, const char *target, bool single, bool create, bool *is_folder,
			 struct weir_error *err)
{
	char real[PATH_MAX], trimmed[PATH_MAX], *slash;
	struct stat stat_buffer;
	size_t size = strlen(target);
	int code;

	place->parent_fd = -1;
	place->parents_made = 0;
	if (!size || size >= PATH_MAX)
		return weir_error_set(err, WEIR_E_INVALID, size ? "the path is too long" : "the path is empty");
	snprintf(place->path, sizeof(place->path), "%s", target);
	*is_folder = target[size - 1] == '/' && !single;
	while (size > 1 && target[size - 1] == '/')
		size--;
	snprintf(trimmed, sizeof(trimmed), "%.*s", (int)size, target);
	if (!stat(trimmed, &stat_buffer)) {
		bool is_directory = S_ISDIR(stat_buffer.st_mode);

		if (*is_folder && !is_directory)
			return weir_error_set(err, WEIR_E_EXISTS, "it is not a folder");
		if (single && is_directory)
			return weir_error_set(err, WEIR_E_EXISTS, "it is a folder, not a file");
		/* Replacing /dev/null by a file would be a disaster. */
		if (!is_directory && !S_ISREG(stat_buffer.st_mode))
			return weir_error_set(err, WEIR_E_INVALID, "it is neither a file nor a folder");
		*is_folder = is_directory;
		if (!realpath(trimmed, real))
			return weir_error_set_errno(err, errno, "cannot resolve the path");
		if (!real[1])
			return weir_error_set(err, WEIR_E_INVALID,
					      "the root directory cannot be written to as a whole");
	} else if (errno != ENOENT) {
		return weir_error_set_errno(err, errno, "cannot look at it");
	} else if (!lstat(trimmed, &stat_buffer)) {
		return weir_error_set(err, WEIR_E_INVALID, "it is a link to nothing");
	} else {
		code = resolve_new(place, trimmed, create, real, err);
		if (code)
			return code;
	}
	slash = strrchr(real, '/');
	if (strlen(slash + 1) > NAME_MAX)
		return weir_error_set(err, WEIR_E_INVALID, "its name is longer than %d bytes", NAME_MAX);
	snprintf(place->name, sizeof(place->name), "%s", slash + 1);
	snprintf(place->parent, sizeof(place->parent), "%.*s", slash == real ? 1 : (int)(slash - real), real);
	place->parent_fd = weir_fault(WEIR_FAULT_OPEN) ? -1 : open(place->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Without leave to read the parent, a folder that is there can still be written to from inside. */
	if (place->parent_fd < 0 && (errno != EACCES || !*is_folder))
		return weir_error_set_errno(err, errno, "cannot open directory %s", place->parent);
	return WEIR_OK;
}

/* The folder, when there is one: a descriptor in *out_fd, else −1. */
static int open_target(const struct place *place, int *out_fd, struct weir_error *err)
{
	int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;

	if (weir_fault(WEIR_FAULT_OPEN))
		*out_fd = -1;
	else if (place->parent_fd >= 0)
		*out_fd = openat(place->parent_fd, place->name, flags);
	else
		*out_fd = open(place->path, flags & ~O_NOFOLLOW);
	if (*out_fd < 0 && errno != ENOENT)
		return weir_error_set_errno(err, errno, "cannot open the folder");
	return WEIR_OK;
}

/* A folder whose name cannot be given to another. */
static bool is_fixed(int target_fd)
{
	struct stat target, parent, working;
	struct statx extended;

	if (!statx(target_fd, "", AT_EMPTY_PATH, STATX_INO, &extended) &&
	    extended.stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return true;
	if (fstat(target_fd, &target) < 0)
		return false;
	if (!fstatat(target_fd, "..", &parent, 0) && parent.st_dev != target.st_dev)
		return true;
	/* Whoever stands in it, the user's shell most likely, would be left in a directory that is gone. */
	return !stat(".", &working) && target.st_dev == working.st_dev && target.st_ino == working.st_ino;
}

/* ---- leftovers ---- */

static int recover_stage(struct weir_account *account, struct weir_stage *stage, const struct place *place,
			 int target_fd, bool inside, struct weir_error *err)
{
	struct weir_journal journal;
	int folder_fd = -1, code;
	bool found;

	weir_journal_init(&journal, account);
	code = weir_journal_read(&journal, stage->fd, &found, err);
	if (code || !found)
		goto out;
	/* A long name is cut in a stage's: the journal knows whose it is. */
	folder_fd = inside ? dup(target_fd)
			   : openat(place->parent_fd, journal.target_name,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder_fd < 0) {
		if (errno != ENOENT)
			code = weir_error_set_errno(err, errno, "cannot open %s", journal.target_name);
		goto out; /* the folder was removed since: so is what was meant for it */
	}
	code = weir_journal_finish(&journal, stage->fd, folder_fd, true, err);
	if (code == WEIR_E_EXISTS)
		code = weir_journal_undo(&journal, stage->fd, folder_fd, err);
	if (!code)
		code = weir_journal_remove(stage->fd, true, err);
out:
	if (folder_fd >= 0)
		close(folder_fd);
	weir_journal_release(&journal);
	if (code) {
		weir_stage_release(stage);
		return code;
	}
	if (weir_stage_remove(stage, err))
		weir_log(WEIR_LOG_WARN, "%s: what a killed run left there cannot be removed: %s", place->path,
			 err->message);
	weir_error_clear(err);
	return WEIR_OK;
}

static int recover_in(struct weir_account *account, const struct place *place, int home_fd, int target_fd, bool inside,
		      struct weir_error *err)
{
	struct dirent *dirent;
	int fd, code = WEIR_OK;
	DIR *list;

	fd = openat(home_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	list = fd < 0 ? NULL : fdopendir(fd);
	if (!list) {
		code = weir_error_set_errno(err, errno, "cannot list directory %s",
					    inside ? place->path : place->parent);
		if (fd >= 0)
			close(fd);
		return code;
	}
	while (!code && (errno = 0, dirent = readdir(list))) {
		struct weir_stage stage;
		bool taken;

		if (!weir_stage_name_is(dirent->d_name, inside ? NULL : place->name))
			continue;
		code = weir_stage_take(&stage, home_fd, dirent->d_name, &taken, err);
		if (!code && taken)
			code = recover_stage(account, &stage, place, target_fd, inside, err);
	}
	if (!code && errno)
		code = weir_error_set_errno(err, errno, "cannot list directory %s",
					    inside ? place->path : place->parent);
	closedir(list);
	return code;
}

static int recover(struct weir_account *account, const struct place *place, int target_fd, struct weir_error *err)
{
	int code = WEIR_OK;

	if (place->parent_fd >= 0)
		code = recover_in(account, place, place->parent_fd, target_fd, false, err);
	if (!code && target_fd >= 0)
		code = recover_in(account, place, target_fd, target_fd, true, err);
	return code;
}

int weir_output_recover(struct weir_account *account, const char *target, struct weir_error *err)
{
	struct place place = {.parent_fd = -1};
	int target_fd = -1, code;
	bool is_folder;

	code = place_resolve(&place, target, false, false, &is_folder, err);
	if (code == WEIR_E_NOT_FOUND) { /* not even its parent is there */
		weir_error_clear(err);
		return WEIR_OK;
	}
	if (!code && is_folder)
		code = open_target(&place, &target_fd, err);
	if (!code)
		code = recover(account, &place, target_fd, err);
	if (code)
		weir_error_at_source(err, target);
	if (target_fd >= 0)
		close(target_fd);
	place_release(&place);
	return code;
}

/* ---- begin ---- */

static void output_free(struct weir_output *output)
{
	if (output->target_fd >= 0)
		close(output->target_fd);
	place_release(&output->place);
	pthread_mutex_destroy(&output->lock);
	weir_free(output->account, output, sizeof(*output));
}

/* What the mode says to what is there. */
static int check_mode(const struct weir_output *output, bool *out_ignored, struct weir_error *err)
{
	enum weir_write_mode mode = output->options.mode;
	struct stat stat_buffer;
	bool empty = true;
	int code;

	*out_ignored = false;
	if (output->single) {
		if (fstatat(output->place.parent_fd, output->place.name, &stat_buffer, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT ? WEIR_OK : weir_error_set_errno(err, errno, "cannot look at it");
		if (mode == WEIR_MODE_APPEND)
			return weir_error_set(
				err, WEIR_E_EXISTS,
				"the file exists and cannot be appended to: choose mode overwrite, or a folder");
	} else if (output->target_fd >= 0) {
		code = weir_directory_is_empty(output->target_fd, &empty, err);
		if (code || empty)
			return code;
	} else {
		return WEIR_OK;
	}
	*out_ignored = mode == WEIR_MODE_IGNORE;
	if (mode == WEIR_MODE_ERROR)
		return weir_error_set(err, WEIR_E_EXISTS,
				      output->single ? "the file exists" : "the folder is not empty");
	return WEIR_OK;
}

static int make_stage(struct weir_output *output, struct weir_error *err)
{
	const struct place *place = &output->place;
	int code;

	output->inside = output->target_fd >= 0 && (place->parent_fd < 0 || is_fixed(output->target_fd));
	if (!output->inside) {
		code = weir_stage_new(&output->stage, place->parent_fd, place->parent, place->name, err);
		if (!code || output->target_fd < 0 ||
		    (err->errno_value != EACCES && err->errno_value != EPERM && err->errno_value != EROFS))
			return code;
		output->inside = true;
	}
	return weir_stage_new(&output->stage, output->target_fd, place->path, NULL, err);
}

/* Names that meet none of those already there. */
static int choose_prefix(struct weir_output *output, struct weir_error *err)
{
	size_t size = strlen(output->stage.name);
	bool empty = true;
	int code;

	if (output->target_fd < 0 || output->options.mode != WEIR_MODE_APPEND)
		return WEIR_OK;
	code = weir_directory_is_empty(output->target_fd, &empty, err);
	/* The stage's own number is as random as any. */
	if (!code && !empty)
		snprintf(output->prefix, sizeof(output->prefix), "%s-", output->stage.name + size - 8);
	return code;
}

int weir_output_begin(struct weir_account *account, const char *target, const struct weir_output_options *options,
		      struct weir_output **out, bool *ignored, struct weir_error *err)
{
	struct weir_output *output = weir_alloc_zero(account, sizeof(*output), err);
	bool is_folder = false;
	int code;

	*out = NULL;
	*ignored = false;
	if (!output) {
		weir_error_at_source(err, target);
		return err->code;
	}
	output->account = account;
	output->options = *options;
	output->target_fd = output->place.parent_fd = output->stage.fd = -1;
	pthread_mutex_init(&output->lock, NULL);
	code = place_resolve(&output->place, target, options->single_file, true, &is_folder, err);
	if (code)
		goto fail;
	output->single = !is_folder;
	if (is_folder)
		code = open_target(&output->place, &output->target_fd, err);
	if (!code)
		code = recover(account, &output->place, output->target_fd, err);
	if (!code)
		code = check_mode(output, ignored, err);
	if (code || *ignored)
		goto fail;
	code = make_stage(output, err);
	if (!code)
		code = choose_prefix(output, err);
	if (code)
		goto fail;
	*out = output;
	return WEIR_OK;
fail:
	if (code)
		weir_error_at_source(err, target);
	weir_stage_remove(&output->stage, &(struct weir_error){0});
	remove_parents(output->place.parent, &output->place.parents_made);
	output_free(output);
	return code;
}

const char *weir_output_name_prefix(const struct weir_output *output)
{
	return output->prefix;
}

int weir_output_stage_path(const struct weir_output *output, char *out, size_t size, struct weir_error *err)
{
	const struct place *place = &output->place;
	int length;

	WEIR_ASSERT(!output->single);
	length = output->inside ? snprintf(out, size, "%s/%s/%s", place->parent, place->name, output->stage.name)
				: snprintf(out, size, "%s/%s", place->parent, output->stage.name);
	if (length < 0 || (size_t)length >= size)
		return weir_error_set(err, WEIR_E_INVALID, "the path is too long");
	return WEIR_OK;
}

void weir_output_adopt(struct weir_output *output, uint32_t count)
{
	pthread_mutex_lock(&output->lock);
	output->kept_count += count;
	pthread_mutex_unlock(&output->lock);
}

/* ---- files ---- */

int weir_output_file_new(struct weir_output *output, const char *name, struct weir_output_file **out,
			 struct weir_error *err)
{
	struct weir_output_file *file = NULL;
	bool second;
	int code;

	*out = NULL;
	WEIR_ASSERT(!output->committed);
	name = output->single ? SINGLE_NAME : name;
	code = weir_name_check(name, err);
	if (code)
		goto fail;
	file = weir_alloc_zero(output->account, sizeof(*file), err);
	if (!file) {
		code = err->code;
		goto fail;
	}
	file->output = output;
	file->fd = -1;
	file->name = weir_strdup(output->account, name, err);
	if (!file->name) {
		code = err->code;
		goto fail;
	}
	pthread_mutex_lock(&output->lock);
	snprintf(file->open_name, sizeof(file->open_name), ".weir-open-%llu", (unsigned long long)output->open_next++);
	second = output->single && output->open_count + output->kept_count;
	output->open_count += !second;
	pthread_mutex_unlock(&output->lock);
	if (second) {
		code = weir_error_set(err, WEIR_E_INVALID, "there can be only one file in one file");
		goto fail;
	}
	file->fd = weir_fault(WEIR_FAULT_OPEN) ? -1
					       : openat(output->stage.fd, file->open_name,
							O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (file->fd < 0) {
		code = weir_error_set_errno(err, errno, "cannot make file %s", name);
		pthread_mutex_lock(&output->lock);
		output->open_count--;
		pthread_mutex_unlock(&output->lock);
		goto fail;
	}
	*out = file;
	return WEIR_OK;
fail:
	weir_error_at_source(err, output->place.path);
	if (file) {
		weir_strfree(output->account, file->name);
		weir_free(output->account, file, sizeof(*file));
	}
	return code;
}

static int fail_write(struct weir_output_file *file, int errno_value, uint64_t left, struct weir_error *err)
{
	const char *directory = file->output->place.parent;
	struct statvfs space;

	if (!file->failed_errno)
		file->failed_errno = errno_value;
	if ((errno_value == ENOSPC || errno_value == EDQUOT) && !fstatvfs(file->fd, &space))
		weir_error_set_errno(err, errno_value, "no space in %s: %s needs %llu bytes more, %llu are free",
				     directory, file->name, (unsigned long long)left,
				     (unsigned long long)space.f_bavail * space.f_frsize);
	else
		weir_error_set_errno(err, errno_value, "cannot write %llu bytes of %s in %s", (unsigned long long)left,
				     file->name, directory);
	weir_error_at_source(err, file->output->place.path);
	weir_error_at_offset(err, file->size);
	return err->code;
}

int weir_output_file_write(struct weir_output_file *file, const void *bytes, uint64_t size, struct weir_error *err)
{
	ssize_t done;

	WEIR_ASSERT(size <= SSIZE_MAX);
	if (file->failed_errno)
		return fail_write(file, file->failed_errno, size, err);
	done = weir_write_all(file->fd, bytes, size);
	file->size += (uint64_t)done;
	return (uint64_t)done == size ? WEIR_OK : fail_write(file, errno, size - (uint64_t)done, err);
}

uint64_t weir_output_file_size(const struct weir_output_file *file)
{
	return file->size;
}

/* Gives the file its name in the stage. */
static int name_file(struct weir_output_file *file, struct weir_error *err)
{
	struct weir_output *output = file->output;
	const char *base;
	int parent_fd, code;

	code = weir_open_beneath(output->stage.fd, file->name, true, &parent_fd, &base, err);
	if (code)
		return code;
	if (weir_rename(output->stage.fd, file->open_name, parent_fd, base, 0) < 0)
		code = weir_error_set_errno(err, errno, "cannot name %s", file->name);
	close(parent_fd);
	return code;
}

int weir_output_file_close(struct weir_output_file *file, bool keep, struct weir_error *err)
{
	struct weir_output *output = file->output;
	bool stray;
	int code = WEIR_OK;

	if (keep && file->failed_errno)
		code = fail_write(file, file->failed_errno, 0, err);
	/* A sync that failed is never repeated: the kernel may have dropped the pages. The file is lost, and redone. */
	if (keep && !code && output->options.durable && weir_sync(file->fd) < 0)
		code = fail_write(file, errno, 0, err);
	/* Network file systems may tell of a full disk only now. */
	if (close(file->fd) < 0 && errno != EINTR && keep && !code)
		code = fail_write(file, errno, 0, err);
	if (keep && !code)
		code = name_file(file, err);
	if (code)
		weir_error_at_source(err, output->place.path);
	stray = (!keep || code) && weir_unlink(output->stage.fd, file->open_name, 0) < 0;
	pthread_mutex_lock(&output->lock);
	output->strays |= stray;
	output->open_count--;
	output->kept_count += keep && !code;
	pthread_mutex_unlock(&output->lock);
	weir_strfree(output->account, file->name);
	weir_free(output->account, file, sizeof(*file));
	return code;
}

/* ---- commit ---- */

/* Files that were given up but could not be removed then must not be published with the rest. */
static int remove_given_up(struct weir_output *output, struct weir_error *err)
{
	for (uint64_t n = 0; output->strays && n < output->open_next; n++) {
		char name[32];

		snprintf(name, sizeof(name), ".weir-open-%llu", (unsigned long long)n);
		if (weir_unlink(output->stage.fd, name, 0) < 0 && errno != ENOENT)
			return weir_error_set_errno(err, errno, "cannot remove %s", name);
	}
	return WEIR_OK;
}

/* From here on the output is in its place, and only power can take it away. */
static int sync_parent(struct weir_output *output, struct weir_error *err)
{
	char path[PATH_MAX];
	int fd, failed = 0;

	output->committed = true;
	if (!output->options.durable)
		return WEIR_OK;
	if (weir_sync(output->place.parent_fd) < 0)
		failed = errno;
	snprintf(path, sizeof(path), "%s", output->place.parent);
	for (uint32_t made = output->place.parents_made; made && !failed; made--) {
		strip_last(path);
		fd = open(*path ? path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 || weir_sync(fd) < 0)
			failed = errno;
		if (fd >= 0)
			close(fd);
	}
	if (failed)
		return weir_error_set_errno(err, failed,
					    "the output is in its place, but may not survive a loss of power");
	return WEIR_OK;
}

static int commit_single(struct weir_output *output, struct weir_error *err)
{
	const struct place *place = &output->place;
	struct stat before;
	int fd, code;

	if (output->options.mode != WEIR_MODE_OVERWRITE) {
		if (weir_move(output->stage.fd, SINGLE_NAME, place->parent_fd, place->name) < 0)
			return errno == EEXIST ? weir_error_set(err, WEIR_E_EXISTS, "the file came to exist meanwhile")
					       : weir_error_set_errno(err, errno, "cannot put the file in its place");
		return sync_parent(output, err);
	}
	if (!fstatat(place->parent_fd, place->name, &before, AT_SYMLINK_NOFOLLOW)) {
		/* Who could read the old file can read the new one. */
		fd = openat(output->stage.fd, SINGLE_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		code = fd < 0 || fchmod(fd, before.st_mode & 0777) < 0
			       ? weir_error_set_errno(err, errno, "cannot give the file its permissions")
			       : WEIR_OK;
		if (fd >= 0)
			close(fd);
		if (code)
			return code;
	}
	if (weir_rename(output->stage.fd, SINGLE_NAME, place->parent_fd, place->name, 0) < 0)
		return weir_error_set_errno(err, errno, "cannot put the file in its place");
	return sync_parent(output, err);
}

static int commit_by_journal(struct weir_output *output, int target_fd, bool replace, struct weir_error *err)
{
	const char *name = output->inside ? "" : output->place.name;
	struct weir_error second = {0};
	struct weir_journal journal;
	int code;

	weir_journal_init(&journal, output->account);
	code = weir_journal_plan(&journal, output->stage.fd, target_fd, name, replace, err);
	if (!code)
		code = weir_journal_write(&journal, output->stage.fd, output->options.durable, err);
	if (!code)
		code = weir_journal_finish(&journal, output->stage.fd, target_fd, output->options.durable, err);
	if (!code) {
		output->committed = true;
		if (weir_journal_remove(output->stage.fd, output->options.durable, &second)) {
			weir_log(WEIR_LOG_WARN, "%s: something is left for the next run to remove: %s",
				 output->place.path, second.message);
			weir_stage_release(&output->stage);
		}
	} else if (weir_journal_undo(&journal, output->stage.fd, target_fd, &second) ||
		   weir_journal_remove(output->stage.fd, output->options.durable, &second)) {
		/* The stage must stay, or what is still in it would be lost for those who finish it. */
		code = weir_error_set(
			err, WEIR_E_IO,
			"some files may be in place and others not (%s); the next run on this folder will "
			"finish it",
			second.message);
		weir_stage_release(&output->stage);
	}
	weir_journal_release(&journal);
	return code;
}

/* The stage takes the place of the folder that is there, and its permissions. */
static int commit_over(struct weir_output *output, int target_fd, unsigned flags, bool *out_impossible,
		       struct weir_error *err)
{
	const struct place *place = &output->place;
	struct stat before, own;

	*out_impossible = false;
	if (fstat(target_fd, &before) < 0 || fstat(output->stage.fd, &own) < 0 ||
	    ((before.st_mode ^ own.st_mode) & 07777 && fchmod(output->stage.fd, before.st_mode & 07777) < 0))
		return weir_error_set_errno(err, errno, "cannot give the folder its permissions");
	if (!weir_rename(place->parent_fd, output->stage.name, place->parent_fd, place->name, flags))
		return sync_parent(output, err);
	*out_impossible = errno == EINVAL || errno == ENOSYS || errno == EBUSY || errno == EXDEV || errno == EACCES ||
			  errno == EPERM || errno == ENOTEMPTY || errno == EEXIST || errno == ENOENT;
	return weir_error_set_errno(err, errno, "cannot put the folder in its place");
}

/* One look at what is there. *out_again: it changed under our eyes; not when this is the last look. */
static int commit_folder(struct weir_output *output, bool last, bool *out_again, struct weir_error *err)
{
	const struct place *place = &output->place;
	enum weir_write_mode mode = output->options.mode;
	bool empty = true, impossible;
	int target_fd = -1, code;

	*out_again = false;
	code = open_target(place, &target_fd, err);
	if (code)
		return code;
	if (target_fd < 0) {
		if (output->inside)
			return weir_error_set(err, WEIR_E_NOT_FOUND, "the folder is gone");
		if (!output->kept_count) {
			output->committed = true;
			return WEIR_OK;
		}
		if (!weir_move(place->parent_fd, output->stage.name, place->parent_fd, place->name))
			return sync_parent(output, err);
		*out_again = errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR;
		return weir_error_set_errno(err, errno, "cannot put the folder in its place");
	}
	code = weir_directory_is_empty(target_fd, &empty, err);
	if (code)
		goto out;
	if (!empty && (mode == WEIR_MODE_ERROR || mode == WEIR_MODE_IGNORE)) {
		code = weir_error_set(err, WEIR_E_EXISTS, "others wrote to the folder meanwhile");
		goto out;
	}
	if (!output->kept_count && (empty || mode == WEIR_MODE_APPEND)) {
		output->committed = true;
		goto out;
	}
	impossible = true;
	if (!output->inside && !is_fixed(target_fd) && (empty || mode == WEIR_MODE_OVERWRITE)) {
		code = commit_over(output, target_fd, empty ? 0 : RENAME_EXCHANGE, &impossible, err);
		/* No rows are no folder. Others may have put something there meanwhile: then it stays. */
		if (!code && !output->kept_count)
			(void)weir_unlink(place->parent_fd, place->name, AT_REMOVEDIR);
		*out_again = code && !last &&
			     (err->errno_value == ENOTEMPTY || err->errno_value == EEXIST ||
			      err->errno_value == ENOENT);
	}
	if (impossible && !*out_again)
		code = commit_by_journal(output, target_fd, mode == WEIR_MODE_OVERWRITE, err);
out:
	close(target_fd);
	return code;
}

int weir_output_commit(struct weir_output *output, struct weir_error *err)
{
	bool again = false;
	int code = WEIR_OK;

	WEIR_ASSERT(!output->committed && !output->open_count && output->stage.fd >= 0);
	code = remove_given_up(output, err);
	if (!code && output->options.durable && output->kept_count)
		code = weir_tree_sync(output->stage.fd, err);
	if (code)
		goto out;
	if (output->single && output->kept_count) {
		code = commit_single(output, err);
	} else if (output->single) {
		/* Nothing takes the place of what was there. */
		if (output->options.mode == WEIR_MODE_OVERWRITE &&
		    weir_unlink(output->place.parent_fd, output->place.name, 0) < 0 && errno != ENOENT)
			code = weir_error_set_errno(err, errno, "cannot remove the old file");
		else
			code = sync_parent(output, err);
	} else {
		for (int attempt = 1; attempt == 1 || (again && attempt <= COMMIT_ATTEMPTS); attempt++)
			code = commit_folder(output, attempt == COMMIT_ATTEMPTS, &again, err);
	}
out:
	if (code)
		weir_error_at_source(err, output->place.path);
	return code;
}

void weir_output_free(struct weir_output *output)
{
	struct weir_error error = {0};

	if (!output)
		return;
	WEIR_ASSERT(!output->open_count);
	/* By its name: after a rename that is nothing, after an exchange it is the old folder. */
	if (weir_stage_remove(&output->stage, &error))
		weir_log(WEIR_LOG_WARN, "%s: something is left beside it, for the next run to remove: %s",
			 output->place.path, error.message);
	if (!output->committed || !output->kept_count)
		remove_parents(output->place.parent, &output->place.parents_made);
	output_free(output);
}
