"""How compat gets in: the runner, install(), child processes, workers."""
import os
import signal
import subprocess
import sys
import textwrap

import pytest

ENV = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}


def start(*words, stdin=None, **options):
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, timeout=120, env=ENV, input=stdin, **options)


def compat(*words, **options):
    return start("-m", "weir.compat", *words, **options)


def script(folder, code, name="script.py"):
    path = folder / name
    path.write_text(textwrap.dedent(code))
    return path


def output(done):
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_script_is_the_real_main(tmp_path):
    path = script(tmp_path, """
        import pickle, sys
        import ray

        class Thing:
            pass

        if __name__ == "__main__":
            print(sys.argv, sys.path[0], __file__, __spec__, type(pickle.loads(pickle.dumps(Thing()))).__module__)
            print(ray.__version__, sys.modules["__main__"].Thing is Thing, [n for n in globals() if "weir" in n])
    """)
    lines = output(compat(path, "--flag", "x"))
    assert lines[0] == f"['{path}', '--flag', 'x'] {tmp_path} {path} None __main__"
    assert lines[1] == "2.60.0 True []"


def test_it_is_what_python_does_without_it(tmp_path):
    path = script(tmp_path, "import sys; print(sys.argv, sys.path[0], __name__, sys.flags.optimize, sys.flags.dev_mode, __file__)")
    for words in (["-O", path, "a b"], ["-X", "dev", path], ["-c", "import sys; print(sys.argv, repr(sys.path[0]))", "x", "-c"]):
        flags = [word for word in words if word != path][:1] if words[0] == "-O" else words[:2] if words[0] == "-X" else []
        plain = start(*words, cwd=tmp_path)
        through = start(*flags, "-m", "weir.compat", *words[len(flags):], cwd=tmp_path)
        assert (through.stdout, through.returncode) == (plain.stdout, plain.returncode)


def test_options_in_one_word(tmp_path):
    path = script(tmp_path, "import sys, ray; print(sys.flags.optimize, sys.flags.dont_write_bytecode, ray.__version__)")
    assert output(start("-OBm", "weir.compat", path)) == ["1 1 2.60.0"]
    assert output(start("-Omweir.compat", path))[0].startswith("1 ")


def test_modules(tmp_path):
    script(tmp_path, "import sys, ray; print(__name__, __spec__.name, sys.argv[1:], sys.path[0], ray.__version__)", "tool.py")
    assert output(compat("-m", "tool", "x", cwd=tmp_path)) == [f"__main__ tool ['x'] {tmp_path} 2.60.0"]


def test_standard_input():
    assert output(compat("-", stdin="import ray; print(ray.__version__)")) == ["2.60.0"]


def test_tracebacks_and_exit_codes(tmp_path):
    failing = compat(script(tmp_path, "def f():\n    raise ValueError('no')\nf()\n"))
    assert failing.returncode == 1
    assert failing.stderr == (f'Traceback (most recent call last):\n  File "{tmp_path}/script.py", line 3, in <module>\n    f()\n'
                              f'  File "{tmp_path}/script.py", line 2, in f\n    raise ValueError(\'no\')\nValueError: no\n')
    assert compat("-c", "raise SystemExit(7)").returncode == 7
    said = compat("-c", "import sys; sys.exit('bye')")
    assert (said.returncode, said.stderr) == (1, "bye\n")
    assert compat(tmp_path / "nowhere.py").returncode == 2
    assert compat("-c", "raise KeyboardInterrupt").returncode == -signal.SIGINT


def test_help_and_ignored_environments():
    assert output(compat("--help"))[0].startswith("usage: python -m weir.compat")
    refused = start("-E", "-c", f"import sys; sys.path[:0] = {sys.path!r}; sys.argv = ['', 'x.py']; import runpy; "
                                "runpy.run_module('weir.compat', run_name='__main__')")
    assert refused.returncode == 2 and "-E or -I" in refused.stderr


SPAWN = """
    import multiprocessing, subprocess, sys

    class Shared:
        def __init__(self, x):
            self.x = x

    def work(shared):
        import ray
        return shared.x + 1, ray.__version__, type(shared).__module__

    if __name__ == "__main__":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.apply(work, (Shared(1),)))
        print(subprocess.run([sys.executable, "-c", "import ray; print(ray.__version__, ray.data.range(2).count())"],
                             capture_output=True, text=True, check=True).stdout.strip())
"""


def test_child_processes(tmp_path):
    assert output(compat(script(tmp_path, SPAWN))) == ["(2, '2.60.0', '__mp_main__')", "2.60.0 2"]


def test_install_and_its_children(tmp_path):
    path = script(tmp_path, "import weir.compat\nweir.compat.install()\nweir.compat.install()\n" + textwrap.dedent(SPAWN))
    assert output(start(path)) == ["(2, '2.60.0', '__mp_main__')", "2.60.0 2"]


def test_install_wins_over_an_installed_ray(tmp_path):
    script(tmp_path, "__version__ = 'other'", "ray.py")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import weir.compat as c; c.install(); import ray; print(ray.__version__, c.is_installed())"
    assert output(start("-c", code)) == ["2.60.0 True"]
    late = start("-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import ray, weir.compat; weir.compat.install()")
    assert late.returncode == 1 and "ray has been imported already, from" in late.stderr


def test_workers_have_it_before_anything_is_unpickled(tmp_path):
    path = script(tmp_path, """
        import ray
        from ray.data import DataContext
        import ray.data.datasource as places

        def f(row):
            import ray.exceptions
            return {"version": ray.__version__, "same": DataContext is places.__dict__.get("x", DataContext), "file": ray.__file__}

        if __name__ == "__main__":
            row = ray.data.range(1).map(f).take()[0]
            print(row["version"], row["same"], row["file"] == ray.__file__)
    """)
    assert output(compat(path)) == ["2.60.0 True True"]


def test_importing_ray_is_cheap():
    done = start("-X", "importtime", "-m", "weir.compat", "-c", textwrap.dedent("""
        import sys
        before = set(sys.modules)
        import ray, ray.data, ray.train, ray.exceptions
        loaded = set(sys.modules) - before
        print([name for name in ("numpy", "pandas", "pyarrow", "torch", "cloudpickle", "weir.dataset") if name in loaded])
    """))
    assert output(done) == ["[]"]


def test_torchrun(tmp_path):
    pytest.importorskip("torch")
    path = script(tmp_path, """
        import os, ray
        line = f"{os.environ['RANK']} {ray.__version__} {ray.data.range(4).count()}\\n"
        os.write(1, line.encode())  # in one piece: the other one writes, too
    """)
    done = compat("-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone", path)
    assert sorted(output(done)) == ["0 2.60.0 4", "1 2.60.0 4"]


def test_the_examples_of_the_package():
    code = "import doctest, weir.compat, weir.compat.lazy; print([doctest.testmod(m).failed for m in (weir.compat, weir.compat.lazy)])"
    assert output(start("-c", code)) == ["[0, 0]"]
