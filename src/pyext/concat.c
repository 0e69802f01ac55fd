/* Several batches as one. Below each other, under a schema that holds them all: columns by name, missing ones null,
 * types unified (arrow/unify.c); tensors of several shapes become ragged first, and values that meet pickled objects
 * are pickled. Or side by side, over the columns that they have. */
#include "pyext/values_impl.h"

#include <stdio.h>

/* The result shares types and dictionaries with its parts, which may lie in the memory of several sessions. */
struct joint_keeper {
	struct api_keeper keeper;
	Py_ssize_t count;
	struct api_keeper *parts[];
};

static void joint_free(struct api_keeper *keeper)
{
	struct joint_keeper *joint = (struct joint_keeper *)keeper;

	for (Py_ssize_t i = 0; i < joint->count; i++)
		api_keeper_unref(joint->parts[i]);
	weir_plain_free(joint);
}

/* With one reference, the caller's. */
static struct api_keeper *joint_new(struct pyext_values *v, PyObject *batches)
{
	Py_ssize_t count = PySequence_Size(batches);
	struct joint_keeper *joint = weir_plain_alloc(sizeof(*joint) + ((size_t)count + 1) * sizeof(*joint->parts));

	if (!joint) {
		PyErr_NoMemory();
		return NULL;
	}
	atomic_init(&joint->keeper.refs, 1);
	joint->keeper.free = joint_free;
	api_keeper_ref(&v->keeper);
	joint->parts[joint->count++] = &v->keeper;
	for (Py_ssize_t i = 0; i < count; i++) {
		PyObject *batch = PySequence_GetItem(batches, i);
		struct api_keeper *keeper = ((struct batch_object *)batch)->keeper;

		if (keeper != joint->parts[joint->count - 1]) {
			api_keeper_ref(keeper);
			joint->parts[joint->count++] = keeper;
		}
		Py_DECREF(batch); /* the sequence holds it */
	}
	return &joint->keeper;
}

/* ---- one column of all batches ---- */

struct concat {
	struct pyext_values *v;
	struct weir_batch **batches;
	uint32_t count;
	struct weir_error err;
};

static const struct weir_field *field_named(const struct weir_batch *batch, const char *name, uint32_t *at)
{
	for (uint32_t i = 0; i < batch->column_count; i++)
		if (!strcmp(batch->schema->fields[i].name, name)) {
			*at = i;
			return &batch->schema->fields[i];
		}
	return NULL;
}

static bool same_metadata(const struct weir_field *a, const struct weir_field *b, const char *key)
{
	uint32_t a_size = 0, b_size = 0;
	const char *x = weir_metadata_get(&a->metadata, key, &a_size),
		   *y = weir_metadata_get(&b->metadata, key, &b_size);

	return a_size == b_size && !x == !y && (!x || memcmp(x, y, a_size) == 0);
}

/* What the batches say of a column: the ragged tensors that it must become, and whose metadata holds for all. */
struct column_view {
	const struct weir_field *model;  /* the first that is not of type null; NULL: none */
	struct weir_field ragged;        /* all-zero: not needed; its type is a reference */
	const struct weir_field *object; /* one of Python objects, which all other values must become; NULL: none */
	bool bare;
};

static int look_at_tensors(struct concat *c, const struct weir_field *field, struct column_view *out)
{
	const struct weir_field before = out->ragged.type ? out->ragged : *out->model;
	int code = weir_field_unify(c->v->account, &before, field, &out->ragged, &c->err);

	if (before.type != out->model->type)
		weir_type_unref(before.type);
	return code;
}

/* Whether a batch has tensors there, or whatever else is more than a value of its type. */
static bool has_extension(const struct concat *c, const char *name)
{
	for (uint32_t i = 0; i < c->count; i++) {
		uint32_t at, size;
		const struct weir_field *field = field_named(c->batches[i], name, &at);

		if (field && !field_is_object(field) && weir_metadata_get(&field->metadata, WEIR_EXTENSION_NAME, &size))
			return true;
	}
	return false;
}

static int look(struct concat *c, const char *name, struct column_view *out)
{
	int code;

	*out = (struct column_view){0};
	for (uint32_t i = 0; i < c->count; i++) {
		uint32_t at;
		const struct weir_field *field = field_named(c->batches[i], name, &at);

		if (!field || field->type->id == WEIR_NULL)
			continue;
		if (!out->model) {
			out->model = field;
			continue;
		}
		if (weir_tensor_meets(out->ragged.type ? &out->ragged : out->model, field)) {
			code = look_at_tensors(c, field, out);
			if (code)
				return code;
			continue;
		}
		if (same_metadata(out->model, field, WEIR_EXTENSION_NAME) &&
		    same_metadata(out->model, field, WEIR_EXTENSION_METADATA))
			continue;
		if (field_is_object(out->model) != field_is_object(field)) {
			out->object = field_is_object(field) ? field : out->model;
			continue;
		}
		out->bare = true;
	}
	if (out->object && (out->ragged.type || out->bare || has_extension(c, name)))
		return weir_error_set(&c->err, WEIR_E_TYPE,
				      "column '%s' holds Python objects in one block and tensors in another", name);
	if (out->object)
		out->model = out->object;
	return WEIR_OK;
}

