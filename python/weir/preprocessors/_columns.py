"""What the preprocessors of this package share: fields, how they are shown and saved, and two ways to change rows.

    _texts(names) ─▶ {"a": "(col(\\"a\\") - …) / …"}    expressions: the engine computes them, no Python runs
    _changed(given) ─▶ {"a": array}                   new columns of the columns of one batch: single batches, and what
                                                      expressions cannot say; other columns stay as they are in the engine
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from weir._expr_literals import compile_literal, text_literal
from weir.data_batch_conversion import BatchFormat
from weir.preprocessor import SerializablePreprocessorBase

if TYPE_CHECKING:
    from weir._weir import Batch
    from weir.dataset import Dataset

_T = TypeVar("_T")
_TEXTS = ("string", "large_string", "string_view", "binary", "large_binary")


class Field(Generic[_T]):
    """An argument of the constructor, which can be read and not set."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self.__doc__ = f"The argument {name} of the constructor."

    @overload
    def __get__(self, instance: None, owner: type) -> Field[_T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object | None, owner: type) -> Field[_T] | _T:
        if instance is None:
            return self
        value: _T = vars(instance)["_" + self._name]
        return value

    def __set__(self, instance: object, value: Any) -> None:
        raise AttributeError(f"{self._name} of a {type(instance).__name__} cannot be changed: make a new one")


def of_today(kind: type, state: dict[str, Any]) -> dict[str, Any]:
    """The state of a pickle, also of one that an older Ray Data made: arguments stood under their own names there, later ones not at all.

    >>> from weir.preprocessors import Normalizer
    >>> of_today(Normalizer, {"columns": ["a"]})["_norm"]
    'l2'
    """
    fields = [name for one in kind.__mro__ for name, value in vars(one).items() if isinstance(value, Field)]
    if all("_" + name in state for name in fields):
        return state
    given = {name: state["_" + name] if "_" + name in state else state[name] for name in fields if name in state or "_" + name in state}
    made = {"_" + name: value for name, value in given.items()}
    if len(given) < len(fields):
        ours = next(one for one in kind.__mro__ if one.__module__.startswith("weir.preprocessors."))  # of which the user may have made another
        made = {key: value for key, value in vars(ours(**given)).items() if key[1:] in fields}
    return made | {key: value for key, value in state.items() if key not in fields}


class NoSuchColumn(KeyError, ValueError):
    """A preprocessor needs a column that is not there."""

    def __str__(self) -> str:
        return str(self.args[0])


def no_such_column(preprocessor: object, missing: Iterable[str], names: Sequence[str]) -> NoSuchColumn:
    """The error that names the columns.

    >>> print(no_such_column("StandardScaler", ["prize"], ["price", "size"]))
    StandardScaler needs the column 'prize', and there is none of that name: the columns are price, size (did you mean 'price'?)
    """
    from weir._errors import listed, nearest

    lacking = list(missing)
    words = f"the column {lacking[0]!r}" if len(lacking) == 1 else f"the columns {', '.join(map(repr, lacking))}"
    hint = nearest(lacking[0], names)
    name = preprocessor if isinstance(preprocessor, str) else type(preprocessor).__name__
    return NoSuchColumn(f"{name} needs {words}, and there is none of that name: the columns are {listed(list(names))}{hint}")


class Given:
    """The columns of one batch, as NumPy has them."""

    def __init__(self, batch: Batch, names: Sequence[str], preprocessor: object) -> None:
        self._batch, self.names, self._preprocessor = batch, list(names), preprocessor

    @property
    def rows(self) -> int:
        """How many."""
        return self._batch.num_rows

    def type_of(self, name: str) -> str:
        """The engine's name of a column's type."""
        return next(field[1] for field in self._batch.schema() if field[0] == name)

    def array(self, name: str) -> Any:
        """A column as Batch.column gives it: numbers with NaN for null, objects with None for the rest."""
        if name not in self.names:
            raise no_such_column(self._preprocessor, [name], self.names)
        return self._batch.column(name)

    def floats(self, name: str) -> Any:
        """A column of numbers as float64, NaN for null."""
        import numpy as np

        array = self.array(name)
        if array.dtype.kind in "iufb":
            return array.astype(np.float64, copy=False)
        try:
            return np.array([np.nan if v is None else float(v) for v in array.tolist()], np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"{type(self._preprocessor).__name__} needs numbers, and column {name!r} has the type {self.type_of(name)}"
            ) from None

    def values(self, name: str) -> list[Any]:
        """A column as Python values, None for null and NaN, tuples for lists."""
        array = self.array(name)
        if array.dtype.kind in "iub" and array.ndim == 1:
            return list(array.tolist())
        if array.dtype.kind == "f" and array.ndim == 1:
            return [v if v == v else None for v in array.tolist()]
        if self.type_of(name) in _TEXTS:
            return list(array.tolist())
        return [plain(row[name]) for row in self._batch.select([name]).rows()]


