/* Removes a folder and all in it, or a file, or nothing when it is not there. */
#ifndef WEIR_TESTS_REMOVE_TREE_H
#define WEIR_TESTS_REMOVE_TREE_H

#include <errno.h>
#include <ftw.h>
#include <stdio.h>

static inline int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)status;
	(void)type;
	(void)place;
	return remove(path);
}

static inline int remove_tree(const char *path)
{
	return nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT ? -1 : 0;
}

#endif
