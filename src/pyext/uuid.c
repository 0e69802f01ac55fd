/* uuid.UUID: Arrow's canonical extension over its sixteen bytes, as pyarrow and Ray Data have it. At the top of a
 * column alone, since it is a field's metadata that says so; in rows they are UUIDs again, in batches bytes. */
#include "pyext/infer.h"

enum { UUID_SIZE = 16 };

bool field_is_uuid(const struct weir_field *field)
{
	return field->type->id == WEIR_FIXED_BINARY && field->type->byte_width == UUID_SIZE &&
	       weir_field_has_extension(field, UUID_NAME);
}

int uuids_from_bytes(struct pyext_values *v, PyObject **values, int64_t count)
{
	PyObject *nothing = PyTuple_New(0), *words = PyDict_New();
	int failed = !nothing || !words || values_need_uuid(v) ? -1 : 0;

	for (int64_t i = 0; !failed && i < count; i++) {
		PyObject *bytes = values[i];

		if (bytes == Py_None)
			continue;
		failed = PyDict_SetItem(words, v->names.bytes, bytes);
		values[i] = failed ? NULL : PyObject_Call(v->uuid, nothing, words);
		Py_DECREF(bytes);
		failed = values[i] ? 0 : -1;
	}
	if (failed)
		objects_release(values, count);
	Py_XDECREF(nothing);
	Py_XDECREF(words);
	return failed;
}

const struct weir_type *uuid_type(struct pyext_values *v, struct weir_error *err)
{
	return weir_type_fixed_binary(v->account, UUID_SIZE, err);
}

int append_uuid(struct pyext_values *v, struct weir_builder *builder, PyObject *value)
{
	PyObject *bytes = PyObject_GetAttr(value, v->names.bytes);
	struct weir_error err = {0};
	int failed = -1;

	if (bytes && PyBytes_Check(bytes) && PyBytes_Size(bytes) == UUID_SIZE) {
		failed = weir_builder_fixed(builder, PyBytes_AsString(bytes), 1, &err) ? -1 : 0;
		if (failed)
			values_raise(v, &err);
	} else if (bytes) {
		PyErr_Format(PyExc_ValueError, "%R has no sixteen bytes", value);
	}
	Py_XDECREF(bytes);
	return failed;
}
