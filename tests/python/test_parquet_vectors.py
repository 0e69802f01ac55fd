"""Lists of one length, which go from the file straight to where they stay, and whatever makes them not do so."""
import base64
import ctypes
import os
import random
import struct

import numpy
import pyarrow
import pyarrow.parquet
import pytest

import parquet_probe
from parquet_by_hand import (INT64, OPTIONAL, REPEATED, chunk, data_page, element, encode, file, inner, levels, plain64,
                             varint)
from parquet_probe import ReadError

TYPES = [pyarrow.float32(), pyarrow.float64(), pyarrow.int64(), pyarrow.int8(), pyarrow.uint16(), pyarrow.float16(),
         pyarrow.decimal128(9, 2), pyarrow.timestamp("s"), pyarrow.binary(3), pyarrow.bool_()]


@pytest.fixture(scope="session")
def read(weir_build):
    return parquet_probe.Reader(ctypes.CDLL(str(weir_build / os.environ.get("WEIR_PROBE", "libweir_probe.so"))))


def values_of(kind, count, rng):
    if pyarrow.types.is_fixed_size_binary(kind) and not pyarrow.types.is_decimal(kind):
        return pyarrow.array([rng.randbytes(kind.byte_width) for _ in range(count)], kind)
    if kind == pyarrow.bool_():
        return pyarrow.array([rng.random() < 0.5 for _ in range(count)])
    if kind == pyarrow.float16():
        return pyarrow.array(numpy.array([rng.random() for _ in range(count)], numpy.float16))
    few = rng.random() < 0.3  # a dictionary is worth it then
    numbers = [rng.randrange(5 if few else 100) for _ in range(count)]
    return pyarrow.array(numbers, pyarrow.int64()).cast(pyarrow.decimal128(19, 0)).cast(kind) \
        if pyarrow.types.is_decimal(kind) else pyarrow.array(numbers, pyarrow.int64()).cast(kind)


def vectors(kind, size, rows, rng, nulls=""):
    """Lists of `size`; nulls: "lists", "values" or none."""
    items = values_of(kind, rows * size, rng)
    if nulls == "values":
        mask = numpy.array([rng.random() < 0.001 for _ in range(len(items))], bool)
        items = pyarrow.compute.if_else(pyarrow.array(mask), pyarrow.scalar(None, kind), items)
    mask = pyarrow.array([rng.random() < 0.01 for _ in range(rows)]) if nulls == "lists" else None
    return pyarrow.FixedSizeListArray.from_arrays(items, size, mask=mask)


def same(got, want):
    for name in want.column_names:
        a, b = got[name].combine_chunks(), want[name].combine_chunks()
        assert a.type == b.type
        assert a.equals(b), f"{name}: {a.type}"


