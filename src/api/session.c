/* Sessions as programs open them. */
#include "api/api_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_folder(const char *path, struct weir_error *err)
{
	struct stat status;

	if (stat(path, &status))
		weir_error_set_errno(err, errno, "the spill_dir cannot be used");
	else if (!S_ISDIR(status.st_mode))
		weir_error_set(err, WEIR_E_INVALID, "the spill_dir is not a folder");
	else if (access(path, W_OK | X_OK))
		weir_error_set_errno(err, errno, "the spill_dir cannot be written to");
	else
		return WEIR_OK;
	weir_error_at_source(err, path);
	return err->code;
}

int api_session_new(const struct weir_options *options, struct weir_session **out, struct weir_error *err)
{
	struct weir_options own = {0};
	struct weir_session_options given = {0};
	const char *spill_dirs[2] = {NULL, NULL};
	int code = WEIR_OK;

	if (options)
		API_COPY_IN(&own, options);
	if (own.memory_limit < 0)
		return weir_error_set(err, WEIR_E_INVALID, "memory_limit is %lld", (long long)own.memory_limit);
	if (own.spill_dir)
		code = check_folder(own.spill_dir, err);
	spill_dirs[0] = own.spill_dir;
	given.memory_limit = own.memory_limit;
	given.threads = own.threads;
	given.spill_dirs = own.spill_dir ? spill_dirs : NULL;
	given.log = (struct weir_log_sink){own.log, own.log_data};
	return code ? code : weir_session_new(&given, out, err);
}

int weir_session_open(const struct weir_options *options, struct weir_session **out, struct weir_error **error)
{
	struct weir_error err = {0};
	int code = api_need(out, "`out` of weir_session_open", error);

	if (code)
		return code;
	*out = NULL;
	code = options ? api_check_size("weir_options", options->struct_size, &err) : WEIR_OK;
	if (!code)
		code = api_session_new(options, out, &err);
	return code ? api_report(&err, error) : WEIR_OK;
}

void weir_session_close(struct weir_session *session)
{
	weir_session_free(session);
}
