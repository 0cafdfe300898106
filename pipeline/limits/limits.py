"""LIMITS, the only source of time limits: made each midnight, and by a replay of a log's midnights, by one function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Bools, Floats, Ints
from pipeline.estimate.history import READ, History, newest_s
from pipeline.estimate.history import history as history_of
from pipeline.estimate.jobs import mixed
from pipeline.estimate.score import points
from pipeline.large_tables import LargeTable, newest_jobs
from pipeline.limits.limit_choice import (
    TICK_S,
    Chosen,
    LimitSettings,
    Offers,
    Outcome,
    Tried,
    candidates_s,
    choose,
    no_books,
)
from pipeline.limits.limit_harm import rows_by_status
from pipeline.limits.own_jobs import (
    Kinds,
    has_row,
    is_nameless,
    kinds_of,
    names_tell,
    newest_known,
    run_s_of,
    values_of,
)
from pipeline.report import Report, Tally
from pipeline.settings import SiteSettings
from pipeline.tables import LIMITS

LEARN_JOBS = 200_000
"""Latest jobs that limits are made from."""

Rows = dict[str, Array]
"""Columns of LIMITS by name, without site and run; None and NaN where a row is for any value."""


class Held(NamedTuple):
    """A log with the kinds of its jobs."""

    log: History
    kinds: list[Kinds]
    who: Ints
    """The submitter's number; unknown ones share the last."""
    run_s: Floats
    """As `run_s_of` gives them."""
    values: dict[str, Array]
    """As `values_of` gives them."""
    has_names: Bools
    """Per job whether names of the log up to it tell applications."""
    submit: Ints
    """As `submits_of` gives them."""

    def offers(self, kinds: Kinds, places: Ints) -> Offers:
        """The rows whose newest jobs are these places among the ended."""
        job = kinds.job[places]
        work = self.log.procs[job] * self.log.requested_s[job]
        return Offers(self.who[job], kinds.longest_s[places], self.log.requested_s[job], work)


class Night(NamedTuple):
    """A midnight: the table that is made at it, and the places and limits (s, NaN: none) of the jobs that read it."""

    at_s: float
    rows: Rows
    places: Ints
    limit_s: Floats


def held_of(log: History) -> Held:
    """The log's jobs and kinds."""
    n_who = int(log.codes["who"].max(initial=-1)) + 1
    run_s, values = run_s_of(log), values_of(log)
    who = np.where(log.codes["who"] < 0, n_who, log.codes["who"])
    return Held(log, kinds_of(log, values, run_s), who, run_s, values, names_tell(values["what"]), submits_of(log))


def nights(log: History, settings: LimitSettings, first_s: float = -np.inf) -> Iterator[Night]:
    """The midnights of a log at which a table is made that jobs read, and their limits; tables from `first_s` on.

    Before, `rows` is empty. The age at which a table is read is `stale_s` of the log.
    """
    held, pass_ = held_of(log), None
    for at_s, places in _days(log):
        pass_ = pass_ or Pass(held, settings, at_s)
        pass_.learn_until(at_s)
        rows = pass_.table(at_s) if at_s >= first_s else {}
        yield Night(at_s, rows, places, pass_.serve(at_s, places))


def _days(log: History) -> Iterator[tuple[float, Ints]]:
    """Each midnight whose table is read, in order, and the places of the jobs that read it."""
    at_s = replace(log, stale_s=log.stale_s or 0.0).known_s
    order = np.argsort(at_s, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(at_s[order])) + 1):
        if len(places):
            yield float(at_s[places[0]]), places


