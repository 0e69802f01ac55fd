"""Sessions, flows and tasks of weir._weir: running, failing, stopping, signals, forks, the end of the interpreter."""
import errno
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from driver_scripts import on_a_busy_machine, within
from weir import _weir

ENDLESS = "10000000000000"
LIMIT = 256 << 20


def flow_of(*steps, session=None):
    flow = _weir.Flow(session or _weir.Session(memory_limit=LIMIT, threads=2))
    for verb, *words in steps:
        flow.step(verb, words)
    return flow


def endless(**options):
    """Runs until it is stopped, without a single row."""
    return flow_of(("range", ENDLESS), ("filter", "id < 0"), **options)


def python(program, *args, **options):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program), *map(str, args)], capture_output=True, text=True,
                          timeout=120, **options)


def threads():
    return len(os.listdir("/proc/self/task"))


# ---- running ----

def test_rows_come_in_order():
    task = flow_of(("range", "100000"), ("filter", "id % 3 == 0")).start(batch_rows=1000)
    ids = [row["id"] for batch in task for row in batch.rows()]
    assert ids == list(range(0, 100000, 3))
    assert task.next() is None
    assert task.next() is None
    stats = task.stats()
    assert stats["finished"] is True
    assert stats["rows_in"] == 100000 and stats["rows_out"] == len(ids)
    assert [operator["name"] for operator in stats["operators"]] == ["range", "filter"]


def test_batches_outlive_everything():
    flow = flow_of(("range", "1000"))
    batches = list(flow.start())
    del flow
    gc.collect()
    assert sum(len(batch.rows()) for batch in batches) == 1000


def test_a_flow_runs_any_number_of_times_and_its_copies_go_their_way():
    flow = flow_of(("range", "10"))
    copy = flow.copy()
    copy.step("limit", ["3"])
    assert [batch.num_rows for batch in flow.start()] == [10]
    assert [batch.num_rows for batch in flow.start()] == [10]
    assert [batch.num_rows for batch in copy.start()] == [3]


def test_count_and_sink(tmp_path):
    flow = flow_of(("range", "5000"))
    task = flow.start("count")
    task.wait()
    task.wait()
    assert task.stats()["rows_out"] == 5000
    with pytest.raises(_weir.InvalidError, match="nothing becomes of the rows"):
        flow.start("sink")
    flow.step("write", [tmp_path / "a.parquet"], {"compression": "zstd"})
    flow.start("sink").wait()
    read = flow_of(("read", os.fspath(tmp_path / "a.parquet")))
    assert sum(batch.num_rows for batch in read.start()) == 5000
    assert read.schema().names == ["id"] and read.schema().num_rows == 0


