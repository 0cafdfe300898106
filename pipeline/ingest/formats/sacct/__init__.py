"""Reads text dumps of Slurm's accounting, as `sacct` prints them: `--parsable2`, `--parsable`, any delimiter.

Source: man sacct, Slurm 18.08 to 25.05. The first line names the columns, or ingest.fields does; columns not
known are left alone. A row is a job, or a step (`123.batch`, `123.0`) that is folded into its job: memory and the
highest exit code come from steps. An array that still pends (`123_[8-99%4]`) is one job.

What values mean: runtime is Slurm's Elapsed, which leaves suspension out, and not end - start. ReqMem is per CPU (`c`),
per node (`n`), or for the whole job. An exit by signal is 128 + the signal. Times are of site.timezone.

A record that cannot be read is set aside, with its reason, and reading goes on; unless `max_damaged` is 0. So is a
last line without a line end, which may have been cut, unless `last_line` says that the dump is finished. But a
source is no such dump, and InputError says so, where none of its first 100 records can be read.
"""

from collections.abc import Collection, Iterator

import numpy as np

from pipeline.arrays import Bools, Ints, integers
from pipeline.errors import printable
from pipeline.ingest.formats.sacct.columns import EXPECTS, find_layout, inspected_columns, looks_right, told
from pipeline.ingest.formats.sacct.records import CLUSTER, CODE, REASONS, STATE, ZONE, Context, fold, typed_records
from pipeline.ingest.formats.sacct.scan import BYTE, END, LINE, MESSAGE, N_LINES, Scanned, last_start, scan_block
from pipeline.ingest.reader import STEPS, Chunk, Reader, Remarks, named, unreadable_rows, unreadable_table
from pipeline.ingest.sources import Block, Source, head, line_blocks
from pipeline.settings import IngestSettings, SiteSettings

BLOCK_BYTES = 1 << 22
"""Read at a time: what a block's spans and values take is some times that, and stays in the processor's reach."""


def read(source: Source, site: SiteSettings, settings: IngestSettings) -> Iterator[Chunk]:
    """A dump's chunks; InputError where the source is no dump, names no job ids, or is damaged."""
    context, start = Context(source, site, settings), head(source)
    # The columns that a line names hold from there on.
    layouts = [find_layout(start, settings, f"{printable(source.label)}, line 1")]
    # What follows the last sure start of a record waits for the next block, so that a record that goes on is whole.
    for block in line_blocks(source, BLOCK_BYTES, lambda data: last_start(data, layouts[-1])):
        rest = block
        while (scanned := scan_block(rest.data, layouts[-1])).cut is not None:
            n_lines, at, other = scanned.cut
            layouts.append(other)
            if at:
                yield _chunk(scanned, Block(rest.data[:at], rest.line, rest.offset, n_lines), context)
            rest = Block(rest.data[at:], rest.line + n_lines, rest.offset + at, rest.n_lines - n_lines)
        yield _chunk(scanned, rest, context)


def _chunk(scanned: Scanned, block: Block, context: Context) -> Chunk:
    """A block's records typed, its steps folded where their job is beside them, and the account of its lines."""
    rows, remarks = scanned.rows, Remarks()
    places = np.column_stack([integers(rows[name])[0] for name in (LINE, BYTE, END, N_LINES)])
    bad = np.zeros(len(rows), np.uint8)
    bad[_may_be_cut(block, context, places)] = CODE["cut_off"]
    jobs, steps = typed_records(rows, block.line, context, remarks, bad)
    loose = np.array([place for place, _ in scanned.unreadable], np.int64).reshape(-1, 4)
    reasons = np.array([CODE[reason] for _, reason in scanned.unreadable], np.uint8)
    reasons[_may_be_cut(block, context, loose) & (reasons != CODE["line_too_long"])] = CODE["cut_off"]
    unread = np.concatenate([places[bad > 0], loose])
    unread[:, 3] = np.concatenate([bad[bad > 0], reasons])
    unreadable = unreadable_rows(context.source, block, unread[np.argsort(unread[:, 0], kind="stable")], REASONS)
    remarks.update(missing_columns(rows.column_names, jobs.num_rows))
    remarks["put_together"] += scanned.n_put_together
    remarks["messages"] += scanned.lines[MESSAGE]
    n_continued = int((places[:, 3] - 1).sum() + (loose[:, 3] - 1).sum())
    said = {name: n for name, n in {**scanned.lines, "continued": n_continued}.items() if n}
    return Chunk(jobs, unreadable_table(unreadable), said, block.n_lines, len(block.data), remarks, parts=steps)


