"""Transforms: columns, rows, blocks, functions. Oracle: plain Python over the same rows."""
import os
import random
import subprocess
import sys
import textwrap

import pytest

import weir

SEED = 20261115
ROWS = [{"a": i, "b": f"t{i % 3}", "c": None if i % 4 == 0 else i / 2} for i in range(20)]


@pytest.fixture
def ds():
    return weir.from_items(ROWS)


# ---- columns ----

def test_select_drop_rename(ds):
    assert ds.select_columns(["c", "a"]).take_all() == [{"c": r["c"], "a": r["a"]} for r in ROWS]
    assert ds.select_columns("b").take_all() == [{"b": r["b"]} for r in ROWS]
    assert ds.drop_columns(["b", "c"]).take_all() == [{"a": r["a"]} for r in ROWS]
    assert ds.drop_columns("b").columns() == ["a", "c"] and ds.drop_columns([]).columns() == ["a", "b", "c"]
    assert ds.rename_columns({"a": "x"}).columns() == ["x", "b", "c"]
    assert ds.rename_columns(["x", "y", "z"]).columns() == ["x", "y", "z"]
    assert ds.rename_columns({"a": "b", "b": "a"}).take(1) == [{"b": 0, "a": "t0", "c": None}]


@pytest.mark.parametrize("name", ["with space", "ünï", 'quo"te', "quo'te", "back\\slash", "a,b", "x = y", "(", "select", "1"])
def test_names_of_all_kinds(name):
    ds = weir.from_items([{name: 1, "other": 2}])
    assert ds.select_columns([name]).take() == [{name: 1}]
    assert ds.drop_columns([name]).take() == [{"other": 2}]
    assert ds.rename_columns({name: "plain"}).take() == [{"plain": 1, "other": 2}]
    assert ds.rename_columns({"other": name + "2"}).take() == [{name: 1, name + "2": 2}]
    assert ds.filter(expr=weir.col(name) == 1).count() == 1
    assert ds.with_column(name, weir.col("other") * 10).take() == [{name: 20, "other": 2}]


@pytest.mark.parametrize("call, error", [
    (lambda d: d.select_columns(["a", "a"]), ValueError), (lambda d: d.select_columns(5), TypeError),
    (lambda d: d.select_columns([1]), ValueError), (lambda d: d.drop_columns(["a", "a"]), ValueError),
    (lambda d: d.drop_columns(["zz"]), KeyError),
    (lambda d: d.rename_columns({}), ValueError), (lambda d: d.rename_columns({"a": "x", "b": "x"}), ValueError),
    (lambda d: d.rename_columns(["x"]), ValueError), (lambda d: d.rename_columns(5), TypeError),
    (lambda d: d.rename_columns({"a": 5}), ValueError), (lambda d: d.rename_columns(["x", "x", "y"]), ValueError),
    (lambda d: d.with_column("x", 5), TypeError), (lambda d: d.with_column("", weir.lit(1)), ValueError),
    (lambda d: d.with_columns(), ValueError), (lambda d: d.with_columns([1]), TypeError),
    (lambda d: d.add_column("x", lambda b: b, batch_format="x"), ValueError), (lambda d: d.add_column(5, len), ValueError),
    (lambda d: d.add_column("x", 5), ValueError),
    (lambda d: d.filter(), ValueError), (lambda d: d.filter(lambda r: True, expr="a > 1"), ValueError),
    (lambda d: d.filter(expr="a > 1", fn_args=[1]), ValueError), (lambda d: d.filter(expr="a >"), ValueError),
    (lambda d: d.filter(5), ValueError), (lambda d: d.filter(expr=5), TypeError),
    (lambda d: d.limit("a"), TypeError), (lambda d: d.union(5), TypeError),
    (lambda d: d.random_sample(1.5), ValueError), (lambda d: d.random_sample(-0.1), ValueError),
    (lambda d: d.random_sample("a"), TypeError), (lambda d: d.random_sample(0.5, seed="x"), ValueError),
    (lambda d: weir.range(0).random_sample(0.5), ValueError),
    (lambda d: d.repartition(), ValueError), (lambda d: d.repartition(3, 4), ValueError), (lambda d: d.repartition(0), ValueError),
    (lambda d: d.repartition(target_num_rows_per_block=3, shuffle=True), ValueError), (lambda d: d.repartition("a"), TypeError),
    (lambda d: d.repartition(3, keys=["zz"]), ValueError),
    (lambda d: d.map_batches(lambda b: b, batch_format="x"), ValueError), (lambda d: d.map_batches(lambda b: b, batch_size=0), ValueError),
    (lambda d: d.map_batches(lambda b: b, batch_size=-1), ValueError), (lambda d: d.map_batches(lambda b: b, batch_size="x"), ValueError),
    (lambda d: d.map_batches(lambda b: b, batch_size=2.5), ValueError),
    (lambda d: d.map_batches(lambda b: b, fn_constructor_args=[1]), ValueError),
    (lambda d: d.map_batches(lambda b: b, fn_constructor_kwargs={"a": 1}), ValueError),
    (lambda d: d.map_batches(lambda b: b, concurrency=0), ValueError), (lambda d: d.map_batches(lambda b: b, concurrency=(1, 2)), ValueError),
    (lambda d: d.map_batches(lambda b: b, concurrency="a"), ValueError), (lambda d: d.map_batches(5), ValueError),
    (lambda d: d.map(5), ValueError), (lambda d: d.map_batches(lambda b: b, compute="x"), ValueError),
    (lambda d: d.map(lambda r: r, num_cpus=-1), ValueError), (lambda d: d.map(lambda r: r, nonsense=1), TypeError),
    (lambda d: d.map(lambda r: r, resources={"CPU": 1}), ValueError), (lambda d: d.map(lambda r: r, resources={"x": -1}), ValueError),
    (lambda d: d.map(lambda r: r, resources=["x"]), TypeError),
    (lambda d: d.map(lambda r: r, runtime_env={"pip": ["x"]}), ValueError),
])
def test_mistakes_are_errors_at_the_call(ds, call, error):
    with pytest.raises(error):
        call(ds)


