/* Types that were inferred too narrow: how two inferred types become one, and what readers have met that does not fit.
 *
 * A reader notes a misfit and fails. Where its range began at a guess the misfit may be none: a note counts only once
 * the failure has been judged (settle), by the thread that made it. Notes that stand are added to what bind infers, if
 * the run is begun again (api/job.c).
 */
#include "base/list.h"
#include "ops/read_impl.h"

#include <pthread.h>
#include <string.h>

struct misfit {
	pthread_t thread;
	bool stands;
	char *column;                 /* owned */
	const struct weir_type *type; /* a reference */
};

struct read_misfits {
	struct weir_account *account;
	pthread_mutex_t lock; /* guards the list; rank: nothing is called under it but the account */
	struct WEIR_LIST(struct misfit) notes;
};

static bool is_date_or_timestamp(const struct weir_type *type)
{
	return type->id == WEIR_DATE32 || type->id == WEIR_TIMESTAMP;
}

static const struct weir_type *widen(struct weir_account *account, const struct weir_type *a, const struct weir_type *b,
				     struct weir_error *err);

/* Of lists their items, of structs their fields, by name; those that only one has follow. */
static const struct weir_type *widen_nested(struct weir_account *account, const struct weir_type *a,
					    const struct weir_type *b, struct weir_error *err)
{
	size_t capacity = ((size_t)a->field_count + b->field_count) * sizeof(struct weir_field);
	struct weir_field *fields = weir_alloc(account, capacity, err);
	const struct weir_type *both = NULL;
	uint32_t count = a->field_count;

	if (!fields)
		return NULL;
	for (uint32_t i = 0; i < count; i++) {
		fields[i] = a->fields[i];
		weir_type_ref(fields[i].type);
	}
	for (uint32_t i = 0; i < b->field_count; i++) {
		const struct weir_type *wider;
		uint32_t at = 0;

		while (a->id == WEIR_STRUCT && at < a->field_count && strcmp(fields[at].name, b->fields[i].name) != 0)
			at++;
		if (at == a->field_count) {
			fields[count] = b->fields[i];
			weir_type_ref(fields[count++].type);
			continue;
		}
		wider = widen(account, fields[at].type, b->fields[i].type, err);
		if (!wider)
			goto out;
		weir_type_unref(fields[at].type);
		fields[at].type = wider;
	}
	both = a->id == WEIR_STRUCT ? weir_type_struct(account, fields, count, err)
				    : weir_type_list(account, a->id, &fields[0], 0, false, err);
out:
	for (uint32_t i = 0; i < count; i++)
		weir_type_unref(fields[i].type);
	weir_free(account, fields, capacity);
	return both;
}

/* Numbers become wider, dates timestamps, null anything; what has nothing else in common are texts. */
static const struct weir_type *widen(struct weir_account *account, const struct weir_type *a, const struct weir_type *b,
				     struct weir_error *err)
{
	const struct weir_type *both;

	if (a->id != b->id && is_date_or_timestamp(a) && is_date_or_timestamp(b))
		return weir_type_ref(a->id == WEIR_TIMESTAMP ? a : b);
	if (a->id == b->id && (a->id == WEIR_STRUCT || a->id == WEIR_LIST_TYPE))
		return widen_nested(account, a, b, err);
	if (a->id == WEIR_STRING)
		return weir_type_ref(a);
	both = weir_type_unify(account, a, b, err);
	if (both || err->code != WEIR_E_TYPE)
		return both;
	weir_error_clear(err);
	return weir_type_ref(weir_type_of(WEIR_STRING));
}

static const struct weir_type *widen_for(const struct weir_format_ops *format, struct weir_account *account,
					 const struct weir_type *a, const struct weir_type *b, struct weir_error *err)
{
	return format->widen ? format->widen(account, a, b, err) : widen(account, a, b, err);
}

/* `field` gets the wider type; the old one stays with whoever holds it. *made is to be released. */
static int widen_field(const struct weir_format_ops *format, struct weir_account *account, struct weir_field *field,
		       const struct weir_type *type, const struct weir_type **made, struct weir_error *err)
{
	*made = widen_for(format, account, field->type, type, err);
	if (!*made) {
		weir_error_at_column(err, field->name);
		return err->code;
	}
	field->type = *made;
	return WEIR_OK;
}

