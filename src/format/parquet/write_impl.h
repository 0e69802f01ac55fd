/* What the files of the Parquet writer share.
 *
 *     vector ─▶ write.c ─▶ write_flat.c    one leaf a column       ─▶ write_leaf.c ─▶ write_page.c ─▶ row group ─▶ sink
 *                       └▶ write_nested.c  levels, several leaves  ─┘   write_plain.c   encode_choice.c
 *                                                                       encode_dictionary.c, encode_statistics.c
 *
 * Rows are encoded the moment they come: values go from the vector straight into the leaf's open page, PLAIN or as
 * codes of the leaf's dictionary. A full page is compressed and appended to the leaf's stream of finished bytes; when
 * the row group ends the streams go to the sink one after the other. Only encoded bytes are ever held.
 */
#ifndef WEIR_FORMAT_PARQUET_WRITE_IMPL_H
#define WEIR_FORMAT_PARQUET_WRITE_IMPL_H

#include "base/list.h"
#include "vector/vector.h"
#include "format/format.h"
#include "format/parquet/parquet_impl.h"

/* ── the schema, write_schema.c ─────────────────────────────────────────────────────────────────────────────────── */

/* How the values of a leaf are ordered, for statistics. */
enum parquet_order {
	PARQUET_ORDER_NONE,
	PARQUET_ORDER_I32,
	PARQUET_ORDER_U32,
	PARQUET_ORDER_I64,
	PARQUET_ORDER_U64,
	PARQUET_ORDER_F32,
	PARQUET_ORDER_F64,
	PARQUET_ORDER_NUMBER_COUNT, /* those above have a kernel */
	PARQUET_ORDER_HALF = PARQUET_ORDER_NUMBER_COUNT,
	PARQUET_ORDER_BOOL,
	PARQUET_ORDER_BYTES,   /* unsigned, shorter first */
	PARQUET_ORDER_DECIMAL, /* big endian, two's complement, one width */
};

/* What becomes of a value between vector and page. */
enum parquet_convert {
	PARQUET_CONVERT_NULL, /* no values at all */
	PARQUET_CONVERT_COPY, /* as it lies, plain_width bytes */
	PARQUET_CONVERT_BITS,
	PARQUET_CONVERT_VIEWS,
	PARQUET_CONVERT_I8,
	PARQUET_CONVERT_I16,
	PARQUET_CONVERT_U8,
	PARQUET_CONVERT_U16,
	PARQUET_CONVERT_DAYS,        /* date64: milliseconds to days */
	PARQUET_CONVERT_MILLIS_I32,  /* seconds to milliseconds */
	PARQUET_CONVERT_MILLIS_I64,  /* the same */
	PARQUET_CONVERT_DECIMAL_I32, /* the low bytes of a decimal that fits */
	PARQUET_CONVERT_DECIMAL_I64,
	PARQUET_CONVERT_DECIMAL_FIXED, /* big endian, plain_width bytes */
};

/* A leaf of the schema: what becomes one column chunk in each row group. */
struct parquet_leaf {
	const struct weir_type *type; /* of its values; not DICTIONARY_TYPE */
	uint32_t element;             /* in the schema's elements */
	uint32_t field;               /* of the Arrow schema */
	uint32_t plain_width;         /* bytes of a value in a PLAIN page; 0: BITS, VIEWS, NULL */
	uint8_t physical;
	uint8_t max_definition, max_repetition;
	bool is_text;
	bool is_dictionary; /* DICTIONARY_TYPE in Arrow */
	enum parquet_order order;
	enum parquet_convert convert;
	uint32_t path_count;
	const char **path;
};

enum parquet_node_kind { PARQUET_NODE_LEAF, PARQUET_NODE_STRUCT, PARQUET_NODE_LIST };

/* A type of the Arrow schema. Children of a struct follow each other by `next`; a list (map, fixed list) has one. */
struct parquet_node {
	enum parquet_node_kind kind;
	const struct weir_type *type;
	bool optional;
	uint8_t definition; /* level of a value that is present here */
	uint8_t repetition; /* LIST: level of a second item; else that of the list around it */
	uint32_t child, next;
	uint32_t leaf; /* LEAF */
};

