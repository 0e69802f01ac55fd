/* The two halves of write: what the plan knows (write.c) and what lanes do (write_sink.c). */
#ifndef WEIR_OPS_WRITE_IMPL_H
#define WEIR_OPS_WRITE_IMPL_H

#include "ops/ops_impl.h"
#include "ops/write_text.h"

struct write_config {
	const char *target; /* "-": standard output */
	const char *format; /* name of the writer; NULL: by extension, else Parquet */
	const char *encoding;
	const char *name, *extension; /* of files in folders: instead of "part" and of the format's own; NULL: those */
	enum weir_write_mode mode;
	bool durable, no_dictionary, no_page_index, data_page_v2, objects_pickled;
	bool codec_given; /* else it is the writer's own */
	enum weir_codec codec;
	int64_t codec_level, rows_per_file, bytes_per_file, row_group_rows, row_group_bytes;
	struct weir_write_text text;
};

bool weir_write_is_pipe(const struct write_config *config);
/* *one_file: all splits go into it, or into a pipe, in order; else each has files of its own in a folder. */
int weir_write_choose(const struct write_config *config, const struct weir_writer_ops **out, bool *one_file,
		      struct weir_error *err);

/* write_sink.c */
int weir_write_build(struct weir_op_env *env, struct weir_node *node, struct weir_fragment *fragment,
		     struct weir_error *err);

#endif