def test_what_is_only_known_later_is_an_error_of_the_run(ds):
    late = ds.select_columns(["zz"])
    with pytest.raises(KeyError, match="zz"):
        late.take()
    with pytest.raises(KeyError, match="zz"):
        ds.rename_columns({"zz": "y"}).take()
    with pytest.raises(KeyError, match="zz"):
        ds.filter(expr="zz > 1").take()


def test_filters(ds):
    wanted = [r for r in ROWS if r["c"] is not None and r["c"] > 3 and r["b"] != "t1"]
    assert ds.filter(expr='c > 3 and b != "t1"').take_all() == wanted
    assert ds.filter(expr=(weir.col("c") > 3) & (weir.col("b") != "t1")).take_all() == wanted
    assert ds.filter((weir.col("c") > 3) & (weir.col("b") != "t1")).take_all() == wanted
    with pytest.raises(ValueError, match="fn must be a UserDefinedFunction, but got str.*filter.expr='c > 3'"):
        ds.filter("c > 3")
    pc = pytest.importorskip("pyarrow.compute")
    assert ds.filter(expr=(pc.field("c") > 3) & (pc.field("b") != "t1")).take_all() == wanted


def test_computed_columns(ds):
    made = ds.with_column("d", weir.col("a") * 2 + 1).take_all()
    assert made == [{**r, "d": r["a"] * 2 + 1} for r in ROWS]
    assert ds.with_column("a", weir.lit("x")).take(1) == [{"a": "x", "b": "t0", "c": None}]
    made = ds.with_columns({"a": weir.col("a") + 1, "e": weir.col("a")}, {"f": weir.lit(None)}).take(2)
    assert [(r["a"], r["e"], r["f"]) for r in made] == [(1, 0, None), (2, 1, None)]


# ---- rows and blocks ----

@pytest.mark.parametrize("n", [0, 1, 7, 20, 100])
def test_limits(ds, n):
    assert ds.limit(n).take_all() == ROWS[:n] and ds.limit(n).count() == min(n, 20)
    assert ds.limit(5).limit(n).take_all() == ROWS[:min(5, n)]
    assert weir.range(10**12).limit(n).count() == n
    assert ds.limit(-1).take_all() == []


