"""Batches as NumPy, pandas, pyarrow and torch, and back.

    to_format(batch, "numpy", zero_copy)  →  what a function, iter_batches or take_batch gives the user
    from_result(value)                    →  batches, from what a function returned

A Batch is a view of shared memory; what is made here keeps it alive. NumPy views are read-only unless copies are asked
for. torch tensors may be written to: in a worker the pages are mapped privately, so the writer gets its own copy of them;
in the driver they are copied, unless nobody else reads them.
pandas, pyarrow and torch are imported only when they are asked for, and named in the error when they are absent.
"""
from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weir._errors import WrongReturn

if TYPE_CHECKING:
    import numpy
    import pandas
    import pyarrow
    import torch
    from weir._weir import Batch

FORMATS = ("default", "numpy", "pandas", "pyarrow", "torch", None)
PYTHON_OBJECT = "weir.python_object"
UUID = "arrow.uuid"
RAGGED_TENSOR = "arrow.variable_shape_tensor"
COPIED_MAX = 1 << 20  # results smaller than this may be kept for a while, so they are not left in the user's hands


def check_format(name: object) -> None:
    """ValueError for a batch_format that weir does not have.

    >>> check_format("numpy")
    >>> check_format("cudf")
    Traceback (most recent call last):
    ...
    ValueError: batch_format is "default", "numpy", "pandas", "pyarrow", "torch" or None, not 'cudf'
    """
    if name is not None and (not isinstance(name, str) or name not in FORMATS):
        raise ValueError(f'batch_format is "default", "numpy", "pandas", "pyarrow", "torch" or None, not {name!r}')