int weir_read_widen_schema(const struct weir_format_ops *format, struct weir_account *account,
			   const struct weir_schema *a, const struct weir_schema *b, struct weir_schema **out,
			   struct weir_error *err)
{
	size_t capacity = (size_t)a->field_count + b->field_count + 1;
	struct weir_field *fields = weir_alloc_zero(account, capacity * sizeof(*fields), err);
	const struct weir_type **made = weir_alloc_zero(account, capacity * sizeof(*made), err);
	uint32_t count = a->field_count;
	int code = fields && made ? WEIR_OK : err->code;

	for (uint32_t i = 0; !code && i < a->field_count; i++)
		fields[i] = a->fields[i];
	for (uint32_t i = 0; !code && i < b->field_count; i++) {
		uint32_t at = 0, before = 0;

		/* Of several columns with one name the n-th belongs to the n-th. */
		for (uint32_t k = 0; k < i; k++)
			before += strcmp(b->fields[k].name, b->fields[i].name) == 0;
		for (; at < a->field_count; at++)
			if (strcmp(a->fields[at].name, b->fields[i].name) == 0 && before-- == 0)
				break;
		if (at == a->field_count) {
			fields[count++] = b->fields[i];
			continue;
		}
		fields[at].nullable |= b->fields[i].nullable;
		code = widen_field(format, account, &fields[at], b->fields[i].type, &made[i], err);
	}
	if (!code) {
		*out = weir_schema_new(account, fields, count, &a->metadata, err);
		code = *out ? WEIR_OK : err->code;
	}
	for (uint32_t i = 0; made && i < b->field_count; i++)
		weir_type_unref(made[i]);
	weir_free(account, made, capacity * sizeof(*made));
	weir_free(account, fields, capacity * sizeof(*fields));
	return code;
}

/* ---- misfits ---- */

int weir_read_misfits_new(struct weir_account *account, struct read_misfits **out, struct weir_error *err)
{
	struct read_misfits *misfits = weir_alloc_zero(account, sizeof(*misfits), err);

	*out = misfits;
	if (!misfits)
		return err->code;
	misfits->account = account;
	pthread_mutex_init(&misfits->lock, NULL);
	return WEIR_OK;
}

static void misfit_release(struct read_misfits *misfits, struct misfit *misfit)
{
	weir_strfree(misfits->account, misfit->column);
	weir_type_unref(misfit->type);
}

void weir_read_misfits_free(void *state)
{
	struct read_misfits *misfits = state;

	if (!misfits)
		return;
	for (size_t i = 0; i < misfits->notes.count; i++)
		misfit_release(misfits, &misfits->notes.items[i]);
	weir_list_release(&misfits->notes, misfits->account);
	pthread_mutex_destroy(&misfits->lock);
	weir_free(misfits->account, misfits, sizeof(*misfits));
}

/* The same type in memory of `account`: what a lane made goes with the lane. */
static const struct weir_type *copy_type(struct weir_account *account, const struct weir_type *type,
					 struct weir_error *err)
{
	size_t size = type->field_count * sizeof(struct weir_field);
	const struct weir_type *copy = NULL;
	struct weir_field *fields;
	uint32_t count = 0;

	if (type->is_static)
		return weir_type_ref(type);
	if (type->id == WEIR_TIMESTAMP)
		return weir_type_temporal(account, type->id, type->unit, type->timezone, err);
	if (type->id != WEIR_STRUCT && type->id != WEIR_LIST_TYPE) {
		char name[128];

		return weir_type_parse(account, weir_type_name(type, name, sizeof(name)), err);
	}
	fields = weir_alloc(account, size, err);
	if (!fields)
		return NULL;
	for (; count < type->field_count; count++) {
		fields[count] = type->fields[count];
		fields[count].type = copy_type(account, type->fields[count].type, err);
		if (!fields[count].type)
			goto out;
	}
	copy = type->id == WEIR_STRUCT ? weir_type_struct(account, fields, count, err)
				       : weir_type_list(account, type->id, &fields[0], 0, false, err);
out:
	while (count)
		weir_type_unref(fields[--count].type);
	weir_free(account, fields, size);
	return copy;
}

