"""DataIterator: a Dataset for code that only consumes, as rows, batches, and tensors of torch, TensorFlow and JAX."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from weir import _blocks, _formats, _progress, _session
from weir._loop import Holding, IterationTimes, Looked, Prefetched, Waiting, check_iteration, mapped, sized
from weir._mistakes import ROWS_MAX
from weir._plan import rules_of

if TYPE_CHECKING:
    from weir._run import Run
    from weir._weir import Batch
    from weir.collate_fn import CollateFn
    from weir.context import DataContext
    from weir.dataset import Dataset, MaterializedDataset
    from weir.schema import Schema

T = TypeVar("T")


class DataIterator:
    """A Dataset to loop over, for code that only consumes.

    >>> import weir
    >>> for batch in weir.range(4).iterator().iter_batches(batch_size=2):
    ...     print(batch["id"])
    [0 1]
    [2 3]
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    # ---- what others are made of ----

    def _open(self, batch_rows: int, by_blocks: bool = False) -> tuple[Iterator[Batch], Waiting | Run]:
        """The engine's batches from the first on, and who is told of waiting for them."""
        dataset = self._dataset
        run = dataset._last_run = dataset._new_run()
        run.gives_blocks = by_blocks
        run.meanwhile = _formats.import_numpy  # which batches are made of
        run.asking = _progress.Asking()
        run.asks()
        return run.given(run.parts(), batch_rows), run

    def _are_private(self) -> bool:
        """Whether tensors may lie over the memory of the batches, which the loop owns."""
        return True

    def _holding(self) -> Holding:
        """Who is told what is kept for a loop."""
        return Holding(_session.current().native)

    def _are_frames(self) -> bool:
        """Whether the rows are those of a frame that the user has given."""
        return bool(rules_of(self._dataset._op))

    def _note_times(self) -> IterationTimes:
        times = self._dataset._iteration = IterationTimes()
        return times

    def _batches(
        self,
        batch_size: int | None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        by_blocks: bool = True,
    ) -> tuple[Iterator[Batch], Waiting | Run]:
        """The same, cut to size."""
        if batch_size is None:
            return self._open(0, by_blocks)
        batch_size = min(batch_size, ROWS_MAX)
        batches, waiting = self._open(0 if local_shuffle_buffer_size else batch_size)
        if local_shuffle_buffer_size is not None:
            from weir._local_shuffle import shuffled

            return shuffled(batches, batch_size, local_shuffle_buffer_size, local_shuffle_seed, drop_last, self._holding()), waiting
        return _blocks.rebatched(batches, batch_size, drop_last, self._holding()), waiting

    def _looped(
        self, make: Callable[[], tuple[Iterator[Batch], Waiting | Run]], finish: Callable[[Batch], T], ahead: int
    ) -> Looked[T]:
        timing = self._note_times()

        def loop() -> Iterator[T]:
            begun = time.perf_counter()
            forks = _session.forks
            batches, waiting = make()

            def made(batch: Batch) -> T:
                return finish(waiting.own(batch))

            items: Iterator[T] = (
                iter(Prefetched(sized(batches, made), ahead, waiting.cancel, self._holding())) if ahead > 0 else mapped(batches, made)
            )
            del batches
            try:
                while True:
                    asked = time.perf_counter()
                    waiting.asks()
                    try:
                        item = next(items)
                    except StopIteration:
                        break
                    waiting.works()
                    now = time.perf_counter()
                    timing.note(asked, now, begun)
                    yield item
                    del item
                    _session.check_process(forks)
                    timing.user += time.perf_counter() - now
            finally:
                items.close()  # type: ignore[attr-defined]
                timing.total = time.perf_counter() - begun

        return Looked(loop)

    # ---- rows and batches ----

    def iter_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        batch_format: str | None = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        _collate_fn: Callable[[Any], Any] | None = None,
    ) -> Iterable[Any]:
        """Batches of `batch_size` rows (the last one may be shorter), or one a block with None.

        Args:
            prefetch_batches: how many batches are made ready before they are asked for. The engine itself always works ahead;
                this is about the making of pandas, pyarrow and torch objects and the calls of a collate_fn.
            batch_size: rows a batch.
            batch_format: "numpy" (a dict of arrays; the default), "pandas", "pyarrow", "torch", or None.
            drop_last: leave out a last batch that is too short.
            local_shuffle_buffer_size: draw rows at random from a buffer of so many.
            local_shuffle_seed: makes that repeatable.

        >>> import weir
        >>> [len(batch["id"]) for batch in weir.range(10).iter_batches(batch_size=4)]
        [4, 4, 2]
        """
        check_iteration(batch_size, batch_format, prefetch_batches, local_shuffle_buffer_size)
        arrow_backed = bool(self.get_context().enable_arrow_backed_pandas_conversion)
        frames = self._are_frames()

        def finish(batch: Batch) -> Any:
            made = _formats.to_format(batch, batch_format, True, arrow_backed, frames=frames)
            return _collate_fn(made) if _collate_fn is not None else made

        plain = batch_format in ("default", "numpy") and _collate_fn is None
        return self._looped(
            lambda: self._batches(batch_size, drop_last, local_shuffle_buffer_size, local_shuffle_seed),
            finish,
            0 if plain else max(0, prefetch_batches),
        )

    def iter_rows(self) -> Iterable[dict[str, Any]]:
        """The rows, as dicts of plain Python values.

        >>> import weir
        >>> [row["id"] for row in weir.range(3).iter_rows()]
        [0, 1, 2]
        """

        def loop() -> Iterator[dict[str, Any]]:
            forks = _session.forks
            batches, waiting = self._batches(None, by_blocks=False)
            for batch in batches:
                waiting.works()
                for at in range(0, batch.num_rows, 1024):
                    piece = batch.slice(at, min(at + 1024, batch.num_rows))
                    for row in _blocks.rows_of(piece, waiting):
                        yield row
                        if forks != _session.forks:
                            _session.check_process(forks)
                del batch
                waiting.asks()

        return Looked(loop)

    # ---- tensors ----

    def iter_torch_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: Any = None,
        device: Any = "auto",
        collate_fn: Callable[[Any], Any] | CollateFn[Any] | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        pin_memory: bool = False,
    ) -> Iterable[Any]:
        """Batches as dicts of torch tensors, which may be written to.

        Args:
            dtypes: one torch dtype for all columns, or a dict by column; else the columns' own.
            device: where to; "auto" is the CPU.
            collate_fn: makes a training batch of a dict of NumPy arrays (or what its class says: weir.collate_fn), instead of
                tensors. What it returns is pinned and moved if it consists of tensors, in dicts, lists and tuples.
            pin_memory: copies into memory from which a GPU can fetch.
            batch_size, prefetch_batches, drop_last, local_shuffle_buffer_size, local_shuffle_seed: as for iter_batches().

        >>> import torch, weir
        >>> for batch in weir.range(4).iterator().iter_torch_batches(batch_size=2):
        ...     print(batch)
        {'id': tensor([0, 1])}
        {'id': tensor([2, 3])}
        """
        if collate_fn is not None and dtypes is not None:
            raise ValueError(
                "collate_fn cannot be used with dtypes. You should manually convert the output Torch tensors to the desired "
                "dtype inside collate_fn."
            )
        if collate_fn is not None and not callable(collate_fn):
            raise ValueError(f"Unsupported collate function: {type(collate_fn)}")
        check_iteration(batch_size, "numpy", prefetch_batches, local_shuffle_buffer_size)
        target = None if device == "auto" else device
        if collate_fn is not None:
            finish = _collated(collate_fn, target, pin_memory)
        else:
            finish = _tensors(dtypes, target, pin_memory, self._are_private())
        costly = collate_fn is not None or target not in (None, "cpu") or pin_memory
        return self._looped(
            lambda: self._batches(batch_size, drop_last, local_shuffle_buffer_size, local_shuffle_seed),
            finish,
            max(0, prefetch_batches) if costly else 0,
        )

    def to_torch(
        self,
        *,
        label_column: str | None = None,
        feature_columns: Any = None,
        label_column_dtype: Any = None,
        feature_column_dtypes: Any = None,
        batch_size: int = 1,
        prefetch_batches: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        unsqueeze_label_tensor: bool = True,
        unsqueeze_feature_tensors: bool = True,
    ) -> Any:
        """A torch IterableDataset of pairs: features and label. In workers of a DataLoader each gives a part of the rows; that of
        a DataLoader is batch_size=None, since batches are made here.

        Args:
            label_column: None: the second of each pair is None.
            feature_columns: a list of columns for one tensor, a list of lists for a list of tensors, a dict of lists for a dict
                of tensors; None: all but the label, in one tensor.
            label_column_dtype, feature_column_dtypes: torch dtypes, in the same arrangement.
            unsqueeze_label_tensor, unsqueeze_feature_tensors: columns of single numbers have the shape (rows, 1).

        >>> import torch, weir
        >>> ds = weir.from_items([{"a": 1.0, "b": 2.0, "y": 0}, {"a": 3.0, "b": 4.0, "y": 1}])
        >>> for features, label in ds.iterator().to_torch(label_column="y", batch_size=2):
        ...     print(features.tolist(), label.tolist())
        [[1.0, 2.0], [3.0, 4.0]] [[0], [1]]
        """
        from weir import _outdated, _torch_dataset
        from weir.util import RayDeprecationWarning

        _outdated.warn("`to_torch` is deprecated in Ray Data: `iter_torch_batches` gives the same tensors; weir keeps both", RayDeprecationWarning)
        check_iteration(batch_size, "numpy", prefetch_batches, local_shuffle_buffer_size)
        return _torch_dataset.made(
            self,
            label_column,
            feature_columns,
            label_column_dtype,
            feature_column_dtypes,
            {
                "batch_size": batch_size,
                "prefetch_batches": prefetch_batches,
                "drop_last": drop_last,
                "local_shuffle_buffer_size": local_shuffle_buffer_size,
                "local_shuffle_seed": local_shuffle_seed,
            },
            unsqueeze_label_tensor,
            unsqueeze_feature_tensors,
        )

    def iter_tf_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: Any = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
    ) -> Iterable[Any]:
        """Batches as dicts of TensorFlow tensors. ImportError where TensorFlow is not installed.

        >>> import weir
        >>> batches = weir.range(4).iterator().iter_tf_batches(batch_size=2)  # doctest: +SKIP
        """
        from weir import _outdated, _tensorflow

        _outdated.warn("`iter_tf_batches` is deprecated in Ray Data: `to_tf` gives the same tensors; weir keeps both")
        check_iteration(batch_size, "numpy", prefetch_batches, local_shuffle_buffer_size)
        convert = _tensorflow.converter(dtypes)
        return self.iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            _collate_fn=convert,
        )

    def to_tf(
        self,
        feature_columns: str | list[str],
        label_columns: str | list[str],
        *,
        additional_columns: str | list[str] | None = None,
        prefetch_batches: int = 1,
        batch_size: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        feature_type_spec: Any = None,
        label_type_spec: Any = None,
        additional_type_spec: Any = None,
    ) -> Any:
        """A tf.data.Dataset of features, labels and, if wanted, additional columns: each a tensor for one column, a dict for a
        list of columns. ValueError where TensorFlow is not installed.

        >>> import weir
        >>> ds = weir.range(4).iterator().to_tf("id", "id")  # doctest: +SKIP
        """
        from weir import _tensorflow

        check_iteration(batch_size, "numpy", prefetch_batches, local_shuffle_buffer_size)
        batches = self.iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
        )
        columns = [feature_columns, label_columns] + ([additional_columns] if additional_columns is not None else [])
        specs = [feature_type_spec, label_type_spec] + ([additional_type_spec] if additional_columns is not None else [])
        return _tensorflow.dataset(batches, columns, specs, self.schema)

    def iter_jax_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int = 256,
        dtypes: Any = None,
        collate_fn: CollateFn[Any] | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        synchronize_batches: bool = False,
        paddings: Any = None,
    ) -> Iterable[Any]:
        """Batches as dicts of JAX arrays, divided among the devices. ImportError where JAX is not installed.

        Args:
            batch_size: of each process; a multiple of the number of its devices.
            dtypes: one for all columns, or a dict by column.
            collate_fn: makes a NumPy array, or a dict of them, of a batch (weir.collate_fn says of what).
            synchronize_batches: check that all processes have batches of one shape.
            paddings: fills up a last batch that is too short, with one value or one by column.

        >>> import weir
        >>> batches = weir.range(4).iterator().iter_jax_batches(batch_size=2)  # doctest: +SKIP
        """
        from weir import _jax

        check_iteration(batch_size, "numpy", prefetch_batches, local_shuffle_buffer_size)
        _jax.check(batch_size)
        batches = self.iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            batch_format=collated_format(collate_fn) if collate_fn is not None else "numpy",
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            _collate_fn=collate_fn,
        )
        return Looked(lambda: _jax.arrays(iter(batches), drop_last, batch_size, paddings, dtypes, synchronize_batches))

    # ---- about it ----

    def materialize(self) -> MaterializedDataset:
        """Runs the plan and keeps its rows.

        >>> import weir
        >>> weir.range(3).iterator().materialize().count()
        3
        """
        return self._dataset.materialize()

    def schema(self) -> Schema | None:
        """The columns.

        >>> import weir
        >>> weir.range(3).iterator().schema().names
        ['id']
        """
        return self._dataset.schema()

    def stats(self) -> str:
        """What the last run did, as text.

        >>> import weir
        >>> it = weir.range(3).iterator()
        >>> rows = list(it.iter_rows())
        >>> "ReadRange" in it.stats()
        True
        """
        return self._dataset.stats()

    def get_context(self) -> DataContext:
        """The settings of the Dataset.

        >>> import weir
        >>> weir.range(3).iterator().get_context().max_errored_blocks
        0
        """
        return self._dataset.context

    def __repr__(self) -> str:
        return f"DataIterator({self._dataset!r})"

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("`DataIterator` objects aren't iterable: call iter_rows() or iter_batches()")

    def __reduce__(self) -> Any:
        if self._dataset.has_serializable_lineage():
            import cloudpickle

            # Not pickle, which whoever sends it (multiprocessing) may use, and which knows no lambdas.
            return _unpickled, (cloudpickle.dumps(self._dataset),)
        from weir import _streaming_split

        # Its rows are in this process: they go there as those of a split do.
        return _streaming_split.SplitIterator(_streaming_split.Coordinator(self._dataset, 1, False), 0).__reduce__()