def test_a_filter_stays_behind_a_limit():
    assert weir.range(100).limit(10).filter(expr="id >= 8").take_all() == [{"id": 8}, {"id": 9}]


def test_unions(ds):
    assert ds.union().take_all() == ROWS
    assert ds.union(ds, ds).take_all() == ROWS * 3
    assert weir.range(2).union(weir.range(3)).filter(expr="id == 1").count() == 2
    assert weir.range(3).union(weir.range(3)).limit(4).take_all() == [{"id": 0}, {"id": 1}, {"id": 2}, {"id": 0}]
    assert weir.range(2).union(weir.range(3).limit(1)).count() == 3
    missing = weir.from_items([{"a": 1}]).union(weir.from_items([{"b": 2}])).take_all()
    assert missing in ([{"a": 1}, {"b": 2}], [{"a": 1, "b": None}, {"a": None, "b": 2}])
    mixed = weir.from_items([{"a": 1}]).union(weir.from_items([{"a": "x"}]))
    assert mixed.take_all() == [{"a": 1}, {"a": "x"}]


def test_unions_of_functions():
    twice = weir.range(3).map(lambda r: {"id": r["id"] * 2})
    assert weir.range(2).union(twice).take_all() == [{"id": i} for i in (0, 1, 0, 2, 4)]
    both = twice.union(weir.range(2))
    assert both.count() == 5 and both.filter(expr="id > 0").count() == 3
    assert both.limit(4).take_all() == [{"id": i} for i in (0, 2, 4, 0)]
    assert [r["id"] for r in both.map(lambda r: {"id": -r["id"]}).take_all()] == [0, -2, -4, 0, -1]


def test_samples():
    ds = weir.range(10_000)
    assert abs(ds.random_sample(0.3, seed=1).count() - 3000) < 200
    assert ds.random_sample(0.3, seed=1).take_all() == ds.random_sample(0.3, seed=1).take_all()
    fresh = ds.random_sample(0.5)
    assert fresh.take_all() != fresh.take_all()
    assert ds.random_sample(0).count() == 0 and ds.random_sample(1).count() == 10_000


@pytest.mark.parametrize("count, sizes", [(3, [3, 3, 4]), (1, [10]), (10, [1] * 10), (4, [2, 3, 2, 3])])
def test_repartition_to_blocks(count, sizes):
    for source in (weir.range(10), weir.range(10, override_num_blocks=7), weir.from_items([{"id": i} for i in range(10)])):
        ds = source.repartition(count)
        assert [len(b["id"]) for b in ds.iter_batches(batch_size=None)] == sizes
        assert [r["id"] for r in ds.take_all()] == list(range(10))
        assert ds.materialize().num_blocks() == count


@pytest.mark.parametrize("rows, sizes", [(4, [4, 4, 2]), (10, [10]), (3, [3, 3, 3, 1]), (100, [10])])
def test_repartition_to_rows(rows, sizes):
    """Blocks that have no more rows than that stay as they are, unless it is to be strict."""
    ds = weir.range(10, override_num_blocks=4).repartition(target_num_rows_per_block=rows, strict=True)
    assert [len(b["id"]) for b in ds.iter_batches(batch_size=None)] == sizes
    assert ds.materialize().num_blocks() == len(sizes)
    assert ds.repartition(2).materialize().num_blocks() == 2
    loose = weir.range(10, override_num_blocks=4).repartition(target_num_rows_per_block=rows)
    assert [len(b["id"]) for b in loose.iter_batches(batch_size=None)] == [2, 3, 2, 3]


def test_repartition_of_blocks_of_different_schemas():
    ds = weir.range(9).map_batches(lambda b: {"x": b["id"]} if b["id"][0] < 3 else {"x": [str(i) for i in b["id"]]}, batch_size=3)
    assert [r["x"] for r in ds.repartition(2).take_all()] == [0, 1, 2, "3", "4", "5", "6", "7", "8"]


