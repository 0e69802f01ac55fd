"""Columns of JSON whose values have no type in common: an error in Python, texts where they are asked for."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import weir

MIXED: list[list[Any]] = [[1, "x"], ["x", 1], [True, 1], [[1], 1], [{"b": 1}, {"b": "x"}], [[1, "x"]], [{"b": 1}, 2.5]]


@pytest.mark.parametrize("lines", [True, False])
@pytest.mark.parametrize("values", MIXED, ids=str)
def test_it_is_an_error(tmp_path: Path, values: list[Any], lines: bool) -> None:
    path = tmp_path / "a.json"
    path.write_text("".join(json.dumps({"id": i, "a": value}) + "\n" for i, value in enumerate(values)))
    with pytest.raises(ValueError, match=r"a\.json: .*column a, line [12].*explicit_schema"):
        weir.read_json(str(path), lines=lines).take_all()
    assert weir.read_json(str(path), lines=lines).select_columns(["id"]).count() == len(values)


def test_later_and_in_other_files(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n' * 200_000 + '{"a": "x"}\n')
    with pytest.raises(ValueError, match="no type holds|does not fit"):  # rows may have left before
        weir.read_json(str(tmp_path / "a.jsonl")).take_all(limit=10**6)
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "b.jsonl").write_text('{"a": "x"}\n')
    with pytest.raises(ValueError, match="no type holds"):
        weir.read_json(str(tmp_path)).take_all()


def test_what_is_no_mixture(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": 1, "b": "x"}\n{"a": 1.5, "b": null}\n{"a": null}\n')
    assert weir.read_json(str(path)).take_all() == [{"a": 1.0, "b": "x"}, {"a": 1.5, "b": None}, {"a": None, "b": None}]


def test_texts_where_they_are_asked_for(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pj = pytest.importorskip("pyarrow.json")
    path = tmp_path / "a.json"
    path.write_text('{"a": 1}\n{"a": "x"}\n')
    asked = pj.ParseOptions(explicit_schema=pa.schema([("a", pa.string())]))
    assert weir.read_json(str(path), parse_options=asked).take_all() == [{"a": "1"}, {"a": "x"}]
