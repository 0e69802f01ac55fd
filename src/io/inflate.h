/* inflate: compressed bytes in, plain bytes out, a piece at a time; members and frames one after another are one text.
 *
 * Threads: one at a time. What the libraries allocate is charged to the account.
 */
#ifndef WEIR_IO_INFLATE_H
#define WEIR_IO_INFLATE_H

#include "io/stream.h"

struct weir_inflate;

/* One of GZIP to SNAPPY. */
int weir_inflate_new(struct weir_account *account, enum weir_compression compression, struct weir_inflate **out,
		     struct weir_error *err);
void weir_inflate_free(struct weir_inflate *inflate);
/* Takes *used bytes of `in` and puts *made into `out`, whose size is not 0. `in` is empty only when no more follows:
 * then what is held back comes out, until *made is 0. On failure *used tells how far it came, as far as that is
 * known. */
int weir_inflate_run(struct weir_inflate *inflate, const void *in, size_t size_in, size_t *used, void *out,
		     size_t size_out, size_t *made, struct weir_error *err);
/* Nothing is begun and not ended: the input may end here. */
bool weir_inflate_is_between(const struct weir_inflate *inflate);
const char *weir_inflate_name(const struct weir_inflate *inflate); /* "gzip" */

#endif
