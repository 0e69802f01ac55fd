/* stage: the hidden directory in which an output is prepared, and what is done to directories for its sake.
 *
 * A stage is called .<name>.weir-<16 hex digits> beside its target, or .weir-<16 hex digits> inside it. Whoever made it
 * holds a lock (flock) on the directory itself for as long as he lives, so a stage whose lock is free belongs to
 * nobody. Where a file system has no such locks, stages of others are never touched.
 *
 * Everything goes by descriptors of directories and never through a link: names are data, and may be hostile.
 */
#ifndef WEIR_IO_STAGE_H
#define WEIR_IO_STAGE_H

#include "base/list.h"

#include <limits.h>
#include <sys/types.h>

struct weir_stage {
	int home_fd; /* borrowed: the directory in which it lies */
	int fd;      /* −1: none */
	char name[NAME_MAX + 1];
};

/* `target_name` NULL: inside the target. `home_path` is for messages. */
int weir_stage_new(struct weir_stage *stage, int home_fd, const char *home_path, const char *target_name,
		   struct weir_error *err);
/* Removes whatever now bears its name, and lets go of the lock. */
int weir_stage_remove(struct weir_stage *stage, struct weir_error *err);
/* Lets go without removing anything. */
void weir_stage_release(struct weir_stage *stage);
/* Is this what weir_stage_new could have called a stage for that target? */
bool weir_stage_name_is(const char *name, const char *target_name);
/* Takes over a stage that nobody holds. *out_taken false: someone does, or it is not ours to touch. */
int weir_stage_take(struct weir_stage *stage, int home_fd, const char *name, bool *out_taken, struct weir_error *err);

/* A name that stays inside its directory: relative, without empty components, ".", ".." or names of our own. */
int weir_name_check(const char *name, struct weir_error *err);
/* Opens the directory part of `name` below `fd`, and gives the rest. `create`: makes what is missing. */
int weir_open_beneath(int fd, const char *name, bool create, int *out_fd, const char **out_base,
		      struct weir_error *err);

/* File names below a directory, relative to it; names of our own (.weir-…) at the top left out. */
struct weir_names WEIR_LIST(char *);
int weir_tree_files(struct weir_account *account, int fd, struct weir_names *out, struct weir_error *err);
/* The names in a directory, of files and directories; our own left out. */
int weir_directory_names(struct weir_account *account, int fd, struct weir_names *out, struct weir_error *err);
void weir_names_release(struct weir_names *names, struct weir_account *account);
int weir_directory_is_empty(int fd, bool *out, struct weir_error *err); /* but for our own */
int weir_tree_remove(int at_fd, const char *name, struct weir_error *err);
int weir_tree_sync(int fd, struct weir_error *err); /* the directories in it; files were synced when closed */

/* System calls with their points of failure; −1 and errno as usual. */
int weir_sync(int fd);
int weir_rename(int from_fd, const char *from, int to_fd, const char *to, unsigned flags); /* renameat2's flags */
int weir_unlink(int at_fd, const char *name, int flags);
ssize_t weir_write_all(int fd, const void *bytes, size_t size); /* how many before an error; errno then */

#endif
