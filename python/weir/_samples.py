"""WebDataset shards: samples read by the engine, decoded and encoded in workers.

    read (C: a row a sample, a column of bytes an ending) ─▶ Samples: fileselect, suffixes, decoder, expand_json ─▶ rows

A rename of members comes before they are gathered into samples, so read_webdataset(filerename=…) reads with Python's tarfile instead.
Nothing is unpickled, unless the environment says so, as in Ray Data.
"""

from __future__ import annotations

import fnmatch
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from weir.datasource.file_based_datasource import FileBasedDatasource
from weir.datasource.file_datasink import BlockBasedFileDatasink
from weir.read_api import _local, _read

if TYPE_CHECKING:
    from weir.block import BlockAccessor
    from weir.dataset import Dataset
    from weir.datasource import FileShuffleConfig, PathPartitionFilter

UNSAFE = "RAY_DATA_WEBDATASET_ALLOW_UNSAFE_DESERIALIZATION"
ROWS = 512  # that the reader of renamed members gives at once
_IMAGES = ("jpg", "png", "ppm", "pgm", "pbm", "pnm")

Sample = dict[str, Any]


def read_webdataset(
    paths: str | list[str],
    *,
    filesystem: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    arrow_open_stream_args: dict[str, Any] | None = None,
    partition_filter: PathPartitionFilter | None = None,
    decoder: bool | str | Callable[[Sample], Sample] | list[Any] | None = True,
    fileselect: list[str] | Callable[[str], bool] | None = None,
    filerename: list[Any] | Callable[[str], str] | None = None,
    suffixes: list[str] | Callable[[str], bool] | None = None,
    verbose_open: bool = False,
    shuffle: str | FileShuffleConfig | None = None,
    include_paths: bool = False,
    file_extensions: list[str] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    expand_json: bool = False,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Reads WebDataset shards, tar files: members whose names are equal up to the first point are a sample, a row with `__key__`, a
    column for each ending, and `__url__`, the file.

    Args:
        decoder: True decodes by endings: txt, text; cls, cls2; json; npy; mp; jpg, png, ppm, pgm, pbm, pnm (as arrays, or, with "PIL", as
            images). None leaves bytes. A function of a sample, or a list of these, decodes itself. pkl, pickle, pt and pth are refused,
            unless RAY_DATA_WEBDATASET_ALLOW_UNSAFE_DESERIALIZATION=1.
        fileselect: patterns of members' names, or a function of a name: others are left out.
        filerename: a function of a member's name, applied before samples are made. Then Python's tarfile reads, more slowly.
        suffixes: patterns of endings, or a function of an ending: others are left out.
        expand_json: the fields of `json` become columns.
        verbose_open: prints when a file is begun and done.

    >>> import os, tempfile, weir
    >>> folder = tempfile.mkdtemp()
    >>> weir.from_items([{"__key__": "a", "txt": "one", "cls": 1}]).write_webdataset(folder)
    >>> row, = weir.read_webdataset(folder).take()
    >>> row["__key__"], row["txt"], row["cls"]
    ('a', 'one', 1)
    """
    arguments = dict(locals())
    samples = Samples(decoder, fileselect, suffixes, expand_json, os.environ.get(UNSAFE, "0").lower() in ("1", "true"))
    if filerename is not None or verbose_open:
        return _read_in_python(arguments, samples)
    ds = _read("read_webdataset", "ReadWebDataset", "webdataset", arguments, [], default_extensions=None)
    if decoder is None and fileselect is None and suffixes is None and not expand_json:
        return ds
    options = {name: arguments[name] for name in ("num_cpus", "num_gpus", "memory", "runtime_env") if arguments[name] is not None}
    return ds._call("flat_map", samples, None, concurrency, options, ray_remote_args or {}, name="ReadWebDataset")


def _read_in_python(arguments: dict[str, Any], samples: Samples) -> Dataset:
    from weir import _sources

    source = WebDatasetDatasource(
        _local("read_webdataset", arguments),
        samples,
        arguments["filerename"],
        arguments["verbose_open"],
        open_stream_args=arguments["arrow_open_stream_args"],
        partition_filter=arguments["partition_filter"],
        shuffle=arguments["shuffle"],
        include_paths=arguments["include_paths"],
        file_extensions=arguments["file_extensions"],
    )
    return _sources._read("read_webdataset", source, arguments)


def matches(name: str, patterns: Any) -> bool:
    """Whether a name, or an ending, is wanted: None wants all; a function decides; texts with * or ? are patterns of "." + name.

    >>> matches("seg.png", ["*.png"]), matches("png", [".png"]), matches("jpg", ["png"])
    (True, True, False)
    """
    if patterns is None:
        return True
    if callable(patterns):
        return bool(patterns(name))
    for pattern in patterns:
        if "*" in pattern or "?" in pattern:
            if fnmatch.fnmatch("." + name, pattern):
                return True
        elif pattern in (name, "." + name):
            return True
    return False


def _applied(functions: Any, value: Any, default: Callable[..., Any] | None = None) -> Any:
    """One function after another; what is none is a format of the default one."""
    for function in functions if isinstance(functions, list) else [functions]:
        if default is not None and not callable(function):
            function = partial(default, format=function)
        value = function(value)
    return value


class Samples:
    """What is made of a sample: no row, where nothing of it was selected, or one."""

    def __init__(self, decoder: Any, fileselect: Any, suffixes: Any, expand_json: bool, is_unsafe: bool) -> None:
        self.decoder, self.fileselect, self.suffixes = decoder, fileselect, suffixes
        self.expand_json, self.is_unsafe = expand_json, is_unsafe

    def __call__(self, row: Sample) -> list[Sample]:
        key, url = row["__key__"], row["__url__"]
        more = {"path": row["path"]} if "path" in row and not isinstance(row["path"], bytes) else {}
        members = {name: value for name, value in row.items() if value is not None and name not in ("__key__", "__url__", *more)}
        if self.fileselect is not None:
            members = {name: value for name, value in members.items() if matches(f"{key}.{name}", self.fileselect)}
            if not members:
                return []
        made = self.row(key, members, url)
        if not self._is_own():
            # A block has the columns of all its samples: what this one lacks is null.
            wanted = [name for name in row if name in made or (matches(f"{key}.{name}", self.fileselect) and matches(name, self.suffixes))]
            made = {name: made.get(name) for name in [*(n for n in wanted if n != "path" or not more), *(n for n in made if n not in row)]}
        return [{**made, **more}]

    def _is_own(self) -> bool:
        """Whether functions of the user's make the rows."""
        return any(callable(one) for one in (self.decoder if isinstance(self.decoder, list) else [self.decoder]))

    def row(self, key: str, members: Sample, url: str) -> Sample:
        """A sample, decoded."""
        if self.suffixes is not None:
            members = {name: value for name, value in members.items() if matches(name, self.suffixes)}
        sample = {"__key__": key, **members, "__url__": url}
        if self.decoder is not None:
            sample = _applied(self.decoder, sample, partial(decoded, is_unsafe=self.is_unsafe))
        if self.expand_json:
            found = sample["json"]
            if isinstance(found, (bytes, str)):
                found = json.loads(found)
            elif not isinstance(found, dict):
                raise TypeError(f"expand_json: the json of sample {key!r} is of type {type(found).__name__}, and it wants bytes, a text or a dict")
            for name, value in found.items():
                sample.setdefault(name, []).append(value)
        return {name: value[0] if isinstance(value, list) and len(value) == 1 else value for name, value in sample.items()}


def decoded(sample: Sample, format: Any = True, is_unsafe: bool = False) -> Sample:
    """The values of a sample by their endings; those of others stay bytes.

    >>> decoded({"__key__": "a", "txt": b"hi", "cls": b"3", "json": b'{"x": 1}', "bin": b"b"})
    {'__key__': 'a', 'txt': 'hi', 'cls': 3, 'json': {'x': 1}, 'bin': b'b'}
    """
    return {name: value if name.startswith("__") else _decoded(sample, name, value, format, is_unsafe) for name, value in sample.items()}


def _decoded(sample: Sample, name: str, value: Any, format: Any, is_unsafe: bool) -> Any:
    ending = name.rpartition(".")[2]
    if ending in ("txt", "text"):
        return value.decode("utf-8")
    if ending in ("cls", "cls2"):
        return int(value.decode("utf-8"))
    if ending == "json":
        return json.loads(value)
    if ending in _IMAGES:
        from weir import _formats

        image = _formats._need("PIL.Image", f"read_webdataset of {name!r} (decoder=None leaves the bytes)").open(io.BytesIO(value))
        if format == "PIL":
            return image
        import numpy as np

        return np.asarray(image)
    if ending == "npy":
        import numpy as np

        return np.load(io.BytesIO(value), allow_pickle=False)
    if ending == "mp":
        from weir import _formats

        return _formats._need("msgpack", f"read_webdataset of {name!r} (decoder=None leaves the bytes)").unpackb(value, raw=False)
    if ending in ("pt", "pth", "pickle", "pkl"):
        if not is_unsafe:
            raise ValueError(
                f"Refusing to unpickle WebDataset member {name!r} of sample {sample.get('__key__')!r}: a pickle runs whatever code is in it. "
                f"decoder=None leaves the bytes, a decoder of your own reads them; {UNSAFE}=1 unpickles what you trust."
            )
        if ending in ("pt", "pth"):
            import torch

            return torch.load(io.BytesIO(value), weights_only=False)
        import pickle

        return pickle.loads(value)
    return value


def encoded(sample: Sample, format: Any = True) -> Sample:
    """The other way.

    >>> encoded({"__key__": "a", "txt": "hi", "cls": 3, "json": {"x": 1}})
    {'__key__': 'a', 'txt': b'hi', 'cls': b'3', 'json': b'{"x": 1}'}
    """
    return {name: value if name.startswith("__") or value is None else _encoded(name, value) for name, value in sample.items()}


def _encoded(name: str, value: Any) -> Any:
    ending = name.rpartition(".")[2]
    stream = io.BytesIO()
    if ending == "txt":
        return value.encode("utf-8")
    if ending in ("cls", "cls2"):
        return str(value).encode("utf-8")
    if ending in (*_IMAGES, "jpeg"):
        from weir import _formats

        pillow = _formats._need("PIL.Image", f"write_webdataset of {name!r}")
        image = value if isinstance(value, pillow.Image) else pillow.fromarray(value)
        image.save(stream, format={"jpg": "jpeg"}.get(ending, "ppm" if ending in ("pgm", "pbm", "pnm") else ending))
    elif ending == "json":
        return json.dumps(_plain(value)).encode("utf-8")
    elif ending == "npy":
        import numpy as np

        np.save(stream, value, allow_pickle=False)
    elif ending == "mp":
        from weir import _formats

        packed: bytes = _formats._need("msgpack", f"write_webdataset of {name!r}").dumps(_plain(value))
        return packed
    elif ending in ("pt", "pth"):
        import torch

        torch.save(value, stream)
    elif ending in ("pickle", "pkl"):
        import pickle

        pickle.dump(value, stream)
    else:
        return value
    return stream.getvalue()


def _plain(value: Any) -> Any:
    """Arrays as lists."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value.tolist() if hasattr(value, "tolist") else value


# ---- by Python's tarfile ----


_NAME = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$")


class WebDatasetDatasource(FileBasedDatasource):
    """Shards whose members are renamed, or whose opening is told of."""

    def __init__(self, paths: Any, samples: Samples, filerename: Any, verbose_open: bool, **kwargs: Any) -> None:
        super().__init__(paths, **kwargs)
        self.samples, self.filerename, self.verbose_open = samples, filerename, verbose_open

    def get_name(self) -> str:
        """Of the operator."""
        return "WebDataset"

    def _members(self, file: Any) -> Iterator[tuple[str, bytes]]:
        import tarfile

        archive = tarfile.open(fileobj=file, mode="r|*")
        for member in archive:
            data = archive.extractfile(member) if member.isreg() else None
            if data is None:
                continue
            value = data.read()
            name = _applied(self.filerename, member.name) if self.filerename is not None else member.name
            if matches(name, self.samples.fileselect):
                yield name, value

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        from weir._weir import batch_from_rows

        if self.verbose_open:
            print(f"start {path}")
        rows: list[Sample] = []
        for key, members in self._grouped(f, path):
            rows.append(self.samples.row(key, members, path))
            if len(rows) == ROWS:
                yield batch_from_rows(rows)
                rows = []
        if rows:
            yield batch_from_rows(rows)
        if self.verbose_open:
            print(f"done {path}")

    def _grouped(self, f: Any, path: str) -> Iterator[tuple[str, Sample]]:
        seen: set[str] = set()
        key: str | None = None
        members: Sample = {}
        for name, value in self._members(f):
            found = _NAME.match(name)
            if found is None:
                continue
            if found[1] != key:
                if key is not None:
                    yield key, members
                key, members = found[1], {}
                if key in seen:
                    raise ValueError(f"WebDataset tar entries for key {key!r} are not contiguous in the archive {path}: members of one sample must "
                                     "follow each other; make the archive anew with sorted names (tar --sort=name)")
                seen.add(key)
            if found[2] in members or found[2] in ("__key__", "__url__"):
                raise ValueError(f"{name}: duplicate file name in tar file {path}")
            members[found[2]] = value
        if key is not None:
            yield key, members


class WebDatasetDatasink(BlockBasedFileDatasink):
    """Rows as members of tar files: a file a block."""

    def __init__(self, path: str, encoder: Any = True, **kwargs: Any) -> None:
        super().__init__(path, file_format="tar", **kwargs)
        self.encoder = encoder

    def write_block_to_file(self, block: BlockAccessor, file: Any) -> None:
        """The block's samples, encoded."""
        import tarfile
        import time
        import uuid

        with tarfile.open(fileobj=file, mode="w|") as archive:
            for row in block.iter_rows(public_row_format=False):
                sample = dict(row)
                if self.encoder is not None:
                    sample = _applied(self.encoder, sample, encoded)
                key = sample.get("__key__") or uuid.uuid4().hex
                for name, value in sample.items():
                    if value is None or name.startswith("__"):
                        continue
                    if isinstance(value, str):
                        value = value.encode("utf-8")
                    if not isinstance(value, (bytes, bytearray, memoryview)):
                        raise TypeError(f"write_webdataset: the column {name!r} of sample {key!r} is of type {type(value).__name__} after encoding, and a "
                                        "member is bytes or a text: name the column by an ending that the encoder knows, or give an encoder")
                    info = tarfile.TarInfo(f"{key}.{name}")
                    info.size, info.mtime, info.mode = len(value), int(time.time()), 0o644
                    info.uname = info.gname = "data"
                    archive.addfile(info, io.BytesIO(value))
