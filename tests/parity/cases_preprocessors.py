"""Preprocessors: what they learn, what they make of rows and of single batches, and their mistakes."""
import math
import warnings

import parity
from parity import case, sub

NAN = float("nan")
ROWS = [
    {"i": 4, "f": 0.5, "s": "b", "z": 0, "l": ["x", "y"], "n": None, "k": 7, "o": 1.5, "t": "a b a", "v": [1, 2], "b": True},
    {"i": -2, "f": -1.5, "s": "a", "z": 0, "l": ["y"], "n": None, "k": 7, "o": None, "t": "b", "v": [3, 4], "b": False},
    {"i": 7, "f": 2.25, "s": "ü", "z": 0, "l": [], "n": None, "k": 7, "o": 4.0, "t": "", "v": [5, 6], "b": True},
    {"i": 4, "f": 10.0, "s": "b", "z": 0, "l": ["x", "x", "z"], "n": None, "k": 7, "o": 2.5, "t": "c  a", "v": [1, 2], "b": True},
]
UNSEEN = [
    {"i": 100, "f": -50.0, "s": "new", "z": 1, "l": ["new", "x"], "k": 8, "o": 0.5, "t": "d a", "v": [9, 9], "b": False},
    {"i": 4, "f": 0.5, "s": "b", "z": 0, "l": ["y"], "k": 7, "o": 1.0, "t": "a", "v": [1, 2], "b": True},
]
HOLES = [{"i": 1, "f": 0.5, "s": "b", "t": "a b"}, {"i": None, "f": None, "s": None, "t": None}, {"i": 3, "f": NAN, "s": "a", "t": "b"}]


def rows(data, which=ROWS):
    return data.from_items([dict(row) for row in which], override_num_blocks=1)


def make(data, text):
    return eval(text, {**vars(sub(data, "preprocessors")), "np": __import__("numpy"), "pd": __import__("pandas")})


def plain(value):
    """stats_ of any kind."""
    if hasattr(value, "most_common"):
        return {"counter": sorted([str(k), int(v)] for k, v in value.items())}
    if isinstance(value, dict):
        return [[plain(k), plain(v)] for k, v in value.items()]
    if isinstance(value, tuple):
        return {"tuple": [plain(v) for v in value]}
    if type(value).__name__ == "CategoricalDtype":
        return {"categories": [plain(v) for v in value.categories.tolist()], "ordered": value.ordered}
    if type(value).__name__ == "ndarray":
        return [plain(v) for v in value.tolist()]
    if type(value).__module__ == "numpy":
        return value.item()
    return value


def values(row):
    """A row whose arrays and lists are alike: which of them it is depends on how blocks are kept."""
    return {k: flat(v) for k, v in row.items()}


