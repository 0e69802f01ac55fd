"""JSON against Python's json and pyarrow: random nested rows in every layout, every cut, every option."""
import datetime
import json
import math
import random

import pyarrow as pa
import pyarrow.json
import pytest
from how_many import examples
from hypothesis import given, settings, strategies as st
from json_probe import CAST, DATA, MISFIT, JsonError, Probe

probe = Probe()


@pytest.fixture
def read(tmp_path):
    def read(text, **how):
        path = tmp_path / "x.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        table = probe.read(path, **how)
        table.validate(full=True)
        return table

    return read


def fails(read, text, **how):
    with pytest.raises(JsonError) as raised:
        read(text, **how)
    return raised.value


# ---- random rows ----

KEYS = st.one_of(st.sampled_from(["a", "b", "id", "name", "x y", "ключ", 'q"uote', "back\\slash", "long" * 6, "", "é"]),
                 st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40).filter(lambda s: not s[:4].isdigit())
SCALARS = {
    "null": st.none(),
    "bool": st.booleans(),
    "int": st.integers(-(2**63), 2**63 - 1),
    "real": st.floats(allow_nan=False).map(float),
    "text": TEXT,
}


@st.composite
def kinds(draw, depth=3):
    """A description of values: a scalar's name, ["list", kind] or ["struct", {name: kind}]."""
    choice = draw(st.integers(0, 7 if depth else 4))
    if choice <= 4:
        return list(SCALARS)[choice]
    if choice == 5:
        return ["list", draw(kinds(depth - 1))]
    return ["struct", draw(st.dictionaries(KEYS, kinds(depth - 1), max_size=5))]


def draw_value(draw, kind):
    if draw(st.integers(0, 7)) == 0:
        return None
    if isinstance(kind, str):
        return draw(SCALARS[kind])
    if kind[0] == "list":
        return [draw_value(draw, kind[1]) for _ in range(draw(st.integers(0, 4)))]
    return {name: draw_value(draw, inner) for name, inner in kind[1].items() if draw(st.integers(0, 5))}


@st.composite
def tables(draw):
    kind = ["struct", draw(st.dictionaries(KEYS, kinds(), max_size=6))]
    rows = [draw_value(draw, kind) or {} for _ in range(draw(st.integers(0, 12)))]
    return rows


def shape(values):
    """The names of the fields that values have, at every depth: what a missing one is null in."""
    values = [v for v in values if v is not None]
    if any(isinstance(v, dict) for v in values):
        names = dict.fromkeys(name for v in values for name in v)
        return {name: shape([v.get(name) for v in values]) for name in names}
    if any(isinstance(v, list) for v in values):
        return [shape([item for v in values for item in v])]
    return None


def completed(value, like):
    if value is None:
        return None
    if isinstance(like, dict):
        return {name: completed(value.get(name), inner) for name, inner in like.items()}
    if isinstance(like, list):
        return [completed(item, like[0]) for item in value]
    return value


def same(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool) and not isinstance(b, bool):
        return float(a) == float(b) if isinstance(a, float) or isinstance(b, float) else a == b
    return type(a) is type(b) and a == b


def spelled(rows, layout, seed):
    rng = random.Random(seed)
    dump = lambda row, **how: json.dumps(row, ensure_ascii=rng.random() < 0.5, **how)
    if layout == "array":
        return dump(rows, indent=rng.choice([None, 0, 1, 4]))
    if layout == "objects":
        return "".join(dump(row, indent=rng.choice([None, 2])) + rng.choice(["", " ", "\n", "\r\n", "\n\n"]) for row in rows)
    end = rng.choice(["\n", "\r\n", "\n\n", " \n"])
    text = "".join(dump(row, separators=rng.choice([(",", ":"), (", ", ": "), (" ,\t", " : ")])) + end for row in rows)
    return text if rng.random() < 0.5 else text[: len(text) - len(end)]


@settings(max_examples=examples(300), deadline=None)
@given(tables(), st.sampled_from(["lines", "array", "objects"]), st.integers(0, 2**32))
def test_rows_as_pythons_json_reads_them(tmp_path_factory, rows, layout, seed):
    path = tmp_path_factory.getbasetemp() / "random.json"
    path.write_bytes(spelled(rows, layout, seed).encode())
    used = probe.used()
    like = shape(rows) if any(rows) else {}
    table = probe.read(path, layout=layout if layout != "lines" else "auto")
    table.validate(full=True)
    assert same(table.to_pylist(), [completed(row, like) for row in rows]), (rows, table)
    assert probe.read(path, portable=True, layout=layout).equals(table)
    del table
    assert probe.used() == used


