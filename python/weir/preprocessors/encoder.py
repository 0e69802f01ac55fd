"""Encoders: values become numbers, by what was seen in `fit`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from weir.data_batch_conversion import BatchFormat
from weir._expr_literals import compile_literal, text_literal
from weir.preprocessors._columns import Changing, ColumnPreprocessor, Field, Given, column, in_workers, is_there, plain
from weir.preprocessors._counts import counted, is_listed
from weir.preprocessors.version_support import SerializablePreprocessor

if TYPE_CHECKING:
    from weir.dataset import Dataset

__all__ = ["Categorizer", "LabelEncoder", "MultiHotEncoder", "OneHotEncoder", "OrdinalEncoder"]


LOOKED_UP_MAX = 10_000  # values that stand in an expression; beyond, workers look them up


def _numbered(values: Iterable[Any], name: str, drops_null: bool = False) -> dict[Any, int]:
    """The values in order, each with its place."""
    there = [value for value in values if value is not None]
    if not drops_null and len(there) != len(values if isinstance(values, (list, dict)) else list(values)):
        raise ValueError(f"Unable to fit column {name!r} because it contains null values: fill them first, with a SimpleImputer")
    try:
        return {value: at for at, value in enumerate(sorted(there))}
    except TypeError:
        kinds = sorted({type(value).__name__ for value in there})
        raise TypeError(f"column {name!r} has values of {' and '.join(kinds)}, which have no common order") from None


def _unique(
    ds: Dataset, columns: Sequence[str], preprocessor: object, in_lists: bool, most: dict[str, int] | None = None, drops_null: bool = False
) -> dict[str, dict[Any, int]]:
    for name in most or {}:
        if name not in columns:
            raise ValueError(f"You set `max_categories` for {name}, which is not one of the columns {list(columns)}")
    found = counted(ds, columns, preprocessor, in_lists)
    made = {}
    for name, counter in found.items():
        kept = list(counter) if name not in (most or {}) else [value for value, _ in counter.most_common((most or {})[name])]
        made[name] = _numbered(kept, name, drops_null)
    return made


class _Lookup:
    """Values → their numbers, for many values at once."""

    def __init__(self, numbers: dict[Any, int]) -> None:
        self.numbers = numbers

    def of(self, given: Given, name: str) -> Any:
        """The number of each value; -1: it has none."""
        import numpy as np

        array = given.array(name)
        if array.ndim == 1 and array.dtype.kind in "iub" and self.numbers and all(type(key) in (int, bool) for key in self.numbers):
            return self._of_integers(array)
        get = self.numbers.get
        return np.fromiter((get(value, -1) for value in given.values(name)), np.int64, given.rows)

    def _of_integers(self, array: Any) -> Any:
        import numpy as np

        keys = np.array([int(key) for key in self.numbers])
        if keys.dtype.kind not in "iu":
            return np.fromiter((self.numbers.get(value, -1) for value in array.tolist()), np.int64, len(array))
        order = np.argsort(keys, kind="stable")
        numbers = np.array(list(self.numbers.values()), np.int64)[order]
        keys = keys[order]
        at = np.minimum(np.searchsorted(keys, array), len(keys) - 1)
        return np.where(keys[at] == array, numbers[at], -1)


def _with_none(codes: Any) -> Any:
    """Codes as a column: null where there is none."""
    return codes if not (codes < 0).any() else [None if code < 0 else code for code in codes.tolist()]


def _place(name: str, kind: str, numbers: dict[Any, int], columns: list[str]) -> str | None:
    """The number of a column's value as an expression, null for one that has none, an error for null and NaN. None: the engine cannot
    look it up, since it is a list, or has another type than the values that `fit` saw."""
    kinds = {type(value) for value in numbers}
    is_text = kind in ("string", "large_string", "string_view") or kind.startswith("dictionary<values=string")
    is_number = kind.startswith(("int", "uint", "float", "double", "halffloat", "decimal"))
    fits = is_text if kinds == {str} else is_number if kinds <= {int, float} else kind == "bool" if kinds == {bool} else False
    if not fits or len(numbers) > LOOKED_UP_MAX or list(numbers.values()) != list(range(len(numbers))):
        return None
    try:
        members = "".join(f", {compile_literal(value)}" for value in numbers)
    except (TypeError, OverflowError, UnicodeEncodeError):
        return None
    x = column(name)
    return f"(index_in({x}{members}) if {is_there(name)} else fail({text_literal(_null_text(columns))}, {x} is None))"


def _null_text(columns: list[str]) -> str:
    return f"Unable to transform columns {columns} because they contain null values: fill them first, with a SimpleImputer"


def _refuse_null(given: Given, columns: Iterable[str]) -> None:
    import numpy as np

    holed = []
    for name in columns:
        array = given.array(name)
        if array.dtype.kind == "f" and array.ndim == 1:
            is_holed = bool(np.isnan(array).any())
        elif array.dtype.kind in "Mm":
            is_holed = bool(np.isnat(array).any())
        else:
            is_holed = array.dtype.kind == "O" and any(v is None or (isinstance(v, float) and v != v) for v in array.tolist())
        if is_holed:
            holed.append(name)
    if holed:
        raise ValueError(_null_text(holed))


class _Encoder(ColumnPreprocessor):
    columns = Field[list[str]]()
    output_columns = Field[list[str]]()

    def __init__(self, columns: list[str], output_columns: list[str] | None) -> None:
        super().__init__()
        self._columns = columns
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _numbers(self, name: str) -> dict[Any, int]:
        found: dict[Any, int] = self.stats_[f"unique_values({name})"]
        return found

    def _places(self, known: dict[str, str] | None) -> dict[str, str] | None:
        """Expressions of the numbers, by output column; None: for one of them there is none."""
        made = {}
        for name, output in zip(self._columns, self._output_columns, strict=True):
            text = None if known is None else _place(name, known[name], self._numbers(name), [name])
            if text is None:
                return None
            made[output] = text
        return made

    def _learn(self, found: dict[str, dict[Any, int]]) -> None:
        self.stats_ |= {f"unique_values({name})": numbers for name, numbers in found.items()}


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.ordinal_encoder")
class OrdinalEncoder(_Encoder):
    """Each value as its place among the values of its column, in their order; null for a value that was not there in `fit`.

    Args:
        columns: the columns to encode, each by itself.
        encode_lists: of columns of lists, each element; False: each list as a whole.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> ds = weir.from_items([{"size": "M"}, {"size": "L"}, {"size": "M"}])
    >>> encoder = OrdinalEncoder(["size"]).fit(ds)
    >>> encoder.transform(ds).take()
    [{'size': 1}, {'size': 0}, {'size': 1}]
    >>> encoder.stats_
    {'unique_values(size)': {'L': 0, 'M': 1}}
    >>> encoder.transform(weir.from_items([{"size": "XS"}])).take()
    [{'size': None}]
    """

    encode_lists = Field[bool]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "output_columns", "encode_lists")
    _shown_fields: ClassVar[tuple[str, ...]] = ("columns", "encode_lists", "output_columns")
    _format: ClassVar[BatchFormat] = BatchFormat.ARROW

    def __init__(self, columns: list[str], *, encode_lists: bool = True, output_columns: list[str] | None = None) -> None:
        super().__init__(columns, output_columns)
        self._encode_lists = encode_lists

    def _fit(self, ds: Dataset) -> OrdinalEncoder:
        self._learn(_unique(ds, self._columns, self, self._encode_lists))
        return self

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        return self._places(known)

    def _changed(self, given: Given) -> dict[str, Any]:
        _refuse_null(given, self._columns)
        made: dict[str, Any] = {}
        for name, output in zip(self._columns, self._output_columns, strict=True):
            numbers = self._numbers(name)
            if self._encode_lists and is_listed(given.type_of(name)):
                made[output] = [[numbers.get(element) for element in value] for value in given.values(name)]
            else:
                made[output] = _with_none(_Lookup(numbers).of(given, name))
        return made


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.one_hot_encoder")
class OneHotEncoder(_Encoder):
    """Each value as a vector with a 1 at its place among the values of its column; zeros for one that was not there in `fit`.

    Args:
        columns: the columns to encode, each by itself. A list counts as one value.
        max_categories: for columns, how many values at most: the most frequent ones.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> ds = weir.from_items([{"c": "red"}, {"c": "blue"}, {"c": "red"}])
    >>> OneHotEncoder(["c"]).fit_transform(ds).take()
    [{'c': [0, 1]}, {'c': [1, 0]}, {'c': [0, 1]}]
    """

    max_categories = Field[dict[str, int]]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "output_columns", "max_categories")
    _shown_fields: ClassVar[tuple[str, ...]] = ("columns", "max_categories", "output_columns")
    _format: ClassVar[BatchFormat] = BatchFormat.ARROW

    def __init__(
        self, columns: list[str], *, max_categories: dict[str, int] | None = None, output_columns: list[str] | None = None
    ) -> None:
        super().__init__(columns, output_columns)
        self._max_categories = max_categories or {}

    def _fit(self, ds: Dataset) -> OneHotEncoder:
        self._learn(_unique(ds, self._columns, self, False, self._max_categories))
        return self

    _in_workers: ClassVar[str] = "_codes"

    def _vector(self, output: str, name: str, place: str) -> str:
        return f"one_hot(coalesce({place}, -1), {len(self._numbers(name))})"

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        places = self._places(known)
        return None if places is None else {
            output: self._vector(output, name, places[output]) for name, output in zip(self._columns, self._output_columns, strict=True)}

    def _texts_behind(self) -> dict[str, str]:
        return {output: self._vector(output, name, column(output)) for name, output in zip(self._columns, self._output_columns, strict=True)}

    def _codes(self, given: Given) -> dict[str, Any]:
        """The numbers, -1 for none."""
        _refuse_null(given, self._columns)
        return {output: _Lookup(self._numbers(name)).of(given, name)
                for name, output in zip(self._columns, self._output_columns, strict=True)}

    def safe_get(self, v: Any, stats: dict[Any, int]) -> int:
        """The place of a value; -1: it has none.

        >>> OneHotEncoder(["a"]).safe_get([1, 2], {(1, 2): 7})
        7
        """
        try:
            return stats.get(plain(v), -1)
        except TypeError:
            return -1

    def _changed(self, given: Given) -> dict[str, Any]:
        import numpy as np

        made = self._codes(given)
        for name, output in zip(self._columns, self._output_columns, strict=True):
            codes = made[output]
            vectors = np.zeros((given.rows, len(self._numbers(name))), np.uint8)
            rows = np.flatnonzero(codes >= 0)
            vectors[rows, codes[rows]] = 1
            made[output] = vectors
        return made

    def _changed_batch(self, data: Any, wanted: str) -> Any:
        found = super()._changed_batch(data, wanted)
        if wanted == "pyarrow":  # as a Dataset has them
            import pyarrow as pa

            for name, output in zip(self._columns, self._output_columns, strict=True):
                at, count = found.column_names.index(output), len(self._numbers(name))
                flat = pa.array(found.column(output).combine_chunks().to_numpy_ndarray().ravel())
                found = found.set_column(at, output, pa.FixedSizeListArray.from_arrays(flat, count))
        return found


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.multi_hot_encoder")
class MultiHotEncoder(_Encoder):
    """Each list as how often each of the column's values occurs in it; values that were not there in `fit` do not count.

    Args:
        columns: the columns of lists to encode, each by itself. A single value counts as a list of one.
        max_categories: for columns, how many values at most: the most frequent ones.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> ds = weir.from_items([{"tags": ["a", "c"]}, {"tags": ["b"]}])
    >>> MultiHotEncoder(["tags"]).fit_transform(ds).take()
    [{'tags': [1, 0, 1]}, {'tags': [0, 1, 0]}]
    """

    max_categories = Field[dict[str, int]]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "output_columns", "max_categories")
    _shown_fields: ClassVar[tuple[str, ...]] = ("columns", "max_categories", "output_columns")

    def __init__(
        self, columns: list[str], *, max_categories: dict[str, int] | None = None, output_columns: list[str] | None = None
    ) -> None:
        super().__init__(columns, output_columns)
        self._max_categories = max_categories or {}

    def _fit(self, ds: Dataset) -> MultiHotEncoder:
        self._learn(_unique(ds, self._columns, self, True, self._max_categories))
        return self

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        made = {}
        for name, output in zip(self._columns, self._output_columns, strict=True):
            text = _counted_text(name, (known or {}).get(name, ""), self._numbers(name))
            if text is None:
                return None
            made[output] = text
        return made

    def _changed(self, given: Given) -> dict[str, Any]:
        _refuse_null(given, self._columns)
        made: dict[str, Any] = {}
        for name, output in zip(self._columns, self._output_columns, strict=True):
            numbers = self._numbers(name)
            is_list = is_listed(given.type_of(name))
            made[output] = [_counts(value if is_list else (value,), numbers) for value in given.values(name)]
        return made


def _counted_text(name: str, kind: str, numbers: dict[Any, int]) -> str | None:
    """How often each of the numbers' keys is in a column's lists, as an expression, with an error for null; None: there is none."""
    kinds = {type(value) for value in numbers}
    element = kind.removeprefix("list<item: ").removesuffix(">") if kind.startswith("list<item: ") else ""
    is_whole = element in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
    if len(numbers) > LOOKED_UP_MAX or not (kinds == {str} and element == "string" or kinds == {int} and is_whole):
        return None
    try:
        members = ", ".join(compile_literal(value) for value in numbers)
    except (TypeError, OverflowError, UnicodeEncodeError):
        return None
    x = column(name)
    return f"(counts_in({x}, {members}) if {x} is not None or fail({text_literal(_null_text([name]))}, {x} is None) == 0 else None)"


def _counts(value: Iterable[Any], numbers: dict[Any, int]) -> list[int]:
    counter = Counter(value)
    return [counter.get(key, 0) for key in numbers]


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.label_encoder")
class LabelEncoder(ColumnPreprocessor):
    """The labels of one column as numbers from 0, in the labels' order; null for one that was not there in `fit`.

    Args:
        label_column: the column with the labels.
        output_column: its name afterwards; None: the same.

    >>> import weir
    >>> ds = weir.from_items([{"kind": "dog"}, {"kind": "cat"}])
    >>> encoder = LabelEncoder("kind")
    >>> coded = encoder.fit_transform(ds)
    >>> coded.take()
    [{'kind': 1}, {'kind': 0}]
    >>> encoder.inverse_transform(coded).take()
    [{'kind': 'dog'}, {'kind': 'cat'}]
    """

    label_column = Field[str]()
    output_column = Field[str]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("label_column", "output_column")
    _shown_fields: ClassVar[tuple[str, ...]] = ("label_column", "output_column")

    def __init__(self, label_column: str, *, output_column: str | None = None) -> None:
        super().__init__()
        self._label_column = label_column
        self._output_column = output_column or label_column

    def get_input_columns(self) -> list[str]:
        """The column that it reads, in a list.

        >>> LabelEncoder("kind").get_input_columns()
        ['kind']
        """
        return [self._label_column]

    def get_output_columns(self) -> list[str]:
        """The column that it writes, in a list.

        >>> LabelEncoder("kind", output_column="n").get_output_columns()
        ['n']
        """
        return [self._output_column]

    def _fit(self, ds: Dataset) -> LabelEncoder:
        found = _unique(ds, [self._label_column], self, True)
        self.stats_ |= {f"unique_values({name})": numbers for name, numbers in found.items()}
        return self

    def _numbers(self) -> dict[Any, int]:
        found: dict[Any, int] = self.stats_[f"unique_values({self._label_column})"]
        return found

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        text = None if known is None else _place(self._label_column, known[self._label_column], self._numbers(), [self._label_column])
        return None if text is None else {self._output_column: text}

    def _changed(self, given: Given) -> dict[str, Any]:
        _refuse_null(given, [self._label_column])
        return {self._output_column: _with_none(_Lookup(self._numbers()).of(given, self._label_column))}

    def inverse_transform(self, ds: Dataset) -> Dataset:
        """The labels again, in the label column, of the numbers in the output column.

        >>> LabelEncoder("kind").inverse_transform(None)
        Traceback (most recent call last):
        ...
        weir.preprocessor.PreprocessorNotFittedException: `fit` must be called before `inverse_transform`: LabelEncoder(label_column='kind', output_column='kind') has learnt nothing yet
        """
        self._need_fitted("inverse_transform")
        return in_workers(ds, Changing(self, "_inverse"), type(self).__name__, self._get_transform_config())

    def _inverse(self, given: Given) -> dict[str, Any]:
        labels = {number: label for label, number in self._numbers().items()}
        return {self._label_column: [labels.get(number) for number in given.values(self._output_column)]}


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.categorizer")
class Categorizer(_Encoder):
    """Columns as pandas has categories: a dictionary of the column's values, and their places in it. Needs pandas.

    Args:
        columns: the columns to convert, each by itself.
        dtypes: for columns, the pandas.CategoricalDtype to have; others get their values of `fit`, in order.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> ds = weir.from_items([{"s": "b"}, {"s": "a"}])
    >>> Categorizer(["s"]).fit_transform(ds).to_pandas()["s"].cat.categories.tolist()
    ['a', 'b']
    """

    dtypes = Field[dict[str, Any]]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "output_columns", "dtypes")
    _shown_fields: ClassVar[tuple[str, ...]] = ("columns", "dtypes", "output_columns")

    def __init__(self, columns: list[str], dtypes: dict[str, Any] | None = None, output_columns: list[str] | None = None) -> None:
        super().__init__(columns, output_columns)
        self._dtypes = dtypes or {}

    def _fit(self, ds: Dataset) -> Categorizer:
        from weir._formats import _need

        pd = _need("pandas", "a Categorizer")
        self.stats_ |= self._dtypes
        wanted = [name for name in self._columns if name not in self._dtypes]
        if wanted:
            found = _unique(ds, wanted, self, True, drops_null=True)
            self.stats_ |= {name: pd.CategoricalDtype(list(numbers)) for name, numbers in found.items()}
        return self

    def _changed(self, given: Given) -> dict[str, Any]:
        from weir.preprocessors._categories import categorical

        return {output: categorical(given, name, self.stats_[name])
                for name, output in zip(self._columns, self._output_columns, strict=True)}