def _need(module: str, purpose: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        if "failed to map segment" in str(error) or "annot allocate memory" in str(error):
            raise MemoryError(f"no memory to load {module} ({error})") from None
        raise ModuleNotFoundError(f"{purpose} needs {module.partition('.')[0]}, which is not installed "
                                  f"({error})", name=module) from None


def to_format(batch: Batch, name: str | None, zero_copy: bool = True, arrow_backed: bool = True,
              is_private: bool = False, frames: bool = False) -> Any:
    """The batch in a batch_format. `arrow_backed`: pandas columns with pd.ArrowDtype. `is_private`: this process is a
    worker, whose maps of the batch are private: torch tensors may lie over them. `frames`: the rows are a frame's still, as
    from_pandas was given it."""
    if name in ("default", "numpy"):
        arrays = batch.numpy(writable=not zero_copy)
        return _with_objects(batch, arrays) if frames else arrays
    if name == "pandas":
        return to_pandas(batch, arrow_backed, zero_copy, frames=frames)
    if name == "torch":
        return to_torch(batch, owned=is_private)
    if name is None or name == "pyarrow":
        return to_arrow(batch)
    if name == "engine":  # _fuse.BATCH
        return batch
    check_format(name)
    raise AssertionError(name)


def import_numpy() -> None:
    """Now, while there is something to wait for: it takes as long as hundreds of batches.

    Threads of OpenBLAS spin for a tenth of a second when they have nothing to do, and have nothing to do when they are
    made: on the processors that workers are started on. Half a millisecond (2²⁰ cycles) does for whoever calls it again."""
    spin = "OPENBLAS_THREAD_TIMEOUT"
    if "numpy" in sys.modules or spin in os.environ:
        import numpy  # noqa: F401
        return
    os.environ[spin] = "20"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[spin]


def _with_objects(batch: Batch, arrays: dict[str, Any]) -> dict[str, Any]:
    """Arrays of a frame's columns, in which those that pandas has as objects hold what the frame holds: lists and dates."""
    asked = [name for name, kind, _, metadata in batch.schema() if not metadata and kind.startswith(("list<", "large_list<", "date32"))]
    if asked:
        frame = to_pandas(batch.select(asked))
        arrays.update({name: frame[name].to_numpy() for name in asked})
    return arrays


def _is_masked(dtype: Any) -> bool:
    import pandas as pd

    return getattr(dtype, "na_value", None) is pd.NA


# ---- pyarrow ----

def to_arrow(batch: Batch) -> pyarrow.Table:
    """The batch as a pyarrow.Table over the same memory, tensors and Python objects as the types of weir.extensions, whose
    values come out by as_py() and to_pylist()."""
    from weir import _tensors

    return _tensors.to_users(_engine_table(batch))


def _engine_table(batch: Batch) -> pyarrow.Table:
    """With the engine's own types, and with Ray Data's where a file had them."""
    pa = _need("pyarrow", 'batch_format="pyarrow"')
    from weir import _tensors

    _tensors.make_known(batch)
    return pa.Table.from_batches([pa.record_batch(batch)])


def _extension_name(field: pyarrow.Field) -> str:
    name = getattr(field.type, "extension_name", None)
    if name is not None:
        return str(name)
    return str((field.metadata or {}).get(b"ARROW:extension:name", b""), "utf-8", "replace")


# ---- pandas ----

def to_pandas(batch: Batch, arrow_backed: bool = True, zero_copy: bool = True, renumber: bool = False,
              frames: bool = True) -> pandas.DataFrame:
    """The batch as a pandas.DataFrame: pd.ArrowDtype columns, categories for dictionaries, objects for tensors. A batch
    that came from a frame has that frame's dtypes, one of a table that pandas made that table's index. `renumber`: rows of
    several blocks, which have no index together. `frames`: False where a step has made tables of the frames since."""
    pd = _need("pandas", 'batch_format="pandas"')
    _need("pyarrow", 'batch_format="pandas"')
    table = _engine_table(batch)
    if not frames and _KINDS in (table.schema.pandas_metadata or {}):
        table = table.replace_schema_metadata(None)
    return table_to_pandas(_without_index(table) if renumber else table, pd, arrow_backed, zero_copy)


def frame_of(batches: list[Batch], arrow_backed: bool = True, frames: bool = True) -> pandas.DataFrame:
    """All rows of these batches as one frame. A column of types that have none in common is one of Python objects, as pandas makes it."""
    from weir import _blocks
    from weir._errors import ArrowConversionError

    try:
        whole = _blocks.joined(batches)
    except ArrowConversionError:
        import pandas as pd

        return pd.concat([to_pandas(batch, arrow_backed, renumber=True, frames=frames) for batch in batches], ignore_index=True)
    return to_pandas(whole, arrow_backed, renumber=len(batches) > 1, frames=frames)


def table_to_pandas(table: pyarrow.Table, pd: Any, arrow_backed: bool = True,
                    zero_copy: bool = True) -> pandas.DataFrame:
    """The same for a table of several batches."""
    import pyarrow as pa

    from weir import _tensors

    table = _tensors.from_users(table)
    if table.schema.metadata and _forgets_metadata():
        table = table.replace_schema_metadata(None)
    noted = table.schema.pandas_metadata or {}
    own = _KINDS in noted
    index = None
    if own:
        table = _without_changed(table)
    elif table.schema.metadata:
        index, table = _index_of(table, noted, pd, arrow_backed)
        table = table.replace_schema_metadata(None)
    objects = {i: values for i, field in enumerate(table.schema)
               if (values := _object_values(field, table.column(i))) is not None}
    if own or not arrow_backed:
        names = table.column_names
        plain = table.drop_columns([names[i] for i in objects]) if objects else table
        frame = plain.to_pandas()
        for name in _object_columns(table.schema) if own else ():
            # Texts, and numbers, would be of pandas' own types; lists would be arrays.
            if name not in frame:
                continue
            field = table.schema.field(name)
            if frame[name].dtype != object or pa.types.is_nested(field.type) or _extension_name(field) == UUID:
                frame[name] = pd.Series(table[name].to_pylist(), index=frame.index, dtype=object)
        for i, values in objects.items():
            frame.insert(min(i, frame.shape[1]), names[i], _held(table.schema.field(i), values, pd, frame.index))
        if index is not None:
            frame.index = index
        return frame if zero_copy else frame.copy()
    columns: dict[int, Any] = {}
    for i, field in enumerate(table.schema):
        if i in objects:
            columns[i] = _held(field, objects[i], pd)
        elif _extension_name(field) == UUID:  # the bytes, as in NumPy batches
            columns[i] = table.column(i).to_pandas()
        elif pa.types.is_dictionary(field.type) or pa.types.is_null(field.type):  # pandas cannot put a value into a null[pyarrow] column
            columns[i] = table.column(i).to_pandas()
        else:
            columns[i] = pd.arrays.ArrowExtensionArray(table.column(i))
    if not columns:
        frame = pd.DataFrame(index=range(table.num_rows))
    else:
        frame = pd.DataFrame(columns, copy=not zero_copy)
        frame.columns = _names_index(tuple(table.column_names)).view()
    if index is not None:
        frame.index = index
    return frame


@functools.lru_cache(maxsize=8)
def _names_index(names: tuple[str, ...]) -> Any:
    """Most of what a small frame costs is the index of its names, and looking one up there for the first time."""
    return _need("pandas", 'batch_format="pandas"').Index(names)


def _without_index(table: pyarrow.Table) -> pyarrow.Table:
    """Rows of several blocks are numbered anew: without the columns that pandas noted as the index of a user's table."""
    noted = table.schema.pandas_metadata or {}
    if not noted or _KINDS in noted or _forgets_metadata():
        return table
    names = [name for name in noted.get("index_columns", ()) if isinstance(name, str) and name in table.column_names]
    return table.drop_columns(names).replace_schema_metadata(None)


def _index_of(table: pyarrow.Table, noted: Mapping[str, Any], pd: Any, arrow_backed: bool) -> tuple[Any, pyarrow.Table]:
    """The index that pandas noted of a user's table, and the table without its columns; None: rows are counted."""
    described = noted.get("index_columns", ())
    names = [name for name in described if isinstance(name, str) and name in table.column_names]
    if not names and not any(isinstance(one, dict) for one in described):
        return None, table
    mapper = pd.ArrowDtype if arrow_backed else None
    return table.select(names).to_pandas(types_mapper=mapper).index, table.drop_columns(names)


def _forgets_metadata() -> bool:
    from weir.context import DataContext

    return bool(DataContext.get_current().pandas_block_ignore_metadata)


_KINDS = "weir_kinds"  # in pandas' metadata: what the columns of a given frame were in Arrow


def _without_changed(table: pyarrow.Table) -> pyarrow.Table:
    """Without the dtypes of columns that have other values than the frame had: the dtype would be forced upon them."""
    import json

    noted = table.schema.pandas_metadata or {}
    kinds = noted[_KINDS]
    have = dict(zip(table.schema.names, _kinds(table.schema)))
    left = []
    for column in noted.get("columns", ()):
        was = kinds.get(column.get("name"))
        if was in (have.get(column.get("name"), was), "empty", "categorical"):
            left.append(column)
    if len(left) == len(noted.get("columns", ())):
        return table
    metadata = {**table.schema.metadata, b"pandas": json.dumps({**noted, "columns": left}).encode()}
    return table.replace_schema_metadata(metadata)


def _kinds(schema: Iterable[pyarrow.Field]) -> list[str]:
    """The types in the words of pandas' metadata."""
    from pyarrow.pandas_compat import get_logical_type

    return [get_logical_type(field.type) for field in schema]


def _object_columns(schema: pyarrow.Schema) -> list[str]:
    """The columns that were objects in the frame that they come from."""
    noted = schema.pandas_metadata or {}
    return [column["name"] for column in noted.get("columns", ()) if column.get("numpy_type") == "object"]


def _object_values(field: pyarrow.Field, column: pyarrow.ChunkedArray) -> list[Any] | None:
    """Values of a column that pandas holds as objects: tensors as arrays, Python objects as they are. None: others."""
    import pyarrow as pa

    if isinstance(field.type, pa.FixedShapeTensorType):
        return [row for chunk in column.chunks for row in _fixed_rows(chunk)]
    name = _extension_name(field)
    if name == RAGGED_TENSOR:
        return [row for chunk in column.chunks for row in _ragged_rows(getattr(chunk, "storage", chunk))]
    if name == PYTHON_OBJECT:
        from weir._errors import rebuilt_object

        return [None if value is None else rebuilt_object(value, field.name) for value in column.to_pylist()]
    return None


def _held(field: pyarrow.Field, values: list[Any], pd: Any, index: Any = None) -> pandas.Series[Any]:
    """Such values in a frame: as objects, or tensors as a TensorArray where the context wants them."""
    if _casts_tensors() or _extension_name(field) == PYTHON_OBJECT or any(value is None for value in values):
        return pd.Series(values, index=index, dtype=object)
    from weir.extensions import TensorArray

    return pd.Series(TensorArray(values), index=index)


def _casts_tensors() -> bool:
    from weir.context import DataContext

    return bool(DataContext.get_current().enable_tensor_extension_casting)


def without_tensor_arrays(frame: pandas.DataFrame) -> pandas.DataFrame:
    """A given frame as one of rows would be: what are TensorArrays in it are objects, unless the context wants them as they are."""
    import sys

    extension = sys.modules.get("weir.extensions.pandas_tensors")
    if extension is None or not _casts_tensors():
        return frame
    for name, dtype in frame.dtypes.items():
        if isinstance(dtype, extension.TensorDtype):
            values = extension.TensorArray(frame[name].array).to_numpy()
            frame = frame.assign(**{str(name): frame[name].__class__(list(values), index=frame.index, dtype=object)})
    return frame


def dense(chunk: Any) -> Any:
    """The tensors of a chunk without nulls as one array. pyarrow makes none of bits and times."""
    import pyarrow as pa

    kind = chunk.type
    if pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type):
        return chunk.to_numpy_ndarray()
    tensors = chunk.storage.flatten().to_numpy(zero_copy_only=False).reshape(len(chunk), *kind.shape)
    return tensors if kind.permutation is None else tensors.transpose(0, *(at + 1 for at in kind.permutation))


