/* Entry points of libweir_probe for tests that hold arrays of another library against the engine's. Structs given are
 * consumed, those returned belong to the caller. */
#include "weir/weir.h"
#include "arrow/cdata_impl.h"

#include <stdio.h>

WEIR_API struct weir_mem *weir_probe_new(int64_t limit, struct weir_error *err);
WEIR_API void weir_probe_free(struct weir_mem *mem);
WEIR_API int64_t weir_probe_used(struct weir_mem *mem);
WEIR_API const char *weir_probe_format_error(const struct weir_error *err, char *buffer, size_t size);
WEIR_API int weir_probe_array(struct weir_mem *mem, const char *op, struct ArrowSchema *a_schema, struct ArrowArray *a,
			      struct ArrowSchema *b_schema, struct ArrowArray *b, const int64_t *numbers, int64_t count,
			      struct ArrowSchema *out_schema, struct ArrowArray *out, int64_t *out_number,
			      struct weir_error *err);
WEIR_API int weir_probe_stream(struct weir_mem *mem, struct ArrowArrayStream *in, struct ArrowArrayStream *out,
			       struct weir_error *err);
WEIR_API int weir_probe_schema(struct weir_mem *mem, struct ArrowSchema *in, struct ArrowSchema *out,
			       struct weir_error *err);
WEIR_API int weir_probe_unify(struct weir_mem *mem, struct ArrowSchema *a, struct ArrowSchema *b,
			      struct ArrowSchema *out, struct weir_error *err);
WEIR_API int weir_probe_print(struct weir_mem *mem, struct ArrowSchema *schema, char *buffer, size_t size,
			      struct weir_error *err);
WEIR_API int weir_probe_parse(struct weir_mem *mem, const char *text, struct ArrowSchema *out, struct weir_error *err);

struct weir_mem *weir_probe_new(int64_t limit, struct weir_error *err)
{
	struct weir_mem *mem = NULL;

	weir_mem_new(limit, &mem, err);
	return mem;
}

void weir_probe_free(struct weir_mem *mem)
{
	weir_mem_free(mem);
}

int64_t weir_probe_used(struct weir_mem *mem)
{
	struct weir_mem_stats stats;

	weir_mem_stats(mem, &stats);
	return stats.used;
}

const char *weir_probe_format_error(const struct weir_error *err, char *buffer, size_t size)
{
	return weir_error_format(err, buffer, size);
}

static struct weir_array *filter(struct weir_account *account, const struct weir_array *array, const int64_t *numbers,
				 int64_t count, struct weir_error *err)
{
	size_t size = (size_t)(count / 64 + 1) * 8;
	uint64_t *keep = weir_alloc_zero(account, size, err);
	struct weir_array *result;

	if (!keep)
		return NULL;
	for (int64_t i = 0; i < count; i++)
		keep[i / 64] |= (uint64_t)(numbers[i] != 0) << i % 64;
	result = weir_array_filter(account, array, keep, err);
	weir_free(account, keep, size);
	return result;
}

/* NULL with err set, or without an error where `number` is the whole answer. */
static struct weir_array *perform(struct weir_account *account, const char *op, struct weir_array *a,
				  struct weir_array *b, const int64_t *numbers, int64_t count, int64_t *number,
				  struct weir_error *err)
{
	if (!strcmp(op, "roundtrip"))
		return weir_array_ref(a);
	if (!strcmp(op, "slice"))
		return weir_array_slice(a, numbers[0], numbers[1], err);
	if (!strcmp(op, "concat"))
		return weir_array_concat(account, (struct weir_array *[]){a, b}, 2, err);
	if (!strcmp(op, "take"))
		return weir_array_take(account, a, numbers, count, err);
	if (!strcmp(op, "filter"))
		return filter(account, a, numbers, count, err);
	if (!strcmp(op, "promote"))
		return weir_array_promote(account, a, b->type, err);
	if (!strcmp(op, "equal"))
		*number = weir_array_equal(a, b, numbers[0]);
	else if (!strcmp(op, "null_count"))
		*number = weir_array_null_count(a);
	else if (!strcmp(op, "validate"))
		*number = weir_array_validate(a, true, err);
	else
		weir_error_set(err, WEIR_E_INVALID, "no operation '%s'", op);
	return NULL;
}

