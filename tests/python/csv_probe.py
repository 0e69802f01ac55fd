"""Reads CSV files through libweir_probe: options, columns, selections, cuts and forced guesses as the test says."""
import ctypes

import pyarrow
from parquet_probe import ReadError, Stream, copy


class Setting(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class Csv(ctypes.Structure):
    _fields_ = [("paths", ctypes.c_void_p), ("path_count", ctypes.c_uint32), ("settings", ctypes.c_void_p),
                ("setting_count", ctypes.c_uint32), ("cuts", ctypes.c_void_p), ("cut_count", ctypes.c_uint32),
                ("guess", ctypes.c_int32), ("columns", ctypes.c_void_p), ("column_count", ctypes.c_uint32),
                ("every", ctypes.c_uint32), ("phase", ctypes.c_uint32), ("grant", ctypes.c_int64),
                ("rereads", ctypes.c_uint32), ("misfit_column", ctypes.c_char * 128),
                ("misfit_type", ctypes.c_char * 64)]


class Reader:
    """read(path, …) → pyarrow.Table; options as keywords (null="a,b", ragged="fill", no_header=None).

    `rereads` and `misfit` (column, type) are of the last read."""

    def __init__(self, library):
        self.library = library
        library.weir_probe_new.restype = ctypes.c_void_p
        library.weir_probe_new.argtypes = [ctypes.c_int64, ctypes.c_void_p]
        library.weir_probe_free.argtypes = [ctypes.c_void_p]
        library.weir_probe_used.argtypes = [ctypes.c_void_p]
        library.weir_probe_used.restype = ctypes.c_int64
        library.weir_probe_format_error.restype = ctypes.c_char_p
        library.weir_probe_format_error.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
        library.weir_probe_csv_read.argtypes = [ctypes.c_void_p] * 4
        self.rereads, self.misfit = 0, None

    def __call__(self, *paths, cuts=(), guess=0, columns=None, every=1, phase=0, grant=0, limit=0, **options):
        names = (ctypes.c_char_p * len(paths))(*[str(path).encode() for path in paths])
        pairs = [(name, one) for name, value in options.items()
                 for one in (value if isinstance(value, list) else [value])]
        settings = (Setting * max(len(pairs), 1))(
            *[(name.replace("_", "-").encode(), None if value is None else str(value).encode())
              for name, value in pairs])
        places = (ctypes.c_uint64 * max(len(cuts), 1))(*cuts)
        what = Csv(paths=ctypes.addressof(names), path_count=len(paths), settings=ctypes.addressof(settings),
                   setting_count=len(pairs), cuts=ctypes.addressof(places), cut_count=len(cuts), guess=guess,
                   every=every, phase=phase, grant=grant)
        if columns is not None:
            numbers = (ctypes.c_uint32 * max(len(columns), 1))(*columns)
            what.columns, what.column_count = ctypes.addressof(numbers), len(columns)
        error = ctypes.create_string_buffer(8192)
        mem = self.library.weir_probe_new(limit, error)
        assert mem
        stream = Stream()
        try:
            failed = self.library.weir_probe_csv_read(mem, ctypes.byref(what), ctypes.byref(stream), error)
            self.rereads = what.rereads
            self.misfit = (what.misfit_column.decode(), what.misfit_type.decode()) if what.misfit_column else None
            if failed:
                text = ctypes.create_string_buffer(4096)
                raise ReadError(self.library.weir_probe_format_error(error, text, 4096).decode())
            reader = pyarrow.RecordBatchReader._import_from_c(ctypes.addressof(stream))
            schema = reader.schema
            batches = [copy(batch) for batch in reader]  # the batches' memory goes with `mem`
            del reader
            return pyarrow.Table.from_batches(batches, schema)
        finally:
            used = self.library.weir_probe_used(mem)
            assert used == 0, f"{used} bytes were not given back"
            self.library.weir_probe_free(mem)