class Pass:
    """One pass over a log's midnights: the books, and what has been served and is not settled."""

    def __init__(self, held: Held, settings: LimitSettings, at_s: float) -> None:
        """The books are empty at `at_s`."""
        log, n = held.log, len(held.log)
        self.held, self.books = held, no_books(int(held.who.max(initial=-1)) + 1, at_s, settings)
        self.by_end = np.argsort(log.end_s, kind="stable")
        self.end_s = log.end_s[self.by_end]
        self.n_ended = 0
        self.limit_s = np.full(n, np.nan)
        self.open = np.empty(0, np.int64)
        self.kind, self.place = np.full(n, -1), np.full(n, -1, np.int64)

    def learn_until(self, at_s: float) -> None:
        """The ends and exceeded limits known at a time."""
        log, books, held = self.held.log, self.books, self.held
        books.pass_time(at_s)
        n = int(np.searchsorted(self.end_s, at_s, side="right"))
        over = self.by_end[self.n_ended : n]
        self.n_ended = n
        over = over[log.has_run[over] & log.is_learnt[over]]
        books.earn(held.who[over])
        for number, kinds in enumerate(held.kinds):
            own = over[self.kind[over] == number]
            tried_s = candidates_s(kinds.longest_s[self.place[own]])
            said = Tried(held.who[own], tried_s, log.requested_s[own], held.run_s[own], _shares(log, own))
            books.learn_candidates(said)
        settled = self._settled_s(self.open) <= at_s
        self._settle(self.open[settled])
        self.open = self.open[~settled]

    def _settled_s(self, places: Ints) -> Floats:
        """When a job's outcome is known: at its end, or when it has run for longer than its limit."""
        log = self.held.log
        limit_s = np.where(np.isnan(self.limit_s[places]), np.inf, self.limit_s[places])
        return np.minimum(log.end_s[places], log.start_s[places] + limit_s)

    def _settle(self, places: Ints) -> None:
        limit_s = self.limit_s[places]
        is_beyond = ~np.isnan(limit_s) & is_exceeded(self.held.log, places, limit_s)
        self.books.settle(Outcome(self.held.who[places], ~np.isnan(limit_s), is_beyond))

    def serve(self, at_s: float, places: Ints) -> Floats:
        """The limits, s, that submits find in the table of a midnight, in order of submit; NaN: the request stands."""
        held, log = self.held, self.held.log
        found_s, most = np.full(len(places), np.nan), np.zeros(len(places), np.int64)
        waiting = np.full(len(places), True)
        for number, kinds in self._used(at_s):
            own = np.flatnonzero(waiting & kinds.reads[places])
            job = places[own]
            newest = newest_known(kinds, log.end_s, kinds.of_job[job], np.full(len(job), at_s))
            own, newest = own[newest >= 0], newest[newest >= 0]
            if len(own):
                row, of_row = np.unique(newest, return_inverse=True)
                chosen = choose(held.offers(kinds, row), self.books)
                found_s[own], most[own] = chosen.limit_s[of_row], chosen.most_jobs[of_row]
                self.kind[places[own]], self.place[places[own]] = number, newest
                waiting[own] = False
        is_shorter = found_s <= log.requested_s[places] - TICK_S
        found_s[~within_most(held.who[places], most, is_shorter, held.submit[places])] = np.nan
        self.limit_s[places] = found_s
        np.add.at(self.books.lent, held.who[places[~np.isnan(found_s)]], 1.0)
        asks = places[log.requested_s[places] > 0]
        self.books.see_work(log.procs[asks] * log.requested_s[asks])
        self.open = np.concatenate([self.open, asks])
        return found_s

    def _used(self, at_s: float) -> list[tuple[int, Kinds]]:
        """The kinds that a table has at a time, with their places: with names, or without."""
        n_known = int(np.searchsorted(self.held.log.submit_s, at_s, side="right"))
        has_names = n_known == 0 or bool(self.held.has_names[n_known - 1])
        return [one for one in enumerate(self.held.kinds) if is_nameless(one[1].template) != has_names]

    def table(self, at_s: float) -> Rows:
        """The rows of the table at a time, in order of template and key."""
        log, found = self.held.log, list[Rows]()
        for _, kinds in self._used(at_s):
            n_kinds = int(kinds.of_job.max(initial=-1)) + 1
            ended = np.flatnonzero(log.end_s[kinds.job] <= at_s)
            newest = np.full(n_kinds, -1, np.int64)
            newest[kinds.of_job[kinds.job[ended]]] = ended
            newest = newest[newest >= 0]
            newest = newest[has_row(kinds, log.end_s, newest, np.full(len(newest), at_s))]
            chosen = choose(self.held.offers(kinds, newest), self.books)
            found.append(_rows(log, self.held.values, kinds, newest, chosen))
        return {name: np.concatenate([rows[name] for rows in found]) for name in found[0]} if found else {}


def _shares(log: History, jobs: Ints) -> Floats:
    """What each of these jobs counts: the tasks of an array fail and end alike, so that together they count as one."""
    array = log.codes["array_id"][jobs]
    _, number, n_tasks = np.unique(array, return_inverse=True, return_counts=True)
    return np.where(array < 0, 1.0, 1.0 / n_tasks[number])


def is_exceeded(log: History, places: Ints, limit_s: Floats) -> Bools:
    """Whether jobs have run, or still run, beyond limits below their requests; also those that were stopped there."""
    start_s = log.start_s[places]
    held_s = np.where(np.isfinite(start_s), log.end_s[places] - start_s, 0.0)
    is_beyond = (held_s > limit_s) | (log.is_lower_bound[places] & (held_s >= limit_s))
    return is_beyond & (limit_s < log.requested_s[places])


def submits_of(log: History) -> Ints:
    """The number of each job's submit, which the tasks of a job array share."""
    array = log.codes["array_id"]
    own = np.where(array < 0, array.max(initial=-1) + 1 + np.arange(len(log)), array)
    return np.unique(mixed(own, log.submit_s), return_inverse=True)[1]