@settings(max_examples=examples(150), deadline=None)
@given(tables(), st.integers(0, 2**32))
def test_schemas_as_pyarrow_infers_them(tmp_path_factory, rows, seed):
    path = tmp_path_factory.getbasetemp() / "arrow.json"
    text = spelled(rows, "lines", seed).encode()
    path.write_bytes(text)
    if not any(rows):
        return
    assert probe.read(path).schema == pyarrow.json.read_json(path).schema, text


@settings(max_examples=60, deadline=None)
@given(tables(), st.sampled_from(["lines", "array", "objects"]), st.integers(0, 2**32))
def test_every_cut_gives_the_same_rows(tmp_path_factory, rows, layout, seed):
    path = tmp_path_factory.getbasetemp() / "cut.json"
    text = spelled(rows, layout, seed).encode()
    path.write_bytes(text)
    whole = probe.read(path, layout=layout).to_pylist()
    step = max(1, len(text) // 200)
    for cut in range(1, len(text), step):
        assert same(probe.read(path, layout=layout, cut=cut, backwards=True).to_pylist(), whole), cut
        assert same(probe.read(path, layout=layout, cut=cut).to_pylist(), whole), cut


def test_every_cut_of_text_that_looks_like_records(tmp_path):
    """Objects inside records, and strings that look like records: guesses go wrong, rows do not."""
    rows = [{"id": n, "kids": [{"id": n + 1, "kids": []}, {"id": n + 2, "kids": []}], "s": '},{"id":1,"kids":[],"s":""}'}
            for n in range(6)]
    wrong = 0
    for layout, text in [("array", json.dumps(rows)), ("array", json.dumps(rows, indent=1)),
                         ("objects", " ".join(map(json.dumps, rows))), ("lines", "\n".join(map(json.dumps, rows)))]:
        path = tmp_path / "x.json"
        path.write_text(text)
        like = shape(rows)
        expected = [completed(row, like) for row in rows]
        for cut in range(1, len(text)):
            assert probe.read(path, layout=layout, cut=cut, backwards=True).to_pylist() == expected, (layout, cut)
            wrong += probe.what.wrong_count
    assert wrong > 0


def test_many_ranges(tmp_path):
    rows = [{"n": n, "t": "x" * (n % 50), "l": [n] * (n % 3)} for n in range(20000)]
    for text, ranges in [("\n".join(map(json.dumps, rows)), 2), (json.dumps(rows), 2), (json.dumps(rows, indent=2), 2)]:
        path = tmp_path / "x.json"
        path.write_text(text)
        for backwards in (False, True):
            table = probe.read(path, bytes_target=300_000, backwards=backwards)
            assert probe.what.range_count > ranges and probe.what.wrong_count < probe.what.range_count // 2
            assert table.to_pylist() == rows


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=400).map(lambda b: b.translate(bytes(range(256)))) |
       st.lists(st.sampled_from([b'"', b"\\", b"\\\\", b"{", b"}", b"[", b"]", b":", b",", b" ", b"\n", b"\t", b"1", b"a",
                                 b"\x0c", b"\x1a", b"\xff", b"abcdefgh" * 8]), max_size=200).map(b"".join), st.booleans())
def test_kernels_agree(text, lines):
    assert probe.index_differs(text, lines) == 0


# ---- types ----

