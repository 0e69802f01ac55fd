#include "ops/save.h"

#include <string.h>

#define STRING_NULL UINT32_MAX

int weir_save_u32(struct weir_save *save, uint32_t value, struct weir_error *err)
{
	uint8_t bytes[4];

	for (int i = 0; i < 4; i++)
		bytes[i] = (uint8_t)(value >> 8 * i);
	return weir_text_append(save->out, bytes, sizeof(bytes), err);
}

int weir_save_i64(struct weir_save *save, int64_t value, struct weir_error *err)
{
	uint8_t bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)((uint64_t)value >> 8 * i);
	return weir_text_append(save->out, bytes, sizeof(bytes), err);
}

int weir_save_string(struct weir_save *save, const char *text, struct weir_error *err)
{
	size_t size = text ? strlen(text) : 0;
	int code;

	if (!text)
		return weir_save_u32(save, STRING_NULL, err);
	if (size >= STRING_NULL)
		return weir_error_set(err, WEIR_E_INVALID, "a text of %zu bytes is too long for a plan", size);
	code = weir_save_u32(save, (uint32_t)size, err);
	return code ? code : weir_text_append(save->out, text, size, err);
}

static int short_of_bytes(struct weir_error *err)
{
	return weir_error_set(err, WEIR_E_DATA, "the saved plan ends early");
}

int weir_load_u32(struct weir_load *load, uint32_t *out, struct weir_error *err)
{
	uint32_t value = 0;

	if (load->end - load->next < 4)
		return short_of_bytes(err);
	for (int i = 0; i < 4; i++)
		value |= (uint32_t)load->next[i] << 8 * i;
	load->next += 4;
	*out = value;
	return WEIR_OK;
}

int weir_load_i64(struct weir_load *load, int64_t *out, struct weir_error *err)
{
	uint64_t value = 0;

	if (load->end - load->next < 8)
		return short_of_bytes(err);
	for (int i = 0; i < 8; i++)
		value |= (uint64_t)load->next[i] << 8 * i;
	load->next += 8;
	*out = (int64_t)value;
	return WEIR_OK;
}

int weir_load_string(struct weir_load *load, const char **out, struct weir_error *err)
{
	uint32_t size = 0;
	int code = weir_load_u32(load, &size, err);

	*out = NULL;
	if (code || size == STRING_NULL)
		return code;
	if (size > (size_t)(load->end - load->next))
		return short_of_bytes(err);
	if (memchr(load->next, 0, size))
		return weir_error_set(err, WEIR_E_DATA, "the saved plan has a NUL inside a text");
	*out = weir_arena_strndup(load->arena, (const char *)load->next, size, err);
	load->next += size;
	return *out ? WEIR_OK : err->code;
}

int weir_load_count(struct weir_load *load, uint32_t bytes_each, uint32_t *out, struct weir_error *err)
{
	int code = weir_load_u32(load, out, err);

	if (!code && *out > (size_t)(load->end - load->next) / bytes_each)
		return short_of_bytes(err);
	return code;
}
