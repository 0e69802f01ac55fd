"""memory_limit with Python in it: all processes of a program together, looked at from outside every few milliseconds."""
import threading

import numpy as np
import pytest
from driver_scripts import Program, not_sanitized, output

from weir import _apply, _call, _shortage, _weir

pytestmark = not_sanitized

BEGIN = """
    import json, os, sys, threading, time
    import numpy as np, weir

    def proportional():
        with open("/proc/self/smaps_rollup") as f:
            return sum(int(line.split()[1]) * 1024 for line in f if line.startswith(("Pss_Anon:", "Pss_Shmem:")))

    print(proportional(), flush=True)
    weir.init(memory_limit=int(sys.argv[1]) << 20, num_cpus=int(sys.argv[2]), spill_dir=sys.argv[3])

    def rows_of(ds, size=None, pause=0):
        count = 0
        for batch in ds.iter_batches(batch_size=size):
            count += len(next(iter(batch.values())))
            time.sleep(pause)
            del batch
        return count
"""

SHAPES = {
    "flat_map": ("rows_of(weir.range(150).flat_map(lambda r: [{'x': np.full(250_000, r['id'])} for _ in range(2)]), 8)", 300),
    "map": ("rows_of(weir.range(300).map(lambda r: {'x': np.full(250_000, r['id'])}), 8)", 300),
    "generator": ("rows_of(weir.range(15).flat_map(lambda r: ({'x': b'x' * 2_000_000} for _ in range(20))), 8)", 300),
    "without batch_size": ("rows_of(weir.range(2_000_000).map_batches(lambda b: {'x': np.ones((len(b['id']), 100))}))", 2_000_000),
    "large results": ("rows_of(weir.range(1 << 20).map_batches(lambda b: {'x': np.ones((len(b['id']), 32))}, batch_size=1 << 18))", 1 << 20),
}


