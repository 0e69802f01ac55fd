"""Ray's module paths under compat: each imports, and what it has is weir's; what weir has not got says so when it is used."""
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("pandas")  # classes of ray.data.extensions are pandas' and pyarrow's own
pytest.importorskip("pyarrow")

from driver_scripts import made_once  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
RECORDED = json.loads((ROOT / "tests/python/recorded/ray_2_60_names.json").read_text())

# Modules without anything public.
PRIVATE = {"ray.data.datasource.path_util", "ray.data.datasource.util"}
# Names of Ray's that weir does not have. Everything else in the recorded list has to be there.
CLUSTER = "ActorClassID ClientBuilder FunctionID Language client java_actor_class java_function timeline"
SERVICES = "ClickHouseTableSettings DatabricksUnityCatalog KafkaAuthConfig SinkMode"
ABSENT = {name: set(words.split()) for name, words in {
    "ray": CLUSTER,
    "ray.data": SERVICES,
    "ray.data.catalog": SERVICES,
    "ray.data.datasource": "DeltaSharingDatasource LeRobotDatasource TurbopufferDatasink _S3FileSystemWrapper",
    "ray.data.namespace_expressions.map_namespace": "MapComponent",
    "ray.data.util.jax_util": "jax_sync_generator",
    "ray.experimental": "CommunicatorMetadata RDTManager TensorTransportManager TensorTransportMetadata deregister_nixl_memory "
                        "get_local_object_locations register_nixl_memory register_nixl_memory_pool register_tensor_transport "
                        "set_nixl_cuda_stream set_resource set_target_device_for_ref set_target_for_ref wait_tensor_freed",
    "ray.util": "connect disconnect iter pdb ray_debugpy",
    "ray.util.debug": "Suspect",
    "ray.util.placement_group": "check_placement_group_index validate_placement_group",
    "ray.util.state": "*",
}.items()}
# Not there as attributes either: Ray's own insides that are public by accident.
INSIDES = {"ray": {"_config", "internal", "widgets"}, "ray.cloudpickle": set(RECORDED["modules"]["ray.cloudpickle"]["names"])}

MODULES = """
ray ray.data ray.data.dataset ray.data.context ray.data.block ray.data.aggregate ray.data.expressions ray.data.datatype ray.data.datasource
ray.data.datasource.partitioning ray.data.datasource.filename_provider ray.data.datasource.datasink
ray.data.datasource.file_based_datasource ray.data.datasource.datasource ray.data.exceptions ray.data.extensions
ray.data.extensions.tensor_extension ray.data.extensions.object_extension ray.data.preprocessor ray.data.preprocessors ray.data.iterator
ray.data.collate_fn ray.data.constants ray.data.stats ray.data.grouped_data ray.data.checkpoint ray.data.random_access_dataset
ray.data.dataset_pipeline ray.data.util.torch_utils ray.data.util.data_batch_conversion ray.exceptions ray.util ray.util.annotations
ray.util.placement_group ray.util.scheduling_strategies ray.runtime_env ray.experimental ray.train.torch ray.data.util.torch_inference
ray.data.checkpoint.interfaces ray.data.checkpoint.checkpoint_writer ray.data.checkpoint.util ray.data.preprocessors.utils
ray.data.preprocessors.version_support ray.train ray.tune ray.serve ray.llm ray.data.llm ray.cloudpickle ray.actor ray.util.queue
ray.util.check_serialize ray.util.serialization ray.experimental.locations ray.runtime_env.runtime_env
""".split()


