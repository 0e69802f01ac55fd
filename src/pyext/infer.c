/* Inference of types; the table is in infer.h. */
#include "pyext/infer.h"

#include "base/utf8.h"

enum { INDEX_FIELDS = 8 };

enum weir_type_id numpy_scalar_id(struct pyext_values *v, PyObject *value)
{
	PyObject *type = (PyObject *)Py_TYPE(value);

	for (int id = WEIR_BOOL; id <= WEIR_DOUBLE; id++)
		if (v->numpy.scalars[id] == type)
			return (enum weir_type_id)id;
	return type == v->numpy.longlong ? WEIR_INT64 : type == v->numpy.ulonglong ? WEIR_UINT64 : WEIR_NULL;
}

static bool is_a(PyObject *value, PyObject *type)
{
	return type && PyType_IsSubtype(Py_TYPE(value), (PyTypeObject *)type);
}

/* pandas.NaT derives from datetime and is no time. */
static bool is_nat(const struct pyext_values *v, PyObject *value)
{
	PyObject *type = (PyObject *)Py_TYPE(value), *name;
	bool nat;

	if (type == v->datetime.datetime || type == v->datetime.timedelta)
		return false;
	name = PyType_GetName(Py_TYPE(value));
	nat = name && PyUnicode_CompareWithASCIIString(name, "NaTType") == 0;
	Py_XDECREF(name);
	PyErr_Clear();
	return nat;
}

static uint32_t numpy_kind(struct pyext_values *v, PyObject *value)
{
	enum weir_type_id id;

	if (!values_have_numpy(v))
		return KIND_OTHER;
	if (is_a(value, v->numpy.ndarray))
		return KIND_TENSOR;
	if (!is_a(value, v->numpy.generic))
		return KIND_OTHER;
	id = numpy_scalar_id(v, value);
	if (id == WEIR_BOOL)
		return KIND_BOOL;
	if (id != WEIR_NULL)
		return KIND_NUMPY;
	if (PyUnicode_Check(value))
		return KIND_STR;
	if (PyBytes_Check(value))
		return KIND_BYTES;
	if (is_a(value, v->numpy.datetime64))
		return KIND_MOMENT;
	return is_a(value, v->numpy.timedelta64) ? KIND_SPAN : KIND_OTHER;
}

static uint32_t other_kind(struct pyext_values *v, PyObject *value)
{
	uint32_t kind = numpy_kind(v, value);

	if (kind != KIND_OTHER)
		return kind;
	if (PyBool_Check(value))
		return KIND_BOOL;
	if (PyLong_Check(value))
		return KIND_INT;
	if (PyFloat_Check(value))
		return KIND_FLOAT;
	if (PyUnicode_Check(value))
		return KIND_STR;
	if (PyBytes_Check(value) || PyByteArray_Check(value) || PyMemoryView_Check(value))
		return KIND_BYTES;
	/* Sets as Ray has them: a frozenset is an object of its own. */
	if (PyList_Check(value) || PyTuple_Check(value) || (PyAnySet_Check(value) && !PyFrozenSet_Check(value)))
		return KIND_LIST;
	if (PyDict_Check(value))
		return KIND_DICT;
	if (values_need_datetime(v) || values_need_decimal(v)) {
		PyErr_Clear(); /* without these modules there are no values of theirs */
		return KIND_OTHER;
	}
	if (is_a(value, v->datetime.datetime))
		return is_nat(v, value) ? 0 : KIND_DATETIME;
	if (is_a(value, v->datetime.date))
		return KIND_DATE;
	if (is_a(value, v->datetime.time))
		return KIND_TIME;
	if (is_a(value, v->datetime.timedelta))
		return is_nat(v, value) ? 0 : KIND_DELTA;
	if (is_a(value, v->decimal))
		return KIND_DECIMAL;
	return values_have_uuid(v) && (PyObject *)Py_TYPE(value) == v->uuid ? KIND_UUID : KIND_OTHER;
}

uint32_t value_kind(struct pyext_values *v, PyObject *value)
{
	if (!value || value == Py_None)
		return 0;
	if (PyFloat_CheckExact(value))
		return KIND_FLOAT;
	if (PyLong_CheckExact(value))
		return KIND_INT;
	if (PyUnicode_CheckExact(value))
		return KIND_STR;
	if (PyBool_Check(value))
		return KIND_BOOL;
	if (PyBytes_CheckExact(value))
		return KIND_BYTES;
	if (PyList_CheckExact(value))
		return KIND_LIST;
	if (PyDict_CheckExact(value))
		return KIND_DICT;
	return other_kind(v, value);
}

