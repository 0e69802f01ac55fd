"""The verb read, whatever the format: which files and which format, options, standard input, paths as a column, what is
missing, ranges that begin at a wrong guess, types that turn out too narrow, memory."""
import bz2
import gzip
import lzma
import os
import random
import re
import signal
import subprocess
import time

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from driver_scripts import on_a_busy_machine, within

SEED = 20261115


@pytest.fixture
def weir(weir_command):
    def run(*words, code=0, **options):
        options.setdefault("timeout", 120)
        done = subprocess.run([weir_command, *map(str, words)], capture_output=True, **options)
        assert done.returncode == code or (code and done.returncode in (1, 2)), done.stderr.decode()
        return done
    return run


def rows(done):
    """The output, as a table of text."""
    return [line.split(",") for line in done.stdout.decode().splitlines()[1:]]


def write_csv(path, first, count):
    lines = ["a,b"] + [f"{i},t{i}" for i in range(first, first + count)]
    path.write_text("\n".join(lines) + "\n")
    return path


# ---- which files, which format ----

def test_compressed_files_by_name(weir, tmp_path):
    text = write_csv(tmp_path / "a.csv", 0, 5).read_bytes()
    (tmp_path / "b.CSV.gz").write_bytes(gzip.compress(text))
    (tmp_path / "c.csv.bz2").write_bytes(bz2.compress(text))
    (tmp_path / "d.csv.xz").write_bytes(lzma.compress(text))
    (tmp_path / "e.csv.zst").write_bytes(pa.compress(text, codec="zstd", asbytes=True))
    (tmp_path / "f.csv.lz4").write_bytes(pa.compress(text, codec="lz4", asbytes=True))
    (tmp_path / "g.csv.txt").write_text("no such format\n")
    for name in ["a.csv", "b.CSV.gz", "c.csv.bz2", "d.csv.xz", "e.csv.zst", "f.csv.lz4"]:
        assert weir("count", tmp_path / name).stdout == b"5\n", name
    assert weir("count", tmp_path).stdout == b"30\n"
    cut = tmp_path / "cut"
    cut.mkdir()
    for name in ["b.CSV.gz", "c.csv.bz2", "d.csv.xz", "e.csv.zst", "f.csv.lz4"]:
        (cut / name).write_bytes((tmp_path / name).read_bytes()[:-3])
        message = weir("count", cut / name, code=1).stderr.decode()
        assert name in message and "ends in the middle" in message and "byte" in message, message


def test_the_first_file_decides_the_format(weir, tmp_path):
    write_csv(tmp_path / "b.csv", 0, 3)
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "c.parquet")
    assert weir("count", tmp_path).stdout == b"3\n"
    assert weir("count", tmp_path, "--format", "parquet").stdout == b"2\n"
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    assert weir("count", tmp_path).stdout == b"4\n"
    (tmp_path / "plain").write_bytes((tmp_path / "a.parquet").read_bytes())
    assert weir("count", tmp_path / "plain").stdout == b"2\n"  # by its first bytes
    (tmp_path / "other").write_text("a,b\n1,2\n")
    message = weir("count", tmp_path / "other", code=1).stderr.decode()
    assert "--format" in message and "csv" in message and "other" in message
    assert weir("count", tmp_path / "other", "--format", "csv").stdout == b"1\n"
    assert "there is no reader of 'xml'" in weir("read", tmp_path, "--format", "xml", code=1).stderr.decode()


def test_options_belong_to_formats(weir, tmp_path):
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    assert rows(weir("read", tmp_path / "a.csv", "--delimiter", ";")) == [["1", "2"]]
    message = weir("read", tmp_path / "a.parquet", "--delimiter", ";", code=1).stderr.decode()
    assert "--delimiter is an option of csv" in message and "parquet" in message
    assert "unknown option --delimeter" in weir("read", tmp_path / "a.csv", "--delimeter", ";", code=2).stderr.decode()
    assert "wants a value" in weir("read", tmp_path / "a.csv", "--delimiter", code=2).stderr.decode()


