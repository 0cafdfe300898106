"""The estimator's ensemble: several methods blended by their recent errors, with calibrated quantiles."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.arrays import Floats, Ints, median
from pipeline.estimate import job_classes, submitter_features
from pipeline.estimate.blend import Answers, Pace, Pair, blend, favour
from pipeline.estimate.chains import CROWD, MEAN, OWN, QUANTILE, ChainQuery, latest_of
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.similar_jobs import similar_jobs_quantiles
from pipeline.estimate.state import Outputs, State, no_outputs
from pipeline.estimate.submits import Events, Jobs, capped
from pipeline.estimate.trees import Forest, boosted_at, unit_s
from pipeline.kernels import entry_kernel, kernel
from pipeline.workers import together

if TYPE_CHECKING:
    from pipeline.estimate.estimate_rules import EstimateRules


SLACK = 3.0
"""How far a position may move beyond either end of the ladder, in rungs, so that a burst of errors is not forgotten."""


@entry_kernel
def calibrate(
    past: Jobs, events: Events, ladder: Floats, found: Floats, past_found: Floats, rungs: Floats,
    shares: Floats, step: float,
) -> None:  # fmt: skip
    """Set `found` to (jobs, shares) quantiles, s, from (jobs, rungs) ascending runtimes; NaN where the ladder has none.

    `rungs`, the position of each quantile, is updated with the ends. Where the submits are part of the earlier jobs,
    `past_found` gets their quantiles too.
    """
    n, n_rungs, n_over = len(ladder), ladder.shape[1], 0
    for job in range(n + 1):
        while n_over < events.ended[job]:
            over = events.by_end[n_over]
            if past.is_learnt[over]:
                _learn(over, past, past_found[over], rungs, shares, step, n_rungs)
            n_over += 1
        if job == n:
            break
        for k in range(len(shares)):
            found[job, k] = _on_ladder(ladder[job], rungs[k])
        if events.first >= 0:
            past_found[events.first + job] = found[job]


@kernel
def _learn(
    over: int, past: Jobs, found: Floats, rungs: Floats, shares: Floats, step: float, n_rungs: int
) -> None:  # fmt: skip
    for k in range(len(shares)):
        if np.isnan(found[k]):
            continue
        # A runtime equal to either bound lies within the interval.
        is_above = past.runtime_s[over] > found[k] or (shares[k] < 0.5 and past.runtime_s[over] == found[k])
        # A job stopped below the quantile might have exceeded it, unless the quantile is at least the limit.
        if past.is_lower_bound[over] and not is_above and not found[k] >= past.requested_s[over]:
            continue
        moved = rungs[k] + step * ((1.0 if is_above else 0.0) - (1 - shares[k]))
        rungs[k] = min(max(moved, -SLACK), n_rungs - 1.0 + SLACK)


@kernel
def _on_ladder(ladder: Floats, rung: float) -> float:
    low = min(max(int(np.floor(rung)), 0), len(ladder) - 2)
    part = min(max(rung - low, 0.0), 1.0)
    value_s: float = ladder[low] ** (1 - part) * ladder[low + 1] ** part
    return value_s


DAY_S = 86_400.0
RUNGS = (0.02, 0.05, 0.1, 0.25, 0.5, 0.65, 0.75, 0.85, 0.9, 0.95, 0.98, 0.995)
"""Shares of the quantiles of `alike`; a calibrated quantile lies on, between or beyond these."""

FIRST_RUNGS = np.array([3.0, 5.0, 7.5, 9.0, 10.0, 12.0])
"""Positions of QUANTILES on the ladder before any error is known; rung 0 is the shortest runtime."""

NEARLY = 0.98
"""A quantile above this share of the request becomes the request plus a grace time: jobs are stopped after it."""

VARIANTS: dict[str, dict[str, Any]] = {
    "long": {"rank_power": 0.5, "age_days": 800.0, "burst_jobs": 2, "others": 1.5, "in_session": 1.5},
    "habit": {"rank_power": 0.0, "age_days": 1e4, "burst_jobs": 1, "in_session": 1.0, "place_power": 0.5},
    "absolute": {"scaling": 0.3, "other_request": 0.3, "other_procs": 0.11, "other_application": 0.4},
}
"""Variants of `alike`: longer memory; every burst counted as one job; runtimes not scaled with the request."""

MEMORIES = ("alike", *VARIANTS)

INNER_SHARES = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
"""Shares of those quantiles of `alike` that are features of the trees."""

SHARES = np.array(sorted({*INNER_SHARES.tolist(), *RUNGS}))
HALF = np.array([0.5])

N_SEEN = submitter_features.N_FEATURES + len(INNER_SHARES) + 1 + len(VARIANTS) + 3 + job_classes.N_FEATURES

CHAIN_QUERIES = (
    ChainQuery(CROWD, CROWD + 1, 200, QUANTILE, 3),
    ChainQuery(OWN, CROWD, 2, MEAN, 2), ChainQuery(OWN, CROWD, 10, QUANTILE, 2),
    ChainQuery(OWN, CROWD, 50, QUANTILE, 2), ChainQuery(0, CROWD, 3, QUANTILE, 1),
)  # fmt: skip
"""Jobs of all users with the same program and request; last_two_chain, recent_10, recent_50 and sessions."""

N_WEIGHED = 5
"""Methods with their own weight: `alike`, the trees, `long`, `habit` and everybody. The median of all methods but
everybody is one more."""

FIRST_LOG = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
"""Log weights before any error is known: `alike` is the best single method on the first thirds."""


def answered(
    state: State, jobs: Jobs, past: Jobs, events: Events, codes: tuple[Ints, Ints], job_class: tuple[Ints, Ints],
    past_outputs: Outputs, settings: EstimateRules,
) -> tuple[Outputs, Forest]:  # fmt: skip
    """The output of every part for the submits, and the forest after the events; updates the state's memories.

    `codes` and `job_class`: numbers of the chain's keys and of the job classes, of the submits and of the earlier jobs.
    Where the submits are part of the earlier jobs, `past_outputs` gets their rows.
    """
    outputs = no_outputs(len(jobs.who), N_SEEN, len(FIRST_LOG), len(QUANTILES))
    variants = {name: replace(settings, **changes) for name, changes in VARIANTS.items()}
    # Each of these changes a memory of its own.
    alike_s, latest_s, own_features, class_features, *by_variant = together([
        partial(similar_jobs_quantiles, jobs, past, events, settings, state.memories["alike"], SHARES),
        partial(_latest, state, jobs, past, events, codes),
        partial(submitter_features.submitter_features, jobs, past, events, state.submitters),
        partial(job_classes.job_class_features, jobs, past, events, *job_class, state.job_classes),
        *(partial(similar_jobs_quantiles, jobs, past, events, variant, state.memories[name], HALF)
          for name, variant in variants.items()),
    ])  # fmt: skip
    variant_s = [found[:, 0] for found in by_variant]
    typical_s = alike_s[:, np.searchsorted(SHARES, 0.5)]
    outputs.unit_s[:] = unit_s(jobs, typical_s)
    outputs.seen[:] = _seen(jobs, own_features, class_features, alike_s, variant_s)
    _keep(past_outputs, outputs, events, "unit_s", "seen")
    boosted_s, forest = boosted_at(
        jobs, past, events, state.forest, outputs.seen, past_outputs.seen, outputs.unit_s, past_outputs.unit_s,
        (0.5,), settings,
    )  # fmt: skip
    own = [typical_s, boosted_s[:, 0], *variant_s, *latest_s[1:, :, 0]]
    outputs.method_s[:] = _methods(own, latest_s[0, :, 0], jobs.requested_s)
    outputs.scale_s[:] = 0.3 * np.where(jobs.requested_s > 0, jobs.requested_s, outputs.method_s[:, 0]) + 300.0
    _keep(past_outputs, outputs, events, "method_s", "scale_s")
    _blend(state, jobs, past, events, outputs, past_outputs, settings)
    ladder = _ladder(alike_s[:, np.searchsorted(SHARES, RUNGS)], outputs.center_s, jobs, 60.0 * settings.grace_min)
    calibrate(
        past, events, ladder, outputs.rung_s, past_outputs.rung_s, state.rungs, np.array(QUANTILES),
        settings.coverage_step,
    )  # fmt: skip
    outputs.quantiles_s[:] = _around(outputs.center_s, outputs.rung_s.copy())
    _keep(past_outputs, outputs, events, "quantiles_s")
    return outputs, forest


def _room(codes: tuple[Ints, Ints], events: Events) -> int:
    """Number of entries to allocate in the chain for the events."""
    return len(codes[1]) * len(events.by_end)


def _keep(past: Outputs, outputs: Outputs, events: Events, *names: str) -> None:
    """Copy the submits' rows to `past`, if the submits are part of the earlier jobs."""
    if events.first >= 0:
        for name in names:
            getattr(past, name)[events.first :] = getattr(outputs, name)


