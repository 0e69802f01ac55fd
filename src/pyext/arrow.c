/* The Arrow PyCapsule interface, in and out. Out: capsules own structs whose release runs wherever the consumer likes;
 * each node keeps the batch's memory (api_export_batch). In: the producer's structs are moved into arrays that share
 * its memory. */
#include "pyext/values_impl.h"

#include <errno.h>

/* ---- out ---- */

#define CAPSULE(kind, type, text)                                                                                      \
	static void kind##_capsule_free(PyObject *capsule)                                                             \
	{                                                                                                              \
		type *held = PyCapsule_GetPointer(capsule, text);                                                      \
                                                                                                                       \
		if (held->release)                                                                                     \
			held->release(held);                                                                           \
		weir_plain_free(held);                                                                                 \
	}                                                                                                              \
                                                                                                                       \
	/* Takes the struct over, also on failure. */                                                                  \
	static PyObject *kind##_capsule(type *from)                                                                    \
	{                                                                                                              \
		type *held = weir_plain_alloc(sizeof(*held));                                                          \
		PyObject *capsule;                                                                                     \
                                                                                                                       \
		if (!held) {                                                                                           \
			from->release(from);                                                                           \
			return PyErr_NoMemory();                                                                       \
		}                                                                                                      \
		*held = *from;                                                                                         \
		capsule = PyCapsule_New(held, text, kind##_capsule_free);                                              \
		if (!capsule) {                                                                                        \
			held->release(held);                                                                           \
			weir_plain_free(held);                                                                         \
		}                                                                                                      \
		return capsule;                                                                                        \
	}

CAPSULE(schema, struct ArrowSchema, "arrow_schema")
CAPSULE(array, struct ArrowArray, "arrow_array")
CAPSULE(stream, struct ArrowArrayStream, "arrow_array_stream")

PyObject *arrow_stream_capsule(struct ArrowArrayStream *from)
{
	return stream_capsule(from);
}

PyObject *batch_c_schema(PyObject *self, PyObject *unused)
{
	struct weir_error err = {0};
	struct ArrowSchema schema;

	(void)unused;
	if (api_export_schema(((struct batch_object *)self)->batch->schema, &schema, &err))
		return values_raise(values_of_object(self), &err);
	return schema_capsule(&schema);
}

/* A schema that the consumer would like better is a wish, which the interface allows to be left aside. */
static int read_wish(PyObject *args, PyObject *kwargs, const char *format)
{
	static char *words[] = {"requested_schema", NULL};
	PyObject *wish = Py_None;

	return PyArg_ParseTupleAndKeywords(args, kwargs, format, words, &wish) ? 0 : -1;
}

PyObject *batch_c_array(PyObject *self, PyObject *args, PyObject *kwargs)
{
	const struct batch_object *mine = (const struct batch_object *)self;
	struct weir_error err = {0};
	struct ArrowArray array;
	PyObject *schema, *capsule, *result;

	if (read_wish(args, kwargs, "|O:__arrow_c_array__"))
		return NULL;
	schema = batch_c_schema(self, NULL);
	if (!schema)
		return NULL;
	if (api_export_batch(mine->keeper, mine->batch, &array, &err)) {
		Py_DECREF(schema);
		return values_raise(values_of_object(self), &err);
	}
	capsule = array_capsule(&array);
	result = capsule ? PyTuple_Pack(2, schema, capsule) : NULL;
	Py_XDECREF(capsule);
	Py_DECREF(schema);
	return result;
}

/* A stream of one batch. */
struct batch_stream {
	struct weir_batch *batch;
	struct api_keeper *keeper;
	bool given;
	char message[1024];
};

static int stream_failed(struct batch_stream *stream, const struct weir_error *err)
{
	weir_error_format(err, stream->message, sizeof(stream->message));
	return err->code == WEIR_E_MEMORY ? ENOMEM : EINVAL;
}

static int stream_schema(struct ArrowArrayStream *out, struct ArrowSchema *schema)
{
	struct batch_stream *stream = out->private_data;
	struct weir_error err = {0};

	return api_export_schema(stream->batch->schema, schema, &err) ? stream_failed(stream, &err) : 0;
}

static int stream_next(struct ArrowArrayStream *out, struct ArrowArray *array)
{
	struct batch_stream *stream = out->private_data;
	struct weir_error err = {0};

	*array = (struct ArrowArray){0};
	if (stream->given)
		return 0;
	stream->given = true;
	return api_export_batch(stream->keeper, stream->batch, array, &err) ? stream_failed(stream, &err) : 0;
}

static const char *stream_error(struct ArrowArrayStream *out)
{
	const struct batch_stream *stream = out->private_data;

	return stream->message[0] ? stream->message : NULL;
}

static void stream_release(struct ArrowArrayStream *out)
{
	struct batch_stream *stream = out->private_data;
	struct api_keeper *keeper = stream->keeper;

	weir_batch_unref(stream->batch);
	weir_plain_free(stream);
	out->release = NULL;
	api_keeper_unref(keeper);
}

PyObject *batch_c_stream(PyObject *self, PyObject *args, PyObject *kwargs)
{
	const struct batch_object *mine = (const struct batch_object *)self;
	struct ArrowArrayStream out = {stream_schema, stream_next, stream_error, stream_release, NULL};
	struct batch_stream *stream;

	if (read_wish(args, kwargs, "|O:__arrow_c_stream__"))
		return NULL;
	stream = weir_plain_alloc(sizeof(*stream));
	if (!stream)
		return PyErr_NoMemory();
	stream->batch = weir_batch_ref(mine->batch);
	stream->keeper = mine->keeper;
	api_keeper_ref(stream->keeper);
	out.private_data = stream;
	return stream_capsule(&out);
}

/* ---- in ---- */

/* The struct in a capsule is moved out; the capsule keeps one that was released. */
static int move_stream(PyObject *capsule, struct ArrowArrayStream *out)
{
	struct ArrowArrayStream *held = PyCapsule_GetPointer(capsule, "arrow_array_stream");

	if (!held)
		return -1;
	*out = *held;
	held->release = NULL;
	return 0;
}

/* (schema, array) */
static int move_array(PyObject *pair, struct ArrowSchema *schema, struct ArrowArray *array)
{
	PyObject *first, *second;
	struct ArrowSchema *held_schema;
	struct ArrowArray *held_array;

	if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
		PyErr_SetString(PyExc_TypeError, "__arrow_c_array__ gave no pair of capsules");
		return -1;
	}
	first = PyTuple_GetItem(pair, 0);
	second = PyTuple_GetItem(pair, 1);
	held_schema = PyCapsule_GetPointer(first, "arrow_schema");
	held_array = held_schema ? PyCapsule_GetPointer(second, "arrow_array") : NULL;
	if (!held_array)
		return -1;
	*schema = *held_schema;
	*array = *held_array;
	held_schema->release = NULL;
	held_array->release = NULL;
	return 0;
}

