/* tar: ustar, with the long names of pax and of GNU.
 *
 *     ┌────────┬──────────────┬────────┬──────────────┬───┬────────┬────────┐
 *     │ header │ bytes, padded│ header │ bytes, padded│ … │ zeroes │ zeroes │     blocks of 512
 *     └────────┴──────────────┴────────┴──────────────┴───┴────────┴────────┘
 *
 *     header:  0 name[100]  124 size[12]  148 checksum[8]  156 kind  257 "ustar"  345 prefix[155]
 *
 * Numbers are octal, or, with the top bit set, big endian. An entry of kind x (pax) or L (GNU) holds the name, and x
 * perhaps the size, of the one behind it. A plain file is read where it is wanted: bytes that nobody wants are stepped
 * over. A checksum that is wrong ends the reading with an error; sparse files are refused.
 */
#include "base/checked.h"
#include "base/utf8.h"
#include "format/webdataset/webdataset_impl.h"

#include <string.h>

enum {
	SCRATCH = 64 << 10,
	READ_FIRST = 1 << 20, /* of a stream, at once; then twice what came */
};
#define VALUE_MAX ((uint64_t)INT32_MAX)

void tar_input_init(struct tar_input *input, struct weir_account *account)
{
	*input = (struct tar_input){.account = account, .is_ended = true};
}

void tar_input_close(struct tar_input *input)
{
	weir_stream_close(input->stream);
	weir_file_unref(input->file);
	input->stream = NULL;
	input->file = NULL;
	input->is_ended = true;
}

void tar_input_release(struct tar_input *input)
{
	tar_input_close(input);
	weir_free(input->account, input->buffer, TAR_BUFFER);
	weir_list_release(&input->name, input->account);
	weir_list_release(&input->long_name, input->account);
	input->buffer = NULL;
}

int tar_input_open(struct tar_input *input, struct weir_io *io, struct weir_file *file, uint64_t offset,
		   const struct weir_stream_options *options, struct weir_error *err)
{
	tar_input_close(input);
	input->position = offset;
	input->entry_left = input->entry_padding = 0;
	input->buffer_size = 0;
	input->size = weir_file_size(file);
	if (!weir_stream_is_plain(file, options)) {
		if (weir_stream_open(input->account, io, file, 0, options, &input->stream, err))
			return err->code;
	} else if (!input->buffer) {
		input->buffer = weir_alloc(input->account, TAR_BUFFER, err);
		if (!input->buffer)
			return err->code;
	}
	input->file = weir_file_ref(file);
	input->is_ended = false;
	return WEIR_OK;
}

/* ---- bytes ---- */

static int fail(const struct tar_input *input, uint64_t offset, const char *what, struct weir_error *err)
{
	weir_error_set(err, WEIR_E_DATA, "%s", what);
	weir_error_at_source(err, weir_file_path(input->file));
	weir_error_at_offset(err, offset);
	return err->code;
}

static int plain_read(struct tar_input *input, uint8_t *out, uint64_t size, struct weir_error *err)
{
	while (size) {
		uint64_t skip = input->position - input->buffer_offset, take;

		if (size >= TAR_BUFFER)
			return weir_file_read(input->file, input->position, out, (size_t)size, err)
				       ? err->code
				       : (input->position += size, WEIR_OK);
		if (!input->buffer_size || input->position < input->buffer_offset || skip >= input->buffer_size) {
			uint64_t left = input->size - input->position;

			input->buffer_size = 0;
			input->buffer_offset = input->position;
			skip = 0;
			take = left < TAR_BUFFER ? left : TAR_BUFFER;
			if (weir_file_read(input->file, input->position, input->buffer, (size_t)take, err))
				return err->code;
			input->buffer_size = (size_t)take;
		}
		take = input->buffer_size - skip < size ? input->buffer_size - skip : size;
		memcpy(out, input->buffer + skip, (size_t)take);
		out += take;
		size -= take;
		input->position += take;
	}
	return WEIR_OK;
}

/* So many bytes, or, with *got less than `size`, the end. */
static int read_some(struct tar_input *input, void *out, uint64_t size, uint64_t *got, struct weir_error *err)
{
	*got = 0;
	if (!input->stream) {
		uint64_t left = input->size - input->position;

		*got = left < size ? left : size;
		return plain_read(input, out, *got, err);
	}
	while (*got < size) {
		size_t came = 0;

		if (weir_stream_read(input->stream, (uint8_t *)out + *got, (size_t)(size - *got), &came, err))
			return err->code;
		if (came == 0)
			break;
		*got += came;
		input->position += came;
	}
	return WEIR_OK;
}

