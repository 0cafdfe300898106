"""What writers of exports read, the tables and names of one published version, and the writer of CSV."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.application_names import application_of
from pipeline.errors import spreadsheet_text
from pipeline.settings import ExportSettings
from pipeline.tables import MEMORY


@dataclass(frozen=True, slots=True)
class PublishedTables:
    """One published version, as far as exports read it."""

    estimates: pa.Table
    """ESTIMATES."""
    applications: Mapping[str, str]
    """The application of each job name that the built-in rules do not find (`known_applications`)."""
    has_hashed_names: bool
    """Whether users, accounts and names are keyed hashes."""
    has_own_name_rules: bool
    """Whether the site has rules that derive applications from job names."""
    memory: pa.Table = field(default_factory=MEMORY.empty)
    """MEMORY."""
    gpu_types: Mapping[str, str] = field(default_factory=dict)
    """The type of GPUs of each queue that has one alone (`known_gpu_types`)."""
    early: Sequence[tuple[str, str]] = ()
    """`who` and `what` of the kinds of jobs that keep their requests (`early_kinds`)."""
    medians_s: Mapping[str, float] = field(default_factory=dict)
    """The median runtime of each queue's jobs, s (`known_medians`)."""


Files = Mapping[str, bytes]
"""The bytes of each file, by name."""

Writer = Callable[[PublishedTables, ExportSettings], Files]


def known_applications(jobs: pa.Table) -> dict[str, str]:
    """The application of each job name, where the built-in rules would not find it in every plug-in.

    These are names to which a rule of the site gave an application, and names with letters beyond ASCII, to which Lua's
    patterns cannot be applied. Of several applications of one name the most frequent is taken. In order of name.

    Parameters
    ----------
    jobs : pa.Table
        JOBS, of which job_name and application are read.

    Returns
    -------
    dict of str to str
        Application by job name; empty where the log has no names.

    Examples
    --------
    >>> known_applications(tables["jobs"])
    {}
    """
    pairs = pa.table({name: jobs.column(name).cast(pa.string()) for name in ("job_name", "application")})
    counts = pairs.drop_null().group_by(["job_name", "application"]).aggregate([([], "count_all")])
    found: dict[str, Counter[str]] = {}
    for row in counts.to_pylist():
        found.setdefault(row["job_name"], Counter())[row["application"]] = row["count_all"]
    chosen = {name: min(of, key=lambda one: (-of[one], one)) for name, of in sorted(found.items())}
    return {name: one for name, one in chosen.items() if not name.isascii() or application_of(name) != one}


def known_gpu_types(jobs: pa.Table) -> dict[str, str]:
    """By queue the one type of GPUs that its jobs in JOBS have held: that of a submit that names none."""
    held = jobs.select(["queue", "gpu_type"]).filter(pc.greater(jobs.column("gpus"), 0)).drop_null()
    pairs = pa.table({name: held.column(name).cast(pa.string()) for name in held.column_names})
    found = pairs.group_by("queue", use_threads=False).aggregate([("gpu_type", "count_distinct"), ("gpu_type", "min")])
    return {row["queue"]: row["gpu_type_min"] for row in found.to_pylist() if row["gpu_type_count_distinct"] == 1}


def known_medians(jobs: pa.Table) -> dict[str, float]:
    """By queue the median runtime of its jobs in JOBS, s: the order of jobs whose own runtime is not to be used."""
    runs = pa.table({"queue": jobs["queue"].cast(pa.string()), "runtime_s": jobs["runtime_s"]}).drop_null()
    found: dict[str, float] = runs.to_pandas().groupby("queue")["runtime_s"].median().to_dict()
    return found


CSV_FILE = "walltime.csv"


def csv_files(tables: PublishedTables, settings: ExportSettings) -> Files:  # noqa: ARG001
    """walltime.csv: ESTIMATES with a header, in UTF-8, with line ends CR LF (RFC 4180).

    A text that begins as a formula does gets an apostrophe in front, which spreadsheets do not show. A database that
    needs the text itself removes one leading apostrophe. Null is an empty cell; an empty text cannot be told from it.
    """
    rows = zip(*(column.to_pylist() for column in tables.estimates.columns), strict=True)
    return {CSV_FILE: csv_text(tables.estimates.column_names, rows).encode("utf-8", "backslashreplace")}


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]], line_end: str = "\r\n") -> str:
    """Rows as CSV with a header; a text that a spreadsheet would take for a formula begins with an apostrophe."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=line_end)
    writer.writerow(columns)
    writer.writerows([spreadsheet_text(one) if isinstance(one, str) else one for one in row] for row in rows)
    return out.getvalue()
