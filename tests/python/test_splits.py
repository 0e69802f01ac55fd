"""Splits, shards and mixes. Oracles: what Ray 2.60 answered to split_programs.py, and plain Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

import weir  # noqa: E402
from driver_scripts import made_once  # noqa: E402
from split_programs import PROGRAMS  # noqa: E402

HERE = Path(__file__).parent
ANSWERS = json.loads((HERE / "recorded" / "split_answers.json").read_text())

# Where weir's text is its own; the type of the error is Ray's.
OTHER_TEXTS = {"iterator_format", "iterator_is_no_iterable", "loop", "lineage_items", "take_all_limit", "len"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return made_once(tmp_path_factory, "split_answers", answers_of_weir)  # type: ignore[no-any-return]


def answers_of_weir() -> dict[str, Any]:
    """Through compat, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "weir.compat", str(HERE / "split_programs.py")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_all_programs_have_an_answer() -> None:
    assert set(ANSWERS) == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_ray(name: str, answers: dict[str, Any]) -> None:
    if name == "random_access" and not hasattr(weir, "put"):
        pytest.skip("needs weir.put")
    if "torch" in name:
        pytest.importorskip("torch")
    expected, found = ANSWERS[name], answers[name]
    if name in OTHER_TEXTS:
        assert found[:2] == expected[:2] and found[0] == "error" and found[2]
    else:
        assert found == expected


def ids(ds: Any) -> list[int]:
    return [row["id"] for row in ds.take_all()]


