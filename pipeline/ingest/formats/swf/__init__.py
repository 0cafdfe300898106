"""Reads the Standard Workload Format, version 2.2.

Source: S. J. Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers", JSSPP 1999, and
the format's page in D. Feitelson's Parallel Workloads Archive. 18 numbers a line, separated by blanks or tabs; lines
that start with `;` are comments, some of them `Key: value` headers; -1 is unknown.

What is read although the standard does not say so: fields 19 to 21, where ingest.columns names them; fewer than 18, but
at least 5, where most lines have no more (the others are null); fractions and exponents; CRLF; blank lines; comments in
mid-file. A line with another number of fields than most lines of its file was cut or spliced, and is unreadable; so is
one whose id is its own and the next line's. A last line without a line end may have been cut: it is set aside unless it
is surely whole.

A line that cannot be read is set aside, and reading goes on; unless `max_damaged` is 0. But a source is not SWF at
all, and InputError says so, where none of its first 100 lines other than comments and blanks can be read, or none of
them all if they are fewer.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import DAY_S, LATEST_S, Bools, Ints, arrow, floats_of, integers, replaced, texts
from pipeline.errors import ConfigError, printable
from pipeline.ingest.formats.swf.scan import (
    JOINED_IDS,
    MIN_FIELDS,
    MOST_FIELDS,
    N_FIELDS,
    NUL_BYTES,
    OPEN_LINE,
    REASONS,
    Scanned,
    looks_right,
    scan,
)
from pipeline.ingest.reader import (
    NO_LINE_END,
    PART,
    Chunk,
    Reader,
    Remarks,
    categories,
    constant,
    jobs_table,
    line_bounds,
    named,
    unreadable_rows,
    unreadable_table,
)
from pipeline.ingest.sources import Block, Source, line_blocks
from pipeline.ingest.values import PROCESSOR, requested_memory, truths
from pipeline.settings import IngestSettings, SiteSettings

EXPECTS = f"SWF: {N_FIELDS} numbers a line (at least {MIN_FIELDS}, as many in each line), comments after ';'"


def read(source: Source, site: SiteSettings, settings: IngestSettings) -> Iterator[Chunk]:
    """A log's chunks, one per block of the source; InputError where the source is no SWF log, or is damaged."""
    numbers = field_numbers(settings.columns)
    header, remarks = Header(), Remarks(files=1)
    n_kept = max([N_FIELDS, *numbers.values()])
    exact = {numbers[name] for name in REALS if name in numbers}
    last_submit, width, last_id = None, 0, 0
    for block in line_blocks(source):
        scanned = scan(block.data, width, exact, n_kept)
        if settings.last_line == "set_aside" and len(scanned.line) and _may_be_cut(block.data, width):
            remarks["no_line_end"] += 1
            scanned = _without(scanned, np.ones(1, np.bool_), block.data, OPEN_LINE)
        width = scanned.width
        ids = floored(scanned.columns[numbers.get("job_id", 1) - 1])
        scanned = _without(scanned, ran_together(ids, last_id), block.data, JOINED_IDS)
        last_id = int(ids[-1]) if len(ids) else last_id
        has_nul = [b"\0" in block.data[start:end] for _, start, end, _ in scanned.bad.tolist()]
        scanned.bad[has_nul, 3] = NUL_BYTES
        unreadable = unreadable_rows(source, block, scanned.bad, REASONS)
        n_before = int(np.searchsorted(scanned.bad[:, 0], scanned.line[0])) if len(scanned.line) else len(unreadable)
        jobs = _typed(scanned, block, header, numbers, source, site, remarks)
        last_submit = _remark(jobs, scanned.width, last_submit, remarks)
        status, is_null = integers(jobs["exit_code"])
        count_statuses(status, is_null, source.label, remarks)
        lines = {"comment": len(scanned.comments), "blank": scanned.n_blank}
        n_bytes = len(block.data) + block.n_dropped
        yield Chunk(
            jobs, unreadable_table(unreadable), lines, block.n_lines, n_bytes, remarks, header.shown(),
            n_bad_first=n_before,
        )  # fmt: skip
        remarks = Remarks()


