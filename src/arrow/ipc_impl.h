/* ipc inside: the numbers and tables of Arrow's Message.fbs, Schema.fbs and File.fbs, and what the files of ipc
 * share. */
#ifndef WEIR_ARROW_IPC_IMPL_H
#define WEIR_ARROW_IPC_IMPL_H

#include "base/list.h"
#include "arrow/flatbuffer_impl.h"
#include "arrow/ipc.h"
#include "arrow/ipc_layout.h"

enum {
	IPC_ALIGN = 64,       /* of messages and of each buffer, as written */
	IPC_ALIGN_PACKED = 8, /* of buffers of packed rows (packed.h), as their values need it */
	IPC_PREFIX_SIZE = 8,  /* continuation marker and metadata length */
	IPC_VERSION_4 = 3,
	IPC_VERSION_5 = 4,
};

/* Field numbers of the tables. */
enum { MESSAGE_VERSION, MESSAGE_HEADER_TYPE, MESSAGE_HEADER, MESSAGE_BODY_LENGTH };
enum { HEADER_NONE, HEADER_SCHEMA, HEADER_DICTIONARY, HEADER_RECORD_BATCH, HEADER_TENSOR, HEADER_SPARSE_TENSOR };
enum { SCHEMA_ENDIANNESS, SCHEMA_FIELDS, SCHEMA_METADATA };
enum { FIELD_NAME, FIELD_NULLABLE, FIELD_TYPE_TYPE, FIELD_TYPE, FIELD_DICTIONARY, FIELD_CHILDREN, FIELD_METADATA };
enum { ENCODING_ID, ENCODING_INDEX, ENCODING_ORDERED };
enum { ENTRY_KEY, ENTRY_VALUE };
enum { RECORD_LENGTH, RECORD_NODES, RECORD_BUFFERS, RECORD_COMPRESSION, RECORD_VARIADIC };
enum { COMPRESSION_CODEC, COMPRESSION_METHOD };
enum { DICTIONARY_ID, DICTIONARY_DATA, DICTIONARY_IS_DELTA };
enum { FOOTER_VERSION, FOOTER_SCHEMA, FOOTER_DICTIONARIES, FOOTER_RECORD_BATCHES };

/* The members of the union Type. */
enum ipc_type {
	TYPE_NONE,
	TYPE_NULL,
	TYPE_INT,
	TYPE_FLOATING_POINT,
	TYPE_BINARY,
	TYPE_UTF8,
	TYPE_BOOL,
	TYPE_DECIMAL,
	TYPE_DATE,
	TYPE_TIME,
	TYPE_TIMESTAMP,
	TYPE_INTERVAL,
	TYPE_LIST,
	TYPE_STRUCT,
	TYPE_UNION,
	TYPE_FIXED_BINARY,
	TYPE_FIXED_LIST,
	TYPE_MAP,
	TYPE_DURATION,
	TYPE_LARGE_BINARY,
	TYPE_LARGE_UTF8,
	TYPE_LARGE_LIST,
	TYPE_RUN_END_ENCODED,
	TYPE_BINARY_VIEW,
	TYPE_UTF8_VIEW,
	TYPE_LIST_VIEW,
	TYPE_LARGE_LIST_VIEW,
	TYPE_COUNT
};
enum { INT_BIT_WIDTH, INT_IS_SIGNED };
enum { DECIMAL_PRECISION, DECIMAL_SCALE, DECIMAL_BIT_WIDTH };
enum { TIME_UNIT, TIME_BIT_WIDTH };
enum { TIMESTAMP_UNIT, TIMESTAMP_TIMEZONE };

/* FieldNode and Buffer: two i64 each. Block: i64, i32, four bytes of nothing, i64. */
struct ipc_pair {
	int64_t first, second; /* length, null count; or offset, length */
};

struct ipc_file_block {
	int64_t offset;
	int32_t metadata_size;
	int32_t unused;
	int64_t body_size;
};
_Static_assert(sizeof(struct ipc_pair) == 16 && sizeof(struct ipc_file_block) == 24, "as the files have them");

/* How a column lies in the message where that is not how its type lies in memory. */
enum ipc_wire {
	WIRE_PLAIN,
	WIRE_VIEW,
	WIRE_LIST_VIEW,
	WIRE_LARGE_LIST_VIEW,
	WIRE_DECIMAL_32,
	WIRE_DECIMAL_64,
	WIRE_RUN_END_16,
	WIRE_RUN_END_32,
	WIRE_RUN_END_64,
};

/* A dictionary that fields refer to, by its number: the place in the order in which fields open, parents first. */
struct ipc_dictionary {
	int64_t id;                    /* in messages; several fields may share one */
	const struct weir_type *value; /* borrowed from the schema */
	uint32_t wire;                 /* the field's place in `wires` */
};

