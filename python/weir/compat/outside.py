"""Ray's other libraries: ray.train, ray.tune, ray.serve, ray.llm, ray.rllib, and Ray's own modules, such as ray.data._internal. They import,
with every module and name that is asked for; the first use of a name raises and says what to do instead."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from weir.compat.lazy import absent

RECIPE = """
    # train.py, one process a GPU; started by:
    #   python -m weir.compat -m torch.distributed.run --nproc_per_node=4 train.py
    import ray, torch.distributed as dist
    dist.init_process_group()
    ds = ray.data.read_parquet("…").shard(dist.get_world_size(), dist.get_rank())
    for epoch in range(10):
        for batch in ds.iter_torch_batches(batch_size=256):
            ...  # forward, backward, step of a DistributedDataParallel model
"""

_LIBRARIES = {
    "ray.train": "runs training on a cluster. With weir a training is started by torchrun, and each process reads its share of the data:\n"
    + RECIPE,
    "ray.tune": "runs trials on a cluster. A loop over the parameters, or a library for searching them, can call a function that uses Datasets",
    "ray.serve": "serves models on a cluster. Batch inference is Dataset.map_batches with a class",
    "ray.llm": "runs language models on a cluster. A class with the model, given to Dataset.map_batches with num_gpus, does the same",
    "ray.data.llm": "needs ray.llm. A class with the model, given to Dataset.map_batches with num_gpus, does the same",
    "ray.rllib": "is reinforcement learning on a cluster",
    "ray.air": "belongs to ray.train",
    "ray.job_submission": "hands programs to a cluster. A program that uses weir is started as any other",
    "ray.autoscaler": "makes a cluster larger and smaller, and weir runs on one machine",
    "ray.dag": "is another way of writing tasks of a cluster. ray.remote has functions and actors",
    "ray.workflow": "was taken out of Ray in 2.44",
    "ray.data._internal": "is how Ray Data is made, and weir is made otherwise. What users of it can see is under ray.data",
    "ray._private": "is how Ray is made, and weir is made otherwise. What users of it can see is under ray",
    "ray._common": "is how Ray is made, and weir is made otherwise. What users of it can see is under ray",
    "ray.util.state": "lists what a cluster does. Dataset.stats() tells what a run did",
    "ray.cluster_utils": "starts several nodes for tests, and weir runs on one machine",
    "ray.dashboard": "shows what a cluster does. Dataset.stats() tells what a run did",
    "ray.job_config": "describes a program to a cluster. ray.init takes its arguments",
    "ray.experimental.tqdm_ray": "draws the bars of a cluster's processes in one place. tqdm itself works in functions, and runs show their own progress",
    "ray.util.client": "reaches a cluster from another machine, and weir runs on this one",
    "ray.util.dask": "runs Dask's graphs on a cluster. Dask's own schedulers do on one machine, and ray.data.from_dask takes its frames",
    "ray.util.iter": "was taken out of Ray's documentation in 2.0. Datasets and streaming_split do what it did",
    "ray.util.joblib": "runs joblib's calls on a cluster. joblib's own processes do on one machine",
    "ray.util.lightgbm": "runs training on a cluster. LightGBM uses all cores of one machine by itself",
    "ray.util.spark": "starts a cluster inside of Spark",
    "ray.util.tracing": "collects traces of a cluster",
    "ray.util.xgboost": "runs training on a cluster. XGBoost uses all cores of one machine by itself",
    "ray.util.collective": "is communication between actors of a cluster. torch.distributed does it on one machine",
}


def _reason(path: str) -> str:
    library = next(name for name in _LIBRARIES if path == name or path.startswith(name + "."))
    return f"{path} is not in weir: {library} {_LIBRARIES[library]}"


def library(module: str, real: dict[str, str] | None = None) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """__getattr__ and __dir__ of such a module. `real`: names that weir has, as "module:name"."""
    find_all()

    def look(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value: Any
        if real and name in real:
            from importlib import import_module

            where, _, own = real[name].partition(":")
            value = getattr(import_module(where), own)
        elif PathFinder.find_spec(f"{module}.{name}", getattr(sys.modules[module], "__path__", [])) is not None:
            from importlib import import_module

            value = import_module(f"{module}.{name}")
        else:
            value = absent(f"{module}.{name}", _reason(f"{module}.{name}"))
        sys.modules[module].__dict__[name] = value
        return value

    return look, lambda: sorted(set(sys.modules[module].__dict__) | set(real or ()))


def find_all() -> None:
    """From now on every module below these libraries is found."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


class _Finder(Loader, MetaPathFinder):
    """Every module below the libraries exists; the last finder, so that those with a file come first."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not any(name.startswith(library + ".") for library in _LIBRARIES):
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__getattr__, module.__dir__ = library(module.__name__)  # type: ignore[method-assign]
