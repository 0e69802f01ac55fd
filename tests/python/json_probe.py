"""JSON through libweir_probe: a file in, a pyarrow table out, in ranges, backwards, by either kernel."""
import ctypes
import os
from pathlib import Path

import pyarrow as pa
from weir_ctypes import Error

ROOT = Path(__file__).resolve().parents[2]


class What(ctypes.Structure):
    _fields_ = [
        ("path", ctypes.c_char_p),
        ("settings", ctypes.POINTER(ctypes.c_char_p)),
        ("columns", ctypes.POINTER(ctypes.c_uint32)),
        ("column_count", ctypes.c_uint32),
        ("every", ctypes.c_uint32),
        ("bytes_target", ctypes.c_uint64),
        ("cut", ctypes.c_uint64),
        ("backwards", ctypes.c_uint32),
        ("portable", ctypes.c_uint32),
        ("grant", ctypes.c_int64),
        ("range_count", ctypes.c_uint32),
        ("wrong_count", ctypes.c_uint32),
        ("misfit_column", ctypes.c_char * 64),
        ("misfit_type", ctypes.c_char * 256),
    ]


class CStream(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 40)]


class JsonError(Exception):
    def __init__(self, error, what):
        self.code = error.code
        self.line = error.line if error.has_line else None
        self.offset = error.offset if error.has_offset else None
        self.column = error.column.decode()
        self.source = error.source.decode()
        self.message = error.message.decode(errors="replace")
        self.misfit = (what.misfit_column.decode(), what.misfit_type.decode())
        super().__init__(f"{self.message} (code {self.code}, line {self.line}, column {self.column})")


DATA, UNSUPPORTED, CAST, LIMIT, MISFIT = 9, 10, 8, 16, 22


class Probe:
    def __init__(self):
        build = (ROOT / os.environ.get("WEIR_BUILD", "build")).absolute()
        self.lib = ctypes.CDLL(str(build / "libweir_probe.so"))
        self.lib.weir_probe_new.restype = ctypes.c_void_p
        self.lib.weir_probe_new.argtypes = [ctypes.c_int64, ctypes.POINTER(Error)]
        self.lib.weir_probe_used.restype = ctypes.c_int64
        self.lib.weir_probe_used.argtypes = [ctypes.c_void_p]
        self.lib.weir_probe_json_read.argtypes = [ctypes.c_void_p, ctypes.POINTER(What), ctypes.c_void_p,
                                                  ctypes.POINTER(Error)]
        self.lib.weir_probe_json_index.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
        error = Error()
        self.mem = self.lib.weir_probe_new(0, ctypes.byref(error))
        assert self.mem

    def read(self, path, columns=None, every=0, bytes_target=0, cut=0, backwards=False, portable=False, grant=0, **settings):
        words = [word.encode() for pair in settings.items() for word in (pair[0].replace("_", "-"), str(pair[1]))]
        what = What(path=os.fsencode(path), every=every, bytes_target=bytes_target, cut=cut, backwards=backwards,
                    portable=portable, grant=grant)
        what.settings = (ctypes.c_char_p * (len(words) + 1))(*words, None)
        if columns is not None:
            what.columns = (ctypes.c_uint32 * (len(columns) + 1))(*columns)
            what.column_count = len(columns)
        stream, error = CStream(), Error()
        self.what = what
        if self.lib.weir_probe_json_read(self.mem, ctypes.byref(what), ctypes.addressof(stream), ctypes.byref(error)):
            raise JsonError(error, what)
        return pa.RecordBatchReader._import_from_c(ctypes.addressof(stream)).read_all()

    def index_differs(self, text, lines):
        return self.lib.weir_probe_json_index(text, len(text), lines)

    def used(self):
        return self.lib.weir_probe_used(self.mem)
