"""Jobs to lines of the Standard Workload Format 2.2, and the textual traps real logs hold."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from tools.simulation.workload import SHORT_QUEUE_LIMIT_S, Job

FIELDS = (
    "job_id", "submit_s", "wait_s", "runtime_s", "procs", "cpu_s", "used_mem_kib", "requested_procs", "requested_s",
    "requested_mem_kib", "status", "user", "user_group", "executable", "queue", "partition", "preceding_job", "think_s",
)  # fmt: skip
WIDTHS = (5, 9, 7, 7, 4, 7, 8, 4, 7, 8, 2, 3, 2, 3, 2, 2, 3, 3)


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its line end: what it is, the job it stands for, the textual trap it holds."""

    text: str
    what: Literal["header", "comment", "blank", "record", "unreadable"]
    job: Job | None = None
    trap: str = ""


def record(job: Job) -> Line:
    """A job as 18 columns."""
    return Line(_columns(str(getattr(job, name)) for name in FIELDS), "record", job)


def _columns(words: Iterable[str]) -> str:
    return " ".join(word.rjust(width) for word, width in zip(words, WIDTHS, strict=True))


def header(
    *, computer: str, max_procs: int, unix_start_s: int, end_s: int, n_jobs: int, n_records: int, notes: Sequence[str]
) -> list[Line]:
    """Header comments; the second `Information` and `Note` lines continue the first, as in the archive's logs."""
    start, end = (datetime.fromtimestamp(unix_start_s + t, UTC) for t in (0, end_s))
    lines = [
        "Version: 2.2",
        f"Computer: {computer}",
        "Installation: a machine that never was",
        "Acknowledge: nobody; the log is simulated",
        "Information: made by tools/simulate.py",
        "             described in data_samples/README.md",
        "Conversion: none",
        f"MaxJobs: {n_jobs}",
        f"MaxRecords: {n_records}",
        "Preemption: Double",
        f"UnixStartTime: {unix_start_s}",
        "TimeZone: 0",
        "TimeZoneString: UTC",
        f"StartTime: {start.ctime()}",
        f"EndTime:   {end.ctime()}",
        f"MaxNodes: {max_procs // 4} (4 processors each)",
        f"MaxProcs: {max_procs}",
        "MaxRuntime: 604800",
        "AllowOveruse: No",
        "MaxQueues: 2",
        "Queues: by requested time",
        f"Queue:  1 short (up to {SHORT_QUEUE_LIMIT_S} s)",
        "Queue:  2 long",
        "MaxPartitions: 1",
        "Partition:  1 all",
        f"Note: {notes[0]}",
        *(f"      {note}" for note in notes[1:]),
        "",
    ]
    return [Line(f"; {text}".rstrip(), "header") for text in lines]


def _with_field(line: Line, name: str, shown: Callable[[int], str], trap: str) -> Line:
    place = FIELDS.index(name)
    words = line.text.split()
    words[place] = shown(int(words[place]))
    return replace(line, text=_columns(words), trap=trap)


def _reworded(change: Callable[[str], str], trap: str) -> Callable[[Line], Line]:
    return lambda line: replace(line, text=change(line.text), trap=trap)


MORE_FIELDS = "21 fields, as one converter writes"
STILL_RECORDS: tuple[Callable[[Line], Line], ...] = (
    _reworded(lambda text: "\t".join(text.split()), "fields parted by tabs"),
    lambda line: _with_field(line, "cpu_s", lambda v: f"{v}.00", "an average CPU time with decimals"),
    lambda line: _with_field(line, "runtime_s", lambda v: f"{v}.50", "a runtime with decimals: half a second more"),
    lambda line: _with_field(line, "requested_s", lambda v: f"{v}.0", "a requested time with decimals"),
    _reworded(lambda text: f"{text.strip()} {{1,2,3}} q_short 1:ppn=4", MORE_FIELDS),
    _reworded(lambda text: f" \t {text.strip()}  \t", "blanks and tabs before and after"),
    lambda line: _with_field(line, "partition", lambda v: f"0{v}", "a leading zero"),
)
UNREADABLE = (
    (lambda text: " ".join(text.split()[:17]), "17 fields"),
    (lambda text: "*** tape 3 of 7 continues here ***", "a line of text"),
    (lambda text: text.replace(text.split()[3], "n/a", 1), "a runtime that is no number"),
    (lambda text: text[:23].rstrip(), "a line cut short"),
)  # fmt: skip


def with_textual_traps(lines: Sequence[Line]) -> list[Line]:
    """The lines with every textual trap, a comment before each; unreadable lines are added, and one record is lost."""
    clean = [i for i, line in enumerate(lines) if line.job and not line.job.planted]
    places = clean[3 :: max(1, (len(clean) - 3) // (len(STILL_RECORDS) + len(UNREADABLE) + 2))]
    trapped: dict[int, list[Line]] = {}
    for i, change in zip(places, STILL_RECORDS, strict=False):
        made = change(lines[i])
        if made.trap == MORE_FIELDS:
            made = replace(made, what="unreadable", job=None)
        trapped[i] = [_comment(made.trap), made]
    rest = places[len(STILL_RECORDS) :]
    for i, (change, trap) in zip(rest, UNREADABLE, strict=False):
        trapped[i] = [lines[i], _comment(trap), Line(change(lines[i].text), "unreadable", trap=trap)]
    blank_at, backwards_at = rest[len(UNREADABLE)], rest[len(UNREADABLE) + 1]
    blanks = [Line("", "blank", trap="an empty line"), Line("  \t ", "blank", trap="only blanks")]
    trapped[blank_at] = [lines[blank_at], *blanks]
    flat = [line for i, kept in enumerate(lines) if i != backwards_at for line in trapped.get(i, [kept])]
    late = replace(lines[backwards_at], trap="a submit time that goes backwards")
    last = Line("; MaxProcs: 7 (a comment at the end, no header)", "comment", trap="a comment that looks like a header")
    return [*flat, _comment(late.trap), late, last]


def _comment(trap: str) -> Line:
    return Line(f"; next: {trap}", "comment")
