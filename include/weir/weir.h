/* weir: a streaming data engine.
 *
 * The one header to include. A program opens a session, builds a flow and lets it run:
 *
 *     struct weir_session *session;                             memory limit, threads
 *     struct weir_flow *flow;                                   read ─▶ filter ─▶ … : a recipe, nothing runs yet
 *
 *     weir_session_open(NULL, &session, &error);
 *     flow = weir_flow_new(session);
 *     weir_flow_read(flow, "orders.parquet", NULL);
 *     weir_flow_filter(flow, "price > 100");
 *     weir_flow_write(flow, "expensive.parquet", NULL);
 *     if (weir_flow_run(flow, NULL, &error))
 *             fprintf(stderr, "%s\n", weir_error_text(error));
 *
 * Instead of writing, a flow can be counted (weir_flow_count), read row by row (weir_flow_rows) or batch by batch
 * (weir_flow_stream), or started in the background (weir_flow_start).
 *
 * Rules for all functions:
 *   - Functions that can fail return 0 (WEIR_OK) or an enum weir_code. `error`, always the last parameter, may be NULL;
 *     on failure it is set to an error that the caller frees with weir_error_free, on success it is left alone.
 *   - Each handle is freed with the function named after it (weir_flow_free), in any order: a handle keeps the session
 *     that it needs. All of these functions accept NULL.
 *   - Text given to a function is copied. Text that a function returns as const char * belongs to the handle it came
 *     from. All text is UTF-8.
 *   - Structs that a program fills, or provides for results, begin with struct_size = sizeof(struct …), set by the
 *     program; members that only a newer library has keep their defaults. For all other members zero is the default.
 *
 * Threads: there are no globals. Sessions may be used by any number of threads at the same time. Every other handle is
 * used by one thread at a time, except where a function of weir_task says otherwise. Different handles never disturb
 * each other. Signals may arrive during any call, but only weir_task_cancel may be called from a signal handler.
 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include "weir/arrow_abi.h"
#include "weir/base.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_error;
struct weir_session;
struct weir_flow;
struct weir_expression;
struct weir_task;
struct weir_rows;
struct weir_context;

/* The version of the library that is loaded, such as "0.1.0". Static storage. Any thread. */
WEIR_API const char *weir_version(void);

/* ---- errors ---------------------------------------------------------------------------------------------------------
 *
 * An error is immutable and belongs to whoever received it. Accessors may be called from any thread; each accepts NULL,
 * which stands for "no error". They return NULL (texts) or −1 (numbers) for what is not known. */

/* One line for people, with everything below in it: "a.parquet: operator filter, row 17: message". Never NULL. */
WEIR_API const char *weir_error_text(const struct weir_error *error);
WEIR_API enum weir_code weir_error_code(const struct weir_error *error);
WEIR_API const char *weir_error_message(const struct weir_error *error); /* what went wrong, without where */
/* "filter"; a transform's or source's own name */
WEIR_API const char *weir_error_operator(const struct weir_error *error);
WEIR_API const char *weir_error_file(const struct weir_error *error); /* path, "expression", … */
WEIR_API const char *weir_error_column(const struct weir_error *error);
WEIR_API const char *weir_error_value(const struct weir_error *error);
WEIR_API int64_t weir_error_row(const struct weir_error *error); /* in the file, from 0 */
/* 1, or how many rows from there on it is about */
WEIR_API int64_t weir_error_row_count(const struct weir_error *error);
WEIR_API int64_t weir_error_line(const struct weir_error *error);   /* of a text file, from 1 */
WEIR_API int64_t weir_error_offset(const struct weir_error *error); /* byte in the file */
WEIR_API int weir_error_errno(const struct weir_error *error);      /* 0: no system call failed */
WEIR_API void weir_error_free(struct weir_error *error);

/* "WEIR_E_DATA". Static storage; a code from a newer library gives "unknown code". Any thread. */
WEIR_API const char *weir_error_code_name(int code);

