"""Scores published predictions night by night through the last part of a log, on the jobs after each night."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, Ints, floats
from pipeline.group import assign_groups, choose_template, describe_groups, observe, with_chosen
from pipeline.scaling.curves import Curves
from pipeline.scaling.later.cells import DAY_S, Cells, kernel_averages
from pipeline.scaling.later.later import cell_keys, places_of, target_rows, with_law
from pipeline.scaling.later.track_record import MIN_WINDOWS, Record, answers_at, believed_rows
from pipeline.scaling.later.windows import PastWindows, Window, past_cuts, step_days, target_cells, windows_at
from pipeline.scaling.predictions import groups_by_application, predict
from pipeline.scaling.scaling_rules import (
    ANOMALY_RULES,
    PATTERN_RULES,
    PREDICT_RULES,
    PredictRules,
    fit_rules,
    predict_rules,
)
from pipeline.scaling.screens.anomalies import screen
from pipeline.scaling.screens.patterns import find_patterns, level, unlevel
from pipeline.scaling.stage import fit
from pipeline.settings import RunSettings

THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)

NUMBERS = ("runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95", "near_share")


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
        """The jobs of these rows."""
        numbers = {name: values[rows] for name, values in self.numbers.items()}
        return Scored(self.actual_s[rows], numbers, self.is_ok[rows], self.is_seen[rows], self.kernel_s[rows])

    @property
    def error(self) -> Floats:
        """Absolute error of the median over the runtime."""
        found: Floats = np.abs(self.numbers["runtime_s"] / self.actual_s - 1)
        return found


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
    """Per threshold of `near_share`: the share of jobs on rows above it, and their median error."""
    near, rows = np.nan_to_num(scored.numbers["near_share"], nan=-1.0), []
    for least in THRESHOLDS:
        chosen = near >= least
        rows.append({"near_share": least, "jobs": float(chosen.mean()) if chosen.size else 0.0,
                     "median_error": _median(scored.error[chosen])})  # fmt: skip
    return rows


def _median(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else float("nan")


def joined(parts: Sequence[Scored]) -> Scored:
    """All jobs of some parts, in their order."""
    numbers = {name: np.concatenate([part.numbers[name] for part in parts]) for name in NUMBERS}
    rest = (np.concatenate([getattr(part, name) for part in parts]) for name in ("is_ok", "is_seen", "kernel_s"))
    return Scored(np.concatenate([part.actual_s for part in parts]), numbers, *rest)


REFIT_DAYS = 60.0
"""Days between new choices of templates and laws; everything else is recomputed at every cut, as every night."""

HORIZONS = (1.0, 7.0, 30.0)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A log as grouped and fitted by a run at `at_s`; its cells hold all runs, of which each cut uses the ended ones.

    `laws`: PREDICTIONS by law alone; `law_keys`: the group and count of each of its rows. `level`: per cell the law's
    log runtime, 0 without a law. `scales`: per group, whether a law answers.
    """

    at_s: float
    template: str
    cells: Cells
    level: Floats
    scales: Bools
    laws: pa.Table
    law_keys: Ints


def later_scores(
    jobs: pa.Table,
    settings: RunSettings,
    shares: tuple[float, float] = (2 / 3, 0.98),
    horizons: Sequence[float] = HORIZONS,
    refit_days: float = REFIT_DAYS,
) -> dict[float, Scored]:
    """Per horizon (days), the jobs submitted within it after each cut, with the predictions published at the cut.

    `jobs` are flagged JOBS. Cuts lie between two shares of the jobs by submit, a day apart, longer for horizons of more
    than a week, so that a job may be scored at several ages. What ends after a cut is not known at it.
    """
    submit_s = floats(jobs, "submit_s")
    begin, end = (float(value) for value in np.quantile(submit_s[np.isfinite(submit_s)], shares))
    parts: dict[float, list[Scored]] = {days: [] for days in horizons}
    template = ""
    for at_s in np.arange(np.floor(begin), end, refit_days * DAY_S):
        fitted = fitted_at(jobs, settings, float(at_s), template)
        template = fitted.template
        for days in horizons:
            ahead = replace(PREDICT_RULES, horizon_days=days)
            parts[days] += _segment(fitted, ahead, min(end, at_s + refit_days * DAY_S))
    return {days: joined(found) for days, found in parts.items() if found}


