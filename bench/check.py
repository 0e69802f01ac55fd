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


def checksum(con, files):
    listed = ", ".join(f"'{f}'" for f in files)
    names = sorted(pq.read_schema(files[0]).names)
    row = ", ".join(f'"{name}"' for name in names)
    total, count = con.execute(f"SELECT sum(hash({row})::HUGEINT), count(*) FROM read_parquet([{listed}])").fetchone()
    return f"{len(names)} columns {(total or 0) % (1 << 64):016x}", count


def look(con, line):
    folder = Path(line.lstrip("+"))
    files = sorted(f for f in folder.rglob("*") if f.is_file() and not f.name.startswith((".", "_")))
    answer = {"rows": sum(pq.read_metadata(f).num_rows for f in files), "bytes": sum(f.stat().st_size for f in files)}
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
