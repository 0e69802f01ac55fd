#!/usr/bin/env python3
"""Memory while the program takes its time: what loops, splits, buffers and tensors hold counts against the limit.

    bench/holding.py [--limit 256M,…] [--cpus 2,…] [--jobs PART,…] [--times 4] [--list]
    bench/holding.py --random 50 [--seed 1]         so many of the jobs that random_jobs.py draws, from this seed on

Each job is a process of its own, whose rows (64 bytes, or vectors of 1 KiB made by a function) are `--times` the limit. The proportional anonymous
and shared memory of all its processes is looked at from outside every 5 ms, less what each interpreter held with its imports before
weir.init; of consumers in processes of their own only the shared memory counts, the rest is the program's. Asked for: the limit and a tenth of it.

| job | what |
|---|---|
| loop, loop-function | a slow loop over batches of 100,000 rows |
| rows | iter_rows |
| split-threads, split-processes | streaming_split among four, of which the first is slow; -function: behind a function; in threads told beside the peak: without what the loops have in their hands |
| shuffle, shuffle-function | local_shuffle_buffer_size of an eighth of the limit; shuffle-half: of half of it |
| torch, torch-function | iter_torch_batches, torch-collate with a collate_fn, torch-shuffle |
| pandas | frames of 100,000 rows, prefetched |
| four | four Datasets at once, each in a thread |
| growing | a function that makes 64 MiB of 2, and a slow loop |
| kept | a loop that keeps each second batch until it has an eighth of the limit |
| several-N | N Datasets at once, whose functions make a sixth of the limit of each batch, and need twice that for it; told beside the peak: without what the program's loops have in their hands |
| mixed-N | N at once: NumPy, pandas, class workers, loops, materialize, write_parquet, a sort behind a function |
| inside | a loop over one, in which another runs; two-splits: two streaming_splits at once |
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import measure
import random_jobs
import report

HERE = Path(__file__).resolve().parent
KEPT = "WEIR_HOLDING_KEPT"  # the name of a file for Kept
GIVEN_UP_S = 120


# ---- a job, in a process of its own ----

def table(weir, size):
    rows = size // 64
    ds = weir.range(rows, override_num_blocks=max(16, size >> 22))
    for i in range(7):
        ds = ds.with_column(f"c{i}", weir.col("id") * (i + 3))
    return ds


def as_is(batch):
    return batch


def vectors(batch):
    import numpy as np

    return {"v": np.repeat(batch["id"].astype("float32"), 256).reshape(-1, 256)}


def vector_table(weir, size):
    return weir.range(size >> 10, override_num_blocks=max(16, size >> 22)).map_batches(vectors, batch_size=2048)


def grown(batch):
    import numpy as np

    return {"big": np.tile(batch["data"], 32)}  # 16 KiB a row, of 512 bytes


def growing(weir, size):
    return weir.range_tensor(size >> 14, shape=(64,), override_num_blocks=max(2, size >> 26)).map_batches(grown, batch_size=None)


class Kept:
    """What loops of the program have in their hands, a number each, where run_job reads it."""

    LOOPS = 64

    def __init__(self, path):
        import mmap

        with open(path, "r+b") as file:
            self.numbers = memoryview(mmap.mmap(file.fileno(), 8 * self.LOOPS)).cast("q")

    @classmethod
    def file(cls):
        file = tempfile.NamedTemporaryFile()
        file.write(bytes(8 * cls.LOOPS))
        file.flush()
        return file

    def now(self):
        return sum(self.numbers)


def looped(batches, pause=0.0, every=1, kept=None, loop=0):
    rows = 0
    for number, batch in enumerate(batches):
        if kept:
            kept.numbers[loop] = sum(column.nbytes for column in batch.values())
        rows += len(next(iter(batch.values())))
        if pause and number % every == 0:
            time.sleep(pause)
        del batch
    if kept:
        kept.numbers[loop] = 0
    return rows


def in_threads(calls):
    with ThreadPoolExecutor(len(calls)) as pool:
        return sum(found.result() for found in [pool.submit(call) for call in calls])


def of_split(it, slow, size, pipe=None, kept=None, loop=0):
    if pipe is not None:
        import numpy  # noqa: F401  what batches are made of is the program's own

        pipe.send("ready")
        pipe.recv()
    rows = looped(it.iter_batches(batch_size=size), 0.02 if slow else 0.0, 4, kept, loop)
    if pipe is not None:
        pipe.send(rows)
    return rows


def split_processes(ds, n=4, size=4096):
    import multiprocessing

    spawn = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for i, it in enumerate(ds.streaming_split(n)):
        mine, theirs = spawn.Pipe()
        processes.append(spawn.Process(target=of_split, args=(it, i == 0, size, theirs)))
        processes[-1].start()
        pipes.append(mine)
    for pipe in pipes:
        pipe.recv()
    print(json.dumps({"own": [process.pid for process in processes]}), flush=True)
    for pipe in pipes:
        pipe.send("go")
    rows = sum(pipe.recv() for pipe in pipes)
    for process in processes:
        process.join()
    return rows


def split_threads(ds, n=4, size=4096):
    kept = Kept(os.environ[KEPT])
    return in_threads([lambda it=it, i=i: of_split(it, i == 0, size, None, kept, i) for i, it in enumerate(ds.streaming_split(n))])


def kept(ds, most):
    rows, held, size = 0, [], 0
    for number, batch in enumerate(ds.iter_batches(batch_size=20_000)):
        rows += len(batch["id"])
        if number % 2 and size < most:
            held.append(batch)
            size += sum(column.nbytes for column in batch.values())
        time.sleep(0.001)
    return rows


def collated(batch):
    import torch

    return {name: torch.as_tensor(column).float() for name, column in batch.items()}


def frames(ds):
    rows = 0
    for frame in ds.iter_batches(batch_size=100_000, batch_format="pandas", prefetch_batches=2):
        rows += len(frame)
        time.sleep(0.01)
        del frame
    return rows


def doubled(batch):
    import numpy as np

    return {"x": np.ones((len(batch["id"]), 64)) * 2}  # 512 bytes a row, and as much again while it is made


def several(weir, size, limit, n):
    """Each batch gives a sixth of the limit, out of two sixths."""
    rows = limit // 6 // 512
    count = max(3, size // n // (rows * 512))
    kept = Kept(os.environ[KEPT])

    def run(loop):
        ds = weir.range(rows * count).map_batches(doubled, batch_size=rows)
        return looped(ds.iter_batches(batch_size=rows // 2), kept=kept, loop=loop)

    return in_threads([lambda loop=loop: run(loop) for loop in range(n)])


def framed(frame):
    frame["y"] = frame["id"] * 2.5
    return frame


class Scaled:
    def __init__(self):
        import numpy as np

        self.by = np.arange(256, dtype="float32")

    def __call__(self, batch):
        return {"v": batch["v"] * self.by}


def mixed(weir, size, n):
    """One of each kind after the other, n of them at once."""
    part = size // n
    kinds = [
        lambda: looped(vector_table(weir, part).iter_batches(batch_size=1024), 0.002, 2),
        lambda: vector_table(weir, part).map_batches(Scaled, concurrency=1).materialize().count(),
        lambda: looped(table(weir, part).map_batches(framed, batch_format="pandas").iter_batches(batch_size=4096)),
        lambda: table(weir, part).map_batches(as_is).sort("c0", descending=True).count(),
        lambda: vector_table(weir, part).count(),
    ]

    def write():
        with tempfile.TemporaryDirectory() as folder:
            vector_table(weir, part).write_parquet(folder)
        return part >> 10

    kinds.insert(2, write)
    return in_threads([kinds[i % len(kinds)] for i in range(n)])


def inside(weir, size, limit):
    """Another Dataset in every fourth turn of a loop."""
    rows = 0
    step = limit // 16 >> 10
    for number, batch in enumerate(vector_table(weir, size).iter_batches(batch_size=step)):
        rows += len(batch["v"])
        if number % 4 == 0:
            rows += vector_table(weir, limit // 2).count()
    return rows


def two_splits(weir, size):
    return in_threads([lambda: split_threads(vector_table(weir, size // 2), 2, 1024)] * 2)


def torch_double():
    import torch

    return torch.float64


def jobs(weir, size, limit):
    plain, function = lambda: table(weir, size), lambda: table(weir, size).map_batches(as_is)
    vector = lambda: vector_table(weir, size)
    return {
        "loop": lambda: looped(plain().iter_batches(batch_size=100_000), 0.02),
        "loop-function": lambda: looped(function().iter_batches(batch_size=100_000), 0.02),
        "rows": lambda: sum(1 for _ in table(weir, size // 4).iter_rows()) * 4,
        "split-threads": lambda: split_threads(plain()),
        "split-threads-function": lambda: split_threads(function()),
        "split-processes": lambda: split_processes(plain()),
        "split-processes-function": lambda: split_processes(vector()),
        "shuffle": lambda: looped(plain().iter_batches(batch_size=4096, local_shuffle_buffer_size=limit // 8 // 64), 0.005, 8),
        "shuffle-function": lambda: looped(vector().iter_batches(batch_size=256, local_shuffle_buffer_size=limit // 8 // 1024)),
        "shuffle-half": lambda: looped(vector().iter_batches(batch_size=256, local_shuffle_buffer_size=limit // 2 // 1024)),
        "torch": lambda: looped(plain().iter_torch_batches(batch_size=100_000), 0.02),
        "torch-function": lambda: looped(vector().iter_torch_batches(batch_size=1024), 0.005, 4),
        "torch-collate": lambda: looped(vector().iter_torch_batches(batch_size=1024, collate_fn=collated, prefetch_batches=4), 0.005, 4),
        "torch-shuffle": lambda: looped(vector().iter_torch_batches(batch_size=1024, local_shuffle_buffer_size=limit // 8 // 1024), 0.005, 4),
        "pandas": lambda: frames(plain()),
        "four": lambda: in_threads([lambda: looped(table(weir, size // 4).iter_batches(batch_size=4096), 0.01, 8)] * 4),
        "four-function": lambda: in_threads([lambda: looped(vector_table(weir, size // 4).iter_batches(batch_size=1024), 0.005, 2)] * 4),
        "growing": lambda: looped(growing(weir, size).iter_batches(batch_size=256), 0.02),
        "growing-split": lambda: split_threads(growing(weir, size), 4, 256),
        "growing-processes": lambda: split_processes(growing(weir, size), 4, 256),
        "growing-torch": lambda: looped(growing(weir, size).iter_torch_batches(batch_size=256), 0.02),
        "growing-shuffle": lambda: looped(growing(weir, size).iter_batches(batch_size=64, local_shuffle_buffer_size=limit // 8 >> 14)),
        "growing-four": lambda: in_threads([lambda: looped(growing(weir, size // 4).iter_batches(batch_size=256), 0.02)] * 4),
        "large": lambda: looped(plain().iter_batches(batch_size=limit // 8 // 64), 0.02),
        "large-function": lambda: looped(vector().iter_batches(batch_size=limit // 8 // 1024), 0.02),
        "large-torch": lambda: looped(vector().iter_torch_batches(batch_size=limit // 8 // 1024, dtypes=torch_double()), 0.02),
        "large-split": lambda: split_threads(vector(), 4, limit // 16 // 1024),
        "kept": lambda: kept(plain(), limit // 8),
        **{f"several-{n}": lambda n=n: several(weir, size, limit, n) for n in (2, 3, 4, 8)},
        **{f"mixed-{n}": lambda n=n: mixed(weir, size, n) for n in (2, 4, 8)},
        "inside": lambda: inside(weir, size, limit),
        "two-splits": lambda: two_splits(weir, size),
    }



def child(job, size, limit, cpus):
    import numpy  # noqa: F401

    import weir

    drawn = random_jobs.spec(size) if job == "random" else {}
    if "torch" in job or drawn.get("consumer") == "torch":
        import torch  # noqa: F401
    if job == "pandas" or job.startswith("mixed"):
        import pandas  # noqa: F401
    print(json.dumps({"held": measure.pss_bytes(os.getpid())}), flush=True)
    weir.init(num_cpus=cpus, memory_limit=limit)
    begun = time.monotonic()
    rows = random_jobs.run(weir, drawn) if drawn else jobs(weir, size, limit)[job]()
    print(json.dumps({"rows": rows, "seconds": time.monotonic() - begun}), flush=True)


# ---- around it ----

def shared_bytes(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return sum(int(line.split()[1]) * 1024 for line in f if line.startswith("Pss_Shmem:"))
    except OSError:
        return 0


def run_job(job, size, limit, cpus, trace=None, timeout=GIVEN_UP_S):
    """What the job said, with its peak; or an error."""
    file = Kept.file()
    kept = Kept(file.name)
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1") | {KEPT: file.name}
    if os.environ.get("WEIR_PYTHON"):
        environment["PYTHONPATH"] = str(Path(os.environ["WEIR_PYTHON"]).resolve())
    command = [sys.executable, str(HERE / "holding.py"), "--child", job, str(size), str(limit), str(cpus)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines, errors, held, own = [], [], [0], set()

    def read():
        for line in process.stdout:
            lines.append(line)
            if line.startswith('{"held"'):
                held[0] += json.loads(line)["held"]
            elif line.startswith('{"own"'):
                own.update(json.loads(line)["own"])

    readers = [threading.Thread(target=read), threading.Thread(target=lambda: errors.append(process.stderr.read()))]
    for reader in readers:
        reader.start()
    peak, own_peak, at, turn, tree, begun = 0, 0, [], 0, [process.pid], time.monotonic()
    while process.poll() is None:
        time.sleep(0.005)
        if turn % 10 == 0:
            tree = measure.descendants(process.pid)
        turn += 1
        taken = [(pid, (shared_bytes if pid in own else measure.pss_bytes)(pid)) for pid in tree]
        now = sum(size for _, size in taken) - held[0]
        if trace is not None:
            trace.append((time.monotonic() - begun, taken, held[0]))
        if held[0] and (own or "processes" not in job):
            own_peak = max(own_peak, now - kept.now())
            if now > peak:
                peak, at = now, [size >> 20 for _, size in taken]
        if time.monotonic() - begun > timeout:
            process.kill()
            break
    for reader in readers:
        reader.join()
    if process.returncode or not lines or "rows" not in lines[-1]:
        text = (errors[0].strip().splitlines() or ["no message"])[-1][:300]
        return {"job": job, "peak": peak, "own": own_peak, "at": at, "error": f"exit {process.returncode}: {text}"}
    found = json.loads(lines[-1])
    return found | {"job": job, "peak": peak, "own": own_peak, "at": at}


def size_of(text):
    units = {"K": 10, "M": 20, "G": 30}
    return int(float(text[:-1]) * (1 << units[text[-1].upper()])) if text[-1].upper() in units else int(text)


def run_random(count, seed):
    """Those that pass their limit and a tenth, fail or lose rows are printed with what they are."""
    results = []
    for number in range(seed, seed + count):
        spec = random_jobs.spec(number)
        found = run_job("random", number, spec["limit"], spec["cpus"])
        if "error" not in found and found["rows"] != random_jobs.expected(spec):
            found["error"] = f"{found['rows']} rows, not {random_jobs.expected(spec)}"
        bad = "error" in found or found["peak"] > 1.1 * spec["limit"]
        print(f"{number}: {found['peak'] / spec['limit']:.2f} × {found.get('seconds', 0):.1f} s {found.get('error', '')}"
              + (f" <<< {found['at']} MiB {spec}" if bad else ""), file=sys.stderr, flush=True)
        results.append(found | {"bad": bad})
    print(f"{count} random jobs from seed {seed}: {sum(r['bad'] for r in results)} beyond the limit and a tenth or failed, "
          f"the largest {max(r['peak'] / random_jobs.spec(seed + i)['limit'] for i, r in enumerate(results)):.2f} ×")


def main():
    if sys.argv[1:2] == ["--child"]:
        job, size, limit, cpus = sys.argv[2:6]
        child(job, int(size), int(limit), int(cpus))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", default="256M", help="memory limits, such as 128M,256M")
    parser.add_argument("--cpus", default="2")
    parser.add_argument("--times", type=float, default=4, help="the rows' size over the limit")
    parser.add_argument("--jobs", default="", help="only jobs whose name contains one of these texts")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--random", type=int, default=0, help="so many random jobs instead")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.random:
        run_random(args.random, args.seed)
        return
    chosen = [job for job in jobs(None, 0, 0) if not args.jobs or any(part in job for part in args.jobs.split(","))]
    if args.list:
        print("\n".join(chosen))
        return
    results = []
    for limit in map(size_of, args.limit.split(",")):
        for cpus in map(int, args.cpus.split(",")):
            for job in chosen:
                found = run_job(job, int(limit * args.times), limit, cpus)
                results.append(found | {"limit": limit, "cpus": cpus})
                print(f"{limit >> 20} MiB, {cpus} CPUs, {job}: {found['peak'] / limit:.2f} × ({found['own'] / limit:.2f} ×) {found.get('seconds', 0):.1f} s {found.get('error', '')}",
                      file=sys.stderr, flush=True)
    print(report.table(["job", "limit", "CPUs", "peak", "peak ÷ limit (≤ 1.1)", "without what the program holds", "time"], [
        [r["job"], f"{r['limit'] >> 20} MiB", str(r["cpus"]), f"{r['peak'] / (1 << 20):.0f} MiB",
         f"{r['peak'] / r['limit']:.2f} ×{'' if r['peak'] <= 1.1 * r['limit'] else ' NOT KEPT'}", f"{r['own'] / r['limit']:.2f} ×", r.get("error") or f"{r['seconds']:.1f} s"]
        for r in results]))


if __name__ == "__main__":
    main()
