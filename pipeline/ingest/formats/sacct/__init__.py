"""Reads text dumps of Slurm's accounting, as `sacct` prints them: `--parsable2`, `--parsable`, any delimiter.

Source: man sacct, Slurm 18.08 to 25.05. The first line names the columns, or ingest.fields does; columns not
known are left alone. A row is a job, or a step (`123.batch`, `123.0`) that is folded into its job: memory and the
highest exit code come from steps. An array that still pends (`123_[8-99%4]`) is one job.

What values mean: runtime is Slurm's Elapsed, which leaves suspension out, and not end - start. ReqMem is per CPU (`c`),
per node (`n`), or for the whole job. An exit by signal is 128 + the signal. Times are of site.timezone.

A record that cannot be read is set aside, with its reason, and reading goes on; unless `max_damaged` is 0. So is a
last line without a line end, which may have been cut, unless `last_line` says that the dump is finished. But a
source is no such dump, and InputError says so, where none of its first 100 records can be read.

Lines with the right number of delimiters are split by Arrow, all at once. The others are solved one at a time, and what
is put together of them becomes rows as well, so that the rest of the reader sees one kind of record.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Ints, arrow, integers, nulls, texts
from pipeline.errors import printable
from pipeline.ingest import reader
from pipeline.ingest.formats.sacct import columns
from pipeline.ingest.formats.sacct.columns import Kind, Layout
from pipeline.ingest.formats.sacct.records import CLUSTER, ID, LINE, REASONS, STATE, ZONE, Context, chunk_of, fold
from pipeline.ingest.raw_table import RawTable
from pipeline.ingest.reader import STEPS, Chunk, Reader, Remarks, named, unreadable_row
from pipeline.ingest.sources import MAX_LINE_BYTES, Block, Source, head, line_blocks
from pipeline.ingest.values import decoded, truths
from pipeline.settings import IngestSettings, SiteSettings

BLOCK_BYTES = 1 << 22
"""Read at a time: what a block's spans and values take is some times that, and stays in the processor's reach."""

HEADER, BLANK, MESSAGE = "header", "blank", "comment"
_NO_RECORD = (HEADER, BLANK, MESSAGE)

Cells = list[bytes | None]
Found = tuple[int, int, Cells | str]
"""First and last line of a record, and its cells; or why it has none, the kinds of _NO_RECORD too."""


class Lines(NamedTuple):
    """Some lines: their bytes, where each starts and ends (its end left out), and which are a record as they stand."""

    data: bytes
    start: Ints
    end: Ints
    is_record: Bools

    def text(self, first: int, last: int) -> bytes:
        """The bytes from the start of a line to the end of another."""
        return self.data[self.start[first] : self.end[last]]


def read(source: Source, site: SiteSettings, settings: IngestSettings) -> Iterator[Chunk]:
    """A dump's chunks; InputError where the source is no dump, names no job ids, or is damaged."""
    context, start = Context(source, site, settings), head(source)
    # The columns that a line names hold from there on.
    layouts = [columns.find_layout(start, settings, f"{printable(source.label)}, line 1")]
    # What follows the last sure start of a record waits for the next block, so that a record that goes on is whole.
    for block in line_blocks(source, BLOCK_BYTES, lambda data: last_start(data, layouts[-1])):
        rest = block
        while rest.data:
            rows, lines = _plain(rest.data, layouts[-1])
            n_lines, n_bytes, other = _up_to_other_columns(lines, layouts[-1])
            if n_bytes:
                part = Block(rest.data[:n_bytes], rest.line, rest.offset, n_lines)
                own = Lines(part.data, lines.start[:n_lines], lines.end[:n_lines], lines.is_record[:n_lines])
                yield _chunk(part, own, rows.slice(0, int(own.is_record.sum())), layouts[-1], context)
            layouts.append(other)
            rest = Block(rest.data[n_bytes:], rest.line + n_lines, rest.offset + n_bytes, rest.n_lines - n_lines)


