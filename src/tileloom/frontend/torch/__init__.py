"""PyTorch: `torch.compile(model, backend="tileloom")`.

backend      what `torch.compile` calls; AOTAutograd traces, takes apart, differentiates
parts        the graph cut by operators without a rule   (registry, call, ops/)
assemble     parts compiled and joined                   (layout, kernel)
specialize   programs for graphs with symbolic sizes   (sizes, size_expressions, guards; sized)
report       what was left to PyTorch
"""

from .backend import tileloom
from .kernel import watching
from .registry import operators
from .report import CompileCounts, report

__all__ = ["CompileCounts", "operators", "report", "tileloom", "watching"]
