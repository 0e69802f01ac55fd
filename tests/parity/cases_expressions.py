"""Expressions: each text below is one case, over the table of `rows`."""
import datetime

from parity import case, sub


def rows(data):
    d = datetime.datetime
    return data.from_items([
        {"i": 7, "j": 2, "f": 1.5, "s": "Hello World", "t": " ab ", "b": True, "l": [3, 1, 2], "d": d(2024, 2, 29, 13, 45, 6), "st": {"k": 1, "m": "x"}},
        {"i": -7, "j": 2, "f": -0.25, "s": "ray", "t": "xyx", "b": False, "l": [], "d": d(1999, 12, 31, 23, 59, 59), "st": {"k": 2, "m": "y"}},
        {"i": None, "j": 3, "f": None, "s": None, "t": "", "b": None, "l": None, "d": None, "st": None},
    ], override_num_blocks=1)


def evaluated(data, text):
    import pyarrow as pa

    e = sub(data, "expressions")
    names = {name: getattr(e, name, None) for name in ("col", "lit", "star", "udf", "pyarrow_udf", "random", "uuid", "monotonically_increasing_id", "download")}
    return eval(text, {**names, "pa": pa, "DataType": sub(data, "datatype").DataType})


ARITHMETIC = ["col('i') + 1", "1 + col('i')", "col('i') - col('j')", "10 - col('i')", "col('i') * 2.5", "col('i') / 2.0", "col('f') / 2",
              "2 / col('f')", "col('i') // 2", "col('i') % 2", "-col('i')", "col('i') + col('f')", "col('s') + '!'", "col('i').power(2)",
              "col('i').abs()", "col('f').ceil()", "col('f').floor()", "col('f').round()", "col('f').trunc()", "col('i').sign()",
              "col('i').negate()", "col('f').exp()", "col('j').ln()", "col('j').log2()", "col('j').log10()", "col('f').sin()", "col('f').cos()",
              "col('f').tan()", "(col('f') / 10).asin()", "(col('f') / 10).acos()", "col('f').atan()"]
COMPARISON = ["col('i') > 0", "col('i') >= 7", "col('i') < 0", "col('i') <= -7", "col('i') == 7", "col('i') != 7", "col('s') == 'ray'",
              "(col('i') > 0) & (col('j') == 2)", "(col('i') > 0) | col('b')", "~col('b')", "col('i').is_null()", "col('i').is_not_null()",
              "col('s').is_in(['ray', 'x'])", "col('i').is_in([7])", "col('i').not_in([7])", "col('f') == 1.5"]
CASTS = ["col('i').cast(DataType.string())", "col('i').cast(DataType.float64())", "col('f').cast(DataType.int32(), safe=False)",
         "col('b').cast(DataType.int8())", "col('j').cast(DataType.string())", "lit('5').cast(DataType.int64())", "col('f').cast(DataType.int32())"]
LITERALS = ["lit(5)", "lit('x')", "lit(2.5)", "lit(True)", "lit(None)", "col('i')"]
TEXTS = ["len()", "byte_len()", "lower()", "upper()", "capitalize()", "title()", "swapcase()", "is_alpha()", "is_alnum()", "is_digit()",
         "is_decimal()", "is_numeric()", "is_upper()", "is_lower()", "is_title()", "is_space()", "is_printable()", "is_ascii()",
         "starts_with('H')", "ends_with('d')", "contains('o W')", "match('H%')", "find('o')", "count('l')", "find_regex('o+')",
         "count_regex('l+')", "match_regex('^H.*d$')", "replace('o', '0')", "replace('o', '0', max_replacements=1)", "replace_regex('l+', 'L')",
         "replace_slice(0, 5, 'Bye')", "split()", "split(' ')", "split_whitespace()", "split_regex(' +')", "reverse()", "slice(1, 4)", "slice(0, 2)", "repeat(2)",
         "center(13, '*')", "lpad(13, '*')", "rpad(13, '*')", "pad(13, fillchar='*', side='left')", "strip()", "lstrip()", "rstrip()", "strip('H')",
         "lstrip('H')", "rstrip('d')", "extract('(?P<w>[A-Z])')"]
