/* Against a slow reference that decodes a character and asks of its number what RFC 3629 asks: every sequence of one,
 * two and three bytes, of four with every first two, and random mixtures at every place in a vector. */
#include "base/utf8.h"
#include "support.h"

/* Bytes of the character at p, 0 when there is none. Decodes first, judges the number afterwards. */
static size_t reference_char(const unsigned char *p, size_t size)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t length;
	uint32_t code;

	if (size == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	for (length = 2; length <= 4; length++)
		if ((uint32_t)p[0] >> (7 - length) == (1u << (length + 1)) - 2)
			break;
	if (length > 4 || length > size)
		return 0;
	code = p[0] & ((1u << (7 - length)) - 1);
	for (size_t i = 1; i < length; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		code = code << 6 | (p[i] & 63);
	}
	return code >= least[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? length : 0;
}

static size_t reference_prefix(const unsigned char *p, size_t size, size_t *characters)
{
	size_t at = 0, length;

	*characters = 0;
	while (at < size && (length = reference_char(p + at, size - at))) {
		at += length;
		++*characters;
	}
	return at;
}

static void check(const unsigned char *p, size_t size)
{
	size_t characters, prefix = reference_prefix(p, size, &characters);

	if (weir_utf8_valid_prefix(p, size) != prefix)
		fail_msg("%zu bytes: %zu instead of %zu", size, weir_utf8_valid_prefix(p, size), prefix);
	assert_int_equal(weir_utf8_valid(p, size), prefix == size);
	assert_int_equal(weir_utf8_length(p, prefix), characters);
	assert_int_equal(weir_utf8_char_size(p, size), reference_char(p, size));
}

static void every_short_sequence(void **state)
{
	(void)state;
	check((const unsigned char *)"", 0);
	for (uint32_t value = 0; value < 1u << 24; value++) {
		unsigned char bytes[3] = {(unsigned char)(value >> 16), (unsigned char)(value >> 8),
					  (unsigned char)value};

		/* Sanitizers make this slow: of what begins with ASCII a part will do. */
		if (bytes[0] < 0x80 && value % 61)
			continue;
		check(bytes, 3);
		if (bytes[2] == 0)
			check(bytes, 2);
		if (bytes[1] == 0)
			check(bytes, 1);
	}
}

static void every_beginning_of_four(void **state)
{
	static const unsigned char ends[] = {0x00, 0x7f, 0x80, 0x81, 0x8f, 0x90, 0x9f,
					     0xa0, 0xbf, 0xc0, 0xc2, 0xe0, 0xff};
	enum { ENDS = sizeof(ends) };
	unsigned char text[40];

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text, "é", 2);
	for (unsigned first = 0; first < 65536; first++) {
		for (unsigned i = 0; i < ENDS * ENDS; i++) {
			unsigned char bytes[4] = {(unsigned char)(first >> 8), (unsigned char)first, ends[i / ENDS],
						  ends[i % ENDS]};

			if (bytes[0] < 0x80 && i > 3)
				break;
			check(bytes, 4);
			/* Across the edge of a vector, in a text that is not ASCII. */
			memcpy(text + 13 + i % 5, bytes, 4);
			check(text, 40);
			memcpy(text + 13 + i % 5, "xxxx", 4);
		}
	}
}

static size_t put_character(unsigned char *p, uint32_t code)
{
	if (code < 0x80) {
		p[0] = (unsigned char)code;
		return 1;
	}
	if (code < 0x800) {
		p[0] = (unsigned char)(0xc0 | code >> 6);
		p[1] = (unsigned char)(0x80 | (code & 63));
		return 2;
	}
	if (code < 0x10000) {
		p[0] = (unsigned char)(0xe0 | code >> 12);
		p[1] = (unsigned char)(0x80 | (code >> 6 & 63));
		p[2] = (unsigned char)(0x80 | (code & 63));
		return 3;
	}
	p[0] = (unsigned char)(0xf0 | code >> 18);
	p[1] = (unsigned char)(0x80 | (code >> 12 & 63));
	p[2] = (unsigned char)(0x80 | (code >> 6 & 63));
	p[3] = (unsigned char)(0x80 | (code & 63));
	return 4;
}

