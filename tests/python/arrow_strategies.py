"""Random Arrow types and arrays for hypothesis.

A type is drawn first, then Python values for it, and pyarrow builds the array; where pyarrow has no builder (run-end
encoding, dictionaries with unused values, map slices) it is put together from parts. Sliced arrays, arrays with garbage
under their nulls and chunks with an offset in a child come from slicing what was built.
"""
import decimal
import math

import pyarrow as pa
from hypothesis import strategies as st

UNITS = ["s", "ms", "us", "ns"]
ZONES = [None, "UTC", "Europe/Paris", "+05:30"]

plain_types = st.one_of(
    st.sampled_from([
        pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
        pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.binary(),
        pa.large_binary(), pa.string(), pa.large_string(), pa.month_day_nano_interval(), pa.time32("s"),
        pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.binary(0), pa.binary(1), pa.binary(7), pa.binary(16)]),
    st.builds(pa.timestamp, st.sampled_from(UNITS), st.sampled_from(ZONES)),
    st.builds(pa.duration, st.sampled_from(UNITS)),
    st.integers(1, 38).flatmap(lambda p: st.builds(pa.decimal128, st.just(p), st.integers(-3, p))),
    st.integers(1, 76).flatmap(lambda p: st.builds(pa.decimal256, st.just(p), st.integers(-3, p))),
)

# Accepted on import, and given back as what they stand for.
view_types = st.sampled_from([pa.string_view(), pa.binary_view()])
narrow_decimals = st.one_of(
    st.integers(1, 9).flatmap(lambda p: st.builds(pa.decimal32, st.just(p), st.integers(0, p))),
    st.integers(1, 18).flatmap(lambda p: st.builds(pa.decimal64, st.just(p), st.integers(0, p))))

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)

dictionary_values = st.sampled_from([pa.string(), pa.int64(), pa.large_binary(), pa.float64(), pa.date32(), pa.bool_(),
                                     pa.binary(3), pa.decimal128(9, 2)])
dictionary_types = st.builds(lambda index, value, ordered: pa.dictionary(index, value, ordered),
                             st.sampled_from([pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32()]),
                             dictionary_values, st.booleans())


def _fields(types):
    return st.builds(lambda name, type, nullable: pa.field(name, type, nullable or type == pa.null()), names, types,
                     st.booleans())


def _nested(types, imports):
    fields = _fields(types)
    kinds = [
        st.builds(pa.list_, fields),
        st.builds(pa.large_list, fields),
        st.builds(pa.list_, fields, st.integers(0, 3)),
        st.lists(fields, max_size=3, unique_by=lambda f: f.name).map(pa.struct),
        st.builds(lambda key, value, ordered: pa.map_(key, value, ordered),
                  st.sampled_from([pa.string(), pa.int32(), pa.date32()]), types, st.booleans()),
    ]
    if imports:
        kinds += [st.builds(pa.list_view, types), st.builds(pa.large_list_view, types),
                  st.builds(pa.run_end_encoded, st.sampled_from([pa.int16(), pa.int32(), pa.int64()]),
                            types.filter(lambda t: not pa.types.is_run_end_encoded(t)))]
    return st.one_of(kinds)


def types(depth=4, imports=False):
    """Types nested up to `depth` levels; `imports`: those that come in converted too."""
    leaves = st.one_of(plain_types, dictionary_types)
    if imports:
        leaves = st.one_of(leaves, view_types, narrow_decimals)
    result = leaves
    for _ in range(depth - 1):
        result = st.one_of(leaves, _nested(result, imports))
    return result


def _integers(type):
    bits = type.bit_width
    if pa.types.is_signed_integer(type):
        return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return st.integers(0, (1 << bits) - 1)


def _decimals(type):
    # pyarrow writes the zeros of a negative scale out before it drops them: they must fit, too.
    digits = min(type.precision, (76 if pa.types.is_decimal256(type) else 38) + min(type.scale, 0))
    limit = 10 ** digits - 1
    return st.integers(-limit, limit).map(lambda n: decimal.Decimal(n).scaleb(-type.scale, _WIDE))


_WIDE = decimal.Context(prec=100)

texts = st.text(st.characters(codec="utf-8"), max_size=20)
blobs = st.binary(max_size=20)
_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def _storage_of_temporal(type):
    """The integer type behind a temporal one, and the integers that are legal in it."""
    if pa.types.is_date32(type):
        return pa.int32(), st.integers(-700000, 700000)
    if pa.types.is_date64(type):
        return pa.int64(), st.integers(-700000, 700000).map(lambda d: d * 86400000)
    if pa.types.is_time(type):
        scale = {"s": 1, "ms": 10 ** 3, "us": 10 ** 6, "ns": 10 ** 9}[type.unit]
        return (pa.int32() if type.bit_width == 32 else pa.int64()), st.integers(0, 86400 * scale - 1)
    return pa.int64(), _INT64


