/* A chunk is gathered whole, for its checksum is of all of it, then given out as there is room. */
#include "io/snappy_frames.h"

#include "base/hash.h"
#include "io/snappy.h"

#include <string.h>

enum {
	HEAD_BYTES = 4, /* the kind, and the size of what follows in 24 bits */
	CRC_BYTES = 4,
	PLAIN_MAX = 1 << 16,
	BODY_MAX = CRC_BYTES + 32 + PLAIN_MAX + PLAIN_MAX / 6, /* the most that PLAIN_MAX bytes are compressed to */
	KIND_SNAPPY = 0x00,
	KIND_PLAIN = 0x01,
	KIND_SKIPPED = 0x80, /* and above */
	KIND_FIRST = 0xff,
};
static const char mark[] = "sNaPpY";
enum { MARK_BYTES = sizeof(mark) - 1 };

struct weir_snappy_frames {
	struct weir_account *account;
	bool is_begun; /* the first chunk was seen */
	uint32_t head_size, body_size, plain_at, plain_size;
	uint8_t head[HEAD_BYTES];
	uint8_t body[BODY_MAX];
	uint8_t plain[PLAIN_MAX];
};

int weir_snappy_frames_new(struct weir_account *account, struct weir_snappy_frames **out, struct weir_error *err)
{
	*out = weir_alloc_zero(account, sizeof(**out), err);
	if (!*out)
		return err->code;
	(*out)->account = account;
	return WEIR_OK;
}

void weir_snappy_frames_free(struct weir_snappy_frames *frames)
{
	if (frames)
		weir_free(frames->account, frames, sizeof(*frames));
}

static uint32_t size_of(const struct weir_snappy_frames *frames)
{
	return frames->head[1] | (uint32_t)frames->head[2] << 8 | (uint32_t)frames->head[3] << 16;
}

static const char *check_head(const struct weir_snappy_frames *frames)
{
	uint8_t kind = frames->head[0];
	uint32_t size = size_of(frames);

	if (!frames->is_begun && kind != KIND_FIRST)
		return "it does not begin as a Snappy stream does";
	if (kind > KIND_PLAIN && kind < KIND_SKIPPED)
		return "it has a chunk of an unknown kind";
	if (kind == KIND_FIRST && size != MARK_BYTES)
		return "it does not begin as a Snappy stream does";
	if (kind <= KIND_PLAIN && (size < CRC_BYTES || size > (kind == KIND_PLAIN ? CRC_BYTES + PLAIN_MAX : BODY_MAX)))
		return "a chunk has a size that none may have";
	return NULL;
}

/* As the format wants it: checksums of data that holds checksums are none by themselves. */
static uint32_t masked(uint32_t crc)
{
	return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static const char *open_body(struct weir_snappy_frames *frames)
{
	const uint8_t *data = frames->body + CRC_BYTES;
	size_t size = frames->body_size - CRC_BYTES;
	uint64_t plain = size;
	uint32_t crc;

	if (frames->head[0] == KIND_FIRST) {
		frames->is_begun = true;
		return memcmp(frames->body, mark, MARK_BYTES) ? "it does not begin as a Snappy stream does" : NULL;
	}
	if (frames->head[0] == KIND_PLAIN) {
		memcpy(frames->plain, data, size);
	} else if (!weir_snappy_size(data, size, &plain) || plain > PLAIN_MAX ||
		   !weir_snappy_inflate(data, size, frames->plain, (size_t)plain)) {
		return "it is damaged";
	}
	crc = frames->body[0] | (uint32_t)frames->body[1] << 8 | (uint32_t)frames->body[2] << 16 |
	      (uint32_t)frames->body[3] << 24;
	if (masked(weir_crc32c(0, frames->plain, (size_t)plain)) != crc)
		return "the checksum of a chunk is wrong";
	frames->plain_size = (uint32_t)plain;
	return NULL;
}

/* Up to `want` bytes in all, of what there is. */
static void gather(uint8_t *to, uint32_t *have, uint32_t want, const uint8_t *in, size_t size_in, size_t *used)
{
	size_t count = want - *have, left = size_in - *used;

	count = count < left ? count : left;
	if (to && count)
		memcpy(to + *have, in + *used, count);
	*have += (uint32_t)count;
	*used += count;
}

const char *weir_snappy_frames_run(struct weir_snappy_frames *frames, const uint8_t *in, size_t size_in, size_t *used,
				   uint8_t *out, size_t size_out, size_t *made, bool *ended)
{
	const char *wrong = NULL;
	bool is_skipped;

	*used = *made = 0;
	*ended = false;
	if (frames->head_size < HEAD_BYTES) {
		gather(frames->head, &frames->head_size, HEAD_BYTES, in, size_in, used);
		if (frames->head_size < HEAD_BYTES)
			return NULL;
		wrong = check_head(frames);
	}
	is_skipped = frames->head[0] >= KIND_SKIPPED && frames->head[0] != KIND_FIRST;
	if (!wrong && frames->body_size < size_of(frames)) {
		gather(is_skipped ? NULL : frames->body, &frames->body_size, size_of(frames), in, size_in, used);
		if (frames->body_size < size_of(frames))
			return NULL;
		if (!is_skipped)
			wrong = open_body(frames);
	}
	if (wrong)
		return wrong;
	*made = frames->plain_size - frames->plain_at;
	*made = *made < size_out ? *made : size_out;
	if (*made)
		memcpy(out, frames->plain + frames->plain_at, *made);
	frames->plain_at += (uint32_t)*made;
	if (frames->plain_at == frames->plain_size) {
		*ended = true;
		frames->head_size = frames->body_size = frames->plain_at = frames->plain_size = 0;
	}
	return NULL;
}
