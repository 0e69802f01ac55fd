"""How errors of user code arrive: class, cause, text. Also what is said at the call."""
import pickle
import sys

import numpy as np
import pytest

from driver_scripts import not_sanitized
from weir_functions import CallSpec, arange, batch_of, error_of, failure_of, function_of

import weir
from weir import _apply, _call, _errors, _origin, _shortage, _weir, _worker
from weir.exceptions import (ActorDiedError, OutOfMemoryError, RayActorError, RayDataUserCodeException, RayError, RayTaskError, SystemException,
                             UserCodeException, WorkerCrashedError)


def raising(error):
    def f(batch):
        raise error
    return f


def failure(error, **options):
    return failure_of(CallSpec("map_batches", raising(error)), arange(10), **options)


class Own(Exception):
    def __init__(self, text, number):
        super().__init__(text, number)
        self.number = number


class Odd(Exception):
    """Its arguments are not its constructor's, so it cannot be rebuilt."""

    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


# ---- the user's own errors ----

@pytest.mark.parametrize("error", [ValueError("text"), KeyError("k"), ZeroDivisionError("division"), OSError(2, "gone", "f"),
                                   UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), Own("text", 5), RuntimeError(),
                                   ExceptionGroup("several", [ValueError("1")]), FileNotFoundError(2, "gone"),
                                   ImportError("m", name="m"), RayTaskError("inner"), RecursionError("deep"),
                                   AttributeError("a", name="n"), MemoryError("full"), np.exceptions.AxisError("axis")])
def test_three_classes_catch_it(error):
    made = failure(error)
    for cls in (type(error), UserCodeException, RayTaskError, RayError):
        assert isinstance(made, cls), cls
        with pytest.raises(cls):
            raise made
    assert type(made.cause) is type(error)
    assert repr(made.args) == repr(error.args)
    assert str(made).startswith("MapBatches(f) failed on the 10 rows it was given (pid=")
    if not isinstance(error, BaseExceptionGroup):
        lines = str(made).rstrip().splitlines()
        assert lines[-1].startswith(f"{_errors._name_of(type(error))}")


def test_attributes_of_the_users_error():
    made = failure(OSError(2, "gone", "file"))
    assert (made.errno, made.strerror, made.filename) == (2, "gone", "file")
    made = failure(Own("text", 5))
    assert made.number == 5 and made.cause.number == 5 and type(made.cause) is Own
    assert type(made).__name__ == "RayTaskError(Own)"


def test_the_traceback_starts_in_the_users_file():
    def inner(x):
        return 1 // x

    def f(batch):
        return {"x": [inner(0)]}
    text = error_of(CallSpec("map_batches", f, batch_size=4), batch_of(id=np.arange(10)))
    lines = text.splitlines()
    assert lines[0].startswith("MapBatches(f) failed on rows 0–3 of the 10 rows it was given")
    assert lines[1] == "Traceback (most recent call last):"
    assert __file__ in lines[2] and "in f" in lines[2]
    assert lines[-1].startswith("ZeroDivisionError: ")
    assert "_worker.py" not in text and "_apply.py" not in text


def test_lines_of_programs_without_a_file_are_shown():
    """A worker does not know what was typed into a cell; linecache of this process does."""
    import linecache

    name = "/tmp/ipykernel_1/2.py"
    source = "def inner(row):\n    return 1 // row['id']\ndef f(row):\n    return inner(row)\n"
    made = {}
    exec(compile(source, name, "exec"), made)
    with pytest.raises(ZeroDivisionError) as raised:
        made["f"]({"id": 0})
    payload = _errors.pack(raised.value.with_traceback(raised.tb.tb_next), "error")
    assert "1 // row" not in str(_errors.from_failure(payload, "Map(f)"))
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    try:
        shown = str(_errors.from_failure(payload, "Map(f)"))
    finally:
        del linecache.cache[name]
    assert shown.endswith(f"""
  File "{name}", line 4, in f
    return inner(row)
  File "{name}", line 2, in inner
    return 1 // row['id']
ZeroDivisionError: integer division or modulo by zero""")


