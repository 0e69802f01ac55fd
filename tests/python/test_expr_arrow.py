"""The engine's functions for expressions of Python, held against pyarrow.compute on random columns: with nulls, NaN, unicode,
empty, sliced, dictionary-coded, of large and nested types. Values and types are the same; so is whether it is an error."""
import datetime
import math
import os

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given, settings, strategies as st

import expr_probe
from expr_probe import CONSTANTS, DICTIONARY, PENDING, SELECTION, SMALL, ExprError

EXAMPLES = int(os.environ.get("WEIR_EXPR_EXAMPLES", "60"))
settings.register_profile("expr", max_examples=EXAMPLES, deadline=None, print_blob=True)
settings.load_profile("expr")

FORMS = [0, DICTIONARY, PENDING, CONSTANTS, SELECTION | SMALL, SELECTION | DICTIONARY | PENDING]


@pytest.fixture(scope="module")
def probe():
    return expr_probe.Probe()


def quoted(text):
    """A text literal of the engine."""
    out = []
    for c in text:
        out.append({"\\": "\\\\", '"': '\\"'}.get(c) or (f"\\x{ord(c):02x}" if ord(c) < 32 or ord(c) == 127 else c))
    return '"' + "".join(out) + '"'


def literal(value):
    if isinstance(value, str):
        return quoted(value)
    return str(value)


def plain(value):
    """NaN equals itself; the rest as it is."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def check(probe, text, column, wanted, forms=FORMS):
    """`wanted()` is pyarrow's answer, or its error."""
    try:
        expected = wanted()
    except (pa.ArrowException, TypeError, ValueError) as error:
        with pytest.raises(ExprError):
            probe.run(text, {"x": column}, 0)
        return str(error)
    values = plain(expected.to_pylist())
    if not values:  # pyarrow looks at its arguments when there is a row
        try:
            probe.run(text, {"x": column}, 0)
        except ExprError:
            return None
    for form in forms:
        got, rows = probe.run(text, {"x": column}, form, seed=7)
        assert got.type == expected.type, f"{text} of {column.type}: {got.type}, not {expected.type}"
        assert plain(got.to_pylist()) == [values[row] for row in rows], f"{text} {form} of {column.to_pylist()}"
    return None


LETTERS = st.characters(codec="utf-8", exclude_characters="\0")
WORDS = st.sampled_from(["a", "b", "ab", "A", "B", " ", "  ", ".", "ä", "Ä", "ß", "ſ", "K", "k", "0", "1", "\n", "\t", "x", "%",
                         "_", "\\", "\u2003", "\u00a0", "\v", "é", "日", "🎈", "-", ","])
TEXTS = st.one_of(st.lists(WORDS, max_size=8).map("".join), st.text(LETTERS, max_size=6))
TEXT_TYPES = st.sampled_from([pa.string(), pa.large_string()])


@st.composite
def texts(draw):
    """A column of text, perhaps a slice of a larger one."""
    values = draw(st.lists(st.one_of(st.none(), TEXTS), min_size=0, max_size=12))
    column = pa.array(values, draw(TEXT_TYPES))
    begin = draw(st.integers(0, len(values)))
    return column.slice(begin) if draw(st.booleans()) else column


PATTERNS = st.sampled_from([
    "a", "a+", "(a)(b)?", "[ab]+", "[^a]", ".", "a|b", "(?i)A", "(?i)s", "^a", "a$", r"\bx", r"\d+", r"\w", r"\s", r"\S+", r"\D",
    r"[\s\d]", r"[\S]", r"\v", "(?s).+", "(?m)^a", "(?m)b$", r"\x{e4}", r"\141", r"\pL+", r"\p{Lu}", r"\p{Greek}", r"\PL",
    "[[:alpha:]]+", "[[:space:]]", r"\Qa.\E", "a{2}", "a{,2}", "a{1,2}", "a{0}", "x*?a", "(?U)a+", "(?:ab)+", "[a-c]", "[]a]",
    "[[]", r"\.", r"a\z", r"\Aa", "ä", "[äé]", "(?i)ä", "日|🎈", r"\n", "(?P<one>a)", "(?<one>a)(?P<two>b)?", "(?P<n>[0-9]+)",
    # what is no pattern of RE2
    "(", "[", "*a", "a**", "a++", "(?=a)", "(?!a)", "(?<=a)b", r"(a)\1", "(?>a)", "a{1001}", r"\Z", r"\h", r"\K", r"\R", r"\8",
    "(?x)a", "(?#c)", "a{2,1}", "\\", "(?P=one)", "(*UTF8)a", "(?R)", "x{2}{3}", r"\e", r"\cA", "(?P<1 >a)",
])
NEVER_EMPTY = {"a", "a+", "(a)(b)?", "[ab]+", "[^a]", ".", "a|b", "(?i)A", "(?i)s", r"\d+", r"\w", r"\s", r"\S+", r"\D", "(?s).+",
               r"\pL+", "a{2}", "x*?a", "(?:ab)+", "[a-c]", r"\.", "ä", "(?i)ä", "日|🎈", "a{1,2}", "^a", "a$", r"\bx"}


