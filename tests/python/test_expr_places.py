"""index_in, one_hot, vector, counts and fail: places of values, vectors, errors on demand; in all forms of columns, as test_expr.py has them."""
import hashlib
import math
import struct

import pyarrow as pa
import pytest
import test_expr as base
from hypothesis import given, strategies as st
from test_expr import probe  # noqa: F401  a fixture


@pytest.mark.parametrize("count", [1, 3, 12, 200])
@given(st.data())
def test_places(probe, count, data):  # noqa: F811
    columns, lists = data.draw(base.table(i=(pa.int64(), st.integers(-20, 20)), s=(pa.string(), base.TEXTS), f=(pa.float64(), st.floats(0, 8)),
                                          b=(pa.bool_(), st.booleans()), u=(pa.uint8(), st.integers(0, 30))))
    numbers = data.draw(st.lists(st.integers(-20, 20), min_size=count, max_size=count)) + [10**12]
    texts = data.draw(st.lists(base.TEXTS, min_size=1, max_size=12))
    reals = [0.0, 1.5, math.inf, 3.0, 4.0, 5.0, 6.0, 7.0][:max(2, count)]

    def places(text, members, name):
        first = lambda v: next((at for at, member in enumerate(members) if member == v), None)
        base.check(probe, f"index_in({name}, {text})", columns, base.rows_of(first, lists[name]), pa.int64())

    places(", ".join(map(str, numbers)), numbers, "i")
    places(", ".join(map(str, numbers)), numbers, "u")
    places(", ".join(map(base.quoted, texts)), texts, "s")
    places(", ".join("1e999" if math.isinf(r) else repr(r) for r in reals), reals, "f")
    places("False", [False], "b")
    places("True, False", [True, False], "b")
    base.check(probe, "one_hot(i, 3)", columns, base.rows_of(lambda v: [int(v == k) for k in range(3)], lists["i"]), pa.list_(pa.uint8(), 3))
    base.check(probe, "i if i > 0 else fail('too small', i)", columns, base.rows_of(lambda v: v if v > 0 else base.Failure(base.VALUE), lists["i"]),
               pa.int64())


def simple_hash(text, count):
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big") % count


@given(st.data())
def test_vectors(probe, data):  # noqa: F811
    columns, lists = data.draw(base.table(i=(pa.int64(), st.integers(-20, 20)), u=(pa.uint8(), st.integers(0, 30)), f=(pa.float32(), st.floats(0, 8, width=32)),
                                          d=(pa.float64(), st.floats(-1e300, 1e300))))

    def beside(kind, *names):
        return [[kind(lists[name][row]) for name in names] for row in range(len(lists["i"]))]

    real = lambda v: math.nan if v is None else float(v)
    single = lambda v: math.nan if v is None else struct.unpack("f", struct.pack("f", v))[0]
    base.check(probe, "vector('double', i, d, f)", columns, beside(real, "i", "d", "f"), pa.list_(pa.float64(), 3))
    base.check(probe, "vector('float', f, u)", columns, beside(single, "f", "u"), pa.list_(pa.float32(), 2))
    base.check(probe, "vector('int64', i, u, i)", columns, beside(lambda v: v, "i", "u", "i"), pa.list_(pa.int64(), 3))
    base.check(probe, "vector('uint8', u)", columns, beside(lambda v: v, "u"), pa.list_(pa.uint8(), 1))


TOKENS = st.one_of(st.sampled_from(["", "a", "b", "c", "to be", "a token that is longer than a view"]), st.text(max_size=70))


@given(st.data())
def test_counts(probe, data):  # noqa: F811
    columns, lists = data.draw(base.table(t=(pa.list_(pa.string()), st.lists(st.one_of(st.none(), TOKENS), max_size=6)),
                                          n=(pa.list_(pa.int16()), st.lists(st.integers(-3, 3), max_size=6))))
    members = data.draw(st.lists(TOKENS, min_size=1, max_size=9, unique=True))
    count = data.draw(st.integers(1, 50))

    def hashed(tokens):
        places = [simple_hash(token, count) for token in tokens if token is not None]
        return [places.count(place) for place in range(count)]

    kind = pa.list_(pa.int64())
    base.check(probe, f"counts_in(t, {', '.join(map(base.quoted, members))})", columns,
               base.rows_of(lambda v: [v.count(member) for member in members], lists["t"]), kind)
    base.check(probe, "counts_in(n, 2, -1, 100000)", columns, base.rows_of(lambda v: [v.count(2), v.count(-1), 0], lists["n"]), kind)
    base.check(probe, f"hashed_counts(t, {count})", columns, base.rows_of(hashed, lists["t"]), kind)


def test_mistakes(probe):  # noqa: F811
    columns = {"i": pa.array([1]), "s": pa.array(["a"]), "l": pa.array([[1]])}
    for text in ("index_in(s, 1)", "index_in(l, 1)", "index_in(i, i)", "one_hot(i, i)", "one_hot(i, -1)", "fail(s, i)", "fail('x')", "index_in()",
                 "vector(i, i)", "vector('string', s)", "vector('int8', 1000)", "vector('float', s)", "vector('float')", "counts_in(i, 1)", "counts_in(l, 'a')",
                 "counts_in(l, i)", "counts_in(l, 1, 1)", "hashed_counts(l, 3)", "hashed_counts(i, 3)", "hashed_counts(split(s, ' '), 0)"):
        with pytest.raises(base.ExprError):
            probe.run(text, columns, 0, seed=7)