/* ---- sessions -------------------------------------------------------------------------------------------------------
 *
 * A session is memory with a limit, and threads. It runs one flow at a time; starting a second one meanwhile is
 * WEIR_E_INVALID. Open a session for each flow that is to run at the same time: it costs about a millisecond. */

struct weir_options {
	size_t struct_size;
	int64_t memory_limit; /* bytes, at least 64 MiB; 0: 60 % of what the machine or its cgroup has */
	uint32_t threads;     /* 0: one per CPU */
	/* The folder for what does not fit into memory; it must exist and be writable. NULL: TMPDIR, or else
	 * /var/tmp. */
	const char *spill_dir;
	/* Receives the lines that the session would otherwise log to stderr, without a newline. Called from any thread,
	 * also from several at once. NULL: they go to stderr. */
	void (*log)(void *log_data, enum weir_log_level level, const char *line);
	void *log_data;
};

/* options may be NULL. *out is NULL on failure. Any thread. */
WEIR_API int weir_session_open(const struct weir_options *options, struct weir_session **out,
			       struct weir_error **error);
/* Flows, tasks, rows and arrays of the session remain usable; the session ends with the last of them. Any thread. */
WEIR_API void weir_session_close(struct weir_session *session);

/* ---- expressions ----------------------------------------------------------------------------------------------------
 *
 * Most programs write expressions as text: weir_flow_filter(flow, "price > 100 and flag in ('A', 'R')");
 * docs/expressions.md has the language. Where values come from variables, expressions are built, so that nothing needs
 * to be quoted:
 *
 *     weir_flow_filter_by(flow, weir_binary(">", weir_column("price"), weir_double(limit)));
 *
 * A function that is given an expression owns it from then on, also when it fails. An invalid expression (a NULL name,
 * a text with a mistake) carries its error to the flow that it is given to, so only the flow needs to be checked. NULL
 * is an expression for which there was no memory. One thread at a time. */

WEIR_API struct weir_expression *weir_parse(const char *text); /* the language of docs/expressions.md */
WEIR_API struct weir_expression *weir_column(const char *name);
WEIR_API struct weir_expression *weir_int(int64_t value);
WEIR_API struct weir_expression *weir_double(double value);
WEIR_API struct weir_expression *weir_bool(int value);
WEIR_API struct weir_expression *weir_string(const char *value); /* NULL: null */
WEIR_API struct weir_expression *weir_bytes(const void *value, size_t size);
WEIR_API struct weir_expression *weir_null(void);
/* Any value as text with its type: weir_literal("2024-02-29", "date32"), weir_literal("1.50", "decimal128(5, 2)"). */
WEIR_API struct weir_expression *weir_literal(const char *value, const char *type);
/* A function of the language by its name: weir_call("lower", &name, 1). Also "in": true if the first argument equals
 * one of the others. The array itself remains the caller's. */
WEIR_API struct weir_expression *weir_call(const char *function, struct weir_expression *const *arguments,
					   size_t count);
/* An operator, or a function of one or two arguments: "not", "-", "is None", "lower"; "+", "<=", "and",
 * "startswith". */
WEIR_API struct weir_expression *weir_unary(const char *operation, struct weir_expression *operand);
WEIR_API struct weir_expression *weir_binary(const char *operation, struct weir_expression *left,
					     struct weir_expression *right);
WEIR_API void weir_expression_free(struct weir_expression *expression);

/* ---- flows ----------------------------------------------------------------------------------------------------------
 *
 * A flow is a list of steps: the first makes rows (read…), further ones change them, and the last may end the flow
 * (write). Building a flow runs nothing and opens nothing. It can be run any number of times, or only once if it reads
 * an ArrowArrayStream.
 *
 * A step that cannot be added leaves its error in the flow: later steps do nothing, and the function that would run the
 * flow reports the error. So a program need not check each step. One that wants to can: each returns its code. */

/* An option of a step, as the command takes it: {"compression", "zstd"} is --compression zstd, {"fsync", NULL} is
 * --fsync. Lists of them end with {NULL, NULL}; NULL is an empty list. This struct never changes. */
