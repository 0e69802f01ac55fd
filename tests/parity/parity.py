"""Small programs that run on Ray Data and on weir, and what becomes of their answers.

    @case(1, 5)                       a case for each value; no values: one case
    def take(data, at, n):            data: ray.data or weir.data; at: the folder with the inputs
        return data.range(3).take(n)

`answer` runs one and gives what it returned, or the classes of what it raised, as plain JSON. `record.py` stores Ray's answers
in recorded/; `test_parity.py` compares weir's with them. `known.py` names the cases in which weir differs, and why: a case that
is named there and does not differ is a failure, too.
"""
import contextlib
import copy
import datetime
import decimal
import enum
import importlib
import importlib.util
import inspect
import io
import json
import math
import os
import re
import signal
import sqlite3
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded"
MODULES = ["cases_create", "cases_core", "cases_consume", "cases_iterate", "cases_transform", "cases_expressions",
           "cases_aggregates", "cases_grouped", "cases_join", "cases_preprocessors", "cases_files", "cases_extend", "cases_context", "cases_errors", "cases_values",
           "cases_names", "cases_rest", "cases_formats", "cases_scripts", "cases_mistakes", "cases_blocks", "cases_user", "cases_direct", "cases_packages", "cases_frames"]
SECONDS = 60
CASES = {}  # id → Case

# Classes by which a program may catch an error, beside Python's own.
CAUGHT_BY = {"RayError", "RayTaskError", "RayActorError", "ActorDiedError", "UserCodeException", "RayDataUserCodeException",
             "WorkerCrashedError", "GetTimeoutError", "ObjectLostError", "TaskCancelledError", "OutOfMemoryError",
             "ArrowConversionError", "PendingCallsLimitExceeded", "ActorAlreadyExistsError", "TaskPlacementGroupRemoved"}


class Case:
    def __init__(self, module, name, function, values, shows=(), needs=(), ray_needs=()):
        self.module, self.function, self.values, self.shows, self.needs, self.ray_needs = module, function, values, shows, needs, ray_needs
        self.id = name

    def lacks(self, ray=False):
        """The first of its packages that is not installed."""
        return next((name for name in (*self.needs, *(self.ray_needs if ray else ())) if importlib.util.find_spec(name) is None), None)


def case(*grid, shows=(), needs=(), ray_needs=()):
    """A function as a case, or as one for each value of the grid: a value, or a tuple of several. `shows`: public names that docs/parity.md
    may call shown by it though nothing of them is called by Python: enumerations, plain classes, what is made in C. The case says them, and
    its answer depends on them; "{}" is the value. `needs`: packages without which it is left out; `ray_needs`: those that Ray alone needs."""

    def add(function):
        module = function.__module__.rpartition(".")[2]
        for value in grid or [None]:
            values = () if not grid else value if isinstance(value, tuple) else (value,)
            label = ", ".join(v if isinstance(v, str) else getattr(v, "__name__", None) or repr(v) for v in values)
            name = f"{module.removeprefix('cases_')}/{function.__name__}" + (f"[{label}]" if grid else "")
            assert name not in CASES, name
            CASES[name] = Case(module, name, function, values, tuple(one.format(*values) for one in shows), tuple(needs), tuple(ray_needs))
        return function

    return add


def load():
    """All cases."""
    import sys

    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    for module in MODULES:
        if (HERE / f"{module}.py").exists():
            importlib.import_module(module)
    return CASES


def says(one, name):
    """Whether the case's own code, or the value that it gets, has the last part of a public name in it: what only weir's own functions call
    on the way is not shown by it."""
    own = inspect.getsource(one.function).partition("def ")[2] + repr(one.values)
    return re.search(rf"\b{re.escape(name.rpartition('.')[2])}\b", own) is not None


def sub(data, name):
    """ray.data.<name>, or weir's, which has some of these in one module."""
    try:
        return importlib.import_module(f"{data.__name__}.{name}")
    except ModuleNotFoundError:
        if data.__name__ == "ray.data" or "." not in name:
            raise
        return importlib.import_module(f"{data.__name__}.{name.partition('.')[0]}")


def root(data):
    """ray, or weir."""
    return importlib.import_module(data.__name__.partition(".")[0])


# ---- running ----


class Late(BaseException):
    """A case took too long."""


def _late(*_):
    raise Late


