"""The examples in the docstrings and in the documents run, and everything public has one."""
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import weir

ROOT = Path(__file__).resolve().parents[2]
MODULES = [".".join(path.relative_to(ROOT / "python").with_suffix("").parts).removesuffix(".__init__")
           for path in sorted((ROOT / "python/weir").rglob("*.py")) if ">>> " in path.read_text()]
# Those of the core run with a session of their own (test_core.py), those that change what `import ray` finds in a process of their own (test_compat.py).
MODULES = [name for name in MODULES if not name.startswith(("weir.core.", "weir.compat.site.")) and name not in ("weir.compat", "weir.compat.lazy")]
# Modules without docstrings of their own: theirs are methods of Dataset.
METHODS = {"weir._convert", "weir._exchange", "weir._splits", "weir._transform"}
# Modules whose examples need more than NumPy.
ARROW = {f"weir.{name}" for name in (
    "_expr_nodes _expr_parse _expr_pyarrow _expr_python _expr_tree _expr_types _legacy _others _sources aggregate block block_builders block_columns block_groups "
    "block_metadata block_order checkpoint checkpoint.checkpoint_filter checkpoint.interfaces collate_fn compat.inside context data_batch_conversion dataset "
    "dataset_pipeline datasource.arrow_files datasource.datasource datasource.file_based_datasource datasource.file_datasink datasource.listing datasource.partitioning "
    "datasource.ranges datasource.whole_files datatype expressions extensions extensions.arrow_arrays extensions.arrow_objects extensions.arrow_tensors "
    "extensions.formats extensions.pandas_objects extensions.pandas_tensors iterator preprocessor preprocessors.encoder read_api ref_bundle schema stats "
    "testing torch_utils").split()}
TORCH = {"weir.collate_fn", "weir.dataset", "weir.dataset_pipeline", "weir.iterator", "weir.preprocessors.torch", "weir.torch_inference",
         "weir.torch_utils", "weir.util"}


@pytest.mark.parametrize("name", [name for name in MODULES if name not in METHODS])
def test_docstrings(name):
    for needed in [*(["pandas", "pyarrow"] if name in ARROW else []), *(["torch"] if name in TORCH else [])]:
        pytest.importorskip(needed)
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0 and results.attempted


def test_docstrings_of_what_a_dataset_inherits():
    """testmod passes over them: they say that they are of weir.dataset, and are written elsewhere."""
    for needed in ("pandas", "pyarrow", "torch"):
        pytest.importorskip(needed)
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for base in weir.Dataset.__mro__[1:-1]:
        for name, method in vars(base).items():
            if inspect.isfunction(method) and method.__doc__:
                for one in finder.find(method, name, module=False, globs=dict(method.__globals__)):
                    runner.run(one)
    assert runner.failures == 0 and runner.tries > 100, runner.tries


@pytest.mark.parametrize("name", ["quickstart.md", "python.md", "context.md", "preprocessors.md"])
def test_documents(name):
    for needed in ("pandas", "pyarrow", "torch"):
        pytest.importorskip(needed)
    text = (ROOT / "docs" / name).read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    test = doctest.DocTestParser().get_doctest("\n".join(b for b in blocks if ">>>" in b), {}, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.tries > 0 and runner.failures == 0


# Examples that cannot run here: the package, or the machine, that each needs.
NOT_RUN = {
    "avro": ["read_avro"], "cudf": ["BlockAccessor.to_cudf"], "daft": ["from_daft", "Dataset.to_daft"], "dask": ["from_dask", "Dataset.to_dask"],
    "datasets": ["from_huggingface"], "deltalake": ["read_delta", "Dataset.write_delta"], "jax": ["Dataset.iter_jax_batches", "DataIterator.iter_jax_batches"],
    "lance": ["read_lance", "Dataset.write_lance"], "mcap": ["read_mcap", "MCAPDatasource"], "modin": ["from_modin", "Dataset.to_modin"],
    "pyav": ["read_videos"], "pyiceberg": ["read_iceberg", "Dataset.write_iceberg"], "soundfile": ["read_audio"],
    "tensorflow": ["from_tf", *(f"{kind}.{name}" for kind in ("Dataset", "DataIterator", "DatasetPipeline") for name in ("iter_tf_batches", "to_tf"))],
    "zarr": ["read_zarr"], "a process of its own, which logs no more": ["disable_log_once_globally"],
}


def names_of(module):
    """What a module offers: of weir itself also what is not offered to `import *`."""
    if module is weir:
        return sorted({*weir.__all__, *weir._WHERE})
    if hasattr(module, "__all__"):
        return module.__all__
    return [name for name, thing in vars(module).items() if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__]


def members_of(cls):
    """Methods and properties of a class: each as it is there, and as the classes of weir have it that it comes from."""
    found = {}
    for base in cls.__mro__:
        for name, member in vars(base).items() if base.__module__.startswith("weir") else ():
            if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, (property, staticmethod, classmethod))):
                found.setdefault(name, []).append(getattr(member, "__func__", member))
    return found


def public():
    """All that a program reaches without an underscore, functions, classes and their members: (name, docstrings, whether it is an exception)."""
    seen = set()
    modules = [entry.name for entry in pkgutil.iter_modules(weir.__path__) if not entry.name.startswith("_")]
    for module in [weir, *(importlib.import_module(f"weir.{name}") for name in modules)]:
        for name in names_of(module):
            thing = getattr(module, name)
            if not callable(thing) or not thing.__module__.startswith("weir") or id(thing) in seen:
                continue
            seen.add(id(thing))
            yield name, [inspect.getdoc(thing) or ""], inspect.isclass(thing) and issubclass(thing, BaseException)
            for key, forms in members_of(thing).items() if inspect.isclass(thing) else ():
                if id(forms[0]) not in seen:
                    seen.add(id(forms[0]))
                    yield f"{name}.{key}", [inspect.getdoc(form) or "" for form in forms], False


@pytest.fixture(scope="module")
def everything():
    for needed in ("pandas", "pyarrow", "torch"):
        pytest.importorskip(needed)
    return list(public())


def test_everything_public_is_described(everything):
    assert len(everything) > 1000
    assert [name for name, texts, _ in everything if not any(texts)] == []


def test_everything_public_has_an_example(everything):
    """A member has one where a class that it is inherited from, or overrides, has it. Exceptions are there to be caught."""
    assert [name for name, texts, is_error in everything if not is_error and not any(">>>" in text for text in texts)] == []


def test_examples_that_do_not_run_are_known(everything):
    def is_run(text):
        lines = [line for line in text.splitlines() if line.startswith(">>>") and "import " not in line]
        return any("+SKIP" not in line for line in lines)

    skipped = {name for name, texts, _ in everything if "+SKIP" in "".join(texts) and not any(map(is_run, texts))}
    assert skipped == {name for names in NOT_RUN.values() for name in names}
