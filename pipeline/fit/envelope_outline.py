"""What ADEPT's envelope leaves open, as runtimes: between which two lines the curves lie that it holds.

A. Deshmeh, University of Windsor 2013 (ADEPT), Appendix A: envelope.py gives the boxes of (A, sigma) that the
observations allow when each may be off by delta. Of the curves in them those count that are off by delta at no
observation; delta grows, as in the search, until there is one.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.core.adept_settings import AdeptSettings
from pipeline.core.arrays import Floats, Ints
from pipeline.core.compiled import entry_kernel, kernel
from pipeline.fit.downey_kernels import downey
from pipeline.fit.envelope import A_FROM, A_TO, BOTH, IS_HIGH, SIGMA_FROM, SIGMA_TO, derive, most_boxes

MIN_POINTS = 3
"""As the search: fewer leave every envelope open."""

PER_SIDE = 25
"""Values of A, and of sigma, tried in each box."""

MOST_PAIRED = 8
"""Sizes whose pairs give boxes, evenly spread: a curve that holds at every size lies in every pair's boxes anyway."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The least and the largest runtime (s) at each count asked for, and the relative error that it took."""

    lo_s: Floats
    hi_s: Floats
    delta: float


def outline(procs: Floats, runtime_s: Floats, at: Floats, settings: AdeptSettings | None = None) -> Outline | None:
    """Of one series, by rising procs; None where it has too few sizes, or no curve comes within half of every one."""
    settings = settings or AdeptSettings()
    if len(procs) < MIN_POINTS:
        return None
    lo_s, hi_s = np.full(len(at), np.inf), np.zeros(len(at))
    paired = np.unique(np.linspace(0, len(procs) - 1, MOST_PAIRED).astype(np.int64))
    for delta in settings.delta * np.arange(1, int(np.ceil(0.5 / settings.delta)) + 1):
        # Fine enough that an edge is off by an eighth of delta.
        step = 1.0 + delta / 4.0
        n_scales = 1 + int(np.log(2.0 * settings.reach) / np.log(step)) if settings.scale == "free" else 1
        highest = 2.0 * float(runtime_s.min()) if settings.scale == "free" else 1.0
        if spanned(procs, runtime_s, paired, float(delta), highest, n_scales, step, at, lo_s, hi_s):
            return Outline(lo_s, hi_s, float(delta))
    return None


@kernel
def holds(n: Floats, t: Floats, delta: float, tau: float, A: float, sigma: float, is_high: bool) -> bool:
    """Whether the curve is off by no more than delta anywhere."""
    p = 0
    while p < len(n) and abs(1.0 - tau * downey(n[p], A, sigma, is_high) / t[p]) <= delta:
        p += 1
    return p == len(n)


@kernel
def widen(at: Floats, tau: float, A: float, sigma: float, is_high: bool, lo_s: Floats, hi_s: Floats) -> None:
    """Make lo_s and hi_s hold one curve more."""
    for p in range(len(at)):
        curve_s = tau * downey(at[p], A, sigma, is_high)
        lo_s[p], hi_s[p] = min(lo_s[p], curve_s), max(hi_s[p], curve_s)


@entry_kernel
def spanned(
    n: Floats, t: Floats, paired: Ints, delta: float, highest: float, n_scales: int, scale_step: float, at: Floats,
    lo_s: Floats, hi_s: Floats,
) -> bool:  # fmt: skip
    """Widen lo_s and hi_s to every curve of the envelope's boxes, at every scale, that holds; whether one does."""
    boxes, is_found, tau = np.empty((most_boxes(len(paired)), 5)), False, highest
    for _ in range(n_scales):
        count = derive(n[paired], t[paired] / tau, delta, BOTH, boxes)
        for k in range(count):
            lo, hi = boxes[k, A_FROM], min(boxes[k, A_TO], (n * t).max() * (1.0 + delta) / tau)
            is_high = boxes[k, IS_HIGH] == 1.0
            for i in range(PER_SIDE * PER_SIDE if lo <= hi else 0):
                A = lo * (hi / lo) ** (i // PER_SIDE / (PER_SIDE - 1.0))
                share = i % PER_SIDE / (PER_SIDE - 1.0)
                sigma = boxes[k, SIGMA_FROM] * (1.0 - share) + boxes[k, SIGMA_TO] * share
                if holds(n, t, delta, tau, A, sigma, is_high):
                    is_found = True
                    widen(at, tau, A, sigma, is_high, lo_s, hi_s)
        tau /= scale_step
    return is_found
