/* What columns files have: their records say it each for itself, so some are looked at (or all, if asked for).
 *
 * A feature that has one value in each record, or none, is a column of values, null where there is none. One that has
 * several anywhere is a column of lists, empty where it is there without values, null where it is not there. Examples
 * do not say which of both was meant; a reader that meets a second value in a column of values tells the read (a
 * misfit).
 */
#include "format/tfrecord/tfrecord_impl.h"

#include <string.h>

enum {
	/* Passing over values is as fast as reading, and a feature that is met late ends a run whose rows somebody has:
	 * much is looked at, of all files together. */
	SAMPLE_BYTES = 256 << 20,
	SAMPLE_INFLATED = 64 << 20, /* of files that are not plain */
	SAMPLE_PIECES = 32,         /* of a file that is larger than its share */
	FEATURES_MAX = 100000,      /* of all records looked at: columns */
};

/* ---- types ---- */

static const struct weir_type *list_of(struct weir_account *account, const struct weir_type *item,
				       struct weir_error *err)
{
	struct weir_field field = {.name = "item", .type = item, .nullable = true};

	return weir_type_list(account, WEIR_LIST_TYPE, &field, 0, false, err);
}

static void bytes_and_numbers(struct weir_error *err)
{
	weir_error_set(err, WEIR_E_DATA,
		       "the feature has bytes in some records and numbers in others, which no column holds; "
		       "--types and --unexpected ignore can leave it out");
}

const struct weir_type *tf_shape_type(struct weir_account *account, const struct tf_shape *shape,
				      struct weir_error *err)
{
	enum weir_type_id id = shape->kinds == TF_BYTES   ? WEIR_BINARY
			       : shape->kinds == TF_FLOAT ? WEIR_FLOAT
			       : shape->kinds == TF_INT   ? WEIR_INT64
			       : shape->kinds             ? WEIR_DOUBLE
							  : WEIR_NULL;

	if (shape->kinds & TF_BYTES && shape->kinds != TF_BYTES) {
		bytes_and_numbers(err);
		return NULL;
	}
	if (shape->has_many || !shape->has_one)
		return list_of(account, weir_type_of(id), err);
	return weir_type_ref(weir_type_of(id));
}

bool tf_shape_of(const struct weir_type *type, struct tf_shape *out)
{
	bool is_list = type->id == WEIR_LIST_TYPE;
	const struct weir_type *item = is_list ? type->fields[0].type : type;

	*out = (struct tf_shape){.has_one = !is_list, .has_many = is_list};
	switch (item->id) {
	case WEIR_NULL:
		out->has_many = false;
		return is_list;
	case WEIR_BINARY:
		out->kinds = TF_BYTES;
		return true;
	case WEIR_FLOAT:
		out->kinds = TF_FLOAT;
		return true;
	case WEIR_INT64:
		out->kinds = TF_INT;
		return true;
	case WEIR_DOUBLE:
		out->kinds = TF_FLOAT | TF_INT;
		return true;
	default:
		return false;
	}
}

const struct weir_type *tf_widen(struct weir_account *account, const struct weir_type *a, const struct weir_type *b,
				 struct weir_error *err)
{
	struct tf_shape both, more;

	if (!tf_shape_of(a, &both) || !tf_shape_of(b, &more)) {
		weir_error_set(err, WEIR_E_INTERNAL, "a type that no feature has");
		return NULL;
	}
	both.kinds |= more.kinds;
	both.has_one |= more.has_one;
	both.has_many |= more.has_many;
	return tf_shape_type(account, &both, err);
}

/* ---- samples ---- */

struct seen {
	struct tf_shape shape;
	/* In the record that is looked at: of two features with one name the later one counts. */
	enum tf_kind kind;
	uint64_t count, record;
};

struct guess {
	struct weir_account *account;
	const struct tf_options *options;
	struct weir_arena arena;
	struct weir_name_index names;
	struct WEIR_LIST(struct seen) list; /* by name */
	uint64_t record;                    /* its number, from 1 */
};

static int look_feature(struct guess *guess, const struct tf_feature *feature, struct tf_walk *walk,
			struct weir_error *err)
{
	uint32_t at = weir_name_index_find(&guess->names, feature->name, feature->name_size);
	struct tf_values values;

	if (at == WEIR_NO_NAME) {
		char *name = weir_arena_strndup(&guess->arena, (const char *)feature->name, feature->name_size, err);

		if (!name || weir_list_push(&guess->list, guess->account, err, (struct seen){0}) ||
		    weir_name_index_add(&guess->names, name, feature->name_size, err))
			return err->code;
		at = (uint32_t)guess->names.list.count - 1;
		if (guess->names.list.count > FEATURES_MAX)
			return weir_error_set(err, WEIR_E_UNSUPPORTED,
					      "the records have more than %d different features", FEATURES_MAX);
	}
	if (!tf_values_begin(feature->bytes, feature->size, &values)) {
		walk->broken = values.broken;
		walk->broken_at = values.broken_at;
		return WEIR_OK;
	}
	guess->list.items[at].kind = values.kind;
	guess->list.items[at].count = values.count;
	guess->list.items[at].record = guess->record;
	return WEIR_OK;
}