def fitted_at(jobs: pa.Table, settings: RunSettings, at_s: float, previous: str = "") -> Fitted:
    """Template and laws from what had ended by `at_s`, and the cells of the whole log under that template."""
    _, chosen = _known(jobs, settings, at_s, previous)
    grouped, _ = assign_groups(jobs, chosen.group)
    known = grouped.filter(pa.array(_ends(grouped) <= at_s))
    laws, fits = _laws(known, chosen)
    before, cells = Cells.of(known, at_s), Cells.of(grouped, at_s)
    targets, _, scaling = target_rows(laws, before, Curves.of(fits.filter(fits.column("is_chosen"))))
    code = {name: place for place, name in enumerate(cells.group_id)}
    of_known = np.array([code[name] for name in before.group_id], np.int64)
    scales = np.zeros(len(cells.group_id), bool)
    scales[of_known] = scaling
    of_row = of_known[targets.group]
    level = _levels(cells, scales, of_row, targets.procs, targets.level)
    return Fitted(at_s, "+".join(chosen.group.columns), cells, level, scales, laws, cell_keys(of_row, targets.procs))


def _known(jobs: pa.Table, settings: RunSettings, at_s: float, previous: str) -> tuple[pa.Table, RunSettings]:
    """The jobs that had ended by `at_s`, and the settings with the template chosen from them."""
    known = jobs.filter(pa.array(_ends(jobs) <= at_s))
    templates, _ = choose_template(known, settings.group, previous)
    return known, settings.model_copy(update={"group": with_chosen(settings.group, templates)})


def _laws(known: pa.Table, settings: RunSettings) -> tuple[pa.Table, pa.Table]:
    """PREDICTIONS by law and FITS, as a run makes them of these grouped jobs."""
    groups, _ = describe_groups(known, settings.group)
    observed, _ = observe(known)
    return predictions_of(observed, settings, "later", application=groups_by_application(groups))


def predictions_of(
    observed: pa.Table, settings: RunSettings, run_id: str, **of_predict: Any
) -> tuple[pa.Table, pa.Table]:
    """PREDICTIONS by law and FITS of OBSERVATIONS, through the steps of a run; `of_predict` goes to `predict`."""
    patterns, _ = find_patterns(observed, PATTERN_RULES, ANOMALY_RULES.noise)
    screened, _ = screen(observed, patterns, ANOMALY_RULES)
    levelled, _ = level(screened, patterns)
    fits, _ = fit(levelled, fit_rules(settings.scaling))
    rules = predict_rules(settings.horizon_days)
    predicted, _ = predict(levelled, fits, rules, settings.site, run_id, patterns=patterns, **of_predict)
    return unlevel(predicted, patterns)[0], fits


def _levels(cells: Cells, scales: Bools, group: Ints, procs: Floats, law: Floats) -> Floats:
    """Log runtime by law of every cell whose group scales, straight between the law's rows in log of processors."""
    found = np.zeros(len(cells))
    for one in np.flatnonzero(scales):
        rows, own = np.flatnonzero(group == one), np.flatnonzero(cells.group == one)
        rows = rows[np.argsort(procs[rows])]
        found[own] = np.interp(np.log(cells.procs[own]), np.log(procs[rows]), law[rows])
    return found


