"""Preprocessors: what learns from a Dataset and makes features of its columns. docs/preprocessors.md lists them.

    >>> import weir
    >>> from weir.preprocessors import Chain, OneHotEncoder, StandardScaler
    >>> ds = weir.from_items([{"x": 1.0, "c": "a"}, {"x": 3.0, "c": "b"}])
    >>> chain = Chain(StandardScaler(["x"]), OneHotEncoder(["c"]))
    >>> chain.fit_transform(ds).take()
    [{'x': -1.0, 'c': [1, 0]}, {'x': 1.0, 'c': [0, 1]}]
"""

from __future__ import annotations

from weir.preprocessors.chain import Chain
from weir.preprocessors.concatenator import Concatenator
from weir.preprocessors.discretizer import CustomKBinsDiscretizer, UniformKBinsDiscretizer
from weir.preprocessors.encoder import Categorizer, LabelEncoder, MultiHotEncoder, OneHotEncoder, OrdinalEncoder
from weir.preprocessors.hasher import FeatureHasher
from weir.preprocessors.imputer import SimpleImputer
from weir.preprocessors.normalizer import Normalizer
from weir.preprocessors.scaler import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from weir.preprocessors.tokenizer import Tokenizer
from weir.preprocessors.torch import TorchVisionPreprocessor
from weir.preprocessors.transformer import PowerTransformer
from weir.preprocessors.vectorizer import CountVectorizer, HashingVectorizer

__all__ = [
    "Categorizer",
    "Chain",
    "Concatenator",
    "CountVectorizer",
    "CustomKBinsDiscretizer",
    "FeatureHasher",
    "HashingVectorizer",
    "LabelEncoder",
    "MaxAbsScaler",
    "MinMaxScaler",
    "MultiHotEncoder",
    "Normalizer",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PowerTransformer",
    "RobustScaler",
    "SimpleImputer",
    "StandardScaler",
    "Tokenizer",
    "TorchVisionPreprocessor",
    "UniformKBinsDiscretizer",
]
