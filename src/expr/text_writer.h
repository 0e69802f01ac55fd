/* text_writer: where kernels put new strings: a bump pointer in pieces of the arena. Short results stay in their
 * views. */
#ifndef WEIR_EXPR_TEXT_WRITER_H
#define WEIR_EXPR_TEXT_WRITER_H

#include "vector/vector.h"

#include <string.h>

struct weir_text_writer {
	struct weir_arena *arena;
	uint8_t *next, *end;
};

enum { WEIR_TEXT_PIECE = 16384 };

/* Room for `size` bytes; NULL with err set. Only what weir_text_done is told of is kept. */
static inline uint8_t *weir_text_room(struct weir_text_writer *writer, size_t size, struct weir_error *err)
{
	if ((size_t)(writer->end - writer->next) < size || !writer->next) {
		size_t piece = size > WEIR_TEXT_PIECE ? size : WEIR_TEXT_PIECE;

		writer->next = (uint8_t *)weir_arena_alloc(writer->arena, piece, err);
		writer->end = writer->next ? writer->next + piece : NULL;
	}
	return writer->next;
}

/* More of it, `size` bytes in all; the first `written` ones stay as they are. */
static inline uint8_t *weir_text_grow(struct weir_text_writer *writer, size_t size, size_t written,
				      struct weir_error *err)
{
	uint8_t *before = writer->next, *room = weir_text_room(writer, size, err);

	if (room)
		memmove(room, before, written);
	return room;
}

static inline struct weir_view weir_text_done(struct weir_text_writer *writer, size_t size)
{
	struct weir_view view = weir_view_make(writer->next, (uint32_t)size);

	if (size > WEIR_VIEW_INLINE)
		writer->next += size;
	return view;
}

#endif
