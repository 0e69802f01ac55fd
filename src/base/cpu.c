/* The levels are those of the x86-64 psABI. A feature counts only when the operating system saves its registers, which
 * XGETBV tells. */
#include "base/cpu.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
	[WEIR_CPU_V2] = "v2",
	[WEIR_CPU_V3] = "v3",
	[WEIR_CPU_V4] = "v4",
};

#if defined(__x86_64__)

#include <cpuid.h>

enum {
	/* leaf 1, ecx */
	FMA = 1 << 12,
	MOVBE = 1 << 22,
	OSXSAVE = 1 << 27,
	AVX = 1 << 28,
	F16C = 1 << 29,
	/* leaf 7, ebx */
	BMI1 = 1 << 3,
	AVX2 = 1 << 5,
	BMI2 = 1 << 8,
	AVX512F = 1 << 16,
	AVX512DQ = 1 << 17,
	AVX512CD = 1 << 28,
	AVX512BW = 1 << 30,
	/* leaf 0x80000001, ecx */
	LZCNT = 1 << 5,
	/* XCR0 */
	YMM_SAVED = 0x06,
	ZMM_SAVED = 0xe6,
};
static const unsigned AVX512VL = 1u << 31; /* leaf 7, ebx; no int holds it */

static bool has(unsigned features, unsigned wanted)
{
	return (features & wanted) == wanted;
}

static unsigned saved_registers(void)
{
	unsigned low, high;

	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return low;
}

static enum weir_cpu_level detect(void)
{
	unsigned a, b, c, d, leaf1_c, leaf7_b, extended_c, saved;

	if (!__get_cpuid(1, &a, &b, &leaf1_c, &d) || !has(leaf1_c, OSXSAVE | AVX | FMA | MOVBE | F16C))
		return WEIR_CPU_V2;
	if (!__get_cpuid_count(7, 0, &a, &leaf7_b, &c, &d) || !has(leaf7_b, BMI1 | BMI2 | AVX2))
		return WEIR_CPU_V2;
	if (!__get_cpuid(0x80000001, &a, &b, &extended_c, &d) || !has(extended_c, LZCNT))
		return WEIR_CPU_V2;
	saved = saved_registers();
	if (!has(saved, YMM_SAVED))
		return WEIR_CPU_V2;
	if (!has(leaf7_b, AVX512F | AVX512DQ | AVX512CD | AVX512BW) || !has(leaf7_b, AVX512VL) ||
	    !has(saved, ZMM_SAVED))
		return WEIR_CPU_V3;
	return WEIR_CPU_V4;
}

#else

static enum weir_cpu_level detect(void)
{
	return WEIR_CPU_BASE;
}

#endif

static enum weir_cpu_level choose(void)
{
	const char *wanted = getenv("WEIR_CPU");
	enum weir_cpu_level there = detect();

	if (!wanted || !*wanted)
		return there;
	for (int level = WEIR_CPU_V2; level <= WEIR_CPU_V4; level++) {
		if (strcmp(wanted, names[level]) != 0)
			continue;
		if (level <= (int)there)
			return (enum weir_cpu_level)level;
		weir_log(WEIR_LOG_WARN, "WEIR_CPU=%s: this machine has %s only, which is used", wanted, names[there]);
		return there;
	}
	weir_log(WEIR_LOG_WARN, "WEIR_CPU=%s is not one of v2, v3, v4; %s is used", wanted, names[there]);
	return there;
}

enum weir_cpu_level weir_cpu_level(void)
{
	/* One more than the level, 0 before it is known. Relaxed: whoever chooses chooses the same. */
	static _Atomic int chosen;
	int level = atomic_load_explicit(&chosen, memory_order_relaxed);

	if (level == 0) {
		level = (int)choose() + 1;
		atomic_store_explicit(&chosen, level, memory_order_relaxed);
	}
	return (enum weir_cpu_level)(level - 1);
}

const char *weir_cpu_name(enum weir_cpu_level level)
{
	return (unsigned)level <= WEIR_CPU_V4 ? names[level] : "unknown";
}
