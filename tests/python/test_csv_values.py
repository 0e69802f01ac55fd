"""CSV values, types and quoting against pyarrow.csv, Python's csv and DuckDB."""
import csv
import ctypes
import datetime
import io
import math
import random

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from csv_probe import ReadError, Reader
from how_many import examples
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

QUICK = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def read(weir_build):
    return Reader(ctypes.CDLL(str(weir_build / "libweir_probe.so")))


def same(ours, theirs):
    """Equal types and values, NaN equal to itself."""
    assert ours.schema.names == theirs.schema.names
    for name, mine, other in zip(ours.schema.names, ours.schema.types, theirs.schema.types):
        assert mine == other, (name, mine, other)
    assert ours.num_rows == theirs.num_rows
    for name in ours.schema.names:
        mine, other = ours[name].combine_chunks(), theirs[name].combine_chunks()
        if pa.types.is_floating(mine.type):
            pairs = zip(mine.to_pylist(), other.to_pylist())
            assert all(a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b))
                       for a, b in pairs), name
        else:
            assert mine.equals(other), (name, mine.to_pylist(), other.to_pylist())


def by_pyarrow(data, **convert):
    return pacsv.read_csv(io.BytesIO(data), parse_options=pacsv.ParseOptions(newlines_in_values=True),
                          convert_options=pacsv.ConvertOptions(**convert))


# ---- inference and values ----

VALUES = ["1", " 1 ", "+1", "-1", "007", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1_0",
          "0x10", "0XfF", "-0x10", "0x", "0xFFFFFFFFFFFFFFFF", "0x1FFFFFFFFFFFFFFFFF", "1.5", " 1.5 ", "+1.5", ".5", "5.",
          ".", "-", "+", "1e5", "1E5", "1e", "1e+5", "1e-5", "inf", "-inf", "+inf", "INF", "Infinity", "NAN", "1d5",
          "1e400", "1e-400", "123456789012345678901234567890", "0.1", "0.30000000000000004", "1.7976931348623157e308",
          "123456.789", "12345678.12345678", "99999999.99999999", "9007199254740993", "-0", "-0.0", "--1", "1 2", "\t1",
          "true", "True", "TRUE", "tRue", "false", "False", "FALSE", " true ", "0", "T", "yes",
          "2020-01-01", " 2020-01-01", "2020-01-01 ", "2020-1-1", "2020-13-01", "2020-02-29", "2021-02-29", "2020-02-30",
          "20200101", "2020/01/01", "0001-01-01", "-0001-01-01", "10000-01-01", "9999-12-31", "1900-02-29", "2000-02-29",
          "12:34", "12:34:56", "1:02:03", "24:00:00", "12:34:56.789", "12:34:56.000", "12:34:60", " 12:00:00", "23:59:59", "99:99",
          "2020-01-01 00:00:00", "2020-01-01T00:00:00", "2020-01-01 00:00", "2020-01-01 00", "2020-01-01T00:00:00Z",
          "2020-01-01 00:00:00Z", "2020-01-01T00:00:00+01:00", "2020-01-01T00:00:00+0100", "2020-01-01T00:00:00-01",
          "2020-01-01T00:00Z", "2020-01-01Z", "2020-01-01 00:00:00.5", "2020-01-01 00:00:00.000", "2020-01-01T00:00:00.000Z",
          "2020-01-01 23:59:59.123456789",
          "2020-01-01 00:00:00.1234567891", "2020-01-01 00:00:00.", "2020-01-01T00:00:00.5Z", "1677-01-01 00:00:00.1",
          "1677-01-01 00:00:00", "2262-04-12 00:00:00.1", "2020-01-01 000000", "20200101 00:00:00", "2020-01-01  00:00:00",
          "2020-01-01 24:00:00", "2020-01-01 23:59:60", "2020-02-29 12:00:00", "2021-02-29 12:00:00", " 2020-01-01 00:00:00",
          "", "NA", "null", "NULL", "NaN", "nan", "-nan", "N/A", "#N/A", "n/a", "None", "<NA>", " ", " NA", "NA ", "abc",
          "1.#QNAN", "ä", "1\xa0"]


def column(values, quoted):
    return "x,y\n" + "".join(f'"{v}",1\n' if q else f"{v},1\n" for v, q in zip(values, quoted))


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("quoted", [False, True])
def test_one_value(read, tmp_path, value, quoted):
    data = column([value], [quoted]).encode()
    (tmp_path / "a.csv").write_bytes(data)
    same(read(tmp_path / "a.csv"), by_pyarrow(data))