struct weir_option {
	const char *name;
	const char *value;
};

/* Returns NULL without a session or without memory; the functions below then report that. */
WEIR_API struct weir_flow *weir_flow_new(struct weir_session *session);
/* A flow with the same steps. A stream that the flow reads is shared: the one that runs first gets it. NULL: no
 * memory. */
WEIR_API struct weir_flow *weir_flow_copy(const struct weir_flow *flow);
WEIR_API void weir_flow_free(struct weir_flow *flow);
/* The error of the first step that could not be added, or NULL. Belongs to the flow. */
WEIR_API const struct weir_error *weir_flow_error(const struct weir_flow *flow);

/* Files, folders or globs, in any format that weir reads. The options are those of the verb `read` (weir help read),
 * with a format's own: {"columns", "a,b"}, {"format", "csv"}, … */
WEIR_API int weir_flow_read(struct weir_flow *flow, const char *path, const struct weir_option *options);
WEIR_API int weir_flow_read_list(struct weir_flow *flow, const char *const *paths, size_t count,
				 const struct weir_option *options);
/* Batches of an Arrow stream. The flow owns the stream from then on, also on failure. Such a flow runs once. */
WEIR_API int weir_flow_read_stream(struct weir_flow *flow, struct ArrowArrayStream *stream);

/* Keeps rows for which the expression is true. */
WEIR_API int weir_flow_filter(struct weir_flow *flow, const char *expression);
WEIR_API int weir_flow_filter_by(struct weir_flow *flow, struct weir_expression *expression);
/* Exactly these columns: "a, b, total = price * amount". */
WEIR_API int weir_flow_select(struct weir_flow *flow, const char *columns);
/* All columns and these: "total = price * amount"; one that exists is replaced in its place. */
WEIR_API int weir_flow_with(struct weir_flow *flow, const char *columns);
WEIR_API int weir_flow_with_by(struct weir_flow *flow, const char *column, struct weir_expression *expression);
WEIR_API int weir_flow_rename(struct weir_flow *flow, const char *column, const char *new_name);
WEIR_API int weir_flow_drop(struct weir_flow *flow, const char *columns); /* "a, b" */
WEIR_API int weir_flow_limit(struct weir_flow *flow, int64_t row_count);  /* the first ones, in input order */
/* The rows so far, then those of `other`, which is copied. Columns are matched by name. */
WEIR_API int weir_flow_union(struct weir_flow *flow, const struct weir_flow *other);
/* Combines rows of the flow with those of another flow that have the same keys. The options are those of the verb join
 * (on, right-on, how, left-suffix, right-suffix, partitions). */
WEIR_API int weir_flow_join(struct weir_flow *flow, const struct weir_flow *other, const struct weir_option *options);

/* The next steps need all rows before they give the first. What does not fit into the memory limit goes to disk. */

/* All rows in the order of some columns: "day, price desc". Equal rows stay in input order. */
WEIR_API int weir_flow_sort(struct weir_flow *flow, const char *columns);
/* The rows with the greatest values of some columns, the greatest first: "price"; "price asc" for the least. */
WEIR_API int weir_flow_top(struct weir_flow *flow, int64_t row_count, const char *columns);
/* All rows in a random order, which is the same for the same seed and input. */
WEIR_API int weir_flow_shuffle(struct weir_flow *flow, uint64_t seed);
/* One row for each combination of values of the keys, such as "flag, day", with aggregates of its rows, such as
 * "n = count(), total = sum(price)" (weir help group). keys "": one row about all rows. aggregates NULL: the keys
 * alone. */
WEIR_API int weir_flow_group(struct weir_flow *flow, const char *keys, const char *aggregates);
/* Each combination of values of some columns once; NULL: each row once. */
WEIR_API int weir_flow_unique(struct weir_flow *flow, const char *columns);
/* The same rows in other pieces; a folder that is written gets a file for each. Options: {"blocks", "8"} or
 * {"rows-per-block", "1000"}; with blocks, {"keys", "a, b"} brings rows with equal keys together, and {"sort", NULL}
 * sorts each piece by them. */
