"""PBS records as typed columns: what each value means, and which of two ways to say a thing counts."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, Ints, arrow
from pipeline.ingest import spans
from pipeline.ingest.formats.pbs import records
from pipeline.ingest.formats.pbs.records import OFF_S, Times, damage_of, record_dates
from pipeline.ingest.formats.pbs.scan import DATE_BYTES, KINDS, REASONS, Scanned
from pipeline.ingest.reader import JOB, NODE, Remarks, constant, requested_memory
from pipeline.ingest.spans.kernels import INVALID, OK, Bytes
from pipeline.tables import JOBS

_FILLED = (
    "job_id", "user", "user_group", "account", "queue", "job_name", "submit_s", "eligible_s", "start_s", "end_s",
    "procs", "nodes", "gpus", "runtime_s", "requested_procs", "requested_nodes", "requested_s", "requested_mem_kib",
    "requested_memory", "used_mem_kib", "cpu_s", "state", "exit_code", "array_id", "source_file", "source_line",
)  # fmt: skip
PARTS = pa.schema(
    [pa.field("kind", pa.int8()), pa.field("record_s", pa.int64()), *(JOBS.schema().field(name) for name in _FILLED)]
)
"""One record a row. kind: its type, an index into pbs_scan.KINDS; record_s: when it was written, by its own date."""

DEFAULT_PROJECT = "_pbs_project_default"
_FIRST_S, _LAST_S = 662_688_000, 1 << 33
"""PBS was first written in 1991: an instant before it has lost digits."""
_PBS_ONLY = ("exec_vnode", "project", "run_count", "Resource_List.select")
_SUBJOB = r"^(\d+)\[\d+\]"


@dataclass(frozen=True, slots=True)
class Typed:
    """parts: the records that can be read. bad: the others, (n, 4): line, start, end, reason (1 + index into REASONS).

    remarks: values left unknown, records whose date is not their instant (by a quarter of an hour and more).
    """

    parts: pa.Table
    bad: Ints
    remarks: Remarks


@dataclass(frozen=True, slots=True)
class _Known:
    """Numbers, and where there is one."""

    values: Ints | Floats
    has: Bools
    is_odd: Bools

    def arrow(self) -> pa.Array:
        return arrow(self.values, ~self.has)

    def times(self) -> Times:
        return Times(self.values.astype(np.int64), ~self.has, np.zeros(len(self.values), np.int64))

    def with_values(self, values: Ints) -> "_Known":
        return _Known(values, self.has, self.is_odd)


def typed(scanned: Scanned, label: str, first_line: int, timezone: str, *, takes_last: bool = True) -> Typed:
    """A block's records as PARTS. ConfigError for a zone that is not known.

    takes_last: whether a last record whose line has no end is read.
    """
    written = spans.instants_s(scanned.data, scanned.start, scanned.start + DATE_BYTES, timezone)
    instants = {name: _instant(scanned, name) for name in ("ctime", "etime", "start", "end")}
    status = _integer(scanned, "Exit_status")
    is_bad = np.logical_or.reduce([instants[name].is_odd for name in ("ctime", "start", "end")]) | status.is_odd
    is_closed = instants["end"].has & status.has
    damage = damage_of(scanned, is_bad, instants["start"].has, is_closed, takes_last=takes_last)
    reason = np.where(written.invalid, REASONS.index("bad_date") + 1, damage)
    is_bad = reason > 0
    fields = _Fields(scanned)
    dates_s, remarks = record_dates(
        written, scanned.kind, {name: known.times() for name, known in instants.items()}, fields.used_s(), ~is_bad
    )
    n_rows = len(scanned.line)
    columns = {
        "kind": arrow(scanned.kind.astype(np.int8)),
        "record_s": arrow(dates_s),
        "submit_s": instants["ctime"].arrow(),
        "eligible_s": instants["etime"].arrow(),
        "start_s": instants["start"].arrow(),
        "end_s": instants["end"].arrow(),
        "exit_code": status.arrow(),
        "source_file": constant(label, n_rows),
        "source_line": arrow(scanned.line + first_line),
        **fields.words(),
        **fields.numbers(),
    }
    code = status.values.astype(np.int64)
    state = records.state_codes(scanned.kind, code, status.has, fields.is_torque(), fields.is_over())
    columns["state"] = records.state_categories(state)
    parts = pa.table([columns[name] for name in PARTS.names], schema=PARTS)
    remarks += _remarks(scanned, dates_s, instants, ~is_bad)
    remarks["odd_values"] += fields.n_odd + int(np.count_nonzero(instants["etime"].is_odd))
    bad = np.column_stack([scanned.line, scanned.start, scanned.end, reason])[is_bad]
    return Typed(parts.filter(arrow(~is_bad)) if is_bad.any() else parts, bad, remarks)


class _Fields:
    """The values of a block's records, asked for by meaning; n_odd grows by those that are no value of their kind."""

    def __init__(self, scanned: Scanned) -> None:
        self.n_odd = 0
        self._scanned = scanned
        self._used_s = self._duration("resources_used.walltime")
        self._asked_s = self._duration("Resource_List.walltime")

    def is_torque(self) -> Bools:
        """Whether a record has none of the keys that only PBS Pro and OpenPBS write."""
        is_pbs: Bools = np.logical_or.reduce([self._is_there(key) for key in _PBS_ONLY])
        return ~is_pbs

    def is_over(self) -> Bools:
        """Whether a record has more walltime used than requested."""
        over: Bools = self._used_s.has & self._asked_s.has & (self._used_s.values > self._asked_s.values)
        return over

    def used_s(self) -> Floats:
        """Seconds of walltime used; NaN where a record has none."""
        return np.where(self._used_s.has, self._used_s.values, np.nan)

    def words(self) -> dict[str, pa.Array]:
        """Ids and names. An account is the one charged, else the project where it is not PBS's default."""
        data = self._scanned.data
        job_id = spans.texts(data, self._scanned.id_start, self._scanned.id_end)
        account, project = self._scanned.span("account"), self._scanned.span("project")
        has_account = self._is_there("account")
        charged = [np.where(has_account, own, other) for own, other in zip(account, project, strict=True)]
        return {
            "job_id": job_id,
            "array_id": _array_ids(job_id),
            "user": self._category("user"),
            "user_group": self._category("group"),
            "queue": self._category("queue"),
            "account": _without(spans.category(data, *charged), DEFAULT_PROJECT),
            "job_name": spans.texts(data, *self._scanned.span("jobname")),
        }

    def numbers(self) -> dict[str, pa.Array]:
        """Counts, durations and memory; what is per job in the log is shared out over its processors."""
        procs, nodes, gpus, requested, n_chunks = self._counts()
        cpu = self._duration("resources_used.cput")
        sizes = {name: self._size(f"Resource_List.{name}") for name in ("mem", "pmem", "vmem", "pvmem")}
        mem, used = _mem_per_processor(sizes, requested), self._size("resources_used.mem")
        n_nodes = self._number("Resource_List.nodect")
        return {
            "procs": procs.arrow(),
            "nodes": nodes.arrow(),
            "gpus": gpus.arrow(),
            "requested_procs": requested.arrow(),
            "requested_nodes": _first(n_nodes, n_chunks).arrow(),
            "requested_s": self._asked_s.arrow(),
            "requested_mem_kib": mem.arrow(),
            "requested_memory": self._typed_mem(sizes),
            "runtime_s": self._used_s.arrow(),
            "cpu_s": _shared(cpu, _first(procs, requested)).arrow(),
            "used_mem_kib": _shared(used, _first(procs, requested)).arrow(),
        }

    def _counts(self) -> tuple[_Known, _Known, _Known, _Known, _Known]:
        """Processors, nodes and GPUs a job has; processors and chunks it asks for."""
        read = self._scanned.values
        host_procs, host_nodes, kinds = read.hosts("exec_host")
        on_hosts = self._known(host_procs, kinds, "exec_host")
        vnode_procs, vnode_gpus, vnodes, kinds = read.chunks("exec_vnode")
        on_vnodes = _Known(vnode_procs, kinds == OK, np.zeros(len(kinds), np.bool_))
        select_procs, select_gpus, n_select, kinds = read.chunks("Resource_List.select")
        select = self._known(select_procs, kinds, "Resource_List.select")
        node_procs, node_gpus, n_nodes, kinds = read.chunks("Resource_List.nodes")
        by_nodes = self._known(node_procs, kinds, "Resource_List.nodes")
        procs = _first(on_vnodes, on_hosts, self._number("resource_assigned.ncpus"))
        requested = _first(select, by_nodes, self._number("Resource_List.procs"), self._number("Resource_List.ncpus"))
        cards, _, kinds = read.hosts("exec_gpus")
        is_placed = self._is_there("exec_host") | self._is_there("exec_vnode")
        asked = _first(
            self._number("Resource_List.ngpus"), _positive(select_gpus, select.has), _positive(node_gpus, by_nodes.has)
        )
        gpus = _first(
            _positive(vnode_gpus, on_vnodes.has),
            _positive(cards, kinds == OK),
            _Known(asked.values, asked.has & is_placed, asked.is_odd),
        )
        nodes = _first(on_hosts.with_values(host_nodes), on_vnodes.with_values(vnodes))
        n_chunks = _first(select.with_values(n_select), by_nodes.with_values(n_nodes))
        return procs, nodes, gpus, requested, n_chunks

    def _typed_mem(self, sizes: Mapping[str, _Known]) -> pa.DictionaryArray:
        """Memory as typed: of a process, of a chunk where chunks were selected, else of the job.

        OpenPBS adds up the memory of a selection's chunks; divided by their number it is what was typed for each.
        """
        *_, n_chunks, kinds = self._scanned.values.chunks("Resource_List.select")
        chunked = (kinds == OK) & (n_chunks > 0)
        of_job = np.where(chunked, NODE, JOB)
        by_name = {"mem": of_job, "pmem": np.zeros_like(of_job), "vmem": of_job, "pvmem": np.zeros_like(of_job)}
        kib, per = np.full(len(kinds), np.nan), np.zeros(len(kinds), np.int8)
        for name, size in sizes.items():
            first = size.has & np.isnan(kib)
            kib[first], per[first] = size.values[first], by_name[name][first]
        return requested_memory(np.where(per == NODE, kib / np.maximum(n_chunks, 1), kib), per)

    def _is_there(self, key: str) -> Bools:
        low, high = self._scanned.span(key)
        there: Bools = high > low
        return there

    def _category(self, key: str) -> pa.DictionaryArray:
        return spans.category(self._scanned.data, *self._scanned.span(key))

    def _known(self, values: Ints | Floats, kinds: Bytes, key: str) -> _Known:
        has = kinds == OK
        is_odd = self._is_there(key) & ~has
        self.n_odd += int(np.count_nonzero(is_odd))
        return _Known(values, has, is_odd)

    def _number(self, key: str) -> _Known:
        found = _integer(self._scanned, key)
        self.n_odd += int(np.count_nonzero(found.is_odd))
        return found

    def _duration(self, key: str) -> _Known:
        values, kinds = self._scanned.values.durations_s(key)
        is_odd = (kinds == INVALID) | ((kinds == OK) & (values < 0))
        self.n_odd += int(np.count_nonzero(is_odd))
        return _Known(values, (kinds == OK) & ~is_odd, is_odd)

    def _size(self, key: str) -> _Known:
        return self._known(*self._scanned.values.sizes_kib(key), key)


