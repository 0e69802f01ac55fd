/* Every path given becomes one or more walkers (a pattern with braces has one for each alternative); their files, each
 * in byte order, are merged, and what two of them find is given once.
 *
 * A walker holds a stack of directories, each read whole, filtered and sorted when it is entered, so that no descriptor
 * stays open and nothing below it has been touched yet. A directory sorts as its name and '/', which makes the order of
 * a depth-first walk the byte order of whole paths.
 *
 * A pattern is run as a set of states, a bit for each component: "what follows must match from component i on". `**`
 * keeps its own state and has the next one's too. So each name is looked at once, whatever the pattern:
 *
 *     a / ** / *.csv        {0} ─a─▶ {1,2} ─x─▶ {1,2} ─y.csv─▶ found (by 2)
 *                                     └─ z.csv ─▶ found
 *
 * A directory given, or matched by the last component, is walked without a pattern (`walking`).
 */
#include "io/list.h"

#include "base/arena.h"
#include "base/list.h"
#include "base/text.h"
#include "io/glob.h"
#include "io/stream.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define HIVE_NULL "__HIVE_DEFAULT_PARTITION__"

struct entry {
	const char *name; /* in the level's arena */
	uint64_t states;  /* a directory's: what holds below it */
	uint64_t size;
	bool directory, walking, sized;
};

struct level {
	struct weir_arena names;
	struct WEIR_LIST(struct entry) entries;
	size_t next;      /* the first entry not yet visited */
	size_t path_size; /* of the walker's path, up to this directory's '/' */
	uint64_t states;
	bool walking;
	dev_t device;
	ino_t inode;
};

struct walker {
	struct weir_glob glob;
	struct weir_text path;
	struct WEIR_LIST(struct level) levels;
	size_t root_size; /* of the path: partitions lie below it */
	bool ready;       /* a file waits in `path` and `size` */
	uint64_t size;
	struct weir_arena partition_arena;
	struct WEIR_LIST(struct weir_partition_value) partitions;
	bool partitions_valid; /* for the newest level */
};

struct weir_listing {
	struct weir_account *account;
	struct weir_list_options options;
	struct weir_arena arena; /* paths given */
	char **paths;
	uint32_t path_count, path_next;
	const char *path; /* the one being listed; NULL before the first */
	uint64_t found;   /* under it */
	bool is_pattern;
	/* The current path's. */
	struct weir_arena globs_arena;
	struct weir_globs globs;
	struct WEIR_LIST(struct walker) walkers;
	struct walker *given; /* whose file was given last */
};

/* What concerns one path only may be left out, if the caller wants it so. */
static int excuse(const struct weir_listing *listing, int code, struct weir_error *err)
{
	if (!listing->options.missing || (code != WEIR_E_NOT_FOUND && code != WEIR_E_IO) ||
	    err->errno_value == EMFILE || err->errno_value == ENFILE)
		return code;
	listing->options.missing(listing->options.missing_context, err);
	weir_error_clear(err);
	return WEIR_OK;
}

/* ---- one directory ---- */

static bool hidden(const char *name, bool directory)
{
	return name[0] == '.' || (name[0] == '_' && !(directory && strchr(name, '=')));
}

static bool extension_wanted(const struct weir_list_options *options, const char *name)
{
	size_t size = strlen(name), stem = options->compressed ? weir_compression_stem(name) : size;

	if (!options->extensions)
		return true;
	for (const char *const *extension = options->extensions; *extension; extension++) {
		size_t length = strlen(*extension);

		if ((size >= length && !strcasecmp(name + size - length, *extension)) ||
		    (stem >= length && !strncasecmp(name + stem - length, *extension, length)))
			return true;
	}
	return false;
}

static uint64_t states_close(const struct weir_glob *glob, uint64_t states)
{
	for (uint32_t c = 0; c + 1 < glob->component_count; c++)
		if (states >> c & 1 && glob->components[c].any_depth)
			states |= (uint64_t)2 << c;
	return states;
}

static bool has_any_depth(const struct weir_glob *glob)
{
	for (uint32_t c = 0; c < glob->component_count; c++)
		if (glob->components[c].any_depth)
			return true;
	return false;
}