WEIR_API int weir_flow_repartition(struct weir_flow *flow, const struct weir_option *options);

/* Writes a file or a folder, as the target's extension says. The options are those of the verb `write`:
 * {"mode", "overwrite"}, {"compression", "zstd"}, … The target appears complete, when the run has succeeded, or not at
 * all. */
WEIR_API int weir_flow_write(struct weir_flow *flow, const char *target, const struct weir_option *options);

/* Any verb of the command, also those that are newer than this header. words: NULL-terminated, or NULL. */
WEIR_API int weir_flow_step(struct weir_flow *flow, const char *verb, const char *const *words,
			    const struct weir_option *options);
/* Steps as the command takes them: "filter 'price > 100' then limit 5". */
WEIR_API int weir_flow_chain(struct weir_flow *flow, const char *text);

/* What a running flow has done so far, or a finished one in all. */
struct weir_stats {
	size_t struct_size;
	uint64_t rows_in, rows_out;
	uint64_t splits_done; /* pieces of input */
	int64_t splits_total; /* −1: not known yet */
	uint64_t bytes_done;  /* of what is read, decoded; estimates */
	int64_t bytes_total;  /* −1: not known yet */
	uint64_t elapsed_ns;
	int64_t memory_used, memory_peak, memory_limit;
	uint32_t threads;
	int32_t finished;                       /* 0 while it runs */
	uint64_t splits_redone;                 /* given up for memory and run again */
	uint64_t wait_ns_memory, wait_ns_order; /* summed over threads */
	uint64_t rows_pruned;                   /* skipped unread, because statistics of their file ruled them out */
	uint64_t bytes_out;                     /* of rows handed to the program; 0 if they are written or counted */
};

/* The schema of the flow's rows, as a struct. Opens the first file. */
WEIR_API int weir_flow_schema(const struct weir_flow *flow, struct ArrowSchema *out, struct weir_error **error);
/* What would be done, as text: after optimisation, with estimates. Free it with weir_text_free. */
WEIR_API int weir_flow_explain(const struct weir_flow *flow, char **out, struct weir_error **error);
WEIR_API void weir_text_free(char *text);

/* ---- running ------------------------------------------------------------------------------------------------------*/

/* Runs a flow that ends in write (or count), to its end. stats may be NULL. */
WEIR_API int weir_flow_run(const struct weir_flow *flow, struct weir_stats *stats, struct weir_error **error);
/* The number of the flow's rows. Taken from file footers where that is possible. */
WEIR_API int weir_flow_count(const struct weir_flow *flow, int64_t *row_count, struct weir_error **error);
/* The rows as batches, in input order, as soon as they are there: the run goes on in the background, a few batches
 * ahead. Releasing the stream stops the run. A stream's errors are only texts; use weir_flow_start for whole ones.
 * Batches outlive the stream and the session. */
WEIR_API int weir_flow_stream(const struct weir_flow *flow, struct ArrowArrayStream *out, struct weir_error **error);
/* The rows one by one, for simple loops. */
WEIR_API int weir_flow_rows(const struct weir_flow *flow, struct weir_rows **out, struct weir_error **error);

struct weir_start_options {
	size_t struct_size;
	/* Called every progress_ms (0: 100) while the flow runs, from a thread of its own, and once at the end. */
	void (*progress)(void *progress_data, const struct weir_stats *stats);
	void *progress_data;
	uint32_t progress_ms;
	int64_t batch_rows; /* at most so many rows in a batch of the stream; 0: about 65,536 */
};

/* Starts a flow in the background. If it ends in write or count, only weir_task_wait is needed after that; otherwise
 * take its rows with weir_task_stream or weir_task_rows. All errors that can be found without running (names, types,
 * missing files, targets that exist) are reported here. options may be NULL. */
