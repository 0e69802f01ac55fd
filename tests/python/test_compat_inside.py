"""Helpers that Ray Data keeps in modules of its own, and others call: threads, retries, arrays of columns, blocks in groups."""
import threading
import time

import pytest
from weir.compat import inside
from weir.compat.async_gen import make_async_gen


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("buffer", [0, 1, 2])
@pytest.mark.parametrize("workers", [1, 3])
def test_what_threads_make_arrives(in_order, buffer, workers):
    """Also where an item makes many outputs, and most none."""
    lengths = [0, 40, 0, 1, 7, 0, 0, 30, 2, 0, 11]

    def flat(items):
        for item in items:
            yield from range(item)

    made = list(make_async_gen(iter(lengths), flat, in_order, workers, buffer))
    assert sorted(made) == sorted(n for length in lengths for n in range(length))
    if in_order:
        assert list(make_async_gen(iter(range(50)), lambda items: (2 * n for n in items), True, workers, buffer)) == list(range(0, 100, 2))


def test_threads_run_ahead_side_by_side_and_end():
    begun = threading.Barrier(3, timeout=30)  # of three threads that are at work at the same time

    def meet(items):
        for item in items:
            begun.wait()
            yield item

    made = make_async_gen(iter(range(30)), meet, True, num_workers=3, buffer_size=1)
    assert next(made) == 0
    made.close()
    begun.abort()
    for thread in threading.enumerate():
        if thread.name.startswith("make_async_gen"):
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.parametrize("in_order", [True, False])
def test_errors_of_threads_and_of_the_items_arrive(in_order):
    def items():
        yield 1
        raise KeyError("items")

    def broken(items):
        raise ValueError("function")

    with pytest.raises(KeyError, match="items"):
        list(make_async_gen(items(), iter, in_order, 2))
    with pytest.raises(ValueError, match="function"):
        list(make_async_gen(iter([1]), broken, in_order, 2))
    with pytest.raises(ValueError, match="at least 1"):
        make_async_gen(iter([1]), iter, in_order, 0)


