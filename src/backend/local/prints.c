/* Lines in one list, in the order in which they were put, until they are taken. What a line costs counts towards the
 * bound, its text and its place in the list. */
#include "backend/local/prints.h"

#include <string.h>
#include <unistd.h>

int weir_prints_init(struct weir_prints *prints, struct weir_account *account, int doorbell, struct weir_error *err)
{
	*prints = (struct weir_prints){.account = account, .doorbell = doorbell};
	if (pthread_mutex_init(&prints->lock, NULL))
		return weir_error_set(err, WEIR_E_MEMORY, "no lock for what workers print");
	prints->is_open = true;
	return WEIR_OK;
}

static size_t line_bytes(const struct weir_print *line)
{
	return line->size + 1;
}

void weir_print_list_release(struct weir_print_list *list, struct weir_account *account)
{
	for (size_t i = 0; i < list->count; i++)
		weir_free(account, list->items[i].text, line_bytes(&list->items[i]));
	weir_list_release(list, account);
}

void weir_prints_release(struct weir_prints *prints)
{
	if (!prints->is_open)
		return;
	weir_print_list_release(&prints->lines, prints->account);
	pthread_mutex_destroy(&prints->lock);
	*prints = (struct weir_prints){0};
}

void weir_prints_put(struct weir_prints *prints, const struct weir_print *line)
{
	/* What a line costs beside its text, so that empty ones are bounded too. */
	int64_t cost = (int64_t)(line_bytes(line) + sizeof(*line));
	struct weir_print copy = *line;
	struct weir_error err;
	const uint64_t one = 1;
	bool was_empty;

	pthread_mutex_lock(&prints->lock);
	was_empty = prints->lines.count == 0;
	copy.text = NULL;
	if (prints->bytes + cost <= WEIR_PRINTS_BYTES_MAX)
		copy.text = weir_alloc(prints->account, line_bytes(line), &err);
	if (copy.text) {
		memcpy(copy.text, line->text, line->size);
		copy.text[line->size] = 0;
		copy.dropped = prints->dropped;
		if (weir_list_push(&prints->lines, prints->account, &err, copy)) {
			weir_free(prints->account, copy.text, line_bytes(line));
			copy.text = NULL;
		}
	}
	if (copy.text) {
		prints->dropped = 0;
		prints->bytes += cost;
	} else {
		prints->dropped++; /* the next one says so */
	}
	pthread_mutex_unlock(&prints->lock);
	if (was_empty && copy.text && prints->doorbell >= 0)
		(void)!write(prints->doorbell, &one, sizeof(one));
}

uint64_t weir_prints_take(struct weir_prints *prints, struct weir_print_list *out)
{
	uint64_t dropped;

	WEIR_ASSERT(out->count == 0 && !out->items);
	pthread_mutex_lock(&prints->lock);
	*out = prints->lines;
	prints->lines = (struct weir_print_list){0};
	prints->bytes = 0;
	dropped = prints->dropped;
	prints->dropped = 0;
	pthread_mutex_unlock(&prints->lock);
	return dropped;
}
