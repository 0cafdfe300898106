"""A run's time on another platform, from the times of some occurrences of each phase there and here.

The times are as planned, from a second run, or from a CSV that a user measured.
"""

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import stdtrit

from pipeline.arrays import Bools, Floats, Ints, arrow, integers
from pipeline.errors import InputError, printable
from pipeline.phases.occurrences import NOT_REPETITIVE, Occurrences, representative, status_of
from pipeline.phases.phase_input import UNREADABLE, ExpansionRules, PhaseRules, header_of, open_plain
from pipeline.report import Report, Tally
from pipeline.schema import as_array
from pipeline.tables import INTERVALS, PHASE_TIMES, PLATFORM_PREDICTIONS

NEEDED = ("phase_id", "occurrence", "time_s")
_TRUE, _FALSE = {"1", "true", "yes"}, {"0", "false", "no", ""}


Figures = dict[str, Any]
"""Columns of PLATFORM_PREDICTIONS."""

PRIOR_FREEDOM, LEAST_DEVIATION = 1, 0.05
"""The spread of a phase's times there is as if this many more of them had the relative deviation of all times here.

A few times rarely hold the rare slow ones, so that their own spread is too small. The deviation is at least the second
number: times that do not vary here may vary elsewhere. Chosen by how often intervals of BT, CG, LU, MG and simulated
steps hold; without each of them in turn the choice is the same, but half the deviation without LU.
"""

EVEN, PHASES_ANSWER = "even", "phases"


@dataclass(frozen=True, slots=True)
class _Part:
    """A phase's expanded time (s), its variance (0: timed whole), and how many times tell the spread."""

    time_s: float
    variance: float
    freedom: int


def expand(phases: pa.Table, times: pa.Table, rules: ExpansionRules) -> Figures:
    """The runtime on the platform of PHASE_TIMES: runtime_s, the ends of its intervals, method, coverage, phases_s,
    set_s, control_s and control_factor_s. What no time tells is None.

    The timed occurrences of the relevant phases answer, or an evenly spaced sample of the whole run, which needs no
    phases, where that was timed too and its interval is much narrower.
    """
    there_s, here_s = (times.column(name).to_numpy() for name in ("time_s", "reference_s"))
    is_warmup, is_even = (times.column(name).to_numpy(zero_copy_only=False) for name in ("is_warmup", "is_control"))
    is_timed, phase = ~is_warmup & ~is_even, integers(times.column("phase_id"))[0]
    ids, counts = (integers(phases.column(name))[0] for name in ("phase_id", "n_occurrences"))
    reference_s, shares, deviations = (phases.column(name).to_numpy() for name in ("time_s", "share", "relative_sd"))

    def part(chosen: Bools, n_occurrences: int, whole_s: float, relative_sd: float) -> _Part:
        return _part(there_s[chosen], here_s[chosen], n_occurrences, whole_s, relative_sd, rules)

    # A stratified sample: the relevant phases, divided by the share of the time that they cover.
    parts, coverage = [], 0.0
    for row in np.flatnonzero(phases.column("is_relevant").to_numpy(zero_copy_only=False)):
        mine = is_timed & (phase == ids[row])
        if mine.any():
            coverage += float(shares[row])
            parts.append(part(mine, int(counts[row]), float(reference_s[row]), float(deviations[row])))
    by_phases = _estimate(parts, coverage, float(there_s[is_timed].sum()))
    # The same with all occurrences as one phase.
    whole_s, mean = float(reference_s.sum()), float(shares.sum() / counts.sum())
    squares = float((counts * ((deviations**2 + 1) * (shares / counts) ** 2)).sum() / counts.sum())
    deviation = float(np.sqrt(max(squares - mean**2, 0.0))) / mean
    one = [part(is_even, int(counts.sum()), whole_s, deviation)] if is_even.any() else []
    by_even = _estimate(one, 1.0, float(there_s[is_even].sum()))
    is_narrower = _width(by_even) < rules.even_width * _width(by_phases)
    set_s = float(there_s[~is_even].sum()) + (float(there_s[is_even].sum()) if is_narrower else 0.0)
    sums = float(there_s[is_timed].sum()), float(here_s[is_timed].sum())
    return (by_even if is_narrower else by_phases) | {
        "method": EVEN if is_narrower else PHASES_ANSWER, "coverage": min(coverage, 1.0),
        "phases_s": by_phases["runtime_s"], "set_s": set_s, "control_s": by_even["runtime_s"],
        "control_factor_s": whole_s * sums[0] / sums[1] if sums[1] > 0 else None,
    }  # fmt: skip


