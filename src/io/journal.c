/* The file .weir-journal in a stage, written under another name first:
 *
 *     ┌──────────────────┬───────────────┬──────┬───────────┬────────┬─────┬──────────┐
 *     │ weir-journal-1\n │ target name \0│ kind │ inode     │ name \0│ …   │ CRC32C   │
 *     └──────────────────┴───────────────┴──────┴───────────┴────────┴─────┴──────────┘
 *                                         1 byte  8, little   a move          4, little, of all before
 */
#include "io/journal.h"

#include "base/fault.h"
#include "base/hash.h"
#include "base/text.h"
#include "io/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "weir-journal-1\n"
#define JOURNAL ".weir-journal"
#define JOURNAL_DRAFT ".weir-journal-draft"
#define OLD ".weir-old"

enum { MAGIC_SIZE = sizeof(MAGIC) - 1, CRC_SIZE = 4, JOURNAL_SIZE_MAX = 1 << 30 };

void weir_journal_init(struct weir_journal *journal, struct weir_account *account)
{
	*journal = (struct weir_journal){.account = account};
}

void weir_journal_release(struct weir_journal *journal)
{
	if (!journal->account)
		return;
	for (size_t i = 0; i < journal->moves.count; i++)
		weir_strfree(journal->account, journal->moves.items[i].name);
	weir_list_release(&journal->moves, journal->account);
	weir_strfree(journal->account, journal->target_name);
	journal->target_name = NULL;
}

/* ---- one move ---- */

