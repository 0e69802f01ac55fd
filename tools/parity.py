#!/usr/bin/env python3
"""Writes docs/parity.md: each public name of Ray Data 2.60, and whether weir has it.

    tools/parity.py           the page, of what is known about the cases
    tools/parity.py --record  runs all cases of tests/parity first (minutes), and notes which functions they call; with parts of
                              ids only those
    tools/parity.py --check   1 if the page is not what would be written now

"yes" stands only where a case of tests/parity that gives the same answer as Ray names the function and calls it, or names the class and
makes an object of it, or, where Python sees neither, says that it shows the name: tests/parity/shown.json names the case, and each run of that case
checks that the function is called in it, and the name used. "partly": it is
there, and no such case shows it. "no": it is not there, or says that it is not supported.
"""
import argparse
import importlib
import inspect
import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARITY = ROOT / "tests/parity"
NAMES = ROOT / "tests/python/recorded/ray_2_60_names.json"
SHOWN = PARITY / "shown.json"
PAGE = ROOT / "docs/parity.md"
PACKAGE = (ROOT / os.environ.get("WEIR_BUILD", "build")).absolute() / "python"
sys.path[:0] = [str(PARITY), str(PACKAGE)]

CORE = ["init", "shutdown", "is_initialized", "get", "put", "wait", "remote", "kill", "cancel", "nodes", "cluster_resources",
        "available_resources", "get_runtime_context", "get_gpu_ids", "method", "ObjectRef", "ObjectRefGenerator"]
CLASSES = {  # heading → the class in the recorded names, and where a program finds it
    "Dataset": ("ray.data.dataset.Dataset", "ray.data:Dataset"),
    "DataIterator": ("ray.data.iterator.DataIterator", "ray.data:DataIterator"),
    "GroupedData": ("ray.data.grouped_data.GroupedData", "ray.data.grouped_data:GroupedData"),
    "Schema": ("ray.data.dataset.Schema", "ray.data:Schema"),
    "Expr": ("ray.data.expressions.Expr", "ray.data.expressions:Expr"),
    "Expr.str": ("ray.data.namespace_expressions.string_namespace._StringNamespace", "str"),
    "Expr.dt": ("ray.data.namespace_expressions.dt_namespace._DatetimeNamespace", "dt"),
    "Expr.list": ("ray.data.namespace_expressions.list_namespace._ListNamespace", "list"),
    "Expr.struct": ("ray.data.namespace_expressions.struct_namespace._StructNamespace", "struct"),
    "Expr.map": ("ray.data.namespace_expressions.map_namespace._MapNamespace", "map"),
    "Expr.arr": ("ray.data.namespace_expressions.arr_namespace._ArrayNamespace", "arr"),
    "DataType": ("ray.data.datatype.DataType", "ray.data.datatype:DataType"),
    "DataContext": ("ray.data.context.DataContext", "ray.data:DataContext"),
}
MODULES = {"ray.data.aggregate": "Aggregates", "ray.data.expressions": "Expressions", "ray.data.datasource": "Sources and sinks",
           "ray.data.block": "Blocks", "ray.data.extensions": "Extension types", "ray.data.checkpoint": "Checkpoints",
           "ray.data.preprocessors": "Preprocessors", "ray.exceptions": "Errors"}


# Why no case shows a name that is there: by the last part of the name.
PACKAGE_OF = {"from_dask": "dask", "to_dask": "dask", "from_modin": "modin", "to_modin": "modin", "from_daft": "Daft", "to_daft": "Daft",
              "from_huggingface": "datasets", "read_lance": "pylance", "write_lance": "pylance", "read_videos": "decord", "read_zarr": "zarr 2", "MCAPDatasource": "mcap",
              "summary": "datasketches", "DatasetSummary": "datasketches"}
UNSHOWN = {"NodeIdStr": "a name for str", "from_cudf": "its types are a GPU's", "to_cudf_type": "its types are a GPU's",
           "AsyncioActorExit": "nothing raises it on one machine", "CrossLanguageError": "nothing raises it on one machine",
           "RayChannelTimeoutError": "nothing raises it on one machine", "enable_ray_data_reconstruction": "about lost nodes: without effect on one machine",
           "execution_callback_classes": "tests of weir's own show it"}