enum weir_type_id buffer_id(const Py_buffer *view)
{
	static const enum weir_type_id signs[] = {
		[1] = WEIR_INT8, [2] = WEIR_INT16, [4] = WEIR_INT32, [8] = WEIR_INT64};
	static const enum weir_type_id bare[] = {
		[1] = WEIR_UINT8, [2] = WEIR_UINT16, [4] = WEIR_UINT32, [8] = WEIR_UINT64};
	const char *format = view->format ? view->format : "B";

	if (*format == '@' || *format == '=' || *format == '<')
		format++;
	if (strlen(format) != 1 || view->itemsize < 1 || view->itemsize > 8)
		return WEIR_NULL;
	if (*format == '?')
		return WEIR_BOOL;
	if (strchr("bhilqn", *format))
		return signs[view->itemsize];
	if (strchr("BHILQN", *format))
		return bare[view->itemsize];
	if (*format == 'e')
		return WEIR_HALF;
	if (*format == 'f')
		return WEIR_FLOAT;
	return *format == 'd' ? WEIR_DOUBLE : WEIR_NULL;
}

/* ---- visiting ---- */

static enum infer_answer visit_int(struct infer *node, PyObject *value)
{
	int overflow;
	long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
	uint64_t magnitude = number < 0 ? -(uint64_t)number : (uint64_t)number;

	if (overflow)
		return INFER_OTHER;
	if (number == -1 && PyErr_Occurred())
		return INFER_FAILED;
	if (magnitude > node->magnitude)
		node->magnitude = magnitude;
	return INFER_FITS;
}

static enum infer_answer visit_numpy(struct pyext_values *v, struct infer *node, PyObject *value)
{
	enum weir_type_id id = numpy_scalar_id(v, value);
	PyObject *number;

	node->ids |= UINT32_C(1) << id;
	/* Only these matter when they meet others. */
	if (id != WEIR_INT64 && id != WEIR_UINT64)
		return INFER_FITS;
	number = PyNumber_Index(value);
	if (!number)
		return INFER_FAILED;
	if (visit_int(node, number) == INFER_OTHER) {
		node->wide_unsigned = true;
		node->magnitude = UINT64_MAX;
	}
	Py_DECREF(number);
	return PyErr_Occurred() ? INFER_FAILED : INFER_FITS;
}

bool infer_is_no_text(void)
{
	if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
		return false;
	PyErr_Clear();
	return true;
}

/* Bytes in a column that began with a str become text, where they are. */
static enum infer_answer visit_bytes(struct infer *node, PyObject *value, uint32_t kind)
{
	enum infer_answer answer = INFER_FITS;
	Py_ssize_t size = 0;
	Py_buffer view;

	if (!node->first)
		node->first = kind;
	if (kind == KIND_STR) {
		if (!PyUnicode_AsUTF8AndSize(value, &size))
			return infer_is_no_text() ? INFER_OTHER : INFER_FAILED;
	} else {
		if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE))
			return INFER_FAILED;
		size = view.len;
		if (node->first == KIND_STR && !weir_utf8_valid(view.buf, (size_t)view.len))
			answer = INFER_OTHER;
		PyBuffer_Release(&view);
	}
	node->bytes += size;
	return answer;
}

void infer_extent(struct infer *node, __int128 nanos)
{
	unsigned __int128 extent = nanos < 0 ? -(unsigned __int128)nanos : (unsigned __int128)nanos;

	if (extent > node->nanos)
		node->nanos = extent;
}

static enum infer_answer visit_time(struct pyext_values *v, struct infer *node, PyObject *value, uint32_t kind,
				    int depth)
{
	struct time_value time;
	char zone[sizeof(node->zone)];
	int aware = 0;

	if (time_read(v, value, kind, &time))
		return INFER_FAILED;
	if (kind == KIND_DATETIME || kind == KIND_TIME) {
		aware = time_zone_text(v, value, zone, sizeof(zone));
		if (aware < 0)
			return INFER_FAILED;
	}
	if (aware && kind == KIND_TIME)
		return INFER_OTHER; /* there is no such type */
	if (aware && !node->aware)
		memcpy(node->zone, zone, sizeof(zone));
	node->aware |= aware != 0;
	node->naive |= aware == 0;
	/* In lists and dicts datetimes have the unit of Python's own, as pyarrow gives them. */
	if (depth > 0 && time.unit < WEIR_MICRO)
		time.unit = WEIR_MICRO;
	if (time.unit > node->unit)
		node->unit = time.unit;
	infer_extent(node, ((__int128)time.days * 86400 + time.seconds) * 1000000000 + time.nanos);
	return INFER_FITS;
}

