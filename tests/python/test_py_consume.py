"""Consuming: a few rows, all rows, batches, tensors, aggregates, what Datasets look like. Oracle: plain Python, pandas."""
import gc
import math
import os
import signal
import threading
import time

import pytest

import weir

SEED = 20261115


@pytest.fixture
def mixed():
    return weir.from_items([{"n": i, "f": i / 2, "s": str(i), "none": None} for i in range(10)])


# ---- a few rows ----

def test_take(mixed, capsys):
    assert weir.range(100).take() == [{"id": i} for i in range(20)]
    assert weir.range(5).take(0) == [] == weir.range(5).take(-1)
    assert weir.range(5).take(100) == [{"id": i} for i in range(5)] == weir.range(5).take_all()
    assert weir.range(5).take_all(5) == weir.range(5).take_all()
    with pytest.raises(ValueError, match="more than the given limit of 3 records"):
        weir.range(5).take_all(3)
    mixed.show(2)
    assert capsys.readouterr().out == "{'n': 0, 'f': 0.0, 's': '0', 'none': None}\n{'n': 1, 'f': 0.5, 's': '1', 'none': None}\n"


def test_rows_are_real(mixed):
    first, second = mixed.take(1)[0], mixed.take(1)[0]
    first["n"] = 99
    assert second["n"] == 0 and type(first) is dict and mixed.take(1)[0]["n"] == 0


def test_take_batch(mixed):
    np = pytest.importorskip("numpy")
    batch = mixed.take_batch(3)
    assert batch["n"].tolist() == [0, 1, 2] and batch["f"].dtype == np.float64 and batch["s"].dtype == object
    assert weir.range(5).take_batch(100)["id"].tolist() == [0, 1, 2, 3, 4]
    for empty in (weir.range(0), weir.from_items([]), weir.range(5).filter(expr="id > 10")):
        with pytest.raises(ValueError, match="The dataset is empty."):
            empty.take_batch()
    with pytest.raises(ValueError, match="The dataset is empty."):
        weir.range(5).take_batch(0)
    with pytest.raises(ValueError, match="batch format"):
        mixed.take_batch(batch_format="x")
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    frame = mixed.take_batch(3, batch_format="pandas")
    assert isinstance(frame, pd.DataFrame) and frame["n"].tolist() == [0, 1, 2] and str(frame["n"].dtype) == "int64[pyarrow]"
    assert isinstance(mixed.take_batch(3, batch_format="pyarrow"), pa.Table)


# ---- about the data ----

def test_counts_and_schemas(mixed):
    assert mixed.count() == 10 and mixed.columns() == ["n", "f", "s", "none"]
    schema = mixed.schema()
    assert schema.names == mixed.columns() and schema == weir.from_items([{"n": 1, "f": 1.5, "s": "", "none": None}]).schema()
    assert repr(schema) == "Column  Type\n------  ----\nn       int64\nf       double\ns       string\nnone    null"
    pa = pytest.importorskip("pyarrow")
    assert schema.types == [pa.int64(), pa.float64(), pa.string(), pa.null()] and schema.base_schema.names == schema.names
    assert weir.range(3).filter(expr="id > 10").schema().names == ["id"]


@pytest.mark.parametrize("look", ["schema", "take_all", "count"])
def test_a_handler_of_a_signal_that_raises_ends_the_wait(look, tmp_path):
    """As timeouts of test runners do. schema() took it for a failure of the function, and tried again."""
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    def slow(row):
        (tmp_path / "begun").touch()
        time.sleep(600)

    def when_begun():
        while not (tmp_path / "begun").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, ring)
    waiting = threading.Thread(target=when_begun)
    waiting.start()
    try:
        with pytest.raises(Alarm):
            getattr(weir.range(4).map(slow), look)()
    finally:
        signal.signal(signal.SIGALRM, before)
        waiting.join()