/* What an entry of this level means, by its name: `as_file` when it is found if it is a file; the states below it, or
 * that it is walked, if it is a directory. */
static void judge(const struct weir_listing *listing, const struct walker *walker, const struct level *level,
		  const char *name, bool *as_file, struct entry *entry)
{
	const struct weir_glob *glob = &walker->glob;
	uint32_t last = glob->component_count - 1;

	*as_file = false;
	entry->states = 0;
	entry->walking = false;
	if (level->walking) {
		entry->walking = !hidden(name, true);
		*as_file = !hidden(name, false) && extension_wanted(&listing->options, name);
		return;
	}
	for (uint32_t c = 0; c <= last; c++) {
		const struct weir_glob_component *component = &glob->components[c];

		if (!(level->states >> c & 1))
			continue;
		if (component->any_depth) {
			if (!hidden(name, true))
				entry->states |= (uint64_t)1 << c;
			*as_file |= c == last && !hidden(name, false) && !glob->directories_only;
		} else if (component->literal ? !strcmp(component->literal, name)
					      : weir_glob_match(component->text, name)) {
			if (c < last) {
				entry->states |= (uint64_t)2 << c;
			} else {
				*as_file |= !glob->directories_only;
				entry->walking = !has_any_depth(glob);
			}
		}
	}
	entry->states = states_close(glob, entry->states);
}

/* Finds out what a link, or a name of unknown kind, stands for. */
static int resolve(struct walker *walker, const struct level *level, const char *name, bool as_file,
		   unsigned char *type, struct entry *entry, struct weir_error *err)
{
	struct stat stat_buffer;
	int code;

	walker->path.size = level->path_size;
	code = weir_text_puts(&walker->path, name, err);
	if (code)
		return code;
	if (stat(walker->path.data, &stat_buffer) < 0) {
		*type = DT_UNKNOWN;
		/* A link to nothing that nobody asked for is nobody's concern. */
		if (!as_file && (errno == ENOENT || errno == ELOOP))
			return WEIR_OK;
		code = weir_error_set_errno(err, errno, "cannot look at it, or at what it links to");
		weir_error_at_source(err, walker->path.data);
		return code;
	}
	*type = S_ISREG(stat_buffer.st_mode) ? DT_REG : S_ISDIR(stat_buffer.st_mode) ? DT_DIR : DT_UNKNOWN;
	entry->sized = true;
	entry->size = (uint64_t)stat_buffer.st_size;
	return WEIR_OK;
}

static int level_add(struct weir_listing *listing, struct walker *walker, struct level *level, const char *name,
		     unsigned char type, struct weir_error *err)
{
	struct entry entry = {0};
	bool as_file;
	int code;

	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return WEIR_OK;
	judge(listing, walker, level, name, &as_file, &entry);
	if (!as_file && !entry.states && !entry.walking)
		return WEIR_OK;
	if (type == DT_LNK || type == DT_UNKNOWN) {
		code = excuse(listing, resolve(walker, level, name, as_file, &type, &entry, err), err);
		if (code)
			return code;
	}
	entry.directory = type == DT_DIR;
	if (!(type == DT_REG && as_file) && !(entry.directory && (entry.states || entry.walking)))
		return WEIR_OK;
	entry.name = weir_arena_strdup(&level->names, name, err);
	if (!entry.name)
		return err->code;
	return weir_list_push(&level->entries, listing->account, err, entry);
}

static int entry_compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	size_t i = 0;
	int u, v;

	while (x->name[i] && x->name[i] == y->name[i])
		i++;
	u = x->name[i] ? (unsigned char)x->name[i] : x->directory ? '/' : 0;
	v = y->name[i] ? (unsigned char)y->name[i] : y->directory ? '/' : 0;
	return u - v;
}

/* Only plain components wait below: their names are looked up, the directory is not read. */
static bool only_literals(const struct walker *walker, const struct level *level)
{
	for (uint32_t c = 0; c < walker->glob.component_count; c++)
		if (level->states >> c & 1 && !walker->glob.components[c].literal)
			return false;
	return !level->walking;
}

