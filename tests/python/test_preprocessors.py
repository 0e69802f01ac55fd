"""Preprocessors: the same as formulas on NumPy, whatever the columns; rows, single batches and the engine agree; what is learnt is
saved without pickle. Against Ray 2.60: tests/parity/cases_preprocessors.py."""
import datetime
import decimal
import json
import math
import os
import pickle
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings, strategies as st

import weir
from weir import preprocessors as p
from weir.preprocessor import Preprocessor, PreprocessorNotFittedException, SerializablePreprocessorBase
from weir.preprocessors.version_support import SerializablePreprocessor, UnknownPreprocessorError

NUMBERS = st.one_of(st.none(), st.integers(-(2**40), 2**40), st.floats(-1e6, 1e6).filter(lambda v: v == 0 or abs(v) > 1e-100))
few = settings(max_examples=15, deadline=None)


def column(ds, name="x"):
    return [row[name] for row in ds.take_all()]


def close(found, wanted):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        if b is None or (isinstance(b, float) and math.isnan(b)):
            assert a is None or math.isnan(a), (found, wanted)
        else:
            assert math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9), (found, wanted)


def items(values, name="x"):
    return weir.from_items([{name: value} for value in values])


# ---- formulas ----


@few
@given(st.lists(NUMBERS, min_size=1, max_size=30), st.sampled_from(["StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"]))
def test_scalers_are_their_formulas(values, kind):
    there = np.array([v for v in values if v is not None], float)
    ds = items(values)
    scaler = getattr(p, kind)(["x"]).fit(ds)
    found = column(scaler.transform(ds))
    if not there.size:
        assert found == [None] * len(values)
        return
    if kind == "StandardScaler":
        centre, width = there.mean(), there.std()
        width = 1 if width < 1e-8 else width
    elif kind == "MinMaxScaler":
        centre, width = there.min(), np.ptp(there)
        width = 1 if width < 1e-8 else width
    elif kind == "MaxAbsScaler":
        centre, width = 0, np.abs(there).max() or 1
    else:
        ordered = np.sort(there)
        low, centre, high = (ordered[min(int(q * len(ordered)), len(ordered) - 1)] for q in (0.25, 0.5, 0.75))
        width = high - low
    wanted = [None if v is None else 0.0 if width == 0 else (v - centre) / width for v in values]
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert (a is None) == (b is None) and (b is None or math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6)), (found, wanted)
    # One batch by NumPy is what the engine computes.
    batch = scaler._transform_numpy({"x": np.array([np.nan if v is None else v for v in values], float)})["x"]
    close(batch.tolist(), found)


@few
@given(st.lists(st.one_of(st.text(max_size=4), st.integers(-3, 3)).filter(lambda v: not isinstance(v, str) or "\x00" not in v), min_size=1, max_size=20), st.data())
def test_encoders_are_their_formulas(values, data):
    kind = type(data.draw(st.sampled_from(values)))
    values = [v for v in values if type(v) is kind]
    order = sorted(set(values))
    ds = items(values)
    encoder = p.OrdinalEncoder(["x"]).fit(ds)
    assert encoder.stats_ == {"unique_values(x)": {v: i for i, v in enumerate(order)}}
    assert column(encoder.transform(ds)) == [order.index(v) for v in values]
    label = p.LabelEncoder("x", output_column="y").fit(ds)
    coded = label.transform(ds)
    assert column(coded, "y") == [order.index(v) for v in values] and column(coded) == values
    assert column(label.inverse_transform(coded.select_columns(["y"]))) == values
    hot = p.OneHotEncoder(["x"]).fit(ds)
    wanted = np.eye(len(order), dtype=int)[[order.index(v) for v in values]].tolist()
    late = ds.map_batches(lambda batch: batch)  # whose types are known when the rows come: workers look values up
    assert column(hot.transform(ds)) == wanted == column(hot.transform(late))
    assert hot.transform(ds)._op.is_native and str(hot.transform(ds).schema().types[0]) == str(hot.transform(late).schema().types[0])
    assert column(encoder.transform(late)) == [order.index(v) for v in values]
    lists = [values[:i] for i in range(len(values))] + [values]
    many = p.MultiHotEncoder(["x"]).fit_transform(items(lists))
    assert column(many) == [[part.count(v) for v in order] for part in lists]


@few
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=20), st.lists(st.integers(-100, 100), min_size=2, max_size=80, unique=True), st.booleans(), st.booleans())
def test_bins_are_those_of_a_search(values, edges, right, lowest):
    edges = sorted(edges)
    values = values + [float(e) for e in edges[:3]]

    def place(v):
        for i, (low, high) in enumerate(zip(edges, edges[1:])):
            if (low < v <= high) if right else (low <= v < high):
                return i
        return 0 if right and lowest and v == edges[0] else None

    made = p.CustomKBinsDiscretizer(["x"], edges, right=right, include_lowest=lowest)
    wanted = [place(v) for v in values]
    assert column(made.transform(items(values))) == wanted
    found = made._transform_numpy({"x": np.array(values)})["x"]
    assert [None if v != v else int(v) for v in found.tolist()] == wanted


def test_types_of_bins():
    """Ray Data's: integers, and doubles where a block has a number outside."""
    made = p.CustomKBinsDiscretizer(["x"], [0, 1, 2])
    for values, kind in (([0.5, 1.5], "int64"), ([-1.0, 0.5, 5.0], "double")):
        ds = made.transform(weir.from_items([{"x": value} for value in values], override_num_blocks=1))
        assert [str(found) for found in ds.materialize().schema().types] == [kind]
    everything = p.CustomKBinsDiscretizer(["x"], [-math.inf, 1, math.inf]).transform(items([-1.0, 0.5, 5.0]))
    assert everything._op.is_native and column(everything) == [0, 0, 1]


