/* text_input: what text formats have in common on their way in: a window over a stream that holds whole records, which
 * parts of files are looked at to infer types, and the counting of lines.
 *
 *     text ─▶ ┌─────┬──────────────────────────┬────────────────────┬─────┐
 *             │ pad │ read by the caller       │ unread             │ pad │
 *             └─────┴──────────────────────────┴────────────────────┴─────┘
 *                   0                          begin                end
 *
 *     init ─▶ (open ─▶ fill … ─▶ close)… ─▶ release
 *
 * `fill` moves the unread text to the front and reads more behind it, so pointers into the text live until the next
 * fill. A record that does not fit makes the window grow; it asks the account for that as any allocation does.
 * WEIR_TEXT_PAD bytes before and behind may be read, whatever they hold: kernels load past both ends.
 *
 * Threads: an input belongs to one lane.
 */
#ifndef WEIR_FORMAT_TEXT_INPUT_H
#define WEIR_FORMAT_TEXT_INPUT_H

#include "io/stream.h"

#define WEIR_TEXT_PAD 64u

struct weir_text_input {
	struct weir_account *account;
	struct weir_stream *stream;
	uint8_t *memory;
	size_t memory_size;
	uint8_t *text; /* memory + WEIR_TEXT_PAD; NULL before the first fill */
	size_t begin, end;
	uint64_t offset; /* where in the stream text[0] lies */
	bool at_end;     /* nothing follows text[end] */
};

void weir_text_input_init(struct weir_text_input *input, struct weir_account *account);
/* Memory of an earlier stream is kept and used again. `offset` as in weir_stream_open. */
int weir_text_input_open(struct weir_text_input *input, struct weir_io *io, struct weir_file *file, uint64_t offset,
			 const struct weir_stream_options *options, struct weir_error *err);
/* At least `unread` bytes lie in [begin, end) afterwards, or everything up to the stream's end does. */
int weir_text_input_fill(struct weir_text_input *input, size_t unread, struct weir_error *err);
/* Gives memory back that a long record took, when what is unread fits `size`. Never fails: then it is kept. */
void weir_text_input_shrink(struct weir_text_input *input, size_t size);
void weir_text_input_close(struct weir_text_input *input);
void weir_text_input_release(struct weir_text_input *input); /* twice is fine */

/* Where unread text lies in the stream. */
static inline uint64_t weir_text_input_offset(const struct weir_text_input *input)
{
	return input->offset + input->begin;
}

/* The window could not grow for a record of `size` bytes (more, unless `whole`): says so in the message, or, when the
 * run ends over it, in the value, from where the run's own error takes it. */
void weir_text_too_long(struct weir_error *err, uint64_t size, bool whole);

/* Line ends: LF, CR LF and CR without LF. A CR at the very end counts. */
uint64_t weir_text_line_ends(const void *text, size_t size);

/* Which parts of files types are inferred from: the head of WEIR_SAMPLE_FILES files spread over all of them, and of
 * large plain files the middle and the tail too. */
enum { WEIR_SAMPLE_FILES = 16, WEIR_SAMPLES_MAX = 3 };

struct weir_text_sample {
	uint64_t begin, size; /* begin > 0 lies anywhere, also inside a record */
};

/* The i-th file to look at; i < weir_sample_file_count(count). */
uint32_t weir_sample_file_count(uint32_t file_count);
uint32_t weir_sample_file(uint32_t i, uint32_t file_count);
/* Returns how many. `size` is the stream's when it is plain; other streams give their head. */
uint32_t weir_text_samples(uint64_t size, bool is_plain, uint32_t file_count,
			   struct weir_text_sample out[WEIR_SAMPLES_MAX]);

#endif