def _part(
    timed_s: Floats, here_s: Floats, n_occurrences: int, reference_s: float, relative_sd: float, rules: ExpansionRules
) -> _Part:
    """One phase: the mean of the sample, moved along a slope from the sample's reference mean to the whole phase's.

    `reference_s` is the time of all its occurrences here, `relative_sd` the deviation of their times over the mean.

    Source: Cochran 1977, Sections 2.8 (count), 6.4 (ratio) and 7.3 (regression), for a finite population.
    """
    n, mean_s = len(timed_s), float(timed_s.mean())
    if rules.form == "count" or np.isnan(reference_s):
        # The reference may not have been timed.
        here_s, reference_s = np.zeros(n), 0.0
    # The slope says how the time there grows with the time here: between 0 (occurrences differ by chance alone) and the
    # ratio (they differ by their work), which also a fit keeps to: few times would else give any slope.
    ratio = float(timed_s.sum() / here_s.sum()) if here_s.sum() > 0 else 0.0
    around, slope, is_fitted = here_s - here_s.mean(), ratio, False
    if rules.form == "regression" and n >= 3 and (around**2).sum() > 0:
        fitted = float((around * (timed_s - mean_s)).sum() / (around**2).sum())
        slope, is_fitted = min(max(fitted, 0.0), ratio), 0.0 < fitted < ratio
    step_s, freedom = reference_s / n_occurrences - float(here_s.mean()), n - 1 - is_fitted
    time_s = n_occurrences * (mean_s + slope * step_s)
    if n >= n_occurrences:
        return _Part(time_s, 0.0, freedom)
    prior = PRIOR_FREEDOM * (max(relative_sd, LEAST_DEVIATION) * mean_s) ** 2
    spread = (float(((timed_s - mean_s - slope * around) ** 2).sum()) + prior) / (freedom + PRIOR_FREEDOM)
    variance = (1 / n - 1 / n_occurrences) * spread
    if is_fitted:
        # The slope is uniform between its bounds where the sample says less.
        variance += step_s**2 * min(spread / float((around**2).sum()), ratio**2 / 12)
    return _Part(time_s, n_occurrences**2 * variance, freedom)


def _estimate(parts: list[_Part], coverage: float, measured_s: float) -> Figures:
    """The runtime from its parts and the ends of its intervals, which are None where nothing tells the spread.

    Degrees of freedom: Satterthwaite 1946. A run takes no less than its measured part.
    """
    found: Figures = dict.fromkeys(INTERVALS)
    if not parts:
        return found
    found["runtime_s"] = runtime_s = sum(part.time_s for part in parts) / coverage
    if any(part.freedom for part in parts):
        # What was not timed may scale by anything from 0 to twice the mean: a uniform spread of 1 / sqrt(3).
        unknown = (max(1 - coverage, 0.0) * runtime_s) ** 2 / 3
        total = sum(part.variance for part in parts) / coverage**2 + unknown
        squares = sum((part.variance / coverage**2) ** 2 / (part.freedom + PRIOR_FREEDOM) for part in parts)
        freedom = min(total**2 / squares, 1e9) if squares else 1e9
        for level in (80, 95):
            width_s = float(np.sqrt(total) * stdtrit(freedom, (1 + level / 100) / 2))
            found[f"runtime_s_lo{level}"] = max(runtime_s - width_s, min(measured_s, runtime_s))
            found[f"runtime_s_hi{level}"] = runtime_s + width_s
    return found


