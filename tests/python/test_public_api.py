"""include/weir/weir.h as a program uses it: chains over Arrow streams, by ctypes, with pyarrow on both sides."""
import ctypes
import gc
import os
import re
import shutil
import subprocess
import threading
from ctypes import Structure, byref, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from weir_ctypes import ArrowArrayStream, exported_stream, imported_stream, load

MIB = 1 << 20


class Options(Structure):
    _fields_ = [("struct_size", c_size_t), ("memory_limit", c_int64), ("threads", c_uint32)]


class Result(Structure):
    _fields_ = [("struct_size", c_size_t), ("rows_in", c_uint64), ("rows_out", c_uint64), ("memory_peak", c_int64)]


class Failed(Exception):
    pass


@pytest.fixture(scope="module")
def lib():
    lib = load()
    lib.weir_version.restype = c_char_p
    for function in (lib.weir_run_chain, lib.weir_stream_chain):
        function.restype = c_int
    return lib


def options_of(memory_limit=0, threads=0, struct_size=ctypes.sizeof(Options)):
    return Options(struct_size, memory_limit, threads)


def run(lib, chain, reader=None, options=None):
    message = ctypes.create_string_buffer(2000)
    result = Result(ctypes.sizeof(Result))
    given = [byref(options) if options else None]
    if reader is None:
        code = lib.weir_run_chain(chain.encode(), *given, None, byref(result), message, len(message))
    else:
        with exported_stream(reader) as stream:
            code = lib.weir_run_chain(chain.encode(), *given, byref(stream), byref(result), message, len(message))
            assert not stream.release, "the input is taken over, on failure too"
    if code:
        raise Failed(code, message.value.decode())
    return result


def stream(lib, chain, reader=None, options=None):
    """A RecordBatchReader over the chain."""
    message = ctypes.create_string_buffer(2000)
    out = ArrowArrayStream()
    given = [byref(options) if options else None]
    if reader is None:
        code = lib.weir_stream_chain(chain.encode(), *given, None, byref(out), message, len(message))
    else:
        with exported_stream(reader) as input_stream:
            code = lib.weir_stream_chain(chain.encode(), *given, byref(input_stream), byref(out), message, len(message))
            assert not input_stream.release, "the input is taken over, on failure too"
    if code:
        raise Failed(code, message.value.decode())
    return imported_stream(out)


def numbers(batches=50, rows=1000):
    """A reader of batches with id, text and a list, and the table of all."""
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("items", pa.list_(pa.int32()))])

    def make(number):
        ids = range(number * rows, (number + 1) * rows)
        return pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"row {i}" if i % 5 else None for i in ids]),
                                pa.array([[i, None] if i % 3 else None for i in ids], pa.list_(pa.int32()))], schema=schema)
    made = [make(number) for number in range(batches)]
    return pa.RecordBatchReader.from_batches(schema, iter(made)), pa.Table.from_batches(made, schema)


def threads_and_files():
    gc.collect()
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_a_stream_through_weir_and_back(lib, threads):
    reader, table = numbers()
    result = stream(lib, "batches then filter 'id % 2 == 1'", reader, options_of(threads=threads)).read_all()
    assert result.equals(table.filter(pc.equal(pc.bit_wise_and(table["id"], 1), 1)))


def test_order_and_limit(lib, tmp_path):
    table = pa.table({"id": pa.array(range(200_000), pa.int64())})
    for i in range(20):
        pq.write_table(table.slice(i * 10_000, 10_000), tmp_path / f"{i:02}.parquet", row_group_size=1000)
    chain = f"read {tmp_path}"
    assert stream(lib, chain, None, options_of(threads=4)).read_all()["id"].equals(table["id"])
    assert stream(lib, chain + " then limit 12345", None, options_of(threads=4)).read_all().num_rows == 12345
    assert stream(lib, chain + " then filter 'id < 0'").read_all().num_rows == 0
    assert stream(lib, chain + " then limit 0").read_all().schema == pa.schema([("id", pa.int64())])


def test_run_chain_writes_and_counts(lib, tmp_path):
    reader, table = numbers()
    result = run(lib, f"batches then filter 'text is not None' then write {tmp_path}/out.parquet", reader)
    kept = table.filter(pc.is_valid(table["text"]))
    assert pq.read_table(tmp_path / "out.parquet").equals(kept)
    assert (result.rows_in, result.rows_out) == (table.num_rows, kept.num_rows)
    assert result.memory_peak > 0
    assert run(lib, f"read {tmp_path}/out.parquet then count").rows_out == kept.num_rows


@pytest.mark.parametrize("chain, part", [
    ("", ""), ("raed x", "did you mean 'read'"), ("read no/such/file.parquet", "no/such/file.parquet"),
    ("range 10 then filter 'idd > 1'", "did you mean 'id'"), ("range 10 then write", "too few"),
    ("range 10 then filter 'id >'", "expression"), ("range 10 then filter \"id > 1", ""),
])
def test_errors_before_anything_runs(lib, chain, part):
    for call in (stream, run):
        with pytest.raises(Failed) as failed:
            call(lib, chain)
        code, message = failed.value.args
        assert code > 0 and message and part in message, message


