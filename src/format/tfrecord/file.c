/* An opened TFRecord file, and how it is cut into ranges of bytes. Nothing is read to open one. Ranges begin at guesses
 * (format/cuts.h): a record whose bytes hold another record is what makes one wrong. */
#include "format/tfrecord/tfrecord_impl.h"

enum { RANGE_BYTES_MIN = 1 << 20 };

static void file_close(struct weir_format_file *base)
{
	struct tf_file *self = (struct tf_file *)base;

	weir_schema_unref(base->schema);
	weir_cuts_free(base->cuts);
	weir_file_unref(base->file);
	weir_free(self->account, self, sizeof(*self));
}

static int file_open(struct weir_account *account, const struct weir_read_setup *setup, struct weir_file *file,
		     struct weir_format_file **out, struct weir_error *err)
{
	struct tf_file *self = weir_alloc_zero(account, sizeof(*self), err);

	*out = NULL;
	if (!self)
		return err->code;
	WEIR_ASSERT(setup->schema);
	self->account = account;
	self->setup = setup;
	self->options = tf_options_of(setup);
	self->is_plain = weir_stream_is_plain(file, &self->options->stream);
	self->base = (struct weir_format_file){
		.ops = &weir_tfrecord_format, .file = weir_file_ref(file), .row_count = -1};
	atomic_init(&self->base.refs, 1);
	self->base.schema = weir_schema_ref(setup->schema);
	self->base.bytes_decoded_est = weir_file_size(file);
	if (self->is_plain) {
		if (weir_cuts_new(account, &self->base.cuts, err)) {
			file_close(&self->base);
			return err->code;
		}
		weir_cuts_begin(self->base.cuts, 0, 1);
	}
	*out = &self->base;
	return WEIR_OK;
}

static int file_ranges(struct weir_format_file *base, const struct weir_scan *scan, uint64_t bytes_target,
		       int (*visit)(void *context, const struct weir_range *range), void *context,
		       struct weir_error *err)
{
	struct tf_file *self = (struct tf_file *)base;
	uint64_t size = weir_file_size(base->file);

	(void)scan;
	(void)err;
	if (!self->is_plain)
		return visit(context, &(struct weir_range){.end = UINT64_MAX, .bytes_decoded_est = size});
	return size ? weir_byte_ranges(0, size, bytes_target, RANGE_BYTES_MIN, 1, visit, context) : WEIR_OK;
}

static const char *const extensions[] = {".tfrecords", ".tfrecord", NULL};

const struct weir_format_ops weir_tfrecord_format = {
	.name = "tfrecord",
	.extensions = extensions,
	.option_names = tf_option_names,
	.options_parse = tf_options_parse,
	.infer = tf_infer,
	.widen = tf_widen,
	.open = file_open,
	.close = file_close,
	.ranges = file_ranges,
	.reader_new = tf_reader_new,
	.reader_open = tf_reader_open,
	.reader_next = tf_reader_next,
	.reader_start = tf_reader_start,
	.reader_stats = tf_reader_stats,
	.reader_free = tf_reader_free,
};
