"""Random jobs for holding.py --random: any shape of rows, functions and consumers, from a seed alone.

    spec(seed) ─▶ a dict of plain values, printed when the limit was not kept ─▶ run(weir, spec) ─▶ the rows that came, to be spec["expected"]

What a job needs at once (a row, a batch, a buffer) is a small part of its limit, so that it has to finish.
"""

import random
import tempfile
import time

MIB = 1 << 20
KINDS = ("none", "map_batches", "map_batches", "map_batches", "map", "flat_map", "filter", "class", "generator", "async", "two")
CONSUMERS = ("batches", "batches", "prefetch", "torch", "rows", "materialize", "write", "take", "split", "shuffle")
BATCH_SHARE = 24  # of the limit: the largest batch of a function or a loop


def spec(seed):
    draw = random.Random(seed)
    limit = draw.choice([128, 192, 256, 384, 512]) * MIB
    row = int(10 ** draw.uniform(1, 7.3))
    row = min(row, limit // BATCH_SHARE)
    kind, consumer = draw.choice(KINDS), draw.choice(CONSUMERS)
    grows = draw.choice([1, 1, 4, 30]) if kind in ("map_batches", "class", "generator", "map") else 1
    given = max(8, row // 8 // grows * 8)  # of a row before the function
    row = given * grows
    total = min(draw.choice([1, 2, 3]) * limit, 600 * MIB)
    form = draw.choice(["default", "numpy", "numpy", "pandas", "pyarrow"])
    if kind in ("map", "flat_map", "filter") or form == "pandas" or consumer in ("rows", "take"):
        total = min(total, 300_000 * row)  # Python rows are slow
    rows = max(4, total // row)
    most = max(1, limit // BATCH_SHARE // row)
    sizes = {"none": None, "small": min(most, draw.choice([1, 7, 64, 1000])), "large": most}
    if sizes["small"] is not None and rows // sizes["small"] > 20_000:
        sizes["small"] = min(most, rows // 20_000 + 1)
    blocks = draw.choice([None, None, 4, 40])
    if blocks and rows // blocks > most:
        blocks = rows // most  # they may be what a function gets at once
    return {
        "seed": seed, "limit": limit, "cpus": draw.choice([1, 2, 2, 4, 8, 16]), "row": row, "given": given, "grows": grows, "rows": rows, "kind": kind,
        "format": form,
        "batch_size": sizes[draw.choice(["none", "small", "large", "large"])],
        "consumer": consumer, "size": sizes[draw.choice(["small", "large", "large"])], "prefetch": draw.choice([1, 2, 4]),
        "buffer": max(1, limit // 10 // row), "pause": draw.choice([0, 0, 0.002, 0.02]), "blocks": blocks,
        "columns": draw.choice([1, 1, 1, 3, 30]) if given >= 240 else 1,
    }


# ---- functions ----

def made(batch, form, given, columns):
    """Rows of `given` bytes, in so many columns, of a batch of numbers."""
    import numpy as np

    ids = np.asarray(batch["id"])
    if form == "pyarrow":
        import pyarrow as pa

        width = given // 8 // columns
        flat = pa.array(np.repeat(ids, width))
        return pa.table({f"c{i}": pa.FixedSizeListArray.from_arrays(flat, width) for i in range(columns)})
    if form == "pandas":
        import pandas as pd

        width = max(1, given // 8 // columns)
        if width == 1:
            return pd.DataFrame({f"c{i}": ids for i in range(columns)})
        return pd.DataFrame({f"c{i}": [np.full(width, n) for n in ids] for i in range(columns)})
    return {f"c{i}": np.repeat(ids, given // 8 // columns).reshape(len(ids), -1) for i in range(columns)}


def grown(batch, times):
    """Each row's columns so many times as wide."""
    import numpy as np

    if isinstance(batch, dict):
        return {name: np.tile(np.asarray(column).reshape(len(column), -1), times) for name, column in batch.items()}
    if hasattr(batch, "to_pydict"):
        import pyarrow as pa

        columns = {}
        for name in batch.column_names:
            column = np.stack(batch[name].to_numpy(zero_copy_only=False)) if batch.num_rows else np.zeros((0, 1))
            wide = np.tile(column.reshape(len(column), -1), times)
            columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(wide.ravel()), wide.shape[1])
        return pa.table(columns)
    return batch.assign(**{name: [np.tile(np.atleast_1d(value), times) for value in batch[name]] for name in batch.columns})


def made_generator(batch, given, times):
    import numpy as np

    ids = np.asarray(batch["id"])
    for part in np.array_split(ids, min(len(ids), 5)):
        yield {"c0": np.repeat(part, given * times // 8).reshape(len(part), -1)}


async def made_async(batch, given):
    import asyncio

    await asyncio.sleep(0)
    return made(batch, "numpy", given, 1)


class Grown:
    def __init__(self, times):
        self.times = times

    def __call__(self, batch):
        return grown(batch, self.times)


def dataset(weir, spec):
    form, given, columns, times, size = spec["format"], spec["given"], spec["columns"], spec["grows"], spec["batch_size"]
    rows, kind = spec["rows"], spec["kind"]
    ids = weir.range(rows * 2 if kind == "filter" else (rows + 1) // 2 if kind == "flat_map" else rows,
                     **({"override_num_blocks": spec["blocks"]} if spec["blocks"] else {}))
    options = {"batch_size": size, **({"batch_format": form} if form != "default" else {})}

    if kind == "none":
        return weir.range_tensor(rows, shape=(given // 8,), **({"override_num_blocks": spec["blocks"]} if spec["blocks"] else {}))
    if kind == "map_batches":
        return ids.map_batches(lambda batch: grown(made(batch, form, given, columns), times), **options)
    if kind == "two":
        return ids.map_batches(lambda batch: made(batch, form, given, columns), **options).map_batches(lambda batch: batch, batch_size=size, batch_format="numpy")
    if kind == "class":
        return ids.map_batches(lambda batch: made(batch, form, given, columns), **options).map_batches(
            Grown, fn_constructor_args=(times,), concurrency=min(2, spec["cpus"]), **options)
    if kind == "generator":
        return ids.map_batches(lambda batch: made_generator(batch, given, times), batch_size=size)
    if kind == "async":
        return ids.map_batches(lambda batch: made_async(batch, given), batch_size=size)
    if kind == "map":
        return ids.map(lambda row: row_of(row["id"], given * times))
    if kind == "flat_map":
        return ids.flat_map(lambda row: [row_of(row["id"], given) for _ in range(2)])
    return ids.filter(lambda row: row["id"] % 2).map_batches(lambda batch: made(batch, form, given, columns), **options)


def row_of(number, size):
    import numpy as np

    return {"c0": np.full(size // 8, number)}


# ---- consumers ----

def count(batches, pause):
    rows = 0
    for number, batch in enumerate(batches):
        rows += len(next(iter(batch.values())))
        if pause and number % 4 == 0 and number < 1000:
            time.sleep(pause)
        del batch
    return rows


def run(weir, spec):
    """The rows that came."""
    ds, consumer, size, pause = dataset(weir, spec), spec["consumer"], spec["size"], spec["pause"]
    if consumer == "torch":
        return count(ds.iter_torch_batches(batch_size=size, prefetch_batches=spec["prefetch"]), pause)
    if consumer == "rows":
        return sum(1 for _ in ds.iter_rows())
    if consumer == "materialize":
        return ds.materialize().count()
    if consumer == "write":
        with tempfile.TemporaryDirectory() as folder:
            ds.write_parquet(folder)
            return weir.read_parquet(folder).count()
    if consumer == "take":
        return len(ds.take(max(1, min(spec["rows"], spec["limit"] // 40 // spec["row"]))))
    if consumer == "split":
        from holding import in_threads

        return in_threads([lambda it=it: count(it.iter_batches(batch_size=size), pause) for it in ds.streaming_split(2)])
    if consumer == "shuffle":
        return count(ds.iter_batches(batch_size=size, local_shuffle_buffer_size=spec["buffer"]), pause)
    return count(ds.iter_batches(batch_size=size, prefetch_batches=spec["prefetch"] if consumer == "prefetch" else 1), pause)


def expected(spec):
    rows = spec["rows"]
    if spec["consumer"] == "take":
        return max(1, min(rows, spec["limit"] // 40 // spec["row"]))
    return (rows + 1) // 2 * 2 if spec["kind"] == "flat_map" else rows
