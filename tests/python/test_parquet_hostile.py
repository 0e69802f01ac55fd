"""Files that lie, and files that are old: made by hand, since no writer makes them any more, or ever did."""
import ctypes
import decimal
import os
import struct

import pyarrow
import pytest

import parquet_probe
from parquet_by_hand import (BIT_PACKED, BYTE_ARRAY, DOUBLE, FIXED, I32, INT32, INT64, OPTIONAL, PLAIN_DICTIONARY,
                             REPEATED, RLE_DICTIONARY, chunk, data_page, dictionary_page, element, file, inner, levels,
                             plain64, runs, texts, thrift)
from parquet_probe import ReadError

GRANT = 64 << 20


@pytest.fixture(scope="session")
def read(weir_build):
    return parquet_probe.Reader(ctypes.CDLL(str(weir_build / os.environ.get("WEIR_PROBE", "libweir_probe.so"))))


@pytest.fixture
def outcome(read, tmp_path):
    """Reads bytes as a file: rows, or the error's text."""
    def call(data, **options):
        path = tmp_path / "hand.parquet"
        path.write_bytes(data)
        try:
            return read(path, grant=GRANT, **options).to_pylist()
        except ReadError as error:
            assert str(path) in str(error)
            return str(error)
    return call


COLUMN = [element("c", INT64)]
THREE = plain64([1, 2, 3])


def one(pages, count=3, elements=COLUMN, **options):
    return file(elements, [chunk(pages, count, **options)], count)


def test_an_honest_file(outcome):
    assert outcome(one([data_page(THREE, 3)])) == [{"c": 1}, {"c": 2}, {"c": 3}]


