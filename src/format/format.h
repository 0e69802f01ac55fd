/* format: what every file format offers to the read and write operators. One folder per format, one table each way, one
 * line in format/formats.c.
 *
 * Formats are of two kinds. Some files say their schema and know their rows (Parquet, Arrow): ranges are rows. Of
 * others (CSV, JSON, text) the types are inferred from samples or given, and ranges are bytes: a range stands for the
 * records whose first byte lies in it, and where that is may be a guess (format/cuts.h) until the range before it has
 * been read.
 *
 * Reading is in two parts. A struct weir_format_file is an opened file's metadata: immutable, counted, shared by lanes,
 * small (no data). A struct weir_format_reader belongs to one lane and walks row ranges of one file after another; it
 * hands out vectors whose columns are UNDECODED, so that what no filter lets through is never decoded.
 */
#ifndef WEIR_FORMAT_FORMAT_H
#define WEIR_FORMAT_FORMAT_H

#include "base/arena.h"
#include "expr/expr.h"
#include "io/codec.h"
#include "io/file.h"
#include "io/output.h"

struct weir_format_ops;
struct weir_cuts;

/* An option of a verb or a format, as it was given. */
struct weir_setting {
	const char *name;  /* without "--" */
	const char *value; /* NULL for a bare flag */
};

/* What all files of one read have in common. Borrowed, immutable, outlives every file and reader that was given it. */
struct weir_read_setup {
	struct weir_io *io;
	const void *options; /* made by the format's options_parse; NULL: the format has none */
	/* Of formats whose files do not say their types: the dataset's schema, inferred or given; a file's columns get
	 * their types from it by name. NULL while it is being inferred. */
	const struct weir_schema *schema;
	/* A reader met a value that its column's inferred type cannot hold, and says which type would; it then returns
	 * WEIR_E_MISFIT. Any thread. NULL: nobody wants to know. */
	void (*misfit)(void *misfit_context, const char *column, const struct weir_type *wider);
	void *misfit_context;
};

/* Embedded first in each format's own struct. */
struct weir_format_file {
	const struct weir_format_ops *ops;
	_Atomic uint32_t refs;
	struct weir_file *file;
	struct weir_schema *schema;
	int64_t row_count;          /* −1: not known without reading */
	uint64_t bytes_decoded_est; /* of all columns */
	struct weir_cuts *cuts;     /* of files whose ranges begin at guesses; NULL: ranges are certain */
};

/* A piece of one file: rows [row_begin, row_end) of it, in formats that count rows; else bytes. */
struct weir_range {
	uint32_t number; /* of this file's ranges, from 0, without gaps in formats that have cuts */
	uint64_t begin, end;
	uint64_t bytes_decoded_est; /* of the columns scanned */
};

/* What a scan wants of every file. All borrowed and shared by lanes. Columns are numbers in the file's own schema: a
 * file that differs from the dataset's schema gets a scan of its own. */
struct weir_scan {
	const uint32_t *columns; /* ascending is not required; vectors have their columns in this order */
	uint32_t column_count;
	const struct weir_program *predicate; /* for pruning only: bound to the vector's columns; NULL: none */
	bool vectors_small;                   /* a limit follows: begin with few rows */
};

struct weir_format_reader {
	const struct weir_format_ops *ops;
};

struct weir_format_stats {
	uint64_t bytes_read, bytes_decompressed, row_groups_pruned, pages_pruned, pages_decoded, rows_pruned;
};