static int add_feature(struct guess *guess, const struct tf_feature *feature, struct weir_error *err)
{
	uint32_t at = weir_name_index_find(&guess->names, feature->name, feature->name_size);
	struct seen *seen = &guess->list.items[at];
	struct tf_shape *shape = &seen->shape;

	if (seen->record != guess->record)
		return WEIR_OK; /* added already */
	seen->record = 0;
	if (seen->count)
		shape->kinds |= seen->kind;
	shape->has_one |= seen->count == 1;
	shape->has_many |= seen->count > 1;
	if (shape->kinds <= TF_BYTES || !(shape->kinds & TF_BYTES) ||
	    tf_options_given(guess->options, guess->names.list.items[at].text))
		return WEIR_OK;
	bytes_and_numbers(err);
	weir_error_at_column(err, guess->names.list.items[at].text);
	return err->code;
}

static int look_record(struct guess *guess, const struct weir_text_input *input, const struct tf_frame *frame,
		       struct weir_error *err)
{
	const uint8_t *record = input->text + frame->begin;
	struct tf_walk walk = tf_walk_begin(record, frame->size), again;
	struct tf_feature feature;
	int code = WEIR_OK;

	guess->record++;
	while (!code && !walk.broken && tf_walk_next(&walk, &feature))
		code = look_feature(guess, &feature, &walk, err);
	again = tf_walk_begin(record, frame->size);
	while (!code && !walk.broken && tf_walk_next(&again, &feature))
		code = add_feature(guess, &feature, err);
	if (code)
		weir_error_at_offset(err, weir_text_input_offset(input));
	if (code || !walk.broken)
		return code;
	weir_error_set(err, WEIR_E_DATA, "the record is no tf.train.Example: it has %s", walk.broken);
	weir_error_at_offset(err, input->offset + (uint64_t)(walk.broken_at - input->text));
	return err->code;
}

/* The records that begin in [begin, end). */
static int look_at(struct guess *guess, struct weir_text_input *input, struct weir_io *io, struct weir_file *file,
		   uint64_t begin, uint64_t end, struct weir_error *err)
{
	bool is_plain = weir_stream_is_plain(file, &guess->options->stream), found = true, more;
	uint64_t size = is_plain ? weir_file_size(file) : 0, start = begin;
	struct tf_frame frame;
	int64_t row = 0;
	int code = weir_text_input_open(input, io, file, begin, &guess->options->stream, err);

	if (!code && begin)
		code = tf_frame_guess(input, size, begin, end, &start, err);
	while (!code && found && start != UINT64_MAX && weir_text_input_offset(input) < end) {
		code = tf_frame_next(input, size, true, true, &frame, &found, &more, err);
		if (!code && found) {
			code = look_record(guess, input, &frame, err);
			tf_frame_pass(input, &frame);
			row += !code;
		}
	}
	weir_text_input_close(input);
	/* What is damaged is for whoever comes to it: rows before it may be all that somebody wants. Inside of a file a
	 * record was only guessed. */
	if (code == WEIR_E_DATA && (begin || row) && !err->column[0]) {
		weir_error_clear(err);
		code = WEIR_OK;
	}
	if (code) {
		weir_error_at_source(err, weir_file_path(file));
		if (code == WEIR_E_DATA)
			weir_error_at_row(err, row);
	}
	return code;
}

static int look_file(struct guess *guess, struct weir_text_input *input, struct weir_io *io, struct weir_file *file,
		     uint32_t file_count, struct weir_error *err)
{
	uint64_t share = SAMPLE_BYTES / file_count, size = weir_file_size(file), piece = share / SAMPLE_PIECES;
	int code = WEIR_OK;

	if (guess->options->infer_all)
		return look_at(guess, input, io, file, 0, UINT64_MAX, err);
	if (!weir_stream_is_plain(file, &guess->options->stream))
		return look_at(guess, input, io, file, 0, SAMPLE_INFLATED / file_count, err);
	if (size <= share)
		return look_at(guess, input, io, file, 0, size, err);
	for (uint64_t i = 0; !code && i < SAMPLE_PIECES; i++) {
		uint64_t begin = (size - piece) / (SAMPLE_PIECES - 1) * i;

		code = look_at(guess, input, io, file, begin, begin + piece, err);
	}
	return code;
}

