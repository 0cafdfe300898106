"""What jobs held and did not use, by application, account and user: JOBS -> WASTE, and the carbon of their energy.

Held is what was allocated, for the runtime. Used processor time is CPU time. Each sum is over the jobs that have all
its values, which are counted beside it. DuckDB adds up, so that a log larger than memory is read in parts.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline.arrays import LARGEST_WORK_S, Floats, floats
from pipeline.large_tables import LargeTable, database_of
from pipeline.report import Fact, Report, Tally
from pipeline.schema import Flag
from pipeline.silent_requests import SilentRequest, sentences, silent_requests
from pipeline.tables import WASTE

if TYPE_CHECKING:
    import duckdb

NO_WORK = (
    Flag.PARTIAL_EXECUTION, Flag.UNFINISHED, Flag.CANCELLED_BEFORE_START, Flag.NEVER_RAN, Flag.IMPOSSIBLE_TIMES,
    Flag.NO_PROCS, Flag.ELAPSED_DISAGREES, Flag.SITE_DROP, Flag.DUPLICATE,
)  # fmt: skip
"""Flags of records that are no jobs of their own, or whose runtime is not known; all others held what they held."""

KINDS = ("all", "application", "account", "user")
"""What the jobs of a row share; `all` has one row."""

USERS = "user"
"""The kind of the rows that are about people."""

MOST_IDLE = 0.05
"""CPU time is measured with the shells of steps, and runtimes are whole seconds: so much of one processor is noise."""

SHARE = 0.97
"""Share of the jobs that what is to be asked for instead would have been enough for."""

LESS = 0.5
"""Fewer processors are recommended where at most this share of them was busy: waiting for files is no spare one."""

EXACT = 2.0**-20
"""Hours and kWh are rounded to multiples of this: sums up to 2^33 of them are exact, in whatever order."""

KIB_PER_GIB = 2**20
J_PER_KWH = 3.6e6

Intensity = Callable[[Floats, Floats], Floats]
"""From starts and ends of jobs (s since 1970) to the mean intensity of their time, g CO2e per kWh; NaN: unknown."""

HOURS = ("proc_hours", "unused_proc_hours", "gpu_hours", "unused_gpu_hours", "gib_hours", "unused_gib_hours")
SUMMED = (*HOURS, "one_proc_gpu_hours", "reserved_hours", "energy_kwh", "unused_kwh")
COUNTED = {
    "n_jobs": "proc_hours", "n_cpu": "unused_proc_hours", "n_gpu": "gpu_hours", "n_gpu_cpu": "unused_gpu_hours",
    "n_memory": "gib_hours", "n_requested": "reserved_hours", "n_energy": "energy_kwh",
}  # fmt: skip
"""The columns with numbers of jobs, and the column whose known values each counts."""


def waste(jobs: LargeTable, site: str, run_id: str, *, counts_every_request: bool = False) -> tuple[pa.Table, Report]:
    """WASTE of a log's jobs: a row for all, and one for each application, account and user.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        JOBS; those with a flag of NO_WORK, or without a runtime or processors, are set aside in the report.
    site, run_id : str
        The site's name, and the run that writes the rows.
    counts_every_request : bool
        Whether time is reserved by requests that seem to say nothing, too; they are counted in the report either way.

    Returns
    -------
    pa.Table, Report
        Rows in the order of KINDS, within these by unused, then by held processor-hours. The facts are sums of `all`.
    """
    silent = silent_requests(jobs)
    with _held_of(jobs, () if counts_every_request else silent) as database:
        found = database.sql(_ROWS).to_arrow_table()
        n_seen, seen_s, n_held, held_s = database.sql(_TALLIES).fetchall()[0]
    columns = {name: found.column(name) for name in found.column_names}
    table = WASTE.build(site=[site] * found.num_rows, run_id=[run_id] * found.num_rows, **columns)
    set_aside = {"no_work": Tally(n_seen - n_held, seen_s - held_s)} if n_held < n_seen else {}
    facts: dict[str, Fact] = {"silent_requests": sum(one.n_jobs for one in silent)}
    facts |= {name: table.column(name)[0].as_py() or 0.0 for name in HOURS} if table.num_rows else {}
    notes = tuple(sentences(silent, counts_every_request=counts_every_request))
    return table, Report("waste", "job", Tally(n_seen, seen_s), Tally(n_held, held_s), set_aside, facts, notes)


def carbon(jobs: LargeTable, intensity: Intensity) -> dict[tuple[str, str | None], dict[str, float | None]]:
    """By kind and name of a row of WASTE `carbon_kg`, `unused_carbon_kg` (kg CO2e), and `n_carbon`, the jobs that they
    rest on."""
    with _held_of(jobs) as database:
        columns = "application, account, person, start_s, end_s, energy_kwh, unused_kwh"
        kwh = database.sql(f"SELECT {columns} FROM held").to_arrow_table()  # noqa: S608 # nosec B608
        kg_per_kwh = intensity(floats(kwh, "start_s"), floats(kwh, "end_s")) / 1000
        kwh = kwh.append_column("kg_per_kwh", pa.array(kg_per_kwh, from_pandas=True))
        rows = database.sql(_CARBON).to_arrow_table().to_pylist()
    return {(row.pop("kind"), row.pop("name")): row for row in rows}


@contextmanager
def _held_of(jobs: LargeTable, silent: Sequence[SilentRequest] = ()) -> Iterator["duckdb.DuckDBPyConnection"]:
    """A database with the view `held`: the jobs that held what they were allocated, and what each left unused.

    Time is not reserved by the requests that are `silent`.
    """
    with database_of(jobs) as database:
        queues, requests_s = pa.array([one.queue for one in silent], pa.string()), [one.requested_s for one in silent]
        requests = pa.table({"queue": queues, "requested_s": pa.array(requests_s, pa.float64())})
        database.from_arrow(requests).create_view("silent")
        database.execute(_HELD)
        yield database


# The largest task's memory counts for each processor: more than that the job cannot have used. A job that ran out of
# memory would have used more than was measured. Needed memory is rounded up to a 16th of the power of two below, so
# that many values have few distinct ones.
_HELD = f"""
CREATE MACRO positive(x) AS if(x > 0, x, NULL);
CREATE MACRO exact(x) AS round_even(x / {EXACT}, 0) * {EXACT};
CREATE MACRO step(x) AS pow(2, floor(log2(x)) - 4);
CREATE VIEW counted AS
SELECT *, coalesce(positive(procs), positive(requested_procs)) AS n,
    least(coalesce(n * greatest(runtime_s, 0), 0), {LARGEST_WORK_S}) AS work_s,
    coalesce(runtime_s > 0 AND n > 0 AND coalesce(flag, '') NOT IN {tuple(map(str, NO_WORK))}, false) AS has_work