LIES = {
    "negative size": one([data_page(THREE, 3, size=-1)]),
    "negative uncompressed size": one([data_page(THREE, 3, uncompressed=-1)]),
    "size past the chunk": one([data_page(THREE, 3, size=1 << 30)]),
    "two sizes without compression": one([data_page(THREE, 3, uncompressed=23)]),
    "2 GiB uncompressed": one([data_page(THREE, 3, uncompressed=2**31 - 1)], codec=1),
    "2 GiB, and the chunk says so too": one([data_page(THREE, 3, uncompressed=2**31 - 1)], codec=1,
                                           uncompressed=2**40),
    "nothing compressed": one([data_page(b"", 3, uncompressed=24)], codec=1),
    "nothing compressed, zstd": one([data_page(b"", 3, uncompressed=24)], codec=6, uncompressed=100),
    "negative count": one([data_page(THREE, -3)]),
    "more values than bytes": one([data_page(THREE, 300)], count=300),
    "more values than the chunk": one([data_page(THREE, 4)]),
    "fewer values than the chunk": one([data_page(plain64([1, 2]), 2)]),
    "no page at all": one([]),
    "page of an unknown encoding": one([data_page(THREE, 3, encoding=77)]),
    "delta of a text": one([data_page(THREE, 3, encoding=5)], elements=[element("c", BYTE_ARRAY)], physical=BYTE_ARRAY),
    "codes without a dictionary": one([data_page(b"\1" + runs((3, 0)), 3, encoding=RLE_DICTIONARY)]),
    "code outside the dictionary": one([dictionary_page(plain64([7]), 1),
                                       data_page(b"\1" + runs((3, 1)), 3, encoding=RLE_DICTIONARY)]),
    "dictionary shorter than it says": one([dictionary_page(plain64([7]), 1000),
                                           data_page(b"\1" + runs((3, 0)), 3, encoding=RLE_DICTIONARY)]),
    "two dictionaries": one([dictionary_page(plain64([7]), 1), dictionary_page(plain64([7]), 1), data_page(THREE, 3)]),
    "codes of 33 bits": one([dictionary_page(plain64([7]), 1),
                            data_page(b"\x21" + runs((3, 0), width=33), 3, encoding=RLE_DICTIONARY)]),
    "chunk outside the file": one([data_page(THREE, 3)], _9=10**12),
    "chunk before the file": one([data_page(THREE, 3)], _9=-4),
    "chunk in the magic": one([data_page(THREE, 3)], _9=0),
    "chunk longer than the file": one([data_page(THREE, 3)], _7=10**9),
    "chunk of another type": one([data_page(THREE, 3)], _1=I32(DOUBLE)),
    "unknown codec": one([data_page(THREE, 3)], _4=I32(99)),
    "lzo": one([data_page(THREE, 3)], _4=I32(3)),
    "values do not match rows": file(COLUMN, [chunk([data_page(THREE, 3)], 3)], 4),
    "rows of footer and row group": file(COLUMN, [chunk([data_page(THREE, 3)], 3)], 3, footer_rows=5),
    "negative rows": file(COLUMN, [chunk([data_page(THREE, 3)], -3)], -3),
    "a column too few": file(COLUMN + [element("d", INT64)], [chunk([data_page(THREE, 3)], 3)], 3),
    "a text past its page": one([data_page(texts([b"ab"]) + struct.pack("<I", 10**9), 2)], count=2,
                               elements=[element("c", BYTE_ARRAY)], physical=BYTE_ARRAY),
    "text that is not UTF-8": one([data_page(texts([b"\xff\xfe"]), 1)], count=1, physical=BYTE_ARRAY,
                                 elements=[element("c", BYTE_ARRAY, converted=0)]),
    "levels past the page": one([data_page(struct.pack("<I", 1000) + b"\2\1", 3)],
                               elements=[element("c", INT64, OPTIONAL)]),
    "level above the highest": one([data_page(levels((3, 3), width=2) + THREE, 3)],
                                  elements=[element("c", INT64, OPTIONAL)]),
    "row begins in the middle": one([data_page(levels((3, 1)) + levels((3, 1)) + THREE, 3)], count=3,
                                   elements=[element("c", INT64, REPEATED)]),
    "more children than elements": one([data_page(THREE, 3)], elements=[element("c", children=1 << 30)]),
    "a group without children": one([data_page(THREE, 3)], elements=[element("c")]),
    "a repeated group without children": file(COLUMN + [element("d", children=0, repetition=REPEATED)],
                                              [chunk([data_page(THREE, 3)], 3)], 3),
    "a list of groups without children": file(COLUMN + [element("d", children=1, converted=3), inner(element(
        "list", children=1, repetition=REPEATED)), inner(element("element", children=0))], [chunk([data_page(THREE, 3)], 3)], 3),
    "fixed length of zero": one([data_page(THREE, 3)], elements=[element("c", FIXED, length=0)], physical=FIXED),
    "fixed length below zero": one([data_page(THREE, 3)], elements=[element("c", FIXED, length=-5)], physical=FIXED),
    "decimal of 99 digits": one([data_page(THREE, 3)], elements=[element("c", INT64, converted=5, precision=99)]),
    "encrypted column": file(COLUMN, [chunk([data_page(THREE, 3)], 3)], 3, extra={8: {1: {}}}),
    "column in another file": file(COLUMN, [chunk([data_page(THREE, 3)], 3)], 3, extra={1: "other.parquet"}),
    "footer of 4 GiB": one([data_page(THREE, 3)])[:-8] + struct.pack("<I", 2**32 - 1) + b"PAR1",
    "footer length that wraps": one([data_page(THREE, 3)])[:-8] + struct.pack("<I", 2**32 - 8) + b"PAR1",
    "footer of nothing": one([data_page(THREE, 3)])[:-8] + struct.pack("<I", 0) + b"PAR1",
    "encrypted footer": one([data_page(THREE, 3)])[:-4] + b"PARE",
    "not Parquet at all": b"id,name\n1,x\n" * 20,
    "two magics and nothing else": b"PAR1PAR1",
    "nested structs without end": b"PAR1" + b"\x1c" * 100_000 + struct.pack("<I", 100_000) + b"PAR1",
    "a list of 2^60 elements": b"PAR1" + b"\x29\xfc" + b"\xff" * 8 + b"\x0f" + struct.pack("<I", 11) + b"PAR1",
}


