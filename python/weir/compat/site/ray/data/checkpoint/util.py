"""ray.data.checkpoint.util: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.checkpoint.util weir.checkpoint",
    "build_pending_checkpoint_trie PrefixTrie",
)
