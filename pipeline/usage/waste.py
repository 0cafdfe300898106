"""What jobs held and did not use, by application, account and user: JOBS -> WASTE, and the carbon of their energy.

Held is what was allocated, for the runtime. Used processor time is CPU time. Each sum is over the jobs that have all
its values, which are counted beside it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats, floats, job_procs, tally_of
from pipeline.large_tables import LargeTable, parts_of
from pipeline.report import Fact, Report, Tally, total
from pipeline.schema import Flag
from pipeline.silent_requests import SilentRequest, says_nothing, sentences, silent_requests
from pipeline.tables import WASTE

NO_WORK = (
    Flag.PARTIAL_EXECUTION, Flag.UNFINISHED, Flag.CANCELLED_BEFORE_START, Flag.NEVER_RAN, Flag.IMPOSSIBLE_TIMES,
    Flag.NO_PROCS, Flag.ELAPSED_DISAGREES, Flag.SITE_DROP, Flag.DUPLICATE,
)  # fmt: skip
"""Flags of records that are no jobs of their own, or whose runtime is not known; all others held what they held."""

KINDS = ("all", "application", "account", "user")
"""What the jobs of a row share; `all` has one row."""

USERS = "user"
"""The kind of the rows that are about people."""

READ = (
    "application", "account", "user", "queue", "procs", "requested_procs", "gpus", "runtime_s", "start_s", "end_s",
    "cpu_s", "requested_s", "requested_mem_kib", "used_mem_kib", "max_rss_kib", "energy_j", "state", "flag",
)  # fmt: skip

MOST_IDLE = 0.05
"""CPU time is measured with the shells of steps, and runtimes are whole seconds: so much of one processor is noise."""

SHARE = 0.97
"""Share of the jobs that what is to be asked for instead would have been enough for."""

LESS = 0.5
"""Fewer processors are recommended where at most this share of them was busy: waiting for files is no spare one."""

EXACT = 2.0**-20
"""Hours and kWh are rounded to multiples of this: sums up to 2^33 of them are exact."""

KIB_PER_GIB = 2**20
J_PER_KWH = 3.6e6

Measures = Mapping[str, Floats]
"""Values by column, one a job; NaN: unknown."""

Intensity = Callable[[Floats, Floats], Floats]
"""From starts and ends of jobs (s since 1970) to the mean intensity of their time, g CO2e per kWh; NaN: unknown."""

Row = tuple[str, str | None]
"""Kind and name; a name of None: the log does not say."""

KEY = ("kind", "name")

COUNTED = {
    "n_jobs": "proc_hours", "n_cpu": "unused_proc_hours", "n_gpu": "gpu_hours", "n_gpu_cpu": "unused_gpu_hours",
    "n_memory": "gib_hours", "n_requested": "reserved_hours", "n_energy": "energy_kwh", "n_carbon": "carbon_kg",
}  # fmt: skip
"""The columns with numbers of jobs, and the column whose known values each counts."""

INSTEAD = {
    "procs": ("usual_procs", "ask_procs", "n_ask_procs", "ask_procs_share"),
    "mem": ("usual_mem_kib", "ask_mem_kib", "n_ask_mem", "ask_mem_share"),
}
"""Columns on the amount that leaves most unused, and what to ask for instead."""

HOURS = ("proc_hours", "unused_proc_hours", "gpu_hours", "unused_gpu_hours", "gib_hours", "unused_gib_hours")


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
    # 1. Sums over the jobs of each row, and over those of them that asked for, and needed, the same.
    silent, seen, used = silent_requests(jobs), [], []
    sums: list[pa.Table] = []
    needs: dict[str, list[pa.Table]] = {name: [] for name in INSTEAD}
    for part, held in _held_parts(jobs):
        seen.append(tally_of(part))
        used.append(tally_of(held))
        measures, needed = measured(held, () if counts_every_request else silent)
        sums.append(_sums_by_row(held, measures))
        for name, need in needed.items():
            needs[name].append(_sums_by_row(held, need, ("asked", "needed")))
    # 2. A row of each kind and name, with what to ask for instead.
    ask_procs, ask_mem = _instead(needs["procs"], "procs", LESS), _instead(needs["mem"], "mem", 1.0)
    none = dict.fromkeys([*INSTEAD["procs"], *INSTEAD["mem"]])
    rows = []
    for row in _sums(sums, KEY).to_pylist():
        of_row = row["kind"], row["name"]
        counts = {name: int(value or 0) for name, value in row.items() if name.startswith("n_")}
        rows.append(row | counts | none | ask_procs.get(of_row, {}) | ask_mem.get(of_row, {}))
    rows.sort(key=_order)
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {"kind": []}
    table = WASTE.build(site=[site] * len(rows), run_id=[run_id] * len(rows), **columns)
    # 3. The report.
    whole, kept = total(seen), total(used)
    left = Tally(whole.rows - kept.rows, whole.proc_s - kept.proc_s)
    facts: dict[str, Fact] = {"silent_requests": sum(one.n_jobs for one in silent)}
    facts |= {name: rows[0][name] or 0.0 for name in HOURS} if rows else {}
    notes = tuple(sentences(silent, counts_every_request=counts_every_request))
    return table, Report("waste", "job", whole, kept, {"no_work": left} if left.rows else {}, facts, notes)


def carbon(jobs: LargeTable, intensity: Intensity) -> dict[Row, dict[str, float | None]]:
    """Per row of WASTE `carbon_kg`, `unused_carbon_kg` (kg CO2e), and `n_carbon`, the jobs that they rest on."""
    parts = []
    for _, held in _held_parts(jobs):
        measures, _ = measured(held)
        kg_per_kwh = intensity(floats(held, "start_s"), floats(held, "end_s")) / 1000
        kg = {"carbon_kg": "energy_kwh", "unused_carbon_kg": "unused_kwh"}
        parts.append(_sums_by_row(held, _with_counts({name: kg_per_kwh * measures[kwh] for name, kwh in kg.items()})))
    return {(row.pop("kind"), row.pop("name")): row for row in _sums(parts, KEY).to_pylist()}


def _held_parts(jobs: LargeTable) -> Iterator[tuple[pa.Table, pa.Table]]:
    """The jobs in parts, each with those of its jobs that held what they were allocated."""
    for part in parts_of(jobs, READ):
        is_aside = pc.is_in(part["flag"].cast(pa.string()), pa.array(list(map(str, NO_WORK))))
        has_run = (floats(part, "runtime_s") > 0) & np.isfinite(job_procs(part))
        yield part, part.filter(pa.array(has_run & ~pc.fill_null(is_aside, False).to_numpy()))


def measured(held: pa.Table, silent: Sequence[SilentRequest] = ()) -> tuple[Measures, dict[str, Measures]]:
    """Per job each number that WASTE sums, unknown where the log lacks a value or the request is `silent`.

    Also what it asked for, needed and left unused, of processors and of memory (KiB per processor).
    """
    procs, runtime_s, cpu_s = job_procs(held), floats(held, "runtime_s"), floats(held, "cpu_s")
    hours, busy_s = runtime_s / 3600, procs * np.where(cpu_s >= 0, cpu_s, np.nan)
    unused = procs * hours - np.minimum(busy_s / 3600, procs * hours)
    reserved_s = np.maximum(np.where(says_nothing(held, silent), np.nan, _positive(held, "requested_s")) - runtime_s, 0)
    gpus, kwh = _positive(held, "gpus"), _positive(held, "energy_j") / J_PER_KWH
    idle_gpus = np.maximum(gpus * hours - busy_s / 3600, 0.0)
    is_alone = np.where(np.isnan(idle_gpus), np.nan, busy_s <= (1 + MOST_IDLE) * runtime_s)
    # The largest task's memory counts for each processor: more than that the job cannot have used. A job that ran out
    # of memory would have used more than was measured.
    asked_kib, used_kib = (_positive(held, name) for name in ("requested_mem_kib", "used_mem_kib"))
    used_kib = np.where(np.isnan(used_kib), _positive(held, "max_rss_kib"), used_kib)
    has_failed = pc.fill_null(pc.equal(held["state"].cast(pa.string()), "OUT_OF_MEMORY"), False).to_numpy()
    used_kib = np.where(has_failed, np.nan, used_kib)
    gib_hours = np.where(np.isnan(used_kib), np.nan, asked_kib) * procs * hours / KIB_PER_GIB
    sums = {
        "proc_hours": procs * hours,
        "unused_proc_hours": unused,
        "gpu_hours": gpus * hours,
        "unused_gpu_hours": idle_gpus,
        "n_one_proc_gpu": is_alone,
        "one_proc_gpu_hours": is_alone * gpus * hours,
        "gib_hours": gib_hours,
        "unused_gib_hours": gib_hours * (1 - np.minimum(used_kib / asked_kib, 1.0)),
        "reserved_hours": procs * reserved_s / 3600,
        "energy_kwh": kwh,
        "unused_kwh": kwh * unused / (procs * hours),
    }
    # Sums of such multiples are exact, and do not depend on the parts that a log is read in.
    measures = _with_counts({name: np.rint(values / EXACT) * EXACT for name, values in sums.items()})
    busy = np.maximum(np.ceil(busy_s / runtime_s - MOST_IDLE), 1.0)
    needs = {"procs": (procs, busy, "unused_proc_hours"), "mem": (asked_kib, rounded_up(used_kib), "unused_gib_hours")}
    return measures, {
        of: {"asked": asked, "needed": needed, "unused": measures[unused], "n": measures["n_jobs"]}
        for of, (asked, needed, unused) in needs.items()
    }


def _positive(held: pa.Table, name: str) -> Floats:
    values = floats(held, name)
    return np.where(values > 0, values, np.nan)


def _with_counts(sums: Measures) -> Measures:
    """The measures, and 1 where each one that is counted is known."""
    return {**sums, **{n: 1.0 - np.isnan(sums[name]) for n, name in COUNTED.items() if name in sums}}


def _sums_by_row(held: pa.Table, measures: Measures, by: Sequence[str] = ()) -> pa.Table:
    """The sums of measures over the jobs of each row of WASTE, and over equal values of the measures `by`."""
    columns = {name: pa.array(values, from_pandas=True) for name, values in measures.items()}
    every = pa.nulls(held.num_rows, pa.string())
    names = {kind: every if kind == "all" else held.column(kind).cast(pa.string()) for kind in KINDS}
    return pa.concat_tables(
        _sums([pa.table({"kind": pa.repeat(kind, held.num_rows), "name": name, **columns})], (*KEY, *by))
        for kind, name in names.items()
    )


def _sums(parts: Iterable[pa.Table], by: Sequence[str]) -> pa.Table:
    """The sums of the other columns over rows that are equal in the columns `by`, null where no value is known."""
    whole = pa.concat_tables(parts)
    names = [name for name in whole.column_names if name not in by]
    # One thread adds in the order of the rows.
    found = whole.group_by(list(by), use_threads=False).aggregate([(name, "sum") for name in names])
    return found.select([*by, *(f"{name}_sum" for name in names)]).rename_columns([*by, *names])


def _order(row: Mapping[str, Any]) -> tuple[int, float, float, float, bool, str]:
    """By kind; most unused first, in logs without CPU times most reserved and not used."""
    unused, name = row["unused_proc_hours"] or 0.0, row["name"]
    reserved = 0.0 if unused else row["reserved_hours"] or 0.0
    return KINDS.index(row["kind"]), -unused, -reserved, -row["proc_hours"], name is None, name or ""


def _instead(needs: Iterable[pa.Table], of: str, most: float) -> dict[Row, dict[str, float]]:
    """Per row with any unused: the amount that left most unused, and what to ask for instead, as in INSTEAD.

    Only the first where what was needed is over `most` of it. The share is the chance that a further such job needs no
    more, if it is like these: rank over their number plus one.
    """
    amounts: dict[Row, dict[float, list[tuple[float, ...]]]] = {}
    for row in _sums(needs, (*KEY, "asked", "needed")).to_pylist():
        if row["asked"] is not None and row["needed"] is not None:
            of_row = amounts.setdefault((row["kind"], row["name"]), {})
            of_row.setdefault(row["asked"], []).append((row["needed"], row["n"], row["unused"]))
    found: dict[Row, dict[str, float]] = {}
    for key, of_row in amounts.items():
        usual = max(sorted(of_row), key=lambda asked: sum(unused for *_, unused in of_row[asked]))
        needed, n, unused = zip(*sorted(of_row[usual]), strict=True)
        if not sum(unused):
            continue
        until, n_jobs = np.cumsum(n), int(sum(n))
        first = int(np.searchsorted(until, min(np.ceil(SHARE * (n_jobs + 1)), n_jobs)))
        is_less = needed[first] <= most * usual and needed[first] < usual
        instead = (usual, needed[first], n_jobs, float(until[first]) / (n_jobs + 1))
        found[key] = dict(zip(INSTEAD[of], instead if is_less else instead[:1], strict=False))
    return found


def rounded_up(values: Floats) -> Floats:
    """The next multiple of a 16th of the power of two below, so that many values have few distinct ones."""
    step = 2.0 ** (np.floor(np.log2(values)) - 4)
    return np.asarray(np.ceil(values / step) * step, np.float64)