def _fixed_rows(chunk: Any) -> list[Any]:
    """A tensor for each row of fixed shape, None where there is none: pyarrow makes an ndarray only of rows that are all there."""
    if not chunk.null_count:
        return list(dense(chunk)) if len(chunk) else []
    if chunk.null_count == len(chunk):
        return [None] * len(chunk)
    present = iter(dense(type(chunk).from_storage(chunk.type, chunk.storage.drop_null())))
    return [next(present) if valid else None for valid in chunk.is_valid().to_pylist()]


def _ragged_rows(storage: Any) -> list[Any]:
    data, shapes = storage.field("data"), storage.field("shape")
    valid = storage.is_valid().to_pylist() if storage.null_count else [True] * len(storage)
    return [data[i].values.to_numpy(zero_copy_only=False).reshape(shapes[i].as_py()) if valid[i] else None
            for i in range(len(storage))]


# ---- torch ----

def to_torch(batch: Batch, dtypes: Any = None, device: Any = None, owned: bool = False) -> dict[str, torch.Tensor]:
    """The batch as a dict of tensors, which may be written to. `dtypes`: one torch dtype, or a dict by column. `owned`:
    nobody else will read the batch, or not these pages of it, so that the tensors may lie over its memory."""
    torch_module = _need("torch", "a torch batch")
    arrays = batch.numpy()
    wanted_of = _torch_dtypes(dtypes, list(arrays), torch_module)
    tensors = {}
    for name, array in arrays.items():
        made = array_to_tensor(array, name, torch_module)
        wanted = wanted_of.get(name)
        tensor = made if wanted is None and device is None else made.to(device=device, dtype=wanted)
        if not owned and not array.flags.writeable and tensor.data_ptr() == made.data_ptr():
            tensor = tensor.clone()
        tensors[name] = tensor
    return tensors


