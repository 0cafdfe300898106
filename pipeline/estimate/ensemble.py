"""The estimator's ensemble: several methods blended by their recent errors, with calibrated quantiles."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints, median
from pipeline.estimate.blend import blended
from pipeline.estimate.chains import CROWD, MEAN, OWN, QUANTILE, ChainQuery, latest_of
from pipeline.estimate.score import CALIBRATED, N_QUANTILES
from pipeline.estimate.similar_jobs import similar_jobs_quantiles
from pipeline.estimate.state import Learnt, Outputs, State, live_widths, no_outputs
from pipeline.estimate.submits import Events, Jobs, capped
from pipeline.kernels import entry_kernel, kernel, uncounted_kernel
from pipeline.workers import together

if TYPE_CHECKING:
    from pipeline.estimate.estimate_rules import EstimateRules


SLACK = 3.0
"""How far a position may move beyond either end of the ladder, in rungs, so that a burst of errors is not forgotten."""


@uncounted_kernel
def calibrate(
    past: Jobs, events: Events, ladder: Floats, outputs: Outputs, past_outputs: Outputs, rungs: Floats,
    shares: Floats, step: float,
) -> None:  # fmt: skip
    """Set the outputs' (jobs, shares) quantiles, s, from (jobs, rungs) ascending runtimes; NaN where a ladder has none.

    `rungs` are (kinds, shares) positions on the ladder, of which a job has the sum of those of its kinds; they are
    updated with the ends. Where the submits are part of the earlier jobs, `past_outputs` gets their quantiles too.
    """
    found, past_found = outputs.rung_s, past_outputs.rung_s
    n, n_rungs, n_over = len(ladder), ladder.shape[1], 0
    for job in range(n + 1):
        while n_over < events.ended[job]:
            over = events.by_end[n_over]
            if past.is_learnt[over]:
                _learn(over, past, past_found[over], past_outputs.kinds[over], rungs, shares, step, n_rungs)
            n_over += 1
        if job == n:
            break
        for k in range(len(shares)):
            found[job, k] = on_ladder(ladder[job], _position(outputs.kinds[job], rungs[:, k]))
            if events.first >= 0:
                past_found[events.first + job, k] = found[job, k]


@kernel
def _learn(
    over: int, past: Jobs, found: Floats, kinds: Floats, rungs: Floats, shares: Floats, step: float, n_rungs: int
) -> None:  # fmt: skip
    for k in range(len(shares)):
        above = is_above(over, past, found[k], shares[k])
        if np.isnan(above):
            continue
        moved, at = step * (above - (1 - shares[k])), _position(kinds, rungs[:, k])
        for kind in range(len(kinds)):
            up = kinds[kind] * moved * (FASTER * math.exp(-0.5 * past.place[over]) if kind else 1.0)
            rungs[kind, k] += min(max(up, -SLACK - at), n_rungs - 1.0 + SLACK - at)


@kernel
def _position(kinds: Floats, rungs: Floats) -> float:
    total = 0.0
    for kind in range(len(kinds)):
        total += kinds[kind] * rungs[kind]
    return total


@kernel
def is_above(over: int, past: Jobs, quantile_s: float, share: float) -> float:
    """1 if a job ran longer than its quantile, else 0; NaN where the quantile or the answer is unknown."""
    runtime_s = past.runtime_s[over]
    # A runtime equal to either bound lies within the interval.
    if runtime_s > quantile_s or (share < 0.5 and runtime_s == quantile_s):
        return 1.0
    # A job stopped below the quantile might have exceeded it, unless the quantile is at least the limit.
    is_unsure = past.is_lower_bound[over] and not quantile_s >= past.requested_s[over]
    return math.nan if np.isnan(quantile_s) or is_unsure else 0.0


@kernel
def on_ladder(ladder: Floats, rung: float) -> float:
    low = min(max(int(np.floor(rung)), 0), len(ladder) - 2)
    part = min(max(rung - low, 0.0), 1.0)
    value_s: float = ladder[low] ** (1 - part) * ladder[low + 1] ** part
    return value_s


DAY_S = 86_400.0
RUNGS = (0.02, 0.05, 0.1, 0.25, 0.5, 0.65, 0.75, 0.85, 0.9, 0.95, 0.98, 0.995)
"""Shares of the quantiles of `alike`; a calibrated quantile lies on, between or beyond these."""

FASTER = 4.0
"""How much faster than the positions of all jobs those of a kind move, which has fewer; the k-th job of a burst moves
them 1 over the square root of k as far."""

KINDS, NEW_USER, NEW_GROUP = 3, 10.0, 5.0
"""Kinds of jobs: all, and those with fewer ended jobs of the submitter, or of the group, than these."""

FIRST_RUNGS = np.array([[3.0, 5.0, 7.5, 9.0, 10.0, 12.0, 1.2], *[[0.0] * 7] * (KINDS - 1)])
"""Positions of CALIBRATED on the ladder before any error is known; rung 0 is the shortest runtime."""

NEARLY = 0.98
"""A quantile above this share of the request becomes the request plus a grace time: jobs are stopped after it."""

SHARES = np.array(RUNGS)
HALF = np.array([0.5])

CHAIN_QUERIES = (
    ChainQuery(CROWD, CROWD + 1, 200, QUANTILE, 3),
    ChainQuery(OWN, CROWD, 2, MEAN, 2), ChainQuery(OWN, CROWD, 50, QUANTILE, 2), ChainQuery(0, CROWD, 3, QUANTILE, 1),
)  # fmt: skip
"""Jobs of all users with the same program and request; last_two_chain, recent_50 and sessions."""

METHODS = ("alike", "long", "everybody", "last_two", "recent_50", "sessions")
MIDDLE = [METHODS.index(name) for name in ("alike", "long", "everybody", "sessions")]
"""The methods whose plain median is one of the choices."""

CHOICES = ("blend", "middle", "mean")
"""What answers: the blend of the methods, the plain median of some, or the mean of both. For a submitter without ended
jobs the log's typical runtime is in the place of the mean: the latest jobs of others are often one burst."""

