"""Declares sacct's columns: what each tells, its names in text, what may stand in it, and where it is in the JSON; and
finds which of them a dump has.

Source: man sacct (Slurm 18.08 to 25.05), and of the paths the plugins openapi/dbv0.0.37 and 38 (Slurm 21.08 and 22.05)
and data_parser/v0.0.39 to 46 (23.02 to 26), whose tables of fields, PARSER_ARRAY(JOB), name each.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from pipeline.errors import InputError, printable
from pipeline.ingest.reader import Layout as Columns
from pipeline.ingest.sources import Source, head
from pipeline.settings import IngestSettings, SiteSettings

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
"""A time as Slurm writes it, which is no name of a user, an account, a partition or a quality of service."""


class Kind(Enum):
    """What may stand in a column; wide ones may hold the delimiter, and FREE ones a line's end."""

    ID = r"\d+(?:_(?:\d+|\[[^\]|]*\]?))?(?:\+\d+)?(?:\.[\w+.-]+)?"
    ID_AGAIN = rf"|{ID}"
    TIME = r"|0|Unknown|None|N/A|None assigned|(?!\d{1,8}$)[\d:/T +.Z-]+(?: ?[AaPp][Mm])?(?: ?[A-Z]{3,5})?"
    DURATION = r"|-?[\d:.-]+|UNLIMITED|Partition_Limit|INVALID|Unknown"
    COUNT = r"|-?\d+(?:\.\d+)?[KMGTP]?|UNLIMITED|Partition_Limit|Unknown|N/A"
    ENERGY = r"|[\d.]+[KMGTPE]?|Unknown|N/A"
    MEMORY = r"|[\d.?]+[KMGTPE]?(?:i?B)?[nc]?|UNLIMITED|N/A"
    STATE = r"[A-Za-z_]+(?: by \d+)?\+?"
    EXIT = r"|\d+:\d+|-?\d+"
    NAME = rf"(?!{STAMP}$)[^\s]*"
    TRES = r"|\d+|[^\s=]+=[^\s]*|[\w/]+(?::[\w.]+)*(?:\(S:[\d,-]*\))?(?:,.*)?"
    HOSTS = r"|None assigned|[^\s]*"
    OTHER = r"[^\n]*"
    FREE = r"[\s\S]*"
    FOLDER = r"|/[\s\S]*"
    COMMAND = r"|(?:\S*/)?(?:sbatch|srun|salloc|scrontab)(?:\s[\s\S]*)?"

    @cached_property
    def fits(self) -> Callable[[bytes], re.Match[bytes] | None]:
        """Whether some bytes are a value of this kind."""
        return re.compile(self.value.encode()).fullmatch

    @property
    def is_wide(self) -> bool:
        """Whether a value may hold the delimiter."""
        return self in (Kind.FREE, Kind.FOLDER, Kind.COMMAND)

    @property
    def is_text(self) -> bool:
        """Whether values are anybody's text, in which a line may end."""
        return self.is_wide or self in (Kind.OTHER, Kind.NAME, Kind.HOSTS)


@dataclass(frozen=True, slots=True)
class Column:
    """What may stand in it; the names of the fields that tell it, the better one first; its path in a job of the JSON.

    path: empty where the JSON says it in several places, or nowhere.
    """

    kind: Kind
    names: tuple[str, ...]
    path: str = ""


def _column(kind: Kind, names: str, path: str = "") -> Column:
    return Column(kind, tuple(names.split()), path)