def _torch_dtypes(dtypes: Any, columns: list[str], torch: Any) -> Mapping[str, Any]:
    """The dtype of each column that has to have one."""
    wanted: Mapping[str, Any] = dtypes if isinstance(dtypes, Mapping) else {} if dtypes is None else dict.fromkeys(columns, dtypes)
    for dtype in wanted.values():
        if dtype is not None and not isinstance(dtype, torch.dtype):
            raise TypeError(f"dtypes is a torch.dtype, such as torch.float32, or a dict of columns to these; {dtype!r} is none")
    unknown = next((name for name in wanted if name not in columns), None)
    if unknown is not None and not wanted.keys() >= set(columns):  # one for all that any batch may have is fine
        from weir._errors import listed, nearest
        from weir._mistakes import NoSuchName

        raise NoSuchName(f"dtypes has no column {unknown!r} to be for{nearest(unknown, columns)}; the columns are {listed(columns)}")
    return wanted


class NoTensor(TypeError, RuntimeError):
    """Values of a column that torch has no type for. Ray Data raises the one for texts, the other for None among bools, dicts and Decimals.

    >>> issubclass(NoTensor, TypeError) and issubclass(NoTensor, RuntimeError)
    True
    """


def array_to_tensor(array: numpy.ndarray[Any, Any], name: str, torch: Any) -> Any:
    """A tensor over the array's memory, which the caller may write to; lists of equal length are stacked."""
    if array.dtype == object:
        array = _stacked(array, name)
    if array.dtype.kind in "USMmV":
        raise TypeError(f"column {name!r} of type {array.dtype} cannot be a torch tensor: leave it out "
                        "(select_columns, drop_columns), or give a collate_fn")
    if not array.flags.writeable:
        array = _writable_view(array)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        return torch.from_numpy(array)
    except ValueError:  # negative strides
        return torch.from_numpy(array.copy())


