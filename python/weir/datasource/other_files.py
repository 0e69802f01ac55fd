"""Files that other packages read in workers: ORC (pyarrow), Avro (fastavro), audio (soundfile), videos (decord)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from weir.datasource.file_based_datasource import FileBasedDatasource
from weir.datasource.file_datasink import BlockBasedFileDatasink

if TYPE_CHECKING:
    from weir.block import BlockAccessor

AVRO_ROWS = 4096  # records that go into one batch
_AUDIO = "mp3 wav aac flac ogg m4a wma alac aiff pcm amr opus ra rm au mid midi caf"
_VIDEOS = "mp4 mkv mov avi wmv flv webm m4v 3gp mpeg mpg ts ogv rm rmvb vob asf f4v m2ts mts divx xvid mxf"


def need(module: str, method: str, package: str | None = None) -> Any:
    """A package that a method cannot do without.

    >>> need("no_such_package", "read_avro")
    Traceback (most recent call last):
    ...
    ModuleNotFoundError: read_avro needs the package no_such_package, which is not installed: pip install no_such_package
    """
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name and error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # it is there, and what it needs is not
        name = package or module.partition(".")[0]
        raise ModuleNotFoundError(f"{method} needs the package {name}, which is not installed: pip install {name}", name=module) from None


class _Plain(FileBasedDatasource):
    """Files that are opened by Python where nothing is to be inflated: pyarrow is not needed for it."""

    def _open_input_source(self, filesystem: Any, path: str, **open_args: Any) -> Any:
        if not open_args and self.resolve_compression(path, open_args) is None:
            return open(path, "rb")
        return super()._open_input_source(filesystem, path, **open_args)


class ORCDatasource(FileBasedDatasource):
    """Rows of ORC files, a stripe at a time."""

    _FILE_EXTENSIONS = ["orc"]

    def __init__(self, paths: str | list[str], **kwargs: Any) -> None:
        super().__init__(paths, **kwargs)
        need("pyarrow.orc", "read_orc")

    def get_name(self) -> str:
        """Of the operator."""
        return "ORC"

    def _open_input_source(self, filesystem: Any, path: str, **open_args: Any) -> Any:
        import pyarrow as pa

        return pa.OSFile(path) if filesystem is None else filesystem.open_input_file(path)  # it is not read from its beginning

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import orc

        file = orc.ORCFile(f)
        for stripe in range(file.nstripes):
            table = pa.Table.from_batches([file.read_stripe(stripe)])
            if table.num_rows:
                yield table


class ORCDatasink(BlockBasedFileDatasink):
    """ORC files: one a block."""

    def __init__(
        self, path: str, arrow_orc_args: dict[str, Any], arrow_orc_args_fn: Callable[[], dict[str, Any]] | None, **kwargs: Any
    ) -> None:
        if "compression" in (kwargs.get("open_stream_args") or {}):
            raise ValueError("ORC is compressed inside: say write_orc(compression=…), not arrow_open_stream_args")
        super().__init__(path, file_format="orc", **kwargs)
        need("pyarrow.orc", "write_orc")
        self.arrow_orc_args = arrow_orc_args
        self.arrow_orc_args_fn = arrow_orc_args_fn

    def write_block_to_file(self, block: BlockAccessor, file: Any) -> None:
        """The block as a table."""
        from pyarrow import orc

        table = block.to_arrow()
        if not table.column_names:
            raise ValueError("write_orc requires at least one column.")
        orc.write_table(table, file, **{**self.arrow_orc_args, **(self.arrow_orc_args_fn or dict)()})


class AvroDatasource(_Plain):
    """Records of Avro files, which say their schema."""

    def __init__(self, paths: str | list[str], **kwargs: Any) -> None:
        super().__init__(paths, **kwargs)
        need("fastavro", "read_avro")

    def get_name(self) -> str:
        """Of the operator."""
        return "Avro"

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        import fastavro

        from weir._weir import batch_from_rows

        rows: list[dict[str, Any]] = []
        for record in fastavro.reader(f):
            rows.append(record if isinstance(record, dict) else {"item": record})
            if len(rows) == AVRO_ROWS:
                yield batch_from_rows(rows)
                rows = []
        if rows:
            yield batch_from_rows(rows)


class AudioDatasource(_Plain):
    """Audio files, a row each: `amplitude`, channels × samples, and `sample_rate`."""

    _FILE_EXTENSIONS = _AUDIO.split()

    def __init__(self, paths: str | list[str], **kwargs: Any) -> None:
        super().__init__(paths, **kwargs)
        need("soundfile", "read_audio")

    def get_name(self) -> str:
        """Of the operator."""
        return "Audio"

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        import soundfile

        from weir._weir import batch_from_rows

        amplitude, rate = soundfile.read(io.BytesIO(f.read()), always_2d=True, dtype="float32")
        yield batch_from_rows([{"amplitude": amplitude.transpose((1, 0)), "sample_rate": rate}])


class VideoDatasource(_Plain):
    """Frames of videos, a row each: `frame`, height × width × channels, and `frame_index`."""

    _FILE_EXTENSIONS = _VIDEOS.split()

    def __init__(
        self, paths: str | list[str], include_timestamps: bool = False, fps: int | None = None, resize: tuple[int, int] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(paths, **kwargs)
        need("decord", "read_videos")
        if fps is not None and (not isinstance(fps, int) or fps <= 0):
            raise ValueError(f"fps is a positive integer, not {fps!r}")
        if resize is not None and (len(resize) != 2 or not all(isinstance(size, int) and size > 0 for size in resize)):
            raise ValueError(f"resize is (height, width), two positive integers, not {resize!r}")
        self.include_timestamps, self.fps, self.resize = include_timestamps, fps, resize

    def get_name(self) -> str:
        """Of the operator."""
        return "Video"

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        from decord import VideoReader

        from weir._weir import batch_from_rows

        size = {} if self.resize is None else {"height": self.resize[0], "width": self.resize[1]}
        reader = VideoReader(f, **size)
        rate = reader.get_avg_fps() if self.fps is not None else None
        stride = max(1, round(rate / self.fps)) if rate and self.fps else 1
        for index, frame in enumerate(reader):
            if index % stride:
                continue
            row = {"frame": frame.asnumpy(), "frame_index": index}
            if self.include_timestamps:
                row["frame_timestamp"] = reader.get_frame_timestamp(index)
            yield batch_from_rows([row])