def flat(value):
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [flat(v) for v in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and abs(value - round(value)) < 1e-12:
        return round(value)  # what rounding leaves of 0 is 0
    return value


SCALERS = ["StandardScaler(['i', 'f'])", "StandardScaler(['i'], output_columns=['i2'])", "StandardScaler(['k'])", "StandardScaler(['o'])",
           "StandardScaler(['n'])", "StandardScaler(['f', 'i'], ['i', 'f'])",
           "MinMaxScaler(['i', 'f'])", "MinMaxScaler(['i'], output_columns=['i2'])", "MinMaxScaler(['k'])", "MinMaxScaler(['o'])", "MinMaxScaler(['n'])",
           "MaxAbsScaler(['i', 'f'])", "MaxAbsScaler(['z'])", "MaxAbsScaler(['o'], output_columns=['p'])", "MaxAbsScaler(['n'])"]
ROBUST = ["RobustScaler(['i', 'f'])", "RobustScaler(['i'], (0.1, 0.9))", "RobustScaler(['z'])", "RobustScaler(['o'], output_columns=['p'])",
          "RobustScaler(['n'])", "RobustScaler(['i'], quantile_precision=100)"]
ENCODERS = ["OrdinalEncoder(['s'])", "OrdinalEncoder(['s', 'i'], output_columns=['s2', 'i2'])", "OrdinalEncoder(['l'])",
            "OrdinalEncoder(['l'], encode_lists=False)", "OrdinalEncoder(['v'])", "OrdinalEncoder(['v'], encode_lists=False)", "OrdinalEncoder(['b'])", "OrdinalEncoder(['f'])",
            "OneHotEncoder(['s'])", "OneHotEncoder(['s', 'i'], output_columns=['s2', 'i2'])", "OneHotEncoder(['s'], max_categories={'s': 2})",
            "OneHotEncoder(['s'], max_categories={'s': 1})", "OneHotEncoder(['l'])", "OneHotEncoder(['v'])", "OneHotEncoder(['b'])",
            "MultiHotEncoder(['l'])", "MultiHotEncoder(['l'], max_categories={'l': 2})", "MultiHotEncoder(['s'])",
            "MultiHotEncoder(['l'], output_columns=['l2'])", "MultiHotEncoder(['v'])",
            "LabelEncoder('s')", "LabelEncoder('i', output_column='i2')", "LabelEncoder('b')",
            "Categorizer(['s', 'i'])", "Categorizer(['s'], output_columns=['s2'])",
            "Categorizer(['s'], dtypes={'s': pd.CategoricalDtype(['a', 'b', 'c'], ordered=True)})"]
IMPUTERS = ["SimpleImputer(['o'])", "SimpleImputer(['o'], output_columns=['p'])", "SimpleImputer(['s'], 'most_frequent')", "SimpleImputer(['i'], 'most_frequent')",
            "SimpleImputer(['o', 'f'], strategy='constant', fill_value=9.5)", "SimpleImputer(['s'], strategy='constant', fill_value='?')",
            "SimpleImputer(['n'])", "SimpleImputer(['n'], 'most_frequent')", "SimpleImputer(['absent'], strategy='constant', fill_value=1)"]
BINS = ["CustomKBinsDiscretizer(['i', 'f'], [-5, 0, 5, 10])", "CustomKBinsDiscretizer(['i'], [-2, 4, 7])", "CustomKBinsDiscretizer(['i'], [-2, 4, 7], right=False)",
        "CustomKBinsDiscretizer(['i'], [-2, 4, 7], include_lowest=True)", "CustomKBinsDiscretizer(['i'], {'i': [0, 5]}, output_columns=['i2'])",
        "CustomKBinsDiscretizer(['i'], [0, 0, 5])", "CustomKBinsDiscretizer(['i'], [0, 0, 5], duplicates='drop')", "CustomKBinsDiscretizer(['i'], [5, 0])",
        "CustomKBinsDiscretizer(['i'], [-5, 0, 10], dtypes={'i': pd.CategoricalDtype(['low', 'high'], ordered=True)})",
        "CustomKBinsDiscretizer(['i'], pd.IntervalIndex.from_tuples([(-3, 0), (0, 5)]))", "CustomKBinsDiscretizer(['o'], [0, 2, 3])",
        "UniformKBinsDiscretizer(['i', 'f'], 3)", "UniformKBinsDiscretizer(['i'], {'i': 4})", "UniformKBinsDiscretizer(['i'], 2, right=False)",
        "UniformKBinsDiscretizer(['k'], 2)", "UniformKBinsDiscretizer(['o'], 2)", "UniformKBinsDiscretizer(['n'], 2)", "UniformKBinsDiscretizer(['i'], 2.5)",
        "UniformKBinsDiscretizer(['i', 'f'], {'i': 2})", "UniformKBinsDiscretizer(['i'], 2, output_columns=['i2'], include_lowest=True)"]
OTHERS = ["Normalizer(['i', 'f'])", "Normalizer(['i', 'f'], 'l1')", "Normalizer(['i', 'f'], 'max', output_columns=['x', 'y'])", "Normalizer(['z'])", "Normalizer(['o', 'f'])",
          "PowerTransformer(['i', 'f'], 0)", "PowerTransformer(['i', 'f'], 2)", "PowerTransformer(['f'], 0.5, output_columns=['g'])", "PowerTransformer(['k'], 0, 'box-cox')",
          "PowerTransformer(['k'], -1.5, method='box-cox')", "PowerTransformer(['o'], 1.5)",
          "Tokenizer(['t'])", "Tokenizer(['t'], output_columns=['u'])", "Tokenizer(['t'], tokenization_fn=list)",
          "CountVectorizer(['t'])", "CountVectorizer(['t'], max_features=2)", "CountVectorizer(['t', 's'], output_columns=['u', 'w'])", "CountVectorizer(['t'], list)",
          "HashingVectorizer(['t'], 4)", "HashingVectorizer(['t'], 3, output_columns=['u'])", "HashingVectorizer(['t'], 5, str.split)",
          "FeatureHasher(['i', 'z', 'k'], 4, 'h')", "FeatureHasher(['i', 'f'], 2, 'i')", "FeatureHasher(['o'], 2, 'h')",
          "Concatenator(['i', 'f'])", "Concatenator(['f', 'i'], 'x')", "Concatenator(['i', 'k'], dtype=np.float32)", "Concatenator(['i', 'v'], flatten=True)",
          "Concatenator(['i', 'z'])", "Concatenator(['o', 'i'])",
          "Chain(StandardScaler(['i']), Concatenator(['i', 'f'], 'x'), LabelEncoder('s'))", "Chain(SimpleImputer(['o']), MinMaxScaler(['o']))"]
ALL = SCALERS + ROBUST + ENCODERS + IMPUTERS + BINS + OTHERS
WRONG = ["StandardScaler(['i'], output_columns=['a', 'b'])", "SimpleImputer(['i'], strategy='median')", "SimpleImputer(['i'], strategy='constant')",
         "Normalizer(['i'], norm='l3')", "PowerTransformer(['i'], 1, 'other')", "CustomKBinsDiscretizer(['i', 'f'], {'i': [0, 1]})",
         "TorchVisionPreprocessor(['i'], len, output_columns=['a', 'b'])", "StandardScaler()", "StandardScaler(['i'], nonsense=1)", "MinMaxScaler([])"]


def attempt(function):
    """What it gives, or the classes of its error."""
    try:
        return function()
    except Exception as error:
        return {"error": parity.classes(error)}


@case(*ALL)
def learned(data, at, text):
    made = make(data, text)
    before = str(made.fit_status().value)
    made.fit(rows(data))
    columns = None if text.startswith("Chain") else [made.get_input_columns(), made.get_output_columns()]
    return {"repr": repr(made), "status": [before, str(made.fit_status().value)], "columns": columns,
            "stats": None if text.startswith("Chain") else plain(dict(getattr(made, "stats_", {})))}


@case(*ALL)
def transformed(data, at, text):
    return [values(row) for row in make(data, text).fit_transform(rows(data)).take_all()]


@case(*ALL)
def unseen(data, at, text):
    made = make(data, text).fit(rows(data))
    again = type(made).deserialize(made.serialize())
    return {"rows": [values(row) for row in again.transform(rows(data, UNSEEN)).take_all()],
            "again": [type(again).__name__, str(again.fit_status().value), repr(again)],
            "batches": {kind: attempt(lambda: one_batch(data, made, text, kind)) for kind in ("pandas", "numpy", "pyarrow")}}


def one_batch(data, made, text, kind):
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    wanted = [name for name in UNSEEN[0] if f"'{name}'" in text]
    given = {name: [row[name] for row in UNSEEN] for name in wanted}
    given = pd.DataFrame(given) if kind == "pandas" else pa.table(given) if kind == "pyarrow" else {k: np.array(v) for k, v in given.items()}
    found = made.transform_batch(given)
    columns = found.columns if hasattr(found, "dtypes") else found.column_names if hasattr(found, "schema") else found.keys()
    return {"is": type(found).__name__, **{str(c): flat(found[c].to_pylist() if hasattr(found, "schema") else list(found[c])) for c in columns}}


@case(*[SCALERS[0], SCALERS[6], ENCODERS[0], ENCODERS[1], ENCODERS[8], ENCODERS[20], IMPUTERS[0], BINS[0], OTHERS[0], OTHERS[5], OTHERS[14], OTHERS[18], OTHERS[24]])
def types(data, at, text):
    names = [name for name in ROWS[0] if f"'{name}'" in text]
    ds = make(data, text).fit_transform(rows(data).select_columns(names)).materialize()
    return [[name, str(kind)] for name, kind in zip(ds.schema().names, ds.schema().types)]


@case(*WRONG)
def wrong_arguments(data, at, text):
    return repr(make(data, text))


FEW = [SCALERS[0], SCALERS[6], SCALERS[11], ROBUST[0], ENCODERS[0], ENCODERS[8], ENCODERS[15], ENCODERS[20], ENCODERS[23], IMPUTERS[0], IMPUTERS[4], BINS[0], BINS[11], OTHERS[0], OTHERS[14], OTHERS[30]]


@case(*FEW)
def not_fitted(data, at, text):
    return make(data, text).transform(rows(data)).count()


@case(*FEW)
def batch_not_fitted(data, at, text):
    return len(make(data, text).transform_batch(rows(data).to_pandas()))


@case(*[text.replace("'i'", "'nope'").replace("'s'", "'nope'").replace("'t'", "'nope'").replace("'l'", "'nope'") for text in (
    SCALERS[0], SCALERS[6], SCALERS[11], ROBUST[0], ENCODERS[0], ENCODERS[8], ENCODERS[15], ENCODERS[20], IMPUTERS[0], IMPUTERS[2], BINS[0], BINS[11],
    OTHERS[0], OTHERS[5], OTHERS[11], OTHERS[14], OTHERS[18], OTHERS[21], OTHERS[24], "Concatenator(['nope', 'f'], raise_if_missing=True)",
    "Categorizer(['nope'])", "OneHotEncoder(['s'], max_categories={'i': 2})")])
def no_such_column(data, at, text):
    return make(data, text).fit_transform(rows(data)).count()


HOLED = ["StandardScaler(['f'])", "MinMaxScaler(['f'])", "MaxAbsScaler(['i'])", "OrdinalEncoder(['s'])", "OneHotEncoder(['s'])", "OneHotEncoder(['i'])", "LabelEncoder('s')",
         "MultiHotEncoder(['s'])", "Categorizer(['s'])", "Categorizer(['i'])", "SimpleImputer(['f'])", "SimpleImputer(['i'])", "SimpleImputer(['s'], 'most_frequent')",
         "SimpleImputer(['i'], 'constant', 0)", "UniformKBinsDiscretizer(['i'], 2)", "CustomKBinsDiscretizer(['f'], [0, 1])", "Normalizer(['f', 'i'])",
         "PowerTransformer(['i'], 2)", "Tokenizer(['t'])", "CountVectorizer(['t'])", "HashingVectorizer(['t'], 3)", "FeatureHasher(['i'], 2, 'h')", "Concatenator(['i', 'f'])"]


@case(*HOLED)
def with_nulls(data, at, text):
    return [values(row) for row in make(data, text).fit_transform(rows(data, HOLES)).take_all()]


@case("OrdinalEncoder(['s'])", "OneHotEncoder(['s'])", "LabelEncoder('s')", "MultiHotEncoder(['s'])", "StandardScaler(['i'])", "Categorizer(['s'])")
def nulls_after_fit(data, at, text):
    made = make(data, text).fit(rows(data))
    return [values(row) for row in made.transform(rows(data, HOLES)).take_all()]


@case(*[t for t in (SCALERS[0], SCALERS[6], SCALERS[11], ROBUST[0], ENCODERS[0], ENCODERS[8], ENCODERS[15], ENCODERS[20], ENCODERS[23], IMPUTERS[0], IMPUTERS[2],
                    BINS[11], OTHERS[14])])
def fit_to_nothing(data, at, text):
    made = make(data, text).fit(rows(data).filter(lambda row: False))
    return [plain(dict(made.stats_)), str(made.fit_status().value)]


@case(*FEW)
def transform_nothing(data, at, text):
    made = make(data, text).fit(rows(data))
    return made.transform(rows(data).filter(lambda row: False)).count()


@case("'i'", "'s'")
def fit_twice(data, at, column):
    made = make(data, f"OrdinalEncoder([{column}])").fit(rows(data))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        made.fit(rows(data, UNSEEN))
    return [sorted({w.category.__name__ for w in found if "fit" in str(w.message)}), plain(dict(made.stats_))]


@case()
def not_fitted_error_class(data, at):
    try:
        make(data, "StandardScaler(['i'])").transform(rows(data))
    except Exception as error:
        return [type(error).__name__, isinstance(error, RuntimeError), isinstance(error, sub(data, "preprocessor").PreprocessorNotFittedException)]


@case()
def label_and_back(data, at):
    made = make(data, "LabelEncoder('s')")
    coded = made.fit_transform(rows(data)).select_columns(["s"])
    return [row["s"] for row in made.inverse_transform(coded).take_all()]


@case()
def label_back_of_other_column(data, at):
    made = make(data, "LabelEncoder('s', output_column='c')")
    coded = made.fit_transform(rows(data)).select_columns(["c"])
    return [row["s"] for row in made.inverse_transform(coded).take_all()]


@case()
def label_back_not_fitted(data, at):
    return make(data, "LabelEncoder('s')").inverse_transform(rows(data)).count()


@case()
def chain_states(data, at):
    p = sub(data, "preprocessors")
    first, second = p.StandardScaler(["i"]), p.MinMaxScaler(["f"])
    made = p.Chain(first, second, p.Normalizer(["i", "f"]))
    states = [made.fit_status().value]
    first.fit(rows(data))
    states.append(made.fit_status().value)
    made.fit(rows(data))
    states.append(made.fit_status().value)
    return states + [p.Chain(p.Normalizer(["i"])).fit_status().value, len(made.preprocessors)]


@case()
def chain_partly_fitted(data, at):
    p = sub(data, "preprocessors")
    first = p.StandardScaler(["i"]).fit(rows(data))
    return p.Chain(first, p.MinMaxScaler(["f"])).transform(rows(data)).count()


@case("b'nonsense'", "'nonsense'", "b''", "7")
def load_nonsense(data, at, text):
    return sub(data, "preprocessors").StandardScaler.deserialize(eval(text)) is None


@case()
def names_of_kinds(data, at):
    p = sub(data, "preprocessors")
    return {name: [getattr(p, name).get_preprocessor_class_id(), getattr(p, name).get_version()] for name in sorted(p.__all__)}


@case()
def own_class_pandas(data, at):
    base = sub(data, "preprocessor").Preprocessor

    class Add(base):
        _is_fittable = False

        def _transform_pandas(self, df):
            return df.assign(i=df["i"] + 1)[["i"]]

    return [dict(row) for row in Add().transform(rows(data)).take_all()]


@case()
def own_class_numpy(data, at):
    base = sub(data, "preprocessor").Preprocessor

    class Shift(base):
        def _fit(self, ds):
            self.stats_ = {"least": ds.min("i")}
            return self

        def _transform_numpy(self, batch):
            return {"i": batch["i"] - self.stats_["least"]}

    made = Shift()
    before = made.fit_status().value
    return [before, [row["i"] for row in made.fit_transform(rows(data)).take_all()], made.fit_status().value, made.has_stats()]


@case()
def own_class_with_a_plan(data, at):
    base = sub(data, "preprocessor").Preprocessor
    a = sub(data, "aggregate")

    class Shift(base):
        def _fit(self, ds):
            self.stat_computation_plan.add_aggregator(aggregator_fn=a.Min, post_process_fn=lambda x: x * 10, columns=["i", "f"])
            self.stat_computation_plan.add_callable_stat(stat_fn=lambda key: {key("i"): 5}, stat_key_fn=lambda c: f"own({c})", columns=["i"])
            return self

        def _transform_numpy(self, batch):
            return {"i": batch["i"] - self.stats_["own(i)"]}

    made = Shift().fit(rows(data))
    return [plain(dict(made.stats_)), made.stat_computation_plan.has_custom_stat_fn(), len(list(made.stat_computation_plan))]


@case()
def own_class_without_transform(data, at):
    class Nothing(sub(data, "preprocessor").Preprocessor):
        _is_fittable = False

    return Nothing().transform(rows(data)).count()


@case()
def own_class_without_fit(data, at):
    class Nothing(sub(data, "preprocessor").Preprocessor):
        pass

    return Nothing().fit(rows(data)) is None


@case("[1, 2]", "'text'", "None")
def batch_of_another_kind(data, at, text):
    return make(data, "Normalizer(['i'])").transform_batch(eval(text))


@case()
def simple_functions(data, at):
    u = sub(data, "preprocessors.utils")
    return [u.simple_split_tokenizer("a b  c"), u.simple_hash("a", 10), u.simple_hash(7, 100), u.simple_hash("ü", 1000)]


@case("batch_size=2", "num_cpus=1", "concurrency=1", "memory=1000")
def transform_arguments(data, at, text):
    made = make(data, "OneHotEncoder(['s'])").fit(rows(data))
    return made.transform(rows(data), **eval(f"dict({text})")).count()


@case()
def fit_transform_arguments(data, at):
    made = make(data, "StandardScaler(['i'])")
    return made.fit_transform(rows(data), transform_num_cpus=1, transform_batch_size=2, transform_concurrency=1).count()


@case("torch", "numpy", "batched")
def torch_vision(data, at, kind):
    import numpy as np
    import torch

    images = [{"image": np.full((2, 2, 3), i, np.uint8)} for i in range(3)]
    if kind == "torch":
        made = sub(data, "preprocessors").TorchVisionPreprocessor(["image"], lambda x: x.permute(2, 0, 1).float() / 2)
    elif kind == "numpy":
        made = sub(data, "preprocessors").TorchVisionPreprocessor(["image"], lambda x: np.asarray(x)[0], output_columns=["first"])
    else:
        made = sub(data, "preprocessors").TorchVisionPreprocessor(["image"], lambda x: x.float().mean(dim=(1, 2)), batched=True)
    found = made.transform(data.from_items(images, override_num_blocks=1)).take_all()
    return [{k: [list(np.asarray(v).shape), str(np.asarray(v).dtype), np.asarray(v).ravel().tolist()] for k, v in row.items()} for row in found]


@case()
def torch_vision_of_another_kind(data, at):
    import numpy as np

    made = sub(data, "preprocessors").TorchVisionPreprocessor(["image"], lambda x: "text")
    return made.transform(data.from_items([{"image": np.zeros((2, 2), np.uint8)}])).take_all()


@case()
def pickled(data, at):
    import pickle

    made = make(data, "OrdinalEncoder(['s'])").fit(rows(data))
    again = pickle.loads(pickle.dumps(made))
    return [again.columns, plain(dict(again.stats_)), again.fit_status().value]


def random_rows(seed, count, letters):
    """Rows of numbers, texts and lists, some of them missing where an `o` says so."""
    from random import Random

    draw = Random(seed)
    text = lambda: "".join(draw.choice(letters) for _ in range(draw.randrange(3)))
    maybe = lambda value: None if draw.random() < 0.2 else value
    return [{"i": draw.randrange(-50, 50), "f": draw.choice([0.0, -0.0, 1e-9, 3.5, -2.25, 1e6, draw.gauss(0, 3)]), "s": text(), "k": draw.randrange(4),
             "io": maybe(draw.randrange(5)), "fo": maybe(draw.gauss(0, 10)), "so": maybe(text()), "b": draw.random() < 0.5,
             "l": [text() for _ in range(draw.randrange(4))], "t": " ".join(text() for _ in range(draw.randrange(5)))} for _ in range(count)]


RANDOM = ["StandardScaler(['i', 'f', 'fo'])", "MinMaxScaler(['i', 'f', 'fo'])", "MaxAbsScaler(['i', 'f', 'fo'], output_columns=['x', 'y', 'z'])",
          "OrdinalEncoder(['s', 'k', 'b'])", "OrdinalEncoder(['l'])", "OneHotEncoder(['s', 'k', 'b'])", "MultiHotEncoder(['l', 's'])", "LabelEncoder('s')",
          "Categorizer(['s', 'so', 'k'])", "SimpleImputer(['io', 'fo'])", "SimpleImputer(['so'], 'constant', fill_value='ß')",
          "UniformKBinsDiscretizer(['i', 'f', 'fo'], 5)", "UniformKBinsDiscretizer(['i'], 7, right=False)",
          "CustomKBinsDiscretizer(['i', 'fo'], [-40, -3, 0, 2, 30], include_lowest=True)", "Normalizer(['i', 'f', 'fo'], 'l1')", "Normalizer(['i', 'k'])",
          "PowerTransformer(['i', 'f', 'fo'], 1.5)", "PowerTransformer(['i'], 2)", "Tokenizer(['t', 'so'])", "HashingVectorizer(['t', 'so'], 6)",
          "FeatureHasher(['i', 'k', 'io'], 3, 'h')", "Concatenator(['f', 'k', 'fo'])", "Chain(SimpleImputer(['fo']), StandardScaler(['fo']), OneHotEncoder(['k']))"]


@case(*[(text, seed) for text in RANDOM for seed in (1, 2)])
def on_random_rows(data, at, text, seed):
    made = make(data, text)
    learned = data.from_items(random_rows(seed, 40, "aäß𝄞 "), override_num_blocks=3)
    other = data.from_items(random_rows(seed + 100, 10, "abß"), override_num_blocks=2)
    first = [values(row) for row in made.fit_transform(learned).take_all()]
    return {"fit": first, "other": [values(row) for row in made.transform(other).take_all()],
            "stats": None if text.startswith("Chain") else plain(dict(made.stats_) if made.has_stats() else {})}
