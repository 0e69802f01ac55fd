/* Functions by name. Each family is a table in a file of its own. */
#include "expr/program.h"

#include <string.h>

static const struct weir_function *const families[] = {
	weir_functions_arith,    weir_functions_compare, weir_functions_logic, weir_functions_in,
	weir_functions_cast,     weir_functions_math,    weir_functions_text,  weir_functions_regex,
	weir_functions_time,     weir_functions_nested,  weir_functions_arrow, weir_functions_letters,
	weir_functions_search,   weir_functions_pieces,  weir_functions_lists, weir_functions_cast_arrow,
	weir_functions_volatile, weir_functions_vectors,
};
enum { FAMILIES = sizeof(families) / sizeof(families[0]) };

const struct weir_function *weir_function_find(const char *name)
{
	for (size_t i = 0; i < FAMILIES; i++) {
		for (const struct weir_function *f = families[i]; f->name; f++) {
			if (!strcmp(f->name, name))
				return f;
		}
	}
	return NULL;
}

enum { NAME_MAX_COMPARED = 31 };

/* Letters to insert, drop or change. */
static uint32_t distance(const char *a, const char *b)
{
	uint32_t row[NAME_MAX_COMPARED + 1];
	size_t size_a = strlen(a), size_b = strlen(b);

	if (size_a > NAME_MAX_COMPARED || size_b > NAME_MAX_COMPARED)
		return UINT32_MAX;
	for (size_t j = 0; j <= size_b; j++)
		row[j] = (uint32_t)j;
	for (size_t i = 1; i <= size_a; i++) {
		uint32_t diagonal = row[0];

		row[0] = (uint32_t)i;
		for (size_t j = 1; j <= size_b; j++) {
			uint32_t best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[size_b];
}

const char *weir_function_nearest(const char *name)
{
	uint32_t nearest = 3;
	const char *found = NULL;

	for (size_t i = 0; i < FAMILIES; i++) {
		for (const struct weir_function *f = families[i]; f->name; f++) {
			uint32_t far = distance(name, f->name);

			if (far < nearest) {
				nearest = far;
				found = f->name;
			}
		}
	}
	return found;
}
