"""The wheel of `make wheel` (build/wheels): its tag, its ABI, what it contains, and that it works where nothing else is."""
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.same_without

ROOT = Path(__file__).resolve().parents[2]
# What every Linux of the tag has: glibc's own, and what the rules of manylinux allow beside it.
SYSTEM = re.compile(r"^(?:libc|libm|libpthread|libdl|librt|libz|libgcc_s|libstdc\+\+|ld-linux-x86-64)\.so(?:\.\d+)?$")


@pytest.fixture(scope="module")
def wheel():
    wheels = sorted((ROOT / "build/wheels").glob("weir-*.whl"))
    if not wheels:
        pytest.skip("there is no wheel: make wheel")
    assert len(wheels) == 1, wheels
    return wheels[0]


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def empty_environment(wheel, tmp_path_factory):
    """A Python with nothing but pip and the wheel, and none of this process's paths."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    venv.create(folder, with_pip=False)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LD_", "WEIR", "ASAN"))}
    site = subprocess.run([folder / "bin/python", "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"],
                          capture_output=True, text=True, check=True, env=env).stdout.strip()
    subprocess.run([sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet", "--no-index", "--no-deps",
                    "--disable-pip-version-check", wheel], check=True, env=env)
    return folder / "bin/python", env, Path(site)


def test_the_tag_is_one_wheel_for_all(wheel):
    assert re.fullmatch(r"weir-[\d.]+-cp311-abi3-manylinux_2_36_x86_64\.whl", wheel.name), wheel.name


def test_auditwheel_agrees_with_the_tag(wheel):
    env = dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True, check=True, env=env)
    consistent = re.search(r'consistent\s+with\s+the\s+following\s+platform\s+tag:\s+"manylinux_2_(\d+)_x86_64"', shown.stdout)
    assert consistent and int(consistent.group(1)) <= 36, shown.stdout


def test_it_uses_the_limited_api_alone(wheel):
    ended = subprocess.run([sys.executable, "-m", "abi3audit", "--strict", "--report", wheel], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_it_contains_every_library_that_it_needs(unpacked):
    inside = {path.name for path in unpacked.rglob("*.so*")}
    for path in unpacked.rglob("*.so*"):
        out = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
        for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", out):
            assert needed in inside or SYSTEM.match(needed), f"{path.name} needs {needed}"


def test_it_contains_the_package_and_nothing_else(unpacked):
    source = {str(path.relative_to(ROOT / "python")) for path in (ROOT / "python/weir").rglob("*")
              if path.is_file() and "__pycache__" not in path.parts}
    packed = {str(path.relative_to(unpacked)) for path in (unpacked / "weir").rglob("*") if path.is_file()}
    assert packed == source | {"weir/_weir.abi3.so"}
    assert {path.name for path in unpacked.iterdir()} == {"weir", "weir.libs", next(unpacked.glob("*.dist-info")).name}
    metadata = (next(unpacked.glob("*.dist-info")) / "METADATA").read_text()
    assert re.search(r"^Requires-Dist: numpy", metadata, re.MULTILINE)
    assert re.search(r"^Requires-Dist: cloudpickle", metadata, re.MULTILINE)
    assert re.search(r"^Requires-Python: >=3\.11$", metadata, re.MULTILINE)


def test_it_works_where_nothing_else_is(empty_environment, tmp_path):
    python, env, site = empty_environment
    program = """
import sys
import weir
from weir import _weir
assert weir.__file__.startswith(sys.argv[1]), weir.__file__
flow = _weir.Flow(_weir.Session(memory_limit=256 << 20))
flow.step("range", ["100000"])
flow.step("with", ["name = 'row ' + str(id)"])
flow.step("write", [sys.argv[2]], {"compression": "zstd"})
flow.start("sink").wait()
flow = _weir.Flow(_weir.Session(memory_limit=256 << 20))
flow.step("read", [sys.argv[2]])
flow.step("filter", ["id % 10 == 7"])
rows = [row for batch in flow.start() for row in batch.rows()]
assert len(rows) == 10000 and rows[1] == {"id": 17, "name": "row 17"}, rows[:2]
assert "numpy" not in sys.modules
"""
    ended = subprocess.run([python, "-c", program, site, tmp_path / "out.parquet"], capture_output=True, text=True, env=env,
                           cwd=tmp_path, timeout=60)
    assert ended.returncode == 0, ended.stderr


def test_functions_work_in_an_empty_environment(empty_environment, tmp_path):
    """With the two packages that it requires, and no other."""
    python, env, site = empty_environment
    for name in ("numpy", "cloudpickle"):
        package = Path(__import__(name).__file__).parent
        for found in (package, package.parent / f"{name}.libs"):
            if found.exists() and not (site / found.name).exists():
                (site / found.name).symlink_to(found)
    (tmp_path / "script.py").write_text("""
import sys
import weir

def double(batch):
    return {"x": batch["id"] * 2}

class Add:
    def __init__(self, more):
        self.more = more
    def __call__(self, row):
        return {"y": row["x"] + self.more}

if __name__ == "__main__":
    dataset = weir.range(10000).map_batches(double).map(Add, fn_constructor_args=(1,), concurrency=2)
    assert dataset.take(2) == [{"y": 1}, {"y": 3}]
    assert dataset.sum("y") == sum(2 * i + 1 for i in range(10000))
    assert not {"pandas", "pyarrow", "torch"} & set(sys.modules)
""")
    ended = subprocess.run([python, tmp_path / "script.py"], capture_output=True, text=True, env=env, cwd=tmp_path, timeout=60)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("interpreter", ["python3.12", "python3.13", "python3.14"])
def test_it_works_with_later_pythons(wheel, tmp_path, interpreter):
    """One wheel for all: whatever other Pythons this machine has."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LD_", "WEIR", "ASAN"))}
    try:
        subprocess.run([interpreter, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True, env=env, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"there is no {interpreter}")
    python = tmp_path / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps",
                    "--disable-pip-version-check", wheel], check=True, env=env)
    program = """
import weir
dataset = weir.range(100000).filter(expr="id % 2 == 0")
assert dataset.take(2) == [{"id": 0}, {"id": 2}] and dataset.count() == 50000
dataset.write_parquet("out")
assert weir.read_parquet("out").count() == 50000
try:
    dataset.filter(expr="nothing > 1").take(1)
except KeyError:
    pass
iterator = iter(weir.range(10**9).iter_rows())
assert next(iterator) == {"id": 0}
"""
    ended = subprocess.run([python, "-c", program], capture_output=True, text=True, env=env, cwd=tmp_path, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
