"""Random chains over random files against a plain Python model, with several lanes, limits, and with and without
statistics to prune by. Everything follows from a seed, which stands in the test's name and in every failure.
"""
import datetime
import decimal
import math
import os
import random
import subprocess
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import arrow_strategies
import weir_chain
from weir_chain import quote

D = decimal.Decimal
WORDS = ["", "a", "b", "ab", "Zürich", "zürich", "日本", "ﬂ", "x" * 30, "Ω", "\U0001f600"]
MOMENTS = [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.datetime(1970, 1, 1),
           datetime.datetime(2024, 2, 29, 12, 30), datetime.datetime(2024, 3, 1), datetime.datetime(1900, 1, 1)]
FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25, 1e300]

TYPES = {
    "i": pa.int64(), "k": pa.int32(), "u": pa.uint16(), "f": pa.float64(), "g": pa.float32(), "s": pa.string(),
    "d": pa.decimal128(9, 2), "t": pa.timestamp("us"), "day": pa.date32(), "b": pa.bool_(), "e": pa.string(),
}
KINDS = {"i": "int", "k": "int", "u": "int", "f": "float", "g": "float", "s": "str", "d": "dec", "t": "ts",
         "day": "date", "b": "bool", "e": "str"}


def value(rng, name, at):
    """`at` rises from row to row: sorted columns are what pruning is good at."""
    kind = KINDS[name]
    if kind == "int":
        return at if name == "i" and rng.random() < 0.9 else rng.randrange(0, 60)
    if kind == "float":
        return rng.choice(FLOATS[:7]) if rng.random() < 0.3 else rng.randrange(-400, 400) / 8
    if kind == "str":
        return rng.choice(WORDS) if name == "s" else f"row {at // 7:05d} {rng.choice(WORDS)}"
    if kind == "dec":
        return D(rng.randrange(-3000, 3000)) / 100
    if kind == "ts":
        return rng.choice(MOMENTS) if rng.random() < 0.3 else MOMENTS[1] + datetime.timedelta(minutes=at)
    if kind == "date":
        return datetime.date(2020, 1, 1) + datetime.timedelta(days=at // 10)
    return rng.random() < 0.5


class Data:
    """Files in a folder, once with statistics and a page index and once without, and their rows."""

    def __init__(self, rng, folder, name):
        self.with_stats, self.without = folder / f"{name}-stats", folder / f"{name}-plain"
        self.columns = rng.sample(list(TYPES), rng.randrange(3, len(TYPES) + 1))
        self.hive = rng.random() < 0.3
        self.rows = []
        at = 0
        nulls = rng.choice([0.0, 0.1, 0.5])
        for number in range(rng.choice([1, 1, 2, 5, 20])):
            count = rng.choice([0, 1, 30, 400, 5000]) if number % 5 else rng.choice([1, 400, 6000])
            names = list(self.columns)
            if number and rng.random() < 0.3:
                names.remove(rng.choice(names))
            if number:
                rng.shuffle(names)
            columns = {}
            for column in names:
                columns[column] = [None if rng.random() < nulls else value(rng, column, at + row) for row in range(count)]
            at += count
            part = number // 5
            for row in range(count):
                self.rows.append({c: columns[c][row] if c in columns else None for c in self.columns} |
                                 ({"part": part} if self.hive else {}))
            table = pa.table({c: pa.array(columns[c], TYPES[c]) for c in names})
            options = dict(row_group_size=rng.choice([50, 1000, 1 << 20]), data_page_size=rng.choice([64, 2000, 1 << 20]),
                           data_page_version=rng.choice(["1.0", "2.0"]), use_dictionary=rng.random() < 0.6,
                           compression=rng.choice(["none", "snappy", "zstd"]), write_batch_size=32)
            for base, statistics in ((self.with_stats, True), (self.without, False)):
                inside = base / f"part={part}" if self.hive else base
                inside.mkdir(parents=True, exist_ok=True)
                pq.write_table(table, inside / f"{number:03d}.parquet", write_statistics=statistics,
                               write_page_index=statistics, **options)
        # float32 keeps what it can: the model has the same.
        for row in self.rows:
            if row.get("g") is not None:
                row["g"] = pa.scalar(row["g"], pa.float32()).as_py()
        self.kinds = {c: KINDS[c] for c in self.columns} | ({"part": "int"} if self.hive else {})


def _literal(rng, kind):
    """(text, value)"""
    if kind == "int":
        number = rng.choice([0, 1, 7, 59, 60, -1, 2000, 5999, 100000, rng.randrange(0, 8000)])
        return str(number), number
    if kind == "float":
        number = rng.choice([0.0, -0.0, 1.5, 12.375, -50.0, 1e9, rng.randrange(-400, 400) / 8])
        return repr(number), number
    if kind == "str":
        word = rng.choice([*WORDS, f"row {rng.randrange(0, 900):05d}"])
        return f'"{word}"', word
    if kind == "dec":
        number = D(rng.randrange(-3000, 3000)) / 100
        return f'literal("{number:.2f}", "decimal128(9, 2)")', number
    if kind == "ts":
        moment = rng.choice(MOMENTS) if rng.random() < 0.5 else MOMENTS[1] + datetime.timedelta(minutes=rng.randrange(9000))
        return f'"{moment.isoformat(sep=" ")}"', moment
    if kind == "date":
        day = datetime.date(2020, 1, 1) + datetime.timedelta(days=rng.randrange(-5, 900))
        return f'"{day.isoformat()}"', day
    flag = rng.random() < 0.5
    return str(flag), flag


OPERATORS = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}


