/* A list of mappings as a batch. Values are gathered by column as references; rows with the keys of the row before, in
 * the same order, find their columns without looking them up. */
#include "pyext/infer.h"

struct row_column {
	PyObject *key;
	PyObject **values; /* one a row, NULL where the row has no such key */
};

struct row_columns {
	int64_t row_count;
	uint32_t count, capacity;
	struct row_column *list;
	PyObject *index; /* key → position */
};

static struct row_column *add_column(struct row_columns *columns, PyObject *key)
{
	uint32_t capacity = columns->capacity ? 2 * columns->capacity : 16;
	struct row_column *list = columns->list, *column;
	PyObject *at;
	int failed;

	if (columns->count == columns->capacity) {
		list = PyMem_Realloc(list, capacity * sizeof(*list));
		if (!list) {
			PyErr_NoMemory();
			return NULL;
		}
		columns->list = list;
		columns->capacity = capacity;
	}
	at = PyLong_FromUnsignedLong(columns->count);
	failed = !at || PyDict_SetItem(columns->index, key, at);
	Py_XDECREF(at);
	if (failed)
		return NULL;
	column = &list[columns->count];
	column->values = PyMem_Calloc((size_t)columns->row_count, sizeof(*column->values));
	if (!column->values) {
		PyErr_NoMemory();
		return NULL;
	}
	Py_INCREF(key);
	column->key = key;
	columns->count++;
	return column;
}

static int put_value(struct row_columns *columns, int64_t row, uint32_t expected, PyObject *key, PyObject *value)
{
	struct row_column *column = NULL;
	PyObject *at;

	if (expected < columns->count && columns->list[expected].key == key) {
		column = &columns->list[expected];
	} else {
		at = PyDict_GetItemWithError(columns->index, key);
		if (at)
			column = &columns->list[PyLong_AsLong(at)];
		else if (!PyErr_Occurred())
			column = add_column(columns, key);
	}
	if (!column)
		return -1;
	Py_INCREF(value);
	Py_XDECREF(column->values[row]);
	column->values[row] = value;
	return 0;
}

static int put_dict(struct row_columns *columns, int64_t row, PyObject *dict)
{
	PyObject *key, *value;
	Py_ssize_t at = 0;
	uint32_t expected = 0;
	int failed = 0;

	while (!failed && PyDict_Next(dict, &at, &key, &value))
		failed = put_value(columns, row, expected++, key, value);
	return failed;
}

static int put_mapping(struct row_columns *columns, int64_t row, PyObject *mapping)
{
	PyObject *items, *type, *dict;
	int failed;

	if (!is_mapping(mapping)) {
		type = PyType_GetName(Py_TYPE(mapping));
		if (type)
			PyErr_Format(
				PyExc_ValueError,
				"row %lld is a value of type %U: a row is a dict, or another mapping of column names to values",
				(long long)row, type);
		Py_XDECREF(type);
		return -1;
	}
	items = PyMapping_Items(mapping);
	if (!items)
		return -1;
	dict = PyDict_New();
	failed = !dict || PyDict_MergeFromSeq2(dict, items, 1) || put_dict(columns, row, dict) ? -1 : 0;
	Py_XDECREF(dict);
	Py_DECREF(items);
	return failed;
}

static struct weir_batch *build(struct pyext_values *v, struct row_columns *columns)
{
	struct column_out *outs = PyMem_Calloc(columns->count + 1, sizeof(*outs));
	const char **names = PyMem_Calloc(columns->count + 1, sizeof(*names));
	struct weir_batch *batch = NULL;
	int failed = 0;

	if (!outs || !names) {
		PyErr_NoMemory();
		failed = -1;
	}
	for (uint32_t i = 0; !failed && i < columns->count; i++) {
		struct row_column *column = &columns->list[i];

		names[i] = column_name_text(column->key);
		failed = !names[i] || values_as_arrays(v, names[i], column->values, columns->row_count) ||
			 column_from_values(v, names[i], column->values, columns->row_count, &outs[i]);
	}
	if (!failed)
		batch = batch_of_columns(v, names, outs, columns->count, columns->row_count);
	for (uint32_t i = 0; outs && i < columns->count; i++)
		column_out_release(&outs[i]);
	PyMem_Free(outs);
	PyMem_Free(names);
	return batch;
}

struct weir_batch *pyext_batch_from_rows(PyObject *module, PyObject *rows)
{
	struct pyext_values *v = values_of_module(module);
	PyObject *list = PySequence_Fast(rows, "a list of rows is wanted");
	struct row_columns columns = {.index = PyDict_New()};
	struct weir_batch *batch = NULL;
	int failed = 0;

	if (!list || !columns.index)
		goto out;
	columns.row_count = PySequence_Size(list);
	for (int64_t i = 0; !failed && i < columns.row_count; i++) {
		PyObject *row = PySequence_GetItem(list, i);

		failed = !row ? -1 : PyDict_Check(row) ? put_dict(&columns, i, row) : put_mapping(&columns, i, row);
		Py_XDECREF(row);
	}
	if (!failed)
		batch = build(v, &columns);
out:
	for (uint32_t i = 0; i < columns.count; i++) {
		objects_release(columns.list[i].values, columns.row_count);
		PyMem_Free(columns.list[i].values);
		Py_DECREF(columns.list[i].key);
	}
	PyMem_Free(columns.list);
	Py_XDECREF(columns.index);
	Py_XDECREF(list);
	return batch;
}
