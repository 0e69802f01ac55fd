/* weir: a streaming data engine.
 *
 * The one public header. Every symbol that libweir exports is declared here with WEIR_API. A plan is a chain of verbs,
 * as the command takes them: read 'data/' then filter 'price > 100' then write out/
 *
 * Threads: every function may be called from any thread; a stream is used by one thread at a time.
 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include "weir/arrow_abi.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_API __attribute__((visibility("default")))

/* The version of the library that is loaded, such as "0.1.0". Static storage. */
WEIR_API const char *weir_version(void);

struct weir_options {
	size_t struct_size;   /* sizeof(struct weir_options) of the program's header */
	int64_t memory_limit; /* bytes; 0: 60 % of what the machine or its cgroup has */
	uint32_t threads;     /* 0: one a CPU */
};

/* What a run did. */
struct weir_result {
	size_t struct_size;
	uint64_t rows_in, rows_out;
	int64_t memory_peak;
};

/* Runs a chain that ends in write or count, to its end. `input` feeds the verb `batches` and is taken over (also on
 * failure); NULL when the chain reads files. 0, or the number of an error whose text is in `message`. options, result
 * and message may be NULL. */
WEIR_API int weir_run_chain(const char *chain, const struct weir_options *options, struct ArrowArrayStream *input,
			    struct weir_result *result, char *message, size_t message_size);

/* Runs a chain without a sink and gives its rows, in input order, as they come. The run goes on in the background, a
 * few batches ahead; releasing the stream stops it. */
WEIR_API int weir_stream_chain(const char *chain, const struct weir_options *options, struct ArrowArrayStream *input,
			       struct ArrowArrayStream *out, char *message, size_t message_size);

#ifdef __cplusplus
}
#endif

#endif
