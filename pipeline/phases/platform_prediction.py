"""A run's time on a platform, from the times of some occurrences of each phase there and here."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.special import stdtrit

from pipeline.arrays import Floats, integers
from pipeline.phase_tables import PLATFORM_PREDICTIONS
from pipeline.phases.occurrences import NOT_REPETITIVE, status_of
from pipeline.phases.phase_input import ExpansionRules, PhaseRules
from pipeline.report import Report, Tally

Figures = dict[str, float | None]
"""Columns of PLATFORM_PREDICTIONS."""


PRIOR_FREEDOM, LEAST_DEVIATION = 1, 0.05
"""The spread of a phase's times there is as if this many more of them had the relative deviation of all times here.

A few times rarely hold the rare slow ones, so that their own spread is too small. The deviation is at least the second
number: times that do not vary here may vary elsewhere. Chosen by how often intervals of BT, CG, LU, MG and simulated
steps hold; without each of them in turn the choice is the same, but half the deviation without LU.
"""


class _Phase(NamedTuple):
    """A phase of the reference run: how often it occurs, its time (s), and the relative deviation of its times."""

    n_occurrences: int
    time_s: float
    relative_sd: float


@dataclass(frozen=True, slots=True)
class _Part:
    """A phase's expanded time (s), its variance (0: timed whole), and how many times tell the spread."""

    time_s: float
    variance: float
    freedom: int


def expand(phases: pa.Table, times: pa.Table, rules: ExpansionRules) -> Figures:
    """The runtime on the platform of PHASE_TIMES, from the timed occurrences of relevant phases: runtime_s, the ends of
    its intervals, coverage, set_s, control_s and control_factor_s. The controls are None where nothing was timed.

    Regression form: the mean there, moved along the slope of the times there on those here to the mean of the whole
    phase here. Ratio form: the reference time by the ratio of the sums. Count form: equation (1) of Wong et al. 2014.
    """
    there_s, here_s = (times.column(name).to_numpy() for name in ("time_s", "reference_s"))
    is_warmup, is_control = (times.column(name).to_numpy(zero_copy_only=False) for name in ("is_warmup", "is_control"))
    is_timed, phase = ~is_warmup & ~is_control, integers(times.column("phase_id"))[0]
    ids, counts = (integers(phases.column(name))[0] for name in ("phase_id", "n_occurrences"))
    reference_s, shares, deviations = (phases.column(name).to_numpy() for name in ("time_s", "share", "relative_sd"))
    parts, coverage = [], 0.0
    for row in np.flatnonzero(phases.column("is_relevant").to_numpy(zero_copy_only=False)):
        mine = is_timed & (phase == ids[row])
        if mine.any():
            coverage += float(shares[row])
            one = _Phase(int(counts[row]), float(reference_s[row]), float(deviations[row]))
            parts.append(_part(there_s[mine], here_s[mine], one, rules))
    whole_s = float(reference_s.sum())
    control_s = _by_factor(there_s[is_control], here_s[is_control], whole_s)
    if np.isnan(whole_s) and is_control.any():
        # The reference run was not timed.
        control_s = int(counts.sum()) * float(there_s[is_control].mean())
    found: Figures = {
        "coverage": min(coverage, 1.0), "set_s": float(there_s[~is_control].sum()), "control_s": control_s,
        "control_factor_s": _by_factor(there_s[is_timed], here_s[is_timed], whole_s),
        **dict.fromkeys(("runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95")),
    }  # fmt: skip
    if not parts:
        return found
    divisor = coverage if rules.divide_by_coverage else 1.0
    runtime_s = sum(part.time_s for part in parts) / divisor
    found["runtime_s"] = runtime_s
    if spread := _spread(parts, divisor, runtime_s):
        least_s = min(float(there_s[is_timed].sum()), runtime_s)
        for level in (80, 95):
            width_s = spread[0] * float(stdtrit(min(spread[1], 1e9), (1 + level / 100) / 2))
            found |= {f"runtime_s_lo{level}": max(runtime_s - width_s, least_s)}
            found |= {f"runtime_s_hi{level}": runtime_s + width_s}
    return found


