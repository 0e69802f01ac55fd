/* Foreign arrays: shared, never copied unless they must be converted or lie askew.
 *
 *     ArrowArray (moved into the owner) ◀── buffers of all arrays made of it
 *
 * The struct says lengths but no sizes: those follow from the lengths, and what the buffers say (offsets, codes, text)
 * is validated before the array is handed out. The owner's release callback runs once, when the last buffer lets go.
 */
#include "base/checked.h"
#include "arrow/cdata_impl.h"

struct foreign_owner {
	struct weir_owner owner;
	struct weir_account *account;
	struct ArrowArray array;
};

static void foreign_owner_release(struct weir_owner *owner)
{
	struct foreign_owner *mine = (struct foreign_owner *)owner;

	mine->array.release(&mine->array);
	weir_free(mine->account, mine, sizeof(*mine));
}

/* Moves the array into an owner, or releases it. */
static struct foreign_owner *own(struct weir_account *account, struct ArrowArray *array, struct weir_error *err)
{
	struct foreign_owner *owner;

	if (!array->release) {
		weir_error_set(err, WEIR_E_INVALID, "the Arrow array was released before");
		return NULL;
	}
	owner = weir_alloc(account, sizeof(*owner), err);
	if (!owner) {
		array->release(array);
		return NULL;
	}
	atomic_init(&owner->owner.refs, 1);
	owner->owner.release = foreign_owner_release;
	owner->account = account;
	owner->array = *array;
	array->release = NULL;
	return owner;
}

static int share_buffer(const struct cdata_import *import, const void *data, uint64_t size, size_t align,
			struct weir_buffer *out, struct weir_error *err)
{
	uint8_t *copy;

	if (!size || !data) {
		if (size)
			return weir_error_set(err, WEIR_E_DATA, "an Arrow array without a buffer of %llu bytes",
					      (unsigned long long)size);
		*out = (struct weir_buffer){.data = array_zeros};
		return WEIR_OK;
	}
	if ((uintptr_t)data % align == 0) {
		*out = (struct weir_buffer){.data = data, .size = size, .owner = weir_owner_ref(import->owner)};
		return WEIR_OK;
	}
	/* Legal, but no loop could read it as what it is. */
	if (weir_buffer_new(import->account, size, out, &copy, err))
		return err->code;
	memcpy(copy, data, size);
	return WEIR_OK;
}

int cdata_import_head(const struct cdata_import *import, const struct ArrowArray *from, int64_t buffers_min,
		      struct weir_array *to, struct weir_error *err)
{
	int64_t end;

	if (from->length < 0 || from->offset < 0 || weir_add_overflows(from->length, from->offset, &end) ||
	    end > INT64_MAX / 64)
		return weir_error_set(err, WEIR_E_DATA, "an Arrow array of %lld rows from row %lld on",
				      (long long)from->length, (long long)from->offset);
	if (from->n_buffers < buffers_min || (buffers_min && !from->buffers))
		return weir_error_set(err, WEIR_E_DATA, "an Arrow array of type %s with %lld buffers, not %lld",
				      type_words[to->type->id], (long long)from->n_buffers, (long long)buffers_min);
	if (from->null_count < -1 || from->null_count > from->length)
		return weir_error_set(err, WEIR_E_DATA, "an Arrow array with %lld nulls in %lld rows",
				      (long long)from->null_count, (long long)from->length);
	to->length = from->length;
	/* An empty array may lack what its offset points to. */
	to->offset = from->length ? from->offset : 0;
	to->null_count = from->null_count;
	if (!from->length || !buffers_min || !from->buffers[0]) {
		if (buffers_min && from->null_count > 0)
			return weir_error_set(err, WEIR_E_DATA, "an Arrow array with nulls, but without a bitmap");
		to->null_count = buffers_min ? 0 : to->null_count;
		return WEIR_OK;
	}
	return share_buffer(import, from->buffers[0], weir_bits_size(end), 1, &to->buffers[0], err);
}

