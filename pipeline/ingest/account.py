"""What ingest has taken in so far, and the report made of it."""

import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import proc_seconds
from pipeline.core.report import Fact, Report, Tally
from pipeline.core.settings import IngestSettings, SiteSettings
from pipeline.core.tables import JOBS, UNREADABLE
from pipeline.core.text import printable
from pipeline.ingest.reader import Chunk, Reader, Remarks
from pipeline.ingest.sources import Source

_NUMBER = re.compile(r"\d{1,15}")
_COUNTED = ("max_procs", "max_nodes")


@dataclass(slots=True)
class Account:
    """Tables and tallies of the chunks so far; sources come in the order of their labels."""

    jobs: list[pa.Table] = field(default_factory=list)
    unreadable: list[pa.Table] = field(default_factory=list)
    lines: Counter[str] = field(default_factory=Counter)
    remarks: Remarks = field(default_factory=Remarks)
    header: dict[str, str] = field(default_factory=dict)
    labels: dict[str, None] = field(default_factory=dict)
    passed_over: list[str] = field(default_factory=list)
    n_lines: int = 0
    n_bytes: int = 0
    proc_s: float = 0.0

    def add(self, source: Source, chunk: Chunk) -> None:
        """Take in one chunk."""
        self.labels[source.label] = None
        self.jobs.append(chunk.jobs)
        self.unreadable.append(chunk.unreadable)
        self.lines.update(chunk.lines)
        self.remarks.update(chunk.remarks)
        self.n_lines += chunk.n_lines
        self.n_bytes += chunk.n_bytes
        self.proc_s += float(proc_seconds(chunk.jobs).sum())
        for name, value in chunk.header.items():
            self._add_header(name, value)

    def all_jobs(self) -> pa.Table:
        """Every chunk's jobs together."""
        return pa.concat_tables(self.jobs or [JOBS.empty()])

    def all_unreadable(self) -> pa.Table:
        """Every unreadable line, by file and line."""
        return UNREADABLE.check(pa.concat_tables([*self.unreadable, UNREADABLE.empty()]))

    def _add_header(self, name: str, value: str) -> None:
        """The largest of a size, and of anything else the first said."""
        if name not in _COUNTED:
            self.header.setdefault(name, value)
        elif number := _NUMBER.search(value):
            self.header[name] = str(max(int(number[0]), int(self.header.get(name, 0))))


def report(
    account: Account,
    reader: Reader,
    jobs: pa.Table,
    superseded: pa.Table,
    unreadable: pa.Table,
    n_reused_ids: int,
    site: SiteSettings,
    settings: IngestSettings,
) -> Report:
    """The stage's account, checked: lines seen = jobs + comments + blanks + superseded + unreadable by reason."""
    reasons = Counter(unreadable["reason"].cast(pa.string()).to_pylist())
    set_aside = {name: Tally(n) for name, n in sorted(account.lines.items())}
    set_aside["superseded"] = Tally(superseded.num_rows, float(proc_seconds(superseded).sum()))
    set_aside |= {reason: Tally(reasons[reason]) for reason in reader.reasons if reasons[reason]}
    return Report(
        "ingest",
        "line",
        seen=Tally(account.n_lines, account.proc_s),
        kept=Tally(jobs.num_rows, float(proc_seconds(jobs).sum())),
        set_aside=set_aside,
        facts=_facts(account, reader, jobs, site),
        notes=(
            *_unreadable_notes(unreadable, reader),
            *_record_notes(superseded.num_rows, n_reused_ids),
            *reader.notes(account.remarks, settings),
            *account.passed_over,
        ),
    ).check()


def _facts(account: Account, reader: Reader, jobs: pa.Table, site: SiteSettings) -> dict[str, Fact]:
    said: dict[str, Fact] = {k: v for k, v in sorted(account.header.items()) if k not in _COUNTED}
    counted: dict[str, Fact] = {k: int(v) for k, v in sorted(account.header.items()) if k in _COUNTED}
    if site.max_procs is not None:
        counted["max_procs"] = site.max_procs
    span = pc.min_max(jobs["submit_s"]).as_py()
    return {
        "format": reader.name,
        "files": len(account.labels),
        "bytes": account.n_bytes,
        "jobs": jobs.num_rows,
        "first_submit_s": span["min"],
        "last_submit_s": span["max"],
        **counted,
        **said,
    }


def _unreadable_notes(unreadable: pa.Table, reader: Reader) -> list[str]:
    """One sentence a reason, with the first place where it was met."""
    reasons = np.array(unreadable["reason"].cast(pa.string()).to_pylist(), dtype=object)
    notes = []
    for reason in reader.reasons:
        places = np.flatnonzero(reasons == reason)
        if len(places):
            row = unreadable.slice(int(places[0]), 1).to_pylist()[0]
            n_lines = "1 line is" if len(places) == 1 else f"{len(places)} lines are"
            notes.append(f"{n_lines} set aside as unreadable, the first at {explained(row)}, expected {reader.expects}")
    return notes


def explained(row: dict[str, object]) -> str:
    """Where an unreadable line stands and what was found there."""
    where = f"{printable(str(row['source_file']))}, line {row['source_line']}"
    return f"{where}: found {str(row['reason']).replace('_', ' ')} in '{printable(str(row['raw']), 60)}'"


def _record_notes(n_superseded: int, n_reused_ids: int) -> list[str]:
    notes = []
    if n_superseded:
        notes.append(f"{n_superseded} records were read before (overlapping logs): the later-ending of each is kept")
    if n_reused_ids:
        notes.append(f"{n_reused_ids} job ids stand for several jobs or executions, told apart by restart")
    return notes
