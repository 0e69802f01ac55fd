"""Catalogs: names of tables, and where a reader or writer finds them.

A program says what its names mean by a class of its own; read_parquet, read_delta, read_iceberg and their writers ask it:

    class Folders(Catalog):
        def resolve(self, table, *, reader, mode=CatalogAccessMode.READ):
            return ResolvedSource(path=f"/data/{table.replace('.', '/')}")

    weir.read_parquet("sales.orders", catalog=Folders())

Those that ask a service (Unity and the like) are not here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Any


class ReaderFormat(str, Enum):
    """What the table is read or written as.

    >>> ReaderFormat("parquet")
    <ReaderFormat.PARQUET: 'parquet'>
    """

    DELTA = "delta"
    PARQUET = "parquet"
    ICEBERG = "iceberg"


class CatalogAccessMode(str, Enum):
    """Whether the table is to be read or written.

    >>> CatalogAccessMode("write")
    <CatalogAccessMode.WRITE: 'write'>
    """

    READ = "read"
    WRITE = "write"


@dataclass
class ResolvedSource:
    """Where a table is. Parquet takes path and filesystem; Delta Lake path and storage_options; Iceberg catalog_kwargs and table_identifier.

    >>> ResolvedSource(path="/data/orders").path
    '/data/orders'
    """

    path: str | None = None
    filesystem: Any = None
    storage_options: dict[str, Any] | None = None
    catalog_kwargs: dict[str, Any] | None = None
    table_identifier: str | None = None
    data_format: ReaderFormat | None = None


class Catalog(ABC):
    """Knows where tables are.

    >>> import tempfile, weir
    >>> folder = tempfile.mkdtemp()
    >>> weir.range(2).write_parquet(folder)
    >>> class One(Catalog):
    ...     def resolve(self, table, *, reader, mode=CatalogAccessMode.READ):
    ...         return ResolvedSource(path=folder)
    >>> weir.read_parquet("shop.orders", catalog=One()).take_all()
    [{'id': 0}, {'id': 1}]
    """

    @abstractmethod
    def resolve(self, table: str, *, reader: ReaderFormat, mode: CatalogAccessMode = CatalogAccessMode.READ) -> ResolvedSource:
        """Where `table` is, for this format and purpose.

        >>> class Folders(Catalog):
        ...     def resolve(self, table, *, reader, mode=CatalogAccessMode.READ):
        ...         return ResolvedSource(path=f"/data/{table.replace('.', '/')}")
        >>> Folders().resolve("shop.orders", reader=ReaderFormat.PARQUET).path
        '/data/shop/orders'
        """


def _resolved(method: str, catalog: Any, table: Any, reader: ReaderFormat, mode: CatalogAccessMode = CatalogAccessMode.READ) -> ResolvedSource:
    """What the catalog says of a table. What cannot be used is an error that names the method."""
    if not hasattr(catalog, "resolve"):
        raise TypeError(f"{method}: catalog is a Catalog, with a method resolve(table, *, reader, mode), not {catalog!r}")
    if not isinstance(table, str):
        raise ValueError(f"{method}: Specifying multiple table identifiers is not supported: catalog= takes the name of one table, not {table!r}")
    found: ResolvedSource = catalog.resolve(table, reader=reader) if mode is CatalogAccessMode.READ else catalog.resolve(table, reader=reader, mode=mode)
    if reader is not ReaderFormat.ICEBERG and getattr(found, "path", None) is None:
        raise ValueError(f"{method}: {type(catalog).__name__}.resolve({table!r}) gave no path but {found!r}; it gives a ResolvedSource(path=…)")
    return found
