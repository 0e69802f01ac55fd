"""Text files, a row a line, and binary files, a row a file, against Python's own splitting, decoding and reading."""
import bz2
import gzip
import json
import lzma
import os
import random
import subprocess

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import weir_chain
from weir_chain import ChainError, quote

RANDOM = settings(max_examples=80, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))


def expected(text, keep_empty=False):
    """Lines as Ray Data's read_text has them, but without the carriage return of CR LF, and without an empty line behind the
    last line end."""
    lines = text.removeprefix("\ufeff").split("\n")
    last = lines.pop()
    lines = [line.removesuffix("\r") for line in lines] + ([last] if last else [])
    return lines if keep_empty else [line for line in lines if line.strip()]


def lines(path, options="", **more):
    table = weir_chain.stream(f"read {quote(path)} --format text {options}", **more)
    assert table.column_names == ["text"] and table.schema.field(0).type == pa.string()
    return table["text"].to_pylist()


# Everything that means something: line ends, white space that only Unicode knows, marks, NUL.
PIECES = st.one_of(st.sampled_from(["\n", "\r\n", "\r", "", " ", "\t", "\x0b", "\x1c", "\x85", "\xa0", "\u1680", "\u2003",
                                    "\u2028", "\u202f", "\u205f", "\u3000", "\u200b", "\ufeff", "\0", "a line", "Zürich",
                                    "\U0001f600", "x" * 30]),
                   st.text(st.characters(codec="utf-8"), max_size=4))


@RANDOM
@given(st.lists(PIECES, max_size=20).map("".join), st.booleans())
def test_random_text(tmp_path_factory, text, keep):
    path = tmp_path_factory.mktemp("text") / "t.txt"
    path.write_bytes(text.encode())
    assert lines(path, "--keep-empty-lines" if keep else "") == expected(text, keep)