def test_schema_is_the_first_blocks():
    calls = weir.range(1000).map_batches(lambda b: {"x": b["id"]} if b["id"][0] == 0 else 1 / 0, batch_size=10)
    assert calls.schema().names == ["x"] and calls.columns() == ["x"]
    assert weir.range(10).map(lambda r: {"x": None if r["id"] == 0 else 1}).repartition(10).schema().type_texts == ["null"]
    assert weir.range(10).map(lambda r: r).schema(fetch_if_missing=False) is None


def test_empty_datasets():
    for ds in (weir.range(0), weir.from_items([])):
        assert ds.schema() is None and ds.columns() is None and ds.count() == 0
        assert ds.take() == [] and list(ds.iter_batches()) == [] and list(ds.iter_rows()) == []
        assert ds.sum("id") is None and ds.materialize().num_blocks() == 0
        assert ds.map(lambda r: 1 / 0).take_all() == [] and ds.map_batches(lambda b: 1 / 0).count() == 0


def test_sizes_and_blocks(mixed):
    assert weir.range(10).size_bytes() == 80 and mixed.size_bytes() > 0
    assert weir.range(100).filter(expr="id < 10").size_bytes() == 80
    with pytest.raises(NotImplementedError, match="MaterializedDataset"):
        weir.range(10).num_blocks()
    assert weir.range(10).repartition(4).materialize().num_blocks() == 4
    assert weir.range(10).input_files() == []


def test_what_a_dataset_is_not(mixed):
    with pytest.raises(AttributeError, match="count"):
        len(mixed)
    with pytest.raises(TypeError, match="iter_rows"):
        iter(mixed)
    assert bool(weir.range(0)) is True


# ---- iterating ----

@pytest.mark.parametrize("size", [1, 3, 10, 256])
@pytest.mark.parametrize("blocks", [None, 4])
def test_batches_have_exactly_their_size(size, blocks):
    ds = weir.range(10, override_num_blocks=blocks)
    batches = [b["id"].tolist() for b in ds.iter_batches(batch_size=size)]
    assert batches == [list(range(i, min(i + size, 10))) for i in range(0, 10, size)]
    assert [b["id"].tolist() for b in ds.iter_batches(batch_size=size, drop_last=True)] == [b for b in batches if len(b) == size]


def test_large_batches_cross_splits():
    sizes = [len(b["id"]) for b in weir.range(3_000_000).iter_batches(batch_size=999_999)]
    assert sizes == [999_999, 999_999, 999_999, 3]


