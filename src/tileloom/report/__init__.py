"""What the compiler did, for people: traces of programs through all stages, as text and HTML."""

from .html import to_html
from .text import to_text
from .trace import KERNEL_STAGES, ProgramTrace, TracedKernel, TraceStage, trace_graph, trace_script

__all__ = [
    "KERNEL_STAGES", "ProgramTrace", "TraceStage", "TracedKernel", "to_html", "to_text",
    "trace_graph", "trace_script",
]  # fmt: skip
