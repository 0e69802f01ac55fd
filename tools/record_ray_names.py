#!/usr/bin/env python3
"""Records what Ray 2.60 calls public: names, signatures, classes with their members, fields of the context.

    tools/record_ray_names.py > tests/python/recorded/ray_2_60_names.json      (needs ray[data]; run once)

The file:  version, modules: {module: {name: {kind, what}}}, classes: {what: {bases, signature, members}},
functions: {what: signature}, context: {field: {default, type}}. `what` is the place where a thing is defined, so that one that
several modules show is described once. A module's names are its __all__, or else those without an underscore that are
Ray's own.
"""
import dataclasses
import enum
import importlib
import inspect
import json
import sys
import typing
import warnings

MODULES = """
ray ray.exceptions ray.util ray.util.annotations ray.util.placement_group ray.util.scheduling_strategies
ray.util.actor_pool ray.util.queue ray.util.state ray.util.debug ray.runtime_env ray.experimental ray.runtime_context ray.actor ray.remote_function
ray.types ray.cloudpickle
ray.data ray.data.dataset ray.data.context ray.data.block ray.data.aggregate ray.data.expressions ray.data.datatype
ray.data.datasource ray.data.datasource.partitioning ray.data.datasource.filename_provider
ray.data.datasource.file_meta_provider ray.data.datasource.file_datasink ray.data.datasource.datasink
ray.data.datasource.file_based_datasource ray.data.datasource.datasource ray.data.datasource.path_util
ray.data.datasource.util ray.data.exceptions
ray.data.extensions ray.data.extensions.tensor_extension ray.data.extensions.object_extension ray.data.preprocessor
ray.data.preprocessors ray.data.preprocessors.utils ray.data.preprocessors.version_support ray.data.iterator
ray.data.collate_fn ray.data.constants ray.data.stats ray.data.grouped_data ray.data.checkpoint
ray.data.checkpoint.interfaces ray.data.checkpoint.checkpoint_writer ray.data.checkpoint.checkpoint_filter
ray.data.checkpoint.util ray.data.random_access_dataset ray.data.read_api ray.data.catalog ray.data.llm
ray.data.namespace_expressions.arr_namespace ray.data.namespace_expressions.dt_namespace
ray.data.namespace_expressions.list_namespace ray.data.namespace_expressions.map_namespace
ray.data.namespace_expressions.string_namespace ray.data.namespace_expressions.struct_namespace
ray.data.util.torch_utils ray.data.util.data_batch_conversion ray.data.util.torch_inference
ray.data.util.expression_utils ray.data.util.jax_util
""".split()


def place(value):
    return f"{value.__module__}.{value.__qualname__}"


def plain(text):
    """A signature without addresses of objects."""
    import re

    return re.sub(r" at 0x[0-9a-f]+", "", text)


def signature(value):
    try:
        return plain(str(inspect.signature(value)))
    except (TypeError, ValueError):
        return None


class Record:
    def __init__(self):
        self.modules, self.classes, self.functions, self.missing = {}, {}, {}, {}

    def describe(self, value):
        if inspect.ismodule(value):
            return {"kind": "module", "what": value.__name__}
        if inspect.isclass(value):
            if value.__module__.startswith("ray"):
                self.add_class(value)
            return {"kind": "class", "what": place(value)}
        if inspect.isroutine(value) and hasattr(value, "__qualname__"):
            what = f"{getattr(value, '__module__', None)}.{value.__qualname__}"
            self.functions[what] = signature(value)
            return {"kind": "function", "what": what}
        if isinstance(value, (str, int, float, bool, type(None), tuple, list)):
            return {"kind": "value", "value": plain(repr(value))}
        return {"kind": "object", "type": place(type(value))}

    def add_class(self, cls):
        what = place(cls)
        if what in self.classes:
            return
        entry = self.classes[what] = {"bases": [place(base) for base in cls.__mro__[1:]], "signature": signature(cls)}
        if issubclass(cls, enum.Enum):
            entry["values"] = {name: repr(member.value) for name, member in cls.__members__.items()}
        members = {}
        for name in sorted(set(dir(cls))):
            if name.startswith("_") and name not in ("__len__", "__iter__", "__call__", "__getitem__", "__contains__", "__bool__"):
                continue
            owner = next((base for base in cls.__mro__ if name in vars(base)), None)
            if owner is not cls:  # those of the bases are described there
                continue
            raw = vars(owner)[name]
            if isinstance(raw, property):
                members[name] = {"kind": "property"}
            elif isinstance(raw, (staticmethod, classmethod)):
                members[name] = {"kind": type(raw).__name__, "signature": signature(getattr(cls, name))}
            elif inspect.isroutine(raw):
                members[name] = {"kind": "method", "signature": signature(raw)}
            else:
                members[name] = {"kind": "attribute"}
        entry["members"] = members
        for base in cls.__mro__[1:]:
            if base.__module__.startswith("ray"):
                self.add_class(base)

    def add_module(self, name):
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            self.missing[name] = str(error)
            return
        names = getattr(module, "__all__", None)
        entry = self.modules[name] = {"has_all": names is not None, "names": {}}
        if names is None:
            names = [n for n in dir(module) if not n.startswith("_") and self.is_own(n, getattr(module, n), name)]
        for n in sorted(set(names)):
            try:
                value = getattr(module, n)
            except (AttributeError, ImportError, RuntimeError):  # in __all__ and nowhere else: ray.cpp_function, ray.workflow
                continue
            described = self.describe(value)
            entry["names"][n] = described

    def is_own(self, name, value, module):
        if inspect.ismodule(value) or name in ("TYPE_CHECKING", "T", "U", "F", "V", "PYTHON"):
            return False
        owner = getattr(value, "__module__", None)
        if owner == "typing":  # an alias, such as ray.data.block.Block
            return not hasattr(typing, name)
        if module.startswith("ray.data.extensions."):  # nothing but names of others
            return isinstance(owner, str) and owner.startswith("ray")
        return owner == module if isinstance(owner, str) else isinstance(value, (str, int, float, bool, tuple))


def context_fields():
    from ray.data.context import DataContext

    made = DataContext()
    return {field.name: {"default": plain(repr(getattr(made, field.name))), "type": str(field.type)}
            for field in dataclasses.fields(DataContext)}


def main():
    warnings.simplefilter("ignore")
    import ray

    record = Record()
    for name in MODULES:
        record.add_module(name)
    parts = {"version": ray.__version__, "missing": record.missing, "modules": record.modules, "classes": record.classes,
             "functions": record.functions, "context": context_fields()}
    lines = [f'{json.dumps(part)}: {_lines(value)}' for part, value in parts.items()]
    print("{" + ",\n".join(lines) + "}")


def _lines(value):
    """One entry a line."""
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value[key], sort_keys=True)}" for key in sorted(value)) + "}"


if __name__ == "__main__":
    main()
