"""Random columns of many rows, from a seed: what hypothesis is too slow to draw value by value.

Values repeat, run, rise, and take the extremes of their type, so that dictionaries, runs, deltas and statistics all have
something to get wrong.
"""
import decimal

import numpy as np
import pyarrow as pa

WORDS = ["", "a", "b", "Zürich", "ﬂ", "日本語", "x" * 40, "\U0001f600", "prefix-1", "prefix-2", "prefix-22", "\x7f"]

UNITS = ("s", "ms", "us", "ns")

LEAVES = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"),
    pa.time64("us"), pa.time64("ns"), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(1),
    pa.binary(5), pa.binary(16), pa.decimal128(5, 2), pa.decimal128(9, 0), pa.decimal128(18, 4), pa.decimal128(38, 10),
    pa.decimal256(50, 3), pa.decimal256(76, 0), pa.null(),
    *[pa.timestamp(unit, zone) for unit in UNITS for zone in (None, "UTC", "Europe/Zurich")],
    *[pa.duration(unit) for unit in UNITS],
]

NESTED = [
    pa.list_(pa.int64()), pa.large_list(pa.string()), pa.list_(pa.float32(), 3),
    pa.struct([("a", pa.int32()), ("b", pa.string())]), pa.map_(pa.string(), pa.int64()),
    pa.list_(pa.list_(pa.list_(pa.int16()))), pa.list_(pa.struct([("x", pa.float64()), ("y", pa.list_(pa.string()))])),
    pa.struct([("s", pa.struct([("l", pa.list_(pa.bool_())), ("m", pa.map_(pa.int32(), pa.list_(pa.date32())))]))]),
    pa.list_(pa.field("item", pa.int32(), nullable=False)),
    pa.struct([pa.field("n", pa.int64(), nullable=False), pa.field("t", pa.timestamp("us", "UTC"))]),
    pa.list_(pa.decimal128(20, 2)), pa.list_(pa.binary(3)),
]

DICTIONARIES = [pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.int64()),
                pa.dictionary(pa.int16(), pa.decimal128(9, 2))]

INSIDE = [
    pa.list_(pa.dictionary(pa.int32(), pa.string())), pa.large_list(pa.dictionary(pa.uint8(), pa.large_string(), True)),
    pa.list_(pa.dictionary(pa.int8(), pa.string()), 2), pa.map_(pa.string(), pa.dictionary(pa.int16(), pa.binary())),
    pa.struct([("a", pa.dictionary(pa.int8(), pa.string(), True)), ("b", pa.dictionary(pa.int64(), pa.float64())),
               ("c", pa.list_(pa.struct([("d", pa.dictionary(pa.uint16(), pa.date32())), ("e", pa.int8())])))]),
    pa.list_(pa.dictionary(pa.int8(), pa.bool_())), pa.list_(pa.dictionary(pa.int32(), pa.decimal128(9, 2))),
    pa.list_(pa.dictionary(pa.int32(), pa.timestamp("s", "UTC"))),
    pa.list_(pa.null()), pa.struct([("n", pa.null()), ("i", pa.int32())]), pa.map_(pa.string(), pa.list_(pa.null())),
]


def _integers(rng, count, low, high):
    """Python ints in [low, high]: constant, rising, few, or anything."""
    shape = rng.integers(0, 5)
    if shape == 0:
        return [int(rng.integers(low, high, endpoint=True, dtype=np.int64 if low < 0 else np.uint64))] * count
    if shape == 1:
        step = int(rng.integers(0, 3))
        at = max(low, min(0, high - step * count))
        return [min(high, at + step * i) for i in range(count)]
    dtype = np.int64 if low < 0 else np.uint64
    if shape == 2:
        few = rng.integers(low, high, 7, endpoint=True, dtype=dtype)
        return [int(v) for v in rng.choice(few, count)]
    if shape == 3:
        few = np.array([low, high, 0 if low <= 0 else low, min(high, 1)], dtype)
        return [int(v) for v in rng.choice(few, count)]
    return [int(v) for v in rng.integers(low, high, count, endpoint=True, dtype=dtype)]