WEIR_API int weir_flow_start(const struct weir_flow *flow, const struct weir_start_options *options,
			     struct weir_task **out, struct weir_error **error);
/* Waits for the end, and reports the result; every call reports the same. Any number of threads. */
WEIR_API int weir_task_wait(struct weir_task *task, struct weir_error **error);
/* Asks the run to stop; functions that wait for it return WEIR_E_CANCELLED within about a tenth of a second. A target
 * that was being written does not appear. After the end of the run this does nothing. Any thread, and signal
 * handlers. */
WEIR_API void weir_task_cancel(struct weir_task *task);
/* Any thread, at any time. */
WEIR_API int weir_task_stats(struct weir_task *task, struct weir_stats *out);

/* One operator of the running flow: 0 is what reads, then each step. WEIR_E_INVALID past the last one. Any thread. */
struct weir_operator_stats {
	size_t struct_size;
	const char *name; /* belongs to the task */
	uint64_t rows_out;
	uint64_t time_ns; /* summed over threads */
};
WEIR_API int weir_task_operator(struct weir_task *task, uint32_t index, struct weir_operator_stats *out);

/* One step of the running flow that needs all rows before it gives the first (sort, shuffle, …), in the order in which
 * they run. WEIR_E_INVALID past the last one. Any thread. */
struct weir_exchange_stats {
	size_t struct_size;
	const char *name;                   /* belongs to the task */
	uint64_t rows, bytes;               /* kept, in memory and on disk */
	uint64_t bytes_spilled, bytes_read; /* written to disk and read back from there */
	uint64_t runs;                      /* sorted runs; 0: it makes none */
	uint64_t partitions;                /* 0: not known yet */
	uint64_t partition_rows_max;        /* of those that are done */
	uint32_t depth;                     /* steps of merging, or of partitioning again */
};
WEIR_API int weir_task_exchange(struct weir_task *task, uint32_t index, struct weir_exchange_stats *out);

/* Only one of these two, once per task. The stream and the rows keep what they need of the task, which may be freed
 * before them. */
WEIR_API int weir_task_stream(struct weir_task *task, struct ArrowArrayStream *out, struct weir_error **error);
WEIR_API int weir_task_rows(struct weir_task *task, struct weir_rows **out, struct weir_error **error);
/* Cancels what still runs, unless a stream or rows of it are in use, and waits for it. */
WEIR_API void weir_task_free(struct weir_task *task);

/* ---- rows -----------------------------------------------------------------------------------------------------------
 *
 *     while (weir_rows_next(rows))
 *             printf("%s %.2f\n", weir_rows_text(rows, 0), weir_rows_double(rows, 1));
 *     if (weir_rows_error(rows))
 *             …
 *
 * Columns are numbered from 0. Asking for a column that does not exist, or for the wrong type, ends the rows with an
 * error that says what there is. Text and bytes are valid until the next weir_rows_next. One thread at a time. */

/* 1: there is a row. 0: there are no more, or there was an error (weir_rows_error). */
WEIR_API int weir_rows_next(struct weir_rows *rows);
/* NULL while all is well. Belongs to the rows. */
WEIR_API const struct weir_error *weir_rows_error(const struct weir_rows *rows);

WEIR_API uint32_t weir_rows_column_count(const struct weir_rows *rows);
WEIR_API const char *weir_rows_column_name(const struct weir_rows *rows, uint32_t column); /* NULL: no such column */
/* "int64", "list<item: string>" */
WEIR_API const char *weir_rows_column_type(const struct weir_rows *rows, uint32_t column);
WEIR_API int weir_rows_find(const struct weir_rows *rows, const char *name); /* the column's number, or −1 */

