"""A run's time on another platform, from the times of some occurrences of each phase there and here.

The times are as planned, from a second run, or from a CSV that a user measured.
"""

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.special import stdtrit

from pipeline.arrays import Bools, Floats, Ints, arrow, integers
from pipeline.errors import InputError, printable
from pipeline.phase_tables import PHASE_TIMES, PLATFORM_PREDICTIONS
from pipeline.phases.occurrences import NOT_REPETITIVE, Occurrences, evenly_spaced, status_of
from pipeline.phases.phase_input import UNREADABLE, ExpansionRules, PhaseRules, header_of, open_plain
from pipeline.report import Report, Tally
from pipeline.schema import as_array

NEEDED = ("phase_id", "occurrence", "time_s")
_TRUE, _FALSE = {"1", "true", "yes"}, {"0", "false", "no", ""}


def planned_times(points: pa.Table, plan: pa.Table, times_s: Floats, platform: str, start: float = 0.5) -> pa.Table:
    """PHASE_TIMES from the time of every occurrence (s, in the order of the run, NaN: unknown).

    The control has as many occurrences as are timed, spread evenly over the run from `start`. InputError where the time
    of a planned occurrence is unknown.
    """
    found = Occurrences.of(points)
    timed, warmups = planned_places(found, plan)
    missing = np.flatnonzero(np.isnan(times_s[np.r_[timed, warmups]]))
    if len(missing):
        place = np.r_[timed, warmups][missing[0]]
        which = f"phase {found.phase[place]}, occurrence {found.occurrence[place]}"
        raise InputError(f"platform {platform}", f"no time of {which}", "the times of all planned occurrences")
    control = evenly_spaced(len(found), max(len(timed), 1), start)
    control = control[~np.isnan(times_s[control])]
    # An incomplete control would compare other times with these.
    control = control if len(control) == len(timed) else control[:0]
    places = np.concatenate([timed, warmups, control])
    uses = np.repeat([0, 1, 2], [len(timed), len(warmups), len(control)])
    named = (plan.column("trace_id")[0].as_py(), platform)
    return times_table(found, places, times_s[places], uses == 1, uses == 2, named)


def times_table(
    found: Occurrences,
    places: Ints,
    times_s: Floats,
    is_warmup: Bools,
    is_control: Bools,
    named: tuple[str, str],
) -> pa.Table:
    """PHASE_TIMES of some places; `named` are trace and platform."""
    trace_id, platform = named
    return PHASE_TIMES.build(
        trace_id=[trace_id] * len(places), phase_id=arrow(found.phase[places]), platform=[platform] * len(places),
        occurrence=arrow(found.occurrence[places]), time_s=arrow(times_s),
        reference_s=as_array(found.reference_s(places), pa.float64()),
        is_warmup=arrow(is_warmup), is_control=arrow(is_control),
    )  # fmt: skip


def planned_places(found: Occurrences, plan: pa.Table) -> tuple[Ints, Ints]:
    """The places of timed and of warm-up occurrences of a plan, in order of the run."""
    phase, occurrence = (integers(plan.column(name))[0] for name in ("phase_id", "occurrence"))
    is_warmup = plan.column("is_warmup").to_numpy(zero_copy_only=False)
    width = int(found.occurrence.max()) + 1
    keys = found.phase * width + found.occurrence
    planned = phase * width + occurrence
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
        key = _place(row, places, where), _is_warmup(row, where)
        if key in times:
            raise InputError(where, "an occurrence that was timed above", "one line per occurrence")
        times[key] = seconds_of(row, "time_s", where)
    if not times:
        raise InputError(printable(path.name), "no times", "one line per timed occurrence")
    at, is_warmup = (np.array(one) for one in zip(*times, strict=True))
    none = np.zeros(len(at), np.bool_)
    return times_table(found, at, np.array(list(times.values())), is_warmup, none, (trace_id, platform))


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


def _place(row: dict[str, str], places: dict[tuple[int, int], int], where: str) -> int:
    phase, occurrence = row["phase_id"], row["occurrence"]
    if not (phase.isdecimal() and occurrence.isdecimal()) or (int(phase), int(occurrence)) not in places:
        found = f"phase {printable(phase, 40) or 'empty'}, occurrence {printable(occurrence, 40) or 'empty'}"
        raise InputError(where, found, "a phase and an occurrence of this run", "see the plan")
    return places[int(phase), int(occurrence)]


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


def _is_warmup(row: dict[str, str], where: str) -> bool:
    text = row.get("is_warmup", "").lower()
    if text not in _TRUE | _FALSE:
        raise InputError(where, f"is_warmup {printable(text, 40)}", "true or false")
    return text in _TRUE


Figures = dict[str, float | None]
"""Columns of PLATFORM_PREDICTIONS."""

PRIOR_FREEDOM, LEAST_DEVIATION = 1, 0.05
"""The spread of a phase's times there is as if this many more of them had the relative deviation of all times here.

A few times rarely hold the rare slow ones, so that their own spread is too small. The deviation is at least the second
number: times that do not vary here may vary elsewhere. Chosen by how often intervals of BT, CG, LU, MG and simulated
steps hold; without each of them in turn the choice is the same, but half the deviation without LU.
"""


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
            phase_facts = int(counts[row]), float(reference_s[row]), float(deviations[row])
            parts.append(_part(there_s[mine], here_s[mine], *phase_facts, rules))
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
    runtime_s = sum(part.time_s for part in parts) / coverage
    found["runtime_s"] = runtime_s
    if spread := _spread(parts, coverage, runtime_s):
        least_s = min(float(there_s[is_timed].sum()), runtime_s)
        for level in (80, 95):
            width_s = spread[0] * float(stdtrit(min(spread[1], 1e9), (1 + level / 100) / 2))
            found |= {f"runtime_s_lo{level}": max(runtime_s - width_s, least_s)}
            found |= {f"runtime_s_hi{level}": runtime_s + width_s}
    return found


def _part(
    timed_s: Floats, here_s: Floats, n_occurrences: int, reference_s: float, relative_sd: float, rules: ExpansionRules
) -> _Part:
    """One phase: the mean of the sample, moved along a slope from the sample's reference mean to the whole phase's.

    `reference_s` is the time of all its occurrences here, `relative_sd` the deviation of their times over the mean.

    Source: Cochran 1977, Sections 2.8 (count), 6.4 (ratio) and 7.3 (regression), for a finite population.
    """
    n, mean_s = len(timed_s), float(timed_s.mean())
    if rules.form == "count":
        # The reference may not have been timed.
        here_s, reference_s = np.zeros(n), 0.0
    slope, is_fitted = _slope(timed_s, here_s, rules)
    around, step_s = here_s - here_s.mean(), reference_s / n_occurrences - float(here_s.mean())
    freedom, time_s = n - 1 - is_fitted, n_occurrences * (mean_s + slope * step_s)
    if n >= n_occurrences:
        return _Part(time_s, 0.0, freedom)
    prior = PRIOR_FREEDOM * (max(relative_sd, LEAST_DEVIATION) * mean_s) ** 2
    spread = (float(((timed_s - mean_s - slope * around) ** 2).sum()) + prior) / (freedom + PRIOR_FREEDOM)
    variance = (1 / n - 1 / n_occurrences) * spread
    if is_fitted:
        # The slope is uniform between its bounds where the sample says less.
        bounds = float(timed_s.sum() / here_s.sum()) ** 2 / 12
        variance += step_s**2 * min(spread / float((around**2).sum()), bounds)
    return _Part(time_s, n_occurrences**2 * variance, freedom)


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