def test_types_come_from_several_files(weir, tmp_path):
    for i in range(40):
        (tmp_path / f"{i:03}.csv").write_text(f"a\n{i}\n")
    (tmp_path / "039.csv").write_text("a\n0.5\n")
    (tmp_path / "017.csv").write_text("a\nx\n")
    assert weir("schema", tmp_path / "00*.csv").stdout == b"a: int64\n"
    assert weir("schema", tmp_path, "--infer", "all").stdout == b"a: string\n"
    values = [row[0] for row in rows(weir("read", tmp_path, "--infer", "all"))]
    assert values == [str(i) if i not in (17, 39) else {17: "x", 39: "0.5"}[i] for i in range(40)]


def test_types_of_hundreds_of_files_at_a_time(weir, tmp_path):
    """More files than are open at once when all are looked at."""
    for i in range(300):
        (tmp_path / f"{i:03}.csv").write_text(f"a,b{i // 200}\n{i},1\n")
    (tmp_path / "250.csv").write_text("a,b1\n2024-01-01,1\n")
    schema = weir("schema", tmp_path, "--infer", "all").stdout.decode()
    assert "a: string" in schema


# ---- paths and what is missing ----

def test_path_column(weir, tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        write_csv(tmp_path / f"year={year}" / "a.csv", year, 2)
        write_csv(tmp_path / f"year={year}" / "b.csv", year + 10, 1)
    got = rows(weir("read", tmp_path, "--path-column", "file"))
    assert got == [[str(n), f"t{n}", str(y), f"{tmp_path}/year={y}/{f}.csv"]
                   for y in (2023, 2024) for n, f in ((y, "a"), (y + 1, "a"), (y + 10, "b"))]
    assert weir("schema", tmp_path, "--include-paths").stdout.decode().splitlines()[-1] == "path: string"
    # A filter on it leaves files out unread: this one has a row too long where no sample is taken.
    rows_before = "1,t\n" * 1_500_000
    (tmp_path / "year=2023" / "b.csv").write_text("a,b\n" + rows_before + "1,2,3,4\n" + rows_before[:1_500_000])
    kept = weir("read", tmp_path, "--path-column", "file", "then", "filter", 'ends_with(file, "a.csv")', "then", "count", code=1)
    assert b"b.csv" in kept.stderr  # no bound can be drawn from this one
    path = f"{tmp_path}/year=2024/b.csv"
    assert rows(weir("read", tmp_path, "--path-column", "file", "then", "filter", f'file == "{path}"')) == \
        [["2034", "t2034", "2024", path]]
    assert weir("read", tmp_path, "--path-column", "file", "then", "filter", f'file == "{path}"', "then", "count").stdout == b"1\n"
    assert weir("read", tmp_path / "year=2024", "--columns", "file,a", "--path-column", "file").stdout.decode().splitlines()[1] \
        == f"{tmp_path}/year=2024/a.csv,2024"
    message = weir("read", tmp_path / "year=2024", "--path-column", "a", code=1).stderr.decode()
    assert "a column 'a' themselves" in message


def test_missing(weir, tmp_path):
    write_csv(tmp_path / "a.csv", 0, 3)
    write_csv(tmp_path / "c.csv", 3, 2)
    gone, pattern, folder = tmp_path / "b.csv", tmp_path / "*.tsv", tmp_path / "empty"
    folder.mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "nowhere.csv")
    words = ["read", tmp_path / "a.csv", gone, pattern, folder, tmp_path / "c.csv", tmp_path / "link.csv"]
    for missing in [gone, pattern, folder, tmp_path / "link.csv"]:
        message = weir("read", tmp_path / "a.csv", missing, code=1).stderr.decode()
        assert str(missing) in message
        assert message == weir("read", tmp_path / "a.csv", missing, "--missing", "error", code=1).stderr.decode()
    done = weir(*words, "--missing", "skip", "then", "count")
    assert done.stdout == b"5\n"
    warnings = done.stderr.decode().splitlines()
    assert len(warnings) == 1 and "4 paths were left out" in warnings[0] and str(gone) in warnings[0]
    # A link to nothing inside a folder, and all of them gone.
    assert weir("count", tmp_path, code=1).stdout == b""
    assert weir("read", tmp_path, "--missing", "skip", "then", "count").stdout == b"5\n"
    assert "none of the paths" in weir("read", gone, "--missing", "skip", code=1).stderr.decode()
    assert "--missing is error or skip" in weir("read", gone, "--missing", "ignore", code=2).stderr.decode()
    # The first file is one of those that are left out; so is one that only the lane opens.
    assert weir("read", gone, tmp_path / "a.csv", "--missing", "skip", "then", "count").stdout == b"3\n"
    assert weir("schema", gone, tmp_path / "a.csv", "--missing", "skip").stdout == b"a: int64\nb: string\n"


