/* list: which files to read. A path is a file, a directory (recursively), a glob (io/glob.h), or there is a list of
 * those; hive partitions (`year=2024/city=Z%C3%BCrich/`) become columns.
 *
 * Lazy: a directory is read when the listing comes to it. The files of one path come in byte order of their paths, the
 * paths in the order given, a file as often as it is given. Names are bytes; nothing is asked of them but to be no NUL
 * and no '/'.
 *
 *   directory   files with one of the extensions. Skipped: names beginning with '.' or '_', except directories like
 *               `_x=1/`; what is neither file nor directory. Links are followed.
 *   glob        as said in glob.h; ** enters what a directory's walk enters. A directory that the last component
 *               matches is walked too, unless the pattern has a **. Whatever exists under exactly the name given is no
 *               pattern.
 *
 * A path that is not there is WEIR_E_NOT_FOUND; a glob or directory without files too, saying so. A directory that
 * contains itself by links is an error, and so is a link to nothing where a file was wanted. One user thread at a time.
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
	const char *const *extensions; /* borrowed; NULL-terminated, e.g. {".parquet", NULL}, in any case; NULL: any */
	bool compressed;               /* that of a compression may follow one ("a.csv.gz") */
	bool hive;                     /* parse key=value directories below the given path */
	/* Not NULL: what is not there, or cannot be looked at or listed, and a path without files, is told and left
	 * out. */
	void (*missing)(void *missing_context, const struct weir_error *why);
	void *missing_context;
};

int weir_listing_new(struct weir_account *account, const char *const *paths, uint32_t count,
		     const struct weir_list_options *options, struct weir_listing **out, struct weir_error *err);
/* *done at the end: then *out is not filled. After an error the listing can only be freed. */
int weir_listing_next(struct weir_listing *listing, struct weir_listed *out, bool *done, struct weir_error *err);
void weir_listing_free(struct weir_listing *listing);

#endif