@given(texts(), PATTERNS, st.booleans())
def test_patterns(probe, x, pattern, ignore_case):
    if pattern == r"\p{Lu}":  # RE2 takes the small letters too, PCRE2 does not
        ignore_case = False
    text, word = quoted(pattern), str(ignore_case)
    for function, arrow in (("match", pc.match_substring_regex), ("find", pc.find_substring_regex),
                            ("count", pc.count_substring_regex)):
        if pattern == "[äé]" and function == "find":  # there pyarrow looks for bytes of these letters, which others have, too
            continue
        check(probe, f"arrow_{function}_regex(x, {text}, {word})", x,
              lambda arrow=arrow: arrow(x, pattern, ignore_case=ignore_case))


@pytest.mark.parametrize("pattern", [r"\w", r"\W", r"[\w]"])
def test_letters_that_fold_to_ascii(probe, pattern):
    """Without regard to case, RE2 takes the long s and the sign of the kelvin for letters."""
    x = pa.array(["\u017f", "\u212a", "s", "-", "\u00e9"])
    for function, arrow in (("match", pc.match_substring_regex), ("count", pc.count_substring_regex)):
        check(probe, f"arrow_{function}_regex(x, {quoted(pattern)}, True)", x, lambda arrow=arrow: arrow(x, pattern, ignore_case=True))


@given(texts(), PATTERNS, st.sampled_from(["", "b", "<\\0>", "\\1", "\\\\", "\\", "\\x", "ä\\0\\0", "\\2"]),
       st.sampled_from([None, 0, 1]))
def test_replace_by_pattern(probe, x, pattern, replacement, most):
    assume(most != 0 or pattern in NEVER_EMPTY)  # pyarrow replaces an empty match once, also where it is told not to
    count = "" if most is None else f", {most}"
    check(probe, f"arrow_replace_regex(x, {quoted(pattern)}, {quoted(replacement)}{count})", x,
          lambda: pc.replace_substring_regex(x, pattern, replacement, max_replacements=most))


@given(texts(), PATTERNS.filter(NEVER_EMPTY.__contains__), st.sampled_from([None, 0, 1, 2]))
def test_split_by_pattern(probe, x, pattern, most):
    count = "" if most is None else f", {most}"
    check(probe, f"arrow_split_regex(x, {quoted(pattern)}{count})", x,
          lambda: pc.split_pattern_regex(x, pattern, max_splits=most))


@given(texts(), PATTERNS)
def test_extract(probe, x, pattern):
    check(probe, f"arrow_extract_regex(x, {quoted(pattern)})", x, lambda: pc.extract_regex(x, pattern))


@given(texts(), TEXTS, st.booleans())
def test_parts(probe, x, part, ignore_case):
    for name, arrow in (("starts_with", pc.starts_with), ("ends_with", pc.ends_with), ("contains", pc.match_substring),
                        ("find_part", pc.find_substring), ("count_part", pc.count_substring)):
        check(probe, f"arrow_{name}(x, {quoted(part)}, {ignore_case})", x,
              lambda arrow=arrow: arrow(x, part, ignore_case=ignore_case))


@given(texts(), st.lists(st.sampled_from(["a", "b", "%", "_", "\\", "A", "ä", ".", "x", "*"]), max_size=5).map("".join),
       st.booleans())
def test_like(probe, x, pattern, ignore_case):
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        pattern += "a"  # pyarrow itself has several answers for a backslash at the end, depending on what is in front of it
    check(probe, f"arrow_like(x, {quoted(pattern)}, {ignore_case})", x,
          lambda: pc.match_like(x, pattern, ignore_case=ignore_case))


@given(texts(), st.sampled_from(["a", "ab", " ", "ä", ","]), st.sampled_from([None, 0, 1, 2]), st.booleans())
def test_split(probe, x, part, most, reverse):
    check(probe, f"arrow_split(x, {quoted(part)}, {most}, {reverse})", x,
          lambda: pc.split_pattern(x, part, max_splits=most, reverse=reverse))
    check(probe, f"arrow_split_whitespace(x, {most}, {reverse})", x,
          lambda: pc.utf8_split_whitespace(x, max_splits=most, reverse=reverse))


