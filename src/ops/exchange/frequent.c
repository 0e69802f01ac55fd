#include "ops/exchange/frequent.h"

#include "base/hash.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { INLINE = 8, ROOM_MIN = 4, BYTES_MIN = 64 };

struct head {
	uint64_t taken;
	uint32_t used, room; /* entries */
	uint32_t bytes, bytes_room;
	uint32_t places; /* of the index, a power of two; 0: there is none */
	uint32_t unused;
};
_Static_assert(sizeof(struct head) == WEIR_FREQUENT_NEW, "an empty sketch is a head");

struct entry {
	uint64_t hash, count;
	uint64_t word; /* the value, up to eight bytes of it; else where its bytes begin */
	uint32_t size, unused;
};

static inline struct head head_of(const uint8_t *sketch)
{
	struct head head;

	memcpy(&head, sketch, sizeof(head));
	return head;
}

static inline struct entry entry_of(const uint8_t *sketch, uint32_t i)
{
	struct entry entry;

	memcpy(&entry, sketch + sizeof(struct head) + (size_t)i * sizeof(entry), sizeof(entry));
	return entry;
}

static inline void put_entry(uint8_t *sketch, uint32_t i, const struct entry *entry)
{
	memcpy(sketch + sizeof(struct head) + (size_t)i * sizeof(*entry), entry, sizeof(*entry));
}

static size_t bytes_begin(const struct head *head)
{
	return sizeof(*head) + (size_t)head->room * sizeof(struct entry);
}

static size_t index_begin(const struct head *head)
{
	return bytes_begin(head) + head->bytes_room;
}

static inline uint32_t place_of(const uint8_t *index, uint32_t at)
{
	uint32_t place;

	memcpy(&place, index + (size_t)at * 4, 4);
	return place;
}

static inline void put_place(uint8_t *index, uint32_t at, uint32_t place)
{
	memcpy(index + (size_t)at * 4, &place, 4);
}

void weir_frequent_new(uint8_t *sketch)
{
	memset(sketch, 0, sizeof(struct head));
}

static void index_entries(uint8_t *sketch, const struct head *head)
{
	uint8_t *index = sketch + index_begin(head);
	uint32_t mask = head->places - 1;

	memset(index, 0, (size_t)head->places * 4);
	for (uint32_t i = 0; i < head->used; i++) {
		uint32_t at = (uint32_t)entry_of(sketch, i).hash & mask;

		while (place_of(index, at))
			at = (at + 1) & mask;
		put_place(index, at, i + 1);
	}
}

uint32_t weir_frequent_pack(uint8_t *sketch)
{
	struct head head = head_of(sketch), packed = head;

	packed.room = head.used;
	packed.bytes_room = head.bytes;
	packed.places = 0;
	memmove(sketch + bytes_begin(&packed), sketch + bytes_begin(&head), head.bytes);
	memcpy(sketch, &packed, sizeof(packed));
	return (uint32_t)index_begin(&packed);
}

/* ---- room ---- */

static struct head with_room(struct head head, uint32_t value_size)
{
	uint32_t more = value_size > INLINE ? value_size : 0;

	if (head.used == head.room || !head.places) {
		head.room = head.used * 2 > ROOM_MIN ? head.used * 2 : ROOM_MIN;
		head.places = 8;
		while (head.places < head.room * 2)
			head.places *= 2;
	}
	if (head.bytes + more > head.bytes_room) {
		head.bytes_room = (head.bytes + more) * 2 > BYTES_MIN ? (head.bytes + more) * 2 : BYTES_MIN;
		head.bytes_room = (head.bytes_room + 7) / 8 * 8;
	}
	return head;
}

void weir_frequent_move(const uint8_t *sketch, uint8_t *to, uint32_t value_size)
{
	struct head head = head_of(sketch), roomy = with_room(head, value_size);

	memcpy(to, &roomy, sizeof(roomy));
	memcpy(to + sizeof(head), sketch + sizeof(head), (size_t)head.used * sizeof(struct entry));
	memcpy(to + bytes_begin(&roomy), sketch + bytes_begin(&head), head.bytes);
	index_entries(to, &roomy);
}

static int compare_counts(const void *a_object, const void *b_object)
{
	uint64_t a = *(const uint64_t *)a_object, b = *(const uint64_t *)b_object;

	return (a < b) - (a > b);
}