static bool has_objects(const struct weir_schema *schema)
{
	for (uint32_t i = 0; i < schema->field_count; i++)
		if (weir_field_has_extension(&schema->fields[i], OBJECT_NAME))
			return true;
	return false;
}

/* The batch without the mark that makes bytes into objects. A new reference. */
static struct weir_batch *without_objects(struct pyext_values *v, const struct weir_batch *batch,
					  struct weir_error *err)
{
	size_t size = batch->schema->field_count * sizeof(struct weir_field);
	struct weir_field *fields;
	struct weir_schema *schema;
	struct weir_batch *result = NULL;

	if (!has_objects(batch->schema))
		return weir_batch_ref(batch);
	fields = weir_alloc(v->account, size, err);
	if (!fields)
		return NULL;
	memcpy(fields, batch->schema->fields, size);
	for (uint32_t i = 0; i < batch->schema->field_count; i++)
		if (weir_field_has_extension(&fields[i], OBJECT_NAME))
			fields[i].metadata = (struct weir_metadata){0};
	schema = weir_schema_new(v->account, fields, batch->schema->field_count, &batch->schema->metadata, err);
	if (schema)
		result = weir_batch_new(v->account, schema, batch->row_count, batch->columns, err);
	weir_schema_unref(schema);
	weir_free(v->account, fields, size);
	return result;
}

static int append_batch(struct pyext_values *v, PyObject *list, const struct weir_batch *batch, bool objects)
{
	struct weir_error err = {0};
	struct weir_batch *mine = objects ? weir_batch_ref(batch) : without_objects(v, batch, &err);
	PyObject *wrapped;
	int failed;

	if (!mine) {
		values_raise(v, &err);
		return -1;
	}
	wrapped = batch_wrap(v, mine, NULL);
	failed = !wrapped || PyList_Append(list, wrapped);
	Py_XDECREF(wrapped);
	return failed ? -1 : 0;
}

