"""Preprocessor: something that learns from a Dataset (`fit`) and changes Datasets and single batches (`transform`).

    fit(ds) ─▶ _fit(ds)           fills the plan of aggregations, or sets stats_ itself
            ─▶ plan.compute(ds)   one pass over the data  ─▶ stats_
    transform(ds)                 _transform_numpy, _transform_pandas or _transform_arrow for each batch, in workers
    transform_batch(batch)        the same for one batch, here

Those of weir.preprocessors go through the engine instead, where its expressions can do the work (preprocessors/_columns.py).

    >>> import weir
    >>> class Centred(Preprocessor):
    ...     def _fit(self, ds):
    ...         self.stats_ = {"mean": ds.mean("id")}
    ...         return self
    ...     def _transform_numpy(self, batch):
    ...         return {"id": batch["id"] - self.stats_["mean"]}
    >>> Centred().fit_transform(weir.range(3)).take()
    [{'id': -1.0}, {'id': 0.0}, {'id': 1.0}]
"""

from __future__ import annotations

import abc
import enum
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

from weir.data_batch_conversion import BatchFormat

if TYPE_CHECKING:
    import os

    from weir.dataset import Dataset
    from weir.preprocessors.utils import StatComputationPlan

__all__ = ["Preprocessor", "PreprocessorNotFittedException", "SerializablePreprocessorBase", "SerializationFormat"]


class PreprocessorNotFittedException(RuntimeError):
    """It has to learn from data first.

    >>> issubclass(PreprocessorNotFittedException, RuntimeError)
    True
    """


class _FitStatus(str, enum.Enum):
    NOT_FITTABLE = "NOT_FITTABLE"
    NOT_FITTED = "NOT_FITTED"
    PARTIALLY_FITTED = "PARTIALLY_FITTED"
    FITTED = "FITTED"


_FitStatus.__name__ = "FitStatus"


