/* Bytes as a text file: an error or the lines that a simple reading finds, the same when the file is cut in two. The
 * first two bytes say where. */
#include "../c/format/lines_cut.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct lines whole = {0}, expected = {0};
	struct weir_error err = {0};
	struct weir_format_file *file;
	struct feed feed;
	size_t cut;
	int code;

	if (size < 3)
		return 0;
	cut = (size_t)(bytes[0] | bytes[1] << 8) % (size - 2);
	bytes += 2;
	size -= 2;
	feed_begin(&feed, &weir_lines_format);
	file = lines_open(&feed, bytes, size);
	code = lines_range(&feed, file, 0, size, &whole, &err);
	if (code && code != WEIR_E_DATA)
		feed_must(code, &err);
	if (!code && lines_expect(bytes, size, &expected) &&
	    (expected.size != whole.size || (whole.size && memcmp(expected.text, whole.text, whole.size))))
		abort();
	if (cut > 0 && !lines_cut_agrees(&feed, file, size, cut, &whole, code))
		abort();
	free(whole.text);
	free(expected.text);
	weir_format_file_unref(file);
	feed_end(&feed);
	return 0;
}
