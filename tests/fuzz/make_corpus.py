#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets with other libraries: small files that between them have every type, encoding and
codec once.

    tests/fuzz/make_corpus.py [FORMAT …]

Each format is a function that yields (name, bytes); its files go to tests/fuzz/corpus/<format>/. They are kept in the
repository, so this runs only when one is to be added.
"""
import datetime
import decimal
import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

CORPUS = Path(__file__).resolve().parent / "corpus"


def ipc_bytes(table, file=False, **options):
    out = io.BytesIO()
    new = pa.ipc.new_file if file else pa.ipc.new_stream
    with new(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return out.getvalue()


def ipc_arrays():
    """One small array a type."""
    day, moment = datetime.date(2020, 2, 29), datetime.datetime(2020, 2, 29, 12, 30)
    yield "null", pa.nulls(3)
    yield "bool", pa.array([True, None, False])
    for kind in ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
                 "float64"]:
        yield kind, pa.array([1, None, 3], getattr(pa, kind)())
    yield "decimal128", pa.array([decimal.Decimal("1.23"), None], pa.decimal128(10, 2))
    yield "decimal256", pa.array([decimal.Decimal("-1.23"), None], pa.decimal256(50, 2))
    yield "decimal32", pa.array([decimal.Decimal("-1.23"), None], pa.decimal32(5, 2))
    yield "decimal64", pa.array([decimal.Decimal("1.23"), None], pa.decimal64(15, 2))
    yield "date32", pa.array([day, None])
    yield "date64", pa.array([day, None], pa.date64())
    yield "time32", pa.array([1, None], pa.time32("s"))
    yield "time64", pa.array([1000, None], pa.time64("ns"))
    yield "timestamp", pa.array([moment, None], pa.timestamp("us", "Europe/Zurich"))
    yield "duration", pa.array([1, None], pa.duration("ms"))
    yield "interval", pa.array([(1, 2, 3), None], pa.month_day_nano_interval())
    yield "binary", pa.array([b"a", None, b""])
    yield "large_binary", pa.array([b"a", None], pa.large_binary())
    yield "string", pa.array(["weir", None, "水門"])
    yield "large_string", pa.array(["weir", None], pa.large_string())
    yield "fixed_binary", pa.array([b"abc", None], pa.binary(3))
    yield "list", pa.array([[1, None], None, []])
    yield "large_list", pa.array([["x"], None], pa.large_list(pa.string()))
    yield "fixed_list", pa.array([[1, 2], None], pa.list_(pa.int8(), 2))
    yield "struct", pa.array([{"a": 1, "b": "x"}, None])
    yield "map", pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32()))
    yield "dictionary", pa.array(["a", "b", None, "a"]).dictionary_encode()
    yield "list_dictionary", pa.ListArray.from_arrays([0, 2, 3], pa.array(["a", "b", "a"]).dictionary_encode())
    yield "string_view", pa.array(["short", None, "a text of more than twelve bytes"], pa.string_view())
    yield "binary_view", pa.array([b"short", None], pa.binary_view())
    yield "list_view", pa.ListViewArray.from_arrays([2, 0], [1, 2], pa.array([1, 2, 3]))
    yield "large_list_view", pa.LargeListViewArray.from_arrays([0, 1], [1, 2], pa.array([1, 2, 3]))
    yield "run_end_encoded", pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None]))


def ipc():
    for name, array in ipc_arrays():
        field = pa.field("c", array.type, metadata={"k": "v"} if name == "int8" else None)
        yield name, ipc_bytes(pa.table([array], schema=pa.schema([field])))
    few = pa.table({"i": [1, None, 3], "s": ["a", "bb", None], "n": [[{"x": 1}], [], None]})
    yield "file", ipc_bytes(few, file=True)
    yield "file_dictionary", ipc_bytes(pa.table({"d": pa.array(["a", "b"]).dictionary_encode()}), file=True)
    many = pa.table({"i": [7] * 300, "s": ["same"] * 300})
    yield "lz4", ipc_bytes(many, compression="lz4")
    yield "zstd", ipc_bytes(many, compression="zstd")
    yield "legacy", ipc_bytes(few, use_legacy_format=True, metadata_version=pa.ipc.MetadataVersion.V4)
    chunks = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([code], pa.int8()), values)
                               for code, values in [(0, ["a"]), (1, ["a", "b"]), (0, ["z"])]])
    yield "deltas", ipc_bytes(pa.table({"d": chunks}), emit_dictionary_deltas=True)
    yield "empty", ipc_bytes(few.slice(0, 0))
    yield "no_columns", ipc_bytes(pa.table({}))


FORMATS = {"ipc": ipc}


def main():
    for format in sys.argv[1:] or FORMATS:
        folder = CORPUS / format
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in FORMATS[format]():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
