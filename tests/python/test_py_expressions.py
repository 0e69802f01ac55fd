"""Expressions of Python: their trees and texts, and that the engine computes them as pyarrow.compute and Ray Data do."""
import datetime
import decimal
import importlib
import math
import pickle
import re

import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")

from expr_probe import DICTIONARY, OVERFLOW, PENDING, SELECTION, SMALL, VALUE, ZERO_DIVISION, ExprError, Probe  # noqa: E402
from weir._expr_parse import parse_filter  # noqa: E402
from weir._expr_pyarrow import from_pyarrow  # noqa: E402
from weir._expr_python import Projector, Selector, evaluate  # noqa: E402
from weir.expressions import Expr, Operation, col, lit, star, udf, when  # noqa: E402


@pytest.fixture(scope="module")
def probe():
    return Probe()


def values(result):
    return ["nan" if isinstance(v, float) and v != v else v for v in result.to_pylist()]


def close(a, b):
    if isinstance(a, float) and isinstance(b, float) and math.isfinite(a) and math.isfinite(b):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-300)
    return a == b


def same(probe, expr, table, types=True, flags=0, seed=1):
    """The engine and pyarrow give the same values of the same type, or both an error."""
    table = table if isinstance(table, pa.Table) else pa.table(table)
    batch = table.combine_chunks().to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], table.schema)
    try:
        wanted = evaluate(expr, table)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if "not in range: " in str(error) or ("negative integer powers" in str(error) and table["a"].null_count):
            return  # an integer past what a float counts exactly is rounded here; null to any power is null
        with pytest.raises(ExprError):
            print(error, probe.eval(expr._compile(), batch))
        return
    if isinstance(wanted, pa.Scalar):
        wanted = pa.array([wanted.as_py()] * table.num_rows, wanted.type)
    got = probe.eval(expr._compile(), batch, flags, seed)
    a, b = values(got), values(wanted)
    assert all(map(close, a, b)) and len(a) == len(b), (str(expr), a, b)
    if types:
        assert got.type == (wanted.type if not pa.types.is_null(wanted.type) else got.type), (str(expr), got.type, wanted.type)


# ---- trees


def test_trees_print_as_in_ray_data():
    assert repr((col("x") + 5) * col("y")) == (
        "MUL\n    ├── left: ADD\n    │   ├── left: COL('x')\n    │   └── right: LIT(5)\n    └── right: COL('y')")
    assert repr(((col("a") > 1) & (col("b") < 2)) | (col("c") == None)) == (  # noqa: E711
        "OR\n    ├── left: AND\n    │   ├── left: GT\n    │   │   ├── left: COL('a')\n    │   │   └── right: LIT(1)\n"
        "    │   └── right: LT\n    │       ├── left: COL('b')\n    │       └── right: LIT(2)\n    └── right: EQ\n"
        "        ├── left: COL('c')\n        └── right: LIT(None)")
    assert (col("id") > 2).describe() == "col('id') > 2"
    assert (5 + col("a")).describe() == "5 + col('a')"
    assert (~(col("a") > 3)).describe() == "~(col('a') > 3)"
    assert (col("a").is_in(list(range(1, 10)))).describe() == "col('a') in [1, 2, 3, 4, 5, 6..."
    assert (lit("x" * 30)).describe() == "'xxxxxxxxxxxxxxxx..."
    assert (star()).describe() == "col(*)"


