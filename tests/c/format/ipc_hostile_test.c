/* Arrow files and streams that lie. A stream may end between messages. */
#include "format_hostile.h"

static const struct hostile hostile = {.format = &weir_arrow_format,
				       .name = "Arrow hostile files",
				       .folder = "tests/fuzz/corpus/ipc_file",
				       .open_ended = "stream",
				       .empty = "empty"};

int main(void)
{
	return hostile_run();
}