class Preprocessor(abc.ABC):
    """What all preprocessors have in common. For one of your own, define `_fit` (or `_is_fittable = False`) and one of
    `_transform_numpy`, `_transform_pandas` and `_transform_arrow`: see the module's example.

    >>> class Halved(Preprocessor):
    ...     _is_fittable = False
    ...     def _transform_numpy(self, batch):
    ...         return {"id": batch["id"] / 2}
    >>> Halved().transform_batch({"id": __import__("numpy").array([2, 3])})
    {'id': array([1. , 1.5])}
    """

    FitStatus = _FitStatus
    _is_fittable: bool = True

    def __init__(self) -> None:
        from weir.preprocessors.utils import StatComputationPlan

        self._stat_computation_plan = StatComputationPlan()
        self.stats_: dict[str, Any] = {}

    @property
    def stat_computation_plan(self) -> StatComputationPlan:
        """What `fit` computes; `_fit` fills it, and it is empty before.

        >>> from weir.preprocessors import StandardScaler
        >>> list(StandardScaler(["a"]).stat_computation_plan)
        []
        """
        return self._stat_computation_plan

    # ---- learning ----

    def fit_status(self) -> _FitStatus:
        """Whether it has learnt what it needs.

        >>> from weir.preprocessors import MinMaxScaler, Normalizer
        >>> MinMaxScaler(["a"]).fit_status().value, Normalizer(["a"]).fit_status().value
        ('NOT_FITTED', 'NOT_FITTABLE')
        """
        if not self._is_fittable:
            return _FitStatus.NOT_FITTABLE
        if getattr(self, "_fitted", False) or self._check_has_fitted_state():
            return _FitStatus.FITTED
        return _FitStatus.NOT_FITTED

    def _check_has_fitted_state(self) -> bool:
        return any(name.endswith("_") and value for name, value in vars(self).items())

    def has_stats(self) -> bool:
        """Whether there is something in stats_.

        >>> from weir.preprocessors import MinMaxScaler
        >>> MinMaxScaler(["a"]).has_stats()
        False
        """
        return bool(getattr(self, "stats_", None))

    def fit(self, ds: Dataset) -> Self:
        """Learns from a Dataset; what was learnt before is forgotten, with a warning. Gives itself.

        >>> import weir
        >>> from weir.preprocessors import MinMaxScaler
        >>> MinMaxScaler(["id"]).fit(weir.range(5)).stats_
        {'min(id)': 0, 'max(id)': 4}
        """
        status = self.fit_status()
        if status is _FitStatus.NOT_FITTABLE:
            return self
        if status is not _FitStatus.NOT_FITTED:
            import warnings

            warnings.warn(
                "`fit` has already been called on the preprocessor (or at least one contained preprocessors if this is a chain). "
                "All previously fitted state will be overwritten!"
            )
        self._stat_computation_plan.reset()
        self.stats_ = {}
        fitted = self._fit(ds)
        (self if fitted is None else fitted)._fit_execute(ds)  # those written for Ray before 2.50 may return nothing
        self._fitted = True
        return self

    def _fit(self, ds: Dataset) -> Preprocessor | None:
        raise NotImplementedError(f"{type(self).__name__} has no _fit: define it, or set _is_fittable = False")

    def _fit_execute(self, dataset: Dataset) -> Preprocessor:
        self.stats_ |= self._stat_computation_plan.compute(dataset)
        return self

    def fit_transform(
        self,
        ds: Dataset,
        *,
        transform_num_cpus: float | None = None,
        transform_memory: float | None = None,
        transform_batch_size: int | None = None,
        transform_concurrency: int | None = None,
    ) -> Dataset:
        """`fit`, then `transform`, of the same Dataset.

        >>> import weir
        >>> from weir.preprocessors import MaxAbsScaler
        >>> MaxAbsScaler(["id"]).fit_transform(weir.range(3)).take()
        [{'id': 0.0}, {'id': 0.5}, {'id': 1.0}]
        """
        self.fit(ds)
        return self.transform(
            ds,
            num_cpus=transform_num_cpus,
            memory=transform_memory,
            batch_size=transform_batch_size,
            concurrency=transform_concurrency,
        )

    def _need_fitted(self, method: str) -> None:
        if self.fit_status() in (_FitStatus.PARTIALLY_FITTED, _FitStatus.NOT_FITTED):
            also = ", or simply use fit_transform() to do both" if method == "transform" else ""
            raise PreprocessorNotFittedException(f"`fit` must be called before `{method}`{also}: {self!r} has learnt nothing yet")

    # ---- changing ----

    def transform(
        self,
        ds: Dataset,
        *,
        batch_size: int | None = None,
        num_cpus: float | None = None,
        memory: float | None = None,
        concurrency: int | None = None,
    ) -> Dataset:
        """The changed Dataset; nothing runs yet. The other arguments are map_batches', for where workers do the work.

        >>> import weir
        >>> from weir.preprocessors import PowerTransformer
        >>> PowerTransformer(["id"], power=2, method="box-cox").transform(weir.range(3)).take()
        [{'id': -0.5}, {'id': 0.0}, {'id': 1.5}]
        """
        self._need_fitted("transform")
        return self._transform(ds, batch_size=batch_size, num_cpus=num_cpus, memory=memory, concurrency=concurrency)

    def transform_batch(self, data: Any) -> Any:
        """One batch, changed: a dict of NumPy arrays, an array, a pandas.DataFrame or a pyarrow.Table.

        >>> import pandas as pd
        >>> from weir.preprocessors import Normalizer
        >>> Normalizer(["a", "b"]).transform_batch(pd.DataFrame({"a": [3.0], "b": [4.0]})).to_dict("records")
        [{'a': 0.6, 'b': 0.8}]
        """
        self._need_fitted("transform_batch")
        return self._transform_batch(data)

    def _determine_transform_to_use(self) -> BatchFormat:
        kinds = {
            BatchFormat.PANDAS: type(self)._transform_pandas is not Preprocessor._transform_pandas,
            BatchFormat.NUMPY: type(self)._transform_numpy is not Preprocessor._transform_numpy,
            BatchFormat.ARROW: type(self)._transform_arrow is not Preprocessor._transform_arrow,
        }
        there = [kind for kind, is_there in kinds.items() if is_there]
        if not there:
            raise NotImplementedError(
                f"{type(self).__name__} has none of _transform_numpy, _transform_pandas and _transform_arrow: define one of them"
            )
        return there[0] if len(there) == 1 else self.preferred_batch_format()

    def _get_transform_config(self) -> dict[str, Any]:
        """More arguments for map_batches."""
        return {}

    def _transform(
        self,
        ds: Dataset,
        batch_size: int | None,
        num_cpus: float | None = None,
        memory: float | None = None,
        concurrency: int | None = None,
    ) -> Dataset:
        given = {"num_cpus": num_cpus, "memory": memory, "batch_size": batch_size, "concurrency": concurrency}
        arguments = self._get_transform_config() | {name: value for name, value in given.items() if value is not None}
        kind = self._determine_transform_to_use()
        functions = {
            BatchFormat.PANDAS: ("pandas", self._transform_pandas),
            BatchFormat.NUMPY: ("numpy", self._transform_numpy),
            BatchFormat.ARROW: ("pyarrow", self._transform_arrow),
        }
        if kind not in functions:
            raise ValueError(f"preferred_batch_format is pandas, numpy or arrow, not {kind!r}")
        name, function = functions[kind]
        return ds.map_batches(function, batch_format=name, zero_copy_batch=True, **arguments)

    def _transform_batch(self, data: Any) -> Any:
        from weir.preprocessors import _batches

        _batches.kind_of(data)  # what is no batch is said first
        kind = self._determine_transform_to_use()
        if kind is BatchFormat.PANDAS:
            return self._transform_pandas(_batches.to_pandas(data))
        if kind is BatchFormat.NUMPY:
            return self._transform_numpy(_batches.to_numpy(data))
        given = _batches.to_arrow(data)
        found = self._transform_arrow(given)
        if _batches.kind_of(data) != "pandas":
            return found
        if found.num_rows != given.num_rows:
            raise ValueError(
                f"{type(self).__name__}._transform_arrow made {found.num_rows} rows of {given.num_rows}: of a DataFrame it has to "
                "give as many, in the same order"
            )
        return _batches.like_frame(found, data)

    def _transform_arrow(self, table: Any) -> Any:
        raise NotImplementedError

    def _transform_pandas(self, df: Any) -> Any:
        raise NotImplementedError

    def _transform_numpy(self, np_data: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def preferred_batch_format(cls) -> BatchFormat:
        """Which of several `_transform_*` is used.

        >>> Preprocessor.preferred_batch_format().value
        'pandas'
        """
        return BatchFormat.PANDAS

    @classmethod
    def _derive_and_validate_output_columns(cls, columns: list[str], output_columns: list[str] | None) -> list[str]:
        if output_columns and len(columns) != len(output_columns):
            raise ValueError(
                f"Invalid output_columns: there are {len(output_columns)} of them for {len(columns)} columns. "
                "The length of columns and output_columns must match."
            )
        return output_columns or columns

    def get_input_columns(self) -> list[str]:
        """The columns that it reads.

        >>> from weir.preprocessors import MinMaxScaler
        >>> MinMaxScaler(["a"], output_columns=["b"]).get_input_columns()
        ['a']
        """
        found: list[str] = getattr(self, "_columns", None) or getattr(self, "columns", [])
        return found

    def get_output_columns(self) -> list[str]:
        """The columns that it writes.

        >>> from weir.preprocessors import MinMaxScaler
        >>> MinMaxScaler(["a"], output_columns=["b"]).get_output_columns()
        ['b']
        """
        found: list[str] = getattr(self, "_output_columns", None) or getattr(self, "output_columns", [])
        return found

    # ---- keeping ----

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        state.pop("_stat_computation_plan", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        from weir.preprocessors.utils import StatComputationPlan

        vars(self).update(state)
        vars(self).pop("stat_computation_plan", None)
        self._stat_computation_plan = StatComputationPlan()

    def serialize(self) -> str | bytes:
        """This preprocessor as text. It is a pickle: `deserialize` takes it from this very process, from others only with
        allow_pickle=True. (Those of weir.preprocessors are saved without pickle, as bytes.)

        >>> class Halved(Preprocessor):
        ...     _is_fittable = False
        >>> type(Preprocessor.deserialize(Halved().serialize())).__name__
        'Halved'
        """
        import base64

        from weir.preprocessors import _saved

        return base64.b64encode(_saved.pickled(self)).decode("ascii")

    @staticmethod
    def deserialize(serialized: str | bytes, *, allow_pickle: bool = False) -> Preprocessor:
        """The preprocessor of `serialize`.

        Args:
            allow_pickle: also from pickles that another process made, or Ray Data: whoever wrote them may run anything here.

        >>> from weir.preprocessors import Normalizer
        >>> Preprocessor.deserialize(Normalizer(["a"]).serialize())
        Normalizer(columns=['a'], norm='l2', output_columns=['a'])
        """
        return _deserialized(serialized, allow_pickle)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file, whole or not at all.

        >>> import tempfile
        >>> from weir.preprocessors import Normalizer
        >>> path = f"{tempfile.mkdtemp()}/normalizer"
        >>> Normalizer(["a"]).save(path)
        >>> Preprocessor.load(path)
        Normalizer(columns=['a'], norm='l2', output_columns=['a'])
        """
        import os

        data = self.serialize()
        target = os.fspath(path)
        part = f"{target}.{os.getpid()}.part"
        try:
            with open(part, "wb") as file:
                file.write(data.encode() if isinstance(data, str) else data)
            os.replace(part, target)
        finally:
            if os.path.exists(part):
                os.unlink(part)

    @staticmethod
    def load(path: str | os.PathLike[str], *, allow_pickle: bool = False) -> Preprocessor:
        """What `save` wrote. See `deserialize`.

        >>> Preprocessor.load("/nowhere")
        Traceback (most recent call last):
        ...
        FileNotFoundError: [Errno 2] No such file or directory: '/nowhere'
        """
        with open(path, "rb") as file:
            data = file.read()
        return _deserialized(data if data.startswith((b"WEIR", b"CPKL:")) else data.decode("ascii", "replace"), allow_pickle)


def _deserialized(serialized: Any, allow_pickle: bool) -> Preprocessor:
    import base64

    from weir.preprocessors import _saved
    from weir.preprocessors.version_support import UnknownPreprocessorError

    if not isinstance(serialized, (str, bytes)):
        raise TypeError(f"deserialize takes bytes or text, not {type(serialized).__name__}")
    try:
        if isinstance(serialized, str):
            serialized = base64.b64decode(serialized, validate=True)
        return _saved.loaded(serialized, allow_pickle)
    except UnknownPreprocessorError:
        raise
    except Exception as error:
        raise ValueError(f"Failed to deserialize preprocessor: {error}") from error


class _SerializationFormat(enum.Enum):
    CLOUDPICKLE = "cloudpickle"
    PICKLE = "pickle"


_SerializationFormat.__name__ = "SerializationFormat"


class SerializablePreprocessorBase(Preprocessor, abc.ABC):
    """A preprocessor that says which fields it has, so that it can be saved without pickle and loaded by later versions.

    A class of your own defines `_get_serializable_fields` and `_set_serializable_fields` and has the decorator
    `weir.preprocessors.version_support.SerializablePreprocessor`.

    >>> from weir.preprocessors.version_support import SerializablePreprocessor
    >>> @SerializablePreprocessor(version=1, identifier="docs.times")
    ... class Times(SerializablePreprocessorBase):
    ...     _is_fittable = False
    ...     def __init__(self, factor):
    ...         super().__init__()
    ...         self.factor = factor
    ...     def _transform_numpy(self, batch):
    ...         return {"id": batch["id"] * self.factor}
    ...     def _get_serializable_fields(self):
    ...         return {"factor": self.factor}
    ...     def _set_serializable_fields(self, fields, version):
    ...         self.factor = fields["factor"]
    >>> Times(3).serialize()[:20]
    b'WEIR-PREPROCESSOR 1\\n'
    >>> Preprocessor.deserialize(Times(3).serialize()).factor
    3
    """

    SerializationFormat = _SerializationFormat
    MAGIC_CLOUDPICKLE: ClassVar[bytes] = b"CPKL:"
    SERIALIZER_FORMAT_VERSION: ClassVar[int] = 1
    _class_id: ClassVar[str]
    _version: ClassVar[int]

    @abc.abstractmethod
    def _get_serializable_fields(self) -> dict[str, Any]:
        """What makes it this one: the arguments of its constructor, and whether it has learnt."""

    @abc.abstractmethod
    def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
        """Takes them back; `version`: of the class that saved them."""

    def _get_stats(self) -> dict[str, Any]:
        found: dict[str, Any] = getattr(self, "stats_", {})
        return found

    def _set_stats(self, stats: dict[str, Any]) -> None:
        self.stats_ = stats

    @classmethod
    def get_preprocessor_class_id(cls) -> str:
        """The name under which it is saved.

        >>> from weir.preprocessors import Chain
        >>> Chain.get_preprocessor_class_id()
        'io.ray.preprocessors.chain'
        """
        return cls._class_id

    @classmethod
    def set_preprocessor_class_id(cls, identifier: str) -> None:
        """Names it; the decorator does.

        >>> class Mine(SerializablePreprocessorBase): pass
        >>> Mine.set_preprocessor_class_id("mine")
        >>> Mine.get_preprocessor_class_id()
        'mine'
        """
        cls._class_id = identifier

    @classmethod
    def get_version(cls) -> int:
        """The version of its fields.

        >>> from weir.preprocessors import Chain
        >>> Chain.get_version()
        1
        """
        return cls._version

    @classmethod
    def set_version(cls, version: int) -> None:
        """Sets it; the decorator does.

        >>> class Mine(SerializablePreprocessorBase): pass
        >>> Mine.set_version(2)
        >>> Mine.get_version()
        2
        """
        cls._version = version

    @final
    def serialize(self) -> bytes:
        """This preprocessor as bytes: a line and JSON (docs/preprocessors.md), no pickle, unless it has a function of yours.

        >>> from weir.preprocessors import Normalizer
        >>> Normalizer(["a"]).serialize()[:20]
        b'WEIR-PREPROCESSOR 1\\n'
        """
        from weir.preprocessors import _saved

        return _saved.saved(self)


SerializationFormat = _SerializationFormat


