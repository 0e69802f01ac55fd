"""Chain: preprocessors one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir.data_batch_conversion import BatchFormat
from weir.preprocessor import Preprocessor, SerializablePreprocessorBase, _FitStatus
from weir.preprocessors.version_support import SerializablePreprocessor

if TYPE_CHECKING:
    from weir.dataset import Dataset

__all__ = ["Chain"]


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.chain")
class Chain(SerializablePreprocessorBase):
    """Several preprocessors as one: each learns from what those before it make of the data.

    >>> import weir
    >>> from weir.preprocessors import MinMaxScaler, SimpleImputer
    >>> ds = weir.from_items([{"x": 0.0}, {"x": None}, {"x": 4.0}])
    >>> chain = Chain(SimpleImputer(["x"]), MinMaxScaler(["x"]))
    >>> chain.fit_transform(ds).take()
    [{'x': 0.0}, {'x': 0.5}, {'x': 1.0}]
    >>> chain.fit_status().value
    'FITTED'
    """

    def __init__(self, *preprocessors: Preprocessor) -> None:
        super().__init__()
        self._preprocessors = preprocessors

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "preprocessors" in state:  # as older pickles have it
            state = dict(state)
            state["_preprocessors"] = state.pop("preprocessors")
        super().__setstate__(state)

    @property
    def preprocessors(self) -> tuple[Preprocessor, ...]:
        """Those of which it is made.

        >>> from weir.preprocessors import Normalizer
        >>> len(Chain(Normalizer(["a"]), Normalizer(["b"])).preprocessors)
        2
        """
        return self._preprocessors

    def fit_status(self) -> _FitStatus:
        """FITTED when all have learnt, PARTIALLY_FITTED when some have.

        >>> from weir.preprocessors import Normalizer
        >>> Chain(Normalizer(["a"])).fit_status().value
        'NOT_FITTABLE'
        """
        found = [one.fit_status() for one in self._preprocessors]
        states = [state for state in found if state is not _FitStatus.NOT_FITTABLE]
        if not states:
            return _FitStatus.NOT_FITTABLE
        if all(state is _FitStatus.FITTED for state in states):
            return _FitStatus.FITTED
        return _FitStatus.PARTIALLY_FITTED if _FitStatus.FITTED in states else _FitStatus.NOT_FITTED

    def _fit(self, ds: Dataset) -> Chain:
        for one in self._preprocessors[:-1]:
            ds = one.fit_transform(ds)
        self._preprocessors[-1].fit(ds)
        return self

    def fit_transform(self, ds: Dataset, **arguments: Any) -> Dataset:
        """Each learns, and changes the data for the next. Arguments: of Preprocessor.fit_transform.

        >>> import weir
        >>> from weir.preprocessors import MaxAbsScaler
        >>> Chain(MaxAbsScaler(["id"])).fit_transform(weir.range(2)).take()
        [{'id': 0.0}, {'id': 1.0}]
        """
        for one in self._preprocessors:
            ds = one.fit_transform(ds, **arguments)
        return ds

    def _transform(
        self,
        ds: Dataset,
        batch_size: int | None,
        num_cpus: float | None = None,
        memory: float | None = None,
        concurrency: int | None = None,
    ) -> Dataset:
        for one in self._preprocessors:
            ds = one.transform(ds, batch_size=batch_size, num_cpus=num_cpus, memory=memory, concurrency=concurrency)
        return ds

    def _transform_batch(self, data: Any) -> Any:
        for one in self._preprocessors:
            data = one.transform_batch(data)
        return data

    def _determine_transform_to_use(self) -> BatchFormat:
        return self._preprocessors[0]._determine_transform_to_use()

    def _get_serializable_fields(self) -> dict[str, Any]:
        return {"preprocessors": self._preprocessors}

    def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
        self._preprocessors = tuple(fields["preprocessors"])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._preprocessors))})"
