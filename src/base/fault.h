/* fault: failures on demand, in builds with -Dfaults=true; elsewhere every check is the constant false.
 *
 * A test arms one kind of call: the n-th from now fails, once or from then on. WEIR_FAULT="write:17:ENOSPC" (kind, n,
 * errno, optional ":always") arms from the environment. Counting is per process and atomic.
 */
#ifndef WEIR_BASE_FAULT_H
#define WEIR_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum weir_fault_kind {
	WEIR_FAULT_ALLOC,
	WEIR_FAULT_MAP,
	WEIR_FAULT_OPEN,
	WEIR_FAULT_READ,
	WEIR_FAULT_WRITE,
	WEIR_FAULT_SYNC,
	WEIR_FAULT_RENAME,
	WEIR_FAULT_SPAWN,
	WEIR_FAULT_KIND_COUNT
};

#ifdef WEIR_FAULTS
/* True when this call is to fail; errno is then set. */
bool weir_fault(enum weir_fault_kind kind);
void weir_fault_arm(enum weir_fault_kind kind, uint64_t nth, int errno_value, bool always); /* nth from 1 */
void weir_fault_disarm(void);
uint64_t weir_fault_count(enum weir_fault_kind kind); /* calls seen since arm or disarm */
#else
static inline bool weir_fault(enum weir_fault_kind kind)
{
	(void)kind;
	return false;
}
#endif

#endif
