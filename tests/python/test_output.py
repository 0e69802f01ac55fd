"""What a run writes is there as a whole or not at all: pyarrow looks at it, as a second reader would."""
import random
import subprocess
import time
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet
import pytest

FILES = 6
ROWS = 60_000
KEPT = "x > 0.5"
KILLS = 12  # a case


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """A folder of files, and the sorted ids of the rows that the filter keeps."""
    folder = tmp_path_factory.mktemp("in")
    generator = numpy.random.default_rng(1)
    kept = []
    for number in range(FILES):
        ids = numpy.arange(number * ROWS, (number + 1) * ROWS)
        x = generator.random(ROWS)
        kept.append(ids[x > 0.5])
        names = pyarrow.array([f"name {i % 97}" for i in range(ROWS)])
        pyarrow.parquet.write_table(pyarrow.table({"id": ids, "x": x, "name": names}),
                                    folder / f"{number}.parquet", row_group_size=7_000)
    return folder, numpy.concatenate(kept)


@pytest.fixture
def weir(weir_command):
    """Starts the command; skips while it has no verbs."""
    if b"--mode" not in subprocess.run([weir_command, "help", "write"], capture_output=True).stdout:
        pytest.skip("the command cannot write yet")

    def start(*words):
        return subprocess.Popen([weir_command, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return start


def finish(process, code=0):
    _, message = process.communicate(timeout=120)
    assert (process.returncode == 0) == (code == 0), message.decode()
    return message.decode()


def visible_ids(target):
    """The ids that a reader finds, sorted; None when there is nothing at all."""
    if target.is_file():
        files = [target]
    elif target.is_dir():
        files = [path for path in sorted(target.rglob("*")) if path.is_file() and path.name[0] not in "._"
                 and not any(part[0] == "." for part in path.relative_to(target).parts)]
    else:
        return None
    parts = [pyarrow.parquet.read_table(path, columns=["id"])["id"].to_numpy() for path in files]
    return numpy.sort(numpy.concatenate(parts)) if parts else numpy.array([], dtype=numpy.int64)


def same(a, b):
    return (a is None and b is None) or (a is not None and b is not None and numpy.array_equal(a, b))


def leftovers(folder):
    return [str(path) for path in Path(folder).rglob("*") if ".weir-" in path.name]


def put_old(target):
    """What stands there before: one file of ten rows that are no input's."""
    if target.suffix:
        path = target
    else:
        target.mkdir()
        path = target / "old.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"id": numpy.arange(-10, 0)}), path)
    return numpy.arange(-10, 0)


def kill_at_random(start, words, longest, generator):
    """True when the kill came too late."""
    process = start(*words)
    time.sleep(generator.random() * longest)
    process.kill()
    process.communicate()
    return process.returncode == 0


CASES = [("out", "append", False), ("out", "overwrite", True), ("out", "append", True), ("out.parquet", "error", False),
         ("out.parquet", "overwrite", True)]


@pytest.mark.parametrize("name, mode, filled", CASES)
def test_killed_at_random_moments(weir, numbers, tmp_path, name, mode, filled):
    kill_many(weir, numbers, tmp_path, name, mode, filled, KILLS)


@pytest.mark.full
@pytest.mark.parametrize("name, mode, filled", CASES)
def test_killed_often(weir, numbers, tmp_path, name, mode, filled):
    kill_many(weir, numbers, tmp_path, name, mode, filled, 50)


def kill_many(weir, numbers, tmp_path, name, mode, filled, kills):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    generator = random.Random(seed)
    source, kept = numbers
    began = time.monotonic()
    finish(weir("read", source, "then", "filter", KEPT, "then", "write", tmp_path / "first" / name))
    longest = 1.2 * (time.monotonic() - began)
    ended = seen_old = seen_new = 0
    for number in range(kills):
        folder = tmp_path / str(number)
        folder.mkdir()
        target = folder / name
        old = put_old(target) if filled else None
        new = numpy.concatenate([old, kept]) if filled and mode == "append" else kept
        words = ["read", source, "then", "filter", KEPT, "then", "write", target, "--mode", mode]
        ended += kill_at_random(weir, words, longest if number else 0, generator)
        if filled and mode == "append":
            # Files arrive one by one here: they are whole once another run has begun on the folder.
            finish(weir("read", source, "then", "write", target, "--mode", "ignore"))
        now = visible_ids(target)
        assert same(now, old) or same(now, new), f"kill {number}: {None if now is None else len(now)} rows"
        seen_old += same(now, old)
        seen_new += same(now, new)
        # The next run clears away what is left, and does its own work.
        finish(weir("read", source, "then", "filter", KEPT, "then", "write", target, "--mode", "overwrite"))
        assert same(visible_ids(target), kept)
        assert leftovers(folder) == []
    print(f"{ended} ended before the kill; {seen_old} times the old state, {seen_new} times the new one")
    assert seen_old > 0


def test_modes(weir, numbers, tmp_path):
    source, kept = numbers
    target = tmp_path / "deep" / "er" / "out"
    words = ["read", source, "then", "filter", KEPT, "then", "write", target, "--mode"]
    finish(weir(*words, "error"))
    assert same(visible_ids(target), kept)
    message = finish(weir(*words, "error"), code=1)
    assert str(target) in message
    finish(weir(*words, "ignore"))
    assert same(visible_ids(target), kept)
    finish(weir(*words, "append"))
    assert same(visible_ids(target), numpy.sort(numpy.concatenate([kept, kept])))
    finish(weir(*words, "overwrite"))
    assert same(visible_ids(target), kept)
    assert all(path.suffix == ".parquet" for path in target.iterdir())
    assert sorted(path.name for path in target.parent.iterdir()) == ["out"]


def test_no_rows_make_nothing(weir, numbers, tmp_path):
    source, _ = numbers
    finish(weir("read", source, "then", "filter", "x > 2", "then", "write", tmp_path / "a" / "out"))
    assert list(tmp_path.iterdir()) == []


def test_a_failing_run_leaves_what_was_there(weir, numbers, tmp_path):
    source, _ = numbers
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in source.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    last = broken / f"{FILES - 1}.parquet"
    last.write_bytes(last.read_bytes()[:-100])
    for mode, filled in [("append", True), ("overwrite", True), ("append", False), ("overwrite", False)]:
        folder = tmp_path / f"{mode}-{filled}"
        folder.mkdir()
        target = folder / "out"
        old = put_old(target) if filled else None
        message = finish(weir("read", broken, "then", "write", target, "--mode", mode), code=1)
        assert str(last) in message
        assert same(visible_ids(target), old)
        assert leftovers(folder) == []
        assert len(list(folder.iterdir())) == filled