static int import_fixed(const struct cdata_import *import, const struct ArrowArray *from, struct weir_array *to,
			struct weir_error *err)
{
	const struct weir_type *type = to->type;
	uint64_t size, end = (uint64_t)(to->offset + to->length);
	size_t align = type->id == WEIR_FIXED_BINARY ? 1 : type->byte_width < 8 ? type->byte_width : 8;

	if (type->layout == WEIR_LAYOUT_BITS) {
		size = weir_bits_size((int64_t)end);
		align = 1;
	} else if (weir_mul_overflows(end, type->byte_width, &size)) {
		return weir_error_set(err, WEIR_E_DATA, "an Arrow array of %llu rows", (unsigned long long)end);
	}
	return share_buffer(import, from->buffers[1], to->length ? size : 0, align, &to->buffers[1], err);
}

static int import_offsets(const struct cdata_import *import, const struct ArrowArray *from, struct weir_array *to,
			  struct weir_error *err)
{
	unsigned width = type_offset_width(to->type);
	uint64_t end = (uint64_t)(to->offset + to->length);

	/* An empty array's offsets may be absent, or be nothing. */
	if (!to->length) {
		to->buffers[1] = (struct weir_buffer){.data = array_zeros, .size = width};
		return WEIR_OK;
	}
	return share_buffer(import, from->buffers[1], (end + 1) * width, width, &to->buffers[1], err);
}

static int import_bytes(const struct cdata_import *import, const struct ArrowArray *from, struct weir_array *to,
			struct weir_error *err)
{
	int64_t end;

	if (import_offsets(import, from, to, err))
		return err->code;
	end = offset_at(to, to->offset + to->length);
	if (end < 0)
		return weir_error_set(err, WEIR_E_DATA, "an Arrow array whose bytes end at %lld", (long long)end);
	return share_buffer(import, from->buffers[2], (uint64_t)end, 1, &to->buffers[2], err);
}

static int import_children(const struct cdata_import *import, const struct ArrowSchema *foreign,
			   const struct ArrowArray *from, struct weir_array *to, struct weir_error *err)
{
	if (from->n_children != to->child_count || (to->child_count && !from->children))
		return weir_error_set(err, WEIR_E_DATA, "an Arrow array of type %s with %lld children, not %u",
				      type_words[to->type->id], (long long)from->n_children, to->child_count);
	for (uint32_t i = 0; i < to->child_count; i++) {
		if (!from->children[i])
			return weir_error_set(err, WEIR_E_DATA, "an Arrow array without its child %u", i);
		to->children[i] = cdata_import_node(import, foreign ? foreign->children[i] : NULL,
						    to->type->fields[i].type, from->children[i], err);
		if (!to->children[i])
			return err->code;
	}
	return WEIR_OK;
}

static int import_dictionary(const struct cdata_import *import, const struct ArrowSchema *foreign,
			     const struct ArrowArray *from, struct weir_array *to, struct weir_error *err)
{
	if (!from->dictionary)
		return weir_error_set(err, WEIR_E_DATA, "an Arrow dictionary array without its dictionary");
	to->dictionary = cdata_import_node(import, foreign ? foreign->dictionary : NULL, to->type->dictionary_value,
					   from->dictionary, err);
	return to->dictionary ? WEIR_OK : err->code;
}

static int import_plain(const struct cdata_import *import, const struct ArrowSchema *foreign,
			const struct ArrowArray *from, struct weir_array *to, struct weir_error *err)
{
	const struct weir_type *type = to->type;
	bool offsets = type_offset_width(type);

	switch (type->layout) {
	case WEIR_LAYOUT_NULL:
		if (cdata_import_head(import, from, 0, to, err))
			return err->code;
		to->null_count = to->length;
		return WEIR_OK;
	case WEIR_LAYOUT_BITS:
	case WEIR_LAYOUT_FIXED:
		if (cdata_import_head(import, from, 2, to, err) || import_fixed(import, from, to, err))
			return err->code;
		return type->id == WEIR_DICTIONARY_TYPE ? import_dictionary(import, foreign, from, to, err) : WEIR_OK;
	case WEIR_LAYOUT_BYTES:
		return cdata_import_head(import, from, 3, to, err) ? err->code : import_bytes(import, from, to, err);
	case WEIR_LAYOUT_NESTED:
		break;
	}
	if (cdata_import_head(import, from, offsets ? 2 : 1, to, err) ||
	    (offsets && import_offsets(import, from, to, err)))
		return err->code;
	return import_children(import, foreign, from, to, err);
}