def _up_to_other_columns(lines: Lines, layout: Layout) -> tuple[int, int, Layout]:
    """How many lines and bytes come before a line that names other columns, and the layout from there on."""
    for line in np.flatnonzero(~lines.is_record).tolist():
        text = lines.text(line, line)
        if b"job" in text[:65536].lower() and layout.delimiter in text:
            other = columns.header_layout(text)
            if other is not None and (other.names, other.delimiter) != (layout.names, layout.delimiter):
                return line, int(lines.start[line]), other
    return len(lines.start), len(lines.data), layout


def _chunk(block: Block, lines: Lines, rows: pa.Table, layout: Layout, context: Context) -> Chunk:
    """The records of a block, those that are one as they stand in `rows`, and the account of its lines."""
    found, is_taken = _solved(lines, layout), np.zeros(len(lines.start), np.bool_)
    for first, last, _ in found:
        is_taken[first : last + 1] = True
    if context.settings.last_line == "set_aside" and not block.data.endswith(b"\n"):
        # Only the source's last line can lack its end. 36 of 3600 is a number too: nothing else tells that it was cut.
        end = len(is_taken) - 1
        found += [] if is_taken[end] else [(end, end, "")]
        found = [one if one[1] < end or one[2] in _NO_RECORD else (one[0], end, "cut_off") for one in found]
        is_taken[end] = True
    others = Counter(what for _, _, what in found if isinstance(what, str) and what in _NO_RECORD)
    others["continued"] = int(is_taken.sum()) - len(found)
    records = {first: (last, what) for first, last, what in found if not isinstance(what, str)}
    if is_taken.any():
        rows = rows.filter(arrow(~is_taken[integers(rows[LINE])[0]]))
    if records:
        own = {
            what: texts([decoded(cell) if (cell := cells[column]) else None for _, cells in records.values()])
            for what, column in layout.sources.items()
        }
        both = pa.concat_tables([rows, pa.table(own | {LINE: arrow(np.array([*records]))})]).combine_chunks()
        rows = both.take(pc.sort_indices(both, [(LINE, "ascending")]))
    line, remarks = integers(rows[LINE])[0], Remarks()
    unreadable = [
        unreadable_row(
            context.source, block.line + first, block.offset + int(lines.start[first]), what, lines.text(first, last)
        )
        for first, last, what in found
        if isinstance(what, str) and what not in _NO_RECORD
    ]
    raw = RawTable(
        rows.drop_columns(LINE), block.line + line, block.offset + lines.start[line], block.n_lines, len(block.data),
        unreadable, {name: n for name, n in others.items() if n},
    )  # fmt: skip

    def shown(row: int) -> bytes:
        first = int(line[row])
        return lines.text(first, records[first][0] if first in records else first)

    chunk = chunk_of(raw, shown, context, remarks)
    there, n_jobs = set(rows.column_names), chunk.jobs.num_rows
    remarks.update({f"{_MISSING}{name}": n_jobs for name, (tells, _) in _COSTS.items() if not tells & there})
    remarks.update({"put_together": len(records), "messages": others[MESSAGE]})
    return chunk


# ---------------- the records of a block

_NEAR_LINES = 64


def last_start(data: bytes, layout: Layout) -> int:
    """Where the last record surely starts: with a whole line after a whole line; 0: nowhere."""
    at = len(data)
    for _ in range(_NEAR_LINES):
        at = data.rfind(b"\n", 0, max(at - 1, 0)) + 1
    for begin in (at, 0):
        lines = _plain(data[begin:], layout)[1]
        sure = np.flatnonzero(lines.is_record[1:] & lines.is_record[:-1])
        if len(sure) or not begin:
            return begin + int(lines.start[sure[-1] + 1]) if len(sure) else 0
    return 0


