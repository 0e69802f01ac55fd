/* blocks: rows that were kept are read again. Each block is a split, or several small ones are where an exchange
 * follows; a chunk that was spilled is read by the lane into memory of its own, and stays on disk. A block whose schema
 * differs from the node's is made to fit: columns by name, missing ones null, types that unification has widened. */
#include "ops/blocks.h"

#include "arrow/tensor.h"
#include "ops/ops_impl.h"

#include <stdio.h>
#include <string.h>

enum { SPLITS_JOINED = 64, JOINED_BYTES_MAX = 16 << 20 };

/* ---- blocks ---- */

static int block_new(struct weir_account *account, const struct weir_schema *schema, struct weir_block **out,
		     struct weir_error *err)
{
	struct weir_block *block = weir_alloc_zero(account, sizeof(*block), err);

	*out = block;
	if (!block)
		return err->code;
	atomic_init(&block->refs, 1);
	block->account = account;
	block->schema = weir_schema_ref(schema);
	return WEIR_OK;
}

int weir_block_of_chunk(struct weir_account *account, struct weir_chunk *chunk, const struct weir_batch *batch,
			struct weir_block **out, struct weir_error *err)
{
	int code = block_new(account, batch->schema, out, err);

	if (code)
		return code;
	(*out)->chunk = weir_chunk_ref(chunk);
	(*out)->row_count = batch->row_count;
	(*out)->bytes = (uint64_t)weir_batch_bytes(batch);
	return WEIR_OK;
}

int weir_block_of_batch(struct weir_account *account, const struct weir_batch *batch, struct weir_block **out,
			struct weir_error *err)
{
	int code = block_new(account, batch->schema, out, err);

	if (code)
		return code;
	(*out)->batch = weir_batch_ref(batch);
	(*out)->row_count = batch->row_count;
	(*out)->bytes = (uint64_t)weir_batch_bytes(batch);
	return WEIR_OK;
}

struct weir_block *weir_block_ref(struct weir_block *block)
{
	atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);
	return block;
}

void weir_block_unref(struct weir_block *block)
{
	void (*release)(void *holder);
	void *holder;

	/* acq_rel: the last one frees what the others used. */
	if (!block || atomic_fetch_sub_explicit(&block->refs, 1, memory_order_acq_rel) != 1)
		return;
	holder = block->holder;
	release = block->release;
	if (block->forget && block->chunk)
		block->forget(holder, block->chunk);
	weir_schema_unref(block->schema);
	weir_batch_unref(block->batch);
	if (block->chunk)
		weir_chunk_unref(block->chunk);
	weir_free(block->account, block, sizeof(*block));
	if (release)
		release(holder);
}

int weir_block_batch(struct weir_account *account, struct weir_block *block, struct weir_batch **out,
		     struct weir_error *err)
{
	struct weir_block_cache cache = {0};
	struct weir_buffer copy = {0};
	struct weir_owner *owner = NULL;
	const uint8_t *bytes;
	uint8_t *writable;
	int code;

	if (block->batch) {
		*out = weir_batch_ref(block->batch);
		return WEIR_OK;
	}
	*out = NULL;
	if (weir_chunk_is_resident(block->chunk)) {
		code = weir_chunk_owner(block->chunk, &owner, &bytes, err);
	} else {
		code = weir_buffer_new(account, weir_chunk_size(block->chunk), &copy, &writable, err);
		if (!code)
			code = weir_chunk_read(block->chunk, writable, err);
		bytes = copy.data;
		owner = copy.owner;
	}
	if (code) {
		weir_buffer_release(&copy);
		return code;
	}
	/* Whoever made the block has looked at its contents. */
	code = weir_block_open(account, &cache, bytes, weir_chunk_size(block->chunk), owner, false, out, err);
	weir_owner_unref(owner);
	weir_block_cache_release(&cache);
	return code;
}

/* ---- plan ---- */

struct blocks_config {
	struct weir_account *account;
	struct weir_schema *schema;
	struct weir_block **blocks;
	size_t count;
};

static void config_release(void *object)
{
	struct blocks_config *config = object;

	for (size_t i = 0; i < config->count; i++)
		weir_block_unref(config->blocks[i]);
	weir_free(config->account, config->blocks, config->count * sizeof(*config->blocks));
	weir_schema_unref(config->schema);
}

static int parse(struct weir_op_env *env, struct weir_node *node, const struct weir_words *words,
		 struct weir_error *err)
{
	struct blocks_config *config = weir_arena_alloc_zero(env->arena, sizeof(*config), err);
	int code = config ? weir_words_expect(words, "blocks", 0, 0, NULL, err) : err->code;

	if (code)
		return code;
	config->account = env->account;
	node->config = config;
	return env->keep(env, config, config_release, err);
}

