/* Entry points of libweir_probe for tests that hold numbers and times as text against Python's and pyarrow's. */
#include "base/number.h"
#include "base/timetext.h"

#include <weir/weir.h>

WEIR_API size_t weir_probe_format_doubles(const double *values, size_t count, char *out);
WEIR_API size_t weir_probe_format_floats(const float *values, size_t count, char *out);
WEIR_API size_t weir_probe_parse_doubles(const char *text, size_t size, double *out);
WEIR_API size_t weir_probe_parse_floats(const char *text, size_t size, float *out);
WEIR_API bool weir_probe_parse_date(const char *text, size_t size, int32_t *days);
WEIR_API bool weir_probe_parse_time(const char *text, size_t size, uint32_t digits, int64_t *out);
WEIR_API bool weir_probe_parse_timestamp(const char *text, size_t size, uint32_t digits, int64_t *out,
					 uint8_t *fraction_digits, bool *has_zone);
WEIR_API size_t weir_probe_format_time(char kind, int64_t units, uint32_t digits, char *out);

/* A line each. */
size_t weir_probe_format_doubles(const double *values, size_t count, char *out)
{
	size_t size = 0;

	for (size_t i = 0; i < count; i++) {
		size += weir_format_double(values[i], out + size);
		out[size++] = '\n';
	}
	return size;
}

size_t weir_probe_format_floats(const float *values, size_t count, char *out)
{
	size_t size = 0;

	for (size_t i = 0; i < count; i++) {
		size += weir_format_float(values[i], out + size);
		out[size++] = '\n';
	}
	return size;
}

/* Lines, each one number; returns how many were read before one was none. */
size_t weir_probe_parse_doubles(const char *text, size_t size, double *out)
{
	const char *end = text + size, *line;
	size_t count = 0;

	for (; text < end; text = line + 1, count++) {
		size_t length;
		double quick;

		line = memchr(text, '\n', (size_t)(end - text));
		length = (size_t)(line - text);
		if (!length || weir_parse_double(text, length, WEIR_NUMBER_PYTHON, &out[count]) != length)
			break;
		if (weir_parse_double_short(text, length, '.', &quick) && memcmp(&quick, &out[count], 8))
			break;
	}
	return count;
}

size_t weir_probe_parse_floats(const char *text, size_t size, float *out)
{
	const char *end = text + size, *line;
	size_t count = 0;

	for (; text < end; text = line + 1, count++) {
		line = memchr(text, '\n', (size_t)(end - text));
		if (line == text || weir_parse_float(text, (size_t)(line - text), WEIR_NUMBER_PYTHON, &out[count]) !=
					    (size_t)(line - text))
			break;
	}
	return count;
}

bool weir_probe_parse_date(const char *text, size_t size, int32_t *days)
{
	return weir_parse_date(text, size, days);
}

bool weir_probe_parse_time(const char *text, size_t size, uint32_t digits, int64_t *out)
{
	return weir_parse_time(text, size, digits, out);
}

bool weir_probe_parse_timestamp(const char *text, size_t size, uint32_t digits, int64_t *out, uint8_t *fraction_digits,
				bool *has_zone)
{
	struct weir_timestamp_text found;

	if (!weir_scan_timestamp(text, size, &found) || !weir_timestamp_units(&found, digits, out))
		return false;
	*fraction_digits = found.fraction_digits;
	*has_zone = found.has_zone;
	return true;
}

size_t weir_probe_format_time(char kind, int64_t units, uint32_t digits, char *out)
{
	return kind == 'd'   ? weir_format_date(units, out)
	       : kind == 't' ? weir_format_time(units, digits, out)
			     : weir_format_timestamp(units, digits, ' ', out);
}