def _lift(function):
    return lambda *values: None if any(v is None for v in values) else function(*values)


def predicate(rng, kinds, depth=2):
    """(text, row → True, False or None)"""
    pick = rng.random()
    if depth and pick < 0.45:
        left, f = predicate(rng, kinds, depth - 1)
        if pick < 0.1:
            return f"not ({left})", lambda row: None if f(row) is None else not f(row)
        right, g = predicate(rng, kinds, depth - 1)

        def both(row):
            a, b = f(row), g(row)
            return False if a is False or b is False else None if a is None or b is None else True

        def either(row):
            a, b = f(row), g(row)
            return True if a is True or b is True else None if a is None or b is None else False
        return (f"({left}) and ({right})", both) if pick < 0.3 else (f"({left}) or ({right})", either)
    name = rng.choice(list(kinds))
    kind = kinds[name]
    pick = rng.random()
    if pick < 0.1:
        return (f"{name} is None", lambda row: row[name] is None) if rng.random() < 0.5 else \
            (f"{name} is not None", lambda row: row[name] is not None)
    if pick < 0.2:
        pairs = [_literal(rng, kind) for _ in range(rng.randrange(1, 5))]
        found = [v for _, v in pairs]
        text = f"{name} in ({', '.join(t for t, _ in pairs)},)"
        if rng.random() < 0.3:
            return text.replace(" in ", " not in ", 1), _on(name, lambda v: v not in found)
        return text, _on(name, lambda v: v in found)
    if pick < 0.3 and kind != "bool":
        (low, a), (high, b) = _literal(rng, kind), _literal(rng, kind)
        return f"between({name}, {low}, {high})", _on(name, lambda v: a <= v <= b)
    if pick < 0.4 and kind == "str":
        text, prefix = _literal(rng, kind)
        return f"{name}.startswith({text})", _on(name, lambda v: v.startswith(prefix))
    if pick < 0.5:
        other = rng.choice([n for n in kinds if kinds[n] == kind])
        operator = rng.choice(list(OPERATORS))
        compare = _lift(OPERATORS[operator])
        return f"{name} {operator} {other}", lambda row: compare(row[name], row[other])
    if kind == "bool" and pick < 0.8:
        return name, lambda row: row[name]
    operator = rng.choice(["==", "!="] if kind == "bool" else list(OPERATORS))
    text, literal = _literal(rng, kind)
    compare = OPERATORS[operator]
    return f"{name} {operator} {text}", _on(name, lambda v: compare(v, literal))