struct weir_array *cdata_import_node(const struct cdata_import *import, const struct ArrowSchema *foreign,
				     const struct weir_type *type, const struct ArrowArray *from,
				     struct weir_error *err)
{
	struct weir_array *array;

	switch (cdata_form_of(foreign)) {
	case CDATA_VIEW:
		return cdata_convert_view(import, type, from, err);
	case CDATA_LIST_VIEW:
	case CDATA_LARGE_LIST_VIEW:
		return cdata_convert_list_view(import, foreign, type, from, err);
	case CDATA_RUN_END:
		return cdata_convert_run_end(import, foreign, type, from, err);
	case CDATA_DECIMAL32:
		return cdata_convert_decimal(import, type, 4, from, err);
	case CDATA_DECIMAL64:
		return cdata_convert_decimal(import, type, 8, from, err);
	case CDATA_PLAIN:
		break;
	}
	array = weir_array_new(import->account, type, err);
	if (!array || !import_plain(import, foreign, from, array, err))
		return array;
	weir_array_unref(array);
	return NULL;
}

int weir_cdata_import_array(struct weir_account *account, struct ArrowSchema *schema, struct ArrowArray *array,
			    struct weir_array **out, struct weir_error *err)
{
	struct foreign_owner *owner = own(account, array, err);
	struct cdata_import import = {.account = account};
	const struct weir_type *type = NULL;
	int code;

	*out = NULL;
	if (!schema->release) {
		code = weir_error_set(err, WEIR_E_INVALID, "the Arrow schema was released before");
		goto out;
	}
	if (!owner) {
		code = err->code;
		goto out;
	}
	import.owner = &owner->owner;
	type = cdata_import_type(account, schema, err);
	if (type)
		*out = cdata_import_node(&import, schema, type, &owner->array, err);
	code = *out ? weir_array_validate(*out, true, err) : err->code;
	if (code) {
		weir_array_unref(*out);
		*out = NULL;
	}
out:
	weir_type_unref(type);
	if (schema->release)
		schema->release(schema);
	weir_owner_unref(owner ? &owner->owner : NULL);
	return code;
}

/* A struct's own nulls, put into a column: a bitmap of rows that are valid in both. */
static int push_nulls(struct weir_account *account, const uint8_t *bits, int64_t offset, struct weir_array **column,
		      struct weir_error *err)
{
	struct weir_array *old = *column, *array;
	const uint8_t *own_bits = old->buffers[0].data;
	int64_t set = 0;
	uint8_t *to;

	if (old->type->layout == WEIR_LAYOUT_NULL)
		return WEIR_OK;
	array = weir_array_new(account, old->type, err);
	if (!array)
		return err->code;
	array->length = old->length;
	array->offset = old->offset;
	for (int i = 1; i < 3; i++)
		array->buffers[i] = weir_buffer_ref(&old->buffers[i]);
	for (uint32_t i = 0; i < old->child_count; i++)
		array->children[i] = weir_array_ref(old->children[i]);
	array->dictionary = weir_array_ref(old->dictionary);
	if (weir_buffer_new(account, weir_bits_size(array->offset + array->length), &array->buffers[0], &to, err)) {
		weir_array_unref(array);
		return err->code;
	}
	memset(to, 0, array->buffers[0].size);
	for (int64_t at = 0; at < array->length; at += 64) {
		int64_t step = array->length - at < 64 ? array->length - at : 64;
		uint64_t word = weir_bits_load(bits, offset + at, step);

		if (own_bits)
			word &= weir_bits_load(own_bits, array->offset + at, step);
		weir_bits_store(to, array->offset + at, step, word);
		set += __builtin_popcountll(word);
	}
	array->null_count = array->length - set;
	weir_array_unref(old);
	*column = array;
	return WEIR_OK;
}

