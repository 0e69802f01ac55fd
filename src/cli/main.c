/* The weir command. */
#include "weir/weir.h"

#include <stdio.h>

int main(void)
{
	return printf("weir %s\n", weir_version()) < 0;
}