def _integer(scanned: Scanned, key: str) -> _Known:
    values, kinds = scanned.values.integers(key)
    return _Known(values, kinds == OK, kinds == INVALID)


def _instant(scanned: Scanned, key: str) -> _Known:
    """Epoch seconds; 0 is PBS's word for not yet."""
    found = _integer(scanned, key)
    is_outside = (found.values < _FIRST_S) | (found.values >= _LAST_S)
    is_odd = found.is_odd | (found.has & is_outside & (found.values != 0))
    return _Known(found.values, found.has & ~is_odd & (found.values > 0), is_odd)


def _first(*known: _Known) -> _Known:
    """Of several ways to say one thing the first that a record has."""
    values, has = known[0].values, known[0].has
    for other in known[1:]:
        values, has = np.where(has, values, other.values), has | other.has
    return _Known(values, has, np.zeros(len(has), np.bool_))


def _positive(values: Ints, has: Bools) -> _Known:
    return _Known(values, has & (values > 0), np.zeros(len(has), np.bool_))


def _mem_per_processor(sizes: Mapping[str, _Known], procs: _Known) -> _Known:
    """KiB per processor: of the job's memory, else of a process, else of virtual memory in the same order."""
    return _first(_shared(sizes["mem"], procs), sizes["pmem"], _shared(sizes["vmem"], procs), sizes["pvmem"])


