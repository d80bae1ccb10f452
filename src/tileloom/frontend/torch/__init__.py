"""PyTorch: `torch.compile(model, backend="tileloom")`.

backend      what `torch.compile` calls; AOTAutograd traces, takes apart, differentiates
parts        the graph cut by operators without a rule   (registry, call, ops/)
assemble     parts compiled and joined                   (layout, kernel)
specialize   programs for graphs with symbolic sizes   (sizes, size_expressions, guards; sized)
report       what was left to PyTorch
sparse_gradients  gradients of the operators of `tileloom.sparse`
             (attention_gradients, relation_gradients, segment_gradients)
"""

from __future__ import annotations

from ...base.late import room

# Type checkers read `__init__.pyi`.
room(
    __name__,
    backend="tileloom",
    kernel="watching",
    registry="operators",
    report="CompileCounts report",
    assemble="",
    frozen="",
    specialize="",
)
