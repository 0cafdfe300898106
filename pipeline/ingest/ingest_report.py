"""Counts what ingest has read and what became of it, and reports both."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Floats, arrow, integers, proc_seconds
from pipeline.errors import InputError, printable
from pipeline.ingest.jobs_tables import EarlierTable
from pipeline.ingest.privacy import unquoted
from pipeline.ingest.reader import NO_RECORD, READ_AGAIN, Chunk, Folded, Reader, Remarks
from pipeline.ingest.records import PARTIAL
from pipeline.ingest.sources import Source
from pipeline.report import Fact, Report, Tally
from pipeline.settings import IngestSettings, SiteSettings

ALL = ""
"""Stands for all logs of a run together, beside each of them by its label."""

TOLD_SHARE = 1e-3
LEAST_DAMAGED = 20
"""Records of a log, damaged in one way: fewer tell no share. A hundredth of a log of 2,000 records is so many."""

_NUMBER = re.compile(r"\d{1,15}")
_COUNTED = ("max_procs", "max_nodes")


@dataclass(slots=True)
class Account:
    """Tallies of the chunks so far, and of the jobs made of them; sources come in the order of their labels.

    n: lines, bytes, jobs, superseded readings, and reused_ids and indistinct as `_NOTES` says. records, damaged: by
    label (and ALL), format and reason. proc_s: processor-seconds of jobs and of superseded readings, kept exactly, so
    that their sums depend on no order.
    """

    site: SiteSettings
    readers: dict[str, Reader] = field(default_factory=dict)
    earlier: EarlierTable | None = None
    n: Counter[str] = field(default_factory=Counter)
    lines: Counter[str] = field(default_factory=Counter)
    remarks: dict[str, Remarks] = field(default_factory=dict)
    header: dict[str, str] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    passed_over: list[str] = field(default_factory=list)
    records: Counter[tuple[str, str]] = field(default_factory=Counter)
    damaged: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    first_unreadable: dict[tuple[str, str], dict[str, object]] = field(default_factory=dict)
    proc_s: Fraction = Fraction(0)
    superseded_proc_s: Fraction = Fraction(0)
    submits_s: tuple[int, ...] = ()

    def add(self, source: Source, reader: Reader, chunk: Chunk, unreadable: pa.Table) -> None:
        """Take in one chunk; unreadable: its lines, as they may be shown."""
        self.labels.add(source.label)
        self.lines.update(chunk.lines)
        self.remarks.setdefault(reader.name, Remarks()).update(chunk.remarks)
        self.n.update(lines=chunk.n_lines, bytes=chunk.n_bytes)
        for name, value in chunk.header.items():
            # The largest of a size, and of anything else the first said.
            if name not in _COUNTED:
                self.header.setdefault(name, value)
            elif number := _NUMBER.search(value):
                self.header[name] = str(max(int(number[0]), int(self.header.get(name, 0))))
        n_records = chunk.n_lines - sum(chunk.lines.get(name, 0) for name in NO_RECORD)
        reasons = unreadable.column("reason").cast(pa.string()).to_pylist()
        for label in (source.label, ALL):
            self.records[label, reader.name] += n_records
            self.damaged.update((label, reader.name, reason) for reason in reasons)
        for row, reason in enumerate(reasons):
            if (reader.name, reason) not in self.first_unreadable:
                self.first_unreadable[reader.name, reason] = unreadable.slice(row, 1).to_pylist()[0]

    def fold(self, reader: Reader, folded: Folded) -> None:
        """Take in what became of the partial records of some ids."""
        self.lines.update(folded.lines)
        self.remarks.setdefault(reader.name, Remarks()).update(folded.remarks)

    def settle(self, jobs: pa.Table, superseded: pa.Table) -> None:
        """Take in jobs, all of an id together, and records of which another reading was kept."""
        # Of several whole jobs of the site with one id the second has restart 1.
        seconds = jobs.select(["site", "state"]).filter(arrow(integers(jobs["restart"])[0] == 1)).to_pylist()
        n_reused = sum(job["site"] == self.site.name and job["state"] != PARTIAL for job in seconds)
        n_indistinct = _indistinct(jobs, superseded)
        self.n.update(jobs=jobs.num_rows, superseded=superseded.num_rows, reused_ids=n_reused, indistinct=n_indistinct)
        self.proc_s += _exact_sum(proc_seconds(jobs))
        self.superseded_proc_s += _exact_sum(proc_seconds(superseded))
        known = [t for t in (*self.submits_s, *pc.min_max(jobs["submit_s"]).as_py().values()) if t is not None]
        self.submits_s = (min(known), max(known)) if known else ()

    def most_damaged(self, key: tuple[str, str], least: int = 1) -> tuple[str, float]:
        """Of one way of damage the log that has the largest share of its records so (or all logs), and that share.

        Only logs with at least so many damaged records are asked; a share of 0 where there is none.
        """
        shares = [
            (n / self.records[label, key[0]], label)
            for (label, *of), n in self.damaged.items()
            if tuple(of) == key and n >= least
        ]
        share, label = max(shares, default=(0.0, ALL))
        return label, share

    def reasons(self) -> list[tuple[str, str]]:
        """Format and reason of what was unreadable, in the formats' order, then the reader's order of reasons."""
        known = [(name, reason) for name, reader in self.readers.items() for reason in reader.reasons]
        return [key for key in dict.fromkeys([*known, *sorted(self.first_unreadable)]) if key in self.first_unreadable]


class DamagedError(InputError):
    """A log of which too many records look damaged in one way: the fault may lie with the reader and not the log."""

    exit_code = 4


def check_account(account: Account, most: float) -> None:
    """InputError where there is no job.

    DamagedError where a log, or all logs together, have a larger share of records that look damaged in one way.
    """
    if not account.n["jobs"]:
        where = ", ".join(printable(label) for label in sorted(account.labels)[:3])
        found, do = f"no job in {account.n['lines']} lines", "check that the export ran"
        if any(reason == "no_line_end" for _, reason in account.first_unreadable):
            found += ", and a last line without a line end"
            do = READ_AGAIN
        raise InputError(where, found, "; or ".join(reader.expects for reader in account.readers.values()), do)
    for key in account.reasons():
        label, share = account.most_damaged(key, LEAST_DAMAGED)
        if share > most:
            n, of = account.damaged[label, *key], account.records[label, key[0]]
            found = f"{n:,} of {of:,} records ({share:.1%}) that look damaged in one way, the first at "
            found += _explained(account.first_unreadable[key])
            do = "see what is wrong with them; if they may be set aside, raise ingest.max_damaged"
            where = printable(label) or "the logs"
            raise DamagedError(where, found, f"at most {most:.1%} (ingest.max_damaged)", do)


def report(account: Account, settings: IngestSettings) -> Report:
    """The stage's account, checked: lines (and rows of an earlier table) seen = jobs + set aside + unreadable."""
    n, earlier = account.n, account.earlier
    set_aside = {name: Tally(n_lines) for name, n_lines in sorted(account.lines.items())}
    set_aside["superseded"] = Tally(n["superseded"], float(account.superseded_proc_s))
    for _, reason in account.reasons():
        set_aside[reason] = Tally(sum(account.damaged[ALL, name, reason] for name in account.readers))
    counted: dict[str, Fact] = {name: int(account.header[name]) for name in _COUNTED if name in account.header}
    if account.site.max_procs is not None:
        counted["max_procs"] = account.site.max_procs
    facts: dict[str, Fact] = {
        "format": "+".join(account.readers),
        "files": len(account.labels),
        "bytes": n["bytes"],
        "jobs": n["jobs"],
        "first_submit_s": min(account.submits_s, default=None),
        "last_submit_s": max(account.submits_s, default=None),
        "indistinct_records": n["indistinct"],
        **dict(sorted(counted.items())),
        **{name: value for name, value in sorted(account.header.items()) if name not in _COUNTED},
        **(earlier.facts() if earlier else {}),
    }
    return Report(
        "ingest",
        "line",
        seen=Tally(n["lines"] + (earlier.n_rows if earlier else 0), float(account.proc_s + account.superseded_proc_s)),
        kept=Tally(n["jobs"], float(account.proc_s)),
        set_aside=set_aside,
        facts=facts,
        notes=tuple(_notes(account, settings)),
    ).check()


