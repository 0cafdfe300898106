"""Estimates for schedulers that can only look up: answers to the keys of past jobs, asked at the age of a day.

A job is answered by the first of these rows that is present, for its user u, application a, queue q, requested runtime
r, and processors, GPUs and their type p: uaqrp, uarp, urp, uar, ur, up, u, r, all. A row answers as if the newest ended
job of its key were submitted again, a day after the State's time; a row for any program, or any processors, as if these
were new. Rows of a key without a request have ratios to the request of that job; the median of a job is at most its
request.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from pipeline.arrays import DAY_S, Array, Floats, Ints
from pipeline.estimate.history import LEARN_JOBS, READ, History, history
from pipeline.estimate.history import MEMORY as MEMORY_TARGET
from pipeline.estimate.jobs import mixed
from pipeline.estimate.score import N_QUANTILES, QUANTILES
from pipeline.estimate.state import Record, State, estimate, loaded_state
from pipeline.large_tables import LargeTable, newest_jobs
from pipeline.report import Report, Tally
from pipeline.tables import ESTIMATES, MEMORY

LETTERS = {"who": "u", "what": "a", "queue": "q", "requested_s": "r", "procs": "p", "gpus": "p", "gpu_type": "p"}
ROW_KEYS = ("uaqrp", "uarp", "urp", "uar", "ur", "up", "u", "r", "all")
KEYS = tuple(tuple(name for name, letter in LETTERS.items() if letter in kind and kind != "all") for kind in ROW_KEYS)
CODED = ("who", "what", "queue", "gpu_type")
NAMES = tuple(f"q{100 * share:.0f}" for share in QUANTILES)
ANOTHER_SIZE = 1 + 1e-6
"""Factor of the processors of a row for any: jobs that read it have a program or processors new to their user."""
KEPT_DAYS = 182.0
"""A key without an ended job for so long has no row."""

PROMISE = 0.97
"""The share of jobs that stay under the memory that is recommended."""

MIB_KIB = 1024.0
"""Recommendations are whole MiB: Slurm takes no less."""

MOST_PRICE = 1e15
"""KiB; at this price everybody gets the largest amount."""

Rows = dict[str, Array]
"""Columns of ESTIMATES by name, without site and run; None and NaN where a row is for any value."""


def table_rows(state: State, log: History) -> Rows:
    """The rows of a State's table in order of kind; `log` has the jobs that the State has learnt."""
    ended = np.flatnonzero((log.end_s <= state.as_of_s) & log.has_run & log.is_learnt)
    ended = ended[np.argsort(log.end_s[ended], kind="stable")][::-1]
    found = list[Rows]()
    for rank in range(len(KEYS)):
        digest = digests_of(log, rank)[ended]
        own, digest = ended[digest >= 0], digest[digest >= 0]
        _, first, number = np.unique(digest, return_index=True, return_inverse=True)
        newest, longest_s = own[first], np.zeros(len(first))
        np.maximum.at(longest_s, number, log.runtime_s[own])
        of_kind: Rows = {"job": newest, "n_jobs": np.bincount(number, minlength=len(first)), "longest_s": longest_s}
        of_kind["rank"] = np.full(len(first), rank)
        is_kept = log.end_s[newest] >= state.as_of_s - DAY_S * KEPT_DAYS
        found.append({name: column[is_kept] for name, column in of_kind.items()})
    rows = {name: np.concatenate([one[name] for one in found]) for name in found[0]}
    return rows | _keys(log, rows["job"], rows["rank"]) | answers_of(state, log, rows["job"], rows["rank"])


def digests_of(log: History, rank: int) -> Ints:
    """Per job a hash of its values of a kind of row; -1 where one is unknown."""
    values = values_of(log)
    is_known = np.all([np.ones(len(log), np.bool_), *(values[name] >= 0 for name in KEYS[rank] if name in CODED)], 0)
    digests = mixed(np.zeros(len(log), np.int64), *(np.ascontiguousarray(values[name]) for name in KEYS[rank]))
    return np.where(is_known, digests, -1)


def values_of(log: History) -> dict[str, Array]:
    """Per job the values that keys are of, the texts as codes from 0."""
    numbers = {"requested_s": log.requested_s, "gpus": log.gpus}
    found = {name: np.where(values > 0, values, 0.0) for name, values in numbers.items()} | {"procs": log.procs}
    return found | {name: log.codes[name] + (name == "gpu_type") for name in CODED}


def _keys(log: History, jobs: Ints, rank: Ints) -> Rows:
    """The values that each row is for."""
    values, found = values_of(log), Rows()
    for name in LETTERS:
        is_named = np.array([name in key for key in KEYS])[rank]
        if name in CODED:
            texts: Array = np.array([*log.names[name], None], np.object_)
            found[name] = texts[np.where(is_named, log.codes[name][jobs], -1)]
        else:
            found[name] = np.where(is_named, values[name][jobs], np.nan)
    found["template"] = np.array(["+".join(key) or "all" for key in KEYS], np.object_)[rank]
    return found | {"chain_rank": rank, "newest_end_s": log.end_s[jobs].astype(np.int64)}