struct weir_format_ops {
	const char *name;
	const char *const *extensions; /* NULL-terminated: ".parquet", …; NULL: any name, and never guessed */
	bool streamed; /* files are read through io/stream.h: pipes too, and compressed ones by name ("a.csv.gz") */
	/* Options of its own, in the form of struct weir_op.options ("delimiter=", "header"); NULL: none. */
	const char *const *option_names;
	/* Made once per read, in the plan's arena; only settings named in option_names are passed. NULL with
	 * option_names. */
	int (*options_parse)(struct weir_arena *arena, const struct weir_setting *settings, uint32_t count,
			     const void **out, struct weir_error *err);
	/* The schema that fits samples of these files, or all of them (which is the format's option to know). NULL:
	 * files say their schema. */
	int (*infer)(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *const *files,
		     uint32_t count, struct weir_schema **out, struct weir_error *err);
	/* The type of a column that was inferred as both: a new reference. NULL: numbers become wider, what has nothing
	 * in common is text. */
	const struct weir_type *(*widen)(struct weir_account *account, const struct weir_type *a,
					 const struct weir_type *b, struct weir_error *err);
	/* `file` is referenced, `setup` borrowed. Errors name the file and offset. */
	int (*open)(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *file,
		    struct weir_format_file **out, struct weir_error *err);
	void (*close)(struct weir_format_file *file); /* when refs reaches 0 */
	/* What is known of a column over the whole file without reading data: nulls, and the least and the greatest
	 * value, exactly (a bound that was shortened is none). Bytes are borrowed from the file. NULL: files know
	 * nothing. */
	void (*column_bounds)(struct weir_format_file *file, uint32_t column, struct weir_bounds *out);
	/* Cuts the rows into pieces of about bytes_target decoded bytes (0: do not cut inside the file), in order,
	 * without gaps except where statistics prove that the predicate cannot match. A function of file and scan
	 * alone. */
	int (*ranges)(struct weir_format_file *file, const struct weir_scan *scan, uint64_t bytes_target,
		      int (*visit)(void *context, const struct weir_range *range), void *context,
		      struct weir_error *err);
	int (*reader_new)(struct weir_account *account, struct weir_io *io, struct weir_format_reader **out,
			  struct weir_error *err);
	/* Starts a range; whatever was open before is dropped. The scan stays borrowed until the next open or free.
	 * Where the file has cuts, the reader asks them where to begin and tells them where it ended. */
	int (*reader_open)(struct weir_format_reader *reader, struct weir_format_file *file,
			   const struct weir_scan *scan, const struct weir_range *range, struct weir_error *err);
	/* row_count 0 at the end of the range. Rows that statistics prove dead may be left out. source_row is set. */
	int (*reader_next)(struct weir_format_reader *reader, struct weir_vector *out, struct weir_error *err);
	/* Where the open range's first record was taken to begin, in files with cuts. NULL in formats without. */
	uint64_t (*reader_start)(const struct weir_format_reader *reader);
	void (*reader_stats)(const struct weir_format_reader *reader, struct weir_format_stats *out);
	void (*reader_free)(struct weir_format_reader *reader);
};

static inline struct weir_format_file *weir_format_file_ref(struct weir_format_file *file)
{
	atomic_fetch_add_explicit(&file->refs, 1, memory_order_relaxed);
	return file;
}
static inline void weir_format_file_unref(struct weir_format_file *file)
{
	/* acq_rel: the last one frees what the others read. */
	if (file && atomic_fetch_sub_explicit(&file->refs, 1, memory_order_acq_rel) == 1)
		file->ops->close(file);
}

/* Writing. A file is a header, parts in order, and a footer. A part is what one lane makes of one split; parts are made
 * in parallel, know nothing of each other, and hold positions relative to their own first byte. A folder gets a file
 * per split (header, one part, footer); one file, or a pipe, gets the parts of all splits in order. */
struct weir_byte_sink {
	int (*write)(void *state, const void *bytes, uint64_t size, struct weir_error *err);
	void *state;
};

/* When CSV cells stand between quotes. Nulls never do. */
enum weir_quoting {
	WEIR_QUOTING_MINIMAL,    /* where a reader would otherwise see something else */
	WEIR_QUOTING_ALL,        /* always */
	WEIR_QUOTING_NONNUMERIC, /* all but numbers */
	WEIR_QUOTING_NONE,       /* never; an error where they are needed */
	WEIR_QUOTING_STRINGS,    /* all strings, bytes and nested values */
};

/* CSV and JSON. Zero is the default of each. */
struct weir_text_options {
	char delimiter; /* ',' */
	char quote;     /* '"' */
	char escape;    /* before a quote inside of quotes; 0: it is doubled */
	enum weir_quoting quoting;
	bool no_header, crlf;
	const char *null_text; /* CSV: NULL: nothing. JSON has null. Borrowed, as long as the writer lives */
	bool names_non_finite; /* JSON: NaN and Infinity, not null */
	bool bare_floats;      /* CSV: 1, not 1.0 */
};

