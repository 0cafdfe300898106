"""The template: which columns make jobs similar, chosen by its error on later jobs and by the series it yields."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats, Ints, dense_codes, job_procs, proc_seconds, row_codes, unknown
from pipeline.group.later_error import ComparedJobs, compared_jobs, later_error
from pipeline.large_tables import OLDER, LargeTable, newest_jobs
from pipeline.report import Report, Tally
from pipeline.schema import gpu_types
from pipeline.settings import AUTO, DEFAULT_TEMPLATE, GroupSettings
from pipeline.tables import TEMPLATE_COLUMNS, TEMPLATES

Template = tuple[str, ...]

# Columns that can name the submitter; the first one with values is used.
WHO = ("user", "account", "user_group")

# Columns that can name what a job runs; the first one with values is used.
WHAT = ("application", "job_name", "queue")

_SHAPES: tuple[Template, ...] = (
    ("who", "what", "requested_memory"),
    ("who", "what"),
    ("who", "what", "requested_mem_kib"),
    ("who", "what", "requested_s"),
    ("who", "what", "requested_memory", "requested_s"),
    ("who", "what", "problem_size"),
    ("who", "what", "queue"),
    ("who", "job_name"),
    ("who", "requested_s"),
    ("who",),
)


@dataclass(frozen=True)
class JobCodes:
    """A code per job for any template over the columns of JOBS. Codes are cached; null is a value of its own.

    Jobs with GPUs of one type are never similar to jobs without GPUs, or with others.
    """

    jobs: pa.Table
    _held: dict[Template, npt.NDArray[np.int32]] = field(default_factory=dict)

    def of(self, template: Template) -> Ints:
        """Codes from 0, equal where site, GPUs and all template values are; they depend on the order of the jobs."""
        if template not in self._held:
            before = self.of(template[:-1]) if template else dense_codes(gpu_types(self.jobs))
            found = row_codes(before, dense_codes(self.jobs.column(template[-1] if template else "site")))
            # Half the memory: one array per template is cached.
            self._held[template] = found.astype(np.int32)
        return self._held[template].astype(np.int64)


def candidates(jobs: pa.Table) -> tuple[Template, ...]:
    """The distinct templates to compare, of columns that have values in this log, in order of _SHAPES."""
    stands_for = {"who": _first_filled(jobs, WHO), "what": _first_filled(jobs, WHAT)}
    found = [tuple(dict.fromkeys(stands_for.get(name, name) for name in shape)) for shape in _SHAPES]
    filled = {name for shape in found for name in shape if name and _has_values(jobs, name)}
    templates = (tuple(name for name in shape if name in filled) for shape in found)
    return tuple(dict.fromkeys(template for template in templates if template))


def _first_filled(jobs: pa.Table, names: tuple[str, ...]) -> str:
    return next((name for name in names if _has_values(jobs, name)), "")


def _has_values(jobs: pa.Table, name: str) -> bool:
    """Whether the column has any value."""
    return bool(jobs.column(name).null_count < jobs.num_rows)


# Least number of processor counts of a group that is a scalability series.
MIN_SIZES = 3

# Share by which the error may be larger if all processor-hours are in scalability series.
SERIES_WORTH = 0.1

# The previous template stays unless another one scores better by more than this share.
KEEP_MARGIN = 0.05

# Least number of later jobs to compare templates; with fewer the default is used.
MIN_LATER_JOBS = 200

# Least number of newest jobs on which templates are compared; at most half as many more are used.
COMPARE_JOBS = 1_000_000

# The columns of JOBS that say when and on how many processors a job ran.
_RUN = ("submit_s", "end_s", "procs", "requested_procs", "runtime_s", "is_lower_bound")

# The columns of JOBS that tell jobs apart under every template.
ALWAYS = ("site", "gpus", "gpu_type")


class TemplateFigures(NamedTuple):
    """The figures of one template, by column of TEMPLATES; errors and score are NaN where later jobs are too few."""

    template: Template
    error_later: float
    n_later: int
    share_covered: float
    n_groups: int
    n_scaling_groups: int
    scaling_proc_hours: float
    score: float


def choose_template(jobs: LargeTable, settings: GroupSettings, previous: str = "") -> tuple[pa.Table, Report]:
    """TEMPLATES: the candidates compared over the unflagged jobs, best score first, with the chosen one marked.

    Only the newest jobs of a long log are compared: `newest_jobs` has the rule.

    A template listed in the settings is always chosen. `previous` is the choice of the previous run, its columns joined
    by +; it is kept unless another template scores better by more than KEEP_MARGIN.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        Flagged JOBS.
    settings : GroupSettings
        The template, or auto.
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
    own = dict.fromkeys(("flag", *ALWAYS, *TEMPLATE_COLUMNS, *_RUN))
    jobs, older = newest_jobs(jobs, tuple(own), COMPARE_JOBS)
    kept = _kept(jobs, (*ALWAYS, *TEMPLATE_COLUMNS))
    given = () if settings.template == AUTO else (settings.template,)
    earlier = tuple(previous.split("+")) if previous else ()
    known = (earlier,) if earlier and set(earlier) <= set(TEMPLATE_COLUMNS) else ()
    templates = tuple(dict.fromkeys([*given, *candidates(kept), *known])) or (DEFAULT_TEMPLATE,)
    compared = _compared(kept, _kept(jobs, _RUN), templates)
    found = (given[0], "set in the configuration") if given else None
    if kept.num_rows >= MIN_LATER_JOBS and all(kept.column(name).null_count == len(kept) for name in templates[0]):
        found = found or (templates[0], "no column of the log tells its jobs apart")
    chosen, why = found or _choice(compared, templates[0], earlier)
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


