"""The weir command as a user meets it: chains, commands, errors, exit codes, pipes, interruption."""
import csv
import io
import json
import os
import pty
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from terminals import Terminal

SEED = 20261115


@pytest.fixture(scope="module")
def table():
    rng = random.Random(SEED)
    n = 30_000
    return pa.table({
        "orderkey": pa.array(range(n), pa.int64()),
        "price": pa.array([None if rng.random() < 0.05 else rng.random() * 105_000 for _ in range(n)], pa.float64()),
        "discount": pa.array([rng.randrange(11) / 100 for _ in range(n)], pa.float64()),
        "flag": pa.array([rng.choice(["A", "N", "R", None]) for _ in range(n)], pa.string()),
        "comment": pa.array(["zügig " * rng.randrange(8) + str(i) for i in range(n)], pa.string()),
    })


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    for i in range(5):
        pq.write_table(table.slice(i * 6000, 6000), path / f"part-{i}.parquet", row_group_size=1700)
    return path


@pytest.fixture
def weir(weir_command):
    def run(*words, code=0, **options):
        options.setdefault("timeout", 60)
        done = subprocess.run([weir_command, *map(str, words)], capture_output=True, **options)
        assert done.returncode == code, done.stderr.decode()
        return done
    return run


def read_back(path):
    files = sorted(Path(path).glob("*.parquet"))
    return pa.concat_tables([pq.read_table(f) for f in files])


def test_the_chain_of_the_manual(weir, table, folder, tmp_path):
    out = tmp_path / "out"
    weir("read", f"{folder}/*.parquet", "then", "filter", 'price > 50000 and flag in ("A","R")', "then", "with",
         "total = price * (1 - discount)", "then", "select", "orderkey,total", "then", "write", f"{out}/",
         "--memory-limit", "256M")
    keep = pc.and_kleene(pc.greater(table["price"], 50000), pc.is_in(table["flag"], pa.array(["A", "R"])))
    kept = table.filter(keep)
    total = pc.multiply(kept["price"], pc.subtract(1.0, kept["discount"]))
    result = read_back(out)
    assert result["orderkey"].to_pylist() == kept["orderkey"].to_pylist()
    assert result["total"].to_pylist() == total.to_pylist()


def test_files_are_numbered_in_input_order(weir, table, folder, tmp_path):
    weir("read", folder, "then", "write", f"{tmp_path}/out/")
    assert read_back(tmp_path / "out").equals(table)


def test_one_file_keeps_the_order(weir, table, folder, tmp_path):
    weir("read", folder, "then", "write", tmp_path / "all.parquet", "--threads", "4")
    assert pq.read_table(tmp_path / "all.parquet").equals(table)


def test_count_head_schema(weir, table, folder):
    assert weir("count", folder).stdout == b"30000\n"
    assert weir("schema", folder).stdout.decode().splitlines()[0].split(": ") == ["orderkey", "int64"]
    rows = list(csv.DictReader(io.StringIO(weir("head", folder, "-n", "3").stdout.decode())))
    assert [int(r["orderkey"]) for r in rows] == [0, 1, 2]
    assert weir("read", folder, "then", "filter", "price is None", "then", "count").stdout.strip() == \
        str(table["price"].null_count).encode()


@pytest.mark.parametrize("limit", [0, 1, 5, 4096, 4097, 10_000, 29_999, 30_000, 50_000])
@pytest.mark.parametrize("threads", [1, 4])
def test_limit_gives_the_first_rows(weir, table, folder, limit, threads):
    out = weir("read", folder, "then", "select", "orderkey", "then", "limit", limit, "--threads", threads).stdout
    assert [int(x) for x in out.decode().splitlines()[1:]] == table["orderkey"].to_pylist()[:limit]


def test_a_filter_stays_above_a_limit(weir, table, folder):
    out = weir("read", folder, "then", "limit", 100, "then", "filter", "orderkey >= 90", "then", "select", "orderkey")
    assert [int(x) for x in out.stdout.decode().splitlines()[1:]] == list(range(90, 100))


