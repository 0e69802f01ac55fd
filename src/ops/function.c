/* Definitions of C functions of the program, and what they return, checked. */
#include "ops/function.h"
#include "ops/ops_impl.h"

#include <string.h>

int weir_context_failed(const struct weir_context *context, const char *what, int returned, struct weir_error *err)
{
	/* Whatever it says, it was told to stop. */
	if (context->cancelled && atomic_load_explicit(context->cancelled, memory_order_relaxed))
		return weir_error_set(err, WEIR_E_CANCELLED, "the run was cancelled");
	if (context->text[0])
		return weir_error_set(err, WEIR_E_FUNCTION, "%s", context->text);
	return weir_error_set(err, WEIR_E_FUNCTION, "%s of %s returned %d and gave no reason (weir_context_fail does)",
			      what, context->name, returned);
}

/* The struct and its texts in one piece; the texts are moved into it one after the other. */
static char *take_text(char *room, const char **text)
{
	size_t size;

	if (!*text)
		return room;
	size = strlen(*text) + 1;
	memcpy(room, *text, size);
	*text = room;
	return room + size;
}

static size_t text_size(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static int bad_size(const char *what, size_t size, struct weir_error *err)
{
	return weir_error_set(err, WEIR_E_INVALID, "struct_size of struct %s is %zu; set it to sizeof(struct %s)", what,
			      size, what);
}

int weir_transform_function_new(const struct weir_transform *given, struct weir_transform_function **out,
				struct weir_error *err)
{
	struct weir_transform def = {0};
	struct weir_transform_function *function;
	char *room;

	if (!given)
		return weir_error_set(err, WEIR_E_INVALID, "the transform is NULL");
	if (given->struct_size < offsetof(struct weir_transform, apply) + sizeof(given->apply) ||
	    given->struct_size > 1 << 16)
		return bad_size("weir_transform", given->struct_size, err);
	memcpy(&def, given, given->struct_size < sizeof(def) ? given->struct_size : sizeof(def));
	def.struct_size = sizeof(def);
	if (!def.name)
		def.name = "transform";
	if (!def.apply)
		return weir_error_set(err, WEIR_E_INVALID, "transform %s has no function apply", def.name);
	if (def.batch_rows < 0)
		return weir_error_set(err, WEIR_E_INVALID, "transform %s: batch_rows is %lld", def.name,
				      (long long)def.batch_rows);
	function = weir_plain_alloc(sizeof(*function) + text_size(def.name) + text_size(def.columns_in) +
				    text_size(def.columns_out));
	if (!function)
		return weir_error_set(err, WEIR_E_MEMORY, "no memory for a transform");
	room = take_text((char *)(function + 1), &def.name);
	room = take_text(room, &def.columns_in);
	take_text(room, &def.columns_out);
	function->def = def;
	atomic_init(&function->refs, 1);
	*out = function;
	return WEIR_OK;
}

void weir_transform_function_unref(struct weir_transform_function *function)
{
	/* acq_rel: the last one releases what the others used. */
	if (!function || atomic_fetch_sub_explicit(&function->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (function->def.release)
		function->def.release(function->def.data);
	weir_plain_free(function);
}

int weir_source_function_new(const struct weir_source *given, struct weir_source_function **out, struct weir_error *err)
{
	struct weir_source def = {0};
	struct weir_source_function *function;
	char *room;

	if (!given)
		return weir_error_set(err, WEIR_E_INVALID, "the source is NULL");
	if (given->struct_size < offsetof(struct weir_source, next) + sizeof(given->next) ||
	    given->struct_size > 1 << 16)
		return bad_size("weir_source", given->struct_size, err);
	memcpy(&def, given, given->struct_size < sizeof(def) ? given->struct_size : sizeof(def));
	def.struct_size = sizeof(def);
	if (!def.name)
		def.name = "source";
	if (!def.next)
		return weir_error_set(err, WEIR_E_INVALID, "source %s has no function next", def.name);
	if (!def.columns)
		return weir_error_set(err, WEIR_E_INVALID,
				      "source %s does not say its columns (\"id: int64, name: string\")", def.name);
	if (def.split_count < 0)
		return weir_error_set(err, WEIR_E_INVALID, "source %s: split_count is %lld", def.name,
				      (long long)def.split_count);
	if (def.split_count > 0 && !def.open)
		return weir_error_set(err, WEIR_E_INVALID,
				      "source %s has splits but no function open, which would tell them apart",
				      def.name);
	function = weir_plain_alloc(sizeof(*function) + text_size(def.name) + text_size(def.columns));
	if (!function)
		return weir_error_set(err, WEIR_E_MEMORY, "no memory for a source");
	room = take_text((char *)(function + 1), &def.name);
	take_text(room, &def.columns);
	function->def = def;
	atomic_init(&function->refs, 1);
	*out = function;
	return WEIR_OK;
}

void weir_source_function_unref(struct weir_source_function *function)
{
	/* acq_rel: as above. */
	if (!function || atomic_fetch_sub_explicit(&function->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (function->def.release)
		function->def.release(function->def.data);
	weir_plain_free(function);
}

int weir_function_schema(struct weir_account *account, const char *columns, struct weir_schema **out,
			 struct weir_error *err)
{
	const struct weir_type *type;
	struct weir_text text;
	int code;

	*out = NULL;
	weir_text_init(&text, account);
	code = weir_text_printf(&text, err, "struct<%s>", columns);
	type = code ? NULL : weir_type_parse(account, text.data, err);
	if (!code && !type && (err->code == WEIR_E_MEMORY || err->code == WEIR_E_LIMIT)) {
		code = err->code;
	} else if (!code && !type) {
		struct weir_error cause = *err;

		code = weir_error_set(
			err, WEIR_E_SYNTAX,
			"the columns \"%s\" cannot be read (write them as \"id: int64, name: string\"): %s", columns,
			cause.message);
	}
	if (type) {
		*out = weir_schema_new(account, type->fields, type->field_count, NULL, err);
		code = *out ? WEIR_OK : err->code;
	}
	weir_type_unref(type);
	weir_text_release(&text);
	return code;
}

/* The schema that came with a batch against the one that was promised. */
static int compare(const struct weir_schema *given, const struct weir_schema *schema, struct weir_error *err)
{
	char is[96], was[96];

	if (given->field_count != schema->field_count)
		return weir_error_set(err, WEIR_E_TYPE, "the function's batch has %u columns, and %u were promised",
				      given->field_count, schema->field_count);
	for (uint32_t i = 0; i < schema->field_count; i++) {
		const struct weir_field *a = &given->fields[i], *b = &schema->fields[i];

		if (strcmp(a->name, b->name) != 0)
			return weir_error_set(err, WEIR_E_TYPE,
					      "column %u of the function's batch is '%s', and '%s' was promised", i,
					      a->name, b->name);
		if (weir_type_equal(a->type, b->type, false))
			continue;
		weir_error_set(err, WEIR_E_TYPE, "the function's batch has type %s here, and %s was promised",
			       weir_type_name(a->type, is, sizeof(is)), weir_type_name(b->type, was, sizeof(was)));
		weir_error_at_column(err, b->name);
		return err->code;
	}
	return WEIR_OK;
}

static void release_nothing(struct ArrowSchema *schema)
{
	schema->release = NULL;
}

int weir_function_import(struct weir_account *account, const struct weir_schema *schema, struct ArrowSchema *given,
			 struct ArrowArray *array, struct weir_batch **out, struct weir_error *err)
{
	struct weir_schema *own = NULL;
	struct ArrowSchema view = *given;
	int code = WEIR_OK;

	*out = NULL;
	if (given->release && array->release) {
		/* Reading a schema consumes it, and its formats are still needed for the array. */
		view.release = release_nothing;
		code = weir_cdata_import_schema(account, &view, &own, err);
		if (!code)
			code = compare(own, schema, err);
	}
	if (!code && array->release) {
		code = given->release ? weir_cdata_import_batch_as(account, given, schema, array, out, err)
				      : weir_cdata_import_batch(account, schema, array, out, err);
		if (code && code != WEIR_E_GIVE_UP && code != WEIR_E_CANCELLED && code != WEIR_E_MEMORY &&
		    code != WEIR_E_LIMIT) {
			struct weir_error cause = *err;

			code = weir_error_set(err, WEIR_E_DATA, "what the function gave is no valid batch: %s",
					      cause.message);
			weir_error_at_column(err, cause.column[0] ? cause.column : NULL);
		}
	}
	for (uint32_t i = 0; !code && *out && i < schema->field_count; i++) {
		if (schema->fields[i].nullable || weir_array_null_count((*out)->columns[i]) == 0)
			continue;
		code = weir_error_set(err, WEIR_E_DATA,
				      "the function's batch has nulls here, and 'not null' was promised");
		weir_error_at_column(err, schema->fields[i].name);
	}
	if (code) {
		weir_batch_unref(*out);
		*out = NULL;
	}
	if (array->release)
		array->release(array);
	if (given->release)
		given->release(given);
	weir_schema_unref(own);
	return code;
}
