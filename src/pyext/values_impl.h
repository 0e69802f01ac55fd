/* What the files of the values share: the cached Python objects, and how one file calls the other.
 *
 *     batch.c    the Batch type                         infer.c    values → the type that holds them
 *     exporter.c memory that Python holds, both ways    build.c    values → an array of that type
 *     stream.c   Arrow streams of batches that Python makes
 *     arrow.c    capsules, in and out                   columns.c  arrays of any library → columns
 *     numpy.c    columns → NumPy                        objects.c  modules and types, imported at first use
 *     numpy_time.c  its datetime64 and timedelta64 → values and types
 *     rows.c     rows → dicts, mappings → columns       tensor.c   the two tensor extension types
 *     scalar.c   plain values → Python                  time.c     the same for dates and times
 *
 * Threads: everything runs under the GIL but the release of owners, which may come from any thread.
 */
#ifndef WEIR_PYEXT_VALUES_IMPL_H
#define WEIR_PYEXT_VALUES_IMPL_H

#include "arrow/bitmap.h"
#include "arrow/tensor.h"
#include "pyext/values.h"

#define OBJECT_NAME "weir.python_object"
#define UUID_NAME "arrow.uuid"

enum { UNIT_COUNT = 4 };

/* Filled at the first use of NumPy; no array or NumPy scalar can be there before the program imported it. */
struct numpy_objects {
	PyObject *ndarray; /* the type */
	PyObject *generic; /* what all scalars derive from */
	PyObject *empty, *frombuffer, *ascontiguousarray, *asarray, *stack, *concatenate;
	PyObject *datetime64, *timedelta64;
	/* By weir_type_id of plain numbers and bool: the dtype, and the scalar type. */
	PyObject *dtypes[WEIR_DOUBLE + 1];
	PyObject *scalars[WEIR_DOUBLE + 1];
	PyObject *longlong, *ulonglong; /* of 64 bits too, where C's long is int64 */
	PyObject *object_dtype, *day_dtype, *int64_name;
	PyObject *time_dtypes[UNIT_COUNT], *delta_dtypes[UNIT_COUNT];
};

/* What the values of a dtype of times count (numpy_time.c). */
struct numpy_time {
	bool moment;   /* datetime64 */
	bool days;     /* in days, not in `unit` */
	bool nameless; /* no unit: NaT, or a number of nobody knows what */
	enum weir_time_unit unit;
	int64_t months; /* in months: how many; 0 */
	int64_t factor; /* a count is so many */
};

struct datetime_objects {
	PyObject *datetime, *date, *time, *timedelta, *timezone; /* types */
	PyObject *utc, *epoch, *epoch_utc, *epoch_date;
	PyObject *timestamp, *pandas_delta; /* pandas.Timestamp, pandas.Timedelta; NULL where there is no pandas */
	PyObject *nat;                      /* pandas.NaT */
	bool pandas_tried;
};

/* Names used in attribute look-ups, interned. */
/* clang-format off */
#define VALUES_NAMES(X)                                                                                                \
	X(days) X(seconds) X(microseconds) X(nanoseconds) X(hour) X(minute) X(second) X(microsecond) X(tzinfo)         \
	X(utcoffset) X(fromutc) X(key) X(zone) X(dtype) X(kind) X(str) X(isnative) X(shape) X(reshape) X(transpose)    \
	X(view) X(astype) X(tolist) X(detach) X(cpu) X(numpy) X(__arrow_c_array__) X(__arrow_c_stream__) X(nbytes)   \
	X(bytes)
/* clang-format on */

struct pyext_values {
	struct api_keeper keeper; /* the module, every Batch and every owner that needs this struct or its memory */
	struct weir_mem *mem;
	struct weir_account *account;
	PyObject *module; /* borrowed: NULL once it is gone */
	/* Owners of Python memory whose last view died on a thread that may not hold the GIL; a stack, newest first. */
	_Atomic(struct python_owner *) dropped;
	PyObject *batch_type, *buffer_type;
	struct numpy_objects numpy;
	struct datetime_objects datetime;
	PyObject *times_dtype; /* of the times read last, which are like the next ones; may be NULL */
	struct numpy_time times;
	PyObject *decimal, *uuid; /* the types */
	PyObject *zones;          /* dict: zone text → tzinfo */
	PyObject *dumps, *loads;
	struct {
#define X(name) PyObject *name;
		VALUES_NAMES(X)
#undef X
	} names;
};