static int level_look_up(struct weir_listing *listing, struct walker *walker, struct level *level,
			 struct weir_error *err)
{
	for (uint32_t c = 0; c < walker->glob.component_count; c++) {
		const struct weir_glob_component *component = &walker->glob.components[c];
		struct entry entry = {0};
		struct stat stat_buffer;
		bool as_file;
		int code;

		if (!(level->states >> c & 1))
			continue;
		walker->path.size = level->path_size;
		code = weir_text_puts(&walker->path, component->literal, err);
		if (code)
			return code;
		if (stat(walker->path.data, &stat_buffer) < 0) {
			if (errno == ENOENT || errno == ENOTDIR)
				continue;
			code = weir_error_set_errno(err, errno, "cannot look at it");
			weir_error_at_source(err, walker->path.data);
			return code;
		}
		judge(listing, walker, level, component->literal, &as_file, &entry);
		entry.name = component->literal;
		entry.directory = S_ISDIR(stat_buffer.st_mode);
		entry.sized = true;
		entry.size = (uint64_t)stat_buffer.st_size;
		if (!(S_ISREG(stat_buffer.st_mode) && as_file) && !(entry.directory && (entry.states || entry.walking)))
			continue;
		code = weir_list_push(&level->entries, listing->account, err, entry);
		if (code)
			return code;
	}
	return WEIR_OK;
}

static int level_read(struct weir_listing *listing, struct walker *walker, struct level *level, bool must_exist,
		      struct weir_error *err)
{
	const char *path = level->path_size ? walker->path.data : ".";
	DIR *directory = opendir(path);
	struct stat stat_buffer;
	int code = WEIR_OK;

	if (!directory) {
		if (!must_exist && (errno == ENOENT || errno == ENOTDIR))
			return WEIR_OK;
		code = weir_error_set_errno(err, errno, "cannot list this directory");
		weir_error_at_source(err, path);
		return code;
	}
	if (fstat(dirfd(directory), &stat_buffer) < 0) {
		code = weir_error_set_errno(err, errno, "cannot look at this directory");
		weir_error_at_source(err, path);
		goto out;
	}
	level->device = stat_buffer.st_dev;
	level->inode = stat_buffer.st_ino;
	for (size_t l = 0; l < walker->levels.count; l++) {
		const struct level *above = &walker->levels.items[l];

		if (above != level && above->device == level->device && above->inode == level->inode &&
		    (level->walking || has_any_depth(&walker->glob))) {
			code = weir_error_set(err, WEIR_E_INVALID, "this directory contains itself, by a link");
			weir_error_at_source(err, path);
			goto out;
		}
	}
	for (;;) {
		struct dirent *dirent;

		errno = 0;
		dirent = readdir(directory);
		if (!dirent) {
			if (errno) {
				code = weir_error_set_errno(err, errno, "cannot list this directory");
				walker->path.data[level->path_size] = '\0';
				weir_error_at_source(err, level->path_size ? walker->path.data : ".");
			}
			break;
		}
		code = level_add(listing, walker, level, dirent->d_name, dirent->d_type, err);
		if (code)
			break;
	}
out:
	closedir(directory);
	return code;
}

static void level_release(struct weir_listing *listing, struct level *level)
{
	weir_arena_release(&level->names);
	weir_list_release(&level->entries, listing->account);
}

/* Enters the directory that `walker->path` (empty, or ending in '/') names. */
static int level_push(struct weir_listing *listing, struct walker *walker, uint64_t states, bool walking,
		      struct weir_error *err)
{
	struct level *level;
	bool must_exist = walker->levels.count > 0 || walking;
	int code = weir_list_push(&walker->levels, listing->account, err, (struct level){0});

	if (code)
		return code;
	level = &walker->levels.items[walker->levels.count - 1];
	weir_arena_init(&level->names, listing->account);
	level->path_size = walker->path.size;
	level->states = states;
	level->walking = walking;
	walker->partitions_valid = false;
	code = only_literals(walker, level) ? level_look_up(listing, walker, level, err)
					    : level_read(listing, walker, level, must_exist, err);
	if (!code && level->entries.count > 1)
		qsort(level->entries.items, level->entries.count, sizeof(*level->entries.items), entry_compare);
	return code;
}

