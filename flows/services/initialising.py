"""Writes a first config with comments, and units of systemd for it; no file that exists is replaced.

A config names what the machine has to read jobs from: a given log, Slurm's sacct, or the accounting folder of a PBS.
"""

import hashlib
import json
import os
import re
import shutil
import socket
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from statistics import mode
from string import Template
from typing import NamedTuple
from zoneinfo import available_timezones

from flows.services.schedulers import OPENPBS, SLURM, Node, controller
from pipeline.errors import InputError, WalltimeError, printable
from pipeline.ingest import inspect
from pipeline.ingest.live import run
from pipeline.ingest.sources import find_sources
from pipeline.settings import IngestSettings, RunSettings, SiteSettings, parse_settings

PBS_FOLDERS = (
    "var/spool/pbs/server_priv/accounting", "var/spool/torque/server_priv/accounting",
    "var/lib/torque/server_priv/accounting", "usr/spool/PBS/server_priv/accounting",
)  # fmt: skip
"""Where OpenPBS, PBS Professional and TORQUE keep their accounting files, unless PBS_HOME says otherwise."""

PREFECT_UNIT = "walltime-prefect.service"
_TIMEOUT_S = 30.0
_DAYS = re.compile(r"\d{8}")
_PBS_HOME = re.compile(r"(?m)^\s*(?:export\s+)?PBS_HOME=(\S+)\s*$")


class Machine(NamedTuple):
    """The site's name and zone, its source of jobs, and what was seen on the way, a sentence each."""

    name: str
    timezone: str
    source: str
    """The part of the config that says where jobs come from: the logs, or the section [source]."""
    seen: Sequence[str] = ()
    nodes: Sequence[Node] = ()
    """Those that the scheduler tells."""


SAMPLE_LOG = "riverbend.swf.gz"
SAMPLE_FOLDERS = ("configs", "data_samples")


def sample(name: str = SAMPLE_LOG) -> Path:
    """The path of a config or a sample log that comes with Walltime; FileNotFoundError lists those there are.

    A checkout and an installed package have them beside the code.
    """
    root = Path(__file__).resolve().parents[2]
    found = {path.name: path for folder in SAMPLE_FOLDERS for path in sorted((root / folder).glob("*"))}
    if name not in found:
        raise FileNotFoundError(f"no sample {name!r}: expected one of {', '.join(found)}")
    return found[name]


def look(log: str | None, environment: Mapping[str, str], root: Path = Path("/")) -> Machine:
    """What the machine offers, the given log before sacct before accounting folders; InputError where nothing is."""
    zone, name = _timezone(environment, root), socket.gethostname().split(".")[0] or "site"
    if log is not None:
        source = template("logs.toml", log=quoted(str(Path(log).absolute())))
        path = find_sources([Path(log)])[0].path
        one = next(inspect([path], SiteSettings(timezone=zone), IngestSettings()))
        if one.error:
            raise WalltimeError(one.error)
        what = "jobs" if one.is_whole else "jobs in its first part"
        seen = f"{printable(str(path))} is of the format {one.format}, with {one.jobs.num_rows:,} {what}"
        return Machine(name, zone, source, [seen])
    failed: list[str] = []
    if (sacct := shutil.which("sacct", path=environment.get("PATH"))) is not None:
        failure = program_failure([sacct, "-n", "-X", "-P", "-S", "now-1hours", "-o", "JobID"], environment)
        if not failure:
            cluster = name
            with suppress(InputError):
                cluster = controller(environment).cluster or name
            nodes = SLURM.nodes(environment)
            limits = dict.fromkeys(f"partition {node.partition}: {node.partition_limits}" for node in nodes)
            return Machine(cluster, zone, template("sacct.toml"), [f"sacct ({sacct}) answers", *limits], nodes)
        failed.append(f"sacct ({sacct}) does not answer: {failure}")
    for folder in _pbs_folders(environment, root):
        if folder.is_dir() and any(_DAYS.fullmatch(path.name) for path in folder.iterdir()):
            source = template("folder.toml", folder=quoted(str(folder)))
            told = [*failed, f"the accounting files in {folder} are there"]
            return Machine(name, zone, source, told, OPENPBS.nodes(environment))
    found = "; ".join(failed) or "no sacct on PATH and no accounting folder of PBS"
    raise InputError("this machine", printable(found, 500), "one of them, or a log", "give --log PATH")


