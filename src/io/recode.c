#include "io/recode.h"

#include <string.h>

static size_t put(unsigned char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (unsigned char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (unsigned char)(0xc0 | c >> 6);
		out[1] = (unsigned char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (unsigned char)(0xe0 | c >> 12);
		out[1] = (unsigned char)(0x80 | (c >> 6 & 63));
		out[2] = (unsigned char)(0x80 | (c & 63));
		return 3;
	}
	out[0] = (unsigned char)(0xf0 | c >> 18);
	out[1] = (unsigned char)(0x80 | (c >> 12 & 63));
	out[2] = (unsigned char)(0x80 | (c >> 6 & 63));
	out[3] = (unsigned char)(0x80 | (c & 63));
	return 4;
}

static void latin1(const unsigned char *in, size_t size_in, size_t *used, unsigned char *out, size_t size_out,
		   size_t *made)
{
	size_t i = 0, n = 0;

	while (i < size_in && n + WEIR_RECODE_MAX <= size_out) {
		uint64_t eight;

		if (i + 8 <= size_in && n + 8 <= size_out) {
			memcpy(&eight, in + i, 8);
			if (!(eight & 0x8080808080808080u)) {
				memcpy(out + n, &eight, 8);
				i += 8;
				n += 8;
				continue;
			}
		}
		n += put(out + n, in[i++]);
	}
	*used = i;
	*made = n;
}

static uint32_t unit(const unsigned char *in, bool big)
{
	return big ? (uint32_t)in[0] << 8 | in[1] : (uint32_t)in[1] << 8 | in[0];
}

static int utf16(const struct weir_recode *recode, const unsigned char *in, size_t size_in, size_t *used,
		 unsigned char *out, size_t size_out, size_t *made, struct weir_error *err)
{
	bool big = recode->encoding == WEIR_ENCODING_UTF16BE;
	size_t i = *used, n = *made;
	int code = WEIR_OK;

	while (i + 2 <= size_in && n + WEIR_RECODE_MAX <= size_out) {
		uint32_t c = unit(in + i, big), low;

		if ((c & 0xf800) != 0xd800) {
			n += put(out + n, c);
			i += 2;
			continue;
		}
		if (c >= 0xdc00) {
			code = weir_error_set(err, WEIR_E_DATA,
					      "the UTF-16 text has the second half of a surrogate pair without "
					      "the first (0x%04x)",
					      c);
			break;
		}
		if (i + 4 > size_in)
			break;
		low = unit(in + i + 2, big);
		if ((low & 0xfc00) != 0xdc00) {
			code = weir_error_set(err, WEIR_E_DATA,
					      "the UTF-16 text has the first half of a surrogate pair without "
					      "the second (0x%04x 0x%04x)",
					      c, low);
			break;
		}
		n += put(out + n, 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff));
		i += 4;
	}
	*used = i;
	*made = n;
	return code;
}

int weir_recode_run(struct weir_recode *recode, const void *in, size_t size_in, size_t *used, void *out,
		    size_t size_out, size_t *made, struct weir_error *err)
{
	const unsigned char *bytes = in;

	*used = *made = 0;
	if (recode->encoding == WEIR_ENCODING_LATIN1) {
		latin1(bytes, size_in, used, out, size_out, made);
		return WEIR_OK;
	}
	if (!recode->begun) {
		if (size_in < 2)
			return WEIR_OK;
		if (recode->encoding == WEIR_ENCODING_UTF16)
			recode->encoding = bytes[0] == 0xfe && bytes[1] == 0xff ? WEIR_ENCODING_UTF16BE
										: WEIR_ENCODING_UTF16LE;
		if (unit(bytes, recode->encoding == WEIR_ENCODING_UTF16BE) == 0xfeff)
			*used = 2;
		recode->begun = true;
	}
	return utf16(recode, bytes, size_in, used, out, size_out, made, err);
}