struct parquet_write_schema {
	struct weir_arena arena;
	uint32_t element_count, leaf_count, node_count, field_count;
	struct parquet_element *elements;
	struct parquet_leaf *leaves;
	struct parquet_node *nodes;
	uint32_t *field_nodes; /* the node of each Arrow field */
};

/* Refuses what Parquet cannot hold, naming column and type. `schema` stays borrowed. */
int parquet_write_schema_init(struct parquet_write_schema *out, const struct weir_schema *schema,
			      struct weir_account *account, struct weir_error *err);
void parquet_write_schema_release(struct parquet_write_schema *schema);

/* ── kernels, kernels_encode.c ───────────────────────────────────────────────────────────────────────────────────── */

#define PARQUET_CODE_NONE UINT32_MAX

struct parquet_encode_kernels {
	/* The RLE/bit-packed hybrid without its length. `out` has parquet_hybrid_bound bytes. Width 1 … 32 (8 for
	 * u8). */
	size_t (*hybrid_u8)(const uint8_t *in, size_t count, unsigned width, uint8_t *out);
	size_t (*hybrid_u32)(const uint32_t *in, size_t count, unsigned width, uint8_t *out);
	size_t (*hybrid_bits)(const uint8_t *bits, size_t count, uint8_t *out);
	/* count a multiple of 8; writes up to 8 bytes too many. */
	void (*pack_u32)(const uint32_t *in, size_t count, unsigned width, uint8_t *out);
	/* DELTA_BINARY_PACKED of values on any address; `out` has parquet_delta_bound bytes. */
	size_t (*delta4)(const uint8_t *values, size_t count, uint8_t *out);
	size_t (*delta8)(const uint8_t *values, size_t count, uint8_t *out);
	void (*gather4)(const void *values, const uint16_t *rows, size_t count, void *out);
	void (*gather8)(const void *values, const uint16_t *rows, size_t count, void *out);
	/* values[codes[rows[i]]]; rows NULL: 0 … count − 1. */
	void (*gather_codes4)(const void *values, const uint32_t *codes, const uint16_t *rows, size_t count, void *out);
	void (*gather_codes8)(const void *values, const uint32_t *codes, const uint16_t *rows, size_t count, void *out);
	/* Widens [*min, *max] by the values. */
	void (*range[PARQUET_ORDER_NUMBER_COUNT])(const void *values, size_t count, void *min, void *max);
	/* out[i] = map[codes[rows[i]]]; true when one of them is PARQUET_CODE_NONE. */
	bool (*map_codes)(const uint32_t *codes, const uint16_t *rows, size_t count, const uint32_t *map,
			  uint32_t *out);
	/* The bits at `rows`, packed. */
	void (*select_bits)(const uint64_t *bits, const uint16_t *rows, size_t count, uint64_t *out);
	/* Those of `rows` (NULL: 0 … count − 1) that are valid; `out` has one place more than are found. */
	size_t (*select_present)(const uint64_t *valid, const uint16_t *rows, size_t count, uint16_t *out);
	void (*mark_codes)(const uint32_t *codes, size_t count, uint8_t *used);
	/* BYTE_STREAM_SPLIT. */
	void (*split_streams4)(const uint8_t *in, size_t count, uint8_t *out);
	void (*split_streams8)(const uint8_t *in, size_t count, uint8_t *out);
};
const struct parquet_encode_kernels *parquet_encode_kernels_choose(void);

static inline size_t parquet_hybrid_bound(size_t count, unsigned width)
{
	return (count / 8 + 1) * (width + 6) + 32;
}

static inline size_t parquet_delta_bound(size_t count, unsigned width_bytes)
{
	return (count / 128 + 1) * (128 * (size_t)width_bytes + 16) + 64;
}

/* ── buffers ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Grows by doubling; `slack` bytes past size may be written by copies that overshoot. */
struct parquet_buffer {
	uint8_t *data;
	size_t size, capacity;
};
enum { PARQUET_BUFFER_SLACK = 32 };

int parquet_buffer_grow(struct parquet_buffer *buffer, size_t more, struct weir_account *account,
			struct weir_error *err);
static inline int parquet_buffer_reserve(struct parquet_buffer *buffer, size_t more, struct weir_account *account,
					 struct weir_error *err)
{
	return buffer->capacity - buffer->size >= more + PARQUET_BUFFER_SLACK && buffer->data
		       ? WEIR_OK
		       : parquet_buffer_grow(buffer, more, account, err);
}
void parquet_buffer_release(struct parquet_buffer *buffer, struct weir_account *account);
/* Appends `count` bits to a buffer that holds `bits_before` of them. */
int parquet_buffer_bits(struct parquet_buffer *buffer, size_t bits_before, const uint64_t *bits, size_t count,
			struct weir_account *account, struct weir_error *err);