COLUMNS: Mapping[str, Column] = {
    "id": _column(Kind.ID, "jobid job_id jobidraw job_id_raw"),
    "cluster": _column(Kind.NAME, "cluster", "cluster"),
    "job_name": _column(Kind.FREE, "jobname", "name"),
    "user": _column(Kind.NAME, "user uid", "user"),
    "user_group": _column(Kind.NAME, "group gid", "group"),
    "account": _column(Kind.NAME, "account", "account"),
    "queue": _column(Kind.NAME, "partition", "partition"),
    "qos": _column(Kind.NAME, "qos qosraw", "qos"),
    "submit_s": _column(Kind.TIME, "submit", "time.submission"),
    "eligible_s": _column(Kind.TIME, "eligible", "time.eligible"),
    "start_s": _column(Kind.TIME, "start", "time.start"),
    "end_s": _column(Kind.TIME, "end", "time.end"),
    "runtime_s": _column(Kind.DURATION, "elapsedraw elapsed", "time.elapsed"),
    "limit_min": _column(Kind.COUNT, "timelimitraw", "time.limit"),
    "requested_s": _column(Kind.DURATION, "timelimit"),
    "suspended_s": _column(Kind.DURATION, "suspended", "time.suspended"),
    "procs": _column(Kind.COUNT, "alloccpus ncpus"),
    "requested_procs": _column(Kind.COUNT, "reqcpus", "required.CPUs"),
    "nodes": _column(Kind.COUNT, "nnodes allocnodes"),
    "requested_nodes": _column(Kind.COUNT, "reqnodes"),
    "requested_mem": _column(Kind.MEMORY, "reqmem"),
    "typed_mem": _column(Kind.MEMORY, ""),
    "max_rss": _column(Kind.MEMORY, "maxrss"),
    "mean_rss": _column(Kind.MEMORY, "averss"),
    "n_tasks": _column(Kind.COUNT, "ntasks"),
    "total_cpu": _column(Kind.DURATION, "totalcpu"),
    "energy": _column(Kind.ENERGY, "consumedenergyraw consumedenergy"),
    "state": _column(Kind.STATE, "state", "state.current"),
    "exit_code": _column(Kind.EXIT, "exitcode exit_code", "exit_code"),
    "derived_exit_code": _column(Kind.EXIT, "derivedexitcode derived_exit_code", "derived_exit_code"),
    "alloc_tres": _column(Kind.TRES, "alloctres tresalloc allocgres", "tres.allocated"),
    "req_tres": _column(Kind.TRES, "reqtres reqgres", "tres.requested"),
    "attempt_key": _column(Kind.COUNT, "dbindex db_index"),
    "work_dir": _column(Kind.FOLDER, "workdir work_dir workingdirectory", "working_directory"),
    "comment": _column(Kind.FREE, "comment", "comment.job"),
    "admin_comment": _column(Kind.FREE, "admincomment admin_comment", "comment.administrator"),
    "submit_line": _column(Kind.COMMAND, "submitline submit_line", "submit_line"),
    "raw_id": _column(Kind.ID_AGAIN, "jobidraw job_id_raw"),
}
"""What is read, by what it tells. typed_mem is memory as typed, where that is known beside the job's total."""

OPTIONAL = ("work_dir", "comment", "admin_comment", "submit_line", "energy")
"""What may stay unknown in a record that is read."""

_UNREAD = {
    Kind.DURATION: "usercpu systemcpu cputime cputimeraw reserved planned resvcpu resvcpuraw plannedcpu plannedcpuraw "
    "mincpu avecpu",
    Kind.COUNT: "uid gid qosraw priority associd reservationid wckeyid maxpages avepages restarts",
    Kind.MEMORY: "maxvmsize avevmsize maxdiskread maxdiskwrite avediskread avediskwrite mem_req",
    Kind.NAME: "layout blockid mcslabel maxrssnode maxvmsizenode maxpagesnode mincpunode maxdiskreadnode "
    "maxdiskwritenode",
    Kind.TRES: "tresreqraw tresallocraw",
    Kind.HOSTS: "nodelist node_list",
    Kind.FREE: "systemcomment constraints extra container reason reservation wckey stdin stdout stderr licenses "
    "failednode",
}  # fmt: skip
_KINDS = {
    **{name: column.kind for column in COLUMNS.values() for name in column.names},
    **{name: kind for kind, names in _UNREAD.items() for name in names.split()},
}