def test_row_ranges():
    def f(row):
        if row["id"] == 5000:
            raise ValueError("that one")
        return row
    assert "row 5000 of the 9000 rows it was given" in error_of(CallSpec("map", f), arange(9000))
    assert "row 5000 of the 9000 rows it was given" in error_of(CallSpec("filter", f), arange(9000))
    made = failure_of(CallSpec("map", f), arange(9000), origin=(True, [("a.parquet", 9000, 512, 9511)]))
    assert str(made).startswith("Map(f) failed on row 5512 of a.parquet (pid=")
    assert made.origin == "rows 512–9511 of a.parquet" and made.operator == "Map(f)"


@pytest.mark.parametrize("rows, origin, text", [
    ((5, 5), (True, [("", 20, 512, 531)]), "row 517"),
    ((5, 5), (True, [("a", 20, 512, 600)]), "row 5 of the 20 left of rows 512–600 of a"),
    ((0, 19), (True, [("a", 20, 512, 600)]), "20 of rows 512–600 of a"),
    ((5, 6), (True, [("a", 20, -1, -1)]), "rows 5–6 of the 20 rows of a"),
    ((5, 5), (True, [("a", 5, 0, 4), ("b", 15, 7, 21)]), "row 7 of b"),
    ((4, 5), (True, [("a", 5, 0, 4), ("b", 15, 7, 21)]), "row 4 of a and row 7 of b"),
    ((2, 8), (True, [(name, 4, 0, 3) for name in "abcde"]), "rows 2–3 of a, rows 0–3 of b and row 0 of c"),
    ((2, 12), (True, [(name, 4, 0, 3) for name in "abcde"]), "rows 2–3 of a … row 0 of d (of 4 files)"),
    ((5, 5), (True, [("a", 5, 0, 4), (None, 10, -1, -1), ("z", 5, 0, 4)]), "row 0 of the 10 rows of other files"),
    ((5, 5), (False, [("a", 20, 0, 19)]), "row 5 of the 20 rows it was given, made of rows 0–19 of a"),
    (None, (False, [("a", 77, 0, 29)]), "rows 0–29 of a"),
    ((0, 19), (False, [("a", 30, 0, 29), ("b", 9, 0, 8)]), "the 20 rows it was given, made of rows 0–29 of a and rows 0–8 of b"),
    ((5, 5), (True, [("a", 19, 0, 18)]), "row 5 of the 20 rows it was given, made of rows 0–18 of a"),
    ((5, 5), None, "row 5 of the 20 rows it was given"), (None, (True, [("a", 20, 0, 19)]), "rows 0–19 of a"), (None, None, ""),
])
def test_places(rows, origin, text):
    """Rows are counted as the file counts them, or it is said that they are not."""
    assert _origin.place(rows, 20, origin) == text


@pytest.fixture(scope="module")
def three_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for number in range(3):
        (folder / f"{number}.csv").write_text("id\n" + "".join(f"{number * 100 + row}\n" for row in range(100)))
    return str(folder)


class Same:
    def __call__(self, batch):
        return batch


def fails_at_150(value):
    if np.any(np.asarray(value["id"]) == 150):
        raise ValueError("that one")
    return value


@pytest.mark.parametrize("chain, place", [
    (lambda ds: ds.map(fails_at_150), "Map(fails_at_150) failed on row 50 of {}/1.csv (pid="),
    (lambda ds: ds.map_batches(fails_at_150, batch_size=64), "failed on rows 28–91 of {0}/1.csv (pid="),
    (lambda ds: ds.map_batches(fails_at_150, batch_size=120), "failed on rows 20–99 of {0}/1.csv and rows 0–39 of {0}/2.csv (pid="),
    (lambda ds: ds.map_batches(fails_at_150, batch_size=500),
     "failed on rows 0–99 of {0}/0.csv, rows 0–99 of {0}/1.csv and rows 0–99 of {0}/2.csv (pid="),
    (lambda ds: ds.filter(expr="id % 3 == 0").map_batches(fails_at_150, batch_size=None),
     "failed on 34 of rows 0–99 of {0}/0.csv, 33 of rows 2–98 of {0}/1.csv and 33 of rows 1–97 of {0}/2.csv (pid="),
    (lambda ds: ds.filter(expr="id < 160").sort("id").map_batches(fails_at_150, batch_size=None), "failed on the 160 rows it was given (pid="),
    (lambda ds: ds.map_batches(Same, concurrency=1, batch_size=None).map(fails_at_150),
     "row 150 of the 300 rows it was given, made of rows 0–99 of {0}/0.csv, rows 0–99 of {0}/1.csv and rows 0–99 of {0}/2.csv (pid="),
    (lambda ds: ds.map(lambda row: None if row["id"] == 150 else row), "cannot be used on row 50 of {}/1.csv (pid="),
    (lambda ds: ds.map(lambda row: {5: 1} if row["id"] == 150 else row), "cannot be used on row 50 of {}/1.csv (pid="),
])
def test_places_in_files(three_files, chain, place):
    with pytest.raises(ValueError) as caught:
        chain(weir.read_csv(three_files)).take_all()
    assert place.format(three_files) in str(caught.value).splitlines()[0]