@QUICK
@given(st.lists(st.tuples(st.sampled_from(VALUES), st.booleans()), min_size=1, max_size=6))
def test_values_together(read, tmp_path, pairs):
    data = column(*zip(*pairs)).encode()
    note(data)
    (tmp_path / "a.csv").write_bytes(data)
    same(read(tmp_path / "a.csv"), by_pyarrow(data))


SIMILAR = [st.integers(-10**20, 10**20).map(str), st.floats().map(repr), st.integers(0, 1).map(str), st.booleans().map(str),
           st.dates().map(str), st.times(timezones=st.none()).map(lambda t: t.strftime("%H:%M:%S")),
           st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)).map(str),
           st.decimals(-10**9, 10**9, places=2).map(str), st.just("")]


@QUICK
@given(st.data())
def test_random_columns(read, tmp_path, data):
    """Columns of one or two kinds of values, as files have them."""
    kinds = data.draw(st.lists(st.lists(st.sampled_from(SIMILAR), min_size=1, max_size=2), min_size=1, max_size=4))
    rows = data.draw(st.lists(st.tuples(*[st.one_of(*some) for some in kinds]), min_size=1, max_size=30))
    text = ",".join("abcd"[:len(kinds)]) + "\n" + "".join(",".join(row) + "\n" for row in rows if any(row))
    note(text)
    (tmp_path / "a.csv").write_text(text)
    same(read(tmp_path / "a.csv"), by_pyarrow(text.encode()))


TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float", "double", "bool",
         "decimal128(5, 2)", "decimal128(38, 10)", "decimal256(40, 3)", "date32[day]", "date64[ms]", "time32[s]",
         "time32[ms]", "time64[us]", "time64[ns]", "timestamp[s]", "timestamp[ms]", "timestamp[us]", "timestamp[ns]",
         "timestamp[ms, tz=Europe/Paris]", "timestamp[ns, tz=UTC]", "string", "large_string", "binary", "large_binary",
         "fixed_size_binary[4]", "null"]
PYARROW = {"decimal128(5, 2)": pa.decimal128(5, 2), "decimal128(38, 10)": pa.decimal128(38, 10),
           "decimal256(40, 3)": pa.decimal256(40, 3), "date32[day]": pa.date32(), "date64[ms]": pa.date64(),
           "timestamp[ms, tz=Europe/Paris]": pa.timestamp("ms", "Europe/Paris"),
           "timestamp[ns, tz=UTC]": pa.timestamp("ns", "UTC"), "fixed_size_binary[4]": pa.binary(4)}

READ_AS = {"decimal256(40, 3)": pa.decimal128(38, 3)}  # pyarrow reads no decimal256


def pyarrow_type(name):
    if name in PYARROW:
        return PYARROW[name]
    if "[" in name:
        return getattr(pa, name.split("[")[0])(name.split("[")[1][:-1])
    return {"float": pa.float32(), "double": pa.float64()}.get(name) or pa.type_for_alias(name)


@pytest.mark.parametrize("name", TYPES)
def test_given_types(read, tmp_path, name):
    """Each value as each type: read as pyarrow reads it, or refused as it refuses it."""
    path = tmp_path / "a.csv"
    for value in [*VALUES, "abcd", "255", "256", "128", "-128", "65535", "4294967296", "1.55", "1.555", "12345.67", "1234.5"]:
        data = column([value], [False]).encode()
        path.write_bytes(data)
        try:
            theirs = by_pyarrow(data, column_types={"x": READ_AS.get(name) or pyarrow_type(name)})
            theirs["x"].validate(full=True)  # pyarrow lets 65535 pass as decimal128(5, 2)
            theirs = theirs.set_column(0, "x", theirs["x"].cast(pyarrow_type(name)))
        except (pa.ArrowException, ValueError):
            theirs = None
        try:
            ours = read(path, types=f"x={name}")
        except ReadError as error:
            assert "column x, line 2" in str(error), (value, error)
            ours = None
        assert (ours is None) == (theirs is None), (name, value, ours and ours["x"], theirs and theirs["x"])
        if ours:
            same(ours, theirs)


