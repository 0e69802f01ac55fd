"""Times of Parquet files as Spark and Hive wrote them once."""
import datetime
import struct
import subprocess

import pytest

import weir

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")


def test_int96_beyond_nanoseconds_is_refused(tmp_path, weir_command):
    """A time that nanoseconds cannot tell must not come back as another one."""
    table = pyarrow.table(
        {"t": pyarrow.array([datetime.datetime(2024, 1, 1), None], pyarrow.timestamp("us")), "x": [1, 2]})
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(table, path, use_deprecated_int96_timestamps=True, use_dictionary=False, compression="none")
    data = path.read_bytes()
    day = struct.pack("<I", 2440588 + (datetime.date(2024, 1, 1) - datetime.date(1970, 1, 1)).days)
    assert data.count(day) >= 1
    path.write_bytes(data.replace(day, struct.pack("<I", 5373484)))
    done = subprocess.run([weir_command, "read", path], capture_output=True, text=True)
    assert done.returncode == 1 and "column t" in done.stderr and "1677 to 2262" in done.stderr
    assert subprocess.run([weir_command, "read", path, "then", "select", "x"], capture_output=True).returncode == 0
    far = datetime.datetime(9999, 12, 31)  # what Spark's users write for "never"
    for unit in ("s", "ms", "us"):
        ds = weir.read_parquet(str(path), coerce_int96_timestamp_unit=unit)
        assert ds.take_all() == [{"t": far, "x": 1}, {"t": None, "x": 2}] and str(ds.schema().types[0]) == f"timestamp[{unit}]"
        want = pyarrow.parquet.read_table(path, coerce_int96_timestamp_unit=unit)
        assert ds.to_arrow().to_pylist() == want.to_pylist()
    assert weir.read_parquet(str(path), dataset_kwargs={"coerce_int96_timestamp_unit": "us"}).take(1)[0]["t"] == far
    with pytest.raises(ValueError, match="'filters' isn't supported in 'dataset_kwargs'"):
        weir.read_parquet(str(path), dataset_kwargs={"filters": []})
    with pytest.raises(ValueError, match='is "s", "ms", "us" or "ns"'):
        weir.read_parquet(str(path), coerce_int96_timestamp_unit="h")
    done = subprocess.run([weir_command, "read", path, "--int96", "us"], capture_output=True, text=True)
    assert done.returncode == 0 and "9999-12-31" in done.stdout
    assert "--int96 is s, ms, us or ns" in subprocess.run([weir_command, "read", path, "--int96", "x"], capture_output=True, text=True).stderr