def _plain(data: bytes, layout: Layout) -> tuple[pa.Table, Lines]:
    """The lines that are a record as they stand: with the right number of cells, an id and a state."""
    start, stop = reader.line_bounds(data)
    end = stop - ((stop > start) & (np.frombuffer(data + b"\n", np.uint8)[np.maximum(stop - 1, 0)] == ord("\r")))
    delimiter, text = layout.delimiter, data
    if len(delimiter) > 1:
        # Arrow takes one byte: one that stands nowhere in these lines.
        free = (bytes([byte]) for byte in (*range(1, 9), *range(14, 32), 127) if bytes([byte]) not in data)
        delimiter = next(free, b"\x1f")
        text = data.replace(layout.delimiter, delimiter)
    starts, bounds = (start, stop) if text is data else reader.line_bounds(text)
    places = np.flatnonzero(np.frombuffer(text, np.uint8) == delimiter[0])
    is_record = np.diff(np.searchsorted(places, bounds), prepend=0) == layout.n_delimiters
    for strange in (b"\r", *([b'"'] if layout.is_quoted else [])):
        if strange in text:
            at = np.flatnonzero(np.frombuffer(text, np.uint8) == strange[0])
            line = np.searchsorted(bounds, at)
            is_record[line[at + 1 < bounds[line]] if strange == b"\r" else line] = False
    rows = _split(reader.only_lines(text, starts, is_record), layout, delimiter)
    is_good = truths(pc.match_substring_regex(rows["id"], ID))
    if "state" in rows.column_names:
        is_good &= ~nulls(rows["state"])
    if layout.is_trailing:
        is_good &= nulls(rows[_BEHIND])
        rows = rows.drop_columns(_BEHIND)
    rows = rows.append_column(LINE, arrow(np.flatnonzero(is_record)))
    is_record[is_record] = is_good
    return rows if is_good.all() else rows.filter(arrow(is_good)).combine_chunks(), Lines(data, start, end, is_record)


_BEHIND = "behind"
"""What stands behind a delimiter at the end of a line: nothing, in a record."""


def _split(text: bytes, layout: Layout, delimiter: bytes) -> pa.Table:
    """The columns of lines that have as many cells as the layout, by what they tell; null where a cell is empty."""
    told = layout.sources | ({_BEHIND: len(layout.names)} if layout.is_trailing else {})
    if not text.strip():
        return pa.table({name: pa.nulls(0, pa.string()) for name in told})
    whole = text if text.isascii() else decoded(text).encode()
    kinds = dict.fromkeys(sorted(told.values()), pa.string())
    n_fields = len(layout.names) + layout.is_trailing
    found = reader.columns_of(pa.py_buffer(whole), n_fields, kinds, delimiter.decode("latin-1"), has_nulls=True)
    return pa.table({name: found[place] for name, place in told.items()})


# ---------------- lines that are no record as they stand
# Names that hold the delimiter or a line's end, headers, blanks, damage.
#
# A record is put together only where its columns fit in one way, and where no text of it holds a time: ids, times,
# durations, counts and states must stand where the layout says, and only free text (job name, comment, folder, submit
# line...) may take the surplus. Else it is set aside: where the columns beside a name are texts too, a name with
# a delimiter and a line with a field too many look alike.

MAX_SURPLUS = 100
MAX_LINES = 200
MAX_LOOSE = 8
"""Lines before a whole one that are tried as the beginning of its record."""

_STAMP = re.compile(columns.STAMP.encode())


