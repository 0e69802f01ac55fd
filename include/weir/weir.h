/* weir: a streaming data engine.
 *
 * The one public header. Handles are opaque; every symbol that libweir exports is declared here with WEIR_API.
 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_API __attribute__((visibility("default")))

/* The version of the library that is loaded, such as "0.1.0". Static storage. */
WEIR_API const char *weir_version(void);

#ifdef __cplusplus
}
#endif

#endif