def _on(name, function):
    return lambda row: None if row[name] is None else function(row[name])


def computed(rng, kinds):
    """(text, row → value, kind)"""
    name = rng.choice(list(kinds))
    kind = kinds[name]
    if kind == "int" and rng.random() < 0.6:
        return f"coalesce({name}, 3) % 7", lambda row: (3 if row[name] is None else row[name]) % 7, "int"
    if kind == "float" and rng.random() < 0.5:
        return f"{name} * 2.0", _on(name, lambda v: v * 2.0), "float"
    if kind == "str":
        return (f'{name} + "é"', _on(name, lambda v: v + "é"), "str") if rng.random() < 0.5 else \
            (f"length({name})", _on(name, len), "int")
    if kind == "ts":
        return f"year({name})", _on(name, lambda v: v.year), "int"
    if kind == "bool":
        return f"5 if {name} else None", lambda row: 5 if row[name] else None, "int"
    text, f = predicate(rng, kinds, 1)
    return f"{text}", f, "bool"


class Model:
    def __init__(self, data):
        self.kinds, self.rows = dict(data.kinds), [dict(row) for row in data.rows]
        self.columns = list(self.kinds)

    def filter(self, f):
        self.rows = [row for row in self.rows if f(row) is True]

    def project(self, outputs):
        """[(name, row → value, kind)]"""
        self.rows = [{name: f(row) for name, f, _ in outputs} for row in self.rows]
        self.kinds = {name: kind for name, _, kind in outputs}


def passes(name):
    return lambda row: row[name]


def add_step(rng, model, other, fresh):
    """One verb, applied to the model; its words, in which OTHER stands for the other folder."""
    kinds = model.kinds
    verb = rng.choice(["filter", "filter", "filter", "with", "select", "rename", "drop", "limit", "union"])
    if verb == "filter":
        text, f = predicate(rng, kinds)
        model.filter(f)
        return f"filter '{text}'"
    if verb == "with":
        text, f, kind = computed(rng, kinds)
        name = rng.choice([f"n{fresh}", rng.choice(list(kinds))])
        outputs = [(n, passes(n), k) for n, k in kinds.items() if n != name]
        if name in kinds:
            at = list(kinds).index(name)
            outputs.insert(at, (name, f, kind))
        else:
            outputs.append((name, f, kind))
        model.project(outputs)
        return f"with '{name} = {text}'"
    if verb == "select":
        names = rng.sample(list(kinds), rng.randrange(1, len(kinds) + 1))
        outputs, words = [(n, passes(n), kinds[n]) for n in names], list(names)
        if rng.random() < 0.3:
            text, f, kind = computed(rng, kinds)
            outputs.append((f"n{fresh}", f, kind))
            words.append(f"n{fresh} = {text}")
        model.project(outputs)
        return f"select '{', '.join(words)}'"
    if verb == "rename":
        old, new = rng.choice(list(kinds)), f"n{fresh}"
        model.project([(new if n == old else n, passes(n), k) for n, k in kinds.items()])
        return f"rename {old}={new}"
    if verb == "drop":
        if len(kinds) == 1:
            return None
        gone = rng.choice(list(kinds))
        model.project([(n, passes(n), k) for n, k in kinds.items() if n != gone])
        return f"drop {gone}"
    if verb == "limit":
        count = rng.choice([0, 1, 5, 100, 4096, 4097, 10 ** 6])
        model.rows = model.rows[:count]
        return f"limit {count}"
    shared = [n for n in other.columns if n in kinds and n in KINDS and model.untouched.get(n)]
    if not shared:
        return None
    chain = f"read OTHER --no-hive then select {','.join(shared)}"
    rows = [{n: row[n] for n in shared} for row in other.rows]
    if "i" in shared and rng.random() < 0.5:
        chain += " then filter \"i > 100\""
        rows = [row for row in rows if row["i"] is not None and row["i"] > 100]
    if rng.random() < 0.3:
        chain += " then limit 17"
        rows = rows[:17]
    model.rows = model.rows + [{n: row.get(n) for n in kinds} for row in rows]
    return f"union '{chain}'"