def _solved(lines: Lines, layout: Layout) -> list[Found]:
    """What the lines hold that are no record, some of them together with the records beside them."""
    odd = np.flatnonzero(~lines.is_record)
    says = np.array([columns.is_message(lines.text(line, line)[:16]) for line in odd.tolist()], np.bool_)
    recorded, found, odd, said = np.flatnonzero(lines.is_record), list[Found](), odd[~says], odd[says]
    n_before = np.searchsorted(recorded, odd)
    for run in np.split(odd, np.flatnonzero(np.diff(n_before)) + 1) if len(odd) else ():
        n_rows = int(np.searchsorted(recorded, run[0]))
        # Lines behind a record may go on with the text of its last column, and end with what looks like a whole one.
        leads = n_rows > 0 and layout.kinds[-1].is_wide and (not found or recorded[n_rows - 1] > found[-1][1])
        numbers = [*recorded[n_rows - leads : n_rows].tolist(), *run.tolist(), *recorded[n_rows : n_rows + 1].tolist()]
        own, n_own, at = [lines.text(number, number) for number in numbers], len(run) + leads, 0
        solved = list[Found]()
        while at < n_own:
            if not own[at].strip():
                solved.append((at, at, BLANK))
            elif _is_header(own[at], layout):
                solved.append((at, at, HEADER))
            else:
                solved.append((at, *_record(own[:n_own], at, layout)))
            at = solved[-1][1] + 1
        # Where the whole record behind may be the end of theirs, it and they are set aside together.
        for place in range(max(len(solved) - MAX_LOOSE, 0), len(solved) if own[n_own:] else 0):
            first, _, what = solved[place]
            if what == "too_few_fields" and solve(b"\n".join(own[first:]), layout) not in (None, "joined_records"):
                solved[place:] = [(first, n_own, "ambiguous_fields")]
                break
        solved = solved[1:] if leads and solved[0][1] == 0 else solved
        found += [(numbers[first], numbers[last], what) for first, last, what in solved]
    return [*found, *((line, line, MESSAGE) for line in said.tolist())]


def _is_header(line: bytes, layout: Layout) -> bool:
    """Whether a line names the layout's columns once more."""
    cells = line.split(layout.delimiter)
    is_like = len(cells) == layout.n_delimiters + 1 and b"job" in line.lower()
    return is_like and tuple(map(columns.column_name, cells[: len(layout.names)])) == layout.names


def _record(lines: Sequence[bytes], at: int, layout: Layout) -> tuple[int, Cells | str]:
    """The last line of the record that starts here, and its cells or why it is unreadable.

    It takes the fewest lines that make one, and those behind them that go on with the text of its last column.
    """
    if len(lines[at]) > MAX_LINE_BYTES:
        return at, "line_too_long"
    is_begun = layout.fits[0](lines[at].split(layout.delimiter, 1)[0].strip(b'"' if layout.is_quoted else b"\n"))
    found, last, n_delimiters, n_bytes = None, at, 0, 0
    for last in range(at, min(at + MAX_LINES, len(lines)) if is_begun else at):
        n_delimiters, n_bytes = n_delimiters + lines[last].count(layout.delimiter), n_bytes + len(lines[last])
        if n_delimiters > layout.n_delimiters + MAX_SURPLUS or n_bytes > MAX_LINE_BYTES:
            break
        if n_delimiters >= layout.n_delimiters:
            found = solve(b"\n".join(lines[at : last + 1]), layout)
            # Several records that begin in lines of their own are read, or set aside, one by one.
            if found == "joined_records" and any(_is_begun(line, layout) for line in lines[at + 1 : last + 1]):
                found = None
        if found is not None:
            break
    if found is None:
        return at, _why_not(lines[at], layout)
    end = last
    if layout.kinds[-1].is_wide and not isinstance(found, str):
        behind = range(last + 1, min(last + 1 + MAX_LINES, len(lines)))
        more = takewhile(lambda place: not _is_of_another(lines[place], layout), behind)
        end = max((place for place in more if lines[place].strip()), default=last)
    longer = solve(b"\n".join(lines[at : end + 1]), layout) if end > last else None
    return (end, longer) if isinstance(longer, list) else (last, found)


def _is_begun(line: bytes, layout: Layout) -> bool:
    """Whether a line begins like a record."""
    first, delimiter, _ = line.partition(layout.delimiter)
    return bool(first and delimiter and layout.fits[0](first))


