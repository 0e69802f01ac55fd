"""What scripts call on `ray` itself, with Ray's arguments: init, shutdown, resources, nodes. See weir.compat.

>>> from weir import ray_api
>>> ray_api.init(num_cpus=2, ignore_reinit_error=True)["node_ip_address"]
'127.0.0.1'
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from weir import _session
from weir._session import available_resources, cluster_resources, is_initialized

__all__ = ["LoggingConfig", "RayContext", "available_resources", "cluster_resources", "init", "is_initialized", "nodes", "shutdown"]

SCRIPT_MODE, WORKER_MODE, LOCAL_MODE = 0, 1, 2

TWICE = (
    "Maybe you called ray.init twice by accident? This error can be suppressed by passing in 'ignore_reinit_error=True' or by "
    "calling 'ray.shutdown()' prior to 'ray.init()'. (A Dataset that runs starts a session, too.)"
)

# Arguments for what one machine without services does not have; the value is what they are by default.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "include_dashboard": (None, False),
    "dashboard_host": ("127.0.0.1", None),
    "dashboard_port": (None,),
    "job_config": (None,),
    "labels": (None,),
    "proxy_server_url": (None,),
    "_enable_object_reconstruction": (False, None),
    "_plasma_directory": (None,),
    "_node_ip_address": (None, "127.0.0.1"),
    "_node_name": (None,),
    "_driver_object_store_memory": (None,),
    "_redis_username": (None,),
    "_redis_password": (None,),
    "_metrics_export_port": (None,),
    "_system_config": (None,),
    "_tracing_startup_hook": (None,),
    "_skip_env_hook": (False, None),
    "_redis_max_memory": (None,),
    "_enable_object_spilling": (None,),
}
_REFUSED = ("enable_resource_isolation", "cgroup_path", "system_reserved_cpu", "system_reserved_memory")


class LoggingConfig:
    """How messages are written: their level, and the names of further loggers that it holds for.

    >>> LoggingConfig(log_level="WARNING").log_level
    'WARNING'
    """

    def __init__(
        self, encoding: str = "TEXT", log_level: str = "INFO", additional_log_standard_attrs: list[str] | None = None, logger_names: Any = ()
    ) -> None:
        if encoding != "TEXT":
            raise ValueError(f"Invalid encoding type: {encoding}. weir writes messages as TEXT")
        self.encoding = encoding
        self.log_level = log_level
        self.additional_log_standard_attrs = list(additional_log_standard_attrs or ())
        self.logger_names = list(logger_names)

    def _apply(self) -> None:
        import logging

        for name in ("ray", *self.logger_names):
            logging.getLogger(name).setLevel(self.log_level)


class RayContext:
    """What init() returns. It ends the session at the end of a `with` block.

    >>> RayContext()["node_ip_address"]
    '127.0.0.1'
    """

    def __init__(self) -> None:
        address = {"node_ip_address": "127.0.0.1", "address": "local", "node_id": node_id(), "session_dir": _session.session_dir()}
        self.address_info: dict[str, Any] = address | {"webui_url": "", "gcs_address": None, "redis_address": None}
        self.dashboard_url = ""
        self.python_version = sys.version.split()[0]
        self.ray_version = "2.60.0"
        self.ray_commit = "weir"
        self.protocol_version = None

    def __getitem__(self, name: str) -> Any:
        return self.address_info[name]

    def __enter__(self) -> RayContext:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        shutdown()

    def disconnect(self) -> None:
        """Ends the session, as shutdown() does; the next Dataset begins another.

        >>> RayContext().disconnect()
        """
        shutdown()

    def __repr__(self) -> str:
        return (
            f"RayContext(dashboard_url={self.dashboard_url!r}, python_version={self.python_version!r}, "
            f"ray_version={self.ray_version!r}, ray_commit={self.ray_commit!r})"
        )


def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: Mapping[str, float] | None = None,
    object_store_memory: int | float | None = None,
    local_mode: bool = False,
    ignore_reinit_error: bool = False,
    configure_logging: bool = True,
    logging_level: int | str | None = None,
    logging_format: str | None = None,
    logging_config: LoggingConfig | None = None,
    log_to_driver: bool | None = None,
    namespace: str | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    **others: Any,
) -> RayContext:
    """ray.init: how many CPUs and GPUs there are for tasks, which may be more than the machine has, and how much memory.

    Args:
        address: None, "local" or "auto": this machine. weir connects to no other.
        num_cpus: logical CPUs; default: those that this process may run on.
        num_gpus: logical GPUs; default: those that are there.
        resources: further resources that tasks and actors may ask for, by name.
        object_store_memory: bytes; see weir.init.
        local_mode: functions run in this process, on one thread.
        ignore_reinit_error: a second init() changes nothing and is no error.
        configure_logging: whether the three next arguments are obeyed.
        logging_level: level of the logger `ray`, and so of `ray.data`.
        logging_format: format of its messages, which then go to stderr.
        logging_config: a LoggingConfig.
        log_to_driver: False: what functions print is not shown.
        namespace: where named actors of this program are looked up.
        runtime_env: env_vars and working_dir that hold for every worker, see weir.runtime_env.RuntimeEnv.
        _temp_dir, object_spilling_directory, _system_config={"object_spilling_config": …}: the folder for what does not fit into memory. It is
            made if it is not there. Without any of them the environment's RAY_TMPDIR or TMPDIR names it.
        others: Ray's arguments for clusters and services: those that differ from their defaults are named in a warning, those
            that ask for isolation are refused, unknown ones as well.

    >>> from weir import ray_api
    >>> ray_api.init(ignore_reinit_error=True).dashboard_url
    ''
    """
    _check_address(address)
    _check_others(others)
    if is_initialized():
        if ignore_reinit_error:
            return RayContext()
        raise RuntimeError(TWICE)
    environment = None
    if runtime_env is not None:
        from weir.runtime_env import prepared

        environment = prepared(runtime_env)
    if configure_logging:
        _set_up_logging(logging_level, logging_format, logging_config)
    _session.init(
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        object_store_memory=object_store_memory,
        local_mode=local_mode,
        spill_dir=_spill_dir(others),
        resources=resources,
        log_to_driver=True if log_to_driver is None else bool(log_to_driver),
        namespace=namespace,
        runtime_env=environment,
        memory=others.get("_memory"),
    )
    return RayContext()


def _check_address(address: str | None) -> None:
    if address is None or address in ("local", "auto"):
        return
    if not isinstance(address, str):
        raise TypeError(f"address is a text, not {type(address).__name__}")
    raise ConnectionError(
        f"ray.init(address={address!r}): weir runs on this machine and connects to no cluster. Without address, or with 'local' or 'auto', the "
        "program runs here"
    )


def _spill_dir(others: Mapping[str, Any]) -> str | None:
    """The folder for what does not fit into memory, by any of the names that Ray has had for it. It is made if it is not there."""
    given: str | None = others.get("object_spilling_directory") or others.get("_object_spilling_directory") or _spilling_config(others) or others.get("_temp_dir")
    if given is None:
        return None
    os.makedirs(given, exist_ok=True)
    return given


def _spilling_config(others: Mapping[str, Any]) -> str | None:
    """directory_path of _system_config={"object_spilling_config": …}, a text with JSON; of several folders the first."""
    text = (others.get("_system_config") or {}).get("object_spilling_config")
    if not text:
        return None
    config = json.loads(text) if isinstance(text, str) else text
    if config.get("type", "filesystem") != "filesystem":
        raise ValueError(f"ray.init: object_spilling_config of the type {config['type']!r}: weir spills to folders of this machine (\"filesystem\")")
    found: list[str] | str | None = config.get("params", {}).get("directory_path")
    return found[0] if isinstance(found, list) else found


def _check_others(others: Mapping[str, Any]) -> None:
    known = {"_memory", "_temp_dir", "_object_spilling_directory", "object_spilling_directory"}
    unknown = [name for name in others if name not in known and name not in _WITHOUT_EFFECT and name not in _REFUSED]
    if unknown:
        raise RuntimeError(f"Unknown keyword argument(s): {', '.join(unknown)}")
    for name in _REFUSED:
        if others.get(name):
            raise ValueError(f"ray.init({name}={others[name]!r}): weir keeps no resources apart for a system beside it")
    idle = [name for name, defaults in _WITHOUT_EFFECT.items() if name in others and others[name] not in defaults]
    if set(others.get("_system_config") or ()) == {"object_spilling_config"}:
        idle.remove("_system_config")
    if idle:
        import logging

        logging.getLogger("weir").warning(
            "ray.init: %s %s no effect: weir has no dashboard and no cluster", ", ".join(idle), "has" if len(idle) == 1 else "have"
        )


def _set_up_logging(level: int | str | None, style: str | None, config: LoggingConfig | None) -> None:
    if level is None and style is None and config is None:
        return
    import logging

    logger = logging.getLogger("ray")
    if config is not None:
        config._apply()
    if level is not None:
        logger.setLevel(level.upper() if isinstance(level, str) else level)
    if style is not None:
        for handler in list(logger.handlers):
            if getattr(handler, "is_weirs", False):
                logger.removeHandler(handler)
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(style))
        handler.is_weirs = True  # type: ignore[attr-defined]
        logger.addHandler(handler)
        logger.propagate = False


def shutdown(*, wait_for_processes: bool = False, _exiting_interpreter: bool = False) -> None:
    """ray.shutdown: ends the session. Its processes are gone when it returns, whatever `wait_for_processes` says.

    >>> from weir import ray_api
    >>> ray_api.shutdown()
    >>> ray_api.is_initialized()
    False
    """
    _session.shutdown()


def node_id() -> str:
    """The number of this machine, the same for all processes of a boot."""
    import hashlib

    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            seed = file.read()
    except OSError:
        seed = os.uname().nodename.encode()
    return hashlib.blake2b(seed, digest_size=28).hexdigest()


def nodes() -> list[dict[str, Any]]:
    """ray.nodes: this machine.

    >>> from weir import ray_api
    >>> [node["Alive"] for node in ray_api.nodes()]
    [True]
    """
    return [
        {
            "NodeID": node_id(),
            "Alive": True,
            "NodeManagerAddress": "127.0.0.1",
            "NodeManagerHostname": os.uname().nodename,
            "NodeName": "127.0.0.1",
            "Resources": cluster_resources(),
            "Labels": {"ray.io/node-id": node_id()},
            "alive": True,
        }
    ]
