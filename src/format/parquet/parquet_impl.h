/* parquet: what reader and writer of Parquet share: the format's numbers, Thrift's compact protocol and the metadata.
 *
 * A file:
 *
 *     PAR1 │ row group 0: column chunk 0: [dictionary page] [data page] … │ chunk 1 … │ row group 1 … │ bloom filters,
 *     column indexes, offset indexes │ footer (FileMetaData) │ its length, 4 bytes │ PAR1
 *
 * Each page is a PageHeader in Thrift's compact protocol and then the bytes, compressed. Everything is little endian.
 */
#ifndef WEIR_FORMAT_PARQUET_IMPL_H
#define WEIR_FORMAT_PARQUET_IMPL_H

#include "base/arena.h"
#include "arrow/type.h"
#include "io/codec.h"

/* The numbers of parquet.thrift. */
enum parquet_physical {
	PARQUET_BOOLEAN,
	PARQUET_INT32,
	PARQUET_INT64,
	PARQUET_INT96,
	PARQUET_FLOAT,
	PARQUET_DOUBLE,
	PARQUET_BYTE_ARRAY,
	PARQUET_FIXED, /* FIXED_LEN_BYTE_ARRAY */
	PARQUET_PHYSICAL_COUNT,
	PARQUET_GROUP = 255, /* not a leaf */
};

enum parquet_repetition { PARQUET_REQUIRED, PARQUET_OPTIONAL, PARQUET_REPEATED };

enum parquet_converted {
	PARQUET_CONVERTED_NONE = -1,
	PARQUET_UTF8,
	PARQUET_MAP,
	PARQUET_MAP_KEY_VALUE,
	PARQUET_LIST,
	PARQUET_ENUM,
	PARQUET_DECIMAL,
	PARQUET_DATE,
	PARQUET_TIME_MILLIS,
	PARQUET_TIME_MICROS,
	PARQUET_TIMESTAMP_MILLIS,
	PARQUET_TIMESTAMP_MICROS,
	PARQUET_UINT_8,
	PARQUET_UINT_16,
	PARQUET_UINT_32,
	PARQUET_UINT_64,
	PARQUET_INT_8,
	PARQUET_INT_16,
	PARQUET_INT_32,
	PARQUET_INT_64,
	PARQUET_JSON,
	PARQUET_BSON,
	PARQUET_INTERVAL,
};

/* The field ids of the union LogicalType. */
enum parquet_logical_kind {
	PARQUET_LOGICAL_NONE = 0,
	PARQUET_LOGICAL_STRING = 1,
	PARQUET_LOGICAL_MAP = 2,
	PARQUET_LOGICAL_LIST = 3,
	PARQUET_LOGICAL_ENUM = 4,
	PARQUET_LOGICAL_DECIMAL = 5,
	PARQUET_LOGICAL_DATE = 6,
	PARQUET_LOGICAL_TIME = 7,
	PARQUET_LOGICAL_TIMESTAMP = 8,
	PARQUET_LOGICAL_INTEGER = 10,
	PARQUET_LOGICAL_UNKNOWN = 11, /* always null */
	PARQUET_LOGICAL_JSON = 12,
	PARQUET_LOGICAL_BSON = 13,
	PARQUET_LOGICAL_UUID = 14,
	PARQUET_LOGICAL_FLOAT16 = 15,
	PARQUET_LOGICAL_VARIANT = 16,
	PARQUET_LOGICAL_GEOMETRY = 17,
	PARQUET_LOGICAL_GEOGRAPHY = 18,
};

struct parquet_logical {
	enum parquet_logical_kind kind;
	enum weir_time_unit unit; /* TIME, TIMESTAMP */
	bool utc;                 /* TIME, TIMESTAMP: isAdjustedToUTC */
	bool is_signed;           /* INTEGER */
	uint8_t bit_width;        /* INTEGER */
	int32_t precision, scale; /* DECIMAL */
};

enum parquet_encoding {
	PARQUET_PLAIN = 0,
	PARQUET_PLAIN_DICTIONARY = 2,
	PARQUET_RLE = 3,
	PARQUET_BIT_PACKED = 4,
	PARQUET_DELTA_BINARY_PACKED = 5,
	PARQUET_DELTA_LENGTH_BYTE_ARRAY = 6,
	PARQUET_DELTA_BYTE_ARRAY = 7,
	PARQUET_RLE_DICTIONARY = 8,
	PARQUET_BYTE_STREAM_SPLIT = 9,
};

enum parquet_page_type {
	PARQUET_PAGE_DATA = 0,
	PARQUET_PAGE_INDEX = 1,
	PARQUET_PAGE_DICTIONARY = 2,
	PARQUET_PAGE_DATA_V2 = 3,
};

/* CompressionCodec ↔ weir's own; UNSUPPORTED is an error at use. */
enum parquet_codec {
	PARQUET_UNCOMPRESSED,
	PARQUET_SNAPPY,
	PARQUET_GZIP,
	PARQUET_LZO,
	PARQUET_BROTLI,
	PARQUET_LZ4, /* Hadoop framing, or something else: io/codec finds out */
	PARQUET_ZSTD,
	PARQUET_LZ4_RAW,
};
int parquet_codec_to_weir(int32_t codec, enum weir_codec *out, struct weir_error *err);
int parquet_codec_from_weir(enum weir_codec codec, int32_t *out, struct weir_error *err);

