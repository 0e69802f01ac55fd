/* Schemas: counted lists of fields, and finding a column in one by its name, or nearly its name. */
#include "base/checked.h"
#include "arrow/arrow_impl.h"

#include <stdalign.h>
#include <stdio.h>

struct weir_schema *weir_schema_new(struct weir_account *account, const struct weir_field *fields, uint32_t count,
				    const struct weir_metadata *metadata, struct weir_error *err)
{
	size_t head = weir_round_up(sizeof(struct weir_schema), alignof(struct weir_field));
	size_t size = head + fields_pack_size(fields, count, metadata, NULL);
	struct weir_schema *schema = weir_alloc_zero(account, size, err);
	struct fields_pack pack;

	if (!schema)
		return NULL;
	schema->account = account;
	schema->allocated = size;
	atomic_init(&schema->refs, 1);
	fields_pack_begin(&pack, (char *)schema + head, fields, count, metadata);
	schema->field_count = count;
	schema->fields = fields_pack_fields(&pack, fields, count);
	schema->metadata = fields_pack_metadata(&pack, metadata);
	return schema;
}

struct weir_schema *weir_schema_ref(const struct weir_schema *schema)
{
	struct weir_schema *mine = (struct weir_schema *)schema;

	if (mine)
		atomic_fetch_add_explicit(&mine->refs, 1, memory_order_relaxed);
	return mine;
}

void weir_schema_unref(const struct weir_schema *schema)
{
	struct weir_schema *mine = (struct weir_schema *)schema;

	/* acq_rel: as for types. */
	if (!mine || atomic_fetch_sub_explicit(&mine->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (uint32_t i = 0; i < mine->field_count; i++)
		weir_type_unref(mine->fields[i].type);
	weir_free(mine->account, mine, mine->allocated);
}

bool weir_schema_equal(const struct weir_schema *a, const struct weir_schema *b, bool with_metadata)
{
	return a == b || (a->field_count == b->field_count &&
			  fields_equal(a->fields, b->fields, a->field_count, true, with_metadata) &&
			  (!with_metadata || metadata_equal(&a->metadata, &b->metadata)));
}

enum { NEAR_MAX = 3, COMPARED_MAX = 64 };

static char folded(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

/* Insertions, deletions, replacements and exchanges of neighbours that turn one name into the other, letter case apart;
 * of long names the beginnings. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned rows[3][COMPARED_MAX + 1];
	unsigned *before = rows[0], *last = rows[1], *row = rows[2];
	size_t a_size = strnlen(a, COMPARED_MAX), b_size = strnlen(b, COMPARED_MAX);

	for (size_t j = 0; j <= b_size; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= a_size; i++) {
		unsigned *spare = before;

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_size; j++) {
			char x = folded(a[i - 1]), y = folded(b[j - 1]);
			unsigned best = last[j - 1] + (x != y);

			best = last[j] + 1 < best ? last[j] + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			if (i > 1 && j > 1 && x == folded(b[j - 2]) && folded(a[i - 2]) == y &&
			    before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			row[j] = best;
		}
		before = last;
		last = row;
		row = spare;
	}
	return last[b_size];
}

static int refuse_unknown(const struct weir_schema *schema, const char *name, struct weir_error *err)
{
	struct {
		const char *name;
		unsigned distance;
	} nearest[NEAR_MAX];
	unsigned count = 0, distance_max = (unsigned)strnlen(name, COMPARED_MAX) / 3 + 1;
	char hint[512] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < schema->field_count; i++) {
		unsigned distance = edit_distance(name, schema->fields[i].name), at = count;

		if (distance > distance_max)
			continue;
		while (at > 0 && nearest[at - 1].distance > distance)
			at--;
		if (at == NEAR_MAX)
			continue;
		count = count < NEAR_MAX ? count + 1 : count;
		memmove(&nearest[at + 1], &nearest[at], (count - 1 - at) * sizeof(nearest[0]));
		nearest[at].name = schema->fields[i].name;
		nearest[at].distance = distance;
	}
	/* Far ones only disturb when a near one is there. */
	for (unsigned i = 0; i < count && nearest[i].distance <= nearest[0].distance + 1 && used < sizeof(hint); i++)
		used += (size_t)snprintf(hint + used, sizeof(hint) - used, "%s'%.100s'", i ? " or " : "; did you mean ",
					 nearest[i].name);
	if (!count && schema->field_count && schema->field_count <= 10) {
		for (uint32_t i = 0; i < schema->field_count && used < sizeof(hint); i++)
			used += (size_t)snprintf(hint + used, sizeof(hint) - used, "%s%.40s", i ? ", " : "; there are ",
						 schema->fields[i].name);
	}
	return weir_error_set(err, WEIR_E_NAME, "no column '%s'%s%s", name, hint, count ? "?" : "");
}

int64_t weir_schema_index(const struct weir_schema *schema, const char *name)
{
	for (uint32_t i = 0; i < schema->field_count; i++)
		if (strcmp(schema->fields[i].name, name) == 0)
			return i;
	return -1;
}

int weir_schema_find(const struct weir_schema *schema, const char *name, uint32_t *out, struct weir_error *err)
{
	uint32_t found = UINT32_MAX;

	for (uint32_t i = 0; i < schema->field_count; i++) {
		if (strcmp(schema->fields[i].name, name))
			continue;
		if (found != UINT32_MAX)
			return weir_error_set(err, WEIR_E_NAME,
					      "column '%s' is ambiguous: there are several of that name", name);
		found = i;
	}
	if (found == UINT32_MAX)
		return refuse_unknown(schema, name, err);
	*out = found;
	return WEIR_OK;
}
