"""Reads a log for replays with moldable jobs: jobs that can be scheduled, and the groups of similar ones."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from flows.services.logs.flagged_jobs import ingested_jobs
from flows.services.progress import running_stage
from flows.services.run.prepare import find_logs, resolve
from pipeline.clean import clean
from pipeline.core.arrays import Bools, Ints, category_codes, lower_bounds
from pipeline.core.errors import InputError
from pipeline.core.settings import RunSettings
from pipeline.core.text import printable
from pipeline.evaluate.replay import Workload, workload_of_jobs
from pipeline.group import assign_groups, choose_template, with_chosen

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


def read_moldable_log(given: Path, max_procs: int | None = None) -> MoldableLog:
    """A log, or the logs of a config; InputError where the size of the machine is unknown or jobs are too few.

    The template of the groups is chosen on the first third of the jobs. Flags are those of the whole log.
    """
    settings, paths = resolve(given) if given.suffix == ".toml" else (RunSettings(), find_logs([str(given)], Path()))
    read, report = ingested_jobs(paths, settings)
    capacity = max_procs or settings.site.max_procs or report.facts.get("max_procs")
    if not isinstance(capacity, int):
        raise InputError(printable(str(given)), "no number of processors", "the machine's size", "give --max-procs")
    settings = settings.model_copy(update={"site": settings.site.model_copy(update={"max_procs": capacity})})
    with running_stage("clean and group"):
        flagged, *_ = clean(read, settings.clean, settings.site)
        early = flagged.slice(0, max(1, int(flagged.num_rows * HISTORY_SHARE)))
        templates, _ = choose_template(early, settings.group)
        chosen = with_chosen(settings.group, templates)
        grouped, _ = assign_groups(flagged, chosen)
    return _of_jobs(given.name, grouped, capacity, "+".join(chosen.template), settings)


def _of_jobs(name: str, grouped: pa.Table, capacity: int, template: str, settings: RunSettings) -> MoldableLog:
    work = workload_of_jobs(grouped, capacity)
    if len(work) < 30:
        raise InputError(printable(name), f"{len(work)} jobs that can be replayed", "at least 30")
    jobs = grouped.take(pa.array(work.row))
    group, ids = category_codes(jobs, "group_id")
    n_history = int(np.searchsorted(work.submit_s, work.submit_s[int(len(work) * HISTORY_SHARE)]))
    return MoldableLog(name, work, jobs, group, ids, lower_bounds(jobs), n_history, template, settings)
