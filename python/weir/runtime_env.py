"""RuntimeEnv: what workers have that the driver has not. weir obeys env_vars, working_dir and py_modules; of packages it sees to it that they
are installed, and installs none.

>>> from weir.runtime_env import RuntimeEnv
>>> RuntimeEnv(env_vars={"MODE": "fast"})["env_vars"]
{'MODE': 'fast'}
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from weir.exceptions import RuntimeEnvSetupError

OBEYED = ("env_vars", "working_dir", "py_modules", "pip", "uv", "excludes", "config")
KNOWN = (*OBEYED, "conda", "container", "image_uri", "java_jars", "nsight", "py_executable", "rocprof_sys", "worker_process_setup_hook")


class MissingPackages(RuntimeEnvSetupError, ValueError):
    """A runtime_env asks for packages that are not installed.

    >>> try: prepared({"pip": ["no-such-package"]})
    ... except MissingPackages as error: print(str(error)[:42])
    runtime_env's pip asks for no-such-package
    """


class RuntimeEnvConfig(dict[str, Any]):
    """How long and how eagerly an environment is made; weir has nothing to make.

    >>> RuntimeEnvConfig(setup_timeout_seconds=10)["setup_timeout_seconds"]
    10
    """

    def __init__(self, setup_timeout_seconds: int = 600, eager_install: bool = True, log_files: list[str] | None = None) -> None:
        super().__init__(setup_timeout_seconds=setup_timeout_seconds, eager_install=eager_install, log_files=log_files or [])


class RuntimeEnv(dict[str, Any]):
    """A dict with the fields that were given.

    >>> RuntimeEnv(working_dir=".", env_vars={"A": "1"}).has_working_dir()
    True
    """

    def __init__(self, *, _validate: bool = True, **fields: Any) -> None:
        for name in fields:
            if name not in KNOWN:
                raise ValueError(f"RuntimeEnv has no field {name!r}; its fields are {', '.join(KNOWN)}")
        super().__init__({name: value for name, value in fields.items() if value is not None})
        if _validate and self.get("conda") is not None and self.get("pip") is not None:
            raise ValueError("The 'pip' field and 'conda' field of runtime_env cannot be specified at the same time.")

    def set(self, name: str, value: Any) -> None:
        """Sets a field.

        >>> env = RuntimeEnv()
        >>> env.set("env_vars", {"A": "1"})
        >>> env
        {'env_vars': {'A': '1'}}
        """
        self[name] = value

    def to_dict(self) -> dict[str, Any]:
        """The fields as a plain dict.

        >>> type(RuntimeEnv(env_vars={"A": "1"}).to_dict())
        <class 'dict'>
        """
        return dict(self)

    def env_vars(self) -> dict[str, str]:
        """The environment variables; {} where none were given.

        >>> RuntimeEnv(env_vars={"A": "1"}).env_vars(), RuntimeEnv().env_vars()
        ({'A': '1'}, {})
        """
        return dict(self.get("env_vars") or {})

    def working_dir(self) -> str:
        """The working directory, or "".

        >>> RuntimeEnv(working_dir="/tmp").working_dir(), RuntimeEnv().working_dir()
        ('/tmp', '')
        """
        return str(self.get("working_dir") or "")

    def has_working_dir(self) -> bool:
        """Whether there is one.

        >>> RuntimeEnv().has_working_dir()
        False
        """
        return bool(self.get("working_dir"))

    def has_pip(self) -> bool:
        """Whether packages are asked for.

        >>> RuntimeEnv(pip=["numpy"]).has_pip()
        True
        """
        return bool(self.get("pip"))


def prepared(env: Mapping[str, Any]) -> dict[str, Any]:
    """What workers are to have: env_vars, working_dir and py_modules, checked. Raises for what weir cannot give, by its name.

    >>> prepared({"env_vars": {"A": "1"}})
    {'env_vars': {'A': '1'}}
    """
    if not isinstance(env, Mapping):
        raise TypeError(f"runtime_env is a dict or a RuntimeEnv, not {type(env).__name__}")
    made: dict[str, Any] = {}
    for name, value in env.items():
        if value is None or name in ("config", "excludes"):
            continue
        if name not in OBEYED:
            raise ValueError(
                f"runtime_env may have {', '.join(OBEYED[:5])}; {name!r} is not supported: workers run in this program's environment"
            )
        if name in ("pip", "uv"):
            check_packages(name, value)
        elif name == "env_vars":
            made["env_vars"] = _checked_variables(value)
        elif name == "working_dir":
            made["working_dir"] = _folder(name, value)
        else:
            made["py_modules"] = [_folder(name, entry) for entry in value]
    return made


def _checked_variables(variables: Any) -> dict[str, str]:
    if not isinstance(variables, Mapping):
        raise TypeError(f"runtime_env['env_vars'] must be of type Dict[str, str], got {type(variables)}")
    for name, value in variables.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"runtime_env['env_vars'] must be of type Dict[str, str], got {name!r}: {value!r}")
    return dict(variables)


def _folder(name: str, path: Any) -> str:
    file = getattr(path, "__file__", None)  # a module
    if file is not None:
        path = os.path.dirname(file) if os.path.basename(file) == "__init__.py" else file
    text: str = os.path.abspath(os.path.expanduser(os.fspath(path)))
    if not (os.path.isdir(text) if name == "working_dir" else os.path.exists(text)):
        raise ValueError(f"runtime_env's {name} {os.fspath(path)!r} is no folder of this machine")
    return text


def check_packages(name: str, wanted: Any) -> None:
    """Workers have the driver's packages: what is asked for must be among them, else MissingPackages. `wanted`: requirements, the
    path of a file of them, or a dict that has them as "packages".

    >>> check_packages("pip", ["numpy"])
    """
    if isinstance(wanted, Mapping):
        wanted = wanted.get("packages") or []
    if isinstance(wanted, (str, os.PathLike)):
        with open(wanted, encoding="utf-8") as file:
            wanted = [line for line in map(str.strip, file) if line and not line.startswith(("#", "-"))]
    missing = [requirement for requirement in wanted if not _is_installed(requirement)]
    if missing:
        raise MissingPackages(
            f"runtime_env's {name} asks for {', '.join(missing)}, which this program's environment has not got, and weir installs nothing: "
            f"pip install {' '.join(repr(entry) for entry in missing)}"
        )


def _is_installed(requirement: str) -> bool:
    import re
    from importlib import metadata

    match = re.match(r"\s*([A-Za-z0-9._-]+)", requirement)
    if match is None:
        return False
    try:
        version = metadata.version(match[1])
    except metadata.PackageNotFoundError:
        return False
    rest = requirement[match.end() :].partition(";")[0]
    rest = re.sub(r"\[[^]]*\]", "", rest).strip()
    if not rest:
        return True
    try:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet
    except ImportError:
        return rest == f"=={version}"
    try:
        return SpecifierSet(rest).contains(version, prereleases=True)
    except InvalidSpecifier:
        return False


def search_path(env: Mapping[str, Any]) -> Iterable[str]:
    """Folders that py_modules puts on a worker's sys.path.

    >>> search_path({"py_modules": ["/home/me/helpers", "/home/me/more.whl"]})
    ['/home/me', '/home/me/more.whl']
    """
    return [path if path.endswith((".whl", ".zip")) else os.path.dirname(path) for path in env.get("py_modules") or ()]
