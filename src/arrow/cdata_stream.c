/* Streams: a pull function as an ArrowArrayStream, and an ArrowArrayStream as a pull function. */
#include "arrow/cdata_impl.h"

#include <errno.h>

struct exported_stream {
	struct weir_account *account;
	struct weir_schema *schema;
	struct weir_batch_source source;
	bool ended;
	char message[1600];
};

static int remember(struct exported_stream *stream, const struct weir_error *err)
{
	weir_error_format(err, stream->message, sizeof(stream->message));
	switch (err->code) {
	case WEIR_E_MEMORY:
	case WEIR_E_LIMIT:
		return ENOMEM;
	case WEIR_E_CANCELLED:
		return ECANCELED;
	case WEIR_E_UNSUPPORTED:
		return ENOSYS;
	case WEIR_E_IO:
	case WEIR_E_NO_SPACE:
	case WEIR_E_NOT_FOUND:
		return err->errno_value ? err->errno_value : EIO;
	default:
		return EINVAL;
	}
}

static int exported_schema(struct ArrowArrayStream *out, struct ArrowSchema *schema)
{
	struct exported_stream *stream = out->private_data;
	struct weir_error err = {0};

	return weir_cdata_export_schema(stream->schema, schema, &err) ? remember(stream, &err) : 0;
}

static int exported_next(struct ArrowArrayStream *out, struct ArrowArray *array)
{
	struct exported_stream *stream = out->private_data;
	struct weir_batch *batch = NULL;
	struct weir_error err = {0};
	int code;

	*array = (struct ArrowArray){0};
	if (stream->ended)
		return 0;
	code = stream->source.next(stream->source.state, &batch, &err);
	if (!code && batch)
		code = weir_cdata_export_batch(batch, array, &err);
	stream->ended = code || !batch;
	weir_batch_unref(batch);
	return code ? remember(stream, &err) : 0;
}

static const char *exported_error(struct ArrowArrayStream *out)
{
	struct exported_stream *stream = out->private_data;

	return *stream->message ? stream->message : NULL;
}

static void source_release(struct weir_batch_source *source)
{
	if (source->release)
		source->release(source->state);
	*source = (struct weir_batch_source){0};
}

static void exported_release(struct ArrowArrayStream *out)
{
	struct exported_stream *stream = out->private_data;

	source_release(&stream->source);
	weir_schema_unref(stream->schema);
	weir_free(stream->account, stream, sizeof(*stream));
	out->release = NULL;
}

int weir_cdata_export_stream(struct weir_account *account, const struct weir_schema *schema,
			     struct weir_batch_source source, struct ArrowArrayStream *out, struct weir_error *err)
{
	struct exported_stream *stream = weir_alloc_zero(account, sizeof(*stream), err);

	*out = (struct ArrowArrayStream){0};
	if (!stream) {
		source_release(&source);
		return err->code;
	}
	stream->account = account;
	stream->schema = weir_schema_ref(schema);
	stream->source = source;
	out->get_schema = exported_schema;
	out->get_next = exported_next;
	out->get_last_error = exported_error;
	out->release = exported_release;
	out->private_data = stream;
	return WEIR_OK;
}

struct imported_stream {
	struct weir_account *account;
	struct ArrowArrayStream stream;
	struct ArrowSchema foreign; /* tells views and run ends apart from what they become */
	struct weir_schema *schema;
};

static int stream_failed(struct ArrowArrayStream *stream, int errno_value, struct weir_error *err)
{
	const char *text = stream->get_last_error(stream);

	weir_error_set(err, errno_value == ENOMEM ? WEIR_E_MEMORY : WEIR_E_IO, "the Arrow stream failed: %s",
		       text ? text : "its producer gives no reason");
	err->errno_value = errno_value;
	return err->code;
}

static int imported_next(void *state, struct weir_batch **out, struct weir_error *err)
{
	struct imported_stream *mine = state;
	struct ArrowArray array = {0};
	int failed = mine->stream.get_next(&mine->stream, &array);

	*out = NULL;
	if (failed)
		return stream_failed(&mine->stream, failed, err);
	if (!array.release)
		return WEIR_OK;
	return weir_cdata_import_batch_as(mine->account, &mine->foreign, mine->schema, &array, out, err);
}

static void imported_release(void *state)
{
	struct imported_stream *mine = state;

	if (mine->foreign.release)
		mine->foreign.release(&mine->foreign);
	if (mine->stream.release)
		mine->stream.release(&mine->stream);
	weir_schema_unref(mine->schema);
	weir_free(mine->account, mine, sizeof(*mine));
}

int weir_cdata_import_stream(struct weir_account *account, struct ArrowArrayStream *stream, struct weir_schema **schema,
			     struct weir_batch_source *out, struct weir_error *err)
{
	struct imported_stream *mine;
	struct ArrowSchema copy = {0};
	int failed;

	*schema = NULL;
	*out = (struct weir_batch_source){0};
	if (!stream->release)
		return weir_error_set(err, WEIR_E_INVALID, "the Arrow stream was released before");
	mine = weir_alloc_zero(account, sizeof(*mine), err);
	if (!mine) {
		stream->release(stream);
		return err->code;
	}
	mine->account = account;
	mine->stream = *stream;
	stream->release = NULL;
	/* Asked for twice: reading a schema consumes it, and its formats are needed for every batch. */
	failed = mine->stream.get_schema(&mine->stream, &copy);
	if (!failed)
		failed = mine->stream.get_schema(&mine->stream, &mine->foreign);
	if (failed) {
		stream_failed(&mine->stream, failed, err);
		if (copy.release)
			copy.release(&copy);
		goto fail;
	}
	if (weir_cdata_import_schema(account, &copy, &mine->schema, err))
		goto fail;
	*schema = weir_schema_ref(mine->schema);
	*out = (struct weir_batch_source){.next = imported_next, .release = imported_release, .state = mine};
	return WEIR_OK;
fail:
	imported_release(mine);
	return err->code;
}