def checked(read, path, table, rng):
    same(read(path), table)
    part, mix, every = rng.randrange(1, 3000), rng.randrange(1, 4), rng.randrange(2, 9)
    same(read(path, part=part), table)
    same(read(path, every=every, phase=1), table.take(pyarrow.array(range(1, len(table), every), pyarrow.int64())))
    begin = rng.randrange(len(table) + 1)
    end = rng.randrange(begin, len(table) + 1)
    if end > begin:
        same(read(path, rows=(begin, end), part=part), table.slice(begin, end - begin))
    if "i" in table.column_names:
        for p in (0, part):
            mixed = read(path, mix=mix, part=p)
            assert len(mixed) >= len(table) // 2
            same(mixed, table.take(mixed["i"]))


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(60))
def test_random_vectors(read, tmp_path, seed):
    rng = random.Random(seed)
    print("seed", seed)
    kind, size = rng.choice(TYPES), rng.choice([1, 2, 3, 7, 8, 9, 63, 64, 65, 256, 1000])
    rows = rng.randrange(1, max(2, 200_000 // size))
    table = pyarrow.table({"v": vectors(kind, size, rows, rng, rng.choice(["", "", "", "lists", "values"])),
                           "i": pyarrow.array(range(rows), pyarrow.int64()),
                           "w": vectors(rng.choice(TYPES), rng.choice([1, 2, 5]), rows, rng)})
    options = {"compression": rng.choice(["none", "none", "snappy", "zstd"]), "use_dictionary": rng.random() < 0.3,
               "data_page_version": rng.choice(["1.0", "2.0"]), "row_group_size": rng.choice([rows, rows // 3 + 1, 20_000]),
               "data_page_size": rng.choice([1 << 20, 1 << 17, 70_000, 5000]), "write_page_index": rng.random() < 0.5,
               "write_page_checksum": rng.random() < 0.2, "write_batch_size": rng.choice([1024, 50, 7])}
    if not options["use_dictionary"] and kind in (pyarrow.float32(), pyarrow.float64()) and rng.random() < 0.4:
        options["column_encoding"] = {"v.list.element": "BYTE_STREAM_SPLIT"}
    print(kind, size, rows, options)
    path = tmp_path / "v.parquet"
    pyarrow.parquet.write_table(table, path, **options)
    checked(read, path, table, rng)


def stretches(kind, rows, rng, large):
    """Lists of one length for a while, then of another; some nulls and empty ones, or none."""
    lengths, odd = [], rng.choice([0, 0, 0.0005, 0.05])
    while len(lengths) < rows:
        size = rng.choice([1, 2, 3, 8, 9, 64, 200])
        lengths += [size if rng.random() >= odd else rng.choice([0, 1, size + 1, None])
                    for _ in range(min(rows - len(lengths), rng.choice([1, 100, 5000, 100_000])))]
    offsets = numpy.concatenate([[0], numpy.cumsum([n or 0 for n in lengths])])
    items = values_of(kind, int(offsets[-1]), rng)
    if odd and rng.random() < 0.3:
        mask = pyarrow.array([rng.random() < 0.0005 for _ in range(len(items))])
        items = pyarrow.compute.if_else(mask, pyarrow.scalar(None, kind), items)
    mask = pyarrow.array([n is None for n in lengths])
    made = pyarrow.LargeListArray if large else pyarrow.ListArray
    return made.from_arrays(pyarrow.array(offsets, pyarrow.int64() if large else pyarrow.int32()), items, mask=mask)


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(60))
def test_random_lists(read, tmp_path, seed):
    rng = random.Random(seed)
    print("seed", seed)
    rows = rng.choice([1, 100, 1000, 8000])
    kind = rng.choice(TYPES)
    table = pyarrow.table({"v": stretches(kind, rows, rng, rng.random() < 0.3),
                           "i": pyarrow.array(range(rows), pyarrow.int64()),
                           "w": stretches(pyarrow.float32(), rows, rng, False)})
    options = {"compression": rng.choice(["none", "none", "snappy", "zstd"]), "use_dictionary": rng.random() < 0.3,
               "data_page_version": rng.choice(["1.0", "2.0"]), "row_group_size": rng.choice([rows, rows // 3 + 1]),
               "data_page_size": rng.choice([1 << 20, 1 << 17, 70_000, 5000]), "write_page_index": rng.random() < 0.5,
               "write_batch_size": rng.choice([1024, 50, 7])}
    print(kind, rows, options)
    path = tmp_path / "v.parquet"
    pyarrow.parquet.write_table(table, path, **options)
    checked(read, path, table, rng)


def test_large_rows(read, tmp_path):
    """A vector of one row, pages of one row, chunks of few."""
    rng = random.Random(1)
    items = numpy.random.default_rng(1).random(12 * 400_000, dtype=numpy.float32)
    table = pyarrow.table({"v": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(items), 400_000)})
    path = tmp_path / "v.parquet"
    for codec in ("none", "zstd"):
        pyarrow.parquet.write_table(table, path, compression=codec, use_dictionary=False, row_group_size=5)
        same(read(path), table)
        same(read(path, grant=16 << 20), table)  # little memory: the usual way
        checked(read, path, table, rng)


def test_levels_are_not_read_value_by_value_into_memory(read, tmp_path):
    """The point of it: the reader holds levels and a window, and no values."""
    items = numpy.random.default_rng(1).random(256 * 8000, dtype=numpy.float32)
    table = pyarrow.table({"v": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(items), 256)})
    path = tmp_path / "v.parquet"
    pyarrow.parquet.write_table(table, path, compression="none", use_dictionary=False)
    same(read(path), table)
    assert read.peak < 700_000, read.peak


# ---- files that lie ----

ROWS, SIZE = 5000, 4
NUMBERS = list(range(ROWS * SIZE))


def lists_file(repetition, definition, values=NUMBERS, count=None, rows=ROWS, pages=None, nullable=False, fixed=True):
    """Lists of four int64, as ARROW:schema says (or does not say), with levels of the caller's."""
    kind = pyarrow.list_(pyarrow.field("element", pyarrow.int64(), nullable), SIZE)
    schema = pyarrow.schema([pyarrow.field("c", kind, nullable)])
    text = base64.b64encode(schema.serialize().to_pybytes()).decode()
    repeated = OPTIONAL if nullable else 0
    elements = [element("c", children=1, repetition=repeated, converted=3),
                inner(element("list", children=1, repetition=REPEATED)), inner(element("element", INT64, repeated))]
    count = len(values) if count is None else count
    pages = pages or [data_page(repetition + definition + plain64(values), count)]
    total = count if len(pages) == 1 else len(NUMBERS)
    return file(elements, [chunk(pages, total)], rows,
                change=lambda footer: footer[:-1] + b"\x19" + encode([{1: "ARROW:schema", 2: text}]) + b"\0" if fixed
                else footer)


def repetition(lengths):
    return levels(*[run for n in lengths for run in ((1, 0), (n - 1, 1)) if run[0]])


def packed(lengths, cut=0):
    """The same as one packed run."""
    bits = [int(i > 0) for n in lengths for i in range(n)]
    bits += [1] * (-len(bits) % 8)
    body = bytes(sum(b << i for i, b in enumerate(bits[at:at + 8])) for at in range(0, len(bits), 8))
    body = varint(len(body) << 1 | 1) + body[:len(body) - cut]
    return struct.pack("<I", len(body)) + body


EVEN, ALL = [SIZE] * ROWS, levels((ROWS * SIZE, 1))


@pytest.fixture
def outcome(read, tmp_path):
    def call(data, **options):
        path = tmp_path / "hand.parquet"
        path.write_bytes(data)
        try:
            return read(path, grant=64 << 20, **options)["c"].to_pylist()
        except ReadError as error:
            assert str(path) in str(error)
            return str(error)
    return call


@pytest.mark.parametrize("make", [repetition, packed])
def test_honest_lists(outcome, make):
    for options in ({}, {"part": 7}, {"mix": 2, "part": 33}):
        got = outcome(lists_file(make(EVEN), ALL), **options)
        assert isinstance(got, list), got
    assert outcome(lists_file(make(EVEN), ALL)) == [NUMBERS[i:i + SIZE] for i in range(0, len(NUMBERS), SIZE)]
    # Small pages, a row that goes on in the next page (the usual way), pages of any number of rows.
    for cuts in ([0, 4, 8, 20000], [0, 2, 20000], [0, 4000, 4001, 20000], [0, 16000, 20000]):
        pages = [data_page(levels(*[(1, int(i % SIZE > 0)) for i in range(a, b)]) + levels((b - a, 1)) +
                           plain64(NUMBERS[a:b]), b - a) for a, b in zip(cuts, cuts[1:])]
        for fixed in (True, False):
            got = outcome(lists_file(b"", b"", pages=pages, fixed=fixed))
            assert got == [NUMBERS[i:i + SIZE] for i in range(0, len(NUMBERS), SIZE)], cuts


def test_a_list_goes_on_in_the_next_page(outcome):
    """The first page is lists of four and nothing else, but the last of them has not ended."""
    for more in (1, 4, 5000):
        pages = [data_page(repetition(EVEN[:4000]) + levels((16000, 1)) + plain64(NUMBERS[:16000]), 16000),
                 data_page(levels((more, 1), (4000 - more, 0)) + levels((4000, 1)) + plain64(NUMBERS[16000:]), 4000)] \
            if more < 4000 else [
                data_page(repetition(EVEN[:4000]) + levels((16000, 1)) + plain64(NUMBERS[:16000]), 16000),
                data_page(levels((4000, 1)) + levels((4000, 1)) + plain64(NUMBERS[16000:]), 4000)]
        rows = 4000 + (4000 - more if more < 4000 else 0)
        want = [NUMBERS[i:i + 4] for i in range(0, 15996, 4)] + [NUMBERS[15996:16000 + min(more, 4000)]]
        want += [[n] for n in NUMBERS[16000 + more:]] if more < 4000 else []
        for options in ({}, {"part": 100}):
            assert outcome(lists_file(b"", b"", pages=pages, fixed=False, rows=rows), **options) == want, more


@pytest.mark.parametrize("make", [repetition, packed])
@pytest.mark.parametrize("at", [0, 1, 2500, ROWS - 1])
def test_lists_of_another_length(outcome, make, at):
    longer = EVEN[:at] + [SIZE + 1] + EVEN[at + 1:]
    shorter = EVEN[:at] + [SIZE - 1] + EVEN[at + 1:]
    shifted = EVEN[:at] + [SIZE + 1, SIZE - 1] + EVEN[at + 2:] if at + 2 <= ROWS else longer
    for lengths in (longer, shorter, shifted):
        count = sum(lengths)
        values = list(range(count))
        for options in ({}, {"part": 11}):
            got = outcome(lists_file(make(lengths), levels((count, 1)), values), **options)
            assert isinstance(got, str) and "different numbers" in got, got


def test_other_lies(outcome):
    lies = {
        "too few values": lists_file(repetition(EVEN), ALL, NUMBERS[:-1], count=len(NUMBERS)),
        "no values": lists_file(repetition(EVEN), ALL, [], count=len(NUMBERS)),
        "cut packed run": lists_file(packed(EVEN, cut=5), ALL),
        "cut run": lists_file(levels((1, 0), (3, 1)), ALL),
        "levels longer than the page": lists_file(struct.pack("<I", 10**9) + repetition(EVEN)[4:], ALL),
        "definition too short": lists_file(repetition(EVEN), levels((ROWS, 1))),
        "definition of nothing": lists_file(repetition(EVEN), levels((ROWS * SIZE, 0))),
        "one that is not there": lists_file(repetition(EVEN), levels((ROWS * SIZE - 1, 1), (1, 0)), NUMBERS),
        "a level above the highest": lists_file(repetition(EVEN), levels((ROWS * SIZE - 1, 1), (1, 3))),
        "a run without end": lists_file(struct.pack("<I", 6) + b"\xff" * 6, ALL),
        "rows that are not there": lists_file(repetition(EVEN), ALL, rows=ROWS + 1),
        "begins in the middle": lists_file(levels((ROWS * SIZE, 1)), ALL),
        "all begin": lists_file(levels((ROWS * SIZE, 0)), ALL),
        "nothing at all": lists_file(b"", b"", []),
        "next page goes on": lists_file(b"", b"", pages=[
            data_page(repetition(EVEN[:4000]) + levels((16000, 1)) + plain64(NUMBERS[:16000]), 16000),
            data_page(levels((4000, 1)) + levels((4000, 1)) + plain64(NUMBERS[16000:]), 4000)]),
    }
    for name, data in lies.items():
        for options in ({}, {"part": 100}, {"mix": 2}):
            got = outcome(data, **options)
            assert isinstance(got, str), (name, options)


def test_lies_about_lists_of_any_length(outcome):
    lies = {
        "too few values": lists_file(repetition(EVEN), ALL, NUMBERS[:-1], count=len(NUMBERS), fixed=False),
        "cut packed run": lists_file(packed(EVEN, cut=5), ALL, fixed=False),
        "cut run": lists_file(levels((1, 0), (3, 1)), ALL, fixed=False),
        "definition too short": lists_file(repetition(EVEN), levels((ROWS, 1)), fixed=False),
        "rows that are not there": lists_file(repetition(EVEN), ALL, rows=ROWS + 1, fixed=False),
        "begins in the middle": lists_file(levels((ROWS * SIZE, 1)), ALL, fixed=False),
    }
    for name, data in lies.items():
        for options in ({}, {"part": 100}, {"mix": 2}):
            assert isinstance(outcome(data, **options), str), (name, options)


def test_nulls_come_the_usual_way(outcome):
    for at in (0, 1, 3000, ROWS - 1):
        flat = [3] * (ROWS * SIZE)
        flat[at * SIZE + 1] = 2
        body = levels(*[(1, d) for d in flat], width=2)
        values = NUMBERS[:-1]
        got = outcome(lists_file(repetition(EVEN), body, values, count=len(NUMBERS), nullable=True), part=50)
        assert got[at][1] is None and sum(v is None for row in got for v in row) == 1
        rest = [v for row in got for v in row if v is not None]
        assert rest == values
