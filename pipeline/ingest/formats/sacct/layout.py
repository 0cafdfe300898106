"""Which columns a dump of sacct has: their names, what may stand in them, and what separates them."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from pipeline.errors import InputError, printable
from pipeline.ingest.reader import Layout as Columns
from pipeline.settings import IngestSettings, SiteSettings

SOURCES: Mapping[str, tuple[str, ...]] = {
    "id": ("jobid", "job_id", "jobidraw", "job_id_raw"),
    "job_name": ("jobname", "job_name", "name"),
    "user": ("user", "user_name", "username", "user_id", "uid"),
    "user_group": ("group", "user_group", "group_name", "gid"),
    "account": ("account", "account_name", "project"),
    "queue": ("partition", "queue"),
    "qos": ("qos", "qosraw"),
    "submit_s": ("submit", "submit_time", "submittime", "time_submit"),
    "eligible_s": ("eligible", "eligible_time", "eligibletime", "time_eligible"),
    "start_s": ("start", "start_time", "starttime", "time_start"),
    "end_s": ("end", "end_time", "endtime", "time_end"),
    "runtime_s": ("elapsedraw", "elapsed", "run_time", "runtime", "walltime", "wallclock_used"),
    "limit_min": ("timelimitraw",),
    "requested_s": ("timelimit", "time_limit", "wallclock_req", "walltime_req"),
    "suspended_s": ("suspended",),
    "procs": ("alloccpus", "ncpus", "processors_used", "processors", "alloc_cpus"),
    "requested_procs": ("reqcpus", "req_cpus", "processors_req", "cpus_req"),
    "nodes": ("nnodes", "allocnodes", "nodes_used", "alloc_nodes"),
    "requested_nodes": ("reqnodes", "nodes_req", "req_nodes"),
    "requested_mem": ("reqmem",),
    "max_rss": ("maxrss",),
    "total_cpu": ("totalcpu",),
    "energy": ("consumedenergyraw", "consumedenergy"),
    "state": ("state", "job_state"),
    "exit_code": ("exitcode", "exit_code"),
    "derived_exit_code": ("derivedexitcode", "derived_exit_code"),
    "alloc_tres": ("alloctres", "tresalloc", "allocgres"),
    "req_tres": ("reqtres", "reqgres", "gpus_req"),
    "attempt_key": ("dbindex", "db_index"),
    "work_dir": ("workdir", "work_dir", "workingdirectory"),
    "comment": ("comment",),
    "admin_comment": ("admincomment", "admin_comment"),
    "submit_line": ("submitline", "submit_line"),
}
"""Which field tells what, the better one first."""


class Kind(Enum):
    """What may stand in a column; wide ones may hold the delimiter, and FREE ones a line's end."""

    ID = r"\d+(?:_(?:\d+|\[[^\]|]*\]?))?(?:\+\d+)?(?:\.[\w+.-]+)?"
    TIME = r"|Unknown|None|N/A|None assigned|[\d:/T +.Z-]+(?: ?[AaPp][Mm])?(?: ?[A-Z]{3,5})?"
    DURATION = r"|-?[\d:.-]+|UNLIMITED|Partition_Limit|INVALID|Unknown"
    COUNT = r"|-?\d+(?:\.\d+)?[KMGTP]?|Unknown|N/A"
    MEMORY = r"|[\d.?]+[KMGTPE]?(?:i?B)?[nc]?|UNLIMITED|N/A"
    STATE = r"[A-Za-z_]+(?: by \d+)?\+?"
    EXIT = r"|\d+:\d+|-?\d+"
    NAME = r"[^\s]*"
    TRES = r"|\d+|[^\s=]+=[^\s]*|[\w/]+(?::[\w.]+)*(?:\(S:[\d,-]*\))?(?:,.*)?"
    HOSTS = r"|None assigned|[^\s]*"
    OTHER = r"[^\n]*"
    FREE = r"[\s\S]*"
    FOLDER = r"|/[\s\S]*"

    @property
    def is_wide(self) -> bool:
        """Whether a value may hold the delimiter."""
        return self in (Kind.FREE, Kind.FOLDER)

    @property
    def is_text(self) -> bool:
        """Whether values are anybody's text, which tells nothing about where a record's columns lie."""
        return self in (Kind.FREE, Kind.FOLDER, Kind.OTHER, Kind.NAME, Kind.HOSTS)