/* struct weir_read_setup.misfit. A note that finds no memory is not made: the reader's error stands all the same. */
void weir_read_misfit(void *context, const char *column, const struct weir_type *wider)
{
	struct read_misfits *misfits = context;
	struct misfit misfit = {.thread = pthread_self()};
	struct weir_error ignored = {0};

	pthread_mutex_lock(&misfits->lock);
	misfit.column = weir_strdup(misfits->account, column, &ignored);
	misfit.type = copy_type(misfits->account, wider, &ignored);
	if (!misfit.column || !misfit.type || weir_list_push(&misfits->notes, misfits->account, &ignored, misfit))
		misfit_release(misfits, &misfit);
	pthread_mutex_unlock(&misfits->lock);
}

void weir_read_misfits_settle(struct read_misfits *misfits, bool stand)
{
	size_t kept = 0;

	if (!misfits)
		return;
	pthread_mutex_lock(&misfits->lock);
	for (size_t i = 0; i < misfits->notes.count; i++) {
		struct misfit *misfit = &misfits->notes.items[i];

		if (!misfit->stands && pthread_equal(misfit->thread, pthread_self())) {
			if (!stand) {
				misfit_release(misfits, misfit);
				continue;
			}
			misfit->stands = true;
		}
		misfits->notes.items[kept++] = *misfit;
	}
	misfits->notes.count = kept;
	pthread_mutex_unlock(&misfits->lock);
}

bool weir_read_is_repeatable(const struct weir_node *node)
{
	const struct read_config *config = node->config;

	return node->op != &weir_op_read || !config->input || !weir_file_is_pipe(config->input);
}

/* Two lanes may have noted one column: the first note that says it in full is enough. */
static bool said_before(const struct read_misfits *misfits, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (misfits->notes.items[k].stands &&
		    strcmp(misfits->notes.items[k].column, misfits->notes.items[i].column) == 0)
			return true;
	return false;
}

int weir_read_misfits_print(const struct weir_node *node, struct weir_text *out, struct weir_error *err)
{
	const struct read_config *config = node->config;
	struct read_misfits *misfits = node->op == &weir_op_read && !config->widened ? config->misfits : NULL;
	int code = WEIR_OK;

	for (size_t i = 0; !code && misfits && i < misfits->notes.count; i++) {
		const struct misfit *misfit = &misfits->notes.items[i];
		const struct weir_type *type = NULL;
		char name[96], before[96];
		uint32_t column;

		if (!misfit->stands || said_before(misfits, i))
			continue;
		if (weir_schema_find(config->setup.schema, misfit->column, &column, err)) {
			weir_error_clear(err);
			code = weir_text_printf(out, err, "%s%s as %s, which is new", out->size ? "; " : "",
						misfit->column, weir_type_name(misfit->type, name, sizeof(name)));
			continue;
		}
		type = widen_for(config->format, misfits->account, config->setup.schema->fields[column].type,
				 misfit->type, err);
		if (!type)
			return err->code;
		code = weir_text_printf(
			out, err, "%s%s as %s, not %s", out->size ? "; " : "", misfit->column,
			weir_type_name(type, name, sizeof(name)),
			weir_type_name(config->setup.schema->fields[column].type, before, sizeof(before)));
		weir_type_unref(type);
	}
	return code;
}

int weir_read_misfits_apply(struct read_config *config, struct weir_account *account, struct weir_schema **schema,
			    struct weir_error *err)
{
	const struct read_misfits *misfits = config->misfits;
	int code = WEIR_OK;

	for (size_t i = 0; !code && misfits && i < misfits->notes.count; i++) {
		const struct misfit *misfit = &misfits->notes.items[i];
		struct weir_field field = {.name = misfit->column, .type = misfit->type, .nullable = true};
		struct weir_schema *one, *both = NULL;

		if (!misfit->stands)
			continue;
		one = weir_schema_new(account, &field, 1, NULL, err);
		code = one ? weir_read_widen_schema(config->format, account, *schema, one, &both, err) : err->code;
		weir_schema_unref(one);
		if (!code) {
			weir_schema_unref(*schema);
			*schema = both;
			config->widened = true;
		}
	}
	return code;
}
