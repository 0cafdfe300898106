"""Writes a first config, and units of systemd for it; an existing file is never replaced."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from flows.services.init.config_text import config_text, read_back
from flows.services.init.machine import Machine, look
from flows.services.init.systemd_units import slurm_environment, unit_texts
from flows.services.run.run_names import site_slug
from pipeline.core.errors import InputError
from pipeline.core.settings import RunSettings
from pipeline.core.text import printable


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