@few
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20), st.sampled_from(["l1", "l2", "max"]))
def test_norms(rows, norm):
    ds = weir.from_items([{"x": a, "y": b} for a, b in rows])
    found = [(r["x"], r["y"]) for r in p.Normalizer(["x", "y"], norm).transform(ds).take_all()]
    for row, made in zip(rows, found):
        size = np.abs(np.array([v for v in row if v is not None] or [0.0], float))
        whole = {"l1": size.sum(), "l2": math.sqrt((size**2).sum()), "max": size.max()}[norm]
        close(made, [None if v is None else v / whole if whole else math.nan for v in row])


@few
@given(st.lists(NUMBERS, min_size=1, max_size=20), st.sampled_from([-1.5, 0, 0.5, 1, 2, 3]))
def test_powers(values, power):
    values = [None if v is None else v / 1e4 if abs(v) < 1e6 else 1.0 for v in values]

    def one(x, k):
        return math.log(x) if k == 0 else (x**k - 1) / k

    wanted = [None if v is None else one(v + 1, power) if v >= 0 else -one(1 - v, 2 - power) for v in values]
    made = p.PowerTransformer(["x"], power)
    close(column(made.transform(items(values))), wanted)
    close(made._transform_numpy({"x": np.array([np.nan if v is None else v for v in values])})["x"].tolist(), wanted)


@few
@given(st.lists(st.one_of(st.none(), st.text("ab ü", max_size=8)), min_size=1, max_size=15))
def test_texts(texts):
    ds = items(texts)
    assert column(p.Tokenizer(["x"]).transform(ds)) == [None if t is None else t.split(" ") for t in texts]
    counter = p.CountVectorizer(["x"]).fit(ds)
    words = [w for w, _ in counter.stats_["token_counts(x)"].most_common()]
    assert sorted(words) == sorted({w for t in texts if t is not None for w in t.split(" ")})
    assert column(counter.transform(ds)) == [None if t is None else [t.split(" ").count(w) for w in words] for t in texts]
    hashed = column(p.HashingVectorizer(["x"], 5).transform(ds))
    assert [None if h is None else sum(h) for h in hashed] == [None if t is None else len(t.split(" ")) for t in texts]


def test_imputers():
    ds = weir.from_items([{"f": 1.0, "i": 1, "s": "b"}, {"f": None, "i": None, "s": None}, {"f": math.nan, "i": 2, "s": "b"}, {"f": 4.0, "i": 2, "s": "a"}])
    assert column(p.SimpleImputer(["f"]).fit_transform(ds), "f") == [1.0, 2.5, 2.5, 4.0]
    assert column(p.SimpleImputer(["i", "s"], "most_frequent").fit_transform(ds), "i") == [1, 2, 2, 2]
    filled = p.SimpleImputer(["s", "new"], "constant", fill_value="?").transform(ds)
    assert column(filled, "s") == ["b", "?", "b", "a"] and column(filled, "new") == ["?"] * 4
    whole = p.SimpleImputer(["i"], "constant", fill_value=0).transform(ds)
    assert column(whole, "i") == [1, 0, 2, 2] and str(whole.schema().types[1]) == "int64"
    # Behind a function it is only seen when rows come whether the column is there.
    late = ds.map_batches(lambda batch: {"s": batch["s"]})
    assert column(p.SimpleImputer(["s", "new"], "constant", fill_value="?").transform(late), "new") == ["?"] * 4
    with pytest.raises(ValueError, match="Column n has no fill value"):
        p.SimpleImputer(["n"]).fit_transform(weir.from_items([{"n": None}]))


# ---- columns of all kinds ----


def test_other_columns_stay_as_they_are():
    pa = pytest.importorskip("pyarrow")
    when = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc)
    table = pa.table({
        "s": ["b", "a", "b"], "big": pa.array([2**62 + 1, None, 3]), "when": pa.array([when, None, when], pa.timestamp("ns", "UTC")),
        "d": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.25")]), "l": pa.array([[1, None], None, []]),
        "day": pa.array([datetime.date(2024, 1, 1)] * 3), "u": pa.array([1, 2, None], pa.uint8()),
        "st": pa.array([{"a": 1}, None, {"a": None}]), "dict": pa.array(["x", None, "y"]).dictionary_encode()})
    made = p.OneHotEncoder(["s"], output_columns=["hot"]).fit_transform(weir.from_arrow(table))
    back = pa.table(made.to_arrow())
    assert back.drop_columns(["hot"]).to_pylist() == table.to_pylist()
    assert {f.name: str(f.type) for f in back.schema if f.name != "hot"} == {f.name: str(f.type) for f in table.schema}


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint64", "float", "double", "decimal128(9, 2)"])
def test_scalers_take_all_numbers(kind):
    pa = pytest.importorskip("pyarrow")
    from weir._expr_python import arrow_type

    values = [1, 2, None, 4]
    table = pa.table({"x": pa.array([None if v is None else decimal.Decimal(v) for v in values] if "decimal" in kind else values, arrow_type(kind))})
    for made in (p.StandardScaler(["x"]), p.MinMaxScaler(["x"]), p.MaxAbsScaler(["x"]), p.RobustScaler(["x"])):
        found = made.fit_transform(weir.from_arrow(table))
        assert [str(t) for t in found.schema().types] in (["double"], ["DataType(double)"])
        plain = type(made)(["x"]).fit_transform(items([None if v is None else float(v) for v in values]))
        close(column(found), column(plain))


