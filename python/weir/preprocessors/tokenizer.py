"""Tokenizer: texts become lists of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from weir.preprocessors._columns import ColumnPreprocessor, Field, Given, column
from weir.preprocessors.utils import simple_split_tokenizer
from weir.preprocessors.version_support import SerializablePreprocessor

__all__ = ["Tokenizer"]


def function_name(function: Any) -> str:
    """A function as Ray Data shows it.

    >>> function_name(len)
    'len'
    """
    return str(getattr(function, "__name__", function))


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.tokenizer")
class Tokenizer(ColumnPreprocessor):
    """Each text as a list of tokens; null stays null.

    Args:
        columns: the columns of texts.
        tokenization_fn: gives the tokens of a text; None: the text is cut at each blank, by the engine.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> Tokenizer(["t"]).transform(weir.from_items([{"t": "to be"}])).take()
    [{'t': ['to', 'be']}]
    """

    columns = Field[list[str]]()
    tokenization_fn = Field[Callable[[str], list[str]]]()
    output_columns = Field[list[str]]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "tokenization_fn", "output_columns")
    _shown_fields: ClassVar[tuple[str, ...]] = _saved_fields
    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        tokenization_fn: Callable[[str], list[str]] | None = None,
        output_columns: list[str] | None = None,
    ) -> None:
        super().__init__()
        self._columns = columns
        self._tokenization_fn = tokenization_fn or simple_split_tokenizer
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _shown(self, name: str) -> str:
        return function_name(self._tokenization_fn) if name == "tokenization_fn" else super()._shown(name)

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        if self._tokenization_fn is not simple_split_tokenizer:
            return None
        return {output: f'split({column(name)}, " ")' for name, output in zip(self._columns, self._output_columns, strict=True)}

    def _changed(self, given: Given) -> dict[str, Any]:
        split = self._tokenization_fn
        return {output: [None if text is None else split(text) for text in given.values(name)]
                for name, output in zip(self._columns, self._output_columns, strict=True)}
