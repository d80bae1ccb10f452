"""The tuner: design spaces, search, a cost model, measurements and what they have found."""

from __future__ import annotations
