/* webdataset: the structs of the reader of WebDataset shards.
 *
 *     tar_input   the members of a tar file one after another (tar.c)
 *     web_file    an opened shard: where its samples lie. Immutable, shared by lanes.
 *     web_reader  one lane's: gathers members into samples
 *
 * A sample is the members that follow each other and have one name up to the first point of its last part; what is
 * behind that point names the column:
 *
 *     train/0001.jpg  train/0001.cls │ train/0002.jpg  train/0002.seg.png
 *     row 0: __key__ train/0001, jpg, cls    row 1: __key__ train/0002, jpg, seg.png
 */
#ifndef WEIR_FORMAT_WEBDATASET_WEBDATASET_IMPL_H
#define WEIR_FORMAT_WEBDATASET_WEBDATASET_IMPL_H

#include "base/list.h"
#include "io/stream.h"
#include "format/format.h"
#include "format/name_scan.h"

/* ── tar.c ── */

enum { TAR_BLOCK = 512, TAR_BUFFER = 16 << 10 };
#define TAR_NAME_MAX ((uint64_t)64 << 10)

struct tar_entry {
	uint64_t offset; /* of its first header */
	uint64_t size;
	const char *name; /* ends with a zero; the input's until the next entry */
	size_t name_size;
	bool is_file; /* with bytes of its own; not a folder, a link, a device */
};

struct tar_input {
	struct weir_account *account;
	struct weir_file *file;
	struct weir_stream *stream; /* NULL: the file is plain, and read where it is wanted */
	uint64_t size;              /* of a plain file */
	uint64_t position;
	uint64_t entry_left, entry_padding; /* bytes of the entry that have not been read */
	uint8_t *buffer;                    /* plain: what lies at buffer_offset */
	uint64_t buffer_offset;
	size_t buffer_size;
	struct WEIR_LIST(char) name, long_name;
	bool is_ended;
};

void tar_input_init(struct tar_input *input, struct weir_account *account);
/* `offset`: of an entry, in plain files; else 0. */
int tar_input_open(struct tar_input *input, struct weir_io *io, struct weir_file *file, uint64_t offset,
		   const struct weir_stream_options *options, struct weir_error *err);
void tar_input_close(struct tar_input *input);
void tar_input_release(struct tar_input *input); /* twice is fine */
/* The next entry, whatever it is; what is left of the one before is passed over. *found false at the end. Errors have
 * the byte. */
int tar_next(struct tar_input *input, struct tar_entry *out, bool *found, struct weir_error *err);
/* The bytes of the entry that is out, in memory of the arena. What it says to be its size is believed as far as bytes
 * come. */
int tar_read(struct tar_input *input, struct weir_arena *arena, const uint8_t **bytes, uint64_t *size,
	     struct weir_error *err);

/* A member of a sample: its key is name[0, key_size), its column what is behind the point there. */
struct web_member {
	struct tar_entry entry;
	size_t key_size;
	const char *suffix;
	size_t suffix_size;
};
/* Passes over what belongs to no sample. */
int web_next(struct tar_input *input, struct web_member *out, bool *found, struct weir_error *err);

/* ── file.c ── */

struct web_options {
	struct weir_stream_options stream;
};
const struct web_options *web_options_of(const struct weir_read_setup *setup);

struct web_mark {
	uint64_t row, offset;
};

struct web_file {
	struct weir_format_file base;
	struct weir_account *account;
	const struct weir_read_setup *setup;
	const struct web_options *options;
	bool is_plain;
	struct WEIR_LIST(struct web_mark) marks; /* plain: where some samples begin, one a megabyte or so */
};

/* The keys of samples that have ended, as hashes: one that comes again is an error. */
struct web_keys {
	struct weir_account *account;
	uint64_t *table; /* 0: empty */
	uint64_t size, count;
};
int web_keys_add(struct web_keys *keys, const char *key, size_t size, struct weir_error *err);
void web_keys_release(struct web_keys *keys);

/* ── infer.c ── */

#define WEB_KEY "__key__"
#define WEB_URL "__url__"

int web_infer(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *const *files,
	      uint32_t count, struct weir_schema **out, struct weir_error *err);
const struct weir_type *web_widen(struct weir_account *account, const struct weir_type *a, const struct weir_type *b,
				  struct weir_error *err);

/* ── reader.c ── */

int web_reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		   struct weir_error *err);
int web_reader_open(struct weir_format_reader *base, struct weir_format_file *file, const struct weir_scan *scan,
		    const struct weir_range *range, struct weir_error *err);
int web_reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err);
void web_reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out);
void web_reader_free(struct weir_format_reader *base);

#endif