@pytest.mark.parametrize("values, type", [
    (["1", "null"], pa.int64()), (["1", "2.5"], pa.float64()), (["true", "false"], pa.bool_()), (["null"], pa.null()),
    (["9223372036854775807", "-9223372036854775808"], pa.int64()), (["9223372036854775808"], pa.float64()),
    (['"2020-01-01"'], pa.timestamp("s")), (['"2020-01-01T10:00:00Z"', '"2020-01-01 10"'], pa.timestamp("s")),
    (['"2020-01-01"', '"x"'], pa.string()), (['"2020-01-01T00:00:00.5"'], pa.string()),
    (['"2020-01-01T00:00:00.000Z"'], pa.string()), (['"2020-01-01"', '"2020-01-01T00:00:00.0"'], pa.string()), (['"10:00"'], pa.string()),
    (["[]"], pa.list_(pa.null())), (["[1, null]", "[]", "null"], pa.list_(pa.int64())), (["[1, 2.5]"], pa.list_(pa.float64())),
    (['{"b": 1}', '{"c": "x"}'], pa.struct([("b", pa.int64()), ("c", pa.string())])), (["1E5"], pa.float64()),
    (["-0"], pa.int64()), (["-0.0"], pa.float64()), (["NaN", "Infinity", "-Infinity"], pa.float64()),
])
def test_types_as_pyarrow_infers_them(read, values, type, tmp_path):
    text = "".join('{"a": %s}\n' % value for value in values)
    table = read(text)
    assert table.schema.field("a").type == type
    (tmp_path / "arrow.json").write_text(text)
    theirs = pyarrow.json.read_json(tmp_path / "arrow.json")
    assert theirs.schema.field("a").type == type
    if "[1, null]" not in values:  # pyarrow 26 puts nulls of lists into the wrong place
        assert str(theirs.column("a").to_pylist()) == str(table.column("a").to_pylist())


@pytest.mark.parametrize("values, expected", [
    (["1", '"x"'], ["1", "x"]), (["true", "1"], ["true", "1"]), (["[1 ,2]", '{"b":1}', "null"], ["[1 ,2]", '{"b":1}', None]),
    (['"x"', " 1.50 "], ["x", "1.50"]),
])
def test_what_no_type_holds_is_kept_as_spelled(read, values, expected):
    table = read("".join('{"a": %s}\n' % value for value in values))
    assert table.schema.field("a").type == pa.string()
    assert table.column("a").to_pylist() == expected


@pytest.mark.parametrize("type, value, expected", [
    ("int8", "-128", -128), ("uint64", "18446744073709551615", 2**64 - 1), ("float", "1.5", 1.5), ("half", "0.5", 0.5),
    ("double", "1", 1.0), ("string", "1.50", "1.50"), ("large_string", '"x"', "x"), ("binary", '"x"', b"x"),
    ("decimal128(10, 2)", "1.5", 1.5), ("decimal128(10, 2)", '"1.5"', 1.5), ("date32[day]", '"2020-02-29"', datetime.date(2020, 2, 29)),
    ("timestamp[ms]", '"2020-01-01T00:00:00.5"', datetime.datetime(2020, 1, 1, 0, 0, 0, 500000)),
    ("list<item: int8>", "[1, 2]", [1, 2]), ("large_list<item: string>", '["x", 1]', ["x", "1"]),
    ("map<string, int64>", '{"k": 1}', [("k", 1)]), ("map<string, int64>", '[{"key": "k", "value": 1}]', [("k", 1)]),
    ("struct<b: int64>", '{"b": 1, "c": 2}', {"b": 1}), ("fixed_size_list<item: int64>[2]", "[1, 2]", [1, 2]),
])
def test_types_given(read, type, value, expected):
    table = read('{"a": %s}\n{"a": null}\n{}\n' % value, types=f"a={type}")
    got = table.column("a").to_pylist()
    assert str(table.schema.field("a").type).replace("halffloat", "half") == type or type.startswith("map")
    assert (float(got[0]) if isinstance(expected, float) else got[0]) == expected and got[1:] == [None, None]


@pytest.mark.parametrize("type, value", [
    ("int8", "128"), ("int64", "1.0"), ("int64", '"1"'), ("bool", "1"), ("double", '"1"'), ("float", "1e300"), ("half", "1e6"),
    ("uint8", "-1"), ("timestamp[s]", '"2020-01-01T00:00:00.5"'), ("timestamp[s]", "1"), ("date32[day]", "18000"),
    ("list<item: int64>", "1"), ("struct<b: int64>", "[]"), ("binary", "1"), ("map<string, int64>", "1"), ("null", "1"),
])
def test_values_that_do_not_fit_a_given_type(read, type, value):
    error = fails(read, '{"a": null}\n{"a": %s}\n' % value, types=f"a={type}")
    assert (error.code, error.line, error.column) == (CAST, 2, "a") and "column 7" in error.message


def test_nested_types_given(read):
    table = read('{"b": {"c": 1, "d": [{"e": 1}]}}\n', types="b.c=string,b.d.[].e=double,new=int8,p.q=date32[day]")
    assert table.schema == pa.schema([
        ("b", pa.struct([("c", pa.string()), ("d", pa.list_(pa.struct([("e", pa.float64())])))])), ("new", pa.int8()),
        ("p", pa.struct([("q", pa.date32())]))])
    assert table.to_pylist() == [{"b": {"c": "1", "d": [{"e": 1.0}]}, "new": None, "p": None}]


