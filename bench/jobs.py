"""The list of jobs: which dataset, which rows, which columns, and what the systems are asked for.

A job's predicate is a list of (column, operator, value), all of which must hold ("is valid" has no value); every system gets it in its own
language (systems.py for weir, peer.py for the others). Outputs are Snappy Parquet, weir's default, whatever the codec of
the input, so that all systems do the same work; or text that is not compressed.
"""

import dataclasses
import json
import math
from pathlib import Path

ROOT = Path(__file__).resolve().parent / "data"

PRICE_MAX = 105_000.0
KEEP = {"keep0.1": 0.001, "keep10": 0.1, "keep50": 0.5}
TOTAL = "price * (1 - discount)"

BOUNDED_BYTES = {"small": 1_000_000_000, "standard": 20_000_000_000, "large": 20_000_000_000}
BOUNDED_LIMIT_MIB = 256
BOUNDED_ALLOWED_MIB = 282


@dataclasses.dataclass
class Job:
    name: str
    kind: str  # write, head, count, or load: the rows of which every column in `where` was looked at
    dataset: str
    where: list = dataclasses.field(default_factory=list)
    select: list = dataclasses.field(default_factory=list)  # empty: all columns
    total: bool = False  # adds total = price * (1 - discount)
    repeat_to: int = 0  # list the files again and again until so many decoded bytes
    bounded: bool = False
    output: str = "parquet"  # or csv, jsonl
    facts: dict = dataclasses.field(default_factory=dict)
    size: str = ""

    @property
    def folder(self):
        return ROOT / self.size / self.dataset

    @property
    def input(self):
        """The format of the files: their extension, too."""
        codec = self.dataset.split("-")[1]
        return codec if codec in ("csv", "jsonl") else "parquet"

    @property
    def files(self):
        """The input's files, listed repeatedly in a bounded job."""
        files = sorted(str(f) for f in self.folder.glob(f"*.{self.input}"))
        times = math.ceil(self.repeat_to / self.facts["decoded_bytes"]) if self.repeat_to else 1
        return files * times

    @property
    def columns_read(self):
        """The columns that the job must decode, for the limit; empty: all."""
        if not self.select:
            return []
        used = {column for column, _, _ in self.where} | set(self.select) - {"total"}
        return sorted(used | ({"price", "discount"} if self.total else set()))


def keep_where(shape, share):
    """Keeps the given share of the rows, at random places: both columns are uniform."""
    if shape.startswith("flat"):
        return [("price", ">", round(PRICE_MAX * (1 - share), 2))]
    return [("key", "<", share)]


def scan(dataset, keep):
    return Job(f"scan/{dataset}/{keep}", "write", dataset, keep_where(dataset, KEEP[keep]))


def flat_selects(dataset):
    some = [("price", ">", 50_000.0), ("flag", "in", ["A", "R"])]
    few = [("price", ">", round(PRICE_MAX * 0.999, 2))]
    columns = ["orderkey", "total"]
    return [
        Job(f"select/{dataset}/price-flag", "write", dataset, some, columns, total=True),
        Job(f"select/{dataset}/keep0.1", "write", dataset, few, columns, total=True),
    ]


def bounded(dataset, size):
    where = keep_where(dataset, 0.1)
    return Job(f"bounded/{dataset}", "write", dataset, where, repeat_to=BOUNDED_BYTES[size], bounded=True)


# True of every row, so that a load must make values of all these columns and keep none of them.
LOADED = [
    ("orderkey", ">", 0), ("partkey", ">", 0), ("suppkey", ">", 0), ("linenumber", ">", 0), ("quantity", ">", 0),
    ("price", ">", -1.0), ("discount", ">", -1.0), ("tax", ">", -1.0), ("flag", ">", ""), ("status", ">", ""),
    ("shipdate", ">", {"date": "1990-01-01"}), ("commitdate", ">", {"date": "1990-01-01"}),
    ("received", ">", {"timestamp": "1990-01-01 00:00:00"}), ("instruct", ">", ""), ("mode", ">", ""),
    ("comment", ">", ""),
]


def csv_jobs():
    some = [term for term in LOADED if term[0] in ("partkey", "price", "shipdate")]
    return [
        Job("csv-all", "load", "lines-csv-1f", LOADED),
        Job("csv-3of16", "load", "lines-csv-1f", some),
        Job("csv-many-files", "load", "lines-csv-2000f", LOADED),
        Job("csv-to-parquet", "write", "lines-csv-1f"),
    ]


# The same of events; times and nested values are only looked at.
EVENTS = (
    [("id", ">", -1), ("price", ">", -1.0), ("quantity", ">", 0), ("user", ">", ""), ("note", ">", "")]
    + [(f"i{i}", ">", -1) for i in range(8)] + [(f"f{i}", ">", -1.0) for i in range(6)]
    + [(f"s{i}", ">", "") for i in range(6)]
    + [(name, "is valid", None) for name in ("ts", "ok", "tags", "geo", "device")]
)


def json_jobs():
    some = [term for term in EVENTS if term[0] in ("id", "ts", "price", "quantity", "f0", "s0")]
    return [
        Job("jsonl-all", "load", "events-jsonl-1f", EVENTS),
        Job("jsonl-6of30", "load", "events-jsonl-1f", some),
        Job("jsonl-many-files", "load", "events-jsonl-2000f", EVENTS),
        Job("jsonl-to-parquet", "write", "events-jsonl-1f"),
    ]


def text(dataset, output):
    return Job(f"text/{dataset}/{output}", "write", dataset, output=output)


def all_jobs(size):
    jobs = []
    for layout in ("1x1", "1x50", "50f"):
        jobs += [scan(f"flat-snappy-{layout}", keep) for keep in KEEP]
        jobs += flat_selects(f"flat-snappy-{layout}")
        jobs += [scan(f"flatq-{codec}-{layout}", keep) for codec in ("zstd", "none") for keep in KEEP]
    for shape in ("wide", "strings", "lists"):
        jobs += [scan(f"{shape}-snappy-{layout}", "keep10") for layout in ("1x1", "1x50", "50f")]
        jobs += [scan(f"{shape}-snappy-1x50", keep) for keep in ("keep0.1", "keep50")]
        jobs += [scan(f"{shape}-{codec}-1x50", "keep10") for codec in ("zstd", "none")]
    wide = ["c0001", "c0002", "c0004"]
    jobs.append(Job("select/wide-snappy-50f/keep10", "write", "wide-snappy-50f", keep_where("wide", 0.1), wide))
    jobs += [Job(f"first-row/{d}", "head", d) for d in ("flat-snappy-50f", "flat-snappy-1x1")]
    jobs.append(Job("count/tiny-snappy-10000f", "count", "tiny-snappy-10000f"))
    jobs += [text("flatq-none-50f", output) for output in ("csv", "jsonl")]
    jobs += csv_jobs()
    jobs += json_jobs()
    jobs += [bounded(dataset, size) for dataset in ("flat-snappy-50f", "flat-snappy-1x1")]
    for job in jobs:
        job.size = size
    return jobs


def load_facts(job):
    job.facts = json.loads((ROOT / job.size / f"{job.dataset}.json").read_text())