@pytest.mark.parametrize("name", list(LIES))
def test_lies_are_found_out(outcome, name):
    for options in ({}, {"every": 2}):
        result = outcome(LIES[name], **options)
        assert isinstance(result, str), f"{result}"


def test_encrypted_files_are_called_so(outcome):
    assert "encrypted" in outcome(LIES["encrypted footer"])
    assert "encrypted" in outcome(LIES["encrypted column"])


def test_deep_schema(outcome):
    depth = 5000
    elements = [element(f"g{i}", children=1) if i == 0 else inner(element(f"g{i}", children=1)) for i in range(depth)]
    elements.append(inner(element("c", INT64)))
    assert "128 levels" in outcome(one([data_page(THREE, 3)], elements=elements))


def test_many_columns_in_a_small_footer(outcome):
    """A million elements, none with bytes: memory stays below the grant, or it is an error."""
    elements = [element("", INT32)] * 200_000
    result = outcome(file(elements, [chunk([], 0, physical=INT32)], 0))
    assert isinstance(result, str) or result == []


def test_bombs(outcome):
    zeros = bytes(1 << 30)
    for codec, number in (("zstd", 6), ("gzip", 2), ("brotli", 4)):
        body = pyarrow.Codec(codec).compress(zeros, asbytes=True)
        count = len(zeros) // 8
        data = one([data_page(body, count, uncompressed=len(zeros))], count=count, codec=number, uncompressed=len(zeros))
        assert len(data) < 4 << 20
        assert "granted" in outcome(data, rows=(0, 10))


def test_a_billion_rows_in_one_run(read, tmp_path):
    """Nothing is wrong with it, and a reader that takes what it is asked for reads it in no time and no memory."""
    count = 10**9
    data = one([dictionary_page(plain64([7]), 1), data_page(b"\1" + runs((count, 0)), count, encoding=RLE_DICTIONARY)],
               count=count)
    path = tmp_path / "run.parquet"
    path.write_bytes(data)
    assert read(path, rows=(count - 5, count), grant=4 << 20).to_pylist() == [{"c": 7}] * 5


def test_offset_index_that_lies(read, tmp_path):
    """Rows found by a wrong index would be other rows."""
    pages = [data_page(plain64(range(i * 10_000, (i + 1) * 10_000)), 10_000) for i in range(3)]
    offsets = [4, 4 + len(pages[0]), 4 + len(pages[0]) + len(pages[1])]
    for shift, good in ((0, True), (7, False)):
        index = thrift({1: [{1: offset, 2: I32(len(page)), 3: i * 10_000 + (shift if i == 2 else 0)}
                            for i, (offset, page) in enumerate(zip(offsets, pages))]})
        at = 4 + sum(map(len, pages))
        body, fields = chunk(pages, 30_000)
        data = file(COLUMN, [(body + index, {**fields, 7: len(body), 9: 4})], 30_000, extra={4: at, 5: I32(len(index))})
        path = tmp_path / "index.parquet"
        path.write_bytes(data)
        if good:
            assert read(path, rows=(25_000, 25_003)).to_pylist() == [{"c": 25_000 + i} for i in range(3)]
        else:
            with pytest.raises(ReadError, match="offset index"):
                read(path, rows=(25_000, 25_003))
        assert read(path).num_rows == 30_000


# ── old, but true ──

def test_levels_of_bare_bits(outcome):
    """BIT_PACKED levels: no length, most significant bit first."""
    body = bytes([0b10110000]) + plain64([1, 3, 4])
    data = one([data_page(body, 4, levels=BIT_PACKED)], count=4, elements=[element("c", INT64, OPTIONAL)])
    assert outcome(data) == [{"c": 1}, {"c": None}, {"c": 3}, {"c": 4}]


def test_plain_dictionary_without_offset(outcome):
    data = one([dictionary_page(plain64([7, 8]), 2, encoding=PLAIN_DICTIONARY),
                data_page(b"\1" + runs((2, 1), (1, 0)), 3, encoding=PLAIN_DICTIONARY)])
    assert outcome(data) == [{"c": 8}, {"c": 8}, {"c": 7}]


