"""read, filter, write on some 80 MB, killed at random moments of a run: the target is the old one or the whole new one, and
the next run clears up. pyarrow is the second reader; what it sees is compared row by row with what NumPy computed."""
import os
import random
import subprocess
import time

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

FILES = 8
ROWS = 200_000
KILLS = 3  # a case; five cases
OLD_ROWS = 1000


def old_table():
    """What stood there before: rows that are no input's."""
    ids = numpy.arange(-OLD_ROWS, 0)
    return pa.table({"id": ids, "x": ids / 7.0, "name": [f"old {i}" for i in ids]})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder, and the rows of it that the filter keeps, sorted by id."""
    folder = tmp_path_factory.mktemp("in")
    generator = numpy.random.default_rng(20261115)
    letters = numpy.frombuffer(b"abcdefghijklmnopqrstuvwxyz ABCDE", dtype=numpy.uint8)
    kept = []
    for number in range(FILES):
        ids = numpy.arange(number * ROWS, (number + 1) * ROWS)
        bytes_ = letters[generator.integers(0, len(letters), ROWS * 36, dtype=numpy.uint8)]
        offsets = numpy.arange(0, ROWS * 36 + 1, 36, dtype=numpy.int32)
        name = pa.StringArray.from_buffers(ROWS, pa.py_buffer(offsets), pa.py_buffer(bytes_))
        table = pa.table({"id": ids, "x": generator.random(ROWS), "name": name})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=50_000)
        kept.append(table.filter(pa.array(table["x"].to_numpy() > 0.25)))
    return folder, pa.concat_tables(kept).combine_chunks()


def visible(target):
    """All rows that a reader finds, sorted by id; None when there is nothing."""
    if not target.exists():
        return None
    files = [target] if target.is_file() else [target / name for name in sorted(os.listdir(target)) if name[0] not in "._"]
    if not files:
        return old_table().slice(0, 0)
    return pa.concat_tables([pq.read_table(path) for path in files]).sort_by("id").combine_chunks()


def same(now, expected):
    if now is None or expected is None:
        return now is expected
    return now.num_rows == expected.num_rows and now.equals(expected)


def leftovers(folder):
    return [os.path.join(at, name) for at, folders, files in os.walk(folder) for name in folders + files
            if name.startswith(".")]


def moments(generator, count):
    """Shares of a run's time: its very beginning, one in each slice of it, and a third of them near its end, where the target
    changes."""
    early = count - count // 3
    return [0.0] + [(i + generator.random()) / early for i in range(early)] + \
        [0.85 + 0.25 * generator.random() for _ in range(count // 3)]


CASES = [("out", "append", False), ("out", "append", True), ("out", "overwrite", True),
         ("out.parquet", "error", False), ("out.parquet", "overwrite", True)]


def kill_many(weir_command, data, tmp_path, case, kills):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    generator = random.Random(seed)
    source, kept = data
    name, mode, filled = case

    def words(target, mode):
        return [weir_command, "read", str(source), "then", "filter", "x > 0.25", "then", "write", str(target),
                "--mode", mode]

    def complete(target, mode):
        began = time.monotonic()
        subprocess.run(words(target, mode), check=True, timeout=60)
        return time.monotonic() - began

    run_s = complete(tmp_path / "first" / name, mode)
    assert same(visible(tmp_path / "first" / name), kept)
    seen = {"old": 0, "new": 0, "some files": 0}
    late = 0
    for number, moment in enumerate(moments(generator, kills)):
        folder = tmp_path / "now"
        folder.mkdir()
        target = folder / name
        old = old_table() if filled else None
        if filled:
            if not target.suffix:
                target.mkdir()
            pq.write_table(old, target if target.suffix else target / "old.parquet")
        new = pa.concat_tables([old, kept]).combine_chunks() if filled and mode == "append" else kept
        run = subprocess.Popen(words(target, mode), stderr=subprocess.DEVNULL)
        time.sleep(moment * run_s)
        run.kill()
        late += run.wait() == 0
        now = visible(target)
        if filled and mode == "append" and not same(now, old) and not same(now, new):
            # Whole files of the new rows were moved in one by one; a next run on the folder moves in the others.
            seen["some files"] += 1
            complete(target, "ignore")
            now = visible(target)
        what = "old" if same(now, old) else "new" if same(now, new) else None
        assert what, f"kill {number} at {moment:.3f} of {run_s:.2f} s: {None if now is None else now.num_rows} rows"
        seen[what] += 1
        # The last run says best how long the next one takes; the machine may be busy.
        run_s = complete(target, "overwrite")
        assert same(visible(target), kept), f"after kill {number}"
        assert leftovers(folder) == [], f"after kill {number}"
        assert [path.name for path in folder.iterdir()] == [name]
        subprocess.run(["rm", "-r", str(folder)], check=True)
    print(f"a run takes {run_s:.2f} s; {late} ended before the kill; seen: {seen}")
    assert seen["old"] > 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_killed(weir_command, data, tmp_path, case):
    kill_many(weir_command, data, tmp_path, case, KILLS)


@pytest.mark.full
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_killed_often(weir_command, data, tmp_path, case):
    kill_many(weir_command, data, tmp_path, case, 50)