def values(type, nullable=True):
    """Python values that pa.array(…, type) understands, for a leaf type without a part-wise form."""
    if pa.types.is_null(type):
        return st.none()
    if pa.types.is_boolean(type):
        result = st.booleans()
    elif pa.types.is_integer(type):
        result = _integers(type)
    elif pa.types.is_float16(type):
        result = st.floats(width=16)
    elif pa.types.is_float32(type):
        result = st.floats(width=32)
    elif pa.types.is_float64(type):
        result = st.floats()
    elif pa.types.is_decimal(type):
        result = _decimals(type)
    elif pa.types.is_fixed_size_binary(type):
        result = st.binary(min_size=type.byte_width, max_size=type.byte_width)
    elif pa.types.is_interval(type):
        result = st.builds(lambda m, d, n: pa.MonthDayNano([m, d, n]), st.integers(-9999, 9999),
                           st.integers(-9999, 9999), _INT64)
    elif type in (pa.string(), pa.large_string(), pa.string_view()):
        result = texts
    elif type in (pa.binary(), pa.large_binary(), pa.binary_view()):
        result = blobs
    else:
        raise AssertionError(type)
    return st.one_of(st.none(), result) if nullable else result


def _is_part_wise(type):
    return (pa.types.is_nested(type) or pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type) or
            (pa.types.is_temporal(type) and not pa.types.is_interval(type)))


@st.composite
def _masks(draw, length, nullable):
    """A list of 'is null', or None."""
    if not nullable or draw(st.booleans()):
        return None
    return draw(st.lists(st.booleans(), min_size=length, max_size=length))


def _bitmap(mask):
    bits = bytearray((len(mask) + 7) // 8)
    for at, null in enumerate(mask):
        if not null:
            bits[at // 8] |= 1 << at % 8
    return pa.py_buffer(bytes(bits))


@st.composite
def _sizes(draw, length):
    return draw(st.lists(st.integers(0, 3), min_size=length, max_size=length))


@st.composite
def exact_arrays(draw, type, length, nullable=True):
    """An array of the type and length. Nulls only where `nullable`; what lies under them is anything."""
    if not _is_part_wise(type):
        return pa.array(draw(st.lists(values(type, nullable), min_size=length, max_size=length)), type)
    if pa.types.is_temporal(type):
        storage, numbers = _storage_of_temporal(type)
        if nullable:
            numbers = st.one_of(st.none(), numbers)
        return pa.array(draw(st.lists(numbers, min_size=length, max_size=length)), storage).view(type)
    if pa.types.is_dictionary(type):
        count = draw(st.integers(0 if nullable or not length else 1, 5))
        dictionary = draw(exact_arrays(type.value_type, count, draw(st.booleans())))
        codes = st.integers(0, count - 1) if count else st.nothing()
        codes = st.one_of(st.none(), codes) if nullable else codes
        indices = pa.array(draw(st.lists(codes, min_size=length, max_size=length)), type.index_type)
        return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=type.ordered)
    if pa.types.is_run_end_encoded(type):
        ends = sorted(draw(st.sets(st.integers(1, max(length, 1)), max_size=length)) | ({length} if length else set()))
        run_values = draw(exact_arrays(type.value_type, len(ends), nullable))
        return pa.Array.from_buffers(type, length, [None], children=[pa.array(ends, type.run_end_type), run_values])
    mask = draw(_masks(length, nullable))
    validity = _bitmap(mask) if mask else None
    null_count = sum(mask) if mask else 0
    if pa.types.is_struct(type):
        children = [draw(exact_arrays(f.type, length, f.nullable)) for f in type]
        return pa.Array.from_buffers(type, length, [validity], null_count, children=children)
    if pa.types.is_fixed_size_list(type):
        field = type.value_field
        child = draw(exact_arrays(field.type, length * type.list_size, field.nullable))
        return pa.Array.from_buffers(type, length, [validity], null_count, children=[child])
    sizes = draw(_sizes(length))
    wide = type.id in (pa.large_list(pa.null()).id, pa.large_list_view(pa.null()).id)
    number = pa.int64() if wide else pa.int32()
    if pa.types.is_map(type):
        entries = pa.struct([type.key_field, type.item_field])
        child = draw(exact_arrays(entries, sum(sizes), False))
    else:
        child = draw(exact_arrays(type.value_field.type, sum(sizes), type.value_field.nullable))
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + size)
    if type.id in (pa.list_view(pa.null()).id, pa.large_list_view(pa.null()).id):
        rows = list(zip(offsets, sizes))
        rows = draw(st.permutations(rows)) if draw(st.booleans()) else rows
        buffers = [validity, pa.array([o for o, _ in rows], number).buffers()[1],
                   pa.array([s for _, s in rows], number).buffers()[1]]
        return pa.Array.from_buffers(type, length, buffers, null_count, children=[child])
    return pa.Array.from_buffers(type, length, [validity, pa.array(offsets, number).buffers()[1]], null_count,
                                 children=[child])


