/* text: a string under construction. Always NUL-terminated once something was appended; `size` excludes the NUL. */
#ifndef WEIR_BASE_TEXT_H
#define WEIR_BASE_TEXT_H

#include "base/mem.h"

struct weir_text {
	char *data;
	size_t size, capacity;
	struct weir_account *account;
};

void weir_text_init(struct weir_text *text, struct weir_account *account);
void weir_text_release(struct weir_text *text);
void weir_text_clear(struct weir_text *text);
int weir_text_append(struct weir_text *text, const void *bytes, size_t size, struct weir_error *err);
int weir_text_puts(struct weir_text *text, const char *string, struct weir_error *err);
int weir_text_printf(struct weir_text *text, struct weir_error *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