_NOTES = {
    "superseded": "{} records were read before (overlapping logs): the later-ending of each is kept",
    "reused_ids": "{} job ids stand for several jobs or executions, told apart by restart",
    "indistinct": "{} of them bear an id that several jobs share, and cannot be told from one of these: if no log was "
    "read twice, they are tasks of arrays; export JobID, which tells tasks apart",
}


def _notes(account: Account, settings: IngestSettings) -> Iterator[str]:
    # 1. How many lines could not be read for each reason, and the first place where it was met.
    for key in account.reasons():
        n_lines = account.damaged[ALL, *key]
        shown = "1 line is" if n_lines == 1 else f"{n_lines} lines are"
        first, expected = _explained(account.first_unreadable[key]), account.readers[key[0]].expects
        said = f"{shown} set aside as unreadable, the first at {first}, expected {expected}"
        label, share = account.most_damaged(key)
        if share > TOLD_SHARE:
            n, of = account.damaged[label, *key], account.records[label, key[0]]
            said += f"; they are {n:,} of {of:,} records ({share:.2%}) of {printable(label) or 'all logs'}"
            said += ", and their processor-hours are unknown"
        yield said
    # 2. What became of records with one id.
    for name, sentence in _NOTES.items():
        if n := account.n[name]:
            is_update = name == "superseded" and account.earlier
            yield sentence.format(n) + (
                ", but of two final ones that of these logs, not of the earlier table" if is_update else ""
            )
    # 3. What the readers remarked, which files were no logs, and what became of an earlier table.
    for name, reader in account.readers.items():
        said_by = reader.notes(account.remarks[name], settings) if reader.notes else ()
        yield from map(unquoted, said_by) if account.site.anonymise else said_by
    yield from account.passed_over
    yield from account.earlier.notes() if account.earlier else ()


