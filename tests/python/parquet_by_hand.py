"""Parquet files put together by hand, field by field, so that any of them can lie."""
import struct


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value):
    return varint((value << 1 ^ value >> 63) & (1 << 64) - 1)


class I32(int):
    """Integers are 64 bits wide unless they are one of these."""


class Byte(int):
    pass


def type_of(value):
    if isinstance(value, bool):
        return 1 if value else 2
    if isinstance(value, Byte):
        return 3
    if isinstance(value, I32):
        return 5
    if isinstance(value, int):
        return 6
    if isinstance(value, (bytes, str)):
        return 8
    if isinstance(value, list):
        return 9
    return 12


def encode(value):
    if isinstance(value, bool):
        return b""
    if isinstance(value, Byte):
        return struct.pack("b", value)
    if isinstance(value, int):
        return zigzag(value)
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return varint(len(value)) + value
    if isinstance(value, list):
        kind = type_of(value[0]) if value else 12
        head = bytes([len(value) << 4 | kind]) if len(value) < 15 else bytes([0xF0 | kind]) + varint(len(value))
        return head + b"".join(encode(item) for item in value)
    return thrift(value)


def thrift(fields):
    """A struct from {id: value}."""
    out, last = bytearray(), 0
    for number, value in sorted(fields.items()):
        if value is None:
            continue
        out.append((number - last) << 4 | type_of(value)) if number - last <= 15 else out.extend(
            bytes([type_of(value)]) + zigzag(number))
        out += encode(value)
        last = number
    return bytes(out) + b"\0"


BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
REQUIRED, OPTIONAL, REPEATED = range(3)
PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, RLE_DICTIONARY = 0, 2, 3, 4, 8


def element(name, physical=None, repetition=REQUIRED, children=None, converted=None, length=None, scale=None,
            precision=None, logical=None):
    def i32(value):
        return None if value is None else I32(value)
    return {1: i32(physical), 2: i32(length), 3: i32(repetition), 4: name, 5: i32(children), 6: i32(converted),
            7: i32(scale), 8: i32(precision), 10: logical}


def data_page(body, count, encoding=PLAIN, size=None, uncompressed=None, levels=RLE, crc=None):
    """A v1 page; `size` and `uncompressed` are what its header says."""
    return thrift({1: I32(0), 2: I32(len(body) if uncompressed is None else uncompressed),
                   3: I32(len(body) if size is None else size), 4: crc and I32(crc),
                   5: {1: I32(count), 2: I32(encoding), 3: I32(levels), 4: I32(levels)}}) + body


def dictionary_page(body, count, encoding=PLAIN, uncompressed=None):
    return thrift({1: I32(2), 2: I32(len(body) if uncompressed is None else uncompressed), 3: I32(len(body)),
                   7: {1: I32(count), 2: I32(encoding)}}) + body


def chunk(pages, count, physical=INT64, codec=0, uncompressed=None, **changes):
    """A column chunk: its pages' bytes and what the footer says of it; changes: {field of ColumnMetaData: value}."""
    body = b"".join(pages)
    fields = {1: I32(physical), 2: [I32(0)], 3: ["c"], 4: I32(codec), 5: count,
              6: len(body) if uncompressed is None else uncompressed, 7: len(body), 9: None}
    fields.update({int(name[1:]): value for name, value in changes.items()})
    return body, fields


def file(elements, chunks, rows, footer_rows=None, change=lambda footer: footer, extra=None):
    """One row group. elements: without the root. chunks: from chunk()."""
    out, columns = bytearray(b"PAR1"), []
    for body, fields in chunks:
        fields = dict(fields)
        if fields.get(9) is None:
            fields[9] = len(out)
        columns.append({2: len(out), 3: fields, **(extra or {})})
        out += body
    top = sum(1 for e in elements if not e.get("inner"))
    schema = [element("schema", children=top)] + [{k: v for k, v in e.items() if k != "inner"} for e in elements]
    footer = thrift({1: I32(1), 2: schema, 3: rows if footer_rows is None else footer_rows,
                     4: [{1: columns, 2: len(out), 3: rows}]})
    footer = change(footer)
    return bytes(out) + footer + struct.pack("<I", len(footer)) + b"PAR1"


def inner(fields):
    """Marks an element that is not a child of the root."""
    return {**fields, "inner": True}


def plain64(values):
    return struct.pack(f"<{len(values)}q", *values)


def texts(values):
    return b"".join(struct.pack("<I", len(v)) + v for v in values)


def runs(*pairs, width=1):
    """Levels or codes as runs: (count, value)."""
    return b"".join(varint(count << 1) + value.to_bytes((width + 7) // 8, "little") for count, value in pairs)


def levels(*pairs, width=1):
    body = runs(*pairs, width=width)
    return struct.pack("<I", len(body)) + body
