"""The estimator as a stage: from JOBS to a STATE, and from a STATE and later JOBS to the next one."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Ints, proc_seconds
from pipeline.errors import InputError
from pipeline.estimate.history import ATTRIBUTES, LEARN_JOBS, MEMORY, RUNTIME, WHAT, WHO, Target, history, newest_s
from pipeline.estimate.score import score_of
from pipeline.estimate.state import (
    KNOWN,
    LATE,
    NEW,
    OPEN,
    TOO_LATE,
    State,
    fates_of,
    ids_of,
    learn,
    loaded_state,
    state_table,
    update,
)
from pipeline.large_tables import OLDER, LargeTable, knows, newest_jobs
from pipeline.report import Fact, Report, Tally
from pipeline.settings import SiteSettings
from pipeline.tables import MEMORY_STATE

UNUSABLE, AFTER = "unusable", "after_as_of"
"""Reasons to leave a record out of a State: no submit, no processors or no job; submitted after the State's time."""


def learn_state(
    jobs: LargeTable, site: SiteSettings, names: str = "", as_of_s: float | None = None, target: Target = RUNTIME
) -> tuple[pa.Table, Report]:
    """STATE of a log at a time, by default its newest instant; `names` tells the key of hashed names from another.

    Only the newest jobs of a long log are learnt: `newest_jobs` has the rule.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        JOBS of one site.
    site : SiteSettings
        Name and time zone of the site.
    names : str
        Digest of the key that hashed the names, empty for plain names.
    as_of_s : float, optional
        Time up to which events are learnt, s since 1970; by default the newest instant of the log.
    target : Target
        What is estimated.

    Returns
    -------
    table : pa.Table
        STATE, one row per array.
    report : Report
        Jobs learnt from and left out, by reason.

    Examples
    --------
    >>> state, report = learn_state(tables["jobs"], settings.site)
    >>> report.seen.rows == tables["jobs"].num_rows, report.facts["n_open"]
    (True, 1)
    """
    jobs, older = newest_jobs(jobs, target.columns, LEARN_JOBS, np.inf if as_of_s is None else as_of_s)
    log = target.history(jobs, site.timezone)
    until_s = newest_s(jobs, log.row) if as_of_s is None else float(as_of_s)
    facts = {"name": site.name, "timezone": site.timezone, "names": names, "columns": " ".join(filled(jobs))}
    state = replace(learn(log, until_s, ids_of(jobs, log)), site=facts)
    fate = np.where(log.submit_s > until_s, AFTER, "")
    return state_table(state), _report("learn", jobs, log.row, fate, state, {}, older)


def learn_memory(jobs: LargeTable, site: SiteSettings, names: str = "") -> tuple[pa.Table, Report]:
    """MEMORY_STATE of a log, as `learn_state` makes STATE; no row where no job's memory is known.

    Its runtimes and requests are memory, KiB per processor.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        JOBS of one site.
    site : SiteSettings
        Name and time zone of the site.
    names : str
        Digest of the key that hashed the names, empty for plain names.

    Returns
    -------
    table : pa.Table
        MEMORY_STATE.
    report : Report
        Jobs learnt from and left out, by reason; nothing where no job's memory is known.

    Examples
    --------
    >>> state, report = learn_memory(tables["jobs"], settings.site)
    >>> state.num_rows > 0, report.facts["n_scored"]
    (True, 69.0)
    """
    if not knows(jobs, "used_mem_kib"):
        return MEMORY_STATE.empty(), Report("learn_memory", "job", Tally(), Tally())
    table, report = learn_state(jobs, site, names, target=MEMORY)
    # What has a unit of time is no time here.
    facts = {name: value for name, value in report.facts.items() if not name.startswith(("mae_s", "pinball"))}
    return MEMORY_STATE.check(table), replace(report, stage="learn_memory", facts=facts)


def update_state(earlier: pa.Table, jobs: pa.Table, as_of_s: float | None = None) -> tuple[pa.Table, Report]:
    """STATE after more of the log: new jobs, and records of those that were not over; others may be among them.

    The result is that of learning the whole log at once, to the bit, where every record came in time. InputError where
    the time is before that of the State, or the State has another format.

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

    Examples
    --------
    >>> jobs = tables["jobs"]
    >>> middle_s = float(np.nanmedian(jobs.column("submit_s").to_numpy()))
    >>> early, _ = learn_state(jobs, settings.site, as_of_s=middle_s)
    >>> state, report = update_state(early, jobs)
    >>> state.num_rows == early.num_rows, report.facts["n_new"] > 0
    (True, True)
    """
    state = loaded_state(earlier, "the state to update")
    later = history(jobs, state.site["timezone"])
    until_s = max(newest_s(jobs, later.row), state.as_of_s) if as_of_s is None else float(as_of_s)
    if until_s < state.as_of_s:
        found = f"a state as of {state.as_of_s:.0f} s"
        raise InputError("the state to update", found, f"none later than {until_s:.0f} s")
    ids, known = ids_of(jobs, later), later.known_by(until_s)
    fate = np.full(len(later), -1)
    fate[: len(known)] = fates_of(state, known, np.array(ids[: len(known)], object))[0]
    columns = " ".join(dict.fromkeys([*state.site["columns"].split(), *filled(jobs)]))
    state = replace(update(state, later, ids, until_s), site=state.site | {"columns": columns})
    counts: dict[str, Fact] = {
        name: int((fate == one).sum()) for name, one in (("n_open", OPEN), ("n_late", LATE), ("n_new", NEW))
    }
    why = np.select([fate == -1, fate == KNOWN, fate == TOO_LATE], [AFTER, "known_to_be_over", "too_late"], "")
    return state_table(state), _report("update", jobs, later.row, why, state, counts, Tally())


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
    known: dict[str, Fact] = {
        "as_of_s": state.as_of_s, "n_submitters": len(state.names.texts["who"]),
        "n_kinds": len(state.names.keys["kind"]), "n_open": int((~state.ages[0.0].is_over).sum()),
    }  # fmt: skip
    seen = Tally(jobs.num_rows, float(work_s.sum())) + older
    facts = known | counts | score_of(state.record.runtime_s, state.record.quantiles_s)
    return Report(stage, "job", seen, kept, tally, facts)