def _latest(state: State, jobs: Jobs, past: Jobs, events: Events, codes: tuple[Ints, Ints]) -> Floats:
    """(queries, jobs, 1) the answers of the chain."""
    n_held = len(state.chain.latest.before) - _room(codes, events)
    return latest_of(jobs, past, events, codes, state.chain.latest, n_held, CHAIN_QUERIES, HALF)


def _seen(jobs: Jobs, own_features: Floats, class_features: Floats, alike_s: Floats, variant_s: list[Floats]) -> Floats:
    """(jobs, columns) the features of the trees."""
    picked = np.append(np.searchsorted(SHARES, INNER_SHARES), len(SHARES))
    logs = np.log(np.maximum(np.column_stack([alike_s[:, picked], *variant_s]), 1e-6))
    codes = np.stack([jobs.what, jobs.group], axis=1).astype(float)
    return np.column_stack([own_features, logs, jobs.place, codes, class_features])


def _methods(own: list[Floats], everybody_s: Floats, requested_s: Floats) -> Floats:
    """(jobs, methods) medians, s, gaps filled by `alike`, else by the request, else by an hour; their median last."""
    instead_s = np.where(requested_s > 0, requested_s, 3600.0)
    instead_s = np.where(np.isnan(own[0]), instead_s, own[0])
    own_s = np.where(np.isnan(columns := np.stack(own, axis=1)), instead_s[:, None], columns)
    everybody_s = np.where(np.isnan(everybody_s), instead_s, everybody_s)
    weighed = own_s[:, : N_WEIGHED - 1], everybody_s, median(own_s, axis=1)
    return capped(np.column_stack(weighed), requested_s)


