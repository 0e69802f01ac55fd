"""Reads Parquet files through libweir_probe, for tests that compare the result with other libraries'."""
import ctypes

import pyarrow


class Read(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("columns", ctypes.c_void_p), ("column_count", ctypes.c_uint32),
                ("every", ctypes.c_uint32), ("phase", ctypes.c_uint32), ("vectors", ctypes.c_uint32),
                ("bytes_target", ctypes.c_uint64), ("row_begin", ctypes.c_uint64), ("row_end", ctypes.c_uint64),
                ("predicate", ctypes.c_char_p), ("grant", ctypes.c_int64), ("peak", ctypes.c_void_p),
                ("part", ctypes.c_uint32), ("mix", ctypes.c_uint32)]


class Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("bytes_read", "bytes_decompressed", "row_groups_pruned",
                                                     "pages_pruned", "pages_decoded", "rows_pruned")]


class ReadError(Exception):
    pass


class Stream(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "private")]


class Reader:
    """read(path, …) → pyarrow.Table. `stats` and `peak` (bytes of the reader's account) are of the last read."""

    def __init__(self, library):
        self.library = library
        library.weir_probe_new.restype = ctypes.c_void_p
        library.weir_probe_new.argtypes = [ctypes.c_int64, ctypes.c_void_p]
        library.weir_probe_free.argtypes = [ctypes.c_void_p]
        library.weir_probe_used.argtypes = [ctypes.c_void_p]
        library.weir_probe_used.restype = ctypes.c_int64
        library.weir_probe_format_error.restype = ctypes.c_char_p
        library.weir_probe_format_error.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
        library.weir_probe_parquet_read.argtypes = [ctypes.c_void_p] * 5
        self.stats = Stats()
        self.peak = 0

    def __call__(self, path, columns=None, every=1, phase=0, vectors=1, bytes_target=0, rows=None, limit=0,
                 grant=0, predicate=None, part=0, mix=0):
        peak = ctypes.c_int64()
        what = Read(path=str(path).encode(), every=every, phase=phase, vectors=vectors, bytes_target=bytes_target,
                    grant=grant, peak=ctypes.addressof(peak), predicate=predicate and predicate.encode(), part=part, mix=mix)
        if columns is not None:
            numbers = (ctypes.c_uint32 * max(len(columns), 1))(*columns)
            what.columns = ctypes.addressof(numbers)
            what.column_count = len(columns)
        if rows is not None:
            what.row_begin, what.row_end = rows
        error = ctypes.create_string_buffer(8192)
        mem = self.library.weir_probe_new(limit, error)
        assert mem
        stream = Stream()
        try:
            if self.library.weir_probe_parquet_read(mem, ctypes.byref(what), ctypes.byref(stream),
                                                    ctypes.byref(self.stats), error):
                text = ctypes.create_string_buffer(4096)
                raise ReadError(self.library.weir_probe_format_error(error, text, 4096).decode())
            reader = pyarrow.RecordBatchReader._import_from_c(ctypes.addressof(stream))
            schema = reader.schema
            batches, message = [], None
            try:
                for batch in reader:
                    batches.append(copy(batch))  # the batches' memory goes with `mem`
            except (OSError, pyarrow.ArrowException) as failed:
                message = str(failed)
            batch = None
            del reader
            self.peak = peak.value
            if message:
                raise ReadError(message)
            return pyarrow.Table.from_batches(batches, schema)
        finally:
            self.end(mem)

    def leaf_lengths(self, path):
        """The lengths of the leaves of the first batch, by the C interface alone."""
        error, stream, array = ctypes.create_string_buffer(8192), Stream(), Array()
        mem = self.library.weir_probe_new(0, error)
        what = Read(path=str(path).encode())
        try:
            if self.library.weir_probe_parquet_read(mem, ctypes.byref(what), ctypes.byref(stream),
                                                    ctypes.byref(self.stats), error):
                text = ctypes.create_string_buffer(4096)
                raise ReadError(self.library.weir_probe_format_error(error, text, 4096).decode())
            get_next = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(stream.get_next)
            assert get_next(ctypes.addressof(stream), ctypes.addressof(array)) == 0
            lengths = leaves(array)
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(array.release)(ctypes.addressof(array))
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(stream.release)(ctypes.addressof(stream))
            return lengths
        finally:
            self.end(mem)

    def end(self, mem):
        used = self.library.weir_probe_used(mem)
        assert used == 0, f"{used} bytes were not given back"
        self.library.weir_probe_free(mem)


class Array(ctypes.Structure):
    pass


Array._fields_ = [("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
                  ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64), ("buffers", ctypes.c_void_p),
                  ("children", ctypes.POINTER(ctypes.POINTER(Array))), ("dictionary", ctypes.c_void_p),
                  ("release", ctypes.c_void_p), ("private", ctypes.c_void_p)]


def leaves(array):
    if array.n_children == 0:
        return [array.length]
    return [length for child in range(array.n_children) for length in leaves(array.children[child].contents)]


def copy(batch):
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pyarrow.ipc.open_stream(sink.getvalue()).read_next_batch()