def test_repartition_of_much_data_stays_in_chunks(monkeypatch):
    from weir import _run

    monkeypatch.setattr(_run, "JOINED_BYTES", 1000)
    kept = weir.range(10_000).repartition(3).materialize()
    assert kept.num_blocks() == 3 and [len(b["id"]) for b in kept.iter_batches(batch_size=None)] == [3333, 3333, 3334]
    assert kept.sum("id") == 49_995_000 and kept.filter(expr="id > 9_998").take_all() == [{"id": 9999}]


def sizes_seen(batch):
    return {"n": [len(batch["id"])]}


def test_one_call_gets_one_block():
    assert [r["n"] for r in weir.range(10).repartition(3).map_batches(sizes_seen).take_all()] == [3, 3, 4]
    assert [r["n"] for r in weir.range(10).repartition(target_num_rows_per_block=4).map_batches(sizes_seen).take_all()] == [4, 4, 2]
    assert sorted(r["n"] for r in weir.range(10, override_num_blocks=5).map_batches(sizes_seen).take_all()) == [2] * 5


# ---- functions ----

def test_functions_of_rows(ds):
    assert ds.map(lambda r: {"a": r["a"] + 1}).take_all() == [{"a": r["a"] + 1} for r in ROWS]
    assert ds.flat_map(lambda r: [r, r]).take_all() == [r for r in ROWS for _ in "xx"]
    assert ds.filter(lambda r: r["a"] % 2).take_all() == [r for r in ROWS if r["a"] % 2]
    assert ds.map(lambda r, n, m=0: {"x": r["a"] + n + m}, fn_args=[10], fn_kwargs={"m": 5}).take(1) == [{"x": 15}]


class Add:
    def __init__(self, n, m=0):
        self.n = n + m

    def __call__(self, batch):
        return {"a": batch["a"] + self.n}


def test_classes(ds):
    made = ds.map_batches(Add, fn_constructor_args=[10], fn_constructor_kwargs={"m": 5}, concurrency=2)
    assert [r["a"] for r in made.take_all()] == [r["a"] + 15 for r in ROWS]
    made = ds.map_batches(Add, fn_constructor_args=[1], compute=weir.ActorPoolStrategy(size=1))
    assert made.count() == 20
    plain = ds.drop_columns(["c"])  # a null float is NaN in a NumPy batch
    assert plain.map_batches(lambda b: b, compute=weir.ActorPoolStrategy(size=1)).take_all() == plain.take_all()
    assert plain.map_batches(lambda b: b, compute="tasks").take_all() == plain.take_all()