def test_iterating_again_runs_again(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a\n1\n")
    loop = weir.read_csv(str(path)).iter_batches()
    assert [b["a"].tolist() for b in loop] == [[1]]
    path.write_text("a\n2\n")
    assert [b["a"].tolist() for b in loop] == [[2]]
    rows = weir.read_csv(str(path)).iter_rows()
    assert next(iter(rows)) == {"a": 2} and list(rows) == [{"a": 2}]
    assert next(weir.range(3).iter_batches(batch_size=1))["id"].tolist() == [0]


@pytest.mark.parametrize("bad", [dict(batch_size=0), dict(batch_size=-1), dict(batch_size="a"), dict(batch_format="x"),
                                 dict(batch_size=None, local_shuffle_buffer_size=5), dict(local_shuffle_buffer_size=0),
                                 dict(prefetch_batches="a")])
def test_loops_that_cannot_be(bad):
    with pytest.raises(ValueError):
        list(weir.range(10).iter_batches(**bad))


@pytest.mark.parametrize("batch_format", ["pandas", "pyarrow", "torch", None])
def test_batch_formats(batch_format, mixed):
    pytest.importorskip(batch_format or "pyarrow")
    pytest.importorskip("pyarrow")
    ds = mixed.select_columns(["n", "f"])
    batches = list(ds.iter_batches(batch_size=4, batch_format=batch_format, prefetch_batches=2))
    assert [len(b["n"]) for b in batches] == [4, 4, 2]
    values = [v for b in batches for v in (b["n"].to_pylist() if hasattr(b["n"], "to_pylist") else b["n"].tolist())]
    assert values == list(range(10))


def test_local_shuffle():
    loop = lambda seed, **more: [b["id"].tolist() for b in weir.range(100).iter_batches(
        batch_size=8, local_shuffle_buffer_size=20, local_shuffle_seed=seed, **more)]
    first = loop(1)
    assert first == loop(1) != loop(2) and sorted(sum(first, [])) == list(range(100))
    assert [len(b) for b in first] == [8] * 12 + [4] and [len(b) for b in loop(1, drop_last=True)] == [8] * 12
    assert first[0] != list(range(8)) and loop(None) != loop(None)


def test_prefetch_stops_with_the_loop():
    before = threading.active_count()
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for batch in weir.range(10_000_000).iter_batches(batch_size=100, batch_format="pandas", prefetch_batches=4):
        break
    del batch
    gc.collect()
    assert threading.active_count() == before
    with pytest.raises(ZeroDivisionError):
        list(weir.range(10).iter_batches(batch_format="numpy", _collate_fn=lambda b: 1 / 0))


def test_leaving_a_loop_does_not_wait_for_a_slow_function():
    def slow(batch):
        if batch["id"][0] > 0:
            time.sleep(60)
        return batch

    begun = time.monotonic()
    loop = weir.range(100, override_num_blocks=10).map_batches(slow, concurrency=1)
    for batch in loop.iter_batches(batch_size=10, _collate_fn=lambda b: b, prefetch_batches=3):
        break
    for batch in loop.iter_batches(batch_size=10):
        break
    assert time.monotonic() - begun < 30


def test_leaving_a_loop_stops_the_run_and_frees_its_memory():
    from weir import _session

    used = lambda: _session.current().native.memory()["used"]
    weir.range(10).take()
    gc.collect()
    before = used()
    begun = time.monotonic()
    for row in weir.range(10**12).iter_rows():
        if row["id"] == 5:
            break
    for batch in weir.range(10**12).iter_batches(batch_size=1000):
        break
    del batch
    gc.collect()
    assert time.monotonic() - begun < 20 and used() <= before + (1 << 20)


def test_several_at_once():
    a, b = iter(weir.range(10_000).iter_rows()), iter(weir.range(10_000).filter(expr="id % 2 == 0").iter_rows())
    for i in range(1000):
        assert next(a) == {"id": i} and next(b) == {"id": 2 * i}
    assert weir.range(7).count() == 7
    results = []
    threads = [threading.Thread(target=lambda n=n: results.append(sum(r["id"] for r in weir.range(n).iter_rows())))
               for n in range(1000, 1008)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(results) == [n * (n - 1) // 2 for n in range(1000, 1008)]


def test_torch_batches():
    torch = pytest.importorskip("torch")
    batch = next(iter(weir.range(3).iter_torch_batches()))
    assert torch.equal(batch["id"], torch.tensor([0, 1, 2]))
    batch["id"] += 1  # may be written to
    assert torch.equal(batch["id"], torch.tensor([1, 2, 3]))
    loop = lambda ds, **more: next(iter(ds.iter_torch_batches(**more)))
    assert loop(weir.range(3), dtypes=torch.float32)["id"].dtype == torch.float32
    assert loop(weir.range(3), dtypes={"id": torch.int8})["id"].dtype == torch.int8
    assert loop(weir.from_items([0.5, 1.5]))["item"].dtype == torch.float64
    nulls = loop(weir.from_items([1, None]))["item"]
    assert nulls.dtype == torch.float64 and math.isnan(nulls[1])
    assert loop(weir.from_items([[1, 2], [3, 4]]))["item"].tolist() == [[1, 2], [3, 4]]
    with pytest.raises(RuntimeError, match="collate_fn"):
        loop(weir.from_items([[1], [1, 2]]))
    with pytest.raises(TypeError):
        loop(weir.from_items(["a"]))
    with pytest.raises(ValueError, match="collate_fn"):
        weir.range(3).iter_torch_batches(collate_fn=lambda b: b, dtypes=torch.int8)
    assert loop(weir.range(3), collate_fn=lambda b: int(b["id"].sum())) == 3
    assert [len(b["id"]) for b in weir.range(10).iter_torch_batches(batch_size=4, drop_last=True, device="cpu")] == [4, 4]


def test_iterators(mixed):
    it = mixed.iterator()
    assert [r["n"] for r in it.iter_rows()] == list(range(10)) and it.schema().names == mixed.columns()
    assert it.materialize().count() == 10 and it.get_context() is mixed.context
    with pytest.raises(TypeError):
        iter(it)
    assert repr(weir.range(3).iterator()).startswith("DataIterator(shape: (3, 1)")


# ---- all rows ----

def test_materialize_keeps(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a\n1\n2\n")
    kept = weir.read_csv(str(path)).materialize()
    os.unlink(path)
    assert kept.take_all() == [{"a": 1}, {"a": 2}] == kept.take_all() and kept.count() == 2
    assert kept.filter(expr="a > 1").take_all() == [{"a": 2}] and kept.materialize() is kept
    assert isinstance(kept, weir.MaterializedDataset) and isinstance(kept, weir.Dataset)
    assert len(kept.get_internal_block_refs()) == kept.num_blocks() == 1


def test_small_chunks_are_one_block_unless_the_user_said_how_many():
    kept = weir.range(10_000).map_batches(lambda b: b, batch_size=100).materialize()
    assert kept.num_blocks() == 1 and kept.count() == 10_000
    assert [len(b["id"]) for b in kept.iter_batches(batch_size=None)] == [10_000]
    assert kept.filter(expr="id >= 9_998").take_all() == [{"id": 9998}, {"id": 9999}]
    assert kept.repartition(7).materialize().num_blocks() == 7
    assert weir.range(1000, override_num_blocks=10).map_batches(lambda b: b).materialize().num_blocks() == 10


def test_everything_as_pandas(mixed):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = weir.range(5).to_pandas()
    assert str(frame["id"].dtype) == "int64[pyarrow]" and frame["id"].tolist() == list(range(5))
    assert weir.range(0).to_pandas().empty
    with pytest.raises(ValueError, match="limit of 3"):
        weir.range(5).to_pandas(limit=3)
    assert len(weir.range(5).to_pandas(limit=5)) == len(weir.range(5).to_pandas(limit=float("inf"))) == 5
    assert len(weir.range(5).take_all(limit=float("inf"))) == 5
    assert mixed.to_pandas()["s"].tolist() == [str(i) for i in range(10)]
    with weir.DataContext.current(weir.DataContext(enable_arrow_backed_pandas_conversion=False)):
        assert str(weir.range(5).to_pandas()["id"].dtype) == "int64"


def test_everything_as_arrow(mixed):
    pa = pytest.importorskip("pyarrow")
    assert mixed.to_arrow().to_pylist() == mixed.take_all()
    assert pa.table(mixed).to_pylist() == mixed.take_all()
    assert pa.table(weir.range(0).union(weir.range(2))).to_pylist() == [{"id": 0}, {"id": 1}]
    assert pa.table(weir.range(5).filter(expr="id > 9")).schema.names == ["id"]
    assert pa.table(weir.range(100_000)).num_rows == 100_000
    reader = pa.RecordBatchReader.from_stream(weir.range(10**12))
    assert reader.schema.names == ["id"] and reader.read_next_batch().num_rows > 0
    reader.close()
    twice = weir.range(3).map(lambda r: {"x": r["id"] * 2})
    assert pa.table(twice).to_pylist() == [{"x": 0}, {"x": 2}, {"x": 4}]


def test_streams_have_the_first_blocks_schema():
    pa = pytest.importorskip("pyarrow")
    late = lambda value: weir.range(10).map_batches(lambda b: {"x": [1.5] if b["id"][0] < 5 else [value]}, batch_size=5)
    assert pa.table(late(2))["x"].to_pylist() == [1.5, 2.0] and pa.table(late(None))["x"].to_pylist() == [1.5, None]
    with pytest.raises(Exception, match="block"):
        pa.table(late("text"))
    joined = weir.from_items([1]).union(weir.range(1).rename_columns({"id": "item"}))
    assert pa.table(joined)["item"].to_pylist() == [1, 0]


def test_errors_of_streams_advise_programs(tmp_path):
    pa = pytest.importorskip("pyarrow")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n")
    ds = weir.read_csv(str(tmp_path / "a.csv"))
    with pytest.raises(OSError, match="invalid_row_handler") as error:
        pa.table(ds)
    assert "--" not in str(error.value)
    for look in (ds.schema, ds.columns, ds.union(ds).take_all, lambda: ds.sort("a")):
        with pytest.raises(weir.exceptions.RayTaskError, match="invalid_row_handler"):
            look()


def test_streams_for_polars_and_duckdb(mixed):
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(mixed.select_columns(["n", "s"])).rows() == [(i, str(i)) for i in range(10)]
    assert polars.from_arrow(weir.range(3)).to_list() == [{"id": 0}, {"id": 1}, {"id": 2}]
    duckdb = pytest.importorskip("duckdb")
    ds = weir.range(10)
    assert duckdb.sql("select sum(id) from ds").fetchall() == [(45,)]


# ---- aggregates ----

def test_aggregates():
    ds = weir.from_items([{"a": i, "b": i / 2, "n": None if i == 2 else i, "s": str(i)} for i in range(5)])
    assert ds.sum("a") == 10 and ds.min("a") == 0 and ds.max("a") == 4 and ds.mean("a") == 2.0
    assert ds.sum(["a", "b"]) == {"sum(a)": 10, "sum(b)": 5.0}
    assert ds.sum("n") == 8 and ds.sum("n", ignore_nulls=False) is None and ds.mean("n") == 2.0
    assert ds.std("a") == pytest.approx(math.sqrt(2.5)) and ds.std("a", ddof=0) == pytest.approx(math.sqrt(2))
    assert ds.min("s") == "0" and ds.max("s") == "4"
    assert weir.range(3).sum() == 3 and weir.range(3).sum(["id"]) == 3
    assert math.isnan(weir.range(1).std("id")) and weir.from_items([{"a": None}, {"a": None}]).mean("a") is None
    assert type(weir.range(3).sum("id")) is int
    for bad in ("zz", ["a", "zz"], [], 5):
        with pytest.raises(ValueError):
            ds.sum(bad)
    with pytest.raises(ValueError):
        ds.std("a", ddof=-1)
    with pytest.raises(Exception, match="s"):
        ds.sum("s")


def test_aggregates_behind_functions():
    assert weir.range(1000).map_batches(lambda b: {"x": b["id"] * 2}, batch_size=100).sum("x") == 999_000
    assert weir.range(1000).repartition(7).mean("id") == 499.5


# ---- texts ----

def test_tables():
    assert repr(weir.range(10)) == "shape: (10, 1)\n╭───────╮\n│ id    │\n│ ---   │\n│ int64 │\n╰───────╯\n(Dataset isn't materialized)"
    text = repr(weir.from_items([{"a": 1, "b": "x"}] * 40))
    assert text.splitlines()[:6] == ["shape: (40, 2)", "╭───────┬────────╮", "│ a     ┆ b      │", "│ ---   ┆ ---    │",
                                     "│ int64 ┆ string │", "╞═══════╪════════╡"]
    assert text.splitlines()[11] == "│ …     ┆ …      │" and text.endswith("╰───────┴────────╯\n(Showing 10 of 40 rows)")
    ds = weir.range(3)
    ds.set_name("numbers")
    assert repr(ds).startswith("name: numbers\nshape: (3, 1)") and ds.name == "numbers"
    assert ds.get_dataset_id().startswith("numbers_") and weir.range(1).get_dataset_id() != weir.range(1).get_dataset_id()
    long = weir.from_items([{"s": "x" * 100}])
    assert "x" * 39 + "…" in repr(long)


def test_names_stay_and_are_shown(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    ds = weir.read_csv(str(tmp_path))
    ds.set_name("mine")
    assert repr(ds).startswith("Dataset(name=mine, ")
    assert repr(ds.map(lambda row: row)).splitlines()[1].startswith("+- Dataset(name=mine, num_rows=?")
    kept = ds.materialize()
    assert kept.name == "mine" and repr(kept).startswith("name: mine\nshape: (1, 1)")
    assert kept.map(lambda row: row).name == "mine"
    wide = weir.from_items([{f"a long name of a column {i}": i for i in range(5)}])
    wide.set_name("wide")
    assert "+- Dataset(\n      name=wide,\n      num_rows=1,\n" in repr(wide.map(lambda row: row))


def test_reads_that_decode_are_shown_as_reads(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    for i in range(2):
        Image.new("RGB", (4, 4)).save(tmp_path / f"{i}.png")
    for ds in (weir.read_images(str(tmp_path)), weir.read_images(str(tmp_path), include_paths=True)):
        assert repr(ds) == "Dataset(num_rows=2, schema=Unknown schema)"
        assert repr(ds.map(len)) == "Map(len)\n+- Dataset(num_rows=2, schema=Unknown schema)"


def test_filters_by_functions_keep_the_columns_in_texts():
    assert repr(weir.range(3).filter(lambda row: True)).splitlines()[0] == "shape: (?, 1)"
    # Rows that pass through the run's inside, too, are counted once.
    for ds in (weir.range(150).repartition(3).limit(100), weir.range(300).filter(expr="id < 150").sort("id").repartition(3).limit(100)):
        assert ds.count() == len(ds.take_all()) == 100 and repr(ds).splitlines()[0] == "shape: (100, 1)"


def test_columns_that_nothing_was_read_for(tmp_path):
    """fetch_if_missing=False: files that do not say what their columns are stay closed."""
    (tmp_path / "a.csv").write_text("x\n1\n")
    csv = weir.read_csv(str(tmp_path))
    assert csv.schema(fetch_if_missing=False) is None and csv.columns(fetch_if_missing=False) is None
    assert csv.limit(1).schema(fetch_if_missing=False) is None
    assert csv.columns() == ["x"] and csv.columns(fetch_if_missing=False) == ["x"]
    weir.range(3).write_parquet(str(tmp_path / "p"))
    assert weir.read_parquet(str(tmp_path / "p")).columns(fetch_if_missing=False) == ["id"]
    assert weir.range(3).map(lambda row: row).schema(fetch_if_missing=False) is None
    assert weir.range(3).filter(lambda row: row["id"] / 0).columns(fetch_if_missing=False) == ["id"]
    assert csv.filter(lambda row: True).columns(fetch_if_missing=False) is None


def test_stats_of_rows_that_were_given():
    """Nothing runs for them; they are told of as operator 0 all the same, once they were asked for."""
    ds = weir.from_items([1, 2, 3], override_num_blocks=2)
    assert ds.stats() == ""
    ds.take(2)
    text = ds.stats()
    assert text.startswith("Operator 0 FromItems: 1 tasks executed, 2 blocks produced in 0.0s\n")
    assert "\nOperator 1 limit=2: 1 tasks executed, " in text and "Total input num rows: 3 rows\n\t* Total output num rows: 2 rows" in text
    assert "Operator 0 FromItems" in weir.from_items([1]).materialize().stats()
    summary = ds.get_stats_summary()
    assert [(op.operator_name, op.output_num_rows.sum) for op in summary.operators_stats] == [("FromItems", 3), ("limit=2", 2)]


def test_stats_of_kept_rows_after_they_were_used():
    """The run that made them is told of still."""
    kept = weir.range(10).map(lambda row: row).materialize()
    made = kept.stats()
    assert "ReadRange->Map(<lambda>)" in made
    kept.take(2)
    kept.count()
    assert kept.stats() == made and kept.split(2)[0].stats() == made
    (operator,) = kept.get_stats_summary().operators_stats
    assert operator.operator_name == "ReadRange->Map(<lambda>)" and 0 < operator.wall_time.min <= operator.wall_time.max
    assert kept.get_stats_summary().get_total_time_all_blocks() == operator.wall_time.sum == operator.block_transform_time.sum


def test_schema_looks_further_where_the_first_row_says_nothing():
    types = lambda ds: ds.schema().type_texts
    assert types(weir.range(4).map_batches(lambda b: {"x": [[1] * i for i in range(len(b["id"]))]}, batch_size=4)) == ["list<item: int64>"]
    assert types(weir.range(4).map(lambda row: {"x": None if row["id"] < 2 else "a", "y": {"z": row["id"] or None}})) == ["string", "struct<z: int64>"]
    assert types(weir.range(4).map(lambda row: {"x": None})) == ["null"]

    def one_row_only(batch):
        assert len(batch["id"]) == 1
        return {"x": [None]}

    assert types(weir.range(4).map_batches(one_row_only)) == ["null"]
    # Not more than it needs of what is behind a sort.
    assert types(weir.range(10**12).map(lambda row: {"x": None if row["id"] < 5 else 0.5}).sort("x")) == ["double"]


def test_stats_tell_the_smallest_and_the_largest_block():
    kept = weir.range(100, override_num_blocks=4).map_batches(lambda batch: batch).filter(lambda row: row["id"] % 2 == 0 or row["id"] < 3).materialize()
    sizes = [len(batch["id"]) for batch in kept.iter_batches(batch_size=None)]
    assert sizes == [14, 12, 13, 12]
    assert "* Output num rows per block: 12 min, 14 max, 12 mean, 51 total\n" in kept.stats()


def test_stats_of_native_steps_tell_the_size_of_their_rows(tmp_path):
    weir.range(2).write_parquet(str(tmp_path))  # a file so small that opening it is most of its cost
    ds = weir.read_parquet(str(tmp_path))
    assert ds.take(1) == [{"id": 0}]
    assert [line for line in ds.stats().splitlines() if "size bytes" in line] == [
        "* Output size bytes per block: 16 min, 16 max, 16 mean, 16 total",
        "* Output size bytes per block: 8 min, 8 max, 8 mean, 8 total",
    ]


def test_stats_and_explain(capsys):
    ds = weir.range(100).filter(expr="id > 10")
    assert ds.stats() == ""
    for _ in ds.iter_batches(batch_size=10):
        pass
    text = ds.stats()
    assert text.startswith("Operator 1 ReadRange->Filter(col('id') > 10): ") and " tasks executed, " in text
    for line in ("* Remote wall time: ", "* UDF time: ", "* Block transform time: ", "* Output num rows per block: ",
                 "* Output rows per task: ", "\t* Total output num rows: 89 rows", "Dataset throughput:", "Memory:",
                 "Dataset iterator time breakdown:"):
        assert line in text, line
    assert "Operator 1 ReadRange" in weir.range(10).materialize().stats()
    weir.range(10).filter(lambda r: True).limit(3).explain()
    assert capsys.readouterr().out.strip() == """
-------- Logical Plan --------
Limit[limit=3]
+- Filter[Filter(<lambda>)]
   +- Read[ReadRange]

-------- Logical Plan (Optimized) --------
Limit[limit=3]
+- Filter[Filter(<lambda>)]
   +- Read[ReadRange]

-------- Physical Plan --------
LimitOperator[limit=3]
+- TaskPoolMapOperator[Filter(<lambda>)]
   +- TaskPoolMapOperator[ReadRange]
      +- InputDataBuffer[Input]

-------- Physical Plan (Optimized) --------
LimitOperator[limit=3]
+- TaskPoolMapOperator[ReadRange->Filter(<lambda>)]
   +- InputDataBuffer[Input]

-------- Engine, in front of Filter(<lambda>) --------
range 10   ~10 rows, 80 B""".strip()
    assert "ReadRange" in ds.execution_plan()


def test_a_plan_pickles_with_its_functions():
    cloudpickle = pytest.importorskip("cloudpickle")
    import pickle

    ds = weir.range(5).map(lambda r: {"x": r["id"] * 3}).filter(expr="x > 3")
    assert pickle.loads(cloudpickle.dumps(ds)).take_all() == ds.take_all() == [{"x": 6}, {"x": 9}, {"x": 12}]
    assert pickle.loads(pickle.dumps(ds)).take_all() == ds.take_all()  # spawned processes know no other way
    assert ds.copy().take_all() == ds.take_all()


def test_the_schema_of_kept_blocks_is_that_of_all_of_them():
    def values(batch):
        return {"x": [None, None] if batch["id"][0] == 0 else batch["id"] + (1 << 60)}

    kept = weir.range(6, override_num_blocks=3).map_batches(values, batch_size=2).materialize()
    assert [str(t) for t in kept.schema().types] == ["int64"]
    assert kept.take_all()[-1] == {"x": 5 + (1 << 60)}
    mixed = weir.from_items([{"x": 1}]).union(weir.from_items([{"x": "a"}])).materialize()
    assert [str(t) for t in mixed.schema().types] == ["int64"]


def test_a_schema_behind_a_repartition_needs_no_rows(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "0.parquet")
    (tmp_path / "1.parquet").write_bytes(b"no Parquet file at all")
    ds = weir.read_parquet(str(tmp_path))
    for cut in (ds.repartition(4), ds.repartition(target_num_rows_per_block=1), ds.union(ds.repartition(2)).repartition(3)):
        assert cut.schema().names == ["a"]
        with pytest.raises(Exception, match="1.parquet"):
            cut.take_all()


@pytest.mark.parametrize("most_joined", [0, 1 << 20])  # large blocks stay the chunks that they have
def test_a_block_of_chunks_of_several_types_has_their_common_one(most_joined):
    pa = pytest.importorskip("pyarrow")

    from weir import _blocks

    tables = [{"i": pa.array(values, kind)} for values, kind in (([4], pa.uint64()), ([1.5], None), ([None], None), ([2.5, 3.5], None))]
    blocks = [block for columns in tables for block in weir.from_arrow(pa.table(columns)).materialize()._blocks()]
    first, second = _blocks.cut_blocks(blocks, 2, most_joined)
    for block, values in ((first, [4.0, 1.5]), (second, [None, 2.5, 3.5])):
        chunks = getattr(block, "chunks", [block])
        assert all(_blocks.columns_of(chunk)[0][1] == "double" for chunk in chunks)
        assert [row["i"] for chunk in chunks for row in _blocks.as_batch(chunk).rows()] == values


def test_chunks_without_a_common_type_stay_what_they_are():
    pa = pytest.importorskip("pyarrow")

    ds = weir.from_arrow([pa.table({"i": [1]}), pa.table({"i": ["a"]})]).repartition(1)
    assert [row["i"] for row in ds.materialize().take_all()] == [1, "a"]


def test_a_stream_whose_blocks_differ_says_in_what():
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(OSError, match="column 'a' is string in a later block and int64 in the first: an Arrow stream has"):
        pa.table(weir.from_items([{"a": 1}]).union(weir.from_items([{"a": "x"}])))
    with pytest.raises(OSError, match="a later block has a column 'b', and the first has 'a': "):
        pa.table(weir.range(2, override_num_blocks=2).map_batches(lambda b: {"a": [1], **({"b": [2]} if b["id"][0] else {})}))
