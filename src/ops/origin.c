#include "ops/origin.h"

#include <string.h>

void weir_origin_init(struct weir_origin *origin, struct weir_account *account)
{
	*origin = (struct weir_origin){.refs = 1, .is_traced = true};
	weir_text_init(&origin->names, account);
}

void weir_origin_release(struct weir_origin *origin)
{
	if (!origin->names.account)
		return;
	weir_list_release(&origin->parts, origin->names.account);
	weir_text_release(&origin->names);
}

void weir_origin_clear(struct weir_origin *origin)
{
	origin->parts.count = 0;
	origin->rows_between = 0;
	origin->is_traced = true;
	weir_text_clear(&origin->names);
}

bool weir_origin_is_whole(const struct weir_origin_part *part)
{
	return part->row_first >= 0 && part->row_last - part->row_first + 1 == part->rows;
}

const char *weir_origin_source(const struct weir_origin *origin, const struct weir_origin_part *part)
{
	return origin->names.data ? origin->names.data + part->name : "";
}

/* Whether the rows go on where the last part ends; or some are missing in between, of one that has lost rows anyway. */
static bool extends(const struct weir_origin *origin, const struct weir_origin_part *last, const char *source,
		    const struct weir_origin_part *more)
{
	if (strcmp(weir_origin_source(origin, last), source))
		return false;
	if (last->row_first < 0 || more->row_first < 0)
		return last->row_first < 0 && more->row_first < 0;
	if (!origin->is_traced && last->row_first <= more->row_first && last->row_last >= more->row_last)
		return true; /* outputs of the same rows */
	return more->row_first == last->row_last + 1 ||
	       (more->row_first > last->row_last && (origin->parts.count == WEIR_ORIGIN_PARTS ||
						     !weir_origin_is_whole(last) || !weir_origin_is_whole(more)));
}

int weir_origin_add(struct weir_origin *origin, const char *source, int64_t row_first, int64_t row_last, int64_t rows,
		    struct weir_error *err)
{
	struct weir_origin_part part = {.rows = rows, .row_first = row_first, .row_last = row_last};
	struct weir_origin_part *last = origin->parts.count ? &origin->parts.items[origin->parts.count - 1] : NULL;
	int code;

	source = source ? source : "";
	if (last && extends(origin, last, source, &part)) {
		last->rows += rows;
		last->row_last = row_last > last->row_last ? row_last : last->row_last;
		return WEIR_OK;
	}
	part.name = origin->names.size;
	if (last && !strcmp(weir_origin_source(origin, last), source)) {
		part.name = last->name;
	} else {
		/* With its NUL: the next name begins behind it. */
		code = weir_text_append(&origin->names, source, strlen(source) + 1, err);
		if (code)
			return code;
	}
	if (origin->parts.count < WEIR_ORIGIN_PARTS)
		return weir_list_push(&origin->parts, origin->names.account, err, part);
	origin->rows_between += last->rows;
	if (part.name != last->name) {
		size_t size = strlen(source) + 1;

		/* Its name goes where the last one's was, unless the part before has that, too. */
		if (last[-1].name != last->name) {
			memmove(origin->names.data + last->name, origin->names.data + part.name, size);
			origin->names.size = last->name + size;
			part.name = last->name;
		}
	}
	*last = part;
	return WEIR_OK;
}

int weir_origin_append(struct weir_origin *origin, const struct weir_origin *more, struct weir_error *err)
{
	int code = WEIR_OK;

	origin->is_traced = origin->is_traced && more->is_traced;
	for (size_t i = 0; i < more->parts.count && !code; i++) {
		const struct weir_origin_part *part = &more->parts.items[i];

		/* Of those in between nobody knows any more whose they are. */
		if (i + 1 == more->parts.count && more->rows_between)
			code = weir_origin_add(origin, NULL, -1, -1, more->rows_between, err);
		if (!code)
			code = weir_origin_add(origin, weir_origin_source(more, part), part->row_first, part->row_last,
					       part->rows, err);
	}
	return code;
}

/* ---- shared ones ---- */

static struct weir_origin *new_origin(struct weir_account *account)
{
	struct weir_error ignored = {0};
	struct weir_origin *origin = weir_alloc(account, sizeof(*origin), &ignored);

	if (origin)
		weir_origin_init(origin, account);
	return origin;
}

/* NULL for it when it could not be completed. */
static struct weir_origin *finished(struct weir_origin *origin, int code)
{
	if (!code)
		return origin;
	weir_origin_unref(origin);
	return NULL;
}

static bool says_something(const struct weir_origin *origin)
{
	return origin && origin->parts.count &&
	       (origin->parts.count > 1 || origin->parts.items[0].row_first >= 0 || origin->names.data[0]);
}

struct weir_origin *weir_origin_share(struct weir_account *account, const struct weir_origin *from)
{
	struct weir_error ignored = {0};
	struct weir_origin *origin = says_something(from) ? new_origin(account) : NULL;

	return origin ? finished(origin, weir_origin_append(origin, from, &ignored)) : NULL;
}

struct weir_origin *weir_origin_ref(struct weir_origin *origin)
{
	if (origin)
		atomic_fetch_add_explicit(&origin->refs, 1, memory_order_relaxed);
	return origin;
}

void weir_origin_unref(struct weir_origin *origin)
{
	/* Whoever frees it must see it as the others left it. */
	if (!origin || atomic_fetch_sub_explicit(&origin->refs, 1, memory_order_acq_rel) > 1)
		return;
	weir_list_release(&origin->parts, origin->names.account);
	weir_text_release(&origin->names);
	weir_free(origin->names.account, origin, sizeof(*origin));
}

struct weir_origin *weir_origin_untraced(struct weir_account *account, struct weir_origin *from)
{
	struct weir_origin *origin;

	if (!from || !from->is_traced)
		return weir_origin_ref(from);
	origin = weir_origin_share(account, from);
	if (origin)
		origin->is_traced = false;
	return origin;
}

struct weir_origin *weir_origin_cut(struct weir_account *account, const struct weir_origin *from, int64_t first,
				    int64_t count)
{
	struct weir_origin *origin = new_origin(account);
	struct weir_error ignored = {0};
	int64_t begin = 0;
	int code = WEIR_OK;

	for (size_t i = 0; origin && i < from->parts.count && !code; i++) {
		const struct weir_origin_part *part = &from->parts.items[i];
		int64_t low, high;

		if (i + 1 == from->parts.count)
			begin += from->rows_between;
		low = first > begin ? first - begin : 0;
		high = first + count - begin < part->rows ? first + count - begin : part->rows;
		begin += part->rows;
		if (low >= high)
			continue;
		code = weir_origin_is_whole(part)
			       ? weir_origin_add(origin, weir_origin_source(from, part), part->row_first + low,
						 part->row_first + high - 1, high - low, &ignored)
			       : weir_origin_add(origin, weir_origin_source(from, part), part->row_first,
						 part->row_last, high - low, &ignored);
	}
	return origin ? finished(origin, code) : NULL;
}
