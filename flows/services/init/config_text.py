"""The text of a first config, with a comment on every setting."""

import json
import tomllib
from pathlib import Path

from flows.services.init.machine import Machine
from pipeline.core.errors import InputError
from pipeline.core.settings import RunSettings, parse_settings
from pipeline.core.text import printable

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
# "auto" finds the format by content; `walltime inspect` shows what it is taken for.
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


def config_text(machine: Machine, tables: Path) -> str:
    """The config of a machine, which publishes to `tables`; InputError for a path or name that TOML cannot hold."""
    seen = "".join(f"# Found here: {printable(line, 500)}.\n" for line in machine.seen)
    text = (
        f"# Written by walltime init. Every other setting has a default; configs/swf.toml lists them all.\n{seen}\n"
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