def test_files_that_cannot_be_opened(weir, tmp_path):
    for i in range(20):
        write_csv(tmp_path / f"{i:02}.csv", i, 1)
    os.chmod(tmp_path / "07.csv", 0)
    os.chmod(tmp_path / "00.csv", 0)
    if os.access(tmp_path / "07.csv", os.R_OK):
        pytest.skip("this user may read everything")
    assert "00.csv" in weir("count", tmp_path, code=1).stderr.decode()
    done = weir("count", tmp_path, "--missing", "skip")
    assert done.stdout == b"18\n" and b"2 paths were left out" in done.stderr


# ---- standard input ----

def test_standard_input(weir, weir_command, tmp_path):
    path = write_csv(tmp_path / "a.csv", 0, 20000)
    text = path.read_bytes()
    whole = weir("read", path).stdout
    with open(path) as file:
        assert weir("read", "-", "--format", "csv", stdin=file).stdout == whole
    assert weir("read", "-", "--format", "csv", input=text).stdout == whole
    assert weir("read", "-", "--format", "csv", "--compression", "gzip", input=gzip.compress(text)).stdout == whole
    assert weir("read", "-", "--format", "csv", input=text, timeout=20).stdout == whole
    assert weir("read", "-", "--format", "csv", "then", "limit", "3", input=text).stdout == b"".join(text.splitlines(True)[:4])
    assert weir("read", "-", "--format", "csv", "--path-column", "p", "then", "limit", "1", input=text).stdout == \
        b"a,b,p\n0,t0,standard input\n"
    weir("read", "-", "--format", "csv", "then", "union", f"read {path}", "then", "write", tmp_path / "both.parquet", input=text)
    assert pq.read_metadata(tmp_path / "both.parquet").num_rows == 40000
    # The front of a file was read by somebody else: what is left is meant.
    shell = f"{{ read line; '{weir_command}' read - --format csv --names a,b --no-header then count; }} < '{path}'"
    assert subprocess.run(["bash", "-c", shell], capture_output=True, timeout=60).stdout == b"20000\n"


