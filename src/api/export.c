/* What programs receive as Arrow: schemas that need nothing of the session, batches that keep it alive, streams.
 *
 * Arrays point into a session's memory (or an appender's), and a program may release the stream, the task and the
 * session before them: each node of an array, children by themselves because a consumer may move them out, holds a
 * reference. */
#include "api/api_impl.h"

#include <errno.h>
#include <string.h>

void api_keeper_ref(struct api_keeper *keeper)
{
	atomic_fetch_add_explicit(&keeper->refs, 1, memory_order_relaxed);
}

void api_keeper_unref(struct api_keeper *keeper)
{
	/* acq_rel: the last one frees what the others used. */
	if (atomic_fetch_sub_explicit(&keeper->refs, 1, memory_order_acq_rel) == 1)
		keeper->free(keeper);
}

/* ---- schemas: a copy in plain memory, every node by itself ---- */

static void schema_release(struct ArrowSchema *schema)
{
	for (int64_t i = 0; i < schema->n_children; i++) {
		if (schema->children[i]->release)
			schema->children[i]->release(schema->children[i]);
		weir_plain_free(schema->children[i]);
	}
	if (schema->dictionary && schema->dictionary->release)
		schema->dictionary->release(schema->dictionary);
	weir_plain_free(schema->dictionary);
	weir_plain_free(schema->children);
	weir_plain_free(schema->private_data);
	schema->release = NULL;
}

/* int32 count, then for each of twice as many texts: int32 size, bytes. It is our own, so it is well formed. */
static size_t metadata_size(const char *metadata)
{
	size_t size = sizeof(int32_t);
	int32_t count, part;

	if (!metadata)
		return 0;
	memcpy(&count, metadata, sizeof(count));
	for (int32_t i = 0; i < 2 * count; i++) {
		memcpy(&part, metadata + size, sizeof(part));
		size += sizeof(part) + (size_t)part;
	}
	return size;
}

/* `to` is released by the caller when it fails. */
static bool copy_schema(const struct ArrowSchema *from, struct ArrowSchema *to)
{
	size_t format_size = strlen(from->format) + 1, name_size = from->name ? strlen(from->name) + 1 : 0;
	size_t meta_size = metadata_size(from->metadata);
	char *texts = weir_plain_alloc(format_size + name_size + meta_size);

	*to = (struct ArrowSchema){.flags = from->flags, .release = schema_release, .private_data = texts};
	if (!texts)
		return false;
	memcpy(texts, from->format, format_size);
	to->format = texts;
	if (from->name)
		to->name = memcpy(texts + format_size, from->name, name_size);
	if (from->metadata)
		to->metadata = memcpy(texts + format_size + name_size, from->metadata, meta_size);
	if (from->n_children) {
		to->children = weir_plain_alloc((size_t)from->n_children * sizeof(*to->children));
		if (!to->children)
			return false;
	}
	for (int64_t i = 0; i < from->n_children; i++) {
		to->children[i] = weir_plain_alloc(sizeof(**to->children));
		if (!to->children[i])
			return false;
		to->n_children = i + 1;
		if (!copy_schema(from->children[i], to->children[i]))
			return false;
	}
	if (from->dictionary) {
		to->dictionary = weir_plain_alloc(sizeof(*to->dictionary));
		if (!to->dictionary || !copy_schema(from->dictionary, to->dictionary))
			return false;
	}
	return true;
}

int api_export_schema(const struct weir_schema *schema, struct ArrowSchema *out, struct weir_error *err)
{
	struct ArrowSchema own = {0};
	int code = weir_cdata_export_schema(schema, &own, err);

	*out = (struct ArrowSchema){0};
	if (code)
		return code;
	if (!copy_schema(&own, out)) {
		out->release(out);
		code = weir_error_set(err, WEIR_E_MEMORY, "no memory to hand out a schema");
	}
	own.release(&own);
	return code;
}

/* ---- batches ---- */

/* The original's release and private data, and who keeps its memory. */
struct kept_array {
	void (*release)(struct ArrowArray *array);
	void *private_data;
	struct api_keeper *keeper;
};

static void kept_release(struct ArrowArray *array)
{
	struct kept_array *kept = array->private_data;
	struct api_keeper *keeper = kept->keeper;

	array->release = kept->release;
	array->private_data = kept->private_data;
	weir_plain_free(kept);
	array->release(array);
	array->release = NULL;
	api_keeper_unref(keeper);
}

