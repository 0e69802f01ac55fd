"""The mistakes that users make most: the error says what is wrong, where, and what to do. Texts are held as they are."""
import os
import re
import threading

import pytest

import weir
from weir.exceptions import ActorDiedError, RayTaskError, WorkerCrashedError

col = weir.col


@pytest.fixture
def at(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "a.parquet")
    (tmp_path / "mixed").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "mixed" / "0.parquet")
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "mixed" / "1.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nonsense PAR1")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n3,4,5\n")
    (tmp_path / "cut.json").write_text('{"a": 1}\n{"a": \n')
    return str(tmp_path)


class Model:
    def __init__(self, path):
        self.path = path

    def __call__(self, batch):
        return batch


class Failing:
    def __init__(self):
        raise RuntimeError("weights.bin is not there")

    def __call__(self, batch):
        return batch


class NoCall:
    pass


def of_a_lock():
    lock = threading.Lock()

    def with_lock(batch):
        with lock:
            return batch

    return with_lock


def grow(batch):
    batch["id"] += 1
    return batch


# What is done, the class of the error, and pieces of its text: the cause, the place, the fix.
MISTAKES = {
    "a column that a filter does not find": (
        lambda at: weir.range(3).filter(expr=col("idd") > 1).take(), KeyError,
        ["operator filter: no column 'idd'; did you mean 'id'?"]),
    "a column that select_columns does not find": (
        lambda at: weir.read_parquet(f"{at}/a.parquet").select_columns(["nam"]).take(), KeyError,
        ["operator select: no column 'nam'; did you mean 'name'?"]),
    "a column that read_parquet does not find": (
        lambda at: weir.read_parquet(f"{at}/a.parquet", columns=["nam"]).take(), KeyError, ["no column 'nam'; did you mean 'name'?"]),
    "a column that drop_columns does not find": (
        lambda at: weir.range(3).drop_columns(["idd"]), KeyError,
        ["drop_columns: column(s) not found in dataset schema: ['idd']. Available columns: ['id']"]),
    "a column that a function does not find in a row": (
        lambda at: weir.read_parquet(f"{at}/a.parquet").map(lambda row: {"x": row["nme"]}).take(), KeyError,
        ["Map(<lambda>) failed on row 0 of ", "a.parquet", 'row["nme"]', "there is no column 'nme' (did you mean 'name'?); the columns are id, name"]),
    "a column that a function does not find in a batch": (
        lambda at: weir.range(3).map_batches(lambda batch: {"x": batch["value"]}).take(), KeyError,
        ["MapBatches(<lambda>) failed on rows 0–2 of range", "there is no column 'value'; the columns are id"]),
    "a batch that is taken for a frame": (
        lambda at: weir.range(3).map_batches(lambda batch: batch.assign(x=1)).take(), AttributeError,
        ["MapBatches(<lambda>) failed on rows 0–2 of range", 'batch_format="pandas") gives DataFrames']),
    "a column that is taken for an attribute": (
        lambda at: weir.range(3, override_num_blocks=1).map(lambda row: {"x": row.id}).take(), AttributeError,
        ["Map(<lambda>) failed on row 0 of range", "rows and batches are dicts: ['id'] is the column"]),
    "a column that an aggregate does not find": (
        lambda at: weir.range(3).sum("idd"), ValueError,
        ["You specified the column 'idd', but there's no such column in the dataset: its columns are id."]),
    "a function of map that returns nothing": (
        lambda at: weir.range(3, override_num_blocks=1).map(lambda row: None).take(), ValueError,
        ["Map(<lambda>) returned what cannot be used", "\nValueError: the function of map returned None for a row; each row is a dict with str keys"]),
    "a function of map that returns a list": (
        lambda at: weir.range(3, override_num_blocks=1).map(lambda row: [row]).take(), ValueError,
        ["the function of map returned a list", 'name the value, as in {"item": value}']),
    "a function of map_batches that returns a list": (
        lambda at: weir.range(3).map_batches(lambda batch: [1, 2]).take(), ValueError,
        ["MapBatches(<lambda>) returned what cannot be used on rows 0–2 of range", "the function returned a list ([1, 2])",
         'name the column, as in {"column": values}']),
    "a function of map_batches that returns a number for a column": (
        lambda at: weir.range(3).map_batches(lambda batch: {"x": 5}).take(), ValueError,
        ["a dict whose value for 'x' is an int (5)", "a list, a NumPy array or a torch tensor with one element a row"]),
    "columns of different lengths": (
        lambda at: weir.range(3).map_batches(lambda batch: {"x": [1], "y": [1, 2]}).take(), ValueError,
        ["columns of different lengths: 'x' has 1, 'y' has 2"]),
    "a function of flat_map that returns one row": (
        lambda at: weir.range(3, override_num_blocks=1).flat_map(lambda row: {"x": 1}).take(), ValueError,
        ["FlatMap(<lambda>)", "returned a dict ({'x': 1}); it may return a list of rows, or a generator of them"]),
    "a package that is not installed": (
        lambda at: weir.range(3, override_num_blocks=1).map(lambda row: __import__("no_such_package")).take(), ModuleNotFoundError,
        ["Map(<lambda>) failed on row 0 of range", "No module named 'no_such_package'", "install the package there", "sys.path"]),
    "a class without the arguments of its constructor": (
        lambda at: weir.range(3).map_batches(Model).take(), ActorDiedError,
        ["MapBatches(Model) failed in its constructor", "missing 1 required positional argument: 'path'", "fn_constructor_args=[…]"]),
    "a function of filter that is called for a batch": (
        lambda at: weir.range(3, override_num_blocks=1).filter(lambda row: __import__("numpy").array([True, False])).take(), ValueError,
        ["Filter(<lambda>) returned what cannot be used on row 0 of range", "returned a numpy.ndarray of shape (2,), which is neither true nor false",
         "it is called for each row, and a row is a dict: filter(expr=…) and map_batches work on many at once"]),
    "a row whose keys are numbers": (
        lambda at: weir.range(3, override_num_blocks=1).map(lambda row: {1: 2}).take(), ValueError,
        ["returned what cannot be used on row 0 of range", "the rows that the function of map returned cannot be made into columns: columns are named by str, not by 1 of type int"]),
    "a function instead of an expression": (
        lambda at: weir.range(3).with_column("x", len), TypeError,
        ["column 'x' needs an expression (expr), such as col('a') + 1", "a function of rows is for map(), one of batches for map_batches(), and udf("]),
    "a name instead of an expression": (
        lambda at: weir.range(3).with_column("x", "id"), TypeError, ["not 'id' of type str: col('id') is the column of that name, lit('id') the text"]),
    "a target in an object store": (
        lambda at: weir.range(3).write_parquet("s3://bucket/x"), ValueError,
        ["'s3://bucket/x': files are read and written on this machine. filesystem=…", "opens s3://; or copy the files, or mount the store"]),
    "more memory for a worker than there is": (
        lambda at: weir.range(3).map(lambda row: row, memory=1 << 50).take(), MemoryError,
        ["Map(<lambda>): one worker of each stage needs 1.0 PiB", "give at least 1.3 PiB (memory_limit=), or let a worker ask for less (memory=)"]),
    "files of another kind": (
        lambda at: weir.read_numpy(f"{at}/ragged.csv"), ValueError,
        ["No input files found to read with the following file extensions: ['npy'], among ", "ragged.csv"]),
    "a text for a torch dtype": (
        lambda at: list(weir.range(3).iter_torch_batches(dtypes="float32")), TypeError,
        ["dtypes is a torch.dtype, such as torch.float32, or a dict of columns to these; 'float32' is none"]),
    "a torch dtype for a column that is not there": (
        lambda at: list(weir.range(3).iter_torch_batches(dtypes={"idd": __import__("torch").float32})), KeyError,
        ["dtypes has no column 'idd' to be for (did you mean 'id'?); the columns are id"]),
    "a function with more parameters than it gets": (
        lambda at: weir.range(3, override_num_blocks=1).map(lambda row, model: row).take(), TypeError,
        ["Map(<lambda>) failed on row 0 of range", "missing 1 required positional argument: 'model'", "gets a row or a batch, then what fn_args=[…] and fn_kwargs={…}"]),
    "a function without parameters": (
        lambda at: weir.range(3, override_num_blocks=1).map_batches(lambda: {"x": [1]}).take(), TypeError,
        ["takes 0 positional arguments but 1 was given", "its parameters have to fit"]),
    "what a function returned instead of the function": (
        lambda at: weir.range(3).map(print()), TypeError, ["map takes a function or a class, not None: give the function itself"]),
    "a list of Datasets": (
        lambda at: weir.range(3).union([weir.range(3)]), TypeError, ["union takes Datasets, not a list: union(*datasets)"]),
    "a pool whose bounds are the wrong way round": (
        lambda at: weir.ActorPoolStrategy(min_size=3, max_size=2), ValueError, ["min_size must be <= max_size, and they are 3 and 2"]),
    "concurrency as text": (
        lambda at: weir.range(3).map(len, concurrency="2"), ValueError, ["an integer or a tuple of integers, but got: '2'"]),
    "a catalog that is none": (
        lambda at: weir.read_parquet("shop.orders", catalog="unity"), TypeError, ["read_parquet: catalog is a Catalog, with a method resolve", "'unity'"]),
    "a class without __call__": (
        lambda at: weir.range(3).map_batches(NoCall), ValueError, ["map_batches: the class NoCall has no __call__ method"]),
    "constructor arguments for a function": (
        lambda at: weir.range(3).map_batches(lambda batch: batch, fn_constructor_args=[1]), ValueError,
        ["fn_constructor_args can only be given with a class, and <lambda> is a function"]),
    "a constructor that fails": (
        lambda at: weir.range(3).map_batches(Failing).take(), ActorDiedError,
        ["MapBatches(Failing) failed in its constructor", "in __init__", "RuntimeError: weights.bin is not there"]),
    "a variable that cannot be pickled": (
        lambda at: weir.range(3).map_batches(of_a_lock()).take(), TypeError,
        ["MapBatches(with_lock) cannot be sent to worker processes", "the variable 'lock'", "Make it inside the function, or in the constructor of a class"]),
    "a GPU that is not there": (
        lambda at: weir.range(3).map_batches(lambda batch: batch, num_gpus=64).take(), ValueError,
        ["MapBatches(<lambda>) wants 64 GPUs a worker, and there ", "weir.init(num_gpus=…) declares GPUs that are not found"]),
    "a path that is not there": (
        lambda at: weir.read_parquet(f"{at}/mixd"), FileNotFoundError,
        ["mixd: there is no such file or folder; ", "is there and holds a.parquet, broken.parquet, cut.json, mixed, ragged.csv (did you mean 'mixed'?)"]),
    "a pattern that nothing matches": (
        lambda at: weir.read_parquet(f"{at}/mixd/*.parquet"), FileNotFoundError,
        ["mixd/*.parquet: no file matches this pattern; ", "is there and holds a.parquet, broken.parquet, cut.json, mixed, ragged.csv (did you mean 'mixed'?)"]),
    "a limit that is too small": (
        lambda at: weir.init(memory_limit="10MB", ignore_reinit_error=True), ValueError,
        ["memory_limit is '10MB', which is too small: the least is 64 MiB"]),
    "a folder without such files": (
        lambda at: weir.read_csv(at, file_extensions=["tsv"]).take(), ValueError,
        ["No files found under ", "names starting with '_' or '.'", "`file_extensions`"]),
    "a path of an object store": (
        lambda at: weir.read_parquet("s3://bucket/x"), ValueError,
        ["'s3://bucket/x': files are read and written on this machine. filesystem=…", "opens s3://; or copy the files, or mount the store"]),
    "files whose columns have different types": (
        lambda at: weir.read_parquet(f"{at}/mixed").take_all(), TypeError,
        ["1.parquet: operator read, column a: the column is string here and int64 in ", "0.parquet", "read the files apart and cast the column"]),
    "a file that is no Parquet": (
        lambda at: weir.read_parquet(f"{at}/broken.parquet").take(), ValueError, ["broken.parquet: ", "footer"]),
    "a CSV row with too many fields": (
        lambda at: weir.read_csv(f"{at}/ragged.csv").take(), ValueError,
        ["ragged.csv: operator read, line 3: the row has 3 fields instead of 2: 3,4,5", "invalid_row_handler"]),
    "a JSON file that ends too early": (
        lambda at: weir.read_json(f"{at}/cut.json").take(), ValueError, ["cut.json: operator read, line 2", "newlines_in_values=True"]),
    "len of a Dataset": (lambda at: len(weir.range(3)), AttributeError, ["Use `ds.count()` to compute the length"]),
    "a loop over a Dataset": (lambda at: list(weir.range(3)), TypeError, ["aren't iterable", "`ds.iter_rows()` or `ds.iter_batches()`"]),
    "an index of a Dataset": (lambda at: weir.range(3)["id"], TypeError, ["`ds.select_columns(['id'])`", "`ds.take(n)`"]),
    "the number of blocks before a run": (
        lambda at: weir.range(3).num_blocks(), NotImplementedError, ["Call `ds.materialize()`"]),
    "more rows than take_all may give": (
        lambda at: weir.range(30).take_all(10), ValueError, ["more than the given limit of 10 records", "take(10) gives the first of them"]),
    "writing into a batch": (
        lambda at: weir.range(3).map_batches(grow).take(), ValueError,
        ["MapBatches(grow) failed on rows 0–2 of range", 'batch["id"] += 1', "zero_copy_batch=False gives writable copies"]),
    "a batch format that is not there": (
        lambda at: weir.range(3).map_batches(lambda batch: batch, batch_format="panda"), ValueError, ['"pandas"', "not 'panda'"]),
    "a batch size of nothing": (lambda at: weir.range(3).map_batches(lambda batch: batch, batch_size=0), ValueError, ["batch_size is at least 1, not 0"]),
    "a dict instead of a function": (
        lambda at: weir.range(3).map({"a": 1}), ValueError, ["map takes a function or a class, not {'a': 1}"]),
    "an argument that is misspelt": (
        lambda at: weir.range(3).map_batches(lambda batch: batch, batchsize=3), TypeError,
        ["map_batches() got an unexpected keyword argument 'batchsize' (did you mean 'batch_size'?)"]),
    "`and` between expressions": (
        lambda at: weir.range(3).filter(expr=(col("id") > 1) and (col("id") < 3)), TypeError, ["use & for and, | for or, ~ for not"]),
    "types that do not go together in an expression": (
        lambda at: weir.range(3).with_column("x", col("id") + "a").take(), TypeError,
        ["operator with, column id", "'+' is not defined for int64 (id) and string ('a')"]),
    "concurrency of two numbers for a function": (
        lambda at: weir.range(3).map(lambda row: row, concurrency=(1, 2)), ValueError, ["is not a callable class", "Use ``concurrency=n``"]),
    "tasks for a class": (
        lambda at: weir.range(3).map_batches(Failing, compute=weir.TaskPoolStrategy(1)), ValueError,
        ["`compute` must be an ActorPoolStrategy for the class Failing"]),
    "a target that is there already": (
        lambda at: [weir.range(3).write_parquet(f"{at}/out", mode=mode) for mode in ("append", "error")], ValueError,
        ["out already exists", "mode="]),
    "texts as torch tensors": (
        lambda at: list(weir.from_items(["a"]).iter_torch_batches()), TypeError, ["column 'item' holds values of type str", "collate_fn"]),
    "lists of different lengths as one tensor": (
        lambda at: list(weir.from_items([[1], [1, 2]]).iter_torch_batches()), RuntimeError,
        ["column 'item' holds arrays of different shapes", "give a collate_fn that pads them"]),
    "a function that ends its process": (
        lambda at: weir.range(3, override_num_blocks=1).map(lambda row: os._exit(3)).take(), WorkerCrashedError,
        ["operator Map(<lambda>), rows 0 to 2", "exit status 3", "a crash in native code, os._exit, or the system when memory ran out"]),
    "another type in each block": (
        lambda at: weir.range(4, override_num_blocks=2).map_batches(
            lambda batch: {"x": batch["id"] if batch["id"][0] else ["a"] * len(batch["id"])}).to_pandas(), ValueError,
        ["column x: string and int64 have no common type", "Let the function return the same type for every batch"]),
    "a pipeline that is used twice": (
        lambda at: [pipe.map(len) for pipe in [weir.range(3).repeat(2)] * 2], RuntimeError,
        ["map() has taken this DatasetPipeline", "window() or repeat() of the Dataset once more"]),
}


