/* Amounts of memory as people write and read them. */
#include "base/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
	const char *suffix;
	int64_t factor;
} units[] = {
	{"", 1},
	{"B", 1},
	{"K", INT64_C(1) << 10},
	{"KiB", INT64_C(1) << 10},
	{"KB", 1000},
	{"M", INT64_C(1) << 20},
	{"MiB", INT64_C(1) << 20},
	{"MB", 1000000},
	{"G", INT64_C(1) << 30},
	{"GiB", INT64_C(1) << 30},
	{"GB", 1000000000},
	{"T", INT64_C(1) << 40},
	{"TiB", INT64_C(1) << 40},
	{"TB", 1000000000000},
	{"P", INT64_C(1) << 50},
	{"PiB", INT64_C(1) << 50},
	{"PB", 1000000000000000},
};

/* 0 when there is no such unit. */
static int64_t unit_factor(const char *suffix)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcasecmp(suffix, units[i].suffix) == 0)
			return units[i].factor;
	return 0;
}

int weir_parse_bytes(const char *text, int64_t *out, struct weir_error *err)
{
	enum { FRACTION_DIGITS_MAX = 15 }; /* times 2^50 stays below 2^127 */
	__int128 whole = 0, fraction = 0, scale = 1;
	const char *at = text;
	int64_t factor;
	int digits = 0;

	for (; isdigit((unsigned char)*at); at++, digits++) {
		whole = whole * 10 + (*at - '0');
		if (whole > INT64_MAX)
			return weir_error_set(err, WEIR_E_INVALID, "'%s' is more bytes than there can be", text);
	}
	if (*at == '.') {
		int fraction_digits = 0;

		for (at++; isdigit((unsigned char)*at); at++, digits++) {
			if (++fraction_digits > FRACTION_DIGITS_MAX)
				continue;
			fraction = fraction * 10 + (*at - '0');
			scale *= 10;
		}
	}
	while (digits > 0 && *at == ' ')
		at++;
	factor = unit_factor(at);
	if (digits == 0 || factor == 0)
		return weir_error_set(
			err, WEIR_E_INVALID,
			"'%s' is not an amount of memory; write a number and K, M, G or T (2^10 …) or KB, "
			"MB, GB or TB (10^3 …), as in 256M or 1.5GB",
			text);
	whole = whole * factor + fraction * factor / scale;
	if (whole > INT64_MAX)
		return weir_error_set(err, WEIR_E_INVALID, "'%s' is more bytes than there can be", text);
	*out = (int64_t)whole;
	return WEIR_OK;
}

const char *weir_format_bytes(int64_t bytes, char *buffer, size_t size)
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	uint64_t amount = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
	const char *sign = bytes < 0 ? "-" : "";
	double scaled = (double)amount;
	int unit = 0;

	if (amount < 1024) {
		snprintf(buffer, size, "%s%d B", sign, (int)amount);
		return buffer;
	}
	/* 1023.95 would be printed as 1024.0. */
	while (scaled >= 1023.95) {
		scaled /= 1024;
		unit++;
	}
	snprintf(buffer, size, "%s%.1f %s", sign, scaled, names[unit]);
	return buffer;
}