/* Rows [offset, offset + length) of the struct's child, with the struct's nulls. */
static int import_column(const struct cdata_import *import, const struct ArrowSchema *foreign,
			 const struct weir_field *field, const struct ArrowArray *parent, uint32_t at,
			 struct weir_array **out, struct weir_error *err)
{
	const uint8_t *bits = parent->n_buffers > 0 && parent->buffers ? parent->buffers[0] : NULL;
	struct weir_array *whole;

	*out = NULL;
	if (!parent->children[at])
		return weir_error_set(err, WEIR_E_DATA, "an Arrow array without its child %u", at);
	whole = cdata_import_node(import, foreign ? foreign->children[at] : NULL, field->type, parent->children[at],
				  err);
	if (!whole)
		return err->code;
	if (!array_validate_column(whole, field->name, VALIDATE_DEEP | VALIDATE_DICTIONARIES, err))
		*out = weir_array_slice(whole, parent->offset, parent->length, err);
	weir_array_unref(whole);
	if (!*out)
		return err->code;
	if (!bits || parent->null_count == 0 || weir_bits_count(bits, parent->offset, parent->length) == parent->length)
		return WEIR_OK;
	return push_nulls(import->account, bits, parent->offset, out, err);
}

static int import_columns(const struct cdata_import *import, const struct ArrowSchema *foreign,
			  const struct weir_schema *schema, const struct ArrowArray *from, struct weir_array **columns,
			  struct weir_error *err)
{
	int64_t end;

	if (from->n_children != schema->field_count || (schema->field_count && !from->children) ||
	    (foreign && foreign->n_children != schema->field_count))
		return weir_error_set(err, WEIR_E_DATA, "an Arrow batch of %lld columns, not %u",
				      (long long)from->n_children, schema->field_count);
	if (from->length < 0 || from->offset < 0 || weir_add_overflows(from->length, from->offset, &end))
		return weir_error_set(err, WEIR_E_DATA, "an Arrow batch of %lld rows from row %lld on",
				      (long long)from->length, (long long)from->offset);
	for (uint32_t i = 0; i < schema->field_count; i++)
		if (import_column(import, foreign, &schema->fields[i], from, i, &columns[i], err)) {
			weir_error_at_column(err, schema->fields[i].name);
			return err->code;
		}
	return WEIR_OK;
}

int weir_cdata_import_batch_as(struct weir_account *account, const struct ArrowSchema *foreign,
			       const struct weir_schema *schema, struct ArrowArray *array, struct weir_batch **out,
			       struct weir_error *err)
{
	struct foreign_owner *owner = own(account, array, err);
	size_t size = schema->field_count * sizeof(struct weir_array *);
	struct cdata_import import = {.account = account};
	struct weir_array **columns;

	*out = NULL;
	if (!owner)
		return err->code;
	import.owner = &owner->owner;
	columns = weir_alloc_zero(account, size, err);
	if (columns && !import_columns(&import, foreign, schema, &owner->array, columns, err))
		*out = weir_batch_new(account, schema, owner->array.length, columns, err);
	for (uint32_t i = 0; columns && i < schema->field_count; i++)
		weir_array_unref(columns[i]);
	weir_free(account, columns, size);
	weir_owner_unref(&owner->owner);
	return *out ? WEIR_OK : err->code;
}

int weir_cdata_import_batch(struct weir_account *account, const struct weir_schema *schema, struct ArrowArray *array,
			    struct weir_batch **out, struct weir_error *err)
{
	return weir_cdata_import_batch_as(account, NULL, schema, array, out, err);
}
