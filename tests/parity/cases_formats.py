"""TFRecord files and the other formats that are not text, Parquet or images."""
import json
import os
import sys
from pathlib import Path

from parity import case

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))

import tfrecord_files as tf  # noqa: E402
from tfrecord_files import BYTES, FLOATS, INTS, UNSET  # noqa: E402

RECORDS = {
    "values": [{"a": INTS(1), "b": FLOATS(1.5), "c": BYTES(b"x")}, {"a": INTS(-2), "b": FLOATS(2.5), "c": BYTES(b"")}],
    "lists": [{"a": INTS(1, 2), "b": FLOATS(0.5, 2), "c": BYTES(b"x", b"z")}, {"a": INTS(2, 3, 4), "b": FLOATS(0, 1), "c": BYTES(b"y", b"")}],
    "empty": [{"a": INTS(1)}, {"a": INTS()}],
    "empty first": [{"a": INTS()}, {"a": INTS(1)}],
    "unset": [{"a": UNSET}, {"a": BYTES(b"q")}],
    "unset lists": [{"a": UNSET}, {"a": INTS(1, 2)}],
    "all empty": [{"a": INTS(), "z": INTS(1)}, {"a": INTS(), "z": INTS(2)}],
    "missing": [{"a": INTS(1)}, {"b": INTS(2)}],
    "numbers": [{"a": INTS(1)}, {"a": FLOATS(2.5)}],
    "kinds": [{"a": INTS(1)}, {"a": BYTES(b"x")}],
}


@case(*RECORDS)
def read_tfrecords(data, at, name):
    path = tf.write(at / "a.tfrecords", RECORDS[name])
    ds = data.read_tfrecords(path).materialize()
    return [sorted(zip(ds.schema().names, map(str, ds.schema().types))), ds.take_all()]


@case("no such file", "broken")
def read_tfrecords_wrong(data, at, name):
    if name == "broken":
        (at / name).write_text("this is no TFRecord file")
    return data.read_tfrecords(str(at / name)).take_all()


@case()
def read_tfrecords_folder(data, at):
    (at / "tf").mkdir()
    for n in range(3):
        tf.write(at / "tf" / f"{n}.tfrecords", [{"n": INTS(n)}, {"n": INTS(n + 10)}])
    ds = data.read_tfrecords(str(at / "tf"), include_paths=True)
    return sorted((row["n"], os.path.basename(row["path"])) for row in ds.take_all())


ROWS = {
    "values": [{"a": 1, "b": 1.5, "c": "x", "d": b"y"}, {"a": -1, "b": 0.0, "c": "", "d": b""}],
    "nulls": [{"a": 1, "c": "x"}, {"a": None, "c": None}],
    "lists": [{"a": [1, 2], "b": ["x"], "c": [0.5]}, {"a": [3], "b": ["y", "z"], "c": []}],
    "bools": [{"a": True}],
    "structs": [{"a": {"b": 1}}],
    "nothing": [{"a": None}],
    "null in list": [{"a": [1, None]}],
}


@case(*ROWS)
def write_tfrecords(data, at, name):
    data.from_items(ROWS[name]).repartition(1).write_tfrecords(str(at / "out"))
    (path,) = (at / "out").iterdir()
    return [sorted(record.items()) for record in tf.read(path)]


@case()
def write_and_read_tfrecords(data, at):
    data.range(20, override_num_blocks=3).write_tfrecords(str(at / "out"))
    return sorted(row["id"] for row in data.read_tfrecords(str(at / "out")).take_all())


# ---- WebDataset ----


def shard(path, members):
    import io
    import tarfile

    with tarfile.open(path, "w") as archive:
        for name, value in members:
            info = tarfile.TarInfo(name)
            info.size = len(value)
            archive.addfile(info, io.BytesIO(value))
    return str(path)


def samples(ds):
    return [{k: os.path.basename(v) if k == "__url__" else v for k, v in row.items()} for row in ds.take_all()]