/* ── thrift.c: the compact protocol ──────────────────────────────────────────────────────────────────────────────── */

enum thrift_type {
	THRIFT_STOP,
	THRIFT_TRUE,
	THRIFT_FALSE,
	THRIFT_BYTE,
	THRIFT_I16,
	THRIFT_I32,
	THRIFT_I64,
	THRIFT_DOUBLE,
	THRIFT_BINARY,
	THRIFT_LIST,
	THRIFT_SET,
	THRIFT_MAP,
	THRIFT_STRUCT,
	THRIFT_UUID,
};

/* The reader never fails in the middle of a caller's loop: the first fault sets `fault`, every later read gives zeros
 * and ends loops, and the caller looks once, at the end. `short_of_bytes` tells a cut from a lie: with more bytes it
 * might have gone well. */
struct thrift_reader {
	const uint8_t *begin, *at, *end;
	const char *fault; /* NULL: all is well */
	const uint8_t *fault_at;
	bool short_of_bytes;
	uint32_t depth;
};

struct thrift_field {
	int16_t id; /* 0 before the first */
	uint8_t type;
	bool inside; /* thrift_struct_next has entered */
};

static inline void thrift_reader_init(struct thrift_reader *reader, const void *bytes, size_t size)
{
	*reader = (struct thrift_reader){.begin = bytes, .at = bytes, .end = (const uint8_t *)bytes + size};
}

void thrift_fault(struct thrift_reader *reader, const char *what);
/* Steps to the next field of the struct; false at its end or after a fault. Start with {0}. */
bool thrift_field_next(struct thrift_reader *reader, struct thrift_field *field);
uint64_t thrift_varint(struct thrift_reader *reader);
int64_t thrift_i64(struct thrift_reader *reader); /* any integer: zigzag */
int32_t thrift_i32(struct thrift_reader *reader); /* a fault when it does not fit */
double thrift_double(struct thrift_reader *reader);
/* Points into the input. */
const uint8_t *thrift_binary(struct thrift_reader *reader, uint32_t *size);
/* The number of elements: never more than bytes are left, so it may size an allocation. */
uint32_t thrift_list(struct thrift_reader *reader, uint8_t *element_type);
void thrift_skip(struct thrift_reader *reader, uint8_t type);
/* For a field whose type must be `type`; skips it with false when it is another. */
bool thrift_expect(struct thrift_reader *reader, const struct thrift_field *field, uint8_t type);
/* A struct inside: keeps count of the depth, a fault past 64. */
bool thrift_enter(struct thrift_reader *reader);
void thrift_leave(struct thrift_reader *reader);
/* Both around thrift_field_next: the fields of a struct inside, in a loop that runs to its end. Start with {0}. */
static inline bool thrift_struct_next(struct thrift_reader *reader, struct thrift_field *field)
{
	if (!field->inside && !thrift_enter(reader))
		return false;
	field->inside = true;
	if (thrift_field_next(reader, field))
		return true;
	thrift_leave(reader);
	return false;
}

/* The writer appends to a text; the first failure sticks in `code` (err is filled) and later calls do nothing. */
enum { THRIFT_WRITE_DEPTH_MAX = 16 };
struct thrift_writer {
	struct weir_text *out;
	struct weir_error *err;
	int code;
	uint32_t depth;
	int16_t last_id[THRIFT_WRITE_DEPTH_MAX];
};

void thrift_writer_init(struct thrift_writer *writer, struct weir_text *out, struct weir_error *err);
void thrift_put_bool(struct thrift_writer *writer, int16_t id, bool value);
void thrift_put_byte(struct thrift_writer *writer, int16_t id, int8_t value);
void thrift_put_i16(struct thrift_writer *writer, int16_t id, int16_t value);
void thrift_put_i32(struct thrift_writer *writer, int16_t id, int32_t value);
void thrift_put_i64(struct thrift_writer *writer, int16_t id, int64_t value);
void thrift_put_binary(struct thrift_writer *writer, int16_t id, const void *bytes, size_t size);
void thrift_put_string(struct thrift_writer *writer, int16_t id, const char *text);
/* A struct field, its fields, thrift_put_struct_end. As a list's element: thrift_item_struct … thrift_put_struct_end.
 * The outermost struct is begun by init and ended by thrift_put_struct_end too. */
void thrift_put_struct(struct thrift_writer *writer, int16_t id);
void thrift_put_struct_end(struct thrift_writer *writer);
/* Then exactly `count` thrift_item_…. */
void thrift_put_list(struct thrift_writer *writer, int16_t id, enum thrift_type element, uint32_t count);
void thrift_item_struct(struct thrift_writer *writer);
void thrift_item_i32(struct thrift_writer *writer, int32_t value);
void thrift_item_i64(struct thrift_writer *writer, int64_t value);
void thrift_item_bool(struct thrift_writer *writer, bool value);
void thrift_item_binary(struct thrift_writer *writer, const void *bytes, size_t size);