def test_a_crash_names_all_files(three_files):
    def crash(batch):
        import os
        os.abort()
    with pytest.raises(WorkerCrashedError) as caught:
        weir.read_csv(three_files).map_batches(crash, batch_size=None).take_all()
    assert "it was given rows 0 to 99 of {0}/0.csv, rows 0 to 99 of {0}/1.csv and rows 0 to 99 of {0}/2.csv".format(three_files) in str(caught.value)


@pytest.mark.parametrize("kind, error", [("map_batches", SystemExit(3)), ("map", SystemExit("text")), ("map_batches", StopIteration(4))])
def test_what_would_end_the_program_is_an_error_there_too(kind, error):
    with pytest.raises(UserCodeException) as caught:
        list(_call.run_local(CallSpec(kind, raising(error)), [arange(3)]))
    assert caught.value.cause is not None and repr(caught.value.cause) == repr(error) and "failed on row" in str(caught.value)


def test_rows_are_counted_from_the_first_where_there_is_no_worker():
    spec = CallSpec("map", lambda row: None if row["id"] == 5000 else row)
    with pytest.raises(ValueError, match=r"on row 14000 of its input \(pid="):
        list(_call.run_local(spec, [batch_of(id=np.arange(10000, 19000)), arange(9000)]))


def test_chained_errors_are_shown():
    def f(batch):
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error
    text = error_of(CallSpec("map_batches", f), arange(3))
    assert "KeyError: 'first'" in text and text.endswith("ValueError: second")


def test_a_generator_that_raises_stop_iteration_shows_where():
    def f(batch):
        yield batch
        yield next(iter(()))
    text = error_of(CallSpec("map_batches", f), arange(3))
    assert "    yield next(iter(()))\n" in text and text.endswith("RuntimeError: generator raised StopIteration")


def test_stop_iteration_comes_with_advice():
    assert "next(iterator, default)" in error_of(CallSpec("map", lambda row: next(iter(()))), arange(3))


def test_a_death_from_outside_is_not_called_a_crash():
    made = _errors.translate(_weir.WorkerError("operator f: the worker was killed from outside 10 times, last by SIGKILL: the system had no memory left"))
    assert isinstance(made, WorkerCrashedError) and str(made).endswith("the system had no memory left")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(4), GeneratorExit()])
def test_what_would_end_the_interpreter_is_a_user_error(error):
    made = failure(error)
    assert isinstance(made, UserCodeException) and isinstance(made, RayTaskError) and isinstance(made, Exception)
    assert not isinstance(made, type(error))
    assert type(made.cause) is type(error)
    assert type(error).__name__ in str(made)


def test_raise_original_map_exception():
    made = failure(ValueError("text"), original=True)
    assert isinstance(made, ValueError) and isinstance(made, RayTaskError) and not isinstance(made, UserCodeException)


def test_what_cannot_be_rebuilt_arrives_as_text():
    made = failure(Odd(1, 2))
    assert isinstance(made, UserCodeException) and isinstance(made, RayTaskError) and made.cause is None
    assert str(made).endswith("test_py_errors.Odd: 1 and 2")


class Leaves(Exception):
    def __reduce__(self):
        return sys.exit, (3,)


class NoException(Exception):
    def __reduce__(self):
        return str, ("text",)


class Frozen(Exception):
    def __setattr__(self, name, value):
        raise RuntimeError("frozen")


class Hidden(Exception):
    def __getattribute__(self, name):
        if name == "args":
            raise RuntimeError("hidden")
        return super().__getattribute__(name)


class Property(Exception):
    @property
    def name(self):
        raise RuntimeError("of a half-made object")