@pytest.mark.sample(10)
@pytest.mark.parametrize("format, row", [("csv", "{0},{0}\n"), ("json", '{{"a": {0}}}\n'), ("text", "line {0}\n")])
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_damage_in_the_middle(weir, tmp_path, format, row, pack):
    """The stream fails while a reader holds half a row: an error with the file, whatever the reader."""
    text = ("a,b\n" if format == "csv" else "") + "".join(row.format(random.Random(i).random()) for i in range(100_000))
    whole = pack(text.encode())
    for cut in (len(whole) // 2, len(whole) * 9 // 10, len(whole) - 4):
        (tmp_path / "x.gz").write_bytes(whole[:cut])
        compression = {gzip: "gzip", bz2: "bz2", lzma: "xz"}[__import__("sys").modules[pack.__module__]]
        message = weir("read", tmp_path / "x.gz", "--format", format, "--compression", compression, "then", "write",
                       tmp_path / "out.parquet", code=1).stderr.decode()
        assert "x.gz" in message and "ends in the middle" in message, message


def test_standard_input_is_told_by_its_first_bytes(weir, tmp_path):
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    with open(tmp_path / "a.parquet") as file:
        assert weir("read", "-", "then", "count", stdin=file).stdout == b"2\n"
    assert weir("read", "-", "then", "count", input=(tmp_path / "a.parquet").read_bytes()).stdout == b"2\n"
    assert "--format" in weir("read", "-", input=b"a,b\n", code=1).stderr.decode()
    assert "can only be read alone" in weir("read", "-", tmp_path, code=2).stderr.decode()
    closed = subprocess.run(["bash", "-c", f"'{weir.__closure__[0].cell_contents}' read - --format csv <&-"],
                            capture_output=True, timeout=60)
    assert closed.returncode == 1 and b"standard input" in closed.stderr


@pytest.mark.parametrize("head", [b"", b"a,b\n" + b"1,2\n" * 100_000], ids=["nothing", "rows"])
@on_a_busy_machine
def test_interrupted_while_standard_input_is_silent(weir_command, head):
    """Before anything has come, and in the middle of the run."""
    process = subprocess.Popen([weir_command, "read", "-", "--format", "csv", "then", "count"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if head:
        process.stdin.write(head)
        process.stdin.flush()
    for _ in range(500):  # until its thread sleeps: it waits for the pipe
        with open(f"/proc/{process.pid}/status") as status:
            text = status.read()
        if re.search(r"State:\s+S", text) and re.search(r"SigCgt:\s+0*[1-9a-f]", text):
            break
        time.sleep(0.01)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    took = time.monotonic() - begun
    process.stdin.close()
    assert b"interrupted" in process.stderr.read()
    within(took, 1)


# ---- ranges that begin at a guess ----

@pytest.fixture(scope="module")
def traps(tmp_path_factory):
    """Texts in quotes that look like rows for megabytes, so that cuts fall into them and guesses are wrong; what the fake
    rows say fits no column. Returns the path and the real rows."""
    path = tmp_path_factory.mktemp("traps") / "traps.csv"
    rng = random.Random(SEED)
    keys, sizes = [], []
    with open(path, "w") as out:
        out.write("key,text,value\n")
        for i in range(60):
            n = rng.randrange(1, 60_000)
            fake = "7,fake rows of a text,2.5\n" * n
            if not 25 < i < 35 and i < 55:  # samples for types are taken in the middle and at the end
                fake += "not a number,fake,neither\n" + fake
            out.write(f'{i},"{fake}",{i * 0.5}\n')
            keys.append(i)
            sizes.append(len(fake))
            for k in range(rng.randrange(3)):
                out.write(f"{1000 + i},plain,{k}.25\n")
                keys.append(1000 + i)
                sizes.append(5)
    return path, keys, sizes


def test_wrong_guesses_are_read_again(weir, traps, tmp_path):
    path, keys, sizes = traps
    assert path.stat().st_size > 30 << 20
    for threads in (1, 2, 7):
        out = tmp_path / f"{threads}.parquet"
        done = weir("--threads", threads, "read", path, "then", "with", "size = length(text)", "then", "drop", "text", "then",
                    "write", out)
        assert done.stderr == b""  # no misfit of a wrongly guessed range is told
        table = pq.read_table(out)
        assert table.column("key").to_pylist() == keys and table.column("size").to_pylist() == sizes
        assert table.schema.field("key").type == pa.int64()
        assert weir("--threads", threads, "read", path, "then", "count").stdout == b"%d\n" % len(keys)


def test_limit_and_union_over_wrong_guesses(weir, traps):
    path, keys, _ = traps
    for limit in (1, 7, 40, len(keys), len(keys) + 1):
        out = rows(weir("--threads", 4, "read", path, "then", "select", "key", "then", "limit", limit))
        assert [int(row[0]) for row in out] == keys[:limit]
    out = rows(weir("--threads", 4, "read", path, "then", "union", f"read '{path}' then filter 'key >= 1000'", "then", "select",
                    "key"))
    assert [int(row[0]) for row in out] == keys + [key for key in keys if key >= 1000]


def test_wrong_guesses_at_a_small_limit(weir, traps, tmp_path):
    path, keys, sizes = traps
    out = tmp_path / "out.parquet"
    weir("--memory-limit", "64M", "--threads", 4, "read", path, "then", "with", "size = length(text)", "then", "drop", "text",
         "then", "write", out)
    assert pq.read_table(out).column("size").to_pylist() == sizes


def test_errors_behind_wrong_guesses_have_their_line(weir, traps, tmp_path):
    path, _, _ = traps
    bad = tmp_path / "bad.csv"
    text = path.read_text()
    at = text.rindex('",', 0, len(text) * 9 // 10)  # the end of a text in quotes: its row ends on the same line
    at = text.index("\n", at)
    bad.write_text(text[:at + 1] + "1,2\n" + text[at + 1:])
    line = text.count("\n", 0, at + 1) + 1
    for threads in (1, 4):
        message = weir("--threads", threads, "read", bad, "then", "count", code=1).stderr.decode()
        assert f"line {line}" in message and "bad.csv" in message, (line, message)


# ---- types that turn out too narrow ----

@pytest.fixture(scope="module")
def misfit(tmp_path_factory):
    """A column of integers with one text, in a place that no sample sees, and a column with a late fraction."""
    path = tmp_path_factory.mktemp("misfit") / "data.csv"
    with open(path, "w") as out:
        out.write("id,n,name\n")
        for i in range(900_000):
            out.write(f"{i if i != 560_000 else '12a'},{i % 10},row {i}\n")
    return path


def test_small_files_begin_again_too(weir, tmp_path):
    """A file that one lane reads whole, where nothing is guessed, in a column that only the writer asks for."""
    path = tmp_path / "small.csv"
    with open(path, "w") as out:
        out.write("id,n\n")
        for i in range(300_000):
            out.write(f"{i},{i if i != 280_000 else 'x'}\n")
    done = weir("read", path, "then", "write", tmp_path / "out.parquet")
    assert b"line 280002" in done.stderr and b"reading again with n as string" in done.stderr
    assert pq.read_table(tmp_path / "out.parquet")["n"][280_000].as_py() == "x"


def test_a_native_plan_into_files_begins_again(weir, misfit, tmp_path):
    out = tmp_path / "out.parquet"
    done = weir("read", misfit, "then", "write", out)
    told = done.stderr.decode().splitlines()
    assert len(told) == 1
    assert "column id: '12a' in" in told[0] and "data.csv line 560002" in told[0] and \
        "reading again with id as string, not int64" in told[0]
    table = pq.read_table(out)
    assert table.schema.field("id").type == pa.string() and table.schema.field("n").type == pa.int64()
    assert table.num_rows == 900_000 and table.column("id")[560_000].as_py() == "12a"
    assert [p.name for p in tmp_path.iterdir()] == ["out.parquet"]
    # Into a folder, through steps, and with everything that rules move.
    done = weir("read", misfit, "then", "filter", "n == 3", "then", "with", "m = n * 2", "then", "select", "id,m", "then", "limit",
                "89000", "then", "write", f"{tmp_path}/folder/")
    assert "reading again" not in done.stderr.decode() or done.stderr.decode().count("\n") == 1
    table = pq.read_table(tmp_path / "folder")
    assert table.num_rows == 89_000 and set(table.column("m").to_pylist()) == {6}


def test_a_small_file_that_no_sample_saw(weir, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(300):
        (folder / f"{i:03}.csv").write_text(f"a,b\n{i},{i}\n")
    (folder / "017.csv").write_text("a,b\n1,x\n2,2.5\n")
    done = weir("read", folder, "then", "write", tmp_path / "out.parquet")
    assert done.stderr.decode().count("\n") == 1 and "017.csv line 2" in done.stderr.decode()
    assert "reading again with b as string, not int64" in done.stderr.decode()
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.schema.field("b").type == pa.string() and table.num_rows == 301
    assert table.column("a").to_pylist() == [*range(17), 1, 2, *range(18, 300)]


def test_counts_and_profiles_begin_again(weir, misfit):
    done = weir("read", misfit, "then", "filter", "id is not None", "then", "count")
    assert done.stdout == b"900000\n"
    done = weir("stats", misfit)
    assert b"id,string,900000" in done.stdout and b"reading again" in done.stderr


def test_otherwise_the_error_says_what_to_do(weir, misfit, tmp_path):
    for words, options in [
        (["read", misfit], {}),  # to a pipe: rows have been seen
        (["read", "-", "--format", "csv", "then", "write", tmp_path / "x.parquet"], {"input": misfit.read_bytes()}),
        (["read", misfit, "then", "filter", "id > 5", "then", "write", tmp_path / "x.parquet"], {}),
    ]:
        message = weir(*words, code=1, **options).stderr.decode()
        assert "column id" in message and "12a" in message and "line 560002" in message, message
        assert "--types" in message and "id=string" in message and "--infer all" in message
        assert "reading again" not in message
        assert not (tmp_path / "x.parquet").exists() and not list(tmp_path.iterdir())
    for option in (["--types", "id=string"], ["--infer", "all"]):
        assert weir("read", misfit, *option, "then", "write", tmp_path / "y.parquet", "--mode", "overwrite").stderr == b""
        assert pq.read_schema(tmp_path / "y.parquet").field("id").type == pa.string()


def test_redirected_input_can_be_read_again(weir, misfit, tmp_path):
    with open(misfit) as file:
        done = weir("read", "-", "--format", "csv", "then", "write", tmp_path / "x.parquet", stdin=file)
    assert b"reading again" in done.stderr
    assert pq.read_metadata(tmp_path / "x.parquet").num_rows == 900_000


def test_the_second_misfit_of_a_read_is_an_error(weir, misfit, tmp_path):
    """In another file: of the one in which the first was met, all that comes soon was noted with it."""
    lines = misfit.read_text().splitlines(True)
    lines[560_001] = "560000,0,x\n"
    lines[700_000] = "1,2.5,x\n"
    path = tmp_path / "two.csv"
    path.write_text("".join(lines))
    done = weir("--threads", 1, "read", misfit, path, "then", "write", tmp_path / "x.parquet", code=1)
    message = done.stderr.decode()
    assert message.count("reading again") == 1 and "two.csv" in message and "line 700001" in message and \
        "column n" in message
    assert "--types 'n=double'" in message or "--types n=double" in message
    assert not (tmp_path / "x.parquet").exists()
    # Each side of a union may begin again.
    other = tmp_path / "other.csv"
    lines[700_000] = "1,2,x\n"
    lines[560_001] = "12a,0,x\n"
    other.write_text("".join(lines).replace("id,n,name", "key,n,name"))
    weir("--threads", 2, "read", misfit, "then", "union", f"read '{other}'", "then", "write", tmp_path / "z.parquet")
    assert pq.read_schema(tmp_path / "z.parquet").field("key").type == pa.string()


# ---- many files ----

@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    for i in range(10_000):
        (folder / f"{i:05}.csv").write_text(f"a,b,c\n{i},x{i},0.5\n{i + 1},y,1.5\n")
    return folder


def test_ten_thousand_files_at_64M(weir, many, tmp_path):
    out = tmp_path / "out.parquet"
    begun = time.monotonic()
    weir("--memory-limit", "64M", "read", many, "--include-paths", "then", "write", out)
    took = time.monotonic() - begun
    table = pq.read_table(out)
    assert table.num_rows == 20_000
    assert table.column("a").to_pylist()[::2] == list(range(10_000))
    assert table.column("path")[19_999].as_py() == str(many / "09999.csv")
    assert took < 10  # the figure is in the benchmark; this catches what is quadratic
    os.remove(many / "05000.csv")
    (many / "05000.csv").symlink_to(many / "gone")
    done = weir("--memory-limit", "64M", "read", many, "--missing", "skip", "then", "count")
    assert done.stdout == b"19998\n" and b"1 path was left out" in done.stderr


def test_partitions_of_whole_paths_are_text(weir, tmp_path):
    folder = tmp_path / "year=2024" / "month=05" / "city=Z%C3%BCrich"
    folder.mkdir(parents=True)
    file = write_csv(folder / "a.csv", 0, 2)
    done = weir("read", file, "--partition-style", "hive", "--partition-base", tmp_path, "--partition-integers", "year",
                "then", "with", "next = year + 1")
    assert done.stdout.decode().splitlines() == ["a,b,year,month,city,next", "0,t0,2024,05,Zürich,2025", "1,t1,2024,05,Zürich,2025"]
    done = weir("read", tmp_path, "--partition-style", "dir", "--partition-base", tmp_path, "--partition-names", "x,y,z")
    assert rows(done)[0] == ["0", "t0", "year=2024", "month=05", "city=Z%C3%BCrich"]
    done = weir("read", file, "--partition-style", "dir", "--partition-base", tmp_path, "--partition-names", "x", code=1)
    assert b"3 folders" in done.stderr
    done = weir("read", file, "--partition-style", "hive", "--partition-integers", "city", code=1)
    assert "Zürich" in done.stderr.decode()
    assert b"need --partition-style" in weir("read", file, "--partition-names", "x", code=1).stderr


def test_keep_takes_each_row_by_itself(weir):
    counts = {t: weir("range", "3M", "then", "keep", "0.25", "--seed", 5, "then", "count", "--threads", t).stdout for t in (1, 3)}
    assert counts[1] == counts[3]
    assert abs(int(counts[1]) - 750_000) < 4 * 750  # standard deviation: sqrt(3M × 1/4 × 3/4) = 750
    assert weir("range", 100, "then", "keep", "1", "then", "count").stdout.strip() == b"100"
    assert weir("range", 100, "then", "keep", "0", "then", "count").stdout.strip() == b"0"
    first = weir("range", 1000, "then", "keep", "0.5", "--seed", 1).stdout
    assert first != weir("range", 1000, "then", "keep", "0.5", "--seed", 2).stdout
    assert first == weir("range", 1000, "then", "keep", "0.5", "--seed", 1).stdout
    assert len({weir("range", 1000, "then", "keep", "0.5", "--seed", 1, *run).stdout for run in ((), ("--run", 0), ("--run", 1))}) == 3
    for word in ("1.5", "-1", "x", ""):
        weir("range", 10, "then", "keep", word, code=1)
    weir("range", 10, "then", "keep", "0.5", "--run", "-1", code=1)


def test_files_of_a_folder_are_called_as_asked(weir, tmp_path):
    weir("range", 10, "then", "write", f"{tmp_path}/a/", "--name", "x_y", "--format", "jsonl", "--extension", ".json")
    assert os.listdir(tmp_path / "a") == ["x_y_000000.json"]
    weir("range", 10, "then", "write", f"{tmp_path}/b/", "--name", "x", "--rows-per-file", 4)
    assert sorted(os.listdir(tmp_path / "b")) == ["x_000000-0.parquet", "x_000000-1.parquet", "x_000000-2.parquet"]
    weir("range", 10, "then", "write", f"{tmp_path}/b/", "--name", "../x", code=1)
    weir("range", 10, "then", "write", f"{tmp_path}/b/", "--extension", "json", code=1)
