"""Which functions of weir a case really calls: what tools/parity.py says of a name is held against this."""
import os
import sys
import threading


class Watch:
    """Within the block, notes the functions of weir that are called: "_transform.py:Transforms.map"."""

    def __init__(self, package):
        self.package = os.path.realpath(package) + os.sep
        self.codes = set()
        self._seen = set()

    def _note(self, frame, event, _):
        if event == "call":
            self._seen.add(frame.f_code)

    def __enter__(self):
        sys.setprofile(self._note)
        threading.setprofile(self._note)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)
        self.codes = {key for key in (code_key(code, self.package) for code in self._seen.copy()) if key}


def code_key(code, package):
    """A function's place in the package; None: it is somewhere else."""
    path = os.path.realpath(code.co_filename)
    return f"{path.removeprefix(package)}:{code.co_qualname}" if path.startswith(package) else None