@pytest.mark.parametrize("cls", [Leaves, NoException, Frozen, Hidden, Property])
def test_what_is_rebuilt_into_something_else_arrives_all_the_same(cls):
    """Whatever a class does when it is unpickled or looked at."""
    made = failure(cls("text"))
    assert type(made).__mro__[1:3] == (RayTaskError, RayDataUserCodeException) and made.operator == "MapBatches(f)"
    assert f"test_py_errors.{cls.__name__}: text" in str(made) and (isinstance(made, cls)) == (cls is Property)
    assert (made.cause is None) == (cls in (Leaves, NoException))


class Unmade:
    def __reduce__(self):
        return divmod, (1, 0)


@pytest.mark.parametrize("consume", [lambda ds: ds.take_all(), lambda ds: ds.materialize().take(1), lambda ds: next(iter(ds.iter_batches())),
                                     lambda ds: ds.map(lambda row: row, num_cpus=0.5).take_all()])
def test_objects_that_cannot_be_rebuilt(consume):
    with pytest.raises(ZeroDivisionError) as caught:
        consume(weir.range(3).map(lambda row: {"x": Unmade()}))
    assert isinstance(caught.value, UserCodeException) and isinstance(caught.value, RayTaskError)
    assert "column 'x' holds an object that a function returned, and it cannot be rebuilt" in str(caught.value)
    assert "ZeroDivisionError: " in str(caught.value) and isinstance(caught.value.cause, ZeroDivisionError)


def test_objects_that_cannot_be_rebuilt_in_frames():
    pytest.importorskip("pandas")
    with pytest.raises(UserCodeException, match="column 'x' holds an object"):
        weir.range(3).map(lambda row: {"x": Unmade()}).to_pandas()


def test_what_cannot_be_pickled_arrives_as_text():
    error = ValueError("with a lock")
    error.lock = __import__("threading").Lock()
    made = failure(error)
    assert isinstance(made, UserCodeException) and not isinstance(made, ValueError)
    assert "ValueError: with a lock" in str(made)


def test_a_text_that_raises():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no text")
    made = failure(Mute())
    assert isinstance(made, UserCodeException) and isinstance(made, Mute)


def test_a_class_that_cannot_be_a_base():
    class Final(Exception):
        def __init_subclass__(cls):
            raise TypeError("final")
    made = failure(Final("text"))
    assert isinstance(made, UserCodeException) and isinstance(made.cause, Final) and "Final: text" in str(made)


def test_the_error_pickles():
    for error in (ValueError("text"), Own("text", 5), KeyError("k")):
        made = failure(error)
        again = pickle.loads(pickle.dumps(made))
        assert type(again) is type(made) and str(again) == str(made) and again.operator == made.operator
        assert again.args == made.args


def test_notes_travel():
    error = ValueError("text")
    error.add_note("a note")
    assert "a note" in str(failure(error))


@pytest.mark.parametrize("fails", [breakpoint, input])
def test_what_wants_a_terminal_has_advice(fails, monkeypatch):
    """Of workers stdin is empty."""
    import io

    def f(row):
        fails()
        return row
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    error = failure_of(CallSpec("map", f), arange(1))
    assert type(error.cause).__name__ in ("BdbQuit", "EOFError") and "local_mode=True" in str(error).splitlines()[0]


def test_cuda_out_of_memory_has_advice():
    cls = type("OutOfMemoryError", (RuntimeError,), {"__module__": "torch"})
    assert "smaller batch_size" in error_of(CallSpec("map_batches", raising(cls("CUDA out of memory"))), arange(3))


def test_a_constructor_that_fails():
    class Model:
        def __init__(self):
            raise ValueError("no weights")

        def __call__(self, batch):
            return batch
    spec = CallSpec("map_batches", Model)
    with pytest.raises(_apply.Constructing) as caught:
        function_of(spec)
    made = _errors.from_failure(_errors.pack(caught.value.__cause__, "constructor"), spec.name)
    assert type(made) is ActorDiedError and isinstance(made, RayActorError)
    assert "MapBatches(Model) failed in its constructor" in str(made) and str(made).endswith("ValueError: no weights")
    assert "_apply.py" not in str(made) and __file__ in str(made) and isinstance(made.cause, ValueError)


def test_a_report_that_is_damaged():
    assert type(_errors.from_failure(b"junk", "Map(f)")) is SystemException