SMALL_NUMBERS = st.integers(-9, 9)


@given(texts(), SMALL_NUMBERS, st.one_of(st.none(), SMALL_NUMBERS), st.integers(-3, 3))
def test_slices(probe, x, start, stop, step):
    check(probe, f"arrow_slice(x, {start}, {stop}, {step})", x, lambda: pc.utf8_slice_codeunits(x, start, stop, step))


@given(st.lists(st.one_of(st.none(), st.text("abc", max_size=5)), max_size=8), SMALL_NUMBERS, SMALL_NUMBERS)
def test_replace_slice(probe, values, start, stop):
    x = pa.array(values, pa.string())
    check(probe, f"arrow_replace_slice(x, {start}, {stop}, 'é')", x, lambda: pc.binary_replace_slice(x, start, stop, "é"))


def test_half_a_character_is_refused(probe):
    with pytest.raises(ExprError, match="whole characters"):
        probe.eval("arrow_replace_slice(x, 1, 2, 'a')", {"x": pa.array(["ä"])})


def test_a_pattern_that_explodes_is_stopped(probe):
    with pytest.raises(ExprError, match="gave up"):
        probe.eval("arrow_match_regex(x, '^(a+)+$')", {"x": pa.array(["a" * 4000 + "b"])})


# ---- lists

ITEMS = {
    pa.int64(): st.integers(-5, 5), pa.int8(): st.integers(-128, 127), pa.uint32(): st.integers(0, 9),
    pa.float64(): st.one_of(st.floats(-3, 3), st.just(math.nan), st.just(-0.0)), pa.float32(): st.floats(-3, 3, width=32),
    pa.string(): TEXTS, pa.large_string(): TEXTS, pa.bool_(): st.booleans(), pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(), pa.decimal128(5, 2): st.decimals(-100, 100, places=2),
    pa.binary(): st.binary(max_size=4),
}


@st.composite
def lists(draw, kinds=tuple(ITEMS), nested=False, size=None):
    kind = draw(st.sampled_from(kinds))
    item = st.one_of(st.none(), ITEMS[kind])
    if nested:
        kind, item = pa.list_(kind), st.one_of(st.none(), st.lists(item, max_size=4))
    one = st.lists(item, max_size=20) if size is None else st.lists(item, min_size=size, max_size=size)
    values = draw(st.lists(st.one_of(st.none(), one), max_size=8))
    type = pa.list_(kind, size) if size is not None else draw(st.sampled_from([pa.list_(kind), pa.large_list(kind)]))
    column = pa.array(values, type)
    return column.slice(draw(st.integers(0, len(values)))) if draw(st.booleans()) else column


def sorted_list(value, descending, nulls_first):
    if value is None:
        return None
    present = [v for v in value if v is not None]
    nans = [v for v in present if isinstance(v, float) and math.isnan(v)]
    present = sorted((v for v in present if not (isinstance(v, float) and math.isnan(v))), reverse=descending)
    nulls = [None] * value.count(None)
    return nulls + nans + present if nulls_first else present + nans + nulls


@given(st.one_of(lists(), lists(size=3)), st.booleans(), st.booleans())
def test_list_sort(probe, x, descending, nulls_first):
    # Ray Data's sort: of pyarrow's own sort_indices, which puts NaN beside the nulls.
    order, nulls = "descending" if descending else "ascending", "at_start" if nulls_first else "at_end"
    expected = pa.array([sorted_list(v, descending, nulls_first) for v in x.to_pylist()], x.type)
    check(probe, f"list_sort(x, '{order}', '{nulls}')", x, lambda: expected, forms=[0, SELECTION | SMALL, CONSTANTS])


@given(lists(nested=True))
def test_list_flatten(probe, x):
    expected = [None if v is None else [w for part in v for w in part or ()] for v in x.to_pylist()]
    kind = x.type.value_type.value_type
    type = pa.large_list(kind) if pa.types.is_large_list(x.type) else pa.list_(kind)
    check(probe, "list_flatten(x)", x, lambda: pa.array(expected, type), forms=[0, SELECTION | SMALL, CONSTANTS])


@given(st.one_of(lists(), lists(size=3)), st.integers(-1, 4), st.one_of(st.none(), st.integers(-1, 6)), st.integers(0, 3))
def test_list_slice(probe, x, start, stop, step):
    check(probe, f"arrow_list_slice(x, {start}, {stop}, {step})", x, lambda: pc.list_slice(x, start, stop, step),
          forms=[0, SELECTION | SMALL, CONSTANTS])


