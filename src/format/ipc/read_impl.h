/* What the reading files of format/ipc share: opened files (file.c), messages and bodies (message.c), columns
 * (column.c) and the lane's reader (reader.c). */
#ifndef WEIR_FORMAT_IPC_READ_IMPL_H
#define WEIR_FORMAT_IPC_READ_IMPL_H

#include "base/list.h"
#include "arrow/ipc_layout.h"
#include "io/stream.h"
#include "format/format.h"

struct ipc_batch {
	int64_t row_begin, row_count;
	bool is_compressed;
};

struct ipc_file {
	struct weir_format_file base;
	struct weir_account *account;
	struct weir_ipc_schema *schema;
	/* Read as a stream: it is one, or it can be read from front to back only (a pipe, a compressed file). */
	bool is_stream, is_sequential;
	uint64_t stream_begin;         /* of a stream: behind its schema */
	struct weir_ipc_blocks blocks; /* of a file: its dictionaries, then its batches */
	uint32_t dictionary_count;
	struct WEIR_LIST(struct ipc_batch) batches;
	double *row_bytes; /* of each column, decoded, about; from the first batch */
};

/* One memory that is used for many things one after another, as large as the largest. */
struct ipc_memory {
	uint8_t *bytes;
	size_t capacity;
};
int ipc_memory_reserve(struct weir_account *account, struct ipc_memory *memory, uint64_t size, struct weir_error *err);
void ipc_memory_release(struct weir_account *account, struct ipc_memory *memory);

/* Where bytes come from, and the message at hand. */
struct ipc_source {
	struct weir_account *account;
	struct weir_file *file;
	bool is_sequential;
	struct weir_stream *stream; /* if so */
	uint64_t position;          /* of the stream */
	struct ipc_memory metadata;
	struct weir_ipc_head head;
	uint64_t offset, next; /* of the message, and of the one behind it */
	/* The part of the body that is read at once, when first needed; none: begin == end. */
	uint64_t span_begin, span_end;
	struct weir_buffer span; /* data NULL: not read */
	uint64_t bytes_read;
};

/* The message at `offset`: its metadata is read and looked at. `limit`: where the file's messages end; there is a
 * message of kind END, too. In a sequential source `offset` lies behind all that was read. */
int ipc_source_message(struct ipc_source *source, uint64_t offset, uint64_t limit, struct weir_error *err);
/* The next one of a stream. */
int ipc_source_next(struct ipc_source *source, struct weir_error *err);
/* Begins anew: the next message is at `offset`. */
int ipc_source_rewind(struct ipc_source *source, struct weir_io *io, uint64_t offset, struct weir_error *err);
/* The first bytes of a sequential source that was rewound, up to `size`. */
int ipc_source_head(struct ipc_source *source, void *bytes, uint64_t size, uint64_t *got, struct weir_error *err);
/* All that is wanted of the body lies in [begin, end). */
void ipc_source_span(struct ipc_source *source, uint64_t begin, uint64_t end);
struct weir_ipc_body ipc_source_body(struct ipc_source *source);
void ipc_source_release(struct ipc_source *source);

struct ipc_reader;

struct ipc_column {
	struct weir_pending pending;
	struct ipc_reader *reader;
	uint32_t number;              /* in the file */
	const struct weir_type *type; /* borrowed from the file */
	double row_bytes;             /* in this batch, about */
	/* Rows of the batch that are in memory: several vectors of them. */
	struct weir_array *window;   /* or, of a column of views, */
	struct weir_ipc_texts texts; /* account NULL: empty */
	int64_t window_begin, window_end;
	int64_t weighed_end; /* rows up to here, from the vector's on, are known to be no heavier than WEIGHT_MAX */
	bool is_heavy;       /* has to be weighed at all */
	/* DICTIONARY_TYPE: the values as vectors have them. */
	struct weir_array *values_array; /* that they were made of */
	struct weir_dictionary values;
	struct weir_arena values_arena;
};

struct ipc_reader {
	struct weir_format_reader base;
	struct weir_account *account;
	struct weir_io *io;
	struct ipc_file *file; /* a reference; kept until another one is opened */
	const struct weir_scan *scan;
	struct ipc_source source;
	struct weir_ipc_layout *layout;
	struct weir_ipc_dictionaries *dictionaries;
	bool dictionaries_read; /* of a file: all that the scan wants */
	struct ipc_column *columns;
	struct weir_column *vector_columns;
	uint32_t column_count;
	struct weir_arena arena; /* of the vector that is out */
	int64_t row, row_end;    /* in the file: the next one, and the range's end (INT64_MAX in streams) */
	/* The open batch; is_open false: none. */
	bool is_open;
	uint32_t batch; /* its number, in files */
	int64_t batch_begin, batch_rows;
	uint32_t rows_cap, rows_max;
	int64_t vector_begin; /* in the batch */
	uint32_t vector_rows;
	size_t window_bytes;
	struct weir_format_stats stats;
};

/* column.c */
int ipc_column_decode(struct weir_pending *pending, const struct weir_selection *selection, struct weir_column *column,
		      struct weir_error *err);
void ipc_column_batch(struct ipc_column *column); /* another batch is open */
/* How many of `rows` rows a vector may take so that this column's stay within bounds; at least 1. */
int ipc_column_weigh(struct ipc_column *column, int64_t begin, uint32_t *rows, struct weir_error *err);
void ipc_column_release(struct ipc_column *column);

/* reader.c */
int ipc_reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		   struct weir_error *err);
int ipc_reader_open(struct weir_format_reader *base, struct weir_format_file *file, const struct weir_scan *scan,
		    const struct weir_range *range, struct weir_error *err);
int ipc_reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err);
void ipc_reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out);
void ipc_reader_free(struct weir_format_reader *base);

#endif