/* batch.c */
struct batch_object {
	PyObject_HEAD
	struct weir_batch *batch;
	struct api_keeper *keeper;
	int64_t pid; /* values_pid */
};
/* The process to which memory of the keeper belongs; 0: to any that has it, for values are made without threads. What
 * an engine made is not freed in a forked child: a lock of the parent's threads may be held there for ever. */
int64_t values_pid(const struct pyext_values *v, const struct api_keeper *keeper);
bool values_may_free(int64_t pid);
struct pyext_values *values_of_module(PyObject *module);
struct pyext_values *values_of_object(PyObject *self); /* Batch, Buffer */
PyObject *batch_wrap(struct pyext_values *v, struct weir_batch *batch, struct api_keeper *keeper);
/* Raises what the engine's error says; always NULL. */
PyObject *values_raise(struct pyext_values *v, const struct weir_error *err);
extern PyType_Spec batch_spec;

/* exporter.c: Arrow memory for Python (a Buffer object per column), and Python memory for Arrow (an owner per
 * buffer). */
extern PyType_Spec buffer_spec;
/* An object with a read-only buffer of `size` bytes at `data`, which `array` keeps alive. */
PyObject *exporter_new(struct pyext_values *v, const struct weir_array *array, struct api_keeper *keeper,
		       const void *data, Py_ssize_t size);
/* Takes the buffer over (also on failure): an owner that releases it under the GIL. */
struct weir_owner *python_owner_buffer(struct pyext_values *v, Py_buffer *view);
/* Releases what was dropped since the last call. */
void values_drain(struct pyext_values *v);

/* objects.c: what is imported at first use. 0 or −1. */
int values_need_numpy(struct pyext_values *v);
bool values_have_numpy(struct pyext_values *v); /* only looks: false when the program did not import it */
int values_need_datetime(struct pyext_values *v);
int values_try_pandas(struct pyext_values *v);
int values_need_decimal(struct pyext_values *v);
int values_need_uuid(struct pyext_values *v);
bool values_have_uuid(struct pyext_values *v); /* only looks, as values_have_numpy does */
int values_need_pickle(struct pyext_values *v);
void values_clear(struct pyext_values *v);

/* scalar.c: rows [at, at + count) of an array as plain Python values, new references in out[0 … count). On failure
 * none of them is left. `at` counts from the array's own first row. */
int values_objects(struct pyext_values *v, const struct weir_array *array, int64_t at, int64_t count, PyObject **out);
void objects_release(PyObject **objects, int64_t count);
/* A dictionary's values made once (PyMem_Free, after objects_release) and shared by `count` rows, where they cannot be
 * changed and are not many more than rows. */
bool dictionary_shares(const struct weir_array *array, int64_t count);
PyObject **dictionary_made(struct pyext_values *v, const struct weir_array *array);
void dictionary_pick(const struct weir_array *array, int64_t at, int64_t count, PyObject **made, PyObject **out);
/* time.c: the same for temporal types, one value each; `value` is what lies in the array. */
PyObject *time_object(struct pyext_values *v, const struct weir_type *type, int64_t value);
/* tzinfo of a zone's text, borrowed from the cache. */
PyObject *time_zone(struct pyext_values *v, const char *zone);

/* numpy.c */
struct numpy_request {
	struct pyext_values *v;
	struct api_keeper *keeper;
	bool writable;
	/* As pyarrow has them, nulls alone are None in lists and NaN elsewhere, and moments in lists inside dicts are
	 * datetimes. */
	enum numpy_place { AT_TOP, IN_LIST, IN_DICT } place;
};
PyObject *numpy_array(const struct numpy_request *request, const struct weir_array *array, int64_t at, int64_t count);
PyObject *numpy_column(const struct numpy_request *request, const struct weir_field *field,
		       const struct weir_array *array, int64_t at, int64_t count);
