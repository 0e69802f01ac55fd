/* A C function as a step: distances from a point, on all cores.
 *
 *     transform LATITUDE LONGITUDE IN OUT
 *
 * IN has columns lat and lon, in degrees; OUT gets all of IN's columns and km. */
#include <weir/weir.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double radians = 3.14159265358979323846 / 180, earth_km = 6371;

struct point {
	double latitude, longitude;
};

/* Each thread has its own: nothing here needs a lock. */
struct state {
	const struct point *from;
	struct weir_appender *output;
};

static int create(void *data, struct weir_context *context, void **out)
{
	struct state *state = calloc(1, sizeof(*state));

	if (!state || weir_appender_new("km: double", &state->output, NULL)) {
		free(state);
		return weir_context_fail(context, "no memory");
	}
	state->from = data;
	*out = state;
	return 0;
}

static void destroy(void *data)
{
	struct state *state = data;

	weir_appender_free(state->output);
	free(state);
}

/* Arrow's way of saying null: a cleared bit; no bitmap, no nulls. */
static int is_null(const struct ArrowArray *column, int64_t row)
{
	const uint8_t *bits = column->buffers[0];

	row += column->offset;
	return bits && !(bits[row >> 3] >> (row & 7) & 1);
}

static double value(const struct ArrowArray *column, int64_t row)
{
	return ((const double *)column->buffers[1])[column->offset + row];
}

static double distance_km(const struct point *from, double latitude, double longitude)
{
	double a = sin((latitude - from->latitude) * radians / 2), b = sin((longitude - from->longitude) * radians / 2);
	double h = a * a + cos(from->latitude * radians) * cos(latitude * radians) * b * b;

	return 2 * earth_km * asin(sqrt(h));
}

static int apply(void *data, struct weir_context *context, const struct ArrowSchema *input_schema,
		 const struct ArrowArray *input, struct ArrowSchema *output_schema, struct ArrowArray *output)
{
	struct state *state = data;
	const struct ArrowArray *lat = input->children[0], *lon = input->children[1];
	struct weir_error *error = NULL;

	/* columns_out below has said what comes out. */
	(void)output_schema;
	for (int i = 0; i < 2; i++) {
		if (input_schema->children[i]->format[0] != 'g')
			return weir_context_fail(context, "column %s must be double", input_schema->children[i]->name);
	}
	for (int64_t row = 0; row < input->length; row++) {
		if (is_null(lat, row) || is_null(lon, row))
			weir_append_null(state->output, 0);
		else if (fabs(value(lat, row)) > 90)
			return weir_context_fail(context, "there is no latitude %g", value(lat, row));
		else
			weir_append_double(state->output, 0,
					   distance_km(state->from, value(lat, row), value(lon, row)));
	}
	if (weir_appender_finish(state->output, NULL, output, &error)) {
		weir_context_fail(context, "%s", weir_error_text(error));
		weir_error_free(error);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct point from;
	struct weir_session *session = NULL;
	struct weir_flow *flow;
	struct weir_error *error = NULL;
	struct weir_stats stats = {0};
	struct weir_transform transform = {0};

	if (argc != 5)
		return fprintf(stderr, "usage: transform LATITUDE LONGITUDE IN OUT\n"), 2;
	from.latitude = strtod(argv[1], NULL);
	from.longitude = strtod(argv[2], NULL);
	transform.struct_size = sizeof(transform);
	transform.name = "distance";
	transform.apply = apply;
	transform.create = create;
	transform.destroy = destroy;
	transform.data = &from;
	transform.columns_in = "lat, lon";
	transform.columns_out = "km: double";
	transform.adds_columns = 1;
	stats.struct_size = sizeof(stats);

	weir_session_open(NULL, &session, &error);
	flow = weir_flow_new(session);
	weir_flow_read(flow, argv[3], NULL);
	weir_flow_transform(flow, &transform);
	weir_flow_write(flow, argv[4], NULL);
	if (!error && !weir_flow_run(flow, &stats, &error))
		printf("%llu rows on %u threads\n", (unsigned long long)stats.rows_out, stats.threads);
	weir_flow_free(flow);
	weir_session_close(session);
	if (!error)
		return 0;
	fprintf(stderr, "transform: %s\n", weir_error_text(error));
	weir_error_free(error);
	return 1;
}
