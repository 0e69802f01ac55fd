/* The version, as meson.build has it. */
#include "weir/weir.h"

const char *weir_version(void)
{
	return WEIR_VERSION;
}