def _width(found: Figures) -> float:
    """The 80% interval's width by the runtime; NaN where it is unknown, which is not less than anything."""
    if found["runtime_s_hi80"] is None:
        return math.nan
    return float((found["runtime_s_hi80"] - found["runtime_s_lo80"]) / found["runtime_s"])


RUN_IT_WHOLE = "The run is not repetitive: run it whole. Timing its phases takes almost as long as the run."


def predict_runtime(
    phases: pa.Table, times: pa.Table, rules: PhaseRules, *, procs: int, measured_s: float | None = None,
    application: str | None = None,
) -> tuple[pa.Table, Report]:  # fmt: skip
    """One row of PLATFORM_PREDICTIONS, and a Report of the times; `measured_s` is the true time where it is known.

    The status is of the reference trace alone: `not_repetitive` stands beside the figures of a run that has to be run
    whole.
    """
    status, seen = status_of(phases, rules.plan), Tally(times.num_rows)
    is_repetitive = status != NOT_REPETITIVE
    found = expand(phases, times, rules.expansion if is_repetitive else replace(rules.expansion, even_width=0.0))
    runtime_s, phases_s, notes = found["runtime_s"], found.pop("phases_s"), []
    if found["method"] == EVEN:
        notes.append(
            "An evenly spaced sample of the whole run answers: its interval is much narrower than that of the phases, "
            f"which predict {phases_s:.4g} s."
        )
    if not is_repetitive:
        notes.append(RUN_IT_WHOLE)
    row = found | {
        "trace_id": phases.column("trace_id")[0].as_py(), "platform": times.column("platform")[0].as_py(),
        "application": application, "procs": procs, "status": status, "measured_s": measured_s,
        "set_share": found["set_s"] / runtime_s if runtime_s else None,
        "error": runtime_s / measured_s - 1 if runtime_s is not None and measured_s else None,
    }  # fmt: skip
    table = PLATFORM_PREDICTIONS.build(**{name: [value] for name, value in row.items()})
    return table, Report("predict_phases", "time", seen, seen, notes=tuple(notes))


def planned_times(points: pa.Table, plan: pa.Table, times_s: Floats, platform: str, start: float = 0.5) -> pa.Table:
    """PHASE_TIMES from the time of every occurrence (s, in the order of the run, NaN: unknown).

    The control has as many occurrences as are timed, spread evenly over the run from `start`; it is left out where one
    of them is unknown, because it would compare other times with these. InputError where the time of a planned
    occurrence is unknown.
    """
    found = Occurrences.of(points)
    timed, warmups = planned_places(found, plan)
    planned = np.r_[timed, warmups]
    missing = planned[np.isnan(times_s[planned])]
    if len(missing):
        which = f"phase {found.phase[missing[0]]}, occurrence {found.occurrence[missing[0]]}"
        raise InputError(f"platform {platform}", f"no time of {which}", "the times of all planned occurrences")
    control = representative(found.time_s, len(timed), start)
    control = control[:0] if np.isnan(times_s[control]).any() else control
    places = np.r_[planned, control]
    uses = np.repeat([0, 1, 2], [len(timed), len(warmups), len(control)])
    return _times_table(found, places, times_s[places], uses, plan.column("trace_id")[0].as_py(), platform)


def _times_table(
    found: Occurrences, places: Ints, times_s: Floats, uses: Ints, trace_id: str, platform: str
) -> pa.Table:
    """PHASE_TIMES of some places; uses are 0 (timed), 1 (warm-up) and 2 (control)."""
    return PHASE_TIMES.build(
        trace_id=[trace_id] * len(places), phase_id=arrow(found.phase[places]), platform=[platform] * len(places),
        occurrence=arrow(found.occurrence[places]), time_s=arrow(times_s),
        reference_s=as_array(found.reference_s(places), pa.float64()),
        is_warmup=arrow(uses == 1), is_control=arrow(uses == 2),
    )  # fmt: skip