static enum infer_answer visit_decimal(struct pyext_values *v, struct infer *node, PyObject *value)
{
	struct decimal_value decimal;
	int known = decimal_read(v, value, &decimal);
	int64_t scale, whole;

	if (known <= 0)
		return known < 0 ? INFER_FAILED : INFER_OTHER;
	scale = decimal.exponent < 0 ? -decimal.exponent : 0;
	whole = decimal.digits + decimal.exponent;
	if (whole > node->digits)
		node->digits = whole;
	if (scale > node->scale)
		node->scale = scale;
	return INFER_FITS;
}

static enum infer_answer need_item(struct infer *node)
{
	if (!node->item)
		node->item = PyMem_Calloc(1, sizeof(*node->item));
	if (!node->item) {
		PyErr_NoMemory();
		return INFER_FAILED;
	}
	return INFER_FITS;
}

static enum infer_answer visit_list(struct pyext_values *v, struct infer *node, PyObject *value, int depth)
{
	enum infer_answer answer = need_item(node);
	PyObject *items;
	Py_ssize_t count;

	if (answer)
		return answer;
	items = PySequence_Fast(value, "a sequence is wanted");
	if (!items)
		return INFER_FAILED;
	count = PySequence_Size(items);
	node->bytes += count;
	for (Py_ssize_t i = 0; !answer && i < PySequence_Size(items); i++) {
		PyObject *item = PyList_Check(items) ? PyList_GetItem(items, i) : PyTuple_GetItem(items, i);

		/* Held: reading a value may run code that changes the list. */
		Py_XINCREF(item);
		answer = item ? infer_visit(v, node->item, item, depth + 1) : INFER_FAILED;
		Py_XDECREF(item);
	}
	Py_DECREF(items);
	return answer;
}

/* An array inside a list or dict: of one dimension it is a list. */
static enum infer_answer visit_array(struct pyext_values *v, struct infer *node, PyObject *value, int depth)
{
	enum infer_answer answer = INFER_OTHER;
	enum weir_type_id id;
	int64_t length = 0;
	Py_buffer view;
	PyObject *list;

	if (PyObject_GetBuffer(value, &view, PyBUF_FORMAT | PyBUF_STRIDES)) {
		PyErr_Clear(); /* times and the like */
		answer = need_item(node);
		if (!answer)
			answer = infer_numpy_times(v, node->item, value, &length);
		node->bytes += length;
		node->kinds |= KIND_LIST;
		return answer;
	}
	id = buffer_id(&view);
	if (view.ndim == 1 && id != WEIR_NULL) {
		answer = need_item(node);
		if (!answer) {
			node->bytes += view.shape[0];
			if (id == WEIR_BOOL)
				node->item->kinds |= KIND_BOOL;
			else {
				node->item->kinds |= KIND_NUMPY;
				node->item->ids |= UINT32_C(1) << id;
				/* Not looked at, so taken for the widest. */
				if (id == WEIR_INT64 || id == WEIR_UINT64)
					node->item->magnitude = UINT64_MAX;
				node->item->wide_unsigned |= id == WEIR_UINT64;
			}
			node->kinds |= KIND_LIST;
		}
		PyBuffer_Release(&view);
		return answer;
	}
	if (view.ndim == 1 && view.format && strpbrk(view.format, "Osw")) {
		list = PyObject_CallMethodObjArgs(value, v->names.tolist, NULL);
		answer = list ? visit_list(v, node, list, depth) : INFER_FAILED;
		node->kinds |= KIND_LIST;
		Py_XDECREF(list);
	}
	PyBuffer_Release(&view);
	return answer;
}

static struct infer *find_field(struct infer *node, PyObject *key, uint32_t expected)
{
	PyObject *at;

