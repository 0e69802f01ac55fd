/* Blocks in the program's hands: rows that are kept, by the program itself or in the session's store. */
#include "api/api_impl.h"

static void forget(void *holder, struct weir_chunk *chunk)
{
	weir_session_forget(holder, chunk);
}

static void release(void *holder)
{
	weir_session_free(holder);
}

/* Of a block in the store, whose chunk has just gone. */
static void release_kept(void *holder)
{
	weir_session_trim(holder);
	weir_session_free(holder);
}

int api_block_from_batch(struct weir_session *session, const struct weir_batch *batch, struct weir_block **out,
			 struct weir_error *err)
{
	int code = weir_block_of_batch(weir_session_account(session), batch, out, err);

	if (code)
		return code;
	(*out)->release = release;
	(*out)->holder = weir_session_ref(session);
	return WEIR_OK;
}

int api_block_from_chunk(struct weir_session *session, struct weir_chunk *chunk, struct weir_block **out,
			 struct weir_error *err)
{
	struct weir_account *account = weir_session_account(session);
	struct weir_block_cache cache = {0};
	struct weir_batch *batch = NULL;
	const uint8_t *bytes;
	int code = weir_chunk_pin(chunk, &bytes, err);

	if (code)
		return code;
	/* What comes from a worker is looked at once, and then believed. */
	code = weir_block_open(account, &cache, bytes, weir_chunk_size(chunk), NULL, weir_chunk_is_foreign(chunk),
			       &batch, err);
	if (!code)
		code = weir_block_of_chunk(account, chunk, batch, out, err);
	weir_batch_unref(batch);
	weir_block_cache_release(&cache);
	weir_chunk_unpin(chunk);
	if (code)
		return code;
	code = weir_session_keep(session, chunk, err);
	if (code) {
		weir_block_unref(*out);
		return code;
	}
	(*out)->forget = forget;
	(*out)->release = release_kept;
	(*out)->holder = weir_session_ref(session);
	return WEIR_OK;
}

int api_block_batch(struct weir_session *session, struct weir_block *block, struct weir_batch **out,
		    struct weir_error *err)
{
	return weir_block_batch(weir_session_account(session), block, out, err);
}
