"""Counts what ingest has read and what became of it, and reports both."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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

    proc_s: processor-seconds, kept exactly, so that their sum depends on no order.
    """

    site: SiteSettings
    readers: dict[str, Reader] = field(default_factory=dict)
    lines: Counter[str] = field(default_factory=Counter)
    remarks: dict[str, Remarks] = field(default_factory=dict)
    header: dict[str, str] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    passed_over: list[str] = field(default_factory=list)
    n_lines: int = 0
    n_bytes: int = 0
    earlier: EarlierTable | None = None
    records: Counter[tuple[str, str]] = field(default_factory=Counter)
    damaged: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    first_unreadable: dict[tuple[str, str], dict[str, object]] = field(default_factory=dict)
    n_jobs: int = 0
    n_superseded: int = 0
    n_reused_ids: int = 0
    n_indistinct: int = 0
    proc_s: Fraction = Fraction(0)
    superseded_proc_s: Fraction = Fraction(0)
    first_submit_s: int | None = None
    last_submit_s: int | None = None

    def add(self, source: Source, reader: Reader, chunk: Chunk, unreadable: pa.Table) -> None:
        """Take in one chunk; unreadable: its lines, as they may be shown."""
        self.labels.add(source.label)
        self.lines.update(chunk.lines)
        self.remarks.setdefault(reader.name, Remarks()).update(chunk.remarks)
        self.n_lines += chunk.n_lines
        self.n_bytes += chunk.n_bytes
        for name, value in chunk.header.items():
            # The largest of a size, and of anything else the first said.
            if name not in _COUNTED:
                self.header.setdefault(name, value)
            elif number := _NUMBER.search(value):
                self.header[name] = str(max(int(number[0]), int(self.header.get(name, 0))))
        n_records = chunk.n_lines - sum(chunk.lines.get(name, 0) for name in NO_RECORD)
        for label in (source.label, ALL):
            self.records[label, reader.name] += n_records
        for row, reason in enumerate(unreadable.column("reason").cast(pa.string()).to_pylist()):
            key = (reader.name, reason)
            if key not in self.first_unreadable:
                self.first_unreadable[key] = unreadable.slice(row, 1).to_pylist()[0]
            for label in (source.label, ALL):
                self.damaged[label, *key] += 1

    def fold(self, reader: Reader, folded: Folded) -> None:
        """Take in what became of the partial records of some ids."""
        self.lines.update(folded.lines)
        self.remarks.setdefault(reader.name, Remarks()).update(folded.remarks)

    def settle(self, jobs: pa.Table, superseded: pa.Table) -> None:
        """Take in jobs, all of an id together, and records of which another reading was kept."""
        self.n_jobs += jobs.num_rows
        self.n_superseded += superseded.num_rows
        # Of several whole jobs of the site with one id the second has restart 1.
        seconds = jobs.select(["site", "state"]).filter(arrow(integers(jobs["restart"])[0] == 1)).to_pylist()
        self.n_reused_ids += sum(job["site"] == self.site.name and job["state"] != PARTIAL for job in seconds)
        self.n_indistinct += _indistinct(jobs, superseded)
        self.proc_s += exact_sum(proc_seconds(jobs))
        self.superseded_proc_s += exact_sum(proc_seconds(superseded))
        known = [self.first_submit_s, self.last_submit_s, *pc.min_max(jobs["submit_s"]).as_py().values()]
        self.first_submit_s = min((t for t in known if t is not None), default=None)
        self.last_submit_s = max((t for t in known if t is not None), default=None)

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


class DamagedError(InputError):
    """A log of which too many records look damaged in one way: the fault may lie with the reader and not the log."""

    exit_code = 4


def check_account(account: Account, most: float) -> None:
    """InputError where there is no job.

    DamagedError where a log, or all logs together, have a larger share of records that look damaged in one way.
    """
    if not account.n_jobs:
        where = ", ".join(printable(label) for label in sorted(account.labels)[:3])
        found, do = f"no job in {account.n_lines} lines", "check that the export ran"
        if any(reason == "no_line_end" for _, reason in account.first_unreadable):
            found += ", and a last line without a line end"
            do = READ_AGAIN
        raise InputError(where, found, "; or ".join(reader.expects for reader in account.readers.values()), do)
    for key in _reasons(account):
        label, share = account.most_damaged(key, LEAST_DAMAGED)
        if share > most:
            n, of = account.damaged[label, *key], account.records[label, key[0]]
            found = f"{n:,} of {of:,} records ({share:.1%}) that look damaged in one way, the first at "
            found += explained(account.first_unreadable[key])
            do = "see what is wrong with them; if they may be set aside, raise ingest.max_damaged"
            where = printable(label) or "the logs"
            raise DamagedError(where, found, f"at most {most:.1%} (ingest.max_damaged)", do)


