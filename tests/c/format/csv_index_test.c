/* The index of the CSV reader against a walk that is written down here once more, over random text that is full of
 * quotes and line ends. Run once per CPU level, and each time for the portable kernels too. */
#define WEIR_KERNEL_SUFFIX _portable
#define CSV_PORTABLE
#include "format/csv/kernels_csv.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_MAX = 1500, PAD = WEIR_TEXT_PAD };

static uint64_t random_state = 11;

static uint32_t random_below(uint32_t bound)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ z >> 31) % bound);
}

struct expected {
	uint32_t ends[TEXT_MAX + 1], lines[TEXT_MAX + 1];
	uint32_t end_count, line_count;
	bool high, inner_lines;
};

/* A field at a time. */
static void expect(const struct csv_dialect *dialect, const uint8_t *text, uint32_t size, struct expected *out)
{
	uint32_t at = 0;
	bool line_begins = true;

	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < size; i++)
		out->high |= text[i] >= 0x80;
	while (at < size) {
		bool comment = line_begins && dialect->has_comment && text[at] == dialect->comment;
		bool quoted = !comment && dialect->has_quote && text[at] == dialect->quote;

		at += quoted;
		for (; at < size; at++) {
			bool ends_line = text[at] == '\n' ||
					 (text[at] == '\r' && (at + 1 == size || text[at + 1] != '\n'));

			if (!comment && dialect->has_escape && text[at] == dialect->escape) {
				at++; /* whatever follows is a letter */
				out->inner_lines |= at < size &&
						    (text[at] == '\n' ||
						     (text[at] == '\r' && (at + 1 == size || text[at + 1] != '\n')));
				continue;
			}
			if (quoted) {
				out->inner_lines |= ends_line;
				if (text[at] != dialect->quote)
					continue;
				if (dialect->doubled && at + 1 < size && text[at + 1] == dialect->quote)
					at++;
				else
					quoted = false;
				continue;
			}
			if (ends_line || (!comment && text[at] == dialect->delimiter)) {
				if (ends_line)
					out->lines[out->line_count++] = out->end_count;
				out->ends[out->end_count++] = at;
				line_begins = ends_line;
				at++;
				break;
			}
		}
	}
}

static void check_kernels(const struct csv_kernels *kernels, const struct csv_dialect *dialect, const uint8_t *text,
			  uint32_t size, uint32_t end_step)
{
	static uint32_t ends[TEXT_MAX + 2 * CSV_BLOCK], lines[TEXT_MAX + 2 * CSV_BLOCK];
	static struct expected expected;
	struct csv_index index = {.text = text,
				  .size = size,
				  .is_last = true,
				  .ends = ends,
				  .lines = lines,
				  .line_capacity = TEXT_MAX + CSV_BLOCK};

	expect(dialect, text, size, &expected);
	/* With little room the index stops and goes on where it stood. */
	for (uint32_t room = end_step; index.at < size; room += end_step) {
		index.end_capacity = room < TEXT_MAX + CSV_BLOCK ? room : TEXT_MAX + CSV_BLOCK;
		kernels->index(&index, dialect);
	}
	assert_int_equal(index.end_count, expected.end_count);
	assert_int_equal(index.line_count, expected.line_count);
	assert_memory_equal(ends, expected.ends, expected.end_count * sizeof(*ends));
	assert_memory_equal(lines, expected.lines, expected.line_count * sizeof(*lines));
	assert_int_equal(index.has_high, expected.high);
	assert_true(!expected.inner_lines || index.has_inner_lines);
}

static void check(const struct csv_dialect *dialect, const uint8_t *text, uint32_t size, uint32_t end_step)
{
	check_kernels(csv_kernels_choose(), dialect, text, size, end_step);
	check_kernels(&csv_kernels_portable, dialect, text, size, end_step);
}

static void fill(uint8_t *text, uint32_t size, uint32_t rarity)
{
	static const char special[] = "\"\"\",,\n\n\r\\#\xc3\xa4";

	for (uint32_t i = 0; i < size; i++)
		text[i] = random_below(rarity) ? (uint8_t)('a' + random_below(6))
					       : (uint8_t)special[random_below(sizeof(special) - 1)];
}

static void test_random_text(void **state)
{
	static uint8_t memory[TEXT_MAX + 2 * PAD];

	(void)state;
	for (uint32_t round = 0; round < 20000; round++) {
		struct csv_dialect dialect = {.delimiter = ',',
					      .quote = '"',
					      .escape = ',',
					      .comment = ',',
					      .point = '.',
					      .has_quote = random_below(8) != 0,
					      .doubled = random_below(4) != 0};
		uint32_t size = random_below(round % 10 ? 260 : TEXT_MAX);

		if (!dialect.has_quote)
			dialect.quote = ',';
		if (random_below(4) == 0) {
			dialect.has_escape = true;
			dialect.escape = '\\';
		}
		if (random_below(4) == 0) {
			dialect.has_comment = true;
			dialect.comment = '#';
		}
		/* What lies around the text must not matter. */
		fill(memory, sizeof(memory), 2);
		fill(memory + PAD, size, 1 + random_below(20));
		check(&dialect, memory + PAD, size, round % 3 ? TEXT_MAX : 70);
	}
}

/* Quotes as files have them: the fast way is taken, also where blocks begin and end. */
static void test_well_formed(void **state)
{
	static uint8_t memory[TEXT_MAX + 2 * PAD];
	const struct csv_dialect dialect = {
		.delimiter = ',', .quote = '"', .escape = ',', .comment = ',', .has_quote = true, .doubled = true};

	(void)state;
	for (uint32_t round = 0; round < 5000; round++) {
		uint32_t size = 0;

		while (size < 400) {
			bool quoted = random_below(2);

			if (quoted)
				memory[PAD + size++] = '"';
			for (uint32_t left = random_below(40); left > 0; left--) {
				memory[PAD + size++] = (uint8_t) "ab,\n\r"[quoted ? random_below(5) : random_below(2)];
				if (quoted && random_below(10) == 0) {
					memory[PAD + size++] = '"';
					memory[PAD + size++] = '"';
				}
			}
			if (quoted)
				memory[PAD + size++] = '"';
			if (random_below(3))
				memory[PAD + size++] = ',';
			else if (random_below(2))
				memory[PAD + size++] = '\n';
			else {
				memory[PAD + size++] = '\r';
				memory[PAD + size++] = '\n';
			}
		}
		check(&dialect, memory + PAD, size, TEXT_MAX);
	}
}

/* A CR at the end of the text says nothing before the next byte is there. */
static void test_open_return(void **state)
{
	const struct csv_dialect dialect = {
		.delimiter = ',', .quote = '"', .escape = ',', .comment = ',', .has_quote = true, .doubled = true};
	uint8_t memory[2 * PAD + 4] = {0};
	uint32_t ends[2 * CSV_BLOCK], lines[2 * CSV_BLOCK];
	struct csv_index index = {.text = memory + PAD,
				  .size = 2,
				  .ends = ends,
				  .lines = lines,
				  .end_capacity = 2 * CSV_BLOCK,
				  .line_capacity = 2 * CSV_BLOCK};

	(void)state;
	memcpy(memory + PAD, "a\r\nb", 4);
	csv_kernels_choose()->index(&index, &dialect);
	assert_int_equal(index.at, 1);
	assert_int_equal(index.line_count, 0);
	index.size = 3;
	csv_kernels_choose()->index(&index, &dialect);
	assert_int_equal(index.line_count, 1);
	assert_int_equal(ends[0], 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_text),
		cmocka_unit_test(test_well_formed),
		cmocka_unit_test(test_open_return),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