/* *ended: the file ends before. */
static int skip(struct tar_input *input, uint64_t size, bool *ended, struct weir_error *err)
{
	uint8_t scratch[4096];

	*ended = false;
	if (!input->stream) {
		*ended = size > input->size - input->position;
		input->position = *ended ? input->size : input->position + size;
		return WEIR_OK;
	}
	while (size && !*ended) {
		uint64_t got, want = size < sizeof(scratch) ? size : sizeof(scratch);

		if (read_some(input, scratch, want, &got, err))
			return err->code;
		size -= got;
		*ended = got < want;
	}
	return WEIR_OK;
}

/* ---- headers ---- */

static bool number_read(const uint8_t *field, size_t size, uint64_t *out)
{
	size_t at = 0;

	*out = 0;
	if (field[0] & 0x80) {
		/* 80 …: big endian; ff …: negative, which no size is. */
		if (field[0] != 0x80)
			return false;
		for (at = 1; at < size; at++) {
			if (*out >> 56)
				return false;
			*out = *out << 8 | field[at];
		}
		return *out <= INT64_MAX;
	}
	while (at < size && field[at] == ' ')
		at++;
	for (; at < size && field[at] >= '0' && field[at] <= '7'; at++) {
		if (*out >> 60)
			return false;
		*out = *out << 3 | (uint64_t)(field[at] - '0');
	}
	for (; at < size; at++)
		if (field[at] != ' ' && field[at] != 0)
			return false;
	return true;
}

/* Some writers have summed bytes with a sign. */
static bool checksum_agrees(const uint8_t *header)
{
	int64_t sum = 0, sum_signed = 0;
	uint64_t noted;

	for (size_t i = 0; i < TAR_BLOCK; i++) {
		uint8_t byte = i >= 148 && i < 156 ? ' ' : header[i];

		sum += byte;
		sum_signed += (int8_t)byte;
	}
	return number_read(header + 148, 8, &noted) && ((int64_t)noted == sum || (int64_t)noted == sum_signed);
}

static size_t text_size(const uint8_t *field, size_t max)
{
	const uint8_t *end = memchr(field, 0, max);

	return end ? (size_t)(end - field) : max;
}

static int name_set(struct tar_input *input, const void *bytes, size_t size, struct weir_error *err)
{
	input->name.count = 0;
	if (weir_list_reserve(&input->name, input->account, err, size + 1))
		return err->code;
	if (size)
		memcpy(input->name.items, bytes, size);
	input->name.items[size] = 0;
	input->name.count = size;
	return WEIR_OK;
}

static int name_of_header(struct tar_input *input, const uint8_t *header, struct weir_error *err)
{
	uint8_t joined[100 + 155 + 1];
	size_t prefix = memcmp(header + 257, "ustar\0", 6) == 0 ? text_size(header + 345, 155) : 0,
	       name = text_size(header, 100);

	memcpy(joined, header + 345, prefix);
	if (prefix)
		joined[prefix++] = '/';
	memcpy(joined + prefix, header, name);
	return name_set(input, joined, prefix + name, err);
}