FROM jobs;
CREATE VIEW known AS
SELECT *, n * runtime_s / 3600 AS held_hours, n * if(cpu_s >= 0, cpu_s, NULL) AS busy_s,
    held_hours - if(busy_s IS NULL, NULL, least(busy_s / 3600, held_hours)) AS unused_hours,
    positive(gpus) * runtime_s / 3600 AS held_gpu_hours,
    if(busy_s IS NULL OR held_gpu_hours IS NULL, NULL, greatest(held_gpu_hours - busy_s / 3600, 0)) AS idle_gpu_hours,
    if(idle_gpu_hours IS NULL, NULL, busy_s <= {1 + MOST_IDLE} * runtime_s) AS is_alone,
    positive(requested_mem_kib) AS asked_kib,
    if(state = 'OUT_OF_MEMORY', NULL, coalesce(positive(used_mem_kib), positive(max_rss_kib))) AS used_kib,
    if(used_kib IS NULL, NULL, asked_kib * held_hours / {KIB_PER_GIB}) AS held_gib_hours,
    positive(requested_s) - runtime_s AS left_s, positive(energy_j) / {J_PER_KWH} AS kwh
FROM counted WHERE has_work;
CREATE VIEW held AS
SELECT application, account, "user" AS person, start_s, end_s, exact(held_hours) AS proc_hours,
    exact(unused_hours) AS unused_proc_hours, exact(held_gpu_hours) AS gpu_hours,
    exact(idle_gpu_hours) AS unused_gpu_hours, is_alone,
    exact(is_alone::DOUBLE * held_gpu_hours) AS one_proc_gpu_hours, exact(held_gib_hours) AS gib_hours,
    exact(held_gib_hours * (1 - least(used_kib / asked_kib, 1))) AS unused_gib_hours,
    exact(if(left_s IS NULL OR EXISTS (FROM silent WHERE silent.requested_s = known.requested_s
        AND silent.queue IS NOT DISTINCT FROM known.queue), NULL, n * greatest(left_s, 0)) / 3600) AS reserved_hours,
    exact(kwh) AS energy_kwh, exact(kwh * unused_hours / held_hours) AS unused_kwh, n AS usual_procs,
    if(busy_s IS NULL, NULL, greatest(ceil(busy_s / runtime_s - {MOST_IDLE}), 1)) AS need_procs,
    asked_kib AS usual_mem, ceil(used_kib / step(used_kib)) * step(used_kib) AS need_mem
