"""Expressions through libweir_probe: text and a pyarrow table in, values or kept rows out."""
import ctypes
import os
from pathlib import Path

import pyarrow as pa
from weir_ctypes import Error

SELECTION, DICTIONARY, PENDING, CONSTANTS, SMALL, FILTER = 1, 2, 4, 8, 16, 32
ROOT = Path(__file__).resolve().parents[2]


class ExprError(Exception):
    def __init__(self, error):
        self.code = error.code
        self.row = error.row if error.has_row else None
        self.column = error.column.decode()
        self.message = error.message.decode(errors="replace")
        super().__init__(f"{self.message} (code {self.code}, row {self.row}, column {self.column})")


SYNTAX, NAME, TYPE, VALUE, OVERFLOW, ZERO_DIVISION, CAST = range(2, 9)


class CSchema(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 72)]


class CArray(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 80)]


class Probe:
    def __init__(self):
        build = (ROOT / os.environ.get("WEIR_BUILD", "build")).absolute()
        self.lib = ctypes.CDLL(str(build / "libweir_probe.so"))
        self.lib.weir_probe_new.restype = ctypes.c_void_p
        self.lib.weir_probe_new.argtypes = [ctypes.c_int64, ctypes.POINTER(Error)]
        self.lib.weir_probe_used.restype = ctypes.c_int64
        self.lib.weir_probe_used.argtypes = [ctypes.c_void_p]
        self.lib.weir_probe_expr.argtypes = [
            ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64,
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(Error)]
        self.lib.weir_probe_expr_print.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t,
                                                   ctypes.POINTER(Error)]
        error = Error()
        self.mem = self.lib.weir_probe_new(0, ctypes.byref(error))
        assert self.mem

    def run(self, text, columns, flags=0, seed=1):
        """(values, rows): the result for the selected rows, and their numbers."""
        batch = columns if isinstance(columns, pa.RecordBatch) else pa.RecordBatch.from_pydict(columns)
        schema, array, out_schema, out_array = CSchema(), CArray(), CSchema(), CArray()
        address = ctypes.addressof
        batch._export_to_c(address(array), address(schema))
        rows = (ctypes.c_int64 * (batch.num_rows + 1))()
        count, error = ctypes.c_int64(), Error()
        code = self.lib.weir_probe_expr(self.mem, text.encode(), address(schema), address(array), flags, seed,
                                        address(out_schema), address(out_array), address(rows), address(count),
                                        ctypes.byref(error))
        if code:
            raise ExprError(error)
        values = pa.Array._import_from_c(address(out_array), address(out_schema))
        return values, list(rows[:count.value])

    def used(self):
        return self.lib.weir_probe_used(self.mem)

    def print(self, text):
        buffer, error = ctypes.create_string_buffer(1 << 16), Error()
        if self.lib.weir_probe_expr_print(self.mem, text.encode(), buffer, len(buffer), ctypes.byref(error)):
            raise ExprError(error)
        return buffer.value.decode()

    def eval(self, text, columns, flags=0, seed=1):
        return self.run(text, columns, flags, seed)[0]

    def filter(self, text, columns, flags=0, seed=1):
        return self.run(text, columns, flags | FILTER, seed)[1]
