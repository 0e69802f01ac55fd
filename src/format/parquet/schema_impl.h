/* schema: between schema.c, which walks the tree, and schema_leaf.c, which knows the types of leaves. */
#ifndef WEIR_FORMAT_PARQUET_SCHEMA_IMPL_H
#define WEIR_FORMAT_PARQUET_SCHEMA_IMPL_H

#include "format/parquet/read_impl.h"

struct parquet_schema_build {
	struct parquet_file *file;
	struct weir_error *err;
	uint32_t next; /* element */
	uint32_t leaf;
	bool keeps_names; /* of lists' elements, as ARROW:schema has them: storage of an extension type */
	char path[1024];  /* of the element being built, cut when longer */
};

/* Fills err, with the column; returns the code. */
int parquet_schema_refuse(struct parquet_schema_build *build, int code, const char *what);

/* A new reference, or NULL with err set. `hint` is what ARROW:schema says (NULL: nothing): where it fits what is
 * stored, the type comes back as it went in. */
const struct weir_type *parquet_leaf_type(struct parquet_schema_build *build, const struct parquet_element *element,
					  const struct weir_type *hint);
/* info->type is set: how to get there from the physical values. */
int parquet_leaf_convert(struct parquet_schema_build *build, const struct parquet_element *element,
			 struct parquet_leaf_info *info);

#endif