def test_paths_need_not_be_text(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.csv"
    with open(path, "wb") as file:
        file.write(b"a\n1\n2\n")
    for given in (path, os.fsdecode(path)):
        assert [row for batch in flow_of(("read", given)).start() for row in batch.rows()] == [{"a": 1}, {"a": 2}]
    with pytest.raises(FileNotFoundError) as caught:
        flow_of(("read", path + b".not")).start()
    assert os.fsencode(caught.value.filename) == path + b".not"


def test_chain_and_union():
    flow = flow_of(("range", "3"))
    flow.chain("with 'x = id * 2' then drop id")
    other = flow_of(("range", "2"), ("with", "x = id + 100"), ("drop", "id"))
    flow.union(other)
    assert [row["x"] for batch in flow.start() for row in batch.rows()] == [0, 2, 4, 100, 101]
    assert "union" in flow.explain()
    with pytest.raises(TypeError, match="Flow"):
        flow.union(3)


def test_a_stream_is_read_once():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
    flow = flow_of()
    flow.read_stream(table)
    assert flow.schema().names == ["a", "b"]
    assert [row for batch in flow.start() for row in batch.rows()] == table.to_pylist()
    with pytest.raises(_weir.InvalidError, match="once"):
        flow.start()
    with pytest.raises(AttributeError):
        flow_of().read_stream(3)


def test_a_stream_of_the_program_is_released_when_nobody_reads_it():
    pyarrow = pytest.importorskip("pyarrow")
    alive = pyarrow.total_allocated_bytes()
    flow = flow_of()
    flow.read_stream(pyarrow.table({"a": pyarrow.array(range(100000))}))
    del flow
    gc.collect()
    assert pyarrow.total_allocated_bytes() == alive


def test_a_stream_made_by_python_code_runs_beside_the_consumer():
    """Its producer needs the GIL in the engine's threads while the consumer waits."""
    pyarrow = pytest.importorskip("pyarrow")
    schema = pyarrow.schema([("a", pyarrow.int64())])

    def batches():
        for i in range(50):
            yield pyarrow.record_batch([pyarrow.array([i] * 1000)], schema=schema)

    flow = flow_of()
    flow.read_stream(pyarrow.RecordBatchReader.from_batches(schema, batches()))
    assert sum(batch.num_rows for batch in flow.start()) == 50000
    # Left early, by dropping it.
    flow = flow_of()
    flow.read_stream(pyarrow.RecordBatchReader.from_batches(schema, batches()))
    task = flow.start()
    assert task.next() is not None
    del task, flow


# ---- errors ----

@pytest.mark.parametrize("steps, builtin, exact", [
    ([("read", "/nowhere/x.parquet")], FileNotFoundError, "NotFoundError"),
    ([("range", "3"), ("filter", "nothing > 1")], KeyError, "NameUnknownError"),
    ([("range", "3"), ("filter", "id >")], ValueError, "ExpressionError"),
    ([("range", "3"), ("filter", "id + 'a'")], TypeError, "TypeMismatchError"),
    ([("range", "3"), ("with", "x = 1 // (id - 1)")], ZeroDivisionError, "DivisionByZeroError"),
    ([("range", "3"), ("nonsense",)], ValueError, "InvalidError"),
])
def test_errors_are_both_ours_and_the_built_in_ones(steps, builtin, exact):
    with pytest.raises(builtin) as caught:
        for _ in flow_of(*steps).start():
            pass
    error = caught.value
    assert isinstance(error, _weir.Error)
    assert type(error).__name__ == exact and type(error) is getattr(_weir, exact)
    assert error.code.startswith("WEIR_E_") and error.message in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.code == error.code and type(again) is type(error)


def test_errors_know_where(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        flow_of(("read", "/nowhere/x.parquet")).start()
    error = caught.value
    assert error.file == error.filename == "/nowhere/x.parquet" and error.errno == errno.ENOENT
    assert error.operator == "read" and error.row is None and error.column is None
    (tmp_path / "bad.csv").write_text("a\n" + "1\n" * 3 + "x\n")
    flow = flow_of()
    flow.step("read", [tmp_path / "bad.csv"], [("types", "a=int64")])
    with pytest.raises((_weir.DataError, _weir.CastError)) as caught:
        for _ in flow.start():
            pass
    assert caught.value.column == "a" and caught.value.line == 5 and caught.value.value == "x"
    (tmp_path / "taken.parquet").write_text("x")
    flow = flow_of(("range", "3"))
    flow.step("write", [tmp_path / "taken.parquet"], {"mode": "error"})
    with pytest.raises(FileExistsError):
        flow.start("sink").wait()


def test_a_failed_step_spoils_the_flow():
    flow = flow_of(("range", "3"))
    with pytest.raises(_weir.InvalidError):
        flow.step("nonsense")
    with pytest.raises(_weir.InvalidError, match="nonsense"):
        flow.start()


def test_arguments_are_checked():
    with pytest.raises(_weir.MemoryLimitError, match="64"):
        _weir.Session(memory_limit=1000)
    with pytest.raises(ValueError):
        _weir.Session(threads=-1)
    with pytest.raises(OSError):
        _weir.Session(spill_dir="/nowhere")
    with pytest.raises(TypeError):
        _weir.Flow(3)
    flow = flow_of(("range", "3"))
    with pytest.raises(ValueError, match="collect"):
        flow.start("everything")
    with pytest.raises(ValueError):
        flow.start(batch_rows=-1)
    with pytest.raises(TypeError, match="word"):
        flow.step("limit", [3])
    with pytest.raises(ValueError, match="null"):
        flow.step("limit", ["3\0"])
    with pytest.raises(ValueError, match="pair"):
        flow.step("limit", ["3"], [("a", "b", "c")])
    with pytest.raises(ValueError, match="no rows"):
        flow.start("count").next()
    with pytest.raises(ValueError, match="take them"):
        flow.start().wait()
    with pytest.raises(TypeError):
        _weir.Task()


# ---- stopping ----

@on_a_busy_machine
def test_dropping_a_task_stops_it_and_frees_its_memory():
    session = _weir.Session(memory_limit=LIMIT)
    flow = flow_of(("range", ENDLESS), session=session)
    flow.start().close()  # what a session keeps for all its runs is there from the first on
    before = session.memory()["used"]
    running = threads()
    task = flow.start()
    assert task.next() is not None
    assert threads() > running
    start = time.monotonic()
    del task
    within(time.monotonic() - start, 2)
    gc.collect()
    assert session.memory()["used"] == before
    # A thread that was joined may be seen for a moment more.
    while threads() > running:
        assert time.monotonic() - start < 10


def test_a_loop_that_is_left_early_stops_the_run():
    session = _weir.Session(memory_limit=LIMIT)
    for batch in flow_of(("range", ENDLESS), session=session).start():
        break
    rows = batch.num_rows
    del batch
    assert rows > 0
    # A session has room for the next run at once.
    assert sum(batch.num_rows for batch in flow_of(("range", "10"), session=session).start()) == 10


def test_cancel_from_another_thread():
    task = endless().start("count")
    threading.Timer(0.2, task.cancel).start()
    with pytest.raises(_weir.CancelledError):
        task.wait()
    with pytest.raises(_weir.CancelledError):
        task.wait()


def test_close_and_with():
    with endless().start("count") as task:
        assert task.stats()["finished"] is False
    assert task.stats()["finished"] is True
    task.close()
    with pytest.raises(_weir.CancelledError):
        task.wait()


def test_other_threads_go_on_while_one_waits():
    task = endless().start("count")
    waiting = threading.Thread(target=lambda: pytest.raises(_weir.CancelledError, task.wait))
    waiting.start()
    counted = 0
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:
        counted += 1
    assert counted > 1000
    task.cancel()
    waiting.join(10)
    assert not waiting.is_alive()


def test_several_sessions_from_several_threads():
    found = []

    def work(count):
        found.append(sum(batch.num_rows for batch in flow_of(("range", str(count))).start(batch_rows=100)))

    workers = [threading.Thread(target=work, args=(1000 * (i + 1),)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(found) == [1000 * (i + 1) for i in range(8)]


# ---- signals ----

@pytest.mark.parametrize("call", ["wait", "next"])
@on_a_busy_machine
def test_ctrl_c_is_seen_at_once(call):
    ended = python("""
        import os, signal, sys, threading, time
        from weir import _weir
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        flow = _weir.Flow(_weir.Session(memory_limit=256 << 20))
        flow.step("range", ["10000000000000"])
        flow.step("filter", ["id < 0"])
        task = flow.start("count" if sys.argv[1] == "wait" else "collect")
        sent = []
        def send():
            time.sleep(0.3)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=send).start()
        try:
            getattr(task, sys.argv[1])()
        except KeyboardInterrupt:
            print(time.monotonic() - sent[0])
            raise
        """, call)
    assert ended.returncode == -signal.SIGINT, ended.stderr
    within(float(ended.stdout), 0.5)
    assert ended.stderr.rstrip().endswith("KeyboardInterrupt")


@on_a_busy_machine
def test_ctrl_c_while_files_are_opened():
    """A pipe to which nobody writes takes for ever to look into, as ten thousand files far away nearly do."""
    silent, writer = os.pipe()
    ended = python("""
        import os, signal, sys, threading, time
        from weir import _weir
        signal.signal(signal.SIGINT, signal.default_int_handler)
        flow = _weir.Flow(_weir.Session(memory_limit=256 << 20))
        sent = []
        def send():
            time.sleep(0.3)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=send).start()
        try:
            flow.step("read", ["-"], {"format": "csv"})
            flow.start("count")
        except KeyboardInterrupt:
            print(time.monotonic() - sent[0])
            raise
        """, stdin=silent)
    os.close(silent)
    os.close(writer)
    assert ended.returncode == -signal.SIGINT, ended.stderr
    within(float(ended.stdout), 0.5)
    assert ended.stderr.rstrip().endswith("KeyboardInterrupt")


def test_a_handler_of_the_program_runs_while_it_waits_and_waiting_goes_on():
    ended = python("""
        import os, signal, threading
        from weir import _weir
        flow = _weir.Flow(_weir.Session(memory_limit=256 << 20))
        flow.step("range", ["10000000000000"])
        flow.step("filter", ["id < 0"])
        task = flow.start("count")
        seen = []
        def handler(number, frame):
            seen.append(number)
            if len(seen) == 3:
                task.cancel()
            else:
                signal.setitimer(signal.ITIMER_REAL, 0.05)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            task.wait()
        except _weir.CancelledError:
            print(len(seen))
        """)
    assert ended.stdout == "3\n", ended.stderr


# ---- the end of the interpreter ----

@pytest.mark.parametrize("ending, status", [("pass", 0), ("raise SystemExit(3)", 3), ("1 / 0", 1)])
@on_a_busy_machine
def test_a_task_that_runs_does_not_hold_up_the_end(ending, status):
    ended = python(f"""
        import atexit, sys, time
        start = []
        from weir import _weir
        flow = _weir.Flow(_weir.Session(memory_limit=256 << 20))
        flow.step("range", ["10000000000000"])
        tasks = [flow.start()]
        batch = tasks[0].next()
        sys.keep = [tasks, batch, flow]
        atexit.register(lambda: (sys.stdout.write(repr(time.monotonic())), sys.stdout.flush()))
        {ending}
        """)
    done = time.monotonic()
    assert ended.returncode == status, ended.stderr
    if status != 1:
        assert ended.stderr == ""
    within(done - float(ended.stdout), 1)


def test_a_daemon_thread_that_waits_does_not_hold_up_the_end():
    ended = python("""
        import threading, time
        from weir import _weir
        for call in "wait", "next":
            flow = _weir.Flow(_weir.Session(memory_limit=256 << 20))
            flow.step("range", ["10000000000000"])
            flow.step("filter", ["id < 0"])
            task = flow.start("count" if call == "wait" else "collect")
            threading.Thread(target=getattr(task, call), daemon=True).start()
        time.sleep(0.1)
        """)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_comes_after_the_hook_still_runs():
    """Functions that were registered before weir's run after it."""
    ended = python("""
        import atexit
        from weir import _weir
        flow = _weir.Flow(_weir.Session(memory_limit=256 << 20))
        flow.step("range", ["10000000000000"])
        def last():
            try:
                while task.next():
                    pass
            except _weir.CancelledError:
                print("stopped")
            flow.step("limit", ["7"])
            print(sum(batch.num_rows for batch in flow.start()))
        atexit.register(last)
        task = flow.start()
        """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "stopped\n7\n", "")


def test_a_stream_of_python_code_is_stopped_before_python_ends():
    pytest.importorskip("pyarrow")
    ended = python("""
        import pyarrow
        from weir import _weir
        schema = pyarrow.schema([("a", pyarrow.int64())])
        def batches():
            while True:
                yield pyarrow.record_batch([pyarrow.array([1] * 1000)], schema=schema)
        flow = _weir.Flow(_weir.Session(memory_limit=256 << 20))
        flow.read_stream(pyarrow.RecordBatchReader.from_batches(schema, batches()))
        task = flow.start()
        task.next()
        """)
    assert (ended.returncode, ended.stderr) == (0, "")


# ---- forks ----

def test_a_forked_child_leaves_the_parents_objects_alone():
    session = _weir.Session(memory_limit=LIMIT)
    flow = flow_of(("range", ENDLESS), session=session)
    task = flow.start()
    batch = task.next()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            said = []
            for use in (task.next, task.stats, task.cancel, flow.schema, flow.start, flow.copy, session.memory,
                        lambda: flow.step("limit", ["1"]), lambda: _weir.Flow(session)):
                try:
                    use()
                    said.append("it was let")
                except RuntimeError as error:
                    assert "fork" in str(error)
            task.close()
            # What was handed out can be looked at, and is left where it is.
            assert batch.rows(0, 2) == [{"id": 0}, {"id": 1}]
            del task, flow, session, use, batch
            gc.collect()
            # What it makes itself works.
            assert sum(batch.num_rows for batch in flow_of(("range", "1000")).start()) == 1000
            os.write(write_end, repr(said).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        assert pipe.read() == "[]"
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert task.next() is not None
    assert batch.rows(1, 2) == [{"id": 1}]


# ---- log lines ----

def test_log_lines_come_through_logging(tmp_path, caplog):
    """A column of numbers that turns out to be text is read again, and a line says so."""
    (tmp_path / "late.csv").write_text("a\n" + "1\n" * 3000000 + "x\n")
    flow = flow_of()
    flow.step("read", [tmp_path / "late.csv"])
    flow.step("write", [tmp_path / "out.parquet"])
    with caplog.at_level("WARNING", logger="weir"):
        flow.start("sink").wait()
    assert [record.name for record in caplog.records] == ["weir"]
    assert "reading again" in caplog.text and caplog.records[0].levelname == "WARNING"
