/* array: Arrow arrays, immutable and shared. The layout is Arrow's columnar format; offsets of slices stay in `offset`.
 *
 * buffers[0] is the validity bitmap (data NULL: no nulls), [1] values or offsets, [2] the bytes of strings.
 * A buffer keeps its owner alive: memory of an account, a store chunk, a page, a foreign release callback.
 * Threads: counts are atomic; arrays may be shared freely.
 */
#ifndef WEIR_ARROW_ARRAY_H
#define WEIR_ARROW_ARRAY_H

#include "arrow/type.h"

/* Whoever owns bytes that arrays point into. All-zero refs is not legal: start at 1. */
struct weir_owner {
	_Atomic uint32_t refs;
	void (*release)(struct weir_owner *owner);
};

static inline struct weir_owner *weir_owner_ref(struct weir_owner *owner)
{
	if (owner)
		atomic_fetch_add_explicit(&owner->refs, 1, memory_order_relaxed);
	return owner;
}

static inline void weir_owner_unref(struct weir_owner *owner)
{
	/* acq_rel: the last one must see what the others wrote before they let go. */
	if (owner && atomic_fetch_sub_explicit(&owner->refs, 1, memory_order_acq_rel) == 1)
		owner->release(owner);
}

struct weir_buffer {
	const uint8_t *data; /* NULL: absent */
	uint64_t size;
	struct weir_owner *owner; /* NULL: static or kept alive by someone else (borrowed) */
};

/* Allocates writable memory, zero past `size` up to the next multiple of 64. */
int weir_buffer_new(struct weir_account *account, uint64_t size, struct weir_buffer *out, uint8_t **writable,
		    struct weir_error *err);
/* Makes a buffer of memory that the caller has from weir_alloc with `capacity` ≥ 64, a multiple of 64, ≥ size. Consumes
 * it, also on failure. The bytes past `size` are made zero up to the next multiple of 64. */
int weir_buffer_adopt(struct weir_account *account, void *memory, size_t capacity, uint64_t size,
		      struct weir_buffer *out, struct weir_error *err);
static inline struct weir_buffer weir_buffer_ref(const struct weir_buffer *buffer)
{
	weir_owner_ref(buffer->owner);
	return *buffer;
}
void weir_buffer_release(struct weir_buffer *buffer);

struct weir_array {
	const struct weir_type *type; /* a reference */
	int64_t length, offset;
	int64_t null_count; /* -1: not counted yet */
	struct weir_buffer buffers[3];
	uint32_t child_count;
	/* References. A struct's row i is row offset + i of each child; a list's offsets count rows of its child. */
	struct weir_array **children;
	struct weir_array *dictionary; /* DICTIONARY_TYPE: the values */
	_Atomic uint32_t refs;
	struct weir_account *account;
};

/* An array with room for its type's children, all buffers absent. Takes its own reference to `type`. */
struct weir_array *weir_array_new(struct weir_account *account, const struct weir_type *type, struct weir_error *err);
struct weir_array *weir_array_ref(const struct weir_array *array);
void weir_array_unref(const struct weir_array *array);
/* Counts when the array does not know; the result is not kept, since arrays are shared between threads. */
int64_t weir_array_null_count(const struct weir_array *array);
bool weir_array_is_valid(const struct weir_array *array, int64_t row); /* for tests and printing, not for loops */

/* DICTIONARY_TYPE: which of the values a row means, the row counted from the buffer's first, so with the array's
 * offset. Those of rows that are not null are never negative: signed and unsigned codes are read alike. */
static inline int64_t weir_array_code(const struct weir_array *array, int64_t place)
{
	const void *codes = array->buffers[1].data;

	switch (array->type->byte_width) {
	case 1:
		return ((const uint8_t *)codes)[place];
	case 2:
		return ((const uint16_t *)codes)[place];
	case 4:
		return ((const uint32_t *)codes)[place];
	default:
		return ((const int64_t *)codes)[place];
	}
}

/* Offsets ascending and inside the data, lengths and child lengths sufficient, codes inside dictionaries, UTF-8 valid
 * (with `deep`). For whatever comes from outside. Errors name the path of the column ("a.item.b"). */
int weir_array_validate(const struct weir_array *array, bool deep, struct weir_error *err);

/* compute (slice.c, concat.c, take.c, equal.c, promote.c, dictionary.c): results are new arrays, sharing buffers where
 * nothing moves. */
struct weir_array *weir_array_slice(const struct weir_array *array, int64_t offset, int64_t length,
				    struct weir_error *err);
struct weir_array *weir_array_concat(struct weir_account *account, struct weir_array *const *arrays, uint32_t count,
				     struct weir_error *err);
struct weir_array *weir_array_take(struct weir_account *account, const struct weir_array *array, const int64_t *rows,
				   int64_t count, struct weir_error *err); /* row −1 gives null */
