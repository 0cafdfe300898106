"""What the limits that Walltime set have done to jobs, and for whom limiting is switched off: LIMIT_HARM."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, Ints, floats
from pipeline.large_tables import LargeTable, parts_of
from pipeline.report import Report, Tally
from pipeline.tables import LIMIT_HARM, LIMITS, LimitStatus

WEEK_S = 7 * 86_400
FIRST_MONDAY_S = 4 * 86_400
"""1970-01-05."""

PROMISED_BEYOND = 0.03
"""The share of jobs that may exceed a limit that was set: the promise is 97%."""

USER_TIMES, MANY_JOBS = 3.0, 200
"""Of a user with so many jobs or more the share may be so many times the promised one."""

CHANCE = 0.01
"""Limiting ends where so many jobs beyond their limits, or more, have at most this chance under the promise."""

EVERYBODY = "*"
"""Stands for the site among the names of users."""

READ = ("user", "end_s", "runtime_s", "procs", "requested_s", "limit_set_s", "state")


def make_harm(jobs: LargeTable, site: str, again: Mapping[str, float]) -> tuple[pa.Table, Report]:
    """LIMIT_HARM of a log's jobs: a row for each user and week with limited jobs, and one for the site.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        JOBS. A job counts where `limit_set_s` is known: the limit held at its end, whoever set it.
    site : str
        The site's name.
    again : mapping of str to float
        By user, or EVERYBODY, since when (s since 1970) limiting is switched on again by a person. Jobs that ended
        before no longer count against it.

    Returns
    -------
    pa.Table, Report
        A user's limiting is off from the first job at which more of the user's jobs were beyond their limits than
        chance explains (binomial, PROMISED_BEYOND, CHANCE), and with MANY_JOBS more than USER_TIMES the promised
        share; the site's where more jobs of one week were than chance explains. It stays off until a person acts. All
        ended jobs with a request count, as in the promise, from the first limited one on. The facts: jobs limited and
        beyond, hours freed, users switched off, and whether the site is.
    """
    counted = jobs_since_limits(jobs).sort_by([("end_s", "ascending")])
    is_limited = np.isfinite(floats(counted, "limit_set_s"))
    names = sorted(pc.unique(counted["user"].filter(pa.array(is_limited))).drop_null().to_pylist())
    places = pc.index_in(counted["user"], value_set=pa.array(names, pa.string()))
    code = pc.fill_null(places, -1).to_numpy().astype(np.int64)
    end_s, is_beyond = floats(counted, "end_s"), is_limited & _beyond(counted)
    week = np.floor((end_s - FIRST_MONDAY_S) / WEEK_S).astype(np.int64)
    off_s = {
        name: _off_s(end_s, is_beyond, code == n, again.get(name, -np.inf), USER_TIMES * PROMISED_BEYOND)
        for n, name in enumerate(names)
    }
    weekly = [_off_s(end_s, is_beyond, week == one, again.get(EVERYBODY, -np.inf), 0.0) for one in np.unique(week)]
    site_off_s = min((one for one in weekly if one is not None), default=None)
    freed = (floats(counted, "requested_s") - floats(counted, "limit_set_s")) * floats(counted, "procs") / 3600
    rows = [
        {"site": site, "user": name, "off_since_s": since_s, **row}
        for name, since_s, chosen in [
            (None, site_off_s, np.ones(len(code), bool)),
            *((name, off_s[name], code == n) for n, name in enumerate(names)),
        ]
        for row in _weeks(*(one[chosen & is_limited] for one in (week, freed, is_beyond)))
    ]
    n_off = sum(since_s is not None for since_s in off_s.values())
    facts = {
        "limited": int(is_limited.sum()), "beyond": int(is_beyond.sum()), "freed_proc_hours": float(np.nansum(freed)),
        "users_off": n_off, "site_off": int(site_off_s is not None),
    }  # fmt: skip
    table = LIMIT_HARM.build(**{column.name: [row[column.name] for row in rows] for column in LIMIT_HARM.columns})
    return table, Report("harm", "job", Tally(len(code)), Tally(len(code)), {}, facts).check()


def switched_off(harm: pa.Table) -> frozenset[str]:
    """The users for whom limiting is off, and EVERYBODY where it is off for the site."""
    rows = zip(harm["user"].to_pylist(), harm["off_since_s"].to_pylist(), strict=True)
    return frozenset(EVERYBODY if user is None else user for user, since_s in rows if since_s is not None)


def with_switched_off(made: tuple[pa.Table, Report], harm: pa.Table) -> tuple[pa.Table, Report]:
    """LIMITS and its report without the limits of users, or of a site, for whom limiting is off; the status says so."""
    limits, report = made
    off = switched_off(harm)
    if not off:
        return made
    is_site, names = EVERYBODY in off, pa.array(sorted(off - {EVERYBODY}), pa.string())
    is_own = pc.is_in(limits["who"].cast(pa.string()), names)
    is_off = pa.array(np.ones(limits.num_rows, bool)) if is_site else is_own
    reason = pc.if_else(is_own, str(LimitStatus.USER_OFF), str(LimitStatus.SITE_OFF))
    columns = {name: limits[name] for name in limits.column_names}
    for name in ("limit_s", "chance_beyond"):
        columns[name] = pc.if_else(is_off, pa.scalar(None, limits[name].type), limits[name])
    columns["status"] = pc.if_else(is_off, reason, limits["status"].cast(pa.string()))
    found = LIMITS.build(**columns)
    return found, replace(report, facts=dict(report.facts) | rows_by_status(found))


def rows_by_status(limits: pa.Table) -> dict[str, int]:
    """The facts of a report on LIMITS: its number of rows of each status."""
    status = limits["status"].to_pylist()
    return {f"rows {one}": status.count(str(one)) for one in LimitStatus}


def jobs_since_limits(jobs: LargeTable, columns: Sequence[str] = READ) -> pa.Table:
    """The ended jobs with a request, from the end of the first job whose limit was set on; none where no limit was."""
    limited_s = [_first_limited_s(part) for part in parts_of(jobs, ("end_s", "limit_set_s"))]
    return pa.concat_tables([_ended_since(part, min(limited_s)) for part in parts_of(jobs, columns)])


def _first_limited_s(part: pa.Table) -> float:
    end_s = floats(part, "end_s")[np.isfinite(floats(part, "limit_set_s"))]
    return float(np.min(end_s[np.isfinite(end_s)], initial=np.inf))


def _ended_since(part: pa.Table, first_s: float) -> pa.Table:
    end_s = floats(part, "end_s")
    has_run = np.isfinite(end_s) & (end_s >= first_s)
    is_counted = has_run & ((floats(part, "requested_s") > 0) | np.isfinite(floats(part, "limit_set_s")))
    part = part.filter(pa.array(is_counted))
    for place in [part.schema.get_field_index(name) for name in ("user", "state")]:
        part = part.set_column(place, part.schema.field(place).name, part.column(place).cast(pa.string()))
    return part


def _beyond(jobs: pa.Table) -> Bools:
    """Which jobs ended at their limit, as Slurm says it, or ran longer, as they may beyond a soft_walltime."""
    has_timed_out = pc.fill_null(pc.equal(jobs["state"], "TIMEOUT"), False).to_numpy()
    found: Bools = has_timed_out | (floats(jobs, "runtime_s") > floats(jobs, "limit_set_s"))
    return found


def _off_s(end_s: Floats, is_beyond: Bools, chosen: Bools, since_s: float, most_beyond: float) -> int | None:
    """The end of the first job at which the jobs beyond were too many to be chance; None where they never were.

    Of MANY_JOBS they have to be more than the share `most_beyond`, too.
    """
    places = np.flatnonzero(chosen & (end_s > since_s))
    n_jobs, n_beyond = np.arange(1, len(places) + 1), np.cumsum(is_beyond[places])
    is_allowed = (n_jobs >= MANY_JOBS) & (n_beyond <= most_beyond * n_jobs)
    too_many = np.flatnonzero((n_beyond >= _first_too_many(n_jobs)) & ~is_allowed)
    return int(end_s[places[too_many[0]]]) if len(too_many) else None


def _first_too_many(n_jobs: Ints) -> Ints:
    """The least number of jobs beyond, of so many, that has at most CHANCE under the promise."""
    from scipy.special import bdtrik  # noqa: PLC0415  (slow to import, and few sites have set a limit)

    # P(X >= k) <= CHANCE where P(X <= k - 1) >= 1 - CHANCE.
    most: Ints = np.ceil(bdtrik(1 - CHANCE, n_jobs, PROMISED_BEYOND) - 1e-9).astype(np.int64)
    return np.maximum(most, 0) + 1


def _weeks(week: Ints, freed: Floats, is_beyond: Bools) -> list[dict[str, float]]:
    return [
        {
            "week_s": int(one) * WEEK_S + FIRST_MONDAY_S, "n_limited": int((week == one).sum()),
            "freed_proc_hours": float(np.nansum(freed[week == one])), "n_beyond": int(is_beyond[week == one].sum()),
        }
        for one in np.unique(week)
    ]  # fmt: skip
