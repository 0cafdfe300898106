"""The estimator as a stage: from JOBS to a STATE, and from a STATE and later JOBS to the next one."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Ints, proc_seconds
from pipeline.errors import InputError
from pipeline.estimate.checkpoints import (
    Checkpoint,
    LogJobs,
    checkpoint_of,
    checkpoint_times,
    kept,
    learnt,
    usable,
)
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import ATTRIBUTES, RUNTIME, WHAT, WHO, Target, history, newest_s
from pipeline.estimate.job_memory import MEMORY
from pipeline.estimate.questions import score_of
from pipeline.estimate.state import KNOWN, LATE, NEW, OPEN, OVER, TOO_LATE, State, fates_of, ids_of
from pipeline.estimate.state_table import arrays_in, state_in, state_table
from pipeline.estimate.walltime import update
from pipeline.large_tables import OLDER, LargeTable, knows, newest_jobs
from pipeline.report import Fact, Report, Tally
from pipeline.settings import SiteSettings
from pipeline.tables import MEMORY_STATE

UNUSABLE, AFTER = "unusable", "after_as_of"
"""Reasons to leave a record out of a State: no submit, no processors or no job; submitted after the State's time."""


def learn_state(
    jobs: LargeTable, site: SiteSettings, settings: EstimateRules, names: str = "", as_of_s: float | None = None
) -> tuple[pa.Table, Report]:
    """STATE of a log at a time, by default its newest instant; `names` tells the key of hashed names from another.

    Only the newest jobs of a long log are learnt: `newest_jobs` has the rule.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        JOBS of one site.
    site : SiteSettings
        Name and time zone of the site.
    settings : EstimateRules
        Settings of the estimator; they are stored in the STATE.
    names : str
        Digest of the key that hashed the names, empty for plain names.
    as_of_s : float, optional
        Time up to which events are learnt, s since 1970; by default the newest instant of the log.

    Returns
    -------
    table : pa.Table
        STATE, one row per array.
    report : Report
        Jobs learnt from and left out, by reason.

    Examples
    --------
    >>> from pipeline.estimate.estimate_rules import ESTIMATE_RULES
    >>> state, report = learn_state(tables["jobs"], settings.site, ESTIMATE_RULES)
    >>> report.seen.rows == tables["jobs"].num_rows, report.facts["n_open"]
    (True, 1)
    """
    return learn_from_checkpoints(jobs, site, settings, names, (), as_of_s=as_of_s)[:2]


def learn_from_checkpoints(
    jobs: LargeTable, site: SiteSettings, settings: EstimateRules, names: str, earlier: Sequence[Checkpoint],
    *, as_of_s: float | None = None, makes_checkpoints: bool = False, target: Target = RUNTIME,
) -> tuple[pa.Table, Report, list[Checkpoint]]:  # fmt: skip
    """What `learn_state` gives, learnt from the newest checkpoint that fits the log; and checkpoints for the next log.

    The STATE and the report are the same to the bit from any checkpoint of the same settings and code, or from none.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        JOBS of one site.
    site : SiteSettings
        Name and time zone of the site.
    settings : EstimateRules
        Settings of the estimator.
    names : str
        Digest of the key that hashed the names, empty for plain names.
    earlier : sequence of Checkpoint
        Checkpoints of earlier logs, of the same settings and code.
    as_of_s : float, optional
        Time up to which events are learnt, s since 1970; by default the newest instant of the log.
    makes_checkpoints : bool
        Whether checkpoints are made; without them the list is empty.
    target : Target
        What is estimated.

    Returns
    -------
    table : pa.Table
        STATE, one row per array.
    report : Report
        Jobs learnt from and left out, by reason.
    checkpoints : list of Checkpoint
        The checkpoints to keep, of this log and of earlier ones.
    """
    jobs, older = newest_jobs(jobs, target.columns, settings.learn_jobs, np.inf if as_of_s is None else as_of_s)
    log = LogJobs.of(jobs, site.timezone, with_hashes=makes_checkpoints or bool(earlier), target=target)
    until_s = log.newest_s() if as_of_s is None else float(as_of_s)
    start = usable(log, earlier, until_s)
    stops_s = checkpoint_times(log, start.as_of_s if start else -np.inf, until_s) if makes_checkpoints else []
    made = [start] if start and makes_checkpoints else []
    for at_s, state in learnt(log, settings, [*stops_s, until_s], start):
        if at_s in stops_s:
            made.append(checkpoint_of(log, settings, at_s, state))
    facts = {"name": site.name, "timezone": site.timezone, "names": names, "columns": " ".join(filled(jobs))}
    state = replace(state, site=facts)
    fate = np.where(log.submit_s > until_s, AFTER, "")
    table = state_table(state, settings)
    still = [one for one in earlier if start and one.as_of_s < start.as_of_s]
    checkpoints = kept([*still, *made], float(log.submit_s[-1])) if made else []
    return table, _report("learn", jobs, log.row, fate, state, {}, older), checkpoints