def _stacked(array: numpy.ndarray[Any, Any], name: str) -> numpy.ndarray[Any, Any]:
    import numpy as np

    values = array.tolist() if array.ndim == 1 else list(array)
    odd = next((v for v in values if not isinstance(v, (np.ndarray, list))), None)
    if odd is not None or any(v is None for v in values):
        what = "None" if odd is None else type(odd).__name__
        raise NoTensor(f"column {name!r} holds values of type {what}, which cannot be a torch tensor: leave it out "
                       "(select_columns, drop_columns), or give a collate_fn")
    arrays = [np.asarray(v) for v in values]
    if len({a.shape for a in arrays}) > 1:
        raise RuntimeError(f"column {name!r} holds arrays of different shapes, which cannot be one torch tensor: give a "
                           "collate_fn that pads them, or takes them as a list")
    stacked = np.stack(arrays) if arrays else np.empty((0,))
    if stacked.dtype == object:
        raise NoTensor(f"column {name!r} holds lists of objects, which cannot be a torch tensor: give a collate_fn")
    return stacked


class _Writable:
    """The same memory without the read-only flag; keeps the array alive."""

    def __init__(self, array: numpy.ndarray[Any, Any]) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
        self.array = array


def _writable_view(array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    import numpy as np

    return np.asarray(_Writable(array)) if array.size else array.copy()


# ---- what a function returned ----

ALLOWED = "a dict of columns, a pandas.DataFrame, a pyarrow.Table, or a generator of these"


def from_result(value: Any, copy: bool = False) -> list[Batch]:
    """Batches from what a map_batches function returned. WrongReturn says what it was and what is allowed. `copy`: the
    value may change after this call, so that small arrays are copied."""
    from weir import _weir

    if type(value) is dict and value and _plain_types().issuperset(map(type, value.values())):
        if copy:
            value = {name: _copied(column) for name, column in value.items()}
        try:
            return [_made(value)]
        except (ValueError, TypeError, OverflowError):
            return [_from_columns(value, False)]  # says what is wrong
    if isinstance(value, _weir.Batch):
        return [value]
    pandas_module = sys.modules.get("pandas")
    if pandas_module is not None and isinstance(value, pandas_module.DataFrame):
        return _from_frame(value, copy)
    if isinstance(value, Mapping):
        return [_from_columns(value, copy)] if value else []
    if hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__"):
        if not _is_column_like(value):
            from weir import _tensors

            return list(_weir.batch_from_arrow(_tensors.from_users(value), objects=_tensors.has_objects(value)))
    raise WrongReturn(f"the function returned {_what(value)}; it may return {ALLOWED}{_hint(value)}")


def without_objects(batch: Batch) -> Batch:
    """The batch; ArrowConversionError for a column of values that no Arrow type has."""
    for name, _, _, noted in batch.schema():
        metadata: dict[Any, Any] = dict(noted)
        if metadata.get(b"ARROW:extension:name") == PYTHON_OBJECT.encode():
            from weir._errors import ArrowConversionError

            values = [row[name] for row in batch.slice(0, min(batch.num_rows, 5)).select([name]).rows()]
            raise ArrowConversionError(f"Error converting column '{name}' to Arrow: {str(values)[:200]}")
    return batch


_plain: frozenset[type] = frozenset()


def _plain_types() -> frozenset[type]:
    """Columns that need no looking at."""
    global _plain
    if not _plain:
        import numpy as np

        _plain = frozenset({list, np.ndarray})
    return _plain


def _copied(column: Any) -> Any:
    """Its own copy of a small array; objects in it are the user's still."""
    if type(column) is list or column.nbytes >= COPIED_MAX or column.dtype.hasobject:
        return column
    return column.copy()


def _is_column_like(value: Any) -> bool:
    pa = sys.modules.get("pyarrow")
    pd = sys.modules.get("pandas")
    return ((pa is not None and isinstance(value, (pa.Array, pa.ChunkedArray)))
            or (pd is not None and isinstance(value, pd.Series)))


def _what(value: Any) -> str:
    if value is None:
        return "None"
    text = repr(value)
    if len(text) > 80:
        text = text[:77] + "..."
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"a {type(value).__module__}.{type(value).__qualname__} of shape {shape}"
    kind = type(value).__qualname__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} ({text})"