STATES = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "CONFIGURING", "COMPLETING", "DEADLINE", "FAILED", "LAUNCH_FAILED",
    "NODE_FAIL", "OUT_OF_MEMORY", "PENDING", "POWER_UP_NODE", "PREEMPTED", "RECONFIG_FAIL", "REQUEUED", "REQUEUE_FED",
    "REQUEUE_HOLD", "RESIZING", "RESV_DEL_HOLD", "REVOKED", "RUNNING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT",
    "STOPPED", "SUSPENDED", "TIMEOUT", "UPDATE_DB",
)  # fmt: skip
"""man sacct, "Job state codes" and "Job state flags"."""

REASONS = {
    Kind.ID: "no_job_id", Kind.TIME: "not_a_time", Kind.DURATION: "not_a_duration", Kind.COUNT: "not_a_number",
    Kind.MEMORY: "not_a_memory_size", Kind.STATE: "no_state", Kind.EXIT: "not_an_exit_code",
}  # fmt: skip
"""Why a record with another value there is unreadable."""


def kind_of(name: str) -> Kind:
    """What may stand in the column of this name (small letters); OTHER where the name is not Slurm's."""
    return _KINDS.get(name, Kind.TRES if name.startswith("tresusage") else Kind.OTHER)


_KNOWN_STATE = re.compile(rf"(?:{'|'.join(STATES)})(?: by \d+)?\+?|[A-Z_]+\+".encode())


# ---------------- a dump's own columns
# Which columns a dump of sacct has, and what separates them.