def test_jsonl_and_arrow_into_pipes(weir, table, folder):
    lines = weir("read", folder, "then", "write", "-", "--format", "jsonl").stdout.decode().splitlines()
    assert [json.loads(line) for line in lines] == table.to_pylist()
    stream = weir("read", folder, "then", "write", "-", "--format", "arrow").stdout
    assert pa.ipc.open_stream(stream).read_all().equals(table)


def test_csv_reads_back(weir, folder, table):
    text = weir("read", folder, "then", "select", "orderkey,comment,price").stdout.decode()
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["orderkey", "comment", "price"]
    assert [r[1] for r in rows[1:]] == table["comment"].to_pylist()
    assert [float(r[2]) if r[2] else None for r in rows[1:]] == table["price"].to_pylist()


def test_union_rename_drop(weir, table, folder, tmp_path):
    pq.write_table(pa.table({"orderkey": pa.array([1, 2], pa.int32()), "extra": ["x", None]}), tmp_path / "b.parquet")
    out = tmp_path / "u.parquet"
    weir("read", folder, "then", "drop", "comment,flag", "then", "rename", "price=amount", "then", "union",
         f"read {tmp_path}/b.parquet", "then", "write", out)
    result = pq.read_table(out)
    expected = pa.concat_tables([
        table.drop_columns(["comment", "flag"]).rename_columns(["orderkey", "amount", "discount"]),
        pa.table({"orderkey": pa.array([1, 2], pa.int64()), "extra": ["x", None]}),
    ], promote_options="default")
    assert result.select(expected.column_names).equals(expected)


def test_range_and_expressions(weir):
    out = weir("range", "10k", "then", "filter", "id % 1000 == 7", "then", "with", "half = id / 2").stdout.decode()
    rows = [line.split(",") for line in out.splitlines()]
    assert rows[0] == ["id", "half"] and [(int(a), float(b)) for a, b in rows[1:]] == \
        [(i, i / 2) for i in range(7, 10_000, 1000)]


def test_explain_says_what_was_pushed(weir, folder):
    text = weir("explain", f"read {folder} then filter 'price > 5' then select orderkey then limit 10").stdout.decode()
    logical, physical = text.split("Physical plan")
    assert "pruned by" not in logical and "pruned by price > 5" in physical
    assert "columns orderkey, price" in physical
    text = weir("explain", f"read {folder} then count").stdout.decode()
    assert "row counts from footers" in text


@pytest.mark.parametrize("words, part", [
    (["read"], "too few arguments"),
    (["raed", "x"], "did you mean 'read'"),
    (["read", "FOLDER", "then"], "missing after the last 'then'"),
    (["filter", "x > 1"], "cannot come first"),
    (["range", "5", "then", "read", "FOLDER"], "can only come first"),
    (["range", "5", "then", "count", "then", "write", "x"], "'count' can only come last"),
    (["range", "5", "then", "write", "x.parquet", "then", "count"], "'write' can only come last"),
    (["range", "5", "then", "union", "range 5 then count", "then", "count"], "'count' cannot end a chain that is part"),
    (["read", "FOLDER", "then", "filter", "prize > 1"], "did you mean 'price'"),
    (["read", "FOLDER", "then", "filter", "price > "], "expression"),
    (["read", "FOLDER", "then", "filter", "price + 1"], "must be true or false"),
    (["read", "FOLDER", "then", "select", "orderkey,orderkey"], "twice"),
    (["read", "FOLDER", "then", "write", "x", "--mode", "sometimes"], "append, overwrite, error or ignore"),
    (["read", "FOLDER", "then", "write", "x", "--nonsense"], "unknown option --nonsense"),
    (["read", "FOLDER", "--memory-limit", "1M"], "too small"),
    (["read", "FOLDER", "--memory-limit", "lots"], "lots"),
    (["help", "nothing"], "no verb or command"),
    (["help", "profil"], "did you mean 'profile'"),
    (["scheam", "FOLDER"], "did you mean 'schema'"),
    (["chec", "FOLDER"], "no verb or command 'chec' (weir --help"),
    (["read", "FOLDER", "then", "head"], "'head' is a command, not a verb: weir head PATH"),
])
def test_mistakes_are_named(weir_command, folder, words, part, tmp_path):
    words = [str(folder) if w == "FOLDER" else w for w in words]
    done = subprocess.run([weir_command, *words], capture_output=True, text=True, timeout=20, cwd=tmp_path)
    assert done.returncode in (1, 2), done.stderr
    assert part in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


