/* Arrow arrays as a program without a library makes them: columns of int64, double or strings in malloc'ed memory. */
#ifndef WEIR_TESTS_API_ARROW_BY_HAND_H
#define WEIR_TESTS_API_ARROW_BY_HAND_H

#include "weir/arrow_abi.h"

#include <stdlib.h>
#include <string.h>

/* Arrays and schemas that were made and not released yet. */
extern _Atomic int hand_alive;

static inline void hand_array_release(struct ArrowArray *array)
{
	for (int64_t i = 0; i < array->n_children; i++) {
		if (array->children[i]->release)
			array->children[i]->release(array->children[i]);
		free(array->children[i]);
	}
	free(array->children);
	for (int64_t i = 0; i < array->n_buffers; i++)
		free((void *)array->buffers[i]);
	free(array->buffers);
	array->release = NULL;
	hand_alive--;
}

static inline void hand_array(struct ArrowArray *out, int64_t length, int64_t buffers, int64_t children)
{
	memset(out, 0, sizeof(*out));
	out->length = length;
	out->n_buffers = buffers;
	out->buffers = calloc((size_t)buffers + 1, sizeof(*out->buffers));
	out->n_children = children;
	out->children = calloc((size_t)children + 1, sizeof(*out->children));
	for (int64_t i = 0; i < children; i++)
		out->children[i] = calloc(1, sizeof(**out->children));
	out->release = hand_array_release;
	hand_alive++;
}

static inline int64_t *hand_int64(struct ArrowArray *out, int64_t length)
{
	int64_t *values = calloc((size_t)length + 1, sizeof(*values));

	hand_array(out, length, 2, 0);
	out->buffers[1] = values;
	return values;
}

static inline void hand_schema_release(struct ArrowSchema *schema)
{
	for (int64_t i = 0; i < schema->n_children; i++) {
		if (schema->children[i]->release)
			schema->children[i]->release(schema->children[i]);
		free(schema->children[i]);
	}
	free(schema->children);
	schema->release = NULL;
	hand_alive--;
}

/* format and name are static. */
static inline void hand_schema(struct ArrowSchema *out, const char *format, const char *name, int64_t children)
{
	memset(out, 0, sizeof(*out));
	out->format = format;
	out->name = name;
	out->flags = ARROW_FLAG_NULLABLE;
	out->n_children = children;
	out->children = calloc((size_t)children + 1, sizeof(*out->children));
	for (int64_t i = 0; i < children; i++)
		out->children[i] = calloc(1, sizeof(**out->children));
	out->release = hand_schema_release;
	hand_alive++;
}

#endif