def _is_of_another(line: bytes, layout: Layout) -> bool:
    """Whether a line begins like a record, or holds a time as records do."""
    return _is_begun(line, layout) or _STAMP.search(line) is not None or _is_header(line, layout)


def solve(text: bytes, layout: Layout) -> Cells | str | None:
    """The cells of one record's text, None for those of OPTIONAL that cannot be told; or a reason; None: no record."""
    tokens = _tokens(text, layout)
    is_cut = layout.is_trailing and tokens.pop() != b""
    # The one byte that Slurm takes in no text: a crash has left it.
    spans = None if is_cut or b"\0" in text else _spans(tokens, layout)
    if spans is None:
        return None
    n, surplus, fits = len(spans), len(tokens) - len(spans), layout.fits
    cells = [layout.delimiter.join(tokens[slice(*own.pop())]) if len(own) == 1 else None for own in spans]
    texts = [cell for cell in cells if cell and (b"\n" in cell or (surplus and layout.delimiter in cell))]
    if any(map(_STAMP.search, texts)):
        return "joined_records"
    # Columns before `end` fit as they stand, and those from `begin` on where the surplus comes before them: it may be
    # damage that came in anywhere between the two, beside a text that holds no delimiter.
    end = next((column for column in range(n) if not fits[column](tokens[column])), n)
    begin = next((column + 1 for column in reversed(range(n)) if not fits[column](tokens[column + surplus])), 0)
    for column in range(begin, end):
        if tokens[column] != tokens[column + surplus] and not layout.kinds[column].is_wide:
            cells[column] = None
    needed = (column for what, column in layout.sources.items() if what not in columns.OPTIONAL)
    return "ambiguous_fields" if any(cells[column] is None for column in needed) else cells


def _spans(tokens: Sequence[bytes], layout: Layout) -> list[set[tuple[int, int]]] | None:
    """For each column the tokens (from, to) that it takes in the readings that fit; None where there is none."""
    surplus, reached, spans = len(tokens) - len(layout.names), {0}, list[set[tuple[int, int]]]()
    if not 0 <= surplus <= MAX_SURPLUS:
        return None
    for column, (kind, fits) in enumerate(zip(layout.kinds, layout.fits, strict=True)):
        is_any, is_wide = layout.is_quoted and not surplus and kind.is_text, surplus > 0 and kind.is_wide
        own = [(column + low, column + low + 1) for low in reached]
        if is_wide:
            own = [(start, column + high + 1) for start, _ in own for high in range(start - column, surplus + 1)]
        spans.append({span for span in own if is_any or fits(layout.delimiter.join(tokens[slice(*span)]))})
        reached = {end - column - 1 for _, end in spans[-1]}
    ends = {len(tokens)}
    for column, fitting in reversed([*enumerate(spans)]):
        spans[column] = {(start, end) for start, end in fitting if end in ends}
        ends = {start for start, _ in spans[column]}
    return spans if ends else None


def _tokens(text: bytes, layout: Layout) -> list[bytes]:
    """What stands between the delimiters; in the way of spreadsheets, `"a, b"` is one value and `""` a quote."""
    if layout.is_quoted and b'"' in text and len(layout.delimiter) == 1:
        lines = io.StringIO(text.decode("latin-1"), newline="")
        with suppress(csv.Error):
            rows = list(csv.reader(lines, delimiter=layout.delimiter.decode("latin-1"), strict=True))
            if len(rows) == 1:
                return [cell.encode("latin-1") for cell in rows[0]]
    return text.split(layout.delimiter)


def _why_not(line: bytes, layout: Layout) -> str:
    """Why a line by itself is no record."""
    cells = line.split(layout.delimiter)
    if len(cells) != layout.n_delimiters + 1:
        return "too_few_fields" if len(cells) <= layout.n_delimiters else "too_many_fields"
    odd = (kind for kind, fits, cell in zip(layout.kinds, layout.fits, cells, strict=False) if not fits(cell))
    return columns.REASONS.get(next(odd, Kind.OTHER), "not_a_record")