static int schema_of(struct guess *guess, struct weir_schema **out, struct weir_error *err)
{
	const struct tf_options *options = guess->options;
	size_t capacity = guess->list.count + options->given_count + 1;
	struct weir_field *fields = weir_alloc_zero(guess->account, capacity * sizeof(*fields), err);
	uint32_t count = 0;
	int code = fields ? WEIR_OK : err->code;

	for (uint32_t i = 0; !code && i < options->given_count; i++) {
		fields[count] = (struct weir_field){.name = options->given[i].name, .nullable = true};
		fields[count].type = weir_type_parse(guess->account, options->given[i].type_text, err);
		code = fields[count].type ? WEIR_OK : err->code;
		count += !code;
	}
	for (uint32_t i = 0; !code && i < guess->list.count; i++) {
		const char *name = guess->names.list.items[i].text;

		if (options->unexpected != TF_UNEXPECTED_INFER || tf_options_given(options, name))
			continue;
		fields[count] = (struct weir_field){.name = name, .nullable = true};
		fields[count].type = tf_shape_type(guess->account, &guess->list.items[i].shape, err);
		code = fields[count].type ? WEIR_OK : err->code;
		if (code)
			weir_error_at_column(err, name);
		count += !code;
	}
	if (!code) {
		*out = weir_schema_new(guess->account, fields, count, NULL, err);
		code = *out ? WEIR_OK : err->code;
	}
	for (uint32_t i = 0; i < count; i++)
		weir_type_unref(fields[i].type);
	weir_free(guess->account, fields, capacity * sizeof(*fields));
	return code;
}

static void guess_init(struct guess *guess, struct weir_account *account, const struct tf_options *options)
{
	*guess = (struct guess){.account = account, .options = options};
	weir_arena_init(&guess->arena, account);
	weir_name_index_init(&guess->names, account);
}

static void guess_release(struct guess *guess)
{
	weir_name_index_release(&guess->names);
	weir_list_release(&guess->list, guess->account);
	weir_arena_release(&guess->arena);
}

int tf_infer(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *const *files,
	     uint32_t count, struct weir_schema **out, struct weir_error *err)
{
	const struct tf_options *options = tf_options_of(setup);
	uint32_t sample_count = options->infer_all ? count : weir_sample_file_count(count);
	struct weir_text_input input;
	struct guess guess;
	int code = WEIR_OK;

	*out = NULL;
	guess_init(&guess, account, options);
	weir_text_input_init(&input, account);
	for (uint32_t i = 0; !code && options->unexpected == TF_UNEXPECTED_INFER && i < sample_count; i++)
		code = look_file(&guess, &input, setup->io, files[options->infer_all ? i : weir_sample_file(i, count)],
				 sample_count, err);
	if (!code)
		code = schema_of(&guess, out, err);
	weir_text_input_release(&input);
	guess_release(&guess);
	return code;
}

/* ---- records that do not fit ---- */

static int note(struct tf_reader *self, const char *name, const struct tf_shape *seen, struct weir_error *err)
{
	const struct weir_read_setup *setup = self->file->setup;
	uint32_t at = weir_name_index_find(&self->scan.names, name, strlen(name));
	struct weir_error ignored = {0};
	const struct weir_type *type, *wider;

	if (tf_options_given(self->file->options, name) ||
	    (at == WEIR_NO_NAME && (!self->scan.wants_all || self->file->options->unexpected != TF_UNEXPECTED_INFER)))
		return WEIR_OK;
	type = tf_shape_type(self->account, seen, &ignored);
	if (!type)
		return ignored.code == WEIR_E_DATA ? WEIR_OK : weir_error_set(err, ignored.code, "%s", ignored.message);
	wider = at == WEIR_NO_NAME ? weir_type_ref(type)
				   : tf_widen(self->account, self->scan.schema->fields[at].type, type, &ignored);
	weir_type_unref(type);
	/* What no type holds is not noted: the error stands. */
	if (!wider)
		return ignored.code == WEIR_E_DATA ? WEIR_OK : weir_error_set(err, ignored.code, "%s", ignored.message);
	if (at == WEIR_NO_NAME || !weir_type_equal(wider, self->scan.schema->fields[at].type, false))
		setup->misfit(setup->misfit_context, name, wider);
	weir_type_unref(wider);
	return WEIR_OK;
}

/* One value that does not fit is seldom alone, and a run may begin again only once: everything at hand is looked at.
 * What is damaged in the record that does not fit, which begins at `at` of the window, or in one before it, is the
 * error instead, if all columns are read: types were looked for only as far as the damage. */
int tf_misfits_note(struct tf_reader *self, size_t at, struct weir_error *err)
{
	struct weir_text_input window = self->input;
	struct weir_error broken = {0};
	struct tf_frame frame;
	struct guess guess;
	bool found = true, more = false, is_noted = self->file->setup && self->file->setup->misfit;
	size_t begin = 0;
	int code = WEIR_OK;

	guess_init(&guess, self->account, self->file->options);
	/* From the first record of the vector that is out, or of the one that is being made. */
	window.begin = self->offsets[0];
	while (!broken.code && found && !tf_frame_next(&window, 0, false, false, &frame, &found, &more, &broken) &&
	       found) {
		begin = window.begin;
		look_record(&guess, &window, &frame, &broken);
		tf_frame_pass(&window, &frame);
	}
	if (broken.code == WEIR_E_DATA && begin <= at && self->scan.wants_all) {
		*err = broken;
		weir_error_at_source(err, weir_file_path(self->file->base.file));
		code = err->code;
	}
	for (uint32_t i = 0; is_noted && !code && i < guess.list.count; i++)
		code = note(self, guess.names.list.items[i].text, &guess.list.items[i].shape, err);
	guess_release(&guess);
	return code;
}