WEIR_API int weir_rows_is_null(struct weir_rows *rows, uint32_t column);
/* Integers and booleans; dates, times, timestamps and durations as Arrow counts them. A null is 0. */
WEIR_API int64_t weir_rows_int64(struct weir_rows *rows, uint32_t column);
WEIR_API double weir_rows_double(struct weir_rows *rows, uint32_t column); /* floats and integers. A null is 0. */
/* The bytes of a string or binary, not zero-terminated; size may be NULL. A null is NULL. */
WEIR_API const char *weir_rows_bytes(struct weir_rows *rows, uint32_t column, size_t *size);
/* A value of any type as zero-terminated text: "1.5", "2024-02-29", [1, 2]. A null is "". */
WEIR_API const char *weir_rows_text(struct weir_rows *rows, uint32_t column);
WEIR_API void weir_rows_free(struct weir_rows *rows); /* stops the run */

/* ---- functions of the program ---------------------------------------------------------------------------------------
 *
 * weir calls them from its own threads, several at the same time. Each call gets a context, which is valid during the
 * call, in that thread. They return 0, or something else on failure; weir_context_fail says why:
 *
 *     return weir_context_fail(context, "row %lld: %s is no date", row, text);
 *
 * Apart from weir_task_cancel, they must not call functions of weir on the flow or task that they run in. */

/* Says why the call fails; returns 1. printf's formats. */
WEIR_API int weir_context_fail(struct weir_context *context, const char *format, ...) WEIR_PRINTF(2, 3);
/* Not 0: the run is being cancelled, and nobody wants the call's result any more. Check it in loops that take long. */
WEIR_API int weir_context_cancelled(const struct weir_context *context);
/* The number of the thread, from 0. */
WEIR_API uint32_t weir_context_thread(const struct weir_context *context);

/* A C function over batches of rows. */
struct weir_transform {
	size_t struct_size;
	const char *name; /* for errors, stats and explain; NULL: "transform" */

	/* Makes `output` from `input`, both Arrow struct arrays whose children are columns. The input is borrowed: do
	 * not release or move it. The output may share its buffers; weir releases the output before them. If
	 * `columns_out` is given, output_schema may be left alone; otherwise set it in each call, always to the same
	 * schema. */
	int (*apply)(void *state, struct weir_context *context, const struct ArrowSchema *input_schema,
		     const struct ArrowArray *input, struct ArrowSchema *output_schema, struct ArrowArray *output);

	/* Per-thread state: made before a thread's first call, destroyed after its last. A thread that has to wait for
	 * work may be given a new one when it goes on. NULL: apply gets `data` itself. */
	int (*create)(void *data, struct weir_context *context, void **state);
	void (*destroy)(void *state);
	void *data;
	void (*release)(void *data); /* when the flow, its copies and its tasks need it no more; NULL: nothing to do */

	/* The columns that the function gets, in this order: "a, b". NULL: all. Other columns are not even read, unless
	 * some other step needs them. */
	const char *columns_in;
	/* The columns that it makes, with their types: "total: double, tags: list<item: string>". NULL: when the flow is
	 * started, weir calls the function with a batch of no rows, and takes the schema of the result. */
	const char *columns_out;
	/* Not 0: the output has a row for each row of the input, and its columns are added to those of the input (or
	 * replace those of the same name). 0: the output replaces the input, and may have any number of rows. */
	int32_t adds_columns;
	int64_t batch_rows;   /* rows in each call, except the last of a split; 0: about 16,384 or 1 MiB */
	uint32_t threads_max; /* calls at the same time; 0: any number */
};

/* Rows keep their order. A piece of input (a split) may be given up for memory and run again later. A piece of a text
 * file whose first record was guessed wrong is read again from the right place. So the function may see a row twice, or
 * a row that does not exist; the flow's results have each row once. */
WEIR_API int weir_flow_transform(struct weir_flow *flow, const struct weir_transform *transform);

/* C functions that make batches of rows. A source has either a number of splits, which are read in parallel and in any
 * order, each by one thread:
 *
 *     open(data, split) ─▶ next … ─▶ close
 *
 * A split may be closed early, and opened again to run it once more from its beginning. Or it is one stream
 * (split_count 0), which is opened once per run, with split 0, and read by one thread at a time. The flow's steps still
 * run in parallel. While `next` waits, cancelling and stats wait too, so one that waits long has to look at
 * weir_context_cancelled. Rows are in the order of splits and batches. */
