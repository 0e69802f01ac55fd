"""CSV through the command: many lanes, many files, streams, limits, and messages that help."""
import bz2
import datetime
import gzip
import lzma
import random
import re
import subprocess

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def weir(weir_command, tmp_path):
    def run(*arguments, stdin=None, fails=False):
        done = subprocess.run([weir_command, *map(str, arguments)], input=stdin, capture_output=True, cwd=tmp_path,
                              timeout=300)
        assert (done.returncode != 0) == fails, done.stderr.decode()
        return done.stderr.decode() if fails else done.stdout.decode()
    return run


def table_of(weir, tmp_path, *read, steps=(), options=()):
    """What a plan gives, as a table; through one Parquet file, in order."""
    out = tmp_path / "out.parquet"
    weir("read", *read, *steps, "then", "write", out, "--mode", "overwrite", *options)
    return pq.read_table(out)


def make_rows(count, seed):
    rng = random.Random(seed)
    for i in range(count):
        note = rng.choice(["plain", "two\nlines", 'a "quoted" word', "a, b, c", "", "1,2,3,4\n5,6,7,8\n", "ä€"])
        yield (i, rng.randrange(10**9), round(rng.random() * 1000, 3), note,
               datetime.date(2000, 1, 1) + datetime.timedelta(days=rng.randrange(9000)), rng.random() < 0.5)


def quoted(text):
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in '",\n') else text


