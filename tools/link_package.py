#!/usr/bin/env python3
"""Makes a folder from which the package can be imported without installing it: links to its files and to the extension.

    tools/link_package.py PACKAGE EXTENSION FOLDER

Links whose files are gone are removed. Does nothing when all is right. The modules are compiled, as an installation's are: a tenth of
a second of each process that imports them.
"""
import compileall
import os
import sys
from pathlib import Path


def wanted(package: Path, extension: Path) -> dict[Path, Path]:
    files = {path.relative_to(package): path for path in package.rglob("*")
             if path.is_file() and "__pycache__" not in path.parts}
    files[Path(extension.name)] = extension
    return files


def main() -> None:
    package, extension, folder = (Path(argument).resolve() for argument in sys.argv[1:])
    files = wanted(package, extension)
    for old in folder.rglob("*"):
        if old.is_symlink() and old.relative_to(folder) not in files:
            old.unlink()
    for name, target in files.items():
        link = folder / name
        if not link.is_symlink() or Path(os.readlink(link)) != target:
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(target)
    for old in folder.rglob("__pycache__/*.pyc"):
        if not (old.parent.parent / f"{old.name.partition('.')[0]}.py").exists():
            old.unlink()
    compileall.compile_dir(folder, quiet=2)
    (folder.parent / "linked").touch()


if __name__ == "__main__":
    main()
