/* sha256: as FIPS 180-4 defines it, for places that others have computed by it. Not for secrets. */
#ifndef WEIR_BASE_SHA256_H
#define WEIR_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* The digest as eight words, the first one the most significant. */
void weir_sha256(const void *bytes, size_t size, uint32_t digest[8]);

#endif
