"""CSV and JSON as weir writes them, read back by Python's csv and json, pyarrow, DuckDB and Polars."""
import csv
import datetime
import decimal
import gzip
import io
import json
import math
import os
import subprocess
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import random_tables
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=40) | st.sampled_from(
    ["", "a,b", 'say "x"', "two\nlines", "\r\n", "\\", "x" * 15, "x" * 16, "é" * 9, "NA", "nan", "null", '"', ",", "x" * 9000 + '"'])
FLOATS = st.floats(width=64)
CASES = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def weir(weir_command):
    def run(*words, code=0, env=None):
        done = subprocess.run([weir_command, *map(str, words)], capture_output=True, env={**os.environ, **(env or {})})
        assert done.returncode == code, done.stderr.decode()
        return done
    return run


@st.composite
def tables(draw):
    """Columns of every plain kind, as values or as codes, with nulls."""
    count = draw(st.integers(1, 60))

    def column(values, type):
        items = draw(st.lists(st.none() | values, min_size=count, max_size=count))
        array = pa.array(items, type)
        return array.dictionary_encode() if draw(st.booleans()) and type in (pa.string(), pa.int64(), pa.float64()) else array
    return pa.table({
        "i": column(st.integers(-2**63, 2**63 - 1), pa.int64()),
        "u": column(st.integers(0, 2**64 - 1), pa.uint64()),
        "small": column(st.integers(-128, 127), pa.int8()),
        "d": column(FLOATS, pa.float64()),
        "f": column(st.floats(width=32), pa.float32()),
        "b": column(st.booleans(), pa.bool_()),
        "s": column(TEXT, pa.string()),
        "day": column(st.dates(), pa.date32()),
        "at": column(st.datetimes(), pa.timestamp("us")),
        "money": column(st.decimals(-10**8, 10**8, places=2), pa.decimal128(12, 2)),
        "names, \"quoted\"": column(TEXT, pa.string()),
    })


def write(weir, table, *options, format="csv"):
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(table, f"{folder}/t.parquet", row_group_size=37)
        return weir("read", f"{folder}/t.parquet", "then", "write", "-", "--format", format, *options).stdout


def cell_text(value, type):
    """What a cell shows of a value that is not null."""
    if pa.types.is_boolean(type):
        return "true" if value else "false"
    if pa.types.is_timestamp(type):
        return value.isoformat(" ", "microseconds")
    if pa.types.is_float32(type):
        return None  # compared as a number
    return str(value) if not isinstance(value, float) else repr(value)


def check_cells(table, rows, null=""):
    table = pa.table({f.name: c.cast(f.type.value_type) if pa.types.is_dictionary(f.type) else c
                      for f, c in zip(table.schema, table.columns)})
    assert rows[0] == table.column_names
    assert len(rows) == table.num_rows + 1
    for row, expected in zip(rows[1:], table.to_pylist()):
        for field, cell in zip(table.schema, row):
            value = expected[field.name]
            if value is None:
                assert cell == null
            elif pa.types.is_float32(field.type):
                assert struct_same(pa.scalar(float(cell), pa.float32()).as_py(), value)
            else:
                assert cell == cell_text(value, field.type), field.name


def struct_same(a, b):
    return a == b or math.isnan(a) and math.isnan(b)


@CASES
@given(tables(), st.sampled_from(["minimal", "all", "nonnumeric", "strings"]), st.sampled_from([",", "\\t", ";", "|"]), st.booleans(),
       st.sampled_from(["", "NA", "\\N"]))
def test_python_reads_csv(weir, table, quoting, delimiter, crlf, null):
    options = ["--quoting", quoting, "--delimiter", delimiter, "--null", null, "--line-terminator", "crlf" if crlf else "lf"]
    text = write(weir, table, *options).decode()
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter="\t" if delimiter == "\\t" else delimiter, strict=True))
    check_cells(table, rows, null)


@CASES
@given(tables())
def test_python_reads_escapes(weir, table):
    text = write(weir, table, "--escape", "\\", "--quoting", "nonnumeric").decode()
    rows = list(csv.reader(io.StringIO(text, newline=""), escapechar="\\", doublequote=False, strict=True))
    check_cells(table, rows)


