"""Stores real Ray's answers: python tests/parity/record.py [--missing | part of a case's id …]. Needs ray[data] 2.60."""
import json
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
try:
    import tensorflow
except ImportError:  # Ray's TFRecord files need three names of it: Protocol Buffers has the rest
    sys.path.insert(0, str(HERE / "stand_in"))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE / "stand_in"), os.environ["PYTHONPATH"]])
os.environ.setdefault("RAY_DEDUP_LOGS", "0")
os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"

import parity


def store(folder, cases, found):
    by_module = {}
    for one in cases.values():
        if one.id in found:
            by_module.setdefault(one.module, {})[one.id] = found[one.id]
    for module, answers in by_module.items():
        lines = ",\n".join(f" {json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in answers.items())
        (folder / f"{module.removeprefix('cases_')}.json").write_text("{\n" + lines + "\n}\n")


def main(words, folder=parity.RECORDED):
    import warnings

    warnings.simplefilter("ignore")
    import ray
    import ray.data

    logging.disable(logging.WARNING)
    ray.init(num_cpus=2, object_store_memory=400 << 20, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    # Aggregates in few tasks instead of many actors: the same answers, thirty times as fast on a small machine.
    ray.data.DataContext.get_current().default_hash_shuffle_parallelism = 2
    ray.data.DataContext.get_current().shuffle_strategy = "sort_shuffle_pull_based"
    cases = parity.load()
    folder.mkdir(exist_ok=True)
    found = {}
    for path in folder.glob("*.json"):
        found.update(json.loads(path.read_text()))
    wanted = [c for c in cases.values() if not words or any(w in c.id for w in words) or (words == ["--missing"] and c.id not in found)]
    wanted = [c for c in wanted if not c.lacks(ray=True)]
    for number, one in enumerate(wanted, 1):
        with tempfile.TemporaryDirectory() as at:
            at = os.path.realpath(at)
            parity.make_inputs(at)
            begun = time.time()
            found[one.id] = parity.answer(one, ray.data, at)
            spent = time.time() - begun
        if spent > 5:
            print(f"{one.id}: {spent:.1f} s", flush=True)
        if number % 5 == 0 or number == len(wanted):
            print(f"{number} of {len(wanted)}", flush=True)
            store(folder, cases, found)
    ray.shutdown()
    print(f"{len(wanted)} answers of Ray {ray.__version__}")


if __name__ == "__main__":
    main(sys.argv[1:])
