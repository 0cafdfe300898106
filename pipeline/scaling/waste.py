"""What jobs held and did not use, by application, account and user: JOBS -> WASTE, and the carbon of their energy.

Held is what was allocated, for the runtime. Used processor time is CPU time. Each sum is over the jobs that have all
its values, which are counted beside it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, Ints, category_codes, floats, job_procs, row_codes, tally_of
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
Intensity = Callable[[Floats, Floats], Floats]
"""From starts and ends of jobs (s since 1970) to the mean intensity of their time, g CO2e per kWh; NaN: unknown."""

Row = tuple[str, str | None]
"""Kind and name; a name of None: the log does not say."""


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
    found, asked, seen, aside = Sums(), {name: Asked() for name in ("procs", "mem")}, [], []
    silent = silent_requests(jobs)
    for part in parts_of(jobs, READ):
        is_held = _has_work(part)
        held = part.filter(pa.array(is_held))
        seen.append(tally_of(part))
        aside.append(tally_of(part.filter(pa.array(~is_held))))
        measures = measured(held, () if counts_every_request else silent)
        found.add(held, measures)
        _add_asked(asked, held, measures)
    rows = [_row(key, found, asked) for key in sorted(found.of, key=lambda key: _order(key, found))]
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {"kind": []}
    table = WASTE.build(site=[site] * len(rows), run_id=[run_id] * len(rows), **columns)
    whole, left = total(seen), total(aside)
    kept = Tally(whole.rows - left.rows, whole.proc_s - left.proc_s)
    facts: dict[str, Fact] = {"silent_requests": sum(one.n_jobs for one in silent)}
    facts |= {name: rows[0][name] or 0.0 for name in HOURS} if rows else {}
    said = tuple(sentences(silent, counts_every_request=counts_every_request))
    return table, Report("waste", "job", whole, kept, {"no_work": left} if left.rows else {}, facts, said)


HOURS = ("proc_hours", "unused_proc_hours", "gpu_hours", "unused_gpu_hours", "gib_hours", "unused_gib_hours")


def carbon(jobs: LargeTable, intensity: Intensity) -> dict[Row, dict[str, float | None]]:
    """Per row of WASTE `carbon_kg`, `unused_carbon_kg` (kg CO2e), and `n_carbon`, the jobs that they rest on."""
    found = Sums()
    for part in parts_of(jobs, READ):
        held = part.filter(pa.array(_has_work(part)))
        measures = measured(held)
        kg_per_kwh = intensity(floats(held, "start_s"), floats(held, "end_s")) / 1000
        all_kg, unused_kg = (kg_per_kwh * measures[name] for name in ("energy_kwh", "unused_kwh"))
        found.add(held, {"carbon_kg": all_kg, "unused_carbon_kg": unused_kg, "n_carbon": _one(all_kg)})
    return {
        key: {name: value if n else None for name, (value, n) in zip(found.names, row, strict=True)}
        for key, row in found.of.items()
    }


def _has_work(part: pa.Table) -> Bools:
    is_aside = pc.fill_null(pc.is_in(part["flag"].cast(pa.string()), pa.array(list(map(str, NO_WORK)))), False)
    runs: Bools = (floats(part, "runtime_s") > 0) & np.isfinite(job_procs(part)) & ~is_aside.to_numpy()
    return runs


def measured(held: pa.Table, silent: Sequence[SilentRequest] = ()) -> Measures:
    """Per job each number that WASTE sums; NaN where the log lacks a value, or the request is `silent`."""
    procs, runtime_s = job_procs(held), floats(held, "runtime_s")
    hours, busy_s = runtime_s / 3600, procs * _cpu_s(held)
    gpus, requested_s = _positive(held, "gpus"), _positive(held, "requested_s")
    requested_s = np.where(says_nothing(held, silent), np.nan, requested_s)
    asked_kib, used_kib = _memory(held)
    unused = procs * hours - np.minimum(busy_s / 3600, procs * hours)
    idle_gpus = np.maximum(gpus * hours - busy_s / 3600, 0.0)
    is_alone = (gpus > 0) & (busy_s <= (1 + MOST_IDLE) * runtime_s)
    gib_hours = np.where(np.isnan(used_kib), np.nan, asked_kib) * procs * hours / KIB_PER_GIB
    kwh = _positive(held, "energy_j") / J_PER_KWH
    reserved = procs * np.maximum(requested_s - runtime_s, 0.0) / 3600
    sums = {
        "n_jobs": np.ones(len(procs)),
        "proc_hours": procs * hours,
        "n_cpu": _one(busy_s),
        "unused_proc_hours": unused,
        "n_gpu": _one(gpus),
        "gpu_hours": gpus * hours,
        "n_gpu_cpu": _one(idle_gpus),
        "unused_gpu_hours": idle_gpus,
        "n_one_proc_gpu": np.where(np.isnan(idle_gpus), np.nan, is_alone),
        "one_proc_gpu_hours": np.where(np.isnan(idle_gpus), np.nan, np.where(is_alone, gpus, 0.0) * hours),
        "n_memory": _one(gib_hours),
        "gib_hours": gib_hours,
        "unused_gib_hours": gib_hours * (1 - np.minimum(used_kib / asked_kib, 1.0)),
        "n_requested": _one(reserved),
        "reserved_hours": reserved,
        "n_energy": _one(kwh),
        "energy_kwh": kwh,
        "unused_kwh": kwh * unused / (procs * hours),
    }
    # Sums of such multiples are exact, and do not depend on the parts that a log is read in.
    return {name: np.rint(values / EXACT) * EXACT for name, values in sums.items()}


def _positive(held: pa.Table, name: str) -> Floats:
    values = floats(held, name)
    return np.where(values > 0, values, np.nan)


def _cpu_s(held: pa.Table) -> Floats:
    values = floats(held, "cpu_s")
    return np.where(values >= 0, values, np.nan)


def _one(values: Floats) -> Floats:
    """1 where a value is known, for counts."""
    return np.where(np.isnan(values), 0.0, 1.0)


def _memory(held: pa.Table) -> tuple[Floats, Floats]:
    """Memory asked for and used, KiB per processor; NaN: unknown.

    The largest task's memory counts for each processor: more than that the job cannot have used. A job that ran out of
    memory would have used more than was measured.
    """
    used, task = _positive(held, "used_mem_kib"), _positive(held, "max_rss_kib")
    has_failed = pc.fill_null(pc.equal(held["state"].cast(pa.string()), "OUT_OF_MEMORY"), False).to_numpy()
    used = np.where(has_failed, np.nan, np.where(np.isnan(used), task, used))
    return _positive(held, "requested_mem_kib"), used


def _codes(held: pa.Table) -> Iterator[tuple[str, Ints, list[str | None]]]:
    """Per kind a code per job from 0, and the name of each code; jobs without a name have the last one."""
    for kind in KINDS:
        if kind == "all":
            yield kind, np.zeros(held.num_rows, np.int64), [None]
        else:
            codes, names = category_codes(held, kind)
            yield kind, np.where(codes < 0, len(names), codes), [*names, None]


@dataclass(slots=True)
class Sums:
    """Sums of measures by row, added a part of the jobs at a time."""

    names: tuple[str, ...] = ()
    of: dict[Row, list[tuple[float, float]]] = field(default_factory=dict)
    """Per measure the sum of the known values, and their number."""

    def add(self, held: pa.Table, measures: Measures) -> None:
        """Add the jobs of a part."""
        self.names = tuple(measures)
        for kind, codes, names in _codes(held):
            there = np.flatnonzero(np.bincount(codes, minlength=len(names)))
            sums = [
                (np.bincount(codes, np.nan_to_num(values), len(names)), np.bincount(codes, _one(values), len(names)))
                for values in measures.values()
            ]
            for code in there:
                new = [(float(value[code]), float(n[code])) for value, n in sums]
                old = self.of.get((kind, names[code]), [(0.0, 0.0)] * len(new))
                self.of[kind, names[code]] = [(a + c, b + d) for (a, b), (c, d) in zip(old, new, strict=True)]


@dataclass(slots=True)
class Asked:
    """How many jobs that asked for an amount needed how much, by row; memory grows with the distinct amounts."""

    of: dict[Row, dict[float, dict[float, list[float]]]] = field(default_factory=dict)
    """By row, amount asked for and amount needed: the number of jobs, and what they left unused."""

    def add(self, held: pa.Table, asked: Floats, needed: Floats, unused: Floats) -> None:
        """Add the jobs of a part; those with NaN in any of the three count for nothing."""
        known = np.flatnonzero(np.isfinite(asked) & np.isfinite(needed) & np.isfinite(unused))
        for kind, codes, names in _codes(held):
            place = row_codes(codes[known], asked[known], needed[known])
            counts, hours = np.bincount(place), np.bincount(place, unused[known])
            first = np.zeros(len(counts), np.int64)
            first[place[::-1]] = known[::-1]
            rows = zip(
                *(values.tolist() for values in (codes[first], asked[first], needed[first], counts, hours)), strict=True
            )
            for code, amount, need, n, left in rows:
                one = self.of.setdefault((kind, names[code]), {}).setdefault(amount, {}).setdefault(need, [0, 0.0])
                one[0] += n
                one[1] += left

    def instead(self, row: Row, most: float) -> tuple[float | None, float | None, int | None, float | None]:
        """The amount that left most unused, what to ask for instead, and the jobs and share of jobs it rests on.

        None where nothing was unused, and for all but the first where what was needed is over `most` of it. The share
        is the chance that a further such job needs no more, if it is like these: rank over their number plus one.
        """
        amounts = self.of.get(row, {})
        wasted = {amount: sum(hours for _, hours in needs.values()) for amount, needs in amounts.items()}
        usual = max(sorted(wasted), key=lambda amount: wasted[amount], default=None)
        if usual is None or not wasted[usual] > 0:
            return None, None, None, None
        needs = sorted(amounts[usual])
        until = np.cumsum([amounts[usual][need][0] for need in needs])
        n_jobs = int(until[-1])
        first = int(np.searchsorted(until, min(np.ceil(SHARE * (n_jobs + 1)), n_jobs)))
        if needs[first] > most * usual or needs[first] >= usual:
            return usual, None, None, None
        return usual, needs[first], n_jobs, float(until[first]) / (n_jobs + 1)


def _add_asked(asked: Mapping[str, Asked], held: pa.Table, measures: Measures) -> None:
    procs, runtime_s = job_procs(held), floats(held, "runtime_s")
    busy = procs * _cpu_s(held) / runtime_s
    asked["procs"].add(held, procs, np.maximum(np.ceil(busy - MOST_IDLE), 1.0), measures["unused_proc_hours"])
    asked_kib, used_kib = _memory(held)
    asked["mem"].add(held, asked_kib, rounded_up(used_kib), measures["unused_gib_hours"])


def rounded_up(values: Floats) -> Floats:
    """The next multiple of a 16th of the power of two below, so that many values have few distinct ones."""
    step = 2.0 ** (np.floor(np.log2(values)) - 4)
    return np.asarray(np.ceil(values / step) * step, np.float64)


def _order(key: Row, found: Sums) -> tuple[int, float, float, bool, str]:
    unused, held = (found.of[key][found.names.index(name)][0] for name in ("unused_proc_hours", "proc_hours"))
    return KINDS.index(key[0]), -unused, -held, key[1] is None, key[1] or ""


def _row(key: Row, found: Sums, asked: Mapping[str, Asked]) -> dict[str, Any]:
    kind, name = key
    procs, ask_procs, n_procs, procs_share = asked["procs"].instead(key, LESS)
    mem, ask_mem, n_mem, mem_share = asked["mem"].instead(key, 1.0)
    return {
        "kind": kind,
        "name": name,
        **{one: _number(one, value, n) for one, (value, n) in zip(found.names, found.of[key], strict=True)},
        "usual_procs": _whole(procs),
        "ask_procs": _whole(ask_procs),
        "n_ask_procs": n_procs,
        "ask_procs_share": procs_share,
        "usual_mem_kib": mem,
        "ask_mem_kib": ask_mem,
        "n_ask_mem": n_mem,
        "ask_mem_share": mem_share,
    }


def _number(name: str, value: float, n: float) -> float | int | None:
    if name.startswith("n_"):
        return int(value)
    return value if n else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
