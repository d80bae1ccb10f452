"""`tvm.meta_schedule.testing`: helpers of tests."""

from __future__ import annotations

from ..._names import missing

__getattr__ = missing(__name__)
