"""The methods of this package take Ray Data 2.60's arguments, in its order, with its defaults. Skipped without Ray."""
import enum
import inspect

import pytest

import weir

ray_data = pytest.importorskip("ray.data")

FUNCTIONS = ["range", "range_tensor", "from_items", "from_pandas", "from_arrow", "from_numpy", "from_blocks", "read_parquet",
             "read_csv", "read_json", "read_text", "read_binary_files"]
METHODS = ["map", "map_batches", "flat_map", "filter", "with_column", "with_columns", "add_column", "select_columns",
           "drop_columns", "rename_columns", "limit", "union", "random_sample", "repartition", "take", "take_all",
           "take_batch", "show", "count", "schema", "columns", "size_bytes", "num_blocks", "input_files", "iter_rows",
           "iter_batches", "iter_torch_batches", "materialize", "to_pandas", "write_parquet", "write_csv", "write_json",
           "sum", "min", "max", "mean", "std", "iterator", "stats", "explain", "set_name", "get_dataset_id",
           "has_serializable_lineage", "serialize_lineage", "deserialize_lineage", "get_internal_block_refs", "copy"]
ITERATOR = ["iter_batches", "iter_rows", "iter_torch_batches", "materialize", "schema", "stats", "get_context"]
CLASSES = ["ActorPoolStrategy", "TaskPoolStrategy", "ExecutionOptions", "ExecutionResources", "FileShuffleConfig", "Schema"]
# Where weir takes more than Ray: the name of the argument.
MORE = {"iter_batches": {"_collate_fn"}}


def same(a, b):
    """Whether two defaults are the same for a caller."""
    if isinstance(a, enum.Enum) or isinstance(b, enum.Enum):
        return getattr(a, "value", a) == getattr(b, "value", b)
    if type(a).__name__ == "Partitioning":
        return repr(a).replace("<PartitionStyle.HIVE: 'hive'>", "'hive'") == repr(b)
    return a is b or (type(a) is type(b) and a == b)


def compare(theirs, ours, name):
    theirs, ours = inspect.signature(theirs).parameters, dict(inspect.signature(ours).parameters)
    for more in MORE.get(name, ()):
        if more not in theirs:
            ours.pop(more, None)
    # `self`, and the name that a static method has for it.
    names = lambda parameters: ["self" if n == "ds" and i == 0 else n for i, n in enumerate(parameters)]
    assert names(ours) == names(theirs), name
    for mine, other in zip(ours.values(), theirs.values()):
        assert mine.kind == other.kind, (name, mine.name)
        if {mine.name, other.name} == {"self", "ds"}:
            continue
        assert same(other.default, mine.default), (name, mine.name, other.default, mine.default)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_rays_arguments(name):
    compare(getattr(ray_data, name), getattr(weir, name), name)


@pytest.mark.parametrize("name", METHODS)
def test_methods_have_rays_arguments(name):
    compare(getattr(ray_data.Dataset, name), getattr(weir.Dataset, name), name)


@pytest.mark.parametrize("name", ITERATOR)
def test_iterators_have_rays_arguments(name):
    # Ray annotates batch_size differently on the two classes; names, order and defaults are the same.
    compare(getattr(ray_data.DataIterator, name), getattr(weir.DataIterator, name), name)


@pytest.mark.parametrize("name", CLASSES)
def test_classes_have_rays_arguments(name):
    compare(getattr(ray_data, name).__init__, getattr(weir, name).__init__, name)


def test_contexts_have_rays_fields_and_defaults():
    import dataclasses

    theirs = {f.name: getattr(ray_data.DataContext(), f.name) for f in dataclasses.fields(ray_data.DataContext)}
    ours = dict(vars(weir.DataContext()))
    assert set(theirs) <= set(ours)
    plain = (bool, int, float, str, list, tuple, type(None))
    # Settings of other programs (Lance, Iceberg, Delta) and of Ray's own detectors have no counterpart.
    others = {"lance_config", "iceberg_config", "delta_config", "issue_detectors_config", "arrow_fixed_shape_tensor_format"}
    for name, value in theirs.items():
        if name not in others and isinstance(value, plain) and not isinstance(value, enum.Enum):
            assert ours[name] == value, name
    assert ours["_shuffle_strategy"].value == theirs["_shuffle_strategy"].value
    assert {m.value for m in weir.SaveMode} == {m.value for m in ray_data.SaveMode}
