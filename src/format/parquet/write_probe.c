/* write_probe: tables in, Parquet files out, for tests by ctypes: any form of columns, any selection, several parts in
 * one file, and an account with a grant. In libweir_probe only. */
#include "weir/weir.h"
#include "arrow/cdata.h"
#include "format/format.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define WEIR_PROBE __attribute__((visibility("default")))

struct weir_probe_parquet {
	struct ArrowArrayStream *stream; /* read to its end; released by its owner */
	const uint8_t *keep;             /* a byte a row; NULL: all */
	const char *forms; /* a letter a column: f flat, d dictionary, c constant (the vector's first row); NULL: f */
	const char *path;
	const char *codec, *encoding;
	int64_t row_group_rows, row_group_bytes, grant;
	uint32_t vector_rows, parts;
	int32_t codec_level;
	uint8_t dictionary, page_index, statistics, data_page_v2;
	/* out */
	uint64_t rows_written, held_peak;
	char message[1024];
};

struct session {
	struct weir_probe_parquet *probe;
	struct weir_mem *mem;
	struct weir_account account;
	struct weir_format_writer *writer;
	struct weir_writer_options options;
	struct weir_arena arena;
	struct weir_part **parts;
	uint64_t *offsets;
	uint32_t part_count;
	uint64_t written, row;
	uint64_t dictionary_id;
	int fd;
};

static int sink_write(void *state, const void *bytes, uint64_t size, struct weir_error *err)
{
	struct session *session = state;

	session->written += size;
	for (uint64_t done = 0; done < size;) {
		ssize_t n = write(session->fd, (const char *)bytes + done, size - done);

		if (n < 0)
			return weir_error_set_errno(err, errno, "cannot write");
		done += (uint64_t)n;
	}
	return WEIR_OK;
}

/* A flat column as codes into a dictionary of its own values, last one first. Nested ones stay as they are. */
static int make_dictionary(struct session *session, struct weir_column *column, uint32_t row_count,
			   struct weir_error *err)
{
	const struct weir_type *type = weir_type_values(column->type);
	size_t width = type->layout == WEIR_LAYOUT_BYTES ? sizeof(struct weir_view) : type->byte_width;
	struct weir_dictionary *dictionary;
	uint32_t *codes;
	uint8_t *values;

	if (column->form != WEIR_FLAT || (type->layout != WEIR_LAYOUT_BYTES && type->layout != WEIR_LAYOUT_FIXED))
		return WEIR_OK;
	dictionary = weir_arena_alloc_zero(&session->arena, sizeof(*dictionary), err);
	codes = dictionary ? weir_arena_alloc_zero(&session->arena, row_count * 4 + 4, err) : NULL;
	values = codes ? weir_arena_alloc_zero(&session->arena, row_count * width + 1, err) : NULL;
	if (!values)
		return err->code;
	for (uint32_t i = 0; i < row_count; i++) {
		codes[i] = row_count - 1 - i;
		if (weir_column_valid(column, i))
			memcpy(values + codes[i] * width, (const uint8_t *)column->values + i * width, width);
	}
	*dictionary = (struct weir_dictionary){.id = ++session->dictionary_id, .count = row_count, .values = values};
	column->form = WEIR_DICTIONARY;
	column->values = codes;
	column->dictionary = dictionary;
	return WEIR_OK;
}

static int push_vector(struct session *session, const struct weir_batch *batch, int64_t offset, uint32_t count,
		       struct weir_error *err)
{
	const struct weir_probe_parquet *probe = session->probe;
	struct weir_vector vector = {0};
	uint16_t *rows;
	int code;

	weir_arena_clear(&session->arena);
	code = weir_vector_from_batch(batch, offset, count, &session->arena, &vector, err);
	vector.source_row = offset;
	for (uint32_t i = 0; !code && probe->forms && i < vector.column_count; i++) {
		if (probe->forms[i] == 'd')
			code = make_dictionary(session, &vector.columns[i], vector.row_count, err);
		else if (probe->forms[i] == 'c' && vector.columns[i].form == WEIR_FLAT)
			vector.columns[i].form = WEIR_CONSTANT;
	}
	if (code)
		return code;
	if (probe->keep) {
		rows = weir_arena_alloc(&session->arena, count * sizeof(*rows) + 1, err);
		if (!rows)
			return err->code;
		vector.selection.count = 0;
		for (uint32_t i = 0; i < count; i++)
			if (probe->keep[session->row + i])
				rows[vector.selection.count++] = (uint16_t)i;
		vector.selection.rows = rows;
	}
	session->row += count;
	session->probe->rows_written += vector.selection.count;
	return weir_parquet_writer.push(session->writer, &vector, err);
}

static int end_part(struct session *session, struct weir_error *err)
{
	struct weir_account *root = weir_mem_root(session->mem);
	uint64_t before = session->offsets[session->part_count];
	int code = weir_parquet_writer.part_end(session->writer, root, &session->parts[session->part_count], err);

	if (code)
		return code;
	WEIR_ASSERT(session->parts[session->part_count]->bytes == session->written - before);
	session->part_count++;
	return WEIR_OK;
}