/* A batch without rows, so that a stream without batches still says what it would have had. */
static struct weir_batch *empty_batch(struct pyext_values *v, const struct weir_schema *schema, struct weir_error *err)
{
	size_t size = (schema->field_count + 1) * sizeof(struct weir_array *);
	struct weir_array **columns = weir_alloc_zero(v->account, size, err);
	struct weir_batch *batch = NULL;
	bool done = columns != NULL;

	for (uint32_t i = 0; done && i < schema->field_count; i++) {
		struct weir_builder builder = {0};

		if (!weir_builder_init(&builder, schema->fields[i].type, v->account, err))
			columns[i] = weir_builder_finish(&builder, err);
		weir_builder_release(&builder);
		done = columns[i] != NULL;
	}
	if (done)
		batch = weir_batch_new(v->account, schema, 0, columns, err);
	for (uint32_t i = 0; columns && i < schema->field_count; i++)
		weir_array_unref(columns[i]);
	weir_free(v->account, columns, size);
	return batch;
}

static int read_stream(struct pyext_values *v, PyObject *capsule, bool objects, PyObject *list)
{
	struct ArrowArrayStream stream;
	struct weir_batch_source source = {0};
	struct weir_schema *schema = NULL;
	struct weir_error err = {0};
	struct weir_batch *batch = NULL;
	int code, failed = 0;

	if (move_stream(capsule, &stream))
		return -1;
	/* The producer may run Python, on other threads too. */
	Py_BEGIN_ALLOW_THREADS
	code = weir_cdata_import_stream(v->account, &stream, &schema, &source, &err);
	Py_END_ALLOW_THREADS
	while (!code && !failed) {
		Py_BEGIN_ALLOW_THREADS
		code = source.next(source.state, &batch, &err);
		Py_END_ALLOW_THREADS
		if (code || !batch)
			break;
		failed = append_batch(v, list, batch, objects);
		weir_batch_unref(batch);
	}
	if (source.release) {
		Py_BEGIN_ALLOW_THREADS
		source.release(source.state);
		Py_END_ALLOW_THREADS
	}
	if (!code && !failed && PyList_Size(list) == 0) {
		batch = empty_batch(v, schema, &err);
		code = batch ? WEIR_OK : err.code;
		if (batch)
			failed = append_batch(v, list, batch, objects);
		weir_batch_unref(batch);
	}
	weir_schema_unref(schema);
	if (code)
		values_raise(v, &err);
	return code || failed ? -1 : 0;
}

static void release_nothing(struct ArrowSchema *schema)
{
	schema->release = NULL;
}

/* Reads a schema that stays as it is: its formats are needed again beside the arrays. */
static int read_schema(struct pyext_values *v, const struct ArrowSchema *schema, struct weir_schema **out,
		       struct weir_error *err)
{
	struct ArrowSchema shadow = *schema;

	shadow.release = release_nothing;
	return weir_cdata_import_schema(v->account, &shadow, out, err);
}

static int read_array(struct pyext_values *v, PyObject *pair, bool objects, PyObject *list)
{
	struct ArrowSchema schema;
	struct ArrowArray array;
	struct weir_schema *mine = NULL;
	struct weir_batch *batch = NULL;
	struct weir_error err = {0};
	int code, failed = 0;

	if (move_array(pair, &schema, &array))
		return -1;
	if (!schema.release || !array.release)
		code = weir_error_set(&err, WEIR_E_INVALID, "the Arrow array was released before");
	else
		code = read_schema(v, &schema, &mine, &err);
	if (!code)
		code = weir_cdata_import_batch_as(v->account, &schema, mine, &array, &batch, &err);
	else if (array.release)
		array.release(&array);
	if (schema.release)
		schema.release(&schema);
	if (code)
		values_raise(v, &err);
	else
		failed = append_batch(v, list, batch, objects);
	weir_batch_unref(batch);
	weir_schema_unref(mine);
	return code || failed ? -1 : 0;
}

