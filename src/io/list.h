/* list: which files to read. A path is a file, a directory (recursively, names starting with '.' or '_' skipped), a glob
 * (* ? [] {a,b} **), or a list of those; hive partitions (`year=2024/city=Z%C3%BCrich/`) become columns.
 *
 * Lazy: the next file is found when asked for; within a directory files come sorted by name (byte order), directories
 * after each other in the same order as a sorted recursive walk gives. A path that is not there is WEIR_E_NOT_FOUND; a glob
 * or directory without files too, saying so. Symlink loops end with an error. One user thread at a time.
 */
#ifndef WEIR_IO_LIST_H
#define WEIR_IO_LIST_H

#include "base/mem.h"

struct weir_listing;

struct weir_partition_value {
	const char *key, *value; /* decoded; value NULL for __HIVE_DEFAULT_PARTITION__ */
};

struct weir_listed {
	const char *path; /* borrowed until the next call */
	uint64_t size;
	uint32_t partition_count;
	const struct weir_partition_value *partitions;
};

struct weir_list_options {
	const char *const *extensions; /* NULL-terminated, e.g. {".parquet", NULL}; NULL: any. Only for directories. */
	bool hive;                     /* parse key=value directories below the given path */
};

int weir_listing_new(struct weir_account *account, const char *const *paths, uint32_t count,
		     const struct weir_list_options *options, struct weir_listing **out, struct weir_error *err);
/* *out_path NULL at the end. */
int weir_listing_next(struct weir_listing *listing, struct weir_listed *out, bool *done, struct weir_error *err);
void weir_listing_free(struct weir_listing *listing);

#endif
