/* Which columns shards have: the key, what the names of members end in, the file. Headers are all that is read of plain
 * shards, so all of their members are looked at; of others the first bytes. */
#include "format/webdataset/webdataset_impl.h"

#include <string.h>

enum { SAMPLE_INFLATED = 64 << 20, COLUMNS_MAX = 10000 };

const struct weir_type *web_widen(struct weir_account *account, const struct weir_type *a, const struct weir_type *b,
				  struct weir_error *err)
{
	(void)account;
	(void)b;
	(void)err;
	return weir_type_ref(a); /* columns have one type each */
}

static int look(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *file,
		struct weir_arena *arena, struct weir_name_index *names, uint32_t file_count, struct weir_error *err)
{
	const struct web_options *options = web_options_of(setup);
	bool is_plain = weir_stream_is_plain(file, &options->stream), found = true;
	struct tar_input input;
	struct web_member member;
	int code;

	tar_input_init(&input, account);
	code = tar_input_open(&input, setup->io, file, 0, &options->stream, err);
	while (!code && found && (is_plain || input.position < SAMPLE_INFLATED / file_count)) {
		code = web_next(&input, &member, &found, err);
		if (!code && found && weir_name_index_find(names, member.suffix, member.suffix_size) == WEIR_NO_NAME) {
			char *suffix = weir_arena_strndup(arena, member.suffix, member.suffix_size, err);

			code = suffix ? weir_name_index_add(names, suffix, member.suffix_size, err) : err->code;
			if (!code && names->list.count > COLUMNS_MAX)
				code = weir_error_set(err, WEIR_E_UNSUPPORTED,
						      "the names of members have more than %d different endings",
						      COLUMNS_MAX);
		}
	}
	/* What is damaged is for whoever comes to it. */
	if (code == WEIR_E_DATA && names->list.count) {
		weir_error_clear(err);
		code = WEIR_OK;
	}
	if (code)
		weir_error_at_source(err, weir_file_path(file));
	tar_input_release(&input);
	return code;
}

static bool is_own(const char *name)
{
	return strcmp(name, WEB_KEY) == 0 || strcmp(name, WEB_URL) == 0;
}

int web_infer(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *const *files,
	      uint32_t count, struct weir_schema **out, struct weir_error *err)
{
	struct weir_name_index names;
	struct weir_arena arena;
	struct weir_field *fields = NULL;
	size_t capacity = 0;
	uint32_t used = 0;
	int code = WEIR_OK;

	*out = NULL;
	weir_name_index_init(&names, account);
	weir_arena_init(&arena, account);
	for (uint32_t i = 0; !code && i < count; i++)
		code = look(account, setup, files[i], &arena, &names, count, err);
	if (!code) {
		capacity = (names.list.count + 2) * sizeof(*fields);
		fields = weir_alloc_zero(account, capacity, err);
		code = fields ? WEIR_OK : err->code;
	}
	if (!code)
		fields[used++] = (struct weir_field){
			.name = WEB_KEY, .type = weir_type_of(WEIR_STRING), .nullable = true};
	for (uint32_t i = 0; !code && i < names.list.count; i++)
		if (!is_own(names.list.items[i].text))
			fields[used++] = (struct weir_field){
				.name = names.list.items[i].text, .type = weir_type_of(WEIR_BINARY), .nullable = true};
	if (!code) {
		fields[used++] = (struct weir_field){
			.name = WEB_URL, .type = weir_type_of(WEIR_STRING), .nullable = true};
		*out = weir_schema_new(account, fields, used, NULL, err);
		code = *out ? WEIR_OK : err->code;
	}
	weir_free(account, fields, capacity);
	weir_name_index_release(&names);
	weir_arena_release(&arena);
	return code;
}
