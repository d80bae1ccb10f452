"""An independent judge of schedules: exact checks of a program, and against its original.

`program` says what is proven; `extract` reads a program as instances and accesses (`model`), `flow`
finds what each read sees, `checks` judges the program alone, `compare` its results.
"""

from .program import verify_program
from .report import Point, Report, Violation

__all__ = ["Point", "Report", "Violation", "verify_program"]