@given(lists(size=2), lists())
def test_to_list(probe, fixed, free):
    check(probe, "to_list(x)", fixed, lambda: fixed.cast(pa.list_(fixed.type.value_type)), forms=[0, SELECTION | SMALL])
    check(probe, "to_list(x)", free, lambda: free, forms=[0, SELECTION | SMALL])


@given(st.lists(st.one_of(st.none(), st.lists(st.tuples(st.text("ab", max_size=2), st.one_of(st.none(), st.integers(-9, 9))),
                                              max_size=4)), max_size=6), st.integers(0, 6))
def test_maps(probe, values, begin):
    x = pa.array(values, pa.map_(pa.string(), pa.int64())).slice(min(begin, len(values)))
    for i, name in enumerate(("keys", "values")):
        kind = pa.list_([pa.string(), pa.int64()][i])
        expected = pa.array([None if row is None else [pair[i] for pair in row] for row in x.to_pylist()], kind)
        check(probe, f"map_{name}(x)", x, lambda expected=expected: expected, forms=[0, SELECTION | SMALL, CONSTANTS])


def test_maps_as_lists_of_structs(probe):
    x = pa.array([[{"k": "a", "v": 1}], None, []], pa.list_(pa.struct([("k", pa.string()), ("v", pa.int8())])))
    assert probe.eval("map_keys(x)", {"x": x}).to_pylist() == [["a"], None, []]
    assert probe.eval("map_values(x)", {"x": x}).type == pa.list_(pa.int8())


# ---- times

UNITS = "year quarter month week day hour minute second millisecond microsecond nanosecond".split()
MOMENTS = st.datetimes(datetime.datetime(1850, 1, 1), datetime.datetime(2200, 1, 1))


@st.composite
def moments(draw, zones=(None, "UTC", "Europe/Berlin", "America/New_York", "+05:30"), values=MOMENTS):
    unit, zone = draw(st.sampled_from(["s", "ms", "us", "ns"])), draw(st.sampled_from(zones))
    naive = pa.array(draw(st.lists(st.one_of(st.none(), values), max_size=8)), pa.timestamp("us"))
    return naive.cast(pa.timestamp(unit), safe=False).cast(pa.timestamp(unit, zone))


# A clock that is moved shows some times twice or never; which of them is meant is the zone's test's.
@given(moments(zones=(None, "UTC", "+05:30")), st.sampled_from(UNITS))
def test_rounded_times(probe, x, unit):
    for name, arrow in (("truncate", pc.floor_temporal), ("ceil_time", pc.ceil_temporal), ("round_time", pc.round_temporal)):
        check(probe, f"{name}(x, '{unit}')", x, lambda arrow=arrow: arrow(x, multiple=1, unit=unit))


# pyarrow knows a zone's changes up to 2037.
@given(moments(("Europe/Berlin", "America/New_York"), st.datetimes(datetime.datetime(1950, 1, 1), datetime.datetime(2036, 1, 1))), st.sampled_from(["year", "quarter", "month", "week", "day"]))
def test_rounded_days_in_zones(probe, x, unit):
    for name, arrow in (("truncate", pc.floor_temporal), ("ceil_time", pc.ceil_temporal), ("round_time", pc.round_temporal)):
        check(probe, f"{name}(x, '{unit}')", x, lambda arrow=arrow: arrow(x, multiple=1, unit=unit))


@given(st.lists(st.one_of(st.none(), st.dates()), max_size=6), st.sampled_from(UNITS), st.booleans())
def test_rounded_dates(probe, values, unit, is_long):
    x = pa.array(values, pa.date64() if is_long else pa.date32())
    for name, arrow in (("truncate", pc.floor_temporal), ("ceil_time", pc.ceil_temporal), ("round_time", pc.round_temporal)):
        check(probe, f"{name}(x, '{unit}')", x, lambda arrow=arrow: arrow(x, multiple=1, unit=unit))


CODES = [*"YyCGgmbhBdejVUWaAuwHIMSpFDTRrcxXnt%", "z", "Ey", "Od", "f", "k", "E", "L", "s"]


@given(moments(values=st.datetimes(datetime.datetime(1950, 1, 1), datetime.datetime(2036, 1, 1))),
       st.lists(st.sampled_from([f"%{code}" for code in CODES] + ["a ", "ä"]), max_size=4).map("".join))