# ---- splits of any size ----


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 200), st.integers(1, 12), st.integers(1, 9), st.booleans())
def test_split(rows: int, blocks: int, n: int, equal: bool) -> None:
    parts = [ids(part) for part in weir.range(rows, override_num_blocks=blocks).split(n, equal=equal)]
    assert len(parts) == n
    if equal:
        assert [len(part) for part in parts] == [rows // n] * n
    joined = [i for part in parts for i in part]
    assert joined == list(range(len(joined))) and (equal or len(joined) == rows)


def test_a_split_of_nothing_keeps_its_columns() -> None:
    parts = weir.range(2).split_at_indices([2])
    assert parts[1].count() == 0 and parts[1].schema().names == ["id"] and parts[1].take_all() == []


def test_the_source_runs_once(tmp_path: Path) -> None:
    def note(batch: dict[str, Any]) -> dict[str, Any]:
        with open(tmp_path / "calls", "a") as file:
            file.write("x")
        return batch

    train, test = weir.range(100).map_batches(note).train_test_split(0.2)
    assert train.count() + test.count() + len(train.take_all()) == 180
    assert (tmp_path / "calls").read_text() == "x"


def test_shuffled_halves() -> None:
    train, test = weir.range(1000).train_test_split(0.25, shuffle=True, seed=3)
    assert (train.count(), test.count()) == (750, 250)
    assert sorted(ids(train) + ids(test)) == list(range(1000))
    assert ids(test) != sorted(ids(test)) and min(ids(test)) < 750
    assert ids(weir.range(1000).train_test_split(0.25, shuffle=True, seed=3)[1]) == ids(test)


def test_stratified_halves() -> None:
    ds = weir.from_items([{"label": "abc"[i % 3], "x": i} for i in range(300)])
    train, test = ds.train_test_split(0.2, stratify="label")
    assert sorted(ds.columns() or []) == sorted(test.columns() or []) == ["label", "x"]
    for part, count in ((train, 80), (test, 20)):
        assert part.groupby("label").count().sort("label").take_all() == [{"label": k, "count()": count} for k in "abc"]
    assert sorted(row["x"] for row in test.take_all()) == list(range(240, 300))
    assert sorted(row["x"] for part in (train, test) for row in part.take_all()) == list(range(300))
    assert ds.train_test_split(60, stratify="label")[1].count() == 60
    with pytest.raises(ValueError, match="both"):
        ds.train_test_split(0.5, stratify="label", shuffle=True)
    with pytest.raises(ValueError, match="nope"):
        ds.train_test_split(0.5, stratify="nope")


# ---- halves ----


def test_stratified_halves_of_nothing() -> None:
    for ds in (weir.range(10).filter(lambda row: False), weir.range(10).filter(expr="id < 0"), weir.range(0)):
        train, test = ds.train_test_split(0.5, stratify="id")
        assert (train.count(), test.count()) == (0, 0)


def test_halves_stay_apart_whatever_comes_behind() -> None:
    ds = weir.range(200_000).map_batches(lambda batch: {"id": batch["id"], "x": batch["id"] * 2})
    train, test = ds.streaming_train_test_split(0.3, seed=5)
    train_ids = set(ids(train.select_columns(["id"])))
    test_ids = {row["id"] for row in test.filter(expr="x > 100").take_all()}
    assert not train_ids & test_ids
    assert {row["id"] for row in train.limit(50).take_all()} <= train_ids
    assert abs(len(train_ids) / 200_000 - 0.7) < 0.01
    assert set(ids(ds.streaming_train_test_split(0.3, seed=6)[0])) != train_ids


# ---- shards ----


def shards(ds: Any, n: int) -> list[Any]:
    return [ds.shard(n, index) for index in range(n)]


def check_shards(ds: Any, n: int, expected: list[int]) -> list[list[int]]:
    parts = [ids(part) for part in shards(ds, n)]
    assert sorted(i for part in parts for i in part) == expected
    assert [part.count() for part in shards(ds, n)] == [len(part) for part in parts]
    return parts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("files")
    for number in range(5):
        begin = number * 1000
        table = pa.table(
            {"id": np.arange(begin, begin + 1000), "l": [[i] * (i % 3) for i in range(1000)], "s": [str(i) for i in range(1000)]}
        )
        pq.write_table(table, path / f"{number}.parquet", row_group_size=333)
    return path


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 64])
def test_shards_of_files(folder: Path, n: int) -> None:
    ds = weir.read_parquet(str(folder))
    parts = check_shards(ds, n, list(range(5000)))
    files = [part.input_files() for part in shards(ds, n)]
    if n <= 5:
        assert sorted(f for part in files for f in part) == sorted(ds.input_files())
    else:
        assert max(map(len, parts)) - min(map(len, parts)) <= 5  # at most one row a file


def test_shards_behind_functions_and_filters(folder: Path) -> None:
    ds = weir.read_parquet(str(folder), columns=["id"]).filter(expr="id % 2 == 0").map_batches(lambda b: {"id": b["id"] + 1})
    check_shards(ds, 7, list(range(1, 5000, 2)))


def test_a_shard_does_not_depend_on_what_comes_behind(folder: Path) -> None:
    for index in range(8):
        shard = weir.read_parquet(str(folder)).shard(8, index)
        whole = {row["id"] for row in shard.take_all()}
        assert set(ids(shard.select_columns(["id"]))) == whole == set(ids(shard.filter(expr="id >= 0")))
        assert {row["id"] for row in shard.limit(30).take_all()} <= whole


def test_shards_of_texts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n" + "\n".join(map(str, range(1000))) + "\n")
    check_shards(weir.read_csv(str(tmp_path / "a.csv")), 3, list(range(1000)))
    check_shards(weir.read_csv([str(tmp_path / "a.csv")] * 1), 1, list(range(1000)))


@pytest.mark.parametrize("n", [2, 3, 16])
def test_shards_of_everything_else(n: int) -> None:
    check_shards(weir.range(1000), n, list(range(1000)))
    check_shards(weir.range(1000, override_num_blocks=7), n, list(range(1000)))
    check_shards(weir.from_items([{"id": i} for i in range(100)]), n, list(range(100)))
    check_shards(weir.range(100).repartition(4).materialize(), n, list(range(100)))
    check_shards(weir.range(100).limit(50), n, list(range(50)))
    check_shards(weir.range(10).union(weir.range(5)), n, sorted([*range(10), *range(5)]))
    check_shards(weir.range(100).repartition(4), n, list(range(100)))
    check_shards(weir.range(50).mix(weir.range(50)), n, sorted([*range(50)] * 2))


