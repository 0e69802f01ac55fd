/* tf.train.Example in Protocol Buffers' encoding, read where it lies:
 *
 *     Example    1: Features
 *     Features   1: entries of a map, each  1: name  2: Feature
 *     Feature    one of  1: BytesList  2: FloatList  3: Int64List
 *     …List      1: values; numbers packed into one field, or a field each
 *
 * Fields with other numbers are passed over, as the encoding asks; so are lists that another one replaces. Nothing
 * recurses: messages lie four deep and no deeper.
 */
#include "base/utf8.h"
#include "format/tfrecord/tfrecord_impl.h"

#include <string.h>

enum { WIRE_VARINT = 0, WIRE_8 = 1, WIRE_BYTES = 2, WIRE_4 = 5 };

bool tf_varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
	const uint8_t *p = *at;
	uint64_t value = 0;

	for (uint32_t shift = 0; p < end && shift < 70; shift += 7) {
		uint8_t byte = *p++;

		value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
		if (byte < 0x80) {
			*at = p;
			*out = value;
			return true;
		}
	}
	return false;
}

static bool broken(struct tf_message *message, const char *what)
{
	message->broken = what;
	return false;
}

bool tf_field_next(struct tf_message *message, struct tf_field *out)
{
	const uint8_t *at = message->at;
	uint64_t tag, size = 0;

	if (at == message->end)
		return false;
	if (!tf_varint(&at, message->end, &tag) || tag > UINT32_MAX || tag < 8)
		return broken(message, "a field without a number");
	*out = (struct tf_field){.number = (uint32_t)(tag >> 3), .wire = (uint32_t)(tag & 7)};
	switch (out->wire) {
	case WIRE_VARINT:
		if (!tf_varint(&at, message->end, &out->value))
			return broken(message, "a number without an end");
		message->at = at;
		return true;
	case WIRE_8:
		size = 8;
		break;
	case WIRE_4:
		size = 4;
		break;
	case WIRE_BYTES:
		if (!tf_varint(&at, message->end, &size))
			return broken(message, "a length without an end");
		break;
	default:
		return broken(message, "a field of no known kind");
	}
	if (size > (uint64_t)(message->end - at))
		return broken(message, "a field that is longer than what it lies in");
	out->bytes = at;
	out->size = (size_t)size;
	message->at = at + size;
	return true;
}

static struct tf_message message_of(const struct tf_field *field)
{
	return (struct tf_message){.at = field->bytes, .end = field->bytes + field->size};
}

/* ---- features ---- */

struct tf_walk tf_walk_begin(const uint8_t *record, size_t size)
{
	return (struct tf_walk){.example = {.at = record, .end = record + size}};
}

static bool walk_broken(struct tf_walk *walk, const struct tf_message *message, const char *what)
{
	walk->broken = message->broken ? message->broken : what;
	walk->broken_at = message->at;
	return false;
}

static bool entry_read(struct tf_walk *walk, const struct tf_field *entry, struct tf_feature *out)
{
	struct tf_message message = message_of(entry);
	struct tf_field field;
	bool has_value = false;

	*out = (struct tf_feature){.name = (const uint8_t *)"", .bytes = entry->bytes};
	while (tf_field_next(&message, &field)) {
		if (field.number > 2)
			continue;
		if (field.wire != WIRE_BYTES)
			return walk_broken(walk, &message, "a feature whose name or value is a number");
		if (field.number == 1) {
			out->name = field.bytes;
			out->name_size = field.size;
			continue;
		}
		if (has_value)
			return walk_broken(walk, &message, "a feature with two values");
		has_value = true;
		out->bytes = field.bytes;
		out->size = field.size;
	}
	if (message.broken)
		return walk_broken(walk, &message, NULL);
	/* Names of columns are texts. */
	if (memchr(out->name, 0, out->name_size) || !weir_utf8_valid(out->name, out->name_size))
		return walk_broken(walk, &message, "a feature whose name is not UTF-8, or holds a zero");
	return true;
}

bool tf_walk_next(struct tf_walk *walk, struct tf_feature *out)
{
	struct tf_field field;

	for (;;) {
		while (tf_field_next(&walk->features, &field)) {
			if (field.number != 1)
				continue;
			if (field.wire != WIRE_BYTES)
				return walk_broken(walk, &walk->features, "a feature that is a number");
			return entry_read(walk, &field, out);
		}
		if (walk->features.broken)
			return walk_broken(walk, &walk->features, NULL);
		if (!tf_field_next(&walk->example, &field))
			return walk->example.broken ? walk_broken(walk, &walk->example, NULL) : false;
		if (field.number != 1)
			continue;
		if (field.wire != WIRE_BYTES)
			return walk_broken(walk, &walk->example, "features that are a number");
		walk->features = message_of(&field);
	}
}

/* ---- values ---- */

static bool values_broken(struct tf_values *values, const struct tf_message *message, const char *what)
{
	values->broken = message->broken ? message->broken : what;
	values->broken_at = message->at;
	return false;
}

/* The kind of a list by the number of its field. */
static enum tf_kind kind_of(uint32_t number)
{
	static const uint8_t kinds[] = {[1] = TF_BYTES, [2] = TF_FLOAT, [3] = TF_INT};

	return number < 4 ? (enum tf_kind)kinds[number] : TF_NOTHING;
}

/* How many values a piece has; false: what is there are none of this kind. */
static bool piece_count(enum tf_kind kind, const struct tf_field *piece, uint64_t *count)
{
	uint64_t ends = 0;

	*count += 1;
	if (kind == TF_BYTES)
		return piece->wire == WIRE_BYTES;
	if (kind == TF_FLOAT && piece->wire == WIRE_4)
		return true;
	if (kind == TF_INT && piece->wire == WIRE_VARINT)
		return true;
	*count -= 1;
	if (piece->wire != WIRE_BYTES)
		return false;
	if (kind == TF_FLOAT) {
		*count += piece->size / 4;
		return piece->size % 4 == 0;
	}
	for (size_t i = 0; i < piece->size; i++)
		ends += piece->bytes[i] < 0x80;
	*count += ends;
	return piece->size == 0 || piece->bytes[piece->size - 1] < 0x80;
}

bool tf_values_next(struct tf_values *values, struct tf_field *out)
{
	struct tf_field field;

	for (;;) {
		while (tf_field_next(&values->list, out))
			if (out->number == 1)
				return true;
		if (values->list.broken)
			return values_broken(values, &values->list, NULL);
		if (!tf_field_next(&values->feature, &field))
			return values->feature.broken ? values_broken(values, &values->feature, NULL) : false;
		if (field.number > 3)
			continue;
		if (field.wire != WIRE_BYTES)
			return values_broken(values, &values->feature, "a list that is a number");
		values->list = message_of(&field);
	}
}

bool tf_values_begin(const uint8_t *feature, size_t size, struct tf_values *out)
{
	struct tf_message message = {.at = feature, .end = feature + size}, from = message;
	struct tf_values counted;
	struct tf_field field;

	*out = (struct tf_values){0};
	for (const uint8_t *before = message.at; tf_field_next(&message, &field); before = message.at) {
		if (field.number > 3)
			continue;
		if (kind_of(field.number) != out->kind)
			from.at = before;
		out->kind = kind_of(field.number);
	}
	if (message.broken)
		return values_broken(out, &message, NULL);
	out->feature = from;
	counted = *out;
	while (tf_values_next(&counted, &field))
		if (!piece_count(out->kind, &field, &out->count))
			return values_broken(out, &counted.list, "values of another kind than their list");
	out->broken = counted.broken;
	out->broken_at = counted.broken_at;
	return !out->broken;
}
