/* The store as a whole: options, figures, the end. Chunks are in chunk.c, their memory in region.c and space.c, their
 * files in spill_file.c. */
#include "store/store.h"
#include "base/pagemap.h"
#include "store/store_impl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int add_files(struct weir_store *store, const char *const *dirs, struct weir_error *err)
{
	const char *temporary[2] = {getenv("TMPDIR"), NULL};
	uint32_t count = 0;

	if (!temporary[0] || !*temporary[0])
		temporary[0] = "/tmp";
	if (!dirs || !dirs[0])
		dirs = temporary;
	while (dirs[count])
		if (++count > STORE_SPILL_DIRS_MAX)
			return weir_error_set(err, WEIR_E_INVALID, "more than %d spill directories",
					      STORE_SPILL_DIRS_MAX);
	store->files = weir_alloc_zero(&store->heap, sizeof(*store->files) * count, err);
	if (!store->files)
		return err->code;
	store->file_count = count;
	for (uint32_t i = 0; i < count; i++) {
		store->files[i].store = store;
		store->files[i].space.account = &store->heap;
		store->files[i].directory = weir_strdup(&store->heap, dirs[i], err);
		if (!store->files[i].directory)
			return err->code;
	}
	return WEIR_OK;
}

int weir_store_new(struct weir_account *account, const struct weir_store_options *options, struct weir_store **out,
		   struct weir_error *err)
{
	struct weir_store *store = weir_alloc_zero(account, sizeof(*store), err);
	int code;

	*out = NULL;
	if (!store)
		return err->code;
	weir_account_init(&store->memory, account, "store");
	weir_account_init(&store->heap, account, "store lists");
	store->resident_max = options->resident_max;
	store->warm_max = options->warm_max;
	store->spill_max = options->spill_max;
	store->spill_memory_max = options->spill_memory_max;
	store->region_size = store_pages(options->region_size ? options->region_size : STORE_REGION_SIZE);
	for (uint32_t i = 0; i < STORE_SPACES; i++)
		store->spaces[i].account = &store->heap;
	pthread_mutex_init(&store->lock, NULL);
	pthread_cond_init(&store->settled, NULL);
	store->pagemap = weir_pagemap_open();
	code = add_files(store, options->spill_dirs, err);
	if (code)
		weir_store_free(store);
	else
		*out = store;
	return code;
}

void weir_store_free(struct weir_store *store)
{
	struct weir_account *account;

	if (!store)
		return;
	account = store->memory.parent;
	WEIR_ASSERT(store->chunks == 0 && store->resident == 0 && store->spilled == 0 && store->pinned == 0 &&
		    store->spilled_memory == 0);
	weir_regions_release(store);
	for (uint32_t i = 0; i < store->file_count; i++)
		weir_spill_file_release(&store->files[i]);
	weir_free(&store->heap, store->files, sizeof(*store->files) * store->file_count);
	pthread_cond_destroy(&store->settled);
	if (store->pagemap >= 0)
		close(store->pagemap);
	pthread_mutex_destroy(&store->lock);
	weir_account_release(&store->memory);
	weir_account_release(&store->heap);
	weir_free(account, store, sizeof(*store));
}

void weir_store_stats(struct weir_store *store, struct weir_store_stats *out)
{
	pthread_mutex_lock(&store->lock);
	*out = (struct weir_store_stats){
		.resident = store->resident,
		.warm = store->warm,
		.spilled = store->spilled,
		.spilled_memory = store->spilled_memory,
		.pinned = store->pinned,
		.held_by_user = store->held_by_user,
		.peak = store->peak,
		.chunks = store->chunks,
		.spill_writes = store->spill_writes,
		.spill_reads = store->spill_reads,
		.spill_bytes_written = store->spill_bytes_written,
		.spill_bytes_read = store->spill_bytes_read,
	};
	pthread_mutex_unlock(&store->lock);
}
