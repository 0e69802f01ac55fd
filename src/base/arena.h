/* arena: many small things that die together. Memory comes from an account in pieces that double up to 1 MiB; nothing
 * is freed before clear or release. All-zero plus an account is the empty arena. */
#ifndef WEIR_BASE_ARENA_H
#define WEIR_BASE_ARENA_H

#include "base/mem.h"

struct weir_arena_piece;

struct weir_arena {
	struct weir_account *account;
	struct weir_arena_piece *pieces;
	char *next, *end;
	size_t piece_size;
};

void weir_arena_init(struct weir_arena *arena, struct weir_account *account);
void weir_arena_clear(struct weir_arena *arena);   /* keeps the newest piece */
void weir_arena_release(struct weir_arena *arena); /* twice is fine */

/* 16-byte aligned. */
void *weir_arena_alloc(struct weir_arena *arena, size_t size, struct weir_error *err);
void *weir_arena_alloc_zero(struct weir_arena *arena, size_t size, struct weir_error *err);
/* 64-byte aligned, for kernel operands. */
void *weir_arena_alloc_aligned(struct weir_arena *arena, size_t size, struct weir_error *err);
char *weir_arena_strdup(struct weir_arena *arena, const char *text, struct weir_error *err);
char *weir_arena_strndup(struct weir_arena *arena, const char *text, size_t length, struct weir_error *err);
char *weir_arena_printf(struct weir_arena *arena, struct weir_error *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