/* A schema as a message describes it. `wires` has one entry a field, in the same order; a run-end-encoded field is
 * followed by its run ends and then by its values. All-zero is empty. */
struct ipc_schema {
	struct weir_account *account;
	struct weir_schema *schema;
	struct ipc_dictionaries WEIR_LIST(struct ipc_dictionary) dictionaries;
	struct ipc_wires WEIR_LIST(uint8_t) wires; /* enum ipc_wire */
};

/* From the table Schema. */
int ipc_schema_parse(struct weir_account *account, struct flat *flat, const struct flat_table *table,
		     struct ipc_schema *out, struct weir_error *err);
void ipc_schema_release(struct ipc_schema *schema);
/* The schema message in memory of the caller: its size, a multiple of 64, then its bytes. */
int ipc_schema_measure(const struct weir_schema *schema, uint64_t *size, struct weir_error *err);
void ipc_schema_write(const struct weir_schema *schema, uint64_t size, uint8_t *out);

/* One encapsulated message, found and checked as far as its header table. */
struct ipc_message {
	struct flat flat;
	int16_t version;
	uint8_t header_type;
	struct flat_table header;
	uint64_t metadata_size; /* prefix included; 0: end of stream */
	const uint8_t *body;
	uint64_t body_size;
};

/* At bytes[0]. Ends, in `out`, with metadata_size 0 at the end-of-stream mark. Tables point into *out: do not move it.
 * `metadata_open` needs no body. */
int ipc_metadata_open(const uint8_t *bytes, uint64_t size, struct ipc_message *out, struct weir_error *err);
int ipc_message_open(const uint8_t *bytes, uint64_t size, struct ipc_message *out, struct weir_error *err);

/* Contexts of the codecs, made when first needed. All-zero plus an account is empty. */
struct ipc_codec {
	struct weir_account *account;
	void *zstd, *lz4;
	uint64_t lz4_window; /* charged for what the LZ4 context has allocated */
};

enum { CODEC_NONE = -1, CODEC_LZ4_FRAME = 0, CODEC_ZSTD = 1 };
/* One compressed buffer (length, then a frame) into new memory, or a part of `bytes` itself when it is stored plain. */
int ipc_decompress(struct ipc_codec *codec, int kind, const struct weir_buffer *bytes, struct weir_buffer *out,
		   struct weir_error *err);
void ipc_codec_release(struct ipc_codec *codec);

/* One field of a record batch, parents before children. Its buffers are those from `buffer` on: validity (but NULL and
 * runs have none), then values, offsets, views, or offsets and sizes; then bytes, `variadic` of them in a view. */
struct ipc_node {
	const struct weir_type *type; /* as it will be in memory; borrowed from the schema */
	enum ipc_wire wire;
	int64_t length, null_count;
	uint32_t buffer, variadic;
	uint32_t end;        /* the node after its last child */
	uint32_t dictionary; /* its number, in the source's dictionaries */
};

struct weir_ipc_layout {
	struct weir_account *account;
	const struct weir_field *fields;
	uint32_t field_count;
	const uint8_t *wires; /* of the first field; NULL: all plain */
	bool is_chunk;        /* compressed bodies are refused */
	int64_t row_count;
	uint64_t body_size;
	int codec_kind;
	struct ipc_codec codec;
	struct WEIR_LIST(struct ipc_node) nodes;
	struct WEIR_LIST(struct ipc_pair) buffers;
	struct WEIR_LIST(struct weir_buffer) inflated; /* by number of the buffer; only of compressed bodies */
	struct WEIR_LIST(uint32_t) roots;              /* the node of each field */
};

void ipc_layout_init(struct weir_ipc_layout *layout, struct weir_account *account, const struct weir_field *fields,
		     uint32_t field_count, const uint8_t *wires);
void ipc_layout_release(struct weir_ipc_layout *layout);
/* Table RecordBatch of a message. */
int ipc_layout_read(struct weir_ipc_layout *layout, const struct ipc_message *message, const struct flat_table *record,
		    struct weir_error *err);

/* Rows of a field, validated. `dictionaries`: values by number, from that of the layout's first field on; NULL entries
 * are empty ones. */
int ipc_rows_read(struct weir_ipc_layout *layout, uint32_t field, int64_t begin, int64_t end,
		  const struct weir_ipc_body *body, struct weir_array *const *dictionaries, bool deep,
		  struct weir_array **out, struct weir_error *err);

/* What rows are read with, and which rows of which node. */
struct ipc_rows {
	struct weir_ipc_layout *layout;
	const struct weir_ipc_body *body;
	struct weir_array *const *dictionaries;
};

