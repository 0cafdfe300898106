"""The curves that jobs of a replay follow: measured series drawn for a log's groups, or a simulated log's laws."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from flows.services.files.os_errors import read_text
from flows.services.moldable.moldable_log import MoldableLog
from flows.services.series.series_csv import read_series_and_applications
from pipeline.core.arrays import Bools, Floats, Ints, category_codes, floats
from pipeline.core.errors import InputError
from pipeline.core.text import printable
from pipeline.evaluate.replay import Workload
from pipeline.laws import LAWS

LEAST_SIZES, LEAST_SPAN = 4, 8.0
"""A series that is drawn has at least so many sizes, and so large a ratio of the largest to the smallest."""
_KEYS = ("user", "executable", "requested_mem_kib")
_COLUMNS = ("user", "application", "requested_mem_kib")


@dataclass(frozen=True, slots=True)
class World:
    """What is true in one replay: the jobs with their runtimes on the preferred counts, and each job's curve."""

    work: Workload
    curve: Ints
    """(jobs,) the code of the job's curve; -1: none."""
    log_runtime: "LogRuntimes"
    follows_curve: Bools
    """(jobs,): whether the runtime on the preferred count is on a curve; other jobs stay rigid."""

    def growth(self, job: Ints, procs: Ints) -> Floats:
        """The true runtime of jobs on counts over that on their preferred counts; NaN where no curve says it."""
        own, preferred = self.curve[job], self.work.procs[job]
        ratio: Floats = np.exp(self.log_runtime(own, procs) - self.log_runtime(own, preferred))
        return np.where(self.follows_curve[job], ratio, np.nan)


class LogRuntimes(Protocol):
    """Curves by code."""

    def __call__(self, code: Ints, procs: Ints) -> Floats:
        """The logarithm of each curve's runtime at a count, up to a constant; NaN where the curve does not reach."""


class TrueCurves(Protocol):
    """Where true curves come from."""

    @property
    def name(self) -> str:
        """The source's name."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is taken to be true, in sentences."""

    def world(self, log: MoldableLog, generator: np.random.Generator) -> World:
        """The jobs of a log under these curves; what is drawn, is drawn by the generator."""


@dataclass(frozen=True, slots=True)
class MeasuredSeries:
    """Measured series: log counts and log median runtimes of each, and the series of each application."""

    name: str
    log_procs: list[Floats]
    log_s: list[Floats]
    by_application: list[list[int]]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is taken to be true, in sentences."""
        return (
            f"Arrivals, users, sizes and the ratio of request to runtime are the log's. That jobs of one group run one "
            f"application is assumed, and that it scales as one of {len(self.log_s)} measured series of "
            f"{len(self.by_application)} applications, which the seed draws (an application, then a series).",
            "A series is stretched so that its middle is the group's median count. Runtimes follow it: each job keeps "
            "its deviation from the median of its group at its count, and a group keeps its processor-seconds.",
            "Jobs outside the measured sizes keep the log's runtime and count.",
        )

    def world(self, log: MoldableLog, generator: np.random.Generator) -> World:
        """Every group of the log follows a drawn series, which is stretched so that its middle is the group's median
        count. Each job keeps its deviation from the median of its group at its count, and the group its
        processor-seconds; requests grow or shrink with the runtimes."""
        drawn = np.array([self._draw(generator) for _ in log.group_ids], np.int64)
        middle = np.array([(own[0] + own[-1]) / 2 for own in self.log_procs])
        shift = middle[drawn] - np.log(_group_medians(log, log.work.procs))
        curves = _Drawn(self, drawn, shift)
        work, on_curve = _on_curves(log, curves(log.group, log.work.procs))
        return World(work, log.group, curves, on_curve)

    def _draw(self, generator: np.random.Generator) -> int:
        """An application, and one of its series."""
        own = self.by_application[generator.integers(len(self.by_application))]
        return own[generator.integers(len(own))]


@dataclass(frozen=True, slots=True)
class _Drawn:
    measured: MeasuredSeries
    series: Ints
    shift: Floats

    def __call__(self, code: Ints, procs: Ints) -> Floats:
        found = np.full(len(code), np.nan)
        for one in np.unique(code[code >= 0]):
            rows, series = np.flatnonzero(code == one), self.series[one]
            x, y = self.measured.log_procs[series], self.measured.log_s[series]
            at = np.log(procs[rows]) + self.shift[one]
            inside = (at >= x[0] - 1e-9) & (at <= x[-1] + 1e-9)
            found[rows] = np.where(inside, np.interp(at, x, y), np.nan)
        return found


def _group_medians(log: MoldableLog, values: Ints) -> Floats:
    found = np.ones(len(log.group_ids))
    for code in range(len(found)):
        found[code] = np.median(values[log.group == code])
    return found


def _on_curves(log: MoldableLog, log_curve: Floats) -> tuple[Workload, Bools]:
    """The workload with the runtimes of curves, and which jobs have them."""
    work, on_curve = log.work, np.isfinite(log_curve)
    run_s = work.run_s.astype(np.float64)
    pair = log.group * (work.capacity + 1) + work.procs
    _, place = np.unique(np.where(on_curve, pair, -1), return_inverse=True)
    for rows in _rows_of(place[on_curve], np.flatnonzero(on_curve)):
        run_s[rows] *= np.exp(log_curve[rows[0]]) / np.median(work.run_s[rows])
    for rows in _rows_of(log.group[on_curve], np.flatnonzero(on_curve)):
        held = work.procs[rows]
        run_s[rows] *= (held * work.run_s[rows]).sum() / (held * run_s[rows]).sum()
    run = np.maximum(1, np.rint(run_s)).astype(np.int64)
    request = np.maximum(run, np.ceil(run_s * (work.request_s / work.run_s)).astype(np.int64))
    return replace(work, run_s=run, request_s=np.where(on_curve, request, work.request_s)), on_curve


def _rows_of(codes: Ints, rows: Ints) -> list[Ints]:
    """The rows of each code."""
    order = np.argsort(codes, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(codes[order])) + 1) if len(rows) else []


@dataclass(frozen=True, slots=True)
class SimulatedLaws:
    """The laws of a simulated log, one an application, as its truth file states them."""

    name: str
    applications: list[Mapping[str, Any]]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is taken to be true, in sentences."""
        return (
            f"Jobs are as logged. Each of {len(self.applications)} applications follows the law that the truth file "
            "states; a job keeps its deviation from the law on other counts.",
        )

    def world(self, log: MoldableLog, generator: np.random.Generator) -> World:
        """The jobs as logged; nothing is drawn. Jobs of no named application have no curve."""
        del generator
        named = {tuple(_word(one[key]) for key in _KEYS): k for k, one in enumerate(self.applications)}
        columns = [log.jobs.column(name).to_pylist() for name in _COLUMNS]
        found = [named.get(tuple(map(_word, values)), -1) for values in zip(*columns, strict=True)]
        # What cleaning set aside (hangs, failed starts, copies) does not follow the law of its application.
        curve = np.where(log.group >= 0, np.array(found, np.int64), -1)
        return World(log.work, curve, self, curve >= 0)

    def __call__(self, code: Ints, procs: Ints) -> Floats:
        """LogRuntimes of the laws."""
        found = np.full(len(code), np.nan)
        for one in np.unique(code[code >= 0]):
            rows, own = np.flatnonzero(code == one), self.applications[one]
            law = LAWS[own["law"]]
            values = {key: np.full(len(rows), float(value)) for key, value in own.items() if _is_number(value)}
            found[rows] = np.log(law.runtime_s(values, procs[rows].astype(np.float64)))
        return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _word(value: object) -> str:
    return "" if value is None else f"{float(value):g}" if _is_number(value) or str(value).isdigit() else str(value)  # type: ignore[arg-type]