def test_shards_behind_exchanges() -> None:
    """A group is in one of them, whole; rows of a join are in one each, whatever its kind."""
    ds = weir.range(1000).with_column("k", weir.col("id") % 37)
    groups = sorted((k, len(range(k, 1000, 37))) for k in range(37))
    for n in (2, 5):
        parts = [[(row["k"], row["n"]) for row in part.take_all()] for part in shards(ds.groupby("k").aggregate(weir.aggregate.Count(alias_name="n")), n)]
        assert sorted(row for part in parts for row in part) == groups and sum(map(bool, parts)) == n
        called = ds.groupby("k").map_groups(lambda group: {"k": group["k"][:1], "n": [len(group["k"])]}, batch_format="numpy").filter(lambda row: True)
        assert sorted((row["k"], row["n"]) for part in shards(called, n) for row in part.take_all()) == groups
        own = weir.aggregate.AggregateFn(init=lambda k: 0, accumulate_row=lambda a, row: a + 1, merge=lambda a, b: a + b, name="n")
        assert sorted((row["k"], row["n"]) for part in shards(ds.groupby("k").aggregate(own), n) for row in part.take_all()) == groups
        for how in ("inner", "left_outer", "right_outer", "full_outer", "left_semi", "right_semi", "left_anti", "right_anti"):
            joined = ds.filter(expr="id < 90").join(weir.range(150).rename_columns({"id": "r"}), how, 2, on=("id",), right_on=("r",))
            rows = sorted((tuple(row.items()) for row in joined.take_all()), key=repr)
            assert sorted((tuple(row.items()) for part in shards(joined, n) for row in part.take_all()), key=repr) == rows, how
        check_shards(ds.sort("id").select_columns(["id"]), n, list(range(1000)))
        check_shards(ds.random_shuffle().select_columns(["id"]), n, list(range(1000)))


def test_shards_of_shards() -> None:
    parts = [ids(part) for outer in shards(weir.range(1000), 3) for part in shards(outer, 4)]
    assert sorted(i for part in parts for i in part) == list(range(1000))


def test_shard_arguments() -> None:
    for arguments in ((0, 0), (3, 3), (3, -1)):
        with pytest.raises(ValueError):
            weir.range(3).shard(*arguments)
    with pytest.raises(TypeError):
        weir.range(3).shard("3", 0)  # type: ignore[arg-type]


RANK = """
import os, sys, weir  # noqa: E402
ds = weir.read_parquet(sys.argv[1]).shard(int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
rows = sum(len(batch["id"]) for _ in range(3) for batch in ds.iter_batches(batch_size=100))
state = weir._session.current()
print(rows, state.num_cpus, state.native.memory_limit, state.native.threads)
"""