def _part(timed_s: Floats, here_s: Floats, phase: _Phase, rules: ExpansionRules) -> _Part:
    """One phase: the mean of the sample, moved along a slope from the sample's reference mean to the whole phase's.

    Source: Cochran 1977, Sections 2.8 (count), 6.4 (ratio) and 7.3 (regression), for a finite population.
    """
    n, mean_s, reference_s = len(timed_s), float(timed_s.mean()), phase.time_s
    if rules.form == "count":
        # The reference may not have been timed.
        here_s, reference_s = np.zeros(n), 0.0
    slope, is_fitted = _slope(timed_s, here_s, rules)
    around, step_s = here_s - here_s.mean(), reference_s / phase.n_occurrences - float(here_s.mean())
    freedom, time_s = n - 1 - is_fitted, phase.n_occurrences * (mean_s + slope * step_s)
    if n >= phase.n_occurrences:
        return _Part(time_s, 0.0, freedom)
    prior = PRIOR_FREEDOM * (max(phase.relative_sd, LEAST_DEVIATION) * mean_s) ** 2
    spread = (float(((timed_s - mean_s - slope * around) ** 2).sum()) + prior) / (freedom + PRIOR_FREEDOM)
    variance = (1 / n - 1 / phase.n_occurrences) * spread
    if is_fitted:
        # The slope is uniform between its bounds where the sample says less.
        bounds = float(timed_s.sum() / here_s.sum()) ** 2 / 12
        variance += step_s**2 * min(spread / float((around**2).sum()), bounds)
    return _Part(time_s, phase.n_occurrences**2 * variance, freedom)


def _slope(timed_s: Floats, here_s: Floats, rules: ExpansionRules) -> tuple[float, bool]:
    """How the time there grows with the time here, and whether that was fitted to the sample.

    It is between 0 (occurrences differ by chance alone) and the ratio (they differ by their work), which also a fit
    keeps to: few times would else give any slope.
    """
    n, ratio = len(timed_s), float(timed_s.sum() / here_s.sum()) if here_s.sum() > 0 else 0.0
    around = here_s - here_s.mean()
    if rules.form == "count":
        return 0.0, False
    if rules.form == "ratio" or n < 3 or not (around**2).sum() > 0:
        return ratio, False
    slope = float((around * (timed_s - timed_s.mean())).sum() / (around**2).sum())
    return min(max(slope, 0.0), ratio), 0.0 < slope < ratio


def _spread(parts: list[_Part], divisor: float, runtime_s: float) -> tuple[float, float] | None:
    """The standard error (s) and its degrees of freedom (Satterthwaite 1946); None where nothing tells the spread."""
    if not any(part.freedom for part in parts):
        return None
    total = sum(part.variance for part in parts) / divisor**2
    satterthwaite = sum((part.variance / divisor**2) ** 2 / (part.freedom + PRIOR_FREEDOM) for part in parts)
    # What was not timed may scale by anything from 0 to twice the mean: a uniform spread of 1 / sqrt(3).
    unknown = (max(1 - divisor, 0.0) * runtime_s) ** 2 / 3
    return float(np.sqrt(total + unknown)), (total + unknown) ** 2 / satterthwaite if satterthwaite else np.inf


def _by_factor(there_s: Floats, here_s: Floats, whole_s: float) -> float | None:
    """The whole reference time, scaled by the one factor of some samples."""
    return whole_s * float(there_s.sum()) / float(here_s.sum()) if here_s.sum() > 0 else None


RUN_IT_WHOLE = "The run is not repetitive: run it whole. Timing its phases takes almost as long as the run."


def predict_runtime(
    phases: pa.Table, times: pa.Table, rules: PhaseRules, *, procs: int, measured_s: float | None = None,
    application: str | None = None,
) -> tuple[pa.Table, Report]:  # fmt: skip
    """One row of PLATFORM_PREDICTIONS, and a Report of the times; `measured_s` is the true time where it is known.

    The status is of the reference trace alone: `not_repetitive` stands beside the figures of a run that has to be run
    whole.
    """
    found, status = expand(phases, times, rules.expansion), status_of(phases, rules.plan)
    runtime_s, set_s = found["runtime_s"], found["set_s"]
    row = found | {
        "trace_id": phases.column("trace_id")[0].as_py(), "platform": times.column("platform")[0].as_py(),
        "application": application, "procs": procs, "status": status, "measured_s": measured_s,
        "set_share": set_s / runtime_s if runtime_s and set_s is not None else None,
        "error": runtime_s / measured_s - 1 if runtime_s is not None and measured_s else None,
    }  # fmt: skip
    seen = Tally(times.num_rows)
    notes = (RUN_IT_WHOLE,) if status == NOT_REPETITIVE else ()
    table = PLATFORM_PREDICTIONS.build(**{name: [value] for name, value in row.items()})
    return table, Report("predict_phases", "time", seen, seen, notes=notes)