def run(code):
    done = subprocess.run([sys.executable, "-m", "weir.compat", "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300,
                          env=os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return made_once(tmp_path_factory, "compat_modules", names_found)


def names_found():
    """What there is of the recorded names: module → name → "absent" or "none"; no entry: it is weir's."""
    names = {module: list(entry["names"]) for module, entry in RECORDED["modules"].items()} | {module: [] for module in MODULES}
    for module in MODULES:
        names[module] = list(RECORDED["modules"].get(module, {"names": []})["names"])
    return json.loads(run(f"""
        import importlib, json
        from weir.compat.lazy import is_absent
        out = {{}}
        for module, names in json.loads({json.dumps(json.dumps(names))}).items():
            try:
                made = importlib.import_module(module)
            except ModuleNotFoundError as error:
                out[module] = str(error)
                continue
            out[module] = {{}}
            for name in names:
                if not hasattr(made, name):
                    out[module][name] = "none"
                elif is_absent(getattr(made, name)):
                    out[module][name] = "absent"
        print(json.dumps(out))
    """))


@pytest.mark.parametrize("module", sorted(set(MODULES) | set(RECORDED["modules"])))
def test_a_module_holds_what_it_should(found, module):
    if module in PRIVATE:
        return
    names = found[module]
    assert isinstance(names, dict), names
    missing = {name for name, what in names.items() if what == "none"}
    assert missing <= INSIDES.get(module, set())
    allowed = ABSENT.get(module, set())
    absent = {name for name, what in names.items() if what == "absent"}
    assert allowed == {"*"} or absent <= allowed, f"{module} has no {sorted(absent - allowed)}"


def test_what_is_said_to_be_missing_is_missing(found):
    told = {f"{module}.{name}" for module, names in ABSENT.items() for name in names
            if name != "*" and name in RECORDED["modules"][module]["names"]}
    really = {f"{module}.{name}" for module, names in found.items() if isinstance(names, dict) for name, what in names.items() if what == "absent"}
    assert told - really == set()


def test_classes_are_the_same_everywhere():
    assert run("""
        import ray, weir
        import ray.data.dataset, ray.data.context, ray.data.datasource.partitioning, ray.data.exceptions, ray.exceptions, ray.data.block
        from ray.data._internal.compute import ActorPoolStrategy
        from ray.data._internal.execution.interfaces import ExecutionOptions
        from ray.data import *
        print(ray.data.Dataset is weir.Dataset is ray.data.dataset.Dataset, DataContext is ray.data.context.DataContext is weir.DataContext,
              ActorPoolStrategy is ray.data.ActorPoolStrategy, ExecutionOptions is weir.ExecutionOptions,
              ray.data.exceptions.UserCodeException is ray.exceptions.UserCodeException, ray.data.Schema is weir.Schema)
    """).split() == ["True"] * 6


def test_modules_are_attributes_without_being_imported():
    assert run("""
        import ray
        print(ray.data.context.DataContext.__name__, ray.exceptions.RayError.__name__, ray.util.annotations.PublicAPI.__name__)
        import ray.data
        print(ray.data.datasource.partitioning.Partitioning.__name__, ray.train.torch.__name__)
        from ray.util.placement_group import PlacementGroup, VALID_PLACEMENT_GROUP_STRATEGIES
        assert "STRICT_PACK" in VALID_PLACEMENT_GROUP_STRATEGIES
        print(callable(ray.util.placement_group) and not hasattr(ray.util.placement_group, "__path__"))
        try:
            ray.no_such_thing
        except AttributeError as error:
            print(error)
        try:
            from ray.data import no_such_thing
        except ImportError as error:
            print(type(error).__name__)
    """).splitlines() == ["DataContext RayError PublicAPI", "Partitioning ray.train.torch", "True",
                          "module 'ray' has no attribute 'no_such_thing'", "ImportError"]


def test_what_is_absent_says_so_when_it_is_used():
    lines = run("""
        from ray.data.catalog import DatabricksUnityCatalog
        def told(f):
            try:
                print("nothing", f())
            except NotImplementedError as error:
                print(type(error).__name__, error)
        told(lambda: DatabricksUnityCatalog(columns=["a"]))
        told(lambda: DatabricksUnityCatalog.deserialize("x"))
        def subclass():
            class Mine(DatabricksUnityCatalog):
                pass
        told(subclass)
        print(hasattr(DatabricksUnityCatalog, "fit"), DatabricksUnityCatalog)
    """).splitlines()
    text = "NotInWeir ray.data.catalog.DatabricksUnityCatalog is a part of Ray that weir does not have; docs/parity.md says what it has"
    assert lines == [text, text, text, "False <DatabricksUnityCatalog, which weir does not have>"]


def test_names_of_rays_own_modules_are_things_to_be_called_and_annotated_with():
    """A file with `x: Name[int]` in it can be imported, and a class that is not there says so: it was "'module' object is not callable"."""
    assert run("""
        import pyarrow
        from ray.data._internal.execution.operators.map_transformer import MapTransformCallable
        from ray.data._internal.logical.operators import JoinType, Read
        from ray.data._internal.utils.arrow_utils import get_pyarrow_version
        def f(transform: MapTransformCallable[int, list[int]] | None = None) -> None: pass
        try:
            Read()
        except NotImplementedError as error:
            print(error)
        print(JoinType.INNER.name, str(get_pyarrow_version()) == pyarrow.__version__)
    """).splitlines() == ["ray.data._internal.logical.operators.Read is a part of Ray that weir does not have; docs/parity.md says what it has",
                          "INNER True"]


def test_preprocessors_are_at_rays_places():
    assert run("""
        import ray, weir.preprocessors
        from ray.data.preprocessor import Preprocessor, PreprocessorNotFittedException
        from ray.data.preprocessors import Chain, StandardScaler
        from ray.data.preprocessors.encoder import OneHotEncoder
        from ray.data.preprocessors.torch import TorchVisionPreprocessor
        from ray.data.preprocessors.utils import StatComputationPlan, simple_hash
        from ray.data.preprocessors.version_support import SerializablePreprocessor
        print(StandardScaler is weir.preprocessors.StandardScaler, ray.data.Preprocessor is Preprocessor, issubclass(OneHotEncoder, Preprocessor))
        try:
            Chain(StandardScaler(["a"])).transform(ray.data.range(1))
        except PreprocessorNotFittedException as error:
            print(type(error).__name__)
        print(StandardScaler(["id"]).fit_transform(ray.data.range(2)).take())
    """).splitlines() == ["True True True", "PreprocessorNotFittedException", "[{'id': -1.0}, {'id': 1.0}]"]


def test_the_other_libraries():
    text = run("""
        import ray.train, ray.tune, ray.serve, ray.llm
        from ray.train import ScalingConfig, RunConfig, Checkpoint
        from ray.train.torch import TorchTrainer, TorchConfig
        from ray.train.lightning import RayDDPStrategy
        from ray import tune, serve, train
        from ray.tune.schedulers import ASHAScheduler
        from ray.air.config import DatasetConfig
        from ray.data.llm import vLLMEngineProcessorConfig, build_llm_processor
        for use in (lambda: TorchTrainer(None), lambda: ScalingConfig(num_workers=2), lambda: train.report({}), lambda: tune.Tuner(None),
                    lambda: tune.choice([1]), lambda: serve.run(None), lambda: ASHAScheduler(), lambda: build_llm_processor(None),
                    lambda: serve.deployment(lambda: 1)):
            try:
                use()
                print("nothing")
            except NotImplementedError as error:
                print(str(error).splitlines()[0])
                if "TorchTrainer" in str(error):
                    print(error)
    """)
    assert "nothing" not in text
    assert "ray.train.torch.TorchTrainer is not in weir" in text and "torch.distributed.run --nproc_per_node" in text and ".shard(" in text
    for name in ("ray.tune.Tuner", "ray.serve.run", "ray.train.ScalingConfig", "ray.tune.schedulers.ASHAScheduler", "ray.data.llm.build_llm_processor"):
        assert f"{name} is not in weir" in text


def test_modules_where_ray_defines_what_it_shows_elsewhere():
    """Older programs import from there."""
    assert run("""
        import ray
        from ray.util.check_serialize import inspect_serializability
        from ray.util.serialization import register_serializer, deregister_serializer
        from ray.experimental.locations import get_object_locations
        from ray.runtime_env.runtime_env import RuntimeEnv
        print(inspect_serializability is ray.util.inspect_serializability, register_serializer is ray.util.register_serializer,
              get_object_locations is ray.experimental.get_object_locations, RuntimeEnv is ray.runtime_env.RuntimeEnv)
    """) == "True True True True\n"


def test_names_of_the_language_that_ray_gives_a_name():
    """Annotations of users' functions say them."""
    assert run("""
        from ray.data.block import CallableClass
        from ray.data.grouped_data import CallableClass as same
        from ray.data.expressions import PyArrowComputeUDFExpr, UDFExpr, col
        print(CallableClass is same is type, isinstance(col("a").str.upper(), PyArrowComputeUDFExpr), issubclass(PyArrowComputeUDFExpr, UDFExpr))
    """) == "True True True\n"


@pytest.mark.parametrize("name, says", [
    ("ray.cluster_utils.Cluster", "several nodes"), ("ray.job_config.JobConfig", "ray.init"), ("ray.experimental.tqdm_ray.tqdm", "tqdm itself"),
    ("ray.util.dask.enable_dask_on_ray", "from_dask"), ("ray.util.joblib.register_ray", "joblib's own"), ("ray.util.spark.setup_ray_cluster", "Spark")])
def test_what_belongs_to_a_cluster_imports_and_says_so(name, says):
    module, _, own = name.rpartition(".")
    text = run(f"""
        from {module} import {own}
        try:
            {own}()
        except NotImplementedError as error:
            print(error)
    """)
    assert f"{name} is not in weir" in text and says in text


def test_get_device():
    pytest.importorskip("torch")
    assert run("from ray.train.torch import get_device; import torch; print(isinstance(get_device(), torch.device))").strip() == "True"


def test_exceptions_have_rays_bases():
    import weir.exceptions

    modules = RECORDED["modules"]
    for module in ("ray.exceptions", "ray.data.exceptions"):
        for name, entry in modules[module]["names"].items():
            if entry["kind"] != "class":
                continue
            ours = getattr(weir.exceptions, name)
            told = {base.rpartition(".")[2] for base in RECORDED["classes"][entry["what"]]["bases"]}
            assert told <= {base.__name__ for base in ours.__mro__}, name
            assert ours.__doc__ and name in weir.exceptions.__all__


def test_signatures_of_ray_init():
    import inspect

    from weir import ray_api

    told = RECORDED["functions"]["ray._private.worker.init"]
    ours = inspect.signature(ray_api.init)
    for name in ours.parameters:
        assert name in told or name == "others"
    for name in ("resources", "labels", "include_dashboard", "dashboard_port", "job_config", "_memory", "_temp_dir", "_system_config"):
        assert name in ours.parameters or name in ray_api._WITHOUT_EFFECT or name in ("_memory", "_temp_dir")


def test_every_module_of_the_package_can_be_imported():
    folder = ROOT / "python/weir/compat/site"
    names = [".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__") for path in folder.rglob("*.py")]
    run(f"import importlib\nfor name in {sorted(names)!r}:\n    module = importlib.import_module(name)\n    assert dir(module)\n    [getattr(module, n) for n in getattr(module, '__all__', ())]")


def test_importing_ray_is_cheap():
    """What it costs is what it loads: the time itself is in bench/ (first-row-native, through compat)."""
    loaded = run("""
import sys
import ray, ray.data
print(*sys.modules)
""").split()
    heavy = {"numpy", "pandas", "pyarrow", "torch", "cloudpickle", "asyncio", "inspect", "json", "multiprocessing", "pickle", "socket", "subprocess"}
    assert not heavy & set(loaded)
    ours = {name for name in loaded if name.partition(".")[0] in ("weir", "ray")}
    assert ours == {"ray", "ray.data", "weir", "weir.compat", "weir.compat.arrow_modules", "weir.compat.lazy", "weir.compat.logs"}
    assert len(loaded) < 100


def test_rays_own_modules_import_and_say_that_they_are_not_there():
    """A test-suite whose first lines import from them still runs all tests that do not use them."""
    run(
        """
import ray.data._internal
from ray.data._internal.logical.optimizers import get_execution_plan
from ray.data._internal.execution.operators.map_operator import MapOperator
from ray.data._internal.compute import ActorPoolStrategy, a_name_that_nobody_knows
from ray._private.internal_api import memory_summary
from ray._common.test_utils import wait_for_condition, another_name
import ray._private.utils, ray._common.utils
wait_for_condition(lambda: True)
for use in (get_execution_plan, MapOperator, a_name_that_nobody_knows, memory_summary, another_name, ray._private.utils.anything):
    try:
        use(1)
    except NotImplementedError as error:
        assert "weir" in str(error), error
    else:
        raise AssertionError(use)
assert ActorPoolStrategy is ray.data.ActorPoolStrategy
"""
    )


def test_helpers_of_sources_are_where_ray_keeps_them(tmp_path):
    """What sources and sinks of other people import from Ray's own modules."""
    pytest.importorskip("pyarrow")
    (tmp_path / "a b.csv").write_text("x\n1\n")
    run(
        f"""
from ray.data._internal.util import _check_import, _check_pyarrow_version, _is_local_scheme, _truncated_repr, call_with_retry
from ray.data._internal.remote_fn import cached_remote_fn
from ray.data.datasource.path_util import _has_file_extension, _resolve_paths_and_filesystem, _unwrap_protocol
import pyarrow.fs, ray
_check_pyarrow_version()
class Mine:
    def __init__(self, module): _check_import(self, module=module, package="some-package")
Mine("json")
try:
    Mine("no_such_module_at_all")
except ImportError as error:
    assert "`Mine`" in str(error) and "pip install some-package" in str(error)
else:
    raise AssertionError
assert _is_local_scheme("local:///a") and not _is_local_scheme(["/a", "/b"])
try:
    _is_local_scheme(["local:///a", "/b"])
except ValueError:
    pass
else:
    raise AssertionError
calls = []
def flaky():
    calls.append(1)
    if len(calls) < 3: raise OSError("slow down")
    return len(calls)
assert call_with_retry(flaky, "try", match=["slow"], max_backoff_s=0) == 3
calls.clear()
try:
    call_with_retry(flaky, "try", match=["other"], max_backoff_s=0)
except OSError:
    assert len(calls) == 1
else:
    raise AssertionError
double = cached_remote_fn(lambda x: 2 * x, num_cpus=1)
assert ray.get(double.remote(4)) == 8
assert _truncated_repr("x" * 300) == "x" * 200 + "..."
assert _has_file_extension("a.CSV?v=1", [".csv"]) and not _has_file_extension("a.csv", ["json"])
assert _unwrap_protocol("file:///a/b") == "/a/b"
path = {str(tmp_path / "a b.csv")!r}
for given in (path, [path], "local://" + path, "file://" + path.replace(" ", "%20")):
    paths, filesystem = _resolve_paths_and_filesystem(given)
    assert paths == [path] and isinstance(filesystem, pyarrow.fs.LocalFileSystem), (given, paths)
    assert filesystem.open_input_stream(paths[0]).read() == b"x\\n1\\n"
"""
    )


def test_helpers_of_columns_and_threads_are_where_ray_keeps_them():
    run(
        """
import numpy as np, pyarrow as pa, ray
from ray.data._internal.planner.exchange.sort_task_spec import SortKey
from ray.data._internal.object_extensions.arrow import ARROW_PYTHON_OBJECT_EXTENSION_NAME, ArrowPythonObjectType, raise_on_pickle_object_columns
from ray.data._internal.remote_fn import _make_hashable
from ray.data._internal.tensor_extensions.arrow import (
    _convert_to_pyarrow_native_array, _infer_pyarrow_type, convert_to_pyarrow_array, get_arrow_extension_fixed_shape_tensor_types, pyarrow_table_from_pydict)
from ray.data._internal.util import find_partition_index, iterate_with_retry, make_async_gen, merge_resources_to_ray_remote_args
assert ArrowPythonObjectType().extension_name == ARROW_PYTHON_OBJECT_EXTENSION_NAME
raise_on_pickle_object_columns(pyarrow_table_from_pydict({"a": [1]}))
assert isinstance(convert_to_pyarrow_array(np.zeros((2, 2)), "a").type, get_arrow_extension_fixed_shape_tensor_types())
assert _convert_to_pyarrow_native_array([1], "a").type == _infer_pyarrow_type([1]) == pa.int64()
assert _make_hashable({"a": [1]}) == (("a", (1,)),)
assert merge_resources_to_ray_remote_args(1, None, 2, {"max_retries": 3}) == {"num_cpus": 1, "memory": 2, "max_retries": 3}
assert list(iterate_with_retry(lambda: [1], "read")) == list(make_async_gen(iter([1]), iter, True)) == [1]
table = pa.table({"a": [1, 1, 2], "b": [2, 1, 1]})
key = SortKey(["a", "b"], descending=[False, True])
from ray.data._internal.planner.plan_expression.expression_evaluator import ExpressionEvaluator, eval_expr
assert eval_expr(ray.data.expressions.col("b") + 1, table).to_pylist() == [b + 1 for b in table["b"].to_pylist()]
assert eval_expr(ray.data.expressions.col("b") / 2, table.to_pandas()).tolist() == [b / 2 for b in table["b"].to_pylist()]
try:
    eval_expr(ray.data.expressions.col("b") + "x", table)
except TypeError as error:
    assert "int64" in str(error)
else:
    raise AssertionError("numbers were joined with texts")
assert table.filter(ExpressionEvaluator.get_filters(expression="a == 1 and b in [1]")).num_rows == 1
assert ray.data.from_arrow(table).filter(expr=ExpressionEvaluator.parse_native_expression("b > -1")).count() == 3
from ray.data.util.data_batch_conversion import (
    BatchFormat, _cast_ndarray_columns_to_tensor_extension, _convert_batch_type_to_numpy, _convert_batch_type_to_pandas, _convert_pandas_to_batch_type)
frame = _convert_batch_type_to_pandas({"a": np.arange(2), "t": np.zeros((2, 3))})
assert [value.shape for value in frame["t"]] == [(3,), (3,)]
tensors = _cast_ndarray_columns_to_tensor_extension(frame)
assert str(tensors["t"].dtype).startswith("TensorDtype") and _convert_batch_type_to_pandas(tensors, True)["t"].dtype == object
assert _convert_batch_type_to_numpy(table)["a"].tolist() == [1, 1, 2] and _convert_batch_type_to_numpy(frame[["a"]]).tolist() == [0, 1]
assert _convert_pandas_to_batch_type(frame[["a"]], BatchFormat.ARROW)["a"].to_pylist() == [0, 1]
try:
    _convert_batch_type_to_pandas({"a": [1]})
except ValueError as error:
    assert "np.ndarray" in str(error)
else:
    raise AssertionError("a list was taken for an array")
assert [find_partition_index(table, at, key) for at in ((0, 0), (1, 1), (2, 5), (3, 0))] == [0, 1, 2, 3]
"""
    )


def test_sources_are_where_ray_keeps_them(tmp_path):
    """Those that others make their own of."""
    pytest.importorskip("pyarrow")
    Image = pytest.importorskip("PIL.Image")
    for number in range(2):
        Image.new("RGB", (8, 4), (number, 0, 0)).save(tmp_path / f"{number}.png")
    (tmp_path / "a.csv").write_text("x;y\n1;2\n")
    run(
        f"""
import ray, pyarrow as pa
from pyarrow import csv
from ray.data._internal.datasource.image_datasource import ImageDatasource
from ray.data._internal.datasource.binary_datasource import BinaryDatasource
from ray.data._internal.datasource.csv_datasource import CSVDatasource
from ray.data._internal.datasource.text_datasource import TextDatasource
from ray.data._internal.datasource.mongo_datasource import MongoDatasource
folder = {str(tmp_path)!r}
class Labelled(ImageDatasource):
    def _read_stream(self, f, path):
        for block in super()._read_stream(f, path):
            yield block.append_column("name", pa.array([path[-5:]] * block.num_rows))
rows = ray.data.read_datasource(Labelled(folder, size=(2, 3), mode="L", file_extensions=["png"])).take_all()
assert sorted(row["name"] for row in rows) == ["0.png", "1.png"] and [row["image"].shape for row in rows] == [(2, 3)] * 2
rows = ray.data.read_datasource(BinaryDatasource([folder + "/a.csv"], include_paths=True)).take_all()
assert rows[0]["bytes"].startswith(b"x;y") and rows[0]["path"].endswith("a.csv")
source = CSVDatasource([folder + "/a.csv"], arrow_csv_args=dict(parse_options=csv.ParseOptions(delimiter=";")))
assert ray.data.read_datasource(source).take_all() == [dict(x=1, y=2)]
assert ray.data.read_datasource(TextDatasource([folder + "/a.csv"])).count() == 2
from ray.data._internal.datasource.range_datasource import RangeDatasource
ds = ray.data.read_datasource(RangeDatasource(n=10, block_format="arrow"))
assert ds.take_all() == [dict(value=i) for i in range(10)] and ds.schema().types == [pa.int64()]
assert [task.metadata.num_rows for task in RangeDatasource(10).get_read_tasks(3)] == [3, 3, 3, 1]
assert ray.data.read_datasource(RangeDatasource(0)).count() == 0
tensors = ray.data.read_datasource(RangeDatasource(4, "tensor", (2, 2), "data")).take_batch()["data"]
assert tensors.shape == (4, 2, 2) and tensors[3].tolist() == [[3, 3], [3, 3]]
for wrong in (dict(block_format="list"), dict(block_format="tensor")):
    try:
        RangeDatasource(1, **wrong)
    except ValueError:
        pass
    else:
        raise AssertionError(wrong)
try:
    MongoDatasource()
except NotImplementedError:
    pass
else:
    raise AssertionError
"""
    )


def test_what_was_in_ray_air_is_there():
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    run(
        """
from ray.air.constants import TENSOR_COLUMN_NAME
from ray.air.data_batch_type import DataBatchType
from ray.air.util.data_batch_conversion import BatchFormat
from ray.air.util.tensor_extensions.arrow import ArrowTensorArray
from ray.air.util.tensor_extensions.pandas import TensorArray, _create_possibly_ragged_ndarray
from ray.air.util.tensor_extensions.utils import create_ragged_ndarray
from ray.air import session, Checkpoint
from ray.air.config import ScalingConfig
import numpy as np, pandas as pd, ray.data.extensions as public
assert TENSOR_COLUMN_NAME == "__value__" and BatchFormat("pandas") and TensorArray is public.TensorArray
assert ArrowTensorArray is public.ArrowTensorArray and _create_possibly_ragged_ndarray([[1], [2, 3]]).shape == (2,)
assert pd.DataFrame({"x": TensorArray(np.zeros((2, 3)))}).dtypes["x"] == public.TensorDtype((3,), np.float64)
try:
    ScalingConfig(num_workers=1)
except NotImplementedError:
    pass
else:
    raise AssertionError
"""
    )


def test_types_of_tensors_are_where_ray_keeps_them():
    pytest.importorskip("pyarrow")
    run(
        """
from ray.data._internal.tensor_extensions.arrow import ArrowTensorArray, ArrowTensorTypeV2
from ray.data._internal.tensor_extensions.pandas import TensorArray
from ray.data._internal.tensor_extensions.utils import create_ragged_ndarray
from ray.data._internal.object_extensions.arrow import ArrowPythonObjectArray
import ray.data.extensions as public
assert ArrowTensorArray is public.ArrowTensorArray and TensorArray is public.TensorArray
assert create_ragged_ndarray([[1], [2, 3]]).shape == (2,)
"""
    )


def test_names_through_neighbours():
    """Scripts take a name from whichever of Ray's modules has imported it."""
    done = run("""
        from ray.data.block import DataContext as one
        from ray.data.context import CheckpointConfig, DataContext
        from ray.data.dataset import AggregateFn, CollateFn, DataType as two, Expr, Max, RandomAccessDataset
        from ray.data.expressions import DataType, col
        from ray.data.grouped_data import Dataset, ShuffleStrategy
        from ray.data.iterator import NumpyBatchCollateFn
        import ray, weir
        assert one is DataContext and two is DataType is weir.datatype.DataType and Dataset is ray.data.Dataset
        assert NumpyBatchCollateFn is ray.data.collate_fn.NumpyBatchCollateFn and Max is ray.data.aggregate.Max
        print(ray.data.range(2).with_column("s", col("id").cast(DataType.string())).take_all())
    """)
    assert done == "[{'id': 0, 's': '0'}, {'id': 1, 's': '1'}]\n"


@pytest.mark.parametrize("first", ["import pyarrow as pa; import ray", "import ray; import pyarrow as pa"])
def test_parts_of_pyarrow_need_no_import(first):
    """Ray Data imports them, so that scripts name them without an import of their own; in functions, too."""
    out = run(f"""
        {first}
        def least(batch):
            return {{"least": [pa.compute.min(batch["id"]).as_py()]}}
        print(ray.data.range(3).map_batches(least, batch_format="pyarrow").take_all())
        print(pa.compute.sum(pa.array([1, 2])), pa.fs.LocalFileSystem.__name__, pa.parquet.read_table.__name__, hasattr(pa, "nothing"))
    """)
    assert out.splitlines() == ["[{'least': 0}]", "3 LocalFileSystem read_table False"]
