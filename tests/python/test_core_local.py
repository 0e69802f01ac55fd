"""local_mode: the same answers, in this process."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_core import ANSWERS, as_ray  # noqa: E402
import core_behaviours as behaviours  # noqa: E402

import weir  # noqa: E402

# Those that need no second process and no second thread.
CASES = ["put_get", "get_of_a_list", "arrays_are_read_only", "put_of_a_ref", "refs_hash_and_compare", "get_twice", "a_ref_in_a_list_stays_one",
         "refs_in_keyword_arguments", "refs_returned", "chains", "recursion_deeper_than_the_cpus", "closures", "several_returns",
         "generators_stream", "generators_fail_in_the_middle", "dynamic_generators", "generators_with_a_fixed_number", "called_directly",
         "wrong_arguments", "errors_have_the_class_of_the_function", "errors_of_own_classes", "errors_pass_through_tasks", "wait_for_errors",
         "wait_is_strict", "actors_keep_state_and_order", "actors_go_on_after_an_error", "constructors_that_fail", "named_actors", "namespaces",
         "handles_as_arguments", "unknown_methods", "methods_with_several_returns", "methods_that_generate", "await_in_the_driver",
         "actor_pools", "refs_in_functions_of_a_dataset"]


@pytest.fixture(scope="module")
def session():
    weir.shutdown()
    weir.init(num_cpus=2, local_mode=True)
    yield as_ray()
    weir.shutdown()


@pytest.mark.parametrize("name", CASES)
def test_as_ray(session, name):
    assert behaviours.run(session, name) == ANSWERS[name]


def test_in_this_process(session):
    @weir.remote
    def pid():
        return os.getpid()

    @weir.remote
    class A:
        def pid(self):
            return os.getpid()

    assert weir.get([pid.remote(), A.remote().pid.remote()]) == [os.getpid()] * 2
