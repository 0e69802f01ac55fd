"""The examples in the docstrings and in the documents run, and everything public has one."""
import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import weir

ROOT = Path(__file__).resolve().parents[2]
MODULES = ["weir", "weir._legacy", "weir._session", "weir._transform", "weir.compute", "weir.context", "weir.data", "weir.dataset", "weir.dataset_pipeline",
           "weir.datasource", "weir.datasource.examples", "weir.datasource.other_systems", "weir.datasource.ranges", "weir.datasource.whole_files",
           "weir.iterator", "weir.read_api", "weir.schema", "weir.exceptions", "weir.expressions",
           "weir.aggregate", "weir.grouped_data", "weir.compat.__main__", "weir.compat.inside", "weir.constants", "weir.ray_api",
           "weir.runtime_env", "weir.util", "weir.metrics", "weir.testing", "weir.torch_utils", "weir.torch_inference", "weir.data_batch_conversion",
           "weir.ray_types", "weir.preprocessor", "weir.preprocessors", *(f"weir.preprocessors.{name}" for name in (
               "chain concatenator discretizer encoder hasher imputer normalizer scaler tokenizer torch transformer utils vectorizer "
               "version_support _batches _columns _counts _saved").split())]
NEEDS = {"weir.aggregate": ["pyarrow"], "weir.datasource.ranges": ["pyarrow"], "weir.datasource.whole_files": ["pyarrow"], "weir.testing": ["pandas"], "weir.preprocessor": ["pandas", "pyarrow"], "weir.preprocessors.encoder": ["pandas", "pyarrow"], "weir.preprocessors.torch": ["torch"], "weir._legacy": ["pyarrow"], "weir.iterator": ["pandas", "pyarrow", "torch"], "weir.torch_utils": ["torch", "pyarrow"], "weir.torch_inference": ["torch"], "weir.util": ["torch"], "weir.dataset_pipeline": ["pandas", "pyarrow", "torch"], "weir.read_api": ["pandas", "pyarrow"], "weir.expressions": ["pyarrow"], "weir.compat.inside": ["pyarrow"], "weir.dataset": ["pandas", "pyarrow", "torch"]}


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    for needed in NEEDS.get(name, ()):
        pytest.importorskip(needed)
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0


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


def public():
    for name in weir.__all__:
        thing = getattr(weir, name)
        if inspect.ismodule(thing):
            continue
        yield name, thing
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            for key, value in vars(thing).items():
                if not key.startswith("_") and (inspect.isfunction(value) or isinstance(value, (property, staticmethod, classmethod))):
                    yield f"{name}.{key}", getattr(value, "__func__", value)


def test_everything_public_is_described():
    missing = [name for name, thing in public() if not inspect.getdoc(thing)]
    assert missing == []


def test_functions_and_methods_have_examples():
    missing = [name for name, thing in public() if (name.startswith("Dataset.") or inspect.isfunction(thing) and "." not in name)
               and ">>>" not in inspect.getdoc(thing)]
    assert missing == []
