"""Makes jobs of the rows of a table: each column typed, and what others tell filled in."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats, Ints, arrow
from pipeline.ingest.formats.table import guesses, values
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
from pipeline.ingest.values import PER_CPU, PER_NODE, Bytes, Memory, Typed
from pipeline.settings import SiteSettings

REASONS = (
    "not_a_time", "not_a_duration", "not_a_number", "not_a_memory_size", "no_job_id", "number_of_values", "not_json",
    "no_line_end",
)  # fmt: skip
_CODE = {reason: code for code, reason in enumerate(REASONS, 1)}
_REASON = {
    **dict.fromkeys(guesses.INSTANTS, "not_a_time"),
    **dict.fromkeys((*guesses.DURATIONS, "energy_j"), "not_a_duration"),
    **dict.fromkeys(guesses.MEMORY, "not_a_memory_size"),
}

LOCAL, SIZES, MISSING, PARTS = "local times", "sizes ", "missing ", "parts "
COSTS = {
    "job_id": "no column has a job's id: the number of its row and its file's name are one",
    "submit_s": "no column has the time of submit: each job's start stands in for it, so that no job waits",
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
    columns: Mapping[str, guesses.Column]
    site: SiteSettings
    remarks: Remarks
    bad: Bytes = field(init=False)

    def __post_init__(self) -> None:
        self.bad = np.zeros(self.table.num_rows, np.uint8)

    def has(self, target: str) -> bool:
        """Whether a column tells this."""
        return target in self.columns

    def array(self, target: str) -> pa.Array:
        """The values as they came."""
        return self.columns[target].array(self.table)

    def typed(self, target: str) -> Typed:
        """The values in the unit of JOBS; all are unknown where no column tells them."""
        n = self.table.num_rows
        if not self.has(target):
            return Typed(np.full(n, np.nan), np.ones(n, np.bool_), np.zeros(n, np.bool_))
        found = self.columns[target].typed(self.table)
        if isinstance(found, values.Timed):
            self.remarks[f"{LOCAL} {self.columns[target].zone}"] += found.n_local
        return self._marked(found, _REASON.get(target, "not_a_number"))

    def floats(self, target: str) -> Floats:
        """The same, NaN where unknown."""
        return self.typed(target).floats()

    def counts(self, target: str) -> Floats:
        """Whole numbers, rounded up, as a part of a GPU keeps it from others, which is said; NaN where unknown."""
        found = self.floats(target)
        times = self.columns[target].said.times if self.has(target) else None
        if times is not None:
            found = found * self._marked(values.numbers(values.plain(self.table[times])), "not_a_number").floats()
        up = np.ceil(found - 1e-9)
        self.remarks[f"{PARTS}{target}"] += int(np.count_nonzero(up - found > 1e-6))
        return up

    def memory(self, target: str, procs: Floats, nodes: Floats) -> tuple[Floats, Floats, Bytes]:
        """KiB per processor (of max_rss_kib: as it stands), the amount as written, and what that is counted per."""
        typed = self.typed(target)
        kib, said = typed.floats(), self.columns[target].said if self.has(target) else None
        usual = PROCESSOR if said is None or said.column == target else JOB
        per = np.full(len(kib), _PER[said.per] if said and said.per else usual, np.uint8)
        if isinstance(typed, Memory):
            per[typed.per == PER_CPU], per[typed.per == PER_NODE] = PROCESSOR, NODE
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.select([per == PROCESSOR, per == NODE], [kib, kib * nodes / procs], kib / procs)
        return np.where(np.isfinite(own), own, np.nan), kib, per

    def _marked(self, read: Typed, reason: str) -> Typed:
        self.bad[read.invalid & (self.bad == 0)] = _CODE[reason]
        return read


def jobs_of_rows(rows: Rows, source: Source, line: Ints) -> pa.Table:
    """JOBS and EXTRAS of the rows that can be read; `bad` tells the others."""
    n = rows.table.num_rows
    rows.remarks.update({f"{MISSING}{name}": n for name in COSTS if not rows.has(name)})
    typed = _times(rows) | _sizes(rows) | _texts(rows, source, line)
    if rows.has("energy_j"):
        typed["energy_j"] = real(rows.floats("energy_j"))
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
    at = {name: rows.floats(name) for name in guesses.INSTANTS}
    took = {name: rows.floats(name) for name in guesses.DURATIONS if name != "cpu_s"}
    runtime_s, idle_s = took["runtime_s"], np.nan_to_num(took["suspended_s"])
    start_s = _first_known(at["start_s"], at["submit_s"] + took["wait_s"], at["end_s"] - runtime_s - idle_s)
    end_s = _first_known(at["end_s"], start_s + runtime_s + idle_s)
    between_s = end_s - start_s - idle_s
    runtime_s = _first_known(runtime_s, np.where(between_s >= 0, between_s, np.nan))
    submit_s = at["submit_s"] if rows.has("submit_s") else start_s
    instants = at | {"submit_s": submit_s, "start_s": start_s, "end_s": end_s}
    return {name: whole(np.floor(found)) for name, found in instants.items()} | {
        "runtime_s": real(runtime_s),
        "suspended_s": real(took["suspended_s"]),
        "requested_s": real(positive(took["requested_s"])),
    }


def _sizes(rows: Rows) -> dict[str, pa.Array]:
    """Counts, and memory and processor time per processor."""
    number = {name: rows.counts(name) for name in guesses.COUNTS}
    number["procs"] = _procs(rows, number)
    procs = _first_known(positive(number["procs"]), positive(number["requested_procs"]))
    nodes = _first_known(positive(number["nodes"]), positive(number["requested_nodes"]))
    found = {name: whole(one) for name, one in number.items()}
    found |= {name: whole(rows.floats(name)) for name in guesses.EXIT_CODES}
    for name in guesses.MEMORY[:2]:
        own, typed, per = rows.memory(name, procs, nodes)
        if name == "requested_mem_kib":
            # A request of 0 is one for all memory of a node.
            own, typed = positive(own), positive(typed)
        found[name] = real(own)
        if name == "requested_mem_kib" and rows.has(name):
            found["requested_memory"] = requested_memory(typed, per.astype(np.int8))
    found["max_rss_kib"] = real(rows.memory("max_rss_kib", procs, nodes)[1])
    is_own = rows.has("cpu_s") and rows.columns["cpu_s"].said.column == "cpu_s"
    found["cpu_s"] = real(rows.floats("cpu_s") / (1.0 if is_own else procs))
    return found


def _procs(rows: Rows, number: Mapping[str, Floats]) -> Floats:
    """Processors; in a row without them its nodes or else its GPUs, which is said with how many rows."""
    procs, per_node = number["procs"], rows.site.procs_per_node
    nodes = _first_known(positive(number["nodes"]), positive(number["requested_nodes"]))
    lacks = ~(procs > 0) & ~(number["requested_procs"] > 0)
    kinds = {
        "nodes" if per_node is None else "procs_per_node": lacks & (nodes > 0),
        "gpus": lacks & ~(nodes > 0) & (number["gpus"] > 0),
        "none": lacks & ~(nodes > 0) & ~(number["gpus"] > 0),
    }
    rows.remarks.update({f"{SIZES}{name}": int(np.count_nonzero(of_kind)) for name, of_kind in kinds.items()})
    return np.select(list(kinds.values()), [nodes * (per_node or 1), number["gpus"], procs], procs)


def _texts(rows: Rows, source: Source, line: Ints) -> dict[str, pa.Array]:
    """Names, ids and free texts. Where no column has an id, a row's place and its file's name are one."""
    found: dict[str, pa.Array] = {}
    for name in (name for name in guesses.CATEGORIES if rows.has(name) and name != "state"):
        # ClusterCockpit and slurmdbd give a job that is in no array the array 0.
        found[name] = categories(values.as_texts(rows.array(name)), _array_of if name == "array_id" else str)
    for name in (name for name in guesses.TEXTS if rows.has(name)):
        found[name] = values.as_texts(rows.array(name))
    if rows.has("state"):
        are_slurms = rows.columns["state"].said.unit == guesses.SLURM
        found["state"] = _states(rows.array("state"), are_slurms=are_slurms)
    if rows.has("job_id"):
        missing = found["job_id"].is_null().to_numpy(zero_copy_only=False)
        rows.bad[missing & (rows.bad == 0)] = _CODE["no_job_id"]
    else:
        found["job_id"] = pc.binary_join_element_wise(arrow(line).cast(pa.string()), f"@{source.label}", "")
    return found


def _states(array: pa.Array, *, are_slurms: bool) -> pa.Array:
    """Categories in Slurm's terms where a word maps to one, else the word; are_slurms: numbers are slurmdbd's."""
    data = guesses.known_names()
    known: dict[str, str] = {word: state for state, words in data["states"].items() for word in words.split()}
    known |= {str(number): state for number, state in enumerate(data["slurm_states"] if are_slurms else ())}

    def term(word: str) -> str:
        found = re.sub(r" by \S+$", "", word.strip())
        return known.get(found.lower().replace(" ", "_"), found)

    return categories(values.as_texts(array), term)


def _array_of(word: str) -> str | None:
    return None if word == "0" else word


def _first_known(*told: Floats) -> Floats:
    found = told[0]
    for other in told[1:]:
        found = np.where(np.isnan(found), other, found)
    return found
