/* Records in their frames, all numbers little endian:
 *
 *     ┌──────────────┬───────────────────┬──────────────┬───────────────────┐
 *     │ length       │ checksum of the   │ record       │ checksum of the   │
 *     │ 8 bytes      │ length, 4 bytes   │ length bytes │ record, 4 bytes   │
 *     └──────────────┴───────────────────┴──────────────┴───────────────────┘
 *
 * A checksum is CRC32C, turned by 15 bits with a constant added. So of twelve bytes anybody can tell whether a record
 * begins there, by chance wrongly once in four thousand million places: that is what makes one file readable by many
 * lanes.
 */
#include "base/hash.h"
#include "format/tfrecord/tfrecord_impl.h"

#include <stdio.h>
#include <string.h>

enum {
	WINDOW_BYTES = 1 << 20,
	GUESS_BYTES = 256 << 10,
};

uint32_t tf_checksum(const void *bytes, size_t size)
{
	uint32_t crc = weir_crc32c(0, bytes, size);

	return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

bool tf_head_read(const uint8_t *bytes, uint64_t *size)
{
	uint32_t checksum;

	memcpy(size, bytes, 8);
	memcpy(&checksum, bytes + 8, 4);
	return checksum == tf_checksum(bytes, 8);
}

static int fail(const struct weir_text_input *input, struct weir_error *err)
{
	weir_error_at_offset(err, weir_text_input_offset(input));
	return err->code;
}

/* At least `wanted` bytes from input.begin on, or all that there are. */
static int fill(struct weir_text_input *input, uint64_t wanted, uint64_t record_size, struct weir_error *err)
{
	uint64_t size = WINDOW_BYTES;

	while (input->end - input->begin < wanted && !input->at_end) {
		size_t unread = input->end - input->begin;

		/* Twice what came: a length that is a lie costs no more than the file has. */
		if (size < wanted)
			size = wanted < (uint64_t)unread * 2 ? wanted : (uint64_t)unread * 2;
		if (size < WINDOW_BYTES)
			size = WINDOW_BYTES;
		if (weir_text_input_fill(input, (size_t)size, err)) {
			if (record_size > WINDOW_BYTES)
				weir_text_too_long(err, record_size, true);
			return fail(input, err);
		}
	}
	return WEIR_OK;
}

int tf_frame_next(struct weir_text_input *input, uint64_t file_size, bool may_fill, bool check, struct tf_frame *out,
		  bool *found, bool *more, struct weir_error *err)
{
	uint64_t size, left, offset = weir_text_input_offset(input);
	uint32_t checksum;

	*found = *more = false;
	if (input->end - input->begin < TF_HEAD_BYTES && !input->at_end) {
		*more = !may_fill;
		if (*more)
			return WEIR_OK;
		if (fill(input, TF_HEAD_BYTES, 0, err))
			return err->code;
	}
	if (input->end == input->begin)
		return WEIR_OK;
	if (input->end - input->begin < TF_HEAD_BYTES) {
		weir_error_set(err, WEIR_E_DATA, "the file ends %zu bytes into a record's length; it may be cut off",
			       input->end - input->begin);
		return fail(input, err);
	}
	if (!tf_head_read(input->text + input->begin, &size)) {
		weir_error_set(
			err, WEIR_E_DATA,
			offset ? "a record should begin here, and the checksum of its length is wrong: the file is damaged"
			       : "this is no TFRecord file, or a damaged one: the checksum of the first record's length is wrong "
				 "(compressed files are told by their names, or by --compression)");
		return fail(input, err);
	}
	left = file_size > offset + TF_HEAD_BYTES ? file_size - offset - TF_HEAD_BYTES : 0;
	if (file_size && (size > left || left - size < TF_TAIL_BYTES)) {
		weir_error_set(err, WEIR_E_DATA,
			       "the record says that it has %llu bytes, and the file has %llu more; it may be cut off",
			       (unsigned long long)size, (unsigned long long)left);
		return fail(input, err);
	}
	if (size > TF_RECORD_MAX) {
		weir_error_set(err, WEIR_E_UNSUPPORTED, "the record says that it has %llu bytes, more than 2 GiB",
			       (unsigned long long)size);
		return fail(input, err);
	}
	if (input->end - input->begin < TF_HEAD_BYTES + size + TF_TAIL_BYTES) {
		*more = !may_fill && !input->at_end;
		if (*more)
			return WEIR_OK;
		if (fill(input, TF_HEAD_BYTES + size + TF_TAIL_BYTES, size, err))
			return err->code;
		if (input->end - input->begin < TF_HEAD_BYTES + size + TF_TAIL_BYTES) {
			weir_error_set(
				err, WEIR_E_DATA,
				"the record says that it has %llu bytes, and the file ends %zu bytes behind its length; "
				"it may be cut off",
				(unsigned long long)size, input->end - input->begin - TF_HEAD_BYTES);
			return fail(input, err);
		}
	}
	*out = (struct tf_frame){.begin = input->begin + TF_HEAD_BYTES, .size = (uint32_t)size};
	memcpy(&checksum, input->text + out->begin + size, 4);
	if (check && checksum != tf_checksum(input->text + out->begin, (size_t)size)) {
		weir_error_set(err, WEIR_E_DATA, "the record's checksum is wrong: the file is damaged");
		return fail(input, err);
	}
	*found = true;
	return WEIR_OK;
}

int tf_frame_guess(struct weir_text_input *input, uint64_t file_size, uint64_t begin, uint64_t end, uint64_t *start,
		   struct weir_error *err)
{
	*start = UINT64_MAX;
	for (;;) {
		uint64_t offset = weir_text_input_offset(input), size;

		if (input->end - input->begin < TF_HEAD_BYTES) {
			if (input->at_end)
				return WEIR_OK;
			if (weir_text_input_fill(input, GUESS_BYTES, err))
				return err->code;
			continue;
		}
		if (offset >= end)
			return WEIR_OK;
		/* Most places do not begin with a length that the file could have. */
		memcpy(&size, input->text + input->begin, 8);
		if (offset >= begin && size <= file_size && tf_head_read(input->text + input->begin, &size) &&
		    size <= file_size - offset) {
			*start = offset;
			return WEIR_OK;
		}
		input->begin++;
	}
}

int64_t tf_frames_before(struct weir_file *file, uint64_t offset)
{
	int64_t count = 0;

	for (uint64_t at = 0; at != offset; count++) {
		struct weir_error ignored = {0};
		uint8_t head[TF_HEAD_BYTES];
		uint64_t size;

		if (at > offset || weir_file_size(file) - at < TF_HEAD_BYTES ||
		    weir_file_read(file, at, head, sizeof(head), &ignored) || !tf_head_read(head, &size) ||
		    size > weir_file_size(file) - at)
			return -1;
		at += TF_HEAD_BYTES + size + TF_TAIL_BYTES;
		if (at > weir_file_size(file))
			return -1;
	}
	return count;
}
