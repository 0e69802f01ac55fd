/* Types from values.
 *
 * What a sample holds is gathered in a tree: for each field the kinds of values it had, and what was inside them. A
 * type is made of it at the end:
 *
 *     nothing but null                null          strings that all read as whole seconds   timestamp[s]
 *     true, false                     bool          other strings                           string
 *     integers of 64 bits             int64         lists                                   list<item: …>
 *     other numbers, or both          double        objects                                 struct<…>
 *     kinds that no type holds        string, in which values that are no strings are kept as they are spelled
 *
 * That is what pyarrow infers, but for the last line, where it gives up. Fields stand in the order in which they
 * appeared.
 *
 * Reading a value here is strict, and walks with a stack of its own: this is also the check of values that are kept as
 * text.
 */
#include "base/timetext.h"
#include "format/json/json_impl.h"

#include <string.h>
#include <strings.h>

enum {
	HAS_BOOL = 1,
	HAS_INTEGER = 2,
	HAS_REAL = 4,
	HAS_TIMESTAMP = 8,
	HAS_STRING = 16,
	HAS_LIST = 32,
	HAS_OBJECT = 64,
	HAS_DEPTHS = 128, /* nested deeper than a type can be */
};

struct json_guess {
	uint32_t kinds;
	const char *name; /* in the arena */
	uint32_t name_size;
	const char *given;               /* its type as the user wrote it */
	uint64_t serial;                 /* of the last object that had it */
	struct json_guess *next;         /* of the same object */
	struct json_guess *first, *last; /* of an object's fields; first: a list's item */
	struct json_guess *hint;         /* the field that came last */
	struct json_guess *item;
};

static struct json_guess *guess_new(struct weir_arena *arena, struct weir_error *err)
{
	return weir_arena_alloc_zero(arena, sizeof(struct json_guess), err);
}

static struct json_guess *guess_item(struct json_guess *guess, struct weir_arena *arena, struct weir_error *err)
{
	if (!guess->item)
		guess->item = guess_new(arena, err);
	return guess->item;
}

static struct json_guess *guess_find(struct json_guess *guess, const void *name, size_t size)
{
	/* From the last one on: fields come in order. */
	struct json_guess *start = guess->hint ? guess->hint->next : guess->first;

	for (struct json_guess *field = start; field; field = field->next)
		if (field->name_size == size && memcmp(field->name, name, size) == 0)
			return guess->hint = field;
	for (struct json_guess *field = guess->first; field != start; field = field->next)
		if (field->name_size == size && memcmp(field->name, name, size) == 0)
			return guess->hint = field;
	return NULL;
}

static struct json_guess *guess_field(struct json_guess *guess, struct weir_arena *arena, const void *name, size_t size,
				      struct weir_error *err)
{
	struct json_guess *field = guess_find(guess, name, size);

	if (field)
		return field;
	field = guess_new(arena, err);
	if (!field)
		return NULL;
	field->name = weir_arena_strndup(arena, name, size, err);
	if (!field->name)
		return NULL;
	field->name_size = (uint32_t)size;
	if (guess->last)
		guess->last->next = field;
	else
		guess->first = field;
	guess->hint = guess->last = field;
	return field;
}

/* ── reading values ── */

struct frame {
	struct json_guess *guess; /* of the object or list; NULL when nobody wants to know */
	bool is_object;
	uint64_t serial;
};

struct check {
	const struct json_window *window;
	const struct json_options *options;
	struct weir_arena *arena;   /* guesses and frames */
	struct weir_arena *scratch; /* strings */
	struct weir_error *err;
	struct frame *frames;
	uint32_t depth, capacity;
	uint64_t serial;
};

static bool ends_with(const char *text, size_t size, const char *end)
{
	size_t length = strlen(end);

	return size >= length && strncasecmp(text + size - length, end, length) == 0;
}

/* pandas' rule, which Ray Data's readers of lines follow. */
static bool is_name_of_dates(const char *name, size_t size)
{
	return ends_with(name, size, "_at") || ends_with(name, size, "_time") ||
	       strncasecmp(name, "timestamp", 9) == 0 || strcasecmp(name, "date") == 0 ||
	       strcasecmp(name, "datetime") == 0 || strcasecmp(name, "modified") == 0;
}

