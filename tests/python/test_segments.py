"""Whole groups one after another: `groups`, and the aggregates that need a group's values."""
import subprocess

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pq = pytest.importorskip("pyarrow.parquet")

import random_tables  # noqa: E402
from weir_chain import ChainError, stream  # noqa: E402

STRUCTS = [pa.struct([("a", pa.int32()), ("b", pa.string())]),
           pa.struct([pa.field("n", pa.int64(), nullable=False), pa.field("t", pa.timestamp("us", "UTC"))]),
           pa.struct([("s", pa.struct([("d", pa.dictionary(pa.int8(), pa.string())), ("f", pa.float64())])), ("z", pa.null())])]


def key_of(value):
    """A value as something that is equal where values are alike."""
    if isinstance(value, dict):
        return tuple((name, key_of(item)) for name, item in value.items())
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    return value


def values_of(column):
    """To Python without losing nanoseconds."""
    kind = column.type
    if pa.types.is_temporal(kind) and getattr(kind, "unit", None) == "ns":
        column = column.cast(pa.int64())
    return [key_of(value) for value in column.to_pylist()]


def runs_of(values):
    """[(value, how many), …] of neighbours that are equal."""
    out = []
    for value in values:
        if out and out[-1][0] == value:
            out[-1][1] += 1
        else:
            out.append([value, 1])
    return [tuple(item) for item in out]


# ---- groups ----

@pytest.mark.parametrize("kind", [*random_tables.LEAVES, *random_tables.DICTIONARIES, *STRUCTS], ids=str)
def test_groups_by_every_type(kind):
    rng = np.random.default_rng(len(str(kind)))
    column = random_tables.column(rng, kind, 900)
    table = pa.table({"k": column, "row": pa.array(range(900), pa.int64())})
    got = stream("batches then groups k --mark g", table, batch_rows=67)
    assert got.schema.names == ["k", "row", "g"] and got.schema.field("g").type == pa.int64()
    keys = values_of(got["k"])
    numbers = got["g"].to_pylist()
    # Keys and numbers change at the same rows, and a key that has gone never comes back.
    assert [count for _, count in runs_of(keys)] == [count for _, count in runs_of(numbers)]
    assert len(runs_of(keys)) == len(set(keys)) == len(set(numbers))
    # Within a group rows stay in input order, and none is lost.
    rows = got["row"].to_pylist()
    assert sorted(rows) == list(range(900))
    assert all(a < b for a, b, same in zip(rows, rows[1:], (x == y for x, y in zip(numbers, numbers[1:]))) if same)
    expected = values_of(table["k"])
    assert all(expected[row] == key for row, key in zip(rows, keys))


def test_groups_by_several_and_by_none():
    rng = np.random.default_rng(4)
    table = pa.table({"a": pa.array(rng.integers(0, 5, 2000)), "b": random_tables.column(rng, pa.string(), 2000),
                      "v": pa.array(range(2000))})
    got = stream("batches then groups 'a, b'", table, batch_rows=100, threads=7)
    pairs = list(zip(got["a"].to_pylist(), got["b"].to_pylist()))
    assert len(runs_of(pairs)) == len(set(pairs)) == len(set(got["group"].to_pylist()))
    all_rows = stream("batches then groups ''", table, batch_rows=100, threads=7)
    assert set(all_rows["group"].to_pylist()) == {0}
    assert all_rows["v"].to_pylist() == list(range(2000))
    assert stream("batches then groups a", table.slice(0, 0)).num_rows == 0
    assert stream("batches then groups ''", table.slice(0, 0)).num_rows == 0


def test_groups_pass_columns_and_are_narrowed():
    table = pa.table({"a": [2, 1, 2], "b": ["x", "y", "z"], "c": [1.5, 2.5, 3.5]})
    assert stream("batches then groups a then select c", table)["c"].to_pylist() == [2.5, 1.5, 3.5]
    assert stream("batches then groups a --mark m then select 'b, m'", table).to_pydict() == {"b": ["y", "x", "z"], "m": [0, 1, 1]}
    assert stream("batches then groups a then limit 1", table)["b"].to_pylist() == ["y"]


def test_what_cannot_be_grouped():
    table = pa.table({"a": [1], "l": [[1]], "s": [{"l": [1]}]})
    for words, text in (("groups x", "x"), ("groups l", "which nothing is grouped by"), ("groups s", "nothing is grouped by"),
                        ("groups a --mark l", "--mark wants another name"), ("groups", "groups COLUMN"), ("groups 'a,,l'", "empty item")):
        with pytest.raises(ChainError, match=text):
            stream(f"batches then {words}", table)


def grouped_blocks(ds, keys):
    """The blocks that functions would get."""
    from weir._exchange import Exchange

    class Groups(Exchange):
        __slots__ = ()

        def add(self, flow, build):
            flow.step(self.verb, self.words, [("mark", "number")])

    return [block.to_arrow() if hasattr(block, "to_arrow") else block
            for block in ds._then(Groups(ds._op, "groups", [keys], "Groups")).materialize().iter_batches(
                batch_size=None, batch_format="pyarrow")]


@pytest.mark.parametrize("groups", [3, 100, 40_000])
def test_blocks_end_with_groups(groups):
    import weir

    rng = np.random.default_rng(groups)
    keys = rng.integers(0, groups, 400_000)
    keys[rng.random(400_000) < 0.3] = 1  # one that is larger than the others
    table = pa.table({"k": keys, "text": pa.array([f"some longer text {i % 1000}" * 3 for i in range(400_000)])})
    blocks = grouped_blocks(weir.from_arrow([table.slice(i, 50_000) for i in range(0, 400_000, 50_000)]), "k")
    assert sum(block.num_rows for block in blocks) == 400_000
    seen = set()
    for block in blocks:
        here = set(block["k"].to_pylist())
        assert not here & seen, "a group is in two blocks"
        assert len(here) == len(set(block["number"].to_pylist()))
        seen |= here
    assert len(seen) == len(set(keys.tolist()))
    assert len(blocks) > 1


# ---- beyond memory ----

@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """About 190 MB in memory: three times the smallest limit."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(3)
    for number in range(4):
        count = 600_000
        pq.write_table(pa.table({"few": rng.integers(0, 40, count), "many": rng.integers(0, 300_000, count),
                                 "x": rng.random(count),
                                 "t": pa.array(rng.integers(0, 1_000_000, count)).cast(pa.string()),
                                 "pad": pa.array(np.arange(count) + number * count).cast(pa.string())}),
                       folder / f"{number}.parquet", row_group_size=100_000)
    return folder


@pytest.mark.parametrize(("keys", "threads"), [("few", 2), ("many", 1), ("many", 7), ("t", 2)])
def test_groups_beyond_memory(weir_command, large, tmp_path, keys, threads):
    subprocess.run([weir_command, "--memory-limit", "64M", "--threads", str(threads), "read", str(large), "then", "groups", keys,
                    "then", "write", str(tmp_path / "out"), "--format", "parquet"], check=True)
    got = pq.read_table(tmp_path / "out")
    wanted = pq.read_table(large)
    assert got.num_rows == wanted.num_rows
    assert pc.sum(got["x"]).as_py() == pytest.approx(pc.sum(wanted["x"]).as_py())
    # As many runs as there are groups: none was cut apart.
    got_keys = got[keys].combine_chunks()
    changes = pc.sum(pc.not_equal(got_keys.slice(1), got_keys.slice(0, len(got_keys) - 1))).as_py() + 1
    assert changes == pc.count_distinct(wanted[keys]).as_py() == pc.count_distinct(got["group"]).as_py()
