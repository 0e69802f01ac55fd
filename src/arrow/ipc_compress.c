/* Record batches with compressed bodies: a message as it was written plain, made again with each buffer compressed.
 *
 *     plain        metadata │ buffer 0 │ buffer 1 │ …
 *     compressed   metadata │ i64 length, frame │ i64 −1, as it was │ …      each on a 64-byte boundary
 *
 * Each buffer stands alone. One that a frame would not make smaller is stored as it is, which its length −1 says; an
 * empty one stays empty.
 */
#include "base/checked.h"
#include "arrow/ipc_impl.h"

#include <lz4frame.h>
#include <string.h>
#include <zstd.h>

enum {
	LENGTH_SIZE = 8,
	ZSTD_LEVEL_DEFAULT = 1,
	/* What the libraries allocate by themselves: charged before it is known, and for zstd, whose contexts grow with
	 * level and input, corrected afterwards. */
	LZ4_WORK_BYTES = 320 << 10,
	ZSTD_WORK_BYTES = 1 << 20,
};

static const struct flat_layout layout_message = {4, {2, 1, 4, 8}};
static const struct flat_layout layout_record = {4, {8, 4, 4, 4}};
static const struct flat_layout layout_compression = {2, {1, 1}};

struct weir_ipc_compressor {
	struct weir_account *account;
	enum weir_ipc_codec codec;
	int level;
	ZSTD_CCtx *zstd;
	int64_t charged; /* for what the libraries allocate by themselves */
};

int weir_ipc_compressor_new(struct weir_account *account, enum weir_ipc_codec codec, int level,
			    struct weir_ipc_compressor **out, struct weir_error *err)
{
	struct weir_ipc_compressor *compressor = weir_alloc_zero(account, sizeof(*compressor), err);
	int64_t work = codec == WEIR_IPC_ZSTD ? ZSTD_WORK_BYTES : LZ4_WORK_BYTES;

	*out = NULL;
	if (!compressor)
		return err->code;
	*compressor = (struct weir_ipc_compressor){.account = account, .codec = codec, .level = level};
	if (codec == WEIR_IPC_ZSTD && level == 0)
		compressor->level = ZSTD_LEVEL_DEFAULT;
	if (weir_account_charge(account, work, err))
		goto fail;
	compressor->charged = work;
	if (codec == WEIR_IPC_ZSTD && !(compressor->zstd = ZSTD_createCCtx())) {
		weir_error_set(err, WEIR_E_MEMORY, "no memory for a zstd context");
		goto fail;
	}
	*out = compressor;
	return WEIR_OK;
fail:
	weir_ipc_compressor_free(compressor);
	return err->code;
}

void weir_ipc_compressor_free(struct weir_ipc_compressor *compressor)
{
	if (!compressor)
		return;
	ZSTD_freeCCtx(compressor->zstd);
	weir_account_discharge(compressor->account, compressor->charged);
	weir_free(compressor->account, compressor, sizeof(*compressor));
}

static LZ4F_preferences_t lz4_preferences(const struct weir_ipc_compressor *compressor, uint64_t size)
{
	return (LZ4F_preferences_t){.frameInfo = {.blockSizeID = LZ4F_max256KB, .contentSize = size},
				    .compressionLevel = compressor->level};
}

static uint64_t bound(const struct weir_ipc_compressor *compressor, uint64_t size)
{
	LZ4F_preferences_t preferences = lz4_preferences(compressor, size);
	uint64_t frame = compressor->codec == WEIR_IPC_ZSTD ? ZSTD_compressBound(size)
							    : LZ4F_compressFrameBound(size, &preferences);

	return LENGTH_SIZE + (frame > size ? frame : size);
}

static int recharge(struct weir_ipc_compressor *compressor, int64_t size, struct weir_error *err)
{
	if (size > compressor->charged) {
		if (weir_account_charge(compressor->account, size - compressor->charged, err))
			return err->code;
		compressor->charged = size;
	}
	return WEIR_OK;
}

/* One buffer; gives the size of what it became. */
static int squeeze(struct weir_ipc_compressor *compressor, const uint8_t *from, uint64_t size, uint8_t *to,
		   uint64_t room, uint64_t *out, struct weir_error *err)
{
	LZ4F_preferences_t preferences = lz4_preferences(compressor, size);
	int64_t length = (int64_t)size;
	size_t got;

	*out = 0;
	if (size == 0)
		return WEIR_OK;
	if (compressor->codec == WEIR_IPC_ZSTD) {
		got = ZSTD_compressCCtx(compressor->zstd, to + LENGTH_SIZE, room - LENGTH_SIZE, from, size,
					compressor->level);
		if (ZSTD_isError(got))
			return weir_error_set(err, WEIR_E_INTERNAL, "zstd: %s", ZSTD_getErrorName(got));
		if (recharge(compressor, (int64_t)ZSTD_sizeof_CCtx(compressor->zstd), err))
			return err->code;
	} else {
		got = LZ4F_compressFrame(to + LENGTH_SIZE, room - LENGTH_SIZE, from, size, &preferences);
		if (LZ4F_isError(got))
			return weir_error_set(err, WEIR_E_INTERNAL, "LZ4: %s", LZ4F_getErrorName(got));
	}
	if (got >= size) {
		length = -1;
		got = size;
		memcpy(to + LENGTH_SIZE, from, size);
	}
	memcpy(to, &length, sizeof(length));
	*out = LENGTH_SIZE + got;
	return WEIR_OK;
}

