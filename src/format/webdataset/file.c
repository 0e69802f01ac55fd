/* An opened shard. The headers of a plain one are read when it is opened, one after another, without what lies between:
 * so its samples are counted, and ranges are samples. Of others (compressed, pipes) nothing is known, and one range is
 * all of it. */
#include "base/hash.h"
#include "format/webdataset/webdataset_impl.h"

#include <string.h>

enum { MARK_BYTES = 1 << 20 };

static const struct web_options options_default = {.stream = {.encoding = WEIR_ENCODING_BYTES}};

const struct web_options *web_options_of(const struct weir_read_setup *setup)
{
	return setup && setup->options ? setup->options : &options_default;
}

static const char *const option_names[] = {"compression=", NULL};

static int options_parse(struct weir_arena *arena, const struct weir_setting *settings, uint32_t count,
			 const void **out, struct weir_error *err)
{
	struct web_options *options = weir_arena_alloc(arena, sizeof(*options), err);
	int code = options ? WEIR_OK : err->code;

	if (options)
		*options = options_default;
	for (uint32_t i = 0; !code && i < count; i++)
		code = weir_compression_parse(settings[i].value, &options->stream.compression, err);
	*out = options;
	return code;
}

/* ---- keys ---- */

static void keys_put(struct web_keys *keys, uint64_t hash)
{
	uint64_t at = hash & (keys->size - 1);

	while (keys->table[at])
		at = (at + 1) & (keys->size - 1);
	keys->table[at] = hash;
}

int web_keys_add(struct web_keys *keys, const char *key, size_t size, struct weir_error *err)
{
	uint64_t hash = weir_hash_bytes(key, size, 0) | 1;

	if (keys->count >= keys->size / 2) {
		struct web_keys larger = {
			.account = keys->account, .size = keys->size ? keys->size * 2 : 256, .count = keys->count};

		larger.table = weir_alloc_zero(keys->account, larger.size * sizeof(*larger.table), err);
		if (!larger.table)
			return err->code;
		for (uint64_t i = 0; i < keys->size; i++)
			if (keys->table[i])
				keys_put(&larger, keys->table[i]);
		web_keys_release(keys);
		*keys = larger;
	}
	for (uint64_t at = hash & (keys->size - 1); keys->table[at]; at = (at + 1) & (keys->size - 1))
		if (keys->table[at] == hash)
			return weir_error_set(
				err, WEIR_E_VALUE,
				"WebDataset tar entries for key '%.*s' are not contiguous in the archive: members of one sample must follow each "
				"other; make the archive anew with sorted names (tar --sort=name)",
				(int)(size < 200 ? size : 200), key);
	keys_put(keys, hash);
	keys->count++;
	return WEIR_OK;
}

void web_keys_release(struct web_keys *keys)
{
	if (keys->table)
		weir_free(keys->account, keys->table, keys->size * sizeof(*keys->table));
	*keys = (struct web_keys){.account = keys->account};
}

/* ---- the file ---- */

static void file_close(struct weir_format_file *base)
{
	struct web_file *self = (struct web_file *)base;

	weir_list_release(&self->marks, self->account);
	weir_schema_unref(base->schema);
	weir_file_unref(base->file);
	weir_free(self->account, self, sizeof(*self));
}

/* Where the samples of a plain file are. */
static int look(struct web_file *self, struct weir_io *io, struct weir_error *err)
{
	struct web_keys keys = {.account = self->account};
	struct WEIR_LIST(char) key = {0};
	struct web_member member;
	struct tar_input input;
	uint64_t rows = 0;
	bool found = true;
	int code;

	tar_input_init(&input, self->account);
	code = tar_input_open(&input, io, self->base.file, 0, &self->options->stream, err);
	while (!code && found) {
		code = web_next(&input, &member, &found, err);
		if (code || !found)
			break;
		if (rows && key.count == member.key_size && memcmp(key.items, member.entry.name, key.count) == 0)
			continue;
		code = web_keys_add(&keys, member.entry.name, member.key_size, err);
		if (code)
			weir_error_at_offset(err, member.entry.offset);
		if (!code && (!self->marks.count ||
			      member.entry.offset - self->marks.items[self->marks.count - 1].offset >= MARK_BYTES))
			code = weir_list_push(&self->marks, self->account, err,
					      (struct web_mark){.row = rows, .offset = member.entry.offset});
		if (!code)
			code = weir_list_reserve(&key, self->account, err, member.key_size + 1);
		if (!code) {
			memcpy(key.items, member.entry.name, member.key_size);
			key.count = member.key_size;
			rows++;
		}
	}
	self->base.row_count = (int64_t)rows;
	weir_list_release(&key, self->account);
	web_keys_release(&keys);
	tar_input_release(&input);
	return code;
}

static int file_open(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *file,
		     struct weir_format_file **out, struct weir_error *err)
{
	struct web_file *self = weir_alloc_zero(account, sizeof(*self), err);
	int code = WEIR_OK;

	*out = NULL;
	if (!self)
		return err->code;
	WEIR_ASSERT(setup->schema);
	self->account = account;
	self->setup = setup;
	self->options = web_options_of(setup);
	self->is_plain = weir_stream_is_plain(file, &self->options->stream);
	self->base = (struct weir_format_file){
		.ops = &weir_webdataset_format, .file = weir_file_ref(file), .row_count = -1};
	atomic_init(&self->base.refs, 1);
	self->base.schema = weir_schema_ref(setup->schema);
	self->base.bytes_decoded_est = weir_file_size(file);
	if (self->is_plain)
		code = look(self, setup->io, err);
	if (code) {
		weir_error_at_source(err, weir_file_path(file));
		file_close(&self->base);
		return code;
	}
	*out = &self->base;
	return WEIR_OK;
}

static int file_ranges(struct weir_format_file *base, const struct weir_scan *scan, uint64_t bytes_target,
		       int (*visit)(void *context, const struct weir_range *range), void *context,
		       struct weir_error *err)
{
	struct web_file *self = (struct web_file *)base;
	struct weir_range range = {.bytes_decoded_est = weir_file_size(base->file), .end = UINT64_MAX};
	uint64_t begin_offset = 0;
	int code = WEIR_OK;

	(void)scan;
	(void)err;
	if (!self->is_plain)
		return visit(context, &range);
	for (size_t i = 1; !code && bytes_target && i < self->marks.count; i++) {
		const struct web_mark *mark = &self->marks.items[i];

		if (mark->offset - begin_offset < bytes_target)
			continue;
		range.end = mark->row;
		range.bytes_decoded_est = mark->offset - begin_offset;
		code = visit(context, &range);
		begin_offset = mark->offset;
		range.begin = mark->row;
		range.number++;
	}
	range.end = (uint64_t)base->row_count;
	range.bytes_decoded_est = weir_file_size(base->file) - begin_offset;
	return code || range.begin == range.end ? code : visit(context, &range);
}

static const char *const extensions[] = {".tar", NULL};

const struct weir_format_ops weir_webdataset_format = {
	.name = "webdataset",
	.extensions = extensions,
	.option_names = option_names,
	.options_parse = options_parse,
	.infer = web_infer,
	.widen = web_widen,
	.open = file_open,
	.close = file_close,
	.ranges = file_ranges,
	.reader_new = web_reader_new,
	.reader_open = web_reader_open,
	.reader_next = web_reader_next,
	.reader_stats = web_reader_stats,
	.reader_free = web_reader_free,
};