def test_trees_print_as_ray_itself_does():
    ray_expressions = pytest.importorskip("ray.data.expressions")
    from ray.data._internal.planner.plan_expression.expression_visitors import _InlineExprReprVisitor

    def build(m):
        c = m.col
        return [(c("x") + 5) * c("y"), ~c("a"), c("a").is_null(), c("a").is_not_null(), c("a").not_in([1]), 5 - c("a"),
                c("a") // 2, c("a") % 2, c("a") / c("b"), (c("a") >= 1) | (c("b") != "x"), c("a").alias("b"), m.lit("x" * 30)]

    import weir.expressions

    for ours, theirs in zip(build(weir.expressions), build(ray_expressions), strict=True):
        assert repr(ours) == repr(theirs)
        assert str(ours) == repr(ours) == str(theirs)
        assert ours.describe() == _InlineExprReprVisitor().visit(theirs)


def test_structure_and_pickle():
    exprs = [col("a"), lit(1), lit(1.0), lit(None), lit(float("nan")), col("a") + 1, col("a") - 1, ~col("a"), col("a").is_null(),
             col("a").alias("b"), col("a").str.upper(), col("a").str.lower(), col("a").str.slice(1), col("a").str.slice(2),
             when(col("a") > 1, 2), when(col("a") > 1, 2).otherwise(3), star(), col("a").is_in([1, 2]), col("a").is_in([1, 3])]
    for i, a in enumerate(exprs):
        assert pickle.loads(pickle.dumps(a)).structurally_equals(a)
        for j, b in enumerate(exprs):
            assert a.structurally_equals(b) == (i == j), (a, b)
    assert (col("a") + 1).name is None and col("a").name == "a" and (col("a") + 1).alias("z").name == "z"
    assert col("a").alias("b").alias("c").name == "c"


def test_what_cannot_be_used_says_so():
    with pytest.raises(TypeError, match="use & for and"):
        bool(col("a") > 1)
    with pytest.raises(TypeError, match="cannot stand in an expression"):
        (col("a") == object())._compile()
    with pytest.raises(OverflowError):
        (col("a") == 1 << 64)._compile()
    with pytest.raises(TypeError, match="list of values"):
        col("a").is_in("abc")._compile()
    with pytest.raises(ValueError):
        star()._compile()
    with pytest.raises(ValueError, match="side must be"):
        col("a").str.pad(3, side="top")
    with pytest.raises(ValueError, match="order must be"):
        col("a").list.sort(order="up")


def test_literals(probe):
    numpy = pytest.importorskip("numpy")
    cases = [
        (1, pa.int64()), (-(1 << 63), pa.int64()), ((1 << 64) - 1, pa.uint64()), (True, pa.bool_()), (1.5, pa.float64()),
        (float("inf"), pa.float64()), (float("nan"), pa.float64()), ("a\n\0\"'\\é😀", pa.string()), (b"\0\xff'", pa.binary()),
        (datetime.date(2024, 2, 29), pa.date32()), (datetime.datetime(2024, 2, 29, 1, 2, 3, 4), pa.timestamp("us")),
        (datetime.datetime(1, 1, 1), pa.timestamp("us")),
        (datetime.datetime(2024, 2, 29, 1, tzinfo=datetime.timezone.utc), pa.timestamp("us", "UTC")),
        (datetime.time(1, 2, 3, 4), pa.time64("us")), (datetime.timedelta(days=-1, microseconds=3), pa.duration("us")),
        (decimal.Decimal("-1.50"), pa.decimal128(3, 2)), (decimal.Decimal("1E+3"), pa.decimal128(4, 0)),
        (decimal.Decimal("0.001"), pa.decimal128(3, 3)), (numpy.int8(-3), pa.int8()), (numpy.float32(0.1), pa.float32()),
        (numpy.uint64(5), pa.uint64()), (numpy.bool_(True), pa.bool_()), (numpy.datetime64("2024-01-02"), pa.date32()),
        (numpy.datetime64("2024-01-02T03:04:05.123", "ms"), pa.timestamp("ms")), (numpy.str_("x"), pa.string()),
        (pa.scalar(3, pa.int16()), pa.int16()),
    ]
    for value, kind in cases:
        got = probe.eval(lit(value)._compile(), {"a": pa.array([1])})
        plain = value.as_py() if isinstance(value, pa.Scalar) else value.item() if hasattr(value, "item") else value
        wanted = pa.array([plain], kind)
        assert values(got) == values(wanted) and got.type == kind, (value, got)
    assert probe.eval(lit(None)._compile(), {"a": pa.array([1])}).to_pylist() == [None]


def test_names_of_any_kind(probe):
    for name in ["a b", 'q"uote', "it's", "back\\slash", "new\nline", "größe", "and", "a,b=c", "col(x)"]:
        assert probe.eval((col(name) + 1)._compile(), {name: pa.array([1])}).to_pylist() == [2]


# ---- numbers: against pyarrow.compute

INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float32(), pa.float64()]


def number_arrays(kind, size):
    if pa.types.is_integer(kind):
        bits, low = kind.bit_width, 0 if "u" in str(kind) else -(1 << (kind.bit_width - 1))
        high = low + (1 << bits) - 1
        item = st.integers(low, high) | st.sampled_from([low, low + 1, 0, 1, 2, 3, high]) | st.integers(max(low, -9), 9)
    else:
        item = st.floats(width=kind.bit_width) | st.integers(-9, 9).map(float)
    return st.lists(st.none() | item, min_size=size, max_size=size).map(lambda v: pa.array(v, kind))


@st.composite
def number_tables(draw):
    size = draw(st.integers(1, 20))
    return pa.table({name: draw(number_arrays(draw(st.sampled_from(INTS + FLOATS)), size)) for name in "abc"})


def without_least(table):
    """pyarrow divides the least number of its type by −1 to 0."""
    def shifted(column):
        low = pa.scalar(-(1 << (column.type.bit_width - 1)), column.type)
        return pc.if_else(pc.equal(column, low), pa.scalar(1, column.type), column)

    return pa.table({name: shifted(column) if pa.types.is_signed_integer(column.type) else column
                     for name, column in zip(table.column_names, table.columns)})


OPS = [Operation.ADD, Operation.SUB, Operation.MUL, Operation.DIV, Operation.FLOORDIV, Operation.MOD]


