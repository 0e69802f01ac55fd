"""Expressions over one small table, run by real Ray Data (`python ray_expr_cases.py record`) or by weir: what each gives."""
import json
import math
import sys
from pathlib import Path

RECORDED = Path(__file__).parent / "ray_expr_answers.json"


def table():
    import datetime
    import decimal

    import pyarrow as pa

    return pa.table({
        "i": pa.array([1, -7, None, 0, 42], pa.int64()), "j": pa.array([2, 2, 3, None, -5], pa.int32()),
        "f": pa.array([1.5, -2.5, float("nan"), None, 1e10]), "g": pa.array([0.5, 2.0, -1.0, 4.0, None], pa.float32()),
        "s": ["Hello World", "äöü ÄÖÜ", None, "", "a1b2,c3"], "t": ["  x ", "abcabc", "A%b", None, "x_y"],
        "b": [True, False, None, True, False],
        "d": pa.array([datetime.date(2024, 2, 29), None, datetime.date(1969, 12, 31), datetime.date(2000, 1, 1),
                       datetime.date(2023, 7, 15)]),
        "ts": pa.array([datetime.datetime(2024, 2, 29, 12, 30, 15, 123456), None, datetime.datetime(1969, 12, 31, 23, 59, 59),
                        datetime.datetime(2000, 1, 1), datetime.datetime(2023, 7, 15, 6, 30)], pa.timestamp("us")),
        "l": pa.array([[3, 1, None, 2], [], None, [5], [9, 8]], pa.list_(pa.int64())),
        "ll": pa.array([[[1], [2, 3]], [], None, [None, [4]], [[]]], pa.list_(pa.list_(pa.int64()))),
        "st": pa.array([{"x": 1, "y": "a"}, {"x": None, "y": "b"}, None, {"x": 3, "y": None}, {"x": 4, "y": "e"}],
                       pa.struct([("x", pa.int64()), ("y", pa.string())])),
        "m": pa.array([[("k", 1)], [], None, [("a", 2), ("b", None)], [("z", 9)]], pa.map_(pa.string(), pa.int64())),
        "fl": pa.array([[1, 2], [3, 4], None, [5, 6], [7, 8]], pa.list_(pa.int64(), 2)),
        "dec": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-3.50"), decimal.Decimal("0.00"), decimal.Decimal("9.99")],
                        pa.decimal128(6, 2)),
    })


