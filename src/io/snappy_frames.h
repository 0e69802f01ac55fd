/* snappy_frames: files of Snappy data. Such a file is a row of chunks, each with its own checksum:
 *
 *     ff │ 06 00 00 │ sNaPpY          the first chunk, and allowed again later
 *     00 │ size     │ crc │ snappy    up to 64 KiB of plain bytes, compressed; the checksum is of the plain ones
 *     01 │ size     │ crc │ bytes     the same as they are
 *     80 … fe │ size │ …              to be skipped; 02 … 7f are of no known kind
 *
 * Threads: one at a time.
 */
#ifndef WEIR_IO_SNAPPY_FRAMES_H
#define WEIR_IO_SNAPPY_FRAMES_H

#include "base/mem.h"

struct weir_snappy_frames;

int weir_snappy_frames_new(struct weir_account *account, struct weir_snappy_frames **out, struct weir_error *err);
void weir_snappy_frames_free(struct weir_snappy_frames *frames);
/* Takes *used bytes of `in` and puts *made into `out`. *ended: a chunk has been used and given out whole, the input may
 * end here. NULL, or what is wrong with the data. */
const char *weir_snappy_frames_run(struct weir_snappy_frames *frames, const uint8_t *in, size_t size_in, size_t *used,
				   uint8_t *out, size_t size_out, size_t *made, bool *ended);

#endif
