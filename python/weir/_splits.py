"""The methods of a Dataset that take it apart, put several together, or give it to several consumers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weir._arrange import Mix, MixStoppingCondition, RandomHalf, RandomizeBlocks, RandomSeedConfig, cut_at, sharded
from weir._mistakes import no_dataset
from weir._fixed_blocks import keeps_fixed_blocks
from weir._plan import Blocks, Op

if TYPE_CHECKING:
    from weir.context import DataContext
    from weir.dataset import Dataset, MaterializedDataset
    from weir.iterator import DataIterator
    from weir.random_access_dataset import RandomAccessDataset
    from weir.schema import Schema
    from weir.stats import DatasetStatsSummary, DatasetSummary


class Splits:
    """What Dataset inherits for splitting and mixing."""

    _op: Op
    _context: DataContext
    _schema_known: Schema | None

    if TYPE_CHECKING:

        def _then(self, op: Op) -> Dataset: ...

        def count(self) -> int: ...

        def iterator(self) -> DataIterator: ...

        def materialize(self) -> MaterializedDataset: ...

        def schema(self, fetch_if_missing: bool = True) -> Schema | None: ...

        def map_batches(self, fn: Any, **arguments: Any) -> Dataset: ...

    # ---- materialising splits ----

    def _split_of(self, kept: MaterializedDataset, blocks: Sequence[Any]) -> MaterializedDataset:
        from weir.dataset import MaterializedDataset

        op = kept._op
        assert isinstance(op, Blocks)
        made = MaterializedDataset(Blocks("Split", blocks, op.session, op.fixed, op.rules), self._context)
        made._last_run, made._made = kept._last_run, kept._made
        made._history = kept._history
        if not any(block.num_rows for block in blocks):
            made._schema_known = kept.schema()
        return made

    def split(
        self, n: int, *, equal: bool = False, locality_hints: list[Any] | None = None
    ) -> list[MaterializedDataset]:
        """Runs everything and divides the rows among `n` Datasets, in order.

        Args:
            n: how many.
            equal: each gets the same number of rows, and what is left over is dropped.
            locality_hints: one for each; all are on this machine, so nothing hangs on them.

        >>> import weir
        >>> [part.count() for part in weir.range(10).split(3)]
        [4, 3, 3]
        >>> [part.count() for part in weir.range(10).split(3, equal=True)]
        [3, 3, 3]
        """
        _whole("n", n)
        if n <= 0:
            raise ValueError(f"The number of splits {n} is not positive.")
        if locality_hints is not None and len(locality_hints) != n:
            raise ValueError(f"The length of locality_hints {len(locality_hints)} doesn't equal the number of splits {n}.")
        kept = self.materialize()
        blocks = [block for block in kept._blocks() if block.num_rows]
        rows = sum(block.num_rows for block in blocks)
        if equal:
            parts = cut_at(blocks, [rows // n * (i + 1) for i in range(n)])[:n]
        elif _is_fixed(kept):  # a block goes to one of them whole, also where there are fewer than n
            ends = list(itertools.accumulate(_shares(len(blocks), n)))
            parts = [blocks[begin:end] for begin, end in itertools.pairwise([0, *ends])]
        else:
            parts = cut_at(blocks, list(itertools.accumulate(_shares(rows, n)))[:-1])
        return [self._split_of(kept, part) for part in parts]

    def split_at_indices(self, indices: list[int]) -> list[MaterializedDataset]:
        """Runs everything and cuts the rows at these numbers.

        >>> import weir
        >>> [part.take_all() for part in weir.range(4).split_at_indices([1, 3])]
        [[{'id': 0}], [{'id': 1}, {'id': 2}], [{'id': 3}]]
        """
        if len(indices) < 1:
            raise ValueError("indices must be at least of length 1")
        if sorted(indices) != list(indices):
            raise ValueError("indices must be sorted")
        if indices[0] < 0:
            raise ValueError("indices must be positive")
        kept = self.materialize()
        return [self._split_of(kept, part) for part in cut_at(kept._blocks(), indices)]

    def split_proportionately(self, proportions: list[float]) -> list[MaterializedDataset]:
        """Runs everything and cuts the rows by these shares; one more Dataset has the rest. None is empty.

        >>> import weir
        >>> [part.count() for part in weir.range(10).split_proportionately([0.2, 0.5])]
        [2, 5, 3]
        """
        if len(proportions) < 1:
            raise ValueError("proportions must be at least of length 1")
        if math.fsum(proportions) >= 1:
            raise ValueError("proportions must sum to less than 1")
        if any(share <= 0 for share in proportions):
            raise ValueError("proportions must be bigger than 0")
        kept = self.materialize()
        rows = kept.count()
        indices = []
        whole = 0.0
        for share in proportions:
            whole += share  # one after another, as NumPy's cumsum adds them
            indices.append(int(rows * whole))
        taken = 0
        for i in range(len(indices) - 2, -1, -1):
            indices[i] -= taken
            if indices[i] == indices[i + 1]:
                taken += 1
                indices[i] -= 1
        if any(index <= 0 for index in indices):
            raise ValueError("Couldn't create non-empty splits with the given proportions.")
        return kept.split_at_indices(indices)

    def train_test_split(
        self,
        test_size: int | float,
        *,
        shuffle: bool = False,
        seed: int | None = None,
        stratify: str | None = None,
    ) -> tuple[MaterializedDataset, MaterializedDataset]:
        """Runs everything and cuts off the last rows: a share of them, or so many.

        Args:
            test_size: a share between 0 and 1, or a number of rows.
            shuffle: the rows are put in a random order before, by the seed.
            stratify: a column; the same share of the rows of each of its values is cut off.

        >>> import weir
        >>> train, test = weir.range(8).train_test_split(test_size=0.25)
        >>> train.take_batch()["id"], test.take_batch()["id"]
        (array([0, 1, 2, 3, 4, 5]), array([6, 7]))
        >>> ds = weir.from_items([{"label": label} for label in "aaaabbbb"])
        >>> [part.groupby("label").count().sort("label").take_all() for part in ds.train_test_split(0.25, stratify="label")]
        [[{'label': 'a', 'count()': 3}, {'label': 'b', 'count()': 3}], [{'label': 'a', 'count()': 1}, {'label': 'b', 'count()': 1}]]
        """
        if isinstance(test_size, bool) or not isinstance(test_size, (int, float)):
            raise TypeError(f"`test_size` must be int or float got {type(test_size)}.")
        if shuffle and stratify is not None:
            raise ValueError(
                "Cannot specify both 'shuffle=True' and 'stratify' parameters. Stratified splitting maintains class "
                "proportions and is incompatible with shuffling."
            )
        ds: Any = self
        if shuffle:
            ds = ds.random_shuffle(seed=seed)
        if isinstance(test_size, float) and not 0 < test_size < 1:
            raise ValueError(
                f"If `test_size` is a float, it must be bigger than 0 and smaller than 1. Got {test_size}."
            )
        if stratify is not None:
            return _stratified(ds, test_size, stratify)
        if isinstance(test_size, float):
            train, test = ds.split_proportionately([1 - test_size])
            return train, test
        kept = ds.materialize()
        rows = kept.count()
        _check_test_rows(test_size, rows)
        train, test = kept.split_at_indices([rows - test_size])
        return train, test

    # ---- streaming splits ----

    def streaming_train_test_split(
        self,
        test_size: float,
        *,
        split_type: str = "random",
        hash_column: str | None = None,
        seed: int | None = None,
        **ray_remote_kwargs: Any,
    ) -> tuple[Dataset, Dataset]:
        """Two Datasets, lazily: each row is in exactly one of them, the same one in each run.

        Args:
            test_size: the share of rows, about, that the second gets.
            split_type: "random": by the row's number. "hash": by its value in `hash_column`, so that a row stays where it is
                when others come or go.
            hash_column: for "hash" only.
            seed: for "random" only.
            ray_remote_kwargs: num_cpus, memory and the like, for the function that hashes.

        >>> import weir
        >>> train, test = weir.range(8).streaming_train_test_split(0.25, split_type="hash", hash_column="id")
        >>> train.count() + test.count()
        8
        """
        if isinstance(test_size, bool) or not isinstance(test_size, (int, float)):
            raise TypeError(f"test_size is a number between 0 and 1, not {type(test_size).__name__}")
        if test_size <= 0 or test_size >= 1:
            raise ValueError("test_size must be between 0 and 1.")
        if seed is not None and split_type == "hash":
            raise ValueError("seed is not supported for hash split")
        if hash_column is not None and split_type == "random":
            raise ValueError("hash_column is not supported for random split")
        if split_type == "random":
            if ray_remote_kwargs:
                raise TypeError(
                    "streaming_train_test_split(split_type='random') runs no function, so that there is nothing to give "
                    f"{', '.join(ray_remote_kwargs)} to"
                )
            number = abs(int(seed)) if seed is not None else 0
            train, test = (self._then(RandomHalf(self._op, 1 - test_size, number, rest)) for rest in (False, True))
            return train, test
        if split_type != "hash":
            raise ValueError(f"Invalid split type: {split_type}")
        if hash_column is None:
            raise ValueError("hash_column is required for hash split")
        from weir._functions import HashSplit

        train, test = (
            self.map_batches(
                HashSplit(hash_column, test_size, rest), batch_format="pyarrow", **ray_remote_kwargs
            )
            for rest in (False, True)
        )
        return train, test

    def streaming_split(
        self, n: int, *, equal: bool = False, locality_hints: list[str] | None = None
    ) -> list[DataIterator]:
        """`n` iterators over one run: each row goes to one of them. They may be used in threads, or be pickled to other
        processes of this user on this machine, which get their batches in shared memory.

        An epoch begins when all of them have asked for it. Nobody gets far ahead: when one does not take its rows, the others
        wait for it. One that leaves its loop, or whose process ends, leaves its share of that epoch, and the others go on.

        Args:
            n: how many.
            equal: each gets the same number of rows in an epoch; what is left over is dropped.
            locality_hints: one for each; all are on this machine, so nothing hangs on them.

        >>> import threading, weir
        >>> iterators = weir.range(100).streaming_split(2, equal=True)
        >>> counts = []
        >>> def consume(it):
        ...     counts.append(sum(len(batch["id"]) for batch in it.iter_batches()))
        >>> threads = [threading.Thread(target=consume, args=(it,)) for it in iterators]
        >>> for thread in threads: thread.start()
        >>> for thread in threads: thread.join()
        >>> counts
        [50, 50]
        """
        _whole("n", n)
        if n < 1:
            raise ValueError(f"streaming_split needs a positive number of splits, not {n}")
        if locality_hints is not None and len(locality_hints) != n:
            raise ValueError(f"locality_hints has {len(locality_hints)} entries for {n} splits")
        from weir._streaming_split import Coordinator, SplitIterator

        coordinator = Coordinator(self, n, bool(equal))  # type: ignore[arg-type]
        return [SplitIterator(coordinator, index) for index in range(n)]

    def shard(self, num_shards: int, index: int) -> Dataset:
        """One of `num_shards` Datasets that have no row in common and all rows together: for programs that each run by
        themselves, such as those that torchrun starts. Files are divided; where there are fewer files than shards, the rows of
        each; rows that are in neither are counted off.

        >>> import weir
        >>> [weir.range(10).shard(3, rank).count() for rank in (0, 1, 2)]
        [3, 3, 4]
        """
        _whole("num_shards", num_shards)
        _whole("index", index)
        if num_shards < 1:
            raise ValueError(f"num_shards must be at least 1, not {num_shards}")
        if not 0 <= index < num_shards:
            raise ValueError(f"index is from 0 to num_shards - 1 = {num_shards - 1}, not {index}")
        return self._then(sharded(self._op, int(num_shards), int(index)))

    # ---- several Datasets, and blocks ----

    def mix(
        self,
        *other: Dataset,
        weights: list[float] | None = None,
        stopping_condition: MixStoppingCondition = MixStoppingCondition.STOP_ON_LONGEST_DROP,
    ) -> Dataset:
        """The rows of several Datasets, interleaved block by block so that their numbers keep to the weights.

        Args:
            other: the others; all have the same columns.
            weights: one for each, this Dataset's first; equal ones by default. They need not sum to 1.
            stopping_condition: whether it ends with the first Dataset that has no rows left (at once: in Ray Data it depends on what
                has come by then), or with the last.

        >>> import weir
        >>> a = weir.from_items([{"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}]).repartition(2)
        >>> b = weir.from_items([{"x": 5}, {"x": 6}, {"x": 7}, {"x": 8}]).repartition(2)
        >>> [row["x"] for row in a.mix(b).take_all()]
        [1, 2, 5, 6, 3, 4, 7, 8]
        """
        for ds in other:
            if not isinstance(ds, Splits):
                raise no_dataset("mix", ds)
        shares = [1.0] * (len(other) + 1) if weights is None else list(weights)
        if len(shares) != len(other) + 1:
            raise ValueError(
                f"Number of datasets ({len(other) + 1}) must match number of weights ({len(shares)})."
            )
        if not all(isinstance(share, (int, float)) and share > 0 and math.isfinite(share) for share in shares):
            raise ValueError(f"Weights must be positive. Got weights: {shares}")
        if not isinstance(stopping_condition, MixStoppingCondition):
            raise ValueError(f"Unknown stopping condition: {stopping_condition}")
        return self._then(Mix(self._op, [ds._op for ds in other], shares, stopping_condition))

    def zip(self, *other: Dataset) -> Dataset:
        """The columns of several Datasets side by side. All have as many rows, else it is a ValueError when they run; their
        blocks may differ. A name that an earlier one has gets a number: `id`, `id_1`, `id_2`.

        All of them are kept before the first row is given, on disk if they are too much for the memory limit.

        >>> import weir
        >>> weir.range(3).zip(weir.range(3), weir.from_items(["a", "b", "c"])).take_all()[1]
        {'id': 1, 'id_1': 1, 'item': 'b'}
        """
        from weir import _outdated
        from weir._zip import Zip
        from weir.util import RayDeprecationWarning

        _outdated.warn("`Dataset.zip` is deprecated since Ray 2.60, and may go from Ray Data; weir keeps it", RayDeprecationWarning)
        for ds in other:
            if not isinstance(ds, Splits):
                raise no_dataset("zip", ds)
        return self._then(Zip(self._op, [ds._op for ds in other])) if other else self._then(self._op)

    def randomize_block_order(self, *, seed: int | RandomSeedConfig | None = None) -> Dataset:
        """The blocks in random order; the rows of each stay together. Everything before runs first.

        >>> import weir
        >>> ds = weir.range(6, override_num_blocks=3).randomize_block_order(seed=1)
        >>> sorted(row["id"] for row in ds.take_all())
        [0, 1, 2, 3, 4, 5]
        """
        return self._then(RandomizeBlocks(self._op, RandomSeedConfig.create_seed_config(seed)))

    # ---- tensors: those of the iterator ----

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
        """Batches as dicts of TensorFlow tensors. See DataIterator.iter_tf_batches.

        >>> import weir
        >>> batches = weir.range(4).iter_tf_batches(batch_size=2)  # doctest: +SKIP
        """
        return self.iterator().iter_tf_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            dtypes=dtypes,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
        )

    def iter_jax_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int = 256,
        dtypes: Any = None,
        collate_fn: Any = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        synchronize_batches: bool = False,
        paddings: Any = None,
    ) -> Iterable[Any]:
        """Batches as dicts of JAX arrays. See DataIterator.iter_jax_batches.

        >>> import weir
        >>> batches = weir.range(4).iter_jax_batches(batch_size=2)  # doctest: +SKIP
        """
        return self.iterator().iter_jax_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            dtypes=dtypes,
            collate_fn=collate_fn,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            synchronize_batches=synchronize_batches,
            paddings=paddings,
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
        """A tf.data.Dataset. See DataIterator.to_tf.

        >>> import weir
        >>> ds = weir.range(4).to_tf("id", "id")  # doctest: +SKIP
        """
        return self.iterator().to_tf(
            feature_columns,
            label_columns,
            additional_columns=additional_columns,
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            feature_type_spec=feature_type_spec,
            label_type_spec=label_type_spec,
            additional_type_spec=additional_type_spec,
        )

    def to_torch(self, **arguments: Any) -> Any:
        """A torch IterableDataset of features and labels, with the arguments of DataIterator.to_torch.

        >>> import weir
        >>> [features.tolist() for features, _ in weir.range(2).to_torch(batch_size=2)]
        [[[0], [1]]]
        """
        return self.iterator().to_torch(**arguments)

    # ---- figures ----

    def get_stats_summary(self, detail: bool = False) -> DatasetStatsSummary:
        """What stats() tells, as an object. `detail` asks a cluster's scheduler, of which there is none here.

        >>> import weir
        >>> weir.range(10).materialize().get_stats_summary().operators_stats[0].operator_name
        'ReadRange'
        """
        from weir import stats

        if detail:
            raise ValueError("get_stats_summary(detail=True) is about the scheduler of a cluster, which weir does not have")
        return stats.of_run(self)  # type: ignore[arg-type]

    def summary(
        self, columns: list[str] | None = None, override_dtype_agg_mapping: Mapping[Any, Any] | None = None
    ) -> DatasetSummary:
        """Statistics of the columns, by their types, in one pass: of numbers count, mean, min, max, std, the median (about),
        missing and zero percentages; of times count, min, max and missing; of others count, missing and the ten most frequent
        values.

        Args:
            columns: only these.
            override_dtype_agg_mapping: for columns of a DataType, a function of the column's name to aggregations of it.

        >>> import weir
        >>> found = weir.from_items([{"age": 25}, {"age": 35}]).summary().to_pandas().set_index("statistic")["age"]
        >>> float(found["mean"]), float(found["missing_pct"])
        (30.0, 0.0)
        """
        from weir import stats

        return stats.of_columns(self, columns, override_dtype_agg_mapping)  # type: ignore[arg-type]

    def to_random_access_dataset(self, key: str, num_workers: int | None = None) -> RandomAccessDataset:
        """Rows by the value of a column: everything runs now, and is kept in the order of that column.

        >>> import weir
        >>> found = weir.range(100).to_random_access_dataset("id").multiget([3, 1000])
        >>> found
        [{'id': 3}, None]
        """
        from weir.random_access_dataset import RandomAccessDataset

        return RandomAccessDataset(self, key, num_workers=num_workers)  # type: ignore[arg-type]


def _whole(what: str, value: Any) -> None:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} is a number, not {type(value).__name__}")


def _shares(count: int, n: int) -> list[int]:
    """`count` in `n` parts, the larger ones first."""
    return [count // n + (i < count % n) for i in range(n)]


def _is_fixed(kept: MaterializedDataset) -> bool:
    op = kept._op
    return isinstance(op, Blocks) and (op.fixed or (kept._history is not None and keeps_fixed_blocks(kept._history)))


def _stratified(ds: Any, test_size: int | float, column: str) -> tuple[MaterializedDataset, MaterializedDataset]:
    """The last rows of each group. Rows come group by group, which are counted before they are cut: one may be larger than the memory."""
    from weir import _blocks, _grouped
    from weir.grouped_data import grouped_by

    grouped_by(ds, column, None)  # a column that is not there
    if isinstance(test_size, int):
        ds = ds.materialize()
        rows = ds.count()
        _check_test_rows(test_size, rows)
        test_size = test_size / rows
    kept = ds._then(_grouped.Groups(ds._op, [column], may_cut=True)).materialize()
    chunks = _blocks.chunks_of([block for block in kept._blocks() if block.num_rows])  # one without rows may have no mark
    sizes = _sizes_of_groups(chunks)
    run = ds._new_run()
    is_small = sum(chunk.nbytes for chunk in chunks) <= min(_blocks.JOINED_BYTES, run.build.state.native.memory_limit // 4)
    halves: list[list[Any]] = [[], []]
    begin, ends = 0, list(itertools.accumulate(sizes))
    cuts = [end - int(size * test_size) for end, size in zip(ends, sizes)]
    for chunk in chunks:
        batch = _blocks.as_batch(chunk)
        is_test = _behind(cuts, ends, begin, batch.num_rows)
        begin += batch.num_rows
        batch = batch.select([name for name in batch.names if name != _grouped.MARK])
        for half, mask in zip(halves, (~is_test, is_test)):
            piece = batch.filter(mask.view("u1"))
            if piece.num_rows:
                half += [piece] if is_small else run.keep(piece)
        del batch, chunk
    made = []
    for half in halves:
        blocks = [_blocks.joined(half)] if half and is_small else half
        made.append(ds._split_of(kept, blocks))
        made[-1]._schema_known = None if blocks else ds.schema()
    return made[0], made[1]


def _sizes_of_groups(chunks: Iterable[Any]) -> list[int]:
    """How many rows each group has, by the mark that its rows have in common."""
    from weir import _blocks, _grouped

    sizes: list[int] = []
    last = None
    for chunk in chunks:
        batch = _blocks.as_batch(chunk)
        marks = batch.column(_grouped.MARK)
        for begin, end in _grouped.boundaries(batch)[1]:
            if marks[begin] == last:
                sizes[-1] += end - begin
            else:
                sizes.append(end - begin)
        last = marks[-1]
        del batch, chunk
    return sizes


def _behind(cuts: list[int], ends: list[int], begin: int, count: int) -> Any:
    """Which of so many rows from `begin` on are between a group's cut and its end."""
    import numpy as np

    rows = np.arange(begin, begin + count)
    return np.asarray(cuts)[np.searchsorted(ends, rows, side="right")] <= rows


def _check_test_rows(test_size: int, rows: int) -> None:
    if test_size <= 0 or test_size >= rows:
        raise ValueError(
            f"If `test_size` is an int, it must be bigger than 0 and smaller than the size of the dataset ({rows}). "
            f"Got {test_size}."
        )
