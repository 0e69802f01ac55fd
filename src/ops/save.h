/* save: the primitives of a plan's saved form. Little endian, lengths before bytes; a load checks every length against
 * what is left. */
#ifndef WEIR_OPS_SAVE_H
#define WEIR_OPS_SAVE_H

#include "base/arena.h"
#include "base/text.h"

struct weir_save {
	struct weir_text *out;
};

struct weir_load {
	const uint8_t *next, *end;
	struct weir_arena *arena; /* strings are copied here */
};

int weir_save_u32(struct weir_save *save, uint32_t value, struct weir_error *err);
int weir_save_i64(struct weir_save *save, int64_t value, struct weir_error *err);
int weir_save_string(struct weir_save *save, const char *text, struct weir_error *err); /* NULL is kept apart from "" */

int weir_load_u32(struct weir_load *load, uint32_t *out, struct weir_error *err);
int weir_load_i64(struct weir_load *load, int64_t *out, struct weir_error *err);
int weir_load_string(struct weir_load *load, const char **out, struct weir_error *err);
/* A count of things that take at least `bytes_each` bytes each in what is left. */
int weir_load_count(struct weir_load *load, uint32_t bytes_each, uint32_t *out, struct weir_error *err);

#endif