TIMES = ["year()", "month()", "day()", "hour()", "minute()", "second()", "strftime('%Y-%m-%d')", "floor('hour')", "ceil('day')", "round('minute')"]
LISTS = ["len()", "get(0)", "slice(0, 2)", "sort()", "flatten()"]


@case(*ARITHMETIC, *COMPARISON, *CASTS, *LITERALS)
def value(data, at, text):
    ds = rows(data).with_column("x", evaluated(data, text))
    return [r["x"] for r in ds.take_all()]


@case(*TEXTS)
def text(data, at, text):
    return [r["x"] for r in rows(data).with_column("x", evaluated(data, f"col('s').str.{text}")).take_all()]


@case("strip()", "lstrip()", "rstrip()", "len()", "split('x')")
def text_with_spaces(data, at, text):
    return [r["x"] for r in rows(data).with_column("x", evaluated(data, f"col('t').str.{text}")).take_all()]


@case(*TIMES)
def time(data, at, text):
    import pyarrow as pa

    d = datetime.datetime
    table = pa.table({"d": pa.array([d(2024, 2, 29, 13, 45, 6), d(1999, 12, 31, 23, 59, 59), None], pa.timestamp("us"))})
    return [r["x"] for r in data.from_arrow(table).with_column("x", evaluated(data, f"col('d').dt.{text}")).take_all()]


@case(*LISTS)
def list_of(data, at, text):
    ds = data.from_items([{"l": [3, 1, 2]}, {"l": [5]}]) if text != "flatten()" else data.from_items([{"l": [[1], [2, 3]]}, {"l": [[4]]}])
    return [r["x"] for r in ds.with_column("x", evaluated(data, f"col('l').list.{text}")).take_all()]


@case("field('k')", "field('m')", "field('nope')", "field_by_index(0)")
def struct_of(data, at, text):
    ds = data.from_items([{"st": {"k": 1, "m": "x"}}, {"st": {"k": 2, "m": "y"}}])
    return [r["x"] for r in ds.with_column("x", evaluated(data, f"col('st').struct.{text}")).take_all()]


@case("col('st').struct['k']", "col('l').list[0]")
def index(data, at, text):
    ds = data.from_items([{"st": {"k": 1}, "l": [4, 5]}, {"st": {"k": 2}, "l": [6]}])
    return [r["x"] for r in ds.with_column("x", evaluated(data, text)).take_all()]


@case("keys()", "values()")
def map_of(data, at, text):
    import pyarrow as pa

    table = pa.table({"m": pa.array([[("a", 1), ("b", 2)], [("c", 3)]], pa.map_(pa.string(), pa.int64()))})
    return [r["x"] for r in data.from_arrow(table).with_column("x", evaluated(data, f"col('m').map.{text}")).take_all()]


@case(*COMPARISON)
def filtered(data, at, text):
    return [r["j"] for r in rows(data).filter(expr=evaluated(data, text)).take_all()]


@case()
def alias(data, at):
    e = sub(data, "expressions")
    made = (e.col("i") + 1).alias("z")
    return [made.name, rows(data).with_column("y", made).columns()]


@case()
def equality(data, at):
    col = sub(data, "expressions").col
    return [(col("a") + 1).structurally_equals(col("a") + 1), (col("a") + 1).structurally_equals(col("a") + 2),
            col("a").structurally_equals(col("b")), col("a").name]


@case("col('a')", "col('a') + 1", "(col('a') > 2) & (col('b') == 'x')", "~col('a')", "lit('x')", "col('a').alias('z')", "col('s').str.upper()",
      "col('a').is_null()", "col('a').is_in([1, 2])")
def representation(data, at, text):
    return repr(evaluated(data, text))


@case()
def udf(data, at):
    import pyarrow.compute as pc

    e = sub(data, "expressions")
    DataType = sub(data, "datatype").DataType

    @e.udf(return_dtype=DataType.int64())
    def add_one(x):
        return pc.add(x, 1)

    return data.range(3).with_column("x", add_one(e.col("id")) * 2).take_all()


@case()
def udf_of_two(data, at):
    import pyarrow.compute as pc

    e = sub(data, "expressions")
    DataType = sub(data, "datatype").DataType

    @e.udf(return_dtype=DataType.int64())
    def add(x, y):
        return pc.add(x, y)

    return data.range(3).with_column("x", add(e.col("id"), e.col("id") + 1)).take_all()


