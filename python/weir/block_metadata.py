"""What is known of blocks: of which kind they are, how many rows and bytes they have, how their making went."""

from __future__ import annotations

import enum
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.block import Block


class BlockType(enum.Enum):
    """What a block is.

    >>> import pyarrow as pa
    >>> from weir.block import BlockAccessor
    >>> BlockAccessor.for_block(pa.table({"a": [1]})).block_type()
    <BlockType.ARROW: 'arrow'>
    """

    ARROW = "arrow"
    PANDAS = "pandas"


class BatchFormat(str, enum.Enum):
    """What functions may be given. CUDF is a name of Ray Data's: there are no batches of it.

    >>> BatchFormat("numpy").name
    'NUMPY'
    """

    ARROW = "pyarrow"
    PANDAS = "pandas"
    NUMPY = "numpy"
    CUDF = "cudf"


@dataclass(frozen=True)
class CustomOpStats:
    """Figures of one's own that a task reports: a class made from this one.

    >>> @dataclass(frozen=True)
    ... class Skipped(CustomOpStats):
    ...     rows: int
    >>> TaskExecWorkerStats(0.5, custom_op_stats=[Skipped(3)]).custom_op_stats[0].rows
    3
    """

    def __post_init__(self) -> None:
        if type(self) is CustomOpStats:
            raise TypeError("CustomOpStats cannot be instantiated directly: make a class from it")


@dataclass(frozen=True)
class TaskExecWorkerStats:
    """How a task went, as its worker saw it.

    >>> TaskExecWorkerStats(0.5).task_wall_time_s
    0.5
    """

    task_wall_time_s: float
    max_uss_bytes: int | None = None
    custom_op_stats: list[CustomOpStats] = field(default_factory=list)


@dataclass(frozen=True)
class BlockExecStats:
    """How the making of a block went.

    >>> BlockExecStats(wall_time_s=0.5).wall_time_s
    0.5
    """

    task_idx: int | None = None
    node_id: str = "local"
    start_time_s: float | None = None
    end_time_s: float | None = None
    wall_time_s: float | None = None
    block_transform_time_s: float | None = 0
    input_prep_time_s: float | None = None
    function_body_time_s: float | None = None
    output_build_time_s: float | None = None
    stage_time_s: tuple[float, ...] | None = None
    block_ser_time_s: float | None = None
    cpu_time_s: float | None = None

    @staticmethod
    def builder() -> _ExecStatsBuilder:
        """Measures from now on.

        >>> BlockExecStats.builder().build().wall_time_s >= 0
        True
        """
        return _ExecStatsBuilder()


class _ExecStatsBuilder:
    def __init__(self) -> None:
        self._start, self._start_cpu = time.perf_counter(), time.process_time()
        self._end: tuple[float, float] | None = None

    def finish(self) -> None:
        """The time ends here; build() may come later."""
        self._end = time.perf_counter(), time.process_time()

    def build(self, **fields: Any) -> BlockExecStats:
        """The figures up to now, or to finish()."""
        if self._end is None:
            self.finish()
        assert self._end is not None
        end, end_cpu = self._end
        return BlockExecStats(
            start_time_s=self._start,
            end_time_s=end,
            wall_time_s=end - self._start,
            cpu_time_s=end_cpu - self._start_cpu,
            **fields,
        )


@dataclass(frozen=True)
class BlockStats:
    """How much a block holds; None where that is not known.

    >>> BlockStats(num_rows=10, size_bytes=None, exec_stats=None).num_rows
    10
    """

    num_rows: int | None
    size_bytes: int | None
    exec_stats: BlockExecStats | None
    task_exec_stats: TaskExecWorkerStats | None = field(default=None)

    def __post_init__(self) -> None:
        if self.size_bytes is not None and not isinstance(self.size_bytes, int):
            raise AssertionError(f"size_bytes is an int or None, not {self.size_bytes!r}")


@dataclass(frozen=True, init=False)
class BlockMetadata(BlockStats):
    """What is known of a block before it is read: None where it is not.

    >>> BlockMetadata(num_rows=10, size_bytes=80, input_files=["a.csv"], exec_stats=None).input_files
    ('a.csv',)
    """

    input_files: tuple[str, ...] | None = field(default=None)

    def __init__(
        self,
        num_rows: int | None,
        size_bytes: int | None,
        exec_stats: Any = None,
        task_exec_stats: Any = None,
        input_files: Sequence[str] | None = None,
        schema: Any = None,
    ) -> None:
        # `schema`: older sources give it here; blocks say themselves what they are.
        for name, value in (
            ("num_rows", num_rows),
            ("size_bytes", size_bytes),
            ("exec_stats", exec_stats),
            ("task_exec_stats", task_exec_stats),
            ("input_files", tuple(input_files) if input_files is not None else None),
        ):
            object.__setattr__(self, name, value)
        self.__post_init__()

    def to_stats(self) -> BlockStats:
        """Without the files.

        >>> BlockMetadata(10, 80, input_files=["a.csv"]).to_stats()
        BlockStats(num_rows=10, size_bytes=80, exec_stats=None, task_exec_stats=None)
        """
        return BlockStats(**{f.name: getattr(self, f.name) for f in fields(BlockStats)})


@dataclass(frozen=True, init=False)
class BlockMetadataWithSchema(BlockMetadata):
    """With the block's columns.

    >>> import pyarrow as pa
    >>> BlockMetadataWithSchema(2, 16, schema=pa.schema([("a", pa.int64())])).schema.names
    ['a']
    """

    schema: Any = None

    def __init__(
        self,
        num_rows: int | None,
        size_bytes: int | None,
        exec_stats: Any = None,
        task_exec_stats: Any = None,
        input_files: Sequence[str] | None = None,
        schema: Any = None,
    ) -> None:
        super().__init__(num_rows, size_bytes, exec_stats, task_exec_stats, input_files)
        object.__setattr__(self, "schema", schema)

    @staticmethod
    def from_metadata(metadata: BlockMetadata, schema: Any = None) -> BlockMetadataWithSchema:
        """The same with a schema.

        >>> import pyarrow as pa
        >>> BlockMetadataWithSchema.from_metadata(BlockMetadata(2, 16), pa.schema([("a", pa.int64())])).schema.names
        ['a']
        """
        return BlockMetadataWithSchema(
            metadata.num_rows, metadata.size_bytes, metadata.exec_stats, metadata.task_exec_stats, metadata.input_files, schema
        )

    @staticmethod
    def from_block(block: Block, block_exec_stats: Any = None, task_exec_stats: Any = None) -> BlockMetadataWithSchema:
        """What a block says of itself.

        >>> import pyarrow as pa
        >>> BlockMetadataWithSchema.from_block(pa.table({"a": [1, 2]})).num_rows
        2
        """
        from weir.block import BlockAccessor

        accessor = BlockAccessor.for_block(block)
        metadata = accessor.get_metadata(block_exec_stats=block_exec_stats, task_exec_stats=task_exec_stats)
        return BlockMetadataWithSchema.from_metadata(metadata, accessor.schema())

    @property
    def metadata(self) -> BlockMetadata:
        """Without the schema.

        >>> BlockMetadataWithSchema(2, 16, schema=None).metadata == BlockMetadata(2, 16)
        True
        """
        return BlockMetadata(self.num_rows, self.size_bytes, self.exec_stats, self.task_exec_stats, self.input_files)


def to_stats(metas: Sequence[BlockMetadata]) -> list[BlockStats]:
    """Of several blocks.

    >>> to_stats([BlockMetadata(1, 8)])[0].num_rows
    1
    """
    return [meta.to_stats() for meta in metas]
