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


def _numbers(count):
    import weir
    return weir.from_arrow(_weir.batch_from_columns({"id": np.arange(count)}))


KEPT = {
    "given": lambda weir: _numbers(4000),
    "items": lambda weir: weir.from_items([{"id": i} for i in range(4000)]),
    "arrays": lambda weir: weir.from_numpy(np.arange(4000)).rename_columns({"data": "id"}).materialize(),
    "cut": lambda weir: weir.range(4000).repartition(3).materialize(),
    "sorted": lambda weir: weir.range(4000, override_num_blocks=7).sort("id").materialize(),
    "two": lambda weir: _numbers(2000).union(_numbers(2000).map(lambda r: {"id": r["id"] + 2000})).materialize(),
    "part": lambda weir: _numbers(8000).split_at_indices([4000])[0],
    "first": lambda weir: _numbers(8000).limit(4000),
    "chunks": lambda weir: weir.range(4000).map_batches(lambda b: b, batch_size=1000).materialize(),
}


def _scribbled(arrays):
    for array in arrays:
        assert not array.flags.writeable
        ctypes.memset(array.ctypes.data, 0, array.nbytes)


def _written(tensors):
    for tensor in tensors:
        tensor.zero_()


LOOPS = {
    "batches": lambda ds: _scribbled(batch["id"] for batch in ds.iter_batches(batch_size=300)),
    "blocks": lambda ds: _scribbled(batch["id"] for batch in ds.iter_batches(batch_size=None)),
    "shuffled": lambda ds: _scribbled(batch["id"] for batch in ds.iter_batches(batch_size=300, local_shuffle_buffer_size=500)),
    "one": lambda ds: _scribbled([ds.take_batch(4000)["id"]]),
    "split": lambda ds: _scribbled(batch["id"] for batch in ds.streaming_split(1)[0].iter_batches(batch_size=300)),
    "torch": lambda ds: _written(batch["id"] for batch in ds.iter_torch_batches(batch_size=300)),
    "pandas": lambda ds: _scribbled(batch["id"].to_numpy() for batch in ds.iter_batches(batch_size=300, batch_format="pandas")),
    "pyarrow": lambda ds: _scribbled(batch["id"].chunk(0).to_numpy() for batch in ds.iter_batches(batch_size=300, batch_format="pyarrow")),
    "table": lambda ds: _scribbled(chunk.to_numpy() for chunk in ds.to_arrow()["id"].chunks),
    "stream": lambda ds: _scribbled(chunk.to_numpy() for chunk in pytest.importorskip("pyarrow").table(ds)["id"].chunks),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kept", KEPT)
def test_rows_that_are_kept_anywhere_stay_what_they_were(kept, loop):
    """Whoever writes to a batch past its flag writes to pages or a copy of his own, whether the rows lie in the store or in plain memory."""
    import weir
    needed = {"torch": "torch", "pandas": "pandas", "pyarrow": "pyarrow", "table": "pyarrow", "stream": "pyarrow"}
    if loop in needed:
        pytest.importorskip(needed[loop])
    ds = KEPT[kept](weir)
    for _ in range(2):
        LOOPS[loop](ds)
        assert sorted(row["id"] for row in ds.take_all()) == list(range(4000))


def test_tensors_in_rows_are_the_takers():
    import weir
    ds = weir.from_items([{"t": np.arange(5) + i} for i in range(20)])
    for take in (lambda: ds.take(20), ds.take_all, lambda: list(ds.iter_rows())):
        _scribbled(row["t"] for row in take())
        assert [row["t"].tolist() for row in ds.take_all()] == [[i, i + 1, i + 2, i + 3, i + 4] for i in range(20)]


def test_functions_in_the_driver_have_rows_of_their_own(tmp_path):
    """local_mode=True has no worker with private pages: what a function writes past the flag is not what the next reader sees, as elsewhere."""
    from driver_scripts import output
    text = """
        import ctypes, numpy as np, weir
        weir.init(local_mode=True)

        def scribbles(batch):
            ctypes.memset(batch["id"].ctypes.data, 0, batch["id"].nbytes)
            return {"n": [1]}

        def scribbles_row(row):
            ctypes.memset(row["t"].ctypes.data, 0, row["t"].nbytes)
            return {"n": 1}

        for ds in (weir.from_items([{"id": i} for i in range(100)]), weir.range(100).map_batches(lambda b: b).materialize()):
            assert ds.map_batches(scribbles, batch_size=7).count() == 15
            for batch in ds.iter_batches(batch_size=7):
                scribbles(batch)
            print(ds.sum("id"))
        tensors = weir.from_items([{"t": np.ones(3)}] * 2)
        print(tensors.map(scribbles_row).count(), [row["t"].tolist() for row in tensors.take()])
    """
    assert output(tmp_path, text) == "4950\n4950\n2 [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]\n"


def test_buffers_are_read_only():
    view = _weir.batch_from_columns({"x": np.arange(5.0)}).numpy()["x"]
    assert isinstance(view.base, _weir.Buffer) and len(view.base) == 40
    memory = memoryview(view.base)
    assert memory.readonly and memory.nbytes == 40
    with pytest.raises(TypeError):
        memory[0] = 1
    with pytest.raises(TypeError):
        _weir.Buffer()