/* ---- one walker ---- */

static int walker_size(struct walker *walker, const struct entry *entry, struct weir_error *err)
{
	struct stat stat_buffer;
	int code;

	if (entry->sized) {
		walker->size = entry->size;
		return WEIR_OK;
	}
	if (stat(walker->path.data, &stat_buffer) < 0) {
		code = weir_error_set_errno(err, errno, "the file was listed, but cannot be looked at");
		weir_error_at_source(err, walker->path.data);
		return code;
	}
	walker->size = (uint64_t)stat_buffer.st_size;
	return WEIR_OK;
}

/* Goes on to its next file, if it has one. */
static int walker_advance(struct weir_listing *listing, struct walker *walker, struct weir_error *err)
{
	int code;

	while (!walker->ready && walker->levels.count) {
		struct level *level = &walker->levels.items[walker->levels.count - 1];
		const struct entry *entry;

		if (level->next == level->entries.count) {
			level_release(listing, level);
			walker->levels.count--;
			walker->partitions_valid = false;
			continue;
		}
		entry = &level->entries.items[level->next++];
		walker->path.size = level->path_size;
		code = weir_text_puts(&walker->path, entry->name, err);
		if (!code && entry->directory) {
			code = weir_text_puts(&walker->path, "/", err);
			if (!code)
				code = excuse(listing, level_push(listing, walker, entry->states, entry->walking, err),
					      err);
		} else if (!code) {
			code = walker_size(walker, entry, err);
			walker->ready = !code;
			code = excuse(listing, code, err);
		}
		if (code)
			return code;
	}
	return WEIR_OK;
}

static int hex(char digit)
{
	return digit >= '0' && digit <= '9'     ? digit - '0'
	       : isxdigit((unsigned char)digit) ? (digit | 32) - 'a' + 10
						: -1;
}

/* %41 → A. What is no escape, or would end the string, stays as it is. */
static char *percent_decode(struct weir_arena *arena, const char *text, size_t size, struct weir_error *err)
{
	char *decoded = weir_arena_strndup(arena, text, size, err), *out = decoded;

	if (!decoded)
		return NULL;
	for (const char *in = decoded; *in; in++) {
		int value = *in == '%' && hex(in[1]) >= 0 && hex(in[2]) >= 0 ? hex(in[1]) * 16 + hex(in[2]) : 0;

		*out++ = value ? (char)value : *in;
		in += value ? 2 : 0;
	}
	*out = '\0';
	return decoded;
}

static int walker_partitions(struct weir_listing *listing, struct walker *walker, struct weir_error *err)
{
	const char *at = walker->path.data + walker->root_size, *slash;

	if (walker->partitions_valid)
		return WEIR_OK;
	walker->partitions.count = 0;
	weir_arena_clear(&walker->partition_arena);
	for (; (slash = strchr(at, '/')); at = slash + 1) {
		const char *equals = memchr(at, '=', (size_t)(slash - at));
		struct weir_partition_value value;
		int code;

		if (!equals || equals == at)
			continue;
		value.key = percent_decode(&walker->partition_arena, at, (size_t)(equals - at), err);
		value.value = percent_decode(&walker->partition_arena, equals + 1, (size_t)(slash - equals - 1), err);
		if (!value.key || !value.value)
			return err->code;
		if (!strcmp(value.value, HIVE_NULL))
			value.value = NULL;
		code = weir_list_push(&walker->partitions, listing->account, err, value);
		if (code)
			return code;
	}
	walker->partitions_valid = true;
	return WEIR_OK;
}

static void walker_release(struct weir_listing *listing, struct walker *walker)
{
	while (walker->levels.count)
		level_release(listing, &walker->levels.items[--walker->levels.count]);
	weir_list_release(&walker->levels, listing->account);
	weir_list_release(&walker->partitions, listing->account);
	weir_arena_release(&walker->partition_arena);
	weir_text_release(&walker->path);
}

/* ---- paths ---- */

static int walker_add(struct weir_listing *listing, struct walker **out, struct weir_error *err)
{
	int code = weir_list_push(&listing->walkers, listing->account, err, (struct walker){0});

	if (code)
		return code;
	*out = &listing->walkers.items[listing->walkers.count - 1];
	weir_text_init(&(*out)->path, listing->account);
	weir_arena_init(&(*out)->partition_arena, listing->account);
	return weir_text_puts(&(*out)->path, "", err);
}

static int begin_file(struct weir_listing *listing, const char *path, uint64_t size, struct weir_error *err)
{
	struct walker *walker;
	int code = walker_add(listing, &walker, err);

	if (!code)
		code = weir_text_puts(&walker->path, path, err);
	if (code)
		return code;
	walker->root_size = walker->path.size;
	walker->size = size;
	walker->ready = true;
	return WEIR_OK;
}

static int begin_directory(struct weir_listing *listing, const char *path, struct weir_error *err)
{
	size_t size = strlen(path);
	struct walker *walker;
	int code = walker_add(listing, &walker, err);

	while (size > 1 && path[size - 1] == '/' && path[size - 2] == '/')
		size--;
	if (!code)
		code = weir_text_append(&walker->path, path, size, err);
	if (!code && path[size - 1] != '/')
		code = weir_text_puts(&walker->path, "/", err);
	if (code)
		return code;
	walker->root_size = walker->path.size;
	return level_push(listing, walker, 0, true, err);
}

static int begin_pattern(struct weir_listing *listing, const char *path, struct weir_error *err)
{
	int code;

	listing->is_pattern = true;
	weir_arena_clear(&listing->globs_arena);
	listing->globs.count = 0;
	code = weir_glob_parse(&listing->globs_arena, path, &listing->globs, err);
	if (code) {
		weir_error_at_source(err, path);
		return code;
	}
	for (size_t g = 0; g < listing->globs.count; g++) {
		struct walker *walker;

		code = walker_add(listing, &walker, err);
		if (code)
			return code;
		walker->glob = listing->globs.items[g];
		code = weir_text_puts(&walker->path, walker->glob.root, err);
		if (code)
			return code;
		walker->root_size = walker->path.size;
		code = level_push(listing, walker, states_close(&walker->glob, 1), false, err);
		if (code)
			return code;
	}
	return WEIR_OK;
}

static bool has_scheme(const char *path)
{
	size_t size = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");

	return size > 0 && !strncmp(path + size, "://", 3);
}

static int begin_path(struct weir_listing *listing, const char *path, struct weir_error *err)
{
	struct stat stat_buffer;
	int code;

	listing->path = path;
	listing->found = 0;
	listing->is_pattern = false;
	if (!strncmp(path, "file://", 7))
		path += 7;
	if (!stat(path, &stat_buffer)) {
		if (S_ISDIR(stat_buffer.st_mode))
			return begin_directory(listing, path, err);
		if (S_ISREG(stat_buffer.st_mode))
			return begin_file(listing, path, (uint64_t)stat_buffer.st_size, err);
		code = weir_error_set(err, WEIR_E_INVALID, "it is neither a file nor a directory");
	} else if (has_scheme(path)) {
		code = weir_error_set(err, WEIR_E_UNSUPPORTED, "only local files can be read");
	} else if ((errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) && weir_glob_is_special(path)) {
		return begin_pattern(listing, path, err);
	} else if (errno == ENOENT || errno == ENOTDIR) {
		code = weir_error_set(err, WEIR_E_NOT_FOUND, "there is no such file or directory");
	} else {
		code = weir_error_set_errno(err, errno, "cannot look at it");
	}
	weir_error_at_source(err, path);
	return code;
}

static void drop_path(struct weir_listing *listing)
{
	for (size_t w = 0; w < listing->walkers.count; w++)
		walker_release(listing, &listing->walkers.items[w]);
	listing->walkers.count = 0;
	listing->path = NULL;
}