def test_translated():
    from weir import _weir
    with _errors.translated():
        pass
    with pytest.raises(ZeroDivisionError):
        with _errors.translated():
            1 // 0
    failed = _weir.CallFailed("text")
    failed.payload, failed.operator, failed.origin = _errors.pack(ValueError("v"), "error", (0, 1)), "Map(f)", None
    with pytest.raises(ValueError) as caught:
        with _errors.translated():
            raise failed
    assert isinstance(caught.value, UserCodeException) and caught.value.__cause__ is None


@not_sanitized  # whose maps are beyond any limit: all that follows looks like a shortage
def test_memory_errors_are_the_governors_only_under_its_limit():
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    assert not _shortage.Shortage().explains(MemoryError()) or soft != resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, hard))
    try:
        for error in (MemoryError(), OSError(12, "Cannot allocate memory"), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 12"),
                      RuntimeError("std::bad_alloc")):
            assert _shortage.Shortage().explains(error)
        for error in (ValueError(), OSError(2, "no such file"), ImportError("no such module")):
            assert not _shortage.Shortage().explains(error)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def test_what_a_shortage_leaves_behind_is_the_governors():
    """A module that is there in part fails in ways of its own, also when the limit has been raised."""
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    shortage = _shortage.Shortage()
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (_shortage.data_bytes() + (64 << 20), hard))
        shortage.begin()
        assert not shortage.explains(ImportError("cannot map zero-fill pages"))  # there was enough
        resource.setrlimit(resource.RLIMIT_DATA, (_shortage.data_bytes() + (1 << 20), hard))
        shortage.begin()
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, hard))
        assert not shortage.explains(ValueError())
        assert shortage.explains(ImportError("cannot map zero-fill pages"))
        shortage.begin()
        assert shortage.explains(AttributeError("partially initialized module"))
        assert not shortage.explains(KeyError("x"))
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    assert issubclass(OutOfMemoryError, MemoryError)


# ---- damaged files ----

@pytest.mark.parametrize("consume", ["take_all", "schema", "materialize"])
def test_damaged_files_are_caught_as_ray_data_says_it(tmp_path, consume):
    """By the classes that its readers raise, with the file in the text."""
    import json

    pa = pytest.importorskip("pyarrow")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(ValueError, match=r"^Failed to read CSV file: .*a\.csv: .*line 3") as caught:
        getattr(weir.read_csv(str(tmp_path / "a.csv")), consume)()
    assert isinstance(caught.value, RayTaskError)
    (tmp_path / "a.json").write_text('{"a": 1}\n{nope')
    with pytest.raises(json.JSONDecodeError, match=r"a\.json") as caught:
        getattr(weir.read_json(str(tmp_path / "a.json")), consume)()
    assert isinstance(caught.value, RayTaskError) and (caught.value.lineno, caught.value.pos) == (2, 10)
    assert "field's name" in caught.value.msg and caught.value.doc == ""
    (tmp_path / "a.parquet").write_text("this is no Parquet file")
    with pytest.raises(pa.ArrowInvalid, match=r"a\.parquet") as caught:
        getattr(weir.read_parquet(str(tmp_path / "a.parquet")), consume)()
    assert isinstance(caught.value, RayTaskError) and "Parquet" in str(pickle.loads(pickle.dumps(caught.value)))