static bool may_be_dates(const struct check *check, const struct json_guess *guess)
{
	switch (check->options->dates) {
	case JSON_DATES_NAMED:
		return check->depth == 1 && guess->name && is_name_of_dates(guess->name, guess->name_size);
	case JSON_DATES_TEXT:
		return false;
	default:
		return true;
	}
}

static int check_string(struct check *check, uint32_t entry, struct json_guess *guess)
{
	const struct json_window *window = check->window;
	const uint8_t *bytes;
	size_t size;
	struct weir_timestamp_text time;
	int64_t seconds;

	if (window->text[window->entries[entry + 1]] != '"')
		return json_unexpected_at(window, entry + 1, "the end of the string", check->err);
	if (json_string_read(window, check->options, window->entries[entry] + 1, window->entries[entry + 1],
			     check->scratch, &bytes, &size, check->err))
		return check->err->code;
	if (guess && !(guess->kinds & HAS_STRING))
		guess->kinds |= may_be_dates(check, guess) && weir_scan_timestamp((const char *)bytes, size, &time) &&
						time.fraction_digits == 0 && weir_timestamp_units(&time, 0, &seconds)
					? HAS_TIMESTAMP
					: HAS_STRING;
	return WEIR_OK;
}

static int check_word(struct check *check, uint32_t entry, struct json_guess *guess)
{
	const struct json_window *window = check->window;
	size_t begin = window->entries[entry];

	switch (window->text[begin]) {
	case '}':
	case ']':
	case ':':
	case ',':
	case '\n':
	case 0:
		return json_unexpected_at(window, entry, "a value", check->err);
	default:
		break;
	}
	switch (json_word_kind(check->options, window->text + begin, json_value_end(window, entry) - begin)) {
	case JSON_WORD_NULL:
		break;
	case JSON_WORD_BOOL:
		if (guess)
			guess->kinds |= HAS_BOOL;
		break;
	case JSON_WORD_INTEGER:
		if (guess)
			guess->kinds |= HAS_INTEGER;
		break;
	case JSON_WORD_REAL:
		if (guess)
			guess->kinds |= HAS_REAL;
		break;
	case JSON_WORD_WRONG:
		return json_window_fail(window, begin, check->err, WEIR_E_DATA, "this is no JSON value");
	}
	return WEIR_OK;
}

static int push(struct check *check, uint32_t entry, struct json_guess *guess, bool is_object)
{
	if (check->depth + 1 >= check->options->depth_max)
		return json_window_fail(check->window, check->window->entries[entry], check->err, WEIR_E_DATA,
					"values are nested more than %u deep (--depth sets the limit)",
					check->options->depth_max);
	if (check->depth == check->capacity) {
		uint32_t capacity = check->capacity ? check->capacity * 2 : 16;
		struct frame *frames = weir_arena_alloc(check->arena, capacity * sizeof(*frames), check->err);

		if (!frames)
			return check->err->code;
		if (check->depth)
			memcpy(frames, check->frames, check->depth * sizeof(*frames));
		check->frames = frames;
		check->capacity = capacity;
	}
	if (guess)
		guess->kinds |= is_object ? HAS_OBJECT : HAS_LIST;
	if (guess && check->depth + 1 >= WEIR_DEPTH_MAX) {
		guess->kinds |= HAS_DEPTHS;
		guess = NULL;
	}
	check->frames[check->depth++] = (struct frame){guess, is_object, ++check->serial};
	return WEIR_OK;
}