def _may_be_cut(data: bytes, width: int) -> bool:
    """Whether a block is a last line without an end, which stands in a block of its own, that may have been cut.

    It is surely whole, in a file whose lines before it have 18 fields, where it has as many, and a blank follows the
    last of them, or that is -1: null is no value that the whole line lacks.
    """
    if data.endswith(b"\n"):
        return False
    fields = data.split()
    return not (width == len(fields) == N_FIELDS and (data[-1:].isspace() or fields[-1] == b"-1"))


def _without(scanned: Scanned, is_bad: Bools, data: bytes, reason: int) -> Scanned:
    """The block without some of its jobs, whose lines are unreadable for this reason."""
    if not is_bad.any():
        return scanned
    starts, ends = line_bounds(data)
    lines = scanned.line[is_bad]
    bad = np.concatenate([scanned.bad, np.stack([lines, starts[lines], ends[lines], np.full(len(lines), reason)], 1)])
    return replace(
        scanned, columns=[values[~is_bad] for values in scanned.columns], line=scanned.line[~is_bad],
        bad=bad[np.argsort(bad[:, 0], kind="stable")],
    )  # fmt: skip


_NEAR, _LEAST = 20, 1_000
_POWERS = 10 ** np.arange(19, dtype=np.int64)


def ran_together(ids: Ints, before: int) -> Bools:
    """Which ids of a block are two: 1005310054 after 10053. before: the last id of the block before."""
    before_each = np.append(before, ids[:-1])
    is_one = (before_each < _LEAST) | (ids <= 2 * before_each)
    if is_one.all():
        return ~is_one
    n_digits = np.searchsorted(_POWERS, before_each, side="right")
    behind = ids % _POWERS[np.minimum(n_digits, 18)] - before_each
    are: Bools = ~is_one & (behind > 0) & (behind <= _NEAR)
    return are


# ---------------- which field holds what
# Which SWF field holds what: numbers of fields as typed JOBS columns, and the comments.
#
# -1 is null in every field. Any other negative number stays as it is (a runtime of -40 is the log's word, and for clean
# to flag). Durations, memory and CPU time keep their fraction; instants, counts and ids are floored.

STANDARD: Mapping[str, int] = {
    "job_id": 1, "submit_s": 2, "wait_s": 3, "runtime_s": 4, "procs": 5, "cpu_s": 6, "used_mem_kib": 7,
    "requested_procs": 8, "requested_s": 9, "requested_mem_kib": 10, "status": 11, "user": 12, "user_group": 13,
    "application": 14, "queue": 15, "partition": 16, "preceding_job_id": 17, "think_s": 18,
}  # fmt: skip
"""Field numbers of the Standard Workload Format 2.2 (Chapin et al. 1999, and the Parallel Workloads Archive)."""

REALS = ("runtime_s", "cpu_s", "used_mem_kib", "requested_s", "requested_mem_kib", "think_s")
COUNTS = ("procs", "requested_procs", "nodes", "requested_nodes", "gpus")
PLAIN_CATEGORIES = ("user", "user_group", "account", "application", "qos")
NAMED_CATEGORIES = {"queue": "Queue", "partition": "Partition"}
_KNOWN = sorted({*STANDARD, *COUNTS, *PLAIN_CATEGORIES})


def field_numbers(moved: Mapping[str, object]) -> dict[str, int]:
    """Field number by name: the standard's, with a dialect's moves; ConfigError for an unknown name or number.

    A name moved to 0 is in no field. A field that a move has taken no longer holds what the standard says, unless that
    is moved there by name as well.
    """
    for name, number in moved.items():
        where = f"ingest.columns.{printable(name)}"
        if name not in _KNOWN:
            raise ConfigError(where, "an unknown name", f"one of {', '.join(_KNOWN)}", "correct or remove it")
        if not isinstance(number, int) or not 0 <= number <= MOST_FIELDS:
            expected = f"a field number from 1 to {MOST_FIELDS}, or 0 where no field holds it"
            raise ConfigError(where, f"field {printable(str(number))}", expected)
    numbers = {name: number for name, number in moved.items() if isinstance(number, int)}
    left = {name: n for name, n in STANDARD.items() if n not in numbers.values() and name not in numbers}
    return left | {name: number for name, number in numbers.items() if number}


