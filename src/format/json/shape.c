/* A type, made ready to be read: how each of its values is spelled, and the names of its structs' fields. */
#include "format/json/json_impl.h"

static int kind_of(const struct weir_type *type, enum json_kind *kind, struct weir_error *err)
{
	char name[128];

	switch (type->id) {
	case WEIR_NULL:
		*kind = JSON_NULL;
		return WEIR_OK;
	case WEIR_BOOL:
		*kind = JSON_BOOL;
		return WEIR_OK;
	case WEIR_INT8:
	case WEIR_INT16:
	case WEIR_INT32:
	case WEIR_INT64:
	case WEIR_UINT8:
	case WEIR_UINT16:
	case WEIR_UINT32:
	case WEIR_UINT64:
		*kind = JSON_INTEGER;
		return WEIR_OK;
	case WEIR_HALF:
	case WEIR_FLOAT:
	case WEIR_DOUBLE:
		*kind = JSON_REAL;
		return WEIR_OK;
	case WEIR_STRING:
	case WEIR_LARGE_STRING:
		*kind = JSON_STRING;
		return WEIR_OK;
	case WEIR_BINARY:
	case WEIR_LARGE_BINARY:
		*kind = JSON_BINARY;
		return WEIR_OK;
	case WEIR_TIMESTAMP:
		*kind = JSON_TIMESTAMP;
		return WEIR_OK;
	case WEIR_DECIMAL128:
	case WEIR_DECIMAL256:
	case WEIR_DATE32:
	case WEIR_DATE64:
	case WEIR_TIME32:
	case WEIR_TIME64:
	case WEIR_DURATION:
		*kind = JSON_FIXED;
		return WEIR_OK;
	case WEIR_LIST_TYPE:
	case WEIR_LARGE_LIST:
	case WEIR_FIXED_LIST:
		*kind = JSON_LIST;
		return WEIR_OK;
	case WEIR_STRUCT:
		*kind = JSON_STRUCT;
		return WEIR_OK;
	case WEIR_MAP:
		*kind = JSON_MAP;
		return WEIR_OK;
	default:
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "JSON values cannot be read as %s",
				      weir_type_name(type, name, sizeof(name)));
	}
}

int json_shape_init(struct json_shape *shape, struct weir_account *account, const struct weir_type *type,
		    struct weir_error *err)
{
	*shape = (struct json_shape){.type = type};
	if (kind_of(type, &shape->kind, err))
		return err->code;
	if (shape->kind == JSON_MAP && !weir_type_is_text(type->fields[0].type->fields[0].type))
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "maps read from JSON have strings as keys");
	if (type->field_count) {
		shape->children = weir_alloc_zero(account, type->field_count * sizeof(*shape->children), err);
		if (!shape->children)
			return err->code;
		shape->child_count = type->field_count;
	}
	for (uint32_t i = 0; i < shape->child_count; i++)
		if (json_shape_init(&shape->children[i], account, type->fields[i].type, err))
			goto fail;
	if (shape->kind == JSON_STRUCT && json_keys_init(&shape->keys, account, type->fields, type->field_count, err))
		goto fail;
	return WEIR_OK;
fail:
	json_shape_release(shape, account);
	return err->code;
}

void json_shape_release(struct json_shape *shape, struct weir_account *account)
{
	for (uint32_t i = 0; i < shape->child_count; i++)
		json_shape_release(&shape->children[i], account);
	weir_free(account, shape->children, shape->child_count * sizeof(*shape->children));
	json_keys_release(&shape->keys);
	*shape = (struct json_shape){0};
}
