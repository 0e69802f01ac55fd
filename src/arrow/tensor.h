/* Tensors in columns: what a field's metadata says of its storage, and the one form that tensors of several shapes
 * share.
 *
 *     fixed     arrow.fixed_shape_tensor              fixed_size_list<T>[n], {"shape": [2, 3], "permutation": …}
 *               ray.data.arrow_tensor, _v2            list<T>, large_list<T>; metadata: [2, 3]
 *     ragged    arrow.variable_shape_tensor           struct<data: list<T>, shape: fixed_size_list<int32>[dimensions]>
 *               ray.data.arrow_variable_shaped_tensor struct<data: large_list<T>, shape: list<int64>>; metadata: 2
 *
 * Two tensor columns that differ become arrow.variable_shape_tensor when they meet; a shape with fewer dimensions gets
 * ones in front. Values are shared, not copied.
 */
#ifndef WEIR_ARROW_TENSOR_H
#define WEIR_ARROW_TENSOR_H

#include "arrow/array.h"

#define WEIR_EXTENSION_NAME "ARROW:extension:name"
#define WEIR_EXTENSION_METADATA "ARROW:extension:metadata"
#define WEIR_FIXED_TENSOR "arrow.fixed_shape_tensor"
#define WEIR_RAGGED_TENSOR "arrow.variable_shape_tensor"
#define WEIR_RAGGED_METADATA "{}" /* an object must be there */

enum { WEIR_TENSOR_DIMS_MAX = 32 };

struct weir_tensor_shape {
	uint32_t count;
	int64_t sizes[WEIR_TENSOR_DIMS_MAX];
	bool permuted;
	uint32_t order[WEIR_TENSOR_DIMS_MAX]; /* which of the sizes comes i-th for the user */
};

bool weir_field_has_extension(const struct weir_field *field, const char *name);
/* Whether the values of one are values of the other: the same type and, of tensors, the same shape. */
bool weir_field_same(const struct weir_field *a, const struct weir_field *b);
bool weir_schema_same(const struct weir_schema *a, const struct weir_schema *b); /* all fields, in order */

/* Storage that does not fit the metadata is no tensor. */
bool weir_tensor_fixed(const struct weir_field *field, struct weir_tensor_shape *out);
bool weir_tensor_ragged(const struct weir_field *field);

/* Whether two columns are tensors of which the shapes differ, so that together they are ragged. */
bool weir_tensor_meets(const struct weir_field *a, const struct weir_field *b);
/* The type of what they become: a new reference. */
const struct weir_type *weir_tensor_unify(struct weir_account *account, const struct weir_field *a,
					  const struct weir_field *b, struct weir_error *err);
/* Name, metadata and all of `out` but its type's reference, which the caller has. */
void weir_tensor_mark(struct weir_field *out);
/* A tensor column's rows as those of a type that weir_tensor_unify gave. */
struct weir_array *weir_tensor_promote(struct weir_account *account, const struct weir_array *from,
				       const struct weir_field *field, const struct weir_type *type,
				       struct weir_error *err);

#endif