@pytest.mark.parametrize("name", list(MISTAKES))
def test_mistake(name, at):
    if "torch" in name or "tensor" in name:
        pytest.importorskip("torch")
    make, kind, pieces = MISTAKES[name]
    with pytest.raises(kind) as caught:
        make(at)
    text = str(caught.value)
    for piece in pieces:
        assert piece in text, f"{piece!r} is not in {text!r}"
    assert not re.search(r"/weir/_\w+\.py|--[a-z]", text), text  # neither weir's own frames nor the command's options


def test_there_are_enough():
    import ast
    import inspect

    tree = ast.parse(inspect.getsource(__import__(__name__)))
    (written,) = [line.value for line in tree.body if isinstance(line, ast.Assign) and line.targets[0].id == "MISTAKES"]
    assert len(MISTAKES) == len(written.keys) >= 30  # no name twice


def test_errors_of_files_and_expressions_are_failed_tasks(at):
    for make in (lambda: weir.range(3).filter(expr=col("idd") > 1).take(), lambda: weir.read_parquet(f"{at}/broken.parquet").take(),
                 lambda: weir.read_csv(f"{at}/ragged.csv").count()):
        with pytest.raises(RayTaskError):
            make()


@pytest.mark.parametrize("word, advice", [
    ("head", "use take(n), or limit(n) for a Dataset"), ("collect", "use take_all()"), ("withColumn", "use with_column(name, expr)"),
    ("to_parquet", "use write_parquet(path)"), ("drop_duplicates", "use groupby(columns).map_groups"), ("take_al", "(did you mean 'take_all'?)")])