def test_an_iteration_that_fails_goes_on(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    fails = ["slow down", "slow down"]

    def numbers():
        for n in range(5):
            if n == 3 and fails:
                raise OSError(fails.pop())
            yield n

    assert list(inside.iterate_with_retry(numbers, "read")) == [0, 1, 2, 3, 4]
    fails[:] = ["slow down"]
    with pytest.raises(OSError, match="slow"):
        list(inside.iterate_with_retry(numbers, "read", match=["other"]))

    made = []

    def wrapped():
        made.append(1)
        raise ValueError("outer") from OSError("slow down")
        yield

    for unwrap, attempts in ((True, 3), (False, 1)):
        made.clear()
        with pytest.raises(ValueError, match="outer"):
            list(inside.iterate_with_retry(wrapped, "read", match=["slow"], max_attempts=3, unwrap_cause=unwrap))
        assert len(made) == attempts
    made.clear()
    with pytest.raises(ValueError, match="outer"):
        list(inside.iterate_with_retry(wrapped, "read", match=["ValueError"], max_attempts=2))
    assert len(made) == 2  # an error's class is part of its text


def test_options_as_keys():
    assert inside.make_hashable({"b": {1: [2, (3,)]}, "a": int}) == (("a", int), ("b", ((1, (2, (3,))),)))
    with pytest.raises(ValueError, match="not hashable"):
        inside.make_hashable({"a": {1}})


# ---- with pyarrow ----


@pytest.mark.parametrize("unit, made", [("Y", "s"), ("D", "s"), ("m", "s"), ("ms", "ms"), ("us", "us"), ("ns", "ns"), ("ps", "ns"), ("as", "ns")])
def test_times_of_numpy_as_arrays(unit, made):
    pa, np = pytest.importorskip("pyarrow"), pytest.importorskip("numpy")
    from weir.extensions import ArrowTensorArray
    from weir.extensions.arrow_arrays import convert_to_pyarrow_array

    times = np.ones(1, f"datetime64[{unit}]")
    assert convert_to_pyarrow_array(times, "a") == pa.array(times.astype(f"datetime64[{made}]"))
    assert convert_to_pyarrow_array([times], "a") == ArrowTensorArray.from_numpy([times.astype(f"datetime64[{made}]")])


def test_columns_as_arrays():
    pa, np = pytest.importorskip("pyarrow"), pytest.importorskip("numpy")
    import datetime

    import weir
    from weir.extensions import ArrowConversionError, ArrowPythonObjectType, get_arrow_extension_tensor_types
    from weir.extensions.arrow_arrays import convert_to_native_array, convert_to_pyarrow_array, infer_pyarrow_type, pyarrow_table_from_pydict

    for lists in ([[1, 2], [3, 4]], [(1, 2), (3, 4)], [pa.scalar([1, 2]), pa.scalar([3, 4])]):
        assert convert_to_pyarrow_array(lists, "a") == pa.array([[1, 2], [3, 4]])
    for tensors in (np.zeros((2, 3)), [np.zeros(3), np.ones(3)], [np.zeros(2), np.zeros(3)]):
        assert isinstance(convert_to_pyarrow_array(tensors, "a").type, get_arrow_extension_tensor_types())
    assert convert_to_pyarrow_array([datetime.datetime(2020, 1, 1), None], "a") == pa.array([datetime.datetime(2020, 1, 1), None], pa.timestamp("us"))
    assert convert_to_pyarrow_array([], "a").type == pa.null() and infer_pyarrow_type([]) is None
    mixed = ["hi", 1, {"a": object}]
    with pytest.raises(ArrowConversionError, match=r"Error converting column 'c' \(target type: string\) to Arrow: \['hi', 1"):
        convert_to_native_array(mixed, "c")
    assert convert_to_pyarrow_array(mixed, "c").type == ArrowPythonObjectType()
    assert convert_to_pyarrow_array(mixed, "c").to_pylist() == mixed
    with weir.DataContext.current(weir.DataContext(enable_fallback_to_arrow_object_ext_type=False)), pytest.raises(ArrowConversionError):
        convert_to_pyarrow_array(mixed, "c")
    with pytest.raises(ArrowConversionError, match="Error converting data to Arrow"):
        pyarrow_table_from_pydict({"a": mixed})


def test_columns_of_pickles_are_refused(monkeypatch):
    pa = pytest.importorskip("pyarrow")
    from weir.extensions import ArrowPythonObjectArray
    from weir.extensions.arrow_arrays import raise_on_pickle_object_columns

    pickles = ArrowPythonObjectArray.from_objects([{"a": 1}])
    nested = [pa.ListArray.from_arrays([0, 1], pickles), pa.StructArray.from_arrays([pickles], ["f"]), pa.MapArray.from_arrays([0, 1], ["k"], pickles)]
    for column in (pickles, *nested):
        with pytest.raises(ValueError, match=r"\['c'\].*arrow_pickled_object"):
            raise_on_pickle_object_columns(pa.table({"b": [1], "c": column}))
    raise_on_pickle_object_columns(pa.table({"b": [1]}))
    monkeypatch.setenv("RAY_DATA_AUTOLOAD_PICKLE_OBJECT_SCALAR", "1")
    raise_on_pickle_object_columns(pa.table({"c": pickles}))


@pytest.mark.parametrize("kind", ["arrow", "pandas"])
@pytest.mark.parametrize("ignore_nulls", [True, False])
def test_partial_results_combine_in_any_order(kind, ignore_nulls):
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    import itertools

    import weir
    from weir.aggregate import AggregateFn, Count, Max, Mean, Std, Sum, Unique
    from weir.block import BlockAccessor
    from weir.block_order import SortKey

    rows = [{"k": n % 2, "a": float(n) if n % 3 else None} for n in range(6)]
    last = AggregateFn(init=lambda key: key, merge=max, accumulate_row=lambda seen, row: max(seen, row["k"]), name="key")
    aggs = (Count("a", ignore_nulls=ignore_nulls), Sum("a", ignore_nulls), Max("a", ignore_nulls), Mean("a", ignore_nulls), Std("a", ignore_nulls=ignore_nulls),
            Unique("a"), last, Sum("a", ignore_nulls))
    make = pa.Table.from_pylist if kind == "arrow" else pd.DataFrame
    key = SortKey("k")
    parts = [BlockAccessor.for_block(make(rows[n : n + 2]))._aggregate(key, aggs) for n in (0, 2, 4)]
    expected = weir.from_items(rows).groupby("k").aggregate(*aggs).sort("k").take_all()
    for order in itertools.permutations(parts):
        first, _ = BlockAccessor._combine_aggregated_blocks(order[:2], key, aggs, finalize=False)
        block, metadata = BlockAccessor._combine_aggregated_blocks([first, order[2]], key, aggs)
        made = block.to_pylist()
        for one, other in zip(made, expected, strict=True):
            one["unique(a)"], other["unique(a)"] = (sorted(row["unique(a)"], key=lambda v: (v is None, v)) for row in (one, other))
        assert made == expected and metadata.num_rows == 2
    assert BlockAccessor.for_block(make(rows[:0]))._aggregate(key, aggs).shape[0] == 0
    whole = BlockAccessor.for_block(make(rows))._aggregate(SortKey(), (Count(),))
    assert BlockAccessor._combine_aggregated_blocks([whole, whole], SortKey(), (Count(),))[0].to_pylist() == [{"count()": 12}]


def test_builders_of_one_kind_of_block():
    pa, pd, np = pytest.importorskip("pyarrow"), pytest.importorskip("pandas"), pytest.importorskip("numpy")
    from weir.block import ArrowBlockBuilder, BlockAccessor, PandasBlockBuilder

    when = pd.Timestamp("2023-01-01T00:00:00.123456789")
    tables, frames = ArrowBlockBuilder(), PandasBlockBuilder()
    for made in (tables, frames):
        made.add({"a": 1, "t": when})
        made.add({"a": 2, "b": "x", "t": when})
    tables.add_block(ArrowBlockBuilder._table_from_pydict({"c": np.zeros((1, 2, 2))}))
    frames.add_block(pd.DataFrame({"c": [0.5]}, index=[7]))
    assert tables.num_rows() == frames.num_rows() == 3
    table, frame = tables.build(), frames.build()
    assert table.schema.field("t").type == pa.timestamp("ns") and table["b"].to_pylist() == [None, "x", None]
    assert list(BlockAccessor.for_block(table).iter_rows(True))[2]["c"].shape == (2, 2)
    assert frame["t"][1] == when and frame["b"][1] == "x" and frame["c"][2] == 0.5 and frame.index.tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="expected pyarrow.Table"):
        tables.add_block(frame)
    with pytest.raises(TypeError, match="expected pandas.DataFrame"):
        frames.add_block(table)
    assert ArrowBlockBuilder().build().num_rows == len(PandasBlockBuilder().build()) == 0


