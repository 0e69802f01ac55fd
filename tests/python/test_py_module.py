"""The extension as a module: what it exports, what importing it costs and brings along."""
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HEAVY = {"numpy", "pandas", "pyarrow", "torch", "cloudpickle", "multiprocessing", "asyncio", "concurrent"}
# What `import weir` may bring beyond the bare interpreter: the package itself and the cheap part of the standard library.
IMPORTED_MAX = 60


def python(program, *args, **options):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program), *map(str, args)], capture_output=True, text=True,
                          timeout=120, **options)


def modules_after(program, *args):
    ended = python(textwrap.dedent(program) + "\nimport json, sys; print('\\n' + json.dumps(sorted(sys.modules)))", *args)
    assert ended.returncode == 0, ended.stderr
    return set(json.loads(ended.stdout.splitlines()[-1]))


def heavy(modules):
    return {name.split(".")[0] for name in modules} & HEAVY


def test_only_the_init_function_is_exported(weir_build):
    (extension,) = (weir_build / "python/weir").glob("_weir*.so")
    assert extension.name == "_weir.abi3.so"
    out = subprocess.run(["nm", "-D", "--defined-only", str(extension)], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[2] for line in out.splitlines() if line.split()[1] in "TDBRVW"}
    if not exported - {"PyInit__weir"} <= set():
        # A sanitizer's own marks are in a sanitized build.
        exported = {name for name in exported if not name.startswith(("__asan", "__odr_asan", "__ubsan"))}
    assert exported == {"PyInit__weir"}


def test_nothing_but_the_extension_knows_python():
    source = Path(__file__).resolve().parents[2] / "src"
    assert {path.relative_to(source).parts[0] for path in source.rglob("*.[ch]") if "Python.h" in path.read_text()} == {"pyext"}


def test_import_is_lean():
    bare = modules_after("pass")
    imported = modules_after("import weir") - bare
    assert "weir" in imported
    assert not heavy(imported)
    assert len(imported) <= IMPORTED_MAX, sorted(imported)


def test_native_plans_load_nothing_heavy(tmp_path):
    """The handles, then the package: take, show, count, schema, limit, filters, reading and writing."""
    modules = modules_after("""
        import sys
        from weir import _weir
        session = _weir.Session()
        flow = _weir.Flow(session)
        flow.step("range", ["1000"])
        assert flow.schema().names == ["id"]
        task = flow.start("count")
        task.wait()
        assert task.stats()["rows_out"] == 1000
        rows = []
        for batch in flow.start():
            rows += batch.rows()
        assert rows[17] == {"id": 17} and len(rows) == 1000
        flow.step("write", [sys.argv[1]])
        flow.start("sink").wait()
        """, tmp_path / "out.parquet")
    assert not heavy(modules)
    assert (tmp_path / "out.parquet").exists()
    modules = modules_after("""
        import sys
        import weir
        dataset = weir.range(1000).filter(expr="id % 2 == 0")
        assert dataset.take(2) == [{"id": 0}, {"id": 2}]
        assert dataset.count() == 500
        dataset.limit(3).show()
        dataset.write_parquet(sys.argv[1])
        again = weir.read_parquet(sys.argv[1])
        assert again.schema().names == ["id"]
        assert again.take_all() == dataset.take_all()
        again.write_csv(sys.argv[1] + "-csv")
        """, tmp_path / "folder")
    assert not heavy(modules)
    assert list((tmp_path / "folder").iterdir()) and list((tmp_path / "folder-csv").iterdir())


def test_import_starts_nothing():
    ended = python("""
        import os
        def look():
            return sorted(os.listdir("/proc/self/fd")), os.listdir("/proc/self/task")
        before = look()
        import weir
        assert look() == before, (before, look())
        """)
    assert ended.returncode == 0, ended.stderr


def test_import_time_is_reported(record_property):
    """No limit here, where other tests run beside it; bench/ has one. The modules above are what it depends on."""
    took = python("""
        import time
        start = time.perf_counter()
        import weir
        print((time.perf_counter() - start) * 1000)
        """)
    assert took.returncode == 0, took.stderr
    record_property("import_ms", float(took.stdout))
    print(f"import weir: {float(took.stdout):.1f} ms")


def test_two_interpreters_in_turn_have_their_own_types():
    ended = python("""
        import importlib, sys
        from weir import _weir as first
        del sys.modules["weir._weir"]
        second = importlib.import_module("weir._weir")
        assert first is not second and first.Error is not second.Error and first.Session is not second.Session
        try:
            second.Flow(first.Session())
        except TypeError:
            pass
        else:
            raise AssertionError("a session of another module was taken")
        """)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.full
def test_the_stub_says_what_is_there(weir_build, tmp_path):
    pytest.importorskip("mypy")
    env = dict(os.environ, MYPYPATH=str(weir_build / "python"))
    ended = subprocess.run([sys.executable, "-m", "mypy.stubtest", "weir._weir"], capture_output=True, text=True, env=env,
                           cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