_NAMES = {
    Kind.ID: "jobid jobidraw job_id job_id_raw",
    Kind.TIME: "submit eligible start end submit_time eligible_time start_time end_time submittime eligibletime "
    "starttime endtime time_submit time_eligible time_start time_end",
    Kind.DURATION: "elapsed elapsedraw timelimit timelimitraw suspended totalcpu usercpu systemcpu cputime cputimeraw "
    "reserved planned resvcpu resvcpuraw plannedcpu plannedcpuraw mincpu avecpu run_time runtime walltime "
    "wallclock_req wallclock_used time_limit walltime_req",
    Kind.COUNT: "alloccpus ncpus reqcpus nnodes allocnodes reqnodes ntasks uid gid priority associd dbindex db_index "
    "qosraw reservationid wckeyid consumedenergyraw consumedenergy maxpages avepages processors_used processors_req "
    "processors nodes_used nodes_req cpus_req req_cpus alloc_cpus alloc_nodes req_nodes restarts",
    Kind.MEMORY: "reqmem maxrss averss maxvmsize avevmsize maxdiskread maxdiskwrite avediskread avediskwrite mem_req",
    Kind.STATE: "state job_state",
    Kind.EXIT: "exitcode derivedexitcode exit_code derived_exit_code",
    Kind.NAME: "user group account partition qos cluster user_name group_name account_name layout blockid mcslabel "
    "maxrssnode maxvmsizenode maxpagesnode mincpunode maxdiskreadnode maxdiskwritenode",
    Kind.TRES: "alloctres reqtres reqgres allocgres tresalloc tresreqraw tresallocraw tresusageintot tresusageinmax "
    "tresusageinave tresusageinmin tresusageouttot tresusageoutmax tresusageoutave tresusageoutmin gpus_req "
    "tresusageinmaxnode tresusageinmaxtask tresusageinminnode tresusageinmintask tresusageoutmaxnode "
    "tresusageoutmaxtask tresusageoutminnode tresusageoutmintask",
    Kind.HOSTS: "nodelist node_list",
    Kind.FREE: "jobname job_name name comment admincomment admin_comment systemcomment submitline submit_line "
    "constraints extra container reason reservation wckey stdin stdout stderr licenses failednode",
    Kind.FOLDER: "workdir work_dir workingdirectory",
}  # fmt: skip
KINDS: Mapping[str, Kind] = {name: kind for kind, names in _NAMES.items() for name in names.split()}

XDMOD = (
    "JobID", "JobIDRaw", "Cluster", "Partition", "QOS", "Account", "Group", "GID", "User", "UID", "Submit", "Eligible",
    "Start", "End", "Elapsed", "ExitCode", "State", "NNodes", "NCPUS", "ReqCPUS", "ReqMem", "ReqTRES", "AllocTRES",
    "Timelimit", "NodeList", "JobName",
)  # fmt: skip
"""The columns of dumps made for Open XDMoD (its xdmod-slurm-helper), which have no header."""

STATES = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "CONFIGURING", "COMPLETING", "DEADLINE", "FAILED", "LAUNCH_FAILED",
    "NODE_FAIL", "OUT_OF_MEMORY", "PENDING", "POWER_UP_NODE", "PREEMPTED", "RECONFIG_FAIL", "REQUEUED", "REQUEUE_FED",
    "REQUEUE_HOLD", "RESIZING", "RESV_DEL_HOLD", "REVOKED", "RUNNING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT",
    "STOPPED", "SUSPENDED", "TIMEOUT", "UPDATE_DB",
)  # fmt: skip
"""man sacct, "Job state codes" and "Job state flags"."""

_BY = re.compile(r" by \S+$")


def kind_of(name: str) -> Kind:
    """What may stand in the column of this name (small letters)."""
    return KINDS.get(name, Kind.TRES if name.startswith("tresusage") else Kind.OTHER)


def state_name(text: str) -> str:
    """A state as one word: without who cancelled, a cut one (`OUT_OF_ME+`) written out where only one fits."""
    word = _BY.sub("", text.strip())
    if not word.endswith("+"):
        return word
    stem = word.rstrip("+")
    fitting = [state for state in STATES if state.startswith(stem)]
    return fitting[0] if len(fitting) == 1 else stem


EXPECTS = "sacct: columns named in a first line as by `sacct -P`, or in ingest.fields"
_NAME = re.compile(rb"[A-Za-z]\w*(?:%-?\d+)?")
_WIDTH = re.compile(r"%-?\d+$")
_DELIMITERS = (b"|", b"\x1f", b"^|^", b"\t", b";", b",")
_IDS = SOURCES["id"]
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
        found = {what: [place[name] for name in names if name in place] for what, names in SOURCES.items()}
        return {what: columns[0] for what, columns in found.items() if columns}

    @property
    def id_column(self) -> int:
        """The column of the job's id."""
        return self.sources["id"]

    @property
    def is_quoted(self) -> bool:
        """Whether values may stand in double quotes: the way of spreadsheets' exports, not of sacct."""
        return self.delimiter == b"," or self.has_quotes

    @property
    def n_delimiters(self) -> int:
        """Delimiters in a line without surplus."""
        return len(self.names) - (not self.is_trailing)


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
        return Layout(tuple(name.lower() for name in XDMOD), b"|", is_trailing=False, has_header=False)
    found = f"no column names in '{printable(first.decode('utf-8', 'backslashreplace'), 60)}'"
    raise InputError(where, found, EXPECTS, "set ingest.fields to the fields of the dump, in its order")