/* A field's name and ':'; *entry moves to its value. */
static int check_name(struct check *check, uint32_t *entry, struct json_guess **guess)
{
	const struct json_window *window = check->window;
	struct frame *frame = &check->frames[check->depth - 1];
	const uint8_t *bytes;
	size_t size;

	*guess = NULL;
	if (window->text[window->entries[*entry]] != '"')
		return json_unexpected_at(window, *entry, "a field's name", check->err);
	if (check_string(check, *entry, NULL))
		return check->err->code;
	if (window->text[window->entries[*entry + 2]] != ':')
		return json_unexpected_at(window, *entry + 2, "':'", check->err);
	if (frame->guess) {
		if (json_string_read(window, check->options, window->entries[*entry] + 1, window->entries[*entry + 1],
				     check->scratch, &bytes, &size, check->err))
			return check->err->code;
		if (memchr(bytes, 0, size))
			return json_window_fail(window, window->entries[*entry], check->err, WEIR_E_UNSUPPORTED,
						"a field's name contains U+0000");
		*guess = guess_field(frame->guess, check->arena, bytes, size, check->err);
		if (!*guess)
			return check->err->code;
		if ((*guess)->serial == frame->serial)
			return json_window_fail(window, window->entries[*entry], check->err, WEIR_E_DATA,
						"the object has the field '%.100s' twice", (*guess)->name);
		(*guess)->serial = frame->serial;
	}
	*entry += 3;
	return WEIR_OK;
}

/* The entry behind the value, 0 with err set when it is wrong. What it is goes to `guess`, unless that is NULL. */
static uint32_t check_value(struct check *check, uint32_t entry, struct json_guess *guess)
{
	const struct json_window *window = check->window;
	const uint8_t *text = window->text;
	const uint32_t *entries = window->entries;

	check->depth = 0;
	for (;;) {
		uint8_t byte = text[entries[entry]];

		/* A value. */
		if (byte == '"') {
			if (check_string(check, entry, guess))
				return 0;
			entry += 2;
		} else if (byte == '{' || byte == '[') {
			if (push(check, entry, guess, byte == '{'))
				return 0;
			entry++;
			if (text[entries[entry]] != (byte == '{' ? '}' : ']')) {
				guess = check->frames[check->depth - 1].guess;
				if (byte == '{' ? check_name(check, &entry, &guess)
						: guess && !(guess = guess_item(guess, check->arena, check->err)))
					return 0;
				continue;
			}
		} else {
			if (check_word(check, entry, guess))
				return 0;
			entry++;
		}
		/* Behind a value, or before the end of an empty one. */
		for (;;) {
			struct frame *frame;

			if (check->depth == 0)
				return entry;
			frame = &check->frames[check->depth - 1];
			byte = text[entries[entry]];
			if (byte == (frame->is_object ? '}' : ']')) {
				check->depth--;
				entry++;
				continue;
			}
			if (byte != ',') {
				json_unexpected_at(window, entry, frame->is_object ? "',' or '}'" : "',' or ']'",
						   check->err);
				return 0;
			}
			entry++;
			guess = NULL;
			if (frame->is_object) {
				if (check_name(check, &entry, &guess))
					return 0;
			} else {
				guess = frame->guess ? frame->guess->item : NULL;
			}
			break;
		}
	}
}

uint32_t json_value_check(const struct json_window *window, const struct json_options *options, uint32_t entry,
			  struct weir_arena *arena, struct weir_error *err)
{
	struct check check = {.window = window, .options = options, .arena = arena, .scratch = arena, .err = err};

	return check_value(&check, entry, NULL);
}

/* ── types of guesses ── */

static const struct weir_type *guess_type(struct weir_account *account, const struct json_guess *guess,
					  struct weir_arena *arena, struct weir_error *err);

static int guess_fields(struct weir_account *account, const struct json_guess *guess, struct weir_arena *arena,
			struct weir_field **out, uint32_t *count, struct weir_error *err)
{
	struct weir_field *fields;
	uint32_t n = 0;

	for (const struct json_guess *field = guess->first; field; field = field->next)
		n++;
	fields = weir_arena_alloc_zero(arena, (n + 1) * sizeof(*fields), err);
	if (!fields)
		return err->code;
	*out = fields;
	*count = 0;
	for (const struct json_guess *field = guess->first; field; field = field->next) {
		fields[*count] = (struct weir_field){.name = field->name, .nullable = true};
		fields[*count].type = guess_type(account, field, arena, err);
		if (!fields[*count].type) {
			weir_error_at_column(err, field->name);
			for (uint32_t i = 0; i < *count; i++)
				weir_type_unref(fields[i].type);
			return err->code;
		}
		++*count;
	}
	return WEIR_OK;
}

