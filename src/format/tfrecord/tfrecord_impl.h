/* tfrecord: the structs of the TFRecord reader.
 *
 *     tf_options  what the user asked for
 *     tf_file     an opened file. Immutable, shared by lanes.
 *     tf_frame    a record in its frame (frame.c)
 *     tf_walk     the features of one record (example.c)
 *     tf_values   the values of one feature (example.c)
 *     tf_shape    what is known of a feature's values, and the type of a column that holds them (infer.c)
 *     tf_reader   one lane's: walks the records of a range, notes where features lie, decodes what is asked for
 *
 *     bytes ─ frames ─▶ records ─ walk ─▶ for each row and wanted column where its feature lies
 *                                              └─ decode, when and for which rows somebody asks ─▶ columns
 */
#ifndef WEIR_FORMAT_TFRECORD_TFRECORD_IMPL_H
#define WEIR_FORMAT_TFRECORD_TFRECORD_IMPL_H

#include "base/list.h"
#include "format/cuts.h"
#include "format/format.h"
#include "format/name_scan.h"
#include "format/text_input.h"

/* ── options.c ── */

enum tf_unexpected { TF_UNEXPECTED_INFER, TF_UNEXPECTED_IGNORE, TF_UNEXPECTED_ERROR };

struct tf_given {
	const char *name, *type_text;
};

struct tf_options {
	struct weir_stream_options stream;
	enum tf_unexpected unexpected;
	bool infer_all;
	const struct tf_given *given; /* types= */
	uint32_t given_count;
};

extern const char *const tf_option_names[];
int tf_options_parse(struct weir_arena *arena, const struct weir_setting *settings, uint32_t count, const void **out,
		     struct weir_error *err);
const struct tf_options *tf_options_of(const struct weir_read_setup *setup);
/* Whether the user gave this column's type. */
bool tf_options_given(const struct tf_options *options, const char *column);

/* ── frame.c ── */

enum {
	TF_HEAD_BYTES = 12, /* length and its checksum */
	TF_TAIL_BYTES = 4,  /* the record's checksum */
};
#define TF_RECORD_MAX ((uint64_t)INT32_MAX) /* bytes: places in a window are 32 bits */

uint32_t tf_checksum(const void *bytes, size_t size);
/* Whether these TF_HEAD_BYTES begin a record, and how long it says it is. */
bool tf_head_read(const uint8_t *bytes, uint64_t *size);

/* The record at input.begin, which is taken whole into the window; *found false at the end of the file. `file_size` is
 * the stream's, 0 when nobody knows. Only what is there is made room for: a length is believed as far as bytes come.
 * While `may_fill` is false the window stays as it is, and *more says that it would have to be filled. Errors have the
 * byte. */
struct tf_frame {
	size_t begin; /* of the record itself, in the window's text */
	uint32_t size;
};
int tf_frame_next(struct weir_text_input *input, uint64_t file_size, bool may_fill, bool check, struct tf_frame *out,
		  bool *found, bool *more, struct weir_error *err);
/* Behind the record. */
static inline void tf_frame_pass(struct weir_text_input *input, const struct tf_frame *frame)
{
	input->begin = frame->begin + frame->size + TF_TAIL_BYTES;
}
/* Where a record seems to begin at or behind `begin` and before `end`; UINT64_MAX when nothing looks like one. A record
 * inside of another one looks like one too: format/cuts.h. */
int tf_frame_guess(struct weir_text_input *input, uint64_t file_size, uint64_t begin, uint64_t end, uint64_t *start,
		   struct weir_error *err);
/* How many records lie before a byte of a plain file, for messages; −1 when none begins there. */
int64_t tf_frames_before(struct weir_file *file, uint64_t offset);

/* ── example.c ── */

enum tf_kind { TF_NOTHING = 0, TF_BYTES = 1, TF_FLOAT = 2, TF_INT = 4 };

/* One field of a message in Protocol Buffers' encoding. */
struct tf_field {
	uint32_t number, wire;
	uint64_t value;       /* wire 0 */
	const uint8_t *bytes; /* the others */
	size_t size;
};

struct tf_message {
	const uint8_t *at, *end;
	const char *broken; /* what is wrong at `at`; NULL: nothing */
};

bool tf_field_next(struct tf_message *message, struct tf_field *out);

/* The features of a tf.train.Example, in the order in which they lie; of two with one name the later one counts. */
struct tf_walk {
	struct tf_message example, features;
	const char *broken; /* NULL: nothing; else what, at `broken_at` */
	const uint8_t *broken_at;
};