def test_ranks_share_the_machine(folder: Path) -> None:
    def run(world: int, rank: int) -> list[float]:
        environment = {**os.environ, "WORLD_SIZE": str(world), "RANK": str(rank), "LOCAL_WORLD_SIZE": str(world)}
        environment.pop("WEIR_MEMORY_LIMIT", None)
        done = subprocess.run(
            [sys.executable, "-c", RANK, str(folder)], env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        return [float(word) for word in done.stdout.split()]

    alone = run(1, 0)
    ranks = [run(2, rank) for rank in range(2)]
    assert alone[0] == sum(rank[0] for rank in ranks) == 15000
    for rank in ranks:
        assert rank[1] == rank[3] == max(1, alone[1] // 2)
        assert abs(rank[2] / alone[2] - 0.5) < 0.01


# ---- mixes ----


def test_a_mix_keeps_to_its_weights() -> None:
    a = weir.range(300_000)
    b = weir.range(100_000).map_batches(lambda batch: {"id": batch["id"] + 1_000_000})
    mixed = a.mix(b, weights=[3, 1])
    seen = ids(mixed)
    assert sorted(seen) == [*range(300_000), *range(1_000_000, 1_100_000)]
    half = seen[: len(seen) // 2]
    assert abs(sum(i >= 1_000_000 for i in half) / len(half) - 0.25) < 0.01
    assert seen == ids(mixed)


def test_steps_and_functions_behind_a_mix() -> None:
    mixed = weir.range(100).mix(weir.range(100)).map_batches(lambda batch: {"id": batch["id"] * 2}).filter(expr="id > 100")
    assert sorted(ids(mixed)) == sorted([i for i in range(102, 200, 2)] * 2)
    assert mixed.count() == 98 and mixed.schema().names == ["id"]
    assert len(mixed.limit(5).take_all()) == 5
    assert mixed.materialize().count() == 98


def test_an_error_inside_of_a_mix() -> None:
    def fails(batch: dict[str, Any]) -> dict[str, Any]:
        raise LookupError("inside")

    for ds in (weir.range(10).mix(weir.range(10).map_batches(fails)),):
        for use in (ds.take_all, ds.count, ds.materialize, ds.map_batches(lambda b: b).take_all):
            with pytest.raises(LookupError, match="inside"):
                use()


def test_a_mix_of_different_columns() -> None:
    with pytest.raises(Exception, match="column"):
        weir.range(10).mix(weir.from_items([{"other": "x"}])).map_batches(lambda b: b).take_all()


def test_mix_arguments() -> None:
    for weights in ([1, 0], [1, -1], [float("nan"), 1]):
        with pytest.raises(ValueError, match="Weights must be positive"):
            weir.range(3).mix(weir.range(3), weights=weights)
    with pytest.raises(TypeError):
        weir.range(3).mix([1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="stopping condition"):
        weir.range(3).mix(weir.range(3), stopping_condition="first")  # type: ignore[arg-type]


# ---- blocks in random order ----


def test_without_a_seed_each_run_differs() -> None:
    ds = weir.range(1000, override_num_blocks=100).randomize_block_order()
    assert ids(ds) != ids(ds)
    reseeded = weir.range(1000, override_num_blocks=100).randomize_block_order(seed=weir.RandomSeedConfig(3))
    assert ids(reseeded) != ids(reseeded)


def test_few_blocks_are_cut() -> None:
    ds = weir.range(1000).randomize_block_order(seed=0)
    assert sorted(ids(ds)) == list(range(1000)) != ids(weir.range(1000).randomize_block_order(seed=3))


# ---- rows by key ----


def test_random_access() -> None:
    rows = [{"k": f"key-{i % 500}", "v": i} for i in range(1000)]
    found = weir.from_items(rows).to_random_access_dataset("k")
    shared = weir.range(8, override_num_blocks=4).to_random_access_dataset("id", num_workers=2)
    assert shared.multiget([0, 7, 99]) == [{"id": 0}, {"id": 7}, None]
    assert "Num workers: 2\n- Blocks per worker: 2 min, 2 max, 2 mean\n- Accesses per worker: 1 min, 1 max, 1 mean\n" in shared.stats()
    assert found.multiget(["key-7", "nothing", "key-499", 3]) == [rows[7], None, rows[499], None]
    assert "Num workers: 4" in found.stats() and "Accesses per worker: 0 min, 1 max" in found.stats()
    with pytest.raises(ValueError, match="no column 'x'"):
        weir.range(3).to_random_access_dataset("x")
    with pytest.raises(ValueError, match="order"):
        weir.from_items([{"k": None}, {"k": "a"}]).to_random_access_dataset("k")