static const struct weir_type *list_type(struct weir_account *account, const struct weir_type *item,
					 struct weir_error *err)
{
	struct weir_field field = {.name = "item", .type = item, .nullable = true};

	return weir_type_list(account, WEIR_LIST_TYPE, &field, 0, false, err);
}

static const struct weir_type *guess_type(struct weir_account *account, const struct json_guess *guess,
					  struct weir_arena *arena, struct weir_error *err)
{
	const struct weir_type *type, *item;
	struct weir_field *fields;
	uint32_t count;

	if (guess->given)
		return weir_type_parse(account, guess->given, err);
	if (guess->kinds & HAS_DEPTHS) {
		weir_error_set(
			err, WEIR_E_UNSUPPORTED,
			"values are nested more than %d deep, which no type is; --types 'COLUMN=string' keeps them as text",
			WEIR_DEPTH_MAX);
		return NULL;
	}
	switch (guess->kinds) {
	case 0:
		return weir_type_ref(weir_type_of(WEIR_NULL));
	case HAS_BOOL:
		return weir_type_ref(weir_type_of(WEIR_BOOL));
	case HAS_INTEGER:
		return weir_type_ref(weir_type_of(WEIR_INT64));
	case HAS_REAL:
	case HAS_REAL | HAS_INTEGER:
		return weir_type_ref(weir_type_of(WEIR_DOUBLE));
	case HAS_TIMESTAMP:
		return weir_type_temporal(account, WEIR_TIMESTAMP, WEIR_SECOND, NULL, err);
	case HAS_LIST:
		item = guess->item ? guess_type(account, guess->item, arena, err)
				   : weir_type_ref(weir_type_of(WEIR_NULL));
		if (!item)
			return NULL;
		type = list_type(account, item, err);
		weir_type_unref(item);
		return type;
	case HAS_OBJECT:
		if (guess_fields(account, guess, arena, &fields, &count, err))
			return NULL;
		type = weir_type_struct(account, fields, count, err);
		for (uint32_t i = 0; i < count; i++)
			weir_type_unref(fields[i].type);
		return type;
	default:
		return weir_type_ref(weir_type_of(WEIR_STRING));
	}
}

const struct weir_type *json_infer_value(struct weir_account *account, const struct json_options *options,
					 const struct json_window *window, uint32_t entry, struct weir_error *err)
{
	struct weir_arena arena;
	struct json_guess guess = {0};
	struct check check = {.window = window, .options = options, .arena = &arena, .scratch = &arena, .err = err};
	const struct weir_type *type = NULL;

	weir_arena_init(&arena, account);
	if (check_value(&check, entry, &guess))
		type = guess_type(account, &guess, &arena, err);
	weir_arena_release(&arena);
	return type;
}

/* What guess_type makes of a type, back into a guess. */
static int guess_of_type(struct json_guess *guess, const struct weir_type *type, struct weir_arena *arena,
			 struct weir_error *err)
{
	switch (type->id) {
	case WEIR_NULL:
		return WEIR_OK;
	case WEIR_BOOL:
		guess->kinds |= HAS_BOOL;
		return WEIR_OK;
	case WEIR_INT64:
		guess->kinds |= HAS_INTEGER;
		return WEIR_OK;
	case WEIR_DOUBLE:
		guess->kinds |= HAS_REAL;
		return WEIR_OK;
	case WEIR_TIMESTAMP:
		/* A timestamp and a string are a string. */
		guess->kinds |= guess->kinds & HAS_STRING ? 0 : HAS_TIMESTAMP;
		return WEIR_OK;
	case WEIR_LIST_TYPE:
		guess->kinds |= HAS_LIST;
		if (!guess_item(guess, arena, err))
			return err->code;
		return guess_of_type(guess->item, type->fields[0].type, arena, err);
	case WEIR_STRUCT:
		guess->kinds |= HAS_OBJECT;
		for (uint32_t i = 0; i < type->field_count; i++) {
			const char *name = type->fields[i].name;
			struct json_guess *field = guess_field(guess, arena, name, strlen(name), err);

			if (!field || guess_of_type(field, type->fields[i].type, arena, err))
				return err->code;
		}
		return WEIR_OK;
	default:
		guess->kinds |= HAS_STRING;
		return WEIR_OK;
	}
}

