"""What the compiler and the tuner did, for people: as text and as HTML that needs nothing else."""

from ..base.late import TYPE_CHECKING, room
from .html import to_html
from .text import to_text
from .trace import KERNEL_STAGES, ProgramTrace, TracedKernel, TraceStage, trace_graph, trace_script

if TYPE_CHECKING:
    from .tuning import TaskHistory, TuningHistory, read_history, without_password
    from .tuning_page import tuning_html
    from .units import rate_text, ratio_text, time_text

__all__ = [
    "KERNEL_STAGES", "ProgramTrace", "TaskHistory", "TraceStage", "TracedKernel", "TuningHistory",
    "rate_text", "ratio_text", "read_history", "time_text", "to_html", "to_text", "trace_graph",
    "trace_script", "tuning_html", "without_password",
]  # fmt: skip

room(
    __name__, tuning="TaskHistory TuningHistory read_history without_password",
    tuning_page="tuning_html", units="rate_text ratio_text time_text",
)  # fmt: skip