/* The same with all bits equal. */
int parquet_buffer_bits_fill(struct parquet_buffer *buffer, size_t bits_before, bool value, size_t count,
			     struct weir_account *account, struct weir_error *err);

/* ── statistics, encode_statistics.c ─────────────────────────────────────────────────────────────────────────────── */

enum { PARQUET_BOUND_MAX = 64 }; /* longer bytes are cut, and said to be */

enum parquet_range_state {
	PARQUET_RANGE_EMPTY, /* no values */
	PARQUET_RANGE_KNOWN,
	PARQUET_RANGE_UNKNOWN, /* values, but no bounds: all NaN, or the order is undefined */
};

struct parquet_range {
	enum parquet_range_state state;
	uint8_t min_size, max_size;
	bool min_inexact, max_inexact;
	uint8_t min[PARQUET_BOUND_MAX], max[PARQUET_BOUND_MAX];
};

/* The range of the open page. Numbers: min and max themselves; bytes: where in the page they lie. */
struct parquet_running {
	uint64_t number_min, number_max;
	uint64_t key_min, key_max; /* the first 8 bytes, big endian */
	size_t min_at, max_at;     /* SIZE_MAX: none yet */
	uint32_t min_size, max_size;
	uint64_t true_count; /* BITS */
};

void parquet_running_init(struct parquet_running *running, const struct parquet_leaf *leaf);
/* `count` values that begin at data + from: in PLAIN form, or, with `lengths`, bytes without their length words. */
void parquet_running_add(struct parquet_running *running, const struct parquet_leaf *leaf,
			 const struct parquet_encode_kernels *kernels, const uint8_t *data, size_t from,
			 const uint32_t *lengths, size_t count);
void parquet_running_end(const struct parquet_running *running, const struct parquet_leaf *leaf, const uint8_t *data,
			 uint64_t value_count, struct parquet_range *out);
void parquet_range_merge(struct parquet_range *into, const struct parquet_range *from, const struct parquet_leaf *leaf);
/* As memcmp, by the leaf's order. */
int parquet_compare(const struct parquet_leaf *leaf, const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size);

/* ── the dictionary of a chunk, encode_dictionary.c ──────────────────────────────────────────────────────────────── */

/* `body` is the dictionary page as it will be written. All-zero is the empty value. */
struct parquet_dictionary {
	struct parquet_buffer body;
	uint32_t count;
	uint32_t *slots; /* code + 1; 0: free. Linear probing, at most half full */
	uint32_t slot_count;
	/* VIEWS: where each value's length word lies in the body, and its hash. */
	struct parquet_entry {
		uint32_t offset, hash;
	} * entries;
	uint32_t entry_capacity;
};

/* Codes of `count` values in PLAIN form (4, 8 or `width` bytes each). */
int parquet_dictionary_fixed(struct parquet_dictionary *dictionary, uint32_t width, const uint8_t *values, size_t count,
			     uint32_t *codes, struct weir_account *account, struct weir_error *err);
/* Codes of views; rows NULL: 0 … count − 1. */
int parquet_dictionary_views(struct parquet_dictionary *dictionary, const struct weir_view *views, const uint16_t *rows,
			     size_t count, uint32_t *codes, struct weir_account *account, struct weir_error *err);
/* Nothing more will be looked up: only the page is kept. */
void parquet_dictionary_seal(struct parquet_dictionary *dictionary, struct weir_account *account);
void parquet_dictionary_clear(struct parquet_dictionary *dictionary); /* keeps the memory */
void parquet_dictionary_release(struct parquet_dictionary *dictionary, struct weir_account *account);

/* ── a leaf at work, write_leaf.c ────────────────────────────────────────────────────────────────────────────────── */

/* Finished bytes of a chunk, in order. */
struct parquet_segment {
	struct parquet_segment *next;
	uint32_t size, capacity; /* of bytes[] */
	uint8_t bytes[];
};