def test_ends_of_chains(lib, tmp_path):
    with pytest.raises(Failed, match="can only come last"):
        stream(lib, f"range 10 then write {tmp_path}/x.parquet")
    with pytest.raises(Failed, match="write or count"):
        run(lib, "range 10")
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_middle_of_a_stream(lib):
    reader = stream(lib, "range 3M then filter 'id // (id - 2000000) < 5' then filter 'id > 1000'", None, options_of(threads=2))
    first = reader.read_next_batch()
    assert first["id"][0].as_py() == 1001
    rows = first.num_rows
    with pytest.raises(Exception, match="divides by zero"):
        while True:
            rows += reader.read_next_batch().num_rows
    assert rows <= 2_000_000
    with pytest.raises(Failed, match="divides by zero"):
        run(lib, "range 3M then filter '1 // (id - 2000000) < 5' then count")


def test_an_error_of_the_programs_stream(lib, tmp_path):
    schema = pa.schema([("id", pa.int64())])

    def broken():
        yield pa.record_batch([pa.array(range(100), pa.int64())], schema=schema)
        raise ValueError("the program has no more")
    for threads in (1, 2, 3) * 5:
        with pytest.raises(Failed, match="the program has no more"):
            run(lib, f"batches then write {tmp_path}/out/", pa.RecordBatchReader.from_batches(schema, broken()),
                options_of(threads=threads))
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(Failed, match="batches"):
        run(lib, "range 10 then count", numbers()[0])
    with pytest.raises(Failed):
        run(lib, "batches then count")


def test_a_stream_released_early(lib):
    stream(lib, "range 10").read_all()
    before = threads_and_files()
    for number in range(20):
        reader = stream(lib, "range 100000M then with 'x = id * 2'", None, options_of(threads=2))
        for _ in range(number % 4):
            reader.read_next_batch()
        reader.close()
        del reader
    assert threads_and_files() == before


def test_an_input_whose_output_is_released_early(lib):
    released = []

    class Source:
        def __del__(self):
            released.append(True)

    def endless(source):
        while source:
            yield pa.record_batch([pa.array(range(1000), pa.int64())], names=["id"])
    before = threads_and_files()
    reader = stream(lib, "batches then filter 'id > 5'",
                    pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), endless(Source())))
    assert reader.read_next_batch()["id"][0].as_py() == 6
    reader.close()
    del reader
    assert threads_and_files() == before
    assert released


def test_arrays_outlive_their_stream(lib):
    source, table = numbers(batches=8)
    reader = stream(lib, "batches", source)
    batches = list(reader)
    reader.close()
    del reader
    texts = [batch.column("text") for batch in batches]
    items = [batch.column("items").values for batch in batches]  # a child alone
    whole = pa.Table.from_batches(batches, table.schema)
    assert whole.equals(table)
    del whole, batches
    gc.collect()
    assert pa.chunked_array(texts).equals(table["text"])
    assert pa.chunked_array(items).to_pylist() == [x for part in table["items"].to_pylist() if part for x in part]
    for array in [*texts, *items]:
        array.validate(full=True)


def test_struct_sizes(lib):
    """An older program's smaller struct: what it does not have is left at the default; a result it has no room for is not
    written."""
    smaller = Options(Options.threads.offset, 64 * MIB, 0xffffffff)
    assert run(lib, "range 10 then count", None, smaller).rows_out == 10
    empty = Options(ctypes.sizeof(c_size_t), 1, 0xffffffff)
    assert run(lib, "range 10 then count", None, empty).rows_out == 10
    result = Result(8, 7, 7, 7)
    assert lib.weir_run_chain(b"range 10 then count", None, None, byref(result), None, 0) == 0
    assert (result.rows_in, result.rows_out, result.memory_peak) == (7, 7, 7)
    assert lib.weir_run_chain(b"nonsense", None, None, None, None, 0) > 0
    message = ctypes.create_string_buffer(b"x" * 20, 20)
    assert lib.weir_run_chain(b"nonsense", None, None, None, message, 10) > 0
    assert len(message.value) == 9 and message.raw[10:] == b"x" * 10


def test_the_memory_limit(lib, tmp_path):
    with pytest.raises(Failed, match="too small"):
        run(lib, "range 10 then count", None, options_of(memory_limit=MIB))
    result = run(lib, f"range 20M then with 'x = id * 1.5, y = id % 1000' then write {tmp_path}/out/", None,
                 options_of(memory_limit=64 * MIB, threads=4))
    assert result.rows_out == 20_000_000 and result.memory_peak <= 64 * MIB


