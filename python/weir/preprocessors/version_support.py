"""The names under which preprocessors are saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["SerializablePreprocessor", "UnknownPreprocessorError"]

_Class = TypeVar("_Class", bound=type[Any])
_KNOWN: dict[str, type[Any]] = {}


class UnknownPreprocessorError(ValueError):
    """What was saved is of a class that this program does not have.

    >>> UnknownPreprocessorError("own").preprocessor_type
    'own'
    """

    def __init__(self, preprocessor_type: str) -> None:
        self.preprocessor_type = preprocessor_type
        super().__init__(
            f"Unknown preprocessor type: {preprocessor_type}. Import the module that defines it before loading what was saved"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return UnknownPreprocessorError, (self.preprocessor_type,)


def SerializablePreprocessor(version: int, identifier: str) -> Callable[[_Class], _Class]:
    """Makes a class known to `deserialize`: its objects are saved under `identifier`, in `version` of their fields.

    >>> from weir.preprocessor import SerializablePreprocessorBase
    >>> @SerializablePreprocessor(version=2, identifier="own.adder")
    ... class Adder(SerializablePreprocessorBase):
    ...     def _get_serializable_fields(self): return {}
    ...     def _set_serializable_fields(self, fields, version): pass
    >>> Adder.get_preprocessor_class_id(), Adder.get_version()
    ('own.adder', 2)
    """

    def known(cls: _Class) -> _Class:
        from weir.preprocessor import SerializablePreprocessorBase

        if not issubclass(cls, SerializablePreprocessorBase):
            raise TypeError(f"{cls.__module__}.{cls.__qualname__} must inherit from SerializablePreprocessorBase")
        cls.set_version(version)
        cls.set_preprocessor_class_id(identifier)
        _KNOWN[identifier] = cls
        return cls

    return known


def _lookup_class(serialization_id: str) -> type[Any]:
    if serialization_id not in _KNOWN:
        import weir.preprocessors  # noqa: F401  they make themselves known

    found = _KNOWN.get(serialization_id)
    if found is None:
        raise UnknownPreprocessorError(serialization_id)
    return found
