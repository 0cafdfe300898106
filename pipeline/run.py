"""The steps of a run, in order: the tables each step reads and writes, and the stage it calls.

`run_plain` executes STEPS in memory; flows/ executes the same STEPS as Prefect tasks. Both write the same bytes.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from pipeline.clean.stage import clean_stored
from pipeline.core.file_stamp import FileStamp, check_unchanged, file_stamp, sha256_of_first
from pipeline.core.free_memory import return_free_memory
from pipeline.core.group_parts import each_part
from pipeline.core.newest_jobs import newest_jobs
from pipeline.core.report import Report
from pipeline.core.settings import RunSettings
from pipeline.core.stored_table import LargeTable, StoredTable
from pipeline.core.table_kind import TableKind
from pipeline.core.tables import (
    ACROSS,
    BURSTS,
    EFFECT,
    ESTIMATES,
    FITS,
    GROUPED_JOBS,
    GROUPS,
    INPUT_MODELS,
    JOBS,
    OBSERVATIONS,
    PATTERNS,
    PREDICTIONS,
    RUNTIME_CLASSES,
    SCALABILITY,
    STATE,
    TEMPLATES,
    UNREADABLE,
)
from pipeline.core.version import code_version
from pipeline.estimate.checkpoints import Checkpoint
from pipeline.estimate.history import READ, history
from pipeline.estimate.nightly.published import make_estimates
from pipeline.estimate.runs_with_inputs import submitted_runs
from pipeline.estimate.stage import learn_from_checkpoints, learn_state
from pipeline.fit import find_patterns, fit, level, screen, unlevel
from pipeline.group import (
    assign_stored,
    choose_template,
    describe_groups,
    observe,
    runtime_classes,
    sort_by_group,
    with_chosen,
)
from pipeline.ingest.jobs_tables import names_key
from pipeline.ingest.sources import find_sources
from pipeline.ingest.stored_jobs import ingest_stored
from pipeline.ingest.window import Window
from pipeline.inputs.of_logs.group_predictions import with_model_rows
from pipeline.inputs.of_logs.model_tables import publish_models
from pipeline.predict import groups_by_application, later, predict, predict_across, scalability

_NOT_OF_RESULT = {"logs", "source", "output_dir", "publish", "checks", "export", "apply", "run"}
"""Settings on which no table depends: where logs come from, how a run is computed, and where its tables go."""


class States(Protocol):
    """Where the States of earlier nights are kept; no byte of a table depends on it."""

    def earlier(self) -> list[Checkpoint]:
        """The States kept for this site, these settings and this code."""

    def keep(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Keep these instead."""


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

    states: States | None = None
    """The States of earlier nights; None: the log is learnt from its beginning, and none are kept."""

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
        return ingest_stored(run.logs, run.settings.site, run.settings.ingest, run.window_s, run.folder)
    finally:
        # Also after a failure: a log that is being replaced looks damaged.
        for path, label, digest, stamp in zip(
            run.logs, run.log_labels, run.log_digests, run.log_stamps, strict=bool(run.log_stamps)
        ):
            check_unchanged(path, label, stamp, digest)


def learn_kept(run: Run, jobs: LargeTable) -> tuple[pa.Table, Report]:
    """STATE of a run's jobs, learnt from a State of an earlier night where the log has only grown since."""
    site, settings, states = run.settings.site, run.settings.forecast, run.states
    if states is None:
        return learn_state(jobs, site, settings, run.names)
    table, report, checkpoints = learn_from_checkpoints(
        jobs, site, settings, run.names, states.earlier(), makes_checkpoints=True
    )
    states.keep(checkpoints)
    return table, report


def models_over_inputs(run: Run, jobs: LargeTable, predictions: pa.Table) -> tuple[pa.Table, pa.Table, Report]:
    """INPUT_MODELS of a run's jobs, and PREDICTIONS with the rows that published models answer."""
    settings = run.settings
    newest, _ = newest_jobs(jobs, (*READ, "group_id"), settings.forecast.learn_jobs)
    past = history(newest, settings.site.timezone)
    runs = submitted_runs(past, settings.forecast)
    models, report = publish_models(runs, settings.inputs, settings.site.name, run.run_id)
    groups = newest.column("group_id").take(pa.array(past.row))
    table, n_changed = with_model_rows(predictions, models, runs, groups, settings.inputs)
    return models, table, replace(report, facts={**report.facts, "predictions_by_models": n_changed})