@settings(max_examples=examples(400), deadline=None)
@given(data=st.data(), table=number_tables(), op=st.sampled_from(OPS), flags=st.sampled_from([0, SELECTION, SMALL]))
def test_arithmetic_is_pyarrows(probe, data, table, op, flags):
    from weir.expressions import BinaryExpr

    right = data.draw(st.sampled_from([col("b"), col("c"), lit(2), lit(-3), lit(0), lit(2.5), lit(-1)]))
    expr = BinaryExpr(op, col("a"), right)
    if op in (Operation.FLOORDIV, Operation.MOD):
        table = without_least(table)
    if flags & SELECTION:
        # Rows that are not selected raise nothing: those that are left are compared.
        try:
            got, rows = probe.run(expr._compile(), table.to_batches()[0], flags, data.draw(st.integers(1, 99)))
            wanted = evaluate(expr, table.take(rows)) if rows else pa.array([])
        except (ExprError, pa.ArrowInvalid):
            return
        assert all(map(close, values(got), values(wanted)))
        return
    same(probe, expr, table, flags=flags)


def test_arithmetic_by_hand(probe):
    def run(expr, a):
        return probe.eval(expr._compile(), {"a": a}).to_pylist()

    a = pa.array([7, -7, None])
    assert run(col("a") / 2, a) == [3, -3, None]
    assert run(col("a") // 2, a) == [3.0, -4.0, None]
    assert run(col("a") % 3, a) == [1.0, 2.0, None]
    assert run(col("a") % -3, a) == [-2.0, -1.0, None]
    assert run(col("a") + (2**63 - 1), a)[0] == -(2**63) + 6
    assert run(col("a") * 2.0, a) == [14.0, -14.0, None]
    assert run(col("a") / 0.0, a) == [math.inf, -math.inf, None]
    assert run(col("a").power(2), a) == [49, 49, None]
    assert run(col("a").cast("string") + "!", a) == ["7!", "-7!", None]
    assert run((2**53 + 1) // (col("a") - 6), pa.array([7])) == [float(2**53 + 1)]
    for expr, code in [(col("a") / 0, ZERO_DIVISION), (col("a") // 0, ZERO_DIVISION), (col("a") % 0, ZERO_DIVISION),
                       (col("a").power(-1), VALUE)]:
        with pytest.raises(ExprError) as error:
            run(expr, pa.array([1]))
        assert error.value.code == code and error.value.row == 0
    with pytest.raises(ExprError) as error:
        run(col("a").abs(), pa.array([-(2**63)]))
    assert error.value.code == OVERFLOW


@settings(max_examples=examples(300), deadline=None)
@given(table=number_tables(), name=st.sampled_from(
    "ceil floor round trunc ln log10 log2 exp sin cos tan asin acos atan sign abs negate".split()))
def test_functions_of_numbers_are_pyarrows(probe, table, name):
    if name == "negate" and "u" in str(table["a"].type):
        return  # pyarrow has none; the engine gives the next wider signed type
    same(probe, getattr(col("a"), name)(), table)


@settings(max_examples=examples(150), deadline=None)
@given(table=number_tables(), exponent=st.integers(-1, 70) | st.sampled_from([0.5, 2.0, -1.5]))
def test_power_is_pyarrows(probe, table, exponent):
    same(probe, col("a").power(exponent), table)
    same(probe, col("a").power(col("b")), table)


# ---- predicates


@st.composite
def predicates(draw, depth=3):
    kind = draw(st.integers(0, 7 if depth else 4))
    column, other = col(draw(st.sampled_from("xyz"))), col(draw(st.sampled_from("xyz")))
    number = draw(st.none() | st.integers(-3, 3) | st.sampled_from([0.5, float("nan")]))
    if kind == 0:
        return getattr(column, draw(st.sampled_from(["__gt__", "__le__", "__eq__", "__ne__"])))(lit(number))
    if kind == 1:
        return getattr(column, draw(st.sampled_from(["__lt__", "__ge__", "__eq__"])))(other)
    if kind == 2:
        return draw(st.sampled_from([column.is_null(), column.is_not_null()]))
    if kind in (3, 4):
        items = draw(st.lists(st.none() | st.integers(-3, 3), max_size=4))
        return column.is_in(items) if kind == 3 else column.not_in(items)
    left, right = draw(predicates(depth - 1)), draw(predicates(depth - 1))
    return left & right if kind == 5 else left | right if kind == 6 else ~left


def kept(table, mask):
    if isinstance(mask, pa.Scalar):
        return list(range(table.num_rows)) if mask.as_py() else []
    return [i for i, keep in enumerate(mask.to_pylist()) if keep]


SMALL_TABLES = st.integers(1, 30).flatmap(lambda n: st.fixed_dictionaries({
    "x": st.lists(st.none() | st.integers(-4, 4), min_size=n, max_size=n).map(lambda v: pa.array(v, pa.int64())),
    "y": st.lists(st.none() | st.sampled_from([-1.0, 0.5, 2.0, float("nan")]), min_size=n, max_size=n)
    .map(lambda v: pa.array(v, pa.float64())),
    "z": st.lists(st.none() | st.integers(-4, 4), min_size=n, max_size=n).map(lambda v: pa.array(v, pa.int32())),
})).map(pa.table)


@settings(max_examples=examples(400), deadline=None)
@given(table=SMALL_TABLES, expr=predicates(), flags=st.sampled_from([0, SELECTION, DICTIONARY, PENDING]), seed=st.integers(1, 99))
def test_predicates_are_pyarrows(probe, table, expr, flags, seed):
    same(probe, expr, table, types=False)
    batch = table.to_batches()[0]
    assert probe.filter(expr._compile_filter(), batch) == kept(table, evaluate(expr, table))
    if flags:
        # Of the rows that were there at all, the same are kept.
        there = set(probe.run("True", batch, flags, seed)[1])
        assert probe.filter(expr._compile_filter(), batch, flags, seed) == [
            i for i in kept(table, evaluate(expr, table)) if i in there]


@settings(max_examples=examples(200), deadline=None)
@given(table=SMALL_TABLES, expr=predicates())
def test_expressions_of_pyarrow_come_back(probe, table, expr):
    """Through to_pyarrow and back the rows that pyarrow's own filter keeps are kept."""
    theirs = expr.to_pyarrow()
    try:
        wanted = table.append_column("row", pa.array(range(table.num_rows))).filter(theirs)["row"].to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return  # a comparison of null with null has no type there
    assert probe.filter(from_pyarrow(theirs)._compile_filter(), table.to_batches()[0]) == wanted


def test_expressions_of_pyarrow(probe):
    f = pc.field
    table = pa.table({
        "a": pa.array([1, 5, None, 10], pa.int32()), "b": [1.5, None, float("nan"), -2.0], "s": ["abc", "x\"y'", None, "Äb"],
        "d": pa.array([datetime.date(2024, 1, i) for i in (1, 2, 3, 4)]), "weird, (name)": [1, 2, 3, 4],
        "t": pa.array([datetime.datetime(2024, 1, 1, i) for i in (1, 2, 3, 4)], pa.timestamp("ns")),
        "st": [{"u": {"v": 1}}, {"u": {"v": 2}}, None, {"u": None}], "n": pa.array([1, 2, 3, 4], pa.uint8()),
        "de": pa.array([decimal.Decimal("1.50")] * 4), "bin": [b"a\0", b"b", None, b""]})
    cases = [
        f("a") > 3, (f("a") > 3) | f("b").is_null(nan_is_null=True), f("b").is_nan(), ~f("a").isin([1, 10, None]),
        f("s").isin(["abc", "x\"y'"]), f("weird, (name)") >= 2, f("st", "u", "v") == 2, f("d") == datetime.date(2024, 1, 2),
        f("t") < datetime.datetime(2024, 1, 1, 3), pc.starts_with(f("s"), "a"), pc.match_substring(f("s"), "\"y"),
        pc.utf8_length(f("s")) == 2, pc.utf8_lower(f("s")) == "äb", f("a") + 1 > 5, f("a") * 2 - 1 == 9, f("a") / 2 == 2,
        f("n").cast("int64") > 2, pc.if_else(f("n") > 2, f("n"), 0) == 4, f("de") == decimal.Decimal("1.50"),
        f("bin") == b"a\0", f("bin").isin([b"b"]), pc.scalar(True), pc.year(f("d")) == 2024, f("a") == pa.scalar(5, pa.int8()),
        pc.coalesce(f("a"), 0) == 0, f("a").isin(list(range(1000))), f("s") == "abc", "abc" != f("s"), f("a").isin([])]
    for expression in cases:
        wanted = table.append_column("row", pa.array(range(4))).filter(expression)["row"].to_pylist()
        assert probe.filter(from_pyarrow(expression)._compile_filter(), table.to_batches()[0]) == wanted, str(expression)
    for expression in [f(0) > 1, pc.strptime(f("s"), format="%Y", unit="s") == 1]:
        with pytest.raises(ValueError):
            from_pyarrow(expression)


# ---- texts


def test_texts_of_filters(probe):
    table = pa.table({"age": [20, 31, None, 45], "name": ["a", "b", "a", "c"], "f": [1.0, float("nan"), None, 2.0],
                      "x.y": [1, 2, 3, 4]})
    cases = {
        "age > 30 and name in ['a', 'b']": [1], "age > 30": [1, 3], "not age > 30": [0], "age in (20, 45)": [0, 3],
        "name not in ['a']": [1, 3], "age == -1": [], "age >= 20 or is_null(age)": [0, 1, 2, 3], "is_valid(age)": [0, 1, 3],
        "is_nan(f)": [1], "is_in(name, ['c'])": [3], "x.y > 3": [3], "20 < age < 45": [1], "age is None": [2],
        "age is not None and (name == \"c\")": [3], "-age < -30": [1, 3], "age + 1 > 45": [3], "age % 2 == 1": [1, 3],
        "age == None": [], "name == 'a' and True": [0, 2], "(age > 30) & (name == 'c') | (age < 21)": [0, 3],
        "  age > 44 ": [3], "age // 2 == 15": [1],
    }
    for text, wanted in cases.items():
        assert probe.filter(parse_filter(text)._compile_filter(), table.to_batches()[0]) == wanted, text
    for text in ["age >", "age > 30; import os", "f(age)", "age > 30 if name else 2", "[age] == 1", "lambda: 1", "age.upper()",
                 "age is 3", "x[0] > 1", "f'{age}' == ''", "is_null(age, name)", "age @ 2"]:
        with pytest.raises(ValueError):
            parse_filter(text)


def test_texts_mean_what_they_mean_in_ray(probe):
    evaluator = pytest.importorskip("ray.data._internal.planner.plan_expression.expression_evaluator")
    table = pa.table({"a": [1, 2, None, -4], "b": ["x", None, "y", "z"]})
    for text in ["a > 1", "a in [1, 2] and b == 'x'", "not a > 1", "is_null(a) or b != 'x'", "a == -4", "b not in ['x']",
                 "is_valid(b)", "a <= 1 or b == 'y'", "-a < 2"]:
        ray_expr = evaluator.ExpressionEvaluator.parse_native_expression(text)
        wanted = kept(table, evaluator.eval_expr(ray_expr, table))
        assert probe.filter(parse_filter(text)._compile_filter(), table.to_batches()[0]) == wanted, text


def test_values_are_rays(probe):
    evaluator = pytest.importorskip("ray.data._internal.planner.plan_expression.expression_evaluator")
    import ray.data.expressions

    import weir.expressions

    table = pa.table({"a": [7, -7, None, 2**52], "b": [2.0, -0.5, None, 0.0], "s": ["Weir ", "ÄÖ", None, ""],
                      "l": [[1, 2, 3], [4, 5], None, [6, 7]], "st": [{"u": 1}, {"u": 2}, None, {"u": None}],
                      "t": pa.array([datetime.datetime(2024, 2, 29, 1, 2, 3)] * 4, pa.timestamp("us"))})

    def build(m):
        a, b, s = m.col("a"), m.col("b"), m.col("s")
        return [
            a + 1, a - b, a * 3, a / 2, b / 0.0, a * b, b // 2, b % 2, s + "!", a.is_null(), a.is_in([7, None]), a.not_in([7]),
            b.ceil(), b.floor(), b.round(), b.trunc(), b.abs(), a.sign(), b.exp(), a.power(2), s.str.upper(), s.str.lower(),
            s.str.len(), s.str.byte_len(), s.str.strip(), s.str.rstrip(), s.str.lstrip("W"), s.str.starts_with("W"),
            s.str.ends_with(" "), s.str.contains("ei"), s.str.find("i"), s.str.replace("e", "3"), s.str.reverse(),
            s.str.slice(1, 3), s.str.repeat(2), s.str.pad(8, "*", "both"), s.str.lpad(8), s.str.rpad(8, "."), s.str.split("i"),
            s.str.title(), s.str.capitalize(), s.str.swapcase(), s.str.match("W%"), s.str.match_regex("[a-e]"),
            s.str.replace_regex("[a-z]", "_"), s.str.count("i"), s.str.is_alpha(), s.str.is_upper(),
            m.col("l").list.len(), m.col("l").list.get(1), m.col("l").list[0:2], m.col("l").list.slice(1),
            m.col("st").struct["u"], m.col("st").struct[0], m.col("t").dt.year(), m.col("t").dt.second(),
            m.col("t").dt.floor("month"), (a > 1) & (b < 1.5), (a > 1) | b.is_null(), ~(a > 1)]

    for ours, theirs in zip(build(weir.expressions), build(ray.data.expressions), strict=True):
        wanted = evaluator.eval_expr(theirs, table)
        got = probe.eval(ours._compile(), table.to_batches()[0])
        assert all(map(close, values(got), values(wanted))), (str(ours), got, wanted)
        assert got.type == wanted.type, (str(ours), got.type, wanted.type)


# ---- text, lists, times

TEXTS = st.text(st.sampled_from("aAbBzZ09 _-%.äÄßéı\tﬁ漢١²Ⅷǅ😀\u3000\u0301"), max_size=8)


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data(), items=st.lists(st.none() | TEXTS, min_size=1, max_size=12))
def test_functions_of_text_are_pyarrows(probe, data, items):
    s, part = col("s").str, data.draw(st.text("aAä.%_b", min_size=1, max_size=2))
    width = data.draw(st.integers(0, 9))
    a, b = data.draw(st.integers(-9, 9)), data.draw(st.none() | st.integers(-9, 9))
    exprs = [s.len(), s.byte_len(), s.upper(), s.lower(), s.capitalize(), s.title(), s.swapcase(), s.is_alpha(), s.is_alnum(),
             s.is_digit(), s.is_decimal(), s.is_numeric(), s.is_space(), s.is_lower(), s.is_upper(), s.is_title(),
             s.is_printable(), s.is_ascii(), s.starts_with(part), s.ends_with(part), s.contains(part), s.match(part + "%"),
             s.match("%" + part), s.find(part), s.count(part), s.reverse(), s.slice(a, b), s.replace(part, "<>"),
             s.replace(part, "", max_replacements=1), s.split(part), s.split(part, max_splits=1), s.repeat(width % 3),
             s.center(width, "*"), s.lpad(width), s.rpad(width, "é"), s.strip(), s.lstrip(), s.rstrip(), s.strip(part),
             s.lstrip(part), s.rstrip(part)]
    for expr in exprs:
        same(probe, expr, {"s": pa.array(items, pa.string())})


@settings(max_examples=examples(100), deadline=None)
@given(rows=st.lists(st.none() | st.lists(st.none() | st.integers(0, 5), max_size=4), min_size=1, max_size=8), a=st.integers(0, 4),
       b=st.none() | st.integers(0, 5))
def test_functions_of_lists_are_pyarrows(probe, rows, a, b):
    table = {"l": pa.array(rows, pa.list_(pa.int64()))}
    same(probe, col("l").list.len(), table)
    same(probe, col("l").list.get(a), table)
    same(probe, col("l").list.slice(a, b), table) if b is None or b >= a else None


@settings(max_examples=examples(100), deadline=None)
@given(items=st.lists(st.none() | st.datetimes(datetime.datetime(1920, 1, 1), datetime.datetime(2037, 1, 1)), min_size=1, max_size=8),
       unit=st.sampled_from(["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"]),
       zone=st.sampled_from([None, "UTC", "Europe/Berlin"]))
def test_functions_of_times_are_pyarrows(probe, items, unit, zone):
    table = {"t": pa.array(items, pa.timestamp("us")).cast(pa.timestamp("us", zone), safe=False)}
    for part in ["year", "month", "day", "hour", "minute", "second"]:
        same(probe, getattr(col("t").dt, part)(), table)
    if zone != "Europe/Berlin":  # the hour that a clock shows twice is told apart in another way
        same(probe, col("t").dt.floor(unit), table)
    pattern = "%Y|%y|%C|%G|%m|%b|%h|%B|%d|%e|%j|%V|%a|%A|%u|%w|%H|%I|%M|%S|%p|%F|%D|%T|%R|%%ä%n%t"
    same(probe, col("t").dt.strftime(pattern), table)
    for kind in [pa.timestamp("s", zone), pa.timestamp("ms", zone), pa.timestamp("ns", zone), pa.date32(), pa.date64()]:
        same(probe, col("t").dt.strftime(pattern), {"t": table["t"].cast(kind, safe=False)})


def test_casts(probe):
    table = pa.table({"a": pa.array([1, None, 300], pa.int64()), "s": ["1", None, "2.5"], "t": [0.5, None, 2.0]})
    same(probe, col("a").cast("int16"), table)
    same(probe, col("a").cast(pa.float32()), table)
    same(probe, col("a").cast("string"), table)
    same(probe, col("a").cast(int), table)
    same(probe, col("s").cast("double"), table)
    same(probe, col("a").cast("int8"), table)  # an error of both
    same(probe, col("t").cast("int64"), table)
    same(probe, col("a").cast("int8", safe=False), table)
    same(probe, col("t").cast("int64", safe=False), table)
    same(probe, col("t").cast("string"), table)
    from weir.datatype import DataType

    for kind in [DataType.int16(), DataType.float32(), DataType.string(), DataType.decimal128(21, 2), DataType.from_arrow(pa.int32())]:
        same(probe, col("a").cast(kind), table)
    for kind in [DataType.list(DataType.int8()), DataType.timestamp("ns", "UTC"), DataType.duration("s")]:
        assert DataType.from_arrow(kind.to_arrow_dtype()) == kind and pickle.loads(pickle.dumps(kind)) == kind
    with pytest.raises(TypeError):
        col("a").cast(object())


def test_when(probe):
    table = pa.table({"a": [5, -5, None, 0]})
    expr = when(col("a") > 0, "up").when(col("a") < 0, "down").otherwise("none")
    same(probe, expr, table)
    assert probe.eval(expr._compile(), table.to_batches()[0]).to_pylist() == ["up", "down", "none", "none"]
    same(probe, when(col("a") > 0, col("a") * 2), table)


# ---- in workers


def test_functions_of_the_user():
    @udf(return_dtype="int64")
    def add(x, y, by=1):
        return pc.add(pc.add(x, y), by)

    @udf(return_dtype="int64")
    class Offset:
        def __init__(self, offset):
            self.offset = offset

        def __call__(self, x):
            return [None if v is None else v + self.offset for v in x.to_pylist()]

    table = pa.table({"a": [1, None, 3], "b": [10, 20, 30]})
    expr = add(col("a"), col("b"), by=5) * 2
    assert expr.needs_python() and expr.describe() == "add(col('a'), col('b'), by=5) * 2"
    assert evaluate(expr, table).to_pylist() == [32, None, 76]
    assert evaluate(Offset(7)(col("a") // 2), table).to_pylist() == [7.0, None, 8.0]
    made = Projector({"b": col("b") + 1, "c": expr, "d": lit("x")})(table)
    assert made.to_pydict() == {"a": [1, None, 3], "b": [11, 21, 31], "c": [32, None, 76], "d": ["x"] * 3}
    assert Selector(add(col("a"), 0) > 2)(table).to_pydict() == {"a": [3], "b": [30]}
    cloudpickle = pytest.importorskip("cloudpickle")
    again = cloudpickle.loads(cloudpickle.dumps(Projector({"c": Offset(1)(col("a")), "d": expr})))
    assert again(table)["c"].to_pylist() == [2, None, 4]
    with pytest.raises(ValueError, match="2 values for 3 rows"):
        evaluate(udf("int64")(lambda x: [1, 2])(col("a")), table)
    with pytest.raises(TypeError, match="returned invalid type NoneType"):
        evaluate(udf("int64")(lambda x: None)(col("a")), table)
    with pytest.raises(KeyError, match="nosuch"):
        evaluate(col("nosuch") + 1, table)


def test_in_the_engine_and_with_pyarrow(probe):
    table = pa.table({"s": ["a1b", None], "l": [[3, None, 1], None], "ll": [[[1], [2, 3]], None],
                      "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
                      "t": pa.array([datetime.datetime(2024, 2, 29, 13), None], pa.timestamp("s")),
                      "f": pa.array([[1, 2], None], pa.list_(pa.int8(), 2))})
    cases = {
        col("s").str.extract(r"(?P<d>\d)"): [{"d": "1"}, None], col("l").list.sort(): [[1, 3, None], None],
        col("l").list.sort("descending", "at_start"): [[None, 3, 1], None], col("ll").list.flatten(): [[1, 2, 3], None],
        col("m").map.keys(): [["k"], None], col("m").map.values(): [[1], None], col("t").dt.strftime("%U"): ["08", None],
        col("t").dt.ceil("day"): [datetime.datetime(2024, 3, 1), None], col("f").arr.to_list(): [[1, 2], None],
        col("s").str.find_regex(r"\d"): [1, None], col("s").str.contains("A", ignore_case=True): [True, None],
        col("s").str.split_regex(r"\d"): [["a", "b"], None], col("s").str.replace_slice(0, 1, "x"): ["x1b", None],
        col("s").str.slice(0, None, 2): ["ab", None]}
    for expr, wanted in cases.items():
        assert not expr.needs_python()
        assert evaluate(expr, table).to_pylist() == wanted, str(expr)
        same(probe, expr, table)
    zoned = col("t").dt.strftime("%Z")
    assert zoned.needs_python()
    with pytest.raises(ValueError, match="needs Python"):
        zoned._compile()


@pytest.mark.parametrize("expr, named", [(col("x") + 5, "add"), (col("x") - 5, "subtract"), (col("x") * 5, "multiply"), (col("x") / 5, "divide")],
                         ids=["add", "subtract", "multiply", "divide"])
def test_to_pyarrow_wraps_as_the_engine_does(expr, named):
    theirs = expr.to_pyarrow()
    assert theirs.equals(getattr(pc, named)(pc.field("x"), pc.scalar(5)))
    table = pa.table({"x": [2**63 - 1, -(2**63), 7]})
    dataset = pytest.importorskip("pyarrow.dataset")
    assert dataset.dataset(table).to_table(columns={"y": theirs})["y"].to_pylist() == evaluate(expr, table).to_pylist()
    assert from_pyarrow(theirs).structurally_equals(expr)


def test_to_pyarrow():
    table = pa.table({"a": [7, -7, None], "s": ["ab", None, "c"]})
    for expr in [col("a") > 1, col("a").is_in([7]), col("a").not_in([7]), col("s").str.upper() == "AB", col("a").is_null(),
                 (col("a") % 3) == 2.0, (col("a") // 2) == -4.0, when(col("a") > 0, 1).otherwise(0) == 0, ~(col("a") > 1)]:
        assert table.filter(expr.to_pyarrow()).equals(table.filter(evaluate(expr, table))), str(expr)
    with pytest.raises(TypeError):
        col("l").list.sort().to_pyarrow()
    with pytest.raises(TypeError):
        udf("int64")(abs)(col("a")).to_pyarrow()


def test_long_chains(probe):
    expr: Expr = col("a") == 0
    for i in range(1, 500):
        expr = expr | (col("a") == i)
    assert probe.filter(expr._compile_filter(), {"a": pa.array([1, 499, 500])}) == [0, 1]


# ---- through Dataset


def test_through_datasets(tmp_path):
    weir = pytest.importorskip("weir")
    import pyarrow.parquet

    table = pa.table({"a": pa.array([None if i % 7 == 0 else i for i in range(200)]), "b": [i * 1.5 for i in range(200)],
                      "s": [f"Name {i % 11}" for i in range(200)], 'odd "name", (x) = \\': list(range(200))})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=37)

    @udf(return_dtype="int64")
    def add_one(x):
        return pc.add(x, 1)

    read = weir.read_parquet(str(tmp_path))
    for expr in [(col("a") % 3 == 1.0) & (col("s") != "Name 3"), col("a").is_null() | (col("b") / 2 > 100), col("a").is_in([5, None]),
                 col("s").str.ends_with("10"), add_one(col("a")) > 150, col("s").str.find_regex("1$") > 0, col('odd "name", (x) = \\') < 3]:
        wanted = Selector(expr)(table).to_pylist()
        assert read.filter(expr=expr).take_all() == wanted, str(expr)
    assert read.filter(expr="a > 190 and s in ['Name 3', 'Name 4']").take_all() == Selector(
        (col("a") > 190) & col("s").is_in(["Name 3", "Name 4"]))(table).to_pylist()
    kept = weir.read_parquet(str(tmp_path), filter=(pc.field("a") > 190) & pc.field("b").is_valid()).take_all()
    assert kept == table.filter((pc.field("a") > 190) & pc.field("b").is_valid()).to_pylist()
    for expr in [col("a") // 4, col("a") / 4, col("s").str.upper(), when(col("a") > 5, "x").otherwise(col("s")), add_one(col("a")) * 2,
                 col("s").str.split_regex(" "), lit(7), col("b").cast("string")]:
        for name in ["new", "b", 'odd "name", (x) = \\']:
            got = read.with_column(name, expr).take_all()
            wanted = Projector({name: expr})(table).to_pylist()
            assert got == wanted and list(got[0]) == list(wanted[0]), str(expr)


def test_modules_under_the_other_name():
    """weir.data.x is weir.x, not a copy: what a script imports there is known everywhere."""
    pytest.importorskip("weir._weir")
    import weir.aggregate
    import weir.data.aggregate
    import weir.data.expressions
    import weir.expressions

    assert weir.data.aggregate is weir.aggregate and weir.data.expressions is weir.expressions
    assert weir.aggregate.__name__ == weir.aggregate.__spec__.name == "weir.aggregate"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("weir.data.nosuch")


def test_what_is_said_of_values_that_do_not_suit_has_rays_words():
    import weir

    ds = weir.from_items([{"name": "x", "age": 1}])
    with pytest.raises(weir.exceptions.RayTaskError, match=re.escape("to_list() can only be called on list-like columns, not on int64 (age)")):
        ds.with_column("l", col("age").arr.to_list()).take()
    with pytest.raises(TypeError, match="expected string-like pyarrow values, got int64"):
        evaluate(col("name") + col("age"), pa.table({"name": ["x"], "age": [1]}))


def test_cast_to_what_is_no_type_fails_at_once():
    with pytest.raises(TypeError, match="target_type must be a ray.data.datatype.DataType.*'unknown' is not a type: types are DataType's"):
        col("a").cast("unknown")
    with pytest.raises(TypeError, match="'intt64' is not a type: did you mean 'int64'?"):
        col("a").cast("intt64")
    for name in ("int8", "list<item: int8>", "timestamp[us, tz=UTC]", "decimal128(5, 2)", "date32[day]", "struct<a: int8>", "large_string"):
        assert col("a").cast(name).describe() == f"col('a').cast('{name}')"


def test_a_column_by_another_name_is_what_it_was() -> None:
    """A tensor, and Python objects: they were lists, and the bytes of pickles."""
    import numpy as np

    import weir

    ds = weir.from_items([{"t": np.ones((2, 2)), "o": 2**70}])
    rows = [ds.with_column("u", col("t")).with_column("p", col("o")).take(1)[0],
            ds.select_columns(["t", "o"]).with_columns({"p": col("o").alias("p"), "u": col("t")}).take(1)[0]]
    for row in rows:
        assert row["u"].shape == (2, 2) and row["u"].dtype == np.float64 and row["p"] == 2**70