# ---- data that disagrees with the sample ----

SAMPLE = "".join('{"a": 1, "s": {"x": 1}}\n' for _ in range(60000))  # the head is 1 MiB


@pytest.mark.parametrize("late, column, type", [
    ('{"a": 2.5}', "a", "double"), ('{"a": "x"}', "a", "string"), ('{"s": {"x": 0.5}}', "s", "struct<x: double>"),
    ('{"s": {"y": []}}', "s", "struct<x: int64, y: list<item: null>>"), ('{"n": true}', "n", "bool"), ('{"s": 3}', "s", "string"),
])
def test_later_values_that_do_not_fit(read, late, column, type):
    error = fails(read, SAMPLE + late + "\n")
    assert (error.code, error.line, error.column) == (MISFIT, 60001, column)
    assert error.misfit == (column, type) and "--infer all" in error.message
    table = read(SAMPLE + late + "\n", infer="all")
    assert str(table.schema.field(column).type) == type and table.num_rows == 60001


def test_new_fields(read):
    text = SAMPLE + '{"a": 1, "n": 5}\n'
    assert fails(read, text).code == MISFIT
    assert read(text, unexpected="ignore").num_rows == 60001
    assert fails(read, text, unexpected="error").code == DATA
    assert read(text, columns=[0]).num_rows == 60001  # who asks for some columns misses none


# ---- broken text ----

@pytest.mark.parametrize("text, line, column", [
    ('{"a":1}\n{"a":1,}\n', 2, 8), ('{"a":[1,]}', 1, 9), ("{'a':1}", 1, 2), ('{"a":01}', 1, 6), ('{"a":+1}', 1, 6),
    ('{"a":1.}', 1, 6), ('{"a":.5}', 1, 6), ('{"a":1e}', 1, 6), ('{"a":tru}', 1, 6), ('{"a":nul}', 1, 6), ('{"a":-}', 1, 6),
    ('{"a":1 2}', 1, 8), ('{"a" 1}', 1, 6), ('{"a":}', 1, 6), ('{"a"}', 1, 5), ("{", 1, 2), ('{"a":1', 1, 7), ('{"a":"x', 1, 8),
    ('{"a":1}}', 1, 8), ("1", 1, 1), ("null", 1, 1), ('"x"', 1, 1), ('{"a":1},\n{"a":2}', 1, 8), ('{"a":1}\n]', 2, 1),
    ('[{"a":1},]', 1, 10), ('[{"a":1} {"a":2}]', 1, 10), ('[{"a":1}] 1', 1, 11), ("[1]", 1, 2), ('[{"a":1}', 1, 9), ("[", 1, 2),
    ("[,]", 1, 2), ('[{"a":1},,{"a":2}]', 1, 10), ('{"a":"\t"}', 1, 7), ('{"a":"\n"}', 1, 7), ('{"a":"\\x"}', 1, 7),
    ('{"a":"\\u12g4"}', 1, 7), ('{"a":"\\ud800"}', 1, 7), ('{"a":"\\ud800\\u0041"}', 1, 7), ('{"a":"\\udc00"}', 1, 7),
    (b'{"a":"\xff"}', 1, 7), (b'{"a":"\xed\xa0\x80"}', 1, 7), ('{"a":1,"a":2}', 1, 8), ('{"a":{"b":1,"b":1}}', 1, 13),
    ('{"a":[1}', 1, 8), ('{"a":{"b":1]}', 1, 12), ('{"a":1 "b":2}', 1, 8), ('{"a":"x" y}', 1, 10), ('{"a":1\x00}', 1, 6),
    ('{"a":\x0c1}', 1, 6), ('[\n {"a":1},\n {"a":}\n]', 3, 7), ('{"a":1e999}', 1, 6), ('{"a":"\\', 1, 8), ('{"a":nan}', 1, 6),
])
def test_broken_text_is_refused_with_its_place(read, text, line, column):
    for portable in (False, True):
        error = fails(read, text, portable=portable)
        assert error.code == DATA and error.line == line and f"column {column}:" in error.message, error
    assert error.source.endswith("x.json")


def test_places_in_later_ranges(read):
    text = "".join('{"a": %d}\n' % n for n in range(1000))
    error = fails(read, text + '{"a": tru}\n', cut=len(text) - 50, types="a=int64", infer="sample")
    assert error.line == 1001 and error.offset == len(text) + 6


