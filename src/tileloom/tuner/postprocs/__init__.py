"""Postprocessors: steps after all sampling steps, which carry out what rules have annotated.

Each is a frozen dataclass with a method `apply(sch, context)`, which takes steps on a schedule
after its `enter_postproc` and answers whether the schedule is still a candidate.
"""

from __future__ import annotations
