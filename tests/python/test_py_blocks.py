"""Blocks and calls of weir._weir: rows that are kept, steps in worker processes, and what is left when they are dropped."""
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from driver_scripts import not_sanitized, on_a_busy_machine, rest_of, within
from weir import _weir

LIMIT = 256 << 20


def flow_of(*steps, session=None):
    flow = _weir.Flow(session or _weir.Session(memory_limit=LIMIT, threads=2))
    for verb, *words in steps:
        flow.step(verb, words)
    return flow


def kept(flow):
    task = flow.start("blocks")
    task.wait()
    return task.blocks()


def ids(batches):
    return [row["id"] for batch in batches for row in batch.rows()]


# ---- blocks ----

def test_blocks_are_read_any_number_of_times():
    session = _weir.Session(memory_limit=LIMIT)
    blocks = kept(flow_of(("range", "100000"), ("filter", "id % 2 == 0"), session=session))
    assert sum(block.num_rows for block in blocks) == 50000
    assert ids(block.batch() for block in blocks) == list(range(0, 100000, 2))
    assert all(block.nbytes == 8 * block.num_rows for block in blocks)
    assert [field[:2] for field in blocks[0].schema()] == [("id", "int64")]
    for _ in range(2):
        flow = flow_of(session=session)
        flow.read_blocks(blocks)
        flow.step("filter", ["id % 10 == 0"])
        assert ids(flow.start()) == list(range(0, 100000, 10))


def test_blocks_and_batches_of_anywhere_are_read_together():
    """Also those of other sessions and of Python values, after everything else about them is gone."""
    session = _weir.Session(memory_limit=LIMIT)
    mixed = kept(flow_of(("range", "10"), session=session))
    mixed += list(flow_of(("range", "20")).start())
    mixed.append(_weir.batch_from_rows([{"id": 30}, {"id": 31}]))
    mixed += [mixed[1].slice(5, 7)]
    flow = flow_of(session=session)
    flow.read_blocks(mixed)
    del mixed, session
    gc.collect()
    assert ids(flow.start()) == [*range(10), *range(20), 30, 31, 5, 6]
    task = flow.start()
    del flow
    gc.collect()
    assert ids(task) == [*range(10), *range(20), 30, 31, 5, 6]


def test_batches_of_blocks_outlive_them():
    blocks = kept(flow_of(("range", "1000")))
    batches = [block.batch() for block in blocks]
    del blocks
    gc.collect()
    assert ids(batches) == list(range(1000))


def test_blocks_of_different_columns_are_unified():
    flow = flow_of()
    flow.read_blocks([_weir.batch_from_rows([{"a": 1}]), _weir.batch_from_rows([{"a": 2.5, "b": "x"}])])
    assert [row for batch in flow.start() for row in batch.rows()] == [{"a": 1.0, "b": None}, {"a": 2.5, "b": "x"}]


@not_sanitized
@pytest.mark.parametrize("threads", [2, 16])
def test_more_blocks_than_memory_are_spilled(tmp_path, threads):
    session = _weir.Session(memory_limit=128 << 20, spill_dir=tmp_path, threads=threads)
    blocks = kept(flow_of(("range", "40000000"), session=session))
    assert sum(block.nbytes for block in blocks) > 300_000_000
    flow = flow_of(session=session)
    flow.read_blocks(blocks)
    total = last = 0
    for batch in flow.start():
        total += batch.num_rows
        last = batch.slice(batch.num_rows - 1).rows()[0]["id"]
    assert (total, last) == (40000000, 39999999)
    assert session.memory()["peak"] <= (128 << 20) * 1.1


def test_what_are_no_blocks_is_refused():
    flow = flow_of()
    with pytest.raises(TypeError, match="Batch"):
        flow.read_blocks([3])
    with pytest.raises(TypeError):
        flow.read_blocks(3)
    with pytest.raises(_weir.InvalidError):
        flow_of().read_blocks([])
    task = flow_of(("range", "3")).start("blocks")
    with pytest.raises(ValueError, match="no rows"):
        task.next()
    task.wait()
    assert [block.num_rows for block in task.blocks()] == [3]
    failed = flow_of(("range", "3"), ("with", "x = 1 // (id - 1)")).start("blocks")
    with pytest.raises(ZeroDivisionError):
        failed.wait()
    with pytest.raises(ValueError, match="not well"):
        failed.blocks()


# ---- calls ----

