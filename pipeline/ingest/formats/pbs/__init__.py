"""Reads the accounting files of OpenPBS, PBS Professional and TORQUE.

Source: PBS Professional 2024.1 Administrator's Guide, 12.4 "Types of Accounting Log Records"; TORQUE 6.1 Administrator
Guide, "Accounting records". A record is a line `MM/DD/YYYY HH:MM:SS;TYPE;ID;key=value ...`. Read are Q (queued), S
(started), R (rerun), E (ended), D (deleted), A (aborted) and z (suspended); all others are counted by type, and so are
the records of an array as a whole (`170[].server`): its jobs are `170[0].server` and so on.

What is read although the guides do not say so: values with blanks, quotes, `=` and `;` in account, project and job
name, and blanks in names of users, groups and queues, as PBS writes them without escapes; records that were wrapped
over several lines (a line without a date that starts with `key=`); CRLF; blank lines. What is set aside although it is
a record: one that a crash has cut, or that is still being written (records.py).

A job's id keeps its server (`1.pbshead`): two servers' logs in one folder give different jobs, and the id is what qstat
takes. Instants are the record's own epoch seconds; its date, which is local time (`site.timezone`), counts only where
it has none. Memory and CPU time, which PBS tells per job, are shared out over the processors. Nodes are the distinct
hosts of exec_host. A project stands in for an account that is missing, unless it is PBS's default.
"""

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Ints, arrow, integers
from pipeline.ingest.formats.pbs.fields import KEYS, PARTS, TypedRecords, typed
from pipeline.ingest.formats.pbs.fold import fold, pruned
from pipeline.ingest.formats.pbs.records import N_SIGNS, NAMED, TOLD, RareSigns
from pipeline.ingest.formats.pbs.scan import REASONS, scan
from pipeline.ingest.reader import (
    NO_LINE_END,
    RAW_CHARACTERS,
    Chunk,
    Layout,
    Reader,
    Remarks,
    jobs_table,
    unreadable_row,
    unreadable_table,
)
from pipeline.ingest.sources import Block, Source, head, line_blocks
from pipeline.ingest.values import decoded
from pipeline.settings import IngestSettings, SiteSettings

EXPECTS = "PBS accounting: lines of MM/DD/YYYY HH:MM:SS;TYPE;ID;key=value ..."
BLOCK_BYTES = 1 << 23
MOST_DOUBTFUL = 10_000
"""Of one file: what more records have is no sign of damage."""

_RECORD = re.compile(rb"^[ \t]*\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z];", re.MULTILINE)
_DATED = re.compile(rb"[ \t\r]*\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;")
_KEY = re.compile(rb"(?:^|[ ;])([A-Za-z_]+(?:\.[A-Za-z_]+)?)=", re.MULTILINE)


def looks_right(head: bytes) -> bool:
    """Whether one of the first lines is a record; the server's own log has a longer type there."""
    return _RECORD.search(head) is not None


def read(source: Source, site: SiteSettings, settings: IngestSettings) -> Iterator[Chunk]:
    """A file's records as `parts`; InputError where it is no accounting file, or damaged, or no line may be."""
    doubtful = _Doubtful()
    for block in line_blocks(source, BLOCK_BYTES, _last_record):
        scanned = scan(block.data, block.n_lines)
        records = typed(
            scanned, source.label, block.line, site.timezone, takes_last=settings.last_line == "take"
        )  # fmt: skip
        bad = np.concatenate([scanned.bad, records.bad])
        unreadable = _rows(source, block, bad[np.argsort(bad[:, 0], kind="stable")])
        records.remarks["no_line_end"] += sum(row["reason"] == "no_line_end" for row in unreadable)
        records.remarks["joined"] += scanned.n_joined
        sure = doubtful.hold(records, source, block)
        parts, told_elsewhere = pruned(sure)
        yield Chunk(
            jobs_table(0),
            unreadable_table(unreadable),
            {**scanned.lines, **told_elsewhere},
            block.n_lines + scanned.n_joined - (records.parts.num_rows - sure.num_rows),
            len(block.data),
            records.remarks,
            parts=parts,
        )
    if doubtful.rows:
        yield doubtful.chunk()


