"""The names of written files."""

from __future__ import annotations

from typing import Any


def split_extension(name: str) -> tuple[str, str]:
    """A name and what follows its last dot, with the dot.

    >>> split_extension("a.b.parquet"), split_extension("a")
    (('a.b', '.parquet'), ('a', ''))
    """
    base, dot, extension = name.rpartition(".")
    return (base, dot + extension) if dot else (name, "")


class FilenameProvider:
    """Names the files of a write. A subclass overrides get_filename_for_task; names must differ from task to task and be the
    same whenever a task is tried again. `dataset_uuid` and `file_format`: the beginning and the ending of the names that it gives itself.

    >>> class Numbered(FilenameProvider):
    ...     def get_filename_for_task(self, write_uuid, task_index):
    ...         return f"rows-{task_index}.parquet"
    >>> import os, tempfile, weir
    >>> folder = tempfile.mkdtemp()
    >>> weir.range(10).repartition(2).write_parquet(folder, filename_provider=Numbered(), mode="overwrite")
    >>> sorted(os.listdir(folder))
    ['rows-0-0.parquet', 'rows-1-0.parquet']
    """

    def __init__(self, dataset_uuid: str | None = None, file_format: str | None = None) -> None:
        self.dataset_uuid = dataset_uuid
        self.file_format = file_format

    def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
        """The name of the file that a task writes; rows written to files of their own add `_<block>_<row>` to it. `write_uuid` is of the write,
        another each time; `task_index` the task's number, from 0.

        >>> FilenameProvider("ds", "csv").get_filename_for_task("w", 3)
        'ds_w_000003.csv'
        """
        front = f"{self.dataset_uuid}_" if self.dataset_uuid is not None else ""
        back = f".{self.file_format}" if self.file_format is not None else ""
        return f"{front}{write_uuid}_{task_index:06}{back}"

    def get_filename_for_block(self, block: Any, write_uuid: str, task_index: int, block_index: int) -> str:
        """The older name: a subclass that has this one and not get_filename_for_task is asked with block=None, block 0.

        >>> class Old(FilenameProvider):
        ...     def get_filename_for_block(self, block, write_uuid, task_index, block_index):
        ...         return f"part-{task_index}-{block_index}.csv"
        >>> task_filename(Old(), "w", 3)
        'part-3-0.csv'
        """
        raise NotImplementedError

    def get_filename_for_row(self, row: dict[str, Any], write_uuid: str, task_index: int, block_index: int, row_index: int) -> str:
        """The older name for rows with files of their own: a subclass that has this one and not get_filename_for_task is asked with
        block 0.

        >>> class Old(FilenameProvider):
        ...     def get_filename_for_row(self, row, write_uuid, task_index, block_index, row_index):
        ...         return f"{row['name']}.png"
        >>> row_filename(Old(), {"name": "cat"}, "w", 0, 5)
        'cat.png'
        """
        raise NotImplementedError


def task_filename(provider: FilenameProvider, write_uuid: str, task_index: int) -> str:
    """What a provider of either kind says; ValueError for a name that is none.

    >>> task_filename(FilenameProvider("ds", "csv"), "w", 3)
    'ds_w_000003.csv'
    """
    kind = type(provider)
    is_old = (
        kind.get_filename_for_task is FilenameProvider.get_filename_for_task
        and kind.get_filename_for_block is not FilenameProvider.get_filename_for_block
    )
    name: Any = (
        provider.get_filename_for_block(None, write_uuid, task_index, 0)
        if is_old
        else provider.get_filename_for_task(write_uuid, task_index)
    )
    return checked_name(provider, name)


def checked_name(provider: FilenameProvider, name: Any) -> str:
    """The name, unless it would lead out of the folder.

    >>> checked_name(FilenameProvider(), "../a.csv")
    Traceback (most recent call last):
    ...
    ValueError: FilenameProvider named a file '../a.csv': a name inside of the folder is wanted
    """
    if not isinstance(name, str) or not name or name.startswith("/") or ".." in name.split("/"):
        raise ValueError(f"{type(provider).__name__} named a file {name!r}: a name inside of the folder is wanted")
    return name


def row_filename(provider: FilenameProvider, row: dict[str, Any], write_uuid: str, task_index: int, row_index: int) -> str:
    """The name of the file of one row.

    >>> row_filename(FilenameProvider("ds", "png"), {"a": 1}, "w", 0, 5)
    'ds_w_000000_000000_000005.png'
    """
    kind = type(provider)
    if (
        kind.get_filename_for_task is FilenameProvider.get_filename_for_task
        and kind.get_filename_for_row is not FilenameProvider.get_filename_for_row
    ):
        return checked_name(provider, provider.get_filename_for_row(row, write_uuid, task_index, 0, row_index))
    base, extension = split_extension(task_filename(provider, write_uuid, task_index))
    return f"{base}_{0:06}_{row_index:06}{extension}"
