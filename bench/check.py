"""A process that looks at outputs: a folder's name a line in, a JSON object a line out.

    FOLDER          -> {"rows": n, "bytes": n}                   from the footers
    +FOLDER         -> {"rows": n, "bytes": n, "sum": "…"}       and the checksum

The checksum is the sum of a 64-bit hash of each row, columns in order of their names, so neither the order of the
rows nor the number of files matters, and a doubled row is seen. It runs beside the benchmark, outside of the timed
parts, and spares the benchmark from loading the libraries itself.
"""

import json
import sys
from pathlib import Path

import duckdb
import pyarrow.parquet as pq


def source(files):
    """What DuckDB reads them with. Text by content: a file that DuckDB itself wrote per thread may have any name."""
    listed = ", ".join(f"'{f}'" for f in files)
    with open(files[0], "rb") as f:
        first = f.read(4)
    if first == b"PAR1":
        return f"read_parquet([{listed}])"
    return f"read_json_auto([{listed}])" if first.startswith(b"{") else f"read_csv([{listed}])"


def checksum(con, files):
    columns = con.execute(f"DESCRIBE SELECT * FROM {source(files)}").fetchall()
    names = sorted(column[0] for column in columns)
    # Text says 1 or 1.0 for the same number, so the type that is inferred must not matter.
    numbers = {column[0] for column in columns if column[1] in ("BIGINT", "DOUBLE") and not source(files).startswith("read_parquet")}
    # Nor must the unit of a timestamp.
    casts = {name: "::DOUBLE" for name in numbers} | {c[0]: "::TIMESTAMP" for c in columns if c[1].startswith("TIMESTAMP")}
    row = ", ".join(f'"{name}"{casts.get(name, "")}' for name in names)
    total, count = con.execute(f"SELECT sum(hash({row})::HUGEINT), count(*) FROM {source(files)}").fetchone()
    return f"{len(names)} columns {(total or 0) % (1 << 64):016x}", count


def row_count(con, files):
    if not files or source(files).startswith("read_parquet"):
        return sum(pq.read_metadata(f).num_rows for f in files)
    return con.execute(f"SELECT count(*) FROM {source(files)}").fetchone()[0]


def look(con, line):
    folder = Path(line.lstrip("+"))
    files = sorted(f for f in folder.rglob("*") if f.is_file() and not f.name.startswith((".", "_")))
    answer = {"rows": row_count(con, files), "bytes": sum(f.stat().st_size for f in files)}
    if line.startswith("+") and files:
        answer["sum"], count = checksum(con, files)
        if count != answer["rows"]:
            raise ValueError(f"the footers say {answer['rows']} rows, the pages hold {count}")
    return answer


def main():
    con = duckdb.connect()
    con.execute("SET preserve_insertion_order=false")
    for line in sys.stdin:
        try:
            answer = look(con, line.rstrip("\n"))
        except Exception as e:  # whatever is wrong with an output is the answer
            answer = {"error": f"{type(e).__name__}: {e}".splitlines()[0]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
