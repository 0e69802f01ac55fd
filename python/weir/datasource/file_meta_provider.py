"""What is known of files before they are read: which there are, how large, how many rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weir.datasource.listing import Listing, list_files

if TYPE_CHECKING:
    from weir.block import BlockMetadata
    from weir.datasource.partitioning import Partitioning


class FileMetadataProvider:
    """Says what is known of the files of one block. A subclass has _get_block_metadata.

    >>> from weir.block import BlockMetadata
    >>> class Pairs(FileMetadataProvider):
    ...     def _get_block_metadata(self, paths, **known): return BlockMetadata(2 * len(paths), None)
    >>> Pairs()(["a", "b"]).num_rows
    4
    """

    def _get_block_metadata(self, paths: list[str], **kwargs: Any) -> BlockMetadata:
        raise NotImplementedError

    def __call__(self, paths: list[str], **kwargs: Any) -> BlockMetadata:
        return self._get_block_metadata(paths, **kwargs)


class BaseFileMetadataProvider(FileMetadataProvider):
    """Finds the files too. A subclass has expand_paths and _get_block_metadata.

    >>> class Named(DefaultFileMetadataProvider):
    ...     def expand_paths(self, paths, filesystem=None, partitioning=None, ignore_missing_paths=False):
    ...         return ((path + ".csv", None) for path in paths)
    >>> list(Named().expand_paths(["a", "b"]))
    [('a.csv', None), ('b.csv', None)]
    """

    def _get_block_metadata(  # type: ignore[override]
        self, paths: list[str], *, rows_per_file: int | None, file_sizes: list[int | None]
    ) -> BlockMetadata:
        raise NotImplementedError

    def expand_paths(
        self,
        paths: list[str],
        filesystem: Any = None,
        partitioning: Partitioning | None = None,
        ignore_missing_paths: bool = False,
    ) -> Iterator[tuple[str, int | None]]:
        """The files below these paths, with their sizes (None: not known).

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = open(folder + "/a.txt", "w").write("four")
        ...     [(path.removeprefix(folder), size) for path, size in DefaultFileMetadataProvider().expand_paths([folder])]
        [('/a.txt', 4)]
        """
        raise NotImplementedError


class DefaultFileMetadataProvider(BaseFileMetadataProvider):
    """Sizes as the file system has them; as many rows in each file.

    >>> provider = DefaultFileMetadataProvider()
    >>> provider(["a", "b"], rows_per_file=2, file_sizes=[10, 20]).num_rows
    4
    """

    def _get_block_metadata(  # type: ignore[override]
        self, paths: list[str], *, rows_per_file: int | None, file_sizes: list[int | None]
    ) -> BlockMetadata:
        from weir.block import BlockMetadata

        rows = None if rows_per_file is None else len(paths) * rows_per_file
        known = [size for size in file_sizes if size is not None]
        return BlockMetadata(rows, int(sum(known)) if len(known) == len(file_sizes) else None, input_files=paths)

    def expand_paths(
        self,
        paths: list[str],
        filesystem: Any = None,
        partitioning: Partitioning | None = None,
        ignore_missing_paths: bool = False,
    ) -> Iterator[tuple[str, int | None]]:
        for path in files_below(paths, ignore_missing_paths):
            yield path, os.stat(path).st_size


class FastFileMetadataProvider(DefaultFileMetadataProvider):
    """Takes paths as they are: nothing is looked at before it is read.

    >>> list(FastFileMetadataProvider().expand_paths(["nowhere"]))
    [('nowhere', None)]
    """

    def expand_paths(
        self,
        paths: list[str],
        filesystem: Any = None,
        partitioning: Partitioning | None = None,
        ignore_missing_paths: bool = False,
    ) -> Iterator[tuple[str, int | None]]:
        for path in paths:
            yield path, None


def files_below(paths: list[str], ignore_missing: bool) -> list[str]:
    """The files of folders, and those that are named.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = open(folder + "/a.txt", "w")
    ...     [path.removeprefix(folder) for path in files_below([folder], False)]
    ['/a.txt']
    """
    found: list[str] = []
    for path in paths:
        listing = Listing((path,), None, False, None, None, ignore_missing, ())
        try:
            found.extend(list_files(listing))
        except ValueError:  # nothing under this one
            continue
    return found
