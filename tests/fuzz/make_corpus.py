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
import pyarrow.parquet

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


def ipc_file():
    """The same on disk: files with a footer, and a few streams."""
    for name, array in ipc_arrays():
        yield name, ipc_bytes(pa.table({"c": array}), file=True)
    few = pa.table({"i": [1, None, 3], "s": ["a", "bb", None], "n": [[{"x": 1}], [], None]})
    many = pa.table({"i": [7] * 300, "s": ["same"] * 300})
    for codec in ("lz4", "zstd"):
        yield codec, ipc_bytes(many, file=True, compression=codec)
    yield "batches", ipc_bytes(pa.concat_tables([few, few.slice(0, 0), few]), file=True)
    chunks = [pa.DictionaryArray.from_arrays(pa.array([code], pa.int8()), values)
              for code, values in [(0, ["a"]), (1, ["a", "b"]), (0, ["z"])]]
    yield "deltas", ipc_bytes(pa.table({"d": pa.chunked_array(chunks[:2])}), file=True, emit_dictionary_deltas=True)
    yield "empty", ipc_bytes(few.slice(0, 0), file=True)
    yield "stream", ipc_bytes(pa.concat_tables([few, few]))
    yield "stream_replaced", ipc_bytes(pa.table({"d": pa.chunked_array(chunks)}), emit_dictionary_deltas=True)
    yield "stream_legacy", ipc_bytes(few, use_legacy_format=True, metadata_version=pa.ipc.MetadataVersion.V4)


def lines():
    """Behind two bytes that say where to cut."""
    yield "plain", b"\x05\0one\ntwo\n\n  \nthree"
    yield "crlf", b"\x04\0a\r\nb\rc\r\n\r\n"
    yield "mark", b"\x02\0\xef\xbb\xbffirst\nZ\xc3\xbcrich \xf0\x9f\x98\x80\n\xe3\x80\x80\n"
    yield "nul", b"\x03\0a\0b\n\0\n\xff\n"


def parquet_bytes(table, **options):
    out = io.BytesIO()
    pa.parquet.write_table(table, out, **{"store_schema": False, "compression": "none", **options})
    return out.getvalue()


def parquet():
    """Small, since a test changes every byte of each."""
    numbers = pa.table({"i": pa.array([1, 2, 3, 2] * 5), "n": pa.array([1.5, None, 2.5, None] * 5),
                        "b": pa.array([True, None, False, True] * 5)})
    texts = pa.table({"t": pa.array(["a", "Zürich", None, "a text of more than twelve bytes"] * 3),
                      "f": pa.array([b"abc", None, b"xyz", b"abc"] * 3, pa.binary(3))})
    nested = pa.table({
        "l": pa.array([[1, None], None, [], [2, 3, 4]]),
        "s": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}, {"a": 2, "b": []}]),
        "m": pa.array([[("k", 1)], None, [], [("l", None)]], pa.map_(pa.string(), pa.int32()))})
    for version in ("1.0", "2.0"):
        short = version[0]
        yield f"plain_v{short}", parquet_bytes(numbers, use_dictionary=False, data_page_version=version)
        yield f"dictionary_v{short}", parquet_bytes(texts, data_page_version=version)
        yield f"texts_v{short}", parquet_bytes(texts, use_dictionary=False, data_page_version=version)
        yield f"nested_v{short}", parquet_bytes(nested, data_page_version=version)
        yield f"pages_v{short}", parquet_bytes(nested.select(["l"]), data_page_size=1, write_batch_size=1,
                                               use_dictionary=False, data_page_version=version, write_page_index=True)
    for codec in ("snappy", "gzip", "zstd", "lz4", "brotli"):
        yield codec, parquet_bytes(texts.select(["t"]), compression=codec, use_dictionary=False)
    for encoding, columns in (("DELTA_BINARY_PACKED", ["i"]), ("BYTE_STREAM_SPLIT", ["n"]), ("RLE", ["b"])):
        yield encoding.lower(), parquet_bytes(numbers.select(columns), use_dictionary=False,
                                              column_encoding={c: encoding for c in columns})
    for encoding, columns in (("DELTA_LENGTH_BYTE_ARRAY", ["t"]), ("DELTA_BYTE_ARRAY", ["t", "f"])):
        yield encoding.lower(), parquet_bytes(texts.select(columns), use_dictionary=False,
                                              column_encoding={c: encoding for c in columns})
    decimals = pa.array([decimal.Decimal("1.23"), None], pa.decimal128(20, 2))
    others = pa.table({"d": decimals, "t": pa.array([1, None], pa.timestamp("ns")), "u": pa.array([1, 2], pa.uint8())})
    yield "int96", parquet_bytes(others.select(["t"]), use_deprecated_int96_timestamps=True)
    yield "others", parquet_bytes(others, row_group_size=1)
    yield "arrow_schema", parquet_bytes(pa.table({"d": pa.array(["a", None]).dictionary_encode(),
                                                  "l": pa.array([[1, 2], None], pa.list_(pa.int8(), 2))}),
                                        store_schema=True)
    vectors = pa.table({"v": pa.array([[1, 2, 3], [4, 5, 6]] * 4, pa.list_(pa.float32(), 3)),
                        "l": pa.array([[1, 2], [3, 4]] * 4, pa.list_(pa.int64()))})
    for version in ("1.0", "2.0"):
        yield f"vectors_v{version[0]}", parquet_bytes(vectors, use_dictionary=False, data_page_version=version,
                                                      store_schema=True)
    yield "vectors_pages", parquet_bytes(vectors, data_page_size=1, write_batch_size=2, compression="snappy", store_schema=True)
    yield "page_index", parquet_bytes(numbers.select(["i"]), write_page_index=True)