struct parquet_page_info {
	uint32_t size_compressed; /* header included */
	uint32_t row_count;
	uint64_t null_count;
	bool all_null;
	uint8_t min_size, max_size;
	uint32_t bounds_at; /* min, then max, in bounds */
};

struct parquet_pages WEIR_LIST(struct parquet_page_info);

/* What all leaves of a writer share. */
struct parquet_shared {
	struct weir_account account; /* a child of the lane's: what the writer holds is its `used` */
	const struct parquet_encode_kernels *kernels;
	struct weir_codecs *codecs;
	struct weir_writer_options options;
	uint64_t page_bytes_max, dictionary_bytes_max;
	uint64_t bytes_finished;       /* of all leaves in the open row group */
	struct parquet_buffer scratch; /* compressed bytes */
	struct parquet_buffer page;    /* levels and codes of a page that is being closed */
	struct parquet_buffer scratch_values;
	struct weir_text header;
	uint16_t present[WEIR_VECTOR_ROWS + 1];
	uint64_t bits[WEIR_VECTOR_ROWS / 64];
	struct weir_view views[WEIR_VECTOR_ROWS];
	/* values of a source dictionary that are looked up for the first time */
	struct parquet_buffer missing_values;
	uint32_t missing[WEIR_VECTOR_ROWS], missing_codes[WEIR_VECTOR_ROWS];
	/* write_nested.c */
	struct weir_arena arena;
	struct parquet_buffer nested_values;
	struct weir_view nested_views[WEIR_VECTOR_ROWS];
	uint64_t nested_bits[WEIR_VECTOR_ROWS / 64];
};

struct parquet_leaf_writer {
	const struct parquet_leaf *leaf;
	struct parquet_shared *shared;

	/* The open page. `data` begins with room for what stands before the values. */
	size_t headroom;
	uint64_t page_rows, page_levels, page_values;
	struct parquet_buffer definition; /* bits in flat leaves, from the first null on; else a byte a level */
	struct parquet_buffer repetition;
	struct parquet_buffer data;    /* PLAIN values, or uint32_t codes when coded, or bytes of strings alone */
	struct parquet_buffer lengths; /* uint32_t, of those bytes */
	bool coded;
	struct parquet_running running;

	/* The open chunk. */
	bool codec_chosen;
	enum weir_codec codec;
	uint8_t plain_encoding; /* of pages without codes */
	bool encoding_chosen;
	struct parquet_dictionary dictionary;
	uint64_t map_id; /* codes of this source dictionary are known in map */
	bool map_valid;
	struct parquet_buffer map;
	struct parquet_segment *first, *last;
	uint64_t bytes_finished, bytes_uncompressed;
	uint64_t values_total, levels_total, nulls_total;
	uint32_t pages_coded, pages_plain;
	uint32_t encodings; /* bits */
	struct parquet_range range;
	bool unbounded; /* a page without bounds: no column index */
	struct parquet_pages pages;
	struct parquet_buffer bounds;

	/* What chunks before it in the part found out, for small ones: trials cost as much as a page. */
	struct parquet_hint {
		bool is_valid;
		bool is_plain; /* a dictionary did not pay */
		bool encoding_chosen, codec_chosen;
		uint8_t encoding;
		enum weir_codec codec;
		uint64_t values; /* since the last trial */
	} hint;
};

void parquet_leaf_writer_init(struct parquet_leaf_writer *leaf, const struct parquet_leaf *schema,
			      struct parquet_shared *shared);
void parquet_leaf_writer_release(struct parquet_leaf_writer *leaf);
/* Between chunks: gives back what is kept for the next. */
void parquet_leaf_shrink(struct parquet_leaf_writer *leaf);
/* Begins a chunk; drops what was open. The first of a part knows nothing of others. */
void parquet_leaf_begin(struct parquet_leaf_writer *leaf, bool is_first);

/* Rows of a leaf come in three calls: their levels, the values that are present, and then the end of the rows, where a
 * page may be closed. */
int parquet_leaf_levels_flat(struct parquet_leaf_writer *leaf, const uint64_t *valid, const uint16_t *rows,
			     size_t count, size_t present, struct weir_error *err);
/* The error of a null in a required column, with the vector's row. */
int parquet_refuse_null(uint32_t row, struct weir_error *err);
int parquet_leaf_levels(struct parquet_leaf_writer *leaf, const uint8_t *definition, const uint8_t *repetition,
			size_t count, struct weir_error *err);