def planned_places(found: Occurrences, plan: pa.Table) -> tuple[Ints, Ints]:
    """The places of timed and of warm-up occurrences of a plan, in order of the run."""
    phase, occurrence = (integers(plan.column(name))[0] for name in ("phase_id", "occurrence"))
    is_warmup = plan.column("is_warmup").to_numpy(zero_copy_only=False)
    width = int(found.occurrence.max()) + 1
    keys, planned = found.phase * width + found.occurrence, phase * width + occurrence
    return np.flatnonzero(np.isin(keys, planned[~is_warmup])), np.flatnonzero(np.isin(keys, planned[is_warmup]))


def read_measured_times(path: Path, points: pa.Table, trace_id: str, platform: str) -> pa.Table | None:
    """PHASE_TIMES of a CSV with phase_id, occurrence, time_s (s), and optionally is_warmup; None for another file.

    InputError with the line of a wrong row.
    """
    if not path.is_file() or not set(NEEDED) <= set(header_of(path)):
        return None
    found = Occurrences.of(points)
    pairs = zip(found.phase.tolist(), found.occurrence.tolist(), strict=True)
    places = {pair: place for place, pair in enumerate(pairs)}
    times: dict[tuple[int, bool], float] = {}
    for where, row in csv_rows(path, NEEDED):
        phase, occurrence, use = row["phase_id"], row["occurrence"], row.get("is_warmup", "").lower()
        if not (phase.isdecimal() and occurrence.isdecimal()) or (int(phase), int(occurrence)) not in places:
            wrong = f"phase {printable(phase, 40) or 'empty'}, occurrence {printable(occurrence, 40) or 'empty'}"
            raise InputError(where, wrong, "a phase and an occurrence of this run", "see the plan")
        if use not in _TRUE | _FALSE:
            raise InputError(where, f"is_warmup {printable(use, 40)}", "true or false")
        key = places[int(phase), int(occurrence)], use in _TRUE
        if key in times:
            raise InputError(where, "an occurrence that was timed above", "one line per occurrence")
        times[key] = seconds_of(row, "time_s", where)
    if not times:
        raise InputError(printable(path.name), "no times", "one line per timed occurrence")
    at, uses = (np.array(one, np.int64) for one in zip(*times, strict=True))
    return _times_table(found, at, np.array(list(times.values())), uses, trace_id, platform)


def csv_rows(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """The place of each row in words, and its cells by column; InputError where the file or a column is missing."""
    label, expected = printable(path.name), f"a CSV with the columns {', '.join(needed)}"
    try:
        with open_plain(path) as source:
            text = source.read().decode("utf-8-sig")
    except (*UNREADABLE, UnicodeDecodeError) as error:
        said = printable(str(error).partition("\n")[0])
        raise InputError(label, f"a file that cannot be read ({said})", expected) from error
    reader = csv.DictReader(io.StringIO(text), restval="")
    names = [name.strip() for name in reader.fieldnames or ()]
    reader.fieldnames = names
    if missing := [name for name in needed if name not in names]:
        found = f"no column {missing[0]} among {', '.join(printable(name, 40) for name in names[:10]) or 'none'}"
        raise InputError(label, found, expected, "name the column of the times")
    for row in reader:
        yield f"{label}, line {reader.line_num}", {name: (row[name] or "").strip() for name in names}


def seconds_of(row: dict[str, str], name: str, where: str, *, is_positive: bool = False) -> float:
    """The time in a row (s); InputError where it is none."""
    try:
        value = float(row[name])
    except ValueError:
        value = math.nan
    if not (0 < value < math.inf or (value == 0 and not is_positive)):
        expected = "seconds above 0" if is_positive else "seconds, 0 or more"
        raise InputError(where, f"{name} {printable(row[name], 40) or 'empty'}", expected)
    return value
