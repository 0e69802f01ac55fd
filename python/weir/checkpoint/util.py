"""Finding the files that a piece has written, by the beginning of their names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any


class PrefixTrie:
    """Texts, and whether one of them is the beginning of another text.

    >>> trie = PrefixTrie()
    >>> trie.insert("ab")
    >>> trie.has_prefix_of("abc"), trie.has_prefix_of("ac")
    (True, False)
    """

    def __init__(self) -> None:
        self.children: dict[str, PrefixTrie] = {}
        self.is_end = False

    def insert(self, word: str) -> None:
        """Adds a text."""
        node = self
        for letter in word:
            node = node.children.setdefault(letter, PrefixTrie())
        node.is_end = True

    def has_prefix_of(self, word: str) -> bool:
        """Whether one of the texts begins `word`."""
        node: PrefixTrie | None = self
        for letter in word:
            if node is None or node.is_end:
                break
            node = node.children.get(letter)
        return node is not None and node.is_end


def build_pending_checkpoint_trie(file_paths: Iterable[Any], pending_suffix: str) -> PrefixTrie:
    """Of the names of pending files, without their ending. Paths, or objects that have one.

    >>> build_pending_checkpoint_trie(["c/x.pending.parquet"], ".pending.parquet").has_prefix_of("x_0.parquet")
    True
    """
    trie = PrefixTrie()
    for item in file_paths:
        name = os.path.basename(item if isinstance(item, str) else item.path)
        if name.endswith(pending_suffix):
            trie.insert(name.removesuffix(pending_suffix))
    return trie
