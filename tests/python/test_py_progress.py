"""What a run shows of itself while it runs: on a terminal, in one line or one for each operator; never in a pipe."""
import os
import subprocess
import sys

import pytest

import weir
from driver_scripts import not_sanitized
from terminals import Terminal, screen
from weir import _progress, _run

SCRIPT = """
import sys, time
from pathlib import Path
import weir
folder = Path(sys.argv[1])
def waits(batch):
    print("printed by a worker")
    while not (folder / "go").exists():
        time.sleep(0.005)
    return batch
class Waits:
    def __call__(self, batch):
        return batch
ds = weir.range(8000, override_num_blocks=8).map_batches(waits, batch_size=1000, concurrency=1).filter(expr="id >= 0")
ds = ds.map_batches(Waits, concurrency=1)
"""

WAYS = {
    "count": "print(ds.count())",
    "take_all": "print(len(ds.take_all()))",
    "materialize": "print(ds.materialize().count())",
    "write": "ds.write_parquet(str(folder / 'out')); print(8000)",
    "loop": "print(sum(len(batch['id']) for batch in ds.iter_batches(batch_size=1000)))",
    "ahead": "print(sum(len(batch) for batch in ds.iter_batches(batch_size=1000, batch_format='pandas')))",
    "rows": "print(sum(1 for row in ds.iter_rows()))",
}

QUICK = ("count", "loop", "rows")


def on_a_terminal(folder, code, columns=120, env=None):
    (folder / "program.py").write_text(SCRIPT + code)
    return Terminal([sys.executable, str(folder / "program.py"), str(folder)], columns, env={**os.environ, "TERM": "xterm", **(env or {})})


@not_sanitized
@pytest.mark.parametrize("way", [pytest.param(way, marks=() if way in QUICK else pytest.mark.full) for way in WAYS])
def test_a_line_for_each_operator(tmp_path, way):
    if way == "ahead":
        pytest.importorskip("pandas")
    shown = on_a_terminal(tmp_path, WAYS[way])
    shown.read_until(r"\d rows, .* memory .* of .*\r+\n   range .* rows .*/s\r+\n   MapBatches\(waits\) +0 rows +0/s  1 of 1 worker busy")
    shown.read_until(r"\n   MapBatches\(Waits\) ")
    (tmp_path / "go").touch()
    assert shown.end() == 0
    left = screen(shown.text)
    assert left[-1] == "8000" and len(left) == 9, left
    assert all(line.startswith("(MapBatches(waits) pid=") and line.endswith("printed by a worker") for line in left[:-1]), left


@not_sanitized
def test_functions_in_front_of_an_exchange(tmp_path):
    shown = on_a_terminal(tmp_path, "print(ds.sort('id', descending=True).take(1)[0]['id'])")
    shown.read_until(r"\n   MapBatches\(waits\) +0 rows +0/s  1 of 1 worker busy")
    (tmp_path / "go").touch()
    assert shown.end() == 0
    left = screen(shown.text)
    assert left[-1] == "7999" and all("printed by a worker" in line for line in left[:-1]), left


@not_sanitized
def test_what_a_loop_prints_is_not_torn(tmp_path):
    shown = on_a_terminal(tmp_path, """
ds = weir.range(4).map_batches(lambda batch: time.sleep(0.7) or batch, batch_size=1, concurrency=1)
for row in ds.iter_rows():
    print("row", row["id"])
    time.sleep(0.15)  # long enough for something to be drawn, if it were
    print("end")
""")
    assert shown.end() == 0
    assert "MapBatches" in shown.text and screen(shown.text) == [line for i in range(4) for line in (f"row {i}", "end")]


@not_sanitized
def test_an_interrupt_leaves_nothing_of_it(tmp_path):
    shown = on_a_terminal(tmp_path, "ds.count()")
    shown.read_until(r"MapBatches\(Waits\) ")
    os.write(shown.master, b"\x03")
    shown.read_until(r"KeyboardInterrupt")
    assert shown.end() != 0
    left = screen(shown.text.replace("^C", ""))
    assert left[-1] == "KeyboardInterrupt" and not any(" rows" in line for line in left), left


@not_sanitized
def test_one_line(tmp_path):
    shown = on_a_terminal(tmp_path, "print(ds.count())", env={"RAY_DATA_VERBOSE_PROGRESS": "0"})
    shown.read_until(r"range .* › MapBatches\(waits\) 0 › ")
    (tmp_path / "go").touch()
    assert shown.end() == 0
    assert screen(shown.text)[-1] == "8000" and "\n   " not in shown.text


def test_nothing_in_a_pipe(tmp_path):
    (tmp_path / "program.py").write_text(SCRIPT.replace('print("printed by a worker")', "time.sleep(0.1)") + "print(ds.count())")
    (tmp_path / "go").touch()
    done = subprocess.run([sys.executable, tmp_path / "program.py", tmp_path], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("8000\n", "", 0)


class Noted:
    def __init__(self):
        self.displays = []

    def display(self, *args, **options):
        self.displays.append((args, options))


@pytest.fixture
def noted(monkeypatch):
    """What is asked for where stderr is a terminal: the call's options, or None."""
    monkeypatch.setattr(_progress, "target", lambda: 2)

    def ask(**changes):
        context = weir.DataContext.get_current().copy()
        for name, value in changes.items():
            setattr(context.execution_options if name == "verbose_progress" else context, name, value)
        task, run = Noted(), _run.Run(weir.range(1)._op, context)
        _progress.begin(task, run)
        return task.displays[0][1] if task.displays else None

    return ask


def test_settings(noted):
    assert noted() == {"operators": True, "whole_names": False, "asking": None}
    assert noted(enable_progress_bars=False) is None
    assert not noted(verbose_progress=False)["operators"]
    assert not noted(enable_operator_progress_bars=False)["operators"]
    assert noted(enable_progress_bar_name_truncation=False)["whole_names"]


def test_for_all_datasets(noted):
    before = weir.set_progress_bars(False)
    try:
        assert before is True and noted() is None and weir.set_progress_bars(True) is False and noted() is not None
    finally:
        weir.set_progress_bars(before)


@pytest.mark.parametrize("text, shown", [("1", False), ("0", True)])
def test_environment(text, shown):
    done = subprocess.run([sys.executable, "-c", "import weir; print(weir.DataContext().enable_progress_bars)"], capture_output=True,
                          text=True, env={**os.environ, "RAY_DATA_DISABLE_PROGRESS_BARS": text}, timeout=60)
    assert done.stdout == f"{shown}\n", done.stderr


def test_where(monkeypatch):
    class Stream:
        def __init__(self, terminal):
            self.terminal = terminal

        def isatty(self):
            return self.terminal

        def fileno(self):
            return 7

    monkeypatch.setenv("TERM", "xterm")
    for stream, found in ((Stream(True), 7), (Stream(False), None), (None, None), (object(), None)):
        monkeypatch.setattr(sys, "stderr", stream)
        assert _progress.target() == found
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stderr", Stream(True))
    assert _progress.target() is None
