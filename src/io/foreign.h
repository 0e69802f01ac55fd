/* foreign: memory that libraries take through callbacks, charged to an account.
 *
 *     ┌──────────────┬─────────────────────────
 *     │ size │       │ what the library sees …        a note of 16 bytes in front, which keeps it aligned as malloc would
 *     └──────────────┴─────────────────────────
 *
 * Their functions that free are not told a size, so it is in the note. When the account refuses, its error is kept: a
 * library only says that there was no memory.
 *
 * Threads: one at a time. */
#ifndef WEIR_IO_FOREIGN_H
#define WEIR_IO_FOREIGN_H

#include "base/mem.h"

struct weir_foreign {
	struct weir_account *account;
	struct weir_error refusal; /* code WEIR_OK: nothing was refused */
};

/* To be given to libraries, with a struct weir_foreign as their `opaque`. */
void *weir_foreign_alloc(void *foreign, size_t size);
void weir_foreign_free(void *foreign, void *memory);
/* A library found no memory: the account's refusal, which is over with that, or else WEIR_E_MEMORY with this text. */
int weir_foreign_fail(struct weir_foreign *foreign, struct weir_error *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