int weir_probe_array(struct weir_mem *mem, const char *op, struct ArrowSchema *a_schema, struct ArrowArray *a,
		     struct ArrowSchema *b_schema, struct ArrowArray *b, const int64_t *numbers, int64_t count,
		     struct ArrowSchema *out_schema, struct ArrowArray *out, int64_t *out_number,
		     struct weir_error *err)
{
	struct weir_account *account = weir_mem_root(mem);
	struct weir_array *x = NULL, *y = NULL, *z = NULL;

	weir_error_clear(err);
	if (weir_cdata_import_array(account, a_schema, a, &x, err))
		goto out;
	if (b && weir_cdata_import_array(account, b_schema, b, &y, err))
		goto out;
	z = perform(account, op, x, y, numbers, count, out_number, err);
	if (!z || weir_array_validate(z, true, err) || weir_cdata_export_type(account, z->type, "", out_schema, err))
		goto out;
	if (weir_cdata_export_array(z, out, err))
		out_schema->release(out_schema);
out:
	weir_array_unref(x);
	weir_array_unref(y);
	weir_array_unref(z);
	return err->code;
}

int weir_probe_stream(struct weir_mem *mem, struct ArrowArrayStream *in, struct ArrowArrayStream *out,
		      struct weir_error *err)
{
	struct weir_account *account = weir_mem_root(mem);
	struct weir_batch_source source;
	struct weir_schema *schema;

	weir_error_clear(err);
	if (weir_cdata_import_stream(account, in, &schema, &source, err))
		return err->code;
	weir_cdata_export_stream(account, schema, source, out, err);
	weir_schema_unref(schema);
	return err->code;
}

int weir_probe_schema(struct weir_mem *mem, struct ArrowSchema *in, struct ArrowSchema *out, struct weir_error *err)
{
	struct weir_schema *schema;

	weir_error_clear(err);
	if (weir_cdata_import_schema(weir_mem_root(mem), in, &schema, err))
		return err->code;
	weir_cdata_export_schema(schema, out, err);
	weir_schema_unref(schema);
	return err->code;
}

int weir_probe_unify(struct weir_mem *mem, struct ArrowSchema *a, struct ArrowSchema *b, struct ArrowSchema *out,
		     struct weir_error *err)
{
	struct weir_account *account = weir_mem_root(mem);
	struct weir_schema *x = NULL, *y = NULL, *both = NULL;

	weir_error_clear(err);
	if (!weir_cdata_import_schema(account, a, &x, err) && !weir_cdata_import_schema(account, b, &y, err) &&
	    (both = weir_schema_unify(account, x, y, err)))
		weir_cdata_export_schema(both, out, err);
	weir_schema_unref(x);
	weir_schema_unref(y);
	weir_schema_unref(both);
	return err->code;
}

int weir_probe_print(struct weir_mem *mem, struct ArrowSchema *schema, char *buffer, size_t size,
		     struct weir_error *err)
{
	const struct weir_type *type;
	struct weir_text text;

	weir_error_clear(err);
	weir_text_init(&text, weir_mem_root(mem));
	type = cdata_import_type(weir_mem_root(mem), schema, err);
	if (type && !weir_type_print(type, &text, err))
		snprintf(buffer, size, "%s", text.data);
	weir_type_unref(type);
	weir_text_release(&text);
	schema->release(schema);
	return err->code;
}

int weir_probe_parse(struct weir_mem *mem, const char *text, struct ArrowSchema *out, struct weir_error *err)
{
	const struct weir_type *type;

	weir_error_clear(err);
	type = weir_type_parse(weir_mem_root(mem), text, err);
	if (type)
		weir_cdata_export_type(weir_mem_root(mem), type, "", out, err);
	weir_type_unref(type);
	return err->code;
}