int weir_blocks_set(struct weir_op_env *env, struct weir_node *node, const struct weir_schema *schema,
		    struct weir_block *const *blocks, size_t count, struct weir_error *err)
{
	struct blocks_config *config = node->config;

	(void)env;
	WEIR_ASSERT(node->op == &weir_op_blocks && !config->schema);
	config->blocks = weir_alloc_zero(config->account, count * sizeof(*config->blocks), err);
	if (!config->blocks)
		return err->code;
	for (; config->count < count; config->count++)
		config->blocks[config->count] = weir_block_ref(blocks[config->count]);
	config->schema = weir_schema_ref(schema);
	return WEIR_OK;
}

static int bind(struct weir_op_env *env, struct weir_node *node, struct weir_error *err)
{
	struct blocks_config *config = node->config;

	(void)env;
	if (!config->schema)
		return weir_error_set(err, WEIR_E_INVALID, "the plan reads blocks, and the program gave none");
	node->schema = config->schema;
	node->rows_est = node->bytes_est = config->count ? 0 : -1;
	for (size_t i = 0; i < config->count; i++) {
		node->rows_est += config->blocks[i]->row_count;
		node->bytes_est += (int64_t)config->blocks[i]->bytes;
	}
	return WEIR_OK;
}

static int describe(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct blocks_config *config = node->config;

	return weir_text_printf(out, err, "blocks: %zu that were kept", config->count);
}

/* ---- running ---- */

struct blocks_source {
	struct weir_account *account;
	struct weir_schema *schema;
	const struct blocks_config *config; /* the plan outlives us */
	size_t next;
	int64_t row_next;
	uint64_t number_next;
	uint64_t joined_bytes; /* of a split of several blocks, at most; 0: each is one */
};

struct blocks_lane {
	struct weir_account account;
	const struct blocks_source *source;
	struct weir_arena arena;
	struct weir_batch *batch;
	struct weir_block_cache cache;
	struct weir_chunk *pinned;
	uint8_t *copy; /* of one that is not in memory */
	size_t copy_size;
	const char *origin;
	int64_t row, row_first;
	struct weir_block *const *more; /* of the open split */
	size_t more_count;
};

static int split_next(void *state, struct weir_split_info *out, void **split_out, bool *done, struct weir_error *err)
{
	struct blocks_source *source = state;
	struct weir_batch_split *split;
	struct weir_block *block;
	uint64_t memory = 0;

	*done = source->next == source->config->count;
	if (*done)
		return WEIR_OK;
	block = source->config->blocks[source->next];
	split = weir_alloc_zero(source->account, sizeof(*split), err);
	if (!split)
		return err->code;
	*split = (struct weir_batch_split){.block = block, .row_first = source->row_next};
	*out = (struct weir_split_info){
		.number = source->number_next++, .is_counted = true, .row_first = (uint64_t)source->row_next};
	split->more = source->config->blocks + source->next + 1;
	do {
		uint64_t footprint;

		block = source->config->blocks[source->next++];
		footprint = block->chunk ? weir_chunk_footprint(block->chunk) : 0;
		memory = footprint > memory ? footprint : memory;
		out->rows_est += block->row_count;
		out->bytes_est += block->bytes;
		source->row_next += block->row_count;
	} while (source->next < source->config->count &&
		 out->bytes_est + source->config->blocks[source->next]->bytes <= source->joined_bytes);
	split->more_count = (size_t)(source->config->blocks + source->next - split->more);
	out->memory_est = memory;
	*split_out = split;
	return WEIR_OK;
}

static void split_free(void *state, void *split)
{
	weir_free(((struct blocks_source *)state)->account, split, sizeof(struct weir_batch_split));
}

static int lane_new(void *state, struct weir_lane_context *context, void **out, struct weir_error *err)
{
	struct blocks_lane *lane = weir_op_lane_new(context->account, sizeof(*lane), "blocks", err);

	if (!lane)
		return err->code;
	weir_arena_init(&lane->arena, &lane->account);
	lane->source = state;
	*out = lane;
	return WEIR_OK;
}

static void split_close(struct blocks_lane *lane)
{
	weir_batch_unref(lane->batch);
	lane->batch = NULL;
	if (lane->pinned)
		weir_chunk_unpin(lane->pinned);
	lane->pinned = NULL;
	weir_free(&lane->account, lane->copy, lane->copy_size);
	lane->copy = NULL;
	lane->copy_size = 0;
}

static void lane_free(void *state)
{
	struct blocks_lane *lane = state;

	split_close(lane);
	weir_block_cache_release(&lane->cache);
	weir_arena_release(&lane->arena);
	weir_op_lane_free(lane, sizeof(*lane));
}