DatasetIterator = DataIterator


def _unpickled(dataset: bytes) -> DataIterator:
    import pickle

    return DataIterator(pickle.loads(dataset))


def _tensors(dtypes: Any, device: Any, pin_memory: bool, owned: bool) -> Callable[[Batch], Any]:
    def finish(batch: Batch) -> Any:
        if not pin_memory:
            return _formats.to_torch(batch, dtypes, device, owned)
        pinned = {name: tensor.pin_memory() for name, tensor in _formats.to_torch(batch, dtypes, None, True).items()}
        if device is None:
            return pinned
        return {name: tensor.to(device, non_blocking=True) for name, tensor in pinned.items()}

    return finish


def collated_format(collate_fn: Any) -> str:
    """The batch_format that a collate_fn takes.

    >>> collated_format(lambda batch: batch)
    'numpy'
    """
    from weir.collate_fn import ArrowBatchCollateFn, PandasBatchCollateFn

    if isinstance(collate_fn, PandasBatchCollateFn):
        return "pandas"
    return "pyarrow" if isinstance(collate_fn, ArrowBatchCollateFn) else "numpy"


def _collated(collate_fn: Callable[[Any], Any], device: Any, pin_memory: bool) -> Callable[[Batch], Any]:
    batch_format = collated_format(collate_fn)

    def finish(batch: Batch) -> Any:
        from weir import torch_utils
        from weir.collate_fn import is_tensor_batch_type

        made = collate_fn(_formats.to_format(batch, batch_format, zero_copy=False))
        if not is_tensor_batch_type(made):
            return made
        if pin_memory:
            made = torch_utils.pin_tensors_to_memory(made)
        return torch_utils.move_tensors_to_device(made, "cpu" if device is None else device)

    return finish
