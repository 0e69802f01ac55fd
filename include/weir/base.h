/* What the engine's own headers share with programs: error codes, log levels. Included by weir.h. */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

#ifdef __cplusplus
extern "C" {
#endif

#ifndef WEIR_API
#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#define WEIR_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define WEIR_API
#define WEIR_PRINTF(text, first)
#endif
#endif

/* What functions return: WEIR_OK (0), or why not. Grows at the end; a number never changes its meaning. */
enum weir_code {
	WEIR_OK = 0,
	/* an argument that makes no sense: NULL, an unknown verb or option, a wrong order of calls */
	WEIR_E_INVALID = 1,
	WEIR_E_SYNTAX = 2,         /* an expression or a chain that cannot be read */
	WEIR_E_NAME = 3,           /* no such column or function */
	WEIR_E_TYPE = 4,           /* types that do not fit together */
	WEIR_E_VALUE = 5,          /* a value out of range */
	WEIR_E_OVERFLOW = 6,       /* a result that does not fit its type */
	WEIR_E_ZERO_DIVISION = 7,  /* division by zero */
	WEIR_E_CAST = 8,           /* a value that cannot be converted */
	WEIR_E_DATA = 9,           /* a file or an Arrow array that is damaged or against its rules */
	WEIR_E_UNSUPPORTED = 10,   /* known, but not supported */
	WEIR_E_IO = 11,            /* the system refused to read or write; weir_error_errno says why */
	WEIR_E_NOT_FOUND = 12,     /* no such file or folder */
	WEIR_E_EXISTS = 13,        /* the target exists already */
	WEIR_E_NO_SPACE = 14,      /* the disk is full */
	WEIR_E_MEMORY = 15,        /* the system has no memory */
	WEIR_E_LIMIT = 16,         /* it does not fit the memory limit; the message has the figures */
	WEIR_E_GIVE_UP = 17,       /* never leaves the engine */
	WEIR_E_CANCELLED = 18,     /* somebody cancelled it */
	WEIR_E_WORKER = 19,        /* a worker process died */
	WEIR_E_SPILL_CORRUPT = 20, /* spilled data came back changed */
	WEIR_E_INTERNAL = 21,      /* a mistake in weir */
	/* a value does not fit the type that was inferred; the message names the option that helps */
	WEIR_E_MISFIT = 22,
	WEIR_E_AGAIN = 23,    /* never leaves the engine */
	WEIR_E_FUNCTION = 24, /* a function of the program failed; the message is its own */
	/* user code in a worker process raised; what it raised is handed over beside the message */
	WEIR_E_USER = 25
};

enum weir_log_level { WEIR_LOG_ERROR, WEIR_LOG_WARN, WEIR_LOG_INFO, WEIR_LOG_DEBUG, WEIR_LOG_TRACE };

#ifdef __cplusplus
}
#endif

#endif