struct tf_feature {
	const uint8_t *name, *bytes;
	size_t name_size, size;
};

struct tf_walk tf_walk_begin(const uint8_t *record, size_t size);
bool tf_walk_next(struct tf_walk *walk, struct tf_feature *out);

/* The values of one feature. Lists of one kind that follow each other are one list; of several kinds the last one
 * counts. */
struct tf_values {
	enum tf_kind kind; /* NOTHING: none was set */
	uint64_t count;
	struct tf_message feature; /* from the first list that counts on */
	struct tf_message list;
	const char *broken;
	const uint8_t *broken_at;
};

bool tf_values_begin(const uint8_t *feature, size_t size, struct tf_values *out); /* false: broken */
/* The next piece of a list: one value (wire 0, 5, or bytes), or several packed ones (wire 2). */
bool tf_values_next(struct tf_values *values, struct tf_field *out);
/* Reads a number of 7 bits a byte; false when it has no end. */
bool tf_varint(const uint8_t **at, const uint8_t *end, uint64_t *out);

/* ── infer.c ── */

struct tf_shape {
	uint32_t kinds; /* enum tf_kind, of values that were there */
	bool has_one, has_many;
};

/* A value is a list's where one was seen with several; numbers of both kinds are doubles; nothing seen: list<null>.
 * NULL with err for what no column holds. */
const struct weir_type *tf_shape_type(struct weir_account *account, const struct tf_shape *shape,
				      struct weir_error *err);
/* False: no column of this format has such a type. */
bool tf_shape_of(const struct weir_type *type, struct tf_shape *out);
/* struct weir_format_ops.widen */
const struct weir_type *tf_widen(struct weir_account *account, const struct weir_type *a, const struct weir_type *b,
				 struct weir_error *err);
int tf_infer(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *const *files,
	     uint32_t count, struct weir_schema **out, struct weir_error *err);

/* ── file.c ── */

struct tf_file {
	struct weir_format_file base;
	struct weir_account *account;
	const struct weir_read_setup *setup;
	const struct tf_options *options;
	bool is_plain; /* byte n of the stream is byte n of the file */
};

/* ── reader.c ── */

struct tf_reader;

struct tf_span {
	uint32_t begin, size; /* in the window's text; begin WEIR_NO_NAME: the record has none */
};

struct tf_column {
	struct weir_pending pending;
	struct tf_reader *reader;
	const struct weir_field *field;
	const struct weir_type *item; /* of lists; else the type */
	bool is_list;
	struct tf_span *spans; /* by row */
	uint64_t *decoded;     /* 16 bytes a row */
	uint64_t *validity;    /* WEIR_VECTOR_ROWS bits */
	struct weir_array *nested;
};

struct tf_reader {
	struct weir_format_reader base;
	struct weir_account *account;
	struct weir_io *io;
	struct tf_file *file; /* a reference */
	struct weir_text_input input;
	struct weir_range range;
	struct weir_name_scan scan;
	struct tf_column *columns; /* of the scan, as the next */
	struct weir_column *vector_columns;
	bool is_done;
	uint64_t start, records; /* where the first record was taken to begin; how many have been walked */
	uint32_t rows_max, vector_rows;
	uint32_t *offsets; /* by row: where its frame begins in the window */
	struct weir_format_stats stats;
};

int tf_reader_new(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
		  struct weir_error *err);
int tf_reader_open(struct weir_format_reader *base, struct weir_format_file *file, const struct weir_scan *scan,
		   const struct weir_range *range, struct weir_error *err);
int tf_reader_next(struct weir_format_reader *base, struct weir_vector *out, struct weir_error *err);
uint64_t tf_reader_start(const struct weir_format_reader *base);
void tf_reader_stats(const struct weir_format_reader *base, struct weir_format_stats *out);
void tf_reader_free(struct weir_format_reader *base);
/* Completes an error's place: the file, and which record it is. `offset`: of the record's frame, in the stream. */
int tf_reader_place(struct tf_reader *self, uint64_t offset, uint64_t record, struct weir_error *err);

/* ── values.c ── */

int tf_column_decode(struct weir_pending *pending, const struct weir_selection *selection, struct weir_column *column,
		     struct weir_error *err);
/* Tells the read of every column that the window's records show to be wider than it was taken to be, and of new
 * ones. */
int tf_misfits_note(struct tf_reader *self, size_t at, struct weir_error *err);

#endif
