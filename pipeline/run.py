"""The steps of a run, in order: the tables each step reads and writes, and the stage it calls.

STEPS is in an order in which each table is written before it is read. A run goes through it in memory (`run_plain`), or
with each step's tables in a folder: plainly, or as tasks of Prefect (`flows`). The bytes of the tables are the same.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats
from pipeline.clean.stage import clean_stored
from pipeline.estimate.baselines import last_two
from pipeline.estimate.estimates import make_estimates, make_memory
from pipeline.estimate.history import LEARN_JOBS, READ, History, history
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.stage import learn_memory, learn_state
from pipeline.estimate.state import walltime
from pipeline.group import (
    assign_stored,
    choose_template,
    describe_groups,
    observe,
    sort_by_group,
    with_chosen,
)
from pipeline.ingest import OnDisk, Window, ingest
from pipeline.ingest.jobs_tables import names_key
from pipeline.ingest.privacy import with_hashed_names
from pipeline.ingest.sources import check_unchanged, find_sources, first_bytes_of, sha256_of_first
from pipeline.inputs.log_models import publish_models
from pipeline.large_tables import LargeTable, each_part, newest_jobs, rows_of
from pipeline.limits.advice import advise
from pipeline.report import Report
from pipeline.scaling.advice import scalability
from pipeline.scaling.fit import FitRules, fit
from pipeline.scaling.group_runs import predict
from pipeline.scaling.predictions import groups_by_application
from pipeline.scaling.predictions import predict as predict_by_law
from pipeline.scaling.problem_sizes import AcrossRules, predict_across
from pipeline.scaling.screens import ScreenRules, find_patterns, level, screen
from pipeline.scaling.series import PredictRules
from pipeline.schema import TableKind
from pipeline.settings import RunSettings
from pipeline.storage import FileStamp, file_stamp
from pipeline.tables import GROUPED_JOBS, JOBS, OBSERVATIONS, PREDICTIONS, TABLES, SubmittedRuns
from pipeline.usage.waste import waste
from pipeline.version import code_version

T = TypeVar("T")

_NOT_OF_RESULT = {"logs", "source", "output_dir", "publish", "checks", "export", "apply", "run"}
"""Settings on which no table depends: where logs come from, how a run is computed, and where its tables go."""


@dataclass(frozen=True, slots=True)
class Run:
    """The input of every step: settings and logs. With the code they determine the id of the run."""

    settings: RunSettings
    logs: tuple[Path, ...]
    log_labels: tuple[str, ...]
    log_digests: tuple[str, ...]
    names: str = ""
    """A fingerprint of the key that hashes names; empty where names are plain."""

    previous_template: str = ""
    """The template of the previous run, kept unless another one is clearly better; empty where there is none."""

    window_s: Window = (None, None)
    """Begin and end (UTC epoch seconds) of the jobs that are used, as `within_window` says; None where it is open."""
    log_stamps: tuple[FileStamp, ...] = ()
    """The state of each log just before its digest was taken."""

    folder: Path | None = None
    """Where the steps write the tables that have a row for each job; None: such tables stay in memory."""

    @property
    def run_id(self) -> str:
        """16 hex digits of a hash of logs, settings and code; runs with the same id write the same bytes."""
        described = self.settings.model_dump(mode="json", exclude=_NOT_OF_RESULT)
        known: list[object] = [self.log_labels, self.log_digests, self.names, self.previous_template]
        # A run without a window keeps the id that it had before there were windows.
        known += [self.window_s] if self.window_s != (None, None) else []
        return _digest(*known, described, code_version())[:16]


@dataclass(frozen=True, slots=True)
class Step:
    """One stage call: the tables it reads and writes, and the settings (or the run's id) its result depends on."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    depends_on: tuple[str, ...]
    call: Callable[..., Sequence[Any]]


def ingest_unchanged(run: Run) -> tuple[LargeTable, pa.Table, Report]:
    """What ingest makes of a run's logs; InputError where one of them changed after its digest was taken."""
    try:
        to = OnDisk.between_steps(run.folder) if run.folder else None
        stamps = dict(zip(run.logs, run.log_stamps, strict=bool(run.log_stamps)))
        logs = [
            first_bytes_of(source, stamps[source.path].bytes) if source.path in stamps else source
            for source in find_sources(run.logs)
        ]
        jobs, lines, report = ingest(logs, run.settings.site, run.settings.ingest, to=to, window_s=run.window_s)
        return jobs, rows_of(lines), report
    finally:
        # Also after a failure: a log that is being replaced looks damaged.
        for path, label, digest, stamp in zip(
            run.logs, run.log_labels, run.log_digests, run.log_stamps, strict=bool(run.log_stamps)
        ):
            check_unchanged(path, label, stamp, digest)


def models_over_inputs(run: Run, jobs: LargeTable) -> tuple[pa.Table, Report]:
    """INPUT_MODELS of a run's jobs."""
    newest, _ = newest_jobs(jobs, READ, LEARN_JOBS)
    runs = submitted_runs(history(newest, run.settings.site.timezone))
    return publish_models(runs, run.settings.inputs, run.settings.site.name, run.run_id)


def submitted_runs(past: History, usual_s: Floats | None = None) -> SubmittedRuns:
    """The jobs of a History, with the rivals of a model: the mean of each submitter's last two jobs, and `walltime`.

    `usual_s` is the median of `walltime` as of each submit, where the caller has it. Without any input there is no
    model, and the rivals are not computed.
    """
    unknown = np.full(len(past), -1, np.int64)
    has_inputs = "inputs" in past.codes and bool((past.codes["inputs"] >= 0).any())
    rival = usual = np.full(len(past), np.nan)
    if has_inputs:
        rival = last_two(past)[:, QUANTILES.index(0.5)]
        usual = walltime(past)[:, QUANTILES.index(0.5)] if usual_s is None else usual_s
    return SubmittedRuns(
        past.submit_s, past.known_s, past.end_s, past.runtime_s, past.is_lower_bound, past.is_learnt, past.requested_s,
        rival, usual, past.procs, past.codes["who"], past.names["who"],
        past.codes.get("what", unknown), past.names.get("what", []),
        past.codes["inputs"] if has_inputs else unknown, past.names["inputs"] if has_inputs else [],
    )  # fmt: skip


STEPS = (
    Step("ingest", (), ("jobs_read", "unreadable"), ("site", "ingest", "inputs", "window_s"),
         ingest_unchanged),
    Step("clean", ("jobs_read",), ("jobs_flagged", "bursts", "effect"), ("site", "clean"),
         lambda run, jobs: clean_stored(jobs, run.settings.clean, run.settings.site, run.folder)),
    Step("templates", ("jobs_flagged",), ("templates",), ("group", "previous_template"),
         lambda run, jobs: choose_template(jobs, run.settings.group, run.previous_template)),
    Step("group", ("jobs_flagged", "templates"), ("jobs",), ("group",),
         lambda run, jobs, templates: assign_stored(jobs, with_chosen(run.settings.group, templates), run.folder)),
    Step("sort", ("jobs", "templates"), ("grouped_jobs",), ("group",),
         lambda run, jobs, templates: sort_by_group(jobs, with_chosen(run.settings.group, templates), run.folder)),
    Step("describe", ("grouped_jobs", "templates"), ("groups",), ("group",),
         lambda run, grouped, templates: each_part(
             grouped, lambda part: describe_groups(part, with_chosen(run.settings.group, templates)))),
    Step("observe", ("grouped_jobs",), ("observed",), ("group",),
         lambda run, grouped: each_part(grouped, lambda part: observe(part, run.settings.group.axis))),
    Step("patterns", ("observed",), ("patterns",), (),
         lambda _run, observed: find_patterns(observed, ScreenRules())),
    Step("screen", ("observed", "patterns"), ("observations",), (),
         lambda _run, observed, patterns: screen(observed, patterns, ScreenRules())),
    Step("level", ("observations", "patterns"), ("levelled",), (),
         lambda _run, observations, patterns: level(observations, patterns)),
    Step("across", ("groups", "levelled"), ("across",), (),
         lambda _run, groups, levelled: predict_across(groups, levelled, AcrossRules())),
    Step("fit", ("levelled",), ("fits",), ("scaling",),
         lambda run, levelled: fit(levelled, FitRules(laws=run.settings.scaling.laws))),
    Step("curves", ("levelled", "fits", "groups", "patterns", "across"), ("curves",), ("site", "scaling", "run_id"),
         lambda run, observed, fits, groups, patterns, across: predict_by_law(
             observed, fits, PredictRules(counts=run.settings.scaling.counts), run.settings.site, run.run_id, None,
             groups_by_application(groups), patterns, across)),
    Step("scalability", ("levelled", "fits", "groups", "patterns"), ("scalability",),
         ("site", "run_id"),
         lambda run, observed, fits, groups, patterns: scalability(
             observed, fits, PredictRules(), run.settings.site, run.run_id, groups_by_application(groups), patterns)),
    Step("learn", ("jobs",), ("state",), ("site",),
         lambda run, jobs: learn_state(jobs, run.settings.site, run.names)),
    Step("predict", ("curves", "grouped_jobs"), ("predictions",), ("run_id",),
         lambda run, curves, grouped: predict(curves, grouped, run.run_id)),
    Step("estimate", ("state", "jobs"), ("estimates",), ("run_id",),
         lambda run, state, jobs: make_estimates(state, jobs, run.run_id)),
    Step("advise", ("jobs",), ("advice",), ("site", "run_id"),
         lambda run, jobs: advise(jobs, run.settings.site, run.run_id)),
    Step("learn_memory", ("jobs",), ("memory_state",), ("site",),
         lambda run, jobs: learn_memory(jobs, run.settings.site, run.names)),
    Step("memory", ("memory_state", "jobs"), ("memory",), ("run_id",),
         lambda run, state, jobs: make_memory(state, jobs, run.run_id)),
    Step("waste", ("jobs",), ("waste",), ("site", "clean", "run_id"),
         lambda run, jobs: waste(
             jobs, run.settings.site.name, run.run_id,
             counts_every_request=run.settings.clean.counts_every_request)),
    Step("inputs", ("jobs",), ("input_models",), ("site", "clean", "inputs", "run_id"),
         models_over_inputs),
)  # fmt: skip

STEPS_BY_NAME = {step.name: step for step in STEPS}

WRITER = {table: step.name for step in STEPS for table in step.writes}
"""The step that writes each table."""

ON_DISK = frozenset({"jobs_read", "jobs_flagged", "jobs", "grouped_jobs"})
"""The tables that have a row for each job, which a run with a folder keeps on disk."""

PUBLISHED = (
    "jobs", "unreadable", "bursts", "effect", "templates", "groups", "observations", "patterns", "across",
    "fits", "predictions", "scalability", "estimates", "advice", "waste", "state",
    "memory", "memory_state", "input_models",
)  # fmt: skip

STEP_TABLES: dict[str, TableKind] = {
    "jobs_read": JOBS, "jobs_flagged": JOBS, "grouped_jobs": GROUPED_JOBS, "observed": OBSERVATIONS,
    "levelled": OBSERVATIONS, "curves": PREDICTIONS,
    **{name: TABLES[name] for name in PUBLISHED},
}  # fmt: skip


def start_run(settings: RunSettings, logs: Sequence[Path]) -> Run:
    """A run over these logs. Each file is read once for its digest, which enters the id of the run."""
    sources, settings = find_sources(logs), with_hashed_names(settings)
    paths, labels = tuple(source.path for source in sources), tuple(source.label for source in sources)
    stamps = tuple(file_stamp(path) for path in paths)
    digests = tuple(sha256_of_first(path, stamp.bytes) for path, stamp in zip(paths, stamps, strict=True))
    return Run(settings, paths, labels, digests, names_key(sources, settings.site), log_stamps=stamps)


def run_plain(run: Run) -> Iterator[tuple[Step, Mapping[str, LargeTable], Report]]:
    """Yields each finished step with its tables and checked report; all are computed, and kept, in this process."""
    found: dict[str, LargeTable] = {}
    for step in STEPS:
        *tables, report = step.call(run, *(found[name] for name in step.reads))
        written = dict(zip(step.writes, tables, strict=True))
        found |= written
        yield step, written, report.check()


def tables_of(settings: RunSettings, given: Mapping[str, LargeTable], *wanted: str) -> dict[str, LargeTable]:
    """The tables `given`, and those that the steps of a run make of them up to the wanted ones; all in this process.

    What is scored or replayed is thus what a run would publish.
    """
    run, found, missing, steps = Run(settings, (), (), ()), dict(given), set(wanted), list[Step]()
    for step in reversed(STEPS):
        if missing.intersection(step.writes):
            steps.append(step)
            missing = (missing - set(step.writes)) | (set(step.reads) - set(given))
    for step in reversed(steps):
        *tables, _ = step.call(run, *(found[name] for name in step.reads))
        found |= dict(zip(step.writes, tables, strict=True))
    return found


def step_key(step: Step, run: Run, upstream: Sequence[str]) -> str:
    """A hash of all that the result of a step depends on: the keys of its inputs, its settings and the code."""
    whole = run.settings.model_dump(mode="json")
    whole |= {"run_id": run.run_id, "previous_template": run.previous_template, "window_s": run.window_s}
    read = list(upstream) if step.reads else [run.log_labels, run.log_digests, run.names]
    return _digest(step.name, read, {name: whole[name] for name in step.depends_on}, code_version())[:24]


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