def _compared(jobs: pa.Table, runs: pa.Table, templates: tuple[Template, ...]) -> list[TemplateFigures]:
    """The figures of every template in order of score; of equal scores one that names programs, then the shortest."""
    scored, codes = compared_jobs(runs), JobCodes(jobs)
    procs, work_s = job_procs(runs), proc_seconds(runs)
    # The columns would be in memory beside the arrays.
    del runs
    found = [_figures(one, scored, codes.of(one), procs, work_s) for one in templates]

    def rank(one: TemplateFigures) -> tuple[float, bool, int, Template]:
        names_none = np.isfinite(one.score) and not set(WHAT) & set(one.template)
        return float(np.nan_to_num(one.score, nan=np.inf)), bool(names_none), len(one.template), one.template

    return sorted(found, key=rank)


def _figures(template: Template, scored: ComparedJobs, group: Ints, procs: Floats, work_s: Floats) -> TemplateFigures:
    error, share, n_later = later_error(scored, group[scored.row])
    n_groups, n_series, hours = _series(group, procs, work_s)
    whole = float(np.sort(work_s).sum()) / 3600
    score = error * (1 - SERIES_WORTH * hours / whole) if whole > 0 else error
    if n_later < MIN_LATER_JOBS:
        error = score = np.nan
    return TemplateFigures(template, error, n_later, share, n_groups, n_series, hours, score)


def _series(group: Ints, procs: Floats, work_s: Floats) -> tuple[int, int, float]:
    """The number of groups, of groups on at least MIN_SIZES processor counts, and the processor-hours of the latter."""
    known = ~np.isnan(procs)
    n_groups = int(group.max(initial=-1)) + 1
    n_sizes = sizes_of_groups(group[known], procs[known].astype(np.int64), n_groups)
    held = np.sort(work_s[n_sizes[group] >= MIN_SIZES])
    return n_groups, int((n_sizes >= MIN_SIZES).sum()), float(held.sum()) / 3600


def sizes_of_groups(group: Ints, procs: Ints, n_groups: int) -> Ints:
    """Per group on how many processor counts its jobs ran."""
    # One number a pair: sorting rows of two numbers takes ten times as long.
    width = int(procs.max(initial=0)) + 1
    return np.bincount(np.unique(group * width + procs) // width, minlength=n_groups)


def _choice(compared: list[TemplateFigures], default: Template, earlier: Template) -> tuple[Template, str]:
    """The chosen template and the reason."""
    best = compared[0]
    kept = next((one for one in compared if one.template == earlier), None)
    if np.isnan(best.score):
        reason = f"there are fewer than {MIN_LATER_JOBS} later jobs to compare templates on"
        chosen = earlier if kept else _by_memory(compared, default)
        return chosen, f"{reason}, so the previous choice stays" if kept else f"{reason}, so the default is used"
    if kept and kept is not best and kept.score <= best.score * (1 + KEEP_MARGIN):
        return earlier, f"the previous run chose it, and none scores better by over {KEEP_MARGIN:.0%}"
    if kept and kept is not best:
        return best.template, f"it scores better than {'+'.join(earlier)} by more than {KEEP_MARGIN:.0%}"
    score = "the error on later jobs minus a bonus for processor-hours in scalability series"
    return best.template, f"it has the best score, which is {score}"


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
        **{name: np.array([getattr(one, name) for one in compared]) for name in TemplateFigures._fields[1:]},
        is_chosen=[name == chosen for name in names],
        is_previous=[name == earlier for name in names],
        why=[why if name == chosen else None for name in names],
    )
