/* cdata: the Arrow C Data and C Stream Interfaces, in and out.
 *
 * Import takes the structs over (moves them, also on failure) and shares the foreign buffers; view and run-end-encoded
 * arrays are converted to the plain types. Imported arrays are validated before anyone sees them.
 * Export gives structs whose release drops our references; they may outlive the session's plan, not its memory.
 */
#ifndef WEIR_ARROW_CDATA_H
#define WEIR_ARROW_CDATA_H

#include "weir/arrow_abi.h"
#include "arrow/array.h"

int weir_cdata_import_schema(struct weir_account *account, struct ArrowSchema *schema, struct weir_schema **out,
			     struct weir_error *err); /* a struct schema: its fields */
/* A struct array as a batch; nulls of the struct itself become nulls of its columns. Without `foreign` the array must
 * be laid out by the types of `schema`, plainly; views and the like cannot be told from the array alone, so they need
 * the schema that came with it (borrowed; what import_schema made of it is `schema`). */
int weir_cdata_import_batch(struct weir_account *account, const struct weir_schema *schema, struct ArrowArray *array,
			    struct weir_batch **out, struct weir_error *err);
int weir_cdata_import_batch_as(struct weir_account *account, const struct ArrowSchema *foreign,
			       const struct weir_schema *schema, struct ArrowArray *array, struct weir_batch **out,
			       struct weir_error *err);
int weir_cdata_import_array(struct weir_account *account, struct ArrowSchema *schema, struct ArrowArray *array,
			    struct weir_array **out, struct weir_error *err);
int weir_cdata_export_schema(const struct weir_schema *schema, struct ArrowSchema *out, struct weir_error *err);
int weir_cdata_export_type(struct weir_account *account, const struct weir_type *type, const char *name,
			   struct ArrowSchema *out, struct weir_error *err);
int weir_cdata_export_batch(const struct weir_batch *batch, struct ArrowArray *out, struct weir_error *err);
int weir_cdata_export_array(const struct weir_array *array, struct ArrowArray *out, struct weir_error *err);

/* A stream over a pull function: next gives a new batch reference, or NULL at the end. */
struct weir_batch_source {
	int (*next)(void *state, struct weir_batch **out, struct weir_error *err);
	void (*release)(void *state);
	void *state;
};
/* Takes the source over (also on failure). */
int weir_cdata_export_stream(struct weir_account *account, const struct weir_schema *schema,
			     struct weir_batch_source source, struct ArrowArrayStream *out, struct weir_error *err);
/* The reverse: the foreign stream, taken over (also on failure), as a source. The source's state belongs to it
 * alone. */
int weir_cdata_import_stream(struct weir_account *account, struct ArrowArrayStream *stream, struct weir_schema **schema,
			     struct weir_batch_source *out, struct weir_error *err);

#endif
