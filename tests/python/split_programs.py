"""Small programs that use `ray.data` to split, mix and iterate. Each leaves its answer in `result`.

tests/python/recorded/split_answers.json has what Ray 2.60 answered to each:

    python tests/python/split_programs.py > tests/python/recorded/split_answers.json      with Ray installed
"""

from __future__ import annotations

import json
import sys
import textwrap
from typing import Any

BLOCKS = "ds = ray.data.range(20, override_num_blocks=5)"

PROGRAMS: dict[str, str] = {
    # ---- split ----
    "split_even": "result = [s.count() for s in ray.data.range(20, override_num_blocks=5).split(5)]",
    "split_uneven_blocks": "result = [s.take_all() for s in ray.data.range(20, override_num_blocks=5).split(3)]",
    "split_equal": "result = [[r['id'] for r in s.take_all()] for s in ray.data.range(20, override_num_blocks=5).split(3, equal=True)]",
    "split_equal_drops": "result = [s.count() for s in ray.data.range(10, override_num_blocks=10).split(4, equal=True)]",
    "split_more_than_rows": "result = sorted(s.count() for s in ray.data.range(3, override_num_blocks=3).split(5))",
    "split_zero": "ray.data.range(3).split(0)",
    "split_negative": "ray.data.range(3).split(-1)",
    "split_hints_length": "ray.data.range(3).split(2, locality_hints=[1])",
    "split_is_materialized": "result = [type(s).__name__ for s in ray.data.range(4).split(2)]",
    "split_schema": "result = [s.schema().names for s in ray.data.range(4, override_num_blocks=4).split(2)]",
    "split_then_map": "result = sorted(r['x'] for s in ray.data.range(4, override_num_blocks=4).split(2) for r in s.map(lambda r: {'x': r['id'] + 1}).take_all())",
    # ---- split_at_indices ----
    "indices": "result = [[r['id'] for r in s.take_all()] for s in ray.data.range(10, override_num_blocks=3).split_at_indices([2, 9])]",
    "indices_beyond": "result = [s.count() for s in ray.data.range(5).split_at_indices([3, 7])]",
    "indices_twice": "result = [s.count() for s in ray.data.range(5).split_at_indices([2, 2])]",
    "indices_zero": "result = [s.count() for s in ray.data.range(5).split_at_indices([0])]",
    "indices_none": "ray.data.range(5).split_at_indices([])",
    "indices_unsorted": "ray.data.range(5).split_at_indices([3, 1])",
    "indices_negative": "ray.data.range(5).split_at_indices([-1])",
    # ---- split_proportionately ----
    "proportions": "result = [[r['id'] for r in s.take_all()] for s in ray.data.range(10).split_proportionately([0.2, 0.5])]",
    "proportions_small": "result = [s.count() for s in ray.data.range(3).split_proportionately([0.3, 0.3])]",
    "proportions_tiny": "result = [s.count() for s in ray.data.range(5).split_proportionately([0.1, 0.1, 0.1])]",
    "proportions_empty": "ray.data.range(5).split_proportionately([])",
    "proportions_one": "ray.data.range(5).split_proportionately([0.5, 0.5])",
    "proportions_zero": "ray.data.range(5).split_proportionately([0.0, 0.5])",
    "proportions_few_rows": "ray.data.range(2).split_proportionately([0.1, 0.1])",
    # ---- train_test_split ----
    "train_float": "result = [[r['id'] for r in s.take_all()] for s in ray.data.range(8).train_test_split(0.25)]",
    "train_int": "result = [[r['id'] for r in s.take_all()] for s in ray.data.range(8).train_test_split(3)]",
    "train_float_one": "ray.data.range(8).train_test_split(1.0)",
    "train_float_negative": "ray.data.range(8).train_test_split(-0.5)",
    "train_int_zero": "ray.data.range(8).train_test_split(0)",
    "train_int_all": "ray.data.range(8).train_test_split(8)",
    "train_text": "ray.data.range(8).train_test_split('a')",
    "train_both": "ray.data.range(8).train_test_split(0.5, shuffle=True, stratify='id')",
    "train_third": "result = [s.count() for s in ray.data.range(10).train_test_split(1 / 3)]",
    # ---- streaming_train_test_split ----
    "hash_split": """
        parts = ray.data.range(50).streaming_train_test_split(0.2, split_type='hash', hash_column='id')
        result = [sorted(r['id'] for r in p.take_all()) for p in parts]
    """,
    "hash_split_texts": """
        ds = ray.data.from_items([{'name': f'user-{i}', 'n': i} for i in range(40)])
        parts = ds.streaming_train_test_split(0.3, split_type='hash', hash_column='name')
        result = [sorted(r['n'] for r in p.take_all()) for p in parts]
    """,
    "hash_split_floats": """
        ds = ray.data.from_items([{'v': i / 4, 'n': i} for i in range(40)])
        parts = ds.streaming_train_test_split(0.5, split_type='hash', hash_column='v')
        result = [sorted(r['n'] for r in p.take_all()) for p in parts]
    """,
    "random_split_is_whole": """
        parts = ray.data.range(1000).streaming_train_test_split(0.2, seed=3)
        ids = [{r['id'] for r in p.take_all()} for p in parts]
        result = [len(ids[0] | ids[1]), len(ids[0] & ids[1]), 120 < len(ids[1]) < 280]
    """,
    "random_split_repeats": """
        train, _ = ray.data.range(1000, override_num_blocks=1).streaming_train_test_split(0.2, seed=3)
        result = sorted(r['id'] for r in train.take_all()) == sorted(r['id'] for r in train.take_all())
    """,
    "streaming_size": "ray.data.range(8).streaming_train_test_split(1.5)",
    "streaming_seed_hash": "ray.data.range(8).streaming_train_test_split(0.5, split_type='hash', hash_column='id', seed=1)",
    "streaming_column_random": "ray.data.range(8).streaming_train_test_split(0.5, hash_column='id')",
    "streaming_no_column": "ray.data.range(8).streaming_train_test_split(0.5, split_type='hash')",
    "streaming_type": "ray.data.range(8).streaming_train_test_split(0.5, split_type='sorted')",
    # ---- streaming_split ----
    "streaming_split_equal": """
        import threading
        counts = {}
        def consume(i, it):
            counts[i] = sum(len(b['id']) for b in it.iter_batches(batch_size=3))
        its = ray.data.range(23, override_num_blocks=5).streaming_split(4, equal=True)
        threads = [threading.Thread(target=consume, args=(i, it)) for i, it in enumerate(its)]
        [t.start() for t in threads]; [t.join() for t in threads]
        result = [counts[i] for i in range(4)]
    """,
    "streaming_split_all_rows": """
        import threading
        seen = []
        def consume(it):
            for epoch in range(2):
                for row in it.iter_rows():
                    seen.append(row['id'])
        its = ray.data.range(100, override_num_blocks=10).streaming_split(2)
        threads = [threading.Thread(target=consume, args=(it,)) for it in its]
        [t.start() for t in threads]; [t.join() for t in threads]
        result = sorted(seen) == sorted(list(range(100)) * 2)
    """,
    "streaming_split_world_size": "result = [it.world_size() for it in ray.data.range(4).streaming_split(2)]",
    "streaming_split_schema": "result = [it.schema().names for it in ray.data.range(4).streaming_split(2)]",
    "streaming_split_one": "result = [r['id'] for r in ray.data.range(4).streaming_split(1)[0].iter_rows()]",
    "streaming_split_materialize": "result = ray.data.range(4).streaming_split(1)[0].materialize().count()",
    # ---- mix ----
    "mix_blocks": """
        a = ray.data.from_items([{'x': i} for i in (1, 2, 3, 4)]).repartition(2)
        b = ray.data.from_items([{'x': i} for i in (5, 6, 7, 8)]).repartition(2)
        result = [r['x'] for r in a.mix(b, weights=[0.5, 0.5]).take_all()]
    """,
    "mix_weights": """
        a = ray.data.range(8, override_num_blocks=8)
        b = ray.data.range(4, override_num_blocks=4).map(lambda r: {'id': r['id'] + 100})
        result = [r['id'] for r in a.mix(b, weights=[2, 1]).take_all()]
    """,
    "mix_shortest": """
        a = ray.data.range(2, override_num_blocks=2)
        b = ray.data.range(6, override_num_blocks=6).map(lambda r: {'id': r['id'] + 100})
        result = [r['id'] for r in a.mix(b, stopping_condition=ray.data.MixStoppingCondition.STOP_ON_SHORTEST).take_all()]
    """,
    "mix_longest": """
        a = ray.data.range(2, override_num_blocks=2)
        b = ray.data.range(6, override_num_blocks=6).map(lambda r: {'id': r['id'] + 100})
        result = [r['id'] for r in a.mix(b).take_all()]
    """,
    "mix_three": """
        parts = [ray.data.range(6, override_num_blocks=6).map(lambda r, k=k: {'id': r['id'] + k}) for k in (0, 10, 20)]
        result = [r['id'] for r in parts[0].mix(parts[1], parts[2], weights=[1, 2, 3]).take_all()]
    """,
    "mix_wrong_weights": "ray.data.range(3).mix(ray.data.range(3), weights=[1])",
    "mix_alone": "result = [r['id'] for r in ray.data.range(3, override_num_blocks=1).mix().take_all()]",
    "mix_conditions": "result = [c.value for c in ray.data.MixStoppingCondition]",
    # ---- randomize_block_order ----
    "randomize_rows": "result = sorted(r['id'] for r in ray.data.range(20, override_num_blocks=5).randomize_block_order(seed=1).take_all())",
    "randomize_keeps_blocks": """
        ids = [r['id'] for r in ray.data.range(20, override_num_blocks=5).randomize_block_order(seed=1).take_all()]
        result = sorted(ids[i] // 4 * 10 + len(set(v // 4 for v in ids[i:i + 4])) for i in range(0, 20, 4))
    """,
    "randomize_repeats": """
        ds = ray.data.range(40, override_num_blocks=20)
        a, b = (ds.randomize_block_order(seed=7).take_all() for _ in range(2))
        result = [a == b, a != ds.take_all()]
    """,
    "seed_config": "result = [ray.data.RandomSeedConfig(3).reseed_after_execution, ray.data.RandomSeedConfig().seed]",
    "seed_config_text": "ray.data.RandomSeedConfig('a')",
    # ---- iterators ----
    "iterator_batches": "result = [b['id'].tolist() for b in ray.data.range(5, override_num_blocks=1).iterator().iter_batches(batch_size=2)]",
    "iterator_drop_last": "result = [b['id'].tolist() for b in ray.data.range(5, override_num_blocks=1).iterator().iter_batches(batch_size=2, drop_last=True)]",
    "iterator_twice": """
        batches = ray.data.range(4, override_num_blocks=1).iterator().iter_batches(batch_size=2)
        result = [[b['id'].tolist() for b in batches] for _ in range(2)]
    """,
    "iterator_pandas": "result = [type(b).__name__ for b in ray.data.range(3).iterator().iter_batches(batch_format='pandas', batch_size=3)]",
    "iterator_arrow": "result = [b.column_names for b in ray.data.range(3, override_num_blocks=1).iterator().iter_batches(batch_format='pyarrow')]",
    "iterator_format": "list(ray.data.range(3).iterator().iter_batches(batch_format='xml'))",
    "iterator_schema": "result = str(ray.data.range(3).iterator().schema())",
    "iterator_materialize": "result = type(ray.data.range(3).iterator().materialize()).__name__",
    "shuffle_rows": """
        batches = ray.data.range(100, override_num_blocks=1).iterator().iter_batches(
            batch_size=10, local_shuffle_buffer_size=50, local_shuffle_seed=1)
        ids = [v for b in batches for v in b['id'].tolist()]
        result = [sorted(ids) == list(range(100)), ids != list(range(100))]
    """,
    "shuffle_repeats": """
        ds = ray.data.range(100, override_num_blocks=1)
        a, b = ([v for b in ds.iterator().iter_batches(batch_size=10, local_shuffle_buffer_size=50, local_shuffle_seed=1)
                 for v in b['id'].tolist()] for _ in range(2))
        result = a == b
    """,
    "shuffle_without_size": "list(ray.data.range(3).iterator().iter_batches(batch_size=None, local_shuffle_buffer_size=2))",
    "iterator_is_no_iterable": "for row in ray.data.range(3).iterator():\n    pass",
    # ---- torch ----
    "torch_batches": "result = [b['id'].tolist() for b in ray.data.range(4, override_num_blocks=1).iterator().iter_torch_batches(batch_size=3)]",
    "torch_dtypes": """
        import torch
        result = [str(b['id'].dtype) for b in ray.data.range(4).iterator().iter_torch_batches(batch_size=4, dtypes=torch.float32)]
    """,
    "torch_numpy_collate": """
        import torch
        from ray.data.collate_fn import NumpyBatchCollateFn
        class Collate(NumpyBatchCollateFn):
            def __call__(self, batch):
                return torch.as_tensor(batch['id'] + 5)
        result = [b.tolist() for b in ray.data.range(4, override_num_blocks=1).iterator().iter_torch_batches(collate_fn=Collate())]
    """,
    "torch_arrow_collate": """
        import torch
        from ray.data.collate_fn import ArrowBatchCollateFn
        class Collate(ArrowBatchCollateFn):
            def __call__(self, batch):
                return {'x': [torch.as_tensor(batch['id'].to_numpy()), torch.as_tensor(batch['id'].to_numpy())]}
        result = [b['x'].tolist() for b in ray.data.range(2, override_num_blocks=1).iterator().iter_torch_batches(collate_fn=Collate())]
    """,
    "torch_pandas_collate": """
        from ray.data.collate_fn import PandasBatchCollateFn
        class Collate(PandasBatchCollateFn):
            def __call__(self, batch):
                return {'type': type(batch).__name__, 'rows': len(batch)}
        result = list(ray.data.range(4, override_num_blocks=1).iterator().iter_torch_batches(collate_fn=Collate()))
    """,
    "torch_default_collate": """
        import pyarrow as pa
        from ray.data.collate_fn import DefaultCollateFn
        table = pa.table({'a': [1, 2]})
        result = [DefaultCollateFn()(table)['a'][0].tolist(), DefaultCollateFn(combine_chunks=True)(table)['a'].tolist()]
    """,
    "torch_collate_and_dtypes": """
        import torch
        ray.data.range(4).iterator().iter_torch_batches(collate_fn=lambda b: b, dtypes=torch.float32)
    """,
    "torch_collate_number": "ray.data.range(4).iterator().iter_torch_batches(collate_fn=3)",
    "to_torch": """
        ds = ray.data.from_items([{'a': 1.0, 'b': 2.0, 'y': 0}, {'a': 3.0, 'b': 4.0, 'y': 1}], override_num_blocks=1)
        result = [[f.tolist(), l.tolist()] for f, l in ds.iterator().to_torch(label_column='y', batch_size=2)]
    """,
    "to_torch_no_label": """
        ds = ray.data.from_items([{'a': 1.0, 'b': 2.0}], override_num_blocks=1)
        result = [[f.tolist(), l] for f, l in ds.iterator().to_torch()]
    """,
    "to_torch_lists": """
        ds = ray.data.from_items([{'a': 1.0, 'b': 2.0, 'c': 3.0, 'y': 0}], override_num_blocks=1)
        result = [[[t.tolist() for t in f], l.tolist()]
                  for f, l in ds.iterator().to_torch(label_column='y', feature_columns=[['a', 'b'], ['c']])]
    """,
    "to_torch_dict": """
        import torch
        ds = ray.data.from_items([{'a': 1, 'b': 2, 'c': 3, 'y': 0}], override_num_blocks=1)
        result = [[{k: [t.tolist(), str(t.dtype)] for k, t in f.items()}, l.tolist()] for f, l in ds.iterator().to_torch(
            label_column='y', feature_columns={'x': ['a', 'b'], 'z': ['c']},
            feature_column_dtypes={'x': torch.float32, 'z': torch.int32}, unsqueeze_label_tensor=False)]
    """,
    "to_torch_wrong_keys": """
        import torch
        ds = ray.data.from_items([{'a': 1, 'b': 2}])
        ds.iterator().to_torch(feature_columns={'x': ['a']}, feature_column_dtypes={'z': torch.int32})
    """,
    # ---- random access ----
    "random_access": """
        ds = ray.data.from_items([{'k': i * 2, 'v': i} for i in range(20)])
        found = ds.to_random_access_dataset('k', num_workers=1)
        result = [found.multiget([4, 5, 38, -2]), ray.get(found.get_async(6)), ray.get(found.get_async(7))]
    """,
    # ---- about Datasets ----
    "len": "len(ray.data.range(3))",
    "loop": "for row in ray.data.range(3):\n    pass",
    "truth": "result = bool(ray.data.range(0))",
    "name": """
        ds = ray.data.range(3)
        before = ds.name
        ds.set_name('numbers')
        result = [before, ds.name]
    """,
    "copy": """
        ds = ray.data.range(3)
        result = [type(type(ds).copy(ds)).__name__, type(ds).copy(ds).count()]
    """,
    "lineage": """
        ds = ray.data.range(3).map(lambda r: {'id': r['id'] + 1})
        made = ray.data.Dataset.deserialize_lineage(ds.serialize_lineage())
        result = [ds.has_serializable_lineage(), sorted(r['id'] for r in made.take_all())]
    """,
    "lineage_items": "ray.data.from_items([1, 2]).serialize_lineage()",
    "lineage_union": "ray.data.range(2).union(ray.data.range(2)).serialize_lineage()",
    "take_all_limit": "ray.data.range(5).take_all(limit=4)",
    "take_all_enough": "result = len(ray.data.range(5).take_all(limit=5))",
    "take_batch_empty": "ray.data.range(0).take_batch()",
    "repr_range": "result = repr(ray.data.range(3))",
    "repr_materialized": "result = repr(ray.data.from_items([{'a': 1, 'b': 'x'}]).materialize())",
    "str_iterator": "result = repr(ray.data.range(3).iterator())",
}


def answer(ray: Any, source: str) -> Any:
    """What a program answers: ["value", JSON text of it] or ["error", type, message]."""
    names: dict[str, Any] = {"ray": ray}
    try:
        exec(compile(textwrap.dedent(source), "<program>", "exec"), names)
    except Exception as error:
        return ["error", type(error).__name__, str(error).strip()]
    return ["value", names.get("result")]


def main() -> None:
    import ray

    ray.init(num_cpus=2, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    ray.data.DataContext.get_current().enable_progress_bars = False
    answers = {name: answer(ray, source) for name, source in PROGRAMS.items()}
    json.dump(answers, sys.stdout, indent=1, ensure_ascii=False, default=dict)
    ray.shutdown()


if __name__ == "__main__":
    main()
