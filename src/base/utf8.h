/* utf8: is it, and how many characters. */
#ifndef WEIR_BASE_UTF8_H
#define WEIR_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of leading bytes that are whole, valid UTF-8 (RFC 3629: no surrogates, no overlong forms): `size` when all
 * is well. Plain ASCII runs at memory speed. */
size_t weir_utf8_valid_prefix(const void *bytes, size_t size);
static inline bool weir_utf8_valid(const void *bytes, size_t size)
{
	return weir_utf8_valid_prefix(bytes, size) == size;
}
/* Bytes of the character that begins here, 1 to 4; 0 where there is no whole, valid one. */
size_t weir_utf8_char_size(const void *bytes, size_t size);
/* Characters (code points) of valid UTF-8. */
size_t weir_utf8_length(const void *bytes, size_t size);

#endif
