"""Chains of verbs through the public functions of libweir, with pyarrow tables in and out.

    stream("read 'x.parquet' then filter 'a > 1'") → pyarrow.Table
    run("batches then write 'x.parquet'", table)   → Result, whose fields are those of struct weir_result
"""
import ctypes
from ctypes import POINTER, Structure, addressof, byref, c_char_p, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof

import pyarrow as pa

from weir_ctypes import CODES, ArrowArrayStream, load


class Options(Structure):
    _fields_ = [("struct_size", c_size_t), ("memory_limit", c_int64), ("threads", c_uint32)]


class Result(Structure):
    _fields_ = [("struct_size", c_size_t), ("rows_in", c_uint64), ("rows_out", c_uint64), ("memory_peak", c_int64)]


class ChainError(Exception):
    def __init__(self, code, text):
        self.code = CODES[code]
        super().__init__(f"{self.code}: {text}")


_library = None


def library():
    global _library
    if _library is None:
        _library = load()
        _library.weir_run_chain.argtypes = [c_char_p, POINTER(Options), c_void_p, POINTER(Result), c_char_p, c_size_t]
        _library.weir_stream_chain.argtypes = [c_char_p, POINTER(Options), c_void_p, c_void_p, c_char_p, c_size_t]
    return _library


def quote(path):
    """A word of a chain."""
    text = str(path)
    assert "'" not in text
    return f"'{text}'"


def _input(table, batch_rows):
    stream = ArrowArrayStream()
    batches = table.to_batches(max_chunksize=batch_rows) if batch_rows else table.to_batches()
    pa.RecordBatchReader.from_batches(table.schema, iter(batches))._export_to_c(addressof(stream))
    return stream


def run(chain, table=None, memory_limit=0, threads=0, batch_rows=None):
    options = Options(sizeof(Options), memory_limit, threads)
    result = Result(sizeof(Result))
    message = ctypes.create_string_buffer(4096)
    stream = _input(table, batch_rows) if table is not None else None
    code = library().weir_run_chain(chain.encode(), byref(options), addressof(stream) if stream else None, byref(result),
                                    message, len(message))
    if code:
        raise ChainError(code, message.value.decode("utf-8", "replace"))
    return result


def stream(chain, table=None, memory_limit=0, threads=0, batch_rows=None):
    options = Options(sizeof(Options), memory_limit, threads)
    message = ctypes.create_string_buffer(4096)
    given = _input(table, batch_rows) if table is not None else None
    out = ArrowArrayStream()
    code = library().weir_stream_chain(chain.encode(), byref(options), addressof(given) if given else None,
                                       addressof(out), message, len(message))
    if code:
        raise ChainError(code, message.value.decode("utf-8", "replace"))
    reader = pa.RecordBatchReader._import_from_c(addressof(out))
    schema = reader.schema
    try:
        batches = [batch for batch in reader]
    except (OSError, pa.ArrowException) as failed:
        raise ChainError(CODES.index("E_INTERNAL"), str(failed)) from None
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, schema)


def explain(command, chain):
    import subprocess
    done = subprocess.run([command, "explain", chain], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout
