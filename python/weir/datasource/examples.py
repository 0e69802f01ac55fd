"""The files of example:// paths that weir has: the table of iris flowers, which countless scripts begin with, and pictures (pictures.py).

The table is a set of measurements (R. A. Fisher, 1936: 50 flowers of each of three species), kept here as numbers. A file is made of
it when a script first names it, in the user's cache folder, and read like any other from then on:

    example://iris.csv  ─▶  ~/.cache/weir/examples/iris.csv        also iris.tsv, iris.json (a row a line) and iris.parquet
"""

from __future__ import annotations

import json
import os
import tempfile

from weir.datasource import pictures

# Sepal length and width, petal length and width in tenths of a centimetre, two digits each; ten flowers a line, five lines a species.
_FLOWERS = """
    51351402 49301402 47321302 46311502 50361402 54391704 46341403 50341502 44291402 49311501
    54371502 48341602 48301401 43301101 58401202 57441504 54391304 51351403 57381703 51381503
    54341702 51371504 46361002 51331705 48341902 50301602 50341604 52351502 52341402 47321602
    48311602 54341504 52411501 55421402 49311502 50321202 55351302 49361401 44301302 51341502
    50351303 45231303 44321302 50351606 51381904 48301403 51381602 46321402 53371502 50331402
    70324714 64324515 69314915 55234013 65284615 57284513 63334716 49243310 66294613 52273914
    50203510 59304215 60224010 61294714 56293613 67314414 56304515 58274110 62224515 56253911
    59324818 61284013 63254915 61284712 64294313 66304414 68284814 67305017 60294515 57263510
    55243811 55243710 58273912 60275116 54304515 60344516 67314715 63234413 56304113 55254013
    55264412 61304614 58264012 50233310 56274213 57304212 57294213 62294313 51253011 57284113
    63336025 58275119 71305921 63295618 65305822 76306621 49254517 73296318 67255818 72366125
    65325120 64275319 68305521 57255020 58285124 64325323 65305518 77386722 77266923 60225015
    69325723 56284920 77286720 63274918 67335721 72326018 62284818 61304918 64285621 72305816
    74286119 79386420 64285622 63285115 61265614 77306123 63345624 64315518 60304818 69315421
    67315624 69315123 58275119 68325923 67335725 67305223 63255019 65305220 62345423 59305118
"""
_COLUMNS = ("sepal.length", "sepal.width", "petal.length", "petal.width", "variety")
_SPECIES = ("Setosa", "Versicolor", "Virginica")
_TABLES = ("iris.csv", "iris.json", "iris.parquet", "iris.tsv")
NAMES = (*_TABLES, *pictures.NAMES)


def iris() -> list[tuple[float, float, float, float, str]]:
    """The 150 rows.

    >>> iris()[0], len(iris())
    ((5.1, 3.5, 1.4, 0.2, 'Setosa'), 150)
    """
    rows = []
    for number, digits in enumerate(_FLOWERS.split()):
        a, b, c, d = (int(digits[at : at + 2]) / 10 for at in range(0, 8, 2))
        rows.append((a, b, c, d, _SPECIES[number // 50]))
    return rows


def example_file(name: str) -> str | None:
    """The path of an example file on this machine, which is made if it is not there yet; None for one that weir does not have."""
    folder = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weir", "examples")
    path = os.path.join(folder, name)
    if (drawn := pictures.folder_of(name)) is not None:
        _make_folder(os.path.join(folder, drawn), drawn)
        return path
    if name not in _TABLES:
        return None
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as making:  # processes may do this side by side: each its own, the last one stays
            made = os.path.join(making, name)
            _write(made, name)
            os.replace(made, path)
    return path


def _make_folder(path: str, name: str) -> None:
    above = os.path.dirname(path)
    if os.path.isdir(path):
        return
    os.makedirs(above, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=above) as making:
        made = os.path.join(making, "pictures")
        os.mkdir(made)
        pictures.draw_folder(name, made)
        try:
            os.rename(made, path)
        except OSError:
            if not os.path.isdir(path):  # else another process was first: a folder is whole when it has its name
                raise


def _write(path: str, name: str) -> None:
    kind = name.rpartition(".")[2]
    if kind == "parquet":
        from weir._weir import Flow, Session

        text = path[: -len(kind)] + "csv"
        _write(text, "iris.csv")
        flow = Flow(Session(memory_limit=64 << 20, threads=1))  # of its own: the program may not have said yet how large its is
        flow.step("read", [text])
        flow.step("write", [path])
        with flow.start("sink") as task:
            task.wait()
        return
    with open(path, "w", encoding="utf-8") as file:
        if kind == "json":
            file.writelines(json.dumps(dict(zip(_COLUMNS, row, strict=True))) + "\n" for row in iris())
            return
        between = {"csv": ",", "tsv": "\t"}[kind]
        file.write(between.join(_COLUMNS) + "\n")
        for *sizes, species in iris():
            # Species are written in small letters in the one with tabs alone: so they are in the file that scripts know.
            file.write(between.join([*map(str, sizes), species.lower() if kind == "tsv" else species]) + "\n")
