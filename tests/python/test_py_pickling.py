"""Functions on their way to a worker: once, by reference or by value, large buffers apart, and what cannot go."""
import importlib.util
import logging
import os
import pickle
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

from weir_functions import CallSpec, arange, mapped, rows_of, run

import weir
from weir import _apply, _call, _setup


def sent(spec):
    """A spec through its memfd, back to a function."""
    call = _call.prepare(spec)
    view = memoryview(mapped(*call["setup"]))
    head = _setup.read(view)
    return view, head, _setup.load(view, head)


def test_a_closure_travels():
    offset = 5
    view, head, objects = sent(CallSpec("map_batches", lambda b: {"x": b["id"] + offset}, batch_size=2))
    function = _apply.make(head, objects)
    assert [row["x"] for row in rows_of(run(function, arange(3)))] == [5, 6, 7]
    assert head["name"] == "MapBatches(<lambda>)" and head["batch_size"] == 2


def test_large_buffers_lie_apart_and_aligned():
    array, small = np.arange(100_000, dtype=np.float64), np.arange(10)
    view, head, objects = sent(CallSpec("map_batches", lambda b: array.sum() + small.sum(), fn_args=[array[::2].copy()]))
    places = head["places"]
    assert sorted(size for _, size in places["buffers"]) == [400_000, 800_000]
    assert all(offset % 64 == 0 for offset, _ in [places["pickle"], *places["buffers"]])
    assert places["pickle"][1] < 10_000
    base = np.frombuffer(view, np.uint8).ctypes.data
    address = objects["fn_args"][0].ctypes.data
    assert base <= address < base + len(view) and address % 64 == 0
    assert np.array_equal(objects["fn_args"][0], array[::2])


def test_many_buffers_and_none():
    arrays = [np.full(10_000 + i, i, dtype=np.float64) for i in range(50)]
    _, _, objects = sent(CallSpec("map", len, fn_args=arrays))
    assert all(np.array_equal(a, b) for a, b in zip(objects["fn_args"], arrays))
    _, head, objects = sent(CallSpec("map", len))
    assert objects["fn"] is len and head["places"]["buffers"] == []


def test_an_array_used_twice_is_sent_once():
    array = np.zeros(100_000)
    _, head, objects = sent(CallSpec("map", lambda row: array.sum(), fn_args=[array]))
    assert len(head["places"]["buffers"]) == 1


def test_torch_tensors_lie_apart():
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(512, 256)
    half = torch.arange(100_000, dtype=torch.bfloat16)
    _, head, objects = sent(CallSpec("map", len, fn_args=[layer, half, layer.weight]))
    assert sorted(size for _, size in head["places"]["buffers"]) == [200_000, 512 * 256 * 4]
    again, half_again, weight = objects["fn_args"]
    assert torch.equal(again.weight, layer.weight) and again.weight is weight and isinstance(weight, torch.nn.Parameter)
    assert torch.equal(half, half_again) and half_again.dtype == torch.bfloat16
    x = torch.ones(1, 512)
    assert torch.equal(again(x), layer(x))


def test_a_large_closure_is_named(caplog, monkeypatch):
    monkeypatch.setattr(_setup, "LARGE", 1 << 20)
    weights, little = np.zeros(200_000), np.zeros(100)
    with caplog.at_level(logging.WARNING, "weir"):
        sent(CallSpec("map_batches", lambda b: weights.sum() + little.sum()))
    assert "the variable 'weights' has 2 MiB" in caplog.text and "MapBatches(<lambda>)" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "weir"):
        sent(CallSpec("map_batches", len, fn_kwargs={"table": weights}))
    assert "fn_kwargs['table']" in caplog.text


# ---- what cannot be pickled ----

LOCK = threading.Lock()


class Plain:
    def __init__(self, lock):
        self.lock = lock

    def __call__(self, row):
        return row


def uses_a_global(batch):
    with LOCK:
        return batch


def cannot(spec):
    with pytest.raises(TypeError) as caught:
        _call.prepare(spec)
    return str(caught.value)


class Refuses:
    def __init__(self):
        self.lock = LOCK

    def __reduce__(self):
        raise TypeError("open it again where it is used")