def answers_of(state: State, log: History, jobs: Ints, rank: Ints) -> Rows:
    """What the rows' jobs are answered with, and ratios where a row has no request and its job one."""
    asked = log.as_submitted().take(jobs)
    is_any = {name: np.array([name not in key for key in KEYS])[rank] for name in LETTERS}
    codes = asked.codes | {name: np.where(is_any[name], -1, asked.codes[name]) for name in ("who", "what")}
    procs = np.where(is_any["procs"], ANOTHER_SIZE * asked.procs, asked.procs)
    half_a_day_on = np.full(len(jobs), state.as_of_s + DAY_S / 2)
    asked = replace(asked, submit_s=half_a_day_on, codes=codes, procs=procs)
    quantiles_s = estimate(state, asked)[:, :N_QUANTILES]
    has_ratios = is_any["requested_s"] & (asked.requested_s > 0)
    ratios = quantiles_s / np.where(has_ratios, asked.requested_s, np.nan)[:, None]
    seconds = {f"runtime_s_{name}": quantiles_s[:, k] for k, name in enumerate(NAMES)}
    return seconds | {f"ratio_{name}": ratios[:, k] for k, name in enumerate(NAMES)}


def make_estimates(state: pa.Table, jobs: LargeTable, run_id: str) -> tuple[pa.Table, Report]:
    """ESTIMATES of a State, as of its time: a row per key that is present; `jobs` are JOBS of the State's log.

    Parameters
    ----------
    state : pa.Table
        STATE of a site.
    jobs : pa.Table or StoredTable
        JOBS that the STATE was learnt from.
    run_id : str
        Id of the run, written to every row.

    Returns
    -------
    table : pa.Table
        ESTIMATES: a row per key that is present, runtimes in s, ratios to the request.
    report : Report
        Number of rows, by template.

    Examples
    --------
    >>> table, report = make_estimates(tables["state"], tables["jobs"], "r1")
    >>> table.num_rows == tables["estimates"].num_rows, set(table.column("run_id").to_pylist())
    (True, {'r1'})
    """
    held = loaded_state(state, "the state")
    newest, _ = newest_jobs(jobs, READ, LEARN_JOBS)
    rows = table_rows(held, history(newest, held.site["timezone"]))
    found = estimates_table(rows, held.site["name"], run_id)
    whole = Tally(found.num_rows)
    counts = {f"rows of {name}": int((rows["template"] == name).sum()) for name in dict.fromkeys(rows["template"])}
    return found, Report("estimate", "row", whole, whole, {}, counts)


def estimates_table(rows: Rows, site: str, run_id: str) -> pa.Table:
    """ESTIMATES of one site."""
    n = len(rows["rank"])
    counts = {name: pa.array(rows[name], pa.float64(), from_pandas=True) for name in ("procs", "gpus")}
    plain = {name: values for name, values in rows.items() if name not in ("longest_s", "job", "rank")}
    return ESTIMATES.build(**(plain | counts | {"site": [site] * n, "run_id": [run_id] * n}))


def make_memory(state: pa.Table, jobs: LargeTable, run_id: str) -> tuple[pa.Table, Report]:
    """MEMORY of a MEMORY_STATE, as `make_estimates` makes ESTIMATES; KiB per processor; none of one without rows.

    Parameters
    ----------
    state : pa.Table
        MEMORY_STATE of a site.
    jobs : pa.Table or StoredTable
        JOBS that it was learnt from.
    run_id : str
        Id of the run, written to every row.

    Returns
    -------
    table : pa.Table
        MEMORY: a row per key that is present, memory in KiB per processor.
    report : Report
        Number of rows.

    Examples
    --------
    >>> table, report = make_memory(tables["memory_state"], tables["jobs"], "r1")
    >>> table.num_rows == report.kept.rows, table.num_rows > 0
    (True, True)
    """
    if not state.num_rows:
        return MEMORY.empty(), Report("memory", "row", Tally(), Tally())
    held = loaded_state(state, "the state of memory")
    newest, _ = newest_jobs(jobs, MEMORY_TARGET.columns, LEARN_JOBS)
    rows = table_rows(held, MEMORY_TARGET.history(newest, held.site["timezone"]))
    quantiles_kib = np.stack([rows[f"runtime_s_{name}"] for name in NAMES], axis=1)
    # A row of any size is one of the median job.
    procs = np.where(np.isnan(rows["procs"]), np.median(held.record.procs), rows["procs"])
    asked_kib, share = recommended_kib(quantiles_kib, procs, price_now(held.record))
    n, same = len(quantiles_kib), ("chain_rank", *CODED, "n_jobs", "newest_end_s")
    numbers = {"requested_mem_kib": rows["requested_s"], "procs": rows["procs"], "gpus": rows["gpus"]}
    found = MEMORY.build(
        site=[held.site["name"]] * n,
        run_id=[run_id] * n,
        template=[one.replace("requested_s", "requested_mem_kib") for one in rows["template"].tolist()],
        used_mem_kib_q50=quantiles_kib[:, QUANTILES.index(0.5)],
        largest_mem_kib=rows["longest_s"],
        recommended_mem_kib=asked_kib,
        recommended_share=share,
        **{name: pa.array(values, pa.float64(), from_pandas=True) for name, values in numbers.items()},
        **{name: rows[name] for name in same},
    )
    return found, Report("memory", "row", Tally(n), Tally(n))