def test_words_of_other_libraries(word, advice):
    with pytest.raises(AttributeError) as caught:
        getattr(weir.range(3), word)
    assert str(caught.value).startswith(f"'Dataset' object has no attribute '{word}'") and advice in str(caught.value)
    assert not hasattr(weir.range(3), word) and caught.value.name == word


def test_words_of_other_libraries_for_groups():
    with pytest.raises(AttributeError, match=r"'GroupedData' object has no attribute 'agg': use aggregate\(Sum"):
        weir.range(3).groupby("id").agg({"id": "sum"})


@pytest.mark.parametrize("table", ["OF_DATASETS", "OF_GROUPS"])
def test_what_is_advised_is_there(table):
    from weir import _other_words
    from weir.grouped_data import GroupedData

    owner = weir.Dataset if table == "OF_DATASETS" else GroupedData
    for word, advice in getattr(_other_words, table).items():
        assert not hasattr(owner, word) and hasattr(owner, re.match(r"\w+", advice)[0]), word


@pytest.mark.parametrize("text, advice, instead", [
    ("id = 1", "values are compared by ==", "id == 1"), ("id <> 1", "values are compared by !=", "id != 1"),
    ("id > 0 && id < 2", "joined by `and`", "id > 0 and id < 2"), ("id == 1 || id == 2", "joined by `or`", "id == 1 or id == 2"),
    ("!(id == 1)", "turned round by `not`", "not (id == 1)"), ("id IS NOT NULL", "is_null\\(a\\) and is_not_null\\(a\\)", "is_not_null(id)"),
    ("id > 0 AND id < 2", "written small", "id > 0 and id < 2"), ("id == 'a=b' )", "Invalid syntax in the expression: id == 'a=b' \\)$", "id == 1")])
def test_signs_of_other_languages(text, advice, instead):
    with pytest.raises(ValueError, match=advice):
        weir.range(3).filter(expr=text)
    assert weir.range(3).filter(expr=instead).count() > 0


def test_methods_are_called_what_programs_call_them():
    with pytest.raises(TypeError, match=r"^Dataset.sort\(\) got an unexpected keyword argument 'reverse'"):
        weir.range(3).sort("id", reverse=True)
    with pytest.raises(TypeError, match=r"^Dataset.map_batches\(\) missing 1 required positional argument: 'fn'"):
        weir.range(3).map_batches()
