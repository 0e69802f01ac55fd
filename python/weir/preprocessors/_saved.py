"""Preprocessors as bytes, without pickle.

    b"WEIR-PREPROCESSOR 1\\n" ‖ JSON, UTF-8:
    {"type": "io.ray.preprocessors.standard_scaler", "version": 1, "serializer_format_version": 1,
     "fields": {"columns": ["a"], …}, "stats": {"mean(a)": 1.5, …}}

JSON's own values stand for themselves. Others are an object with the one key "$kind":

    {"$tuple": […]} {"$set": […]} {"$frozenset": […]} {"$dict": [[key, value], …]} {"$counter": [[value, count], …]}
    {"$float": "nan" | "inf" | "-inf"} {"$bytes": base64} {"$decimal": "1.5"} {"$datetime" | "$date" | "$time": ISO 8601}
    {"$timedelta": microseconds} {"$array": [dtype, shape, base64 of the values, little-endian]} {"$scalar": [dtype, base64]}
    {"$dtype": "<f4"} {"$class": "float32"} (of NumPy) {"$categories": [values, ordered]} {"$intervals": [left, right, closed]}
    {"$function": name} (those of FUNCTIONS) {"$preprocessor": what stands at the top}

Reading makes nothing but these: no name in the bytes is imported, and nothing in them is called. A preprocessor with a function of
the user's (a tokenizer, a transform of images) has no such form: it is pickled, behind b"WEIR-PICKLED 1\\n" and a signature by
which this process knows its own bytes. Pickles of others are refused, unless the caller says that they are to be trusted.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.preprocessor import Preprocessor

MAGIC = b"WEIR-PREPROCESSOR 1\n"
PICKLED = b"WEIR-PICKLED 1\n"
RAYS = b"CPKL:"  # what Ray Data writes
_KEY = os.urandom(32)
_SIGNATURE_BYTES = 32
_TYPES = "biufcMm"  # of arrays whose bytes say everything


class NotPlain(TypeError):
    """A value that has no form here."""


def _functions() -> dict[str, Callable[..., Any]]:
    from weir.preprocessors.utils import simple_split_tokenizer

    names = ("split", "splitlines", "lower", "upper", "strip", "casefold", "title")
    return {"simple_split_tokenizer": simple_split_tokenizer, "list": list, "str": str, **{f"str.{name}": getattr(str, name) for name in names}}


# ---- values ----

def encoded(value: Any) -> Any:
    """A value as JSON has it; NotPlain where it has none.

    >>> encoded({"a": (1, float("nan"))})
    {'$dict': [['a', {'$tuple': [1, {'$float': 'nan'}]}]]}
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if kind is list:
        return [encoded(v) for v in value]
    if kind in (tuple, set, frozenset):
        return {f"${kind.__name__}": [encoded(v) for v in value]}
    if kind is Counter:
        return {"$counter": [[encoded(k), encoded(v)] for k, v in value.items()]}
    if isinstance(value, dict):
        return {"$dict": [[encoded(k), encoded(v)] for k, v in value.items()]}
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(value).decode()}
    for name, function in _functions().items():
        if value is function:
            return {"$function": name}
    if kind is decimal.Decimal:
        return {"$decimal": str(value)}
    if kind in (datetime.datetime, datetime.date, datetime.time):
        return {f"${kind.__name__}": value.isoformat()}
    if kind is datetime.timedelta:
        return {"$timedelta": value // datetime.timedelta(microseconds=1)}
    return _of_libraries(value)


def _of_libraries(value: Any) -> Any:
    from weir.preprocessor import SerializablePreprocessorBase

    kind = type(value)
    if isinstance(value, SerializablePreprocessorBase):
        return {"$preprocessor": _plain(value)}
    module = kind.__module__.partition(".")[0]
    if isinstance(value, type):
        if value.__module__ == "numpy":
            return {"$class": value.__name__}
    elif module == "numpy":
        import numpy as np

        if isinstance(value, np.dtype):
            return {"$dtype": value.str}
        if isinstance(value, np.ndarray) and value.dtype.kind in _TYPES:
            little = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
            return {"$array": [little.dtype.str, list(little.shape), base64.b64encode(little.tobytes()).decode()]}
        if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
            return encoded(value.tolist())
        if isinstance(value, np.generic) and value.dtype.kind in _TYPES:
            one = np.asarray(value, value.dtype.newbyteorder("<"))
            return {"$scalar": [one.dtype.str, base64.b64encode(one.tobytes()).decode()]}
        if isinstance(value, (np.str_, np.bytes_)):
            return encoded(value.item())
    elif module == "pandas":
        if kind.__name__ == "CategoricalDtype":
            categories = value.categories
            return {"$categories": [None if categories is None else encoded(categories.tolist()), bool(value.ordered)]}
        if kind.__name__ == "IntervalIndex":
            return {"$intervals": [encoded(value.left.tolist()), encoded(value.right.tolist()), value.closed]}
        if kind.__name__ in ("Timestamp", "Timedelta"):
            return encoded(value.to_numpy() if getattr(value, "tz", None) is None else value.to_pydatetime())
    raise NotPlain(f"a value of type {kind.__module__}.{kind.__qualname__}: {value!r:.60}")


def decoded(value: Any) -> Any:
    """What `encoded` was given.

    >>> decoded({"$dict": [["a", {"$tuple": [1, {"$float": "inf"}]}]]})
    {'a': (1, inf)}
    """
    if isinstance(value, list):
        return [decoded(v) for v in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise ValueError(f"an object with one key is wanted, not with {len(value)}")
    kind, inner = next(iter(value.items()))
    read = _READ.get(kind)
    if read is None:
        raise ValueError(f"{kind!r} is no kind of value")
    return read(inner)


def _pairs(inner: Any) -> list[tuple[Any, Any]]:
    return [(decoded(k), decoded(v)) for k, v in inner]


def _dtype(text: Any) -> Any:
    import numpy as np

    made = np.dtype(str(text))
    if made.kind not in _TYPES:
        raise ValueError(f"{text!r} is no type of numbers")
    return made


def _array(inner: Any) -> Any:
    import numpy as np

    text, shape, data = inner
    return np.frombuffer(base64.b64decode(data, validate=True), _dtype(text)).reshape([int(n) for n in shape]).copy()


def _scalar(inner: Any) -> Any:
    import numpy as np

    return np.frombuffer(base64.b64decode(inner[1], validate=True), _dtype(inner[0]))[0]


def _class(inner: Any) -> Any:
    import numpy as np

    found = getattr(np, str(inner), None)
    if not (isinstance(found, type) and issubclass(found, np.generic)):
        raise ValueError(f"{inner!r} is no type of NumPy's")
    return found


def _categories(inner: Any) -> Any:
    import pandas as pd

    return pd.CategoricalDtype(decoded(inner[0]), bool(inner[1]))


def _intervals(inner: Any) -> Any:
    import pandas as pd

    return pd.IntervalIndex.from_arrays(decoded(inner[0]), decoded(inner[1]), closed=str(inner[2]))


def _function(inner: Any) -> Any:
    found = _functions().get(inner)
    if found is None:
        raise ValueError(f"{inner!r} is no function that may be saved by name")
    return found


_READ: dict[str, Callable[[Any], Any]] = {
    "$tuple": lambda inner: tuple(decoded(v) for v in inner),
    "$set": lambda inner: {decoded(v) for v in inner},
    "$frozenset": lambda inner: frozenset(decoded(v) for v in inner),
    "$dict": lambda inner: dict(_pairs(inner)),
    "$counter": lambda inner: Counter(dict(_pairs(inner))),
    "$float": lambda inner: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[inner],
    "$bytes": lambda inner: base64.b64decode(inner, validate=True),
    "$function": _function,
    "$decimal": lambda inner: decimal.Decimal(str(inner)),
    "$datetime": datetime.datetime.fromisoformat,
    "$date": datetime.date.fromisoformat,
    "$time": datetime.time.fromisoformat,
    "$timedelta": lambda inner: datetime.timedelta(microseconds=int(inner)),
    "$array": _array,
    "$scalar": _scalar,
    "$dtype": _dtype,
    "$class": _class,
    "$categories": _categories,
    "$intervals": _intervals,
    "$preprocessor": lambda inner: made(inner, decoded),
}


# ---- preprocessors ----

def _plain(preprocessor: Any) -> dict[str, Any]:
    return {
        "type": preprocessor.get_preprocessor_class_id(),
        "version": preprocessor.get_version(),
        "serializer_format_version": preprocessor.SERIALIZER_FORMAT_VERSION,
        "fields": {name: encoded(value) for name, value in preprocessor._get_serializable_fields().items()},
        "stats": encoded(dict(preprocessor._get_stats())),
    }


def saved(preprocessor: Any) -> bytes:
    """The bytes of one that has fields of its own."""
    try:
        return MAGIC + json.dumps(_plain(preprocessor), ensure_ascii=False, allow_nan=False).encode()
    except NotPlain:
        return pickled(preprocessor)


def pickled(preprocessor: Any) -> bytes:
    """The bytes of any other."""
    import cloudpickle

    body = bytes(cloudpickle.dumps(preprocessor))
    return PICKLED + _signature(body) + body


def _signature(body: bytes) -> bytes:
    import hmac

    return hmac.digest(_KEY, body, "sha256")


def loaded(data: bytes, allow_pickle: bool = False) -> Preprocessor:
    """The preprocessor of `saved` or `pickled`; of Ray Data's bytes too, which are pickles."""
    if data.startswith(MAGIC):
        return made(json.loads(data[len(MAGIC):]), decoded)
    if data.startswith(PICKLED):
        import hmac
        import pickle

        at = len(PICKLED) + _SIGNATURE_BYTES
        body = data[at:]
        if not allow_pickle and not hmac.compare_digest(data[len(PICKLED):at], _signature(body)):
            raise _refused("a pickle that another process made, since it has a function or a class of its own")
        return _checked(pickle.loads(body))
    if data.startswith(RAYS):
        if not allow_pickle:
            raise _refused("a pickle that Ray Data made")
        import pickle

        return made(pickle.loads(data[len(RAYS):]), lambda value: value)
    raise ValueError(f"these bytes are no saved preprocessor: they begin with {data[:20]!r}")


def _refused(what: str) -> ValueError:
    return ValueError(f"this is {what}; a pickle runs whatever its writer wanted: deserialize(…, allow_pickle=True) if you trust it")


def _checked(value: Any) -> Preprocessor:
    from weir.preprocessor import Preprocessor

    if not isinstance(value, Preprocessor):
        raise ValueError(f"these bytes are no preprocessor, but {type(value).__name__}")
    return value


def made(meta: Any, read: Callable[[Any], Any]) -> Preprocessor:
    """An object of its fields and what it has learnt."""
    from weir.preprocessors.utils import StatComputationPlan
    from weir.preprocessors.version_support import _lookup_class

    if not isinstance(meta, Mapping) or not isinstance(meta.get("type"), str):
        raise ValueError("the type is missing")
    cls = _lookup_class(meta["type"])
    if meta["serializer_format_version"] != cls.SERIALIZER_FORMAT_VERSION:
        raise ValueError(f"it has version {meta['serializer_format_version']!r} of the format, and this is {cls.SERIALIZER_FORMAT_VERSION}")
    new: Any = object.__new__(cls)
    new._stat_computation_plan = StatComputationPlan()
    new._set_serializable_fields(fields={name: read(value) for name, value in meta["fields"].items()}, version=meta["version"])
    new._set_stats(stats=read(meta["stats"]))
    return _checked(new)
