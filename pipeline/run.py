"""The steps of a run, in order: the tables each step reads and writes, and the stage it calls.

STEPS is in an order in which each table is written before it is read. A run goes through it with each step's tables in
a folder, plainly or as tasks of Prefect (`flows`); tools/plain_run.py in memory. The bytes of the tables are the same.
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pipeline import code_version, group
from pipeline import tables as kinds
from pipeline.arrays import Floats
from pipeline.clean.stage import clean_stored
from pipeline.estimate.baselines import last_two
from pipeline.estimate.estimates import make_estimates, make_memory
from pipeline.estimate.history import LEARN_JOBS, READ, History, history
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.stage import learn_memory, learn_state
from pipeline.estimate.state import walltime
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
from pipeline.scaling.predictions import fitted_series, groups_by_application
from pipeline.scaling.predictions import predict as predict_by_law
from pipeline.scaling.problem_sizes import AcrossRules, predict_across
from pipeline.scaling.screens import ScreenRules, find_patterns, level, screen
from pipeline.scaling.series import PredictRules
from pipeline.schema import TableKind
from pipeline.settings import RunSettings
from pipeline.storage import FileStamp, file_stamp
from pipeline.tables import JOBS, TABLES, SubmittedRuns
from pipeline.usage.waste import waste

T = TypeVar("T")

_NOT_OF_RESULT = {"logs", "source", "output_dir", "publish", "checks", "export", "guard", "run"}
"""Settings on which no table depends: where logs come from, how a run is computed, and where its tables go."""

_FOUND = {"logs", "log_stamps"}
"""Where logs were found and when: what is in them is in their digests."""


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


class StepInput:
    """What a step may read of its run: the settings that it names, and the folder. Any other is an AttributeError."""

    def __init__(self, run: Run, names: tuple[str, ...]) -> None:
        known = {name: getattr(run if hasattr(Run, name) else run.settings, name) for name in names}
        self.__dict__.update(known, folder=run.folder)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a step reads {name}, which it does not name")


@dataclass(frozen=True, slots=True)
class Step:
    """One stage call: the tables it writes, the settings it reads, and the call, whose parameters are the tables read.

    A setting is one of RunSettings or a field of Run. The result depends on these, on the tables and on the code alone.
    """

    name: str
    writes: Mapping[str, TableKind]
    settings: tuple[str, ...]
    compute: Callable[..., Sequence[Any]]

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the tables that it reads."""
        return tuple(inspect.signature(self.compute).parameters)[1:]

    def call(self, run: Run, *tables: LargeTable) -> Sequence[Any]:
        """The tables that it writes, and its report."""
        return self.compute(StepInput(run, self.settings), *tables)


def ingest_unchanged(run: StepInput) -> tuple[LargeTable, pa.Table, Report]:
    """What ingest makes of a run's logs; InputError where one of them changed after its digest was taken."""
    try:
        to = OnDisk.between_steps(run.folder) if run.folder else None
        stamps = dict(zip(run.logs, run.log_stamps, strict=bool(run.log_stamps)))
        logs = [
            first_bytes_of(source, stamps[source.path].bytes) if source.path in stamps else source
            for source in find_sources(run.logs)
        ]
        jobs, lines, report = ingest(logs, run.site, run.ingest, to=to, window_s=run.window_s)
        return jobs, rows_of(lines), report
    finally:
        # Also after a failure: a log that is being replaced looks damaged.
        for path, label, digest, stamp in zip(
            run.logs, run.log_labels, run.log_digests, run.log_stamps, strict=bool(run.log_stamps)
        ):
            check_unchanged(path, label, stamp, digest)