def _hint(value: Any) -> str:
    if isinstance(value, (list, tuple)) or hasattr(value, "__array__"):
        return ': name the column, as in {"column": values}'
    if value is None:
        return ": does it lack a return?"
    return ""


def _made(columns: Mapping[str, Any]) -> Batch:
    """A batch of columns. pandas.NA among other values is null: a value of a frame whose column has nulls may be it."""
    from weir import _weir

    batch = _weir.batch_from_columns(columns)
    pandas_module = sys.modules.get("pandas")
    if pandas_module is None:
        return batch
    objects = [name for name, _, _, metadata in batch.schema() if PYTHON_OBJECT in _texts(metadata)]
    if not objects:
        return batch
    missing = pandas_module.NA
    plain = {
        name: [None if value is missing else value for value in columns[name]]
        for name in objects
        if isinstance(columns[name], list) or getattr(columns[name], "ndim", 0) == 1
    }
    return _weir.batch_from_columns({**columns, **plain}) if plain else batch


def _texts(metadata: Mapping[Any, Any]) -> list[str]:
    return [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in metadata.values()]


def _from_columns(columns: Mapping[Any, Any], copy: bool, what: str = "the function returned a dict") -> Batch:
    """`what`: how an error begins."""
    made: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    for name, value in columns.items():
        if not isinstance(name, str):
            raise WrongReturn(f"the function returned a dict with the key {name!r}; column names are str")
        column = made[name] = _column(name, value, copy)
        lengths[name] = len(column)
    if len(set(lengths.values())) > 1:
        raise WrongReturn("the function returned columns of different lengths: "
                          + ", ".join(f"{name!r} has {n}" for name, n in list(lengths.items())[:10]))
    try:
        return _made(made)
    except (ValueError, TypeError, OverflowError) as error:
        raise WrongReturn(f"{what} that cannot be made into columns: {error}") from error


