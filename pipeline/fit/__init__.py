"""Fits every law to every group's observations and chooses the one that answers for the group.

Before it, two screens of the same series: sizes that the others contradict, and patterns no smooth law has.
"""

from pipeline.fit.anomalies import screen
from pipeline.fit.pattern_levels import level, unlevel
from pipeline.fit.patterns import find_patterns
from pipeline.fit.stage import fit

__all__ = ["find_patterns", "fit", "level", "screen", "unlevel"]
