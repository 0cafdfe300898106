"""What a version's estimator said of its last ended jobs at their submits, beside what came, the worst first.

The published state holds these quantiles in order of end; the published jobs say whose they are.
"""

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.services.job_answers import state_of
from pipeline.arrays import DAY_S, MONDAY_S, WEEK_S, Bools, Ints
from pipeline.errors import InputError
from pipeline.estimate.history import History, history
from pipeline.estimate.score import QUANTILES
from pipeline.evaluate.backtest import runtime_quantiles
from pipeline.publish import Manifest
from pipeline.schedule.starts import estimated
from pipeline.storage import read_table
from pipeline.tables import ERRORS, JOB, JOBS

FACTS = (*JOB, "restart", "user", "account", "application", "procs", "requested_s", "submit_s", "end_s", "state")
WEEKS = 13
LEAST_USER_DAYS = 10
"""A week with fewer days of users says nothing of a share: all jobs of one may fail together."""
SAME_SHARE = 0.99
"""Least share of runtimes that agree between state and jobs: jobs that end in one second may stand in another order."""


def errors_of_version(manifest: Manifest) -> pa.Table:
    """ERRORS of the last ended jobs (at most 20,000), the largest absolute error first.

    InputError where state and jobs are not of the same runs.
    """
    state = state_of(manifest).state
    jobs = read_table(manifest.path(JOBS.name), JOBS)
    past = history(jobs, state.site["timezone"])
    quantiles_s, n_answered = estimated(past, state), np.isfinite(state.record.quantiles_s[:, 1]).sum()
    places = past.by_end[np.isfinite(quantiles_s[past.by_end, 1])]
    if len(places) < SAME_SHARE * n_answered:
        do = "run again, so that the state learns the jobs as they are now"
        raise InputError("show errors", "a state of other jobs than the table's", "the jobs it has learnt from", do)
    places = places[np.argsort(-np.abs(quantiles_s[places, 1] - past.runtime_s[places]), kind="stable")]
    quantiles_s = quantiles_s[places]
    rows = jobs.take(pa.array(past.row[places]))
    runtime_s = past.runtime_s[places]
    return ERRORS.build(
        day=[datetime.fromtimestamp(end_s, UTC).date().isoformat() for end_s in past.end_s[places]],
        **{name: rows.column(name) for name in FACTS},
        **{f"runtime_s_q{100 * share:.0f}": quantiles_s[:, k] for k, share in enumerate(QUANTILES)},
        runtime_s=runtime_s,
        runtime_quantile=runtime_quantiles(runtime_s, quantiles_s),
        why=_reasons(past, places, rows.column("state").to_pylist()),
    )


def promise_by_week(errors: pa.Table) -> list[dict[str, Any]]:
    """Per week of submits the share of these jobs inside their 80% interval, oldest first, the last WEEKS weeks.

    `lo95` and `hi95` bound the share. A day of a user, else of an account, is one draw: its jobs fail together.
    """
    submit_s = errors.column("submit_s").to_numpy()
    low_s, high_s, runtime_s = (errors.column(n).to_numpy() for n in ("runtime_s_q10", "runtime_s_q90", "runtime_s"))
    is_held = (runtime_s >= low_s) & (runtime_s <= high_s)
    week = (submit_s - MONDAY_S) // WEEK_S
    who = pc.coalesce(*(errors.column(name).cast(pa.string()) for name in ("user", "account")), "")
    user = who.combine_chunks().dictionary_encode().indices
    cluster = np.stack([user.to_numpy(), submit_s // DAY_S])
    rows = []
    for one in np.unique(week)[-WEEKS:]:
        own = week == one
        names = np.unique(cluster[:, own], axis=1, return_inverse=True)[1].ravel()
        if names.max() + 1 < LEAST_USER_DAYS:
            continue
        share = is_held[own].mean()
        sums = np.bincount(names, weights=is_held[own] - share)
        half = 1.96 * math.sqrt(float(sums @ sums)) / own.sum()
        monday = datetime.fromtimestamp(float(one * WEEK_S + MONDAY_S), UTC).date().isoformat()
        rows.append({"week": monday, "n_jobs": int(own.sum()), "coverage_80": float(share),
                     "lo95": max(0.0, share - half), "hi95": min(1.0, share + half)})  # fmt: skip
    return rows


def _reasons(past: History, places: Ints, states: list[str | None]) -> list[str | None]:
    """What makes an estimate doubtful, or null: how the job ended, and whether any of its like had at the submit."""
    reasons = {
        "first run of its user": _is_first(past, past.codes["who"], places),
        "first run of its application": _is_first(past, past.codes["what"], places),
        "stopped at its limit": past.is_lower_bound[places],
    }
    named = [[name for name, holds in reasons.items() if holds[row]] for row in range(len(places))]
    ended = [[] if state in (None, "COMPLETED") else [f"ended {state}"] for state in states]
    return ["; ".join(why + end) or None for why, end in zip(named, ended, strict=True)]


def _is_first(past: History, codes: Ints, places: Ints) -> Bools:
    """Which of these jobs were submitted before any job of their code ended; unknown codes are below 0."""
    first_s = np.full(codes.max(initial=0) + 2, np.inf)
    np.minimum.at(first_s, codes[past.by_end], past.end_s[past.by_end])
    found: Bools = (codes[places] >= 0) & (first_s[codes[places]] > past.submit_s[places])
    return found
