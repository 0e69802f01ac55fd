"""Zarr stores: a row a chunk of an array, or a row a piece of the first axis that several arrays share.

The names of the arrays are found here, by the files that say what an array is (.zarray, zarr.json); the package zarr reads chunks, in
workers.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import zipfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weir.datasource.datasource import Datasource, ReadTask
from weir.datasource.other_files import need
from weir.datasource.tables import shared_out

if TYPE_CHECKING:
    from weir.context import DataContext


class ZarrDatasource(Datasource):
    """Chunks of the arrays of a store."""

    def __init__(
        self,
        path: str,
        chunk_shapes: dict[str, list[int]] | list[int] | None = None,
        array_paths: list[str] | None = None,
        allow_full_metadata_scan: bool = False,
        align_axis_0: bool = False,
        overlap: int = 0,
    ) -> None:
        super().__init__()
        zarr = need("zarr", "read_zarr")
        self._path = path
        self._overlap = overlap
        names = _array_names(path, array_paths, allow_full_metadata_scan)
        if not names:
            raise ValueError(f"No arrays discovered in Zarr store at {path!r}.")
        arrays = {name: _opened(zarr, path, name) for name in names}
        shapes = _checked_shapes(chunk_shapes, names)
        self._shapes = {name: tuple(int(n) for n in array.shape) for name, array in arrays.items()}
        self._chunks = {name: _chunk_shape(name, array, shapes) for name, array in arrays.items()}
        self._sizes = {name: array.dtype.itemsize * math.prod(self._shapes[name]) for name, array in arrays.items()}
        if isinstance(overlap, bool) or not isinstance(overlap, int) or overlap < 0:
            raise ValueError(f"overlap must be a non-negative integer, got {overlap!r}")
        if overlap and not align_axis_0:
            raise ValueError("overlap requires align_axis_0=True: a row that is a chunk has no next row to reach into")
        self._is_aligned = align_axis_0
        if align_axis_0:
            self._check_aligned()

    def _check_aligned(self) -> None:
        scalars = sorted(name for name, shape in self._shapes.items() if not shape)
        if scalars:
            raise ValueError(f"align_axis_0=True needs arrays with an axis, and these have none: {scalars}; choose others by array_paths=[…]")
        lengths = {name: shape[0] for name, shape in self._shapes.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"align_axis_0=True needs arrays that share shape[0], got {lengths}; choose some of them by array_paths=[…]")
        chunks = {name: chunk[0] for name, chunk in self._chunks.items()}
        if len(set(chunks.values())) > 1:
            raise ValueError(f"align_axis_0=True needs the same chunk size on axis 0, got {chunks}; give one by chunk_shapes=[…]")

    def get_name(self) -> str:
        """Of the operator."""
        return "Zarr"

    def estimate_inmemory_data_size(self) -> int | None:
        return sum(int(size) for size in self._sizes.values())

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]:
        from weir.block import BlockMetadata

        tasks: list[Any] = []
        if self._is_aligned:
            length, chunk = (next(iter(of.values()))[0] for of in (self._shapes, self._chunks))
            begins = range(0, length, chunk)
            for starts in shared_out(begins, parallelism):
                rows = [(begin, min(begin + chunk, length), min(begin + chunk + self._overlap, length)) for begin in starts]
                tasks.append((_AlignedTask(self._path, list(self._shapes), rows), len(rows)))
        else:
            total = sum(self._sizes.values()) or 1
            for name, shape in self._shapes.items():
                grid = [range(math.ceil(n / c)) for n, c in zip(shape, self._chunks[name])]
                count = max(1, round(parallelism * self._sizes[name] / total))
                for piece in shared_out(list(itertools.product(*grid)), count):
                    tasks.append((_ChunkTask(self._path, name, shape, self._chunks[name], piece), len(piece)))
        return [ReadTask(task, BlockMetadata(rows, None), per_task_row_limit=per_task_row_limit) for task, rows in tasks]


class _ChunkTask:
    def __init__(self, path: str, name: str, shape: tuple[int, ...], chunks: tuple[int, ...], indices: list[tuple[int, ...]]) -> None:
        self.path, self.name, self.shape, self.chunks, self.indices = path, name, shape, chunks, indices

    def __call__(self) -> Iterator[Any]:
        import numpy as np
        import zarr

        from weir._weir import batch_from_rows

        array = _opened(zarr, self.path, self.name)
        for index in self.indices:
            slices = [[i * c, min((i + 1) * c, n)] for i, c, n in zip(index, self.chunks, self.shape)]
            chunk = np.asarray(array[tuple(slice(*one) for one in slices)])
            yield batch_from_rows([{"array": self.name, "chunk_index": list(index), "chunk_slices": slices, "chunk": chunk}])


class _AlignedTask:
    def __init__(self, path: str, names: list[str], rows: list[tuple[int, int, int]]) -> None:
        self.path, self.names, self.rows = path, names, rows

    def __call__(self) -> Iterator[Any]:
        import numpy as np
        import zarr

        from weir._weir import batch_from_rows

        arrays = {name: _opened(zarr, self.path, name) for name in self.names}
        for begin, end, reach in self.rows:
            row: dict[str, Any] = {"t_start": begin, "t_stop": end}
            row.update({name: np.asarray(array[begin:reach]) for name, array in arrays.items()})
            yield batch_from_rows([row])


def _opened(zarr: Any, path: str, name: str) -> Any:
    if path.endswith(".zip"):
        store = getattr(zarr, "storage", zarr).ZipStore(path, mode="r")
        return zarr.open_array(store, path=name, mode="r")
    return zarr.open_array(os.path.join(path, name) if name else path, mode="r")


# ---- which arrays there are ----


class _Store:
    """The small files of a store."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._zip = zipfile.ZipFile(path) if path.endswith(".zip") else None
        if self._zip is None and not os.path.isdir(path):
            raise FileNotFoundError(f"read_zarr: {path} is no folder of a Zarr store")

    def load(self, name: str) -> Any:
        """What a file of JSON says; None: it is not there."""
        try:
            if self._zip is not None:
                return json.loads(self._zip.read(name))
            with open(os.path.join(self._path, name), "rb") as file:
                return json.load(file)
        except (KeyError, FileNotFoundError, NotADirectoryError):
            return None

    def is_array(self, name: str) -> bool:
        """Whether an array lies there."""
        at = f"{name}/" if name else ""
        return self.load(f"{at}.zarray") is not None or (self.load(f"{at}zarr.json") or {}).get("node_type") == "array"

    def folders(self) -> Iterator[str]:
        """All of them that may be arrays."""
        if self._zip is not None:
            files: Sequence[str] = sorted(self._zip.namelist())
        else:
            files = sorted(
                os.path.relpath(os.path.join(place, name), self._path) for place, _, names in os.walk(self._path) for name in names
            )
        for file in files:
            folder, _, name = file.rpartition("/")
            if name in (".zarray", "zarr.json"):
                yield folder

    def consolidated(self) -> list[str] | None:
        """The arrays that the store's own list names."""
        older = self.load(".zmetadata")
        if older is not None:
            return sorted(key[: -len("/.zarray")] if "/" in key else "" for key in older["metadata"] if key.rpartition("/")[2] == ".zarray")
        newer = (self.load("zarr.json") or {}).get("consolidated_metadata")
        if newer is not None:
            return sorted(key for key, about in newer["metadata"].items() if about.get("node_type") == "array")
        return None