def test_fields_that_are_not_asked_for_are_only_passed(read):
    text = '{"a": 1, "b": 1e999, "c": {"x": [01, "\\q"]}}\n'
    good = '{"a": 1, "b": 1, "c": {"x": ["1"]}}\n' * 40000
    table = read(good + text, columns=[0])
    assert table.column("a").to_pylist() == [1] * 40001


# ---- options ----

def test_surrogates(read):
    assert read('{"a":"\\ud83d\\ude00"}').to_pylist() == [{"a": "😀"}]
    assert read('{"a":"x\\ud83dy\\udc00"}', surrogates="replace").to_pylist() == [{"a": "x\ufffdy\ufffd"}]


def test_dates(read):
    text = '{"day":"2024-01-01","Created_At":"2024-01-01","timestamp_ms":"2024-01-01 10:00","n":{"date":"2024-01-01"},"l":["2024-01-01"]}'
    kinds = lambda **options: [str(kind) for kind in read(text, **options).schema.types]
    stamp = "timestamp[s]"
    assert kinds() == [stamp, stamp, stamp, f"struct<date: {stamp}>", f"list<item: {stamp}>"]
    assert kinds(dates="named") == ["string", stamp, stamp, "struct<date: string>", "list<item: string>"]
    assert kinds(dates="text") == ["string", "string", "string", "struct<date: string>", "list<item: string>"]


def test_nonfinite(read):
    assert math.isnan(read('{"a":NaN}').to_pylist()[0]["a"])
    assert fails(read, '{"a":NaN}', non_finite="error").code == DATA


def test_depth(read):
    deep = lambda n: '{"a":%s1%s}' % ("[" * n, "]" * n)
    assert read('{"a": 1}\n' + deep(1000), types="a=string").num_rows == 2
    error = fails(read, '{"a": 1}\n' + deep(1100), types="a=string")
    assert error.code == DATA and "--depth" in error.message
    assert read('{"a": 1}\n' + deep(1100), types="a=string", depth=2000).num_rows == 2
    assert read(deep(50)).num_rows == 1
    assert "--types" in fails(read, deep(200)).message
    million = '{"a":' + "[" * 1_000_000
    assert fails(read, million).code == DATA


def test_layouts(read):
    assert read('{"a":1}\n{"a":2}', layout="objects").num_rows == 2
    assert fails(read, '{"a":1}\n{"a":\n2}', layout="lines").line == 2
    assert fails(read, '{"a":1}', layout="array").code == DATA
    assert read("").num_rows == read("\n \n").num_rows == read("[]").num_rows == read(" [ ] \n").num_rows == 0
    assert read('\ufeff{"a":1}\n').to_pylist() == read('\ufeff[{"a":1}]').to_pylist() == [{"a": 1}]
    assert read('{"a":1} {"a":2}\n{"a":3}').num_rows == 3


def test_encodings(read):
    text = '{"a": "é€😀"}\n'
    assert read(text.encode("utf-16"), encoding="utf16").to_pylist() == [{"a": "é€😀"}]
    assert read('{"a": "é"}'.encode("latin-1"), encoding="latin1").to_pylist() == [{"a": "é"}]


@pytest.mark.parametrize("name, value", [("layout", "x"), ("mixed", "x"), ("depth", "0"), ("infer", "some"), ("types", "a"), ("types", "a=in64"),
                                         ("surrogates", ""), ("non-finite", "yes"), ("unexpected", "?"), ("dates", "no"), ("encoding", "ebcdic")])
def test_options_that_are_wrong(read, name, value):
    assert f"--{name}" in fails(read, "{}", **{name: value}).message or name == "encoding"


def test_selected_rows_only(read):
    rows = [{"i": n, "d": n / 4, "s": "x" * (n % 30), "l": [n, None], "t": {"u": bool(n % 2)}} for n in range(5000)]
    assert read("\n".join(map(json.dumps, rows)), every=7).to_pylist() == rows[::7]


def test_long_records(read):
    rows = [{"a": "x" * 3_000_000, "b": 1}, {"a": "y", "b": 2}, {"a": "é\n" * 700_000, "b": 3}]
    assert read("\n".join(map(json.dumps, rows))).to_pylist() == rows
    assert read(json.dumps(rows)).to_pylist() == rows