def write_rows(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as f:
        f.write("id,n,x,note,day,flag\n")
        for i, n, x, note, day, flag in rows:
            f.write(f"{i},{n},{x},{quoted(note)},{day},{str(flag).lower()}\n")


def test_large_file_in_parallel(weir, tmp_path):
    """A file of many ranges, full of line ends inside quotes: every row once, in order, as pyarrow has it."""
    path = tmp_path / "a.csv"
    write_rows(path, make_rows(700_000, 5))
    assert path.stat().st_size > 24 << 20
    theirs = pacsv.read_csv(path, parse_options=pacsv.ParseOptions(newlines_in_values=True))
    assert table_of(weir, tmp_path, path).cast(theirs.schema).equals(theirs)
    few = table_of(weir, tmp_path, path, steps=("then", "filter", "id % 1000 == 7", "then", "select", "day,note,id"))
    assert few.to_pylist() == theirs.select(["day", "note", "id"]).take(list(range(7, 700_000, 1000))).to_pylist()
    assert weir("count", path).strip() == "700000"
    # With little memory too.
    assert table_of(weir, tmp_path, path, options=("--memory-limit", "64M")).num_rows == 700_000


def test_many_small_files(weir, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(300):
        (folder / f"part-{i:04}.csv").write_text("i,s\n" + "".join(f"{i * 10 + k},t{k}\n" for k in range(10)))
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("i,s\n")
    table = table_of(weir, tmp_path, folder)
    assert table.schema.types == [pa.int64(), pa.string()]
    assert table["i"].to_pylist() == list(range(3000))


def test_files_that_differ(weir, tmp_path):
    """Columns are found by name; a type is what the values of all files have; what only some files have is there, too."""
    (tmp_path / "a.csv").write_text("x,y\n1,a\n")
    (tmp_path / "b.csv").write_text("y,x\nb,2.5\n")
    (tmp_path / "c.csv").write_text("z,x\nq,3\n")
    table = table_of(weir, tmp_path, tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "c.csv")
    assert table.to_pylist() == [{"x": 1.0, "y": "a", "z": None}, {"x": 2.5, "y": "b", "z": None}, {"x": 3.0, "y": None, "z": "q"}]


def by_pyarrow(codec):
    def compress(data):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()
    return compress


COMPRESS = {"gz": gzip.compress, "zst": by_pyarrow("zstd"), "bz2": bz2.compress, "xz": lzma.compress,
            "lz4": by_pyarrow("lz4")}


@pytest.mark.parametrize("end", COMPRESS)
def test_compressed(weir, tmp_path, end):
    text = "a,b\n" + "".join(f'{i},"x\n{i}"\n' for i in range(20_000))
    (tmp_path / f"a.csv.{end}").write_bytes(COMPRESS[end](text.encode()))
    table = table_of(weir, tmp_path, tmp_path / f"a.csv.{end}")
    assert table.to_pydict() == {"a": list(range(20_000)), "b": [f"x\n{i}" for i in range(20_000)]}
    (tmp_path / f"t.tsv.{end}").write_bytes(COMPRESS[end](b"a\tb\n1\t2\n"))
    assert table_of(weir, tmp_path, tmp_path / f"t.tsv.{end}").to_pydict() == {"a": [1], "b": [2]}


def test_standard_input(weir, tmp_path):
    text = "a,b\n" + "".join(f"{i},{i / 4}\n" for i in range(100_000))
    out = weir("read", "-", "--format", "csv", "then", "filter", "a >= 99998", stdin=text.encode())
    assert out == "a,b\n99998,24999.5\n99999,24999.75\n"


@pytest.mark.parametrize("encoding,name,mark", [("latin-1", "latin1", b""), ("utf-16-le", "utf16", b"\xff\xfe"),
                                                ("utf-16-be", "utf16", b"\xfe\xff"), ("utf-16-le", "utf16le", b""),
                                                ("utf-8", "utf8", b"\xef\xbb\xbf")])
def test_encodings(weir, tmp_path, encoding, name, mark):
    (tmp_path / "a.csv").write_bytes(mark + 'ä,b\r\nö,"ü\r\n"\r\n1,2\r\n'.encode(encoding))
    table = table_of(weir, tmp_path, tmp_path / "a.csv", "--encoding", name)
    assert table.to_pydict() == {"ä": ["ö", "1"], "b": ["ü\r\n", "2"]}


# ---- memory ----

def write_long_field(path, before, size):
    with open(path, "w") as f:
        f.write("id,text,n\n" + "".join(f"{i},short,{i}\n" for i in range(before)) + f'{before},"')
        piece = 'some text, a line\nand ""quotes"" '
        f.write(piece * (size // len(piece)) + '",7\n')
        f.writelines(f"{i},short,{i}\n" for i in range(before + 1, 150_000))
    return size // len(piece) * len(piece.replace('""', '"'))


@pytest.mark.parametrize("before", [1000, 140_000])  # among the rows that types are inferred from, and behind them
def test_long_field(weir, tmp_path, before):
    """A field of 100 MB passes at 1G; at 64M the message says which line and how large."""
    path = tmp_path / "a.csv"
    length = write_long_field(path, before, 100_000_000)
    table = table_of(weir, tmp_path, path, steps=("then", "filter", "n == 7 or id > 149990"),
                     options=("--memory-limit", "1G"))
    assert table["id"].to_pylist() == [7, before, *range(149_991, 150_000)]
    assert len(table["text"][1].as_py()) == length
    message = weir("read", path, "then", "write", tmp_path / "b.parquet", "--memory-limit", "64M", fails=True)
    assert "a.csv" in message and f"line {before + 2}:" in message and \
        re.search(r"the record that begins here has 1[01]\d{7} bytes", message), message


# ---- messages ----

def test_ragged(weir, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,c\n1,2,3\n4,5\n6,7,8,9\n10,11,12\n")
    message = weir("read", path, fails=True)
    assert "a.csv" in message and "line 3" in message and "4,5" in message and "--ragged" in message
    assert weir("read", path, "--ragged", "skip") == "a,b,c\n1,2,3\n10,11,12\n"
    message = weir("read", path, "--ragged", "fill", fails=True)
    assert "line 4" in message and "4 fields instead of 3" in message
    path.write_text("a,b,c\n1,2,3\n4,5\n")
    assert weir("read", path, "--ragged", "fill") == "a,b,c\n1,2,3\n4,5,\n"


def test_skipped_rows_are_reported_once(weir_command, tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n" + "1\n2,3\n" * 1000)
    done = subprocess.run([weir_command, "read", tmp_path / "a.csv", "--ragged", "skip", "then", "count"],
                          capture_output=True, text=True)
    assert done.stdout.strip() == "1000"
    assert done.stderr.count("a.csv") == 1 and "1000 rows" in done.stderr, done.stderr


@pytest.mark.parametrize("options,words", [
    (["--delimiter", "ab"], ["--delimiter", "one ASCII character"]),
    (["--quote", ","], ["--delimiter and --quote"]),
    (["--types", "x=int99"], ["x", "int99"]),
    (["--types", "x=duration[s]"], ["x", "duration[s]"]),
    (["--types", "q=int64"], ["no column 'q'"]),
    (["--types", "x"], ["name=type"]),
    (["--ragged", "no"], ["error, skip, fill"]),
    (["--infer", "no"], ["sample, all, none"]),
    (["--names", "a,b,c"], ["3 names", "2 fields"]),
    (["--skip-lines", "-1"], ["--skip-lines"]),
    (["--encoding", "ebcdic"], ["ebcdic"]),
    (["--types", "x=bool"], ["column x", "line 2", "'5'", "bool"]),
])
def test_messages(weir, tmp_path, options, words):
    (tmp_path / "a.csv").write_text("x,y\n5,a\n6,b\n")
    message = weir("read", tmp_path / "a.csv", *options, fails=True)
    assert all(word in message for word in words), message


def test_quote_that_is_not_closed(weir, tmp_path):
    (tmp_path / "a.csv").write_text('a,b\n1,2\n3,"x\n4,5\n')
    message = weir("read", tmp_path / "a.csv", fails=True)
    assert "line 3" in message and "not closed" in message


def test_empty_files(weir, tmp_path):
    (tmp_path / "a.csv").write_text("")
    message = weir("read", tmp_path / "a.csv", fails=True)
    assert "empty" in message and "--names" in message
    assert weir("read", tmp_path / "a.csv", "--names", "x,y", "then", "count").strip() == "0"
    (tmp_path / "b.csv").write_text("x,y\n")
    assert weir("schema", tmp_path / "b.csv").split() == ["x:", "null", "y:", "null"]


def test_names(weir, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,a,,a_1,""\n1,2,3,4,5\n')
    assert weir("read", path) == 'a,a_1,"",a_1_1,f4\n1,2,3,4,5\n'
    path.write_text("1,x\n2,y\n")
    assert weir("read", path, "--no-header") == "f0,f1\n1,x\n2,y\n"
    assert weir("read", path, "--names", "p,q") == "p,q\n1,x\n2,y\n"
    path.write_text("a,b\n1,x\n")
    assert weir("read", path, "--names", 'p,"q,r"', "--header") == 'p,"q,r"\n1,x\n'

# ---- types that turn out too narrow ----

def test_widened_run(weir, weir_command, tmp_path):
    """Into files nothing has left when a value does not fit: the run starts again, says so, and is right."""
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "1,2\n" * 900_000 + "2.5,2\n" + "1,2\n" * 300_000)
    out = tmp_path / "o.parquet"
    done = subprocess.run([weir_command, "read", path, "then", "write", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    table = pq.read_table(out)
    assert table.schema.types == [pa.float64(), pa.int64()] and table.num_rows == 1_200_001
    assert "x" in done.stderr and "double" in done.stderr
    # Rows on their way to a pipe cannot be called back.
    message = weir("read", path, fails=True)
    assert "column x" in message and "line 900002" in message and "'2.5'" in message and "--types" in message
    assert "--infer all" in message
    assert weir("read", path, "--infer", "all", "then", "filter", "x > 2") == "x,y\n2.5,2\n"
    assert weir("read", path, "--types", "x=double", "then", "filter", "x > 2") == "x,y\n2.5,2\n"


def test_several_columns_too_narrow(weir_command, tmp_path):
    """What does not fit in the same part of the file is found at once; a run begins anew only once."""
    path = tmp_path / "a.csv"
    path.write_text("x,y,z,d\n" + "1,2,,2020-01-01\n" * 900_000 + "2.5,2,,2020-01-01\n" + "1,abc,7,2020-01-01\n" * 10 +
                    "1,2,,2020-01-01 10:00:00\n" * 100_000)
    out = tmp_path / "o.parquet"
    done = subprocess.run([weir_command, "read", path, "then", "write", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    table = pq.read_table(out)
    assert table.schema.types[:3] == [pa.float64(), pa.string(), pa.int64()] and table.num_rows == 1_000_011
    assert pa.types.is_timestamp(table.schema.types[3])


def test_files_inside_fields(weir, tmp_path):
    """Quoted fields that look like rows of the same file, longer than a range: every guess is wrong, no row is."""
    path = tmp_path / "a.csv"
    inner = "".join(f"{i},plain,{i / 2}\n" for i in range(150_000))
    with open(path, "w") as f:
        f.write("id,text,x\n")
        for i in range(12):
            f.write(f'{i},"{inner}",{i / 4}\n')
    assert path.stat().st_size > 32 << 20
    table = table_of(weir, tmp_path, path)
    assert table["id"].to_pylist() == list(range(12)) and table["x"].to_pylist() == [i / 4 for i in range(12)]
    assert all(text.as_py() == inner for text in table["text"])
    assert weir("read", path, "then", "select", "id,x") == "id,x\n" + "".join(f"{i},{i / 4}\n" for i in range(12))
    assert weir("count", path).strip() == "12"
