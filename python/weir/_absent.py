"""Readers, writers and conversions of Ray Data that weir does not have: each says so, and what helps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_OWN = "read the files with a FileBasedDatasource of your own (docs/extending.md), or with read_binary_files and map"
_SINK = "write with a Datasink of your own (docs/extending.md)"
_SERVICE = "it needs a service that weir does not talk to: read with a Datasource of your own (docs/extending.md)"
_CLUSTER = "it hands blocks to another library's cluster: go through to_arrow, to_pandas, from_arrow or from_pandas"

READERS = {
    "from_mars": _CLUSTER,
    "from_spark": _CLUSTER,
    "read_bigquery": _SERVICE,
    "read_clickhouse": _SERVICE,
    "read_databricks_tables": _SERVICE,
    "read_delta_sharing_tables": _SERVICE,
    "read_hudi": "give read_parquet the files that the table has now (a folder holds replaced ones, too)",
    "read_kafka": _SERVICE,
    "read_lerobot": _OWN,
    "read_mongo": _SERVICE,
    "read_snowflake": _SERVICE,
    "read_unity_catalog": _SERVICE,
}

WRITERS = {
    "to_mars": _CLUSTER,
    "to_spark": _CLUSTER,
    "write_bigquery": _SINK,
    "write_clickhouse": _SINK,
    "write_kafka": _SINK,
    "write_mongo": _SINK,
    "write_snowflake": _SINK,
    "write_turbopuffer": _SINK,
}


def refusing(name: str, advice: str, is_method: bool) -> Callable[..., Any]:
    """A function of that name that raises.

    >>> refusing("read_videos", "look elsewhere", False)("in/")
    Traceback (most recent call last):
    ...
    NotImplementedError: weir has no read_videos: look elsewhere
    """

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"weir has no {name}: {advice}")

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = f"""Not there: {advice}.

    >>> import weir
    >>> {"weir.range(3)" if is_method else "weir"}.{name}()
    Traceback (most recent call last):
    ...
    NotImplementedError: weir has no {name}: {advice}
    """
    return refused


def __getattr__(name: str) -> Any:
    if name in READERS:
        globals()[name] = refusing(name, READERS[name], False)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