def test_names_with_quotes_and_blanks():
    name = 'a "b" \\ c\'é'
    ds = items([1.0, 3.0], name)
    assert column(p.StandardScaler([name]).fit_transform(ds), name) == [-1.0, 1.0]
    assert column(p.OrdinalEncoder([name], output_columns=[name + "2"]).fit_transform(ds), name + "2") == [0, 1]


def test_columns_may_swap_their_names():
    ds = weir.from_items([{"a": 0.0, "b": 10.0}, {"a": 1.0, "b": 30.0}])
    assert p.MinMaxScaler(["a", "b"], ["b", "a"]).fit_transform(ds).take() == [{"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 1.0}]
    assert p.OrdinalEncoder(["a", "b"], output_columns=["b", "a"]).fit_transform(ds).take() == [{"a": 0, "b": 0}, {"a": 1, "b": 1}]


def test_vectors():
    ds = weir.from_items([{"a": 1, "b": 0.5, "v": [1, 2]}, {"a": 2, "b": None, "v": [3, 4]}])
    found = np.stack(column(p.Concatenator(["b", "a"]).transform(ds), "concat_out"))
    assert found.dtype == np.float64 and np.array_equal(found, [[0.5, 1], [np.nan, 2]], equal_nan=True)
    assert p.Concatenator(["b", "a"]).transform(ds).columns() == ["v", "concat_out"]
    flat = column(p.Concatenator(["a", "v"], dtype=np.float32, flatten=True).transform(ds), "concat_out")
    assert [f.dtype for f in flat] == [np.float32] * 2 and np.stack(flat).tolist() == [[1, 1, 2], [2, 3, 4]]
    ragged = weir.from_items([{"v": [1]}, {"v": [2, 3]}])
    assert [r.tolist() for r in column(p.Concatenator(["v"], flatten=True).transform(ragged), "concat_out")] == [[1], [2, 3]]


def test_vectors_and_texts_that_stay_what_they_are():
    ds = weir.from_items([{"a": 1, "v": np.array([1, 2]), "s": "x"}, {"a": 2, "v": np.array([3, 4]), "s": None}], override_num_blocks=1)
    for number, row in enumerate(p.Concatenator(["a", "v"]).transform(ds).take()):
        assert row["concat_out"][0] == number + 1 and row["concat_out"][1].tolist() == [2 * number + 1, 2 * number + 2]
    assert column(p.Concatenator(["s"]).transform(ds), "concat_out") == [["x"], [None]]
    assert column(p.Concatenator(["a", "s"]).transform(ds), "concat_out") == [[1, "x"], [2, None]]
    with pytest.raises(ValueError, match="no vector of float32: flatten=True"):
        p.Concatenator(["a", "v"], dtype=np.float32).transform(ds).take()


def test_a_table_made_of_a_frame_loses_what_the_frame_said_of_its_dtypes():
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    encoder = p.OrdinalEncoder(["s"]).fit(items(["a", "b"], "s"))
    table = encoder.transform_batch(pa.Table.from_pandas(pd.DataFrame({"s": ["b", "a"], "x": [1, 2]})))
    assert table.to_pandas()["s"].tolist() == [1, 0] and table.to_pandas()["x"].tolist() == [1, 2]


def test_images_of_different_sizes():
    pytest.importorskip("torch")
    images = [np.full((size, size), size, np.uint8) for size in (2, 3)]
    made = p.TorchVisionPreprocessor(["x"], lambda image: image.float() / 2)
    found = column(made.transform(items(images)))
    assert [f.shape for f in found] == [(2, 2), (3, 3)] and found[1].dtype == np.float32 and found[1][0, 0] == 1.5
    assert made.transform_batch({"x": np.stack(images[:1])})["x"].tolist() == [[[1.0, 1.0], [1.0, 1.0]]]
    assert made.transform_batch(np.stack(images[:1])).tolist() == [[[1.0, 1.0], [1.0, 1.0]]]


def test_categories():
    pd = pytest.importorskip("pandas")
    ds = items(["b", None, "a"])
    frame = p.Categorizer(["x"]).fit_transform(ds).to_pandas()
    assert frame["x"].dtype == pd.CategoricalDtype(["a", "b"]) and frame["x"].isna().tolist() == [False, True, False]
    given = pd.CategoricalDtype(["c", "b"], ordered=True)
    frame = p.Categorizer(["x"], dtypes={"x": given}).fit_transform(ds).to_pandas()
    assert frame["x"].dtype == given and frame["x"].astype(object).where(frame["x"].notna(), None).tolist() == ["b", None, None]


def test_ties_go_to_the_first_seen():
    values = ["c", "b", "a", "b", "c", "d", "a"]
    for ds in (items(values), items(values).map_batches(lambda batch: batch)):
        assert p.OneHotEncoder(["x"], max_categories={"x": 2}).fit(ds).stats_ == {"unique_values(x)": {"b": 0, "c": 1}}
        assert p.SimpleImputer(["x"], "most_frequent").fit(ds).stats_ == {"most_frequent(x)": "c"}
    many = weir.range(20_000, override_num_blocks=7).with_column("x", 9_999 - weir.col("id") % 10_000)
    assert list(p.OneHotEncoder(["x"], max_categories={"x": 3}).fit(many).stats_["unique_values(x)"]) == [9_997, 9_998, 9_999]


def test_the_index_of_a_frame_stays():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": [1, 2, 4], "s": ["a", "b", "a"]}, index=[5, 6, 7])
    ds = weir.from_pandas(frame)
    for made in (p.StandardScaler(["x"]), p.OrdinalEncoder(["s"]), p.OneHotEncoder(["s"]), p.Categorizer(["s"]), p.Concatenator(["x"]), p.Tokenizer(["s"]),
                 p.CustomKBinsDiscretizer(["x"], [0, 2, 5], dtypes={"x": pd.CategoricalDtype(["low", "high"])})):
        found = made.fit(ds).transform_batch(frame)
        assert found.index.tolist() == [5, 6, 7] and not found.isna().any().any(), made


# ---- mistakes ----


def test_columns_that_are_not_there():
    ds = weir.from_items([{"price": 1.0, "size": "M"}])
    for made in (p.Normalizer(["prize"]), p.Tokenizer(["prize"]), p.Concatenator(["prize"]), p.CustomKBinsDiscretizer(["prize"], [0, 1])):
        with pytest.raises(KeyError, match=f"{type(made).__name__} needs the column 'prize'.*did you mean 'price'"):
            made.transform(ds)
        with pytest.raises(KeyError, match="needs the column 'prize'"):
            made.transform_batch({"price": np.array([1.0])})
    for made in (p.OrdinalEncoder(["prize"]), p.CountVectorizer(["prize"]), p.SimpleImputer(["prize"]), p.StandardScaler(["prize"]), p.RobustScaler(["prize"])):
        with pytest.raises(ValueError, match="prize"):
            made.fit(ds)
    behind = ds.map_batches(lambda batch: batch)
    with pytest.raises(ValueError, match="prize"):
        p.OrdinalEncoder(["prize"]).fit(behind)
    with pytest.raises(KeyError, match="prize"):
        p.Normalizer(["prize"]).transform(behind).take_all()
    with pytest.raises(KeyError, match="prize"):
        p.Concatenator(["prize"]).transform(behind).take_all()


def test_text_is_no_number():
    with pytest.raises(TypeError):
        p.Normalizer(["x"]).transform(items(["a"])).take_all()
    with pytest.raises(TypeError, match="needs numbers, and column 'x' has the type string"):
        p.Normalizer(["x"]).transform_batch({"x": np.array(["a"], object)})


def test_values_without_an_order():
    with pytest.raises(TypeError, match="no common order"):
        p.OrdinalEncoder(["x"]).fit(weir.from_items([{"x": 1}, {"x": "a"}], override_num_blocks=1))


def test_nulls_need_an_imputer():
    for made in (p.OrdinalEncoder(["x"]), p.OneHotEncoder(["x"]), p.LabelEncoder("x"), p.MultiHotEncoder(["x"])):
        with pytest.raises(ValueError, match="Unable to fit column 'x' because it contains null values"):
            made.fit(items(["a", None]))
        made = type(made)("x" if isinstance(made, p.LabelEncoder) else ["x"]).fit(items(["a", "b"]))
        with pytest.raises(ValueError, match="Unable to transform columns .'x'. because they contain null values"):
            made.transform(items(["a", None])).take_all()
        with pytest.raises(ValueError, match="Unable to transform columns"):
            made.transform_batch({"x": np.array(["a", None], object)})


def test_fit_again_warns_and_replaces():
    scaler = p.MinMaxScaler(["id"]).fit(weir.range(3))
    with pytest.warns(UserWarning, match="All previously fitted state will be overwritten!"):
        scaler.fit(weir.range(5))
    assert scaler.stats_ == {"min(id)": 0, "max(id)": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p.Normalizer(["id"]).fit(weir.range(3)).fit(weir.range(3))


def test_a_fit_that_returns_nothing():
    """As the documentation of Ray showed it up to 2.9."""
    class Scaled(weir.preprocessor.Preprocessor):
        def _fit(self, ds):
            self.stats_ = {"most": ds.max("id")}

        def _transform_pandas(self, frame):
            return frame * self.stats_["most"]

    scaled = Scaled()
    assert scaled.fit_transform(weir.range(3)).take_all() == [{"id": 0}, {"id": 2}, {"id": 4}]
    assert scaled.fit_status() == scaled.FitStatus.FITTED


def test_fields_cannot_be_set():
    with pytest.raises(AttributeError, match="cannot be changed"):
        p.MinMaxScaler(["a"]).columns = ["b"]


def test_nothing_is_run_by_transform():
    ran = weir.range(3).map_batches(lambda batch: 1 / 0)
    p.Normalizer(["id"]).transform(ran)
    p.OneHotEncoder(["id"]).fit(weir.range(3)).transform(ran)
    p.MultiHotEncoder(["id"]).fit(weir.range(3)).transform(ran)


def same_value(a, b):
    if isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)
    return a == b


VECTORS = [
    lambda: p.Concatenator(["d", "i"]), lambda: p.Concatenator(["i", "k"]), lambda: p.Concatenator(["k", "i", "d", "k"], "v", np.float32),
    lambda: p.Concatenator(["k"], dtype="float64"), lambda: p.Concatenator(["d"], flatten=True),
    lambda: p.FeatureHasher(["i", "k"], 3, "h"), lambda: p.FeatureHasher(["i", "d", "k"], 2, "h"), lambda: p.FeatureHasher(["i"], 40, "i"),
    lambda: p.HashingVectorizer(["t"], 7), lambda: p.HashingVectorizer(["t", "t"], 3, output_columns=["one", "two"]),
    lambda: p.CountVectorizer(["t"]), lambda: p.CountVectorizer(["t"], max_features=2, output_columns=["c"]),
    lambda: p.MultiHotEncoder(["l"]), lambda: p.MultiHotEncoder(["n", "l"], output_columns=["n", "hot"]),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize("make", VECTORS)
@pytest.mark.parametrize("has_nulls", [False, True])
def test_vectors_of_the_engine_are_those_of_workers(make, has_nulls):
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(3)
    words = ["to", "be", "or", "", "nöt", "a word that is rather long"]

    def some(value):
        return None if has_nulls and rng.random() < 0.2 else value

    rows = [{"i": some(int(rng.integers(-9, 9))), "k": int(rng.integers(0, 2**40)), "d": some(float(rng.normal())),
             "t": some(" ".join(rng.choice(words, 5))), "l": [str(w) for w in rng.choice(words, 3)], "n": [int(v) for v in rng.integers(0, 5, 4)]}
            for _ in range(300)]
    ds = weir.from_items(rows)
    made = make().fit(ds) if make()._is_fittable else make()
    mine, theirs = made.transform(ds), made.transform(ds.map_batches(lambda batch: batch, batch_format="pyarrow"))
    assert mine._op.is_native and not theirs._op.is_native
    assert mine.columns() == theirs.columns()
    for a, b in zip(mine.take_all(), theirs.take_all(), strict=True):
        for name in made.get_output_columns():
            assert same_value(a[name], b[name]), (name, a[name], b[name])
    assert [str(t) for t in mine.schema().types] == [str(t) for t in theirs.schema().types] or has_nulls


def test_vectors_that_workers_make():
    ds = weir.from_items([{"x": 1, "b": True, "s": "1.5", "l": [1, 2], "m": [[1]]}])
    for made in (p.Concatenator(["x", "b"]), p.Concatenator(["x", "s"]), p.Concatenator(["x", "l"], flatten=True), p.Concatenator(["x"], "x"),
                 p.Concatenator(["x"], dtype=np.float16), p.HashingVectorizer(["s"], 3, str.split), p.HashingVectorizer(["s"], 20_000),
                 p.FeatureHasher(["x"], 5_000, "h"), p.MultiHotEncoder(["s"]), p.MultiHotEncoder(["m"]), p.CountVectorizer(["s"], str.split)):
        done = (made.fit(ds) if made._is_fittable else made).transform(ds)
        assert not done._op.is_native and done.count() == 1, made


def test_the_engine_does_the_work():
    ds = weir.from_items([{"x": 1.0, "y": 2.0, "t": "a b"}])
    for made in (p.StandardScaler(["x"]), p.MinMaxScaler(["x"]), p.MaxAbsScaler(["x"]), p.RobustScaler(["x"]), p.SimpleImputer(["x"]),
                 p.CustomKBinsDiscretizer(["x"], [-math.inf, 1, math.inf]), p.UniformKBinsDiscretizer(["x"], 3), p.Normalizer(["x", "y"]), p.PowerTransformer(["x"], 2),
                 p.Tokenizer(["t"]), p.OrdinalEncoder(["x", "t"]), p.OneHotEncoder(["t"]), p.LabelEncoder("t"),
                 p.Concatenator(["x", "y"]), p.FeatureHasher(["x", "y"], 9, "h"), p.HashingVectorizer(["t"], 9), p.CountVectorizer(["t"])):
        assert made.fit(ds).transform(ds)._op.is_native, made


# ---- batches ----


def test_batches_of_every_format():
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    ds = weir.from_items([{"x": 0.0, "c": "a"}, {"x": 4.0, "c": "b"}])
    scaler, encoder = p.MinMaxScaler(["x"]).fit(ds), p.OrdinalEncoder(["c"]).fit(ds)
    frame = pd.DataFrame({"x": [2.0], "c": ["b"], "other": [datetime.date(2024, 1, 1)]}, index=[7])
    found = scaler.transform_batch(frame)
    assert found["x"].tolist() == [0.5] and found.index.tolist() == [7] and frame["x"].tolist() == [2.0] and list(found.columns) == ["x", "c", "other"]
    assert encoder.transform_batch(frame)["c"].tolist() == [1]
    arrow = frame.convert_dtypes(dtype_backend="pyarrow")
    assert str(encoder.transform_batch(arrow)["c"].dtype) == "int64[pyarrow]"
    table = pa.table({"x": [2.0], "c": ["new"]})
    assert encoder.transform_batch(table).to_pylist() == [{"x": 2.0, "c": None}]
    assert isinstance(scaler.transform_batch(table), pd.DataFrame) and isinstance(scaler.transform_batch({"x": np.array([1.0])}), pd.DataFrame)
    assert isinstance(encoder.transform_batch({"c": np.array(["a"])}), pa.Table)
    nulls = pa.table({"x": [2.0, None, math.nan], "y": [None, 1, 2]})
    standard = p.StandardScaler(["x", "y"]).fit(weir.from_items([{"x": 0.0, "y": 0}, {"x": 4.0, "y": 2}]))
    assert [str(row) for row in standard.transform_batch(nulls).to_pylist()] == [str(row) for row in standard.transform(weir.from_arrow(nulls)).take_all()]
    assert standard.transform_batch(nulls)["x"].null_count == 1
    chain = p.Chain(scaler, p.Concatenator(["x"], "v"), encoder)
    assert chain.transform_batch(frame).columns.tolist() == ["c", "other", "v"]
    empty = scaler.transform_batch(frame.iloc[:0])
    assert len(empty) == 0 and list(empty.columns) == ["x", "c", "other"]
    for wrong in ([1], "text", None, 5):
        with pytest.raises(ValueError, match="transform_batch"):
            scaler.transform_batch(wrong)


def test_a_frame_keeps_its_kind_of_arrays():
    pd = pytest.importorskip("pandas")
    ds = weir.from_items([{"x": 0, "c": "a"}, {"x": 4, "c": "b"}])
    scaler, encoder = p.MinMaxScaler(["x"], ["y"]).fit(ds), p.OrdinalEncoder(["c"]).fit(ds)
    plain = pd.DataFrame({"x": [1, 2], "c": ["b", "new"]})
    for backend, (number, code) in {None: ("float64", "float64"), "numpy_nullable": ("Float64", "Int64"), "pyarrow": ("double[pyarrow]", "int64[pyarrow]")}.items():
        frame = plain if backend is None else plain.convert_dtypes(dtype_backend=backend)
        found = encoder.transform_batch(scaler.transform_batch(frame))
        assert (str(found["y"].dtype), str(found["c"].dtype)) == (number, code) and found["y"].tolist() == [0.25, 0.5]
        assert found["c"].iloc[0] == 1 and pd.isna(found["c"].iloc[1]) and str(found["x"].dtype) == str(frame["x"].dtype)


def test_new_columns_beside_those_of_a_batch():
    batch = next(iter(weir.range(3)._new_run()))
    made = batch.with_columns({"n": np.arange(3) * 2.0, "id": [None, "x", None], "l": [[1], [], None]})
    assert made.names == ["id", "n", "l"] and made.rows()[1] == {"id": "x", "n": 2.0, "l": []} and batch.names == ["id"]
    numbers = made.column("n")
    del made, batch
    assert numbers.tolist() == [0.0, 2.0, 4.0]
    for wrong in ({"n": [1]}, {"n": 5}, [1]):
        with pytest.raises(ValueError):
            next(iter(weir.range(3)._new_run())).with_columns(wrong)


def test_without_pandas_and_pyarrow():
    code = """
        import sys
        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("pandas", "pyarrow", "torch"):
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        sys.meta_path.insert(0, Refuse())
        import importlib.util
        real = importlib.util.find_spec
        importlib.util.find_spec = lambda name, package=None: None if name in ("pandas", "pyarrow") else real(name, package)
        import numpy as np, weir
        from weir.preprocessors import *
        ds = weir.from_items([{"x": 1.0, "c": "a", "t": "u v"}, {"x": None, "c": "b", "t": "v"}, {"x": 3.0, "c": "a", "t": ""}])
        chain = Chain(SimpleImputer(["x"]), StandardScaler(["x"], ["z"]), OneHotEncoder(["c"]), CountVectorizer(["t"]),
                      UniformKBinsDiscretizer(["x"], 2), Concatenator(["x", "z"], "v"))
        print([(list(row["c"]), row["t"], [round(v, 3) for v in row["v"].tolist()]) for row in chain.fit_transform(ds).take()])
        print(StandardScaler(["x"]).fit(ds).transform_batch({"x": np.array([2.0])}))
        print(Chain.deserialize(chain.serialize()))
        assert not {"pandas", "pyarrow"} & set(sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "[([1, 0], [1, 1, 0], [0.0, -1.225]), ([0, 1], [1, 0, 0], [0.0, 0.0]), ([1, 0], [0, 0, 1], [1.0, 1.225])]"
    assert lines[1] == "{'x': array([0.])}" and lines[2].startswith("Chain(SimpleImputer(")


# ---- keeping ----

SAVED = [
    lambda: p.StandardScaler(["x"]), lambda: p.MinMaxScaler(["x"], ["y"]), lambda: p.MaxAbsScaler(["x"]), lambda: p.RobustScaler(["x"], (0.1, 0.9)),
    lambda: p.OrdinalEncoder(["c"]), lambda: p.OneHotEncoder(["c"], max_categories={"c": 1}), lambda: p.MultiHotEncoder(["l"]), lambda: p.LabelEncoder("c"),
    lambda: p.SimpleImputer(["x"]), lambda: p.SimpleImputer(["c"], "constant", "?"), lambda: p.UniformKBinsDiscretizer(["x"], 2),
    lambda: p.CustomKBinsDiscretizer(["x"], np.array([0, 1, 9])), lambda: p.Normalizer(["x"]), lambda: p.PowerTransformer(["x"], 2), lambda: p.Tokenizer(["t"]),
    lambda: p.CountVectorizer(["t"], str.split), lambda: p.HashingVectorizer(["t"], 3), lambda: p.FeatureHasher(["x"], 2, "h"),
    lambda: p.Concatenator(["x"], dtype=np.float32), lambda: p.Chain(p.StandardScaler(["x"]), p.LabelEncoder("c"), p.Normalizer(["x"])),
]
DATA = [{"x": 1.5, "c": "ü", "l": ["a", "b"], "t": "u v"}, {"x": 9.0, "c": "b\n\"", "l": [], "t": "v"}]


@pytest.mark.parametrize("make", SAVED, ids=lambda make: type(make()).__name__)
def test_saved_and_loaded(make, tmp_path):
    ds = weir.from_items(DATA)
    made = make().fit(ds)
    wanted = str(made.transform(ds).take())
    data = made.serialize()
    head, _, body = data.partition(b"\n")
    assert head == b"WEIR-PREPROCESSOR 1"
    json.loads(body)
    for again in (Preprocessor.deserialize(data), type(made).deserialize(data), pickle.loads(pickle.dumps(made))):
        assert type(again) is type(made) and repr(again) == repr(made) and again.fit_status() == made.fit_status()
        assert str(again.stats_) == str(made.stats_) and str(again.transform(ds).take()) == wanted
    assert Preprocessor.deserialize(data).serialize() == data
    made.save(tmp_path / "it")
    assert os.listdir(tmp_path) == ["it"] and repr(Preprocessor.load(tmp_path / "it")) == repr(made)


@pytest.mark.parametrize("values", [[datetime.datetime(2024, 1, 1, 2), datetime.datetime(2024, 1, 2)], [datetime.date(2024, 1, 1)], [decimal.Decimal("1.5")],
                                    [b"\x00\xff"], [True, False], [1.5, float("inf"), -float("inf")], [2**60, -(2**60)], [(1, 2), (3,)], ["a\u2028b", ""]])
def test_categories_of_all_kinds_are_saved(values):
    ds = items([list(v) if isinstance(v, tuple) else v for v in values])
    encoder = p.OrdinalEncoder(["x"], encode_lists=False).fit(ds)
    again = Preprocessor.deserialize(encoder.serialize())
    assert again.stats_ == encoder.stats_ == {"unique_values(x)": {v: i for i, v in enumerate(sorted(values))}}
    assert column(again.transform(ds)) == [sorted(values).index(v) for v in values]


def test_sets_as_keys_are_saved():
    made = p.OrdinalEncoder(["x"]).fit(items(["a"]))
    made.stats_ = {"unique_values(x)": {frozenset([1, 2]): 0, (frozenset(["a"]), 1): 1}, "others": {1, 2}}
    again = Preprocessor.deserialize(made.serialize())
    assert again.stats_ == made.stats_ and type(again.stats_["others"]) is set


def test_pandas_types_are_saved():
    pd = pytest.importorskip("pandas")
    made = p.Categorizer(["c"], dtypes={"c": pd.CategoricalDtype(["b", "a"], ordered=True)})
    again = Preprocessor.deserialize(made.fit(items(["a"], "c")).serialize())
    assert again.dtypes == made.dtypes and again.stats_ == made.stats_
    bins = p.CustomKBinsDiscretizer(["x"], pd.IntervalIndex.from_breaks([0, 1, 5]))
    assert Preprocessor.deserialize(bins.serialize()).bins.equals(bins.bins)


class Evil:
    def __reduce__(self):
        return os._exit, (7,)


def test_pickles_of_an_older_ray_are_read():
    """Their arguments stand under their own names, and those that came later are not there."""
    ds = weir.from_items([{"a": 1.0, "t": "x y"}, {"a": 3.0, "t": "y"}])
    scaler = p.StandardScaler(["a"], output_columns=["b"]).fit(ds)
    old = {(key[1:] if key in ("_columns", "_output_columns") else key): value for key, value in scaler.__getstate__().items()}
    assert "columns" in old and "_columns" not in old

    def again(kind, state):
        made = kind.__new__(kind)
        made.__setstate__(state)
        return made

    assert again(p.StandardScaler, old).transform(ds).take_all() == scaler.transform(ds).take_all()
    assert again(p.Chain, {"preprocessors": (again(p.StandardScaler, old),)}).transform(ds).take_all() == scaler.transform(ds).take_all()
    del old["output_columns"]
    assert again(p.StandardScaler, old).output_columns == ["a"]
    tokens = again(p.Tokenizer, {"columns": ["t"]})
    assert [row["t"] for row in tokens.transform(ds).take_all()] == [["x", "y"], ["y"]]
    assert again(p.LabelEncoder, {"label_column": "t"}).output_column == "t"


def test_one_of_an_old_pickle_is_saved_without_what_it_lacks():
    from weir.preprocessors import Concatenator

    old = Concatenator(columns=["a"], flatten=True)
    del old._flatten  # which is younger than the pickle
    made = Concatenator.deserialize(old.serialize())
    assert made.flatten is False and made.columns == ["a"]


def test_pickles_of_others_are_refused(tmp_path):
    made = p.Tokenizer(["t"], tokenization_fn=lambda text: text.split("-"))
    data = made.serialize()
    assert data.startswith(b"WEIR-PICKLED 1\n")
    ds = weir.from_items([{"t": "a-b"}])
    assert Preprocessor.deserialize(data).transform(ds).take() == [{"t": ["a", "b"]}]
    evil = pickle.dumps(Evil())
    changed = data[:15] + b"\0" * 32 + data[47:]
    import base64

    for bad in (b"CPKL:" + evil, b"WEIR-PICKLED 1\n" + b"\0" * 32 + evil, changed, data[:-1], base64.b64encode(b"WEIR-PICKLED 1\n" + b"\0" * 32 + evil).decode(),
                base64.b64encode(evil).decode(), evil):
        with pytest.raises(ValueError, match="Failed to deserialize preprocessor"):
            Preprocessor.deserialize(bad)
    assert Preprocessor.deserialize(changed, allow_pickle=True).transform(ds).take() == [{"t": ["a", "b"]}]
    (tmp_path / "it").write_bytes(changed)
    with pytest.raises(ValueError, match="allow_pickle=True"):
        Preprocessor.load(tmp_path / "it")
    assert isinstance(Preprocessor.load(tmp_path / "it", allow_pickle=True), p.Tokenizer)


def test_rays_bytes_can_be_read_by_who_trusts_them():
    meta = {"type": "io.ray.preprocessors.min_max_scaler", "version": 1, "serializer_format_version": 1,
            "fields": {"columns": ["id"], "output_columns": ["id"], "_fitted": True}, "stats": {"min(id)": 0, "max(id)": 2}}
    data = b"CPKL:" + pickle.dumps(meta)
    with pytest.raises(ValueError, match="that Ray Data made"):
        Preprocessor.deserialize(data)
    assert Preprocessor.deserialize(data, allow_pickle=True).transform(weir.range(3)).take() == [{"id": 0.0}, {"id": 0.5}, {"id": 1.0}]
    older = {"type": "io.ray.preprocessors.concatenator", "version": 1, "serializer_format_version": 1, "stats": None,
             "fields": {"columns": ["id"], "output_column_name": "v", "dtype": None, "raise_if_missing": False}}
    assert Preprocessor.deserialize(b"CPKL:" + pickle.dumps(older), allow_pickle=True).flatten is False


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_changed_bytes_are_an_error_and_nothing_else(data):
    whole = p.Chain(p.CustomKBinsDiscretizer(["x"], np.array([0.0, 1.0])), p.Tokenizer(["t"]), p.Concatenator(["x"], dtype=np.float32)).serialize()
    at = data.draw(st.integers(0, len(whole) - 1))
    bad = whole[:at] + bytes([data.draw(st.integers(0, 255))]) + whole[at + data.draw(st.integers(0, 3)):]
    try:
        assert isinstance(Preprocessor.deserialize(bad), Preprocessor)
    except ValueError:
        pass


@pytest.mark.parametrize("text", ["{}", "[]", "7", '{"type": 3}', '{"type": "os.system"}', '{"type": "io.ray.preprocessors.normalizer"}',
                                  '{"type": "io.ray.preprocessors.normalizer", "version": 1, "serializer_format_version": 2, "fields": {}, "stats": {"$dict": []}}',
                                  '{"type": "io.ray.preprocessors.normalizer", "version": 9, "serializer_format_version": 1, "fields": {}, "stats": {"$dict": []}}',
                                  '{"type": "io.ray.preprocessors.tokenizer", "version": 1, "serializer_format_version": 1, "fields": {"columns": [], '
                                  '"tokenization_fn": {"$function": "eval"}, "output_columns": []}, "stats": {"$dict": []}}'])
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match="Failed to deserialize|Unknown preprocessor type: os.system"):
        Preprocessor.deserialize(b"WEIR-PREPROCESSOR 1\n" + text.encode())


def test_kinds_of_ones_own():
    @SerializablePreprocessor(version=3, identifier="tests.own")
    class Own(SerializablePreprocessorBase):
        _is_fittable = False

        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def _transform_numpy(self, batch):
            return {"id": batch["id"] * self.factor}

        def _get_serializable_fields(self):
            return {"factor": self.factor}

        def _set_serializable_fields(self, fields, version):
            self.factor, self.version = fields["factor"], version

    data = Own(3).serialize()
    again = Preprocessor.deserialize(data)
    assert (again.factor, again.version) == (3, 3) and column(again.transform(weir.range(3)), "id") == [0, 3, 6]
    assert isinstance(Preprocessor.deserialize(p.Chain(Own(2)).serialize()).preprocessors[0], Own)
    with pytest.raises(UnknownPreprocessorError, match="Unknown preprocessor type: tests.other") as caught:
        Preprocessor.deserialize(data.replace(b"tests.own", b"tests.other"))
    assert caught.value.preprocessor_type == "tests.other"
    with pytest.raises(TypeError, match="must inherit"):
        SerializablePreprocessor(version=1, identifier="x")(int)


def test_a_class_made_of_a_scaler():
    class Doubled(p.MinMaxScaler):
        def _transform_numpy(self, batch):
            return {"id": batch["id"] * 2}

    assert column(Doubled(["id"]).fit_transform(weir.range(3)), "id") == [0, 2, 4]
    assert Doubled(["id"]).fit(weir.range(3)).transform_batch({"id": np.array([5])})["id"].tolist() == [10]


def test_not_fitted():
    scaler = p.StandardScaler(["id"])
    for call in (lambda: scaler.transform(weir.range(1)), lambda: scaler.transform_batch({"id": np.array([1])}), lambda: p.LabelEncoder("id").inverse_transform(weir.range(1))):
        with pytest.raises(PreprocessorNotFittedException, match="`fit` must be called before"):
            call()


def test_arguments_reach_the_workers():
    encoder = p.MultiHotEncoder(["id"]).fit(weir.range(4))
    spec = encoder.transform(weir.range(4), batch_size=2, num_cpus=0.5, memory=1 << 20, concurrency=1)._op.spec
    assert (spec.batch_size, spec.num_cpus, spec.memory) == (2, 0.5, 1 << 20)
    with pytest.raises(ValueError, match="batch_size"):
        p.StandardScaler(["id"]).fit(weir.range(4)).transform(weir.range(4), batch_size=0)


def test_one_pass_for_all_aggregates(tmp_path):
    log = tmp_path / "log"

    def note(batch):
        with open(log, "a") as file:
            file.write("x")
        return {"a": batch["id"], "b": batch["id"] * 2}

    ds = weir.range(10).map_batches(note, batch_size=10)
    for made in (p.StandardScaler(["a", "b"]), p.MinMaxScaler(["a", "b"]), p.UniformKBinsDiscretizer(["a", "b"], 2), p.OrdinalEncoder(["a", "b"])):
        before = len(log.read_text()) if log.exists() else 0
        made.fit(ds)
        assert len(log.read_text()) == before + 1, made


def test_plans_name_the_preprocessors():
    """One step in texts and figures, whatever the engine makes of it."""
    ds = weir.from_items([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    made = p.Chain(p.StandardScaler(["a"]), p.Concatenator(["a", "b"])).fit_transform(ds)
    assert repr(made).splitlines()[:2] == ["Concatenator", "+- StandardScaler"] and len(repr(made).splitlines()) == 3
    text = p.MinMaxScaler(["a"]).fit_transform(ds).materialize().stats()
    assert "MinMaxScaler" in text and "Project" not in text