def csv():
    """Two bytes of options (csv_fuzz.c), then the text."""
    texts = {
        "numbers": b"a,b,c\n1,2.5,-3\n,1e5,0x10\n+1,nan,007\n",
        "times": b"d,t,s,z\n2020-02-29,12:30:15,2020-01-01 00:00:00.5,2020-01-01T00:00:00+01:00\n,,,\n",
        "bools": b"a,b\ntrue,1\nFalse,0\nNA,null\n",
        "crlf": b"a,b\r\n1,2\r\n\r\n3,4\r\n",
        "cr": b"a,b\r1,2\r\r3,4",
        "quoted": b'a,b\n"x\ny",1\n"z ""q"", \n",2\n"",3\n',
        "rows_inside": b'a,b\n1,"2\n3,4\n5,6\n"\n7,"8\n9,10"\n',
        "stray": b'a,b\nx"y,1\n"q"r"s,4\n',
        "ragged": b"a,b,c\n1\n2,3,4,5\n6,7,8\n",
        "escaped": b'a,b\n"x\\"\n,",1\nq\\,r,2\n',
        "comments": b'#x "\na,b\n#y\n1,"#\n#"\n',
        "bom": b"\xef\xbb\xbfa,\xc3\xa4\n\xe2\x82\xac,\xff\n",
        "names": b"a,a,,\n1,2,3,4\n",
        "blocks": b"a,b\n" + b'"0123456789012345678901234567890123456789012345678901234567890,""\n",1\n' * 3,
    }
    options = {"ragged": 1, "escaped": 4, "comments": 8, "stray": 64}
    for name, text in texts.items():
        yield name, options.get(name, 0).to_bytes(2, "little") + text
        yield f"{name}_text", (options.get(name, 0) | 258).to_bytes(2, "little") + text


def json_texts():
    yield "lines", b'{"a": 1, "b": "x", "c": [1, 2.5, null]}\n{"a": -2, "b": null}\n\n{"c": []}\n'
    yield "nested", b'{"a":{"b":[{"c":[[],[1]]},{"c":null}],"d":true}}\r\n{"a":{"b":[],"e":"2020-01-01"}}\r\n'
    yield "array", b'[{"id":1,"k":[{"id":2}]},{"id":3,"k":[]},{"id":4,"k":[{"id":5},{"id":6}]}]'
    yield "pretty", b'[\n  {\n    "a": 1\n  },\n  {\n    "a": 1e-5\n  }\n]\n'
    yield "objects", b'{"a":1}{"a":2} {"a":3}\n\t{"a"\n:4}'
    yield "escapes", rb'{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}' + b'\n{"\\u0061":"\xc3\xa9\xf0\x9f\x98\x80"}\n'
    yield "mixed", b'{"a":1}\n{"a":"x"}\n{"a":[1, {"b": 2}]}\n{"a":true}\n'
    yield "numbers", b'{"a":9223372036854775807,"b":9223372036854775808,"c":-0,"d":1.7976931348623157e308,"e":0.1}\n'
    yield "times", b'{"t":"2020-02-29T12:30:15Z","u":"2020-02-29"}\n{"t":"2020-02-29 12:30+01:00"}\n'
    yield "mark", b'\xef\xbb\xbf{"a":1}\n'
    yield "empty_array", b" [ ] \n"
    yield "wide", b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(40)) + b"}\n"
    yield "long_names", b'{"a name of more than sixteen bytes":1,"another name, longer than sixteen":{"x":1}}\n' * 2