def models_over_inputs(run: StepInput, jobs: LargeTable) -> tuple[pa.Table, Report]:
    """INPUT_MODELS of a run's jobs."""
    newest, _ = newest_jobs(jobs, READ, LEARN_JOBS)
    runs = submitted_runs(history(newest, run.site.timezone))
    return publish_models(runs, run.inputs, run.site.name, run.run_id)


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
    Step("ingest", {"jobs_read": JOBS, "unreadable": kinds.UNREADABLE},
         ("site", "ingest", "inputs", "window_s", "names", "logs", "log_labels", "log_digests", "log_stamps"),
         ingest_unchanged),
    Step("clean", {"jobs_flagged": JOBS, "bursts": kinds.BURSTS, "effect": kinds.EFFECT}, ("site", "clean"),
         lambda run, jobs_read: clean_stored(jobs_read, run.clean, run.site, run.folder)),
    Step("templates", {"templates": kinds.TEMPLATES}, ("group", "previous_template"),
         lambda run, jobs_flagged: group.choose_template(jobs_flagged, run.group, run.previous_template)),
    Step("group", {"jobs": JOBS}, ("group",),
         lambda run, jobs_flagged, templates: group.assign_stored(
             jobs_flagged, group.with_chosen(run.group, templates), run.folder)),
    Step("sort", {"grouped_jobs": kinds.GROUPED_JOBS}, ("group",),
         lambda run, jobs, templates: group.sort_by_group(jobs, group.with_chosen(run.group, templates), run.folder)),
    Step("describe", {"groups": kinds.GROUPS}, ("group",),
         lambda run, grouped_jobs, templates: each_part(
             grouped_jobs, lambda part: group.describe_groups(part, group.with_chosen(run.group, templates)))),
    Step("observe", {"observed": kinds.OBSERVATIONS}, ("group",),
         lambda run, grouped_jobs: each_part(grouped_jobs, lambda part: group.observe(part, run.group.axis))),
    Step("patterns", {"patterns": kinds.PATTERNS}, (),
         lambda _, observed: find_patterns(observed, ScreenRules())),
    Step("screen", {"observations": kinds.OBSERVATIONS}, (),
         lambda _, observed, patterns: screen(observed, patterns, ScreenRules())),
    Step("level", {"levelled": kinds.OBSERVATIONS}, (),
         lambda _, observations, patterns: level(observations, patterns)),
    Step("across", {"across": kinds.ACROSS}, (),
         lambda _, groups, levelled: predict_across(groups, levelled, AcrossRules())),
    Step("fit", {"fits": kinds.FITS}, ("scaling",),
         lambda run, levelled: fit(levelled, FitRules(laws=run.scaling.laws))),
    Step("curves", {"curves": kinds.PREDICTIONS}, ("site", "scaling", "run_id"),
         lambda run, levelled, fits, groups, patterns, across: predict_by_law(
             fitted_series(levelled, fits, PredictRules(counts=run.scaling.counts), run.site,
                           groups_by_application(groups), patterns), run.run_id, across=across)),
    Step("scalability", {"scalability": kinds.SCALABILITY}, ("site", "run_id"),
         lambda run, levelled, fits, groups, patterns: scalability(
             fitted_series(levelled, fits, PredictRules(), run.site, groups_by_application(groups), patterns),
             run.run_id)),
    Step("learn", {"state": kinds.STATE}, ("site", "names"),
         lambda run, jobs: learn_state(jobs, run.site, run.names)),
    Step("predict", {"predictions": kinds.PREDICTIONS}, ("run_id",),
         lambda run, curves, grouped_jobs: predict(curves, grouped_jobs, run.run_id)),
    Step("estimate", {"estimates": kinds.ESTIMATES}, ("run_id",),
         lambda run, state, jobs: make_estimates(state, jobs, run.run_id)),
    Step("advise", {"advice": kinds.ADVICE}, ("site", "run_id"),
         lambda run, jobs: advise(jobs, run.site, run.run_id)),
    Step("learn_memory", {"memory_state": kinds.MEMORY_STATE}, ("site", "names"),
         lambda run, jobs: learn_memory(jobs, run.site, run.names)),
    Step("memory", {"memory": kinds.MEMORY}, ("run_id",),
         lambda run, memory_state, jobs: make_memory(memory_state, jobs, run.run_id)),
    Step("waste", {"waste": kinds.WASTE}, ("site", "clean", "run_id"),
         lambda run, jobs: waste(
             jobs, run.site.name, run.run_id, counts_every_request=run.clean.counts_every_request)),
    Step("inputs", {"input_models": kinds.INPUT_MODELS}, ("site", "inputs", "run_id"), models_over_inputs),
)  # fmt: skip

STEPS_BY_NAME = {step.name: step for step in STEPS}

WRITER = {table: step.name for step in STEPS for table in step.writes}
"""The step that writes each table."""

STEP_TABLES: dict[str, TableKind] = {name: kind for step in STEPS for name, kind in step.writes.items()}

ON_DISK = frozenset(name for name, kind in STEP_TABLES.items() if kind in (JOBS, kinds.GROUPED_JOBS))
"""The tables that have a row for each job, which a run with a folder keeps on disk."""

PUBLISHED = tuple(kind.name for kind in TABLES.values() if kind is STEP_TABLES.get(kind.name))
"""What a run publishes: the tables that bear the name of their kind; others are read by later steps only."""


def start_run(settings: RunSettings, logs: Sequence[Path]) -> Run:
    """A run over these logs. Each file is read once for its digest, which enters the id of the run."""
    sources, settings = find_sources(logs), with_hashed_names(settings)
    paths, labels = tuple(source.path for source in sources), tuple(source.label for source in sources)
    stamps = tuple(file_stamp(path) for path in paths)
    digests = tuple(sha256_of_first(path, stamp.bytes) for path, stamp in zip(paths, stamps, strict=True))
    return Run(settings, paths, labels, digests, names_key(sources, settings.site), log_stamps=stamps)


def step_key(step: Step, run: Run, upstream: Sequence[str]) -> str:
    """A hash of all that the result of a step depends on: the keys of its inputs, its settings and the code."""
    whole = run.settings.model_dump(mode="json")
    read = {name: whole[name] if name in whole else getattr(run, name) for name in step.settings if name not in _FOUND}
    return _digest(step.name, list(upstream), read, code_version())[:24]


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