def within_most(who: Ints, most: Ints, wants: Bools, submit: Ints) -> Bools:
    """Per job whether it wants a limit and its submitter has at most `most` limited jobs with it.

    The tasks of an array may all fail, and a scheduler limits all of them or none: `most` has to allow them all.
    """
    n_tasks, n_limited, is_limited = Counter(submit[wants].tolist()), Counter[int](), dict[int, bool]()
    for nth in np.flatnonzero(wants).tolist():
        one, own = int(submit[nth]), int(who[nth])
        if one not in is_limited:
            is_limited[one] = n_limited[own] + n_tasks[one] <= most[nth]
            n_limited[own] += n_tasks[one] if is_limited[one] else 0
    return wants & np.array([is_limited.get(one, False) for one in submit.tolist()], np.bool_)


def _rows(log: History, values: dict[str, Array], kinds: Kinds, newest: Ints, chosen: Chosen) -> Rows:
    job, n, columns = kinds.job[newest], len(newest), kinds.columns
    found: Rows = {
        "template": np.full(n, "+".join(columns), object), "chain_rank": np.full(n, kinds.template),
        "limit_s": chosen.limit_s, "status": chosen.status, "chance_beyond": chosen.chance,
        "most_jobs": chosen.most_jobs, "n_jobs": kinds.n_jobs(newest),
        "newest_end_s": log.end_s[job].astype(np.int64),
    }  # fmt: skip
    for name, own in values.items():
        if name in CODED:
            texts: Array = np.array([*log.names[name], None], object)
            found[name] = texts[own[job] if name in columns else np.full(n, -1)]
        else:
            found[name] = own[job].astype(np.float64) if name in columns else np.full(n, np.nan)
    return found


CODED = ("who", "what", "queue", "qos", "gpu_type")


def limits_table(rows: Rows, site: str, run_id: str) -> pa.Table:
    """LIMITS of one site."""
    if not rows:
        return LIMITS.empty()
    n = len(rows["chain_rank"])
    columns = {
        name: pa.array(own, pa.float64(), from_pandas=True) if own.dtype == np.float64 else own
        for name, own in rows.items()
    }
    return LIMITS.build(**(columns | {"site": [site] * n, "run_id": [run_id] * n}))


def rows_at(log: History, at_s: float, settings: LimitSettings) -> Rows:
    """The rows of the table at a time, from a log's jobs and events until then."""
    known = log.known_by(at_s)
    if not len(known):
        return {}
    days = [day for day in _days(replace(known, stale_s=None)) if day[0] < at_s]
    pass_ = Pass(held_of(known), settings, days[0][0] if days else at_s)
    for midnight_s, places in days:
        pass_.learn_until(midnight_s)
        pass_.serve(midnight_s, places)
    pass_.learn_until(at_s)
    return pass_.table(at_s)


def make_limits(
    jobs: LargeTable, site: SiteSettings, run_id: str, as_of_s: float | None = None
) -> tuple[pa.Table, Report]:
    """LIMITS of a log at a time, by default its newest instant; the Report counts rows by status.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        JOBS of one site; the newest LEARN_JOBS count.
    site : SiteSettings
        Name and time zone of the site.
    run_id : str
        Id of the run, written to every row.
    as_of_s : float, optional
        Time up to which events count, s since 1970.

    Returns
    -------
    table : pa.Table
        LIMITS: a row per kind of job of a submitter with enough recent ended jobs, limits in s.
    report : Report
        Number of rows, by status.

    Examples
    --------
    >>> table, report = make_limits(tables["jobs"], settings.site, "r1")
    >>> table.num_rows == report.kept.rows
    True
    """
    newest, _ = newest_jobs(jobs, READ, LEARN_JOBS)
    log = history_of(newest, site.timezone, without_flagged=True)
    at_s = newest_s(newest, log.row) if as_of_s is None else as_of_s
    found = limits_table(rows_at(log, at_s, LimitSettings()), site.name, run_id)
    whole = Tally(found.num_rows)
    return found, Report("limits", "row", whole, whole, {}, rows_by_status(found))


def limits(history: History) -> Floats:
    """(jobs, 6) with the limit at a promise of 97% as the median, s, at most the request; NaN without a request.

    Each job reads the table of the last midnight that is `stale_s` old (0 where that is None), as a scheduler does.

    Parameters
    ----------
    history : History
        n jobs in order of submit.

    Returns
    -------
    Floats
        float64[n, 6], s: the limit in the second column, NaN in the others.

    Examples
    --------
    >>> log = history_of(tables["jobs"])
    >>> limit_s = limits(log)[:, 1]
    >>> bool((limit_s <= log.requested_s)[log.requested_s > 0].all())
    True
    """
    found_s = np.where(history.requested_s > 0, history.requested_s, np.nan)
    for night in nights(history, LimitSettings()):
        found_s[night.places] = np.fmin(night.limit_s, found_s[night.places])
    return points(found_s)
