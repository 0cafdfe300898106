"""Writes a first config with comments, and units of systemd for it; no file that exists is replaced."""

import hashlib
import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flows.services.machine import Machine, look
from pipeline.config_file import parse_settings
from pipeline.errors import InputError, printable
from pipeline.settings import RunSettings

_SOURCE_COMMENTS = {
    "kind": "Where jobs come from: sacct (each run asks for what is new), or a folder of accounting files.",
    "since": "How far back the first run reads; later runs read what is new.",
    "folder": "The folder of the accounting files, and which of its files are logs.",
}
_REST = """
# Processors of the machine and of a node: predictions and advice stay within them. Fill them in.
# max_procs = 512
# procs_per_node = 24
# true: users, accounts, groups, job names and folders become keyed hashes before anything is written; the key is a file
# that only its owner may read.
anonymise = false
# key_file = "walltime.key"

[ingest]
# "auto" finds the format by content; `walltime ingest --dry-run` shows what it is taken for.
format = "auto"
# Without a rule an application is the job's name without its numbers and suffix: solver_n16.sh is solver. The first
# rule that matches wins; `find` is a regular expression.
# application_rules = [{ text = "job_name", find = "^vasp", gives = "vasp" }]

[publish]
# This many of the newest versions stay whatever their age; others stay for a week, and then one of each day and week.
keep_versions = 7
"""

_CHECK = """
# The scheduler writes these logs all day. A night whose newest job ended longer ago than this (days) is reported:
# "warn", or "block" to keep the tables that were published before.
[checks.newest_job]
mode = "warn"
threshold = 2.0
"""
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


def config_text(machine: Machine, tables: Path) -> str:
    """The config of a machine, which publishes to `tables`; InputError for a path or name that TOML cannot hold."""
    seen = "".join(f"# Found here: {printable(line, 500)}.\n" for line in machine.seen)
    text = (
        f"# Written by walltime init. Every other setting has a default; configs/all.toml lists them all.\n{seen}\n"
        f"{_log_lines(machine)}"
        f"# Where tables are published.\noutput_dir = {quoted(str(tables))}\n\n"
        f"{_source_lines(machine)}"
        "[site]\n# The cluster's name, as it stands in every table.\n"
        f"name = {quoted(machine.name)}\n"
        "# The cluster's zone: logs write local times, and the nightly schedule follows it.\n"
        f"timezone = {quoted(machine.timezone)}\n"
    )
    return text + _REST.removeprefix("\n") + (_CHECK if machine.keys else "")


def quoted(text: str) -> str:
    """The text as a TOML string."""
    if not text.isprintable():
        raise InputError(printable(text), "a character that cannot be shown", "a printable path or name")
    return json.dumps(text, ensure_ascii=False)


def read_back(text: str, where: str) -> RunSettings:
    """The settings that a text of a config gives, as `walltime run` would read them."""
    return parse_settings(tomllib.loads(text), where)


def _log_lines(machine: Machine) -> str:
    if not machine.log:
        return ""
    comment = "# Logs to read: paths, folders or globs, relative to this file's folder."
    return f"{comment}\nlogs = [{quoted(machine.log)}]\n\n"


def _source_lines(machine: Machine) -> str:
    if not machine.keys:
        return ""
    lines = ["[source]"]
    for key, value in machine.keys.items():
        lines += [f"# {_SOURCE_COMMENTS[key]}"] if key in _SOURCE_COMMENTS else []
        lines.append(f"{key} = {quoted(value)}")
    return "\n".join(lines) + "\n\n"


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


@dataclass(frozen=True, slots=True)
class Initialised:
    """What was found, and the files that were written."""

    machine: Machine
    config: Path
    units: tuple[Path, ...] = ()


def initialise(
    out: Path, log: str | None, site: str | None, environment: Mapping[str, str], root: Path = Path("/")
) -> Initialised:
    """Write the config of this machine to `out`; InputError where it exists, or there is nothing to read."""
    _refuse_existing([out])
    found = look(log, environment, root)
    machine = replace(found, name=site) if site else found
    text = config_text(machine, out.absolute().parent / f"{out.stem}-tables")
    read_back(text, printable(str(out)))
    _write_new({out: text})
    return Initialised(machine, out)


def site_slug(site: str) -> str:
    """The site's name in lowercase letters, digits and dashes; a digest ends it where it had to be changed."""
    slug = re.sub("[^a-z0-9]+", "-", site.lower()).strip("-")[:40].strip("-")
    if slug == site:
        return slug
    mark = hashlib.sha256(site.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{slug}-{mark}".strip("-")


def write_units(
    settings: RunSettings, config: Path, folder: Path, at: str, environment: Mapping[str, str]
) -> tuple[Path, ...]:
    """Write a service and a timer for a config to a folder; InputError where one of them exists."""
    name = settings.site.name
    needed = slurm_environment(environment, settings.ingest.sacct_command) if settings.source.kind == "sacct" else {}
    texts = unit_texts(site_slug(name), name, settings.site.timezone, at, program(), config.absolute(), needed)
    files = {folder / name: text for name, text in texts.items()}
    _refuse_existing(list(files))
    folder.mkdir(parents=True, exist_ok=True)
    _write_new(files)
    return tuple(files)


def program() -> list[str]:
    """The words that start this installation's `walltime`."""
    beside = Path(sys.executable).parent / "walltime"
    return [str(beside)] if os.access(beside, os.X_OK) else [sys.executable, "-m", "flows.cli"]


def _refuse_existing(paths: list[Path]) -> None:
    for path in paths:
        if path.exists():
            do = "remove it, or choose another name"
            raise InputError(printable(str(path)), "a file that exists", "a new file", do)


def _write_new(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            _refuse_existing([path])
            raise
