/* One encapsulated message: where its metadata and its body lie, and what it holds. */
#include "arrow/ipc_impl.h"

#include <string.h>

int ipc_metadata_open(const uint8_t *bytes, uint64_t size, struct ipc_message *out, struct weir_error *err)
{
	struct flat_table message;
	uint32_t words[2], prefix_size = 4;
	int64_t body_size;
	int code;

	*out = (struct ipc_message){0};
	if (size < 4)
		return weir_error_set(err, WEIR_E_DATA, "an Arrow message ends inside its length");
	memcpy(words, bytes, 4);
	/* Writers before Arrow 0.15 had no marker in front of the length. */
	if (words[0] == UINT32_MAX) {
		prefix_size = IPC_PREFIX_SIZE;
		if (size < prefix_size)
			return weir_error_set(err, WEIR_E_DATA, "an Arrow message ends inside its length");
		memcpy(words, bytes + 4, 4);
	}
	if (words[0] == 0)
		return WEIR_OK;
	if (words[0] > INT32_MAX || words[0] > size - prefix_size)
		return weir_error_set(err, WEIR_E_DATA, "an Arrow message of %u bytes does not fit into the %llu left",
				      words[0], (unsigned long long)(size - prefix_size));
	flat_open(&out->flat, bytes + prefix_size, words[0], &message);
	out->version = flat_i16(&message, MESSAGE_VERSION, 0);
	out->header_type = flat_u8(&message, MESSAGE_HEADER_TYPE, HEADER_NONE);
	flat_child(&message, MESSAGE_HEADER, &out->header);
	body_size = flat_i64(&message, MESSAGE_BODY_LENGTH, 0);
	code = flat_check(&out->flat, "Arrow message", err);
	if (code)
		return code;
	if (out->version != IPC_VERSION_4 && out->version != IPC_VERSION_5)
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "Arrow metadata of version %d is not supported",
				      out->version + 1);
	out->metadata_size = prefix_size + words[0];
	if (body_size < 0)
		return weir_error_set(err, WEIR_E_DATA, "an Arrow message's body claims %lld bytes",
				      (long long)body_size);
	out->body_size = (uint64_t)body_size;
	return WEIR_OK;
}

int ipc_message_open(const uint8_t *bytes, uint64_t size, struct ipc_message *out, struct weir_error *err)
{
	int code = ipc_metadata_open(bytes, size, out, err);

	if (code || out->metadata_size == 0)
		return code;
	if (out->body_size > size - out->metadata_size)
		return weir_error_set(
			err, WEIR_E_DATA, "an Arrow message's body of %llu bytes does not fit into the %llu left",
			(unsigned long long)out->body_size, (unsigned long long)(size - out->metadata_size));
	out->body = bytes + out->metadata_size;
	return WEIR_OK;
}

int weir_ipc_metadata_size(const uint8_t prefix[WEIR_IPC_PREFIX_SIZE], uint64_t *out, struct weir_error *err)
{
	uint32_t words[2];

	memcpy(words, prefix, sizeof(words));
	*out = 4;
	if (words[0] == UINT32_MAX) {
		*out = IPC_PREFIX_SIZE;
		words[0] = words[1];
	}
	if (words[0] > INT32_MAX)
		return weir_error_set(err, WEIR_E_DATA, "an Arrow message claims %u bytes of metadata", words[0]);
	*out = words[0] ? *out + words[0] : 0;
	return WEIR_OK;
}

int weir_ipc_head_read(const uint8_t *metadata, uint64_t size, struct weir_ipc_head *out, struct weir_error *err)
{
	struct flat_table compression;
	struct ipc_message message;
	int code = ipc_metadata_open(metadata, size, &message, err);

	*out = (struct weir_ipc_head){.kind = WEIR_IPC_END};
	if (code || message.metadata_size == 0)
		return code;
	out->metadata_size = message.metadata_size;
	out->body_size = message.body_size;
	switch (message.header_type) {
	case HEADER_SCHEMA:
		out->kind = WEIR_IPC_SCHEMA;
		return WEIR_OK;
	case HEADER_DICTIONARY:
		out->kind = WEIR_IPC_DICTIONARY;
		return WEIR_OK;
	case HEADER_RECORD_BATCH:
		out->kind = WEIR_IPC_BATCH;
		out->row_count = flat_i64(&message.header, RECORD_LENGTH, 0);
		out->is_compressed = flat_child(&message.header, RECORD_COMPRESSION, &compression);
		code = flat_check(&message.flat, "record batch", err);
		if (!code && out->row_count < 0)
			code = weir_error_set(err, WEIR_E_DATA, "a record batch claims %lld rows",
					      (long long)out->row_count);
		return code;
	default:
		return weir_error_set(err, WEIR_E_UNSUPPORTED, "Arrow messages of kind %u are not supported",
				      message.header_type);
	}
}
