"""A notebook: cells of a Jupyter kernel, what arrives in their output, interrupts, restarts."""
import os
import re
import textwrap
import time
from pathlib import Path

import pytest

import weir  # noqa: F401 (these tests are of the package)
from driver_scripts import all_gone, not_sanitized, on_a_busy_machine, tree_of, wait_for, within

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.same_without, not_sanitized]  # a kernel's own modules take a minute to load there, and run no code of weir's that others do not


class Notebook:
    """A kernel, and its cells one after another."""

    def __init__(self, folder):
        jupyter = pytest.importorskip("jupyter_client")
        pytest.importorskip("ipykernel")
        (folder / "cells").mkdir(exist_ok=True)
        self.manager = jupyter.KernelManager(kernel_name="python3")
        env = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
               "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}  # cells are compared with what they print
        self.manager.start_kernel(cwd=str(folder / "cells"), env=env)
        self.connect()

    def connect(self):
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.pid = int(self.run("import os; print(os.getpid())").strip())

    def begin(self, text):
        """Starts a cell; its number is for what follows."""
        return self.client.execute(textwrap.dedent(text), store_history=True)

    def outputs(self, cell, until=None, seconds=60):
        """(kind, text) of what the cell has put out, in pieces, until it has ended, or something fits `until`."""
        end = time.monotonic() + seconds
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.1, end - time.monotonic()))
            if message["parent_header"].get("msg_id") != cell:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return
            if kind == "stream":
                yield content["name"], content["text"]
            elif kind in ("execute_result", "display_data"):
                yield "result", content["data"]["text/plain"]
            elif kind == "error":
                yield "error", content["ename"] + ": " + content["evalue"]
            if until is not None and kind == "stream" and re.search(until, content["text"]):
                return

    def text(self, cell, kinds=("stdout", "stderr", "result", "error"), **options):
        return "".join(text for kind, text in self.outputs(cell, **options) if kind in kinds)

    def run(self, text, **options):
        """What the cell prints and gives; an error in it is one here."""
        seen = list(self.outputs(self.begin(text), **options))
        assert not any(kind == "error" for kind, _ in seen), seen
        return "".join(text for _, text in seen)

    def wait_until_idle(self, cell):
        return list(self.outputs(cell))

    def close(self):
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(tmp_path):
    made = Notebook(tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_the_quick_start_in_cells(notebook):
    """Each block of docs/quickstart.md is a cell, whose output is what the document says."""
    for needed in ("pandas", "pyarrow", "torch"):
        pytest.importorskip(needed)
    notebook.run("""
        import doctest
        class Cell:
            globals = get_ipython().user_ns
            def __init__(self, text):
                test = doctest.DocTestParser().get_doctest(text, self.globals, "cell", "quickstart.md", 0)
                test.globs = self.globals  # the parser has made a copy, and cells go on where the last one ended
                runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
                runner.run(test, clear_globs=False)
                assert runner.tries and not runner.failures
    """)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/quickstart.md").read_text(), re.DOTALL)
    assert len(blocks) > 4
    for block in blocks:
        notebook.run(f"_ = Cell({block!r})", seconds=120)


def test_functions_of_cells(notebook):
    """They are of __main__, change from cell to cell, use what other cells have made, and each other."""
    notebook.run("import weir, numpy as np\nfactor = 3")
    notebook.run("def inner(x): return x * factor")
    notebook.run("class Adds:\n    def __init__(self, n): self.n = n\n    def __call__(self, batch): return {'id': inner(batch['id']) + self.n}")
    make = "weir.range(4).map_batches(Adds, fn_constructor_args=[1], concurrency=1).take_all()"
    assert notebook.run(make) == str([{"id": 3 * i + 1} for i in range(4)])
    notebook.run("factor = 5")
    assert notebook.run(make) == str([{"id": 5 * i + 1} for i in range(4)])
    notebook.run("def inner(x): return x + 100")
    assert notebook.run(make) == str([{"id": i + 101} for i in range(4)])
    seen = notebook.text(notebook.begin("weir.range(4).map(lambda row: {'x': 1 / row['id']}).take_all()"))
    assert "ZeroDivisionError" in seen


def test_prints_of_workers_arrive_in_their_cell(notebook):
    notebook.run("""
        import os, sys, weir
        def tells(row):
            print("told", row["id"])
            print("warned", row["id"], file=sys.stderr)
            return row
    """)
    for first in (0, 10):  # each in the cell that it belongs to
        cell = notebook.begin(f"n = len(weir.range(20).filter(expr=weir.col('id') >= {first}).limit(3).map(tells).take_all())")
        seen = list(notebook.outputs(cell))
        for name, word in (("stdout", "told"), ("stderr", "warned")):
            text = "".join(text for kind, text in seen if kind == name)
            assert sorted(re.findall(rf"\(Map\(tells\) pid=\d+\) {word} (\d+)", text)) == [str(first + i) for i in range(3)]


def test_prints_arrive_while_the_cell_runs(notebook, tmp_path):
    notebook.run("import os, time, weir\nfrom pathlib import Path")
    cell = notebook.begin(f"""
        def waits(row):
            print("here")
            while not Path({str(tmp_path)!r}, "go").exists():
                time.sleep(0.005)
            return row
        weir.range(1).map(waits).take_all()
    """)
    assert "here" in notebook.text(cell, until="here")
    (tmp_path / "go").touch()
    assert "{'id': 0}" in notebook.text(cell)


def test_progress_in_a_cell(notebook, tmp_path):
    """A line of text, written over and over, and nothing of it is left."""
    notebook.run("import time\nfrom pathlib import Path\nimport weir")
    assert notebook.run("weir.range(1000).map(lambda row: row).count()") == "1000"
    notebook.run("weir.set_progress_bars(True)")
    cell = notebook.begin(f"""
        def waits(batch):
            while not Path({str(tmp_path)!r}, "go").exists():
                time.sleep(0.005)
            return batch
        weir.range(1000).map_batches(waits).count()
    """)
    first = notebook.text(cell, kinds=("stderr",), until=r"MapBatches\(waits\) 0")
    assert first.startswith("\r") and "memory" in first and "\x1b" not in first
    (tmp_path / "go").touch()
    rest = list(notebook.outputs(cell))
    assert "".join(text for kind, text in rest if kind == "stderr").endswith(" \r")
    assert [text for kind, text in rest if kind == "result"] == ["1000"]
    assert "Map" in notebook.run("print(weir.range(1000).map(lambda row: row).materialize().stats())")


INTERRUPTED = {
    "take_all": "weir.range(64).map(slow, concurrency=2).take_all()",
    "iter_batches": "for batch in weir.range(64).map(slow, concurrency=2).iter_batches(batch_size=4): seen.append(len(batch['id']))",
    "write": "weir.range(64).map(slow, concurrency=2).write_parquet(folder)",
}


@pytest.mark.parametrize("name", INTERRUPTED)
@on_a_busy_machine
def test_an_interrupt_ends_the_cell_and_nothing_else(tmp_path, name):
    folder = tmp_path / str(time.monotonic_ns())
    folder.mkdir()
    notebook = Notebook(folder)
    try:
        notebook.run(f"import time, weir\nseen, folder = [], {str(folder / 'out')!r}")
        notebook.run("def slow(row):\n    print('begun')\n    time.sleep(600 if row['id'] >= 8 else 0)\n    return row")
        cell = notebook.begin(f"try:\n    {INTERRUPTED[name]}\nexcept KeyboardInterrupt:\n    print('ended', time.monotonic())\n    raise")
        begun = ""
        while begun.count("begun") < 9:  # rows that take for ever
            text = notebook.text(cell, until="begun")
            assert text, "the cell has ended"
            begun += text
        workers = tree_of(notebook.pid)
        assert workers
        interrupted = time.monotonic()
        notebook.manager.interrupt_kernel()
        text = notebook.text(cell)
        assert "KeyboardInterrupt" in text
        took = float(re.search(r"ended ([\d.]+)", text)[1]) - interrupted
        # The kernel goes on, with what it had.
        assert notebook.run("weir.range(4).map(lambda row: {'x': row['id'] + 1}).take_all()") == str([{"x": i + 1} for i in range(4)])
        if name == "iter_batches":
            assert notebook.run("seen") in ("[]", "[4]", "[4, 4]")
        assert not (folder / "out").exists()
        assert not [entry for entry in folder.iterdir() if entry.name.startswith("out")]
    finally:
        notebook.close()
    within(took, 0.5)


def test_an_interrupted_loop_may_be_begun_again(notebook):
    notebook.run("import time, weir\nds = weir.range(1000).map_batches(lambda b: b, batch_size=10)")
    cell = notebook.begin("for i, batch in enumerate(ds.iter_batches(batch_size=10)):\n    print('batch', i)\n    time.sleep(600 if i == 3 else 0)")
    assert "batch 3" in notebook.text(cell, until="batch 3")
    notebook.manager.interrupt_kernel()
    assert "KeyboardInterrupt" in notebook.text(cell)
    assert notebook.run("sum(len(batch['id']) for batch in ds.iter_batches(batch_size=10))") == "1000"


@pytest.mark.parametrize("how", ["restart", "kill", "shut down"])
def test_a_kernel_that_is_gone_leaves_no_process(notebook, how, tmp_path):
    notebook.run("import time, weir\nkept = weir.range(100000).map_batches(lambda b: b, batch_size=1000).materialize()")
    cell = notebook.begin("weir.range(4).map(lambda row: print('begun') or time.sleep(600), concurrency=2).take_all()")
    assert "begun" in notebook.text(cell, until="begun")
    processes = tree_of(notebook.pid) | {notebook.pid}
    assert len(processes) > 2
    if how == "kill":
        os.kill(notebook.pid, 9)
    elif how == "restart":
        notebook.client.stop_channels()
        notebook.manager.restart_kernel(now=True)
    else:
        notebook.manager.interrupt_kernel()
        notebook.wait_until_idle(cell)
        notebook.client.stop_channels()
        notebook.manager.shutdown_kernel(now=False)
    all_gone(processes, 20)
    if how == "restart":
        notebook.connect()
        notebook.run("import weir")
        assert notebook.run("weir.range(3).map(lambda row: {'x': row['id']}).count()") == "3"


def test_a_cell_in_an_event_loop_may_wait(notebook):
    """ipykernel runs cells inside asyncio: top-level await, and waits of weir beside it."""
    notebook.run("import asyncio, weir")
    cell = "await asyncio.sleep(0)\nasync def later(batch):\n    await asyncio.sleep(0.001)\n    return batch\nweir.range(10).map_batches(later, batch_size=2).count()"
    assert notebook.run(cell) == "10"
    wait_for(lambda: notebook.manager.is_alive())