def plain(value: Any) -> Any:
    """A value that can be looked up: lists and arrays as tuples, NaN as None.

    >>> plain([1, [2, float("nan")]])
    (1, (2, None))
    """
    if isinstance(value, (list, tuple)):
        return tuple(plain(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, plain(v)) for k, v in value.items())
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return plain(value.tolist())
    return None if value is None or value != value else value


# ---- expressions ----

def column(name: str) -> str:
    """A column as expressions write it.

    >>> column("a b")
    'col("a b")'
    """
    return f"col({text_literal(name)})"


def number(value: Any) -> str:
    """A number that makes whatever it is added to or multiplied with a float64.

    >>> number(3)
    'literal("3.0", "double")'
    """
    return f'literal("{float(value)}", "double")'


def literal(value: Any) -> str:
    """Any value, in the type that it has."""
    return number(value) if isinstance(value, float) else compile_literal(value)


def nothing(name: str) -> str:
    """Null, of the type that a column has."""
    return f"({column(name)} if False else None)"


_NUMBERS = {
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8", "uint16": "uint16", "uint32": "uint32",
    "uint64": "uint64", "float": "float32", "double": "float64",
}  # the engine's names of types, and NumPy's


def number_types(known: dict[str, str] | None, names: Sequence[str]) -> list[str] | None:
    """NumPy's names of the types of columns; None: one of them is not known, or has no numbers.

    >>> number_types({"a": "int8", "b": "double"}, ["b", "a"]), number_types({"a": "string"}, ["a"])
    (['float64', 'int8'], None)
    """
    found = [_NUMBERS.get((known or {}).get(name, "")) for name in names]
    return None if None in found else [kind for kind in found if kind is not None]


def vector(kind: str, texts: Sequence[str]) -> str:
    """Numbers beside one another as a tensor of NumPy's type.

    >>> vector("float32", ["1", "2"])
    "vector('float', 1, 2)"
    """
    names = {numpy: engine for engine, numpy in _NUMBERS.items()}
    return f"vector('{names[kind]}', {', '.join(texts)})"


def is_text(kind: str) -> bool:
    """Whether the engine's type is one of texts.

    >>> is_text("string"), is_text("list<item: string>")
    (True, False)
    """
    return kind in ("string", "large_string", "string_view") or kind.startswith("dictionary<values=string")


def is_there(name: str) -> str:
    """Whether a value is neither null nor NaN."""
    return f"coalesce({column(name)} == {column(name)}, False)"


# ---- the class ----