static int end_path(struct weir_listing *listing, struct weir_error *err)
{
	const char *const *extensions = listing->options.extensions;
	int code = WEIR_OK;

	if (!listing->found) {
		if (listing->is_pattern)
			code = weir_error_set(err, WEIR_E_NOT_FOUND, "no file matches this pattern");
		else if (extensions && extensions[0])
			code = weir_error_set(err, WEIR_E_NOT_FOUND, "this directory has no files that end in %s%s",
					      extensions[0], extensions[1] ? " or the like" : "");
		else
			code = weir_error_set(err, WEIR_E_NOT_FOUND, "this directory has no files");
		weir_error_at_source(err, listing->path);
	}
	drop_path(listing);
	return code;
}

/* ---- the listing ---- */

int weir_listing_new(struct weir_account *account, const char *const *paths, uint32_t count,
		     const struct weir_list_options *options, struct weir_listing **out, struct weir_error *err)
{
	struct weir_listing *listing = weir_alloc_zero(account, sizeof(*listing), err);

	*out = NULL;
	if (!listing)
		return err->code;
	listing->account = account;
	weir_arena_init(&listing->arena, account);
	weir_arena_init(&listing->globs_arena, account);
	if (options)
		listing->options = *options;
	listing->paths = weir_arena_alloc(&listing->arena, count * sizeof(*listing->paths), err);
	if (!listing->paths)
		goto fail;
	for (uint32_t i = 0; i < count; i++) {
		if (!paths[i][0]) {
			weir_error_set(err, WEIR_E_INVALID, "a path is empty");
			goto fail;
		}
		listing->paths[i] = weir_arena_strdup(&listing->arena, paths[i], err);
		if (!listing->paths[i])
			goto fail;
	}
	listing->path_count = count;
	*out = listing;
	return WEIR_OK;
fail:
	weir_listing_free(listing);
	return err->code;
}

/* The walker with the least path, and those behind that found the same put forward. NULL when none has one. */
static int least(struct weir_listing *listing, struct walker **out, struct weir_error *err)
{
	*out = NULL;
	for (size_t w = 0; w < listing->walkers.count; w++) {
		struct walker *walker = &listing->walkers.items[w];
		int code, order;

again:
		code = walker_advance(listing, walker, err);
		if (code)
			return code;
		if (!walker->ready)
			continue;
		order = *out ? strcmp(walker->path.data, (*out)->path.data) : -1;
		if (order == 0) {
			walker->ready = false;
			goto again;
		}
		if (order < 0)
			*out = walker;
	}
	return WEIR_OK;
}

int weir_listing_next(struct weir_listing *listing, struct weir_listed *out, bool *done, struct weir_error *err)
{
	struct walker *walker = NULL;
	bool is_excused;
	int code;

	*done = false;
	if (listing->given)
		listing->given->ready = false;
	listing->given = NULL;
	for (;;) {
		if (!listing->path) {
			if (listing->path_next == listing->path_count) {
				*done = true;
				return WEIR_OK;
			}
			code = begin_path(listing, listing->paths[listing->path_next++], err);
			is_excused = code != WEIR_OK;
			code = excuse(listing, code, err);
			if (code)
				return code;
			if (is_excused) {
				drop_path(listing);
				continue;
			}
		}
		code = least(listing, &walker, err);
		if (code)
			return code;
		if (walker)
			break;
		code = excuse(listing, end_path(listing, err), err);
		if (code)
			return code;
	}
	*out = (struct weir_listed){.path = walker->path.data, .size = walker->size};
	if (listing->options.hive) {
		code = walker_partitions(listing, walker, err);
		if (code)
			return code;
		out->partition_count = (uint32_t)walker->partitions.count;
		out->partitions = walker->partitions.items;
	}
	listing->given = walker;
	listing->found++;
	return WEIR_OK;
}

void weir_listing_free(struct weir_listing *listing)
{
	if (!listing)
		return;
	for (size_t w = 0; w < listing->walkers.count; w++)
		walker_release(listing, &listing->walkers.items[w]);
	weir_list_release(&listing->walkers, listing->account);
	weir_list_release(&listing->globs, listing->account);
	weir_arena_release(&listing->globs_arena);
	weir_arena_release(&listing->arena);
	weir_free(listing->account, listing, sizeof(*listing));
}