def _segment(fitted: Fitted, settings: PredictRules, end_s: float) -> list[Scored]:
    """The scores of every cut from the fit's time to `end_s`."""
    cells, step_s = fitted.cells, step_days(settings.horizon_days) * DAY_S
    cuts_s = [float(cut_s) for cut_s in np.arange(fitted.at_s, end_s, step_s)]
    before = past_cuts(cells, fitted.at_s, settings)
    windows = windows_at(cells, fitted.level, settings, [*before, *cuts_s])
    return [_scored(fitted, settings, windows, window) for window in windows if window.cut_s >= fitted.at_s]


def _scored(fitted: Fitted, settings: PredictRules, windows: Sequence[Window], window: Window) -> Scored:
    cells, cut_s = fitted.cells, window.cut_s
    past = PastWindows.of(windows, cells, cut_s, settings.past_windows)
    rows = np.append(window.cell, _beside(cells, fitted.scales, window.cell, cut_s))
    targets = target_cells(cells, fitted.level, rows, cut_s)
    answers = answers_at(cells, fitted.level, targets, cut_s, past, settings)
    place = places_of(fitted.law_keys, cell_keys(targets.group, targets.procs))
    is_law = fitted.scales[targets.group] & (targets.cell < 0)
    log_s = with_law(answers.log_s, fitted.laws.take(pa.array(np.maximum(place, 0))), is_law & (place >= 0))
    record = Record.of(past, len(cells), settings.horizon_days)
    codes = fitted.laws.column("reliability").cast(pa.string())
    sound = pc.equal(codes, "ok").to_numpy(zero_copy_only=False)[np.maximum(place, 0)] & (place >= 0)
    believed = believed_rows(record, targets, answers.half_iqr, fitted.scales, sound)
    near = np.where(record.windows(targets.cell) >= MIN_WINDOWS, record.share(targets.cell, answers.half_iqr), np.nan)
    in_reach = _in_reach(cells, targets.group, targets.procs, cut_s, settings.reach)
    is_published = (targets.cell >= 0) | np.where(is_law, place >= 0, in_reach)
    kept = is_published[window.row]
    row, run = window.row[kept], window.run[kept]
    none, no_law = np.zeros(len(cells)), np.zeros(rows.size)
    kernel_s = np.exp(kernel_averages(cells, none, targets.group, targets.procs, no_law, cut_s))
    columns = dict(zip(("runtime_s_lo95", "runtime_s_lo80", "runtime_s", "runtime_s_hi80", "runtime_s_hi95"),
                       np.exp(log_s).T, strict=True))  # fmt: skip
    numbers = {name: values[row] for name, values in (columns | {"near_share": near}).items()}
    return Scored(np.exp(cells.log_s[run]), numbers, believed[row], (targets.cell >= 0)[row], kernel_s[row])


def _beside(cells: Cells, scales: Bools, wanted: Ints, cut_s: float) -> Ints:
    """The other cells that had run of groups that scale and of which a count is wanted that had not."""
    new = wanted[cells.ended(wanted, cut_s) == 0]
    groups = np.unique(cells.group[new])
    every = np.flatnonzero(np.isin(cells.group, groups[scales[groups]]))
    every = every[cells.ended(every, cut_s) > 0]
    return np.setdiff1d(every, wanted)


def _in_reach(cells: Cells, group: Ints, procs: Floats, cut_s: float, reach: float) -> Bools:
    """Whether a count lies within reach of those its group had run on."""
    ran = np.flatnonzero(cells.ended(np.arange(len(cells)), cut_s) > 0)
    low, high = np.full(len(cells.group_id), np.inf), np.zeros(len(cells.group_id))
    np.minimum.at(low, cells.group[ran], cells.procs[ran])
    np.maximum.at(high, cells.group[ran], cells.procs[ran])
    found: Bools = (procs >= low[group] / reach) & (procs <= high[group] * reach)
    return found


def _ends(jobs: pa.Table) -> Floats:
    end_s = floats(jobs, "end_s")
    return np.where(np.isnan(end_s), floats(jobs, "submit_s") + floats(jobs, "runtime_s"), end_s)