@dataclass(frozen=True, slots=True)
class Fields:
    """Some rows of a scanned block, asked for by name. A name no field holds is null in every row."""

    scanned: Scanned
    rows: slice
    numbers: Mapping[str, int]

    def values(self, name: str) -> npt.NDArray[Any]:
        """The field as it was read; -1 is null."""
        number = self.numbers.get(name)
        return self.scanned.columns[number - 1][self.rows] if number else np.full(self.rows.stop - self.rows.start, -1)

    def whole(self, name: str) -> pa.Array:
        """int64, floored."""
        values = self.values(name)
        return arrow(floored(values), values == -1)

    def real(self, name: str) -> pa.Array:
        """float64, with the fraction."""
        values = self.values(name)
        return arrow(values.astype(np.float64) + 0.0, values == -1)

    def category(self, name: str, names: Mapping[int, str] | None = None) -> pa.DictionaryArray:
        """Categories: the header's name where it has one, else the number."""
        known = names or {}
        return categories(self.whole(name), lambda number: known.get(number, str(number)))

    def instant(self, zero_s: int, *names: str) -> pa.Array:
        """int64, an instant and durations after it added up, floored, counted from `zero_s`; null where one is."""
        values = [self.values(name) for name in names]
        missing = np.logical_or.reduce([one == -1 for one in values])
        whole = np.add.reduce([floored(one) for one in values], dtype=np.int64) + np.int64(zero_s)
        fractions = [one - np.floor(one) for one in values if one.dtype != np.int64]
        if any(one.any() for one in fractions):
            whole = whole + np.floor(np.sum(fractions, axis=0)).astype(np.int64)
        return arrow(whole, missing)

    def n_floored(self) -> int:
        """How many values lost a fraction because their column holds whole numbers."""
        exact = {number for name, number in self.numbers.items() if name in REALS}
        names = [name for name, number in self.numbers.items() if number not in exact]
        columns = (self.values(name) for name in names)
        return sum(int(np.count_nonzero(one != np.floor(one))) for one in columns if one.dtype != np.int64)


def floored(values: npt.NDArray[Any]) -> Ints:
    """The values as int64, rounded down."""
    return values if values.dtype == np.int64 else np.floor(values).astype(np.int64)


# ---------------- the comments of a log
# The comments of an SWF log: `; Key: value` lines, keys that come again, lines that continue one.
#
# A line continues the one before it where it directly follows and starts no key of its own. A header holds from its
# line on: in logs joined end to end, a second UnixStartTime moves the jobs after it and not those before.

