/* journal: files that go from a stage into a folder one by one, so that whoever finds the journal can go on.
 *
 *     plan ─▶ write (the output is decided from here on) ─▶ finish ─▶ remove ─▶ the stage is rubbish
 *                                                            └ failed ─▶ undo ─▶ remove
 *     after a kill:  read ─▶ finish | undo ─▶ remove
 *
 * Finish and undo both may be repeated from any point of either: each move is recognised as done or not by the inode
 * that lies at its ends. A journal that a killed process left is finished, never undone, unless it meets foreign files
 * of the same names: nobody was told that it failed.
 */
#ifndef WEIR_IO_JOURNAL_H
#define WEIR_IO_JOURNAL_H

#include "base/list.h"

enum weir_move_kind {
	WEIR_MOVE_OLD = 'O', /* an entry of the folder, out of it, into the stage */
	WEIR_MOVE_NEW = 'N', /* a file of the stage, into the folder */
};

struct weir_move {
	enum weir_move_kind kind;
	uint64_t inode;
	char *name; /* owned */
};

struct weir_journal {
	struct weir_account *account;
	char *target_name; /* owned: of the folder, beside the stage; empty when the stage lies inside it */
	struct WEIR_LIST(struct weir_move) moves;
};

void weir_journal_init(struct weir_journal *journal, struct weir_account *account);
void weir_journal_release(struct weir_journal *journal);
/* What is to happen: `replace`, everything in the folder leaves it; then all files of the stage enter it. */
int weir_journal_plan(struct weir_journal *journal, int stage_fd, int target_fd, const char *target_name, bool replace,
		      struct weir_error *err);
int weir_journal_write(const struct weir_journal *journal, int stage_fd, bool durable, struct weir_error *err);
/* *out_found false: there is none that is whole, so nothing has been moved. */
int weir_journal_read(struct weir_journal *journal, int stage_fd, bool *out_found, struct weir_error *err);
int weir_journal_finish(const struct weir_journal *journal, int stage_fd, int target_fd, bool durable,
			struct weir_error *err);
int weir_journal_undo(const struct weir_journal *journal, int stage_fd, int target_fd, struct weir_error *err);
/* After finish or undo, and before anything else of the stage is removed: from then on the inodes of old files may be
 * given to new ones of the same names. */
int weir_journal_remove(int stage_fd, bool durable, struct weir_error *err);

/* Moves unless something is there already (EEXIST); −1 and errno as usual. */
int weir_move(int from_fd, const char *from, int to_fd, const char *to);

#endif
