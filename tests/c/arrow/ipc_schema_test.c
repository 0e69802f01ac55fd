/* Schemas as messages: every type, name and metadata comes back, and damage is found or harmless. */
#include "arrow/ipc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "all_types.h"
#include "bounded_memory.h"

static void schemas_come_back_equal(void **state)
{
	struct weir_schema *schema = schema_of_all(account), *back;
	struct weir_error err = {0};
	struct weir_text text;

	(void)state;
	weir_text_init(&text, account);
	assert_ok(weir_ipc_write_schema(schema, &text, &err));
	assert_int_equal(text.size % 64, 0);
	assert_ok(weir_ipc_read_schema(account, (const uint8_t *)text.data, text.size, &back, &err));
	assert_true(weir_schema_equal(schema, back, true));
	weir_schema_unref(back);
	weir_schema_unref(schema);
	weir_text_release(&text);
}

/* Dictionaries inside lists and structs, and with nested values. */
static void dictionaries_are_numbered(void **state)
{
	static const char *const text =
		"struct<a: dictionary<values=string, indices=int8, ordered=0>, "
		"b: list<item: dictionary<values=struct<x: int64>, indices=uint16, ordered=0>>>";
	struct weir_error err = {0};
	struct weir_field field = {.name = "s", .type = weir_type_parse(account, text, &err)};
	struct weir_schema *schema, *back;
	struct weir_text bytes;

	(void)state;
	if (!field.type)
		fail_msg("%s", err.message);
	schema = weir_schema_new(account, &field, 1, NULL, &err);
	assert_int_equal(weir_schema_dictionary_count(schema), 2);
	weir_text_init(&bytes, account);
	assert_ok(weir_ipc_write_schema(schema, &bytes, &err));
	assert_ok(weir_ipc_read_schema(account, (const uint8_t *)bytes.data, bytes.size, &back, &err));
	assert_true(weir_schema_equal(schema, back, true));
	weir_schema_unref(back);
	weir_schema_unref(schema);
	weir_type_unref(field.type);
	weir_text_release(&bytes);
}

/* In memory of the very size, so that a sanitizer sees any step outside. */
static void damage_is_an_error_or_another_schema(void **state)
{
	static const uint8_t flips[] = {0x01, 0x80, 0xff, 0x10, 0x04};
	struct weir_schema *schema = schema_of_all(account), *back;
	struct weir_error err = {0};
	struct weir_text text;
	uint8_t *copy;
	int errors = 0;

	(void)state;
	weir_text_init(&text, account);
	assert_ok(weir_ipc_write_schema(schema, &text, &err));
	for (size_t cut = 0; cut < text.size; cut++) {
		copy = malloc(cut ? cut : 1);
		memcpy(copy, text.data, cut);
		assert_int_equal(weir_ipc_read_schema(account, copy, cut, &back, &err), WEIR_E_DATA);
		assert_null(back);
		free(copy);
	}
	copy = malloc(text.size);
	for (size_t at = 0; at < text.size; at++) {
		for (size_t f = 0; f < sizeof(flips); f++) {
			memcpy(copy, text.data, text.size);
			copy[at] ^= flips[f];
			weir_error_clear(&err);
			if (weir_ipc_read_schema(account, copy, text.size, &back, &err)) {
				assert_true(err.code && err.message[0]);
				errors++;
			}
			weir_schema_unref(back);
		}
	}
	assert_true(errors > 1000);
	free(copy);
	weir_text_release(&text);
	weir_schema_unref(schema);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(schemas_come_back_equal, setup, teardown),
		cmocka_unit_test_setup_teardown(dictionaries_are_numbered, setup, teardown),
		cmocka_unit_test_setup_teardown(damage_is_an_error_or_another_schema, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
