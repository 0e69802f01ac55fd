"""Ways in which a program may be begun, and odd worlds that it may find itself in: functions of it work in all of them, and nothing is said."""
import os
import subprocess
import sys
import tempfile
import zipapp

import pytest

import weir  # noqa: F401
from driver_scripts import not_sanitized, output

PROGRAM = """
import weir
def plus(batch):
    return {"id": batch["id"] + 1}
if __name__ == "__main__":
    print(weir.range(100, override_num_blocks=4).map_batches(plus).map(lambda row: row).sum("id"))
"""
BESIDE = PROGRAM.replace('def plus(batch):\n    return {"id": batch["id"] + 1}\n', "from parts.of.it import plus\n")
PART = 'def plus(batch):\n    return {"id": batch["id"] + 1}\n'


def said(folder, *words, shell="", **options):
    """What the program printed: the sum, and nothing else."""
    command = ["bash", "-c", f"{shell}; exec \"$@\"", "bash", *words] if shell else words
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, **options)
    return done.stdout, done.stderr, done.returncode


@pytest.fixture
def program(tmp_path):
    (tmp_path / "script.py").write_text(PROGRAM)
    return tmp_path


@pytest.mark.parametrize("options", [["-O"], ["-X", "dev", "-W", "error"], ["-B", "-u", "-s"]], ids=" ".join)
def test_options_of_the_interpreter(program, options):
    assert said(program, sys.executable, *options, "script.py") == ("5050\n", "", 0)


@pytest.mark.parametrize("how", ["-c", "-", "-m", "runpy", "exec"])
def test_where_the_program_comes_from(program, how):
    words = {"-c": ["-c", PROGRAM], "-": ["-"], "-m": ["-m", "script"],
             "runpy": ["-c", "import runpy; runpy.run_path('script.py', run_name='__main__')"],
             "exec": ["-c", "exec(open('script.py').read(), {'__name__': '__main__'})"]}[how]
    assert said(program, sys.executable, *words, input=PROGRAM if how == "-" else "") == ("5050\n", "", 0)


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_modules_beside_the_program(tmp_path, kind):
    """Folders without __init__.py, and what lies in an archive."""
    folder = tmp_path / "program"
    (folder / "parts/of").mkdir(parents=True)
    (folder / "parts/of/it.py").write_text(PART)
    (folder / "__main__.py").write_text(BESIDE)
    if kind == "zip":
        zipapp.create_archive(folder, tmp_path / "program.pyz")
    assert said(tmp_path, sys.executable, "program.pyz" if kind == "zip" else "program") == ("5050\n", "", 0)


@pytest.mark.parametrize("shell", [
    "ulimit -n 256", "ulimit -s 512", "umask 777", "exec <&-", "trap '' INT PIPE CHLD", "export LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0",
    "export HOME=/proc TMPDIR=/no/such/folder", "export PYTHONSAFEPATH=1", "unset HOME PATH",
])
def test_odd_worlds(program, shell):
    assert said(program, sys.executable, str(program / "script.py"), shell=shell) == ("5050\n", "", 0)


OTHER_MALLOC = """
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
static _Atomic(char *) at;
static char *begin;
/* Takes and never gives back; the size stands in front. */
static void *take(size_t align, size_t size)
{
	static atomic_flag busy = ATOMIC_FLAG_INIT;
	char *made;

	while (atomic_flag_test_and_set(&busy))
		;
	if (!begin)
		at = begin = mmap(NULL, 1ul << 33, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	align = align < 16 ? 16 : align;
	made = (char *)(((size_t)at + 16 + align - 1) & ~(align - 1));
	((size_t *)made)[-1] = size;
	at = made + size;
	atomic_flag_clear(&busy);
	return made;
}
void *malloc(size_t size) { return take(16, size); }
void free(void *old) { (void)old; }
void *calloc(size_t count, size_t size) { return take(16, count * size); }
void *memalign(size_t align, size_t size) { return take(align, size); }
void *aligned_alloc(size_t align, size_t size) { return take(align, size); }
int posix_memalign(void **out, size_t align, size_t size) { *out = take(align, size); return 0; }
size_t malloc_usable_size(void *old) { return old ? ((size_t *)old)[-1] : 0; }
void *realloc(void *old, size_t size)
{
	size_t had = malloc_usable_size(old);

	return memcpy(take(16, size), old ? old : "", had < size ? had : size);
}
"""


@not_sanitized
def test_another_malloc(program):
    """One that was loaded before all others, as jemalloc often is. Nobody trims it: it is the program's."""
    flags = ["-shared", "-fPIC", "-O1", "-fno-builtin"]
    never = "#include <stdlib.h>\nint malloc_trim(size_t pad) { (void)pad; abort(); }"
    for name, text in (("other", OTHER_MALLOC), ("never", OTHER_MALLOC + never)):
        (program / f"{name}.c").write_text(text)
        subprocess.run(["cc", *flags, "-o", f"{name}.so", f"{name}.c"], cwd=program, check=True)
    (program / "native.py").write_text("""
import weir
weir.init(memory_limit="64MiB")
print(weir.range(10**6).filter(expr="id % 2 == 0").sort("id", descending=True).sum("id"))
weir.shutdown()
""")
    assert said(program, sys.executable, "native.py", shell=f"export LD_PRELOAD={program}/never.so") == ("249999500000\n", "", 0)
    assert said(program, sys.executable, "script.py", shell=f"export LD_PRELOAD={program}/other.so") == ("5050\n", "", 0)


