/* type: Arrow data types, fields and schemas, immutable and shared.
 *
 * Types are counted (weir_type_ref/unref, any thread); those without parameters are static and never freed, so a plan
 * may compare common types by pointer, but weir_type_equal is the rule. A field's name, nullability and metadata
 * (extension types travel there: ARROW:extension:name, …:metadata) belong to its parent type or schema.
 */
#ifndef WEIR_ARROW_TYPE_H
#define WEIR_ARROW_TYPE_H

#include "base/mem.h"
#include "base/text.h"

enum weir_type_id {
	WEIR_NULL,
	WEIR_BOOL,
	WEIR_INT8,
	WEIR_INT16,
	WEIR_INT32,
	WEIR_INT64,
	WEIR_UINT8,
	WEIR_UINT16,
	WEIR_UINT32,
	WEIR_UINT64,
	WEIR_HALF,
	WEIR_FLOAT,
	WEIR_DOUBLE,
	WEIR_DECIMAL128,
	WEIR_DECIMAL256,
	WEIR_DATE32,
	WEIR_DATE64,
	WEIR_TIME32,
	WEIR_TIME64,
	WEIR_TIMESTAMP,
	WEIR_DURATION,
	WEIR_INTERVAL_MONTHS,
	WEIR_INTERVAL_DAY_TIME,
	WEIR_INTERVAL_MONTH_DAY_NANO,
	WEIR_BINARY,
	WEIR_LARGE_BINARY,
	WEIR_STRING,
	WEIR_LARGE_STRING,
	WEIR_FIXED_BINARY,
	WEIR_LIST_TYPE,
	WEIR_LARGE_LIST,
	WEIR_FIXED_LIST,
	WEIR_STRUCT,
	WEIR_MAP,
	WEIR_DICTIONARY_TYPE,
	WEIR_TYPE_ID_COUNT
};

enum weir_time_unit { WEIR_SECOND, WEIR_MILLI, WEIR_MICRO, WEIR_NANO };

/* Sorted by key; strings are NUL-terminated copies, values may hold any bytes (hence their size). */
struct weir_metadata {
	uint32_t count;
	struct weir_metadata_entry {
		const char *key;
		const char *value;
		uint32_t value_size;
	} * entries;
};

struct weir_type;

struct weir_field {
	const char *name;
	const struct weir_type *type;
	bool nullable;
	struct weir_metadata metadata;
};

/* How the values of a type lie in a buffer. Strings and binaries of either offset width are one layout in vectors. */
enum weir_layout {
	WEIR_LAYOUT_NULL,   /* no buffers */
	WEIR_LAYOUT_BITS,   /* bool */
	WEIR_LAYOUT_FIXED,  /* byte_width bytes each */
	WEIR_LAYOUT_BYTES,  /* variable length */
	WEIR_LAYOUT_NESTED, /* list, struct, map, fixed list */
};

struct weir_type {
	enum weir_type_id id;
	enum weir_layout layout;
	uint32_t byte_width;      /* FIXED: 1, 2, 4, 8, 16, 32 or any for FIXED_BINARY */
	enum weir_time_unit unit; /* TIME32/64, TIMESTAMP, DURATION */
	int32_t precision, scale; /* DECIMAL* */
	int32_t list_size;        /* FIXED_LIST */
	bool ordered;             /* DICTIONARY: ordered; MAP: keys sorted */
	const char *timezone;     /* TIMESTAMP: NULL when naive */
	/* LIST_TYPE, LARGE_LIST, FIXED_LIST: 1 (the item); MAP: 1 (the entries struct); STRUCT: n. */
	uint32_t field_count;
	struct weir_field *fields;
	/* DICTIONARY_TYPE: how an Arrow consumer is to see it. Inside vectors the column has the value type. */
	const struct weir_type *dictionary_index, *dictionary_value;
	uint32_t depth;        /* levels of nesting below: 0 for a plain type, at most WEIR_DEPTH_MAX */
	_Atomic uint32_t refs; /* unused when is_static */
	bool is_static;
	struct weir_account *account; /* pays for it; NULL when is_static */
	size_t allocated;             /* the type, its fields and their texts lie in one piece of this size */
};

/* Constructors refuse deeper types, so whatever recurses over a type needs no bound of its own. */
#define WEIR_DEPTH_MAX 128

/* The static type of an id without parameters (NULL for others): weir_type_of(WEIR_INT64). */
const struct weir_type *weir_type_of(enum weir_type_id id);

const struct weir_type *weir_type_ref(const struct weir_type *type);
void weir_type_unref(const struct weir_type *type); /* NULL is fine */

/* Constructors return NULL with err set. Fields and strings are copied; child types are referenced. */
const struct weir_type *weir_type_decimal(struct weir_account *account, enum weir_type_id id, int32_t precision,
					  int32_t scale, struct weir_error *err);
const struct weir_type *weir_type_temporal(struct weir_account *account, enum weir_type_id id, enum weir_time_unit unit,
					   const char *timezone, struct weir_error *err);