def compare(got, model, where):
    __tracebackhide__ = True
    assert got.column_names == list(model.kinds), where
    assert got.num_rows == len(model.rows), f"{where}: {got.num_rows} rows, not {len(model.rows)}"
    for name in model.kinds:
        values = [arrow_strategies.canonical(v) for v in got.column(name).to_pylist()]
        want = [arrow_strategies.canonical(row[name]) for row in model.rows]
        if values != want:
            at = next(i for i, (a, b) in enumerate(zip(values, want)) if a != b)
            pytest.fail(f"{where}: {name} row {at}: {values[at]!r}, not {want[at]!r}")


def run_seed(tmp_path, seed):
    rng = random.Random(seed)
    data, other = Data(rng, tmp_path, "a"), Data(rng, tmp_path, "b")
    for variant in range(3):
        model = Model(data)
        model.untouched = {n: True for n in data.kinds}
        steps = []
        for number in range(rng.randrange(0, 7)):
            before = dict(model.kinds)
            step = add_step(rng, model, other, number)
            if step:
                steps.append(step)
                if step.startswith(("with", "rename", "select")):
                    model.untouched = {n: n in before and model.untouched.get(n, False) and f"{n} =" not in step
                                       for n in model.kinds}
        for folder, second in ((data.with_stats, other.with_stats), (data.without, other.without)):
            chain = " then ".join([f"read {quote(folder)}", *steps]).replace("OTHER", f'"{second}"')
            threads, limit = rng.choice([1, 2, 8]), rng.choice([0, 64 << 20, 256 << 20])
            where = f"seed {seed}.{variant}, {threads} threads, limit {limit}: {chain}"
            try:
                compare(weir_chain.stream(chain, threads=threads, memory_limit=limit), model, where)
                if rng.random() < 0.3:
                    out = tmp_path / f"{variant}-{folder.name}.parquet"
                    weir_chain.run(f"{chain} then write {quote(out)}", threads=threads, memory_limit=limit)
                    compare(pq.read_table(out), model, where)
            except weir_chain.ChainError as failed:
                pytest.fail(f"{where}: {failed}")


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(60))
def test_random_chains(tmp_path, seed):
    run_seed(tmp_path, seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10_000, 10_600))
def test_more_random_chains(tmp_path, seed):
    run_seed(tmp_path, seed)


@pytest.mark.parametrize("seed", range(4))
def test_counts(weir_command, tmp_path, seed):
    rng = random.Random(seed)
    data = Data(rng, tmp_path, "a")
    for _ in range(3):
        model = Model(data)
        text, f = predicate(rng, model.kinds)
        model.filter(f)
        for chain, want in (([], len(data.rows)), (["then", "filter", text], len(model.rows)),
                            (["then", "limit", "10"], min(10, len(data.rows)))):
            for folder in (data.with_stats, data.without):
                done = subprocess.run([weir_command, "read", folder, *chain, "then", "count"], capture_output=True,
                                      text=True, timeout=60)
                assert done.returncode == 0, (seed, text, done.stderr)
                assert str(want) in done.stdout.split(), (seed, text, want, done.stdout)


def files_of(folder, *tables, **options):
    folder.mkdir(parents=True)
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet", **options)
    return f"read {quote(folder)}"


def rows_or_error(chain):
    try:
        return weir_chain.stream(chain).to_pylist()
    except weir_chain.ChainError as failed:
        return str(failed)