def tfrecord():
    sys.path.insert(0, str(CORPUS.parent.parent / "python"))
    from tfrecord_files import BYTES, FLOATS, INTS, UNSET, example, field, frame, varint

    rows = [{"i": INTS(1), "f": FLOATS(1.5), "b": BYTES(b"x")}, {"i": INTS(-2), "f": FLOATS(float("nan")), "b": BYTES(b"a text of more than twelve")}]
    yield "scalars", b"".join(frame(example(row)) for row in rows)
    lists = [{"i": INTS(1, 300, -1), "f": FLOATS(), "b": BYTES(b"", b"y")}, {"i": INTS(), "b": BYTES(), "u": UNSET}, {}]
    yield "lists", b"".join(frame(example(row)) for row in lists)
    yield "unpacked", frame(example({"i": INTS(5, 6, 2**62), "f": FLOATS(0.5, 2)}, packed=False))
    yield "numbers", b"".join(frame(example({"n": value})) for value in (INTS(7), FLOATS(2.5), INTS(1, 2)))
    inner = frame(example({"i": INTS(1)}))
    yield "inside", b"".join(frame(example({"k": BYTES(inner * n), "n": INTS(n)})) for n in (3, 0, 5))
    yield "replaced", frame(example({"a": INTS(1)}) + example({"a": BYTES(b"later"), "c": INTS(9)}))
    both = field(1, field(1, b"q")) + field(3, field(1, varint(4))) + field(3, field(1, varint(5) + varint(6)))
    yield "one_of", frame(field(1, field(1, field(1, b"a") + field(2, both))))
    yield "others", frame(field(7, b"unknown") + example({"a": INTS(1)}) + varint(9 << 3) + varint(300) + varint(10 << 3 | 5) + b"four"
                          + varint(11 << 3 | 1) + b"8 bytes!")
    yield "empty", frame(b"") * 3
    yield "wide", frame(example({f"feature/{n}": INTS(n) for n in range(40)}))
    yield "bad_kinds", frame(example({"a": INTS(1)})) + frame(example({"a": BYTES(b"x")}))
    yield "bad_text", frame(b"this is no message at all")
    yield "bad_name", frame(example({"a\0b": INTS(1)}))


def webdataset():
    import tarfile

    def shard(members, format=tarfile.PAX_FORMAT, **headers):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=format, pax_headers=headers) as archive:
            for name, value in members:
                info = tarfile.TarInfo(name)
                if isinstance(value, bytes):
                    info.size = len(value)
                    archive.addfile(info, io.BytesIO(value))
                else:
                    info.type, info.linkname = value.encode(), "x"
                    archive.addfile(info)
        data = out.getvalue()  # with two blocks of zeroes at the end, not twenty
        return data.rstrip(b"\0").ljust((len(data.rstrip(b"\0")) + 511) // 512 * 512 + 1024, b"\0")

    yield "samples", shard([("a.cls", b"1"), ("a.txt", b"x" * 513), ("b.cls", b"2"), ("b.seg.png", b"")])
    yield "ustar", shard([("folder/" * 20 + "a.x", b"1"), ("b.x", b"2")], tarfile.USTAR_FORMAT)
    yield "gnu", shard([("folder/" * 40 + "a.x", b"1"), ("l" * 120, "2"), ("b.x", b"2")], tarfile.GNU_FORMAT)
    yield "pax", shard([("folder/" * 40 + "é.x", b"1"), ("b.x", b"2")], comment="of all")
    yield "others", shard([("d", "5"), ("a.x", b"1"), ("f", "6"), ("none", b"no point"), (".hidden", b"1"), ("q/.h", b"2")])
    big = bytearray(shard([("a.x", b"1"), ("b.y", b"2")], tarfile.GNU_FORMAT))
    big[124:136] = b"\x80" + (1).to_bytes(11, "big")
    big[148:156] = b" " * 8
    big[148:156] = b"%06o\0 " % sum(big[:512])
    yield "binary_number", bytes(big)
    yield "no_end", shard([("a.x", b"1"), ("b.x", b"2")])[:-1024]
    yield "bad_again", shard([("a.x", b"1"), ("b.x", b"2"), ("a.y", b"3")])
    yield "bad_twice", shard([("a.x", b"1"), ("a.x", b"2")])


FORMATS = {"csv": csv, "ipc": ipc, "ipc_file": ipc_file, "json": json_texts, "lines": lines, "parquet": parquet,
           "tfrecord": tfrecord, "webdataset": webdataset}


def main():
    for format in sys.argv[1:] or FORMATS:
        folder = CORPUS / format
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in FORMATS[format]():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
