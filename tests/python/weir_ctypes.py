"""libweir by ctypes: the C Data structs, the error struct, and pyarrow's arrays as pointers and back.

    lib = load()                        # libweir.so of $WEIR_BUILD; load("weir_probe") for the test entry points
    err = Error()
    with exported(array) as (schema, data): lib.f(byref(schema), byref(data), …, byref(err))
    array = imported(schema, data)
"""
import ctypes
import os
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, addressof, c_char, c_char_p, c_int, c_int64, c_uint8, c_uint64, c_void_p
from pathlib import Path

import pyarrow as pa

ROOT = Path(__file__).resolve().parents[2]

# The order of WEIR_ERROR_LIST in src/base/error.h.
CODES = ["OK", "E_INVALID", "E_SYNTAX", "E_NAME", "E_TYPE", "E_VALUE", "E_OVERFLOW", "E_ZERO_DIVISION", "E_CAST",
         "E_DATA", "E_UNSUPPORTED", "E_IO", "E_NOT_FOUND", "E_EXISTS", "E_NO_SPACE", "E_MEMORY", "E_LIMIT", "E_GIVE_UP",
         "E_CANCELLED", "E_WORKER", "E_SPILL_CORRUPT", "E_INTERNAL", "E_MISFIT",
         "E_AGAIN", "E_FUNCTION", "E_USER"]


def library_path(name="weir"):
    return (ROOT / os.environ.get("WEIR_BUILD", "build")).absolute() / f"lib{name}.so"


def load(name="weir"):
    return ctypes.CDLL(str(library_path(name)))


class Error(Structure):
    """struct weir_error."""

    _fields_ = [("code", c_int), ("errno_value", c_int), ("offset", c_uint64), ("row", c_int64),
                ("row_count", c_int64), ("line", c_int64), ("has_offset", c_uint8), ("has_row", c_uint8),
                ("has_line", c_uint8), ("line_in_range", c_uint8), ("source", c_char * 256), ("column", c_char * 128),
                ("operator_name", c_char * 64), ("value", c_char * 128), ("message", c_char * 1024)]

    @property
    def name(self):
        return CODES[self.code]

    @property
    def text(self):
        return self.message.decode("utf-8", "replace")


class WeirError(Exception):
    """What a call failed with; `error` is a copy of the struct."""

    def __init__(self, error):
        self.error = Error.from_buffer_copy(error)
        super().__init__(f"{self.error.name}: {self.error.column.decode('utf-8', 'replace')}: {self.error.text}")


def check(code, error):
    assert code == error.code, (code, error.code)
    if code:
        raise WeirError(error)


class ArrowSchema(Structure):
    pass


class ArrowArray(Structure):
    pass


class ArrowArrayStream(Structure):
    pass


ArrowSchema._fields_ = [("format", c_char_p), ("name", c_char_p), ("metadata", c_void_p), ("flags", c_int64),
                        ("n_children", c_int64), ("children", POINTER(POINTER(ArrowSchema))),
                        ("dictionary", POINTER(ArrowSchema)), ("release", CFUNCTYPE(None, POINTER(ArrowSchema))),
                        ("private_data", c_void_p)]
ArrowArray._fields_ = [("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64),
                       ("n_children", c_int64), ("buffers", POINTER(c_void_p)),
                       ("children", POINTER(POINTER(ArrowArray))), ("dictionary", POINTER(ArrowArray)),
                       ("release", CFUNCTYPE(None, POINTER(ArrowArray))), ("private_data", c_void_p)]
ArrowArrayStream._fields_ = [("get_schema", c_void_p), ("get_next", c_void_p), ("get_last_error", c_void_p),
                             ("release", CFUNCTYPE(None, POINTER(ArrowArrayStream))), ("private_data", c_void_p)]


def release(struct):
    """Releases what nobody has taken."""
    if struct.release:
        struct.release(ctypes.byref(struct))


@contextmanager
def exported(value):
    """(ArrowSchema, ArrowArray) of a pyarrow array or record batch; released at the end unless the callee did."""
    schema, array = ArrowSchema(), ArrowArray()
    value._export_to_c(addressof(array), addressof(schema))
    try:
        yield schema, array
    finally:
        release(array)
        release(schema)


@contextmanager
def exported_schema(value):
    """ArrowSchema of a pyarrow type, field or schema."""
    schema = ArrowSchema()
    value._export_to_c(addressof(schema))
    try:
        yield schema
    finally:
        release(schema)


@contextmanager
def exported_stream(reader):
    """ArrowArrayStream of a pyarrow RecordBatchReader."""
    stream = ArrowArrayStream()
    reader._export_to_c(addressof(stream))
    try:
        yield stream
    finally:
        release(stream)


def imported(schema, array):
    """The pyarrow array of structs that weir filled; takes them over."""
    return pa.Array._import_from_c(addressof(array), addressof(schema))


def imported_batch(schema, array):
    return pa.RecordBatch._import_from_c(addressof(array), addressof(schema))


def imported_schema(schema):
    return pa.Schema._import_from_c(addressof(schema))


def imported_type(schema):
    return pa.DataType._import_from_c(addressof(schema))


def imported_stream(stream):
    return pa.RecordBatchReader._import_from_c(addressof(stream))