def _array_names(path: str, wanted: list[str] | None, may_scan: bool) -> list[str]:
    store = _Store(path)
    if wanted is not None:
        asked = [name.strip("/") for name in wanted]
        missing = [name for name in asked if not store.is_array(name)]
        if missing:
            raise ValueError(f"read_zarr: no array {', '.join(map(repr, missing))} in {path}")
        return asked
    listed = store.consolidated()
    if listed is not None:
        return listed
    if store.is_array(""):
        return [""]
    if not may_scan:
        raise ValueError(
            f"read_zarr: {path} has no consolidated metadata (.zmetadata): give array_paths=[…] or allow_full_metadata_scan=True, or call "
            "zarr.consolidate_metadata once"
        )
    return [folder for folder in store.folders() if store.is_array(folder)]


def _checked_shapes(given: Any, names: list[str]) -> Any:
    def one(shape: Any, name: str) -> tuple[int, ...]:
        is_list = isinstance(shape, (list, tuple)) and len(shape) > 0
        if not is_list or not all(hasattr(n, "__index__") and not isinstance(n, bool) and int(n) > 0 for n in shape):
            raise ValueError(f"{name} must be a non-empty sequence of positive integers (list or tuple), got {shape!r}")
        return tuple(int(n) for n in shape)

    if given is None:
        return {}
    if not isinstance(given, dict):
        return one(given, "chunk_shapes")
    made = {name.strip("/"): one(shape, f"chunk_shapes[{name!r}]") for name, shape in given.items()}
    unknown = sorted(set(made) - set(names))
    if unknown:
        raise ValueError(f"Unknown array path(s) in chunk_shapes: {unknown}; there are {names}")
    return made


def _chunk_shape(name: str, array: Any, shapes: Any) -> tuple[int, ...]:
    asked = shapes.get(name, ()) if isinstance(shapes, dict) else shapes
    if len(asked) > len(array.shape):
        raise ValueError(f"chunk_shapes has {len(asked)} axes for the array {name!r}, which has {len(array.shape)}: {tuple(array.shape)}")
    return tuple(asked) + tuple(int(n) for n in array.chunks[len(asked) :])
