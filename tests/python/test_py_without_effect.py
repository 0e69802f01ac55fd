"""No name accepts a call and does nothing: parameters that no line of a public function reads are told of in docs/from-ray-data.md."""
import ast
import importlib
import inspect
import re
import textwrap
from pathlib import Path

import pytest

import weir

PAGE = (Path(__file__).resolve().parents[2] / "docs/from-ray-data.md").read_text()
SECTION = PAGE.partition("## Names without effect")[2].partition("\n## ")[0]
MODULES = ["weir", "weir.aggregate", "weir.block", "weir.catalog", "weir.checkpoint", "weir.checkpoint.checkpoint_filter", "weir.collate_fn", "weir.compute",
           "weir.context", "weir.core", "weir.core.api", "weir.core.actor_pool", "weir.core.handles", "weir.core.placement", "weir.core.process_pool", "weir.core.queue",
           "weir.dataset_pipeline", "weir.datasource", "weir.datatype", "weir.expressions", "weir.extensions", "weir.grouped_data", "weir.iterator", "weir.metrics",
           "weir.preprocessors", "weir.random_access_dataset", "weir.ray_api", "weir.read_api", "weir.runtime_env", "weir.schema", "weir.stats", "weir.torch_utils",
           "weir.util"]
# Parameters that a class has since others of its kind, which a caller does not tell apart, need them.
OF_ITS_KIND = {
    "expand_projection": {"input_schema"}, "nullable": {"input_schema"}, "structurally_equals": {"other"}, "output_field": {"input_schema"},
    "iter_rows": {"public_row_format"}, "get_read_tasks": {"data_context"}, "write_block": {"block_index"}, "on_write_start": {"schema"},
    "on_write_failed": {"error"}, "write": {"ctx"}, "expand_paths": {"filesystem", "partitioning", "ignore_missing_paths"},
    "as_py": {"options"}, "to_numpy": {"zero_copy_only", "writable", "na_value"}, "parts": {"run"}, "add": {"flow"},
}


def unread(function):
    """Its parameters that no line reads; none where it only raises, or has no lines."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, IndentationError):
        return set()
    if not isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return set()
    lines = [line for line in tree.body if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))]
    if not lines or isinstance(lines[0], ast.Raise):
        return set()
    given = tree.args
    names = {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg) if one is not None}
    read = {node.id for line in lines for node in ast.walk(line) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return set() if "locals" in read else {name for name in names - read - {"self", "cls"} if not name.startswith("_")}


def public_functions():
    """Each function and method of a public name once, with how it is called."""
    found = {}
    for module in map(importlib.import_module, MODULES):
        for name in {*dir(module), *getattr(module, "__all__", ())}:
            value = getattr(module, name)
            if name.startswith("_") or not str(getattr(value, "__module__", "")).startswith("weir"):
                continue
            methods = {key: inspect.getattr_static(value, key, None) for key in dir(value) if key == "__init__" or not key.startswith("_")} if inspect.isclass(value) else {name: value}
            for key, method in methods.items():
                method = getattr(method, "__func__", method)
                if inspect.isfunction(method) and method.__module__.startswith("weir"):
                    found[method.__qualname__] = method
    return found


def test_what_is_not_read_is_told_of():
    pytest.importorskip("pyarrow")  # some of the modules need it
    functions = public_functions()
    assert len(functions) > 600 and unread(functions["wait"]) == {"fetch_local"}
    silent = {f"{name}({parameter}=)" for name, function in functions.items() for parameter in unread(function) - OF_ITS_KIND.get(function.__name__, set())
              if f"`{parameter}`" not in SECTION}
    assert not silent, silent


def test_options_that_do_nothing_are_told_of():
    from weir import _transform
    from weir.core.options import WITHOUT_EFFECT

    for name in (*_transform._WITHOUT_MEANING, *WITHOUT_EFFECT):
        assert f"`{name}`" in SECTION, name


def test_what_the_page_says_is_there():
    """Each parameter of the table is one of a function, a method or an option."""
    pytest.importorskip("pyarrow")  # some of the modules need it
    from weir import _transform
    from weir.core import options

    known = {name for function in public_functions().values() for name in inspect.signature(function).parameters}
    known |= {*_transform._WITHOUT_MEANING, *options.COMMON, *options.FUNCTION, *options.ACTOR, "locality_with_output", "actor_locality_enabled"}
    for cell in re.findall(r"^\| (.*?) \|", SECTION, re.MULTILINE):
        for name in re.findall(r"`([a-z_]+)`", cell):
            assert name in known or name in ("block_size", "use_threads", "pre_buffer", "memory_pool"), name  # those are pyarrow's


def test_what_docstrings_say_is_told_of_too():
    """`a, b: … without effect` among the arguments."""
    for name, function in public_functions().items():
        for names in re.findall(r"^ +((?:\w+, )*\w+): [^:]*?(?:without effect|no effect)", function.__doc__ or "", re.MULTILINE):
            for parameter in names.split(", "):
                assert parameter not in inspect.signature(function).parameters or f"`{parameter}`" in SECTION, (name, parameter)


@pytest.mark.parametrize("write", [
    lambda ds, at, **more: ds.write_parquet(at, **more), lambda ds, at, **more: ds.write_csv(at, **more), lambda ds, at, **more: ds.write_json(at, **more),
    lambda ds, at, **more: ds.write_lance(at, **more), lambda ds, at, **more: ds.write_delta(at, **more), lambda ds, at, **more: ds.write_iceberg("a.b", **more)])
def test_arguments_of_writes_are_looked_at(write, tmp_path):
    with pytest.raises(TypeError, match=r"write_\w+\(\) got an unexpected keyword argument 'num_cpu' \(did you mean 'num_cpus'\?\)"):
        write(weir.range(3), str(tmp_path / "out"), ray_remote_args={"num_cpu": 1})
    with pytest.raises(ValueError, match="concurrency must be a positive integer"):
        write(weir.range(3), str(tmp_path / "out"), concurrency=0)
