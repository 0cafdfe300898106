"""Chooses the template by its error on later jobs and by the scalability series it yields."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import Floats, Ints, job_procs, proc_seconds
from pipeline.core.buffers import unknown
from pipeline.core.columns import TEMPLATE_COLUMNS
from pipeline.core.group_settings import AUTO, DEFAULT_TEMPLATE, GroupSettings
from pipeline.core.newest_jobs import OLDER, newest_jobs
from pipeline.core.report import Report, Tally
from pipeline.core.stored_table import LargeTable
from pipeline.core.tables import TEMPLATES
from pipeline.group.candidates import JobCodes, Template, candidates
from pipeline.group.later_error import ComparedJobs, compared_jobs, later_error

MIN_SIZES = 3
_RUN = ("submit_s", "end_s", "procs", "requested_procs", "runtime_s", "is_lower_bound")
"""The columns of JOBS that say when and on how many processors a job ran."""


class TemplateFigures(NamedTuple):
    """The figures of one template; `error` and `score` are NaN where there are too few later jobs."""

    template: Template
    error: float
    n_later: int
    share_covered: float
    n_groups: int
    n_series: int
    series_hours: float
    score: float


def choose_template(jobs: LargeTable, settings: GroupSettings, previous: str = "") -> tuple[pa.Table, Report]:
    """TEMPLATES: the candidates compared over the unflagged jobs, best score first, with the chosen one marked.

    Only the newest jobs of a long log are compared: `newest_jobs` has the rule.

    A template listed in the settings is always chosen. `previous` is the choice of the previous run, its columns joined
    by +; it is kept unless another template scores better by more than `keep_margin`.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        Flagged JOBS.
    settings : GroupSettings
        Candidates and margins of the choice.
    previous : str
        Columns of the previous run's template, joined by +.

    Returns
    -------
    table : pa.Table
        TEMPLATES, best score first.
    report : Report
        Jobs that were compared.

    Examples
    --------
    >>> table, _ = choose_template(tables["jobs_flagged"], settings.group)
    >>> sum(table.column("is_chosen").to_pylist())
    1
    """
    own = dict.fromkeys(("flag", "site", *TEMPLATE_COLUMNS, *_RUN))
    jobs, older = newest_jobs(jobs, tuple(own), settings.compare_jobs)
    kept = _kept(jobs, ("site", *TEMPLATE_COLUMNS))
    given = () if settings.template == AUTO else (settings.template,)
    earlier = tuple(previous.split("+")) if previous else ()
    known = (earlier,) if earlier and set(earlier) <= set(TEMPLATE_COLUMNS) else ()
    templates = tuple(dict.fromkeys([*given, *candidates(kept), *known])) or (DEFAULT_TEMPLATE,)
    compared = _compared(kept, _kept(jobs, _RUN), templates, settings)
    found = (given[0], "set in the configuration") if given else None
    chosen, why = found or _choice(compared, templates[0], earlier, settings)
    table = _table(compared, chosen, earlier, why)
    work_s = proc_seconds(jobs)
    whole = Tally(jobs.num_rows, float(work_s.sum()))
    left = {OLDER: older} if older.rows else {}
    facts = {"templates": len(compared), "later_jobs": compared[0].n_later}
    note = f"jobs are grouped by {'+'.join(chosen)}: {why}"
    return table, Report("templates", "job", whole + older, whole, left, facts, (note,)).check()


def _kept(jobs: pa.Table, columns: Iterable[str]) -> pa.Table:
    """Some columns of the unflagged jobs; one without values takes no memory."""
    is_kept = pc.is_null(jobs.column("flag"))
    n_kept = int(pc.sum(is_kept).as_py() or 0)
    found = ((name, jobs.column(name)) for name in columns)
    return pa.table({
        name: column.filter(is_kept) if column.null_count < len(column) else unknown(n_kept, column.type)
        for name, column in found
    })  # fmt: skip


def with_chosen(settings: GroupSettings, templates: pa.Table) -> GroupSettings:
    """The settings with the template that TEMPLATES marks as chosen."""
    chosen = templates.filter(templates.column("is_chosen")).column("template")[0].as_py()
    return settings.model_copy(update={"template": tuple(chosen.split("+"))})


def _compared(
    jobs: pa.Table, runs: pa.Table, templates: tuple[Template, ...], settings: GroupSettings
) -> list[TemplateFigures]:
    """The figures of every template in order of score; of equal scores the one with fewest columns first."""
    scored, codes = compared_jobs(runs), JobCodes(jobs)
    procs, work_s = job_procs(runs), proc_seconds(runs)
    # The columns would be in memory beside the arrays.
    del runs
    found = [_figures(one, scored, codes.of(one), procs, work_s, settings) for one in templates]
    return sorted(found, key=lambda one: (np.nan_to_num(one.score, nan=np.inf), len(one.template), one.template))


def _figures(
    template: Template, scored: ComparedJobs, group: Ints, procs: Floats, work_s: Floats, settings: GroupSettings
) -> TemplateFigures:
    error, share, n_later = later_error(scored, group[scored.row])
    n_groups, n_series, hours = _series(group, procs, work_s)
    whole = float(np.sort(work_s).sum()) / 3600
    score = error * (1 - settings.series_worth * hours / whole) if whole > 0 else error
    if n_later < settings.min_later_jobs:
        error = score = np.nan
    return TemplateFigures(template, error, n_later, share, n_groups, n_series, hours, score)


def _series(group: Ints, procs: Floats, work_s: Floats) -> tuple[int, int, float]:
    """The number of groups, of groups on at least MIN_SIZES processor counts, and the processor-hours of the latter."""
    known = ~np.isnan(procs)
    n_groups = int(group.max(initial=-1)) + 1
    size = procs[known].astype(np.int64)
    width = int(size.max(initial=0)) + 1
    n_sizes = np.bincount(np.unique(group[known] * width + size) // width, minlength=n_groups)
    held = np.sort(work_s[n_sizes[group] >= MIN_SIZES])
    return n_groups, int((n_sizes >= MIN_SIZES).sum()), float(held.sum()) / 3600


def _choice(
    compared: list[TemplateFigures], default: Template, earlier: Template, settings: GroupSettings
) -> tuple[Template, str]:
    """The chosen template and the reason."""
    best = compared[0]
    kept = next((one for one in compared if one.template == earlier), None)
    if np.isnan(best.score):
        reason = f"there are fewer than {settings.min_later_jobs} later jobs to compare templates on"
        chosen = earlier if kept else _by_memory(compared, default)
        return chosen, f"{reason}, so the previous choice stays" if kept else f"{reason}, so the default is used"
    if kept and kept is not best and kept.score <= best.score * (1 + settings.keep_margin):
        return earlier, f"the previous run chose it, and none scores better by over {settings.keep_margin:.0%}"
    if kept and kept is not best:
        return best.template, f"it scores better than {'+'.join(earlier)} by more than {settings.keep_margin:.0%}"
    bonus = "a bonus for processor-hours in scalability series"
    return best.template, f"it has the best score: the least error on later jobs, with {bonus}"


def _by_memory(compared: list[TemplateFigures], default: Template) -> Template:
    """The default template with the memory column, as typed or per processor, that gives fewer groups.

    A user who requests the same memory at every size has one group under the right column and many under the other.
    """
    other = tuple("requested_mem_kib" if name == "requested_memory" else name for name in default)
    n_groups = {one.template: one.n_groups for one in compared}
    return other if n_groups.get(other, np.inf) < n_groups.get(default, np.inf) else default


def _table(compared: list[TemplateFigures], chosen: Template, earlier: Template, why: str) -> pa.Table:
    if chosen not in (one.template for one in compared):
        compared = [TemplateFigures(chosen, np.nan, 0, np.nan, 0, 0, 0.0, np.nan), *compared]
    names = [one.template for one in compared]
    return TEMPLATES.build(
        template=["+".join(name) for name in names],
        error_later=np.array([one.error for one in compared]),
        n_later=[one.n_later for one in compared],
        share_covered=np.array([one.share_covered for one in compared]),
        n_groups=[one.n_groups for one in compared],
        n_scaling_groups=[one.n_series for one in compared],
        scaling_proc_hours=np.array([one.series_hours for one in compared]),
        score=np.array([one.score for one in compared]),
        is_chosen=[name == chosen for name in names],
        is_previous=[name == earlier for name in names],
        why=[why if name == chosen else None for name in names],
    )