def cases(e, DataType):
    """Names and expressions; `e` is ray.data.expressions or weir.expressions."""
    col, lit = e.col, e.lit
    i, j, f, g, s, t, b, ts = (col(name) for name in ("i", "j", "f", "g", "s", "t", "b", "ts"))
    yield from {
        "add": i + j, "sub": i - 1, "mul": i * j, "div": i / lit(2), "fdiv": f / g, "mod_float": f % 2.0,
        "radd": 1 + i, "rsub": 10 - j, "rmul": 2 * f, "gt": i > 0, "le": f <= 1.5, "eq": s == "", "ne": i != j, "and": b & (i > 0),
        "or": b | (i > 0), "not": ~b, "null": i.is_null(), "notnull": f.is_not_null(), "in": i.is_in([1, 42]),
        "in_text": s.is_in(["", "x"]), "not_in": i.not_in([1, 42]), "alias": (i + 1).alias("z"), "concat": s + t,
        "lit": lit(5), "lit_text": lit("x"), "ceil": f.ceil(), "floor": f.floor(), "round": f.round(), "trunc": f.trunc(),
        "ceil_i": i.ceil(), "round_i": i.round(), "exp": g.exp(), "sin": f.sin(), "cos": g.cos(), "atan": i.atan(), "neg": i.negate(),
        "sign": i.sign(), "sign_f": f.sign(), "abs": i.abs(), "power": i.power(2), "power_f": f.power(2), "ln": g.ln(),
        "log2": g.log2(), "log10": g.log10(), "cast": i.cast(DataType.float64()), "cast_s": i.cast(DataType.string()),
        "cast_fs": g.cast(DataType.string()), "cast_unsafe": f.cast(DataType.int32(), safe=False),
        "cast_sb": b.cast(DataType.string()),
    }.items()
    for name in ("len byte_len upper lower capitalize title swapcase is_alpha is_alnum is_digit is_decimal is_numeric is_space "
                 "is_lower is_upper is_title is_printable is_ascii reverse strip lstrip rstrip split_whitespace").split():
        yield f"str.{name}", getattr(s.str, name)()
        yield f"str.{name}.t", getattr(t.str, name)()
    yield from {
        "starts": s.str.starts_with("H"), "starts_i": s.str.starts_with("h", ignore_case=True), "ends": t.str.ends_with("c"),
        "contains": s.str.contains("o"), "contains_i": s.str.contains("Ä", ignore_case=True), "like": t.str.match("%b%"),
        "like_": t.str.match("x\\_y"), "find": s.str.find("o"), "count": s.str.count("o"), "find_re": s.str.find_regex("[0-9]"),
        "count_re": s.str.count_regex("[a-z]"), "match_re": s.str.match_regex("^[A-Z]"), "slice": s.str.slice(1, 4),
        "slice_step": s.str.slice(0, None, 2), "slice_neg": s.str.slice(-3), "replace": t.str.replace("abc", "X"),
        "replace_1": t.str.replace("abc", "X", max_replacements=1), "replace_re": s.str.replace_regex("([a-z])([0-9])", "\\2\\1"),
        "replace_slice": t.str.replace_slice(0, 1, "Z"), "split": s.str.split(","), "split_max": t.str.split("b", max_splits=1),
        "split_rev": t.str.split("b", max_splits=1, reverse=True), "split_re": s.str.split_regex("[0-9]"),
        "extract": s.str.extract("(?P<l>[a-z])(?P<n>[0-9])"), "repeat": t.str.repeat(2), "center": t.str.center(9, "*"),
        "lpad": t.str.lpad(8), "rpad": t.str.rpad(8, "-"), "strip_x": t.str.strip("x "), "pad": t.str.pad(8, "0", side="left"),
        "list.len": col("l").list.len(), "list.slice": col("l").list.slice(0, 2), "list.slice_step": col("l").list[0:4:2],
        "list.sort": col("l").list.sort(), "list.sort_d": col("l").list.sort("descending", "at_start"),
        "list.flatten": col("ll").list.flatten(), "fl.get": col("fl").list.get(1), "fl.getitem": col("fl").list[0],
        "fl.slice": col("fl").list.slice(0, 1), "arr.to_list": col("fl").arr.to_list(), "struct": col("st").struct.field("x"),
        "struct[]": col("st").struct["y"], "struct_i": col("st").struct.field_by_index(0), "keys": col("m").map.keys(),
        "values": col("m").map.values(), "year": ts.dt.year(), "month": ts.dt.month(), "day": ts.dt.day(), "hour": ts.dt.hour(),
        "minute": ts.dt.minute(), "second": ts.dt.second(), "strftime": ts.dt.strftime("%Y-%m-%d %H:%M:%S"),
        "strftime_d": col("d").dt.strftime("%j %U %W %G"), "dt.ceil": ts.dt.ceil("day"), "dt.floor": ts.dt.floor("hour"),
        "dt.round": ts.dt.round("hour"), "dt.ceil_m": ts.dt.ceil("month"), "year_d": col("d").dt.year(),
        "dec_add": col("dec") + col("dec"), "dec_gt": col("dec") > 1, "nested": (i + 1) * 2 > j, "chain": s.str.upper().str.len() > 3,
        "asin_bad": i.asin(), "div0": i / lit(0), "missing": col("nosuch") + 1, "text_plus": s + 1, "get_bad": col("l").list.get(0),
        "bad_regex": s.str.match_regex("("), "cast_bad": s.cast(DataType.int64()), "strip_number": i.str.upper(),
        "year_text": s.dt.year(), "and_number": i & b,
    }.items()


def plain(value):
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value if value is None or isinstance(value, (bool, int, str)) else repr(value)


def answers(data, e, DataType):
    """name → type and values, or the error."""
    out = {}
    source = data.from_arrow(table()).materialize()
    for name, expr in cases(e, DataType):
        try:
            rows = source.with_column("out", expr).to_arrow_refs()
            import pyarrow as pa

            made = pa.concat_tables([get(ref) for ref in rows])["out"]
            out[name] = {"type": str(made.type), "values": plain(made.to_pylist())}
        except Exception:
            out[name] = "error"
    predicates = {name: expr for name, expr in cases(e, DataType) if name in (
        "gt", "le", "eq", "ne", "and", "or", "not", "null", "notnull", "in", "in_text", "not_in", "starts", "contains_i", "like", "nested",
        "chain", "dec_gt", "match_re", "missing")}
    for name, expr in predicates.items():
        try:
            out[f"filter {name}"] = [row["i"] for row in source.filter(expr=expr).take_all()]
        except Exception:
            out[f"filter {name}"] = "error"
    return out


def get(ref):
    module = sys.modules["ray"] if "--ray" in sys.argv else __import__("weir")
    return module.get(ref)


if __name__ == "__main__":
    import ray
    import ray.data
    from ray.data.datatype import DataType

    sys.argv.append("--ray")
    ray.init(num_cpus=2, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    RECORDED.write_text(json.dumps(answers(ray.data, ray.data.expressions, DataType), indent=0, ensure_ascii=False, sort_keys=True) + "\n")
    ray.shutdown()