@CASES
@given(tables())
def test_pyarrow_reads_csv(weir, table):
    text = write(weir, table, "--null", "NULL!")
    types = {f.name: f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in table.schema}
    back = pa.csv.read_csv(
        io.BytesIO(text), parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(column_types=types, null_values=["NULL!"], strings_can_be_null=True,
                                              quoted_strings_can_be_null=False, true_values=["true"], false_values=["false"]))
    expected = pa.table({name: table[name].cast(type) for name, type in types.items()})
    for name in types:
        a, b = back[name].to_pylist(), expected[name].to_pylist()
        assert all(x == y or isinstance(x, float) and math.isnan(x) and math.isnan(y) for x, y in zip(a, b)), name
        assert len(a) == len(b)


@CASES
@given(tables())
def test_duckdb_and_polars_read_csv(weir, table):
    text = write(weir, table)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "t.csv").write_bytes(text)
        plain = pa.table({f.name: c.cast(f.type.value_type) if pa.types.is_dictionary(f.type) else c
                          for f, c in zip(table.schema, table.columns)})
        names = ["i", "d", "s", "day", "money"]
        rows = duckdb.sql(f"select i, d, s, day, money from read_csv('{folder}/t.csv', header=true, quote='\"', escape='\"', "
                          "delim=',', new_line='\\n', allow_quoted_nulls=false, columns={'i': 'bigint', 'u': 'ubigint', "
                          "'small': 'tinyint', 'd': 'double', 'f': 'float', 'b': 'boolean', 's': 'varchar', 'day': 'date', "
                          "'at': 'timestamp', 'money': 'decimal(12,2)', 'last': 'varchar'})").fetchall()
        expected = list(zip(*(plain[name].to_pylist() for name in names)))
        assert len(rows) == len(expected)
        for row, wanted in zip(rows, expected):
            for name, a, b in zip(names, row, wanted):
                assert a == b or name == "d" and struct_same(a, b), name
        frame = polars.read_csv(Path(folder, "t.csv"), schema_overrides={"u": polars.UInt64, "d": polars.Float64, "s": polars.String},
                                infer_schema=False)
        assert frame["s"].to_list() == plain["s"].to_pylist()


@CASES
@given(tables())
def test_json_reads_lines(weir, table):
    plain = pa.table({f.name: c.cast(f.type.value_type) if pa.types.is_dictionary(f.type) else c
                      for f, c in zip(table.schema, table.columns)})
    lines = write(weir, table, format="jsonl").decode().split("\n")
    assert lines.pop() == ""
    check_json(plain, [json.loads(line, parse_float=decimal.Decimal, parse_constant=fail) for line in lines])
    array = write(weir, table, format="json").decode()
    check_json(plain, json.loads(array, parse_float=decimal.Decimal, parse_constant=fail))
    named = json.loads(write(weir, table, "--non-finite", "nan", format="json"))
    for row, expected in zip(named, plain["d"].to_pylist()):
        assert row["d"] is None and expected is None or struct_same(row["d"], expected)


def fail(name):
    raise AssertionError(name)


def check_json(table, rows):
    assert len(rows) == table.num_rows
    for row, expected in zip(rows, table.to_pylist()):
        assert list(row) == table.column_names
        for field in table.schema:
            a, b = row[field.name], expected[field.name]
            if isinstance(b, float):
                if not math.isfinite(b):
                    assert a is None
                elif pa.types.is_float64(field.type):
                    assert float(a) == b
                else:
                    assert pa.scalar(float(a), pa.float32()).as_py() == b
            elif b is None or isinstance(b, (int, bool, str)):
                assert a == b and type(a) is type(b)
            elif isinstance(b, decimal.Decimal):
                assert a == b
            elif pa.types.is_timestamp(field.type):
                assert a == b.isoformat(" ", "microseconds")
            else:
                assert a == b.isoformat()


NESTED_TYPES = st.recursive(
    st.sampled_from([pa.int32(), pa.string(), pa.float64(), pa.bool_(), pa.int64()]),
    lambda inner: st.one_of(inner.map(pa.list_), inner.map(pa.large_list), inner.map(lambda t: pa.list_(t, 2)),
                            st.lists(inner, min_size=1, max_size=3).map(
                                lambda ts: pa.struct([(f"k\"{i}", t) for i, t in enumerate(ts)]))), max_leaves=6)