def _blend(
    state: State, jobs: Jobs, past: Jobs, events: Events, outputs: Outputs, past_outputs: Outputs,
    settings: EstimateRules,
) -> None:  # fmt: skip
    """Set the two blends and the centre: their common answer, or that of `alike` where its errors have been smaller."""
    for step_user, beliefs, name in (
        (settings.step_user, state.beliefs, "blend_s"),
        (settings.step_user_quick, state.quick_beliefs, "quick_blend_s"),
    ):
        pace = Pace(
            settings.step_all, step_user, DAY_S * settings.half_life_all_days, DAY_S * settings.half_life_user_days
        )
        own, held = (Answers(rows.method_s, rows.scale_s, getattr(rows, name)) for rows in (outputs, past_outputs))
        blend(jobs, past, events, own, held, FIRST_LOG, beliefs, pace)
    outputs.center_s[:] = favour(
        past, events, _pair(outputs), _pair(past_outputs), state.advantage, DAY_S * settings.half_life_lead_days,
        settings.lead_errors,
    )  # fmt: skip


def _pair(outputs: Outputs) -> Pair:
    """`alike`, and the median of the two blends and the median of all methods, so that no single burst moves it."""
    three = np.stack([outputs.blend_s, outputs.quick_blend_s, outputs.method_s[:, -1]])
    return Pair(np.ascontiguousarray(outputs.method_s[:, 0]), np.sort(three, axis=0)[1])


def _ladder(rungs_s: Floats, center_s: Floats, jobs: Jobs, grace_s: float) -> Floats:
    """Ascending runtimes, s: below and above the estimate, and beyond the request by up to the grace time."""
    middle = RUNGS.index(0.5)
    rungs_s = np.where(np.isnan(rungs_s), center_s[:, None], rungs_s)
    below = np.minimum(rungs_s[:, :middle], center_s[:, None])
    above = np.maximum(rungs_s[:, middle + 1 :], center_s[:, None])
    limit_s = np.where(jobs.requested_s > 0, jobs.requested_s, 1.5 * above[:, -1])[:, None]
    above = np.where(above >= NEARLY * limit_s, limit_s + grace_s, above)
    shortest = np.minimum(below[:, :1] / 4, 1.0)
    ladder = np.column_stack([shortest, below, center_s, above, limit_s + grace_s, 2 * limit_s + grace_s])
    return np.maximum.accumulate(ladder, axis=1)


def _around(center_s: Floats, found: Floats) -> Floats:
    """The quantiles in order, with the estimate as the middle one."""
    found[:, 1] = center_s
    found[:, 0] = np.minimum(found[:, 0], center_s)
    found[:, 2:] = np.maximum.accumulate(np.maximum(found[:, 2:], center_s[:, None]), axis=1)
    return found
