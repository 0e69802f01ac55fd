/* One column of every type, some not nullable, some with metadata: what the IPC tests send around. Include cmocka
 * first. */
#ifndef WEIR_TESTS_ARROW_ALL_TYPES_H
#define WEIR_TESTS_ARROW_ALL_TYPES_H

#include "arrow/type.h"

#include <stdio.h>

/* A call that leaves its reason in `err`. */
#define assert_ok(call)                                                                                                \
	do {                                                                                                           \
		if (call)                                                                                              \
			fail_msg("%s", err.message);                                                                   \
	} while (0)

static const char *const type_texts[] = {
	"null",
	"bool",
	"int8",
	"int16",
	"int32",
	"int64",
	"uint8",
	"uint16",
	"uint32",
	"uint64",
	"halffloat",
	"float",
	"double",
	"decimal128(20, 3)",
	"decimal256(50, -2)",
	"date32[day]",
	"date64[ms]",
	"time32[s]",
	"time32[ms]",
	"time64[us]",
	"time64[ns]",
	"timestamp[s]",
	"timestamp[us, tz=Europe/Zurich]",
	"duration[ns]",
	"month_day_nano_interval",
	"binary",
	"large_binary",
	"string",
	"large_string",
	"fixed_size_binary[5]",
	"list<item: int16>",
	"large_list<item: string>",
	"fixed_size_list<item: bool>[3]",
	"struct<a: int32, b: string, c: struct<d: bool>>",
	"map<string, list<item: double>>",
	"list<item: list<item: struct<x: fixed_size_list<item: large_string>[2], y: map<int32, bool>>>>",
};
enum { TYPE_COUNT = sizeof(type_texts) / sizeof(type_texts[0]) };

static inline struct weir_schema *schema_of_all(struct weir_account *account)
{
	struct weir_metadata_entry entry = {"ARROW:extension:name", "wei\0r", 5};
	struct weir_field fields[TYPE_COUNT] = {{0}};
	struct weir_metadata metadata = {.count = 1, .entries = &entry};
	struct weir_error err = {0};
	struct weir_schema *schema;
	char names[TYPE_COUNT][16];

	for (int i = 0; i < TYPE_COUNT; i++) {
		snprintf(names[i], sizeof(names[i]), "c%d", i);
		fields[i].name = names[i];
		fields[i].nullable = i % 5 != 0;
		fields[i].type = weir_type_parse(account, type_texts[i], &err);
		if (!fields[i].type)
			fail_msg("%s: %s", type_texts[i], err.message);
		if (i % 3 == 0)
			fields[i].metadata = metadata;
	}
	schema = weir_schema_new(account, fields, TYPE_COUNT, &metadata, &err);
	assert_non_null(schema);
	for (int i = 0; i < TYPE_COUNT; i++)
		weir_type_unref(fields[i].type);
	return schema;
}

#endif
