/* stages: what follows the first call of a flow, as a run wants it.
 *
 *     read, filter │ call f │ select │ call g │ filter, write
 *     ─ the plan ─   ───────── stages ───────────────────────
 *
 * Steps between two calls, and behind the last, have no schema before rows come: they are kept as they were given, and
 * put into a plan of their own for each schema that is met. A call that directly follows another, or is the last, has
 * no native stage behind it.
 */
#ifndef WEIR_API_STAGES_H
#define WEIR_API_STAGES_H

#include "ops/blocks.h"
#include "backend/backend.h"

struct api_stages;

/* How the steps are put into a plan: those from `first` to `last`, the flow's own numbers. */
struct api_steps {
	int (*build)(const void *state, size_t first, size_t last, struct weir_plan *plan, struct weir_error *err);
	void *state;
	size_t count;
	/* The call that a step is; NULL: it is native. */
	const struct weir_call *(*call)(const void *state, size_t step);
	void (*free)(void *state); /* with the stages, and when making them fails */
};

/* What becomes of the rows behind the last step. */
enum api_tail_end {
	API_TAIL_SINK,     /* the last step is a sink */
	API_TAIL_COUNT,    /* they are counted */
	API_TAIL_CONSUMER, /* the consumer gets chunks */
};

/* Steps behind the first call; takes their state over. `first_call` is steps->count when there is none: then only the
 * consumer follows the plan, whose end is to be `chunks` in any case. */
int api_stages_new(struct weir_session *session, const struct api_steps *steps, size_t first_call,
		   enum api_tail_end end, const struct weir_run_consumer *consumer, struct api_stages **out,
		   struct weir_error *err);
const struct weir_run_tail *api_stages_tail(const struct api_stages *stages);
/* What the first plan's `chunks` are to be like. */
struct weir_chunks_options api_stages_chunks(const struct api_stages *stages);
/* The columns of what native steps behind the last call give the consumer, as they were for the first rows that came to
 * them; NULL: none came, or the call is the last. After the run. Borrowed. */
const struct weir_schema *api_stages_schema(const struct api_stages *stages);
void api_stages_free(struct api_stages *stages); /* after the run; a sink that was not committed aborts */

#endif
