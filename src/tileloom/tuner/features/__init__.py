"""Features of scheduled programs, from which a cost model tells how fast they are."""

from .extract import per_store_features
from .names import FEATURE_NAMES, feature_names

__all__ = ["FEATURE_NAMES", "feature_names", "per_store_features"]