def learn_memory(
    jobs: LargeTable, site: SiteSettings, settings: EstimateRules, names: str = ""
) -> tuple[pa.Table, Report]:
    """MEMORY_STATE of a log: what `learn_state` learns of runtimes, of memory; no row where no job's memory is known.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        JOBS of one site.
    site : SiteSettings
        Name and time zone of the site.
    settings : EstimateRules
        Settings of the estimator.
    names : str
        Digest of the key that hashed the names, empty for plain names.

    Returns
    -------
    table : pa.Table
        MEMORY_STATE; its runtimes and requests are memory, KiB per processor.
    report : Report
        Jobs learnt from and left out, by reason; nothing where no job's memory is known.

    Examples
    --------
    >>> from pipeline.estimate.estimate_rules import ESTIMATE_RULES
    >>> state, report = learn_memory(tables["jobs"], settings.site, ESTIMATE_RULES)
    >>> state.num_rows > 0, report.facts["n_scored"]
    (True, 69.0)
    """
    if not knows(jobs, "used_mem_kib"):
        return MEMORY_STATE.empty(), Report("learn_memory", "job", Tally(), Tally())
    table, report, _ = learn_from_checkpoints(jobs, site, settings, names, (), target=MEMORY)
    # What has a unit of time is no time here.
    facts = {name: value for name, value in report.facts.items() if not name.startswith(("mae_s", "pinball"))}
    return MEMORY_STATE.check(table), replace(report, stage="learn_memory", facts=facts)


def update_state(earlier: pa.Table, jobs: pa.Table, as_of_s: float | None = None) -> tuple[pa.Table, Report]:
    """STATE after more of the log: new jobs, and records of those that were not over; others may be among them.

    The result is that of learning the whole log at once, to the bit, where every record came in time. InputError where
    the time is before that of the State.

    Parameters
    ----------
    earlier : pa.Table
        STATE that is continued.
    jobs : pa.Table
        JOBS submitted since, and new records of jobs that were not over.
    as_of_s : float, optional
        Time up to which events are learnt, s since 1970; by default the newest instant of both.

    Returns
    -------
    table : pa.Table
        STATE as of the later time.
    report : Report
        Jobs learnt from and left out, by reason.

    Raises
    ------
    InputError
        If `as_of_s` is before the time of `earlier`, or `earlier` has another format.

    Examples
    --------
    >>> from pipeline.estimate.estimate_rules import ESTIMATE_RULES
    >>> jobs = tables["jobs"]
    >>> middle_s = float(np.nanmedian(jobs.column("submit_s").to_numpy()))
    >>> early, _ = learn_state(jobs, settings.site, ESTIMATE_RULES, as_of_s=middle_s)
    >>> state, report = update_state(early, jobs)
    >>> state.num_rows == early.num_rows, report.facts["n_new"] > 0
    (True, True)
    """
    arrays = arrays_in(earlier)
    state, settings = state_in(arrays, "the state to update")
    later = history(jobs, state.site["timezone"])
    until_s = max(newest_s(jobs, later.row), state.as_of_s) if as_of_s is None else float(as_of_s)
    if until_s < state.as_of_s:
        found = f"a state as of {state.as_of_s:.0f} s"
        raise InputError("the state to update", found, f"none later than {until_s:.0f} s")
    ids = ids_of(jobs, later)
    known = later.known_by(until_s)
    fate = np.append(fates_of(state, known, ids[: len(known)]).fate, np.full(len(later) - len(known), -1))
    facts = {**state.site, "columns": " ".join(dict.fromkeys([*state.site["columns"].split(), *filled(jobs)]))}
    state = replace(update(state, later, ids, settings, until_s), site=facts)
    counts: dict[str, Fact] = {
        name: int((fate == one).sum()) for name, one in (("n_open", OPEN), ("n_late", LATE), ("n_new", NEW))
    }
    why = np.select([fate == -1, fate == KNOWN, fate == TOO_LATE], [AFTER, "known_to_be_over", "too_late"], "")
    return state_table(state, settings), _report("update", jobs, later.row, why, state, counts, Tally())


def filled(jobs: pa.Table) -> list[str]:
    """The columns of JOBS on submitter, program and attributes that have values in this log."""
    names = dict.fromkeys((*WHO, *WHAT, *ATTRIBUTES))
    return [name for name in names if jobs.column(name).null_count < jobs.num_rows]


def _report(
    stage: str, jobs: pa.Table, row: Ints, why: Array, state: State, counts: dict[str, Fact], older: Tally
) -> Report:
    """Per job of the history, `row` is its row in JOBS, `why` the reason to leave it out of the State, or empty.

    `older` are jobs that are not among these.
    """
    reason = np.full(jobs.num_rows, UNUSABLE, object)
    reason[row] = why
    work_s = proc_seconds(jobs)
    reasons = [str(name) for name in np.unique(reason)]
    tally = {name: Tally(int((reason == name).sum()), float(work_s[reason == name].sum())) for name in reasons}
    kept = tally.pop("", Tally())
    tally |= {OLDER: older} if older.rows else {}
    open_jobs = int((state.progress != OVER).sum())
    known: dict[str, Fact] = {
        "as_of_s": state.as_of_s, "n_submitters": len(state.names["who"]), "n_kinds": len(state.sizes),
        "n_open": open_jobs,
    }  # fmt: skip
    seen = Tally(jobs.num_rows, float(work_s.sum())) + older
    return Report(stage, "job", seen, kept, tally, known | counts | score_of(state.record))
