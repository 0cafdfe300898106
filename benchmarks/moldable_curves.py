"""What is true in replays with moldable jobs: a log's jobs, and the curves that their runtimes follow.

Curves are measured series, drawn for the log's groups, or the laws of a simulated log.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flows.services.files.os_errors import read_text
from flows.services.logs import settings_and_logs
from flows.services.series_files import read_runs
from flows.services.studies import machine_size
from pipeline.arrays import Bools, Floats, Ints, category_codes, floats, lower_bounds
from pipeline.clean import clean
from pipeline.errors import InputError, printable
from pipeline.group import assign_groups, choose_template, with_chosen
from pipeline.ingest import ingest
from pipeline.ingest.privacy import with_hashed_names
from pipeline.laws import LAWS
from pipeline.schedule.workload import Workload, workload_of_jobs
from pipeline.settings import RunSettings

LEAST_SIZES, LEAST_SPAN = 4, 8.0
"""A series that is drawn has at least so many sizes, and so large a ratio of the largest to the smallest."""
TRUTH_FILE = "a JSON object with applications: user, executable, requested_mem_kib, law and its parameters"
"""What a file of simulated laws holds."""
_KEYS = ("user", "executable", "requested_mem_kib")
_COLUMNS = ("user", "application", "requested_mem_kib")


HISTORY_SHARE = 1 / 3
"""The first third of the jobs runs on preferred counts in every replay. It is what curves are fitted to."""


@dataclass(frozen=True, slots=True)
class MoldableLog:
    """A log's jobs as a replay takes them, and what is known of each."""

    name: str
    work: Workload
    jobs: pa.Table
    """The job of each place of `work`, with its group."""
    group: Ints
    """(jobs,) a code into `group_ids`; -1: none."""
    group_ids: list[str]
    is_bound: Bools
    """(jobs,): whether the runtime is only a lower bound."""
    n_history: int
    """Number of jobs before the first that may be moldable."""
    template: str
    settings: RunSettings

    @property
    def cut_s(self) -> int:
        """The submit of the first job that may be moldable, s since 1970."""
        return int(self.work.submit_s[self.n_history])


def moldable_log(name: str, grouped: pa.Table, capacity: int, template: str, settings: RunSettings) -> MoldableLog:
    """The jobs of a grouped table that can be replayed; InputError for too few."""
    work = workload_of_jobs(grouped, capacity, counts_every_request=settings.clean.counts_every_request)
    if len(work) < 30:
        raise InputError(printable(name), f"{len(work)} jobs that can be replayed", "at least 30")
    jobs = grouped.take(pa.array(work.row))
    group, ids = category_codes(jobs, "group_id")
    n_history = int(np.searchsorted(work.submit_s, work.submit_s[int(len(work) * HISTORY_SHARE)]))
    return MoldableLog(name, work, jobs, group, ids, lower_bounds(jobs), n_history, template, settings)


@dataclass(frozen=True, slots=True)
class World:
    """What is true in one replay: the jobs with their runtimes on the preferred counts, and each job's curve."""

    work: Workload
    curve: Ints
    """(jobs,) the code of the job's curve; -1: none."""
    log_runtime: Callable[[Ints, Ints], Floats]
    """The logarithm of the runtimes of curves (codes) at counts, up to a constant; NaN where a curve does not reach."""
    follows_curve: Bools
    """(jobs,): whether the runtime on the preferred count is on a curve; other jobs stay rigid."""

    def growth(self, job: Ints, procs: Ints) -> Floats:
        """The true runtime of jobs on counts over that on their preferred counts; NaN where no curve says it."""
        own, preferred = self.curve[job], self.work.procs[job]
        ratio: Floats = np.exp(self.log_runtime(own, procs) - self.log_runtime(own, preferred))
        return np.where(self.follows_curve[job], ratio, np.nan)


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
        """The logarithm of the runtimes of laws (codes) at counts."""
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


TrueCurves = MeasuredSeries | SimulatedLaws


def measured_series_of(path: Path, observations: pa.Table, applications: Mapping[str, str]) -> MeasuredSeries:
    """The series of OBSERVATIONS that have sizes enough; InputError, which names the path, where none has."""
    codes, ids = category_codes(observations, "group_id")
    procs, runtime_s = floats(observations, "procs"), floats(observations, "runtime_s_median")
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


def simulated_laws_of(path: Path, stated: object) -> SimulatedLaws:
    """The laws of a truth file's object, as data_samples/riverbend.truth.json has; InputError where it states none."""
    applications = stated.get("applications") if isinstance(stated, dict) else None
    if not (isinstance(applications, list) and applications and all(map(_is_application, applications))):
        raise InputError(printable(str(path)), "a file without laws", TRUTH_FILE)
    return SimulatedLaws(path.name.partition(".")[0], applications)


def _is_application(stated: object) -> bool:
    return isinstance(stated, dict) and {*_KEYS, "law"} <= stated.keys() and str(stated["law"]) in LAWS


def read_moldable_log(given: Path, max_procs: int | None = None) -> MoldableLog:
    """A log, or the logs of a config; InputError where the size of the machine is unknown or jobs are too few.

    The template of the groups is chosen on the first third of the jobs. Flags are those of the whole log.
    """
    _, settings, paths = settings_and_logs(given)
    read, _, report = ingest(paths, settings.site, settings.ingest)
    header = report.facts.get("max_procs")
    capacity, _ = machine_size(max_procs, settings.site.max_procs, header, printable(str(given)))
    settings = settings.model_copy(update={"site": settings.site.model_copy(update={"max_procs": capacity})})
    flagged, *_ = clean(read, with_hashed_names(settings).clean, settings.site)
    early = flagged.slice(0, max(1, int(flagged.num_rows * HISTORY_SHARE)))
    templates, _ = choose_template(early, settings.group)
    chosen = with_chosen(settings.group, templates)
    grouped, _ = assign_groups(flagged, chosen)
    return moldable_log(given.name, grouped, capacity, "+".join(chosen.template), settings)


def true_curves(series: Path | None, laws: Path | None) -> TrueCurves:
    """The curves of a CSV of measured runs, else of a truth file; InputError for no curve."""
    if series is not None:
        return measured_series_of(series, *read_runs(series)[:2])
    assert laws is not None
    try:
        stated = json.loads(read_text(laws, TRUTH_FILE))
    except ValueError:
        stated = None
    return simulated_laws_of(laws, stated)