LEAST_STEP = 0.003
"""How far (log) each ended job moves the typical runtime, at least; the first jobs move it further."""

BLEND_POWER, CHOICE_POWER = 4.0, 30.0
"""Powers of the errors in the weights of methods and of choices: the choice with the least error nearly always answers.
"""


class Views(NamedTuple):
    """What each method says of a question: medians, s, the quantiles of `alike` at RUNGS, s; and how likely it is that
    the runtime follows the request, the effective number of jobs, and ended jobs of the submitter and the group."""

    method_s: Floats
    rung_s: Floats
    follows: Floats
    n_effective: Floats
    n_of_who: Floats
    n_of_group: Floats

    def take(self, places: Ints) -> Views:
        """The views of these questions."""
        return Views(*(column[places] for column in self))


def views_of(
    state: State, jobs: Jobs, past: Jobs, events: Events, codes: tuple[Ints, Ints], settings: EstimateRules
) -> Views:
    """The views of questions; updates the state's memories with the events.

    `codes`: numbers of the chain's keys of the questions and of the earlier jobs.
    """
    n_held = len(state.chain.latest.before) - len(codes[1]) * len(events.by_end)
    alike_s, latest_s = together([
        partial(similar_jobs_quantiles, jobs, past, events, settings, state.memory, state.evidence, SHARES),
        partial(latest_of, jobs, past, events, codes, state.chain.latest, n_held, CHAIN_QUERIES, HALF),
    ])  # fmt: skip
    rungs_s, medians_s = alike_s[:, : len(SHARES)], alike_s[:, [RUNGS.index(0.5), len(SHARES)]]
    # The chain's answers are for jobs of any size and array.
    latest_s[:, alike_s[:, len(SHARES) + 1] > 0] = np.nan
    method_s = _methods([*medians_s.T, *latest_s[:, :, 0]], jobs.requested_s)
    return Views(method_s, rungs_s.copy(), *alike_s[:, len(SHARES) + 2 :].T)


def centers(
    views: Views, state: State, jobs: Jobs, past: Jobs, events: Events, submits: Ints | None = None
) -> Floats:  # fmt: skip
    """(jobs,) estimates, s, from views: CHOICES weighted in their turn; updates the state's errors with the events.

    `submits`: the places, among the questions, of the last jobs of the past.
    """
    live, choice = state.live, state.choice
    blend_s = blended(jobs, past, events, views.method_s, live.outputs.method_s, live.errors, BLEND_POWER)
    middle_s = median(views.method_s[:, MIDDLE], axis=1)
    typical_s = _typical(past, events, len(jobs.who), state.use.typical)
    takes_mean = (views.n_of_who > 0) | np.isnan(typical_s)
    choices_s = np.stack([blend_s, middle_s, np.where(takes_mean, (blend_s + middle_s) / 2, typical_s)], axis=1)
    if submits is not None:
        choice.outputs.method_s[len(past.who) - len(submits) :] = choices_s[submits]
    chosen_s = blended(jobs, past, events, choices_s, choice.outputs.method_s, choice.errors, CHOICE_POWER)
    return capped(chosen_s, jobs.limit_s)