def values_of(type):
    if pa.types.is_fixed_size_list(type):
        return st.none() | st.lists(values_of(type.value_type), min_size=2, max_size=2)
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return st.none() | st.lists(values_of(type.value_type), max_size=4)
    if pa.types.is_struct(type):
        return st.none() | st.fixed_dictionaries({field.name: values_of(field.type) for field in type})
    plain = {pa.int32(): st.integers(-2**31, 2**31 - 1), pa.int64(): st.integers(-2**63, 2**63 - 1), pa.string(): TEXT,
             pa.float64(): st.floats(allow_nan=False, allow_infinity=False), pa.bool_(): st.booleans()}[type]
    return st.none() | plain


@CASES
@given(st.data(), NESTED_TYPES)
def test_nested(weir, data, type):
    values = data.draw(st.lists(values_of(type), min_size=1, max_size=20))
    table = pa.table({"n": pa.array(values, type), "k": list(range(len(values)))})
    with tempfile.TemporaryDirectory() as folder:
        with pa.ipc.new_file(f"{folder}/t.arrow", table.schema) as sink:
            sink.write_table(table)
        lines = weir("read", f"{folder}/t.arrow", "then", "write", "-", "--format", "jsonl").stdout.decode().split("\n")[:-1]
        text = weir("read", f"{folder}/t.arrow", "then", "write", "-", "--format", "csv").stdout.decode()
    assert [json.loads(line)["n"] for line in lines] == values
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))[1:]
    if pa.types.is_nested(type):
        assert [json.loads(row[0]) if row[0] else None for row in rows] == values


def clock(units, digits):
    seconds, fraction = divmod(units, 10**digits)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:0{digits}}" if digits else text


def escaped(data):
    return "".join(chr(b) if 0x20 <= b < 0x7f and b != 0x5c else f"\\x{b:02X}" for b in data)


def model(scalar):
    """What json.loads should give for a value."""
    type = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_dictionary(type):
        return model(scalar.value)
    if pa.types.is_struct(type):
        return {field.name: model(scalar[i]) for i, field in enumerate(type)}
    if pa.types.is_map(type):
        return [{type.key_field.name: model(entry[0]), type.item_field.name: model(entry[1])} for entry in scalar.values]
    if pa.types.is_nested(type):
        return [model(item) for item in scalar.values]
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[type.unit] if hasattr(type, "unit") and pa.types.is_temporal(type) else 0
    if pa.types.is_date(type):
        days = scalar.cast(pa.date32()).cast(pa.int32()).as_py()
        return (datetime.date(1970, 1, 1) + datetime.timedelta(days=days)).isoformat()
    if pa.types.is_time(type):
        return clock(scalar.cast(pa.int32() if type.bit_width == 32 else pa.int64()).as_py(), digits)
    if pa.types.is_timestamp(type):
        days, rest = divmod(scalar.cast(pa.int64()).as_py(), 86400 * 10**digits)
        day = datetime.date(1970, 1, 1) + datetime.timedelta(days=days)
        return f"{day.isoformat()} {clock(rest, digits)}" + ("Z" if type.tz else "")
    if pa.types.is_duration(type):
        return scalar.cast(pa.int64()).as_py()
    if pa.types.is_floating(type):
        value = scalar.as_py()
        return float(value) if math.isfinite(value) else None
    if pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_fixed_size_binary(type):
        return escaped(scalar.as_py())
    return scalar.as_py()


def same_json(found, expected, type):
    if pa.types.is_dictionary(type):
        return same_json(found, expected, type.value_type)
    if found is None or expected is None:
        return found is expected
    if pa.types.is_struct(type):
        return list(found) == [field.name for field in type] and all(
            same_json(found[field.name], expected[field.name], field.type) for field in type)
    if pa.types.is_map(type):
        key, item = type.key_field.name, type.item_field.name
        return len(found) == len(expected) and all(
            same_json(a[key], b[key], type.key_type) and same_json(a[item], b[item], type.item_type)
            for a, b in zip(found, expected))
    if pa.types.is_nested(type):
        return len(found) == len(expected) and all(same_json(a, b, type.value_type) for a, b in zip(found, expected))
    if pa.types.is_floating(type):
        kind = {16: np.float16, 32: np.float32, 64: np.float64}[type.bit_width]
        return kind(float(found)) == kind(expected)
    return found == expected