/* An array of `count` objects and its slots, to be filled by the caller. */
PyObject *numpy_objects_new(struct pyext_values *v, int64_t count, Py_buffer *view);
/* The items of `rows` as objects, None where `array` is null. */
PyObject *numpy_spread(struct pyext_values *v, const struct weir_array *array, int64_t at, int64_t count,
		       PyObject *rows);

/* tensor.c */
bool field_is_object(const struct weir_field *field);
PyObject *tensor_fixed_numpy(const struct numpy_request *request, const struct weir_array *array, int64_t at,
			     int64_t count, const struct weir_tensor_shape *shape);
PyObject *tensor_ragged_numpy(const struct numpy_request *request, const struct weir_array *array, int64_t at,
			      int64_t count);

/* uuid.c */
bool field_is_uuid(const struct weir_field *field);
/* Bytes replaced by the UUIDs that they are; None stays. On failure none of the references is left. */
int uuids_from_bytes(struct pyext_values *v, PyObject **values, int64_t count);

/* rows.c */
PyObject *batch_rows(struct pyext_values *v, const struct batch_object *self, int64_t from, int64_t to);
PyObject *batch_values(struct pyext_values *v, const struct batch_object *self,
		       uint32_t column); /* a list of one column's */

/* One column on its way into a batch. All-zero is empty. */
struct column_out {
	struct weir_array *array;
	struct weir_metadata metadata;
	/* What metadata points into: the schema it came with, or the texts of an extension made here. */
	struct weir_schema *schema;
	struct weir_metadata_entry entries[2];
	char shape[512];
};
void column_out_release(struct column_out *column);
void column_extend(struct column_out *column, const char *extension); /* with `shape`, where it is set */

/* build.c: `values` are references that the caller holds (NULL: missing). */
int column_from_values(struct pyext_values *v, const char *name, PyObject *const *values, int64_t count,
		       struct column_out *out);
/* The same, as a column of Python objects whatever they are. */
int column_of_objects(struct pyext_values *v, const char *name, PyObject *const *values, int64_t count,
		      struct column_out *out);

/* columns.c: one column given as a list, an array of some library … */
int column_from_object(struct pyext_values *v, const char *name, PyObject *value, struct column_out *out);
int column_from_list(struct pyext_values *v, const char *name, PyObject *list, struct column_out *out);
/* Tensors of torch, and what else NumPy makes arrays of, stand as arrays from here on, where a column begins with one.
 * The references are the caller's. */
int values_as_arrays(struct pyext_values *v, const char *name, PyObject **values, int64_t count);
bool is_mapping(PyObject *object); /* a dict, or what has keys */
/* A column's name as UTF-8 without NULs, alive as long as the str; NULL with an exception. */
const char *column_name_text(PyObject *key);
/* ndarray.c */
int column_from_ndarray(struct pyext_values *v, const char *name, PyObject *array, struct column_out *out);
/* row_count: of a batch without columns; −1: none given. */
struct weir_batch *batch_from_columns(struct pyext_values *v, PyObject *columns, int64_t row_count);
/* A new batch of the columns' arrays, which stay the caller's. */
struct weir_batch *batch_of_columns(struct pyext_values *v, const char *const *names, const struct column_out *columns,
				    uint32_t count, int64_t row_count);

/* arrow.c */
PyObject *batch_c_schema(PyObject *self, PyObject *unused);
PyObject *arrow_stream_capsule(struct ArrowArrayStream *from); /* takes it over, also on failure */
PyObject *batch_c_array(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *batch_c_stream(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *values_from_arrow(PyObject *module, PyObject *args, PyObject *kwargs);
int column_from_arrow(struct pyext_values *v, const char *name, PyObject *value, struct column_out *out);
/* 1: not all of them are pyarrow's scalars, or no type holds them. */
int column_of_arrow_scalars(struct pyext_values *v, const char *name, PyObject *const *values, int64_t count,
			    struct column_out *out);

/* concat.c */
PyObject *values_concat(PyObject *module, PyObject *batches);
PyObject *values_zip(PyObject *module, PyObject *batches);

/* row_bytes.c */
PyObject *values_row_bytes(PyObject *module, PyObject *rows);

/* stream.c */
PyObject *values_stream(PyObject *module, PyObject *args);

#endif