def answer(one, data, at):
    """What a case gives, as JSON has it."""
    context = data.DataContext.get_current()
    saved = copy.deepcopy(context)
    before = os.getcwd()
    folder = Path(at)
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            data.DataContext.get_current().execution_options.preserve_order = True
            found = one.function(data, folder, *one.values)
            if found is PRINTED:
                found = out.getvalue()
            made = normal(found, str(folder))
    except Late:
        made = {"late": SECONDS}
    except (Exception, SystemExit) as error:
        made = {"error": classes(error)}
        if os.environ.get("PARITY_TRACE"):
            import traceback

            traceback.print_exc()
    finally:
        signal.alarm(0)
        os.chdir(before)
        data.DataContext._set_current(saved)
    return json.loads(json.dumps(made))


PRINTED = object()  # a case returns this for what it printed


def classes(error):
    """The classes by which a program can catch this."""
    names = [c.__name__ for c in type(error).__mro__
             if c.__name__ in CAUGHT_BY or (c.__module__ == "builtins" and c not in (object, BaseException, Exception))]
    return sorted(set(names)) or ["Exception"]


def same(theirs, mine):
    """Whether weir's answer is as good as Ray's: errors are caught by all classes that caught Ray's; the rest is equal."""
    if isinstance(theirs, dict) and isinstance(mine, dict) and set(theirs) == {"error"} == set(mine):
        return set(theirs["error"]) - {"Exception"} <= set(mine["error"])
    if isinstance(theirs, dict) and isinstance(mine, dict):
        return theirs.keys() == mine.keys() and all(same(theirs[k], mine[k]) for k in theirs)
    if isinstance(theirs, list) and isinstance(mine, list):
        return len(theirs) == len(mine) and all(map(same, theirs, mine))
    if isinstance(theirs, float) and isinstance(mine, float):
        return math.isclose(theirs, mine, rel_tol=1e-9, abs_tol=1e-12)
    return type(theirs) is type(mine) and theirs == mine


# ---- answers as JSON ----


