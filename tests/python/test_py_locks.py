"""Who asks about a run while the run asks Python for its rows: neither waits for the other."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import weir
from weir import _watch


def test_stats_of_a_run_whose_rows_come_from_python(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks: list[Any] = []
    watch = _watch.watch

    def seen(task: Any, *args: Any) -> Any:
        tasks.append(task)
        return watch(task, *args)

    monkeypatch.setattr(_watch, "watch", seen)
    over = threading.Event()
    asked = [0]

    def ask() -> None:
        while not over.is_set():
            for task in tasks[-3:]:
                try:
                    asked[0] += len(task.stats())
                except ValueError:  # it was closed
                    pass

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        ds = weir.range(100_000, override_num_blocks=200).mix(weir.range(100_000, override_num_blocks=150))
        for _ in range(3):
            assert sum(len(batch["id"]) for batch in ds.filter(expr="id % 2 == 0").iter_batches(batch_size=1000)) == 100_000
    finally:
        over.set()
        sys.setswitchinterval(interval)
    thread.join(60)
    assert not thread.is_alive() and asked[0] and tasks