@pytest.mark.parametrize("size", [1, 3, 7, 20, 100, None, "auto"])
def test_batch_sizes(size):
    ds = weir.range(20).map_batches(lambda b: {"n": [len(b["id"])] * len(b["id"]), "id": b["id"]}, batch_size=size)
    rows = ds.take_all()
    assert [r["id"] for r in rows] == list(range(20))
    if isinstance(size, int):
        assert [r["n"] for r in rows] == [min(size, 20 - i // size * size) for i in range(20)]


def test_functions_between_native_steps(ds):
    made = (ds.filter(expr="a >= 4").map_batches(lambda b: {"a": b["a"], "twice": b["a"] * 2}).filter(expr="twice > 20")
            .with_column("half", weir.col("a") / 2.0).map(lambda r: {"s": f"{r['twice']}:{r['half']}"}).limit(3))
    assert made.take_all() == [{"s": f"{2 * a}:{a / 2}"} for a in (11, 12, 13)]
    assert made.schema().names == ["s"]


def test_add_column(ds):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    assert ds.add_column("x", lambda df: df["a"] * 2).take(2)[1]["x"] == 2
    assert ds.add_column("x", lambda b: b["a"] * 3, batch_format="numpy").take(2)[1]["x"] == 3
    assert ds.add_column("a", lambda df: pd.Series(["z"] * len(df))).take(1)[0]["a"] == "z"
    assert ds.add_column("x", lambda t: t["a"], batch_format="pyarrow").take(2)[1]["x"] == 1


def test_values_beside_python_objects_of_another_block_are_objects_too():
    """2**100 is of no type, so its block holds Python objects; a batch of it and of numbers, or texts, has them side by side."""
    def made(batch):
        return {"id": batch["id"], "x": [[1, 2**100, "text"][batch["id"][0]]]}

    ds = weir.range(3, override_num_blocks=3).map_batches(made, batch_size=None).materialize()
    assert [row["x"] for row in ds.map_batches(lambda batch: batch, batch_size=3).take_all()] == [1, 2**100, "text"]
    assert [list(batch["x"]) for batch in ds.iter_batches(batch_size=3)] == [[1, 2**100, "text"]]


def test_blocks_may_have_different_schemas():
    def odd(batch):
        if batch["id"][0] < 5:
            return {"x": batch["id"]}
        return {"x": [str(i) for i in batch["id"]], "y": batch["id"]}

    ds = weir.range(10).map_batches(odd, batch_size=5)
    rows = ds.take_all()
    assert [r["x"] for r in rows] == [0, 1, 2, 3, 4, "5", "6", "7", "8", "9"]
    assert ds.schema().names == ["x"]
    kept = ds.materialize()
    assert kept.take_all() == rows and kept.limit(6).take_all() == rows[:6]
    with pytest.raises(ValueError, match="x"):
        list(ds.iter_batches(batch_size=10))


def test_names_of_operators(ds):
    def double(batch):
        return batch

    for made, name in [(ds.map_batches(double), "MapBatches(double)"), (ds.map(lambda r: r), "Map(<lambda>)"),
                       (ds.flat_map(double), "FlatMap(double)"), (ds.filter(double), "Filter(double)"),
                       (ds.map_batches(Add, fn_constructor_args=[1]), "MapBatches(Add)"), (ds.limit(3), "limit=3"),
                       (ds.filter(expr=weir.col("a") > 2), "Filter(col('a') > 2)"), (ds.select_columns("a"), "Project"),
                       (ds.union(ds), "Union"), (ds.random_sample(0.5), "MapBatches(random_sample)")]:
        assert made._op.name == name
    tree = repr(weir.range(3).map(double).filter(lambda r: True))
    assert tree == "Filter(<lambda>)\n+- Map(double)\n   +- Dataset(num_rows=3, schema={id: int64})"


def test_local_mode_runs_functions_here():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent("""
        import os, weir
        weir.init(local_mode=True)
        seen = []
        ds = weir.range(10).map_batches(lambda b: (seen.append(os.getpid()), b)[1], batch_size=4).filter(expr="id > 2")
        assert [r["id"] for r in ds.take_all()] == list(range(3, 10)) and set(seen) == {os.getpid()} and len(seen) == 3
        assert ds.map(lambda r: {"x": r["id"] * 2}).limit(2).take_all() == [{"x": 6}, {"x": 8}]
        assert ds.count() == 7 and ds.union(weir.range(1)).count() == 8 and ds.materialize().count() == 7
        assert ds.repartition(3).materialize().num_blocks() == 3
        try:
            weir.range(3).map(lambda r: 1 / 0).take()
        except ZeroDivisionError:
            print("done")
    """)], capture_output=True, text=True, timeout=120, env=os.environ)
    assert done.stdout.strip() == "done", done.stderr


def test_gpus_are_handed_out():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent("""
        import os, time, weir
        weir.init(num_gpus=2)
        def where(batch):
            time.sleep(0.02)
            return {"gpu": [os.environ["CUDA_VISIBLE_DEVICES"]], "pid": [os.getpid()]}
        rows = weir.range(100, override_num_blocks=20).map_batches(where, num_gpus=1, concurrency=4).take_all()
        assert len({r["pid"] for r in rows}) <= 2 and {r["gpu"] for r in rows} <= {"0", "1"}
        rows = weir.range(100).map_batches(where, num_gpus=0.5).take_all()
        assert {r["gpu"] for r in rows} <= {"0", "1"}
        weir.shutdown()
        weir.init(num_gpus=0)
        try:
            weir.range(3).map_batches(where, num_gpus=1, batch_size=2).take()
        except ValueError as error:
            assert "num_gpus" in str(error)
            print("done")
    """)], capture_output=True, text=True, timeout=120, env=os.environ)
    assert done.stdout.strip() == "done", done.stderr