def _shared(whole: _Known, procs: _Known) -> _Known:
    """A job's amount per processor; unknown where the processors are."""
    has = whole.has & procs.has & (procs.values > 0)
    return _Known(whole.values / np.where(has, procs.values, 1), has, whole.is_odd)


def _array_ids(job_id: pa.StringArray) -> pa.Array:
    """The id of the array of `170[3].server`, which is `170[].server`; null for a job that is in none."""
    if not pc.any(pc.match_substring(job_id, "[")).as_py():
        return pa.nulls(len(job_id), PARTS.field("array_id").type)
    array = pc.replace_substring_regex(job_id, _SUBJOB, r"\1[]")
    is_in_one = pc.match_substring_regex(job_id, _SUBJOB)
    return pc.if_else(is_in_one, array, pa.scalar(None, pa.string())).dictionary_encode()


def _without(column: pa.DictionaryArray, word: str) -> pa.DictionaryArray:
    """The categories with one of them made null."""
    if not len(column.dictionary) or word not in column.dictionary.to_pylist():
        return column
    place = column.dictionary.to_pylist().index(word)
    indices = pc.if_else(pc.equal(column.indices, place), pa.scalar(None, pa.int32()), column.indices)
    return pa.DictionaryArray.from_arrays(indices, column.dictionary)


def _remarks(scanned: Scanned, written: Ints, instants: dict[str, _Known], good: Bools) -> Remarks:
    """How many records there are of each type, and how many of those with an instant have another date."""
    event = _first(instants["end"], instants["start"])
    dated = good & event.has & np.isin(scanned.kind, [KINDS.index("S"), KINDS.index("E")])
    off = dated & (np.abs(written - event.values) >= OFF_S)
    counts = np.bincount(scanned.kind[good], minlength=len(KINDS))
    remarks = Remarks({f"records_{letter}": int(n) for letter, n in zip(KINDS, counts, strict=True)})
    return remarks + Remarks(dated=int(np.count_nonzero(dated)), dated_off=int(np.count_nonzero(off)))
