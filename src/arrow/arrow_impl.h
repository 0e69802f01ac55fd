/* What the files of src/arrow/ share among themselves. */
#ifndef WEIR_ARROW_ARROW_IMPL_H
#define WEIR_ARROW_ARROW_IMPL_H

#include "arrow/array.h"
#include "arrow/bitmap.h"

/* field.c: fields with their names and metadata, packed behind the struct that owns them:
 *
 *     ┌──────────────────┬──────────┬───────────────────┬────────────────────────────────┐
 *     │ type or schema   │ fields   │ metadata entries  │ names, keys, values, each + NUL │
 *     └──────────────────┴──────────┴───────────────────┴────────────────────────────────┘
 *
 * One allocation, so there is one thing that can fail and one thing to free. */
struct fields_pack {
	struct weir_field *fields;
	struct weir_metadata_entry *entries;
	char *text;
};

/* Bytes for the fields and, where given, the metadata and one more string. */
size_t fields_pack_size(const struct weir_field *fields, uint32_t count, const struct weir_metadata *metadata,
			const char *string);
/* `to` lies behind the owner, aligned to 8. References the fields' types. The three calls of one pack come in any
 * order. */
void fields_pack_begin(struct fields_pack *pack, void *to, const struct weir_field *fields, uint32_t count,
		       const struct weir_metadata *metadata);
struct weir_field *fields_pack_fields(struct fields_pack *pack, const struct weir_field *fields, uint32_t count);
struct weir_metadata fields_pack_metadata(struct fields_pack *pack, const struct weir_metadata *metadata);
const char *fields_pack_string(struct fields_pack *pack, const char *string);

bool fields_equal(const struct weir_field *a, const struct weir_field *b, uint32_t count, bool with_names,
		  bool with_metadata);
bool metadata_equal(const struct weir_metadata *a, const struct weir_metadata *b);

/* type_print.c */
extern const char *const type_words[WEIR_TYPE_ID_COUNT]; /* the word before any parameters */
extern const char *const type_units[];                   /* by weir_time_unit */

/* Whether the type's buffers hold offsets of 32 or 64 bits; 0: none. */
static inline unsigned type_offset_width(const struct weir_type *type)
{
	switch (type->id) {
	case WEIR_BINARY:
	case WEIR_STRING:
	case WEIR_LIST_TYPE:
	case WEIR_MAP:
		return 4;
	case WEIR_LARGE_BINARY:
	case WEIR_LARGE_STRING:
	case WEIR_LARGE_LIST:
		return 8;
	default:
		return 0;
	}
}

/* Entry `at` of an offsets buffer, for ends of ranges; loops are typed. */
static inline int64_t offset_at(const struct weir_array *array, int64_t at)
{
	const uint8_t *data = array->buffers[1].data;

	return type_offset_width(array->type) == 4 ? ((const int32_t *)data)[at] : ((const int64_t *)data)[at];
}

/* array.c */
extern const uint8_t array_zeros[64]; /* stands where an offsets buffer must be, but nothing is in it */

/* validate.c: with a name for the error's path. Without VALIDATE_DICTIONARIES the values of dictionaries are taken as
 * valid already; that the codes lie inside them is checked all the same. */
enum { VALIDATE_DEEP = 1, VALIDATE_DICTIONARIES = 2 };
int array_validate_column(const struct weir_array *array, const char *name, unsigned what, struct weir_error *err);

/* builder.c: for results of known size. Measure what will be appended, reserve once, append. */
void builder_measure(struct weir_builder *builder, const struct weir_array *array, int64_t offset, int64_t count);
int builder_reserve(struct weir_builder *builder, struct weir_error *err);
/* More than 32-bit offsets can say. */
int builder_refuse_size(const struct weir_type *type, struct weir_error *err);

/* dictionary.c: the union of several dictionaries' values, in order of first appearance. */
int dictionary_table_new(struct weir_account *account, const struct weir_type *type, const struct weir_array *first,
			 struct dictionary_table **out,
			 struct weir_error *err); /* keeps the positions of `first`, doubles too */
void dictionary_table_free(struct dictionary_table *table);
/* (*map)[i] is the code of values[i] in the union, until the next call. */
int dictionary_table_add(struct dictionary_table *table, const struct weir_array *values, const int64_t **map,
			 struct weir_error *err);
/* Holds no array that was added. */
int dictionary_table_settle(struct dictionary_table *table, struct weir_error *err);
struct weir_array *dictionary_table_finish(struct dictionary_table *table, struct weir_error *err);
int64_t dictionary_table_count(const struct dictionary_table *table);
/* Codes of `type` (an index type) translated by `map`; rows that `validity` (NULL: none) calls null get 0. */
void dictionary_translate(const struct weir_type *type, const uint8_t *codes, int64_t offset, int64_t count,
			  const uint8_t *validity, const int64_t *map, uint8_t *out);
int dictionary_check_codes(const struct weir_type *type, int64_t value_count, struct weir_error *err);

#endif