class PicklesItself(Refuses):
    def __reduce__(self):
        return PicklesItself, (), {"lock": self.lock}


def test_an_object_that_refuses_to_be_pickled_is_named_and_not_its_parts():
    refusing, holding = Refuses(), PicklesItself()
    text = cannot(CallSpec("map", lambda row: refusing))
    assert "the variable 'refusing', of type Refuses," in text and "open it again where it is used" in text
    assert "the attribute 'lock' of the variable 'holding', of type lock," in cannot(CallSpec("map", lambda row: holding))


def test_what_cannot_be_pickled_is_named():
    lock = threading.Lock()
    text = cannot(CallSpec("map_batches", lambda b: lock))
    assert "MapBatches(<lambda>) cannot be sent" in text and "the variable 'lock', of type lock," in text
    assert "the default of 'key', of type lock," in cannot(CallSpec("map", lambda row, other=1, key=lock: row))
    assert "fn_args[1]" in cannot(CallSpec("map", len, fn_args=[1, lock]))
    assert "fn_kwargs['x']" in cannot(CallSpec("map", len, fn_kwargs={"x": lock}))

    def inner():
        return lock
    assert "the variable 'lock'" in cannot(CallSpec("map", lambda row: inner()))

    class Model:
        def __init__(self):
            self.lock = lock

        def __call__(self, row):
            return row
    assert "the attribute 'lock'" in cannot(CallSpec("map", Model()))
    assert "fn_constructor_args[0]" in cannot(CallSpec("map", Plain, fn_constructor_args=[lock]))
    namespace = {"__name__": "__main__", "LOCK": lock}
    exec("def f(row):\n    return LOCK", namespace)
    assert "the variable 'LOCK'" in cannot(CallSpec("map", namespace["f"]))


def test_no_memfd_is_left_after_a_failure():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        cannot(CallSpec("map", len, fn_args=[threading.Lock()]))
    assert len(os.listdir("/proc/self/fd")) == before


# ---- by reference or by value ----

def test_importable_modules_go_by_reference():
    assert _setup.is_importable("json", __import__("json"))
    assert _setup.is_importable("numpy.linalg", np.linalg)
    assert _setup.is_importable("test_py_pickling", sys.modules[__name__])
    assert _setup.is_importable("pytest", pytest)
    data, _ = _setup.dump(uses_a_global, "f")
    assert len(data) < 200  # a name


