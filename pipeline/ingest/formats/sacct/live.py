"""What the site's own `sacct` says now, as a source the text reader reads: nothing is written to disk on the way.

Source: man sacct (Slurm 18 to 25), and its --helpformat for the fields this one offers. No shell is involved. Slurm
takes every byte but NUL in a job name, 0x1f too, so only a delimiter nobody could have foreseen cannot occur in one:
0x1f with random letters behind it. The last field is a number, so that no newline in a name can look like a row's end.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, cast

from pipeline.core.errors import InputError
from pipeline.core.settings import IngestSettings, SiteSettings
from pipeline.core.text import printable
from pipeline.ingest.formats.sacct.command_output import Output, run
from pipeline.ingest.sources import Source

FIELDS = (
    "JobID", "User", "Group", "Account", "Partition", "QOS", "JobName", "State", "ExitCode", "DerivedExitCode",
    "Submit", "Eligible", "Start", "End", "Elapsed", "ElapsedRaw", "Suspended", "Timelimit", "TimelimitRaw",
    "AllocCPUS", "AllocNodes", "AllocTRES", "NNodes", "ReqCPUS", "ReqNodes", "ReqMem", "ReqTRES", "ReqGRES",
    "AllocGRES", "MaxRSS", "TotalCPU", "Restarts", "Comment", "SubmitLine", "WorkDir", "DBIndex", "JobIDRaw",
)  # fmt: skip
"""The fields asked for, where sacct offers them; the last one no user can put a newline in."""

_HELP_TIMEOUT_S = 60.0
_UNSET = ("SACCT_FORMAT", "SLURM_BITSTR_LEN")
_PINNED = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "standard"}
_DO = "check that it works in a terminal (ingest.sacct_command names it, ingest.sacct_timeout_s bounds the wait)"


@dataclass(frozen=True, slots=True)
class Window:
    """Jobs that were in the system at some time from `since_s` up to `until_s` (UTC epoch seconds)."""

    since_s: int
    until_s: int


@dataclass(frozen=True, slots=True)
class Live:
    """A source, and the settings to read it under: its delimiter, and UTC whatever the site's zone."""

    source: Source
    site: SiteSettings
    settings: IngestSettings


@contextmanager
def live(
    site: SiteSettings, settings: IngestSettings, window: Window, environment: Mapping[str, str], token: bytes
) -> Iterator[Live]:
    """sacct's records of a window; sacct is started when they are first read, and ended at the latest here.

    environment: sacct's, with PATH; `token`: at least 4 random bytes. InputError where sacct is not there, fails, or is
    silent for longer than settings.sacct_timeout_s.
    """
    known = {name: value for name, value in environment.items() if name not in _UNSET} | _PINNED
    delimiter = "\x1f" + token.hex()
    command = (settings.sacct_command, *_arguments(offered(settings, known), window, delimiter))
    output = Output(command, known, settings.sacct_timeout_s, _DO)
    reading = {"format": "sacct", "sacct_delimiter": delimiter}
    try:
        yield Live(
            Source(Path("sacct"), "sacct", opened=lambda: cast(BinaryIO, output.view())),
            site.model_copy(update={"timezone": "UTC"}),
            settings.model_copy(update=reading),
        )
    finally:
        output.stop()


def offered(settings: IngestSettings, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Those of FIELDS that this sacct offers; InputError where it offers too few for a job."""
    said = run((settings.sacct_command, "--helpformat"), environment, _HELP_TIMEOUT_S, _DO)
    names = {word.lower() for word in said.decode("utf-8", "replace").split()}
    fields = tuple(name for name in FIELDS if name.lower() in names)
    if not {"JobID", "Submit", "State"} <= set(fields):
        found = f"no field list from --helpformat ('{printable(said[:60].decode('utf-8', 'replace'))}')"
        raise InputError(printable(settings.sacct_command), found, "JobID, Submit, State and more", _DO)
    return fields


def _arguments(fields: tuple[str, ...], window: Window, delimiter: str) -> tuple[str, ...]:
    if window.since_s >= window.until_s:
        raise InputError("--since", _instant(window.since_s), f"an instant before {_instant(window.until_s)}")
    return (
        "--allusers", "--duplicates", "--parsable2", "--noconvert", f"--delimiter={delimiter}",
        f"--starttime={_instant(window.since_s)}", f"--endtime={_instant(window.until_s)}",
        f"--format={','.join(fields)}",
    )  # fmt: skip


def _instant(epoch_s: int) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
