"""The list of cases of core_behaviours.py, and how an exception is told in an answer."""
NAMES = ("RayTaskError", "RayActorError", "ActorDiedError", "ActorUnavailableError", "WorkerCrashedError", "GetTimeoutError", "TimeoutError",
         "TaskCancelledError", "ObjectLostError", "ValueError", "TypeError", "KeyError", "ZeroDivisionError", "RuntimeError", "AttributeError",
         "AssertionError", "KeyboardInterrupt", "SystemExit", "StopIteration", "RayError", "Custom")


class Custom(Exception):
    def __init__(self, code, detail):
        super().__init__(code, detail)
        self.code = code


def caught(function):
    try:
        return ["no error", repr(function())]
    except BaseException as error:
        return sorted({cls.__name__ for cls in type(error).__mro__} & set(NAMES))


CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function
