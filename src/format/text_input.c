#include "format/text_input.h"

#include "base/checked.h"

#include <stdio.h>
#include <string.h>

enum {
	SAMPLE_HEAD = 1 << 20,
	SAMPLE_OF_SOME = 128 << 10,
	SAMPLE_OF_MANY = 32 << 10,
	SAMPLE_LARGE = 8 << 20, /* files from here on are looked at in the middle and at the end too */
};

void weir_text_input_init(struct weir_text_input *input, struct weir_account *account)
{
	*input = (struct weir_text_input){.account = account};
}

void weir_text_input_close(struct weir_text_input *input)
{
	weir_stream_close(input->stream);
	input->stream = NULL;
	input->begin = input->end = 0;
	input->offset = 0;
	input->at_end = false;
}

void weir_text_input_release(struct weir_text_input *input)
{
	weir_text_input_close(input);
	weir_free(input->account, input->memory, input->memory_size);
	input->memory = input->text = NULL;
	input->memory_size = 0;
}

int weir_text_input_open(struct weir_text_input *input, struct weir_io *io, struct weir_file *file, uint64_t offset,
			 const struct weir_stream_options *options, struct weir_error *err)
{
	weir_text_input_close(input);
	if (weir_stream_open(input->account, io, file, offset, options, &input->stream, err))
		return err->code;
	input->offset = offset;
	return WEIR_OK;
}

static int reserve(struct weir_text_input *input, size_t unread, struct weir_error *err)
{
	size_t size;
	uint8_t *memory;

	if (weir_add_overflows(unread, 2 * (size_t)WEIR_TEXT_PAD, &size))
		return weir_error_set(err, WEIR_E_LIMIT, "a text of %zu bytes does not fit any memory", unread);
	if (size <= input->memory_size)
		return WEIR_OK;
	size = weir_alloc_size(size);
	memory = weir_alloc(input->account, size, err);
	if (!memory)
		return err->code;
	memset(memory, 0, WEIR_TEXT_PAD);
	if (input->end > input->begin)
		memcpy(memory + WEIR_TEXT_PAD, input->text + input->begin, input->end - input->begin);
	weir_free(input->account, input->memory, input->memory_size);
	input->offset += input->begin;
	input->end -= input->begin;
	input->begin = 0;
	input->memory = memory;
	input->memory_size = size;
	input->text = memory + WEIR_TEXT_PAD;
	return WEIR_OK;
}

void weir_text_input_shrink(struct weir_text_input *input, size_t size)
{
	struct weir_text_input smaller = *input;
	struct weir_error ignored = {0};

	if (input->memory_size <= weir_alloc_size(size + 2 * (size_t)WEIR_TEXT_PAD) || input->end - input->begin > size)
		return;
	/* Nothing is freed yet: the old memory is still read. */
	smaller.memory = NULL;
	smaller.memory_size = 0;
	if (reserve(&smaller, size, &ignored))
		return;
	weir_free(input->account, input->memory, input->memory_size);
	*input = smaller;
}

int weir_text_input_fill(struct weir_text_input *input, size_t unread, struct weir_error *err)
{
	if (input->end - input->begin >= unread || input->at_end)
		return WEIR_OK;
	if (reserve(input, unread, err))
		return err->code;
	if (input->begin > 0) {
		memmove(input->text, input->text + input->begin, input->end - input->begin);
		input->offset += input->begin;
		input->end -= input->begin;
		input->begin = 0;
	}
	while (input->end < unread && !input->at_end) {
		size_t got = 0;

		if (weir_stream_read(input->stream, input->text + input->end, unread - input->end, &got, err))
			return err->code;
		input->end += got;
		input->at_end = got == 0;
	}
	memset(input->text + input->end, 0, WEIR_TEXT_PAD);
	return WEIR_OK;
}

/* An account that has somebody to ask answers WEIR_E_CANCELLED when the run ends over it; the run's own error then
 * takes the place and the value from this one. */
void weir_text_too_long(struct weir_error *err, uint64_t size, bool whole)
{
	struct weir_error why = *err;
	char text[128], bytes[16];
	int length = snprintf(text, sizeof(text), "the record that begins here has %s%llu bytes (%s)",
			      whole ? "" : "more than ", (unsigned long long)size,
			      weir_format_bytes((int64_t)size, bytes, sizeof(bytes)));

	if (why.code == WEIR_E_LIMIT)
		weir_error_set(err, why.code, "%s: %s", text, why.message);
	else
		weir_error_at_value(err, text, (size_t)length);
}

uint64_t weir_text_line_ends(const void *text, size_t size)
{
	const uint8_t *bytes = text;
	uint64_t count = 0;

	for (size_t i = 0; i < size; i++)
		count += bytes[i] == '\n';
	if (memchr(text, '\r', size))
		for (size_t i = 0; i < size; i++)
			count += bytes[i] == '\r' && (i + 1 == size || bytes[i + 1] != '\n');
	return count;
}

uint32_t weir_sample_file_count(uint32_t file_count)
{
	return file_count < WEIR_SAMPLE_FILES ? file_count : WEIR_SAMPLE_FILES;
}

uint32_t weir_sample_file(uint32_t i, uint32_t file_count)
{
	uint32_t count = weir_sample_file_count(file_count);

	/* The first and the last, and evenly between. */
	return count < 2 ? 0 : (uint32_t)((uint64_t)i * (file_count - 1) / (count - 1));
}

uint32_t weir_text_samples(uint64_t size, bool is_plain, uint32_t file_count,
			   struct weir_text_sample out[WEIR_SAMPLES_MAX])
{
	uint64_t part = file_count < WEIR_SAMPLE_FILES ? SAMPLE_OF_SOME : SAMPLE_OF_MANY;

	out[0] = (struct weir_text_sample){0, file_count > 1 ? part : SAMPLE_HEAD};
	if (!is_plain || size < SAMPLE_LARGE)
		return 1;
	out[1] = (struct weir_text_sample){size / 2, part};
	out[2] = (struct weir_text_sample){size - part, part};
	return 3;
}