@pytest.mark.parametrize("types", [random_tables.LEAVES, random_tables.NESTED, random_tables.DICTIONARIES + random_tables.INSIDE])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_type(weir, tmp_path, types, seed):
    table = random_tables.table(np.random.default_rng(seed), types, 300)
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as sink:
        sink.write_table(table)
    lines = weir("read", tmp_path / "t.arrow", "then", "write", "-", "--format", "jsonl").stdout.decode().split("\n")[:-1]
    rows = [json.loads(line, parse_float=decimal.Decimal, parse_constant=fail) for line in lines]
    assert len(rows) == table.num_rows
    text = weir("read", tmp_path / "t.arrow", "then", "write", "-", "--null", "none at all").stdout.decode()
    cells = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    assert len(cells) == table.num_rows
    for name, type in zip(table.column_names, table.schema.types):
        for row, cell, scalar in zip(rows, cells, table[name]):
            expected = model(scalar)
            assert same_json(row[name], expected, type), (type, row[name], expected)
            if not scalar.is_valid:
                assert cell[name] == "none at all"
            elif pa.types.is_nested(type):
                found = json.loads(cell[name], parse_float=decimal.Decimal)
                assert same_json(found, expected, type), (type, cell[name], expected)
            elif isinstance(expected, str):
                assert cell[name] == expected


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Enough rows for several splits, buffers and members."""
    folder = tmp_path_factory.mktemp("many")
    for i in range(4):
        count = 20_000
        pq.write_table(pa.table({
            "id": pa.array(range(i * count, (i + 1) * count)), "x": [k / 7 for k in range(count)],
            "word": ["w%d, \"q\"" % (k % 50) if k % 3 else None for k in range(count)],
            "long": [f"{i}-{k}" + "é" * (k % 400) for k in range(count)]}), folder / f"{i}.parquet", row_group_size=9_000)
    return folder


def decompress(name, data):
    if name.endswith(".gz"):
        return gzip.decompress(data)
    if name.endswith(".zst"):
        return pa.input_stream(io.BytesIO(data), compression="zstd").read()
    if name.endswith(".lz4"):
        return pa.input_stream(io.BytesIO(data), compression="lz4").read()
    return data


@pytest.mark.parametrize("format, end", [("csv", ""), ("csv", ".gz"), ("jsonl", ""), ("jsonl", ".zst"), ("json", ""), ("json", ".lz4")])
def test_one_file_and_folders(weir, many, tmp_path, format, end):
    expected = pq.read_table(many)
    name = f"t.{format}{end}"
    weir("read", many, "then", "write", tmp_path / name, "--threads", 3)
    text = decompress(name, (tmp_path / name).read_bytes()).decode()
    check_many(format, text, expected)
    codec = {"": "none", ".gz": "gzip", ".zst": "zstd", ".lz4": "lz4"}[end]
    weir("read", many, "then", "write", tmp_path / "out", "--format", format, "--compression", codec)
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) > 1 and all(file.name.endswith(f".{format}{end}") for file in files)
    rows = []
    for file in files:
        text = decompress(name, file.read_bytes()).decode()
        rows += [row["id"] for row in json.loads(text)] if format == "json" else \
            [json.loads(line)["id"] for line in text.split("\n")[:-1]] if format == "jsonl" else \
            [int(row["id"]) for row in csv.DictReader(io.StringIO(text, newline=""))]
    assert rows == expected["id"].to_pylist()


def check_many(format, text, expected):
    if format == "csv":
        rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
        assert [int(row["id"]) for row in rows] == expected["id"].to_pylist()
        assert [float(row["x"]) for row in rows] == expected["x"].to_pylist()
        assert [row["word"] or None for row in rows] == expected["word"].to_pylist()
        assert [row["long"] for row in rows] == expected["long"].to_pylist()
        return
    rows = json.loads(text) if format == "json" else [json.loads(line) for line in text.split("\n")[:-1]]
    assert rows == expected.to_pylist()


@pytest.mark.parametrize("end", [".gz", ".zst"])
def test_others_read_compressed_files(weir, many, tmp_path, end):
    weir("read", many, "then", "drop", "long", "then", "write", tmp_path / f"t.csv{end}")
    path = tmp_path / f"t.csv{end}"
    assert duckdb.sql(f"select count(*), sum(id) from read_csv('{path}')").fetchall() == [(80_000, sum(range(80_000)))]
    assert polars.read_csv(path)["id"].sum() == sum(range(80_000))
    assert pa.csv.read_csv(path)["id"].to_pylist() == list(range(80_000))


def test_array_without_rows(weir, many):
    assert json.loads(weir("read", many, "then", "filter", "id < 0", "then", "write", "-", "--format", "json").stdout) == []


def test_array_where_splits_are_empty(weir, many):
    """The comma stands between parts that have rows, wherever those are."""
    for where in ("id == 40000", "id > 70000", "id in [5, 30000, 79999]", "id % 20000 == 1"):
        rows = json.loads(weir("read", many, "then", "filter", where, "then", "write", "-", "--format", "json",
                               "--threads", 4).stdout)
        table = duckdb.sql(f"select id from '{many}/*.parquet' where {where.replace('==', '=').replace('[', '(').replace(']', ')')} "
                           "order by id").fetchall()
        assert [(row["id"],) for row in rows] == table


def test_quoting_styles(weir, tmp_path):
    pq.write_table(pa.table({"i": [1, None], "d": [0.5, None], "b": [True, None], "s": ["x", None], "t": ['a"b', ""],
                             "day": [datetime.date(2024, 2, 29), None], "l": [[1], None]}), tmp_path / "t.parquet")
    expected = {
        "minimal": b'i,d,b,s,t,day,l\n1,0.5,true,x,"a""b",2024-02-29,[1]\n,,,,"",,\n',
        "all": b'"i","d","b","s","t","day","l"\n"1","0.5","true","x","a""b","2024-02-29","[1]"\n,,,,"",,\n',
        "strings": b'"i","d","b","s","t","day","l"\n1,0.5,true,"x","a""b",2024-02-29,"[1]"\n,,,,"",,\n',
        "nonnumeric": b'"i","d","b","s","t","day","l"\n1,0.5,"true","x","a""b","2024-02-29","[1]"\n,,,,"",,\n',
    }
    for quoting, text in expected.items():
        assert weir("read", tmp_path / "t.parquet", "then", "write", "-", "--quoting", quoting).stdout == text
    assert weir("read", tmp_path / "t.parquet", "then", "select", "s,t", "then", "write", "-", "--escape", "\\", "--quote", "'",
                "--delimiter", "\"").stdout == b"s\"t\nx\"'a\"b'\n\"''\n"


def test_quoting_none(weir, tmp_path):
    pq.write_table(pa.table({"a": ["x", "", None], "b": [1, 2, 3]}), tmp_path / "t.parquet")
    assert weir("read", tmp_path / "t.parquet", "then", "write", "-", "--quoting", "none").stdout == b"a,b\nx,1\n,2\n,3\n"
    for bad in ("a,b", 'q"', "two\nlines", "c\r"):
        pq.write_table(pa.table({"k": [1, 2], "a": ["x", bad]}), tmp_path / "t.parquet")
        error = weir("read", tmp_path / "t.parquet", "then", "write", tmp_path / "o.csv", "--quoting", "none", code=1).stderr.decode()
        assert "--quoting none" in error and "column a" in error and "row 1" in error, error
    assert not (tmp_path / "o.csv").exists()
    assert weir("read", tmp_path / "t.parquet", "then", "write", "-", "--quoting", "none", "--delimiter", "tab", code=1)


def tensors_as_lists(dtype, shape, values):
    """Ray Data's older tensors: lists, whose lengths need not be those of the shape."""
    about = {"ARROW:extension:name": "ray.data.arrow_tensor", "ARROW:extension:metadata": str(list(shape))}
    return pa.field("old", pa.list_(dtype), metadata=about), pa.array(values, pa.list_(dtype))


