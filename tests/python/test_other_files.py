"""ORC, Avro, audio and video files, and the frames of Daft, Dask and Modin. Of packages that are not installed small ones stand in."""
import importlib.util
import sys
import textwrap

import numpy as np
import pytest

import weir
from weir import _absent


def stand_in(tmp_path, monkeypatch, name, text):
    """A module of that name, for this process and for workers."""
    folder = tmp_path / "modules"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(str(folder))
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # and gone afterwards
    spec.loader.exec_module(module)


def test_orc_both_ways(tmp_path):
    pa = pytest.importorskip("pyarrow")
    orc = pytest.importorskip("pyarrow.orc")
    table = pa.table({"i": [1, None, 3], "s": ["a", "é", None], "l": [[1], [], None], "f": [0.5, 1.5, 2.5]})
    orc.write_table(table, str(tmp_path / "a.orc"))
    (tmp_path / "note.txt").write_text("no ORC")
    assert weir.read_orc(str(tmp_path)).to_arrow().to_pylist() == table.to_pylist()
    assert weir.read_orc(str(tmp_path), include_paths=True).take(1)[0]["path"] == str(tmp_path / "a.orc")
    weir.from_arrow(table).write_orc(str(tmp_path / "out"), compression="zstd")
    (path,) = (tmp_path / "out").iterdir()
    file = orc.ORCFile(str(path))
    assert path.suffix == ".orc" and file.compression == "ZSTD" and file.read().to_pylist() == table.to_pylist()
    with pytest.raises(ValueError, match="ORC is compressed inside"):
        weir.range(1).write_orc(str(tmp_path / "no"), arrow_open_stream_args={"compression": "gzip"})


def test_stripes_are_read_one_by_one(tmp_path):
    pa = pytest.importorskip("pyarrow")
    orc = pytest.importorskip("pyarrow.orc")
    with orc.ORCWriter(str(tmp_path / "a.orc"), stripe_size=64 << 10) as writer:
        for n in range(8):
            writer.write(pa.table({"n": np.random.default_rng(n).integers(0, 1 << 60, 10_000)}))
    assert orc.ORCFile(str(tmp_path / "a.orc")).nstripes > 1
    assert weir.read_orc(str(tmp_path / "a.orc")).count() == 80_000


def test_avro(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "fastavro", """
        import json

        def reader(file):
            yield from json.loads(file.read())
    """)
    (tmp_path / "a.avro").write_text('[{"a": 1, "b": "x"}, {"a": 2, "b": null}]')
    assert weir.read_avro(str(tmp_path / "a.avro")).take_all() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


def test_audio(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "soundfile", """
        import numpy as np

        def read(stream, always_2d, dtype):
            assert always_2d and dtype == "float32"
            return np.frombuffer(stream.read(), np.uint8).astype(dtype).reshape(-1, 2), 16000
    """)
    (tmp_path / "a.wav").write_bytes(bytes([1, 2, 3, 4, 5, 6]))
    (row,) = weir.read_audio(str(tmp_path)).take_all()
    assert row["sample_rate"] == 16000 and row["amplitude"].tolist() == [[1, 3, 5], [2, 4, 6]]


def test_videos(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch, "decord", """
        import numpy as np

        class Frame:
            def __init__(self, value, shape):
                self.value, self.shape = value, shape

            def asnumpy(self):
                return np.full(self.shape, self.value, np.uint8)

        class VideoReader:
            def __init__(self, file, height=4, width=6):
                self.frames = [Frame(value, (height, width, 3)) for value in file.read()]

            def __iter__(self):
                return iter(self.frames)

            def get_avg_fps(self):
                return 30.0

            def get_frame_timestamp(self, index):
                return np.array([index, index + 1], np.float32)
    """)
    (tmp_path / "a.mp4").write_bytes(bytes(range(10)))
    rows = weir.read_videos(str(tmp_path), fps=10, resize=(2, 3), include_timestamps=True).take_all()
    assert [(r["frame_index"], int(r["frame"].max()), r["frame"].shape, r["frame_timestamp"].tolist()) for r in rows] == [
        (n, n, (2, 3, 3), [n, n + 1]) for n in (0, 3, 6, 9)]
    with pytest.raises(ValueError, match="fps is a positive integer"):
        weir.read_videos(str(tmp_path), fps=0)
    with pytest.raises(ValueError, match="resize is \\(height, width\\)"):
        weir.read_videos(str(tmp_path), resize=(0, 1))


@pytest.mark.parametrize("method, package", [("read_avro", "fastavro"), ("read_audio", "soundfile"), ("read_videos", "decord")])
def test_packages_that_are_missing_are_named(tmp_path, method, package):
    try:
        __import__(package)
    except ImportError:
        (tmp_path / "a.mp4").write_bytes(b"x")
        with pytest.raises(ModuleNotFoundError, match=f"{method} needs the package {package}.*pip install {package}"):
            getattr(weir, method)(str(tmp_path / "a.mp4"), file_extensions=None)
    else:
        pytest.skip(f"{package} is installed")


def test_daft():
    daft = pytest.importorskip("daft")
    pytest.importorskip("pyarrow")
    ds = weir.from_daft(daft.from_pydict({"a": [1, 2], "b": ["x", None]}))
    assert ds.take_all() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert ds.filter(expr="a > 1").to_daft().to_pydict() == {"a": [2], "b": [None]}
    with pytest.raises(TypeError, match="takes a daft.DataFrame, not dict"):
        weir.from_daft({})


@pytest.mark.parametrize("name", ["dask", "modin"])
def test_dask_and_modin_are_named_where_they_are_missing(name):
    try:
        __import__(name)
    except ImportError:
        with pytest.raises(ModuleNotFoundError, match=f"from_{name} needs the package {name}"):
            getattr(weir, f"from_{name}")(None)
        with pytest.raises(ModuleNotFoundError, match=f"to_{name} needs the package {name}"):
            getattr(weir.range(1), f"to_{name}")()
    else:
        pytest.skip(f"{name} is installed")


def test_dask():
    pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    import dask.dataframe as dd

    ds = weir.from_dask(dd.from_pandas(pd.DataFrame({"a": range(4)}), npartitions=2))
    assert ds.num_blocks() == 2 and ds.to_dask().compute()["a"].tolist() == [0, 1, 2, 3]


def test_modin():
    pytest.importorskip("modin.pandas")
    import modin.pandas as mpd

    assert weir.from_modin(mpd.DataFrame({"a": [1, 2]})).to_modin()["a"].tolist() == [1, 2]


@pytest.mark.parametrize("name", sorted({**_absent.READERS, **_absent.WRITERS}))
def test_what_needs_a_service_says_so(name):
    called = getattr(weir, name) if name in _absent.READERS else getattr(weir.range(1), name)
    with pytest.raises(NotImplementedError, match=rf"weir has no {name}: .{{20}}"):
        called("anything", option=1)