def _may_be_cut(block: Block, context: Context, places: Ints) -> Bools:
    """Which of some records end with a line that may have been cut.

    Only the source's last line can lack its end. 36 of 3600 is a number too, so nothing else tells a cut line from a
    whole one.
    """
    is_open = context.settings.last_line == "set_aside" and not block.data.endswith(b"\n")
    may_be_cut: Bools = is_open & (places[:, 0] + places[:, 3] == block.n_lines)
    return may_be_cut


_MISSING = "missing "
_COSTS = {
    "submit_s": ("Submit", "cleaning sets them aside (impossible_times)"),
    "start_s": ("Start", "when they ran and how long they waited is unknown"),
    "end_s": ("End", "when they ended is unknown"),
    "elapsed": ("Elapsed", "their runtime is End - Start, less Suspended where that is known"),
    "runtime_s": ("Elapsed", "their runtime is unknown, and cleaning sets them aside (never_ran)"),
    "state": ("State", "which of them failed or were cancelled is unknown"),
    "procs": ("AllocCPUS", "their processors are unknown, and cleaning sets them aside (no_procs)"),
    "limit": ("Timelimit", "the time they requested is unknown"),
    "user": ("User", "jobs of different users are not told apart"),
}
"""What a missing column costs, by what it tells; `elapsed` is a runtime that start and end stand in for."""

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


def missing_columns(sources: Collection[str], n_jobs: int) -> Remarks:
    """How many jobs lack each column that costs something, where a dump's columns tell only `sources`."""
    has_span = {"start_s", "end_s"} <= set(sources)
    stand_ins = {
        "procs": "requested_procs" in sources,
        "elapsed": "runtime_s" in sources or not has_span,
        "runtime_s": has_span,
        "limit": bool({"limit_min", "requested_s"} & set(sources)),
    }
    return Remarks({f"{_MISSING}{what}": n_jobs for what in _COSTS if what not in sources and not stand_ins.get(what)})


def notes(remarks: Remarks, settings: IngestSettings) -> list[str]:
    """One sentence for each thing a person should know before trusting times, states and sizes."""

    order = "day" if settings.day_first else "month"
    found = [
        sentence.format(n=remarks[name], s=_plural(remarks[name]), order=order)
        for name, sentence in _SENTENCES.items()
        if remarks[name]
    ]
    for what, (column, cost) in _COSTS.items():
        if n := remarks[f"{_MISSING}{what}"]:
            found.append(f"{n} job{_plural(n)} come from a dump with no {column} column: {cost}")
    found += [
        f"times without a zone are read as of {printable(zone, 60)} (site.timezone)" for zone in named(remarks, ZONE)
    ]
    if len(clusters := named(remarks, CLUSTER)) > 1:
        listed = ", ".join(f"{printable(name, 30)} ({n})" for name, n in list(clusters.items())[:8])
        found.append(
            f"jobs of {len(clusters)} clusters are told apart by the column cluster and learnt from as those of one "
            f"site: {listed}"
        )
    if strange := named(remarks, STATE):
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
    "sacct", EXPECTS, REASONS, ("submit_s",), looks_right, read, notes, parts=STEPS, fold=fold,
    layout=inspected_columns, advice=_ADVICE, told=told,
)  # fmt: skip
