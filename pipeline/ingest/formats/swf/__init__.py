"""Reads the Standard Workload Format, version 2.2.

Source: S. J. Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers", JSSPP 1999, and
the format's page in D. Feitelson's Parallel Workloads Archive. 18 numbers a line, separated by blanks or tabs; lines
that start with `;` are comments, some of them `Key: value` headers; -1 is unknown.

What is read although the standard does not say so: fields past the 18th, of the dialects that fields.py knows (others
are left alone); fewer than 18, but at least 5, where most lines have no more (the others are null); fractions and
exponents; CRLF; blank lines; comments in mid-file. A line with another number of fields than most lines of its file was
cut or spliced, and is unreadable; so is one whose id is its own and the next line's. A last line without a line end may
have been cut: it is set aside unless it is surely whole.

A line that cannot be read is set aside, and reading goes on; unless `max_damaged` is 0. But a source is not SWF at
all, and InputError says so, where none of its first 100 lines other than comments and blanks can be read, or none of
them all if they are fewer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Ints, arrow, floats_of, integers
from pipeline.ingest.formats.swf.fields import (
    COUNTS,
    NAMED_CATEGORIES,
    PLAIN_CATEGORIES,
    REALS,
    Dialect,
    Fields,
    dialect_columns,
    dialect_of,
    extra_fields,
    field_numbers,
)
from pipeline.ingest.formats.swf.header import Header, short_names
from pipeline.ingest.formats.swf.scan import (
    JOINED_IDS,
    MIN_FIELDS,
    N_FIELDS,
    NO_LINE_END,
    NUL_BYTES,
    REASONS,
    Scanned,
    looks_right,
    scan,
)
from pipeline.ingest.formats.swf.status import count_statuses, notes, settle
from pipeline.ingest.reader import (
    PROCESSOR,
    Chunk,
    Reader,
    Remarks,
    constant,
    jobs_table,
    requested_memory,
    unreadable_row,
    unreadable_table,
)
from pipeline.ingest.sources import Block, Source, line_blocks
from pipeline.settings import IngestSettings, SiteSettings

EXPECTS = f"SWF: {N_FIELDS} numbers a line (at least {MIN_FIELDS}, as many in each line), comments after ';'"
Columns = dict[str, pa.Array]
_TELLING_LINES = 25
"""Of the first lines, the dialect of most counts: one of them may be damaged."""


def read(source: Source, site: SiteSettings, settings: IngestSettings) -> Iterator[Chunk]:
    """A log's chunks, one per block of the source; InputError where the source is no SWF log, or is damaged."""
    numbers = field_numbers(settings.columns)
    header, remarks = Header(), Remarks(files=1)
    extra = _ExtraFields(numbers, settings.columns)
    exact = {numbers[name] for name in REALS if name in numbers}
    last_submit, width, n_shown, has_18_fields = None, 0, 0, False
    last_id = 0
    for block in line_blocks(source):
        scanned = scan(block.data, width, exact)
        if settings.last_line == "set_aside":
            scanned = _without_open_line(scanned, block.data, remarks, has_18_fields=has_18_fields)
        ids = scanned.whole[numbers.get("job_id", 1) - 1]
        last_id, scanned = (
            int(ids[-1]) if len(ids) else last_id,
            _without(scanned, ran_together(ids, last_id), block.data, JOINED_IDS),
        )
        width = scanned.width
        extra.n_long += scanned.n_long
        has_18_fields = width == N_FIELDS
        unreadable = _unreadable_rows(source, block, scanned)
        n_before = int(np.searchsorted(scanned.bad[:, 0], scanned.line[0])) if len(scanned.line) else len(unreadable)
        jobs = _typed(scanned, block, header, extra, source, site, remarks)
        last_submit = _remark(jobs, scanned, last_submit, remarks)
        status, is_null = integers(jobs["exit_code"])
        n_shown = count_statuses(status, is_null, scanned.line + block.line, source.label, remarks, n_shown)
        lines = {"comment": len(scanned.comments), "blank": scanned.n_blank}
        n_bytes = len(block.data) + block.n_dropped
        yield Chunk(
            jobs, unreadable_table(unreadable), lines, block.n_lines, n_bytes, remarks, header.shown(),
            n_bad_first=n_before,
        )  # fmt: skip
        remarks = Remarks()


