"""Each case of cases_*.py on weir, against the answer of Ray 2.60 in recorded/; with `make test-full` and Ray, against Ray itself."""
import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest

import parity
from cases_mistakes import MISTAKES, SAID
from known import KNOWN, reason
from watch import Watch

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
pytest.importorskip("torch")

CASES = parity.load()
RECORDED = {}
for path in sorted(parity.RECORDED.glob("*.json")):
    RECORDED.update(json.loads(path.read_text()))

# What docs/parity.md says that a case shows.
CLAIMS = {}
for shown_name, shown in json.loads((parity.HERE / "shown.json").read_text()).items():
    CLAIMS.setdefault(shown["case"], []).append({**shown, "name": shown_name})


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    at = tmp_path_factory.mktemp("inputs")
    parity.make_inputs(at / "in")
    return at / "in"


@pytest.fixture
def at(inputs, tmp_path):
    import shutil

    return shutil.copytree(inputs, os.path.join(os.path.realpath(tmp_path), "in"))


@pytest.mark.parametrize("name", list(CASES))
def test_same_as_ray(name, at):
    import weir.data

    if CASES[name].lacks():
        pytest.skip(f"{CASES[name].lacks()} is not installed")
    weir.init(ignore_reinit_error=True)
    claims = CLAIMS.get(name, [])
    with Watch(os.path.dirname(os.path.realpath(weir.__file__))) if claims else contextlib.nullcontext() as watch:
        mine = parity.answer(CASES[name], weir.data, at)
    theirs = RECORDED[name]
    if name.startswith("mistakes/") and isinstance(mine, dict) and "error" in mine:
        (mistake,) = CASES[name].values
        said = SAID.get(mistake, "")
        assert MISTAKES[mistake].lower() in said.lower(), f"the message does not name {MISTAKES[mistake]}: {said}"
    why = reason(name)
    if why is not None:
        assert why.startswith("later") or not parity.same(theirs, mine), f"this is no difference any more: {why}"
        return
    assert parity.same(theirs, mine), f"\nRay:  {json.dumps(theirs)}\nweir: {json.dumps(mine)}"
    for claim in claims:
        if "says" in claim:
            assert parity.says(CASES[name], claim["says"]), f"this case does not use {claim['says']}"
        elif "calls" in claim:
            assert claim["calls"] in watch.codes, f"this case does not call {claim['calls']}: run tools/parity.py --record"
        else:
            assert claim["error"] in mine["error"]


def test_every_case_has_an_answer_of_ray():
    assert set(RECORDED) == set(CASES) and len(CASES) >= 300
    assert not [name for name, found in RECORDED.items() if found == {"late": parity.SECONDS}]
    for pattern, why in KNOWN:
        assert why and any(re.match(pattern, name) for name in CASES), pattern


def test_comparisons_see_differences():
    assert parity.same({"error": ["ValueError"]}, {"error": ["RayTaskError", "ValueError"]})
    assert not parity.same({"error": ["KeyError"]}, {"error": ["ValueError"]})
    assert not parity.same({"error": ["KeyError"]}, [1])
    assert not parity.same([1], [1.0]) and not parity.same([True], [1]) and not parity.same([1, 2], [1])
    assert parity.same({"a": 0.1 + 0.2}, {"a": 0.3}) and not parity.same({"a": 1}, {"b": 1})


def test_the_page_of_names_is_current():
    root = parity.HERE.parents[1]
    done = subprocess.run([sys.executable, root / "tools/parity.py", "--check"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_case_names_what_the_page_says_it_shows():
    """What weir calls by itself on the way is not enough."""
    assert not [(claim["name"], case) for case, claims in CLAIMS.items() for claim in claims if "error" not in claim and not parity.says(CASES[case], claim["name"])]


def test_what_the_page_says_of_cases_that_differ():
    assert not [case for case in CLAIMS if reason(case) is not None] and set(CLAIMS) <= set(CASES)


@pytest.mark.full
def test_recorded_answers_are_rays(tmp_path):
    """A part of the cases, chosen by their names, runs on Ray once more."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    made = tmp_path / "recorded"
    code = "import pathlib, record, sys; record.main(sys.argv[2:], pathlib.Path(sys.argv[1]))"
    words = ["create/", "consume/", "aggregates/"]
    env = dict(os.environ, PYTHONPATH=str(parity.HERE))  # without weir's packages
    subprocess.run([sys.executable, "-c", code, made, *words], check=True, env=env, cwd=parity.HERE, timeout=1200)
    for path in made.glob("*.json"):
        for name, theirs in json.loads(path.read_text()).items():
            assert parity.same(RECORDED[name], theirs), name
