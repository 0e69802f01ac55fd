/* Filters: conjuncts one after the other, each for the rows that the ones before it left.
 *
 * What a conjunct costs a row and how many rows it drops is measured on the first vectors and now and then after; the
 * one that drops most a nanosecond goes first. One that may raise an error stays behind all that stood before it in the
 * text, so that  d != 0 and n // d > 2  means what it says.
 */
#include "base/clock.h"
#include "expr/program.h"

#include <math.h>
#include <string.h>

enum {
	MEASURED_FIRST = 8,  /* vectors measured at the start … */
	MEASURED_EVERY = 32, /* … and one in so many later */
	REORDERED_EVERY = 256,
};

int weir_node_select(const struct weir_eval *eval, const struct weir_node *node, uint16_t *rows_out, uint32_t *count,
		     struct weir_error *err)
{
	struct weir_column column;
	int code;

	if (node->only_column >= 0 && !eval->instead && node->kind == WEIR_NODE_CALL) {
		bool done = false;

		code = weir_column_decode(eval->vector, (uint32_t)node->only_column, err);
		if (code)
			return code;
		column = eval->vector->columns[node->only_column];
		column.type = weir_type_values(column.type);
		if (column.form == WEIR_DICTIONARY)
			code = weir_dictionary_select(eval, node, &column, rows_out, count, &done, err);
		if (code || done)
			return code;
	}
	if (node->kind == WEIR_NODE_CALL && node->filter && eval->selection.count)
		return node->filter(eval, node, rows_out, count, err);
	code = weir_node_evaluate_flat(eval, node, &column, err);
	if (code)
		return code;
	if (column.form == WEIR_CONSTANT) {
		bool keep = weir_column_valid(&column, 0) && *(const uint64_t *)column.values & 1;

		*count = keep ? eval->selection.count : 0;
		if (eval->selection.rows) {
			memmove(rows_out, eval->selection.rows, *count * sizeof(*rows_out));
		} else {
			for (uint32_t i = 0; i < *count; i++)
				rows_out[i] = (uint16_t)i;
		}
		return WEIR_OK;
	}
	*count = weir_select_bits(&eval->selection, column.values, column.validity, rows_out);
	return WEIR_OK;
}

static double rank(const struct weir_conjunct *conjunct)
{
	/* No row has come to it yet: it gets its try. */
	if (!conjunct->rows_in || !conjunct->ns)
		return INFINITY;
	return (double)(conjunct->rows_in - conjunct->rows_out) / (double)conjunct->ns;
}

static void reorder(struct weir_evaluator *evaluator)
{
	struct weir_conjunct *all = evaluator->conjuncts;
	uint32_t count = (uint32_t)evaluator->program->conjuncts.count;

	for (uint32_t place = 0; place < count; place++) {
		uint32_t best = count, first = UINT32_MAX;
		struct weir_conjunct chosen;

		for (uint32_t i = place; i < count; i++)
			first = all[i].position < first ? all[i].position : first;
		for (uint32_t i = place; i < count; i++) {
			if (all[i].node->may_fail && all[i].position != first)
				continue;
			if (best == count || rank(&all[i]) > rank(&all[best]))
				best = i;
		}
		chosen = all[best];
		memmove(&all[place + 1], &all[place], (best - place) * sizeof(*all));
		all[place] = chosen;
	}
	for (uint32_t i = 0; i < count; i++) {
		all[i].ns /= 2;
		all[i].rows_in /= 2;
		all[i].rows_out /= 2;
	}
}

int weir_evaluator_filter(struct weir_evaluator *evaluator, struct weir_vector *vector, struct weir_error *err)
{
	uint32_t count = (uint32_t)evaluator->program->conjuncts.count;
	uint64_t number = evaluator->vector_count++;
	const struct weir_node *root = evaluator->program->root;
	char name[96];
	bool measures = count > 1 && (number < MEASURED_FIRST || number % MEASURED_EVERY == 0);

	if (root->type->id != WEIR_BOOL && root->type->id != WEIR_NULL)
		return weir_error_set(err, WEIR_E_TYPE, "a filter needs a boolean, but %s is %s", root->text,
				      weir_type_name(root->type, name, sizeof(name)));
	weir_evaluator_begin(evaluator, vector);
	for (uint32_t i = 0; i < count && vector->selection.count; i++) {
		struct weir_conjunct *conjunct = &evaluator->conjuncts[i];
		struct weir_eval eval = {.evaluator = evaluator,
					 .vector = vector,
					 .selection = vector->selection,
					 .row_count = vector->row_count,
					 .arena = &evaluator->arena};
		uint64_t begin = measures ? weir_clock_ns() : 0;
		uint32_t kept = 0;
		int code = weir_node_select(&eval, conjunct->node, evaluator->rows, &kept, err);

		if (code)
			return code;
		if (measures) {
			conjunct->ns += weir_clock_ns() - begin + 1;
			conjunct->rows_in += eval.selection.count;
			conjunct->rows_out += kept;
		}
		/* All of them stay: the selection stays as it was, and with it "all rows". */
		if (kept != vector->selection.count)
			vector->selection = (struct weir_selection){.count = kept, .rows = evaluator->rows};
	}
	if (count > 1 && (number == MEASURED_FIRST / 2 || number == MEASURED_FIRST || number % REORDERED_EVERY == 0))
		reorder(evaluator);
	return WEIR_OK;
}