static int begin_part(struct session *session, struct weir_error *err)
{
	session->offsets[session->part_count] = session->written;
	return weir_parquet_writer.part_begin(session->writer,
					      (struct weir_byte_sink){.write = sink_write, .state = session}, err);
}

static int next_batch(struct session *session, const struct weir_schema *schema, struct weir_batch **out,
		      struct weir_error *err)
{
	struct ArrowArrayStream *stream = session->probe->stream;
	struct ArrowArray array = {0};

	*out = NULL;
	if (stream->get_next(stream, &array))
		return weir_error_set(err, WEIR_E_DATA, "%s", stream->get_last_error(stream));
	return array.release ? weir_cdata_import_batch(weir_mem_root(session->mem), schema, &array, out, err) : WEIR_OK;
}

static int write_batches(struct session *session, const struct weir_schema *schema, struct weir_error *err)
{
	const struct weir_probe_parquet *probe = session->probe;
	struct weir_byte_sink sink = {.write = sink_write, .state = session};
	uint32_t vector_rows = probe->vector_rows ? probe->vector_rows : WEIR_VECTOR_ROWS;
	struct weir_batch *batch = NULL;
	int code = weir_parquet_writer.header(&session->account, schema, &session->options, sink, err);

	if (!code)
		code = begin_part(session, err);
	while (!code && !(code = next_batch(session, schema, &batch, err)) && batch) {
		for (int64_t at = 0; at < batch->row_count && !code; at += vector_rows) {
			int64_t left = batch->row_count - at;

			code = push_vector(session, batch, at, left < vector_rows ? (uint32_t)left : vector_rows, err);
			if (!code && session->part_count + 1 < probe->parts) {
				code = end_part(session, err);
				code = code ? code : begin_part(session, err);
			}
		}
		weir_batch_unref(batch);
		batch = NULL;
	}
	weir_batch_unref(batch);
	if (!code)
		code = end_part(session, err);
	return code ? code
		    : weir_parquet_writer.footer(&session->account, schema, &session->options, session->parts,
						 session->offsets, session->part_count, sink, err);
}

static int refuse_more(void *asked, struct weir_account *account, int64_t more, struct weir_error *err)
{
	(void)asked;
	(void)account;
	return weir_error_set(err, WEIR_E_LIMIT, "%lld bytes more than granted", (long long)more);
}

/* 0, or the code with `message` filled. Asserts that nothing is left in the account. */
WEIR_PROBE int weir_probe_parquet_write(struct weir_probe_parquet *probe)
{
	struct session session = {.probe = probe, .fd = -1};
	struct weir_schema *schema = NULL;
	struct ArrowSchema imported = {0};
	struct weir_account *root;
	struct weir_error err = {0};
	uint32_t parts_max = probe->parts ? probe->parts : 1;
	int code = weir_mem_new(0, &session.mem, &err);

	if (code)
		return code;
	root = weir_mem_root(session.mem);
	weir_account_init(&session.account, root, "probe");
	weir_arena_init(&session.arena, root);
	if (probe->grant) {
		atomic_store(&session.account.grant, probe->grant);
		session.account.ask = refuse_more;
	}
	session.options = (struct weir_writer_options){
		.codec_level = probe->codec_level,
		.row_group_rows = probe->row_group_rows,
		.row_group_bytes = probe->row_group_bytes,
		.dictionary = probe->dictionary,
		.page_index = probe->page_index,
		.statistics = probe->statistics,
		.data_page_v2 = probe->data_page_v2,
		.encoding = probe->encoding,
	};
	probe->rows_written = probe->held_peak = 0;
	session.parts = weir_alloc_zero(root, parts_max * sizeof(*session.parts), &err);
	session.offsets = weir_alloc_zero(root, parts_max * sizeof(*session.offsets), &err);
	session.fd = open(probe->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (session.fd < 0)
		code = weir_error_set_errno(&err, errno, "cannot create %s", probe->path);
	if (!code)
		code = weir_codec_parse(probe->codec, &session.options.codec, &err);
	if (!code)
		code = probe->stream->get_schema(probe->stream, &imported)
			       ? weir_error_set(&err, WEIR_E_DATA, "the stream has no schema")
			       : weir_cdata_import_schema(root, &imported, &schema, &err);
	if (!code)
		code = weir_parquet_writer.writer_new(&session.account, schema, &session.options, &session.writer,
						      &err);
	if (!code)
		code = write_batches(&session, schema, &err);
	probe->held_peak = (uint64_t)atomic_load(&session.account.peak);
	weir_parquet_writer.writer_free(session.writer);
	for (uint32_t i = 0; i < session.part_count; i++)
		weir_parquet_writer.part_free(root, session.parts[i]);
	weir_free(root, session.parts, parts_max * sizeof(*session.parts));
	weir_free(root, session.offsets, parts_max * sizeof(*session.offsets));
	weir_schema_unref(schema);
	weir_arena_release(&session.arena);
	weir_account_release(&session.account);
	if (session.fd >= 0)
		close(session.fd);
	weir_error_format(&err, probe->message, sizeof(probe->message));
	weir_mem_free(session.mem);
	return code;
}
