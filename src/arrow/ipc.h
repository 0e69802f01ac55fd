/* ipc: Arrow IPC messages, and weir's chunks and blocks, which are nothing else.
 *
 * A chunk is one encapsulated record-batch message, contiguous, 64-byte aligned, buffers at their places:
 *
 *     0        8                      metadata_size           …                            chunk size
 *     ┌────────┬──────────────────────┬──────────┬──────────┬──────────┐
 *     │ FF… len│ flatbuffer message   │ buffer 0 │ buffer 1 │ …        │   each buffer on a 64-byte boundary
 *     └────────┴──────────────────────┴──────────┴──────────┴──────────┘
 *
 * A block is a schema message, dictionary batches, then chunks, then end-of-stream: an Arrow stream. The same bytes lie
 * in memory, in a worker, in a spill file. Whatever comes from outside is validated: flatbuffer offsets, lengths, then
 * the arrays.
 */
#ifndef WEIR_ARROW_IPC_H
#define WEIR_ARROW_IPC_H

#include "arrow/array.h"

/* A stream ends with this mark. A file begins with the magic, padded to eight bytes, then goes on like a stream, with
 * its end mark, and ends with a footer; the magic comes last again. */
#define WEIR_IPC_EOS "\xff\xff\xff\xff\0\0\0"
#define WEIR_IPC_EOS_SIZE 8
#define WEIR_IPC_MAGIC "ARROW1\0"
#define WEIR_IPC_MAGIC_SIZE 6

/* Bytes of the schema message (a multiple of 64), appended to `out`. Dictionary types get ids in field order. */
int weir_ipc_write_schema(const struct weir_schema *schema, struct weir_text *out, struct weir_error *err);
/* File format: the footer needs positions of blocks; kept by the caller. */
struct weir_ipc_block {
	uint64_t offset;
	uint32_t metadata_size;
	uint64_t body_size;
	bool is_dictionary;
};
int weir_ipc_write_footer(const struct weir_schema *schema, const struct weir_ipc_block *blocks, uint32_t count,
			  struct weir_text *out, struct weir_error *err);

/* Two steps, so that a chunk is written once, straight into its place: measure, then write into `size` bytes. */
/* The largest buffer that is copied as it is: whoever has its bytes at `offset` already saves the copy. */
struct weir_large_buffer {
	const uint8_t *bytes; /* where they are now */
	uint64_t size, offset;
};
struct weir_chunk_plan {
	uint64_t size;          /* whole chunk, multiple of 64 */
	uint32_t metadata_size; /* offset of the first buffer */
	uint64_t body_size;
	struct weir_large_buffer large;
};
int weir_chunk_measure(const struct weir_batch *batch, struct weir_chunk_plan *out, struct weir_error *err);
int weir_chunk_write(const struct weir_batch *batch, const struct weir_chunk_plan *plan, uint8_t *out,
		     struct weir_error *err);
/* Dictionary message for field `dictionary_id` with the values array. */
int weir_dictionary_measure(const struct weir_array *values, struct weir_chunk_plan *out, struct weir_error *err);
int weir_dictionary_write(int64_t dictionary_id, bool is_delta, const struct weir_array *values,
			  const struct weir_chunk_plan *plan, uint8_t *out, struct weir_error *err);

/* The same batch with each buffer compressed, as a message of its own (ipc_compress.c). Chunks never are; files may
 * be. */
enum weir_ipc_codec { WEIR_IPC_LZ4, WEIR_IPC_ZSTD };
struct weir_ipc_compressor;
int weir_ipc_compressor_new(struct weir_account *account, enum weir_ipc_codec codec, int level,
			    struct weir_ipc_compressor **out, struct weir_error *err); /* level 0: the fast end */
void weir_ipc_compressor_free(struct weir_ipc_compressor *compressor);
int weir_ipc_compress(struct weir_ipc_compressor *compressor, const uint8_t *chunk, uint64_t size,
		      struct weir_buffer *out, struct weir_chunk_plan *plan, struct weir_error *err);

/* Dictionaries of a schema, also those inside nested types and inside the values of others, numbered in field order,
 * parents first. `out` gets the batch's values array for each, borrowed. A dictionary inside another's values has the
 * higher number and must be written before it. */
uint32_t weir_schema_dictionary_count(const struct weir_schema *schema);
void weir_batch_dictionaries(const struct weir_batch *batch, struct weir_array **out);

/* The chunk's arrays over the chunk's own bytes; `owner` is referenced by each. Validates (deep: contents too).
 * `dictionaries` holds one values array per dictionary id in field order (NULL when the schema has none). */
int weir_chunk_open(struct weir_account *account, const struct weir_schema *schema, const uint8_t *bytes, uint64_t size,
		    struct weir_owner *owner, struct weir_array *const *dictionaries, bool deep,
		    struct weir_batch **out, struct weir_error *err);

/* Reads a stream of messages from memory, compressed buffers (LZ4 frame, zstd) and dictionary deltas included. */
struct weir_ipc_reader;
int weir_ipc_reader_new(struct weir_account *account, const uint8_t *bytes, uint64_t size, struct weir_owner *owner,
			struct weir_ipc_reader **out, struct weir_error *err); /* stream or file format */
const struct weir_schema *weir_ipc_reader_schema(const struct weir_ipc_reader *reader);
/* NULL: the end. */
int weir_ipc_reader_next(struct weir_ipc_reader *reader, struct weir_batch **out, struct weir_error *err);
void weir_ipc_reader_free(struct weir_ipc_reader *reader);

/* Flatbuffer schema bytes as in Parquet's ARROW:schema (encapsulated message, before base64). */
int weir_ipc_read_schema(struct weir_account *account, const uint8_t *bytes, uint64_t size, struct weir_schema **out,
			 struct weir_error *err);

#endif