def _values(rng, type, count):
    if pa.types.is_boolean(type):
        return [bool(v) for v in rng.integers(0, 2, count)]
    if pa.types.is_integer(type):
        bits = type.bit_width
        if pa.types.is_signed_integer(type):
            return _integers(rng, count, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        return _integers(rng, count, 0, (1 << bits) - 1)
    if pa.types.is_floating(type):
        dtype = {16: np.float16, 32: np.float32, 64: np.float64}[type.bit_width]
        few = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -2.25, float(np.finfo(dtype).max),
                        float(np.finfo(dtype).tiny)], dtype)
        if rng.integers(0, 2):
            return rng.choice(few, count)
        return (rng.standard_normal(count) * 100).astype(dtype)
    if pa.types.is_decimal(type):
        limit = 10 ** type.precision - 1
        context = decimal.Context(prec=100)
        few = [0, 1, -1, limit, -limit] + [int(rng.integers(-(1 << 62), 1 << 62)) * 7 ** 20 % limit for _ in range(20)]
        return [decimal.Decimal(few[i]).scaleb(-type.scale, context) for i in rng.integers(0, len(few), count)]
    if pa.types.is_fixed_size_binary(type):
        few = [rng.bytes(type.byte_width) for _ in range(30)]
        return [few[i] for i in rng.integers(0, 30, count)]
    if type in (pa.string(), pa.large_string()):
        if rng.integers(0, 2):
            return [WORDS[i] for i in rng.integers(0, len(WORDS), count)]
        return [f"row {i} {WORDS[i % len(WORDS)]}" for i in range(count)]
    if type in (pa.binary(), pa.large_binary()):
        return [rng.bytes(int(n)) for n in rng.integers(0, 12, count)]
    raise AssertionError(type)


def _mask(rng, count, nullable):
    share = [0.0, 0.1, 0.5, 0.97, 1.0][rng.integers(0, 5)] if nullable else 0.0
    if rng.integers(0, 2):
        return rng.random(count) < share
    # Runs of nulls.
    return np.repeat(rng.random(count // 50 + 1) < share, 50)[:count]


def column(rng, type, count, nullable=True):
    """An array of `count` rows."""
    if pa.types.is_null(type):
        return pa.nulls(count)
    mask = _mask(rng, count, nullable)
    if pa.types.is_dictionary(type):
        size = int(rng.integers(1, 20))
        values = column(rng, type.value_type, size, False)
        codes = pa.array(rng.integers(0, size, count), type.index_type, mask=mask)
        return pa.DictionaryArray.from_arrays(codes, values, ordered=type.ordered)
    if pa.types.is_struct(type):
        children = [column(rng, f.type, count, f.nullable) for f in type]
        return pa.StructArray.from_arrays(children, fields=list(type), mask=pa.array(mask))
    if pa.types.is_fixed_size_list(type):
        child = column(rng, type.value_type, count * type.list_size, type.value_field.nullable)
        return pa.FixedSizeListArray.from_arrays(child, type=type, mask=pa.array(mask))
    if pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_map(type):
        longest = int([1, 3, 3, 8][rng.integers(0, 4)])
        sizes = rng.integers(0, longest, count, endpoint=True)
        if count and rng.integers(0, 4) == 0:
            sizes[int(rng.integers(0, count))] = 500  # a row over several pages
        sizes[mask] = 0
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        number = pa.int64() if pa.types.is_large_list(type) else pa.int32()
        validity = pa.array(~mask)
        bits = validity.buffers()[1] if mask.any() else None
        total = int(offsets[-1])
        if pa.types.is_map(type):
            entries = pa.StructArray.from_arrays([column(rng, type.key_type, total, False),
                                                  column(rng, type.item_type, total)],
                                                 fields=[type.key_field, type.item_field])
            child = entries
        else:
            child = column(rng, type.value_type, total, type.value_field.nullable)
        return pa.Array.from_buffers(type, count, [bits, pa.array(offsets, number).buffers()[1]], children=[child])
    if pa.types.is_temporal(type):
        storage = pa.int32() if type.bit_width == 32 else pa.int64()
        if pa.types.is_date32(type):
            numbers = _integers(rng, count, -700000, 700000)
        elif pa.types.is_date64(type):
            numbers = [d * 86400000 for d in _integers(rng, count, -700000, 700000)]
        elif pa.types.is_time(type):
            scale = {"s": 1, "ms": 10 ** 3, "us": 10 ** 6, "ns": 10 ** 9}[type.unit]
            numbers = _integers(rng, count, 0, 86400 * scale - 1)
        else:
            # 200 years either way: what every library's clock holds.
            most = 6_300_000_000 * {"s": 1, "ms": 10 ** 3, "us": 10 ** 6, "ns": 10 ** 9}[type.unit]
            numbers = _integers(rng, count, -most, most)
        return pa.array(numbers, storage, mask=mask).view(type)
    return pa.array(_values(rng, type, count), type, mask=mask)


def table(rng, types, count):
    return pa.table({f"c{i}": column(rng, type, count) for i, type in enumerate(types)})


def random_type(rng, depth=3):
    pick = int(rng.integers(0, 10))
    if depth == 0 or pick < 5:
        return LEAVES[rng.integers(0, len(LEAVES))]
    if pick == 5:
        return DICTIONARIES[rng.integers(0, len(DICTIONARIES))]
    child = random_type(rng, depth - 1)
    if pick == 6:
        return pa.list_(child)
    if pick == 7:
        return pa.struct([("f", child), ("g", random_type(rng, depth - 1))])
    if pick == 8:
        return pa.map_(pa.string(), child)
    return pa.large_list(child)