def test_limits_of_resources_bound_the_workers():
    context = weir.DataContext()
    context.execution_options.resource_limits.cpu = 1
    with weir.DataContext.current(context):
        ds = weir.range(1000, override_num_blocks=50).map_batches(lambda b: {"pid": [os.getpid()]}, concurrency=2)
    assert ds.count() == 50
    assert ds._last_run.stats[-1]["stages"][-1]["slots_peak"] == 1


def test_random_chains_of_native_steps():
    rng = random.Random(SEED)
    for _ in range(60):
        rows = [{"a": rng.randrange(10), "b": rng.choice("xyz"), "c": rng.randrange(100)} for _ in range(rng.randrange(0, 60))]
        ds = weir.from_items(rows, override_num_blocks=rng.choice([None, 2, 5]))
        model = list(rows)
        if not rows:
            continue
        for _ in range(rng.randrange(1, 6)):
            kind = rng.choice(["filter", "limit", "union", "with", "repartition", "rows", "materialize"])
            if kind == "filter":
                n = rng.randrange(10)
                ds, model = ds.filter(expr=weir.col("a") >= n), [r for r in model if r["a"] >= n]
            elif kind == "limit":
                n = rng.randrange(40)
                ds, model = ds.limit(n), model[:n]
            elif kind == "union":
                ds, model = ds.union(weir.from_items(rows)), model + rows
            elif kind == "with":
                ds, model = ds.with_column("c", weir.col("c") + 1), [{**r, "c": r["c"] + 1} for r in model]
            elif kind == "repartition":
                ds = ds.repartition(rng.randrange(1, 6))
            elif kind == "rows":
                ds = ds.repartition(target_num_rows_per_block=rng.randrange(1, 20))
            else:
                ds = ds.materialize()
        assert ds.take_all() == model, SEED
        assert ds.count() == len(model), SEED


def test_functions_get_no_more_rows_than_a_limit_behind_them_wants(tmp_path):
    """Of those that make one row of each: a filter, or a function that may leave rows out, gets more."""
    def seen(row):
        (tmp_path / str(row["id"])).touch()
        return row

    def all_seen(batch):
        for number in batch["id"]:
            (tmp_path / str(number)).touch()
        return batch

    def called(ds, wanted=5):
        assert len(ds.limit(5).take_all()) == wanted
        numbers = sorted(int(path.name) for path in tmp_path.iterdir())
        for path in tmp_path.iterdir():
            path.unlink()
        return numbers
    ds = weir.range(200, override_num_blocks=1)
    assert called(ds.map(seen).map(lambda r: r).with_column("y", weir.col("id") + 1).drop_columns(["y"])) == list(range(5))
    assert called(ds.map_batches(all_seen, batch_size=3, udf_modifying_row_count=False)) == list(range(5))
    assert called(ds.limit(3).map(seen), wanted=3) == list(range(3))
    assert len(called(ds.map_batches(all_seen, batch_size=10))) >= 10
    assert len(called(ds.map(seen).filter(lambda r: r["id"] % 2 == 0))) >= 9
    with weir.DataContext.current(weir.DataContext.get_current().copy()) as context:
        context.max_errored_blocks = -1  # tasks that fail are left out, and others take their place
        failing = weir.range(40, override_num_blocks=40).map(lambda r: {"id": 1 // (r["id"] % 2)})
        assert len(failing.limit(5).take_all()) == 5


@pytest.mark.parametrize("name", ["num_cpus", "num_gpus", "memory"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**70])
def test_amounts_that_are_no_numbers(ds, name, value):
    with pytest.raises(TypeError, match=f"map: {name} is a number of at least 0, not {value}"):
        ds.map(dict.copy, **{name: value})


def test_more_rows_than_there_can_be():
    ds = weir.range(3)
    assert ds.map_batches(lambda batch: batch, batch_size=2**70).count() == ds.limit(2**70).count() == 3
    assert len(ds.take(2**70)) == len(ds.take_batch(2**70)["id"]) == len(next(iter(ds.iter_batches(batch_size=2**70)))["id"]) == 3


def test_sizes_of_pools_that_are_none():
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError, match=f"`size` must be >= 1, not {wrong}$"):
            weir.ActorPoolStrategy(size=wrong)
