#include "io/foreign.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NOTE = 16 };

void *weir_foreign_alloc(void *opaque, size_t size)
{
	struct weir_foreign *foreign = opaque;
	size_t total;
	char *note;

	if (__builtin_add_overflow(size, (size_t)NOTE, &total))
		return NULL;
	note = weir_alloc(foreign->account, total, &foreign->refusal);
	if (!note)
		return NULL;
	memcpy(note, &total, sizeof(total));
	return note + NOTE;
}

void weir_foreign_free(void *opaque, void *memory)
{
	struct weir_foreign *foreign = opaque;
	size_t total;
	char *note;

	if (!memory)
		return;
	note = (char *)memory - NOTE;
	memcpy(&total, note, sizeof(total));
	weir_free(foreign->account, note, total);
}

int weir_foreign_fail(struct weir_foreign *foreign, struct weir_error *err, const char *format, ...)
{
	char text[128];
	va_list args;

	if (foreign->refusal.code) {
		*err = foreign->refusal;
		weir_error_clear(&foreign->refusal);
		return err->code;
	}
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return weir_error_set(err, WEIR_E_MEMORY, "%s", text);
}
