"""What the limits that Walltime set have done to jobs, and for whom limiting is switched off: LIMIT_HARM."""

from collections.abc import Mapping
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
"""The share of limited jobs that may exceed their limits: the promise is 97%."""

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
        A user's limiting is off from the first job at which the jobs beyond their limits were more than chance explains
        (binomial, PROMISED_BEYOND, CHANCE); the site's where the jobs of one week were. It stays off until a person
        acts. The facts: jobs limited and beyond, hours freed, users switched off, and whether the site is.
    """
    limited = pa.concat_tables([_limited(part) for part in parts_of(jobs, READ)]).sort_by([("end_s", "ascending")])
    users = limited["user"].to_pylist()
    names = sorted({name for name in users if name is not None})
    number = {name: n for n, name in enumerate(names)} | {None: -1}
    code = np.array([number[name] for name in users], np.int64)
    end_s, is_beyond = floats(limited, "end_s"), _beyond(limited)
    week = np.floor((end_s - FIRST_MONDAY_S) / WEEK_S).astype(np.int64)
    off_s = {name: _off_s(end_s, is_beyond, code == n, again.get(name, -np.inf)) for n, name in enumerate(names)}
    weekly = [_off_s(end_s, is_beyond, week == one, again.get(EVERYBODY, -np.inf)) for one in np.unique(week)]
    site_off_s = min((one for one in weekly if one is not None), default=None)
    freed = (floats(limited, "requested_s") - floats(limited, "limit_set_s")) * floats(limited, "procs") / 3600
    rows = [
        {"site": site, "user": name, "off_since_s": since_s, **row}
        for name, since_s, chosen in [
            (None, site_off_s, np.ones(len(code), bool)),
            *((name, off_s[name], code == n) for n, name in enumerate(names)),
        ]
        for row in _weeks(week[chosen], freed[chosen], is_beyond[chosen])
    ]
    n_off = sum(since_s is not None for since_s in off_s.values())
    facts = {
        "limited": len(code), "beyond": int(is_beyond.sum()), "freed_proc_hours": float(np.nansum(freed)),
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
    status = found["status"].to_pylist()
    facts = {f"rows {one}": status.count(str(one)) for one in LimitStatus}
    return found, replace(report, facts=dict(report.facts) | facts)


def _limited(part: pa.Table) -> pa.Table:
    is_limited = np.isfinite(floats(part, "limit_set_s")) & np.isfinite(floats(part, "end_s"))
    texts = [part.schema.get_field_index(name) for name in ("user", "state")]
    for place in texts:
        part = part.set_column(place, part.schema.field(place).name, part.column(place).cast(pa.string()))
    return part.filter(pa.array(is_limited))


def _beyond(limited: pa.Table) -> Bools:
    """Which jobs ended at their limit, as Slurm says it, or ran longer, as they may beyond a soft_walltime."""
    has_timed_out = np.array([state == "TIMEOUT" for state in limited["state"].to_pylist()], bool)
    found: Bools = has_timed_out | (floats(limited, "runtime_s") > floats(limited, "limit_set_s"))
    return found


def _off_s(end_s: Floats, is_beyond: Bools, chosen: Bools, since_s: float) -> int | None:
    """The end of the first job at which the jobs beyond were too many to be chance; None where they never were."""
    places = np.flatnonzero(chosen & (end_s > since_s))
    n_jobs, n_beyond = np.arange(1, len(places) + 1), np.cumsum(is_beyond[places])
    too_many = np.flatnonzero(n_beyond >= _first_too_many(n_jobs))
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