@entry_kernel
def _typical(past: Jobs, events: Events, n: int, held: Floats) -> Floats:
    """(jobs,) the median runtime of all ended jobs, s, the latest most; NaN before the first. Updates `held`,
    which is `typical` of Use.
    """
    found, n_over = np.full(n, np.nan), 0
    for job in range(n + 1):
        while n_over < events.ended[job]:
            over = events.by_end[n_over]
            if past.is_learnt[over] and not past.is_lower_bound[over] and past.runtime_s[over] > 0:
                held[1] += 1
                off = math.log(past.runtime_s[over]) - held[0]
                held[0] += off if held[1] == 1 else np.sign(off) * max(1 / held[1], LEAST_STEP)
            n_over += 1
        if job < n and held[1] > 0:
            found[job] = math.exp(held[0])
    return found


def answered(
    views: Views, center_s: Floats, record: Learnt, jobs: Jobs, past: Jobs, events: Events, settings: EstimateRules
) -> Outputs:
    """The quantiles around estimates from views; updates the record with the events.

    Where the submits are part of the earlier jobs, its outputs get their rows.
    """
    widths, past_outputs = live_widths(len(METHODS), len(CALIBRATED), KINDS), record.outputs
    outputs = no_outputs(len(jobs.who), widths)
    outputs.method_s[:] = views.method_s
    ladder = ladder_around(center_s, views.rung_s, jobs, 60.0 * settings.grace_min)
    outputs.kinds[:] = _kinds(views)
    _keep(past_outputs, outputs, events, "kinds")
    calibrate(past, events, ladder, outputs, past_outputs, record.rungs, np.array(CALIBRATED), settings.coverage_step)
    outputs.quantiles_s[:] = _around(center_s, outputs.rung_s.copy())
    _keep(past_outputs, outputs, events, "quantiles_s")
    return outputs


def _kinds(views: Views) -> Floats:
    """(jobs, kinds) 1 where a job is of a kind, else 0."""
    is_new = (views.n_of_who < NEW_USER, views.n_of_group < NEW_GROUP)
    return np.column_stack([np.ones(len(is_new[0])), *is_new])


def _keep(past: Outputs, outputs: Outputs, events: Events, *names: str) -> None:
    """Copy the submits' rows to `past`, if the submits are part of the earlier jobs."""
    if events.first >= 0:
        for name in names:
            getattr(past, name)[events.first :] = getattr(outputs, name)


def _methods(found: list[Floats], requested_s: Floats) -> Floats:
    """(jobs, methods) medians, s, gaps filled by `alike`, else by the request, else by an hour."""
    instead_s = np.where(requested_s > 0, requested_s, 3600.0)
    instead_s = np.where(np.isnan(found[0]), instead_s, found[0])
    columns = np.stack(found, axis=1)
    return capped(np.where(~np.isfinite(columns), instead_s[:, None], columns), requested_s)


def ladder_around(center_s: Floats, rungs_s: Floats, jobs: Jobs, grace_s: float) -> Floats:
    """Ascending runtimes, s: below and above the estimate, and beyond the request by up to the grace time."""
    middle = RUNGS.index(0.5)
    rungs_s = np.where(np.isnan(rungs_s), center_s[:, None], rungs_s)
    below = np.minimum(rungs_s[:, :middle], center_s[:, None])
    above = np.maximum(rungs_s[:, middle + 1 :], center_s[:, None])
    limit_s = np.where(jobs.requested_s > 0, jobs.requested_s, above[:, -1])[:, None]
    above = np.where(above >= NEARLY * limit_s, limit_s + grace_s, above)
    shortest = np.minimum(below[:, :1] / 4, 1.0)
    ladder = np.column_stack([shortest, below, center_s, above, limit_s + grace_s, 2 * limit_s + grace_s])
    return np.maximum.accumulate(ladder, axis=1)


def _around(center_s: Floats, found: Floats) -> Floats:
    """The quantiles in order, with the estimate as the middle one."""
    found[:, 1] = center_s
    found[:, 0] = np.minimum(found[:, 0], center_s)
    above = found[:, 2:N_QUANTILES]
    above[:] = np.maximum.accumulate(np.maximum(above, center_s[:, None]), axis=1)
    found[:, N_QUANTILES] = np.minimum(found[:, N_QUANTILES], found[:, 0])
    return found
