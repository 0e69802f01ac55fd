"""Exchanges on data of several times the memory limit, measured from outside: the proportional memory of all processes stays
within the limit and a tenth of it, and what goes to disk is no more than the data. Rows are made by the engine, so that nothing
but the exchange takes memory."""
import json
import threading

import pytest

from driver_scripts import Program, not_sanitized, tree_of

pytestmark = pytest.mark.same_without
MIB = 1 << 20

PROGRAM = """
    import json, sys, time
    import numpy as np
    import weir
    from weir.aggregate import Count, Max, Sum

    def held():
        with open("/proc/self/smaps_rollup") as f:
            return sum(int(line.split()[1]) * 1024 for line in f if line.startswith(("Pss_Anon:", "Pss_Shmem:")))

    limit, folder, job, rows, cpus = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])

    def table(rows, blocks=64):
        '''Eight columns of eight bytes; every k is another one.'''
        ds = weir.range(rows, override_num_blocks=blocks).with_column("k", weir.col("id") * 2654435761 % 4294967291)
        for i in range(6):
            ds = ds.with_column(f"c{i}", weir.col("k") * (i + 3))
        return ds

    def heavy(rows):
        '''Half of the rows have one key.'''
        ds = table(rows)
        return ds.with_column("h", weir.col("k") * (weir.col("id") % 2))

    def heavier(rows):
        '''A third of the rows have key 0, the others one of their own.'''
        ds = table(rows).with_column("k", weir.col("k") * (weir.col("id") % 3))
        return ds.rename_columns({"id": "e", **{f"c{i}": f"e{i}" for i in range(6)}})

    def narrow(rows):
        return weir.range(rows, override_num_blocks=64).with_column("k", weir.col("id") * 2654435761 % 4294967291)

    def other(rows):
        return table(rows).select_columns(["k", "c0", "c1", "c2"]).rename_columns({"c0": "d0", "c1": "d1", "c2": "d2"})

    def of_group(group):
        return {"k": group["k"][:1], "n": np.array([len(group["k"])])}

    JOBS = {
        "sort": lambda: table(rows).sort("k"),
        "sort-heavy": lambda: heavy(rows).sort("h"),
        "shuffle": lambda: table(rows).random_shuffle(seed=1),
        "shuffle-narrow": lambda: weir.range(rows * 8, override_num_blocks=64).random_shuffle(seed=1),
        "group": lambda: narrow(rows * 4).groupby("k").aggregate(Sum("id")),
        "group-heavy": lambda: heavy(rows).groupby("h").aggregate(Sum("id"), Max("c0")),
        "group-one": lambda: table(rows).with_column("one", weir.lit(1)).groupby("one").aggregate(Count(), Sum("id")),
        "join": lambda: table(rows // 2).join(table(rows // 2).rename_columns({f"c{i}": f"d{i}" for i in range(6)}).drop_columns(["id"]), "inner", 4, on=("k",)),
        "join-full": lambda: table(rows // 2).join(other(rows), "full_outer", 4, on=("k",)),
        "join-heavy": lambda: heavy(rows // 2).join(narrow(200000).with_column("h", weir.col("k") * (weir.col("id") % 2)).select_columns(["h"]), "left_semi", 4, on=("h",)),
        # Of which the tables are larger than the rows.
        "join-narrow": lambda: table(rows // 2).join(narrow(rows // 2).select_columns(["id"]), "left_semi", 4, on=("id",)),
        # A third of one side's rows have one key, which one row of the other has: whichever is held, in as many pieces as it takes.
        "join-skewed": lambda: table(rows // 2).join(heavier(rows // 2), "inner", 4, on=("k",)),
        "join-skewed-left": lambda: heavier(rows // 2).join(other(rows // 2), "full_outer", 4, on=("k",)),
        "repartition": lambda: table(rows).repartition(64, keys=["k"]),
        "repartition-heavy": lambda: heavy(rows).repartition(8, keys=["h"]),
        "unique": lambda: narrow(rows * 4).select_columns(["k"]).groupby("k").count(),
        "zip": lambda: table(rows // 2).zip(table(rows // 2).rename_columns({f"c{i}": f"d{i}" for i in range(6)}).select_columns([f"d{i}" for i in range(6)])),
        "map_groups": lambda: table(rows).with_column("k", weir.col("k") % 10007).groupby("k").map_groups(of_group, batch_format="numpy"),
        "function": lambda: table(rows).map_batches(lambda b: b, batch_size=10000).sort("k").map_batches(lambda b: b, batch_size=10000),
        "function-shuffle": lambda: table(rows).map_batches(lambda b: b, batch_size=10000).random_shuffle(seed=1),
        "function-group": lambda: narrow(rows * 4).map_batches(lambda b: b).groupby("k").aggregate(Sum("id")),
        "function-repartition": lambda: table(rows).map_batches(lambda b: b, batch_size=10000).repartition(64, keys=["k"]),
    }
    before = held()
    weir.init(num_cpus=cpus, memory_limit=limit, spill_dir=folder)
    ds = JOBS[job]()
    print(json.dumps({"held": before}), flush=True)
    begun, count = time.monotonic(), 0
    for batch in ds.iter_batches(batch_size=None):
        count += len(next(iter(batch.values())))
        del batch
    seconds = time.monotonic() - begun
    figures = ds.get_stats_summary()
    print(json.dumps({"rows": count, "seconds": seconds, "spilled": figures.dataset_bytes_spilled,
                      "restored": figures.global_bytes_restored, "exchanges": [line for line in ds.stats().splitlines() if "bytes spilled" in line]}),
          flush=True)
"""


