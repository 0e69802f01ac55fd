"""Writes the index of a dataset's pages that limits.c replays: python pages.py INDEX FOLDER CODEC [column ...]

Lines: `codec NAME`, then per file `f PATH` and per page `p OFFSET COMPRESSED UNCOMPRESSED`. The page headers are walked
with a small reader of Thrift's compact protocol; of a header only the sizes are kept.
"""

import mmap
import sys
from pathlib import Path

import pyarrow.parquet as pq

STRUCT = 12
DATA_PAGE_V2_FIELD = 8


class Compact:
    """Reads Thrift compact values into {field id: value}, structs nested."""

    def __init__(self, data, at):
        self.data, self.at = data, at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def zigzag(self):
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def value(self, kind):
        if kind in (1, 2):  # the kind itself says true or false
            return kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 7:
            self.at += 8
            return None
        if kind == 8:
            length = self.varint()
            self.at += length
            return None
        if kind in (9, 10):
            head = self.byte()
            count = head >> 4
            count = self.varint() if count == 15 else count
            return [self.byte() == 1 if head & 15 in (1, 2) else self.value(head & 15) for _ in range(count)]
        if kind == STRUCT:
            return self.struct()
        raise ValueError(f"unknown Thrift kind {kind} at byte {self.at}")

    def struct(self):
        fields, last = {}, 0
        while head := self.byte():
            last = last + (head >> 4) if head >> 4 else self.zigzag()
            fields[last] = self.value(head & 15)
        return fields


def chunk_pages(data, start, length):
    """The (offset, compressed, uncompressed) of each compressed page body of a column chunk."""
    at, end = start, start + length
    while at < end:
        reader = Compact(data, at)
        header = reader.struct()
        body, uncompressed, compressed = reader.at, header[2], header[3]
        at = body + compressed
        v2 = header.get(DATA_PAGE_V2_FIELD)
        if v2:  # levels lie uncompressed in front
            levels = v2.get(5, 0) + v2.get(6, 0)
            body, uncompressed, compressed = body + levels, uncompressed - levels, compressed - levels
        if compressed:
            yield body, compressed, uncompressed


def write_index(index, folder, codec, columns):
    wanted = set(columns)
    lines = [f"codec {codec}"]
    for path in sorted(Path(folder).glob("*.parquet")):
        lines.append(f"f {path}")
        meta = pq.read_metadata(path)
        with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for group in (meta.row_group(i) for i in range(meta.num_row_groups)):
                for column in (group.column(i) for i in range(meta.num_columns)):
                    if wanted and column.path_in_schema.split(".")[0] not in wanted:
                        continue
                    start = column.dictionary_page_offset or column.data_page_offset
                    pages = chunk_pages(data, min(start, column.data_page_offset), column.total_compressed_size)
                    lines += [f"p {offset} {small} {large}" for offset, small, large in pages]
    Path(index).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_index(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
