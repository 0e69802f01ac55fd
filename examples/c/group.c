/* What customers spent, the ten who spent most first:
 *
 *     group CUSTOMERS ORDERS
 *
 * Both are files with a column `customer`; customers have a `name`, orders a `price`. The steps need all rows before
 * they give the first, and use the disk where these are more than the session's memory. */
#include <weir/weir.h>

#include <stdio.h>

static int fail(struct weir_error *error)
{
	fprintf(stderr, "group: %s\n", weir_error_text(error));
	weir_error_free(error);
	return 1;
}

int main(int argc, char **argv)
{
	static const struct weir_option on[] = {{"on", "customer"}, {"how", "left"}, {NULL, NULL}};
	struct weir_session *session;
	struct weir_flow *orders, *customers;
	struct weir_rows *rows = NULL;
	struct weir_error *error = NULL;
	int code;

	if (argc != 3)
		return fprintf(stderr, "usage: group CUSTOMERS ORDERS\n"), 2;
	if (weir_session_open(NULL, &session, &error))
		return fail(error);
	customers = weir_flow_new(session);
	weir_flow_read(customers, argv[1], NULL);
	orders = weir_flow_new(session);
	weir_flow_read(orders, argv[2], NULL);
	weir_flow_group(orders, "customer", "orders = count(), spent = sum(price)");
	weir_flow_join(orders, customers, on);
	weir_flow_top(orders, 10, "spent, customer asc");
	weir_flow_select(orders, "name, orders, spent");

	code = weir_flow_rows(orders, &rows, &error);
	while (weir_rows_next(rows))
		printf("%s: %s orders, %s\n", weir_rows_text(rows, 0), weir_rows_text(rows, 1),
		       weir_rows_text(rows, 2));
	if (!code && weir_rows_error(rows)) {
		fprintf(stderr, "group: %s\n", weir_error_text(weir_rows_error(rows)));
		code = 1;
	}
	weir_rows_free(rows);
	weir_flow_free(orders);
	weir_flow_free(customers);
	weir_session_close(session);
	return error ? fail(error) : code;
}