static void every_character(void **state)
{
	(void)state;
	for (uint32_t code = 0; code <= 0x10ffff; code++) {
		unsigned char bytes[4];
		size_t size = put_character(bytes, code);
		bool valid = code < 0xd800 || code > 0xdfff;

		assert_int_equal(weir_utf8_valid(bytes, size), valid);
		assert_int_equal(weir_utf8_char_size(bytes, size), valid ? size : 0);
		assert_int_equal(weir_utf8_valid_prefix(bytes, size - 1), 0);
	}
}

static void random_mixtures(void **state)
{
	struct random random = random_seeded(8);

	(void)state;
	for (int round = 0; round < 60000; round++) {
		size_t capacity = random_below(&random, 300), size = 0;
		uint32_t kinds = (uint32_t)random_below(&random, 16);
		/* On the heap and exact, so that a read past the end is seen. */
		unsigned char text[304], *bytes;

		while (size < capacity) {
			switch (random_below(&random, 8) < 4 ? 0 : random_below(&random, 4) & kinds) {
			case 0:
				size += put_character(text + size, (uint32_t)random_below(&random, 0x80));
				break;
			case 1:
				size += put_character(text + size, (uint32_t)(0x80 + random_below(&random, 0x780)));
				break;
			case 2:
				size += put_character(text + size, (uint32_t)(0x800 + random_below(&random, 0xd000)));
				break;
			default:
				size += put_character(text + size,
						      (uint32_t)(0x10000 + random_below(&random, 0x100000)));
				break;
			}
		}
		size = size > capacity ? capacity : size; /* sometimes inside a character */
		if (size > 0 && random_below(&random, 2))
			text[random_below(&random, size)] ^= (unsigned char)(1 << random_below(&random, 8));
		if (size > 0 && random_below(&random, 8) == 0)
			text[random_below(&random, size)] = (unsigned char)random_next(&random);
		bytes = malloc(size > 0 ? size : 1);
		memcpy(bytes, text, size);
		check(bytes, size);
		free(bytes);
	}
}

/* One bad byte at each place of a long run: the prefix ends there, whatever the vector's width. */
static void every_place_is_looked_at(void **state)
{
	/* Of two, three and four bytes, each with the least first byte there is; ASCII where it is shorter. */
	static const char *const least[] = {"\xc2\x80xx", "\xe0\xa0\x80x", "\xf0\x90\x80\x80"};
	unsigned char bytes[520];

	(void)state;
	/* A character cut by a run of ASCII, at each place and of each length. */
	for (size_t at = 0; at < 200; at++) {
		for (size_t cut = 0; cut <= 4; cut++) {
			memset(bytes, 'x', sizeof(bytes));
			memcpy(bytes, "é", 2);
			for (size_t i = 0; i < sizeof(least) / sizeof(least[0]); i++) {
				memcpy(bytes + 2 + at, least[i], cut);
				check(bytes, sizeof(bytes));
			}
		}
	}
	for (size_t at = 0; at < sizeof(bytes); at++) {
		memset(bytes, 'x', sizeof(bytes));
		bytes[at] = 0xc3;
		check(bytes, sizeof(bytes));
		check(bytes, at + 1);
		bytes[at] = 0x80;
		check(bytes, sizeof(bytes));
		for (size_t i = 0; i + 3 <= sizeof(bytes); i += 3)
			memcpy(bytes + i, "€", 3);
		bytes[519] = 'x';
		bytes[at] = 0xff;
		check(bytes, sizeof(bytes));
		check(bytes, at);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_short_sequence),     cmocka_unit_test(every_beginning_of_four),
		cmocka_unit_test(every_character),          cmocka_unit_test(random_mixtures),
		cmocka_unit_test(every_place_is_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