/* The bytes of an entry that describes the next one. */
static int extra_read(struct tar_input *input, uint64_t offset, uint64_t size, struct weir_error *err)
{
	uint64_t got, padding = (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;
	bool ended;

	if (size > TAR_NAME_MAX)
		return fail(input, offset, "an entry that names the next one has more than 64 KiB", err);
	input->long_name.count = 0;
	if (weir_list_reserve(&input->long_name, input->account, err, (size_t)size + 1) ||
	    read_some(input, input->long_name.items, size, &got, err) || skip(input, padding, &ended, err))
		return err->code;
	if (got < size || ended)
		return fail(input, offset, "the file ends inside of an entry; it may be cut off", err);
	input->long_name.count = (size_t)size;
	input->long_name.items[size] = 0;
	return WEIR_OK;
}

/* "27 path=a/very/long/name\n" … of pax. */
static int pax_read(struct tar_input *input, uint64_t offset, bool *has_name, bool *has_size, uint64_t *size,
		    struct weir_error *err)
{
	const char *text = input->long_name.items;
	size_t left = input->long_name.count;

	while (left && text[0]) {
		size_t length = 0, digits = 0;
		const char *key, *equals;

		while (digits < left && digits < 6 && text[digits] >= '0' && text[digits] <= '9')
			length = length * 10 + (size_t)(text[digits++] - '0');
		if (!digits || digits >= left || text[digits] != ' ' || length > left || length < digits + 3 ||
		    text[length - 1] != '\n')
			return fail(input, offset, "a pax header has a record that is none", err);
		key = text + digits + 1;
		equals = memchr(key, '=', length - digits - 2);
		if (!equals)
			return fail(input, offset, "a pax header has a record without '='", err);
		if (equals - key >= 10 && memcmp(key, "GNU.sparse", 10) == 0)
			return weir_error_set(err, WEIR_E_UNSUPPORTED,
					      "the tar file has a sparse member, which weir does not read");
		if (equals - key == 4 && memcmp(key, "path", 4) == 0) {
			size_t name = (size_t)(text + length - 1 - (equals + 1));

			if (memchr(equals + 1, 0, name))
				return fail(input, offset, "the name of a member holds a zero", err);
			if (name_set(input, equals + 1, name, err))
				return err->code;
			*has_name = true;
		} else if (equals - key == 4 && memcmp(key, "size", 4) == 0) {
			*size = 0;
			for (const char *at = equals + 1; at < text + length - 1; at++) {
				if (*at < '0' || *at > '9' || *size > (uint64_t)INT64_MAX / 10 - 1)
					return fail(input, offset, "a pax header has a size that is none", err);
				*size = *size * 10 + (uint64_t)(*at - '0');
			}
			*has_size = true;
		}
		text += length;
		left -= length;
	}
	return WEIR_OK;
}

static bool is_zero(const uint8_t *block)
{
	for (size_t i = 0; i < TAR_BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

/* Whether bytes of its own follow its header: what is no kind that is known has some. */
static bool has_bytes(uint8_t kind)
{
	return kind < '1' || kind > '6';
}

/* What is left of the entry at hand. */
static int entry_pass(struct tar_input *input, struct weir_error *err)
{
	uint64_t offset = input->position;
	bool ended;

	if (!input->entry_left && !input->entry_padding)
		return WEIR_OK;
	if (skip(input, input->entry_left, &ended, err))
		return err->code;
	if (ended)
		return fail(input, offset, "the file ends inside of a member; it may be cut off", err);
	/* The last padding may be missing. */
	if (skip(input, input->entry_padding, &ended, err))
		return err->code;
	input->entry_left = input->entry_padding = 0;
	return WEIR_OK;
}

/* The next header, and the size that it has; is_ended: there is none. `is_first` of its entry: others follow what they
 * belong to. */
static int header_read(struct tar_input *input, bool is_first, uint8_t *header, uint64_t *size, struct weir_error *err)
{
	uint64_t offset = input->position, got;

	if (read_some(input, header, TAR_BLOCK, &got, err))
		return err->code;
	if (got == 0 && is_first && offset) {
		input->is_ended = true;
		return WEIR_OK;
	}
	if (got < TAR_BLOCK)
		return fail(input, offset,
			    offset ? "the file ends inside of a header; it may be cut off" : "this is no tar file",
			    err);
	if (is_zero(header) && is_first) {
		input->is_ended = true;
		return WEIR_OK;
	}
	if (!checksum_agrees(header) || !number_read(header + 124, 12, size))
		return fail(
			input, offset,
			offset ? "the checksum of a header is wrong: the file is damaged"
			       : "this is no tar file, or a damaged one: the checksum of the first header is wrong (compressed files are told "
				 "by their names, or by --compression)",
			err);
	return WEIR_OK;
}

int tar_next(struct tar_input *input, struct tar_entry *out, bool *found, struct weir_error *err)
{
	uint8_t header[TAR_BLOCK];
	uint64_t first = 0, size = 0, pax_size = 0;
	bool has_name = false, has_size = false, is_first = true;

	*found = false;
	if (input->is_ended)
		return WEIR_OK;
	if (entry_pass(input, err))
		return err->code;
	for (;; is_first = false) {
		uint64_t offset = input->position;

		if (is_first)
			first = offset;
		if (header_read(input, is_first, header, &size, err))
			return err->code;
		if (input->is_ended)
			return WEIR_OK;
		switch (header[156]) {
		case 'x':
		case 'X':
			if (extra_read(input, offset, size, err) ||
			    pax_read(input, offset, &has_name, &has_size, &pax_size, err))
				return err->code;
			continue;
		case 'L':
			if (extra_read(input, offset, size, err) ||
			    name_set(input, input->long_name.items,
				     text_size((const uint8_t *)input->long_name.items, input->long_name.count), err))
				return err->code;
			has_name = true;
			continue;
		case 'g': /* of all that follow: no name, no size */
		case 'K': /* where a link leads */
			if (extra_read(input, offset, size, err))
				return err->code;
			continue;
		case 'S':
			weir_error_set(err, WEIR_E_UNSUPPORTED,
				       "the tar file has a sparse member, which weir does not read");
			weir_error_at_source(err, weir_file_path(input->file));
			weir_error_at_offset(err, offset);
			return err->code;
		default:
			break;
		}
		break;
	}
	if (!has_name && name_of_header(input, header, err))
		return err->code;
	if (has_size)
		size = pax_size;
	*out = (struct tar_entry){
		.offset = first, .size = size, .name = input->name.items, .name_size = input->name.count};
	out->is_file = (header[156] == '0' || header[156] == 0 || header[156] == '7') &&
		       !(header[156] == 0 && out->name_size && out->name[out->name_size - 1] == '/');
	if (!has_bytes(header[156]))
		out->size = size = 0;
	if (!input->stream && size > input->size - input->position) {
		weir_error_set(
			err, WEIR_E_DATA,
			"the member '%.200s' says that it has %llu bytes, and the file has %llu more; it may be cut off",
			out->name, (unsigned long long)size, (unsigned long long)(input->size - input->position));
		weir_error_at_source(err, weir_file_path(input->file));
		weir_error_at_offset(err, first);
		return err->code;
	}
	input->entry_left = size;
	input->entry_padding = (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;
	*found = true;
	return WEIR_OK;
}

int tar_read(struct tar_input *input, struct weir_arena *arena, const uint8_t **bytes, uint64_t *size,
	     struct weir_error *err)
{
	uint64_t wanted = input->entry_left, room = wanted, used = 0, got;
	uint64_t begin = input->position;
	uint8_t *memory = NULL, *grown;

	if (wanted > VALUE_MAX) {
		weir_error_set(err, WEIR_E_UNSUPPORTED,
			       "the member '%.200s' has more than 2 GiB, more than a value may have",
			       input->name.items);
		weir_error_at_source(err, weir_file_path(input->file));
		weir_error_at_offset(err, begin);
		return err->code;
	}
	if (input->stream && room > READ_FIRST)
		room = READ_FIRST;
	for (;;) {
		grown = weir_arena_alloc(arena, (size_t)room + 1, err);
		if (!grown)
			return err->code;
		if (used)
			memcpy(grown, memory, (size_t)used);
		memory = grown;
		if (read_some(input, memory + used, room - used, &got, err))
			return err->code;
		used += got;
		if (used < room)
			return fail(input, begin, "the file ends inside of a member; it may be cut off", err);
		if (used == wanted)
			break;
		room = wanted - room < room ? wanted : room * 2;
	}
	input->entry_left = 0;
	*bytes = memory;
	*size = used;
	return WEIR_OK;
}

/* ---- samples ---- */

/* The key ends at the first point of the name's last part, unless that part begins with it: then the folder is the key,
 * if its own name has no point. So WebDataset's readers have it. */
static bool split_name(const char *name, size_t size, size_t *key_size)
{
	size_t last = size, folder;
	const char *point;

	while (last && name[last - 1] != '/')
		last--;
	point = memchr(name + last, '.', size - last);
	if (!point)
		return false;
	*key_size = (size_t)(point - name);
	if (*key_size > last)
		return true;
	if (last == 0)
		return false;
	folder = last - 1;
	while (folder && name[folder - 1] != '/')
		folder--;
	return !memchr(name + folder, '.', last - folder);
}

int web_next(struct tar_input *input, struct web_member *out, bool *found, struct weir_error *err)
{
	for (;;) {
		struct tar_entry *entry = &out->entry;

		if (tar_next(input, entry, found, err))
			return err->code;
		if (!*found)
			return WEIR_OK;
		if (!entry->is_file || !split_name(entry->name, entry->name_size, &out->key_size))
			continue;
		if (!weir_utf8_valid((const uint8_t *)entry->name, entry->name_size))
			return fail(input, entry->offset, "the name of a member is not UTF-8", err);
		out->suffix = entry->name + out->key_size + 1;
		out->suffix_size = entry->name_size - out->key_size - 1;
		return WEIR_OK;
	}
}