/* Each value pickled by itself, as a value of no type is. */
static struct weir_array *objects_of(struct concat *c, const struct weir_array *array, const char *name)
{
	struct column_out column = {0};
	int64_t count = array->length;
	PyObject **values = PyMem_Calloc((size_t)count + 1, sizeof(*values));
	int failed = !values || values_objects(c->v, array, 0, count, values);

	if (!failed) {
		failed = column_of_objects(c->v, name, values, count, &column);
		objects_release(values, count);
	}
	PyMem_Free(values);
	if (failed) {
		PyErr_Clear();
		weir_error_set(&c->err, WEIR_E_TYPE,
			       "column '%s' holds Python objects in one block, which values of another cannot become",
			       name);
	}
	return column.array;
}

/* The batch's column, as it enters the union: a new reference; NULL without an error where it has none. */
static struct weir_array *column_of(struct concat *c, const struct weir_batch *batch, const char *name,
				    const struct column_view *view)
{
	uint32_t at;
	const struct weir_field *field = field_named(batch, name, &at);
	struct weir_field large = view->ragged;
	struct weir_array *array;

	if (!field)
		return NULL;
	if (view->object && field->type->id != WEIR_NULL && !field_is_object(field))
		return objects_of(c, batch->columns[at], name);
	if (!view->ragged.type || field->type->id == WEIR_NULL)
		return weir_array_ref(batch->columns[at]);
	array = weir_array_promote_field(c->v->account, batch->columns[at], field, &view->ragged, &c->err);
	if (array || c->err.code != WEIR_E_OVERFLOW)
		return array;
	weir_error_clear(&c->err);
	large.type = weir_type_large(c->v->account, view->ragged.type, &c->err); /* pyarrow reads none of these */
	if (large.type)
		array = weir_array_promote_field(c->v->account, batch->columns[at], field, &large, &c->err);
	weir_type_unref(large.type);
	return array;
}

static struct weir_array *null_rows(struct concat *c, const struct weir_type *type, int64_t count)
{
	struct weir_builder builder = {0};
	struct weir_array *array = NULL;

	if (!weir_builder_init(&builder, type, c->v->account, &c->err) && !weir_builder_null(&builder, count, &c->err))
		array = weir_builder_finish(&builder, &c->err);
	weir_builder_release(&builder);
	return array;
}

enum { DOUBLE_DIGITS = 53 };

/* Integers that the doubles of other blocks would round are an error: which blocks meet depends on what is asked for
 * together, and the value must not. */
static int check_digits(struct concat *c, const struct weir_array *part, const struct weir_type *type)
{
	const int64_t most = INT64_C(1) << DOUBLE_DIGITS;
	const int64_t *values = (const int64_t *)part->buffers[1].data;
	const uint8_t *valid = weir_array_null_count(part) ? part->buffers[0].data : NULL;

	if (part->type->id != WEIR_INT64 || type->id != WEIR_DOUBLE)
		return WEIR_OK;
	for (int64_t i = part->offset; i < part->offset + part->length; i++)
		if ((values[i] > most || values[i] < -most) && (!valid || weir_bit_get(valid, i)))
			return weir_error_set(
				&c->err, WEIR_E_CAST,
				"the integer %lld has more digits than double, the type of other blocks, can hold",
				(long long)values[i]);
	return WEIR_OK;
}

/* Floats that are all null, beside integers, are what a function or a reader made of nothing: no type of their own. */
static void forget_null_floats(struct concat *c, struct weir_array **parts)
{
	bool integers = false;

	for (uint32_t i = 0; i < c->count; i++)
		integers |= parts[i] && parts[i]->length && weir_type_is_integer(parts[i]->type);
	for (uint32_t i = 0; integers && i < c->count; i++)
		if (parts[i] && parts[i]->length && weir_type_is_float(parts[i]->type) &&
		    weir_array_null_count(parts[i]) == parts[i]->length) {
			weir_array_unref(parts[i]);
			parts[i] = NULL;
		}
}