def true_curves(series: Path | None, laws: Path | None) -> TrueCurves:
    """The curves of the one source given; InputError for none or both."""
    if (series is None) == (laws is None):
        found = "neither --series nor --laws" if series is None else "--series and --laws"
        raise InputError("walltime moldable", found, "one source of true curves", "give --series FILE.csv")
    return measured_series(series) if series else simulated_laws(laws)  # type: ignore[arg-type]


def measured_series(path: Path) -> MeasuredSeries:
    """The series of a CSV that have sizes enough; InputError where none has."""
    table, applications = read_series_and_applications(path)
    codes, ids = category_codes(table, "group_id")
    procs, runtime_s = floats(table, "procs"), floats(table, "runtime_s_median")
    x, y, owner = [], [], []
    for code, name in enumerate(ids):
        rows = np.flatnonzero((codes == code) & (runtime_s > 0))
        rows = rows[np.argsort(procs[rows], kind="stable")]
        if len(rows) >= LEAST_SIZES and procs[rows[-1]] >= LEAST_SPAN * procs[rows[0]]:
            x.append(np.log(procs[rows]))
            y.append(np.log(runtime_s[rows]))
            owner.append(applications[name])
    if not x:
        found = (
            f"{len(ids)} series, none with {LEAST_SIZES} sizes of which the largest is {LEAST_SPAN:g} times the least"
        )
        raise InputError(printable(str(path)), found, "at least one such series of procs and runtime_s")
    by_application = [[k for k, one in enumerate(owner) if one == name] for name in sorted(set(owner))]
    return MeasuredSeries(path.stem, x, y, by_application)


def simulated_laws(path: Path) -> SimulatedLaws:
    """The laws of a truth file, as data_samples/riverbend.truth.json; InputError where it states none."""
    expected = "a JSON object with applications: user, executable, requested_mem_kib, law and its parameters"
    try:
        told = json.loads(read_text(path, expected))
        applications = told["applications"]
        complete = all({*_KEYS, "law"} <= one.keys() and one["law"] in LAWS for one in applications)
    except (ValueError, KeyError, TypeError, AttributeError):
        complete, applications = False, []
    if not (complete and applications):
        raise InputError(printable(str(path)), "a file without laws", expected)
    return SimulatedLaws(path.name.partition(".")[0], applications)