def proportional(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return sum(int(line.split()[1]) * 1024 for line in f if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    except OSError:
        return 0


def run(folder, text, limit, cpus, seconds=100):
    """What the program prints at last, and the most that all its processes had beyond what it began with, in MiB."""
    program = Program(folder, BEGIN + text, limit, cpus, folder)
    before = int(program.line())
    done, said = threading.Event(), []

    def read():
        said.append(program.wait(seconds))
        done.set()

    thread = threading.Thread(target=read)
    thread.start()
    peak, turn, pids = 0, 0, set()
    while not done.wait(0.005):
        if turn % 10 == 0:
            pids = program.tree()
        turn += 1
        peak = max(peak, sum(map(proportional, pids)))
    thread.join()
    out, err, code = said[0]
    assert code == 0, err[-3000:]
    return out.splitlines()[-1], (peak - before) / 2**20


@pytest.mark.sample(3)
@pytest.mark.same_without
@pytest.mark.parametrize("shape", SHAPES)
def test_results_that_are_much_larger_than_rows(tmp_path, shape):
    """The promise is the limit and a tenth."""
    text, rows = SHAPES[shape]
    said, peak = run(tmp_path, f"\n    print({text})\n", 256, 2)
    assert int(said) == rows
    assert peak <= 256 * 1.1


SEVERAL = """
    def big(b):
        return {"x": np.ones((len(b["id"]), 40)) * 2}

    counts = [0] * 3

    def go(number):
        counts[number] = rows_of(weir.range(3 << 17).map_batches(big, batch_size=1 << 17))

    threads = [threading.Thread(target=go, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(counts))
"""

ZIPPED = """
    def big(b):
        return {"x": np.ones((len(b["id"]), 40)) * 2}

    parts = [iter(weir.range(3 << 17).map_batches(big, batch_size=1 << 17).iter_batches(batch_size=1 << 16)) for _ in range(2)]
    print(sum(len(a["x"]) + len(b["x"]) for a, b in zip(*parts)))
"""

INSIDE = """
    def big(b):
        return {"x": np.ones((len(b["id"]), 40)) * 2}

    rows = 0
    for batch in weir.range(3 << 17).map_batches(big, batch_size=1 << 17).iter_batches(batch_size=1 << 16):
        rows += len(batch["x"])
        if rows % (1 << 17) == 0:
            rows += weir.range(1 << 17).map_batches(big, batch_size=1 << 17).count()
    print(rows)
"""


@pytest.mark.same_without
@pytest.mark.parametrize("text, rows", [(SEVERAL, 9 << 17), (ZIPPED, 6 << 17), (INSIDE, 6 << 17)], ids=["threads", "zipped", "inside"])
def test_several_at_once(tmp_path, text, rows):
    """Each of them could have half of the limit and more: what does not fit into a share waits for its turn, and none fails for it. Nor does one
    wait for ever: the loop takes rows of one run while the other has its turn, or runs it while it holds the first one's."""
    said, peak = run(tmp_path, text, 300, 2)
    assert int(said) == rows
    assert peak <= 300 * 1.1


AFTERWARDS = """
    weir.range(1000).map_batches(lambda b: b).count()
    ds = weir.range(1_500_000, override_num_blocks=16)
    for i in range(7):
        ds = ds.with_column(f"c{i}", weir.col("id") * (i + 3))
    print(rows_of(ds.sort("c0", descending=True)))
"""


@pytest.mark.parametrize("cpus", [2, 7])
def test_what_workers_are_made_of_counts_when_they_are_gone(tmp_path, cpus):
    """The process that workers are forks of stays, with NumPy in it: 17 of these 64 MiB, of which the sort goes without. So do its warm pages, though it
    may be over before memory is measured once."""
    said, peak = run(tmp_path, AFTERWARDS, 64, cpus)
    assert int(said) == 1_500_000
    assert peak <= 64  # 0.8 and 0.9 of it; 1.1 with seven lanes if warm pages did not leave room for that process from the start


@pytest.mark.parametrize("cpus", [2, 7])
def test_a_sort_of_hundreds_of_columns(tmp_path, cpus):
    """Nearly all of it is in pieces of 1 to 16 KiB, of lanes, of rows that wait and of batches in the program's hands, and none may lie free between them."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(1)
    for number in range(6):
        pq.write_table(pa.table({f"c{i}": rng.integers(0, 1 << 62, 4_000) for i in range(400)}), tmp_path / f"{number}.parquet", use_dictionary=False, compression="none")
    said, peak = run(tmp_path, f"\n    print(rows_of(weir.read_parquet({str(tmp_path)!r}).sort('c0')))\n", 64, cpus)
    assert int(said) == 24_000
    assert peak <= 64 * 0.95  # 0.82 to 0.88; 1.0 to 1.15 if it were malloc's


AS_MUCH = """
    grown = lambda b: {"x": np.repeat(b["id"], 34_536).reshape(-1, 34_536)}
    print(rows_of(weir.range(943).map_batches(grown, batch_size=None)))
"""


@pytest.mark.same_without
def test_a_result_of_just_the_limit(tmp_path):
    """248 MiB at 256: the function is told that there is no more memory, and gets fewer rows. It is not stopped for what it has."""
    said, peak = run(tmp_path, AS_MUCH, 256, 1)
    assert int(said) == 943
    assert peak <= 256 * 1.1


SIDES = """
    ds = weir.range(3 << 20, override_num_blocks=48)
    other = ds.map_batches(lambda b: {"y": np.stack([b["id"] * 1.0] * 8, axis=1)})
    for i in range(7):
        ds = ds.with_column(f"c{i}", weir.col("id") * (i + 3))
    print(rows_of(ds.zip(other), 4096))
"""


@pytest.mark.same_without
def test_a_zip_behind_a_function(tmp_path):
    """Its sides are put together while no run goes on, beside the process that workers are forks of: in pieces of 2 MiB."""
    said, peak = run(tmp_path, SIDES, 64, 8)
    assert int(said) == 3 << 20
    assert peak <= 64 * 1.1


BESIDE = """
    def vectors(b):
        return {"id": b["id"], "v": np.repeat(b["id"].astype("float32"), 256).reshape(-1, 256)}

    def other(b):
        return {"id": b["id"], "w": b["id"] * 3}

    rows = 3 << 17
    made = weir.range(rows).map_batches(vectors, batch_size=4369)
    both = BOTH
    seen = [0, 0]
    for batch in both.map_batches(lambda b: b, batch_size=4369).iter_batches(batch_size=1024):
        seen[0] += len(batch["w"])
        seen[1] += int((batch["w"] == batch["v"][:, 0] * 3).sum())
        del batch
    print(*seen)
"""


@pytest.mark.same_without
@pytest.mark.parametrize("both", [
    'made.join(weir.range(rows).map_batches(other, batch_size=10_000), "inner", 8, on=("id",))',
    'made.zip(weir.range(rows).map_batches(other, batch_size=10_000).rename_columns({"id": "id2"}))',
], ids=["join", "zip"])
def test_a_function_behind_a_stream(tmp_path, both):
    """Three times the limit that comes from functions as a stream and goes to another one: what is done of the stream goes at once."""
    said, peak = run(tmp_path, BESIDE.replace("BOTH", both), 128, 2)
    assert said == f"{3 << 17} {3 << 17}"
    assert peak <= 128 * 1.1


@pytest.mark.parametrize("before", ["", "weir.range(1000).map_batches(lambda b: b).count()"], ids=["alone", "behind a function"])
@pytest.mark.parametrize("cpus", [2, 7])
def test_batches_of_one_large_row(tmp_path, cpus, before):
    """8 MB each: four of them waiting for the loop, and one that each lane has ready, would be most of the memory by themselves."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    with pq.ParquetWriter(tmp_path / "rows.parquet", pa.schema([("k", pa.int64()), ("t", pa.string())]), compression="zstd") as writer:
        for i in range(30):
            writer.write_table(pa.table({"k": [i * 7919 % 31], "t": [f"{i:09d}" + "abcdefgh" * 1_000_000]}))
    text = f"""
    {before}
    print(sum(b.num_rows for b in weir.read_parquet({str(tmp_path / "rows.parquet")!r}).sort("k").iter_batches(batch_size=None, batch_format="pyarrow")))
    """
    said, peak = run(tmp_path, text, 64, cpus)
    assert int(said) == 30
    assert peak <= 64 * 1.1


OBJECTS = """
    class Model:
        def __init__(self, size):
            self.weights = np.ones(size << 17)
        def __call__(self, batch):
            return {"x": batch["id"] * self.weights[0]}

    class Parts(Model):
        def __init__(self, size):
            self.weights = [np.ones(4 << 17) for _ in range(size // 4)]

    def job(cls, size, concurrency):
        return weir.range(400_000, override_num_blocks=40).map_batches(cls, fn_constructor_args=(size,), concurrency=concurrency).count()
"""
TOO_LARGE = """
    try:
        job(CLASS, 600, 2)
    except MemoryError as error:
        print(isinstance(error, weir.exceptions.ActorDiedError), str(error).splitlines()[0])
"""


@pytest.mark.same_without
@pytest.mark.parametrize("made", ["Model", "Parts"])
def test_a_constructor_is_bounded(tmp_path, made):
    """As a batch is: it is tried again alone, then told with figures."""
    said, peak = run(tmp_path, OBJECTS + TOO_LARGE.replace("CLASS", made), 300, 2)
    assert peak <= 300 * 1.1
    if "by itself" in said and made == "Parts":  # it was measured before it was refused its next part
        assert f"MapBatches({made})" in said and "weir.init(memory_limit=…)" in said
        return
    assert f"True MapBatches({made}) failed in its constructor (pid=" in said
    assert "MB and may take" in said and "which is what memory_limit leaves while nothing else runs: what the constructor makes" in said


@pytest.mark.same_without
@pytest.mark.parametrize("cpus, concurrency", [(2, 2), (4, 4), (8, (1, 8))])
def test_what_constructors_keep_is_planned_for(tmp_path, cpus, concurrency):
    """Not all of them have 150 MiB: there are fewer, and the job ends."""
    said, peak = run(tmp_path, OBJECTS + f"\n    print(job(Model, 150, {concurrency}))\n", 400, cpus)
    assert said == "400000"
    assert peak <= 400 * 1.1


# ---- parts ----

OWN = """
    job = lambda: weir.range(20_000).map_batches(lambda b: {"x": np.repeat(b["id"].astype(float)[:, None], 500, axis=1)}, batch_size=1000).map_batches(
        lambda b: {"s": b["x"].sum(1)}, batch_size=1000).count()
    job()
    own = np.ones(300 << 17)
    print(job(), job())
"""
ROWS = """
    def rows(count):
        return weir.range(count).map(lambda r: {"x": b"x" * 1_000_000})
    kept = [rows(250).take_all(), list(rows(250).iter_rows()), weir.range(600_000).map(lambda r: {"x": str(r["id"]) * 3}).take_all()]
    print(*map(len, kept), rows(100).count())
"""
# Without a function rows lie in the process, not in the store.
BATCHES = """
    three = lambda rows: weir.range(rows).with_column("k", weir.col("id") * 7919 % 3).with_column("v", weir.col("id") * 3)
    kept = [list(three(9_000_000).iter_batches(batch_size=None)), three(9_000_000).sort("k").to_pandas()]
    print(sum(len(b["v"]) for b in kept[0]), len(kept[1]), sum(int(b["v"][-1]) for b in three(9_000_000).sort("id", descending=True).iter_batches(batch_size=3_000_000)))
"""


@pytest.mark.same_without
@pytest.mark.parametrize("text, said", [(OWN, "20000 20000"), (ROWS, "250 250 600000 100"), (BATCHES, "9000000 9000000 27000000")], ids=["arrays", "rows", "batches"])
def test_what_the_program_keeps_is_its_own(tmp_path, text, said):
    """It may be more than the limit, and runs go on: with less memory, not with none."""
    assert output(tmp_path, BEGIN + text, 190, 2, tmp_path).splitlines()[-1] == said


def test_a_closure_larger_than_the_limit(tmp_path):
    text = """
    table = np.ones(160 << 17)
    try:
        weir.range(10).map(lambda row: {"x": table[row["id"]]}).take_all()
    except MemoryError as error:
        print(error)
    """
    said = output(tmp_path, BEGIN + text, 128, 2, tmp_path)
    assert "Map(<lambda>) and what it refers to take 160.0 MiB, which the memory limit of 128.0 MiB has no room for" in said


def test_a_result_in_parts():
    batch = _weir.batch_from_columns({"x": np.arange(1000), "s": [str(i) for i in range(1000)]})
    parts = list(_apply.parts(batch, batch.nbytes // 3))
    assert 3 <= len(parts) <= 4 and _weir.batch_concat(parts) == batch
    parts = list(_apply.parts(batch, batch.nbytes // 7))  # it is much more than a part
    assert 14 <= len(parts) <= 16 and _weir.batch_concat(parts) == batch
    assert [part.num_rows for part in _apply.parts(batch, 1)] == [1] * 1000


@pytest.mark.parametrize("value, least, most", [
    (1, 0, 100), ("x" * 1000, 1000, 1100), (b"x" * 1000, 1000, 1100), (None, 0, 100), (np.ones(1000), 8000, 8100), (object(), 0, 100),
    ([np.ones(1000)] * 3, 24_000, 24_400), ([np.ones(1000)] * 1000, 8_000_000, 8_100_000), ({"a": {"b": "x" * 1000}}, 1000, 1200),
])
def test_about_how_large_rows_are(value, least, most):
    assert least <= _weir.row_bytes([{"x": value}]) <= most + 100
    assert 2 * least <= _weir.row_bytes([[{"x": value}], [{"x": value}]]) <= 2 * most + 300


def test_only_lists_of_rows_are_looked_at():
    with pytest.raises(TypeError):
        _weir.row_bytes(({"x": 1},))


def applied(fn, batch, piece, **head):
    spec = _call.CallSpec(head.pop("kind", "map_batches"), fn, **head)
    _call.check(spec)
    spec.piece = piece
    function = _apply.make(_call.function_head(spec), _call.function_objects(spec))
    return [result.num_rows for result in _apply.apply(function, batch)], [r.num_rows for r in _apply.apply(function, batch)]


def test_a_function_without_batch_size_gets_fewer_rows_once_its_results_are_large():
    batch = _weir.batch_from_columns({"id": np.arange(1000)})

    def wide(batch):
        return {"x": np.ones((len(batch["id"]), 1 << 10))}
    first, then = applied(wide, batch, 1 << 20)
    assert first == [1000] and set(then[:-1]) == {128} and sum(then) == 1000
    assert applied(wide, batch, 1 << 20, batch_size=500) == ([500, 500], [500, 500])


def test_a_function_without_batch_size_that_is_short_of_memory_gets_fewer_rows(monkeypatch):
    batch = _weir.batch_from_columns({"id": np.arange(1000)})
    seen = []

    def wide(batch):
        seen.append(len(batch["id"]))
        if len(batch["id"]) > 100:
            raise MemoryError
        return {"x": np.ones((len(batch["id"]), 1 << 14))}
    monkeypatch.setattr(_shortage.Shortage, "_is_refusal", lambda self, error, is_limited: isinstance(error, MemoryError))
    first, _ = applied(wide, batch, 1 << 30)
    assert sum(first) == 1000 and max(first) <= 100 and seen[:3] == [1000, 250, 62]
    with pytest.raises(MemoryError):
        applied(wide, batch, 1 << 30, batch_size=1000)


# ---- once more ----

def test_rows_that_were_given_before_a_worker_died_come_once(tmp_path):
    """Results are on their way before their task is done, in parts that depend on what the worker has seen: who does it again leaves
    out as many rows."""
    text = """
        import os, signal, sys, numpy as np, weir
        from pathlib import Path
        weir.init(memory_limit=256 << 20, num_cpus=2)
        folder = Path(sys.argv[1])

        def rows(row):
            for i in range(60):
                if i == 45 and row["id"] in (2, 5) and len(list(folder.glob(f"{row['id']}-*"))) < 2:
                    (folder / f"{row['id']}-{os.getpid()}").touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield {"id": row["id"], "i": i, "x": np.full((i % 7) * 100_000, i)}

        seen = [(row["id"], row["i"]) for row in weir.range(6).flat_map(rows).iter_rows()]
        print(seen == [(a, b) for a in range(6) for b in range(60)], len(list(folder.iterdir())))
    """
    folder = tmp_path / "deaths"
    folder.mkdir()
    assert output(tmp_path, text, folder) == "True 4\n"


# ---- images ----

@pytest.mark.same_without
def test_large_images(tmp_path):
    """34 MiB each, in a file of 200 KB: as much as a worker has at once is two of them."""
    Image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(6):
        Image.new("RGB", (4000, 3000), (number, 0, 0)).save(folder / f"{number}.jpg")
    said, peak = run(tmp_path, f"\n    import PIL.Image\n    print(rows_of(weir.read_images({str(folder)!r}), 1))\n", 256, 2)
    assert int(said) == 6
    assert peak <= 256 * 1.1


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "I", "F", "RGBA", "I;16"])
@pytest.mark.parametrize("size", [(7, 5), (1500, 1201), (3, 0)])
def test_an_image_a_band_at_a_time(mode, size):
    Image = pytest.importorskip("PIL.Image")
    from weir import _images

    image = Image.effect_noise(size, 50).convert(mode) if mode not in ("I;16", "P") and size[1] else Image.new(mode, size)
    made, whole = _images.array_of(image), np.array(image)
    assert made.dtype == whole.dtype and made.shape == whole.shape and (made == whole).all()


@pytest.mark.parametrize("array", [np.ones((1 << 10, 1 << 10), np.uint8), np.arange(1 << 18) * 1.0, np.ones(1 << 20, bool), np.ones((1 << 10, 1 << 10)).T])
def test_a_row_with_a_large_array_is_as_any(array):
    row = {"a": 1, "x": array, "s": "text", "n": None, "l": [1, 2], "small": np.arange(3)}
    made, rows = _apply._batch_of_rows([row], "map"), _weir.batch_from_rows([row])
    assert made == rows and made.schema() == rows.schema()