def test_strftime(probe, x, pattern):
    check(probe, f"arrow_strftime(x, {quoted(pattern)})", x, lambda: pc.strftime(x, format=pattern))


@given(st.lists(st.one_of(st.none(), st.times()), max_size=5), st.sampled_from(["%H:%M:%S", "%T", "%I %p", "%F", "%X"]))
def test_strftime_of_times(probe, values, pattern):
    for type in (pa.time64("us"), pa.time64("ns")):
        x = pa.array(values, type)
        check(probe, f"arrow_strftime(x, '{pattern}')", x, lambda x=x: pc.strftime(x, format=pattern))


# ---- casts

INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


def cast(probe, x, type, safe, forms=FORMS):
    check(probe, f"arrow_cast(x, '{type}', {safe})", x, lambda: pc.cast(x, type, safe=safe), forms)


def limits(type):
    bits = type.bit_width
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if pa.types.is_signed_integer(type) else (0, (1 << bits) - 1)


@given(st.data(), st.sampled_from(INTS), st.sampled_from(INTS), st.booleans())
def test_cast_integers(probe, data, a, b, safe):
    low, high = limits(a)
    x = pa.array(data.draw(st.lists(st.one_of(st.none(), st.integers(low, high), st.integers(0, 99)), max_size=6)), a)
    cast(probe, x, b, safe)
    cast(probe, x, pa.float64(), safe)
    cast(probe, x, pa.string(), safe)


@given(st.data(), st.sampled_from(INTS), st.booleans())
def test_cast_floats_to_integers(probe, data, type, safe):
    # Outside of the type the answer is any: the two agree on the rest.
    low, high = limits(type)
    values = st.floats(max(low, -(2.0 ** 62)), min(high, 2.0 ** 62) / 2) if safe else st.floats(0, min(high, 2 ** 62) / 2)
    whole = st.integers(0, 100).map(float)
    x = pa.array(data.draw(st.lists(st.one_of(st.none(), values, whole), max_size=6)), pa.float64())
    cast(probe, x, type, safe)


@given(st.lists(st.one_of(st.none(), st.floats(), st.floats(-1e12, 1e12), st.integers(-10 ** 12, 10 ** 12).map(float)), max_size=6))
def test_cast_floats_to_text(probe, values):
    cast(probe, pa.array(values, pa.float64()), pa.string(), True)
    cast(probe, pa.array(values, pa.float64()).cast(pa.float32()), pa.large_string(), True)


@given(st.data(), st.sampled_from([(10, 2), (5, 0), (20, 8)]), st.sampled_from([(10, 2), (12, 1), (38, 0)]))
def test_cast_decimals(probe, data, a, b):
    x = pa.array(data.draw(st.lists(st.one_of(st.none(), st.decimals(-999, 999, places=a[1])), max_size=6)), pa.decimal128(*a))
    cast(probe, x, pa.decimal128(*b), False)
    cast(probe, x, pa.int64(), False)


@given(moments(zones=(None,)), st.sampled_from(["s", "ms", "us", "ns"]), st.booleans())
def test_cast_times(probe, x, unit, safe):
    cast(probe, x, pa.timestamp(unit), safe)
    cast(probe, x.cast(pa.int64()).cast(pa.duration(x.type.unit)), pa.duration(unit), safe)


@given(lists(kinds=(pa.int64(), pa.float64(), pa.int8())), st.sampled_from([pa.int8(), pa.int32(), pa.float32(), pa.string()]),
       st.booleans())
def test_cast_lists(probe, x, type, safe):
    for target in (pa.list_(type), pa.large_list(type)):
        if safe or not pa.types.is_floating(x.type.value_type) or not pa.types.is_integer(type):
            cast(probe, x, target, safe, forms=[0, SELECTION | SMALL, CONSTANTS])


@given(st.lists(st.one_of(st.none(), st.fixed_dictionaries({"a": st.one_of(st.none(), st.integers(-9, 300)), "b": TEXTS})),
                max_size=6), st.integers(0, 6), st.booleans())
def test_cast_structs(probe, values, begin, safe):
    x = pa.array(values, pa.struct([("a", pa.int64()), ("b", pa.string())])).slice(min(begin, len(values)))
    for target in (pa.struct([("a", pa.int8()), ("b", pa.large_string())]), pa.struct([("a", pa.float64())]),
                   pa.struct([("b", pa.string()), ("a", pa.int64()), ("c", pa.int32())])):
        check(probe, f"arrow_cast(x, '{target}', {safe})", x, lambda target=target: pc.cast(x, target, safe=safe),
              forms=[0, SELECTION | SMALL, CONSTANTS])
