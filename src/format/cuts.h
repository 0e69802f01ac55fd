/* cuts: where the records of a file's byte ranges really begin.
 *
 * A large text file is cut into byte ranges before anybody has read it. A range stands for the records whose first byte
 * lies in it, but a cut may fall inside a quoted field, and only who has read everything before it knows. So a reader
 * that opens a range guesses, and reads on to the end of its last record; when every earlier range has been read its
 * guess is compared with the place where the range before it ended:
 *
 *     range 0            │ range 1             │ range 2
 *     r r r "ab,         │ cd", r r r r        │ r r r
 *                        ┆      ▲ range 0 really ended here; range 1 is read again if it began elsewhere
 *
 * Lanes confirm in split order (ops/op.h: confirm), so when range n is confirmed the ends of all ranges before it are
 * final. Lines are counted along, for error messages.
 *
 * Threads: any; one lock inside.
 */
#ifndef WEIR_FORMAT_CUTS_H
#define WEIR_FORMAT_CUTS_H

#include "base/mem.h"

struct weir_range;
struct weir_cuts;

/* The bytes from `begin` to `end` in pieces of one size, which is near `bytes_target` (0: all in one) and not below
 * `bytes_min`. There is one at least. `share`: of the bytes, what the scan wants. */
int weir_byte_ranges(uint64_t begin, uint64_t end, uint64_t bytes_target, uint64_t bytes_min, double share,
		     int (*visit)(void *context, const struct weir_range *range), void *context);

int weir_cuts_new(struct weir_account *account, struct weir_cuts **out, struct weir_error *err);
void weir_cuts_free(struct weir_cuts *cuts);

/* Where range `number` begins; false while the range before it has not ended. Range 0 is told by its reader with
 * weir_cuts_begin (behind header and byte order mark). */
bool weir_cuts_start(struct weir_cuts *cuts, uint32_t number, uint64_t *start);
/* The first record of range 0 begins here, on this line (from 1). */
void weir_cuts_begin(struct weir_cuts *cuts, uint64_t start, uint64_t line);
/* Range `number`, read from `start`, ended: the next record begins at `end`, which is at or behind the range's end, and
 * `lines` line ends lie between. A later call for the same range replaces an earlier one. */
int weir_cuts_end(struct weir_cuts *cuts, uint32_t number, uint64_t start, uint64_t end, uint64_t lines,
		  struct weir_error *err);

/* Every range before `number` has ended, or was left early because nobody wants what follows it. False when `start` is
 * not where range `number` begins. */
bool weir_cuts_confirm(struct weir_cuts *cuts, uint32_t number, uint64_t start);
/* The line (from 1) on which range `number` begins; 0 when some range before it has not ended. */
uint64_t weir_cuts_line(struct weir_cuts *cuts, uint32_t number);

#endif