@RANDOM
@given(st.lists(st.one_of(st.binary(max_size=5), st.sampled_from([b"\n", b"\r\n", b"ab", b"\xe4\xb8", b"\xf0\x9f\x98", b" ",
                                                                  b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90"])),
                max_size=15).map(b"".join))
def test_bytes_that_are_not_utf8(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("text") / "t.txt"
    path.write_bytes(data)
    body = data.removeprefix(b"\xef\xbb\xbf")
    for errors in ["replace", "ignore"]:
        assert lines(path, f"--errors {errors}") == expected("\ufeff" + body.decode("utf-8", errors))
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        # Lines that are left out are not looked into, and this one cannot be.
        number = body[:error.start].count(b"\n") + 1
        with pytest.raises(ChainError, match=rf"t\.txt.*line {number}\b.*not UTF-8"):
            lines(path)
    else:
        assert lines(path) == expected("\ufeff" + text)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(tmp_path, encoding):
    text = "first\n\nZürich ½\r\n" + "".join(f"line {i} é\n" for i in range(50_000)) + "last"
    path = tmp_path / "t.txt"
    path.write_bytes(text.encode(encoding))
    assert lines(path, f"--encoding {encoding}") == expected(text)


@pytest.mark.parametrize("end, compress", [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_compressed(tmp_path, end, compress):
    text = "".join(f"line {i}\n" for i in range(100_000))
    path = tmp_path / f"t.log{end}"
    path.write_bytes(compress(text.encode()))
    got = weir_chain.stream(f"read {quote(path)}")["text"].to_pylist()
    assert got == expected(text)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 0x55
    path.write_bytes(damaged)
    with pytest.raises(ChainError, match="t.log"):
        weir_chain.stream(f"read {quote(path)}")


def test_standard_input(weir_command):
    done = subprocess.run([weir_command, "read", "-", "--format", "text", "then", "write", "-", "--format", "jsonl"],
                          input=b"a\n\nb", capture_output=True, check=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"text": "a"}, {"text": "b"}]


@pytest.mark.parametrize("seed", range(3))
def test_one_large_file_by_all_lanes(tmp_path, seed):
    """Lines from none to many windows long, cut wherever ranges fall."""
    rng = random.Random(seed)
    sizes = [rng.choice([0, 1, 5, 80, 80, 80, 3000]) for _ in range(60_000)] + [700_000, 1_500_000]
    rng.shuffle(sizes)
    text = "".join("".join(rng.choice("abcdefgh é") for _ in range(min(size, 50))) * (size // 50 + 1) + "\n"
                   for size in sizes)
    path = tmp_path / "t.txt"
    path.write_bytes(text.encode())
    assert os.path.getsize(path) > 20 << 20
    for threads in [1, 2, 4]:
        assert lines(path, threads=threads) == expected(text)
    assert weir_chain.run(f"read {quote(path)} then count").rows_out == len(expected(text))


def test_line_numbers_in_large_files(tmp_path):
    path = tmp_path / "t.txt"
    rows = [b"a line of text that is not short, number %d" % i for i in range(500_000)]
    rows[432_100] = b"caf\xe9"
    path.write_bytes(b"\n".join(rows))
    with pytest.raises(ChainError, match=r"line 432101\b.*0xe9 at place 4"):
        lines(path)
    assert lines(path, "--encoding latin-1")[432_100] == "café"


def test_a_line_larger_than_the_limit(tmp_path, weir_command):
    path = tmp_path / "t.txt"
    path.write_bytes(b"short\n" + b"x" * (100 << 20) + b"\nshort\n")
    chain = [weir_command, "--memory-limit", "64M", "read", str(path), "then", "filter", "text == 'short'", "then", "count"]
    done = subprocess.run(chain, capture_output=True, text=True)
    assert done.returncode != 0 and "line 2" in done.stderr and "limit is 64.0 MiB" in done.stderr, done.stderr
    chain[2] = "1G"
    done = subprocess.run(chain, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == "2", done.stderr


def test_wrong_options(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("a\n")
    with pytest.raises(ChainError, match="strict, replace or ignore"):
        lines(path, "--errors often")
    with pytest.raises(ChainError, match="encoding"):
        lines(path, "--encoding klingon")


def test_many_files(tmp_path):
    for i in range(300):
        (tmp_path / f"{i:04}.txt").write_text(f"first of {i}\nsecond of {i}")
    got = weir_chain.stream(f"read {quote(tmp_path)} --format text --path-column path", threads=2).to_pylist()
    assert [row["text"] for row in got] == [f"{word} of {i}" for i in range(300) for word in ["first", "second"]]
    assert got[5]["path"].endswith("0002.txt")


# ---- binary ----

def test_binary_files(tmp_path):
    rng = random.Random(3)
    contents = {f"{i:03}.{rng.choice(['bin', 'jpg', 'txt', 'data'])}": rng.randbytes(rng.choice([0, 1, 12, 13, 70_000]))
                for i in range(40)}
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    got = weir_chain.stream(f"read {quote(tmp_path)} --format binary --path-column path", threads=2)
    assert got.schema.field("bytes").type == pa.binary()
    assert {os.path.basename(row["path"]): row["bytes"] for row in got.to_pylist()} == contents
    assert weir_chain.run(f"read {quote(tmp_path)} --format binary then count").rows_out == 40


def test_compressed_binary_files(tmp_path):
    content = b"\xef\xbb\xbfcontent" * 50_000
    (tmp_path / "a.bin.gz").write_bytes(gzip.compress(content))
    read = f"read {quote(tmp_path / 'a.bin.gz')} --format binary"
    assert weir_chain.stream(read)["bytes"].to_pylist() == [content]
    assert weir_chain.stream(f"{read} --compression none")["bytes"].to_pylist() == [(tmp_path / "a.bin.gz").read_bytes()]


def test_a_binary_file_larger_than_the_limit(tmp_path, weir_command):
    (tmp_path / "a.bin").write_bytes(bytes(100 << 20))
    chain = [weir_command, "--memory-limit", "64M", "read", str(tmp_path / "a.bin"), "--format", "binary", "then"]
    done = subprocess.run([*chain, "filter", "bytes is not null", "then", "write",
                           str(tmp_path / "out.parquet")], capture_output=True, text=True)
    assert done.returncode != 0 and "a.bin" in done.stderr, done.stderr
    done = subprocess.run([*chain, "count"], capture_output=True, text=True)
    assert done.stdout.strip() == "1", done.stderr


def test_binary_from_standard_input(weir_command):
    done = subprocess.run([weir_command, "read", "-", "--format", "binary", "then", "write", "-", "--format", "arrows"],
                          input=b"\0\1\2" * 100_000, capture_output=True, check=True)
    assert pa.ipc.open_stream(done.stdout).read_all()["bytes"].to_pylist() == [b"\0\1\2" * 100_000]
