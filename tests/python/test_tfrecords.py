"""TFRecord files, both ways, against a plain-Python reader and writer (tfrecord_files.py) and Protocol Buffers' own parser."""
import gzip
import math
import random
import struct
import types

import numpy as np
import pytest
import tfrecord_files as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tfrecord_files import BYTES, FLOATS, INTS, UNSET

import weir

RANDOM = settings(max_examples=60, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT32 = st.floats(width=32, allow_nan=False)


def expected(rows):
    """What the rows of a file are: values where no record has more than one, else lists; numbers of both kinds are floats."""
    names = {name: None for row in rows for name in row}
    many = {name for row in rows for name, found in row.items() if len(found.values) > 1}
    some = {name for row in rows for name, found in row.items() if found.values}
    out = []
    for row in rows:
        made = {}
        for name in names:
            found = row.get(name)
            if name in some and name not in many:
                made[name] = found.values[0] if found and found.values else None
            else:
                made[name] = list(found.values) if found is not None else None
        out.append(made)
    return out


def chains():
    pytest.importorskip("pyarrow")
    import weir_chain

    return weir_chain


def plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


def read(path, **options):
    return [{name: plain(value) for name, value in row.items()} for row in weir.read_tfrecords(str(path), **options).take_all()]


KINDS = {"i": INT64.map(lambda v: v), "f": FLOAT32, "b": st.binary(max_size=20)}
MAKE = {"i": INTS, "f": FLOATS, "b": BYTES}


@st.composite
def records(draw):
    columns = draw(st.lists(st.tuples(st.sampled_from("ifb"), st.text(max_size=6).filter(lambda t: "\0" not in t), st.integers(0, 3)), max_size=4,
                            unique_by=lambda c: c[1]))
    rows = []
    for _ in range(draw(st.integers(1, 6))):
        row = {}
        for kind, name, most in columns:
            shape = draw(st.sampled_from(["values", "values", "values", "missing", "unset"]))
            if shape == "values":
                row[name] = MAKE[kind](*draw(st.lists(KINDS[kind], max_size=most)))
            elif shape == "unset":
                row[name] = UNSET
        rows.append(row)
    return rows


@RANDOM
@given(records(), st.booleans())
def test_random_records(tmp_path_factory, rows, packed):
    try:
        for row in rows:
            "".join(row).encode()
    except UnicodeEncodeError:
        return
    path = tmp_path_factory.mktemp("tf") / "a.tfrecords"
    tf.write(path, rows, packed)
    if not any(rows):
        assert weir.read_tfrecords(str(path)).count() == len(rows)
        return
    assert read(path) == expected(rows)


@RANDOM
@given(st.lists(st.fixed_dictionaries({
    "i": st.one_of(st.none(), INT64), "f": FLOAT32, "s": st.one_of(st.none(), st.text(max_size=9)), "b": st.binary(max_size=30),
    "l": st.lists(INT64, max_size=4), "t": st.lists(st.binary(max_size=5), max_size=3)}), min_size=1, max_size=6))
def test_random_rows_are_written(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("tf") / "out"
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema([("i", pa.int64()), ("f", pa.float32()), ("s", pa.string()), ("b", pa.binary()), ("l", pa.list_(pa.int64())),
                        ("t", pa.list_(pa.binary()))])
    weir.from_arrow(pa.Table.from_pylist(rows, schema)).write_tfrecords(str(folder))
    found = [record for path in sorted(folder.iterdir()) for record in tf.read(path)]
    assert found == [{
        "i": INTS(*([] if row["i"] is None else [row["i"]])), "f": FLOATS(row["f"]),
        "s": BYTES(*([] if row["s"] is None else [row["s"].encode()])), "b": BYTES(row["b"]), "l": INTS(*row["l"]), "t": BYTES(*row["t"]),
    } for row in rows]


def protobuf_example():
    """tf.train.Example, as Protocol Buffers reads it."""
    pool = pytest.importorskip("google.protobuf.descriptor_pool")
    from google.protobuf import descriptor_pb2, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    for name, kind in (("BytesList", 12), ("FloatList", 2), ("Int64List", 3)):
        file.message_type.add(name=name).field.add(name="value", number=1, label=3, type=kind)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(("Bytes", "Float", "Int64"), 1):
        feature.field.add(name=name, number=number, label=1, type=11, type_name=f".t.{name}List", oneof_index=0)
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=9)
    entry.field.add(name="value", number=2, label=1, type=11, type_name=".t.Feature")
    features.field.add(name="feature", number=1, label=3, type=11, type_name=".t.Features.FeatureEntry")
    file.message_type.add(name="Example").field.add(name="features", number=1, label=1, type=11, type_name=".t.Features")
    made = pool.DescriptorPool()
    made.Add(file)
    return message_factory.GetMessageClass(made.FindMessageTypeByName("t.Example"))


def test_protocol_buffers_reads_what_is_written_and_the_other_way(tmp_path):
    Example = protobuf_example()
    weir.from_items([{"a": -1, "b": 1.5, "c": "é", "d": [1, 2, 300]}, {"a": 2**62, "b": -0.0, "c": "", "d": []}],
                    override_num_blocks=1).write_tfrecords(str(tmp_path / "out"))
    (path,) = (tmp_path / "out").iterdir()
    messages = [Example.FromString(record) for record in tf.frames(path.read_bytes())]
    assert [m.features.feature["a"].Int64.value[0] for m in messages] == [-1, 2**62]
    assert [m.features.feature["b"].Float.value[0] for m in messages] == [1.5, 0.0]
    assert [m.features.feature["c"].Bytes.value[0] for m in messages] == ["é".encode(), b""]
    assert [list(m.features.feature["d"].Int64.value) for m in messages] == [[1, 2, 300], []]
    again = tmp_path / "again.tfrecord"
    again.write_bytes(b"".join(tf.frame(m.SerializeToString()) for m in messages))
    assert read(again) == read(path)
    # Two messages one after the other are one: names of both, the later value of each, and lists of one feature replaced.
    joined = tmp_path / "joined.tfrecord"
    record = tf.example({"x": INTS(1), "y": INTS(1)}) + tf.example({"x": BYTES(b"later"), "z": INTS(1, 2)})
    parsed = Example.FromString(record)
    joined.write_bytes(tf.frame(record))
    assert parsed.features.feature["x"].Bytes.value[0] == b"later"
    assert read(joined) == [{"x": b"later", "y": 1, "z": [1, 2]}]


# ---- large files ----


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Some 15 MB: records of all sizes, some of which hold records themselves, so that ranges begin at wrong guesses."""
    chance = random.Random(5)
    inner = tf.frame(tf.example({"n": INTS(1)})) * 40
    rows = []
    for n in range(120):
        rows.append({"n": n, "body": chance.randbytes(chance.choice([10, 1000, 400_000])) if n % 7 else inner * chance.randrange(1, 30)})
    return one_file(tmp_path_factory.mktemp("tf"), rows), [{"n": row["n"], "size": len(row["body"])} for row in rows]


def one_file(folder, *parts):
    """Rows as one file: by weir itself, since checksums by plain Python are slow."""
    path = folder / "large.tfrecords"
    for number, rows in enumerate(parts):
        weir.from_items(rows, override_num_blocks=1).write_tfrecords(str(folder / str(number)))
        (made,) = (folder / str(number)).iterdir()
        with open(path, "ab") as file:
            file.write(made.read_bytes())
    return path


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_large_file_is_read_by_all_lanes(large, lanes):
    path, rows = large
    weir_chain = chains()
    table = weir_chain.stream(f"read '{path}' then select n,size=length(body)", threads=lanes)
    assert table.to_pylist() == rows


def test_a_large_file_in_python(large):
    path, rows = large
    ds = weir.read_tfrecords(str(path))
    assert [row["n"] for row in ds.select_columns(["n"]).take_all()] == [row["n"] for row in rows]
    assert ds.count() == len(rows)
    assert ds.filter(expr="n > 117").select_columns(["n"]).take_all() == [{"n": 118}, {"n": 119}]


def test_a_feature_that_appears_late_is_a_column(tmp_path):
    # In a file that is not too large all records are looked at first.
    path = one_file(tmp_path, [{"a": 1, "pad": b"x" * 200_000}] * 60, [{"a": [2, 3], "new": 0.5}])
    rows = [{name: plain(value) for name, value in row.items() if name != "pad"} for row in weir.read_tfrecords(str(path)).take_all()]
    assert rows == [{"a": [1], "new": None}] * 60 + [{"a": [2, 3], "new": 0.5}]


# ---- options ----


def schema(**kinds):
    """What read_tfrecords wants of a schema_pb2.Schema."""
    numbers = {"bytes": 1, "int": 2, "float": 3}
    return types.SimpleNamespace(feature=[types.SimpleNamespace(name=n, type=numbers[k]) for n, k in kinds.items()])


def test_with_a_schema_all_columns_are_lists(tmp_path):
    path = tf.write(tmp_path / "a", [{"i": INTS(1), "f": FLOATS()}, {"i": INTS(2, 3), "b": BYTES(b"x"), "f": UNSET}])
    ds = weir.read_tfrecords(path, tf_schema=schema(b="bytes", i="int", f="float"))
    assert ds.columns() == ["b", "i", "f"]
    assert [{n: plain(v) for n, v in row.items()} for row in ds.take_all()] == [
        {"b": None, "i": [1], "f": []}, {"b": [b"x"], "i": [2, 3], "f": []}]
    with pytest.raises(ValueError, match="Found extra unexpected feature b not in specified schema"):
        weir.read_tfrecords(path, tf_schema=schema(i="int", f="float")).take_all()
    with pytest.raises(ValueError, match="Schema field type mismatch during read.*column|column i.*mismatch"):
        weir.read_tfrecords(path, tf_schema=schema(b="bytes", i="float", f="float")).take_all()
    with pytest.raises(TypeError, match="tf_schema is a schema_pb2.Schema"):
        weir.read_tfrecords(path, tf_schema={"a": 1})


def test_names_with_quotes_in_a_schema(tmp_path):
    name = 'say "hi", a=b'
    path = tf.write(tmp_path / "a", [{name: INTS(1)}])
    made = types.SimpleNamespace(feature=[types.SimpleNamespace(name=name, type=2)])
    assert [plain(row[name]) for row in weir.read_tfrecords(path, tf_schema=made).take_all()] == [[1]]


def test_a_schema_checks_what_is_written(tmp_path):
    ds = weir.from_items([{"a": 1, "n": None}])
    ds.write_tfrecords(str(tmp_path / "out"), tf_schema=schema(a="int", n="bytes"))
    assert read(tmp_path / "out") == [{"a": 1, "n": []}]
    with pytest.raises(ValueError, match="Schema field type mismatch during write"):
        ds.write_tfrecords(str(tmp_path / "no"), tf_schema=schema(a="bytes", n="bytes"))
    with pytest.raises(ValueError, match="Found extra unexpected feature n"):
        ds.write_tfrecords(str(tmp_path / "no"), tf_schema=schema(a="int"))
    assert not (tmp_path / "no").exists()


def test_compressed_files(tmp_path):
    rows = [{"a": INTS(n)} for n in range(50)]
    path = tmp_path / "a.tfrecords.gz"
    path.write_bytes(gzip.compress(b"".join(tf.frame(tf.example(row)) for row in rows)))
    assert [row["a"] for row in read(path)] == list(range(50))
    hidden = tmp_path / "hidden"
    hidden.write_bytes(path.read_bytes())
    assert len(read(hidden, arrow_open_stream_args={"compression": "gzip"})) == 50
    with pytest.raises(Exception, match="no TFRecord file.*arrow_open_stream_args"):
        read(hidden)
    weir.range(9).write_tfrecords(str(tmp_path / "out"), arrow_open_stream_args={"compression": "gzip"})
    (made,) = (tmp_path / "out").iterdir()
    assert made.name.endswith(".tfrecords.gz")
    assert [tf.parse(r)["id"].values[0] for r in tf.frames(gzip.decompress(made.read_bytes()))] == list(range(9))


def test_paths_blocks_and_several_files(tmp_path):
    for n in range(3):
        tf.write(tmp_path / f"{n}.tfrecords", [{"n": INTS(n)}] * 2)
    ds = weir.read_tfrecords(str(tmp_path), include_paths=True)
    assert sorted((row["n"], row["path"][-11:]) for row in ds.take_all()) == [(n, f"{n}.tfrecords") for n in range(3) for _ in range(2)]
    assert weir.read_tfrecords(str(tmp_path), override_num_blocks=2).materialize().num_blocks() == 2
    # Files that differ: missing features are null, one value in one file and several in another are lists.
    tf.write(tmp_path / "9.tfrecords", [{"n": INTS(7, 8), "m": FLOATS(0.5)}])
    assert sorted((row["n"], row["m"]) for row in read(tmp_path))[-1] == ([7, 8], 0.5)


# ---- files that are wrong ----


def test_errors_name_the_file_the_record_and_the_feature(tmp_path):
    good = [tf.frame(tf.example({"a": INTS(n)})) for n in range(5)]
    broken = bytearray(b"".join(good))
    broken[len(good[0]) * 3 + 15] ^= 1
    path = tmp_path / "broken.tfrecords"
    path.write_bytes(broken)
    with pytest.raises(Exception, match=rf"broken.tfrecords.*row 3, byte {3 * len(good[0])}: the record's checksum is wrong"):
        weir.read_tfrecords(str(path)).take_all()
    assert weir.read_tfrecords(str(path)).take(2) == [{"a": 0}, {"a": 1}]
    wrong = tf.field(1, tf.field(1, tf.field(1, b"f") + tf.field(2, tf.field(2, tf.field(1, b"12345")))))
    path.write_bytes(good[0] + tf.frame(wrong))
    with pytest.raises(Exception, match="broken.tfrecords.*column f, row 1, byte 30: the feature is no tf.train.Feature: it has values of another kind"):
        weir.read_tfrecords(str(path)).take_all()
    path.write_bytes(good[0] + tf.frame(tf.example({"a": BYTES(b"x")})))
    with pytest.raises(Exception, match="column a.*bytes in some records and numbers in others"):
        weir.read_tfrecords(str(path)).take_all()


@pytest.mark.parametrize("length", [100, 2**31, 2**40, 2**63])
def test_a_length_that_lies_costs_nothing(tmp_path, length):
    head = struct.pack("<Q", length)
    data = head + tf.masked(head) + b"short"
    (tmp_path / "a.tfrecords").write_bytes(data)
    (tmp_path / "b.tfrecords.gz").write_bytes(gzip.compress(data))
    for name in ("a.tfrecords", "b.tfrecords.gz"):
        with pytest.raises(Exception, match="says that it has"):
            weir.read_tfrecords(str(tmp_path / name)).take_all()


@pytest.mark.parametrize("rows, message", [
    ([{"a": True}], "type bool.*bytes, float, or int"), ([{"a": {"b": 1}}], "struct.*bytes, float, or int"),
    ([{"a": [1, None]}], "a list holds a null"), ([{"a": None}], "every value is null")])
def test_what_cannot_be_written(tmp_path, rows, message):
    with pytest.raises((ValueError, TypeError), match=message):
        weir.from_items(rows).write_tfrecords(str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_tensors_are_written_as_tensorflow_serialises_them(tmp_path):
    Tensor = np.arange(12, dtype=np.int16).reshape(2, 2, 3)
    weir.from_numpy(Tensor).write_tfrecords(str(tmp_path / "out"))
    (path,) = (tmp_path / "out").iterdir()
    for row, expected_row in zip(tf.read(path), Tensor):
        proto = dict(tf.fields(row["data"].values[0]))
        assert proto[1] == 5  # DT_INT16
        assert [dict(tf.fields(dim))[1] for _, dim in tf.fields(proto[2])] == [2, 3]
        assert np.array_equal(np.frombuffer(proto[4], np.int16).reshape(2, 3), expected_row)


def test_numbers_at_the_edges(tmp_path):
    weir.from_items([{"i": -(2**63), "f": math.inf}, {"i": 2**63 - 1, "f": 1e-45}]).write_tfrecords(str(tmp_path / "out"))
    assert [(r["i"], r["f"]) for r in read(tmp_path / "out")] == [(-(2**63), math.inf), (2**63 - 1, 1.401298464324817e-45)]
    with pytest.raises(ValueError, match="9223372036854775808 does not fit"):
        weir.from_numpy(np.array([2**63], np.uint64)).write_tfrecords(str(tmp_path / "no"))


# ---- the command ----


def test_the_command(tmp_path):
    weir_chain = chains()
    path = tf.write(tmp_path / "a.tfrecord", [{"a": INTS(n), "b": BYTES(b"x")} for n in range(4)])
    assert weir_chain.stream(f"read '{path}' then filter 'a > 1' then select a").to_pylist() == [{"a": 2}, {"a": 3}]
    assert weir_chain.stream(f"read '{path}' --types 'a=list<int64>' --unexpected ignore").to_pylist() == [{"a": [n]} for n in range(4)]
    weir_chain.run(f"read '{path}' then write '{tmp_path}/b.tfrecords'")
    assert tf.read(tmp_path / "b.tfrecords") == tf.read(tmp_path / "a.tfrecord")
    with pytest.raises(weir_chain.ChainError, match="int64, float, double, binary or a list"):
        weir_chain.stream(f"read '{path}' --types a=string")
    with pytest.raises(weir_chain.ChainError, match="--infer is one of sample, all"):
        weir_chain.stream(f"read '{path}' --infer some")
    with pytest.raises(weir_chain.ChainError, match="is for CSV"):
        weir_chain.run(f"read '{path}' then write '{tmp_path}/c.tfrecords' --delimiter ';'")


@pytest.mark.parametrize("is_function", [False, True])
def test_small_blocks_share_files(tmp_path, is_function):
    ds = weir.range(100, override_num_blocks=20)
    if is_function:
        ds = ds.map(lambda row: row)
    ds.write_tfrecords(str(tmp_path), min_rows_per_file=50)
    assert len(list(tmp_path.glob("*.tfrecords"))) == len(list(tmp_path.iterdir())) == 2
    assert weir.read_tfrecords(str(tmp_path)).sum("id") == 4950
