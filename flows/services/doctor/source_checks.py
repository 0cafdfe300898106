"""The checks of where a config takes its jobs from: logs, a folder, a table, or sacct."""

import shutil
from collections.abc import Iterator

from flows.services.doctor.findings import Finding, Level, Store, of_error
from flows.services.init.machine import program_failure
from flows.services.run.prepare import listed_paths
from pipeline.core.errors import InputError
from pipeline.core.text import printable
from pipeline.ingest.sources import Source, compression_of


def check_logs(store: Store) -> Iterator[Finding]:
    """The logs, the folder or the table that the config names can be opened."""
    if store.settings is None or store.config is None:
        return
    if store.settings.source.kind == "logs" and not store.settings.logs:
        do = "set logs in the config, or give --log to each run"
        yield store.finding("logs", Level.NOTE, store.config, "no logs in the config", do)
        return
    try:
        for path in listed_paths(store.settings, store.config) or ():
            compression_of(Source(path, str(path)))
            if not path.stat().st_size:
                do = "see that the export of the log works"
                yield store.finding("logs", Level.WARNING, path, "an empty file", do)
    except InputError as error:
        yield of_error("logs", Level.ERROR, error)


def check_sacct(store: Store) -> Iterator[Finding]:
    """Where the config's source is sacct: the program is there, and answers a question that needs no accounting."""
    if store.settings is None or store.config is None or store.settings.source.kind != "sacct":
        return
    named = store.settings.ingest.sacct_command
    found = shutil.which(named, path=store.environment.get("PATH"))
    if found is None:
        seen, do = f"no program {printable(named)}", "install Slurm's commands, or set ingest.sacct_command to its path"
    else:
        failure = program_failure([found, "--version"], store.environment)
        seen = f"{printable(found)} --version does not answer ({failure})" if failure else ""
        do = "call it in a terminal, and correct Slurm's installation"
    if seen:
        yield store.finding("sacct", Level.ERROR, store.config, seen, do)