@pytest.mark.parametrize("arguments, error", [
    (({"name": "f", "nothing": 1}, (0, 0), None), TypeError),
    (({"name": "f", "slots_max": -1}, (0, 0), None), ValueError),
    (({"name": "f", "batch_rows": "many"}, (0, 0), None), TypeError),
    (({}, (0, 0), None), TypeError),
    (({"name": "f"}, (0, 0), None), TypeError),
    (({"name": "f"}, (0, 0), 3), TypeError),
    (({"name": "f"}, 3, None), TypeError),
    (([("name", "f")], (0, 0), None), TypeError),
])
def test_calls_are_checked(arguments, error):
    with pytest.raises(error):
        flow_of(("range", "3")).call(*arguments)


def test_zygotes_are_checked():
    with pytest.raises(ValueError, match="empty"):
        _weir.Zygote([])
    with pytest.raises(TypeError):
        _weir.Zygote(3)
    with pytest.raises((TypeError, AttributeError)):
        _weir.Zygote(["/bin/true"], env=3)
    zygote = _weir.Zygote(["/bin/cat"])
    os.kill(zygote.pid, 0)
    zygote.close()
    zygote.close()
    with pytest.raises(ValueError, match="closed"):
        zygote.pid
    with pytest.raises(ValueError, match="closed"):
        flow_of(("range", "3")).call({"name": "f"}, (0, 0), zygote)


FUNCTION = textwrap.dedent("""
    import os, signal, sys, time
    import weir
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    def slow(batch):
        print("began", os.getpid(), flush=True)
        time.sleep(0.05)
        return batch
    weir.init(memory_limit=512 << 20)
    dataset = weir.range(1_000_000, override_num_blocks=200).map_batches(slow, batch_size=1000, concurrency=2)
    """)


def processes_of(marker):
    """Living processes that have the text in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if marker.encode() in file.read():
                    with open(f"/proc/{pid}/stat") as file:
                        if file.read().rsplit(")", 1)[1].split()[0] != "Z":
                            found.append(int(pid))
        except OSError:
            continue
    return found


def none_left(marker, within_s=5):
    deadline = time.monotonic() + within_s
    while processes_of(marker):
        if time.monotonic() > deadline:
            return False
    return True


def started(program, marker):
    env = dict(os.environ, WEIR_TEST_MARKER=marker)
    return subprocess.Popen([sys.executable, "-c", FUNCTION + textwrap.dedent(program)], env=env, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("ending, status", [("pass", 0), ("sys.exit(3)", 3), ("os._exit(4)", 4),
                                            ("os.kill(os.getpid(), 9)", -9), ("os.kill(os.getpid(), 15)", -15)])
@on_a_busy_machine
def test_no_process_survives_a_driver_that_ends_in_the_midst(ending, status):
    marker = f"weir-test-{os.getpid()}-{time.monotonic_ns()}"
    driver = started(f"""
        iterator = iter(dataset.iter_batches(batch_size=None))
        first = next(iterator)
        print("one", time.monotonic(), flush=True)
        {ending}
        """, marker)
    output, errors = driver.communicate(timeout=60)
    ended = time.monotonic()
    assert driver.returncode == status, errors
    assert errors == ""
    begun = [line for line in output.splitlines() if line.startswith("one ")]
    assert len(begun) == 1
    assert none_left(f"WEIR_TEST_MARKER={marker}")
    within(ended - float(begun[0].split()[1]), 1.5)


@on_a_busy_machine
def test_ctrl_c_ends_a_wait_for_functions():
    marker = f"weir-test-{os.getpid()}-{time.monotonic_ns()}"
    driver = started("""
        print("waits", flush=True)
        try:
            dataset.count()
        except KeyboardInterrupt:
            print("interrupted", time.monotonic(), flush=True)
            raise
        """, marker)
    lines = iter(driver.stdout.readline, "")
    assert any("began" in line for line in lines)
    sent = time.monotonic()
    driver.send_signal(signal.SIGINT)
    rest, errors = rest_of(driver, 60)
    assert driver.returncode == -signal.SIGINT, errors
    said = [line for line in rest.splitlines() if line.startswith("interrupted")]
    assert none_left(f"WEIR_TEST_MARKER={marker}")
    within(float(said[0].split()[1]) - sent, 0.5)


def test_leaving_a_loop_stops_the_workers():
    marker = f"weir-test-{os.getpid()}-{time.monotonic_ns()}"
    driver = started("""
        for batch in dataset.iter_batches(batch_size=None):
            break
        del batch
        weir.shutdown()
        print("over", flush=True)
        sys.stdin.readline()
        """, marker)
    assert any(line == "over\n" for line in iter(driver.stdout.readline, ""))
    try:
        deadline = time.monotonic() + 5
        while processes_of(f"WEIR_TEST_MARKER={marker}") != [driver.pid]:
            assert time.monotonic() < deadline, processes_of(f"WEIR_TEST_MARKER={marker}")
    finally:
        driver.kill()
        driver.communicate()