static struct weir_array *join_as(struct concat *c, struct weir_array **parts, const struct weir_type *type)
{
	for (uint32_t i = 0; i < c->count; i++) {
		struct weir_array *part;

		if (parts[i] && check_digits(c, parts[i], type))
			return NULL;
		part = parts[i] ? weir_array_promote(c->v->account, parts[i], type, &c->err)
				: null_rows(c, type, c->batches[i]->row_count);
		if (!part)
			return NULL;
		weir_array_unref(parts[i]);
		parts[i] = part;
	}
	return weir_array_concat(c->v->account, parts, c->count, &c->err);
}

static struct weir_array *join(struct concat *c, struct weir_array **parts)
{
	const struct weir_type *type = weir_type_of(WEIR_NULL), *wider;
	struct weir_array *joined = NULL;

	forget_null_floats(c, parts);
	for (uint32_t i = 0; i < c->count; i++) {
		if (!parts[i])
			continue;
		wider = weir_type_unify(c->v->account, type, parts[i]->type, &c->err);
		weir_type_unref(type);
		type = wider;
		if (!type)
			return NULL;
	}
	joined = join_as(c, parts, type);
	/* Rows that are asked for together may have more than 2 GiB of text together, though none of their blocks
	 * had. */
	if (!joined && c->err.code == WEIR_E_OVERFLOW) {
		struct weir_error too_large = c->err;

		weir_error_clear(&c->err);
		wider = weir_type_large(c->v->account, type, &c->err);
		if (wider && weir_type_equal(wider, type, false))
			c->err = too_large;
		else if (wider)
			joined = join_as(c, parts, wider);
		weir_type_unref(wider);
	}
	weir_type_unref(type);
	return joined;
}

static int concat_column(struct concat *c, const char *name, struct weir_array **parts, struct column_out *out)
{
	struct column_view view;
	int code = look(c, name, &view);

	for (uint32_t i = 0; !code && i < c->count; i++) {
		parts[i] = column_of(c, c->batches[i], name, &view);
		code = c->err.code;
	}
	if (!code) {
		out->array = join(c, parts);
		code = out->array ? WEIR_OK : c->err.code;
	}
	weir_type_unref(view.ragged.type);
	if (code)
		weir_error_at_column(&c->err, name);
	else if (view.ragged.type) {
		memcpy(out->shape, WEIR_RAGGED_METADATA, sizeof(WEIR_RAGGED_METADATA));
		column_extend(out, WEIR_RAGGED_TENSOR);
	} else if (view.model && !view.bare)
		out->metadata = view.model->metadata;
	for (uint32_t i = 0; i < c->count; i++) {
		weir_array_unref(parts[i]);
		parts[i] = NULL;
	}
	return code;
}

/* All names, in the order in which they appear first. */
static uint32_t list_names(const struct concat *c, const char **names)
{
	uint32_t count = 0;

	for (uint32_t b = 0; b < c->count; b++) {
		const struct weir_schema *schema = c->batches[b]->schema;

		/* The common case: the same columns again. */
		if (b && schema->field_count == count && c->batches[b - 1]->schema == schema)
			continue;
		for (uint32_t i = 0; i < schema->field_count; i++) {
			uint32_t at = 0;

			if (i < count && !strcmp(names[i], schema->fields[i].name))
				continue;
			while (at < count && strcmp(names[at], schema->fields[i].name) != 0)
				at++;
			if (at == count)
				names[count++] = schema->fields[i].name;
		}
	}
	return count;
}

/* The batch with what the first one's schema says of all columns, such as the dtypes that they had in a frame. Takes
 * `batch`, which may be NULL. */
static struct weir_batch *with_metadata(struct concat *c, struct weir_batch *batch)
{
	const struct weir_metadata *metadata = c->count ? &c->batches[0]->schema->metadata : NULL;
	struct weir_schema *schema;
	struct weir_batch *made = NULL;

	if (!batch || !metadata || !metadata->count)
		return batch;
	schema = weir_schema_new(c->v->account, batch->schema->fields, batch->column_count, metadata, &c->err);
	if (schema)
		made = weir_batch_new(c->v->account, schema, batch->row_count, batch->columns, &c->err);
	if (!made)
		values_raise(c->v, &c->err);
	weir_schema_unref(schema);
	weir_batch_unref(batch);
	return made;
}

static struct weir_batch *concat(struct concat *c, uint32_t names_max)
{
	const char **names = PyMem_Calloc(names_max + 1, sizeof(*names));
	struct column_out *columns = PyMem_Calloc(names_max + 1, sizeof(*columns));
	struct weir_array **parts = PyMem_Calloc(c->count + 1, sizeof(*parts));
	struct weir_batch *batch = NULL;
	int64_t row_count = 0;
	uint32_t count = 0;
	int code = WEIR_OK;