@case()
def udf_class(data, at):
    import pyarrow.compute as pc

    e = sub(data, "expressions")
    DataType = sub(data, "datatype").DataType

    @e.udf(return_dtype=DataType.int64())
    class AddOffset:
        def __init__(self, offset):
            self.offset = offset

        def __call__(self, x):
            return pc.add(x, self.offset)

    return data.range(3).with_column("x", AddOffset(5)(e.col("id"))).take_all()


@case()
def pyarrow_udf(data, at):
    e = sub(data, "expressions")
    import pyarrow.compute as pc

    DataType = sub(data, "datatype").DataType
    upper = e.pyarrow_udf(return_dtype=DataType.string())(lambda x: pc.utf8_upper(x))
    return [r["x"] for r in rows(data).with_column("x", upper(e.col("s"))).take_all()]


@case()
def monotonic_ids(data, at):
    e = sub(data, "expressions")
    found = [r["x"] for r in data.range(10, override_num_blocks=2).with_column("x", e.monotonically_increasing_id()).take_all()]
    return [len(set(found)), all(isinstance(v, int) for v in found), found[:5] == sorted(found[:5])]


@case()
def random_numbers(data, at):
    e = sub(data, "expressions")
    found = [r["x"] for r in data.range(50).with_column("x", e.random()).take_all()]
    return [all(0 <= v < 1 for v in found), len(set(found)) > 40]


@case()
def random_with_seed(data, at):
    e = sub(data, "expressions")
    ds = data.range(50, override_num_blocks=1).with_column("x", e.random(seed=3, reseed_after_execution=False))
    return [ds.take_all() == ds.take_all()]


@case()
def uuids(data, at):
    e = sub(data, "expressions")
    found = [r["x"] for r in data.range(20).with_column("x", e.uuid()).take_all()]
    return [len(set(found)), {len(v) for v in found}, {type(v) for v in found}]


@case()
def download(data, at):
    e = sub(data, "expressions")
    (at / "one").write_bytes(b"first")
    (at / "two").write_bytes(b"second")
    ds = data.from_items([{"uri": str(at / "one")}, {"uri": str(at / "two")}])
    return [r["x"] for r in ds.with_column("x", e.download("uri")).take_all()]


@case("col('nope') + 1", "col('s') + 1", "col('i').str.upper()")
def wrong(data, at, text):
    return rows(data).with_column("x", evaluated(data, text)).take_all()


@case()
def truth_of_an_expression(data, at):
    col = sub(data, "expressions").col
    return bool(col("a") > 1) if False else (col("a") > 1 and 5)


@case("int64", "float32", "string", "bool", "binary", "int8", "uint16")
def datatypes(data, at, name):
    DataType = sub(data, "datatype").DataType
    made = getattr(DataType, name)()
    return [str(made.to_arrow_dtype()), made.is_arrow_type(), made == getattr(DataType, name)(), made.is_numerical_type(), made.is_string_type()]


@case("list", "struct", "fixed_size_list", "map", "large_list", "temporal", "tensor")
def nested_datatypes(data, at, name):
    DataType = sub(data, "datatype").DataType
    made = {"list": lambda: DataType.list(DataType.int64()), "struct": lambda: DataType.struct([("x", DataType.int64()), ("y", DataType.string())]),
            "fixed_size_list": lambda: DataType.fixed_size_list(DataType.float32(), 3), "map": lambda: DataType.map(DataType.string(), DataType.int64()),
            "large_list": lambda: DataType.large_list(DataType.int64()), "temporal": lambda: DataType.temporal("timestamp", unit="s"),
            "tensor": lambda: DataType.tensor((2, 2), DataType.float32())}[name]()
    return [made.is_list_type(), made.is_struct_type(), made.is_map_type(), made.is_nested_type(), made.is_temporal_type(), made.is_tensor_type()]


@case()
def datatype_conversions(data, at):
    import numpy as np
    import pyarrow as pa

    DataType = sub(data, "datatype").DataType
    return [DataType.from_arrow(pa.int32()).to_numpy_dtype(), str(DataType.from_numpy(np.dtype("float64")).to_arrow_dtype()),
            str(DataType.infer_dtype(5).to_arrow_dtype()), str(DataType.infer_dtype("x").to_arrow_dtype()), DataType(int).to_python_type()]