def test_ranges_of_sampled_blocks():
    pa = pytest.importorskip("pyarrow")
    import weir
    from weir.block import BlockAccessor
    from weir.block_order import SortKey, SortTaskSpec

    key = SortKey(["a", "b"], descending=[True, False])
    table = pa.table({"a": [n // 10 if n else None for n in range(100)], "b": [str(n % 10) for n in range(100)]})
    cuts = SortTaskSpec.sample_boundaries([weir.put(table.slice(0, 50)), weir.put(table.slice(50))], key, 4)
    assert len(cuts) == 3 and cuts[0][0] >= cuts[1][0] >= cuts[2][0]
    parts = BlockAccessor.for_block(table).sort_and_partition(cuts, key)
    assert sum(part.num_rows for part in parts) == 100 and all(part.num_rows for part in parts)
    assert SortTaskSpec.get_boundaries_from_samples([table.slice(0, 0)], key, 4) == SortTaskSpec.sample_boundaries([], key, 4) == [None] * 3
    whole = SortTaskSpec.get_boundaries_from_samples([table], SortKey("b"), 5)
    assert whole == [("2",), ("4",), ("6",), ("8",)]


def test_classes_of_references_are_where_ray_keeps_them():
    import subprocess
    import sys

    words = ("import ray; from ray._raylet import ObjectRef, ObjectRefGenerator, GcsClient\n"
             "@ray.remote\ndef items():\n    yield 1\n"
             "made = items.remote()\n"
             "print(isinstance(made, ObjectRefGenerator), isinstance(next(made), ObjectRef), ObjectRefGenerator is ray.ObjectRefGenerator)")
    told = subprocess.run([sys.executable, "-m", "weir.compat", "-c", words], capture_output=True, text=True, timeout=100)
    assert told.stdout.split() == ["True"] * 3, told.stderr
