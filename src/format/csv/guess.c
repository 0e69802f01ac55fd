/* Where a range probably begins, before anybody has read what lies in front of it.
 *
 * Byte `begin` lies outside quotes or inside. Both are tried: under each, the lines that follow are looked at, and the
 * better ones win. Lines are good when they have the right number of fields, when numbers and dates are such, and when
 * no quote stands where none belongs: the text between two quoted fields, taken for a quoted one, betrays itself by
 * that.
 *
 *     …es", he said","x\n     outside:  es", he said","x⏎                     the rest of a line, with a stray quote
 *     "a ""new"" day","y\n    inside:   es", he said","x⏎"a ""new"" day","y⏎   a field ends, another begins, and good lines follow
 *
 * A wrong guess costs time, never rows: the range is read again from where the one before it ended (format/cuts.h).
 */
#include "format/csv/csv_impl.h"

#include <string.h>

enum { GUESS_BYTES = 32 << 10, GUESS_BYTES_MAX = 1 << 20, GUESS_LINES = 48 };

struct guess {
	uint32_t start; /* in the text, of the first line; 0: none was found */
	uint32_t lines, good;
};

static bool field_is_good(const struct csv_reader *self, uint32_t field, const char *text, uint32_t size)
{
	const struct csv_dialect *dialect = &self->file->dialect;
	const struct weir_type *type = weir_type_values(self->file->base.schema->fields[field].type);
	char buffer[64], *plain = buffer;
	uint64_t value[4];

	if (dialect->has_quote && size && (uint8_t)text[0] != dialect->quote && memchr(text, dialect->quote, size))
		return false;
	if (weir_type_is_bytes(type) || type->id == WEIR_NULL || type->id == WEIR_FIXED_BINARY || size == 0)
		return true;
	if (size > sizeof(buffer))
		return false;
	size = (uint32_t)csv_unquote(dialect, text, size, plain);
	return csv_is_null(self->file->options, plain, size) ||
	       csv_value_parse(type, dialect->point, plain, size, value);
}

static bool line_is_good(const struct csv_reader *self, const uint32_t *ends, uint32_t fields, uint32_t begin)
{
	const uint8_t *text = self->input.text;

	for (uint32_t i = 0; i < fields; i++) {
		uint32_t end = ends[i];

		if (i + 1 == fields && end > begin && text[end - 1] == '\r' && text[end] == '\n')
			end--;
		if (i == 0 && fields == 1 && end == begin)
			return true; /* blank */
		if (!field_is_good(self, i, (const char *)text + begin, end - begin))
			return false;
		begin = ends[i] + 1;
	}
	return true;
}

/* Takes text[1] to be in `state`. */
static struct guess guess_from(struct csv_reader *self, enum csv_state state)
{
	struct csv_index *index = &self->index;
	struct guess guess = {0};
	uint32_t line = 0, begin;

	*index = (struct csv_index){.text = self->input.text,
				    .size = (uint32_t)self->input.end,
				    .is_last = self->input.at_end,
				    .at = 1,
				    .state = state,
				    .ends = index->ends,
				    .end_capacity = index->end_capacity,
				    .lines = index->lines,
				    .line_capacity = GUESS_LINES + CSV_BLOCK};
	self->kernels->index(index, &self->file->dialect);
	begin = 1;
	if (state != CSV_LINE_START) {
		if (index->line_count == 0)
			return guess;
		begin = index->ends[index->lines[0]] + 1;
		line = 1;
	}
	guess.start = begin;
	for (; line < index->line_count; line++) {
		uint32_t first = line ? index->lines[line - 1] + 1 : 0, fields = index->lines[line] + 1 - first;
		uint32_t end = index->ends[index->lines[line]];
		bool is_comment = self->file->dialect.has_comment && index->text[begin] == self->file->dialect.comment;
		bool is_blank = fields == 1 && (end == begin || (end == begin + 1 && index->text[begin] == '\r'));

		guess.lines++;
		guess.good += is_comment || is_blank ||
			      (fields == self->file->width && line_is_good(self, index->ends + first, fields, begin));
		begin = end + 1;
	}
	return guess;
}

static enum csv_state state_outside(const struct csv_reader *self)
{
	const struct weir_text_input *input = &self->input;

	if (input->text[0] == '\n' || (input->text[0] == '\r' && input->end > 1 && input->text[1] != '\n'))
		return CSV_LINE_START;
	return input->text[0] == self->file->dialect.delimiter ? CSV_FIELD_START : CSV_IN_FIELD;
}

int csv_guess_start(struct csv_reader *self, uint64_t begin, uint64_t *start, struct weir_error *err)
{
	struct weir_text_input *input = &self->input;
	struct guess outside, inside = {0};
	size_t size = GUESS_BYTES;

	if (csv_index_reserve(self, err) ||
	    weir_text_input_open(input, self->io, self->file->base.file, begin - 1, &self->file->options->stream, err))
		return err->code;
	for (;; size *= 4) {
		if (weir_text_input_fill(input, size, err))
			return err->code;
		if (input->end < 2) { /* nothing lies behind the byte before */
			*start = begin - 1 + input->end;
			return WEIR_OK;
		}
		outside = guess_from(self, state_outside(self));
		if (self->file->dialect.has_quote)
			inside = guess_from(self, CSV_IN_QUOTES);
		if ((outside.lines && (inside.lines || !self->file->dialect.has_quote)) || input->at_end ||
		    size >= GUESS_BYTES_MAX)
			break;
		/* One of the two found lines and all of them are good: more text would not change that. */
		if ((outside.lines >= 2 && outside.good == outside.lines) ||
		    (inside.lines >= 2 && inside.good == inside.lines && outside.good < outside.lines))
			break;
	}
	if (!outside.start || (inside.start && (uint64_t)inside.good * (outside.lines ? outside.lines : 1) >
						       (uint64_t)outside.good * (inside.lines ? inside.lines : 1)))
		outside = inside;
	if (self->file->guess_forced)
		outside = guess_from(self, self->file->guess_forced > 0 ? CSV_IN_QUOTES : state_outside(self));
	*start = begin - 1 + (outside.start ? outside.start : input->end);
	if (*start > begin - 1 + input->end)
		*start = begin - 1 + input->end;
	return WEIR_OK;
}