@st.composite
def arrays(draw, type, length_max=12):
    """An array of the type, often a slice of a longer one."""
    before, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    length = draw(st.integers(0, length_max))
    array = draw(exact_arrays(type, before + length + after))
    return array.slice(before, length)


def plain_type(type):
    """What weir makes of a type that it converts on import."""
    if type == pa.string_view():
        return pa.string()
    if type == pa.binary_view():
        return pa.binary()
    if pa.types.is_decimal32(type) or pa.types.is_decimal64(type):
        return pa.decimal128(type.precision, type.scale)
    if pa.types.is_run_end_encoded(type):
        return plain_type(type.value_type)
    if pa.types.is_struct(type):
        return pa.struct([plain_field(f) for f in type])
    if pa.types.is_map(type):
        return pa.map_(plain_field(type.key_field), plain_field(type.item_field), type.keys_sorted)
    if pa.types.is_fixed_size_list(type):
        return pa.list_(plain_field(type.value_field), type.list_size)
    if pa.types.is_large_list(type) or type.id == pa.large_list_view(pa.null()).id:
        return pa.large_list(plain_field(type.value_field))
    if pa.types.is_list(type) or type.id == pa.list_view(pa.null()).id:
        return pa.list_(plain_field(type.value_field))
    return type


def plain_field(field):
    # A run-end-encoded array says nothing of nulls; its values, in pyarrow, may always have some.
    nullable = field.nullable or pa.types.is_run_end_encoded(field.type)
    return field.with_type(plain_type(field.type)).with_nullable(nullable)


def canonical(value):
    """A Python value in which NaN equals NaN and floats keep their signs: what to_pylist gives is compared by this."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    return value


def _raw(array):
    """The array with temporal leaves as integers: Python's own types do not hold all of their values."""
    type = array.type
    if pa.types.is_dictionary(type):
        return _raw(array.dictionary_decode())
    if pa.types.is_temporal(type) and not pa.types.is_interval(type):
        return array.view(pa.int32() if type.bit_width == 32 else pa.int64())
    return array


def rows(array):
    """The rows as comparable Python values, by walking the array rather than by pyarrow's conversion of temporals."""
    type = array.type
    if pa.types.is_run_end_encoded(type):
        return _spread(array)
    if pa.types.is_struct(type):
        columns = [rows(array.field(i)) for i in range(type.num_fields)]
        valid = array.is_valid().to_pylist()
        return [[c[i] for c in columns] if ok else None for i, ok in enumerate(valid)]
    if pa.types.is_map(type):
        keys, items, offsets = rows(array.keys), rows(array.items), array.offsets.to_pylist()
        pairs = list(zip(keys, items))
        valid = array.is_valid().to_pylist()
        return [pairs[offsets[i]:offsets[i + 1]] if ok else None for i, ok in enumerate(valid)]
    if pa.types.is_fixed_size_list(type):
        size, items = type.list_size, rows(array.values)
        valid = array.is_valid().to_pylist()
        return [items[(array.offset + i) * size:(array.offset + i + 1) * size] if ok else None
                for i, ok in enumerate(valid)]
    if type.id in (pa.list_view(pa.null()).id, pa.large_list_view(pa.null()).id):
        items = rows(array.values)
        valid, offsets, sizes = array.is_valid().to_pylist(), array.offsets.to_pylist(), array.sizes.to_pylist()
        return [items[offsets[i]:offsets[i] + sizes[i]] if ok else None for i, ok in enumerate(valid)]
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        items, offsets = rows(array.values), array.offsets.to_pylist()
        valid = array.is_valid().to_pylist()
        return [items[offsets[i]:offsets[i + 1]] if ok else None for i, ok in enumerate(valid)]
    return [canonical(v) for v in _raw(array).to_pylist()]


def _spread(array):
    values, ends = rows(array.values), array.run_ends.to_pylist()
    result, run = [], 0
    for row in range(array.offset, array.offset + len(array)):
        while ends[run] <= row:
            run += 1
        result.append(values[run])
    return result