def test_tensors_are_lists_within_lists(weir, tmp_path):
    cubes = np.arange(5 * 2 * 3 * 2).reshape(5, 2, 3, 2)
    field, lists = tensors_as_lists(pa.int64(), (2, 2), [[1, 2, 3, 4], None, [5, 6, 7], [], [8, 9, None, 0]])
    columns = [pa.FixedShapeTensorArray.from_numpy_ndarray(cubes), lists, pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(10.0).reshape(5, 2)), pa.array(range(5))]
    schema = pa.schema([pa.field("cube", columns[0].type), field, pa.field("line", columns[2].type), pa.field("k", pa.int64())])
    table = pa.table(columns, schema=schema)
    with pa.ipc.new_file(tmp_path / "t.arrow", schema) as sink:
        sink.write_table(table)
    rows = [{"cube": cubes[i].tolist(), "old": [[[1, 2], [3, 4]], None, [5, 6, 7], [], [[8, 9], [None, 0]]][i], "line": [2.0 * i, 2.0 * i + 1],
             "k": i} for i in range(5)]
    chosen = weir("read", tmp_path / "t.arrow", "then", "filter", "k >= 2", "then", "write", "-", "--format", "jsonl").stdout.decode()
    assert [json.loads(line) for line in chosen.splitlines()] == rows[2:]
    found = list(csv.reader(io.StringIO(weir("read", tmp_path / "t.arrow", "then", "write", "-", "--format", "csv").stdout.decode(), newline=""), strict=True))
    assert [[json.loads(cell) if cell else None for cell in row] for row in found[1:]] == [list(row.values()) for row in rows]


