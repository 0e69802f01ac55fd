"""Where Ray keeps RefBundle."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir.ref_bundle", "BlockEntry BlockSlice RefBundle _ref_bundles_iterator_to_block_refs_list")
