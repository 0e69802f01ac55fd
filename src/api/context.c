/* What functions of the program may ask and say while they are called. */
#include "api/api_impl.h"

#include <stdarg.h>
#include <stdio.h>

int weir_context_fail(struct weir_context *context, const char *format, ...)
{
	va_list args;

	if (!context || !format)
		return 1;
	va_start(args, format);
	vsnprintf(context->text, sizeof(context->text), format, args);
	va_end(args);
	return 1;
}

int weir_context_cancelled(const struct weir_context *context)
{
	return context && context->cancelled && atomic_load_explicit(context->cancelled, memory_order_relaxed);
}

uint32_t weir_context_thread(const struct weir_context *context)
{
	return context ? context->thread : 0;
}