	if (expected < node->field_count && node->fields[expected].name == key)
		return &node->fields[expected].node;
	if (node->index) {
		at = PyDict_GetItemWithError(node->index, key);
		return at ? &node->fields[PyLong_AsLong(at)].node : NULL;
	}
	for (uint32_t i = 0; i < node->field_count; i++)
		if (PyUnicode_Compare(node->fields[i].name, key) == 0)
			return &node->fields[i].node;
	return NULL;
}

static struct infer *add_field(struct infer *node, PyObject *key)
{
	uint32_t capacity = node->field_capacity ? 2 * node->field_capacity : 4;
	struct infer_field *fields;
	PyObject *at;
	int failed;

	if (node->field_count == node->field_capacity) {
		fields = PyMem_Realloc(node->fields, capacity * sizeof(*fields));
		if (!fields) {
			PyErr_NoMemory();
			return NULL;
		}
		node->fields = fields;
		node->field_capacity = capacity;
	}
	if (node->field_count >= INDEX_FIELDS && !node->index) {
		node->index = PyDict_New();
		for (uint32_t i = 0; node->index && i < node->field_count; i++) {
			at = PyLong_FromUnsignedLong(i);
			failed = !at || PyDict_SetItem(node->index, node->fields[i].name, at);
			Py_XDECREF(at);
			if (failed)
				return NULL;
		}
		if (!node->index)
			return NULL;
	}
	if (node->index) {
		at = PyLong_FromUnsignedLong(node->field_count);
		failed = !at || PyDict_SetItem(node->index, key, at);
		Py_XDECREF(at);
		if (failed)
			return NULL;
	}
	Py_INCREF(key);
	node->fields[node->field_count] = (struct infer_field){.name = key};
	return &node->fields[node->field_count++].node;
}

static bool plain_key(PyObject *key)
{
	Py_ssize_t size;
	const char *text = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, &size) : NULL;

	PyErr_Clear(); /* a lone surrogate: such a key names no field */
	return text && (size_t)size == strlen(text);
}

static enum infer_answer visit_dict(struct pyext_values *v, struct infer *node, PyObject *value, int depth)
{
	enum infer_answer answer = INFER_FITS;
	PyObject *key, *item;
	Py_ssize_t at = 0;
	uint32_t expected = 0;

	while (!answer && PyDict_Next(value, &at, &key, &item)) {
		struct infer *field;

		if (!plain_key(key))
			return INFER_OTHER;
		field = find_field(node, key, expected++);
		if (!field && !PyErr_Occurred())
			field = add_field(node, key);
		if (!field)
			return INFER_FAILED;
		Py_INCREF(item);
		answer = infer_visit(v, field, item, depth + 1);
		Py_DECREF(item);
	}
	return answer;
}

enum infer_answer infer_visit(struct pyext_values *v, struct infer *node, PyObject *value, int depth)
{
	uint32_t kind = value_kind(v, value);

	if (!kind)
		return INFER_FITS;
	if (depth > INFER_DEPTH_MAX)
		return INFER_OTHER;
	if (kind == KIND_TENSOR)
		return visit_array(v, node, value, depth);
	if (kind == KIND_OTHER || (kind == KIND_UUID && depth > 0))
		return INFER_OTHER;
	if (kind == KIND_MOMENT || kind == KIND_SPAN)
		return infer_numpy_time(v, node, value, depth > 0);
	node->kinds |= kind;
	switch (kind) {
	case KIND_INT:
		return visit_int(node, value);
	case KIND_NUMPY:
		return visit_numpy(v, node, value);
	case KIND_STR:
	case KIND_BYTES:
		return visit_bytes(node, value, kind);
	case KIND_DATETIME:
	case KIND_DATE:
	case KIND_TIME:
	case KIND_DELTA:
		return visit_time(v, node, value, kind, depth);
	case KIND_DECIMAL:
		return visit_decimal(v, node, value);
	case KIND_LIST:
		return visit_list(v, node, value, depth);
	case KIND_DICT:
		return visit_dict(v, node, value, depth);
	default:
		return INFER_FITS;
	}
}

void infer_release(struct infer *node)
{
	if (node->item) {
		infer_release(node->item);
		PyMem_Free(node->item);
	}
	for (uint32_t i = 0; i < node->field_count; i++) {
		Py_DECREF(node->fields[i].name);
		infer_release(&node->fields[i].node);
	}
	PyMem_Free(node->fields);
	Py_XDECREF(node->index);
	*node = (struct infer){0};
}
