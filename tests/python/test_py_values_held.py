"""What the program holds on to stays as it was: views of batches by every library, while the run goes on and when it is over."""
import ctypes
import gc
import threading

import numpy as np
import pytest

from weir import _weir

ROWS = 4_000_000


def holders():
    yield "view", lambda array: array, lambda held: held
    yield "slice", lambda array: array[3:50:2], lambda held: held
    yield "memoryview", lambda array: memoryview(array), lambda held: np.asarray(held)
    yield "dlpack", lambda array: np.from_dlpack(array), lambda held: held
    for name, keep, look in [
            ("torch", lambda m, array: m.from_numpy(array), lambda m, held: held.numpy()),
            ("pandas", lambda m, array: np.asarray(m.Series(array, copy=False)), lambda m, held: held),
            ("pyarrow", lambda m, array: m.array(array), lambda m, held: held.to_numpy())]:
        try:
            module = __import__(name)
        except ImportError:
            continue
        yield name, (lambda array, m=module, f=keep: f(m, array)), (lambda held, m=module, f=look: f(m, held))


@pytest.mark.parametrize("name,keep,look", list(holders()), ids=lambda part: part if isinstance(part, str) else "")
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_views_outlive_batches_tasks_and_sessions(name, keep, look):
    session = _weir.Session(memory_limit=96 << 20)
    flow = _weir.Flow(session)
    flow.step("range", [str(ROWS)])
    task = flow.start(batch_rows=10_000)
    held, at = [], 0
    while (batch := task.next()) is not None:
        array = batch.numpy()["id"]
        if (at // 10_000) % 20 == 0:
            held.append((at, len(array), keep(array)))
        at += len(array)
    assert at == ROWS
    del task, flow, session, batch, array
    gc.collect()
    for at, count, kept in held:
        array = look(kept)
        expected = np.arange(at, at + count)
        np.testing.assert_array_equal(array, expected[3:50:2] if name == "slice" else expected)


def test_arrow_structs_outlive_everything():
    pa = pytest.importorskip("pyarrow")
    flow = _weir.Flow(_weir.Session())
    flow.step("range", ["1000"])
    task = flow.start()
    batch = task.next()
    column = pa.record_batch(batch.slice(10, 20)).column(0)
    stream = pa.RecordBatchReader.from_stream(batch)
    del batch, task, flow
    gc.collect()
    assert column.to_pylist() == list(range(10, 20))
    del column
    table = stream.read_all()
    del stream
    gc.collect()
    assert table.column(0).to_pylist() == list(range(1000))


def test_owners_may_go_on_any_thread():
    """Memory of Python under an array is let go by a thread that has no GIL: it is released all the same, soon."""
    pa = pytest.importorskip("pyarrow")
    import weakref
    arrays = [np.arange(1000) + n for n in range(50)]
    gone = [weakref.ref(array) for array in arrays]
    exported = [pa.record_batch(_weir.batch_from_columns({"x": array})) for array in arrays]
    del arrays
    readers = [threading.Thread(target=exported.pop) for _ in range(50)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    _weir.batch_memory()
    gc.collect()
    assert [ref() for ref in gone] == [None] * 50


def test_a_library_that_ignores_the_flag_meets_the_array_itself():
    """In one process the memory is shared; the flag is what protects it (workers map privately besides)."""
    array = np.arange(5)
    view = _weir.batch_from_columns({"x": array}).numpy()["x"]
    ctypes.memset(view.ctypes.data, 0, 8 * 2)
    assert array.tolist() == [0, 0, 2, 3, 4]


def test_what_one_loop_scribbles_another_does_not_see():
    """A batch that is still held, and was written to past its flag, is one program's pages: rows that are kept stay what they were."""
    import weir
    kept = weir.range(4000).map_batches(lambda b: b, batch_size=1000).materialize()
    held = []
    for _ in range(2):
        for batch in kept.iter_batches(batch_size=1000):
            held.append(batch["id"])
            ctypes.memset(batch["id"].ctypes.data, 0, batch["id"].nbytes)
    assert [array.any() for array in held] == [False] * 8
    again = [batch["id"] for batch in kept.iter_batches(batch_size=1000)]
    np.testing.assert_array_equal(np.concatenate(again), np.arange(4000))
    del held
    np.testing.assert_array_equal(np.concatenate(again), np.arange(4000))
    assert kept.sum("id") == 3999 * 2000 and [row["id"] for row in kept.take_all()] == list(range(4000))


def test_buffers_are_read_only():
    view = _weir.batch_from_columns({"x": np.arange(5.0)}).numpy()["x"]
    assert isinstance(view.base, _weir.Buffer) and len(view.base) == 40
    memory = memoryview(view.base)
    assert memory.readonly and memory.nbytes == 40
    with pytest.raises(TypeError):
        memory[0] = 1
    with pytest.raises(TypeError):
        _weir.Buffer()
