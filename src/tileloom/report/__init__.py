"""What the compiler did, for people: traces of programs through all stages, as text and HTML."""

from .html import to_html
from .text import to_text
from .trace import Kernel, Stage, Trace, trace_graph, trace_script

__all__ = ["Kernel", "Stage", "Trace", "to_html", "to_text", "trace_graph", "trace_script"]