/* ── metadata.c (parse) and write_metadata.c (serialise) ─────────────────────────────────────────────────────────── */

/* Bytes that lie elsewhere: in the footer, or in the writer's arena. */
struct parquet_bytes {
	const uint8_t *data; /* NULL: absent */
	uint32_t size;
};

struct parquet_statistics {
	struct parquet_bytes min, max; /* min_value/max_value, else the deprecated min/max */
	bool deprecated;               /* only the old fields were there: ordered by signed bytes */
	bool min_inexact, max_inexact; /* shortened: still bounds */
	int64_t null_count;            /* −1: unknown */
	int64_t distinct_count;        /* −1: unknown */
};

/* One entry of the schema, depth first; the root is entry 0. */
struct parquet_element {
	const char *name; /* NUL-terminated, valid UTF-8, without NULs inside */
	uint8_t physical; /* PARQUET_GROUP when it has children */
	uint8_t repetition;
	int32_t type_length; /* PARQUET_FIXED */
	int32_t child_count;
	int32_t converted; /* enum parquet_converted */
	int32_t precision, scale;
	int32_t field_id; /* INT32_MIN: none */
	struct parquet_logical logical;
};

struct parquet_chunk {
	int64_t data_offset;       /* of the first data page */
	int64_t dictionary_offset; /* 0: none, or the old writers' habit of leaving it out */
	int64_t size_compressed, size_uncompressed;
	int64_t value_count;                                            /* nulls included */
	int64_t offset_index_offset, column_index_offset, bloom_offset; /* 0: none */
	int32_t offset_index_size, column_index_size, bloom_size;       /* bloom_size 0: not told */
	int32_t codec;
	uint8_t physical;
	bool is_encrypted;
	bool is_external;   /* its bytes are in another file */
	uint32_t encodings; /* bit per enum parquet_encoding */
	struct parquet_statistics statistics;
};

struct parquet_row_group {
	int64_t row_count;
	int64_t size_bytes;
	int64_t row_begin;            /* of the file; summed up by the reader */
	struct parquet_chunk *chunks; /* one per leaf, in schema order */
};

struct parquet_key_value {
	struct parquet_bytes key, value;
};

struct parquet_metadata {
	int32_t version;
	int64_t row_count;
	uint32_t element_count;
	struct parquet_element *elements;
	uint32_t leaf_count;
	uint32_t row_group_count;
	struct parquet_row_group *row_groups;
	uint32_t key_value_count;
	struct parquet_key_value *key_values;
	struct parquet_bytes created_by;
	bool has_column_orders; /* min_value/max_value are meaningful */
	bool is_encrypted;
};

struct parquet_page_header {
	uint8_t type; /* enum parquet_page_type; others are skipped */
	int32_t size_uncompressed, size_compressed;
	bool has_crc;
	uint32_t crc;
	int32_t value_count; /* levels, nulls included; a dictionary's entries */
	uint8_t encoding;
	uint8_t definition_encoding, repetition_encoding; /* v1 */
	int32_t null_count, row_count;                    /* v2 */
	int32_t definition_size, repetition_size;         /* v2 */
	bool is_compressed;                               /* v2 */
	struct parquet_statistics statistics;             /* written, not read */
};

/* The footer's bytes stay referenced by the result (statistics, key values); the arrays and names are the arena's. */
int parquet_metadata_parse(const uint8_t *footer, size_t size, struct weir_arena *arena, struct parquet_metadata *out,
			   struct weir_error *err);
/* *used: bytes of the header. 0 with WEIR_OK when `size` bytes do not hold all of it. */
int parquet_page_header_parse(const uint8_t *bytes, size_t size, struct parquet_page_header *out, size_t *used,
			      struct weir_error *err);

struct parquet_page_location {
	int64_t offset;
	int32_t size_compressed; /* header included */
	int64_t first_row;       /* in the row group */
};
struct parquet_offset_index {
	uint32_t page_count;
	struct parquet_page_location *pages;
};
enum parquet_boundary_order { PARQUET_UNORDERED, PARQUET_ASCENDING, PARQUET_DESCENDING };
struct parquet_column_index {
	uint32_t page_count;
	bool *null_pages;
	struct parquet_bytes *min, *max;
	int64_t *null_counts; /* NULL: unknown */
	enum parquet_boundary_order order;
};
int parquet_offset_index_parse(const uint8_t *bytes, size_t size, struct weir_arena *arena,
			       struct parquet_offset_index *out, struct weir_error *err);
int parquet_column_index_parse(const uint8_t *bytes, size_t size, struct weir_arena *arena,
			       struct parquet_column_index *out, struct weir_error *err);

struct parquet_bloom_header {
	int32_t size_bytes;
	bool is_split_block, is_xxhash, is_uncompressed;
};
int parquet_bloom_header_parse(const uint8_t *bytes, size_t size, struct parquet_bloom_header *out, size_t *used,
			       struct weir_error *err);

#define PARQUET_MAGIC "PAR1"
#define PARQUET_MAGIC_ENCRYPTED "PARE"
enum { PARQUET_NESTING_MAX = 128 };

#endif