STEPS = (
    Step("ingest", (), ("jobs_read", "unreadable"), ("site", "ingest", "window_s"),
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
    Step("observe", ("grouped_jobs",), ("observed",), (),
         lambda _run, grouped: each_part(grouped, observe)),
    Step("patterns", ("observed",), ("patterns",), ("pattern", "anomaly"),
         lambda run, observed: find_patterns(observed, run.settings.pattern, run.settings.anomaly.noise)),
    Step("screen", ("observed", "patterns"), ("observations",), ("anomaly", "pattern"),
         lambda run, observed, patterns: screen(observed, patterns, run.settings.anomaly)),
    Step("level", ("observations", "patterns"), ("levelled",), (),
         lambda _run, observations, patterns: level(observations, patterns)),
    Step("classes", ("grouped_jobs",), ("runtime_classes",), ("classes",),
         lambda run, grouped: each_part(grouped, lambda part: runtime_classes(part, run.settings.classes))),
    Step("across", ("groups", "levelled"), ("across",), ("across",),
         lambda run, groups, levelled: predict_across(groups, levelled, run.settings.across)),
    Step("fit", ("levelled",), ("fits",), ("fit",),
         lambda run, levelled: fit(levelled, run.settings.fit)),
    Step("predict", ("levelled", "fits", "groups", "patterns"), ("predicted",), ("site", "predict", "run_id"),
         lambda run, observed, fits, groups, patterns: predict(
             observed, fits, run.settings.predict, run.settings.site, run.run_id,
             application=groups_by_application(groups), patterns=patterns)),
    Step("unlevel", ("predicted", "patterns"), ("unlevelled",), (),
         lambda _run, predicted, patterns: unlevel(predicted, patterns)),
    Step("later", ("unlevelled", "jobs", "fits", "grouped_jobs"), ("later_predictions",), ("predict",),
         lambda run, predicted, jobs, fits, grouped: later(
             predicted, jobs, fits, run.settings.predict, grouped=grouped)),
    Step("scalability", ("levelled", "fits", "groups", "patterns"), ("scalability",), ("site", "predict", "run_id"),
         lambda run, observed, fits, groups, patterns: scalability(
             observed, fits, run.settings.predict, run.run_id, run.settings.site.max_procs,
             groups_by_application(groups), run.settings.site.procs_per_node, patterns)),
    Step("learn", ("jobs",), ("state",), ("site", "forecast"),
         learn_kept),
    Step("estimate", ("state",), ("estimates",), ("run_id",),
         lambda run, state: make_estimates(state, run.run_id)),
    Step("inputs", ("jobs", "later_predictions"), ("input_models", "predictions"),
         ("site", "forecast", "inputs", "run_id"), models_over_inputs),
)  # fmt: skip

ON_DISK = frozenset({"jobs_read", "jobs_flagged", "jobs", "grouped_jobs"})
"""The tables that have a row for each job, which a run with a folder keeps on disk."""

STEP_TABLES: dict[str, TableKind] = {
    "jobs_read": JOBS, "unreadable": UNREADABLE, "jobs_flagged": JOBS, "bursts": BURSTS,
    "effect": EFFECT, "templates": TEMPLATES, "jobs": JOBS, "grouped_jobs": GROUPED_JOBS, "groups": GROUPS,
    "observed": OBSERVATIONS, "observations": OBSERVATIONS, "levelled": OBSERVATIONS, "patterns": PATTERNS,
    "runtime_classes": RUNTIME_CLASSES, "across": ACROSS,
    "fits": FITS, "predicted": PREDICTIONS, "unlevelled": PREDICTIONS,
    "later_predictions": PREDICTIONS, "predictions": PREDICTIONS,
    "scalability": SCALABILITY, "estimates": ESTIMATES, "state": STATE,
    "input_models": INPUT_MODELS,
}  # fmt: skip

PUBLISHED = (
    "jobs",
    "unreadable",
    "bursts",
    "effect",
    "templates",
    "groups",
    "observations",
    "patterns",
    "runtime_classes",
    "across",
    "fits",
    "predictions",
    "scalability",
    "estimates",
    "state",
    "input_models",
)


def start_run(settings: RunSettings, logs: Sequence[Path]) -> Run:
    """A run over these logs. Each file is read once for its digest, which enters the id of the run."""
    sources = find_sources(logs)
    paths, labels = tuple(source.path for source in sources), tuple(source.label for source in sources)
    stamps = tuple(file_stamp(path) for path in paths)
    digests = tuple(sha256_of_first(path, stamp.bytes) for path, stamp in zip(paths, stamps, strict=True))
    return Run(settings, paths, labels, digests, names_key(sources, settings.site), log_stamps=stamps)


def run_plain(run: Run) -> Iterator[tuple[Step, Mapping[str, LargeTable], Report]]:
    """Yields each finished step with its tables and checked report; tables that no later step reads are released."""
    held: dict[str, LargeTable] = {}
    for place, step in enumerate(STEPS):
        *tables, report = step.call(run, *(held[name] for name in step.reads))
        written = dict(zip(step.writes, tables, strict=True))
        still_read = {name for later in STEPS[place + 1 :] for name in later.reads}
        _remove_files(table for name, table in held.items() if name not in still_read | set(PUBLISHED))
        held = {name: table for name, table in (held | written).items() if name in still_read}
        yield step, written, report.check()
        # Without this the names would keep the tables of the last step while the next one runs.
        del tables, written
        return_free_memory()


def _remove_files(tables: Iterable[LargeTable]) -> None:
    for table in tables:
        if isinstance(table, StoredTable):
            table.path.unlink()


def step_key(step: Step, run: Run, upstream: Sequence[str]) -> str:
    """A hash of all that the result of a step depends on: the keys of its inputs, its settings and the code."""
    whole = run.settings.model_dump(mode="json")
    whole |= {"run_id": run.run_id, "previous_template": run.previous_template, "window_s": run.window_s}
    read = list(upstream) if step.reads else [run.log_labels, run.log_digests, run.names]
    return _digest(step.name, read, {name: whole[name] for name in step.depends_on}, code_version())[:24]


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