def _column(name: str, value: Any, copy: bool) -> Any:
    """A list, an ndarray, or an object with __arrow_c_array__."""
    kind = type(value)
    if kind is list:
        return value
    import numpy as np

    if isinstance(value, np.ndarray):
        if value.ndim == 0:
            raise WrongReturn(f"the function returned a dict whose value for {name!r} is an array without dimensions; "
                              "a column has one value a row")
        return _copied(value) if copy else value
    if isinstance(value, tuple):
        return list(value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _column(name, _tensor_to_array(value, torch), copy)
    pandas_module = sys.modules.get("pandas")
    if pandas_module is not None and isinstance(value, (pandas_module.Series, pandas_module.Index)):
        return _from_series(name, value, copy)
    if hasattr(value, "__arrow_c_array__"):
        from weir import _tensors

        return _tensors.marked(value)
    if hasattr(value, "combine_chunks") and hasattr(value, "__arrow_c_stream__"):
        from weir import _tensors

        joined = value.combine_chunks()
        return _tensors.marked(joined if hasattr(joined, "__arrow_c_array__") else _joined_chunks(joined))
    if hasattr(value, "__array__") and not isinstance(value, np.generic):
        return _column(name, np.asarray(value), copy)
    if isinstance(value, (str, bytes, Mapping, set, frozenset, np.generic)) or not hasattr(value, "__len__"):  # a set has no order
        raise WrongReturn(f"the function returned a dict whose value for {name!r} is {_what(value)}; each value is a list, "
                          "a NumPy array or a torch tensor with one element a row")
    return list(value)


def _joined_chunks(chunked: Any) -> Any:
    import pyarrow as pa

    return pa.concat_arrays(chunked.chunks) if chunked.num_chunks else pa.array([], chunked.type)


def _tensor_to_array(tensor: Any, torch: Any) -> Any:
    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        # bfloat16 and those of 8 bits: NumPy has no such type
        tensor = tensor.float()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor.numpy()


def _from_series(name: str, series: Any, copy: bool) -> Any:
    """A pandas column: NaN becomes null."""
    import numpy as np

    values = series.array
    if series.dtype == object:
        return [None if v is None or (isinstance(v, float) and v != v) else v for v in series.tolist()]
    pa = _need("pyarrow", "a pandas result")
    if type(values).__name__ == "NumpyExtensionArray" and copy:
        values = np.array(values)
    from weir import _tensors

    array = pa.array(values, from_pandas=True)
    return _tensors.marked(_joined_chunks(array) if isinstance(array, pa.ChunkedArray) else array)


def _from_frame(frame: Any, copy: bool, what: str = "the function returned a DataFrame") -> list[Batch]:
    if frame.columns.nlevels != 1 or not all(isinstance(name, str) for name in frame.columns):
        raise WrongReturn(f"{what} with the columns {list(frame.columns)[:10]!r}; column names are str")
    if frame.columns.has_duplicates:
        raise WrongReturn(f"{what} with several columns of one name")
    if not frame.shape[1]:
        return []
    return [_from_columns({name: frame[name] for name in frame.columns}, copy, what)]


def from_frame(frame: Any) -> list[Batch]:
    """The batches of a frame that the user has given as data: what pandas makes of them later has the frame's own dtypes."""
    try:
        batches = _from_frame(frame, True, "this is a DataFrame")
    except WrongReturn as error:
        raise ValueError(str(error)) from error.__cause__
    metadata = _frame_metadata(frame) if len(frame) else None
    if metadata is None:
        return batches
    from weir import _weir

    tables = [_engine_table(batch) for batch in batches]
    if tables:
        import json

        noted = json.loads(metadata[b"pandas"])
        noted[_KINDS] = dict(zip(tables[0].schema.names, _kinds(tables[0].schema)))
        metadata = {**metadata, b"pandas": json.dumps(noted).encode()}
    tables = [table.replace_schema_metadata(metadata) for table in tables]
    return [made for table in tables for made in _weir.batch_from_arrow(table, objects=True)]


def as_it_is(frame: pandas.DataFrame) -> pandas.DataFrame:
    """The frame without what the program writes to it later. pandas copies a column at the first write, from version 3 on."""
    import pandas as pd

    return frame.copy(deep=int(pd.__version__.partition(".")[0]) < 3)


def side_by_side(batches: Sequence[Batch], zipped: Batch) -> Batch:
    """What `batch_zip` made of rows of which some are frames still: with the dtypes of these, and Arrow's for the columns of the others."""
    import json

    import pandas as pd

    from weir import _weir

    table = _engine_table(zipped)
    columns: list[dict[str, Any]] = []
    names = iter(table.schema)
    for batch in batches:
        schema = _engine_table(batch).schema
        noted = schema.pandas_metadata or {}
        own = {column.get("name"): column for column in noted.get("columns", ()) if _KINDS in noted}
        for field, made in zip(schema, names):
            if field.name in own:
                columns.append({**own[field.name], "name": made.name, "field_name": made.name})
            elif not own and (backed := _dtype_text(made.type, pd)) is not None:
                columns.append({"name": made.name, "field_name": made.name, "pandas_type": _kinds([made])[0],
                                "numpy_type": backed, "metadata": None})
    noted = {"index_columns": [], "column_indexes": [], "columns": columns, "pandas_version": pd.__version__,
             _KINDS: dict(zip(table.schema.names, _kinds(table.schema)))}
    table = table.replace_schema_metadata({b"pandas": json.dumps(noted).encode()})
    return _weir.batch_from_arrow(table, objects=True)[0]


def _dtype_text(kind: pyarrow.DataType, pd: Any) -> str | None:
    """The name by which pandas finds the dtype again that has an Arrow type; None: it finds none."""
    text = str(pd.ArrowDtype(kind))
    try:
        return text if pd.api.types.pandas_dtype(text) == pd.ArrowDtype(kind) else None
    except (TypeError, NotImplementedError, ValueError):
        return None


def frame_rules(frames: Iterable[Any]) -> str:
    """By which rules expressions over these frames compute (_expr_tree.computed_as)."""
    from weir._expr_tree import FRAME, MASKED

    def has_missing(dtype: Any) -> bool:
        """Of pandas' own dtypes: whether comparisons of what is missing are missing, too."""
        import pandas as pd

        return getattr(dtype, "na_value", None) is pd.NA

    return MASKED if any(has_missing(dtype) for frame in frames for dtype in frame.dtypes) else FRAME


def make_frame_rows(batch: Batch, rows: list[dict[str, Any]]) -> None:
    """Rows of a pandas frame as functions get them: floats that are missing are NaN, times are pandas' own."""
    dtypes: Any = None
    for name, kind, _, metadata in batch.schema():
        if metadata:
            continue
        if kind in ("double", "float", "halffloat"):
            if any(row[name] is None for row in rows):
                dtypes = dtypes if dtypes is not None else to_pandas(batch.slice(0, 0)).dtypes
                if _is_masked(dtypes[name]):
                    continue
                for row in rows:
                    if row[name] is None:
                        row[name] = _NAN
        elif kind.startswith(("timestamp[", "duration[")):
            import pandas as pd

            make = pd.Timestamp if kind.startswith("timestamp") else pd.Timedelta
            for row in rows:
                row[name] = pd.NaT if row[name] is None else make(row[name])


_NAN = float("nan")


def _frame_metadata(frame: Any) -> dict[bytes, bytes] | None:
    """What pyarrow notes of a frame's dtypes; None where it cannot."""
    import pyarrow as pa

    plain = [name for name in frame.columns if type(frame[name].dtype).__module__.partition(".")[0] in ("numpy", "pandas")]
    try:
        noted: dict[bytes, bytes] | None = pa.Schema.from_pandas(frame[plain].iloc[:0], preserve_index=False).metadata
    except (pa.ArrowException, TypeError, ValueError):
        return None
    return noted
