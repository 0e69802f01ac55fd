"""Random tables written as CSV by weir and by pyarrow come back the same through weir."""
import datetime
import subprocess

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

# Text that no null is spelled like, and no empty line: what else CSV cannot say is told in docs/formats.md.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12).filter(
    lambda text: text not in ("NA", "NULL", "NaN", "nan", "null", "n/a"))
DAYS = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
COLUMNS = [
    (pa.int64(), st.integers(-2**63, 2**63 - 1), "int64"),
    (pa.int8(), st.integers(-128, 127), "int8"),
    (pa.uint64(), st.integers(0, 2**64 - 1), "uint64"),
    (pa.float64(), st.floats(allow_nan=False), "double"),
    (pa.float32(), st.floats(allow_nan=False, width=32), "float"),
    (pa.bool_(), st.booleans(), "bool"),
    (pa.string(), TEXT, "string"),
    (pa.large_string(), TEXT, "large_string"),
    (pa.date32(), DAYS, "date32[day]"),
    (pa.time64("us"), st.times(), "time64[us]"),
    (pa.timestamp("us"), st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)), "timestamp[us]"),
    (pa.timestamp("ms", "UTC"), st.integers(-10**12, 10**13).map(
        lambda ms: datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(milliseconds=ms)),
     "timestamp[ms, tz=UTC]"),
    (pa.decimal128(20, 4), st.decimals(-10**15, 10**15, places=4), "decimal128(20, 4)"),
]


@st.composite
def tables(draw):
    chosen = draw(st.lists(st.sampled_from(COLUMNS), min_size=2, max_size=6))
    rows = draw(st.integers(0, 20))
    columns, types = {}, []
    for i, (type_, values, name) in enumerate(chosen):
        column = draw(st.lists(st.one_of(st.none(), values), min_size=rows, max_size=rows))
        columns[f"c{i}"] = pa.array(column, type_)
        types.append(f"c{i}={name}")
    return pa.table(columns), ",".join(types)


def run(weir_command, *arguments):
    done = subprocess.run([weir_command, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def read(weir_command, tmp_path, path, types):
    run(weir_command, "read", path, "--types", types, "--strings-null", "unquoted", "then", "write",
        tmp_path / "back.parquet", "--mode", "overwrite")
    back = tmp_path / "back.parquet"
    return pq.read_table(back) if back.exists() else None


QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(tables())
def test_written_by_weir(weir_command, tmp_path, made):
    table, types = made
    note(table.to_pydict())
    pq.write_table(table, tmp_path / "a.parquet")
    run(weir_command, "read", tmp_path / "a.parquet", "then", "write", tmp_path / "a.csv", "--mode", "overwrite")
    back = read(weir_command, tmp_path, tmp_path / "a.csv", types)
    assert back.to_pydict() == table.to_pydict()


@QUICK
@given(tables())
def test_written_by_pyarrow(weir_command, tmp_path, made):
    table, types = made
    note(table.to_pydict())
    pacsv.write_csv(table, tmp_path / "a.csv")
    back = read(weir_command, tmp_path, tmp_path / "a.csv", types)
    assert back.to_pydict() == table.to_pydict()
