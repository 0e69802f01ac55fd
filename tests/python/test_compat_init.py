"""ray.init with Ray's arguments, the resources, and the small helpers of ray.util."""
import json
import logging
import os
import subprocess
import sys
import textwrap

import pytest

import weir
from weir import ray_api, runtime_env, util


def run(code, check=True, **environment):
    """The output of a program under compat."""
    done = subprocess.run([sys.executable, "-m", "weir.compat", "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip() if check else done.stderr.strip()


@pytest.fixture
def session():
    """None yet, and none afterwards."""
    weir.shutdown()
    yield
    weir.shutdown()


def test_init_and_a_second_one(session):
    made = ray_api.init(num_cpus=4, num_gpus=3, resources={"special": 2}, object_store_memory=80 << 20)
    assert made.address_info["node_ip_address"] == made["node_ip_address"] == "127.0.0.1" and made.ray_version == "2.60.0"
    resources = ray_api.cluster_resources()
    assert resources["CPU"] == 4 and resources["GPU"] == 3 and resources["special"] == 2 and resources["object_store_memory"] == 80 << 20
    assert "node:127.0.0.1" in resources
    with pytest.raises(RuntimeError, match="Maybe you called ray.init twice by accident"):
        ray_api.init()
    assert ray_api.init(ignore_reinit_error=True).ray_version == "2.60.0"
    ray_api.shutdown()
    assert not ray_api.is_initialized()
    with ray_api.init():
        assert ray_api.is_initialized()
    assert not ray_api.is_initialized()


def test_a_run_begins_a_session(session):
    weir.range(3).map(lambda row: row).count()
    assert ray_api.is_initialized()
    with pytest.raises(RuntimeError, match="A Dataset that runs starts a session"):
        ray_api.init()


def test_arguments_are_obeyed_or_refused_by_name(session):
    for wrong, error, text in (
        ({"foo": 1, "bar": 2}, RuntimeError, r"Unknown keyword argument\(s\): foo, bar"),
        ({"address": "ray://head:10001"}, ConnectionError, "connects to no cluster"),
        ({"address": "10.0.0.1:6379"}, ConnectionError, "10.0.0.1"),
        ({"num_cpus": -1}, ValueError, "num_cpus"),
        ({"num_cpus": "4"}, TypeError, "num_cpus"),
        ({"num_gpus": -1}, ValueError, "num_gpus"),
        ({"resources": {"CPU": 3}}, ValueError, "num_cpus"),
        ({"enable_resource_isolation": True}, ValueError, "enable_resource_isolation"),
        ({"runtime_env": {"conda": "base"}}, ValueError, "'conda' is not supported"),
        ({"runtime_env": {"pip": ["no-such-package-anywhere"]}}, weir.exceptions.__dict__.get("RuntimeEnvSetupError", Exception), "pip install"),
    ):
        with pytest.raises(error, match=text):
            ray_api.init(**wrong)
        assert not ray_api.is_initialized()
    for address in ("auto", "local", None):
        ray_api.init(address=address)
        ray_api.shutdown()


def test_what_a_cluster_would_have_is_named(session, caplog):
    ray_api.init(include_dashboard=True, dashboard_port=8265, dashboard_host="127.0.0.1", _system_config=None)
    assert "include_dashboard, dashboard_port have no effect" in caplog.text


def test_more_cpus_than_there_are(session):
    ray_api.init(num_cpus=1000)
    assert weir.cluster_resources()["CPU"] == 1000
    assert weir.range(10).map(lambda row: row).count() == 10


def test_available_memory_moves_with_use(session):
    before = weir.available_resources()["object_store_memory"]
    kept = weir.range(16_000_000).map_batches(lambda batch: {"id": batch["id"] + 1}).materialize()
    after = weir.available_resources()["object_store_memory"]
    assert before - after >= 120_000_000
    assert kept.count() == 16_000_000
    del kept
    assert before - weir.available_resources()["object_store_memory"] < 8_000_000


def test_pages_of_data_that_is_gone_are_given_back(session):
    before = shared_bytes()
    kept = weir.range(32_000_000).materialize()
    held = shared_bytes()
    assert held - before >= 200_000_000
    del kept
    assert shared_bytes() - before <= 40_000_000  # a few stay warm for the next run


def shared_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssShmem")) * 1024


def test_runtime_env_holds_for_every_worker(session, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "helper_of_mine.py").write_text("VALUE = 5\n")
    ray_api.init(runtime_env={"env_vars": {"MINE": "yes"}, "working_dir": str(tmp_path), "py_modules": [str(tmp_path / "lib" / "helper_of_mine.py")],
                              "pip": ["numpy"]})

    def look(row):
        import helper_of_mine

        return {"mine": os.environ["MINE"], "other": os.environ.get("OTHER"), "cwd": os.getcwd(), "value": helper_of_mine.VALUE}

    row = weir.range(1).map(look, runtime_env={"env_vars": {"OTHER": "too"}}).take()[0]
    assert row == {"mine": "yes", "other": "too", "cwd": str(tmp_path), "value": 5} and "MINE" not in os.environ


@pytest.mark.parametrize("name", ["_temp_dir", "object_spilling_directory", "_object_spilling_directory", "_system_config", "RAY_TMPDIR"])
def test_the_folder_for_what_memory_does_not_hold_is_made(session, tmp_path, monkeypatch, caplog, name):
    """By any of the names that Ray has for it."""
    from weir import _session

    folder = str(tmp_path / "not" / "there")
    config = {"object_spilling_config": json.dumps({"type": "filesystem", "params": {"directory_path": [folder, "/second"]}})}
    if name == "RAY_TMPDIR":
        monkeypatch.setenv(name, folder)
    ray_api.init(**{"RAY_TMPDIR": {}, "_system_config": {"_system_config": config}}.get(name, {name: folder}))
    assert weir.range(10).count() == 10
    assert _session.current().spill_dir == folder and os.path.isdir(folder) and not caplog.messages


def test_spilling_to_a_service_is_refused(session):
    with pytest.raises(ValueError, match="smart_open"):
        ray_api.init(_system_config={"object_spilling_config": json.dumps({"type": "smart_open", "params": {"uri": "s3://x"}})})


def test_log_to_driver():
    code = "import ray; ray.init(log_to_driver={}); print(ray.data.range(1).map(lambda r: print('said') or r).count())"
    assert "said" in run(code.format(True)) and "said" not in run(code.format(False))


def test_levels_of_loggers():
    code = """
        import logging, ray
        logging.basicConfig(format="%(name)s:%(message)s")
        {}
        ray.init(include_dashboard=True, {})
    """
    said = "ray.data:ray.init: include_dashboard has no effect: weir has no dashboard and no cluster"
    assert run(code.format("", "num_cpus=1"), check=False) == said
    assert run(code.format("logging.getLogger('ray.data').setLevel(logging.ERROR)", ""), check=False) == ""
    assert run(code.format("logging.getLogger('ray.data').disabled = True", ""), check=False) == ""
    quiet = "log = logging.getLogger('ray.data'); log.propagate = False; log.addHandler(logging.NullHandler())"
    assert run(code.format(quiet, ""), check=False) == ""
    style = """
        import ray
        ray.init(logging_level="ERROR")
        ray.shutdown()
        import logging
        logging.getLogger("ray").setLevel(logging.WARNING)
        ray.init(logging_format="<%(message)s>")
        logging.getLogger("ray.data").warning("hello")
        print(logging.getLogger("weir").getEffectiveLevel())
    """
    done = subprocess.run([sys.executable, "-m", "weir.compat", "-c", textwrap.dedent(style)], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("30\n", "<hello>\n")


def test_nodes():
    node, = ray_api.nodes()
    assert node["Alive"] and node["Resources"] == ray_api.cluster_resources() and len(bytes.fromhex(node["NodeID"])) == 28
    from weir import core

    assert core.get_runtime_context().get_node_id() == node["NodeID"]
    assert core.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False).node_id == node["NodeID"]


def test_annotations():
    @util.Deprecated(message="use other()", warning=True)
    def old(x):
        """Says x."""
        return x

    with pytest.warns(util.RayDeprecationWarning, match="use other"):
        assert old(3) == 3
    assert "DEPRECATED" in old.__doc__ and old.__name__ == "old"

    @util.Deprecated(warning=True)
    class Old:
        def __init__(self, x):
            self.x = x

    with pytest.warns(DeprecationWarning):
        assert Old(4).x == 4

    @util.PublicAPI(stability="alpha")
    class New:
        pass

    assert New._annotated_type is util.AnnotationType.PUBLIC_API and "alpha" in New.__doc__
    assert util.DeveloperAPI(New) is New
    with pytest.raises(ValueError, match="Unknown kwargs"):
        util.Deprecated(reason="x")


def test_serializability(capsys):
    import threading

    lock = threading.Lock()

    def f():
        return lock

    good, failures = util.inspect_serializability(f, name="f")
    assert not good and next(iter(failures)).name == "lock" and "lock" in capsys.readouterr().out


def test_runtime_env_checks():
    env = runtime_env.RuntimeEnv(env_vars={"A": "1"}, pip=["numpy>=1.0"])
    assert env.has_pip() and runtime_env.prepared(env) == {"env_vars": {"A": "1"}}
    with pytest.raises(ValueError, match="no field 'pips'"):
        runtime_env.RuntimeEnv(pips=[])
    with pytest.raises(weir.exceptions.RayError, match="numpy>=1000"):
        runtime_env.prepared({"pip": {"packages": ["numpy>=1000"]}})
    with pytest.raises(TypeError, match=r"Dict\[str, str\]"):
        runtime_env.prepared({"env_vars": {"A": 1}})


def test_logging_config():
    config = ray_api.LoggingConfig(log_level="ERROR", logger_names=["mine.of.this.test"])
    config._apply()
    assert logging.getLogger("mine.of.this.test").level == logging.ERROR
    logging.getLogger("ray").setLevel(logging.NOTSET)
    with pytest.raises(ValueError, match="JSON"):
        ray_api.LoggingConfig(encoding="JSON")


def test_no_cpus(session):
    ray_api.init(num_cpus=0)
    assert "CPU" not in ray_api.cluster_resources() and "CPU" not in ray_api.available_resources()
    assert weir.range(3).count() == 3 and weir.range(3).filter(expr="id > 1").take_all() == [{"id": 2}]
    assert weir.get(weir.put(3)) == 3
    function = weir.remote(lambda: 1)
    with pytest.raises(ValueError, match="wants 1 CPU, and the session has 0: it could never run"):
        function.remote()
    assert weir.get(function.options(num_cpus=0).remote()) == 1
    with pytest.raises(ValueError, match=r"Map\(<lambda>\) wants 1 CPU a worker, and the session has 0: .* num_cpus=0 lets it run without"):
        weir.range(3).map(lambda row: row).take()
    assert weir.range(2).map(lambda row: row, num_cpus=0).take() == [{"id": 0}, {"id": 1}]


def test_functions_that_raise_are_told_to_the_logger():
    code = """
        import logging, ray
        class Kept(logging.Handler):
            def emit(self, record):
                print(record.name, record.levelname, getattr(record, "hide", False), bool(record.exc_info), record.getMessage().splitlines()[0])
        logging.getLogger("ray.data").addHandler(Kept())
        logging.getLogger("ray.data").propagate = False
        def bad(row):
            raise ValueError("mine")
        for kind in (False, True):
            ray.data.DataContext.get_current().log_internal_stack_trace = kind
            try:
                ray.data.range(3).map(bad).take()
            except ValueError:
                print("raised")
    """
    operator = 'ray.data ERROR False False An exception was raised from a task of operator "Map(bad)". Dataset execution will now abort. ' \
        "To ignore this exception and continue, set DataContext.max_errored_blocks."
    told = "ray.data ERROR False False Exception occurred in user code, with the abbreviated stack trace below: frames of weir's own are left out."
    assert run(code).splitlines() == [
        operator, told, "ray.data ERROR True False Full stack trace:", "raised", operator, "ray.data ERROR True True Full stack trace:", "raised"]
    debugged = run(code, RAY_DEBUG_POST_MORTEM="1").splitlines()
    assert debugged == [operator, "ray.data ERROR False True Full stack trace:", "raised"] * 2
    # Without a handler the console has the two lines, and not the trace that the exception itself brings.
    code = """
        import ray
        def bad(row):
            raise ValueError("mine")
        try:
            ray.data.range(3).map(bad).take()
        except ValueError:
            pass
    """
    assert len(run(code, check=False).splitlines()) == 2
