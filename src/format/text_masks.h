/* text_masks: 64 bytes of text as bits, bit i being byte i; for the kernels that look for quotes and the like. */
#ifndef WEIR_FORMAT_TEXT_MASKS_H
#define WEIR_FORMAT_TEXT_MASKS_H

#include <stdint.h>

/* Each bit the parity of those up to it: between quotes the bits are set, an opening quote included. */
static inline uint64_t weir_prefix_xor(uint64_t bits)
{
	bits ^= bits << 1;
	bits ^= bits << 2;
	bits ^= bits << 4;
	bits ^= bits << 8;
	bits ^= bits << 16;
	bits ^= bits << 32;
	return bits;
}

#endif