struct weir_source {
	size_t struct_size;
	const char *name;    /* for errors, stats and explain; NULL: "source" */
	const char *columns; /* with their types: "id: int64 not null, name: string" */
	int64_t split_count; /* 0: one stream */
	int (*open)(void *data, struct weir_context *context, int64_t split, void **state); /* NULL: state is data */
	/* Fills `out` with the next batch, a struct array with the columns above, or leaves it alone at the end. */
	int (*next)(void *state, struct weir_context *context, struct ArrowArray *out);
	void (*close)(void *state); /* NULL: nothing to do */
	void *data;
	void (*release)(void *data); /* when the flow, its copies and its tasks need it no more; NULL: nothing to do */
};
WEIR_API int weir_flow_read_source(struct weir_flow *flow, const struct weir_source *source);

/* ---- making batches -------------------------------------------------------------------------------------------------
 *
 * For functions and streams of programs that have no Arrow library at hand: values are appended column by column, and
 * come out as a batch. Columns are numbered from 0. A value that cannot be appended (a text to a column of numbers, a
 * number that is too large) leaves its error in the appender, and weir_appender_finish reports it. One thread at a
 * time. The memory is the program's: no session counts it. */

struct weir_appender;

/* columns: "id: int64, name: string". Nested columns can only have nulls. */
WEIR_API int weir_appender_new(const char *columns, struct weir_appender **out, struct weir_error **error);
/* Into integers, floats, booleans, dates, times, timestamps and durations; the latter as Arrow counts them. */
WEIR_API void weir_append_int64(struct weir_appender *appender, uint32_t column, int64_t value);
WEIR_API void weir_append_double(struct weir_appender *appender, uint32_t column, double value);      /* into floats */
WEIR_API void weir_append_string(struct weir_appender *appender, uint32_t column, const char *value); /* NULL: null */
WEIR_API void weir_append_bytes(struct weir_appender *appender, uint32_t column, const void *value, size_t size);
/* A value of any type that is not nested, as text: "2024-02-29", "1.50". NULL: null. */
WEIR_API void weir_append_text(struct weir_appender *appender, uint32_t column, const char *text);
WEIR_API void weir_append_null(struct weir_appender *appender, uint32_t column);
WEIR_API int64_t weir_appender_row_count(const struct weir_appender *appender); /* of the longest column */
/* What was appended, as a batch; the columns must have the same length. Afterwards the appender is empty, also on
 * failure. schema may be NULL. Batches outlive the appender. */
WEIR_API int weir_appender_finish(struct weir_appender *appender, struct ArrowSchema *schema, struct ArrowArray *out,
				  struct weir_error **error);
WEIR_API void weir_appender_free(struct weir_appender *appender);

/* ---- chains: the command's verbs, in one call -----------------------------------------------------------------------
 *
 * Without handles, for scripts and bindings. Any thread. */

/* What a run did. */
struct weir_result {
	size_t struct_size;
	uint64_t rows_in, rows_out;
	int64_t memory_peak;
};

/* Runs a chain that ends in write or count, to its end. `input` feeds the verb `batches`, and the function owns it from
 * then on, also on failure; it is NULL if the chain reads files. Returns 0, or the code of an error whose text is in
 * `message`. options, result and message may be NULL. */
WEIR_API int weir_run_chain(const char *chain, const struct weir_options *options, struct ArrowArrayStream *input,
			    struct weir_result *result, char *message, size_t message_size);

/* Runs a chain without a sink and returns its rows, in input order, as soon as they are there. The run goes on in the
 * background, a few batches ahead; releasing the stream stops it. */
WEIR_API int weir_stream_chain(const char *chain, const struct weir_options *options, struct ArrowArrayStream *input,
			       struct ArrowArrayStream *out, char *message, size_t message_size);

#ifdef __cplusplus
}
#endif

#endif