struct weir_writer_options {
	enum weir_codec codec;
	int codec_level;         /* 0: the codec's default */
	int64_t row_group_rows;  /* 0: default */
	int64_t row_group_bytes; /* encoded; 0: default */
	bool dictionary, page_index, statistics, data_page_v2;
	/* Parquet column encodings forced by tests: "plain", "delta", "byte_stream_split"; NULL: chosen by the
	 * writer. */
	const char *encoding;
	struct weir_text_options text;
};
#define WEIR_WRITER_OPTIONS_DEFAULT                                                                                    \
	((struct weir_writer_options){                                                                                 \
		.codec = WEIR_CODEC_SNAPPY, .dictionary = true, .page_index = true, .statistics = true})

/* What the footer must know of a part. Embedded first in each format's own struct. */
struct weir_part {
	uint64_t bytes, rows;
	uint64_t bytes_decoded; /* before encoding, about */
};

struct weir_format_writer;

struct weir_writer_ops {
	const char *name;
	const char *extension;
	const struct weir_writer_ops *in_pipes; /* what is written into a pipe instead; NULL: the same */
	enum weir_codec codec;                  /* unless somebody asks for another */
	const char *separator;                  /* bytes between two parts that have rows; NULL: none */
	bool is_text;                           /* compression is around the whole */
	/* One a lane. */
	int (*writer_new)(struct weir_account *account, const struct weir_schema *schema,
			  const struct weir_writer_options *options, struct weir_format_writer **out,
			  struct weir_error *err);
	/* Starts a part; nothing of an earlier, unfinished one is kept. */
	int (*part_begin)(struct weir_format_writer *writer, struct weir_byte_sink sink, struct weir_error *err);
	/* Encodes the selected rows at once; nothing of the vector is referenced afterwards. When the account's room
	 * runs low (weir_account_room) what is open (a row group) is closed early. */
	int (*push)(struct weir_format_writer *writer, struct weir_vector *vector, struct weir_error *err);
	/* Everything of the part has gone to the sink. *out is from `account`, freed by part_free. */
	int (*part_end)(struct weir_format_writer *writer, struct weir_account *account, struct weir_part **out,
			struct weir_error *err);
	void (*part_free)(struct weir_account *account, struct weir_part *part);
	/* NULL, as of the footer: the file has none. */
	int (*header)(struct weir_account *account, const struct weir_schema *schema,
		      const struct weir_writer_options *options, struct weir_byte_sink sink, struct weir_error *err);
	/* offsets[i]: where part i begins in the file. */
	int (*footer)(struct weir_account *account, const struct weir_schema *schema,
		      const struct weir_writer_options *options, struct weir_part *const *parts,
		      const uint64_t *offsets, uint32_t count, struct weir_byte_sink sink, struct weir_error *err);
	void (*writer_free)(struct weir_format_writer *writer);
};

/* The tables, by name or by extension or first bytes; NULL: unknown. */
const struct weir_format_ops *weir_format_for_path(const char *path);
const struct weir_format_ops *weir_format_for_bytes(const void *bytes, size_t size); /* a file's first WEIR_MAGIC_MAX */
const struct weir_format_ops *weir_format_at(uint32_t n); /* the n-th; NULL behind the last */
bool weir_format_is_streamed(const struct weir_format_ops *format);
/* "csv, parquet", for messages: those that know the option, or all when it is NULL. Returns `buffer`. */
const char *weir_format_names(const char *option, char *buffer, size_t size);
#define WEIR_MAGIC_MAX 8
const struct weir_format_ops *weir_format_by_name(const char *name);
const struct weir_writer_ops *weir_writer_by_name(const char *name);
const struct weir_writer_ops *weir_writer_for_extension(const char *extension); /* ".parquet" */
const char *weir_writer_names(void);                                            /* "parquet, csv, …", for messages */

extern const struct weir_format_ops weir_parquet_format, weir_arrow_format, weir_csv_format, weir_json_format,
	weir_lines_format, weir_binary_format, weir_tfrecord_format, weir_webdataset_format;
extern const struct weir_writer_ops weir_parquet_writer, weir_csv_writer, weir_jsonl_writer, weir_json_writer,
	weir_arrow_writer, weir_arrows_writer, weir_tfrecord_writer;

#endif