FROM known
"""  # noqa: S608 # nosec B608

_ROW = f"""coalesce(application, account, person) AS name,
    list_extract({list(KINDS)}, list_position([7, 3, 5, 6], grouping(application, account, person))) AS kind"""
_EACH_ROW = "GROUPING SETS ((), (application), (account), (person))"
"""SQL of the kind and name of a row of WASTE, where jobs are grouped by each."""

_TALLIES = """
SELECT count(*), coalesce(sum(work_s), 0), count(*) FILTER (has_work), coalesce(sum(work_s) FILTER (has_work), 0)
FROM counted
"""

_CARBON = f"""
SELECT {_ROW}, sum(kg_per_kwh * energy_kwh) AS carbon_kg, sum(kg_per_kwh * unused_kwh) AS unused_carbon_kg,
    count(kg_per_kwh * energy_kwh) AS n_carbon
FROM kwh GROUP BY {_EACH_ROW}
"""  # noqa: S608 # nosec B608


def _instead(of: str, unit: str, unused: str, most: float) -> str:
    """SQL of the amount that left most unused, per row with any, and what to ask for instead, from how many such jobs.

    Nothing where what was needed is over `most` of the amount. The share is the chance that a further such job needs no
    more, if it is like these: rank over their number plus one.
    """
    return f"""(
    SELECT kind, name, usual AS usual_{of}{unit}, if(is_less, need, NULL) AS ask_{of}{unit},
        if(is_less, n_jobs, NULL) AS n_ask_{of}, if(is_less, rank / (n_jobs + 1), NULL) AS ask_{of}_share
    FROM (
        SELECT *, need <= {most} * usual AND need < usual AS is_less, sum(unused) OVER same AS of_amount,
            sum(n) OVER same AS n_jobs, sum(n) OVER (same ORDER BY need) AS rank
        FROM (
            SELECT {_ROW}, usual_{of} AS usual, need_{of} AS need, sum({unused}) AS unused, count(*)::DOUBLE AS n
            FROM held WHERE usual_{of} IS NOT NULL AND need_{of} IS NOT NULL
            GROUP BY usual_{of}, need_{of}, {_EACH_ROW}
        )
        WINDOW same AS (PARTITION BY kind, name, usual)
    )
    WHERE of_amount > 0 AND rank >= least(ceil({SHARE} * (n_jobs + 1)), n_jobs)
    QUALIFY row_number() OVER (PARTITION BY kind, name ORDER BY of_amount DESC, usual, need) = 1
    )"""  # noqa: S608 # nosec B608


_ROWS = f"""
SELECT sums.*, procs.* EXCLUDE (kind, name), mem.* EXCLUDE (kind, name) FROM (
    SELECT {_ROW}, count(*) FILTER (is_alone) AS n_one_proc_gpu,
        {", ".join(f"sum({name}) AS {name}" for name in SUMMED)},
        {", ".join(f"count({name}) AS {n}" for n, name in COUNTED.items())}
    FROM held GROUP BY {_EACH_ROW} HAVING count(*) > 0
) AS sums
LEFT JOIN {_instead("procs", "", "unused_proc_hours", LESS)} AS procs
    ON procs.kind = sums.kind AND procs.name IS NOT DISTINCT FROM sums.name
LEFT JOIN {_instead("mem", "_kib", "unused_gib_hours", 1.0)} AS mem
    ON mem.kind = sums.kind AND mem.name IS NOT DISTINCT FROM sums.name
ORDER BY list_position({list(KINDS)}, sums.kind), coalesce(unused_proc_hours, 0) DESC,
    if(unused_proc_hours > 0, 0, coalesce(reserved_hours, 0)) DESC, proc_hours DESC, sums.name IS NULL, sums.name
"""  # noqa: S608 # nosec B608