def test_many_runs_leave_nothing(lib, tmp_path):
    reader, _ = numbers(batches=4)
    run(lib, f"batches then write {tmp_path}/in.parquet", reader)

    def once(number):
        if number % 4 == 0:
            run(lib, f"read {tmp_path}/in.parquet then filter 'id % 3 == 0' then write {tmp_path}/out.parquet --mode overwrite")
        elif number % 4 == 1:
            assert stream(lib, f"read {tmp_path}/in.parquet then select text").read_all().num_rows == 4000
        elif number % 4 == 2:
            with pytest.raises(Failed):
                run(lib, f"read {tmp_path}/in.parquet then filter 'nothing > 1' then count")
        else:
            stream(lib, f"read {tmp_path}/in.parquet").close()
    for number in range(40):
        once(number)
    before, files = resident(), threads_and_files()
    for number in range(200):
        once(number)
    assert threads_and_files() == files
    assert resident() - before < 8 * MIB, (before, resident())


def test_runs_at_the_same_time(lib):
    failures = []

    def work(number):
        try:
            for i in range(5):
                rows = 100_000 * (number + 1) + i
                assert run(lib, f"range {rows} then filter 'id >= 0' then count").rows_out == rows
                assert stream(lib, f"range {rows} then limit 5").read_all().num_rows == 5
        except BaseException as failure:  # shown by the test's own thread
            failures.append(failure)
    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []


@pytest.mark.parametrize("compiler, flags", [("g++", ["-std=c++11", "-pedantic"]), ("clang++", ["-std=c++17"]),
                                             ("gcc", ["-std=c99", "-pedantic"]), ("clang", ["-std=c11"])])
def test_the_header_compiles(compiler, flags, tmp_path, weir_build):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    cxx = "++" in compiler
    source = tmp_path / ("t.cc" if cxx else "t.c")
    source.write_text('#include <weir/weir.h>\n#include <stdio.h>\n#include <string.h>\nint main(void) { struct weir_result r; '
                      'struct weir_options o;\n memset(&o, 0, sizeof(o)); o.struct_size = sizeof(o); o.threads = 1;\n'
                      ' memset(&r, 0, sizeof(r)); r.struct_size = sizeof(r);\n'
                      ' if (weir_run_chain("range 1234 then count", &o, NULL, &r, NULL, 0)) return 1;\n'
                      ' printf("%s %d\\n", weir_version(), (int)r.rows_out); return 0; }\n')
    root = Path(__file__).resolve().parents[2]
    subprocess.run([compiler, *flags, "-Wall", "-Wextra", "-Werror", *([] if cxx else ["-Wstrict-prototypes"]), f"-I{root}/include", source, "-o", tmp_path / "t",
                    f"-L{weir_build}", "-lweir", f"-Wl,-rpath,{weir_build}"], check=True)
    out = subprocess.run([tmp_path / "t"], check=True, capture_output=True, text=True).stdout.split()
    assert out[1] == "1234" and out[0].count(".") == 2


CXX_PROGRAM = r"""
#include <weir/weir.h>
#include <cstdio>
#include <memory>

int main()
{
    weir_session *session = nullptr;
    weir_error *error = nullptr;
    weir_options options = {};
    int64_t count = 0;

    options.struct_size = sizeof(options);
    options.threads = 2;
    if (weir_session_open(&options, &session, &error))
        return std::fprintf(stderr, "%s\n", weir_error_text(error)), 1;
    std::unique_ptr<weir_flow, decltype(&weir_flow_free)> flow(weir_flow_new(session), weir_flow_free);
    weir_session_close(session);
    weir_flow_chain(flow.get(), "range 1000");
    weir_flow_filter_by(flow.get(), weir_binary("<", weir_column("id"), weir_int(70)));
    if (weir_flow_count(flow.get(), &count, &error))
        return std::fprintf(stderr, "%s\n", weir_error_text(error)), 1;
    std::printf("%d\n", static_cast<int>(count));
    return 0;
}
"""


@pytest.mark.parametrize("compiler, flags", [("g++", ["-std=c++11"]), ("clang++", ["-std=c++20"])])
def test_a_program_in_cxx(compiler, flags, tmp_path, weir_build):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    root = Path(__file__).resolve().parents[2]
    (tmp_path / "t.cc").write_text(CXX_PROGRAM)
    subprocess.run([compiler, *flags, "-Wall", "-Wextra", "-pedantic", "-Werror", f"-I{root}/include", tmp_path / "t.cc", "-o",
                    tmp_path / "t", f"-L{weir_build}", "-lweir", f"-Wl,-rpath,{weir_build}"], check=True)
    assert subprocess.run([tmp_path / "t"], check=True, capture_output=True, text=True).stdout == "70\n"


def test_what_the_documentation_names_exists():
    """Every function, struct and code that docs/c-api.md speaks of is in the headers."""
    root = Path(__file__).resolve().parents[2]
    headers = "".join(path.read_text() for path in (root / "include/weir").glob("*.h"))
    known = set(re.findall(r"\b(?:weir|WEIR)_\w+", headers))
    assert set(re.findall(r"\b(?:weir|WEIR)_\w+", (root / "docs/c-api.md").read_text())) - known == set()
