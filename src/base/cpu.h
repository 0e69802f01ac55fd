/* cpu: which build of the kernels this machine runs.
 *
 * Kernel files are compiled once per level with WEIR_KERNEL_SUFFIX set (meson.build); each defines one const table of
 * function pointers named with the suffix. weir_cpu_level() picks the level once: what the CPU has, or
 * WEIR_CPU=v2|v3|v4 (an unknown or unavailable level is reported and ignored).
 */
#ifndef WEIR_BASE_CPU_H
#define WEIR_BASE_CPU_H

enum weir_cpu_level { WEIR_CPU_V2, WEIR_CPU_V3, WEIR_CPU_V4, WEIR_CPU_BASE = WEIR_CPU_V2 };

enum weir_cpu_level weir_cpu_level(void);
const char *weir_cpu_name(enum weir_cpu_level level);

/* In a kernel file: WEIR_KERNEL(name) is name_v2, name_v3 … */
#define WEIR_KERNEL_PASTE2(name, suffix) name##suffix
#define WEIR_KERNEL_PASTE(name, suffix) WEIR_KERNEL_PASTE2(name, suffix)
#ifdef WEIR_KERNEL_SUFFIX
#define WEIR_KERNEL(name) WEIR_KERNEL_PASTE(name, WEIR_KERNEL_SUFFIX)
#endif

/* In the file that chooses: WEIR_KERNEL_DECLARE(struct parquet_kernels, parquet_kernels) declares the tables,
 * WEIR_KERNEL_CHOOSE(parquet_kernels) is a pointer to the one for this machine. */
#if defined(WEIR_ONLY_LEVEL) /* a build for tests, on a machine that has this level */
#define WEIR_KERNEL_DECLARE(type, name) extern const type WEIR_KERNEL_PASTE(name, WEIR_ONLY_LEVEL)
#define WEIR_KERNEL_CHOOSE(name) (&WEIR_KERNEL_PASTE(name, WEIR_ONLY_LEVEL))
#elif defined(__x86_64__)
#define WEIR_KERNEL_DECLARE(type, name) extern const type name##_v2, name##_v3, name##_v4
#define WEIR_KERNEL_CHOOSE(name)                                                                                       \
	(weir_cpu_level() == WEIR_CPU_V4 ? &name##_v4 : weir_cpu_level() == WEIR_CPU_V3 ? &name##_v3 : &name##_v2)
#else
#define WEIR_KERNEL_DECLARE(type, name) extern const type name##_base
#define WEIR_KERNEL_CHOOSE(name) (&name##_base)
#endif

#endif
