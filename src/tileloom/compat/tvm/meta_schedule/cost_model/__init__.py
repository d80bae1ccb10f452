"""`tvm.meta_schedule.cost_model`: how fast candidates will be."""

from __future__ import annotations

from ..._names import missing
from . import metric
from .cost_model import CostModel, PyCostModel, RandomModel
from .xgb_model import XGBModel

__all__ = ["CostModel", "PyCostModel", "RandomModel", "XGBModel", "metric"]
__getattr__ = missing(__name__)
