#include "base/text.h"
#include "base/checked.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void weir_text_init(struct weir_text *text, struct weir_account *account)
{
	*text = (struct weir_text){.account = account};
}

void weir_text_release(struct weir_text *text)
{
	weir_free(text->account, text->data, text->capacity);
	*text = (struct weir_text){.account = text->account};
}

void weir_text_clear(struct weir_text *text)
{
	text->size = 0;
	if (text->data)
		text->data[0] = '\0';
}

/* Room for `more` bytes and the NUL. */
static int reserve(struct weir_text *text, size_t more, struct weir_error *err)
{
	size_t need, capacity = text->capacity ? 2 * text->capacity : WEIR_ALIGN;
	char *grown;

	if (weir_add_overflows(text->size, more, &need) || weir_add_overflows(need, (size_t)1, &need) ||
	    need > PTRDIFF_MAX)
		return weir_error_set(err, WEIR_E_MEMORY, "no memory for a text of %zu more bytes", more);
	if (need <= text->capacity)
		return WEIR_OK;
	capacity = weir_alloc_size(capacity < need ? need : capacity);
	grown = weir_realloc(text->account, text->data, text->capacity, capacity, err);
	if (!grown)
		return err->code;
	text->data = grown;
	text->capacity = capacity;
	return WEIR_OK;
}

int weir_text_append(struct weir_text *text, const void *bytes, size_t size, struct weir_error *err)
{
	int code = reserve(text, size, err);

	if (code)
		return code;
	if (size > 0)
		memcpy(text->data + text->size, bytes, size);
	text->size += size;
	text->data[text->size] = '\0';
	return WEIR_OK;
}

int weir_text_puts(struct weir_text *text, const char *string, struct weir_error *err)
{
	return weir_text_append(text, string, strlen(string), err);
}

int weir_text_printf(struct weir_text *text, struct weir_error *err, const char *format, ...)
{
	va_list args;
	int length, code;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0)
		return weir_error_set(err, WEIR_E_INVALID, "the text cannot be formatted");
	code = reserve(text, (size_t)length, err);
	if (code)
		return code;
	va_start(args, format);
	vsnprintf(text->data + text->size, (size_t)length + 1, format, args);
	va_end(args);
	text->size += (size_t)length;
	return WEIR_OK;
}