def test_files_of_two_formats_are_damaged_in_the_engines_words(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")
    (tmp_path / "a.json").write_text("{nope")
    both = weir.read_csv(str(tmp_path / "a.csv")).union(weir.read_json(str(tmp_path / "a.json")))
    with pytest.raises(ValueError, match=r"^[^F].*a\.json: operator read"):
        both.take_all()


# ---- wrong return values ----

@pytest.mark.parametrize("value, text", [
    (None, "returned None"), ([1, 2], "returned a list"), (np.arange(3), "numpy.ndarray of shape (3,)"),
    (5, "returned an int (5)"), ("text", "returned a str"), ({"x": 5}, "'x' is an int (5)"), ({"x": "abc"}, "'x' is a str"),
    ({"x": None}, "'x' is None"), ({"x": np.float64(3)}, "'x' is"), ({"x": np.array(3)}, "without dimensions"),
    ({"x": [1], "y": [1, 2]}, "different lengths: 'x' has 1, 'y' has 2"), ({5: [1]}, "key 5"),
    ({"x": {"a": 1}}, "'x' is a dict"), ({"x": {1, 2}}, "'x' is a set"), ({"x": frozenset("a")}, "'x' is a frozenset"),
])
def test_wrong_results_of_map_batches(value, text):
    made = failure_of(CallSpec("map_batches", lambda batch: value), arange(3))
    assert isinstance(made, RayTaskError) and isinstance(made, ValueError) and not isinstance(made, UserCodeException)
    assert text in str(made), str(made)
    assert str(made).startswith("MapBatches(<lambda>) returned what cannot be used")
    assert type(made).__name__ == "RayTaskError(ValueError)"
    assert type(made.cause) is ValueError and text in str(made.cause), made.cause


@pytest.mark.parametrize("kind, value, text", [
    ("map", None, "returned None for a row; each row is a dict"), ("map", [1], "returned a list"),
    ("map", 5, 'as in {"item": value}'), ("map", "s", "returned a str"),
    ("flat_map", None, "flat_map returned None"), ("flat_map", {"x": 1}, "flat_map returned a dict"),
    ("flat_map", "text", "flat_map returned a str"), ("flat_map", [1, 2], "returned an int"),
    ("filter", np.arange(3), "neither true nor false"),
])
def test_wrong_results_for_rows(kind, value, text):
    made = failure_of(CallSpec(kind, lambda row: value), arange(3))
    assert isinstance(made, RayTaskError) and isinstance(made, ValueError) and not isinstance(made, UserCodeException)
    assert text in str(made), str(made)


def test_wrong_results_of_generators():
    def f(batch):
        yield batch
        yield [1, 2]
    made = failure_of(CallSpec("map_batches", f), arange(3))
    assert isinstance(made, ValueError) and not isinstance(made, UserCodeException) and "returned a list" in str(made)


# ---- at the call ----

class Model:
    def __call__(self, batch):
        return batch


class NotCallable:
    pass


@pytest.mark.parametrize("options, text", [
    ({"batch_format": "cudf"}, "batch_format"), ({"batch_format": 5}, "batch_format"), ({"batch_size": 0}, "at least 1"),
    ({"batch_size": -1}, "at least 1"), ({"batch_size": "large"}, "batch_size"), ({"batch_size": 1.5}, "batch_size"),
    ({"fn_constructor_args": [1]}, "fn_constructor_args can only be given with a class"),
    ({"fn_constructor_kwargs": {"a": 1}}, "fn_constructor_kwargs can only"), ({"concurrency": (1, 2)}, "needs a class"),
    ({"concurrency": 0}, "at least 1"), ({"concurrency": "two"}, "concurrency"), ({"fn": 5}, "function or a class"),
    ({"fn": NotCallable}, "no __call__"), ({"num_gpus": 1}, "needs a batch_size"), ({"num_cpus": -1}, "num_cpus"),
    ({"runtime_env": {"conda": "x"}}, "'conda' is not supported"), ({"fn": Model, "concurrency": (3, 2)}, "min, max"),
    ({"runtime_env": {"working_dir": "/no/such"}}, "no folder"), ({"compute": 7}, "compute is"),
])
def test_checked_at_the_call(options, text):
    options = {"fn": lambda batch: batch, **options}
    with pytest.raises(ValueError, match=text.replace("(", r"\(")):
        _call.check(CallSpec("map_batches", **options))


def test_strategies_that_do_not_fit():
    class Actors:
        min_size, max_size, initial_size, max_tasks_in_flight_per_actor = 2, float("inf"), 3, 4

    class Tasks:
        size = 5
    with pytest.raises(ValueError, match="is a function and needs a TaskPoolStrategy"):
        _call.check(CallSpec("map", lambda row: row, compute=Actors()))
    with pytest.raises(ValueError, match="is a class and needs an ActorPoolStrategy"):
        _call.check(CallSpec("map", Model, compute=Tasks()))
    assert _call.pool_sizes(CallSpec("map", Model, compute=Actors())) == {
        "slots_min": 2, "slots_max": 0, "slots_first": 3, "in_flight": 4}
    assert _call.pool_sizes(CallSpec("map", len, compute=Tasks()))["slots_max"] == 5


@pytest.mark.parametrize("fn, concurrency, sizes", [
    (len, None, (0, 0, 0)), (len, 3, (0, 3, 0)), (Model, None, (0, 0, 0)), (Model, 3, (3, 3, 3)),
    (Model, (2, 5), (2, 5, 2)), (Model, (2, 5, 4), (2, 5, 4)),
])
def test_pool_sizes(fn, concurrency, sizes):
    got = _call.pool_sizes(CallSpec("map", fn, concurrency=concurrency))
    assert (got["slots_min"], got["slots_max"], got["slots_first"]) == sizes


def test_operator_names():
    import functools

    def f(row):
        return row
    names = {"MapBatches(f)": ("map_batches", f), "Map(<lambda>)": ("map", lambda row: row), "FlatMap(f)": ("flat_map", f),
             "Filter(f)": ("filter", f), "MapBatches(Model)": ("map_batches", Model), "Map(f)": ("map", functools.partial(f)),
             "Map(Model.__call__)": ("map", Model().__call__), "Filter(Model)": ("filter", Model())}
    for name, (kind, fn) in names.items():
        spec = CallSpec(kind, fn)
        _call.check(spec)
        assert spec.name == name


def test_parts_of_gpus_are_parts_of_one(monkeypatch):
    """Two workers of 0.6 do not fit one GPU."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    sizes = _call.fitting_sizes(CallSpec("map_batches", Model, num_gpus=0.6, concurrency=5, batch_size=1))
    assert sizes["slots_max"] == 3
    with pytest.raises(ValueError, match="a part of one GPU, or a whole number of them, not 1.5"):
        _call.check(CallSpec("map_batches", Model, num_gpus=1.5, batch_size=1))


def test_gpu_slots(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-aa, GPU-bb")
    assert _call.gpu_pool() == ["GPU-aa", "GPU-bb"] and _call.gpu_pool(3) == ["0", "1", "2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert _call.gpu_pool() == []
    pool = ["0", "1"]
    assert [_worker.visible_gpus(pool, 0.5, i) for i in range(4)] == [["0"], ["0"], ["1"], ["1"]]
    assert [_worker.visible_gpus(pool, 1, i) for i in range(2)] == [["0"], ["1"]]
    class Session:
        num_gpus = 2
    spec = CallSpec("map", len, num_gpus=1)
    assert [_call.world(spec, Session(), before)["gpus"] for before in (0, 1, 2)] == [["0", "1"], ["1", "0"], ["0", "1"]]
    assert _worker.visible_gpus(["0", "1", "2"], 2, 0) == ["0", "1"] and _worker.visible_gpus([], 1, 0) == []


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))


def test_programs_make_rays_errors_themselves():
    """Their tests do, with Ray's arguments; what they make can be pickled."""
    exceptions = weir.exceptions
    failed = exceptions.RayTaskError(function_name="f", traceback_str="it failed", cause=ValueError("v"))
    as_cause = failed.as_instanceof_cause()
    assert (str(failed), failed.function_name, repr(failed.cause)) == ("it failed", "f", "ValueError('v')")
    assert isinstance(as_cause, ValueError) and isinstance(as_cause, exceptions.RayTaskError) and str(as_cause) == "it failed"
    made = [failed, exceptions.TaskCancelledError(), exceptions.TaskCancelledError(task_id="ab"), exceptions.TaskCancelledError(error_message="m"),
            exceptions.RayActorError(), exceptions.RayActorError(actor_id="ab", error_msg="m"), exceptions.ActorDiedError(), exceptions.WorkerCrashedError(),
            exceptions.ActorUnavailableError("away", b"\xab"), exceptions.ObjectLostError("ab", None, "here"), exceptions.RaySystemError("lost", "trace")]
    again = pickle.loads(pickle.dumps(made))
    assert [(type(error), str(error), error.__dict__.keys()) for error in again] == [(type(error), str(error), error.__dict__.keys()) for error in made]
    assert [str(error) for error in made] == [
        "it failed", "", "Task: ab was cancelled.", "m", "The actor failed before this task had ended.", "m",
        "The actor died unexpectedly before finishing this task.", "The worker died unexpectedly while executing this task.", "away",
        "Failed to retrieve object ab.", "System error: lost\ntraceback: trace"]
    assert (again[5].actor_id, again[8].actor_id, again[9].call_site) == ("ab", "ab", "here")