def _explained(row: Mapping[str, object]) -> str:
    """Where an unreadable line stands and what was found there."""
    where = f"{printable(str(row['source_file']))}, line {row['source_line']}"
    return f"{where}: found {str(row['reason']).replace('_', ' ')} in '{printable(str(row['raw']), 60)}'"


def _indistinct(jobs: pa.Table, superseded: pa.Table) -> int:
    """Superseded records that may be jobs: several kept ones bear their id, were submitted with them and ran whole.

    Tasks of an array exported without indices may agree in every value, as one record read twice does. How many times
    a file has a record decides nothing, because the jobs must not depend on how records were split into files.
    """
    if not superseded.num_rows or not jobs.num_rows:
        return 0
    jobs = jobs.filter(pc.is_in(jobs["job_id"], value_set=superseded["job_id"].combine_chunks()))
    told = jobs.select(["job_id", "submit_s", "start_s", "end_s"]).drop_null().to_pylist()
    jobs_of = Counter((job["job_id"], job["submit_s"]) for job in told)
    records = superseded.select(["job_id", "submit_s", "end_s"]).drop_null().to_pylist()
    return sum(jobs_of[record["job_id"], record["submit_s"]] > 1 for record in records)


def _exact_sum(values: Floats) -> Fraction:
    """The sum of numbers to the microsecond, and so the same in any order; one above 10^24 counts as that."""
    return Fraction(pc.sum(arrow(np.minimum(values, 1e24)).cast(pa.decimal128(38, 6)), min_count=0).as_py())