def test_dictionary_of_one_value_without_codes(outcome):
    data = one([dictionary_page(plain64([7]), 1), data_page(b"\0", 3, encoding=RLE_DICTIONARY)])
    assert outcome(data) == [{"c": 7}] * 3


def test_two_level_lists(outcome):
    leaf = data_page(levels((1, 0), (1, 1), (2, 0)) + levels((2, 2), (1, 1), (1, 0), width=2) + plain64([1, 2]), 4)
    elements = [element("c", children=1, repetition=OPTIONAL, converted=3), inner(element("item", INT64, REPEATED))]
    data = file(elements, [chunk([leaf], 4)], 3)
    assert outcome(data) == [{"c": [1, 2]}, {"c": []}, {"c": None}]


def test_a_list_of_structs_named_array(outcome):
    elements = [element("c", children=1, converted=3), inner(element("array", children=1, repetition=REPEATED)),
                inner(element("x", INT64))]
    leaf = data_page(levels((1, 0), (1, 1)) + levels((2, 1)) + plain64([1, 2]), 2)
    assert outcome(file(elements, [chunk([leaf], 2)], 1)) == [{"c": [{"x": 1}, {"x": 2}]}]


def test_repeated_without_annotation(outcome):
    leaf = data_page(levels((1, 0), (1, 1), (1, 0)) + levels((2, 1), (1, 0)) + plain64([1, 2]), 3)
    assert outcome(file([element("c", INT64, REPEATED)], [chunk([leaf], 3)], 2)) == [{"c": [1, 2]}, {"c": []}]


def test_decimals_of_any_length(outcome):
    body = texts([b"\x01", b"\xff", b"\x7f\xff\xff", b"\x00" * 20 + b"\x05", b"\xff" * 30])
    elements = [element("c", BYTE_ARRAY, converted=5, precision=38, scale=2)]
    data = one([data_page(body, 5)], count=5, elements=elements, physical=BYTE_ARRAY)
    assert [row["c"] for row in outcome(data)] == [decimal.Decimal(v).scaleb(-2) for v in (1, -1, 0x7FFFFF, 5, -1)]
    body = texts([b"\x01" + b"\x00" * 16])
    data = one([data_page(body, 1)], count=1, elements=elements, physical=BYTE_ARRAY)
    assert "too large" in outcome(data)


def test_hadoop_lz4(outcome):
    block = pyarrow.Codec("lz4_raw").compress(THREE * 50, asbytes=True)
    body = struct.pack(">II", len(THREE) * 50, len(block)) + block
    data = one([data_page(body, 150, uncompressed=len(THREE) * 50)], count=150, codec=5, uncompressed=10_000)
    assert outcome(data) == [{"c": 1}, {"c": 2}, {"c": 3}] * 50


@pytest.mark.parametrize("codec, number", [("snappy", 1), ("gzip", 2), ("brotli", 4), ("zstd", 6), ("lz4_raw", 7)])
def test_a_chunk_that_says_its_compressed_size_twice(outcome, codec, number):
    """Some writers do; the pages know better."""
    body = pyarrow.Codec(codec).compress(THREE * 1000, asbytes=True)
    data = one([data_page(body, 3000, uncompressed=len(THREE) * 1000)], count=3000, codec=number, uncompressed=len(body))
    assert outcome(data) == [{"c": 1}, {"c": 2}, {"c": 3}] * 1000


def test_empty_pages_between(outcome):
    data = one([data_page(b"", 0), data_page(plain64([1]), 1), data_page(b"", 0), data_page(plain64([2, 3]), 2)])
    assert outcome(data) == [{"c": 1}, {"c": 2}, {"c": 3}]


def test_unknown_pages_are_passed_over(outcome):
    unknown = thrift({1: I32(1), 2: I32(5), 3: I32(5), 6: {}}) + b"12345"
    assert outcome(one([unknown, data_page(THREE, 3)])) == [{"c": 1}, {"c": 2}, {"c": 3}]


