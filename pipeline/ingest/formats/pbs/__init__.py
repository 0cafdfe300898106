"""Reads the accounting files of OpenPBS, PBS Professional and TORQUE.

Source: PBS Professional 2024.1 Administrator's Guide, 12.4 "Types of Accounting Log Records"; TORQUE 6.1 Administrator
Guide, "Accounting records". A record is a line `MM/DD/YYYY HH:MM:SS;TYPE;ID;key=value ...`. Read are Q (queued), S
(started), R (rerun), E (ended), D (deleted), A (aborted) and z (suspended); all others are counted by type, and so are
the records of an array as a whole (`170[].server`): its jobs are `170[0].server` and so on.

What is read although the guides do not say so: values with blanks, quotes, `=` and `;` in account, project and job
name, and blanks in names of users, groups and queues, as PBS writes them without escapes; records that were wrapped
over several lines (a line without a date that starts with `key=`); CRLF; blank lines. What is set aside although it is
a record: one that a crash has cut, or that is still being written (damage.py).

A job's id keeps its server (`1.pbshead`): two servers' logs in one folder give different jobs, and the id is what qstat
takes. Instants are the record's own epoch seconds; its date, which is local time (`site.timezone`), counts only where
it has none. Memory and CPU time, which PBS tells per job, are shared out over the processors. Nodes are the distinct
hosts of exec_host. A project stands in for an account that is missing, unless it is PBS's default.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pipeline.ingest.formats.pbs.damage import N_SIGNS
from pipeline.ingest.formats.pbs.fields import KEYS, PARTS, typed
from pipeline.ingest.formats.pbs.fold import fold
from pipeline.ingest.formats.pbs.scan import REASONS, scan
from pipeline.ingest.reader import (
    NO_LINE_END,
    Chunk,
    Layout,
    Reader,
    Remarks,
    jobs_table,
    unreadable_rows,
    unreadable_table,
)
from pipeline.ingest.sources import Block, Source, head, line_blocks
from pipeline.ingest.values import decoded
from pipeline.settings import IngestSettings, SiteSettings

EXPECTS = "PBS accounting: lines of MM/DD/YYYY HH:MM:SS;TYPE;ID;key=value ..."
BLOCK_BYTES = 1 << 24

_RECORD = re.compile(rb"^[ \t]*\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;[A-Za-z];", re.MULTILINE)
_DATED = re.compile(rb"[ \t\r]*\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;")
_KEY = re.compile(rb"(?:^|[ ;])([A-Za-z_]+(?:\.[A-Za-z_]+)?)=", re.MULTILINE)


def looks_right(head: bytes) -> bool:
    """Whether one of the first lines is a record; the server's own log has a longer type there."""
    return _RECORD.search(head) is not None


def read(source: Source, site: SiteSettings, settings: IngestSettings) -> Iterator[Chunk]:
    """A file's records as `parts`; InputError where it is no accounting file, or damaged, or no line may be."""
    signs = np.zeros((2, 2, N_SIGNS), np.int64)
    for block in _blocks(source):
        scanned = scan(block.data)
        parts, bad, remarks = typed(
            scanned, signs, source.label, block.line, site.timezone, takes_last=settings.last_line == "take"
        )  # fmt: skip
        bad = np.concatenate([scanned.bad, bad])
        unreadable = unreadable_rows(source, block, bad[np.argsort(bad[:, 0], kind="stable")], REASONS)
        remarks["no_line_end"] += sum(row["reason"] == "no_line_end" for row in unreadable)
        remarks["joined"] += scanned.n_joined
        n_records, table = block.n_lines + scanned.n_joined, unreadable_table(unreadable)
        yield Chunk(jobs_table(0), table, scanned.lines, n_records, len(block.data), remarks, parts=parts)


def _blocks(source: Source) -> Iterator[Block]:
    """A source's blocks of whole records, the last one with what is left of the source behind it.

    What is rare in a file is told from the records up to a block's end: few alone would tell too little.
    """
    before: Block | None = None
    for block in line_blocks(source, BLOCK_BYTES, _last_record):
        is_rest = len(block.data) < BLOCK_BYTES // 2
        if before and is_rest and len(before.data) < 2 * BLOCK_BYTES and not before.n_dropped:
            data, n_lines = before.data + block.data, before.n_lines + block.n_lines
            before = replace(before, data=data, n_lines=n_lines, n_dropped=block.n_dropped)
            continue
        if before:
            yield before
        before = block
    if before:
        yield before


def _last_record(data: bytes) -> int:
    """Where the last line that starts a record begins; 0 where none but the first does."""
    at = len(data) - data.endswith(b"\n")
    while True:
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return 0
        if _DATED.match(data, at + 1):
            return at + 1


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
