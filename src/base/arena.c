/* A piece is a header and bytes, 64-byte aligned like every allocation:
 *
 *     ┌────────────────┬──────────┬──────────┬───┬──────────────┐
 *     │ header, 64 B   │ thing    │ thing    │ … │ free         │      pieces → newest → … → oldest
 *     └────────────────┴──────────┴──────────┴───┴──────────────┘
 *                                                ▲ next         ▲ end   (of the newest)
 *
 * Pieces double from 1 KiB to 1 MiB. What is larger than the next piece would be gets one of its own behind the newest,
 * which goes on being filled.
 */
#include "base/arena.h"
#include "base/base_impl.h"
#include "base/checked.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PIECE_SIZE_FIRST = 1 << 10, PIECE_SIZE_MAX = 1 << 20 };

struct weir_arena_piece {
	_Alignas(WEIR_ALIGN) struct weir_arena_piece *older;
	size_t size; /* with this header */
};

void weir_arena_init(struct weir_arena *arena, struct weir_account *account)
{
	*arena = (struct weir_arena){.account = account};
}

static void free_pieces(struct weir_arena *arena, struct weir_arena_piece *piece)
{
	while (piece) {
		struct weir_arena_piece *older = piece->older;

		weir_unpoison(piece, piece->size);
		weir_free(arena->account, piece, piece->size);
		piece = older;
	}
}

static void fill_from(struct weir_arena *arena, struct weir_arena_piece *piece)
{
	arena->next = (char *)(piece + 1);
	arena->end = (char *)piece + piece->size;
	weir_poison(arena->next, (size_t)(arena->end - arena->next));
}

void weir_arena_clear(struct weir_arena *arena)
{
	if (!arena->pieces)
		return;
	free_pieces(arena, arena->pieces->older);
	arena->pieces->older = NULL;
	fill_from(arena, arena->pieces);
}

void weir_arena_release(struct weir_arena *arena)
{
	free_pieces(arena, arena->pieces);
	*arena = (struct weir_arena){.account = arena->account};
}

static struct weir_arena_piece *piece_new(struct weir_arena *arena, size_t size, struct weir_error *err)
{
	struct weir_arena_piece *piece;

	size = weir_alloc_size(size);
	piece = weir_alloc(arena->account, size, err);
	if (piece)
		piece->size = size;
	return piece;
}

/* When the newest piece has no room. A fresh piece is aligned, so `align` takes none of it. */
static void *alloc_slow(struct weir_arena *arena, size_t size, struct weir_error *err)
{
	size_t need, piece_size = arena->piece_size ? 2 * arena->piece_size : PIECE_SIZE_FIRST;
	struct weir_arena_piece *piece;
	char *thing;

	if (weir_add_overflows(size, sizeof(*piece), &need)) {
		weir_error_set(err, WEIR_E_MEMORY, "no memory for %zu bytes", size);
		return NULL;
	}
	if (piece_size > PIECE_SIZE_MAX)
		piece_size = PIECE_SIZE_MAX;
	if (need > piece_size && arena->pieces) {
		piece = piece_new(arena, need, err);
		if (!piece)
			return NULL;
		piece->older = arena->pieces->older;
		arena->pieces->older = piece;
		return piece + 1;
	}
	piece = piece_new(arena, need > piece_size ? need : piece_size, err);
	if (!piece)
		return NULL;
	piece->older = arena->pieces;
	arena->pieces = piece;
	arena->piece_size = piece_size;
	fill_from(arena, piece);
	thing = arena->next;
	arena->next += size;
	weir_unpoison(thing, size);
	return thing;
}

static void *alloc_at(struct weir_arena *arena, size_t size, size_t align, struct weir_error *err)
{
	size_t skip = (size_t) - (uintptr_t)arena->next & (align - 1);
	size_t left = (size_t)(arena->end - arena->next);
	char *thing;

	if (!arena->next || left < skip || left - skip < size)
		return alloc_slow(arena, size, err);
	thing = arena->next + skip;
	arena->next = thing + size;
	weir_unpoison(thing, size);
	return thing;
}

void *weir_arena_alloc(struct weir_arena *arena, size_t size, struct weir_error *err)
{
	return alloc_at(arena, size, 16, err);
}

void *weir_arena_alloc_zero(struct weir_arena *arena, size_t size, struct weir_error *err)
{
	void *thing = weir_arena_alloc(arena, size, err);

	return thing ? memset(thing, 0, size) : NULL;
}

void *weir_arena_alloc_aligned(struct weir_arena *arena, size_t size, struct weir_error *err)
{
	return alloc_at(arena, size, WEIR_ALIGN, err);
}

char *weir_arena_strndup(struct weir_arena *arena, const char *text, size_t length, struct weir_error *err)
{
	char *copy = weir_arena_alloc(arena, length + 1, err);

	if (!copy)
		return NULL;
	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

char *weir_arena_strdup(struct weir_arena *arena, const char *text, struct weir_error *err)
{
	return weir_arena_strndup(arena, text, strlen(text), err);
}

char *weir_arena_printf(struct weir_arena *arena, struct weir_error *err, const char *format, ...)
{
	char *text = NULL;
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0) {
		weir_error_set(err, WEIR_E_INVALID, "the text cannot be formatted");
		return NULL;
	}
	text = weir_arena_alloc(arena, (size_t)length + 1, err);
	if (!text)
		return NULL;
	va_start(args, format);
	vsnprintf(text, (size_t)length + 1, format, args);
	va_end(args);
	return text;
}