struct parquet_values {
	enum weir_form form; /* FLAT, CONSTANT or DICTIONARY */
	const void *values;  /* as in struct weir_column */
	const struct weir_dictionary *dictionary;
	const uint16_t *rows; /* NULL: 0 … count − 1 */
	size_t count;         /* at most WEIR_VECTOR_ROWS */
};
int parquet_leaf_values(struct parquet_leaf_writer *leaf, const struct parquet_values *values, struct weir_error *err);
int parquet_leaf_rows_end(struct parquet_leaf_writer *leaf, size_t row_count, struct weir_error *err);

/* Closes the last page; afterwards the chunk's dictionary page, when dictionary.count is not 0, and then `first` … are
 * its bytes. */
int parquet_leaf_end(struct parquet_leaf_writer *leaf, struct weir_error *err);
/* The dictionary page: its header in shared->header, its bytes at *out until the next call. */
int parquet_leaf_dictionary_page(struct parquet_leaf_writer *leaf, const uint8_t **out, size_t *out_size,
				 struct weir_error *err);

static inline bool parquet_leaf_is_flat(const struct parquet_leaf *leaf)
{
	return leaf->path_count == 1; /* a field of the schema itself, not inside a struct */
}
static inline unsigned parquet_bit_width(uint32_t value_max)
{
	return value_max ? 32 - (unsigned)__builtin_clz(value_max) : 0;
}

/* write_page.c: an empty page; memory for its values; its end, nothing when it has no rows. */
void parquet_page_begin(struct parquet_leaf_writer *leaf);
int parquet_page_data(struct parquet_leaf_writer *leaf, struct weir_error *err);
int parquet_page_end(struct parquet_leaf_writer *leaf, struct weir_error *err);

/* encode_choice.c: how pages without codes are encoded. */
void parquet_encoding_begin(struct parquet_leaf_writer *leaf);
/* The values of the open page as they are stored, behind what is in `out`: all of them (*whole), or what stands before
 * leaf->data. */
int parquet_encoding_values(struct parquet_leaf_writer *leaf, struct parquet_buffer *out, bool *whole,
			    struct weir_error *err);

/* write_plain.c: values in PLAIN form at the end of `out`; strings without their length words when `lengths` takes
 * those. */
int parquet_plain_append(const struct parquet_leaf *leaf, const struct parquet_values *values,
			 struct parquet_shared *shared, struct parquet_buffer *out, struct parquet_buffer *lengths,
			 struct weir_error *err);

/* write_flat.c, write_nested.c: the selected rows of a column to its leaf or leaves. */
int parquet_write_flat(struct parquet_leaf_writer *leaf, const struct weir_column *column,
		       const struct weir_selection *selection, struct weir_error *err);
int parquet_write_nested(const struct parquet_node *nodes, const struct parquet_node *node,
			 struct parquet_leaf_writer *leaves, const struct weir_column *column,
			 const struct weir_selection *selection, struct parquet_shared *shared, struct weir_error *err);

/* ── parts and metadata, write_metadata.c ────────────────────────────────────────────────────────────────────────── */

/* A column chunk that is written. Positions are relative to the part. */
struct parquet_written_chunk {
	struct parquet_chunk meta;
	uint32_t pages_coded, pages_plain;
	uint8_t plain_encoding;
	uint32_t page_count;
	struct {
		uint32_t size_compressed, row_count;
	} * pages;
	struct parquet_bytes column_index; /* serialised */
};

struct parquet_written_group {
	int64_t row_count, size_bytes, size_compressed;
	struct parquet_written_chunk *chunks;
};

struct parquet_written_groups WEIR_LIST(struct parquet_written_group);

struct parquet_part {
	struct weir_part base;
	struct weir_arena arena;
	struct parquet_written_groups groups; /* items from the arena's account */
};

int parquet_page_header_write(const struct parquet_page_header *header, struct weir_text *out, struct weir_error *err);
int parquet_column_index_write(const struct parquet_leaf_writer *leaf, struct weir_text *out, struct weir_error *err);
int parquet_footer_write(struct weir_account *account, const struct weir_schema *schema,
			 const struct weir_writer_options *options, struct weir_part *const *parts,
			 const uint64_t *offsets, uint32_t count, struct weir_byte_sink sink, struct weir_error *err);

#endif
