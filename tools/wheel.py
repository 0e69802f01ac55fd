#!/usr/bin/env python3
"""Builds the wheel, and repairs it so that it runs elsewhere: the libraries it needs go into it, and its tag says from which
glibc on it runs.

    tools/wheel.py FOLDER [BUILD]

BUILD: a build folder whose compiled engine goes into the wheel, for tests, which have it anyway; else it is compiled. Uses the tools of the Python that runs it, not the network. FOLDER.build is where it is compiled, and stays for the next time.
Prints the wheel's path.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLATFORM = "manylinux_2_36_x86_64"


def run(*command: object) -> None:
    env = dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    ended = subprocess.run([str(part) for part in command], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ended.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{ended.stdout}")


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    engine = Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("weir-*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as plain:
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps",
            f"--config-settings=build-dir={folder}.build", *([f"--config-settings=setup-args=-Dengine={engine}"] if engine else []),
            "--wheel-dir", plain, ROOT)
        (built,) = Path(plain).glob("*.whl")
        run(sys.executable, "-m", "auditwheel", "repair", "--plat", PLATFORM, "--only-plat", *(["--strip"] if engine else []),
            "--wheel-dir", folder, built)
    (wheel,) = folder.glob("weir-*.whl")
    print(wheel)


if __name__ == "__main__":
    main()