def test_one_column_keeps_its_rows(weir, tmp_path):
    pq.write_table(pa.table({"a": ["x", None, ""]}), tmp_path / "t.parquet")
    assert weir("read", tmp_path / "t.parquet").stdout == b'a\nx\n""\n""\n'
    assert weir("read", tmp_path / "t.parquet", "then", "write", "-", "--null", "NA").stdout == b'a\nx\nNA\n""\n'
    assert weir("read", tmp_path / "t.parquet", "then", "write", "-", "--no-header").stdout == b'x\n""\n""\n'


def test_times_and_delimiters(weir, tmp_path):
    at = datetime.datetime(2024, 2, 29, 1, 2, 3)
    pq.write_table(pa.table({"t": pa.array([at], pa.timestamp("ms")), "d": [at.date()]}), tmp_path / "t.parquet")
    assert weir("read", tmp_path / "t.parquet", "then", "write", "-", "--delimiter", " ").stdout == \
        b't d\n"2024-02-29 01:02:03.000" "2024-02-29"\n'


@pytest.mark.parametrize("options, message", [
    (["--delimiter", "ab"], "one byte"), (["--delimiter", "1"], "part of numbers"), (["--quote", ","], "the quote"),
    (["--quoting", "some"], "minimal, all, nonnumeric, strings or none"), (["--null", "a,b"], "spelling of null"),
    (["--null", "x" * 65], "64 bytes"), (["--line-terminator", "cr"], "lf or crlf"), (["--escape", ","], "the escape"),
    (["--non-finite", "nan"], "--non-finite is for JSON"), (["--compression", "snappy"], "gzip, zstd, lz4"),
    (["--format", "jsonl", "--delimiter", ";"], "--delimiter is for CSV"),
    (["--format", "json", "--non-finite", "zero"], "null or nan"), (["--format", "parquet", "--null", "x"], "--null is for CSV")])
def test_options_that_make_no_sense(weir, options, message):
    done = subprocess.run([weir.__closure__[0].cell_contents, "range", "3", "then", "write", "-", *options], capture_output=True)
    assert done.returncode in (1, 2) and message in done.stderr.decode(), done.stderr.decode()


def test_names_that_cannot_be_written(weir, tmp_path):
    for name in ("t.csv.bz2", "t.parquet.gz", "t.jsonl.xz"):
        error = weir("range", 3, "then", "write", tmp_path / name, code=2).stderr.decode()
        assert name in error, error
    assert list(tmp_path.iterdir()) == []


def test_values_larger_than_any_buffer(weir, tmp_path):
    big = ["x" * 3_000_000 + '"', "é" * 1_000_000, "\x01" * 500_000]
    pq.write_table(pa.table({"a": big, "b": pa.array([b"\xff" * 100_000] * 3), "c": [[text] for text in big]}), tmp_path / "t.parquet")
    lines = weir("read", tmp_path / "t.parquet", "then", "write", "-", "--format", "jsonl").stdout.decode().split("\n")[:-1]
    rows = [json.loads(line) for line in lines]
    assert [row["a"] for row in rows] == big and [row["c"] for row in rows] == [[text] for text in big]
    assert rows[0]["b"] == "\\xFF" * 100_000
    csv.field_size_limit(2**30)
    text = weir("read", tmp_path / "t.parquet").stdout.decode()
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))[1:]
    assert [row[0] for row in rows] == big and [json.loads(row[2]) for row in rows] == [[text] for text in big]


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_every_cpu_level(weir, many, format):
    first, *others = [weir("read", many, "then", "write", "-", "--format", format, env={"WEIR_CPU": level}).stdout
                      for level in ("v2", "v3", "v4")]
    assert first and all(other == first for other in others)
