"""index_in, one_hot and fail: places of values, vectors of places, errors on demand; in all forms of columns, as test_expr.py has them."""
import math

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


def test_mistakes(probe):  # noqa: F811
    columns = {"i": pa.array([1]), "s": pa.array(["a"]), "l": pa.array([[1]])}
    for text in ("index_in(s, 1)", "index_in(l, 1)", "index_in(i, i)", "one_hot(i, i)", "one_hot(i, -1)", "fail(s, i)", "fail('x')", "index_in()"):
        with pytest.raises(base.ExprError):
            probe.run(text, columns, 0, seed=7)