def proportional(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return sum(int(line.split()[1]) * 1024 for line in f if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    except OSError:
        return 0


def run(tmp_path, job, rows, limit, cpus=2, timeout=600):
    """What the job said, and the largest proportional memory of all its processes beyond what the program held before."""
    spill = tmp_path / "spill"
    spill.mkdir(exist_ok=True)
    program = Program(tmp_path, PROGRAM, limit, spill, job, rows, cpus)
    peak, turn, pids = 0, 0, {program.pid}
    before = json.loads(program.line())["held"]
    done = threading.Event()
    said = []

    def read():
        said.append(program.wait(timeout))
        done.set()

    thread = threading.Thread(target=read)
    thread.start()
    while not done.wait(0.005):
        if turn % 10 == 0:
            pids = tree_of(program.pid) | {program.pid}
        turn += 1
        peak = max(peak, sum(proportional(pid) for pid in pids))
    thread.join()
    out, err, code = said[0]
    assert code == 0, err[-3000:]
    figures = json.loads(out.splitlines()[-1])
    figures["peak"] = peak - before
    data = rows * 64
    print(f"{job}: {data / 1e6:.0f} MB at {limit / 1e6:.0f} MB, {cpus} lanes: {figures['seconds']:.1f} s, peak {figures['peak'] / limit:.2f} x, "
          f"written {figures['spilled'] / data:.2f} x the data, read {figures['restored'] / data:.2f} x; {figures['exchanges']}")
    assert figures["peak"] <= limit * 1.1, figures
    assert list(spill.iterdir()) == []
    return figures


# job: (rows of the result as a share of those of the table; 0: not looked at, bytes written at most, as a share of 64 bytes a row)
JOBS = {
    "sort": (1, 1.1),
    "sort-heavy": (1, 1.1 * 72 / 64),  # a ninth column
    "shuffle": (1, 1.1),
    "shuffle-narrow": (8, 1.1),
    "group": (4, 1.2 * 4 * 24 / 64),  # a key and a sum
    "group-heavy": (0.5, 0.6),  # rows that are no groups yet among them
    "group-one": (0, 0),
    "join": (0.5, 1.1 * 15 / 16),  # eight columns and seven
    "join-full": (1, 1.1),
    "join-heavy": (0, 1.1),
    "join-narrow": (0.5, 1.1 * 9 / 16),  # eight columns and one
    "join-skewed": (3 / 8, 1.15),  # 1.08 at ten times the limit; of less, pages that are not full are more
    "join-skewed-left": (5 / 6, 1.1 * 12 / 16),  # eight columns and four
    "repartition": (1, 1.1),
    "repartition-heavy": (1, 1.1 * 72 / 64),
    "unique": (4, 1.2 * 4 * 16 / 64),  # a key and a count
    "zip": (0.5, 1.1),
}
# Behind functions: what these make is not written before the exchange does.
FUNCTIONS = {
    "map_groups": (0, 1.2 * 72 / 64),
    "function": (1, 1.1),
    "function-shuffle": (1, 1.1),
    "function-group": (4, 1.2 * 4 * 24 / 64),
    "function-repartition": (1, 1.1),
}


@pytest.mark.sample(2)
@not_sanitized
@pytest.mark.parametrize("job", ["sort", "shuffle", "group", "join", "join-skewed", "repartition", "zip"])
def test_three_times_the_memory(job, tmp_path):
    check(tmp_path, job, 3_000_000, 64 * MIB)


@not_sanitized
@pytest.mark.parametrize("job, rows, cpus", [("join", 8_000_000, 7), ("repartition", 8_000_000, 7), ("join-narrow", 5_000_000, 2)])
def test_what_is_written_is_read_back_once(job, rows, cpus, tmp_path):
    figures = run(tmp_path, job, rows, 64 * MIB, cpus)
    assert figures["restored"] <= 1.2 * figures["spilled"], figures


@pytest.mark.long
@pytest.mark.parametrize("cpus", [1, 2, 7])
@pytest.mark.parametrize("job", JOBS)
def test_ten_times_the_memory(job, cpus, tmp_path):
    check(tmp_path, job, 10_500_000, 64 * MIB, cpus)


@pytest.mark.long
@pytest.mark.parametrize("job", FUNCTIONS)
def test_ten_times_the_memory_with_functions(job, tmp_path):
    check(tmp_path, job, 25_000_000, 160 * MIB)


def check(tmp_path, job, rows, limit, cpus=2):
    share, written = (JOBS | FUNCTIONS)[job]
    figures = run(tmp_path, job, rows, limit, cpus)
    if share:
        assert abs(figures["rows"] - share * rows) <= 2, figures
    assert figures["spilled"] <= written * rows * 64, figures
