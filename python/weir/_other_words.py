"""What other libraries call what a Dataset does: an AttributeError that names it."""

from __future__ import annotations

from typing import Any

OF_DATASETS = {
    "agg": "aggregate(…)",
    "append": "union(…)",
    "apply": "map(fn), or map_batches(fn, batch_format='pandas')",
    "astype": "with_column(name, col(name).cast(…))",
    "cache": "materialize()",
    "collect": "take_all()",
    "concat": "union(…)",
    "describe": "summary()",
    "distinct": "unique(column), or groupby(columns).count()",
    "drop": "drop_columns([…])",
    "drop_duplicates": "groupby(columns).map_groups(lambda group: group.head(1), batch_format='pandas')",
    "dropna": "filter(expr=col(name).is_not_null())",
    "dtypes": "schema()",
    "explode": "flat_map(fn)",
    "fillna": "map_batches(fn, batch_format='pandas')",
    "groupBy": "groupby(…)",
    "group_by": "groupby(…)",
    "head": "take(n), or limit(n) for a Dataset",
    "iterrows": "iter_rows()",
    "itertuples": "iter_rows()",
    "merge": "join(…)",
    "num_rows": "count()",
    "orderBy": "sort(…)",
    "order_by": "sort(…)",
    "persist": "materialize()",
    "query": "filter(expr='…')",
    "rename": "rename_columns({…})",
    "sample": "random_sample(fraction)",
    "select": "select_columns([…])",
    "shape": "count() and columns()",
    "shuffle": "random_shuffle()",
    "sort_values": "sort(…)",
    "to_csv": "write_csv(path)",
    "to_json": "write_json(path)",
    "to_list": "take_all()",
    "to_parquet": "write_parquet(path)",
    "toPandas": "to_pandas()",
    "tolist": "take_all()",
    "where": "filter(…)",
    "withColumn": "with_column(name, expr)",
}
OF_GROUPS = {
    "agg": "aggregate(Sum('a'), Mean('b') …)",
    "apply": "map_groups(fn)",
    "first": "map_groups(lambda group: group.head(1), batch_format='pandas')",
    "head": "map_groups(lambda group: group.head(n), batch_format='pandas')",
    "nunique": "aggregate(CountDistinct(column))",
    "size": "count()",
    "transform": "map_groups(fn)",
}


def lacking(owner: Any, name: str, words: dict[str, str]) -> AttributeError:
    """The error for an attribute that is not there.

    >>> raise lacking(3, "head", OF_DATASETS)
    Traceback (most recent call last):
    ...
    AttributeError: 'int' object has no attribute 'head': use take(n), or limit(n) for a Dataset
    """
    text = f"'{type(owner).__name__}' object has no attribute '{name}'"
    if name in words:
        text += f": use {words[name]}"
    elif not name.startswith("_"):
        from weir._errors import nearest

        text += nearest(name, [known for known in dir(type(owner)) if not known.startswith("_")])
    return AttributeError(text, name=name, obj=owner)
