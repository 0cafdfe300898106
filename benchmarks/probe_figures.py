"""Figures of probes: agreement of two clusterings, and predictions from k evenly spaced intervals of each phase."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.special import comb

from pipeline.phases.occurrences import evenly_spaced, make_plan
from pipeline.phases.phase_input import ExpansionRules, PlanRules
from pipeline.phases.platforms import Figures, expand, planned_times

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def adjusted_rand_index(one: Integers, other: Integers) -> float:
    """Agreement of two labellings of the same items: 1 the same, 0 as by chance (Hubert and Arabie 1985)."""
    ones, others = (np.unique(labels, return_inverse=True)[1] for labels in (one, other))
    table = np.zeros((ones.max() + 1, others.max() + 1))
    np.add.at(table, (ones, others), 1)
    pairs, rows, columns = (float(comb(part, 2).sum()) for part in (table, table.sum(1), table.sum(0)))
    expected = rows * columns / float(comb(len(one), 2))
    return 1.0 if rows == columns == expected else (pairs - expected) / ((rows + columns) / 2 - expected)


RULES: dict[str, ExpansionRules] = {
    "count": ExpansionRules(form="count", even_width=0.0),
    "regression": ExpansionRules(form="regression", even_width=0.0),
    "ratio": ExpansionRules(form="ratio", even_width=0.0),
    "answer": ExpansionRules(),
}
"""How intervals become the runtime."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One prediction: relative errors of it and of the control, coverage, share of time, and whether it is even."""

    error: float
    control_error: float
    in_80: bool
    in_95: bool
    width_95: float
    set_share: float
    is_even: bool


def predicted(phases: pa.Table, points: pa.Table, target_s: Floats, samples: int, form: str) -> Scored:
    """The whole time on the target from `samples` intervals of each phase, and from as many without phases.

    `form` is that of the phases alone, or "answer": what the command answers.
    """
    plan = make_plan(phases, points, PlanRules(budget=1e-9, least_samples=samples, warmup=0))[0]
    times = planned_times(points, plan, target_s, "target")
    found = expand(phases, times, RULES[form])
    return _scored(found, found["control_s"], float(target_s.sum()))


def _scored(found: Figures, control_s: float, true_s: float) -> Scored:
    names = ("runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95", "set_s")
    runtime_s, lo80, hi80, lo95, hi95, set_s = (found[name] or float("nan") for name in names)
    return Scored(
        abs(runtime_s / true_s - 1),
        abs(control_s / true_s - 1),
        lo80 <= true_s <= hi80,
        lo95 <= true_s <= hi95,
        (hi95 - lo95) / 2 / true_s,
        set_s / true_s,
        found["method"] == "even",
    )


def one_each(representatives: Integers, weights: Floats, target_s: Floats) -> Scored:
    """The whole time from one interval of each phase and shares of intervals, as SimPoint's own files are used."""
    chosen = representatives >= 0
    timed_s = target_s[representatives[chosen]]
    n = len(target_s)
    runtime_s = n * float((weights[chosen] * timed_s).sum() / weights[chosen].sum())
    spaced = target_s[evenly_spaced(n, int(chosen.sum()))]
    true_s, nan = float(target_s.sum()), float("nan")
    control_s = n * float(spaced.mean())
    return Scored(
        abs(runtime_s / true_s - 1),
        abs(control_s / true_s - 1),
        False,
        False,
        nan,
        float(timed_s.sum()) / true_s,
        False,
    )
