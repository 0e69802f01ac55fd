"""Random chains of transforms over random tables, against plain Python: any block size, batch size, format, number of
workers."""
import importlib.util
import math
import os
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import weir

INTS = st.integers(-2**40, 2**40)
TEXTS = st.text("abcxyzäß∂", max_size=8)
COLUMNS = {
    "i": INTS, "f": st.floats(allow_nan=False, width=64), "s": TEXTS, "b": st.booleans(),
    "n": st.one_of(st.none(), TEXTS), "l": st.lists(INTS, max_size=3),
}


@st.composite
def tables(draw):
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=0, max_size=4, unique=True))
    rows = draw(st.integers(1, 60))
    return [{"id": i, **{name: draw(COLUMNS[name]) for name in names}} for i in range(rows)]


def add_one(value):
    return {**value, "id": value["id"] + 1}


def batch_add_one(batch):
    return {**batch, "id": batch["id"] + 1}


def arrow_add_one(table):
    import pyarrow.compute as pc
    return table.set_column(table.schema.get_field_index("id"), "id", pc.add(table["id"], 1))


class Adds:
    def __init__(self, much):
        self.much = much

    def __call__(self, batch):
        return {**batch, "id": batch["id"] + self.much}


def halves(batch):
    half = len(batch["id"]) // 2
    yield {name: values[:half] for name, values in batch.items()}
    yield {name: values[half:] for name, values in batch.items()}


async def later(batch):
    return {**batch, "id": batch["id"] * 2}


def with_step(ds, rows, step, draw):
    """The next dataset, and the rows that a plain program would have."""
    size = draw(st.sampled_from([None, 1, 3, 7, 1000, "auto"]))
    workers = draw(st.sampled_from([None, 1, 2]))
    if step == "map":
        return ds.map(add_one, concurrency=workers), [add_one(row) for row in rows]
    if step == "filter":
        return ds.filter(lambda row: row["id"] % 3 != 0), [row for row in rows if row["id"] % 3 != 0]
    if step == "flat_map":
        return (ds.flat_map(lambda row: [row] * (row["id"] % 3)),
                [dict(row) for row in rows for _ in range(row["id"] % 3)])
    if step == "numpy":
        return ds.map_batches(batch_add_one, batch_size=size, concurrency=workers), [add_one(row) for row in rows]
    if step == "pyarrow":
        return ds.map_batches(arrow_add_one, batch_size=size, batch_format="pyarrow"), [add_one(row) for row in rows]
    if step == "class":
        much = draw(st.integers(0, 5))
        return (ds.map_batches(Adds, batch_size=size, fn_constructor_args=[much], concurrency=workers or (1, 2)),
                [{**row, "id": row["id"] + much} for row in rows])
    if step == "generator":
        return ds.map_batches(halves, batch_size=size), rows
    if step == "async":
        return ds.map_batches(later, batch_size=size), [{**row, "id": row["id"] * 2} for row in rows]
    if step == "limit":
        n = draw(st.integers(0, 50))
        return ds.limit(n), rows[:n]
    assert step == "repartition"
    return ds.repartition(draw(st.integers(1, 5))), rows


STEPS = ["map", "filter", "flat_map", "numpy", "class", "generator", "async", "limit", "repartition"]
if importlib.util.find_spec("pyarrow"):
    STEPS.append("pyarrow")


def plain(value):
    if isinstance(value, np.ndarray):
        return [plain(v) for v in value.tolist()]
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and math.isnan(value):
        return None  # a column of nulls alone is NaN in a NumPy batch
    return value


@settings(max_examples=3 if "WEIR_SANITIZED" in os.environ else 12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_chains(data):
    rows = data.draw(tables())
    steps = data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=3))
    ds = weir.from_items(rows)
    for step in steps:
        ds, rows = with_step(ds, rows, step, data.draw)
        note(f"{step}: {len(rows)} rows")
    got = [plain(row) for row in ds.take_all()]
    assert got == [plain(row) for row in rows]


@pytest.mark.parametrize("between", [False, True])
def test_hundreds_of_filters(between):
    """Filters in a row become one as long as its expression is not too deep."""
    ds = weir.range(1000)
    for i in range(300):
        ds = ds.filter(expr=f"id != {i}")
        if between and i % 10 == 0:
            ds = ds.with_column("x", weir.expressions.col("id") + 1)
    assert ds.count() == 700 and ds.take(1)[0]["id"] == 300


@pytest.mark.sample(4)
@pytest.mark.same_without
@pytest.mark.parametrize("step", [
    lambda ds, i: ds.select_columns(["id"]),
    lambda ds, i: ds.with_column("id", weir.col("id") + 1 - 1),
    lambda ds, i: ds.filter(expr="id >= 0"),
    lambda ds, i: ds.limit(7 + i % 2),
], ids=["select_columns", "with_column", "filter", "limit"])
def test_plans_of_thousands_of_steps(step):
    ds = weir.range(9)
    for i in range(2000):
        ds = step(ds, i)
    assert ds.take_all()[:7] == [{"id": i} for i in range(7)] and ds.schema().names == ["id"] and ds.count() in (7, 9)
    again = pickle.loads(pickle.dumps(ds))
    assert again.sum("id") == ds.sum("id")
