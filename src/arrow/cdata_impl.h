/* What the importers of the C Data Interface share. */
#ifndef WEIR_ARROW_CDATA_IMPL_H
#define WEIR_ARROW_CDATA_IMPL_H

#include "arrow/arrow_impl.h"
#include "arrow/cdata.h"

/* How a foreign array is laid out, where its weir type does not say. */
enum cdata_form {
	CDATA_PLAIN,
	CDATA_VIEW,            /* "vu", "vz": 16-byte views → string, binary */
	CDATA_LIST_VIEW,       /* "+vl" → list */
	CDATA_LARGE_LIST_VIEW, /* "+vL" → large list */
	CDATA_RUN_END,         /* "+r" → the type of its values */
	CDATA_DECIMAL32,       /* "d:p,s,32" → decimal128 */
	CDATA_DECIMAL64,
};

/* NULL: plain. */
enum cdata_form cdata_form_of(const struct ArrowSchema *schema);

/* cdata_import.c: arrays over one foreign struct, kept alive by its owner. */
struct cdata_import {
	struct weir_account *account;
	struct weir_owner *owner;
};

struct weir_array *cdata_import_node(const struct cdata_import *import, const struct ArrowSchema *foreign,
				     const struct weir_type *type, const struct ArrowArray *from,
				     struct weir_error *err);
/* Lengths and offsets that can be; the validity bitmap, if any, into buffers[0]. */
int cdata_import_head(const struct cdata_import *import, const struct ArrowArray *from, int64_t buffers_min,
		      struct weir_array *to, struct weir_error *err);

/* cdata_convert.c: what weir does not compute with becomes what it does. */
struct weir_array *cdata_convert_view(const struct cdata_import *import, const struct weir_type *type,
				      const struct ArrowArray *from, struct weir_error *err);
struct weir_array *cdata_convert_list_view(const struct cdata_import *import, const struct ArrowSchema *foreign,
					   const struct weir_type *type, const struct ArrowArray *from,
					   struct weir_error *err);
struct weir_array *cdata_convert_run_end(const struct cdata_import *import, const struct ArrowSchema *foreign,
					 const struct weir_type *type, const struct ArrowArray *from,
					 struct weir_error *err);
struct weir_array *cdata_convert_decimal(const struct cdata_import *import, const struct weir_type *type,
					 unsigned width, const struct ArrowArray *from, struct weir_error *err);

/* cdata_schema.c: the type that a foreign schema says, converted forms included. */
const struct weir_type *cdata_import_type(struct weir_account *account, const struct ArrowSchema *schema,
					  struct weir_error *err);

#endif