struct ipc_span {
	const struct ipc_node *node;
	int64_t begin, end;
};

static inline bool ipc_span_is_whole(const struct ipc_span *span)
{
	return span->begin == 0 && span->end == span->node->length;
}

/* ipc_take.c. A buffer's length, once inflated; bytes of it, which must be there, on a multiple of `align` (data NULL
 * when size is 0); `width` bytes for each row and for `more` rows behind; bits from the first row's on; validity,
 * absent when nothing is null. For all rows of a node buffers come whole. */
int ipc_buffer_size(struct ipc_rows *rows, uint32_t number, uint64_t *out, struct weir_error *err);
int ipc_take(struct ipc_rows *rows, uint32_t number, uint64_t from, uint64_t size, uint32_t align,
	     struct weir_buffer *out, struct weir_error *err);
int ipc_take_all(struct ipc_rows *rows, uint32_t number, uint32_t align, struct weir_buffer *out,
		 struct weir_error *err);
int ipc_take_fixed(struct ipc_rows *rows, const struct ipc_span *span, uint32_t number, uint32_t width, uint32_t align,
		   int64_t more, struct weir_buffer *out, struct weir_error *err);
int ipc_take_bits(struct ipc_rows *rows, const struct ipc_span *span, uint32_t number, struct weir_buffer *out,
		  struct weir_error *err);
int ipc_take_validity(struct ipc_rows *rows, const struct ipc_span *span, struct weir_buffer *out, int64_t *null_count,
		      struct weir_error *err);

/* ipc_rows.c: rows of a child; `all`: all that it has, else it must have them. */
int ipc_read_child(struct ipc_rows *rows, const struct ipc_node *node, int64_t begin, int64_t end, bool all,
		   struct weir_array **out, struct weir_error *err);

/* ipc_foreign.c: by the node's wire. `width`: of a decimal. */
int ipc_read_views(struct ipc_rows *rows, const struct ipc_span *span, struct weir_array **out, struct weir_error *err);
int ipc_read_list_views(struct ipc_rows *rows, const struct ipc_span *span, struct weir_array **out,
			struct weir_error *err);
int ipc_read_decimals(struct ipc_rows *rows, const struct ipc_span *span, unsigned width, struct weir_array **out,
		      struct weir_error *err);
int ipc_read_runs(struct ipc_rows *rows, const struct ipc_span *span, struct weir_array **out, struct weir_error *err);

/* Entry `at` of offsets of 4 or 8 bytes. */
static inline int64_t ipc_offset_in(const struct weir_buffer *offsets, unsigned width, int64_t at)
{
	return width == 4 ? ((const int32_t *)offsets->data)[at] : ((const int64_t *)offsets->data)[at];
}

/* A body that lies in memory. */
struct ipc_memory {
	const uint8_t *bytes;
	struct weir_owner *owner;
};
struct weir_ipc_body ipc_memory_body(struct ipc_memory *memory);

struct weir_ipc_schema {
	struct weir_account *account;
	struct ipc_schema parsed;
};

/* A set of dictionaries. All-zero is empty. */
struct weir_ipc_dictionaries {
	struct weir_account *account;
	const struct ipc_schema *schema; /* borrowed */
	bool is_stream;
	bool shallow;               /* the contents of values are believed */
	struct weir_array **values; /* by number; NULL: not seen yet */
	bool *wanted;               /* by number */
};
int ipc_dictionaries_init(struct weir_ipc_dictionaries *dictionaries, struct weir_account *account,
			  const struct ipc_schema *schema, bool is_stream, struct weir_error *err); /* none wanted */
void ipc_dictionaries_release(struct weir_ipc_dictionaries *dictionaries);
int ipc_dictionaries_read(struct weir_ipc_dictionaries *dictionaries, const struct ipc_message *message,
			  const struct weir_ipc_body *body, struct weir_error *err);

/* Dictionary types in a type, itself included. */
uint32_t ipc_type_dictionaries(const struct weir_type *type);

/* ipc_write.c: one walk over arrays, parents first. Without memory it counts; with memory it fills nodes and buffers.
 * Packed, a node is a byte, and buffers have no list. */
struct ipc_walk {
	uint8_t *nodes, *buffers, *body; /* NULL: only counts */
	bool is_packed;
	uint32_t node_count, buffer_count;
	uint64_t body_size;
	struct weir_large_buffer large; /* its offset is that in the body */
};
/* The rows from `start`, counted from the start of the buffers, not from the array's offset. */
void ipc_walk_array(struct ipc_walk *walk, const struct weir_array *array, int64_t start, int64_t length);

#endif