static int fit(struct blocks_lane *lane, struct weir_error *err)
{
	const struct weir_schema *schema = lane->source->schema;
	struct weir_batch *fitted;

	if (lane->batch->schema == schema || weir_schema_equal(lane->batch->schema, schema, false))
		return WEIR_OK;
	fitted = weir_batch_promote(&lane->account, lane->batch, schema, false, err);
	if (!fitted)
		return err->code;
	weir_batch_unref(lane->batch);
	lane->batch = fitted;
	return WEIR_OK;
}

static int open_block(struct blocks_lane *lane, struct weir_block *block, struct weir_error *err)
{
	const uint8_t *bytes;
	int code;

	if (block->batch) {
		lane->batch = weir_batch_ref(block->batch);
		return fit(lane, err);
	}
	if (weir_chunk_is_resident(block->chunk)) {
		code = weir_chunk_pin(block->chunk, &bytes, err);
		if (code)
			return code;
		lane->pinned = block->chunk;
	} else {
		size_t size = weir_chunk_size(block->chunk);

		lane->copy = weir_alloc(&lane->account, size, err);
		if (!lane->copy)
			return err->code;
		lane->copy_size = size;
		bytes = lane->copy;
		code = weir_chunk_read(block->chunk, lane->copy, err);
		if (code)
			return code;
	}
	code = weir_block_open(&lane->account, &lane->cache, bytes, weir_chunk_size(block->chunk), NULL, false,
			       &lane->batch, err);
	return code ? code : fit(lane, err);
}

static int split_open(void *state, void *split_state, struct weir_error *err)
{
	struct blocks_lane *lane = state;
	const struct weir_batch_split *split = split_state;

	split_close(lane);
	lane->row = 0;
	lane->row_first = split->row_first;
	lane->origin = split->origin;
	lane->more = split->more;
	lane->more_count = split->more_count;
	if (split->block)
		return open_block(lane, split->block, err);
	lane->batch = weir_batch_ref(split->batch);
	return WEIR_OK;
}

static int next(void *state, struct weir_vector *out, struct weir_error *err)
{
	struct blocks_lane *lane = state;
	int64_t count = lane->batch ? lane->batch->row_count - lane->row : 0;
	int code = WEIR_OK;

	*out = (struct weir_vector){0};
	while (count == 0 && lane->more_count && !code) {
		split_close(lane);
		lane->row_first += lane->row;
		lane->row = 0;
		lane->more_count--;
		code = open_block(lane, *lane->more++, err);
		count = code ? 0 : lane->batch->row_count;
	}
	if (code)
		return code;
	if (count > WEIR_VECTOR_ROWS)
		count = WEIR_VECTOR_ROWS;
	if (count == 0) {
		split_close(lane);
		return WEIR_OK;
	}
	weir_arena_clear(&lane->arena);
	code = weir_vector_from_batch(lane->batch, lane->row, (uint32_t)count, &lane->arena, out, err);
	out->source = lane->origin;
	out->source_row = lane->row_first < 0 ? -1 : lane->row_first + lane->row;
	lane->row += count;
	return code;
}

static void split_abort(void *state)
{
	split_close(state);
}

/* How many there are depends on the blocks alone, and so does all that goes by a row's split. */
static void splits_join(void *state)
{
	struct blocks_source *source = state;
	uint64_t bytes = 0;

	for (size_t i = 0; i < source->config->count; i++)
		bytes += source->config->blocks[i]->bytes;
	bytes /= SPLITS_JOINED;
	source->joined_bytes = bytes < JOINED_BYTES_MAX ? bytes : JOINED_BYTES_MAX;
}

static void source_free(void *state)
{
	struct blocks_source *source = state;

	weir_schema_unref(source->schema);
	weir_free(source->account, source, sizeof(*source));
}

static const struct weir_source_ops source_ops = {
	.name = "blocks",
	.split_next = split_next,
	.split_free = split_free,
	.lane_new = lane_new,
	.split_open = split_open,
	.next = next,
	.split_abort = split_abort,
	.lane_free = lane_free,
	.splits_join = splits_join,
	.free = source_free,
};

static int build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		 struct weir_error *err)
{
	struct blocks_source *source = weir_alloc_zero(env->account, sizeof(*source), err);

	if (!source)
		return err->code;
	source->account = env->account;
	source->config = node->config;
	source->schema = weir_schema_ref(node->schema);
	return weir_fragment_source(fragment, &source_ops, source);
}

const struct weir_op weir_op_blocks = {
	.verb = "blocks",
	.usage = "blocks",
	.help = "Reads rows that the program that built the plan keeps.\n",
	.parse = parse,
	.bind = bind,
	.describe = describe,
	.save = weir_op_save_never,
	.load = weir_op_load_never,
	.build = build,
};