const struct weir_type *weir_type_fixed_binary(struct weir_account *account, uint32_t byte_width,
					       struct weir_error *err);
/* LIST_TYPE, LARGE_LIST, FIXED_LIST (list_size) or MAP (item: the entries struct, ordered: keys sorted). */
const struct weir_type *weir_type_list(struct weir_account *account, enum weir_type_id id,
				       const struct weir_field *item, int32_t list_size, bool ordered,
				       struct weir_error *err);
const struct weir_type *weir_type_struct(struct weir_account *account, const struct weir_field *fields, uint32_t count,
					 struct weir_error *err);
const struct weir_type *weir_type_dictionary(struct weir_account *account, const struct weir_type *index,
					     const struct weir_type *value, bool ordered, struct weir_error *err);

/* Names, units, children and nullability. Metadata, and the names that lists and maps give to their children (writers
 * differ: "item", "element", "key_value"), only when asked for. */
bool weir_type_equal(const struct weir_type *a, const struct weir_type *b, bool with_metadata);
/* Removes DICTIONARY_TYPE at the top: the type its values have in vectors. Borrowed. */
const struct weir_type *weir_type_values(const struct weir_type *type);
/* "int64", "timestamp[us, tz=UTC]", "list<item: struct<a: int32 not null>>", as pyarrow prints them. */
int weir_type_print(const struct weir_type *type, struct weir_text *out, struct weir_error *err);
/* Into a fixed buffer, cut with … when too long; for error messages. Returns `buffer`. */
const char *weir_type_name(const struct weir_type *type, char *buffer, size_t size);
/* The reverse of print, for cast('x as T') and options: "int32", "decimal128(10, 2)", "list<item: int8>"; the names
 * that people use elsewhere ("float64", "utf8", "str", "bytes", "list<int8>") are understood too. Field names in
 * structs end at ':'. */
const struct weir_type *weir_type_parse(struct weir_account *account, const char *text, struct weir_error *err);

bool weir_type_is_integer(const struct weir_type *type);
bool weir_type_is_signed(const struct weir_type *type);
bool weir_type_is_float(const struct weir_type *type); /* HALF, FLOAT, DOUBLE */
bool weir_type_is_bytes(const struct weir_type *type); /* STRING, LARGE_STRING, BINARY, LARGE_BINARY */
bool weir_type_is_text(const struct weir_type *type);  /* STRING, LARGE_STRING */
bool weir_type_is_decimal(const struct weir_type *type);
bool weir_type_is_nested(const struct weir_type *type);
bool weir_type_is_temporal(const struct weir_type *type);

/* A schema is a counted list of fields with metadata of its own; duplicate names are legal, finding one by name then is
 * an error (WEIR_E_NAME, "ambiguous"). */
struct weir_schema {
	uint32_t field_count;
	struct weir_field *fields;
	struct weir_metadata metadata;
	_Atomic uint32_t refs;
	struct weir_account *account;
	size_t allocated;
};

struct weir_schema *weir_schema_new(struct weir_account *account, const struct weir_field *fields, uint32_t count,
				    const struct weir_metadata *metadata, struct weir_error *err);
struct weir_schema *weir_schema_ref(const struct weir_schema *schema);
void weir_schema_unref(const struct weir_schema *schema);
bool weir_schema_equal(const struct weir_schema *a, const struct weir_schema *b, bool with_metadata);
/* The first column of this name; −1: there is none. */
int64_t weir_schema_index(const struct weir_schema *schema, const char *name);
/* The only one. Unknown: WEIR_E_NAME with the nearest names ("no column 'prize'; did you mean 'price'?"). */
int weir_schema_find(const struct weir_schema *schema, const char *name, uint32_t *out, struct weir_error *err);
/* "name: type", with "not null" where it is. */
int weir_field_print(const struct weir_field *field, struct weir_text *out, struct weir_error *err);
int weir_schema_print(const struct weir_schema *schema, struct weir_text *out, struct weir_error *err);

const char *weir_metadata_get(const struct weir_metadata *metadata, const char *key, uint32_t *value_size);

/* The common type of two columns that meet: null → any, int → float, narrower → wider, missing →
 * null, structs by field, dictionaries → their values; NULL with WEIR_E_TYPE naming both otherwise. A new reference. */
const struct weir_type *weir_type_unify(struct weir_account *account, const struct weir_type *a,
					const struct weir_type *b, struct weir_error *err);
/* The same for fields, whose metadata may make them tensors. out->type is a new reference, all else is borrowed. */
int weir_field_unify(struct weir_account *account, const struct weir_field *a, const struct weir_field *b,
		     struct weir_field *out, struct weir_error *err);
/* The same with 64-bit offsets wherever there are 32-bit ones, for arrays that would not fit otherwise; maps and
 * dictionaries stay. A reference, as from unify. */
const struct weir_type *weir_type_large(struct weir_account *account, const struct weir_type *type,
					struct weir_error *err);
struct weir_schema *weir_schema_unify(struct weir_account *account, const struct weir_schema *a,
				      const struct weir_schema *b, struct weir_error *err);

#endif