const struct weir_type *json_infer_unify(struct weir_account *account, const struct weir_type *a,
					 const struct weir_type *b, struct weir_error *err)
{
	struct weir_arena arena;
	struct json_guess guess = {0};
	const struct weir_type *type = NULL;

	weir_arena_init(&arena, account);
	if (!guess_of_type(&guess, a, &arena, err) && !guess_of_type(&guess, b, &arena, err))
		type = guess_type(account, &guess, &arena, err);
	weir_arena_release(&arena);
	return type;
}

/* ── records that do not fit ── */

static int misfit_note(struct json_reader *self, const struct json_guess *field, struct weir_arena *arena,
		       struct weir_error *err)
{
	const struct weir_read_setup *setup = self->file->setup;
	const struct json_options *options = self->file->options;
	uint32_t at = json_keys_find(&self->keys, field->name, field->name_size);
	const struct weir_type *type, *wider;

	if (json_options_given(options, field->name))
		return WEIR_OK;
	if (at == JSON_NO_FIELD && (!self->wants_all || options->unexpected != JSON_UNEXPECTED_INFER))
		return WEIR_OK;
	type = guess_type(self->account, field, arena, err);
	if (!type)
		return err->code;
	wider = at == JSON_NO_FIELD ? weir_type_ref(type)
				    : json_infer_unify(self->account, self->schema->fields[at].type, type, err);
	weir_type_unref(type);
	if (!wider)
		return err->code;
	if (at == JSON_NO_FIELD || !weir_type_equal(wider, self->schema->fields[at].type, false))
		setup->misfit(setup->misfit_context, field->name, wider);
	weir_type_unref(wider);
	return WEIR_OK;
}

/* One value that does not fit is seldom alone, and a run may begin again only once: everything at hand is looked at. */
int json_misfits_note(struct json_reader *self, struct weir_error *err)
{
	const struct json_window *window = &self->cursor.window;
	struct weir_arena arena;
	struct json_guess root = {0};
	struct weir_error broken = {0};
	struct check check = {
		.window = window, .options = self->file->options, .arena = &arena, .scratch = &arena, .err = &broken};
	uint32_t entry = 0;
	int code = WEIR_OK;

	if (!self->file->setup->misfit)
		return WEIR_OK;
	weir_arena_init(&arena, self->account);
	/* Outside records stand commas, line ends and an array's brackets. What is broken, or not there whole, ends
	 * it. */
	while (entry < window->entry_count && !broken.code) {
		if (window->text[window->entries[entry]] == '{')
			entry = check_value(&check, entry, &root);
		else
			entry++;
	}
	for (const struct json_guess *field = root.first; !code && field; field = field->next)
		code = misfit_note(self, field, &arena, err);
	weir_arena_release(&arena);
	return code;
}

/* ── samples of files ── */

static int sample_read(struct check *check, struct json_cursor *cursor, struct json_guess *guess)
{
	struct weir_error *err = check->err;
	int code = json_cursor_fill(cursor, err);

	while (!code) {
		enum json_step step = json_cursor_find(cursor, err);

		if (step == JSON_ROW) {
			uint32_t behind = json_skip_value(&cursor->window, cursor->entry, check->options->depth_max,
							  err);

			if (!behind && !err->code)
				step = cursor->window.input.at_end ? JSON_FAILED : JSON_MORE;
			/* A record that the text does not hold whole, and never will, is wrong: this says where. */
			if (step != JSON_MORE && !err->code)
				behind = check_value(check, cursor->entry, guess);
			weir_arena_clear(check->scratch);
			if (step == JSON_ROW && !err->code)
				json_cursor_pass(cursor, behind);
		}
		if (step == JSON_END)
			break;
		code = err->code;
		if (!code && step == JSON_MORE)
			code = json_cursor_fill(cursor, err);
	}
	return code;
}

