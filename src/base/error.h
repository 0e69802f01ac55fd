/* error: what went wrong, where, and for which row.
 *
 * A function that can fail returns an int: WEIR_OK (0) or a code of the list below, and fills the caller's
 * struct weir_error, always the last parameter. Only the place where the failure is first seen calls weir_error_set;
 * those above it add context (source, column, operator, row) that is still missing and pass the code on.
 */
#ifndef WEIR_BASE_ERROR_H
#define WEIR_BASE_ERROR_H

#include "weir/base.h"

#include <stddef.h>
#include <stdint.h>

/* code, text for people, exception raised in Python. The order is the numbering: new codes go to the end, here and in
 * enum weir_code of weir/base.h (error.c asserts that they agree). */
#define WEIR_ERROR_LIST(X)                                                                                             \
	X(OK, "no error", "")                                                                                          \
	X(E_INVALID, "invalid argument", "ValueError")                                                                 \
	X(E_SYNTAX, "syntax error", "ValueError")                                                                      \
	X(E_NAME, "unknown name", "KeyError")                                                                          \
	X(E_TYPE, "type error", "TypeError")                                                                           \
	X(E_VALUE, "value out of range", "ValueError")                                                                 \
	X(E_OVERFLOW, "arithmetic overflow", "OverflowError")                                                          \
	X(E_ZERO_DIVISION, "division by zero", "ZeroDivisionError")                                                    \
	X(E_CAST, "value cannot be converted", "ValueError")                                                           \
	X(E_DATA, "invalid or damaged data", "weir.DataError")                                                         \
	X(E_UNSUPPORTED, "not supported", "NotImplementedError")                                                       \
	X(E_IO, "input/output error", "OSError")                                                                       \
	X(E_NOT_FOUND, "not found", "FileNotFoundError")                                                               \
	X(E_EXISTS, "already exists", "FileExistsError")                                                               \
	X(E_NO_SPACE, "no space left", "OSError")                                                                      \
	X(E_MEMORY, "out of memory", "MemoryError")                                                                    \
	X(E_LIMIT, "does not fit the memory limit", "MemoryError")                                                     \
	X(E_GIVE_UP, "split given up for an older one", "RuntimeError")                                                \
	X(E_CANCELLED, "cancelled", "KeyboardInterrupt")                                                               \
	X(E_WORKER, "worker process died", "weir.WorkerError")                                                         \
	X(E_SPILL_CORRUPT, "spilled data came back changed", "weir.DataError")                                         \
	X(E_INTERNAL, "internal error", "RuntimeError")                                                                \
	X(E_MISFIT, "value does not fit the inferred type", "weir.DataError")                                          \
	X(E_AGAIN, "split read again from another place", "RuntimeError")                                              \
	X(E_FUNCTION, "a function of the program failed", "RuntimeError")                                              \
	X(E_USER, "user code failed", "weir.UserCodeException")

enum {
#define X(name, text, python) WEIR_PLACE_##name,
	WEIR_ERROR_LIST(X)
#undef X
		WEIR_CODE_COUNT
};

#define WEIR_NO_ROW (-1)
#define WEIR_NO_OFFSET UINT64_MAX

/* All-zero is "no error". Texts are cut at whole UTF-8 characters when they do not fit. */
struct weir_error {
	int code;
	int errno_value;   /* 0 unless the system refused */
	uint64_t offset;   /* byte in `source`; meaningful when has_offset */
	int64_t row;       /* row in `source`, from 0; meaningful when has_row */
	int64_t row_count; /* rows it is about, from `row` on, when they are known to be more than one */
	int64_t line;      /* line of a text file, from 1; meaningful when has_line */
	/* line_in_range: counted from the beginning of a byte range; the source adds the lines before it (op.h:
	 * confirm). */
	uint8_t has_offset, has_row, has_line, line_in_range;
	char source[256]; /* file, directory, "expression", …; empty when unknown */
	char column[128];
	char operator_name[64];
	char value[128];    /* the value it is about, as text; the message has it too where it helps */
	char message[1024]; /* complete sentence without the context above */
};

/* Fills code and message, clears the context, returns the code. errno is preserved. */
int weir_error_set(struct weir_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same for a refused system call: appends ": " and the text of errno_value, and keeps it. Chooses the code from the
 * errno (ENOENT → E_NOT_FOUND, ENOSPC/EDQUOT → E_NO_SPACE, ENOMEM → E_MEMORY, EEXIST → E_EXISTS, else E_IO). */
int weir_error_set_errno(struct weir_error *err, int errno_value, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Each adds a piece of context unless it is there already; `err` may hold no error (then nothing happens). */
void weir_error_at_source(struct weir_error *err, const char *source);
void weir_error_at_offset(struct weir_error *err, uint64_t offset);
void weir_error_at_row(struct weir_error *err, int64_t row);
void weir_error_at_line(struct weir_error *err, int64_t line);
void weir_error_at_column(struct weir_error *err, const char *column);
void weir_error_at_operator(struct weir_error *err, const char *operator_name);
void weir_error_at_rows(struct weir_error *err, int64_t row, int64_t row_count);
void weir_error_at_value(struct weir_error *err, const char *value, size_t size);

void weir_error_clear(struct weir_error *err);

/* One line for people: "data/a.parquet: column price, row 17, line 18, byte 4096: message". Returns `buffer`. */
const char *weir_error_format(const struct weir_error *err, char *buffer, size_t size);

const char *weir_code_name(int code); /* "WEIR_E_DATA" */
const char *weir_code_text(int code);
const char *weir_code_python(int code);

/* A broken invariant: prints where and aborts. On in every build, at batch grain; WEIR_DCHECK is for row loops and
 * exists only with WEIR_DEBUG. */
_Noreturn void weir_assert_failed(const char *condition, const char *file, int line);
#define WEIR_ASSERT(condition) ((condition) ? (void)0 : weir_assert_failed(#condition, __FILE__, __LINE__))
#ifdef WEIR_DEBUG
#define WEIR_DCHECK(condition) WEIR_ASSERT(condition)
#else
#define WEIR_DCHECK(condition) ((void)sizeof(!(condition)))
#endif

#endif