def load_elsewhere(tmp_path, name, text):
    file = tmp_path / "elsewhere.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_a_module_that_workers_cannot_import_goes_by_value(tmp_path):
    name = "a_module_nobody_finds"
    module = load_elsewhere(tmp_path, name, "import numpy as np\nN = 7\n\nclass E(Exception): pass\n\n"
                            "def helper(): return N\n\ndef f(row):\n    return {'x': helper(), 'e': E.__name__}\n")
    try:
        assert not _setup.is_importable(name, module)
        call = _call.prepare(CallSpec("map", module.f))
        fd, size = call["setup"]
        import cloudpickle
        assert name not in cloudpickle.list_registry_pickle_by_value()
    finally:
        del sys.modules[name]
    program = ("import os, mmap, sys\nfrom weir import _setup\n"
               "view = memoryview(mmap.mmap(int(sys.argv[1]), int(sys.argv[2]), mmap.MAP_PRIVATE))\n"
               "f = _setup.load(view, _setup.read(view))['fn']\nprint(f({}))")
    os.set_inheritable(fd, True)
    out = subprocess.run([sys.executable, "-c", program, str(fd), str(size)], pass_fds=[fd], capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    os.close(fd)
    assert out.stdout.strip() == "{'x': 7, 'e': 'E'}", out.stderr


def test_a_module_whose_place_another_has_goes_by_value(tmp_path, monkeypatch):
    (tmp_path / "twofold.py").write_text("X = 1\n")
    other = tmp_path / "other"
    other.mkdir()
    module = load_elsewhere(other, "twofold", "def f(): return 2\n")
    try:
        monkeypatch.syspath_prepend(str(tmp_path))
        assert not _setup.is_importable("twofold", module)
        (tmp_path / "twofold.py").unlink()
        (tmp_path / "twofold").mkdir()  # a package without a file
        assert not _setup.is_importable("twofold", module)
        monkeypatch.syspath_prepend(str(other))
        (other / "twofold.py").write_text("def f(): return 2\n")
        module.__file__ = str(other / "twofold.py")
        assert _setup.is_importable("twofold", module)
    finally:
        del sys.modules["twofold"]


def test_a_package_that_is_hidden(monkeypatch):
    """So do tests of programs that can do without it."""
    for name in ("torch", "pandas", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    _, _, objects = sent(CallSpec("map", lambda row: row, fn_args=[1, "x", [2.0]]))
    assert objects


def test_functions_with_a_cache():
    """lru_cache pickles its function as a name, of which a worker knows nothing where it is the program's."""
    import functools
    from fnmatch import _compile_pattern  # a worker can import it

    @functools.lru_cache(maxsize=7, typed=True)
    def half(x):
        return x / 2

    _, _, objects = sent(CallSpec("map", lambda row: row, fn_args=[half, _compile_pattern]))
    made, imported = objects["fn_args"]
    assert made is not half and made(3) == 1.5 and made.cache_parameters() == {"maxsize": 7, "typed": True}
    assert imported is _compile_pattern


def test_made_modules():
    module = types.ModuleType("made_here")
    assert not _setup.is_importable("made_here", module)


# ---- the world ----

def test_the_world_is_that_of_the_moment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEIR_TEST_X", "1")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(sys, "argv", ["script.py", "a"])
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    spec = CallSpec("map", len)
    world = _call.world(spec)
    assert world["cwd"] == str(tmp_path) and world["environ"]["WEIR_TEST_X"] == "1"
    assert world["argv"] == ["script.py", "a"] and world["sys_path"][0] == str(tmp_path / "lib")
    assert world["environ"]["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("WEIR_TEST_X", "2")
    assert _call.world(spec)["environ"]["WEIR_TEST_X"] == "2"


def test_odd_entries_of_the_path_are_left_out(monkeypatch):
    monkeypatch.setattr(sys, "path", ["", None, b"bytes", "/there"])
    assert _call.world(CallSpec("map", len))["sys_path"] == [os.getcwd(), "/there"]
    words = _call.zygote_command()[0]
    assert [path for option, path in zip(words, words[1:]) if option == "--path"] == [os.getcwd(), "/there"]


def test_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert _call.world(CallSpec("map", len))["environ"]["OMP_NUM_THREADS"] == "3"
    assert _call.world(CallSpec("map", len, num_cpus=4))["environ"]["OMP_NUM_THREADS"] == "4"
    assert _call.world(CallSpec("map", len, num_cpus=0.5))["threads"] == 1
    env = {"env_vars": {"OMP_NUM_THREADS": "7"}}
    assert _call.world(CallSpec("map", len, num_cpus=4, runtime_env=env))["environ"]["OMP_NUM_THREADS"] == "7"


def test_runtime_env(tmp_path):
    world = _call.world(CallSpec("map", len, runtime_env={"env_vars": {"A": "b"}, "working_dir": str(tmp_path)}))
    assert world["environ"]["A"] == "b" and world["cwd"] == str(tmp_path) and world["sys_path"][0] == str(tmp_path)


def test_what_the_engine_is_told():
    class Context:
        max_errored_blocks = 7
        actor_task_retry_on_errors = True

    class Model:
        def __call__(self, batch):
            return batch
    class Session:
        num_gpus = 1
        num_cpus = 2
    call = _call.prepare(CallSpec("map_batches", Model, batch_size=32, num_cpus=0.5, num_gpus=0.25, memory=1e9,
                                  concurrency=(1, 4), context=Context()), Session())
    os.close(call.pop("setup")[0])
    assert call == {"name": "MapBatches(Model)", "slots_min": 1, "slots_max": 4, "slots_first": 1, "in_flight": 0,
                    "batch_rows": 32, "chunk_bytes": 2 << 20, "fine": 1, "milli_cpus": 500, "milli_gpus": 250, "memory": 10**9,
                    "start": 0, "errored_max": 7, "user_retries": 0xFFFF, "attempts_max": 0}
    call = _call.prepare(CallSpec("map_batches", len, batch_size="auto"))
    os.close(call.pop("setup")[0])
    assert (call["batch_rows"], call["chunk_bytes"], call["milli_cpus"], call["user_retries"]) == (0, 16 << 20, 1000, 0)
    assert call["fine"] == 0
    call = _call.prepare(CallSpec("map", len))
    os.close(call.pop("setup")[0])
    assert (call["batch_rows"], call["chunk_bytes"], call["fine"]) == (0, 64 << 10, 1)
    call = _call.prepare(CallSpec("map_batches", len, batch_format="pandas"))
    os.close(call.pop("setup")[0])
    assert call["start"] == 48 << 20  # it is imported before the first batch


def test_pools_fit_what_there_is(monkeypatch):
    class Session:
        num_gpus, num_cpus = 2, 4

    def sizes(**options):
        got = _call.fitting_sizes(CallSpec("map_batches", Plain, batch_size=1, name="MapBatches(Plain)", **options), Session())
        return got["slots_min"], got["slots_max"], got["slots_first"]
    assert sizes() == (0, 0, 0) and sizes(num_cpus=2) == (0, 0, 0)
    assert sizes(num_cpus=0.5) == (0, 8, 0) and sizes(num_cpus=0.001) == (0, 64, 0)
    assert sizes(num_cpus=0.5, concurrency=3) == (3, 3, 3)
    assert sizes(num_gpus=1) == (0, 2, 0) and sizes(num_gpus=0.5) == (0, 4, 0) and sizes(num_gpus=2) == (0, 1, 0)
    assert sizes(num_gpus=1, concurrency=4) == (2, 2, 2) and sizes(num_gpus=0.25, concurrency=(1, 4)) == (1, 4, 1)
    with pytest.raises(ValueError, match="num_gpus=3, and there are 2"):
        sizes(num_gpus=3)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(Session, "num_gpus", None)
    with pytest.raises(ValueError, match="there is none; weir.init"):
        sizes(num_gpus=1)


def test_async_functions_get_several_batches_at_once():
    class Model:
        async def __call__(self, batch):
            return batch

    async def generator(batch):
        yield batch
    for fn, options, rows in ((Model, {}, 160), (generator, {"max_concurrency": 3}, 30), (len, {}, 10)):
        call = _call.prepare(CallSpec("map_batches", fn, batch_size=10, **options))
        os.close(call.pop("setup")[0])
        assert call["batch_rows"] == rows


def test_interpreter_flags():
    program = "from weir import _call; print(_call.interpreter_flags())"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run([sys.executable, "-O", "-B", "-W", "error::ImportWarning", "-X", "utf8", "-c", program],
                         capture_output=True, text=True, env=env)
    flags = eval(out.stdout)
    assert flags[0] == "-P" and "-O" in flags and "-B" in flags and "utf8" in flags and "error::ImportWarning" in flags
    assert "-i" not in flags


def test_exceptions_come_back_as_the_drivers_own_class():
    """A class of __main__ goes by value and comes back as what it was."""
    from weir import _errors
    namespace = {"__name__": "__main__"}
    exec("class Mine(Exception): pass\ndef f(batch):\n    raise Mine('m')", namespace)
    _, head, objects = sent(CallSpec("map_batches", namespace["f"]))
    with pytest.raises(Exception) as caught:
        objects["fn"](None)
    made = _errors.from_failure(_errors.pack(caught.value, "error"), head["name"])
    assert isinstance(made, namespace["Mine"]) and type(made.cause) is namespace["Mine"]


def test_methods_of_datasets_are_themselves_in_workers():
    """By name, not by value: a program may say which method a function is for."""
    import inspect

    for cls in (weir.Dataset, weir.MaterializedDataset, weir.DataIterator, weir.Schema, weir.GroupedData):
        for name in dir(cls):
            method = inspect.getattr_static(cls, name)
            if inspect.isfunction(method):
                assert pickle.loads(pickle.dumps(method)) is method, f"{cls.__name__}.{name}"
    method = weir.Dataset.flat_map
    assert weir.range(1).map(lambda row: {"same": method is weir.Dataset.flat_map}).take_all() == [{"same": True}]