def test_later_files_are_matched_by_name(tmp_path):
    wide, narrow = pa.array([1], pa.int64()), pa.array([2], pa.int32())
    chain = files_of(tmp_path / "cast", pa.table({"x": wide}), pa.table({"x": narrow}))
    assert rows_or_error(chain) == [{"x": 1}, {"x": 2}]
    assert rows_or_error(f"{chain} then filter 'x > 1'") == [{"x": 2}]
    chain = files_of(tmp_path / "lossy", pa.table({"x": narrow}), pa.table({"x": wide}))
    assert rows_or_error(chain) == rows_or_error(f"{chain} --unify-schemas") == [{"x": 2}, {"x": 1}]
    chain = files_of(tmp_path / "other", pa.table({"x": wide}), pa.table({"x": ["text"]}))
    failed = rows_or_error(chain)
    assert "other/0.parquet" in failed and "other/1.parquet" in failed and "int64" in failed and "string" in failed
    chain = files_of(tmp_path / "extra", pa.table({"x": [1]}), pa.table({"y": [5], "x": [2]}))
    want = [{"x": 1, "y": None}, {"x": 2, "y": 5}]
    assert rows_or_error(chain) == rows_or_error(f"{chain} --unify-schemas") == want
    assert rows_or_error(f"{chain} then filter 'y is None'") == want[:1]
    assert rows_or_error(f"{chain} then filter 'y > 4' then select y") == [{"y": 5}]
    assert rows_or_error(f"{chain} then select y then limit 2") == [{"y": None}, {"y": 5}]
    assert rows_or_error(f"{chain} --columns y") == [{"y": None}, {"y": 5}]


def test_a_later_file_that_is_broken_is_found_by_whoever_comes_to_it(tmp_path):
    chain = files_of(tmp_path / "broken", pa.table({"x": [1]}), pa.table({"x": [2]}), pa.table({"x": [3], "y": [3]}))
    (tmp_path / "broken/1.parquet").write_bytes(b"PAR1 no")
    assert rows_or_error(f"{chain} then limit 1") == [{"x": 1, "y": None}]
    assert "broken/1.parquet" in rows_or_error(chain)


def test_columns_of_one_file_among_ten_thousand(tmp_path, capfd):
    """Some of so many files are looked at; what none of those has is told, not lost without a word."""
    first, second = tmp_path / "first.bin", tmp_path / "second.bin"
    pq.write_table(pa.table({"x": [1]}), first)
    pq.write_table(pa.table({"x": [2], "y": ["new"]}), second)
    for folder, new in (("some", range(9000, 10000)), ("one", [9001])):
        (tmp_path / folder).mkdir()
        for i in range(10000):
            os.link(second if i in new else first, tmp_path / folder / f"{i:05}.parquet")
    begin = time.process_time()
    assert rows_or_error(f"read {quote(tmp_path / 'some')} then limit 1") == [{"x": 1, "y": None}]
    assert time.process_time() - begin < 0.5
    counted = f"read {quote(tmp_path / 'some')} then aggregate 'n = count(), y = count(y)'"
    assert rows_or_error(counted) == [{"n": 10000, "y": 1000}]
    rows = rows_or_error(f"read {quote(tmp_path / 'one')} --unify-schemas then filter 'y is not None'")
    assert rows == [{"x": 2, "y": "new"}]
    capfd.readouterr()
    assert rows_or_error(f"read {quote(tmp_path / 'one')} then filter 'x == 2'") == [{"x": 2}]
    told = capfd.readouterr().err
    assert "09001.parquet has a column 'y'" in told and "--unify-schemas keeps them" in told


def test_later_files_with_fewer_or_narrower_fields_inside(tmp_path):
    first = pa.table({"k": [0, 1], "x": [{"a": 1, "b": 2}, None]})
    second = pa.table({"k": [2, 3, 4], "x": pa.array([{"a": 3}, None, {"a": None}], pa.struct([("a", pa.int32())]))})
    chain = files_of(tmp_path / "struct", first, second)
    want = [{"k": 0, "x": {"a": 1, "b": 2}}, {"k": 1, "x": None}, {"k": 2, "x": {"a": 3, "b": None}},
            {"k": 3, "x": None}, {"k": 4, "x": {"a": None, "b": None}}]
    assert rows_or_error(chain) == want
    assert rows_or_error(f"{chain} then filter 'k in (1, 2, 4)'") == [want[1], want[2], want[4]]
    assert rows_or_error(f"{chain} then filter 'x.a == 3'") == [want[2]]
    lists = files_of(tmp_path / "list", pa.table({"x": [[1, 2], None]}),
                     pa.table({"x": pa.array([[3], [], None, [None]], pa.list_(pa.int16()))}))
    assert [row["x"] for row in rows_or_error(lists)] == [[1, 2], None, [3], [], None, [None]]