def test_help_is_of_the_verb_before_it(weir):
    of_filter, of_verb, of_both = (weir(*words).stdout.decode() for words in (
        ["read", "x", "then", "filter", "--help"], ["range", "5", "then", "sample", "-h", "3"], ["help", "sample"]))
    assert of_filter.startswith("filter EXPRESSION") and weir("read", "--help", "x", "then", "filter").stdout.startswith(b"read PATH")
    assert of_verb.startswith("sample ROWS") and of_both.startswith("weir sample PATH") and of_both.endswith(of_verb)


def test_a_missing_file_is_named(weir):
    done = weir("count", "no/such/file.parquet", code=1)
    assert b"no/such/file.parquet" in done.stderr


def test_a_damaged_file_is_named(weir, folder, tmp_path):
    good = (folder / "part-0.parquet").read_bytes()
    (tmp_path / "bad.parquet").write_bytes(good[:len(good) // 2])
    done = weir("read", tmp_path / "bad.parquet", "then", "write", f"{tmp_path}/out/", code=1)
    assert b"bad.parquet" in done.stderr
    assert not (tmp_path / "out").exists()


def test_arithmetic_errors_name_file_and_row(weir, tmp_path):
    pq.write_table(pa.table({"a": [1, 2, 3], "b": [1, 0, 2]}), tmp_path / "t.parquet")
    done = weir("read", tmp_path / "t.parquet", "then", "with", "c = a // b", code=1)
    assert b"t.parquet" in done.stderr and b"row 1" in done.stderr
    weir("read", tmp_path / "t.parquet", "then", "filter", "b != 0", "then", "with", "c = a // b")


def test_write_modes(weir, folder, table, tmp_path):
    out = tmp_path / "out"
    weir("read", folder, "then", "limit", 10, "then", "write", f"{out}/")
    weir("read", folder, "then", "limit", 10, "then", "write", f"{out}/")
    assert read_back(out).num_rows == 20
    weir("read", folder, "then", "limit", 3, "then", "write", f"{out}/", "--mode", "overwrite")
    assert read_back(out).num_rows == 3
    weir("read", folder, "then", "write", f"{out}/", "--mode", "error", code=1)
    weir("read", folder, "then", "write", f"{out}/", "--mode", "ignore")
    assert read_back(out).num_rows == 3
    assert all(not p.name.startswith((".", "_")) for p in out.iterdir())


def test_no_rows_make_no_folder(weir, folder, tmp_path):
    weir("read", folder, "then", "filter", "orderkey < 0", "then", "write", f"{tmp_path}/out/")
    assert not (tmp_path / "out").exists()
    weir("read", folder, "then", "filter", "orderkey < 0", "then", "write", f"{tmp_path}/one.parquet")
    assert pq.read_table(tmp_path / "one.parquet").num_rows == 0
    nothing = ["read", folder, "then", "filter", "orderkey < 0", "then", "write", f"{tmp_path}/out/", "--mode"]
    weir("read", folder, "then", "limit", 3, "then", "write", f"{tmp_path}/out/")
    weir(*nothing, "append")
    assert read_back(tmp_path / "out").num_rows == 3
    weir(*nothing, "overwrite")
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    weir(*nothing, "overwrite")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("rows", [1, 7000, 4096, 30_000])
def test_row_groups_of_exactly_so_many_rows(weir, folder, table, tmp_path, rows):
    limit = 40 if rows == 1 else 30_000
    weir("read", folder, "then", "limit", limit, "then", "write", tmp_path / "x.parquet", "--row-group-rows", rows,
         "--threads", 1)
    file = pq.ParquetFile(tmp_path / "x.parquet")
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    # A split's last row group is smaller: groups never span splits.
    assert max(sizes) <= rows and sum(sizes) == limit
    weir("range", 40_000, "then", "write", tmp_path / "y.parquet", "--row-group-rows", rows * 7, "--threads", 1)
    file = pq.ParquetFile(tmp_path / "y.parquet")
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert all(size == rows * 7 for size in sizes[:-1]) and sum(sizes) == 40_000
    assert file.read()["id"].to_pylist() == list(range(40_000))


def test_memory_is_missed_where_it_was_asked_for(weir, tmp_path):
    pq.write_table(pa.table({"i": [1, 2], "s": [os.urandom(100 << 20), b"x"]}), tmp_path / "t.parquet", use_dictionary=False)
    for words in ([], ["filter", "s is not None", "then"]):
        done = weir("read", tmp_path / "t.parquet", "then", *words, "write", tmp_path / "out.parquet", "--memory-limit", "64M",
                    code=1)
        assert b"operator read" in done.stderr and b"operator write" not in done.stderr


def test_a_closed_pipe_ends_it_quietly(weir_command, folder):
    done = subprocess.run(f"{weir_command} read {folder} then write - --format jsonl | head -n 2", shell=True,
                          capture_output=True, text=True, timeout=30)
    assert len(done.stdout.splitlines()) == 2 and done.stderr == ""


def test_interruption_leaves_nothing(weir_command, tmp_path):
    run = subprocess.Popen([weir_command, "range", "100000M", "then", "with", "x = id * 3", "then", "write",
                            f"{tmp_path}/out/"], stderr=subprocess.PIPE, cwd=tmp_path)
    deadline = time.monotonic() + 20
    while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert run.wait(10) == 130
    assert time.monotonic() - began < 5
    assert b"interrupted" in run.stderr.read()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["pipe", "socket", "terminal"])
def test_interruption_while_nobody_reads(weir_command, kind):
    """The reader has stopped: a write that waits must not keep Ctrl-C waiting."""
    if kind == "pipe":
        reader, writer = os.pipe()
    elif kind == "terminal":
        reader, writer = pty.openpty()
    else:
        reader, writer = (end.detach() for end in socket.socketpair())
    run = subprocess.Popen([weir_command, "range", "100000M", "then", "write", "-", "--threads", "3"], stdout=writer,
                           stderr=subprocess.PIPE)
    assert os.read(reader, 100).startswith(b"id")
    run.send_signal(signal.SIGINT)
    try:
        assert run.wait(10) == 130
    finally:
        run.kill()
        os.close(reader)
        os.close(writer)
    assert run.stderr.read() == b"weir: interrupted\n"


def test_a_slow_reader_gets_everything(weir_command):
    run = subprocess.Popen([weir_command, "range", "300k", "--threads", "3"], stdout=subprocess.PIPE)
    text = b""
    while part := os.read(run.stdout.fileno(), 999):
        text += part
    assert run.wait(10) == 0
    assert text == b"id\n" + b"".join(b"%d\n" % i for i in range(300_000))


def test_a_terminal_sees_a_table_and_progress(weir_command, folder):
    master, slave = pty.openpty()
    run = subprocess.Popen([weir_command, "head", str(folder), "-n", "2"], stdout=slave, stderr=slave)
    os.close(slave)
    text = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:
            break
        if not part:
            break
        text += part
    assert run.wait(10) == 0
    lines = text.decode().splitlines()
    assert lines[0].split() == ["orderkey", "price", "discount", "flag", "comment"]
    assert lines[1].split()[:2] == ["int64", "double"]
    assert any("more rows" in line for line in lines)


def test_hive_partitions_become_columns(weir, tmp_path):
    for year in (2023, 2024):
        for city in ("Oslo", "Z%C3%BCrich"):
            path = tmp_path / f"year={year}" / f"city={city}"
            path.mkdir(parents=True)
            pq.write_table(pa.table({"x": [year * 10, year * 10 + 1]}), path / "a.parquet")
    out = weir("read", tmp_path, "then", "filter", "year == 2024 and city == 'Zürich'").stdout.decode()
    assert out.splitlines() == ["x,year,city", "20240,2024,Zürich", "20241,2024,Zürich"]


def test_later_files_are_matched_by_name(weir, tmp_path):
    pq.write_table(pa.table({"a": pa.array([1], pa.int64()), "b": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": ["y"], "a": pa.array([2], pa.int32()), "c": [True]}), tmp_path / "2.parquet")
    pq.write_table(pa.table({"a": pa.array([3], pa.int64())}), tmp_path / "3.parquet")
    done = weir("read", tmp_path)
    assert done.stdout.decode().splitlines() == ["a,b,c", "1,x,", "2,y,true", "3,,"] and not done.stderr
    done = weir("read", tmp_path, "--unify-schemas")
    assert done.stdout.decode().splitlines() == ["a,b,c", "1,x,", "2,y,true", "3,,"]
    pq.write_table(pa.table({"a": ["no number"]}), tmp_path / "4.parquet")
    done = weir("read", tmp_path, code=2)
    assert b"4.parquet" in done.stderr and b"1.parquet" in done.stderr
    assert b"--unify-schemas" in done.stderr
    assert b"--unify-schemas" not in weir("read", tmp_path, "--unify-schemas", code=2).stderr


def verbs_and_options(weir):
    """What the help lists: verbs and commands, the command's own options, each verb's options."""
    text = weir("--help").stdout.decode()
    verbs = re.findall(r"^  (\w+)", text.split("Verbs")[1].split("Commands")[0], re.MULTILINE)
    commands = re.findall(r"^  (\w+)", text.split("Commands:")[1].split("Options")[0], re.MULTILINE)
    options = re.findall(r"^  (?:-\w, )?(--[\w-]+)", text.split("Options")[1], re.MULTILINE)
    of_verbs = {verb: set(re.findall(r"--[a-z][\w-]+", weir("help", verb).stdout.decode())) for verb in verbs}
    assert len(verbs) >= 11 and len(commands) >= 6 and len(options) >= 8
    return verbs, commands, options, of_verbs


def test_the_manual_page_has_everything(weir):
    verbs, commands, options, of_verbs = verbs_and_options(weir)
    page = weir("man").stdout.decode()
    plain = page.replace("\\-", "-").replace("\\&", "")
    sections = [line[5:].split()[0].rstrip('"') for line in plain.splitlines() if line.startswith('.SS "')]
    assert set(sections) == set(verbs) | set(commands)
    for option in [*options, *set.union(*of_verbs.values())]:
        assert option in plain, option
    assert not re.search(r"^\.(?!\\\"|TH|SH|SS|TP|PP|B |nf|fi)", page, re.MULTILINE)
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-Kutf8"], input=page.encode(), capture_output=True)
        assert done.returncode == 0 and done.stderr == b""
        assert b"removes what it left" in done.stdout


def test_the_pages_have_everything(weir):
    verbs, commands, options, of_verbs = verbs_and_options(weir)
    text = (Path(__file__).resolve().parents[2] / "docs/cli.md").read_text()
    for word in [*verbs, *commands]:
        assert re.search(rf"(?:###.*|weir ){word}\b", text), word
    for option in [*options, *set.union(*of_verbs.values())]:
        assert option in text, option


def test_completion(weir, weir_command, tmp_path):
    verbs, commands, options, of_verbs = verbs_and_options(weir)
    (tmp_path / "weir.bash").write_bytes(weir("completion").stdout)

    def complete(*words):
        script = f"source {tmp_path}/weir.bash; COMP_WORDS=(weir {' '.join(words)}); COMP_CWORD={len(words)}; _weir; " \
                 "printf '%s\\n' \"${COMPREPLY[@]}\""
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
        return set(done.stdout.split())

    assert complete("read", "x", "then", "''") == set(verbs)
    assert set(commands) | set(options) | {"read", "range"} == complete("''")
    assert complete("read", "x", "then", "wr") == {"write"}
    assert of_verbs["write"] | set(options) <= complete("read", "x", "then", "write", "y", "--")
    assert complete("read", "x", "then", "write", "y", "--mode", "o") == {"overwrite"}
    assert complete("read", "x", "-o", "t") == {"table"}
    assert "weir.bash" in complete("read", "we")


def test_install(weir_build, tmp_path):
    meson = Path(sys.executable).with_name("meson")
    if not meson.exists() or not (weir_build / "docs/weir.1").exists():
        pytest.skip("no meson beside Python, or not built whole")
    subprocess.run([meson, "install", "-C", weir_build, "--no-rebuild", "--quiet", "--destdir", tmp_path], check=True,
                   capture_output=True)
    files = {path.name: path for path in tmp_path.rglob("*") if path.is_file()}
    by_end = {"/".join(path.parts[-3:]): path for path in tmp_path.rglob("*")}
    assert {"weir.1", "weir.pc", "weir.h", "arrow_abi.h"} <= set(files)
    assert "share/man/man1" in by_end and "share/bash-completion/completions" in by_end
    command = next(path for path in tmp_path.rglob("bin/weir"))
    assert subprocess.run([command, "--version"], capture_output=True, check=True).stdout.startswith(b"weir ")
    assert subprocess.run(["bash", "-n", by_end["share/bash-completion/completions"] / "weir"]).returncode == 0


def test_output_can_be_asked_for(weir, folder, table):
    lines = weir("head", folder, "-n", "2", "-o", "table").stdout.decode().splitlines()
    assert lines[0].split() == table.column_names and lines[-1] == "… and more rows"
    assert len(lines) == 2 + 2 + 1
    lines = weir("read", folder, "then", "select", "orderkey", "then", "limit", 3, "--output=jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [{"orderkey": i} for i in range(3)]
    stream = weir("head", folder, "-o", "arrow", "-n", "7").stdout
    assert pa.ipc.open_stream(stream).read_all().equals(table.slice(0, 7))
    assert b"ends in count" in weir("read", folder, "then", "count", "-o", "csv", code=2).stderr
    assert b"table, csv, jsonl or arrow" in weir("head", folder, "-o", "xml", code=2).stderr


@pytest.mark.parametrize("columns, wanted", [(200, r"memory .* of .* read"), (80, r"range .* › filter"), (24, r"\d:\d\d"), (10, r"%")])
def test_progress_on_a_terminal(weir_command, columns, wanted):
    shown = Terminal([weir_command, "range", "100000M", "then", "filter", "id % 7 == 1", "then", "count"], columns)
    shown.read_until(wanted)
    os.write(shown.master, b"\x03")
    assert shown.end() == 130
    lines = shown.text.replace("^C", "").split("\r\x1b[K")
    assert lines[0] == "" and lines[-1] == "weir: interrupted\r\n"
    assert len(lines) > 2 and all(len(line) <= columns - 3 for line in lines[1:-1]), lines


def test_warnings_and_progress_share_the_terminal(weir_command, tmp_path):
    """Warnings stand on lines of their own, and the last thing drawn is the result."""
    pq.write_table(pa.table({"a": pa.array(range(1000), pa.int64())}), tmp_path / "0.parquet")
    for i in range(1, 4):
        pq.write_table(pa.table({"a": pa.array(range(1000), pa.int64()), "b": [1.5] * 1000}), tmp_path / f"{i}.parquet")
    paths = [str(tmp_path)] + [str(tmp_path / "0.parquet")] * 20_000
    shown = Terminal([weir_command, "read", *paths, "then", "filter", "a >= 0", "then", "count"], 120)
    assert shown.end() == 0
    screen = []  # what stays: a carriage return and an erasure drop the line so far
    for line in shown.text.split("\r\n"):
        screen.append(line.split("\x1b[K")[-1].strip("\r"))
    assert [line for line in screen if line and "left out" not in line] == [str(1000 * 20_004)]
    assert any("left out" in line for line in screen), screen


def test_progress_in_a_pipe(weir):
    chain = ["range", "60M", "then", "filter", "id % 7 == 1", "then", "count"]
    assert weir(*chain).stderr == weir(*chain, "--progress").stderr == weir(*chain, "--progress=auto").stderr == b""
    began = time.monotonic()
    run = weir("range", "1000M", "then", "filter", "id % 7 == 1", "then", "count", "--progress=always")
    took_s = time.monotonic() - began
    assert run.stdout == b"142857143\n"
    lines = run.stderr.decode().splitlines()
    assert took_s / 2 - 1 < len(lines) < took_s + 1
    assert all(re.match(r" *\d+%  \d+:\d\d.*range", line) for line in lines) and "\x1b" not in run.stderr.decode()


@pytest.mark.parametrize("name", [b"with space", b"new\nline", "zürich ☃".encode(), b"no\xff\xfetext", b"star*[x]", b"{a,b}",
                                  b"-dash", b"a=1", b"\x1b[31m"])
def test_names_of_every_kind(weir_command, tmp_path, name):
    def run(*words, code=0):
        done = subprocess.run([weir_command, *words], capture_output=True, timeout=20, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done
    path = os.path.join(os.fsencode(tmp_path), name, name + b".parquet")
    run("range", "5", "then", "write", path)
    assert run("count", path).stdout == run("count", os.path.dirname(path)).stdout == b"5\n"
    run("range", "7", "then", "write", os.path.dirname(path) + b"/")
    assert run("count", os.path.dirname(path)).stdout == b"12\n"
    with open(path, "wb") as file:
        file.write(b"PAR1 is this Parquet? PAR1")
    message = run("count", path, code=1).stderr
    assert message.count(b"\n") == 1 and not any(c < 32 for c in message[:-1]), message
    message.decode()  # escaped where it is no text


def test_nothing_to_read(weir, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "hidden").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "hidden/.a.parquet")
    (tmp_path / "nothing.parquet").write_bytes(b"")
    for name in ("empty", "hidden", "nothing.parquet"):
        for words in (["count"], ["schema"], ["head"]):
            assert str(tmp_path / name).encode() in weir(*words, tmp_path / name, code=1).stderr
        weir("read", tmp_path / name, "then", "write", tmp_path / "out/", code=1)
        assert not (tmp_path / "out").exists()
    pq.write_table(pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.list_(pa.string()))}), tmp_path / "z.parquet")
    assert weir("count", tmp_path / "z.parquet").stdout == b"0\n"
    assert weir("read", tmp_path / "z.parquet").stdout == b"a,b\n"
    weir("read", tmp_path / "z.parquet", "then", "write", tmp_path / "zz.parquet")
    assert pq.read_table(tmp_path / "zz.parquet").equals(pq.read_table(tmp_path / "z.parquet"))


def test_no_columns(weir, tmp_path):
    weir("range", 5, "then", "drop", "id", "then", "write", tmp_path / "none.parquet")
    assert pq.ParquetFile(tmp_path / "none.parquet").metadata.num_rows == 5
    assert weir("count", tmp_path / "none.parquet").stdout == b"5\n"
    assert weir("read", tmp_path / "none.parquet", "-o", "jsonl").stdout == b"{}\n" * 5
    assert weir("head", tmp_path / "none.parquet", "-o", "table").stdout.endswith(b"5 rows\n")
    assert weir("schema", tmp_path / "none.parquet").stdout == b""


def test_ten_thousand_files_with_few_descriptors(weir, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"a": [1, 2, 3], "s": ["x", "y", None]}), folder / "00000.parquet")
    data = (folder / "00000.parquet").read_bytes()
    for i in range(1, 10_000):
        (folder / f"{i:05}.parquet").write_bytes(data)

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    assert weir("count", folder, preexec_fn=few).stdout == b"30000\n"
    weir("read", folder, "then", "filter", "a > 1", "then", "write", tmp_path / "out/", "--threads", 64, preexec_fn=few)
    assert read_back(tmp_path / "out").to_pydict() == {"a": [2, 3] * 10_000, "s": ["y", None] * 10_000}
    weir("read", folder, "then", "write", tmp_path / "one.parquet", "--threads", 64, preexec_fn=few)
    assert pq.read_table(tmp_path / "one.parquet")["a"].to_pylist() == [1, 2, 3] * 10_000


