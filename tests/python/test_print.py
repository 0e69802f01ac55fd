"""Values as text: what CSV and JSON lines show of every type."""
import datetime as dt
import decimal
import json
import struct
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def run(weir_command, *words):
    return subprocess.run([weir_command, *map(str, words)], capture_output=True, check=True).stdout.decode()


def test_every_type(weir_command, tmp_path):
    table = pa.table({
        "half": pa.array([1.5, None, float("nan")], pa.float16()),
        "single": pa.array([0.1, 1e20, float("inf")], pa.float32()),
        "decimal": pa.array([decimal.Decimal("1.20"), decimal.Decimal("-0.05"), None], pa.decimal128(10, 2)),
        "time": pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None, dt.datetime(2024, 2, 29)],
                         pa.timestamp("us", "UTC")),
        "day": pa.array([dt.date(1, 1, 1), dt.date(2024, 2, 29), None]),
        "bool": pa.array([True, False, None]),
        "bytes": pa.array([b"a\x00\xff", b"", None]),
        "text": pa.array(['a"b\n', "", None]),
        "list": pa.array([[1, None], [], None], pa.list_(pa.int32())),
        "code": pa.array(["x", "y", None]).dictionary_encode(),
        "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
    })
    pq.write_table(table, tmp_path / "t.parquet")
    assert run(weir_command, "read", tmp_path / "t.parquet", "then", "write", "-", "--format", "csv") == (
        "half,single,decimal,time,day,bool,bytes,text,list,code,map\n"
        '1.5,0.1,1.20,1969-12-31 23:59:59.999999Z,0001-01-01,true,a\\x00\\xFF,"a""b\n","[1,null]",x,'
        '"[{""key"":""k"",""value"":1}]"\n'
        ',1e+20,-0.05,,2024-02-29,false,"","",[],y,[]\n'
        "nan,inf,,2024-02-29 00:00:00.000000Z,,,,,,,\n")
    rows = [json.loads(line) for line in
            run(weir_command, "read", tmp_path / "t.parquet", "then", "write", "-", "--format", "jsonl").splitlines()]
    assert rows[0]["text"] == 'a"b\n' and rows[0]["list"] == [1, None] and rows[0]["map"] == [{"key": "k", "value": 1}]
    assert rows[2]["half"] is None and rows[2]["single"] is None


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 2**64 - 1), min_size=200, max_size=2000))
def test_doubles_read_back(weir_command, tmp_path, bits):
    values = [struct.unpack("<d", struct.pack("<Q", b))[0] for b in bits]
    pq.write_table(pa.table({"x": values}), tmp_path / "d.parquet")
    lines = run(weir_command, "read", tmp_path / "d.parquet", "then", "write", "-", "--format", "csv").splitlines()[1:]
    assert lines == [repr(v) for v in values]
