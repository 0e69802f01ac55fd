"""The examples of what extends weir run."""
import doctest
import importlib
import re
from pathlib import Path

import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

ROOT = Path(__file__).resolve().parents[2]
MODULES = ["weir._absent", "weir._tasks", "weir._convert", "weir._sources", "weir.block", "weir.datasink",
           "weir.datasource._retry", "weir.datasource.arrays", "weir.datasource.arrow_files", "weir.datasource.datasink", "weir.datasource.datasource",
           "weir.datasource.file_based_datasource", "weir.datasource.file_datasink", "weir.datasource.file_meta_provider",
           "weir.datasource.filename_provider", "weir.datasource.listing", "weir.datasource.partitioning", "weir.datasource.sql", "weir.extensions",
           "weir.extensions.arrow_objects", "weir.extensions.arrow_tensors", "weir.extensions.formats",
           "weir.extensions.pandas_objects", "weir.extensions.pandas_tensors", "weir.extensions.ragged", "weir.checkpoint",
           "weir.checkpoint.interfaces", "weir.checkpoint.util"]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0


def test_the_page():
    text = (ROOT / "docs" / "extending.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "extending.md", "extending.md", 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.tries > 20 and runner.failures == 0
