/* recode: text in another encoding becomes UTF-8, a piece at a time. All-zero but for `encoding` is the beginning. */
#ifndef WEIR_IO_RECODE_H
#define WEIR_IO_RECODE_H

#include "io/stream.h"

/* What one character takes at most, before and after. */
#define WEIR_RECODE_MAX 4

struct weir_recode {
	enum weir_encoding encoding; /* LATIN1, or one of UTF16; UTF16 becomes LE or BE at the first two bytes */
	bool begun;                  /* the byte order mark is behind */
};

/* Takes whole characters of `in`, as long as WEIR_RECODE_MAX bytes are free in `out`. What is left of `in` afterwards,
 * less than WEIR_RECODE_MAX bytes unless `out` is full, is the beginning of a character: give it again with more behind
 * it. WEIR_E_DATA with *used bytes before the place. */
int weir_recode_run(struct weir_recode *recode, const void *in, size_t size_in, size_t *used, void *out,
		    size_t size_out, size_t *made, struct weir_error *err);

#endif
