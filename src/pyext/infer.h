/* infer: which type holds all of some Python values.
 *
 * A node remembers what kinds of values it has seen and, for lists and dicts, has nodes below it. Values go in one by
 * one (infer_visit), then the type is asked for (infer_type). Values that have no type in common, or none at all, make
 * the whole column one of pickled objects:
 *
 *     bool                      bool                datetime        timestamp of the coarsest unit that is exact;
 *                                                                   in lists and dicts [us], [ns] where needed
 *     int in 64 bits            int64               date, time      date32, time64[us]
 *     int + float               double, while the   timedelta       duration[us], [ns] where needed
 *                               ints fit 53 bits    Decimal + int   decimal that holds all
 *     NumPy numbers             their own width,    list, tuple,    list of what their items are
 *                               or the wider one      set, 1-D array
 *     str, bytes (+ the other)  that of the first   dict            struct of all keys, in order of appearance
 *     datetime64, timedelta64   numpy_time.c        UUID            at the top: fixed_size_binary[16], arrow.uuid
 *
 * Times of several units have the finest one, if all of them fit it.
 */
#ifndef WEIR_PYEXT_INFER_H
#define WEIR_PYEXT_INFER_H

#include "pyext/values_impl.h"

enum value_kind {
	KIND_BOOL = 1 << 0,
	KIND_INT = 1 << 1,
	KIND_NUMPY = 1 << 2, /* numbers with a width: `ids` says which */
	KIND_FLOAT = 1 << 3,
	KIND_STR = 1 << 4,
	KIND_BYTES = 1 << 5,
	KIND_DATETIME = 1 << 6,
	KIND_DATE = 1 << 7,
	KIND_TIME = 1 << 8,
	KIND_DELTA = 1 << 9,
	KIND_DECIMAL = 1 << 10,
	KIND_LIST = 1 << 11,
	KIND_DICT = 1 << 12,
	KIND_TENSOR = 1 << 13, /* arrays of one dimension or more, at the top */
	KIND_MOMENT = 1 << 14, /* datetime64 */
	KIND_SPAN = 1 << 15,   /* timedelta64 */
	KIND_UUID = 1 << 16,   /* at the top */
};

enum { INFER_DEPTH_MAX = 100 };

struct infer_field;

struct infer {
	uint32_t kinds;
	uint32_t ids;       /* KIND_NUMPY: bit per weir_type_id */
	uint32_t first;     /* of KIND_STR and KIND_BYTES */
	uint64_t magnitude; /* of the largest int */
	bool wide_unsigned; /* past int64, from a uint64 */
	bool naive, aware;  /* datetimes */
	bool days, clock;   /* datetime64: whole days, parts of one */
	enum weir_time_unit unit;
	unsigned __int128 nanos; /* how far from 1970, or how long, at most */
	char zone[64];           /* of the first aware datetime */
	int64_t digits, scale;   /* decimals, before and after the point */
	int64_t bytes;           /* str and bytes, or items of lists: does it need offsets of 64 bits? */
	struct infer *item;
	uint32_t field_count, field_capacity;
	struct infer_field *fields;
	PyObject *index; /* dict: name → position, once there are many */
};

struct infer_field {
	PyObject *name;
	struct infer node;
};

/* Whether a value fits what a node can hold. FAILED: a Python exception is set. */
enum infer_answer { INFER_FITS, INFER_OTHER, INFER_FAILED };

enum infer_answer infer_visit(struct pyext_values *v, struct infer *node, PyObject *value, int depth);
/* NULL without an exception: no type holds all of it. A new reference. */
const struct weir_type *infer_type(struct pyext_values *v, const struct infer *node);
void infer_release(struct infer *node);
/* A node has met a time so far from 1970, or so long. */
void infer_extent(struct infer *node, __int128 nanos);
/* Whether the exception is that a str has a lone surrogate, and so no UTF-8. Then it is cleared, and the column is one
 * of objects. */
bool infer_is_no_text(void);

/* What a value is, by its Python type; 0 for None, KIND_OTHER for what is not known. */
enum { KIND_OTHER = 1 << 30 };
uint32_t value_kind(struct pyext_values *v, PyObject *value);
/* The id of a NumPy scalar type of numbers, WEIR_NULL for others. */
enum weir_type_id numpy_scalar_id(struct pyext_values *v, PyObject *value);
/* The id of a buffer's numbers ("<f", "l", "?"); WEIR_NULL: none, or not in this machine's order. */
enum weir_type_id buffer_id(const Py_buffer *view);

/* time_read.c: how far from 1970, or how long. FAILED with an exception. */
struct time_value {
	int64_t days, seconds, nanos;
	enum weir_time_unit unit; /* the coarsest that is exact */
};
int time_read(struct pyext_values *v, PyObject *value, uint32_t kind, struct time_value *out);
/* In a unit; false: does not fit 64 bits. */
bool time_in_unit(const struct time_value *value, enum weir_time_unit unit, int64_t *out);
/* The zone's text of an aware datetime (or time): 1, 0 for a naive one, −1 with an exception. */
int time_zone_text(struct pyext_values *v, PyObject *value, char *out, size_t size);
/* A Decimal's sign, digits and exponent; false: NaN or infinite, or too long. −1 with an exception. */
struct decimal_value {
	char text[160]; /* plain digits with a sign */
	int64_t digits, exponent;
};
int decimal_read(struct pyext_values *v, PyObject *value, struct decimal_value *out);

/* uuid.c */
const struct weir_type *uuid_type(struct pyext_values *v, struct weir_error *err);
int append_uuid(struct pyext_values *v, struct weir_builder *builder, PyObject *value);

/* build.c */
int build_append(struct pyext_values *v, struct weir_builder *builder, PyObject *value);

/* Columns of one kind alone; 1: they are not. plain.c: floats, ints, bools, strs. gather.c: arrays. */
int column_plain(struct pyext_values *v, const char *name, PyObject *const *values, int64_t count,
		 struct column_out *out);
int column_of_tensors(struct pyext_values *v, const char *name, PyObject *const *values, int64_t count,
		      struct column_out *out);

/* ndarray.c. The array in this machine's order of bytes, and in one piece. A new reference. */
PyObject *ndarray_in_order(struct pyext_values *v, PyObject *array);
/* An array in order as one of a type of numbers that lie as its own do. */
struct weir_array *ndarray_numbers(struct pyext_values *v, PyObject *array, const struct weir_type *type);

/* numpy_time.c */
/* False: no type holds such a unit. */
bool numpy_time_read(const char *dtype_text, struct numpy_time *out);
enum infer_answer infer_numpy_time(struct pyext_values *v, struct infer *node, PyObject *value, bool nested);
/* The items of an array inside a list or dict; OTHER for arrays of anything else, too. */
enum infer_answer infer_numpy_times(struct pyext_values *v, struct infer *items, PyObject *array, int64_t *length);
int append_numpy_time(struct pyext_values *v, struct weir_builder *builder, PyObject *value);
int append_numpy_times(struct pyext_values *v, struct weir_builder *items, PyObject *array);
/* A column, or the items of a tensor. 1: no type holds all of it. */
int array_of_numpy_times(struct pyext_values *v, PyObject *array, struct weir_array **out);
/* Puts column, row and type in front of the exception that is set; −1. */
int build_failed_at(const char *name, int64_t row, PyObject *value);

#endif