/* The metadata, with room for nodes and buffers, whose places come out. */
static void put_message(struct flat_builder *b, const struct weir_ipc_compressor *compressor, int64_t row_count,
			uint32_t node_count, uint32_t buffer_count, uint64_t body_size, uint64_t *nodes,
			uint64_t *buffers)
{
	uint64_t message = flat_add_table(b, &layout_message, 15), record, compression;

	flat_set(b, message, &layout_message, MESSAGE_VERSION, IPC_VERSION_5);
	flat_set(b, message, &layout_message, MESSAGE_HEADER_TYPE, HEADER_RECORD_BATCH);
	flat_set(b, message, &layout_message, MESSAGE_BODY_LENGTH, (int64_t)body_size);
	record = flat_add_table(b, &layout_record, 15);
	flat_link(b, message, MESSAGE_HEADER, record);
	flat_set(b, record, &layout_record, RECORD_LENGTH, row_count);
	*nodes = flat_add_vector(b, node_count, sizeof(struct ipc_pair), 8);
	flat_link(b, record, RECORD_NODES, *nodes);
	*buffers = flat_add_vector(b, buffer_count, sizeof(struct ipc_pair), 8);
	flat_link(b, record, RECORD_BUFFERS, *buffers);
	compression = flat_add_table(b, &layout_compression, 3);
	flat_link(b, record, RECORD_COMPRESSION, compression);
	flat_set(b, compression, &layout_compression, COMPRESSION_CODEC,
		 compressor->codec == WEIR_IPC_ZSTD ? CODEC_ZSTD : CODEC_LZ4_FRAME);
	flat_set(b, compression, &layout_compression, COMPRESSION_METHOD, 0);
}

static int squeeze_body(struct weir_ipc_compressor *compressor, const struct ipc_message *message,
			const struct flat_vector *buffers, struct ipc_pair *places, uint8_t *body, uint64_t *body_size,
			struct weir_error *err)
{
	*body_size = 0;
	for (uint32_t i = 0; i < buffers->count; i++) {
		struct ipc_pair from;
		uint64_t size;

		memcpy(&from, buffers->items + i * sizeof(from), sizeof(from));
		if (squeeze(compressor, message->body + from.first, (uint64_t)from.second, body + *body_size,
			    bound(compressor, (uint64_t)from.second), &size, err))
			return err->code;
		memset(body + *body_size + size, 0, weir_round_up(size, IPC_ALIGN) - size);
		places[i] = (struct ipc_pair){.first = (int64_t)*body_size, .second = (int64_t)size};
		*body_size += weir_round_up(size, IPC_ALIGN);
	}
	return WEIR_OK;
}

int weir_ipc_compress(struct weir_ipc_compressor *compressor, const uint8_t *chunk, uint64_t size,
		      struct weir_buffer *out, struct weir_chunk_plan *plan, struct weir_error *err)
{
	uint32_t prefix[2] = {UINT32_MAX, 0};
	uint64_t nodes_at, buffers_at, metadata_size, body_max = 0, body_size = 0;
	struct flat_vector nodes, buffers;
	struct flat_builder builder;
	struct ipc_message message;
	struct ipc_pair *places;
	int64_t row_count;
	uint8_t *bytes;
	int code = ipc_message_open(chunk, size, &message, err);

	*out = (struct weir_buffer){0};
	if (code)
		return code;
	row_count = flat_i64(&message.header, RECORD_LENGTH, 0);
	nodes = flat_items(&message.header, RECORD_NODES, sizeof(struct ipc_pair));
	buffers = flat_items(&message.header, RECORD_BUFFERS, sizeof(struct ipc_pair));
	code = flat_check(&message.flat, "record batch", err);
	if (code)
		return code;
	for (uint32_t i = 0; i < buffers.count; i++) {
		struct ipc_pair pair;

		memcpy(&pair, buffers.items + i * sizeof(pair), sizeof(pair));
		body_max += weir_round_up(bound(compressor, (uint64_t)pair.second), IPC_ALIGN);
	}
	flat_begin(&builder, NULL, 0);
	put_message(&builder, compressor, row_count, nodes.count, buffers.count, 0, &nodes_at, &buffers_at);
	metadata_size = weir_round_up(IPC_PREFIX_SIZE + builder.size, IPC_ALIGN);
	places = weir_alloc(compressor->account, buffers.count * sizeof(*places), err);
	if (!places)
		return err->code;
	code = weir_buffer_new(compressor->account, metadata_size + body_max, out, &bytes, err);
	if (!code)
		code = squeeze_body(compressor, &message, &buffers, places, bytes + metadata_size, &body_size, err);
	if (!code) {
		memset(bytes, 0, metadata_size);
		prefix[1] = (uint32_t)(metadata_size - IPC_PREFIX_SIZE);
		memcpy(bytes, prefix, sizeof(prefix));
		flat_begin(&builder, bytes + IPC_PREFIX_SIZE, metadata_size - IPC_PREFIX_SIZE);
		put_message(&builder, compressor, row_count, nodes.count, buffers.count, body_size, &nodes_at,
			    &buffers_at);
		if (nodes.count)
			memcpy(bytes + IPC_PREFIX_SIZE + nodes_at + 4, nodes.items,
			       nodes.count * sizeof(struct ipc_pair));
		if (buffers.count)
			memcpy(bytes + IPC_PREFIX_SIZE + buffers_at + 4, places, buffers.count * sizeof(*places));
		out->size = metadata_size + body_size;
		*plan = (struct weir_chunk_plan){
			.size = out->size, .metadata_size = (uint32_t)metadata_size, .body_size = body_size};
	} else {
		weir_buffer_release(out);
	}
	weir_free(compressor->account, places, buffers.count * sizeof(*places));
	return code;
}