LEVELS = (0.90, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)
"""Shares of jobs like one that stay under an amount, of the amounts that may be recommended for it: a larger chance of
too little than a tenth would lose its user too many jobs."""

BEYOND = {0.993: 1.2, 0.995: 1.5, 0.997: 2.0}
"""The same of larger amounts, in times of the last one; chosen, not estimated."""

SHARES = np.array((*LEVELS, *BEYOND))

AIM = 0.9
"""Part of the share that is not promised that is aimed at: what was aimed at yesterday is exceeded today."""


def recommended_kib(quantiles_kib: Floats, procs: Floats, price: float) -> tuple[Floats, Floats]:
    """(jobs,) the memory to ask for, KiB per processor, in whole MiB, and the share of jobs like each that stay under.

    Of some amounts the one with the least sum of the job's memory and the price times the chance of too little. Where
    the last per cent of certainty cost many GiB it is bought for other jobs: of all together the promise is kept.

    Parameters
    ----------
    quantiles_kib : Floats
        float64[n, 6], quantiles of the memory used, as the estimator gives them of a `memory_history`.
    procs : Floats
        float64[n], processors.
    price : float
        Of a job with too little, as `price_of` finds it, KiB.

    Returns
    -------
    kib : Floats
        float64[n], KiB per processor; NaN where there is no answer.
    share : Floats
        float64[n], 0.9 to 1; NaN where there is no answer.

    Examples
    --------
    >>> quantiles_kib = np.array([[900.0, 1000.0, 1500.0, 2000.0, 2040.0, 2040.0]])
    >>> recommended_kib(quantiles_kib, np.ones(1), 1e9)[0]
    array([4096.])
    """
    amounts = _amounts_kib(quantiles_kib)
    chosen = np.argmin(procs[:, None] * amounts + price * (1.0 - SHARES), axis=1)
    found = amounts[np.arange(len(amounts)), chosen]
    return found, np.where(np.isnan(found), np.nan, SHARES[chosen])


def _amounts_kib(quantiles_kib: Floats) -> Floats:
    """(jobs, SHARES) amounts, whole MiB, ascending; between quantiles logs are linear in the log of the rest."""
    known, rest = -np.log1p(-np.array(QUANTILES)), -np.log1p(-np.array(LEVELS))
    weights = np.stack([np.interp(rest, known, own) for own in np.eye(len(QUANTILES))])
    inside = np.exp(np.log(quantiles_kib) @ weights)
    amounts = np.concatenate([inside, inside[:, -1:] * np.array(list(BEYOND.values()))], axis=1)
    return np.ceil(amounts / MIB_KIB * (1 - 1e-12)) * MIB_KIB


def prices(used_kib: Floats, quantiles_kib: Floats, procs: Floats) -> Floats:
    """Per ended job the least price at which what is recommended for it would have been enough; infinite: none is."""
    amounts = _amounts_kib(quantiles_kib)
    enough, found = (amounts < used_kib[:, None]).sum(axis=1), np.zeros(len(used_kib))
    found[enough == len(SHARES)] = np.inf
    for level in range(1, len(SHARES)):
        own = np.flatnonzero(enough == level)
        less, more = amounts[own, :level], amounts[own, level:]
        rise = procs[own, None, None] * (more[:, None] - less[:, :, None])
        found[own] = (rise / (SHARES[level:] - SHARES[:level, None])).min(axis=2).max(axis=1, initial=0.0)
    return found


def price_of(needed: Floats, promise: float = PROMISE) -> float:
    """The price at which the promised share of jobs, whose `prices` these are, would have had enough; 0 without any."""
    n_left = int(AIM * (1.0 - promise) * len(needed))
    # A price at which two amounts cost the same would choose the smaller one.
    return 1.001 * float(min(np.sort(needed)[len(needed) - 1 - n_left], MOST_PRICE)) if len(needed) else MOST_PRICE


def price_now(record: Record) -> float:
    """The price at the promise of the jobs that a MEMORY_STATE has ended last."""
    return price_of(prices(record.runtime_s, record.quantiles_s[:, :N_QUANTILES], record.procs))