def test_columns_of_one_name(tmp_path):
    table = pa.table([[1, 2], [3, 4], ["a", "b"]], names=["a", "a", "b"])
    chain = files_of(tmp_path / "same", table, table)
    got = weir_chain.stream(chain)
    assert got.column_names == ["a", "a", "b"]
    assert [got.column(i).to_pylist() for i in range(3)] == [[1, 2, 1, 2], [3, 4, 3, 4], ["a", "b", "a", "b"]]


def test_partitions_of_all_sorts(tmp_path):
    for inside in ("y=2024/c=a b", "y=2025/c=__HIVE_DEFAULT_PARTITION__", "y=x/c=%20z"):
        (tmp_path / inside).mkdir(parents=True)
        pq.write_table(pa.table({"v": [1]}), tmp_path / inside / "0.parquet")
    chain = f"read {quote(tmp_path)}"
    want = [{"v": 1, "y": "2024", "c": "a b"}, {"v": 1, "y": "2025", "c": None}, {"v": 1, "y": "x", "c": " z"}]
    assert rows_or_error(chain) == want
    assert rows_or_error(f"{chain} then filter 'c is None'") == want[1:2]
    assert rows_or_error(f"{chain} then filter 'y > \"2024\" and c == \" z\"'") == want[2:]


def test_errors_of_values_name_file_and_row_and_spare_rows_nobody_wants(tmp_path):
    chain = files_of(tmp_path / "zero", pa.table({"a": list(range(10000)), "b": [1] * 9999 + [0]}))
    failed = rows_or_error(f"{chain} then with 'c = a // b'")
    assert "zero/0.parquet" in failed and "row 9999" in failed and "a // b" in failed
    assert len(rows_or_error(f"{chain} then with 'c = a // b' then limit 5")) == 5
    assert len(rows_or_error(f"{chain} then filter 'b != 0' then filter 'a // b > 9990'")) == 8
    assert [r["a"] for r in rows_or_error(f"{chain} then limit 10 then filter 'a > 7'")] == [8, 9]


def test_fields_in_another_order_are_unified(tmp_path):
    chain = files_of(tmp_path / "order", pa.table({"n": [{"a": 1, "l": [1]}]}), pa.table({"n": [{"z": "new", "a": 2}]}))
    want = [{"n": {"a": 1, "l": [1], "z": None}}, {"n": {"a": 2, "l": None, "z": "new"}}]
    assert rows_or_error(f"{chain} --unify-schemas") == want


def test_union_of_nested_columns(tmp_path):
    files_of(tmp_path / "a", pa.table({"k": [1, 2], "n": [{"a": 1, "l": [1]}, None], "m": [["x"], []]}))
    files_of(tmp_path / "b", pa.table({"k": [3], "n": [{"a": 4, "z": "new"}]}))
    chain = f"read {quote(tmp_path / 'a')} then union 'read \"{tmp_path / 'b'}\"'"
    want = [{"k": 1, "n": {"a": 1, "l": [1], "z": None}, "m": ["x"]}, {"k": 2, "n": None, "m": []},
            {"k": 3, "n": {"a": 4, "l": None, "z": "new"}, "m": None}]
    assert rows_or_error(chain) == want
    assert rows_or_error(f"{chain} then filter 'n.a > 1'") == want[2:]
    assert rows_or_error(f"read {quote(tmp_path / 'b')} then union 'read \"{tmp_path / 'a'}\"' then filter 'k == 2'") == [
        {"k": 2, "n": None, "m": []}]
