"""TFRecord files by plain Python: what tests and the fuzz corpus are made with, and a second reader to compare with."""
import struct
from typing import NamedTuple

KINDS = {1: "bytes", 2: "float", 3: "int"}


class Values(NamedTuple):
    number: int  # of the list's field; 0: none is set
    values: tuple


def BYTES(*values):
    return Values(1, values)


def FLOATS(*values):
    return Values(2, values)


def INTS(*values):
    return Values(3, values)


UNSET = Values(0, ())

_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in bytes(data):
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(record):
    length = struct.pack("<Q", len(record))
    return length + masked(length) + record + masked(record)


def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(values, packed=True):
    number, listed = values
    if number == 0:
        return b""
    if number == 1:
        inside = b"".join(field(1, value) for value in listed)
    elif number == 2:
        each = [struct.pack("<f", value) for value in listed]
        inside = (field(1, b"".join(each)) if each else b"") if packed else b"".join(varint(1 << 3 | 5) + value for value in each)
    else:
        each = [varint(value) for value in listed]
        inside = (field(1, b"".join(each)) if each else b"") if packed else b"".join(varint(1 << 3) + value for value in each)
    return field(number, inside)


def example(row, packed=True):
    return field(1, b"".join(field(1, field(1, name.encode()) + field(2, feature(values, packed))) for name, values in row.items()))


def write(path, rows, packed=True):
    """`rows`: dicts of Values."""
    path.write_bytes(b"".join(frame(example(row, packed)) for row in rows))
    return str(path)


# ---- the way back ----


def _varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return number, at


def fields(data):
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
        elif tag & 7 == 2:
            size, at = _varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = {1: 8, 5: 4}[tag & 7]
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def frames(data):
    """The records, their checksums compared."""
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        assert data[at + 8:at + 12] == masked(data[at:at + 8])
        record = data[at + 12:at + 12 + size]
        assert len(record) == size and data[at + 12 + size:at + 16 + size] == masked(record)
        yield record
        at += 16 + size


def parse(record):
    """The features of an Example: name to Values."""
    row = {}
    for number, features in fields(record):
        assert number == 1
        for _, entry in fields(features):
            parts = dict(fields(entry))
            row[parts[1].decode()] = _values(parts.get(2, b""))
    return row


def _values(data):
    found = UNSET
    for number, inside in fields(data):
        values = []
        for _, piece in fields(inside):
            if number == 1:
                values.append(bytes(piece))
            elif number == 2:
                values += struct.unpack(f"<{len(piece) // 4}f", piece)
            else:
                at = 0
                while at < len(piece):
                    value, at = _varint(piece, at)
                    values.append(value - (1 << 64) if value >> 63 else value)
        found = Values(number, tuple(values))
    return found


def read(path):
    return [parse(record) for record in frames(path.read_bytes())]
