"""What this machine has to read jobs from: a given log, Slurm's sacct, or the accounting folder of a PBS."""

import re
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from pipeline.errors import InputError, printable
from pipeline.ingest.inspect import inspect
from pipeline.ingest.sources import find_sources
from pipeline.settings import IngestSettings, SiteSettings

PBS_FOLDERS = (
    "var/spool/pbs/server_priv/accounting", "var/spool/torque/server_priv/accounting",
    "var/lib/torque/server_priv/accounting", "usr/spool/PBS/server_priv/accounting",
)  # fmt: skip
"""Where OpenPBS, PBS Professional and TORQUE keep their accounting files, unless PBS_HOME says otherwise."""

_TIMEOUT_S = 30.0
_DAYS = re.compile(r"\d{8}")
_CLUSTER = re.compile(r"(?m)^ClusterName\s*=\s*(\S+)\s*$")
_PBS_HOME = re.compile(r"(?m)^\s*(?:export\s+)?PBS_HOME=(\S+)\s*$")


@dataclass(frozen=True, slots=True)
class Machine:
    """A source of jobs, the site's name and zone, and what was seen on the way, a sentence each.

    `keys` are those of [source]; `log` is the path of a given log, else empty, and then `keys` are there.
    """

    name: str
    timezone: str
    log: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    seen: Sequence[str] = ()


def look(log: str | None, environment: Mapping[str, str], root: Path = Path("/")) -> Machine:
    """What the machine offers, the given log before sacct before accounting folders; InputError where nothing is."""
    zone, name = _timezone(environment, root), socket.gethostname().split(".")[0] or "site"
    if log is not None:
        return Machine(name, zone, log=str(Path(log).absolute()), seen=[_inspected(log, zone)])
    seen: list[str] = []
    path = environment.get("PATH")
    if (sacct := shutil.which("sacct", path=path)) is not None:
        failure = program_failure([sacct, "-n", "-X", "-P", "-S", "now-1hours", "-o", "JobID"], environment)
        if not failure:
            return Machine(_cluster(environment) or name, zone, keys={"kind": "sacct", "since": "90d"},
                           seen=[f"sacct ({sacct}) answers"])  # fmt: skip
        seen.append(f"sacct ({sacct}) does not answer: {failure}")
    for folder in _pbs_folders(environment, root):
        if folder.is_dir() and any(_DAYS.fullmatch(path.name) for path in folder.iterdir()):
            keys = {"kind": "folder", "folder": str(folder), "pattern": "[12]*"}
            return Machine(name, zone, keys=keys, seen=[*seen, f"the accounting files in {folder} are there"])
    found = "; ".join(seen) or "no sacct on PATH and no accounting folder of PBS"
    raise InputError("this machine", printable(found, 500), "one of them, or a log", "give --log PATH")


def _inspected(log: str, zone: str) -> str:
    """A sentence on the first readable log behind the path; InputError where there is none."""
    given = Path(log)
    sources = find_sources([given])
    for one in inspect([sources[0].path], SiteSettings(timezone=zone), IngestSettings()):
        if one.error or one.format is None:
            do = "walltime ingest --dry-run"
            raise InputError(printable(log), one.error or "an unknown format", "an accounting log", do)
        what = "jobs" if one.is_whole else "jobs in its first part"
        return f"{printable(str(sources[0].path))} is of the format {one.format}, with {one.jobs.num_rows:,} {what}"
    raise InputError(printable(log), "no log", "an accounting log", "give the path of one")


def program_failure(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """What is wrong with a program; empty where it ends well."""
    try:
        done = _called(command, environment)
    except subprocess.TimeoutExpired:
        return f"silent for {_TIMEOUT_S:.0f} s"
    except OSError as error:
        return str(error.strerror)
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else printable(said[-1] if said else f"exit code {done.returncode}")


def _cluster(environment: Mapping[str, str]) -> str:
    """The name of Slurm's cluster; empty where scontrol does not say."""
    scontrol = shutil.which("scontrol", path=environment.get("PATH"))
    if scontrol is None:
        return ""
    try:
        done = _called([scontrol, "show", "config"], environment)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = _CLUSTER.search(done.stdout.decode("utf-8", "replace"))
    return found[1] if found else ""


def _called(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # noqa: S603 # nosec B603 # a list of constant arguments, no shell
        command, env=dict(environment), capture_output=True, timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def _pbs_folders(environment: Mapping[str, str], root: Path) -> list[Path]:
    homes = [environment["PBS_HOME"]] if environment.get("PBS_HOME") else []
    with suppress(OSError, UnicodeDecodeError):
        homes += _PBS_HOME.findall((root / "etc/pbs.conf").read_text(encoding="utf-8"))
    named = [Path(home) / "server_priv" / "accounting" for home in homes]
    return [*named, *(root / folder for folder in PBS_FOLDERS)]


def _timezone(environment: Mapping[str, str], root: Path) -> str:
    """The machine's IANA zone: TZ, then /etc/timezone, then what /etc/localtime links to; UTC where none is known."""
    candidates = [environment.get("TZ", "").removeprefix(":")]
    with suppress(OSError, UnicodeDecodeError):
        candidates.append((root / "etc/timezone").read_text(encoding="utf-8").strip())
    candidates.append(str((root / "etc/localtime").resolve()).partition("zoneinfo/")[2])
    return next((name for name in candidates if name and _is_zone(name)), "UTC")


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True