def test_reading_what_is_overwritten(weir, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for i in range(5):
        pq.write_table(pa.table({"a": list(range(i * 1000, i * 1000 + 1000))}), folder / f"{i}.parquet")
    weir("read", folder, "then", "filter", "a % 2 == 0", "then", "write", f"{folder}/", "--mode", "overwrite")
    assert read_back(folder)["a"].to_pylist() == list(range(0, 5000, 2))
    weir("read", folder, "then", "filter", "a % 4 == 0", "then", "write", f"{folder}/")
    assert sorted(read_back(folder)["a"].to_pylist()) == sorted([*range(0, 5000, 2), *range(0, 5000, 4)])
    weir("read", folder, "then", "limit", 10, "then", "write", folder / "below/")
    assert weir("count", folder).stdout == b"3760\n"
    weir("read", folder / "below", "then", "write", tmp_path / "one.parquet")
    weir("read", tmp_path / "one.parquet", "then", "limit", 4, "then", "write", tmp_path / "one.parquet", "--mode", "overwrite")
    assert pq.read_table(tmp_path / "one.parquet").num_rows == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "one.parquet"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount and to become another user")
def test_full_and_forbidden_places(weir, tmp_path):
    for path in [tmp_path, *tmp_path.parents]:
        if path.owner() == "root" and not path.stat().st_mode & 1:
            os.chmod(path, path.stat().st_mode | 0o755)
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o755)
    for target in (f"{shut}/out/", f"{shut}/", shut / "x.parquet"):
        done = weir("range", 5, "then", "write", target, code=1, preexec_fn=lambda: os.setuid(65534))
        assert str(shut).encode() in done.stderr and b"Permission denied" in done.stderr
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], capture_output=True).returncode:
        pytest.skip("cannot mount")
    try:
        weir("range", 100, "then", "write", f"{small}/old/")
        for target in (f"{small}/out/", small / "out.parquet", f"{small}/old/"):
            done = weir("range", "20M", "then", "with", "x = (id * 7919 % 1000003) ** 0.5", "then", "write", target, code=1)
            assert b"No space left" in done.stderr and str(small).encode() in done.stderr
            assert [path.name for path in small.iterdir()] == ["old"]
        assert read_back(small / "old").num_rows == 100
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["help", "read"], ["man"], ["completion"], ["schema", "FOLDER"],
                                   ["head", "FOLDER"], ["head", "FOLDER", "-o", "table"], ["count", "FOLDER"],
                                   ["read", "FOLDER", "then", "write", "-", "--format", "arrow"],
                                   ["explain", "range 5"]])