/* False: no memory; what was done holds. */
static bool keep_array(struct api_keeper *keeper, struct ArrowArray *array)
{
	struct kept_array *kept = weir_plain_alloc(sizeof(*kept));
	bool done = kept != NULL;

	if (!kept)
		return false;
	*kept = (struct kept_array){array->release, array->private_data, keeper};
	api_keeper_ref(keeper);
	array->release = kept_release;
	array->private_data = kept;
	for (int64_t i = 0; done && i < array->n_children; i++)
		done = keep_array(keeper, array->children[i]);
	return done && (!array->dictionary || keep_array(keeper, array->dictionary));
}

int api_export_batch(struct api_keeper *keeper, const struct weir_batch *batch, struct ArrowArray *out,
		     struct weir_error *err)
{
	int code = weir_cdata_export_batch(batch, out, err);

	if (!code && !keep_array(keeper, out)) {
		out->release(out);
		code = weir_error_set(err, WEIR_E_MEMORY, "no memory to hand out a batch");
	}
	return code;
}

/* ---- streams ---- */

struct stream {
	struct weir_task *task;
	char message[1900];
};

static int fail(struct stream *stream, const struct weir_error *err)
{
	weir_error_format(err, stream->message, sizeof(stream->message));
	return err->code == WEIR_E_CANCELLED                             ? ECANCELED
	       : err->code == WEIR_E_MEMORY || err->code == WEIR_E_LIMIT ? ENOMEM
									 : EIO;
}

static int stream_schema(struct ArrowArrayStream *out, struct ArrowSchema *schema)
{
	struct stream *stream = out->private_data;
	struct weir_error err = {0};

	return api_export_schema(api_task_schema(stream->task), schema, &err) ? fail(stream, &err) : 0;
}

static int stream_next(struct ArrowArrayStream *out, struct ArrowArray *array)
{
	struct stream *stream = out->private_data;
	struct weir_batch *batch = NULL;
	struct weir_error err = {0};
	int code = api_task_next(stream->task, &batch, &err);

	memset(array, 0, sizeof(*array));
	if (!code && batch)
		code = api_export_batch(api_task_keeper(stream->task), batch, array, &err);
	weir_batch_unref(batch);
	return code ? fail(stream, &err) : 0;
}

static const char *stream_error(struct ArrowArrayStream *out)
{
	const struct stream *stream = out->private_data;

	return stream->message[0] ? stream->message : NULL;
}

static void stream_release(struct ArrowArrayStream *out)
{
	struct stream *stream = out->private_data;

	api_task_unclaim(stream->task);
	weir_plain_free(stream);
	out->release = NULL;
}

int api_export_stream(struct weir_task *task, struct ArrowArrayStream *out, struct weir_error *err)
{
	struct stream *stream = weir_plain_alloc(sizeof(*stream));

	if (!stream) {
		api_task_unclaim(task);
		return weir_error_set(err, WEIR_E_MEMORY, "no memory for a stream");
	}
	stream->task = task;
	*out = (struct ArrowArrayStream){
		.get_schema = stream_schema,
		.get_next = stream_next,
		.get_last_error = stream_error,
		.release = stream_release,
		.private_data = stream,
	};
	return WEIR_OK;
}

int weir_task_stream(struct weir_task *task, struct ArrowArrayStream *out, struct weir_error **error)
{
	struct weir_error err = {0};
	int code = api_need(task, "the task", error);

	if (!code)
		code = api_need(out, "`out` of weir_task_stream", error);
	if (code)
		return code;
	memset(out, 0, sizeof(*out));
	code = api_task_claim(task, &err);
	if (!code)
		code = api_export_stream(task, out, &err);
	return code ? api_report(&err, error) : WEIR_OK;
}

int weir_flow_stream(const struct weir_flow *flow, struct ArrowArrayStream *out, struct weir_error **error)
{
	struct weir_error err = {0};
	struct weir_task *task = NULL;
	int code = api_need(out, "`out` of weir_flow_stream", error);

	if (code)
		return code;
	memset(out, 0, sizeof(*out));
	code = api_flow_claim(flow, &task, &err);
	if (!code)
		code = api_export_stream(task, out, &err);
	return code ? api_report(&err, error) : WEIR_OK;
}
