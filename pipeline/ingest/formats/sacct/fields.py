"""Records of a text dump as typed jobs and steps: what Slurm's numbers mean in the columns of JOBS."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import CATEGORY, Bools, Floats, Ints, arrow, integers, nulls, texts
from pipeline.ingest import spans
from pipeline.ingest.formats.sacct.irregular_lines import REASONS
from pipeline.ingest.formats.sacct.layout import STATES, state_name
from pipeline.ingest.formats.sacct.notes import ZONE
from pipeline.ingest.formats.sacct.scan import Rows
from pipeline.ingest.formats.sacct.scan_kernels import exit_codes, gpus, resource
from pipeline.ingest.live import asked_s_of
from pipeline.ingest.reader import JOB, NODE, PROCESSOR, Remarks, requested_memory
from pipeline.ingest.spans import as_bytes
from pipeline.ingest.spans.instants import seconds_between, settled
from pipeline.settings import IngestSettings

_CODE = {reason: code for code, reason in enumerate(REASONS, 1)}
_CATEGORIES = ("user", "user_group", "account", "queue", "qos")


@dataclass(slots=True)
class Fields:
    """Some records, asked for by what a column tells; a value that cannot be read marks its record in `bad`.

    bad: 0, or 1 + the index of the first reason met. place: the columns of the rows' spans that are theirs.
    """

    rows: Rows
    chosen: Ints
    timezone: str
    settings: IngestSettings
    remarks: Remarks
    bad: npt.NDArray[np.uint8]
    place: Ints

    @classmethod
    def of(
        cls,
        rows: Rows,
        chosen: Ints,
        timezone: str,
        settings: IngestSettings,
        remarks: Remarks,
        bad: npt.NDArray[np.uint8],
    ) -> "Fields":
        """The fields of the chosen rows; bad: what is known of all rows already."""
        return cls(rows, chosen, timezone, settings, remarks, bad[chosen], rows.place[chosen])

    def __len__(self) -> int:
        return len(self.chosen)

    def has(self, what: str) -> bool:
        """Whether the dump has a column that tells this."""
        return what in self.rows.slot

    def span(self, what: str) -> tuple[Ints, Ints]:
        """Where its values start and end; empty ones where no column tells it."""
        if what not in self.rows.slot:
            nothing = np.zeros(len(self), np.int64)
            return nothing, nothing
        slot = self.rows.slot[what]
        return self.rows.start[slot][self.place], self.rows.end[slot][self.place]

    def category(self, what: str) -> pa.Array:
        """A category."""
        return spans.category(self.rows.data, *self.span(what)) if self.has(what) else self._nulls(CATEGORY)

    def text(self, what: str) -> pa.Array:
        """A string."""
        return spans.texts(self.rows.data, *self.span(what)) if self.has(what) else self._nulls(pa.string())

    def instants(self, what: str) -> spans.Instants:
        """UTC epoch seconds; those that came twice are not tallied yet."""
        day_first = self.settings.day_first
        typed = spans.instants_s(self.rows.data, *self.span(what), self.timezone, day_first=day_first)
        self._mark(typed.has_no_date, "time_without_date")
        self._mark(typed.invalid, "not_a_time")
        self.remarks["skipped_times"] += typed.n_skipped
        self.remarks["slashed_times"] += typed.n_slashed
        self.remarks[f"{ZONE}{self.timezone}"] += typed.n_local
        return typed

    def duration(self, what: str) -> Floats:
        """Seconds, NaN where there are none."""
        if not self.has(what):
            return np.full(len(self), np.nan)
        typed = spans.duration_s(self.rows.data, *self.span(what))
        self._mark(typed.invalid, "not_a_duration")
        return np.where(typed.missing, np.nan, typed.values)

    def count(self, what: str) -> tuple[Ints, Bools]:
        """A whole number (1.50K is 1536, 10.0 is 10), and where there is none."""
        if not self.has(what):
            return np.zeros(len(self), np.int64), np.ones(len(self), np.bool_)
        start, end = self.span(what)
        typed = spans.integers(self.rows.data, start, end)
        values, missing = typed.values, typed.missing
        if typed.invalid.any():
            odd = np.flatnonzero(typed.invalid)
            scaled = spans.memory_kib(self.rows.data, start[odd], end[odd])
            whole = np.where(scaled.missing | (scaled.values > 2.0**40), 0.0, scaled.values * 1024)
            values[odd], missing[odd] = whole.astype(np.int64), scaled.missing
            wrong = np.zeros(len(self), np.bool_)
            wrong[odd] = scaled.invalid | (scaled.values > 2.0**40)
            self._mark(wrong, "not_a_number")
        return values, missing

    def memory(self, what: str, plain_kib: float) -> spans.Memory:
        """KiB and what they are counted per."""
        typed = spans.memory_kib(self.rows.data, *self.span(what), plain_kib)
        self._mark(typed.invalid, "not_a_memory_size")
        return typed

    def energy_j(self) -> Floats:
        """Joules, NaN where none were measured; a text that is no energy is tallied, and its record stays."""
        if not self.has("energy"):
            return np.full(len(self), np.nan)
        typed = spans.energy_j(self.rows.data, *self.span("energy"))
        self.remarks["odd_energies"] += int(np.count_nonzero(typed.invalid))
        return np.where(typed.missing, np.nan, typed.values)

    def exit_code(self, what: str) -> tuple[Ints, Bools]:
        """The code, 128 + signal where one ended it, and where there is none."""
        values, (missing, invalid) = np.empty(len(self), np.int64), np.empty((2, len(self)), np.bool_)
        exit_codes(self.rows.data, *self.span(what), values, missing, invalid)
        self._mark(invalid, "not_an_exit_code")
        return values, missing

    def gpus(self) -> tuple[Ints, Bools]:
        """GPUs allocated; asked for, where there is no list of those; 0 where a list names none."""
        values = np.full(len(self), -1, np.int64)
        listed = np.zeros(len(self), np.bool_)
        for what in ("alloc_tres", "req_tres"):
            if self.has(what):
                start, end = self.span(what)
                open_ones = np.flatnonzero(~listed)
                found = np.empty(len(open_ones), np.int64)
                gpus(self.rows.data, start[open_ones], end[open_ones], found)
                values[open_ones] = found
                listed |= end > start
        return np.maximum(values, 0), ~listed

    def asked_nodes(self) -> tuple[Ints, Bools]:
        """Nodes asked for, by their own column, else by the resources asked for."""
        if self.has("requested_nodes") or not self.has("req_tres"):
            return self.count("requested_nodes")
        values = np.empty(len(self), np.int64)
        resource(self.rows.data, *self.span("req_tres"), as_bytes(b"node="), values)
        return values, values < 0

    def _mark(self, invalid: Bools, reason: str) -> None:
        if invalid.any():
            self.bad[invalid & (self.bad == 0)] = _CODE[reason]

    def _nulls(self, kind: pa.DataType) -> pa.Array:
        return pa.nulls(len(self), kind)


def typed_jobs(fields: Fields, wanted: Collection[str]) -> dict[str, pa.Array]:
    """Columns of JOBS and EXTRAS (`wanted` of them) by name; rows marked bad are typed as far as they go."""
    columns: dict[str, pa.Array] = {name: fields.category(name) for name in _CATEGORIES}
    columns |= {name: fields.text(name) for name in ("job_name", *wanted)}
    for name in ("exit_code", "derived_exit_code"):
        columns[name] = arrow(*fields.exit_code(name))
    columns["attempt_key"] = arrow(*fields.count("attempt_key"))
    columns["gpus"] = arrow(*fields.gpus())
    columns["state"] = _states(fields)
    columns["requested_s"] = _seconds(_requested_s(fields))
    return columns | _sizes(fields)


def _seconds(values: Floats) -> pa.Array:
    return arrow(values, np.isnan(values))


def _requested_s(fields: Fields) -> Floats:
    """The limit in seconds; where we lowered it, the limit that the user asked for."""
    limit_s = fields.duration("limit_min") * 60.0 if fields.has("limit_min") else fields.duration("requested_s")
    comments = fields.category("admin_comment")
    asked_s = np.array([asked_s_of(text) or np.nan for text in comments.dictionary.to_pylist()] + [np.nan])
    own_s = asked_s[np.where(nulls(comments), -1, integers(comments.indices)[0])]
    return np.where(np.isnan(own_s), limit_s, own_s)


def _sizes(fields: Fields) -> dict[str, pa.Array]:
    """Processors, nodes, and what is counted per processor; a job that was given no processor was given no node."""
    counts = {name: fields.count(name) for name in ("procs", "nodes", "requested_procs")}
    counts["requested_nodes"] = fields.asked_nodes()
    procs, no_procs = counts["procs"]
    nodes, no_nodes = counts["nodes"]
    counts["nodes"] = np.where(~no_procs & (procs == 0), 0, nodes), no_nodes
    given = np.where(no_procs | (procs <= 0), np.nan, procs)
    asked = _known(counts["requested_procs"])
    memory = fields.memory("requested_mem", 1024.0)
    placed, asked_nodes = _known((nodes, no_nodes)), _known(counts["requested_nodes"])
    n_nodes = np.where(np.isnan(placed), asked_nodes, placed)
    per_node = n_nodes / np.where(np.isnan(given), asked, given)
    whole = 1.0 / np.where(np.isnan(asked), given, asked)
    share = np.select([memory.per == spans.PER_CPU, memory.per == spans.PER_NODE], [1.0, per_node], whole)
    kib = np.where(memory.missing, np.nan, memory.values)
    rss = fields.memory("max_rss", 1 / 1024)
    arrays = {name: arrow(values, missing) for name, (values, missing) in counts.items()}
    return arrays | {
        "requested_mem_kib": _seconds(kib * share),
        "requested_memory": _typed_memory(
            fields, kib, memory.per, np.where(np.isnan(asked_nodes), placed, asked_nodes), 1.0 / whole
        ),
        "max_rss_kib": arrow(rss.values, rss.missing),
        "cpu_s": _seconds(fields.duration("total_cpu") / given),
        "energy_j": _seconds(fields.energy_j()),
    }


def _typed_memory(
    fields: Fields, kib: Floats, said_per: npt.NDArray[np.uint8], nodes: Floats, procs: Floats
) -> pa.Array:
    """Memory as typed. Slurm 21.08 and later write the job's total, for --mem as for --mem-per-cpu.

    Such a total is divided by processors where the submit line has --mem-per-cpu, else by the nodes asked for, as if
    it had --mem; where these are unknown it stays a job's. A cluster's default per processor reads as --mem too: the
    comparison of templates has requested_mem_kib, which is per processor, as another reading.
    """
    is_total = (said_per != spans.PER_CPU) & (said_per != spans.PER_NODE)
    per = np.where(is_total & np.isnan(nodes), JOB, NODE).astype(np.int8)
    per[said_per == spans.PER_CPU] = PROCESSOR
    if is_total.any() and fields.has("submit_line"):
        lines = spans.texts(fields.rows.data, *fields.span("submit_line"))
        is_per_cpu = pc.fill_null(pc.match_substring(lines, "--mem-per-cpu"), False).to_numpy(zero_copy_only=False)
        per[is_total & is_per_cpu & ~np.isnan(procs)] = PROCESSOR
    divisor = np.where(per == PROCESSOR, procs, np.where(per == NODE, nodes, 1.0))
    return requested_memory(np.where(is_total, kib / divisor, kib), per)


def _known(count: tuple[Ints, Bools]) -> Floats:
    """The number where it is known and positive, else NaN."""
    values, missing = count
    return np.where(missing | (values <= 0), np.nan, values.astype(np.float64))


def _states(fields: Fields) -> pa.Array:
    """States as one word each; those Slurm does not name are tallied."""
    encoded = fields.category("state")
    if encoded.null_count == len(encoded):
        return encoded
    said = encoded.dictionary.to_pylist()
    names = [state_name(word) for word in said]
    ranked = sorted(set(names))
    lookup = arrow(np.array([ranked.index(name) for name in names], np.int32))
    merged = pa.DictionaryArray.from_arrays(pc.take(lookup, encoded.indices), texts(ranked))
    for name in ranked:
        if name not in STATES:
            same = pc.equal(merged.indices, pa.scalar(ranked.index(name), pa.int32()))
            fields.remarks[f"state {name}"] += pc.sum(same).as_py() or 0
    return merged


TIMES = ("submit_s", "eligible_s", "start_s", "end_s")
_CLOCK_S = 1.0
"""Slurm's Elapsed is End - Start - Suspended to the second."""


