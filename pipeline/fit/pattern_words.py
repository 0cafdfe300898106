"""A pattern as advice: which processor counts to run on."""

import numpy as np

from pipeline.core.arrays import Floats

SHOWN = 5
"""Counts a sentence lists."""

_CLASS = {"powers_of_two": "all powers of two", "squares": "all squares", "node_multiples": "all whole nodes"}


def pattern_words(
    name: str, status: str, procs: Floats, factor: float, from_procs: float, node_procs: int | None
) -> str | None:
    """The sentence of one row of PATTERNS; null where nothing was found."""
    if status not in ("found", "one_class_only"):
        return None
    if name == "stepwise":
        faster = f"{1 / factor:.2f} times faster" if factor < 1 else f"{factor:.2f} times slower"
        return f"From {from_procs:.0f} processors on it runs {faster} than the curve of the smaller counts."
    if name == "declining":
        return f"Beyond {from_procs:.0f} processors it runs longer, not shorter: ask for no more."
    if status == "one_class_only":
        return f"Only ever ran on {_counts_that_ran(procs)}, {_CLASS[name]}: what other counts would take is not known."
    listed = f"{', '.join(str(count) for count in next_counts(name, procs, node_procs))}, ..."
    return f"Run on {listed}: other counts take {factor:.2f} times as long."


def _counts_that_ran(procs: Floats) -> str:
    """Every count, or the first few and the largest."""
    counts = [f"{count:.0f}" for count in np.unique(procs)]
    shown = counts if len(counts) <= SHOWN + 2 else [*counts[:SHOWN], "...", counts[-1]]
    return ", ".join(shown)


def next_counts(name: str, procs: Floats, node_procs: int | None) -> list[int]:
    """The class's first counts from the smallest size seen on."""
    smallest = float(procs.min())
    if name == "powers_of_two":
        start = int(np.ceil(np.log2(smallest)))
        return [2**k for k in range(start, start + SHOWN)]
    if name == "squares":
        start = int(np.ceil(np.sqrt(smallest)))
        return [k * k for k in range(start, start + SHOWN)]
    node = node_procs or 1
    start = max(int(np.ceil(smallest / node)), 1)
    return [k * node for k in range(start, start + SHOWN)]
