"""python -m weir.compat [script.py | -m module | -c code] arguments …

Puts the folder of `ray` on PYTHONPATH and lets the interpreter begin anew with the rest of the command line. So the program is the
real `__main__`: its tracebacks, exit codes, signals, sys.argv, sys.path[0] and sys.flags are those that it has without weir,
and there is nothing of weir in between. Options of the interpreter that stand before -m are kept.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from weir.compat import child_path

USAGE = """usage: python -m weir.compat [script.py | -m module | -c code | -] arguments …

Runs a program written for Ray Data on weir: `import ray` gives weir. Without a program: an interactive interpreter."""


def command(original: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """The interpreter's command line without `-m weir.compat`.

    >>> command(["python", "-u", "-X", "dev", "-m", "weir.compat", "script.py", "-v"], ["script.py", "-v"])[1:]
    ['-u', '-X', 'dev', 'script.py', '-v']
    >>> command(["python", "-Bm", "weir.compat", "-m", "pip"], ["-m", "pip"])[1:]
    ['-B', '-m', 'pip']
    """
    options = list(original[1 : len(original) - len(arguments)])
    if options and options[-1] in ("weir.compat", "weir.compat.__main__"):
        options.pop()
        last = options.pop() if options else ""
        last = last[:-1]  # -m, or the last letter of several: -um
    else:
        last = options.pop() if options else ""
        last = last[: last.index("m")] if "m" in last else last  # -mweir.compat
    if last not in ("", "-"):
        options.append(last)
    return [sys.executable, *options, *arguments]


def main() -> int:
    """Does not come back, unless there is nothing to be started."""
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if not sys.executable:
        print("weir.compat: sys.executable does not say where Python's interpreter is", file=sys.stderr)
        return 2
    if sys.flags.ignore_environment:
        print(
            "weir.compat: with -E or -I the interpreter ignores PYTHONPATH, by which programs and their child processes find the "
            "package: leave that option out, or call weir.compat.install() in the program",
            file=sys.stderr,
        )
        return 2
    os.environ["PYTHONPATH"] = child_path(os.environ.get("PYTHONPATH", ""))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, command(sys.orig_argv, arguments))


if __name__ == "__main__":
    sys.exit(main())
