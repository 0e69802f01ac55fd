"""The command lines of the documents and of the command's own help run, in a folder that has the files they speak of."""
import gzip
import io
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")  # which an example reads with

pytestmark = pytest.mark.same_without
ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/cli.md", "docs/formats.md", "docs/memory.md"]
FILES = """
range 40 then with 'orderkey = id, price = id * 50.5, discount = 0.1, tax = 0.2, flag = "A" if id % 3 == 0 else "R", name = "Zoe", comment = "", shipdate = date("2024-05-06")' then drop id then write data/
read data/ then write data/2024-05/part.parquet
range 40 then select 'custkey = id % 7, customer = id % 7, day = id % 5, year = 2024, price = id * 50.5, flag = "A"' then write orders/
range 7 then select 'custkey = id, age = 28 + id, name = "Zoe"' then write customers.parquet
range 7 then select 'customer = id, name = "Zoe"' then write customers.csv
range 7 then with 'age = 28 + id' then write customers/
range 5 then select 'y = id' then write a/
range 5 then select 'x = id' then write b/
read a/ then write a.parquet
read b/ then write b.parquet
range 9 then with 'region = "n", year = 2024, price = 1.5' then write sales.csv.gz
convert sales.csv.gz sales.csv
convert sales.csv.gz in.csv --delimiter ';'
convert sales.csv.gz log.csv.gz
convert sales.csv.gz data.csv
convert sales.csv.gz in/part.csv.gz
convert sales.csv.gz in/part.json.gz
convert sales.csv.gz logs/part.jsonl.gz
convert sales.csv.gz table.arrow
range 3 then with 'label = id, image = "x"' then write train.tfrecords
range 3 then with 'label = id, image = "x"' then write shards/part.tfrecord.gz --format tfrecord
"""


def commands_in(text):
    """Lines of an indented block that call weir, without what is said about them; those with … or VERB in them are patterns."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        found = re.match(r" {2,}(?:\$ )?((?:z?cat [\w.]+ \| )?weir .+?)(?: {3,}[^ ].*)?$", line)
        if found and "…" not in found[1] and "VERB" not in found[1]:
            yield found[1]


@pytest.fixture(scope="module")
def shell(weir_command):
    # The command of the build, this Python, and those that read what is shown, which need not be installed.
    stands = [f'weir() {{ "{weir_command}" "$@"; }}', f'python3() {{ "{sys.executable}" "$@"; }}', *(f"{name}() {{ cat >/dev/null; }}" for name in ("jq", "less", "man"))]
    return lambda folder, line: subprocess.run(["bash", "-o", "pipefail", "-c", "\n".join([*stands, line])], cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def files(shell, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for line in FILES.strip().splitlines():
        done = shell(folder, f"weir {line}")
        assert done.returncode == 0, (line, done.stderr)
    # Texts, bytes and archives, which weir reads and does not write.
    (folder / "events.jsonl").write_text('{"user":{"age":31}}\n{"user":{"age":3}}\n')
    (folder / "notes.txt").write_text("a line\n")
    (folder / "sales.txt").write_text("region;price\nn;1.5\n")
    (folder / "logs/part.log.gz").write_bytes(gzip.compress(b"a line\n"))
    (folder / "images").mkdir()
    (folder / "images/part.bin").write_bytes(b"\x00\xff")
    for path in (folder / "shard-000.tar", folder / "shards/part.tar"):
        with tarfile.open(path, "w") as archive:
            member = tarfile.TarInfo("sample.cls")
            member.size = 1
            archive.addfile(member, io.BytesIO(b"7"))
    return folder


@pytest.fixture
def run(shell, files, tmp_path):
    shutil.copytree(files, tmp_path / "work")
    return lambda line: shell(tmp_path / "work", line)


@pytest.mark.parametrize("page", [*PAGES, "help"])
def test_commands_run(run, page):
    if page == "help":
        listed = run("weir --help").stdout
        names = set(re.findall(r"^  (\w+)", listed.split("Verbs")[1].split("Options")[0], re.MULTILINE)) - {"help"}
        text = "".join(run(f"weir help {name}").stdout for name in sorted(names))
    else:
        text = (ROOT / page).read_text().replace("range 20M", "range 20k")
    lines = list(commands_in(text))
    assert lines
    for line in lines:
        done = run(line)
        assert done.returncode == 0, (line, done.stderr)


def test_the_first_example_prints_what_the_page_says(run):
    block = re.search(r"## A first example\n\n(.*?)\n\n\S", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    run("rm -r orders")
    for part in re.sub(r"\\\n\s*", " ", block).split("    $ ")[1:]:
        line, *said = part.rstrip("\n").split("\n")
        done = run(line.replace("range 20M", "range 200k") + (" -o table" if " head " in line else ""))
        assert done.returncode == 0, (line, done.stderr)
        if " count " not in line:
            assert done.stdout.splitlines() == [text[4:] for text in said], line