EXPECTS = "sacct: columns named in a first line as by `sacct -P`, or in ingest.fields"
_NAME = re.compile(rb"[A-Za-z]\w*(?:%-?\d+)?")
_BETWEEN_NAMES = re.compile(rb"(?<=[A-Za-z0-9_\"])[^A-Za-z0-9_%\"]+(?=[\"A-Za-z])")
_MESSAGE = re.compile(rb"(?:sacct|slurmdbd): [a-z]")
_WIDTH = re.compile(r"%-?\d+$")
_DELIMITERS = (b"|", b"\x1f", b"^|^", b"\t", b";", b",")
_IDS = COLUMNS["id"].names
_TELLING = re.compile(rb"(?:^|[^\w])(?:JobID(?:Raw)?|job_id)(?:[^\w]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class Layout:
    """Columns of a dump, in order, in small letters.

    is_trailing: every line ends with the delimiter. has_quotes: the names stand in double quotes.
    """

    names: tuple[str, ...]
    delimiter: bytes
    is_trailing: bool = False
    has_header: bool = True
    has_quotes: bool = False

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """What may stand in each column."""
        return tuple(kind_of(name) for name in self.names)

    @cached_property
    def sources(self) -> dict[str, int]:
        """The column that tells each thing, for what some column tells."""
        place = {name: column for column, name in reversed(list(enumerate(self.names)))}
        found = {what: [place[name] for name in column.names if name in place] for what, column in COLUMNS.items()}
        return {what: places[0] for what, places in found.items() if places}

    @cached_property
    def fits(self) -> tuple[Callable[[bytes], re.Match[bytes] | None], ...]:
        """Of each column, whether some bytes may stand there: of states those of the manual."""
        return tuple(_KNOWN_STATE.fullmatch if kind is Kind.STATE else kind.fits for kind in self.kinds)

    @property
    def is_quoted(self) -> bool:
        """Whether values may stand in double quotes: the way of spreadsheets' exports, not of sacct."""
        return self.delimiter == b"," or self.has_quotes

    @property
    def n_delimiters(self) -> int:
        """Delimiters in a line without surplus."""
        return len(self.names) - (not self.is_trailing)


_XDMOD = (
    "jobid", "jobidraw", "cluster", "partition", "qos", "account", "group", "gid", "user", "uid", "submit", "eligible",
    "start", "end", "elapsed", "exitcode", "state", "nnodes", "ncpus", "reqcpus", "reqmem", "reqtres", "alloctres",
    "timelimit", "nodelist", "jobname",
)  # fmt: skip
XDMOD = Layout(_XDMOD, b"|", has_header=False)
"""The columns of dumps made for Open XDMoD (its xdmod-slurm-helper), which have no header."""


def find_layout(head: bytes, settings: IngestSettings, where: str) -> Layout:
    """The layout of a dump from its first bytes; InputError where it cannot be told, or names no job id."""
    first = first_line(head)
    asked = settings.delimiter.encode() if settings.delimiter else None
    layout = header_layout(first, asked)
    if layout is not None:
        return layout
    if _is_fixed_width(head):
        found = "columns of fixed width, which cut job names and ids"
        raise InputError(where, found, "columns with a delimiter", "export again with `sacct --parsable2`")
    if not settings.fields and _names_no_id(first):
        found = f"columns without a job id in '{printable(first.decode('utf-8', 'backslashreplace'), 60)}'"
        raise InputError(where, found, "JobID or JobIDRaw among them", "export again with JobID")
    lines = _whole_lines(head)
    if settings.fields:
        return _told(settings.fields, asked, lines)
    if asked in (None, b"|") and lines and all(_fits_xdmod(line) for line in lines[:100]):
        return XDMOD
    found = f"no column names in '{printable(first.decode('utf-8', 'backslashreplace'), 60)}'"
    raise InputError(where, found, EXPECTS, "set ingest.fields to the fields of the dump, in its order")


def inspected_columns(source: Source, _site: SiteSettings, settings: IngestSettings) -> Columns:
    """For `walltime ingest --dry-run`: the columns of a dump that are read, that are missing and that are ignored."""
    layout = find_layout(head(source), settings, "the dump")
    used = {layout.names[column] for column in layout.sources.values()}
    delimiter = repr(layout.delimiter.decode("utf-8", "backslashreplace"))
    given_by = "the first line" if layout.has_header else "ingest.fields or a known layout"
    return Columns(
        tuple(name for name in layout.names if name in used),
        tuple(column.names[0] for what, column in COLUMNS.items() if column.names and what not in layout.sources),
        tuple(name for name in layout.names if name not in used),
        (f"delimiter {delimiter}", f"columns told by {given_by}"),
    )


def header_layout(line: bytes, delimiter: bytes | None = None) -> Layout | None:
    """The layout a line of column names tells: a job id among them, and half of them known; else None."""
    gaps = [gap for gap in _BETWEEN_NAMES.findall(line) if gap.strip(b" ")]
    between = delimiter or max(gaps, key=gaps.count, default=None)
    if between is None or not _TELLING.search(line):
        return None
    names = tuple(map(column_name, line.removesuffix(between).split(between)))
    n_known = _n_known(names)
    if n_known < 2 or (2 * n_known < len(names) and not _has_core(names)) or not any(name in _IDS for name in names):
        return None
    return Layout(names, between, line.endswith(between), has_quotes=line.lstrip().startswith(b'"'))


def _names_no_id(line: bytes) -> bool:
    """Whether a line names columns of an accounting dump, and no job id among them."""
    names = list(map(column_name, _NAME.findall(line)))
    return not _TELLING.search(line) and len(names) > 2 and 2 * _n_known(names) > len(names) and _has_core(names)


def _n_known(names: Sequence[str]) -> int:
    return sum(kind_of(name) is not Kind.OTHER for name in names)


def looks_right(head: bytes) -> bool:
    """Whether a source's first bytes are a text dump: a line of column names, or delimited job records without one."""
    first = first_line(head)
    if header_layout(first) is not None or _names_no_id(first) or _is_fixed_width(head):
        return True
    lines = _whole_lines(head)[:20]
    return sum(_fits_xdmod(line) or _is_record(line) for line in lines) * 2 > len(lines)


def told(head: bytes) -> set[str]:
    """What a dump's columns tell in whose cells most values are of the kind; nothing where no job id is named."""
    layout, lines = header_layout(first_line(head)), _whole_lines(head)[1:100]
    if layout is None:
        return set()
    rows = [line.removesuffix(layout.delimiter) if layout.is_trailing else line for line in lines]
    cells = [row for row in (row.split(layout.delimiter) for row in rows) if len(row) == len(layout.names)]
    return {
        what
        for what, place in layout.sources.items()
        if 2 * sum(layout.kinds[place].fits(row[place].strip(b'"')) is not None for row in cells) >= len(cells)
    }


def first_line(head: bytes) -> bytes:
    """The first line that is neither blank nor a message of sacct."""
    return next(iter(_lines(head)), b"").lstrip(b" ")


def is_message(line: bytes) -> bool:
    """Whether a line is what sacct says on stderr, as `sacct: error: slurmdbd: ...`: never a job's first column."""
    return _MESSAGE.match(line) is not None


def column_name(cell: bytes) -> str:
    """The name in a header's cell, in small letters, without quotes and width."""
    return _WIDTH.sub("", cell.decode("utf-8", "backslashreplace").strip().strip('"')).lower()


def _has_core(names: Sequence[str]) -> bool:
    """Whether a mostly unknown set of columns still is an accounting dump's."""
    core = ("state", "submit_s", "runtime_s", "end_s")
    return sum(any(name in names for name in COLUMNS[what].names) for what in core) >= 2


def _is_fixed_width(head: bytes) -> bool:
    """A line of names with blanks between, a line of dashes under it."""
    lines = [line for line in head.split(b"\n", 4) if line.strip()][:2]
    is_ruled = len(lines) == 2 and re.fullmatch(rb"(?:-+ +)*-+ *\r?", lines[1]) is not None
    return is_ruled and _TELLING.search(lines[0]) is not None


def _told(fields: Sequence[str], asked: bytes | None, lines: Sequence[bytes]) -> Layout:
    """The layout the settings name; the delimiter and whether it trails by what most lines show."""
    names = tuple(_WIDTH.sub("", field.strip()).lower() for field in fields)
    if not any(name in _IDS for name in names):
        raise InputError("ingest.fields", ", ".join(map(printable, fields)), "JobID among them", "add it")

    def fitting(delimiter: bytes, n: int) -> int:
        return sum(line.count(delimiter) == n for line in lines)

    n = len(names)
    delimiter = asked or max(_DELIMITERS, key=lambda d: max(fitting(d, n - 1), fitting(d, n)))
    trailing = sum(line.count(delimiter) == n and line.endswith(delimiter) for line in lines)
    return Layout(names, delimiter, trailing > fitting(delimiter, n - 1), has_header=False)


def _whole_lines(head: bytes) -> list[bytes]:
    return _lines(head[: head.rfind(b"\n") + 1] or head)


def _lines(text: bytes) -> list[bytes]:
    """The lines that are neither blank nor a message of sacct."""
    return [line.rstrip(b"\r") for line in text.split(b"\n") if line.strip() and not is_message(line)]


def _fits_xdmod(line: bytes) -> bool:
    """Whether a line holds the columns of XDMOD, telling kinds of values where they belong."""
    cells = line.split(b"|", len(_XDMOD) - 1)
    return len(cells) == len(_XDMOD) and all(kind.fits(cell) for kind, cell in zip(XDMOD.kinds, cells, strict=True))


_STATE = re.compile(rb"[A-Z_]{4,}(?: by \d+)?")
_CLOCK = re.compile(rb"(?:\d+-)?\d+:\d\d(?::\d\d)?(?:\.\d+)?|\d{4}-\d\d-\d\d[T ][\d:]+")


def _is_record(line: bytes) -> bool:
    """Whether a delimited line has the look of a job: an id, a state, and a time or duration."""
    delimiter = next((d for d in _DELIMITERS if line.count(d) >= 3), None)
    cells = line.split(delimiter) if delimiter else []
    return all(any(map(matches, cells)) for matches in (Kind.ID.fits, _STATE.fullmatch, _CLOCK.fullmatch))