@pytest.mark.parametrize("name", ["duration[s]", "list<int64>", "struct<a: int64>", "halffloat", "month_interval"])
def test_types_that_no_text_becomes(read, tmp_path, name):
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(ReadError, match="x"):
        read(tmp_path / "a.csv", types=f"x={name}")


def test_dictionary_type(read, tmp_path):
    (tmp_path / "a.csv").write_text("x\na\nb\na\n")
    table = read(tmp_path / "a.csv", types="x=dictionary<values=string, indices=int32, ordered=0>")
    assert pa.types.is_dictionary(table.schema.types[0])
    assert table["x"].to_pylist() == ["a", "b", "a"]


def test_numbers_by_the_million(read, tmp_path):
    """The quick readings give what Python's float() and int() give."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    rows = []
    for _ in range(100_000):
        digits = rng.randint(1, 17)
        number = str(rng.randrange(10**digits))
        if rng.random() < 0.3:
            number = number.zfill(rng.randint(1, 16))
        point = rng.randint(0, len(number))
        real = number[:point] + "." + number[point:] if rng.random() < 0.7 else number
        sign = rng.choice(["", "", "-"])
        rows.append((sign + number, sign + real, repr(rng.uniform(-1e6, 1e6))))
    path = tmp_path / "a.csv"
    path.write_text("i,r,u\n" + "".join(",".join(row) + "\n" for row in rows))
    table = read(path, types="i=int64,r=double,u=double")
    assert table["i"].to_pylist() == [int(row[0]) for row in rows]
    assert table["r"].to_pylist() == [float(row[1]) for row in rows]
    assert table["u"].to_pylist() == [float(row[2]) for row in rows]


def test_days_and_seconds(read, tmp_path):
    day, rows = datetime.date(1, 1, 1), []
    while day.year < 9990:
        rows.append(day)
        day += datetime.timedelta(days=17)
    path = tmp_path / "a.csv"
    path.write_text("d,t\n" + "".join(f"{d},{d} {i % 24:02}:{i % 60:02}:{i * 7 % 60:02}\n" for i, d in enumerate(rows)))
    table = read(path)
    assert table.schema.types == [pa.date32(), pa.timestamp("s")]
    assert table["d"].to_pylist() == rows
    assert table["t"].to_pylist() == [datetime.datetime(d.year, d.month, d.day, i % 24, i % 60, i * 7 % 60)
                                      for i, d in enumerate(rows)]


# ---- quoting ----

CELLS = st.text(st.sampled_from('ab",;\n\r\t 1\\\'é€'), max_size=6)


@QUICK
@given(st.data())
def test_quoting_as_python_writes_it(read, tmp_path, data):
    width = data.draw(st.integers(1, 4))
    rows = data.draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=12))
    delimiter = data.draw(st.sampled_from(",;\t|"))
    quoting = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    if end != "\r\n":
        quoting = csv.QUOTE_ALL  # else Python leaves the other line end without quotes
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerow("abcd"[:width])
    writer.writerows(rows)
    (tmp_path / "a.csv").write_bytes(text.getvalue().encode())
    table = read(tmp_path / "a.csv", delimiter="tab" if delimiter == "\t" else delimiter, infer="none")
    got = [list(row.values()) for row in table.to_pylist()]
    assert got == rows


@QUICK
@given(st.data())
def test_escapes_as_python_writes_them(read, tmp_path, data):
    width = data.draw(st.integers(2, 4))
    rows = data.draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=12))
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, doublequote=False, escapechar="\\", lineterminator="\n")
    writer.writerow("abcd"[:width])
    writer.writerows(rows)
    (tmp_path / "a.csv").write_bytes(text.getvalue().encode())
    table = read(tmp_path / "a.csv", escape="\\", no_doubled_quotes=None, infer="none")
    assert [list(row.values()) for row in table.to_pylist()] == rows


@QUICK
@given(st.lists(st.sampled_from(b'ab"",\n\r12'), max_size=150))
def test_any_bytes_as_pyarrow(read, tmp_path, body):
    """Quotes anywhere: rows that pyarrow reads are the same here, but that a quote must be closed."""
    data = b"a,b\n" + bytes(body) + b"\n"
    note(data)
    try:
        theirs = by_pyarrow(data, column_types={"a": pa.string(), "b": pa.string()})
    except (pa.ArrowException, ValueError):
        return
    (tmp_path / "a.csv").write_bytes(data)
    try:
        ours = read(tmp_path / "a.csv", infer="none")
    except ReadError as error:
        assert "not closed" in str(error)
        return
    same(ours, theirs)


def test_duckdb_agrees(read, tmp_path):
    path = tmp_path / "a.csv"
    con = duckdb.connect()
    con.execute(f"""COPY (SELECT i, i * 1.25 AS d, date '2000-01-01' + i::INT AS day,
                          CASE WHEN i % 7 = 0 THEN NULL ELSE 'it''s "' || i || ',
' END AS s, i % 3 = 0 AS b FROM range(20000) t(i)) TO '{path}' (HEADER)""")
    table = read(path, strings_null="unquoted")
    theirs = con.execute(f"SELECT i, d::DOUBLE AS d, day, s, b FROM read_csv('{path}')").to_arrow_table()
    assert table.to_pylist() == theirs.to_pylist()


# ---- nulls ----

def test_null_options(read, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('i,s\n1,a\nNA,NA\n,\n"",""\n-1,"NA"\n999,x\n')
    assert read(path)["i"].to_pylist() == [1, None, None, None, -1, 999]
    assert read(path)["s"].to_pylist() == ["a", "NA", "", "", "NA", "x"]
    assert read(path, strings_null="always")["s"].to_pylist() == ["a", None, None, None, None, "x"]
    assert read(path, strings_null="unquoted")["s"].to_pylist() == ["a", None, None, "", "NA", "x"]
    assert read(path, no_quoted_null=None).schema.types[0] == pa.string()
    assert read(path, null=["999,NA", ",-1"])["i"].to_pylist() == [1, None, None, None, None, None]
    with pytest.raises(ReadError, match="'NA' is no int64"):
        read(path, null="", types="i=int64")


# ---- selections and columns ----

def test_selected_rows_and_columns(read, tmp_path):
    path = tmp_path / "a.csv"
    lines = [f'{i},{i / 4},"t{i}",2020-01-{i % 28 + 1:02},{i % 2 == 0},"{"x" * (i % 40)}"' for i in range(9000)]
    path.write_text("i,d,s,day,b,long\n" + "\n".join(lines) + "\n")
    whole = read(path).to_pylist()
    for every, phase in ((2, 1), (100, 7), (4000, 3)):
        assert read(path, every=every, phase=phase).to_pylist() == whole[phase::every]
    assert read(path, columns=[3, 0]).to_pylist() == [{"day": row["day"], "i": row["i"]} for row in whole]
    assert read(path, columns=[]).num_rows == 9000
    # A value that nobody asks for may be anything.
    path.write_text("i,d\n" + "1,2\n" * 10 + "2,x\n")
    assert read(path, types="i=int64,d=int64", columns=[0])["i"].to_pylist() == [1] * 10 + [2]


# ---- misfits ----

@pytest.mark.parametrize("first,later,wider", [
    ("1", "1.5", "double"), ("1", "x", "string"), ("1", "2020-01-01", "string"), ("true", "maybe", "string"),
    ("2020-01-01", "2020-01-01 10:00:00", "timestamp[s]"), ("2020-01-01", "2020-01-01 10:00:00.5", "timestamp[ns]"),
    ("2020-01-01 10:00:00", "2020-01-01 10:00:00.5", "timestamp[ns]"), ("", "7", "int64"), ("", "x", "string"),
    ("1.5", "x", "string"), ("12:00", "12:00:00.5", "string"), ("x", "\udcff", "binary"),
    ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00.5Z", "timestamp[ns, tz=UTC]"), ("1", "99999999999999999999", "double"),
])
def test_misfits(read, tmp_path, first, later, wider):
    """A value far behind the sample that does not fit: which type would, and what to do about it."""
    path = tmp_path / "a.csv"
    path.write_bytes((f"x,y\n" + f"{first},1\n" * 700_000 + f"{later},1\n" * 1 + f"{first},1\n" * 200_000)
                     .encode("utf-8", "surrogateescape"))
    with pytest.raises(ReadError, match="column x, line 700002.*--types 'x=") as failed:
        read(path)
    assert read.misfit == ("x", wider)
    assert "--infer all" in str(failed.value) or wider == "binary"
    if wider == "string":
        table = read(path, infer="all")
        assert str(table.schema.types[0]) == wider and table["x"][700_000].as_py() == later
