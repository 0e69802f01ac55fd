/* Bytes as JSON: an error with its place, or rows; cut in two, the same rows; what is accepted jansson accepts too. */
#include "../c/format/inferred_feed.h"

#include <jansson.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static size_t skip_blanks(const uint8_t *bytes, size_t at, size_t size)
{
	while (at < size && (bytes[at] == ' ' || bytes[at] == '\n' || bytes[at] == '\t' || bytes[at] == '\r'))
		at++;
	return at;
}

/* Records that another parser finds; −1 when it finds fault. Numbers too large for it are no fault. */
static int64_t records_of(const uint8_t *bytes, size_t size)
{
	const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;
	size_t at = size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
	json_error_t error;
	int64_t count = 0;
	json_t *value;

	at = skip_blanks(bytes, at, size);
	if (at < size && bytes[at] == '[') {
		value = json_loadb((const char *)bytes + at, size - at, flags, &error);
		if (!value)
			return json_error_code(&error) == json_error_numeric_overflow ? INT64_MIN : -1;
		count = (int64_t)json_array_size(value);
		json_decref(value);
		return count;
	}
	for (; at < size; at = skip_blanks(bytes, at, size), count++) {
		value = json_loadb((const char *)bytes + at, size - at, flags | JSON_DISABLE_EOF_CHECK, &error);
		if (!value)
			return json_error_code(&error) == json_error_numeric_overflow ? INT64_MIN : -1;
		json_decref(value);
		at += (size_t)error.position;
	}
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const struct weir_setting settings[] = {{"non-finite", "error"}, {"depth", "500"}};
	struct inferred_feed feed;
	int64_t rows, theirs;
	char *text;

	if (size > 64 << 10)
		return 0;
	inferred_feed_begin(&feed, &weir_json_format, settings, 2);
	if (inferred_feed_run(&feed, bytes, size, 0) == WEIR_OK) {
		rows = feed.row_count;
		theirs = records_of(bytes, size);
		if (theirs != rows && theirs != INT64_MIN)
			abort();
		text = feed.rows.size ? strndup(feed.rows.data, feed.rows.size) : strdup("");
		/* Two cuts that the bytes choose. */
		for (size_t i = 0; i < 2 && size > 1; i++) {
			uint64_t cut = 1 + (uint64_t)bytes[i * (size - 1)] * 131 % (size - 1);

			if (inferred_feed_run(&feed, bytes, size, cut) || feed.row_count != rows ||
			    strcmp(feed.rows.size ? feed.rows.data : "", text) != 0)
				abort();
		}
		free(text);
	}
	inferred_feed_end(&feed);
	return 0;
}
