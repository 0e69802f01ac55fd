#include "base/sha256.h"

#include <string.h>

enum { BLOCK = 64, LENGTH_AT = 56 };

static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
				  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t turned(uint32_t word, uint32_t by)
{
	return word >> by | word << (32 - by);
}

static void add_block(uint32_t digest[8], const uint8_t *block)
{
	uint32_t words[64], a = digest[0], b = digest[1], c = digest[2], d = digest[3];
	uint32_t e = digest[4], f = digest[5], g = digest[6], h = digest[7];

	for (uint32_t i = 0; i < 16; i++) {
		memcpy(&words[i], block + 4 * i, 4);
		words[i] = __builtin_bswap32(words[i]);
	}
	for (uint32_t i = 16; i < 64; i++) {
		uint32_t x = words[i - 15], y = words[i - 2];

		words[i] = words[i - 16] + (turned(x, 7) ^ turned(x, 18) ^ x >> 3) + words[i - 7] +
			   (turned(y, 17) ^ turned(y, 19) ^ y >> 10);
	}
	for (uint32_t i = 0; i < 64; i++) {
		uint32_t x = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] +
			     words[i];
		uint32_t y = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));

		h = g;
		g = f;
		f = e;
		e = d + x;
		d = c;
		c = b;
		b = a;
		a = x + y;
	}
	digest[0] += a;
	digest[1] += b;
	digest[2] += c;
	digest[3] += d;
	digest[4] += e;
	digest[5] += f;
	digest[6] += g;
	digest[7] += h;
}

void weir_sha256(const void *bytes, size_t size, uint32_t digest[8])
{
	const uint8_t *next = bytes;
	uint8_t last[2 * BLOCK] = {0};
	size_t left = size % BLOCK, padded = left < LENGTH_AT ? BLOCK : 2 * BLOCK;
	uint64_t bits = __builtin_bswap64((uint64_t)size * 8);

	memcpy(digest, first, sizeof(first));
	for (; next + BLOCK <= (const uint8_t *)bytes + size; next += BLOCK)
		add_block(digest, next);
	if (left)
		memcpy(last, next, left);
	last[left] = 0x80;
	memcpy(last + padded - 8, &bits, sizeof(bits));
	for (size_t at = 0; at < padded; at += BLOCK)
		add_block(digest, last + at);
}
