"""WebDataset shards, both ways, against Python's tarfile and WebDataset's rule of names."""
import gzip
import io
import json
import os
import pickle
import random
import re
import tarfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weir

RANDOM = settings(max_examples=40, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
NAME = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$")
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def tar(path, members, format="pax"):
    """Members: (name, bytes), or (name, text) of something that is no file: its kind."""
    with tarfile.open(path, "w", format=FORMATS[format]) as archive:
        for name, value in members:
            info = tarfile.TarInfo(name)
            if isinstance(value, bytes):
                info.size = len(value)
                archive.addfile(info, io.BytesIO(value))
            else:
                info.type, info.linkname = value.encode(), "elsewhere"
                archive.addfile(info)
    return str(path)


def expected(path):
    """Samples, by tarfile and the rule of names."""
    rows = []
    with tarfile.open(path) as archive:
        for member in archive:
            found = NAME.match(member.name) if member.isreg() else None
            if found is None:
                continue
            if not rows or rows[-1]["__key__"] != found[1]:
                rows.append({"__key__": found[1]})
            rows[-1][found[2]] = archive.extractfile(member).read()
    return rows


def read(path, decoder=None, **options):
    """Rows without what is null, and without the file."""
    return [{name: value for name, value in row.items() if value is not None and name != "__url__"}
            for row in weir.read_webdataset(str(path), decoder=decoder, **options).take_all()]


PART = st.sampled_from(["a", "b", "ab", "x" * 60, "é", "a b", "_"])
ENDINGS = st.sampled_from(["jpg", "cls", "seg.png", "json", "", ".x", "txt"])


@RANDOM
@given(st.lists(st.tuples(st.lists(PART, max_size=3).map("/".join), PART, ENDINGS, st.binary(max_size=1200),
                          st.sampled_from(["file"] * 6 + ["folder", "link", "hidden"])), max_size=12), st.sampled_from(["gnu", "pax"]))
def test_random_shards(tmp_path_factory, members, format):
    path = tmp_path_factory.mktemp("web") / "a.tar"
    made, seen, last = [], set(), None
    for folder, part, ending, value, kind in members:
        name = "/".join(filter(None, [folder, part])) + "." + ending
        if kind == "hidden":
            name = "/".join(filter(None, [folder, "." + ending]))
        found = NAME.match(name)
        # A shard has the members of a sample together, each once.
        if found and kind not in ("folder", "link"):
            if found[1] != last and any(key == found[1] for key, _ in seen) or found.groups() in seen:
                continue
            seen.add(found.groups())
            last = found[1]
        made.append((name, "5" if kind == "folder" else "2" if kind == "link" else value))
    tar(path, made, format)
    assert read(path) == expected(path)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("length", [99, 100, 101, 150, 255])
def test_long_names(tmp_path, format, length):
    name = "f" * (length // 2) + "/" + "n" * (length - length // 2 - 5) + ".bin"
    if format == "ustar" and length == 255:
        pytest.skip("more than its header has room for")
    path = tar(tmp_path / "a.tar", [(name, b"1"), ("z.bin", b"2")], format)
    assert read(path) == expected(path) and read(path)[0]["__key__"] == name[:-4]


def test_very_long_names_and_others_that_have_extra_headers(tmp_path):
    name = "d/" * 2000 + "n.txt"
    for format in ("gnu", "pax"):
        path = tar(tmp_path / f"{format}.tar", [(name, b"long"), ("ümlaut.txt", b"x"), ("l" * 200, "2"), ("after.txt", b"y")], format)
        assert read(path) == expected(path) and len(read(path)) == 3
    with tarfile.open(tmp_path / "g.tar", "w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "of all"}) as archive:
        info = tarfile.TarInfo("a.txt")
        info.size, info.pax_headers = 3, {"mtime": "1.5", "note": "x" * 700}
        archive.addfile(info, io.BytesIO(b"abc"))
    assert read(tmp_path / "g.tar") == [{"__key__": "a", "txt": b"abc"}]


def test_a_large_shard_is_read_in_ranges(tmp_path):
    chance = random.Random(3)
    members, rows = [], []
    for n in range(300):
        value = chance.randbytes(chance.choice([0, 10, 511, 512, 513, 200_000]))
        members += [(f"s/{n:04}.cls", b"%d" % n), (f"s/{n:04}.bin", value)]
        rows.append((f"s/{n:04}", n, len(value)))
    path = tar(tmp_path / "a.tar", members)
    ds = weir.read_webdataset(path, override_num_blocks=7)
    assert [(r["__key__"], r["cls"], len(r["bin"])) for r in ds.take_all()] == rows
    assert ds.count() == 300 and ds.select_columns(["cls"]).take(2) == [{"cls": 0}, {"cls": 1}]
    assert weir.read_webdataset(path, decoder=None).select_columns(["__key__"]).filter(expr="__key__ > 's/0297'").take_all() == [
        {"__key__": "s/0298"}, {"__key__": "s/0299"}]
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress((tmp_path / "a.tar").read_bytes(), 1))
    assert [(r["__key__"], r["cls"], len(r["bin"])) for r in weir.read_webdataset(str(tmp_path / "b.tar.gz")).take_all()] == rows


def test_decoding(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    image, array = io.BytesIO(), io.BytesIO()
    Image.fromarray(pixels).save(image, "png")
    np.save(array, np.arange(3))
    path = tar(tmp_path / "a.tar", [
        ("a.png", image.getvalue()), ("a.txt", "é".encode()), ("a.cls", b"7"), ("a.json", b'{"x": [1, 2], "y": "z"}'), ("a.npy", array.getvalue()),
        ("a.other", b"\xff")])
    (row,) = weir.read_webdataset(path).take_all()
    assert np.array_equal(row["png"], pixels) and np.array_equal(row["npy"], [0, 1, 2])
    assert (row["txt"], row["cls"], row["other"], row["__key__"], row["__url__"]) == ("é", 7, b"\xff", "a", path)
    assert {n: list(v) if n == "x" else v for n, v in row["json"].items()} == {"x": [1, 2], "y": "z"}
    (raw,) = weir.read_webdataset(path, decoder=None).take_all()
    assert raw["cls"] == b"7" and raw["png"] == image.getvalue()
    (mine,) = weir.read_webdataset(path, decoder=lambda sample: {"n": len(sample["txt"])}).take_all()
    assert mine == {"n": 2}
    (both,) = weir.read_webdataset(path, decoder=[True, lambda sample: {"n": sample["cls"] + 1}]).take_all()
    assert both == {"n": 8}
    (some,) = weir.read_webdataset(path, suffixes=["cls", "*.t?t"]).take_all()
    assert some == {"__key__": "a", "txt": "é", "cls": 7, "__url__": path}


def test_selecting_renaming_expanding(tmp_path):
    pytest.importorskip("pyarrow")  # names are made anew by a FileBasedDatasource
    path = tar(tmp_path / "a.tar", [("a.cls", b"1"), ("a.json", b'{"k": 5, "l": [1, 2]}'), ("b.json", b'{"k": 6, "l": [3, 4]}')])
    assert [r["__key__"] for r in weir.read_webdataset(path, fileselect=["*.cls"]).take_all()] == ["a"]
    assert [r["__key__"] for r in weir.read_webdataset(path, fileselect=lambda name: name == "b.json").take_all()] == ["b"]
    rows = weir.read_webdataset(path, expand_json=True, suffixes=["json"]).take_all()
    assert [r["k"] for r in rows] == [5, 6]
    # Renamed before samples are made: all of one key.
    (row,) = weir.read_webdataset(path, filerename=lambda name: name.replace("a.cls", "all.cls").replace("a.json", "all.one.json")
                                  .replace("b.json", "all.two.json")).take_all()
    assert row["__key__"] == "all" and row["cls"] == 1 and row["two.json"]["k"] == 6


class Evil:
    def __reduce__(self):
        return os.mkdir, (os.environ["WEB_EVIL"],)


@pytest.mark.parametrize("ending", ["pkl", "pickle", "pt", "pth", "npy"])
def test_nothing_is_unpickled(tmp_path, monkeypatch, ending):
    monkeypatch.setenv("WEB_EVIL", str(tmp_path / "evil"))
    value = pickle.dumps(Evil())
    if ending == "npy":
        stream = io.BytesIO()
        np.save(stream, np.array([Evil()], dtype=object), allow_pickle=True)
        value = stream.getvalue()
    path = tar(tmp_path / "a.tar", [(f"a.{ending}", value)])
    with pytest.raises(ValueError, match="Refusing to unpickle.*decoder=None|allow_pickle=False"):
        weir.read_webdataset(path).take_all()
    assert weir.read_webdataset(path, decoder=None).take_all()[0][ending] == value
    assert not (tmp_path / "evil").exists()


# ---- writing ----


def test_what_is_written(tmp_path):
    rows = [{"__key__": f"{n:03}", "txt": "é" * n, "cls": n, "json": {"a": [n, n + 1]}, "npy": np.arange(n + 1), "bin": b"x" * n} for n in range(5)]
    weir.from_items(rows, override_num_blocks=1).write_webdataset(str(tmp_path / "out"))
    (path,) = (tmp_path / "out").iterdir()
    assert path.suffix == ".tar"
    samples = expected(path)
    assert [s["__key__"] for s in samples] == [r["__key__"] for r in rows]
    for sample, row in zip(samples, rows):
        assert sample["txt"].decode() == row["txt"] and int(sample["cls"]) == row["cls"] and json.loads(sample["json"]) == row["json"]
        assert np.array_equal(np.load(io.BytesIO(sample["npy"])), row["npy"]) and sample["bin"] == row["bin"]
    again = weir.read_webdataset(str(tmp_path / "out")).take_all()
    assert [(r["__key__"], r["txt"], r["cls"], r["npy"].tolist()) for r in again] == [
        (r["__key__"], r["txt"], r["cls"], r["npy"].tolist()) for r in rows]


def test_writing_without_keys_with_encoders_and_what_cannot_be_written(tmp_path):
    weir.from_items([{"txt": "a"}, {"txt": "b"}]).write_webdataset(str(tmp_path / "keys"))
    found = [s for path in (tmp_path / "keys").iterdir() for s in expected(path)]
    assert sorted(s["txt"] for s in found) == [b"a", b"b"] and len({s["__key__"] for s in found}) == 2
    weir.from_items([{"__key__": "k", "v": 1}]).write_webdataset(str(tmp_path / "mine"), encoder=lambda s: {"__key__": s["__key__"], "v": b"%d" % s["v"]})
    (path,) = (tmp_path / "mine").iterdir()
    assert expected(path) == [{"__key__": "k", "v": b"1"}]
    with pytest.raises(TypeError, match="column 'v' of sample 'k' is of type int after encoding"):
        weir.from_items([{"__key__": "k", "v": 1}]).write_webdataset(str(tmp_path / "no"))


# ---- files that are wrong ----


def test_samples_that_are_none(tmp_path):
    pytest.importorskip("pyarrow")  # names are made anew by a FileBasedDatasource
    path = tar(tmp_path / "a.tar", [("a.x", b"1"), ("b.x", b"2"), ("a.y", b"3")])
    for options in ({}, {"filerename": lambda name: name}):
        with pytest.raises(ValueError, match="key 'a' are not contiguous"):
            weir.read_webdataset(path, **options).take_all()
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress((tmp_path / "a.tar").read_bytes()))
    with pytest.raises(ValueError, match="b.tar.gz.*key 'a' are not contiguous"):
        weir.read_webdataset(str(tmp_path / "b.tar.gz")).take_all()
    path = tar(tmp_path / "c.tar", [("a.x", b"1"), ("a.x", b"2")])
    with pytest.raises(ValueError, match="c.tar.*row 0.*a.x: duplicate file name"):
        weir.read_webdataset(path).take_all()


def test_damaged_shards(tmp_path):
    good = open(tar(tmp_path / "good.tar", [("a.x", b"1" * 600), ("b.x", b"2" * 600)]), "rb").read()
    for data, message in ((b"this is text, not a tar file" * 40, "this is no tar file, or a damaged one"), (b"short", "this is no tar file"),
                          (good[:1536 + 700], "the member 'b.x' says that it has 600 bytes, and the file has 188 more"),
                          (good[:1540] + b"?" + good[1541:], "the checksum of a header is wrong")):
        path = tmp_path / "bad.tar"
        path.write_bytes(data)
        with pytest.raises(Exception, match=rf"bad.tar.*{message}"):
            weir.read_webdataset(str(path)).take_all()
        with pytest.raises(Exception, match="no tar file|ends inside|checksum of a header"):
            (tmp_path / "bad.tar.gz").write_bytes(gzip.compress(data))
            weir.read_webdataset(str(tmp_path / "bad.tar.gz")).take_all()


@pytest.mark.parametrize("size", ["77777777777", "17777777777"])
def test_a_size_that_lies_costs_nothing(tmp_path, size):
    header = bytearray(tarfile.TarInfo("a.bin").tobuf())
    header[124:136] = size.encode().rjust(11, b"0") + b" "
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    (tmp_path / "a.tar").write_bytes(bytes(header) + b"x" * 512)
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress(bytes(header) + b"x" * 512))
    for name in ("a.tar", "b.tar.gz"):
        with pytest.raises(Exception, match="cut off|more than 2 GiB"):
            weir.read_webdataset(str(tmp_path / name)).take_all()


def test_the_command(tmp_path):
    pytest.importorskip("pyarrow")
    import weir_chain

    path = tar(tmp_path / "a.tar", [("a.cls", b"1"), ("b.cls", b"2"), ("b.txt", b"t")])
    rows = weir_chain.stream(f"read '{path}'").to_pylist()
    assert rows == [{"__key__": "a", "cls": b"1", "txt": None, "__url__": path}, {"__key__": "b", "cls": b"2", "txt": b"t", "__url__": path}]
    assert weir_chain.stream(f"read '{path}' then select cls").to_pylist() == [{"cls": b"1"}, {"cls": b"2"}]


def test_paths_and_samples_that_differ(tmp_path):
    path = tar(tmp_path / "a.tar", [("a.txt", b"1"), ("b.cls", b"2"), ("b.txt", b"3")])
    rows = weir.read_webdataset(path, include_paths=True).take_all()
    assert rows == [{"__key__": "a", "txt": "1", "cls": None, "__url__": path, "path": path},
                    {"__key__": "b", "txt": "3", "cls": 2, "__url__": path, "path": path}]
    # Endings of another file.
    tar(tmp_path / "b.tar", [("c.json", b'{"k": 1}'), ("c.path", b"mine")])
    rows = weir.read_webdataset(str(tmp_path)).take_all()
    assert [r["__key__"] for r in rows] == ["a", "b", "c"] and rows[2]["json"] == {"k": 1} and rows[2]["path"] == b"mine"


def test_files_are_told_of(tmp_path):
    pytest.importorskip("pyarrow")  # names are made anew by a FileBasedDatasource
    path = tar(tmp_path / "a.tar", [("a.txt", b"1")])
    assert weir.read_webdataset(path, verbose_open=True).take_all()[0]["txt"] == "1"