int weir_move(int from_fd, const char *from, int to_fd, const char *to)
{
	struct stat stat;

	if (!weir_rename(from_fd, from, to_fd, to, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	/* The file system cannot say "unless it is there". A second name can, for files. */
	if (!linkat(from_fd, from, to_fd, to, 0)) {
		int failed;

		if (!weir_unlink(from_fd, from, 0))
			return 0;
		failed = errno;
		unlinkat(to_fd, to, 0);
		errno = failed;
		return -1;
	}
	if (errno == EEXIST)
		return -1;
	/* Neither: look first, and trust that nobody else comes in between. */
	if (!fstatat(to_fd, to, &stat, AT_SYMLINK_NOFOLLOW)) {
		errno = EEXIST;
		return -1;
	}
	return weir_rename(from_fd, from, to_fd, to, 0);
}

/* 0 when nothing is there. */
static uint64_t inode_at(int fd, const char *name)
{
	struct stat stat;

	return fstatat(fd, name, &stat, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : (uint64_t)stat.st_ino;
}

/* Moves `name` between two trees, unless it was moved already. */
static int move_between(int from_fd, int to_fd, const struct weir_move *move, struct weir_error *err)
{
	int from_parent = -1, to_parent = -1, code;
	const char *base;

	/* Where the directory is missing, so is the file: then it is on the other side. */
	if (weir_open_beneath(from_fd, move->name, false, &from_parent, &base, err))
		return err->errno_value == ENOENT || err->errno_value == ENOTDIR ? WEIR_OK : err->code;
	code = WEIR_OK;
	if (inode_at(from_parent, base) != move->inode)
		goto out;
	code = weir_open_beneath(to_fd, move->name, true, &to_parent, &base, err);
	if (code)
		goto out;
	if (weir_move(from_parent, base, to_parent, base) < 0) {
		if (errno != EEXIST)
			code = weir_error_set_errno(err, errno, "cannot move %s into its place", move->name);
		else if (inode_at(to_parent, base) != move->inode)
			code = weir_error_set(err, WEIR_E_EXISTS, "there is another file called %s now", move->name);
		else if (weir_unlink(from_parent, base, 0) < 0) /* it has both names: killed between link and unlink */
			code = weir_error_set_errno(err, errno, "cannot remove the second name of %s", move->name);
	}
out:
	if (from_parent >= 0)
		close(from_parent);
	if (to_parent >= 0)
		close(to_parent);
	return code;
}

/* ---- all moves ---- */

/* −1 when there is nothing old. */
static int open_old(const struct weir_journal *journal, int stage_fd, int *out_fd, struct weir_error *err)
{
	/* The plan puts them first. */
	if (!journal->moves.count || journal->moves.items[0].kind != WEIR_MOVE_OLD)
		return WEIR_OK;
	if (mkdirat(stage_fd, OLD, 0777) < 0 && errno != EEXIST)
		return weir_error_set_errno(err, errno, "cannot make a directory for the old files");
	*out_fd = openat(stage_fd, OLD, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*out_fd < 0)
		return weir_error_set_errno(err, errno, "cannot open the directory of the old files");
	return WEIR_OK;
}

int weir_journal_finish(const struct weir_journal *journal, int stage_fd, int target_fd, bool durable,
			struct weir_error *err)
{
	int old_fd = -1, code = open_old(journal, stage_fd, &old_fd, err);
	bool nested = false;

	for (size_t i = 0; !code && i < journal->moves.count; i++) {
		const struct weir_move *move = &journal->moves.items[i];

		nested |= strchr(move->name, '/') != NULL;
		code = move->kind == WEIR_MOVE_OLD ? move_between(target_fd, old_fd, move, err)
						   : move_between(stage_fd, target_fd, move, err);
	}
	if (!code && durable && nested)
		code = weir_tree_sync(target_fd, err);
	else if (!code && durable && weir_sync(target_fd) < 0)
		code = weir_error_set_errno(err, errno, "cannot sync the directory");
	if (old_fd >= 0)
		close(old_fd);
	return code;
}

/* Directories that were made for files that have left again. Those with anything in them stay. */
static void remove_empty_parents(int fd, const char *name)
{
	char path[PATH_MAX], *slash;

	snprintf(path, sizeof(path), "%s", name);
	while ((slash = strrchr(path, '/'))) {
		*slash = '\0';
		if (unlinkat(fd, path, AT_REMOVEDIR) < 0)
			return;
	}
}

int weir_journal_undo(const struct weir_journal *journal, int stage_fd, int target_fd, struct weir_error *err)
{
	int old_fd = -1, code = open_old(journal, stage_fd, &old_fd, err);

	for (size_t i = journal->moves.count; !code && i-- > 0;) {
		const struct weir_move *move = &journal->moves.items[i];

		if (move->kind == WEIR_MOVE_OLD) {
			code = move_between(old_fd, target_fd, move, err);
		} else {
			code = move_between(target_fd, stage_fd, move, err);
			remove_empty_parents(target_fd, move->name);
		}
	}
	if (old_fd >= 0)
		close(old_fd);
	return code;
}

/* ---- planning ---- */

static int add_move(struct weir_journal *journal, enum weir_move_kind kind, uint64_t inode, const char *name,
		    struct weir_error *err)
{
	struct weir_move move = {.kind = kind, .inode = inode};
	int code;

	move.name = weir_strdup(journal->account, name, err);
	if (!move.name)
		return err->code;
	code = weir_list_push(&journal->moves, journal->account, err, move);
	if (code)
		weir_strfree(journal->account, move.name);
	return code;
}

static int add_moves(struct weir_journal *journal, enum weir_move_kind kind, int fd, int other_fd,
		     const struct weir_names *names, struct weir_error *err)
{
	for (size_t i = 0; i < names->count; i++) {
		uint64_t inode = inode_at(fd, names->items[i]);
		int code;

		if (!inode)
			return weir_error_set(err, WEIR_E_IO, "%s is gone", names->items[i]);
		/* Better to find it out before anything moves. */
		if (kind == WEIR_MOVE_NEW && other_fd >= 0 && inode_at(other_fd, names->items[i]))
			return weir_error_set(err, WEIR_E_EXISTS, "there is another file called %s", names->items[i]);
		code = add_move(journal, kind, inode, names->items[i], err);
		if (code)
			return code;
	}
	return WEIR_OK;
}

int weir_journal_plan(struct weir_journal *journal, int stage_fd, int target_fd, const char *target_name, bool replace,
		      struct weir_error *err)
{
	struct weir_names old = {0}, new = {0};
	int code = WEIR_OK;

	journal->target_name = weir_strdup(journal->account, target_name, err);
	if (!journal->target_name)
		return err->code;
	if (replace) {
		code = weir_directory_names(journal->account, target_fd, &old, err);
		if (!code)
			code = add_moves(journal, WEIR_MOVE_OLD, target_fd, -1, &old, err);
	}
	if (!code)
		code = weir_tree_files(journal->account, stage_fd, &new, err);
	if (!code)
		code = add_moves(journal, WEIR_MOVE_NEW, stage_fd, replace ? -1 : target_fd, &new, err);
	weir_names_release(&old, journal->account);
	weir_names_release(&new, journal->account);
	return code;
}

/* ---- the file ---- */

static void put_le(unsigned char *out, uint64_t value, int size)
{
	for (int i = 0; i < size; i++)
		out[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t get_le(const unsigned char *in, int size)
{
	uint64_t value = 0;

	for (int i = 0; i < size; i++)
		value |= (uint64_t)in[i] << 8 * i;
	return value;
}

static int compose(const struct weir_journal *journal, struct weir_text *out, struct weir_error *err)
{
	unsigned char number[8];
	int code = weir_text_puts(out, MAGIC, err);

	if (!code)
		code = weir_text_append(out, journal->target_name, strlen(journal->target_name) + 1, err);
	for (size_t i = 0; !code && i < journal->moves.count; i++) {
		const struct weir_move *move = &journal->moves.items[i];
		char kind = (char)move->kind;

		put_le(number, move->inode, 8);
		code = weir_text_append(out, &kind, 1, err);
		if (!code)
			code = weir_text_append(out, number, 8, err);
		if (!code)
			code = weir_text_append(out, move->name, strlen(move->name) + 1, err);
	}
	if (code)
		return code;
	put_le(number, weir_crc32c(0, out->data, out->size), CRC_SIZE);
	return weir_text_append(out, number, CRC_SIZE, err);
}

int weir_journal_write(const struct weir_journal *journal, int stage_fd, bool durable, struct weir_error *err)
{
	struct weir_text text;
	int fd = -1, code;

	weir_text_init(&text, journal->account);
	code = compose(journal, &text, err);
	if (code)
		goto out;
	fd = weir_fault(WEIR_FAULT_OPEN)
		     ? -1
		     : openat(stage_fd, JOURNAL_DRAFT, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || weir_write_all(fd, text.data, text.size) != (ssize_t)text.size || (durable && weir_sync(fd) < 0))
		code = weir_error_set_errno(err, errno, "cannot write a journal of %zu bytes", text.size);
	else if (weir_rename(stage_fd, JOURNAL_DRAFT, stage_fd, JOURNAL, 0) < 0)
		code = weir_error_set_errno(err, errno, "cannot put the journal in its place");
	else if (durable && weir_sync(stage_fd) < 0)
		code = weir_error_set_errno(err, errno, "cannot sync the journal's directory");
out:
	if (fd >= 0)
		close(fd);
	weir_text_release(&text);
	return code;
}

int weir_journal_remove(int stage_fd, bool durable, struct weir_error *err)
{
	if (weir_unlink(stage_fd, JOURNAL, 0) < 0 && errno != ENOENT)
		return weir_error_set_errno(err, errno, "cannot remove the journal");
	if (durable && weir_sync(stage_fd) < 0)
		return weir_error_set_errno(err, errno, "cannot sync the journal's directory");
	return WEIR_OK;
}

/* False when the bytes are not what compose makes. */
static int parse(struct weir_journal *journal, const char *bytes, size_t size, bool *out_valid, struct weir_error *err)
{
	const char *at, *end, *nul;
	int code;

	*out_valid = false;
	if (size < MAGIC_SIZE + CRC_SIZE || memcmp(bytes, MAGIC, MAGIC_SIZE))
		return WEIR_OK;
	end = bytes + size - CRC_SIZE;
	if (weir_crc32c(0, bytes, size - CRC_SIZE) != get_le((const unsigned char *)end, CRC_SIZE))
		return WEIR_OK;
	at = bytes + MAGIC_SIZE;
	nul = memchr(at, 0, (size_t)(end - at));
	if (!nul || strchr(at, '/'))
		return WEIR_OK;
	journal->target_name = weir_strdup(journal->account, at, err);
	if (!journal->target_name)
		return err->code;
	for (at = nul + 1; at < end; at = nul + 1) {
		struct weir_error ignored;
		enum weir_move_kind kind = (enum weir_move_kind) * at;
		uint64_t inode;

		if (end - at < 10 || (kind != WEIR_MOVE_OLD && kind != WEIR_MOVE_NEW))
			return WEIR_OK;
		inode = get_le((const unsigned char *)at + 1, 8);
		at += 9;
		nul = memchr(at, 0, (size_t)(end - at));
		if (!nul || weir_name_check(at, &ignored))
			return WEIR_OK;
		code = add_move(journal, kind, inode, at, err);
		if (code)
			return code;
	}
	*out_valid = true;
	return WEIR_OK;
}

int weir_journal_read(struct weir_journal *journal, int stage_fd, bool *out_found, struct weir_error *err)
{
	int fd = openat(stage_fd, JOURNAL, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), code = WEIR_OK;
	struct stat stat;
	size_t size = 0, done = 0;
	char *bytes = NULL;

	*out_found = false;
	if (fd < 0)
		return errno == ENOENT || errno == ELOOP ? WEIR_OK
							 : weir_error_set_errno(err, errno, "cannot open a journal");
	if (fstat(fd, &stat) < 0) {
		code = weir_error_set_errno(err, errno, "cannot look at a journal");
		goto out;
	}
	if (!S_ISREG(stat.st_mode) || stat.st_size > JOURNAL_SIZE_MAX)
		goto out;
	size = (size_t)stat.st_size;
	bytes = weir_alloc(journal->account, size, err);
	if (!bytes) {
		code = err->code;
		goto out;
	}
	while (done < size) {
		ssize_t n = weir_fault(WEIR_FAULT_READ) ? -1 : read(fd, bytes + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			code = weir_error_set_errno(err, errno, "cannot read a journal");
			goto out;
		}
		if (n == 0)
			goto out;
		done += (size_t)n;
	}
	code = parse(journal, bytes, size, out_found, err);
out:
	weir_free(journal->account, bytes, size);
	close(fd);
	return code;
}