def inspected_columns(start: bytes, _site: SiteSettings, settings: IngestSettings) -> Columns:
    """For `walltime ingest --dry-run`: the columns of a dump that are read, that are missing and that are ignored."""
    layout = find_layout(start, settings, "the dump")
    used = {layout.names[column] for column in layout.sources.values()}
    delimiter = repr(layout.delimiter.decode("utf-8", "backslashreplace"))
    given_by = "the first line" if layout.has_header else "ingest.fields or a known layout"
    return Columns(
        tuple(name for name in layout.names if name in used),
        tuple(names[0] for what, names in SOURCES.items() if what not in layout.sources),
        tuple(name for name in layout.names if name not in used),
        (f"delimiter {delimiter}", f"columns told by {given_by}"),
    )


def header_layout(line: bytes, delimiter: bytes | None = None) -> Layout | None:
    """The layout a line of column names tells: a job id among them, and half of them known; else None."""
    names = _NAME.findall(line) if _TELLING.search(line) else []
    if len(names) < 2 or not _NAME.match(line.strip(b'" ')):
        return None
    between = delimiter or _between(line)
    if between is None:
        return None
    is_trailing = line.endswith(between)
    cells = line.removesuffix(between).split(between)
    said = tuple(_clean(cell) for cell in cells)
    n_known = sum(name in KINDS for name in said)
    if n_known < 2 or (2 * n_known < len(said) and not _has_core(said)) or not any(name in _IDS for name in said):
        return None
    return Layout(said, between, is_trailing, has_quotes=line.lstrip().startswith(b'"'))


def _names_no_id(line: bytes) -> bool:
    """Whether a line names columns of an accounting dump, and no job id among them."""
    names = [name.decode().lower() for name in _NAME.findall(line)]
    n_known = sum(_WIDTH.sub("", name) in KINDS for name in names)
    return not _TELLING.search(line) and len(names) > 2 and 2 * n_known > len(names) and _has_core(names)


def looks_right(head: bytes) -> bool:
    """Whether a source's first bytes are a text dump: a line of column names, or delimited job records without one."""
    head = head.removeprefix(b"\xef\xbb\xbf")
    first = first_line(head)
    if header_layout(first) is not None or _names_no_id(first) or _is_fixed_width(head):
        return True
    lines = _whole_lines(head)[:20]
    return bool(lines) and (all(map(_fits_xdmod, lines)) or sum(_is_record(line) for line in lines) * 2 > len(lines))


def first_line(head: bytes) -> bytes:
    """The first line that is not blank."""
    return next((line.rstrip(b"\r") for line in head.split(b"\n") if line.strip()), b"").lstrip(b" ")


def _clean(cell: bytes) -> str:
    return _WIDTH.sub("", cell.decode("utf-8", "backslashreplace").strip().strip('"')).lower()


def _has_core(names: Sequence[str]) -> bool:
    """Whether a mostly unknown set of columns still is an accounting dump's."""
    return (
        sum(any(name in names for name in SOURCES[what]) for what in ("state", "submit_s", "runtime_s", "end_s")) >= 2
    )


def _between(line: bytes) -> bytes | None:
    """What stands between most names of a header; None where that is nothing but blanks."""
    gaps = re.findall(rb"(?<=[A-Za-z0-9_])[^A-Za-z0-9_%]+(?=[A-Za-z])", line)
    if not gaps:
        return None
    gap: bytes = Counter(gaps).most_common(1)[0][0]
    if gap.strip(b" ") == b"":
        return None
    return gap.strip(b'"') if gap.strip(b'"') == b"," or line.lstrip().startswith(b'"') else gap


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
    whole = head[: head.rfind(b"\n") + 1] or head
    return [line.rstrip(b"\r") for line in whole.split(b"\n") if line.strip()]


def _fits_xdmod(line: bytes) -> bool:
    """Whether a line holds the columns of XDMOD, telling kinds of values where they belong."""
    cells = line.split(b"|", len(XDMOD) - 1)
    text = [cell.decode("utf-8", "backslashreplace") for cell in cells]
    kinds = [kind_of(name.lower()) for name in XDMOD]
    return len(cells) == len(XDMOD) and all(re.fullmatch(k.value, t) for k, t in zip(kinds, text, strict=True))


def _is_record(line: bytes) -> bool:
    """Whether a delimited line has the look of a job: an id, a state, and a time or duration."""
    delimiter = next((d for d in _DELIMITERS if line.count(d) >= 3), None)
    cells = [cell.decode("utf-8", "backslashreplace") for cell in line.split(delimiter)] if delimiter else []
    has_id = any(re.fullmatch(Kind.ID.value, cell) for cell in cells)
    has_state = any(re.fullmatch(r"[A-Z_]{4,}(?: by \d+)?", cell) for cell in cells)
    has_clock = any(re.fullmatch(r"(?:\d+-)?\d+:\d\d(?::\d\d)?(?:\.\d+)?|\d{4}-\d\d-\d\d[T ][\d:]+", c) for c in cells)
    return has_id and has_state and has_clock