def normal(value, at):
    """Values with their types, in plain JSON."""
    inner = lambda v: normal(v, at)
    if value is None or isinstance(value, (bool, int)) and not isinstance(value, enum.Enum):
        return value if abs(value or 0) < 2**53 else {"int": str(value)}
    if isinstance(value, enum.Enum):
        return {"enum": f"{type(value).__name__}.{value.name}"}
    if isinstance(value, float):
        return {"float": repr(value)} if math.isnan(value) or math.isinf(value) else float(value)
    if type(value).__module__ == "numpy":
        return _numpy(value, inner)
    if isinstance(value, str):
        return value.replace(at, "<at>")
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": bytes(value).hex()}
    if type(value).__module__.startswith("pandas"):
        return _pandas(value, inner)
    if isinstance(value, datetime.datetime):
        return {"datetime": value.isoformat()}
    if isinstance(value, (datetime.date, datetime.time)):
        return {type(value).__name__: value.isoformat()}
    if isinstance(value, datetime.timedelta):
        return {"timedelta": value.total_seconds()}
    if isinstance(value, decimal.Decimal):
        return {"Decimal": str(value)}
    if isinstance(value, type):
        return {"class": value.__name__}
    if isinstance(value, dict):
        return {str(k): inner(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [inner(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return {"set": sorted((inner(v) for v in value), key=json.dumps)}
    if type(value).__module__.startswith("pyarrow"):
        return _pyarrow(value, inner)
    if type(value).__module__.startswith("torch"):
        return {"torch": str(getattr(value, "dtype", value)), "values": inner(value.tolist()) if hasattr(value, "tolist") else None}
    if type(value).__name__ == "Schema":
        return {"schema": list(value.names), "types": [str(t) for t in value.types]}
    if isinstance(value, BaseException):
        return {"raised": classes(value)}
    return {"object": type(value).__name__}


def _numpy(value, inner):
    import numpy as np

    if isinstance(value, np.ndarray):
        kind = str(value.dtype)
        if value.dtype.kind in "Mm":
            return {"array": kind, "shape": list(value.shape), "values": [str(v) for v in value.ravel()]}
        return {"array": kind, "shape": list(value.shape), "values": [inner(v) for v in value.ravel().tolist()]}
    if isinstance(value, np.dtype):
        return {"dtype": str(value)}
    return {"scalar": str(value.dtype), "value": str(value) if value.dtype.kind in "Mm" else inner(value.item())}


def _pandas(value, inner):
    import pandas as pd

    if isinstance(value, pd.DataFrame):
        return {"frame": {str(c): str(t) for c, t in value.dtypes.items()},
                "values": {str(c): [inner(None if v is pd.NA else v) for v in value[c].tolist()] for c in value.columns}}
    if isinstance(value, pd.Series):
        return {"series": str(value.dtype), "values": [inner(None if v is pd.NA else v) for v in value.tolist()]}
    if value is pd.NaT or value is pd.NA:
        return {"pandas": str(value)}
    if isinstance(value, (pd.Timestamp, pd.Timedelta)):
        return {type(value).__name__: value.isoformat()}
    return {"pandas": type(value).__name__}


def _pyarrow(value, inner):
    import pyarrow as pa

    if isinstance(value, (pa.Table, pa.RecordBatch)):
        return {"table": {f.name: str(f.type) for f in value.schema}, "values": inner(value.to_pydict())}
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return {"arrow": str(value.type), "values": inner(value.to_pylist())}
    if isinstance(value, pa.Schema):
        return {"arrow_schema": {f.name: str(f.type) for f in value}}
    if isinstance(value, pa.Scalar):
        return {"arrow_scalar": str(value.type), "value": inner(value.as_py())}
    return {"arrow": str(value)}


# ---- the inputs ----


def make_inputs(at):
    """Files that no library under test has written."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    at = Path(at)
    (at / "parquet").mkdir(parents=True)
    for i in range(3):
        table = pa.table({"id": pa.array(range(4 * i, 4 * i + 4)), "x": pa.array([0.5 * j if j % 3 else None for j in range(4 * i, 4 * i + 4)]),
                          "name": pa.array([f"n{j % 5}" for j in range(4 * i, 4 * i + 4)])})
        pq.write_table(table, at / "parquet" / f"{i}.parquet", row_group_size=2)
    for year in (2023, 2024):
        for month in ("01", "02"):
            folder = at / "hive" / f"year={year}" / f"month={month}"
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"v": [year, int(month)]}), folder / "a.parquet")
            folder = at / "dirs" / str(year) / month
            folder.mkdir(parents=True)
            (folder / "a.csv").write_text(f"v\n{year}\n")
    folder = at / "csv"
    folder.mkdir()
    (folder / "a.csv").write_text("id,name,score,day\n1,ann,1.5,2024-01-02\n2,bob,,2024-01-03\n")
    (folder / "b.csv").write_text("id,name,score,day\n3,cat,2.25,2024-02-29\n")
    (folder / "_hidden.csv").write_text("id\n9\n")
    (at / "semicolons.csv").write_text("a;b\n1;x\n2;'y;z'\n")
    (at / "headless.csv").write_text("1,x\n2,y\n")
    (at / "odd.csv").write_text('a,b\n"quoted, comma","two\nlines"\n,NA\n')
    folder = at / "json"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"id": 1, "tags": ["x", "y"], "in": {"k": 1}}\n{"id": 2, "tags": [], "in": {"k": null}}\n')
    (folder / "b.json").write_text('[{"id": 3, "tags": null, "in": {"k": 5}}]')
    folder = at / "text"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n\ntwo\r\n  three  \n")
    (folder / "b.txt").write_text("vier")
    (at / "latin.txt").write_bytes("grün\n".encode("latin-1"))
    folder = at / "binary"
    folder.mkdir()
    (folder / "a.bin").write_bytes(b"\x00\x01\xff")
    (folder / "b.bin").write_bytes(b"")
    folder = at / "numpy"
    folder.mkdir()
    np.save(folder / "a.npy", np.arange(6, dtype=np.int32).reshape(3, 2))
    np.save(folder / "b.npy", np.arange(6, 10, dtype=np.int32).reshape(2, 2))
    with contextlib.closing(sqlite3.connect(at / "db.sqlite")) as db:
        db.execute("create table movie(title text, year int, score real)")
        db.executemany("insert into movie values (?, ?, ?)", [("Holy Grail", 1975, 8.2), ("Life of Brian", 1979, 8.0), ("Meaning", 1983, None)])
        db.commit()
    (at / "broken.parquet").write_bytes(b"PAR1 this is no parquet file PAR1")
    mixed = at / "mixed"
    mixed.mkdir()
    pq.write_table(pa.table({"a": [1, 2]}), mixed / "0.parquet")
    pq.write_table(pa.table({"a": ["x"]}), mixed / "1.parquet")
    wider = at / "wider"
    wider.mkdir()
    pq.write_table(pa.table({"a": [1, 2]}), wider / "0.parquet")
    pq.write_table(pa.table({"a": [3], "b": ["x"]}), wider / "1.parquet")
