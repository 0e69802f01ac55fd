/* weir_micro_vector: the vector kernels at each CPU level, in ns a row of a vector of 4,096 rows, and filters end to
 * end. The intrinsics in src/vector/kernels_vector.c are there because of the ratios v3 : v4 and plain : v4 that this
 * prints. Best of many rounds; run it on an idle machine. */
#include "base/clock.h"
#include "base/cpu.h"
#include "expr/expr.h"
#include "vector/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = WEIR_VECTOR_ROWS, ROUNDS = 400 };

WEIR_KERNEL_DECLARE(struct weir_vector_kernels, weir_vector_kernels);

static int64_t numbers[ROWS];
static double reals[ROWS];
static uint32_t codes[ROWS];
static uint8_t table[256];
static uint64_t bits[ROWS / 64], sparse_bits[ROWS / 64], out_bits[ROWS / 64];
static uint16_t half[ROWS], out_rows[ROWS];
static uint8_t out_values[ROWS * 16];
static uint64_t seed = 88172645463325252u;
static volatile uint64_t sink;

static uint64_t random_u64(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

#define BEST(body)                                                                                                     \
	({                                                                                                             \
		uint64_t best_ = UINT64_MAX;                                                                           \
		for (int round_ = 0; round_ < ROUNDS; round_++) {                                                      \
			uint64_t begin_ = weir_clock_ns(), took_;                                                      \
			for (int repeat_ = 0; repeat_ < 8; repeat_++)                                                  \
				body;                                                                                  \
			took_ = weir_clock_ns() - begin_;                                                              \
			best_ = took_ < best_ ? took_ : best_;                                                         \
		}                                                                                                      \
		(double)best_ / 8 / ROWS;                                                                              \
	})

/* The plain loop that select_all replaces. */
static uint32_t select_plain(const uint64_t *keep, uint16_t *out)
{
	uint32_t kept = 0;

	for (uint32_t w = 0; w < ROWS / 64; w++) {
		for (uint64_t word = keep[w]; word; word &= word - 1)
			out[kept++] = (uint16_t)(w * 64 + (uint32_t)__builtin_ctzll(word));
	}
	return kept;
}

static void level(const char *name, const struct weir_vector_kernels *k, uint32_t half_count)
{
	int64_t constant = 50;
	double real = 50;

	printf("%-5s compare i64 → bits %6.3f   f64 %6.3f   i64 rows %6.3f   select 50%% %6.3f   10%% %6.3f   of rows %6.3f   "
	       "codes → bits %6.3f   gather 8 %6.3f   lookup 16 %6.3f   ns/row\n",
	       name, BEST(k->compare_constant[WEIR_I64][WEIR_LT](numbers, &constant, ROWS, out_bits)),
	       BEST(k->compare_constant[WEIR_F64][WEIR_LT](reals, &real, ROWS, out_bits)),
	       BEST(sink += k->compare_rows[WEIR_I64][WEIR_LT](numbers, &constant, half, half_count, out_rows)),
	       BEST(sink += k->select_all(bits, NULL, ROWS, out_rows)),
	       BEST(sink += k->select_all(sparse_bits, NULL, ROWS, out_rows)),
	       BEST(sink += k->select_rows(half, half_count, sparse_bits, NULL, out_rows)),
	       BEST(k->lookup_bits(out_bits, table, 256, codes, ROWS)),
	       BEST(k->gather[3](out_values, numbers, half, half_count)),
	       BEST(k->lookup[4](out_values, out_values + 4096, codes, ROWS / 16)));
}

struct filtered {
	struct weir_vector vector;
	struct weir_column columns[4];
};

static void filter(struct weir_account *account, const struct weir_schema *schema, struct filtered *data,
		   const char *text)
{
	struct weir_error err = {0};
	struct weir_expr *expr;
	struct weir_program *program;
	struct weir_evaluator *evaluator;
	double ns;

	if (weir_expr_parse(account, text, &expr, &err) || weir_program_new(account, expr, schema, &program, &err) ||
	    weir_evaluator_new(account, program, &evaluator, &err)) {
		printf("%s: %s\n", text, err.message);
		exit(1);
	}
	ns = BEST({
		data->vector.selection = (struct weir_selection){.count = ROWS};
		if (weir_evaluator_filter(evaluator, &data->vector, &err))
			exit(1);
	});
	printf("%-64s %6.3f ns/row, %4u of %u kept\n", text, ns, data->vector.selection.count, ROWS);
	weir_evaluator_free(evaluator);
	weir_program_free(program);
	weir_expr_free(expr);
}

int main(void)
{
	static struct weir_view views[ROWS];
	static const char *const flags[] = {"A", "N", "R"};
	static struct weir_view values[3];
	static uint32_t flag_codes[ROWS];
	struct weir_dictionary dictionary = {.count = 3, .values = values};
	struct weir_error err = {0};
	struct weir_mem *mem;
	struct weir_field fields[4] = {{.name = "n", .type = weir_type_of(WEIR_INT64), .nullable = true},
				       {.name = "x", .type = weir_type_of(WEIR_DOUBLE), .nullable = true},
				       {.name = "flag", .type = weir_type_of(WEIR_STRING), .nullable = true},
				       {.name = "s", .type = weir_type_of(WEIR_STRING), .nullable = true}};
	struct filtered data = {.vector = {.row_count = ROWS, .column_count = 4}};
	struct weir_schema *schema;
	uint32_t half_count = 0;

	if (weir_mem_new(0, &mem, &err))
		return 1;
	for (uint32_t i = 0; i < ROWS; i++) {
		numbers[i] = (int64_t)(random_u64() % 100);
		reals[i] = (double)(random_u64() % 100);
		codes[i] = (uint32_t)(random_u64() % 200);
		if (random_u64() % 2)
			half[half_count++] = (uint16_t)i;
		bits[i / 64] |= (uint64_t)(random_u64() % 2) << i % 64;
		sparse_bits[i / 64] |= (uint64_t)(random_u64() % 10 == 0) << i % 64;
		flag_codes[i] = (uint32_t)(random_u64() % 3);
		char text[24];
		int size = snprintf(text, sizeof(text), "value %u", (unsigned)(random_u64() % 100));
		views[i] = weir_view_make(text, (uint32_t)(size > 12 ? 12 : size));
	}
	for (uint32_t i = 0; i < 256; i++)
		table[i] = (uint8_t)(random_u64() & 1);
	for (int i = 0; i < 3; i++)
		values[i] = weir_view_make(flags[i], 1);
	printf("plain select 50%% %6.3f   10%% %6.3f ns/row\n", BEST(sink += select_plain(bits, out_rows)),
	       BEST(sink += select_plain(sparse_bits, out_rows)));
#if defined(__x86_64__)
	level("v2", &weir_vector_kernels_v2, half_count);
	if (weir_cpu_level() >= WEIR_CPU_V3)
		level("v3", &weir_vector_kernels_v3, half_count);
	if (weir_cpu_level() >= WEIR_CPU_V4)
		level("v4", &weir_vector_kernels_v4, half_count);
#else
	level("base", weir_vector_kernels(), half_count);
#endif
	schema = weir_schema_new(weir_mem_root(mem), fields, 4, NULL, &err);
	dictionary.id = weir_dictionary_id_new();
	data.columns[0] = (struct weir_column){.type = fields[0].type, .values = numbers};
	data.columns[1] = (struct weir_column){.type = fields[1].type, .values = reals};
	data.columns[2] = (struct weir_column){
		.type = fields[2].type, .form = WEIR_DICTIONARY, .values = flag_codes, .dictionary = &dictionary};
	data.columns[3] = (struct weir_column){.type = fields[3].type, .values = views};
	data.vector.columns = data.columns;
	filter(weir_mem_root(mem), schema, &data, "n < 50");
	filter(weir_mem_root(mem), schema, &data, "n < 1");
	filter(weir_mem_root(mem), schema, &data, "flag == 'A'");
	filter(weir_mem_root(mem), schema, &data, "flag in ('A', 'R')");
	filter(weir_mem_root(mem), schema, &data, "s == 'value 7'");
	filter(weir_mem_root(mem), schema, &data, "s.startswith('value 7')");
	filter(weir_mem_root(mem), schema, &data, "x > 90 and flag in ('A', 'R')");
	filter(weir_mem_root(mem), schema, &data, "x > 50 and flag in ('A', 'R') and n % 7 == 3");
	filter(weir_mem_root(mem), schema, &data, "x * (1 - x) < -1000 and n < 50");
	filter(weir_mem_root(mem), schema, &data, "x > 90 or n < 5");
	weir_schema_unref(schema);
	weir_mem_free(mem);
	return 0;
}
