"""ray.data.preprocessors: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.preprocessors",
    "Categorizer Chain Concatenator CountVectorizer CustomKBinsDiscretizer FeatureHasher HashingVectorizer "
    "LabelEncoder MaxAbsScaler MinMaxScaler MultiHotEncoder Normalizer OneHotEncoder OrdinalEncoder "
    "PowerTransformer RobustScaler SimpleImputer StandardScaler Tokenizer TorchVisionPreprocessor "
    "UniformKBinsDiscretizer",
)
