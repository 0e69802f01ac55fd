"""summary(), get_stats_summary() and what notebooks show. Oracle: pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

import weir  # noqa: E402
from weir.aggregate import Max, Sum  # noqa: E402
from weir.datatype import DataType  # noqa: E402


def test_summary() -> None:
    rows: list[dict[str, Any]] = [
        {"age": 25, "salary": 50000.0, "name": "Alice", "day": pd.Timestamp("2024-01-02")},
        {"age": 30, "salary": 60000.0, "name": None, "day": pd.Timestamp("2024-01-01")},
        {"age": 0, "salary": None, "name": "Bob", "day": None},
        {"age": 5, "salary": None, "name": "Bob", "day": pd.Timestamp("2024-03-01")},
    ]
    found = weir.from_items(rows).summary()
    frame = found.to_pandas().set_index("statistic")
    assert set(frame.columns) == {"age", "salary", "name", "day"} == set(found.columns)
    assert frame["age"]["count"] == 4 and frame["age"]["mean"] == 15 and frame["age"]["zero_pct"] == 25
    assert frame["age"]["std"] == pytest.approx(np.std([25, 30, 0, 5]))
    assert frame["salary"]["missing_pct"] == 50 and frame["salary"]["max"] == 60000
    assert frame["name"]["approx_topk[0]"] == {"name": "Bob", "count": 2} and frame["name"]["missing_pct"] == 25
    assert pd.Timestamp(frame["day"]["max"]) == pd.Timestamp("2024-03-01")
    one = found.get_column_stats("age").set_index("statistic")["value"]
    assert one["min"] == 0 and one["approx_quantile[0]"] == 25
    with pytest.raises(ValueError, match="not found"):
        found.get_column_stats("nothing")


def test_summary_of_many_rows() -> None:
    random = np.random.default_rng(20261115)
    values = random.normal(3, 2, 300_000)
    ds = weir.from_numpy(values).rename_columns({"data": "x"})
    frame = ds.summary().to_pandas().set_index("statistic")["x"]
    assert frame["mean"] == pytest.approx(values.mean()) and frame["std"] == pytest.approx(values.std())
    assert frame["approx_quantile[0]"] == pytest.approx(np.median(values), abs=0.05)


def test_summary_of_some_columns_and_own_aggregations() -> None:
    ds = weir.from_items([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    assert ds.summary(columns=["b"]).columns == ["b"]
    own = ds.summary(override_dtype_agg_mapping={DataType.int64(): lambda name: [Sum(name), Max(name)]})
    stats = own.get_column_stats("a").set_index("statistic")["value"]
    assert stats["sum"] == 3 and stats["max"] == 2 and stats["missing_pct"] is None
    with pytest.raises(ValueError, match="no column 'c'"):
        ds.summary(columns=["c"])


def test_figures_of_a_run() -> None:
    ds = weir.range(1000).map_batches(lambda batch: batch).materialize()
    summary = ds.get_stats_summary()
    last = summary.operators_stats[-1]
    assert last.output_num_rows is not None and last.output_num_rows.sum == 1000
    assert "MapBatches" in last.operator_name and summary.time_total_s > 0 and summary.num_rows_per_s > 0
    assert summary.to_string() == ds.stats()
    assert weir.range(3).get_stats_summary().operators_stats == []
    read = weir.range(10)
    list(read.iter_batches(batch_size=5))
    times = read._get_stats_summary().iter_stats
    assert times.batches_total == 2 and times.total_time.get() == times.total_time > 0
    with pytest.raises(ValueError, match="detail"):
        ds.get_stats_summary(detail=True)


def test_what_notebooks_show() -> None:
    ds = weir.from_items([{"a": 1, "b": "<x>"}])
    ds.set_name("mine")
    text = ds._repr_html_()
    assert "MaterializedDataset: mine" in text and "&lt;x&gt;" in text and "<x>" not in text and "int64" in text
    lazy = weir.range(3).map(lambda row: row)._repr_html_()
    assert "Unknown schema" in lazy
    assert "1,000" in weir.range(1000)._repr_html_()