PyObject *values_from_arrow(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *words[] = {"source", "objects", NULL};
	struct pyext_values *v = values_of_module(module);
	PyObject *source, *method, *list, *capsule = NULL, *name;
	int objects = 0, failed = -1;
	bool stream;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p:batch_from_arrow", words, &source, &objects))
		return NULL;
	list = PyList_New(0);
	if (!list)
		return NULL;
	if ((PyObject *)Py_TYPE(source) == v->batch_type) {
		failed = append_batch(v, list, ((struct batch_object *)source)->batch, true);
		goto out;
	}
	stream = PyObject_HasAttr(source, v->names.__arrow_c_stream__);
	method = PyObject_GetAttr(source, stream ? v->names.__arrow_c_stream__ : v->names.__arrow_c_array__);
	if (!method) {
		PyErr_Clear();
		name = PyType_GetName(Py_TYPE(source));
		PyErr_Format(PyExc_TypeError,
			     "an object of type %V has neither __arrow_c_stream__ nor __arrow_c_array__", name, "?");
		Py_XDECREF(name);
		goto out;
	}
	capsule = PyObject_CallNoArgs(method);
	Py_DECREF(method);
	if (capsule)
		failed = stream ? read_stream(v, capsule, objects, list) : read_array(v, capsule, objects, list);
out:
	Py_XDECREF(capsule);
	if (failed)
		Py_CLEAR(list);
	return list;
}

/* ---- one column ----
 *
 * The import knows batches, so an array of its own is put into a struct of one field. */

struct lone_array {
	struct ArrowArray array, *child;
	const void *no_validity;
};

static void lone_release(struct ArrowArray *parent)
{
	struct lone_array *lone = parent->private_data;

	if (lone->array.release)
		lone->array.release(&lone->array);
	weir_plain_free(lone);
	parent->release = NULL;
}

/* Takes the array over. */
static int import_lone(struct pyext_values *v, struct ArrowSchema *schema, struct ArrowArray *array,
		       struct weir_batch **out, struct weir_error *err)
{
	struct ArrowSchema parent_schema = {
		.format = "+s", .n_children = 1, .children = &schema, .release = release_nothing};
	struct lone_array *lone = weir_plain_alloc(sizeof(*lone));
	struct ArrowArray parent;
	struct weir_schema *mine = NULL;
	int code;

	*out = NULL;
	if (!lone) {
		array->release(array);
		return weir_error_set(err, WEIR_E_MEMORY, "no memory for a column");
	}
	lone->array = *array;
	lone->child = &lone->array;
	array->release = NULL;
	parent = (struct ArrowArray){
		.length = lone->array.length,
		.n_buffers = 1,
		.buffers = &lone->no_validity,
		.n_children = 1,
		.children = &lone->child,
		.release = lone_release,
		.private_data = lone,
	};
	code = read_schema(v, &parent_schema, &mine, err);
	if (code)
		parent.release(&parent);
	else
		code = weir_cdata_import_batch_as(v->account, &parent_schema, mine, &parent, out, err);
	weir_schema_unref(mine);
	return code;
}

/* Appends the chunk's column; the first gives the metadata. */
static int add_chunk(struct pyext_values *v, const struct weir_batch *chunk, struct column_out *out,
		     struct weir_error *err)
{
	struct weir_array *pair[2] = {out->array, chunk->columns[0]}, *joined;

	if (!out->schema) {
		out->schema = weir_schema_ref(chunk->schema);
		out->metadata = chunk->schema->fields[0].metadata;
		/* What another library holds is no object of this run. */
		if (weir_field_has_extension(&chunk->schema->fields[0], OBJECT_NAME))
			out->metadata = (struct weir_metadata){0};
	}
	joined = out->array ? weir_array_concat(v->account, pair, 2, err) : weir_array_ref(pair[1]);
	if (!joined)
		return err->code;
	weir_array_unref(out->array);
	out->array = joined;
	return WEIR_OK;
}

static int add_empty(struct pyext_values *v, struct ArrowSchema *schema, struct column_out *out, struct weir_error *err)
{
	struct ArrowSchema parent = {.format = "+s", .n_children = 1, .children = &schema, .release = release_nothing};
	struct weir_builder builder = {0};
	int code = read_schema(v, &parent, &out->schema, err);

	if (code)
		return code;
	out->metadata = out->schema->fields[0].metadata;
	code = weir_builder_init(&builder, out->schema->fields[0].type, v->account, err);
	if (!code && !(out->array = weir_builder_finish(&builder, err)))
		code = err->code;
	weir_builder_release(&builder);
	return code;
}

