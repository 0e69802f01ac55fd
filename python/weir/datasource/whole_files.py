"""Sources of which a file is a row, for those who make their own of them: read_binary_files and read_images are the engine's.

>>> import os, tempfile, weir
>>> class Sizes(BinaryDatasource):
...     def _read_stream(self, f, path):
...         for block in super()._read_stream(f, path):
...             yield block.append_column("size", [[len(value) for value in block["bytes"].to_pylist()]])
>>> path = os.path.join(tempfile.mkdtemp(), "a")
>>> _ = open(path, "wb").write(b"abc")
>>> weir.read_datasource(Sizes(path)).take_all()
[{'bytes': b'abc', 'size': 3}]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weir import _images
from weir.datasource.file_based_datasource import FileBasedDatasource


class BinaryDatasource(FileBasedDatasource):
    """A file's bytes, in a column `bytes`."""

    _COLUMN_NAME = "bytes"

    def get_name(self) -> str:
        return "Binary"

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        import pyarrow as pa

        yield pa.table({self._COLUMN_NAME: pa.array([f.readall()], pa.binary())})


class ImageDatasource(FileBasedDatasource):
    """An image as an array, in a column `image`; `size`: height and width that it is brought to, `mode`: Pillow's, such as "RGB"."""

    _FILE_EXTENSIONS = ["png", "jpg", "jpeg", "tif", "tiff", "bmp", "gif"]

    def __init__(self, paths: str | list[str], size: tuple[int, int] | None = None, mode: str | None = None, **kwargs: Any) -> None:
        super().__init__(paths, **kwargs)
        _images.check(size, mode)
        self.size, self.mode = size, mode

    def get_name(self) -> str:
        return "Image"

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        from weir.block import DelegatingBlockBuilder

        image = _images.Decode(self.size, self.mode)({"bytes": f.readall(), "path": path})["image"]
        builder = DelegatingBlockBuilder()
        builder.add({"image": image})
        yield builder.build()