def targets(names):
    """(heading, name, how to find it) of everything that the page lists."""
    found = []
    data = names["modules"]["ray.data"]["names"]
    for name, about in data.items():
        is_function = about["kind"] == "function"
        found.append(("Functions of ray.data" if is_function else "Other names of ray.data", f"ray.data.{name}", ("ray.data", name)))
    fields = set(names["context"])
    for heading, (recorded, where) in CLASSES.items():
        for member in names["classes"].get(recorded, {}).get("members", {}):
            if not member.startswith("_") and member not in fields:
                found.append((heading, f"{heading}.{member}", (where, member)))
    for module, heading in MODULES.items():
        for name, about in names["modules"][module]["names"].items():
            if about["kind"] in ("class", "function") and not name.startswith("_") and about["what"].startswith("ray."):
                found.append((heading, f"{module}.{name}", (module, name)))
    found += [("ray", f"ray.{name}", ("ray", name)) for name in CORE]
    return found


def resolved(where, name):
    """weir's object of a name; None: there is none."""
    try:
        if ":" in where:
            module, _, owner = where.partition(":")
            owner = getattr(importlib.import_module(module), owner)
            if owner.__name__ == "DataContext" and name in importlib.import_module("weir.context")._ALIASES:
                return owner.__getattr__  # an old name of a field
            return inspect.getattr_static(owner, name)
        if where.startswith("ray"):
            return getattr(importlib.import_module(where), name)
        from weir.expressions import col

        return inspect.getattr_static(type(getattr(col("a"), where)), name)
    except (ImportError, AttributeError, NotImplementedError):
        return None


def keys_of(thing):
    """The functions that run when it is used."""
    from watch import code_key

    package = os.path.realpath(PACKAGE / "weir/__init__.py").removesuffix("__init__.py")
    if isinstance(thing, property):
        thing = thing.fget
    thing = inspect.unwrap(getattr(thing, "__func__", thing))
    if inspect.isclass(thing):
        made = [vars(cls).get("__init__") or vars(cls).get("__new__") for cls in thing.__mro__ if cls.__module__.startswith("weir")]
        functions = [f for f in made if f is not None][:1]
    else:
        functions = [thing]
    codes = [getattr(getattr(f, "__func__", f), "__code__", None) for f in functions]
    return {key for key in (code_key(code, package) for code in codes if code is not None) if key}


def is_refused(thing):
    """Whether all that it does is to say that it is not supported."""
    return is_absent(thing) or getattr(thing, "__qualname__", "") and getattr(thing, "__doc__", None) is not None and (
        str(thing.__doc__).startswith("Not there:") or getattr(getattr(thing, "__code__", None), "co_qualname", "").endswith("refused"))


def is_absent(thing):
    """Whether it only stands for a part of Ray."""
    from weir.compat import lazy

    return lazy.is_absent(thing)


def reason(name, thing, state):
    """Why a name is not shown, or not there."""
    last = name.rpartition(".")[2]
    if state == "partly":
        return f"Ray needs the package {PACKAGE_OF[last]}" if last in PACKAGE_OF else UNSHOWN[last]
    if thing is None or is_absent(thing):
        return "read the files with a FileBasedDatasource of your own" if last == "LeRobotDatasource" else "it belongs to a service"
    return str(thing.__doc__).partition("\n")[0].removeprefix("Not there: ").rstrip(".")