def report(account: Account, settings: IngestSettings) -> Report:
    """The stage's account, checked: lines (and rows of an earlier table) seen = jobs + set aside + unreadable."""
    earlier = account.earlier
    set_aside = {name: Tally(n) for name, n in sorted(account.lines.items())}
    set_aside["superseded"] = Tally(account.n_superseded, float(account.superseded_proc_s))
    for _, reason in _reasons(account):
        n_lines = sum(n for (label, _, named), n in account.damaged.items() if label == ALL and named == reason)
        set_aside[reason] = Tally(n_lines)
    counted: dict[str, Fact] = {name: int(account.header[name]) for name in _COUNTED if name in account.header}
    if account.site.max_procs is not None:
        counted["max_procs"] = account.site.max_procs
    facts: dict[str, Fact] = {
        "format": "+".join(account.readers),
        "files": len(account.labels),
        "bytes": account.n_bytes,
        "jobs": account.n_jobs,
        "first_submit_s": account.first_submit_s,
        "last_submit_s": account.last_submit_s,
        "indistinct_records": account.n_indistinct,
        **dict(sorted(counted.items())),
        **{name: value for name, value in sorted(account.header.items()) if name not in _COUNTED},
        **(earlier.facts() if earlier else {}),
    }
    return Report(
        "ingest",
        "line",
        seen=Tally(
            account.n_lines + (earlier.n_rows if earlier else 0), float(account.proc_s + account.superseded_proc_s)
        ),
        kept=Tally(account.n_jobs, float(account.proc_s)),
        set_aside=set_aside,
        facts=facts,
        notes=tuple(_notes(account, settings)),
    ).check()


def _reasons(account: Account) -> list[tuple[str, str]]:
    """Format and reason of what was unreadable, in the formats' order, then the reader's order of reasons."""
    known = [(name, reason) for name, reader in account.readers.items() for reason in reader.reasons]
    return [
        key for key in dict.fromkeys([*known, *sorted(account.first_unreadable)]) if key in account.first_unreadable
    ]


def _notes(account: Account, settings: IngestSettings) -> Sequence[str]:
    told = [(name, reader.notes) for name, reader in account.readers.items() if reader.notes]
    said = [note for name, notes in told for note in notes(account.remarks[name], settings)]
    return (
        *(_unreadable_note(account, key) for key in _reasons(account)),
        *_record_notes(account),
        *(map(unquoted, said) if account.site.anonymise else said),
        *account.passed_over,
        *(account.earlier.notes() if account.earlier else ()),
    )


def _unreadable_note(account: Account, key: tuple[str, str]) -> str:
    """How many lines have this reason, and the first place where it was met."""
    n_lines = "1 line is" if account.damaged[ALL, *key] == 1 else f"{account.damaged[ALL, *key]} lines are"
    first, expected = explained(account.first_unreadable[key]), account.readers[key[0]].expects
    said = f"{n_lines} set aside as unreadable, the first at {first}, expected {expected}"
    label, share = account.most_damaged(key)
    if share > TOLD_SHARE:
        n, of = account.damaged[label, *key], account.records[label, key[0]]
        said += f"; they are {n:,} of {of:,} records ({share:.2%}) of {printable(label) or 'all logs'}"
        said += ", and their processor-hours are unknown"
    return said


def explained(row: Mapping[str, object]) -> str:
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


def _record_notes(account: Account) -> Iterator[str]:
    if n := account.n_superseded:
        said = ", but of two final ones that of these logs, not of the earlier table" if account.earlier else ""
        yield f"{n} records were read before (overlapping logs): the later-ending of each is kept{said}"
    if n := account.n_reused_ids:
        yield f"{n} job ids stand for several jobs or executions, told apart by restart"
    if n := account.n_indistinct:
        yield (
            f"{n} of them bear an id that several jobs share, and cannot be told from one of these: if no log was read "
            "twice, they are tasks of arrays; export JobID, which tells tasks apart"
        )


def exact_sum(values: Floats) -> Fraction:
    """The sum of finite numbers without rounding, and so the same in any order."""
    if not len(values):
        return Fraction(0)
    mantissas, exponents = np.frexp(values)
    order = np.argsort(exponents.astype(np.int16), kind="stable")
    exponents, whole = exponents[order], np.ldexp(mantissas[order], 53).astype(np.int64)
    # Per exponent, in two halves, of which a table's worth fits in 64 bits.
    starts = np.flatnonzero(np.diff(exponents, prepend=exponents[0] - 1))
    high, low = np.add.reduceat(whole >> 26, starts), np.add.reduceat(whole & ((1 << 26) - 1), starts)
    parts = zip(exponents[starts].tolist(), high.tolist(), low.tolist(), strict=True)
    return sum((Fraction((upper << 26) + lower) * Fraction(2) ** (at - 53) for at, upper, lower in parts), Fraction(0))