/* The same rows of several arrays: numbers are looked through once. On failure `out` holds nothing. */
int weir_arrays_take(struct weir_account *account, struct weir_array *const *arrays, uint32_t array_count,
		     const int64_t *rows, int64_t count, struct weir_array **out, struct weir_error *err);
struct weir_array *weir_array_filter(struct weir_account *account, const struct weir_array *array,
				     const uint64_t *keep_bits, struct weir_error *err);
/* Same type, length, nulls and values at non-null places; NaN equals NaN when asked. */
bool weir_array_equal(const struct weir_array *a, const struct weir_array *b, bool nan_equal);
/* Nested and plain casts that lose nothing, as unification needs them (int → wider/float, null → any, fields added,
 * dictionary → values). */
struct weir_array *weir_array_promote(struct weir_account *account, const struct weir_array *array,
				      const struct weir_type *type, struct weir_error *err);
/* The same from one field to another, which may make tensors ragged (tensor.h). */
struct weir_array *weir_array_promote_field(struct weir_account *account, const struct weir_array *array,
					    const struct weir_field *from, const struct weir_field *to,
					    struct weir_error *err);
/* The rows as codes of `type`, a dictionary of the array's own type: values in order of first appearance, nulls as null
 * rows. Values of nested types are refused. */
struct weir_array *weir_array_encode(struct weir_account *account, const struct weir_array *array,
				     const struct weir_type *type, struct weir_error *err);

/* A table slice: columns of one length. Counted like arrays. */
struct weir_batch {
	struct weir_schema *schema;
	int64_t row_count;
	uint32_t column_count;
	struct weir_array **columns;
	_Atomic uint32_t refs;
	struct weir_account *account;
};

/* Takes over nothing: references schema and columns. */
struct weir_batch *weir_batch_new(struct weir_account *account, const struct weir_schema *schema, int64_t row_count,
				  struct weir_array *const *columns, struct weir_error *err);
/* Its rows under a schema that weir_schema_unify made of its own and others: columns by name, what it lacks null.
 * `exact`: where an integer would lose digits as a float, an error. */
struct weir_batch *weir_batch_promote(struct weir_account *account, const struct weir_batch *batch,
				      const struct weir_schema *schema, bool exact, struct weir_error *err);
struct weir_batch *weir_batch_ref(const struct weir_batch *batch);
void weir_batch_unref(const struct weir_batch *batch);
int64_t weir_batch_bytes(
	const struct weir_batch *batch); /* that its rows take, as if they were written by themselves */
/* The same of some rows of an array, whose dictionaries are not counted. */
int64_t weir_array_rows_bytes(const struct weir_array *array, int64_t first, int64_t count);

/* builder (builder.c): grows one array; strings, lists and structs through their children. finish empties it. */
struct weir_builder {
	const struct weir_type *type;
	struct weir_account *account;
	int64_t length, null_count;
	uint8_t *validity, *values, *bytes; /* values: fixed values, bits or offsets */
	size_t validity_capacity, values_capacity, bytes_capacity, bytes_size;
	uint32_t child_count;
	struct weir_builder *children;
	/* DICTIONARY_TYPE: the values that the codes so far mean; once there were two different ones, the table of
	 * both. */
	struct weir_array *dictionary;
	struct dictionary_table *table;
};

int weir_builder_init(struct weir_builder *builder, const struct weir_type *type, struct weir_account *account,
		      struct weir_error *err);
void weir_builder_release(struct weir_builder *builder);
uint64_t weir_builder_memory(const struct weir_builder *builder); /* bytes that it holds, its children included */
int weir_builder_null(struct weir_builder *builder, int64_t count, struct weir_error *err);
/* Fixed-width values (bool: one byte each, 0 or 1; dictionary: codes, see weir_builder_dictionary) and one string;
 * lists: append to children[0], then list_end. */
int weir_builder_fixed(struct weir_builder *builder, const void *values, int64_t count, struct weir_error *err);
int weir_builder_bytes(struct weir_builder *builder, const void *bytes, size_t size, struct weir_error *err);
int weir_builder_list_end(struct weir_builder *builder, struct weir_error *err); /* list, large list, map, fixed list */
int weir_builder_struct_end(struct weir_builder *builder,
			    struct weir_error *err); /* one valid row, children appended */
/* The values that codes mean, before the first of them is appended. */
int weir_builder_dictionary(struct weir_builder *builder, const struct weir_array *values, struct weir_error *err);
/* Appends rows of an array of the same type. Dictionaries that differ are united and the codes translated. */
int weir_builder_array(struct weir_builder *builder, const struct weir_array *array, int64_t offset, int64_t count,
		       struct weir_error *err);
/* Dictionaries of the arrays appended so far are shared until this is called: afterwards the builder has its own, and
 * the arrays may go together with the account they came from. */
int weir_builder_settle(struct weir_builder *builder, struct weir_error *err);
struct weir_array *weir_builder_finish(struct weir_builder *builder, struct weir_error *err);

#endif