def program_failure(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """What is wrong with a program; empty where it ends well."""
    try:
        run(command, environment, _TIMEOUT_S, "")
    except InputError as error:
        return error.found
    return ""


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
    return next((name for name in candidates if name in available_timezones()), "UTC")


_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH that systemd gives a service."""


def template(file: str, **values: str) -> str:
    """The text of a file of `templates/` with these values."""
    return Template(files("flows.services").joinpath("templates", f"{file}.txt").read_text("utf-8")).substitute(values)


def quoted(text: str) -> str:
    """The text as a string of TOML, and of systemd; InputError for one that neither can hold."""
    if not text.isprintable():
        raise InputError(printable(text), "a character that cannot be shown", "a printable path or name")
    return json.dumps(text, ensure_ascii=False)


def slurm_environment(environment: Mapping[str, str], sacct: str) -> dict[str, str]:
    """What a service needs to run this sacct: SLURM_CONF, and a PATH where it lies outside that of systemd."""
    found = {"SLURM_CONF": environment["SLURM_CONF"]} if environment.get("SLURM_CONF") else {}
    if shutil.which(sacct, path=_PATH) is None and (here := shutil.which(sacct, path=environment.get("PATH"))):
        found["PATH"] = f"{Path(here).parent}:{_PATH}"
    return found


def unit_word(text: str) -> str:
    """A word of a unit's command line: quoted, with no meaning of systemd's own left in it."""
    return quoted(text).replace("%", "%%").replace("$", "$$")


def initialise(
    out: Path, log: str | None, site: str | None, environment: Mapping[str, str], root: Path = Path("/")
) -> Machine:
    """Write the config of this machine to `out`, with its tables in a folder beside it.

    InputError where it exists, there is nothing to read, or TOML cannot hold a path or name.
    """
    _refuse_existing([out])
    found = look(log, environment, root)
    machine = found._replace(name=site) if site else found
    procs = {node.name: node.procs for node in machine.nodes}
    # The size as the scheduler tells it, else as comments to fill in.
    size = "# max_procs = 512\n# procs_per_node = 24"
    if procs:
        size = f"max_procs = {sum(procs.values())}\nprocs_per_node = {mode(procs.values())}"
    seen = "".join(f"# Found here: {printable(line, 500)}.\n" for line in machine.seen)
    tables = str(out.absolute().parent / f"{out.stem}-tables")
    strings = {"tables": quoted(tables), "name": quoted(machine.name), "timezone": quoted(machine.timezone)}
    text = template("site.toml", seen=seen, source=machine.source, size=size, **strings)
    text += template("checks.toml") if machine.source.startswith("[source]") else ""
    parse_settings(tomllib.loads(text), printable(str(out)))
    out.write_text(text, encoding="utf-8")
    return machine


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
    """Write units of systemd for a config to a folder; InputError where one exists, or `at` is no time as in 02:15.

    The Prefect server and the command that serves the site under it; the guard; a service and a timer for a site
    without a server.
    """
    if not _CLOCK.fullmatch(at):
        raise InputError(f"--at {printable(at)}", "no time of day", "a time as in 02:15")
    hour, minute = map(int, at.split(":"))
    site, config = settings.site, config.absolute()
    needed = slurm_environment(environment, settings.ingest.sacct_command) if settings.source.kind == "sacct" else {}
    given = "".join(f"Environment={quoted(f'{name}={value}')}\n" for name, value in needed.items())
    values = {"site": printable(site.name), "folder": str(config.parent), "environment": given}
    # A percent sign would begin a specifier of systemd.
    common = {key: text.replace("%", "%%") for key, text in values.items()} | {"at": at, "zone": site.timezone}
    schedule = ("--cron", f"{minute} {hour} * * *", "--timezone", site.timezone)
    unit, server = f"walltime-{site_slug(site.name)}", str(Path(sys.executable).parent / "prefect")
    units = {
        f"{unit}.service": ("nightly.service", [*program(), "run", str(config), "--quiet"]),
        f"{unit}.timer": ("nightly.timer", []),
        f"{unit}-serve.service": ("serve.service", [*program(), "serve", str(config), *schedule]),
        f"{unit}-guard.service": ("guard.service", [*program(), "guard", str(config)]),
        PREFECT_UNIT: ("prefect.service", [server, "server", "start"]),
    }
    if (folder / PREFECT_UNIT).exists():
        # Another site has it: one server serves both.
        del units[PREFECT_UNIT]
    _refuse_existing(folder / name for name in units)
    folder.mkdir(parents=True, exist_ok=True)
    for name, (file, words) in units.items():
        text = template(file, **common, command=" ".join(map(unit_word, words)))
        (folder / name).write_text(text, encoding="utf-8")
    return tuple(folder / name for name in units)


def program() -> list[str]:
    """The words that start this installation's `walltime`."""
    beside = Path(sys.executable).parent / "walltime"
    return [str(beside)] if os.access(beside, os.X_OK) else [sys.executable, "-m", "flows.cli"]


def _refuse_existing(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.exists():
            do = "remove it, or choose another name"
            raise InputError(printable(str(path)), "a file that exists", "a new file", do)
