/* name_scan: the columns of a scan, for files whose records name their values one by one.
 *
 *     a record's name ─ names ─▶ field of the schema ─ slots ─▶ column of the scan, or WEIR_NO_NAME: not wanted
 *
 *     init ─▶ (set ─▶ … ─▶ clear)… ─▶ clear         all-zero but for init is the empty value
 *
 * Threads: one at a time; it belongs to a lane's reader. */
#ifndef WEIR_FORMAT_NAME_SCAN_H
#define WEIR_FORMAT_NAME_SCAN_H

#include "format/format.h"
#include "format/name_index.h"

struct weir_name_scan {
	struct weir_schema *schema;   /* a reference; NULL: it is empty */
	struct weir_name_index names; /* of the schema's fields */
	uint32_t *slots;              /* by field of the schema */
	uint32_t *fields;             /* by column of the scan: its field */
	uint32_t column_count;
	bool wants_all; /* every field of the schema: then a name that is none would be missed */
};

void weir_name_scan_init(struct weir_name_scan *scan, struct weir_account *account);
/* Whether it is of this schema, the very same, and of these columns. */
bool weir_name_scan_is(const struct weir_name_scan *scan, const struct weir_schema *schema, const struct weir_scan *of);
/* The scan is empty before; after a failure it is to be cleared. */
int weir_name_scan_set(struct weir_name_scan *scan, const struct weir_schema *schema, const struct weir_scan *of,
		       struct weir_error *err);
void weir_name_scan_clear(struct weir_name_scan *scan); /* twice is fine */

#endif