def test_an_output_that_cannot_be_written(weir_command, folder, words):
    words = [str(folder) if w == "FOLDER" else w for w in words]
    with open("/dev/full", "wb") as full:
        done = subprocess.run([weir_command, *words], stdout=full, stderr=subprocess.PIPE, timeout=20)
    assert done.returncode == 1 and b"standard output" in done.stderr


def test_closed_standard_streams(weir_command, tmp_path):
    for closed in ("<&-", "2>&-", "<&- >&- 2>&-"):
        done = subprocess.run(f"{weir_command} range 1M then write {tmp_path}/out/ --mode overwrite --stats --progress=always "
                              f"{closed}", shell=True, capture_output=True, timeout=20)
        assert done.returncode == 0
        assert read_back(tmp_path / "out")["id"].to_pylist()[-1] == 999_999
    done = subprocess.run(f"{weir_command} range 5 >&-", shell=True, capture_output=True, text=True)
    assert done.returncode == 1 and "standard output" in done.stderr


def test_columns_of_every_name(weir, tmp_path):
    names = ["a\x1b[31m", "new\nline", "größe ☃", "x" * 1000, "ü" * 400, ""]
    pq.write_table(pa.table([[1]] * len(names), names=names), tmp_path / "t.parquet")
    for words in (["schema"], ["head", "-o", "table"]):
        text = weir(*words, tmp_path / "t.parquet").stdout.decode()
        assert "\x1b" not in text and "a\\x1b[31m" in text and "größe ☃" in text
        assert "new\\nline" in text
    assert "x" * 1000 in weir("schema", tmp_path / "t.parquet").stdout.decode()
    assert "ü" * 400 in weir("schema", tmp_path / "t.parquet").stdout.decode()
    assert "\x1b" not in weir("explain", f"read {tmp_path}/t.parquet then filter 'col(\"a\x1b[31m\") > 0'").stdout.decode()
    rows = weir("head", tmp_path / "t.parquet", "-o", "jsonl").stdout
    assert json.loads(rows) == dict.fromkeys(names, 1)