_LEAST_START_S = 100_000_000
"""1973, before any log: of an earlier start, submits that count from it are as large."""
_KEY = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*:(?!//)(.*)$", re.DOTALL)
_NAMED = re.compile(r"(-?\d+)\s+(\S.*)$", re.DOTALL)
_INTEGER = re.compile(r"-?\d{1,17}(?!\d)")
_MAX_VALUE = 1_000
SHOWN = {
    "Computer": "computer",
    "Installation": "installation",
    "MaxProcs": "max_procs",
    "MaxNodes": "max_nodes",
    "TimeZoneString": "time_zone",
    "Acknowledge": "acknowledge",
}
"""Header keys worth a place in the report, and their names there."""


@dataclass(slots=True)
class Header:
    """What the comments have said so far: every key's values in order; `bad_start`: a start time that is none."""

    values: dict[str, list[str]] = field(default_factory=dict)
    start_s: int | None = None
    bad_start: str | None = None
    is_absolute: bool | None = None
    """Whether submits below this UnixStartTime count from 1970 all the same; None: no job below it has told yet."""
    names: dict[str, dict[int, str]] = field(default_factory=lambda: {"Queue": {}, "Partition": {}})
    _last: tuple[int, str] = (-1, "")

    def read(self, line: int, text: bytes) -> None:
        """Take in one comment line, with its `;`."""
        key, value = _key_and_value(text)
        before, last_key = self._last
        if key:
            self.values.setdefault(key, []).append(value)
            self._last = (line, key)
        elif value and before == line - 1:
            self.values[last_key][-1] = f"{self.values[last_key][-1]} {value}"[:_MAX_VALUE]
            self._last = (line, last_key)
        if key == "UnixStartTime":
            number = _INTEGER.match(value)
            self.start_s, self.is_absolute = (int(number[0]) if number else None), None
            self.bad_start = None if number else value
        elif key in self.names and (match := _NAMED.match(value)):
            self.names[key][int(match[1])] = match[2]

    def changes(self, text: bytes) -> bool:
        """Whether reading this comment line will change how the jobs after it are read."""
        return _key_and_value(text)[0] in ("UnixStartTime", *self.names)

    def zero_s(self, submits: Ints) -> int:
        """What these submits count from, where the first ones below a header decide for all: its start, or 1970.

        Some converters write seconds since 1970 below the header. No log reaches as far from its start as that is from
        1970, so most submits lie beyond the start then.
        """
        if self.is_absolute is None and len(submits):
            middle_s = float(np.median(submits))
            self.is_absolute = _LEAST_START_S <= (self.start_s or 0) <= middle_s + DAY_S and middle_s < LATEST_S
        return 0 if self.is_absolute else self.start_s or 0

    def shown(self) -> dict[str, str]:
        """The header values a report shows, first value of each key."""
        return {name: printable(self.values[key][0]) for key, name in SHOWN.items() if self.values.get(key, [""])[0]}


def short_names(said: dict[int, str]) -> dict[int, str]:
    """Name by number from `3 normal (18 hours)` lines: without the bracketed remark.

    A name that two numbers share takes its number too; a name that is itself a number is no name.
    """
    cut = {number: " ".join(text.split(" (")[0].split()) for number, text in said.items()}
    named = {number: name for number, name in cut.items() if name and not name.lstrip("-").isdigit()}
    n_times = Counter(named.values())
    return {number: f"{name} #{number}" if n_times[name] > 1 else name for number, name in named.items()}


def _key_and_value(comment: bytes) -> tuple[str, str]:
    """The key of a comment line, empty where it has none, and what stands behind it."""
    cut = comment[: 4 * _MAX_VALUE]
    try:
        text = cut.decode("utf-8")
    except UnicodeDecodeError:
        text = cut.decode("latin-1")
    said = text.strip().removeprefix(";")[:_MAX_VALUE]
    match = _KEY.match(said)
    return (match[1], match[2].strip()) if match else ("", said.strip())


# ---------------- a block's jobs


def _typed(
    scanned: Scanned,
    block: Block,
    header: Header,
    numbers: Mapping[str, int],
    source: Source,
    site: SiteSettings,
    remarks: Remarks,
) -> pa.Table:
    """The block's jobs. Its comments are read in order, and each run of jobs is typed under the header above it."""
    parts, start = [], 0

    def run(stop: int) -> None:
        nonlocal start
        if stop > start:
            fields = Fields(scanned, slice(start, stop), numbers)
            parts.append(_jobs(fields, header, source, site, block.line))
            remarks["floored"] += fields.n_floored()
            remarks["absolute_submits"] += (stop - start) * bool(header.is_absolute)
            remarks["jobs_without_start_time"] += (stop - start) * (header.start_s is None)
            remarks["jobs_with_bad_start_time"] += (stop - start) * (header.bad_start is not None)
        start = stop

    for line, begin, end in scanned.comments.tolist():
        if header.changes(block.data[begin:end]):
            run(int(np.searchsorted(scanned.line, line)))
        header.read(block.line + line, block.data[begin:end])
    run(len(scanned.line))
    return pa.concat_tables(parts) if parts else jobs_table(0)


def _jobs(fields: Fields, header: Header, source: Source, site: SiteSettings, first_line: int) -> pa.Table:
    n_rows, submits = fields.rows.stop - fields.rows.start, fields.values("submit_s")
    zero_s = header.zero_s(floored(submits[submits != -1]))
    reals = {name: fields.real(name) for name in REALS}
    kib = floats_of(pa.chunked_array([reals["requested_mem_kib"]]))
    counts = {name: fields.whole(name) for name in COUNTS}
    plain = {name: fields.category(name) for name in PLAIN_CATEGORIES}
    named = {name: fields.category(name, short_names(header.names[key])) for name, key in NAMED_CATEGORIES.items()}
    return jobs_table(
        n_rows,
        **(reals | counts | plain | named),
        site=constant(site.name, n_rows),
        job_id=fields.whole("job_id").cast(pa.string()),
        submit_s=fields.instant(zero_s, "submit_s"),
        start_s=fields.instant(zero_s, "submit_s", "wait_s"),
        end_s=fields.instant(zero_s, "submit_s", "wait_s", "runtime_s"),
        preceding_job_id=fields.whole("preceding_job_id").cast(pa.string()),
        # By the format's definition the field is per processor.
        requested_memory=requested_memory(kib, np.full(n_rows, PROCESSOR, np.int8)),
        exit_code=fields.whole("status"),
        source_file=constant(source.label, n_rows),
        source_line=arrow(fields.scanned.line[fields.rows] + first_line),
    )


def _remark(jobs: pa.Table, width: int, last_submit: int | None, remarks: Remarks) -> int | None:
    """Tally what a chunk shows of the dialect; returns the last submit, for the next chunk to go on from."""
    remarks["jobs"] += jobs.num_rows
    remarks["long_lines"] += jobs.num_rows * (width > N_FIELDS)
    remarks["short_lines"] += jobs.num_rows * (width < N_FIELDS)
    remarks["starts"] += jobs.num_rows - jobs["start_s"].null_count
    submit, is_unknown = integers(jobs["submit_s"])
    known = submit[~is_unknown]
    if not len(known):
        return last_submit
    steps = np.diff(known, prepend=known[0] if last_submit is None else last_submit)
    remarks["backward_submits"] += int(np.count_nonzero(steps < 0))
    return int(known[-1])


# ---------------- what field 11 holds
# What field 11 of an SWF file holds: the standard's status or an exit code, decided for each file by itself.
#
# A log of exit codes (Sandia's) has many values above 5 among those that are not 0, and more zeros than ones, because 0
# is success there. A standard log has more ones than zeros, because 1 is success, and a value outside -1 to 5 is a
# damaged line. One such line decides nothing.

STATES = {0: "FAILED", 1: "COMPLETED", 2: "PARTIAL", 3: "PARTIAL", 4: "PARTIAL", 5: "CANCELLED"}
"""The standard's status field in Slurm's words; 2, 3 and 4 are partial executions of a checkpointed job."""

LEAST_SHARE = 0.01
"""Of the values that are neither 0 nor -1, those outside the standard's range in a log of exit codes: 0.105 in the
Sandia log; 0 in the archive's 19 other logs; 0.000004 in one of 281,337 jobs with one damaged line."""

_SHOWN_FILES = 3
_ZERO, _ONE, _OTHER, _OUTSIDE = "status 0 ", "status 1 ", "status other ", "status outside "
"""Names of tallies, before a file's label."""


def count_statuses(status: Ints, is_null: Bools, label: str, remarks: Remarks) -> None:
    """Tally a chunk's statuses under its file's label."""
    outside = (status < -1) | (status > 5)
    counts = {_ZERO: status == 0, _ONE: status == 1, _OTHER: (status > 1) | (status < -1), _OUTSIDE: outside}
    remarks.update({name + label: int(np.count_nonzero(mask & ~is_null)) for name, mask in counts.items()})


def settle(jobs: pa.Table, remarks: Remarks, settings: IngestSettings) -> pa.Table:
    """State from the status number that `read` left in exit_code, which only the whole of its file tells how to read.

    Read as an exit code: 0 COMPLETED, any other FAILED, and exit_code keeps it. Read as the standard says: STATES,
    another number as text; exit_code is null, and PART is 2, 3 or 4 in partial executions.
    """
    status, is_null = integers(jobs["exit_code"])
    if settings.swf_status == "auto":
        files = texts(_files_of_exit_codes(remarks))
        is_code = truths(pc.is_in(jobs["source_file"].cast(pa.string()), value_set=files).combine_chunks())
    else:
        is_code = np.full(jobs.num_rows, settings.swf_status == "exit_code")

    # The lowest bit of a key tells how its number is read.
    def state_of(key: int) -> str:
        return ("FAILED" if key >> 1 else "COMPLETED") if key & 1 else STATES.get(key >> 1, str(key >> 1))

    state = categories(arrow(2 * status + is_code, is_null), state_of)
    part = np.where(~is_null & ~is_code & (status >= 2) & (status <= 4), status, 0).astype(np.int32)
    jobs = replaced(jobs, "exit_code", arrow(status, is_null | ~is_code))
    return replaced(jobs, "state", state).append_column(PART, arrow(part))


def _files_of_exit_codes(remarks: Remarks) -> list[str]:
    """The labels of files whose field 11 holds exit codes."""
    return [
        label
        for label, n_outside in named(remarks, _OUTSIDE).items()
        if n_outside >= LEAST_SHARE * (remarks[_ONE + label] + remarks[_OTHER + label])
        and remarks[_ZERO + label] >= remarks[_ONE + label]
    ]


def status_notes(remarks: Remarks, settings: IngestSettings) -> list[str]:
    """How field 11 was read where that was decided by its values, and which files have values that disagree."""
    if settings.swf_status != "auto":
        return []
    outside, codes = named(remarks, _OUTSIDE), _files_of_exit_codes(remarks)
    others = [label for label in outside if label not in codes]
    told = (
        (codes, 'the field is read as an exit code there, 0 completed and any other failed (swf_status = "standard"'),
        (others, 'the others say that the field is the standard status (swf_status = "exit_code"'),
    )
    notes = [
        f"{sum(outside[label] for label in labels)} status values of {', '.join(map(printable, labels[:_SHOWN_FILES]))}"
        f"{', ...' if len(labels) > _SHOWN_FILES else ''} lie outside -1 to 5: {meaning} overrules)"
        for labels, meaning in told
        if labels
    ]
    standard = {label for name in (_ZERO, _ONE, _OTHER) for label in named(remarks, name)} - set(codes)
    if codes and standard:
        notes.append(
            f"status is read as an exit code in {len(codes)} files and as the standard status in {len(standard)}: if "
            "they are one log, set swf_status"
        )
    return notes


_SENTENCES = {
    "jobs_with_bad_start_time": "a UnixStartTime header is no number and is left alone",
    "jobs_without_start_time": "no UnixStartTime header holds for {n} jobs: their times count from the log's own zero "
    "(if that is not 1970-01-01 UTC, instants are wrong by a constant; durations are not)",
    "absolute_submits": "the submits of {n} jobs count from 1970 already: UnixStartTime is not added",
    "backward_submits": "submit times go backwards {n} times in file order",
    "no_starts": "no wait times: start times are unknown (submit times may be start times)",
    "lacking_starts": "{n} jobs have no wait or submit time: their start is unknown",
    "long_lines": "{n} lines have more than 18 fields: the others are read where [ingest.columns] names them. Such "
    "logs may mean other things by memory and CPU time: 0 in [ingest.columns] leaves a field out",
    "short_lines": "{n} lines have fewer than 18 fields: the missing are unknown",
    "floored": "{n} instants, counts or ids have a fraction and are floored",
    "no_line_end": NO_LINE_END,
}


def notes(remarks: Remarks, settings: IngestSettings) -> list[str]:
    """One sentence for each thing a person should know before trusting times and states."""
    found = Remarks(remarks)
    found["lacking_starts" if remarks["starts"] else "no_starts"] = remarks["jobs"] - remarks["starts"]
    moves = ", ".join(f"{name} = {number}" for name, number in sorted(settings.columns.items()))
    return [
        *status_notes(remarks, settings),
        *(sentence.format(n=found[name]) for name, sentence in _SENTENCES.items() if found[name]),
        *([f"fields read by a dialect: {moves}"] if moves else []),
    ]


SWF = Reader("swf", EXPECTS, REASONS, ("submit_s", "start_s", "user"), looks_right, read, notes, settle)
