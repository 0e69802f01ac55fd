/* hash: functions fixed by definition, equal on every machine (test vectors in tests/c/base). */
#ifndef WEIR_BASE_HASH_H
#define WEIR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* CRC32C (Castagnoli), in hardware where there is any, three streams. `crc` is 0 or the result so far. */
uint32_t weir_crc32c(uint32_t crc, const void *bytes, size_t size);
uint64_t weir_hash_bytes(const void *bytes, size_t size, uint64_t seed); /* XXH3-64 */
static inline uint64_t weir_hash_u64(uint64_t value)
{
	value ^= value >> 32;
	value *= 0xd6e8feb86659fd93u;
	value ^= value >> 32;
	value *= 0xd6e8feb86659fd93u;
	return value ^ value >> 32;
}

#endif
