"""Makes jobs of the rows of a table: each column typed, and what others tell filled in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats, Ints, arrow
from pipeline.ingest import spans
from pipeline.ingest.formats.table import values
from pipeline.ingest.formats.table.column_map import CATEGORIES, COUNTS, INSTANTS, MEMORY, TEXTS, MappedColumns
from pipeline.ingest.formats.table.units import Units
from pipeline.ingest.reader import (
    JOB,
    NODE,
    PROCESSOR,
    Remarks,
    categories,
    constant,
    jobs_table,
    positive,
    real,
    requested_memory,
    whole,
)
from pipeline.ingest.sources import Source
from pipeline.ingest.spans import Typed
from pipeline.ingest.spans.kernels import Bytes
from pipeline.settings import IngestSettings, SiteSettings

REASONS = (
    "not_a_time", "not_a_duration", "not_a_number", "not_a_memory_size", "no_job_id", "number_of_values", "not_json",
    "no_line_end",
)  # fmt: skip
_CODE = {reason: code for code, reason in enumerate(REASONS, 1)}
SLURM_NUMBERS = "MIT Supercloud"
"""The public set whose states are the numbers of slurm.h."""

LOCAL, SIZES, MISSING = "local times", "sizes ", "missing "
COSTS = {
    "job_id": "no column has a job's id: the number of its row and its file's name are one",
    "submit_s": "no column has the time of submit: cleaning sets the jobs aside (impossible_times)",
    "user": "no column has users: jobs of different users are not told apart",
    "requested_s": "no column has the time that users asked for: estimates, limits and replays do without requests",
    "state": "no column has a state: which jobs failed or were cancelled is unknown",
}
"""What is said of a table that does not tell this."""

_PER = {"processor": PROCESSOR, "node": NODE, "job": JOB}


@dataclass(slots=True)
class Rows:
    """Some rows of a table, asked for by target; a value that cannot be read marks its row in `bad`.

    bad: 0, or the place of the first reason met in REASONS, from 1.
    """

    table: pa.Table
    mapped: MappedColumns
    units: Units
    site: SiteSettings
    settings: IngestSettings
    remarks: Remarks
    bad: Bytes = field(init=False)

    def __post_init__(self) -> None:
        self.bad = np.zeros(self.table.num_rows, np.uint8)

    def has(self, target: str) -> bool:
        """Whether a column tells this."""
        return target in self.mapped.columns

    def array(self, target: str) -> pa.Array:
        """The values as they came."""
        return values.plain(self.table[self.mapped.columns[target].column])

    def instants(self, target: str) -> Floats:
        """UTC s since 1970, NaN where unknown."""
        if not self.has(target):
            return self._unknown()
        zone = self.mapped.columns[target].timezone or self.site.timezone
        found, n_local = values.instants(
            self.array(target), self.units.factors[target] or 1.0, zone, day_first=self.settings.day_first,
            zero_is_known=self.units.has_relative_times,
        )  # fmt: skip
        self.remarks[f"{LOCAL} {zone}"] += n_local
        return self._marked(found, "not_a_time")

    def durations(self, target: str) -> Floats:
        """Seconds (of energy: J), NaN where unknown."""
        return self._read(target, values.durations, "not_a_duration")

    def exit_codes(self, target: str) -> Floats:
        """Codes, NaN where unknown."""
        return self._read(target, lambda array, _: values.exit_codes(array), "not_a_number")

    def counts(self, target: str) -> Floats:
        """Whole numbers, rounded up, as a part of a GPU keeps it from others; NaN where unknown."""
        found = self._read(target, values.gpus if target == "gpus" else values.counts, "not_a_number")
        times = self.mapped.columns[target].times if self.has(target) else None
        if times is not None:
            found = found * self._marked(values.numbers(values.plain(self.table[times])), "not_a_number")
        return np.ceil(found - 1e-9)

    def memory(self, target: str, procs: Floats, nodes: Floats) -> tuple[Floats, Floats, Bytes]:
        """KiB per processor (of max_rss_kib: as it stands), the amount as written, and what that is counted per."""
        if not self.has(target):
            return self._unknown(), self._unknown(), np.zeros(self.table.num_rows, np.uint8)
        column = self.mapped.columns[target]
        found = values.memory(self.array(target), self.units.factors[target])
        kib = self._marked(found, "not_a_memory_size")
        usual = PROCESSOR if column.column == target else JOB
        per = np.full(len(kib), _PER[column.per] if column.per else usual, np.uint8)
        per[found.per == spans.PER_CPU], per[found.per == spans.PER_NODE] = PROCESSOR, NODE
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.select([per == PROCESSOR, per == NODE], [kib, kib * nodes / procs], kib / procs)
        return np.where(np.isfinite(own), own, np.nan), kib, per

    def _read(self, target: str, reading: Callable[[pa.Array, float], Typed], reason: str) -> Floats:
        if not self.has(target):
            return self._unknown()
        return self._marked(reading(self.array(target), self.units.factors[target] or 1.0), reason)

    def _marked(self, read: Typed, reason: str) -> Floats:
        self.bad[read.invalid & (self.bad == 0)] = _CODE[reason]
        return read.floats()

    def _unknown(self) -> Floats:
        return np.full(self.table.num_rows, np.nan)


def jobs_of_rows(rows: Rows, source: Source, line: Ints) -> pa.Table:
    """JOBS and EXTRAS of the rows that can be read; `bad` tells the others."""
    n = rows.table.num_rows
    rows.remarks.update({f"{MISSING}{name}": n for name in COSTS if not rows.has(name)})
    typed = _times(rows) | _sizes(rows) | _texts(rows, source, line)
    if rows.has("energy_j"):
        typed["energy_j"] = real(rows.durations("energy_j"))
    typed |= {
        "site": constant(rows.site.name, n),
        "restart": arrow(np.zeros(n, np.int64)),
        "source_file": constant(source.label, n),
        "source_line": arrow(line),
    }
    jobs = jobs_table(n, **typed)
    return jobs.filter(arrow(rows.bad == 0)) if rows.bad.any() else jobs


def _times(rows: Rows) -> dict[str, pa.Array]:
    """Instants, runtime and suspension; of start, end and runtime two tell the third, and a wait tells the start."""
    at = {name: rows.instants(name) for name in INSTANTS}
    took = {name: rows.durations(name) for name in ("runtime_s", "suspended_s", "requested_s", "wait_s")}
    runtime_s, idle_s = took["runtime_s"], np.nan_to_num(took["suspended_s"])
    start_s = _first_known(at["start_s"], at["submit_s"] + took["wait_s"], at["end_s"] - runtime_s - idle_s)
    end_s = _first_known(at["end_s"], start_s + runtime_s + idle_s)
    between_s = end_s - start_s - idle_s
    runtime_s = _first_known(runtime_s, np.where(between_s >= 0, between_s, np.nan))
    instants = at | {"start_s": start_s, "end_s": end_s}
    return {name: whole(np.floor(found)) for name, found in instants.items()} | {
        "runtime_s": real(runtime_s),
        "suspended_s": real(took["suspended_s"]),
        "requested_s": real(np.where(took["requested_s"] > 0, took["requested_s"], np.nan)),
    }


def _sizes(rows: Rows) -> dict[str, pa.Array]:
    """Counts, and memory and processor time per processor."""
    number = {name: rows.counts(name) for name in COUNTS}
    number["procs"] = _procs(rows, number)
    procs = _first_known(positive(number["procs"]), positive(number["requested_procs"]))
    nodes = _first_known(positive(number["nodes"]), positive(number["requested_nodes"]))
    found = {name: whole(one) for name, one in number.items()}
    found |= {name: whole(rows.exit_codes(name)) for name in ("exit_code", "derived_exit_code")}
    for name in MEMORY[:2]:
        own, typed, per = rows.memory(name, procs, nodes)
        found[name] = real(own)
        if name == "requested_mem_kib" and rows.has(name):
            found["requested_memory"] = requested_memory(typed, per.astype(np.int8))
    found["max_rss_kib"] = real(rows.memory("max_rss_kib", procs, nodes)[1])
    is_own = rows.has("cpu_s") and rows.mapped.columns["cpu_s"].column == "cpu_s"
    found["cpu_s"] = real(rows.durations("cpu_s") / (1.0 if is_own else procs))
    return found


def _procs(rows: Rows, number: Mapping[str, Floats]) -> Floats:
    """Processors; in a table without them, what it counts instead, which is said."""
    if rows.has("procs") or rows.has("requested_procs"):
        return number["procs"]
    nodes = number["nodes"] if rows.has("nodes") else number["requested_nodes"]
    if rows.has("nodes") or rows.has("requested_nodes"):
        per_node = rows.site.procs_per_node
        rows.remarks[f"{SIZES}{'nodes' if per_node is None else 'procs_per_node'}"] += len(nodes)
        return nodes * (per_node or 1)
    rows.remarks[f"{SIZES}{'gpus' if rows.has('gpus') else 'none'}"] += len(nodes)
    return number["gpus"]


def _texts(rows: Rows, source: Source, line: Ints) -> dict[str, pa.Array]:
    """Names, ids and free texts. Where no column has an id, a row's place and its file's name are one."""
    found: dict[str, pa.Array] = {}
    for name in (name for name in CATEGORIES if rows.has(name) and name != "state"):
        found[name] = categories(values.as_texts(rows.array(name)), str)
    for name in (name for name in TEXTS if rows.has(name)):
        found[name] = values.as_texts(rows.array(name))
    if rows.has("state"):
        are_slurms = rows.mapped.known_by["state"] == SLURM_NUMBERS
        found["state"] = values.states(rows.array("state"), are_slurms=are_slurms)
    if rows.has("job_id"):
        missing = found["job_id"].is_null().to_numpy(zero_copy_only=False)
        rows.bad[missing & (rows.bad == 0)] = _CODE["no_job_id"]
    else:
        found["job_id"] = pc.binary_join_element_wise(arrow(line).cast(pa.string()), f"@{source.label}", "")
    return found


def _first_known(*told: Floats) -> Floats:
    found = told[0]
    for other in told[1:]:
        found = np.where(np.isnan(found), other, found)
    return found