SHARDS = {
    "plain": [("a.txt", b"one"), ("a.cls", b"1"), ("b.txt", b"two"), ("b.cls", b"2")],
    "missing": [("a.txt", b"one"), ("b.txt", b"two"), ("b.other", b"x")],
    "folders": [("d/a.seg.txt", b"one"), ("d/a.txt", b"1"), ("d/.hidden", b"h"), ("nothing", b"")],
    "json": [("a.json", b'{"k": 1, "l": "x"}'), ("b.json", b'{"k": 2, "l": "y"}')],
    "again": [("a.txt", b"1"), ("b.txt", b"2"), ("a.cls", b"3")],
    "twice": [("a.txt", b"1"), ("a.txt", b"2")],
    "pickle": [("a.pkl", b"\x80\x04N.")],
    "text that is none": [("a.txt", b"\xff")],
}


@case(*SHARDS)
def read_webdataset(data, at, name):
    return samples(data.read_webdataset(shard(at / "a.tar", SHARDS[name])))


@case("decoder=None", "decoder=False", "suffixes=['txt']", "suffixes=['*.txt']", "suffixes=lambda s: s == 'cls'", "fileselect=['*.txt']",
      "fileselect=['a.txt']", "fileselect=lambda n: n.startswith('b')", "filerename=lambda n: n.replace('cls', 'label')",
      "decoder=lambda s: {'n': len(s['txt'])}", "decoder=[True, lambda s: {**s, 'more': s['cls'] + 1}]", "include_paths=False")
def read_webdataset_options(data, at, text):
    return samples(data.read_webdataset(shard(at / "a.tar", SHARDS["plain"]), **eval(f"dict({text})")))


@case()
def read_webdataset_expanded(data, at):
    return samples(data.read_webdataset(shard(at / "a.tar", SHARDS["json"]), expand_json=True))


@case("values", "no key", "json", "wrong", "npy")
def write_webdataset(data, at, name):
    import tarfile

    rows = {
        "values": [{"__key__": "a", "txt": "x", "cls": 1, "bin": b"y"}, {"__key__": "b", "txt": "", "cls": 2, "bin": b""}],
        "no key": [{"txt": "x"}],
        "json": [{"__key__": "a", "json": {"k": 1, "l": "x"}}],
        "wrong": [{"__key__": "a", "v": 1}],
        "npy": [{"__key__": "a", "npy": [1, 2]}],
    }[name]
    data.from_items(rows).repartition(1).write_webdataset(str(at / "out"))
    (path,) = (at / "out").iterdir()
    with tarfile.open(path) as archive:
        return [path.suffix, [(m.name if name != "no key" else m.name[-4:], archive.extractfile(m).read()) for m in archive]]


# ---- ORC ----


@case()
def write_and_read_orc(data, at):
    data.from_items([{"a": 1, "b": "x", "c": [1, 2]}, {"a": 2, "b": None, "c": []}]).repartition(1).write_orc(str(at / "out"))
    (path,) = (at / "out").iterdir()
    ds = data.read_orc(str(at / "out"))
    return [path.suffix, ds.take_all(), list(zip(ds.schema().names, map(str, ds.schema().types)))]


@case("no such file", "broken.orc")
def read_orc_wrong(data, at, name):
    if name == "broken.orc":
        (at / name).write_text("this is no ORC file")
    return data.read_orc(str(at / name)).take_all()


@case("read_avro", "read_audio", "read_videos")
def read_without_its_package(data, at, method):
    (at / "a.mp3").write_text("x")
    return getattr(data, method)(str(at / "a.mp3"), file_extensions=None)


@case((), (3,), (2, 2), (1, 2, 3))
def tensors_in_json(data, at, *shape):
    ds = data.range_tensor(2, shape=shape or (1,), override_num_blocks=1)
    ds.write_json(at / "out")
    lines = [line for name in sorted(os.listdir(at / "out")) for line in open(at / "out" / name)]
    return [[json.loads(line) for line in lines], [row["data"] for row in data.read_json(at / "out").take_all()]]
