"""A service and a timer of systemd that run a config every night, for sites without a Prefect server."""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.core.errors import InputError
from pipeline.core.text import printable

_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH that systemd gives a service."""

_SERVICE = """# Written by walltime init. One nightly run; a failed one leaves the tables of the night before.
[Unit]
Description=Walltime's nightly run of {site}
Documentation=man:systemd.timer(5)
After=network-online.target time-sync.target
Wants=network-online.target

[Service]
Type=oneshot
WorkingDirectory={folder}
{environment}ExecStart={command}
UMask=0027
Nice=10
NoNewPrivileges=yes
ProtectSystem=full
# The user whose sacct or accounting files show every job; the user needs to write the tables.
# User=walltime
"""

_TIMER = """# Written by walltime init. A night that was missed because the machine was off is run at the next start.
[Unit]
Description=Walltime's nightly run of {site}

[Timer]
OnCalendar=*-*-* {at}:00 {zone}
Persistent=true

[Install]
WantedBy=timers.target
"""


def slurm_environment(environment: Mapping[str, str], sacct: str) -> dict[str, str]:
    """What a service needs to run this sacct: SLURM_CONF, and a PATH where it lies outside that of systemd."""
    found = {"SLURM_CONF": environment["SLURM_CONF"]} if environment.get("SLURM_CONF") else {}
    if shutil.which(sacct, path=_PATH) is None and (here := shutil.which(sacct, path=environment.get("PATH"))):
        found["PATH"] = f"{Path(here).parent}:{_PATH}"
    return found


def unit_texts(
    slug: str, site: str, zone: str, at: str, program: Sequence[str], config: Path, environment: Mapping[str, str]
) -> dict[str, str]:
    """The units' texts by file name; `at` is a time of day as in 02:15. InputError for one that is not."""
    if not _CLOCK.fullmatch(at):
        raise InputError(f"--at {printable(at)}", "no time of day", "a time as in 02:15")
    command = " ".join(unit_word(word) for word in [*program, "run", str(config), "--quiet"])
    given = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in environment.items())
    service = _SERVICE.format(site=_plain(site), folder=_plain(str(config.parent)), command=command, environment=given)
    return {
        f"walltime-{slug}.service": service,
        f"walltime-{slug}.timer": _TIMER.format(site=_plain(site), at=at, zone=zone),
    }


def unit_word(text: str) -> str:
    """A word of a unit's command line: quoted, with no meaning of systemd's own left in it."""
    return _quoted(text).replace("$", "$$")


def _quoted(text: str) -> str:
    """A word in quotes: systemd replaces variables in a command line, but not in Environment."""
    plain = _plain(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


def _plain(text: str) -> str:
    """A value of a unit, in which a percent sign would begin a specifier."""
    if not text.isprintable():
        raise InputError(printable(text), "a character that cannot be shown", "a printable path or name")
    return text.replace("%", "%%")