# ---------------- what a person should know of a dump

_MISSING = "missing "
_COSTS = {
    "Submit": ({"submit_s"}, "cleaning sets them aside (impossible_times)"),
    "Start": ({"start_s"}, "when they ran and how long they waited is unknown"),
    "End": ({"end_s"}, "when they ended is unknown"),
    "Elapsed": ({"runtime_s"}, "their runtime is End - Start, less Suspended where that is known"),
    "State": ({"state"}, "which of them failed or were cancelled is unknown"),
    "AllocCPUS": ({"procs", "requested_procs"}, "their processors are unknown: cleaning sets them aside (no_procs)"),
    "Timelimit": ({"limit_min", "requested_s"}, "the time they requested is unknown"),
    "User": ({"user"}, "jobs of different users are not told apart"),
}  # fmt: skip
"""By column what tells as much, and what a dump costs that has none of it."""

_SENTENCES = {
    "ambiguous_times": "{n} local time{s} came twice when clocks went back: each is read as the first (export with "
    "TZ=UTC to tell)",
    "settled_times": "{n} local time{s} came twice when clocks went back and could be settled by Elapsed",
    "skipped_times": "{n} local times never were, because clocks went forward: each is read as the time after (is "
    "site.timezone right?)",
    "slashed_times": "{n} dates are written with slashes and read {order} first (ingest.day_first)",
    "messages": "skipped {n} line{s} that sacct wrote to stderr (`sacct: error: ...`): the dump may lack jobs; export "
    "again without 2>&1",
    "put_together": "{n} records hold the delimiter or a line's end in a text and were put together by where their "
    "columns fit",
    "odd_energies": "{n} energies are no number of joules, as in 101630 or 4.58M: each is unknown (ConsumedEnergyRaw, "
    "ConsumedEnergy)",
}


def notes(remarks: Remarks, settings: IngestSettings) -> list[str]:
    """One sentence for each thing a person should know before trusting times, states and sizes."""

    order = "day" if settings.day_first else "month"
    found = [
        sentence.format(n=remarks[name], s=_plural(remarks[name]), order=order)
        for name, sentence in _SENTENCES.items()
        if remarks[name]
    ]
    for column, n in named(remarks, _MISSING).items():
        found.append(f"{n} job{_plural(n)} come from a dump with no {column} column: {_COSTS[column][1]}")
    found += [
        f"times without a zone are read as of {printable(zone, 60)} (site.timezone)" for zone in named(remarks, ZONE)
    ]
    if len(clusters := named(remarks, CLUSTER)) > 1:
        listed = ", ".join(f"{printable(name, 30)} ({n})" for name, n in list(clusters.items())[:8])
        found.append(
            f"jobs of {len(clusters)} clusters are told apart by the column cluster and learnt from as those of one "
            f"site: {listed}"
        )
    if strange := {name: n for name, n in named(remarks, STATE).items() if name not in columns.STATES}:
        listed = ", ".join(f"{printable(name, 30)} ({n})" for name, n in list(strange.items())[:8])
        found.append(f"states that Slurm's manual does not name are kept as they are: {listed}")
    return found


def _plural(n: int) -> str:
    return "" if n == 1 else "s"


_ADVICE = {
    "time_without_date": "export again without SLURM_TIME_FORMAT",
    "ambiguous_fields": "export again with a --delimiter that no name holds, and set ingest.delimiter",
    "cut_off": 'export again, or set ingest.last_line = "take" if the dump is surely whole',
    "not_a_time": "export again without SLURM_TIME_FORMAT, or set ingest.day_first for dates as 31/12/2026",
}


SACCT = Reader(
    "sacct", columns.EXPECTS, REASONS, ("submit_s",), columns.looks_right, read, notes, parts=STEPS, fold=fold,
    layout=columns.inspected_columns, advice=_ADVICE, told=columns.told,
)  # fmt: skip
