"""What makes a prediction doubtful, as codes, and what to do about it, in a sentence."""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Bools, Floats
from pipeline.core.settings import PredictSettings
from pipeline.laws import LAWS
from pipeline.predict.curves import Curves
from pipeline.predict.intervals import doublings_beyond

Words = npt.NDArray[np.object_]

FEW_SIZES = 4
"""Fewer, or fewer than two more than the law has parameters, and leave-one-out judges by a point or two."""


def doubts(curves: Curves, procs: Floats, is_open: Bools, settings: PredictSettings) -> dict[str, Bools]:
    """Per code, where it holds; gravest first."""
    points = curves["n_points"]
    parameters = np.array([LAWS[law].n_parameters for law in curves.law], np.float64)
    above = procs > curves["procs_max"]
    return {
        "one_size": points == 1,
        "wide_group": curves["core_log_sd"] > settings.wide_log_sd,
        "tail_unidentified": is_open & above,
        "few_sizes": (points > 1) & (points < np.maximum(FEW_SIZES, parameters + 2)),
        "high_error": curves["loo_log_rmse"] > settings.high_log_error,
        "far": doublings_beyond(curves, procs) > 1,
    }


def reliability(held: dict[str, Bools]) -> Words:
    """The codes that hold, joined by +; ok where none does."""
    words = np.full(len(next(iter(held.values()))), "", object)
    for code, where in held.items():
        words[where] = np.where(words[where] == "", code, words[where] + "+" + code)
    words[words == ""] = "ok"
    return words


def advice(curves: Curves, held: dict[str, Bools], max_procs: int | None) -> Words:
    """A sentence for the gravest code; where there is none, the largest useful allocation, or null."""
    sentences = np.full(len(curves), None, object)
    largest = curves.largest_useful_procs()
    bounded = np.flatnonzero(np.isfinite(largest) & (curves.law != "constant"))
    sentences[bounded] = [f"Beyond {int(largest[row])} processors nothing more is gained." for row in bounded]
    for code, where in reversed(held.items()):
        rows = np.flatnonzero(where)
        sentences[rows] = [_sentence(code, curves, int(row), max_procs) for row in rows]
    return sentences


def next_procs(smallest: int, largest: int, max_procs: int | None) -> int:
    """The processor count to run on next: twice the largest seen, else the whole machine, else one within."""
    if max_procs is None or largest < max_procs:
        return min(largest * 2, max_procs or largest * 2)
    return smallest // 2 if smallest > 1 else max(round((smallest * largest) ** 0.5), 1)


def _sentence(code: str, curves: Curves, row: int, max_procs: int | None) -> str:
    points, smallest, largest = (int(curves[name][row]) for name in ("n_points", "procs_min", "procs_max"))
    run_next = f"Run on {next_procs(smallest, largest, max_procs)} processors next"
    if code == "tail_unidentified" and max_procs is not None and largest >= max_procs:
        return f"Runtime still falls at {largest}, the whole machine: where scaling ends cannot be seen here."
    return {
        "one_size": f"{run_next}: one size says nothing about another.",
        "wide_group": f"Repeats differ by a factor of {np.exp(curves['core_log_sd'][row]):.1f}: the group mixes "
        "different work; narrow the template or name the problem size.",
        "tail_unidentified": f"{run_next}: runtime still falls at {largest}, so where scaling ends is not known.",
        "few_sizes": f"{run_next}: {points} sizes hardly tell the laws apart.",
        "off_law": "The law misses what ran at this size; what ran there counts.",
        "high_error": f"No law comes close (leave-one-out error {curves['loo_log_rmse'][row]:.0%}): look at the runs.",
        "far": f"Nothing beyond {largest} or below {smallest} processors was seen.",
    }[code]
