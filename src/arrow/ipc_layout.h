/* ipc_layout: record batches whose bodies are not in memory: where each column lies, and rows of single columns.
 *
 *     schema_read or footer_read ─▶ schema
 *     layout_new ─▶ (layout_read of a message's metadata ─▶ column_rows …)… ─▶ layout_free
 *
 * Bytes come from a struct weir_ipc_body, which the caller fills from a file: only the buffers, and of plain buffers
 * only the rows, that are asked for. A compressed buffer is inflated whole when first needed and kept until the next
 * layout_read. Arrays are validated, UTF-8 too, before they are given out.
 *
 * Threads: a schema is immutable; a layout and dictionaries belong to one thread at a time.
 */
#ifndef WEIR_ARROW_IPC_LAYOUT_H
#define WEIR_ARROW_IPC_LAYOUT_H

#include "base/list.h"
#include "arrow/ipc.h"

/* What a message is, as far as its metadata says. */
enum weir_ipc_kind { WEIR_IPC_END, WEIR_IPC_SCHEMA, WEIR_IPC_DICTIONARY, WEIR_IPC_BATCH };
struct weir_ipc_head {
	enum weir_ipc_kind kind;
	uint64_t metadata_size; /* prefix included; the body follows */
	uint64_t body_size;
	int64_t row_count; /* of a batch */
	bool is_compressed;
};
#define WEIR_IPC_PREFIX_SIZE 8
/* Bytes of metadata, prefix included, of the message that begins with `prefix`; 0: the end mark. */
int weir_ipc_metadata_size(const uint8_t prefix[WEIR_IPC_PREFIX_SIZE], uint64_t *out, struct weir_error *err);
/* `size`: of the metadata, or more. */
int weir_ipc_head_read(const uint8_t *metadata, uint64_t size, struct weir_ipc_head *out, struct weir_error *err);

/* A schema as its message describes it: how columns lie, which dictionaries they have. */
struct weir_ipc_schema;
struct weir_ipc_blocks WEIR_LIST(struct weir_ipc_block);
int weir_ipc_schema_open(struct weir_account *account, const uint8_t *metadata, uint64_t size,
			 struct weir_ipc_schema **out, struct weir_error *err);
/* The footer of a file of which `file_size` bytes precede it. `blocks`: the dictionaries, then the batches, both in the
 * footer's order, each inside the file; the caller's, also on failure. */
int weir_ipc_footer_open(struct weir_account *account, const uint8_t *footer, uint32_t size, uint64_t file_size,
			 struct weir_ipc_schema **out, struct weir_ipc_blocks *blocks, struct weir_error *err);
struct weir_schema *weir_ipc_schema_columns(const struct weir_ipc_schema *schema); /* borrowed */
void weir_ipc_schema_free(struct weir_ipc_schema *schema);

struct weir_ipc_body {
	/* Bytes [offset, offset + size) of the body, which lie inside it; size > 0. `out` has a reference of its
	 * own. */
	int (*fetch)(void *state, uint64_t offset, uint64_t size, struct weir_buffer *out, struct weir_error *err);
	void *state;
};

struct weir_ipc_layout;
struct weir_ipc_dictionaries;

int weir_ipc_layout_new(struct weir_account *account, const struct weir_ipc_schema *schema,
			struct weir_ipc_layout **out, struct weir_error *err);
void weir_ipc_layout_free(struct weir_ipc_layout *layout);
/* Of a record batch. The metadata is not needed afterwards. */
int weir_ipc_layout_read(struct weir_ipc_layout *layout, const uint8_t *metadata, uint64_t size,
			 struct weir_error *err);
/* Bytes of a column's buffers as they lie, and where they begin and end in the body. */
uint64_t weir_ipc_column_size(const struct weir_ipc_layout *layout, uint32_t column);
void weir_ipc_column_span(const struct weir_ipc_layout *layout, uint32_t column, uint64_t *begin, uint64_t *end);
/* Bytes that the rows would take in memory, about; looks at texts' and lists' own lengths. */
int weir_ipc_column_weigh(struct weir_ipc_layout *layout, uint32_t column, int64_t begin, int64_t end,
			  const struct weir_ipc_body *body, uint64_t *out, struct weir_error *err);
/* Rows [begin, end) as an array without offset. */
int weir_ipc_column_rows(struct weir_ipc_layout *layout, uint32_t column, int64_t begin, int64_t end,
			 const struct weir_ipc_body *body, const struct weir_ipc_dictionaries *dictionaries,
			 struct weir_array **out, struct weir_error *err);
/* Columns of views can do without copies of their texts: a record a row that holds the text or points to it, as
 * struct weir_view does (vector/vector.h). Checked, UTF-8 too; rows that are null have a text of no bytes. */
#define WEIR_IPC_VIEW_SIZE 16
struct weir_ipc_text {
	uint32_t size;
	uint8_t prefix[4];
	union {
		uint8_t tail[8];
		const uint8_t *data;
	};
};
/* All-zero is empty. */
struct weir_ipc_texts {
	struct weir_account *account;
	struct weir_buffer validity; /* bits from 0 on; data NULL: nothing is null */
	struct weir_buffer texts;    /* struct weir_ipc_text a row */
	struct weir_buffer *data;    /* what they point into */
	uint32_t data_count;
};
bool weir_ipc_column_is_views(const struct weir_ipc_layout *layout, uint32_t column);
int weir_ipc_column_texts(struct weir_ipc_layout *layout, uint32_t column, int64_t begin, int64_t end,
			  const struct weir_ipc_body *body, struct weir_ipc_texts *out, struct weir_error *err);
void weir_ipc_texts_release(struct weir_ipc_texts *texts); /* twice is fine */

/* The dictionaries of a schema, as far as columns that were asked for need them. In a stream a dictionary may be
 * replaced, in a file it may not; deltas are appended in both. */
int weir_ipc_dictionaries_new(struct weir_account *account, const struct weir_ipc_schema *schema, bool is_stream,
			      struct weir_ipc_dictionaries **out, struct weir_error *err);
void weir_ipc_dictionaries_free(struct weir_ipc_dictionaries *dictionaries);
void weir_ipc_dictionaries_want(struct weir_ipc_dictionaries *dictionaries, uint32_t column);
bool weir_ipc_dictionaries_wanted(const struct weir_ipc_dictionaries *dictionaries); /* any of them */
/* A dictionary batch. Of one that nobody wants only the metadata is looked at. */
int weir_ipc_dictionaries_read(struct weir_ipc_dictionaries *dictionaries, const uint8_t *metadata, uint64_t size,
			       const struct weir_ipc_body *body, struct weir_error *err);

#endif
