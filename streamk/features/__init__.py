"""Random features: seeded by a counter-based generator, growing without end."""

from streamk.features.columns import Column, column_key, column_keys
from streamk.features.random_features import RandomFeatures
from streamk.features.samplers import SAMPLERS

__all__ = ["SAMPLERS", "Column", "RandomFeatures", "column_key", "column_keys"]
