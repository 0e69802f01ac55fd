"""Vectorizers: texts become lists of how often tokens occur in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from weir._expr_literals import text_literal
from weir.preprocessors._columns import ColumnPreprocessor, Field, Given, column, is_text
from weir.preprocessors.tokenizer import function_name
from weir.preprocessors.utils import simple_hash, simple_split_tokenizer
from weir.preprocessors.version_support import SerializablePreprocessor

if TYPE_CHECKING:
    from weir.dataset import Dataset

__all__ = ["CountVectorizer", "HashingVectorizer"]

PLACES_MAX = 10_000  # of the engine's lists; beyond, workers fill them


class _Vectorizer(ColumnPreprocessor):
    columns = Field[list[str]]()
    tokenization_fn = Field[Callable[[str], list[str]]]()
    output_columns = Field[list[str]]()

    def __init__(
        self, columns: list[str], tokenization_fn: Callable[[str], list[str]] | None, output_columns: list[str] | None
    ) -> None:
        super().__init__()
        self._columns = columns
        self._tokenization_fn = tokenization_fn or simple_split_tokenizer
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)

    def _shown(self, name: str) -> str:
        return function_name(self._tokenization_fn) if name == "tokenization_fn" else super()._shown(name)

    def _places(self, name: str) -> tuple[Callable[[str], int], int]:
        """The place of a token, -1 for none, and how many places there are."""
        raise NotImplementedError

    def _counts(self, name: str, tokens: str) -> str | None:
        """The expression of the counts, of one of the tokens; None: workers do it."""
        raise NotImplementedError

    def _texts(self, known: dict[str, str] | None) -> dict[str, str] | None:
        if self._tokenization_fn is not simple_split_tokenizer or known is None:
            return None
        made = {}
        for name, output in zip(self._columns, self._output_columns, strict=True):
            text = self._counts(name, f'split({column(name)}, " ")') if is_text(known[name]) else None
            if text is None:
                return None
            made[output] = text
        return made

    def _changed(self, given: Given) -> dict[str, Any]:
        split = self._tokenization_fn
        made: dict[str, Any] = {}
        for name, output in zip(self._columns, self._output_columns, strict=True):
            place, count = self._places(name)
            rows: list[list[int] | None] = []
            for text in given.values(name):
                if text is None:
                    rows.append(None)
                    continue
                counts = [0] * count
                for token in split(text):
                    at = place(token)
                    if at >= 0:
                        counts[at] += 1
                rows.append(counts)
            made[output] = rows
        return made


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.hashing_vectorizer")
class HashingVectorizer(_Vectorizer):
    """How often tokens occur in each text, in `num_features` places: a token's place is its hash, so that several may share one.

    Args:
        columns: the columns of texts.
        num_features: how many places.
        tokenization_fn: gives the tokens of a text; None: the text is cut at each blank.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> HashingVectorizer(["t"], num_features=4).transform(weir.from_items([{"t": "a b a"}])).take()
    [{'t': [0, 1, 0, 2]}]
    """

    num_features = Field[int]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "num_features", "tokenization_fn", "output_columns")
    _shown_fields: ClassVar[tuple[str, ...]] = _saved_fields
    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        num_features: int,
        tokenization_fn: Callable[[str], list[str]] | None = None,
        *,
        output_columns: list[str] | None = None,
    ) -> None:
        super().__init__(columns, tokenization_fn, output_columns)
        self._num_features = num_features

    def _counts(self, name: str, tokens: str) -> str | None:
        return f"hashed_counts({tokens}, {self._num_features})" if 0 < self._num_features <= PLACES_MAX else None

    def _places(self, name: str) -> tuple[Callable[[str], int], int]:
        known: dict[str, int] = {}

        def place(token: str) -> int:
            found = known.get(token)
            if found is None:
                found = known[token] = simple_hash(token, self._num_features)
            return found

        return place, self._num_features


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.count_vectorizer")
class CountVectorizer(_Vectorizer):
    """How often each token of the column occurs in each text: the most frequent token first, of equally frequent ones the first seen.

    Args:
        columns: the columns of texts, each with its own tokens.
        tokenization_fn: gives the tokens of a text; None: the text is cut at each blank.
        max_features: how many tokens at most: the most frequent ones.
        output_columns: their names afterwards; None: the same.

    >>> import weir
    >>> ds = weir.from_items([{"t": "a b a"}, {"t": "b c"}])
    >>> CountVectorizer(["t"]).fit_transform(ds).take()
    [{'t': [2, 1, 0]}, {'t': [0, 1, 1]}]
    """

    max_features = Field["int | None"]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "tokenization_fn", "max_features", "output_columns")
    _shown_fields: ClassVar[tuple[str, ...]] = _saved_fields

    def __init__(
        self,
        columns: list[str],
        tokenization_fn: Callable[[str], list[str]] | None = None,
        max_features: int | None = None,
        *,
        output_columns: list[str] | None = None,
    ) -> None:
        super().__init__(columns, tokenization_fn, output_columns)
        self._max_features = max_features

    def _fit(self, ds: Dataset) -> CountVectorizer:
        from collections import Counter

        from weir.preprocessors._counts import tokens

        for name, counter in tokens(ds, self._columns, self._tokenization_fn, self).items():
            self.stats_[f"token_counts({name})"] = Counter(dict(counter.most_common(self._max_features)))
        return self

    def _counts(self, name: str, tokens: str) -> str | None:
        places = [token for token, _ in self.stats_[f"token_counts({name})"].most_common()]
        if not places or len(places) > PLACES_MAX:
            return None
        try:
            return f"counts_in({tokens}, {', '.join(map(text_literal, places))})"
        except UnicodeEncodeError:
            return None

    def _places(self, name: str) -> tuple[Callable[[str], int], int]:
        places = {token: at for at, (token, _) in enumerate(self.stats_[f"token_counts({name})"].most_common())}
        return lambda token: places.get(token, -1), len(places)