def record(names, parts):
    """Runs the cases and writes shown.json: for each name the first case that shows it. `parts`: only cases with one of these in their
    ids; what is known of the others stays."""
    import known
    import parity
    from watch import Watch

    import weir.data

    weir.init(ignore_reinit_error=True)
    # What happens once a process is no case's own.
    weir.range(1).map(lambda row: row).take()
    weir.get(weir.put(weir.cluster_resources()))
    package = os.path.realpath(PACKAGE / "weir/__init__.py").removesuffix("/__init__.py")
    answers = {}
    for path in parity.RECORDED.glob("*.json"):
        answers.update(json.loads(path.read_text()))
    wanted = {}
    for _, name, (where, member) in targets(names):
        thing = resolved(where, member)
        if thing is not None and not is_refused(thing):
            wanted[name] = keys_of(thing)
    shown = json.loads(SHOWN.read_text()) if parts else {}
    done = set()
    for one in parity.load().values():
        group = one.id.partition("[")[0]
        if one.lacks() or known.reason(one.id) is not None or (group in done and not one.shows) or (parts and not any(part in one.id for part in parts)):
            continue
        with tempfile.TemporaryDirectory() as at:
            at = os.path.realpath(at)
            parity.make_inputs(at + "/in")
            with Watch(package) as watch:
                mine = parity.answer(one, weir.data, at + "/in")
        if not parity.same(answers.get(one.id), mine):
            continue
        if isinstance(mine, dict) and "error" in mine:
            for kind in mine["error"]:
                if f"ray.exceptions.{kind}" in wanted:
                    shown.setdefault(f"ray.exceptions.{kind}", {"case": one.id, "error": kind})
            continue
        if not group.startswith(("expressions/", "aggregates/", "preprocessors/learned", "grouped/", "iterate/", "files/")):
            done.add(group)  # its other values call the same
        for name in one.shows:
            assert name in wanted, f"{one.id} shows {name}, which is not on the page"
            shown.setdefault(name, {"case": one.id, "says": name.rpartition(".")[2]})
        for name, keys in wanted.items():
            if name not in shown and keys & watch.codes and parity.says(one, name):
                shown[name] = {"case": one.id, "calls": sorted(keys & watch.codes)[0]}
        SHOWN.write_text(json.dumps(shown, indent=0, sort_keys=True) + "\n")
    SHOWN.write_text(json.dumps(shown, indent=0, sort_keys=True) + "\n")


def page(names):
    """The text of docs/parity.md."""
    shown = json.loads(SHOWN.read_text())
    sections = {}
    count = {"yes": 0, "partly": 0, "no": 0}
    for heading, name, (where, member) in targets(names):
        thing = resolved(where, member)
        state = "no" if thing is None or is_refused(thing) else "yes" if name in shown else "partly"
        count[state] += 1
        proof = f"`{shown[name]['case']}`".replace("|", "\\|") if state == "yes" else reason(name, thing, state)
        sections.setdefault(heading, []).append(f"| `{name}` | {state} | {proof} |")
    lines = [
        "# Ray Data's names",
        "",
        f"Each public name of Ray Data {names['version']} on one machine: **{count['yes']}** yes, **{count['partly']}** partly, "
        f"**{count['no']}** no. Written by tools/parity.py.",
        "",
        "*yes*: a case of tests/parity names it, calls it and has the same answer as Ray; the case is listed. *partly*: it is there, and no such",
        "case shows it (tests of other kinds may); the row says why. *no*: it is not there, or says that it is not supported. Fields of DataContext:",
        "docs/context.md. How answers differ where they do: tests/parity/known.py and docs/from-ray-data.md.",
        "Cases `packages/…` run where their package (TensorFlow, deltalake, pyiceberg …) is installed.",
        "Errors whose case is `user/errors_that_tasks_raise` can be raised by a program in a task and caught where its result is wanted; on one",
        "machine nothing else raises most of them.",
    ]
    for heading, rows in sections.items():
        lines += ["", f"## {heading}", "", "| name | | case, or why there is none |", "|---|---|---|", *rows]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Writes docs/parity.md.")
    parser.add_argument("--record", action="store_true", help="run the cases first")
    parser.add_argument("parts", nargs="*", help="with --record: only cases with one of these in their ids")
    parser.add_argument("--check", action="store_true", help="only say whether the page is current")
    options = parser.parse_args()
    import weir.compat

    weir.compat.install()
    names = json.loads(NAMES.read_text())
    if options.record:
        record(names, options.parts)
    text = page(names)
    if not options.check:
        PAGE.write_text(text)
        return 0
    if PAGE.read_text() == text:
        return 0
    print("docs/parity.md is not current: run tools/parity.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
