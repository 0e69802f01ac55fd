"""Columns of JSON whose values have no type in common: an error in Python, texts where they are asked for, themselves with lines=True."""
from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import weir

MIXED: list[list[Any]] = [[1, "x"], ["x", 1], [True, 1], [[1], 1], [{"b": 1}, {"b": "x"}], [[1, "x"]], [{"b": 1}, 2.5]]


@pytest.mark.parametrize("values", MIXED, ids=str)
def test_it_is_an_error(tmp_path: Path, values: list[Any]) -> None:
    path = tmp_path / "a.json"
    path.write_text("".join(json.dumps({"id": i, "a": value}) + "\n" for i, value in enumerate(values)))
    with pytest.raises(ValueError, match=r"a\.json: .*column a, line [12].*explicit_schema"):
        weir.read_json(str(path)).take_all()
    assert weir.read_json(str(path)).select_columns(["id"]).count() == len(values)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@pytest.mark.parametrize("values", MIXED, ids=str)
def test_lines_keep_their_values(tmp_path: Path, values: list[Any], name: str) -> None:
    """As in pandas, which Ray Data reads lines with: a text here, a list there stay what they are."""
    if name.endswith(".gz"):
        pytest.importorskip("pyarrow")  # by which sources in Python open what is compressed
    text = "".join(json.dumps({"id": i, "a": value, **({"b": 1} if i else {})}) + "\n" for i, value in enumerate(values)).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    rows = weir.read_json(str(tmp_path / name), lines=True).take_all()
    assert rows == [{"id": i, "a": value, "b": 1 if i else None} for i, value in enumerate(values)] or len(values) == 1
    assert [row["a"] for row in rows] == values


def test_lines_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weir.datasource.arrow_files import JSONLinesDatasource

    path = tmp_path / "a.jsonl"
    lines = ['{"a": 1}', "", '{"a": "x"}', '{"a": [2], "b": true}']
    path.write_text("\n".join(lines))
    monkeypatch.setattr(JSONLinesDatasource, "BLOCK_BYTES", 10)
    blocks = list(JSONLinesDatasource(str(path))._read_file(str(path)))
    assert len(blocks) == 2, blocks
    assert weir.read_json(str(path), lines=True).take_all() == [{"a": 1, "b": None}, {"a": "x", "b": None}, {"a": [2], "b": True}]


def test_lines_that_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for wrong, why in (("3", "'3.*' stands where an object"), ("[1]", "stands where an object"), ("{", "no JSON")):
        path.write_text('{"a": 1}\n{"a": "x"}\n' + "\n" * (1 << 20) + wrong + "\n")  # behind what is looked at
        with pytest.raises(ValueError, match=f"a.jsonl, line {(1 << 20) + 3}: .*{why}"):
            weir.read_json(str(path), lines=True).take_all()


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