def typed_times(fields: Fields) -> dict[str, pa.Array]:
    """The columns TIMES, runtime_s and suspended_s of some records.

    runtime_s is Elapsed; in a dump without that column it is End - Start - Suspended. A start or end that came twice
    when clocks went back is the one that agrees with Elapsed; the first where both do, or none.
    """
    times = {name: fields.instants(name) for name in TIMES}
    suspended_s, elapsed_s = fields.duration("suspended_s"), fields.duration("runtime_s")
    start, end = times["start_s"], times["end_s"]
    start_s, end_s, is_settled = settled(start, end, elapsed_s + np.nan_to_num(suspended_s), _CLOCK_S)
    for name, instants in times.items():
        is_doubtful = (instants.repeat_s > 0) & ~instants.missing
        by_elapsed = is_doubtful & is_settled & (name in ("start_s", "end_s"))
        fields.remarks["settled_times"] += int(np.count_nonzero(by_elapsed))
        fields.remarks["ambiguous_times"] += int(np.count_nonzero(is_doubtful & ~by_elapsed))
    if not fields.has("runtime_s"):
        elapsed_s = seconds_between(start_s, end_s, start.missing | end.missing) - np.nan_to_num(suspended_s)
        elapsed_s[elapsed_s < 0] = np.nan
    read = {name: arrow(instants.values, instants.missing) for name, instants in times.items()}
    read |= {"start_s": arrow(start_s, start.missing), "end_s": arrow(end_s, end.missing)}
    durations = {"runtime_s": elapsed_s, "suspended_s": suspended_s}
    return read | {name: arrow(values, np.isnan(values)) for name, values in durations.items()}
