/* clock: CLOCK_MONOTONIC only; no decision depends on wall time. */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include <stdint.h>

uint64_t weir_clock_ns(void);
uint64_t weir_clock_thread_cpu_ns(void);

#endif