class ColumnPreprocessor(SerializablePreprocessorBase):
    """A preprocessor of this package."""

    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "output_columns")
    _shown_fields: ClassVar[tuple[str, ...]] = ("columns", "output_columns")
    _format: ClassVar[BatchFormat] = BatchFormat.PANDAS  # what Ray Data's gives for a single batch
    _in_workers: ClassVar[str] = "_changed"  # the method that workers call

    @classmethod
    def preferred_batch_format(cls) -> BatchFormat:
        """What a single batch becomes, where it is not one of these already.

        >>> ColumnPreprocessor.preferred_batch_format().value
        'pandas'
        """
        return cls._format

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(of_today(type(self), state))

    # What classes define.

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        """New columns as expressions; None: workers do it. `known`: the columns and their types, where these are known."""
        return None

    def _texts_behind(self) -> dict[str, str]:
        """What the engine makes of the columns that come from workers."""
        return {}

    def _changed(self, given: Given) -> dict[str, Any]:
        """New columns of one batch: arrays, or lists with None."""
        raise NotImplementedError

    def _needed(self) -> list[str]:
        """Columns without which nothing can be done."""
        return self.get_input_columns()

    def _dropped(self, names: Sequence[str]) -> list[str]:
        """Columns that go away."""
        return []

    # ---- changing ----

    def _has_own_transform(self) -> bool:
        """Whether somebody has made a class of this one, with a _transform_* of its own."""
        return any(
            getattr(type(self), name) is not getattr(ColumnPreprocessor, name)
            for name in ("_transform_pandas", "_transform_numpy", "_transform_arrow")
        )

    def _determine_transform_to_use(self) -> BatchFormat:
        if not self._has_own_transform():
            return self.preferred_batch_format()
        own = {
            BatchFormat.PANDAS: type(self)._transform_pandas is not ColumnPreprocessor._transform_pandas,
            BatchFormat.NUMPY: type(self)._transform_numpy is not ColumnPreprocessor._transform_numpy,
            BatchFormat.ARROW: type(self)._transform_arrow is not ColumnPreprocessor._transform_arrow,
        }
        return next(kind for kind, is_own in own.items() if is_own)

    def _transform(
        self,
        ds: Dataset,
        batch_size: int | None,
        num_cpus: float | None = None,
        memory: float | None = None,
        concurrency: int | None = None,
    ) -> Dataset:
        if self._has_own_transform():
            return super()._transform(ds, batch_size, num_cpus, memory, concurrency)
        known = types_of(ds)
        if known is not None:
            missing = [name for name in self._needed() if name not in known]
            if missing:
                raise no_such_column(self, missing, list(known))
        arguments = self._get_transform_config() | {
            name: value for name, value in
            {"num_cpus": num_cpus, "memory": memory, "batch_size": batch_size, "concurrency": concurrency}.items() if value is not None
        }
        called = in_workers(ds, Changing(self, self._in_workers), type(self).__name__, arguments)
        texts = self._texts(known)
        if texts is None:
            return in_engine(called, self._texts_behind(), type(self).__name__)
        name = type(self).__name__
        return without(in_engine(ds, texts, name), self._dropped(list(known or ())), name)

    def _transform_batch(self, data: Any) -> Any:
        from weir.preprocessors import _batches

        if self._has_own_transform():
            return super()._transform_batch(data)
        kind = _batches.kind_of(data)
        wanted = "pandas"
        if self.preferred_batch_format() is not BatchFormat.PANDAS and kind != "pandas":
            wanted = "dict" if self.preferred_batch_format() is BatchFormat.NUMPY else "pyarrow"
        if wanted != "dict" and not _is_installed(wanted):
            wanted = "dict" if kind == "array" else kind
        return self._changed_batch(data, wanted)

    def _changed_batch(self, data: Any, wanted: str) -> Any:
        from weir.preprocessors import _batches

        names = _batches.names_of(data)
        missing = [name for name in self._needed() if name not in names]
        if missing:
            raise no_such_column(self, missing, names)
        inputs = [name for name in dict.fromkeys(self.get_input_columns()) if name in names]
        made = self._changed(Given(_batches.as_batch(data, inputs), names, self))
        sources = dict(zip(self.get_output_columns(), self.get_input_columns()))
        return _batches.merged(data, made, self._dropped(names), wanted, sources)

    def _transform_pandas(self, df: Any) -> Any:
        return self._changed_batch(df, "pandas")

    def _transform_numpy(self, np_data: Any) -> Any:
        return self._changed_batch(np_data, "dict")

    def _transform_arrow(self, table: Any) -> Any:
        return self._changed_batch(table, "pyarrow")

    # ---- keeping, showing ----

    def _get_serializable_fields(self) -> dict[str, Any]:
        # One that comes out of an old pickle may lack what is younger than that.
        fields = {name: vars(self)["_" + name] for name in self._saved_fields if "_" + name in vars(self)}
        if self._is_fittable:
            fields["_fitted"] = getattr(self, "_fitted", None)
        return fields

    def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
        if version != self.get_version():
            raise ValueError(f"it has version {version!r} of the fields of {type(self).__name__}, and this is {self.get_version()}")
        for name in self._saved_fields:
            vars(self)["_" + name] = fields[name]
        self._fitted = bool(fields.get("_fitted"))

    def __repr__(self) -> str:
        shown = (f"{name}={self._shown(name)}" for name in self._shown_fields)
        return f"{type(self).__name__}({', '.join(shown)})"

    def _shown(self, name: str) -> str:
        return repr(vars(self)["_" + name])


def _is_installed(module: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(module) is not None


class Changing:
    """A preprocessor as a function of engine batches."""

    def __init__(self, preprocessor: ColumnPreprocessor, method: str = "_changed") -> None:
        self.preprocessor, self.method = preprocessor, method

    def __call__(self, batch: Batch) -> Batch:
        change: Callable[[Given], dict[str, Any]] = getattr(self.preprocessor, self.method)
        made = change(Given(batch, batch.names, self.preprocessor))
        gone = set(self.preprocessor._dropped(batch.names)) if self.method == "_changed" else set()
        if gone:
            batch = batch.select([name for name in batch.names if name not in gone])
        return batch.with_columns(made)


def types_of(ds: Dataset) -> dict[str, str] | None:
    """The columns and their types, where they are known without a run.

    >>> import weir
    >>> types_of(weir.range(3))
    {'id': 'int64'}
    """
    if ds._known_names() is None:
        return None
    schema = ds.schema()
    return None if schema is None else dict(zip(schema.names, schema.type_texts, strict=True))


def in_workers(ds: Dataset, function: Any, name: str, arguments: dict[str, Any]) -> Dataset:
    """A map_batches whose function gets the engine's batches as they are."""
    from weir import _fuse
    from weir._plan import Call

    resources: dict[str, Any] = {key: arguments.pop(key) for key in ("num_cpus", "memory") if key in arguments}
    made = ds._call("map_batches", function, arguments.pop("compute", None), arguments.pop("concurrency", None), resources, {},
                    name=name, **arguments)
    assert isinstance(made._op, Call)
    made._op.spec.batch_format = _fuse.BATCH
    return made


def without(ds: Dataset, names: Sequence[str], whose: str) -> Dataset:
    """Without some columns."""
    from weir._plan import Transform, quoted

    return ds._then(Transform(ds._op, "drop", [quoted(name) for name in dict.fromkeys(names)], whose)) if names else ds


def in_engine(ds: Dataset, texts: dict[str, str], whose: str = "Project") -> Dataset:
    """Columns of expressions; each sees the columns as they were."""
    from weir._plan import Transform, quoted

    words = [f"{quoted(name)}={text}" for name, text in texts.items()]
    return ds._then(Transform(ds._op, "with", words, whose)) if texts else ds
