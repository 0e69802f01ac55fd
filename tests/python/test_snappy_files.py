"""Files of Snappy chunks: read by their name or as asked for; damage is an error."""
import pytest
import tfrecord_files

import weir



def snappy_file(data, chunk=65536, extra=b""):
    """A stream of Snappy chunks, every second one as it is; `extra`: something behind the first."""
    pa = pytest.importorskip("pyarrow")
    out = b"\xff\x06\x00\x00sNaPpY" + extra
    for number, at in enumerate(range(0, len(data), chunk)):
        plain = data[at : at + chunk]
        body = tfrecord_files.masked(plain) + (plain if number % 2 else pa.compress(plain, codec="snappy", asbytes=True))
        out += bytes([number % 2]) + len(body).to_bytes(3, "little") + body
    return out


@pytest.mark.parametrize("chunk", [1, 1000, 65536])
def test_snappy_streams_are_read(tmp_path, chunk):
    rows = 300 if chunk == 1 else 30_000
    data = "a,b\n" + "".join(f"{n},text {n % 7}\n" for n in range(rows))
    for extra in (b"", b"\xfe\x02\x00\x00..", b"\xff\x06\x00\x00sNaPpY"):
        path = tmp_path / "a.csv.snappy"
        path.write_bytes(snappy_file(data.encode(), chunk, extra))
        assert weir.read_csv(str(path)).sum("a") == rows * (rows - 1) // 2
        assert weir.read_binary_files(str(path)).take_all()[0]["bytes"] == data.encode()
    path = tmp_path / "b.data"
    path.write_bytes(snappy_file(b"hello", chunk) + snappy_file(b" world", chunk))
    assert weir.read_binary_files(str(path), arrow_open_stream_args={"compression": "snappy"}).take_all()[0]["bytes"] == b"hello world"


def test_damaged_snappy_streams_are_errors(tmp_path):
    data = "".join(f"{n * n} weir " for n in range(40)).encode()  # nothing that repeats itself: else a copy from elsewhere may be the same
    whole = snappy_file(data, 150)
    path = tmp_path / "a.snappy"

    def read(damaged):
        path.write_bytes(damaged)
        return weir.read_binary_files(str(path)).take_all()[0]["bytes"]

    assert read(whole) == data
    ends = {10}  # where a chunk ends, the file may: those behind it were never there
    while max(ends) < len(whole):
        ends.add(max(ends) + 4 + int.from_bytes(whole[max(ends) + 1 : max(ends) + 4], "little"))
    for size in range(1, len(whole)):
        if size not in ends:
            with pytest.raises(Exception, match="Snappy"):
                read(whole[:size])
    for at in range(len(whole)):
        broken = whole[:at] + bytes([whole[at] ^ 0x11]) + whole[at + 1 :]
        with pytest.raises(Exception, match="Snappy"):
            read(broken)
    for kind in (2, 0x7F):
        with pytest.raises(Exception, match="chunk of an unknown kind"):
            read(snappy_file(b"x", extra=bytes([kind]) + b"\x00\x00\x00"))
    with pytest.raises(Exception, match="size that none may have"):
        read(snappy_file(b"x", extra=b"\x01\x05\x00\x01" + b"." * 65541))
