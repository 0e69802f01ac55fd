#!/usr/bin/env python3
"""Runs weir's tests, in this order, and counts them:

    tidy     tools/tidy.py
    release  the C tests in build/, those of kernels once per CPU level
    asan     the C tests under ASan and UBSan, with failure injection
    tsan     the C tests of what runs in several threads under TSan
    wheel    tools/wheel.py into build/wheels, where the next step finds it, of the engine in build/ (with --full compiled as for others)
    python   pytest over tests/python with the command, the library and the package of build/
    without  the tests that import weir, where neither pyarrow nor pandas can be imported (a third of them without --full)
    pyasan   (with --full) the tests that import weir, with the extension of build-asan/
    fuzz     (with --full) each target for --fuzz-seconds, from its corpus

What fails is run once more by itself, if it is not much and no sanitizer said why: a test that passes then depends on what else the
machine does. It counts as passed, and is named at the end, to be mended (docs/decisions/0049-unsteady-tests.md).

The last line reads `N passed, N failed`; the exit status is 0 only if nothing failed and something passed.
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = (ROOT / os.environ.get("VENV", ".venv")).absolute()
# Seconds for a whole run of pytest, and for one test in it: then its stacks are printed, it has failed, and the others go on.
QUICK_LIMITS = (2400, 300)
FULL_LIMITS = (3600, 900)
# Of what has passed with pyarrow and pandas, one in so many is run without them; all with --full.
WITHOUT_THIN = "3"
# More that fails at once is no matter of chance.
RETRIED_MAX = 6
SANITIZERS_SAY = re.compile(r"AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error:")

# -g1: names and lines for reports, and no more, since most of these steps is compiling and linking.
SANITIZED_SETUP = ["-Db_lundef=false", "-Dfaults=true", "-Doptimization=1", "-Ddebug=false", "-Dc_args=-g1"]
ASAN_SETUP = ["-Db_sanitize=address,undefined", *SANITIZED_SETUP]
ASAN_ENV = {
    # Not detect_stack_use_after_return: GCC 12 then misaligns 64-byte vectors that it keeps on the stack.
    "ASAN_OPTIONS": "halt_on_error=1:abort_on_error=1:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "halt_on_error=1:abort_on_error=1:print_stacktrace=1",
}


def quick_setup(options):
    """Where time counts the kernels are those of this machine's CPU alone: each level takes a third of the time to compile under sanitizers."""
    if options.full:
        return []
    features = set(Path("/proc/cpuinfo").read_text().split())
    for level, needed in (("v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}), ("v3", {"avx2", "bmi1", "bmi2", "fma"})):
        if needed <= features:
            return [f"-Donly_level={level}"]
    return []


def full_env(options):
    return {"WEIR_FULL": "1"} if options.full else {}


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.told = []  # of what failed, for the end of the output: often only that is kept
        self.unsteady = []  # what passed at the second try alone

    def add(self, passed, failed, skipped=0):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped

    def line(self):
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def run(command, env=None, **options):
    full_env = dict(os.environ, **(env or {}))
    full_env["PATH"] = f"{VENV / 'bin'}:{full_env['PATH']}"
    return subprocess.run([str(part) for part in command], cwd=ROOT, env=full_env, **options)


def configure(folder, *options, env=None):
    return run(["tools/configure", folder, *options], env=env).returncode == 0


def fixed_addresses():
    """GCC 12's and clang 14's sanitizers fail at random under the address randomisation of newer kernels."""
    try:
        works = subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        works = False
    return ["--wrapper", "setarch -R"] if works else []


def count_cmocka(output):
    """(passed, failed, skipped) over all groups of one program."""
    found = {}
    for word in ("PASSED", "FAILED", "SKIPPED"):
        found[word] = sum(int(n) for n in re.findall(rf"^\[ +{word} +\] (\d+) test\(s\)", output, re.MULTILINE))
    return found["PASSED"], found["FAILED"], found["SKIPPED"]


def programs_of(folder, suites):
    """What ninja has to make for the tests of some suites: their programs, and those that they start."""
    def found(what):
        shown = run([VENV / "bin/meson", "introspect", "--" + what, folder], stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(shown.stdout)

    chosen = [test for test in found("tests") if any(f"weir:{suite}" in test["suite"] for suite in suites)]
    paths = {test["cmd"][0] for test in chosen}
    folders = {f"tests/c/{suite.partition(':')[2]}" for test in chosen for suite in test["suite"]}
    for target in found("targets"):
        if Path(target["defined_in"]).parent.relative_to(ROOT).as_posix() in folders:
            paths |= set(target["filename"])
    return sorted({os.path.relpath(path, ROOT / folder) for path in paths})


class CResult:
    """What one program of the C tests said."""

    def __init__(self, folder, found):
        self.name = found["name"]
        self.test = self.name.rpartition(":")[2]
        self.output = (found.get("stdout") or "") + "\n" + (found.get("stderr") or "")
        self.ended_well = found["result"] in ("OK", "SKIP")
        self.heading = f"--- {folder}: {self.name}: {found['result']} after {found['duration']:.1f} s"

    def counts(self):
        passed, failed, skipped = count_cmocka(self.output)
        if not self.ended_well:
            failed = max(failed, 1)  # a crash, a sanitizer's finding or a time-out is not among cmocka's
        elif not passed and not skipped:
            passed = 1  # a program that counts in its own way
        return passed, failed, skipped

    def short(self):
        lines = [line for line in self.output.splitlines() if line and not re.match(r"\[ +(RUN|OK) ", line)]
        return "\n".join([self.heading, *lines[-30:]])


def c_results(folder, command, env):
    for log in (ROOT / folder / "meson-logs").glob("testlog*.json"):
        log.unlink()
    test = run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    logs = (ROOT / folder / "meson-logs").glob("testlog*.json")
    return test, [CResult(folder, json.loads(line)) for log in logs for line in log.read_text().splitlines()]


def c_tests(tally, folder, suites=(), wrapper=(), env=None):
    programs = programs_of(folder, suites) if suites else []
    build = run([VENV / "bin/ninja", "-C", folder, "--quiet", *programs], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if build.returncode:
        print(build.stdout)
        tally.add(0, 1)
        return
    if "warning:" in build.stdout:
        print(build.stdout)
    command = [VENV / "bin/meson", "test", "-C", folder, "--no-rebuild", "--quiet", *wrapper,
               "--timeout-multiplier", "4"]  # sanitizers on a busy machine
    for suite in suites:
        command += ["--suite", suite]
    test, results = c_results(folder, command, env)
    bad = [result for result in results if not result.ended_well]
    steady = []
    for result in results:
        if result in bad:
            print(f"{result.heading}\n{result.output}")
            if len(bad) <= RETRIED_MAX and not SANITIZERS_SAY.search(result.output):
                _, again = c_results(folder, [*command, result.test], env)
                again = [other for other in again if other.name == result.name]
                if again and all(other.ended_well for other in again):
                    tally.unsteady.append(result.short())
                    result = again[0]
        steady.append(result)
    for result in steady:
        if not result.ended_well:
            tally.told.append(result.short())
        tally.add(*result.counts())
    if test.returncode and not bad:
        print(test.stdout)
        tally.add(0, 1)


def step_tidy(tally, _options):
    failed = run([sys.executable, "tools/tidy.py"]).returncode != 0
    tally.add(not failed, failed)


def step_release(tally, options):
    # As make does it, so that this makes nothing anew; a machine that makes it once is spared a fifth of it.
    debug = ["-Ddebug=false", "-Dc_args=-g1"] if os.environ.get("CI") == "true" else []
    if not configure("build", "-Dprefix=" + os.environ.get("PREFIX", "/usr/local"), *debug):
        tally.add(0, 1)
        return
    c_tests(tally, "build", env=full_env(options))


def step_sanitized(tally, folder, setup, suites, env):
    if not configure(folder, *setup):
        tally.add(0, 1)
        return
    c_tests(tally, folder, suites, fixed_addresses(), env)


def step_asan(tally, options):
    # All suites, by name: what no C test needs is not made.
    suites = sorted(path.name for path in (ROOT / "tests/c").iterdir() if path.is_dir())
    step_sanitized(tally, "build-asan", [*ASAN_SETUP, *quick_setup(options)], suites, {**ASAN_ENV, **full_env(options)})


def step_tsan(tally, options):
    env = {"TSAN_OPTIONS": "halt_on_error=1:abort_on_error=1:second_deadlock_stack=1", **full_env(options)}
    step_sanitized(tally, "build-tsan", ["-Db_sanitize=thread", *SANITIZED_SETUP, "-Dpython=false", *quick_setup(options)],
                   ["threads"], env)


def processes():
    """How many run tests at the same time: many wait for something, so it is more than there are CPUs, where there is memory for it."""
    cpus = len(os.sched_getaffinity(0))
    found = re.search(r"^MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return cpus + cpus // 2 if found and int(found[1]) >= (cpus + cpus // 2) << 22 else cpus  # 4 GiB each


def running_tests(folder):
    """[(process, seconds, test)] of what runs now, as tests/conftest.py writes it down."""
    found = []
    for path in sorted(Path(folder).iterdir()):
        begun, _, test = path.read_text().partition(" ")
        if test:
            found.append((int(path.name), time.monotonic() - float(begun), test))
    return found


def end_group(process):
    """Ends a process and all that it started and that did not leave its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def end_stalled(process, running, limit_s):
    """Time is up: says which tests ran, lets each print its stacks, and ends everything."""
    print(f"pytest did not end within {limit_s} s; these tests were running:")
    for pid, seconds, test in running_tests(running):
        print(f"    {test}, for {seconds:.0f} s (process {pid})", flush=True)
        try:
            os.kill(pid, signal.SIGABRT)  # pytest's fault handler prints the stacks of all threads
        except ProcessLookupError:
            continue
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        pass
    end_group(process)


def pytest_once(report, command, env, limit_s):
    """(exit status, output, [tests that failed], counts or None): its report, with the time of each test, stays where `report` says."""
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        output, running, failed = Path(folder) / "output", Path(folder) / "running", Path(folder) / "failed"
        running.mkdir()
        env = {**env, "WEIR_RUNNING": str(running), "WEIR_FAILED": str(failed)}
        with open(output, "wb") as out:
            process = subprocess.Popen([str(part) for part in [*command, f"--junitxml={report}"]], cwd=ROOT, env=env, stdout=out,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                end_stalled(process, running, limit_s)
            except KeyboardInterrupt:
                end_group(process)
                raise
        text = output.read_text(errors="replace")
        names = failed.read_text().splitlines() if failed.exists() else []
    if not report.exists():
        return process.returncode, text, names, None
    suite = ElementTree.parse(report).getroot().find("testsuite")
    return process.returncode, text, names, {key: int(suite.get(key)) for key in ("tests", "failures", "errors", "skipped")}


def pytest_run(tally, name, build, files=(), wrapper=(), env=None, full=False, marks="", limits=QUICK_LIMITS):
    """Its report, with the time of each test, stays in build/reports/NAME.xml."""
    limit_s, test_limit_s = limits
    report = ROOT / "build/reports" / f"{name}.xml"
    # A test that stands still ends its process, and xdist goes on with another one.
    alone = [*wrapper, VENV / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", f"faulthandler_timeout={test_limit_s}",
             "-o", "faulthandler_exit_on_timeout=true"]
    command = [*alone, "-n", str(processes()), "--dist", "worksteal", "--durations=15", "--durations-min=5", *files]
    if full or marks:
        command += ["-m", "not long" if full else marks]
    env = {**os.environ, "WEIR_BUILD": str(ROOT / build), **(env or {})}
    if full:
        env["WEIR_FULL"] = "1"
    env["PATH"] = f"{VENV / 'bin'}:{env['PATH']}"
    code, text, failed, count = pytest_once(report, command, env, limit_s)
    if code:
        print(text)
    if count is None:
        tally.add(0, 1)
        return
    bad = count["failures"] + count["errors"]
    if code and not bad:
        bad = 1
    # A test that fails and whose end fails, too, is two.
    if failed and len(set(failed)) <= RETRIED_MAX and bad <= len(failed) and not SANITIZERS_SAY.search(text):
        code, text, _, _ = pytest_once(report.with_name(f"{name}-again.xml"), [*alone, *dict.fromkeys(failed)],
                                       {**env, "WEIR_ALL": "1"}, limit_s)
        if code:
            print(text)
        else:
            tally.unsteady += [f"--- {name}: {test}" for test in dict.fromkeys(failed)]
            count = {**count, "failures": 0, "errors": 0}
            bad = 0
    tally.add(count["tests"] - count["failures"] - count["errors"] - count["skipped"], bad, count["skipped"])


def step_wheel(tally, options):
    engine = [] if options.full else ["build"]
    if engine and run([VENV / "bin/ninja", "-C", "build", "--quiet", "libweir_core.a"]).returncode:
        tally.add(0, 1)
        return
    failed = run([VENV / "bin/python", "tools/wheel.py", "build/wheels", *engine], stdout=subprocess.DEVNULL).returncode != 0
    tally.add(not failed, failed)


def step_python(tally, options):
    pytest_run(tally, "python", "build", full=options.full, limits=FULL_LIMITS if options.full else QUICK_LIMITS)


def files_that_import_weir():
    return sorted(path for path in (ROOT / "tests/python").glob("test_*.py")
                  if re.search(r"^\s*(?:import|from) weir\b", path.read_text(), re.MULTILINE))


def step_without(tally, options):
    """Neither is used behind the scenes: tests that ask for one of them are skipped, all others pass."""
    env = {"WEIR_WITHOUT": "pyarrow,pandas", "PYTHONPATH": str(ROOT / "tests/python/without"), "WEIR_THIN": WITHOUT_THIN}
    pytest_run(tally, "without", "build", files_that_import_weir(), env=env, full=options.full,
               marks="not full and not long and not same_without", limits=FULL_LIMITS if options.full else QUICK_LIMITS)


def step_pyasan(tally, _options):
    """The interpreter knows nothing of ASan, so its runtime is loaded before all else. Python keeps much until its end:
    leaks are not looked for. PYTHONMALLOC lets ASan see each object of Python."""
    # libstdc++ too: ASan looks for what throws C++ exceptions before anybody else has loaded it.
    runtimes = [subprocess.run([os.environ.get("CC", "cc"), f"-print-file-name={name}"], capture_output=True,
                               text=True).stdout.strip() for name in ("libasan.so", "libstdc++.so")]
    if not all(map(os.path.isabs, runtimes)):
        print("the compiler has no libasan.so, or no libstdc++.so")
        tally.add(0, 1)
        return
    if not configure("build-asan", *ASAN_SETUP) or run([VENV / "bin/ninja", "-C", "build-asan", "--quiet", "product", "libweir_probe.so"]).returncode:
        tally.add(0, 1)
        return
    env = {
        "LD_PRELOAD": " ".join(map(os.path.realpath, runtimes)),
        # What ASan keeps of freed memory counts against weir's limit: little of it.
        "ASAN_OPTIONS": (ASAN_ENV["ASAN_OPTIONS"] + ":detect_leaks=0:allocator_may_return_null=1:handle_segv=0"
                         ":quarantine_size_mb=16"),
        "UBSAN_OPTIONS": ASAN_ENV["UBSAN_OPTIONS"],
        "PYTHONMALLOC": "malloc",
        "WEIR_SANITIZED": "1",
        "WEIR_WITHOUT": "torch",  # which takes a minute to load under ASan
        "PYTHONPATH": str(ROOT / "tests/python/without"),
    }
    wrapper = ["setarch", "-R"] if fixed_addresses() else []
    pytest_run(tally, "pyasan", "build-asan", files_that_import_weir(), wrapper, env, limits=FULL_LIMITS)


def step_fuzz(tally, options):
    if not configure("build-fuzz", "-Dfuzz=true", "-Dtests=false", "-Dpython=false", "-Db_sanitize=address,undefined", "-Db_lundef=false",
                     "-Doptimization=1", env={"CC": "clang"}):
        tally.add(0, 1)
        return
    if run([VENV / "bin/ninja", "-C", "build-fuzz", "--quiet"]).returncode:
        tally.add(0, 1)
        return
    targets = sorted(path for path in (ROOT / "build-fuzz/tests/fuzz").glob("*_fuzz") if path.is_file())
    for target in targets:
        name = target.name.removesuffix("_fuzz")
        grown = ROOT / "build-fuzz/corpus" / name  # what the fuzzer finds stays out of the repository
        grown.mkdir(parents=True, exist_ok=True)
        corpus = ROOT / "tests/fuzz/corpus" / name
        command = [target, f"-max_total_time={options.fuzz_seconds}", "-timeout=10", "-rss_limit_mb=2048",
                   f"-artifact_prefix={ROOT}/build-fuzz/", grown, *([corpus] if corpus.is_dir() else [])]
        wrapper = ["setarch", "-R"] if fixed_addresses() else []
        ended = run(wrapper + command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if ended.returncode:
            print(f"--- fuzz {name}\n{ended.stdout[-6000:]}")
        tally.add(ended.returncode == 0, ended.returncode != 0)


STEPS = {
    "tidy": step_tidy,
    "release": step_release,
    "asan": step_asan,
    "tsan": step_tsan,
    "wheel": step_wheel,
    "python": step_python,
    "without": step_without,
    "pyasan": step_pyasan,
    "fuzz": step_fuzz,
}

FULL_STEPS = ("pyasan", "fuzz")


def main():
    parser = argparse.ArgumentParser(description="Runs weir's tests.")
    parser.add_argument("--full", action="store_true", help="with fault sweeps and fuzzing")
    parser.add_argument("--only", help="steps to run, with commas: " + ", ".join(STEPS))
    parser.add_argument("--fuzz-seconds", type=int, default=60)
    options = parser.parse_args()

    names = options.only.split(",") if options.only else [n for n in STEPS if n not in FULL_STEPS or options.full]
    for name in names:
        if name not in STEPS:
            parser.error(f"there is no step {name}")
    total = Tally()
    for name in names:
        tally = Tally()
        start = time.monotonic()
        STEPS[name](tally, options)
        print(f"{name}: {tally.line()} in {time.monotonic() - start:.0f} s", flush=True)
        total.add(tally.passed, tally.failed, tally.skipped)
        total.told += tally.told
        total.unsteady += tally.unsteady
    if total.unsteady:
        print("UNSTEADY, failed and passed at the second try, by itself:", *total.unsteady, sep="\n")
    if total.told:
        print("What failed in C, once more:", *total.told, sep="\n")
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