def _without_open_line(scanned: Scanned, data: bytes, remarks: Remarks, *, has_18_fields: bool) -> Scanned:
    """The block without a last job whose line has no end, unless its 18 fields are surely whole.

    They are, in a file whose lines before it have 18 fields, where a blank follows the last of them, or where that is
    -1: null is no value that the whole line lacks.
    """
    if data.endswith(b"\n") or not len(scanned.line):
        return scanned
    start = data.rfind(b"\n") + 1
    fields = data[start:].split()
    is_last_whole = has_18_fields and (data[-1:].isspace() or fields[-1] == b"-1")
    if data.count(b"\n") != scanned.line[-1] or (is_last_whole and len(fields) == N_FIELDS):
        return scanned
    remarks["no_line_end"] += 1
    return _without(scanned, np.arange(len(scanned.line)) == len(scanned.line) - 1, data, NO_LINE_END)


def _without(scanned: Scanned, is_bad: Bools, data: bytes, reason: int) -> Scanned:
    """The block without some of its jobs, whose lines are unreadable for this reason."""
    if not is_bad.any():
        return scanned
    ends = np.append(np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")), len(data))
    lines = scanned.line[is_bad]
    starts = np.where(lines > 0, ends[lines - 1] + 1, 0)
    bad = np.column_stack([lines, starts, ends[lines], np.full(len(lines), reason)])
    n_fields = np.array([len(data[start:end].split()) for _, start, end, _ in bad.tolist()])
    bad = np.concatenate([scanned.bad, bad])
    return replace(
        scanned,
        whole=[values[~is_bad] for values in scanned.whole],
        real=[values[~is_bad] if len(values) else values for values in scanned.real],
        line=scanned.line[~is_bad],
        bad=bad[np.argsort(bad[:, 0], kind="stable")],
        comments=scanned.comments - np.outer(np.searchsorted(lines, scanned.comments[:, 1]), (1, 0, 0, 0)),
        n_long=scanned.n_long - int((n_fields > N_FIELDS).sum()),
        n_short=scanned.n_short - int((n_fields < N_FIELDS).sum()),
    )


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


@dataclass(slots=True)
class _ExtraFields:
    """What the fields after the 18th give in a file whose first jobs tell a dialect.

    numbers: the standard fields' numbers, of which the dialect takes some away; moved: names the settings place;
    n_long: lines with more than 18 fields so far.
    """

    numbers: dict[str, int]
    moved: Mapping[str, object]
    n_long: int = 0
    _dialect: Dialect | None = None
    _is_decided: bool = field(default=False)

    def columns(self, data: bytes, lines: list[int], header: Header, n_long: int, remarks: Remarks) -> Columns:
        """Columns of these lines' jobs; none where the file is of no dialect."""
        if not self._is_decided:
            first = extra_fields(data, lines[:_TELLING_LINES]) if n_long else []
            found = Counter(dialect_of(header.field_names, extra) for extra in first)
            self._dialect, self._is_decided = max(found, key=found.__getitem__, default=None), True
            for name in self._dialect.left_out if self._dialect else ():
                if name not in self.moved:
                    self.numbers.pop(name, None)
        if self._dialect is None:
            return {}
        columns, n_lines = dialect_columns(self._dialect, extra_fields(data, lines))
        remarks[f"dialect {self._dialect.name}"] += n_lines
        remarks["long_lines"] -= n_lines
        return {name: values for name, values in columns.items() if name not in self.moved}


def _unreadable_rows(source: Source, block: Block, scanned: Scanned) -> list[dict[str, object]]:
    return [
        unreadable_row(
            source, block.line + line, block.offset + start,
            REASONS[(NUL_BYTES if b"\0" in block.data[start:end] else reason) - 1], block.data[start:end].rstrip(b"\r"),
        )
        for line, start, end, reason in scanned.bad.tolist()
    ]  # fmt: skip


def _typed(
    scanned: Scanned,
    block: Block,
    header: Header,
    extra: _ExtraFields,
    source: Source,
    site: SiteSettings,
    remarks: Remarks,
) -> pa.Table:
    """The block's jobs. Its comments are read in order, and each run of jobs is typed under the header above it."""
    parts, start = [], 0

    def run(stop: int) -> None:
        nonlocal start
        if stop > start:
            lines = scanned.line[start:stop].tolist() if scanned.n_long else []
            given = extra.columns(block.data, lines, header, scanned.n_long, remarks)
            fields = Fields(scanned, slice(start, stop), extra.numbers)
            parts.append(_jobs(fields, header, source, site, block.line, given))
            remarks["floored"] += fields.n_floored()
            remarks["absolute_submits"] += (stop - start) * bool(header.is_absolute)
            remarks["jobs_without_start_time"] += (stop - start) * (header.start_s is None)
            remarks["jobs_with_bad_start_time"] += (stop - start) * (header.bad_start is not None)
        start = stop

    for row, line, begin, end in scanned.comments.tolist():
        if header.changes(block.data[begin:end]):
            run(row)
        header.read(block.line + line, block.data[begin:end])
    run(len(scanned.line))
    return pa.concat_tables(parts) if parts else jobs_table(0)


def _jobs(
    fields: Fields, header: Header, source: Source, site: SiteSettings, first_line: int, given: Columns
) -> pa.Table:
    n_rows, zero_s = fields.rows.stop - fields.rows.start, header.zero_s(fields.submits())
    reals = {name: fields.real(name) for name in REALS}
    kib = floats_of(pa.chunked_array([reals["requested_mem_kib"]]))
    counts = {name: fields.whole(name) for name in COUNTS}
    plain = {name: fields.category(name) for name in PLAIN_CATEGORIES}
    named = {name: fields.category(name, short_names(header.names[key])) for name, key in NAMED_CATEGORIES.items()}
    return jobs_table(
        n_rows,
        **(reals | counts | plain | named | given),
        site=constant(site.name, n_rows),
        job_id=fields.text("job_id"),
        restart=arrow(np.zeros(n_rows, np.int64)),
        submit_s=fields.instant(zero_s, "submit_s"),
        start_s=fields.instant(zero_s, "submit_s", "wait_s"),
        end_s=fields.instant(zero_s, "submit_s", "wait_s", "runtime_s"),
        preceding_job_id=fields.text("preceding_job_id"),
        # By the format's definition the field is per processor.
        requested_memory=requested_memory(kib, np.full(n_rows, PROCESSOR, np.int8)),
        exit_code=fields.whole("status"),
        source_file=constant(source.label, n_rows),
        source_line=arrow(fields.scanned.line[fields.rows] + first_line),
    )


def _remark(jobs: pa.Table, scanned: Scanned, last_submit: int | None, remarks: Remarks) -> int | None:
    """Tally what a chunk shows of the dialect; returns the last submit, for the next chunk to go on from."""
    remarks["jobs"] += jobs.num_rows
    remarks["long_lines"] += scanned.n_long
    remarks["short_lines"] += scanned.n_short
    remarks["starts"] += jobs.num_rows - jobs["start_s"].null_count
    submit, is_unknown = integers(jobs["submit_s"])
    known = submit[~is_unknown]
    if not len(known):
        return last_submit
    steps = np.diff(known, prepend=known[0] if last_submit is None else last_submit)
    remarks["backward_submits"] += int(np.count_nonzero(steps < 0))
    return int(known[-1])


SWF = Reader("swf", EXPECTS, REASONS, ("submit_s", "start_s", "user"), looks_right, read, settle, notes)