/* Takes the count of the one in the middle from all, and leaves out those of which nothing is left. */
static int thin_out(uint8_t *sketch, uint32_t capacity, struct weir_arena *arena, struct weir_error *err)
{
	struct head head = head_of(sketch);
	uint64_t *counts = weir_arena_alloc(arena, (size_t)(head.used + 1) * sizeof(*counts), err);
	uint8_t *bytes = counts ? weir_arena_alloc(arena, head.bytes + 1, err) : NULL;
	uint8_t *from = sketch + bytes_begin(&head);
	uint32_t used = head.used;
	uint64_t less;

	if (!bytes)
		return err->code;
	for (uint32_t i = 0; i < used; i++)
		counts[i] = entry_of(sketch, i).count;
	qsort(counts, used, sizeof(*counts), compare_counts);
	less = counts[capacity];
	memcpy(bytes, from, head.bytes);
	head.used = head.bytes = 0;
	head.taken += less;
	for (uint32_t i = 0; i < used; i++) {
		struct entry entry = entry_of(sketch, i);

		if (entry.count <= less)
			continue;
		entry.count -= less;
		if (entry.size > INLINE) {
			memcpy(from + head.bytes, bytes + entry.word, entry.size);
			entry.word = head.bytes;
			head.bytes += entry.size;
		}
		put_entry(sketch, head.used++, &entry);
	}
	memcpy(sketch, &head, sizeof(head));
	index_entries(sketch, &head);
	return WEIR_OK;
}

/* ---- counting ---- */

static inline bool is_value(const uint8_t *sketch, const struct head *head, const struct entry *entry,
			    const struct entry *wanted, const uint8_t *value)
{
	if (entry->hash != wanted->hash || entry->size != wanted->size)
		return false;
	return entry->size <= INLINE ? entry->word == wanted->word
				     : !memcmp(sketch + bytes_begin(head) + entry->word, value, entry->size);
}

int weir_frequent_push(uint8_t *sketch, uint32_t capacity, const uint8_t *value, uint32_t size, uint64_t count,
		       uint32_t *wanted, struct weir_arena *arena, struct weir_error *err)
{
	struct head head = head_of(sketch), roomy;
	struct entry new = {.count = count, .size = size};
	uint8_t *index = sketch + index_begin(&head);
	uint32_t mask = head.places - 1, at;

	*wanted = 0;
	if (size <= INLINE) {
		memcpy(&new.word, value, size);
		new.hash = weir_hash_u64(new.word ^ (uint64_t)size << 56);
	} else {
		new.hash = weir_hash_bytes(value, size, 0);
	}
	for (at = (uint32_t) new.hash &mask; head.places; at = (at + 1) & mask) {
		uint32_t place = place_of(index, at);
		struct entry entry;

		if (!place)
			break;
		entry = entry_of(sketch, place - 1);
		if (is_value(sketch, &head, &entry, &new, value)) {
			entry.count += count;
			put_entry(sketch, place - 1, &entry);
			return WEIR_OK;
		}
	}
	if (head.places && head.used >= 2 * capacity) {
		if (thin_out(sketch, capacity, arena, err))
			return err->code;
		head = head_of(sketch);
		for (at = (uint32_t) new.hash &mask; place_of(index, at); at = (at + 1) & mask)
			;
	}
	if (!head.places || head.used == head.room || (size > INLINE && head.bytes + size > head.bytes_room)) {
		if (head.bytes + (uint64_t)size > UINT32_MAX / 4)
			return weir_error_set(err, WEIR_E_LIMIT,
					      "values of 1 GiB in all are too many for approx_top_k");
		roomy = with_room(head, size);
		*wanted = (uint32_t)(index_begin(&roomy) + (size_t)roomy.places * 4);
		return WEIR_OK;
	}
	if (size > INLINE) {
		new.word = head.bytes;
		memcpy(sketch + bytes_begin(&head) + head.bytes, value, size);
		head.bytes += size;
	}
	put_entry(sketch, head.used, &new);
	put_place(index, at, ++head.used);
	memcpy(sketch, &head, sizeof(head));
	return WEIR_OK;
}

void weir_frequent_take_over(uint8_t *sketch, const uint8_t *other)
{
	struct head head = head_of(sketch);

	head.taken += head_of(other).taken;
	memcpy(sketch, &head, sizeof(head));
}

uint32_t weir_frequent_count(const uint8_t *sketch)
{
	return head_of(sketch).used;
}

const uint8_t *weir_frequent_value(const uint8_t *sketch, uint32_t i, uint32_t *size, uint64_t *count)
{
	struct head head = head_of(sketch);
	struct entry entry = entry_of(sketch, i);

	*size = entry.size;
	*count = entry.count + head.taken;
	if (entry.size > INLINE)
		return sketch + bytes_begin(&head) + entry.word;
	return sketch + sizeof(head) + (size_t)i * sizeof(entry) + offsetof(struct entry, word);
}

uint64_t weir_frequent_least(const uint8_t *sketch, uint32_t i)
{
	return entry_of(sketch, i).count;
}