static int column_of_stream(struct pyext_values *v, PyObject *capsule, struct column_out *out, struct weir_error *err)
{
	struct ArrowArrayStream stream;
	struct ArrowSchema schema = {0};
	int code = WEIR_OK, refused;

	if (move_stream(capsule, &stream))
		return -1;
	Py_BEGIN_ALLOW_THREADS
	refused = stream.get_schema(&stream, &schema);
	while (!refused && !code) {
		struct ArrowArray array = {0};
		struct weir_batch *chunk = NULL;

		refused = stream.get_next(&stream, &array);
		if (refused || !array.release)
			break;
		code = import_lone(v, &schema, &array, &chunk, err);
		if (!code)
			code = add_chunk(v, chunk, out, err);
		weir_batch_unref(chunk);
	}
	if (!refused && !code && !out->array)
		code = add_empty(v, &schema, out, err);
	if (refused)
		code = weir_error_set(err, refused == ENOMEM ? WEIR_E_MEMORY : WEIR_E_IO, "the Arrow stream failed: %s",
				      stream.get_last_error(&stream) ? stream.get_last_error(&stream)
								     : "no reason given");
	if (schema.release)
		schema.release(&schema);
	stream.release(&stream);
	Py_END_ALLOW_THREADS
	return code;
}

static int column_of_array(struct pyext_values *v, PyObject *pair, struct column_out *out, struct weir_error *err)
{
	struct ArrowSchema schema;
	struct ArrowArray array;
	struct weir_batch *chunk = NULL;
	int code;

	if (move_array(pair, &schema, &array))
		return -1;
	code = array.release ? import_lone(v, &schema, &array, &chunk, err)
			     : weir_error_set(err, WEIR_E_INVALID, "the Arrow array was released before");
	if (!code)
		code = add_chunk(v, chunk, out, err);
	if (schema.release)
		schema.release(&schema);
	weir_batch_unref(chunk);
	return code;
}

int column_from_arrow(struct pyext_values *v, const char *name, PyObject *value, struct column_out *out)
{
	bool whole = PyObject_HasAttr(value, v->names.__arrow_c_array__);
	PyObject *capsule = PyObject_CallMethodObjArgs(
		value, whole ? v->names.__arrow_c_array__ : v->names.__arrow_c_stream__, NULL);
	struct weir_error err = {0};
	int code;

	if (!capsule)
		return -1;
	code = whole ? column_of_array(v, capsule, out, &err) : column_of_stream(v, capsule, out, &err);
	Py_DECREF(capsule);
	if (code > 0) {
		weir_error_at_column(&err, name);
		values_raise(v, &err);
	}
	return code ? -1 : 0;
}

/* ---- a list of pyarrow's scalars: what table["a"][0] is ---- */

static bool is_arrow_scalar(PyObject *value)
{
	PyObject *module = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__module__");
	const char *text = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8AndSize(module, NULL) : NULL;
	bool scalar = text && !strcmp(text, "pyarrow.lib") && PyObject_HasAttrString(value, "as_py");

	PyErr_Clear();
	Py_XDECREF(module);
	return scalar;
}

int column_of_arrow_scalars(struct pyext_values *v, const char *name, PyObject *const *values, int64_t count,
			    struct column_out *out)
{
	PyObject *pyarrow, *list, *array = NULL;
	int failed = 1;

	for (int64_t i = 0; i < count; i++)
		if (values[i] && values[i] != Py_None && !is_arrow_scalar(values[i]))
			return 1;
	pyarrow = PyImport_ImportModule("pyarrow");
	list = pyarrow ? PyList_New(count) : NULL;
	for (int64_t i = 0; list && i < count; i++) {
		PyObject *value = values[i] ? values[i] : Py_None;

		Py_INCREF(value);
		PyList_SetItem(list, i, value);
	}
	if (list)
		array = PyObject_CallMethod(pyarrow, "array", "O", list);
	if (array)
		failed = column_from_arrow(v, name, array, out);
	else if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
		failed = -1;
	else
		PyErr_Clear(); /* of several types: objects they stay */
	Py_XDECREF(array);
	Py_XDECREF(list);
	Py_XDECREF(pyarrow);
	return failed;
}
