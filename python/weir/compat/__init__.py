"""Scripts written for Ray Data run on weir: `import ray` gives weir's things under Ray's names.

    python -m weir.compat script.py arguments …          (also -m module, -c code)

or, before the first import of ray:

>>> import weir.compat
>>> weir.compat.install()
>>> import ray
>>> ray.data.range(3).take()
[{'id': 0}, {'id': 1}, {'id': 2}]

It works by a folder named `ray` (site/ray) that comes first on sys.path, and on PYTHONPATH for child processes: spawned ones,
subprocesses, torchrun's. An installed Ray is not touched; it is only not found.
"""

from __future__ import annotations

import os
import sys

__all__ = ["install", "is_installed", "site_folder"]


def site_folder() -> str:
    """The folder that has the package `ray`.

    >>> import os
    >>> os.path.isdir(os.path.join(site_folder(), "ray"))
    True
    """
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")


def is_installed() -> bool:
    """Whether `import ray` gives weir in this process.

    >>> import weir.compat
    >>> weir.compat.install()
    >>> weir.compat.is_installed()
    True
    """
    ray = sys.modules.get("ray")
    if ray is not None:
        return _is_ours(ray)
    return site_folder() in sys.path


def install() -> None:
    """From now on `import ray` gives weir, in this process and in those that it starts.

    >>> import weir.compat
    >>> weir.compat.install()
    >>> import ray
    >>> ray.__version__
    '2.60.0'
    """
    ray = sys.modules.get("ray")
    if ray is not None and not _is_ours(ray):
        raise RuntimeError(
            f"ray has been imported already, from {getattr(ray, '__file__', None) or 'somewhere else'}: call "
            "weir.compat.install() before anything imports ray, or start the program with python -m weir.compat"
        )
    site = site_folder()
    if ray is None and sys.path[:1] != [site]:
        sys.path[:] = [site, *(entry for entry in sys.path if entry != site)]
    os.environ["PYTHONPATH"] = child_path(os.environ.get("PYTHONPATH", ""))


def child_path(path: str) -> str:
    """PYTHONPATH for child processes: the folder of `ray` first, and weir's own where they would not find it."""
    site = site_folder()
    entries = [site, *(entry for entry in path.split(os.pathsep) if entry and entry != site)]
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if home not in entries and os.path.basename(home) not in ("site-packages", "dist-packages"):
        entries.append(home)
    return os.pathsep.join(entries)


def _is_ours(ray: object) -> bool:
    file = getattr(ray, "__file__", None)
    return isinstance(file, str) and os.path.abspath(file).startswith(site_folder() + os.sep)