class _Doubtful:
    """Records with a sign of damage, until the whole file tells whether it is rare."""

    def __init__(self) -> None:
        self._signs = RareSigns()
        self._parts, self.rows = list[pa.Table](), list[dict[str, object]]()
        self._odd = np.zeros((N_SIGNS, 0), np.bool_)

    def hold(self, records: TypedRecords, source: Source, block: Block) -> pa.Table:
        """Take the doubtful ones of some records; the others."""
        self._signs.count(integers(records.parts["kind"])[0], records.could, records.odd)
        is_held: Bools = np.logical_or.reduce(records.odd)
        if not is_held.any() or len(self.rows) > MOST_DOUBTFUL:
            return records.parts
        self._parts.append(records.parts.filter(arrow(is_held)))
        self._odd = np.concatenate([self._odd, records.odd[:, is_held]], axis=1)
        place = records.place[is_held]
        place[:, 3] = REASONS.index("cut_short") + 1
        self.rows += _rows(source, block, place)
        return records.parts.filter(arrow(~is_held))

    def chunk(self) -> Chunk:
        """The records held, and those of them that are damaged."""
        parts = pa.concat_tables(self._parts)
        for sign, column in enumerate(NAMED.values(), len(TOLD)):
            # Two records do not run together in the same bytes: a name that comes again is a name.
            odd = self._odd[sign]
            names = parts[column].cast(pa.string()).filter(arrow(odd)).to_pylist()
            n_times = Counter(names)
            odd[odd] = [n_times[name] == 1 for name in names]
        bad = self._signs.are_damaged(integers(parts["kind"])[0], self._odd)
        if len(self.rows) > MOST_DOUBTFUL:
            bad[:] = False
        rows = [self.rows[row] for row in np.flatnonzero(bad)]
        return Chunk(
            jobs_table(0), unreadable_table(rows), {}, len(self.rows), 0, parts=parts.filter(arrow(~bad))
        )  # fmt: skip


def _last_record(data: bytes) -> int:
    """Where the last line that starts a record begins; 0 where none but the first does."""
    at = len(data) - data.endswith(b"\n")
    while True:
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return 0
        if _DATED.match(data, at + 1):
            return at + 1


def _rows(source: Source, block: Block, bad: Ints) -> list[dict[str, object]]:
    return [
        unreadable_row(
            source, block.line + line, block.offset + start, REASONS[reason - 1],
            block.data[start : min(end, start + 4 * RAW_CHARACTERS)].rstrip(b"\r"),
        )
        for line, start, end, reason in bad.tolist()
    ]  # fmt: skip


_SENTENCES = {
    "odd_values": "{n} values (times, memory, nodes) are in no form PBS documents and left unknown",
    "ambiguous_times": "{n} dates came twice when clocks went back and stand for an instant that the record lacks: "
    "each is read as the first",
    "settled_times": "{n} dates came twice when clocks went back and could be settled by walltime",
    "no_line_end": NO_LINE_END,
    "joined": "{n} lines hold a record that was cut and a whole one behind it, and count as two",
}
_OTHER_ZONE = (
    "the dates of most records are not the instants they tell: set site.timezone to the log's zone (it matters where a "
    "record has no instant of its own: deleted, and in TORQUE queued and rerun jobs)"
)


def notes(remarks: Remarks, _settings: IngestSettings) -> list[str]:
    """One sentence for each thing a person should know before trusting times and counts."""
    said = [_OTHER_ZONE] if 2 * remarks["dated_off"] > remarks["dated"] else []
    return said + [sentence.format(n=remarks[name]) for name, sentence in _SENTENCES.items() if remarks[name]]


def layout(source: Source, _site: SiteSettings, _settings: IngestSettings) -> Layout:
    """The keys that a source's first records have, for `walltime ingest --dry-run`."""
    there = dict.fromkeys(decoded(key) for key in _KEY.findall(head(source)))
    found = tuple(key for key in there if key in KEYS)
    missing = tuple(key for key in KEYS if key not in there)
    return Layout(found, missing, tuple(key for key in there if key not in KEYS))


PBS = Reader(
    "pbs", EXPECTS, REASONS, ("submit_s", "start_s"), looks_right, read, notes, parts=PARTS, fold=fold, layout=layout
)  # fmt: skip
