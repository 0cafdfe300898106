"""Predictions on later jobs: published at cuts through a log from what had ended by then, scored on what came after."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import Bools, Floats, Ints, category_codes, floats, job_procs
from pipeline.core.settings import RunSettings
from pipeline.fit import find_patterns, fit, level, screen, unlevel
from pipeline.group import describe_groups, observe
from pipeline.predict import groups_by_application, later, predict

DAY_S = 86_400.0
NEAR = 0.25
MOST_RUNS = 20
THRESHOLDS = (0.3, 0.4, 0.5, 0.55, 0.6, 0.7, 0.8)

_NUMBERS = ("runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95", "near_share")


@dataclass(frozen=True, slots=True)
class Scored:
    """A row per later job that a published row answers: its runtime (s), columns of that row, the kernel average.

    `is_seen`: its group had run on its count by the cut. `kernel_s`: the kernel average of its group's other medians.
    """

    actual_s: Floats
    numbers: dict[str, Floats]
    is_ok: Bools
    is_seen: Bools
    kernel_s: Floats

    def take(self, rows: Bools) -> "Scored":
        """Some of the jobs."""
        numbers = {name: values[rows] for name, values in self.numbers.items()}
        return Scored(self.actual_s[rows], numbers, self.is_ok[rows], self.is_seen[rows], self.kernel_s[rows])

    @property
    def error(self) -> Floats:
        """Absolute error of the median over the runtime."""
        found: Floats = np.abs(self.numbers["runtime_s"] / self.actual_s - 1)
        return found


def later_scores(
    jobs: pa.Table, settings: RunSettings, cuts_s: Sequence[float], horizons: Sequence[float] = (1.0, 7.0, 30.0)
) -> dict[float, Scored]:
    """Per horizon (days) the jobs submitted after each cut and within it, against what is published at the cut.

    `jobs` are grouped JOBS. What ends after a cut is not known at it.
    """
    parts: dict[float, list[Scored]] = {days: [] for days in horizons}
    end_s, submit_s = _ends(jobs), floats(jobs, "submit_s")
    for cut_s in cuts_s:
        known = jobs.filter(pa.array(end_s <= cut_s))
        tables = published(known, settings, horizons)
        for days, table in tables.items():
            after = (submit_s > cut_s) & (submit_s <= cut_s + days * DAY_S) & np.isfinite(end_s)
            parts[days].append(score(table, observe(known)[0], jobs.filter(pa.array(after))))
    return {days: _joined(found) for days, found in parts.items() if found}


def published(known: pa.Table, settings: RunSettings, horizons: Sequence[float]) -> dict[float, pa.Table]:
    """PREDICTIONS by horizon (days) as a run over these grouped jobs publishes them."""
    groups, _ = describe_groups(known, settings.group)
    observed, _ = observe(known)
    patterns, _ = find_patterns(observed, settings.pattern, settings.anomaly.noise)
    screened, _ = screen(observed, patterns, settings.anomaly)
    levelled, _ = level(screened, patterns)
    fits, _ = fit(levelled, settings.fit)
    names = groups_by_application(groups)
    predicted, _ = predict(levelled, fits, settings.predict, settings.site, "later", application=names)
    table, _ = unlevel(predicted, patterns)
    ahead = {days: settings.predict.model_copy(update={"horizon_days": days}) for days in horizons}
    return {days: later(table, known, fits, own)[0] for days, own in ahead.items()}


def score(predictions: pa.Table, observed: pa.Table, jobs: pa.Table) -> Scored:
    """The jobs that a row of PREDICTIONS answers, with that row."""
    jobs = jobs.filter(pc.and_(pc.is_valid(jobs.column("group_id")), pc.greater(jobs.column("runtime_s"), 0)))
    code = {group: place for place, group in enumerate(sorted(set(predictions.column("group_id").to_pylist())))}
    keys, wanted = _keys(predictions, "procs", code), _keys(jobs, None, code)
    row, seen = _found(keys, wanted), _found(_keys(observed, "procs", code), wanted)
    kept = (row >= 0) & (wanted >= 0)
    answered = predictions.take(pa.array(row[kept]))
    numbers = {name: floats(answered, name) for name in _NUMBERS}
    is_ok = pc.equal(answered.column("reliability").cast(pa.string()), "ok").to_numpy(zero_copy_only=False)
    kernel_s = _kernel(observed, code, wanted[kept])
    return Scored(floats(jobs, "runtime_s")[kept], numbers, is_ok.astype(bool), seen[kept] >= 0, kernel_s)


def figures(scored: Scored) -> dict[str, Any]:
    """Jobs; shares inside 80% and 95%; median width (hi over lo of 80%); median errors; share of jobs on ok rows."""
    if not scored.actual_s.size:
        return {"jobs": 0}
    numbers, actual_s = scored.numbers, scored.actual_s
    ends = {share: [numbers[f"runtime_s_{end}{share}"] for end in ("lo", "hi")] for share in ("80", "95")}
    inside = {share: float(((low <= actual_s) & (actual_s <= high)).mean()) for share, (low, high) in ends.items()}
    return {
        "jobs": actual_s.size,
        **{f"in_{share}": value for share, value in inside.items()},
        "width_80": float(np.median(numbers["runtime_s_hi80"] / numbers["runtime_s_lo80"])),
        "median_error": float(np.median(scored.error)),
        "kernel_error": _median(np.abs(scored.kernel_s / actual_s - 1)),
        "ok_share": float(scored.is_ok.mean()),
    }


def trade_off(scored: Scored) -> list[dict[str, float]]:
    """Per least `near_share`: the share of jobs on rows that have it, the median error of these."""
    near, rows = np.nan_to_num(scored.numbers["near_share"], nan=-1.0), []
    for least in THRESHOLDS:
        chosen = near >= least
        rows.append({"near_share": least, "jobs": float(chosen.mean()) if chosen.size else 0.0,
                     "median_error": _median(scored.error[chosen])})  # fmt: skip
    return rows


def even_cuts(jobs: pa.Table, first: float, last: float, count: int) -> list[float]:
    """Times evenly spaced between two shares of the jobs by submit, whole days after the first submit."""
    submit_s = np.sort(floats(jobs, "submit_s"))
    submit_s = submit_s[np.isfinite(submit_s)]
    begin, low, high = submit_s[0], *np.quantile(submit_s, [first, last])
    cuts = begin + np.round((np.linspace(low, high, count, endpoint=False) - begin) / DAY_S) * DAY_S
    return [float(cut) for cut in np.unique(cuts)]


def _median(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else float("nan")


def _ends(jobs: pa.Table) -> Floats:
    end_s = floats(jobs, "end_s")
    return np.where(np.isnan(end_s), floats(jobs, "submit_s") + floats(jobs, "runtime_s"), end_s)


def _keys(table: pa.Table, procs: str | None, code: dict[str, int]) -> Ints:
    """Group and processor count as one number; -1 where the group is none of those named."""
    of, names = category_codes(table, "group_id")
    group = np.array([code.get(name, -1) for name in names] + [-1], np.int64)[of]
    counts = floats(table, procs) if procs else job_procs(table)
    return np.where(group >= 0, group * 2**40 + np.nan_to_num(counts).astype(np.int64), -1)


def _found(keys: Ints, wanted: Ints) -> Ints:
    if not keys.size:
        return np.full(wanted.size, -1, np.int64)
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), keys.size - 1)
    return np.where(keys[order][at] == wanted, order[at], -1)


def _kernel(observed: pa.Table, code: dict[str, int], wanted: Ints) -> Floats:
    """Kernel average of the medians of each wanted group's other counts (s); NaN where it has none."""
    counted = observed.filter(pc.is_valid(observed.column("runtime_s_median")))
    keys = _keys(counted, "procs", code)
    order = np.argsort(keys)
    log_s, runs = np.log(floats(counted, "runtime_s_median"))[order], floats(counted, "n_jobs")[order]
    group, procs = np.divmod(keys[order], 2**40)
    distinct, place = np.unique(wanted, return_inverse=True)
    found = np.full(distinct.size, np.nan)
    for row, key in enumerate(distinct):
        first, last = np.searchsorted(group, [key // 2**40, key // 2**40 + 1])
        apart = np.abs(np.log2(procs[first:last] / (key % 2**40)))
        kernel = np.exp(-apart) * np.minimum(runs[first:last], MOST_RUNS) * (apart > 0)
        if kernel.sum() > 0:
            found[row] = np.exp(np.average(log_s[first:last], weights=kernel))
    return found[place]


def _joined(parts: Sequence[Scored]) -> Scored:
    numbers = {name: np.concatenate([part.numbers[name] for part in parts]) for name in _NUMBERS}
    rest = (np.concatenate([getattr(part, name) for part in parts]) for name in ("is_ok", "is_seen", "kernel_s"))
    return Scored(np.concatenate([part.actual_s for part in parts]), numbers, *rest)