	if (!names || !columns || !parts) {
		PyErr_NoMemory();
		goto out;
	}
	for (uint32_t i = 0; i < c->count; i++)
		row_count += c->batches[i]->row_count;
	count = list_names(c, names);
	for (uint32_t i = 0; !code && i < count; i++)
		code = concat_column(c, names[i], parts, &columns[i]);
	if (code)
		values_raise(c->v, &c->err);
	else
		batch = with_metadata(c, batch_of_columns(c->v, names, columns, count, row_count));
	for (uint32_t i = 0; i < count; i++)
		column_out_release(&columns[i]);
out:
	PyMem_Free(names);
	PyMem_Free(columns);
	PyMem_Free(parts);
	return batch;
}

/* ---- columns side by side ---- */

static bool is_taken(char *const *names, uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* The name, or where an earlier column has it: name_1, name_2, …, the first that is free. Freed by the caller. */
static char *free_name(char *const *names, uint32_t count, const char *name)
{
	size_t size = strlen(name) + 16;
	char *made = PyMem_Malloc(size);

	if (!made) {
		PyErr_NoMemory();
		return NULL;
	}
	snprintf(made, size, "%s", name);
	for (uint32_t i = 1; is_taken(names, count, made); i++)
		snprintf(made, size, "%s_%u", name, i);
	return made;
}

/* No value is copied. */
static struct weir_batch *side_by_side(struct concat *c, uint32_t columns_max)
{
	struct weir_field *fields = PyMem_Calloc(columns_max + 1, sizeof(*fields));
	struct weir_array **columns = PyMem_Calloc(columns_max + 1, sizeof(*columns));
	char **names = PyMem_Calloc(columns_max + 1, sizeof(*names));
	struct weir_schema *schema = NULL;
	struct weir_batch *batch = NULL;
	uint32_t count = 0;

	if (!fields || !columns || !names) {
		PyErr_NoMemory();
		goto out;
	}
	for (uint32_t b = 0; b < c->count; b++) {
		const struct weir_batch *from = c->batches[b];

		if (from->row_count != c->batches[0]->row_count) {
			PyErr_Format(PyExc_ValueError, "batches of %lld and %lld rows do not go side by side",
				     (long long)c->batches[0]->row_count, (long long)from->row_count);
			goto out;
		}
		for (uint32_t i = 0; i < from->column_count; i++) {
			names[count] = free_name(names, count, from->schema->fields[i].name);
			if (!names[count])
				goto out;
			fields[count] = from->schema->fields[i];
			fields[count].name = names[count];
			columns[count++] = from->columns[i];
		}
	}
	schema = weir_schema_new(c->v->account, fields, count, NULL, &c->err);
	if (schema)
		batch = weir_batch_new(c->v->account, schema, c->batches[0]->row_count, columns, &c->err);
	if (!batch)
		values_raise(c->v, &c->err);
out:
	weir_schema_unref(schema);
	for (uint32_t i = 0; names && i < count; i++)
		PyMem_Free(names[i]);
	PyMem_Free(names);
	PyMem_Free(columns);
	PyMem_Free(fields);
	return batch;
}

/* ---- for Python ---- */

static PyObject *join_batches(PyObject *module, PyObject *given,
			      struct weir_batch *(*make)(struct concat *c, uint32_t most))
{
	struct pyext_values *v = values_of_module(module);
	PyObject *list = PySequence_Fast(given, "a list of batches is wanted"), *result = NULL;
	struct concat c = {.v = v};
	struct api_keeper *keeper = NULL;
	uint32_t names_max = 0;

	if (!list)
		return NULL;
	c.count = (uint32_t)PySequence_Size(list);
	c.batches = PyMem_Calloc(c.count + 1, sizeof(*c.batches));
	if (!c.batches) {
		PyErr_NoMemory();
		goto out;
	}
	for (uint32_t i = 0; i < c.count; i++) {
		PyObject *item = PySequence_GetItem(list, i);

		c.batches[i] = item ? pyext_batch_get(module, item) : NULL;
		Py_XDECREF(item); /* the list holds it */
		if (!c.batches[i])
			goto out;
		names_max += c.batches[i]->column_count;
	}
	if (c.count == 1) {
		result = PySequence_GetItem(list, 0);
		goto out;
	}
	keeper = joint_new(v, list);
	if (keeper)
		result = batch_wrap(v, make(&c, names_max), keeper);
out:
	if (keeper)
		api_keeper_unref(keeper);
	PyMem_Free(c.batches);
	Py_DECREF(list);
	return result;
}

PyObject *values_concat(PyObject *module, PyObject *given)
{
	return join_batches(module, given, concat);
}

PyObject *values_zip(PyObject *module, PyObject *given)
{
	if (PySequence_Check(given) && PySequence_Size(given) == 0) {
		PyErr_SetString(PyExc_ValueError, "batch_zip takes at least one batch");
		return NULL;
	}
	return join_batches(module, given, side_by_side);
}