static int sample_fail(const struct json_file *file, uint64_t start, struct weir_error *err)
{
	uint64_t lines;
	struct weir_error ignored = {0};

	weir_error_at_source(err, weir_file_path(file->base.file));
	if (err->has_line && start && !json_lines_before(file, start, &lines, &ignored))
		err->line += (int64_t)lines;
	return err->code;
}

static int file_sample(struct check *check, struct json_cursor *cursor, struct weir_io *io,
		       const struct json_file *file, uint32_t file_count, struct json_guess *guess)
{
	struct weir_text_sample samples[WEIR_SAMPLES_MAX];
	struct weir_error *err = check->err;
	uint32_t count = 1;

	samples[0] = (struct weir_text_sample){0, UINT64_MAX};
	if (!check->options->infer_all)
		count = weir_text_samples(weir_file_size(file->base.file), file->is_plain, file_count, samples);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t start = 0, end = samples[i].begin + samples[i].size;

		if (check->options->infer_all)
			end = UINT64_MAX;
		/* Only in lines is it certain where a record begins. */
		if (i && file->layout != JSON_LAYOUT_LINES)
			break;
		if (i && json_line_find(cursor, io, file, samples[i].begin, &start, err))
			return err->code;
		if (i && start >= end)
			continue;
		if (json_cursor_open(cursor, io, file, start, end, err) || sample_read(check, cursor, guess))
			return sample_fail(file, start, err);
	}
	return WEIR_OK;
}

/* The guess that a path leads to: "a", "b.c", "d.[].e"; a field whose name has the points in it comes first. */
static struct json_guess *guess_at(struct json_guess *guess, const char *path, struct weir_arena *arena,
				   struct weir_error *err)
{
	const char *point;

	for (;;) {
		size_t size = strlen(path);
		struct json_guess *whole = guess_find(guess, path, size);

		point = strchr(path, '.');
		if (whole)
			return whole;
		size = point ? (size_t)(point - path) : size;
		if (size == 2 && memcmp(path, "[]", 2) == 0) {
			guess->kinds = HAS_LIST;
			guess = guess_item(guess, arena, err);
		} else {
			guess->kinds = HAS_OBJECT;
			guess = guess_field(guess, arena, path, size, err);
		}
		if (!guess || !point)
			return guess;
		path = point + 1;
	}
}

int json_infer(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *const *files,
	       uint32_t count, struct weir_schema **out, struct weir_error *err)
{
	const struct json_options *options = json_options_of(setup);
	uint32_t sample_count = options->infer_all ? count : weir_sample_file_count(count);
	struct weir_arena arena, scratch;
	struct json_guess root = {0};
	struct json_cursor cursor;
	struct check check = {.options = options, .arena = &arena, .scratch = &scratch, .err = err};
	struct weir_field *fields = NULL;
	uint32_t field_count = 0;
	int code = WEIR_OK;

	weir_error_clear(err); /* whether it holds one is asked below */
	weir_arena_init(&arena, account);
	weir_arena_init(&scratch, account);
	json_cursor_init(&cursor, account);
	check.window = &cursor.window;
	for (uint32_t i = 0; !code && i < sample_count; i++) {
		struct json_file file = {
			.base = {.file = files[options->infer_all ? i : weir_sample_file(i, count)]},
			.setup = setup,
			.options = options,
		};

		code = json_layout_find(account, &file, err);
		if (!code)
			code = file_sample(&check, &cursor, setup->io, &file, sample_count, &root);
		weir_error_at_source(err, weir_file_path(file.base.file));
	}
	for (uint32_t i = 0; !code && i < options->given_count; i++) {
		struct json_guess *guess = guess_at(&root, options->given[i].path, &arena, err);

		code = guess ? WEIR_OK : err->code;
		if (guess)
			guess->given = options->given[i].type_text;
	}
	if (!code)
		code = guess_fields(account, &root, &arena, &fields, &field_count, err);
	if (!code) {
		*out = weir_schema_new(account, fields, field_count, NULL, err);
		code = *out ? WEIR_OK : err->code;
		for (uint32_t i = 0; i < field_count; i++)
			weir_type_unref(fields[i].type);
	}
	json_cursor_release(&cursor);
	weir_arena_release(&scratch);
	weir_arena_release(&arena);
	return code;
}