def test_without_any_of_the_three_streams(program):
    text = PROGRAM.replace("print(", "open('answer', 'w').write('%d' % ")
    (program / "script.py").write_text(text)
    assert said(program, sys.executable, "script.py", shell="exec <&- >&- 2>&-") == ("", "", 0)
    assert (program / "answer").read_text() == "5050"


@pytest.mark.parametrize("around", [
    "import threading\nthread = threading.Thread(target=run)\nthread.start()\nthread.join()",
    "import asyncio\nasync def main(): run()\nasyncio.run(main())",
    "import atexit\natexit.register(run)",
    "import sys\nsys.settrace(lambda *words: None)\nsys.setprofile(lambda *words: None)\nrun()",
    "import gc\ngc.set_threshold(1)\nrun()",
    "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\nrun()",
    "import os\npid = os.fork()\nos._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])) if pid else run()",
], ids=["thread", "event loop", "at exit", "traced", "collected", "signals blocked", "forked"])
def test_what_a_program_may_be_doing(program, around):
    code = f"def run(): exec(open('script.py').read(), {{'__name__': '__main__'}})\n{around}"
    assert said(program, sys.executable, "-c", code) == ("5050\n", "", 0)


def test_processes_that_multiprocessing_starts(tmp_path):
    """There the program is called __mp_main__, and no worker can import that."""
    text = """
        import functools, multiprocessing, weir
        from weir.exceptions import UserCodeException
        class Mine(Exception):
            pass
        class Point:
            pass
        @functools.lru_cache(maxsize=None)
        def fibonacci(n):
            return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
        def fails(row):
            raise Mine("no")
        def use(answers):
            try:
                weir.range(1).map(fails).take_all()
            except Mine as error:
                answers.put((isinstance(error, UserCodeException), type(error.cause) is Mine))
            rows = weir.range(91).map(lambda row: {"x": fibonacci(row["id"]), "p": Point()}).take_all()
            answers.put((rows[90]["x"], type(rows[0]["p"]) is Point))
        if __name__ == "__main__":
            for method in ("spawn", "forkserver"):
                context = multiprocessing.get_context(method)
                answers = context.Queue()
                process = context.Process(target=use, args=(answers,))
                process.start()
                print(answers.get(timeout=60), answers.get(timeout=60))
                process.join()
    """
    assert output(tmp_path, text).splitlines() == ["(True, True) (2880067194370816120, True)"] * 2


def test_the_working_directory_may_be_gone(tmp_path):
    (tmp_path / "gone").mkdir()
    code = "import os, sys, weir; assert '' in sys.path; os.rmdir(os.getcwd()); print(weir.range(3).map(lambda row: row).count())"
    assert said(tmp_path / "gone", sys.executable, "-c", code) == ("3\n", "", 0)


def test_runs_that_get_no_descriptors(tmp_path):
    """Wherever the last one was taken: an error, and the next run has all it needs."""
    text = """
        import os, resource, weir
        weir.range(1).map_batches(lambda batch: batch).take_all()
        there = len(os.listdir("/proc/self/fd"))
        told = 0
        for few in [*range(there + 8)] * 3:
            resource.setrlimit(resource.RLIMIT_NOFILE, (few, 4096))
            try:
                weir.range(9, override_num_blocks=3).map_batches(lambda batch: batch).take_all()
            except OSError:
                told += 1
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
        print(told > 0, weir.range(9).map_batches(lambda batch: batch).count())
    """
    assert output(tmp_path, text) == "True 9\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="root becomes somebody who may not read")
def test_what_the_user_may_not_touch(tmp_path):
    """Its modules are imported by the calls before: nobody may not read those either."""
    with tempfile.TemporaryDirectory() as at:
        os.chmod(at, 0o755)
        said = output(tmp_path, """
            import os, sys, weir
            at = sys.argv[1]
            weir.range(1).write_csv(at + "/closed")
            os.chmod(at + "/closed", 0o700)
            for call in (lambda: weir.read_csv(at + "/closed").take(), lambda: weir.read_csv(at + "/*.none")):
                try:
                    call()
                except FileNotFoundError:
                    pass
            secret = os.path.join(at, "secret.csv")
            open(secret, "w").write("a")
            os.chmod(secret, 0o600)
            os.seteuid(65534)
            for call in (lambda: weir.read_csv(secret).take(), lambda: weir.range(3).write_csv(at + "/new"),
                         lambda: weir.read_csv(at + "/closed/*.csv")):
                try:
                    call()
                except OSError as error:
                    print(isinstance(error, PermissionError), error.errno, "ermission denied" in str(error))
            os.seteuid(0)
        """, at)
    assert said.splitlines() == ["True 13 True", "True 13 True", "False None True"]
